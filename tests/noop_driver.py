"""A libcuda.so.1 whose every entry point succeeds and does nothing: for what
only asks which functions there are, and what a call costs."""
import os
import re
import subprocess

import harness

SOURCE = '''
#include <string.h>
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


def build(directory, extra=(), cc='cc'):
    """Makes directory/libcuda.so.1, with the functions `extra` besides."""
    wanted = [n for n in names() if n != 'cuGetProcAddress_v2'] + list(extra)
    source = SOURCE % {
        'bodies': '\n'.join('int %s(void) { return 0; }' % n for n in wanted),
        'rows': '\n'.join('{"%s", (void *)%s},' % (n, n) for n in wanted)}
    path = os.path.join(directory, 'libcuda.so.1')
    subprocess.run(
        cc.split() + ['-O2', '-w', '-fno-builtin', '-x', 'c', '-', '-shared',
                      '-fPIC', '-Wl,-Bsymbolic', '-Wl,-soname,libcuda.so.1',
                      '-o', path], input=source.encode(), check=True)
    return path
