"""Segments of cuMemAlloc, where a context ends that has them."""
import unittest

import harness

PROGRAM = '''
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <stdio.h>

int main(void)
{
    int (*trim)(int, void *) = (int (*)(int, void *))dlsym(RTLD_DEFAULT,
                                                          "gpupool_trim");
    long (*calls)(const char *) = (long (*)(const char *))dlsym(
        RTLD_DEFAULT, "gpusim_calls");
    CUcontext context;
    CUdeviceptr p;
    long before;

    if (cuInit(0) || cuCtxCreate_v2(&context, 0, 0) ||
        cuMemAlloc(&p, 40 << 20) || cuMemFree(p))
        return 1;
    trim(-2, NULL); /* one goes back */
    if (cuMemAlloc(&p, 40 << 20))
        return 1;
    before = calls("cuMemFreeAsync") + calls("cuMemFree_v2");
    if (before < 1 || cuCtxDestroy(context))
        return 1;
    printf("%ld\\n", calls("cuMemFreeAsync") + calls("cuMemFree_v2") - before);
    return 0;
}
'''


class ContextEnds(harness.CudaTest):

    def test_nothing_is_freed_that_went_with_it(self):
        """Another context may have got the address by then."""
        path = self.compile(
            'ends', PROGRAM, '-I/usr/local/cuda/include',
            '-L' + self.build.sim, '-lcuda', '-ldl',
            *(['-fsanitize=' + self.build.san] if self.build.san else []))
        result = self.run_program(
            [path], conf='quiet:True,expandable_segments:False')
        self.assert_ok(result)
        self.assertEqual((result.out, result.err), (b'0\n', b''))

    def test_its_addresses_are_nobodys_at_once(self):
        """Another thread may map there before the call that destroyed the
        context has returned."""
        for how in 'destroy', 'reset':
            with self.subTest(how=how):
                lines = [self.run_program(
                    ['drv_leaving', how], preload=preload,
                    sim='devices:2,destroy_us:300000',
                    conf='expandable_segments:False').out
                    for preload in (False, True)]
                self.assertEqual(lines[0], b'map: 0\nunmap: 0\n')
                self.assertEqual(lines[1], lines[0])

    def test_another_context_with_its_handle(self):
        """Made by another thread before the call that destroyed the first has
        returned: that one's end is not taken for its own."""
        work = 'set: 0\nfree: 0\nset: 0\n'
        for how in 'destroy', 'reset', 'release':
            for preload in False, True:
                with self.subTest(how=how, preload=preload):
                    result = self.run_program(
                        ['drv_leaving', 'again', how], preload=preload,
                        sim='devices:2,destroy_us:300000,contexts_return:1')
                    self.assert_ok(result)
                    self.assertEqual(
                        result.out.decode(), work * 2 +
                        'waits: 0\nby the driver: %d\n' % (2 - 2 * preload))

    def test_retained_from_within(self):
        """By a profiler, whose code the driver runs within the call that
        releases a primary context, or resets the device."""
        for how in 'release', 'reset':
            with self.subTest(how=how):
                lines = [self.run_program(['drv_primaries', 'within', how],
                                          preload=preload).out.decode()
                         for preload in (False, True)]
                self.assertRegex(lines[0], 'within: 0\n%s: 0\n' % how)
                self.assertEqual(lines[1], lines[0])

    def test_retained_beside(self):
        """By gpupool, for a moment, while another thread releases it: what was
        in it goes off the ledger."""
        for how in 'allocation', 'door':
            with self.subTest(how=how):
                result = self.run_program(
                    ['drv_primaries', 'beside', how], sim='context:1MiB',
                    conf='quiet:True,memory_limit:8MiB')
                self.assert_ok(result)
                self.assertEqual(
                    sorted(result.out.decode().splitlines()),
                    ['beside: 1', 'managed: 0', 'release: 0'])


if __name__ == '__main__':
    unittest.main()
