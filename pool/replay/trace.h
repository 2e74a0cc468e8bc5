/*
 * Allocation traces: text in, an array of operations out.
 *
 * One operation a line, `op,id,size,stream,t_us`:
 *   p  live before recording began      a  allocation
 *   f  free                             o  an allocation that was refused
 *   l  work submitted to a stream       s  stream synchronised
 *   S  context synchronised             m, u  segment mapped, unmapped
 * Empty fields have no value. A first line that begins with `#` or `op,` is a
 * header; m and u say what the recorded allocator did and are left out.
 *
 * Anything else is refused, with the number of its line: a replay of half a
 * trace would look like a result.
 */
#ifndef GP_REPLAY_TRACE_H
#define GP_REPLAY_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gp_trace_kind {
	GP_TRACE_ALLOC,
	GP_TRACE_FREE,
	GP_TRACE_OOM,
	GP_TRACE_LAUNCH,
	GP_TRACE_STREAM_SYNC,
	GP_TRACE_CONTEXT_SYNC,
};

struct gp_trace_op {
	uint8_t kind;   /* enum gp_trace_kind */
	uint32_t line;  /* from 1 */
	uint32_t block; /* ALLOC, FREE: index of the allocation, from 0 */
	uint32_t
		stream; /* index of the stream, from 0; 0 where none is given */
	uint64_t bytes; /* ALLOC, OOM: > 0 */
	int64_t t_us;   /* <= 0: unknown */
};

struct gp_trace {
	struct gp_trace_op *ops;
	size_t num_ops;
	uint32_t num_blocks;  /* allocations; each has its own index */
	uint32_t num_streams; /* at least 1 */
	int64_t duration_us;  /* last known time less the first, 0: unknown */
};

/* Parses `size` bytes of `text`. 0; or -EINVAL or -ENOMEM with a sentence in
 * `why` (at most why_size bytes) that begins with "line N: ". The trace is
 * the caller's, to be freed by gp_trace_free(); on error it is empty. */
int gp_trace_parse(const char *text, size_t size, struct gp_trace *trace,
		   char *why, size_t why_size);

/* The same for a file: plain or xz-compressed (needs `xz`), "-" is standard
 * input. Errors also as -errno of opening and reading. */
int gp_trace_load(const char *path, struct gp_trace *trace, char *why,
		  size_t why_size);

/* Leaves out every allocation of exactly `bytes`, with its free: what a
 * library takes past the allocator that is being looked at. Returns how many
 * there were. */
size_t gp_trace_leave_out(struct gp_trace *trace, uint64_t bytes);

void gp_trace_free(struct gp_trace *trace);

#endif
