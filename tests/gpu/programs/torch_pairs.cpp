/*
 * Pairs (pairs.h) of PyTorch's caching allocator from C++, no Python and no
 * dispatcher in between: raw_alloc + raw_delete.
 */
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>

#include "pairs.h"

namespace
{

namespace torch_cache = c10::cuda::CUDACachingAllocator;

struct Memory {
	Memory(const pairs::Plan &, bool worker)
	{
		if (worker)
			c10::cuda::set_device(0);
	}

	void *take(size_t bytes)
	{
		return torch_cache::raw_alloc(bytes);
	}

	void give(void *p)
	{
		torch_cache::raw_delete(p);
	}

	void settle()
	{
	}
};

} // namespace

int main(int argc, char **argv)
{
	pairs::Options options = pairs::read(argc, argv, {"torch"});

	torch_cache::init(c10::cuda::device_count());
	pairs::measure_all<Memory>(options);
	return 0;
}
