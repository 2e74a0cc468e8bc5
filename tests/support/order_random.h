/*
 * Random programs on an order and the model of its streams: threads that
 * allocate, free, submit, wait, query, make and destroy streams, and capture.
 */
#ifndef GP_TESTS_ORDER_RANDOM_H
#define GP_TESTS_ORDER_RANDOM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct order_program {
	uint64_t seed;
	unsigned steps, threads;
	bool turns; /* one step of one thread at a time: judged in full */
	bool own;   /* most frees by callers that order their own streams */
};

/* Runs it. True when nothing was wrong, else the first wrong thing is in
 * `why`. */
bool order_random(const struct order_program *program, char *why, size_t size);

#endif
