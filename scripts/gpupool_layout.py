"""What lay where at a report's moment, and what follows from it for the time
before.

The events of a process begin in the middle of things, and some of them may be
lost. A report's layout says what was there at its end: what of it no event
tells of was there all along; and where an event is missing, one is made up.
"""
import bisect
import collections

import gpupool_ring

PAGE = 2 << 20  # what the pool's handles are multiples of
# Blocks were looked at one by one, and the events' clock is not the report's:
# what happened so little before is not judged.
MARGIN_NS = 5 * 10 ** 6

# Of what is made up.
ORDER = ('free', 'segment_unmap', 'segment_free', 'segment_map',
         'segment_alloc', 'alloc')

Range = collections.namedtuple('Range', 'address bytes requested blocks')


class Layout:
    """Of one device: all its pools."""

    def __init__(self, parts):
        self.since = min(part['unix_ns'] for part in parts) - MARGIN_NS
        self.unix_ns = max(part['unix_ns'] for part in parts)
        self.left_out = sum(part['left_out'] for part in parts)
        self.blocks, self.pages, self.plain = [], set(), {}
        for part in parts:
            blocks, segments = part['blocks'], part['segments']
            self.blocks.extend(map(Range, blocks['address'], blocks['bytes'],
                                   blocks['requested'], blocks['blocks']))
            for start, size in zip(segments['address'], segments['bytes']):
                if part['expandable']:
                    self.pages.update(pages(start, size))
                else:
                    self.plain[start] = size
        self.blocks.sort()

    def untold(self, events):
        """Segments from the driver that none of the events tells of."""
        told = {event.address for event in events
                if event.kind in ('segment_alloc', 'segment_free')}
        return {start: size for start, size in self.plain.items()
                if start not in told}


def pages(address, size):
    return range(address // PAGE, (address + max(size, 1) - 1) // PAGE + 1)


def of(report, device):
    """The report's layout of a device; None: it has none."""
    parts = [pool['layout'] for pool in report['pools']
             if pool['device'] == device and pool.get('layout')]
    return Layout(parts) if parts else None


class Spans:
    """Finds out whether any of many stretches of addresses meets another."""

    def __init__(self, stretches):
        stretches = sorted(stretches)
        self.starts = [start for start, _ in stretches]
        self.ends, end = [], 0
        for _, stretch_end in stretches:
            end = max(end, stretch_end)
            self.ends.append(end)

    def meet(self, start, end):
        at = bisect.bisect_left(self.starts, end)
        return at > 0 and self.ends[at - 1] > start


class Settled:
    """`before`: ranges that were live all along; `pages`: memory that was there
    all along, beside what the events tell; `missing`: events made up for those
    that were lost, to come after all others."""

    def __init__(self, layout, events, live, mapped, plain):
        """`live`, `mapped`, `plain`: what the events alone say of the end."""
        self.layout = layout
        self.before, self.missing, self.pages = [], [], set()
        self.device = events[0].device if events else 0
        self.time = max([layout.unix_ns] + [e.time for e in events[-1:]])
        self.touched = {}  # a block's, page's, segment's address -> when last
        for event in events:
            if event.kind in ('alloc', 'free'):
                self.touched[event.address] = event.time
            elif event.kind in ('segment_map', 'segment_unmap'):
                for page in pages(event.address, event.bytes):
                    self.touched[-page] = event.time
            elif event.kind in ('segment_alloc', 'segment_free'):
                self.touched[-event.address] = event.time
        # A block that has been there all along meets none of them.
        self.spans = Spans((event.address, event.address + event.bytes)
                           for event in events if event.kind in ORDER)
        freed = self._blocks(live)
        self._pages([block for address, block in live.items()
                     if address not in freed], mapped)
        self._plain(plain)
        self.missing.sort(key=lambda event: ORDER.index(event.kind))

    def _late(self, key):
        """The events say it for a time that the layout does not."""
        return self.touched.get(key, 0) >= self.layout.since

    def _make_up(self, kind, address, size, requested=0):
        self.missing.append(gpupool_ring.Event(
            self.time, kind, self.device, 0, address, requested, size, 0, 0))

    def _blocks(self, live):
        """The addresses of blocks whose free was lost."""
        order = sorted(live)
        gone = {address for address in order if not self._late(address)}
        for block in self.layout.blocks:
            if block.blocks == 1 and self._late(block.address):
                continue
            end = block.address + block.bytes
            at, requested = block.address, block.requested
            first = bisect.bisect_left(order, at)
            if first and order[first - 1] + live[order[first - 1]].bytes > at:
                first -= 1
            for address in order[first:bisect.bisect_left(order, end)]:
                known = live[address]
                if (address >= block.address
                        and (block.blocks > 1 or known.bytes == block.bytes)):
                    gone.discard(address)
                elif not self._late(address):
                    continue  # another lies there: its free was lost
                requested -= self._piece(at, address, requested)
                requested = max(0, requested - known.requested)
                at = max(at, address + known.bytes)
            self._piece(at, end, requested)
        for address in sorted(gone):
            self._make_up('free', address, live[address].bytes,
                          live[address].requested)
        return gone

    def _piece(self, start, end, requested):
        """Live, and not known from the events. The bytes requested of it."""
        size = end - start
        if size <= 0 or self._late(start):
            return 0
        requested = max(0, min(requested, size))
        if self.spans.meet(start, end):
            self._make_up('alloc', start, size, requested)
        else:
            self.before.append(Range(start, size, requested, 1))
        return requested

    def _pages(self, live, mapped):
        there = self.layout.pages
        for page in sorted(there - mapped):
            if -page not in self.touched:
                self.pages.add(page)
            elif not self._late(-page):
                self._make_up('segment_map', page * PAGE, PAGE)
        covered = {page for block in live
                   for page in pages(block.address, block.bytes)}
        for page in sorted(mapped - there - covered):
            if not self._late(-page):
                self._make_up('segment_unmap', page * PAGE, PAGE)

    def _plain(self, plain):
        there = self.layout.plain
        for start in sorted(set(there) - set(plain)):
            if not self._late(-start):
                self._make_up('segment_alloc', start, there[start])
        for start in sorted(set(plain) - set(there)):
            if not self._late(-start):
                self._make_up('segment_free', start, plain[start])
