"""gpupool record: run a program and write its allocations as a trace."""
import argparse
import glob
import os
import time

import gpupool_run
from gpupool_paths import Parser, Problem

DEFAULT = 'gpupool-%e-%p.trace.csv'

DESCRIPTION = """\
Run PROGRAM as `gpupool run` does, and write every allocation and free as a
line of a trace, which `gpupool advise` and gpupool-replay read.

  gpupool record -o run.csv -- python3 train.py
  gpupool advise run.csv
"""


def build_parser():
    parser = Parser(
        prog='gpupool record', description=DESCRIPTION,
        usage='gpupool record [options] -- PROGRAM ARGS',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where to; %%p is the process id, %%e the '
                             'program (gpupool-%%e-%%p.trace.csv)')
    gpupool_run.add_options(parser)
    return parser


def record(options):
    """Returns the program's wait status. Only processes that allocate device
    memory write a trace, each its own, so the name holds %p."""
    if not options.command:
        raise Problem('no program given; try: gpupool record -- PROGRAM', 2)
    pattern = os.path.abspath(options.output or DEFAULT)
    directory = os.path.dirname(pattern.replace('%%', '%'))
    if not os.access(directory, os.W_OK):
        raise Problem('cannot write to %s; give another place with -o'
                      % directory)
    began = time.time()
    status = gpupool_run.run(options, {'GPUPOOL_TRACE': pattern})
    written = [path for path in traces(pattern)
               if os.path.getmtime(path) >= began - 1]
    if not written:
        gpupool_run.say('no trace: gpupool saw no allocation of device memory')
        gpupool_run.say('if no line above says why, ask: gpupool doctor -- '
                        'PROGRAM')
    for path in written:
        gpupool_run.say('%s (%d lines); next: gpupool advise %s' % (
            path, count_lines(path), os.path.relpath(path)))
    return status


def traces(pattern):
    """The files that a pattern with %p, %e and %% stands for."""
    parts = pattern.split('%%')
    shell = '%'.join(glob.escape(part).replace('%p', '*').replace('%e', '*')
                     for part in parts)
    return sorted(glob.glob(shell))


def count_lines(path):
    with open(path, 'rb') as file:
        return sum(1 for line in file if line[:1] in b'pafo')


def main(argv):
    return gpupool_run.end_as(record(gpupool_run.parse(build_parser(), argv)))
