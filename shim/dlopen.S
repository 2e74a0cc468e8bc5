/*
 * dlopen, exported in front of glibc's, which finds the caller by the return
 * address: the real function is reached by a jump (tail.inc). Questions whether
 * something is loaded (RTLD_NOLOAD), ours among them, and the program itself
 * (NULL) are of no interest.
 *
 * gp_dlopen_real is filled by gp_dlopen_init() in libraries.c.
 */
#include "shim/tail.inc"

#define RTLD_NOLOAD 4

	function dlopen
#if defined(__x86_64__)
	testq %rdi, %rdi
	je .Lreal
	testl $RTLD_NOLOAD, %esi
	jne .Lreal
	keep_arguments
	call gp_dlopen_note
	restore_arguments
#else
	cbz x0, .Lreal
	tbnz w1, #2, .Lreal		/* RTLD_NOLOAD */
	keep_arguments
	bl gp_dlopen_note
	restore_arguments
#endif
.Lreal:
	jump_to_real gp_dlopen_real, gp_dlopen_init
	end_function dlopen

	.section .note.GNU-stack, "", %progbits
