#!/usr/bin/env python3
"""Processes that make random calls on shared simulated cards, and are killed,
asked and signalled at random, for a given time:

    tests/soak.py --build build --seconds 1800 [--seed N] [--plain]

`make soak SECONDS=1800 SEED=N`. The seed repeats the choices of all, not how
their threads interleave. Worker 0 lives throughout; the others are killed, or
end as they like, and are followed by others with other settings.

It fails, with the seed, if

  - a worker finds wrong data, an answer that it cannot explain, or the
    simulated card not empty when it has freed all (tests/soak/*.c);
  - a worker ends in a way that is not its own choice or ours, or says anything
    but what is known on stderr (a sanitizer's report, say);
  - a thread makes no step for HUNG_S seconds;
  - worker 0 between rounds has more descriptors or threads than before, or its
    host memory grows: see Growth;
  - the command line cannot read what it must be able to read;
  - in the end there is anything in the runtime directory but the files of
    processes that have ended, not more than `keep_reports` of them, or
    anything new in /dev/shm, or a process of ours is left.
"""
import argparse
import json
import mmap
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

import harness

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_file  # noqa: E402  (found through the line above)
import gpupool_ledger  # noqa: E402

# tests/soak/board.h
WORKERS, THREADS, EXPORTS, RECENT = 16, 9, 8, 16
HEAD = struct.Struct('=II')
WORKER = struct.Struct('=iIQ')
THREAD = struct.Struct('=QII%ds' % RECENT)
EXPORT = struct.Struct('=IiQIi64s')
WORKER_BYTES = (WORKER.size + THREADS * THREAD.size + EXPORTS * EXPORT.size)
BOARD_BYTES = HEAD.size + WORKERS * WORKER_BYTES
ENDS_OK, ENDS_ABORT, ENDS_KILL = range(3)

HUNG_S = 120
STOPPED_S = 5  # at most, as it may have the lock of the simulated cards
ALIVE = 4  # workers at a time
DEVICES = 2
KEEP = 20
SIM = ('memory:%dMiB,context:4MiB,devices:%d,shared:%s'
       ',kernel_us:%d,copy_us:%d%s')

# What all have on, and what each draws from.
ALWAYS = ('quiet:True,sample_bytes:64KiB,ring_size:64KiB,'
          'warn_at:0.5,neighbour_wait:50,keep_reports:%d' % KEEP)
DRAWN = (
    ('cache_decay_ms:10', 'cache_decay_ms:100', 'cache_policy:keep',
     'cache_policy:none', 'cache_decay_ms:1000'),
    ('', '', '', '', 'expandable_segments:False',
     'expandable_segments:False,large_segment_size_mb:12MiB,'
     'max_split_size_mb:16MiB', 'backend:passthrough',
     'backend:cudaMallocAsync', 'backend:cudaMallocAsync'),
    ('', '', '', 'reuse:sync', 'free_order:reuse', 'free_barrier:never',
     'free_barrier:always'),
    ('', '', '', '', 'zero_memory:True', 'poison_free:True',
     'guard_bytes:512', 'guard_bytes:4KiB,poison_free:True,zero_memory:True'),
    ('', '', '', 'check:True',
     'garbage_collection_threshold:0.3', 'growth_factor:1.5',
     'roundup_power2_divisions:4', 'ring_events:False'),
    ('stacks:sample', 'stacks:sample', 'stacks:all', 'stacks:oom'),
    ('', '', 'reserve_floor:10MiB', 'host_limit:64MiB', 'overlap_slack:off',
     'virtualize:False', 'count_context:False',
     'per_process_memory_fraction:0.4'),
)
# Of the one that lives throughout.
LONG_LIVED = ('', '', '', 'expandable_segments:False',
              'guard_bytes:512,poison_free:True', 'backend:cudaMallocAsync')
# What the simulated driver lacks, and how the worker hears of it.
LACKS = ('', '', '', '', ',vmm:0', ',peer:0')
LIMITS = (0, 0, 0, 120, 64)  # MiB

# Said on stderr in the course of things.
KNOWN = re.compile(
    rb'gpupool: (no pool for device \d \(Cannot allocate memory\); '
    rb'allocations go to the driver|memory inside a segment cannot be shared '
    rb'with other processes; expandable_segments:True allows it|memory of '
    rb'process \d+ cannot be opened: .*|with backend:cudaMallocAsync memory '
    rb'cannot be shared with other processes; .*|gpupool_torch_alloc: no \d+ '
    rb'bytes on device \d \(CUDA error 2\); .*|'
    # What the system says of a process that is being killed, too.
    rb'no .* \(Resource temporarily unavailable\))'
    rb'( \(further messages are not shown\))?$')


class Failure(Exception):
    pass


def catches(pid, number):
    """Has the process a handler for this signal?"""
    try:
        with open('/proc/%d/status' % pid, encoding='ascii',
                  errors='replace') as file:
            caught = re.search(r'^SigCgt:\s*([0-9a-f]+)$', file.read(), re.M)
    except OSError:
        return False
    return bool(caught and int(caught.group(1), 16) >> (number - 1) & 1)


class Worker:
    """One place on the board, and the process that has it now."""

    def __init__(self, soak, number, seed):
        self.soak = soak
        self.number = number
        self.rng = random.Random('%s-%d' % (seed, number))
        self.incarnation = 0
        self.proc = None
        self.killed = False
        self.conf = ''
        self.rounds = []
        self.seen = {}  # (process, thread, its steps): since when
        self.stopped = 0  # since when

    def settings(self):
        draw = self.rng.choice
        chosen = [draw(options) for options in DRAWN]
        limit = draw(LIMITS)
        times = draw(((0, 0), (0, 0), (30, 5)))
        lacks = draw(LACKS)
        trace = draw(('', '', '', self.soak.path('reports/trace-%p')))
        if not self.number:  # no limit
            chosen = ['cache_decay_ms:50', 'stacks:sample', draw(LONG_LIVED)]
            limit, times, lacks, trace = 0, (0, 0), '', ''
        if limit:
            chosen.append('memory_limit:%dMiB' % limit)
        if 'free_order:reuse' in chosen or 'free_barrier:never' in chosen:
            barrier = '0'
        else:
            barrier = '1'
        conf = ','.join([ALWAYS] + [c for c in chosen if c])
        if 'count_context:False' in chosen:
            limit = 0  # it cannot be seen from outside
        return conf, times + (lacks,), {
            'SOAK_LIMIT_MIB': str(limit), 'SOAK_BARRIER': barrier,
            'SOAK_PEERS': str(int('peer' not in lacks)),
            'SOAK_VIRTUAL': str(int('vmm' not in lacks)),
            'GPUPOOL_TRACE': trace}

    def start(self):
        self.conf, times, more = self.settings()
        rounds = 0 if not self.number else self.rng.randint(1, 3)
        env = self.soak.env(self.conf, times, **more)
        env['SOAK_ENDS'] = '1' if self.number else '0'
        argv = [self.soak.program, self.soak.board_path, str(self.number),
                str(self.rng.getrandbits(48)), str(self.incarnation),
                str(rounds), str(self.rng.randint(2, 4))]
        self.incarnation += 1
        self.killed = False
        self.stopped = 0
        self.seen = {}
        self.out = open(self.soak.path('out-%d' % self.number), 'wb+')
        self.err = open(self.soak.path('err-%d' % self.number), 'wb+')
        self.proc = subprocess.Popen(
            argv, env=env, cwd=self.soak.dir, stdin=subprocess.DEVNULL,
            stdout=self.out, stderr=self.err, start_new_session=True)
        self.told = 0

    def read(self, stream):
        size = os.fstat(stream.fileno()).st_size
        return os.pread(stream.fileno(), size, 0)

    def kill(self):
        self.killed = True
        harness.kill_group(self.proc)

    def ended(self):
        """Reap it, if it has ended; False if it runs on."""
        if self.proc is None or self.proc.poll() is None:
            return self.proc is None
        ending = self.soak.board_worker(self.number)[1]
        status = self.proc.returncode
        said = [line for line in self.read(self.err).splitlines()
                if not KNOWN.match(line)]
        self.out.close()
        self.err.close()
        self.proc = None
        fine = (status == 0 or status == -signal.SIGKILL and self.killed
                or status == {ENDS_ABORT: -signal.SIGABRT,
                              ENDS_KILL: -signal.SIGKILL}.get(ending))
        if not fine or said:
            raise Failure(
                'worker %d.%d ended with status %d (%s)\n%s' % (
                    self.number, self.incarnation - 1, status, self.conf,
                    b'\n'.join(said).decode('utf-8', 'replace')))
        return True

    def look(self, now):
        """The lines it has written, and whether its threads move."""
        lines = self.read(self.out).decode().splitlines()
        for line in lines[self.told:]:
            words = line.split()
            if words and words[0] == 'round':
                self.rounds.append({words[i]: int(words[i + 1])
                                    for i in range(0, len(words) - 1, 2)})
        self.told = len(lines)
        if self.stopped:
            self.seen = {}
            return
        self.watch(now)

    def watch(self, now):
        """Threads that were busy throughout have made a step."""
        before, self.seen = self.seen, {}
        for number in self.number, self.number + WORKERS // 2:
            for pid, thread, ops in self.soak.busy(number):
                key = pid, thread, ops
                self.seen[key] = before.get(key, now)
                if now - self.seen[key] > HUNG_S:
                    raise Failure('worker %d.%d (%s): thread %d makes no step'
                                  '\n%s' % (number, self.incarnation - 1,
                                            self.conf, thread,
                                            self.soak.stacks(number)))


class Growth:
    """How worker 0's figures between rounds may grow.

    Descriptors, threads: no more than after the first tenth of the rounds
    (at least 8: some are there only once what they are for was called).
    Mappings, resident memory: the highest of the last quarter is at most the
    highest of the second quarter and a margin; what the simulator keeps for
    reuse reaches its limit early. Malloc'd memory: the simulator and the
    library keep a record of each context that there ever was, so that a bound
    on the growth per round stands for all."""

    MARGIN = {'rss_kib': 32 * 1024, 'maps': 40}
    MALLOC_KIB = 96  # a round, which makes some 20 contexts

    def __init__(self, rounds, sanitized):
        self.rounds = rounds
        self.sanitized = sanitized

    def problems(self):
        rounds = self.rounds
        early = max(8, len(rounds) // 10)
        if len(rounds) > early:
            for key in 'fds', 'threads':
                at_first = max(r[key] for r in rounds[:early])
                if rounds[-1][key] > at_first:
                    yield '%s: %d after %d rounds, %d at first' % (
                        key, rounds[-1][key], len(rounds), at_first)
        if self.sanitized or len(rounds) < 16:
            return
        quarter = len(rounds) // 4
        for key, margin in self.MARGIN.items():
            before = max(r[key] for r in rounds[quarter:2 * quarter])
            after = max(r[key] for r in rounds[-quarter:])
            if after > before + margin:
                yield '%s: %d in the last quarter, %d in the second' % (
                    key, after, before)
        grown = rounds[-1]['malloc_kib'] - rounds[quarter]['malloc_kib']
        if grown > self.MALLOC_KIB * (len(rounds) - quarter):
            yield 'malloc: %d KiB more after %d rounds' % (
                grown, len(rounds) - quarter)


class Soak:

    def __init__(self, build, seed, seconds, plain=False, say=print):
        self.build = build
        self.seed = seed
        self.seconds = seconds
        self.plain = plain
        self.say = say
        self.rng = random.Random(seed)
        self.program = os.path.join(build.path, 'tests', 'soak')
        self.dir = tempfile.mkdtemp(prefix='gpupool-soak-')
        self.reports = self.path('reports')
        self.xdg = self.path('xdg')
        self.runtime = os.path.join(self.xdg, 'gpupool')
        self.board_path = self.path('board')
        os.mkdir(self.reports)
        os.mkdir(self.xdg, 0o700)
        with open(self.board_path, 'wb') as file:
            file.truncate((BOARD_BYTES + 4095) // 4096 * 4096)
        with open(self.board_path, 'r+b') as file:
            self.board = mmap.mmap(file.fileno(), 0)
        self.shm = self.shared_memory()
        self.counts = {}
        self.workers = [Worker(self, n, seed) for n in range(ALIVE)]

    def path(self, name):
        return os.path.join(self.dir, name)

    def shared_memory(self):
        return {n for n in os.listdir('/dev/shm')
                if 'gpupool' in n or 'gpusim' in n}

    def env(self, conf, times, **more):
        sim = SIM % ((256, DEVICES, self.path('share')) + times)
        return self.build.env(
            preload=not self.plain, sim=sim,
            conf='%s,report_dir:%s' % (conf, self.reports),
            XDG_RUNTIME_DIR=self.xdg, SOAK_DEVICES=str(DEVICES), **more)

    # ---- the board -----------------------------------------------------------

    def board_worker(self, number):
        return WORKER.unpack_from(self.board,
                                  HEAD.size + number * WORKER_BYTES)

    def busy(self, number):
        """[(process, thread, steps)] of the threads that should get on."""
        pid = self.board_worker(number)[0]
        if not pid or not gpupool_file.start_of(pid):
            return []
        at = HEAD.size + number * WORKER_BYTES + WORKER.size
        found = [THREAD.unpack_from(self.board, at + i * THREAD.size)
                 for i in range(THREADS)]
        return [(pid, i, ops)
                for i, (ops, busy, _, _) in enumerate(found) if busy]

    def stacks(self, number):
        """All threads' stacks, where there is a debugger."""
        if not shutil.which('gdb'):
            return '(no gdb)'
        pid = self.board_worker(number)[0]
        return subprocess.run(
            ['gdb', '-p', str(pid), '-batch', '-ex', 'thread apply all bt'],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
            stdin=subprocess.DEVNULL).stdout.decode('utf-8', 'replace')

    # ---- what is done to them ------------------------------------------------

    def act_kill(self, worker):
        if worker.number:
            worker.kill()

    def act_report(self, worker):
        """On the signal, where it is caught: not after an exec so far."""
        if self.process(worker) and catches(worker.proc.pid, signal.SIGUSR1):
            os.kill(worker.proc.pid, signal.SIGUSR1)

    def act_stop(self, worker):
        if worker.number and not worker.stopped:
            os.kill(worker.proc.pid, signal.SIGSTOP)
            worker.stopped = time.monotonic()

    def go_on(self, worker):
        worker.stopped = 0
        try:
            os.kill(worker.proc.pid, signal.SIGCONT)
        except ProcessLookupError:
            pass

    def process(self, worker):
        try:
            found = gpupool_ledger.processes(directory=self.runtime)[0]
        except gpupool_ledger.Problem:
            return None  # there is no directory yet
        found = [p for p in found if p.pid == worker.proc.pid
                 and p.devices and p.life == 'alive']
        return found[-1] if found else None

    def act_ask(self, worker):
        """No answer is an answer: it may end, or be stopped, meanwhile."""
        process = self.process(worker)
        if not process:
            return
        request = self.rng.choice(('trim', 'trim 8MiB', 'ping', 'report',
                                   'reset-peak', 'limit 100MiB',
                                   'limit unlimited'))
        if request.startswith('limit') and 'memory_limit' in worker.conf:
            return
        try:
            answer = gpupool_ledger.ask(process, request, timeout=20)
        except gpupool_ledger.Problem:
            return
        if not answer.ok:
            raise Failure('%s: %s' % (request, answer.text))

    def act_command(self, worker):
        """The command reads whatever there is."""
        argv = self.rng.choice((
            ['top', '-1', '--json'], ['top', '-1'], ['metrics'],
            ['snapshot', str(worker.proc.pid), '-o', self.path('snapshot')],
            ['report', str(worker.proc.pid)]))
        result = harness.run(
            [sys.executable,
             os.path.join(harness.ROOT, 'scripts', 'gpupool')] + argv,
            dict(os.environ, XDG_RUNTIME_DIR=self.xdg), HUNG_S, cwd=self.dir)
        if (result.status is None or result.status < 0
                or b'Traceback' in result.err
                or argv[0] in ('top', 'metrics') and result.status):
            raise Failure('gpupool %s: %s' % (' '.join(argv), result))

    def act_read(self, worker):
        """Reports are whole; they are not kept."""
        for name in sorted(os.listdir(self.reports)):
            path = os.path.join(self.reports, name)
            if name.startswith('.'):
                continue  # being written
            if name.endswith('.json'):
                with open(path, encoding='utf-8') as file:
                    try:
                        json.load(file)
                    except ValueError as error:
                        raise Failure('%s: %s' % (name, error))
            os.unlink(path)

    ACTS = (('kill', 6), ('report', 6), ('ask', 8), ('stop', 2),
            ('command', 1), ('read', 2))

    def act(self):
        name, = self.rng.choices([a for a, _ in self.ACTS],
                                 [w for _, w in self.ACTS])
        worker = self.rng.choice(self.workers)
        if self.plain and name not in ('kill', 'stop'):
            return
        if worker.proc is None or worker.proc.poll() is not None:
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        try:
            getattr(self, 'act_' + name)(worker)
        except ProcessLookupError:
            pass

    # ---- the whole -----------------------------------------------------------

    def run(self):
        end = time.monotonic() + self.seconds
        told = time.monotonic() + 60
        while time.monotonic() < end:
            for worker in self.workers:
                if worker.ended():
                    if not worker.number and worker.incarnation:
                        raise Failure('worker 0 has ended')
                    worker.start()
                now = time.monotonic()
                if worker.stopped and now - worker.stopped > STOPPED_S:
                    self.go_on(worker)
                worker.look(now)
            self.act()
            if time.monotonic() > told:
                told += 60
                self.tell()
            time.sleep(self.rng.uniform(0, 0.2))
        self.finish()

    def finish(self):
        """All end in good order."""
        HEAD.pack_into(self.board, 0, 1, 0)
        for worker in self.workers:
            if worker.stopped:
                self.go_on(worker)
        end = time.monotonic() + 2 * HUNG_S
        while not all([worker.ended() for worker in self.workers]):
            for worker in self.workers:
                if worker.proc:
                    worker.look(time.monotonic())
            if time.monotonic() > end:
                raise Failure('workers that do not end')
            time.sleep(0.02)
        self.tell()
        problems = list(Growth(self.workers[0].rounds,
                               self.build.san).problems())
        if not self.plain:
            self.act_read(None)
            problems += self.left()
        if problems:
            raise Failure('\n'.join(problems))

    def left(self):
        """What is there when nobody is. Who starts takes away what is too
        much of others'."""
        last = harness.run(
            [os.path.join(self.build.path, 'examples', 'churn'), '--ops', '9'],
            self.env(ALWAYS, (0, 0, '')), cwd=self.dir)
        if last.status:
            yield 'the last one: %s' % last
        try:
            names = os.listdir(self.runtime)
        except FileNotFoundError:
            names = []
        files = [n for n in names if gpupool_file.NAME.match(n)]
        for name in sorted(set(names) - set(files)):
            yield 'left in the runtime directory: ' + name
        if len(files) > KEEP + 1:
            yield '%d files of processes that have ended' % len(files)
        for name in self.shared_memory() - self.shm:
            yield 'left in /dev/shm: ' + name

    def tell(self):
        first = self.workers[0].rounds
        self.say('%d workers, %s; worker 0: %s' % (
            sum(w.incarnation for w in self.workers),
            ', '.join('%d %s' % (n, a) for a, n in sorted(
                self.counts.items())),
            ' '.join('%s %d' % item for item in first[-1].items())
            if first else 'no round yet'))

    def close(self):
        for worker in self.workers:
            if worker.proc:
                worker.kill()
                worker.proc.wait()
                worker.out.close()
                worker.err.close()
        self.board.close()
        shutil.rmtree(self.dir, True)


def soak(build, seed, seconds, plain=False, say=print):
    """None, or what went wrong."""
    running = Soak(build, seed, seconds, plain, say)
    try:
        running.run()
    except Failure as failure:
        return 'soak, seed %d: %s' % (seed, failure)
    finally:
        running.close()
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', default=os.path.join(harness.ROOT, 'build'))
    parser.add_argument('--san')
    parser.add_argument('--seconds', type=float, default=60)
    parser.add_argument('--seed', type=int)
    parser.add_argument('--plain', action='store_true',
                        help='without the library: tries the soak itself')
    args = parser.parse_args()
    seed = args.seed
    if seed is None:
        seed = random.SystemRandom().getrandbits(32)
    print('soak: seed %d, %g s' % (seed, args.seconds), flush=True)
    problem = soak(harness.Build(args.build, args.san), seed, args.seconds,
                   args.plain, lambda text: print(text, flush=True))
    print(problem or 'soak: nothing found', flush=True)
    return 1 if problem else 0


if __name__ == '__main__':
    sys.exit(main())
