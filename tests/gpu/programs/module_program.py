"""PyTorch and the gpupool module in one process: the module has torch.cuda's
keys and page, and its figures are what PyTorch says, where PyTorch knows.

Plain, with nothing preloaded, only the sums are made."""

import os
import sys

import torch

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, os.pardir, os.pardir, os.pardir,
                                "scripts"))
import gpupool  # noqa: E402  (found through the lines above)

MIB = 1 << 20
UNCACHED = os.environ.get("PYTORCH_NO_CUDA_MEMORY_CACHING") == "1"


def labels(page):
    """The first column of a summary."""
    return [line.split("|")[1].strip() for line in page.splitlines()
            if line.count("|") == 6]


def same_names():
    """Every key that this PyTorch has, and its page's rows."""
    theirs = torch.cuda.memory_stats()
    ours = gpupool.memory_stats()
    missing = sorted(set(theirs) - set(ours))
    # Host allocator statistics are no memory of a device.
    missing = [key for key in missing if not key.startswith("host")]
    assert not missing, missing
    assert (set(torch.cuda.memory_stats_as_nested_dict())
            <= set(gpupool.memory_stats_as_nested_dict()))
    assert labels(torch.cuda.memory_summary()) == labels(
        gpupool.memory_summary()), gpupool.memory_summary()


def agree(what, ours, theirs, slack):
    assert theirs <= ours <= theirs + slack, "%s: %d, PyTorch says %d" % (
        what, ours, theirs)


def main():
    device = torch.device("cuda", 0)
    torch.manual_seed(1)
    tensors = [torch.ones(n * MIB // 4, device=device)
               for n in (1, 30, 7, 64)]
    total = sum(float(t.sum().item()) for t in tensors)
    if gpupool.available():
        gpupool.mark("checks")
        if UNCACHED:
            # Sums leave small tensors behind for a while.
            agree("allocated", gpupool.memory_allocated(device), 102 * MIB,
                  16 * MIB)
        else:
            same_names()
            agree("segments", gpupool.memory_allocated(device),
                  torch.cuda.memory_reserved(device), 64 * MIB)
        assert gpupool.memory_reserved() >= gpupool.memory_allocated()
        free, card = gpupool.mem_get_info(device)
        # Others on the card may come and go meanwhile.
        assert card == torch.cuda.mem_get_info(device)[1]
        assert abs(free - torch.cuda.mem_get_info(device)[0]) < 256 * MIB
        del tensors
        torch.cuda.empty_cache()
        before = gpupool.memory_reserved()
        given = gpupool.empty_cache()
        assert given >= 90 * MIB and (
            gpupool.memory_reserved() == before - given), (before, given)
        assert gpupool.max_memory_allocated("cuda:0") >= 102 * MIB
        kept = torch.ones(MIB, device=device)
        gpupool.reset_peak_memory_stats()
        assert gpupool.max_memory_allocated() >= kept.numel() * 4
        assert gpupool.max_memory_allocated() < 102 * MIB
        gpupool.set_per_process_memory_fraction(0.1)
        # What is handed to PyTorch has to fit, so this is refused.
        try:
            torch.empty(int(card * 0.2), dtype=torch.uint8, device=device)
            sys.exit("a fifth of the card, where a tenth is allowed")
        except RuntimeError as error:
            if "out of memory" not in str(error):
                raise
        gpupool.set_memory_limit(None)
        print(gpupool.memory_summary(), file=sys.stderr)
    print("result sum=%r" % total)


if __name__ == "__main__":
    main()
