"""gpupool advise: play a trace under many settings and name the best.

The player (gpupool-replay) does the work; this module chooses what to try,
and says what came of it in words that can be copied.
"""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys
import tempfile

from gpupool_paths import HERE, Parser, Problem

MIB = float(1 << 20)

# What is tried: (policy, settings). The first of each family is its default.
# Settings that round requests up, or that keep large blocks whole, help some
# programs and cost others memory: only a trace can tell.
GPUPOOL = [('pool', conf) for conf in (
    '',
    'growth_factor:1.1',
    'growth_factor:1.25',
    'roundup_power2_divisions:16',
    'roundup_power2_divisions:8',
    'expandable_segments:False',
)]
NATIVE = [('native', conf) for conf in (
    '',
    'max_split_size_mb:32',
    'max_split_size_mb:64',
    'max_split_size_mb:128',
    'max_split_size_mb:256',
    'max_split_size_mb:512',
    'roundup_power2_divisions:4',
    'roundup_power2_divisions:8',
    'roundup_power2_divisions:16',
    'max_split_size_mb:128,roundup_power2_divisions:8',
    'max_split_size_mb:512,roundup_power2_divisions:8',
)]
# Garbage collection acts on a share of the device's memory.
COLLECTING = [('native', conf) for conf in (
    'garbage_collection_threshold:0.6',
    'garbage_collection_threshold:0.8',
    'garbage_collection_threshold:0.8,max_split_size_mb:128',
)]
EXPANDABLE = [('expandable', conf) for conf in (
    '',
    'roundup_power2_divisions:8',
    'roundup_power2_divisions:16',
)]

STDIN = 'standard input'

# A saving below this share is not worth a setting.
SLACK = 0.002


def find_replay(given):
    """The player: the one given, the checkout's, the installed one."""
    if given:
        if not os.access(given, os.X_OK):
            raise Problem('no program at %s' % given)
        return given
    root = os.path.dirname(HERE)
    places = [os.path.join(root, 'build', 'gpupool-replay'),
              # installed: these files are in PREFIX/lib/gpupool
              os.path.join(os.path.dirname(root), 'bin', 'gpupool-replay')]
    for place in places:
        if os.access(place, os.X_OK):
            return place
    place = shutil.which('gpupool-replay')
    if place:
        return place
    raise Problem('gpupool-replay not found; run make in the checkout, or '
                  'make install, or give --replay FILE (looked for: %s)'
                  % ', '.join(places))


class Run:
    """One setting, and what it came to."""

    def __init__(self, policy, conf, result):
        self.policy = policy
        self.conf = conf
        self.reserved = result['peak_reserved']
        self.live = result['peak_live']
        self.refused = result['refused']
        self.driver_us = result['driver_us']
        self.duration_us = result['duration_us']
        self.ops = result['ops']

    def setting(self):
        """As it would be written in the environment variable."""
        if self.policy == 'expandable':
            return ','.join(filter(None, ['expandable_segments:True',
                                          self.conf]))
        return self.conf

    def flat(self, default):
        return {'policy': self.policy, 'conf': self.conf,
                'setting': self.setting(), 'peak_reserved': self.reserved,
                'saves_mib': saving(self, default), 'refused': self.refused,
                'driver_us': self.driver_us}


def saving(run, default):
    return round((default.reserved - run.reserved) / MIB, 1)


def play(replay, trace, memory, policy, conf):
    argv = [replay, '--json', '--no-timing', '--policy', policy,
            '--conf', conf]
    if memory:
        argv += ['--memory', memory]
    done = subprocess.run(argv + [trace], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    if done.returncode:
        text = done.stderr.decode('utf-8', 'replace').strip()
        text = text.replace('gpupool-replay: ', '', 1)
        raise Problem(text.replace('gpupool-replay --help',
                                   'gpupool advise --help')
                      or 'gpupool-replay ended with %d' % done.returncode,
                      done.returncode if done.returncode > 0 else 125)
    return Run(policy, conf, json.loads(done.stdout.decode()))


def play_all(replay, trace, memory, candidates):
    # One first: a malformed trace is told once, and at once.
    runs = [play(replay, trace, memory, *candidates[0])]
    workers = len(os.sched_getaffinity(0))
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        runs += pool.map(lambda one: play(replay, trace, memory, *one),
                         candidates[1:])
    return runs


def best_of(runs):
    """Fewest refusals, then least memory; where that hardly differs the
    first in the list: fewer settings."""
    fewest = min(run.refused for run in runs)
    served = [run for run in runs if run.refused == fewest]
    least = min(run.reserved for run in served)
    for run in served:
        if run.reserved <= least * (1 + SLACK):
            return run
    raise AssertionError('the least is among them')


def row(name, run, default):
    driver = '%.1f' % (run.driver_us / 1000)
    if len(name) > 46:  # on two lines rather than cut
        print('  ' + name)
        name = ''
    print('  %-46s %8.0f %8.0f %8s%s' % (
        name, run.reserved / MIB, saving(run, default), driver,
        '  !%d' % run.refused if run.refused else ''))


def print_table(runs, default):
    print('%-48s %8s %8s %8s' % ('', 'reserved', 'saves', 'driver'))
    print('%-48s %8s %8s %8s' % ('', 'MiB', 'MiB', 'ms'))
    for title, policies in (("PyTorch's allocator", ('native', 'expandable')),
                            ('gpupool', ('pool',))):
        print(title)
        for run in runs:
            if run.policy in policies:
                row(run.setting() or 'as it is', run, default)
    if any(run.refused for run in runs):
        print('  !N: N allocations were refused; what followed is less than '
              'the program')


def percent(run, default):
    if not default.reserved:
        return 0
    return 100.0 * (default.reserved - run.reserved) / default.reserved


def gain(run, default):
    saved = saving(run, default)
    return '%s %.0f MiB (%.0f %%)' % (
        'costs' if saved < 0 else 'saves', abs(saved),
        abs(percent(run, default)))


def print_best(ours, theirs, default):
    print('\nBest with gpupool: %.0f MiB, %s' % (
        ours.reserved / MIB, gain(ours, default)))
    print('  %sgpupool run -- PROGRAM' % (
        'GPUPOOL_CONF=%s ' % ours.setting() if ours.setting() else ''))
    print("Best with PyTorch's allocator: %.0f MiB, %s" % (
        theirs.reserved / MIB, gain(theirs, default)))
    if theirs.setting():
        print('  PYTORCH_CUDA_ALLOC_CONF=%s' % theirs.setting())
    else:
        print('  no setting is better than none')
    if 'garbage_collection_threshold' in theirs.setting():
        print('  (acts only with torch.cuda.set_per_process_memory_fraction)')


def print_json(trace, runs, ours, theirs, default):
    print(json.dumps({
        'trace': trace,
        'ops': default.ops,
        'peak_live': default.live,
        'default_reserved': default.reserved,
        'gpupool_conf': ours.setting(),
        'gpupool_reserved': ours.reserved,
        'gpupool_saves_mib': saving(ours, default),
        'pytorch_conf': theirs.setting(),
        'pytorch_reserved': theirs.reserved,
        'pytorch_saves_mib': saving(theirs, default),
        'runs': [run.flat(default) for run in runs],
    }, indent=2))


def advise(args, trace):
    candidates = NATIVE + EXPANDABLE + GPUPOOL
    if args.memory:
        candidates = candidates + COLLECTING
    runs = play_all(find_replay(args.replay), trace, args.memory, candidates)
    default = runs[0]
    theirs = best_of([run for run in runs if run.policy != 'pool'])
    ours = best_of([run for run in runs if run.policy == 'pool'])
    if args.json:
        print_json(args.trace, runs, ours, theirs, default)
        return
    print('%s: %d operations, peak live %.0f MiB\n' % (
        STDIN if args.trace == '-' else args.trace, default.ops,
        default.live / MIB))
    print_table(runs, default)
    print_best(ours, theirs, default)


def build_parser():
    parser = Parser(
        prog='gpupool advise',
        description='Play a trace (of gpupool record, or converted) under '
                    'many settings, and name the best for gpupool and the '
                    "best for PyTorch's own allocator. Savings are over "
                    "PyTorch's defaults.")
    parser.add_argument('--memory', metavar='SIZE',
                        help='what the device has, as 80GiB: then settings '
                             'that act on a limit are tried too, and '
                             'refusals are counted')
    parser.add_argument('--json', action='store_true',
                        help='one object; sizes in bytes where not in MiB')
    parser.add_argument('--replay', metavar='FILE',
                        help='this gpupool-replay instead of the one found')
    parser.add_argument('trace', metavar='TRACE',
                        help='a file, plain or xz; - is standard input')
    return parser


def main(argv):
    args = build_parser().parse_args(argv)
    if args.trace != '-':
        advise(args, args.trace)
        return 0
    # Every setting reads it from the start.
    with tempfile.NamedTemporaryFile(suffix='.csv') as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.flush()
        try:
            advise(args, file.name)
        except Problem as problem:
            raise Problem(str(problem).replace(file.name, STDIN),
                          problem.status)
    return 0
