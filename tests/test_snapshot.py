"""Snapshots: complete wherever a report tells what lay where, and such that
PyTorch's viewer can play them backwards, whatever was lost of the events."""
import bisect
import json
import os
import pickle
import random
import shutil
import unittest

import harness  # noqa: F401  (puts scripts/ on the path)
from report_verb import MIB, ReportVerb
import gpupool_layout
import gpupool_map
import gpupool_sites
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

    def test_living_guarded(self):
        """Events and layout tell of the same block, red zones and all."""
        self.check_living('guard_bytes:512')

    def test_living_guarded_segments(self):
        self.check_living('guard_bytes:512,expandable_segments:False')

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


TRAIN = """import ctypes
runtime = ctypes.CDLL("libcudart.so.13")

def tensor(size):
    p = ctypes.c_void_p()
    if runtime.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)):
        raise MemoryError
    return p

def load():
    return [tensor(5000),
            tensor(7 << 20)]

def step():
    return tensor(3 << 20)

held = load() + [step()]
gone = tensor(9 << 20)
runtime.cudaFree(gone)
held.append(tensor(9 << 20))
print("ready", flush=True)
input()
try:
    tensor(1 << 50)
except MemoryError:
    print("refused", flush=True)
input()
"""
# What TRAIN holds: bytes asked for -> lines and functions.
HELD = {
    5000: [(6, 'tensor'), (11, 'load'), (17, '<module>')],
    7 * MIB: [(6, 'tensor'), (12, 'load'), (17, '<module>')],
    3 * MIB: [(6, 'tensor'), (15, 'step'), (17, '<module>')],
    9 * MIB: [(6, 'tensor'), (20, '<module>')],
}


class Frames(Run):
    """Blocks say who allocated them, where their call stacks were kept."""

    def train(self, conf):
        path = os.path.join(self.dir, 'train.py')
        with open(path, 'w') as file:
            file.write(TRAIN)
        proc = self.start([shutil.which('python3'), path], conf)
        self.assertEqual(self.read(proc), 'ready')
        return proc

    def read(self, proc):
        return proc.stdout.readline().decode().strip()

    def go_on(self, proc):
        proc.stdin.write(b'\n')
        proc.stdin.flush()

    def frames(self, snapshot):
        """{bytes asked for: lines and functions of the interpreter}"""
        found = {}
        for segment in snapshot['segments']:
            for block in segment['blocks']:
                if block['state'] == 'inactive':
                    self.assertEqual(block['frames'], [])
                else:
                    found[block['requested_size']] = self.lines(block)
        return found

    def lines(self, entry):
        return [(frame['line'], frame['name']) for frame in entry['frames']
                if os.path.basename(frame['filename']) == 'train.py']

    def allocs(self, snapshot):
        """The same of the trace, whose alloc of 9 MiB comes twice."""
        return [(entry['size'], self.lines(entry))
                for entry in snapshot['device_traces'][0]
                if entry['action'] == 'alloc']

    def check(self, snapshot):
        self.assertEqual(self.frames(snapshot), HELD)
        self.assertEqual(self.allocs(snapshot), [
            (size, HELD[size]) for size in (5000, 7 * MIB, 3 * MIB)] + [
                (9 * MIB, []), (9 * MIB, HELD[9 * MIB])])

    def check_run(self, conf):
        proc = self.train(conf)
        result = self.gpupool('ctl', str(proc.pid), 'snapshot', '-o',
                              'ctl.pickle')
        self.assert_ok(result)
        with open(os.path.join(self.dir, 'ctl.pickle'), 'rb') as file:
            self.check(pickle.load(file))
        self.go_on(proc)
        self.assertEqual(self.read(proc), 'refused')
        self.go_on(proc)
        self.assertEqual(self.finish(proc)[0], 0)
        name, = [n for n in os.listdir(self.dir) if n.endswith('.exit.json')]
        snapshot, _ = self.snapshot(name)
        self.check(snapshot)
        # What is told once in the report is one in the snapshot, too.
        nine, = [block['frames'] for segment in snapshot['segments']
                 for block in segment['blocks']
                 if block['requested_size'] == 9 * MIB]
        self.assertTrue(any(entry['frames'] is nine
                            for entry in snapshot['device_traces'][0]))
        snapshot, _ = self.snapshot(name.replace('.exit.', '.oom-1.'))
        self.check(snapshot)
        self.assertEqual(self.lines(snapshot['device_traces'][0][-1])[0],
                         (6, 'tensor'))
        result = self.gpupool('snapshot', name, '--json', '-o', '-')
        self.assert_ok(result)
        self.check(json.loads(result.out.decode()))

    def test_all(self):
        self.check_run('stacks:all')

    def test_segments(self):
        self.check_run('stacks:all,expandable_segments:False')

    def test_samples(self):
        proc = self.train('stacks:sample,sample_bytes:64KiB')
        found = self.frames(self.snapshot(str(proc.pid))[0])
        del found[5000]  # one in twelve has a stack
        self.assertEqual(found, {size: lines for size, lines in HELD.items()
                                 if size > 5000})

    def test_off(self):
        """Nothing is told, and the report has no room taken for it."""
        for conf in 'stacks:off', '':
            proc = self.train(conf)
            snapshot, _ = self.snapshot(str(proc.pid))
            self.assertEqual(self.frames(snapshot),
                             {size: [] for size in HELD})
            self.assertFalse(any(
                entry['frames'] for entry in snapshot['device_traces'][0]))
            name, = [n for n in os.listdir(self.dir)
                     if n.endswith('-%d.usr1-1.json' % proc.pid)]
            with open(os.path.join(self.dir, name)) as file:
                report = json.load(file)
            self.assertNotIn('block_sites', report)
            self.assertNotIn('site', report['pools'][0]['layout']['blocks'])

    def test_killed(self):
        """Its events are left, and have no stacks."""
        proc = self.train('stacks:all')
        self.kill(proc)
        self.assertEqual(self.frames(self.snapshot(str(proc.pid))[0]),
                         {size: [] for size in HELD})

    def test_functions_of_the_machine(self):
        result = self.run_program(['rt_stacks', 'leak'],
                                  conf='quiet:True,stacks:all')
        self.assert_ok(result)
        name, = [n for n in os.listdir(self.dir) if n.endswith('.exit.json')]
        snapshot, _ = self.snapshot(name)
        live = [[frame['name'].split('.')[0] for frame in block['frames']
                 if 'rt_stacks' in frame['filename']]
                for segment in snapshot['segments']
                for block in segment['blocks']
                if block['state'] == 'active_allocated']
        self.assertEqual(len(live), 40)
        for names in live:
            self.assertEqual(names[:3], ['leak_here', 'leak', 'main'])


class MadeUp:
    """As much of a gpupool_story.Story as tells of sites."""

    def __init__(self, rows, events=()):
        columns = [list(column) for column in zip(*rows)]
        self.report = {'pools': [{'device': 0, 'layout': {
            'unix_ns': 5 * SECOND, 'blocks': dict(zip(
                ('address', 'bytes', 'requested', 'blocks', 'site'),
                columns))}}]}
        self.made = events

    def events(self, device):
        return self.made


class SiteOfBlock(unittest.TestCase):

    def site(self, address, size, requested, rows, events=(), device=0):
        sites = gpupool_sites.Sites(MadeUp(rows, events), device)
        return sites.of(gpupool_layout.Range(address, size, requested, 1))

    def test_which_block(self):
        rows = [(BASE, 512, 500, 1, 3), (BASE + 512, 1024, 700, 1, 4),
                (BASE + 4096, 512, 500, 1, 0)]
        self.assertEqual(self.site(BASE, 512, 500, rows), 3)
        self.assertEqual(self.site(BASE + 512, 1024, 700, rows), 4)
        for address, size, requested in (
                (BASE, 1024, 500), (BASE, 512, 501), (BASE - 512, 512, 500),
                (BASE + 768, 1024, 700), (BASE + 1536, 1024, 700),
                (BASE + 4096, 512, 500)):
            self.assertEqual(self.site(address, size, requested, rows),
                             gpupool_sites.NOT_KNOWN)
        self.assertEqual(self.site(BASE, 512, 500, rows, device=1),
                         gpupool_sites.NOT_KNOWN)

    def test_neighbours(self):
        rows = [(BASE, 5120, 5000, 10, 3)]
        self.assertEqual(self.site(BASE + 512, 1024, 1000, rows), 3)
        self.assertEqual(self.site(BASE + 4608, 512, 500, rows), 3)
        self.assertEqual(self.site(BASE + 4608, 1024, 500, rows),
                         gpupool_sites.NOT_KNOWN)

    def test_another_one_by_now(self):
        """It was freed after the report looked: who has it now is not told
        of, though it is as large."""
        rows = [(BASE, 512, 500, 1, 3)]
        for at, site in ((4 * SECOND, 3),
                         (6 * SECOND, gpupool_sites.NOT_KNOWN)):
            events = [Event(at, 'free', 0, 1, BASE, 500, 512, 0, 0),
                      Event(at + 1, 'alloc', 0, 1, BASE, 500, 512, 0, 0)]
            self.assertEqual(self.site(BASE, 512, 500, rows, events), site)


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
