"""gpupool metrics: what promtool and a real Prometheus accept, with the figures
of the ledgers."""
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import unittest
import urllib.error
import urllib.request

import harness
from files import wait_for
from verbs import MIB, VerbTest

SAMPLE = re.compile(r'(\w+)(?:\{(.*)\})? (\S+)\Z')
OPEN = 'application/openmetrics-text; version=1.0.0; charset=utf-8'
TEXT = 'text/plain; version=0.0.4; charset=utf-8'
# What Prometheus 2.42 sends.
ACCEPT = ('application/openmetrics-text;version=1.0.0,'
          'application/openmetrics-text;version=0.0.1;q=0.75,'
          'text/plain;version=0.0.4;q=0.5,*/*;q=0.1')
CONFIG = '''
global: {scrape_interval: 1s}
scrape_configs:
  - job_name: gpupool
    static_configs: [{targets: ['127.0.0.1:%d']}]
'''


def free_port():
    with socket.socket() as s:
        s.bind(('127.0.0.1', 0))
        return s.getsockname()[1]


class MetricsTest(VerbTest):

    def samples(self, text):
        """{(name, frozenset of labels): value}; every line must be one."""
        found = {}
        for line in text.splitlines():
            if line.startswith('# '):
                continue
            match = SAMPLE.match(line)
            self.assertTrue(match, line)
            labels = frozenset(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"',
                                          match.group(2) or ''))
            key = match.group(1), labels
            self.assertNotIn(key, found)
            found[key] = float(match.group(3))
        return found

    def value(self, found, name, **labels):
        fit = [value for (n, have), value in found.items()
               if n == name and set(labels.items()) <= have]
        self.assertEqual(len(fit), 1, (name, labels, fit))
        return fit[0]

    def serve(self):
        proc = self.spawn('metrics', '--listen', '127.0.0.1:0')
        match = re.search(r'http://127\.0\.0\.1:(\d+)/metrics',
                          proc.stderr.readline().decode())
        self.assertTrue(match)
        return proc, int(match.group(1))

    def get(self, port, path='/metrics', **headers):
        request = urllib.request.Request(
            'http://127.0.0.1:%d%s' % (port, path), headers=headers)
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.headers['Content-Type'], answer.read().decode()


class Page(MetricsTest):

    def test_figures(self):
        proc = self.holder(conf='memory_limit:800MiB')
        result = self.gpupool('metrics')
        self.assert_ok(result)
        found = self.samples(result.out.decode())
        pid = str(proc.pid)

        def value(name):
            return self.value(found, 'gpupool_' + name, pid=pid)

        device = self.device(proc)
        self.assertEqual(value('allocated_bytes'), 100 * MIB)
        self.assertEqual(value('reserved_bytes'), device.reserved)
        self.assertEqual(value('cached_bytes'), device.cached)
        self.assertEqual(value('allocated_peak_bytes'), 150 * MIB)
        self.assertEqual(value('limit_bytes'), 800 * MIB)
        self.assertEqual(value('allocations_total'), 2)
        self.assertEqual(value('frees_total'), 1)
        self.assertEqual(value('taken_bytes_total'), 150 * MIB)
        self.assertEqual(value('returned_bytes_total'), 50 * MIB)
        self.assertEqual(value('process_responding'), 1)
        self.assertEqual(self.value(found, 'gpupool_outside_by_kind_bytes',
                                    pid=pid, kind='managed'), 0)
        self.assertEqual(self.value(found, 'gpupool_processes'), 1)
        self.assertEqual(self.value(found, 'gpupool_card_memory_bytes',
                                    uuid=device.uuid), 1024 * MIB)

    def test_no_limit_is_absent(self):
        """It is not some huge number."""
        self.holder()
        text = self.gpupool('metrics').out.decode()
        self.assertNotIn('limit_bytes', text)
        self.assertNotIn('e+', text)

    def test_nobody(self):
        result = self.gpupool('metrics')
        self.assert_ok(result)
        self.assertEqual(self.value(self.samples(result.out.decode()),
                                    'gpupool_processes'), 0)

    def test_awkward_names(self):
        """Labels are escaped, whatever a program is called."""
        name = 'a "b\\c\nd'
        shutil.copy(self.build.program('drv_script'),
                    os.path.join(self.dir, name))
        proc = self.start([os.path.join(self.dir, name), 'stdin=1'])
        self.step(proc, 'alloc=%d' % MIB)
        self.assertTrue(wait_for(lambda: self.device(proc)))
        for style in [], ['--openmetrics']:
            result = self.gpupool('metrics', *style)
            found = self.samples(result.out.decode())
            self.value(found, 'gpupool_allocated_bytes',
                       program='a \\"b\\\\c\\nd')
            if not style:
                self.promtool(result.out)

    def test_names(self):
        """A family once; counters end in _total, and nothing else does;
        OpenMetrics ends with its mark and its units are in the names."""
        self.holder()
        text = self.gpupool('metrics').out.decode()
        for name, kind in re.findall(r'^# TYPE (\w+) (\w+)$', text, re.M):
            self.assertEqual(name.endswith('_total'), kind == 'counter', name)
        self.promtool(text.encode())
        text = self.gpupool('metrics', '--openmetrics').out.decode()
        self.assertTrue(text.endswith('\n# EOF\n'))
        families = re.findall(r'^# TYPE (\w+) \w+$', text, re.M)
        self.assertEqual(len(families), len(set(families)))
        for name, unit in re.findall(r'^# UNIT (\w+) (\w+)$', text, re.M):
            self.assertTrue(name.endswith('_' + unit), name)

    def promtool(self, text):
        promtool = harness.tool('promtool')
        if not promtool:
            self.skipTest('no promtool (make deps)')
        result = subprocess.run([promtool, 'check', 'metrics'], input=text,
                                stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT)
        self.assertEqual((result.returncode, result.stdout), (0, b''))


class Textfile(MetricsTest):

    def test_once(self):
        self.holder()
        path = os.path.join(self.dir, 'out.prom')
        self.assert_ok(self.gpupool('metrics', '--textfile', path))
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o644)
        with open(path) as file:
            self.value(self.samples(file.read()), 'gpupool_allocated_bytes')
        self.assertEqual([n for n in os.listdir(self.dir)
                          if 'metrics' in n], [])

    def test_never_half_written(self):
        self.holder()
        path = os.path.join(self.dir, 'out.prom')
        proc = self.spawn('metrics', '--openmetrics', '--textfile', path,
                          '--every', '0.1')
        self.assertTrue(wait_for(lambda: os.path.exists(path)))
        files = set()

        def read():
            with open(path) as file:
                self.assertTrue(file.read().endswith('# EOF\n'))
                files.add(os.fstat(file.fileno()).st_mtime_ns)
            return len(files) > 4

        self.assertTrue(wait_for(read))
        proc.send_signal(signal.SIGTERM)
        self.assertEqual(proc.wait(120), 0)
        self.assertEqual(proc.stderr.read(), b'')

    def test_problems(self):
        for args, status in ((['--textfile', '/no/such/place/x.prom'], 125),
                             (['--every', '5'], 2),
                             (['--textfile', 'x', '--every', '0'], 2),
                             (['--listen', 'x'], 2),
                             (['--listen', '127.0.0.1:99999'], 2),
                             (['--listen', '203.0.113.1:9'], 125)):
            result = self.gpupool('metrics', *args)
            self.assert_ok(result, status)
            self.assertRegex(result.err.decode(), '(?m)^gpupool')
        self.assertEqual(os.listdir(self.dir), ['xdg'])


class Served(MetricsTest):

    def test_formats(self):
        self.holder()
        proc, port = self.serve()
        for accept, kind in ((ACCEPT, OPEN), ('*/*', TEXT), ('', TEXT),
                             ('text/plain', TEXT),
                             ('application/openmetrics-text;q=0.1,'
                              'text/plain', TEXT),
                             ('application/openmetrics-text; version=9.0.0',
                              TEXT)):
            got, text = self.get(port, Accept=accept)
            self.assertEqual(got, kind, accept)
            self.assertEqual(text.endswith('# EOF\n'), kind == OPEN)
            self.value(self.samples(text), 'gpupool_allocated_bytes')
        self.assertIn('/metrics', self.get(port, '/')[1])
        with self.assertRaises(urllib.error.HTTPError) as caught:
            self.get(port, '/etc/passwd')
        self.assertEqual(caught.exception.code, 404)
        caught.exception.close()
        proc.send_signal(signal.SIGTERM)
        self.assertEqual(proc.wait(120), 0)
        self.assertEqual(proc.stderr.read(), b'')

    def test_port_in_use(self):
        _, port = self.serve()
        result = self.gpupool('metrics', '--listen', str(port))
        self.assert_ok(result, 125)
        self.assertIn(b'in use', result.err)

    def test_scraped(self):
        """By Prometheus itself."""
        program = harness.tool('prometheus')
        if not program:
            self.skipTest('no prometheus (make deps)')
        holder = self.holder()
        _, port = self.serve()
        config = os.path.join(self.dir, 'prometheus.yml')
        with open(config, 'w') as file:
            file.write(CONFIG % port)
        own = free_port()
        log = open(os.path.join(self.dir, 'prometheus.log'), 'wb')
        prometheus = subprocess.Popen(
            [program, '--config.file=' + config,
             '--storage.tsdb.path=' + os.path.join(self.dir, 'data'),
             '--web.listen-address=127.0.0.1:%d' % own],
            stdout=log, stderr=log, start_new_session=True)
        log.close()

        def end():
            harness.kill_group(prometheus)
            prometheus.wait()

        self.addCleanup(end)

        def query(text):
            try:
                _, answer = self.get(own, '/api/v1/query?query=' + text)
            except (urllib.error.URLError, OSError):
                return []
            return json.loads(answer)['data']['result']

        self.assertTrue(wait_for(
            lambda: query('gpupool_allocated_bytes'), 60))
        found, = query('gpupool_allocated_bytes')
        self.assertEqual(found['metric']['pid'], str(holder.pid))
        self.assertEqual(float(found['value'][1]), 100 * MIB)
        up, = query('up')
        self.assertEqual(up['value'][1], '1')
        total, = query('gpupool_allocations_total')
        self.assertEqual(total['value'][1], '2')


if __name__ == '__main__':
    unittest.main()
