/*
 * Room for cold work. A thread of the program may have 16 KiB of stack, and less
 * left when it calls CUDA; what reads files, formats text and asks the dynamic
 * linker takes more, and none of that is the program's to provide.
 */
#ifndef GP_SHIM_WIDE_H
#define GP_SHIM_WIDE_H

/* Calls function(arg) on this thread, on a stack of 256 KiB that is there for
 * the call only; on the thread's own where none can be had. Costs two system
 * calls. Any thread; nests. Preserves what function leaves in errno. */
void gp_wide(void (*function)(void *), void *arg);

#endif
