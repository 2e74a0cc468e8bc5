"""Reports that somebody changed: each is refused in a sentence, or told in every
form without a stumble."""
import copy
import json
import os
import random
import sys
import unittest

import harness

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_compare  # noqa: E402  (found through the line above)
import gpupool_diff  # noqa: E402
import gpupool_export  # noqa: E402
import gpupool_html  # noqa: E402
import gpupool_page  # noqa: E402
import gpupool_story  # noqa: E402
import gpupool_tensorboard  # noqa: E402
from gpupool_paths import Problem  # noqa: E402

ROUNDS = 400
VALUES = (None, -1, 0, 1, 2 ** 63, 2 ** 70, 1.5, 1e308, 'x', '', [], {}, True,
          [1], {'a': 1}, [None], [{}])


def spots(value):
    """(container, key) of everything in it."""
    items = (value.items() if isinstance(value, dict) else
             enumerate(value) if isinstance(value, list) else ())
    for key, item in items:
        yield value, key
        yield from spots(item)


def changed(report, rng):
    report = copy.deepcopy(report)
    for _ in range(rng.choice((1, 1, 2))):
        place, key = rng.choice(list(spots(report)))
        if rng.random() < 0.3:
            del place[key]
        else:
            place[key] = rng.choice(VALUES)
    return report


class Hostile(unittest.TestCase):

    def setUp(self):
        self.reports = []
        for name in 'exit', 'oom', 'signal-2-pools':
            path = os.path.join(harness.ROOT, 'tests', 'golden',
                                'report-%s.json' % name)
            with open(path) as file:
                self.reports.append(json.load(file))

    def tell(self, story):
        report, other = story.report, self.reports[0]
        gpupool_page.text(story)
        gpupool_html.page(story)
        gpupool_export.as_csv(story)
        gpupool_export.as_perfetto(story)
        gpupool_tensorboard.as_events(story)
        for pair in (report, other), (other, report):
            gpupool_diff.text(gpupool_diff.of_reports(*pair))
        rows = [gpupool_compare.Row([story])]
        gpupool_compare.text(rows, [])
        gpupool_html.comparison(rows, [])

    def test_changed_reports(self):
        told = 0
        for seed in range(ROUNDS):
            rng = random.Random(seed)
            report = changed(rng.choice(self.reports), rng)
            with self.subTest(seed=seed):
                try:
                    gpupool_story.check(report, 'x.json')
                except Problem as problem:
                    self.assertIn('x.json', str(problem))
                    continue
                self.tell(gpupool_story.Story(report, 'x.json'))
                told += 1
        self.assertGreater(told, ROUNDS // 10)

    def test_stacks_that_are_not_there(self):
        for change in (
                lambda r: r['block_sites']['sites'][1].append(5),
                lambda r: r['block_sites']['sites'].pop(),
                lambda r: r['block_sites']['frames'].pop(),
                lambda r: r.pop('block_sites'),
                lambda r: r['pools'][0]['layout']['blocks']['site']
                .__setitem__(2, 3)):
            report = copy.deepcopy(self.reports[0])
            gpupool_story.check(report, 'x.json')
            change(report)
            with self.assertRaisesRegex(Problem, 'a call stack of block_sites '
                                        'is not there'):
                gpupool_story.check(report, 'x.json')


if __name__ == '__main__':
    unittest.main()
