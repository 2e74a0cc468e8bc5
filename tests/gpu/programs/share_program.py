"""Tensors on a card shared with other processes by torch.multiprocessing:
whole ones and views, small and large, changed by the other side. Where PyTorch
itself refuses, the line says so."""
import sys

import torch
import torch.multiprocessing as mp

SIZES = (3, 1000, 100_000, 300_000, 5_000_000, 60_000_000)


def child(pipe):
    """Tells the sum of what comes, and adds one to it."""
    while True:
        tensor = pipe.recv()
        if tensor is None:
            break
        total = tensor.double().sum().item()
        tensor.add_(1)
        torch.cuda.synchronize()
        del tensor
        pipe.send(total)


def share(pipe, tensor):
    """What the other side saw; or why it could not be sent."""
    try:
        pipe.send(tensor)
    except Exception as error:
        return type(error).__name__
    return "%.0f" % pipe.recv()


def main():
    mp.set_start_method("spawn")
    ends, children = [], []
    for _ in range(2):
        here, there = mp.Pipe()
        children.append(mp.Process(target=child, args=(there,), daemon=True))
        children[-1].start()
        ends.append(here)
    for turn in range(3):
        keep = []
        for size in SIZES:
            tensor = torch.arange(size, device="cuda").remainder(251).float()
            keep.append(tensor)
            for number, pipe in enumerate(ends):
                for name, part in (("all", tensor), ("end", tensor[size // 2:])):
                    seen = share(pipe, part)
                    print("result turn=%d size=%d child=%d part=%s seen=%s "
                          "after=%.0f" % (turn, size, number, name, seen,
                                          tensor.double().sum().item()))
        del tensor, part, keep
        torch.cuda.empty_cache()
    for pipe, process in zip(ends, children):
        pipe.send(None)
        process.join(60)
        print("result exit=%s" % process.exitcode)
    return 0


if __name__ == "__main__":
    sys.exit(main())
