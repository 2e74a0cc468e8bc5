/*
 * The door through which gpupool sees the program's work: every launch, copy,
 * set, record, wait and synchronisation passes here before the driver gets it
 * and after it answered. What only puts work into a stream, a launch above all,
 * goes by the short way, gp_work_submit() and gp_work_submitted(); all else by
 * gp_work_begin() and gp_work_end().
 *
 * work.def, made from cuda.h, says which entry points these are and what each
 * one is; the bodies in work_hooks.c do nothing but call these and the driver.
 * What is to happen with the work stands in follow.h, which nothing reaches
 * while gp_work_on is 0.
 *
 * CUDA calls come from any thread, also from several at once into one stream,
 * and nest: a host function that the driver runs inside a call may call again.
 * Nothing here blocks or keeps a lock while the driver has the call.
 */
#ifndef GP_SHIM_WORK_H
#define GP_SHIM_WORK_H

#include "pool/order.h"
#include "shim/hooks.h"

/* What a call does. "The stream" and "the event" are those of struct gp_work,
 * "object" its object. */
enum gp_work_class {
	GP_WORK_SUBMIT,       /* puts work into the stream and returns */
	GP_WORK_GRAPH,        /* likewise, a graph; after it comes what is
				  not just that */
	GP_WORK_SYNC_COPY,    /* a copy without a stream: in the default one */
	GP_WORK_SYNC_SET,     /* a set without a stream: likewise */
	GP_WORK_EVENT_RECORD, /* the event behind what is in the stream */
	GP_WORK_STREAM_WAIT,  /* what follows in the stream behind the event */
	GP_WORK_CTX_RECORD,   /* the event behind all of a CUcontext (object) */
	GP_WORK_CTX_WAIT,     /* all of a CUcontext (object) behind the event */
	GP_WORK_GREEN_RECORD, /* the same with a CUgreenCtx (object) */
	GP_WORK_GREEN_WAIT,
	GP_WORK_STREAM_SYNC,   /* the host waits for the stream */
	GP_WORK_STREAM_QUERY,  /* success: the stream is idle */
	GP_WORK_EVENT_SYNC,    /* the host waits for the event */
	GP_WORK_EVENT_QUERY,   /* success: the event is complete */
	GP_WORK_EVENT_ELAPSED, /* success: it and the CUevent object are */
	GP_WORK_CTX_SYNC,      /* the host waits for a CUcontext (object), or
				  the current one (NULL) */
	GP_WORK_CAPTURE,       /* begins or ends a capture in the stream */
	GP_WORK_CREATE,        /* success: a new CUstream or CUevent is where
				  object points to */
	GP_WORK_DESTROY,       /* of the stream, or of the event */
	GP_WORK_NUM_CLASSES
};

enum gp_work_flags {
	/* It may write memory that the host reads, or read memory that the
	 * host writes: a free that does not wait must wait for this. */
	GP_WORK_HOST = 1,
	/* It returns after the copy and all before it in the stream, provided
	 * that the destination is host memory. */
	GP_WORK_DRAINS = 2,
};

/* GP_WORK_ID_cuLaunchKernel and so on: index of gp_work_rows. */
enum gp_work_id {
#define GP_WORK(name, ...)      GP_WORK_ID_##name,
#define GP_WORK_HAND(name, ...) GP_WORK_ID_##name,
#include "shim/work.def"
	GP_WORK_NUM_IDS
};

struct gp_work_row {
	const char *name;
	enum gp_work_class class;
	CUstream default_stream; /* what a NULL stream means; NULL: no stream */
	unsigned flags;          /* enum gp_work_flags */
};

extern const struct gp_work_row gp_work_rows[GP_WORK_NUM_IDS];

/* One call, from begin to end. Lives on the caller's stack; only its thread
 * uses it. All but `on` is set only where `on` is. */
struct gp_work {
	int on; /* seen by gp_work_enter() */
	enum gp_work_id id;
	/* As the driver takes it: a NULL stream has become CU_STREAM_LEGACY or
	 * CU_STREAM_PER_THREAD. NULL where the class has no stream. */
	CUstream stream;
	CUevent event; /* NULL where the class has none */
	void *object;  /* by class, else NULL */
	/* follow.c: who submits; whether the answer will prove something (then
	 * its proof is the thread's), or tell of a capture. */
	struct gp_slot *slot;
	bool proves;
	/* follow_waits.c: the record of the event, and of the object. */
	uint64_t record, other_record;
};

/* Whether calls are watched. Synchronization: atomic, relaxed; a call that
 * began unwatched ends so. */
extern int gp_work_on;

/* Watch from now on, or no longer. Thread-safe. */
void gp_work_watch(bool on);

/* Out of line: before the driver gets the call, and after it answered `rc`.
 * Both may call the driver through gp_real(), which is not watched. */
void gp_work_enter(struct gp_work *work, enum gp_work_id id, CUstream stream,
		   void *object, CUevent event);
void gp_work_leave(struct gp_work *work, CUresult rc);

/* Out of line, of classes SUBMIT and GRAPH: who submits to the stream, as the
 * driver takes it. NULL: that is not followed. */
struct gp_slot *gp_follow_submit(CUstream stream);
/* After a call with GP_WORK_HOST; not NULL. */
void gp_follow_shown(struct gp_slot *slot, CUresult rc);

/* A launch with attributes, which may record events; `slot` as above. */
void gp_follow_launch(const CUlaunchConfig *config, const struct gp_slot *slot);

/* `stream` as the program gave it; NULL means `otherwise`. */
static inline struct gp_slot *gp_work_submit(CUstream stream,
					     CUstream otherwise)
{
	return gp_follow_submit(stream ? stream : otherwise);
}

/* Out of line: the driver answered `rc`, no success. Any thread. */
void gp_work_failed(CUresult rc);

/* After the driver answered. */
static inline void gp_work_submitted(struct gp_slot *slot, CUresult rc)
{
	if (__builtin_expect(slot != NULL, 1))
		gp_order_end(slot);
	if (__builtin_expect(rc != CUDA_SUCCESS, 0))
		gp_work_failed(rc);
}

/* The same where the host may see what the call does. */
static inline void gp_work_shown(struct gp_slot *slot, CUresult rc)
{
	if (__builtin_expect(slot != NULL, 1))
		gp_follow_shown(slot, rc);
	if (__builtin_expect(rc != CUDA_SUCCESS, 0))
		gp_work_failed(rc);
}

/* `stream` as the program gave it. */
static inline void gp_work_begin(struct gp_work *work, enum gp_work_id id,
				 CUstream stream, void *object, CUevent event)
{
	work->on = __atomic_load_n(&gp_work_on, __ATOMIC_RELAXED);
	if (__builtin_expect(work->on, 0))
		gp_work_enter(work, id, stream, object, event);
}

static inline void gp_work_end(struct gp_work *work, CUresult rc)
{
	if (__builtin_expect(work->on, 0))
		gp_work_leave(work, rc);
	if (__builtin_expect(rc != CUDA_SUCCESS, 0))
		gp_work_failed(rc);
}

#endif
