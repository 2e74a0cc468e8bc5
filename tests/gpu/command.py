#!/usr/bin/env python3
"""The command's verbs on a real card, with a PyTorch program that holds 4 GiB
and has freed 2 GiB, and another one that runs without gpupool. What is printed
is for eyes; what must be so is checked.

    tests/gpu/command.py [--build build]
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
GPUPOOL = [sys.executable, os.path.join(ROOT, 'scripts', 'gpupool')]
GIB = 1 << 30

HOLDER = '''
import sys, time, torch
kept = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
freed = torch.empty(2 << 30, dtype=torch.uint8, device="cuda")
torch.cuda.synchronize()
del freed
print("ready", flush=True)
sys.stdin.readline()
print("sum", int(kept[:1024].zero_().sum()), flush=True)
'''

failed = []


def check(what, good, detail=''):
    print('%s: %s%s' % ('pass' if good else 'FAILED', what,
                        '' if good else ' (%s)' % detail), flush=True)
    if not good:
        failed.append(what)


def gpupool(*args, show=True, **kwargs):
    done = subprocess.run(GPUPOOL + list(args), stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=240, **kwargs)
    text = done.stdout.decode('utf-8', 'replace')
    if show:
        print('$ gpupool %s\n%s[status %d]\n' % (' '.join(args), text,
                                                 done.returncode), flush=True)
    return done.returncode, text


def holder(words):
    proc = subprocess.Popen(words + [sys.executable, '-c', HOLDER],
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if proc.stdout.readline() != b'ready\n':
        sys.exit('the PyTorch program does not start')
    return proc


def rows():
    return json.loads(gpupool('top', '-1', '--json', show=False)[1])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default=os.path.join(ROOT, 'build'))
    build = parser.parse_args().build
    lib = ['--lib', os.path.join(os.path.abspath(build), 'libgpupool.so')]
    os.environ['XDG_RUNTIME_DIR'] = tempfile.mkdtemp(prefix='gpupool-run-')
    os.chdir(tempfile.mkdtemp(prefix='gpupool-command-'))

    status, text = gpupool('doctor', *lib)
    check('doctor finds all well', status == 0 and 'interception' in text)
    status, text = gpupool(
        'doctor', *lib, '--seconds', '60', '--', sys.executable, '-c',
        'import torch; x = torch.ones(1 << 28, device="cuda"); '
        'print(float(x.sum()))')
    check('doctor says that PyTorch is covered', 'complete' in text)
    check('doctor tells of its cache', '--uncached' in text)
    status, text = gpupool('top', '-1')
    check('a card without a process is shown', 'none by gpupool' in text)

    ours = holder(GPUPOOL + ['run', '--uncached', '--conf',
                             'quiet:True,cache_policy:keep'] + lib + ['--'])
    plain = holder([])
    time.sleep(7)  # nvidia-smi's figures, and the ledger's
    gpupool('top', '-1')
    page = rows()
    row, = page['processes']
    check('top: what the program holds',
          4 * GIB <= row['allocated_bytes'] < 4.1 * GIB, row)
    check('top: what is cached', 2 * GIB <= row['cached_bytes'] < 2.1 * GIB,
          row)
    card, = [card for card in page['cards'] if card['processes']]
    check('top: others on the card',
          (card['used_bytes'] or 0) > 9 * GIB, card)
    pid = str(row['pid'])
    status, text = gpupool('ctl', pid, 'trim')
    check('ctl trim', status == 0 and '2.00 GiB' in text, text)
    time.sleep(1.5)
    row, = rows()['processes']
    check('ctl trim: the cache is empty', row['cached_bytes'] < GIB / 8, row)
    status, text = gpupool('ctl', pid, 'limit', '50%')
    check('ctl limit', status == 0, text)
    for verb in 'reset-peak', 'report', 'snapshot':
        status, text = gpupool('ctl', pid, verb)
        check('ctl ' + verb, status == 0, text)
    status, text = gpupool('metrics', show=False)
    check('metrics', 'gpupool_allocated_bytes{pid="%s"' % pid in text, text)
    for proc in ours, plain:
        out, _ = proc.communicate(b'\n', timeout=120)
        check('the program goes on', (proc.returncode, out) == (0, b'sum 0\n'),
              (proc.returncode, out))
    print('%d failed' % len(failed))
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
