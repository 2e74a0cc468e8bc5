"""What a program is told of its addresses is what it would be told without the
preload."""
import difflib
import unittest

import harness

SETTINGS = ('quiet:True', 'quiet:True,expandable_segments:False',
            'quiet:True,backend:passthrough', 'quiet:True,check:True')


class Pointers(harness.CudaTest):

    def lines(self, **kwargs):
        result = self.run_program(['drv_pointers'], sim='memory:1GiB',
                                  **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return result.out.decode().splitlines()

    def test_same_lines(self):
        plain = self.lines(preload=False)
        self.assertGreater(len(plain), 800)
        for conf in SETTINGS:
            with self.subTest(conf=conf):
                ours = self.lines(conf=conf)
                self.assertEqual('', '\n'.join(difflib.unified_diff(
                    plain, ours, 'plain', 'preloaded', n=0, lineterm='')))


if __name__ == '__main__':
    unittest.main()
