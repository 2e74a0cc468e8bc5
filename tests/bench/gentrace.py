#!/usr/bin/env python3
"""Writes allocation traces of made-up programs, the same every time:

  transformer  a training loop whose sequence length changes each step
  vision       convolutions over pictures of changing size
  graph        few, very large blocks of shapes that hardly repeat
  serve        requests that come and go, each with a growing cache

  python3 tests/bench/gentrace.py DIR    all of them, as DIR/NAME.csv
  python3 tests/bench/gentrace.py NAME   one, to standard output
"""
import os
import sys

KIB, MIB = 1 << 10, 1 << 20


class Random:
    """Numerical Recipes' generator: the random module's sequence is not
    promised to stay."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 1664525 + 1013904223) % (1 << 32)
        return (self.state >> 8) % n

    def between(self, low, high):
        return low + self.below(high - low + 1)


class Trace:
    def __init__(self, out):
        self.out = out
        self.next_id = 0
        self.time_us = 1000
        out.write('# op,id,size,stream,t_us\n')

    def alloc(self, size, kind='a'):
        self.next_id += 1
        self.out.write('%s,%d,%d,0,%d\n' % (kind, self.next_id, size,
                                            self.time_us))
        return self.next_id

    def free(self, block):
        self.out.write('f,%d,,,%d\n' % (block, self.time_us))

    def work(self, us):
        self.out.write('l,,,0,%d\n' % self.time_us)
        self.time_us += us

    def sync(self):
        self.out.write('s,,,0,%d\n' % self.time_us)


def layers(trace, saved, scratch, us):
    """Forward: each layer keeps an activation and uses scratch memory.
    Backward: a gradient for each, activations go in the other order."""
    kept = []
    for size, extra in zip(saved, scratch):
        kept.append(trace.alloc(size))
        temporary = [trace.alloc(part) for part in extra]
        trace.work(us)
        for block in reversed(temporary):
            trace.free(block)
    gradient = None
    for block, size in zip(reversed(kept), reversed(saved)):
        new = trace.alloc(size)
        trace.work(2 * us)
        trace.free(block)
        if gradient:
            trace.free(gradient)
        gradient = new
    trace.free(gradient)


def transformer(trace, random):
    for i in range(200):
        trace.alloc(4 * MIB if i % 4 else 768 * KIB + 3 * KIB, 'p')
    for _ in range(30):
        tokens = 16 * random.between(8, 64)
        hidden = 8 * tokens * 1024 * 2
        saved, scratch = [], []
        for _ in range(16):
            saved += [hidden, 8 * 16 * tokens * tokens * 2, hidden]
            scratch += [[3 * hidden], [8 * tokens * 4, 512], [4 * hidden, 256]]
        layers(trace, saved, scratch, 120)
        trace.sync()


def vision(trace, random):
    for i in range(160):
        trace.alloc(64 * KIB * (1 + i % 40), 'p')
    for _ in range(30):
        side = 32 * random.between(6, 16)
        saved, scratch = [], []
        channels = 64
        for stage in range(4):
            for _ in range(6):
                saved += [8 * channels * side * side, 2 * channels * 4]
                scratch += [[random.between(1, 48) * MIB], []]
            side //= 2
            channels *= 2
        layers(trace, saved, scratch, 80)
        trace.sync()


def graph(trace, random):
    features = [trace.alloc(512 * MIB, 'p'), trace.alloc(96 * MIB, 'p')]
    for _ in range(60):
        nodes = random.between(20, 400) * 1000
        edges = nodes * random.between(3, 12)
        sample = [trace.alloc(edges * 8), trace.alloc(nodes * 8)]
        layers(trace, [nodes * 256, edges * 64, nodes * 256],
               [[edges * 128], [nodes * 4], []], 400)
        for block in sample:
            trace.free(block)
        trace.sync()
    for block in features:
        trace.free(block)


def serve(trace, random):
    for _ in range(120):
        trace.alloc(32 * MIB, 'p')
    requests = []
    for _ in range(6000):
        if len(requests) < 48 and random.below(3) == 0:
            prompt = trace.alloc(random.between(1, 200) * 64 * KIB)
            requests.append([random.between(8, 160), [prompt]])
        logits = trace.alloc(len(requests) * 128 * KIB + 512)
        trace.work(700)
        trace.free(logits)
        for request in list(requests):
            request[0] -= 1
            if request[0] % 16 == 0:
                request[1].append(trace.alloc(2 * MIB))
            if request[0] == 0:
                for block in request[1]:
                    trace.free(block)
                requests.remove(request)
        trace.sync()


PROGRAMS = [transformer, vision, graph, serve]


def write(program, out):
    program(Trace(out), Random(1 + PROGRAMS.index(program)))


def write_all(directory):
    os.makedirs(directory, exist_ok=True)
    for program in PROGRAMS:
        path = os.path.join(directory, program.__name__ + '.csv')
        with open(path, 'w') as out:
            write(program, out)


def main():
    names = {program.__name__: program for program in PROGRAMS}
    if len(sys.argv) != 2 or sys.argv[1].startswith('-'):
        sys.exit(__doc__)
    if sys.argv[1] in names:
        write(names[sys.argv[1]], sys.stdout)
    else:
        write_all(sys.argv[1])


if __name__ == '__main__':
    main()
