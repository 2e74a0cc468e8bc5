"""Cases of run.py about snapshots: PyTorch's own torch.cuda._memory_viz reads
them, and its figures are those of the report."""

import os
import pickle
import re
import subprocess
import sys

import common
import machine
import stack_cases
from machine import Failure

GPUPOOL = os.path.join(common.TOP, "scripts", "gpupool")


def told(context, command):
    done = subprocess.run([sys.executable] + command, env=machine.plain_env(),
                          timeout=context.timeout, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, universal_newlines=True)
    if done.returncode:
        raise Failure("%s: %s" % (" ".join(command), done.stderr[-500:]))
    return done.stdout


def size(number):
    """As _memory_viz writes it."""
    for unit in "", "Ki", "Mi", "Gi", "Ti":
        if number < 1024:
            return "%3.1f%sB" % (number, unit)
        number /= 1024
    raise Failure("%d TiB" % number)


def need(text, pattern, what):
    if not re.search(pattern, text, re.MULTILINE):
        raise Failure("%s does not say %s: %s" % (what, pattern, text[-500:]))


def viz(context, case, conf):
    """A snapshot of a training loop at one moment of it."""
    done, report = stack_cases.run(context, case, conf, stack_cases.UNCACHED)
    path = os.path.join(context.reports(case), "snapshot.pickle")
    told(context, [GPUPOOL, "snapshot", report.path, "-o", path])
    with open(path, "rb") as file:
        snapshot = pickle.load(file)
    allocated = report.gauge("allocated_bytes", "current")
    reserved = report.gauge("reserved_bytes", "current")
    for key, wanted in ("active_size", allocated), ("total_size", reserved):
        found = sum(segment[key] for segment in snapshot["segments"])
        if found != wanted:
            raise Failure("%s: %d, the report says %d" % (key, found, wanted))
    ask = ["-m", "torch.cuda._memory_viz"]
    stats = told(context, ask + ["stats", path])
    need(stats, "^total_reserved: %s$" % re.escape(size(reserved)), "stats")
    need(stats, "^total_allocated: %s$" % re.escape(size(
        report.gauge("requested_bytes", "current"))), "stats")
    trace = told(context, ask + ["trace", path])
    for events in snapshot["device_traces"]:
        if events:
            need(trace, "^%d entries$" % len(events), "trace")
    for plot in "trace_plot", "segment_plot":
        page = os.path.join(context.reports(case), plot + ".html")
        told(context, ask + [plot, path, "-o", page])
        if os.path.getsize(page) < os.path.getsize(path):
            raise Failure("%s has not all of the snapshot" % page)
    row = stack_cases.row(done, report)
    row["equal"] = "memory_viz agrees"
    return row


def snapshot_viz(context, case):
    """All of it."""
    return viz(context, case, "ring_size:64MiB")


def snapshot_old(context, case):
    """Most blocks are older than the oldest event."""
    return viz(context, case, "ring_size:64KiB")


CASES = [("snapshot", snapshot_viz), ("snapshot-old", snapshot_old)]
