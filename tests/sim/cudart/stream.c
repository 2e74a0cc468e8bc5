/* Streams, events, captures and graphs. */
#include "tests/sim/cudart/rt.h"

RT_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out,
						unsigned flags, int priority)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(
			   d->cuStreamCreateWithPriority(out, flags, priority))
		 : rt_error(err);
}

RT_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamCreate(out, flags)) : rt_error(err);
}

RT_API cudaError_t cudaStreamCreate(cudaStream_t *out)
{
	return cudaStreamCreateWithFlags(out, cudaStreamDefault);
}

RT_API cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamDestroy(stream)) : rt_error(err);
}

RT_API cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamQuery(stream)) : rt_error(err);
}

RT_API cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamSynchronize(stream)) : rt_error(err);
}

RT_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event,
				       unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamWaitEvent(stream, event, flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamGetFlags(stream, flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamGetPriority(stream, priority))
		 : rt_error(err);
}

RT_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn,
				      void *data)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuLaunchHostFunc(stream, fn, data))
		 : rt_error(err);
}

/* The two callbacks' types differ only in how they name the same codes. */
RT_API cudaError_t cudaStreamAddCallback(cudaStream_t stream,
					 cudaStreamCallback_t fn, void *data,
					 unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamAddCallback(
			   stream, (CUstreamCallback)(void (*)(void))fn, data,
			   flags))
		 : rt_error(err);
}

/* ---- events ------------------------------------------------------------------------ */

RT_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventCreate(out, flags)) : rt_error(err);
}

RT_API cudaError_t cudaEventCreate(cudaEvent_t *out)
{
	return cudaEventCreateWithFlags(out, cudaEventDefault);
}

RT_API cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventDestroy(event)) : rt_error(err);
}

RT_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventRecord(event, stream)) : rt_error(err);
}

RT_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event,
					    cudaStream_t stream, unsigned flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventRecordWithFlags(event, stream, flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaEventQuery(cudaEvent_t event)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventQuery(event)) : rt_error(err);
}

RT_API cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventSynchronize(event)) : rt_error(err);
}

RT_API cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start,
					cudaEvent_t end)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuEventElapsedTime(ms, start, end))
		 : rt_error(err);
}

/* ---- captures and graphs -------------------------------------------------------------- */

RT_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream,
					  enum cudaStreamCaptureMode mode)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamBeginCapture(
			   stream, (CUstreamCaptureMode)(int)mode))
		 : rt_error(err);
}

RT_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuStreamEndCapture(stream, graph))
		 : rt_error(err);
}

RT_API cudaError_t cudaStreamIsCapturing(cudaStream_t stream,
					 enum cudaStreamCaptureStatus *status)
{
	CUstreamCaptureStatus own = CU_STREAM_CAPTURE_STATUS_NONE;
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	res = d->cuStreamIsCapturing(stream, &own);
	*status = (enum cudaStreamCaptureStatus)(int)own;
	return rt_result(res);
}

RT_API cudaError_t
cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
	CUstreamCaptureMode own;
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);
	CUresult res;

	if (!d)
		return rt_error(err);
	if (!mode)
		return rt_error(cudaErrorInvalidValue);
	own = (CUstreamCaptureMode)(int)*mode;
	res = d->cuThreadExchangeStreamCaptureMode(&own);
	if (!res)
		*mode = (enum cudaStreamCaptureMode)(int)own;
	return rt_result(res);
}

RT_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph,
					unsigned long long flags)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuGraphInstantiateWithFlags(out, graph, flags))
		 : rt_error(err);
}

RT_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *out,
						 cudaGraph_t graph,
						 unsigned long long flags)
{
	return cudaGraphInstantiate(out, graph, flags);
}

RT_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream)
{
	cudaError_t err;
	const struct rt_driver *d = rt_enter(&err);

	return d ? rt_result(d->cuGraphLaunch(exec, stream)) : rt_error(err);
}

RT_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuGraphExecDestroy(exec)) : rt_error(err);
}

RT_API cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuGraphDestroy(graph)) : rt_error(err);
}

RT_API cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes,
				     size_t *count)
{
	cudaError_t err;
	const struct rt_driver *d = rt_driver(&err);

	return d ? rt_result(d->cuGraphGetNodes(graph, nodes, count))
		 : rt_error(err);
}
