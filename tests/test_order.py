"""Random programs under the order oracle (order-fuzz), for some seconds: the
library is clean, and a clause of its protocol that is switched off is seen."""
import json
import os
import re
import unittest

import harness

AUTO = 'reuse:auto'
ZERO = 'reuse:auto,zero_memory:True'
# What a rule needs to have an effect.
CONF = {'ZERO_WAITS': ZERO, 'ZERO_IS_WAITED_FOR': ZERO,
        'SYNC_SPARES_CAPTURES': 'reuse:sync'}
TWO = ['--contexts', '2']
ACROSS = {'VISIT_JOINS', 'VISIT_IS_COVERED', 'VISIT_IS_WORK', 'VISIT_SHOWS',
          'VISIT_MARKS', 'LENT_WAITS', 'BORROWER_WAITS', 'LEND_WAITS'}


class Order(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.fuzz = os.path.join(self.build.path, 'tests', 'order-fuzz')
        if self.build.san:
            self.skipTest('the fuzz preloads the library by itself')

    def run_fuzz(self, *args, conf='', limit=harness.LIMIT_S):
        env = self.build.env(preload=False, GPUPOOL_CONF=conf)
        return harness.run([self.fuzz] + list(args), env, limit,
                           cwd=self.dir)

    def rules(self):
        result = self.run_fuzz('--list-rules')
        self.assert_ok(result)
        return [line.split()[0] for line in result.out.decode().splitlines()]

    def test_plain_driver(self):
        """What the fuzz does is right by itself."""
        self.assert_ok(self.run_fuzz('--plain', '--seeds', '1-40'))

    def test_waiting_frees(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-60', conf='reuse:sync'))

    def test_nothing_cached(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-60',
                                     conf='cache_policy:none'))

    def test_segments(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-70',
                                     conf='expandable_segments:False'))
        self.assert_ok(self.run_fuzz(
            '--seeds', '1-60', conf='expandable_segments:False,reuse:sync'))

    def test_driver_pool(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-40',
                                     conf='backend:cudaMallocAsync'))
        self.assert_ok(self.run_fuzz(
            '--seeds', '1-20',
            conf='backend:cudaMallocAsync,zero_memory:True'))

    def test_stream_order(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-70', conf=AUTO))

    def test_question_when_only_marks_are_left(self):
        """Blocking streams hold an event that waits for the legacy one, and
        streams that were drawn into a capture a wait that came before."""
        for seed in ('7365', '8121', '504'):
            self.assert_ok(self.run_fuzz('--seeds', seed, '--ops', '2000',
                                         conf=AUTO))

    def test_question_after_a_free_of_the_drivers(self):
        """Memory taken while a stream captures is the driver's: its free is a
        barrier like any other, and then another free marks idle streams."""
        self.assert_ok(self.run_fuzz('--seeds', '700653', '--ops', '2000',
                                     '--streams', '6', conf=AUTO))

    def test_housekeeping_meanwhile(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-60', '--ticks', conf=AUTO))

    def test_zeros(self):
        self.assert_ok(self.run_fuzz('--seeds', '1-25', conf=ZERO))
        self.assert_ok(self.run_fuzz('--seeds', '1-20', conf=(
            'reuse:sync,zero_memory:True')))

    def test_more_streams_and_threads(self):
        self.assert_ok(self.run_fuzz('--seeds', '3000-3020', '--streams',
                                     '12', '--threads', '6', conf=AUTO))

    def test_two_contexts(self):
        """On a card each, with peer access and without, and on the same."""
        self.assert_ok(self.run_fuzz('--plain', '--seeds', '1-20', *TWO))
        self.assert_ok(self.run_fuzz('--seeds', '1-48', *TWO, conf=AUTO))
        self.assert_ok(self.run_fuzz('--seeds', '1-20', *TWO, conf=ZERO))
        self.assert_ok(self.run_fuzz('--seeds', '1-20', *TWO, conf=(
            'expandable_segments:False,reuse:sync')))

    def test_broken_rules_are_seen(self):
        """Each ends with the seed and both histories."""
        rules = self.rules()
        self.assertGreater(len(rules), 10)
        self.assertLessEqual(ACROSS, set(rules))
        for rule in rules:
            with self.subTest(rule=rule):
                result = self.run_fuzz('--seeds', '1-1000', '--mutate', rule,
                                       *(TWO if rule in ACROSS else ()),
                                       conf=CONF.get(rule, AUTO))
                text = result.err.decode()
                self.assertEqual(result.status, 1, str(result))
                self.assertRegex(text, r'order-fuzz: seed \d+ failed')

    def test_same_seed_same_run(self):
        """What a broken rule leads to can be looked at again."""
        first = self.run_fuzz('--seeds', '1-50', '--mutate', 'JOIN_WAITS',
                              conf=AUTO)
        seed = re.search(r'seed (\d+) failed', first.err.decode()).group(1)
        again = self.run_fuzz('--seeds', seed, '--mutate', 'JOIN_WAITS',
                              conf=AUTO)
        self.assertEqual(first.err, again.err)

    def test_wrong_use(self):
        for args in (['--seeds', '0'], ['--seeds', '5-2'], ['--ops', 'x'],
                     ['--streams', '99'], ['--contexts', '3'],
                     ['--mutate', 'NO_SUCH_RULE'],
                     ['--seed', '1', 'more'], ['--library', '/nowhere']):
            with self.subTest(args=args):
                self.assert_ok(self.run_fuzz(*args), 2)


class Events(harness.CudaTest):

    def test_recorded_by_a_graph(self):
        """Such an event says nothing of where it was recorded before."""
        result = self.run_program(['drv_event_nodes', 'preloaded'],
                                  conf='quiet:True')
        self.assert_ok(result)
        self.assertEqual(
            result.out.decode(),
            'a node: the same memory: 1, read 9\n'
            'a captured record: the same memory: 1, read 9\n')


class Housekeeping(harness.CudaTest):

    def test_memory_goes_back_without_a_wait(self):
        """The library's thread, where no context is current, sees what has
        become complete though the program waits for nothing."""
        result = self.run_program(
            ['drv_script', 'alloc=%d' % (100 << 20), 'alloc=4096', 'use=0',
             'free=0', 'use=1', 'ticks=8'],
            conf='quiet:True,cache_decay_ms:100,' + AUTO)
        self.assert_ok(result)
        name, = [n for n in self.reports() if n.endswith('.json')]
        with open(os.path.join(self.dir, name)) as file:
            pool, = json.load(file)['pools']
        self.assertEqual(pool['reserved_bytes.large_pool.current'], 0)


if __name__ == '__main__':
    unittest.main()
