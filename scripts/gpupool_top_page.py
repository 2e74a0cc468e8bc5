"""What `gpupool top` shows, as lines of styled text for any width: in less than
80 columns, what matters less is left out, and nothing is cut in its middle."""
import textwrap
import time
import unicodedata

import gpupool_text
from gpupool_text import rate, short

BOLD, DIM, REVERSE, YELLOW, RED = '1', '2', '7', '33', '31'

SORTS = {  # name: (key to press, value, highest first)
    'allocated': ('a', lambda row: row.allocated, True),
    'reserved': ('r', lambda row: row.reserved, True),
    'cached': ('c', lambda row: row.cached, True),
    'limit': ('l', lambda row: -1 if row.cap is None else row.cap, True),
    'fragmentation': ('f', lambda row: row.fragmentation, True),
    'rate': ('s', lambda row: row.rate or 0, True),
    'growth': ('w', lambda row: row.growth or 0, True),
    'pid': ('p', lambda row: row.pid, False),
    'name': ('n', lambda row: row.name, False),
}

HELP = """\
gpupool top: what your processes under gpupool hold of the cards

  ALLOC    pool memory that the program holds
  RESERV   device memory that the pool holds for it
  CACHED   of that, what is free for its next request; trim gives it back
  LIMIT    the most that the process may take of the card
  FRAG     share of the cached memory that is not in its largest free range
  CALL/S   allocations a second
  GROWTH   of ALLOC, over the last minute
  TREND    ALLOC at the last looks

  a r c l f s w p n   sort by ALLOC, RESERV, CACHED, LIMIT, FRAG, CALL/S,
                      GROWTH, PID, COMMAND
  R  the other way round      h  this page      q  leave

  gpupool ctl PID trim          empties a process's cache
  gpupool ctl PID limit 8GiB    holds it to a limit
"""


def width_of(text):
    return sum(2 if unicodedata.east_asian_width(c) in 'WF' else 1
               for c in text)


def fit(text, width, right=False):
    """Exactly `width` columns; what is too long is cut."""
    text = gpupool_text.clean(text)
    while width_of(text) > width:
        text = text[:-1]
    room = ' ' * (width - width_of(text))
    return room + text if right else text + room


class Line:
    """Pieces of text with a style each."""

    def __init__(self, *pieces):
        self.pieces = [piece if isinstance(piece, tuple) else (piece, '')
                       for piece in pieces]

    def text(self, width, colour=False, ascii_only=False):
        out, left = '', width
        for text, style in self.pieces:
            if ascii_only:
                text = text.encode('ascii', 'replace').decode()
            while width_of(text) > left:
                text = text[:-1]
            left -= width_of(text)
            out += ('\033[%sm%s\033[0m' % (style, text)
                    if colour and style and text else text)
        return out if colour else out.rstrip()


def wrapped(text, width, style='', indent=0):
    return [Line((line, style)) for line in textwrap.wrap(
        text, max(1, width), subsequent_indent=' ' * indent,
        break_on_hyphens=False)]


def counted(number, word, plural=None):
    return '%d %s' % (number, word if number == 1 else plural or word + 's')


# ---- cards -------------------------------------------------------------------

class Card:
    """A card with what is known of it, from both sides."""

    def __init__(self, index, name, total):
        self.index = index
        self.name = name
        self.total = total
        self.used = None  # by everybody
        self.allocated = self.cached = self.held = 0
        self.processes = 0

    def add(self, row):
        self.allocated += row.allocated
        self.cached += row.cached
        self.held += row.held()
        self.processes += 1
        if row.free is not None and self.used is None:
            self.used = row.total - row.free


def cards_of(rows, asked):
    """Cards in nvidia-smi's order, then what only ledgers know: slices, and
    all where there is no nvidia-smi."""
    cards = {}
    for found in asked:
        card = cards[found.uuid] = Card(found.index, found.name, found.total)
        card.used = found.used
    for row in rows:
        if row.uuid not in cards:
            cards[row.uuid] = Card(row.device, row.device_name, row.total)
        cards[row.uuid].add(row)
    return list(cards.values())


def card_line(card, width, ascii_only):
    signs = '#=-' if ascii_only else '█▒░'
    used = max(card.used or 0, card.held)
    others = max(0, used - card.held)
    facts = ['%s/%s used' % (short(used), short(card.total))]
    if card.processes:
        facts.append('%s cached' % short(card.cached))
        if others > card.total / 100:
            facts.append('%s others' % short(others))
    else:
        facts.append('none by gpupool')
    name = 28 if width >= 110 else 16
    room = max(6, min(60, width - name - 54))
    if width < 80:
        while len(facts) > 1 and 6 + len('  '.join(facts)) > width:
            facts.pop()
        left = width - 6 - len('  '.join(facts))
        room = 6 if left >= 8 else 0
        name = min(16, left - 10) if left >= 18 else 0
    total = max(card.total, 1)
    drawn = gpupool_text.bar(
        [((card.held - card.cached) / total, signs[0]),
         (card.cached / total, signs[1]), (others / total, signs[2])],
        room, ascii_only)
    return Line((fit('GPU %s' % card.index, 6), BOLD),
                fit(card.name, name) + '  ' if name else '',
                drawn + '  ' if room else '', '  '.join(facts))


# ---- processes ---------------------------------------------------------------

NAME = 7  # columns that COMMAND has in any case
FIRST_TO_GO = 'TREND', 'CALL/S', 'FRAG', 'GROWTH', 'LIMIT', 'GPU', 'CACHED'


def columns(width):
    """[(title, width, right-aligned)]; COMMAND takes the rest."""
    some = [('PID', 7), ('GPU', 3), ('ALLOC', 6), ('RESERV', 6),
            ('CACHED', 6), ('LIMIT', 6), ('FRAG', 4), ('CALL/S', 6),
            ('GROWTH', 8)]
    if width >= 110:
        some[3:3] = [('PEAK', 6)]
        some[6:6] = [('OUTSIDE', 7)]
    some.append(('TREND', max(8, min(40, width - 100))))
    for gone in FIRST_TO_GO:
        if sum(size + 1 for _, size in some) + NAME > width:
            some = [(title, size) for title, size in some if title != gone]
    return [(title, size, title != 'TREND') for title, size in some]


def cell(title, row, size, ascii_only):
    if title == 'TREND':
        return gpupool_text.sparkline(row.trend, size, ascii_only,
                                      max(row.peak, 1)), ''
    if title == 'FRAG':
        return ('%.0f%%' % (100 * row.fragmentation),
                YELLOW if row.fragmentation > 0.5 else '')
    if title == 'LIMIT':
        near = row.cap is not None and row.held() > 0.95 * row.cap
        return short(row.cap), RED if near else ''
    if title == 'GROWTH':
        if row.growth is None:
            return '-', ''
        sign = '+' if row.growth > 0 else ''
        return ('0' if abs(row.growth) < 1 else '%s%s/s' % (
            sign, short(row.growth))), ''
    return {
        'PID': str(row.pid), 'GPU': str(row.device),
        'ALLOC': short(row.allocated), 'PEAK': short(row.peak),
        'RESERV': short(row.reserved), 'CACHED': short(row.cached),
        'OUTSIDE': short(row.outside), 'CALL/S': rate(row.rate),
    }[title], ''


def row_line(row, width, ascii_only):
    pieces = []
    for title, size, right in columns(width):
        text, style = cell(title, row, size, ascii_only)
        pieces.append((fit(text, size, right), style))
        pieces.append(' ')
    name = row.command if width >= 140 else row.name
    if not row.responds:
        pieces = [(text, DIM) for text, _ in
                  (piece if isinstance(piece, tuple) else (piece, '')
                   for piece in pieces)]
        name = 'stopped: ' + name
    return Line(*pieces, gpupool_text.clean(name))


def sort(rows, by, backwards=False):
    _, value, highest = SORTS[by]
    rows = sorted(rows, key=lambda row: (row.pid, row.device))
    return sorted(rows, key=value, reverse=highest != backwards)


def titles(width, by):
    text = ''.join(fit(title, size, right) + ' '
                   for title, size, right in columns(width))
    return Line((fit(text + 'COMMAND', width), REVERSE))


def page(rows, asked, problems, width, by='allocated', backwards=False,
         ascii_only=False, height=None, now=None):
    """Lines, at most `height` of them."""
    cards = cards_of(rows, asked)
    pids = len({row.pid for row in rows})
    order = 'sorted by %s%s' % (by, ', backwards' if backwards else '')
    head = '%s, %s' % (counted(pids, 'process', 'processes'),
                       counted(len(cards), 'card'))
    for more in (time.strftime('%H:%M:%S', time.localtime(now)),
                 'gpupool top'):
        if len(more) + len(head) + len(order) + 4 <= width:
            head = '%s  %s' % (more, head)
    lines = [Line((head, BOLD), ' ' * max(2, width - len(head) - len(order)),
                  order)]
    lines += [card_line(card, width, ascii_only) for card in cards]
    lines.append(Line(''))
    tail = []
    if not rows:
        tail += wrapped('No process of yours uses a card under gpupool. '
                        'Start one: gpupool run -- PROGRAM', width)
    if problems:
        more = (' (and %d more)' % (len(problems) - 1)
                if len(problems) > 1 else '')
        tail += wrapped('Not read%s: %s' % (more, problems[0]), width, YELLOW)
    if rows:
        lines.append(titles(width, by))
    rows = sort(rows, by, backwards)
    room = len(rows)
    if height:
        room = max(1, height - len(lines) - len(tail))
        if room < len(rows):
            room = max(1, room - 1)
            tail.insert(0, Line(('%d more; a taller window shows them'
                                 % (len(rows) - room), DIM)))
    lines += [row_line(row, width, ascii_only) for row in rows[:room]]
    return (lines + tail)[:height]


def help_page(width):
    return [line for text in HELP.splitlines() for line in
            wrapped(text, width, indent=11) or [Line('')]]
