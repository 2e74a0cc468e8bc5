"""Figures as people read them, and what a terminal can show."""
import os
import re
import sys

UNITS = ('B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB')


def size(count):
    """1536 -> '1.50 KiB', as reports have it."""
    value, unit = float(count), 0
    # The rounded figure decides: 1024.00 KiB is 1.00 MiB.
    while round(abs(value), 2) >= 1024 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    if not unit:
        return '%d B' % count
    return '%.2f %s' % (value, UNITS[unit])


def short(count):
    """At most five characters, and a sign: 1536 -> '1.5K'."""
    if count is None:
        return '-'
    value, unit = abs(float(count)), 0
    while value >= 999.5 and unit < len(UNITS) - 1:
        value, unit = value / 1024, unit + 1
    digits = 0 if not unit or value >= 99.95 else 1
    return '%s%.*f%s' % ('-' if count < 0 else '', digits, value,
                         UNITS[unit][:1] if unit else '')


def rate(per_s):
    """Of events: 1234.5 -> '1.2k'."""
    if per_s is None:
        return '-'
    for limit, divisor, unit in (999.5, 1, ''), (999.5e3, 1e3, 'k'), (
            999.5e6, 1e6, 'M'):
        if per_s < limit:
            value = per_s / divisor
            return '%.*f%s' % (0 if value >= 99.95 or value == int(value)
                               else 1, value, unit)
    return '%.0fG' % (per_s / 1e9)


def share(text):
    """0.5 for '50%'; None if it is no share above 0 and up to 100%."""
    match = re.match(r'(\d+(?:\.\d+)?)%\Z', text)
    value = float(match.group(1)) / 100 if match else 0
    return value if 0 < value <= 1 else None


def clean(text):
    """Nothing in it that could move the cursor or end the line. Names of
    programs come from other processes."""
    return ''.join(c if c.isprintable() else '?' for c in text)


def is_unicode():
    """Whether the person's locale is UTF-8. Python may have changed its own
    environment (PEP 538), so that it began with is asked."""
    env = {}
    try:
        with open('/proc/self/environ', 'rb') as file:
            for item in file.read().split(b'\0'):
                name, _, value = os.fsdecode(item).partition('=')
                env[name] = value
    except OSError:
        env = os.environ
    for name in 'LC_ALL', 'LC_CTYPE', 'LANG':
        if env.get(name):
            return re.search('utf-?8', env[name], re.I) is not None
    return False


def has_colour(stream=None):
    stream = stream or sys.stdout
    return (stream.isatty() and not os.environ.get('NO_COLOR')
            and os.environ.get('TERM', 'dumb') != 'dumb')


def page_width(fd=1):
    """Columns of the terminal; where it is none, COLUMNS or 80."""
    try:
        return os.get_terminal_size(fd).columns or 80
    except OSError:
        given = os.environ.get('COLUMNS', '')
        return int(given) if given.isdigit() and int(given) > 0 else 80


BARS = '▁▂▃▄▅▆▇█', '_.-:=+*#'


def sparkline(values, width, ascii_only=False, top=None):
    """The newest `width` values, lowest bar 0, highest `top` or the highest of
    them."""
    bars = BARS[1 if ascii_only else 0]
    values = list(values)[-width:]
    top = top or max(values, default=0)
    line = ''.join(
        bars[min(len(bars) - 1, int(value * len(bars) / top))] if top
        else bars[0] for value in values)
    return line.rjust(width)


def bar(parts, width, ascii_only=False):
    """Shares of a whole side by side: [(0.25, '█'), ...]; the rest is empty.
    What is not nothing shows."""
    line = ''
    at = 0.0
    for part, sign in parts:
        at += max(0.0, part)
        end = min(width, int(at * width + 0.5))
        if part > 0 and end <= len(line) < width:
            end = len(line) + 1
        line += sign * (end - len(line))
    return line + ('.' if ascii_only else '·') * (width - len(line))
