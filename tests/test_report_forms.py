"""gpupool report for other programs: CSV, a trace, an event file."""
import csv
import io
import json
import os
import struct
import unittest

from report_verb import ReportVerb, golden
from verbs import MIB


class Csv(ReportVerb):

    def test_events(self):
        pid, path = self.leftover()
        rows = list(csv.DictReader(io.StringIO(self.report(path, '--csv'))))
        took = [row for row in rows if row['event'] in ('alloc', 'free')]
        self.assertEqual([row['event'] for row in took],
                         ['alloc', 'alloc', 'alloc', 'free', 'alloc'])
        self.assertEqual([int(row['allocated_bytes']) for row in took],
                         [10 * MIB, 10 * MIB + 5120, 50 * MIB + 5120,
                          40 * MIB + 5120, 40 * MIB + 6144])
        times = [int(row['elapsed_ns']) for row in rows]
        self.assertEqual(times, sorted(times))

    def test_a_curve(self):
        rows = list(csv.DictReader(io.StringIO(
            self.report(golden('exit'), '--csv'))))
        with open(golden('exit')) as file:
            curve = json.load(file)['pools'][0]['timeline']
        self.assertEqual([int(row['allocated_bytes']) for row in rows],
                         curve['allocated_bytes'])
        self.assertEqual({row['event'] for row in rows}, {'sample'})


class Perfetto(ReportVerb):

    def test_trace(self):
        pid, path = self.leftover()
        trace = json.loads(self.report(path, '--perfetto'))
        events = trace['traceEvents']
        for event in events:
            self.assertIn(event['ph'], 'MCi')
            self.assertEqual(event['pid'], pid)
            self.assertIsInstance(event['name'], str)
            if event['ph'] != 'M':
                self.assertGreaterEqual(event['ts'], 0)
        counts = [event['args']['allocated'] for event in events
                  if event['ph'] == 'C']
        self.assertEqual(max(counts), 50 * MIB + 5120)
        self.assertEqual(counts[-1], 40 * MIB + 6144)
        self.assertEqual([event['cat'] for event in events
                          if event['ph'] == 'i' and event['cat'] in
                          ('alloc', 'free')],
                         ['alloc', 'alloc', 'alloc', 'free', 'alloc'])

    def test_limit_and_two_pools(self):
        events = json.loads(self.report(golden('signal-2-pools'),
                                        '--perfetto'))['traceEvents']
        names = {event['name'] for event in events if event['ph'] == 'C'}
        self.assertGreaterEqual(len([n for n in names if 'memory' in n]), 2,
                                names)
        events = json.loads(self.report(golden('oom'),
                                        '--perfetto'))['traceEvents']
        self.assertIn(40 << 30, [event['args'].get('limit')
                                 for event in events if event['ph'] == 'C'])


# ---- TensorBoard: a reader of its own, by the published formats --------------

def crc32c(data):
    """Bit by bit, not as the writer does it."""
    crc = 0xffffffff
    for byte in data:
        for bit in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if (crc ^ byte >> bit) & 1 else 0)
    return crc ^ 0xffffffff


def unmasked(value):
    value = (value - 0xa282ead8) & 0xffffffff
    return (value >> 17 | value << 15) & 0xffffffff


def records(data):
    at = 0
    while at < len(data):
        length, = struct.unpack_from('<Q', data, at)
        check, = struct.unpack_from('<I', data, at + 8)
        body = data[at + 12:at + 12 + length]
        assert unmasked(check) == crc32c(data[at:at + 8])
        check, = struct.unpack_from('<I', data, at + 12 + length)
        assert unmasked(check) == crc32c(body)
        yield body
        at += 16 + length


def fields(data):
    """[(number, value)] of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7f) << shift
            shift += 7
            if not byte & 0x80:
                return value
    while at < len(data):
        key = varint()
        if key & 7 == 0:
            yield key >> 3, varint()
        elif key & 7 == 1:
            yield key >> 3, struct.unpack_from('<d', data, at)[0]
            at += 8
        elif key & 7 == 2:
            length = varint()
            yield key >> 3, data[at:at + length]
            at += length
        else:
            assert key & 7 == 5
            yield key >> 3, struct.unpack_from('<f', data, at)[0]
            at += 4


class TensorBoard(ReportVerb):

    def read(self, *args):
        place = os.path.join(self.dir, 'runs', '7')
        self.report(*args, '--tensorboard', '-o', place + '/')
        name, = os.listdir(place)
        self.assertIn('tfevents', name)
        with open(os.path.join(place, name), 'rb') as file:
            events = [dict(fields(body)) for body in records(file.read())]
        self.assertEqual(events[0][3], b'brain.Event:2')
        found = {}
        for event in events[1:]:
            for number, value in fields(event[5]):
                self.assertEqual(number, 1)
                value = dict(fields(value))
                found.setdefault(value[1].decode(), []).append(
                    (event[1], event[2], value[2]))
        return found

    def test_the_check_of_the_checksum(self):
        self.assertEqual(crc32c(b'123456789'), 0xe3069283)

    def test_a_curve(self):
        found = self.read(golden('oom'))
        self.assertEqual(sorted(found), [
            'device 0/allocated GiB', 'device 0/limit GiB',
            'device 0/reserved GiB'])
        with open(golden('oom')) as file:
            report = json.load(file)
        curve = report['pools'][0]['timeline']
        points = found['device 0/allocated GiB']
        self.assertEqual(len(points), len(curve['elapsed_ns']))
        for point, ns, level in zip(points, curve['elapsed_ns'],
                                    curve['allocated_bytes']):
            self.assertAlmostEqual(point[0], (report['start_unix_ns'] + ns)
                                   / 1e9, 5)
            self.assertEqual(point[1], ns // 1000)
            self.assertAlmostEqual(point[2], level / (1 << 30), 5)
        self.assertEqual(found['device 0/limit GiB'][0][2], 40)

    def test_events(self):
        _, path = self.leftover()
        points = self.read(path)['device 0/allocated GiB']
        self.assertAlmostEqual(points[-1][2],
                               (40 * MIB + 6144) / (1 << 30), 7)

    def test_names_it_would_not_find(self):
        self.assertIn('tfevents', self.refused(
            golden('exit'), '--tensorboard', '-o', 'x.bin', status=2))


if __name__ == '__main__':
    unittest.main()
