/*
 * The order oracle: is the work ordered as the plain program's would be?
 *
 * On with the setting schedule:N. Every stream is a strand, and each piece of
 * work in it has a number. Beside every operation stand two clocks, which say
 * for each strand up to which number its work comes before the operation:
 *
 *   order   by the streams, events, default stream's rules and waits of the
 *           host that there really were
 *   plain   by those that the program itself asked for, its frees taken for
 *           the barriers that cuMemFree makes of them
 *
 * A clock that leaves out what a free stood behind is too weak; one that has
 * unfinished work of which `plain` knows nothing is too strong. Memory keeps
 * who used it last, by physical place, and for which of the program's
 * allocations; two of them must never meet without order.
 *
 * What it objects to it tells on stderr with the history of both sides, and
 * ends the process. What it knows it never forgets: a test is one process.
 *
 * All functions but those of gpusim.h are called with the lock held, and only
 * where sim_oracle_on().
 */
#ifndef SIM_ORACLE_H
#define SIM_ORACLE_H

#include "tests/sim/engine.h"

#define SIM_STRANDS 512

struct sim_clock {
	uint32_t at[SIM_STRANDS];
};

/* A range that an operation uses, and whose it is. */
struct sim_use {
	CUdeviceptr va;
	uint64_t bytes;
	uint32_t tenant; /* serial of the program's allocation; 0: nobody's */
	bool write;
};

/* What the oracle knows of an operation. Immutable but `returned`, and what a
 * visit adds at once; kept for ever. */
struct sim_past {
	unsigned strand;
	uint32_t number; /* in its strand; 0: it does nothing itself */
	uint64_t serial; /* in the log */
	unsigned width;  /* strands that the clocks know */
	uint32_t *order, *plain;
	enum sim_work_kind kind;
	const char *name;  /* of a kernel */
	uint64_t thread;   /* that submitted it */
	bool program;      /* the program's; else the library's own */
	bool shows;        /* the host may look at what it does */
	uint64_t returned; /* the moment its call did; 0: not yet */
	/* Whose frees wait for it, but its own context's. */
	struct {
		struct sim_ctx *at[2];
		unsigned n;
	} visited;
	unsigned num_uses;
	struct sim_use *uses;
};

/* A stream's side. */
struct sim_strand {
	unsigned number;
	uint64_t stream; /* its id */
	struct sim_ctx *ctx;
	bool legacy, blocking;
	bool library;  /* has work of the library's own only */
	uint32_t last; /* number of its latest work */
	struct sim_clock order, plain;
};

static inline bool sim_oracle_on(void)
{
	return sim.settings.schedule != 0;
}

/* ---- what happens (oracle.c) ------------------------------------------------- */

/* `op` was put into its stream. */
void sim_oracle_submit(struct sim_op *op);
/* That was a copy, which visits these contexts. */
void sim_oracle_visit(const struct sim_op *op, const struct sim_visit *visit);
/* A wait for `op`, complete already, was not put into the stream. */
void sim_oracle_waited(struct sim_stream *stream, const struct sim_op *op,
		       bool program);
/* The host is about to wait for `op`; knows it complete. */
void sim_oracle_host_waits(const struct sim_op *op);
void sim_oracle_host_knows(const struct sim_op *op);
/* The same of all a context has so far, or its blocking streams; of a stream
 * that has nothing left. */
void sim_oracle_drain_begin(struct sim_ctx *ctx, bool blocking,
			    struct sim_clock *until);
void sim_oracle_drain_waits(const struct sim_clock *until);
void sim_oracle_drain_end(const struct sim_clock *until);
void sim_oracle_idle(const struct sim_stream *stream);

/* Known complete to the host. */
bool sim_oracle_known(const struct sim_past *past);

/* ---- memory (oracle_memory.c) -------------------------------------------------- */

struct sim_uses {
	struct sim_use *at;
	unsigned n, room;
	bool shows;
};
/* What some work uses. */
void sim_oracle_uses(const struct sim_work *work, struct sim_uses *uses);
/* It is carried out now. */
void sim_oracle_run(const struct sim_op *op);
/* It ended with this error. */
void sim_oracle_failed(const struct sim_op *op, CUresult err);
void sim_oracle_unmap(const struct sim_map *map);
void sim_oracle_phys_free(struct sim_phys *phys);

/* ---- histories (oracle_log.c) ---------------------------------------------------- */

enum sim_event_kind {
	SIM_E_WORK,
	SIM_E_WAIT,  /* an event's wait, `past` is what is waited for */
	SIM_E_HOST,  /* the host knows `past` complete */
	SIM_E_DRAIN, /* the host knows all of the context complete */
	SIM_E_ALLOC,
	SIM_E_FREE,
	SIM_E_FREED,
	SIM_E_UNMAP,
};
#define SIM_NO_STRAND UINT32_MAX

/* Returns the entry's serial. */
uint64_t sim_oracle_log(enum sim_event_kind kind, const struct sim_past *past,
			unsigned strand, const struct sim_use *use);
/* Ends the process. `older`, `newer`: may be NULL. */
void sim_oracle_object(const struct sim_past *older,
		       const struct sim_past *newer, const char *format, ...)
	__attribute__((noreturn, format(printf, 3, 4)));
/* The work of that number, else NULL. */
const struct sim_past *sim_oracle_work(unsigned strand, uint32_t number);
const struct sim_strand *sim_oracle_strand(unsigned number);

#endif
