#!/usr/bin/env python3
"""One training run that is told when to go, so that many can get ready at the
same time and be measured one at a time.

    worker.py MODEL [--warm N] [--settle N] [--steps N] ...

Reads words, one a line, and answers each with a line `WORD {json}`:

    (start)    ready     the model is on the device, the libraries are loaded
    warm       warm      the first steps are done
    measure    measured  the timed steps are done
    quit                 ends; so does the end of its input
"""

import argparse
import gc
import json
import os
import sys
import time


def add_options(parser):
    parser.add_argument("--shapes", type=int, default=20, metavar="N",
                        help="the shapes of N steps come again and again "
                        "(default %(default)s)")
    parser.add_argument("--warm", type=int, default=20,
                        help="steps of `warm` (default %(default)s)")
    parser.add_argument("--settle", type=int, default=3, help="further steps "
                        "ahead of the timed ones (default %(default)s)")
    parser.add_argument("--steps", type=int, default=40,
                        help="timed steps (default %(default)s)")


def middle(times):
    """The median; 0 of nothing."""
    times = sorted(times)
    half = len(times) // 2
    if len(times) % 2:
        return times[half]
    return (times[half - 1] + times[half]) / 2 if times else 0.0


class Run:
    """The steps of one process. `step(index)` trains one step, to its end, and
    returns the loss."""

    def __init__(self, step, args):
        self.step, self.args = step, args
        self.losses = []

    def steps(self, count):
        """Trains on; the milliseconds of each step."""
        times = []
        for _ in range(count):
            start = time.perf_counter()
            loss = self.step(len(self.losses))
            times.append(1e3 * (time.perf_counter() - start))
            self.losses.append(loss)
        return times

    def warm(self):
        times = self.steps(self.args.warm)
        gc.collect()
        return {"steps": len(times), "total_ms": sum(times)}

    def measure(self):
        self.steps(self.args.settle)
        times = self.steps(self.args.steps)
        return {"step_ms": middle(times), "total_ms": sum(times),
                "times_ms": times, "losses": self.losses}


def serve(run, lines, write, state=dict):
    """Answers the words in `lines` until `quit`. state() is what there is to
    say of memory; it goes into every answer."""

    def answer(word, facts):
        write("%s %s\n" % (word, json.dumps(dict(facts, **state()))))

    answer("ready", {})
    for line in lines:
        word = line.strip()
        if word == "warm":
            answer("warm", run.warm())
        elif word == "measure":
            answer("measured", run.measure())
        elif word == "quit":
            break
        else:
            raise ValueError("no such word: %r" % word)


def write_line(text):
    sys.stdout.write(text)
    sys.stdout.flush()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("model")
    add_options(parser)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--deterministic", action="store_true",
                        help="the same sums in each run; slower")
    parser.add_argument("--small", action="store_true",
                        help="tiny sizes, to try the script on a CPU")
    args = parser.parse_args()

    # Many start at the same time; a step needs the host for launches only.
    os.environ.setdefault("OMP_NUM_THREADS", "2")
    import models  # PyTorch is imported here
    torch = models.torch
    device = torch.device(args.device)
    models.make_deterministic(args.deterministic)
    task = models.TASKS[args.model](device, args.seed, args.small)
    task.prime(args.seed)

    def step(index):
        # A shape that PyTorch's libraries meet for the first time costs them
        # up to 90 ms: so let the timed steps meet none.
        task.draw.seed(args.seed * 1000 + index % args.shapes)
        loss = task.step(index)
        if device.type == "cuda":
            torch.cuda.synchronize()
        return loss

    def state():
        if device.type != "cuda":
            return {}
        return {"torch_allocated_peak": torch.cuda.max_memory_allocated(),
                "torch_reserved_peak": torch.cuda.max_memory_reserved()}

    serve(Run(step, args), sys.stdin, write_line, state)
    return 0


if __name__ == "__main__":
    sys.exit(main())
