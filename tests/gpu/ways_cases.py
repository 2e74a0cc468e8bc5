"""Cases of run.py about what programs do with memory beside allocating it:
captures and graphs, forked workers, several contexts, several cards."""

import os
import sys

import machine
from case import pair
from machine import Failure, Skip

UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
# NVLink multicast stays off: it is no part of what is looked at.
NCCL = {"NCCL_NVLS_ENABLE": "0"}


def program(name, *words):
    return [sys.executable, os.path.join(machine.PROGRAMS, name + ".py")] + \
        list(words)


def torch_ways(context, case, how, env=None, *modules):
    machine.need_modules("torch", *modules)
    return pair(context, case, program("torch_ways", how), env)


def torch_compile(context, case):
    """torch.compile(mode="reduce-overhead"), training."""
    return torch_ways(context, case, "compile", None, "triton")


def torch_graph(context, case):
    """torch.cuda.graph with PyTorch's cache: a step, replayed."""
    return torch_ways(context, case, "graph")


def torch_graph_uncached(context, case):
    """The same without it: both refuse alike."""
    return torch_ways(context, case, "graph", UNCACHED)


def torch_loader(context, case):
    """A DataLoader of four forked workers, pinned batches."""
    return torch_ways(context, case, "loader")


def torch_loader_uncached(context, case):
    """The same, PYTORCH_NO_CUDA_MEMORY_CACHING=1."""
    return torch_ways(context, case, "loader", UNCACHED)


def generate(context, case):
    """transformers' generate, random weights."""
    return torch_ways(context, case, "generate", None, "transformers")


def generate_uncached(context, case):
    """The same, PYTORCH_NO_CUDA_MEMORY_CACHING=1."""
    return torch_ways(context, case, "generate", UNCACHED, "transformers")


def torch_pluggable(context, case):
    """CUDAPluggableAllocator over gpupool_torch_alloc: all tensors."""
    row = torch_ways(context, case, "pluggable")
    if row["allocs"] < 300:  # PyTorch's cache would ask some ten times
        raise Failure("only %d allocations came to the pool" % row["allocs"])
    return row


def torch_mempool(context, case):
    """torch.cuda.MemPool over gpupool_torch_alloc."""
    machine.need_modules("torch")
    plain = context.plain(case, program("torch_ways", "mempool"), {})
    lacks = plain[0].results()[-1].get("lacks")
    if lacks:
        raise Skip("this PyTorch has no " + lacks)
    row = torch_ways(context, case, "mempool")
    where = context.reports(case)
    for name in os.listdir(where):
        if ".oom-" in name and name.endswith(".txt"):
            with open(os.path.join(where, name)) as file:
                if "gpupool_torch_alloc asked for 32.00 TiB" in file.read():
                    return row
    raise Failure("the request for too much was not made by the door")


def cupy_pool(context, case):
    """CuPy with its own pool."""
    machine.need_modules("cupy", "numpy")
    return pair(context, case, program("cupy_program", "pool"))


def contexts(context, case):
    """C, driver API: two contexts in one process."""
    return pair(context, case, [machine.build_c("contexts", context.programs,
                                               "driver")])


# ---- two cards ------------------------------------------------------------------

def two(context, case, how, env=None):
    """Both ways in which NCCL takes memory, where it does."""
    machine.need_cards(2)
    machine.need_modules("torch")
    rows = []
    for cumem in ("0", "1") if how != "share" else ("1",):
        rows.append(pair(context, case, program("two_cards", how), dict(
            NCCL, NCCL_CUMEM_ENABLE=cumem, **(env or {}))))
    return dict(rows[-1], plain_s=sum(r["plain_s"] for r in rows),
                preloaded_s=sum(r["preloaded_s"] for r in rows))


def ddp(context, case):
    """DistributedDataParallel over NCCL, a process a card."""
    return two(context, case, "ddp")


def ddp_uncached(context, case):
    """The same, PYTORCH_NO_CUDA_MEMORY_CACHING=1."""
    return two(context, case, "ddp", UNCACHED)


def nccl_p2p(context, case):
    """All-reduce of two processes, card to card."""
    return two(context, case, "all-reduce", dict(UNCACHED,
                                                 NCCL_P2P_LEVEL="SYS"))


def share_two(context, case):
    """torch.multiprocessing between processes on two cards."""
    return two(context, case, "share", UNCACHED)


def peer(context, case):
    """CUDA C++: copies and kernels between two cards."""
    machine.need_cards(2)
    return pair(context, case, [machine.build_cu("peer", context.programs,
                                                "shared")])


CASES = [("torch-compile", torch_compile), ("torch-graph", torch_graph),
         ("torch-graph-uncached", torch_graph_uncached),
         ("torch-loader", torch_loader),
         ("torch-loader-uncached", torch_loader_uncached),
         ("generate", generate), ("generate-uncached", generate_uncached),
         ("torch-pluggable", torch_pluggable),
         ("torch-mempool", torch_mempool), ("cupy-pool", cupy_pool),
         ("contexts", contexts), ("ddp", ddp), ("ddp-uncached", ddp_uncached),
         ("nccl-p2p", nccl_p2p), ("share-two", share_two), ("peer", peer)]
