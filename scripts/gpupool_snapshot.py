"""gpupool snapshot: the events of a process as a PyTorch memory snapshot.

pytorch.org/memory_viz and torch.cuda._memory_viz open what this writes: the
trace, and the state of memory after it, segments tiled by blocks.

The viewer plays the trace backwards from that state, and stops at an event that
does not fit: a block outside all segments, a segment mapped twice. Events may
be lost; the trace is made to fit.
"""
import bisect
import json
import os
import pickle
import sys

import gpupool_ledger
import gpupool_sites
import gpupool_story
from gpupool_layout import PAGE, pages
from gpupool_map import span
from gpupool_paths import Parser, Problem

SMALL = 1 << 20


def runs(numbers):
    """(first page, how many) of each stretch of pages."""
    found = []
    for page in sorted(numbers):
        if found and found[-1][0] + found[-1][1] == page:
            found[-1][1] += 1
        else:
            found.append([page, 1])
    return found


class Trace:
    """One device's events in PyTorch's words, as they can have been."""

    def __init__(self, memory, device_free=0):
        self.device_free = device_free
        self.made = []
        self.allocs = {}  # address -> the last entry of an alloc there
        self.frames = {}  # address -> of what is live in the end
        self.live = {}   # address -> a block
        self.order = []  # their addresses
        self.pages = set(memory.pages0)
        self.plain = dict(memory.plain0)
        self.made_up = memory.made_up
        self._start(memory)
        for event in memory.events:
            getattr(self, '_' + event.kind, lambda event: None)(event)

    def _start(self, memory):
        """Of two blocks in one place, the later one's alloc was lost."""
        known = {block.address for block in memory.before}
        for block in sorted(memory.live.values(),
                            key=lambda block: block.address not in known):
            if not self._between(block.address, block.address + block.bytes):
                self._put(block)
                if not self._in_plain(block.address):
                    self.pages.update(span(block))
        for start, size in self.plain.items():
            self.pages.difference_update(pages(start, size))

    def _add(self, action, event, address, size):
        entry = {'action': action, 'addr': address, 'size': size, 'stream': 0,
                 'time_us': event.time // 1000, 'frames': []}
        self.made.append(entry)
        if action == 'alloc':
            self.allocs[address] = entry
        return entry

    def _put(self, block):
        self.live[block.address] = block
        bisect.insort(self.order, block.address)

    def _drop(self, event, address):
        block = self.live.pop(address)
        del self.order[bisect.bisect_left(self.order, address)]
        for action in 'free_requested', 'free_completed':
            self._add(action, event, address, block.requested)

    def _between(self, start, end):
        """Addresses of live blocks that reach in there."""
        first = bisect.bisect_left(self.order, start)
        if first:
            block = self.live[self.order[first - 1]]
            first -= block.address + block.bytes > start
        return self.order[first:bisect.bisect_left(self.order, end)]

    def _in_plain(self, address):
        return any(start <= address < start + size
                   for start, size in self.plain.items())

    def _clear(self, event, start, size):
        """Nothing is live there any more, whoever saw it go."""
        for address in self._between(start, start + size):
            self._drop(event, address)

    def _alloc(self, event):
        self._clear(event, event.address, event.bytes)
        if not self._in_plain(event.address):
            self._segment_map(event)
        self._put(event)
        self._add('alloc', event, event.address, event.requested)

    def _free(self, event):
        if event.address in self.live:
            self._drop(event, event.address)

    def _segment_map(self, event):
        for page, number in runs(set(span(event)) - self.pages):
            self._add('segment_map', event, page * PAGE, number * PAGE)
        self.pages.update(span(event))

    def _segment_unmap(self, event):
        for page, number in runs(self.pages.intersection(span(event))):
            self._clear(event, page * PAGE, number * PAGE)
            self._add('segment_unmap', event, page * PAGE, number * PAGE)
        self.pages.difference_update(span(event))

    def _segment_alloc(self, event):
        if self.plain.get(event.address) != event.bytes:
            end = event.address + event.bytes
            # One that was lost comes too late for what lies in it.
            blocks = [self.live[address] for address in self._between(
                event.address, end)] if event in self.made_up else []
            self._segment_unmap(event)
            for start in [start for start, size in self.plain.items()
                          if start < end and event.address < start + size]:
                self._give_back(event, start)
            self.plain[event.address] = event.bytes
            self._add('segment_alloc', event, event.address, event.bytes)
            for block in blocks:
                self._put(block)
                self._add('alloc', event, block.address, block.requested)

    def _segment_free(self, event):
        if event.address in self.plain:
            self._give_back(event, event.address)

    def _give_back(self, event, start):
        size = self.plain.pop(start)
        self._clear(event, start, size)
        self._add('segment_free', event, start, size)

    def _oom(self, event):
        entry = self._add('oom', event, 0, event.requested)
        del entry['addr']
        entry['device_free'] = self.device_free

    def tell_stacks(self, stacks, sites):
        """Of what is live in the end: at the blocks, and at their allocs."""
        for address, block in self.live.items():
            self.frames[address] = stacks[sites.of(block)]
            if address in self.allocs:
                self.allocs[address]['frames'] = self.frames[address]

    def segments(self):
        """(address, bytes, whether it is part of the pool's range), in
        order."""
        return sorted([(page * PAGE, number * PAGE, True)
                       for page, number in runs(self.pages)]
                      + [(start, size, False)
                         for start, size in self.plain.items()])


def block(address, size, requested, state, frames):
    return {'address': address, 'size': size, 'requested_size': requested,
            'state': state, 'frames': frames}


def segments_of(device, trace):
    """The live blocks, and inactive ones between them, by segment."""
    segments, at = [], 0
    for start, size, expandable in trace.segments():
        blocks, end = [], start
        at = max(at, bisect.bisect_left(trace.order, start))
        while at < len(trace.order) and trace.order[at] < start + size:
            one = trace.live[trace.order[at]]
            at += 1
            if one.address > end:
                blocks.append(block(end, one.address - end, 0, 'inactive', []))
            blocks.append(block(one.address, one.bytes, one.requested,
                                'active_allocated',
                                trace.frames.get(one.address, [])))
            end = one.address + one.bytes
        if end < start + size:
            blocks.append(block(end, start + size - end, 0, 'inactive', []))
        active = [b for b in blocks if b['state'] == 'active_allocated']
        allocated = sum(b['size'] for b in active)
        small = active and all(b['size'] < SMALL for b in active)
        segments.append({
            'device': device, 'address': start, 'total_size': size,
            'allocated_size': allocated, 'active_size': allocated,
            'requested_size': sum(b['requested_size'] for b in active),
            'stream': 0, 'segment_type': 'small' if small else 'large',
            'segment_pool_id': (0, 0), 'is_expandable': expandable,
            'frames': [], 'blocks': blocks})
    return segments


def device_free(story, device):
    """What the card had free when that was last asked; 0: not known."""
    for pool in story.report['pools']:
        if pool['device'] == device:
            return pool.get('free_bytes') or 0
    return 0


def frame_of(frame):
    """A report's frame in PyTorch's words."""
    return {'filename': frame.get('file') or frame.get('address') or '??',
            'line': frame.get('line') or frame.get('offset', 0),
            'name': frame.get('function') or '??'}


def settings(story):
    report, ring = story.report, story.ring
    if ring:
        conf = ring.file.conf
    else:
        conf = ','.join('%s:%s' % (s['key'], s['value'])
                        for s in report.get('settings', ())
                        if not s['is_default'])
    return {
        'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1,
        'garbage_collection_threshold': 0.0,
        'expandable_segments': 'expandable_segments:False'
                               not in conf.split(','),
        'pinned_num_register_threads': 1,
        'release_lock_on_cudamalloc': False,
        'pinned_use_cuda_host_register': False,
        'roundup_power2_divisions': {},
        'trace_alloc_max_entries': len(ring.events) if ring else 0,
        'trace_alloc_overflowed': bool(ring and ring.lost),
        'gpupool_conf': conf, 'gpupool_pid': report['pid'],
        'gpupool_exe': report.get('exe', ''),
        'gpupool_notes': story.notes() + missing(story)}


def missing(story):
    """A sentence about what has no place in it, if anything has."""
    for pool in story.report['pools']:
        layout = pool.get('layout')
        if layout and layout['left_out']:
            return ['the report had no room for %d blocks' %
                    layout['left_out']]
        if (not layout and story.ring and story.ring.lost
                and story.report.get('state') != 'ended'):
            return ['what was allocated before the first of the events, and '
                    'not freed since, is not in it: only a JSON report tells '
                    'where it lies']
    return []


def convert(story):
    """The snapshot as plain dicts, lists and numbers."""
    devices = [pool['device'] for pool in story.report['pools']]
    devices += [event.device for event in story.events()]
    stacks = gpupool_sites.stacks(story.report, frame_of)
    segments, traces = [], []
    for device in range(min(1 + max(devices, default=0), 256)):
        trace = Trace(story.memory(device), device_free(story, device))
        refused = [e for e in trace.made if e['action'] == 'oom']
        if refused and story.report['reason'] == 'oom' and \
                device == story.report.get('oom_device'):
            refused[-1]['frames'] = [
                frame_of(frame) for frame in story.report.get('oom_stack', ())]
        trace.tell_stacks(stacks, gpupool_sites.Sites(story, device))
        segments += segments_of(device, trace)
        traces.append(trace.made)
    return {'segments': segments, 'device_traces': traces,
            'allocator_settings': settings(story),
            'external_annotations': []}


def find(what):
    """The gpupool_story.Story of a file's name or a process id. A process that
    does not answer has left its events all the same."""
    if not what.isdigit() or os.path.exists(what):
        return gpupool_story.find(what)
    process = gpupool_ledger.by_pid(int(what), dead=True)
    try:
        return gpupool_story.from_pid(process.pid)
    except Problem as problem:
        if process.life != 'alive':
            raise
        print('gpupool: %s' % problem, file=sys.stderr)
        return gpupool_story.from_ring(
            gpupool_story.read_ring(process.path, any_owner=False))


def build_parser():
    parser = Parser(
        prog='gpupool snapshot',
        description='Convert the last allocations and frees of a process, '
                    'living or dead, to a PyTorch memory snapshot. '
                    'pytorch.org/memory_viz opens it. A living process is '
                    'asked for a report, which tells every live block; of a '
                    'dead one, name its last report, if it wrote one. With '
                    'stacks:sample or stacks:all a report also tells who '
                    'allocated them.')
    parser.add_argument('what', metavar='PID|FILE',
                        help='a process, a report, or a file of the runtime '
                             'directory')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where to; - is stdout '
                             '(gpupool-PROGRAM-PID.snapshot.pickle)')
    parser.add_argument('--json', action='store_true',
                        help='JSON instead of a pickle; much larger where '
                             'blocks have call stacks')
    return parser


def write(snapshot, as_json, output):
    if as_json:
        data = (json.dumps(snapshot) + '\n').encode()
    else:
        data = pickle.dumps(snapshot, protocol=2)
    if output == '-':
        sys.stdout.buffer.write(data)
        sys.stdout.flush()
        return
    new = '%s.new' % output
    try:
        with open(new, 'wb') as file:
            file.write(data)
        os.replace(new, output)
    except OSError as error:
        raise Problem('cannot write %s: %s' % (output, error.strerror))


def main(argv):
    options = build_parser().parse_args(argv)
    story = find(options.what)
    report = story.report
    for note in (story.ring.notes if story.ring else []) + missing(story):
        print('gpupool: ' + note, file=sys.stderr)
    name = ''.join(c if c.isalnum() or c in '._-+' else '_'
                   for c in report['name'])
    output = options.output or 'gpupool-%s-%d.snapshot.%s' % (
        name, report['pid'], 'json' if options.json else 'pickle')
    write(convert(story), options.json, output)
    if output != '-':
        print('gpupool: %s (%d events); open it at pytorch.org/memory_viz'
              % (output, len(story.events())), file=sys.stderr)
    return 0
