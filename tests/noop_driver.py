"""A libcuda.so.1 whose every entry point succeeds and does nothing: for what
only asks which functions there are, and what a call costs."""
import os
import re
import subprocess

import harness

SOURCE = '''
#include <string.h>
%(state)s
%(bodies)s
static const struct { const char *name; void *function; } table[] = {
%(rows)s
};
/* The function of exactly that name: no versions. */
int cuGetProcAddress_v2(const char *symbol, void **pfn, int version,
                        unsigned long long flags, int *status)
{
    size_t i;
    for (i = 0; i < sizeof(table) / sizeof(*table); i++)
        if (!strcmp(table[i].name, symbol)) {
            *pfn = table[i].function;
            return 0;
        }
    return 500;
}
'''


def names():
    """Every entry point of the driver that gpupool knows."""
    with open(os.path.join(harness.ROOT, 'shim', 'work.def')) as file:
        return sorted(set(re.findall(r'^GP_WORK(?:_\w+)?\((cu\w+)',
                                     file.read(), re.M)))


# What it takes for gpupool to make a pool and follow streams: one context, on a
# device with virtual memory.
CONTEXT = {
    'cuCtxGetCurrent': '(void **c) { *c = (void *)4096; return 0; }',
    'cuStreamGetCtx': '(void *s, void **c) { *c = (void *)4096; return 0; }',
    'cuStreamGetFlags': '(void *s, unsigned *f) { *f = 0; return 0; }',
    'cuStreamCreate': '(void **s) { *s = (void *)8192; return 0; }',
    'cuEventCreate': '(void **e) { *e = (void *)12288; return 0; }',
    'cuDeviceGetCount': '(int *n) { *n = 1; return 0; }',
    'cuCtxGetDevice': '(int *d) { *d = 0; return 0; }',
    'cuDevicePrimaryCtxGetState':
        '(int d, unsigned *f, int *a) { *f = 0; *a = 1; return 0; }',
    'cuDevicePrimaryCtxRetain':
        '(void **c, int d) { *c = (void *)4096; return 0; }',
    'cuDeviceTotalMem_v2': '(unsigned long *b) { *b = 1ul << 36; return 0; }',
    'cuDeviceGetAttribute':
        '(int *v, int a) { *v = a == 102 || a == 103; return 0; }',
    'cuMemGetAllocationGranularity':
        '(unsigned long *g) { *g = 2 << 20; return 0; }',
    'cuMemAddressReserve':
        '(unsigned long *a) { *a = 1ul << 46; return 0; }',
}


def build(directory, extra=(), cc='cc', bodies=None, state=''):
    """Makes directory/libcuda.so.1, with the functions `extra` besides, and
    other `bodies` for some: parameters and all. `state`: what those share."""
    bodies = bodies or {}
    wanted = [n for n in names() if n != 'cuGetProcAddress_v2'] + list(extra)
    source = SOURCE % {
        'state': state,
        'bodies': '\n'.join('int %s%s' % (n, bodies.get(
            n, '(void) { return 0; }')) for n in wanted),
        'rows': '\n'.join('{"%s", (void *)%s},' % (n, n) for n in wanted)}
    path = os.path.join(directory, 'libcuda.so.1')
    subprocess.run(
        cc.split() + ['-O2', '-w', '-fno-builtin', '-x', 'c', '-', '-shared',
                      '-fPIC', '-Wl,-Bsymbolic', '-Wl,-soname,libcuda.so.1',
                      '-o', path], input=source.encode(), check=True)
    return path
