/*
 * Stand-ins for the entry points that submit work or wait for it. Made from
 * cuda.h (CUDA_VERSION 13000) by work_table.py: do not edit, run
 * `make work-table`. The layout is the script's too.
 */
/* clang-format off */
#include "shim/room.h"
#include "shim/work.h"
#include "shim/work_across.h"
#include "shim/work_bounds.h"

#if CUDA_VERSION >= 12050
CUresult cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuCtxRecordEvent, NULL, hCtx, hEvent);
	rc = gp_real()->cuCtxRecordEvent(hCtx, hEvent);
	gp_work_end(&work, rc);
	return rc;
}
#endif

CUresult cuCtxSynchronize(void)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuCtxSynchronize, NULL, NULL, NULL);
	rc = gp_real()->cuCtxSynchronize();
	gp_work_end(&work, rc);
	return rc;
}

#if CUDA_VERSION >= 13000
CUresult cuCtxSynchronize_v2(CUcontext ctx)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuCtxSynchronize_v2, NULL, ctx, NULL);
	rc = gp_real()->cuCtxSynchronize_v2(ctx);
	gp_work_end(&work, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 12050
CUresult cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuCtxWaitEvent, NULL, hCtx, hEvent);
	rc = gp_real()->cuCtxWaitEvent(hCtx, hEvent);
	gp_work_end(&work, rc);
	return rc;
}
#endif

CUresult cuEventCreate(CUevent *phEvent, unsigned int Flags)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventCreate, NULL, phEvent, NULL);
	rc = gp_real()->cuEventCreate(phEvent, Flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuEventCreate(phEvent, Flags);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventDestroy(CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventDestroy, NULL, NULL, hEvent);
	rc = gp_real()->cuEventDestroy(hEvent);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventDestroy_v2(CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventDestroy_v2, NULL, NULL, hEvent);
	rc = gp_real()->cuEventDestroy_v2(hEvent);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventElapsedTime(float *pMilliseconds, CUevent hStart, CUevent hEnd)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventElapsedTime, NULL, hStart, hEnd);
	rc = gp_real()->cuEventElapsedTime(pMilliseconds, hStart, hEnd);
	gp_work_end(&work, rc);
	return rc;
}

#if CUDA_VERSION >= 12080
CUresult cuEventElapsedTime_v2(float *pMilliseconds, CUevent hStart,
			       CUevent hEnd)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventElapsedTime_v2, NULL, hStart,
		      hEnd);
	rc = gp_real()->cuEventElapsedTime_v2(pMilliseconds, hStart, hEnd);
	gp_work_end(&work, rc);
	return rc;
}
#endif

CUresult cuEventQuery(CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventQuery, NULL, NULL, hEvent);
	rc = gp_real()->cuEventQuery(hEvent);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventRecord(CUevent hEvent, CUstream hStream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventRecord, hStream, NULL, hEvent);
	rc = gp_real()->cuEventRecord(hEvent, hStream);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventRecord_ptsz(CUevent hEvent, CUstream hStream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventRecord_ptsz, hStream, NULL,
		      hEvent);
	rc = gp_real()->cuEventRecord_ptsz(hEvent, hStream);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuEventSynchronize(CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuEventSynchronize, NULL, NULL, hEvent);
	rc = gp_real()->cuEventSynchronize(hEvent);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuGraphicsMapResources(unsigned int count,
				CUgraphicsResource *resources, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuGraphicsMapResources(count, resources, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuGraphicsMapResources(count, resources,
						       hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuGraphicsMapResources_ptsz(unsigned int count,
				     CUgraphicsResource *resources,
				     CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuGraphicsMapResources_ptsz(count, resources, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuGraphicsMapResources_ptsz(count, resources,
							    hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuGraphicsUnmapResources(unsigned int count,
				  CUgraphicsResource *resources,
				  CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuGraphicsUnmapResources(count, resources, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuGraphicsUnmapResources(count, resources,
							 hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuGraphicsUnmapResources_ptsz(unsigned int count,
				       CUgraphicsResource *resources,
				       CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuGraphicsUnmapResources_ptsz(count, resources,
						      hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuGraphicsUnmapResources_ptsz(count, resources,
							      hStream);
	gp_work_shown(slot, rc);
	return rc;
}

#if CUDA_VERSION >= 12040
CUresult cuGreenCtxRecordEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuGreenCtxRecordEvent, NULL, hCtx,
		      hEvent);
	rc = gp_real()->cuGreenCtxRecordEvent(hCtx, hEvent);
	gp_work_end(&work, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 12050
CUresult cuGreenCtxStreamCreate(CUstream *phStream, CUgreenCtx greenCtx,
				unsigned int flags, int priority)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuGreenCtxStreamCreate, NULL, phStream,
		      NULL);
	rc = gp_real()->cuGreenCtxStreamCreate(phStream, greenCtx, flags,
					       priority);
	if (gp_room_made(rc))
		rc = gp_real()->cuGreenCtxStreamCreate(phStream, greenCtx,
						       flags, priority);
	gp_work_end(&work, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 12040
CUresult cuGreenCtxWaitEvent(CUgreenCtx hCtx, CUevent hEvent)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuGreenCtxWaitEvent, NULL, hCtx,
		      hEvent);
	rc = gp_real()->cuGreenCtxWaitEvent(hCtx, hEvent);
	gp_work_end(&work, rc);
	return rc;
}
#endif

CUresult cuIpcOpenEventHandle(CUevent *phEvent, CUipcEventHandle handle)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuIpcOpenEventHandle, NULL, phEvent,
		      NULL);
	rc = gp_real()->cuIpcOpenEventHandle(phEvent, handle);
	if (gp_room_made(rc))
		rc = gp_real()->cuIpcOpenEventHandle(phEvent, handle);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuLaunch(CUfunction f)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(NULL, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunch(f);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunch(f);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gridDimX,
				   unsigned int gridDimY, unsigned int gridDimZ,
				   unsigned int blockDimX,
				   unsigned int blockDimY,
				   unsigned int blockDimZ,
				   unsigned int sharedMemBytes,
				   CUstream hStream, void **kernelParams)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchCooperativeKernel(f, gridDimX, gridDimY,
						  gridDimZ, blockDimX,
						  blockDimY, blockDimZ,
						  sharedMemBytes, hStream,
						  kernelParams);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchCooperativeKernel(f, gridDimX, gridDimY,
							  gridDimZ, blockDimX,
							  blockDimY, blockDimZ,
							  sharedMemBytes,
							  hStream,
							  kernelParams);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned int gridDimX,
					unsigned int gridDimY,
					unsigned int gridDimZ,
					unsigned int blockDimX,
					unsigned int blockDimY,
					unsigned int blockDimZ,
					unsigned int sharedMemBytes,
					CUstream hStream, void **kernelParams)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuLaunchCooperativeKernel_ptsz(f, gridDimX, gridDimY,
						       gridDimZ, blockDimX,
						       blockDimY, blockDimZ,
						       sharedMemBytes, hStream,
						       kernelParams);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchCooperativeKernel_ptsz(f, gridDimX,
							       gridDimY,
							       gridDimZ,
							       blockDimX,
							       blockDimY,
							       blockDimZ,
							       sharedMemBytes,
							       hStream,
							       kernelParams);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchGrid(CUfunction f, int grid_width, int grid_height)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(NULL, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchGrid(f, grid_width, grid_height);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchGrid(f, grid_width, grid_height);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchGridAsync(CUfunction f, int grid_width, int grid_height,
			   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchGridAsync(f, grid_width, grid_height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchGridAsync(f, grid_width, grid_height,
						  hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchHostFunc(hStream, fn, userData);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchHostFunc(hStream, fn, userData);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuLaunchHostFunc_ptsz(CUstream hStream, CUhostFn fn, void *userData)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuLaunchHostFunc_ptsz(hStream, fn, userData);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchHostFunc_ptsz(hStream, fn, userData);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX,
			unsigned int gridDimY, unsigned int gridDimZ,
			unsigned int blockDimX, unsigned int blockDimY,
			unsigned int blockDimZ, unsigned int sharedMemBytes,
			CUstream hStream, void **kernelParams, void **extra)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ,
				       blockDimX, blockDimY, blockDimZ,
				       sharedMemBytes, hStream, kernelParams,
				       extra);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchKernel(f, gridDimX, gridDimY, gridDimZ,
					       blockDimX, blockDimY, blockDimZ,
					       sharedMemBytes, hStream,
					       kernelParams, extra);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f,
			  void **kernelParams, void **extra)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(config ? config->hStream : NULL,
			      CU_STREAM_LEGACY);
	if (config && config->numAttrs)
		gp_follow_launch(config, slot);
	rc = gp_real()->cuLaunchKernelEx(config, f, kernelParams, extra);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchKernelEx(config, f, kernelParams,
						 extra);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f,
			       void **kernelParams, void **extra)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(config ? config->hStream : NULL,
			      CU_STREAM_PER_THREAD);
	if (config && config->numAttrs)
		gp_follow_launch(config, slot);
	rc = gp_real()->cuLaunchKernelEx_ptsz(config, f, kernelParams, extra);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchKernelEx_ptsz(config, f, kernelParams,
						      extra);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuLaunchKernel_ptsz(CUfunction f, unsigned int gridDimX,
			     unsigned int gridDimY, unsigned int gridDimZ,
			     unsigned int blockDimX, unsigned int blockDimY,
			     unsigned int blockDimZ,
			     unsigned int sharedMemBytes, CUstream hStream,
			     void **kernelParams, void **extra)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuLaunchKernel_ptsz(f, gridDimX, gridDimY, gridDimZ,
					    blockDimX, blockDimY, blockDimZ,
					    sharedMemBytes, hStream,
					    kernelParams, extra);
	if (gp_room_made(rc))
		rc = gp_real()->cuLaunchKernel_ptsz(f, gridDimX, gridDimY,
						    gridDimZ, blockDimX,
						    blockDimY, blockDimZ,
						    sharedMemBytes, hStream,
						    kernelParams, extra);
	gp_work_submitted(slot, rc);
	return rc;
}

#if CUDA_VERSION >= 12060
CUresult cuMemBatchDecompressAsync(CUmemDecompressParams *paramsArray,
				   size_t count, unsigned int flags,
				   size_t *errorIndex, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemBatchDecompressAsync(paramsArray, count, flags,
						  errorIndex, stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemBatchDecompressAsync(paramsArray, count,
							  flags, errorIndex,
							  stream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemBatchDecompressAsync_ptsz(CUmemDecompressParams *paramsArray,
					size_t count, unsigned int flags,
					size_t *errorIndex, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemBatchDecompressAsync_ptsz(paramsArray, count,
						       flags, errorIndex,
						       stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemBatchDecompressAsync_ptsz(paramsArray,
							       count, flags,
							       errorIndex,
							       stream);
	gp_work_submitted(slot, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 13000
CUresult cuMemDiscardAndPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
					   size_t count,
					   CUmemLocation *prefetchLocs,
					   size_t *prefetchLocIdxs,
					   size_t numPrefetchLocs,
					   unsigned long long flags,
					   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemDiscardAndPrefetchBatchAsync(dptrs, sizes, count,
							  prefetchLocs,
							  prefetchLocIdxs,
							  numPrefetchLocs,
							  flags, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemDiscardAndPrefetchBatchAsync(
			dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
			numPrefetchLocs, flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemDiscardAndPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs,
						size_t *sizes, size_t count,
						CUmemLocation *prefetchLocs,
						size_t *prefetchLocIdxs,
						size_t numPrefetchLocs,
						unsigned long long flags,
						CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemDiscardAndPrefetchBatchAsync_ptsz(dptrs, sizes,
							       count,
							       prefetchLocs,
							       prefetchLocIdxs,
							       numPrefetchLocs,
							       flags, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemDiscardAndPrefetchBatchAsync_ptsz(
			dptrs, sizes, count, prefetchLocs, prefetchLocIdxs,
			numPrefetchLocs, flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemDiscardBatchAsync(CUdeviceptr *dptrs, size_t *sizes, size_t count,
				unsigned long long flags, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemDiscardBatchAsync(dptrs, sizes, count, flags,
					       hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemDiscardBatchAsync(dptrs, sizes, count,
						       flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemDiscardBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
				     size_t count, unsigned long long flags,
				     CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemDiscardBatchAsync_ptsz(dptrs, sizes, count, flags,
						    hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemDiscardBatchAsync_ptsz(dptrs, sizes, count,
							    flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

CUresult cuMemMapArrayAsync(CUarrayMapInfo *mapInfoList, unsigned int count,
			    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemMapArrayAsync(mapInfoList, count, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemMapArrayAsync(mapInfoList, count, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *mapInfoList,
				 unsigned int count, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemMapArrayAsync_ptsz(mapInfoList, count, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemMapArrayAsync_ptsz(mapInfoList, count,
							hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemPrefetchAsync(CUdeviceptr devPtr, size_t count,
			    CUdevice dstDevice, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemPrefetchAsync(devPtr, count, dstDevice, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchAsync(devPtr, count, dstDevice,
						   hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemPrefetchAsync_ptsz(CUdeviceptr devPtr, size_t count,
				 CUdevice dstDevice, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemPrefetchAsync_ptsz(devPtr, count, dstDevice,
						hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchAsync_ptsz(devPtr, count,
							dstDevice, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

#if CUDA_VERSION >= 12020
CUresult cuMemPrefetchAsync_v2(CUdeviceptr devPtr, size_t count,
			       CUmemLocation location, unsigned int flags,
			       CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemPrefetchAsync_v2(devPtr, count, location, flags,
					      hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchAsync_v2(devPtr, count, location,
						      flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemPrefetchAsync_v2_ptsz(CUdeviceptr devPtr, size_t count,
				    CUmemLocation location, unsigned int flags,
				    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemPrefetchAsync_v2_ptsz(devPtr, count, location,
						   flags, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchAsync_v2_ptsz(devPtr, count,
							   location, flags,
							   hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 13000
CUresult cuMemPrefetchBatchAsync(CUdeviceptr *dptrs, size_t *sizes,
				 size_t count, CUmemLocation *prefetchLocs,
				 size_t *prefetchLocIdxs,
				 size_t numPrefetchLocs,
				 unsigned long long flags, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemPrefetchBatchAsync(dptrs, sizes, count,
						prefetchLocs, prefetchLocIdxs,
						numPrefetchLocs, flags,
						hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchBatchAsync(dptrs, sizes, count,
							prefetchLocs,
							prefetchLocIdxs,
							numPrefetchLocs, flags,
							hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemPrefetchBatchAsync_ptsz(CUdeviceptr *dptrs, size_t *sizes,
				      size_t count, CUmemLocation *prefetchLocs,
				      size_t *prefetchLocIdxs,
				      size_t numPrefetchLocs,
				      unsigned long long flags,
				      CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemPrefetchBatchAsync_ptsz(dptrs, sizes, count,
						     prefetchLocs,
						     prefetchLocIdxs,
						     numPrefetchLocs, flags,
						     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemPrefetchBatchAsync_ptsz(dptrs, sizes,
							     count,
							     prefetchLocs,
							     prefetchLocIdxs,
							     numPrefetchLocs,
							     flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dst, ByteCount) ||
	    gp_past_end(src, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpy, dst, src, NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpy, dst, src, ByteCount,
				      NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy(dst, src, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy(dst, src, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D_v1 *pCopy)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2D, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy2D(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2D(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D_v1 *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy2DAsync(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DAsync(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2DAsync_v2, pCopy, hStream))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2DAsync_v2, pCopy,
					 hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy2DAsync_v2(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DAsync_v2(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2DAsync_v2_ptsz, pCopy,
			      hStream))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2DAsync_v2_ptsz,
					 pCopy, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpy2DAsync_v2_ptsz(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DAsync_v2_ptsz(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D_v1 *pCopy)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2DUnaligned, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy2DUnaligned(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DUnaligned(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2DUnaligned_v2, pCopy, NULL))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2DUnaligned_v2,
					 pCopy, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2DUnaligned_v2, NULL, NULL,
		      NULL);
	rc = gp_real()->cuMemcpy2DUnaligned_v2(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DUnaligned_v2(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2DUnaligned_v2_ptds, pCopy,
			      NULL))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2DUnaligned_v2_ptds,
					 pCopy, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2DUnaligned_v2_ptds, NULL, NULL,
		      NULL);
	rc = gp_real()->cuMemcpy2DUnaligned_v2_ptds(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2DUnaligned_v2_ptds(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2D_v2, pCopy, NULL))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2D_v2, pCopy, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2D_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy2D_v2(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2D_v2(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_2d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_2d(GP_WORK_ID_cuMemcpy2D_v2_ptds, pCopy, NULL))
		return gp_copy_across_2d(GP_WORK_ID_cuMemcpy2D_v2_ptds, pCopy,
					 NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy2D_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy2D_v2_ptds(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy2D_v2_ptds(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D_v1 *pCopy)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpy3D, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy3D(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3D(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D_v1 *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy3DAsync(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DAsync(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_3d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_3d(GP_WORK_ID_cuMemcpy3DAsync_v2, pCopy, hStream))
		return gp_copy_across_3d(GP_WORK_ID_cuMemcpy3DAsync_v2, pCopy,
					 hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy3DAsync_v2(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DAsync_v2(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_3d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_3d(GP_WORK_ID_cuMemcpy3DAsync_v2_ptsz, pCopy,
			      hStream))
		return gp_copy_across_3d(GP_WORK_ID_cuMemcpy3DAsync_v2_ptsz,
					 pCopy, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpy3DAsync_v2_ptsz(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DAsync_v2_ptsz(pCopy, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

#if CUDA_VERSION >= 12080
CUresult cuMemcpy3DBatchAsync(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
			      size_t *failIdx, unsigned long long flags,
			      CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy3DBatchAsync(numOps, opList, failIdx, flags,
					     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DBatchAsync(numOps, opList, failIdx,
						     flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy3DBatchAsync_ptsz(size_t numOps,
				   CUDA_MEMCPY3D_BATCH_OP *opList,
				   size_t *failIdx, unsigned long long flags,
				   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpy3DBatchAsync_ptsz(numOps, opList, failIdx,
						  flags, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DBatchAsync_ptsz(numOps, opList,
							  failIdx, flags,
							  hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 13000
CUresult cuMemcpy3DBatchAsync_v2(size_t numOps, CUDA_MEMCPY3D_BATCH_OP *opList,
				 unsigned long long flags, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy3DBatchAsync_v2(numOps, opList, flags, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DBatchAsync_v2(numOps, opList, flags,
							hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpy3DBatchAsync_v2_ptsz(size_t numOps,
				      CUDA_MEMCPY3D_BATCH_OP *opList,
				      unsigned long long flags,
				      CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpy3DBatchAsync_v2_ptsz(numOps, opList, flags,
						     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DBatchAsync_v2_ptsz(numOps, opList,
							     flags, hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_3d_peer(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_3d_peer(GP_WORK_ID_cuMemcpy3DPeer, pCopy, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy3DPeer, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy3DPeer(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DPeer(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_3d_peer(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_3d_peer(GP_WORK_ID_cuMemcpy3DPeerAsync, pCopy,
				       hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpy3DPeerAsync(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DPeerAsync(pCopy, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *pCopy,
				  CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_3d_peer(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_3d_peer(GP_WORK_ID_cuMemcpy3DPeerAsync_ptsz,
				       pCopy, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpy3DPeerAsync_ptsz(pCopy, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DPeerAsync_ptsz(pCopy, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_3d_peer(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_3d_peer(GP_WORK_ID_cuMemcpy3DPeer_ptds, pCopy,
				       NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy3DPeer_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy3DPeer_ptds(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3DPeer_ptds(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_3d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_3d(GP_WORK_ID_cuMemcpy3D_v2, pCopy, NULL))
		return gp_copy_across_3d(GP_WORK_ID_cuMemcpy3D_v2, pCopy, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy3D_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy3D_v2(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3D_v2(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *pCopy)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_3d(pCopy))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across_3d(GP_WORK_ID_cuMemcpy3D_v2_ptds, pCopy, NULL))
		return gp_copy_across_3d(GP_WORK_ID_cuMemcpy3D_v2_ptds, pCopy,
					 NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy3D_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy3D_v2_ptds(pCopy);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy3D_v2_ptds(pCopy);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
		       CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dst, ByteCount) ||
	    gp_past_end(src, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyAsync, dst, src, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyAsync, dst, src,
				      ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyAsync(dst, src, ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAsync(dst, src, ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyAsync_ptsz(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount,
			    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dst, ByteCount) ||
	    gp_past_end(src, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyAsync_ptsz, dst, src, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyAsync_ptsz, dst, src,
				      ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyAsync_ptsz(dst, src, ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAsync_ptsz(dst, src, ByteCount,
						   hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyAtoA(CUarray dstArray, unsigned int dstOffset,
		      CUarray srcArray, unsigned int srcOffset,
		      unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoA, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoA(dstArray, dstOffset, srcArray, srcOffset,
				     ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoA(dstArray, dstOffset, srcArray,
					     srcOffset, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoA_v2(CUarray dstArray, size_t dstOffset, CUarray srcArray,
			 size_t srcOffset, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoA_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray,
					srcOffset, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoA_v2(dstArray, dstOffset, srcArray,
						srcOffset, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoA_v2_ptds(CUarray dstArray, size_t dstOffset,
			      CUarray srcArray, size_t srcOffset,
			      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoA_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoA_v2_ptds(dstArray, dstOffset, srcArray,
					     srcOffset, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoA_v2_ptds(dstArray, dstOffset,
						     srcArray, srcOffset,
						     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoD(CUdeviceptr_v1 dstDevice, CUarray srcArray,
		      unsigned int srcOffset, unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoD, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoD(dstDevice, srcArray, srcOffset, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoD(dstDevice, srcArray, srcOffset,
					     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dstDevice, CUarray srcArray,
			 size_t srcOffset, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoD_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset,
					ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoD_v2(dstDevice, srcArray, srcOffset,
						ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr dstDevice, CUarray srcArray,
			      size_t srcOffset, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoD_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoD_v2_ptds(dstDevice, srcArray, srcOffset,
					     ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoD_v2_ptds(dstDevice, srcArray,
						     srcOffset, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoH(void *dstHost, CUarray srcArray, unsigned int srcOffset,
		      unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoH, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoH(dstHost, srcArray, srcOffset, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoH(dstHost, srcArray, srcOffset,
					     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoHAsync(void *dstHost, CUarray srcArray,
			   unsigned int srcOffset, unsigned int ByteCount,
			   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyAtoHAsync(dstHost, srcArray, srcOffset,
					  ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoHAsync(dstHost, srcArray, srcOffset,
						  ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyAtoHAsync_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
			      size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyAtoHAsync_v2(dstHost, srcArray, srcOffset,
					     ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoHAsync_v2(dstHost, srcArray,
						     srcOffset, ByteCount,
						     hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyAtoHAsync_v2_ptsz(void *dstHost, CUarray srcArray,
				   size_t srcOffset, size_t ByteCount,
				   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyAtoHAsync_v2_ptsz(dstHost, srcArray, srcOffset,
						  ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoHAsync_v2_ptsz(dstHost, srcArray,
							  srcOffset, ByteCount,
							  hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyAtoH_v2(void *dstHost, CUarray srcArray, size_t srcOffset,
			 size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoH_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset,
					ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoH_v2(dstHost, srcArray, srcOffset,
						ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyAtoH_v2_ptds(void *dstHost, CUarray srcArray, size_t srcOffset,
			      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyAtoH_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyAtoH_v2_ptds(dstHost, srcArray, srcOffset,
					     ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyAtoH_v2_ptds(dstHost, srcArray,
						     srcOffset, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

#if CUDA_VERSION >= 12080
CUresult cuMemcpyBatchAsync(CUdeviceptr *dsts, CUdeviceptr *srcs, size_t *sizes,
			    size_t count, CUmemcpyAttributes *attrs,
			    size_t *attrsIdxs, size_t numAttrs, size_t *failIdx,
			    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_batch(dsts, srcs, sizes, count, failIdx))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyBatchAsync(dsts, srcs, sizes, count, attrs,
					   attrsIdxs, numAttrs, failIdx,
					   hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyBatchAsync(dsts, srcs, sizes, count,
						   attrs, attrsIdxs, numAttrs,
						   failIdx, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyBatchAsync_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs,
				 size_t *sizes, size_t count,
				 CUmemcpyAttributes *attrs, size_t *attrsIdxs,
				 size_t numAttrs, size_t *failIdx,
				 CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_batch(dsts, srcs, sizes, count, failIdx))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyBatchAsync_ptsz(dsts, srcs, sizes, count, attrs,
						attrsIdxs, numAttrs, failIdx,
						hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyBatchAsync_ptsz(dsts, srcs, sizes,
							count, attrs, attrsIdxs,
							numAttrs, failIdx,
							hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

#if CUDA_VERSION >= 13000
CUresult cuMemcpyBatchAsync_v2(CUdeviceptr *dsts, CUdeviceptr *srcs,
			       size_t *sizes, size_t count,
			       CUmemcpyAttributes *attrs, size_t *attrsIdxs,
			       size_t numAttrs, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_batch(dsts, srcs, sizes, count, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count, attrs,
					      attrsIdxs, numAttrs, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyBatchAsync_v2(dsts, srcs, sizes, count,
						      attrs, attrsIdxs,
						      numAttrs, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyBatchAsync_v2_ptsz(CUdeviceptr *dsts, CUdeviceptr *srcs,
				    size_t *sizes, size_t count,
				    CUmemcpyAttributes *attrs,
				    size_t *attrsIdxs, size_t numAttrs,
				    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_batch(dsts, srcs, sizes, count, NULL))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyBatchAsync_v2_ptsz(dsts, srcs, sizes, count,
						   attrs, attrsIdxs, numAttrs,
						   hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyBatchAsync_v2_ptsz(dsts, srcs, sizes,
							   count, attrs,
							   attrsIdxs, numAttrs,
							   hStream);
	gp_work_shown(slot, rc);
	return rc;
}
#endif

CUresult cuMemcpyDtoA(CUarray dstArray, unsigned int dstOffset,
		      CUdeviceptr_v1 srcDevice, unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoA, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoA(dstArray, dstOffset, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoA(dstArray, dstOffset, srcDevice,
					     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoA_v2(CUarray dstArray, size_t dstOffset,
			 CUdeviceptr srcDevice, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoA_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice,
					ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoA_v2(dstArray, dstOffset, srcDevice,
						ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoA_v2_ptds(CUarray dstArray, size_t dstOffset,
			      CUdeviceptr srcDevice, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoA_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoA_v2_ptds(dstArray, dstOffset, srcDevice,
					     ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoA_v2_ptds(dstArray, dstOffset,
						     srcDevice, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoD(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
		      unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoD, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoD(dstDevice, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoD(dstDevice, srcDevice, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr_v1 dstDevice, CUdeviceptr_v1 srcDevice,
			   unsigned int ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyDtoDAsync(dstDevice, srcDevice, ByteCount,
					  hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoDAsync(dstDevice, srcDevice,
						  ByteCount, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
			      size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoDAsync_v2, dstDevice,
			   srcDevice, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoDAsync_v2,
				      dstDevice, srcDevice, ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyDtoDAsync_v2(dstDevice, srcDevice, ByteCount,
					     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoDAsync_v2(dstDevice, srcDevice,
						     ByteCount, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
				   size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoDAsync_v2_ptsz, dstDevice,
			   srcDevice, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoDAsync_v2_ptsz,
				      dstDevice, srcDevice, ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyDtoDAsync_v2_ptsz(dstDevice, srcDevice,
						  ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoDAsync_v2_ptsz(dstDevice, srcDevice,
							  ByteCount, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
			 size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoD_v2, dstDevice, srcDevice,
			   NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoD_v2, dstDevice,
				      srcDevice, ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoD_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoD_v2(dstDevice, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoD_v2(dstDevice, srcDevice,
						ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr dstDevice, CUdeviceptr srcDevice,
			      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoD_v2_ptds, dstDevice,
			   srcDevice, NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoD_v2_ptds,
				      dstDevice, srcDevice, ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoD_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoD_v2_ptds(dstDevice, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoD_v2_ptds(dstDevice, srcDevice,
						     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoH(void *dstHost, CUdeviceptr_v1 srcDevice,
		      unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoH, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoH(dstHost, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoH(dstHost, srcDevice, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoHAsync(void *dstHost, CUdeviceptr_v1 srcDevice,
			   unsigned int ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyDtoHAsync(dstHost, srcDevice, ByteCount,
					  hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoHAsync(dstHost, srcDevice, ByteCount,
						  hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice,
			      size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoHAsync_v2, gp_address(dstHost),
			   srcDevice, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoHAsync_v2,
				      gp_address(dstHost), srcDevice, ByteCount,
				      hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyDtoHAsync_v2(dstHost, srcDevice, ByteCount,
					     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoHAsync_v2(dstHost, srcDevice,
						     ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoHAsync_v2_ptsz(void *dstHost, CUdeviceptr srcDevice,
				   size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoHAsync_v2_ptsz,
			   gp_address(dstHost), srcDevice, hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoHAsync_v2_ptsz,
				      gp_address(dstHost), srcDevice, ByteCount,
				      hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyDtoHAsync_v2_ptsz(dstHost, srcDevice, ByteCount,
						  hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoHAsync_v2_ptsz(dstHost, srcDevice,
							  ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoH_v2, gp_address(dstHost),
			   srcDevice, NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoH_v2,
				      gp_address(dstHost), srcDevice, ByteCount,
				      NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoH_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoH_v2(dstHost, srcDevice, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyDtoH_v2_ptds(void *dstHost, CUdeviceptr srcDevice,
			      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyDtoH_v2_ptds, gp_address(dstHost),
			   srcDevice, NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyDtoH_v2_ptds,
				      gp_address(dstHost), srcDevice, ByteCount,
				      NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyDtoH_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyDtoH_v2_ptds(dstHost, srcDevice, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyDtoH_v2_ptds(dstHost, srcDevice,
						     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoA(CUarray dstArray, unsigned int dstOffset,
		      const void *srcHost, unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoA, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoA(dstArray, dstOffset, srcHost, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoA(dstArray, dstOffset, srcHost,
					     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoAAsync(CUarray dstArray, unsigned int dstOffset,
			   const void *srcHost, unsigned int ByteCount,
			   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyHtoAAsync(dstArray, dstOffset, srcHost,
					  ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoAAsync(dstArray, dstOffset, srcHost,
						  ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dstArray, size_t dstOffset,
			      const void *srcHost, size_t ByteCount,
			      CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyHtoAAsync_v2(dstArray, dstOffset, srcHost,
					     ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoAAsync_v2(dstArray, dstOffset,
						     srcHost, ByteCount,
						     hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray dstArray, size_t dstOffset,
				   const void *srcHost, size_t ByteCount,
				   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyHtoAAsync_v2_ptsz(dstArray, dstOffset, srcHost,
						  ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoAAsync_v2_ptsz(dstArray, dstOffset,
							  srcHost, ByteCount,
							  hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoA_v2(CUarray dstArray, size_t dstOffset,
			 const void *srcHost, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoA_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost,
					ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoA_v2(dstArray, dstOffset, srcHost,
						ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoA_v2_ptds(CUarray dstArray, size_t dstOffset,
			      const void *srcHost, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoA_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoA_v2_ptds(dstArray, dstOffset, srcHost,
					     ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoA_v2_ptds(dstArray, dstOffset,
						     srcHost, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoD(CUdeviceptr_v1 dstDevice, const void *srcHost,
		      unsigned int ByteCount)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoD, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoD(dstDevice, srcHost, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoD(dstDevice, srcHost, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr_v1 dstDevice, const void *srcHost,
			   unsigned int ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyHtoDAsync(dstDevice, srcHost, ByteCount,
					  hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoDAsync(dstDevice, srcHost, ByteCount,
						  hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost,
			      size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyHtoDAsync_v2, dstDevice,
			   gp_address(srcHost), hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyHtoDAsync_v2,
				      dstDevice, gp_address(srcHost), ByteCount,
				      hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount,
					     hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoDAsync_v2(dstDevice, srcHost,
						     ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr dstDevice, const void *srcHost,
				   size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyHtoDAsync_v2_ptsz, dstDevice,
			   gp_address(srcHost), hStream))
		return gp_copy_across(GP_WORK_ID_cuMemcpyHtoDAsync_v2_ptsz,
				      dstDevice, gp_address(srcHost), ByteCount,
				      hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyHtoDAsync_v2_ptsz(dstDevice, srcHost, ByteCount,
						  hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoDAsync_v2_ptsz(dstDevice, srcHost,
							  ByteCount, hStream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost,
			 size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyHtoD_v2, dstDevice,
			   gp_address(srcHost), NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyHtoD_v2, dstDevice,
				      gp_address(srcHost), ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoD_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoD_v2(dstDevice, srcHost, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr dstDevice, const void *srcHost,
			      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpyHtoD_v2_ptds, dstDevice,
			   gp_address(srcHost), NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpyHtoD_v2_ptds,
				      dstDevice, gp_address(srcHost), ByteCount,
				      NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyHtoD_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyHtoD_v2_ptds(dstDevice, srcHost, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyHtoD_v2_ptds(dstDevice, srcHost,
						     ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext,
		      CUdeviceptr srcDevice, CUcontext srcContext,
		      size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_peer(GP_WORK_ID_cuMemcpyPeer, dstDevice,
				    dstContext, srcDevice, srcContext,
				    ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyPeer, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyPeer(dstDevice, dstContext, srcDevice,
				     srcContext, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyPeer(dstDevice, dstContext, srcDevice,
					     srcContext, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext,
			   CUdeviceptr srcDevice, CUcontext srcContext,
			   size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_peer(GP_WORK_ID_cuMemcpyPeerAsync, dstDevice,
				    dstContext, srcDevice, srcContext,
				    ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemcpyPeerAsync(dstDevice, dstContext, srcDevice,
					  srcContext, ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyPeerAsync(dstDevice, dstContext,
						  srcDevice, srcContext,
						  ByteCount, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr dstDevice, CUcontext dstContext,
				CUdeviceptr srcDevice, CUcontext srcContext,
				size_t ByteCount, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_peer(GP_WORK_ID_cuMemcpyPeerAsync_ptsz,
				    dstDevice, dstContext, srcDevice,
				    srcContext, ByteCount, hStream);
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemcpyPeerAsync_ptsz(dstDevice, dstContext, srcDevice,
					       srcContext, ByteCount, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyPeerAsync_ptsz(dstDevice, dstContext,
						       srcDevice, srcContext,
						       ByteCount, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemcpyPeer_ptds(CUdeviceptr dstDevice, CUcontext dstContext,
			   CUdeviceptr srcDevice, CUcontext srcContext,
			   size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dstDevice, ByteCount) ||
	    gp_past_end(srcDevice, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_across_may_be())
		return gp_copy_peer(GP_WORK_ID_cuMemcpyPeer_ptds, dstDevice,
				    dstContext, srcDevice, srcContext,
				    ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpyPeer_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpyPeer_ptds(dstDevice, dstContext, srcDevice,
					  srcContext, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpyPeer_ptds(dstDevice, dstContext,
						  srcDevice, srcContext,
						  ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemcpy_ptds(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_end(dst, ByteCount) ||
	    gp_past_end(src, ByteCount))
		return CUDA_ERROR_INVALID_VALUE;
	if (gp_goes_across(GP_WORK_ID_cuMemcpy_ptds, dst, src, NULL))
		return gp_copy_across(GP_WORK_ID_cuMemcpy_ptds, dst, src,
				      ByteCount, NULL);
	gp_work_begin(&work, GP_WORK_ID_cuMemcpy_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemcpy_ptds(dst, src, ByteCount);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemcpy_ptds(dst, src, ByteCount);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD16(CUdeviceptr_v1 dstDevice, unsigned short us,
		     unsigned int N)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD16, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD16(dstDevice, us, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD16(dstDevice, us, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD16Async(CUdeviceptr dstDevice, unsigned short us, size_t N,
			  CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 2, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD16Async(dstDevice, us, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD16Async(dstDevice, us, N, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD16Async_ptsz(CUdeviceptr dstDevice, unsigned short us,
			       size_t N, CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 2, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD16Async_ptsz(dstDevice, us, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD16Async_ptsz(dstDevice, us, N,
						      hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD16_v2(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 2, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD16_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD16_v2(dstDevice, us, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD16_v2(dstDevice, us, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD16_v2_ptds(CUdeviceptr dstDevice, unsigned short us, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 2, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD16_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD16_v2_ptds(dstDevice, us, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD16_v2_ptds(dstDevice, us, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D16(CUdeviceptr_v1 dstDevice, unsigned int dstPitch,
		       unsigned short us, unsigned int Width,
		       unsigned int Height)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D16, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D16(dstDevice, dstPitch, us, Width, Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D16(dstDevice, dstPitch, us, Width,
					      Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D16Async(CUdeviceptr dstDevice, size_t dstPitch,
			    unsigned short us, size_t Width, size_t Height,
			    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 2, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD2D16Async(dstDevice, dstPitch, us, Width,
					   Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D16Async(dstDevice, dstPitch, us,
						   Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D16Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
				 unsigned short us, size_t Width, size_t Height,
				 CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 2, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD2D16Async_ptsz(dstDevice, dstPitch, us, Width,
						Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D16Async_ptsz(dstDevice, dstPitch, us,
							Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dstDevice, size_t dstPitch,
			  unsigned short us, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 2, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D16_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width,
					 Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D16_v2(dstDevice, dstPitch, us, Width,
						 Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D16_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch,
			       unsigned short us, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 2, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D16_v2_ptds, NULL, NULL,
		      NULL);
	rc = gp_real()->cuMemsetD2D16_v2_ptds(dstDevice, dstPitch, us, Width,
					      Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D16_v2_ptds(dstDevice, dstPitch, us,
						      Width, Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D32(CUdeviceptr_v1 dstDevice, unsigned int dstPitch,
		       unsigned int ui, unsigned int Width, unsigned int Height)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D32, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D32(dstDevice, dstPitch, ui, Width, Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D32(dstDevice, dstPitch, ui, Width,
					      Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D32Async(CUdeviceptr dstDevice, size_t dstPitch,
			    unsigned int ui, size_t Width, size_t Height,
			    CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 4, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD2D32Async(dstDevice, dstPitch, ui, Width,
					   Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D32Async(dstDevice, dstPitch, ui,
						   Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D32Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
				 unsigned int ui, size_t Width, size_t Height,
				 CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 4, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD2D32Async_ptsz(dstDevice, dstPitch, ui, Width,
						Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D32Async_ptsz(dstDevice, dstPitch, ui,
							Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dstDevice, size_t dstPitch,
			  unsigned int ui, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 4, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D32_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width,
					 Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D32_v2(dstDevice, dstPitch, ui, Width,
						 Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D32_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch,
			       unsigned int ui, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 4, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D32_v2_ptds, NULL, NULL,
		      NULL);
	rc = gp_real()->cuMemsetD2D32_v2_ptds(dstDevice, dstPitch, ui, Width,
					      Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D32_v2_ptds(dstDevice, dstPitch, ui,
						      Width, Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D8(CUdeviceptr_v1 dstDevice, unsigned int dstPitch,
		      unsigned char uc, unsigned int Width, unsigned int Height)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D8, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D8(dstDevice, dstPitch, uc, Width, Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D8(dstDevice, dstPitch, uc, Width,
					     Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D8Async(CUdeviceptr dstDevice, size_t dstPitch,
			   unsigned char uc, size_t Width, size_t Height,
			   CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 1, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD2D8Async(dstDevice, dstPitch, uc, Width,
					  Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D8Async(dstDevice, dstPitch, uc,
						  Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D8Async_ptsz(CUdeviceptr dstDevice, size_t dstPitch,
				unsigned char uc, size_t Width, size_t Height,
				CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 1, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD2D8Async_ptsz(dstDevice, dstPitch, uc, Width,
					       Height, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D8Async_ptsz(dstDevice, dstPitch, uc,
						       Width, Height, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dstDevice, size_t dstPitch,
			 unsigned char uc, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 1, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D8_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width, Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D8_v2(dstDevice, dstPitch, uc, Width,
						Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD2D8_v2_ptds(CUdeviceptr dstDevice, size_t dstPitch,
			      unsigned char uc, size_t Width, size_t Height)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, dstPitch, 1, Width, Height))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD2D8_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD2D8_v2_ptds(dstDevice, dstPitch, uc, Width,
					     Height);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD2D8_v2_ptds(dstDevice, dstPitch, uc,
						     Width, Height);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD32(CUdeviceptr_v1 dstDevice, unsigned int ui, unsigned int N)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD32, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD32(dstDevice, ui, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD32(dstDevice, ui, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD32Async(CUdeviceptr dstDevice, unsigned int ui, size_t N,
			  CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 4, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD32Async(dstDevice, ui, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD32Async(dstDevice, ui, N, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD32Async_ptsz(CUdeviceptr dstDevice, unsigned int ui, size_t N,
			       CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 4, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD32Async_ptsz(dstDevice, ui, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD32Async_ptsz(dstDevice, ui, N,
						      hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD32_v2(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 4, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD32_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD32_v2(dstDevice, ui, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD32_v2(dstDevice, ui, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD32_v2_ptds(CUdeviceptr dstDevice, unsigned int ui, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 4, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD32_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD32_v2_ptds(dstDevice, ui, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD32_v2_ptds(dstDevice, ui, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD8(CUdeviceptr_v1 dstDevice, unsigned char uc, unsigned int N)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuMemsetD8, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD8(dstDevice, uc, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD8(dstDevice, uc, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD8Async(CUdeviceptr dstDevice, unsigned char uc, size_t N,
			 CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 1, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuMemsetD8Async(dstDevice, uc, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD8Async(dstDevice, uc, N, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD8Async_ptsz(CUdeviceptr dstDevice, unsigned char uc, size_t N,
			      CUstream hStream)
{
	struct gp_slot *slot;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 1, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuMemsetD8Async_ptsz(dstDevice, uc, N, hStream);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD8Async_ptsz(dstDevice, uc, N, hStream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuMemsetD8_v2(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 1, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD8_v2, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD8_v2(dstDevice, uc, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD8_v2(dstDevice, uc, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuMemsetD8_v2_ptds(CUdeviceptr dstDevice, unsigned char uc, size_t N)
{
	struct gp_work work;
	CUresult rc;

	if (gp_past_set(dstDevice, 0, 1, N, 1))
		return CUDA_ERROR_INVALID_VALUE;
	gp_work_begin(&work, GP_WORK_ID_cuMemsetD8_v2_ptds, NULL, NULL, NULL);
	rc = gp_real()->cuMemsetD8_v2_ptds(dstDevice, uc, N);
	if (gp_room_made(rc))
		rc = gp_real()->cuMemsetD8_v2_ptds(dstDevice, uc, N);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuSignalExternalSemaphoresAsync(
	const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray,
	unsigned int numExtSems, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuSignalExternalSemaphoresAsync(extSemArray,
							paramsArray, numExtSems,
							stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuSignalExternalSemaphoresAsync(extSemArray,
								paramsArray,
								numExtSems,
								stream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuSignalExternalSemaphoresAsync_ptsz(
	const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_SIGNAL_PARAMS *paramsArray,
	unsigned int numExtSems, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuSignalExternalSemaphoresAsync_ptsz(extSemArray,
							     paramsArray,
							     numExtSems,
							     stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuSignalExternalSemaphoresAsync_ptsz(
			extSemArray, paramsArray, numExtSems, stream);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback,
			     void *userData, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamAddCallback(hStream, callback, userData, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamAddCallback(hStream, callback, userData,
						    flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamAddCallback_ptsz(CUstream hStream, CUstreamCallback callback,
				  void *userData, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamAddCallback_ptsz(hStream, callback, userData,
						 flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamAddCallback_ptsz(hStream, callback,
							 userData, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr,
				size_t length, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamAttachMemAsync(hStream, dptr, length, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamAttachMemAsync(hStream, dptr, length,
						       flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamAttachMemAsync_ptsz(CUstream hStream, CUdeviceptr dptr,
				     size_t length, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(hStream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamAttachMemAsync_ptsz(hStream, dptr, length,
						    flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamAttachMemAsync_ptsz(hStream, dptr,
							    length, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count,
			    CUstreamBatchMemOpParams *paramArray,
			    unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamBatchMemOp(stream, count, paramArray, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamBatchMemOp(stream, count, paramArray,
						   flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamBatchMemOp_ptsz(CUstream stream, unsigned int count,
				 CUstreamBatchMemOpParams *paramArray,
				 unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamBatchMemOp_ptsz(stream, count, paramArray,
						flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamBatchMemOp_ptsz(stream, count,
							paramArray, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamBatchMemOp_v2(CUstream stream, unsigned int count,
			       CUstreamBatchMemOpParams *paramArray,
			       unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamBatchMemOp_v2(stream, count, paramArray, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamBatchMemOp_v2(stream, count, paramArray,
						      flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamBatchMemOp_v2_ptsz(CUstream stream, unsigned int count,
				    CUstreamBatchMemOpParams *paramArray,
				    unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamBatchMemOp_v2_ptsz(stream, count, paramArray,
						   flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamBatchMemOp_v2_ptsz(stream, count,
							   paramArray, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamCreate, NULL, phStream, NULL);
	rc = gp_real()->cuStreamCreate(phStream, Flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamCreate(phStream, Flags);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags,
				    int priority)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamCreateWithPriority, NULL,
		      phStream, NULL);
	rc = gp_real()->cuStreamCreateWithPriority(phStream, flags, priority);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamCreateWithPriority(phStream, flags,
							   priority);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamSynchronize, hStream, NULL,
		      NULL);
	rc = gp_real()->cuStreamSynchronize(hStream);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamSynchronize_ptsz(CUstream hStream)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamSynchronize_ptsz, hStream, NULL,
		      NULL);
	rc = gp_real()->cuStreamSynchronize_ptsz(hStream);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamWaitEvent(CUstream hStream, CUevent hEvent, unsigned int Flags)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamWaitEvent, hStream, NULL,
		      hEvent);
	rc = gp_real()->cuStreamWaitEvent(hStream, hEvent, Flags);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamWaitEvent_ptsz(CUstream hStream, CUevent hEvent,
				unsigned int Flags)
{
	struct gp_work work;
	CUresult rc;

	gp_work_begin(&work, GP_WORK_ID_cuStreamWaitEvent_ptsz, hStream, NULL,
		      hEvent);
	rc = gp_real()->cuStreamWaitEvent_ptsz(hStream, hEvent, Flags);
	gp_work_end(&work, rc);
	return rc;
}

CUresult cuStreamWaitValue32(CUstream stream, CUdeviceptr addr,
			     cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWaitValue32(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue32(stream, addr, value, flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue32_ptsz(CUstream stream, CUdeviceptr addr,
				  cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWaitValue32_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue32_ptsz(stream, addr, value,
							 flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr,
				cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWaitValue32_v2(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue32_v2(stream, addr, value,
						       flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue32_v2_ptsz(CUstream stream, CUdeviceptr addr,
				     cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWaitValue32_v2_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue32_v2_ptsz(stream, addr, value,
							    flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue64(CUstream stream, CUdeviceptr addr,
			     cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWaitValue64(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue64(stream, addr, value, flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue64_ptsz(CUstream stream, CUdeviceptr addr,
				  cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWaitValue64_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue64_ptsz(stream, addr, value,
							 flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue64_v2(CUstream stream, CUdeviceptr addr,
				cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWaitValue64_v2(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue64_v2(stream, addr, value,
						       flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWaitValue64_v2_ptsz(CUstream stream, CUdeviceptr addr,
				     cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWaitValue64_v2_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWaitValue64_v2_ptsz(stream, addr, value,
							    flags);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr,
			      cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWriteValue32(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue32(stream, addr, value,
						     flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue32_ptsz(CUstream stream, CUdeviceptr addr,
				   cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWriteValue32_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue32_ptsz(stream, addr, value,
							  flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr,
				 cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWriteValue32_v2(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue32_v2(stream, addr, value,
							flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue32_v2_ptsz(CUstream stream, CUdeviceptr addr,
				      cuuint32_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWriteValue32_v2_ptsz(stream, addr, value,
						     flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue32_v2_ptsz(stream, addr,
							     value, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr,
			      cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWriteValue64(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue64(stream, addr, value,
						     flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue64_ptsz(CUstream stream, CUdeviceptr addr,
				   cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWriteValue64_ptsz(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue64_ptsz(stream, addr, value,
							  flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr,
				 cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuStreamWriteValue64_v2(stream, addr, value, flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue64_v2(stream, addr, value,
							flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuStreamWriteValue64_v2_ptsz(CUstream stream, CUdeviceptr addr,
				      cuuint64_t value, unsigned int flags)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuStreamWriteValue64_v2_ptsz(stream, addr, value,
						     flags);
	if (gp_room_made(rc))
		rc = gp_real()->cuStreamWriteValue64_v2_ptsz(stream, addr,
							     value, flags);
	gp_work_shown(slot, rc);
	return rc;
}

CUresult cuWaitExternalSemaphoresAsync(
	const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray,
	unsigned int numExtSems, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_LEGACY);
	rc = gp_real()->cuWaitExternalSemaphoresAsync(extSemArray, paramsArray,
						      numExtSems, stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuWaitExternalSemaphoresAsync(extSemArray,
							      paramsArray,
							      numExtSems,
							      stream);
	gp_work_submitted(slot, rc);
	return rc;
}

CUresult cuWaitExternalSemaphoresAsync_ptsz(
	const CUexternalSemaphore *extSemArray,
	const CUDA_EXTERNAL_SEMAPHORE_WAIT_PARAMS *paramsArray,
	unsigned int numExtSems, CUstream stream)
{
	struct gp_slot *slot;
	CUresult rc;

	slot = gp_work_submit(stream, CU_STREAM_PER_THREAD);
	rc = gp_real()->cuWaitExternalSemaphoresAsync_ptsz(extSemArray,
							   paramsArray,
							   numExtSems, stream);
	if (gp_room_made(rc))
		rc = gp_real()->cuWaitExternalSemaphoresAsync_ptsz(extSemArray,
								   paramsArray,
								   numExtSems,
								   stream);
	gp_work_submitted(slot, rc);
	return rc;
}
