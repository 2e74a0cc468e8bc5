"""What the tests of the command's verbs share: gpupool, run beside programs
whose ledgers it reads."""
import os
import subprocess
import sys

import harness
from files import FilesTest, wait_for

GPUPOOL = os.path.join(harness.ROOT, 'scripts', 'gpupool')
MIB = 1 << 20


class VerbTest(FilesTest):

    def verb_env(self, **more):
        env = {k: v for k, v in harness.own_environment().items()
               if not k.startswith(('LC_', 'CUDA_', 'UCX_'))
               and k not in ('LD_LIBRARY_PATH', 'LANG', 'NO_COLOR',
                             'COLUMNS', 'LINES')}
        # nvidia-smi of the machine is no part of a test.
        env.update(XDG_RUNTIME_DIR=self.xdg, LC_ALL='C.UTF-8',
                   PATH=self.path_without('nvidia-smi'))
        env.update(more)
        return env

    def path_without(self, name):
        return ':'.join(
            place for place in os.environ.get('PATH', '').split(':')
            if not os.path.exists(os.path.join(place, name)))

    def gpupool(self, *args, **kwargs):
        env = kwargs.pop('env', None) or self.verb_env()
        kwargs.setdefault('cwd', self.dir)
        return harness.run([sys.executable, GPUPOOL] + list(args), env,
                           **kwargs)

    def spawn(self, *args, **kwargs):
        """gpupool, running on; ended with the test at the latest."""
        proc = subprocess.Popen(
            [sys.executable, GPUPOOL] + list(args), env=self.verb_env(),
            cwd=self.dir, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, start_new_session=True, **kwargs)
        self.addCleanup(self.stop, proc)
        return proc

    def holder(self, mib=100, conf='', **kwargs):
        """A program that holds so much and has freed 50 MiB, both seen in its
        ledger."""
        proc = self.script(conf, **kwargs)
        self.assertEqual(self.step(proc, 'alloc=%d' % (mib * MIB)),
                         'alloc %d: 0' % (mib * MIB))
        self.step(proc, 'alloc=%d' % (50 * MIB))
        self.assertEqual(self.step(proc, 'free=1'), 'free: 0')
        self.assertTrue(wait_for(
            lambda: self.device(proc) and
            self.device(proc).figures['num_free_calls'] == 1))
        return proc

    def process(self, proc):
        if not os.path.isdir(self.runtime):
            return None  # it is about to make it
        return next((p for p in self.processes() if p.pid == proc.pid), None)

    def device(self, proc):
        process = self.process(proc)
        return process.devices[0] if process and process.devices else None
