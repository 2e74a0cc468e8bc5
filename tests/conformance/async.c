/* Memory of cudaMallocAsync beside that of cudaMalloc, each freed by the
 * other's call. */
#include "conformance.h"

static cudaStream_t stream;

static void crossed(size_t bytes)
{
	char *p = NULL;

	tell_prefix("%zu bytes", bytes);
	tell_rt("alloc", cudaMalloc((void **)&p, bytes));
	tell_rt("set", cudaMemsetAsync(p, 1, bytes, stream));
	tell_rt("free on the stream", cudaFreeAsync(p, stream));
	tell_rt("wait", cudaStreamSynchronize(stream));
	tell_rt("free it again", cudaFree(p));
	tell_rt("alloc", cudaMalloc((void **)&p, bytes));
	tell_rt("free on the default stream", cudaFreeAsync(p, NULL));
	tell_rt("wait", cudaDeviceSynchronize());
	tell_rt("alloc", cudaMalloc((void **)&p, bytes));
	tell_rt("free on the thread's", cudaFreeAsync(p, cudaStreamPerThread));
	tell_rt("wait", cudaDeviceSynchronize());
	tell_rt("alloc on the stream",
		cudaMallocAsync((void **)&p, bytes, stream));
	tell_rt("set", cudaMemsetAsync(p, 1, bytes, stream));
	/* cudaFree does not wait for this kind. */
	tell_rt("wait", cudaStreamSynchronize(stream));
	tell_rt("plain free", cudaFree(p));
	tell_rt("alloc on the stream",
		cudaMallocAsync((void **)&p, bytes, stream));
	tell_rt("free on it", cudaFreeAsync(p, stream));
	tell_rt("wait", cudaStreamSynchronize(stream));
	tell_prefix(NULL);
}

static void mixes(void)
{
	char *p;

	need_rt(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	crossed(512);
	crossed(MIB);
	crossed(100 * MIB);
	p = device_block(64 * KIB);
	tell_rt("middle on the stream", cudaFreeAsync(p + 512, stream));
	tell_rt("16 on the stream", cudaFreeAsync((void *)16, stream));
	tell_rt("whole on the stream", cudaFreeAsync(p, stream));
	tell_rt("wait", cudaStreamSynchronize(stream));
	tell_rt("again on the stream", cudaFreeAsync(p, stream));
	tell_rt("alloc 0", cudaMallocAsync((void **)&p, 0, stream));
	tell_rt("too much",
		cudaMallocAsync((void **)&p, (size_t)1 << 46, stream));
	tell_rt("to NULL", cudaMallocAsync(NULL, 512, stream));
}

static void pools(void)
{
	cudaMemPool_t pool = NULL, current = NULL;
	unsigned long long threshold = ~0ull, used = 0;
	char *p = NULL;

	need_rt(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
	tell_rt("default", cudaDeviceGetDefaultMemPool(&pool, 0));
	tell_rt("current", cudaDeviceGetMemPool(&current, 0));
	tell_value("same", pool == current);
	tell_rt("threshold",
		cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold,
					&threshold));
	tell_rt("from it",
		cudaMallocFromPoolAsync((void **)&p, 3 * MIB, pool, stream));
	tell_rt("used", cudaMemPoolGetAttribute(
				pool, cudaMemPoolAttrUsedMemCurrent, &used));
	tell_value("bytes", (long long)used);
	tell_rt("free", cudaFreeAsync(p, stream));
	tell_rt("wait", cudaStreamSynchronize(stream));
	tell_rt("used", cudaMemPoolGetAttribute(
				pool, cudaMemPoolAttrUsedMemCurrent, &used));
	tell_value("bytes", (long long)used);
	tell_rt("trim", cudaMemPoolTrimTo(pool, 0));
	p = device_block(3 * MIB);
	tell_rt("used", cudaMemPoolGetAttribute(
				pool, cudaMemPoolAttrUsedMemCurrent, &used));
	tell_value("bytes, cudaMalloc's are not its own", (long long)used);
	tell_rt("free", cudaFree(p));
}

const struct section async_sections[] = {
	{"async", mixes}, {"async-pools", pools}, {NULL, NULL}};
