#!/usr/bin/env python3
"""What gpupool takes of a training step's time on the host: instructions
(callgrind) of a step as PyTorch without its cache runs it, plain and preloaded,
on a driver that does nothing. Work is complete when so many launches came after
it: as on a card, freed memory comes back to the program before that."""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import harness  # noqa: E402  (found through the line above)
import noop_driver  # noqa: E402

LIMIT_S = 300
STATE = '''
enum { LAG = 40, EVENTS = 1 << 16 };
static long launches, events, finished, recorded[EVENTS];
static int complete(long event)
{
    long at = recorded[event % EVENTS];
    return at <= finished || at + LAG <= launches;
}
'''
BODIES = dict(noop_driver.CONTEXT, **{
    'cuLaunchKernel': '(void) { launches++; return 0; }',
    'cuEventCreate': '(void **e) { *e = (void *)++events; return 0; }',
    'cuEventRecord':
        '(long e, void *s) { recorded[e % EVENTS] = launches; return 0; }',
    'cuEventQuery': '(long e) { return complete(e) ? 0 : 600; }',
    'cuEventSynchronize': '''(long e) {
        if (!complete(e)) finished = recorded[e % EVENTS];
        return 0; }''',
    'cuStreamSynchronize': '(void) { finished = launches; return 0; }',
    'cuCtxSynchronize': '(void) { finished = launches; return 0; }',
})


def counted(program, build, directory, **env):
    """Instructions of a step, and its allocations and launches."""
    done = subprocess.run(
        ['valgrind', '--tool=callgrind', '--toggle-collect=part',
         '--callgrind-out-file=/dev/null', program], check=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT_S,
        cwd=directory, env=build.env(LD_LIBRARY_PATH=directory, **env))
    steps, allocations, launches = map(int, done.stdout.decode().split())
    collected = re.search(r'Collected : (\d+)', done.stderr.decode()).group(1)
    return int(collected) // steps, allocations, launches


def measure(build):
    """[{allocations, launches, instructions}] of a step; `instructions` are
    what gpupool adds. None without a compiler or valgrind."""
    compiler = os.environ.get('CC', 'cc').split()
    if not shutil.which(compiler[0]) or not shutil.which('valgrind'):
        return None
    with tempfile.TemporaryDirectory(prefix='gpupool-bench-') as directory:
        noop_driver.build(directory, cc=' '.join(compiler), bodies=BODIES,
                          state=STATE)
        program = os.path.join(directory, 'step')
        subprocess.run(compiler + [
            '-O2', '-pthread', '-o', program,
            os.path.join(HERE, 'hooks', 'step.c'),
            '-L' + directory, '-l:libcuda.so.1'], check=True)
        plain, _, _ = counted(program, build, directory, preload=False)
        total, allocations, launches = counted(
            program, build, directory,
            conf='quiet:True,free_order:reuse,report_dir:' + directory)
    return [{'allocations': allocations, 'launches': launches,
             'instructions': total - plain}]


def print_rows(rows):
    print('training step, PyTorch uncached  allocations  launches  '
          'adds, instructions')
    for row in rows:
        print('%44d %9d %20d' % (row['allocations'], row['launches'],
                                 row['instructions']))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build')
    parser.add_argument('--json', action='store_true')
    args = parser.parse_args()
    rows = measure(harness.Build(args.build))
    if rows is None:
        sys.exit('no compiler or no valgrind')
    if args.json:
        json.dump({'step': rows}, sys.stdout, indent=1)
        print()
    else:
        print_rows(rows)


if __name__ == '__main__':
    main()
