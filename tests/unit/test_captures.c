/* Which captures are under way, by streams whose handles come back and have
 * several names. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "shim/capture.c"

#define STREAM  ((CUstream)0x1000)
#define CONTEXT ((CUcontext)0x100)
#define OTHER   ((CUcontext)0x200)

static __thread CUcontext current = CONTEXT;
static CUresult begins;
static void (*meanwhile)(void);

/* ---- in place of the driver and the rest of the shim -------------------------------- */

static CUresult get_current(CUcontext *context)
{
	*context = current;
	return CUDA_SUCCESS;
}

static CUresult get_stream_context(CUstream stream, CUcontext *context)
{
	(void)stream;
	*context = CONTEXT;
	return CUDA_SUCCESS;
}

static CUresult begin(CUstream stream, CUstreamCaptureMode mode)
{
	(void)stream;
	(void)mode;
	return begins;
}

static CUresult end(CUstream stream, CUgraph *graph)
{
	(void)stream;
	(void)graph;
	return CUDA_SUCCESS;
}

/* The stream is gone, and another thread goes on. */
static CUresult destroy(CUstream stream)
{
	(void)stream;
	if (meanwhile)
		meanwhile();
	return CUDA_SUCCESS;
}

static const struct gp_real real = {
	.cuCtxGetCurrent = get_current,
	.cuStreamGetCtx = get_stream_context,
	.cuStreamBeginCapture_v2 = begin,
	.cuStreamBeginCapture_v2_ptsz = begin,
	.cuStreamEndCapture = end,
	.cuStreamEndCapture_ptsz = end,
	.cuStreamDestroy_v2 = destroy,
};
const struct gp_real *gp_real_table = &real;
unsigned gp_special_bits;
int gp_work_on, gp_phase_now;

const struct gp_real *gp_real_find(void)
{
	return &real;
}

bool gp_may_intercept(void)
{
	return true;
}

struct gp_context *gp_context_known(CUcontext handle)
{
	(void)handle;
	return NULL;
}

void gp_cuda_keep_spare(struct gp_cuda_driver *cuda)
{
	(void)cuda;
}

struct gp_slot *gp_follow_capture(CUstream stream)
{
	(void)stream;
	return NULL;
}

void gp_follow_captured(struct gp_slot *slot)
{
	(void)slot;
}

void gp_follow_capture_ended(CUstream stream)
{
	(void)stream;
}

void gp_follow_destroy(CUstream stream)
{
	(void)stream;
}

void gp_graph_stream_goes(CUstream stream)
{
	(void)stream;
}

/* ---- the tests --------------------------------------------------------------------- */

#define RELAXED CU_STREAM_CAPTURE_MODE_RELAXED

static void begin_one(void)
{
	cuStreamBeginCapture_v2(STREAM, RELAXED);
}

static void test_begun_and_ended(void **state)
{
	CUgraph graph;

	(void)state;
	begin_one();
	assert_true(gp_capture_in(CONTEXT));
	assert_false(gp_capture_in(OTHER));
	cuStreamEndCapture(STREAM, &graph);
	assert_int_equal(gp_captures, 0);
	begins = CUDA_ERROR_ILLEGAL_STATE;
	begin_one();
	assert_int_equal(gp_captures, 0);
	begins = CUDA_SUCCESS;
	begin_one();
	cuStreamDestroy_v2(STREAM);
	assert_int_equal(gp_captures, 0);
	begin_one();
	gp_capture_forget(CONTEXT, UINT64_MAX);
	assert_int_equal(gp_captures, 0);
}

/* A stream captures in its own context, whichever is current. */
static void test_stream_of_another_context(void **state)
{
	CUgraph graph;

	(void)state;
	current = OTHER;
	begin_one();
	current = CONTEXT;
	assert_true(gp_capture_in(CONTEXT));
	assert_false(gp_capture_in(OTHER));
	cuStreamEndCapture(STREAM, &graph);
	assert_int_equal(gp_captures, 0);
}

static void test_handle_that_comes_back(void **state)
{
	CUgraph graph;

	(void)state;
	meanwhile = begin_one;
	cuStreamDestroy_v2(STREAM); /* did not capture */
	assert_int_equal(gp_captures, 1);
	cuStreamDestroy_v2(STREAM); /* did */
	assert_int_equal(gp_captures, 1);
	meanwhile = NULL;
	cuStreamEndCapture(STREAM, &graph);
	assert_int_equal(gp_captures, 0);
}

/* Another context has the handle of one that went, and captures. */
static void test_context_that_comes_back(void **state)
{
	uint64_t last;

	(void)state;
	begin_one();
	last = gp_capture_last();
	begin_one();
	gp_capture_forget(CONTEXT, last);
	assert_int_equal(gp_captures, 1);
	gp_capture_forget(CONTEXT, UINT64_MAX);
	assert_int_equal(gp_captures, 0);
}

static void test_default_stream_by_both_names(void **state)
{
	CUgraph graph;

	(void)state;
	cuStreamBeginCapture_v2_ptsz(NULL, RELAXED);
	cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	assert_int_equal(gp_captures, 0);
	cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, RELAXED);
	cuStreamEndCapture_ptsz(NULL, &graph);
	assert_int_equal(gp_captures, 0);
}

static void *begin_and_end(void *arg)
{
	CUgraph graph;

	current = OTHER;
	cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, RELAXED);
	*(bool *)arg = gp_capture_in(OTHER);
	cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	return NULL;
}

/* That stream is each thread's own. */
static void test_default_streams_of_threads(void **state)
{
	bool captured = false;
	pthread_t thread;
	CUgraph graph;

	(void)state;
	cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, RELAXED);
	pthread_create(&thread, NULL, begin_and_end, &captured);
	pthread_join(thread, NULL);
	assert_true(captured);
	assert_true(gp_capture_in(CONTEXT));
	assert_false(gp_capture_in(OTHER));
	cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph);
	assert_int_equal(gp_captures, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_begun_and_ended),
		cmocka_unit_test(test_stream_of_another_context),
		cmocka_unit_test(test_handle_that_comes_back),
		cmocka_unit_test(test_context_that_comes_back),
		cmocka_unit_test(test_default_stream_by_both_names),
		cmocka_unit_test(test_default_streams_of_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
