"""Numba: kernels over device arrays of changing sizes, several streams, arrays
dropped while work is in flight. The last line is equal each run."""

import hashlib
import sys

import numpy as np

if not hasattr(np, "row_stack"):  # gone in numpy 2.5, numba-cuda still asks
    np.row_stack = np.vstack
from numba import cuda  # noqa: E402


@cuda.jit
def scale(array, factor, offset):
    """array = array * factor + offset, in whole numbers."""
    i = cuda.grid(1)
    if i < array.size:
        array[i] = array[i] * factor + offset


@cuda.jit
def add(one, two, out):
    """out = one + two."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = one[i] + two[i]


def main():
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    rng = np.random.default_rng(11)
    streams = [cuda.stream() for _ in range(3)]
    digest = hashlib.sha256()
    for index in range(rounds):
        size = int(rng.integers(1, 2_000_000 if index % 5 == 0 else 50_000))
        host = rng.integers(0, 1 << 20, size, dtype=np.int64)
        stream = streams[index % len(streams)]
        one = cuda.to_device(host, stream=stream)
        two = cuda.to_device(host[::-1].copy(), stream=stream)
        out = cuda.device_array(size, dtype=np.int64, stream=stream)
        blocks = (size + 255) // 256
        scale[blocks, 256, stream](one, 3, index)
        scale[blocks, 256, stream](two, 5, -index)
        add[blocks, 256, stream](one, two, out)
        result = out.copy_to_host(stream=stream)
        stream.synchronize()
        expected = host * 3 + host[::-1] * 5
        assert (result == expected).all(), "round %d" % index
        digest.update(result.tobytes())
        # Numba puts frees off; let go of them now and then.
        if index % 10 == 0:
            cuda.current_context().deallocations.clear()
    print("result checksum=%s" % digest.hexdigest()[:16])


main()
