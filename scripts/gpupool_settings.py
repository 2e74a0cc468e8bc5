"""The settings, as the library reads them: gpupool-conf, which was built from
the same table and parser, is asked.
"""
import difflib
import json
import os
import re
import subprocess
import sys
import textwrap

from gpupool_paths import Parser, Problem, find_library

WIDTH = 79


def find_tool(library):
    """gpupool-conf, which belongs to `library`: beside it in a build, in
    PREFIX/lib/gpupool when installed; None if somebody moved the library."""
    place = os.path.dirname(library)
    for path in (os.path.join(place, 'gpupool-conf'),
                 os.path.join(place, 'gpupool', 'gpupool-conf')):
        if os.path.isfile(path):
            return path
    return None


def read(library, text):
    """What GPUPOOL_CONF=text means, as a dict (see gpupool-conf); None if
    there is nobody to ask."""
    tool = find_tool(library)
    if tool is None:
        return None
    env = dict(os.environ)
    env.pop('GPUPOOL_CONF', None)
    if text:
        env['GPUPOOL_CONF'] = text
    try:
        done = subprocess.run([tool, '--json'], env=env, check=True,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Problem('%s cannot be run: %s' % (tool, error))
    return json.loads(done.stdout.decode('utf-8', 'replace'))


def check(library, text):
    """What the settings mean, as read(). Raises Problem if a limit is lost:
    nobody shall run without it by accident."""
    if not text:
        return None
    settings = read(library, text)
    if settings is not None and settings['limit_is_bad']:
        raise Problem(
            '%s\nThe program was not started, so that it does not run without '
            'its limit: mend this, or add --conf on_bad_limit:continue to '
            'run all the same.' % settings['limit_message'])
    return settings


def is_off(settings):
    """Whether the settings may leave the program alone."""
    return settings is not None and any(
        option['key'] in ('enabled', 'only') and not option['is_default']
        for option in settings['options'])


def quoted(path):
    """A path as it stands in GPUPOOL_CONF."""
    if any(c in path for c in ' ,:[]"\\\t\n#'):
        return '"%s"' % path.replace('\\', r'\\').replace('"', r'\"')
    return path


def absolute(text):
    """`text` with the file that it begins with, @file, named from the root: a
    program may change its directory, and so do scripts around it."""
    text = text.strip(' ,')
    found = re.match(r'@(?:"((?:[^"\\]|\\.)+)"|([^\s,"]+))(?=\s*(?:,|$))', text)
    if not found:
        return text
    name = found.group(2) or re.sub(r'\\(.)', r'\1', found.group(1))
    return '@' + quoted(os.path.abspath(name)) + text[found.end():]


def wrapped(text, indent):
    return textwrap.fill(text.replace('`', "'"), WIDTH, initial_indent=indent,
                         subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)


def show(option, bold):
    head = '%-29s %s' % (option['key'], option['default'])
    if not option['is_default']:
        now = '%s, now %s' % (head, option['value'])
        head = (now if len(now) <= WIDTH
                else head + '\n' + wrapped('now ' + option['value'], '    '))
    if bold:
        head = head.replace(option['key'], '\033[1m%s\033[0m' % option['key'],
                            1)
    print(head)
    print(wrapped(option['help'], '    '))
    print(wrapped('Accepted: %s.' % option['accepted'], '    '))


def show_without_effect(options):
    print('Accepted without effect, because PyTorch\'s allocator knows them:')
    for option in options:
        print(wrapped('%s: %s' % (option['key'], option['why']), '    '))


def select(settings, key):
    """Keep what `key` names: that option, else all that begin with it, else
    all that have it in them."""
    groups = ('options', 'without_effect')
    known = [o['key'] for group in groups for o in settings[group]]
    if key in known:
        chosen = [key]
    else:
        chosen = ([k for k in known if k.startswith(key)]
                  or [k for k in known if key in k])
    if not chosen:
        near = difflib.get_close_matches(key, known, 1, 0.4)
        raise Problem('no option %s; %s' % (
            key, 'the nearest is %s' % near[0] if near
            else '`gpupool options` lists them'), 2)
    for group in groups:
        settings[group] = [o for o in settings[group] if o['key'] in chosen]


def table(library):
    settings = read(library, os.environ.get('GPUPOOL_CONF', ''))
    if settings is None:
        raise Problem('no gpupool-conf beside %s; run make in the checkout, '
                      'or make install' % library)
    return settings


def build_parser():
    parser = Parser(
        prog='gpupool options', usage='gpupool options [KEY] [--json] [--lib FILE]',
        description='Print every setting with its default and what it '
                    'accepts, and its value where GPUPOOL_CONF sets it.')
    parser.add_argument('key', nargs='?', metavar='KEY',
                        help='this one only, or those that begin so, or have '
                             'it in them')
    parser.add_argument('--json', action='store_true',
                        help='the same for scripts')
    parser.add_argument('--lib', metavar='FILE',
                        help='of this libgpupool.so instead of the one found')
    return parser


def main(argv):
    arguments = build_parser().parse_args(argv)
    settings = table(find_library(arguments.lib))
    if arguments.key:
        select(settings, arguments.key)
    if arguments.json:
        print(json.dumps(settings, indent=2))
        return 0
    for message in settings['messages']:
        print(textwrap.fill('gpupool: GPUPOOL_CONF: ' + message, WIDTH,
                            subsequent_indent='  ', break_long_words=False,
                            break_on_hyphens=False), file=sys.stderr)
    if not arguments.key:
        print('GPUPOOL_CONF=key:value,key:value,... or @FILE\n')
        print('%-29s %s' % ('key', 'default'))
    for option in settings['options']:
        show(option, sys.stdout.isatty())
    if settings['without_effect']:
        if settings['options']:
            print()
        show_without_effect(settings['without_effect'])
    return 0


def version(library):
    settings = read(library, '')
    return 'gpupool %s (%s)' % (
        settings['version'] if settings else 'of unknown version', library)
