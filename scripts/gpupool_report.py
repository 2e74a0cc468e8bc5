"""gpupool report: what became of device memory in a process, living or dead,
or in all processes of a job.
"""
import argparse
import json
import os
import sys

import gpupool_story
from gpupool_paths import Parser, Problem

EPILOG = """\
examples:
  gpupool report                      the newest report here
  gpupool report 1234                 a living process is asked; of a dead
                                      one, what it left behind
  gpupool report --html -o run.html gpupool-train-1234.exit.json
  gpupool report /logs/job-7          all processes of a job, side by side
  gpupool report --tensorboard -o runs/7/ 1234

A report says most. The events that a process leaves in the runtime directory
are added where they are found, and are enough where it wrote no report.
"""


def build_parser():
    parser = Parser(
        prog='gpupool report', epilog=EPILOG,
        usage='gpupool report [PID|FILE|DIR] [--html|--json|...] [-o FILE]',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Show what became of device memory: in a process, living '
                    'or dead,\nfrom a report or from its events; or in all '
                    'processes of a job.')
    parser.add_argument('what', nargs='?', metavar='PID|FILE|DIR',
                        help='a process, a report, a file of the runtime '
                             'directory, or a directory of such files')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where to, instead of stdout')
    forms = parser.add_mutually_exclusive_group()
    for form, words in (
            ('text', 'a page of text (the default)'),
            ('html', 'a page for a browser: curves, map, call sites'),
            ('json', 'for scripts, as report.schema.json describes'),
            ('csv', 'the curves and the events, a line each'),
            ('perfetto', 'a trace that ui.perfetto.dev opens'),
            ('tensorboard', 'an event file with the curves')):
        forms.add_argument('--' + form, action='store_const', const=form,
                           dest='form', help=words)
    parser.add_argument('--ring', metavar='FILE',
                        help="the events of a report's process, if they do "
                             'not lie in the runtime directory any more')
    parser.add_argument('--all', action='store_true',
                        help='of a directory: every process, however many')
    return parser


def write(data, output):
    """To a file, which is whole or not there, or to stdout."""
    raw = data if isinstance(data, bytes) else data.encode('utf-8', 'replace')
    if output in (None, '-'):
        sys.stdout.buffer.write(raw)
        return
    new = '%s.new-%d' % (output, os.getpid())
    try:
        try:
            with open(new, 'wb') as file:
                file.write(raw)
            os.replace(new, output)
        except OSError:
            if os.path.exists(new):
                os.unlink(new)
            raise
    except OSError as error:
        raise Problem('cannot write %s: %s' % (output, error.strerror))


def as_json(data):
    return json.dumps(data, indent=2) + '\n'


def compare(options):
    import gpupool_compare
    if options.form in ('csv', 'perfetto', 'tensorboard'):
        raise Problem('--%s is of one process, and %s is a directory; name a '
                      'file in it' % (options.form, options.what), 2)
    rows, problems = gpupool_compare.read(options.what)
    if options.form == 'json':
        return as_json(gpupool_compare.data(rows, problems))
    if options.form == 'html':
        import gpupool_html
        return gpupool_html.comparison(rows, problems)
    return gpupool_compare.text(rows, problems, options.all)


def tensorboard(story, options):
    import gpupool_tensorboard
    place = gpupool_tensorboard.place(story.report, options.output)
    if place != '-' and 'tfevents' not in os.path.basename(place):
        raise Problem('TensorBoard reads only files with tfevents in their '
                      'name, and %s has not; give a directory, as -o runs/'
                      % place, 2)
    folder = os.path.dirname(place)
    if folder and not os.path.isdir(folder):
        try:
            os.makedirs(folder)
        except OSError as error:
            raise Problem('cannot make %s: %s' % (folder, error.strerror))
    write(gpupool_tensorboard.as_events(story), place)
    if place != '-':
        print('gpupool: ' + place, file=sys.stderr)


def one(story, form):
    if form == 'json':
        return as_json(story.report)
    if form == 'html':
        import gpupool_html
        return gpupool_html.page(story)
    if form in ('csv', 'perfetto'):
        import gpupool_export
        return getattr(gpupool_export, 'as_' + form)(story)
    import gpupool_page
    return gpupool_page.text(story)


def main(argv):
    options = build_parser().parse_args(argv)
    if options.what and os.path.isdir(options.what):
        write(compare(options), options.output)
        return 0
    if options.what:
        story = gpupool_story.find(options.what, options.ring)
    else:
        story = gpupool_story.newest()
        print('gpupool: ' + story.path, file=sys.stderr)
    refused = gpupool_story.last_refusal(story.path)
    if refused:
        print('gpupool: it was refused memory; why: gpupool report ' + refused,
              file=sys.stderr)
    if options.form == 'tensorboard':
        tensorboard(story, options)
    else:
        write(one(story, options.form), options.output)
    return 0
