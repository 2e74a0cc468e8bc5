/*
 * dlopen, exported in front of glibc's, which finds the caller (its RPATH, its
 * namespace) by the return address: the real function is reached by a jump, as
 * in dlsym.S. Questions whether something is loaded (RTLD_NOLOAD), ours among
 * them, and the program itself (NULL) are of no interest.
 *
 * gp_dlopen_real is filled by gp_dlopen_init() in libraries.c.
 */

#define RTLD_NOLOAD 4

#if defined(__x86_64__)
	.text
	.globl dlopen
	.type dlopen, @function
	.p2align 4
dlopen:
	.cfi_startproc
	endbr64
	testq %rdi, %rdi
	je .Lreal
	testl $RTLD_NOLOAD, %esi
	jne .Lreal
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp			/* 16-byte alignment at the call */
	.cfi_adjust_cfa_offset 8
	call gp_dlopen_note
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
.Lreal:
	movq gp_dlopen_real(%rip), %rax
	testq %rax, %rax
	je .Linit
	jmp *%rax
.Linit:
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp
	.cfi_adjust_cfa_offset 8
	call gp_dlopen_init
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
	.cfi_endproc
	.size dlopen, .-dlopen

#elif defined(__aarch64__)
	.text
	.globl dlopen
	.type dlopen, %function
	.p2align 4
dlopen:
	.cfi_startproc
	hint #34			/* bti c */
	cbz x0, .Lreal
	tbnz w1, #2, .Lreal
	stp x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	stp x0, x1, [sp, #16]
	bl gp_dlopen_note
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
.Lreal:
	adrp x9, gp_dlopen_real
	ldr x9, [x9, :lo12:gp_dlopen_real]
	cbz x9, .Linit
	br x9
.Linit:
	stp x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	stp x0, x1, [sp, #16]
	bl gp_dlopen_init
	mov x9, x0
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	br x9
	.cfi_endproc
	.size dlopen, .-dlopen
#else
#error "gpupool: dlopen.S needs a tail call for this architecture"
#endif

	.section .note.GNU-stack, "", %progbits
