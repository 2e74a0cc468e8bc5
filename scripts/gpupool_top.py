"""gpupool top: what all processes of this user hold, live."""
import argparse
import csv
import json
import sys
import time

import gpupool_cards
import gpupool_sample
import gpupool_text
import gpupool_top_page as view
from gpupool_paths import Parser, Problem

DESCRIPTION = """\
Show what your processes under gpupool hold of the cards, live:

  gpupool top             until you press q; h explains the columns
  gpupool top -1          once
  gpupool top -1 --json   for scripts
"""

EPILOG = """\
It sees the processes of this user that were started with `gpupool run`, or with
the library in LD_PRELOAD, once they have taken memory. `gpupool ctl PID trim`
empties the cache of one. Rates need two looks, so -1 takes a second; with -d 0
it does not wait and shows none.
"""

MIN_PAUSE_S = 0.1


def build_parser():
    parser = Parser(
        prog='gpupool top', description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('-1', '--once', action='store_true',
                        help='print one page and end')
    parser.add_argument('-d', '--delay', metavar='SECONDS', type=float,
                        default=1.0, help='between two looks (1)')
    parser.add_argument('-s', '--sort', metavar='KEY', default='allocated',
                        choices=list(view.SORTS),
                        help='by one of ' + ', '.join(view.SORTS)
                             + ' (allocated)')
    parser.add_argument('-R', '--reverse', action='store_true',
                        help='the other way round')
    parser.add_argument('--ascii', action='store_true',
                        help='no character beyond ASCII; so it is where the '
                             'locale is not UTF-8')
    parser.add_argument('--json', action='store_true',
                        help='{"processes": [...]}, without -1 a line each '
                             'look')
    parser.add_argument('--csv', action='store_true',
                        help='comma-separated values')
    return parser


class Top:

    def __init__(self, options):
        self.sampler = gpupool_sample.Sampler()
        self.cards = gpupool_cards.Watcher()
        self.ascii = options.ascii or not gpupool_text.is_unicode()
        self.sort = options.sort
        self.backwards = options.reverse

    def rows(self):
        return view.sort(self.sampler.rows, self.sort, self.backwards)

    def page(self, width, height=None):
        return view.page(self.sampler.rows, self.cards.cards,
                         self.sampler.problems, width, self.sort,
                         self.backwards, self.ascii, height)


def once(top, options, print_it):
    top.sampler.look_twice(options.delay)
    print_it(top)


def for_ever(top, options, print_it):
    """Without a screen: a page, or lines, each look."""
    while True:
        top.sampler.look()
        print_it(top)
        sys.stdout.flush()
        time.sleep(max(MIN_PAUSE_S, options.delay))


def print_page(top):
    width = gpupool_text.page_width()
    for line in top.page(width):
        text = line.text(width, gpupool_text.has_colour(), top.ascii)
        sys.stdout.buffer.write(text.encode('utf-8', 'replace') + b'\n')
    sys.stdout.flush()


def json_printer(options):
    indent = 2 if options.once else None

    def print_it(top):
        print(json.dumps({
            'time_unix_s': round(time.time(), 3),
            'processes': [row.flat() for row in top.rows()],
            'cards': [{'index': card.index, 'name': card.name,
                       'memory_bytes': card.total, 'used_bytes': card.used,
                       'processes': card.processes}
                      for card in view.cards_of(top.sampler.rows,
                                                top.cards.cards)],
        }, indent=indent))
    return print_it


def csv_printer():
    writer = csv.writer(sys.stdout, lineterminator='\n')
    titles = []

    def print_it(top):
        now = '%.3f' % time.time()
        for row in top.rows():
            flat = row.flat()
            if not titles:
                titles.extend(['time_unix_s'] + list(flat))
                writer.writerow(titles)
            writer.writerow([now] + ['' if value is None else value
                                     for value in flat.values()])
    return print_it


def live(top, options):
    """On the whole screen, until q."""
    from gpupool_terminal import RESIZED, Terminal
    keys = {key: name for name, (key, _, _) in view.SORTS.items()}
    colour = gpupool_text.has_colour()
    pause = max(MIN_PAUSE_S, options.delay)
    helping = False
    with Terminal() as screen:
        top.sampler.look()
        due = time.monotonic() + pause
        while True:
            width, height = screen.size()
            lines = (view.help_page(width)[:height] if helping
                     else top.page(width, height))
            screen.draw([line.text(width, colour, top.ascii)
                         for line in lines])
            key = screen.key(due - time.monotonic())
            if key == 'q':
                return
            if key is None:
                top.sampler.look()
                due = time.monotonic() + pause
            elif key == RESIZED:
                continue
            elif helping:
                helping = False
            elif key in ('h', '?'):
                helping = True
            elif key == 'R':
                top.backwards = not top.backwards
            elif key in keys:
                top.sort = keys[key]


def main(argv):
    options = build_parser().parse_args(argv)
    if options.json and options.csv:
        raise Problem('top prints JSON or CSV, not both', 2)
    if not 0 <= options.delay <= 86400:
        raise Problem('-d %g: accepted are seconds from 0 to 86400'
                      % options.delay, 2)
    top = Top(options)
    print_it = (json_printer(options) if options.json else
                csv_printer() if options.csv else print_page)
    if options.once:
        once(top, options, print_it)
        return 0
    try:
        if print_it is print_page and sys.stdout.isatty():
            live(top, options)
        else:
            for_ever(top, options, print_it)
    except KeyboardInterrupt:
        pass
    return 0
