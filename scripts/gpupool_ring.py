"""The events in a process's file, in order of time.

    ring = read('/run/user/1000/gpupool/1234-5678-0.gpupool')
    for event in ring.events: ...

An event has kind ('alloc', 'free', 'segment_map', 'segment_unmap',
'segment_alloc', 'segment_free', 'oom', 'trim', 'limit', 'neighbour'), device,
thread, time (Unix time in ns), address, requested and bytes (of the block),
allocated and reserved (after it).

stats/ring.h says how they are written. An event that is torn, because the
process ended or another thread wrote into its place, has a wrong checksum and
is left out; `ring.torn` counts those. `ring.lost`: older events that newer ones
have taken the place of (about); the newest 63 of each thread that ran are there.
`ring.notes`: sentences about what is missing.
"""
import bisect
import collections
import os
import struct

from gpupool_file import FileProblem, ProcessFile

KINDS = (None, 'alloc', 'free', 'segment_map', 'segment_unmap',
         'segment_alloc', 'segment_free', 'oom', 'trim', 'limit',
         'neighbour')
EVENT_BYTES = 64
CHUNK_BYTES = 4096
EVENT = struct.Struct('=8Q')
CHUNK = struct.Struct('=5Q')
EMPTY = bytes(EVENT_BYTES)
MASK = (1 << 64) - 1
K1, K2, K3, K4, K5, K6, K7 = (
    0x9e3779b97f4a7c15, 0xbf58476d1ce4e5b9, 0x94d049bb133111eb,
    0xd6e8feb86659fd93, 0xa0761d6478bd642f, 0xe7037ed1a0b428db,
    0x8ebc6af09c88c6e3)

Event = collections.namedtuple(
    'Event', 'time kind device thread address requested bytes allocated '
             'reserved')


class Clock:
    """The events' ticks as Unix time, from moments known on both clocks."""

    def __init__(self, file, moments):
        self.offset = file.unix_ns - file.mono_ns
        points = {file.ticks: file.mono_ns}
        points.update(moments)
        if (file.moment_mono_ns + file.moment_ticks) & MASK == \
                file.moment_check and file.moment_ticks:
            points[file.moment_ticks] = file.moment_mono_ns
        self.ticks = sorted(points)
        self.mono = [points[tick] for tick in self.ticks]
        self.per_tick = (1e9 / file.ticks_per_s if file.ticks_per_s
                         else self._slope(0, len(self.ticks) - 1) or 1.0)

    def _slope(self, low, high):
        ticks = self.ticks[high] - self.ticks[low]
        return (self.mono[high] - self.mono[low]) / ticks if ticks > 0 else 0

    def unix_ns(self, tick):
        """Between two moments on the line between them; else on the overall
        line through the nearest."""
        at = bisect.bisect_right(self.ticks, tick) - 1
        low = max(at, 0)
        slope = self.per_tick
        # Moments taken in the same microsecond say nothing of the speed.
        if 0 <= at < len(self.ticks) - 1 and \
                self.mono[at + 1] - self.mono[at] > 1000000:
            slope = self._slope(at, at + 1) or slope
        return self.offset + self.mono[low] + int(
            (tick - self.ticks[low]) * slope)


class Ring:

    def __init__(self, file):
        self.file = file
        self.events = []
        self.torn = 0
        self.lost = 0
        self.notes = []
        if file.cut:
            self.notes.append('%s is cut short: %d of %d bytes' % (
                file.path, file.size, file.file_bytes))
        if not file.num_chunks:
            self.notes.append('this process recorded no events '
                              '(ring_events:False, or no room on the disk)')
            return
        if (file.event_bytes, file.chunk_bytes) != (EVENT_BYTES, CHUNK_BYTES):
            raise FileProblem('%s: its events are of a size that this '
                              'gpupool does not know' % file.path)
        self._read()
        per_chunk = CHUNK_BYTES // EVENT_BYTES - 1
        if file.taken > file.num_chunks:
            self.lost = (file.taken - file.num_chunks) * per_chunk
            self.notes.append('about %d older events were overwritten '
                              '(ring_size says how many are kept)' % self.lost)

    def _read(self):
        raw, moments, unknown = [], {}, 0
        data, at = self.file.data, self.file.ring_at
        end = min(len(data), at + self.file.num_chunks * CHUNK_BYTES)
        for chunk in range(at, end, CHUNK_BYTES):
            if chunk + CHUNK.size <= end:
                ticket, _, mono, ticks, check = CHUNK.unpack_from(data, chunk)
                if ticket and (mono + ticks + ticket) & MASK == check:
                    moments[ticks] = mono
            for place in range(chunk + EVENT_BYTES,
                               min(chunk + CHUNK_BYTES, end), EVENT_BYTES):
                if place + EVENT_BYTES > end:
                    break
                event = EVENT.unpack_from(data, place)
                if (event[0] * K1 + event[1] * K2 + event[2] * K3
                        + event[3] * K4 + event[4] * K5 + event[5] * K6
                        + event[6] * K7 + 1) & MASK == event[7]:
                    if 0 < event[6] & 0xff < len(KINDS):
                        raw.append(event)
                    else:
                        unknown += 1
                elif data[place:place + EVENT_BYTES] != EMPTY:
                    self.torn += 1
        # Stable: events of one thread at the same tick keep their order.
        raw.sort(key=lambda event: event[0])
        clock = Clock(self.file, moments)
        latest = 0
        for ticks, address, requested, size, allocated, reserved, what, _ \
                in raw:
            # A moment that was taken late sets the clock back a little.
            latest = max(latest, clock.unix_ns(ticks))
            self.events.append(Event(
                latest, KINDS[what & 0xff], what >> 8 & 0xff,
                what >> 32, address, requested, size, allocated, reserved))
        if self.torn:
            self.notes.append('%d events were being written when the process '
                              'ended, or are damaged; they are left out'
                              % self.torn)
        if unknown:
            self.notes.append('%d events are of kinds that this gpupool does '
                              'not know; they are left out' % unknown)


def read(path, any_owner=False):
    """The ring of the file at `path`; FileProblem if it cannot be read."""
    return Ring(ProcessFile(os.fspath(path), any_owner=any_owner))
