#!/usr/bin/env python3
"""What the preload adds to a program's start and end: 64 processes at once,
plain and preloaded, in alternating turns. Each makes a context, allocates once,
frees it and ends; preloaded ones have a file in the runtime directory and write
a report, as they do if nothing is set.

Once a program in C, and once in Python, through ctypes. Both the time until the
last one has ended and the processor time of all are shown: the second hardly
depends on what else the machine does. The simulated driver makes a context in
no time, a card takes hundreds of milliseconds: the ratio of the bare C program
is the worst that there is; `tests/gpu/bench.py --only start` asks a card."""
import argparse
import json
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import at_once  # noqa: E402  (found through the line above)
import harness  # noqa: E402

PROCESSES, TURNS = 64, 15
STEPS = ['alloc=4096', 'free=0', 'exit=0']
PYTHON = """
import ctypes
cudart = ctypes.CDLL('libcudart.so.13')
block = ctypes.c_void_p()
assert not cudart.cudaMalloc(ctypes.byref(block), ctypes.c_size_t(4096))
assert not cudart.cudaFree(block)
"""


def programs(build):
    # Not what may be a script that looks for a Python first.
    python = os.path.realpath(sys.executable)
    return {'C': [build.program('drv_script')] + STEPS,
            'Python': [python, '-S', '-c', PYTHON]}


def measure_one(build, argv, processes, turns):
    with tempfile.TemporaryDirectory(prefix='gpupool-bench-') as directory:
        runtime = os.path.join(directory, 'run')
        os.mkdir(runtime, 0o700)
        envs = {kind: build.env(
            preload=kind == 'preloaded', sim='memory:16GiB',
            conf='quiet:True,report_dir:' + directory,
            XDG_RUNTIME_DIR=runtime) for kind in ('plain', 'preloaded')}
        return at_once.measure(argv, envs, processes, turns)


def measure(build, processes=PROCESSES, turns=TURNS):
    return [dict(measure_one(build, argv, processes, turns), program=name)
            for name, argv in programs(build).items()]


def print_rows(rows):
    print('%-29s    plain  preloaded   ratio' % (
        '%d at once' % rows[0]['processes']))
    for row in rows:
        for what, name in (('until all ended, ms', 'ms'),
                           ('processor time, ms', 'cpu_ms')):
            print('  %-6s  %-19s %9.1f %10.1f %7.2f' % (
                row['program'], what, row['plain_' + name],
                row['preloaded_' + name], row['ratio_' + name]))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', default='build')
    parser.add_argument('--processes', type=int, default=PROCESSES)
    parser.add_argument('--turns', type=int, default=TURNS)
    parser.add_argument('--json', action='store_true')
    args = parser.parse_args()
    rows = measure(harness.Build(args.build), args.processes, args.turns)
    if args.json:
        json.dump({'start': rows}, sys.stdout, indent=1)
        print()
    else:
        print_rows(rows)


if __name__ == '__main__':
    main()
