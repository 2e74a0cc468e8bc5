/*
 * Captures by origin stream. One is entered before the driver begins it, and
 * begins only when nobody waits for a whole context: a wait that met it would
 * invalidate it. It ends with cuStreamEndCapture, whatever that answers
 * unless it left the capture alone, or with its stream.
 */
#include <pthread.h>

#include "pool/mutation.h"
#include "pool/order.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/follow.h"
#include "shim/graphs.h"
#include "shim/special.h"
#include "shim/state.h"
#include "stats/log.h"

#define MAX_CAPTURES 256

#define LEGACY       CU_STREAM_LEGACY
#define PER_THREAD   CU_STREAM_PER_THREAD

int gp_captures;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock. */
static struct {
	CUstream stream;
	uint64_t thread; /* whose default stream it is, else 0 */
	CUcontext context;
	CUcontext within; /* the green one in it that has the stream, or it */
	uint64_t id;      /* never the same for two */
} captures[MAX_CAPTURES];
static int num_captures;
static uint64_t last_id;
/* Captures beyond the table; until they end every context counts as
 * capturing. Guarded by lock. */
static int num_untracked;

/* Waits for contexts under way. Atomic; counted before gp_captures is looked
 * at, as captures are before it is. */
static unsigned num_waits;
static pthread_cond_t no_waits = PTHREAD_COND_INITIALIZER;

/* Under the lock. */
static void publish(void)
{
	int n = num_captures + num_untracked;

	__atomic_store_n(&gp_captures, n, __ATOMIC_SEQ_CST);
	gp_special_set(GP_SPECIAL_CAPTURE, n != 0);
}

bool gp_capture_hold_off(CUcontext context)
{
	__atomic_add_fetch(&num_waits, 1, __ATOMIC_SEQ_CST);
	if (!__atomic_load_n(&gp_captures, __ATOMIC_SEQ_CST) ||
	    !gp_capture_in(context) || !GP_HOLDS(SYNC_SPARES_CAPTURES))
		return true;
	gp_capture_go_on();
	return false;
}

void gp_capture_go_on(void)
{
	if (__atomic_sub_fetch(&num_waits, 1, __ATOMIC_SEQ_CST) ||
	    !__atomic_load_n(&gp_captures, __ATOMIC_SEQ_CST))
		return;
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&no_waits);
	pthread_mutex_unlock(&lock);
}

static bool follows(void)
{
	return __atomic_load_n(&gp_work_on, __ATOMIC_RELAXED) != 0;
}

/* That of the stream, whichever is current. */
static CUcontext context_of(CUstream stream)
{
	const struct gp_real *real = gp_real();
	CUcontext context = NULL;

	if (stream == LEGACY || stream == PER_THREAD ||
	    real->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
		real->cuCtxGetCurrent(&context);
	return context;
}

/* Frees are going to wait while this captures. */
static void prepare(struct gp_context *context)
{
	if (context->driver_pool ||
	    (context->pool &&
	     gp_order_is(gp_pool_order(context->pool), GP_ORDER_SYNC)))
		gp_cuda_keep_spare(&context->cuda);
}

static CUstream named(CUstream stream, CUstream otherwise)
{
	return stream ? stream : otherwise;
}

/* A thread's default stream is another one in each thread. */
static uint64_t thread_of(CUstream stream)
{
	return stream == PER_THREAD ? gp_thread_self() : 0;
}

static struct gp_slot *begun(CUstream given, CUstream otherwise)
{
	CUstream stream = named(given, otherwise);
	struct gp_context *known = NULL;
	CUcontext context, within;

	if (!gp_may_intercept())
		return NULL;
	context = within = context_of(stream);
	if (context && gp_running())
		known = gp_context_known(context);
	if (known) {
		prepare(known);
		/* A wait for the primary one waits for green ones, too. */
		context = known->cuda.context;
	}
	pthread_mutex_lock(&lock);
	if (num_captures < MAX_CAPTURES) {
		captures[num_captures].stream = stream;
		captures[num_captures].thread = thread_of(stream);
		captures[num_captures].context = context;
		captures[num_captures].within = within;
		captures[num_captures].id = ++last_id;
		num_captures++;
	} else {
		num_untracked++;
	}
	publish();
	while (__atomic_load_n(&num_waits, __ATOMIC_SEQ_CST))
		pthread_cond_wait(&no_waits, &lock);
	pthread_mutex_unlock(&lock);
	return follows() ? gp_follow_capture(stream) : NULL;
}

static void remove_at(int i)
{
	captures[i] = captures[--num_captures];
}

/* Under the lock. num_captures: none. */
static int find(CUstream stream)
{
	uint64_t thread = thread_of(stream);
	int i = 0;

	while (i < num_captures &&
	       (captures[i].stream != stream || captures[i].thread != thread))
		i++;
	return i;
}

static void ended(CUstream stream)
{
	pthread_mutex_lock(&lock);
	int i = find(stream);

	if (i < num_captures)
		remove_at(i);
	else if (num_untracked)
		num_untracked--;
	publish();
	pthread_mutex_unlock(&lock);
}

static CUresult answered(CUstream given, CUstream otherwise,
			 struct gp_slot *slot, CUresult rc)
{
	if (rc != CUDA_SUCCESS)
		ended(named(given, otherwise));
	gp_follow_captured(slot);
	return rc;
}

static void over(CUstream given, CUstream otherwise)
{
	CUstream stream = named(given, otherwise);

	ended(stream);
	if (follows())
		gp_follow_capture_ended(stream);
}

/* Before a stream is destroyed: the capture that ends with it, 0: none. Not
 * later: the handle may come back at once, and another thread capture in it. */
static uint64_t ends_with(CUstream stream)
{
	uint64_t id = 0;

	if (!gp_capture_any())
		return 0;
	pthread_mutex_lock(&lock);
	int i = find(stream);

	if (i < num_captures)
		id = captures[i].id;
	pthread_mutex_unlock(&lock);
	return id;
}

static void destroyed(uint64_t id)
{
	if (!id)
		return;
	pthread_mutex_lock(&lock);
	for (int i = num_captures - 1; i >= 0; i--)
		if (captures[i].id == id)
			remove_at(i);
	publish();
	pthread_mutex_unlock(&lock);
}

bool gp_capture_in(CUcontext context)
{
	bool found;

	if (!gp_capture_any())
		return false;
	pthread_mutex_lock(&lock);
	found = num_untracked != 0;
	for (int i = 0; i < num_captures && !found; i++)
		found = captures[i].context == context;
	pthread_mutex_unlock(&lock);
	return found;
}

bool gp_capture_of(CUstream stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	/* It fails for the legacy stream while another captures. */
	return gp_capture_any() && (gp_real()->cuStreamIsCapturing(
					    stream, &status) != CUDA_SUCCESS ||
				    status != CU_STREAM_CAPTURE_STATUS_NONE);
}

uint64_t gp_capture_last(void)
{
	uint64_t id;

	pthread_mutex_lock(&lock);
	id = last_id;
	pthread_mutex_unlock(&lock);
	return id;
}

void gp_capture_forget(CUcontext context, uint64_t last)
{
	pthread_mutex_lock(&lock);
	for (int i = num_captures - 1; i >= 0; i--)
		if (captures[i].id <= last && (captures[i].context == context ||
					       captures[i].within == context))
			remove_at(i);
	publish();
	pthread_mutex_unlock(&lock);
}

CUresult cuStreamBeginCapture(CUstream stream)
{
	struct gp_slot *slot = begun(stream, LEGACY);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCapture(stream);
	return answered(stream, LEGACY, slot, rc);
}

CUresult cuStreamBeginCapture_ptsz(CUstream stream)
{
	struct gp_slot *slot = begun(stream, PER_THREAD);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCapture_ptsz(stream);
	return answered(stream, PER_THREAD, slot, rc);
}

CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode)
{
	struct gp_slot *slot = begun(stream, LEGACY);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCapture_v2(stream, mode);
	return answered(stream, LEGACY, slot, rc);
}

CUresult cuStreamBeginCapture_v2_ptsz(CUstream stream, CUstreamCaptureMode mode)
{
	struct gp_slot *slot = begun(stream, PER_THREAD);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCapture_v2_ptsz(stream, mode);
	return answered(stream, PER_THREAD, slot, rc);
}

#if CUDA_VERSION >= 12030
CUresult cuStreamBeginCaptureToGraph(CUstream stream, CUgraph graph,
				     const CUgraphNode *dependencies,
				     const CUgraphEdgeData *data, size_t count,
				     CUstreamCaptureMode mode)
{
	struct gp_slot *slot = begun(stream, LEGACY);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCaptureToGraph(stream, graph, dependencies,
						    data, count, mode);
	return answered(stream, LEGACY, slot, rc);
}

CUresult cuStreamBeginCaptureToGraph_ptsz(CUstream stream, CUgraph graph,
					  const CUgraphNode *dependencies,
					  const CUgraphEdgeData *data,
					  size_t count,
					  CUstreamCaptureMode mode)
{
	struct gp_slot *slot = begun(stream, PER_THREAD);
	CUresult rc;

	rc = gp_real()->cuStreamBeginCaptureToGraph_ptsz(
		stream, graph, dependencies, data, count, mode);
	return answered(stream, PER_THREAD, slot, rc);
}
#endif

/* Ends the capture also where it answers that the capture was invalidated. */
static bool leaves_capture(CUresult rc)
{
	return rc != CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD &&
	       rc != CUDA_ERROR_STREAM_CAPTURE_UNMATCHED &&
	       rc != CUDA_ERROR_ILLEGAL_STATE && rc != CUDA_ERROR_INVALID_VALUE;
}

CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
	CUresult rc = gp_real()->cuStreamEndCapture(stream, graph);

	if (leaves_capture(rc))
		over(stream, LEGACY);
	return rc;
}

CUresult cuStreamEndCapture_ptsz(CUstream stream, CUgraph *graph)
{
	CUresult rc = gp_real()->cuStreamEndCapture_ptsz(stream, graph);

	if (leaves_capture(rc))
		over(stream, PER_THREAD);
	return rc;
}

CUresult cuStreamDestroy(CUstream stream)
{
	uint64_t capture = ends_with(stream);
	CUresult rc;

	if (follows())
		gp_follow_destroy(stream);
	gp_graph_stream_goes(stream);
	rc = gp_real()->cuStreamDestroy(stream);
	if (rc == CUDA_SUCCESS)
		destroyed(capture);
	return rc;
}

CUresult cuStreamDestroy_v2(CUstream stream)
{
	uint64_t capture = ends_with(stream);
	CUresult rc;

	if (follows())
		gp_follow_destroy(stream);
	gp_graph_stream_goes(stream);
	rc = gp_real()->cuStreamDestroy_v2(stream);
	if (rc == CUDA_SUCCESS)
		destroyed(capture);
	return rc;
}
