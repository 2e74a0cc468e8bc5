"""gpupool ctl: a living program does what it is asked, and says so."""
import json
import os
import pickle
import shutil
import signal
import sys
import unittest

import harness
from files import wait_for
from verbs import GPUPOOL, MIB, VerbTest

NOBODY = 65534


class Ctl(VerbTest):

    def ctl(self, proc, *args, status=0):
        pid = str(proc.pid) if hasattr(proc, 'pid') else proc
        result = self.gpupool('ctl', pid, *args)
        self.assert_ok(result, status)
        return result.out.decode() + result.err.decode()

    def test_trim(self):
        proc = self.holder()
        cached = self.device(proc).cached
        self.assertGreater(cached, 40 * MIB)
        text = self.ctl(proc, 'trim', '32MiB')
        self.assertRegex(text, r'^drv_script \(pid %d\): gave back \S+ MiB'
                         % proc.pid)
        some = self.device(proc).cached
        self.assertLess(some, cached - 30 * MIB)
        self.ctl(proc, 'trim')
        self.assertLess(self.device(proc).cached, some)
        self.assertEqual(self.device(proc).allocated, 100 * MIB)
        self.assertIn('gave back 0 B (0 bytes); nothing was cached\n',
                      self.ctl(proc, 'trim'))

    def test_limit(self):
        proc = self.holder()
        self.assertIn('200.00 MiB', self.ctl(proc, 'limit', '200MiB'))
        self.assertEqual(self.device(proc).cap, 200 * MIB)
        size = 150 * MIB
        self.assertEqual(self.step(proc, 'alloc=%d' % size),
                         'alloc %d: 2' % size)
        self.ctl(proc, 'limit', '50%')
        self.assertEqual(self.device(proc).cap, 512 * MIB)
        self.assertEqual(self.step(proc, 'alloc=%d' % size),
                         'alloc %d: 0' % size)
        self.ctl(proc, 'limit', 'unlimited')
        self.assertIsNone(self.device(proc).cap)

    def test_what_is_no_limit(self):
        proc = self.holder()
        self.assertIn('not a size: lots',
                      self.ctl(proc, 'limit', 'lots', status=1))
        for text in '0%', '200%', 'x%':
            self.assertIn(text, self.ctl(proc, 'limit', text, status=2))
        self.assertIn('size', self.ctl(proc, 'limit', status=2))
        self.assertIsNone(self.device(proc).cap)

    def test_reset_peak(self):
        proc = self.holder()
        self.assertEqual(self.device(proc).peak_allocated, 150 * MIB)
        self.ctl(proc, 'reset-peak')
        self.assertEqual(self.device(proc).peak_allocated, 100 * MIB)

    def test_report(self):
        proc = self.holder()
        text = self.ctl(proc, 'report')
        path = text.split(': ')[1].strip()
        self.assertTrue(os.path.isfile(path), text)
        with open(path) as file:
            self.assertIn('100.00 MiB', file.read())
        self.assertIn('.usr1-1.', path)

    def test_report_without_a_signal(self):
        self.assertIn('.asked-1.', self.ctl(
            self.holder(conf='report_signal:none'), 'report'))

    def test_snapshot(self):
        proc = self.holder()
        path = os.path.join(self.dir, 's.pickle')
        self.assertIn(path, self.ctl(proc, 'snapshot', '-o', path))
        with open(path, 'rb') as file:
            self.assertIn('segments', pickle.load(file))

    def test_all(self):
        procs = self.holder(), self.holder()
        result = self.gpupool('ctl', 'all', 'trim', '--json')
        self.assert_ok(result)
        answers = json.loads(result.out)['answers']
        self.assertEqual(sorted(a['pid'] for a in answers),
                         sorted(p.pid for p in procs))
        self.assertTrue(all(a['ok'] and 'gave back' in a['answer']
                            for a in answers))

    def test_nobody_to_ask(self):
        self.assertIn('no process', self.ctl('all', 'trim', status=125))
        self.assertIn('uses no GPU under gpupool',
                      self.ctl(str(os.getpid()), 'trim', status=125))
        self.assertIn('there is no process 4194305',
                      self.ctl('4194305', 'trim', status=125))
        self.assertIn('no process id', self.ctl('churn', 'trim', status=2))

    def test_one_that_has_ended(self):
        proc = self.holder()
        self.kill(proc)
        self.assertIn('process %d has ended; `gpupool report %d`'
                      % (proc.pid, proc.pid),
                      self.ctl(proc, 'trim', status=125))

    def test_what_cannot_be_given_back(self):
        """A small block holds a piece that is large."""
        proc = self.script()
        self.step(proc, 'alloc=4096')
        self.assertTrue(wait_for(lambda: any(
            p.pid == proc.pid and p.devices for p in self.processes())))
        self.assertRegex(self.ctl(proc, 'trim'),
                         r'gave back 0 B \(0 bytes\); it still caches \S+ '
                         r'MiB, beside what is in use')

    def test_words_in_another_order(self):
        self.assertIn('the process comes first: gpupool ctl 77 limit 8GiB',
                      self.ctl('limit', '77', '8GiB', status=2))
        self.assertIn('ctl 77 what? trim, limit,', self.ctl('77', status=2))

    def test_one_that_is_stopped(self):
        proc = self.holder()
        os.kill(proc.pid, signal.SIGSTOP)
        text = self.ctl(proc, 'trim', '--timeout', '0.5', status=125)
        self.assertIn('does not answer', text)
        self.assertFalse([n for n in self.names() if n.startswith('req-')])
        os.kill(proc.pid, signal.SIGCONT)
        self.assertIn('gave back', self.ctl(proc, 'trim'))

    def test_wrong_use(self):
        proc = self.holder()
        for args in (['shrink'], ['report', '8GiB'], ['trim', '-o', 'x'],
                     ['trim', '--timeout', '0'], []):
            self.ctl(proc, *args, status=2)

    @unittest.skipUnless(os.getuid() == 0, 'needs root')
    def test_another_user(self):
        """Root's process is not there for somebody else, even if that one is
        pointed to the directory."""
        python = shutil.which('python3', path='/usr/bin:/bin')
        if not python:
            self.skipTest('no python3 that others may run')
        proc = self.holder()
        os.chmod(self.dir, 0o755)
        code = ('import os, sys; os.setgid(%d); os.setuid(%d); '
                'os.execv(%r, [%r] + sys.argv[1:])'
                % (NOBODY, NOBODY, python, python))
        for verb in 'trim', 'report', 'snapshot':
            result = harness.run(
                [sys.executable, '-c', code, GPUPOOL, 'ctl', str(proc.pid),
                 verb], self.verb_env(), cwd='/')
            if b"can't open file" in result.err:
                self.skipTest('others may not read this checkout')
            self.assert_ok(result, 125)
            self.assertEqual(result.out, b'')
            self.assertRegex(result.err, b'^gpupool: ')
        self.assertGreater(self.device(proc).cached, 40 * MIB)
        self.assertTrue(wait_for(lambda: self.process(proc).responds))


if __name__ == '__main__':
    unittest.main()
