"""Cases of run.py about running out of memory: the report's first paragraph
gives the reason that there is."""

import os
import re
import subprocess
import sys
import tempfile

import common
import machine
import reports
from common import Run
from machine import Failure

PROGRAM = [sys.executable, os.path.join(machine.PROGRAMS, "oom_program.py")]
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def refused(context, case, args, conf, env):
    """One preloaded run that is refused; its run, and the first report."""
    machine.need_modules("torch")
    where = context.reports(case)
    done = Run(PROGRAM + list(args),
               common.preload_env(context.library, where, env, conf),
               context.log(case, "preloaded"), context.timeout)
    done.check("run of " + args[0])
    if done.results()[-1].get("refused") != "1":
        raise Failure("it was not refused")
    found = reports.written(where, done.pid, "oom")
    if not found:
        raise Failure("no report of the refusal")
    return done, found[0]


def first_paragraph(report):
    with open(report.path[:-len("json")] + "txt") as file:
        return " ".join(file.read().split("\n\n")[1].split())


def need(done, report, cause, pattern):
    """The answer is the right one; the table's row."""
    answer = first_paragraph(report)
    print("    " + answer, flush=True)
    if report.data["oom_cause"] != cause:
        raise Failure("it says %s, not %s: %s" % (
            report.data["oom_cause"], cause, answer))
    if not re.search(pattern, answer):
        raise Failure("no '%s' in: %s" % (pattern, answer))
    if answer != report.data["oom_answer"]:
        raise Failure("text and JSON differ: %s / %s" % (
            answer, report.data["oom_answer"]))
    return {"plain_s": 0, "preloaded_s": done.seconds,
            "peak_bytes": report.peak(), "hits": report.hits(),
            "equal": cause}


def whole(context, case):
    """Uncached PyTorch asks for more than the card."""
    done, report = refused(context, case, ["whole"], None, UNCACHED)
    return need(done, report, "larger_than_device",
                "no setting helps, the request alone exceeds the card")


def cap(context, case, env):
    done, report = refused(context, case, ["fill"], "memory_limit:8GiB", env)
    row = need(done, report, "limit",
               r"the limit of this process \(memory_limit\) left no room")
    if not report.data["oom_setting"].startswith("memory_limit:"):
        raise Failure("it names '%s'" % report.data["oom_setting"])
    return row


def cap_uncached(context, case):
    """Uncached PyTorch fills what its limit allows."""
    return cap(context, case, UNCACHED)


def cap_torch(context, case):
    """The same with PyTorch's own cache."""
    return cap(context, case, None)


def pieces(context, case):
    """Fragmentation, with expandable_segments:False, uncached."""
    done, report = refused(context, case, ["pieces"],
                           "expandable_segments:False", UNCACHED)
    return need(done, report, "fragmented",
                r"fragmentation\. Remapping was off because "
                r"expandable_segments is False\. "
                r"expandable_segments:True would have helped\.")


def others(context, case, env, holder_conf):
    """Another process has most of the card."""
    machine.need_modules("torch")
    with tempfile.TemporaryDirectory(prefix="gpupool-oom-") as top:
        env = dict(env or {}, XDG_RUNTIME_DIR=top)
        holder_env = common.preload_env(
            context.library, context.reports(case + "-holder"),
            dict(UNCACHED, XDG_RUNTIME_DIR=top), holder_conf)
        os.makedirs(os.path.dirname(context.log(case, "holder")),
                    exist_ok=True)
        with open(context.log(case, "holder") + ".err", "w") as err:
            holder = subprocess.Popen(PROGRAM + ["hold", "0.6"],
                                      env=holder_env, stderr=err,
                                      stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE,
                                      universal_newlines=True)
        try:
            if holder.stdout.readline().strip() != "ready":
                raise Failure("the other process did not get its memory")
            done, report = refused(context, case, ["ask", "0.5"], None, env)
        finally:
            holder.kill()
            holder.wait()
            holder.stdout.close()
        return need(done, report, "other_processes",
                    r"hold \d+\.\d\d GiB of the card's [\d.]+ GiB: .*"
                    r"pid %d\b" % holder.pid if not holder_conf else
                    r"hold \d+\.\d\d GiB of the card's")


def others_uncached(context, case):
    """Another process holds 60 % of the card; uncached PyTorch."""
    return others(context, case, UNCACHED, None)


def others_torch(context, case):
    """The same with PyTorch's own cache."""
    return others(context, case, None, None)


def others_stranger(context, case):
    """The other process runs without gpupool."""
    return others(context, case, UNCACHED, "enabled:False")


def outside(context, case):
    """Most of the card is taken by cudaMallocAsync, uncached PyTorch."""
    done, report = refused(context, case, ["outside", machine.cudart()],
                           None, UNCACHED)
    return need(done, report, "outside_the_pool",
                r"this process holds .* outside the pool, .*cudaMallocAsync")


CASES = [("oom-card", whole), ("oom-cap", cap_uncached),
         ("oom-cap-torch", cap_torch), ("oom-pieces", pieces),
         ("oom-others", others_uncached), ("oom-others-torch", others_torch),
         ("oom-others-stranger", others_stranger), ("oom-outside", outside)]
