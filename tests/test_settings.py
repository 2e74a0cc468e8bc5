"""The settings as a program meets them: files, names of programs, switched
off; and what `gpupool run` and `gpupool options` make of them."""
import json
import os
import re
import shutil
import sys
import unittest

import harness

GPUPOOL = os.path.join(harness.ROOT, 'scripts', 'gpupool')

# A library whose constructor, which runs before that of a preloaded one, asks
# for an entry point by both ways, and says whose it got.
EARLY = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void whose(const char *how, void *function)
{
	Dl_info info = {0};

	dladdr(function, &info);
	const char *slash = strrchr(info.dli_fname, '/');
	printf("%s: %s\n", how, slash ? slash + 1 : info.dli_fname);
}

__attribute__((constructor)) static void early(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
	int (*get)(const char *, void **, int, unsigned long long, void *);
	void *function = NULL;

	whose("dlsym", dlsym(cuda, "cuMemAlloc_v2"));
	get = dlsym(cuda, "cuGetProcAddress_v2");
	if (!get("cuMemAlloc", &function, 12000, 0, NULL))
		whose("cuGetProcAddress", function);
	fflush(stdout);
}
'''


class SettingsTest(harness.CudaTest):

    def script(self, *steps, **kwargs):
        return self.run_program(['drv_script'] + list(steps), **kwargs)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, 'w') as file:
            file.write(text)
        return path

    def settings(self):
        """Of the one report there is, by key; and its notes."""
        name, = [n for n in self.reports() if n.endswith('.json')]
        with open(os.path.join(self.dir, name)) as file:
            report = json.load(file)
        return ({s['key']: s['value'] for s in report['settings']},
                report['notes'])

    def lines(self, result):
        return [line for line in result.err.decode().splitlines()
                if 'report ' not in line]


class File(SettingsTest):

    def test_grammar(self):
        self.write('my settings', '\ufeff# a comment\r\n'
                   'max_split_size_mb:64, garbage_collection_threshold:0.8,\n'
                   '\n'
                   '  growth_factor : 1.5   # of mine\r\n'
                   'report_dir:"%s/a #b"\n'
                   'roundup_power2_divisions:[256:1,512:2]\n'
                   'only:xyz,\n'
                   'drv_*' % self.dir)
        os.mkdir(os.path.join(self.dir, 'a #b'))
        result = self.script('alloc=4096', conf='@"my settings"')
        self.assert_ok(result)
        self.assertEqual(self.lines(result), [])
        self.dir = os.path.join(self.dir, 'a #b')
        values, notes = self.settings()
        self.assertEqual(notes, [])
        self.assertEqual(values['max_split_size_mb'], '64MiB')
        self.assertEqual(values['garbage_collection_threshold'], '0.8')
        self.assertEqual(values['growth_factor'], '1.5')
        self.assertEqual(values['roundup_power2_divisions'],
                         '[256:1,512:2]')
        self.assertEqual(values['only'], '[xyz,drv_*]')
        self.assertEqual(values['report_dir'], self.dir)

    def test_what_follows_changes_it(self):
        self.write('f', 'growth_factor:1.5\nmax_split_size_mb:64\n')
        result = self.script('alloc=4096',
                             conf='check:1,@f,growth_factor:2,check:0')
        values, notes = self.settings()
        self.assertEqual((values['growth_factor'], values['check'],
                          values['max_split_size_mb']),
                         ('2.0', 'False', '64MiB'))
        self.assertEqual(len(notes), 1, str(result))  # check, given twice
        self.assertIn('check is given more than once', notes[0])

    def test_a_mistake_is_named_by_line(self):
        path = self.write('f', '\nquiet:maybe\n# x\ncheck:1\n@g\nquite:1')
        result = self.script('alloc=4096', conf='on_bad_limit:continue,@'
                             + path)
        self.assert_ok(result)
        self.assertEqual(
            [re.sub(r'(is \w+).*', r'\1', line)
             for line in self.lines(result)],
            ['gpupool: %s:2: quiet:maybe is refused' % path,
             'gpupool: %s:5: @g cannot be read: a file of settings cannot '
             'name another; no setting of it holds' % path,
             'gpupool: %s:6: quite:1 is ignored' % path])
        self.assertEqual(self.settings()[0]['check'], 'True')

    def test_read_where_the_program_was_started(self):
        self.write('f', 'check:True')
        os.mkdir(os.path.join(self.dir, 'elsewhere'))
        result = self.script('chdir=elsewhere', 'alloc=4096', conf='@f')
        self.assert_ok(result)
        self.assertEqual(self.settings()[0]['check'], 'True')

    def test_unreadable(self):
        os.mkfifo(os.path.join(self.dir, 'pipe'))
        self.write('large', '#' * 70000)
        for name, why in (
                ('none', 'No such file or directory (looked for in %s)'
                 % self.dir),
                ('/no/such/file', 'No such file or directory'),
                ('"', "a file's name is written @name"),
                ('', "a file's name is written @name"),
                ('a b', "a file's name is written @name"),
                ('.', 'Is a directory'),
                ('pipe', 'not a regular file'),
                ('/dev/null', 'not a regular file'),
                ('large', 'longer than 65536 bytes')):
            with self.subTest(name):
                result = self.script(
                    'sleep=1', 'alloc=4096',
                    conf='on_bad_limit:continue,@' + name + ',check:1')
                self.assert_ok(result)
                line, = self.lines(result)
                self.assertIn('gpupool: @%s cannot be read: %s'
                              % (name.rstrip(), why), line
                              .replace('@",check:1', '@"'))
                for report in self.reports():
                    os.unlink(os.path.join(self.dir, report))


class WithoutEffect(SettingsTest):

    def test_listed_once(self):
        """On stderr and in the report, all in one note."""
        result = self.script(
            'alloc=4096', 'alloc=4096', 'free=0',
            conf='pinned_free_catch_all:True,throw_on_cudamalloc_oom:False,'
            'pinned_use_background_threads:True,pinned_free_catch_all:True')
        line, = self.lines(result)
        _, notes = self.settings()
        self.assertEqual(['gpupool: ' + note for note in notes], [line])
        for key in ('pinned_free_catch_all', 'throw_on_cudamalloc_oom',
                    'pinned_use_background_threads'):
            self.assertEqual(line.count(key), 1)
        text, = [n for n in self.reports() if n.endswith('.txt')]
        with open(os.path.join(self.dir, text)) as file:
            text = file.read()
        self.assertEqual(text.count('without effect here'), 1)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)


class Off(SettingsTest):
    """enabled:False and only: as if the library were not preloaded."""

    def compare(self, conf, argv=None):
        argv = argv or [self.build.program('drv_script'), 'alloc=4096',
                        'threads=1', 'free=0', 'free=0', 'alloc=0',
                        'fork=exit', 'handled=1']
        ours = self.run_program(argv, conf=conf)
        plain = self.run_program(argv, preload=False)
        self.assertEqual((ours.status, ours.out, ours.err),
                         (plain.status, plain.out, plain.err))
        self.assertEqual(self.reports(), [])

    def acts(self, argv, conf, **kwargs):
        """Whether a report was written, as the sign of life."""
        result = self.run_program(argv, conf=conf, **kwargs)
        self.assert_ok(result)
        found = self.reports()
        for name in found:
            os.unlink(os.path.join(self.dir, name))
        return bool(found)

    def test_off(self):
        self.compare('enabled:False')
        self.compare('enabled:False,memory_limit:nonsense')
        self.compare('only:python*,train')

    def test_looked_up_early(self):
        library = self.compile('early.so', EARLY, '-shared', '-fPIC', '-ldl')
        program = self.compile('early', 'int main(void) { return 0; }',
                               '-Wl,--no-as-needed', '-L', self.dir,
                               '-l:' + os.path.basename(library),
                               '-Wl,-rpath,' + self.dir)
        plain = self.run_program([program], preload=False)
        self.assertIn(b'cuGetProcAddress: libcuda.so.1', plain.out)
        for conf in 'enabled:False', 'only:[python*,train]':
            ours = self.run_program([program], conf=conf)
            self.assertEqual(ours.out, plain.out, str(ours))
        ours = self.run_program([program])
        self.assertEqual(ours.out.count(b'libgpupool.so'), 2, str(ours))

    def test_names(self):
        real = self.build.program('drv_script')
        link = os.path.join(self.dir, 'train-link')
        os.symlink(real, link)
        for conf, acts in (('only:drv_script', True), ('only:drv_*', True),
                           ('only:x,drv_?cript', True), ('only:drv', False),
                           ('only:train-link', True), ('only:*', True),
                           ('only:[train*,x]', True), ('only:rv_*', False)):
            self.assertEqual(self.acts([link, 'alloc=4096'], conf), acts,
                             conf)

    def test_scripts(self):
        """Run by the kernel or by hand, a script has its own name, too."""
        work = ('#!%s\nimport ctypes\n'
                'cuda = ctypes.CDLL("libcuda.so.1")\n'
                'context, at = ctypes.c_void_p(), ctypes.c_uint64()\n'
                'cuda.cuInit(0)\n'
                'cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n'
                'cuda.cuCtxSetCurrent(context)\n'
                'cuda.cuMemAlloc_v2(ctypes.byref(at), ctypes.c_size_t(64))\n'
                % sys.executable)
        path = self.write('train', work)
        os.chmod(path, 0o755)
        python = [sys.executable, '-u', '-B']
        self.assertTrue(self.acts([path], 'only:train'))
        self.assertTrue(self.acts(python + [path], 'only:train'))
        self.assertTrue(self.acts(python + ['train'], 'only:[x,train]'))
        self.assertTrue(self.acts(python + [path], 'only:python*'))
        self.assertFalse(self.acts(python + [path], 'only:tra'))
        self.assertFalse(self.acts(python + ['-c', work, 'train'],
                                   'only:train'))
        # What another program is given is no script.
        self.assertFalse(self.acts([self.build.program('drv_script'),
                                    'alloc=4096'], 'only:*4096'))


class CommandTest(SettingsTest):

    def gpupool(self, *args, conf='', **kwargs):
        env = self.build.env(preload=False)
        env['XDG_RUNTIME_DIR'] = self.dir
        if conf:
            env['GPUPOOL_CONF'] = conf
        return harness.run([sys.executable, GPUPOOL] + list(args), env,
                           cwd=kwargs.pop('cwd', self.dir), **kwargs)

    def run_it(self, settings, *words, **kwargs):
        return self.gpupool('run', '--lib', self.build.lib, '--conf', settings,
                            '--', *(words or ('echo', 'started')), **kwargs)


class Run(CommandTest):

    def test_a_lost_limit_stops_it(self):
        for conf, word in (('memory_limit:8', 'memory_limit:8 is refused'),
                           ('memory_limt:8GiB', 'memory_limit'),
                           ('check:1,host_limit:x', 'host_limit:x'),
                           ('per_process_memory_fraction:2', 'out of range'),
                           ('@nowhere', '@%s/nowhere cannot be read'
                            % self.dir)):
            result = self.run_it(conf)
            self.assertEqual((result.status, result.out), (125, b''), conf)
            text = ' '.join(result.err.decode().split())
            self.assertTrue(text.startswith('gpupool: '), text)
            self.assertIn(word, text)
            self.assertIn('The program was not started', text)
            self.assertIn('on_bad_limit:continue', text)
            self.assertLess(max(map(len, result.err.splitlines())), 240)
            for more in 'on_bad_limit:continue', 'enabled:False':
                result = self.run_it(conf + ',' + more)
                self.assertEqual((result.status, result.out),
                                 (0, b'started\n'), str(result))
        self.assert_ok(self.gpupool('run', '--lib', self.build.lib, '--',
                                    'true', conf='memory_limit:x'), 125)

    def test_other_mistakes_do_not(self):
        result = self.run_it('nonsense,quiet:maybe,memory_limit:1GiB')
        self.assertEqual((result.status, result.out, result.err),
                         (0, b'started\n', b''))

    def test_the_file_is_named_from_the_root(self):
        for conf, expected in (
                ('@f', '@%s/f'), ('@../f ,quiet:1', None),
                ('@"my file",quiet:1', '@"%s/my file",quiet:1'),
                (r'@"a\"b"', r'@"%s/a\"b"'), ('@/etc/f', '@/etc/f'),
                # These are not names; the library says so.
                ('@my file', '@my file'), ('@', '@'), ('@"f', '@"f'),
                ('@"f"g', '@"f"g')):
            expected = (expected or '@%s/f ,quiet:1' % os.path.dirname(
                self.dir)).replace('%s', self.dir)
            result = self.run_it(conf, 'sh', '-c', 'echo "$GPUPOOL_CONF"',
                                 conf='on_bad_limit:continue')
            self.assertEqual(result.out.decode().strip(),
                             'on_bad_limit:continue,' + expected)
        for conf in '@f,check:1', 'check:1,@f':
            result = self.gpupool('run', '--lib', self.build.lib, '--',
                                  'true', conf=conf)
            self.assert_ok(result, 125)

    def test_nothing_intercepted_is_no_wonder(self):
        drv = self.build.program('drv_script')
        for conf in 'enabled:False', 'only:train':
            result = self.run_it(conf, drv, 'alloc=4096')
            self.assertEqual((result.status, result.err), (0, b''),
                             str(result))


class Options(CommandTest):

    def ask(self, *args, **kwargs):
        return self.gpupool('options', '--lib', self.build.lib, *args,
                            **kwargs)

    def known(self):
        result = self.ask('--json')
        self.assert_ok(result)
        return json.loads(result.out.decode())

    def test_all_of_the_table(self):
        known = self.known()
        result = self.ask()
        self.assertEqual((result.status, result.err), (0, b''))
        text = result.out.decode()
        self.assertNotIn('\033', text)
        self.assertLessEqual(max(map(len, text.splitlines())), 80)
        self.assertGreater(len(known['options']), 20)
        flat = ' '.join(text.split())
        for option in known['options']:
            self.assertRegex(text, r'(?m)^%s +%s$' % (
                re.escape(option['key']), re.escape(option['default'])))
            for part in 'help', 'accepted':
                self.assertIn(' '.join(option[part].replace('`', "'")
                                       .split()), flat)
            self.assertTrue(option['is_default'])
        for option in known['without_effect']:
            self.assertIn('%s: %s' % (option['key'], option['why']), flat)
        with open(os.path.join(harness.ROOT, 'conf', 'options.def')) as file:
            table = file.read()
        self.assertEqual(
            re.findall(r'(?m)^GP_(?:OPTION|FOREIGN)\(\s*(\w+)', table),
            [o['key'] for o in known['options'] + known['without_effect']])

    def test_one(self):
        lines = self.ask('memory_limit').out.decode().splitlines()
        self.assertRegex(lines[0], '^memory_limit +unlimited$')
        self.assertEqual([l for l in lines[1:] if l[0] != ' '], [])
        keys = [o['key'] for o in json.loads(
            self.ask('cache', '--json').out.decode())['options']]
        self.assertEqual(keys, ['cache_policy', 'cache_decay_ms'])
        keys = [o['key'] for o in json.loads(
            self.ask('limit', '--json').out.decode())['options']]
        self.assertEqual(keys, ['memory_limit', 'host_limit', 'on_bad_limit'])
        result = self.ask('pinned_free_catch_all')
        self.assertIn(b'does not pool host memory', result.out)
        result = self.ask('memory_limt')
        self.assert_ok(result, 2)
        self.assertIn(b'the nearest is memory_limit', result.err)
        self.assert_ok(self.ask('zzzz'), 2)

    def test_what_is_set(self):
        conf = 'memory_limit:[0:8GiB],quiet:maybe,report_dir:"/a b\\""'
        result = self.ask('memory_limit', conf=conf)
        self.assertRegex(result.out.decode(),
                         r'^memory_limit +unlimited, now \[0:8GiB\]\n')
        self.assertIn(b'gpupool: GPUPOOL_CONF: quiet:maybe is refused',
                      result.err)
        known = json.loads(self.ask('report_dir', '--json',
                                    conf=conf).out.decode())
        self.assertEqual(known['options'][0]['value'], '"/a b\\""')
        self.assertEqual((known['refused'], known['limit_is_bad']),
                         (1, False))

    def test_a_reader_that_leaves(self):
        env = self.build.env(preload=False)
        result = harness.run(
            ['sh', '-c', '%s %s options --lib %s | head -n 1' % (
                sys.executable, GPUPOOL, self.build.lib)], env)
        self.assertEqual((result.status, result.err), (0, b''))

    def test_version(self):
        result = harness.run([sys.executable, GPUPOOL, '--version'],
                             self.build.env(preload=False))
        if result.status == 125:
            self.skipTest('no build in build/')
        self.assertRegex(result.out.decode(),
                         r'^gpupool \d+\.\d+\.\d+ \(/.*libgpupool\.so\)\n$')

    def test_a_library_alone(self):
        """Its table cannot be asked, but it runs."""
        alone = os.path.join(self.dir, 'libgpupool.so')
        shutil.copy(self.build.lib, alone)
        result = self.gpupool('options', '--lib', alone)
        self.assert_ok(result, 125)
        self.assertIn(b'no gpupool-conf beside', result.err)
        self.assert_ok(self.gpupool('run', '--lib', alone, '--conf',
                                    'check:1', '--', 'true'))


if __name__ == '__main__':
    unittest.main()
