"""Makes the man page and the shells' completions from the parsers, so that
neither can say something else than --help does.

    python3 scripts/gpupool_docs.py --to DIR [--conf-tool build/gpupool-conf]

writes gpupool.1, gpupool.bash, _gpupool (zsh) and gpupool.fish.
"""
import argparse
import json
import os
import re
import subprocess
import sys

import gpupool_cli
import gpupool_completion


class Option:
    """An option or an argument: names is empty for the latter."""

    def __init__(self, parser, action):
        self.names = action.option_strings
        self.metavar = action.metavar or ''
        self.takes_value = action.nargs != 0
        self.choices = list(action.choices or ())
        self.help = (parser._get_formatter()._expand_help(action)
                     if action.help else '')
        self.is_rest = action.nargs == argparse.REMAINDER


class Verb:

    def __init__(self, name, does, parser):
        self.name = name
        self.does = does
        self.usage = ' '.join(
            parser.format_usage().partition(': ')[2].split())
        self.description = parser.description or ''
        self.epilog = parser.epilog or ''
        actions = [Option(parser, action) for action in parser._actions
                   if action.help != argparse.SUPPRESS]
        self.options = [option for option in actions if option.names]
        self.arguments = [option for option in actions if not option.names]


def verbs():
    return [Verb(name, does, gpupool_cli.module_of(name).build_parser())
            for name, _, does in gpupool_cli.VERBS]


# ---- the man page ------------------------------------------------------------

def roff(text):
    """Escaped for a line of text."""
    text = text.replace('\\', r'\e').replace('-', r'\-')
    return re.sub(r"(?m)^([.'])", r'\\&\1', text)


def blocks(text):
    """Paragraphs as (is it laid out by hand?, lines)."""
    for part in re.split(r'\n\s*\n', text.strip('\n')):
        lines = part.split('\n')
        # An indented table may follow its sentence at once.
        for begin in range(len(lines) + 1):
            if begin == len(lines) or lines[begin].startswith('  '):
                break
        if begin:
            yield False, lines[:begin]
        if begin < len(lines):
            yield True, lines[begin:]


def prose(text):
    out = []
    for literal, lines in blocks(text):
        if literal:
            out += ['.PP', '.nf', '.RS 2'] + [
                roff(line[2:]) or r'\&' for line in lines] + ['.RE', '.fi']
        else:
            out += ['.PP'] + [roff(line) for line in lines]
    return out


def tagged(option):
    if option.names:
        names = ', '.join(r'\fB%s\fR' % roff(name) for name in option.names)
        if option.takes_value:
            names += r' \fI%s\fR' % roff(option.metavar
                                         or '|'.join(option.choices))
    else:
        names = r'\fI%s\fR' % roff(option.metavar)
    return ['.TP', names, roff(option.help)]


def man(version):
    out = [r'.\" Made by gpupool_docs.py from the help of the commands.',
           '.TH GPUPOOL 1 "" "gpupool %s" "User Commands"' % version,
           '.SH NAME',
           r'gpupool \- a caching memory pool for CUDA programs nobody '
           'changed', '.SH SYNOPSIS']
    found = verbs()
    out += ['.nf'] + [roff(verb.usage) for verb in found]
    out += ['.fi', '.SH DESCRIPTION']
    out += prose(gpupool_cli.DESCRIPTION) + ['.SH COMMANDS']
    for verb in found:
        out += ['.SS gpupool ' + verb.name, roff(verb.does[:1].upper()
                                                 + verb.does[1:]) + '.']
        out += prose(verb.description)
        for option in verb.arguments + verb.options:
            if option.names[:1] != ['-h']:
                out += tagged(option)
        out += prose(verb.epilog)
    out += ['.SH ENVIRONMENT', '.TP', r'\fBGPUPOOL_CONF\fR',
            'Settings, as ' + roff('key:value,key:value') + ' or '
            + roff('@FILE') + r'; \fBgpupool options\fR lists them.',
            '.TP', r'\fBXDG_RUNTIME_DIR\fR',
            'Where the runtime directory is made.',
            '.SH FILES', '.TP',
            r'\fI$XDG_RUNTIME_DIR/gpupool\fR, else '
            r'\fI/tmp/gpupool\-UID\fR',
            'The runtime directory: a file of each process of yours that '
            'uses a card, living or ended.']
    return '\n'.join(out) + '\n'


# ---- writing -----------------------------------------------------------------

def option_keys(tool):
    """The keys of GPUPOOL_CONF, and the version; nothing without the tool."""
    if not tool:
        return [], ''
    env = {k: v for k, v in os.environ.items() if k != 'GPUPOOL_CONF'}
    done = subprocess.run([tool, '--json'], stdout=subprocess.PIPE,
                          check=True, env=env)
    settings = json.loads(done.stdout.decode())
    return [option['key'] for option in settings['options']], settings[
        'version']


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument('--to', metavar='DIR', required=True)
    parser.add_argument('--conf-tool', metavar='FILE')
    options = parser.parse_args()
    os.environ['COLUMNS'] = '80'
    keys, version = option_keys(options.conf_tool)
    found = verbs()
    os.makedirs(options.to, exist_ok=True)
    for name, text in (
            ('gpupool.1', man(version)),
            ('gpupool.bash', gpupool_completion.bash(found, keys)),
            ('_gpupool', gpupool_completion.zsh(found, keys)),
            ('gpupool.fish', gpupool_completion.fish(found, keys))):
        with open(os.path.join(options.to, name), 'w',
                  encoding='utf-8') as file:
            file.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
