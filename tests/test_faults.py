"""Every driver call of the example fails once, one at a time: no crash, no
leak, an honest answer to the program, and the pool's invariants hold after
each step (check:True)."""
import concurrent.futures
import os
import re
import unittest

import harness

# Without --reset the pool would rightly keep its cache until the process ends.
CHURN = ['--ops', '120', '--seed', '7', '--streams', '2',
         '--max-bytes', str(400 << 20), '--reset']
# Runs per test: all faults, as long as that is a matter of seconds.
MAX_RUNS = {None: 400, 'undefined': 250, 'address': 150}
ROOMY = 'memory:512MiB'
# Hardly more than the example holds at its peak: the pool must move and give
# back what it caches.
TIGHT = 'memory:%dMiB,context:0'
MIB = 1 << 20


class Faults(harness.CudaTest):

    def churn(self, number, fault='', conf='', memory=ROOMY):
        """One run: its result, and the simulated driver's figures."""
        place = os.path.join(self.dir, 'run-%s' % number)
        os.mkdir(place)
        stats = os.path.join(place, 'stats')
        argv = [os.path.join(self.build.path, 'examples', 'churn')] + CHURN
        sim = '%s,stats:%s' % (memory, stats) + (fault and ',fail:' + fault)
        result = harness.run(
            argv, self.build.env(
                sim=sim, conf=','.join(filter(None, ['check:True', conf]))),
            cwd=place)
        figures = {}
        if os.path.exists(stats):
            with open(stats) as file:
                figures = dict(line.split() for line in file)
        return result, figures

    def checksum(self, result):
        match = re.search(rb'^checksum (\S+)\s*\Z', result.out, re.M)
        return match and match.group(1)

    def clean(self, conf='', memory=ROOMY):
        """The run without a fault, and how often it calls what."""
        result, figures = self.churn('clean', conf=conf, memory=memory)
        self.assert_ok(result)
        self.assertEqual(figures['device0.used_bytes'], '0', 'leak')
        self.assertIsNotNone(self.checksum(result), str(result))
        counts = {key[len('calls.'):]: int(value)
                  for key, value in figures.items()
                  if key.startswith('calls.')}
        self.assertGreater(sum(counts.values()), 100, counts)
        return self.checksum(result), counts

    def choose(self, counts, most):
        """Faults as (function, N): all, or of each function the first and
        last ones and an even sample between."""
        faults = []
        share = max(6, most // len(counts))
        for function, count in sorted(counts.items()):
            if count <= share:
                picks = set(range(1, count + 1))
            else:
                picks = {1, 2, 3, count - 1, count}
                picks |= {1 + i * count // share for i in range(share)}
            faults += ['%s@%d' % (function, n) for n in sorted(picks)]
        return faults

    def judge(self, fault, outcome, checksum):
        """What is wrong with a run, or None."""
        result, figures = outcome
        if result.status is None:
            return 'hangs'
        if result.status < 0:
            return 'crashes'
        if b'gpupool: check' in result.err or b'Sanitizer' in result.err:
            return 'breaks an invariant'
        if result.status == 0 and self.checksum(result) != checksum:
            return 'succeeds with a wrong checksum'
        if result.status and not re.search(rb'error|cuda', result.err
                                           + result.out, re.I):
            return 'fails without telling of a CUDA error'
        used = figures.get('device0.used_bytes')
        if used is None and result.status == 0:
            return 'ends before the driver could tell its figures'
        # A program that gives up half-way frees nothing itself.
        if used != '0' and result.status == 0:
            return 'leaks %s bytes' % used
        return None

    def run_all(self, faults, checksum, conf='', memory=ROOMY):
        bad = []
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            runs = {pool.submit(self.churn, number, fault, conf, memory): fault
                    for number, fault in enumerate(faults)}
            for run in concurrent.futures.as_completed(runs):
                why = self.judge(runs[run], run.result(), checksum)
                if why:
                    bad.append('%s: %s: %s' % (runs[run], why,
                                               run.result()[0]))
        if bad:
            self.fail('%d of %d faults:\n%s' % (len(bad), len(faults),
                                                '\n'.join(bad[:8])))

    def test_each_call_fails_once(self):
        checksum, counts = self.clean()
        most = MAX_RUNS[self.build.san]
        self.run_all(self.choose(counts, most), checksum)

    def test_segments(self):
        """The same without virtual memory."""
        conf = 'expandable_segments:False'
        checksum, counts = self.clean(conf)
        self.run_all(self.choose(counts, MAX_RUNS[self.build.san] // 4),
                     checksum, conf)

    def test_zeros(self):
        """What it takes to fill memory with zeros."""
        conf = 'zero_memory:True'
        checksum, counts = self.clean(conf)
        counts = {f: n for f, n in counts.items()
                  if f in ('cuMemsetD8Async', 'cuEventRecord',
                           'cuEventCreate', 'cuStreamCreate',
                           'cuStreamWaitEvent')}
        self.assertGreater(counts['cuMemsetD8Async'], 20)
        self.run_all(self.choose(counts, MAX_RUNS[self.build.san] // 4),
                     checksum, conf)

    def test_tight_memory(self):
        """With no memory to spare, what the pool does to find some."""
        _, figures = self.churn('peak')
        live = (int(figures['device0.peak_bytes']) + MIB - 1) // MIB
        memory = TIGHT % (live + 1)
        checksum, counts = self.clean(memory=memory)
        counts = {f: n for f, n in counts.items()
                  if f.startswith('cuMem') and 'cpy' not in f
                  and 'set' not in f.lower() or f == 'cuMemSetAccess'}
        self.run_all(self.choose(counts, MAX_RUNS[self.build.san] // 4),
                     checksum, memory=memory)

    def test_a_call_that_keeps_failing(self):
        """A function that works no more from some call on. What the driver
        never takes back cannot be given back."""
        checksum, counts = self.clean()
        for function in 'cuMemRelease', 'cuMemUnmap', 'cuMemFree_v2':
            counts.pop(function, None)
        faults = []
        for function, count in sorted(counts.items()):
            faults += ['%s@%d+' % (function, n)
                       for n in sorted({1, 1 + count // 2})]
        self.run_all(faults, checksum)


class Ending(harness.CudaTest):

    def test_a_driver_that_ends_is_no_news(self):
        """Threads may allocate while the process ends: the driver's own
        answer is the program's, and other failures are told."""
        for code, told in (4, False), (999, True):
            with self.subTest(code=code):
                result = self.run_program(
                    ['drv_script', 'alloc=100000'], conf='quiet:True',
                    sim='fail:cuMemMap@1+=%d' % code)
                self.assert_ok(result)
                self.assertEqual(b'could not serve' in result.err, told,
                                 str(result))


if __name__ == '__main__':
    unittest.main()
