"""What `gpupool doctor` found, one thing each."""
import sys
import textwrap

import gpupool_text

OK, NOTE, TODO = 'ok', 'note', 'todo'
COLOUR = {OK: '32', NOTE: '33', TODO: '31;1'}
MARGIN = 20


class Finding:
    """check: what was looked at; text: how it is; advice: what to do, or ''.
    A NOTE may matter; a TODO keeps something from working."""

    def __init__(self, check, status, text, advice=''):
        self.check = check
        self.status = status
        self.text = text
        self.advice = advice

    def flat(self):
        return {'check': self.check, 'status': self.status,
                'text': self.text, 'advice': self.advice}

    def lines(self, width, colour):
        mark = self.status.upper() if self.status == TODO else self.status
        head = '%-5s %-13s ' % (mark, self.check)
        lines = wrapped(gpupool_text.clean(self.text), width)
        if self.advice:
            lines += wrapped('-> ' + gpupool_text.clean(self.advice), width,
                             '   ')
        lines = [head + lines[0]] + [' ' * MARGIN + line
                                     for line in lines[1:]]
        if colour:
            lines[0] = '\033[%sm%s\033[0m%s' % (
                COLOUR[self.status], lines[0][:5], lines[0][5:])
        return lines


def wrapped(text, width, indent=''):
    return textwrap.wrap(text, max(20, width - MARGIN),
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False) or ['']


def verdict(findings):
    todo = sum(finding.status == TODO for finding in findings)
    if not todo:
        return 'All is well.'
    return '%d thing%s to do.' % (todo, '' if todo == 1 else 's')


def show(findings):
    """Each as soon as it is known. The list of them."""
    colour = gpupool_text.has_colour()
    width = min(gpupool_text.page_width(), 120)
    shown = []
    for finding in findings:
        shown.append(finding)
        for line in finding.lines(width, colour):
            sys.stdout.buffer.write(line.encode('utf-8', 'replace') + b'\n')
        sys.stdout.flush()
    print('\n' + verdict(shown))
    return shown
