"""The same calls, plain and preloaded: every result must be the same."""
import difflib
import unittest

import harness

SETTINGS = ('', ',check:True', ',expandable_segments:False',
            ',backend:passthrough', ',reuse:sync',
            ',backend:cudaMallocAsync')
# Limits, by what the lines tell: memory of a pool says so (see the README).
LIMITS = {',backend:cudaMallocAsync': ('get access',)}
# The simulated driver has no memory handles for other processes; a free does
# not wait, and tells no fault that nothing has told yet (see the README).
WITHOUT = 'ipc-own,fault-unseen'


def without(lines, limits):
    return [line for line in lines
            if not any(': %s: ' % limit in line for limit in limits)]


class Conformance(harness.CudaTest):

    def lines(self, **kwargs):
        result = self.run_program(
            [self.build.path + '/tests/conformance', '--without', WITHOUT],
            sim='memory:2GiB', **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return result.out.decode().splitlines()

    def test_same_lines(self):
        plain = self.lines(preload=False)
        self.assertGreater(len(plain), 1500)
        self.assertEqual([line for line in plain if 'section ends' in line],
                         [])
        for conf in SETTINGS:
            with self.subTest(conf=conf):
                ours = self.lines(conf='quiet:True,report_dir:%s%s'
                                  % (self.dir, conf))
                limits = LIMITS.get(conf, ())
                self.assertEqual('', '\n'.join(difflib.unified_diff(
                    without(plain, limits), without(ours, limits), 'plain',
                    'preloaded', n=0, lineterm='')))

    def test_no_such_section(self):
        result = self.run_program(
            [self.build.path + '/tests/conformance', 'dance'], preload=False)
        self.assertEqual(result.status, 2)


if __name__ == '__main__':
    unittest.main()
