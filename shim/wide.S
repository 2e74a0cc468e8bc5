/*
 * gp_call_on(function, arg, top): see wide.c. The frame is found from the frame
 * pointer, so that unwinders walk on into the thread's own stack.
 */
	.text
	.globl gp_call_on
	.hidden gp_call_on
	.p2align 4

#if defined(__x86_64__)
	.type gp_call_on, @function
gp_call_on:
	.cfi_startproc
	endbr64
	pushq %rbp
	.cfi_def_cfa_offset 16
	.cfi_offset %rbp, -16
	movq %rsp, %rbp
	.cfi_def_cfa_register %rbp
	movq %rdx, %rsp
	movq %rdi, %rax
	movq %rsi, %rdi
	call *%rax
	movq %rbp, %rsp
	popq %rbp
	.cfi_def_cfa %rsp, 8
	ret
	.cfi_endproc

#elif defined(__aarch64__)
	.type gp_call_on, %function
gp_call_on:
	.cfi_startproc
	hint #34			/* bti c */
	stp x29, x30, [sp, #-16]!
	.cfi_def_cfa_offset 16
	.cfi_offset x29, -16
	.cfi_offset x30, -8
	mov x29, sp
	.cfi_def_cfa_register x29
	mov x9, x0
	mov x0, x1
	mov sp, x2
	blr x9
	mov sp, x29
	ldp x29, x30, [sp], #16
	.cfi_def_cfa sp, 0
	ret
	.cfi_endproc
#else
#error "gpupool: wide.S needs a call for this architecture"
#endif
	.size gp_call_on, .-gp_call_on

	.section .note.GNU-stack, "", %progbits
