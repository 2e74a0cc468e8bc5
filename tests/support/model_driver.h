/*
 * A model of the driver behind pool/driver.h, in plain memory.
 *
 * Addresses are numbers; nothing is ever dereferenced. The model checks every
 * rule that the real driver has for these calls, and some that the pool sets
 * itself (a handle is mapped at most once, is unmapped before its release),
 * counts the calls, and fails the call it is told to fail. With tags it also
 * keeps contents: a number for each 512 bytes of physical memory, so that a
 * test can see that live data never moves nor mixes.
 *
 * All functions are thread-safe.
 */
#ifndef GP_TESTS_MODEL_DRIVER_H
#define GP_TESTS_MODEL_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"

struct model;

enum model_call {
	MODEL_RESERVE,
	MODEL_UNRESERVE,
	MODEL_CREATE,
	MODEL_RELEASE,
	MODEL_MAP,
	MODEL_SET_ACCESS,
	MODEL_UNMAP,
	MODEL_SEGMENT_ALLOC,
	MODEL_SEGMENT_FREE,
	MODEL_SYNC,
	MODEL_NUM_CALLS,
};

struct model_config {
	uint64_t total_bytes; /* physical memory */
	uint64_t granularity; /* of handles; 0: 2 MiB */
	bool no_vmm;          /* only segments */
	bool tags;            /* keep contents: 8 bytes for each 512 */
};

/* Never NULL; aborts when the host has no memory. */
struct model *model_create(const struct model_config *config);
void model_destroy(struct model *model);

/* The driver to hand to gp_pool_create(); valid until model_destroy(). */
struct gp_driver model_driver(struct model *model);

/* Calls made so far, failed ones included. */
uint64_t model_calls(struct model *model, enum model_call call);
uint64_t model_total_calls(struct model *model);

/* The first rule that was broken, a sentence, or NULL. */
const char *model_error(struct model *model);

/* Physical memory in use; handles and segments that exist; mappings. */
uint64_t model_used(struct model *model);
uint64_t model_objects(struct model *model);
uint64_t model_mappings(struct model *model);

/* Another size of physical memory from now on (a neighbour came or went). */
void model_set_total(struct model *model, uint64_t total_bytes);

/* Streams capture: sync answers -EBUSY. */
void model_set_capturing(struct model *model, bool capturing);

/* The clock that now() shows. */
void model_advance(struct model *model, uint64_t ns);

/* Fault injection. The n-th call from now on (1: the next), of this kind or
 * of any kind (MODEL_NUM_CALLS), fails with `error` (negative) and changes
 * nothing; n = 0 switches it off. */
void model_fail(struct model *model, enum model_call call, uint64_t n,
		int error);
/* Each call fails with this probability, by a generator of this seed: with -EIO
 * or, where it takes memory, -ENOMEM. */
void model_fail_randomly(struct model *model, double probability,
			 uint64_t seed);

/* A function called inside every call, with no lock of the model held. */
void model_set_hook(struct model *model,
		    void (*hook)(void *arg, enum model_call call), void *arg);

/* Contents. model_write() tags every 512 bytes of the range; model_read()
 * says whether all of them carry that tag. Both note an error when a part of
 * the range is not mapped with access. */
void model_write(struct model *model, uint64_t va, uint64_t bytes,
		 uint64_t tag);
bool model_read(struct model *model, uint64_t va, uint64_t bytes, uint64_t tag);

/* True if the whole range is accessible to the device. */
bool model_accessible(struct model *model, uint64_t va, uint64_t bytes);

#endif
