/*
 * The random program: what it has, and what it may do with it.
 *
 * Its own order is sound. Before memory is used in another stream than the
 * last time, that stream is made to wait for an event; or nothing is done,
 * where a free came between (it is a barrier, and programs lean on that), the
 * host waited, or the default stream's rules order the two.
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

#define MAX_MEMS     48
#define MAX_STREAMS  16
#define MAX_EVENTS   16
#define MAX_PINS     8
#define MAX_EXECS    4
#define EXEC_MEMS    4
#define PIN_WORDS    1024
#define FLAGS        4000

/* Streams of the program's making come first. */
#define LEGACY       MAX_STREAMS
#define PER_THREAD   (MAX_STREAMS + 1) /* + thread */
#define STREAM_SLOTS (PER_THREAD + MAX_THREADS)
#define NOWHERE      (-1)

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
	bool filled;
	CUdeviceptr at; /* what is filled: this many words of this value */
	uint64_t words;
	uint32_t value;
	int home; /* the stream that used it last, NOWHERE: any may */
	uint64_t home_serial;
	uint64_t used;  /* the moment of that use's return */
	unsigned execs; /* graphs that use it */
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
};

struct exec {
	CUgraphExec handle; /* NULL: none */
	bool busy;
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
	uint64_t barrier; /* the latest moment that a free stood behind */
	uint64_t own_free[MAX_THREADS]; /* the same, by thread */
	unsigned inside;                /* threads in an operation */
	bool half; /* one waits for a value not written yet */
	unsigned captures, blocking_captures; /* under way */
	unsigned frees, ctx_waits;            /* under way */
	uint64_t live, most;                  /* bytes */
	bool tight;                           /* hardly more memory than that */
	uint64_t serials;
	CUcontext ctx;
	CUfunction fill, add, copy, expect;
	struct mem mem[MAX_MEMS];
	struct stream stream[STREAM_SLOTS];
	struct event event[MAX_EVENTS];
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

/* Something of each kind that is not in use now; -1: none. */
int any_mem(bool filled);
int any_stream(void); /* that work may be given to */
int any_event(bool recorded);
int any_pin(void);
CUstream handle_of(int stream);

/* Make the stream's next work come after the last use of the memory. False:
 * that is not to be had now. */
bool order_mem(int mem, int stream);
/* Used there now. */
void used_mem(int mem, int stream);
/* A call for the stream begins, ends. */
void hold_stream(int stream);
void let_stream(int stream);

/* The host knows that everything is complete that had returned by then. */
void look_at_pins(uint64_t until);

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
/* work.c */
void op_fill(void);
void op_expect(void);
void op_add(void);
void op_copy(void);
void op_set(void);
void op_to_device(void);
void op_to_host(void);
void op_sync_copy(void);
CUresult launch_words(CUfunction f, CUstream stream, CUdeviceptr at,
		      uint32_t value, uint64_t words);
void choose_words(const struct mem *mem, CUdeviceptr *at, uint64_t *words);

#endif
