"""The command line of gpupool: what there is, and who does it."""
import argparse
import os
import sys
import textwrap

from gpupool_paths import Problem, find_library

DESCRIPTION = """\
Serve a CUDA program's device memory from a caching pool, and say where it
went. The program needs no change:

  gpupool run -- python3 train.py
  gpupool run --conf report_dir:/tmp/reports -- ./program ARGS
"""

EPILOG = """\
exit status: the program's; 125 if gpupool itself failed or a limit among the
settings cannot be read, 126 if the program cannot be executed, 127 if it was
not found, 2 for wrong use
"""


def add_run_options(parser):
    parser.add_argument('--sim', action='store_true',
                        help='run on the simulated driver of the checkout, '
                             'without a card')
    parser.add_argument('--conf', action='append', default=[],
                        metavar='K:V,...',
                        help='settings, added to GPUPOOL_CONF; may be given '
                             'several times')
    parser.add_argument('--limit', metavar='SIZE|N%',
                        help='the most that the program may take of each '
                             'device: 8GiB, or a share of it as 50%%')
    parser.add_argument('--report', metavar='DIR',
                        help='where reports go; made if missing')
    parser.add_argument('--lib', metavar='FILE',
                        help='this libgpupool.so instead of the one found')
    parser.add_argument('command', nargs=argparse.REMAINDER,
                        metavar='-- PROGRAM ARGS')


def build_parser():
    parser = argparse.ArgumentParser(
        prog='gpupool', description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--version', action='store_true',
                        help='print the version and the library found')
    commands = parser.add_subparsers(dest='action', metavar='COMMAND')
    add_run_options(commands.add_parser(
        'run', help='run a program under gpupool',
        usage='gpupool run [options] -- PROGRAM ARGS',
        description='Run PROGRAM with gpupool preloaded; check that it is, '
                    'pass signals on, and end as the program ends.'))
    record = commands.add_parser(
        'record', help='run a program and write its allocations as a trace',
        usage='gpupool record [options] -- PROGRAM ARGS',
        description='Run PROGRAM as `gpupool run` does, and write every '
                    'allocation and free as a line of a trace that '
                    '`gpupool advise` and gpupool-replay read.')
    record.add_argument('-o', '--output', metavar='FILE',
                        help='where to; %%p is the process id, %%e the '
                             'program (gpupool-%%e-%%p.trace.csv)')
    add_run_options(record)
    options = commands.add_parser(
        'options', help='list the settings of GPUPOOL_CONF',
        usage='gpupool options [KEY] [--json]',
        description='Print every setting with its default and what it '
                    'accepts, and its value where GPUPOOL_CONF sets it.')
    options.add_argument('key', nargs='?', metavar='KEY',
                         help='this one only, or those that begin so')
    options.add_argument('--json', action='store_true',
                         help='the same for scripts')
    options.add_argument('--lib', metavar='FILE',
                         help='of this libgpupool.so instead of the one found')
    # These have parsers of their own: everything after the word is theirs.
    commands.add_parser('advise', add_help=False,
                        help='find the best settings for a trace')
    commands.add_parser('snapshot', add_help=False,
                        help="a process's last events, for PyTorch's "
                             'memory_viz')
    return parser


def answer(options):
    """What only prints. A reader who has seen enough is no error."""
    import gpupool_settings
    try:
        if options.version:
            print(gpupool_settings.version(find_library()))
            status = 0
        else:
            status = gpupool_settings.options(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def run_command(options):
    import gpupool_record
    import gpupool_run
    if options.command[:1] == ['--']:
        del options.command[0]
    work = (gpupool_record.record if options.action == 'record'
            else gpupool_run.run)
    return gpupool_run.end_as(work(options))


def main(argv):
    try:
        if argv[:1] == ['advise']:
            import gpupool_advise
            return gpupool_advise.main(argv[1:])
        if argv[:1] == ['snapshot']:
            import gpupool_snapshot
            return gpupool_snapshot.main(argv[1:])
        parser = build_parser()
        options = parser.parse_args(argv)
        if options.version or options.action == 'options':
            return answer(options)
        if options.action is None:
            parser.print_help()
            return 2
        return run_command(options)
    except Problem as problem:
        lines = ('gpupool: %s' % problem).split('\n')
        for line in lines:
            print(textwrap.fill(line, 79, subsequent_indent='  ',
                                initial_indent='  ' if line[:1] == ' ' else '',
                                break_long_words=False,
                                break_on_hyphens=False), file=sys.stderr)
        return problem.status
