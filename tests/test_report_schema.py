"""The JSON of reports is as stats/report.schema.json describes it, every key of
it, and what is not is told from what is."""
import copy
import glob
import json
import os
import sys
import unittest

import harness
from harness import written

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_schema  # noqa: E402  (found through the line above)

GOLDEN = os.path.join(harness.ROOT, 'tests', 'golden', 'report-*.json')


def load(path):
    with open(path, encoding='utf-8') as file:
        return json.load(file)


def undescribed(schema, value, rule=None, where=''):
    """Places that the schema says nothing of."""
    rule = schema.resolve(schema.root if rule is None else rule)
    if isinstance(value, dict):
        for key, item in value.items():
            place = gpupool_schema.join(where, key)
            found = schema.rule_of(key, rule)
            if found is None:
                yield place
            else:
                yield from undescribed(schema, item, found, place)
    elif isinstance(value, list) and 'items' in rule:
        for item in value:
            yield from undescribed(schema, item, rule['items'], where + '[]')


class Schema(harness.CudaTest):

    def setUp(self):
        super().setUp()
        self.schema = gpupool_schema.load()

    def check(self, report):
        self.schema.check(report)
        self.assertEqual(sorted(set(undescribed(self.schema, report))), [],
                         'to be described in stats/report.schema.json')

    def test_the_pages_of_the_units(self):
        paths = sorted(glob.glob(GOLDEN))
        self.assertGreaterEqual(len(paths), 3)
        for path in paths:
            with self.subTest(os.path.basename(path)):
                self.check(load(path))

    def test_what_a_program_writes(self):
        result = self.run_program(
            ['drv_script', 'alloc=5000', 'oom=1000000000000', 'raise=USR1',
             *written('usr1-1'), 'alloc=70000'],
            conf='quiet:True,stacks:all,memory_limit:1GiB')
        self.assert_ok(result)
        paths = glob.glob(os.path.join(self.dir, '*.json'))
        self.assertEqual(len(paths), 3, paths)
        for path in paths:
            report = load(path)
            self.check(report)
            self.assertTrue(report['call_sites_kept'])

    def test_a_program_that_got_nothing(self):
        """Shares of nothing are null."""
        result = self.run_program(['drv_script', 'oom=1000000000000'],
                                  conf='quiet:True')
        self.assert_ok(result)
        path, = glob.glob(os.path.join(self.dir, '*.exit.json'))
        report = load(path)
        self.check(report)
        self.assertIsNone(report['peak_use_percent'])

    def test_a_program_that_freed_all_it_had(self):
        """Call sites are left, and their shares of nothing."""
        result = self.run_program(['drv_script', 'alloc=5000', 'free=0'],
                                  conf='quiet:True,stacks:all')
        self.assert_ok(result)
        path, = glob.glob(os.path.join(self.dir, '*.exit.json'))
        report = load(path)
        self.check(report)
        self.assertIsNone(report['top_sites'][0]['share'])

    def test_what_does_not_fit_is_named(self):
        right = load(sorted(glob.glob(GOLDEN))[0])
        self.schema.check(right)
        for change, where in (
                (lambda r: r.pop('pid'), 'pid is missing'),
                (lambda r: r.update(pid='x'), 'pid must be a whole number'),
                (lambda r: r.update(pid=True), 'pid must be'),
                (lambda r: r.update(pid=-1), 'pid must be at least 0'),
                (lambda r: r.update(schema=2), 'schema must be 1'),
                (lambda r: r.update(reason='why'), 'reason must be one of'),
                (lambda r: r.update(pools={}), 'pools must be a list'),
                (lambda r: r['pools'][0].update(device=None),
                 r'pools\[0\]\.device must be'),
                (lambda r: r['pools'][0]['timeline']['elapsed_ns']
                 .__setitem__(1, 0.5),
                 r'pools\[0\]\.timeline\.elapsed_ns\[1\] must be'),
                (lambda r: r['pools'][0].pop('timeline'),
                 r'pools\[0\]\.timeline is missing'),
                (lambda r: r.update({'passthrough.async.bytes.peak': None}),
                 r'passthrough\.async\.bytes\.peak must be'),
                (lambda r: r['settings'][0].update(value=3),
                 r'settings\[0\]\.value must be a text')):
            wrong = copy.deepcopy(right)
            change(wrong)
            with self.assertRaisesRegex(gpupool_schema.Mismatch, where):
                self.schema.check(wrong)

    def test_it_is_a_schema_for_others_too(self):
        try:
            import jsonschema
        except ImportError:
            self.skipTest('no module jsonschema')
        jsonschema.Draft7Validator.check_schema(self.schema.root)
        for path in glob.glob(GOLDEN):
            jsonschema.Draft7Validator(self.schema.root).validate(load(path))


if __name__ == '__main__':
    unittest.main()
