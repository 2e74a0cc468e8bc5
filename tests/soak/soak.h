/*
 * What the parts of the soak's worker share. A worker makes random calls from
 * several threads, and knows what each must answer; whatever else it gets ends
 * it with status 3 and a word about it.
 *
 * All randomness comes from the seed: a thread's calls are the same each time,
 * though not how those of several interleave.
 */
#ifndef TESTS_SOAK_H
#define TESTS_SOAK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cuda.h>

#include "tests/soak/board.h"

#define KIB         ((size_t)1 << 10)
#define MIB         ((size_t)1 << 20)

#define MAX_DEVICES 4
#define MAX_LANES   8
#define SHARED      12 /* blocks of a lane that any thread may take */
#define OWN         20 /* blocks of a thread */
#define STREAMS     4
#define HOST_BYTES  (256 * KIB)

enum kind { PLAIN, ASYNC, MANAGED };

/* Memory that holds one word throughout. */
struct block {
	CUdeviceptr at;
	size_t bytes;          /* a multiple of 4 */
	unsigned long long id; /* the driver's for it; 0: not asked yet */
	uint32_t word;
	enum kind kind;
	CUmemoryPool pool; /* of its own; NULL: the device's */
	CUstream stream;   /* of the thread that has it; its last work */
	CUevent event;     /* behind that, where another thread had it */
	bool fixed;        /* was exported: the word stays */
};

/* A context and what is used in it. */
struct lane {
	CUcontext context;
	int device;
	bool primary;
	CUfunction fill, add;
	CUmodule module;
	struct block *shared[SHARED]; /* atomic */
};

struct opened {
	CUdeviceptr at;
	size_t bytes;
	uint32_t word;
	int device;
	unsigned left; /* operations until it is closed */
};

struct thread {
	unsigned slot; /* its place on the board */
	unsigned lives;
	uint64_t rng;
	struct lane *lane;
	CUstream streams[STREAMS]; /* the last two: legacy, per-thread */
	struct block *own[OWN];
	struct opened opened[4];
	uint32_t *host;   /* HOST_BYTES, pageable */
	uint32_t *pinned; /* the same */
};

/* What the command line says, and what lives as long as the process. */
struct soak {
	unsigned worker, threads, rounds, devices, limit_mib, quiet_ends;
	uint64_t seed, incarnation;
	bool ends; /* atomic: what calls say is not to be relied on any more */
	bool barrier;        /* frees show the host what was copied */
	bool peers, virtual; /* the simulator has them */
	struct board_worker *board;
	const struct board *all;
	struct lane lanes[MAX_LANES];
	unsigned num_lanes;
	char **argv;
};
extern struct soak soak;

/* ---- main.c ----------------------------------------------------------------- */

uint64_t next_random(uint64_t *rng);
static inline uint64_t below(struct thread *t, uint64_t n)
{
	return next_random(&t->rng) % n;
}
uint64_t mix(uint64_t a, uint64_t b);

/* Says what is wrong, and ends the process. */
void wrong(struct thread *t, const char *format, ...)
	__attribute__((format(printf, 2, 3), noreturn));
/* The call must have succeeded. */
void good(struct thread *t, CUresult rc, const char *what);
/* It may have failed for lack of memory; true: it did not. */
bool got(struct thread *t, CUresult rc, const char *what);
#define GOOD(t, call) good(t, call, #call)
#define GOT(t, call)  got(t, call, #call)

/* ---- lanes.c ---------------------------------------------------------------- */

CUresult create_context(CUcontext *out, int device);
/* Makes its context current, and loads what is used there. False: there is no
 * memory for it. */
bool enter_lane(struct thread *t, struct lane *lane);
/* The primary context of each device, and, where there is room, one more. */
void open_lanes(struct thread *t);
/* Some are destroyed, or reset, with what is in them. */
void close_lanes(struct thread *t);

/* ---- threads.c -------------------------------------------------------------- */

/* Of "alloc,free": only these are done. NULL: all. */
void choose_operations(const char *only);
const char *operation_name(unsigned op);
/* The next operation, or step of one, begins: it is written on the board. */
void beat(struct thread *t, unsigned op);
/* The threads of a round. The calling one is not watched meanwhile. */
void start_all(struct thread *t, uint64_t round);
void wait_all(struct thread *t);

/* ---- rounds.c --------------------------------------------------------------- */

/* No context and no memory is held, and none is counted. */
void check_empty(struct thread *t);
/* The line of a round. */
void tell(uint64_t round);

/* ---- blocks.c --------------------------------------------------------------- */

void streams_begin(struct thread *t);
void streams_end(struct thread *t);
CUstream any_stream(struct thread *t);
/* A block of the thread; NULL: the place drawn is empty. */
struct block **draw_block(struct thread *t);
/* An empty place; NULL: there is none. */
struct block **draw_place(struct thread *t);
size_t draw_size(struct thread *t);

/* Further work on `s` comes after what was done to the block. */
void order(struct thread *t, struct block *b, CUstream s);
/* The block into another word, unless that is fixed. */
void fill(struct thread *t, struct block *b);
/* The block has its word. */
void verify(struct thread *t, struct block *b);
void verify_bytes(struct thread *t, CUdeviceptr at, size_t bytes, uint32_t word,
		  CUstream s);
/* NULL: there is no memory. It is filled. */
struct block *new_block(struct thread *t, enum kind kind);
void free_block(struct thread *t, struct block *b);
/* To and from any other thread of the lane. */
void swap_shared(struct thread *t);
/* The program forgets what the context's end has freed. */
void drop_shared(struct lane *lane);

/* ---- the operations --------------------------------------------------------- */

/* X(name, weight): void op_NAME(struct thread *t) */
#define OPS(X)        \
	X(alloc, 24)  \
	X(free, 20)   \
	X(verify, 12) \
	X(refill, 8)  \
	X(copy, 8)    \
	X(swap, 10)   \
	X(runtime, 4) \
	X(pitch, 2)   \
	X(past, 2)    \
	X(query, 6)   \
	X(looks, 3)   \
	X(stream, 2)  \
	X(sync, 3)    \
	X(event, 2)   \
	X(host, 2)    \
	X(barrier, 3) \
	X(async, 6)   \
	X(pool, 2)    \
	X(managed, 1) \
	X(pinned, 2)  \
	X(array, 1)   \
	X(virtual, 2) \
	X(graph, 3)   \
	X(peer, 2)    \
	X(export, 3)  \
	X(import, 4)  \
	X(context, 1) \
	X(fork, 1)    \
	X(signal, 1)  \
	X(library, 2) \
	X(door, 3)    \
	X(fault, 1)

enum op {
#define X(name, weight) OP_##name,
	OPS(X)
#undef X
		OP_COUNT,
	OP_quiet
};

#define X(name, weight) void op_##name(struct thread *t);
OPS(X)
#undef X

/* share.c: what the thread opened is closed when its time has come; `all`:
 * now. */
void close_opened(struct thread *t, bool all);
/* This process's exports are no longer offered. */
void withdraw(void);

/* process.c: the way this worker ends. */
void end_somehow(struct thread *t) __attribute__((noreturn));

/* SIG_BLOCK: a request for a report waits, over an exec too, as the new program
 * has no handler at first. SIG_UNBLOCK: it has one. The calling thread. */
void reports(int how);

/* capture.c: nobody else may be in a call while a Global capture goes on. */
void calls_begin(void);
void calls_end(void);
/* cuCtxSynchronize, unless somebody captures, whom it would disturb. */
void synchronize(struct thread *t);

#endif
