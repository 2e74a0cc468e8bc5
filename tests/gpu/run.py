#!/usr/bin/env python3
"""Programs nobody changed, on a real card: each runs plain (twice) and with
gpupool preloaded. Results must be equal, memory must have come from the pool,
and the exit report must make sense. Times are printed, never judged.

    tests/gpu/run.py --build build [--only NAME,...] [--quick] [--install]

What this machine lacks (a card, nvcc, a Python package) is skipped, in words.
"""

import argparse
import concurrent.futures
import json
import os
import signal
import subprocess
import sys
import time

import common
import conformance_cases
import machine
import ipc_cases
import limit_cases
import oom_cases
import order_cases
import reports
import share_cases
import snapshot_cases
import stack_cases
import ways_cases
from case import Context, compare, pair
from common import Run
from machine import Failure, Skip

PYTHON = sys.executable


# ---- the table: programs as they are ---------------------------------------

def c_static(context, case):
    """C program, static cudart."""
    return pair(context, case, [machine.build_c("runtime", context.programs,
                                               "static")])


def c_shared(context, case):
    """C program, shared cudart."""
    return pair(context, case, [machine.build_c("runtime", context.programs,
                                               "shared")])


def c_driver(context, case):
    """C program, driver API, kernels as PTX."""
    return pair(context, case, [machine.build_c("driver", context.programs,
                                               "driver")])


def torch_command(context, model, *more):
    machine.need_modules("torch", *(["torchvision"] if model == "resnet50"
                                   else []))
    return [PYTHON, os.path.join(machine.HERE, "models.py"), model,
            "--steps", "20" if context.quick else "50"] + list(more)


def torch_cached(context, case):
    """PyTorch with its own cache, transformer."""
    return pair(context, case, torch_command(context, "transformer"))


UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}


def torch_uncached(context, case):
    """PyTorch, PYTORCH_NO_CUDA_MEMORY_CACHING=1, transformer."""
    return pair(context, case, torch_command(context, "transformer",
                                             "--announce"), UNCACHED)


def torch_resnet(context, case):
    """PyTorch, PYTORCH_NO_CUDA_MEMORY_CACHING=1, ResNet-50."""
    return pair(context, case, torch_command(context, "resnet50"), UNCACHED)


def program(name):
    return [PYTHON, os.path.join(machine.PROGRAMS, name + ".py")]


def cupy(context, case):
    """CuPy with set_allocator(None)."""
    machine.need_modules("cupy", "numpy")
    return pair(context, case, program("cupy_program"))


def module(context, case):
    """The gpupool module beside PyTorch's own figures."""
    machine.need_modules("torch")
    return pair(context, case, program("module_program"))


def module_uncached(context, case):
    """The same, PYTORCH_NO_CUDA_MEMORY_CACHING=1."""
    machine.need_modules("torch")
    return pair(context, case, program("module_program"), UNCACHED)


# Autotuning may choose another kernel, hence other roundings, each run. The
# fraction leaves room for other programs on the card.
JAX_ENV = {"XLA_FLAGS": "--xla_gpu_autotune_level=0",
           "XLA_PYTHON_CLIENT_MEM_FRACTION": ".25"}


def jax(context, case):
    """JAX with its own allocator."""
    machine.need_modules("jax", "jaxlib", "numpy")
    return pair(context, case, program("jax_program"), JAX_ENV)


def jax_platform(context, case):
    """JAX, XLA_PYTHON_CLIENT_ALLOCATOR=platform."""
    if context.quick:
        raise Skip("--quick")
    machine.need_modules("jax", "jaxlib", "numpy")
    return pair(context, case, program("jax_program"),
                dict(JAX_ENV, XLA_PYTHON_CLIENT_ALLOCATOR="platform"))


def numba(context, case):
    """Numba, kernels on several streams."""
    machine.need_modules("numba", "numpy")
    return pair(context, case, program("numba_program"))


def streams_static(context, case):
    """CUDA C++, threads and streams, static cudart."""
    return pair(context, case, [machine.build_cu("streams", context.programs,
                                                "static")])


def streams_shared(context, case):
    """CUDA C++, threads and streams, shared cudart."""
    return pair(context, case, [machine.build_cu("streams", context.programs,
                                                "shared")])


def churn_command(context):
    path = os.path.join(context.build, "examples", "churn")
    if not os.path.exists(path):
        raise Skip("no %s (make)" % path)
    runtime = machine.cudart()
    if not runtime.endswith(".13"):
        raise Skip("no libcudart.so.13")
    return ([path, "--ops", "20000", "--seed", "3", "--streams", "4"],
            {"LD_LIBRARY_PATH": os.path.dirname(runtime)})


def churn(context, case):
    """The demo program, real cudart."""
    return pair(context, case, *churn_command(context))


# ---- signals ----------------------------------------------------------------

def usr1(context, case):
    """kill -USR1 in mid-training: a report, and an equal loss."""
    command = torch_command(context, "transformer", "--announce")
    runs = context.plain(case, command, UNCACHED)
    where = context.reports(case)
    seen = []

    def watch(process, line):
        if line.strip() not in ("step 5", "step 10"):
            return
        os.kill(process.pid, signal.SIGUSR1)
        # The report is there while the program still trains.
        limit = time.monotonic() + 10
        want = len(seen) + 1
        while time.monotonic() < limit:
            found = reports.written(where, process.pid, "usr1")
            if len(found) >= want:
                seen.append(found[-1])
                return
            time.sleep(0.02)

    run = Run(command, common.preload_env(context.library, where, UNCACHED),
              context.log(case, "preloaded"), context.timeout, watch)
    run.check("signalled run")
    if len(seen) != 2:
        raise Failure("%d of 2 reports while it trained" % len(seen))
    for report in seen:
        if not report.peak():
            raise Failure("%s says nothing is pooled" % report.path)
    final = reports.sane_exit_report(where, run.pid)
    if final.peak() < seen[0].peak():
        raise Failure("the exit report's peak is below an earlier one's")
    return {"plain_s": min(r.seconds for r in runs),
            "preloaded_s": run.seconds, "peak_bytes": final.peak(),
            "hits": final.hits(), "equal": compare(runs, run)}


def handler(context, case, when, chained):
    command = program("handler") + [when, machine.cudart()]
    runs = context.plain(case, command, {})
    where = context.reports(case)
    run = Run(command, common.preload_env(context.library, where),
              context.log(case, "preloaded"), context.timeout)
    run.check("preloaded run")
    words = compare(runs, run)
    if run.results()[-1].get("handled") != "3":
        raise Failure("its handler ran %s times of 3" % run.results()[-1])
    written = len(reports.written(where, run.pid, "usr1"))
    if chained and not written:
        raise Failure("its handler ran, but no report was written")
    if not chained and written:
        raise Failure("%d reports although its own handler had replaced "
                      "gpupool's" % written)
    report = reports.sane_exit_report(where, run.pid)
    return {"plain_s": min(r.seconds for r in runs),
            "preloaded_s": run.seconds, "peak_bytes": report.peak(),
            "hits": report.hits(), "equal": words}


def handler_before(context, case):
    """Own SIGUSR1 handler, set before CUDA: both it and the report."""
    return handler(context, case, "before", True)


def handler_after(context, case):
    """Own SIGUSR1 handler, set after CUDA: it alone."""
    return handler(context, case, "after", False)


# ---- installed ---------------------------------------------------------------

def install(context, case):
    """make install, then the bare LD_PRELOAD=libgpupool.so."""
    if not context.prefix:
        raise Skip("needs --install (writes to /usr/local)")
    done = subprocess.run(["make", "-s", "-C", common.TOP, "install",
                           "PREFIX=" + context.prefix],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          universal_newlines=True, check=False)
    if done.returncode:
        raise Failure("make install\n" + common.tail(done.stdout))
    command, env = churn_command(context)
    runs = context.plain(case, command, env)
    where = context.reports(case)
    run = Run(command, common.preload_env("libgpupool.so", where, env),
              context.log(case, "preloaded"), context.timeout)
    run.check("preloaded run")
    report = reports.sane_exit_report(where, run.pid)
    return {"plain_s": min(r.seconds for r in runs),
            "preloaded_s": run.seconds, "peak_bytes": report.peak(),
            "hits": report.hits(), "equal": compare(runs, run)}


CASES = [("c-static", c_static), ("c-shared", c_shared),
         ("driver", c_driver), ("torch", torch_cached),
         ("torch-uncached", torch_uncached), ("torch-resnet", torch_resnet),
         ("module", module), ("module-uncached", module_uncached),
         ("cupy", cupy), ("jax", jax), ("numba", numba),
         ("jax-platform", jax_platform), ("churn", churn),
         ("streams-static", streams_static),
         ("streams-shared", streams_shared), ("usr1", usr1),
         ("handler-before", handler_before), ("handler-after", handler_after),
         ("install", install)] + order_cases.CASES + limit_cases.CASES + \
        stack_cases.CASES + share_cases.CASES + ipc_cases.CASES + \
        oom_cases.CASES + snapshot_cases.CASES + conformance_cases.CASES + \
        ways_cases.CASES


# Those that fill the card: nothing else may run meanwhile.
WANT_THE_CARD = ("limit-two", "limit-workspace", "limit-nccl", "oom-stack",
                 "neighbours", "conformance") + \
    tuple(name for name, _ in oom_cases.CASES)


# ---- running them ------------------------------------------------------------

def run_case(context, name, case):
    """One case's row, with its verdict in `status`."""
    row = {"name": name, "what": case.__doc__.strip(), "status": "passed"}
    start = time.monotonic()
    try:
        row.update(case(context, name))
    except Skip as reason:
        row.update(status="skipped", why=str(reason))
    except Failure as reason:
        row.update(status="failed", why=str(reason))
    except Exception as error:  # the others must still run
        row.update(status="failed", why="%s: %s" % (type(error).__name__,
                                                    error))
    row["seconds"] = time.monotonic() - start
    print("%-15s %-8s %5.1f s  %s" % (
        name, row["status"], row["seconds"],
        row.get("why", row["what"]).split("\n")[0]), flush=True)
    return row


def print_table(rows):
    cells = []
    for row in rows:
        if "peak_bytes" not in row:
            cells.append([row["name"], "-", "-", "-", "-", row["status"]])
            continue
        cells.append([row["name"], "%.2f" % row["plain_s"],
                      "%.2f" % row["preloaded_s"],
                      common.mib(row["peak_bytes"]), row["hits"],
                      row["equal"]])
    print()
    common.table(["program", "plain s", "preloaded s", "pooled peak MiB",
                  "hits", "result equal"], cells)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", metavar="NAME,...",
                        help="of " + " ".join(name for name, _ in CASES))
    parser.add_argument("--json", metavar="FILE", help="write the rows")
    parser.add_argument("--out", metavar="DIR",
                        help="keep logs and reports there")
    parser.add_argument("--quick", action="store_true",
                        help="one plain run each, fewer steps")
    parser.add_argument("--timeout", type=float, default=150, metavar="S",
                        help="limit for one run of a program (default 150)")
    parser.add_argument("--jobs", "-j", type=int, default=1,
                        help="cases at a time (the times then mean little)")
    parser.add_argument("--seconds", type=int, default=30, metavar="S",
                        help="how long order-fuzz goes on (default 30)")
    parser.add_argument("--without", metavar="OP,...",
                        help="leave these out of its programs")
    parser.add_argument("--install", nargs="?", const="/usr/local",
                        metavar="PREFIX", help="also make install there "
                        "(default /usr/local) and preload by bare name")
    args = parser.parse_args()
    wanted = args.only.split(",") if args.only else [n for n, _ in CASES]
    unknown = sorted(set(wanted) - {name for name, _ in CASES})
    if unknown:
        parser.error("no such case: " + " ".join(unknown))
    context = Context(args)
    if not os.path.exists(context.library):
        sys.exit("no %s: run make first" % context.library)
    try:
        print("card: %s; logs in %s" % (machine.card(), context.out),
              flush=True)
    except Skip as reason:
        print("skipped: %s" % reason)
        print("0 passed, 0 failed, %d skipped" % len(wanted))
        return 0

    cases = [item for item in CASES if item[0] in wanted]
    with concurrent.futures.ThreadPoolExecutor(max(1, args.jobs)) as pool:
        rows = list(pool.map(lambda item: run_case(context, *item),
                             [item for item in cases
                              if item[0] not in WANT_THE_CARD]))
    rows += [run_case(context, *item) for item in cases
             if item[0] in WANT_THE_CARD]
    failed = [row for row in rows if row["status"] == "failed"]
    for row in failed:
        print("\n%s failed (%s): %s" % (row["name"], row["what"], row["why"]))
    print_table(rows)
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"programs": rows}, file, indent=1)
    count = {status: sum(row["status"] == status for row in rows)
             for status in ("passed", "failed", "skipped")}
    print("\n%d passed, %d failed%s" % (
        count["passed"], count["failed"],
        ", %d skipped" % count["skipped"] if count["skipped"] else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
