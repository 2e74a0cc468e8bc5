"""gpupool metrics: what the ledgers say, for Prometheus.

One table of families makes both formats: Prometheus' text (version 0.0.4) and
OpenMetrics (1.0.0), which wants units, no _total in a family's name, and an
end. Names follow Prometheus' rules: base units, the unit last, _total only on
what never falls.
"""
import argparse
import os
import re
import signal
import sys
import tempfile
import time

import gpupool_ledger
from gpupool_paths import Parser, Problem

DESCRIPTION = """\
Tell what your processes under gpupool hold, in Prometheus' text format:

  gpupool metrics                          once, on stdout
  gpupool metrics --listen 127.0.0.1:9835  for Prometheus to scrape
  gpupool metrics --textfile /srv/node_exporter/gpupool.prom --every 15
"""

EPILOG = """\
/metrics answers in OpenMetrics where the Accept header prefers it. There is no
password: whoever reaches the port reads it, so listen on 127.0.0.1. A text
file is replaced by rename, so nobody reads half of one. Each process is seen by
its own user only; run one for each user whose processes shall be seen.
"""

TEXT, OPEN = 'text', 'openmetrics'
CONTENT_TYPE = {
    TEXT: 'text/plain; version=0.0.4; charset=utf-8',
    OPEN: 'application/openmetrics-text; version=1.0.0; charset=utf-8',
}
NS = 1e-9


def figure(name, scale=1):
    """A getter of a figure by its name in the ledger; None if unknown."""
    def get(row):
        value = gpupool_ledger.known(row.figures, name)
        return None if value is None else value * scale
    return get


def field(name):
    return lambda row: getattr(row, name)


# (name without prefix, type, unit, help, value of a device in a process)
DEVICE = (
    ('allocated_bytes', 'gauge', 'bytes',
     'Pool memory that the program holds, rounding included.',
     field('allocated')),
    ('requested_bytes', 'gauge', 'bytes',
     'Pool memory that the program asked for and holds.',
     figure('requested_bytes.all.current')),
    ('active_bytes', 'gauge', 'bytes',
     'Allocated, or freed and not usable yet.',
     figure('active_bytes.all.current')),
    ('reserved_bytes', 'gauge', 'bytes',
     'Device memory that the pool holds.', field('reserved')),
    ('cached_bytes', 'gauge', 'bytes',
     'Reserved and free for the next request.', field('cached')),
    ('allocated_peak_bytes', 'gauge', 'bytes',
     'The most that was allocated, since the start or a reset of peaks.',
     field('peak_allocated')),
    ('reserved_peak_bytes', 'gauge', 'bytes',
     'The most that was reserved, since the start or a reset of peaks.',
     field('peak_reserved')),
    ('inactive_split_bytes', 'gauge', 'bytes',
     'Cached beside what is in use: it can neither move nor be given back.',
     figure('inactive_split_bytes.all.current')),
    ('largest_free_bytes', 'gauge', 'bytes',
     'The largest free range.', field('largest_free')),
    ('fragmentation_ratio', 'gauge', 'ratio',
     'Share of the cached memory that is not in the largest free range.',
     field('fragmentation')),
    ('limit_bytes', 'gauge', 'bytes',
     'The most that the process may take of the device; absent: no limit.',
     field('cap')),
    ('reserve_floor_bytes', 'gauge', 'bytes',
     'What the process keeps when a neighbour asks for memory.',
     field('reserve_floor')),
    ('context_bytes', 'gauge', 'bytes',
     'What the contexts themselves take, where that is measured.',
     field('context')),
    ('outside_bytes', 'gauge', 'bytes',
     'What the process holds of the device beside the pool.',
     field('outside')),
    ('live_allocations', 'gauge', '',
     'Allocations that the program holds.',
     figure('allocation.all.current')),
    ('taken_bytes', 'counter', 'bytes',
     'Everything that the program ever took from the pool.',
     figure('allocated_bytes.all.allocated')),
    ('returned_bytes', 'counter', 'bytes',
     'Everything that the program ever gave back to the pool.',
     figure('allocated_bytes.all.freed')),
    ('allocations', 'counter', '', 'Allocations asked of the pool.',
     figure('num_alloc_calls')),
    ('frees', 'counter', '', 'Frees of pool memory.',
     figure('num_free_calls')),
    ('hits', 'counter', '', 'Allocations served without a driver call.',
     figure('num_hits')),
    ('out_of_memory', 'counter', '', 'Allocations refused.',
     figure('num_ooms')),
    ('allocation_retries', 'counter', '',
     'Allocations that had to reclaim memory first.',
     figure('num_alloc_retries')),
    ('remaps', 'counter', '', 'Handles moved to another address.',
     figure('num_remaps')),
    ('trims', 'counter', '', 'Times cached memory was given back.',
     figure('num_trims')),
    ('stream_waits', 'counter', '',
     'Times a stream had to wait so that memory could be used again.',
     figure('num_stream_waits')),
    ('host_waits', 'counter', '', 'Waits of the host in frees.',
     figure('num_waits')),
    ('driver_calls', 'counter', '',
     'Driver calls to get or give back memory.', figure('num_driver_calls')),
    ('driver_seconds', 'counter', 'seconds', 'Time spent in them.',
     figure('driver_ns', NS)),
    ('driver_saved_seconds', 'gauge', 'seconds',
     'Driver time that the pool saved, estimated.', figure('saved_ns', NS)),
)

# The same for a process.
PROCESS = (
    ('process_start_time_seconds', 'gauge', 'seconds',
     'When the process began to use a GPU, in Unix time.', field('started')),
    ('process_last_update_timestamp_seconds', 'gauge', 'seconds',
     'When its figures were written, in Unix time.', field('updated')),
    ('process_responding', 'gauge', '',
     '1 if it was seen in the last seconds, 0 if it is stopped or stuck.',
     lambda process: int(process.responds)),
    ('neighbours_asked', 'counter', '',
     'Other processes that it asked to give back memory.',
     figure('neighbours_asked')),
    ('neighbours_gave_bytes', 'counter', 'bytes', 'What they gave back.',
     figure('neighbours_gave_bytes')),
    ('asked_by_neighbours', 'counter', '',
     'How often other processes asked it to give back memory.',
     figure('asked_by_neighbours')),
    ('gave_neighbours_bytes', 'counter', 'bytes',
     'What it gave back for them.', figure('gave_neighbours_bytes')),
)

# The same for a card, as the last process that asked its driver saw it.
CARD = (
    ('card_memory_bytes', 'gauge', 'bytes',
     "The card's memory, as the driver tells it.", field('total')),
    ('card_free_bytes', 'gauge', 'bytes',
     'Free on the card when a process last asked the driver.', field('free')),
)

OUTSIDE = re.compile(r'outside\.(\w+)\.bytes\.current\Z')


class Family:

    def __init__(self, name, kind, unit, text):
        self.name = 'gpupool_' + name
        self.kind = kind
        self.unit = unit
        self.text = text
        self.samples = {}  # labels as a tuple: value; no two with the same

    def add(self, labels, value):
        if value is not None:
            self.samples[tuple(labels.items())] = value


def of_rows(table, rows):
    """Families for rows of (labels, object)."""
    families = []
    for name, kind, unit, text, get in table:
        family = Family(name, kind, unit, text)
        for labels, row in rows:
            family.add(labels, get(row))
        families.append(family)
    return families


def families(processes, problems):
    devices, owners, cards = [], [], {}
    info = Family('process', 'info', '', 'A process that uses a GPU.')
    outside = Family('outside_by_kind_bytes', 'gauge', 'bytes',
                     'Memory that the process holds beside the pool, by kind; '
                     'pinned and registered are host memory.')
    for process in processes:
        who = {'pid': str(process.pid), 'program': process.name}
        owners.append((who, process))
        info.add(dict(who, exe=process.exe), 1)
        for name in process.figures:
            match = OUTSIDE.match(name)
            if match:
                outside.add(dict(who, kind=match.group(1)),
                            gpupool_ledger.known(process.figures, name))
        for device in process.devices:
            devices.append((dict(who, device=str(device.ordinal),
                                 uuid=device.uuid), device))
            # The newest word on a card counts.
            seen = cards.get(device.uuid)
            if seen is None or (device.free is not None and
                                (process.updated or 0) >= seen[0]):
                cards[device.uuid] = (process.updated or 0, device)
    count = Family('processes', 'gauge', '',
                   'Living processes of this user under gpupool.')
    count.add({}, len(processes))
    unread = Family('unreadable_files', 'gauge', '',
                    'Files in the runtime directory that could not be used.')
    unread.add({}, len(problems))
    return ([count, unread, info] + of_rows(PROCESS, owners) + [outside]
            + of_rows(DEVICE, devices) + of_rows(CARD, [
                ({'uuid': uuid, 'name': device.name}, device)
                for uuid, (_, device) in sorted(cards.items())]))


def escaped(text, quote):
    text = text.replace('\\', r'\\').replace('\n', r'\n')
    return text.replace('"', r'\"') if quote else text


def number(value):
    return str(value) if isinstance(value, int) else repr(float(value))


def render(found, style):
    lines = []
    for family in found:
        if not family.samples:
            continue
        name, kind, sample = family.name, family.kind, family.name
        if kind == 'counter':
            sample += '_total'
        elif kind == 'info':
            sample += '_info'
        if style == TEXT:
            name, kind = sample, {'info': 'gauge'}.get(kind, kind)
            lines.append('# HELP %s %s' % (name, escaped(family.text, False)))
            lines.append('# TYPE %s %s' % (name, kind))
        else:
            lines.append('# TYPE %s %s' % (name, kind))
            if family.unit:
                lines.append('# UNIT %s %s' % (name, family.unit))
            lines.append('# HELP %s %s' % (name, escaped(family.text, True)))
        for labels, value in family.samples.items():
            text = ','.join('%s="%s"' % (key, escaped(label, True))
                            for key, label in labels)
            lines.append('%s%s %s' % (sample, '{%s}' % text if text else '',
                                      number(value)))
    if style == OPEN:
        lines.append('# EOF')
    return '\n'.join(lines) + '\n'


def page(style=TEXT):
    """All metrics of this moment."""
    processes, problems = gpupool_ledger.processes()
    return render(families(processes, problems), style)


def write_file(path, text):
    """By rename; readable for the exporter, which is another user."""
    directory = os.path.dirname(os.path.abspath(path))
    new = None
    try:
        fd, new = tempfile.mkstemp(prefix='.gpupool-metrics-', dir=directory)
        with os.fdopen(fd, 'w', encoding='utf-8') as file:
            os.fchmod(fd, 0o644)
            file.write(text)
        os.rename(new, path)
    except OSError as error:
        if new and os.path.exists(new):
            os.unlink(new)
        raise Problem('--textfile %s: cannot write it: %s'
                      % (path, error.strerror))


def build_parser():
    parser = Parser(
        prog='gpupool metrics', description=DESCRIPTION, epilog=EPILOG,
        usage='gpupool metrics [--listen ADDRESS:PORT | --textfile PATH]'
              ' [options]',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    where = parser.add_mutually_exclusive_group()
    where.add_argument('--listen', metavar='ADDRESS:PORT',
                       help='serve http://ADDRESS:PORT/metrics until stopped; '
                            'port 0: any that is free')
    where.add_argument('--textfile', metavar='PATH',
                       help="write this file, for node_exporter's textfile "
                            'collector')
    parser.add_argument('--every', metavar='SECONDS', type=float,
                        help='with --textfile: again and again')
    parser.add_argument('--openmetrics', action='store_true',
                        help='OpenMetrics on stdout or in the file')
    return parser


def end(number, frame):
    sys.exit(0)


def main(argv):
    options = build_parser().parse_args(argv)
    style = OPEN if options.openmetrics else TEXT
    if options.every is not None:
        if not options.textfile:
            raise Problem('--every goes with --textfile', 2)
        if not 0.1 <= options.every <= 86400:
            raise Problem('--every %g: accepted are seconds from 0.1 to 86400'
                          % options.every, 2)
    if options.listen:
        if options.openmetrics:
            raise Problem('--openmetrics goes with a file or stdout; who '
                          'scrapes asks for it by the Accept header', 2)
        import gpupool_metrics_http
        signal.signal(signal.SIGTERM, end)
        return gpupool_metrics_http.serve(options.listen)
    if not options.textfile:
        sys.stdout.write(page(style))
        return 0
    signal.signal(signal.SIGTERM, end)
    write_file(options.textfile, page(style))
    while options.every:
        time.sleep(options.every)
        write_file(options.textfile, page(style))
    return 0
