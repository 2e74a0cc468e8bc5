"""Cases of run.py about the order in which freed memory is used again. Among
them the random programs of order_fuzz.cu, and the same under a library with a
clause of its protocol switched off, where something must go wrong."""

import concurrent.futures
import os
import subprocess

import common
import machine
import reports
from case import pair
from common import Run
from machine import Failure

def flags(context, case):
    """Kernels that wait for a flag from another stream."""
    folder = os.path.join(common.TOP, "tests", "programs")
    return pair(context, case, [machine.build_c(
        "drv_flags", context.programs, "driver", folder)])


def host_view(context, case):
    """What cudaFree lets the host see; copies past a block's end."""
    return pair(context, case, [machine.build_cu("host_view",
                                                 context.programs, "shared")])


def facts(context, case):
    """What pool/ORDER.md takes for granted of the driver."""
    return pair(context, case, [machine.build_cu("facts", context.programs,
                                                 "static")])


def graph_wait(context, case):
    """Waits while another thread launches a graph into the stream."""
    return pair(context, case, [machine.build_cu("graph_wait",
                                                 context.programs, "shared")])


def thrust(context, case):
    """Thrust and CUB, vectors and temporary storage."""
    return pair(context, case, [machine.build_cu("thrust_program",
                                                 context.programs, "shared")])


# ---- random programs ---------------------------------------------------------

# A hardware queue for each stream, as far as there are any: what shares one is
# ordered by it.
QUEUES = {"CUDA_DEVICE_MAX_CONNECTIONS": "32"}
REUSE = "free_order:reuse"

# A clause of pool/mutations.def, and what makes its loss visible here. With
# --lean 0 only the memory's own order counts, so that no other hides it.
ALWAYS, OWN_ORDER = ([], None), (["--lean", "0"], REUSE)
MUST_SEE = [("JOIN_WAITS", ALWAYS), ("FREE_RAISES_NEED", ALWAYS),
            ("REISSUE_RAISES_NEED", OWN_ORDER), ("SUBMIT_JOINS", ALWAYS),
            ("MARK_COVERS_ALL", ALWAYS), ("FREE_WAITS_FOR_HOST", ALWAYS)]
# Narrow windows, or hidden by how the driver spreads streams over queues: a
# card may not show them in the time given. The simulator's fuzz shows all.
MAY_SEE = [("MARKS_NEST", OWN_ORDER), ("JOIN_ENOUGH", ALWAYS),
           ("JOIN_STARTS_AT_ZERO", ALWAYS), ("SYNC_ONE_STREAM", ALWAYS),
           ("DESTROY_KEEPS_TAIL", OWN_ORDER), ("THREADS_SET_OFF", ALWAYS),
           ("DONE_MEANS_COMPLETE", ALWAYS), ("MOVE_WANTS_DONE", ALWAYS),
           ("JOINED_TAKE_LATEST", OWN_ORDER), ("QUERY_AFTER_FREE", ALWAYS)]
MUTANT_S = 12  # for each, unless seen sooner


def _fuzz(context, *more):
    words = [machine.build_cu("order_fuzz", context.programs, "shared")]
    if context.without:
        words += ["--without", context.without]
    return words + [str(word) for word in more]


def _told(run):
    """What the program says it did."""
    for line in run.stdout.splitlines():
        if line.startswith("order_fuzz: "):
            return line[len("order_fuzz: "):]
    return "nothing"


def _preloaded(context, case, name, command, conf, seconds, library=None):
    where = context.reports(case)
    env = common.preload_env(library or context.library, where, QUEUES, conf)
    return Run(command, env, context.log(case, name), seconds + 120)


# (name, options, settings; None: without gpupool). Seeds are of their own. What
# "kept" sees, where no free ever waits, is the driver's fault or the program's.
FUZZ = [("plain", [], None), ("kept", ["--keep", "1", "--threads", "8"], None),
        ("default", [], ""), ("default-2", [], ""),
        ("reuse", ["--lean", "0", "--threads", "8"], REUSE)]


def _fuzz_part(context, case, seconds, first, part):
    """The run, and its exit report if it has one. A Failure if it saw anything
    wrong."""
    name, more, conf = part
    command = _fuzz(context, "--seconds", seconds, "--seeds",
                    "%d-%d" % (first, first + 10 ** 6), *more)
    if conf is None:
        run = Run(command, machine.plain_env(QUEUES),
                  context.log(case, name), seconds + 120)
    else:
        run = _preloaded(context, case, name, command, conf or None, seconds)
    run.check("%s run" % name)
    if run.results()[-1].get("clean") != "1":
        raise Failure("%s run: %s" % (name, run.results()[-1]))
    report = None if conf is None else reports.sane_exit_report(
        context.reports(case), run.pid)
    return run, report


def order_fuzz(context, case):
    """Random programs of many streams: nobody sees another's words."""
    seconds = max(5, int(context.seconds))
    _fuzz(context)  # built once
    # At the same time: a card that is shared lags behind, and what is taken for
    # done too early shows.
    with concurrent.futures.ThreadPoolExecutor(len(FUZZ)) as pool:
        jobs = [pool.submit(_fuzz_part, context, case, seconds,
                            1 + number * 10 ** 6, part)
                for number, part in enumerate(FUZZ)]
    done = [job.result() for job in jobs]
    report = done[2][1]
    return {"why": "; ".join("%s %s" % (part[0], _told(run))
                             for part, (run, _) in zip(FUZZ, done)),
            "peak_bytes": report.peak(),
            "reserved_bytes": report.gauge("reserved_bytes", "peak"),
            "hits": report.hits(), "plain_s": done[0][0].seconds,
            "preloaded_s": done[2][0].seconds, "equal": "yes"}


def _mutant_library(context):
    """build/mut/libgpupool.so, which the Makefile knows how to build."""
    path = os.path.join(context.build, "mut", "libgpupool.so")
    tree = os.path.relpath(context.build, common.TOP)  # as make names it
    done = subprocess.run(["make", "-s", "-C", common.TOP, "B=" + tree,
                           os.path.join(tree, "mut", "libgpupool.so")],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, check=False)
    if done.returncode or not os.path.exists(path):
        raise Failure("cannot build the mutant\n" + common.tail(done.stdout))
    return path


def order_mutants(context, case):
    """The same with a clause of the protocol off: it must go wrong."""
    library = _mutant_library(context)
    command = _fuzz(context)
    control = _preloaded(context, case, "control",
                         command + ["--seconds", "10", "--jitter", "1"], None,
                         10, library)
    control.check("with every clause on")
    seen, unseen, missed = [], [], []
    for rule, (more, conf) in MUST_SEE + MAY_SEE:
        run = _preloaded(context, case, rule,
                         command + ["--seconds", str(MUTANT_S), "--jitter",
                                    "1", "--mutate", rule] + more,
                         conf, MUTANT_S, library)
        # Wrong words, or an address where nothing is any more.
        gone = run.status == 3 and "illegal memory access" in run.stderr
        wrong = run.status == 1 or gone
        print("  %-20s %s" % (rule, "seen" if wrong else "not seen"),
              flush=True)
        if wrong:
            seen.append(rule)
        elif run.status or run.timed_out:
            raise Failure("%s: ended with %s\n%s" % (
                rule, run.status, common.tail(run.stdout + run.stderr)))
        elif rule in dict(MUST_SEE):
            missed.append(rule)
        else:
            unseen.append(rule)
    if missed:
        raise Failure("not seen: " + " ".join(missed))
    return {"why": "%d of %d clauses seen missing%s" % (
        len(seen), len(seen) + len(unseen),
        "; not seen: " + " ".join(unseen) if unseen else "")}


CASES = [("flags", flags), ("facts", facts), ("host-view", host_view),
         ("graph-wait", graph_wait), ("thrust", thrust), ("order-fuzz", order_fuzz),
         ("order-mutants", order_mutants)]
