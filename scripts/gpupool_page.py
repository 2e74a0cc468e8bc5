"""A report as text: the page that the library wrote, else one from its figures.
Every figure here stands in the report.
"""
import gpupool_answer
from gpupool_words import (columns, count, duration, fill, heading, size, when)

REASONS = {'exit': ' at exit', 'oom': ', out of memory',
           'signal': ' on request',
           'warn': ', before memory runs out', 'record': ' from its events'}
GAUGES = (('Allocated', 'allocated_bytes.all', size),
          ('Requested', 'requested_bytes.all', size),
          ('Reserved', 'reserved_bytes.all', size),
          ('Allocations', 'allocation.all', count),
          ('Handles or segments', 'segment.all', count))
PLACES = (('cached, free for the next request', 'cached_bytes', size),
          ('in whole handles: can move, or be given back', 'movable_bytes',
           size),
          ('largest free range', 'largest_free_bytes', size),
          ('free ranges', 'free_ranges', count))
COUNTERS = (('allocations asked of the pool', 'num_alloc_calls'),
            ('served without a driver call', 'num_hits'),
            ('refused', 'num_ooms'),
            ('handles moved to another address', 'num_remaps'),
            ('times cached memory was given back', 'num_trims'),
            ('driver calls that get or give back memory', 'num_driver_calls'))


def title(report):
    return 'gpupool report%s: %s (pid %d), %s' % (
        REASONS.get(report['reason'], ''), report['name'], report['pid'],
        when(report['now_unix_ns']))


def gauges(pool):
    rows = []
    for label, key, words in GAUGES:
        if key + '.peak' in pool:
            rows.append([label] + [
                words(pool['%s.%s' % (key, part)])
                if '%s.%s' % (key, part) in pool else '-' for part in
                ('current', 'peak', 'allocated', 'freed')])
    return columns(rows, ['', 'now', 'peak', 'total taken', 'total freed'])


def pool_lines(pool):
    whole = ('' if pool.get('total_bytes') is None
             else ': %s in all' % size(pool['total_bytes']))
    yield fill('Device %d, %s%s.' % (pool['device'], pool['device_name'],
                                     whole))
    yield ''
    yield from gauges(pool)
    rows = [(label, words(pool[key])) for label, key, words in PLACES
            if key in pool]
    rows += [(label, count(pool[key])) for label, key in COUNTERS
             if pool.get(key)]
    if rows:
        yield ''
        yield from columns(rows)
    sizes = [row for row in pool.get('live_by_size', ()) if row['blocks']]
    if sizes:
        yield ''
        yield from columns(
            [('up to ' + size(row['to_bytes']), count(row['blocks']),
              size(row['bytes'])) for row in sizes],
            ['Live blocks, as the events show', 'blocks', 'together'])


def kinds(report):
    """{kind: {'bytes.current': ..}} of memory outside the pool."""
    found = {}
    for key, value in report.items():
        if key.startswith('passthrough.'):
            kind, _, rest = key[len('passthrough.'):].partition('.')
            found.setdefault(kind, {})[rest] = value
    return found


def outside(report):
    rows = [(kind, size(part.get('bytes.current')),
             size(part.get('bytes.peak')), count(part.get('count.allocated')))
            for kind, part in kinds(report).items()
            if part.get('count.allocated') or part.get('bytes.current')]
    if rows:
        yield heading('Outside the pool')
        yield from columns(rows, ['', 'now', 'peak', 'allocations'])


def frame_words(frame):
    if frame.get('line') or not frame.get('address'):
        return '%s:%s in %s' % (frame.get('file') or '?', frame.get('line', 0),
                                frame.get('function') or '?')
    where = (frame.get('file') or '').rpartition('/')[2]
    if not where:
        return frame['address']
    name = frame.get('function')
    return '%s+0x%x%s' % (where, frame.get('offset') or 0,
                          ' (%s)' % name if name else '')


def sites(report):
    for key, words in (('leaks', 'Leaks: still allocated at exit'),
                       ('top_sites', 'Top call sites'),
                       ('growing_sites', 'Growth: sites that only ever grew')):
        if report.get(key):
            yield heading(words)
        for site in report.get(key) or ():
            yield '- %s' % size(site.get('peak_bytes') if key == 'top_sites'
                                and report['reason'] == 'exit'
                                else site['bytes'])
            for frame in site['frames'][:12]:
                yield fill(frame_words(frame), '      ', '    ')


def sections(report):
    rows = [(row['name'], count(row['times']), duration(row['ns']),
             size(row.get('allocated_bytes.peak')),
             size(row.get('reserved_bytes.peak')))
            for row in report.get('sections', ())]
    if rows:
        yield heading('Sections')
        yield from columns(rows, ['', 'times', 'in all', 'peak alloc.',
                                  'peak reserved'])


def limits(report):
    rows = [('device %d' % d['device'], size(d['held']), size(d['cap']))
            for d in report.get('devices', ()) if d['cap'] is not None]
    if rows:
        yield heading('Limits')
        yield from columns(rows, ['', 'held', 'limit'])


def lines(story):
    report = story.report
    yield fill(title(report))
    for paragraph in gpupool_answer.paragraphs(report):
        yield ''
        yield fill(paragraph)
    yield from sites(report)
    yield heading('Pool')
    if not report['pools']:
        yield 'The program took nothing from it.'
    for index, pool in enumerate(report['pools']):
        if index:
            yield ''
        yield from pool_lines(pool)
    yield from sections(report)
    yield from outside(report)
    yield from limits(report)
    changed = [s for s in report.get('settings', ()) if not s['is_default']]
    if changed:
        yield heading('Settings that are not the default')
        for setting in changed:
            yield fill('%s:%s' % (setting['key'], setting['value']), '    ',
                       '')
    if story.notes():
        yield heading('Notes')
        for note in story.notes():
            yield fill(note, '  ', '- ')


def text(story):
    if story.page:
        return story.page
    return '\n'.join(lines(story)) + '\n'
