/*
 * dlsym, exported in front of glibc's.
 *
 * dlsym(RTLD_NEXT, name) answers "after the caller", and glibc takes the
 * caller from the return address: the real function must be reached by a jump,
 * with the program's own frame on top. A compiler does that at -O2 and not at
 * -O0 or under a sanitizer, hence assembly. Names that begin neither with
 * "cu" nor with "nv" never enter C code, so that sanitizer runtimes can call dlsym before they
 * are initialised themselves.
 *
 * gp_dlsym_real is filled by gp_dlsym_init() in dlsym.c.
 */

#if defined(__x86_64__)
	.text
	.globl dlsym
	.type dlsym, @function
	.p2align 4
dlsym:
	.cfi_startproc
	endbr64
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
	pushq %rdi
	.cfi_adjust_cfa_offset 8
	pushq %rsi
	.cfi_adjust_cfa_offset 8
	subq $8, %rsp			/* 16-byte alignment at the call */
	.cfi_adjust_cfa_offset 8
	movq 24(%rsp), %rdx		/* the caller */
	call gp_dlsym_cuda
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	testq %rax, %rax
	jne .Ldone
.Lreal:
	movq gp_dlsym_real(%rip), %rax
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
	call gp_dlsym_init
	addq $8, %rsp
	.cfi_adjust_cfa_offset -8
	popq %rsi
	.cfi_adjust_cfa_offset -8
	popq %rdi
	.cfi_adjust_cfa_offset -8
	jmp *%rax
.Ldone:
	ret
	.cfi_endproc
	.size dlsym, .-dlsym

#elif defined(__aarch64__)
	.text
	.globl dlsym
	.type dlsym, %function
	.p2align 4
dlsym:
	.cfi_startproc
	hint #34			/* bti c */
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
	stp x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	stp x0, x1, [sp, #16]
	mov x2, x30			/* the caller */
	bl gp_dlsym_cuda
	mov x9, x0
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	cbz x9, .Lreal
	mov x0, x9
	ret
.Lreal:
	adrp x9, gp_dlsym_real
	ldr x9, [x9, :lo12:gp_dlsym_real]
	cbz x9, .Linit
	br x9
.Linit:
	stp x29, x30, [sp, #-32]!
	.cfi_adjust_cfa_offset 32
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	mov x29, sp
	stp x0, x1, [sp, #16]
	bl gp_dlsym_init
	mov x9, x0
	ldp x0, x1, [sp, #16]
	ldp x29, x30, [sp], #32
	.cfi_adjust_cfa_offset -32
	.cfi_restore x29
	.cfi_restore x30
	br x9
	.cfi_endproc
	.size dlsym, .-dlsym
#else
#error "gpupool: dlsym.S needs a tail call for this architecture"
#endif

	.section .note.GNU-stack, "", %progbits
