"""Cases of run.py about what the process may take: under a limit programs fail
as if the card were that small, go on, and stay below it as NVML sees them."""

import os
import sys
import threading

import common
import machine
import nvml
import reports
from common import MIB, Run
from machine import Failure, Skip

QUARTER = "per_process_memory_fraction:0.25"
HALF = "per_process_memory_fraction:0.5"
SLACK = 0.02  # what NVML may see beyond the limit
PROGRAM = [sys.executable, os.path.join(machine.PROGRAMS, "limit_program.py")]


def card_bytes():
    """The whole card, asked from outside; CUDA says a little less."""
    return nvml.Nvml().device_total()


def cap(report, share):
    """The limit as gpupool has it, which must be about that share of the
    card."""
    limit = report.data["devices"][0]["cap"]
    need_equal(limit, share * card_bytes(), "the limit", SLACK)
    return limit


def run(context, case, command, conf, env=None, name="preloaded"):
    """One preloaded run, what NVML saw of it beside, and its report."""
    where = context.reports(case)
    watch = nvml.Sampler(nvml.Nvml())

    def started(process, _line):
        watch.pid = process.pid

    with watch:
        done = Run(command, common.preload_env(context.library, where, env,
                                               conf),
                   context.log(case, name), context.timeout, started)
    done.check("run under " + conf)
    return done, watch, reports.sane_exit_report(where, done.pid)


def value(done, key):
    """A number of the program's `result` line."""
    return int(done.results()[-1][key])


def need_equal(got, want, what, slack=0.0):
    if abs(got - want) > slack * want:
        raise Failure("%s is %d MiB, not %d MiB" % (
            what, got // MIB, want // MIB))


def row(done, watch, report, limit):
    """The table's row; checks what NVML saw against the limit."""
    seen = watch.process_peak or watch.device_peak
    if seen > limit * (1 + SLACK):
        raise Failure("NVML saw %d MiB, the limit is %d MiB" % (
            seen // MIB, limit // MIB))
    device = report.data["devices"][0]
    if device["held"] > limit or device["peak"] > limit * (1 + SLACK):
        raise Failure("the report has %d MiB held, %d MiB at the peak" % (
            device["held"] // MIB, device["peak"] // MIB))
    return {"plain_s": 0, "preloaded_s": done.seconds,
            "peak_bytes": report.peak(),
            "reserved_bytes": report.gauge("reserved_bytes", "peak"),
            "hits": report.hits(), "allocs": report.total("num_alloc_calls"),
            "equal": "NVML %d of %d MiB" % (seen // MIB, limit // MIB)}


def shown(done, limit):
    """What the program was told is the limit."""
    need_equal(value(done, "total"), limit, "the size it was shown", 0.001)
    if value(done, "free") > limit:
        raise Failure("it was shown more free memory than the limit")


def torch(context, case):
    """PyTorch's own cache under a quarter: OutOfMemoryError, then it goes on."""
    machine.need_modules("torch")
    done, watch, report = run(context, case, PROGRAM + ["torch"], QUARTER)
    limit = cap(report, 0.25)
    shown(done, limit)
    need_equal(value(done, "props"), limit, "get_device_properties", 0.001)
    if value(done, "filled") < limit * 0.9:
        raise Failure("OutOfMemoryError after %d MiB of %d MiB" % (
            value(done, "filled") // MIB, limit // MIB))
    if not report.data["devices"][0]["refusals"]:
        raise Failure("the limit refused nothing")
    return row(done, watch, report, limit)


def torch_uncached(context, case):
    """The same, every tensor from the pool."""
    machine.need_modules("torch")
    done, watch, report = run(context, case, PROGRAM + ["torch"], QUARTER,
                              {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    limit = cap(report, 0.25)
    shown(done, limit)
    if value(done, "filled") < limit * 0.9:
        raise Failure("OutOfMemoryError after %d MiB" % (
            value(done, "filled") // MIB))
    return row(done, watch, report, limit)


def jax(context, case):
    """JAX under a quarter: preallocates 75 % of that, and trains."""
    machine.need_modules("jax", "jaxlib", "numpy")
    command = [sys.executable, os.path.join(machine.PROGRAMS,
                                            "jax_program.py")]
    done, watch, report = run(context, case, command, QUARTER,
                              {"XLA_FLAGS": "--xla_gpu_autotune_level=0"})
    done.results()
    limit = cap(report, 0.25)
    peak = report.data["devices"][0]["peak"]
    if not 0.70 * limit < peak <= limit * (1 + SLACK):
        raise Failure("it took %d MiB at most, 75 %% of the limit are %d MiB"
                      % (peak // MIB, 0.75 * limit // MIB))
    return row(done, watch, report, limit)


def cupy(context, case):
    """CuPy under a quarter: OutOfMemoryError, then it goes on."""
    machine.need_modules("cupy", "numpy")
    done, watch, report = run(context, case, PROGRAM + ["cupy"], QUARTER)
    limit = cap(report, 0.25)
    shown(done, limit)
    if value(done, "filled") < limit * 0.9:
        raise Failure("OutOfMemoryError after %d MiB" % (
            value(done, "filled") // MIB))
    return row(done, watch, report, limit)


def mixed(context, case):
    """C program: cudaMalloc, cudaMallocAsync, managed memory, arrays, each until
    there is no more, in turn."""
    command = [machine.build_c("limits", context.programs, "shared")]
    done, watch, report = run(context, case, command, QUARTER)
    limit = cap(report, 0.25)
    shown(done, limit)
    taken = value(done, "taken")
    if not limit * 0.9 < taken <= limit:
        raise Failure("it got %d MiB of %d MiB" % (taken // MIB,
                                                   limit // MIB))
    return row(done, watch, report, limit)


def graph(context, case):
    """Graphs that allocate: what they reserve counts, too much is refused."""
    command = [machine.build_c("limit_graph", context.programs, "shared")]
    done, watch, report = run(context, case, command, QUARTER)
    limit = cap(report, 0.25)
    if value(done, "value") != 42 or value(done, "refused") != 2:
        raise Failure("value %d, error %d for the larger one" % (
            value(done, "value"), value(done, "refused")))
    held = report.data["devices"][0]["part.graph"]
    if held < 1 << 30:
        raise Failure("of 1024 MiB that its graph took the report has %d" % (
            held // MIB))
    return row(done, watch, report, limit)


def two(context, case):
    """Two processes at a half each share the card."""
    machine.need_modules("torch")
    outcome = {}

    def one(name):
        try:
            outcome[name] = run(context, case, PROGRAM + ["torch", "hold"],
                                HALF, name=name)
        except (Failure, Skip) as reason:
            outcome[name] = reason

    threads = [threading.Thread(target=one, args=(name,))
               for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name, told in outcome.items():
        if isinstance(told, Exception):
            raise Failure("%s: %s" % (name, told))
        limit = cap(told[2], 0.5)
        # The driver keeps some of the card for itself.
        if value(told[0], "filled") < limit * 0.85:
            raise Failure("%s got %d of %d MiB" % (
                name, value(told[0], "filled") // MIB, limit // MIB))
    done, watch, report = outcome["second"]
    watch.device_peak = watch.process_peak = 0  # there were two
    return row(done, watch, report, limit)


def workspace(context, case):
    """cuBLAS wants its workspace while the pool has cached nearly everything."""
    machine.need_modules("torch")
    limit = card_bytes()
    done, watch, report = run(context, case, PROGRAM + ["workspace"],
                              "cache_policy:keep",
                              {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"})
    if value(done, "cached") < limit * 0.8:
        raise Skip("the card is in use: only %d MiB could be cached" % (
            value(done, "cached") // MIB))
    return row(done, watch, report, limit)


def nccl(context, case):
    """An NCCL communicator while the pool has cached nearly everything."""
    machine.need_modules("torch")
    done, watch, report = run(context, case, PROGRAM + ["nccl"],
                              "cache_policy:keep",
                              {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
                               "MASTER_ADDR": "127.0.0.1",
                               "MASTER_PORT": "29511"})
    if done.results()[-1].get("sum") != "1":
        raise Failure("another sum: %s" % done.results()[-1])
    return row(done, watch, report, card_bytes())


def bad_limit(context, case):
    """A limit that cannot be read: no device memory, and a word why."""
    command = [machine.build_c("limits", context.programs, "shared")]
    where = context.reports(case)
    done = Run(command, common.preload_env(context.library, where, None,
                                           "memory_limit:lots"),
               context.log(case, "preloaded"), context.timeout)
    if "no device memory" not in done.stderr:
        raise Failure("it was not told why\n" + machine.tail(done.stderr))
    if value(done, "taken"):
        raise Failure("it got %d MiB" % (value(done, "taken") // MIB))
    return {}


CASES = [("limit-torch", torch), ("limit-torch-uncached", torch_uncached),
         ("limit-jax", jax), ("limit-cupy", cupy), ("limit-mixed", mixed),
         ("limit-graph", graph),
         ("limit-two", two), ("limit-workspace", workspace),
         ("limit-nccl", nccl), ("limit-bad", bad_limit)]
