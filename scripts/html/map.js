/* Device memory at a moment, as lines of text are set: address after address,
 * line after line. What lies between segments takes no room. */
'use strict';

gp.Map = class {
	constructor(canvas, tell) {
		this.canvas = canvas;
		this.tell = tell; /* of the piece under the hand; null: none */
		this.chosen = -1;
		this.layout = null;
		this.redraw = gp.soon(() => this.draw());
		this.listen();
	}

	/* `scale`: bytes that fill the map, so that moments can be compared. */
	show(layout, scale) {
		this.layout = layout;
		this.scale = Math.max(scale, layout.bytes, 1);
		this.places = layout.pieces.map((piece) => piece.place);
		this.chosen = -1;
		this.redraw();
	}

	draw() {
		const start = performance.now();
		const wide = window.innerWidth >= 600;

		this.row = wide ? 16 : 14;
		this.step = this.row + 3;
		this.lines = wide ? 18 : 22;
		this.size = gp.fit(this.canvas, this.lines * this.step + 2);
		this.perLine = Math.ceil(this.scale / this.lines);
		this.paint();
		this.frames();
		this.outline();
		const spent = performance.now() - start;
		this.slowest = Math.max(this.slowest || 0, spent);
		document.documentElement.dataset.mapMs = this.slowest.toFixed(1);
	}

	/* How much of each dot of the screen is live: colours are mixed so. */
	coverage() {
		const dots = Math.max(1, Math.floor(this.size.width * this.size.ratio));
		const cover = new Float32Array(dots * this.lines);
		const perDot = this.perLine / dots;

		for (const piece of this.layout.pieces) {
			if (piece.event === null)
				continue;
			const from = piece.place / perDot, to = (piece.place + piece.bytes) / perDot;
			const first = Math.floor(from);
			const last = Math.min(cover.length - 1, Math.ceil(to) - 1);

			if (first === last) {
				cover[first] += to - from;
				continue;
			}
			cover[first] += first + 1 - from;
			cover[last] += to - last;
			if (last > first + 1)
				cover.fill(1, first + 1, last);
		}
		return {cover: cover, dots: dots, perDot: perDot};
	}

	paint() {
		const c = this.size.context, ratio = this.size.ratio;
		const {cover, dots, perDot} = this.coverage();
		const live = gp.Map.rgb(gp.colour('allocated'));
		const hole = gp.Map.rgb(gp.colour('hole'));
		const high = Math.round(this.row * ratio);

		for (let line = 0; line < this.lines; line++) {
			const left = Math.ceil(this.layout.bytes / perDot) - line * dots;
			const width = Math.min(dots, left);

			if (width <= 0)
				break;
			const image = c.createImageData(width, high);
			const words = new Uint32Array(image.data.buffer);
			for (let x = 0; x < width; x++) {
				const part = Math.min(1, cover[line * dots + x]);
				const mix = (i) => Math.round(hole[i] + (live[i] - hole[i]) * part);

				words[x] = 255 << 24 | mix(2) << 16 | mix(1) << 8 | mix(0);
			}
			for (let y = 1; y < high; y++)
				words.copyWithin(y * width, 0, width);
			c.putImageData(image, 0, Math.round(line * this.step * ratio));
		}
	}

	/* Where one block ends and another begins, and one segment. */
	frames() {
		const c = this.size.context;

		c.fillStyle = gp.colour('page');
		for (const piece of this.layout.pieces)
			if (piece.bytes / this.perLine * this.size.width >= 4)
				this.tick(c, piece.place, 1);
		c.fillStyle = gp.colour('ink');
		for (const segment of this.layout.segments)
			if (segment.place > 0)
				this.tick(c, segment.place, 1.5);
	}

	tick(c, place, width) {
		const line = Math.floor(place / this.perLine);

		c.fillRect((place / this.perLine - line) * this.size.width, line * this.step,
			   width, this.row);
	}

	/* Rectangles of a piece, one a line. */
	boxes(piece) {
		const boxes = [];
		let at = piece.place;
		const end = piece.place + piece.bytes;

		while (at < end) {
			const line = Math.floor(at / this.perLine);
			const to = Math.min(end, (line + 1) * this.perLine);
			const x = (at / this.perLine - line) * this.size.width;

			boxes.push({x: x, y: line * this.step,
				    width: Math.max(2, (to - at) / this.perLine * this.size.width)});
			at = to;
		}
		return boxes;
	}

	outline() {
		const c = this.size.context, piece = this.layout.pieces[this.chosen];

		if (!piece)
			return;
		c.strokeStyle = gp.colour('mark');
		c.lineWidth = 2;
		for (const box of this.boxes(piece))
			c.strokeRect(box.x, box.y, box.width, this.row);
	}

	choose(index) {
		if (!this.layout || index === this.chosen)
			return;
		this.chosen = index;
		this.tell(this.layout.pieces[index] || null, index === this.layout.largest);
		this.redraw();
	}

	find(event) {
		const box = this.canvas.getBoundingClientRect();
		const line = Math.floor((event.clientY - box.top) / this.step);
		const part = (event.clientX - box.left) / this.size.width;
		const place = (line + Math.max(0, Math.min(0.9999, part))) * this.perLine;

		return place < this.layout.bytes ? gp.after(this.places, place) - 1 : -1;
	}

	key(event) {
		const last = this.layout ? this.layout.pieces.length - 1 : -1;
		const near = (place) => Math.max(0, gp.after(this.places, place) - 1);
		const at = this.chosen < 0 ? 0 : this.places[this.chosen];
		const does = {
			ArrowLeft: () => Math.max(0, this.chosen - 1),
			ArrowRight: () => Math.min(last, this.chosen + 1),
			ArrowUp: () => near(Math.max(0, at - this.perLine)),
			ArrowDown: () => near(at + this.perLine),
			Home: () => 0,
			End: () => last,
			h: () => this.layout.largest,
		}[event.key];

		if (!does || last < 0 || event.ctrlKey || event.metaKey || event.altKey)
			return;
		this.choose(does());
		event.preventDefault();
	}

	listen() {
		for (const name of ['pointermove', 'pointerdown'])
			this.canvas.addEventListener(name, (event) => {
				if (this.layout)
					this.choose(this.find(event));
			});
		this.canvas.addEventListener('keydown', (event) => this.key(event));
		window.addEventListener('resize', this.redraw);
		matchMedia('(prefers-color-scheme: dark)')
			.addEventListener('change', this.redraw);
	}

	/* Of '#rrggbb'. */
	static rgb(text) {
		return [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16));
	}
};
