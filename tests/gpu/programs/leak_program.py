"""PyTorch with a leak: a training loop whose list keeps a tensor each step. With
`oom` it goes on until the card refuses. Prints `ready` for a report on the
signal, and `result leak=LINE oom=LINE`: the lines that allocate.

    leak_program.py [oom]
"""

import inspect
import sys
import time

import torch

history = []
KEPT = 4 << 20  # floats: 16 MiB


def line():
    """The caller's."""
    return inspect.currentframe().f_back.f_lineno


def keep(activations):
    here = line() + 1
    history.append(torch.zeros(KEPT, device="cuda").add_(activations.mean()))
    return here


def refused():
    where = 0
    try:
        while True:
            where = line() + 1
            history.append(torch.ones(1 << 28, device="cuda"))
    except RuntimeError:  # OutOfMemoryError is one; uncached, it is plain
        return where


def main():
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(1024, 4096), torch.nn.ReLU(),
                                torch.nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    batch = torch.ones(2048, 1024, device="cuda")
    leak = oom = 0
    for _ in range(60):
        optimizer.zero_grad()
        out = model(batch)
        out.square().mean().backward()
        optimizer.step()
        with torch.no_grad():
            leak = keep(out)
        time.sleep(0.1)  # growth is looked for in parts of the whole run
    torch.cuda.synchronize()
    if sys.argv[1:] == ["oom"]:
        oom = refused()
    print("ready", flush=True)
    time.sleep(2)
    print("result leak=%d oom=%d" % (leak, oom))


main()
