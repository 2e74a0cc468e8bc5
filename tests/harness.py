"""What every test driver needs: where the build is, and how to run a program
under the preload.

The driver (run.py) tells the test modules about the build through the
environment: GPUPOOL_TEST_BUILD and GPUPOOL_TEST_SAN. A module run by hand
(python3 -m unittest tests/test_run.py) finds build/ beside the checkout.
"""
import atexit
import functools
import os
import re
import shlex
import shutil
import signal
import subprocess
import tempfile
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# Ends what hangs, and nothing else: also where all takes ten times as long.
LIMIT_S = 300

# What a launcher, a profiler or a person may have set, and that the library, the
# simulated driver or the command would heed.
FOREIGN = re.compile(
    r'GPUPOOL_|LD_(PRELOAD|AUDIT)$|CUDA_(?!HOME$)|NV_|NSYS_|PYTORCH_|'
    r'(LOCAL_)?RANK$|WORLD_SIZE$|SLURM_|OMPI_|PMI_')


def own_environment():
    """Ours without what is foreign to a test."""
    return {k: v for k, v in os.environ.items() if not FOREIGN.match(k)}


# What the test ran, as text, for who looks for the cause of its failure.
# run.py empties it before each test and tells its end after a failed one.
ran = []


def kill_group(proc):
    """End a test and everything that it started."""
    try:
        os.killpg(proc.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Result:
    """How a program ended. `status` is negative for a signal, as in
    subprocess; None when it ran past its limit."""

    def __init__(self, status, out, err):
        self.status = status
        self.out = out
        self.err = err

    def __str__(self):
        if self.status is None:
            how = 'ran past its time limit'
        elif self.status < 0:
            how = 'died by signal %d%s' % (-self.status,
                                           signal_name(-self.status))
        else:
            how = 'exit status %d' % self.status
        return '%s\n--- stdout\n%s--- stderr\n%s' % (
            how, tail(self.out), tail(self.err))


def signal_name(number):
    try:
        return ' (%s)' % signal.Signals(number).name
    except ValueError:
        return ''


def threads_of(pid):
    """What the threads of a process do that has run too long, a line each."""
    lines = []
    tasks = '/proc/%d/task' % pid
    try:
        for tid in sorted(os.listdir(tasks), key=int):
            said = []
            for name in 'comm', 'stat', 'wchan', 'syscall':
                try:
                    with open(os.path.join(tasks, tid, name)) as file:
                        text = file.read().strip()
                except OSError:
                    continue
                said.append(text.rpartition(')')[2].split()[0]
                            if name == 'stat' else text.split(' 0x')[0])
            lines.append('thread %s: %s\n' % (tid, ' '.join(said)))
    except (OSError, IndexError):
        pass  # it has just ended
    return ''.join(lines)


def note_run(argv, env, result):
    """Remember a program that the test ran; see `ran`."""
    ours = ['%s=%s' % (k, v) for k, v in sorted((env or {}).items())
            if k.startswith('GPUPOOL_') or k == 'LD_PRELOAD']
    ran.append('ran: %s\n%s' % (' '.join(
        shlex.quote(word) for word in ours + list(argv)), result))


def tail(data, limit=6000):
    """The end of some output, as text that finishes its line."""
    text = data.decode('utf-8', 'replace')[-limit:]
    return text + '\n' if text and not text.endswith('\n') else text


def run(argv, env=None, limit=LIMIT_S, **kwargs):
    """Run to the end, or to `limit` seconds; nothing is left behind."""
    kwargs.setdefault('stdin', subprocess.DEVNULL)
    proc = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True,
                            **kwargs)
    try:
        out, err = proc.communicate(timeout=limit)
        result = Result(proc.returncode, out, err)
    except subprocess.TimeoutExpired:
        threads = threads_of(proc.pid).encode()
        kill_group(proc)
        out, err = proc.communicate()
        result = Result(None, out, err + threads)
    finally:
        kill_group(proc)
    note_run(argv, env, result)
    return result


# How many seconds a program lasts that is watched from outside: more, when its
# watcher came too late for that.
PAUSES_S = (0.6, 6, 60)


def patiently(attempt, good):
    """The result of attempt(seconds), the first one that is good(result)."""
    for seconds in PAUSES_S:
        result = attempt(seconds)
        if good(result):
            break
    return result


def written(kind):
    """Steps of drv_script: wait for both reports of a kind."""
    return ['await=*.%s.%s' % (kind, form) for form in ('json', 'txt')]


@functools.lru_cache(None)
def scratch_root():
    """A directory that goes with this process."""
    path = tempfile.mkdtemp(prefix='t')
    atexit.register(shutil.rmtree, path, True)
    return path


def tool(name):
    """A program that tests can do without: of the system, or from where
    `make deps` put it; None if there is none."""
    return shutil.which(name) or shutil.which(
        name, path=os.path.join(ROOT, 'build', 'deps', 'usr', 'bin'))


def scratch_dir():
    return tempfile.mkdtemp(dir=scratch_root())


class Build:
    """One build tree, plain or sanitized."""

    def __init__(self, path, san=None):
        self.path = os.path.abspath(path)
        self.san = san
        self.lib = os.path.join(self.path, 'libgpupool.so')
        self.sim = os.path.join(self.path, 'sim')
        self._runtime = None

    def program(self, name):
        return os.path.join(self.path, 'tests', 'programs', name)

    def sanitizer_runtime(self):
        """The shared ASan runtime that the library was linked with. It must
        come first in LD_PRELOAD; '' where there is none."""
        if self._runtime is None:
            found = ''
            if self.san == 'address' and os.path.exists(self.lib):
                text = subprocess.run(['ldd', self.lib],
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL).stdout
                match = re.search(r'=> (\S*(?:libasan|clang_rt\.asan)\S*)',
                                  text.decode())
                found = match.group(1) if match else ''
            self._runtime = found
        return self._runtime

    def env(self, preload=True, conf='', sim='', **more):
        """The environment of a test program."""
        env = own_environment()
        env['LD_LIBRARY_PATH'] = self.sim
        # No program of a test is another one's neighbour, nor a person's.
        env['XDG_RUNTIME_DIR'] = scratch_dir()
        # Foreign programs leak at exit; what we own is checked by the units
        # and by the simulated driver's own leak count.
        env['ASAN_OPTIONS'] = 'detect_leaks=0:abort_on_error=1'
        env['UBSAN_OPTIONS'] = 'print_stacktrace=1:halt_on_error=1'
        if preload:
            env['LD_PRELOAD'] = self.preload()
            env['GPUPOOL_CONF'] = conf
        elif self.sanitizer_runtime():
            # The simulated driver is sanitized, foreign programs are not.
            env['LD_PRELOAD'] = self.sanitizer_runtime()
        if sim:
            env['GPUPOOL_SIM'] = sim
        env.update(more)
        return env

    def preload(self):
        return (self.sanitizer_runtime() + ' ' + self.lib).strip()


def current_build():
    return Build(os.environ.get('GPUPOOL_TEST_BUILD',
                                os.path.join(ROOT, 'build')),
                 os.environ.get('GPUPOOL_TEST_SAN') or None)


class CudaTest(unittest.TestCase):
    """A test with a build, a scratch directory, and programs to run."""

    maxDiff = None

    def setUp(self):
        self.build = current_build()
        # Short: messages with paths are broken at the screen's width.
        self.dir = tempfile.mkdtemp(prefix='t')
        self.addCleanup(shutil.rmtree, self.dir, True)

    def run_program(self, argv, preload=True, conf='', sim='', env=None,
                    **kwargs):
        """Run `argv` in the scratch directory on the simulated driver. A
        program's name without a slash is one of tests/programs."""
        argv = list(argv)
        if '/' not in argv[0]:
            argv[0] = self.build.program(argv[0])
        kwargs.setdefault('cwd', self.dir)
        return run(argv, self.build.env(preload, conf, sim, **(env or {})),
                   **kwargs)

    def compile(self, name, source, *flags):
        """Build a small helper in the scratch directory; its path. Skips the
        test where there is no compiler to do it."""
        path = os.path.join(self.dir, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        cc = os.environ.get('CC', 'cc').split()
        if not shutil.which(cc[0]):
            self.skipTest('no compiler named ' + cc[0])
        made = subprocess.run(cc + ['-x', 'c', '-', '-o', path] + list(flags),
                              input=source.encode(), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.assertEqual(made.returncode, 0, made.stdout.decode())
        return path

    def assert_ok(self, result, status=0):
        self.assertEqual(result.status, status, str(result))

    def reports(self, directory=None):
        """Names of the report files written so far."""
        return sorted(n for n in os.listdir(directory or self.dir)
                      if n.startswith('gpupool-'))
