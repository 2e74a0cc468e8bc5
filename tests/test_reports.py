"""Reports: at exit in every form, on the signal, at an out-of-memory; where
they go, what they hold, and that nothing else changes for the program."""
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import unittest

import harness
from files import wait_for
from harness import written

MIB = 1 << 20


class ReportTest(harness.CudaTest):

    def script(self, *steps, **kwargs):
        return self.run_program(['drv_script'] + list(steps), **kwargs)

    def read(self, name, directory=None):
        with open(os.path.join(directory or self.dir, name)) as file:
            return json.load(file) if name.endswith('.json') else file.read()

    def kinds(self, directory=None):
        """['exit', 'usr1-1', ...]; every report is there as text and JSON,
        and nothing half-written is."""
        names = self.reports(directory)
        kinds = sorted(re.fullmatch(
            r'gpupool-[\w.+-]+?-\d+\.((?:exit|(?:usr1|usr2|asked|oom)-\d+))\.txt',
            n).group(1) for n in names if n.endswith('.txt'))
        self.assertEqual(len(names), 2 * len(kinds), names)
        hidden = [n for n in os.listdir(directory or self.dir)
                  if n.startswith('.')]
        self.assertEqual(hidden, [])
        return kinds

    def the_json(self, kind):
        names = [n for n in self.reports() if n.endswith('%s.json' % kind)]
        self.assertEqual(len(names), 1, self.reports())
        return self.read(names[0])


class Exit(ReportTest):

    def test_written_and_named_on_stderr(self):
        result = self.script('pid=1', 'alloc=1048576', 'alloc=3000',
                             'free=0', 'exit=5')
        self.assert_ok(result, 5)
        pid = re.search(rb'pid: (\d+)', result.out).group(1).decode()
        base = 'gpupool-drv_script-%s.exit' % pid
        self.assertEqual(self.reports(), [base + '.json', base + '.txt'])
        lines = result.err.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], '^gpupool: ')
        self.assertIn(os.path.join(self.dir, base + '.txt'), lines[0])

        report = self.read(base + '.json')
        self.assertEqual(report['reason'], 'exit')
        self.assertEqual(report['pid'], int(pid))
        pool, = report['pools']
        self.assertEqual(pool['num_alloc_calls'], 2)
        self.assertEqual(pool['num_free_calls'], 1)
        self.assertEqual(pool['requested_bytes.all.peak'], MIB + 3000)
        self.assertEqual(pool['requested_bytes.all.current'], 3000)
        self.assertEqual(pool['allocated_bytes.all.current'], 3072)
        self.assertGreaterEqual(pool['reserved_bytes.all.current'], 3072)
        text = self.read(base + '.txt')
        self.assertIn('drv_script', text)
        self.assertIn(pid, text)

    def test_every_way_to_end(self):
        for step, status in (('exit=3', 3), ('_exit=4', 4), ('exit=0', 0)):
            with self.subTest(step):
                result = self.script('alloc=4096', step)
                self.assert_ok(result, status)
                self.assertEqual(self.kinds(), ['exit'])
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))

    def test_end_of_main(self):
        self.assert_ok(self.script('alloc=4096'))
        self.assertEqual(self.kinds(), ['exit'])

    def test_abort_is_left_alone(self):
        self.assert_ok(self.script('alloc=4096', 'abort=1'), -6)

    def test_quiet(self):
        result = self.script('alloc=4096', conf='quiet:True')
        self.assertEqual((result.status, result.err), (0, b''))
        self.assertEqual(self.kinds(), ['exit'])

    def test_disabled(self):
        result = self.script('alloc=4096', 'threads=1', conf='enabled:False')
        plain = self.script('alloc=4096', 'threads=1', preload=False)
        self.assertEqual((result.status, result.out, result.err),
                         (plain.status, plain.out, plain.err))
        self.assertEqual(self.reports(), [])

    def test_no_gpu_memory_no_report(self):
        result = self.script('sleep=1')
        self.assertEqual((result.status, result.err), (0, b''))
        self.assertEqual(self.reports(), [])

    def test_passthrough_counts(self):
        self.assert_ok(self.script('alloc=1048576', 'alloc=5000', 'free=0',
                                   conf='backend:passthrough'))
        report = self.the_json('exit')
        self.assertEqual(report['passthrough.plain.count.allocated'], 2)
        self.assertEqual(report['passthrough.plain.bytes.peak'], MIB + 5000)
        self.assertEqual(report['passthrough.plain.bytes.current'], 5000)
        self.assertEqual(sum(p['num_alloc_calls'] for p in report['pools']),
                         0)

    def test_text_and_json_agree(self):
        self.assert_ok(self.script('alloc=%d' % (37 * MIB), 'alloc=5000'))
        report = self.the_json('exit')
        text = self.read([n for n in self.reports()
                          if n.endswith('txt')][0])
        peak = report['peak_reserved_bytes']
        self.assertGreaterEqual(peak, 37 * MIB + 5000)
        self.assertIn('%.2f MiB' % (peak / MIB), text)


class Where(ReportTest):

    def test_report_dir(self):
        place = os.path.join(self.dir, 'reports')
        os.mkdir(place)
        result = self.script('alloc=4096', conf='report_dir:' + place)
        self.assertEqual(self.kinds(place), ['exit'])
        self.assertEqual(self.reports(), [])
        self.assertIn(place.encode(), result.err)

    def test_report_dir_with_blanks(self):
        place = os.path.join(self.dir, 'my reports, "here"')
        os.mkdir(place)
        quoted = place.replace('"', '\\"')
        self.assert_ok(self.script(
            'alloc=4096', conf='report_dir:"%s",quiet:True' % quoted))
        self.assertEqual(self.kinds(place), ['exit'])

    def test_where_the_program_was_started(self):
        result = self.script('chdir=/', 'alloc=4096', 'chdir=/tmp')
        self.assert_ok(result)
        self.assertEqual(self.kinds(), ['exit'])

    def test_awkward_program_name(self):
        path = os.path.join(self.dir, 'my prog-1.2 (x)')
        shutil.copy(self.build.program('drv_script'), path)
        self.assert_ok(self.run_program([path, 'alloc=4096']))
        self.assertEqual(self.kinds(), ['exit'])
        self.assertIn('my prog-1.2 (x)', self.the_json('exit')['exe'])

    def test_directory_that_cannot_be_written(self):
        """One line says which file, and which setting; the program's own
        result stands."""
        for bad in '/proc/self', '/no/such/directory', '/dev/null':
            with self.subTest(bad):
                result = self.script('alloc=4096', 'exit=9',
                                     conf='report_dir:' + bad)
                self.assert_ok(result, 9)
                lines = result.err.decode().splitlines()
                self.assertEqual(len(lines), 1, lines)
                self.assertRegex(lines[0], '^gpupool: .*' + bad)
                self.assertIn('report_dir', lines[0])
                self.assertEqual(self.reports(), [])

    @unittest.skipUnless(os.getuid() == 0, 'needs root to become nobody')
    def test_read_only_directory(self):
        place = os.path.join(self.dir, 'read-only')
        os.mkdir(place, 0o555)
        runtime = os.path.join(self.dir, 'runtime')
        os.mkdir(runtime, 0o700)
        os.chown(runtime, 65534, 65534)

        def become_nobody():
            os.setgid(65534)
            os.setuid(65534)

        os.chmod(self.dir, 0o755)
        result = self.script('alloc=4096', 'exit=2', cwd=place,
                             env={'XDG_RUNTIME_DIR': runtime},
                             preexec_fn=become_nobody)
        if b'Permission denied' not in result.err:
            self.skipTest('the build is not readable for nobody: %s' % result)
        self.assert_ok(result, 2)
        self.assertIn(b'report_dir', result.err)
        self.assertEqual(os.listdir(place), [])

    def test_closed_stderr(self):
        result = self.script('close=2', 'alloc=4096', 'oom=1000000000000',
                             'exit=7')
        self.assert_ok(result, 7)
        self.assertEqual(result.err, b'')
        self.assertEqual(self.kinds(), ['exit', 'oom-1'])


class Signal(ReportTest):

    def test_report_and_the_program_goes_on(self):
        result = self.script('alloc=4096', 'raise=USR1', *written('usr1-1'),
                             'alloc=8192', 'raise=USR1', *written('usr1-2'),
                             'free=0', 'exit=4')
        self.assert_ok(result, 4)
        self.assertEqual(self.kinds(), ['exit', 'usr1-1', 'usr1-2'])
        self.assertEqual(self.the_json('usr1-1')['reason'], 'signal')
        counts = [self.the_json(k)['pools'][0]['num_alloc_calls']
                  for k in ('usr1-1', 'usr1-2', 'exit')]
        self.assertEqual(counts, [1, 2, 2])

    def test_sleeping_program_is_not_woken(self):
        """sleep= restarts, but a program's read must not fail with EINTR
        either: SA_RESTART."""
        path = self.compile('reader', '''
            #include <cuda.h>
            #include <stdio.h>
            #include <unistd.h>
            int main(void)
            {
                CUdeviceptr p; CUcontext c; char byte;
                cuInit(0); cuDevicePrimaryCtxRetain(&c, 0);
                cuCtxSetCurrent(c); cuMemAlloc(&p, 4096);
                puts("ready"); fflush(stdout);
                long n = read(0, &byte, 1);
                printf("read: %ld\\n", n);
                return 0;
            }''', '-I/usr/local/cuda/include', '-L' + self.build.sim,
                            '-lcuda', *self.sanitizer_flags())
        proc = subprocess.Popen([path], env=self.build.env(), cwd=self.dir,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE,
                                start_new_session=True)
        self.addCleanup(harness.kill_group, proc)
        self.assertEqual(proc.stdout.readline(), b'ready\n')
        proc.send_signal(signal.SIGUSR1)
        self.assertTrue(wait_for(lambda: len(self.reports()) == 2))
        out, _ = proc.communicate(b'x', timeout=harness.LIMIT_S)
        self.assertEqual(out, b'read: 1\n')
        self.assertEqual(self.kinds(), ['exit', 'usr1-1'])

    def sanitizer_flags(self):
        return ['-fsanitize=' + self.build.san] if self.build.san else []

    def test_earlier_handler_is_chained(self):
        for kind in 'plain', 'info', 'mask':
            with self.subTest(kind):
                result = self.script('handler=' + kind, 'alloc=4096',
                                     'raise=USR1', *written('usr1-1'),
                                     'handled=1')
                self.assert_ok(result)
                self.assertIn(b'handled: 1, wrongly 0', result.out)
                self.assertEqual(self.kinds(), ['exit', 'usr1-1'])
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))

    def test_later_handler_wins(self):
        result = self.script('alloc=4096', 'handler=plain', 'raise=USR1',
                             'ticks=2', 'handled=1')
        self.assertIn(b'handled: 1, wrongly 0', result.out)
        self.assertEqual(self.kinds(), ['exit'])

    def test_ignored_stays_ignored(self):
        result = self.script('handler=ignore', 'alloc=4096', 'raise=USR1',
                             'ticks=2', 'exit=3')
        self.assert_ok(result, 3)
        self.assertEqual(self.kinds(), ['exit'])

    def test_before_the_first_allocation_nothing_is_ours(self):
        for preload in False, True:
            self.assert_ok(self.script('raise=USR1', 'alloc=4096',
                                       preload=preload), -10)

    def test_other_signal(self):
        result = self.script('alloc=4096', 'raise=USR2', *written('usr2-1'),
                             conf='report_signal:SIGUSR2')
        self.assert_ok(result)
        self.assertEqual(self.kinds(), ['exit', 'usr2-1'])
        self.assert_ok(self.script('alloc=4096', 'raise=USR1',
                                   conf='report_signal:SIGUSR2'), -10)

    def test_no_signal(self):
        self.assert_ok(self.script('alloc=4096', 'raise=USR1',
                                   conf='report_signal:none'), -10)


class OutOfMemory(ReportTest):

    def test_report_and_the_right_error(self):
        result = self.script('alloc=%d' % (100 * MIB),
                             'oom=%d' % (2000 * MIB), 'alloc=4096',
                             sim='memory:1GiB')
        self.assert_ok(result)
        self.assertIn(b'oom %d: 2\n' % (2000 * MIB), result.out)
        self.assertIn(b'alloc 4096: 0\n', result.out)
        self.assertEqual(self.kinds(), ['exit', 'oom-1'])
        report = self.the_json('oom-1')
        self.assertEqual(report['reason'], 'oom')
        self.assertEqual(report['oom_bytes'], 2000 * MIB)
        self.assertEqual(report['oom_allocated_bytes'], 100 * MIB)
        self.assertEqual(self.the_json('exit')['num_ooms'], 1)

    def test_many_make_few_reports(self):
        """A program that probes for the largest size asks thousands of
        times."""
        steps = ['alloc=4096'] + ['oom=%d' % (2000 * MIB)] * 200
        result = self.script(*steps, sim='memory:1GiB')
        self.assert_ok(result)
        self.assertEqual(result.out.count(b': 2\n'), 200)
        kinds = [k for k in self.kinds() if k.startswith('oom')]
        self.assertTrue(1 <= len(kinds) <= 20, kinds)
        self.assertLess(len(result.err.splitlines()), 120)
        self.assertEqual(self.the_json('exit')['num_ooms'], 200)


class Forks(ReportTest):

    def test_children_are_inert(self):
        result = self.script('alloc=4096', 'fork=exit', 'fork=_exit',
                             'fork=free', 'fork=exec', 'vfork=1', 'free=0',
                             'alloc=8192')
        self.assert_ok(result)
        for line in (b'child exit: exit 5', b'child _exit: exit 6',
                     b'child free: exit 7', b'child exec: exit 0',
                     b'child vfork: exit 8', b'free: 0', b'alloc 8192: 0'):
            self.assertIn(line, result.out)
        self.assertEqual(self.kinds(), ['exit'])
        self.assertEqual(len(result.err.splitlines()), 1, str(result))
        self.assertEqual(self.the_json('exit')['pools'][0]['num_free_calls'],
                         1)

    def test_child_of_a_cold_parent_starts_by_itself(self):
        """fork first, CUDA later, as data loaders and launchers do."""
        result = self.run_program(
            ['/bin/sh', '-c', '"$0" alloc=4096 & "$0" alloc=8192; wait',
             self.build.program('drv_script')])
        self.assert_ok(result)
        self.assertEqual(self.kinds(), ['exit', 'exit'])


class Settings(ReportTest):

    def test_mistakes_cost_one_line_each(self):
        result = self.script('alloc=4096', conf='quiet:True,nonsense:1,'
                             'backend:fast,repot_dir:/tmp')
        self.assert_ok(result)
        lines = result.err.decode().splitlines()
        self.assertEqual(len(lines), 3, lines)
        for line, word in zip(lines, ('nonsense', 'backend', 'report_dir')):
            self.assertRegex(line, '^gpupool: ')
            self.assertIn(word, line)
        self.assertEqual(self.kinds(), ['exit'])
        self.assertEqual(len(self.the_json('exit')['notes']), 3)

    def test_a_directory_is_shown_as_it_is(self):
        """Quotes belong to GPUPOOL_CONF, not to the directory."""
        place = os.path.join(self.dir, 'my "logs", 1')
        os.mkdir(place)
        self.script('alloc=4096', conf='report_dir:"%s"'
                    % place.replace('"', '\\"'))
        json_name, text_name = self.reports(place)
        settings = {s['key']: s['value'] for s in
                    self.read(json_name, place)['settings']}
        self.assertEqual(settings['report_dir'], place)
        # The line may be broken anywhere in it.
        self.assertIn(''.join(place.split()),
                      ''.join(self.read(text_name, place).split()))
        self.script('alloc=4096')
        settings = {s['key']: s['value'] for s in
                    self.the_json('exit')['settings']}
        self.assertEqual(settings['report_dir'], '')


class Trace(ReportTest):
    """What `gpupool record` asks of the library."""

    def test_lines(self):
        path = os.path.join(self.dir, 'trace.csv')
        self.assert_ok(self.script('alloc=4096', 'alloc=1048576', 'free=0',
                                   env={'GPUPOOL_TRACE': path}))
        with open(path) as file:
            lines = [line.split(',') for line in file.read().splitlines()]
        self.assertEqual(lines[0], 'op,id,size,stream,t_us'.split(','))
        self.assertEqual([(l[0], l[2]) for l in lines[1:] if l[0] in 'af'],
                         [('a', '4096'), ('a', '1048576'),
                          ('f', lines[3][2])])
        self.assertEqual(lines[1][1], lines[3][1])
        self.assertNotEqual(lines[1][1], lines[2][1])

    def test_a_limit_of_file_size_is_no_signal(self):
        """What the program never writes cannot end it."""
        path = os.path.join(self.dir, 'trace.csv')
        proof = os.path.join(self.dir, 'proof')
        open(proof, 'w').close()
        for most in 0, 16:
            result = self.script(
                'alloc=4096', 'free=0', 'exit=3',
                conf='backend:passthrough',
                env={'GPUPOOL_TRACE': path, 'GPUPOOL_PROOF': proof},
                preexec_fn=lambda: resource.setrlimit(
                    resource.RLIMIT_FSIZE, (most, most)))
            self.assert_ok(result, 3)
            self.assertIn(b'trace: File too large; the trace ends here',
                          result.err)
            self.assertEqual(os.path.getsize(path), most)


if __name__ == '__main__':
    unittest.main()
