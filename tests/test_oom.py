"""A request is refused: the report's first paragraph says why, word for word
what a person is to do with, and by name who has the memory."""
import json
import os
import re

import files
from files import wait_for

MIB = 1 << 20


class OomTest(files.FilesTest):

    def report(self, pid=None):
        """The one report of a refusal (of that process), and its page's first
        paragraph."""
        found = wait_for(lambda: [
            n for n in self.reports() if n.endswith('.oom-1.json')
            and (pid is None or '-%d.' % pid in n)])
        self.assertTrue(found, self.reports())
        name, = [n for n in self.reports() if n.endswith('.oom-1.json')
                 and (pid is None or '-%d.' % pid in n)]
        path = os.path.join(self.dir, name)
        with open(path) as file:
            report = json.load(file)
        with open(path[:-4] + 'txt') as file:
            paragraphs = file.read().split('\n\n')
        first = ' '.join(paragraphs[1].split())
        self.assertEqual(first, report['oom_answer'])
        return report

    def one(self, *steps, program='drv_script', conf='', sim='memory:1GiB'):
        result = self.run_program([program] + list(steps),
                                  conf='quiet:True,' + conf, sim=sim)
        self.assert_ok(result)
        return self.report()

    def says(self, report, cause, pattern):
        self.assertEqual(report['oom_cause'], cause, report['oom_answer'])
        self.assertRegex(report['oom_answer'], '^' + pattern + '$')


class Alone(OomTest):

    def test_larger_than_the_card(self):
        report = self.one('alloc=4096', 'oom=%d' % (2000 * MIB))
        self.says(report, 'larger_than_device',
                  r'cuMemAlloc_v2 asked for 1\.95 GiB on device 0, a card of '
                  r'1\.00 GiB: no setting helps, the request alone exceeds '
                  r'the card\.')
        self.assertEqual(report['oom_setting'], '')

    def test_larger_than_the_limit(self):
        report = self.one('alloc=4096', 'oom=%d' % (500 * MIB),
                          conf='memory_limit:400MiB')
        self.says(report, 'larger_than_limit',
                  r'.* on device 0, where this process may take 400\.00 MiB: '
                  r'the request alone exceeds its limit \(memory_limit\)\. '
                  r'memory_limit:\d+MiB would have helped\.')

    def test_limit(self):
        report = self.one('alloc=%d' % (300 * MIB), 'oom=%d' % (200 * MIB),
                          conf='per_process_memory_fraction:0.4')
        self.says(report, 'limit',
                  r'.*: the limit of this process '
                  r'\(per_process_memory_fraction\) left no room for it\. It '
                  r'may take 409\.60 MiB and holds 364\.00 MiB: 300\.00 MiB '
                  r'live in the pool, 64\.00 MiB for contexts\. The card '
                  r'itself was not asked; it has 660\.00 MiB free\. '
                  r'per_process_memory_fraction:0\.\d\d would have helped\.')

    def test_what_it_names_helps(self):
        """The limit that the report names is high enough."""
        for conf in 'memory_limit:400MiB', 'per_process_memory_fraction:0.4':
            report = self.one('alloc=%d' % (300 * MIB),
                              'oom=%d' % (200 * MIB), conf=conf)
            self.assertTrue(report['oom_setting'])
            result = self.run_program(
                ['drv_script', 'alloc=%d' % (300 * MIB),
                 'oom=%d' % (200 * MIB)],
                conf='quiet:True,' + report['oom_setting'], sim='memory:1GiB')
            self.assertIn(b'oom %d: 0\n' % (200 * MIB), result.out)
            for name in self.reports():
                os.unlink(os.path.join(self.dir, name))

    def pieces(self, conf=''):
        """40 segments of four blocks each, three of the four free."""
        steps = ['alloc=%d' % (5 * MIB)] * 160
        steps += ['free=%d' % i for i in range(160) if i % 4]
        return self.one(*steps, 'oom=%d' % (300 * MIB), conf=conf)

    def test_fragmented(self):
        report = self.pieces('expandable_segments:False')
        self.says(report, 'fragmented',
                  r'.*: there is that much, but in pieces\. 160\.00 MiB free '
                  r'on the card, and 600\.00 MiB cached in 40 pieces, the '
                  r'largest 15\.00 MiB: fragmentation\. Remapping was off '
                  r'because expandable_segments is False\. '
                  r'expandable_segments:True would have helped\.')

    def test_what_it_names_helps_there_too(self):
        result = self.run_program(
            ['drv_script'] + ['alloc=%d' % (5 * MIB)] * 160
            + ['free=%d' % i for i in range(160) if i % 4]
            + ['oom=%d' % (300 * MIB)],
            conf='quiet:True,expandable_segments:True', sim='memory:1GiB')
        self.assertIn(b'oom %d: 0\n' % (300 * MIB), result.out)

    def test_outside_the_pool(self):
        report = self.one('async=700M', 'plain=400M', program='drv_caps',
                          conf='memory_limit:unlimited',
                          sim='memory:1GiB')
        self.says(report, 'outside_the_pool',
                  r'.*: this process holds 7\d\d\.00 MiB of the card\'s '
                  r'1\.00 GiB outside the pool, where it cannot be cached or '
                  r'moved: 7\d\d\.00 MiB pools of cudaMallocAsync, what they '
                  r'reserve\. The pool has 0 B live and 0 B cached; '
                  r'.* are free\.')

    def test_the_driver_refuses_what_is_outside(self):
        """Memory that no pool serves is reported as well."""
        for steps in (('plain=800M', 'async=500M'),
                      ('plain=800M', 'own=500M'),
                      ('plain=800M', 'array=500M')):
            with self.subTest(steps):
                report = self.one(*steps, program='drv_caps')
                self.assertEqual(report['oom_cause'], 'held_live')
                self.assertEqual(report['oom_allocated_bytes'], 800 * MIB)
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))

    def test_passthrough(self):
        report = self.one('alloc=%d' % (800 * MIB), 'oom=%d' % (500 * MIB),
                          conf='backend:passthrough')
        self.assertEqual(report['oom_cause'], 'outside_the_pool')

    def test_all_live(self):
        report = self.one('alloc=%d' % (800 * MIB), 'oom=%d' % (200 * MIB))
        self.says(report, 'held_live',
                  r'.*: the program itself holds 800\.00 MiB live, in 1 '
                  r'allocation\. That is no matter of the allocator: of the '
                  r'card\'s 1\.00 GiB, 160\.00 MiB are free and 0 B cached\. '
                  r'stacks:sample tells which lines hold it\.')

    def test_driver_refuses(self):
        report = self.one('alloc=4096', 'oom=%d' % (10 * MIB),
                          sim='memory:1GiB,fail:cuMemCreate@2+')
        self.assertEqual(report['oom_cause'], 'driver_refused')

    def test_another_device(self):
        report = self.one('alloc=%d' % (800 * MIB), 'oom=%d' % (200 * MIB),
                          sim='memory:1GiB,devices:3,memory_step:512MiB')
        self.assertIn(' Device 2 has 2.00 GiB free.', report['oom_answer'])
        self.assertEqual(report['oom_roomy_device'], 2)

    def test_where_the_events_are(self):
        report = self.one('alloc=4096', 'oom=%d' % (2000 * MIB))
        self.assertTrue(os.path.exists(report['record']), report['record'])
        with open(os.path.join(self.dir, [
                n for n in self.reports() if n.endswith('oom-1.txt')][0])) \
                as file:
            text = ' '.join(file.read().split())
        name, = [n for n in self.reports() if n.endswith('oom-1.json')]
        self.assertIn('are in %s; `gpupool report %d` shows them. `gpupool '
                      'snapshot %s` makes' % (report['record'], report['pid'],
                                              name), text)

    def test_in_one_line_on_stderr(self):
        result = self.run_program(
            ['drv_script', 'alloc=4096', 'oom=%d' % (2000 * MIB)],
            sim='memory:1GiB')
        line = result.err.decode().splitlines()[0]
        self.assertRegex(
            line, r'^gpupool: out of memory: cuMemAlloc_v2 asked for .* no '
            r'setting helps, the request alone exceeds the card; report '
            r'\S+\.oom-1\.txt$')


class Others(OomTest):

    def crowd(self, conf='', memory='1GiB', bystander=None):
        sim = 'memory:%s,context:16MiB,shared:%s' % (memory, self.share)
        other = self.script(bystander or 'neighbour_wait:0', sim)
        self.step(other, 'alloc=%d' % (700 * MIB))
        self.assertTrue(wait_for(lambda: bystander or any(
            p.devices for p in self.processes())))
        mine = self.script('stacks:off,' + conf, sim)
        self.step(mine, 'alloc=%d' % (20 * MIB))
        self.assertEqual(self.step(mine, 'oom=%d' % (300 * MIB)),
                         'oom %d: 2' % (300 * MIB))
        report = self.report(mine.pid)
        return other, report

    def test_by_name(self):
        other, report = self.crowd()
        self.assertEqual(report['oom_cause'], 'other_processes')
        self.assertRegex(
            report['oom_answer'],
            r'other processes hold 716\.00 MiB of the card\'s 1\.00 GiB: pid '
            r'%d \(drv_script\) 716\.00 MiB\. This process has 20\.00 MiB '
            r'live in the pool' % other.pid)
        self.assertEqual(report['oom_others'][0]['pid'], other.pid)

    def test_one_without_gpupool(self):
        """NVML knows it, and the kernel its name."""
        other, report = self.crowd(bystander='enabled:False')
        self.assertEqual(report['oom_others'], [
            {'pid': other.pid, 'name': 'drv_script', 'bytes': 716 * MIB,
             'cached_bytes': 0}])

    def test_what_it_caches(self):
        """It will not be asked: the setting that would have helped."""
        sim = 'memory:1GiB,context:16MiB,shared:%s' % self.share
        other = self.script('cache_policy:keep', sim)
        self.step(other, 'alloc=%d' % (700 * MIB))
        self.step(other, 'free=0')
        self.assertTrue(wait_for(lambda: any(
            d.cached for p in self.processes() for d in p.devices)))
        mine = self.script('neighbour_wait:0', sim)
        self.step(mine, 'alloc=%d' % (20 * MIB))
        self.step(mine, 'oom=%d' % (300 * MIB))
        report = self.report(mine.pid)
        self.assertRegex(report['oom_answer'],
                         r'Of what they hold, 700\.00 MiB are only cached\. '
                         r'neighbour_wait:200 would have helped\.$')


if __name__ == '__main__':
    import unittest
    unittest.main()
