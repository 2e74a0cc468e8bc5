"""backend:cudaMallocAsync: plain allocations from a pool of the driver's keep the
order, the answers and the limits of plain memory. And backend:passthrough."""
import json
import os
import re
import unittest

import harness
from files import wait_for
from verbs import MIB, VerbTest

CONF = 'backend:cudaMallocAsync,quiet:True'


class Debug(harness.CudaTest):

    def debug(self, *steps, conf=CONF, sim='memory:1GiB', err='', **kwargs):
        result = self.run_program(('drv_debug',) + steps, conf=conf, sim=sim,
                                  **kwargs)
        self.assert_ok(result)
        self.assertRegex(result.err.decode(), '^' + err + '$')
        return result.out.decode().splitlines()


class Order(Debug):

    def test_a_free_waits_and_an_allocation_does_not(self):
        lines = self.debug('alloc=4M', 'spin=300000', 'alloc=4M', 'query=1',
                           'free=0', 'query=1', 'free=1')
        # 600: the kernel still runs.
        self.assertEqual(lines, ['alloc: 0', 'alloc: 0', 'query: 600',
                                 'free: 0', 'query: 0', 'free: 0'])

    def test_a_free_waits_without_a_context(self):
        lines = self.debug('alloc=4M', 'spin=300000', 'current=0', 'free=0',
                           'current=1', 'query=1')
        self.assertEqual(lines, ['alloc: 0', 'free: 0', 'query: 0'])

    def test_memory_is_used_again(self):
        lines = self.debug('alloc=4M', 'free=0', 'alloc=4M', 'same=0:1',
                           'free=1')
        self.assertIn('same: 1', lines)

    def test_freed_in_stream_order(self):
        """As plain memory can be: nothing waits for the stream, neither the
        free nor the next allocation."""
        lines = self.debug('alloc=4M', 'spin=300000', 'freeasync=0',
                           'alloc=4M', 'query=1', 'same=0:1', 'idle=1',
                           'free=1', 'again=0')
        self.assertEqual(lines, ['alloc: 0', 'freeasync: 0', 'alloc: 0',
                                 'query: 600', 'same: 0', 'idle: 0',
                                 'free: 0', 'free: 1'])

    def test_an_allocation_does_not_wait_for_the_default_stream(self):
        for conf in CONF, CONF + ',zero_memory:True':
            lines = self.debug('alloc=4M', 'busy=300000', 'alloc=4M',
                               'query=0', conf=conf)
            self.assertEqual(lines[-1], 'query: 600')

    def test_zeros(self):
        steps = ('alloc=4M', 'fill=0:0:1000:7', 'free=0', 'alloc=4M',
                 'same=0:1', 'peek=1:400', 'free=1')
        lines = self.debug(*steps)
        self.assertEqual(lines[-3:-1], ['same: 1', 'peek: 00000007'])
        # They are there when the allocation returns.
        lines = self.debug(*steps, conf=CONF + ',zero_memory:True',
                           sim='memory:1GiB,copy_us:100000')
        self.assertEqual(lines[-3:-1], ['same: 1', 'peek: 00000000'])

    def test_zeros_that_cannot_be_written(self):
        """The driver serves, and the pool has its memory back."""
        lines = self.debug('alloc=4M', 'alloc=4M', 'used=1',
                           conf=CONF + ',zero_memory:True',
                           sim='memory:1GiB,fail:cuMemsetD8Async@1')
        self.assertEqual(lines, ['alloc: 0', 'alloc: 0', 'used: 8'])

    def test_without_a_context(self):
        steps = ('alloc=4M', 'current=0', 'free=0', 'alloc=4M', 'current=1',
                 'free=0', 'free=0')
        plain = self.debug(*steps, preload=False)
        for conf in CONF, 'quiet:True', 'quiet:True,reuse:sync':
            self.assertEqual(self.debug(*steps, conf=conf), plain)

    def test_captures(self):
        for mode in 'relaxed', 'global':
            steps = ('alloc=4M', 'capture=' + mode)
            plain = self.debug(*steps, preload=False)
            self.assertEqual(self.debug(*steps), plain)
        self.assertIn('alloc: 900', plain)

    def test_wrong_frees(self):
        steps = ('alloc=1000', 'alloc=4M', 'free=0', 'again=0', 'free=1',
                 'again=1')
        self.assertEqual(self.debug(*steps), self.debug(*steps, preload=False))


class Memory(Debug):

    def test_what_is_cached_is_free(self):
        lines = self.debug('alloc=2M', 'info=1', 'alloc=100M', 'info=1',
                           'free=1', 'used=1', 'info=1', 'free=0')
        before, during, after = (int(line.split()[2]) for line in lines
                                 if line.startswith('info'))
        self.assertEqual(during, before - 100)
        # The pool keeps it.
        self.assertIn('used: 102', lines)
        self.assertEqual(after, before)

    def test_limit_shows(self):
        lines = self.debug('alloc=100M', 'free=0', 'alloc=50M', 'info=1',
                           conf=CONF + ',memory_limit:256MiB,'
                           'count_context:False')
        self.assertEqual(lines[-1], 'info: 0, 206 of 256')

    def test_policies(self):
        keep = ('alloc=100M', 'free=0', 'alloc=1M', 'used=1')
        lines = self.debug(*keep, conf=CONF + ',cache_policy:keep')
        self.assertEqual(lines[-1], 'used: 100')
        lines = self.debug(*keep, conf=CONF + ',cache_policy:none')
        self.assertEqual(lines[-1], 'used: 2')

    def test_a_synchronisation_takes_nothing_away(self):
        """As it would with the driver's own threshold, and the next allocation
        would get it anew from the device each time."""
        steps = ('alloc=100M', 'free=0', 'idle=1', 'used=1') + sum(
            (('alloc=100M', 'free=%d' % i, 'idle=1', 'used=1')
             for i in range(1, 5)), ())
        for conf, kept in ((CONF, 100), (CONF + ',cache_policy:none', 0),
                           ('quiet:True', 100)):
            with self.subTest(conf=conf):
                lines = self.debug(*steps, conf=conf)
                self.assertEqual(lines[3::4], ['used: %d' % kept] * 5)

    def test_after_a_reset_memory_is_back(self):
        lines = self.debug('alloc=100M', 'alloc=1000', 'reset=1', 'used=1',
                           'again=0', 'alloc=4M', 'used=1')
        self.assertEqual(lines[2:], ['reset: 0', 'used: 0', 'free: 1',
                                     'alloc: 0', 'used: 4'])

    def test_after_a_reset_there_is_as_much_as_before(self):
        lines = self.debug('alloc=200M', 'reset=1', 'alloc=200M', 'create=1',
                           'alloc=10M', 'destroy=1', 'reset=1', 'alloc=240M',
                           conf=CONF + ',memory_limit:256MiB,'
                           'count_context:False')
        self.assertEqual([line for line in lines if line[:5] == 'alloc'],
                         ['alloc: 0'] * 4)

    def test_after_a_reset_that_failed(self):
        """Its pool is no more by then, and not used again."""
        log = os.path.join(self.dir, 'calls')
        lines = self.debug('alloc=4M', 'reset=1', 'alloc=4M', 'free=1',
                           sim='memory:1GiB,call_log:%s,'
                           'fail:cuDevicePrimaryCtxReset_v2@1=1' % log)
        self.assertEqual(lines, ['alloc: 0', 'reset: 1', 'alloc: 0',
                                 'free: 0'])
        with open(log) as file:
            calls = [line.split()[1] for line in file]
        after = calls[calls.index('cuMemPoolDestroy') + 1:]
        self.assertIn('cuMemAlloc_v2', after)
        self.assertNotIn('cuMemAllocFromPoolAsync', after)

    def test_a_context_of_its_own(self):
        lines = self.debug('create=1', 'alloc=100M', 'used=1', 'destroy=1',
                           'used=1')
        self.assertEqual(lines, ['alloc: 0', 'used: 100', 'destroy: 0',
                                 'used: 0'])

    def test_without_pools(self):
        lines = self.debug(
            'alloc=4M', 'free=0', 'alloc=4M', 'same=0:1', 'free=1',
            sim='memory:1GiB,pools:0',
            err='gpupool: device 0 has no memory pools for '
            'backend:cudaMallocAsync; backend:native serves there\n')
        self.assertIn('same: 1', lines)

    def test_not_shared(self):
        lines = self.debug(
            'alloc=4M', 'ipc=0', 'ipc=0', 'free=0',
            err='gpupool: with backend:cudaMallocAsync memory cannot be '
            'shared with other processes; backend:native allows it\n')
        # The simulated driver knows no such handles at all.
        self.assertEqual(lines[1:3], ['ipc: 801', 'ipc: 801'])

    def test_pitch(self):
        lines = self.debug('pitch=700', 'range=0', 'free=0')
        self.assertEqual(lines[1], 'range: 0, from 0, 3072; from 0, 3072')


class Figures(VerbTest):

    def test_report(self):
        self.assert_ok(self.run_program(
            ['drv_debug', 'alloc=100M', 'alloc=1000', 'free=0', 'alloc=3M',
             'alloc=2000M'], conf='backend:cudaMallocAsync',
            sim='memory:1GiB'))
        report = self.report()
        self.assertIn({'key': 'backend', 'value': 'cudaMallocAsync',
                       'is_default': False}, report['settings'])
        pool = report['pools'][0]
        self.assertEqual(pool['allocated_bytes.all.current'], 3 * MIB + 1000)
        self.assertEqual(pool['allocated_bytes.all.peak'], 100 * MIB + 1000)
        self.assertGreaterEqual(pool['reserved_bytes.all.peak'], 100 * MIB)
        self.assertEqual(pool['allocation.all.current'], 2)
        self.assertEqual(pool['num_free_calls'], 1)
        self.assertEqual(pool['num_ooms'], 1)
        # What it reserves is the pool's, nothing is outside.
        self.assertEqual(report['passthrough_device_bytes'], 0)
        self.assertEqual(report['devices'][0]['part.pool'],
                         pool['reserved_bytes.all.current'])

    def test_peaks_and_sections(self):
        result = self.run_program(
            ['drv_debug', 'alloc=100M', 'free=0', 'peaks=1', 'mark=one',
             'alloc=20M', 'mark=two', 'alloc=10M', 'free=1', 'trim=1'],
            conf='backend:cudaMallocAsync', sim='memory:1GiB')
        self.assert_ok(result)
        self.assertIn(b'trim: 90\n', result.out)
        report = self.report()
        pool = report['pools'][0]
        self.assertEqual(pool['allocated_bytes.all.peak'], 30 * MIB)
        self.assertEqual(pool['most_allocated_bytes'], 100 * MIB)
        self.assertEqual(pool['most_reserved_bytes'], 100 * MIB)
        self.assertEqual(pool['num_trims'], 1)
        self.assertEqual({row['name']: row['allocated_bytes.peak']
                          for row in report['sections']},
                         {'one': 20 * MIB, 'two': 30 * MIB})

    def test_plain_async_use_is_counted_with_what_is_reserved(self):
        """Native: of the program's own pools counts what the driver reserves
        for them, more than what they handed out."""
        self.assert_ok(self.run_program(
            ['drv_caps', 'async=3M', 'async=3M', 'pool=100K', 'plain=2000M'],
            sim='memory:1GiB'))
        report = self.report('.oom-1.json')
        self.assertEqual(report['passthrough.async.bytes.current'],
                         6 * MIB + (100 << 10))
        # The driver rounds up, and has whole pieces.
        self.assertEqual(report['devices'][0]['part.async'], 10 * MIB)

    def test_own_and_plain_apart(self):
        self.assert_ok(self.run_program(
            ['drv_caps', 'async=3M', 'plain=5M', 'plain=2000M'],
            sim='memory:1GiB', conf='backend:cudaMallocAsync'))
        report = self.report('.oom-1.json')
        device = report['devices'][0]
        self.assertEqual(report['passthrough.async.bytes.current'], 3 * MIB)
        self.assertEqual(device['part.async'], 4 * MIB)
        self.assertEqual(device['part.pool'], 6 * MIB)
        self.assertEqual(report['pools'][0]['allocated_bytes.all.current'],
                         5 * MIB)

    def report(self, end='.exit.json'):
        name = [n for n in os.listdir(self.dir) if n.endswith(end)]
        with open(os.path.join(self.dir, name[0]), encoding='utf-8') as file:
            return json.load(file)

    def test_passthrough_only_counts(self):
        """The driver's own addresses, contents and order, all of it counted
        and nothing kept."""
        self.assert_ok(self.run_program(
            ['drv_debug', 'alloc=100M', 'free=0', 'used=1', 'alloc=3M'],
            conf='backend:passthrough', sim='memory:1GiB'))
        report = self.report()
        self.assertEqual(report['pools'], [])
        self.assertEqual(report['passthrough.plain.bytes.peak'], 100 * MIB)
        self.assertEqual(report['passthrough.plain.bytes.current'], 3 * MIB)
        self.assertEqual(report['devices'][0]['part.plain'], 4 * MIB)

    def test_idle_memory_goes_back(self):
        proc = self.holder(100, CONF + ',cache_decay_ms:100')
        self.assertTrue(wait_for(
            lambda: self.device(proc).figures['cached_bytes'] == 0, 60))
        self.assertEqual(
            self.device(proc).figures['reserved_bytes.all.current'],
            100 * MIB)

    def test_kept_for_good(self):
        self.assert_ok(self.run_program(
            ['drv_debug', 'alloc=100M', 'free=0', 'sleep=500'],
            conf=CONF + ',cache_policy:keep,cache_decay_ms:10',
            sim='memory:1GiB'))
        self.assertEqual(self.report()['pools'][0]['cached_bytes'], 100 * MIB)

    def test_top_and_events(self):
        proc = self.holder(100, CONF)
        figures = self.device(proc).figures
        self.assertEqual(figures['allocated_bytes.all.current'], 100 * MIB)
        self.assertEqual(figures['cached_bytes'], 50 * MIB)
        result = self.gpupool('top', '--json', '-1')
        self.assert_ok(result)
        self.assertIn(str(100 * MIB), result.out.decode())
        self.kill(proc)
        result = self.gpupool('report', str(proc.pid))
        self.assert_ok(result)
        self.assertTrue(re.search(r'100\.00 MiB', result.out.decode()))
        result = self.gpupool('report', str(proc.pid), '--csv')
        self.assert_ok(result)
        for event, mib in ('alloc', 100), ('alloc', 50), ('free', 50):
            self.assertRegex(result.out.decode(),
                             ',%s,.*,%d,' % (event, mib * MIB))


if __name__ == '__main__':
    unittest.main()
