"""gpupool diff: what grew between two reports, or between two moments of one
run.
"""
import argparse
import json
import re

import gpupool_map
import gpupool_page
import gpupool_report
import gpupool_story
from gpupool_paths import Parser, Problem
from gpupool_words import (change, clean, columns, count, count_change, duration,
                           fill, heading, shorten, size, when)

EPILOG = """\
examples:
  gpupool diff before.exit.json after.exit.json
  gpupool diff 1234 --from 10s --to end      one process, two moments
  gpupool diff 1234 --from peak              what has gone since the peak

A moment is a time since the start (10, 2.5s, 300ms, 5min), the same before the
end with a minus sign (--from=-5s), or start, peak or end. It needs the events
of the run, which lie in the runtime directory.
"""
TOTALS = (('allocated', 'allocated_bytes.all.current'),
          ('requested', 'requested_bytes.all.current'),
          ('reserved', 'reserved_bytes.all.current'),
          ('cached', 'cached_bytes'),
          ('largest free range', 'largest_free_bytes'),
          ('peak allocated', 'allocated_bytes.all.peak'),
          ('peak reserved', 'reserved_bytes.all.peak'))
CLASSES = (('to 1 MiB', 'small_pool'), ('above 1 MiB', 'large_pool'))
COUNTERS = (('allocations', 'num_alloc_calls'),
            ('frees', 'num_free_calls'),
            ('refused', 'num_ooms'),
            ('handles moved', 'num_remaps'),
            ('trims', 'num_trims'),
            ('driver calls', 'num_driver_calls'))
UNITS = {'': 10 ** 9, 's': 10 ** 9, 'ms': 10 ** 6, 'min': 60 * 10 ** 9,
         'h': 3600 * 10 ** 9}
SITES = 10


# ---- two reports -------------------------------------------------------------

def total(report, key):
    values = [pool[key] for pool in report['pools'] if key in pool]
    return sum(values) if values else None


def pair(name, before, after):
    return {'name': name, 'before': before, 'after': after,
            'change': None if before is None or after is None
            else after - before}


def pairs(table, first, second):
    made = [pair(name, total(first, key), total(second, key))
            for name, key in table]
    return [row for row in made
            if row['before'] is not None or row['after'] is not None]


def classes(first, second):
    """Live blocks by size: finely where both know it, else in two classes."""
    fine = [{row['to_bytes']: row for pool in report['pools']
             for row in pool.get('live_by_size', ())}
            for report in (first, second)]
    if all('live_by_size' in pool for report in (first, second)
           for pool in report['pools']):
        return [pair('up to ' + size(key), fine[0].get(key, {}).get('bytes',
                                                                    0),
                     fine[1].get(key, {}).get('bytes', 0))
                for key in sorted(set(fine[0]) | set(fine[1]))]
    return pairs([(name, 'allocated_bytes.%s.current' % part)
                  for name, part in CLASSES], first, second)


def kinds(first, second):
    parts = gpupool_page.kinds(first), gpupool_page.kinds(second)
    made = [pair(kind, parts[0].get(kind, {}).get('bytes.current', 0),
                 parts[1].get(kind, {}).get('bytes.current', 0))
            for kind in dict.fromkeys(list(parts[0]) + list(parts[1]))]
    return [row for row in made if row['before'] or row['after']]


def place(frame):
    """In the program's text or in a library; addresses, which differ from run
    to run, only where nothing else is known."""
    if frame.get('line') or not frame.get('address'):
        return gpupool_page.frame_words(frame)
    if not frame.get('file'):
        return frame['address']
    return '%s+0x%x' % (frame['file'], frame.get('offset') or 0)


def site_key(site):
    return tuple(place(frame) for frame in site['frames'])


def live_sites(report):
    """{stack: bytes}: live ones; at exit what was left, which is a leak."""
    key = 'leaks' if report['reason'] == 'exit' else 'top_sites'
    found = {}
    for site in report.get(key) or ():
        stack = site_key(site)
        found[stack] = found.get(stack, 0) + site['bytes']
    return found


def sites(first, second):
    before, after = live_sites(first), live_sites(second)
    made = []
    for stack in set(before) | set(after):
        row = pair(stack[0] if stack else '(no stack)', before.get(stack, 0),
                   after.get(stack, 0))
        row['stack'] = list(stack)
        made.append(row)
    made.sort(key=lambda row: (-abs(row['change']), row['name']))
    return made


def has_sites(report):
    return report.get('call_sites_kept', bool(live_sites(report)))


def of_reports(first, second):
    """Everything that the page says."""
    made = {}
    for side, report in (('before', first), ('after', second)):
        made[side] = {'name': report['name'], 'pid': report['pid'],
                      'reason': report['reason'],
                      'now_unix_ns': report['now_unix_ns'],
                      'elapsed_ns': report.get('elapsed_ns', 0)}
    made['totals'] = pairs(TOTALS, first, second)
    made['sizes'] = classes(first, second)
    made['sites'] = sites(first, second)
    made['sites_known'] = has_sites(first) and has_sites(second)
    made['outside'] = kinds(first, second)
    made['counters'] = pairs(COUNTERS, first, second)
    return made


# ---- two moments of one run --------------------------------------------------

def moment(text, story, events):
    """Unix ns of '10s', '-5s', 'peak', ..."""
    start = story.report['start_unix_ns']
    if text == 'start':
        return min(start, events[0].time - 1)
    if text == 'end':
        return max(story.end_ns(), events[-1].time)
    if text == 'peak':
        at = gpupool_map.peak(events)
        if at < 0:
            raise Problem('there is no peak: nothing was allocated while '
                          'events were kept')
        return events[at].time
    found = re.fullmatch(r'(-?)(\d+(?:\.\d+)?)\s*(ms|s|min|h|)', text)
    if not found:
        raise Problem('no moment %s; accepted: a time as 10s, 300ms or -5s, '
                      'start, peak or end' % text, 2)
    ns = int(float(found.group(2)) * UNITS[found.group(3)])
    return (max(story.end_ns(), events[-1].time) - ns if found.group(1)
            else start + ns)


def at_moment(story, unix_ns):
    """What the events say of that moment, as a small report."""
    start = story.report['start_unix_ns']
    made = {'name': story.report['name'], 'pid': story.report['pid'],
            'reason': 'record', 'now_unix_ns': unix_ns,
            'elapsed_ns': unix_ns - start, 'pools': []}
    for device in sorted({event.device for event in story.ring.events}):
        events = [event for event in story.ring.events
                  if event.device == device]
        index = gpupool_map.until(events, unix_ns)
        levels = gpupool_map.levels(events, not story.ring.lost)[:index]
        blocks = gpupool_map.Map(events).to(index).live.values()
        sizes = gpupool_map.by_size(blocks)
        allocated, reserved = levels[-1] if levels else (0, 0)
        numbers = [sum(event.kind == kind for event in events[:index])
                   for kind in ('alloc', 'free', 'oom', 'trim')]
        made['pools'].append({
            'allocated_bytes.all.current': allocated,
            'reserved_bytes.all.current': reserved,
            'cached_bytes': max(reserved - allocated, 0),
            'num_alloc_calls': numbers[0], 'num_free_calls': numbers[1],
            'num_ooms': numbers[2], 'num_trims': numbers[3],
            'live_by_size': [{'to_bytes': key, 'blocks': sizes[key][0],
                              'bytes': sizes[key][1]} for key in sizes]})
    return made


def of_moments(story, begin, end):
    if story.ring is None or not story.ring.events:
        raise Problem('%s: there are no events of this process, so that '
                      'moments cannot be compared; they lie in the runtime '
                      'directory, for a while also after its end'
                      % story.path)
    events = story.ring.events
    first = moment(begin, story, events)
    second = moment(end, story, events)
    if first > second:
        raise Problem('--from %s is after --to %s' % (begin, end), 2)
    made = of_reports(at_moment(story, first), at_moment(story, second))
    made['first_event_elapsed_ns'] = max(
        events[0].time - story.report['start_unix_ns'], 0)
    made['notes'] = list(story.ring.notes)
    return made


# ---- the page ----------------------------------------------------------------

def row_of(row, words, words_of_change):
    return (row['name'], words(row['before']), words(row['after']),
            '' if row['change'] is None else words_of_change(row['change']))


def table(rows, title, words=size, words_of_change=change):
    yield from columns([row_of(row, words, words_of_change) for row in rows],
                       [title, 'before', 'after', 'change'])


def who(side):
    return '%s (pid %d), %s, %s after its start' % (
        side['name'], side['pid'], when(side['now_unix_ns']),
        duration(side['elapsed_ns']))


def verdict(made):
    """The one figure that people look for."""
    row = made['totals'][0]
    if row['change'] is None:
        return 'Allocated memory is not known on both sides.'
    if not row['change']:
        words = 'Allocated memory is the same, %s.' % size(row['after'])
    else:
        words = '%s %s allocated than before: %s.' % (
            size(abs(row['change'])), 'more' if row['change'] > 0 else
            'less', size(row['after']))
    grown = [row for row in made['sites'] if row['change'] > 0][:1]
    for row in grown:
        words += ' Of one call site alone %s: %s.' % (change(row['change']),
                                                      row['name'])
    return words


def lines(made):
    yield fill('before: ' + who(made['before']), '        ', '')
    yield fill('after:  ' + who(made['after']), '        ', '')
    yield ''
    yield fill(verdict(made))
    yield ''
    yield from table(made['totals'], '')
    if made['sizes']:
        yield heading('Live memory by size of block')
        yield from table(made['sizes'], '')
    changed = [row for row in made['sites'] if row['change']]
    if made['sites'] and not changed:
        yield ''
        yield 'Each call site holds as much as before.'
    if changed:
        yield heading('Live memory by call site')
        yield fill('Of each report its largest sites are known; one that is '
                   'not among them counts as 0 there.')
        for row in changed[:SITES]:
            yield '%s, from %s to %s' % (
                change(row['change']), size(row['before']),
                size(row['after']))
            for words in row['stack'][:4] or ['(no stack)']:
                yield '    ' + clean(shorten(words, 75))
    if not made['sites_known']:
        yield ''
        yield fill('Call sites are not known on both sides: run both '
                   'with --conf stacks:sample.')
    if made['outside']:
        yield heading('Outside the pool')
        yield from table(made['outside'], '')
    if made['counters']:
        yield heading('Calls')
        yield from table(made['counters'], '', count, count_change)
    for note in made.get('notes', ()):
        yield ''
        yield fill(note)


def text(made):
    return '\n'.join(lines(made)) + '\n'


def build_parser():
    parser = Parser(
        prog='gpupool diff', epilog=EPILOG,
        usage='gpupool diff A B [--json] [-o FILE]\n'
              '       gpupool diff A [--from T] [--to T] [--json] [-o FILE]',
        formatter_class=argparse.RawDescriptionHelpFormatter,
        description='Show what grew between two reports, or between two '
                    'moments of one run.')
    parser.add_argument('before', metavar='A',
                        help='a process id, a report, a directory with one, '
                             'or a file of the runtime directory')
    parser.add_argument('after', metavar='B', nargs='?',
                        help='the same, later or of another run')
    parser.add_argument('--from', metavar='T', dest='begin',
                        help='with one run: from this moment (start)')
    parser.add_argument('--to', metavar='T', dest='end',
                        help='with one run: to this moment (end)')
    parser.add_argument('--json', action='store_true',
                        help='the same for scripts')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where to, instead of stdout')
    return parser


def main(argv):
    options = build_parser().parse_args(argv)
    if options.after is None:
        if not (options.begin or options.end):
            raise Problem('two runs are needed, or one and moments of it: '
                          'gpupool diff A B, or gpupool diff A --from 10s', 2)
        made = of_moments(gpupool_story.find(options.before),
                          options.begin or 'start', options.end or 'end')
    elif options.begin or options.end:
        raise Problem('--from and --to are for one run, and two are named', 2)
    else:
        made = of_reports(gpupool_story.find(options.before).report,
                          gpupool_story.find(options.after).report)
    gpupool_report.write(json.dumps(made, indent=2) + '\n' if options.json
                         else text(made), options.output)
    return 0
