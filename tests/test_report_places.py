"""What report files are called, what they are written as, where they go when
their directory cannot be written; and the report that warns."""
import json
import os
import re
import subprocess
import unittest

import harness
from harness import written

MIB = 1 << 20


class PlacesTest(harness.CudaTest):

    def script(self, *steps, **kwargs):
        return self.run_program(['drv_script'] + list(steps), **kwargs)

    def names(self, directory=None):
        return sorted(os.listdir(directory or self.dir))

    def read(self, ending):
        name, = [n for n in self.names() if n.endswith(ending)]
        with open(os.path.join(self.dir, name)) as file:
            return json.load(file)


class Names(PlacesTest):

    def test_pattern(self):
        self.assert_ok(self.script(
            'alloc=4096', conf='report_name:%e.%r-%h_%t',
            env={'RANK': '5', 'LOCAL_RANK': '1'}))
        for name in self.names():
            self.assertRegex(name, r'^drv_script\.5-[\w.+-]+_\d{8}T\d{6}Z'
                                   r'\.exit\.(json|txt)$')
        self.assertEqual(len(self.names()), 2)

    def test_rank_of_each_launcher(self):
        for key in ('SLURM_PROCID', 'OMPI_COMM_WORLD_RANK', 'PMI_RANK',
                    'LOCAL_RANK'):
            self.assert_ok(self.script('alloc=4096', conf='report_name:%r',
                                       env={key: key.lower()}))
            self.assertIn(key.lower() + '.exit.json', self.names())

    def test_formats(self):
        for formats, endings in (('text', ['txt']), ('json', ['json']),
                                 ('[json,text]', ['json', 'txt'])):
            with self.subTest(formats):
                result = self.script('alloc=4096',
                                     conf='report_format:' + formats)
                self.assert_ok(result)
                self.assertEqual([n.rsplit('.', 1)[1] for n in self.names()],
                                 endings)
                told = re.search(rb'report (\S+)\n', result.err).group(1)
                self.assertTrue(os.path.exists(told), result.err)
                for name in self.names():
                    os.unlink(os.path.join(self.dir, name))

    def test_each_process_of_a_job(self):
        self.assert_ok(self.run_program(
            ['/bin/sh', '-c', 'RANK=0 "$0" alloc=4096 & '
             'RANK=1 "$0" alloc=4096; wait',
             self.build.program('drv_script')],
            conf='report_name:job-%r,report_format:json'))
        self.assertEqual(self.names(), ['job-0.exit.json', 'job-1.exit.json'])


class Elsewhere(PlacesTest):
    """The directory cannot be written: one line, and the report is in the
    runtime directory."""

    def setUp(self):
        super().setUp()
        self.runtime = harness.scratch_dir()

    def elsewhere(self):
        return [n for n in self.names(os.path.join(self.runtime, 'gpupool'))
                if not n.endswith('.gpupool')]

    def fails(self, directory, *steps, **kwargs):
        result = self.script(*steps, conf='report_dir:' + directory,
                             env={'XDG_RUNTIME_DIR': self.runtime}, **kwargs)
        self.assertEqual(self.reports(), [])
        return result

    def test_missing(self):
        result = self.fails('/no/such/directory', 'alloc=4096', 'exit=4')
        self.assert_ok(result, 4)
        line, = result.err.decode().splitlines()
        match = re.fullmatch(
            r'gpupool: cannot write /no/such/directory/\S+: .*report_dir.*; '
            r'the report is (\S+)', line)
        self.assertTrue(match, line)
        with open(match.group(1)) as file:
            self.assertIn('gpupool report at exit', file.read())
        self.assertEqual(len(self.elsewhere()), 2)

    def test_full(self):
        """/dev/full is no directory; a file system without room is mounted
        where that is allowed."""
        place = os.path.join(self.dir, 'full')
        os.mkdir(place)
        program = self.build.program('drv_script')
        mount = subprocess.run(
            ['unshare', '-m', 'true'], stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        if mount.returncode:
            self.skipTest('may not mount')
        result = self.run_program(
            ['/usr/bin/unshare', '-m', '/bin/sh', '-c',
             'mount -t tmpfs -o size=4k none "$1" || exit 77; '
             'exec "$0" alloc=4096 exit=6', program, place],
            conf='report_dir:' + place,
            env={'XDG_RUNTIME_DIR': self.runtime})
        if result.status == 77:
            self.skipTest('may not mount')
        self.assert_ok(result, 6)
        self.assertIn(b'No space left on device', result.err)
        self.assertEqual(len(result.err.splitlines()), 1, result.err)
        self.assertEqual(len(self.elsewhere()), 2)

    def test_also_the_others(self):
        result = self.fails('/proc/self', 'alloc=4096', 'raise=USR1',
                            'await=%s/gpupool/*.usr1-1.txt' % self.runtime,
                            'await=%s/gpupool/*.usr1-1.json' % self.runtime,
                            'oom=99000000000000')
        self.assert_ok(result)
        self.assertEqual(sorted(n.split('.', 1)[1] for n in self.elsewhere()),
                         ['exit.json', 'exit.txt', 'oom-1.json', 'oom-1.txt',
                          'usr1-1.json', 'usr1-1.txt'])

    def test_they_do_not_pile_up(self):
        for _ in range(4):
            self.assert_ok(self.script(
                'alloc=4096', conf='report_dir:/no/such,keep_reports:2,'
                'quiet:True', env={'XDG_RUNTIME_DIR': self.runtime}))
        self.assertEqual(len(self.elsewhere()), 4)


class Warning(PlacesTest):

    def warnings(self):
        return [n for n in self.names() if '.warn-' in n and 'json' in n]

    def run_to(self, *steps, conf='warn_at:0.5', sim='memory:1GiB'):
        self.assert_ok(self.script(*steps, conf=conf + ',quiet:True',
                                   sim=sim))

    def test_below(self):
        self.run_to('alloc=%d' % (500 * MIB), 'ticks=2')
        self.assertEqual(self.warnings(), [])

    def test_once(self):
        self.run_to('alloc=%d' % (500 * MIB), 'alloc=%d' % (100 * MIB),
                    *written('warn-1'), 'alloc=%d' % (50 * MIB), 'ticks=2')
        self.assertEqual(len(self.warnings()), 1)
        report = self.read('.warn-1.json')
        self.assertEqual(report['reason'], 'warn')
        self.assertEqual(report['warn_device'], 0)
        self.assertGreaterEqual(report['warn_used_bytes'], 512 * MIB)
        self.assertEqual(report['warn_of_bytes'], 1024 * MIB)

    def test_of_the_limit(self):
        self.run_to('alloc=%d' % (120 * MIB), *written('warn-1'),
                    conf='warn_at:0.5,memory_limit:200MiB,'
                         'count_context:False')
        self.assertEqual(self.read('.warn-1.json')['warn_of_bytes'],
                         200 * MIB)

    def test_again_after_it_was_well_below(self):
        self.run_to('alloc=%d' % (300 * MIB), 'alloc=%d' % (250 * MIB),
                    *written('warn-1'), 'free=0', 'ticks=2',
                    'alloc=%d' % (300 * MIB), *written('warn-2'))
        self.assertEqual(len(self.warnings()), 2)

    def test_not_for_a_little(self):
        """A program that takes and frees around the mark."""
        steps = ['alloc=%d' % (505 * MIB)]
        for i in range(1, 4):
            steps += ['alloc=%d' % (20 * MIB), *written('warn-1'),
                      'ticks=2', 'free=%d' % i, 'ticks=2']
        self.run_to(*steps)
        self.assertEqual(len(self.warnings()), 1)

    def test_what_is_cached_is_not_in_use(self):
        self.run_to('alloc=%d' % (300 * MIB), 'free=0',
                    'alloc=%d' % (20 * MIB), *written('warn-1'), 'ticks=2',
                    conf='warn_at:0.25,'
                    'cache_policy:keep')
        self.assertEqual(len(self.warnings()), 1)
        self.assertEqual(
            self.read('.exit.json')['pools'][0][
                'reserved_bytes.all.current'] // MIB, 300)

    def test_off(self):
        self.run_to('alloc=%d' % (900 * MIB), 'ticks=2', conf='warn_at:off')
        self.assertEqual(self.warnings(), [])


if __name__ == '__main__':
    unittest.main()
