/* Memory outside the pool and its ledger; see take.h. */
#include "shim/take.h"

#include <errno.h>

#include "shim/async.h"
#include "shim/capture.h"
#include "shim/context.h"
#include "shim/devices.h"
#include "shim/driver_pool.h"
#include "shim/reporter.h"
#include "shim/room.h"
#include "shim/small.h"
#include "shim/state.h"
#include "shim/tracer.h"

#define SMALL      (1ull << 20)

/* In what units the driver hands out memory of each kind (measured). */
#define PLAIN_UNIT 512u
#define ARRAY_UNIT (64u << 10)

static bool is_host(enum gp_kind kind)
{
	return kind == GP_KIND_pinned || kind == GP_KIND_registered;
}

static uint64_t up(uint64_t bytes, uint64_t unit)
{
	uint64_t rest = bytes % unit;

	return !rest || bytes > UINT64_MAX - unit ? bytes : bytes - rest + unit;
}

static struct gp_charge charge_for(enum gp_kind kind, uint64_t bytes,
				   CUcontext context, CUdevice device)
{
	struct gp_charge charge = {GP_PART_plain, bytes, NULL};

	switch (kind) {
	case GP_KIND_managed:
		charge.part = GP_PART_managed;
		break;
	case GP_KIND_array:
		charge.part = GP_PART_array;
		break;
	case GP_KIND_virtual:
		charge.part = GP_PART_virtual;
		return charge;
	case GP_KIND_external:
		charge.part = GP_PART_external;
		return charge;
	case GP_KIND_plain:
		break;
	default: /* host memory has a ledger to itself */
		return charge;
	}
	if (context && bytes <= SMALL)
		charge.small = gp_small_of(context, device);
	charge.bytes = up(bytes, !charge.small           ? GP_LIMIT_PIECE
				 : kind == GP_KIND_array ? ARRAY_UNIT
							 : PLAIN_UNIT);
	return charge;
}

void gp_take_refused(CUdevice device, uint64_t bytes, const char *call)
{
	gp_limit_refused(gp_device_limit(device));
	gp_tracer_oom(bytes);
	gp_reporter_oom(bytes, device, call, true);
}

__attribute__((noinline, cold)) void
gp_take_lacked(CUdevice device, uint64_t bytes, const char *call)
{
	int saved = errno;

	gp_tracer_oom(bytes);
	gp_reporter_oom(bytes, device, call, false);
	errno = saved;
}

/* The limit of a kind of host memory; nothing is cached that could make room.
 */
static bool reserve_host(struct gp_take *take)
{
	struct gp_limit *limit = gp_host_limit();
	uint64_t outcomes;

	take->entry.limit = limit;
	while (gp_limit_reserve(limit, &take->entry.charge, &outcomes)) {
		if (gp_limit_allows(limit, take->entry.charge.bytes) &&
		    gp_limit_wait(limit, outcomes))
			continue;
		gp_limit_refused(limit);
		return false;
	}
	return true;
}

static bool begin(struct gp_take *take, CUdevice device, CUcontext context,
		  enum gp_kind kind, uint64_t bytes, const char *call)
{
	int saved = errno;
	bool granted;

	take->on = true;
	take->call = call;
	take->entry = (struct gp_foreign){
		.kind = kind,
		.bytes = bytes,
		.refs = 1,
		.device = device,
		.context = (uintptr_t)context,
		.charge = charge_for(kind, bytes, context, device),
	};
	if (is_host(kind)) {
		granted = reserve_host(take);
	} else {
		granted = !gp_room_reserve(device, &take->entry.charge, NULL);
		take->entry.limit = gp_device_limit(device);
		if (!granted)
			gp_take_refused(device, bytes, call);
	}
	errno = saved;
	return granted;
}

/* Whatever there is room for, the driver refuses it, and ends the capture. */
static __attribute__((noinline, cold)) bool capture_forbids(void)
{
	const struct gp_context *context = gp_context_current();

	return context && gp_context_probe(context) != CUDA_SUCCESS;
}

bool gp_take_begin(struct gp_take *take, enum gp_kind kind, uint64_t bytes,
		   const char *call)
{
	const struct gp_real *real = gp_real();
	CUcontext context = NULL;
	CUdevice device = -1;

	take->on = false;
	/* Without a context, or for nothing, the driver's own answer. */
	if (!bytes || !gp_active() ||
	    real->cuCtxGetCurrent(&context) != CUDA_SUCCESS || !context ||
	    real->cuCtxGetDevice(&device) != CUDA_SUCCESS)
		return true;
	if (gp_capture_any() && kind == GP_KIND_plain && capture_forbids())
		return true;
	return begin(take, device, context, kind, bytes, call);
}

bool gp_take_begin_on(struct gp_take *take, CUdevice device, enum gp_kind kind,
		      uint64_t bytes, const char *call)
{
	take->on = false;
	if (!bytes || !gp_active())
		return true;
	return begin(take, device, NULL, kind, bytes, call);
}

/* It is gone: off the ledger it was charged to. */
static void gave(const struct gp_foreign *entry)
{
	if (entry->limit)
		gp_limit_give(entry->limit, &entry->charge);
	gp_async_freed(entry);
}

bool gp_take_enter(uint64_t key, const struct gp_foreign *entry)
{
	struct gp_foreign before;
	bool entered = gp_foreign_add(key, entry, &before);

	if (before.refs)
		gave(&before);
	if (entered && entry->owner)
		gp_driver_pool_got(entry->owner, key, entry->bytes);
	return entered;
}

void gp_take_end(struct gp_take *take, CUresult rc, uint64_t key)
{
	if (!take->on)
		return;
	if (rc == CUDA_SUCCESS && gp_take_enter(key, &take->entry))
		gp_limit_keep(take->entry.limit);
	else
		gp_limit_cancel(take->entry.limit, &take->entry.charge);
	if (__builtin_expect(rc == CUDA_ERROR_OUT_OF_MEMORY, 0) &&
	    !is_host(take->entry.kind))
		gp_take_lacked(take->entry.device, take->entry.bytes,
			       take->call);
}

bool gp_take_out(uint64_t key, struct gp_foreign *entry)
{
	if (!gp_running() || !gp_foreign_take(key, entry))
		return false;
	if (__builtin_expect(entry->owner != NULL, 0))
		gp_driver_pool_lost(entry->owner, key, entry->bytes);
	return true;
}

void gp_take_freed(bool known, uint64_t key, const struct gp_foreign *entry,
		   CUresult rc)
{
	if (!known)
		return;
	if (rc == CUDA_SUCCESS || !gp_take_enter(key, entry))
		gave(entry);
}

struct gone {
	CUcontext context;
	CUdevice device;
	bool (*created)(CUcontext);
};

static bool is_gone(CUcontext context, CUdevice device, const void *arg)
{
	const struct gone *gone = arg;

	if (!context || gone->context)
		return context && context == gone->context;
	return device == gone->device && !gone->created(context);
}

static bool went(const struct gp_foreign *entry, const void *arg)
{
	return is_gone((CUcontext)(uintptr_t)entry->context, entry->device,
		       arg);
}

static void dropped(uint64_t key, const struct gp_foreign *entry)
{
	(void)key;
	gave(entry);
}

void gp_take_context_gone(CUcontext context, CUdevice device,
			  bool (*created)(CUcontext))
{
	struct gone gone = {context, device, created};

	gp_foreign_forget(went, &gone, dropped);
	gp_small_forget(is_gone, &gone);
}

bool gp_take_is_owned(uint64_t key)
{
	struct gp_foreign entry;

	return key && gp_foreign_look(key, &entry) && entry.owner;
}

static bool owned(const struct gp_foreign *entry, const void *owner)
{
	return entry->owner == owner;
}

/* The owner knows where it goes. */
static void back(uint64_t key, const struct gp_foreign *entry)
{
	gp_driver_pool_back(entry->owner, key);
	gave(entry);
}

void gp_take_owner_goes(const void *owner)
{
	gp_foreign_forget(owned, owner, back);
}
