"""Figures as the library's reports write them, and text that fits a terminal.
"""
import re
import textwrap
import time

import gpupool_text
from gpupool_text import clean

WIDTH = 79


def size(number):
    return 'unknown' if number is None else gpupool_text.size(number)


def change(number):
    """With its sign; nothing for 0."""
    return ('+' if number > 0 else '') + size(number) if number else '='


def count(number):
    return 'unknown' if number is None else '{:,}'.format(number)


def count_change(number):
    return '{:+,}'.format(number) if number else '='


def duration(ns):
    """'376.31 ms', '1 min 23 s'."""
    seconds = ns // 10 ** 9
    if seconds >= 3600:
        return '%d h %02d min' % divmod(seconds // 60, 60)
    if seconds >= 60:
        return '%d min %02d s' % divmod(seconds, 60)
    if ns < 1000:
        return '%d ns' % ns
    for power, unit in enumerate(('us', 'ms', 's'), 1):
        value = ns / 1000 ** power
        if round(value, 2) < 1000 or unit == 's':
            return '%.2f %s' % (value, unit)
    raise AssertionError('seconds take all')


def when(unix_ns):
    try:
        moment = time.gmtime(unix_ns // 10 ** 9)
    except (OverflowError, ValueError, OSError):
        return 'an unknown time'
    return time.strftime('%Y-%m-%d %H:%M:%S UTC', moment)


def percent(part, whole):
    return 100.0 * part / whole if whole else 0.0


def plural(number, one, many=None):
    return '%s %s' % (count(number), one if number == 1
                      else many or one + 's')


# A figure and its unit stay on one line.
UNIT = re.compile(r'(?<=\d) (?=(?:[KMGTPE]iB|B|[num]?s|min|h|%)(?!\w))')


def fill(text, indent='', first=None):
    return textwrap.fill(UNIT.sub('\xa0', clean(text)), WIDTH,
                         initial_indent=indent if first is None else first,
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False).replace('\xa0', ' ')


def shorten(text, width):
    """Its end is what tells names and paths apart."""
    return text if len(text) <= width else '...' + text[3 - width:]


def heading(text):
    return '\n%s\n%s' % (text, '-' * len(text))


def columns(rows, head=None):
    """Lines of a table: the first column to the left, the others to the right,
    no wider than need be. The first column gives way to the width."""
    rows = [[clean(str(cell)) for cell in row] for row in rows]
    everything = ([head] if head else []) + rows
    if not everything:
        return []
    widths = [max(len(row[i]) for row in everything)
              for i in range(len(everything[0]))]
    widths[0] = max(8, min(widths[0], WIDTH - sum(widths[1:])
                           - 2 * (len(widths) - 1)))
    lines = []
    for row in everything:
        cells = [shorten(row[0], widths[0]).ljust(widths[0])]
        cells += [cell.rjust(width)
                  for cell, width in zip(row[1:], widths[1:])]
        lines.append('  '.join(cells).rstrip())
    return lines
