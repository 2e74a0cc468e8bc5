"""What is known of one run, from wherever it is: a report, the events that the
process left in the runtime directory, or both.

    story = find('gpupool-train-1234.exit.json')
    story = find('1234')                  a process, living or dead

A Story has
    report   a dict as stats/report.schema.json describes it. Made from the
             events if there is no report (reason 'record')
    path     what it was read from
    page     the text that the library wrote beside the report, or None
    ring     gpupool_ring.Ring of the same process, or None
"""
import glob
import json
import os

import gpupool_file
import gpupool_layout
import gpupool_ledger
import gpupool_map
import gpupool_rebuild
import gpupool_ring
import gpupool_schema
import gpupool_sites
from gpupool_file import FileProblem
from gpupool_paths import Problem, unreadable

MAX_REPORT = 1 << 28
MAX_MEMORY = 1 << 42  # of a device, by far
SAME_START_NS = 60 * 10 ** 9


class Story:

    def __init__(self, report, path, page=None, ring=None):
        self.report = report
        self.path = path
        self.page = page
        self.ring = ring
        self._levels = {}

    def end_ns(self):
        return self.report['now_unix_ns']

    def events(self, device=None):
        """Those up to the report's moment."""
        if self.ring is None:
            return []
        end = self.end_ns()
        return [event for event in self.ring.events if event.time <= end
                and (device is None or event.device == device)]

    def levels(self, device):
        """(event, allocated, reserved) of a device, up to the report's
        moment."""
        if device not in self._levels:
            events = self.events(device)
            self._levels[device] = [
                (event,) + level for event, level in zip(
                    events, gpupool_map.levels(events, not self.ring.lost,
                                               self.layout(device)))
            ] if events else []
        return self._levels[device]

    def layout(self, device):
        """What lay where at the report's moment; None: not known."""
        return gpupool_layout.of(self.report, device)

    def memory(self, device, most=None):
        """A gpupool_map.Map of the device, of its newest `most` events."""
        events = self.events(device)
        return gpupool_map.Map(events[-most:] if most else events,
                               self.layout(device))

    def notes(self):
        """Sentences, the reader's own ones among them."""
        notes = list(self.report.get('notes', ()))
        for note in self.ring.notes if self.ring else ():
            if note not in notes:
                notes.append(note)
        return notes


schema = []


def check(data, path):
    """Problem unless it is a report that we know how to read."""
    if not isinstance(data, dict) or not {'schema', 'reason', 'pools'} <= \
            set(data):
        raise Problem('%s: this JSON is no report of gpupool' % path)
    if data['schema'] != 1:
        raise Problem('%s: it is of version %s, this gpupool reads version 1'
                      % (path, json.dumps(data['schema'])[:20]))
    if not schema:
        schema.append(gpupool_schema.load())
    try:
        schema[0].check(data)
    except gpupool_schema.Mismatch as mismatch:
        raise Problem('%s: no report of gpupool: %s' % (path, mismatch))
    for index, pool in enumerate(data['pools']):
        layout = pool.get('layout', {})
        for columns, name in ((pool['timeline'], 'curves'),
                              (layout.get('segments', {}), 'segments'),
                              (layout.get('blocks', {}), 'blocks')):
            if len({len(values) for values in columns.values()}) > 1:
                raise Problem('%s: no report of gpupool: the %s of pools[%d] '
                              'have different lengths' % (path, name, index))
            # Each of their pages is looked at.
            if sum(columns.get('bytes', ())) > MAX_MEMORY or \
                    max(columns.get('address', ()), default=0) >= 1 << 62:
                raise Problem('%s: no report of gpupool: the %s of pools[%d] '
                              'are in no memory' % (path, name, index))
    if gpupool_sites.misplaced(data):
        raise Problem('%s: no report of gpupool: a call stack of block_sites '
                      'is not there' % path)


def read_report(path):
    try:
        with open(path, 'rb') as file:
            raw = file.read(MAX_REPORT + 1)
    except OSError as error:
        raise unreadable(path, error)
    if len(raw) > MAX_REPORT:
        raise Problem('%s: it is too large to be a report' % path)
    if not raw.strip():
        raise Problem('%s: it is empty' % path)
    try:
        data = json.loads(raw.decode('utf-8'))
    except ValueError as error:
        if raw.startswith(b'gpupool report'):
            raise Problem('%s is the text of a report, and the JSON that is '
                          'read here does not lie beside it (report_format)'
                          % path)
        if raw.lstrip()[:1] == b'{':
            raise Problem('%s: damaged, or cut short: %s' % (path, error))
        raise Problem('%s: it is no report of gpupool' % path)
    except RecursionError:
        raise Problem('%s: it is no report of gpupool' % path)
    check(data, path)
    return data


def read_page(path):
    """The text beside a report."""
    try:
        with open(path, encoding='utf-8', errors='replace') as file:
            return file.read(MAX_REPORT)
    except OSError:
        return None


def read_ring(path, any_owner=True):
    try:
        return gpupool_ring.read(path, any_owner=any_owner)
    except FileProblem as problem:
        raise Problem(str(problem))


def from_ring(ring):
    return Story(gpupool_rebuild.report(ring), ring.file.path, ring=ring)


def from_report(path, ring=None):
    """`ring`: a file with events of the same process; without it they are
    looked for in the runtime directory."""
    report = read_report(path)
    page = read_page(path[:-len('.json')] + '.txt'
                     if path.endswith('.json') else '')
    found = read_ring(ring) if ring else ring_of(report)
    if ring and found.file.pid != report['pid']:
        raise Problem('%s is of process %d, %s of process %d' % (
            path, report['pid'], ring, found.file.pid), 2)
    return Story(report, path, page, found)


def ring_of(report, directory=None):
    """The events of the process that wrote the report, if they are still
    there."""
    if report.get('node', os.uname().nodename) != os.uname().nodename:
        return None
    try:
        paths = gpupool_ledger.files(directory)
    except Problem:
        paths = []
    # The report names it; the runtime directory may be another one now.
    if report.get('record'):
        paths.insert(0, report['record'])
    for path in paths:
        match = gpupool_file.NAME.match(os.path.basename(path))
        if not match or int(match.group(1)) != report['pid']:
            continue
        try:
            ring = gpupool_ring.read(path)
        except FileProblem:
            continue
        if (ring.file.exe == report.get('exe', ring.file.exe)
                and abs(ring.file.unix_ns - report['start_unix_ns'])
                < SAME_START_NS):
            return ring
    return None


def kind_of(path):
    """'ring' or 'report', by what is in the file."""
    try:
        with open(path, 'rb') as file:
            start = file.read(len(gpupool_file.MAGIC))
    except OSError as error:
        raise unreadable(path, error)
    return 'ring' if start == gpupool_file.MAGIC else 'report'


def from_pid(pid):
    """A living process is asked for a report; of a dead one, its events."""
    process = gpupool_ledger.by_pid(pid, dead=True)
    if process.life != 'alive':
        return from_ring(read_ring(process.path, any_owner=False))
    answer = gpupool_ledger.ask(process, 'report')
    if not answer.ok:
        raise Problem('process %d wrote no report: %s' % (pid, answer.text))
    path = os.path.splitext(answer.text)[0]
    if os.path.exists(path + '.json'):
        return from_report(path + '.json', process.path)
    # report_format:text; its figures are in what it holds.
    story = from_ring(read_ring(process.path, any_owner=False))
    story.page = read_page(path + '.txt')
    return story


def only_report(directory):
    """Of a run of one process, what it wrote at its end."""
    try:
        names = [name for name in os.listdir(directory)
                 if name.endswith('.exit.json')]
    except OSError as error:
        raise unreadable(directory, error)
    if len(names) == 1:
        return os.path.join(directory, names[0])
    raise Problem('%s is a directory with %s; name a report or a process id%s'
                  % (directory, 'reports of %d processes' % len(names)
                     if names else 'no *.exit.json', '; `gpupool report %s` '
                     'compares them' % directory if names else ''), 2)


def find(what, ring=None):
    """The story of a file, a directory with one report, or a process id;
    Problem if there is none."""
    if what.isdigit() and not os.path.exists(what):
        return from_pid(int(what))
    try:
        os.stat(what)
    except PermissionError as error:
        raise unreadable(what, error)
    except OSError:
        raise Problem('there is no %s' % what)
    if os.path.isdir(what):
        what = only_report(what)
    if kind_of(what) == 'ring':
        return from_ring(read_ring(what))
    if what.endswith('.txt') and os.path.exists(what[:-3] + 'json'):
        what = what[:-3] + 'json'
    return from_report(what, ring)


def last_refusal(path):
    """Beside a report at exit, the last one of a request that was refused."""
    base, ending, rest = path.rpartition('.exit.json')
    if not ending or rest:
        return None
    found = []
    for name in glob.glob(glob.escape(base) + '.oom-*.json'):
        number = name[len(base + '.oom-'):-len('.json')]
        if number.isdigit():
            found.append((int(number), name))
    return max(found)[1] if found else None


def newest():
    """What lies nearest: the last report here, else the last process."""
    names = [name for name in os.listdir('.')
             if name.startswith('gpupool-') and name.endswith('.json')
             and '.trace.' not in name]
    if names:
        return from_report(max(names, key=os.path.getmtime))
    found = gpupool_ledger.processes(dead=True)[0]
    if not found:
        raise Problem('there is no report (gpupool-*.json) here, and no '
                      'process has left events; name a file, a directory or '
                      'a process id', 2)
    return from_pid(max(found, key=lambda process: process.started).pid)
