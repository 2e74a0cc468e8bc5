"""Runs out of device memory in one of the ways that people do. The last line is
`result refused=1`; with `hold`, the line `ready`, and then it keeps the memory.

    oom_program.py whole | fill | pieces | ask SHARE | hold SHARE |
                   outside LIBCUDART
"""

import ctypes
import sys
import time

import torch

MIB = 1 << 20
GIB = 1 << 30


def take(bytes):
    return torch.empty(bytes, dtype=torch.uint8, device="cuda")


def total():
    return torch.cuda.get_device_properties(0).total_memory


def free():
    return torch.cuda.mem_get_info()[0]


def whole():
    """More than there is."""
    take(1)
    take(total() + GIB)


def fill():
    """Until there is no more, all of it kept."""
    kept = []
    while True:
        kept.append(take(256 * MIB))


def pieces():
    """Three of four blocks freed, all over the device; then a large one."""
    left = free()
    blocks = [take(5 * MIB) for _ in range(left * 9 // 10 // (5 * MIB))]
    kept = blocks[::4]
    blocks.clear()
    take(left // 2)
    return kept


def ask(share):
    """Less than the device has."""
    kept = take(MIB)
    take(int(total() * share))
    return kept


def hold(share):
    kept = take(int(total() * share))
    torch.cuda.synchronize()
    print("ready", flush=True)
    time.sleep(600)
    return kept


def outside(library):
    """Most of it by another door, then some more."""
    kept = take(MIB)
    runtime = ctypes.CDLL(library)
    address = ctypes.c_void_p()
    bytes = ctypes.c_size_t(free() * 7 // 10)
    error = runtime.cudaMallocAsync(ctypes.byref(address), bytes, None)
    assert error == 0, error
    take(free() + total() // 10)
    return kept


def main():
    what, more = sys.argv[1], sys.argv[2:]
    try:
        if what in ("ask", "hold"):
            {"ask": ask, "hold": hold}[what](float(more[0]))
        elif what == "outside":
            outside(more[0])
        else:
            {"whole": whole, "fill": fill, "pieces": pieces}[what]()
    except RuntimeError as error:
        if "out of memory" not in str(error):
            raise
        print("result refused=1")
        return
    sys.exit("it was not refused")


main()
