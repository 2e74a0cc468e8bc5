"""Cases of run.py about processes that share the card, and about asking one of
them from the command line."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import common
import machine
import reports
from common import MIB, Run
from machine import Failure, Skip

sys.path.insert(0, os.path.join(common.TOP, "scripts"))
import gpupool_ledger  # noqa: E402  (found through the line above)

PROGRAM = [sys.executable, os.path.join(machine.PROGRAMS,
                                        "neighbour_program.py")]
GPUPOOL = [sys.executable, os.path.join(common.TOP, "scripts", "gpupool")]
GIB = 1 << 30
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
            "CUBLAS_WORKSPACE_CONFIG": ":4096:8"}


class Place:
    """A runtime directory of its own, and a folder for the files by which the
    programs wait for each other. Short paths: sockets lie there."""

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="gpupool-share-")
        self.meeting = os.path.join(self.top, "meeting")
        os.mkdir(self.meeting)
        self.env = dict(UNCACHED, XDG_RUNTIME_DIR=self.top)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.top, True)

    def figures(self, pid):
        """Of the process's ledger, also after its end."""
        return gpupool_ledger.by_pid(
            pid, dead=True,
            directory=os.path.join(self.top, "gpupool")).figures

    def tell(self, name):
        with open(os.path.join(self.meeting, name), "w"):
            pass


def losses(run):
    return [line.split()[2] for line in run.stdout.splitlines()
            if line.startswith("loss ")]


def need_equal_losses(plain, preloaded):
    if not plain or len(plain) != len(preloaded):
        raise Failure("%d steps plain, %d preloaded" % (len(plain),
                                                        len(preloaded)))
    for step, pair in enumerate(zip(plain, preloaded)):
        if pair[0] != pair[1]:
            raise Failure("the loss of step %d is %s plain, %s preloaded"
                          % ((step,) + pair))


def value(run, key):
    return int(run.results()[-1][key])


def together(context, case, place):
    """Both at once: (trains, asks) when they have ended."""
    outcome = {}

    def one(name, conf):
        try:
            outcome[name] = Run(
                PROGRAM + [name, place.meeting],
                common.preload_env(context.library, context.reports(case),
                                   place.env, conf),
                context.log(case, name), context.timeout).check(name)
        except (Failure, Skip) as reason:
            outcome[name] = reason

    threads = [threading.Thread(target=one, args=pair) for pair in
               (("trains", "cache_policy:keep"), ("asks", None))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for told in outcome.values():
        if isinstance(told, Exception):
            raise told
    return outcome["trains"], outcome["asks"]


def neighbours(context, case):
    """One caches 60 % of the card and trains, one asks for more than is left."""
    machine.need_modules("torch")
    plain = Run(PROGRAM + ["trains"], machine.plain_env(UNCACHED),
                context.log(case, "plain"), context.timeout)
    plain.check("plain run")
    with Place() as place:
        trains, asks = together(context, case, place)
        gave = place.figures(trains.pid)["gave_neighbours_bytes"]
        got = place.figures(asks.pid)["neighbours_gave_bytes"]
    report = reports.sane_exit_report(context.reports(case), trains.pid)
    need_equal_losses(losses(plain), losses(trains))
    free, first = value(asks, "free"), value(asks, "first")
    if first <= free:
        raise Failure("%d MiB were free, the request for more was refused; "
                      "the neighbour gave %d MiB" % (free // MIB,
                                                     gave // MIB))
    if value(asks, "got") < free + 10 * GIB:
        raise Failure("it got %d MiB where %d MiB were free" % (
            value(asks, "got") // MIB, free // MIB))
    if gave < (value(asks, "got") - free) * 0.9 or got < gave * 0.9:
        raise Failure("the ledgers say %d MiB given, %d MiB got" % (
            gave // MIB, got // MIB))
    if not 0 < value(trains, "served_at") < len(losses(trains)) - 10:
        raise Failure("it had stopped training when the other was served")
    return {"plain_s": plain.seconds, "preloaded_s": trains.seconds,
            "peak_bytes": report.peak(), "hits": report.hits(),
            "equal": "gave %d MiB, %d ms" % (gave // MIB,
                                             value(asks, "first_ms"))}


# ---- asking a living one ------------------------------------------------------

class Asked:
    """gpupool's verbs against one living process."""

    def __init__(self, place, pid):
        self.place, self.pid = place, pid

    def command(self, *words):
        done = subprocess.run(
            GPUPOOL + list(words), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, universal_newlines=True, timeout=60,
            env=machine.plain_env(self.place.env), check=False)
        if done.returncode:
            raise Failure("gpupool %s: status %d\n%s" % (
                " ".join(words), done.returncode,
                machine.tail(done.stdout + done.stderr)))
        return done.stdout

    def ctl(self, *words):
        """The process's answer."""
        text = self.command("ctl", str(self.pid), *words, "--json")
        answer, = json.loads(text)["answers"]
        if answer["pid"] != self.pid or not answer["ok"]:
            raise Failure("ctl %s: %s" % (" ".join(words), answer))
        return answer["answer"]

    def row(self):
        """The process's row of `top -1 --json`."""
        rows = json.loads(self.command("top", "-1", "--json"))["processes"]
        mine = [row for row in rows if row["pid"] == self.pid]
        if len(mine) != 1:
            raise Failure("top shows %s" % rows)
        return mine[0]

    def need(self, key, test, words):
        """Soon: the figures are up to a second old."""
        limit = time.monotonic() + 5
        while True:
            try:
                got = self.row()[key]
            except Failure:  # its first row takes a second as well
                if time.monotonic() > limit:
                    raise
            else:
                if test(got):
                    return
                if time.monotonic() > limit:
                    raise Failure("%s: top's %s is %s" % (words, key, got))


def look(asked):
    """What of the verbs is seen while the program has its memory; then a limit
    that refuses its next request."""
    asked.need("allocated_bytes", lambda b: GIB <= b < 2 * GIB, "1 GiB held")
    asked.need("cached_bytes", lambda b: b >= 3.5 * GIB, "4 GiB cached")
    asked.need("peak_allocated_bytes", lambda b: b >= 5 * GIB, "5 GiB at most")
    path = asked.ctl("report")
    with open(path) as file:
        if len(file.read()) < 500:
            raise Failure("%s is short" % path)
    if "gave back" not in asked.ctl("trim", "2GiB"):
        raise Failure("trim does not say what it gave")
    asked.need("cached_bytes", lambda b: b <= 2.25 * GIB,
               "2 GiB of 4 given back")
    asked.ctl("trim")
    # But for pieces of memory (64 MiB each) that are partly in use.
    asked.need("cached_bytes", lambda b: b < 160 * MIB, "all given back")
    asked.ctl("reset-peak")
    asked.need("peak_allocated_bytes", lambda b: b < 2 * GIB, "peak reset")
    asked.ctl("limit", "6GiB")
    asked.need("limit_bytes", lambda b: b == 6 * GIB, "limit set")


def ctl(context, case):
    """gpupool top and ctl against PyTorch: trim, limit, reset-peak, report."""
    machine.need_modules("torch")
    seen = []

    def watch(process, line):
        words = line.split()
        asked = Asked(place, process.pid)
        try:
            if words == ["ready"]:
                look(asked)
                place.tell("ask")
            elif words == ["asked", "refused"]:
                seen.append(words[1])
                asked.ctl("limit", "unlimited")
                place.tell("ask")
            elif words[:1] == ["asked"]:
                seen.append(words[1])
                place.tell("stop")
        except (Failure, OSError, ValueError,
                subprocess.SubprocessError) as error:
            seen.append(error)
            place.tell("stop")

    with Place() as place:
        run = Run(PROGRAM + ["serves", place.meeting],
                  common.preload_env(context.library, context.reports(case),
                                     place.env, "cache_policy:keep"),
                  context.log(case, "preloaded"), context.timeout, watch)
    for error in seen:
        if isinstance(error, Exception):
            raise error
    run.check("preloaded run")
    if seen != ["refused", "got"]:
        raise Failure("8 GiB under a limit of 6, then under none: %s" % seen)
    report = reports.sane_exit_report(context.reports(case), run.pid)
    return {"plain_s": 0, "preloaded_s": run.seconds,
            "peak_bytes": report.peak(), "hits": report.hits(),
            "equal": "every verb"}


CASES = [("neighbours", neighbours), ("ctl", ctl)]
