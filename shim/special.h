/*
 * What an allocation or a free has to think of besides its pool. Nothing, most
 * of the time: the hot path looks at one word, whose bits are kept by those who
 * know, and leaves the rest to a cold one, which asks them.
 */
#ifndef GP_SHIM_SPECIAL_H
#define GP_SHIM_SPECIAL_H

#include <stdbool.h>

enum gp_special {
	GP_SPECIAL_PHASE = 1,     /* gpupool does not run here, or not yet */
	GP_SPECIAL_LOADS = 2,     /* a library may have come a moment ago */
	GP_SPECIAL_CAPTURE = 4,   /* a stream captures */
	GP_SPECIAL_UNWATCHED = 8, /* the program's work is not watched */
	GP_SPECIAL_UNKNOWN = 16,  /* nor all of it known */
	GP_SPECIAL_CHECK = 32,    /* the option `check` */
	GP_SPECIAL_TRACE = 64,    /* a trace is written */
	GP_SPECIAL_FAULT = 128,   /* a context may have had a fault, which is
				     the answer to all of its calls */
};

/* Synchronization: atomic. At first gpupool does not run, and watches nothing. */
extern unsigned gp_special_bits;

/* Any thread. Whoever sees the bit gone sees what was stored before. */
static inline void gp_special_set(enum gp_special bit, bool on)
{
	if (on)
		__atomic_fetch_or(&gp_special_bits, (unsigned)bit,
				  __ATOMIC_SEQ_CST);
	else
		__atomic_fetch_and(&gp_special_bits, ~(unsigned)bit,
				   __ATOMIC_SEQ_CST);
}

/* 0: nothing. */
static inline unsigned gp_special(void)
{
	return __builtin_expect(
		__atomic_load_n(&gp_special_bits, __ATOMIC_ACQUIRE), 0);
}

#endif
