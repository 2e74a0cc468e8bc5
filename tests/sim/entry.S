/*
 * The exported functions.
 *
 * Each is a door: it names its row of the table, lets sim_enter() count the
 * call and decide whether it may go on, and jumps to the body with the
 * caller's arguments, those on the stack included, as they were. The body
 * returns to the caller, so a door leaves no frame. No driver function takes
 * floating-point arguments; vector registers are not kept.
 *
 * sim_door_NAME is the same address without going through the symbol table:
 * a preloaded library may own NAME.
 */
#define SIM(name, version, twin, flags, body) DOOR name, body;
#define SIM_NO(name, version) DOOR name, sim_not_supported;

#if defined(__x86_64__)

.macro DOOR name, body
	.p2align 4
	.globl	\name
	.type	\name, @function
	.globl	sim_door_\name
	.hidden	sim_door_\name
	.hidden	sim_row_\name
	.hidden	\body
\name:
sim_door_\name:
	.cfi_startproc
	endbr64
	leaq	sim_row_\name(%rip), %rax
	leaq	\body(%rip), %r11
	jmp	sim_door
	.cfi_endproc
	.size	\name, . - \name
.endm

	.text
	.hidden	sim_enter
	.type	sim_door, @function
sim_door:
	.cfi_startproc
	pushq	%r11
	.cfi_adjust_cfa_offset 8
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	pushq	%rsi
	.cfi_adjust_cfa_offset 8
	pushq	%rdx
	.cfi_adjust_cfa_offset 8
	pushq	%rcx
	.cfi_adjust_cfa_offset 8
	pushq	%r8
	.cfi_adjust_cfa_offset 8
	pushq	%r9
	.cfi_adjust_cfa_offset 8
	movq	%rax, %rdi
	call	sim_enter
	popq	%r9
	.cfi_adjust_cfa_offset -8
	popq	%r8
	.cfi_adjust_cfa_offset -8
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%rdx
	.cfi_adjust_cfa_offset -8
	popq	%rsi
	.cfi_adjust_cfa_offset -8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	popq	%r11
	.cfi_adjust_cfa_offset -8
	testl	%eax, %eax
	jne	1f
	jmp	*%r11
1:	ret
	.cfi_endproc
	.size	sim_door, . - sim_door

#elif defined(__aarch64__)

.macro DOOR name, body
	.p2align 4
	.globl	\name
	.type	\name, %function
	.globl	sim_door_\name
	.hidden	sim_door_\name
	.hidden	sim_row_\name
	.hidden	\body
\name:
sim_door_\name:
	.cfi_startproc
	hint	#34
	adrp	x16, sim_row_\name
	add	x16, x16, :lo12:sim_row_\name
	adrp	x17, \body
	add	x17, x17, :lo12:\body
	b	sim_door
	.cfi_endproc
	.size	\name, . - \name
.endm

	.text
	.hidden	sim_enter
	.type	sim_door, %function
sim_door:
	.cfi_startproc
	stp	x29, x30, [sp, #-96]!
	.cfi_adjust_cfa_offset 96
	.cfi_rel_offset x29, 0
	.cfi_rel_offset x30, 8
	stp	x0, x1, [sp, #16]
	stp	x2, x3, [sp, #32]
	stp	x4, x5, [sp, #48]
	stp	x6, x7, [sp, #64]
	str	x17, [sp, #80]
	mov	x0, x16
	bl	sim_enter
	mov	w9, w0
	ldr	x17, [sp, #80]
	ldp	x6, x7, [sp, #64]
	ldp	x4, x5, [sp, #48]
	ldp	x2, x3, [sp, #32]
	ldp	x0, x1, [sp, #16]
	ldp	x29, x30, [sp], #96
	.cfi_adjust_cfa_offset -96
	.cfi_restore x29
	.cfi_restore x30
	cbnz	w9, 1f
	br	x17
1:	mov	w0, w9
	ret
	.cfi_endproc
	.size	sim_door, . - sim_door

#else
#error "the simulated driver's doors are written for x86-64 and aarch64"
#endif

#include "tests/sim/sim.def"

	.section .note.GNU-stack, "", %progbits
