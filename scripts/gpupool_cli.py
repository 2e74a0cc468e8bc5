"""The command line of gpupool: what there is, and who does it.

Each verb has a module with build_parser(), which help, completion and the man
page come from, and main(argv), which returns the exit status.
"""
import argparse
import difflib
import errno
import importlib
import os
import sys
import textwrap

from gpupool_paths import Parser, Problem, find_library

DESCRIPTION = """\
Serve a CUDA program's device memory from a caching pool, hold it to a limit,
and say where the memory went. The program needs no change:

  gpupool run -- python3 train.py                 serve it from the pool
  gpupool run --limit 8GiB -- python3 train.py    let it take no more
  gpupool top                                     who holds memory now
  gpupool ctl PID trim                            empty a process's cache
  gpupool report PID                              what it holds, or held when
                                                  it ended or was killed
  gpupool run --report DIR -- python3 train.py    keep reports there; then
  gpupool diff DIR/OLD.json DIR/NEW.json          what grew from run to run
  gpupool doctor -- python3 train.py              does it work here?
"""

EPILOG = """\
`gpupool COMMAND --help` says more about each, with examples.
"""

# In the order in which people need them.
VERBS = (
    ('run', 'gpupool_run', 'run a program under gpupool'),
    ('top', 'gpupool_top', 'what your processes hold of the cards, live'),
    ('report', 'gpupool_report',
     'where the memory of a process, or of a whole job, went'),
    ('diff', 'gpupool_diff', 'what grew between two reports or moments'),
    ('ctl', 'gpupool_ctl',
     'have a running process give back memory, or hold a limit'),
    ('doctor', 'gpupool_doctor',
     'will it work here, and for this program?'),
    ('metrics', 'gpupool_metrics',
     'what processes hold, for Prometheus'),
    ('record', 'gpupool_record',
     'run a program and write its allocations as a trace'),
    ('advise', 'gpupool_advise', 'find the best settings for a trace'),
    ('snapshot', 'gpupool_snapshot',
     "a process's last events, for PyTorch's memory_viz"),
    ('options', 'gpupool_settings', 'list the settings of GPUPOOL_CONF'),
)


# What a write into a full or closed stdout fails with.
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)


class Formatter(argparse.RawDescriptionHelpFormatter):
    """Fits 80 columns, and does not break long words at hyphens."""

    def __init__(self, prog):
        super().__init__(prog, max_help_position=26, width=79)


def build_parser():
    """Of `gpupool` itself; it does not know the options of the verbs."""
    parser = Parser(
        prog='gpupool', description=DESCRIPTION, epilog=EPILOG,
        usage='gpupool COMMAND [options] ...', formatter_class=Formatter)
    parser.add_argument('--version', action='store_true',
                        help='print the version and the library found')
    commands = parser.add_subparsers(dest='verb', metavar='COMMAND')
    for verb, _, does in VERBS:
        commands.add_parser(verb, add_help=False, help=does)
    commands.add_parser('help', add_help=False,
                        help='this page, or `gpupool help COMMAND`')
    return parser


def module_name(verb):
    """None if there is no such verb."""
    return next((module for name, module, _ in VERBS if name == verb), None)


def module_of(verb):
    """The verb's module; None if there is no such verb."""
    name = module_name(verb)
    return importlib.import_module(name) if name else None


def print_version():
    import gpupool_settings
    print(gpupool_settings.version(find_library()))


def no_such(verb):
    from gpupool_ctl import VERBS as ASKED
    if verb in ASKED:
        return Problem('%s is asked of a process: gpupool ctl PID %s'
                       % (verb, verb), 2)
    near = difflib.get_close_matches(verb, [v[0] for v in VERBS], 1)
    return Problem('there is no command %s; %s`gpupool --help` lists them' % (
        verb, 'the nearest is %s, ' % near[0] if near else ''), 2)


def show_help(argv):
    module = module_of(argv[0]) if argv else None
    if argv and not module:
        raise no_such(argv[0])
    (module.build_parser() if module else build_parser()).print_help()
    return 0


def dispatch(argv):
    module = module_of(argv[0]) if argv else None
    if module:
        return module.main(argv[1:])
    if argv[:1] == ['help']:
        return show_help(argv[1:])
    if argv and not argv[0].startswith('-'):
        raise no_such(argv[0])
    behind = next((arg for arg in argv if module_name(arg)), None)
    if behind and not {'-h', '--help', '--version'}.intersection(argv):
        raise Problem('options come behind the command: gpupool %s %s ...'
                      % (behind, argv[0]), 2)
    parser = build_parser()
    options = parser.parse_args(argv)
    if options.version:
        print_version()
        return 0
    parser.print_help()
    return 2


def report_problem(problem):
    for line in ('gpupool: %s' % problem).split('\n'):
        print(textwrap.fill(line, 79, subsequent_indent='  ',
                            initial_indent='  ' if line[:1] == ' ' else '',
                            break_long_words=False,
                            break_on_hyphens=False), file=sys.stderr)


def fill_gaps():
    """Whoever closed stdout or stderr gets no traceback for it, no output in
    the place of the other one, and no file of ours under their number. What
    we open here is closed in the programs that are started: they see the same
    as without us."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_RDONLY), 'w')
    if sys.stderr is None:
        sys.stderr = os.fdopen(os.open(os.devnull, os.O_WRONLY), 'w')


def forget_output():
    """What is still in the buffer shall not fail once more at the end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def main(argv):
    fill_gaps()
    try:
        status = dispatch(argv)
        sys.stdout.flush()
        return status
    except Problem as problem:
        report_problem(problem)
        return problem.status
    except BrokenPipeError:  # a reader who has seen enough is no error
        forget_output()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in UNWRITABLE:
            raise
        forget_output()
        report_problem('cannot write the output: %s' % error.strerror)
        return 1
    except KeyboardInterrupt:
        return 130
