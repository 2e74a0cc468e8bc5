"""Threads with small stacks allocate, and are refused, as without us: what we
put on a stack is the program's."""
import unittest

import harness


class SmallStack(harness.CudaTest):

    def test_first_call_and_refusal(self):
        if self.build.san:
            self.skipTest('sanitizers take most of a small stack')
        argv = ['drv_small_stack']
        plain = self.run_program(argv, preload=False)
        self.assert_ok(plain)
        for conf in ('', 'stacks:off', 'stacks:all', 'only:drv_small_stack',
                     'memory_limit:1GiB,warn_at:0.001', 'enabled:False'):
            with self.subTest(conf):
                result = self.run_program(argv, conf='quiet:True,' + conf)
                self.assert_ok(result)
                self.assertEqual(result.out, plain.out)


if __name__ == '__main__':
    unittest.main()
