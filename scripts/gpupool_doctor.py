"""gpupool doctor: will it work here, and for this program?"""
import argparse
import json

import gpupool_doctor_conflicts
import gpupool_doctor_system as system
import gpupool_finding
import gpupool_run
from gpupool_finding import TODO, Finding
from gpupool_paths import Parser, Problem, find_library

DESCRIPTION = """\
Look whether gpupool can work here, and say what to do where it cannot:

  gpupool doctor                      the machine
  gpupool doctor -- python3 train.py  and this program: is every allocation
                                      seen, and if not, whose is not?
  gpupool doctor --sim -- ./program   on the simulated driver
"""

EPILOG = """\
The program is started, watched for at most SECONDS, and stopped; what it prints
goes to stderr. Only libraries that it loads meanwhile can be judged.

exit status: 0 when all is well, 1 when something needs doing (TODO), 2 for
wrong use
"""


def build_parser():
    parser = Parser(
        prog='gpupool doctor', description=DESCRIPTION, epilog=EPILOG,
        usage='gpupool doctor [options] [-- PROGRAM ARGS]',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sim', action='store_true',
                        help='on the simulated driver of the checkout')
    parser.add_argument('--conf', action='append', default=[],
                        metavar='K:V,...',
                        help='settings, added to GPUPOOL_CONF')
    parser.add_argument('--seconds', metavar='SECONDS', type=float,
                        default=20.0,
                        help='watch the program for so long (20); 0: look at '
                             'its file only')
    parser.add_argument('--json', action='store_true',
                        help='what was found, for scripts')
    parser.add_argument('--lib', metavar='FILE',
                        help='this libgpupool.so instead of the one found')
    parser.add_argument('command', nargs=argparse.REMAINDER,
                        metavar='-- PROGRAM ARGS', help='what to try')
    return parser


def findings(options):
    """Generated one after the other: some take a while."""
    try:
        library = find_library(options.lib)
    except Problem as problem:
        yield Finding('library', TODO, str(problem))
        return
    parts = [
        ('library', system.check_library(library)),
        ('Python', system.check_python()),
        ('card', system.check_card(options, library)),
        ('directory', system.check_runtime_dir()),
        ('settings', system.check_settings(options, library)),
        ('limits', system.check_limits()),
        ('conflicts', gpupool_doctor_conflicts.check(library)),
    ]
    if options.command:
        import gpupool_doctor_program
        parts.append(('program',
                      gpupool_doctor_program.check(options, library)))
    for check, part in parts:
        try:
            yield from part
        except Problem as problem:
            yield Finding(check, TODO, str(problem))


def main(argv):
    options = gpupool_run.parse(build_parser(), argv)
    options.limit = options.report = None
    options.uncached = False
    if not 0 <= options.seconds <= 86400:
        raise Problem('--seconds %g: accepted are 0 to 86400'
                      % options.seconds, 2)
    if options.json:
        found = list(findings(options))
        print(json.dumps({'ok': all(f.status != TODO for f in found),
                          'checks': [f.flat() for f in found]}, indent=2))
    else:
        found = gpupool_finding.show(findings(options))
    return int(any(finding.status == TODO for finding in found))
