"""Snapshots: complete wherever a report tells what lay where, and such that
PyTorch's viewer can play them backwards, whatever was lost of the events."""
import bisect
import json
import os
import pickle
import random
import unittest

import harness  # noqa: F401  (puts scripts/ on the path)
from report_verb import MIB, ReportVerb
import gpupool_layout
import gpupool_map
import gpupool_snapshot
from gpupool_ring import Event

SECOND = 10 ** 9
BASE = 0x400000000000


def play_back(test, snapshot, device=0):
    """What the viewer does when one looks at earlier moments: every event taken
    back, the last first. It stops at one that does not fit."""
    segments = sorted([s['address'], s['total_size']]
                      for s in snapshot['segments'] if s['device'] == device)
    live = {b['address']: b['size'] for s in snapshot['segments']
            for b in s['blocks']
            if s['device'] == device and b['state'] == 'active_allocated'}
    order = sorted(live)

    def around(address, size):
        at = bisect.bisect_right(segments, [address, 1 << 62]) - 1
        test.assertGreaterEqual(at, 0)
        test.assertLessEqual(address + size, sum(segments[at]))
        return at

    def put(address, size):
        around(address, size)
        at = bisect.bisect_left(order, address)
        if at:
            test.assertLessEqual(order[at - 1] + live[order[at - 1]], address)
        test.assertNotEqual(order[at:at + 1], [address])
        order.insert(at, address)
        live[address] = size

    for address in order:
        around(address, live[address])
    for event in reversed(snapshot['device_traces'][device]):
        address, size = event.get('addr'), event['size']
        if event['action'] == 'free_completed':
            put(address, size)
        elif event['action'] == 'alloc':
            del live[address]
            order.remove(address)
        elif event['action'] == 'segment_unmap':
            segments.append([address, size])
            segments.sort()
            joined = segments[:1]
            for start, more in segments[1:]:
                if sum(joined[-1]) == start:
                    joined[-1][1] += more
                else:
                    joined.append([start, more])
            segments[:] = joined
        elif event['action'] == 'segment_free':
            bisect.insort(segments, [address, size])
        elif event['action'] in ('segment_map', 'segment_alloc'):
            start, more = segments.pop(around(address, size))
            for part in ([start, address - start],
                         [address + size, start + more - address - size]):
                if part[1]:
                    bisect.insort(segments, part)
            test.assertFalse([at for at in order
                              if address <= at < address + size])


def sums(snapshot):
    """(live bytes, live requested, memory)"""
    return tuple(sum(s[key] for s in snapshot['segments']) for key in
                 ('active_size', 'requested_size', 'total_size'))


class Run(ReportVerb):

    def snapshot(self, *args):
        result = self.gpupool('snapshot', *args, '-o', 'out.pickle')
        self.assert_ok(result)
        with open(os.path.join(self.dir, 'out.pickle'), 'rb') as file:
            snapshot = pickle.load(file)
        play_back(self, snapshot)
        return snapshot, result.err.decode()

    def old_blocks(self, conf):
        """A program with blocks from long before its oldest event."""
        proc = self.script('ring_size:64KiB,report_dir:%s,%s' % (
            self.dir, conf))
        for size in 700, 3 * MIB, 90000, 20 * MIB, 5000, 70 * MIB:
            self.step(proc, 'alloc=%d' % size)
        for number in range(6, 700):
            self.step(proc, 'alloc=%d' % (number * 7001))
            self.step(proc, 'free=%d' % number)
        self.step(proc, 'alloc=%d' % (9 * MIB))
        return proc

    def check_living(self, conf):
        proc = self.old_blocks(conf)
        snapshot, err = self.snapshot(str(proc.pid))
        name, = [n for n in os.listdir(self.dir) if n.endswith('usr1-1.json')]
        with open(os.path.join(self.dir, name)) as file:
            pool, = json.load(file)['pools']
        self.assertEqual(sums(snapshot), (
            pool['allocated_bytes.all.current'],
            pool['requested_bytes.all.current'],
            pool['reserved_bytes.all.current']))
        live = [b for s in snapshot['segments'] for b in s['blocks']
                if b['state'] == 'active_allocated']
        self.assertEqual(len(live), 7)
        self.assertTrue(snapshot['allocator_settings']
                        ['trace_alloc_overflowed'])
        self.assertNotIn('is not in it', err)
        # Of the same moment, from the report alone.
        self.assertEqual(sums(self.snapshot(name)[0]), sums(snapshot))
        self.kill(proc)
        # All that is left is the file with the last events.
        snapshot, err = self.snapshot(str(proc.pid))
        self.assertEqual(sums(snapshot)[1], 9 * MIB)
        self.assertIn('what was allocated before the first of the events, and '
                      'not freed since, is not in it', err)

    def test_living(self):
        self.check_living('')

    def test_living_segments(self):
        self.check_living('expandable_segments:False')

    def test_no_json(self):
        """The process is asked, and its answer says nothing of blocks."""
        proc = self.old_blocks('report_format:text')
        snapshot, err = self.snapshot(str(proc.pid))
        self.assertEqual(sums(snapshot)[1], 9 * MIB)
        self.assertIn('is not in it', err)

    def test_out_of_memory(self):
        proc = self.old_blocks('')
        self.step(proc, 'oom=%d' % (1 << 50))
        self.kill(proc)
        snapshot, _ = self.snapshot(
            'gpupool-drv_script-%d.oom-1.txt' % proc.pid)
        self.assertEqual(sums(snapshot)[1], 700 + 3 * MIB + 90000 + 20 * MIB
                         + 5000 + 70 * MIB + 9 * MIB)
        refused = snapshot['device_traces'][0][-1]
        self.assertEqual(refused['action'], 'oom')
        self.assertTrue(refused['frames'])
        self.assertIn('drv_script', refused['frames'][-1]['filename'])


class Lossy:
    """A process that is made up: its events, and what is true of it."""

    def __init__(self, seed, plain):
        self.random = random.Random(seed)
        self.plain = plain
        self.events, self.live, self.memory = [], {}, {}
        self.time = 10 * SECOND
        for _ in range(600):
            self.step()

    def add(self, kind, address, size, requested=0):
        self.time += self.random.randint(1, 10 ** 6)
        self.events.append(Event(self.time, kind, 0, 1, address, requested,
                                 size, 0, 0))

    def free_in(self, start, size):
        for address in sorted(self.live):
            if start <= address < start + size:
                self.add('free', address, *self.live.pop(address))

    def step(self):
        choose = self.random.random()
        if choose < 0.08 or not self.memory:
            start = BASE + self.random.randrange(24) * 8 * MIB
            if start not in self.memory:
                self.memory[start] = 8 * MIB
                self.add('segment_alloc' if self.plain else 'segment_map',
                         start, 8 * MIB)
        elif choose < 0.12:
            start = self.random.choice(sorted(self.memory))
            self.free_in(start, 8 * MIB)
            del self.memory[start]
            self.add('segment_free' if self.plain else 'segment_unmap', start,
                     8 * MIB)
        elif choose < 0.4 and self.live:
            address = self.random.choice(sorted(self.live))
            self.add('free', address, *self.live.pop(address))
        else:
            start = self.random.choice(sorted(self.memory))
            size = 512 << self.random.randrange(13)
            address = start + self.random.randrange(8 * MIB // size) * size
            if all(at + held <= address or address + size <= at
                   for at, (held, _) in self.live.items()):
                self.live[address] = (size, size - 7)
                self.add('alloc', address, size, size - 7)

    def lose(self):
        """As a ring does: mostly what is old, with holes in what is new."""
        first = self.random.randrange(len(self.events))
        hole = self.random.randrange(first, len(self.events))
        return (self.events[first:hole]
                + self.events[hole + self.random.randrange(60):])

    def layout(self):
        blocks = sorted((at,) + held for at, held in self.live.items())
        memory = sorted(self.memory.items())
        return gpupool_layout.Layout([{
            'unix_ns': self.time + SECOND, 'left_out': 0,
            'expandable': not self.plain,
            'segments': {'address': [at for at, _ in memory],
                         'bytes': [size for _, size in memory]},
            'blocks': {'address': [at for at, _, _ in blocks],
                       'bytes': [size for _, size, _ in blocks],
                       'requested': [asked for _, _, asked in blocks],
                       'blocks': [1] * len(blocks)}}])


class Lost(unittest.TestCase):

    def snapshot(self, events, layout):
        trace = gpupool_snapshot.Trace(gpupool_map.Map(events, layout))
        return {'segments': gpupool_snapshot.segments_of(0, trace),
                'device_traces': [trace.made]}

    def check(self, plain):
        for seed in range(150):
            with self.subTest(seed=seed):
                true = Lossy(seed, plain)
                snapshot = self.snapshot(true.lose(), true.layout())
                self.assertEqual(sums(snapshot), (
                    sum(size for size, _ in true.live.values()),
                    sum(asked for _, asked in true.live.values()),
                    sum(true.memory.values())))
                play_back(self, snapshot)
                # Without a report there is less, and it fits all the same.
                play_back(self, self.snapshot(true.lose(), None))

    def test_virtual(self):
        self.check(False)

    def test_segments(self):
        self.check(True)

    def test_nothing_lost(self):
        """Then nothing is made up, and nothing is left out."""
        for seed in range(20):
            true = Lossy(seed, False)
            memory = gpupool_map.Map(true.events, true.layout())
            self.assertEqual(memory.events, true.events)
            self.assertEqual(memory.before, [])
            trace, = self.snapshot(true.events, None)['device_traces']
            for kind, action in (('alloc', 'alloc'), ('free', 'free_completed'),
                                 ('segment_map', 'segment_map'),
                                 ('segment_unmap', 'segment_unmap')):
                self.assertEqual(
                    sum(e.kind == kind for e in true.events),
                    sum(e['action'] == action for e in trace))

    def test_joined(self):
        """Neighbours that the report tells as one: those that the events tell
        of are taken out."""
        layout = gpupool_layout.Layout([{
            'unix_ns': 5 * SECOND, 'left_out': 0, 'expandable': True,
            'segments': {'address': [BASE], 'bytes': [2 * MIB]},
            'blocks': {'address': [BASE], 'bytes': [5120],
                       'requested': [5000], 'blocks': [10]}}])
        event = Event(SECOND, 'alloc', 0, 1, BASE + 1024, 500, 512, 0, 0)
        memory = gpupool_map.Map([event], layout)
        self.assertEqual([(b.address - BASE, b.bytes) for b in memory.before],
                         [(0, 1024), (1536, 3584)])
        snapshot = self.snapshot([event], layout)
        self.assertEqual(sums(snapshot), (5120, 5000, 2 * MIB))
        play_back(self, snapshot)

    def test_later_events(self):
        """What happened after the report looked counts as the events say."""
        true = Lossy(3, False)
        layout = true.layout()
        address = sorted(true.live)[0]
        size, asked = true.live[address]
        at = layout.unix_ns + SECOND
        events = true.events + [
            Event(at, 'free', 0, 1, address, asked, size, 0, 0)]
        snapshot = self.snapshot(events, layout)
        self.assertEqual(sums(snapshot)[0], sum(
            held for held, _ in true.live.values()) - size)
        play_back(self, snapshot)


if __name__ == '__main__':
    unittest.main()
