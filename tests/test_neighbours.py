"""Processes that share a card: they make room for each other, die at any moment
without harm to the others, and believe nothing that is not theirs."""
import os
import random
import re
import signal
import subprocess
import sys
import time
import unittest
from unittest import mock

import files
import harness
from files import FilesTest, gpupool_file, gpupool_ledger, wait_for

MIB = 1 << 20
KILLS = int(os.environ.get('GPUPOOL_TEST_KILLS', '20'))
NOBODY = 65534


def state_of(pid):
    with open('/proc/%d/stat' % pid) as file:
        return file.read().rpartition(')')[2].split()[0]


class CardTest(FilesTest):
    """A card of 1 GiB; a context takes 16 MiB of it."""

    def alloc(self, proc, mib):
        """0: it got the memory; 2: out of memory."""
        answer = self.step(proc, 'alloc=%d' % (mib * MIB))
        return int(answer.split(': ')[1])

    def free(self, proc, index):
        self.assertEqual(self.step(proc, 'free=%d' % index), 'free: 0')

    def known(self, *procs):
        """Every process has written its ledger."""
        pids = {proc.pid for proc in procs}
        self.assertTrue(wait_for(lambda: pids <= {
            p.pid for p in self.processes() if p.devices}))

    def process(self, proc):
        found, = [p for p in self.processes() if p.pid == proc.pid]
        return found

    def idle_and_needy(self, conf='', needy_conf=''):
        """One that caches 700 MiB, and one that has hardly anything."""
        idle, needy = self.script(conf), self.script(needy_conf)
        self.assertEqual(self.alloc(idle, 700), 0)
        self.free(idle, 0)
        self.assertEqual(self.alloc(needy, 1), 0)
        self.known(idle)
        return idle, needy

    def requests(self):
        return [name for name in self.names() if name.startswith('req-')]

    def freeze(self, proc):
        os.kill(proc.pid, signal.SIGSTOP)
        self.assertTrue(wait_for(lambda: state_of(proc.pid) == 'T'))


class Room(CardTest):

    def test_what_is_cached_is_given(self):
        patient = 'neighbour_wait:10s'  # on a slow machine, too
        idle, needy = self.idle_and_needy(patient, patient)
        self.assertEqual(self.alloc(needy, 800), 0)
        self.assertEqual(self.requests(), [])
        # There is no more to be had; who has it in use keeps it.
        self.assertEqual(self.alloc(idle, 400), 2)
        self.free(needy, 1)
        self.assertEqual(self.alloc(idle, 400), 0)
        for proc in idle, needy:
            status, err = self.finish(proc)
            self.assertEqual((status, err), (0, ''))
        figures = {f.pid: f.ledger()[0] for f in self.files()}
        self.assertGreaterEqual(
            figures[idle.pid]['gave_neighbours_bytes'], 600 * MIB)
        self.assertGreaterEqual(
            figures[needy.pid]['neighbours_gave_bytes'], 600 * MIB)

    def test_each_sees_what_the_others_hold(self):
        """The second is not told that the card is empty."""
        first, second = self.script(), self.script()
        self.assertEqual(self.alloc(first, 600), 0)
        self.assertEqual(self.step(second, 'memory=1'),
                         'memory: 0, 392 of 1024 MiB')
        self.assertEqual(self.step(first, 'memory=1'),
                         'memory: 0, 392 of 1024 MiB')
        self.assertEqual(self.alloc(second, 300), 0)
        self.assertEqual(self.step(first, 'memory=1'),
                         'memory: 0, 92 of 1024 MiB')

    def test_only_as_much_as_is_needed(self):
        idle, needy = self.idle_and_needy()
        self.assertEqual(self.alloc(needy, 400), 0)
        self.assertTrue(wait_for(
            lambda: self.process(idle).figures['gave_neighbours_bytes']))
        self.assertLess(self.process(idle).figures['gave_neighbours_bytes'],
                        600 * MIB)

    def test_what_the_driver_serves_too(self):
        """Memory that no pool holds: the neighbours are asked as well."""
        for conf in 'backend:passthrough', 'backend:cudaMallocAsync':
            idle, needy = self.idle_and_needy(
                needy_conf=conf + ',neighbour_wait:10s')
            self.assertEqual(self.alloc(needy, 800), 0)
            self.assertEqual(self.finish(idle)[0], 0)
            self.assertEqual(self.finish(needy)[0], 0)

    def full_of_cache(self, conf=''):
        """One whose cache leaves no room for another context."""
        idle = self.script(conf)
        self.assertEqual(self.alloc(idle, 1000), 0)
        self.free(idle, 0)
        self.known(idle)
        return idle

    def test_context(self):
        """Whichever way it is made, and as the first thing a program does."""
        patient = 'neighbour_wait:10s'
        for way in 'retain', 'v1', 'v2', 'v3', 'v4':
            with self.subTest(way):
                idle, needy = self.full_of_cache(), self.script(patient)
                answer = self.step(needy, 'context=' + way)
                if answer == 'context: 500':
                    continue  # of a later version than the headers here
                self.assertEqual(answer, 'context: 0')
                self.assertEqual(self.finish(needy), (0, ''))
                self.assertGreater(
                    self.process(idle).figures['gave_neighbours_bytes'], 0)
                self.kill(idle)

    def test_context_counts_in_full(self):
        """What the neighbours gave for it is not taken off its size."""
        self.full_of_cache()
        needy = self.script('neighbour_wait:10s,memory_limit:500MiB')
        self.assertEqual(self.alloc(needy, 1), 0)
        self.known(needy)
        self.assertEqual(self.process(needy).devices[0].context, 16 * MIB)

    def test_context_of_the_runtime(self):
        idle = self.full_of_cache()
        result = self.run_program(
            [os.path.join(self.build.path, 'examples', 'churn'), '--ops',
             '50', '--max-bytes', str(MIB)],
            conf='quiet:True,neighbour_wait:10s',
            sim='memory:1GiB,context:16MiB,shared:' + self.share,
            env={'XDG_RUNTIME_DIR': self.xdg})
        self.assert_ok(result)
        self.assertGreater(
            self.process(idle).figures['gave_neighbours_bytes'], 0)

    def test_context_that_nobody_helps(self):
        """What is in use stays, and the program is told."""
        busy, needy = self.script(), self.script()
        self.assertEqual(self.alloc(busy, 1000), 0)
        self.known(busy)
        self.assertEqual(self.step(needy, 'context=retain'), 'context: 2')
        self.free(busy, 0)
        self.assertEqual(self.step(needy, 'context=retain'), 'context: 0')

    def test_context_asks_nobody_if_told(self):
        self.full_of_cache()
        needy = self.script('neighbour_wait:0')
        self.assertEqual(self.step(needy, 'context=retain'), 'context: 2')

    def test_floor(self):
        idle, needy = self.idle_and_needy('reserve_floor:500MiB')
        self.assertEqual(self.alloc(needy, 800), 2)
        self.assertGreaterEqual(
            gpupool_ledger.ask(self.process(idle), 'ping').ok, True)
        self.assertTrue(wait_for(
            lambda: self.process(idle).devices[0].reserved < 700 * MIB))
        device, = self.process(idle).devices
        self.assertGreaterEqual(device.reserved, 500 * MIB)
        self.assertEqual(device.reserve_floor, 500 * MIB)
        self.assertEqual(self.alloc(needy, 400), 0)

    def test_nobody_is_asked(self):
        idle, needy = self.idle_and_needy(needy_conf='neighbour_wait:0')
        self.assertEqual(self.alloc(needy, 800), 2)
        self.assertEqual(
            self.process(idle).figures['asked_by_neighbours'], 0)

    def test_another_card(self):
        idle = self.script(sim='memory:1GiB,context:16MiB')
        needy = self.script()
        self.assertEqual(self.alloc(idle, 700), 0)
        self.free(idle, 0)
        self.known(idle)
        self.assertEqual(self.alloc(needy, 2000), 2)
        self.assertEqual(
            self.process(idle).figures['asked_by_neighbours'], 0)

    def test_impossible(self):
        """No neighbour can help: none is asked."""
        idle, needy = self.idle_and_needy()
        self.assertEqual(self.alloc(needy, 4000), 2)
        self.assertEqual(
            self.process(idle).figures['asked_by_neighbours'], 0)

    def test_one_that_is_stopped(self):
        idle, needy = self.idle_and_needy()
        self.freeze(idle)
        self.assertEqual(self.alloc(needy, 800), 2)
        self.assertEqual(self.requests(), [])
        os.kill(idle.pid, signal.SIGCONT)
        self.assertTrue(wait_for(lambda: self.process(idle).responds))
        self.assertEqual(self.alloc(needy, 800), 0)

    def test_both_at_once(self):
        """Each asks the other while it is asked."""
        procs = [self.script(), self.script()]
        for proc in procs:
            self.assertEqual(self.alloc(proc, 400), 0)
        self.known(*procs)
        for proc in procs:
            proc.stdin.write(b'alloc=%d\n' % (500 * MIB))
            proc.stdin.flush()
        for proc in procs:
            self.assertIn(b': 2', proc.stdout.readline())

    def test_the_program_is_not_held_up(self):
        """A thread that computes does not notice: the trim is another's."""
        idle, needy = self.idle_and_needy()
        idle.stdin.write(b'sleep=60000\n')  # its only thread is away
        idle.stdin.flush()
        self.assertEqual(self.alloc(needy, 800), 0)
        self.kill(idle)


class Control(CardTest):

    def ask(self, proc, text):
        return gpupool_ledger.ask(self.process(proc), text)

    def test_verbs(self):
        proc = self.script()
        self.alloc(proc, 300)
        self.alloc(proc, 100)
        self.free(proc, 0)
        self.known(proc)
        self.assertTrue(self.ask(proc, 'ping').ok)
        answer = self.ask(proc, 'trim')
        self.assertTrue(answer.ok)
        self.assertIn('gave back 300.00 MiB (%d bytes)' % (300 * MIB),
                      answer.text)
        device, = self.process(proc).devices
        self.assertEqual((device.reserved, device.peak_reserved),
                         (100 * MIB, 400 * MIB))
        answer = self.ask(proc, 'limit 200MiB')
        self.assertTrue(answer.ok, answer.text)
        self.assertIn('200.00 MiB', answer.text)
        self.assertEqual(self.process(proc).devices[0].cap, 200 * MIB)
        self.assertEqual(self.alloc(proc, 150), 2)
        self.assertTrue(self.ask(proc, 'limit unlimited').ok)
        self.assertIsNone(self.process(proc).devices[0].cap)
        self.assertEqual(self.alloc(proc, 150), 0)
        self.free(proc, 2)
        self.assertTrue(self.ask(proc, 'trim').ok)
        self.assertTrue(self.ask(proc, 'reset-peak').ok)
        device, = self.process(proc).devices
        self.assertEqual(device.peak_reserved, 100 * MIB)
        answer = self.ask(proc, 'report')
        self.assertTrue(answer.ok, answer.text)
        with open(answer.text) as file:
            self.assertIn('100.00 MiB', file.read())
        for text in 'limit', 'limit 5', 'trim lots', 'dance', '', 'trim-for 1', 'x' * 400:
            answer = self.ask(proc, text)
            self.assertFalse(answer.ok)
            self.assertTrue(answer.text)
        self.assertEqual(self.requests(), [])
        self.assertEqual(self.finish(proc), (0, ''))

    def test_nobody_there(self):
        proc = self.script()
        self.alloc(proc, 1)
        self.known(proc)
        process = self.process(proc)
        self.freeze(proc)
        with self.assertRaisesRegex(gpupool_ledger.Problem,
                                    'does not answer'):
            gpupool_ledger.ask(process, 'ping', timeout=0.3)
        self.kill(proc)
        with self.assertRaisesRegex(gpupool_ledger.Problem, 'has ended'):
            gpupool_ledger.ask(process, 'ping')
        with self.assertRaisesRegex(gpupool_ledger.Problem,
                                    'process %d has ended' % proc.pid):
            gpupool_ledger.by_pid(proc.pid, directory=self.runtime)
        with self.assertRaisesRegex(gpupool_ledger.Problem, 'uses no GPU'):
            gpupool_ledger.by_pid(os.getpid(), directory=self.runtime)
        self.assertEqual(self.requests(), [])

    def test_many_at_once(self):
        """Requests of several at a time are all answered."""
        proc = self.script()
        self.alloc(proc, 1)
        self.known(proc)
        code = ('import sys; sys.path.insert(0, %r)\n'
                'import gpupool_ledger as l\n'
                'p = l.by_pid(%d)\n'
                'for _ in range(25): assert l.ask(p, "trim").ok\n'
                % (os.path.join(harness.ROOT, 'scripts'), proc.pid))
        env = dict(harness.own_environment(), XDG_RUNTIME_DIR=self.xdg)
        askers = [subprocess.Popen([sys.executable, '-c', code], env=env)
                  for _ in range(8)]
        self.assertEqual([asker.wait() for asker in askers], [0] * 8)
        self.assertEqual(self.requests(), [])


class Kills(FilesTest):

    # More than fits, so that each asks the other all the time.
    SIM = 'memory:320MiB,context:4MiB,shared:%s'
    THREADS = 2
    CHURN = [str(THREADS), str(24 * MIB), '40']

    def start_churn(self, name):
        progress = os.path.join(self.dir, name)
        if os.path.exists(progress):
            os.unlink(progress)
        proc = self.start(['drv_churn', progress] + self.CHURN,
                          'neighbour_wait:50', self.SIM % self.share)
        return proc, progress

    def started_churn(self, name):
        """Once there is room for its context."""
        for _ in range(100):
            proc, progress = self.start_churn(name)
            if self.goes_on(proc, progress):
                return proc, progress
            self.assertEqual(proc.wait(), 1)
            for process in self.processes():
                self.assertTrue(gpupool_ledger.ask(process, 'trim').ok)
        self.fail('no room for a context')

    def steps(self, progress):
        return sum(p[0]
                   for p in files.read_progress(progress, self.THREADS))

    def said(self, proc):
        """What one that is gone had to say."""
        return proc.communicate() if proc.poll() is not None else ''

    def goes_on(self, proc, progress):
        before = self.steps(progress)
        return wait_for(lambda: self.steps(progress) > before + 50
                        or proc.poll() is not None) and proc.poll() is None

    def test_sigkill(self):
        """Either is killed at a random moment: the other goes on, and what is
        left is what the living have and a bounded number of the dead's."""
        rng = random.Random(5)
        pair = [self.started_churn('p0'), self.started_churn('p1')]
        asked = 0
        for _ in range(KILLS):
            time.sleep(rng.random() * 0.1)
            victim = rng.randrange(2)
            self.kill(pair[victim][0])
            other, progress = pair[1 - victim]
            self.assertTrue(self.goes_on(other, progress),
                            'the other hangs or is gone: status %s, %s'
                            % (other.poll(), self.said(other)))
            asked += sum(p.figures.get('asked_by_neighbours', 0)
                         for p in self.processes())
            pair[victim] = self.started_churn('p%d' % victim)
        self.assertGreater(asked, 0)
        for proc, _ in pair:
            self.kill(proc)
        last = self.start(['drv_script', 'alloc=4096', '_exit=0'],
                          'keep_reports:3')
        self.assertEqual(last.wait(), 0)
        names = self.names()
        self.assertTrue(all(gpupool_file.NAME.match(n) for n in names), names)
        self.assertLessEqual(len(names), 4)

    def test_64_at_once(self):
        procs = [self.start(['drv_script', 'alloc=4096', 'free=0', 'exit=0'],
                            'ring_size:64KiB',
                            'memory:16GiB,context:1MiB,shared:' + self.share)
                 for _ in range(64)]
        for proc in procs:
            out, err = proc.communicate()
            self.assertEqual((proc.returncode, out, err),
                             (0, b'alloc 4096: 0\nfree: 0\n', b''))
        self.assertLessEqual({p.pid for p in self.processes(dead=True)},
                             {proc.pid for proc in procs})
        self.assertEqual(self.processes(), [])


class Hostile(CardTest):
    """What lies in the directory and is not a good file of ours."""

    def place(self, name):
        os.makedirs(self.runtime, 0o700, exist_ok=True)
        return os.path.join(self.runtime, name)

    def litter(self, good):
        """All kinds of bad files under names of this living process, which
        nobody sweeps. name -> what the reader says."""
        start = gpupool_file.start_of(os.getpid())
        count = iter(range(1, 100))

        def path():
            return self.place('%d-%d-%d.gpupool' % (os.getpid(), start,
                                                    next(count)))
        said = {}
        with open(good, 'rb') as file:
            data = file.read()
        for content, why in ((data[:5000], None),
                             (b'garbage' * 3000, 'no file of gpupool'),
                             (data[:70] + b'?' + data[71:], 'damaged'),
                             (data[:8] + b'\x63' + data[9:], 'version 99')):
            at = path()
            with open(at, 'wb') as file:
                file.write(content)
            said[at] = why
        at = path()
        with open(at, 'wb') as file:
            file.truncate(1 << 40)
        said[at] = 'too large'
        at = path()
        os.symlink('/etc/passwd', at)
        said[at] = 'it is a link'
        at = path()
        os.mkfifo(at)
        said[at] = 'no regular file'
        at = path()
        os.mkdir(at)
        said[at] = 'no regular file'
        if os.geteuid() == 0:
            at = path()
            with open(at, 'wb') as file:
                file.write(data)
            os.chown(at, NOBODY, NOBODY)
            said[at] = 'belongs to somebody else'
        for name in 'req-1-2-3', 'req-x', 'nonsense', 'a' * 200:
            with open(self.place(name), 'w') as file:
                file.write('trim\n')
        return said

    def test_litter(self):
        """It is named, and the neighbours find each other all the same."""
        idle, needy = self.idle_and_needy(needy_conf='neighbour_wait:10s')
        self.known(needy)
        said = self.litter(self.process(idle).path)
        found, problems = gpupool_ledger.processes(directory=self.runtime)
        self.assertLessEqual({idle.pid, needy.pid}, {p.pid for p in found})
        for path, why in said.items():
            if why:
                self.assertTrue(any(p.startswith(path + ': ') and why in p
                                    for p in problems), (path, problems))
        self.assertEqual(self.alloc(needy, 800), 0)
        status, err = self.finish(needy)
        self.assertEqual(status, 0)
        self.assertEqual(len(err.splitlines()), err.count('is not used'), err)
        # And one that starts among it.
        late = self.script()
        self.assertEqual(self.alloc(late, 1), 0)
        status, err = self.finish(late)
        self.assertEqual(status, 0)
        # Which of so many it looks at depends on the directory's order.
        names = {os.path.basename(path) for path in said}
        for line in err.splitlines():
            match = re.match(r'gpupool: (\S+) in the runtime directory is not '
                             'used: ', line)
            self.assertTrue(match and match.group(1) in names, err)
        self.assertTrue(all(os.path.lexists(path) for path in said))

    def test_link(self):
        """Nothing is read by it, and who starts beside it says so."""
        path = self.place('%d-%d-1.gpupool' % (
            os.getpid(), gpupool_file.start_of(os.getpid())))
        os.symlink('/etc/passwd', path)
        proc = self.script()
        self.assertEqual(self.alloc(proc, 1), 0)
        status, err = self.finish(proc)
        self.assertEqual(status, 0)
        self.assertEqual(err.splitlines(), [
            'gpupool: %s in the runtime directory is not used: it is no '
            'regular file' % os.path.basename(path)])
        self.assertTrue(os.path.islink(path))

    def test_cut_short_while_it_is_used(self):
        """A neighbour's file that loses its end: no signal, no hang."""
        idle, needy = self.idle_and_needy('ring_events:False')
        path = self.process(idle).path
        self.kill(idle)
        os.truncate(path, 100)
        self.assertEqual(self.alloc(needy, 900), 0)
        self.assertEqual(self.finish(needy)[0], 0)

    def test_killed_while_it_began(self):
        """It left a file without a head, or an empty one: nothing is said."""
        idle, needy = self.idle_and_needy()
        gone = subprocess.Popen(['true'])
        start = gpupool_file.start_of(gone.pid)
        gone.wait()
        for image, size in enumerate((0, 1 << 20)):
            with open(self.place('%d-%d-%d.gpupool' % (gone.pid, start,
                                                       image)), 'wb') as file:
                file.truncate(size)
        self.assertEqual(self.alloc(needy, 800), 0)
        self.assertEqual(self.finish(needy), (0, ''))

    def test_requests_of_the_dead(self):
        """A request whose asker was killed is removed by who was asked, and by
        the next to start."""
        proc = self.script()
        self.alloc(proc, 1)
        self.known(proc)
        process = self.process(proc)
        gone = subprocess.Popen(['true'])
        start = gpupool_file.start_of(gone.pid)
        gone.wait()
        for to, at in ((process.pid, process.start), (gone.pid, start)):
            with open(self.place('req-%d-%d-%d-%d-1' % (
                    to, at, gone.pid, start)), 'w') as file:
                file.write('trim\n')
        self.assertTrue(gpupool_ledger.ask(process, 'ping').ok)
        self.assertEqual(self.requests(),
                         ['req-%d-%d-%d-%d-1' % ((gone.pid, start) * 2)])
        late = self.script()
        self.alloc(late, 1)
        self.assertEqual(self.requests(), [])

    @unittest.skipUnless(os.geteuid() == 0, 'needs another user')
    def test_another_user(self):
        """Can neither read, nor ask, nor take a place in the directory."""
        proc = self.script()
        self.alloc(proc, 1)
        self.known(proc)
        path = self.process(proc).path
        os.chmod(self.dir, 0o755)
        code = ('import os, sys\n'
                'path, place = sys.argv[1:]\n'
                'os.setgroups([]); os.setgid(%d); os.setuid(%d)\n'
                'def refused(what, *args):\n'
                '    try: what(*args)\n'
                '    except PermissionError: return\n'
                '    sys.exit("not refused: %%s %%s" %% (what, args))\n'
                'for mode in os.O_RDONLY, os.O_RDWR:\n'
                '    refused(os.open, path, mode)\n'
                'refused(os.listdir, place)\n'
                'refused(os.open, place + "/req-1-1-1-1-1", os.O_CREAT)\n'
                'refused(os.unlink, path)\n'
                'refused(os.rename, place, place + "2")\n'
                'refused(os.kill, int(os.path.basename(path).split("-")[0]), '
                '10)\n' % (NOBODY, NOBODY))
        done = subprocess.run([sys.executable, '-c', code, path,
                               self.runtime], stderr=subprocess.PIPE)
        self.assertEqual(done.stderr, b'')
        # Nor is what it has put somewhere believed.
        mine = self.place('%d-%d-0.gpupool' % (
            proc.pid, gpupool_file.start_of(proc.pid) + 1))
        with open(path, 'rb') as file, open(mine, 'wb') as copy:
            copy.write(file.read())
        os.chown(mine, NOBODY, NOBODY)
        found, problems = gpupool_ledger.processes(directory=self.runtime)
        self.assertEqual([p.path for p in found], [path])
        self.assertIn('belongs to somebody else', problems[0])
        # A program of that user has its own directory.
        self.assertEqual(self.finish(proc), (0, ''))

    def test_of_a_login_and_of_none(self):
        """Both usual directories are looked at, unless a third is asked for."""
        login, other = ('/run/user/%d/gpupool' % os.geteuid(),
                        '/tmp/gpupool-%d' % os.geteuid())
        for place, found in ((login, [login, other]), (other, [other, login]),
                             (self.runtime, [self.runtime])):
            with mock.patch.object(gpupool_ledger, 'runtime_dir',
                                   lambda: place), \
                    mock.patch.object(gpupool_ledger, 'is_ours',
                                      lambda path: True):
                self.assertEqual(gpupool_ledger.directories(), found)

    @unittest.skipUnless(os.geteuid() == 0, 'needs another user')
    def test_what_another_user_is_told(self):
        """Whose it is, not that there is no such thing; and what sudo left in
        XDG_RUNTIME_DIR is no obstacle."""
        proc = self.script()
        self.alloc(proc, 1)
        self.known(proc)
        path = self.process(proc).path
        base = os.path.dirname(self.runtime)  # which they cannot search
        os.chmod(self.dir, 0o755)
        # What it imports later may lie where that user cannot read.
        code = ('import os, sys\n'
                'sys.path.insert(0, sys.argv[1])\n'
                'import gpupool_cli, gpupool_ctl, gpupool_report, pwd\n'
                'import gpupool_compare, gpupool_top\n'
                'os.setgroups([]); os.setgid(%d); os.setuid(%d)\n'
                'sys.exit(gpupool_cli.main(sys.argv[2:]))\n' % (NOBODY,
                                                               NOBODY))
        for verb, says in (
                (['report', path], 'cannot read %s: %s belongs to root, and '
                 'only they can: sudo -u root gpupool ...'
                 % (path, base)),
                (['report', base], 'cannot read %s: it belongs to root, '
                 % base),
                (['diff', path, path], '%s belongs to root, ' % base),
                (['ctl', str(proc.pid), 'trim'], 'process %d belongs to root, '
                 'and only they can ask it: sudo -u root gpupool ...'
                 % proc.pid),
                (['top', '-1', '-d', '0'], '0 processes')):
            done = subprocess.run(
                [sys.executable, '-c', code,
                 os.path.join(harness.ROOT, 'scripts')] + verb,
                env=dict(self.build.env(preload=False), XDG_RUNTIME_DIR=base),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertIn(says, ' '.join(done.stdout.decode().split()))
        self.assertEqual(self.finish(proc), (0, ''))


if __name__ == '__main__':
    unittest.main()
