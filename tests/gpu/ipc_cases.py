"""Cases of run.py about pointer queries, and memory shared with other
processes: the same answers and the same bytes with and without the preload."""

import difflib
import os
import subprocess
import sys

import common
import machine
from case import pair
from common import Run
from machine import Failure, Skip

FOLDER = os.path.join(common.TOP, "tests", "programs")
UNCACHED = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
MIB = 1 << 20


def program(context, name):
    return machine.build_c(name, context.programs, "driver", FOLDER)


def preloaded(context, case, conf=""):
    return common.preload_env(context.library, context.reports(case), {}, conf)


def same(case, plain, ours):
    """Failure with the lines that differ, if any do."""
    lines = list(difflib.unified_diff(plain, ours, "plain", "preloaded", n=0,
                                      lineterm=""))
    if lines:
        raise Failure("%s: %d lines differ\n%s" % (
            case, sum(line[0] == "+" for line in lines), "\n".join(
                lines[:60])))


def lines(context, case, name, *args):
    """The lines of a program that a plain run and a preloaded one both print;
    Failure where they differ."""
    command = [program(context, name), *args]
    plain = Run(command, machine.plain_env(),
                context.log(case, name + "-plain"), context.timeout)
    if plain.status == 77:
        raise Skip("%s finds too few cards" % name)
    plain.check("plain run")
    ours = Run(command, preloaded(context, case),
               context.log(case, name + "-preloaded"), context.timeout)
    ours.check("preloaded run")
    same(case, plain.stdout.splitlines(), ours.stdout.splitlines())
    return plain.stdout.splitlines()


def pointers(context, case):
    """What the driver says of addresses."""
    return {"why": "%d lines equal" % len(lines(context, case,
                                                "drv_pointers"))}


def across(context, case):
    """Copies between cards, without peer access and with: their bytes by
    addresses alone, and what they come before and after."""
    told = lines(context, case, "drv_across")
    orders = lines(context, case, "drv_visits", "slowly")
    return {"why": "%d lines equal, %d copies right" % (
        len(told) + len(orders),
        sum(line.endswith(" 0 wrong") for line in told))}


def visits(context, case):
    """Copies between two contexts of one card: what comes before and after."""
    return {"why": "%d lines equal" % len(lines(
        context, case, "drv_visits", "same", "slowly"))}


# ---- two processes ------------------------------------------------------------

class Talker:
    """A program that does what it is told, and what it has answered."""

    def __init__(self, context, env, name, told):
        self.name, self.told = name, told
        self.process = subprocess.Popen(
            [program(context, "drv_ipc")], env=env, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, universal_newlines=True, bufsize=1)

    def ask(self, step, hide=False):
        self.process.stdin.write(step + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline().strip()
        if not answer:
            raise Failure("%s ended at %s (status %s)" % (
                self.name, step[:40], self.process.wait()))
        self.told.append("%s: %s" % (self.name, answer.split()[1] if hide
                                     else answer))
        return answer

    def end(self):
        self.process.stdin.close()
        self.told.append("%s: status %d" % (self.name, self.process.wait()))


def talk(context, env):
    """A conversation about blocks of many sizes; what was said."""
    told = []
    owner = Talker(context, env, "owner", told)
    others = [Talker(context, env, "other %d" % i, told) for i in range(2)]
    sizes = (4, 512, 100 << 10, MIB, 3 * MIB, 70 * MIB, 500 * MIB)
    handles = []
    try:
        for block, size in enumerate(sizes):
            owner.ask("alloc=%d" % size)
            owner.ask("fill=%d,%d" % (block, block + 1))
            # A plain copy or set on the device need not wait for anything.
            owner.ask("check=%d,%d" % (block, block + 1))
            handles.append(owner.ask("handle=%d,0" % block, True).split()[2])
            again = owner.ask("handle=%d,0" % block, True).split()[2]
            told.append("the same again: %d" % (again == handles[-1]))
        for i, other in enumerate(others):
            for block, size in enumerate(sizes):
                other.ask("open=%s,%d" % (handles[block], size))
                word = block + 1 + 100 * i
                other.ask("check=%d,%d" % (block, word))
                other.ask("fill=%d,%d" % (block, word + 100))
                other.ask("check=%d,%d" % (block, word + 100))
        for block in range(len(sizes)):
            owner.ask("check=%d,%d" % (block, block + 201))
            owner.ask("refused=%d" % block)
        for i, other in enumerate(others):
            other.ask("open=%s,4" % handles[0])  # once more
            for block in range(len(sizes)):
                other.ask("close=%d" % block)
            other.ask("close=0")
            if i == 0:
                other.ask("close=0")  # once too often
        owner.ask("open=%s,4" % handles[0])  # its own
    finally:
        for talker in [*others, owner]:
            talker.end()
    return told


def ipc(context, case):
    """A C program that shares memory with two others."""
    plain = talk(context, machine.plain_env())
    wrong = [line for line in plain if ": check: 0 0" not in line and
             ": check:" in line]
    if wrong:
        raise Failure("without the preload: " + wrong[0])
    same(case, plain, talk(context, preloaded(context, case)))
    return {"why": "%d answers equal" % len(plain)}


def ipc_stranger(context, case):
    """A handle of the pool opened in a process without it: an error."""
    told = []
    owner = Talker(context, preloaded(context, case), "owner", told)
    other = Talker(context, machine.plain_env(), "other", told)
    try:
        for block, size in enumerate((4, 3 * MIB, 70 * MIB)):
            owner.ask("alloc=%d" % size)
            handle = owner.ask("handle=%d,0" % block).split()
            if handle[1] != "0":
                raise Failure("no handle: " + handle[1])
            answer = other.ask("open=%s,4" % handle[2])
            if answer.split()[1] == "0":
                raise Failure("the driver opened a handle that is none of its")
        # And goes on working.
        if not other.ask("alloc=%d" % MIB).startswith("alloc: 0"):
            raise Failure("the other process is broken: " + told[-1])
    finally:
        other.end()
        owner.end()
    return {"why": "; ".join(line for line in told if "open" in line)}


def torch_share(context, case):
    """torch.multiprocessing, PyTorch's own cache."""
    machine.need_modules("torch")
    return pair(context, case, [sys.executable, os.path.join(
        machine.PROGRAMS, "share_program.py")])


def torch_share_uncached(context, case):
    """torch.multiprocessing, PyTorch without a cache."""
    machine.need_modules("torch")
    return pair(context, case, [sys.executable, os.path.join(
        machine.PROGRAMS, "share_program.py")], UNCACHED)


CASES = [("pointers", pointers), ("visits", visits), ("across", across),
         ("ipc", ipc),
         ("ipc-stranger", ipc_stranger),
         ("torch-share", torch_share),
         ("torch-share-uncached", torch_share_uncached)]
