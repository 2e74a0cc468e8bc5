"""gpupool snapshot: the events of a process as a PyTorch memory snapshot.

pytorch.org/memory_viz and torch.cuda._memory_viz open what this writes: the
trace, and the state of memory after it, segments tiled by blocks.
"""
import argparse
import json
import os
import pickle
import sys

import gpupool_ledger
import gpupool_ring
from gpupool_file import FileProblem
from gpupool_paths import Problem

PAGE = 2 << 20  # what segments are multiples of
SMALL = 1 << 20


class Memory:
    """What the events say of one device's memory: which addresses have memory
    behind them, and which blocks are live.

    The ring begins in the middle of things: where a block is seen, its memory
    was there before."""

    def __init__(self):
        self.pages = set()   # mapped into the pool's range, by number
        self.segments = {}   # from the driver: address -> bytes
        self.live = {}       # address -> event

    def _around(self, address):
        return any(start <= address < start + size
                   for start, size in self.segments.items())

    def _pages_of(self, event):
        return range(event.address // PAGE,
                     (event.address + max(event.bytes, 1) - 1) // PAGE + 1)

    def take(self, event):
        kind = event.kind
        if kind == 'segment_map':
            self.pages.update(self._pages_of(event))
        elif kind == 'segment_unmap':
            self.pages.difference_update(self._pages_of(event))
        elif kind == 'segment_alloc':
            self.segments[event.address] = event.bytes
        elif kind == 'segment_free':
            self.segments.pop(event.address, None)
        elif kind in ('alloc', 'free'):
            pages = self._pages_of(event)
            if not (pages[0] in self.pages and pages[-1] in self.pages
                    or self._around(event.address)):
                self.pages.update(pages)
            if kind == 'alloc':
                self.live[event.address] = event
            else:
                self.live.pop(event.address, None)

    def stretches(self):
        """(address, bytes, whether it is part of the pool's range), of all
        memory, in order."""
        found = [(start, size, False)
                 for start, size in self.segments.items()]
        pages = sorted(self.pages)
        first = 0
        for i, page in enumerate(pages):
            if i + 1 == len(pages) or pages[i + 1] != page + 1:
                start = pages[first]
                found.append((start * PAGE, (page + 1 - start) * PAGE, True))
                first = i + 1
        return sorted(found)


def block(address, size, requested, state):
    return {'address': address, 'size': size, 'requested_size': requested,
            'state': state, 'frames': []}


def segments_of(device, memory):
    """The live blocks, and inactive ones between them, by segment."""
    live = sorted(memory.live.values(), key=lambda event: event.address)
    segments, at = [], 0
    for start, size, expandable in memory.stretches():
        blocks, end = [], start
        while at < len(live) and live[at].address < start + size:
            event = live[at]
            at += 1
            # One that lies over another: its free was not recorded.
            if event.address < end or \
                    event.address + event.bytes > start + size:
                continue
            if event.address > end:
                blocks.append(block(end, event.address - end, 0, 'inactive'))
            blocks.append(block(event.address, event.bytes, event.requested,
                                'active_allocated'))
            end = event.address + event.bytes
        if end < start + size:
            blocks.append(block(end, start + size - end, 0, 'inactive'))
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


def entry(action, event, **more):
    made = {'action': action, 'addr': event.address, 'size': event.bytes,
            'stream': 0, 'time_us': event.time // 1000, 'frames': []}
    made.update(more)
    return made


def trace_of(events):
    """One device's events in PyTorch's words."""
    trace, live = [], {}

    def free(event, requested):
        for action in 'free_requested', 'free_completed':
            trace.append(entry(action, event, size=requested))

    for event in events:
        kind = event.kind
        if kind == 'alloc':
            old = live.pop(event.address, None)
            if old:  # its free is among the events that were lost
                free(event, old.requested)
            live[event.address] = event
            trace.append(entry('alloc', event, size=event.requested))
        elif kind == 'free':
            live.pop(event.address, None)
            free(event, event.requested)
        elif kind.startswith('segment_'):
            trace.append(entry(kind, event))
        elif kind == 'oom':
            made = entry('oom', event, size=event.requested)
            del made['addr']
            made['device_free'] = 0
            trace.append(made)
    return trace


def convert(ring):
    """The snapshot as plain dicts, lists and numbers."""
    file = ring.file
    process, devices = file.ledger()
    free = {d.get('ordinal', 0): d.get('free_bytes') for d in devices}
    count = 1 + max([event.device for event in ring.events]
                    + [d.get('ordinal', 0) for d in devices] + [0])
    count = min(count, 256)
    segments, traces = [], []
    for device in range(count):
        events = [e for e in ring.events if e.device == device]
        memory = Memory()
        for event in events:
            memory.take(event)
        segments += segments_of(device, memory)
        traces.append(trace_of(events))
        for made in traces[-1]:
            if made['action'] == 'oom':
                value = free.get(device)
                known = value is not None and value < 1 << 63
                made['device_free'] = value if known else 0
    return {
        'segments': segments,
        'device_traces': traces,
        'allocator_settings': {
            'PYTORCH_CUDA_ALLOC_CONF': '', 'max_split_size': -1,
            'garbage_collection_threshold': 0.0,
            'expandable_segments': 'expandable_segments:False'
                                   not in file.conf.split(','),
            'pinned_num_register_threads': 1,
            'release_lock_on_cudamalloc': False,
            'pinned_use_cuda_host_register': False,
            'roundup_power2_divisions': {},
            'gpupool_conf': file.conf, 'gpupool_pid': file.pid,
            'gpupool_exe': file.exe, 'gpupool_notes': list(ring.notes),
        },
        'external_annotations': [],
    }


def find(what, directory=None):
    """The path for a file's name or a process id, living or dead."""
    if not what.isdigit() or os.path.exists(what):
        return what
    return gpupool_ledger.by_pid(int(what), dead=True,
                                 directory=directory).path


def build_parser():
    parser = argparse.ArgumentParser(
        prog='gpupool snapshot',
        description='Convert the last allocations and frees of a process, '
                    'living or dead, to a PyTorch memory snapshot. '
                    'pytorch.org/memory_viz opens it.')
    parser.add_argument('what', metavar='PID|FILE',
                        help='a process, or its file in the runtime '
                             'directory')
    parser.add_argument('-o', '--output', metavar='FILE',
                        help='where to; - is stdout '
                             '(gpupool-PROGRAM-PID.snapshot.pickle)')
    parser.add_argument('--json', action='store_true',
                        help='JSON instead of a pickle')
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
    try:
        ring = gpupool_ring.read(find(options.what),
                                 any_owner=not options.what.isdigit())
    except FileProblem as problem:
        raise Problem(str(problem))
    for note in ring.notes:
        print('gpupool: ' + note, file=sys.stderr)
    name = ''.join(c if c.isalnum() or c in '._-+' else '_'
                   for c in os.path.basename(ring.file.exe))
    output = options.output or 'gpupool-%s-%d.snapshot.%s' % (
        name, ring.file.pid, 'json' if options.json else 'pickle')
    write(convert(ring), options.json, output)
    if output != '-':
        print('gpupool: %s (%d events); open it at pytorch.org/memory_viz'
              % (output, len(ring.events)), file=sys.stderr)
    return 0
