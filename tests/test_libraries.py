"""Libraries that reach the driver around gpupool, or memory without a stream:
found whenever they are loaded, named in the report, and minded."""
import json
import os
import unittest

import harness
from work_rows import read

PROGRAM = '''
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
typedef int any();
static any *fn(const char *name)
{
    static void *driver;
    if (!driver)
        driver = dlopen("libcuda.so.1", RTLD_NOW);
    return (any *)dlsym(driver, name);
}
static void churn(void)
{
    unsigned long long p[4];
    for (int i = 0; i < 4; i++)
        printf("%d ", fn("cuMemAlloc_v2")(&p[i], (size_t)(100 << 4 * i)));
    for (int i = 0; i < 4; i++)
        printf("%d ", fn("cuMemFree_v2")(p[i]));
    printf("\\n");
}
int main(int argc, char **argv)
{
    void *ctx, *lib;

    setvbuf(stdout, NULL, _IONBF, 0);
    fn("cuInit")(0);
    fn("cuDevicePrimaryCtxRetain")(&ctx, 0);
    fn("cuCtxSetCurrent")(ctx);
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "churn")) {
            churn();
        } else if (!strncmp(argv[i], "ask=", 4)) {
            lib = dlopen(argv[i] + 4, RTLD_NOW);
            printf("ask %d\\n", ((any *)dlsym(lib, "ask"))());
        } else {
            int deep = argv[i][0] == 'd';

            lib = dlopen(argv[i] + 2, RTLD_NOW | (deep ? RTLD_DEEPBIND : 0));
            printf("%s: %s\\n", argv[i] + 2, lib ? "loaded" : "not found");
        }
    }
    return 0;
}
'''

ASK = '''
#include <dlfcn.h>
int ask(void)
{
    void *volatile found = dlsym(dlopen("libcuda.so.1", RTLD_NOW),
                                 "cuMemAlloc_v2");
    return found != 0;
}
'''

AROUND = 'libraries that reach the driver around gpupool'
DIRECT = 'libraries that let memory be reached'


class Libraries(harness.CudaTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('sanitizers do not bear RTLD_DEEPBIND')
        self.program = self.compile('program', PROGRAM, '-w', '-ldl')

    def library(self, name, source='int gp_nothing;', *flags):
        return self.compile(name, source, '-shared', '-fPIC', '-ldl',
                            '-Wl,-soname,' + os.path.basename(name), *flags)

    def notes(self, *args, conf=''):
        """The notes of the report, and the pool's figures."""
        for old in self.reports():
            os.unlink(os.path.join(self.dir, old))
        result = self.run_program([self.program] + list(args), conf=conf)
        self.assert_ok(result)
        path = [n for n in self.reports() if n.endswith('.json')]
        self.assertEqual(len(path), 1, str(result))
        report = json.loads(read(self.dir, path[0]))
        return report['notes'], report['pools'][0], result

    def test_nothing_to_say(self):
        plain = self.library('libplain.so')
        notes, stats, _ = self.notes('churn', 'o:' + plain, 'churn')
        self.assertEqual(notes, [])
        self.assertEqual(stats['num_waits'], 0)

    def test_deepbind(self):
        lib = self.library('libdeep.so')
        for args in (['d:' + lib, 'churn'], ['churn', 'd:' + lib, 'churn']):
            notes, stats, _ = self.notes(*args)
            self.assertEqual(len(notes), 1, notes)
            self.assertTrue(notes[0].startswith(AROUND), notes)
            self.assertTrue(notes[0].endswith(': libdeep.so'), notes)
            self.assertEqual(stats['num_waits'], 4)

    def test_deepbind_of_nothing(self):
        notes, stats, _ = self.notes('churn', 'd:/no/such/lib.so', 'churn')
        self.assertEqual(notes, [])
        self.assertEqual(stats['num_waits'], 0)

    def test_work_by_other_doors(self):
        for name in 'libnvoptix.so.1', 'libnvcuvid.so.1', \
                'libnvidia-encode.so.1':
            lib = self.library(name)
            user = self.library('libuser.so', 'int gp_user;',
                                '-Wl,--no-as-needed', '-x', 'none', lib,
                                '-Wl,-rpath,' + self.dir)
            for opened in lib, user:
                notes, stats, _ = self.notes('churn', 'o:' + opened, 'churn')
                self.assertEqual([n for n in notes if AROUND in n], notes)
                self.assertTrue(notes[0].endswith(': ' + name), notes)
                self.assertEqual(stats['num_waits'], 4, opened)

    def test_memory_reached_without_a_stream(self):
        for name in 'libibverbs.so.1', 'libgdrapi.so.2':
            lib = self.library(name)
            for args in (['o:' + lib, 'churn'], ['churn', 'o:' + lib, 'churn']):
                notes, stats, _ = self.notes(*args)
                self.assertEqual(len(notes), 1, notes)
                self.assertTrue(notes[0].startswith(DIRECT), notes)
                self.assertTrue(notes[0].endswith(': ' + name), notes)
                self.assertEqual(stats['num_waits'], 0)

    def test_storage_once_it_is_used(self):
        lib = self.library('libcufile.so.0', ASK)
        notes, _, _ = self.notes('churn', 'o:' + lib, 'churn')
        self.assertEqual(notes, [])
        notes, _, _ = self.notes('churn', 'ask=' + lib, 'churn')
        self.assertEqual(len(notes), 1, notes)
        self.assertTrue(notes[0].startswith(DIRECT), notes)

    def test_threads_do_not_look_all_the_time(self):
        if self.build.san == 'address':
            self.skipTest('counts calls that AddressSanitizer needs')
        self.assert_ok(self.run_program(['drv_looks', '40000']))

    def test_the_caller_is_who_it_was(self):
        """What a library opens is searched for where that library says."""
        os.mkdir(os.path.join(self.dir, 'sub'))
        self.library('sub/libhidden.so')
        opener = self.library('libopener.so', '''
            #include <dlfcn.h>
            int ask(void)
            {
                void *volatile lib = dlopen("libhidden.so", RTLD_NOW);
                return lib != 0;
            }''', '-Wl,-rpath,$ORIGIN/sub')
        _, _, result = self.notes('churn', 'ask=' + opener)
        self.assertIn(b'ask 1', result.out)


if __name__ == '__main__':
    unittest.main()
