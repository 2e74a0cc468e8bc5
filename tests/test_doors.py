"""gpupool_torch_alloc and gpupool_torch_free, as frameworks call them."""
import os
import sys
import unittest

import harness

LINES = '''\
on 0 and 1, current is that of device 0
allocated: 3145728 and 3145728
allocated: 0 and 0
none asked for: 1, errno 99
in the context that was current: 1
no context before: on 1, then that of device 1
used again: %d, waits
read 7, written 9
used again: %d, waits
read 7, written 9
a free in a capture: 0
taken in a capture: 0, then 901
too much: 0
no such device: 0
allocated: 0
'''

# What CUDAPluggableAllocator does with a path: it opens it, here after the
# driver was used.
OPENED = '''
import ctypes, sys
cuda = ctypes.CDLL('libcuda.so.1')
cuda.cuInit(0)
lib = ctypes.CDLL(sys.argv[1])
alloc, free = lib.gpupool_torch_alloc, lib.gpupool_torch_free
alloc.restype = ctypes.c_void_p
alloc.argtypes = [ctypes.c_ssize_t, ctypes.c_int, ctypes.c_void_p]
free.argtypes = [ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int,
                 ctypes.c_void_p]
cuda.gpusim_used_bytes.restype = ctypes.c_uint64
blocks = [alloc(3 << 20, 0, None) for _ in range(2)]
print(all(blocks))
for block in blocks:
    free(block, 3 << 20, 0, None)
free(None, 0, 0, None)
print(cuda.gpusim_used_bytes(0))
'''


class Doors(harness.CudaTest):

    def program(self, conf, again=1, sim='memory:1GiB,devices:2'):
        result = self.run_program(['drv_doors'], sim=sim, conf=conf)
        self.assert_ok(result)
        self.assertEqual(result.out.decode(), LINES % (again, again))
        err = result.err.decode().splitlines()
        self.assertEqual(len(err), 4, err)
        for line, words in zip(err, ('CUDA error 900', 'CUDA error 2',
                                     'CUDA error 101', 'could not be freed')):
            self.assertIn(words, line)

    def test_streams_devices_refusals(self):
        self.program('quiet:True')

    def test_segments(self):
        self.program('quiet:True,check:True,expandable_segments:False')

    def test_full_order_is_not_theirs(self):
        """Even where other frees order all that follows."""
        self.program('quiet:True,check:True,free_order:full')

    def test_the_report_names_the_door(self):
        self.program('quiet:True,report_format:text')
        text = open(os.path.join(self.dir, [
            n for n in self.reports() if '.oom-1.' in n][0])).read()
        self.assertIn('gpupool_torch_alloc asked for 100.00 GiB', text)

    def python(self, preload, **env):
        if self.build.san:
            self.skipTest('python3 is not sanitized')
        return self.run_program(
            [sys.executable, '-c', OPENED,
             os.path.join(self.build.path, 'libgpupool.so')],
            preload=preload, sim='memory:1GiB', conf='quiet:True', env=env)

    def test_opened_where_it_is_preloaded(self):
        result = self.python(True)
        self.assert_ok(result)
        self.assertEqual(result.out, b'True\n%d\n' % (6 << 20))  # cached

    def test_opened_too_late(self):
        """The linker has no room for its variables then."""
        result = self.python(False)
        self.assertNotEqual(result.status, 0)
        self.assertIn(b'static TLS', result.err)
        # Where there is room, it is the driver's memory, and that is said.
        result = self.python(
            False, GLIBC_TUNABLES='glibc.rtld.optional_static_tls=65536')
        self.assert_ok(result)
        self.assertEqual(result.out, b'True\n0\n')
        self.assertEqual(result.err.count(b'\n'), 1, result.err)
        self.assertIn(b'was opened but not preloaded', result.err)


if __name__ == '__main__':
    unittest.main()
