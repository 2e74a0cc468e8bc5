/*
 * A driver made of numbers: address space is a counter, physical memory a
 * sum, and every call takes the time it was measured to take (H200, CUDA
 * 13.0). It refuses what a real driver refuses, and remembers the first call
 * that no driver would have accepted.
 *
 * All functions are thread-safe; one lock guards everything but the clock.
 */
#ifndef GP_REPLAY_COST_DRIVER_H
#define GP_REPLAY_COST_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "pool/driver.h"

/* X(name): one per driver call. */
#define GP_DRIVER_CALLS(X) \
	X(reserve)         \
	X(unreserve)       \
	X(create)          \
	X(release)         \
	X(map)             \
	X(set_access)      \
	X(unmap)           \
	X(segment_alloc)   \
	X(segment_free)    \
	X(sync)

enum gp_driver_call {
#define X(name) GP_CALL_##name,
	GP_DRIVER_CALLS(X)
#undef X
		GP_CALL_COUNT
};

/* The call's name, a string constant ("set_access"). */
const char *gp_driver_call_name(enum gp_driver_call call);

struct gp_cost_totals {
	uint64_t calls[GP_CALL_COUNT];
	uint64_t driver_ns;     /* modelled */
	uint64_t host_ns;       /* real time spent inside the model */
	uint64_t waits;         /* syncs that found work in flight */
	uint64_t remaps;        /* maps of a handle that was mapped before */
	uint64_t physical;      /* bytes now */
	uint64_t peak_physical; /* bytes */
	uint64_t handles;       /* handles and segments now */
};

struct gp_cost_driver;

/* A device with `memory` bytes; 0: without limit. The driver is the caller's,
 * to be freed by gp_cost_driver_free(). NULL: out of host memory. */
struct gp_cost_driver *gp_cost_driver_new(uint64_t memory);
void gp_cost_driver_free(struct gp_cost_driver *model);

/* The seam over it. model must outlive its users. */
struct gp_driver gp_cost_driver_seam(struct gp_cost_driver *model);

void gp_cost_driver_totals(struct gp_cost_driver *model,
			   struct gp_cost_totals *totals);
/* What the first impossible call was, NULL if there was none. Valid as long
 * as the model. */
const char *gp_cost_driver_fault(struct gp_cost_driver *model);

/* The program's work: put on a stream, known finished there. sync() finishes
 * all. stream < 65536. */
void gp_cost_driver_submit(struct gp_cost_driver *model, uint32_t stream);
void gp_cost_driver_finish(struct gp_cost_driver *model, uint32_t stream);
void gp_cost_driver_finish_all(struct gp_cost_driver *model);
/* True if no work is in flight on any stream. */
bool gp_cost_driver_idle(struct gp_cost_driver *model);

/* The program's own time, us; the seam's clock is this plus modelled driver
 * time. It never runs backwards. */
void gp_cost_driver_set_time(struct gp_cost_driver *model, int64_t t_us);

/* Modelled ns of one call on one handle or segment of `bytes`. */
uint64_t gp_call_cost(enum gp_driver_call call, uint64_t bytes);

#endif
