"""A real terminal for the tests: tmux shows what a person would see.

Golden screens lie in tests/golden/. GPUPOOL_WRITE_GOLDEN=1 writes them anew
from what was seen last; look at the difference before it is kept.
"""
import os
import re
import shutil
import subprocess
import sys
import time

import harness
from verbs import GPUPOOL, VerbTest

GOLDEN = os.path.join(harness.ROOT, 'tests', 'golden')


class ScreenTest(VerbTest):

    def setUp(self):
        super().setUp()
        if not shutil.which('tmux'):
            self.skipTest('no tmux')

    def tmux(self, *args):
        return subprocess.run(
            ['tmux', '-f', '/dev/null', '-S', os.path.join(self.dir, 'tmux')]
            + list(args), env=self.terminal_env(), stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)

    def terminal_env(self):
        env = self.verb_env(TERM='xterm-256color')
        env.pop('TMUX', None)
        return env

    def open(self, columns, lines, *args, env=()):
        """gpupool in a terminal of that size, under a shell."""
        words = ['env'] + list(env) + [sys.executable, GPUPOOL] + list(args)
        done = self.tmux('-u', 'new-session', '-d', '-x', str(columns), '-y',
                         str(lines), 'PS1=\'$ \' exec sh')
        self.assertEqual(done.returncode, 0, done.stderr)
        self.addCleanup(self.tmux, 'kill-server')
        self.tmux('set', '-g', 'status', 'off')
        self.tmux('resize-window', '-x', str(columns), '-y', str(lines))
        self.type("clear; " + ' '.join("'%s'" % word for word in words)
                  + '\n')

    def type(self, text):
        for part in re.split('(\n)', text):
            if part:
                self.tmux('send-keys', *(['Enter'] if part == '\n'
                                         else ['-l', part]))

    def seen(self, styled=False):
        done = self.tmux('capture-pane', '-p', *(['-e'] if styled else []))
        return done.stdout.decode('utf-8', 'replace')

    def until(self, what, seconds=120):
        """Until what(screen); the screen."""
        end = time.monotonic() + seconds
        while True:
            text = self.seen()
            if what(text):
                return text
            self.assertLess(time.monotonic(), end, 'never seen:\n' + text)
            time.sleep(0.05)

    def assert_golden(self, name, normal, seconds=120):
        """The screen, through normal(text), becomes what the file says."""
        path = os.path.join(GOLDEN, name)
        write = os.environ.get('GPUPOOL_WRITE_GOLDEN')
        wanted = ''
        if not write or os.path.exists(path):
            with open(path, encoding='utf-8') as file:
                wanted = file.read()
        end = time.monotonic() + seconds
        while True:
            text = normal(self.seen())
            if text == wanted:
                return
            if time.monotonic() > end:
                break
            time.sleep(0.05)
        if write:
            with open(path, 'w', encoding='utf-8') as file:
                file.write(text)
        else:
            self.assertEqual(text, wanted)
