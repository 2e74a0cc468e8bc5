/*
 * Streams and the engine that works them off.
 *
 * A stream is a queue. Its head may start once what it is ordered behind has
 * completed: the operation a wait names; for the legacy stream, everything
 * submitted before to the context's blocking streams; for these, everything
 * submitted before to the legacy stream. An operation's effect happens at
 * its end, so whoever looks too early sees the old contents.
 *
 * What can start at once and takes no time is done by the submitting thread;
 * all else by one scheduler thread, host functions by another. Both are
 * started when first needed.
 */
#ifndef SIM_ENGINE_H
#define SIM_ENGINE_H

#include "tests/sim/work.h"

struct sim_past;
struct sim_strand;

enum sim_op_state { SIM_QUEUED, SIM_RUNNING, SIM_CLAIMED, SIM_DONE };

struct sim_op {
	struct sim_op *next;
	struct sim_stream *stream; /* NULL once done */
	uint64_t seq;              /* order of submission, process-wide */
	unsigned refs;
	enum sim_op_state state;
	uint64_t due;          /* when it completes, ns; while running */
	uint64_t finished;     /* when it did */
	struct sim_past *past; /* the oracle's; kept for ever */
	struct sim_work work;
};

struct sim_stream {
	struct sim_ctx *ctx;
	struct sim_ctx *green; /* the one in ctx that it is of, else NULL */
	uint64_t id;
	unsigned flags; /* CU_STREAM_NON_BLOCKING or 0 */
	int priority;
	uint64_t thread; /* serial, of a per-thread default stream */
	bool legacy, sweeper, hidden, destroyed;
	bool detached; /* its green context was destroyed */
	unsigned
		launching; /* calls of cuGraphLaunch under way, see launch_us */
	uint64_t held;     /* seq of the last ctx->held it waits for */
	struct sim_op *head, *tail;
	struct sim_list link;   /* in ctx->streams */
	struct sim_list active; /* in the engine's list, while it has work */
	struct sim_capture *capture; /* what it is captured by, else NULL */
	struct sim_node **deps;      /* the last nodes it added; owned */
	size_t dep_count;
	struct sim_strand *strand; /* the oracle's; kept for ever */
	uint32_t luck;             /* see lazy.c; 0: not drawn */
};

/* All of these: locked; those that wait or run work drop the lock. */

/* Queue `work` on `stream`, or add it to the stream's capture. Takes over
 * what `work` owns, also on failure. *op, where wanted, is a reference
 * (NULL if it was captured). */
CUresult sim_submit(struct sim_stream *stream, struct sim_work *work,
		    struct sim_op **op);
/* Queue it behind all the context has, with nothing behind it. */
CUresult sim_submit_last(struct sim_ctx *ctx, struct sim_work *work,
			 struct sim_op **op);
/* Queue it in *stream, one of the context's that no program sees, which is made
 * when it is wanted first. */
CUresult sim_submit_hidden(struct sim_ctx *ctx, struct sim_stream **stream,
			   struct sim_work *work, struct sim_op **op);
/* All the context gets from now on comes after `op`. */
CUresult sim_hold_behind(struct sim_ctx *ctx, struct sim_op *op);
/* Around a copy in the stream. What it takes of its work is not to change
 * meanwhile. visit.c. */
struct sim_visit {
	struct sim_ctx *at[2]; /* whose memory it reaches, none the stream's */
	bool kept[2];          /* part of all that one has to do */
	unsigned n;
};
CUresult sim_visit_begin(struct sim_stream *stream, const struct sim_work *work,
			 struct sim_visit *visit);
CUresult sim_visit_end(struct sim_stream *stream, struct sim_op *op,
		       const struct sim_visit *visit);
void sim_op_ref(struct sim_op *op);
void sim_op_unref(struct sim_op *op);
void sim_op_wait(struct sim_op *op);

/* Wait until the context has none of the work submitted so far. */
void sim_drain(struct sim_ctx *ctx);
/* The same, and nobody submits anything until sim_barrier_end(). */
void sim_barrier_begin(struct sim_ctx *ctx);
void sim_barrier_end(struct sim_ctx *ctx);
bool sim_idle(const struct sim_ctx *ctx);
/* The same two for what the legacy stream stands for: it and all streams
 * that it waits for. */
void sim_drain_blocking(struct sim_ctx *ctx);
bool sim_blocking_idle(struct sim_ctx *ctx);
/* Wait for anything to happen. */
void sim_wait_more(void);

struct sim_stream *sim_stream_new(struct sim_ctx *ctx, unsigned flags);
/* One for the program, in a context, which may be a green one. Not locked. */
CUresult sim_stream_create_in(struct sim_ctx *ctx, CUstream *out,
			      unsigned flags, int priority);
/* Its work goes on; the stream is freed after it. */
void sim_stream_drop(struct sim_stream *stream);

/* What the program's handle means now: 0 and the special ones too. NULL: no
 * stream of a living context. */
struct sim_stream *sim_stream_of(CUstream handle);

/* Between the engine's own files. The head of a stream may start; do its work
 * and take it off; there is work for the threads (the one of host functions):
 * have them, and wake them. */
bool sim_op_ready(const struct sim_op *op);
void sim_op_perform(struct sim_op *op);
void sim_engine_wake(bool host);

/* At exit: no thread of the engine is left running simulator code. Takes
 * the lock. */
void sim_engine_stop(void);

#endif
