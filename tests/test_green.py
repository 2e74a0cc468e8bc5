"""Green contexts: the pool of the primary one follows their work, and sees them
come and go."""
import unittest

import harness

AGAIN = 'again: 1\nword: 9\n'


class Green(harness.CudaTest):

    def run_green(self, what, conf='', sim=''):
        result = self.run_program(
            ['drv_green', what], conf='quiet:True' + conf,
            sim=','.join(filter(None, ('context:1MiB', sim))))
        if result.status == 77:
            self.skipTest('the headers know no green contexts')
        self.assert_ok(result)
        return result.out.decode()

    def test_streams(self):
        """Memory is used again behind their work."""
        self.assertEqual(self.run_green('streams'), AGAIN)

    def test_default_stream(self):
        """Nobody else can name it: frees wait for it, and for what memory had
        before its first work."""
        for what in 'default', 'first':
            with self.subTest(what=what):
                self.assertEqual(self.run_green(what), AGAIN)

    def test_many(self):
        self.assertEqual(self.run_green('many'), AGAIN)

    def test_not_to_be_known(self):
        """Not all work is seen then."""
        self.assertEqual(
            self.run_green('default', sim='fail:cuCtxFromGreenCtx@1'), AGAIN)

    def test_context_not_to_be_known(self):
        """Nor is the work of a stream whose context is not told."""
        for call in 1, 2:
            with self.subTest(call=call):
                self.assertEqual(
                    self.run_green('streams',
                                   sim='fail:cuStreamGetCtx@%d' % call),
                    AGAIN)

    def test_left_behind(self):
        """No call takes a stream of one that was destroyed: its work counts,
        but it is in no mark, which could not be made then."""
        self.assertEqual(self.run_green('left'),
                         'again: 1\nwaits: 0\nword: 9\n')

    def test_left_in_a_capture(self):
        self.assertEqual(self.run_green('capture', conf=',reuse:sync'),
                         'waits: 1\n')

    def test_not_to_be_destroyed(self):
        """What the driver refuses has not happened: the capture is still one
        that no free may wait through."""
        for conf in '', ',reuse:sync':
            with self.subTest(conf=conf):
                self.assertEqual(
                    self.run_green('refused', conf=conf,
                                   sim='fail:cuGreenCtxDestroy@1'),
                    'destroy: 999\nend: 0\n')

    def test_the_last_one(self):
        """It releases the primary context, which goes with all that it has."""
        self.assertEqual(
            self.run_green('last', conf=',memory_limit:20MiB'),
            'managed: 0\n' + AGAIN + 'waits: 0\ngone: 709\nmanaged: 0\n'
            'waits: 0\nby the driver: 0\n')

    def test_another_has_its_handle(self):
        self.assertEqual(self.run_green('handle', sim='contexts_return:1'),
                         'same handle: 1\nby the driver: 0\n')

    def test_the_first_one(self):
        """It makes the primary context, which counts for the limit."""
        self.assertEqual(self.run_green('makes', conf=',memory_limit:12MiB'),
                         'managed: 2\n')


if __name__ == '__main__':
    unittest.main()
