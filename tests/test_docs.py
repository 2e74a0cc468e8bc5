"""The man page and the shells' completions: made from the parsers, parsed by
those who read them, and complete."""
import os
import re
import shutil
import subprocess
import sys
import unittest

import harness
from screen import ScreenTest
from verbs import VerbTest

sys.path.insert(0, os.path.join(harness.ROOT, 'scripts'))
import gpupool_cli  # noqa: E402  (found through the line above)

VERBS = [verb for verb, _, _ in gpupool_cli.VERBS]


class DocsTest(VerbTest):

    def make(self):
        """The directory that they were written to."""
        place = os.path.join(self.dir, 'docs')
        result = harness.run(
            [sys.executable, os.path.join(harness.ROOT, 'scripts',
                                          'gpupool_docs.py'), '--to', place,
             '--conf-tool', os.path.join(self.build.path, 'gpupool-conf')],
            self.verb_env())
        self.assert_ok(result)
        self.share_dir = place
        return place

    def path(self, name):
        return os.path.join(self.share_dir, name)

    def need(self, tool):
        if not shutil.which(tool):
            self.skipTest('no ' + tool)


class Help(VerbTest):

    def test_each_verb(self):
        for verb in VERBS:
            with self.subTest(verb):
                result = self.gpupool(verb, '--help',
                                      env=self.verb_env(COLUMNS='80'))
                self.assert_ok(result)
                text = result.out.decode()
                self.assertLessEqual(max(map(len, text.splitlines())), 80)
                self.assertRegex(text, r'^usage: gpupool %s ' % verb)
                self.assertEqual(self.gpupool(
                    'help', verb, env=self.verb_env(COLUMNS='80')).out,
                    result.out)

    def test_main(self):
        text = self.gpupool('--help').out.decode()
        for verb in VERBS:
            self.assertRegex(text, r'(?m)^    %s  ' % verb)
        self.assertEqual(self.gpupool('help').out.decode(), text)

    def test_unknown_option(self):
        """One form for all: not argparse's usage and its own prefix."""
        for verb in VERBS + ['']:
            with self.subTest(verb):
                result = self.gpupool(*filter(None, [verb, '--nope', 'x']))
                self.assert_ok(result, 2)
                text = result.err.decode()
                self.assertTrue(text.startswith('gpupool: '), text)
                self.assertIn('--help` says more', ' '.join(text.split()))
                self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_unknown(self):
        for args in ['help', 'tpo'], ['tpo']:
            result = self.gpupool(*args)
            self.assert_ok(result, 2)
            self.assertIn(b'tpo', result.err)


class Man(DocsTest):

    def setUp(self):
        super().setUp()
        self.make()

    def test_renders(self):
        """Without a warning, in 80 columns, with every verb and option."""
        self.need('groff')
        done = subprocess.run(
            ['groff', '-man', '-ww', '-rLL=80n', '-Tutf8', '-P-cbou',
             self.path('gpupool.1')], stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env=self.verb_env())
        self.assertEqual((done.returncode, done.stderr), (0, b''))
        text = done.stdout.decode()
        self.assertIn('--limit SIZE|N%', text)
        for verb in VERBS:
            self.assertRegex(text, r'(?m)^ +gpupool %s' % verb)
            help_text = self.gpupool(verb, '--help').out.decode()
            for name in re.findall(r'(?<![\w-])(--[a-z][a-z-]+)', help_text):
                if name != '--help':
                    self.assertIn(name, text)

    def test_man_shows_it(self):
        self.need('man')
        done = subprocess.run(
            ['man', '--warnings=all', '-l', self.path('gpupool.1')],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=self.verb_env(MANWIDTH='80', PAGER='cat'))
        if b'No manual entry' in done.stderr:
            self.skipTest('man is a stand-in here')
        self.assertEqual((done.returncode, done.stderr), (0, b''))


class Bash(DocsTest):

    def setUp(self):
        super().setUp()
        self.need('bash')
        self.make()

    def complete(self, *words):
        """What bash would offer for the last word."""
        line = ' '.join("'%s'" % word for word in words)
        result = harness.run(
            ['bash', '--norc', '-c', 'source "$0"; COMP_WORDS=(gpupool %s); '
             'COMP_CWORD=%d; _gpupool; printf "%%s\\n" "${COMPREPLY[@]}"'
             % (line, len(words)), self.path('gpupool.bash')],
            self.verb_env(), cwd=self.dir)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return result.out.decode().split()

    def test_parses(self):
        self.assert_ok(harness.run(['bash', '-n', self.path('gpupool.bash')]))

    def test_verbs_and_options(self):
        self.assertEqual(set(VERBS) - set(self.complete('')), set())
        self.assertEqual(self.complete('met'), ['metrics'])
        self.assertEqual(sorted(self.complete('run', '--li')),
                         ['--lib', '--limit'])
        self.assertEqual(self.complete('top', '--sort', 'fr'),
                         ['fragmentation'])
        self.assertIn('memory_limit', self.complete('options', 'mem'))
        self.assertIn('memory_limit:', self.complete('run', '--conf', 'mem'))
        self.assertEqual(self.complete('help', 'doc'), ['doctor'])

    def test_processes(self):
        proc = self.holder(10)
        self.assertIn(str(proc.pid), self.complete('ctl', ''))
        self.assertIn('all', self.complete('ctl', ''))
        self.assertEqual(self.complete('ctl', str(proc.pid), 'res'),
                         ['reset-peak'])

    def test_the_programs_own_words(self):
        """After the program, or the dashes, it is not ours any more."""
        self.assertIn('true', self.complete('run', 'tru'))
        self.assertIn('true', self.complete('run', '--sim', '--', 'tru'))
        self.assertIn('true', self.complete('run', '--conf', 'a:b', 'tru'))
        open(os.path.join(self.dir, 'some-file'), 'w').close()
        self.assertEqual(self.complete('run', 'cat', 'some'), ['some-file'])
        self.assertEqual(self.complete('run', '--', 'cat', '--li'), [])


class Fish(DocsTest):

    def setUp(self):
        super().setUp()
        self.need('fish')
        self.make()

    def complete(self, line):
        result = harness.run(
            ['fish', '--no-config', '-c', 'source $argv[1]; '
             'complete -C $argv[2]', self.path('gpupool.fish'), line],
            self.verb_env(HOME=self.dir), cwd=self.dir)
        self.assert_ok(result)
        self.assertEqual(result.err, b'')
        return [found.split('\t')[0]
                for found in result.out.decode().splitlines()]

    def test_it(self):
        self.assert_ok(harness.run(['fish', '--no-config', '-n',
                                    self.path('gpupool.fish')],
                                   self.verb_env(HOME=self.dir)))
        self.assertEqual(set(VERBS) - set(self.complete('gpupool ')), set())
        self.assertIn('--limit', self.complete('gpupool run --l'))
        self.assertIn('fragmentation',
                      self.complete('gpupool top --sort '))
        self.assertEqual(self.complete('gpupool options memory_l'),
                         ['memory_limit'])
        proc = self.holder(10)
        self.assertIn(str(proc.pid), self.complete('gpupool ctl '))
        self.assertIn('trim', self.complete('gpupool ctl 1 '))


class Zsh(ScreenTest, DocsTest):

    def setUp(self):
        super().setUp()
        self.need('zsh')
        self.make()

    def test_parses(self):
        self.assert_ok(harness.run(['zsh', '-f', '-n',
                                    self.path('_gpupool')]))

    def test_it(self):
        """At a real prompt."""
        self.open(80, 24, 'help')
        self.until(lambda text: '--version' in text)
        self.type("PS1='zsh-1 ' exec zsh -f\n")
        self.until(lambda text: re.search('(?m)^zsh-1 ?$', text))
        self.type("gpupool() { }; fpath=(%s $fpath); autoload -Uz compinit; "
                  "compinit -D -u; clear; PS1='zsh-2 '\n" % self.share_dir)
        self.until(lambda text: re.match('zsh-2 ?\n', text))
        for typed, shown in (('gpupool doc', 'gpupool doctor'),
                             ('gpupool run --lim', 'gpupool run --limit'),
                             ('gpupool top --sort frag',
                              'gpupool top --sort fragmentation'),
                             ('gpupool options memory_l',
                              'gpupool options memory_limit'),
                             ('gpupool ctl 1 res',
                              'gpupool ctl 1 reset-peak')):
            self.type(typed)
            self.tmux('send-keys', 'Tab')
            self.until(lambda text: shown in text)
            self.tmux('send-keys', 'C-u')


if __name__ == '__main__':
    unittest.main()
