#!/usr/bin/env python3
"""make bench: what gpupool costs, without a card.

  pair    an allocate+free pair that hits, by size and threads, in ns and in
          instructions (callgrind), beside the same loop over glibc's malloc
  live    the same with many live and free blocks around; search: 256 blocks
          of different sizes are held before they are freed
  remote  every block is freed by another thread than allocated it
  mixed   sizes that no thread has had, up to the one given
  replay  traces: memory used, and host time for an operation
  ring    the event ring; hook: what one intercepted call costs
  stacks  a pair through the hooks, by how many call stacks are kept
  step    instructions of a training step as PyTorch without its cache runs it
  start   64 processes that start at once, plain and preloaded

Prints a table and writes bench.json into the build directory. Timings depend
on the machine and on what else it does: they are shown, never judged.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import gentrace  # noqa: E402  (found through the line above)
import hooks  # noqa: E402
import replay_table  # noqa: E402
import stacks  # noqa: E402
import start  # noqa: E402
import step  # noqa: E402

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
SIZES = [512, 4 * KIB, 64 * KIB, MIB, 2 * MIB, 16 * MIB, 256 * MIB, GIB]
LIVE = [1000, 10000, 100000, 1000000]
LIVE_SIZES = [4 * KIB, 3 * MIB // 2]
LIMIT_S = 300
# Held and free, a million times 1.5 MiB is more than any card.
MAX_LIVE_BYTES = 400 * GIB


def size_text(size):
    for unit, name in ((GIB, 'GiB'), (MIB, 'MiB'), (KIB, 'KiB')):
        if size >= unit:
            return '%g %s' % (size / unit, name)
    return '%d B' % size


class Pair:
    """The program that times pairs."""

    def __init__(self, build, valgrind):
        self.path = os.path.join(build, 'tests', 'bench', 'pair')
        self.valgrind = valgrind

    def argv(self, size, threads, live, *more):
        return [self.path, '--size', str(size), '--threads', str(threads),
                '--live', str(live)] + list(more)

    def time(self, size, threads=1, live=0, *more):
        if threads > 1:  # starting together takes a while
            more = ('--pairs', '100000', '--repeat', '15') + more
        done = subprocess.run(self.argv(size, threads, live, *more),
                              stdout=subprocess.PIPE, check=True,
                              timeout=LIMIT_S)
        return json.loads(done.stdout.decode())['ns']

    def collected(self, argv):
        done = subprocess.run(
            [self.valgrind, '--tool=callgrind',
             '--callgrind-out-file=/dev/null'] + argv, check=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            timeout=LIMIT_S)
        return int(re.search(r'Collected : (\d+)',
                             done.stderr.decode()).group(1))

    def instructions(self, size, live=0, *more):
        """A pair's, from two runs that differ only in their number; None
        without valgrind."""
        if not self.valgrind:
            return None
        few, many = 1000, 6000
        counts = [self.collected(self.argv(size, 1, live, '--repeat', '1',
                                           '--pairs', str(pairs), *more))
                  for pairs in (few, many)]
        return round((counts[1] - counts[0]) / (many - few), 1)


def thread_counts():
    """1, 2, then doubled up to the machine's cores."""
    cores = len(os.sched_getaffinity(0))
    counts = [1, 2]
    while counts[-1] * 2 <= cores:
        counts.append(counts[-1] * 2)
    return counts


def few_if_slow(size):
    """malloc takes what is larger than 32 MiB from the kernel each time."""
    return ('--pairs', '50', '--repeat', '5') if size > 32 * MIB else ()


def cell(value, width, form='%.0f'):
    return ('-' if value is None else form % value).rjust(width)


def bench_pair(pair):
    print('allocate+free pair  threads        ns   malloc ns  instructions')
    rows = []
    for size in SIZES:
        for threads in thread_counts():
            row = {'size': size, 'threads': threads,
                   'ns': pair.time(size, threads),
                   'instructions': (pair.instructions(size)
                                    if threads == 1 else None),
                   'malloc_ns': pair.time(size, threads, 0, '--malloc',
                                          *few_if_slow(size))}
            rows.append(row)
            print('  %-17s %7d  %s %s %s' % (
                size_text(size), threads, cell(row['ns'], 8, '%.1f'),
                cell(row['malloc_ns'], 11, '%.1f'),
                cell(row['instructions'], 13)), flush=True)
    return rows


def bench_live(pair):
    print('\nblocks live, and free        size        ns  instructions  '
          'search, ns')
    rows = []
    for size in LIVE_SIZES:
        for live in LIVE:
            if live * size * 2.5 > MAX_LIVE_BYTES:
                continue
            row = {'live': live, 'size': size, 'ns': pair.time(size, 1, live),
                   'search_ns': pair.time(size, 1, live, '--batch', '256'),
                   # valgrind would spend minutes filling more
                   'instructions': (pair.instructions(size, live)
                                    if live <= 10000 else None)}
            rows.append(row)
            print('  %-18d %12s  %s %s %s' % (
                live, size_text(size), cell(row['ns'], 8, '%.1f'),
                cell(row['instructions'], 13),
                cell(row['search_ns'], 11, '%.1f')), flush=True)
    return rows


def bench_remote(pair):
    print('\nfreed by another thread        ns   malloc ns')
    rows = []
    for size in (4 * KIB, 64 * KIB, 2 * MIB):
        row = {'size': size, 'threads': 2,
               'ns': pair.time(size, 2, 0, '--remote'),
               'malloc_ns': pair.time(size, 2, 0, '--remote', '--malloc')}
        rows.append(row)
        print('  %-22s %s %s' % (size_text(size),
                                 cell(row['ns'], 8, '%.1f'),
                                 cell(row['malloc_ns'], 11, '%.1f')),
              flush=True)
    return rows


def bench_mixed(pair):
    print('\nany size up to      threads        ns  instructions')
    rows = []
    for size in (64 * KIB, MIB, 4 * MIB):
        for threads in thread_counts():
            row = {'size': size, 'threads': threads,
                   'ns': pair.time(size, threads, 0, '--mix'),
                   'instructions': (pair.instructions(size, 0, '--mix')
                                    if threads == 1 else None)}
            rows.append(row)
            print('  %-17s %7d  %s %s' % (
                size_text(size), threads, cell(row['ns'], 8, '%.1f'),
                cell(row['instructions'], 13)), flush=True)
    return rows


def bench_replay(build, traces):
    print('\ntrace                           live MiB  efficiency  ns/op  '
          'again  remaps')
    rows = []
    for trace in traces:
        run = replay_table.replay(build, trace)
        rows.append({'trace': replay_table.trace_name(trace),
                     'efficiency': run['efficiency'],
                     'ns_per_op': run['ns_per_op'],
                     'warm_ns_per_op': run['warm_ns_per_op'],
                     'peak_live': run['peak_live'],
                     'peak_reserved': run['peak_reserved'],
                     'driver_us': run['driver_us'],
                     'duration_us': run['duration_us'],
                     'remaps': run['remaps']})
        print('  %-29s %9.0f %11.4f %6.0f %6.0f %7d' % (
            rows[-1]['trace'][-29:], run['peak_live'] / MIB,
            run['efficiency'], run['ns_per_op'], run['warm_ns_per_op'],
            run['remaps']), flush=True)
    return rows


def bench_program(build, name, key):
    """The rows of a program of tests/bench that measures one section: JSON
    objects, one a line. Without the program there are none."""
    path = os.path.join(build, 'tests', 'bench', name)
    if not os.path.exists(path):
        return []
    done = subprocess.run([path], stdout=subprocess.PIPE, check=True,
                          timeout=LIMIT_S)
    rows = [json.loads(line) for line in done.stdout.decode().splitlines()
            if line.startswith('{')]
    print('\n%-28s        ns' % name)
    for row in rows:
        print('  %-26s %s' % (size_text(row[key]),
                              cell(row['ns'], 9, '%.1f')))
    return rows


def bench_hooks(build):
    rows = hooks.measure(hooks.harness.Build(build)) or []
    print()
    hooks.print_rows(rows)
    return rows


def bench_stacks(build):
    rows = stacks.measure(stacks.harness.Build(build)) or []
    if rows:
        print()
        stacks.print_rows(rows)
    return rows


def bench_step(build):
    rows = step.measure(step.harness.Build(build)) or []
    if rows:
        print()
        step.print_rows(rows)
    return rows


def bench_start(build):
    rows = start.measure(start.harness.Build(build))
    print()
    start.print_rows(rows)
    return rows


def machine():
    model = 'unknown'
    with open('/proc/cpuinfo') as file:
        for line in file:
            if line.startswith('model name'):
                model = line.split(':', 1)[1].strip()
                break
    return {'cpu': model, 'cores': len(os.sched_getaffinity(0))}


def write_json(path, results):
    with open(path + '.new', 'w') as out:
        json.dump(results, out, indent=1)
        out.write('\n')
    os.replace(path + '.new', path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--build', default='build')
    parser.add_argument('--traces', metavar='DIR',
                        help='traces to play instead of the generated ones')
    args = parser.parse_args()
    directory = args.traces
    if not directory:
        directory = os.path.join(args.build, 'bench-traces')
        gentrace.write_all(directory)
    traces = replay_table.find_traces(directory)
    if not traces:
        sys.exit('make bench: no *.csv or *.csv.xz in %s' % directory)
    valgrind = shutil.which('valgrind')
    if not valgrind:
        print('valgrind is missing: no instruction counts (make deps '
              'installs it)\n')
    pair = Pair(args.build, valgrind)
    try:
        results = {
            'machine': machine(),
            'pair': bench_pair(pair),
            'live': bench_live(pair),
            'remote': bench_remote(pair),
            'mixed': bench_mixed(pair),
            'replay': bench_replay(args.build, traces),
            'ring': bench_program(args.build, 'ring', 'size'),
            'hook': bench_hooks(args.build),
            'stacks': bench_stacks(args.build),
            'step': bench_step(args.build),
            'start': bench_start(args.build),
        }
    except subprocess.CalledProcessError as error:
        if error.stderr:
            sys.stderr.write(error.stderr.decode('utf-8', 'replace'))
        sys.exit('make bench: %s' % error)
    path = os.path.join(args.build, 'bench.json')
    write_json(path, results)
    print('\n%s' % path)


if __name__ == '__main__':
    main()
