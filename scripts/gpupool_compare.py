"""A directory of reports as one comparison: which process of a job held most,
which one has most memory reserved beyond its need, which one ended first.
"""
import os
import re
import statistics

import gpupool_story
from gpupool_paths import Problem, unreadable
from gpupool_words import (columns, count, duration, fill, percent, plural,
                           size, when)

ROWS = 32        # in the text; all are in the JSON
RINGS = 64       # of processes without a report at their end, that are read
DEPTH = 3        # of directories in the directory
RANK = re.compile(r'(?:^|[^a-z])rank[-_=]?(\d{1,6})(?!\d)', re.IGNORECASE)


class Row:
    """One process. `stories`: all of its reports, by time."""

    def __init__(self, stories):
        self.stories = sorted(stories, key=gpupool_story.Story.end_ns)
        # What a process says at its end is more than what it left behind.
        said = [s for s in self.stories if s.report['reason'] == 'exit']
        self.last = (said or self.stories)[-1]
        self.said = [s for s in self.stories
                     if s.report['reason'] != 'record']
        report = self.report = self.last.report
        self.pid = report['pid']
        self.name = report['name']
        self.start = report['start_unix_ns']
        self.rank = report.get('rank')
        if self.rank is None:
            found = RANK.search(os.path.basename(self.last.path))
            self.rank = int(found.group(1)) if found else None
        self.end = self.last.end_ns()
        self.how = self._how()
        self.peak_allocated = self._most('peak_allocated_bytes')
        self.peak_reserved = self._most('peak_reserved_bytes')
        self.refused = self._most('num_ooms')
        ooms = [s for s in self.stories if s.report['reason'] == 'oom'
                and 'oom_bytes' in s.report]
        self.oom = ooms[0].report if ooms else None

    def _most(self, key):
        return max(s.report.get(key) or 0 for s in self.stories)

    def _how(self):
        reason = self.report['reason']
        if reason == 'record':
            return self.report['state']
        return reason if reason in ('exit', 'oom') else 'not known'

    @property
    def unused(self):
        return 100 - percent(self.peak_allocated, self.peak_reserved) \
            if self.peak_reserved else 0.0

    def label(self):
        return ('process %d' % self.pid if self.rank is None
                else 'rank %d' % self.rank)

    def cap(self):
        caps = [d['cap'] for d in self.report.get('devices', ())
                if d['cap'] is not None]
        return min(caps) if caps else None

    def flat(self, start):
        report = self.report
        return {
            'rank': self.rank, 'node': report.get('node'),
            'pid': self.pid, 'name': self.name,
            'file': self.last.path, 'reports': len(self.said),
            'start_unix_ns': self.start, 'end_unix_ns': self.end,
            'end_elapsed_ns': max(self.end - start, 0), 'ended': self.how,
            'peak_allocated_bytes': self.peak_allocated,
            'peak_reserved_bytes': self.peak_reserved,
            'unused_percent': round(self.unused, 1),
            'allocated_bytes': report.get('allocated_bytes'),
            'reserved_bytes': report.get('reserved_bytes'),
            'limit_bytes': self.cap(), 'num_ooms': self.refused,
            'oom_unix_ns': self.oom['now_unix_ns'] if self.oom else None,
            'oom_bytes': self.oom['oom_bytes'] if self.oom else None,
            'passthrough_device_bytes':
                report.get('passthrough_device_bytes'),
        }


# ---- reading -----------------------------------------------------------------

def candidates(directory):
    """Files that may be reports or hold events."""
    found = []
    try:
        for place, below, names in os.walk(directory, onerror=fail):
            depth = os.path.relpath(place, directory).count(os.sep)
            below[:] = sorted(below) if depth < DEPTH else []
            found += [os.path.join(place, name) for name in sorted(names)
                      if name.endswith(('.json', '.gpupool'))
                      and not name.endswith('.snapshot.json')]
    except OSError as error:
        raise unreadable(directory, error)
    return found


def fail(error):
    raise error


def read_all(paths):
    """({process: [story]}, what was wrong with the other files)."""
    runs, problems = {}, []
    # What processes left is added to their reports.
    for path in sorted(paths, key=lambda path: path.endswith('.gpupool')):
        try:
            if path.endswith('.gpupool'):
                story = gpupool_story.from_ring(gpupool_story.read_ring(path))
            else:
                story = gpupool_story.Story(gpupool_story.read_report(path),
                                            path)
        except Problem as problem:
            problems.append(str(problem))
            continue
        report = story.report
        runs.setdefault(key_of(runs, report), []).append(story)
    return runs, problems


def key_of(runs, report):
    """The process: its file and its reports differ a little in their start, and
    what it left does not say on which host and as which rank it ran."""
    start = report['start_unix_ns']
    who = report['pid'], report.get('exe'), report.get('node'), \
        report.get('rank')
    for key in runs:
        if (key[:2] == who[:2] and abs(key[4] - start)
                < gpupool_story.SAME_START_NS and
                (key[2:4] == who[2:4] or report['reason'] == 'record')):
            return key
    return who + (start,)


def add_ends(runs):
    """Of those that wrote no report at their end, the events in the runtime
    directory tell more."""
    missing = [stories for stories in runs.values()
               if not any(s.report['reason'] in ('exit', 'record')
                          for s in stories)]
    for stories in missing[:RINGS]:
        ring = gpupool_story.ring_of(stories[0].report)
        if ring is not None:
            stories.append(gpupool_story.from_ring(ring))


def read(directory):
    """(rows, problems): processes by rank, then pid."""
    paths = candidates(directory)
    runs, problems = read_all(paths)
    if not runs:
        if not paths:
            raise Problem('%s: no reports of gpupool (*.json) in it'
                          % directory)
        raise Problem('%s: no report of gpupool among %s; the first: %s' % (
            directory, plural(len(paths), 'file'), problems[0]))
    add_ends(runs)
    rows = [Row(stories) for stories in runs.values()]
    rows.sort(key=lambda row: (row.rank is None, row.rank or 0, row.pid))
    return rows, problems


# ---- what it says ------------------------------------------------------------

class Verdict:
    """The extremes; None where nobody stands out."""

    def __init__(self, rows):
        self.start = min(row.start for row in rows)
        self.end = max(row.end for row in rows)
        self.peak = max(rows, key=lambda row: row.peak_allocated)
        self.median = int(statistics.median(row.peak_allocated
                                            for row in rows))
        self.unused = max(rows, key=lambda row: row.peak_reserved
                          - row.peak_allocated)
        dead = [row for row in rows if row.how in ('killed', 'oom')]
        over = [row for row in rows if row.how not in
                ('running', 'elsewhere')]
        self.first = min(dead or over or rows, key=lambda row: row.end)
        self.died = bool(dead)
        ooms = [row for row in rows if row.oom]
        self.oom = min(ooms, key=lambda row: row.oom['now_unix_ns']) \
            if ooms else None

    def flat(self):
        return {'start_unix_ns': self.start, 'end_unix_ns': self.end,
                'elapsed_ns': max(self.end - self.start, 0),
                'most_allocated_pid': self.peak.pid,
                'most_unused_pid': self.unused.pid,
                'first_ended_pid': self.first.pid,
                'first_oom_pid': self.oom.pid if self.oom else None,
                'median_peak_allocated_bytes': self.median}

    def sentences(self):
        peak, unused, first = self.peak, self.unused, self.first
        yield '%s held the most: %s at its peak; the median is %s.' % (
            capital(peak.label()), size(peak.peak_allocated),
            size(self.median))
        if unused.peak_reserved > unused.peak_allocated:
            yield ('%s had the most reserved beyond that: %s for a peak of '
                   '%s.' % (capital(unused.label()),
                            size(unused.peak_reserved),
                            size(unused.peak_allocated)))
        if self.oom:
            yield '%s was the first to run out of memory, %s after the ' \
                'start: it asked for %s.' % (
                    capital(self.oom.label()), self.after(
                        self.oom.oom['now_unix_ns']),
                    size(self.oom.oom['oom_bytes']))
        words = ('died' if self.died else 'ended')
        how = {'killed': ', killed or crashed',
               'oom': '; its last sign is a report for lack of memory'}
        yield '%s %s first, after %s%s.' % (
            capital(first.label()), words, self.after(first.end),
            how.get(first.how, ''))

    def after(self, unix_ns):
        return duration(max(unix_ns - self.start, 0))


def capital(text):
    return text[:1].upper() + text[1:]


def shown(rows, verdict, everything):
    """The rows of the text: when there are too many, those that are spoken of
    and those that hold most."""
    if everything or len(rows) <= ROWS:
        return rows
    chosen = {verdict.peak, verdict.unused, verdict.first, verdict.oom}
    for row in sorted(rows, key=lambda row: -row.peak_allocated):
        if len(chosen) <= ROWS:
            chosen.add(row)
    return [row for row in rows if row in chosen]


def lines(rows, problems, everything):
    verdict = Verdict(rows)
    names = sorted({row.name for row in rows})
    yield fill('%s of %s, started %s' % (
        plural(len(rows), 'process', 'processes'),
        ', '.join(names[:4]) + (', ...' if len(names) > 4 else ''),
        when(verdict.start)))
    yield ''
    if len(rows) > 1:
        yield fill(' '.join(verdict.sentences()))
        yield ''
    part = shown(rows, verdict, everything)
    ranked = any(row.rank is not None for row in rows)
    table = []
    for row in part:
        table.append(
            [('' if row.rank is None else 'rank %d' % row.rank) if ranked
             else row.name, row.pid, size(row.peak_allocated),
             size(row.peak_reserved), '%.1f %%' % round(row.unused, 1),
             count(row.refused), verdict.after(row.end), row.how])
    yield from columns(table, ['', 'pid', 'peak alloc.', 'reserved', 'unused',
                               'OOMs', 'ended', ''])
    if len(part) < len(rows):
        yield fill('These hold the most; --all shows the other %s.'
                   % count(len(rows) - len(part)))
    if problems:
        yield ''
        yield fill('Not used: %s. The first: %s' % (
            plural(len(problems), 'file'), problems[0]))


def text(rows, problems, everything=False):
    return '\n'.join(lines(rows, problems, everything)) + '\n'


def data(rows, problems):
    verdict = Verdict(rows)
    made = verdict.flat()
    made['num_processes'] = len(rows)
    made['processes'] = [row.flat(verdict.start) for row in rows]
    made['problems'] = list(problems)
    return made
