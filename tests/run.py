#!/usr/bin/env python3
"""Runs the tests of one build tree and closes with `N passed, N failed`.

Kinds, each in its own process with a time limit:
  unit      build/tests/unit/*: cmocka, every single test counts
  fuzz      build/tests/fuzz/*: --seed S --ops N, exit 0 when clean;
            the long ones also build/tests/order-fuzz, 12,000 seeds, and
            the tests that kill programs, 200 times each
  program   build/tests/programs/*: exit 0, 1, or 77 for skipped; run plain
            and under the preload, and both must print the same.
            sim_* tests the simulated driver and runs plain only
  python    tests/test_*.py: unittest modules that drive programs

Passing tests are quiet; a failing one shows its output.

With --again, or GPUPOOL_TEST_AGAIN=1 in the environment (`make test AGAIN=1`,
as .ci/run does), a case that failed beside others is run once more, alone, at
the end. If it passes then it is counted as passed and told as `UNSTEADY NAME`;
what its failure said stays above, marked `RETRY NAME`. That is for machines
that stall: each such line is a case whose cause is to be found.
"""
import argparse
import concurrent.futures
import contextlib
import faulthandler
import glob
import os
import re
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402  (found through the line above)

PASS, FAIL, SKIP, UNSTEADY = 'pass', 'fail', 'skip', 'unsteady'
# These end what hangs, and nothing else: also where all takes ten times as long.
UNIT_LIMIT_S = 600
MODULE_LIMIT_S = 1800
# Modules that run nothing of what a sanitizer looks at.
ONE_BUILD = {'test_docs', 'test_gpu_scripts', 'test_gpu_turns', 'test_runner',
             'test_work_table'}
FUZZ_SHORT = [('1', '20000')]
FUZZ_LONG = [(str(seed), '1000000') for seed in range(1, 5)]
ORDER_LONG = [(contexts, '%d-%d' % (at, at + 999))
              for contexts, seeds in ((1, 10000), (2, 2000))
              for at in range(1, seeds, 1000)]
FUZZ_LIMIT_S = {False: 600, True: 3600}


class Outcome:
    """One test: its name, PASS, FAIL, SKIP or UNSTEADY, and why."""

    def __init__(self, name, status, detail=''):
        self.name = name
        self.status = status
        self.detail = detail

    def case(self):
        """What is run again for it; parts of one test share it."""
        return ' '.join(self.name.split(' ')[:2])


def parse_tap(name, result):
    """The single tests of a TAP stream. A stream that ends before its plan is
    done, or a bad exit status without a failed test, is a failure."""
    outcomes = []
    planned = 0
    for line in result.out.decode('utf-8', 'replace').splitlines():
        plan = re.match(r'1\.\.(\d+)', line)
        if plan:
            planned += int(plan.group(1))
        test = re.match(r'(not )?ok \d+(?: -)? ?(# SKIP)?\s*(.*)', line)
        if test:
            status = SKIP if test.group(2) else FAIL if test.group(1) else PASS
            outcomes.append(Outcome('%s %s' % (name, test.group(3)), status))
        elif line.startswith('#') and outcomes:
            outcomes[-1].detail += '\n' + line  # belongs to the test above
    failed = any(o.status == FAIL for o in outcomes)
    if len(outcomes) < planned or not outcomes or (
            result.status != 0 and not failed):
        outcomes.append(Outcome(name, FAIL, str(result)))
    for outcome in outcomes:
        if outcome.status == FAIL and not outcome.detail:
            outcome.detail = str(result)
    return outcomes


def unit(build, path):
    env = build.env(preload=False, CMOCKA_MESSAGE_OUTPUT='TAP')
    env['ASAN_OPTIONS'] = 'abort_on_error=0'  # own code: leaks are errors
    env['TSAN_OPTIONS'] = 'halt_on_error=1'
    return parse_tap('unit/' + os.path.basename(path),
                     harness.run([path], env, UNIT_LIMIT_S))


def fuzz(build, path, seed, ops, limit):
    name = 'fuzz/%s --seed %s --ops %s' % (os.path.basename(path), seed, ops)
    env = build.env(preload=False)
    env['ASAN_OPTIONS'] = 'abort_on_error=0'
    env['TSAN_OPTIONS'] = 'halt_on_error=1'
    result = harness.run([path, '--seed', seed, '--ops', ops], env, limit)
    return [Outcome(name, PASS if result.status == 0 else FAIL, str(result))]


def order_fuzz(build, path, contexts, seeds):
    args = ['--contexts', str(contexts), '--seeds', seeds]
    result = harness.run([path] + args, build.env(preload=False),
                         FUZZ_LIMIT_S[True])
    return [Outcome('fuzz/order-fuzz ' + ' '.join(args),
                    PASS if result.status == 0 else FAIL, str(result))]


def program(build, path):
    """Plain, then preloaded; the second must print what the first did."""
    base = os.path.basename(path)
    name = 'program/' + base
    scratch = tempfile.mkdtemp(prefix='gpupool-test-')
    try:
        plain = harness.run([path], build.env(preload=False), cwd=scratch)
        outcomes = [exit_outcome(name + ' plain', plain)]
        if 'sim_' in base or outcomes[0].status == SKIP:
            return outcomes
        conf = 'check:True,quiet:True,report_dir:' + scratch
        ours = harness.run([path], build.env(conf=conf), cwd=scratch)
        outcome = exit_outcome(name + ' preloaded', ours)
        if outcome.status == PASS and ours.out != plain.out:
            outcome = Outcome(outcome.name, FAIL,
                              'stdout differs\n--- plain\n%s--- preloaded\n%s'
                              % (harness.tail(plain.out), ours))
        elif b'gpupool: ' in ours.err:  # a warning: quiet takes the rest
            outcome = Outcome(outcome.name, FAIL, str(ours))
        return outcomes + [outcome]
    finally:
        shutil.rmtree(scratch, True)


def exit_outcome(name, result):
    status = {0: PASS, 77: SKIP}.get(result.status, FAIL)
    return Outcome(name, status, str(result))


def python_module(build, path, cases=()):
    """A unittest module in its own process, told as TAP by run_module; of
    `cases`, if there are, only those."""
    env = dict(os.environ, GPUPOOL_TEST_BUILD=build.path,
               GPUPOOL_TEST_SAN=build.san or '')
    name = os.path.basename(path)[:-len('.py')]
    argv = [sys.executable, os.path.abspath(__file__), '--modules',
            os.path.dirname(path), '--module', name]
    return parse_tap('python/' + name, harness.run(argv + list(cases), env,
                                                   MODULE_LIMIT_S))


def python_job(build, path):
    name = os.path.basename(path)[:-len('.py')]
    if build.san and name in ONE_BUILD:
        return Job(lambda: [Outcome('python/' + name, SKIP)])
    return Job(lambda: python_module(build, path),
               lambda failed: python_again(build, path, failed))


def python_again(build, path, failed):
    """The cases that failed; the module if one of them has no name, as when
    it ended early."""
    cases = [outcome.case().partition(' ')[2] for outcome in failed]
    named = all(re.fullmatch(r'\w+\.\w+', case) for case in cases)
    return python_module(build, path, sorted(set(cases)) if named else ())


def kills(build, test):
    """A test that kills programs at random points, or sends them signals, with
    many of them."""
    env = dict(os.environ, GPUPOOL_TEST_BUILD=build.path,
               GPUPOOL_TEST_SAN=build.san or '', GPUPOOL_TEST_KILLS='200')
    result = harness.run([sys.executable, '-m', 'unittest', test], env,
                         FUZZ_LIMIT_S[True],
                         cwd=os.path.dirname(os.path.abspath(__file__)))
    return [Outcome('kills/' + test, PASS if result.status == 0 else FAIL,
                    str(result))]


class TapResult(unittest.TestResult):
    """Tells each test as a TAP line, and failures in full: also what the last
    programs that the test ran had to say."""

    failed = None  # (test, why) of the running one's failures

    def startTest(self, test):
        super().startTest(test)
        harness.ran.clear()
        self.failed = []

    def stopTest(self, test):
        # Now, when the test has cleaned up: its programs have ended.
        super().stopTest(test)
        for part, why in self.failed:
            more = [text for text in harness.ran[-3:] if text not in why]
            self.tell(part, FAIL, '\n'.join([why] + more))
        self.failed = None

    def tell(self, test, status, why=''):
        number = self.testsRun
        name = test.id().split('.', 1)[-1]
        if status == SKIP:
            print('ok %d # SKIP %s (%s)' % (number, name, why))
        else:
            print('%sok %d - %s' % ('not ' if status == FAIL else '', number,
                                    name))
            if why:
                print('# ' + why.replace('\n', '\n# '))
        sys.stdout.flush()

    def fail(self, test, err, case):
        why = self._exc_info_to_string(err, case)
        if self.failed is None:  # between tests, as in setUpClass
            self.tell(test, FAIL, why)
        else:
            self.failed.append((test, why))

    def addSuccess(self, test):
        super().addSuccess(test)
        self.tell(test, PASS)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.fail(test, err, test)

    def addError(self, test, err):
        super().addError(test, err)
        self.fail(test, err, test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.tell(test, SKIP, reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.fail(subtest, err, test)


def run_module(name, cases):
    """With `cases` of the form CLASS.TEST only those."""
    names = ['%s.%s' % (name, case) for case in cases] or [name]
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    # Shows in which test it was when the limit ends it.
    faulthandler.dump_traceback_later(MODULE_LIMIT_S - 20)
    print('1..%d' % suite.countTestCases(), flush=True)
    result = TapResult()
    suite.run(result)
    return 0 if result.wasSuccessful() else 1


class Job:
    """Something to run: its run() and again(failed outcomes) return
    outcomes."""

    def __init__(self, run, again=None):
        self.run = run
        self.again = again or (lambda failed: run())


def collect(build, args):
    """Every Job."""
    jobs = []

    def add(kind, pattern, make):
        for path in sorted(glob.glob(pattern)):
            name = kind + '/' + os.path.basename(path)
            if os.path.isfile(path) and (not args.names or any(
                    part in name for part in args.names)):
                jobs.extend(make(path))

    def executables(kind):
        return os.path.join(build.path, 'tests', kind, '*')

    def fuzzers(path):
        runs = FUZZ_LONG if args.fuzz_long else FUZZ_SHORT
        limit = FUZZ_LIMIT_S[args.fuzz_long]
        return [Job(lambda p=path, s=s, n=n: fuzz(build, p, s, n, limit))
                for s, n in runs]

    add('fuzz', executables('fuzz'), fuzzers)
    order = os.path.join(build.path, 'tests', 'order-fuzz')
    if args.fuzz_long and not build.san and os.path.exists(order):
        jobs.extend(Job(lambda r=r: order_fuzz(build, order, *r))
                    for r in ORDER_LONG)
    if args.fuzz_long and build.san != 'thread':
        jobs.extend(Job(lambda m=m: kills(build, m))
                    for m in ('test_ring.Events.test_kill',
                              'test_neighbours.Kills.test_sigkill',
                              'test_report_storm.Storm'))
    if args.fuzz_long:
        return jobs
    # The long ones first, so that all jobs end at about the same time.
    if build.san != 'thread':
        add('python', os.path.join(args.modules, 'test_*.py'),
            lambda path: [python_job(build, path)])
    add('unit', executables('unit'), lambda path: [Job(lambda: unit(build, path))])
    if build.san != 'thread':
        add('program', executables('programs'),
            lambda path: [Job(lambda: program(build, path))])
    return jobs


def summary(outcomes, seconds):
    """Print the failures again by name, and the closing line."""
    count = {s: sum(o.status == s for o in outcomes)
             for s in (PASS, FAIL, SKIP, UNSTEADY)}
    for outcome in sorted(outcomes, key=lambda o: o.name):
        if outcome.status != PASS:
            print('%-7s %s' % ({FAIL: 'FAILED', SKIP: 'skipped',
                                UNSTEADY: 'UNSTEADY'}
                               [outcome.status], outcome.name))
    print('%.0f s' % seconds)
    line = '%d passed, %d failed' % (count[PASS] + count[UNSTEADY],
                                     count[FAIL])
    if count[SKIP]:
        line += ', %d skipped' % count[SKIP]
    print(line, flush=True)
    return 1 if count[FAIL] or not outcomes else 0


def timed(job):
    """The job, its outcomes, and the seconds it took."""
    start = time.monotonic()
    outcomes = job.run()
    return job, outcomes, time.monotonic() - start


def print_longest(times):
    for seconds, name in sorted(times, reverse=True)[:12]:
        print('%6.1f s  %s' % (seconds, name))


def tell_failed(outcomes, word):
    failed = [o for o in outcomes if o.status == FAIL]
    for outcome in failed:
        print('%s %s: %s' % (word, outcome.name, outcome.detail), flush=True)
    return failed


def run_again(job, outcomes):
    """Another run of the failed ones of a job's `outcomes`, and what comes of
    them all. One that ended early may have more outcomes now."""
    failed = [o for o in outcomes if o.status == FAIL]
    passed = {o.case() for o in outcomes if o.status != FAIL}
    passed -= {o.case() for o in failed}
    second = [o for o in job.again(failed) if o.case() not in passed]
    bad = {o.case() for o in tell_failed(second, 'FAILED')}
    cases = {o.case() for o in second}
    for outcome in failed:
        # One that is not told by name again, as a module that ended early,
        # stands for all of them.
        if not (outcome.case() in bad if outcome.case() in cases else bad):
            outcome.status = UNSTEADY
    known = {o.case() for o in outcomes}
    return outcomes + [o for o in second if o.case() not in known]


def run_jobs(jobs, args):
    """All outcomes, and (seconds, name) of every job."""
    outcomes, times, unsure = [], [], []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for future in concurrent.futures.as_completed(
                [pool.submit(timed, job) for job in jobs]):
            job, found, seconds = future.result()
            if found:
                times.append((seconds, ' '.join(
                    found[0].name.split('.')[0].split()[:1])))
            if tell_failed(found, 'RETRY' if args.again else 'FAILED') and \
                    args.again:
                unsure.append((job, found))
            else:
                outcomes += found
    for job, found in unsure:
        outcomes += run_again(job, found)
    return outcomes, times


@contextlib.contextmanager
def own_place():
    """Temporary files go to a directory that is removed at the end: also what
    tests leave that are killed. Others may go through it, to where a test lets
    them."""
    place = tempfile.mkdtemp(prefix='gp-')
    os.chmod(place, 0o711)
    before = os.environ.get('TMPDIR')
    os.environ['TMPDIR'] = tempfile.tempdir = place
    try:
        yield
    finally:
        tempfile.tempdir = None
        if before is None:
            del os.environ['TMPDIR']
        else:
            os.environ['TMPDIR'] = before
        shutil.rmtree(place, True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--build', default=os.path.join(harness.ROOT, 'build'))
    parser.add_argument('--san', choices=['address', 'undefined', 'thread'])
    parser.add_argument('--fuzz-long', action='store_true',
                        help='only the fuzzers, with many operations')
    # One more than there are processors, as many wait; not so many that they
    # are in each other's way.
    parser.add_argument('--jobs', type=int, default=min(
        8, len(os.sched_getaffinity(0)) + 1))
    parser.add_argument('--times', action='store_true',
                        help='also print which took longest')
    parser.add_argument('--again', action='store_true',
                        default=os.environ.get('GPUPOOL_TEST_AGAIN') == '1',
                        help='run what failed once more, alone')
    parser.add_argument('--module', help=argparse.SUPPRESS)
    parser.add_argument('--modules', help=argparse.SUPPRESS,
                        default=os.path.join(harness.ROOT, 'tests'))
    parser.add_argument('names', nargs='*',
                        help='only tests whose KIND/NAME contains one of these')
    args = parser.parse_args()
    if args.module:
        sys.path.insert(0, args.modules)
        return run_module(args.module, args.names)

    build = harness.Build(args.build, args.san)
    jobs = collect(build, args)
    if not jobs:
        print('no test matches; build them with `make test`', file=sys.stderr)
    start = time.monotonic()
    with own_place():
        outcomes, times = run_jobs(jobs, args)
    if args.times:
        print_longest(times)
    return summary(outcomes, time.monotonic() - start)


if __name__ == '__main__':
    sys.exit(main())
