/*
 * What a stream can be given beside copies, sets and kernels: waits, host
 * functions, values in memory, hints.
 */
#include "tests/sim/bodies.h"
#include "tests/sim/capture.h"
#include "tests/sim/engine.h"
#include "tests/sim/event.h"

static CUresult submit(CUstream handle, struct sim_work *work)
{
	CUresult err = CUDA_ERROR_INVALID_HANDLE;
	struct sim_stream *stream;

	sim_lock();
	stream = sim_stream_of(handle);
	if (stream)
		err = sim_submit(stream, work, NULL);
	sim_unlock();
	return err;
}

CUresult sim_launch_host(CUstream stream, CUhostFn fn, void *data)
{
	struct sim_work work = {.kind = SIM_W_HOST,
				.us = sim.settings.host_us,
				.host = fn,
				.data = data};

	return fn ? submit(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_stream_callback(CUstream stream, CUstreamCallback fn, void *data,
			     unsigned flags)
{
	struct sim_work work = {.kind = SIM_W_CALLBACK,
				.us = sim.settings.host_us,
				.callback = fn,
				.data = data};

	return fn && !flags ? submit(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult value(enum sim_work_kind kind, CUstream stream, CUdeviceptr va,
		      uint64_t number, unsigned bytes, unsigned flags)
{
	struct sim_work work = {.kind = kind,
				.dst = sim_box_line(va, bytes),
				.value = number,
				.bytes = bytes,
				.flags = flags};
	bool known;

	sim_lock();
	known = !(va % bytes) && sim_region_at(va);
	sim_unlock();
	return known ? submit(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_wait_value32(CUstream stream, CUdeviceptr va, cuuint32_t number,
			  unsigned flags)
{
	return value(SIM_W_POLL, stream, va, number, 4, flags);
}

CUresult sim_write_value32(CUstream stream, CUdeviceptr va, cuuint32_t number,
			   unsigned flags)
{
	return value(SIM_W_WRITE, stream, va, number, 4, flags);
}

CUresult sim_wait_value64(CUstream stream, CUdeviceptr va, cuuint64_t number,
			  unsigned flags)
{
	return value(SIM_W_POLL, stream, va, number, 8, flags);
}

CUresult sim_write_value64(CUstream stream, CUdeviceptr va, cuuint64_t number,
			   unsigned flags)
{
	return value(SIM_W_WRITE, stream, va, number, 8, flags);
}

/* A barrier or a flush has its place in the stream's order already. */
static CUresult one_of_batch(CUstream stream, const CUstreamBatchMemOpParams *p)
{
	switch (p->operation) {
	case CU_STREAM_MEM_OP_WAIT_VALUE_32:
		return value(SIM_W_POLL, stream, p->waitValue.address,
			     p->waitValue.value, 4, p->waitValue.flags);
	case CU_STREAM_MEM_OP_WAIT_VALUE_64:
		return value(SIM_W_POLL, stream, p->waitValue.address,
			     p->waitValue.value64, 8, p->waitValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_32:
		return value(SIM_W_WRITE, stream, p->writeValue.address,
			     p->writeValue.value, 4, p->writeValue.flags);
	case CU_STREAM_MEM_OP_WRITE_VALUE_64:
		return value(SIM_W_WRITE, stream, p->writeValue.address,
			     p->writeValue.value64, 8, p->writeValue.flags);
	case CU_STREAM_MEM_OP_BARRIER:
	case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
		return CUDA_SUCCESS;
	default:
		return CUDA_ERROR_INVALID_VALUE;
	}
}

CUresult sim_batch_mem_op(CUstream stream, unsigned count,
			  CUstreamBatchMemOpParams *params, unsigned flags)
{
	CUresult err = CUDA_SUCCESS;

	if (!params || count > 256 || flags)
		return CUDA_ERROR_INVALID_VALUE;
	for (unsigned i = 0; i < count && !err; i++)
		err = one_of_batch(stream, &params[i]);
	return err;
}

/* Hints take their place in the stream and do nothing else. */
static CUresult hint(CUdeviceptr va, uint64_t bytes, CUstream stream)
{
	struct sim_work work = {.kind = SIM_W_MARK};
	struct sim_region *region;
	bool good;

	sim_lock();
	region = sim_region_at(va);
	good = region && region->kind == SIM_MANAGED &&
	       bytes <= region->va + region->bytes - va;
	sim_unlock();
	return good ? submit(stream, &work) : CUDA_ERROR_INVALID_VALUE;
}

CUresult sim_stream_attach(CUstream stream, CUdeviceptr va, size_t bytes,
			   unsigned flags)
{
	(void)flags;
	return hint(va, bytes, stream);
}

CUresult sim_prefetch(CUdeviceptr va, size_t bytes, CUdevice device,
		      CUstream stream)
{
	if (device != CU_DEVICE_CPU && !sim_device_of(device))
		return CUDA_ERROR_INVALID_DEVICE;
	return hint(va, bytes, stream);
}

#if CUDA_VERSION >= 12020
CUresult sim_prefetch_v2(CUdeviceptr va, size_t bytes, CUmemLocation location,
			 unsigned flags, CUstream stream)
{
	if (flags || (location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
		      !sim_device_of(location.id)))
		return CUDA_ERROR_INVALID_VALUE;
	return hint(va, bytes, stream);
}
#endif
