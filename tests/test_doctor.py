"""gpupool doctor: what keeps gpupool from working is found, named, and comes
with what to do."""
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import unittest

import harness
from screen import ScreenTest
from verbs import GPUPOOL, MIB, VerbTest

# Loads the driver by one of several ways, and allocates 8 MiB.
DOORS = '''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
typedef int any();
static void take(void *driver, void *(*find)(void *, const char *))
{
    void *context;
    unsigned long long block;

    ((any *)find(driver, "cuInit"))(0);
    ((any *)find(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
    ((any *)find(driver, "cuCtxSetCurrent"))(context);
    printf("%d\\n", ((any *)find(driver, "cuMemAlloc_v2"))(&block,
                                                         (size_t)8 << 20));
}
int door(const char *way)
{
    void *driver;

    if (!strcmp(way, "twice"))
        take(dlopen("libcuda.so.1", RTLD_NOW), dlsym);
    if (!strcmp(way, "twice"))
        driver = dlmopen(LM_ID_NEWLM, "libcuda.so.1", RTLD_NOW);
    else
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (!driver)
        puts(dlerror());
    if (driver && !strcmp(way, "plain"))
        take(driver, dlsym);
    fflush(stdout);
    usleep((unsigned)(atof(getenv("TEST_PAUSE")) * 1e6));
    return 0;
}
'''
MAIN = '''
int main(int argc, char **argv)
{
    if (argc > 2) {
        int (*far)(const char *) = dlsym(
            dlopen(argv[2], RTLD_NOW | RTLD_DEEPBIND), "door");
        door("plain");
        return far(argv[1]);
    }
    return door(argv[1]);
}
'''


class DoctorTest(VerbTest):

    def doctor(self, *args, env=None, status=None, sim=True, **kwargs):
        """[(status, check, text, advice)]; TODO and the exit status agree."""
        argv = ['doctor', '--json', '--lib', self.build.lib]
        if sim:
            argv.append('--sim')
        result = self.gpupool(*argv, *args, env=env or self.verb_env(),
                              **kwargs)
        try:
            page = json.loads(result.out)
        except ValueError:
            self.fail(str(result))
        self.err = result.err.decode()
        found = [(c['status'], c['check'], c['text'], c['advice'])
                 for c in page['checks']]
        ok = not any(c[0] == 'todo' for c in found)
        self.assertEqual(page['ok'], ok)
        self.assert_ok(result, 0 if ok else 1)
        if status is not None:
            self.assertEqual(result.status, status, found)
        return found

    def find(self, found, status, check, pattern):
        return [have for have in found if have[:2] == (status, check)
                and re.search(pattern, have[2])]

    def assert_found(self, found, status, check, pattern):
        for have in self.find(found, status, check, pattern):
            if status == 'todo':
                self.assertTrue(have[3] or ';' in have[2] or ':'
                                in have[2], have)
            return have
        self.fail('no %s %s %s in %s' % (status, check, pattern, found))


class Machine(DoctorTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('a sanitized library wants its runtime first')

    def test_all_is_well(self):
        found = self.doctor(status=0)
        self.assert_found(found, 'ok', 'interception', 'from the pool')
        self.assert_found(found, 'ok', 'card', '16.00 GiB')
        self.assert_found(found, 'ok', 'glibc', r'^\d+\.\d+; .* \d+\.\d+$')

    def test_nothing_is_left_behind(self):
        holder = self.holder()
        self.kill(holder)
        before = self.names()
        self.doctor(status=0)
        self.assertEqual(self.names(), before)
        self.assertEqual(sorted(os.listdir(self.dir)), ['share', 'xdg'])

    def test_without_a_card(self):
        if os.path.exists('/dev/nvidiactl') or os.path.exists('/dev/dxg'):
            self.skipTest('there is a card here')
        found = self.doctor(sim=False, status=1)
        have = self.assert_found(found, 'todo', 'card', 'no NVIDIA card')
        self.assertIn('--sim', have[3])

    def test_answers_of_the_driver(self):
        for fail, pattern, advice in (
                ('cuInit@1=802', 'SYSTEM_NOT_READY', 'fabricmanager'),
                ('cuInit@1=100', 'NO_DEVICE', 'sees no card'),
                ('cuInit@1=803', 'SYSTEM_DRIVER_MISMATCH', 'reboot'),
                ('cuDevicePrimaryCtxRetain@1=2', 'OUT_OF_MEMORY', '')):
            found = self.doctor(env=self.verb_env(
                GPUPOOL_SIM='fail:' + fail), status=1)
            have = self.assert_found(found, 'todo', 'driver', pattern)
            self.assertIn(advice, have[3])

    def test_no_virtual_memory(self):
        found = self.doctor(env=self.verb_env(GPUPOOL_SIM='vmm:0'), status=0)
        self.assert_found(found, 'note', 'card', 'no virtual memory')

    def test_another_library_in_front(self):
        """One that answers dlsym with the driver's own."""
        lib = self.compile('libvgpu.so', '''
            #define _GNU_SOURCE
            #include <dlfcn.h>
            void *dlsym(void *handle, const char *name)
            {
                static void *(*real)(void *, const char *);
                if (!real)
                    real = dlvsym(dlopen("libc.so.6", RTLD_NOW), "dlsym",
                                  "GLIBC_2.34");
                return real(handle, name);
            }''', '-shared', '-fPIC')
        found = self.doctor(env=self.verb_env(LD_PRELOAD=lib), status=1)
        self.assert_found(found, 'todo', 'preloads', 'libvgpu.so')
        self.assert_found(found, 'todo', 'interception', 'did not come')

    def test_preloads(self):
        for name, status, pattern in (
                ('libm.so.6', 'ok', 'libm.so.6'),
                ('libucm.so.0', 'note', 'libucm')):
            env = self.verb_env(LD_PRELOAD=name)
            self.assert_found(self.doctor(env=env, status=0), status,
                              'preloads', pattern)
        env = self.verb_env(LD_PRELOAD=self.build.lib)
        self.assertNotIn('preloads', [f[1] for f in self.doctor(env=env)])

    def test_directory(self):
        with open(os.path.join(self.xdg, 'gpupool'), 'w'):
            pass
        self.assert_found(self.doctor(status=1), 'todo', 'directory', '0700')
        os.unlink(os.path.join(self.xdg, 'gpupool'))
        os.mkdir(os.path.join(self.xdg, 'gpupool'), 0o700)
        path = os.path.join(self.xdg, 'gpupool', '1-1-0.gpupool')
        os.symlink('/etc/passwd', path)
        have = self.assert_found(self.doctor(status=1), 'todo', 'directory',
                                 'is a link')
        self.assertIn(path, have[2])

    def test_settings(self):
        for conf, status, pattern in (
                ('memory_limit:lots', 'todo', 'memory_limit'),
                ('no_such_key:1', 'todo', 'no_such_key'),
                ('enabled:False', 'note', 'enabled:False'),
                ('memory_limit:8GiB', 'ok', 'memory_limit:8.00GiB|8GiB')):
            env = self.verb_env(GPUPOOL_CONF=conf)
            self.assert_found(self.doctor(env=env), status, 'settings',
                              pattern)
            self.assert_found(self.doctor('--conf', conf), status,
                              'settings', pattern)

    @unittest.skipIf(os.getuid() == 0, 'root may write everywhere')
    def test_reports(self):
        self.assert_found(self.doctor(cwd='/'), 'todo', 'reports', '/')

    def test_report_directory_missing(self):
        found = self.doctor('--conf', 'report_dir:/no/such/place', status=1)
        self.assert_found(found, 'todo', 'reports', '/no/such/place')

    def test_environment(self):
        for name, value, status in (
                ('CUDA_VISIBLE_DEVICES', '', 'todo'),
                ('PYTORCH_CUDA_ALLOC_CONF', 'backend:cudaMallocAsync',
                 'todo'),
                ('PYTORCH_ALLOC_CONF', 'expandable_segments:True', 'note')):
            found = self.doctor(env=self.verb_env(**{name: value}))
            self.assert_found(found, status, 'environment', name)

    def test_limits(self):
        import resource

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

        self.assert_found(self.doctor(preexec_fn=limit, status=1), 'todo',
                          'limits', '1.00 MiB')

    def test_under_a_tool(self):
        """Told from the processes above."""
        script = os.path.join(self.dir, 'ncu')
        # A copy of the shell that stays above.
        shutil.copy(os.path.realpath(shutil.which('sh')), script)
        result = harness.run(
            [script, '-c', '"$@"; true', 'sh', sys.executable, GPUPOOL,
             'doctor', '--sim', '--json', '--lib', self.build.lib],
            self.verb_env(), cwd=self.dir)
        self.assertIn('this runs under ncu', result.out.decode())

    def test_no_library(self):
        result = self.gpupool('doctor', '--lib', '/no/lib.so')
        self.assert_ok(result, 1)
        self.assertIn(b'TODO  library', result.out)

    def test_library_that_cannot_be_loaded(self):
        """The linker says a word and goes on without it: without the limit,
        too."""
        path = os.path.join(self.dir, 'libgpupool.so')
        with open(path, 'w') as file:
            file.write('not a library')
        shutil.copytree(self.build.sim, os.path.join(self.dir, 'sim'),
                        symlinks=True)
        result = self.gpupool('doctor', '--sim', '--json', '--lib', path)
        self.assert_ok(result, 1)
        found = [(c['status'], c['check'], c['text'], c['advice'])
                 for c in json.loads(result.out)['checks']]
        self.assert_found(found, 'todo', 'library', 'cannot be read')
        self.assert_found(found, 'todo', 'interception', 'not preloaded')

    def test_wrong_use(self):
        self.assert_ok(self.gpupool('doctor', '--seconds', '-1'), 2)


class Program(DoctorTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('sanitizers do not bear some of these doors')

    def doors(self):
        lib = self.compile('libdoors.so', DOORS, '-shared', '-fPIC', '-ldl')
        main = self.compile('main', DOORS + MAIN, '-ldl')
        return main, lib

    def watch(self, *args, status, wanted):
        """What the doctor says of a door, that is `wanted` also."""
        found = harness.patiently(
            lambda seconds: self.doctor(*args, env=self.verb_env(
                TEST_PAUSE=str(seconds))),
            lambda found: self.find(found, *wanted))
        self.assert_found(found, *wanted)
        self.assertEqual(any(have[0] == 'todo' for have in found),
                         bool(status), found)
        return found

    def test_complete(self):
        main, _ = self.doors()
        found = self.watch('--', main, 'plain', status=0, wanted=(
            'ok', 'interception', '^complete'))
        self.assert_found(found, 'ok', 'program', '^at most 8.00 MiB from '
                          'the pool, by 1 allocation')
        # Its output does not come between.
        self.assertIn('0\n', self.err)

    def test_stopped_after_a_while(self):
        """One that runs on is asked, then ended."""
        wanted = 'ok', 'program', '8.00 MiB'
        found = harness.patiently(
            lambda seconds: self.doctor(
                '--seconds', str(1 + seconds), '--',
                self.build.program('drv_script'), 'alloc=%d' % (8 * MIB),
                'sleep=600000'),
            lambda found: self.find(found, *wanted))
        self.assert_found(found, *wanted)
        self.assertEqual(self.processes(), [])

    def test_loaded_and_never_called(self):
        main, _ = self.doors()
        self.watch('--', main, 'quiet', status=1, wanted=(
            'todo', 'interception', 'no call of it arrived'))

    def test_deep_binding(self):
        """The library that reaches the driver around us has its name told."""
        main, lib = self.doors()
        self.watch('--', main, 'plain', lib, status=1, wanted=(
            'todo', 'interception', r'around gpupool.*libdoors\.so'))

    def test_driver_loaded_twice(self):
        main, _ = self.doors()
        self.watch('--', main, 'twice', status=1, wanted=(
            'todo', 'interception', 'loaded twice'))

    def test_memory_that_nobody_counted(self):
        """A stand-in for nvidia-smi says that the program holds more than its
        ledger."""
        place = os.path.join(self.dir, 'bin')
        os.mkdir(place)
        path = os.path.join(place, 'nvidia-smi')
        for mib, status in (2000, 0), (5000, 1):
            with open(path, 'w') as file:
                file.write('#!/bin/sh\ncase $1 in *apps*) for p in $(pidof '
                           'drv_script); do echo "$p, %d"; done;; esac\n'
                           % mib)
            os.chmod(path, stat.S_IRWXU)
            env = self.verb_env()
            env['PATH'] = place + ':' + env['PATH']
            found = harness.patiently(
                lambda seconds: self.doctor(
                    '--seconds', str(4.4 + seconds), '--',
                    self.build.program('drv_script'), 'alloc=%d' % (8 * MIB),
                    'sleep=600000', env=env),
                lambda found: not status or self.find(
                    found, 'todo', 'interception', 'as the driver counts'))
            self.assertEqual(any(have[0] == 'todo' for have in found),
                             bool(status), found)
            if status:
                self.assert_found(found, 'todo', 'interception',
                                  r'4\.88 GiB as the driver counts, 8\.00 MiB '
                                  'as gpupool')

    def test_a_launcher_that_clears_the_preload(self):
        main, _ = self.doors()
        self.watch('--', 'env', '-u', 'LD_PRELOAD', main, 'plain',
                   status=1, wanted=(
                       'todo', 'interception',
                       r'main \(pid \d+\) loaded the driver without'))

    def test_static(self):
        path = self.dir + '/static'
        source = 'int main(void) { return 0; }'
        made = harness.run(['sh', '-c', 'echo "%s" | cc -static -x c - -o %s'
                            % (source, path)])
        if made.status:
            self.skipTest('no static C library here')
        found = self.doctor('--', path, status=1)
        self.assert_found(found, 'todo', 'program', 'statically linked')

    @unittest.skipUnless(os.getuid() == 0, 'needs root')
    def test_setuid(self):
        path = os.path.join(self.dir, 'raised')
        shutil.copy(shutil.which('true'), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        found = self.doctor('--', path, status=1)
        self.assert_found(found, 'todo', 'program', 'privileges')

    def test_missing(self):
        found = self.doctor('--', 'no-such-program', status=1)
        self.assert_found(found, 'todo', 'program', 'not found')

    def test_no_driver_in_it(self):
        found = self.doctor('--', 'true', status=0)
        self.assert_found(found, 'note', 'program', 'not seen to load')

    def test_switched_off_for_it(self):
        main, _ = self.doors()
        self.watch('--conf', 'only:other', '--', main, 'plain', status=0,
                   wanted=('note', 'interception', 'leave this program'))

    def test_file_only(self):
        """--seconds 0 starts nothing."""
        path = os.path.join(self.dir, 'touched')
        found = self.doctor('--seconds', '0', '--', 'touch', path, status=0)
        self.assertFalse(os.path.exists(path))
        self.assertNotIn('program', [f[1] for f in found])

    def test_tools_in_front(self):
        for name, status in ('compute-sanitizer', 'note'), ('ncu', 'note'), (
                'sudo', 'todo'):
            path = os.path.join(self.dir, name)
            with open(path, 'w') as file:
                file.write('#!/bin/sh\n"$@"\n')
            os.chmod(path, stat.S_IRWXU)
            found = self.doctor('--seconds', '0', '--', path, 'true')
            self.assert_found(found, status, 'program', name)

    def test_end_of_it(self):
        found = self.doctor('--', 'sh', '-c', 'kill -SEGV $$')
        self.assert_found(found, 'note', 'program', 'died by signal 11')


class Screen(ScreenTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('a sanitized library wants its runtime first')
        # Where paths are as long as anywhere else.
        self.place = tempfile.mkdtemp(prefix='gpupool-', dir='/tmp')
        self.addCleanup(shutil.rmtree, self.place, True)
        os.mkdir(os.path.join(self.place, 'x'), 0o700)
        for name in 'libgpupool.so', 'gpupool-conf':
            shutil.copy(os.path.join(self.build.path, name), self.place)
        shutil.copytree(self.build.sim, os.path.join(self.place, 'sim'),
                        symlinks=True)

    def doctor(self, columns, lines, *args):
        self.open(columns, lines, 'doctor', '--sim', '--lib',
                  os.path.join(self.place, 'libgpupool.so'), '--conf',
                  'report_dir:' + self.place, *args,
                  env=['XDG_RUNTIME_DIR=' + os.path.join(self.place, 'x')])

    def normal(self, text):
        for pattern, to in (
                (re.escape(self.place), '/tmp/gpupool-XXXXXXXX'),
                (r'gpupool \d+\.\d+\.\d+ ', 'gpupool V '),
                (r'(Python +)\d\S+', r'\1V'),
                (r'\d+\.\d+; the library needs \d+\.\d+',
                 'V; the library needs V'),
                (r'CUDA \d+\.\d+', 'CUDA V'),
                (r'[\d.]+ [KMGT]iB free', 'N free'),
                (r'after [\d.]+ s', 'after N s'),
                (r'(?m)^[$#] ?$', '$')):
            text = re.sub(pattern, to, text)
        return text.rstrip('\n') + '\n'

    def test_80x24(self):
        self.doctor(80, 24)
        self.assert_golden('doctor-80x24.txt', self.normal)
        self.assertIn('\033[', self.seen(styled=True))

    def test_200x50(self):
        self.doctor(200, 50, '--', self.build.program('drv_script'),
                    'alloc=1048576', 'sleep=3000', 'exit=3')
        self.assert_golden('doctor-200x50.txt', self.normal)


if __name__ == '__main__':
    unittest.main()
