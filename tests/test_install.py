"""make install: the command and the library work from where they were put,
and a program that runs meanwhile keeps the library that it has."""
import os
import subprocess
import sys
import unittest

import harness


class Install(harness.CudaTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('a sanitized build is not installed')
        self.prefix = os.path.join(self.dir, 'root', 'usr')
        self.install()

    def install(self):
        self.make('install')

    def make(self, target):
        # DESTDIR, so that the machine's own linker cache is left alone.
        env = {k: v for k, v in os.environ.items()
               if k not in ('MAKEFLAGS', 'MFLAGS', 'MAKELEVEL')}
        made = subprocess.run(
            ['make', '-C', harness.ROOT, target, 'B=' + self.build.path,
             'PREFIX=/usr', 'DESTDIR=' + os.path.join(self.dir, 'root')],
            env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(made.returncode, 0, made.stdout.decode())

    def lib(self):
        return os.path.join(self.prefix, 'lib', 'libgpupool.so')

    def test_the_command(self):
        gpupool = os.path.join(self.prefix, 'bin', 'gpupool')
        env = self.build.env(preload=False)
        result = harness.run([gpupool, 'run', '--', 'sh', '-c',
                              'echo $LD_PRELOAD; exit 5'], env, cwd='/')
        self.assert_ok(result, 5)
        self.assertEqual(result.out.decode().strip(), self.lib())
        result = harness.run([gpupool, 'run', '--sim', '--', 'true'], env)
        self.assert_ok(result, 125)
        self.assertIn('it is not installed: run make in a checkout, and '
                      'scripts/gpupool of it',
                      ' '.join(result.err.decode().split()))

    def test_options(self):
        """From the installed table."""
        gpupool = os.path.join(self.prefix, 'bin', 'gpupool')
        env = self.build.env(preload=False)
        result = harness.run([gpupool, 'options', 'memory_limit'], env,
                             cwd='/')
        self.assert_ok(result)
        self.assertIn(b'unlimited', result.out)
        result = harness.run([gpupool, '--version'], env, cwd='/')
        self.assertIn(self.lib().encode(), result.out)
        result = harness.run([gpupool, 'run', '--conf', 'memory_limit:x',
                              '--', 'true'], env, cwd='/')
        self.assert_ok(result, 125)
        self.assertIn(b'memory_limit:x', result.err)

    def test_the_man_page_and_completions(self):
        share = os.path.join(self.prefix, 'share')
        for name in ('man/man1/gpupool.1',
                     'bash-completion/completions/gpupool',
                     'zsh/site-functions/_gpupool',
                     'fish/vendor_completions.d/gpupool.fish'):
            with open(os.path.join(share, name)) as file:
                self.assertIn('--limit'.replace(
                    '--', r'\-\-' if name.endswith('.1') else
                    '-l ' if name.endswith('.fish') else '--'), file.read())

    def test_report(self):
        """With the parts of the page, and the description of reports."""
        gpupool = os.path.join(self.prefix, 'bin', 'gpupool')
        report = os.path.join(harness.ROOT, 'tests', 'golden',
                              'report-oom.json')
        for form in '--html', '--text':
            result = harness.run([gpupool, 'report', form, report],
                                 self.build.env(preload=False), cwd='/')
            self.assert_ok(result)
            self.assertIn(b'cuMemAlloc_v2 asked for', result.out)

    def test_uninstall(self):
        other = os.path.join(self.prefix, 'lib', 'libother.so')
        open(other, 'w').close()
        self.make('uninstall')
        left = [os.path.join(place, name)
                for place, _, names in os.walk(self.prefix)
                for name in names]
        self.assertEqual(left, [other])
        self.make('uninstall')  # nothing there is no error

    def test_the_module_and_the_header(self):
        """import gpupool, from the scripts' place and from where Python
        looks; the installed header alone is enough."""
        found = [os.path.join(top, name)
                 for top, _, names in os.walk(self.prefix)
                 for name in names if name == 'gpupool.py']
        self.assertEqual(len(found), 2, found)
        for path in found:
            env = self.build.env(LD_PRELOAD=self.lib(),
                                 PYTHONPATH=os.path.dirname(path),
                                 PYTHONDONTWRITEBYTECODE='1')
            self.assert_ok(harness.run(
                [sys.executable, '-c', 'import gpupool; '
                 'assert gpupool.__file__ == %r; '
                 'assert gpupool.available()' % path], env, cwd=self.dir))
        program = self.compile(
            'program', '#include <gpupool.h>\n'
            'int main(void) { return gpupool_loaded() ? 7 : 8; }',
            '-I', os.path.join(self.prefix, 'include'))
        self.assert_ok(harness.run([program], self.build.env(
            LD_PRELOAD=self.lib())), 7)

    def test_the_bare_name(self):
        """LD_PRELOAD=libgpupool.so, once the linker knows the directory."""
        env = self.build.env(LD_PRELOAD='libgpupool.so')
        env['LD_LIBRARY_PATH'] += ':' + os.path.dirname(self.lib())
        result = harness.run([self.build.program('drv_script'),
                              'alloc=4096'], env, cwd=self.dir)
        self.assert_ok(result)
        self.assertIn(b'gpupool: ', result.err)
        self.assertEqual(len(self.reports()), 2)

    def test_replaced_under_a_running_program(self):
        before = os.stat(self.lib()).st_ino
        env = self.build.env(LD_PRELOAD=self.lib(), GPUPOOL_CONF='quiet:True')
        proc = subprocess.Popen([self.build.program('drv_script'),
                                 'alloc=4096', 'sleep=1500', 'free=0',
                                 'alloc=8192'], env=env, cwd=self.dir,
                                stdout=subprocess.PIPE,
                                start_new_session=True)
        self.addCleanup(harness.kill_group, proc)
        self.assertEqual(proc.stdout.readline(), b'alloc 4096: 0\n')
        self.install()
        self.assertNotEqual(os.stat(self.lib()).st_ino, before)
        out, _ = proc.communicate(timeout=harness.LIMIT_S)
        self.assertEqual((proc.returncode, out),
                         (0, b'free: 0\nalloc 8192: 0\n'))
        left = [n for n in os.listdir(os.path.dirname(self.lib()))
                if n.startswith('.')]
        self.assertEqual(left, [])


if __name__ == '__main__':
    unittest.main()
