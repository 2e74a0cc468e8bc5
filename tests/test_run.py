"""gpupool run: finds the library from anywhere, proves that it is mapped,
passes signals on, and ends as the program ends."""
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest

import harness
from files import wait_for

GPUPOOL = os.path.join(harness.ROOT, 'scripts', 'gpupool')

# Counts the signals that it gets, and ends on a line of input.
COUNTER = '''
import os, signal, sys
counts = {}
def count(number, frame):
    name = signal.Signals(number).name
    counts[name] = counts.get(name, 0) + 1
    print("got", name, flush=True)
for name in "HUP INT QUIT TERM USR1 USR2 CONT WINCH".split():
    signal.signal(getattr(signal, "SIG" + name), count)
print("ready", os.getpid(), flush=True)
sys.stdin.readline()
print(" ".join("%s=%d" % pair for pair in sorted(counts.items())))
'''


class RunTest(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.runtime = os.path.join(self.dir, 'run')
        os.mkdir(self.runtime, 0o700)

    def env(self, **more):
        env = self.build.env(preload=False)
        del env['LD_LIBRARY_PATH']
        env['XDG_RUNTIME_DIR'] = self.runtime
        if self.build.sanitizer_runtime():
            env['LD_PRELOAD'] = self.build.sanitizer_runtime()
        env.update(more)
        return env

    def argv(self, *args, lib=None, script=GPUPOOL, action='run'):
        argv = [sys.executable, script, action]
        if lib is not False:
            argv += ['--lib', lib or self.build.lib]
        return argv + list(args)

    def gpupool(self, *args, env=None, cwd=None, lib=None, script=GPUPOOL,
                action='run', **kwargs):
        return harness.run(self.argv(*args, lib=lib, script=script,
                                     action=action),
                           env or self.env(), cwd=cwd or self.dir, **kwargs)

    def start(self, *args):
        """A program that counts signals; the Popen and the program's pid. In
        a process group of its own, but in our session: the kernel lets no
        orphaned group be stopped."""
        proc = subprocess.Popen(
            self.argv('--', sys.executable, '-c', COUNTER, *args),
            env=self.env(), cwd=self.dir, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            preexec_fn=os.setpgrp)
        self.addCleanup(harness.kill_group, proc)
        ready = proc.stdout.readline().split()
        self.assertEqual(ready[:1], [b'ready'])
        return proc, int(ready[1])


class Status(RunTest):

    def test_exit_status(self):
        for status in 0, 1, 42, 255:
            result = self.gpupool('--', 'sh', '-c', 'exit %d' % status)
            self.assert_ok(result, status)
            self.assertEqual(result.err, b'')

    def test_death_by_signal(self):
        for number in signal.SIGTERM, signal.SIGKILL, signal.SIGALRM:
            result = self.gpupool('--', 'sh', '-c',
                                  'kill -%d $$' % number)
            self.assert_ok(result, -number)

    def test_killed_with_memory(self):
        """Where to read what it held."""
        result = self.gpupool('--sim', '--', self.build.program('drv_script'),
                              'alloc=4096', 'sleep=500', 'raise=9')
        self.assert_ok(result, -9)
        match = re.search(r'signal 9; `gpupool report (\d+)`',
                          result.err.decode())
        self.assertTrue(match, str(result))
        result = harness.run([sys.executable, GPUPOOL, 'report',
                              match.group(1)], self.env(), cwd=self.dir)
        self.assert_ok(result)
        self.assertIn(b'4.00 KiB', result.out)

    def test_output_and_input_are_the_programs(self):
        with open('/proc/filesystems', 'rb') as file:
            text = file.read()
            file.seek(0)
            result = harness.run(self.argv('--', 'cat'), self.env(),
                                 stdin=file)
        self.assertEqual(result.out, text)
        result = self.gpupool('--', 'sh', '-c', 'echo out; echo err >&2')
        self.assertEqual((result.out, result.err), (b'out\n', b'err\n'))

    def test_the_dashes_may_be_left_out(self):
        result = self.gpupool('sh', '-c', 'echo "$0 $1"', '--sim', '--')
        self.assertEqual(result.out, b'--sim --\n')

    def test_what_is_closed_stays_closed(self):
        """And is no reason to fail, for us or in place of the program."""
        look = ('import os\n'
                'for fd in 0, 1, 2:\n'
                '    try:\n'
                '        os.fstat(fd)\n'
                '    except OSError:\n'
                '        os._exit(10 + fd)\n'
                'os._exit(3)\n')
        for fd in 0, 1, 2:
            with self.subTest(fd):
                result = self.gpupool('--', sys.executable, '-c', look,
                                      preexec_fn=lambda: os.close(fd))
                self.assert_ok(result, 10 + fd)
                self.assertEqual((result.out, result.err), (b'', b''))

    def test_no_room_for_our_output(self):
        for close, why in ((True, b'Bad file descriptor'),
                           (False, b'No space left on device')):
            with self.subTest(why):
                result = self.gpupool(
                    lib=False, action='options',
                    preexec_fn=(lambda: os.close(1)) if close else
                    (lambda: os.dup2(os.open('/dev/full', os.O_WRONLY), 1)))
                self.assert_ok(result, 1)
                self.assertEqual(result.err, b'gpupool: cannot write the '
                                 b'output: ' + why + b'\n')

    def test_no_place_for_our_messages(self):
        result = self.gpupool(action='rnu', preexec_fn=lambda: os.close(2))
        self.assert_ok(result, 2)
        self.assertEqual(result.out, b'')

    def test_missing_command(self):
        for name in 'no-such-command-here', './no-such-file':
            result = self.gpupool('--', name)
            self.assert_ok(result, 127)
            self.assertRegex(result.err.decode(), '^gpupool: .*' + name)

    def test_not_executable(self):
        path = os.path.join(self.dir, 'text')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\n')
        for name in path, self.dir:
            result = self.gpupool('--', name)
            self.assert_ok(result, 126)
            self.assertIn(b'gpupool: ', result.err)

    def test_missing_interpreter(self):
        path = os.path.join(self.dir, 'script')
        with open(path, 'w') as file:
            file.write('#!/no/such/interpreter\n')
        os.chmod(path, 0o755)
        self.assert_ok(self.gpupool('--', path), 127)

    def test_script_without_a_first_line(self):
        """Executed by sh, as a shell would."""
        path = os.path.join(self.dir, 'script')
        with open(path, 'w') as file:
            file.write('echo "$1"; exit 4\n')
        os.chmod(path, 0o755)
        result = self.gpupool('--', path, 'a b')
        self.assert_ok(result, 4)
        self.assertEqual(result.out, b'a b\n')

    def test_wrong_use(self):
        self.assert_ok(self.gpupool(), 2)
        self.assert_ok(self.gpupool('--'), 2)
        self.assert_ok(self.gpupool('--no-such-option', '--', 'true'), 2)
        self.assert_ok(harness.run([sys.executable, GPUPOOL], self.env()), 2)

    def test_no_such_command(self):
        result = self.gpupool(action='rnu')
        self.assert_ok(result, 2)
        self.assertIn(b'there is no command rnu; the nearest is run',
                      result.err)
        self.assertLessEqual(max(map(len, result.err.splitlines())), 80)
        # What is asked of a process.
        result = harness.run([sys.executable, GPUPOOL, 'trim', '1'],
                             self.env())
        self.assert_ok(result, 2)
        self.assertIn(b'gpupool ctl PID trim', result.err)

    def test_options_before_the_command(self):
        result = harness.run([sys.executable, GPUPOOL, '--limit', '8GiB',
                              'run', '--', 'true'], self.env())
        self.assert_ok(result, 2)
        self.assertIn(b'options come behind the command: gpupool run --limit',
                      result.err)

    def test_a_stray_word_before_the_dashes(self):
        result = self.gpupool('--limit', '8', 'GiB', '--', 'true')
        self.assert_ok(result, 127)
        self.assertIn(b'taken for the program', result.err)

    def test_help_fits_a_terminal(self):
        for args in ['--help'], ['run', '--help'], ['record', '--help']:
            result = harness.run([sys.executable, GPUPOOL] + args,
                                 self.env(COLUMNS='80'))
            self.assert_ok(result)
            self.assertLessEqual(max(map(len, result.out.splitlines())), 80)


class Preload(RunTest):

    def test_mapped_by_absolute_path(self):
        relative = os.path.relpath(self.build.lib, self.dir)
        result = self.gpupool('--', 'sh', '-c',
                              'echo $LD_PRELOAD; cd /; '
                              'grep -c libgpupool.so /proc/self/maps',
                              lib=relative)
        self.assert_ok(result)
        preload, count = result.out.decode().splitlines()
        self.assertEqual(preload.split()[-1], self.build.lib)
        self.assertGreater(int(count), 0)

    def test_awkward_directories(self):
        """The linker splits its variables at blanks and colons, and knows no
        quoting. A checkout may lie in such a place all the same."""
        for name in 'with space', 'a:b', 'so;me', 'dollar $LIB', "quo'te\"":
            with self.subTest(name):
                place = os.path.join(self.dir, name)
                shutil.copytree(os.path.join(harness.ROOT, 'scripts'),
                                os.path.join(place, 'scripts'))
                build = os.path.join(place, 'build')
                os.mkdir(build)
                shutil.copy(self.build.lib, build)
                shutil.copytree(self.build.sim, os.path.join(build, 'sim'),
                                symlinks=True)
                reports = os.path.join(place, 'reports, here')
                result = self.gpupool(
                    '--sim', '--report', reports, '--',
                    self.build.program('drv_script'), 'alloc=4096', 'exit=3',
                    lib=False, cwd='/',
                    script=os.path.join(place, 'scripts', 'gpupool'))
                self.assert_ok(result, 3)
                self.assertIn(b'alloc 4096: 0', result.out)
                self.assertEqual(len(self.reports(reports)), 2)

    def test_existing_preload_is_kept(self):
        result = self.gpupool(
            '--', 'sh', '-c', 'echo $LD_PRELOAD',
            env=self.env(LD_PRELOAD=(self.build.sanitizer_runtime()
                                     + ' libm.so.6').strip()))
        self.assertEqual(result.out.decode().split()[-2:],
                         ['libm.so.6', self.build.lib])
        # and our own is not added twice
        result = self.gpupool('--', 'sh', '-c', 'echo $LD_PRELOAD',
                              env=self.env(LD_PRELOAD=self.build.preload()))
        self.assertEqual(result.out.decode().count('libgpupool'), 1)

    def test_settings_are_joined(self):
        result = self.gpupool('--conf', 'check:True', '--conf', 'quiet:True,',
                              '--report', 'there', '--', 'sh', '-c',
                              'echo $GPUPOOL_CONF',
                              env=self.env(GPUPOOL_CONF='quiet:False'))
        self.assertEqual(result.out.decode().strip(),
                         'quiet:False,check:True,quiet:True,report_dir:'
                         + os.path.join(self.dir, 'there'))

    def test_limit(self):
        for text, setting in (('8GiB', 'memory_limit:8GiB'),
                              ('50%', 'per_process_memory_fraction:0.5')):
            result = self.gpupool('--limit', text, '--', 'sh', '-c',
                                  'echo $GPUPOOL_CONF')
            self.assertEqual(result.out.decode().strip(), setting,
                             str(result))
        for text in ('0%', '101%', '%', 'x%', '1GiB,quiet:True', '[0:1GiB]',
                     '8', '0.5'):
            result = self.gpupool('--limit', text, '--', 'true')
            self.assert_ok(result, 2)
            self.assertIn(b'--limit', result.err)
        # What a size may be the library knows.
        result = self.gpupool('--limit', 'lots', '--', 'true')
        self.assert_ok(result, 125)
        self.assertIn(b'memory_limit', result.err)

    def test_uncached(self):
        result = self.gpupool('--uncached', '--', 'sh', '-c',
                              'echo $PYTORCH_NO_CUDA_MEMORY_CACHING')
        self.assertEqual(result.out, b'1\n')
        self.assertIn(b'import gpupool', result.err)

    @unittest.skipIf(os.path.exists('/dev/nvidiactl'), 'there is a card here')
    def test_no_card(self):
        """One line says so, if the program wants one."""
        churn = os.path.join(self.build.path, 'examples', 'churn')
        result = self.gpupool('--', churn)
        self.assertNotEqual(result.status, 0)
        self.assertIn(b'--sim', result.err)
        result = self.gpupool('--sim', '--', churn, '--ops', '100')
        self.assert_ok(result)
        self.assertNotIn(b'--sim', result.err)
        # A script by what it has loaded.
        path = os.path.join(self.build.sim, 'libcudart.so.13')
        result = harness.patiently(
            lambda seconds: self.gpupool(
                '--', sys.executable, '-c', 'import ctypes, time; '
                'ctypes.CDLL(%r); time.sleep(%f)' % (path, seconds),
                env=self.env(LD_LIBRARY_PATH='/nowhere')),
            lambda result: b'--sim' in result.err)
        self.assertIn(b'--sim', result.err)

    def test_library_missing(self):
        result = self.gpupool('--', 'true', lib='/no/such/lib.so')
        self.assert_ok(result, 125)
        self.assertIn(b'/no/such/lib.so', result.err)

    def test_library_that_cannot_be_loaded(self):
        """The linker says a word and goes on without it; we do not."""
        path = os.path.join(self.dir, 'libgpupool.so')
        with open(path, 'w') as file:
            file.write('not a library')
        result = self.gpupool('--', 'sleep', '250', lib=path)
        self.assert_ok(result, 125)
        self.assertIn(b'runs without gpupool', result.err)

    def test_static_program(self):
        path = os.path.join(self.dir, 'static')
        made = subprocess.run(['cc', '-static', '-x', 'c', '-', '-o', path],
                              input=b'int main(void) { return 0; }',
                              stderr=subprocess.DEVNULL)
        if made.returncode:
            self.skipTest('no static C library here')
        result = self.gpupool('--', path)
        self.assert_ok(result, 125)
        self.assertIn(b'statically linked', result.err)

    def test_other_architecture(self):
        path = os.path.join(self.dir, 'foreign')
        with open('/bin/true', 'rb') as file:
            image = bytearray(file.read())
        struct.pack_into('<H', image, 18, 40)  # arm
        with open(path, 'wb') as file:
            file.write(image)
        os.chmod(path, 0o755)
        result = self.gpupool('--', path)
        self.assert_ok(result, 125)
        self.assertIn(b'arm program', result.err)

    @unittest.skipUnless(os.getuid() == 0, 'needs root')
    def test_setuid_program(self):
        path = os.path.join(self.dir, 'raised')
        shutil.copy(shutil.which('true'), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        result = self.gpupool('--', path)
        self.assert_ok(result, 125)
        self.assertIn(b'privileges', result.err)

    @unittest.skipUnless(os.getuid() == 0, 'needs root')
    def test_runtime_directory_of_somebody_else(self):
        """Links are not made where others could change them."""
        bad = os.path.join(self.runtime, 'gpupool')
        for mode, owner, says in ((0o777, 0, b'0700'),
                                  (0o700, 65534, b'belongs to ')):
            os.mkdir(bad)
            os.chmod(bad, mode)
            os.chown(bad, owner, -1)
            result = self.gpupool('--', 'true')
            self.assert_ok(result, 125)
            self.assertIn(says, result.err)
            os.rmdir(bad)

    def test_runtime_directory_that_cannot_be_made(self):
        """Costs what would be in it, not the run."""
        result = self.gpupool('--sim', '--conf', 'quiet:True', '--',
                              self.build.program('drv_script'), 'alloc=4096',
                              'exit=3', env=self.env(XDG_RUNTIME_DIR='/proc'))
        self.assert_ok(result, 3)
        lines = result.err.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertIn('/proc/gpupool is not used', lines[0])


class Proof(RunTest):
    """One line when the driver was loaded and nothing was intercepted."""

    LOAD = ('import ctypes, time; c = ctypes.CDLL("libcuda.so.1"); '
            '%s; time.sleep(%f)')

    def cuda(self, work, *before, good=lambda result: True):
        return harness.patiently(
            lambda seconds: self.gpupool(
                '--sim', '--conf', 'quiet:True', '--', *before,
                sys.executable, '-c', self.LOAD % (work, seconds)), good)

    def test_loaded_and_never_called(self):
        result = self.cuda('pass', good=lambda result: result.err)
        self.assert_ok(result)
        self.assertRegex(result.err.decode(),
                         r'^gpupool: the program loaded libcuda\.so.*\n$')

    def test_used(self):
        result = self.cuda(
            'p = ctypes.c_void_p(); x = ctypes.c_void_p(); c.cuInit(0); '
            'c.cuDevicePrimaryCtxRetain(ctypes.byref(x), 0); '
            'c.cuCtxSetCurrent(x); '
            'c.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(4096))')
        self.assert_ok(result)
        self.assertEqual(result.err, b'')

    def test_used_by_a_child(self):
        """A shell that starts the program is no reason to complain."""
        result = self.gpupool('--sim', '--conf', 'quiet:True', '--', 'sh',
                              '-c', '"$0" alloc=4096 sleep=300; exit 6',
                              self.build.program('drv_script'))
        self.assert_ok(result, 6)
        self.assertEqual(result.err, b'')

    LAUNCHER = ('import os, subprocess, sys\n'
                'ranks = [subprocess.Popen(sys.argv[1:], env=dict(\n'
                '    os.environ, RANK=str(i), LOCAL_RANK=str(i),\n'
                '    WORLD_SIZE="4")) for i in range(4)]\n'
                'sys.exit(max(rank.wait() for rank in ranks))\n')

    def test_each_rank_of_a_launcher(self):
        """As torchrun starts them: one report a rank, none of the launcher;
        and a launcher beside which nothing is wanted."""
        where = os.path.join(self.dir, 'reports')
        for only, count in ('', 4), (',only:other*', 0):
            result = self.gpupool(
                '--sim', '--report', where, '--conf',
                'quiet:True,report_name:%e-rank%r,report_format:json' + only,
                '--', sys.executable, '-c', self.LAUNCHER,
                self.build.program('drv_script'), 'alloc=4096')
            self.assert_ok(result)
            self.assertEqual(result.out, b'alloc 4096: 0\n' * 4)
            self.assertEqual(sorted(os.listdir(where)),
                             ['drv_script-rank%d.exit.json' % i
                              for i in range(count)])
            for name in os.listdir(where):
                os.unlink(os.path.join(where, name))

    def test_a_launcher_that_clears_the_preload(self):
        clear = ['env', '-u', 'LD_PRELOAD']
        if self.build.sanitizer_runtime():
            clear = ['env', 'LD_PRELOAD=' + self.build.sanitizer_runtime()]
        result = self.cuda('c.cuInit(0)', *clear,
                           good=lambda result: result.err)
        self.assert_ok(result)
        self.assertIn(b'without gpupool', result.err)

    def test_no_cuda_no_line(self):
        result = self.gpupool('--sim', '--', 'sleep', '0.3')
        self.assert_ok(result)
        self.assertEqual(result.err, b'')

    def test_nothing_is_left_behind(self):
        self.cuda('pass')
        self.assertEqual(os.listdir(os.path.join(self.runtime, 'gpupool')),
                         [])


class Signals(RunTest):

    def test_passed_on_once(self):
        proc, _ = self.start()
        names = 'HUP INT QUIT TERM USR1 USR2 CONT WINCH'.split()
        for name in names:
            os.kill(proc.pid, getattr(signal, 'SIG' + name))
            self.assertEqual(proc.stdout.readline().decode(),
                             'got SIG%s\n' % name)
        out, err = proc.communicate(b'\n', timeout=harness.LIMIT_S)
        self.assertEqual(out.decode().split(),
                         sorted('SIG%s=1' % name for name in names))
        self.assertEqual((proc.returncode, err), (0, b''))

    def test_stop_and_continue(self):
        proc, pid = self.start()
        os.kill(proc.pid, signal.SIGTSTP)
        self.assertTrue(self.wait_state(proc.pid, 'T'))
        self.assertTrue(self.wait_state(pid, 'T'))
        os.kill(proc.pid, signal.SIGCONT)
        self.assertTrue(self.wait_state(pid, 'S'))
        out, _ = proc.communicate(b'\n', timeout=harness.LIMIT_S)
        self.assertIn(b'SIGCONT=1', out)

    def wait_state(self, pid, state):
        def is_in_it():
            with open('/proc/%d/stat' % pid) as file:
                return file.read().rsplit(')', 1)[1].split()[0] == state
        return wait_for(is_in_it)

    def test_killed_outright(self):
        """The program does not outlive a SIGKILL to gpupool run."""
        proc, pid = self.start()
        proc.kill()
        proc.communicate(timeout=harness.LIMIT_S)

        def is_over():
            try:
                with open('/proc/%d/stat' % pid) as file:
                    return file.read().rsplit(')', 1)[1].split()[0] == 'Z'
            except OSError:
                return True
        self.assertTrue(wait_for(is_over), 'the program runs on')

    def test_interrupt_key(self):
        """Ctrl-C reaches the program from the terminal, once."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.dir)
            argv = self.argv('--', sys.executable, '-c', COUNTER)
            os.execve(argv[0], argv, self.env())
        try:
            text = self.read_until(terminal, b'ready')
            os.write(terminal, b'\x03')
            text += self.read_until(terminal, b'got SIGINT')
            os.write(terminal, b'\n')
            text += self.read_until(terminal, b'SIGINT=')
            _, status = os.waitpid(pid, 0)
        finally:
            os.close(terminal)
        self.assertIn(b'SIGINT=1\r\n', text)
        self.assertEqual(status, 0)

    def read_until(self, fd, word):
        text = b''
        deadline = time.monotonic() + 120
        while not (word in text and text.endswith(b'\n')):
            self.assertLess(time.monotonic(), deadline, text)
            if select.select([fd], [], [], 1)[0]:
                try:
                    text += os.read(fd, 4096)
                except OSError:
                    break
        return text

    def test_ignored_signals_stay_ignored(self):
        """nohup's SIGHUP, for example."""
        look = ['grep', '-E', 'SigIgn|SigBlk', '/proc/self/status']
        trap = ['sh', '-c', 'trap "" HUP; exec "$@"', 'sh']
        plain = harness.run(trap + look, self.env())
        ours = harness.run(trap + self.argv('--', *look), self.env())
        self.assertEqual(plain.out, ours.out)
        ignored = [line.split()[1] for line in plain.out.decode().splitlines()
                   if line.startswith('SigIgn')][0]
        self.assertTrue(int(ignored, 16) & 1 << (signal.SIGHUP - 1))


class Record(RunTest):

    def record(self, *args, **kwargs):
        return self.gpupool('--sim', '--conf', 'quiet:True', *args,
                            action='record', **kwargs)

    def test_trace_of_each_process(self):
        program = self.build.program('drv_script')
        result = self.record('--', 'sh', '-c',
                             '"$0" alloc=4096 free=0; "$0" alloc=8192; '
                             'exit 3', program)
        self.assert_ok(result, 3)
        traces = sorted(n for n in os.listdir(self.dir)
                        if n.endswith('.trace.csv'))
        self.assertEqual(len(traces), 2, traces)
        for name in traces:
            self.assertRegex(name, r'^gpupool-drv_script-\d+\.trace\.csv$')
            self.assertIn(name.encode(), result.err)
        self.assertIn(b'gpupool advise', result.err)

    def test_given_name(self):
        place = os.path.join(self.dir, 'a 100% sure place')
        os.mkdir(place)
        path = os.path.join(place, 'run.csv')
        result = self.record('-o', path.replace('%', '%%'), '--',
                             self.build.program('drv_script'),
                             'alloc=4096', 'oom=1000000000000')
        self.assert_ok(result)
        with open(path) as file:
            lines = file.read().splitlines()
        self.assertEqual([line[0] for line in lines[1:]], ['a', 'o'])

    def test_nothing_to_record(self):
        result = self.record('--', 'sh', '-c', 'exit 4')
        self.assert_ok(result, 4)
        text = result.err.decode()
        self.assertRegex(text, '^gpupool: no trace: ')
        self.assertIn('gpupool doctor -- PROGRAM', text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_no_program(self):
        result = self.record()
        self.assert_ok(result, 2)
        self.assertIn(b'try: gpupool record -- PROGRAM', result.err)

    def test_directory_missing(self):
        result = self.record('-o', '/no/such/place/x.csv', '--', 'true')
        self.assert_ok(result, 125)

    def test_replay_reads_it(self):
        replay = os.path.join(self.build.path, 'gpupool-replay')
        if not os.path.exists(replay):
            self.skipTest('no gpupool-replay in this build')
        path = os.path.join(self.dir, 'churn.csv')
        result = self.record('-o', path, '--', os.path.join(
            self.build.path, 'examples', 'churn'), '--ops', '500')
        self.assert_ok(result)
        played = harness.run([replay, '--json', path], self.env())
        self.assert_ok(played)
        figures = json.loads(played.out)
        with open(path) as file:
            self.assertEqual(figures['ops'], sum(
                line[0] in 'af' for line in file))


if __name__ == '__main__':
    unittest.main()
