/*
 * A call stack: frames of the interpreter first, then those of the machine,
 * innermost first in both.
 *
 * A frame is one word: the address of an instruction, or a place in a program
 * text and a line. Places are kept once, for the whole run, in bounded memory.
 */
#ifndef GP_STATS_STACK_H
#define GP_STATS_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GP_STACK_PYTHON 64u
#define GP_STACK_NATIVE 32u

/* Why a stack has no frames of the interpreter. */
enum gp_stack_python {
	GP_PYTHON_FRAMES,     /* it has */
	GP_PYTHON_NONE,       /* no Python in the process */
	GP_PYTHON_NOT_HERE,   /* the thread runs no Python code */
	GP_PYTHON_UNKNOWN,    /* one whose structures are not known */
	GP_PYTHON_UNREADABLE, /* memory could not be read as expected */
};

struct gp_stack {
	uint16_t python, native; /* frames */
	bool python_cut;         /* there were more */
	bool native_cut;         /* the same */
	uint8_t why;             /* enum gp_stack_python */
	uint64_t frames[GP_STACK_PYTHON + GP_STACK_NATIVE];
};

/* A sentence, "" for GP_PYTHON_FRAMES and GP_PYTHON_NONE. */
const char *gp_stack_python_says(enum gp_stack_python why);

/* A function in a file, found or entered: not 0. 0: the room for names is
 * used up. Thread-safe; takes a leaf lock. */
uint32_t gp_place(const char *file, const char *function);

/* How many places there was no room for. Thread-safe. */
uint64_t gp_places_lost(void);

/* An interpreter's frame; line 0: not known. */
static inline uint64_t gp_frame_at(uint32_t place, uint32_t line)
{
	return 1ull << 63 | (uint64_t)(place & 0x7fffffff) << 32 | line;
}

/* Is it such a one? Else it is the address of an instruction. */
static inline bool gp_frame_is_place(uint64_t frame)
{
	return frame >> 63;
}

/* Where a frame is, for people. Strings are "" when not known; they live for
 * ever, but what stands in `name`. */
struct gp_frame_text {
	const char *function;
	const char *file; /* a program text, or a library */
	uint64_t line;    /* of a text; 0: not known */
	uint64_t offset;  /* in a library */
	uint64_t address; /* of an instruction, else 0 */
	char name[256];   /* room for `function` */
};

/* Looks the frame up. For instructions asks the dynamic linker: not for signal
 * handlers. Thread-safe. */
void gp_frame_look_up(uint64_t frame, struct gp_frame_text *text);

uint64_t gp_stack_hash(const struct gp_stack *stack);

#endif
