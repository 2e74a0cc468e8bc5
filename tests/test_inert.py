"""Programs that never touch a GPU do not notice the preload: the same output
and status; no thread, no file, no handler, no message."""
import os
import sys
import unittest

import harness

PYTHON_WORK = '''
import ctypes, json, subprocess, threading
threads = [threading.Thread(target=lambda: None) for _ in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps({"pid": ctypes.CDLL(None).getpid() > 0}))
print(subprocess.run(["sed", "s/a/b/"], input=b"banana",
                     stdout=subprocess.PIPE).stdout)
ctypes.CDLL(None).no_such_symbol if False else None
'''

# What the kernel says of a process, without what differs from run to run.
STATE = ('Threads', 'SigBlk', 'SigIgn', 'SigCgt', 'SigPnd', 'ShdPnd')
PYTHON_STATE = '''
import os
for line in open("/proc/self/status"):
    if line.split(":")[0] in %r: print(line, end="")
print(len(os.listdir("/proc/self/task")))
for fd in sorted(os.listdir("/proc/self/fd"), key=int):
    try: print(fd, os.readlink("/proc/self/fd/" + fd).split(":")[0])
    except OSError: pass
''' % (STATE,)


class Inert(harness.CudaTest):

    def compare(self, argv, **env):
        """Run without and with the library; everything must be equal."""
        results = []
        for preload in False, True:
            place = os.path.join(self.dir, 'work')
            os.mkdir(place)
            runtime = os.path.join(self.dir, 'runtime')
            os.mkdir(runtime, 0o700)
            child = self.build.env(preload=preload, conf='', **env)
            child['XDG_RUNTIME_DIR'] = runtime
            child['HOME'] = place
            result = harness.run(argv, child, cwd=place)
            results.append((result.status, result.out, result.err,
                            sorted(os.listdir(place)),
                            sorted(os.listdir(runtime))))
            for name in os.listdir(place):
                os.unlink(os.path.join(place, name))
            os.rmdir(place)
            for name in os.listdir(runtime):
                os.unlink(os.path.join(runtime, name))
            os.rmdir(runtime)
        self.assertEqual(results[0], results[1])
        self.assertIsNotNone(results[0][0], 'ran past its time limit')
        return results[0]

    def test_bash(self):
        status, out = self.compare(['bash', '-c', (
            'for i in 1 2 3; do echo "line $i" | sed s/line/LINE/; done; '
            '(exit 3); echo $?; x=$(ls /proc/self/fd | wc -l); echo $x; '
            'trap; kill -l USR1; exit 42')])[:2]
        self.assertEqual(status, 42)
        self.assertIn(b'LINE 3', out)

    def test_sed_and_friends(self):
        self.compare(['sed', '-n', '1,5p', '/proc/filesystems'])
        self.compare(['sed', 'no such command'])
        self.compare(['sort', '-n', '/etc/services'])
        self.compare(['ls', '-la', '/no/such/place'])
        self.compare(['find', os.path.join(harness.ROOT, 'pool'), '-name',
                      '*.h'])

    def test_python(self):
        status, out = self.compare([sys.executable, '-c', PYTHON_WORK])[:2]
        self.assertEqual(status, 0)
        self.assertIn(b'bbnana', out)
        self.assertEqual(
            self.compare([sys.executable, '-c', 'raise SystemExit(9)'])[0], 9)
        self.compare([sys.executable, '-c', 'import os; os.abort()'])

    def test_state_of_a_process(self):
        status, out = self.compare([sys.executable, '-c', PYTHON_STATE])[:2]
        self.assertEqual(status, 0)
        self.assertIn(b'SigCgt', out)
        self.compare(['grep', '-E', '|'.join(STATE), '/proc/self/status'])
        # By itself: while it starts another program it blocks signals.
        self.compare(['bash', '-c', 'while read -r line; do case $line in '
                      '%s) echo "$line";; esac; done </proc/$$/status; '
                      'echo /proc/$$/task/* | tr -d 0-9'
                      % '|'.join(name + ':*' for name in STATE)])

    def test_signal_still_ends_it(self):
        status = self.compare(['bash', '-c', 'kill -USR1 $$; sleep 300'])[0]
        self.assertEqual(status, -10)

    def test_wrong_settings_are_nobodys_business(self):
        for conf in ('nonsense', 'quiet:perhaps', 'report_dir:/no/such',
                     ',,,:::', 'enabled:False'):
            err = self.compare(['bash', '-c', 'echo hello'],
                               GPUPOOL_CONF=conf)[2]
            self.assertEqual(err, b'')

    def test_loading_the_driver_is_not_using_it(self):
        """The library is there and asked for its names, but nothing is
        called: still no thread and no handler."""
        self.compare([sys.executable, '-c', (
            'import ctypes\n'
            'cuda = ctypes.CDLL("libcuda.so.1")\n'
            'cuda.cuMemAlloc_v2, cuda.cuMemFree_v2, cuda.cuGetProcAddress\n'
            + PYTHON_STATE)])


if __name__ == '__main__':
    unittest.main()
