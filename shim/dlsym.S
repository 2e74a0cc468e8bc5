/*
 * dlsym, exported in front of glibc's, which answers RTLD_NEXT by the return
 * address: the real function is reached by a jump (tail.inc). Names that begin
 * neither with "cu" nor with "nv" never enter C code, so that sanitizer
 * runtimes can call dlsym before they are initialised themselves.
 *
 * gp_dlsym_real is filled by gp_dlsym_init() in dlsym.c.
 */
#include "shim/tail.inc"

	function dlsym
#if defined(__x86_64__)
	testq %rsi, %rsi
	je .Lreal
	cmpb $'c', (%rsi)
	jne .Lnv
	cmpb $'u', 1(%rsi)
	je .Lask
	jmp .Lreal
.Lnv:
	cmpb $'n', (%rsi)
	jne .Lreal
	cmpb $'v', 1(%rsi)
	jne .Lreal
.Lask:
	keep_arguments
	movq 24(%rsp), %rdx		/* the caller */
	call gp_dlsym_cuda
	restore_arguments
	testq %rax, %rax
	je .Lreal
	ret
#else
	cbz x1, .Lreal
	ldrb w9, [x1]
	cmp w9, #'c'
	b.ne .Lnv
	ldrb w9, [x1, #1]
	cmp w9, #'u'
	b.eq .Lask
	b .Lreal
.Lnv:
	cmp w9, #'n'
	b.ne .Lreal
	ldrb w9, [x1, #1]
	cmp w9, #'v'
	b.ne .Lreal
.Lask:
	mov x2, x30			/* the caller */
	keep_arguments
	bl gp_dlsym_cuda
	restore_arguments
	cbz x9, .Lreal
	mov x0, x9
	ret
#endif
.Lreal:
	jump_to_real gp_dlsym_real, gp_dlsym_init
	end_function dlsym

	.section .note.GNU-stack, "", %progbits
