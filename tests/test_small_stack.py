"""Threads with small stacks allocate, free, launch, and are refused, as without
us: what we put on a stack is the program's."""
import unittest

import harness

# The linker looks a function up at its first call otherwise, with all vector
# registers on the caller's stack: some KiB, by machine, and no matter of ours.
ENV = {'LD_BIND_NOW': '1'}

# Bytes that a step may take above what the plain one that takes most does.
OURS = 4096

CONFS = ['quiet:True' + conf for conf in (
    '', ',stacks:off', ',stacks:all', ',only:rt_small_stack',
    ',memory_limit:1GiB,warn_at:0.001', ',expandable_segments:False',
    ',check:True', ',enabled:False')]


class SmallStack(harness.CudaTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('sanitizers take most of a small stack')

    def test_the_smallest(self):
        """PTHREAD_STACK_MIN, 16 KiB, of which thread-local data takes half."""
        for name in 'rt_small_stack', 'rt_small_stack-static':
            for api in 'driver', 'runtime':
                plain = self.run_program([name, api], preload=False, env=ENV)
                self.assert_ok(plain)
                for conf in CONFS:
                    with self.subTest((name, api, conf)):
                        result = self.run_program([name, api], env=ENV,
                                                  conf=conf)
                        self.assert_ok(result)
                        self.assertEqual(result.out, plain.out)

    def measure(self, api, **kwargs):
        """What the steps took: {name: most bytes}."""
        result = self.run_program(['rt_small_stack', api, 'measure'], env=ENV,
                                  **kwargs)
        self.assert_ok(result)
        most = {}
        for line in result.err.decode().splitlines():
            step, number = line.split()
            most[step] = max(most.get(step, 0), int(number))
        return most

    def test_bytes(self):
        for api in 'driver', 'runtime':
            most = max(self.measure(api, preload=False).values())
            for conf in CONFS:
                with self.subTest((api, conf)):
                    took = self.measure(api, conf=conf)
                    self.assertIn('refused', took)
                    for step, number in took.items():
                        self.assertLess(number, most + OURS, took)


if __name__ == '__main__':
    unittest.main()
