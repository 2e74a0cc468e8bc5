"""What the process may take on a device: a limit that holds to the granularity
for every kind of memory and for any number of threads, on the device as the
process sees it, and what a program is told that asks."""
import glob
import json
import os
import unittest

import harness

# Count what the program takes; what the context takes is looked at apart.
LIMIT = 'quiet:True,memory_limit:64MiB,count_context:False'
KINDS = ('plain', 'async', 'pool', 'managed', 'array', 'mipmap', 'own', 'graph',
         'bynode')
# The simulated driver keeps managed memory on the host.
UNSEEN = ('managed',)
OOM = 2


class CapsTest(harness.CudaTest):

    def caps(self, *steps, **kwargs):
        """One run; its lines as {step: text}, in order."""
        kwargs.setdefault('sim', 'memory:1GiB')
        kwargs.setdefault('conf', LIMIT)
        result = self.run_program(('drv_caps',) + steps, **kwargs)
        self.assert_ok(result)
        self.err = result.err.decode()
        return [tuple(line.split(': ', 1))
                for line in result.out.decode().splitlines()]

    def report(self, kind='exit'):
        paths = sorted(glob.glob(os.path.join(self.dir,
                                              '*.%s*.json' % kind)))
        self.assertTrue(paths, os.listdir(self.dir))
        with open(paths[-1], encoding='utf-8') as file:
            return json.load(file)


class Exact(CapsTest):

    def test_every_kind(self):
        for kind in KINDS:
            for conf in (LIMIT, LIMIT + ',backend:passthrough',
                         LIMIT + ',backend:cudaMallocAsync',
                         LIMIT + ',expandable_segments:False'):
                with self.subTest(kind=kind, conf=conf):
                    self.check_kind(kind, conf)

    def check_kind(self, kind, conf):
        peak = '0' if kind in UNSEEN else '64'
        # Segments of 20 MiB: so much of the last one does not fit.
        most = 30 if kind == 'plain' and 'segments' in conf else 32
        # It takes captures, and frees in these would wait with a piece.
        most -= kind == 'graph' and 'MallocAsync' in conf
        lines = self.caps(kind + '=2Mx0', 'peak=1', 'free=' + kind, 'sync=1',
                          kind + '=2Mx0', 'peak=1', conf=conf)
        if most == 32:
            self.assertEqual(lines[0], (kind + '=2Mx0', '32, %d' % OOM))
            self.assertEqual(lines[1], ('peak', peak))
            self.assertEqual(lines[3], (kind + '=2Mx0', '32, %d' % OOM))
        for line in lines:
            if line[0] == 'peak':
                self.assertLessEqual(int(line[1]), 64)
            elif line[0] == kind + '=2Mx0':
                self.assertGreaterEqual(int(line[1].split(',')[0]), most)

    def test_eight_threads(self):
        """Nobody exceeds it, and nobody is refused while there is room."""
        for kind in KINDS + ('mix',):
            for i in range(3):
                with self.subTest(kind=kind, run=i):
                    step = kind + '*8'
                    lines = dict(self.caps(step + '=2M', 'peak=1'))
                    self.assertEqual(lines[step + '=2M'], '32')
                    if kind != 'mix':
                        self.assertEqual(lines['peak'], '0' if kind in UNSEEN
                                         else '64')
                    self.assertLessEqual(int(lines['peak']), 64)

    def test_kinds_make_room_for_each_other(self):
        """What one kind has cached goes back for any other."""
        steps = []
        for kind in KINDS:
            steps += [kind + '=2Mx0', 'free=' + kind]
        lines = self.caps(*steps, 'peak=1')
        for kind, line in zip(KINDS, lines[::2]):
            self.assertEqual(line, (kind + '=2Mx0', '32, %d' % OOM))
        self.assertEqual(lines[-1], ('peak', '64'))

    def test_small_ones_share_pieces(self):
        lines = self.caps('plain=64Kx0', 'peak=1',
                          conf=LIMIT + ',backend:passthrough')
        self.assertEqual(lines[0], ('plain=64Kx0', '1024, %d' % OOM))
        self.assertEqual(lines[1], ('peak', '64'))

    def test_small_ones_of_each_context_share_their_own(self):
        steps = ('create=1', 'plain=64Kx3')
        conf = LIMIT + ',backend:passthrough'
        lines = self.caps(*steps * 5, 'own=2Mx0', 'peak=1', conf=conf)
        self.assertEqual(lines[-2:], [('own=2Mx0', '27, %d' % OOM),
                                      ('peak', '64')])
        # What they shared goes with them.
        lines = self.caps(*(steps + ('destroy=1', 'forget=1')) * 300,
                          'device=0', 'plain=64Kx33', 'own=2Mx0', 'peak=1',
                          conf=conf)
        self.assertEqual(lines[-2:], [('own=2Mx0', '30, %d' % OOM),
                                      ('peak', '64')])

    def test_a_request_larger_than_the_limit(self):
        for kind in KINDS:
            lines = self.caps('plain=32M', 'free=plain', kind + '=65M',
                              'used=1')
            self.assertEqual(lines[2], (kind + '=65M', '0, %d' % OOM))
            # It cannot be helped: what is cached stays so.
            self.assertEqual(lines[3], ('used', '32'))

    def test_captures(self):
        """What a capture forbids ends it, whether there is room or not."""
        argv = ['drv_debug', 'alloc=2M', 'capture=global', 'capture=relaxed']
        plain = self.run_program(argv, preload=False, sim='memory:1GiB')
        for backend in 'native', 'passthrough':
            result = self.run_program(
                argv, sim='memory:1GiB', conf='quiet:True,memory_limit:66MiB,'
                'backend:' + backend)
            self.assert_ok(result)
            self.assertEqual(result.out, plain.out)

    def test_what_waits_in_captures_counts(self):
        """A free in a capture waits with a little memory of its own, taken
        before the capture begins, or with the pool."""
        for conf, least in ((LIMIT + ',backend:cudaMallocAsync', 31),
                            (LIMIT + ',reuse:sync', 31), (LIMIT, 32)):
            for steps in (('begin=1', 'end=1', 'plain=2Mx0'),
                          ('begin=1', 'plain=2Mx0', 'free=plain',
                           'plain=2Mx0', 'end=1')):
                with self.subTest(conf=conf, steps=steps):
                    lines = self.caps(*steps, 'peak=1', conf=conf)
                    for line in lines:
                        if line[0] == 'plain=2Mx0':
                            self.assertEqual(line[1], '%d, %d' % (least, OOM))
                    self.assertEqual(lines[-1], ('peak', '64'))
            for step in 'capture*1=2M', 'capture*8=2M':
                with self.subTest(conf=conf, step=step):
                    lines = self.caps(step, 'own=2Mx0', 'peak=1', conf=conf)
                    self.assertEqual(
                        lines, [(step, str(20 * int(step[8]))),
                                ('own=2Mx0', '%d, %d' % (least, OOM)),
                                ('peak', '64')])

    def test_what_waits_in_captures_goes_with_its_context(self):
        for conf in (LIMIT + ',backend:cudaMallocAsync',
                     LIMIT + ',reuse:sync'):
            with self.subTest(conf=conf):
                lines = self.caps(*(
                    'create=1', 'plain=2M', 'begin=1', 'end=1', 'destroy=1',
                    'forget=1', 'device=0') * 40, *(
                    'plain=2M', 'begin=1', 'end=1', 'reset=1', 'forget=1',
                    'device=0') * 40, 'own=2Mx0', 'peak=1', conf=conf)
                self.assertEqual(lines[-2:], [('own=2Mx0', '32, %d' % OOM),
                                              ('peak', '64')])
                self.assertEqual(lines[:-2], [('plain=2M', '1, 0')] * 80)

    def test_captures_where_the_limit_is_full(self):
        """One begins, and frees in it wait; nothing is left of what they wait
        with, which had no room."""
        for conf in (LIMIT + ',backend:cudaMallocAsync',
                     LIMIT + ',reuse:sync'):
            with self.subTest(conf=conf):
                # Not with the pool, either: that is made while it is full.
                lines = self.caps('own=2Mx0', 'plain=2M', 'free=own',
                                  'own=2Mx31', 'plain=2M', 'begin=1', 'used=1',
                                  'spin=300000', 'query=1', 'free=plain',
                                  'query=1', 'own=2Mx0', 'used=1', 'end=1',
                                  conf=conf)
                self.assertEqual(lines[0], ('own=2Mx0', '32, %d' % OOM))
                self.assertEqual(lines[4:], [
                    ('plain=2M', '1, 0'), ('used', '64'),
                    ('query', '600'), ('free plain', '1, 0 failed'),
                    ('query', '0'), ('own=2Mx0', '1, %d' % OOM),
                    ('used', '64')])

    def test_what_waits_in_captures_takes_the_place_of_cached_memory(self):
        """Without a wait, as a capture begins without one."""
        conf = LIMIT + ',backend:cudaMallocAsync'
        lines = self.caps('plain=2Mx0', 'free=plain', 'spin=300000', 'begin=1',
                          'query=1', 'plain=2Mx0', 'free=plain', 'end=1',
                          'peak=1', conf=conf)
        self.assertEqual(lines[2:4], [('query', '600'),
                                      ('plain=2Mx0', '31, %d' % OOM)])
        self.assertEqual(lines[-1], ('peak', '64'))

    def test_fraction(self):
        conf = 'quiet:True,per_process_memory_fraction:0.25'
        lines = self.caps('own=2Mx0', 'total=1', conf=conf +
                          ',count_context:False')
        self.assertEqual(lines[0], ('own=2Mx0', '128, %d' % OOM))
        self.assertEqual(lines[1], ('total', '0 256'))

    def test_the_smaller_of_both_holds(self):
        for conf in ('memory_limit:512MiB,per_process_memory_fraction:0.25',
                     'memory_limit:256MiB,per_process_memory_fraction:0.5'):
            lines = self.caps('total=1', conf='quiet:True,' + conf)
            self.assertEqual(lines[0], ('total', '0 256'))


class Graphs(CapsTest):
    """The driver takes their memory at a launch, and keeps it."""

    def test_a_launch_that_has_no_room_is_refused(self):
        """The graph has 4 MiB, which it allocates as 12."""
        for own, done in (30, '5 of 5, 0'), (31, '0 of 5, %d' % OOM):
            lines = self.caps('own=2Mx%d' % own, 'launch=5', 'peak=1')
            self.assertEqual(lines[1:], [
                ('launch', done), ('peak', '64' if own == 30 else '62')])
        oom = self.report('oom')
        self.assertEqual(oom['oom_cause'], 'limit')

    def test_a_launch_takes_the_place_of_cached_memory(self):
        lines = self.caps('plain=2Mx0', 'free=plain', 'launch=5', 'peak=1',
                          'plain=2Mx0', 'free=plain', 'async=2Mx0',
                          'free=async', 'launch=5', 'peak=1')
        told = [text for step, text in lines if step in ('launch', 'peak')]
        self.assertEqual(told, ['5 of 5, 0', '64'] * 2)

    def test_launching_it_again_takes_nothing(self):
        """Nothing is reserved for what it has already, so nothing that is
        cached goes."""
        lines = self.caps('plain=2Mx30', 'free=plain', 'launch=1000', 'used=1',
                          'own=2M')
        self.assertEqual(lines[2:], [('launch', '1000 of 1000, 0'),
                                     ('used', '64'), ('own=2M', '1, 0')])

    def test_what_they_keep_unused_makes_way(self):
        for kind in KINDS:
            with self.subTest(kind=kind):
                lines = self.caps('launch=5', 'used=1', kind + '=2Mx0',
                                  'peak=1')
                self.assertEqual(lines[1], ('used', '4'))
                self.assertEqual(lines[2], (kind + '=2Mx0', '32, %d' % OOM))
                self.assertLessEqual(int(lines[3][1]), 64)

    def test_counted(self):
        self.caps('graph=2Mx4', 'bynode=3Mx2', 'launch=1')
        device = self.report()['devices'][0]
        self.assertEqual(device['part.graph'], 20 << 20)
        self.assertEqual(device['peak'], 20 << 20)
        self.caps('graph=2Mx4', 'free=graph', 'trim=1')
        device = self.report()['devices'][0]
        self.assertEqual(device['part.graph'], 0)
        self.assertEqual(device['held'], 0)

    def test_a_context_takes_its_own_with_it(self):
        steps = ('create=1', 'graph=2Mx8', 'destroy=1', 'forget=1', 'device=0')
        lines = self.caps(*steps * 5, 'own=2Mx0', 'peak=1')
        self.assertEqual(lines[-2:], [('own=2Mx0', '32, %d' % OOM),
                                      ('peak', '64')])

    def test_none_is_left_with_the_last_context(self):
        self.caps('launch=5', 'graph=2Mx4', 'reset=1')
        device = self.report()['devices'][0]
        self.assertEqual(device['part.graph'], 0)
        self.assertEqual(device['peak'], 8 << 20)

    def test_a_stream_that_has_the_handle_of_another(self):
        """In it nothing is known to be the graph's already."""
        lines = self.caps('own=2Mx30', 'streams=50', 'peak=1')
        self.assertEqual(lines[1:], [('streams', '50'), ('peak', '64')])

    def test_a_limit_that_comes_later(self):
        lines = self.caps('graph=2Mx8', 'launch=5', 'limit=32M', 'launch=5',
                          'own=2Mx0', conf='quiet:True,count_context:False')
        self.assertEqual(lines[3:], [('launch', '5 of 5, 0'),
                                     ('own=2Mx0', '8, %d' % OOM)])

    def test_each_device_has_its_own(self):
        lines = self.caps('graph=2Mx0', 'device=1', 'bynode=2Mx0', 'peak=1',
                          sim='memory:1GiB,devices:2',
                          conf='quiet:True,count_context:False,'
                          'memory_limit:[0:64MiB,1:32MiB]')
        self.assertEqual(lines, [('graph=2Mx0', '32, %d' % OOM),
                                 ('bynode=2Mx0', '16, %d' % OOM),
                                 ('peak', '32')])


class AtRandom(CapsTest):
    """Threads take and give memory of every kind at random; captures, graphs
    and contexts come and go."""

    CONFS = ('reuse:auto', 'reuse:sync', 'backend:passthrough',
             'backend:cudaMallocAsync', 'expandable_segments:False',
             'cache_policy:none', 'reuse:sync,expandable_segments:False',
             'backend:cudaMallocAsync,cache_policy:none', 'zero_memory:True')

    def check(self, conf, seeds, *args):
        for seed in seeds:
            with self.subTest(conf=conf, seed=seed):
                result = self.run_program(
                    ('drv_limits', str(seed)) + args,
                    conf='quiet:True,stacks:off,count_context:False,'
                    'memory_limit:64MiB,' + conf, sim='memory:1GiB,context:0,'
                    'copy_us:300')
                self.assert_ok(result)
                self.assertEqual(result.out, b'never more than there is\n')

    def test_all_kinds(self):
        for conf in self.CONFS:
            self.check(conf, range(1, 5), '200', '8')

    def test_one_pool_for_all_threads(self):
        for conf in self.CONFS[2:4]:
            self.check(conf, range(1, 13), '300', '8', 'async')

    def test_graphs(self):
        for conf in self.CONFS[:4]:
            self.check(conf, range(1, 9), '200', '8', 'graph')

    def test_alone(self):
        for conf in self.CONFS:
            self.check(conf, (1,), '400', '1')


class KnownTraps(CapsTest):
    """What broke other libraries of this sort."""

    def test_allocating_in_turn_is_no_growth(self):
        lines = self.caps('loop=3000', 'peak=1')
        self.assertEqual(lines[0], ('loop', '3000 of 3000, 0'))
        self.assertEqual(lines[1], ('peak', '24'))

    def test_a_free_is_charged_to_the_owners_device(self):
        """The memory of device 0 is freed while device 1 is current."""
        for backend in 'native', 'passthrough', 'cudaMallocAsync':
            with self.subTest(backend=backend):
                self.owners_device(LIMIT + ',backend:' + backend)

    def owners_device(self, conf):
        lines = self.caps('plain=2Mx0', 'own=2M', 'device=1', 'free=plain',
                          'own=2Mx0', 'device=0', 'plain=2Mx0',
                          sim='memory:1GiB,devices:2', conf=conf)
        self.assertEqual(lines[0], ('plain=2Mx0', '32, %d' % OOM))
        self.assertEqual(lines[1], ('own=2M', '0, %d' % OOM))
        self.assertEqual(lines[2], ('free plain', '32, 0 failed'))
        self.assertEqual(lines[3], ('own=2Mx0', '32, %d' % OOM))
        self.assertEqual(lines[4], ('plain=2Mx0', '32, %d' % OOM))

    def test_own_memory_counts_while_it_is_mapped(self):
        lines = self.caps('map=64')
        self.assertEqual(lines, [('mapped', str(OOM)), ('unmapped', '0')])

    def test_a_limit_above_the_card_shows_the_card(self):
        lines = self.caps('total=1', 'info=1',
                          conf='quiet:True,memory_limit:100GiB')
        self.assertEqual(lines[0], ('total', '0 1024'))
        self.assertIn('total 1024', lines[1][1])

    def test_nobody_waits_for_anothers_driver_call(self):
        for conf in ('memory_limit:8GiB', 'backend:cudaMallocAsync',
                     'backend:passthrough,memory_limit:8GiB',
                     'expandable_segments:False,stacks:all'):
            with self.subTest(conf=conf):
                result = self.run_program(['drv_held'],
                                          conf='quiet:True,' + conf)
                self.assert_ok(result)
                self.assertEqual(result.out, b'nobody waits\n')

    def test_contexts_count(self):
        conf = 'quiet:True,memory_limit:256MiB'
        lines = self.caps('own=2Mx0', 'create=1', 'own=2M', 'context=1',
                          conf=conf, sim='memory:1GiB,context:64MiB')
        self.assertEqual(lines[0], ('own=2Mx0', '96, %d' % OOM))
        self.assertEqual(lines[1], ('own=2M', '0, %d' % OOM))
        self.assertEqual(lines[2], ('context', '128'))
        device = self.report()['devices'][0]
        self.assertEqual(device['part.context'], 128 << 20)
        self.assertEqual(device['held'], 320 << 20)

    def test_a_pool_destroyed_beside_an_allocation(self):
        """That counts as long as it is there, whichever comes first."""
        for outer in 'allocation', 'destruction':
            with self.subTest(outer=outer):
                result = self.run_program(
                    ['drv_pool_ends', outer], sim='context:1MiB',
                    conf='quiet:True,memory_limit:64MiB')
                self.assert_ok(result)
                self.assertEqual(
                    result.out.decode(),
                    'inner: 0\nouter: 0\nroom: %d\nroom: 0\n' % OOM)

    def test_a_destroyed_pool_counts_until_it_is_empty(self):
        """By what it has of the device, which is more than was asked for."""
        lines = self.caps('pool=3Mx10', 'unpool=1', 'own=2Mx0', 'peak=1',
                          'free=pool', 'sync=1', 'own=2Mx0', 'peak=1')
        self.assertEqual(lines[1:], [
            ('own=2Mx0', '12, %d' % OOM), ('peak', '64'),
            ('free pool', '10, 0 failed'),
            ('own=2Mx0', '20, %d' % OOM), ('peak', '64')])

    def test_a_context_takes_its_own_with_it(self):
        conf = 'quiet:True,memory_limit:256MiB'
        lines = self.caps('create=1', 'managed=2Mx10', 'array=2Mx10',
                          'plain=2Mx10', 'async=2Mx10', 'destroy=1', 'forget=1',
                          'device=0', 'own=2Mx0', conf=conf,
                          sim='memory:1GiB,context:64MiB')
        self.assertEqual(lines[-1], ('own=2Mx0', '96, %d' % OOM))
        lines = self.caps('managed=2Mx10', 'array=2Mx10', 'plain=2Mx10',
                          'async=2Mx10', 'reset=1', 'forget=1', 'device=0',
                          'own=2Mx0', conf=conf + ',backend:passthrough',
                          sim='memory:1GiB,context:64MiB')
        self.assertEqual(lines[-1], ('own=2Mx0', '96, %d' % OOM))

    def test_without_a_limit_it_takes_its_own_with_it_too(self):
        """As far as is counted then."""
        for end in ('reset=1',), ('create=1', 'async=2Mx10', 'destroy=1'):
            with self.subTest(end=end):
                steps = ('managed=2Mx10', 'array=2Mx10', 'async=2Mx10')
                if end[0] == 'create=1':
                    steps, end = end[:2], end[2:]
                self.caps(*steps, *end, 'forget=1', conf='quiet:True',
                          sim='memory:1GiB,context:64MiB')
                report = self.report()
                self.assertEqual(
                    report['passthrough.async.bytes.allocated'], 20 << 20)
                self.assertEqual(report['passthrough_device_bytes'], 0)
                for name in self.reports():
                    os.unlink(os.path.join(self.dir, name))

    def test_everybody_is_served_from_the_cache(self):
        """The card is full of what the pool has cached: whoever needs memory
        gets it, asking for it or not."""
        for kind in KINDS[1:]:
            with self.subTest(kind=kind):
                lines = self.caps('plain=2Mx0', 'free=plain', kind + '=60M',
                                  conf='quiet:True',
                                  sim='memory:128MiB,context:8MiB')
                self.assertEqual(lines[0][1].split(', ')[1], str(OOM))
                self.assertEqual(lines[2], (kind + '=60M', '1, 0'))
        for call in ('cuModuleLoadData', 'cuLibraryLoadData', 'cuLaunchKernel',
                     'cuModuleGetFunction', 'cuStreamCreate', 'cuEventCreate',
                     'cuDevicePrimaryCtxRetain', 'cuCtxCreate_v4'):
            with self.subTest(call=call):
                lines = self.caps('plain=32M', 'free=plain', 'fail=' + call,
                                  'call=' + call, 'used=1', conf='quiet:True')
                self.assertEqual(lines[2], (call, '0'))
                self.assertEqual(lines[3], ('used', '0'))
                # Without anything cached it is the program's answer.
                lines = self.caps('fail=' + call, 'call=' + call,
                                  conf='quiet:True')
                self.assertEqual(lines[0], (call, str(OOM)))


class Devices(CapsTest):
    """Numbers are those that the process sees."""

    SIM = 'memory:1GiB,memory_step:1GiB,devices:4'
    LISTS = 'quiet:True,count_context:False,memory_limit:[0:64MiB,1:32MiB]'

    def fill(self, visible, **kwargs):
        lines = self.caps('own=2Mx0', 'device=1', 'own=2Mx0',
                          env={'CUDA_VISIBLE_DEVICES': visible}, sim=self.SIM,
                          conf=self.LISTS, **kwargs)
        return [line[1].split(',')[0] for line in lines]

    def test_all(self):
        self.assertEqual(self.fill('0,1,2,3'), ['32', '16'])

    def test_permuted(self):
        self.assertEqual(self.fill('3,1,0,2'), ['32', '16'])

    def test_partial(self):
        self.assertEqual(self.fill('2,3'), ['32', '16'])
        self.assertEqual(self.fill('1,0,9,2'), ['32', '16'])

    @staticmethod
    def uuid(card, instance=None):
        """The beginning of one, which says which it is."""
        if instance is None:
            return 'GPU-' + (b'gpu' + bytes([card])).hex()
        return 'MIG-' + (b'mig' + bytes([card * 16 + instance])).hex()

    def test_uuids(self):
        self.assertEqual(self.fill('%s,%s' % (self.uuid(2), self.uuid(0))),
                         ['32', '16'])

    def test_shares_follow_the_card_that_is_seen(self):
        conf = ('quiet:True,count_context:False,'
                'per_process_memory_fraction:[0:0.5,1:0.25]')
        lines = self.caps('total=1', 'device=1', 'total=1', conf=conf,
                          sim=self.SIM, env={'CUDA_VISIBLE_DEVICES': '3,1'})
        self.assertEqual(lines, [('total', '0 2048'), ('total', '0 512')])

    def test_nvml_shows_the_card_that_is_seen(self):
        lines = self.caps('own=8M', 'device=1', 'own=2M', 'nvml=1',
                          conf=self.LISTS, sim=self.SIM,
                          env={'CUDA_VISIBLE_DEVICES': '2,0'})
        self.assertEqual(lines[2:], [
            ('nvml 0', '0 free 30 used 2 total 32'),
            ('nvml 1', '0 free 2048 used 0 total 2048'),
            ('nvml 2', '0 free 56 used 8 total 64'),
            ('nvml 3', '0 free 4096 used 0 total 4096')])

    def test_instances(self):
        conf = 'quiet:True,count_context:False,per_process_memory_fraction:0.5'
        sim = 'memory:1GiB,devices:2,mig:4'
        lines = self.caps('total=1', 'own=2Mx0', 'info=1', 'nvml=1', conf=conf,
                          sim=sim, env={'CUDA_VISIBLE_DEVICES': self.uuid(
                              1, 2)})
        self.assertEqual(lines[:3], [
            ('total', '0 128'), ('own=2Mx0', '64, %d' % OOM),
            ('info', '0 free 0 total 128')])
        told = dict(lines[3:])
        self.assertEqual(told['nvml 1.2'], 'free 0 total 128')
        self.assertEqual(told['nvml 1.1'], 'free 256 total 256')


class Shown(CapsTest):

    def test_cached_memory_is_free(self):
        lines = self.caps('info=1', 'plain=4Mx4', 'own=2M', 'info=1',
                          'free=plain', 'info=1', 'async=4M', 'free=async',
                          'sync=1', 'info=1')
        told = [text for step, text in lines if step == 'info']
        self.assertEqual(told, ['0 free 64 total 64', '0 free 46 total 64',
                                '0 free 62 total 64', '0 free 62 total 64'])

    def test_no_more_than_the_card_has(self):
        """A neighbour may have taken what the limit would leave."""
        lines = self.caps('own=2Mx0', 'info=1', sim='memory:96MiB,context:48MiB',
                          conf='quiet:True,memory_limit:64MiB,'
                          'count_context:False')
        self.assertEqual(lines, [('own=2Mx0', '24, %d' % OOM),
                                 ('info', '0 free 0 total 64')])

    def test_switched_off(self):
        lines = self.caps('total=1', 'info=1', 'nvml=1', conf=LIMIT +
                          ',virtualize:False', sim='memory:1GiB,context:0')
        self.assertEqual(lines, [
            ('total', '0 1024'), ('info', '0 free 1024 total 1024'),
            ('nvml 0', '0 free 1024 used 0 total 1024')])

    def test_nvml_before_cuda(self):
        """Programs size themselves by NVML before they start CUDA."""
        lines = self.caps('nvml=1')
        self.assertEqual(lines, [('nvml 0', '0 free 64 used 0 total 64')])
        self.assertEqual(self.reports(), [])
        # Which of the limits would be which card's?
        lines = self.caps('nvml=1', conf='memory_limit:[0:64MiB]')
        self.assertEqual(lines, [('nvml 0',
                                  '0 free 1024 used 0 total 1024')])

    def test_without_a_limit(self):
        lines = self.caps('total=1', 'nvml=1', conf='')
        self.assertEqual(lines, [
            ('total', '0 1024'),
            ('nvml 0', '0 free 1024 used 0 total 1024')])
        self.assertEqual(self.reports(), [])


class Lowered(CapsTest):
    """Below what is held: what is cached goes, what the program has stays and
    does not grow."""

    def test_held_memory_stays(self):
        lines = self.caps('own=2Mx16', 'plain=2Mx8', 'limit=32M', 'own=2M',
                          'used=1', 'free=own', 'own=2Mx0', 'free=plain')
        self.assertEqual(lines[2:4], [('limit', '0'),
                                      ('own=2M', '0, %d' % OOM)])
        self.assertEqual(lines[4], ('used', '48'))
        self.assertEqual(lines[5], ('free own', '16, 0 failed'))
        self.assertEqual(lines[6], ('own=2Mx0', '8, %d' % OOM))

    def test_cached_memory_goes(self):
        lines = self.caps('plain=2Mx16', 'async=2Mx8', 'free=plain',
                          'free=async', 'limit=8M', 'used=1', 'info=1',
                          conf='quiet:True,count_context:False')
        used = int(dict(lines)['used'])
        self.assertLessEqual(used, 8)
        self.assertEqual(lines[-1], ('info', '0 free 8 total 8'))

    def test_raised_again(self):
        lines = self.caps('limit=8M', 'own=2Mx0', 'limit=32M', 'own=2Mx0',
                          'total=1')
        self.assertEqual(lines[1], ('own=2Mx0', '4, %d' % OOM))
        self.assertEqual(lines[3], ('own=2Mx0', '12, %d' % OOM))
        self.assertEqual(lines[4], ('total', '0 32'))


class Host(CapsTest):

    def test_counted_and_not_held(self):
        lines = self.caps('pinned=2Mx50')
        self.assertEqual(lines, [('pinned=2Mx50', '50, 0')])

    def test_host_limit(self):
        conf = 'quiet:True,host_limit:32MiB'
        lines = self.caps('pinned=2Mx0', 'own=2Mx30', 'free=pinned',
                          'pinned*8=1M', conf=conf)
        self.assertEqual(lines[0], ('pinned=2Mx0', '16, %d' % OOM))
        self.assertEqual(lines[1], ('own=2Mx30', '30, 0'))
        self.assertEqual(lines[3], ('pinned*8=1M', '32'))


class BadLimit(CapsTest):

    def test_no_device_memory(self):
        for conf in ('memory_limit:8GX', 'per_process_memory_fraction:half'):
            for kind in KINDS:
                with self.subTest(conf=conf, kind=kind):
                    lines = self.caps(kind + '=2M', 'plain=1K',
                                      conf='quiet:True,' + conf)
                    self.assertEqual(lines[0][1], '0, %d' % OOM)
                    self.assertEqual(lines[1][1], '0, %d' % OOM)
            self.assertEqual(self.err.count('no device memory'), 1, self.err)
            self.assertIn('on_bad_limit:continue', self.err)

    def test_continue(self):
        lines = self.caps('plain=2M', 'total=1', conf='quiet:True,'
                          'on_bad_limit:continue,memory_limit:8GX')
        self.assertEqual(lines, [('plain=2M', '1, 0'), ('total', '0 1024')])


class Reports(CapsTest):

    def test_what_counts(self):
        self.caps('plain=2M', 'own=2Mx2', 'array=2M', 'managed=2Mx3',
                  'pinned=2M', 'own=2Mx0')
        device = self.report()['devices'][0]
        self.assertEqual(device['cap'], 64 << 20)
        self.assertEqual(device['held'], 64 << 20)
        self.assertEqual(device['peak'], 64 << 20)
        self.assertEqual(device['refusals'], 1)
        parts = {key: value >> 20 for key, value in device.items()
                 if key.startswith('part.')}
        self.assertEqual(sum(parts.values()), 64)
        self.assertEqual(parts['part.managed'], 6)
        self.assertEqual(parts['part.array'], 2)
        self.assertEqual(self.report()['host']['held'], 2 << 20)

    def test_the_limit_refused(self):
        for steps, cause in ((('plain=65M',), 'larger_than_limit'),
                             (('own=2Mx0',), 'limit'),
                             (('async=2Mx0',), 'limit')):
            self.caps(*steps)
            oom = self.report('oom')
            self.assertEqual(oom['oom_cause'], cause)
        self.caps('plain=2Mx0', conf='quiet:True',
                  sim='memory:64MiB,context:0')
        self.assertNotEqual(self.report('oom')['oom_cause'], 'limit')


class Faults(CapsTest):
    """A driver call on the way fails: the limit holds all the same, and the
    ledger is right afterwards."""

    CALLS = ('cuMemCreate', 'cuMemAllocAsync', 'cuMemAllocManaged',
             'cuArray3DCreate_v2', 'cuMipmappedArrayCreate', 'cuMemMap',
             'cuMemSetAccess', 'cuMemPoolGetAttribute', 'cuMemPoolTrimTo',
             'cuDeviceGetMemPool', 'cuMemAllocFromPoolAsync', 'cuCtxGetDevice',
             'cuMemRelease', 'cuMemUnmap', 'cuArrayDestroy', 'cuMemFreeAsync',
             'cuMemPoolCreate', 'cuDeviceGetDefaultMemPool', 'cuGraphLaunch',
             'cuGraphInstantiateWithFlags', 'cuGraphGetNodes',
             'cuDeviceGetGraphMemAttribute', 'cuDeviceGraphMemTrim')
    STEPS = ('plain=2Mx4', 'async=2Mx4', 'managed=2Mx4', 'array=2Mx4',
             'mipmap=2Mx4', 'own=2Mx4', 'graph=2Mx4', 'info=1', 'free=plain',
             'free=async', 'free=managed', 'free=array', 'free=mipmap',
             'free=own', 'free=graph', 'sync=1', 'own=2Mx0', 'peak=1')

    def test_each_once(self):
        for call in self.CALLS:
            for nth in 1, 2, 3:
                for code in '', '=999':
                    with self.subTest(call=call, nth=nth, code=code):
                        self.check(call, nth, code)

    def check(self, call, nth, code):
        lines = self.caps(*self.STEPS, sim='memory:1GiB,fail:%s@%d%s' % (
            call, nth, code))
        self.assertLessEqual(int(lines[-1][1]), 64)
        count, rc = lines[-2][1].split(', ')
        # What the program could not free, and what it was refused itself.
        failed = sum(int(text.split(', ')[1].split()[0])
                     for step, text in lines if step.startswith('free'))
        # What the pool, or graphs, could not give back, when there was no other
        # room.
        kept = (4 if call == 'cuDeviceGraphMemTrim'
                else call in ('cuMemUnmap', 'cuMemRelease'))
        if rc == str(OOM):
            self.assertGreaterEqual(int(count), 32 - failed - kept)
        self.assertLessEqual(int(count), 32)

    def test_the_size_of_the_card_is_unknown(self):
        """A share of it cannot be granted, then; it can be later."""
        conf = 'quiet:True,count_context:False,per_process_memory_fraction:0.5'
        lines = self.caps('own=2M', 'own=2Mx0', conf=conf,
                          sim='memory:128MiB,fail:cuDeviceTotalMem_v2@1')
        self.assertEqual(lines[-1], ('own=2Mx0', '32, %d' % OOM))


if __name__ == '__main__':
    unittest.main()
