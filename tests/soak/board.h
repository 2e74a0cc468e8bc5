/*
 * The file that all processes of a soak have mapped: who is how far, and which
 * memory is to be had from whom. The driver (soak.py) reads it by its layout.
 *
 * What a process writes is its own: nothing here is locked, so that it may be
 * killed at any moment.
 */
#ifndef TESTS_SOAK_BOARD_H
#define TESTS_SOAK_BOARD_H

#include <stdint.h>

#define BOARD_WORKERS 16u
#define BOARD_THREADS 9u /* 0: the main thread */
#define BOARD_EXPORTS 8u
#define BOARD_RECENT  16u

/* How a worker means to end. */
enum ending { ENDS_OK, ENDS_ABORT, ENDS_KILL };

struct board_thread {
	uint64_t ops;  /* grows while the thread lives and does not hang */
	uint32_t busy; /* 0: there is no such thread now */
	uint32_t unused;
	uint8_t recent[BOARD_RECENT]; /* what it does, by ops: enum op */
};

/* A handle that others may open. A seqlock with one writer. */
struct board_export {
	uint32_t version; /* odd: being written; 0: nothing there */
	int32_t device;
	uint64_t bytes;
	uint32_t word; /* all of it, as long as it can be opened */
	int32_t pid;
	uint8_t handle[64];
};

struct board_worker {
	int32_t pid;
	uint32_t ending; /* enum ending */
	uint64_t rounds;
	struct board_thread threads[BOARD_THREADS];
	struct board_export exports[BOARD_EXPORTS];
};

struct board {
	uint32_t stop; /* set by the driver: end in good order */
	uint32_t unused;
	struct board_worker workers[BOARD_WORKERS];
};

#endif
