"""tests/run.py itself: what it makes of tests that fail, always or once."""
import os
import sys
import unittest

import at_once
import harness

RUN = os.path.join(harness.ROOT, 'tests', 'run.py')

# Fails with the words of its name if `passes` says how often it has passed.
PROGRAM = '''#!/bin/sh
echo run >>"$0.log"
runs=$(grep -c run "$0.log")
if [ "$runs" -le %d ]; then echo "why it failed: $runs" >&2; %s; fi
'''

UNIT = '''#!/bin/sh
echo run >>"$0.log"
echo '1..3'
echo 'ok 1 - good'
if [ $(grep -c run "$0.log") = 1 ]
then echo 'not ok 2 - once'; echo '# why: first'; else echo 'ok 2 - once'; fi
echo 'not ok 3 - always'
echo '# why: always'
exit 1
'''

MODULE = '''
import os, sys, unittest
import harness

def first(name):
    path = os.path.join(%r, name)
    with open(path, 'a') as file:
        file.write('x')
        return file.tell() == 1

class Case(unittest.TestCase):
    def test_good(self):
        self.assertTrue(first('good'), 'it was run twice')

    def test_always(self):
        self.fail('as always')

    def test_once(self):
        harness.run(['sh', '-c', 'echo last words >&2; kill -SEGV $$'])
        self.assertFalse(first('once'), 'the first time')

    def test_part_once(self):
        for part in 1, 2:
            with self.subTest(part):
                self.assertFalse(first('part'), 'the first time')
'''

LITTER = '''
import os, signal, tempfile, unittest

class Case(unittest.TestCase):
    def test_killed(self):
        place = tempfile.mkdtemp()
        with open(os.path.join(place, 'file'), 'w') as file:
            print('mode %o' % (os.stat(os.path.dirname(place)).st_mode
                               & 0o777), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
'''

CRASH = '''
import os, unittest

class Case(unittest.TestCase):
    def test_a(self):
        pass

    def test_crash(self):
        if not os.path.exists(%r):
            open(%r, 'w').close()
            os.abort()

    def test_later(self):
        pass
'''


class Again(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.tree = os.path.join(self.dir, 'tests')
        os.mkdir(self.tree)

    def put(self, kind, name, text):
        """An executable of the tree that is run, or a module."""
        place = os.path.join(self.tree, kind)
        os.makedirs(place, exist_ok=True)
        path = os.path.join(place, name)
        with open(path, 'w') as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def run_tests(self, *args, status=1, **env):
        result = harness.run(
            [sys.executable, RUN, '--build', self.dir, '--modules', self.tree]
            + list(args), dict(os.environ, **env))
        self.assert_ok(result, status)
        lines = result.out.decode().splitlines()
        return [line for line in lines
                if line.startswith(('UNSTEADY', 'FAILED', 'RETRY'))
                ], lines[-1], result.out.decode()

    def test_programs(self):
        self.put('programs', 'sim_good', PROGRAM % (0, 'exit 1'))
        self.put('programs', 'sim_once', PROGRAM % (1, 'kill -SEGV $$'))
        told, last, text = self.run_tests('--again', status=0)
        self.assertEqual(told, [
            'RETRY program/sim_once plain: died by signal 11 (SIGSEGV)',
            'UNSTEADY program/sim_once plain'])
        self.assertEqual(last, '2 passed, 0 failed')
        self.assertIn('why it failed: 1', text)

    def test_nothing_is_left(self):
        """Not even of a test that is killed; others may come by."""
        self.put('', 'test_some.py', LITTER)
        place = os.path.join(self.dir, 'tmp')
        os.mkdir(place)
        told, last, text = self.run_tests(TMPDIR=place)
        self.assertEqual(last, '0 passed, 1 failed')
        self.assertIn('mode 711', text)
        self.assertEqual(os.listdir(place), [])

    def test_always(self):
        path = self.put('programs', 'sim_always', PROGRAM % (9, 'exit 3'))
        told, last, text = self.run_tests('--again')
        self.assertEqual(told, [
            'RETRY program/sim_always plain: exit status 3',
            'FAILED program/sim_always plain: exit status 3',
            'FAILED  program/sim_always plain'])
        self.assertEqual(last, '0 passed, 1 failed')
        self.assertIn('why it failed: 1', text)
        self.assertIn('why it failed: 2', text)
        with open(path + '.log') as file:
            self.assertEqual(file.read(), 'run\n' * 2)

    def test_only_when_asked(self):
        path = self.put('programs', 'sim_once', PROGRAM % (1, 'exit 1'))
        told, last, _ = self.run_tests(GPUPOOL_TEST_AGAIN='0')
        self.assertEqual(told, [
            'FAILED program/sim_once plain: exit status 1',
            'FAILED  program/sim_once plain'])
        self.assertEqual(last, '0 passed, 1 failed')
        os.unlink(path + '.log')
        told, last, _ = self.run_tests(status=0, GPUPOOL_TEST_AGAIN='1')
        self.assertEqual(told[-1], 'UNSTEADY program/sim_once plain')
        self.assertEqual(last, '1 passed, 0 failed')

    def test_units(self):
        """Each test of a program by itself."""
        self.put('unit', 'test_some', UNIT)
        told, last, text = self.run_tests('--again')
        self.assertEqual(told, [
            'RETRY unit/test_some once: ',
            'RETRY unit/test_some always: ',
            'FAILED unit/test_some always: ',
            'FAILED  unit/test_some always',
            'UNSTEADY unit/test_some once'])
        self.assertEqual(last, '2 passed, 1 failed')
        self.assertIn('# why: first', text)

    def test_modules(self):
        """Only what failed is run again; what it ran is told."""
        self.put('', 'test_some.py', MODULE % self.dir)
        told, last, text = self.run_tests('--again')
        self.assertEqual(told[-3:], [
            'FAILED  python/test_some Case.test_always',
            'UNSTEADY python/test_some Case.test_once',
            'UNSTEADY python/test_some Case.test_part_once [1]'])
        self.assertEqual(last, '3 passed, 1 failed')
        self.assertNotIn('it was run twice', text)
        self.assertIn('AssertionError: True is not false : the first time',
                      text)
        self.assertIn('ran: sh -c ', text)
        self.assertIn('last words', text)

    def test_module_that_ends_early(self):
        """Tests that it never came to count, too."""
        mark = os.path.join(self.dir, 'crashed')
        self.put('', 'test_some.py', CRASH % (mark, mark))
        told, last, _ = self.run_tests('--again', status=0)
        self.assertEqual(told, [
            'RETRY python/test_some: died by signal 6 (SIGABRT)',
            'UNSTEADY python/test_some'])
        self.assertEqual(last, '4 passed, 0 failed')


class AtOnce(unittest.TestCase):

    def test_no_time_left(self):
        """One turn is made, as its figures are told."""
        row = at_once.measure(['/bin/true'], {'plain': {}, 'preloaded': {}},
                              2, 5, left=lambda: -1)
        self.assertEqual((row['processes'], row['turns']), (2, 1))
        self.assertGreater(row['preloaded_ms'], 0)


if __name__ == '__main__':
    unittest.main()
