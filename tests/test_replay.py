"""gpupool-replay and gpupool advise: what they print, what they refuse, and
that the numbers add up."""
import json
import lzma
import os
import statistics
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(harness.ROOT, 'tests', 'bench'))
import gentrace  # noqa: E402  (found through the line above)

GPUPOOL = os.path.join(harness.ROOT, 'scripts', 'gpupool')
MIB = 1 << 20
HEAD = '# op,id,size,stream,t_us\n'
POLICIES = ['pool', 'native', 'expandable', 'chunk', 'buddy']


class ReplayTest(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.replay = os.path.join(self.build.path, 'gpupool-replay')

    def env(self):
        # Our own program: what it leaks is an error.
        return self.build.env(preload=False, ASAN_OPTIONS='abort_on_error=1')

    def file(self, text, name='trace.csv'):
        path = os.path.join(self.dir, name)
        with open(path, 'w') as out:
            out.write(text)
        return path

    def run_replay(self, *args, **kwargs):
        return harness.run([self.replay] + list(args),
                           self.env(), **kwargs)

    def json(self, *args):
        result = self.run_replay('--json', *args)
        self.assertEqual(result.status, 0, str(result))
        return json.loads(result.out.decode())

    def made_up(self, program):
        path = os.path.join(self.dir, program.__name__ + '.csv')
        with open(path, 'w') as out:
            gentrace.write(program, out)
        return path


class Output(ReplayTest):

    def test_keys(self):
        trace = self.made_up(gentrace.graph)
        for policy in POLICIES:
            run = self.json('--policy', policy, trace)
            self.assertEqual(run['policy'], policy)
            self.assertEqual(run['trace'], trace)
            self.assertEqual(run['oom'], [])
            self.assertEqual(run['refused'], 0)
            self.assertGreater(run['ns_per_op'], 0)
            self.assertGreaterEqual(run['remaps'], 0)
            self.assertGreater(run['driver_us'], 0)
            self.assertGreater(sum(run['driver_calls'].values()), 0)
            self.assertGreaterEqual(run['peak_reserved'], run['peak_live'])
            self.assertAlmostEqual(run['efficiency'], run['peak_live']
                                   / run['peak_reserved'], places=5)

    def test_live_bytes_and_operations_are_the_traces_own(self):
        trace = self.made_up(gentrace.serve)
        sizes, live, peak, ops = {}, 0, 0, 0
        with open(trace) as lines:
            for line in lines:
                op, name, size = line.split(',')[:3]
                if op in 'ap':
                    sizes[name] = int(size)
                    live += int(size)
                    peak = max(peak, live)
                elif op == 'f':
                    live -= sizes.pop(name)
                ops += op in 'apf'
        for policy in POLICIES:
            run = self.json('--no-timing', '--policy', policy, trace)
            self.assertEqual(run['peak_live'], peak)
            self.assertEqual(run['ops'], ops)
            self.assertIsNone(run['ns_per_op'])

    def test_the_same_every_time(self):
        trace = self.made_up(gentrace.vision)
        for policy in POLICIES:
            one, two = (self.json('--no-timing', '--policy', policy, trace)
                        for _ in range(2))
            self.assertEqual(one, two)

    def test_pool_holds_little_more_than_the_program(self):
        """A few large blocks, as of `graph`, are harder than the others."""
        efficiencies = []
        for program in gentrace.PROGRAMS:
            trace = self.made_up(program)
            pool = self.json('--no-timing', trace)['efficiency']
            native = self.json('--no-timing', '--policy', 'native', trace)
            self.assertGreater(pool, 0.95, program.__name__)
            self.assertGreater(pool, native['efficiency'], program.__name__)
            efficiencies.append(pool)
        self.assertGreater(statistics.mean(efficiencies), 0.98)

    def test_text_fits_80_columns(self):
        trace = self.file(HEAD + 'a,1,50000000,,1\no,,60000000,,2\n'
                          'f,1,,,900000\n')
        for policy in POLICIES:
            result = self.run_replay('--policy', policy, '--memory', '90MiB',
                                     trace)
            self.assertEqual(result.status, 0, str(result))
            text = result.out.decode()
            for line in text.splitlines():
                if trace not in line:  # its own name may be long
                    self.assertLessEqual(len(line), 80, line)
                    self.assertEqual(line, line.rstrip())
            self.assertIn('peak reserved', text)
            self.assertIn('line 3         OUT OF MEMORY', text)
            self.assertIn('refused when recorded', text)

    def test_plain_compressed_and_piped_are_the_same(self):
        text = HEAD + 'p,1,5000000,,0\na,2,7000000,,5\nf,1,,,9\n'
        plain = self.file(text)
        packed = os.path.join(self.dir, 'trace.csv.xz')
        with lzma.open(packed, 'wt') as out:
            out.write(text)
        runs = [self.json('--no-timing', plain),
                self.json('--no-timing', packed)]
        with open(plain) as stdin:
            result = self.run_replay('--json', '--no-timing', '-',
                                     stdin=stdin)
        runs.append(json.loads(result.out.decode()))
        for run in runs:
            del run['trace']
        self.assertEqual(runs[0], runs[1])
        self.assertEqual(runs[0], runs[2])


class Memory(ReplayTest):

    # 60 MiB are held, 30 MiB more were refused when this was recorded.
    OOM = HEAD + ('a,1,62914560,,1\no,2,31457280,,2\na,3,20971520,,3\n'
                  'f,3,,,4\nf,1,,,5\n')

    def test_a_recorded_oom_is_told_either_way(self):
        trace = self.file(self.OOM)
        for policy in ('pool', 'native', 'expandable'):
            run = self.json('--policy', policy, '--memory', '100MiB', trace)
            self.assertEqual(len(run['oom']), 1)
            oom = run['oom'][0]
            self.assertEqual((oom['line'], oom['bytes'], oom['recorded'],
                              oom['outcome'], oom['live']),
                             (3, 30 * MIB, True, 'served', 60 * MIB))
            self.assertEqual(run['refused'], 0)
            self.assertEqual(run['peak_live'], 90 * MIB)

            run = self.json('--policy', policy, '--memory', '80MiB', trace)
            self.assertEqual(run['oom'][0]['outcome'], 'refused')
            self.assertEqual(run['refused'], 1)
            self.assertEqual(run['peak_live'], 80 * MIB)

    def test_what_does_not_fit_is_refused(self):
        trace = self.file(self.OOM)
        for policy in POLICIES:
            run = self.json('--policy', policy, '--memory', '70MiB', trace)
            self.assertLessEqual(run['peak_reserved'], 70 * MIB)
            self.assertIn((4, False, 'refused'), [
                (oom['line'], oom['recorded'], oom['outcome'])
                for oom in run['oom']])

    def test_sizes(self):
        trace = self.file(self.OOM)
        for text, size in (('128MiB', 128 * MIB), ('1G', 1 << 30),
                           ('1.5 GiB', 3 << 29), ('67108864', 64 * MIB),
                           ('2tb', 2 << 40), ('900000K', 900000 << 10)):
            self.assertEqual(self.json('--memory', text, trace)['memory'],
                             size)

    def test_work_in_flight_is_waited_for(self):
        text = HEAD + 'a,1,4194304,,1\nl,,,0,2\n%sf,1,,,4\na,2,4194304,,5\n'
        busy = self.json(self.file(text % ''))
        idle = self.json(self.file(text % 's,,,0,3\n'))
        self.assertEqual(busy['waits'], 1)
        self.assertEqual(idle['waits'], 0)
        self.assertEqual(busy['peak_reserved'], 4 * MIB)

    def test_settings_reach_the_policies(self):
        trace = self.file(HEAD + 'a,1,3000000,,1\nf,1,,,2\n')
        self.assertEqual(self.json('--policy', 'native', trace)
                         ['peak_reserved'], 20 * MIB)
        self.assertEqual(
            self.json('--policy', 'native', '--conf',
                      'large_segment_size_mb:32', trace)['peak_reserved'],
            32 * MIB)

    def test_pool_without_virtual_memory_is_the_native_rules(self):
        for program in gentrace.PROGRAMS:
            trace = self.made_up(program)
            pool = self.json('--no-timing', '--conf',
                             'expandable_segments:False', trace)
            native = self.json('--no-timing', '--policy', 'native', trace)
            self.assertEqual(pool['driver_calls']['create'], 0)
            self.assertAlmostEqual(
                pool['peak_reserved'] / native['peak_reserved'], 1, delta=0.03,
                msg=program.__name__)

    def test_a_size_can_be_left_out(self):
        trace = self.file(HEAD + 'a,1,67108864,,1\na,2,2097152,,2\n'
                          'f,1,,,3\nf,2,,,4\n')
        run = self.json('--policy', 'native', '--without', '64MiB', trace)
        self.assertEqual(run['peak_live'], 2 * MIB)
        self.assertEqual(run['ops'], 2)


class Refusals(ReplayTest):

    def refused(self, status, sentence, *args, **kwargs):
        result = self.run_replay(*args, **kwargs)
        self.assertEqual(result.status, status, str(result))
        self.assertEqual(result.out, b'')
        self.assertIn(sentence, result.err.decode())

    def test_malformed_lines_name_their_number(self):
        good = HEAD + 'a,1,512,0,1\n'
        for line, sentence in (
                ('a,2,512', 'line 3: 3 fields, expected 5'),
                ('f,9,,0,2', 'line 3: block 9 is not allocated'),
                ('a,1,512,0,2', 'line 3: block 1 is allocated already'),
                ('a,2,-1,0,2', 'line 3: the size -1 is not positive'),
                ('a,2,many,0,2', 'line 3: the size "many" is not a number'),
                ('z,2,1,0,2', 'line 3: unknown operation "z"'),
                ('', 'line 3: 1 field, expected 5')):
            trace = self.file(good + line + '\n')
            self.refused(1, 'gpupool-replay: %s: %s' % (trace, sentence),
                         trace)

    def test_a_cut_trace_is_refused(self):
        trace = self.made_up(gentrace.graph)
        with open(trace) as file:
            text = file.read()
        cut = self.file(text[:text.rindex(',')], 'cut.csv')
        self.refused(1, 'line %d: 4 fields' % text.count('\n'), cut)
        packed = os.path.join(self.dir, 'cut.csv.xz')
        with open(packed, 'wb') as out:
            out.write(lzma.compress(text.encode())[:-200])
        self.refused(1, 'xz could not decompress it', packed)

    def test_no_such_file(self):
        self.refused(1, 'No such file', os.path.join(self.dir, 'none'))
        self.refused(1, 'line 1: the trace has no operations', '-')

    def test_wrong_use(self):
        trace = self.file(HEAD + 'a,1,512,0,1\n')
        self.refused(2, 'no trace given')
        self.refused(2, 'one trace at a time', trace, trace)
        self.refused(2, 'no policy "best"', '--policy', 'best', trace)
        self.refused(2, '"lots" is no size', '--memory', 'lots', trace)
        self.refused(2, '"-1" is no size', '--memory=-1', trace)
        self.refused(2, 'unrecognized option', '--polcy', 'pool', trace)
        self.refused(2, 'max_split_size_mb', '--conf', 'max_split_size_m:9',
                     trace)

    def test_help(self):
        result = self.run_replay('--help')
        self.assertEqual(result.status, 0)
        for policy in POLICIES:
            self.assertIn(policy, result.out.decode())


class Advise(ReplayTest):

    def advise(self, *args, **kwargs):
        return harness.run([sys.executable, GPUPOOL, 'advise', '--replay',
                            self.replay] + list(args),
                           self.build.env(preload=False), **kwargs)

    def test_names_the_best(self):
        trace = self.made_up(gentrace.transformer)
        result = self.advise('--json', trace)
        self.assertEqual(result.status, 0, str(result))
        advice = json.loads(result.out.decode())
        native = self.json('--no-timing', '--policy', 'native', trace)
        pool = self.json('--no-timing', trace)
        self.assertEqual(advice['default_reserved'],
                         native['peak_reserved'])
        self.assertLessEqual(advice['gpupool_reserved'],
                             pool['peak_reserved'])
        self.assertAlmostEqual(
            advice['gpupool_saves_mib'],
            (native['peak_reserved'] - advice['gpupool_reserved']) / MIB,
            places=0)
        self.assertIn('expandable_segments:True', advice['pytorch_conf'])
        for run in advice['runs']:
            if run['policy'] == 'pool':
                self.assertGreaterEqual(run['peak_reserved'] * 1.002,
                                        advice['gpupool_reserved'])
            else:
                self.assertGreaterEqual(run['peak_reserved'] * 1.002,
                                        advice['pytorch_reserved'])

    def test_text_fits_80_columns(self):
        trace = self.made_up(gentrace.graph)
        result = self.advise('--memory', '4GiB', trace)
        self.assertEqual(result.status, 0, str(result))
        text = result.out.decode()
        for line in text.splitlines():
            if trace not in line:
                self.assertLessEqual(len(line), 80, line)
        self.assertIn('Best with gpupool:', text)
        self.assertIn('PYTORCH_CUDA_ALLOC_CONF=', text)
        self.assertIn('garbage_collection_threshold:0.8', text)

    def test_more_memory_is_no_negative_saving(self):
        # What only gpupool finds room for is more than PyTorch's reserves.
        trace = self.file(HEAD + ''.join(
            'a,%d,5242880,,%d\n' % (i, i) for i in range(1, 60)))
        result = self.advise('--memory', '128MiB', trace)
        self.assertEqual(result.status, 0, str(result))
        best = result.out.decode().partition('Best with gpupool: ')[2]
        self.assertRegex(best, r'^\d+ MiB, costs \d+ MiB \(\d+ %\)')

    def test_fewest_refusals_come_first(self):
        # 40 + 10 MiB held; 34 more fit only without rounding up to 64.
        trace = self.file(HEAD + 'a,1,41943040,,1\na,2,10485760,,2\n'
                          'a,3,35651584,,3\n')
        result = self.advise('--memory', '86MiB', '--json', trace)
        advice = json.loads(result.out.decode())
        best = [run for run in advice['runs']
                if run['policy'] == 'native' and not run['refused']]
        self.assertTrue(best)
        self.assertTrue(any(run['refused'] for run in advice['runs']))
        chosen = [run for run in advice['runs']
                  if run['setting'] == advice['pytorch_conf']
                  and run['policy'] != 'pool'][0]
        self.assertEqual(chosen['refused'], 0)

    def test_standard_input_and_bad_traces(self):
        trace = self.file(HEAD + 'a,1,9000000,,1\n')
        with open(trace) as stdin:
            result = self.advise('-', stdin=stdin)
        self.assertEqual(result.status, 0, str(result))
        self.assertIn(b'Best with gpupool', result.out)
        result = self.advise(self.file(HEAD + 'a,1\n'))
        self.assertEqual(result.status, 1)
        self.assertIn(b'line 2: 2 fields', result.err)
        self.assertNotIn(b'Traceback', result.err)
        result = self.advise('--replay', '/nowhere', trace)
        self.assertEqual(result.status, 125)
        self.assertIn(b'no program at /nowhere', result.err)


class Bench(ReplayTest):

    def test_traces_are_the_same_every_time(self):
        path = os.path.join(harness.ROOT, 'tests', 'bench', 'gentrace.py')
        result = harness.run([sys.executable, path, self.dir])
        self.assertEqual(result.status, 0, str(result))
        for program in gentrace.PROGRAMS:
            with open(os.path.join(self.dir, program.__name__ + '.csv'),
                      'rb') as file:
                text = file.read()
            again = harness.run([sys.executable, path, program.__name__])
            self.assertEqual(text, again.out)


if __name__ == '__main__':
    unittest.main()
