"""What the cases of run.py share: where things are, and the comparison of a
program's plain runs with a preloaded one."""

import os
import threading

import common
import machine
import reports
from common import Run
from machine import Failure


class Context:
    """Where things are, and the plain runs that several cases share."""

    def __init__(self, args):
        self.build = os.path.abspath(args.build)
        self.library = os.path.join(self.build, "libgpupool.so")
        self.programs = os.path.join(self.build, "gpu")
        self.out = common.out_dir(args.out, "gpu-test")
        self.quick, self.timeout = args.quick, args.timeout
        self.prefix, self.seconds = args.install, args.seconds
        self.without = args.without
        self._plain, self._lock = {}, threading.Lock()

    def log(self, case, name):
        return os.path.join(self.out, case, name)

    def reports(self, case):
        """A fresh, existing folder for one case's reports."""
        path = os.path.join(self.out, case, "reports")
        os.makedirs(path, exist_ok=True)
        return path

    def plain(self, case, command, env):
        """That program's plain runs: two of them, or one if in haste."""
        key = (tuple(command), tuple(sorted(env.items())))
        with self._lock:
            lock, runs = self._plain.setdefault(key, (threading.Lock(), []))
        with lock:
            while len(runs) < (1 if self.quick else 2):
                name = "plain-%d" % (len(runs) + 1)
                run = Run(command, machine.plain_env(env), self.log(case, name),
                          self.timeout)
                run.check("plain run")
                runs.append(run)
        return runs


def compare(runs, preloaded):
    """Failure unless the preloaded run's results equal the plain ones'."""
    equal, words = common.equal_results(runs[0].results(), runs[-1].results(),
                                        preloaded.results())
    if not equal:
        raise Failure(words)
    return words


def pair(context, case, command, env=None):
    """Plain, plain, preloaded. Returns the table's row."""
    env = env or {}
    runs = context.plain(case, command, env)
    where = context.reports(case)
    run = Run(command, common.preload_env(context.library, where, env),
              context.log(case, "preloaded"), context.timeout)
    run.check("preloaded run")
    report = reports.sane_exit_report(where, run.pid)
    return {"plain_s": min(r.seconds for r in runs),
            "preloaded_s": run.seconds, "peak_bytes": report.peak(),
            "reserved_bytes": report.gauge("reserved_bytes", "peak"),
            "hits": report.hits(), "allocs": report.total("num_alloc_calls"),
            "equal": compare(runs, run)}
