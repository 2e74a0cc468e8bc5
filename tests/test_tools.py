"""Beside a profiler, a debugger or a checker device memory comes from the
driver, and one line says so."""
import json
import os
import unittest

import harness

LINE = ('gpupool: %s is here, so device memory comes from the driver and is '
        'only counted (backend:passthrough)\n')

# What a debugger does to start a program: its child asks to be traced.
TRACER = r'''
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>
int main(int argc, char **argv)
{
	int status;
	pid_t child = fork();

	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		setenv("LD_PRELOAD", getenv("TO_PRELOAD"), 1);
		execv(argv[1], argv + 1);
		_exit(9);
	}
	while (argc && waitpid(child, &status, 0) == child) {
		int sig;

		if (WIFEXITED(status))
			return WEXITSTATUS(status);
		if (WIFSIGNALED(status))
			return 8;
		sig = WSTOPSIG(status);
		ptrace(PTRACE_CONT, child, NULL, sig == 5 ? 0 : sig);
	}
	return 7;
}
'''


class Tools(harness.CudaTest):

    def started(self, argv=(), conf='', env=None, **kwargs):
        """The pools it had, and what it said."""
        result = self.run_program(
            list(argv) + [self.build.program('drv_script'), 'alloc=4096',
                          'alloc=50000000', 'free=0'],
            conf='quiet:True,report_dir:%s%s' % (self.dir, conf),
            env=env, **kwargs)
        self.assert_ok(result)
        self.assertEqual(result.out, b'alloc 4096: 0\nalloc 50000000: 0\n'
                                     b'free: 0\n')
        name, = [n for n in self.reports() if n.endswith('.exit.json')]
        path = os.path.join(self.dir, name)
        with open(path) as file:
            report = json.load(file)
        os.unlink(path)
        return len(report['pools']), result.err.decode()

    def test_environment(self):
        for variable, tool in (
                ('NV_SANITIZER_INJECTION_PORT_BASE', 'compute-sanitizer'),
                ('NV_SANITIZER_INJECTION_PORT_RANGE_BEGIN',
                 'compute-sanitizer'),
                ('NV_COMPUTE_PROFILER_PERFWORKS_DIR', 'ncu'),
                ('NSYS_PROFILING_SESSION_ID', 'nsys')):
            with self.subTest(variable=variable):
                self.assertEqual(self.started(env={variable: '49152'}),
                                 (0, LINE % tool))

    def test_injection(self):
        for path, tool in (
                ('/opt/sanitizer/libsanitizer-collection.so',
                 'compute-sanitizer'),
                ('/opt/ncu/libcuda-injection.so', 'ncu'),
                ('libToolsInjection64.so', 'nsys')):
            with self.subTest(path=path):
                self.assertEqual(
                    self.started(env={'CUDA_INJECTION64_PATH': path}),
                    (0, LINE % tool))

    def test_other_injection(self):
        """Whatever else is injected does not look at allocations."""
        for path in '/opt/tools/libtracer.so', 'none', '':
            self.assertEqual(
                self.started(env={'CUDA_INJECTION64_PATH': path}), (1, ''))

    def test_mapped(self):
        library = self.compile('libsanitizer-collection.so', 'int x;',
                               '-shared', '-fPIC')
        preload = self.build.preload() + ' ' + library
        self.assertEqual(self.started(env={'LD_PRELOAD': preload}),
                         (0, LINE % 'compute-sanitizer'))

    def traced(self, name):
        tracer = self.compile(name, TRACER)
        env = {'LD_PRELOAD': self.build.sanitizer_runtime(),
               'TO_PRELOAD': self.build.preload()}
        return self.started([tracer], env=env)

    def test_debugger(self):
        self.assertEqual(self.traced('cuda-gdb'), (0, LINE % 'cuda-gdb'))

    def test_other_tracer(self):
        self.assertEqual(self.traced('strace'), (1, ''))

    def test_nothing_to_say(self):
        self.assertEqual(
            self.started(conf=',backend:passthrough',
                         env={'NSYS_PROFILING_SESSION_ID': '1'}), (0, ''))


if __name__ == '__main__':
    unittest.main()
