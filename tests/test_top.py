"""gpupool top: in a real terminal, on a page, and for scripts."""
import csv
import io
import json
import os
import re
import signal
import stat
import subprocess
import sys
import unittest

import harness
from files import wait_for
from screen import ScreenTest
from verbs import GPUPOOL, MIB, VerbTest

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_cards  # noqa: E402  (found through the line above)
import gpupool_text  # noqa: E402


class TopTest(VerbTest):

    def trainers(self):
        """Two that share a card; the second has a limit and holds more."""
        self.procs = [self.trainer(100), self.trainer(200,
                                                      'memory_limit:512MiB')]
        return self.procs

    def trainer(self, mib, conf=''):
        """As holder(), with a name that does not tell where the build is, and
        a cache that stays."""
        program = self.build.program('drv_script')
        conf = ','.join(filter(None, ['cache_policy:keep', conf]))
        proc = self.start(['/trainer', 'stdin=1'], conf,
                          'memory:1GiB,context:16MiB,shared:' + self.share,
                          executable=program)
        self.step(proc, 'alloc=%d' % (mib * MIB))
        self.step(proc, 'alloc=%d' % (50 * MIB))
        self.step(proc, 'free=1')
        self.assertTrue(wait_for(
            lambda: self.device(proc) and
            self.device(proc).figures['num_free_calls'] == 1))
        return proc

    def normal(self, text):
        """Without what differs from run to run."""
        text = re.sub(r'\d\d:\d\d:\d\d', 'HH:MM:SS', text)
        for number, proc in enumerate(self.procs):
            text = text.replace(str(proc.pid).rjust(7), ' PID-%d ' % number)
        return text


class Page(TopTest):

    def top(self, *args, env=None, **kwargs):
        result = self.gpupool('top', '-1', *args, env=env, **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return result.out.decode()

    def golden(self, name, text):
        path = os.path.join(harness.ROOT, 'tests', 'golden', name)
        text = self.normal(text)
        if os.environ.get('GPUPOOL_WRITE_GOLDEN'):
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        with open(path, encoding='utf-8') as file:
            self.assertEqual(text, file.read())

    def test_page(self):
        self.trainers()
        self.golden('top-once.txt', self.top('-d', '0'))
        self.golden('top-once-ascii.txt', self.top('-d', '0', '--ascii'))

    def test_ascii_where_the_locale_is(self):
        self.trainers()
        for env in {'LC_ALL': 'C'}, {'LC_ALL': ''}, {'LC_ALL': '',
                                                     'LANG': 'de_DE'}:
            self.top('-d', '0', env=self.verb_env(**env)).encode('ascii')
        text = self.top('-d', '0', env=self.verb_env(LC_ALL='',
                                                     LANG='en_US.UTF-8'))
        self.assertIn('█', text)

    def test_no_colour_and_width_off_a_terminal(self):
        self.trainers()
        for columns in '80', '200', '40':
            text = self.top('-d', '0', env=self.verb_env(
                COLUMNS=columns, TERM='xterm-256color'))
            self.assertNotIn('\033', text)
            self.assertLessEqual(max(map(len, text.splitlines())),
                                 int(columns))

    def test_unknown_key(self):
        result = self.gpupool('top', '-1', '--sort', 'WRONG')
        self.assert_ok(result, 2)
        text = result.err.decode()
        self.assertTrue(text.startswith('gpupool: argument -s/--sort: '), text)
        self.assertIn("'allocated'", text)
        self.assertLess(max(map(len, text.splitlines())), 80)

    def test_json(self):
        self.trainers()
        objects = json.loads(self.top('--json'))['processes']
        self.assertEqual([p['pid'] for p in objects],
                         [proc.pid for proc in reversed(self.procs)])
        big, small = objects
        self.assertEqual((small['allocated_bytes'], big['allocated_bytes']),
                         (100 * MIB, 200 * MIB))
        self.assertEqual((small['limit_bytes'], big['limit_bytes']),
                         (None, 512 * MIB))
        self.assertEqual(big['name'], 'drv_script')
        self.assertEqual(big['command'], '/trainer stdin=1')
        for row in objects:
            self.assertEqual(row['allocations_per_s'], 0)
            self.assertEqual(row['growth_bytes_per_s'], 0)
            self.assertEqual(row['reserved_bytes'],
                             row['allocated_bytes'] + row['cached_bytes'])
            self.assertFalse([v for v in row.values()
                              if isinstance(v, (list, dict))])

    def test_rates(self):
        proc = self.start(
            [os.path.join(self.build.path, 'examples', 'churn'), '--ops',
             '100000000'], sim='shared:' + self.share)
        self.assertTrue(wait_for(lambda: self.device(proc)))
        row, = json.loads(self.top('--json'))['processes']
        self.assertGreater(row['allocations_per_s'], 1)
        row, = json.loads(self.top('--json', '-d', '0'))['processes']
        self.assertIsNone(row['allocations_per_s'])

    def test_csv(self):
        self.trainers()
        rows = list(csv.DictReader(io.StringIO(
            self.top('--csv', '--sort', 'pid', '--reverse', '-d', '0'))))
        self.assertEqual([int(row['pid']) for row in rows], sorted(
            (proc.pid for proc in self.procs), reverse=True))
        self.assertEqual({row['limit_bytes'] for row in rows},
                         {'', str(512 * MIB)})

    def test_lines_for_scripts(self):
        """Without -1 an object a line."""
        self.trainers()
        proc = self.spawn('top', '--json', '-d', '0.1')
        for _ in range(3):
            self.assertEqual(len(json.loads(
                proc.stdout.readline())['processes']), 2)

    def test_a_reader_that_leaves(self):
        self.trainers()
        proc = self.spawn('top', '-d', '0.1')
        proc.stdout.readline()
        proc.stdout.close()
        self.assertEqual(proc.wait(120), 0)
        self.assertEqual(proc.stderr.read(), b'')
        proc.stdout = open(os.devnull, 'rb')

    def test_nobody(self):
        self.assertIn('gpupool run', self.top())
        self.assertEqual(json.loads(self.top('--json'))['processes'], [])

    def test_stopped(self):
        proc = self.trainer(100)
        os.kill(proc.pid, signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: not self.process(proc).responds))
        self.assertIn('stopped: ', self.top('-d', '0'))

    def test_foreign_file(self):
        self.trainers()
        path = os.path.join(self.runtime, '1-1-0.gpupool')
        with open(path, 'w') as file:
            file.write('nonsense')
        text = self.top('-d', '0')
        self.assertIn('Not read: ' + self.runtime[:20], text)
        self.assertIn('drv_script', text)

    def test_wrong_use(self):
        for args in (['--sort', 'x'], ['--json', '--csv'], ['-d', '-1']):
            self.assert_ok(self.gpupool('top', '-1', *args), 2)

    def test_hostile_name(self):
        """A program's name cannot drive the terminal."""
        proc = self.start(['/\033[31m\nx', 'stdin=1'],
                          executable=self.build.program('drv_script'))
        self.step(proc, 'alloc=%d' % MIB)
        self.assertTrue(wait_for(lambda: self.device(proc)))
        text = self.top('-d', '0', env=self.verb_env(COLUMNS='200'))
        self.assertNotIn('\033', text)
        self.assertIn('/?[31m?x', text)


class Cards(TopTest):
    """What nvidia-smi says, from a stand-in that prints such lines."""

    def smi(self, text, status=0):
        place = os.path.join(self.dir, 'bin')
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, 'nvidia-smi')
        with open(path, 'w') as file:
            file.write('#!/bin/sh\ncat <<"E"\n%s\nE\nexit %d\n'
                       % (text, status))
        os.chmod(path, stat.S_IRWXU)
        env = self.verb_env()
        env['PATH'] = place + ':' + env['PATH']
        return env

    LINES = ('0, GPU-6b3c0d9e-0000-0000-0000-000000000001, NVIDIA H200, '
             '143771, 71885\n'
             '1, GPU-6b3c0d9e-0000-0000-0000-000000000002, NVIDIA H200, '
             '143771, 0\n'
             '2, GPU-6b3c0d9e-0000-0000-0000-000000000003, Odd, [N/A], '
             '[N/A]')

    def test_cards_without_a_process(self):
        result = self.gpupool('top', '-1', env=self.smi(self.LINES))
        self.assert_ok(result)
        lines = result.out.decode().splitlines()
        self.assertIn('2 cards', lines[0])
        self.assertRegex(lines[1], r'^GPU 0 NVIDIA H200 +░+·+ +70.2G/140G '
                                   r'used  none by gpupool$')
        self.assertRegex(lines[2], r'^GPU 1 NVIDIA H200 +·+ +0/140G')

    def test_a_card_of_both(self):
        """One line for a card that nvidia-smi and a ledger know."""
        proc = self.trainer(100)
        uuid = self.device(proc).uuid
        line = '7, GPU-%s-%s-%s-%s-%s, Simulated GPU, 1024, 800' % (
            uuid[:8], uuid[8:12], uuid[12:16], uuid[16:20], uuid[20:])
        result = self.gpupool('top', '-1', '-d', '0', env=self.smi(line))
        self.assert_ok(result)
        self.assertRegex(result.out.decode().splitlines()[1],
                         r'^GPU 7 .* 800M/1.0G used  \S+ cached  \d+M others$')

    def test_one_that_fails(self):
        for text, status in ('NVIDIA-SMI has failed', 9), ('a,b\n,,,,\n', 0):
            result = self.gpupool('top', '-1', env=self.smi(text, status))
            self.assert_ok(result)
            self.assertIn(b'0 cards', result.out)

    def test_uuid(self):
        self.assertEqual(gpupool_cards.plain_uuid(
            'GPU-6B3c0d9e-1111-2222-3333-444444444444'),
            '6b3c0d9e111122223333444444444444')


class Live(TopTest, ScreenTest):

    def test_80x24(self):
        self.trainers()
        self.open(80, 24, 'top', '-d', '0.1')
        self.assert_golden('top-80x24.txt', self.normal)
        self.assertIn('\033[', self.seen(styled=True))

    def test_40x24(self):
        self.trainers()
        self.open(40, 24, 'top', '-d', '0.1')
        self.assert_golden('top-40x24.txt', self.normal)

    def test_200x50(self):
        self.trainers()
        self.open(200, 50, 'top', '-d', '0.1')
        self.assert_golden('top-200x50.txt', self.normal)

    def test_keys(self):
        small, big = self.trainers()
        self.open(80, 24, 'top', '-d', '0.1')

        def order(text):
            return [int(pid) for pid in re.findall(r'(?m)^ *(\d+) +0 ', text)]

        self.until(lambda text: order(text) == [big.pid, small.pid])
        self.type('R')
        self.until(lambda text: order(text) == [small.pid, big.pid])
        self.tmux('send-keys', 'Up', 'F5', 'R', 'p')  # at once, and no q
        self.until(lambda text: order(text) == sorted((small.pid, big.pid))
                   and 'sorted by pid' in text)
        self.type('h')
        self.until(lambda text: 'largest free range' in text)
        self.type('x')
        self.until(order)
        self.type('q')
        # The screen is the shell's again.
        text = self.until(lambda text: 'PID' not in text)
        self.type('echo a-$((1 + 1))\n')
        self.until(lambda text: 'a-2' in text)

    def test_resize(self):
        self.trainers()
        self.open(80, 24, 'top', '-d', '60')
        self.until(lambda text: 'PID' in text and 'PEAK' not in text)
        self.tmux('resize-window', '-x', '200', '-y', '50')
        self.until(lambda text: 'PEAK' in text)
        self.tmux('resize-window', '-x', '50', '-y', '6')
        text = self.until(lambda text: 'PEAK' not in text and 'PID' in text
                          and len(text.splitlines()) <= 6)
        self.assertLessEqual(max(map(len, text.splitlines())), 50)

    def test_no_colour(self):
        self.trainers()
        self.open(80, 24, 'top', '-d', '0.1', env=['NO_COLOR=1'])
        self.until(lambda text: 'PID' in text)
        self.assertNotIn('\033[', self.seen(styled=True))

    def test_stop_and_continue(self):
        self.trainers()
        self.open(80, 24, 'top', '-d', '0.1')
        self.until(lambda text: 'PID' in text)
        self.tmux('send-keys', 'C-z')
        self.until(lambda text: 'PID' not in text)
        self.type('stty -a | grep -c -- -echo\\ ; fg\n')
        self.until(lambda text: 'PID' in text)
        self.tmux('send-keys', 'C-c')
        self.until(lambda text: 'PID' not in text)

    def test_terminated(self):
        """The terminal is as before."""
        self.trainers()
        self.open(80, 24, 'top', '-d', '0.1')
        self.until(lambda text: 'PID' in text)
        listed = subprocess.run(
            ['ps', '-o', 'pid=,args=', '--ppid', self.tmux(
                'display', '-p', '#{pane_pid}').stdout.decode().strip()],
            stdout=subprocess.PIPE).stdout.decode()
        pid = int(re.search(r'(\d+) .*%s' % re.escape(GPUPOOL),
                            listed).group(1))
        os.kill(pid, signal.SIGTERM)
        self.until(lambda text: 'PID' not in text)
        self.type('stty | grep -c icanon; echo done\n')
        self.until(lambda text: '\ndone' in text)
        self.assertNotIn('\n1\n', self.seen())


class Text(unittest.TestCase):

    def test_short(self):
        for count, text in ((0, '0'), (999, '999'), (1000, '1.0K'),
                            (1536, '1.5K'), (100 << 20, '100M'),
                            (1023 << 20, '1.0G'), (141 << 30, '141G'),
                            (-1536, '-1.5K'), (None, '-'),
                            (999 << 50, '999P')):
            self.assertEqual(gpupool_text.short(count), text)
            self.assertLessEqual(len(text.lstrip('-')), 5)

    def test_rate(self):
        for value, text in ((None, '-'), (0, '0'), (0.5, '0.5'),
                            (999, '999'), (1234.5, '1.2k'),
                            (1e6, '1M'), (2.5e7, '25M')):
            self.assertEqual(gpupool_text.rate(value), text)

    def test_sparkline(self):
        self.assertEqual(gpupool_text.sparkline([0, 4, 8], 4, top=8), ' ▁▅█')
        self.assertEqual(gpupool_text.sparkline([], 3), '   ')
        self.assertEqual(gpupool_text.sparkline([0, 0], 2), '▁▁')
        self.assertEqual(len(gpupool_text.sparkline(range(99), 8, True)), 8)

    def test_bar(self):
        self.assertEqual(gpupool_text.bar([(0.5, '#'), (0.25, '=')], 8, True),
                         '####==..')
        self.assertEqual(gpupool_text.bar([(0.001, '#')], 8, True),
                         '#.......')
        self.assertEqual(gpupool_text.bar([(2.0, '#'), (1, '=')], 4, True),
                         '####')


if __name__ == '__main__':
    unittest.main()
