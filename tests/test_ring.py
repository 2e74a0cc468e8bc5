"""The file of a process and its events: there whatever ends the process, never
misread, and never in the program's way."""
import json
import os
import pickle
import pickletools
import random
import shutil
import subprocess
import sys
import unittest

import files
import harness
from files import FilesTest, gpupool_file, gpupool_ring, wait_for

KILLS = int(os.environ.get('GPUPOOL_TEST_KILLS', '20'))
MIB = 1 << 20


class Events(FilesTest):

    def run_script(self, *steps, conf='', sim='', status=0, **kwargs):
        result = harness.run(
            [self.build.program('drv_script')] + list(steps),
            self.build.env(conf=','.join(filter(None, [
                'quiet:True,report_dir:' + self.dir, conf])), sim=sim,
                XDG_RUNTIME_DIR=self.xdg), cwd=self.dir, **kwargs)
        self.assert_ok(result, status)
        return result

    def ring(self, index=0):
        return gpupool_ring.read(self.paths()[index])

    def test_what_is_recorded(self):
        self.run_script('alloc=1000', 'alloc=%d' % (30 * MIB), 'free=0',
                        'oom=%d' % (1 << 50), 'free=1', 'exit=0')
        ring = self.ring()
        self.assertEqual((ring.torn, ring.lost, ring.notes), (0, 0, []))
        self.assertEqual(ring.file.state, 'ended')
        self.assertEqual(os.path.basename(ring.file.exe), 'drv_script')
        self.assertIn('quiet:True', ring.file.conf)
        kinds = [e.kind for e in ring.events
                 if not e.kind.startswith('segment')]
        self.assertEqual(kinds, ['alloc', 'alloc', 'free', 'oom', 'free'])
        small, large, _, oom, last = [
            e for e in ring.events if not e.kind.startswith('segment')]
        self.assertEqual((small.requested, small.bytes), (1000, 1024))
        self.assertEqual(small.allocated, 1024)
        self.assertEqual(large.requested, 30 * MIB)
        self.assertEqual(large.allocated, 30 * MIB + 1024)
        self.assertGreaterEqual(large.reserved, 32 * MIB)
        self.assertEqual(oom.requested, 1 << 50)
        self.assertEqual((last.address, last.allocated), (large.address, 0))
        self.assertEqual(last.thread, ring.file.pid)
        times = [e.time for e in ring.events]
        self.assertEqual(times, sorted(times))
        self.assertLessEqual(ring.file.unix_ns, times[0])
        self.assertLessEqual(times[-1], ring.file.end_unix_ns + 1000000)
        mapped = sum(e.bytes for e in ring.events if e.kind == 'segment_map')
        self.assertEqual(mapped, large.reserved)

    def test_segments_from_the_driver(self):
        self.run_script('alloc=%d' % (3 * MIB), 'free=0', 'exit=0',
                        conf='expandable_segments:False,cache_policy:none')
        kinds = [e.kind for e in self.ring().events]
        self.assertIn('segment_alloc', kinds)
        self.assertIn('segment_free', kinds)
        self.assertIn('trim', kinds)

    def test_every_end(self):
        """_exit, abort and exec leave the events, fork adds none."""
        for end, status in (('_exit=3', 3), ('abort=1', -6), ('exit=0', 0)):
            before = set(self.names())
            self.run_script('alloc=4096', 'fork=free', 'fork=exec',
                            'vfork=1', 'free=0', end, status=status)
            new, = set(self.names()) - before
            ring = gpupool_ring.read(os.path.join(self.runtime, new))
            self.assertEqual([e.kind for e in ring.events
                              if e.kind in ('alloc', 'free')],
                             ['alloc', 'free'])
            self.assertEqual({e.thread for e in ring.events},
                             {ring.file.pid})
            self.assertEqual(gpupool_file.life(ring.file), 'dead')

    def test_off(self):
        self.run_script('alloc=4096', 'exit=0', conf='ring_events:False')
        ring = self.ring()
        self.assertEqual(ring.events, [])
        self.assertIn('ring_events:False', ring.notes[0])
        process, devices = ring.file.ledger()
        self.assertEqual(devices[0]['allocated_bytes.all.peak'], 4096)

    def test_the_newest_are_kept(self):
        result = harness.run(
            [self.build.program('drv_churn')],
            self.build.env(conf='quiet:True,ring_size:64KiB,report_dir:'
                           + self.dir, XDG_RUNTIME_DIR=self.xdg))
        self.assert_ok(result)
        ring = self.ring()
        self.assertGreater(ring.lost, 0)
        self.assertIn('overwritten', ring.notes[0])
        self.assertGreater(len(ring.events), 500)
        self.assertLessEqual(len(ring.events), 1024)
        process, devices = ring.file.ledger()
        self.assertEqual(devices[0]['allocated_bytes.all.current'], 0)

    def churn_and_kill(self, number, threads, conf=''):
        """Kill drv_churn at a random moment. Its ring, and how far the
        threads had come."""
        progress = os.path.join(self.dir, 'progress-%d' % number)
        proc = self.start(['drv_churn', progress, str(threads)], conf)
        wanted = random.Random(number).randrange(1, 30000)

        def far_enough():
            return proc.poll() is not None or sum(
                p[0] for p in files.read_progress(progress, threads)
            ) >= wanted
        self.assertTrue(wait_for(far_enough, 60))
        self.kill(proc)
        path, = [path for path in self.paths() if '/%d-' % proc.pid in path]
        return (gpupool_ring.read(path),
                files.read_progress(progress, threads))

    def test_kill(self):
        """Killed at random points: every file is readable, and what the
        program had done last is in it."""
        for number in range(KILLS):
            threads = 1 + number % 4
            conf = 'ring_size:%s' % ('4MiB' if number % 3 else '64KiB')
            ring, progress = self.churn_and_kill(number, threads, conf)
            # One each, and one of gpupool's own thread.
            self.assertLessEqual(ring.torn, threads + 1)
            self.assertEqual(gpupool_file.life(ring.file), 'dead')
            for steps, address, is_free, thread, _ in progress:
                self.check_thread(ring, steps, address, is_free, thread)
            # Figures survive too, once there were any.
            for device in ring.file.ledger()[1]:
                self.assertGreaterEqual(
                    device['reserved_bytes.all.current'],
                    device['allocated_bytes.all.current'])

    def check_thread(self, ring, steps, address, is_free, thread):
        events = [e for e in ring.events
                  if e.thread == thread and e.kind in ('alloc', 'free')]
        if not ring.lost:
            self.assertIn(len(events) - steps, (0, 1))
        if steps:
            # The kill may come between the step and the note of it.
            self.assertIn(
                (address, 'free' if is_free else 'alloc'),
                [(e.address, e.kind) for e in events[-2:]])
        self.assertEqual([e.time for e in events],
                         sorted(e.time for e in events))

    def test_time_does_not_run_backward(self):
        """Although the two clocks of a chunk are not read at one moment: here
        each chunk has that of the first."""
        result = harness.run(
            [self.build.program('drv_churn')],
            self.build.env(conf='quiet:True,report_dir:' + self.dir,
                           XDG_RUNTIME_DIR=self.xdg))
        self.assert_ok(result)
        path, = self.paths()
        file = gpupool_ring.read(path).file
        first = gpupool_ring.CHUNK.unpack_from(file.data, file.ring_at)[2]
        with open(path, 'r+b') as out:
            for number in range(file.num_chunks):
                at = file.ring_at + number * gpupool_ring.CHUNK_BYTES
                ticket, thread, mono, ticks, check = \
                    gpupool_ring.CHUNK.unpack_from(file.data, at)
                if ticket:
                    out.seek(at)
                    out.write(gpupool_ring.CHUNK.pack(
                        ticket, thread, first, ticks,
                        (check - mono + first) & gpupool_ring.MASK))
        ring = gpupool_ring.read(path)
        self.assertEqual(ring.torn, 0)
        times = [e.time for e in ring.events]
        self.assertEqual(times, sorted(times))

    def test_old_files_go(self):
        for _ in range(5):
            self.run_script('alloc=4096', 'exit=0', conf='keep_reports:2')
        self.assertEqual(len(self.names()), 3)  # two, and the last one's own
        self.run_script('alloc=4096', 'exit=0', conf='keep_reports_size:0')
        self.assertEqual(len(self.names()), 1)
        self.run_script('alloc=4096', 'exit=0')
        self.assertEqual(len(self.names()), 2)

    def test_the_living_keep_theirs(self):
        living = self.script()
        self.step(living, 'alloc=4096')
        for _ in range(3):
            self.run_script('alloc=4096', 'exit=0', conf='keep_reports:0')
        self.assertEqual(len(self.names()), 2)
        self.assertEqual([p.pid for p in self.processes()], [living.pid])

    def test_exec_makes_a_new_file(self):
        """The image before an exec is over, although the process is not."""
        argv = [self.build.program('drv_script'), 'alloc=4096', 'sleep=300']
        proc = self.start(['drv_script', 'stdin=1'])
        self.step(proc, 'alloc=4096')
        first, = self.names()
        code = ('import ctypes, os\n'
                'cuda = ctypes.CDLL("libcuda.so.1")\n'
                'c, p = ctypes.c_void_p(), ctypes.c_uint64()\n'
                'cuda.cuInit(0)\n'
                'cuda.cuDevicePrimaryCtxRetain(ctypes.byref(c), 0)\n'
                'cuda.cuCtxSetCurrent(c)\n'
                'assert cuda.cuMemAlloc_v2(ctypes.byref(p), 512) == 0\n'
                'os.execv(%r, %r)\n' % (argv[0], argv))
        result = harness.run([sys.executable, '-c', code], self.build.env(
            conf='quiet:True,report_dir:' + self.dir,
            XDG_RUNTIME_DIR=self.xdg))
        self.assert_ok(result)
        images = sorted(f.image for f in self.files() if f.pid != proc.pid)
        self.assertEqual(images, [0, 1])
        self.assertEqual([p.pid for p in self.processes()], [proc.pid])


class Refused(FilesTest):
    """A directory or a disk that is no good costs a line and nothing else."""

    def run_here(self):
        env = self.build.env(conf='quiet:True,report_dir:' + self.dir,
                             XDG_RUNTIME_DIR=self.xdg)
        result = harness.run([self.build.program('drv_script'), 'alloc=4096',
                              'free=0', 'exit=0'], env)
        self.assert_ok(result)
        self.assertEqual(result.out, b'alloc 4096: 0\nfree: 0\n')
        return result.err.decode()

    def test_link(self):
        target = os.path.join(self.dir, 'target')
        os.mkdir(target, 0o700)
        os.symlink(target, self.runtime)
        err = self.run_here()
        self.assertIn('%s is not used: it is not a directory' % self.runtime,
                      err)
        self.assertEqual(os.listdir(target), [])
        self.assertEqual(err.count('\n'), 1)

    def test_others_may_write(self):
        os.mkdir(self.runtime)
        os.chmod(self.runtime, 0o770)
        err = self.run_here()
        self.assertIn('%s is not used: others have access' % self.runtime,
                      err)
        self.assertEqual(self.names(), [])

    def test_file_in_its_place(self):
        with open(self.runtime, 'w'):
            pass
        self.assertIn('it is not a directory', self.run_here())

    @unittest.skipUnless(os.geteuid() == 0, 'needs another user')
    def test_somebody_elses(self):
        os.mkdir(self.runtime, 0o700)
        os.chown(self.runtime, 65534, 65534)
        self.assertIn('%s is not used: it belongs to somebody else'
                      % self.runtime, self.run_here())
        self.assertEqual(self.names(), [])

    def test_file_size_limit(self):
        """No room is no signal either."""
        # Handles would be files of the simulated driver.
        env = self.build.env(conf='quiet:True,expandable_segments:False',
                             XDG_RUNTIME_DIR=self.xdg)
        result = harness.run(
            ['bash', '-c', 'ulimit -f 64; exec "$0" "$@"',
             self.build.program('drv_script'), 'alloc=4096', '_exit=0'], env,
            cwd=self.dir)
        self.assert_ok(result)
        self.assertIn(b'nothing is recorded', result.err)
        self.assertEqual(self.names(), [])

    @unittest.skipUnless(os.geteuid() == 0 and shutil.which('mount'),
                         'needs to mount')
    def test_full_disk(self):
        """Without room for the events there is still the ledger."""
        for size, message, left in (('1m', 'no events are recorded', 1),
                                    ('64k', 'nothing is recorded', 0)):
            done = subprocess.run(
                ['mount', '-t', 'tmpfs', '-o', 'mode=700,size=' + size,
                 'tmpfs', self.xdg], stderr=subprocess.PIPE)
            if done.returncode:
                self.skipTest('cannot mount: %s' % done.stderr.decode())
            try:
                err = self.run_here()
                self.assertIn(message, err)
                self.assertIn('No space left on device', err)
                self.assertEqual(len(self.names()), left)
                for file in self.files():
                    self.assertEqual(
                        file.ledger()[1][0]['allocated_bytes.all.peak'],
                        4096)
            finally:
                subprocess.run(['umount', self.xdg])


class Reader(FilesTest):
    """Whatever is in a file, the readers say what is wrong with it."""

    def setUp(self):
        super().setUp()
        result = harness.run(
            [self.build.program('drv_churn')],
            self.build.env(conf='quiet:True,ring_size:256KiB,report_dir:'
                           + self.dir, XDG_RUNTIME_DIR=self.xdg))
        self.assert_ok(result)
        self.path, = self.paths()
        with open(self.path, 'rb') as file:
            self.good = file.read()

    def write(self, data):
        path = os.path.join(self.dir, 'damaged')
        with open(path, 'wb') as file:
            file.write(data)
        return path

    def test_damage(self):
        """Damaged events are left out, not read as others."""
        right = {event[1:] for event in gpupool_ring.read(self.path).events}
        rng = random.Random(1)
        refused = missing = 0
        for _ in range(150):
            data = bytearray(self.good)
            low = rng.choice((0, 0, 4096, 45056))
            for _ in range(rng.choice((1, 4, 64, 1024))):
                at = rng.randrange(low, len(data))
                data[at] = rng.randrange(256)
            if rng.random() < 0.3:
                del data[rng.randrange(len(data)):]
            try:
                ring = gpupool_ring.read(self.write(data))
                ring.file.ledger()
            except gpupool_file.FileProblem as problem:
                self.assertIn('damaged', str(problem))
                refused += 1
                continue
            self.assertLessEqual({event[1:] for event in ring.events}, right)
            missing += len(ring.events) < len(right)
            if len(data) < len(self.good):
                self.assertIn('cut short', ring.notes[0])
        self.assertGreater(refused, 10)
        self.assertGreater(missing, 10)

    def test_words(self):
        for data, why in (
                (b'', 'it is empty'),
                (bytes(100), 'it is empty'),
                (bytes(8192), 'it was never finished'),
                (b'hello' * 2000, 'it is no file of gpupool'),
                (self.good[:2000], 'it is no file of gpupool'),
                (self.good[:8] + b'\x07' + self.good[9:],
                 'it is of version 7'),
                (self.good[:12] + self.good[12:16][::-1] + self.good[16:],
                 'another kind'),
                (self.good[:60] + b'x' + self.good[61:],
                 'its header is damaged')):
            path = self.write(data)
            with self.assertRaises(gpupool_file.FileProblem) as caught:
                gpupool_ring.read(path)
            self.assertIn(why, str(caught.exception))
            self.assertTrue(str(caught.exception).startswith(path + ': '))
        link = os.path.join(self.dir, 'link')
        os.symlink(self.path, link)
        for path, why in ((link, 'it is a link'),
                          (self.dir, 'it is no regular file'),
                          (self.dir + '/none', 'No such file')):
            with self.assertRaises(gpupool_file.FileProblem) as caught:
                gpupool_ring.read(path)
            self.assertIn(why, str(caught.exception))

    def test_huge(self):
        path = self.write(self.good)
        os.truncate(path, 1 << 40)
        with self.assertRaisesRegex(gpupool_file.FileProblem, 'too large'):
            gpupool_ring.read(path)


class Snapshot(FilesTest):

    def snapshot(self, path, *args):
        done = subprocess.run(
            [sys.executable, os.path.join(harness.ROOT, 'scripts', 'gpupool'),
             'snapshot', path] + list(args), cwd=self.dir,
            env=dict(harness.own_environment(), XDG_RUNTIME_DIR=self.xdg),
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout, done.stderr.decode()

    def churn(self, conf=''):
        result = harness.run(
            [self.build.program('drv_script'), 'alloc=1000', 'alloc=5000000',
             'alloc=70000000', 'free=1', 'alloc=6000', 'oom=%d' % (1 << 50),
             '_exit=0'],
            self.build.env(conf=','.join(filter(None, [
                'quiet:True,report_dir:' + self.dir, conf])),
                XDG_RUNTIME_DIR=self.xdg))
        self.assert_ok(result)
        path, = self.paths()
        return path

    def check(self, snapshot, live):
        """As PyTorch's viewer needs it."""
        seen = []
        for segment in snapshot['segments']:
            at = segment['address']
            for block in segment['blocks']:
                self.assertEqual(block['address'], at)
                at += block['size']
                if block['state'] == 'active_allocated':
                    seen.append(block['requested_size'])
            self.assertEqual(at, segment['address'] + segment['total_size'])
            self.assertEqual(segment['allocated_size'], sum(
                block['size'] for block in segment['blocks']
                if block['state'] == 'active_allocated'))
        self.assertEqual(sorted(seen), live)
        trace, = snapshot['device_traces']
        requested = [e['addr'] for e in trace
                     if e['action'] == 'free_requested']
        completed = [e['addr'] for e in trace
                     if e['action'] == 'free_completed']
        self.assertEqual(requested, completed)
        self.assertEqual(len(requested), 1)
        for event in trace:
            self.assertEqual('addr' in event, event['action'] != 'oom')
            self.assertEqual('device_free' in event,
                             event['action'] == 'oom')
            self.assertIsInstance(event['frames'], list)
        self.assertEqual([e['action'] for e in trace].count('alloc'), 4)
        self.assertEqual([e['action'] for e in trace].count('oom'), 1)

    def test_both_forms(self):
        path = self.churn()
        status, out, err = self.snapshot(path, '-o', 'out.pickle')
        self.assertEqual(status, 0, err)
        self.assertIn('out.pickle', err)
        with open(os.path.join(self.dir, 'out.pickle'), 'rb') as file:
            raw = file.read()
        # No more than the viewer understands: no classes, protocol 2.
        codes = {code.name for code, _, _ in pickletools.genops(raw)}
        self.assertLessEqual(codes & {'GLOBAL', 'STACK_GLOBAL', 'REDUCE',
                                      'LONG4', 'FRAME', 'MEMOIZE'}, set())
        self.assertEqual(raw[:2], b'\x80\x02')
        snapshot = pickle.loads(raw)
        self.check(snapshot, [1000, 6000, 70000000])
        status, out, err = self.snapshot(path, '--json', '-o', '-')
        self.assertEqual(status, 0, err)
        self.assertEqual(json.loads(out), json.loads(json.dumps(snapshot)))

    def test_segments(self):
        path = self.churn('expandable_segments:False')
        status, out, err = self.snapshot(path, '--json', '-o', '-')
        self.assertEqual(status, 0, err)
        snapshot = json.loads(out)
        self.check(snapshot, [1000, 6000, 70000000])
        self.assertFalse(any(s['is_expandable']
                             for s in snapshot['segments']))

    def test_by_pid(self):
        path = self.churn()
        pid = os.path.basename(path).split('-')[0]
        status, out, err = self.snapshot(pid)
        self.assertEqual(status, 0, err)
        self.assertTrue(os.path.exists(os.path.join(
            self.dir, 'gpupool-drv_script-%s.snapshot.pickle' % pid)))

    def test_wrong_use(self):
        for what, why in (('999999999', 'there is no process'),
                          ('/no/such', 'there is no /no/such')):
            status, out, err = self.snapshot(what)
            self.assertEqual((status, out), (125, b''))
            self.assertIn(why, err)
        path = self.churn()
        status, out, err = self.snapshot(path, '-o', '/no/such/place')
        self.assertEqual(status, 125)
        self.assertIn('cannot write /no/such/place', err)


if __name__ == '__main__':
    unittest.main()
