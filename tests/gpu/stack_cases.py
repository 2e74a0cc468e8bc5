"""Cases of run.py about call stacks: the report names the line of the program
that keeps memory, or that asked for too much."""

import os
import signal
import sys

import common
import machine
import reports
from common import Run
from machine import Failure

PROGRAM = [sys.executable, os.path.join(machine.PROGRAMS, "leak_program.py")]
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def run(context, case, conf, env, *more):
    """One preloaded run, signalled when it is ready: (run, report)."""
    machine.need_modules("torch")
    where = context.reports(case)

    def watch(process, line):
        if line.strip() == "ready":
            os.kill(process.pid, signal.SIGUSR1)

    done = Run(PROGRAM + list(more),
               common.preload_env(context.library, where, env, conf),
               context.log(case, "preloaded"), context.timeout, watch)
    done.check("run with " + conf)
    found = reports.written(where, done.pid, "usr1")
    if len(found) != 1:
        raise Failure("%d reports on the signal" % len(found))
    return done, found[0]


def lines(frames):
    """The lines of the program among some frames."""
    return [str(f["line"]) for f in frames
            if f["file"].endswith("leak_program.py")]


def row(done, report):
    return {"plain_s": 0, "preloaded_s": done.seconds,
            "peak_bytes": report.peak(), "hits": report.hits(),
            "equal": "stacks named"}


def leak(context, case, env):
    done, report = run(context, case, "stacks:sample", env)
    wanted = done.results()[-1]["leak"]
    sites = [site for site in report.data["top_sites"]
             if lines(site["frames"])[:1] == [wanted]]
    if not sites:
        raise Failure("no site at line %s of leak_program.py: %s" % (
            wanted, [lines(s["frames"]) for s in report.data["top_sites"]]))
    kept = sum(site["bytes"] for site in sites)
    if not 500 << 20 <= kept <= 2000 << 20:  # 960 MiB, from samples
        raise Failure("%d MiB at line %s, not about 960" % (kept >> 20,
                                                            wanted))
    growing = [lines(s["frames"])[:1] for s in report.data["growing_sites"]]
    if [wanted] not in growing:
        raise Failure("line %s is not among those that grow: %s" % (
            wanted, growing))
    return row(done, report)


def leak_uncached(context, case):
    """A list that keeps tensors, uncached: the line, its bytes and growth."""
    return leak(context, case, UNCACHED)


def oom_stack(context, case):
    """The card is full: the line that asked, by default."""
    done, report = run(context, case, "stacks:oom", UNCACHED, "oom")
    found = reports.written(context.reports(case), done.pid, "oom")
    if not found:
        raise Failure("no report of the refusal")
    wanted = done.results()[-1]["oom"]
    stack = found[-1].data["oom_stack"]
    if lines(stack)[:1] != [wanted]:
        raise Failure("the request came from line %s, the report has %s" % (
            wanted, lines(stack)))
    if not any("c10" in f["file"] or "torch" in f["file"] for f in stack):
        raise Failure("no frame of PyTorch's libraries")
    return row(done, report)


CASES = [("leak-uncached", leak_uncached), ("oom-stack", oom_stack)]
