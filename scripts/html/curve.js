/* Allocated and reserved memory over time, on a canvas. */
'use strict';

/* `points`: {t, a, r}, arrays of ns and bytes, sorted. `view`: {cap, end,
 * marks: [{t, kind}]}. onmove(ns) is called when the person chose a moment. */
gp.Curve = class {
	constructor(canvas, onmove) {
		this.canvas = canvas;
		this.onmove = onmove;
		this.moment = 0;
		this.hover = null;
		this.redraw = gp.soon(() => this.draw());
		this.pad = {left: 68, right: 10, top: 14, bottom: 22};
		this.listen();
	}

	show(points, view) {
		this.points = points;
		this.view = view;
		this.from = 0;
		this.to = Math.max(1, view.end);
		this.most = 1;
		for (let i = 0; i < points.t.length; i++)
			this.most = Math.max(this.most, points.a[i], points.r[i]);
		this.capShown = view.cap !== null && view.cap <= this.most * 3;
		if (this.capShown)
			this.most = Math.max(this.most, view.cap);
		this.moment = view.end;
		this.redraw();
	}

	x(ns) {
		return this.pad.left + (ns - this.from) / (this.to - this.from) *
			this.inner();
	}

	y(bytes) {
		const high = this.size.height - this.pad.top - this.pad.bottom;

		return this.size.height - this.pad.bottom - bytes / (this.most * 1.05) * high;
	}

	ns(x) {
		const part = (x - this.pad.left) / this.inner();

		return this.from + Math.max(0, Math.min(1, part)) * (this.to - this.from);
	}

	inner() {
		return this.size.width - this.pad.left - this.pad.right;
	}

	/* What held at that moment: the last point not after it. */
	at(ns) {
		const i = gp.after(this.points.t, ns) - 1;

		return i < 0 ? {a: 0, r: 0} : {a: this.points.a[i], r: this.points.r[i]};
	}

	draw() {
		const start = performance.now();

		this.size = gp.fit(this.canvas, window.innerWidth < 600 ? 200 : 260);
		const c = this.size.context;
		c.clearRect(0, 0, this.size.width, this.size.height);
		this.axes(c);
		c.save();
		c.beginPath();
		c.rect(this.pad.left, 0, this.inner(), this.size.height);
		c.clip();
		this.area(c, this.points.r, gp.colour('reserved'));
		this.area(c, this.points.a, gp.colour('allocated'));
		this.limit(c);
		this.marks(c);
		c.restore();
		this.cursor(c, this.moment, gp.colour('ink'));
		if (this.hover !== null)
			this.cursor(c, this.hover, gp.colour('faint'));
		this.told(start);
	}

	told(start) {
		const spent = performance.now() - start;

		this.slowest = Math.max(this.slowest || 0, spent);
		document.documentElement.dataset.curveMs = this.slowest.toFixed(1);
	}

	axes(c) {
		c.fillStyle = gp.colour('faint');
		c.strokeStyle = gp.colour('line');
		c.lineWidth = 1;
		c.textBaseline = 'middle';
		c.textAlign = 'right';
		for (const bytes of gp.steps(this.most, 5, 2)) {
			const y = Math.round(this.y(bytes)) + 0.5;

			c.beginPath();
			c.moveTo(this.pad.left, y);
			c.lineTo(this.size.width - this.pad.right, y);
			c.stroke();
			c.fillText(gp.size(bytes).replace('.00', ''), this.pad.left - 6, y);
		}
		c.textBaseline = 'alphabetic';
		const range = this.to - this.from;
		const wanted = Math.max(2, Math.floor(this.inner() / 110));
		for (let i = 0; i <= wanted; i++) {
			const ns = this.from + range * i / wanted;

			c.textAlign = i === 0 ? 'left' : i === wanted ? 'right' : 'center';
			c.fillText(gp.moment(ns, range), this.x(ns), this.size.height - 6);
		}
	}

	/* A stair: a level holds until the next point. Where several points share
	 * a column of the screen, its highest and lowest are drawn. */
	area(c, values, colour) {
		const t = this.points.t, bottom = this.y(0);
		let i = Math.max(0, gp.after(t, this.from) - 1);
		const end = Math.min(t.length, gp.after(t, this.to) + 1);

		if (!t.length)
			return;
		let x = Math.max(this.pad.left, this.x(t[i])), level = values[i];
		c.beginPath();
		c.moveTo(x, bottom);
		c.lineTo(x, this.y(level));
		while (++i < end) {
			const column = Math.floor(this.x(t[i]) * 2) / 2;
			let high = values[i], low = high;

			c.lineTo(column, this.y(level));
			while (i + 1 < end && this.x(t[i + 1]) < column + 0.5) {
				i++;
				high = Math.max(high, values[i]);
				low = Math.min(low, values[i]);
			}
			level = values[i];
			c.lineTo(column, this.y(high));
			c.lineTo(column, this.y(low));
			c.lineTo(column, this.y(level));
		}
		x = Math.min(this.x(this.view.end), this.size.width - this.pad.right);
		c.lineTo(x, this.y(level));
		c.lineTo(x, bottom);
		c.closePath();
		c.fillStyle = colour;
		c.fill();
	}

	limit(c) {
		if (!this.capShown)
			return;
		const y = Math.round(this.y(this.view.cap)) + 0.5;

		c.strokeStyle = gp.colour('bad');
		c.setLineDash([6, 4]);
		c.beginPath();
		c.moveTo(this.pad.left, y);
		c.lineTo(this.size.width, y);
		c.stroke();
		c.setLineDash([]);
	}

	/* What is worth a look: requests refused, memory given back. */
	marks(c) {
		for (const mark of this.view.marks) {
			const x = this.x(mark.t);

			c.fillStyle = gp.colour(mark.kind === 'oom' ? 'bad' : 'faint');
			c.beginPath();
			c.moveTo(x - 5, 2);
			c.lineTo(x + 5, 2);
			c.lineTo(x, 11);
			c.fill();
		}
	}

	cursor(c, ns, colour) {
		if (ns < this.from || ns > this.to)
			return;
		const x = Math.round(this.x(ns)) + 0.5;

		c.strokeStyle = colour;
		c.beginPath();
		c.moveTo(x, 0);
		c.lineTo(x, this.size.height - this.pad.bottom);
		c.stroke();
	}

	/* ---- what a person does ---------------------------------------------- */

	choose(ns) {
		this.moment = Math.max(0, Math.min(this.view.end, ns));
		if (this.moment < this.from || this.moment > this.to) {
			const range = this.to - this.from;

			this.from = Math.max(0, Math.min(this.view.end - range,
							 this.moment - range / 2));
			this.to = this.from + range;
		}
		this.redraw();
		this.onmove(this.moment);
	}

	zoom(factor) {
		const end = Math.max(1, this.view.end);
		const range = Math.max(1000, Math.min(end, (this.to - this.from) * factor));
		const part = (this.moment - this.from) / (this.to - this.from);

		this.from = Math.max(0, Math.min(end - range, this.moment - part * range));
		this.to = this.from + range;
		this.redraw();
	}

	peak() {
		let best = 0;

		for (let i = 0; i < this.points.t.length; i++)
			if (this.points.a[i] > this.points.a[best])
				best = i;
		return this.points.t[best] || 0;
	}

	key(event) {
		const step = (this.to - this.from) / this.inner() * (event.shiftKey ? 20 : 2);
		const end = this.view.end;
		const does = {
			ArrowLeft: () => this.choose(this.moment - step),
			ArrowRight: () => this.choose(this.moment + step),
			PageUp: () => this.choose(this.moment - step * 20),
			PageDown: () => this.choose(this.moment + step * 20),
			Home: () => this.choose(0),
			End: () => this.choose(end),
			p: () => this.choose(this.peak()),
			'+': () => this.zoom(0.5),
			'=': () => this.zoom(0.5),
			'-': () => this.zoom(2),
			0: () => this.zoom(1e9),
		}[event.key];

		if (!does || event.ctrlKey || event.metaKey || event.altKey)
			return;
		does();
		event.preventDefault();
	}

	listen() {
		const place = (event) => this.ns(event.clientX -
			this.canvas.getBoundingClientRect().left);
		let held = false;

		this.canvas.addEventListener('pointerdown', (event) => {
			held = true;
			this.canvas.setPointerCapture(event.pointerId);
			this.choose(place(event));
		});
		this.canvas.addEventListener('pointermove', (event) => {
			this.hover = place(event);
			if (held)
				this.choose(this.hover);
			this.redraw();
		});
		for (const name of ['pointerup', 'pointercancel'])
			this.canvas.addEventListener(name, () => { held = false; });
		this.canvas.addEventListener('pointerleave', () => {
			this.hover = null;
			this.redraw();
		});
		this.canvas.addEventListener('wheel', (event) => {
			if (!event.ctrlKey && !event.altKey)
				return; /* the page scrolls */
			event.preventDefault();
			this.zoom(event.deltaY > 0 ? 1.25 : 0.8);
		}, {passive: false});
		this.canvas.addEventListener('keydown', (event) => this.key(event));
		window.addEventListener('resize', this.redraw);
		matchMedia('(prefers-color-scheme: dark)')
			.addEventListener('change', this.redraw);
	}
};
