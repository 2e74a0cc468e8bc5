"""What programs do under a limit: fill the device until they are refused, free
it, and go on. The last line is `result key=value ...`.

    limit_program.py torch [hold] | cupy | workspace | nccl
"""

import os
import sys
import time

CHUNK = 256 << 20


def need_no_memory(error):
    """PyTorch says so in two ways: with its own cache and without."""
    if "out of memory" not in str(error):
        raise error


def with_torch(hold):
    import torch
    free, total = torch.cuda.mem_get_info()
    props = torch.cuda.get_device_properties(0).total_memory
    tensors = []
    refused = False
    try:
        while True:
            tensors.append(torch.ones(CHUNK, dtype=torch.uint8, device="cuda"))
    except RuntimeError as error:
        need_no_memory(error)
        refused = True
    filled = len(tensors) * CHUNK
    if hold:  # until the other one has had its turn
        time.sleep(5)
    assert refused and int(tensors[-1][-1]) == 1
    del tensors[: len(tensors) // 2 + 1]
    torch.cuda.empty_cache()
    # It goes on: half of it is there again.
    again = torch.zeros(filled // 2 // CHUNK * CHUNK // 2, dtype=torch.int16,
                        device="cuda")
    again += 7
    assert int(again[-1]) == 7
    a = torch.ones(1024, 1024, device="cuda")
    assert float((a @ a)[0, 0]) == 1024.0
    print("result free=%d total=%d props=%d filled=%d" % (free, total, props,
                                                          filled))


def with_cupy():
    import cupy as cp
    free, total = cp.cuda.runtime.memGetInfo()
    arrays = []
    try:
        while True:
            arrays.append(cp.full(CHUNK, 3, dtype=cp.uint8))
    except cp.cuda.memory.OutOfMemoryError:
        pass
    filled = len(arrays) * CHUNK
    assert int(arrays[-1][-1]) == 3
    arrays.clear()
    cp.get_default_memory_pool().free_all_blocks()
    again = cp.full(filled // 2, 5, dtype=cp.uint8)
    assert int(again[-1]) == 5
    print("result free=%d total=%d filled=%d" % (free, total, filled))


def cache_nearly_all():
    """Leaves the pool with all of the device cached but some MiB."""
    import torch
    tensors = []
    size = CHUNK
    while size >= 2 << 20:
        try:
            tensors.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
        except RuntimeError as error:
            need_no_memory(error)
            size //= 2
    cached = sum(t.numel() for t in tensors)
    tensors.clear()
    return cached


def with_workspace():
    import torch
    torch.cuda.init()
    cached = cache_nearly_all()
    # The first product: cuBLAS makes its handle, and PyTorch its workspace.
    a = torch.ones(2048, 2048, device="cuda", dtype=torch.bfloat16)
    assert float((a @ a)[0, 0]) == 2048.0
    b = torch.linalg.solve(torch.eye(512, device="cuda") * 2,
                           torch.ones(512, 1, device="cuda"))
    assert float(b[0, 0]) == 0.5
    print("result cached=%d" % cached)


def with_nccl():
    import torch
    import torch.distributed as dist
    torch.cuda.init()
    one = torch.ones(1024, device="cuda")
    cached = cache_nearly_all()
    dist.init_process_group("nccl", rank=0, world_size=1,
                            device_id=torch.device("cuda", 0))
    dist.all_reduce(one)
    torch.cuda.synchronize()
    print("result cached=%d sum=%d" % (cached, int(one[0])))
    sys.stdout.flush()
    dist.destroy_process_group()


def main():
    print("pid %d" % os.getpid(), flush=True)
    what = sys.argv[1]
    if what == "torch":
        with_torch("hold" in sys.argv[2:])
    elif what == "cupy":
        with_cupy()
    elif what == "workspace":
        with_workspace()
    else:
        with_nccl()


main()
