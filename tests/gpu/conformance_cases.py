"""The conformance program of run.py: the same calls plain and preloaded, with
the real driver and runtime, must print the same lines."""

import difflib
import glob
import os

import common
import machine
from common import Run
from machine import Failure

SOURCES = os.path.join(os.path.dirname(machine.HERE), "conformance")
# A free does not wait, and tells no fault that nothing has told yet: one of
# the limits in the README.
WITHOUT = "fault-unseen"
MOST_LINES = 60  # of a difference, for a person


def build(context):
    """tests/conformance with the shared cudart and the driver."""
    return machine.build_c_folder(SOURCES, os.path.join(context.programs,
                                                        "conformance"))


def run(context, case, name, command, env):
    done = Run(command, env, context.log(case, name), context.timeout)
    return done.check("%s run" % name)


def difference(plain, ours):
    lines = list(difflib.unified_diff(
        plain.stdout.splitlines(), ours.stdout.splitlines(), "plain",
        "preloaded", n=0, lineterm=""))
    changed = [line for line in lines if not line.startswith("@@")]
    if len(changed) > MOST_LINES:
        changed[MOST_LINES:] = ["(%d more)" % (len(changed) - MOST_LINES)]
    return "\n".join(changed)


def conformance(context, case):
    """Some 1700 results of calls, equal line by line."""
    command = [build(context), "--without", WITHOUT]
    plain = run(context, case, "plain", command, machine.plain_env())
    if not context.quick:
        again = run(context, case, "plain-2", command, machine.plain_env())
        unstable = difference(plain, again)
        if unstable:
            raise Failure("two plain runs differ\n" + unstable)
    ours = run(context, case, "preloaded", command, common.preload_env(
        context.library, context.reports(case), None, "quiet:True"))
    differs = difference(plain, ours)
    if differs:
        raise Failure("plain and preloaded differ\n" + differs)
    kinds = glob.glob(os.path.join(context.reports(case), "*.exit.json"))
    if not kinds:
        raise Failure("no report: was it preloaded?")
    return {"plain_s": plain.seconds, "preloaded_s": ours.seconds,
            "peak_bytes": None, "hits": "-",
            "equal": "%d lines" % len(plain.stdout.splitlines())}


CASES = [("conformance", conformance)]
