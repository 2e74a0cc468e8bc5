"""gpupool ctl: have a running process do something."""
import argparse
import json
import sys

import gpupool_file
import gpupool_ledger
import gpupool_text
from gpupool_paths import Parser, Problem

DESCRIPTION = """\
Have a running process of yours do something, and say what happened:

  gpupool ctl PID trim                give what it caches back to the driver
  gpupool ctl PID trim 8GiB           so much of it
  gpupool ctl PID limit 8GiB          let it take no more of each device; 50%,
                                      unlimited
  gpupool ctl PID reset-peak          peaks start again from what is now
  gpupool ctl PID report              write a report, as at its exit
  gpupool ctl PID snapshot [-o FILE]  what it holds and did last, for PyTorch's
                                      memory_viz
  gpupool ctl all trim                every process
"""

EPILOG = """\
`gpupool top` shows the process ids. What the process has in use is never
touched: a limit below that only refuses what it asks for from then on.

exit status: 0 when it was done; 1 when the process said no; 125 when it could
not be asked; 2 for wrong use
"""

VERBS = ('trim', 'limit', 'reset-peak', 'report', 'snapshot')
TAKES = {'trim': (0, 1), 'limit': (1, 1)}  # else none


def build_parser():
    parser = Parser(
        prog='gpupool ctl', description=DESCRIPTION, epilog=EPILOG,
        usage='gpupool ctl PID|all VERB [SIZE] [options]',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('pid', metavar='PID|all', help='the process')
    parser.add_argument('verb', metavar='VERB', choices=VERBS,
                        help='one of ' + ', '.join(VERBS))
    parser.add_argument('size', metavar='SIZE', nargs='?',
                        help='for trim and limit, as 8GiB; a limit may be a '
                             'share as 50%%, or unlimited')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where a snapshot goes')
    parser.add_argument('--timeout', metavar='SECONDS', type=float,
                        default=5.0, help='wait so long for the answer (5)')
    parser.add_argument('--json', action='store_true',
                        help='the answers as JSON')
    return parser


def check(options):
    least, most = TAKES.get(options.verb, (0, 0))
    if options.size is None and least:
        raise Problem('ctl %s needs a size, as 8GiB' % options.verb, 2)
    if options.size is not None and not most:
        raise Problem('ctl %s takes no size' % options.verb, 2)
    if options.output and options.verb != 'snapshot':
        raise Problem('-o is for snapshot; a report goes where report_dir '
                      'says', 2)
    if not 0 < options.timeout < 86400:
        raise Problem('--timeout %g: accepted are seconds above 0'
                      % options.timeout, 2)


def chosen(text):
    """The processes to ask."""
    if text == 'all':
        found, problems = gpupool_ledger.processes()
        for problem in problems:
            print('gpupool: ' + problem, file=sys.stderr)
        found = [process for process in found if process.life == 'alive']
        if not found:
            raise Problem('no process of yours uses a GPU under gpupool')
        return found
    if not text.isdigit():
        raise Problem('%s is no process id; `gpupool top` shows them, and all '
                      'stands for every one' % text, 2)
    process = gpupool_ledger.by_pid(int(text))
    if process.life == 'elsewhere':
        raise Problem('process %s is in another pid namespace (a container); '
                      'ask it from there' % text)
    return [process]


def limit(process, text):
    """The size to ask for: the library takes no shares."""
    part = gpupool_text.share(text)
    if part is None:
        if '%' in text:
            raise Problem('limit %s: accepted are a size as 8GiB, a share '
                          'above 0%% and up to 100%%, and unlimited' % text, 2)
        return text
    totals = {device.total for device in process.devices}
    if len(totals) != 1:
        raise Problem('process %d uses %s: give the limit as a size' % (
            process.pid, 'devices of different sizes' if totals
            else 'no device yet'))
    return str(int(totals.pop() * part))


def ask(process, options):
    if options.verb == 'snapshot':
        import gpupool_snapshot
        argv = [str(process.pid)]
        if options.output:
            argv += ['-o', options.output]
        return gpupool_ledger.Answer(
            gpupool_snapshot.main(argv) == 0, '')
    request = options.verb
    if options.verb == 'limit':
        request += ' ' + limit(process, options.size)
    elif options.size:
        request += ' ' + options.size
    return gpupool_ledger.ask(process, request, options.timeout)


def check_order(argv):
    """Said before argparse calls the process no verb."""
    words = [arg for arg in argv if not arg.startswith('-')]
    if len(words) > 1 and words[0] in VERBS and words[1] not in VERBS:
        raise Problem('the process comes first: gpupool ctl %s %s'
                      % (words[1], ' '.join(words[:1] + words[2:])), 2)
    if len(words) == 1 and words == argv:
        raise Problem('ctl %s what? %s or %s' % (
            'PID' if words[0] in VERBS else words[0], ', '.join(VERBS[:-1]),
            VERBS[-1]), 2)


def main(argv):
    check_order(argv)
    options = build_parser().parse_args(argv)
    check(options)
    answers, failed = [], None
    for process in chosen(options.pid):
        try:
            answer = ask(process, options)
        except Problem as problem:
            if options.pid != 'all' or problem.status == 2:
                raise
            if gpupool_file.start_of(process.pid) != process.start:
                continue  # it has ended meanwhile
            failed = problem
            print('gpupool: %s' % problem, file=sys.stderr)
            continue
        text = gpupool_text.clean(answer.text)
        answers.append({'pid': process.pid, 'name': process.name,
                        'request': options.verb, 'ok': answer.ok,
                        'answer': text})
        if options.json or not text:
            continue
        print('%s (pid %d): %s%s' % (gpupool_text.clean(process.name),
                                     process.pid,
                                     '' if answer.ok else 'refused, ', text),
              file=sys.stdout if answer.ok else sys.stderr)
    if options.json:
        print(json.dumps({'answers': answers}, indent=2))
    if failed:
        return failed.status
    return 0 if all(answer['ok'] for answer in answers) else 1
