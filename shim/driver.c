/*
 * The driver seam over libcuda. Virtual-memory calls need no current context
 * and are allowed while streams capture; only sync needs the context.
 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "shim/capture.h"
#include "shim/driver_impl.h"
#include "shim/neighbours.h"
#include "shim/room.h"
#include "stats/clock.h"

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

/* The first handle decides whether there are such as network cards reach. */
static CUresult create_handle(struct gp_cuda_driver *cuda, uint64_t bytes,
			      CUmemGenericAllocationHandle *made)
{
	enum gp_rdma rdma = __atomic_load_n(&cuda->rdma, __ATOMIC_RELAXED);
	enum gp_rdma decided = GP_RDMA_SEEN;
	CUmemAllocationProp prop = cuda->prop;
	CUresult rc;

	prop.allocFlags.gpuDirectRDMACapable = rdma != GP_RDMA_NO;
	rc = gp_real()->cuMemCreate(made, bytes, &prop, 0);
	if (rdma != GP_RDMA_SAID)
		return rc;
	if (rc != CUDA_SUCCESS) {
		prop.allocFlags.gpuDirectRDMACapable = 0;
		rc = gp_real()->cuMemCreate(made, bytes, &prop, 0);
		decided = GP_RDMA_NO;
	}
	if (rc == CUDA_SUCCESS)
		__atomic_compare_exchange_n(&cuda->rdma, &rdma, decided, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED);
	return rc;
}

static int create(void *dev, uint64_t bytes, uint64_t *handle)
{
	struct gp_cuda_driver *cuda = dev;
	CUmemGenericAllocationHandle made;
	int rc = gp_cuda_take(cuda, bytes);
	CUresult result;

	if (rc)
		return rc;
	result = create_handle(cuda, bytes, &made);
	if (gp_cuda_others_gave(cuda, bytes, result))
		result = create_handle(cuda, bytes, &made);
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

size_t gp_cuda_peer_access(const struct gp_cuda_driver *cuda,
			   CUmemAccessDesc access[GP_MAX_PEERS])
{
	uint64_t told = __atomic_load_n(&cuda->told, __ATOMIC_SEQ_CST);
	uint64_t peers = __atomic_load_n(&cuda->peers, __ATOMIC_SEQ_CST);
	size_t n = 0;

	for (int i = 0; told; i++, told >>= 1, peers >>= 1) {
		if (!(told & 1))
			continue;
		access[n].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
		access[n].location.id = i;
		access[n++].flags = peers & 1
					    ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
					    : CU_MEM_ACCESS_FLAGS_PROT_NONE;
	}
	return n;
}

static int set_access(void *dev, uint64_t va, uint64_t bytes)
{
	const struct gp_cuda_driver *cuda = dev;
	CUmemAccessDesc access[1 + GP_MAX_PEERS] = {{
		.location = cuda->prop.location,
		.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
	}};
	size_t n = 1 + gp_cuda_peer_access(cuda, access + 1);

	return gp_cuda_errno(gp_real()->cuMemSetAccess(va, bytes, access, n),
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
	(void)dev;
	return gp_clock_ns(CLOCK_MONOTONIC);
}

static uint64_t make_room(void *dev, uint64_t bytes)
{
	const struct gp_cuda_driver *cuda = dev;

	if (gp_room_limit_refused())
		return 0; /* nobody else can help there */
	return gp_neighbours_ask((const uint8_t *)cuda->uuid.bytes,
				 cuda->driver.device, bytes);
}

const struct gp_driver_ops gp_cuda_ops = {
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

/* For others, and for events, some context has to be current, no matter which:
 * a thread that has none, as the keeper, borrows theirs. */
static CUresult in_any_context(const struct gp_cuda_driver *cuda,
			       CUresult (*body)(const struct gp_real *real,
						void *arg),
			       void *arg)
{
	CUresult rc = body(gp_real(), arg);

	return rc == CUDA_ERROR_INVALID_CONTEXT ||
			       rc == CUDA_ERROR_CONTEXT_IS_DESTROYED
		       ? gp_cuda_in_context(cuda, body, arg)
		       : rc;
}

static CUresult
in_context_of(const struct gp_cuda_driver *cuda, uint64_t stream,
	      CUresult (*body)(const struct gp_real *real, void *arg),
	      void *arg)
{
	return is_default(stream) ? gp_cuda_in_context(cuda, body, arg)
				  : in_any_context(cuda, body, arg);
}

static int record(void *dev, uint64_t event, uint64_t stream)
{
	struct stream_call call = {.event = (CUevent)event,
				   .stream = (CUstream)stream};
	struct gp_ease e = gp_ease();

	return eased(&e, in_context_of(dev, stream, record_body, &call));
}

static int wait(void *dev, uint64_t stream, uint64_t event)
{
	struct stream_call call = {.event = (CUevent)event,
				   .stream = (CUstream)stream};
	struct gp_ease e = gp_ease();

	return eased(&e, in_context_of(dev, stream, wait_body, &call));
}

static CUresult query_body(const struct gp_real *real, void *arg)
{
	return real->cuEventQuery(((const struct stream_call *)arg)->event);
}

static int query(void *dev, uint64_t event)
{
	struct stream_call call = {.event = (CUevent)event};
	struct gp_ease e = gp_ease();
	CUresult rc = in_any_context(dev, query_body, &call);

	if (rc == CUDA_ERROR_NOT_READY) {
		eased(&e, CUDA_SUCCESS);
		return -EAGAIN;
	}
	return eased(&e, rc);
}

static CUresult event_sync_body(const struct gp_real *real, void *arg)
{
	return real->cuEventSynchronize(
		((const struct stream_call *)arg)->event);
}

static int event_sync(void *dev, uint64_t event)
{
	struct stream_call call = {.event = (CUevent)event};
	struct gp_ease e = gp_ease();

	return eased(&e, in_any_context(dev, event_sync_body, &call));
}

struct bytes_call {
	CUdeviceptr va;
	size_t bytes;
	CUstream stream;
	unsigned char value;
	void *to;
};

static CUresult fill_body(const struct gp_real *real, void *arg)
{
	const struct bytes_call *call = arg;

	return real->cuMemsetD8Async(call->va, call->value, call->bytes,
				     call->stream);
}

static int fill(void *dev, uint64_t stream, uint64_t va, uint64_t bytes,
		uint8_t value)
{
	struct bytes_call call = {va, bytes, (CUstream)stream, value, NULL};
	struct gp_ease e = gp_ease();

	return eased(&e, gp_cuda_in_context(dev, fill_body, &call));
}

static CUresult read_body(const struct gp_real *real, void *arg)
{
	const struct bytes_call *call = arg;
	CUresult rc = real->cuMemcpyDtoHAsync_v2(call->to, call->va,
						 call->bytes, call->stream);

	return rc == CUDA_SUCCESS ? real->cuStreamSynchronize(call->stream)
				  : rc;
}

static int read_bytes(void *dev, uint64_t stream, uint64_t va, uint64_t bytes,
		      void *to)
{
	struct bytes_call call = {va, bytes, (CUstream)stream, 0, to};
	struct gp_ease e = gp_ease();

	return eased(&e, gp_cuda_in_context(dev, read_body, &call));
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

const struct gp_stream_ops gp_cuda_streams = {
	.event_create = event_create,
	.record = record,
	.wait = wait,
	.query = query,
	.event_sync = event_sync,
	.fill = fill,
	.read = read_bytes,
	.stream_create = stream_create,
	.stream_destroy = stream_destroy,
	.is_capturing = is_capturing,
	.is_blocking = is_blocking,
};
