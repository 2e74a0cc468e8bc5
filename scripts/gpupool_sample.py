"""Looks at the ledgers again and again: what a single look cannot tell, rate
and growth, comes from the difference."""
import collections
import os
import time

import gpupool_ledger

KEEP = 600            # looks
RATE_WINDOW_S = 5.0
GROWTH_WINDOW_S = 60.0

Point = collections.namedtuple('Point', 'time allocated calls')


def command_line(pid):
    """Of a living process; [] where it cannot be seen."""
    try:
        with open('/proc/%d/cmdline' % pid, 'rb') as file:
            return [os.fsdecode(word)
                    for word in file.read().split(b'\0')[:-1]]
    except OSError:
        return []


def short_name(name, words):
    """A script's own name rather than its interpreter's."""
    if name.startswith('python'):
        for word in words[1:]:
            if word == '-m':
                continue
            if not word.startswith('-'):
                return os.path.basename(word)
            if word == '-c':
                break
    return name


class Row:
    """A process on a device, now."""

    def __init__(self, process, device, points, looks):
        words = ([] if process.life == 'elsewhere'
                 else command_line(process.pid))
        self.pid = process.pid
        self.name = short_name(process.name, words)
        self.command = ' '.join(words) or process.exe
        self.exe = process.exe
        self.responds = process.responds
        self.started = process.started
        self.device = device.ordinal
        self.uuid = device.uuid
        self.device_name = device.name
        self.total = device.total
        self.allocated = device.allocated
        self.reserved = device.reserved
        self.cached = device.cached
        self.cap = device.cap
        self.fragmentation = device.fragmentation
        self.peak = device.peak_allocated
        self.outside = device.outside
        self.context = device.context
        self.free = device.free
        self.rate = slope(points, 'calls', RATE_WINDOW_S)
        self.growth = slope(points, 'allocated', GROWTH_WINDOW_S)
        self.trend = looks

    def held(self):
        """All that the process takes of the device, as far as is known."""
        return self.reserved + (self.outside or 0) + (self.context or 0)

    def flat(self):
        """With flat keys, for scripts."""
        return {
            'pid': self.pid, 'name': self.name, 'command': self.command,
            'exe': self.exe, 'started_unix_s': self.started,
            'responds': self.responds, 'device': self.device,
            'device_uuid': self.uuid, 'device_name': self.device_name,
            'device_bytes': self.total, 'allocated_bytes': self.allocated,
            'reserved_bytes': self.reserved, 'cached_bytes': self.cached,
            'limit_bytes': self.cap, 'fragmentation': round(
                self.fragmentation, 4),
            'allocations_per_s': rounded(self.rate),
            'growth_bytes_per_s': rounded(self.growth),
            'peak_allocated_bytes': self.peak,
            'outside_bytes': self.outside, 'context_bytes': self.context,
        }


def rounded(value):
    return None if value is None else round(value, 1)


def slope(points, field, window):
    """Change per second over the last `window` seconds; None if there is
    nothing to compare with."""
    if len(points) < 2:
        return None
    last = points[-1]
    first = next(point for point in points
                 if point.time >= last.time - window)
    if first is last:
        first = points[-2]
    return ((getattr(last, field) - getattr(first, field))
            / (last.time - first.time))


class Sampler:

    def __init__(self):
        self.points = {}  # (pid, start, image, uuid): deque of Point
        self.looks = {}   # the same: allocated at each look
        self.rows = []
        self.problems = []

    def look(self):
        """The rows as they are now."""
        processes, self.problems = gpupool_ledger.processes()
        self.rows = []
        seen = set()
        for process in processes:
            for device in process.devices:
                key = (process.pid, process.start, process.image,
                       device.uuid)
                seen.add(key)
                self.rows.append(self._row(key, process, device))
        for store in self.points, self.looks:
            for key in set(store) - seen:
                del store[key]
        return self.rows

    def _row(self, key, process, device):
        points = self.points.setdefault(key, collections.deque(maxlen=KEEP))
        looks = self.looks.setdefault(key, collections.deque(maxlen=KEEP))
        when = process.updated or 0
        if not points or points[-1].time < when:
            points.append(Point(when, device.allocated,
                                device.figures.get('num_alloc_calls', 0)))
        looks.append(device.allocated)
        return Row(process, device, points, looks)

    def look_twice(self, pause):
        """For one page: a second look once every process has written again,
        so that there is a rate."""
        rows = self.look()
        if not rows or pause <= 0:
            return rows
        time.sleep(pause)
        late = time.monotonic() + 2.0
        while True:
            rows = self.look()
            if time.monotonic() > late or all(
                    row.rate is not None or not row.responds for row in rows):
                return rows
            time.sleep(0.1)
