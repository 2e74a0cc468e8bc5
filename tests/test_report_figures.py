"""Every figure on a report's page is in the JSON beside it.

The pages are those that the unit tests compare the library's output with. Each
figure on a page must be some number of the JSON, formatted as a person reads
it, or stand in one of the JSON's strings.
"""
import glob
import json
import os
import re
import time
import unittest

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'golden')
FIGURE = re.compile(r'0x[0-9a-f]+'
                    r'|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC'
                    r'|\d+ (?:min|h) \d+ (?:s|min)'
                    r'|(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?: (?:[KMGTPE]iB|B|%|[num]s|s)\b)?'
                    r'(?: %)?')


def as_read(number):
    """All the ways in which a page may write a number of the JSON."""
    yield '%s' % number
    yield '%.1f %%' % number
    if isinstance(number, float):
        return
    yield '{:,}'.format(number)
    yield '%d B' % number
    for power, unit in enumerate('KMGTPE', 1):
        yield '%.2f %siB' % (number / 1024 ** power, unit)
    yield '%d ns' % number
    for power, unit in enumerate(('us', 'ms', 's'), 1):
        yield '%.2f %s' % (number / 1000 ** power, unit)
    seconds = number // 10 ** 9
    yield '%d min %02d s' % divmod(seconds, 60)
    yield '%d h %02d min' % divmod(seconds // 60, 60)
    if seconds < 1 << 40:
        yield time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(seconds))


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def check_figures(case, page, path, least):
    """More than `least` figures are on the page, each in the JSON at `path`."""
    with open(path, encoding='utf-8') as file:
        values = list(leaves(json.load(file)))
    known = set()
    for value in values:
        if isinstance(value, str):
            known.update(FIGURE.findall(value))
        elif value is not None and not isinstance(value, bool):
            known.update(as_read(value))
    figures = FIGURE.findall(page)
    case.assertGreater(len(figures), least)
    for figure in figures:
        case.assertIn(figure, known, page)


class Figures(unittest.TestCase):

    def check(self, path):
        with open(path, encoding='utf-8') as file:
            page = file.read()
        check_figures(self, page, path[:-len('txt')] + 'json', 60)

    def test_all(self):
        pages = sorted(glob.glob(os.path.join(GOLDEN, 'report-*.txt')))
        self.assertEqual(len(pages), 4)
        for page in pages:
            with self.subTest(os.path.basename(page)):
                self.check(page)


if __name__ == '__main__':
    unittest.main()
