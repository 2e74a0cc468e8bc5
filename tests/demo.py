#!/usr/bin/env python3
"""make demo: an unmodified example, plain and under gpupool, on the card if
there is one, else on the simulated driver."""
import argparse
import glob
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402  (found through the line above)

ROUNDS = 3
OPS = {'card': 20000, 'simulated': 6000}
# What cudaMalloc and cudaFree take on an H200, so that the simulated card is
# not faster than a real one where it matters here.
SIM_COSTS = 'memory:16GiB,alloc_us:35,free_us:40'


def find_card():
    """(name of the card, directory of libcudart), or None."""
    smi = shutil.which('nvidia-smi')
    if not smi:
        return None
    asked = subprocess.run([smi, '--query-gpu=name', '--format=csv,noheader'],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    names = asked.stdout.decode().splitlines()
    if asked.returncode or not names:
        return None
    home = os.environ.get('CUDA_HOME', '/usr/local/cuda')
    for place in [os.path.join(home, 'lib64')] + linker_places():
        if glob.glob(os.path.join(place, 'libcudart.so.13')):
            return names[0], place
    print('There is a card, but no libcudart.so.13 (CUDA 13) to link the '
          'example to;\nset CUDA_HOME. Using the simulated card.\n')
    return None


def linker_places():
    ldconfig = shutil.which('ldconfig') or '/sbin/ldconfig'
    try:
        text = subprocess.run([ldconfig, '-p'], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL).stdout.decode()
    except OSError:
        return []
    return [os.path.dirname(path)
            for path in re.findall(r'libcudart\.so\.13 .*=> (\S+)', text)]


class Demo:

    def __init__(self, build, place):
        self.build = build
        self.place = place
        self.card = find_card()
        self.kind = 'card' if self.card else 'simulated'
        self.argv = [os.path.join(build.path, 'examples', 'churn'),
                     '--ops', str(OPS[self.kind]), '--seed', '1']

    def run(self, preload):
        """Seconds, and the checksum that the example printed."""
        env = self.build.env(preload=preload,
                             conf='quiet:True,report_dir:"%s"' % self.place)
        if self.card:
            env['LD_LIBRARY_PATH'] = self.card[1]
        else:
            env['GPUPOOL_SIM'] = SIM_COSTS
        start = time.monotonic()
        result = harness.run(self.argv, env, 120)
        seconds = time.monotonic() - start
        last = result.out.decode().splitlines()[-1:]
        if result.status != 0 or not last or 'checksum' not in last[0]:
            sys.exit('demo: %s %s' % (' '.join(self.argv), result))
        return seconds, last[0].split()[-1]

    def report(self, suffix):
        """The newest report of that suffix."""
        paths = glob.glob(os.path.join(self.place, '*.exit.' + suffix))
        if not paths:
            sys.exit('demo: the preloaded example wrote no report')
        with open(max(paths, key=os.path.getmtime)) as file:
            return file.read()


def row(name, plain, ours, remark=''):
    print(('  %-14s %18s %18s   %s' % (name, plain, ours, remark)).rstrip())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default=os.path.join(harness.ROOT, 'build'))
    build = harness.Build(parser.parse_args().build)
    place = tempfile.mkdtemp(prefix='gpupool-demo-')
    try:
        return show(Demo(build, place))
    finally:
        shutil.rmtree(place, True)


def show(demo):
    print('A training-like example that nobody changed, linked to cudart only:')
    print('  %s %s' % (os.path.relpath(demo.argv[0]), ' '.join(demo.argv[1:])))
    if demo.card:
        print('on the card, %s. Median of %d runs each.\n'
              % (demo.card[0], ROUNDS))
    else:
        print('on a simulated card, as none was found here; its cudaMalloc and '
              'cudaFree take\nas long as an H200\'s. Median of %d runs each.\n'
              % ROUNDS)
    plain, ours = [], []
    for _ in range(ROUNDS):  # in turn: machines are noisy
        plain.append(demo.run(False))
        ours.append(demo.run(True))
    sums = {c for _, c in plain + ours}
    seconds = [statistics.median(s for s, _ in runs)
               for runs in (plain, ours)]
    report = json.loads(demo.report('json'))
    saved, made = report['calls_saved'], report['driver_calls']
    row('', 'plain', 'with gpupool')
    row('time', '%.3f s' % seconds[0], '%.3f s' % seconds[1],
        '%.1f times as fast' % (seconds[0] / seconds[1]))
    row('checksum', plain[0][1], ours[0][1],
        'equal' if len(sums) == 1 else 'NOT EQUAL')
    row('memory calls', saved, made, '%d saved' % (saved - made))
    print('\nThe report that gpupool wrote when the example ended:\n')
    print(demo.report('txt'), end='')
    if len(sums) != 1:
        print('demo: the checksums differ; please report this as a bug',
              file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
