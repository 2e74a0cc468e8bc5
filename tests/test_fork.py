"""A fork while gpupool starts: the child gets the driver's own answers, and
does not wait for a start that went on in its parent alone."""
import unittest

import harness

PROGRAM = '''
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
typedef int any();

static any *alloc;
static int armed, forks;

static void fork_here(void)
{
    int status, armed_before = armed;
    pid_t child;

    armed = 0;
    child = fork();
    if (!child) {
        unsigned long long p;

        alarm(120);
        exit(alloc(&p, (size_t)100));
    }
    waitpid(child, &status, 0);
    printf("child: %d\\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    armed = armed_before;
    forks++;
}

/* In place of the C library's: gpupool asks while it starts. */
pid_t getpid(void)
{
    if (armed)
        fork_here();
    return (pid_t)syscall(SYS_getpid);
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *ctx;
    unsigned long long p;
    int rc;

    setvbuf(stdout, NULL, _IONBF, 0);
    alloc = (any *)dlsym(driver, "cuMemAlloc_v2");
    ((any *)dlsym(driver, "cuInit"))(0);
    ((any *)dlsym(driver, "cuDevicePrimaryCtxRetain"))(&ctx, 0);
    ((any *)dlsym(driver, "cuCtxSetCurrent"))(ctx);
    armed = 1;
    rc = alloc(&p, (size_t)100);
    armed = 0;
    printf("parent: %d, forks: %d\\n", rc, forks);
    /* Afterwards too. */
    fork_here();
    return 0;
}
'''


class Fork(harness.CudaTest):

    def test_in_the_middle_of_the_start(self):
        program = self.compile('forks', PROGRAM, '-w', '-rdynamic', '-ldl')
        result = self.run_program([program])
        self.assert_ok(result)
        lines = result.out.decode().splitlines()
        children = [l for l in lines if l.startswith('child: ')]
        # CUDA_ERROR_NOT_INITIALIZED
        self.assertEqual(set(children), {'child: 3'}, str(result))
        self.assertRegex(lines[-2], r'^parent: 0, forks: [1-9]')
        self.assertGreater(len(children), 1)


if __name__ == '__main__':
    unittest.main()
