#!/usr/bin/env python3
"""Timings and memory on a real card. Six parts, each within five minutes:

  start      small processes that start at once, plain and preloaded
  pairs      what an allocate+free pair costs, by size, threads, live blocks
  bandwidth  copies through pool memory against cudaMalloc's
  memory     uncached PyTorch over gpupool against PyTorch's own allocators:
             the process's memory as nvidia-smi sees it
  speed      training steps, alternating runs of PyTorch's cache and gpupool
  overlap    copies beside kernels, in PyTorch and C++, alternating runs

    tests/gpu/bench.py --build build [--only PART,...] [--out DIR]

Figures are printed, not judged; a part fails only where a program does, or
where results differ. DIR/gpu-bench.json holds every figure.
"""

import argparse
import json
import os
import shutil
import sys
import time

import common
import machine
import nvml
import reports
import speed
from common import Run, median
from machine import Failure, Skip

sys.path.append(os.path.join(common.TOP, "tests"))
import at_once  # noqa: E402  (found through the line above)

PYTHON = sys.executable
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
              "PYTORCH_ALLOC_CONF": "expandable_segments:True"}


class Bench:
    """Where things are, and a deadline for the part that runs."""

    def __init__(self, args):
        self.args = args
        self.build = os.path.abspath(args.build)
        self.library = os.path.join(self.build, "libgpupool.so")
        self.programs = os.path.join(self.build, "gpu")
        self.out = common.out_dir(args.out, "gpu-bench")
        self.start = time.monotonic()

    def begin(self):
        self.start = time.monotonic()

    def left(self):
        """Seconds of the part's budget that are left."""
        return self.args.budget - (time.monotonic() - self.start)

    def run(self, name, command, env=None, preload=False):
        """One program, run to a good end."""
        if preload:
            where = os.path.join(self.out, "reports")
            os.makedirs(where, exist_ok=True)
            env = common.preload_env(self.library, where, env, self.args.conf)
        else:
            env = machine.plain_env(env)
        run = Run(command, env, os.path.join(self.out, name),
                  self.args.timeout)
        return run.check(name)

    def report(self, run):
        """The exit report of a preloaded run."""
        return reports.sane_exit_report(os.path.join(self.out, "reports"),
                                       run.pid)


# ---- start -------------------------------------------------------------------

AT_ONCE = (1, 8, 64)
START_TURNS = 7


def start(bench):
    """Processes that allocate once and end, so many at the same time."""
    try:
        tool = machine.build_c("start", bench.programs, "static")
    except Skip:
        tool = machine.build_c("start", bench.programs, "shared")
    where = os.path.join(bench.out, "start")
    shutil.rmtree(where, ignore_errors=True)
    runtime = os.path.join(where, "run")
    os.makedirs(runtime, 0o700)
    extra = {"XDG_RUNTIME_DIR": runtime}
    conf = ",".join(["quiet:True"] + [c for c in [bench.args.conf] if c])
    envs = {"plain": machine.plain_env(extra),
            "preloaded": common.preload_env(bench.library, where, extra, conf)}
    rows, result = [], []
    for processes in AT_ONCE:
        try:
            found = at_once.measure([tool], envs, processes, START_TURNS,
                                    bench.left, bench.args.timeout)
        except RuntimeError as error:
            raise Failure(str(error), {"start": result})
        result.append(found)
        added = found["preloaded_cpu_ms"] - found["plain_cpu_ms"]
        rows.append([str(processes)] + ["%.1f" % found[key] for key in (
            "plain_ms", "preloaded_ms")] + [
                "%.2f" % found["ratio_ms"],
                "%.1f" % (found["plain_cpu_ms"] / processes),
                "%.1f" % (added / processes), str(found["turns"])])
    common.table(["at once", "plain, ms", "preloaded", "ratio",
                  "processor, ms each", "added", "turns"], rows)
    left = len([name for name in os.listdir(where) if name.endswith(".json")])
    expected = sum(row["processes"] * (row["turns"] + 1) for row in result)
    if left != expected:
        raise Failure("%d exit reports of %d processes" % (left, expected),
                      {"start": result})
    return {"start": result}


# ---- pairs -------------------------------------------------------------------

SIZES = (512, 65536, 1 << 20, 16 << 20)
THREADS = (1, 2, 4, 8)
LIVE_SIZES = (512, 1 << 20)
LIVE = (1000, 100000)


def pair_runs(bench):
    """(label, command, preloaded) of every run; a label becomes a column."""
    tool = machine.build_cu("pairs", bench.programs, "static")

    def words(numbers):
        return ",".join(str(n) for n in numbers)

    plain = ["--sizes", words(SIZES), "--threads", "1,8"]
    pooled = ["--sizes", words(SIZES), "--threads", words(THREADS)]
    live = ["--sizes", words(LIVE_SIZES), "--live", words(LIVE)]
    mixed = ["--sizes", "65536,1048576", "--threads", "1,8", "--mix", "1"]
    malloc, stream = [tool, "--api", "malloc"], [tool, "--api", "async"]
    runs = []
    for label, command, preloaded in (("cudaMalloc", malloc, False),
                                      ("gpupool", malloc, True),
                                      ("cudaMallocAsync", stream, False)):
        sizes = pooled if label == "gpupool" else plain
        runs.append((label, command + sizes, preloaded))
        runs.append((label, command + mixed, preloaded))
        # 100,000 plain cudaMallocs would take longer than all the rest.
        runs.append((label, command + (live if label != "cudaMalloc" else
                                       ["--sizes", words(LIVE_SIZES),
                                        "--live", str(LIVE[0])]), preloaded))
    try:
        torch = machine.build_torch("torch_pairs", bench.programs)
        runs.append(("PyTorch", [torch] + pooled, False))
        runs.append(("PyTorch", [torch] + live, False))
    except (Skip, Failure) as reason:
        print("PyTorch's allocator not measured: %s" % reason)
    return runs


def pool_alone(bench):
    """The pool itself over a modelled driver, from build/tests/bench/pair:
    rows like those of the other programs. None without that program."""
    tool = os.path.join(bench.build, "tests", "bench", "pair")
    if not os.path.exists(tool):
        print("the pool alone not measured: no %s (make bench)" % tool)
        return []
    wanted = [(size, threads, 0) for size in SIZES for threads in THREADS]
    wanted += [(size, 1, live) for size in LIVE_SIZES for live in LIVE]
    rows = []
    for size, threads, live in wanted:
        run = bench.run("pool-%d-%d-%d" % (size, threads, live),
                        [tool, "--size", str(size), "--threads", str(threads),
                         "--live", str(live)])
        ns = json.loads(run.stdout)["ns"]
        rows.append({"mix": 0, "live": live, "size": size, "threads": threads,
                     "ns": ns, "pairs_per_s": threads * 1e9 / ns})
    return rows


def pairs(bench):
    """Allocate+free pairs: ns a pair on a thread, and M pairs/s together."""
    runs = pair_runs(bench)
    found, columns, failures = {}, [], []
    for index, (label, command, preloaded) in enumerate(runs):
        if label not in columns:
            columns.append(label)
        try:
            run = bench.run("pairs-%d-%s" % (index, label), command,
                            preload=preloaded)
        except Failure as reason:
            failures.append(str(reason))
            continue
        if preloaded:
            bench.report(run)
        for row in run.records("pair"):
            key = (row["mix"], row["live"], row["size"], row["threads"])
            found.setdefault(key, {})[label] = row
    try:
        for row in pool_alone(bench):
            key = (row["mix"], row["live"], row["size"], row["threads"])
            found.setdefault(key, {})["pool alone"] = row
        columns.append("pool alone")
    except Failure as reason:
        failures.append(str(reason))
    rows = []
    for key in sorted(found):
        mix, live, size, threads = key
        title = "%s%s, %d thread%s" % (
            "mixed to " if mix else "",
            "%d KiB" % (size >> 10) if size >= 1024 else "%d B" % size,
            threads, "s" if threads > 1 else "")
        if live:
            title += ", %d live" % live
        cells = [title]
        for label in columns:
            row = found[key].get(label)
            cells.append("%.0f ns %.2f M/s" % (row["ns"],
                                               row["pairs_per_s"] / 1e6)
                         if row else "-")
        rows.append(cells)
    common.table(["pair"] + columns, rows)
    result = {"pair": [dict(row, allocator=label) for cells in found.values()
                       for label, row in cells.items()]}
    if failures:
        raise Failure("\n".join(failures), result)
    return result


# ---- bandwidth ---------------------------------------------------------------

def bandwidth(bench):
    """Copies between large buffers, TB/s read and written together."""
    tool = machine.build_cu("bandwidth", bench.programs, "static")
    found = {}
    for turn in range(3):
        for label, preloaded in (("plain", False), ("gpupool", True)):
            if turn and bench.left() < 60:
                break
            run = bench.run("bandwidth-%s-%d" % (label, turn), [tool],
                            preload=preloaded)
            if preloaded:
                bench.report(run)
            for row in run.records("bandwidth"):
                sides = found.setdefault((row["when"], row["by"]),
                                         {"plain": [], "gpupool": []})
                sides[label].append(row["median"])
    rows, result = [], []
    for (when, by), sides in found.items():
        plain, ours = median(sides["plain"]), median(sides["gpupool"])
        rows.append(["%s, %s" % (when, by), "%.3f" % (plain / 1e12),
                     "%.3f" % (ours / 1e12), "%.3f" % (ours / plain)])
        result.append({"when": when, "by": by, "plain": plain,
                       "gpupool": ours, "ratio": ours / plain})
    common.table(["copy", "cudaMalloc TB/s", "gpupool TB/s", "ratio"], rows)
    return {"bandwidth": result}


# ---- memory ------------------------------------------------------------------

def memory_run(bench, meter, model, label, env, preload):
    """One training run under a sampler; its figures and results."""
    command = [PYTHON, os.path.join(machine.HERE, "models.py"), model,
               "--steps", str(bench.args.steps or 20), "--warm", "5",
               "--sample", "5"]
    with nvml.Sampler(meter) as sampler:
        run = bench.run("memory-%s-%s" % (model, label), command, env, preload)
    figures = run.records("figures")[-1]
    by_process = sampler.process_peak
    row = {"model": model, "allocator": label, "step_ms": figures["step_ms"],
           "seconds": run.seconds,
           "nvml_process_peak": by_process or None,
           "nvml_device_peak": sampler.device_peak,
           "meminfo_peak": figures["meminfo_peak_bytes"] - sampler.before,
           "context": figures["base_bytes"] - sampler.before,
           "torch_allocated_peak": figures.get("torch_allocated_peak")}
    row["peak"] = by_process or sampler.device_peak
    row["above_context"] = row["peak"] - row["context"]
    if preload:
        report = bench.report(run)
        row["pool_allocated_peak"] = report.peak()
        row["pool_reserved_peak"] = report.gauge("reserved_bytes", "peak")
        row["hits"] = report.hits()
        row["num_remaps"] = report.total("num_remaps")
    return row, run.results()


def memory(bench):
    """Peak of the process's memory, less its context: MiB as NVML sees it."""
    machine.need_modules("torch", "torchvision", "transformers")
    meter = nvml.Nvml()
    sides = (("native", {}, False), ("expandable", EXPANDABLE, False),
             ("gpupool", UNCACHED, True))
    cells, result, failures = [], [], []
    for model in bench.args.models.split(","):
        if cells and bench.left() < 60:
            print("%s: no time left for it" % model)
            continue
        rows, results = {}, {}
        for label, env, preload in sides:
            try:
                rows[label], results[label] = memory_run(bench, meter, model,
                                                         label, env, preload)
            except Failure as reason:
                failures.append(str(reason))
        result += rows.values()
        verdict = "-"
        if len(results) == 3:
            equal, verdict = common.equal_results(
                results["native"], results["expandable"], results["gpupool"])
            if not equal:
                failures.append("%s: %s" % (model, verdict))
                verdict = "NO"
        line = [model]
        live = rows.get("native", {}).get("torch_allocated_peak")
        line.append(common.mib(live))
        for label, _, _ in sides:
            line.append(common.mib(rows[label]["above_context"])
                        if label in rows else "-")
        ours = rows.get("gpupool", {})
        line += [common.mib(ours.get("pool_allocated_peak")),
                 common.mib(ours.get("pool_reserved_peak"))]
        known = [rows[x]["above_context"] for x in rows]
        line += ["yes" if ours and len(rows) == 3 and
                 ours["above_context"] == min(known) else "NO", verdict]
        line.append(" / ".join("%.0f" % rows[label]["step_ms"]
                               if label in rows else "-"
                               for label, _, _ in sides))
        cells.append(line)
        print("%s done, %.0f s" % (model, time.monotonic() - bench.start),
              flush=True)
    common.table(["model", "live (native)", "native", "expandable", "gpupool",
                  "its live", "its reserved", "lowest", "equal", "step ms"],
                 cells)
    if failures:
        raise Failure("\n".join(failures), {"memory": result})
    return {"memory": result}


PARTS = [("start", start), ("pairs", pairs), ("bandwidth", bandwidth),
         ("memory", memory), ("speed", speed.speed),
         ("overlap", speed.overlap)]


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--only", metavar="PART,...",
                        help="of " + " ".join(name for name, _ in PARTS))
    parser.add_argument("--out", metavar="DIR", help="logs and "
                        "gpu-bench.json go there")
    parser.add_argument("--conf", metavar="K:V,...",
                        help="further settings for gpupool")
    parser.add_argument("--models", default="gpt2,resnet50,maskrcnn,graphsage",
                        help="for memory (default %(default)s)")
    parser.add_argument("--speed-models",
                        default="transformer,mlp,resnet50,gpt2",
                        help="for speed (default %(default)s)")
    parser.add_argument("--cached", default="transformer,mlp", metavar="M,...",
                        help="those of them also with PyTorch's own cache "
                        "over gpupool (default %(default)s)")
    parser.add_argument("--uncached", default="transformer", metavar="M,...",
                        help="and also plain without a cache, a few times "
                        "(default %(default)s)")
    parser.add_argument("--variant", action="append", default=[],
                        metavar="K:V,...", help="for speed: also over gpupool "
                        "with these settings; may be repeated")
    parser.add_argument("--steps", type=int, help="training steps a run")
    parser.add_argument("--turns", type=int, default=11,
                        help="alternating runs of each for speed and overlap "
                        "(default 11)")
    parser.add_argument("--deterministic", action="store_true",
                        help="speed and overlap: PyTorch makes the same sums "
                        "in each run, so that losses are equal to the last "
                        "digit; slower")
    parser.add_argument("--quick", action="store_true", help="3 turns of 15 "
                        "steps, to see that it works")
    parser.add_argument("--budget", type=float, default=290, metavar="S",
                        help="seconds a part may take (default 290)")
    parser.add_argument("--timeout", type=float, default=120, metavar="S",
                        help="limit for one program (default 120)")
    args = parser.parse_args(argv)
    known = [name for name, _ in PARTS]
    args.only = args.only.split(",") if args.only else known
    if args.quick:
        args.turns, args.steps = 3, args.steps or 15
    unknown = sorted(set(args.only) - set(known))
    if unknown:
        parser.error("no such part: " + " ".join(unknown))
    return args


def main(argv=None):
    args = parse(argv)
    bench = Bench(args)
    if not os.path.exists(bench.library):
        sys.exit("no %s: run make first" % bench.library)
    try:
        name = machine.card()
    except Skip as reason:
        print("skipped: %s" % reason)
        return 0
    print("card: %s; logs in %s" % (name, bench.out), flush=True)
    result, status = {"card": name}, 0
    for part, function in PARTS:
        if part not in args.only:
            continue
        print("\n== %s: %s" % (part, function.__doc__.strip()), flush=True)
        bench.begin()
        try:
            result.update(function(bench))
        except Skip as reason:
            print("skipped: %s" % reason)
        except Failure as reason:
            status = 1
            print("failed: %s" % reason.args[0])
            if len(reason.args) > 1:  # what was measured all the same
                result.update(reason.args[1])
        except Exception as error:  # the other parts must still run
            status = 1
            print("failed: %s: %s" % (type(error).__name__, error))
        print("(%.0f s)" % (time.monotonic() - bench.start), flush=True)
        with open(os.path.join(bench.out, "gpu-bench.json"), "w") as file:
            json.dump(result, file, indent=1)
    return status


if __name__ == "__main__":
    sys.exit(main())
