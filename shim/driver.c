/*
 * The driver seam over libcuda. Virtual-memory calls need no current context
 * and are allowed while streams capture; only sync needs the context.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "shim/capture.h"
#include "shim/devices.h"
#include "shim/driver_impl.h"
#include "shim/neighbours.h"
#include "shim/room.h"

static __thread CUresult last_error;
static __thread const char *last_call = "no call";

CUresult gp_cuda_last_error(void)
{
	return last_error;
}

const char *gp_cuda_last_call(void)
{
	return last_call;
}

int gp_cuda_errno(CUresult rc, const char *call)
{
	if (rc == CUDA_SUCCESS)
		return 0;
	last_error = rc;
	last_call = call;
	if (rc == CUDA_ERROR_OUT_OF_MEMORY)
		return -ENOMEM;
	if (rc >= CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED &&
	    rc <= CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD)
		return -EBUSY;
	return -EIO;
}

static int reserve(void *dev, uint64_t bytes, uint64_t *va)
{
	const struct gp_cuda_driver *cuda = dev;
	CUdeviceptr address;
	int rc = gp_cuda_errno(
		gp_real()->cuMemAddressReserve(&address, bytes,
					       cuda->driver.granularity, 0, 0),
		"cuMemAddressReserve");

	if (!rc)
		*va = address;
	return rc;
}

static int unreserve(void *dev, uint64_t va, uint64_t bytes)
{
	(void)dev;
	return gp_cuda_errno(gp_real()->cuMemAddressFree(va, bytes),
			     "cuMemAddressFree");
}

static int create(void *dev, uint64_t bytes, uint64_t *handle)
{
	const struct gp_cuda_driver *cuda = dev;
	CUmemGenericAllocationHandle made;
	int rc = gp_cuda_take(cuda, bytes);
	CUresult result;

	if (rc)
		return rc;
	result = gp_real()->cuMemCreate(&made, bytes, &cuda->prop, 0);
	if (gp_cuda_others_gave(cuda, bytes, result))
		result = gp_real()->cuMemCreate(&made, bytes, &cuda->prop, 0);
	rc = gp_cuda_errno(result, "cuMemCreate");
	gp_cuda_taken(cuda, bytes, rc);
	if (!rc)
		*handle = made;
	return rc;
}

static int release(void *dev, uint64_t handle, uint64_t bytes)
{
	int rc = gp_cuda_errno(gp_real()->cuMemRelease(handle), "cuMemRelease");

	if (!rc)
		gp_cuda_gave(dev, bytes);
	return rc;
}

static int map(void *dev, uint64_t va, uint64_t bytes, uint64_t handle)
{
	(void)dev;
	return gp_cuda_errno(gp_real()->cuMemMap(va, bytes, 0, handle, 0),
			     "cuMemMap");
}

static CUresult set_access_for(const struct gp_cuda_driver *cuda, uint64_t va,
			       uint64_t bytes, uint64_t peers, uint64_t told)
{
	CUmemAccessDesc access[1 + GP_MAX_PEERS] = {{
		.location = cuda->prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	}};
	size_t n = 1;

	for (int i = 0; told; i++, told >>= 1, peers >>= 1) {
		if (!(told & 1))
			continue;
		access[n].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access[n].location.id = i;
		access[n++].flags = peers & 1
					    ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
	return gp_real()->cuMemSetAccess(va, bytes, access, n);
}

static int set_access(void *dev, uint64_t va, uint64_t bytes)
{
	const struct gp_cuda_driver *cuda = dev;
	uint64_t told = __atomic_load_n(&cuda->told, __ATOMIC_SEQ_CST);
	uint64_t peers = __atomic_load_n(&cuda->peers, __ATOMIC_SEQ_CST);

	return gp_cuda_errno(set_access_for(cuda, va, bytes, peers, told),
			     "cuMemSetAccess");
}

static int unmap(void *dev, uint64_t va, uint64_t bytes)
{
	(void)dev;
	return gp_cuda_errno(gp_real()->cuMemUnmap(va, bytes), "cuMemUnmap");
}

CUresult gp_cuda_in_context(const struct gp_cuda_driver *cuda,
			    CUresult (*body)(const struct gp_real *real,
					     void *arg),
			    void *arg)
{
	const struct gp_real *real = gp_real();
	CUcontext current = NULL;
	CUresult rc = real->cuCtxGetCurrent(&current);

	if (rc != CUDA_SUCCESS)
		return rc;
	if (current == cuda->context)
		return body(real, arg);
	rc = real->cuCtxPushCurrent_v2(cuda->context);
	if (rc != CUDA_SUCCESS)
		return rc;
	rc = body(real, arg);
	real->cuCtxPopCurrent_v2(&current);
	return rc;
}

static uint64_t now(void *dev)
{
	struct timespec time;

	(void)dev;
	clock_gettime(CLOCK_MONOTONIC, &time);
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

static uint64_t make_room(void *dev, uint64_t bytes)
{
	const struct gp_cuda_driver *cuda = dev;

	if (gp_room_limit_refused())
		return 0; /* nobody else can help there */
	return gp_neighbours_ask((const uint8_t *)cuda->uuid.bytes,
				 cuda->driver.device, bytes);
}

static const struct gp_driver_ops cuda_ops = {
	.reserve = reserve,
	.unreserve = unreserve,
	.create = create,
	.release = release,
	.map = map,
	.set_access = set_access,
	.unmap = unmap,
	.segment_alloc = gp_cuda_segment_alloc,
	.segment_free = gp_cuda_segment_free,
	.sync = gp_cuda_sync,
	.now = now,
	.make_room = make_room,
};

/* ---- streams and events ------------------------------------------------------ */

static inline int eased(struct gp_ease *e, CUresult rc)
{
	gp_unease(e);
	return gp_cuda_errno(rc, "a call on streams or events");
}

struct stream_call {
	CUevent event;
	CUstream stream;
	unsigned flags;
};

static CUresult event_create_body(const struct gp_real *real, void *arg)
{
	return real->cuEventCreate(&((struct stream_call *)arg)->event,
				   CU_EVENT_DISABLE_TIMING);
}

static int event_create(void *dev, uint64_t *event)
{
	struct stream_call call = {.event = NULL};
	struct gp_ease e = gp_ease();
	int rc = eased(&e, gp_cuda_in_context(dev, event_create_body, &call));

	*event = (uintptr_t)call.event;
	return rc;
}

static CUresult record_body(const struct gp_real *real, void *arg)
{
	const struct stream_call *call = arg;

	return real->cuEventRecord(call->event, call->stream);
}

static CUresult wait_body(const struct gp_real *real, void *arg)
{
	const struct stream_call *call = arg;

	return real->cuStreamWaitEvent(call->stream, call->event, 0);
}

/* Only the default streams mean what the current context says. */
static inline bool is_default(uint64_t stream)
{
	return stream <= (uintptr_t)CU_STREAM_PER_THREAD;
}

static int record(void *dev, uint64_t event, uint64_t stream)
{
	struct stream_call call = {.event = (CUevent)event,
				   .stream = (CUstream)stream};
	struct gp_ease e = gp_ease();

	return eased(&e, is_default(stream)
				 ? gp_cuda_in_context(dev, record_body, &call)
				 : record_body(gp_real(), &call));
}

static int wait(void *dev, uint64_t stream, uint64_t event)
{
	struct stream_call call = {.event = (CUevent)event,
				   .stream = (CUstream)stream};
	struct gp_ease e = gp_ease();

	return eased(&e, is_default(stream)
				 ? gp_cuda_in_context(dev, wait_body, &call)
				 : wait_body(gp_real(), &call));
}

static int query(void *dev, uint64_t event)
{
	struct gp_ease e = gp_ease();
	CUresult rc = gp_real()->cuEventQuery((CUevent)event);

	(void)dev;
	if (rc == CUDA_ERROR_NOT_READY) {
		eased(&e, CUDA_SUCCESS);
		return -EAGAIN;
	}
	return eased(&e, rc);
}

static int event_sync(void *dev, uint64_t event)
{
	struct gp_ease e = gp_ease();

	(void)dev;
	return eased(&e, gp_real()->cuEventSynchronize((CUevent)event));
}

struct zero_call {
	CUdeviceptr va;
	size_t bytes;
	CUstream stream;
};

static CUresult zero_body(const struct gp_real *real, void *arg)
{
	const struct zero_call *call = arg;

	return real->cuMemsetD8Async(call->va, 0, call->bytes, call->stream);
}

static int zero(void *dev, uint64_t stream, uint64_t va, uint64_t bytes)
{
	struct zero_call call = {va, bytes, (CUstream)stream};
	struct gp_ease e = gp_ease();

	return eased(&e, gp_cuda_in_context(dev, zero_body, &call));
}

static CUresult stream_create_body(const struct gp_real *real, void *arg)
{
	struct stream_call *call = arg;

	return real->cuStreamCreate(&call->stream, call->flags);
}

static int stream_create(void *dev, bool blocking, uint64_t *stream)
{
	struct stream_call call = {.flags = blocking ? CU_STREAM_DEFAULT
						     : CU_STREAM_NON_BLOCKING};
	struct gp_ease e = gp_ease();
	int rc = eased(&e, gp_cuda_in_context(dev, stream_create_body, &call));

	*stream = (uintptr_t)call.stream;
	return rc;
}

static CUresult stream_destroy_body(const struct gp_real *real, void *arg)
{
	return real->cuStreamDestroy_v2(((struct stream_call *)arg)->stream);
}

static void stream_destroy(void *dev, uint64_t stream)
{
	struct stream_call call = {.stream = (CUstream)stream};
	struct gp_ease e = gp_ease();

	eased(&e, gp_cuda_in_context(dev, stream_destroy_body, &call));
}

static bool is_capturing(void *dev, uint64_t stream)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;

	(void)dev;
	return gp_real()->cuStreamIsCapturing((CUstream)stream, &status) ==
		       CUDA_SUCCESS &&
	       status != CU_STREAM_CAPTURE_STATUS_NONE;
}

static bool is_blocking(void *dev, uint64_t stream)
{
	unsigned flags = 0;

	(void)dev;
	if (is_default(stream))
		return stream == (uintptr_t)CU_STREAM_PER_THREAD;
	return gp_real()->cuStreamGetFlags((CUstream)stream, &flags) ==
		       CUDA_SUCCESS &&
	       !(flags & CU_STREAM_NON_BLOCKING);
}

static const struct gp_stream_ops cuda_streams = {
	.event_create = event_create,
	.record = record,
	.wait = wait,
	.query = query,
	.event_sync = event_sync,
	.zero = zero,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.is_capturing = is_capturing,
	.is_blocking = is_blocking,
};

static bool attribute(CUdevice device, CUdevice_attribute which)
{
	int value = 0;

	return gp_real()->cuDeviceGetAttribute(&value, which, device) ==
		       CUDA_SUCCESS &&
	       value != 0;
}

int gp_cuda_driver_init(struct gp_cuda_driver *cuda, CUcontext context,
			CUdevice device)
{
	const struct gp_real *real = gp_real();
	size_t total = 0, granularity = 0;
	struct gp_limit_stats limit;
	int rc;

	memset(cuda, 0, sizeof(*cuda));
	cuda->context = context;
	cuda->device = device;
	cuda->driver.ops = &cuda_ops;
	cuda->driver.streams = &cuda_streams;
	cuda->driver.dev = cuda;
	cuda->driver.device = (uint32_t)device;
	rc = gp_cuda_errno(real->cuDeviceTotalMem_v2(&total, device),
			   "cuDeviceTotalMem_v2");
	if (rc)
		return rc;
	cuda->driver.total_bytes = total;
	if (real->cuDeviceGetUuid_v2(&cuda->uuid, device) != CUDA_SUCCESS)
		memset(&cuda->uuid, 0, sizeof(cuda->uuid));
	cuda->limit = gp_device_limit(device);
	gp_limit_get(cuda->limit, &limit);
	if (limit.cap < total)
		cuda->driver.limit_bytes = limit.cap;
	cuda->host_sees_all = attribute(
		device,
		CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES);
	cuda->driver.granularity = 2u << 20;
	cuda->driver.has_vmm = attribute(
		device,
		CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED);
	if (!cuda->driver.has_vmm)
		return 0;

	cuda->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
	cuda->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
	cuda->prop.location.id = device;
	/* Exportable, so that a block can be shared between processes. */
	if (attribute(
		    device,
		    CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED))
		cuda->prop.requestedHandleTypes =
			CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
	if (real->cuMemGetAllocationGranularity(
		    &granularity, &cuda->prop,
		    CU_MEM_ALLOC_GRANULARITY_RECOMMENDED) == CUDA_SUCCESS &&
	    granularity)
		cuda->driver.granularity = granularity;
	return 0;
}
