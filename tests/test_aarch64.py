"""The library for the other architecture, where a cross compiler is there: it
builds, needs no symbol that this one lacks, and takes lookups (qemu-user)."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import harness

CC = 'aarch64-linux-gnu-gcc'
ROOT = '/usr/aarch64-linux-gnu'
OLDEST, FLOOR = (2, 17), (2, 34)  # glibc begins there; what README promises

DRIVER = 'int cuMemAlloc_v2(void) { return 3; } int cudbg(void) { return 4; }'
PROGRAM = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
static int is_ours(void *p)
{
	Dl_info info;
	return p && dladdr(p, &info) && strstr(info.dli_fname, "libgpupool");
}
int main(int argc, char **argv)
{
	void *next = dlsym(RTLD_NEXT, "fopen");
	void *first = dlsym(RTLD_DEFAULT, "fopen");
	void *driver = dlopen(argv[argc - 1], RTLD_NOW);
	if (!driver)
		return 1;
	printf("%d %d %d\n", next != NULL, next == first,
	       !dlsym(RTLD_NEXT, "no_such_function") && dlerror());
	printf("%d %d\n", is_ours(dlsym(driver, "cuMemAlloc_v2")),
	       is_ours(dlsym(driver, "cudbg")));
	return 0;
}
'''


class Aarch64(harness.CudaTest):

    @classmethod
    def setUpClass(cls):
        cls.why_not = None
        if not shutil.which(CC) or not os.path.exists(ROOT + '/include'):
            cls.why_not = 'no %s with its libc' % CC
        elif harness.current_build().san:
            cls.why_not = 'once is enough: not for sanitizers'
        if cls.why_not:
            return
        cls.place = tempfile.mkdtemp(prefix='gpupool-test-')
        cls.addClassCleanup(shutil.rmtree, cls.place, True)
        cls.library = os.path.join(cls.place, 'libgpupool.so')
        environ = {k: v for k, v in os.environ.items()
                   if k not in ('MAKEFLAGS', 'MFLAGS', 'SAN', 'CFLAGS')}
        cls.made = subprocess.run(
            ['nice', 'make', '-s', '-j2', '-C', harness.ROOT, 'SAN=',
             'B=' + cls.place, 'CC=' + CC, 'OPT=-O0', cls.library],
            env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def setUp(self):
        super().setUp()
        if self.why_not:
            self.skipTest(self.why_not)
        self.assertEqual(self.made.returncode, 0, self.made.stdout.decode())

    def test_symbol_versions(self):
        if not shutil.which('readelf'):
            self.skipTest('no readelf')
        text = subprocess.run(['readelf', '-VW', self.library],
                              stdout=subprocess.PIPE,
                              check=True).stdout.decode()
        versions = {tuple(map(int, v.split('.')))
                    for v in re.findall(r'GLIBC_([\d.]+)', text)}
        self.assertTrue(versions)
        self.assertGreaterEqual(min(versions), OLDEST)
        self.assertLessEqual(max(versions), FLOOR)

    def cross(self, name, source, *flags):
        path = os.path.join(self.dir, name)
        subprocess.run([CC, '-x', 'c', '-', '-o', path] + list(flags),
                       input=source.encode(), check=True)
        return path

    def test_lookups(self):
        qemu = shutil.which('qemu-aarch64') or shutil.which(
            'qemu-aarch64-static')
        if not qemu:
            self.skipTest('no qemu-aarch64')
        driver = self.cross('libcuda.so.1', DRIVER, '-shared', '-fPIC')
        program = self.cross('program', PROGRAM, '-ldl')
        for preload, ours in ('', b'0 0\n'), (self.library, b'1 0\n'):
            argv = [qemu, '-L', ROOT]
            if preload:
                argv += ['-E', 'LD_PRELOAD=' + preload]
            result = harness.run(argv + [program, driver],
                                 self.build.env(preload=False), cwd=self.dir)
            self.assert_ok(result)
            self.assertEqual(result.out, b'1 1 1\n' + ours)
            self.assertEqual(result.err, b'')


if __name__ == '__main__':
    unittest.main()
