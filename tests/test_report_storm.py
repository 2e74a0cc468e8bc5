"""Reports when things go badly: signals by the hundred, a driver that hangs."""
import json
import os
import re
import signal
import subprocess
import time
import unittest

import harness

MIB = 1 << 20
# About a thousand a second.
SIGNALS = 5 * int(os.environ.get('GPUPOOL_TEST_KILLS', '40'))


def wait_for(what, seconds=120):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = what()
        if found:
            return found
        time.sleep(0.02)
    return what()


class Storm(harness.CudaTest):

    def whole(self):
        """Every report ends as it should; the number of each kind."""
        kinds = {}
        for name in self.reports():
            with open(os.path.join(self.dir, name)) as file:
                text = file.read()
            self.assertTrue(text.endswith('\n'), name)
            if name.endswith('.json'):
                json.loads(text)
            kind = re.search(r'\.([a-z0-9+]+)(-\d+)?\.(txt|json)$',
                             name).group(1)
            kinds[kind] = kinds.get(kind, 0) + 1
        hidden = [n for n in os.listdir(self.dir) if n.startswith('.')]
        self.assertEqual(hidden, [])
        return kinds

    def storm(self, conf, signal):
        result = self.run_program(['drv_storm', str(SIGNALS)], conf=conf)
        self.assert_ok(result)
        self.assertIn(b'queued %d of %d, usual some, failures 0' % (
            SIGNALS, SIGNALS), result.out)
        kinds = self.whole()
        self.assertEqual(kinds['exit'], 2)
        self.assertGreaterEqual(kinds[signal], 2)
        return kinds

    def test_handled_by_both(self):
        """The program has a handler of its own for the report's signal."""
        self.storm('quiet:True', 'usr1')

    def test_none_is_lost(self):
        """The report's signal is one of which each is delivered: the
        program's handler gets all of them."""
        self.storm('quiet:True,report_signal:SIGRTMIN+3', 'rtmin+3')


class Hang(harness.CudaTest):
    """A call of the driver never returns; nor does any other after it."""

    def start(self, steps, sim, conf='quiet:True'):
        proc = subprocess.Popen(
            [self.build.program('drv_script')] + steps,
            env=self.build.env(True, conf, sim), cwd=self.dir,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(proc.stdout.close)
        self.addCleanup(harness.kill_group, proc)
        return proc

    def files(self, kind):
        return [n for n in self.reports() if kind in n and
                n.endswith('.json')]

    def report(self, kind):
        names = wait_for(lambda: self.files(kind))
        self.assertTrue(names, 'no report %s in time' % kind)
        with open(os.path.join(self.dir, names[0])) as file:
            return json.load(file)

    def hangs(self, proc):
        """It got so far as to wait in the call that hangs."""
        self.assertEqual(proc.stdout.readline(), b'alloc 4096: 0\n')
        time.sleep(0.5)

    def test_report_on_the_signal(self):
        for call in ('cuMemCreate@2', 'cuMemSetAccess@2'):
            with self.subTest(call):
                proc = self.start(['alloc=4096', 'alloc=%d' % (64 * MIB)],
                                  'hang:' + call)
                self.hangs(proc)
                proc.send_signal(signal.SIGUSR1)
                report = self.report('usr1-1')
                self.assertTrue(any('hang' in note
                                    for note in report['notes']), report)
                self.assertIsNone(report['pools'][0].get('free_bytes'))
                self.assertEqual(report['pools'][0]['num_alloc_calls'], 1)
                # And the next one.
                proc.send_signal(signal.SIGUSR1)
                self.report('usr1-2')
                self.assertIsNone(proc.poll())
                harness.kill_group(proc)
                proc.wait()
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))

    def test_the_end_is_not_held_up(self):
        """Another thread's call hangs; the program ends all the same."""
        path = self.compile('leaver', '''
            #include <cuda.h>
            #include <pthread.h>
            #include <stdio.h>
            #include <stdlib.h>
            #include <unistd.h>
            static CUcontext c;
            static void *hang(void *arg)
            {
                CUdeviceptr p;
                cuCtxSetCurrent(c); cuMemAlloc(&p, 64 << 20);
                return arg;
            }
            int main(void)
            {
                pthread_t t; CUdeviceptr p;
                cuInit(0); cuDevicePrimaryCtxRetain(&c, 0);
                cuCtxSetCurrent(c); cuMemAlloc(&p, 4096);
                pthread_create(&t, NULL, hang, NULL);
                usleep(300000);
                _exit(5);
            }''', '-I/usr/local/cuda/include', '-L' + self.build.sim,
                            '-lcuda', '-pthread',
                            *(['-fsanitize=' + self.build.san]
                              if self.build.san else []))
        result = self.run_program([path], conf='quiet:True',
                                  sim='hang:cuMemCreate@2')
        self.assert_ok(result, 5)
        self.assertEqual(len(self.files('exit')), 1)


if __name__ == '__main__':
    unittest.main()
