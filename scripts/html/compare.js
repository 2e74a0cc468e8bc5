/* The page of a job: the curves of all its processes over each other. */
'use strict';

(function () {
	const started = performance.now();
	const data = JSON.parse(document.getElementById('data').textContent);
	const canvas = document.getElementById('curves');
	const says = document.getElementById('curve-says');
	const pad = {left: 68, right: 10, top: 10, bottom: 22};
	const base = document.createElement('canvas');
	let most = 1, end = 1, size = null, chosen = -1;

	for (const run of data.runs) {
		end = Math.max(end, run.end);
		for (const bytes of run.a)
			most = Math.max(most, bytes);
	}
	const x = (ns) => pad.left + ns / end * (size.width - pad.left - pad.right);
	const y = (bytes) => size.height - pad.bottom -
		bytes / (most * 1.05) * (size.height - pad.top - pad.bottom);

	function line(c, run) {
		c.beginPath();
		for (let i = 0; i < run.t.length; i++) {
			if (i)
				c.lineTo(x(run.t[i]), y(run.a[i - 1]));
			c.lineTo(x(run.t[i]), y(run.a[i]));
		}
		if (run.t.length)
			c.lineTo(x(run.end), y(run.a[run.a.length - 1]));
		c.stroke();
		if (run.died) {
			c.beginPath();
			c.arc(x(run.end), y(run.a[run.a.length - 1] || 0), 3.5, 0, 7);
			c.fill();
		}
	}

	function axes(c) {
		c.fillStyle = gp.colour('faint');
		c.strokeStyle = gp.colour('line');
		c.textAlign = 'right';
		c.textBaseline = 'middle';
		for (const bytes of gp.steps(most, 5, 2)) {
			const at = Math.round(y(bytes)) + 0.5;

			c.beginPath();
			c.moveTo(pad.left, at);
			c.lineTo(size.width - pad.right, at);
			c.stroke();
			c.fillText(gp.size(bytes).replace('.00', ''), pad.left - 6, at);
		}
		c.textBaseline = 'alphabetic';
		for (const part of [0, 0.5, 1]) {
			c.textAlign = part === 0 ? 'left' : part === 1 ? 'right' : 'center';
			c.fillText(gp.moment(end * part, end), x(end * part), size.height - 6);
		}
	}

	/* All lines, once: they are many. Those that died lie above the others. */
	function all() {
		size = gp.fit(canvas, window.innerWidth < 600 ? 220 : 320);
		const c = size.context;

		axes(c);
		c.lineWidth = 1;
		for (const died of [false, true]) {
			const runs = data.runs.filter((run) => run.died === died);

			c.globalAlpha = Math.max(0.1, Math.min(0.8, 8 / runs.length));
			c.strokeStyle = c.fillStyle = gp.colour(died ? 'bad' : 'allocated');
			for (const run of runs)
				line(c, run);
		}
		c.globalAlpha = 1;
		base.width = canvas.width;
		base.height = canvas.height;
		base.getContext('2d').drawImage(canvas, 0, 0);
	}

	/* The chosen one, over the others. */
	const one = gp.soon(function () {
		const c = size.context, run = data.runs[chosen];

		c.setTransform(1, 0, 0, 1, 0, 0);
		c.clearRect(0, 0, canvas.width, canvas.height);
		c.drawImage(base, 0, 0);
		c.setTransform(size.ratio, 0, 0, size.ratio, 0, 0);
		if (!run)
			return;
		c.lineWidth = 2.5;
		c.strokeStyle = c.fillStyle = gp.colour('mark');
		line(c, run);
	});
	const draw = gp.soon(function () {
		all();
		one();
	});

	function choose(index) {
		if (!size || index === chosen)
			return;
		chosen = index;
		const run = data.runs[index];
		says.textContent = run ? run.label + ': at most ' + gp.size(run.peak) +
			' allocated, ended after ' + gp.moment(run.end, end) + ' (' + run.how + ')' :
			says.dataset.idle;
		document.querySelectorAll('#processes tbody tr').forEach((row) =>
			row.classList.toggle('chosen', row.dataset.run === String(index)));
		one();
	}

	/* The line that passes nearest. */
	function near(event) {
		if (!size)
			return;
		const box = canvas.getBoundingClientRect();
		const ns = (event.clientX - box.left - pad.left) /
			(size.width - pad.left - pad.right) * end;
		let best = -1, least = 40;

		data.runs.forEach((run, index) => {
			const i = gp.after(run.t, ns) - 1;
			const off = i < 0 || ns > run.end ? Infinity :
				Math.abs(y(run.a[i]) - (event.clientY - box.top));

			if (off < least) {
				least = off;
				best = index;
			}
		});
		choose(best);
	}

	canvas.addEventListener('pointermove', near);
	canvas.addEventListener('pointerdown', near);
	canvas.addEventListener('keydown', (event) => {
		const step = {ArrowUp: -1, ArrowLeft: -1, ArrowDown: 1, ArrowRight: 1}[event.key];

		if (!step)
			return;
		choose(Math.max(0, Math.min(data.runs.length - 1, chosen + step)));
		event.preventDefault();
	});
	document.querySelectorAll('#processes tbody tr').forEach((row) => {
		const show = () => choose(+row.dataset.run);

		row.addEventListener('pointerenter', show);
		row.addEventListener('focus', show);
	});
	document.querySelectorAll('#processes th button').forEach((button) =>
		button.addEventListener('click', () => sort(button)));

	function sort(button) {
		const head = button.closest('th');
		const column = [...head.parentNode.children].indexOf(head);
		const up = head.getAttribute('aria-sort') === 'descending';
		const body = document.querySelector('#processes tbody');
		const value = (row) => row.children[column].dataset.value;

		for (const other of head.parentNode.children)
			other.removeAttribute('aria-sort');
		head.setAttribute('aria-sort', up ? 'ascending' : 'descending');
		[...body.children].sort((a, b) => {
			const [left, right] = [value(a), value(b)];
			const by = isNaN(left) || isNaN(right) ? left.localeCompare(right) :
				left - right;
			return up ? by : -by;
		}).forEach((row) => body.append(row));
	}

	window.addEventListener('resize', draw);
	matchMedia('(prefers-color-scheme: dark)').addEventListener('change', draw);
	draw();
	document.documentElement.dataset.loadMs = (performance.now() - started).toFixed(1);
}());
