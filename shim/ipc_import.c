/*
 * Memory handles of this and other processes: the entry points, and what was
 * opened; see ipc.h.
 */
#include "shim/ipc.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pool/notes.h"
#include "pool/pool.h"
#include "shim/context.h"
#include "shim/room.h"
#include "shim/state.h"
#include "shim/take.h"
#include "stats/log.h"
#include "stats/process_file.h"

/* Far from the numbers of the pool's allocations, and of the driver's. */
#define FIRST_ID (1ull << 52)

struct opened {
	struct opened *next;
	CUipcMemHandle handle;
	CUcontext context;
	CUdevice device;
	bool created; /* by the program: no primary context */
	struct gp_ipc_range range;
	CUdeviceptr at; /* of what is mapped */
	uint64_t span;  /* reserved; 0: nothing yet */
	uint64_t mapped;
	unsigned opens;
	struct gp_handoff owner; /* closed with the mapping */
};

/* Rank: leaf. Never held across a driver call. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct opened *all;      /* guarded by lock */
static unsigned num_opened;     /* atomic; written under lock */
static uint64_t ids = FIRST_ID; /* atomic */

/* ---- what was opened ------------------------------------------------------------- */

static bool any(void)
{
	return __atomic_load_n(&num_opened, __ATOMIC_ACQUIRE) != 0;
}

bool gp_ipc_find(CUdeviceptr address, struct gp_ipc_range *range)
{
	bool found = false;

	if (!any())
		return false;
	pthread_mutex_lock(&lock);
	for (const struct opened *o = all; o && !found; o = o->next) {
		found = address - o->range.base < o->range.bytes;
		if (found)
			*range = o->range;
	}
	pthread_mutex_unlock(&lock);
	return found;
}

bool gp_ipc_is_mapped(CUdeviceptr address)
{
	bool found = false;

	if (!any())
		return false;
	pthread_mutex_lock(&lock);
	for (const struct opened *o = all; o && !found; o = o->next)
		found = address - o->at < o->span;
	pthread_mutex_unlock(&lock);
	return found;
}

/* Under the lock. */
static struct opened **find_handle(const CUipcMemHandle *handle,
				   CUcontext context)
{
	struct opened **link = &all;

	while (*link &&
	       ((*link)->context != context ||
		memcmp(&(*link)->handle, handle, sizeof(*handle)) != 0))
		link = &(*link)->next;
	return link;
}

static struct opened **find_base(CUdeviceptr base)
{
	struct opened **link = &all;

	while (*link && (*link)->range.base != base)
		link = &(*link)->next;
	return link;
}

static void take_out(struct opened **link)
{
	*link = (*link)->next;
	__atomic_sub_fetch(&num_opened, 1, __ATOMIC_RELEASE);
}

/* Opened before? Once more, then. */
static bool open_again(const CUipcMemHandle *handle, CUcontext context,
		       CUdeviceptr *address)
{
	struct opened *o;

	pthread_mutex_lock(&lock);
	o = *find_handle(handle, context);
	if (o) {
		o->opens++;
		*address = o->range.base;
	}
	pthread_mutex_unlock(&lock);
	return o != NULL;
}

/* ---- mapping ------------------------------------------------------------------------- */

/* Whatever has been done of it. The owner hears of it last. */
static void unmap(struct opened *o)
{
	const struct gp_ipc_ask bye = {.version = GP_IPC_VERSION, .bye = 1};
	const struct gp_real *real = gp_real();
	bool gone = !o->mapped ||
		    real->cuMemUnmap(o->at, o->mapped) == CUDA_SUCCESS;

	if (o->span && gone)
		real->cuMemAddressFree(o->at, o->span);
	if (gone && gp_handoff_is_there(&o->owner))
		gp_handoff_send(&o->owner, &bye, sizeof(bye), NULL, 0);
	gp_handoff_close(&o->owner);
	free(o);
}

static CUresult map_one(struct opened *o, int fd, uint64_t bytes)
{
	const struct gp_real *real = gp_real();
	CUmemGenericAllocationHandle handle;
	void *os_handle = (void *)(intptr_t)fd;
	CUresult rc;

	if (bytes > o->span - o->mapped)
		return CUDA_ERROR_MAP_FAILED;
	rc = real->cuMemImportFromShareableHandle(
		&handle, os_handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (gp_room_made(rc))
		rc = real->cuMemImportFromShareableHandle(
			&handle, os_handle,
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
	if (rc != CUDA_SUCCESS)
		return rc;
	rc = real->cuMemMap(o->at + o->mapped, bytes, 0, handle, 0);
	if (rc == CUDA_SUCCESS)
		o->mapped += bytes;
	real->cuMemRelease(handle); /* the mapping keeps it */
	return rc;
}

/* The pieces of one message. */
static CUresult map_part(struct opened *o, const struct gp_ipc_part *part,
			 const int *fds, size_t n)
{
	CUresult rc = CUDA_SUCCESS;

	if (!o->span) {
		if (part->first || !part->span || part->offset >= part->span ||
		    part->bytes > part->span - part->offset)
			return CUDA_ERROR_MAP_FAILED;
		rc = gp_real()->cuMemAddressReserve(&o->at, part->span, 0, 0,
						    0);
		if (rc != CUDA_SUCCESS)
			return rc;
		o->span = part->span;
		o->range.base = o->at + part->offset;
		o->range.bytes = part->bytes;
	}
	for (size_t i = 0; i < n && !rc; i++)
		rc = map_one(o, fds[i], part->sizes[i]);
	return rc;
}

/* Asks the owner, and maps what comes. */
static CUresult fetch(struct opened *o, const struct gp_ipc_handle *parts)
{
	const struct gp_ipc_ask ask = {.version = GP_IPC_VERSION,
				       .base = parts->base,
				       .id = parts->id};
	CUresult rc = CUDA_SUCCESS;
	struct gp_ipc_part part;
	int fds[GP_HANDOFF_FDS];
	size_t num_fds;

	if (gp_handoff_send(&o->owner, &ask, sizeof(ask), NULL, 0))
		return CUDA_ERROR_INVALID_HANDLE;
	do {
		int n = gp_handoff_receive(&o->owner, &part, sizeof(part), fds,
					   &num_fds);

		if (n != sizeof(part) || part.version != GP_IPC_VERSION)
			rc = n == -EMFILE ? CUDA_ERROR_OPERATING_SYSTEM
					  : CUDA_ERROR_MAP_FAILED;
		else if (part.error)
			rc = (CUresult)part.error;
		else
			rc = num_fds ? map_part(o, &part, fds, num_fds)
				     : CUDA_ERROR_MAP_FAILED;
		while (num_fds)
			close(fds[--num_fds]);
	} while (rc == CUDA_SUCCESS && o->mapped < o->span);
	return rc;
}

static CUresult give_access(const struct opened *o)
{
	const CUmemAccessDesc access = {
		.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE,
			     .id = o->device},
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	};
	CUresult rc = gp_real()->cuMemSetAccess(o->at, o->mapped, &access, 1);

	/* Memory of another card that this one does not reach. */
	return rc == CUDA_ERROR_INVALID_DEVICE
		       ? CUDA_ERROR_PEER_ACCESS_UNSUPPORTED
		       : rc;
}

static CUresult find_owner(struct opened *o, const struct gp_ipc_handle *parts)
{
	const struct gp_handoff_name name = {.pid = parts->pid,
					     .start = parts->start,
					     .token = parts->token};
	int rc = *gp_file_dir()
			 ? gp_handoff_connect(gp_file_dir(), &name, &o->owner)
			 : -ENOENT;

	if (!rc)
		return CUDA_SUCCESS;
	gp_warn("memory of process %u cannot be opened: its socket in %s (%s)",
		parts->pid, *gp_file_dir() ? gp_file_dir() : "no directory",
		strerror(-rc));
	return CUDA_ERROR_INVALID_HANDLE;
}

/* The mapping is made with no lock held: another thread may have done the same
 * meanwhile, and then its mapping is used. */
static CUresult enter(struct opened *o, CUdeviceptr *address)
{
	struct gp_foreign entry = {.kind = GP_KIND_external,
				   .refs = 1,
				   .device = -1,
				   .bytes = o->range.bytes};

	pthread_mutex_lock(&lock);
	struct opened *other = *find_handle(&o->handle, o->context);

	if (other) {
		other->opens++;
		*address = other->range.base;
	} else {
		o->next = all;
		all = o;
		__atomic_add_fetch(&num_opened, 1, __ATOMIC_RELEASE);
		*address = o->range.base;
	}
	pthread_mutex_unlock(&lock);
	if (other)
		unmap(o);
	else
		gp_take_enter(*address, &entry);
	return CUDA_SUCCESS;
}

static CUresult open_ours(CUdeviceptr *address, const CUipcMemHandle *handle,
			  const struct gp_ipc_handle *parts, unsigned flags)
{
	const struct gp_real *real = gp_real();
	CUcontext context = NULL;
	struct opened *o;
	CUdevice device;
	CUresult rc;

	if (!address || flags != CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
		return CUDA_ERROR_INVALID_VALUE;
	rc = real->cuCtxGetCurrent(&context);
	if (rc == CUDA_SUCCESS)
		rc = context ? real->cuCtxGetDevice(&device)
			     : CUDA_ERROR_INVALID_CONTEXT;
	if (rc != CUDA_SUCCESS)
		return rc;
	if (gp_ipc_is_own(parts))
		return CUDA_ERROR_INVALID_CONTEXT; /* as the driver does */
	if (open_again(handle, context, address))
		return CUDA_SUCCESS;
	o = calloc(1, sizeof(*o));
	if (!o)
		return CUDA_ERROR_OUT_OF_MEMORY;
	o->handle = *handle;
	o->context = o->range.context = context;
	o->device = device;
	o->created = gp_context_was_created(context);
	o->range.id = __atomic_fetch_add(&ids, 1, __ATOMIC_RELAXED);
	o->opens = 1;
	o->owner.fd = -1;
	rc = find_owner(o, parts);
	if (rc == CUDA_SUCCESS)
		rc = fetch(o, parts);
	if (rc == CUDA_SUCCESS)
		rc = give_access(o);
	if (rc == CUDA_SUCCESS)
		return enter(o, address);
	unmap(o);
	return rc;
}

/* ---- entry points ---------------------------------------------------------------------- */

/* Memory of a pool of the driver's is not for such handles. */
static CUresult export_plain(CUipcMemHandle *handle, CUdeviceptr address)
{
	static int told;
	CUresult rc = gp_real()->cuIpcGetMemHandle(handle, address);

	if (rc != CUDA_SUCCESS && gp_running() && gp_take_is_owned(address) &&
	    !__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
		gp_warn("with backend:cudaMallocAsync memory cannot be shared "
			"with other processes; backend:native allows it");
	return rc;
}

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
	const struct gp_real *real = gp_real();
	struct gp_pool *pool = gp_pool_of(address);
	uint64_t base, bytes, whole_bytes;
	const struct gp_context *context;
	CUcontext current = NULL;
	CUdeviceptr whole;

	if (gp_ipc_is_mapped(address))
		return CUDA_ERROR_INVALID_VALUE; /* not this process's */
	if (!pool || !handle || !gp_running() ||
	    real->cuCtxGetCurrent(&current) != CUDA_SUCCESS || !current)
		return export_plain(handle, address);
	if (gp_pool_find(pool, address, &base, &bytes))
		return CUDA_ERROR_INVALID_VALUE;
	context = gp_context_of_pool(pool);
	if (context && context->cuda.driver.has_vmm &&
	    gp_settings()->expandable_segments)
		return context->cuda.prop.requestedHandleTypes
			       ? gp_ipc_export(base, bytes, handle)
			       : CUDA_ERROR_INVALID_VALUE;
	/* The driver's handle is of the whole segment: right only where that
	 * starts with this block. */
	if (real->cuMemGetAddressRange_v2(&whole, &whole_bytes, address) ==
		    CUDA_SUCCESS &&
	    whole == base)
		return real->cuIpcGetMemHandle(handle, address);
	gp_warn("memory inside a segment cannot be shared with other "
		"processes; expandable_segments:True allows it");
	return CUDA_ERROR_INVALID_VALUE;
}

/* Another process took this memory; here it is told of, and not counted against
 * the limit. */
static CUresult open_plain(__typeof__(cuIpcOpenMemHandle_v2) *open,
			   CUdeviceptr *address, CUipcMemHandle handle,
			   unsigned flags)
{
	const struct gp_real *real = gp_real();
	CUresult rc = open(address, handle, flags);
	struct gp_foreign entry = {
		.kind = GP_KIND_external, .refs = 1, .device = -1};
	CUdeviceptr base;
	size_t bytes;

	if (gp_room_made(rc))
		rc = open(address, handle, flags);
	if (rc == CUDA_SUCCESS && gp_active() &&
	    real->cuMemGetAddressRange_v2(&base, &bytes, *address) ==
		    CUDA_SUCCESS) {
		entry.bytes = bytes;
		gp_take_enter(*address, &entry);
	}
	return rc;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *address, CUipcMemHandle handle,
			       unsigned flags)
{
	struct gp_ipc_handle parts;

	if (gp_ipc_read(&handle, &parts) && gp_active())
		return open_ours(address, &handle, &parts, flags);
	return open_plain(gp_real()->cuIpcOpenMemHandle_v2, address, handle,
			  flags);
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *address, CUipcMemHandle handle,
			    unsigned flags)
{
	struct gp_ipc_handle parts;

	if (gp_ipc_read(&handle, &parts) && gp_active())
		return open_ours(address, &handle, &parts, flags);
	return open_plain(gp_real()->cuIpcOpenMemHandle, address, handle,
			  flags);
}

/* What the device still does with it is waited for, as in a free. */
static CUresult close_ours(CUdeviceptr address, CUcontext context)
{
	const struct gp_real *real = gp_real();
	struct opened *o = NULL, **link;
	CUcontext popped = NULL;
	struct gp_foreign entry;
	CUresult rc = CUDA_SUCCESS;
	bool last, known;

	pthread_mutex_lock(&lock);
	link = find_base(address);
	last = *link && (*link)->opens == 1;
	if (*link && !last)
		(*link)->opens--;
	pthread_mutex_unlock(&lock);
	if (!last)
		return CUDA_SUCCESS;
	rc = real->cuCtxPushCurrent_v2(context);
	if (rc == CUDA_SUCCESS) {
		rc = real->cuCtxSynchronize();
		real->cuCtxPopCurrent_v2(&popped);
	}
	if (rc >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	    rc <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		return rc;
	pthread_mutex_lock(&lock);
	link = find_base(address);
	if (*link && !--(*link)->opens) { /* nobody opened it meanwhile */
		o = *link;
		take_out(link);
	}
	pthread_mutex_unlock(&lock);
	if (o) {
		known = gp_take_out(address, &entry);
		unmap(o);
		gp_take_freed(known, address, &entry, CUDA_SUCCESS);
	}
	return rc;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
	struct gp_ipc_range range;
	struct gp_foreign entry;
	CUcontext current = NULL;
	bool known;
	CUresult rc;

	if (gp_running() && gp_ipc_find(address, &range) &&
	    range.base == address) {
		rc = gp_real()->cuCtxGetCurrent(&current);
		if (rc != CUDA_SUCCESS || !current)
			return rc ? rc : CUDA_ERROR_INVALID_CONTEXT;
		return close_ours(address, range.context);
	}
	known = gp_take_out(address, &entry);
	rc = gp_real()->cuIpcCloseMemHandle(address);
	gp_take_freed(known, address, &entry, rc);
	return rc;
}

void gp_ipc_context_gone(CUcontext context, CUdevice device)
{
	struct opened *gone = NULL, *o;
	struct gp_foreign entry;

	if (!any())
		return;
	pthread_mutex_lock(&lock);
	for (struct opened **link = &all; (o = *link);) {
		if (context ? o->context != context
			    : o->device != device || o->created) {
			link = &o->next;
			continue;
		}
		take_out(link);
		o->next = gone;
		gone = o;
	}
	pthread_mutex_unlock(&lock);
	while ((o = gone)) {
		gone = o->next;
		if (gp_take_out(o->range.base, &entry))
			gp_take_freed(true, o->range.base, &entry,
				      CUDA_SUCCESS);
		unmap(o);
	}
}

/* The parent's connections: closed here, so that they end with it. */
void gp_ipc_forget_imports(void)
{
	if (!any())
		return;
	for (struct opened *o = all; o; o = o->next)
		gp_handoff_close(&o->owner);
	__atomic_store_n(&num_opened, 0, __ATOMIC_RELEASE);
}
