"""gpupool_torch_alloc and gpupool_torch_free, as frameworks call them."""
import os
import sys
import unittest

import harness

DEVICES = '''\
on 0 and 1, current is that of device 0
allocated: %(size)s and %(size)s
allocated: %(none)s and %(none)s
none asked for: 1, errno 99
in the context that was current: 1
no context before: on 1, then that of device 1
'''
ORDER = '''\
used again: %(again)d, waits
read 7, written 9
used again: %(again)d, waits
read 7, written 9
'''
CAPTURES = '''\
a free in a capture: %(ended)s
taken in a capture: 0, then 901
in a relaxed capture: on 0, then 0
read 6
allocated: %(kept)s, of the device: 0
'''
REFUSED = '''\
too much: 0
no such device: 0 0
allocated: %(kept)s, there: 0
allocated: %(none)s, there: 0
allocated: %(kept)s
after a reset, allocated: %(none)s and %(size)s
on 0, read 4, current is that of device 0
allocated: %(none)s and %(none)s
'''
LINES = {'size': '3145728', 'none': '0', 'kept': '0', 'again': 1, 'ended': '0'}

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

    def program(self, conf, words, expected, *args):
        result = self.run_program(['drv_doors'] + list(args),
                                  sim='memory:1GiB,devices:2', conf=conf)
        self.assert_ok(result)
        self.assertEqual(result.out.decode(), expected)
        err = result.err.decode().splitlines()
        self.assertEqual(len(err), len(words), err)
        for line, word in zip(err, words):
            self.assertIn(word, line)

    def pool(self, conf):
        self.program(conf, ('CUDA error 900', 'CUDA error 2', 'on device 9',
                            'on device -1', 'could not be freed',
                            'could not be freed'),
                     (DEVICES + ORDER + CAPTURES + REFUSED) % LINES)

    def driver(self, conf, *words, **lines):
        """A free waits."""
        self.program(conf, words + (
            'CUDA error 900', 'CUDA error 2', 'on device 9', 'on device -1',
            'could not be freed', 'could not be freed'),
                     (DEVICES + CAPTURES + REFUSED) % dict(LINES, **lines),
                     'waiting')

    def test_streams_devices_refusals(self):
        self.pool('quiet:True')

    def test_segments(self):
        self.pool('quiet:True,check:True,expandable_segments:False')

    def test_full_order_is_not_theirs(self):
        """Even where other frees order all that follows."""
        self.pool('quiet:True,check:True,free_order:full')

    def test_switched_off(self):
        """A free is none while a stream captures, as cudaFree."""
        self.driver('enabled:False', 'be freed (CUDA error 900)', size='99',
                    none='99', kept='99', ended='901')

    def test_counted_only(self):
        self.driver('quiet:True,backend:passthrough', size='0')

    def test_driver_pool(self):
        self.driver('quiet:True,check:True,backend:cudaMallocAsync')

    def test_the_report_names_the_door(self):
        self.pool('quiet:True,report_format:text')
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
