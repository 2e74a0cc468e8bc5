"""No thread can be made for gpupool, at first or ever: the program runs on, is
told of it once, and it is tried again."""
import os
import unittest

import harness
from harness import written
from test_ipc import IpcTest

MIB = 1 << 20

# The calls of gpupool with a number in FAIL ("1,2", or "all") fail, as where a
# user has too many threads.
SOURCE = r'''
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int calls;

int pthread_create(pthread_t *thread, const pthread_attr_t *attr,
		   void *(*body)(void *), void *arg)
{
	int (*next)(pthread_t *, const pthread_attr_t *, void *(*)(void *),
		    void *);
	const char *fail = getenv("FAIL");
	char number[16];
	Dl_info from;

	*(void **)&next = dlsym(RTLD_NEXT, "pthread_create");
	if (dladdr(__builtin_return_address(0), &from) &&
	    strstr(from.dli_fname, "libgpupool")) {
		snprintf(number, sizeof(number), ",%d,",
			 __atomic_add_fetch(&calls, 1, __ATOMIC_RELAXED));
		if (!strcmp(fail, "all") || strstr(fail, number))
			return EAGAIN;
	}
	return next(thread, attr, body, arg);
}
'''

REPORTS = ('gpupool: no thread for reports: until there is one, none on the '
           'signal (Resource temporarily unavailable)')
KEEPER = ('gpupool: no thread for housekeeping: until there is one, freed '
          'memory is kept, and other processes get no answer (Resource '
          'temporarily unavailable)')
SHARING = ('gpupool: no thread for sharing memory: until there is one, none can '
           'be shared with other processes (Resource temporarily '
           'unavailable)\n')
MAP_FAILED = '205'
WORKS = ('raise=USR1', *written('usr1-1'), 'ticks=2')


def refusing(test, fail):
    """An environment in which these calls of gpupool fail."""
    if test.build.san:
        test.skipTest('the library made here is not sanitized')
    refuses = test.compile('librefuses.so', SOURCE, '-shared', '-fPIC', '-ldl')
    return {'FAIL': fail,
            'LD_PRELOAD': refuses + ' ' + test.build.preload()}


class NoThreads(harness.CudaTest):

    def script(self, fail, *steps):
        """Its stderr, line by line."""
        result = self.run_program(
            ('drv_script',) + steps, sim='memory:1GiB', conf='quiet:True',
            env=refusing(self, fail))
        self.assert_ok(result)
        self.assertEqual(len([n for n in self.reports() if '.exit.' in n]), 2)
        for name in self.reports():
            os.unlink(os.path.join(self.dir, name))
        return result.err.decode().splitlines()

    def test_none_at_first(self):
        """The first time is the last, as memory is taken at once."""
        self.assertEqual(self.script(',1,2,', 'alloc=4096', *WORKS),
                         [REPORTS, KEEPER])

    def test_none_for_a_while(self):
        self.assertEqual(
            self.script(',1,2,3,4,', 'alloc=4096', 'sleep=300',
                        'alloc=%d' % (64 * MIB), *WORKS), [REPORTS, KEEPER])

    def test_asked_before_there_is_one(self):
        """The signal does not end the program, and is answered later."""
        self.assertEqual(
            self.script(',1,2,3,4,', 'alloc=4096', 'raise=USR1', 'sleep=300',
                        'alloc=%d' % (64 * MIB), *written('usr1-1')),
            [REPORTS, KEEPER])

    def test_one_helps_the_other(self):
        """Without anything that the program does."""
        for fail, told in (',1,3,', REPORTS), (',2,3,', KEEPER):
            with self.subTest(fail):
                if fail == ',1,3,':
                    steps = ('ticks=3',) + WORKS
                else:
                    steps = WORKS
                self.assertEqual(self.script(fail, 'alloc=4096', *steps),
                                 [told])

    def test_never(self):
        """It is told once."""
        self.assertEqual(
            self.script('all', 'alloc=4096', 'raise=USR1', 'sleep=300',
                        'alloc=%d' % (64 * MIB), 'free=0', 'sleep=300',
                        'alloc=%d' % (99 * MIB)), [REPORTS, KEEPER])


class NoThreadToShare(IpcTest):

    def test_later(self):
        """The third and fourth threads, after those for reports and
        housekeeping, would serve who opens a handle."""
        owner = self.program(env=refusing(self, ',3,4,'))
        block = self.alloc(owner, MIB)
        self.fill(owner, block, 5)
        for _ in range(2):
            self.assertEqual(self.ask(owner, 'handle=%d,0' % block).strip(),
                             MAP_FAILED)
        handle, other = self.handle(owner, block), self.program()
        self.check(other, self.open(other, handle, MIB), 5)
        self.end(other)
        self.end(owner, SHARING)


if __name__ == '__main__':
    unittest.main()
