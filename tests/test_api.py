"""gpupool.h: one program, with the library and without, in C and C++; and the
Python module over it."""
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys

import harness

HEADER = os.path.join(harness.ROOT, 'shim')
SCRIPTS = os.path.join(harness.ROOT, 'scripts')
MIB = 1 << 20

# The runtime, declared here so that no CUDA header is needed.
START = r'''
#include <gpupool.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cudaMalloc(void **, size_t);
int cudaFree(void *);
#define CHECK(x) do { if (!(x)) { \
    printf("line %d: %s\n", __LINE__, #x); exit(1); } } while (0)
'''

WHOLE = START + r'''
#define MIB ((uint64_t)1 << 20)
int main(void)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    uint64_t freed = 77, free_bytes, total;
    void *large, *small;
    char *text;
    long n;

    if (!gpupool_loaded()) {
        CHECK(!gpupool_figures && !gpupool_mark && !gpupool_stats);
        puts("not loaded");
        return 0;
    }
    /* Before the GPU was touched: nothing there, and nothing started. */
    errno = 99;
    CHECK(gpupool_api_version() == GPUPOOL_API_VERSION);
    CHECK(gpupool_figures(GPUPOOL_CURRENT_DEVICE, &f) == 0);
    CHECK(f.size == sizeof(f) && f.reserved_bytes.peak == 0);
    CHECK(gpupool_figures(7, &f) == 0 && f.device_bytes == 0);
    CHECK(gpupool_trim(GPUPOOL_ALL_DEVICES, &freed) == 0 && freed == 0);
    CHECK(gpupool_reset_peak(0) == 0);
    CHECK(gpupool_memory(0, &free_bytes, &total) == 0 && total == 0);
    CHECK(gpupool_set_limit(0, 100 * MIB) == -EAGAIN);
    CHECK(gpupool_mark("before") == 0);
    CHECK(errno == 99);

    CHECK(cudaMalloc(&large, 5 * MIB) == 0);
    CHECK(cudaMalloc(&small, 1000) == 0);
    errno = 99;
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.current == 5 * MIB + 1024);
    CHECK(f.requested_bytes.current == 5 * MIB + 1000);
    CHECK(f.allocation.allocated == 2 && f.num_alloc_calls == 2);
    CHECK(f.reserved_bytes.current == 8 * MIB);
    CHECK(f.device_bytes == 1024 * MIB);
    CHECK(gpupool_mark("train") == 0);
    CHECK(cudaFree(large) == 0);
    CHECK(gpupool_memory(0, &free_bytes, &total) == 0);
    CHECK(total == 1024 * MIB && free_bytes < total);
    CHECK(gpupool_trim(0, &freed) == 0 && freed == 6 * MIB);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.current == 1024);
    CHECK(f.allocated_bytes.peak == 5 * MIB + 1024);
    CHECK(f.reserved_bytes.current == 2 * MIB);
    CHECK(gpupool_reset_peak(GPUPOOL_ALL_DEVICES) == 0);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.peak == 1024);
    CHECK(f.reserved_bytes.peak == 2 * MIB);
    CHECK(gpupool_mark(NULL) == 0);

    /* Mistakes. */
    CHECK(gpupool_figures(0, NULL) == -EINVAL);
    CHECK(gpupool_figures(-3, &f) == -EINVAL);
    CHECK(gpupool_figures(1, &f) == -ENODEV);
    CHECK(gpupool_trim(9, NULL) == -ENODEV);
    CHECK(gpupool_set_limit(1, MIB) == -ENODEV);
    CHECK(gpupool_set_limit(-3, MIB) == -EINVAL);
    CHECK(gpupool_reset_peak(9) == -ENODEV);
    CHECK(gpupool_stats(0, NULL, 5) == -EINVAL);
    CHECK(gpupool_memory(0, NULL, &total) == -EINVAL);
    CHECK(gpupool_memory(GPUPOOL_ALL_DEVICES, &free_bytes, &total) ==
          -EINVAL);

    /* Other versions of the structure: a shorter and a longer one. */
    unsigned char big[sizeof(f) + 64];
    memset(big, 0xee, sizeof(big));
    *(size_t *)big = sizeof(big);
    CHECK(gpupool_figures(0, (struct gpupool_figures *)big) == 0);
    CHECK(*(size_t *)big == sizeof(f) && big[sizeof(big) - 1] == 0);
    memset(big, 0xee, sizeof(big));
    *(size_t *)big = offsetof(struct gpupool_figures, requested_bytes);
    CHECK(gpupool_figures(0, (struct gpupool_figures *)big) == 0);
    CHECK(((struct gpupool_figures *)big)->allocated_bytes.current == 1024);
    CHECK(big[offsetof(struct gpupool_figures, requested_bytes)] == 0xee);

    /* Text: cut, and whole. */
    n = gpupool_stats(0, NULL, 0);
    CHECK(n > 1000);
    text = malloc(n + 100);
    memset(text, 'x', n + 100);
    CHECK(gpupool_stats(0, text, 10) >= n && strlen(text) == 9);
    CHECK(text[10] == 'x');
    n = gpupool_stats(0, text, n + 100);
    CHECK((long)strlen(text) == n);
    fputs(text, stdout);
    n = gpupool_summary(GPUPOOL_ALL_DEVICES, NULL, 0);
    CHECK(n > 1000);
    CHECK(errno == 99);
    return 0;
}
'''

# What a program may write where gpupool is switched off.
OFF = START + r'''
int main(void)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    void *p;

    CHECK(cudaMalloc(&p, 4096) == 0);
    CHECK(gpupool_figures(0, &f) == -EOPNOTSUPP);
    CHECK(gpupool_mark("x") == -EOPNOTSUPP);
    CHECK(gpupool_trim(0, NULL) == -EOPNOTSUPP);
    return 0;
}
'''

# Threads that mark, read, trim and allocate at the same time.
THREADS = START + r'''
#include <pthread.h>
static void *work(void *arg)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    char text[64], name[16];

    for (int i = 0; i < 300; i++) {
        void *p;
        size_t bytes = (i * 7919 + (size_t)arg * 104729) % 3000000 + 1;

        CHECK(cudaMalloc(&p, bytes) == 0);
        snprintf(name, sizeof(name), "section %d", i % 5);
        CHECK(gpupool_mark(name) == 0);
        CHECK(gpupool_figures(0, &f) == 0);
        CHECK(f.allocated_bytes.current >= bytes);
        CHECK(f.allocated_bytes.peak >= f.allocated_bytes.current);
        CHECK(f.reserved_bytes.current >= f.allocated_bytes.current);
        if (i % 10 == 0)
            CHECK(gpupool_trim(0, NULL) == 0);
        if (i % 7 == 0)
            CHECK(gpupool_stats(0, text, sizeof(text)) > 0);
        if (i % 11 == 0)
            CHECK(gpupool_reset_peak(0) == 0);
        CHECK(cudaFree(p) == 0);
    }
    return NULL;
}
int main(void)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    pthread_t threads[6];

    for (size_t i = 0; i < 6; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    for (size_t i = 0; i < 6; i++)
        pthread_join(threads[i], NULL);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.current == 0 && f.num_alloc_calls == 1800);
    return 0;
}
'''

TORCH_KEYS = (
    ['%s.%s.%s' % (name, pool, stat)
     for name in ('allocation', 'segment', 'active', 'inactive_split',
                  'allocated_bytes', 'reserved_bytes', 'active_bytes',
                  'inactive_split_bytes', 'requested_bytes')
     for pool in ('all', 'large_pool', 'small_pool')
     for stat in ('current', 'peak', 'allocated', 'freed')]
    + ['oversize_%s.%s' % (name, stat) for name in ('allocations', 'segments')
       for stat in ('current', 'peak', 'allocated', 'freed')]
    + ['num_alloc_retries', 'num_ooms', 'num_sync_all_streams',
       'num_device_alloc', 'num_device_free', 'max_split_size'])


class ApiTest(harness.CudaTest):

    def setUp(self):
        super().setUp()
        if self.build.san:
            self.skipTest('the programs made here are not sanitized')

    def make(self, source, *flags):
        return self.compile('program', source, '-Wall', '-Werror', '-I',
                            HEADER, '-L', self.build.sim, '-lcudart',
                            '-lpthread', *flags)

    def report(self):
        name, = [n for n in self.reports() if n.endswith('.exit.json')]
        with open(os.path.join(self.dir, name)) as file:
            return json.load(file)


class C(ApiTest):

    def test_a_program_with_and_without(self):
        program = self.make(WHOLE)
        result = self.run_program([program], preload=False)
        self.assert_ok(result)
        self.assertEqual(result.out, b'not loaded\n')
        result = self.run_program([program], sim='memory:1GiB',
                                  conf='quiet:True')
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        stats = json.loads(result.out.decode())
        self.assertEqual([k for k in TORCH_KEYS if k not in stats], [])
        self.assertEqual(stats['allocated_bytes.all.allocated'],
                         5 * MIB + 1024)
        self.assertEqual(stats['allocated_bytes.small_pool.current'], 1024)
        self.assertEqual(stats['num_device_alloc'], 4)
        self.assertEqual(stats['num_device_free'], 3)
        report = self.report()
        rows = {row['name']: row for row in report['sections']}
        self.assertEqual(sorted(rows), ['before', 'train'])
        self.assertEqual(rows['before']['allocated_bytes.peak'],
                         5 * MIB + 1024)
        self.assertEqual(rows['train']['reserved_bytes.peak'], 8 * MIB)
        self.assertFalse(rows['train']['open'])
        # What the report says of the whole run knows nothing of resets.
        self.assertEqual(report['peak_allocated_bytes'], 5 * MIB + 1024)
        curve = report['pools'][0]['timeline']
        self.assertEqual(len(curve['elapsed_ns']),
                         len(curve['allocated_bytes']))
        self.assertEqual(curve['elapsed_ns'], sorted(curve['elapsed_ns']))
        self.assertIn(8 * MIB, curve['reserved_bytes'])
        self.assertEqual(curve['reserved_bytes'][-1], 2 * MIB)
        self.assertLess(curve['elapsed_ns'][-1], 600 * 10 ** 9)

    def test_cplusplus(self):
        cxx = os.environ.get('CXX', 'c++')
        if not shutil.which(cxx):
            self.skipTest('no compiler named ' + cxx)
        source = (START.replace('int cuda', 'extern "C" int cuda')
                  + 'int main() { gpupool_figures *p = nullptr; (void)p;'
                    ' struct gpupool_figures f{}; f.size = sizeof(f);'
                    ' if (gpupool_figures && gpupool_figures(0, &f)) return 1;'
                    ' return gpupool_loaded() ? 3 : 4; }').replace(
                        'gpupool_figures *p', 'struct gpupool_figures *p')
        program = os.path.join(self.dir, 'program')
        made = subprocess.run(
            [cxx, '-x', 'c++', '-std=c++11', '-Wall', '-Wextra', '-Werror',
             '-pedantic', '-I', HEADER, '-', '-o', program],
            input=source.encode(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT)
        self.assertEqual(made.returncode, 0, made.stdout.decode())
        self.assert_ok(self.run_program([program], preload=False), 4)
        self.assert_ok(self.run_program([program]), 3)
        self.assertEqual(self.reports(), [])

    def test_strict_c99(self):
        self.make(START + 'int main(void) { return gpupool_loaded(); }',
                  '-std=c99', '-Wextra', '-Wstrict-prototypes', '-pedantic')

    def test_switched_off(self):
        self.assert_ok(self.run_program([self.make(OFF)],
                                        conf='enabled:False'))

    def test_passthrough(self):
        """No pool: what the program takes is outside of it."""
        program = self.make(START + r'''
int main(void)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    void *p;

    CHECK(cudaMalloc(&p, 5 << 20) == 0);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.current == 0 && f.outside_bytes == 5 << 20);
    return 0;
}
''')
        self.assert_ok(self.run_program([program], conf='backend:passthrough'))

    def test_threads(self):
        self.assert_ok(self.run_program([self.make(THREADS)],
                                        conf='check:True,quiet:True'))

    def test_limit(self):
        program = self.make(START + r'''
#define MIB ((uint64_t)1 << 20)
int main(void)
{
    struct gpupool_figures f = {.size = sizeof(f)};
    uint64_t free_bytes, total;
    void *a, *b, *c;

    CHECK(cudaFree(NULL) == 0); /* initialises CUDA */
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.limit_bytes == GPUPOOL_UNLIMITED);
    CHECK(f.device_bytes == 1024 * MIB);
    CHECK(gpupool_set_limit(0, 300 * MIB) == 0);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.limit_bytes == 300 * MIB);
    CHECK(cudaMalloc(&a, 100 * MIB) == 0);
    CHECK(cudaMalloc(&b, 250 * MIB) == 2);
    CHECK(gpupool_memory(0, &free_bytes, &total) == 0);
    CHECK(total == 300 * MIB && free_bytes <= 200 * MIB);
    /* Below what is held: nothing is taken away, nothing grows. */
    CHECK(gpupool_set_limit(GPUPOOL_ALL_DEVICES, 50 * MIB) == 0);
    CHECK(cudaMalloc(&c, 10 * MIB) == 2);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.allocated_bytes.current == 100 * MIB && f.num_ooms == 2);
    CHECK(cudaFree(a) == 0);
    CHECK(cudaMalloc(&c, 10 * MIB) == 0);
    CHECK(gpupool_set_limit(0, GPUPOOL_UNLIMITED) == 0);
    CHECK(cudaMalloc(&b, 800 * MIB) == 0);
    CHECK(gpupool_figures(0, &f) == 0);
    CHECK(f.limit_bytes == GPUPOOL_UNLIMITED);
    CHECK(f.device_bytes == 1024 * MIB);
    return 0;
}
''')
        self.assert_ok(self.run_program([program], conf='quiet:True',
                                        sim='memory:1GiB,context:0'))

    def test_exports(self):
        """Every function of the header is exported, and no other."""
        with open(os.path.join(HEADER, 'gpupool.h')) as file:
            text = re.sub(r'/\*.*?\*/', '', file.read(), flags=re.S)
        declared = set(re.findall(r'\b(gpupool_\w+)\([^;{]*GPUPOOL_FUNCTION;',
                                  text))
        names = subprocess.run(['nm', '-D', '--defined-only', self.build.lib],
                               stdout=subprocess.PIPE, check=True)
        exported = set(re.findall(r' (gpupool_\w+)', names.stdout.decode()))
        self.assertGreater(len(declared), 7)
        self.assertEqual(declared, exported)


MODULE = r'''
import ctypes, os, sys
import gpupool
MIB = 1 << 20
runtime = ctypes.CDLL('libcudart.so.13')
def alloc(size):
    p = ctypes.c_void_p()
    assert runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)) == 0
    return p
'''


class Python(ApiTest):

    def python(self, code, **kwargs):
        kwargs.setdefault('conf', 'quiet:True')
        kwargs['env'] = dict(kwargs.get('env', {}), PYTHONPATH=SCRIPTS,
                             PYTHONDONTWRITEBYTECODE='1')
        return self.run_program([sys.executable, '-c', MODULE + code],
                                **kwargs)

    def test_figures(self):
        result = self.python(r'''
assert gpupool.available()
assert gpupool.memory_allocated() == gpupool.max_memory_reserved() == 0
assert gpupool.mem_get_info() == (0, 0)
a, b = alloc(5 * MIB), alloc(1000)
assert gpupool.memory_allocated() == 5 * MIB + 1024
assert gpupool.memory_reserved(0) == 8 * MIB
assert runtime.cudaFree(a) == 0
assert gpupool.memory_allocated() == 1024
assert gpupool.max_memory_allocated('cuda:0') == 5 * MIB + 1024
free, total = gpupool.mem_get_info(0)
assert total == 1024 * MIB and free < total
assert gpupool.empty_cache() == 6 * MIB
assert gpupool.memory_reserved() == 2 * MIB
assert gpupool.max_memory_reserved() == 8 * MIB
gpupool.reset_peak_memory_stats()
assert gpupool.max_memory_allocated() == 1024
assert gpupool.max_memory_reserved() == 2 * MIB
stats = gpupool.memory_stats()
assert stats['allocated_bytes.all.freed'] == 5 * MIB
assert stats['max_split_size'] == -1
nested = gpupool.memory_stats_as_nested_dict()
assert nested['allocated_bytes']['large_pool']['allocated'] == 5 * MIB
assert nested['num_ooms'] == 0
for key in %r:
    assert isinstance(stats[key], int), key
''' % (TORCH_KEYS,), sim='memory:1GiB')
        self.assert_ok(result)
        self.assertEqual(result.err, b'')

    def test_devices(self):
        """All ways to name a device, with two of them."""
        self.assert_ok(self.python(r'''
class Device:  # as torch.device
    def __init__(self, index, type='cuda'):
        self.index, self.type = index, type
assert runtime.cudaSetDevice(1) == 0
try:
    gpupool.memory_allocated(2)  # known before any memory was taken
    sys.exit('taken')
except ValueError:
    pass
a = alloc(3 * MIB)
assert runtime.cudaSetDevice(0) == 0
b = alloc(7 * MIB)
for one in 1, 'cuda:1', Device(1):
    assert gpupool.memory_allocated(one) == 3 * MIB, one
for zero in 0, 'cuda:0', Device(0), None, 'cuda', Device(None), -1:
    assert gpupool.memory_allocated(zero) == 7 * MIB, zero
assert gpupool.memory_allocated(gpupool.ALL_DEVICES) == 10 * MIB
assert runtime.cudaSetDevice(1) == 0
assert gpupool.memory_allocated() == 3 * MIB
for wrong, error in ((2, ValueError), ('cuda:x', ValueError),
                     ('cpu', ValueError), (Device(0, 'cpu'), ValueError),
                     (1.5, TypeError), ([0], TypeError), (True, TypeError)):
    try:
        gpupool.memory_allocated(wrong)
        sys.exit('%r is taken' % (wrong,))
    except error:
        pass
assert runtime.cudaFree(a) == 0 and runtime.cudaFree(b) == 0
assert gpupool.empty_cache('cuda:1') == 4 * MIB
assert gpupool.memory_reserved(0) == 8 * MIB
assert gpupool.empty_cache() == 8 * MIB
''', sim='devices:2'))

    def test_summary(self):
        """Figures on the page are those of memory_stats()."""
        result = self.python(r'''
a, b = alloc(5 * MIB), alloc(1000)
print(gpupool.memory_summary(), end='')
print(gpupool.memory_summary(abbreviated=True), end='')
''')
        self.assert_ok(result)
        lines = result.out.decode().splitlines()
        self.assertEqual({len(line) for line in lines}, {77})
        self.assertIn('| Allocated memory      |   5121 KiB |   5121 KiB |'
                      '   5121 KiB |      0 B   |', lines)
        self.assertIn('|       from small pool |       1    |       1    |'
                      '       1    |       0    |', lines)
        self.assertEqual(sum('from' in line for line in lines), 18)
        self.assertEqual(sum('Allocated' in line for line in lines), 2)

    def test_sections(self):
        self.assert_ok(self.python(r'''
gpupool.mark('load')
a = alloc(5 * MIB)
with gpupool.section('train \u00e4'):
    assert runtime.cudaFree(alloc(2 * MIB)) == 0
b = alloc(64 * MIB)
for i in range(62):
    gpupool.mark('n%d' % i)
try:
    gpupool.mark('too many')
    sys.exit('taken')
except OSError as error:
    assert error.errno == 28, error
''', env={'LC_ALL': 'C.UTF-8'}))
        rows = {row['name']: row['allocated_bytes.peak']
                for row in self.report()['sections']}
        self.assertEqual(rows['load'], 5 * MIB)
        self.assertEqual(rows['train \u00e4'], 7 * MIB)
        self.assertEqual(rows['n0'], 69 * MIB)

    def test_limits(self):
        self.assert_ok(self.python(r'''
def refused(size):
    p = ctypes.c_void_p()
    return runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)) == 2
for early in (lambda: gpupool.set_per_process_memory_fraction(0.5),
              lambda: gpupool.set_memory_limit(1 << 30, 0)):
    try:
        early()
        sys.exit('set before CUDA was initialised')
    except RuntimeError as error:
        assert 'torch.cuda.init' in str(error)
assert runtime.cudaSetDevice(1) == 0 and runtime.cudaFree(None) == 0
gpupool.set_per_process_memory_fraction(0.25)
assert refused(300 * MIB) and not refused(200 * MIB)
# The whole card is what a fraction is of, also the second time.
gpupool.set_per_process_memory_fraction(0.5, 'cuda:1')
assert gpupool.memory_stats()['limit_bytes'] == 512 * MIB
assert gpupool.mem_get_info()[1] == 512 * MIB
gpupool.set_memory_limit(None)
assert gpupool.memory_stats()['limit_bytes'] is None
assert not refused(600 * MIB)
for wrong in 1.5, -0.1:
    try:
        gpupool.set_per_process_memory_fraction(wrong)
        sys.exit('taken')
    except ValueError:
        pass
try:
    gpupool.set_per_process_memory_fraction('half')
    sys.exit('taken')
except TypeError:
    pass
''', sim='memory:1GiB,context:0,devices:2'))

    def test_not_loaded(self):
        result = self.python(r'''
assert not gpupool.available()
for name in gpupool.__all__:
    if name in ('NotLoaded', 'available', 'section'):
        continue
    function = getattr(gpupool, name)
    try:
        function(*{'mark': ['x'],
                   'set_memory_limit': [5],
                   'set_per_process_memory_fraction': [0.5]}.get(name, []))
        sys.exit('%s works' % name)
    except gpupool.NotLoaded as error:
        assert 'gpupool run' in str(error) and 'LD_PRELOAD' in str(error)
''', preload=False)
        self.assert_ok(result)

    def test_switched_off(self):
        self.assert_ok(self.python(r'''
assert not gpupool.available()
try:
    gpupool.memory_allocated()
    sys.exit('works')
except gpupool.NotLoaded as error:
    assert 'switched off' in str(error)
''', conf='enabled:False'))

    def test_structure(self):
        """The module's idea of struct gpupool_figures is the header's."""
        sys.path.insert(0, SCRIPTS)
        try:
            import gpupool
        finally:
            sys.path.remove(SCRIPTS)
        figures = gpupool._Figures
        program = self.make(
            '#include <gpupool.h>\n#include <stdio.h>\n'
            'int main(void) { printf("%zu\\n", sizeof(struct gpupool_figures));'
            + ''.join('printf("%%zu\\n", offsetof(struct gpupool_figures, %s));'
                      % name for name, _ in figures._fields_)
            + ' return 0; }')
        result = self.run_program([program], preload=False)
        self.assertEqual(
            [int(line) for line in result.out.split()],
            [ctypes.sizeof(figures)]
            + [getattr(figures, name).offset for name, _ in figures._fields_])


if __name__ == '__main__':
    import unittest
    unittest.main()
