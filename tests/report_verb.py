"""What the tests of `gpupool report` share."""
import os

import harness
from verbs import MIB, VerbTest

GOLDEN = os.path.join(harness.ROOT, 'tests', 'golden')


def golden(name):
    return os.path.join(GOLDEN, 'report-%s.json' % name)


class ReportVerb(VerbTest):

    def report(self, *args, status=0, **kwargs):
        result = self.gpupool('report', *map(str, args), **kwargs)
        self.assert_ok(result, status)
        return (result.err if status else result.out).decode()

    def refused(self, *args, status=125, **kwargs):
        """The complaint: a few lines that name the thing."""
        text = self.report(*args, status=status, **kwargs)
        self.assertTrue(text.startswith('gpupool: '), text)
        self.assertNotIn('Traceback', text)
        self.assertLessEqual(text.count('\n'), 4, text)
        for line in text.splitlines():
            self.assertLess(len(line), 80 + len(self.dir))
        return text.replace('\n  ', ' ')

    def killed(self, *steps, conf=''):
        """A program that did these steps and was killed then."""
        proc = self.script(conf)
        for step in steps:
            self.step(proc, step)
        self.kill(proc)
        return proc

    def leftover(self):
        """What such a program left: its pid, and the path of its file."""
        proc = self.killed('alloc=%d' % (10 * MIB), 'alloc=5000',
                           'alloc=%d' % (40 * MIB), 'free=0', 'alloc=700')
        path, = self.paths()
        return proc.pid, path
