#!/usr/bin/env python3
"""What the way through gpupool adds to a driver call, on a driver that does
nothing but has a context: plain, preloaded, and preloaded but switched off."""
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
import noop_driver  # noqa: E402

RUNS = 7
LIMIT_S = 60


def times(program, build, directory, **env):
    """{call: ns} of one run."""
    done = subprocess.run([program], stdout=subprocess.PIPE, check=True,
                          timeout=LIMIT_S, cwd=directory, env=build.env(
                              LD_LIBRARY_PATH=directory, **env))
    return {name: float(ns) for name, ns in
            (line.split() for line in done.stdout.decode().splitlines())}


def measure(build):
    """[{name, ns, plain_ns, preloaded_ns, off_ns}], medians of alternating
    runs; `ns` is what gpupool adds. None without a compiler."""
    compiler = os.environ.get('CC', 'cc').split()
    if not shutil.which(compiler[0]):
        return None
    with tempfile.TemporaryDirectory(prefix='gpupool-bench-') as directory:
        noop_driver.build(directory, cc=' '.join(compiler),
                          bodies=noop_driver.CONTEXT)
        program = os.path.join(directory, 'calls')
        subprocess.run(compiler + ['-O2', '-o', program, os.path.join(
            HERE, 'hooks', 'calls.c'), '-ldl'], check=True)
        kinds = {'plain': {'preload': False},
                 'preloaded': {'conf': 'quiet:True,report_dir:' + directory},
                 'off': {'conf': 'enabled:False'}}
        runs = {kind: [] for kind in kinds}
        for _ in range(RUNS):
            for kind, how in kinds.items():
                runs[kind].append(times(program, build, directory, **how))
    rows = []
    for name in runs['plain'][0]:
        row = {kind + '_ns': round(statistics.median(
            run[name] for run in runs[kind]), 2) for kind in kinds}
        rows.append(dict(row, name=name, ns=round(
            row['preloaded_ns'] - row['plain_ns'], 2)))
    return rows


def print_rows(rows):
    print('call                    plain  preloaded  switched off  adds, ns')
    for row in rows:
        print('%-22s %6.2f %10.2f %13.2f %9.2f' % (
            row['name'], row['plain_ns'], row['preloaded_ns'], row['off_ns'],
            row['ns']))


if __name__ == '__main__':
    alone.main(__doc__, 'hook', measure, print_rows)
