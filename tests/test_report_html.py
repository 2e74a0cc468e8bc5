"""gpupool report --html: one file that needs nothing from elsewhere, and what
the page does, seen in Chromium where there is one."""
import html
import json
import os
import re
import shutil
import unittest

import harness
from report_verb import ReportVerb, golden
from verbs import MIB

BROWSERS = 'chromium', 'chromium-browser', 'google-chrome'
BROWSER_LIMIT_S = 60

# A browser without a screen draws few frames in virtual time.
FRAMES = '<script>window.requestAnimationFrame = ' \
    '(work) => setTimeout(work, 16);</script>'

# Plays a person on the page, and writes what was seen into its root element.
PLAY = """
<script>
(function () {
	const seen = {}, by = (id) => document.getElementById(id);
	const press = (id, key) => by(id).dispatchEvent(
		new KeyboardEvent('keydown', {key: key, cancelable: true}));
	const point = (id, name, x, y) => {
		const box = by(id).getBoundingClientRect();
		by(id).dispatchEvent(new PointerEvent(name, {
			clientX: box.left + x * box.width,
			clientY: box.top + y * box.height, pointerId: 1}));
	};
	by('curve').setPointerCapture = () => {};
	const then = (steps) => {
		if (!steps.length) {
			seen.wide = document.documentElement.scrollWidth <= window.innerWidth;
			seen.focus = document.querySelectorAll('canvas[tabindex="0"]').length;
			document.documentElement.dataset.seen = JSON.stringify(seen);
			return;
		}
		/* Two frames: the second is drawn after what the first asked for. */
		requestAnimationFrame(() => requestAnimationFrame(() => {
			try {
				steps[0]();
			} catch (error) {
				seen.error = String(error.stack);
				steps = [];
			}
			then(steps.slice(1));
		}));
	};
	const note = (name) => () => {
		seen[name] = {moment: by('moment').textContent, map: by('map-says').textContent,
			      piece: by('piece').textContent};
	};
	then([note('first'),
	      () => press('map', 'h'), note('hole'),
	      () => press('curve', 'Home'), note('home'),
	      () => press('curve', 'p'), note('peak'),
	      () => press('map', 'Home'), note('block'),
	      () => press('map', 'ArrowRight'), note('second'),
	      () => point('curve', 'pointerdown', 0.999, 0.5), note('click'),
	      () => press('curve', '+'), note('zoomed'),
	      () => by('to-end').click(), note('end'),
	      () => point('map', 'pointermove', 0.001, 0.01), note('hover')]);
}());
</script>
"""


def browser():
    return next(filter(None, map(shutil.which, BROWSERS)), None)


class Html(ReportVerb):

    def page(self, *args):
        path = os.path.join(self.dir, 'page.html')
        self.report(*args, '--html', '-o', path)
        self.assertTrue(os.path.getsize(path))
        with open(path, encoding='utf-8') as file:
            return file.read()

    def assertIn(self, word, page, *args):
        """Without the whole page in what is said of it."""
        self.assertTrue(word in page, '%r is not there' % word)

    def data(self, page):
        return json.loads(re.search(
            r'<script type="application/json" id="data">(.*?)</script>', page,
            re.S).group(1))

    def check(self, page):
        """Nothing is loaded, and nothing was left to be filled in."""
        for word in ('http://', 'https://', ' src=', '@import', 'url(',
                     '{{', 'fetch(', 'import('):
            self.assertNotIn(word, page)
        links = re.findall(r'href="([^"]*)"', page)
        self.assertEqual(links, ['data:,'])
        self.assertIn("default-src 'none'", page)

    def churned(self, conf=''):
        """A program that made and freed blocks, and was killed: its pid."""
        steps = ['alloc=%d' % (MIB * (1 + i % 7)) for i in range(60)]
        steps += ['free=%d' % i for i in range(0, 60, 3)]
        return self.killed(*steps, conf=conf).pid

    def with_stacks(self, *steps):
        """The report of a program that did these steps."""
        self.assert_ok(self.run_program(
            ['drv_script'] + list(steps), conf='quiet:True,stacks:all',
            env={'XDG_RUNTIME_DIR': self.xdg}))
        name, = [n for n in os.listdir(self.dir) if n.endswith('.exit.json')]
        return os.path.join(self.dir, name)


class File(Html):

    def test_all_kinds(self):
        for what in 'exit', 'oom', 'signal-2-pools':
            page = self.page(golden(what))
            self.check(page)
            self.assertIn('pid 4242', page)
        self.check(self.page(self.churned()))
        self.check(self.page(self.dir))

    def test_the_answer_is_on_top(self):
        page = self.page(golden('oom'))
        answer = page.index('cuMemAlloc_v2 asked for 28.57&nbsp;GiB')
        self.assertLess(answer, page.index('<canvas'))
        self.assertIn('other processes hold 131.57&nbsp;GiB', page)
        self.assertIn('class="answer refused"', page)

    def test_call_sites(self):
        page = self.page(golden('exit'))
        self.assertIn('/srv/jobs/train.py:12 in Net.forward', page)
        self.assertIn('grows by 3.00 GiB an hour', page)

    def test_growth_of_a_short_run(self):
        with open(golden('exit')) as file:
            report = json.load(file)
        for key in 'leaks', 'top_sites', 'growing_sites':
            for site in report[key]:
                site['growth_ns'] = 59 * 10**9
        path = os.path.join(self.dir, 'short.exit.json')
        with open(path, 'w') as file:
            json.dump(report, file)
        page = self.page(path)
        self.assertIn('/srv/jobs/train.py:12 in Net.forward', page)
        self.assertNotIn('an hour', page)

    def test_events(self):
        data = self.data(self.page(self.churned()))
        events = data['events']['0']
        self.assertEqual(events['kind'].count('a'), 60)
        self.assertEqual(events['kind'].count('f'), 20)
        sums = 0
        for kind, size, level in zip(events['kind'], events['bytes'],
                                     events['a']):
            sums += {'a': size, 'f': -size}.get(kind, 0)
            self.assertEqual(level, sums)
        self.assertEqual(data['pools'][0]['curve']['t'], [])

    def test_who_allocated_a_block(self):
        data = self.data(self.page(golden('exit')))
        self.assertEqual(data['events']['0']['site'], [1, 0, 2])
        self.assertEqual([frames[:1] for frames in data['sites']], [
            [], ['/srv/jobs/train.py:12 in Net.forward'],
            ['/srv/jobs/train.py:15 in Net.backward']])

    def test_who_allocated_what_is_left(self):
        """Of what was freed nobody knows it."""
        data = self.data(self.page(self.with_stacks(
            'alloc=5000', 'alloc=%d' % MIB, 'free=0', 'alloc=5000')))
        events = data['events']['0']
        allocs = [(size, site > 0) for kind, size, site in zip(
            events['kind'], events['asked'], events['site']) if kind == 'a']
        self.assertEqual(allocs, [(5000, False), (MIB, True), (5000, True)])
        for frames in data['sites'][1:]:
            self.assertIn('drv_script', frames[0])

    def test_names_cannot_end_an_element(self):
        with open(golden('exit')) as file:
            report = json.load(file)
        evil = '</script><script>alert(1)</script><b>"\'&'
        report['name'] = report['pools'][0]['device_name'] = evil
        report['notes'] = [evil]
        report['settings'][0].update(key=evil, value=evil, is_default=False)
        report['sections'][0]['name'] = evil
        path = os.path.join(self.dir, 'evil.json')
        with open(path, 'w') as file:
            json.dump(report, file)
        for page in self.page(path), self.page(self.dir):
            self.assertNotIn('alert(1)</script>', page)
            self.assertNotIn('<b>"', page)
            self.assertIn(html.escape(evil, True), page)


class Browser(Html):

    def setUp(self):
        super().setUp()
        if not browser():
            self.skipTest('no Chromium to look at the page with')

    def look(self, page, width=1280):
        """What PLAY saw."""
        path = os.path.join(self.dir, 'looked-at.html')
        with open(path, 'w', encoding='utf-8') as file:
            file.write(page.replace('</body>', PLAY + '</body>')
                       .replace('</head>', FRAMES + '</head>'))
        argv = [browser(), '--headless=new', '--no-sandbox', '--disable-gpu',
                '--user-data-dir=' + os.path.join(self.dir, 'profile'),
                '--virtual-time-budget=20000', '--dump-dom',
                '--window-size=%d,900' % width, 'file://' + path]
        result = harness.run(argv, dict(os.environ, HOME=self.dir),
                             BROWSER_LIMIT_S)
        self.assert_ok(result)
        root = re.search(r'<html[^>]*>', result.out.decode()).group(0)
        found = re.search(r'data-seen="([^"]*)"', root)
        self.assertTrue(found, 'the page did not come to its end: %s' % root)
        seen = json.loads(html.unescape(found.group(1)))
        self.assertNotIn('error', seen)
        return seen

    def test_the_page(self):
        seen = self.look(self.page(self.churned()))
        self.assertTrue(seen['wide'])
        self.assertEqual(seen['focus'], 2)
        total = sum(1 + i % 7 for i in range(60))
        left = total - sum(1 + i % 7 for i in range(0, 60, 3))
        self.assertIn('%d.00 MiB allocated' % left, seen['first']['moment'])
        self.assertIn('%d.00 MiB live' % left, seen['first']['map'])
        self.assertIn(' 0 B allocated', seen['home']['moment'])
        self.assertIn('%d.00 MiB allocated' % total, seen['peak']['moment'])
        self.assertIn('%d.00 MiB live' % total, seen['peak']['map'])
        self.assertRegex(seen['hole']['piece'], '^The largest hole: ')
        self.assertRegex(seen['block']['piece'], r'^A (block|hole): .* at 0x')
        self.assertNotEqual(seen['second']['piece'], seen['block']['piece'])
        self.assertIn('%d.00 MiB allocated' % left, seen['click']['moment'])
        self.assertEqual(seen['zoomed']['moment'], seen['click']['moment'])
        self.assertIn('%d.00 MiB allocated' % left, seen['end']['moment'])
        self.assertRegex(seen['hover']['piece'], r'(block|hole): .* at 0x')

    def test_who_allocated_a_block(self):
        seen = self.look(self.page(self.with_stacks('alloc=%d' % (90 * MIB))))
        self.assertRegex(seen['hover']['piece'], r'^A block: 90\.00 MiB .*\. '
                         r'Allocated in drv_script\+0x.*, called from ')

    def test_narrow(self):
        self.assertTrue(self.look(self.page(self.churned()), 500)['wide'])


if __name__ == '__main__':
    unittest.main()
