"""What lies where in device memory, at any moment that the events cover.

The events begin in the middle of things. A block whose free is among them was
there from the start; one that is neither taken nor given back among them is
seen only if a report says what was there at the end (gpupool_layout.py). Else a
map may show less than is allocated.
"""
import bisect

import gpupool_layout
from gpupool_layout import PAGE


class Block:

    __slots__ = ('address', 'bytes', 'requested', 'since', 'thread')

    def __init__(self, event, since):
        self.address = event.address
        self.bytes = event.bytes
        self.requested = event.requested
        self.since = since  # Unix ns; None: before the events begin
        self.thread = event.thread if since is not None else 0


class Map:
    """The state of one device's memory while its events are played.

    With a layout, `events` has more at its end than it was given: `made_up`,
    for lost ones; and `before` are the ranges that no event tells of."""

    def __init__(self, events, layout=None, plain=()):
        self.events = events
        self.next = 0
        self.before, self.made_up = [], []
        self.live = {}      # address -> Block
        self.pages = set()  # with memory behind them, of the pool's range
        # Segments from the driver: address -> bytes
        self.plain = dict(layout.untold(events) if layout else plain)
        self._before()
        if layout:
            self._settle(layout)
        # As it was when the events began.
        self.pages0, self.plain0 = set(self.pages), dict(self.plain)

    def _settle(self, layout):
        end = Map(self.events, plain=self.plain).to(len(self.events))
        found = gpupool_layout.Settled(layout, self.events, end.live,
                                       end.pages, end.plain)
        self.made_up = found.missing
        self.events = self.events + self.made_up
        self.before = found.before
        self.pages |= found.pages
        for block in self.before:
            self.live[block.address] = Block(block, None)
            self._cover(self.live[block.address])

    def _before(self):
        """What must have been there when the first event was written."""
        seen, pages, segments = set(), set(), set()
        for event in self.events:
            kind = event.kind
            if kind in ('alloc', 'free'):
                if kind == 'free' and event.address not in seen:
                    self.live[event.address] = Block(event, None)
                seen.add(event.address)
            elif kind == 'segment_map':
                pages.update(span(event))
            elif kind == 'segment_unmap':
                self.pages.update(page for page in span(event)
                                  if page not in pages)
                pages.update(span(event))
            elif kind == 'segment_alloc':
                segments.add(event.address)
            elif kind == 'segment_free':
                if event.address not in segments:
                    self.plain[event.address] = event.bytes
                segments.add(event.address)
        for block in self.live.values():
            self._cover(block)

    def _cover(self, block):
        """A block lies in memory, also if nobody saw it being mapped."""
        pages = span(block)
        if pages[0] in self.pages and pages[-1] in self.pages:
            return
        for start, size in self.plain.items():
            if start <= block.address < start + size:
                return
        self.pages.update(pages)

    def to(self, index):
        """Play up to, and without, the event of that number; only forward."""
        for event in self.events[self.next:index]:
            kind = event.kind
            if kind == 'alloc':
                block = self.live[event.address] = Block(event, event.time)
                self._cover(block)
            elif kind == 'free':
                self.live.pop(event.address, None)
            elif kind == 'segment_map':
                self.pages.update(span(event))
            elif kind == 'segment_unmap':
                self.pages.difference_update(span(event))
                self._gone(event)
            elif kind == 'segment_alloc':
                self.plain[event.address] = event.bytes
            elif kind == 'segment_free':
                self.plain.pop(event.address, None)
                self._gone(event)
        self.next = max(self.next, index)
        return self

    def _gone(self, event):
        """A context went away with what was live in it."""
        end = event.address + event.bytes
        for address in [a for a in self.live if event.address <= a < end]:
            del self.live[address]

    def segments(self):
        """[(address, bytes)] of all memory, in order, joined where one follows
        the other."""
        found = [[start, size] for start, size in self.plain.items()]
        last = None
        for page in sorted(self.pages):
            if last is not None and last[0] + last[1] == page * PAGE:
                last[1] += PAGE
            else:
                last = [page * PAGE, PAGE]
                found.append(last)
        return sorted(map(tuple, found))

    def blocks(self):
        return sorted(self.live.values(), key=lambda block: block.address)


def span(event):
    return range(event.address // PAGE,
                 (event.address + max(event.bytes, 1) - 1) // PAGE + 1)


def peak(events):
    """The number of the event after which the most was allocated; -1: none."""
    best, most = -1, -1
    for index, event in enumerate(events):
        if event.kind == 'alloc' and event.allocated > most:
            best, most = index, event.allocated
    return best


def until(events, unix_ns):
    """How many of the events are not later than that moment."""
    return bisect.bisect_right([event.time for event in events], unix_ns)


def levels(events, complete, layout=None):
    """[(allocated, reserved)] after each event of one device.

    An event says what was allocated as its own thread knew it. Here the blocks
    are counted instead; unless the events are `complete` or there is a layout,
    what there was before is told from the difference, as it mostly is."""
    state, reserved = Map(events, layout), 0
    total = sum(block.bytes for block in state.live.values())
    counted, differences = [], []
    for index, event in enumerate(events):
        was = state.live.get(event.address)
        number = len(state.live)
        state.to(index + 1)
        if event.kind == 'alloc':
            total += event.bytes - (was.bytes if was else 0)
        elif event.kind == 'free':
            total -= was.bytes if was else 0
        elif len(state.live) != number:
            total = sum(block.bytes for block in state.live.values())
        if event.kind not in ('limit', 'neighbour'):
            reserved = event.reserved
        if event.kind in ('alloc', 'free'):
            differences.append(event.allocated - total)
        counted.append((total, reserved))
    if complete or layout or not differences:
        return counted
    unseen = max(0, sorted(differences)[len(differences) // 2])
    return [(total + unseen, reserved) for total, reserved in counted]


# ---- by size -----------------------------------------------------------------

def size_class(size):
    """The power of two that holds it, from 512 B."""
    return max(512, 1 << (max(size, 1) - 1).bit_length())


def by_size(blocks):
    """{class: (blocks, bytes)}, of the live ones."""
    found = {}
    for block in blocks:
        key = size_class(block.bytes)
        number, total = found.get(key, (0, 0))
        found[key] = number + 1, total + block.bytes
    return found
