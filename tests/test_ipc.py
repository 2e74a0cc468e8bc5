"""Memory of the pool in other processes: the right bytes, whoever opens and
closes what and when, and whoever dies."""
import glob
import json
import os
import signal
import subprocess
import time
import unittest

import harness
from files import FilesTest, wait_for

KIB, MIB = 1 << 10, 1 << 20
INVALID_VALUE, INVALID_CONTEXT, INVALID_HANDLE = 1, 201, 400


class IpcTest(FilesTest):
    """Programs that do what they are told on one card."""

    def program(self, conf='', preload=True, sim='', env=None):
        sim = sim or 'memory:1GiB,context:16MiB,shared:' + self.share
        env = self.build.env(
            preload=preload, sim=sim, conf=','.join(filter(None, [
                'quiet:True,check:True,report_dir:' + self.dir, conf])),
            **dict({'XDG_RUNTIME_DIR': self.xdg}, **(env or {})))
        proc = subprocess.Popen(
            [self.build.program('drv_ipc')], env=env, cwd=self.dir,
            start_new_session=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.stop, proc)
        return proc

    def ask(self, proc, step):
        answer = self.step(proc, step)
        name = step.split('=')[0]
        self.assertTrue(answer.startswith(name + ':'), (step, answer))
        return answer[len(name) + 2:]

    def alloc(self, proc, size):
        code, block = self.ask(proc, 'alloc=%d' % size).split()
        self.assertEqual(code, '0')
        return int(block)

    def handle(self, proc, block, offset=0):
        answer = self.ask(proc, 'handle=%d,%d' % (block, offset)).split()
        self.assertEqual(answer[0], '0')
        return answer[1]

    def open(self, proc, handle, size, code=0):
        got, block = self.ask(proc, 'open=%s,%d' % (handle, size)).split()
        self.assertEqual(int(got), code)
        return int(block)

    def fill(self, proc, block, word):
        self.assertEqual(self.ask(proc, 'fill=%d,%d' % (block, word)), '0')

    def check(self, proc, block, word):
        self.assertEqual(self.ask(proc, 'check=%d,%d' % (block, word)), '0 0')

    def free(self, proc, block):
        self.assertEqual(self.ask(proc, 'free=%d' % block), '0')

    def close(self, proc, block):
        self.assertEqual(self.ask(proc, 'close=%d' % block), '0')

    def at(self, proc, block):
        return int(self.ask(proc, 'at=%d' % block))

    def reissued(self, proc, address, size, tries=12):
        """Does the pool hand that address out again?"""
        blocks = [self.alloc(proc, size) for _ in range(tries)]
        found = address in [self.at(proc, block) for block in blocks]
        for block in blocks:
            self.free(proc, block)
        return found

    def end(self, proc, err=''):
        out, got = proc.communicate(timeout=harness.LIMIT_S)
        self.assertEqual((proc.returncode, out, got.decode()), (0, b'', err))

    def kill(self, proc):
        os.kill(proc.pid, signal.SIGKILL)
        proc.wait()

    def fds(self, proc):
        return len(os.listdir('/proc/%d/fd' % proc.pid))

    def shared(self, size, word=7, owner=None, other=None):
        """An owner of a block, somebody who has it open."""
        owner = owner or self.program()
        other = other or self.program()
        block = self.alloc(owner, size)
        self.fill(owner, block, word)
        opened = self.open(other, self.handle(owner, block), size)
        return owner, block, other, opened


class Bytes(IpcTest):

    def test_both_see_the_same_bytes(self):
        owner, other = self.program(), self.program()
        sizes = (4, 512, 4 * KIB, 100 * KIB, MIB - 512, MIB, 3 * MIB,
                 70 * MIB)
        blocks = [self.alloc(owner, size) for size in sizes]
        for word, block in enumerate(blocks):
            self.fill(owner, block, word + 1)
        opened = [self.open(other, self.handle(owner, block), size)
                  for block, size in zip(blocks, sizes)]
        for word, block in enumerate(opened):
            self.check(other, block, word + 1)
            self.fill(other, block, word + 100)
        for word, block in enumerate(blocks):
            self.check(owner, block, word + 100)
        for block in opened:
            self.close(other, block)
        for block in blocks:
            self.free(owner, block)
        self.end(other)
        self.end(owner)

    def test_an_interior_address_is_of_the_same_allocation(self):
        owner, other = self.program(), self.program()
        for size in 100 * KIB, 5 * MIB:
            self.alloc(owner, size)
            block = self.alloc(owner, size)
            self.fill(owner, block, 5)
            whole = self.handle(owner, block)
            self.assertEqual(self.handle(owner, block, size - 1), whole)
            self.check(other, self.open(other, whole, size), 5)

    def test_it_is_counted(self):
        other = self.shared(3 * MIB)[2]
        self.end(other)
        path, = glob.glob(os.path.join(self.dir, '*%d*exit*.json' %
                                       other.pid))
        with open(path, encoding='utf-8') as file:
            report = json.load(file)
        self.assertEqual(
            report['passthrough.external.bytes.current'], 3 * MIB)
        self.assertEqual(report['passthrough_device_bytes'], 3 * MIB)

    def test_it_does_not_move(self):
        """The owner moves memory about while another has some open."""
        owner = self.program('cache_policy:keep')
        blocks = [self.alloc(owner, 30 * MIB) for _ in range(20)]
        other = self.program()
        keep = blocks[7]
        self.fill(owner, keep, 77)
        opened = self.open(other, self.handle(owner, keep), 30 * MIB)
        for block in blocks:
            if block != keep:
                self.free(owner, block)
        for size in 400, 100, 500, 300:
            block = self.alloc(owner, size * MIB)
            self.fill(owner, block, size)
            self.free(owner, block)
        self.check(other, opened, 77)
        self.fill(other, opened, 78)
        self.check(owner, keep, 78)

    def test_what_queries_tell(self):
        owner, block, other, opened = self.shared(3 * MIB + 1)
        about = ('range 0 0 3145729 start 0 size 3145729 id 1 types 0 '
                 'context 1 mapped 1 type 2 legacy %d')
        self.assertEqual(self.ask(owner, 'about=%d' % block), about % 1)
        self.assertEqual(self.ask(other, 'about=%d' % opened), about % 0)
        for proc, number in (other, opened), (owner, block):
            # Who may reach it is told of plain memory, too.
            self.assertEqual(self.ask(proc, 'refused=%d' % number),
                             '1 1 0 1')
        self.assertEqual(self.ask(other, 'free=%d' % opened), '1')
        self.check(other, opened, 7)
        self.assertEqual(
            self.ask(other, 'handle=%d,0' % opened).split()[0], '1')


class Life(IpcTest):

    def test_opened_twice(self):
        owner, block, other, opened = self.shared(3 * MIB)
        handle = self.handle(owner, block)
        self.assertEqual(self.handle(owner, block), handle)
        again = self.open(other, handle, 3 * MIB)
        self.assertEqual(self.at(other, opened), self.at(other, again))
        self.close(other, opened)
        self.check(other, again, 7)
        self.close(other, again)
        self.assertNotEqual(self.ask(other, 'close=%d' % again), '0')
        self.check(other, self.open(other, handle, 3 * MIB), 7)

    def test_several_open_it(self):
        owner, block, other, opened = self.shared(100 * KIB)
        rest = [self.program() for _ in range(3)]
        handle = self.handle(owner, block)
        theirs = [self.open(proc, handle, 100 * KIB) for proc in rest]
        self.fill(rest[0], theirs[0], 9)
        for proc, number in zip(rest, theirs):
            self.check(proc, number, 9)
        self.check(other, opened, 9)
        self.check(owner, block, 9)

    def test_freed_while_open(self):
        """Nobody gets the memory before all have closed it."""
        for size in 100 * KIB, 5 * MIB:
            owner, block, other, opened = self.shared(size)
            third = self.program()
            theirs = self.open(third, self.handle(owner, block), size)
            address = self.at(owner, block)
            self.free(owner, block)
            self.assertNotEqual(self.ask(owner, 'free=%d' % block), '0')
            self.assertFalse(self.reissued(owner, address, size))
            self.fill(other, opened, 8)
            self.check(third, theirs, 8)
            self.close(other, opened)
            self.assertFalse(self.reissued(owner, address, size))
            self.close(third, theirs)
            self.assertTrue(wait_for(
                lambda: self.reissued(owner, address, size)))
            for proc in owner, other, third:
                self.end(proc)

    def test_who_has_it_open_dies(self):
        for how in 'kill', 'exit':
            owner, block, other, opened = self.shared(5 * MIB)
            address = self.at(owner, block)
            self.free(owner, block)
            self.assertFalse(self.reissued(owner, address, 5 * MIB))
            if how == 'kill':
                self.kill(other)
            else:
                self.end(other)
            self.assertTrue(wait_for(
                lambda: self.reissued(owner, address, 5 * MIB)), how)
            self.end(owner)

    def test_a_fork_of_who_has_it_open(self):
        """It holds nothing, and keeps nobody waiting."""
        owner, block, other, opened = self.shared(5 * MIB)
        address = self.at(owner, block)
        child = int(self.ask(other, 'fork=1'))
        try:
            self.free(owner, block)
            self.kill(other)
            self.assertTrue(wait_for(
                lambda: self.reissued(owner, address, 5 * MIB)))
        finally:
            os.kill(child, signal.SIGKILL)

    def test_the_owner_ends(self):
        for how in 'kill', 'exit':
            owner, block, other, opened = self.shared(5 * MIB)
            handle = self.handle(owner, block)
            if how == 'kill':
                self.kill(owner)
            else:
                self.end(owner)
            self.check(other, opened, 7)
            self.fill(other, opened, 8)
            self.check(other, opened, 8)
            third = self.program()
            self.open(third, handle, 5 * MIB, INVALID_HANDLE)
            self.close(other, opened)
            self.end(other)

    def test_the_owners_fork_keeps_nobody_waiting(self):
        owner, block, other, opened = self.shared(5 * MIB)
        handle = self.handle(owner, block)
        child = int(self.ask(owner, 'fork=1'))
        try:
            self.kill(owner)
            third, took = self.program(), []
            # One that waits does so for 5 s each time.
            while len(took) < 8 and min(took, default=5) >= 5:
                begun = time.monotonic()
                self.open(third, handle, 5 * MIB, INVALID_HANDLE)
                took.append(time.monotonic() - begun)
            self.assertLess(min(took), 5)
        finally:
            os.kill(child, signal.SIGKILL)

    def test_an_old_handle(self):
        """Of memory that was freed, also when the address is in use again."""
        owner, other = self.program(), self.program()
        block = self.alloc(owner, 5 * MIB)
        handle, address = self.handle(owner, block), self.at(owner, block)
        self.free(owner, block)
        self.open(other, handle, 5 * MIB, INVALID_HANDLE)
        again = self.alloc(owner, 5 * MIB)
        self.assertEqual(self.at(owner, again), address)
        self.assertNotEqual(self.handle(owner, again), handle)
        self.open(other, handle, 5 * MIB, INVALID_HANDLE)

    def test_resets(self):
        owner, block, other, opened = self.shared(5 * MIB)
        handle = self.handle(owner, block)
        self.assertEqual(self.ask(other, 'reset=1'), '0')
        self.assertNotEqual(self.ask(other, 'close=%d' % opened), '0')
        opened = self.open(other, handle, 5 * MIB)
        self.check(other, opened, 7)
        self.assertEqual(self.ask(owner, 'reset=1'), '0')
        self.check(other, opened, 7)
        self.close(other, opened)
        self.open(other, handle, 5 * MIB, INVALID_HANDLE)
        self.end(owner)

    def test_the_device_still_works_on_it(self):
        """A close waits for that, as a free does."""
        owner, block, other, opened = self.shared(5 * MIB)
        begun = time.monotonic()
        self.assertEqual(self.ask(other, 'busy=200000'), '0')
        self.close(other, opened)
        self.assertGreater(time.monotonic() - begun, 0.19)

    def test_nothing_is_left(self):
        owner, block, other, opened = self.shared(5 * MIB)
        handle = self.handle(owner, block)
        with_it = self.fds(owner)
        self.close(other, opened)
        self.assertTrue(wait_for(lambda: self.fds(owner) == with_it - 1))
        open_in_owner = self.fds(owner)
        self.close(other, self.open(other, handle, 5 * MIB))
        before = open_in_owner, self.fds(other)
        for _ in range(50):
            self.close(other, self.open(other, handle, 5 * MIB))
        self.assertTrue(wait_for(
            lambda: (self.fds(owner), self.fds(other)) == before))
        self.end(owner)
        self.end(other)
        self.assertEqual([n for n in self.names() if n.startswith('ipc-')],
                         [])

    def test_a_killed_owners_socket_is_swept(self):
        owner = self.shared(5 * MIB)[0]
        self.kill(owner)
        self.assertEqual(
            len([n for n in self.names() if n.startswith('ipc-')]), 1)
        self.alloc(self.program(), MIB)
        self.assertEqual([n for n in self.names() if n.startswith('ipc-')],
                         [])


class Guards(IpcTest):
    """Memory between red zones, which are the owner's."""

    CONF = 'guard_bytes:512,poison_free:True'

    def test_the_bytes_between_them(self):
        for confs in (self.CONF, ''), ('', self.CONF), (self.CONF, self.CONF):
            owner, other = (self.program(conf) for conf in confs)
            for size in 4, 1000, 100 * KIB, MIB, 5 * MIB:
                with self.subTest(confs=confs, size=size):
                    block = self.alloc(owner, size)
                    self.fill(owner, block, 5)
                    whole = self.handle(owner, block)
                    self.assertEqual(self.handle(owner, block, size - 1),
                                     whole)
                    opened = self.open(other, whole, size)
                    self.check(other, opened, 5)
                    self.fill(other, opened, 6)
                    self.check(owner, block, 6)
                    for proc, number, legacy in ((owner, block, 1),
                                                 (other, opened, 0)):
                        self.assertEqual(
                            self.ask(proc, 'about=%d' % number),
                            'range 0 0 %d start 0 size %d id 1 types 0 '
                            'context 1 mapped 1 type 2 legacy %d'
                            % (size, size, legacy))
                    self.close(other, opened)
                    self.free(owner, block)
            self.end(other)
            self.end(owner)

    def test_outside_is_no_allocation(self):
        owner = self.program(self.CONF)
        for size in 1000, 5 * MIB:
            block = self.alloc(owner, size)
            for offset in -512, -1, size, size + 511:
                self.assertEqual(
                    self.ask(owner, 'handle=%d,%d' % (block, offset)), '1')

    def test_what_another_writes_beside_it(self):
        owner, other = self.program(self.CONF), self.program()
        for size in 1000, 5 * MIB:
            for offset in -512, size:
                block = self.alloc(owner, size)
                handle, idle = self.handle(owner, block), self.fds(owner)
                opened = self.open(other, handle, size)
                self.assertEqual(
                    self.ask(other, 'beside=%d,%d' % (opened, offset)), '0')
                self.close(other, opened)
                # What others have open is not looked at.
                self.assertTrue(wait_for(lambda: self.fds(owner) == idle))
                self.free(owner, block)
        err = owner.communicate(timeout=harness.LIMIT_S)[1].decode()
        self.assertEqual(err.count('4 bytes were written beside'), 4, err)

    def test_freed_while_open(self):
        """Nothing is written then, neither a pattern nor zones."""
        for size in 1000, 5 * MIB:
            owner, block, other, opened = self.shared(
                size, owner=self.program(self.CONF))
            address = self.at(owner, block)
            self.free(owner, block)
            self.assertFalse(self.reissued(owner, address, size))
            self.check(other, opened, 7)
            self.close(other, opened)
            self.assertTrue(wait_for(
                lambda: self.reissued(owner, address, size)))
            self.end(other)
            self.end(owner)


class Errors(IpcTest):

    def test_its_own_handle(self):
        owner = self.program()
        block = self.alloc(owner, 5 * MIB)
        self.open(owner, self.handle(owner, block), 5 * MIB, INVALID_CONTEXT)

    def test_a_process_without_gpupool(self):
        owner, other = self.program(), self.program(preload=False)
        handle = self.handle(owner, self.alloc(owner, 5 * MIB))
        got = self.ask(other, 'open=%s,4' % handle).split()[0]
        self.assertNotEqual(got, '0')

    def test_damaged_handles(self):
        owner, other = self.program(), self.program()
        handle = self.handle(owner, self.alloc(owner, 5 * MIB))
        for digit in range(0, 128, 5):
            changed = '0' if handle[digit] != '0' else '1'
            damaged = handle[:digit] + changed + handle[digit + 1:]
            got = self.ask(other, 'open=%s,4' % damaged).split()[0]
            self.assertNotEqual(got, '0', digit)
        self.open(other, handle, 5 * MIB)

    def test_no_room_here(self):
        """Every call that opening makes may fail; nothing is left of it."""
        owner = self.program()
        block = self.alloc(owner, 70 * MIB)
        self.fill(owner, block, 7)
        handle = self.handle(owner, block)
        for name in ('cuMemImportFromShareableHandle', 'cuMemMap',
                     'cuMemSetAccess', 'cuMemAddressReserve'):
            for nth in 1, 2, 3:
                sim = ('memory:1GiB,context:16MiB,shared:%s,fail:%s@%d=304' %
                       (self.share, name, nth))
                other = self.program(sim=sim)
                codes = [self.ask(other, 'open=%s,%d' % (
                    handle, 70 * MIB)).split()[0] for _ in range(4)]
                self.assertEqual(codes[-1], '0', (name, nth, codes))
                if nth == 1:
                    self.assertEqual(codes[0], '304', (name, codes))
                self.check(other, len(codes) - 1, 7)
                self.kill(other)
        address = self.at(owner, block)
        self.free(owner, block)
        self.assertTrue(wait_for(
            lambda: self.reissued(owner, address, 70 * MIB, 4)))

    def test_segments(self):
        """Where there is no virtual memory the driver's own way is left; it
        has none here."""
        owner = self.program('expandable_segments:False')
        self.alloc(owner, 100 * KIB)
        block = self.alloc(owner, 100 * KIB)
        self.assertEqual(self.ask(owner, 'handle=%d,0' % block).split()[0],
                         str(INVALID_VALUE))

    def test_no_directory(self):
        owner = self.program(env={'XDG_RUNTIME_DIR': '/nonexistent',
                                  'HOME': '/nonexistent'})
        block = self.alloc(owner, 5 * MIB)
        other = self.program()
        self.open(other, self.handle(owner, block), 5 * MIB, INVALID_HANDLE)

    def test_another_card(self):
        sim = 'devices:2,memory:1GiB,shared:' + self.share
        owner, other = self.program(sim=sim), self.program(sim=sim)
        self.assertEqual(self.ask(owner, 'device=1'), '0')
        block = self.alloc(owner, 5 * MIB)
        self.fill(owner, block, 3)
        self.assertEqual(self.ask(other, 'device=1'), '0')
        opened = self.open(other, self.handle(owner, block), 5 * MIB)
        self.check(other, opened, 3)
        hidden = self.program(sim=sim, env={'CUDA_VISIBLE_DEVICES': '0'})
        got = self.ask(hidden, 'open=%s,4' % self.handle(owner, block))
        self.assertNotEqual(got.split()[0], '0')


if __name__ == '__main__':
    unittest.main()
