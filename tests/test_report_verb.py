"""gpupool report: from files, from processes that live or were killed, and of a
whole job."""
import csv
import glob
import io
import json
import os
import shutil
import struct
import sys
import unittest

import harness
from files import wait_for
from report_verb import GOLDEN, ReportVerb, golden
from test_report_figures import check_figures
from verbs import MIB

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_schema  # noqa: E402  (found through the line above)


class Files(ReportVerb):

    def test_a_report_is_what_the_library_wrote(self):
        for name in 'exit', 'oom', 'signal-2-pools':
            with open(golden(name)) as file:
                whole = file.read()
            with open(golden(name)[:-4] + 'txt') as file:
                page = file.read()
            self.assertEqual(self.report(golden(name)), page)
            self.assertEqual(self.report(golden(name)[:-4] + 'txt'), page)
            self.assertEqual(json.loads(self.report(golden(name), '--json')),
                             json.loads(whole))

    def test_the_json_alone_is_enough(self):
        for name in 'exit', 'oom', 'signal-2-pools':
            path = os.path.join(self.dir, 'alone.json')
            shutil.copy(golden(name), path)
            self.check_page(self.report(path), path)
        with open(path) as file:
            self.assertIn('python3.12', file.read())

    def check_page(self, page, path):
        """80 columns, and every figure in the JSON."""
        for line in page.splitlines():
            self.assertLess(len(line), 80, line)
        check_figures(self, page, path, 12)

    def test_every_figure_of_a_record_is_in_its_json(self):
        _, path = self.leftover()
        data = os.path.join(self.dir, 'record.json')
        with open(data, 'w') as file:
            file.write(self.report(path, '--json'))
        self.check_page(self.report(path), data)

    def test_output(self):
        path = os.path.join(self.dir, 'out.txt')
        self.assertEqual(self.report(golden('exit'), '-o', path), '')
        with open(path) as file:
            self.assertEqual(file.read(), self.report(golden('exit')))
        self.assertIn('cannot write /nonexistent/x', self.refused(
            golden('exit'), '-o', '/nonexistent/x'))
        self.assertEqual([n for n in os.listdir(self.dir) if '.new' in n], [])

    def test_the_newest_here(self):
        shutil.copy(golden('oom'), os.path.join(
            self.dir, 'gpupool-a-1.exit.json'))
        shutil.copy(golden('exit'), os.path.join(
            self.dir, 'gpupool-a-2.exit.json'))
        os.utime(os.path.join(self.dir, 'gpupool-a-1.exit.json'), (5e9, 5e9))
        result = self.gpupool('report')
        self.assert_ok(result)
        self.assertIn(b'gpupool-a-1.exit.json', result.err)
        self.assertIn(b'cuMemAlloc_v2 asked for', result.out)
        # Why it had no memory is in another one.
        self.assertNotIn(b'refused', result.err)
        for number in 9, 10:
            shutil.copy(golden('oom'), os.path.join(
                self.dir, 'gpupool-a-1.oom-%d.json' % number))
        result = self.gpupool('report')
        self.assertIn(b'why: gpupool report gpupool-a-1.oom-10.json',
                      b' '.join(result.err.split()))


class Processes(ReportVerb):

    def test_a_killed_one(self):
        pid, path = self.leftover()
        page = self.report(pid)
        self.assertIn('killed, or crashed', page)
        self.assertIn('(pid %d)' % pid, page)
        report = json.loads(self.report(pid, '--json'))
        gpupool_schema.load().check(report)
        self.assertEqual(report['state'], 'killed')
        pool, = report['pools']
        allocated = 40 * MIB + 5120 + 1024
        self.assertEqual(pool['allocated_bytes.all.current'], allocated)
        self.assertEqual(pool['allocated_bytes.all.peak'],
                         50 * MIB + 5120)
        self.assertEqual(pool['timeline']['allocated_bytes'][-1], allocated)
        self.assertEqual(sum(row['bytes'] for row in pool['live_by_size']),
                         allocated)
        self.assertEqual(self.report(path), page)

    def test_what_the_ledger_does_not_tell_yet(self):
        """It is as old as a second; the events are not."""
        proc = self.holder()
        for _ in range(20):
            self.step(proc, 'alloc=%d' % MIB)
        self.kill(proc)
        pool, = json.loads(self.report(proc.pid, '--json'))['pools']
        self.assertEqual(pool['allocated_bytes.all.current'], 120 * MIB)
        self.assertEqual(pool['requested_bytes.all.current'], 120 * MIB)
        self.assertEqual(pool['allocation.all.current'], 21)
        for name, base in (('allocation.all', 22),
                           ('allocated_bytes.all', 170 * MIB)):
            self.assertEqual(pool[name + '.allocated'], base)
        self.assertEqual(pool['num_alloc_calls'], 22)
        self.assertLessEqual(pool['largest_free_bytes'], pool['cached_bytes'])

    def test_one_that_ended(self):
        proc = self.script()
        self.step(proc, 'alloc=5000')
        self.finish(proc)
        self.assertIn('It ended by itself',
                      ' '.join(self.report(proc.pid).split()))

    def test_a_living_one_is_asked(self):
        proc = self.holder()
        page = self.report(proc.pid)
        self.assertIn('100.00 MiB', page)
        names = [n for n in os.listdir(self.dir) if 'usr1-1' in n]
        self.assertEqual(len(names), 2)
        report = json.loads(self.report(proc.pid, '--json'))
        self.assertEqual(report['allocated_bytes'], 100 * MIB)
        self.assertEqual(self.finish(proc)[0], 0)

    def test_a_living_one_that_writes_only_text(self):
        proc = self.holder(conf='report_format:text')
        self.assertIn('100.00 MiB', self.report(proc.pid))
        self.assertEqual(json.loads(self.report(proc.pid, '--json'))
                         ['allocated_bytes'], 100 * MIB)
        page, = glob.glob(os.path.join(self.dir, '*usr1-1.txt'))
        self.assertIn('report_format', self.refused(page))
        self.finish(proc)

    def test_its_events_are_added_where_they_lie(self):
        proc = self.script()
        self.step(proc, 'alloc=5000')
        self.step(proc, 'alloc=%d' % (3 * MIB))
        self.finish(proc)
        path, = glob.glob(os.path.join(self.dir, '*.exit.json'))
        self.assertIn(',alloc,', self.report(path, '--csv'))
        ring, = self.paths()
        away = os.path.join(self.dir, 'away.gpupool')
        os.rename(ring, away)
        self.assertNotIn(',alloc,', self.report(path, '--csv'))
        self.assertIn(',alloc,', self.report(path, '--csv', '--ring', away))
        other = os.path.join(self.dir, 'other.json')
        shutil.copy(golden('exit'), other)
        self.assertIn('is of process', self.refused(
            other, '--csv', '--ring', away, status=2))

    def test_events_after_the_report_do_not_count(self):
        proc = self.script()
        self.step(proc, 'alloc=5000')
        self.step(proc, 'raise=USR1')
        wait_for(lambda: glob.glob(os.path.join(self.dir, '*usr1-1.json')))
        self.step(proc, 'alloc=7000')
        self.finish(proc)
        path, = glob.glob(os.path.join(self.dir, '*usr1-1.json'))
        rows = list(csv.DictReader(io.StringIO(self.report(path, '--csv'))))
        self.assertEqual([row['requested_bytes'] for row in rows
                          if row['event'] == 'alloc'], ['5000'])


class Wrong(ReportVerb):

    def write(self, data, name='x.json'):
        path = os.path.join(self.dir, name)
        with open(path, 'wb') as file:
            file.write(data if isinstance(data, bytes) else data.encode())
        return path

    def test_no_such_thing(self):
        self.assertIn('no process 4000000', self.refused(4000000))
        self.assertIn('uses no GPU', self.refused(os.getpid()))
        self.assertIn('there is no nowhere.json',
                      self.refused('nowhere.json'))
        self.assertIn('no report', self.refused(status=2))

    def test_no_report(self):
        with open(golden('exit'), 'rb') as file:
            whole = file.read()
        for cut in 1, 100, len(whole) // 2, len(whole) - 3:
            self.assertIn('cut short', self.refused(self.write(whole[:cut])))
        for data, words in (
                (b'', 'it is empty'), (b'hello', 'it is no report'),
                (b'\xff\xfe{}', 'it is no report'),
                ('[' * 100000, 'it is no report'),
                (b'{"a": 1}', 'no report of gpupool'), (b'[]', 'no report'),
                (whole.replace(b'"schema": 1', b'"schema": 7', 1),
                 'of version 7'),
                (whole.replace(b'"pid": 4242', b'"pid": "x"', 1),
                 'pid must be a whole number')):
            path = self.write(data)
            text = self.refused(path)
            self.assertIn(words, text)
            self.assertIn(path, text)

    def test_curves_of_different_lengths(self):
        with open(golden('exit')) as file:
            report = json.load(file)
        report['pools'][0]['timeline']['allocated_bytes'].pop()
        path = self.write(json.dumps(report))
        self.assertIn('different lengths', self.refused(path))

    def test_a_damaged_file_of_events(self):
        _, ring = self.leftover()
        with open(ring, 'rb') as file:
            data = file.read()
        self.assertIn('damaged', self.refused(self.write(
            data[:40] + b'X' + data[41:], 'x.gpupool')))
        self.assertIn('version 9', self.refused(self.write(
            data[:8] + struct.pack('=I', 9) + data[12:], 'x.gpupool')))
        # Cut short: what is there is used.
        page = self.report(self.write(data[:len(data) // 2], 'x.gpupool'))
        self.assertIn('cut short', page)

    def test_directories(self):
        empty = os.path.join(self.dir, 'empty')
        os.mkdir(empty)
        self.assertIn('no reports of gpupool', self.refused(empty))
        self.write(b'{}', 'empty/x.json')
        self.assertIn('no report of gpupool among 1 file',
                      self.refused(empty))
        self.assertIn('is of one process', self.refused(
            GOLDEN, '--perfetto', status=2))

    def test_names_do_not_reach_the_terminal(self):
        with open(golden('exit')) as file:
            report = json.load(file)
        report['name'] = 'a\x1b[31mb\nc'
        report['pools'][0]['device_name'] = '\x1b]0;x\x07'
        page = self.report(self.write(json.dumps(report)))
        self.assertNotIn('\x1b', page)
        self.assertNotIn('\x07', page)
        self.assertNotIn('\x1b', self.report(self.dir))


class Jobs(ReportVerb):

    def job(self, number):
        """Reports of so many ranks; rank 3 holds most, rank 5 has most unused,
        rank 2 dies first, for lack of memory."""
        with open(golden('exit')) as file:
            base = json.load(file)
        with open(golden('oom')) as file:
            oom = json.load(file)
        place = os.path.join(self.dir, 'job')
        os.makedirs(place)
        for rank in range(number):
            report = dict(oom if rank == 2 else base)
            report['pid'] = 1000 + rank
            report['peak_allocated_bytes'] = (10 + (rank == 3)) << 30
            report['peak_reserved_bytes'] = (12 + 4 * (rank == 5)) << 30
            report['start_unix_ns'] += rank
            report['now_unix_ns'] = (report['start_unix_ns'] + 10 ** 12
                                     + rank * 10 ** 9 - (rank == 2) * 10 ** 11)
            name = 'gpupool-train-rank%d.%s.json' % (
                rank, 'oom-1' if rank == 2 else 'exit')
            with open(os.path.join(place, name), 'w') as file:
                json.dump(report, file)
        return place

    def test_who_stands_out(self):
        place = self.job(8)
        text = self.report(place)
        flat = ' '.join(text.split())
        self.assertIn('Rank 3 held the most: 11.00 GiB', flat)
        self.assertIn('Rank 5 had the most reserved beyond that: 16.00 GiB',
                      flat)
        self.assertIn('Rank 2 was the first to run out of memory', flat)
        self.assertIn('Rank 2 died first, after 15 min 02 s', flat)
        for line in text.splitlines():
            self.assertLess(len(line), 80)
        data = json.loads(self.report(place, '--json'))
        self.assertEqual([row['rank'] for row in data['processes']],
                         list(range(8)))
        self.assertEqual((data['most_allocated_pid'], data['most_unused_pid'],
                          data['first_ended_pid'], data['first_oom_pid']),
                         (1003, 1005, 1002, 1002))

    def test_as_a_page(self):
        page = self.report(self.job(8), '--html')
        self.assertIn('Rank 3 held the most', page)

    def test_hundreds(self):
        place = self.job(300)
        text = self.report(place)
        self.assertIn('300 processes', text)
        for rank in 2, 3, 5:  # are spoken of, so they are shown
            self.assertRegex(text, r'(?m)^rank %d ' % rank)
        self.assertLess(text.count('\n'), 50)
        self.assertGreater(self.report(place, '--all').count('\n'), 300)
        self.assertEqual(len(json.loads(self.report(place, '--json'))
                             ['processes']), 300)

    def test_several_reports_of_one_process(self):
        proc = self.script()
        self.step(proc, 'alloc=%d' % (5 * MIB))
        self.step(proc, 'raise=USR1')
        self.step(proc, 'oom=1000000000000')
        self.finish(proc)
        data = json.loads(self.report(self.dir, '--json'))
        row, = data['processes']
        self.assertEqual((row['reports'], row['ended'], row['num_ooms']),
                         (3, 'exit', 1))
        self.assertEqual(row['oom_bytes'], 1000000000000)

    def test_ranks_and_hosts(self):
        """The launcher's environment says who is who; on another host a process
        may have the same number."""
        for rank in '0', '3', 'x', '':
            env = self.build.env(
                conf='quiet:True,report_dir:' + self.dir, RANK=rank,
                XDG_RUNTIME_DIR=self.xdg)
            self.assert_ok(harness.run(
                [self.build.program('drv_script'), 'alloc=5000'], env))
        rows = json.loads(self.report(self.dir, '--json'))['processes']
        self.assertEqual([row['rank'] for row in rows], [0, 3, None, None])
        self.assertEqual({row['node'] for row in rows},
                         {os.uname().nodename})
        path = rows[1]['file']
        with open(path) as file:
            report = json.load(file)
        report['node'] = 'elsewhere'
        with open(path.replace('.exit', '-2.exit'), 'w') as file:
            json.dump(report, file)
        rows = json.loads(self.report(self.dir, '--json'))['processes']
        self.assertEqual([row['rank'] for row in rows], [0, 3, 3, None, None])

    def test_one_that_was_killed(self):
        """Its last report does not say so; what it left does."""
        proc = self.script()
        self.step(proc, 'alloc=%d' % (5 * MIB))
        self.step(proc, 'raise=USR1')
        wait_for(lambda: glob.glob(os.path.join(self.dir, '*usr1-1.json')))
        self.step(proc, 'alloc=%d' % (9 * MIB))
        self.kill(proc)
        row, = json.loads(self.report(self.dir, '--json'))['processes']
        self.assertEqual(row['ended'], 'killed')
        self.assertEqual(row['peak_allocated_bytes'], 14 * MIB)

    def test_files_that_are_no_reports_are_named(self):
        place = self.job(3)
        with open(os.path.join(place, 'a.json'), 'w') as file:
            file.write('{"loss": 1}')
        text = self.report(place)
        self.assertIn('Not used: 1 file. The first:', text)
        self.assertIn('a.json', text)


if __name__ == '__main__':
    unittest.main()
