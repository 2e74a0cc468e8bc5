/* What lies where at a moment, from the events. */
'use strict';

gp.PAGE = 2 << 20; /* what the pool's handles are multiples of */

gp.KEEP = 16384; /* events between states that are kept, to go back to */

/* `events`: {t, kind, at, bytes, asked, thread, base}: one device's, in order.
 * `kind` is a string, one letter an event: a f alloc and free, m u map and unmap,
 * s g segment taken and given back. Addresses are counted from `base`.
 *
 * The events begin in the middle of things: what they show of the time before
 * is there from the start, and so is what stands behind the events in `at`,
 * `bytes` and `asked`. `mapped`, `plain`: the memory at first. `from`: nothing is
 * known of the time before. */
gp.Replay = class {
	constructor(events) {
		this.events = events;
		this.before();
		this.kept = [];
		this.start();
		this.keep();
	}

	pages(i) {
		const first = Math.floor((this.events.at[i] + this.skew()) / gp.PAGE);
		const last = Math.floor((this.events.at[i] + this.skew() +
					 Math.max(this.events.bytes[i], 1) - 1) / gp.PAGE);

		return [first, last];
	}

	/* So that pages begin where they do in the whole address. */
	skew() {
		return this.events.skew;
	}

	before() {
		const e = this.events, seen = new Set();

		this.live0 = new Map();
		for (let i = 0; i < e.t.length; i++)
			if (e.kind[i] === 'a' || e.kind[i] === 'f') {
				if (e.kind[i] === 'f' && !seen.has(e.at[i]))
					this.live0.set(e.at[i], ~i);
				seen.add(e.at[i]);
			}
		for (let i = e.t.length; i < e.at.length; i++)
			this.live0.set(e.at[i], ~i);
		this.pages0 = new Set();
		for (const at of e.mapped)
			this.pages0.add((at * 512 + this.skew()) / gp.PAGE);
		this.plain0 = new Map(e.plain.map(([at, bytes]) => [at * 512, bytes]));
	}

	start() {
		this.next = 0;
		this.live = new Map(this.live0);
		this.mapped = new Set(this.pages0);
		this.plain = new Map(this.plain0);
		for (const i of this.live0.values())
			this.cover(~i);
	}

	keep() {
		if (this.next % gp.KEEP === 0 && !this.kept[this.next / gp.KEEP])
			this.kept[this.next / gp.KEEP] = {
				live: new Map(this.live),
				mapped: new Set(this.mapped),
				plain: new Map(this.plain),
			};
	}

	/* To the last state kept that is not later than that event. */
	back(index) {
		const number = Math.min(this.kept.length - 1, Math.floor(index / gp.KEEP));
		const state = this.kept[number];

		this.next = number * gp.KEEP;
		this.live = new Map(state.live);
		this.mapped = new Set(state.mapped);
		this.plain = new Map(state.plain);
	}

	/* A block lies in memory, also if nobody saw it being mapped. */
	cover(i) {
		const [first, last] = this.pages(i), at = this.events.at[i];

		if (this.mapped.has(first) && this.mapped.has(last))
			return;
		for (const [start, bytes] of this.plain)
			if (start <= at && at < start + bytes)
				return;
		for (let page = first; page <= last; page++)
			this.mapped.add(page);
	}

	/* Play to the moment; what is live then. */
	to(ns) {
		const e = this.events, end = gp.after(e.t, ns);

		if (ns < e.from)
			return {segments: [], pieces: [], bytes: 0, live: 0, largest: -1};
		if (end < this.next)
			this.back(end);
		for (; this.next < end; this.next++) {
			this.keep();
			const i = this.next, kind = e.kind[i];

			if (kind === 'a') {
				this.live.set(e.at[i], i);
				this.cover(i);
			} else if (kind === 'f') {
				this.live.delete(e.at[i]);
			} else if (kind === 'm' || kind === 'u') {
				const [first, last] = this.pages(i);

				for (let page = first; page <= last; page++)
					if (kind === 'm')
						this.mapped.add(page);
					else
						this.mapped.delete(page);
				if (kind === 'u')
					this.gone(i);
			} else if (kind === 's') {
				this.plain.set(e.at[i], e.bytes[i]);
			} else if (kind === 'g') {
				this.plain.delete(e.at[i]);
				this.gone(i);
			}
		}
		return this.layout();
	}

	/* A context went away with what was live in it. */
	gone(i) {
		const start = this.events.at[i], end = start + this.events.bytes[i];

		for (const at of this.live.keys())
			if (start <= at && at < end)
				this.live.delete(at);
	}

	/* Segments, and blocks and holes in them, in order of address. */
	layout() {
		const segments = [...this.plain].map(([at, bytes]) => ({at: at, bytes: bytes}));
		let last = null;

		for (const page of Float64Array.from(this.mapped).sort()) {
			const at = page * gp.PAGE - this.skew();

			if (last && last.at + last.bytes === at) {
				last.bytes += gp.PAGE;
			} else {
				last = {at: at, bytes: gp.PAGE};
				segments.push(last);
			}
		}
		segments.sort((a, b) => a.at - b.at);
		return this.fill(segments);
	}

	fill(segments) {
		const e = this.events, pieces = [];
		const order = [...this.live.keys()].sort((a, b) => a - b);
		let next = 0, place = 0, live = 0, largest = -1;
		const hole = (at, bytes) => {
			if (bytes <= 0)
				return;
			pieces.push({at: at, bytes: bytes, place: place, event: null});
			if (largest < 0 || bytes > pieces[largest].bytes)
				largest = pieces.length - 1;
			place += bytes;
		};

		for (const segment of segments) {
			const end = segment.at + segment.bytes;
			let at = segment.at;

			segment.place = place;
			while (next < order.length && order[next] < segment.at)
				next++;
			for (; next < order.length && order[next] < end; next++) {
				const index = this.live.get(order[next]);
				const i = index < 0 ? ~index : index;
				const bytes = Math.min(e.bytes[i], end - order[next]);

				if (order[next] < at)
					continue; /* over another: its free was not seen */
				hole(at, order[next] - at);
				pieces.push({at: order[next], bytes: bytes, place: place,
					     event: i, since: index < 0 ? null : e.t[i]});
				place += bytes;
				live += bytes;
				at = order[next] + bytes;
			}
			hole(at, end - at);
		}
		return {segments: segments, pieces: pieces, bytes: place, live: live,
			largest: largest};
	}
};
