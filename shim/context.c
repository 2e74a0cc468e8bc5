/*
 * Contexts as this process sees them. A context is entered when first seen
 * current at an allocation, never inside a driver callback. Entries are never
 * freed: another thread may still hold one.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "conf/conf.h"
#include "pool/order.h"
#include "shim/capture.h"
#include "shim/context_impl.h"
#include "shim/follow.h"
#include "shim/graphs.h"
#include "shim/green.h"
#include "shim/ipc.h"
#include "shim/libraries.h"
#include "shim/overhead.h"
#include "shim/overruns.h"
#include "shim/pool_config.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/work_across.h"
#include "stats/log.h"

#define MAX_CREATED 256
#define MAX_LEAVING 64

pthread_mutex_t gp_context_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by gp_context_lock. */
static struct gp_context *contexts[GP_MAX_CONTEXTS];
static size_t num_contexts;
static CUcontext created[MAX_CREATED];
static size_t num_created;
static bool any_others; /* than primary ones, ever; atomic */

/* Contexts that are being destroyed, until all is forgotten of them: a new one
 * may have the handle as soon as the driver is through. Guarded by
 * gp_context_lock. */
static struct {
	CUcontext handle;
	CUdevice device;  /* of a primary one, else -1 */
	pthread_t thread; /* that destroys it */
} leaving[MAX_LEAVING];
static size_t num_leaving;
static pthread_cond_t has_left = PTHREAD_COND_INITIALIZER;

/* Users of pools that are not threads of the program (reports, trims,
 * housekeeping); a pool is destroyed only when there are none. Guarded by
 * gp_context_lock. */
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
		if (context->driver_pool)
			return;
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
	gp_across_pool_made();
	/* While there is memory to be had. */
	if (gp_order_is(gp_pool_order(context->pool), GP_ORDER_SYNC))
		gp_cuda_keep_spare(&context->cuda);
}

/* Makes `handle`, current on this thread, known. NULL if that fails. */
static __attribute__((noinline, cold)) struct gp_context *
enter(CUcontext handle)
{
	struct gp_context *context, *other;
	CUdevice device;

	pthread_mutex_lock(&gp_context_lock);
	context = find(handle);
	bool known_created = was_created(handle);
	pthread_mutex_unlock(&gp_context_lock);
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
	context->primary =
		!known_created && gp_context_is_primary(handle, device);
	context->ours = known_created || context->primary;
	context->free_bytes = GP_UNKNOWN;
	make_probe(context);
	give_pool(context);

	pthread_mutex_lock(&gp_context_lock);
	other = find(handle);
	if (!other && num_contexts < GP_MAX_CONTEXTS) {
		contexts[num_contexts++] = context;
		other = context;
	}
	pthread_mutex_unlock(&gp_context_lock);
	gp_libraries_look();
	gp_libraries_tell(context);
	gp_follow_expire(); /* streams of it may have been met before */
	gp_follow_managed();
	if (other != context) { /* another thread was first, or no room */
		if (context->pool)
			gp_pool_destroy(context->pool);
		if (context->driver_pool)
			gp_driver_pool_discard(context->driver_pool);
		gp_cuda_discard(&context->cuda);
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

	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_contexts && !found; i++)
		if (contexts[i]->primary && contexts[i]->cuda.device == device)
			found = contexts[i];
	pthread_mutex_unlock(&gp_context_lock);
	return found;
}

struct gp_context *gp_context_known(CUcontext handle)
{
	const struct gp_real *real = gp_real();
	CUdevice device = gp_green_device(handle);
	struct gp_context *context;
	CUcontext current = NULL;

	/* One may be current in one thread only, and not be entered here. */
	if (device >= 0)
		return primary_of(device);
	pthread_mutex_lock(&gp_context_lock);
	context = find(handle);
	pthread_mutex_unlock(&gp_context_lock);
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

	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_contexts && !found; i++)
		if (contexts[i]->pool == pool)
			found = contexts[i];
	pthread_mutex_unlock(&gp_context_lock);
	return found;
}

/*
 * Which context is current is the driver's to say, and it is asked, but for
 * launches, where that would cost most. Contexts come from three places. The
 * primary one of a device: with one device there is one. cuCtxCreate and its
 * versions, and cuGreenCtxCreate: they are stood in for, and tell before the
 * program has the handle. Others (of graphics): they have no pool, so what is
 * submitted there is nobody's work. Counted as that of the primary context's
 * stream it does no harm, as more work counts there than there is; what waits
 * prove is asked about as ever.
 */
bool gp_context_alone(void)
{
	static int devices; /* atomic; 0: not asked yet */
	int n = __atomic_load_n(&devices, __ATOMIC_RELAXED);

	if (!n && gp_real()->cuDeviceGetCount(&n) == CUDA_SUCCESS)
		__atomic_store_n(&devices, n, __ATOMIC_RELAXED);
	return n == 1 && !__atomic_load_n(&any_others, __ATOMIC_ACQUIRE);
}

void gp_context_others(void)
{
	__atomic_store_n(&any_others, true, __ATOMIC_RELEASE);
	gp_follow_expire();
}

void gp_context_created(CUcontext context)
{
	gp_context_others();
	pthread_mutex_lock(&gp_context_lock);
	if (!was_created(context) && num_created < MAX_CREATED)
		created[num_created++] = context;
	pthread_mutex_unlock(&gp_context_lock);
}

static void gone(bool (*match)(const struct gp_context *, const void *),
		 const void *arg)
{
	struct gp_driver_pool *driver_pool = NULL;
	struct gp_context *context = NULL;
	struct gp_pool *pool = NULL;

	pthread_mutex_lock(&gp_context_lock);
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
			pthread_cond_wait(&no_users, &gp_context_lock);
		pool = context->pool;
		driver_pool = context->driver_pool;
		if (pool || driver_pool)
			gp_context_retire(context);
		context->pool = NULL;
		context->driver_pool = NULL;
		gp_cuda_gone(&context->cuda);
	}
	pthread_mutex_unlock(&gp_context_lock);
	if (!context)
		return;
	gp_capture_forget(context->cuda.context, UINT64_MAX);
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

/* That context, or (NULL) the primary one. Under the lock. */
static struct gp_context *which(CUcontext handle, CUdevice device)
{
	for (size_t i = 0; i < num_contexts; i++)
		if (handle ? contexts[i]->cuda.context == handle
			   : match_primary(contexts[i], &device))
			return contexts[i];
	return NULL;
}

/* Until left(). Under the lock. */
static void leaves_from_now(CUcontext handle, CUdevice device)
{
	const struct gp_context *context = which(handle, device);

	if (num_leaving == MAX_LEAVING)
		return;
	leaving[num_leaving].handle = context ? context->cuda.context : handle;
	leaving[num_leaving].thread = pthread_self();
	leaving[num_leaving++].device = handle ? -1 : device;
}

static void left(CUcontext handle, CUdevice device)
{
	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_leaving; i++)
		if (handle ? leaving[i].handle == handle
			   : leaving[i].device == device) {
			leaving[i] = leaving[--num_leaving];
			break;
		}
	pthread_cond_broadcast(&has_left);
	pthread_mutex_unlock(&gp_context_lock);
}

/* By this thread or another; under the lock. */
static bool is_leaving(CUcontext handle, bool by_us)
{
	for (size_t i = 0; i < num_leaving; i++)
		if (leaving[i].handle == handle &&
		    (by_us ||
		     !pthread_equal(leaving[i].thread, pthread_self())))
			return true;
	return false;
}

bool gp_context_is_leaving(CUcontext handle)
{
	bool is;

	pthread_mutex_lock(&gp_context_lock);
	is = is_leaving(handle, true);
	pthread_mutex_unlock(&gp_context_lock);
	return is;
}

void gp_context_await_left(CUcontext handle)
{
	pthread_mutex_lock(&gp_context_lock);
	while (is_leaving(handle, false))
		pthread_cond_wait(&has_left, &gp_context_lock);
	pthread_mutex_unlock(&gp_context_lock);
}

void gp_context_may_leave(CUdevice device)
{
	pthread_mutex_lock(&gp_context_lock);
	leaves_from_now(NULL, device);
	pthread_mutex_unlock(&gp_context_lock);
}

/* Also of its streams and events the handles may come back at once. Borrowed, as
 * the pools wait for their own calls; or NULL. */
static struct gp_context *leaves(CUcontext handle, CUdevice device)
{
	struct gp_context *context;

	pthread_mutex_lock(&gp_context_lock);
	leaves_from_now(handle, device);
	context = which(handle, device);
	if (context) {
		__atomic_add_fetch(&generation, 1, __ATOMIC_RELEASE);
		gp_follow_expire();
		users++;
	}
	pthread_mutex_unlock(&gp_context_lock);
	return context;
}

void gp_context_leaves(CUcontext handle, CUdevice device)
{
	const struct gp_context *context = leaves(handle, device);
	struct gp_driver_pool *driver_pool;

	if (!context)
		return;
	if (context->pool)
		gp_pool_leave(context->pool, true);
	driver_pool = context->driver_pool;
	gp_context_return();
	/* Waits for the context's work, and others not for it. */
	if (driver_pool)
		gp_driver_pool_leave(driver_pool);
}

void gp_context_stays(CUcontext handle, CUdevice device)
{
	struct gp_context *context;

	pthread_mutex_lock(&gp_context_lock);
	context = which(handle, device);
	if (context && context->pool)
		gp_pool_leave(context->pool, false);
	pthread_mutex_unlock(&gp_context_lock);
	left(handle, device);
}

void gp_context_gone(CUcontext handle)
{
	pthread_mutex_lock(&gp_context_lock);
	for (size_t i = 0; i < num_created; i++)
		if (created[i] == handle) {
			created[i] = created[--num_created];
			break;
		}
	pthread_mutex_unlock(&gp_context_lock);
	gone(match_handle, &handle);
	gp_take_context_gone(handle, -1, gp_context_was_created);
	gp_graph_context_gone();
	gp_ipc_context_gone(handle, -1);
	gp_overhead_gone(handle, -1);
	left(handle, -1);
}

void gp_context_green_gone(CUcontext handle)
{
	gone(match_handle, &handle);
	gp_graph_context_gone();
}

void gp_context_primary_gone(CUdevice device)
{
	gone(match_primary, &device);
	gp_take_context_gone(NULL, device, gp_context_was_created);
	gp_graph_context_gone();
	gp_ipc_context_gone(NULL, device);
	gp_overhead_gone(NULL, device);
	left(NULL, device);
}

bool gp_context_was_created(CUcontext handle)
{
	bool was;

	pthread_mutex_lock(&gp_context_lock);
	was = was_created(handle);
	pthread_mutex_unlock(&gp_context_lock);
	return was;
}

CUresult gp_context_probe(const struct gp_context *context)
{
	CUresult rc;

	if (!context->probe)
		return CUDA_SUCCESS;
	rc = gp_real()->cuEventQuery(context->probe);
	return rc == CUDA_ERROR_NOT_READY || rc == CUDA_ERROR_INVALID_CONTEXT
		       ? CUDA_SUCCESS
		       : rc;
}

size_t gp_context_borrow(struct gp_context *list[GP_MAX_CONTEXTS])
{
	size_t n = 0;

	pthread_mutex_lock(&gp_context_lock);
	users++;
	for (size_t i = 0; i < num_contexts; i++)
		if (contexts[i]->pool || contexts[i]->driver_pool)
			list[n++] = contexts[i];
	pthread_mutex_unlock(&gp_context_lock);
	return n;
}

void gp_context_return(void)
{
	pthread_mutex_lock(&gp_context_lock);
	if (--users == 0)
		pthread_cond_broadcast(&no_users);
	pthread_mutex_unlock(&gp_context_lock);
}
