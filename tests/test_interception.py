"""How the library stands between a program and the driver: every door is
found, nothing else is disturbed, and nothing is needed to load it."""
import json
import os
import re
import shutil
import subprocess
import sys
import unittest

import harness

DOORS = ['linked', 'handle', 'default', 'null', 'next', 'global', 'v1', 'v2',
         'linked-v2', 'nested']

# The C library that the library must still load with: Debian 11, Ubuntu 22.04
# (PyTorch's and NVIDIA's images) and later; RHEL 9 is 2.34.
GLIBC_FLOOR = (2, 34)

MARKER = '''
#define _GNU_SOURCE
#include <dlfcn.h>
int gp_marker(void) { return 1; }
int cudaLike(void) { return 1; }
int cuLike(void) { return 1; }
int curl_easy_init(void) { return 1; }
int cuMemAlloc_v2Like(void) { return 1; }
/* A pointer that the compiler cannot turn into a tail call, so that the
   return address lies in this library. */
void *gp_marker_next(void)
{
    void *volatile found = dlsym(RTLD_NEXT, "gp_marker");
    return found;
}
'''


class InterceptionTest(harness.CudaTest):

    def pool_calls(self):
        """What the one exit report says went through the pool."""
        name, = [n for n in self.reports() if n.endswith('.exit.json')]
        with open(os.path.join(self.dir, name)) as file:
            report = json.load(file)
        for other in self.reports():
            os.unlink(os.path.join(self.dir, other))
        return (sum(p['num_alloc_calls'] for p in report['pools']),
                sum(p['num_free_calls'] for p in report['pools']))

    def python(self, code, **kwargs):
        """Python is a foreign program that opens libraries by itself."""
        return self.run_program([sys.executable, '-c', code], **kwargs)


class Doors(InterceptionTest):

    def test_every_door_leads_to_the_pool(self):
        for door in DOORS:
            with self.subTest(door):
                result = self.run_program(['ld_doors', door],
                                          conf='quiet:True')
                self.assert_ok(result)
                self.assertEqual(self.pool_calls(), (3, 3))

    def test_the_runtime(self):
        """Shared and static cudart."""
        for program in 'rt_frees', 'rt_frees-static':
            with self.subTest(program):
                self.assert_ok(self.run_program([program]))
                allocs, frees = self.pool_calls()
                self.assertGreater(allocs, 5)
                self.assertGreater(frees, 5)

    def test_ctypes(self):
        result = self.python('''
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, p = ctypes.c_void_p(), ctypes.c_uint64()
print(cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0),
      cuda.cuCtxSetCurrent(context),
      cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)),
      cuda.cuMemFree_v2(p))
''')
        self.assert_ok(result)
        self.assertEqual(result.out, b'0 0 0 0 0\n')
        self.assertEqual(self.pool_calls(), (1, 1))

    def test_a_driver_opened_by_path(self):
        """The file's full name, RTLD_LOCAL, and nobody linked to it."""
        result = self.python('''
import ctypes, os
cuda = ctypes.CDLL(%r, mode=os.RTLD_NOW | os.RTLD_LOCAL)
context, p = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
print(cuda.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20)))
''' % os.path.join(self.build.sim, 'libcuda.so.1'))
        self.assertEqual(result.out, b'0\n', str(result))
        self.assertEqual(self.pool_calls(), (1, 0))


class Driver(InterceptionTest):

    def test_the_drivers_own_lookups(self):
        """At initialisation the driver asks dlsym for its own cuInit, and
        must get it."""
        result = self.python('''
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
print(cuda.gpusim_self_lookup(), cuda.cuInit(0), cuda.gpusim_self_lookup())
''')
        self.assert_ok(result)
        self.assertEqual(result.out, b'-1 0 1\n')

    def test_lookups_of_nvidias_other_libraries(self):
        """The same holds for the libraries that come with the driver, and for
        every function that is otherwise replaced."""
        path = self.compile('libnvidia-helper.so.1', '''
            #include <dlfcn.h>
            void *ask(void *handle, const char *name)
            {
                void *volatile found = dlsym(handle, name);
                return found;
            }''', '-shared', '-fPIC')
        result = self.python('''
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
helper = ctypes.CDLL(%r)
helper.ask.restype = ctypes.c_void_p
helper.ask.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
for name in "cuMemAlloc_v2", "cuMemFree_v2", "cuGetProcAddress_v2":
    address = helper.ask(cuda._handle, name.encode())
    for line in open("/proc/self/maps"):
        low, high = [int(x, 16) for x in line.split()[0].split("-")]
        if low <= address < high:
            print(name, line.split()[-1].rsplit("/")[-1])
''' % path)
        self.assert_ok(result)
        self.assertEqual(result.out.decode().splitlines(),
                         ['%s libcuda.so.1' % name for name in (
                             'cuMemAlloc_v2', 'cuMemFree_v2',
                             'cuGetProcAddress_v2')])

    def calls(self, work, preload):
        """Driver calls by name, as the simulated driver counts them."""
        path = os.path.join(self.dir, 'stats')
        result = self.python(
            'import ctypes\ncuda = ctypes.CDLL("libcuda.so.1")\n' + work,
            preload=preload, sim='stats:' + path, conf='quiet:True')
        self.assert_ok(result)
        counts = {}
        with open(path) as file:
            for line in file:
                key, value = line.split()
                if re.search(r'\bcu[A-Z]\w*$', key) and value != '0':
                    counts[key] = value
        self.assertTrue(counts)
        return counts

    def test_nothing_is_initialised_before_it_is_needed(self):
        """Programs that look but do not allocate cause not one driver call
        of ours, least of all inside the driver's own callbacks."""
        work = '''
n = ctypes.c_int()
cuda.cuMemAlloc_v2, cuda.cuMemFree_v2, cuda.cuCtxCreate_v4
table = ctypes.c_void_p()
cuda.cuGetExportTable(ctypes.byref(table), bytes(16))
cuda.cuDriverGetVersion(ctypes.byref(n))
cuda.cuInit(0)
cuda.cuDeviceGetCount(ctypes.byref(n))
p = ctypes.c_void_p()
for i in range(3):
    cuda.cuGetProcAddress_v2(b"cuMemAlloc", ctypes.byref(p), 12000,
                             ctypes.c_uint64(0), None)
'''
        self.assertEqual(self.calls(work, False), self.calls(work, True))

    def test_foreign_frees_reach_the_driver(self):
        """A pointer that is not ours is answered by the driver, each time."""
        work = '''
context, p = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
for i in range(5):
    assert cuda.cuMemFree_v2(ctypes.c_uint64(0x1234000)) == 1
    assert cuda.cuMemAllocAsync(ctypes.byref(p), ctypes.c_size_t(4096),
                                None) == 0
    assert cuda.cuMemFreeAsync(p, None) == 0
    assert cuda.cuMemAllocManaged(ctypes.byref(p), ctypes.c_size_t(4096),
                                  1) == 0
    assert cuda.cuMemFree_v2(p) == 0
'''
        for preload in False, True:
            calls = self.calls(work, preload)
            found = {name: int(value) for key, value in calls.items()
                     for name in [re.search(r'cu\w+$', key).group(0)]}
            self.assertEqual(
                [found.get(name) for name in ('cuMemFree_v2',
                                              'cuMemFreeAsync',
                                              'cuMemAllocAsync')],
                [10, 5, 5], calls)


class Linker(InterceptionTest):

    def test_rtld_next_sees_its_true_caller(self):
        """Of two libraries, one before and one after ours, a search from the
        program finds the first and one from the first finds the second; were
        we taken for the caller, both would find the second."""
        first = self.compile('libfirst.so', MARKER, '-shared', '-fPIC')
        second = self.compile('libsecond.so', MARKER, '-shared', '-fPIC')
        asan = self.build.sanitizer_runtime()
        outputs = []
        for middle in [], [self.build.lib]:
            preload = ' '.join(([asan] if asan else []) + [first] + middle
                               + [second])
            result = self.run_program(['ld_next', first],
                                      env={'LD_PRELOAD': preload})
            self.assert_ok(result)
            outputs.append(result.out.decode())
        self.assertEqual(outputs[0], outputs[1])
        for line in ('gp_marker next: libfirst.so',
                     'gp_marker default: libfirst.so',
                     'gp_marker after the library: libsecond.so',
                     "'curl_easy_init': libfirst.so, error 0",
                     "'cuLike' next: libfirst.so, error 0",
                     "'cudaMallocLike': nowhere, error 1"):
            self.assertIn(line + '\n', outputs[1])

    def test_a_search_of_the_whole_program(self):
        """It finds our own export first, which is no driver to learn from:
        the call would never end."""
        program = self.compile('whole', '''
            #include <dlfcn.h>
            #include <stdio.h>
            int main(void)
            {
                void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
                int (*init)(unsigned) =
                    (int (*)(unsigned))dlsym(driver, "cuInit");
                int (*alloc)(unsigned long long *, unsigned long) =
                    (int (*)(unsigned long long *, unsigned long))
                        dlsym(dlopen(0, RTLD_NOW), "cuMemAlloc_v2");
                unsigned long long address;

                printf("%d", alloc(&address, 100));
                printf(" %d", init(0));
                printf(" %d\\n", alloc(&address, 100));
                return 0;
            }''', '-ldl')
        for preload in False, True:
            result = self.run_program([program], preload=preload)
            self.assert_ok(result)
            self.assertEqual(result.out, b'3 0 201\n')

    def test_lookups_before_any_constructor(self):
        """Other preloads look things up while the linker still works."""
        early = self.compile('libearly.so', '''
            #define _GNU_SOURCE
            #include <dlfcn.h>
            #include <stdio.h>
            static void *found[4];
            __attribute__((constructor)) static void early(void)
            {
                found[0] = dlsym(RTLD_NEXT, "open");
                found[1] = dlsym(RTLD_NEXT, "open");
                found[2] = dlsym(RTLD_DEFAULT, "cuMemAlloc_v2");
                found[3] = dlsym(NULL, "cudaMalloc");
                dprintf(1, "%d %d %d %d\\n", found[0] != 0,
                        found[0] == found[1], found[2] != 0, found[3] != 0);
            }''', '-shared', '-fPIC')
        for order in (self.build.preload() + ' ' + early,
                      (self.build.sanitizer_runtime() + ' ' + early + ' '
                       + self.build.lib).strip()):
            result = self.run_program(['/bin/sh', '-c', 'exit 0'],
                                      env={'LD_PRELOAD': order})
            self.assert_ok(result)
            self.assertEqual(result.out, b'1 1 1 1\n')

    def readelf(self, *flags):
        if not shutil.which('readelf'):
            self.skipTest('no readelf')
        return subprocess.run(['readelf', '-W'] + list(flags)
                              + [self.build.lib], stdout=subprocess.PIPE,
                              check=True).stdout.decode()

    def test_needs_nothing_but_libc(self):
        needed = re.findall(r'NEEDED.*\[(.*)\]', self.readelf('-d'))
        self.assertIn('libc.so.6', needed)
        own = re.compile(r'(libc\.so\.6|libdl\.so\.2|libpthread\.so\.0|'
                         r'ld-linux.*|linux-vdso.*|libm\.so\.6%s)$' % (
                             '|lib[aut]?san.*|libubsan.*|libgcc_s.*'
                             '|libstdc.*' if self.build.san else ''))
        self.assertEqual([n for n in needed if not own.match(n)], [])

    def test_loads_with_an_older_libc(self):
        if self.build.san:
            self.skipTest('a sanitized build is for this machine')
        versions = {tuple(map(int, v.split('.'))) for v in re.findall(
            r'GLIBC_([\d.]+)', self.readelf('-V'))}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions), GLIBC_FLOOR)

    def test_exports_are_the_hooks_and_no_more(self):
        names = re.findall(r'(?:FUNC|OBJECT|IFUNC)\s+(?:GLOBAL|WEAK)\s+'
                           r'\w+\s+\d+\s+(\S+)', self.readelf('--dyn-syms'))
        ours = {name.split('@')[0] for name in names}
        strange = {n for n in ours if not re.match(
            r'(cu[A-Z]\w+|cuda[A-Z]\w+|dlopen|dlsym|_exit|_Exit|'
            r'quick_exit|gpupool_\w+|nvmlDevice\w+)$', n)}
        if not self.build.san:
            self.assertEqual(strange, set())
        self.assertIn('dlsym', ours)
        self.assertIn('cuMemAlloc_v2', ours)


if __name__ == '__main__':
    unittest.main()
