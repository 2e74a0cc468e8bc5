"""The random programs for a real card (tests/gpu/programs/order_fuzz.cu), built
for the simulated driver: they are right by themselves and under the library,
and a clause of its protocol that is switched off is seen. Work takes time here,
and threads race."""
import os
import shutil
import subprocess
import unittest

import harness

SOURCE = os.path.join(harness.ROOT, 'tests', 'gpu', 'programs', 'order_fuzz.cu')
SIM = 'memory:64GiB'
SHORT = ['--ops', '300', '--seeds', '1-2']


class GpuFuzz(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.mutant = os.path.join(self.build.path, 'mut', 'libgpupool.so')
        if self.build.san:
            self.skipTest('a C++ program without the sanitizer')
        cxx = os.environ.get('CXX', 'c++').split()
        if not shutil.which(cxx[0]):
            self.skipTest('no compiler named ' + cxx[0])
        home = os.environ.get('CUDA_HOME', '/usr/local/cuda')
        self.fuzz = os.path.join(self.dir, 'order_fuzz')
        made = subprocess.run(
            cxx + ['-x', 'c++', '-DFUZZ_SIM', '-O1', '-g', '-std=c++17',
                   '-Wall', '-Wextra', '-Werror', '-pthread', '-isystem',
                   os.path.join(home, 'include'), SOURCE, '-o', self.fuzz,
                   '-L' + self.build.sim, '-lcudart', '-lcuda', '-ldl'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        self.assertEqual(made.returncode, 0, made.stdout.decode())

    def run_fuzz(self, *args, library=None, conf=''):
        env = {'LD_PRELOAD': library} if library else {}
        return self.run_program([self.fuzz] + list(args), bool(library),
                                'quiet:True' + conf, SIM, env)

    def test_all(self):
        """One build serves for all of it."""
        self.assert_ok(self.run_fuzz(*SHORT))
        self.assert_ok(self.run_fuzz(*SHORT, '--keep', '1'))
        self.assert_ok(self.run_fuzz(*SHORT, library=self.build.lib))
        self.assert_ok(self.run_fuzz(*SHORT, '--lean', '0',
                                     library=self.build.lib,
                                     conf=',free_order:reuse'))
        self.assert_ok(self.run_fuzz(*SHORT, '--jitter', '1',
                                     library=self.mutant))
        for rule in ('JOIN_WAITS', 'SUBMIT_JOINS', 'FREE_WAITS_FOR_HOST'):
            with self.subTest(rule=rule):
                result = self.run_fuzz('--seeds', '1-20', '--mutate', rule,
                                       library=self.mutant)
                self.assert_ok(result, 1)
        for args in (['--seeds', '0'], ['--without', 'nothing'], ['--x'],
                     ['--threads', '17'], ['--mutate', 'JOIN_WAITS']):
            with self.subTest(args=args):
                self.assert_ok(self.run_fuzz(*args), 2)


if __name__ == '__main__':
    unittest.main()
