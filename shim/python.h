/*
 * The Python frames of the calling thread.
 *
 * Neither the GIL nor anything of Python is called for, but for the one
 * function that gives the thread's own state, which is a look into thread-local
 * storage. While the thread is in a call of ours its frames do not move,
 * whether it holds the GIL or, as under ctypes and in most extension modules,
 * does not. Everything is read through peek.h and checked: a Python that is
 * otherwise than expected gives no frames, never a crash.
 */
#ifndef GP_SHIM_PYTHON_H
#define GP_SHIM_PYTHON_H

#include "stats/stack.h"

/* Looks for a Python in the process, if none was found yet. May take the dynamic
 * linker's lock. One caller at a time, as gp_python_walk(). */
void gp_python_find(void);

/* Fills stack->frames from the start, and .python, .python_cut, .why. Allocates
 * nothing. errno is not preserved. */
void gp_python_walk(struct gp_stack *stack);

/* Is that the interpreter's own code? Below it a machine's frames say nothing
 * that Python's do not. */
bool gp_python_has(uintptr_t code);

#endif
