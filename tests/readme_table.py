#!/usr/bin/env python3
"""The configuration table of the README, which build/gpupool-conf prints.

usage: readme_table.py --write build/gpupool-conf

Replaces what stands between the two markers in README.md.
"""
import os
import subprocess
import sys

README = os.path.join(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__))), 'README.md')
BEGIN = '<!-- conf table begin -->\n'
END = '<!-- conf table end -->\n'


def split(text):
    """What is before the table, the table, what is after it."""
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        raise ValueError('README.md must have each marker once: %r, %r'
                         % (BEGIN, END))
    before, rest = text.split(BEGIN)
    table, after = rest.split(END)
    return before, table.strip('\n') + '\n', after


def generate(conf_doc):
    return subprocess.run([conf_doc, '--markdown'], check=True, stdout=subprocess.PIPE,
                          universal_newlines=True).stdout


def read():
    with open(README, encoding='utf-8') as file:
        return file.read()


def main():
    if len(sys.argv) != 3 or sys.argv[1] != '--write':
        print(__doc__.strip(), file=sys.stderr)
        return 2
    before, _, after = split(read())
    with open(README, 'w', encoding='utf-8') as file:
        file.write(before + BEGIN + '\n' + generate(sys.argv[2]) + '\n' + END
                   + after)
    return 0


if __name__ == '__main__':
    sys.exit(main())
