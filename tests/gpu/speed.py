"""What gpupool does to the time of a program, in alternating runs: training
steps, and programs whose copies overlap with their kernels."""

import os
import sys
import time

import common
import machine
import nvml
import reports
import turns
from common import median
from machine import Failure, Skip

PYTHON = sys.executable
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}

# Timed steps of a run: enough for its median, within the time for all runs.
STEPS = {"transformer": 80, "mlp": 100, "resnet50": 30, "gpt2": 30,
         "prefetch": 80}
# Its part of the time, roughly: what a turn of it takes.
WEIGHT = {"transformer": 7, "mlp": 5, "resnet50": 8, "gpt2": 9}
# Steps whose shapes come again and again; as many go ahead of the timed ones,
# and the pool reaches its size.
SHAPES = {"resnet50": 10, "gpt2": 10}
# Plain PyTorch without its cache is slow, and not what we compare with.
UNCACHED_TURNS = 3
# No more processes are started above this part of the card's memory; the one
# that runs needs some as well.
FILL = 0.6


def full():
    """Says whether the card holds enough waiting processes."""
    try:
        meter = nvml.Nvml()
    except Skip:
        return lambda: False
    return lambda: (meter.device_share() or 0) > FILL


def ready_in_turn(bench, name, variants, share):
    """The rows of one model, variant by variant; failures; complete turns."""
    start = time.monotonic()
    series = turns.Turns(
        variants, bench.args.turns, os.path.join(bench.out, name),
        full=full(), timeout=bench.args.timeout,
        log=lambda words: print("%s: %s" % (name, words), flush=True))
    made = series.run(lambda: share - (time.monotonic() - start))
    print("%s: %d complete turns, %.0f s" % (name, made,
                                             time.monotonic() - start),
          flush=True)
    return series.rows, series.failures, made


def worker_command(bench, name):
    steps = bench.args.steps or STEPS.get(name, 40)
    shapes = str(SHAPES.get(name, 20))
    command = [PYTHON, os.path.join(machine.HERE, "worker.py"), name,
               "--steps", str(steps), "--shapes", shapes, "--warm", shapes]
    return command + (["--deterministic"] if bench.args.deterministic else [])


def preloaded(bench, label, command, env=None, conf=None):
    both = ",".join(c for c in (bench.args.conf, conf) if c)
    return turns.preloaded_variant(label, command, bench.library,
                                   os.path.join(bench.out, "reports"), env,
                                   both or None)


# ---- steps -------------------------------------------------------------------

def step_variants(bench, name):
    command = worker_command(bench, name)
    variants = [turns.plain_variant("native", command),
                preloaded(bench, "gpupool", command, UNCACHED)]
    variants += [preloaded(bench, conf, command, UNCACHED, conf)
                 for conf in bench.args.variant]
    if name in bench.args.cached.split(","):
        variants.append(preloaded(bench, "cached", command))
    if name in bench.args.uncached.split(","):
        variants.append(turns.plain_variant("uncached", command, UNCACHED,
                                            UNCACHED_TURNS))
    return variants


def ratio_row(name, rows, base, other, losses):
    """A line of a table: two medians, their ratio, its range."""
    facts = turns.compare(rows, base, other)
    if not facts:
        return [name] + ["-"] * 6
    return [name, "%.3f" % facts["base"], "%.3f" % facts["other"],
            "%.3f" % facts["ratio"],
            "%.3f-%.3f" % (min(facts["ratios"]), max(facts["ratios"])),
            facts["turns"], losses[other][1]]


HEADER = ["median step, ms", "native", "gpupool", "ratio", "range", "runs",
          "losses"]


def step_tables(found, verdicts, confs):
    print("\nPyTorch's own cache (native) and uncached over gpupool")
    common.table(HEADER, [ratio_row(name, rows, "native", "gpupool",
                                    verdicts[name])
                          for name, rows in found.items()])
    for conf in confs:
        print("\nThe same with %s" % conf)
        common.table(HEADER, [ratio_row(name, rows, "native", conf,
                                        verdicts[name])
                              for name, rows in found.items()])
    cached = [ratio_row(name, rows, "native", "cached", verdicts[name])
              for name, rows in found.items() if "cached" in rows]
    if cached:
        print("\nPyTorch's own cache, plain and with gpupool under it")
        common.table(HEADER, cached)
    slow = []
    for name, rows in found.items():
        facts = turns.compare(rows, "gpupool", "uncached")
        if facts:
            slow.append([name, "%.3f" % facts["other"],
                         "%.3f" % facts["base"], "%.2f" % facts["ratio"],
                         "%.2f-%.2f" % (min(facts["ratios"]),
                                        max(facts["ratios"])),
                         facts["turns"], verdicts[name]["uncached"][1]])
    if slow:
        print("\nPyTorch without its cache, plain and over gpupool")
        common.table(["median step, ms", "plain", "gpupool", "times", "range",
                      "runs", "losses"], slow)


def wait_table(found):
    """What the pool did in all timed steps of a run: the run that had most."""
    rows = []
    for name, variants in found.items():
        for label, runs in variants.items():
            pools = [row["pool"] for row in runs.values() if row.get("pool")]
            if not pools:
                continue
            one = next(iter(runs.values()))
            steps = len(one["losses"]) - one["warm"]["steps"]
            line = ["%s, %s" % (name, label)]
            line += [max(p[key] for p in pools) for key in reports.WAITS]
            line += ["%.1f" % (median([p[key] for p in pools]) / steps)
                     for key in ("num_marks", "num_stream_waits")]
            line += [max(p["num_remaps"] for p in pools),
                     common.mib(max(r["reserved_peak"]
                                    for r in runs.values()))]
            rows.append(line)
    if rows:
        print("\nAfter warm-up: waits on the host in a run (the most of any), "
              "for the\ncontext's work, results, idle memory, and in place of "
              "a stream; marks and\nwaits put into streams a step; handles "
              "moved; memory reserved at most")
        common.table(["", "work", "results", "memory", "stream", "marks",
                      "joins", "moved", "MiB"], rows)


def not_equal(name, verdict):
    return ["%s, %s: losses differ: %s" % (name, label, words)
            for label, (equal, words) in sorted(verdict.items()) if not equal]


def speed(bench):
    """Step time: PyTorch's own cache against uncached over gpupool."""
    names = bench.args.speed_models.split(",")
    machine.need_modules("torch", "torchvision", "transformers")
    found, verdicts, failures = {}, {}, []
    waiting = list(names)
    while waiting:
        weights = [WEIGHT.get(name, 6) for name in waiting]
        name = waiting.pop(0)
        share = bench.left() * weights[0] / sum(weights)
        rows, failed, _ = ready_in_turn(bench, name,
                                        step_variants(bench, name), share)
        found[name] = rows
        verdicts[name] = turns.equal_losses(rows, "native")
        failures += failed + not_equal(name, verdicts[name])
    step_tables(found, verdicts, bench.args.variant)
    wait_table(found)
    result = {"speed": [summary(name, found[name], verdicts[name],
                                bench.args.variant)
                        for name in names]}
    if failures:
        raise Failure("\n".join(failures), result)
    return result


def summary(name, rows, verdict, confs):
    """For the JSON: every run, and what the tables say."""
    return {"model": name,
            "gpupool": turns.compare(rows, "native", "gpupool"),
            "gpupool_total": turns.compare(rows, "native", "gpupool",
                                           "total_ms"),
            "cached": turns.compare(rows, "native", "cached"),
            "cached_total": turns.compare(rows, "native", "cached",
                                          "total_ms"),
            "uncached": turns.compare(rows, "gpupool", "uncached"),
            "variants": {conf: turns.compare(rows, "native", conf)
                         for conf in confs},
            "losses": {label: words for label, (_, words)
                       in verdict.items()},
            "runs": {label: [made[turn] for turn in sorted(made)]
                     for label, made in rows.items()}}


# ---- overlap -----------------------------------------------------------------

BARRIERS = (("gpupool", None), ("never", "free_barrier:never"))


def prefetch_steps(bench, share):
    """PyTorch with a side stream that prefetches pinned batches."""
    command = worker_command(bench, "prefetch")
    variants = [turns.plain_variant("native", command)]
    variants += [preloaded(bench, label, command, UNCACHED, conf)
                 for label, conf in BARRIERS]
    return ready_in_turn(bench, "prefetch", variants, share)


def timed(bench, name, label, turn, command, conf=None, preload=False):
    """One run of a program that ends with `time_ms X checksum Y`."""
    if preload:
        variant = preloaded(bench, label, command, None, conf)
    else:
        variant = turns.plain_variant(label, command)
    run = common.Run(command, variant.env, os.path.join(
        bench.out, name, "%s-%d" % (label, turn)), bench.args.timeout)
    run.check("%s, %s" % (name, label))
    words = (run.stdout.splitlines() or [""])[-1].split()
    if len(words) != 4 or words[0] != "time_ms" or words[2] != "checksum":
        raise Failure("%s, %s: no time in its last line: %s" % (
            name, label, " ".join(words)))
    row = {"turn": turn, "time_ms": float(words[1]), "checksum": words[3]}
    if preload:
        report = reports.sane_exit_report(variant.report_dir, run.pid)
        row["pool"] = {key: report.total(key) or 0
                       for key in reports.COUNTERS + reports.WAITS}
        row["reserved_peak"] = report.gauge("reserved_bytes", "peak")
    return row


def program_turns(bench, name, sides, share):
    """Alternating runs of a program: sides are (label, command, conf,
    preloaded). Rows as ready_in_turn() has them, and failures."""
    start, longest = time.monotonic(), 0.0
    rows, failures = {side[0]: {} for side in sides}, []
    for turn in range(bench.args.turns):
        begin = time.monotonic()
        if share - (begin - start) < 1.3 * longest:
            break
        for label, command, conf, preload in sides[::1 if turn % 2 == 0
                                                   else -1]:
            try:
                rows[label][turn] = timed(bench, name, label, turn, command,
                                          conf, preload)
            except Failure as failure:
                failures.append(str(failure))
        longest = max(longest, time.monotonic() - begin)
        if failures:
            break
    sums = {row["checksum"] for runs in rows.values() for row in runs.values()}
    if len(sums) > 1:
        failures.append("%s: results differ: %s" % (name,
                                                    " ".join(sorted(sums))))
    print("%s: %.0f s" % (name, time.monotonic() - start), flush=True)
    return rows, failures


def torch_cache(bench):
    """PyTorch's allocator as a library for these programs; None without."""
    try:
        return machine.build_torch("torch_cache", bench.programs, library=True)
    except (Skip, Failure) as reason:
        print("PyTorch's allocator not compared: %s" % reason)
        return None


def program_sides(bench, command):
    return [("plain", command, None, False)] + [
        (label, command, conf, True) for label, conf in BARRIERS]


def overlap_row(what, rows, base, other, key):
    facts = turns.compare(rows, base, other, key)
    if not facts:
        return [what, other] + ["-"] * 6
    pools = [row["pool"] for row in rows[other].values() if "pool" in row]
    waits = (max(sum(p[key] for key in reports.WAITS) for p in pools)
             if pools else "-")
    return [what, other, "%.2f" % facts["base"], "%.2f" % facts["other"],
            "%.3f" % facts["ratio"],
            "%.3f-%.3f" % (min(facts["ratios"]), max(facts["ratios"])),
            facts["turns"], waits]


def overlap(bench):
    """Copies beside kernels: still beside them over gpupool?"""
    lines, result, failures = [], {}, []

    def add(what, rows, base, others, key):
        result[what] = {"runs": {label: [made[t] for t in sorted(made)]
                                 for label, made in rows.items()}}
        for other in others:
            lines.append(overlap_row(what, rows, base, other, key))
            result[what]["%s/%s" % (other, base)] = turns.compare(
                rows, base, other, key)

    try:
        machine.need_modules("torch")
        rows, failed, _ = prefetch_steps(bench, bench.left() / 3)
        verdict = turns.equal_losses(rows, "native")
        failures += failed + not_equal("prefetch", verdict)
        add("PyTorch", rows, "native", ("gpupool", "never"), "step_ms")
    except Skip as reason:
        print("PyTorch not measured: %s" % reason)
    try:
        tool = machine.build_cu("prefetch", bench.programs, "static")
        sides = program_sides(bench, [tool])
        cache = torch_cache(bench)
        if cache:
            sides.append(("cache", [tool, "--alloc", cache], None, False))
        rows, failed = program_turns(bench, "prefetch-cu", sides,
                                     bench.left() / 2)
        failures += failed
        base = "cache" if cache else "plain"
        add("prefetch", rows, base, [s[0] for s in sides if s[0] != base],
            "time_ms")
        tool = machine.build_cu("four_streams", bench.programs, "static")
        rows, failed = program_turns(bench, "four-streams",
                                     program_sides(bench, [tool]),
                                     bench.left())
        failures += failed
        add("4 streams", rows, "plain", ("gpupool", "never"), "time_ms")
    except Skip as reason:
        print("C++ programs not measured: %s" % reason)
    except Failure as failure:
        failures.append(str(failure))
    print("\nms a step (PyTorch) or a run; ratio of medians to the first; "
          "`never`:\nfree_barrier:never; `cache`: PyTorch's allocator from "
          "C++; waits: on the\nhost, the most of any run")
    common.table(["program", "with", "first", "ms", "ratio", "range", "runs",
                  "waits"], lines)
    if failures:
        raise Failure("\n".join(failures), {"overlap": result})
    return {"overlap": result}
