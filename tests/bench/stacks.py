#!/usr/bin/env python3
"""What call stacks cost: an allocate+free pair through the hooks that hits, with
each of the settings of `stacks`, from C and from a Python function. On the
simulated driver, whose own share is small; from Python, ctypes' is not."""
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

import alone

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness  # noqa: E402  (found through the line above)

RUNS = 5
LIMIT_S = 60
MODES = ('off', 'oom', 'sample', 'all')
SIZES = (4 << 10, 2 << 20)

FROM_PYTHON = '''
import ctypes, sys, time
runtime = ctypes.CDLL('libcudart.so.13')
size, p = ctypes.c_size_t(int(sys.argv[1])), ctypes.c_void_p()
where = ctypes.byref(p)

def pairs(depth):
    if depth:
        return pairs(depth - 1)
    malloc, free = runtime.cudaMalloc, runtime.cudaFree
    start = time.perf_counter()
    for i in range(2000):
        malloc(where, size)
        free(p)
    return (time.perf_counter() - start) / 2000 * 1e9

print(min(pairs(12) for i in range(20)))
'''


def timed(argv, build, directory, mode):
    done = subprocess.run(
        argv, stdout=subprocess.PIPE, check=True, timeout=LIMIT_S,
        cwd=directory,
        env=build.env(conf='quiet:True,report_dir:%s,stacks:%s' %
                      (directory, mode)))
    return float(done.stdout.decode())


def measure(build):
    """[{stacks, from, size, ns}], medians of alternating runs. None without a
    compiler."""
    compiler = os.environ.get('CC', 'cc').split()
    if not shutil.which(compiler[0]):
        return None
    runs = {}
    with tempfile.TemporaryDirectory(prefix='gpupool-bench-') as directory:
        program = os.path.join(directory, 'stacks')
        subprocess.run(compiler + ['-O2', '-o', program, os.path.join(
            HERE, 'hooks', 'stacks.c'), '-ldl'], check=True)
        programs = {'C': [program],
                    'Python': [sys.executable, '-c', FROM_PYTHON]}
        for _ in range(RUNS):
            for source, argv in programs.items():
                for size in SIZES:
                    for mode in MODES:
                        runs.setdefault((source, size, mode), []).append(
                            timed(argv + [str(size)], build, directory, mode))
    return [{'from': source, 'size': size, 'stacks': mode,
             'ns': round(statistics.median(found), 1)}
            for (source, size, mode), found in runs.items()]


def print_rows(rows):
    print('pair through hooks, stacks:' +
          ''.join(mode.rjust(10) for mode in MODES) + '   ns')
    by_mode = {(r['from'], r['size'], r['stacks']): r['ns'] for r in rows}
    for source in ('C', 'Python'):
        for size in SIZES:
            print('  %-6s %8d KiB         %s' % (source, size >> 10, ''.join(
                '%10.0f' % by_mode[source, size, mode] for mode in MODES)))


if __name__ == '__main__':
    alone.main(__doc__, 'stacks', measure, print_rows)
