/* The page of one run: the moment chosen on the curve is what the map shows. */
'use strict';

(function () {
	const started = performance.now();
	const data = JSON.parse(document.getElementById('data').textContent);
	const by = (id) => document.getElementById(id);
	let replay = null, events = null, pool = null, scale = 1;

	/* Times come as differences, and what the curve needs is put together. */
	function unpack(packed) {
		if (!packed || packed.t)
			return packed;
		const n = packed.dt.length, t = new Float64Array(n);
		let ns = packed.start;

		for (let i = 0; i < n; i++)
			t[i] = ns += packed.dt[i];
		packed.t = t;
		packed.at = Float64Array.from(packed.at, (granule) => granule * 512);
		packed.skew = packed.base % gp.PAGE;
		packed.from = n ? t[0] : packed.start;
		return packed;
	}

	/* The report's curve until the events begin, then theirs. */
	function points(curve) {
		const first = events && events.t.length ? events.t[0] : Infinity;
		const n = curve.t.findIndex((t) => t >= first);
		const old = n < 0 ? curve.t.length : n;
		const join = (a, b) => {
			const all = new Float64Array(old + b.length);

			all.set(a.slice(0, old));
			all.set(b, old);
			return all;
		};

		if (!events || !events.t.length)
			return curve;
		return {t: join(curve.t, events.t), a: join(curve.a, events.a),
			r: join(curve.r, events.r)};
	}

	function marks() {
		const found = [];

		for (let i = 0; events && i < events.t.length; i++)
			if ('ot'.includes(events.kind[i]))
				found.push({t: events.t[i],
					    kind: events.kind[i] === 'o' ? 'oom' : 'trim'});
		return found;
	}

	function describe(ns) {
		const level = curve.at(ns);
		const free = level.r - level.a;

		return gp.moment(ns, pool.end) + ': ' + gp.size(level.a) + ' allocated, ' +
			gp.size(level.r) + ' reserved, ' + gp.size(Math.max(0, free)) + ' cached';
	}

	const showMap = gp.soon(function () {
		if (!replay)
			return;
		const start = performance.now();
		const layout = replay.to(curve.moment);
		const level = curve.at(curve.moment);
		const hole = layout.pieces[layout.largest];
		const unseen = level.a - layout.live;

		by('map-says').textContent = layout.bytes ?
			gp.size(layout.bytes) + ' in ' + layout.segments.length +
			(layout.segments.length === 1 ? ' stretch: ' : ' stretches: ') +
			gp.size(layout.live) + ' live, ' +
			gp.size(layout.bytes - layout.live) + ' free' +
			(hole ? ', the largest hole ' + gp.size(hole.bytes) : '') +
			(unseen > 0.01 * level.a && unseen > 1 << 20 ? '. ' + gp.size(unseen) +
			 ' more was allocated before the events begin; where it lies, only a report ' +
			 'tells' : '') +
			'.' : 'Nothing is known of this moment.';
		by('piece').textContent = piece;
		map.show(layout, scale);
		const spent = performance.now() - start;
		document.documentElement.dataset.replayMs = spent.toFixed(1);
	});

	const piece = 'Point at a piece, or choose one with the arrow keys; h: the largest hole.';

	function tellPiece(found, largest) {
		if (!found) {
			by('piece').textContent = piece;
			return;
		}
		const address = '0x' + (events.base + found.at).toString(16);

		if (found.event === null) {
			by('piece').textContent = (largest ? 'The largest hole: ' : 'A hole: ') +
				gp.size(found.bytes) + ' at ' + address;
			return;
		}
		const asked = events.asked[found.event];
		by('piece').textContent = 'A block: ' + gp.size(found.bytes) +
			(asked !== found.bytes ? ', ' + gp.size(asked) + ' of it asked for,' : '') +
			' at ' + address + (found.since === null ?
				', since before the events begin' :
				', since ' + gp.moment(found.since, pool.end) + ', by thread ' +
				events.thread[found.event]) + allocatedIn(found.event);
	}

	/* The innermost call first; '' where nobody knows. */
	function allocatedIn(event) {
		const frames = data.sites[events.site[event] || 0];

		return frames.length ? '. Allocated in ' + frames.join(', called from ') : '';
	}

	function move(ns) {
		const words = describe(ns);

		by('moment').textContent = words;
		by('curve').setAttribute('aria-valuetext', words);
		by('curve').setAttribute('aria-valuenow', Math.round(ns / 1e6));
		showMap();
	}

	function choosePool(index) {
		pool = data.pools[index];
		events = unpack(data.events[pool.device]) || null;
		replay = events ? new gp.Replay(events) : null;
		by('map-part').hidden = !replay;
		by('no-map').hidden = !!replay;
		by('curve').setAttribute('aria-valuemax', Math.round(pool.end / 1e6));
		scale = Math.max(...pool.curve.r, 1);
		for (let i = 0; events && i < events.r.length; i++)
			scale = Math.max(scale, events.r[i]);
		curve.show(points(pool.curve), {cap: pool.cap, end: pool.end, marks: marks()});
		by('limit-says').textContent = pool.cap === null ? '' :
			'limit ' + gp.size(pool.cap) + (curve.capShown ? '' : ', far above');
		by('limit-key').hidden = pool.cap === null;
		const oom = marks().filter((mark) => mark.kind === 'oom').pop();
		by('to-oom').hidden = !oom;
		curve.choose(data.refused && oom ? oom.t : data.ended ? curve.peak() : pool.end);
	}

	const curve = new gp.Curve(by('curve'), move);
	const map = new gp.Map(by('map'), tellPiece);

	function lastOom() {
		const found = marks().filter((mark) => mark.kind === 'oom').pop();

		return found ? found.t : pool.end;
	}

	const buttons = {
		'to-start': () => curve.choose(0),
		'to-peak': () => curve.choose(curve.peak()),
		'to-oom': () => curve.choose(lastOom()),
		'to-end': () => curve.choose(pool.end),
		'zoom-in': () => curve.zoom(0.5),
		'zoom-out': () => curve.zoom(2),
		'zoom-all': () => curve.zoom(1e9),
	};
	for (const id of Object.keys(buttons))
		by(id).addEventListener('click', buttons[id]);
	if (by('pool'))
		by('pool').addEventListener('change', () => choosePool(+by('pool').value));
	if (data.pools.length)
		choosePool(0);
	document.documentElement.dataset.loadMs = (performance.now() - started).toFixed(1);
}());
