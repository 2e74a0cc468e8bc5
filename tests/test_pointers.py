"""What a program is told of its addresses is what it would be told without the
preload."""
import concurrent.futures
import difflib
import unittest

import harness

SETTINGS = ('quiet:True', 'quiet:True,expandable_segments:False',
            'quiet:True,backend:passthrough', 'quiet:True,check:True')
ASYNC = 'quiet:True,backend:cudaMallocAsync'
# What such memory says by itself (see the README).
LIMITS = ('legacy ipc: ', 'pool: ', 'get access: ', 'gpudirect rdma: ')


def without(lines, limits):
    return [line for line in lines
            if not any(limit in line for limit in limits)]


class Pointers(harness.CudaTest):

    def lines(self, program, sim='', **kwargs):
        result = self.run_program([program], sim='memory:1GiB,devices:3' + sim,
                                  **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return result.out.decode().splitlines()

    def test_same_lines(self):
        self.compare('drv_pointers', 800)

    def test_peers(self):
        self.compare('drv_peers', 20)

    def test_copies_between_cards(self):
        for sim in '', ',peer:0':
            lines = self.compare('drv_across', 160, sim=sim)
            self.assertEqual([line for line in lines if 'wrong' in line and
                              not line.endswith(' 0 wrong')], [])

    def test_copies_that_visit(self):
        """Copies that reach another context's memory come before and after
        what they would with plain memory."""
        def lines(conf, *args):
            result = self.run_program(('drv_visits',) + args, conf=conf,
                                      preload=bool(conf),
                                      sim='memory:1GiB,devices:3')
            self.assert_ok(result)
            return result.out.decode().splitlines()

        for args in (), ('same',):
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                plain, *ours = pool.map(lambda conf: lines(conf, *args),
                                        ('',) + SETTINGS + (ASYNC,))
            for conf, got in zip(SETTINGS + (ASYNC,), ours):
                with self.subTest(args=args, conf=conf):
                    self.assertEqual(plain, got)
            self.assertGreater(len({line.split(': ')[1] for line in plain
                                    if ': after ' in line}), 5)

    def test_rdma(self):
        """Pool memory is as capable as plain memory is; where no such handle
        can be made after all the pool does without, and says nothing."""
        plain = self.lines('drv_pointers', preload=False)
        asked = [line for line in plain if 'gpudirect rdma: ' in line]
        self.assertTrue(any(line.endswith(' 1') for line in asked), asked)
        none = self.lines('drv_pointers', sim=',rdma:0', preload=False)
        for sim in ',rdma:0', ',fail:cuMemCreate@1=801':
            self.assertEqual(none, self.lines('drv_pointers', sim=sim,
                                              conf='quiet:True'))

    def compare(self, program, least, sim=''):
        plain = self.lines(program, preload=False, sim=sim)
        self.assertGreater(len(plain), least)
        for conf in SETTINGS + (ASYNC,):
            with self.subTest(conf=conf):
                limits = LIMITS if conf == ASYNC else ()
                ours = without(self.lines(program, conf=conf, sim=sim),
                               limits)
                self.assertEqual('', '\n'.join(difflib.unified_diff(
                    without(plain, limits), ours, 'plain', 'preloaded', n=0,
                    lineterm='')))
        return plain


if __name__ == '__main__':
    unittest.main()
