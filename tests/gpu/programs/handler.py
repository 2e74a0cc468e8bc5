"""A Python program with a SIGUSR1 handler of its own, installed before or
after CUDA starts; it signals itself and tells how often its handler ran.

    handler.py before|after LIBCUDART
"""

import ctypes
import os
import signal
import sys
import time


def main():
    when, library = sys.argv[1:3]
    count = [0]

    def handler(number, frame):
        del number, frame
        count[0] += 1

    if when == "before":
        signal.signal(signal.SIGUSR1, handler)
    runtime = ctypes.CDLL(library)
    pointer = ctypes.c_void_p()
    status = runtime.cudaMalloc(ctypes.byref(pointer),
                                ctypes.c_size_t(64 << 20))
    assert status == 0, "cudaMalloc: %d" % status
    if when == "after":
        signal.signal(signal.SIGUSR1, handler)
    for _ in range(3):
        seen = count[0]
        os.kill(os.getpid(), signal.SIGUSR1)
        limit = time.monotonic() + 5
        while count[0] == seen and time.monotonic() < limit:
            time.sleep(0.01)
        # Reports are written by another thread: give each its time.
        time.sleep(0.3)
    assert runtime.cudaFree(pointer) == 0
    print("result handled=%d" % count[0])


main()
