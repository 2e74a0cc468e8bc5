/*
 * PyTorch's caching allocator as a library for the timed programs (--alloc).
 * Memory used in another stream than it was taken for is recorded there, as
 * tensors are.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <unordered_map>

namespace
{

namespace torch_cache = c10::cuda::CUDACachingAllocator;

/* libc10_cuda asks libtorch_cuda whether a device is in use. */
void start()
{
	if (!dlopen("libtorch_cuda.so", RTLD_NOW | RTLD_GLOBAL)) {
		fprintf(stderr, "torch_cache: %s\n", dlerror());
		abort();
	}
	torch_cache::init(c10::cuda::device_count());
}

std::once_flag once;
std::mutex lock;
std::unordered_map<void *, cudaStream_t> taken_for; /* guarded by lock */

} // namespace

extern "C" void *gpu_get(size_t bytes, cudaStream_t stream)
{
	std::call_once(once, start);
	void *p = torch_cache::raw_alloc_with_stream(bytes, stream);
	std::lock_guard<std::mutex> guard(lock);

	taken_for[p] = stream;
	return p;
}

extern "C" void gpu_put(void *p, cudaStream_t last)
{
	cudaStream_t first;
	{
		std::lock_guard<std::mutex> guard(lock);
		auto at = taken_for.find(p);

		first = at->second;
		taken_for.erase(at);
	}
	if (first == last) {
		torch_cache::raw_delete(p);
		return;
	}
	/* Going out of scope it gives the memory back. */
	c10::DataPtr data(p, p, torch_cache::get()->raw_deleter(),
			  c10::Device(c10::DeviceType::CUDA, 0));

	torch_cache::recordStream(data,
				  c10::cuda::getStreamFromExternal(last, 0));
}
