/*
 * The random program: what it has, and what it may do with it.
 *
 * Its own order is sound. Before memory is used in another stream than the
 * last time, that stream is made to wait for an event; or nothing is done,
 * where a free came between (it is a barrier, and programs lean on that), the
 * host waited, or the default stream's rules order the two.
 *
 * It has one context or two (w.contexts), on a card each or on the same, with
 * streams, events and allocations of its own each. A thread is in one of them;
 * what it does concerns that one, but for copies between them (across.c).
 *
 * Whoever's turn it is (threads.h) may touch all of this without a lock; what
 * a call uses is marked busy around it, as turns change inside calls.
 */
#ifndef ORDER_WORLD_H
#define ORDER_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include <cuda.h>

#include "tests/order/threads.h"
#include "tests/sim/gpusim.h"

#define MAX_CONTEXTS 2
/* In each context. */
#define MAX_MEMS     48
#define MAX_STREAMS  16
#define MAX_EVENTS   16
/* In all. */
#define MAX_PINS     8
#define MAX_EXECS    4
#define EXEC_MEMS    4
#define PIN_WORDS    1024
#define FLAGS        4000

/* The streams of a context; of the program's making come first. */
#define LEGACY       MAX_STREAMS
#define PER_THREAD   (MAX_STREAMS + 1) /* + thread */
#define STREAM_SLOTS (PER_THREAD + MAX_THREADS)
#define NOWHERE      (-1)

/* Streams, allocations and events are named by number, over all contexts. */
#define ALL_STREAMS  (MAX_CONTEXTS * STREAM_SLOTS)
#define ALL_MEMS     (MAX_CONTEXTS * MAX_MEMS)
#define ALL_EVENTS   (MAX_CONTEXTS * MAX_EVENTS)

struct stream {
	CUstream handle;
	bool alive, blocking;
	bool capturing;
	unsigned calls;  /* under way */
	uint64_t serial; /* of all streams there were */
	uint64_t last;   /* moment of the last call for it */
};

struct mem {
	CUdeviceptr va; /* 0: none */
	uint64_t bytes;
	bool busy;
	bool drivers; /* may not be the pool's, as a stream captured */
	bool filled;
	CUdeviceptr at; /* what is filled: this many words of this value */
	uint64_t words;
	uint32_t value;
	int home; /* the stream that used it last, NOWHERE: any may */
	uint64_t home_serial;
	uint64_t used; /* the moment of that use's return */
	unsigned
		waits; /* contexts, a bit each, whose frees wait for that use */
	unsigned defaults; /* contexts in whose legacy streams it was */
	unsigned execs;    /* graphs that use it */
};

struct event {
	CUevent handle;
	bool busy, recorded;
	uint64_t moment; /* when its record had returned */
};

/* Pinned memory for copies. */
struct pin {
	uint32_t *at;
	enum { PIN_IDLE, PIN_TO_HOST, PIN_TO_DEVICE } state;
	bool busy;
	uint32_t value, words;
	uint64_t moment; /* when the copy's call had returned */
	unsigned waits;  /* contexts, a bit each, whose frees wait for it */
};

struct exec {
	CUgraphExec handle; /* NULL: none */
	bool busy;
	unsigned context; /* that it was captured in */
	unsigned n;
	struct {
		int mem;
		CUdeviceptr at;
		uint64_t words;
		uint32_t value;
	} write[EXEC_MEMS];
};

struct world {
	uint64_t seed, random;
	unsigned ops, streams, threads;
	bool zero;     /* allocations are filled with zeros */
	unsigned own;  /* of 4 frees so many lean on no order */
	uint64_t done; /* operations so far */
	uint64_t moment;
	/* By context: the latest moment that a free stood behind; and by thread. */
	uint64_t barrier[MAX_CONTEXTS];
	uint64_t own_free[MAX_CONTEXTS][MAX_THREADS];
	unsigned inside; /* threads in an operation */
	bool half;       /* one waits for a value not written yet */
	unsigned captures, blocking_captures; /* under way */
	uint64_t captured;                    /* moment of the last one's end */
	unsigned frees, ctx_waits;            /* under way */
	uint64_t live, most;                  /* bytes */
	bool tight;                           /* hardly more memory than that */
	uint64_t serials;
	unsigned contexts;
	bool same_card;        /* that they are on */
	unsigned want_peers;   /* so many are to reach the other some time */
	bool peers_asked;      /* that has begun */
	bool enabling;         /* that is under way */
	unsigned crossing;     /* copies under way */
	unsigned began, reach; /* contexts, a bit each, that may; that do */
	struct context {
		CUcontext handle;
		CUfunction fill, add, copy, expect;
	} context[MAX_CONTEXTS];
	struct mem mem[ALL_MEMS];
	struct stream stream[ALL_STREAMS];
	struct event event[ALL_EVENTS];
	struct pin pin[MAX_PINS];
	struct exec exec[MAX_EXECS];
	uint32_t *flag; /* pinned: [0] counts, the others are waited for */
	uint32_t flags;
};
extern struct world w;

uint32_t draw(uint32_t below);
uint64_t moment(void);

/* The program found something wrong itself; ends the process. */
void fail(const char *format, ...)
	__attribute__((noreturn, format(printf, 1, 2)));
/* Around calls of the driver. */
void begin(enum gpusim_call kind);
void end(CUresult rc, const char *what);

/* world.c */
void world_start(void);
void world_end(void);

/* The context that this thread is in; go to another. */
unsigned here(void);
void go_to(unsigned context);

static inline unsigned context_of_stream(int stream)
{
	return (unsigned)stream / STREAM_SLOTS;
}

static inline unsigned context_of_mem(int mem)
{
	return (unsigned)mem / MAX_MEMS;
}

static inline int legacy_of(unsigned context)
{
	return (int)context * STREAM_SLOTS + LEGACY;
}

static inline bool is_legacy(int stream)
{
	return stream % STREAM_SLOTS == LEGACY;
}

/* Something of each kind that is not in use now, of the thread's context; -1:
 * none. */
int any_mem(bool filled);
int any_mem_of(unsigned context, bool filled);
int any_stream(void); /* that work may be given to */
int any_event(bool recorded);
int any_event_of(unsigned context, bool recorded);
int any_pin(void);
CUstream handle_of(int stream);

/* Make the stream's next work come after the last use of the memory. False:
 * that is not to be had now. */
bool order_mem(int mem, int stream);
/* The same where that work is in the legacy streams of these contexts. */
bool order_mem_in(int mem, int stream, unsigned defaults);
/* A free in its own context would wait for the last use now. False: that is not
 * to be had now. */
bool order_free(int mem);
/* Used there now. */
void used_mem(int mem, int stream);
void used_mem_in(int mem, int stream, unsigned waits, unsigned defaults);
/* A call for the stream begins, ends. */
void hold_stream(int stream);
void let_stream(int stream);

/* The host knows everything of the context complete that had returned by then.
 * What it brought or read is looked at. */
void look_at_pins(unsigned context, uint64_t until);

/* ops.c: one random operation. `capture`: while this thread captures. */
void operate(bool capture);
/* graphs.c */
void op_capture(void);
void op_launch_graph(void);
bool drop_execs_of(int mem);
/* memory.c */
void op_alloc(void);
void op_free(void);
void op_free_async(void);
void free_mem(int mem);
/* sync.c */
void op_stream_create(void);
void op_stream_destroy(void);
void op_record(void);
void op_wait(void);
void op_event_sync(void);
void op_event_query(void);
void op_stream_sync(void);
void op_stream_query(void);
void op_ctx_sync(void);
void op_values(void);
void op_host_function(void);
/* across.c */
void op_across(void);
void op_across_host(void);
void op_peer(void);
void enable_peers(void);
/* work.c */
void op_fill(void);
void op_expect(void);
void op_add(void);
void op_copy(void);
void op_set(void);
void op_to_device(void);
void op_to_host(void);
void op_sync_copy(void);
/* Memory, which is marked busy, and words of it hold this value now. */
void filled_with(struct mem *m, CUdeviceptr at, uint64_t words, uint32_t value);
CUresult launch_words(CUfunction f, CUstream stream, CUdeviceptr at,
		      uint32_t value, uint64_t words);
void choose_words(const struct mem *mem, CUdeviceptr *at, uint64_t *words);

#endif
