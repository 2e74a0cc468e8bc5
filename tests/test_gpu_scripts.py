"""The judgement that tests/gpu/run.py makes, tried without a card: made-up
programs that behave well, crash, hang, differ or report nonsense."""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GPU = os.path.join(HERE, 'gpu')
sys.path.insert(0, GPU)
import common  # noqa: E402  (found through the line above)
import machine  # noqa: E402
import run  # noqa: E402

# Stands for a preloaded program: writes its report as gpupool would, with
# what it is told to get wrong.
PROGRAM = r'''
import json, os, sys, time
wrong = sys.argv[1]
conf = os.environ.get('GPUPOOL_CONF')
if conf:
    name = os.path.join(conf.split(':', 1)[1].strip('"'),
                        'gpupool-python3-%d.exit' % os.getpid())
    pool = {'allocated_bytes.all.current': 0,
            'allocated_bytes.all.peak': 0 if wrong == 'unpooled' else 1000,
            'reserved_bytes.all.current': 500,
            'reserved_bytes.all.peak': 500 if wrong == 'reserved' else 4000,
            'num_hits': 9 if wrong == 'hits' else 3, 'num_alloc_calls': 8}
    pid = 1 if wrong == 'pid' else os.getpid()
    if wrong != 'report':
        with open(name + '.json', 'w') as file:
            json.dump({'pid': pid, 'pools': [pool, pool]}, file)
    if wrong != 'text':
        with open(name + '.txt', 'w') as file:
            file.write('words\n' * 50)
    if wrong == 'crash':
        os.kill(os.getpid(), 11)
    if wrong == 'hang':
        time.sleep(1000)
    if wrong == 'status':
        sys.exit(3)
other = conf and wrong == 'differ'
if wrong != 'silent':
    print('result loss=%s' % ('1.5000001' if other else '1.5'))
'''


class Verdicts(unittest.TestCase):
    """run.pair() on programs that are right, or wrong in one way."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='gpupool test ')
        self.addCleanup(shutil.rmtree, self.dir)
        self.program = os.path.join(self.dir, 'program.py')
        with open(self.program, 'w') as file:
            file.write(PROGRAM)
        # Nothing to preload: an empty name is no library and no complaint.
        self.context = run.Context(argparse.Namespace(
            build=self.dir, out=os.path.join(self.dir, 'out'), quick=False,
            timeout=120, install=None, seconds=10, without=None))
        self.context.library = ''

    def pair(self, wrong):
        return run.pair(self.context, wrong,
                        [sys.executable, self.program, wrong])

    def test_a_good_program_passes(self):
        row = self.pair('nothing')
        self.assertEqual(row['equal'], 'yes')
        self.assertEqual(row['peak_bytes'], 2000)
        self.assertEqual(row['hits'], 6)

    def test_each_fault_fails(self):
        for wrong, words in (('crash', 'SIGSEGV'), ('hang', 'time limit'),
                             ('status', 'status 3'), ('differ', 'preloaded'),
                             ('silent', 'no result line'),
                             ('unpooled', 'nothing pooled'),
                             ('reserved', 'below allocated'),
                             ('hits', 'more hits'), ('pid', 'report of pid'),
                             ('report', '0 exit reports'),
                             ('text', 'no text')):
            with self.subTest(wrong=wrong):
                if wrong == 'hang':
                    self.context.timeout = 2
                with self.assertRaisesRegex(machine.Failure, words):
                    self.pair(wrong)
                self.context.timeout = 120


class Equality(unittest.TestCase):
    """As equal as two plain runs are, no less and no more."""

    def check(self, one, two, three):
        return common.equal_results([{'loss': one}], [{'loss': two}],
                                    [{'loss': three}])[0]

    def test_every_digit_where_plain_runs_agree(self):
        self.assertTrue(self.check('1.5', '1.5', '1.5'))
        self.assertFalse(self.check('1.5', '1.5', '1.5000000000000002'))

    def test_as_many_digits_as_plain_runs_agree_on(self):
        self.assertTrue(self.check('1.5', '1.5000001', '1.50000005'))
        self.assertFalse(self.check('1.5', '1.5000001', '1.50001'))

    def test_words_must_be_the_same(self):
        self.assertTrue(self.check('ab', 'ab', 'ab'))
        self.assertFalse(self.check('ab', 'ab', 'ac'))
        self.assertFalse(self.check('ab', 'ac', 'ab'))

    def test_plain_runs_that_agree_on_nothing_prove_nothing(self):
        self.assertFalse(self.check('1.5', '2.5', '2.0'))


class NoCard(unittest.TestCase):
    """Where CUDA finds no card, both scripts say so and do no harm."""

    def test_skips_with_a_word(self):
        build = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, build)
        with open(os.path.join(build, 'libgpupool.so'), 'w'):
            pass
        # No driver to be found, also on a machine that has one.
        with open(os.path.join(build, 'libcuda.so.1'), 'w'):
            pass
        env = dict(os.environ, LD_LIBRARY_PATH=build, CUDA_VISIBLE_DEVICES='',
                   TMPDIR=build)
        for script in ('run.py', 'bench.py'):
            done = subprocess.run(
                [sys.executable, os.path.join(GPU, script), '--build', build],
                env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                universal_newlines=True, timeout=300, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn('skipped: no usable NVIDIA card', done.stdout)


if __name__ == '__main__':
    unittest.main()
