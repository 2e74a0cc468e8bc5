"""Measured runs of several variants of a program, one at a time and in turn.

Starting a process that imports PyTorch takes longer than the run itself. So
many get ready at the same time (worker.py) and wait, each holding little more
than its context; then one after the other is told to warm up and to run. While
one runs nothing else does, here or on the card.
"""

import json
import os
import queue
import signal
import subprocess
import threading
import time

import common
import machine
import reports
from machine import Failure, tail


class Variant:
    """One way to run the program: `env` as Popen takes it. `report_dir`: it is
    preloaded, and writes its reports there; else None."""

    def __init__(self, label, command, env, report_dir=None, turns=None):
        self.label, self.command, self.env = label, command, env
        self.report_dir = report_dir
        self.turns = turns  # None: all


class Worker:
    """One process. Its lines of stdout go to `lines` as (worker, line), with
    None for its end; stderr goes to a file."""

    def __init__(self, variant, turn, log, lines):
        self.variant, self.turn, self.log = variant, turn, log
        self.lines = lines
        self.ready = False
        self.reports = 0
        os.makedirs(os.path.dirname(log), exist_ok=True)
        with open(log + ".err", "w") as err:
            self.child = subprocess.Popen(
                variant.command, env=variant.env, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=err, cwd=common.TOP,
                universal_newlines=True, errors="replace",
                start_new_session=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()

    def __str__(self):
        return "%s, turn %d" % (self.variant.label, self.turn + 1)

    def _read(self):
        with open(self.log + ".out", "w") as out:
            for line in self.child.stdout:
                out.write(line)
                self.lines.put((self, line))
        self.lines.put((self, None))

    def tell(self, word):
        try:
            self.child.stdin.write(word + "\n")
            self.child.stdin.flush()
        except (OSError, ValueError):
            pass  # it is gone: the end of its output says so

    def how_it_ended(self):
        """A Failure in words. Its output has ended."""
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.kill()
        status = self.child.returncode
        name = ("status %d" % status if status >= 0 else "signal %s" %
                signal.Signals(-status).name)
        with open(self.log + ".err", errors="replace") as err:
            return Failure("%s: ended too early (%s)\n%s" %
                           (self, name, tail(err.read())))

    def quit(self):
        """Lets it end; wait() then."""
        try:
            self.child.stdin.close()
        except OSError:
            pass

    def wait(self, timeout):
        """Its status; None if it had to be killed."""
        try:
            status = self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            status = None
        self.kill()
        self.reader.join()
        self.child.stdout.close()
        return status

    def kill(self):
        """Ends it, and what it started, if it has not ended."""
        if self.child.poll() is None:
            try:
                os.killpg(self.child.pid, signal.SIGKILL)
            except OSError:
                pass
        self.child.wait()
        self.quit()

    def report(self, timeout):
        """A report now, while it waits for a word; None if not preloaded."""
        where = self.variant.report_dir
        if not where:
            return None
        self.reports += 1
        os.kill(self.child.pid, signal.SIGUSR1)
        limit = time.monotonic() + timeout
        while time.monotonic() < limit and self.child.poll() is None:
            try:
                found = reports.written(where, self.child.pid, "usr1")
            except Failure:  # half written
                found = []
            if len(found) >= self.reports:
                return found[-1]
            time.sleep(0.01)
        raise Failure("%s: no report on SIGUSR1 in %s" % (self, where))


class Turns:
    """`turns` measured runs of each variant, in turn.

    Logs go to out/; `jobs` processes start at the same time; no more are
    started while full() says so (None: never). A variant that fails once is
    given up."""

    def __init__(self, variants, turns, out, jobs=None, full=None,
                 timeout=120, log=print):
        self.out, self.timeout, self.log = out, timeout, log
        self.jobs = jobs or os.cpu_count() or 1
        self.full = full or (lambda: False)
        self.lines = queue.Queue()
        self.failures, self.rows = [], {v.label: {} for v in variants}
        self.in_all = [v.label for v in variants if v.turns is None]
        self.given_up = set()
        self.workers = []
        self.longest = 0.0
        # The order alternates too: clocks and heat drift.
        self.todo = [(variant, turn) for turn in range(turns)
                     for variant in variants[::1 if turn % 2 == 0 else -1]
                     if variant.turns is None or turn < variant.turns]

    # ---- getting ready -------------------------------------------------------

    def _start(self):
        variant, turn = self.todo.pop(0)
        if variant.label in self.given_up:
            return
        log = os.path.join(self.out, "%s-%d" % (variant.label, turn))
        self.workers.append(Worker(variant, turn, log, self.lines))

    def _enough(self):
        """No further turn has to begin with those that are here."""
        return bool(self.workers and self.full() and
                    self.todo[0][1] != self.workers[-1].turn)

    def _give_up(self, worker, failure):
        if worker.variant.label not in self.given_up:
            self.failures.append(str(failure))
        self.given_up.add(worker.variant.label)
        worker.kill()

    def _assemble(self):
        """Starts as many as there is room for, and waits until all of them are
        ready."""
        limit = time.monotonic() + self.timeout
        while True:
            starting = [w for w in self.workers if not w.ready
                        and w.variant.label not in self.given_up]
            if (self.todo and len(starting) < self.jobs and
                    not self._enough()):
                self._start()
                continue
            if not starting:
                return
            worker, _ = self._next(limit, ("ready",), starting)
            if worker:
                worker.ready = True

    def _next(self, limit, words, those):
        """The next answer of one of `those`: (worker, facts), or (None, None)
        after a failure, which is noted."""
        try:
            worker, line = self.lines.get(
                timeout=max(0.01, limit - time.monotonic()))
        except queue.Empty:
            for worker in those:
                self._give_up(worker, "%s: no answer in %.0f s" % (
                    worker, self.timeout))
            return None, None
        if line is None:
            if worker in those:
                self._give_up(worker, worker.how_it_ended())
            return None, None
        word, _, rest = line.partition(" ")
        if worker in those and word in words:
            return worker, json.loads(rest)
        return None, None  # something that the program prints besides

    # ---- running -------------------------------------------------------------

    def _ask(self, worker, word, answer):
        worker.tell(word)
        limit = time.monotonic() + self.timeout
        while worker.variant.label not in self.given_up:
            found, facts = self._next(limit, (answer,), [worker])
            if found:
                return facts
        return None

    def _measure(self, worker):
        start = time.monotonic()
        try:
            row = {"turn": worker.turn, "pid": worker.child.pid}
            row["warm"] = self._ask(worker, "warm", "warm")
            before = row["warm"] and worker.report(self.timeout)
            measured = row["warm"] and self._ask(worker, "measure", "measured")
            after = measured and worker.report(self.timeout)
        except Failure as failure:
            self._give_up(worker, failure)
            return
        if measured:
            row.update(measured)
            if after:
                row["pool"] = reports.difference(before, after)
                row["reserved_peak"] = after.gauge("reserved_bytes", "peak")
                row["allocated_peak"] = after.peak()
            row["seconds"] = time.monotonic() - start
            self.rows[worker.variant.label][worker.turn] = row

    def _dismiss(self, workers):
        """They end, all at once, before anybody runs again."""
        for worker in workers:
            worker.quit()
        for worker in workers:
            known = worker.variant.label in self.given_up
            status = worker.wait(self.timeout)
            if status and not known:
                self._give_up(worker, "%s: status %d at its end" % (worker,
                                                                    status))
            elif status is None and not known:
                self._give_up(worker, "%s: did not end" % worker)
            self.workers.remove(worker)

    def run(self, left=None):
        """All turns, or as many as left(), seconds, allows. Returns the number
        of turns of which every run was made."""
        left = left or (lambda: float("inf"))
        try:
            while self.todo and left() > 1.3 * self.longest:
                start = time.monotonic()
                self._assemble()
                self.log("%d ready in %.0f s" % (
                    len(self.workers), time.monotonic() - start))
                if not self.workers:
                    break
                self._run_ready(left)
        finally:
            for worker in self.workers:
                worker.kill()
                worker.wait(0)
        return self.complete()

    def _run_ready(self, left):
        while self.workers:
            turn = self.workers[0].turn
            group = [w for w in self.workers if w.turn == turn]
            start = time.monotonic()
            if left() > 1.3 * self.longest:
                for worker in group:
                    if worker.ready and (worker.variant.label not in
                                         self.given_up):
                        self._measure(worker)
            else:
                self.todo = []
            self._dismiss(group)
            self.longest = max(self.longest, time.monotonic() - start)

    def complete(self):
        """The number of turns that every variant which is to take part in all
        of them has measured."""
        turns = [set(self.rows[label]) for label in self.in_all
                 if label not in self.given_up]
        return len(set.intersection(*turns)) if turns else 0


def pairs(rows, first, second):
    """The rows of the turns that both have, as a list of pairs."""
    both = sorted(set(rows.get(first, {})) & set(rows.get(second, {})))
    return [(rows[first][turn], rows[second][turn]) for turn in both]


def compare(rows, base, other, key="step_ms"):
    """Medians of both over the turns that both have, the ratio of the medians
    and that of each turn; None where there is no such turn."""
    both = pairs(rows, base, other)
    if not both:
        return None
    ours, theirs = [b[key] for _, b in both], [a[key] for a, _ in both]
    ratios = [o / t for o, t in zip(ours, theirs)]
    return {"base": common.median(theirs), "other": common.median(ours),
            "ratio": common.median(ours) / common.median(theirs),
            "ratios": ratios, "turns": len(both)}


def equal_losses(rows, base):
    """Are all other variants' losses as near to `base`'s as those of its runs
    are to each other? (yes, words), per label. Steps that both made count."""
    known = [row["losses"] for row in rows[base].values()]
    verdicts = {}
    for label in rows:
        if label == base or not rows[label]:
            continue
        worst = own = 17
        for row in rows[label].values():
            worst = min(worst, max(agreement(row["losses"], x)
                                   for x in known) if known else 0)
        for i, one in enumerate(known):
            for two in known[i + 1:]:
                own = min(own, agreement(one, two))
        equal = bool(known) and worst >= own and own >= 2
        words = ("equal" if worst == 17 else "to %d digits" % worst)
        verdicts[label] = (equal, words if equal else
                           "NO: %d of %d digits" % (worst, own))
    return verdicts


def agreement(one, two):
    """Digits to which two series of losses agree, as far as both go."""
    return min((common.digits_agreed(a, b) for a, b in zip(one, two)),
               default=0)


def plain_variant(label, command, env=None, turns=None):
    return Variant(label, command, machine.plain_env(env), None, turns)


def preloaded_variant(label, command, library, report_dir, env=None,
                      conf=None):
    """With gpupool preloaded; its reports go to report_dir."""
    os.makedirs(report_dir, exist_ok=True)
    return Variant(label, command,
                   common.preload_env(library, report_dir, env, conf),
                   report_dir)
