"""Reading what gpupool reports, and whether it makes sense."""

import glob
import json
import os
import re

from machine import Failure


def _flatten(node, prefix, out):
    if isinstance(node, dict):
        pairs = node.items()
    elif isinstance(node, list):
        pairs = enumerate(node)
    else:
        out[prefix] = node
        return out
    for key, value in pairs:
        _flatten(value, "%s.%s" % (prefix, key) if prefix else str(key), out)
    return out


class Report:
    """One JSON report; sums over its pools."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path) as file:
                self.data = json.load(file)
        except (OSError, ValueError) as error:
            raise Failure("report %s cannot be read: %s" % (path, error))
        self.flat = _flatten(self.data, "", {})

    def total(self, name):
        """The sum of that figure over all pools; None where none has it."""
        tail_of_key = re.compile(r"(^|\.)%s$" % re.escape(name))
        found = {k: v for k, v in self.flat.items()
                 if tail_of_key.search(k) and isinstance(v, (int, float))}
        # A total beside the pools must not be counted twice.
        in_pools = [v for k, v in found.items() if k.startswith("pools.")]
        if in_pools:
            return sum(in_pools)
        return sum(found.values()) if found else None

    def gauge(self, name, what):
        """A gauge's current, peak, allocated or freed, over all pools."""
        for form in ("%s.%s", "%s.all.%s", "%s_%s"):
            value = self.total(form % (name, what))
            if value is not None:
                return value
        return None

    def peak(self):
        """Bytes the pools handed out at most (summed over pools)."""
        return self.gauge("allocated_bytes", "peak") or 0

    def hits(self):
        """Allocations served without a driver call."""
        return self.total("num_hits") or 0


def written(directory, pid, kind):
    """The JSON reports of that process: kind is exit, usr1, oom."""
    pattern = "*-%d.%s%s.json" % (pid, kind, "" if kind == "exit" else "-*")
    return [Report(path) for path in
            sorted(glob.glob(os.path.join(glob.escape(directory), pattern)))]


# What a training loop makes the pool do, all pools together.
COUNTERS = ("num_alloc_calls", "num_free_calls", "num_hits",
            "num_alloc_retries", "num_remaps", "num_trims", "num_marks",
            "num_stream_waits", "num_driver_calls", "driver_ns")
WAITS = ("num_waits", "num_result_waits", "num_memory_waits",
         "num_order_waits")


def difference(before, after):
    """How much each counter rose from one report to another."""
    return {name: (after.total(name) or 0) - (before.total(name) or 0)
            for name in COUNTERS + WAITS}


def sane_exit_report(directory, pid):
    """The process's exit report, checked for sense."""
    found = written(directory, pid, "exit")
    if len(found) != 1:
        raise Failure("%d exit reports of process %d in %s (%s)" % (
            len(found), pid, directory,
            ", ".join(sorted(os.listdir(directory))) or "empty"))
    report = found[0]
    text = report.path[:-len("json")] + "txt"
    if not os.path.exists(text) or os.path.getsize(text) < 100:
        raise Failure("no text beside " + report.path)
    if report.total("pid") not in (None, pid):
        raise Failure("report of pid %s, not %d" % (report.total("pid"), pid))
    if report.peak() <= 0:
        raise Failure("nothing pooled (allocated peak 0)")
    for gauge in ("allocated_bytes", "reserved_bytes"):
        now, peak = report.gauge(gauge, "current"), report.gauge(gauge, "peak")
        if now is None or peak is None or now > peak:
            raise Failure("%s: current %s, peak %s" % (gauge, now, peak))
    if report.gauge("reserved_bytes", "peak") < report.peak():
        raise Failure("reserved peak below allocated peak")
    allocs = report.total("num_alloc_calls")
    if allocs is not None and report.hits() > allocs:
        raise Failure("more hits than allocations")
    return report
