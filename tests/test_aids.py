"""Debug aids: what a kernel writes beside an allocation is named, and freed
memory has a pattern."""
import difflib
import glob
import json
import os
import re
import unittest

import harness

GUARD = 'guard_bytes:512,check:True'
QUIET = 'quiet:True'


class Aids(harness.CudaTest):

    def debug(self, *steps, conf=GUARD, **kwargs):
        """One run: the lines of stdout and of stderr."""
        kwargs.setdefault('sim', 'memory:1GiB')
        result = self.run_program(('drv_debug',) + steps,
                                  conf=QUIET + ',' + conf, **kwargs)
        self.assert_ok(result)
        return (result.out.decode().splitlines(),
                result.err.decode().splitlines())

    def overruns(self, num=None):
        path, = glob.glob(os.path.join(self.dir, '*.exit.json'))
        with open(path, encoding='utf-8') as file:
            report = json.load(file)
        os.unlink(path)
        found = report.get('overruns', [])
        self.assertEqual(report.get('num_overruns', 0), num or len(found))
        return found


class Guards(Aids):

    def test_behind(self):
        for size in 1, 1000, 4096, (1 << 20) - 4, 1 << 20, 3 << 20:
            for reuse in '', ',reuse:sync', ',expandable_segments:False':
                with self.subTest(size=size, reuse=reuse):
                    start = (size + 3) // 4 * 4
                    _, err = self.debug('alloc=%d' % size,
                                        'fill=0:%d:3:7' % (start + 8),
                                        'free=0', conf=GUARD + reuse)
                    self.assertRegex(err[0], (
                        r'overrun: 12 bytes were written beside 0x[0-9a-f]+ '
                        r'of %d bytes on device 0, the first at offset %d, '
                        r'%d bytes past its end$'
                        % (size, start + 8, start + 8 - size)))
                    found, = self.overruns()
                    self.assertEqual(found['bytes'], size)
                    self.assertEqual(found['wrong_bytes'], 12)
                    self.assertIs(found['before'], False)

    def test_before(self):
        for size in 1000, 3 << 20:
            _, err = self.debug('alloc=%d' % size, 'fill=0:-512:2:7',
                                'free=0')
            self.assertRegex(err[0], r'8 bytes were written .* the first at '
                             r'offset -512, 512 bytes before its start$')
            self.assertIs(self.overruns()[0]['before'], True)

    def test_both_stacks(self):
        _, err = self.debug('alloc=1000', 'fill=0:1000:1:7', 'free=0')
        for what in 'allocated', 'freed':
            self.assertTrue(any(re.search(what + r' in drv_debug.*\(', line)
                                for line in err), err)
        found, = self.overruns()
        for what in 'allocated', 'freed':
            self.assertTrue(found[what][0]['file'].endswith('drv_debug'))

    def test_each_with_its_own(self):
        self.debug('alloc=1000', 'fill=0:1000:1:7', 'free=0',
                   'alloc=1000', 'fill=1:1000:1:7', 'freeasync=1',
                   'pitch=1000', 'fill=2:3072:1:7', 'free=2',
                   conf=GUARD)
        plain, other_free, other_alloc = self.overruns()
        self.assertEqual(plain['allocated'], other_free['allocated'])
        self.assertNotEqual(plain['freed'], other_free['freed'])
        self.assertNotEqual(plain['allocated'], other_alloc['allocated'])
        self.assertEqual(plain['freed'], other_alloc['freed'])

    def test_without_stacks(self):
        _, err = self.debug('alloc=1000', 'fill=0:1000:1:7', 'free=0',
                            conf=GUARD + ',stacks:off')
        self.assertEqual(len(err), 3, err)
        self.assertIn('allocated in: no stack', err[1])
        self.assertIn('freed in: no stack', err[2])

    def test_more_than_the_report_has(self):
        """All are told and counted; it has the first of them."""
        steps = ['alloc=1000'] * 10
        steps += ['fill=%d:1000:%d:7' % (i, i + 1) for i in range(10)]
        steps += ['free=%d' % i for i in range(10)]
        # Stacks are lines, of which there may be too many to show.
        _, err = self.debug(*steps, conf=GUARD + ',stacks:off')
        self.assertEqual(sum('overrun: ' in line for line in err), 10)
        self.assertEqual([o['wrong_bytes'] for o in self.overruns(10)],
                         list(range(4, 36, 4)))

    def test_zones_are_not_shared(self):
        """What one wrote beside its own is not told of its neighbour."""
        steps = ['alloc=512'] * 6 + ['fill=%d:512:1:7' % i for i in (1, 2, 4)]
        _, err = self.debug(*steps, *('free=%d' % i for i in range(6)))
        self.assertEqual([o['before'] for o in self.overruns()], [False] * 3)

    def test_what_cannot_be_read_is_not_told(self):
        for nth in 1, 2:
            _, err = self.debug(
                'alloc=1000', 'free=0', 'alloc=1000', 'free=1',
                sim='memory:1GiB,fail:cuMemcpyDtoHAsync_v2@%d' % nth)
            self.assertEqual((err, self.overruns()), ([], []))

    def test_a_running_kernel_is_waited_for(self):
        _, err = self.debug('alloc=1000', 'spin=200000',
                            'other=0:1000:1:7', 'free=0')
        self.assertIn('4 bytes were written', err[0])

    def test_freed_in_stream_order(self):
        _, err = self.debug('alloc=1000', 'fill=0:1000:1:7', 'freeasync=0')
        self.assertIn('4 bytes were written', err[0])

    def test_nothing_to_tell(self):
        lines, err = self.debug(
            'alloc=1000', 'alloc=3M', 'fill=0:0:250:7', 'fill=1:0:786432:7',
            'set=0:0:1000', 'free=0', 'free=1', 'alloc=1000', 'alloc=3M',
            'free=2', 'free=3')
        self.assertEqual(err, [])
        self.assertEqual(self.overruns(), [])
        self.assertEqual(set(lines), {'alloc: 0', 'set: 0', 'free: 0'})

    def test_seen_from_outside(self):
        """Sizes, alignment and copies past the end are the program's own."""
        steps = ('alloc=1000', 'alloc=3M', 'pitch=700', 'range=0', 'range=1',
                 'range=2', 'set=0:0:1001', 'set=1:4:3M', 'set=1:0:3M',
                 'free=0', 'again=0', 'free=1', 'free=2')
        plain = self.debug(*steps, preload=False)
        self.assertEqual(self.debug(*steps), plain)
        lines, _ = self.debug('alloc=1000', 'aligned=0', 'alloc=1M',
                              'aligned=1')
        self.assertEqual(lines[1::2], ['aligned: 1', 'aligned: 65536'])

    def test_frees_beside_it(self):
        """An address of its zones is none of an allocation: least of all the
        first, where the block in the pool begins."""
        for size, front in (1000, 512), (3 << 20, 65536):
            steps = ['alloc=%d' % size] + [
                'freeat=0:%d' % offset
                for offset in (-front, 1 - front, -1, 512, size)]
            steps += ['set=0:0:%d' % size, 'free=0', 'freeat=0:%d' % -front,
                      'again=0']
            plain = self.debug(*steps, preload=False)
            for reuse in '', ',reuse:sync', ',expandable_segments:False':
                with self.subTest(size=size, reuse=reuse):
                    self.assertEqual(self.debug(*steps, conf=GUARD + reuse),
                                     plain)
                    self.assertEqual(self.overruns(), [])

    def test_captures(self):
        for mode in 'relaxed', 'global':
            steps = ('alloc=4M', 'capture=' + mode)
            plain = self.debug(*steps, preload=False)
            self.assertEqual(self.debug(*steps, conf=GUARD +
                                        ',poison_free:True'), plain)

    def test_off(self):
        """Without it no other place is taken, and nothing is looked at."""
        _, err = self.debug('alloc=1000', 'fill=0:1000:1:7', 'free=0',
                            conf='check:True')
        self.assertEqual(err, [])
        self.assertEqual(self.overruns(), [])


class Poison(Aids):

    def test_freed_memory(self):
        for conf in '', ',reuse:sync', ',guard_bytes:4KiB':
            with self.subTest(conf=conf):
                lines, err = self.debug(
                    'alloc=1000', 'alloc=3M', 'fill=0:0:250:7',
                    'fill=1:0:786432:7', 'free=0', 'free=1', 'peek=0:0',
                    'peek=0:996', 'peek=1:0', 'peek=1:3145724',
                    conf='poison_free:True,cache_policy:keep' + conf)
                self.assertEqual(lines[-4:], ['peek: dddddddd'] * 4)
                self.assertEqual(err, [])

    def test_after_work_that_runs(self):
        """What still uses the memory at the free is done before."""
        lines, _ = self.debug('alloc=1000', 'spin=200000', 'other=0:0:250:7',
                              'free=0', 'peek=0:0',
                              conf='poison_free:True')
        self.assertEqual(lines[-1], 'peek: dddddddd')

    def test_off(self):
        lines, _ = self.debug('alloc=1000', 'fill=0:0:250:7', 'free=0',
                              'peek=0:0', conf='cache_policy:keep')
        self.assertEqual(lines[-1], 'peek: 00000007')

    def test_zeros_on_top(self):
        lines, _ = self.debug('alloc=1000', 'free=0', 'alloc=1000',
                              'same=0:1', 'peek=1:0',
                              conf='poison_free:True,zero_memory:True')
        self.assertEqual(lines[-2:], ['same: 1', 'peek: 00000000'])


class Same(Aids):

    def test_pointers_and_churn(self):
        for program in 'drv_pointers', 'drv_past_end', 'drv_frees':
            with self.subTest(program=program):
                lines = [self.run_program(
                    [program], preload=preload, sim='memory:1GiB,devices:2',
                    conf=QUIET + ',poison_free:True,' + GUARD)
                    for preload in (False, True)]
                self.assertEqual(lines[1].err, b'')
                # The page of 2 MiB around a block begins outside it.
                plain, ours = ([line for line in run.out.decode().splitlines()
                                if 'get access: ' not in line]
                               for run in lines)
                self.assertEqual('', '\n'.join(difflib.unified_diff(
                    plain, ours, n=0, lineterm='')))

    def test_order(self):
        """Random programs under the order oracle, none of which overruns."""
        if self.build.san:
            self.skipTest('the fuzz preloads the library by itself')
        fuzz = os.path.join(self.build.path, 'tests', 'order-fuzz')
        for conf in ('poison_free:True', 'guard_bytes:512,poison_free:True',
                     'guard_bytes:512,reuse:sync'):
            with self.subTest(conf=conf):
                result = harness.run(
                    [fuzz, '--seeds', '1-15'],
                    self.build.env(preload=False, GPUPOOL_CONF=conf), 120,
                    cwd=self.dir)
                self.assert_ok(result)
                self.assertNotIn(b'overrun', result.err)


if __name__ == '__main__':
    unittest.main()
