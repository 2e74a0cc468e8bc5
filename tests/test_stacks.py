"""Call stacks in reports: which line of which program allocated."""
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

import harness

MIB = 1 << 20
PROGRAM = os.path.join(harness.ROOT, 'tests', 'programs', 'stacks.py')


def pythons():
    """Interpreters at hand, one a version: {'3.8.18': path}."""
    paths = [shutil.which('python3.%d' % minor) for minor in range(8, 20)]
    paths += sorted(glob.glob(os.path.expanduser(
        '~/.pyenv/versions/3.*/bin/python3')))
    paths += [shutil.which('python3'), '/usr/bin/python3']
    found = {}
    for path in paths:
        if not path or not os.path.exists(path):
            continue
        done = subprocess.run(
            [path, '-c', 'import sys, ctypes, asyncio; '
             'print("%d.%d.%d" % sys.version_info[:3])'],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        version = done.stdout.decode().strip()
        if done.returncode == 0 and tuple(
                map(int, version.split('.')[:2])) >= (3, 8):
            found.setdefault(version, path)
    return found


class StacksTest(harness.CudaTest):
    def report(self, kind='exit', form='json'):
        found = [n for n in self.reports()
                 if n.endswith('.%s.%s' % (kind, form))]
        self.assertEqual(len(found), 1, self.reports())
        with open(os.path.join(self.dir, found[0]), encoding='utf-8') as file:
            return json.load(file) if form == 'json' else file.read()

    def run_stacks(self, *args, conf, **kwargs):
        conf = ','.join(filter(None, ['quiet:True', conf]))
        result = self.run_program(list(args), conf=conf, **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.err, b'', str(result))
        return result


def python_frames(frames):
    return [[f['file'], f['line'], f['function']] for f in frames
            if f['line']]


class Python(StacksTest):
    """The frames that the report tells are those that Python itself tells."""

    def check(self, path):
        directory, self.dir = self.dir, os.path.join(
            self.dir, path.replace('/', '_'))
        os.mkdir(self.dir)
        result = self.run_stacks(path, PROGRAM, conf='stacks:all')
        expected = json.loads(result.out.decode())
        told = {row['bytes'] // MIB: row for row in self.report()['leaks']}
        self.assertEqual(sorted(map(int, expected)), list(range(1, 10)))
        for size, frames in expected.items():
            row = told[int(size)]
            self.assertEqual(row['note'], '')
            self.assertEqual(python_frames(row['frames'])[:64],
                             frames[:64], '%s: block %s' % (path, size))
        text = self.report(form='txt')
        self.assertIn(' in deep', text)
        self.assertIn('... and more Python frames', text)
        self.assertIn('\U0001f40d.py:1304 in lang', text)
        self.dir = directory

    def test_every_version(self):
        for version, path in pythons().items():
            with self.subTest(python=version):
                self.check(path)

    def test_a_version_to_come(self):
        """Unknown structures: asked for with the GIL, else none, and said."""
        library = self.compile(
            'liblater.so', 'const unsigned long Py_Version = 0x032a00f0;',
            '-shared', '-fPIC')
        directory = self.dir
        for version, path in pythons().items():
            if tuple(map(int, version.split('.'))) < (3, 11):
                continue  # they tell their version in another way
            if b'libpython' not in subprocess.run(
                    ['ldd', path], stdout=subprocess.PIPE).stdout:
                continue  # its own version comes first
            with self.subTest(python=version):
                self.dir = os.path.join(directory, version)
                os.mkdir(self.dir)
                result = self.run_stacks(
                    path, PROGRAM, conf='stacks:all',
                    env={'LD_PRELOAD': '%s %s' % (self.build.preload(),
                                                  library)})
                expected = json.loads(result.out.decode())
                told = {row['bytes'] // MIB: row
                        for row in self.report()['leaks']}
                self.assertEqual(python_frames(told[2]['frames']),
                                 expected['2'])
                self.assertEqual(told[2]['note'], '')
                others = [row for size, row in told.items() if size != 2]
                self.assertEqual(sum(row['bytes'] for row in others),
                                 43 * MIB)
                for row in others:
                    self.assertEqual(python_frames(row['frames']), [])
                    self.assertIn('is not known', row['note'])
        self.dir = directory

    def test_the_list_that_keeps_memory(self):
        script = os.path.join(self.dir, 'train.py')
        with open(script, 'w') as file:
            file.write('import ctypes\n'
                       'runtime = ctypes.CDLL("libcudart.so.13")\n'
                       'history = []\n'
                       '\n'
                       'def tensor(size):\n'
                       '    p = ctypes.c_void_p()\n'
                       '    if runtime.cudaMalloc(ctypes.byref(p), size):\n'
                       '        raise MemoryError\n'
                       '    return p\n'
                       '\n'
                       'def step():\n'
                       '    work = [tensor(1 << 20) for i in range(8)]\n'
                       '    history.append(tensor(3 << 20))\n'
                       '    for p in work:\n'
                       '        runtime.cudaFree(p)\n'
                       '\n'
                       'for i in range(20):\n'
                       '    step()\n')
        self.run_stacks(shutil.which('python3'), script,
                        conf='stacks:sample,sample_bytes:256KiB')
        report = self.report()
        leaks = report['leaks']
        lines = [f[1] for f in python_frames(leaks[0]['frames'])]
        self.assertEqual(lines, [7, 13, 18])
        self.assertGreater(leaks[0]['share'], 90)
        # Twelve samples in a block on average: all of them are seen.
        self.assertAlmostEqual(sum(row['bytes'] for row in leaks),
                               60 * MIB, delta=MIB)
        self.assertEqual(report['sample_bytes'], 256 << 10)

    def test_oom_by_default(self):
        script = os.path.join(self.dir, 'big.py')
        with open(script, 'w') as file:
            file.write('import ctypes\n'
                       'runtime = ctypes.CDLL("libcudart.so.13")\n'
                       'def big():\n'
                       '    p = ctypes.c_void_p()\n'
                       '    return runtime.cudaMalloc(ctypes.byref(p),\n'
                       '        ctypes.c_size_t(1 << 50))\n'
                       'assert big() == 2\n')
        self.run_stacks(shutil.which('python3'), script, conf='')
        report = self.report('oom-1')
        frames = python_frames(report['oom_stack'])
        self.assertEqual([f[2] for f in frames], ['big', '<module>'])
        self.assertIn(frames[0][1], (5, 6))
        self.assertEqual(report['oom_stack_note'], '')
        self.assertFalse(report['call_sites_kept'])
        text = self.report('oom-1', 'txt')
        self.assertIn('big.py:%d in big' % frames[0][1], text)
        self.assertIn('stacks:sample tells', text)

    def test_a_thread_without_python(self):
        """Of C, in a process that runs Python: said, and no wrong frames."""
        library = self.compile('libworker.so', '''
#include <pthread.h>
#include <stddef.h>
int cudaMalloc(void **, size_t);
static void *work(void *arg)
{
    void *p = NULL;
    return cudaMalloc(&p, 5 << 20) ? NULL : arg;
}
int start(void)
{
    pthread_t thread;
    void *done = NULL;
    pthread_create(&thread, NULL, work, &thread);
    pthread_join(thread, &done);
    return done == NULL;
}
''', '-shared', '-fPIC', '-lpthread')
        self.run_stacks(
            shutil.which('python3'), '-c',
            'import ctypes\n'
            'ctypes.CDLL("libcudart.so.13", ctypes.RTLD_GLOBAL)\n'
            'assert ctypes.CDLL("%s").start() == 0' % library,
            conf='stacks:all')
        row = self.report()['leaks'][0]
        self.assertEqual(row['bytes'], 5 * MIB)
        self.assertEqual(python_frames(row['frames']), [])
        self.assertIn('libworker.so', [os.path.basename(f['file'])
                                       for f in row['frames']])
        self.assertEqual(row['note'], 'The thread runs no Python code.')
        self.assertIn('runs no Python code', self.report(form='txt'))

    def test_off(self):
        program = self.build.program('rt_stacks')
        self.run_stacks(program, 'oom', conf='stacks:off')
        report = self.report('oom-1')
        self.assertEqual(report['oom_stack'], [])
        self.assertIn('stacks:oom', report['oom_stack_note'])


class Native(StacksTest):
    def leaks(self, *args, conf='stacks:all', **kwargs):
        self.run_stacks('rt_stacks', *args, conf=conf, **kwargs)
        return self.report()['leaks']

    def names(self, row):
        # Compilers name their clones leak_here.constprop.0.
        return [f['function'].split('.')[0] for f in row['frames']]

    def test_functions(self):
        leaks = self.leaks('leak')
        self.assertEqual(sum(row['bytes'] for row in leaks), 40 * MIB)
        self.assertEqual(sum(row['blocks'] for row in leaks), 40)
        for row in leaks:
            self.assertEqual(row['note'], '')
            self.assertEqual([n for n in self.names(row) if n in (
                'leak_here', 'leak', 'main', 'churn')],
                ['leak_here', 'leak', 'main'])
            self.assertIn('rt_stacks', [os.path.basename(f['file'])
                                        for f in row['frames']])
            self.assertNotIn('libgpupool.so',
                             [os.path.basename(f['file'])
                              for f in row['frames']])

    def test_threads(self):
        leaks = self.leaks('threads')
        self.assertEqual(sum(row['bytes'] for row in leaks), 320 * MIB)
        # One stack in all threads, but for the first ones' first call.
        self.assertGreater(leaks[0]['bytes'], 300 * MIB)

    def test_threads_sampled(self):
        leaks = self.leaks('threads', conf='stacks:sample,sample_bytes:64KiB')
        self.assertAlmostEqual(sum(row['bytes'] for row in leaks),
                               320 * MIB, delta=MIB)

    def test_fork(self):
        leaks = self.leaks('fork')
        self.assertEqual(sum(row['bytes'] for row in leaks), 80 * MIB)

    def test_signals(self):
        leaks = self.leaks('signal')
        self.assertEqual(sum(row['bytes'] for row in leaks), MIB)

    def test_oom(self):
        self.run_stacks('rt_stacks', 'oom', conf='')
        report = self.report('oom-1')
        self.assertIn('rt_stacks', [os.path.basename(f['file'])
                                    for f in report['oom_stack']])
        self.assertEqual(report['oom_stack_note'], '')

    def test_growth(self):
        self.run_stacks('rt_stacks', 'grow', conf='stacks:all')
        report = self.report()
        growing = report['growing_sites']
        self.assertEqual([row['bytes'] // MIB for row in growing], [62],
                         growing)
        # Of 63 MiB the first came another way. In about a second.
        per_hour = growing[0]['growth_bytes_per_hour']
        self.assertAlmostEqual(
            per_hour * growing[0]['growth_ns'] / 3600e9, 62 * MIB,
            delta=MIB)

    def test_growth_from_samples(self):
        """The line that leaks, and not the one that rises and falls."""
        self.run_stacks('rt_stacks', 'grow',
                        conf='stacks:sample,sample_bytes:256KiB')
        growing = self.report()['growing_sites']
        self.assertEqual(len(growing), 1, growing)
        self.assertTrue(growing[0]['frames'][0]['function']
                        .startswith('leak_here'), growing)
        grown = (growing[0]['growth_bytes_per_hour']
                 * growing[0]['growth_ns'] / 3600e9)
        self.assertGreater(grown, 62 * MIB / 3)
        self.assertLess(grown, 62 * MIB * 3)

    def test_outside_the_pool(self):
        leaks = self.leaks('leak', conf='stacks:all,backend:passthrough')
        self.assertEqual(sum(row['bytes'] for row in leaks), 40 * MIB)

    def test_with_other_settings(self):
        for conf in ('check:True', 'expandable_segments:False', 'reuse:sync',
                     'cache_policy:none', 'ring_events:False'):
            with self.subTest(conf=conf):
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))
                leaks = self.leaks('threads', conf='stacks:all,' + conf)
                self.assertEqual(sum(row['bytes'] for row in leaks),
                                 320 * MIB)

    def test_frees_during_a_capture(self):
        for conf in ('stacks:all', 'stacks:all,reuse:sync'):
            with self.subTest(conf=conf):
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))
                self.assertEqual(self.leaks('capture', conf=conf), [])

    def test_a_context_goes(self):
        """With all its blocks."""
        leaks = self.leaks('reset')
        self.assertEqual(sum(row['bytes'] for row in leaks), MIB)

    def test_nothing_is_kept_by_default(self):
        self.run_stacks('rt_stacks', 'leak', conf='')
        report = self.report()
        self.assertFalse(report['call_sites_kept'])
        self.assertEqual(report['leaks'], [])
        self.assertIsNone(re.search('rt_stacks\\+0x',
                                    self.report(form='txt')))


if __name__ == '__main__':
    unittest.main()
