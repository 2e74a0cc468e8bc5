"""A run, or a job, as one file for a browser. Nothing is loaded from anywhere:
style, script and data are in it.

The parts are in html/: what stands between {{ and }} is filled in here, all
text escaped.
"""
import html
import json
import os
import re

import gpupool_answer
import gpupool_export
import gpupool_page
import gpupool_sites
from gpupool_map import PAGE
from gpupool_paths import HERE, Problem
from gpupool_words import UNIT, count, duration, size, when

EVENTS = 200000  # the newest; more make a page slow
LETTERS = {'alloc': 'a', 'free': 'f', 'segment_map': 'm',
           'segment_unmap': 'u', 'segment_alloc': 's', 'segment_free': 'g',
           'oom': 'o', 'trim': 't', 'limit': 'l', 'neighbour': 'n'}
GRANULE = 512
SITES = 10
MINUTE = 60 * 10**9
CALLERS = 4  # frames of a block that the map tells
RUN_SCRIPTS = ('words.js', 'curve.js', 'replay.js', 'map.js', 'run.js')
JOB_SCRIPTS = ('words.js', 'compare.js')
FIGURES = (('Allocated', 'allocated_bytes.all.current', size),
           ('Allocated, peak', 'allocated_bytes.all.peak', size),
           ('Requested', 'requested_bytes.all.current', size),
           ('Reserved', 'reserved_bytes.all.current', size),
           ('Reserved, peak', 'reserved_bytes.all.peak', size),
           ('Lost to rounding', 'rounding_bytes', size),
           ('Cached', 'cached_bytes', size),
           ('Largest free range', 'largest_free_bytes', size),
           ('Free ranges', 'free_ranges', count),
           ('Allocations', 'num_alloc_calls', count),
           ('Served without the driver', 'num_hits', count),
           ('Refused', 'num_ooms', count),
           ('Handles moved', 'num_remaps', count),
           ('Driver calls', 'num_driver_calls', count),
           ('Time in them', 'driver_ns', duration),
           ('Memory of the device', 'total_bytes', size))


def part(name):
    try:
        with open(os.path.join(HERE, 'html', name), encoding='utf-8') as file:
            return file.read()
    except OSError as error:
        raise Problem('cannot read %s: %s; run make install again' % (
            os.path.join(HERE, 'html', name), error.strerror))


def filled(template, **values):
    """In one pass: what is filled in is not looked at again."""
    return re.sub(r'\{\{(\w+)\}\}', lambda found: values[found.group(1)],
                  template)


def escape(text):
    return html.escape(str(text), quote=True)


def as_script(data):
    """JSON that cannot end the element it stands in."""
    return json.dumps(data, separators=(',', ':')).replace('<', '\\u003c')


def document(title, body, scripts, data):
    return filled(part('page.html'), title=escape(title),
                  style=part('style.css').strip(), body=body,
                  data=as_script(data),
                  script='\n'.join(part(name).strip() for name in scripts))


def paragraphs(texts):
    return '\n'.join('<p>%s</p>' % UNIT.sub('&nbsp;', escape(text))
                     for text in texts)


def table(head, rows, texts=1):
    """The first `texts` columns are words, the others figures."""
    def cells(tag, row):
        return ''.join('<%s%s>%s</%s>' % (
            tag, ' class="text"' if i < texts else '', escape(cell), tag)
            for i, cell in enumerate(row))
    top = '<thead><tr>%s</tr></thead>' % cells('th', head) if head else ''
    return '<div class="scroll"><table>%s<tbody>%s</tbody></table></div>' % (
        top, ''.join('<tr>%s</tr>' % cells('td', row) for row in rows))


def section(title, body):
    return '<section>\n<h2>%s</h2>\n%s\n</section>' % (escape(title), body)


# ---- one run: the data -------------------------------------------------------

def site_column(story, device, events, before):
    """Of each block its call site, a place in `sites`; of those that are not
    live in the end nobody knows it. Empty where no stacks were kept."""
    sites = gpupool_sites.Sites(story, device)
    if not sites.rows:
        return []
    last = {event.address: place for place, event in enumerate(events)
            if event.kind in ('alloc', 'free')}
    found = [gpupool_sites.NOT_KNOWN] * len(events)
    for place in last.values():
        if events[place].kind == 'alloc':
            found[place] = sites.of(events[place])
    return found + [sites.of(block) for block in before]


def packed(story, device):
    """Events as columns, small: times as differences, addresses in granules.
    Blocks that no event tells of stand behind them in the columns about
    blocks; `mapped` and `plain`: the memory at first."""
    start = story.report['start_unix_ns']
    levels = story.levels(device)[-EVENTS:]
    memory = story.memory(device, EVENTS)
    events = [level[0] for level in levels]
    for event in memory.made_up:
        events.append(event)
        levels.append((event,) + levels[-1][1:])  # there is an event before
    blocks = events + memory.before
    plain = sorted(memory.plain0.items())
    mapped = sorted(page * PAGE for page in memory.pages0)
    base = min([block.address for block in blocks if block.address]
               + [at for at, _ in plain[:1]] + mapped[:1], default=0)
    base -= base % GRANULE
    layout = story.layout(device)
    end = layout.unix_ns if layout else story.end_ns()
    times = [max(e.time - start, 0) for e in events]
    before = times[:1] + times[:-1]
    return {
        'start': times[0] if times else max(end - start, 0),
        'dt': [now - then for now, then in zip(times, before)],
        'kind': ''.join(LETTERS[e.kind] for e in events),
        'base': base,
        'at': [max(b.address - base, 0) // GRANULE for b in blocks],
        'bytes': [b.bytes for b in blocks],
        'asked': [b.requested for b in blocks],
        'a': [level[1] for level in levels],
        'r': [level[2] for level in levels],
        'thread': [e.thread for e in events],
        'site': site_column(story, device, events, memory.before),
        'mapped': [(page - base) // GRANULE for page in mapped],
        'plain': [((at - base) // GRANULE, size) for at, size in plain],
    }


def label(report, index):
    pool = report['pools'][index]
    words = 'Device %d, %s' % (pool['device'], pool['device_name'])
    same = [p for p in report['pools'] if p['device'] == pool['device']]
    if len(same) > 1:
        words += ', context %s' % (pool.get('context') or index)
    return words


def run_data(story):
    report = story.report
    start = report['start_unix_ns']
    end = max(story.end_ns() - start, 1)
    caps = {d['device']: d['cap'] for d in report.get('devices', ())}
    pools, events = [], {}
    for pool in report['pools']:
        device = pool['device']
        mine = story.levels(device)
        if (mine or story.layout(device)) and device not in events:
            events[device] = packed(story, device)
        before = gpupool_export.first_event(story, device)
        points = list(gpupool_export.points(
            pool, 0 if report['reason'] == 'record' and mine else before))
        pools.append({
            'device': device, 'cap': caps.get(device), 'end': end,
            'curve': {'t': [p[0] for p in points], 'a': [p[1] for p in points],
                      'r': [p[2] for p in points]}})
    return {'pools': pools, 'events': events,
            'sites': [frames[:CALLERS] for frames in gpupool_sites.stacks(
                report, gpupool_page.frame_words)],
            'refused': report['reason'] == 'oom',
            # Most programs free everything before: their peak says more.
            'ended': report['reason'] == 'exit'
            or report.get('state') == 'ended'}


# ---- one run: the words ------------------------------------------------------

def select(report):
    if len(report['pools']) < 2:
        return ('<span class="faint">%s</span>' % escape(label(report, 0))
                if report['pools'] else '')
    options = ''.join('<option value="%d">%s</option>' % (
        i, escape(label(report, i))) for i in range(len(report['pools'])))
    return '<select id="pool" aria-label="Pool">%s</select>' % options


def site(entry, bytes_, most):
    share = 100 * bytes_ / most if most else 0
    frames = [escape(gpupool_page.frame_words(f)) for f in entry['frames']]
    first = frames[0] if frames else 'no stack'
    rest = ''
    if len(frames) > 1:
        rest = ('<details><summary class="faint">%d more frames</summary>'
                '<div class="frames">%s</div></details>' % (
                    len(frames) - 1, '<br>'.join(frames[1:])))
    growth = entry.get('growth_bytes_per_hour')
    if entry.get('growth_ns', 0) < MINUTE:  # says nothing about an hour
        growth = 0
    return ('<div class="site"><div><b>%s</b> %s%s</div>'
            '<div class="bar"><i style="width:%.1f%%"></i></div>%s</div>' % (
                size(bytes_), first,
                ', grows by %s an hour' % size(growth) if growth else '',
                share, rest))


def sites(report):
    at_exit = report['reason'] == 'exit'
    found = ''
    for key, title, of in (
            ('leaks', 'Leaks: still allocated at exit', 'bytes'),
            ('top_sites', 'Top call sites at the peak' if at_exit
             else 'Top call sites by live bytes',
             'peak_bytes' if at_exit else 'bytes'),
            ('growing_sites', 'Sites that only ever grew', 'bytes')):
        entries = [(entry, entry.get(of, entry['bytes']))
                   for entry in (report.get(key) or ())[:SITES]]
        if entries:
            most = max(bytes_ for _, bytes_ in entries)
            found += section(title, ''.join(site(entry, bytes_, most)
                                            for entry, bytes_ in entries))
    if not found and report['reason'] != 'record':
        found = section('Call sites', '<p class="faint">Not known: run with '
                        '<code>stacks:sample</code> to see which lines hold '
                        'memory.</p>')
    if report.get('oom_stack'):
        frames = '<br>'.join(escape(gpupool_page.frame_words(frame))
                             for frame in report['oom_stack'])
        found = section('Call stack of the request that was refused',
                        '<div class="frames">%s</div>' % frames) + found
    return found


def figures(report):
    blocks = ''
    for index, pool in enumerate(report['pools']):
        rows = [(name, words(pool[key])) for name, key, words in FIGURES
                if pool.get(key) is not None]
        blocks += '<div>%s</div>' % section(label(report, index),
                                            table((), rows))
    outside = [(kind, size(p.get('bytes.current')), size(p.get('bytes.peak')))
               for kind, p in gpupool_page.kinds(report).items()
               if p.get('count.allocated') or p.get('bytes.current')]
    if outside:
        blocks += '<div>%s</div>' % section(
            'Outside the pool', table(('', 'now', 'peak'), outside))
    return blocks


def rest(story):
    report, found = story.report, ''
    rows = [(s['name'], count(s['times']), duration(s['ns']),
             size(s.get('allocated_bytes.peak')),
             size(s.get('reserved_bytes.peak')))
            for s in report.get('sections', ())]
    if rows:
        found += section('Sections', table(
            ('', 'times', 'in all', 'peak allocated', 'peak reserved'), rows))
    changed = [(s['key'], s['value']) for s in report.get('settings', ())
               if not s['is_default']]
    if changed:
        found += section('Settings that are not the default',
                         table((), changed, texts=2))
    notes = story.notes()
    if any(len(story.events(pool['device'])) > EVENTS
           for pool in report['pools']):
        notes.append('Only the newest %s events are in this page.'
                     % count(EVENTS))
    if notes:
        found += section('Notes', '<ul>%s</ul>' % ''.join(
            '<li>%s</li>' % escape(note) for note in notes))
    return found


def page(story):
    report = story.report
    body = filled(
        part('run.html'), name=escape(report['name']),
        subtitle=escape('Process %d, %s, %s' % (
            report['pid'], gpupool_page.REASONS.get(report['reason'], '')
            .strip(', ') or report['reason'], when(report['now_unix_ns']))),
        refused=' refused' if report['reason'] == 'oom'
        or report.get('state') == 'killed' else '',
        answer=paragraphs(gpupool_answer.paragraphs(report, story.page)),
        no_pool='' if report['pools'] else ' hidden', select=select(report),
        sites=sites(report), figures=figures(report), rest=rest(story))
    return document(gpupool_page.title(report), body, RUN_SCRIPTS,
                    run_data(story))


# ---- a job -------------------------------------------------------------------

def job_curve(row, start):
    """Of all pools of a process together, in the job's time."""
    steps, levels = [], {}
    for index, pool in enumerate(row.report['pools']):
        for ns, allocated, _ in gpupool_export.points(pool):
            steps.append((ns, index, allocated))
    times, sums = [], []
    for ns, index, allocated in sorted(steps):
        levels[index] = allocated
        times.append(row.start + ns - start)
        sums.append(sum(levels.values()))
    return times, sums


def job_table(rows, verdict):
    heads = ('Process', 'pid', 'peak allocated', 'peak reserved', 'unused',
             'OOMs', 'ended after', 'how')
    top = ''.join('<th%s><button>%s</button></th>' % (
        ' class="text"' if name == 'how' else '', name) for name in heads)
    body = ''
    for index, row in enumerate(rows):
        cells = ((row.rank if row.rank is not None else row.name, row.label()
                  if row.rank is not None else row.name),
                 (row.pid, row.pid),
                 (row.peak_allocated, size(row.peak_allocated)),
                 (row.peak_reserved, size(row.peak_reserved)),
                 ('%.4f' % row.unused, '%.1f %%' % row.unused),
                 (row.refused, count(row.refused)),
                 (row.end - verdict.start, verdict.after(row.end)),
                 (row.how, row.how))
        body += '<tr tabindex="0" data-run="%d">%s</tr>' % (index, ''.join(
            '<td%s data-value="%s">%s</td>' % (
                ' class="text"' if i == len(cells) - 1 else '',
                escape(value), escape(words))
            for i, (value, words) in enumerate(cells)))
    return ('<table id="processes"><thead><tr>%s</tr></thead><tbody>%s'
            '</tbody></table>' % (top, body))


def comparison(rows, problems):
    import gpupool_compare
    verdict = gpupool_compare.Verdict(rows)
    runs = []
    for row in rows:
        times, sums = job_curve(row, verdict.start)
        runs.append({'label': row.label(), 't': times, 'a': sums,
                     'end': max(row.end - verdict.start, 0),
                     'peak': row.peak_allocated, 'how': row.how,
                     'died': row.how in ('killed', 'oom')})
    names = ', '.join(sorted({row.name for row in rows})[:4])
    found = ''
    if problems:
        found = section('Not used', '<ul>%s</ul>' % ''.join(
            '<li>%s</li>' % escape(problem) for problem in problems[:20]))
    body = filled(
        part('compare.html'), name=escape(names),
        subtitle=escape('%s processes, started %s' % (
            count(len(rows)), when(verdict.start))),
        refused=' refused' if verdict.died else '',
        answer=paragraphs([' '.join(verdict.sentences())]),
        table=job_table(rows, verdict), rest=found)
    return document('gpupool: %s' % names, body, JOB_SCRIPTS, {'runs': runs})
