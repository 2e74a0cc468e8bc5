/*
 * Stream capture. All locked unless they say otherwise.
 */
#ifndef SIM_CAPTURE_H
#define SIM_CAPTURE_H

#include "tests/sim/engine.h"

struct sim_event;

/* Guarded by sim.lock. */
struct sim_capture {
	uint64_t id;
	CUstreamCaptureMode mode;
	uint64_t thread;           /* serial of the one that began it */
	struct sim_stream *origin; /* NULL: destroyed */
	struct sim_graph *graph;   /* a reference */
	bool broken;
	bool to_graph; /* the program's own graph */
	struct sim_list link;
};

extern struct sim_list sim_captures; /* those under way */

/* Replace a list of nodes by a copy of `deps`. False: no host memory. */
bool sim_deps_set(struct sim_node ***to, size_t *to_count,
		  struct sim_node *const *deps, size_t count);

/* Break what blocking streams of ctx are in: the legacy stream would have to
 * wait for them. True: there were some. */
bool sim_capture_break_blocking(struct sim_ctx *ctx);

/* Does a capture forbid this thread an unsafe call? Then the captures in the
 * way are invalid from now on. Takes the lock. */
CUresult sim_capture_forbids(void);

/* The same for a call about a stream, which may capture itself: that forbids
 * nothing here (measured of cuMemAllocAsync, cuMemFreeAsync and cuStreamQuery,
 * driver 580). */
CUresult sim_capture_forbids_beside(CUstream handle);

/* Work given to a stream. NOT_FOUND: not captured, submit it. SUCCESS: it is
 * a node now, and has taken over what it owned. Else the error. */
CUresult sim_capture_submit(struct sim_stream *stream, struct sim_work *work);

/* May the host wait for this stream, or for the context? */
CUresult sim_capture_sync(struct sim_stream *stream);
CUresult sim_capture_sync_ctx(struct sim_ctx *ctx);

/* Record in, and wait on an event of, a capture. */
CUresult sim_capture_record(struct sim_stream *stream, struct sim_event *event);
CUresult sim_capture_wait(struct sim_stream *stream, struct sim_event *event);

/* Memory that is allocated, or freed, in a stream that captures. */
CUresult sim_capture_alloc(struct sim_stream *stream, struct sim_device *device,
			   uint64_t bytes, CUdeviceptr *out);
CUresult sim_capture_free(struct sim_stream *stream, CUdeviceptr va);

/* Make the stream's capture invalid; returns err. */
CUresult sim_capture_break(struct sim_stream *stream, CUresult err);

/* The stream is going away; all of the context's are. */
void sim_capture_forget(struct sim_stream *stream);
void sim_captures_end(struct sim_ctx *ctx);

#endif
