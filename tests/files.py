"""What the tests of the runtime directory share: the readers of scripts/, and
programs that run beside each other."""
import os
import signal
import struct
import subprocess
import sys
import time

import harness

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_file  # noqa: E402,F401  (found through the line above)
import gpupool_ledger  # noqa: E402,F401
import gpupool_ring  # noqa: E402,F401

PROGRESS = struct.Struct('=4Q32x')


def wait_for(what, seconds=120):
    """Until what() is true; False if it never is."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


class FilesTest(harness.CudaTest):
    """A test with a runtime directory of its own."""

    def setUp(self):
        super().setUp()
        self.xdg = os.path.join(self.dir, 'xdg')
        os.mkdir(self.xdg, 0o700)
        self.runtime = os.path.join(self.xdg, 'gpupool')
        self.share = os.path.join(self.dir, 'share')

    def names(self):
        try:
            return sorted(os.listdir(self.runtime))
        except FileNotFoundError:
            return []

    def paths(self):
        return [os.path.join(self.runtime, name) for name in self.names()]

    def files(self):
        return [gpupool_file.ProcessFile(path) for path in self.paths()]

    def processes(self, **kwargs):
        return gpupool_ledger.processes(directory=self.runtime, **kwargs)[0]

    def start(self, argv, conf='', sim='', **kwargs):
        """A program that runs on; ended with the test at the latest."""
        argv = [self.build.program(argv[0])] + list(argv[1:])
        env = self.build.env(conf=','.join(filter(None, [
            'quiet:True,report_dir:' + self.dir, conf])), sim=sim,
            XDG_RUNTIME_DIR=self.xdg)
        proc = subprocess.Popen(argv, env=env, cwd=self.dir,
                                start_new_session=True,
                                stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, **kwargs)
        self.addCleanup(self.stop, proc, env)
        return proc

    def stop(self, proc, env=None):
        """The end of a program of start(), and a note of what it had to say."""
        ran_on = proc.poll() is None
        if ran_on:
            harness.kill_group(proc)
        proc.wait()
        said = []
        for stream in proc.stdout, proc.stderr:
            if not stream.closed:
                # A child that left the group may have it open still.
                os.set_blocking(stream.fileno(), False)
            said.append(b'' if stream.closed else stream.read() or b'')
        harness.note_run(proc.args, env, '%s%s' % (
            'ended with the test; ' if ran_on else '',
            harness.Result(proc.returncode, *said)))
        for stream in proc.stdin, proc.stdout, proc.stderr:
            stream.close()

    def kill(self, proc):
        os.kill(proc.pid, signal.SIGKILL)
        proc.wait()

    def script(self, conf='', sim='', memory='1GiB'):
        """A program that does what step() says."""
        sim = sim or 'memory:%s,context:16MiB,shared:%s' % (memory,
                                                            self.share)
        return self.start(['drv_script', 'stdin=1'], conf, sim)

    def step(self, proc, step):
        proc.stdin.write(step.encode() + b'\n')
        proc.stdin.flush()
        return proc.stdout.readline().decode().strip()

    def finish(self, proc):
        """Let a script end; its status and stderr."""
        out, err = proc.communicate(timeout=harness.LIMIT_S)
        return proc.returncode, err.decode('utf-8', 'replace')


def read_progress(path, threads):
    """[(steps, address, is_free, thread, refused)] of drv_churn."""
    try:
        with open(path, 'rb') as file:
            data = file.read()
    except FileNotFoundError:
        return []
    if len(data) < threads * PROGRESS.size:
        return []
    return [(steps, last & ~1, last & 1, thread, refused)
            for steps, last, thread, refused in PROGRESS.iter_unpack(
                data[:threads * PROGRESS.size])]
