"""Alternating measured runs (tests/gpu/turns.py), tried without a card: the
workers are real processes that train nothing."""

import argparse
import contextlib
import io
import json
import os
import shutil
import sys
import tempfile
import time
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.path.join(HERE, 'gpu')
sys.path.insert(0, GPU)
sys.path.insert(0, HERE)
import bench  # noqa: E402  (found through the line above)
import harness  # noqa: E402
import machine  # noqa: E402
import speed  # noqa: E402
import turns  # noqa: E402
import worker  # noqa: E402

# A worker like the real one, with a made-up step. It notes what it does in a
# log that all share, writes a report on SIGUSR1 as gpupool would, and goes
# wrong where it is told to.
FAKE = r'''
import json, os, signal, sys, time
sys.path.insert(0, %r)
import worker
here, label, wrong = sys.argv[1:4]
pid = os.getpid()
def note(what):
    with open(os.path.join(here, 'log'), 'a') as log:
        log.write('%%d %%s %%s %%.6f\n' %% (pid, label, what,
                                            time.monotonic()))
note('start')
counts = {'reports': 0, 'steps': 0}
def report(*unused):
    counts['reports'] += 1
    name = 'gpupool-python3-%%d.usr1-%%d.json' %% (pid, counts['reports'])
    pool = {'num_memory_waits': 2 * counts['steps'], 'num_marks': 5,
            'reserved_bytes.all.peak': 2 << 20,
            'allocated_bytes.all.peak': 1 << 20}
    where = os.environ['GPUPOOL_CONF'].split('report_dir:')[1]
    where = where.split(',')[0].strip('"')
    with open(os.path.join(where, name), 'w') as file:
        json.dump({'pid': pid, 'pools': [pool, pool]}, file)
if 'GPUPOOL_CONF' in os.environ and wrong != 'inert':
    signal.signal(signal.SIGUSR1, report)
if wrong == 'start':
    sys.exit('cannot start')
if wrong == 'never':
    time.sleep(1000)
def step(index):
    note('step')
    time.sleep(0.004 if label == 'gpupool' else 0.008)
    counts['steps'] += 1
    if wrong == 'crash' and index == 4:
        os.kill(pid, 11)
    if wrong == 'hang' and index == 4:
        time.sleep(1000)
    note('stepped')
    return 1.0 / (index + 1) + (0.1 if wrong == 'differ' else 0)
class Options:
    warm, settle, steps = 3, 1, 4
print('some library says hello')
worker.serve(worker.Run(step, Options), sys.stdin, worker.write_line,
             lambda: {'torch_reserved_peak': 1})
note('end')
if wrong == 'end':
    sys.exit(5)
''' % GPU


def own_children():
    """Processes that this one has started and that still run."""
    found = []
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            with open('/proc/%s/stat' % pid) as file:
                words = file.read().rpartition(')')[2].split()
        except OSError:
            continue
        if int(words[1]) == os.getpid() and words[0] != 'Z':
            found.append(int(pid))
    return found


class Scratch(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='gpupool turns ')
        self.addCleanup(shutil.rmtree, self.dir)
        self.script = os.path.join(self.dir, 'fake.py')
        with open(self.script, 'w') as file:
            file.write(FAKE)

    def tearDown(self):
        self.assertEqual(own_children(), [])

    def command(self, label, wrong='nothing'):
        return [sys.executable, self.script, self.dir, label, wrong]

    def plain(self, label, wrong='nothing', count=None):
        return turns.plain_variant(label, self.command(label, wrong),
                                   turns=count)

    def pooled(self, label, wrong='nothing'):
        return turns.preloaded_variant(
            label, self.command(label, wrong), '',
            os.path.join(self.dir, 'reports'))

    def series(self, *variants, **more):
        more.setdefault('timeout', 120)
        more.setdefault('jobs', 8)
        return turns.Turns(variants, more.pop('count', 3),
                           os.path.join(self.dir, 'out'),
                           log=lambda words: None, **more)

    def log(self):
        """(pid, label, what, when) in the order of time."""
        with open(os.path.join(self.dir, 'log')) as file:
            rows = [line.split() for line in file]
        return sorted(((int(pid), label, what, float(when))
                       for pid, label, what, when in rows),
                      key=lambda row: row[3])

    def spans(self):
        """(first, last, label) of each process's steps, by time."""
        found = {}
        for pid, label, what, when in self.log():
            if what in ('step', 'stepped'):
                found.setdefault(pid, [when, when, label])[1] = when
        return sorted(tuple(span) for span in found.values())


class Alternation(Scratch):
    def test_one_at_a_time_in_changing_order(self):
        series = self.series(self.plain('native'), self.pooled('gpupool'))
        self.assertEqual(series.run(), 3)
        self.assertEqual(series.failures, [])
        spans = self.spans()
        self.assertEqual([label for _, _, label in spans],
                         ['native', 'gpupool', 'gpupool', 'native',
                          'native', 'gpupool'])
        for (_, end, _), (start, _, _) in zip(spans, spans[1:]):
            self.assertLess(end, start)

    def test_all_are_ready_before_the_first_runs(self):
        self.series(self.plain('native'), self.plain('other')).run()
        whats = [what for _, _, what, _ in self.log()]
        self.assertEqual(whats[:7], ['start'] * 6 + ['step'])

    def test_a_turn_has_ended_before_the_next_runs(self):
        self.series(self.plain('native'), self.plain('other')).run()
        running = set()
        for pid, _, what, _ in self.log():
            if what == 'step':
                running.add(pid)
            elif what == 'end':
                running.discard(pid)
            self.assertLessEqual(len(running), 2)

    def test_no_more_than_fit_are_started(self):
        series = self.series(self.plain('native'), self.plain('other'),
                             full=lambda: True)
        self.assertEqual(series.run(), 3)
        waiting, most = set(), 0
        for pid, _, what, _ in self.log():
            if what == 'start':
                waiting.add(pid)
            elif what == 'end':
                waiting.discard(pid)
            most = max(most, len(waiting))
        self.assertEqual(most, 2)

    def test_no_more_than_asked_start_at_a_time(self):
        series = self.series(self.plain('native'), jobs=1)
        self.assertEqual(series.run(), 3)

    def test_a_variant_may_take_part_in_some_turns_only(self):
        series = self.series(self.plain('native'),
                             self.plain('slow', count=1))
        self.assertEqual(series.run(), 3)
        self.assertEqual(sorted(series.rows['slow']), [0])

    def test_stops_when_the_time_is_up(self):
        series = self.series(self.plain('native'), self.pooled('gpupool'),
                             count=4)
        ends = []

        def left():
            # Up as soon as one turn is made.
            if series.longest and not ends:
                ends.append(time.monotonic())
            return -1 if series.longest else 1000

        self.assertEqual(series.run(left), 1)
        self.assertEqual(series.failures, [])
        self.assertEqual(len(self.spans()), 2)


class Figures(Scratch):
    def test_what_a_run_says(self):
        series = self.series(self.plain('native'), self.pooled('gpupool'))
        series.run()
        row = series.rows['gpupool'][1]
        self.assertEqual(len(row['times_ms']), 4)
        self.assertEqual(row['losses'], [1.0 / n for n in range(1, 9)])
        self.assertEqual(row['warm']['steps'], 3)
        self.assertGreaterEqual(row['step_ms'], 4)
        self.assertAlmostEqual(row['total_ms'], sum(row['times_ms']))
        # Two pools, five steps after the first report, two waits a step.
        self.assertEqual(row['pool']['num_memory_waits'], 20)
        self.assertEqual(row['pool']['num_marks'], 0)
        self.assertEqual(row['reserved_peak'], 4 << 20)
        self.assertNotIn('pool', series.rows['native'][1])

    def test_ratios(self):
        rows = {'a': {n: {'step_ms': t} for n, t in enumerate((10, 20, 40))},
                'b': {0: {'step_ms': 5}, 2: {'step_ms': 60}}, 'c': {}}
        facts = turns.compare(rows, 'a', 'b')
        self.assertEqual(facts, {'base': 25, 'other': 32.5, 'ratio': 1.3,
                                 'ratios': [0.5, 1.5], 'turns': 2})
        self.assertIsNone(turns.compare(rows, 'a', 'c'))
        self.assertIsNone(turns.compare(rows, 'a', 'unknown'))

    def verdict(self, native, other):
        rows = {'native': dict(enumerate({'losses': x} for x in native)),
                'gpupool': dict(enumerate({'losses': x} for x in other))}
        return turns.equal_losses(rows, 'native')['gpupool']

    def test_losses(self):
        one, near, far = [1.5, 2.5], [1.5, 2.500001], [1.5, 2.51]
        self.assertEqual(self.verdict([one, one], [one, one]),
                         (True, 'equal'))
        self.assertFalse(self.verdict([one, one], [one, near])[0])
        self.assertTrue(self.verdict([one, near], [[1.5, 2.5000005]])[0])
        self.assertFalse(self.verdict([one, near], [one, far])[0])
        self.assertTrue(self.verdict([one, one], [one[:1]])[0])
        self.assertFalse(self.verdict([one, [9.0, 9.0]], [one])[0])
        self.assertFalse(self.verdict([], [one])[0])


# A worker whose steps allocate, on the simulated driver.
ALLOCATES = r'''
import ctypes, sys
sys.path.insert(0, %r)
import worker
cuda = ctypes.CDLL('libcudart.so.13')
def step(index):
    p = ctypes.c_void_p()
    for size in (1000, 3 << 20):
        assert cuda.cudaMalloc(ctypes.byref(p), ctypes.c_size_t(size)) == 0
        assert cuda.cudaFree(p) == 0
    return float(index)
class Options:
    warm, settle, steps = 4, 1, 5
step(0)
worker.serve(worker.Run(step, Options), sys.stdin, worker.write_line)
''' % GPU


class WithThePool(Scratch):
    """The library itself and its reports, over the simulated driver."""

    def test_counts_of_the_timed_steps(self):
        build = harness.current_build()
        if build.san or not os.path.exists(build.lib):
            self.skipTest('no plain library in ' + build.path)
        with open(self.script, 'w') as file:
            file.write(ALLOCATES)
        env = {'LD_LIBRARY_PATH': build.sim}
        command = [sys.executable, self.script]
        series = self.series(
            turns.plain_variant('native', command, env),
            turns.preloaded_variant('gpupool', command, build.lib,
                                    os.path.join(self.dir, 'reports'), env,
                                    'quiet:True'), count=2)
        made = series.run()
        self.assertEqual(series.failures, [])
        self.assertEqual(made, 2)
        for row in series.rows['gpupool'].values():
            self.assertEqual(row['pool']['num_alloc_calls'], 12)
            self.assertEqual(row['pool']['num_free_calls'], 12)
            self.assertEqual(row['pool']['num_memory_waits'], 0)
            self.assertGreater(row['reserved_peak'], 3 << 20)
            self.assertEqual(len(turns.reports.written(
                os.path.join(self.dir, 'reports'), row['pid'], 'exit')), 1)


class Faults(Scratch):
    def run_in_time(self, silent, variants, **more):
        """A series in which one fails, if `silent` by saying nothing until
        the time is up: that must not be too short for the others."""
        for limit in (3, 30, 120) if silent else (120,):
            series = self.series(*variants(), timeout=limit, **more)
            made = series.run()
            if len(series.failures) == 1:
                break
        return series, made

    def test_each_is_told_and_the_others_go_on(self):
        for wrong, words in (('start', 'cannot start'), ('crash', 'SIGSEGV'),
                             ('end', 'status 5'), ('never', 'no answer'),
                             ('hang', 'no answer')):
            with self.subTest(wrong=wrong):
                series, turns_made = self.run_in_time(
                    'no answer' in words, lambda: [
                        self.plain('native'), self.plain('bad', wrong)],
                    count=2)
                self.assertEqual(turns_made, 2)
                self.assertEqual(len(series.failures), 1, series.failures)
                self.assertIn(words, series.failures[0])
                self.assertEqual(sorted(series.rows['native']), [0, 1])

    def test_a_pool_that_does_not_report(self):
        series, _ = self.run_in_time(True, lambda: [
            self.plain('native'), self.pooled('gpupool', 'inert')])
        self.assertEqual(len(series.failures), 1)
        self.assertIn('no report', series.failures[0])

    def test_a_worker_ends_when_nobody_is_left_to_tell_it(self):
        said = []
        run = worker.Run(lambda index: 1.0, argparse.Namespace(
            warm=1, settle=1, steps=1))
        worker.serve(run, iter(['warm\n']), said.append)
        self.assertEqual([line.split()[0] for line in said],
                         ['ready', 'warm'])
        with self.assertRaisesRegex(ValueError, 'no such word'):
            worker.serve(run, iter(['walk\n']), said.append)


class Parts(Scratch):
    """The two parts of bench.py, with programs that use no card."""

    def setUp(self):
        super().setUp()
        args = bench.parse(['--turns', '3', '--speed-models', 'mlp,gpt2',
                            '--cached', 'mlp', '--uncached', 'mlp',
                            '--variant', 'ring_events:False',
                            '--out', self.dir, '--timeout', '120'])
        self.bench = bench.Bench(args)
        self.bench.library = ''
        self.wrong = {}
        self.real_worker_command = speed.worker_command
        for name, value in (
                ('need_modules', lambda *names: None),
                ('build_cu', lambda name, *rest: self.timed_program(name)),
                ('build_torch', lambda *rest, **more: 'cache.so')):
            self.patch(machine, name, value)
        self.patch(speed, 'full', lambda: None)
        self.patch(speed, 'worker_command', lambda b, name: self.command(
            'gpupool', self.wrong.get(name, 'nothing')))
        self.patch(speed.reports, 'sane_exit_report', self.exit_report)

    def patch(self, place, name, value):
        patch = mock.patch.object(place, name, value)
        patch.start()
        self.addCleanup(patch.stop)

    def exit_report(self, directory, pid):
        path = os.path.join(self.dir, 'exit.json')
        with open(path, 'w') as file:
            json.dump({'pools': [{'num_result_waits': 7,
                                  'reserved_bytes.all.peak': 9}]}, file)
        return speed.reports.Report(path)

    def timed_program(self, name):
        path = os.path.join(self.dir, name + '.sh')
        says = 'time_ms 12.500 checksum abc'
        if name == self.wrong.get('program'):
            says = self.wrong['says']
        text = '#!/bin/sh\necho warming up\necho %s\n' % says
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def run_part(self, part):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            try:
                result, failure = part(self.bench), None
            except machine.Failure as error:
                result, failure = error.args[1], str(error.args[0])
        json.dumps(result)
        for line in out.getvalue().splitlines():
            self.assertLessEqual(len(line), 80, line)
        return out.getvalue(), result, failure

    def test_speed(self):
        out, result, failure = self.run_part(speed.speed)
        self.assertIsNone(failure)
        by_name = {row['model']: row for row in result['speed']}
        self.assertEqual(list(by_name), ['mlp', 'gpt2'])
        mlp = by_name['mlp']
        for key in ('gpupool', 'gpupool_total', 'cached', 'uncached'):
            self.assertEqual(mlp[key]['turns'], 3)
        self.assertEqual(mlp['variants']['ring_events:False']['turns'], 3)
        self.assertIsNone(by_name['gpt2']['cached'])
        self.assertEqual(len(mlp['runs']['native']), 3)
        self.assertRegex(out, r'mlp, cached +0 +0 +20 +0')
        self.assertRegex(out, r'(?m)^gpt2 .* 3 +equal$')
        self.assertRegex(out, r'The same with ring_events:False\n.*\n.*\n'
                              r'mlp .* 3 +equal\n')

    def test_speed_with_other_losses(self):
        real = speed.step_variants

        def one_differs(b, name):
            variants = real(b, name)
            variants[1].command = self.command('gpupool', 'differ')
            return variants

        self.patch(speed, 'step_variants', one_differs)
        _, result, failure = self.run_part(speed.speed)
        self.assertIn('mlp, gpupool: losses differ', failure)
        self.assertNotIn('mlp, cached', failure)
        self.assertEqual(len(result['speed']), 2)

    def test_the_worker_is_asked_for_what_was_asked(self):
        for given, wanted in (([], False), (['--deterministic'], True)):
            b = bench.Bench(bench.parse(['--quick', '--out', self.dir] +
                                        given))
            command = self.real_worker_command(b, 'gpt2')
            self.assertEqual('--deterministic' in command, wanted)
            self.assertEqual(command[command.index('--steps') + 1], '15')
            self.assertTrue(os.path.exists(command[1]))

    def test_overlap(self):
        out, result, failure = self.run_part(speed.overlap)
        self.assertIsNone(failure)
        self.assertEqual(set(result['overlap']),
                         {'PyTorch', 'prefetch', '4 streams'})
        self.assertEqual(
            result['overlap']['prefetch']['gpupool/cache']['ratio'], 1.0)
        self.assertRegex(out, r'4 streams +never .* 3 +7\n')
        self.assertRegex(out, r'PyTorch +gpupool .* 3 +20\n')

    def test_overlap_with_a_bad_program(self):
        for says, words in (
                ('no time', 'no time in its last line'),
                ('time_ms 1.0 checksum a${LD_PRELOAD-b}', 'results differ')):
            self.wrong = {'program': 'prefetch', 'says': says}
            _, result, failure = self.run_part(speed.overlap)
            self.assertIn(words, failure)
            self.assertIn('4 streams', result['overlap'])


class Starts(harness.CudaTest):
    """The part that starts many processes at once, on the simulated driver."""

    def run_part(self, program):
        if self.build.san:
            self.skipTest('its programs need the runtime of the sanitizer')
        for place, name, value in (
                (machine, 'build_c', lambda *_: program),
                (bench, 'AT_ONCE', (1, 3)), (bench, 'START_TURNS', 2)):
            patch = mock.patch.object(place, name, value)
            patch.start()
            self.addCleanup(patch.stop)
        b = bench.Bench(bench.parse(['--out', self.dir, '--build',
                                     self.build.path]))
        out = io.StringIO()
        with mock.patch.dict(os.environ, LD_LIBRARY_PATH=self.build.sim), \
                contextlib.redirect_stdout(out):
            rows = bench.start(b)['start']
        return rows, out.getvalue()

    def program(self):
        with open(os.path.join(GPU, 'programs', 'start.c')) as source:
            home = machine.cuda_home()
            return self.compile('program', source.read(), '-I%s/include' % home,
                                '-L' + self.build.sim, '-lcudart')

    def test_it_counts_and_compares(self):
        rows, out = self.run_part(self.program())
        self.assertEqual([(row['processes'], row['turns']) for row in rows],
                         [(1, 2), (3, 2)])
        for row in rows:
            for what in 'ms', 'cpu_ms':
                self.assertGreater(row['plain_' + what], 0)
                self.assertAlmostEqual(
                    row['ratio_' + what],
                    row['preloaded_' + what] / row['plain_' + what], 2)
        self.assertRegex(out, r'(?m)^3 +\d.* 2$')

    def test_without_the_pool_there_is_nothing_to_compare(self):
        with self.assertRaisesRegex(machine.Failure, '0 exit reports of 12'):
            self.run_part(os.path.realpath('/bin/true'))

    def test_one_that_fails(self):
        with self.assertRaisesRegex(machine.Failure, 'false failed: 256'):
            self.run_part(os.path.realpath('/bin/false'))


if __name__ == '__main__':
    unittest.main()
