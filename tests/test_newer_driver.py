"""A driver that is newer than gpupool: what it hands out that the table lacks
is named in the report."""
import json
import os
import unittest

import harness
import noop_driver
from work_rows import CC, read

ASK = '''
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
typedef int get(const char *, void **, int, unsigned long long, int *);
typedef int alloc(unsigned long long *, size_t);

/* ask HOW NAME...: look each up by dlsym or by cuGetProcAddress_v2 */
int main(int argc, char **argv)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *found;
    get *ask = (get *)dlsym(driver, "cuGetProcAddress_v2");
    unsigned long long address = 0;
    int status, i;

    for (i = 2; i < argc; i++) {
        found = NULL;
        dlerror();
        if (strcmp(argv[1], "dlsym"))
            ask(argv[i], &found, 13000, 0, &status);
        else
            found = dlsym(driver, argv[i]);
        printf("%s %d %d\\n", argv[i], found != NULL, dlerror() != NULL);
    }
    ((alloc *)dlsym(driver, "cuMemAlloc_v2"))(&address, 100);
    return 0;
}
'''


class NewerDriver(harness.CudaTest):

    NEW = ['cuWorkOfTomorrow', 'cuLaunchKernel_v9'] + [
        'cuTomorrow%d' % i for i in range(9)]

    def notes(self, how, *names):
        """What the report says after these lookups, and what they gave."""
        for old in self.reports():
            os.unlink(os.path.join(self.dir, old))
        result = self.run_program([self.ask, how] + list(names),
                                  env={'LD_LIBRARY_PATH': self.dir})
        self.assert_ok(result)
        path = [n for n in self.reports() if n.endswith('.json')]
        self.assertEqual(len(path), 1, str(result))
        notes = json.loads(read(self.dir, path[0]))['notes']
        return notes, result.out.decode().splitlines()

    def setUp(self):
        super().setUp()
        noop_driver.build(self.dir, self.NEW, CC)
        self.ask = self.compile('ask', ASK, '-ldl')

    def test_what_the_table_lacks_is_named(self):
        for how in 'dlsym', 'cuGetProcAddress':
            notes, found = self.notes(
                how, 'cuWorkOfTomorrow', 'cuLaunchKernel',
                'cuLaunchKernel_v9', 'cuWorkOfTomorrow', 'cuNoSuch')
            self.assertEqual(len(notes), 1, how)
            self.assertTrue(notes[0].startswith('driver entry points newer'))
            self.assertTrue(
                notes[0].endswith(': cuWorkOfTomorrow, cuLaunchKernel_v9'),
                notes)
            error = int(how == 'dlsym')
            self.assertEqual(found, [
                'cuWorkOfTomorrow 1 0', 'cuLaunchKernel 1 0',
                'cuLaunchKernel_v9 1 0', 'cuWorkOfTomorrow 1 0',
                'cuNoSuch 0 %d' % error])

    def test_not_more_than_fit(self):
        notes, _ = self.notes('dlsym', *self.NEW)
        self.assertTrue(notes[0].endswith(', '.join(self.NEW[:8])), notes)

    def test_what_the_header_has_is_no_news(self):
        names = noop_driver.names()
        self.assertGreater(len(names), 600)
        for how in 'dlsym', 'cuGetProcAddress':
            self.assertEqual(self.notes(how, *names)[0], [], how)


if __name__ == '__main__':
    unittest.main()
