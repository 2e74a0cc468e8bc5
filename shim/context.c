/*
 * Contexts as this process sees them. A context is entered when first seen
 * current at an allocation, never inside a driver callback. Entries are never
 * freed: another thread may still hold one.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "conf/conf.h"
#include "pool/order.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/follow.h"
#include "shim/ipc.h"
#include "shim/libraries.h"
#include "shim/overhead.h"
#include "shim/overruns.h"
#include "shim/pool_config.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/work_across.h"
#include "stats/clock.h"
#include "stats/log.h"
#include "stats/sections.h"

#define MAX_CONTEXTS GP_REPORT_MAX_POOLS
#define MAX_CREATED  256

/* Rank: below the start, above the pool's locks. Never held across a driver
 * call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by lock. */
static struct gp_context *contexts[MAX_CONTEXTS];
static size_t num_contexts;
static CUcontext created[MAX_CREATED];
static size_t num_created;
static bool any_created; /* ever; atomic */
/* What destroyed pools had done. Guarded by lock. */
static struct gp_report_pool retired[MAX_CONTEXTS];
static size_t num_retired;

/* Users of pools that are not threads of the program (reports, trims,
 * housekeeping); a pool is destroyed only when there are none. Guarded by
 * lock. */
static int users;
static pthread_cond_t no_users = PTHREAD_COND_INITIALIZER;

/* Bumped when a context goes, so that the threads' caches expire.
 * Synchronization: atomic. */
static unsigned generation = 1;

static __thread struct {
	CUcontext handle;
	struct gp_context *context;
	unsigned generation;
} seen;

static struct gp_context *find(CUcontext handle)
{
	for (size_t i = 0; i < num_contexts; i++)
		if (contexts[i]->cuda.context == handle)
			return contexts[i];
	return NULL;
}

static bool was_created(CUcontext handle)
{
	for (size_t i = 0; i < num_created; i++)
		if (created[i] == handle)
			return true;
	return false;
}

/* Retain and release are cheap on an active primary context, and the only way
 * to learn its handle. */
static bool is_primary(CUcontext handle, CUdevice device)
{
	const struct gp_real *real = gp_real();
	CUcontext primary = NULL;
	unsigned flags;
	int active = 0;

	if (real->cuDevicePrimaryCtxGetState(device, &flags, &active) !=
		    CUDA_SUCCESS ||
	    !active)
		return false;
	if (real->cuDevicePrimaryCtxRetain(&primary, device) != CUDA_SUCCESS)
		return false;
	real->cuDevicePrimaryCtxRelease_v2(device);
	return primary == handle;
}

static void make_probe(struct gp_context *context)
{
	if (gp_real()->cuEventCreate(&context->probe,
				     CU_EVENT_DISABLE_TIMING) != CUDA_SUCCESS)
		context->probe = NULL;
}

static void give_pool(struct gp_context *context)
{
	struct gp_pool_config config;
	int rc;

	if (gp_settings()->backend == GP_BACKEND_PASSTHROUGH || !context->ours)
		return;
	if (gp_settings()->backend == GP_BACKEND_CUDA_MALLOC_ASYNC) {
		context->driver_pool = gp_driver_pool_open(context);
		if (context->driver_pool) {
			make_probe(context);
			return;
		}
		gp_warn("device %d has no memory pools for "
			"backend:cudaMallocAsync; backend:native serves there",
			context->cuda.device);
	}
	gp_pool_config_from(&config, gp_settings());
	config.damaged = gp_overrun_found;
	/* Unseen work cannot be ordered. */
	if (!__atomic_load_n(&gp_work_on, __ATOMIC_RELAXED))
		config.sync = true;
	rc = gp_pool_create(&context->cuda.driver, &config, &context->pool);
	if (rc) {
		context->pool = NULL;
		gp_warn("no pool for device %d (%s); allocations go to the "
			"driver",
			context->cuda.device, strerror(-rc));
		return;
	}
	if (config.expandable_segments && context->cuda.driver.has_vmm)
		gp_across_pool_made(context->cuda.device);
	/* While there is memory to be had. */
	if (gp_order_is(gp_pool_order(context->pool), GP_ORDER_SYNC))
		gp_cuda_keep_spare(&context->cuda);
	make_probe(context);
}

/* Makes `handle`, current on this thread, known. NULL if that fails. */
static __attribute__((noinline, cold)) struct gp_context *
enter(CUcontext handle)
{
	struct gp_context *context, *other;
	CUdevice device;

	pthread_mutex_lock(&lock);
	context = find(handle);
	bool known_created = was_created(handle);
	pthread_mutex_unlock(&lock);
	if (context)
		return context;
	/* A wait or a launch may come before the first allocation: the pool
	 * below is made from the settings. */
	if (!gp_active())
		return NULL;
	if (gp_real()->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return NULL;
	context = calloc(1, sizeof(*context));
	if (!context)
		return NULL;
	if (gp_cuda_driver_init(&context->cuda, handle, device)) {
		free(context);
		return NULL;
	}
	if (gp_real()->cuDeviceGetName(context->name, sizeof(context->name),
				       device) != CUDA_SUCCESS)
		context->name[0] = '\0';
	context->primary = !known_created && is_primary(handle, device);
	context->ours = known_created || context->primary;
	context->free_bytes = GP_UNKNOWN;
	give_pool(context);

	pthread_mutex_lock(&lock);
	other = find(handle);
	if (!other && num_contexts < MAX_CONTEXTS) {
		contexts[num_contexts++] = context;
		other = context;
	}
	pthread_mutex_unlock(&lock);
	gp_libraries_look();
	gp_libraries_tell(context);
	gp_follow_expire(); /* streams of it may have been met before */
	gp_follow_managed();
	if (other != context) { /* another thread was first, or no room */
		if (context->pool)
			gp_pool_destroy(context->pool);
		if (context->driver_pool)
			gp_driver_pool_discard(context->driver_pool);
		free(context);
	}
	return other;
}

struct gp_context *gp_context_current(void)
{
	unsigned now = __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
	CUcontext handle = NULL;

	if (gp_real()->cuCtxGetCurrent(&handle) != CUDA_SUCCESS || !handle)
		return NULL;
	if (__builtin_expect(seen.handle != handle || seen.generation != now,
			     0)) {
		seen.context = enter(handle);
		seen.handle = seen.context ? handle : NULL;
		seen.generation = now;
	}
	return seen.context;
}

unsigned gp_context_generation(void)
{
	return __atomic_load_n(&generation, __ATOMIC_ACQUIRE);
}

static struct gp_context *primary_of(CUdevice device)
{
	struct gp_context *found = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_contexts && !found; i++)
		if (contexts[i]->primary && contexts[i]->cuda.device == device)
			found = contexts[i];
	pthread_mutex_unlock(&lock);
	return found;
}

struct gp_context *gp_context_known(CUcontext handle)
{
	const struct gp_real *real = gp_real();
	struct gp_context *context;
	CUcontext current = NULL;

	pthread_mutex_lock(&lock);
	context = find(handle);
	pthread_mutex_unlock(&lock);
	if (!context) {
		if (real->cuCtxPushCurrent_v2(handle) != CUDA_SUCCESS)
			return NULL;
		context = enter(handle);
		real->cuCtxPopCurrent_v2(&current);
	}
	if (context && !context->ours)
		context = primary_of(context->cuda.device);
	return context;
}

struct gp_context *gp_context_of_pool(const struct gp_pool *pool)
{
	struct gp_context *found = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_contexts && !found; i++)
		if (contexts[i]->pool == pool)
			found = contexts[i];
	pthread_mutex_unlock(&lock);
	return found;
}

/*
 * Which context is current is the driver's to say, and it is asked, but for
 * launches, where that would cost most. Contexts come from three places. The
 * primary one of a device: with one device there is one. cuCtxCreate and its
 * versions: they are stood in for, and tell before the program has the handle.
 * Others (of graphics, green ones): they have no pool, so what is submitted
 * there is nobody's work. Counted as that of the primary context's stream it
 * does no harm, as more work counts there than there is; what waits prove is
 * asked about as ever.
 */
bool gp_context_alone(void)
{
	static int devices; /* atomic; 0: not asked yet */
	int n = __atomic_load_n(&devices, __ATOMIC_RELAXED);

	if (!n && gp_real()->cuDeviceGetCount(&n) == CUDA_SUCCESS)
		__atomic_store_n(&devices, n, __ATOMIC_RELAXED);
	return n == 1 && !__atomic_load_n(&any_created, __ATOMIC_ACQUIRE);
}

void gp_context_created(CUcontext context)
{
	__atomic_store_n(&any_created, true, __ATOMIC_RELEASE);
	gp_follow_expire();
	pthread_mutex_lock(&lock);
	if (!was_created(context) && num_created < MAX_CREATED)
		created[num_created++] = context;
	pthread_mutex_unlock(&lock);
}

/* As pool/pool.c decides it. */
static void describe_remap(struct gp_report_pool *pool,
			   const struct gp_context *context)
{
	if (context->driver_pool) {
		pool->no_remap = "the memory is in a pool of the driver's "
				 "(backend:cudaMallocAsync)";
	} else if (!context->cuda.driver.has_vmm) {
		pool->no_remap = "the device offers no virtual memory";
	} else if (!gp_settings()->expandable_segments) {
		pool->no_remap = "expandable_segments is False";
		pool->could_remap = true;
	} else if (gp_order_is(gp_pool_order(context->pool),
			       GP_ORDER_ONLY_IDLE)) {
		pool->no_remap = "a library is loaded that reaches memory "
				 "without a stream";
	}
}

static void describe(struct gp_report_pool *pool,
		     const struct gp_context *context)
{
	uint64_t unix_now = gp_clock_ns(CLOCK_REALTIME), now;

	memset(pool, 0, offsetof(struct gp_report_pool, points));
	pool->device = context->cuda.device;
	pool->context = (uintptr_t)context->cuda.context;
	pool->primary = context->primary;
	memcpy(pool->device_name, context->name, sizeof(pool->device_name));
	memcpy(pool->uuid, context->cuda.uuid.bytes, sizeof(pool->uuid));
	pool->total_bytes = context->cuda.driver.total_bytes;
	pool->free_bytes = GP_UNKNOWN;
	describe_remap(pool, context);
	if (context->pool)
		gp_pool_collect(context->pool);
	gp_context_stats(context, &pool->stats);
	pool->num_points =
		context->pool
			? gp_pool_timeline(context->pool, pool->points, &now)
			: gp_driver_pool_timeline(context->driver_pool,
						  pool->points, &now);
	/* The driver's clock knows no date. */
	for (size_t i = 0; i < pool->num_points; i++)
		pool->points[i].ns = unix_now - (now - pool->points[i].ns);
}

/* The context took all its memory with it. */
static void retire(const struct gp_context *context)
{
	struct gp_report_pool *to = &retired[num_retired];
	struct gp_section_peak peak;

	gp_context_section(context, true, &peak);
	gp_sections_note(context->cuda.device, peak.allocated, peak.reserved);
	if (num_retired == MAX_CONTEXTS)
		return; /* a program that makes contexts by the hundred */
	describe(to, context);
	if (!to->stats.num_alloc_calls)
		return;
	gp_pool_stats_drop(&to->stats);
	num_retired++;
}

static void gone(bool (*match)(const struct gp_context *, const void *),
		 const void *arg)
{
	struct gp_driver_pool *driver_pool = NULL;
	struct gp_context *context = NULL;
	struct gp_pool *pool = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_contexts; i++) {
		if (!match(contexts[i], arg))
			continue;
		context = contexts[i];
		contexts[i] = contexts[--num_contexts];
		break;
	}
	if (context) {
		__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
		gp_follow_expire();
		while (users)
			pthread_cond_wait(&no_users, &lock);
		pool = context->pool;
		driver_pool = context->driver_pool;
		if (pool || driver_pool)
			retire(context);
		context->pool = NULL;
		context->driver_pool = NULL;
		context->cuda.gone = true;
	}
	pthread_mutex_unlock(&lock);
	if (!context)
		return;
	gp_capture_forget(context->cuda.context);
	if (pool)
		gp_pool_destroy(pool);
	if (driver_pool)
		gp_driver_pool_gone(driver_pool);
}

static bool match_handle(const struct gp_context *context, const void *arg)
{
	return context->cuda.context == *(const CUcontext *)arg;
}

static bool match_primary(const struct gp_context *context, const void *arg)
{
	return context->primary &&
	       context->cuda.device == *(const CUdevice *)arg;
}

void gp_context_leaves(CUcontext handle, CUdevice device)
{
	struct gp_driver_pool *pool = NULL;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_contexts && !pool; i++)
		if (handle ? contexts[i]->cuda.context == handle
			   : match_primary(contexts[i], &device))
			pool = contexts[i]->driver_pool;
	pthread_mutex_unlock(&lock);
	if (pool)
		gp_driver_pool_leave(pool);
}

void gp_context_gone(CUcontext handle)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_created; i++)
		if (created[i] == handle) {
			created[i] = created[--num_created];
			break;
		}
	pthread_mutex_unlock(&lock);
	gone(match_handle, &handle);
	gp_take_context_gone(handle, -1, gp_context_was_created);
	gp_ipc_context_gone(handle, -1);
	gp_overhead_gone(handle, -1);
}

void gp_context_primary_gone(CUdevice device)
{
	gone(match_primary, &device);
	gp_take_context_gone(NULL, device, gp_context_was_created);
	gp_ipc_context_gone(NULL, device);
	gp_overhead_gone(NULL, device);
}

bool gp_context_was_created(CUcontext handle)
{
	bool was;

	pthread_mutex_lock(&lock);
	was = was_created(handle);
	pthread_mutex_unlock(&lock);
	return was;
}

CUresult gp_context_capture_probe(const struct gp_context *context)
{
	CUresult rc;

	if (!context->probe)
		return CUDA_SUCCESS;
	rc = gp_real()->cuEventQuery(context->probe);
	return rc == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : rc;
}

/* Pools for a caller that is no thread of the program. Pair with done(). */
static size_t borrow(struct gp_context **list)
{
	size_t n = 0;

	pthread_mutex_lock(&lock);
	users++;
	for (size_t i = 0; i < num_contexts; i++)
		if (contexts[i]->pool || contexts[i]->driver_pool)
			list[n++] = contexts[i];
	pthread_mutex_unlock(&lock);
	return n;
}

static void done(void)
{
	pthread_mutex_lock(&lock);
	if (--users == 0)
		pthread_cond_broadcast(&no_users);
	pthread_mutex_unlock(&lock);
}

void gp_context_each(void (*visit)(struct gp_context *, void *), void *arg)
{
	struct gp_context *list[MAX_CONTEXTS];
	size_t n = borrow(list);

	for (size_t i = 0; i < n; i++)
		visit(list[i], arg);
	done();
}

uint64_t gp_context_trim(CUdevice device, uint64_t bytes, CUcontext except)
{
	struct gp_context *list[MAX_CONTEXTS];
	size_t n = borrow(list);
	uint64_t freed = 0;

	for (size_t i = 0; i < n && freed < bytes; i++)
		if (list[i]->pool &&
		    (device < 0 || list[i]->cuda.device == device) &&
		    list[i]->cuda.context != except)
			freed += gp_pool_trim(list[i]->pool, bytes - freed);
	done();
	return freed;
}

static uint64_t reserved_by(struct gp_context *const *list, size_t n)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += gp_context_reserved(list[i]);
	return sum;
}

static uint64_t trim_idle(const struct gp_context *context, uint64_t bytes,
			  uint64_t most, bool *more)
{
	uint64_t reserved, least;

	if (context->pool)
		return gp_pool_trim_idle(context->pool, bytes, most, more);
	*more = false;
	reserved = gp_context_reserved(context);
	least = bytes < most ? bytes : most;
	return gp_driver_pool_trim(context->driver_pool,
				   reserved > least ? reserved - least : 0);
}

/* What is idle goes at once. What the device still works on is looked at again
 * and again, never waited for: this is the thread that writes reports. */
uint64_t gp_context_trim_for(const uint8_t uuid[16], uint64_t bytes,
			     uint64_t floor, unsigned ms)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	struct gp_context *list[MAX_CONTEXTS];
	size_t all = borrow(list), n = 0;
	uint64_t given = 0, reserved;
	bool busy = true, more;

	for (size_t i = 0; i < all; i++)
		if (!memcmp(list[i]->cuda.uuid.bytes, uuid, 16))
			list[n++] = list[i];
	while (busy) {
		busy = false;
		for (size_t i = 0; i < n && given < bytes; i++) {
			reserved = reserved_by(list, n);
			if (reserved <= floor)
				break;
			given += trim_idle(list[i], bytes - given,
					   reserved - floor, &more);
			busy |= more;
		}
		if (!ms--)
			break;
		if (busy)
			nanosleep(&pause, NULL);
	}
	done();
	return given;
}

static void reset_peak(struct gp_context *context, void *arg)
{
	(void)arg;
	gp_context_reset_peaks(context);
}

void gp_context_reset_peak(void)
{
	gp_context_each(reset_peak, NULL);
}

uint64_t gp_context_cached(CUdevice device)
{
	struct gp_context *list[MAX_CONTEXTS];
	size_t n = borrow(list);
	struct gp_pool_stats stats;
	uint64_t cached = 0;

	for (size_t i = 0; i < n; i++) {
		/* Of the others' spare memory async.h knows. */
		if (!list[i]->pool ||
		    (device >= 0 && list[i]->cuda.device != device))
			continue;
		gp_pool_get_stats(list[i]->pool, &stats);
		cached += stats.cached_bytes;
	}
	done();
	return cached;
}

void gp_context_tick(void)
{
	struct gp_context *list[MAX_CONTEXTS];
	size_t n = borrow(list);

	for (size_t i = 0; i < n; i++)
		if (list[i]->pool)
			gp_pool_tick(list[i]->pool);
		else
			gp_driver_pool_tick(list[i]->driver_pool);
	done();
}

void gp_context_each_retired(void (*visit)(struct gp_report_pool *, void *),
			     void *arg)
{
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_retired; i++)
		visit(&retired[i], arg);
	pthread_mutex_unlock(&lock);
}

static void ask(struct gp_context *context, void *arg)
{
	const struct gp_real *real = gp_real();
	CUcontext current = NULL;
	size_t free_bytes, total;
	uint64_t told = GP_UNKNOWN;

	(void)arg;
	__atomic_store_n(&context->free_bytes, told, __ATOMIC_RELAXED);
	if (real->cuCtxPushCurrent_v2(context->cuda.context) != CUDA_SUCCESS)
		return;
	if (real->cuMemGetInfo_v2(&free_bytes, &total) == CUDA_SUCCESS)
		told = free_bytes;
	real->cuCtxPopCurrent_v2(&current);
	__atomic_store_n(&context->free_bytes, told, __ATOMIC_RELAXED);
}

void gp_context_ask(void)
{
	gp_context_each(ask, NULL);
}

size_t gp_context_report(struct gp_report_pool *pools, size_t max, bool asked)
{
	struct gp_context *list[MAX_CONTEXTS];
	size_t n = borrow(list), filled = 0;

	for (size_t i = 0; i < n && filled < max; i++) {
		describe(&pools[filled], list[i]);
		if (asked)
			pools[filled].free_bytes = __atomic_load_n(
				&list[i]->free_bytes, __ATOMIC_RELAXED);
		filled++;
	}
	done();
	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < num_retired && filled < max; i++)
		pools[filled++] = retired[i];
	pthread_mutex_unlock(&lock);
	return filled;
}
