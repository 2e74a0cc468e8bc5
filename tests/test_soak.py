"""A short soak: see soak.py, and `make soak` for a long one."""
import os
import random
import signal
import unittest

import harness
import soak

SECONDS = 10


class Short(harness.CudaTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('a sanitized build is soaked by hand')

    def test_random_calls_and_kills(self):
        """Another seed each time; it is told with what went wrong."""
        seed = random.SystemRandom().getrandbits(32)
        problem = soak.soak(self.build, seed, SECONDS, say=lambda text: None)
        self.assertIsNone(problem, problem)

    def worker(self, env, **kwargs):
        """One of two rounds."""
        board = os.path.join(self.dir, 'board')
        with open(board, 'wb') as file:
            file.truncate(soak.BOARD_BYTES)
        return harness.run(
            [os.path.join(self.build.path, 'tests', 'soak'), board, '1', '1',
             '0', '2', '2'], env, 60, cwd=self.dir, **kwargs)

    def test_a_report_that_waited_over_an_exec(self):
        def wait():
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
            os.kill(os.getpid(), signal.SIGUSR1)

        self.assert_ok(self.worker(
            self.build.env(sim='memory:256MiB', conf='quiet:True',
                           SOAK_ONLY='alloc,free'), preexec_fn=wait))
        self.assertTrue([n for n in os.listdir(self.dir) if '.usr1-1.' in n])

    def test_no_room_for_a_context(self):
        result = self.worker(
            self.build.env(sim='memory:64MiB,fail:cuCtxCreate_v4@1+=2,'
                           'fail:cuDevicePrimaryCtxRetain@1+=2',
                           conf='quiet:True,backend:passthrough'))
        self.assert_ok(result)
        self.assertEqual(result.out.count(b'round'), 2)


class Judge(unittest.TestCase):
    """What is said of the long-lived worker's figures."""

    def problems(self, **last):
        usual = {'fds': 7, 'threads': 6, 'rss_kib': 60000, 'malloc_kib': 200,
                 'maps': 100}
        rounds = [dict(usual, malloc_kib=200 + 30 * i) for i in range(40)]
        for i in range(30, 40):
            rounds[i].update(last)
        return list(soak.Growth(rounds, None).problems())

    def test_growth(self):
        self.assertEqual(self.problems(), [])
        for last in ({'fds': 8}, {'threads': 7}, {'rss_kib': 100000},
                     {'malloc_kib': 9000}, {'maps': 150}):
            with self.subTest(**last):
                problem, = self.problems(**last)
                self.assertIn(list(last)[0].partition('_')[0], problem)


class Words(unittest.TestCase):

    def test_what_is_known(self):
        """Also as the last of its kind that is shown."""
        shared = (b'gpupool: memory inside a segment cannot be shared with '
                  b'other processes; expandable_segments:True allows it')
        for more, known in ((b'', True), (b'; why', False), (
                b' (further messages are not shown)', True)):
            with self.subTest(more):
                self.assertEqual(bool(soak.KNOWN.match(shared + more)), known)


class Signals(unittest.TestCase):

    def test_who_catches_them(self):
        before = signal.signal(signal.SIGUSR1, lambda *args: None)
        try:
            self.assertTrue(soak.catches(os.getpid(), signal.SIGUSR1))
            signal.signal(signal.SIGUSR1, signal.SIG_DFL)
            self.assertFalse(soak.catches(os.getpid(), signal.SIGUSR1))
        finally:
            signal.signal(signal.SIGUSR1, before)
        self.assertFalse(soak.catches(2 ** 30, signal.SIGUSR1))


class Watch(unittest.TestCase):
    """Which threads are taken to hang."""

    def test_steps(self):
        class Fake:
            now = []

            def busy(self, number):
                return self.now if number == 1 else []

            def stacks(self, number):
                return ''

        fake = Fake()
        worker = soak.Worker(fake, 1, 0)
        for when, busy in ((0, [(70, 0, 3), (70, 1, 5)]),
                           (1, [(70, 1, 6)]),  # 0 waits for it
                           (200, [(70, 0, 3), (70, 1, 7)]),
                           (399, [(71, 0, 3), (71, 1, 7)]),
                           (400, [(71, 0, 3), (71, 1, 8)])):
            fake.now = busy
            worker.watch(when)
        with self.assertRaisesRegex(soak.Failure, 'thread 0 makes no step'):
            worker.watch(399 + soak.HUNG_S + 1)


if __name__ == '__main__':
    unittest.main()
