"""gpupool diff: two reports, and two moments of one run."""
import copy
import json
import os
import time
import unittest

import harness
from test_report_figures import FIGURE, as_read, leaves
from verbs import MIB, VerbTest

GOLDEN = os.path.join(harness.ROOT, 'tests', 'golden')


def golden(name):
    return os.path.join(GOLDEN, 'report-%s.json' % name)


def site(name, bytes_, line):
    return {'bytes': bytes_, 'blocks': 1, 'share': 1.0, 'frames': [
        {'function': name, 'file': '/srv/train.py', 'line': line, 'offset': 0,
         'address': None},
        {'function': 'alloc', 'file': '/lib/libx.so', 'line': 0,
         'offset': 4660, 'address': '0x7f0000001234'}]}


class Diff(VerbTest):

    def diff(self, *args, status=0):
        result = self.gpupool('diff', *map(str, args))
        self.assert_ok(result, status)
        return (result.err if status else result.out).decode()

    def data(self, *args):
        return json.loads(self.diff(*args, '--json'))

    def write(self, report, name):
        path = os.path.join(self.dir, name)
        with open(path, 'w') as file:
            json.dump(report, file)
        return path

    def row(self, rows, name):
        row, = [row for row in rows if row['name'] == name]
        return row['before'], row['after'], row['change']

    def check_page(self, *args):
        page, data = self.diff(*args), self.data(*args)
        for line in page.splitlines():
            self.assertLess(len(line), 80, line)
        known = set()
        for value in leaves(data):
            if isinstance(value, str):
                known.update(FIGURE.findall(value))
            elif value is not None:
                for number in {value, abs(value)}:
                    known.update(as_read(number))
        for figure in FIGURE.findall(page):
            self.assertIn(figure, known, page)
        return page


class Reports(Diff):

    def pair(self):
        with open(golden('signal-2-pools')) as file:
            before = json.load(file)
        after = copy.deepcopy(before)
        pool = after['pools'][0]
        pool['allocated_bytes.all.current'] += 300 * MIB
        pool['allocated_bytes.large_pool.current'] += 299 * MIB
        pool['allocated_bytes.small_pool.current'] += MIB
        pool['num_ooms'] = pool.get('num_ooms', 0) + 4
        after['passthrough.async.bytes.current'] += 7 * MIB
        for report, held in (before, 100), (after, 380):
            report['call_sites_kept'] = True
            report['top_sites'] = [site('step', held * MIB, 12)]
        before['top_sites'].append(site('load', 9 * MIB, 3))
        after['top_sites'].append(site('eval', 5 * MIB, 40))
        # The same place of a library lies elsewhere in the next run.
        after['top_sites'][0]['frames'][1]['address'] = '0x7fff00001234'
        return (self.write(before, 'before.json'),
                self.write(after, 'after.json'))

    def test_what_grew(self):
        data = self.data(*self.pair())
        self.assertEqual(self.row(data['totals'], 'allocated')[2], 300 * MIB)
        self.assertEqual(self.row(data['totals'], 'reserved')[2], 0)
        self.assertEqual(self.row(data['sizes'], 'to 1 MiB')[2], MIB)
        self.assertEqual(self.row(data['sizes'], 'above 1 MiB')[2], 299 * MIB)
        self.assertEqual(self.row(data['outside'], 'async')[2], 7 * MIB)
        self.assertEqual(self.row(data['counters'], 'refused')[2], 4)
        self.assertEqual([(row['name'], row['change'] // MIB)
                          for row in data['sites']],
                         [('/srv/train.py:12 in step', 280),
                          ('/srv/train.py:3 in load', -9),
                          ('/srv/train.py:40 in eval', 5)])
        page = self.check_page(*self.pair())
        self.assertIn('300.00 MiB more allocated than before', page)
        self.assertIn('+280.00 MiB', page)

    def test_of_each_run_a_directory(self):
        places = [os.path.join(self.dir, name) for name in ('one', 'two')]
        for place, path in zip(places, self.pair()):
            os.mkdir(place)
            os.rename(path, os.path.join(place, 'gpupool-a-1.exit.json'))
        self.assertIn('300.00 MiB more allocated than before',
                      self.diff(*places))
        self.write({}, 'one/gpupool-a-2.exit.json')
        self.assertIn('one is a directory with reports of 2',
                      self.diff(*places, status=2))

    def test_no_difference(self):
        page = self.check_page(golden('exit'), golden('exit'))
        self.assertIn('Allocated memory is the same', page)
        self.assertIn('Each call site holds as much as before', page)
        page = self.check_page(golden('oom'), golden('oom'))
        self.assertIn('stacks:sample', page)

    def test_wrong_use(self):
        self.assertIn('two runs are needed',
                      self.diff(golden('exit'), status=2))
        self.assertIn('are for one run', self.diff(
            golden('exit'), golden('oom'), '--to', '3s', status=2))
        self.assertIn('is a directory', self.diff(GOLDEN, GOLDEN, status=2))
        self.assertIn('no events', self.diff(golden('exit'), '--to', '3s',
                                             status=125))


class Moments(Diff):

    def run_of_one(self, pause=0.4):
        proc = self.script()
        for step in ('alloc=%d' % (8 * MIB), 'alloc=5000', '',
                     'alloc=%d' % (30 * MIB), 'free=0', '', 'free=2'):
            if step:
                self.step(proc, step)
            else:
                time.sleep(pause)
        self.kill(proc)
        return proc.pid

    def test_moments(self):
        pid = self.run_of_one(pause=1.6)  # slow machines are late
        small = 5120
        data = self.data(pid, '--from', 'peak')
        self.assertEqual(self.row(data['totals'], 'allocated'),
                         (38 * MIB + small, small, -38 * MIB))
        self.assertEqual(self.row(data['sizes'], 'up to 8.00 MiB')[2],
                         -8 * MIB)
        self.assertEqual(self.row(data['sizes'], 'up to 32.00 MiB')[2],
                         -30 * MIB)
        data = self.data(pid, '--from', 'start', '--to', 'peak')
        self.assertEqual(self.row(data['totals'], 'allocated')[:2],
                         (0, 38 * MIB + small))
        data = self.data(pid, '--from=-2400ms', '--to=-800ms')
        self.assertEqual(self.row(data['totals'], 'allocated')[:2],
                         (8 * MIB + small, 30 * MIB + small))
        self.assertEqual(self.row(data['counters'], 'frees'), (0, 1, 1))
        self.check_page(pid, '--from', 'peak', '--to', 'end')

    def test_no_moment(self):
        pid = self.run_of_one()
        self.assertIn('no moment soon', self.diff(pid, '--to', 'soon',
                                                  status=2))
        self.assertIn('is after', self.diff(pid, '--from', 'end', '--to',
                                            'start', status=2))

    def test_two_processes(self):
        first, second = self.run_of_one(), self.run_of_one()
        data = self.data(first, second)
        self.assertEqual(self.row(data['totals'], 'peak allocated')[2], 0)


if __name__ == '__main__':
    unittest.main()
