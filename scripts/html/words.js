/* Figures as the reports write them, and colours of the page's style. */
'use strict';
const gp = {};

gp.size = function (bytes) {
	const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];
	let unit = 0;

	if (bytes < 0)
		return '-' + gp.size(-bytes);
	if (bytes < 1024)
		return bytes + ' B';
	while (unit < units.length - 1 && Math.round(bytes * 100) / 100 >= 1024) {
		bytes /= 1024;
		unit++;
	}
	return bytes.toFixed(2) + ' ' + units[unit];
};

gp.duration = function (ns) {
	const s = Math.floor(ns / 1e9);
	const two = (n) => String(n).padStart(2, '0');

	if (s >= 3600)
		return Math.floor(s / 3600) + ' h ' + two(Math.floor(s % 3600 / 60)) +
			' min';
	if (s >= 60)
		return Math.floor(s / 60) + ' min ' + two(s % 60) + ' s';
	if (ns >= 1e9)
		return (ns / 1e9).toFixed(2) + ' s';
	if (ns >= 1e6)
		return (ns / 1e6).toFixed(2) + ' ms';
	return ns >= 1e3 ? (ns / 1e3).toFixed(2) + ' us' : Math.round(ns) + ' ns';
};

/* A moment in a range of that length: as many digits as tell moments apart. */
gp.moment = function (ns, range) {
	if (!ns)
		return '0 s';
	if (range > 10 * 60e9)
		return gp.duration(ns);
	const unit = range >= 2e9 || ns >= 100e9 ? 's' :
		range >= 2e6 || ns >= 100e6 ? 'ms' : 'us';
	const per = {s: 1e9, ms: 1e6, us: 1e3}[unit];
	const digits = Math.max(0, Math.min(6, 2 - Math.floor(Math.log10(range / per))));
	return (ns / per).toFixed(digits) + ' ' + unit;
};

/* Steps of an axis from 0 to `most`: round figures, `wanted` or fewer. */
gp.steps = function (most, wanted, base) {
	const steps = [];
	const floor = Math.pow(base, Math.floor(Math.log(most / wanted) / Math.log(base)));
	const choices = base === 2 ? [1, 2] : [1, 2, 5, 10];
	let step = choices.map((c) => c * floor).find((c) => most / c <= wanted) ||
		10 * floor;

	if (!(most > 0))
		return [0];
	for (let at = 0; at <= most * 1.0001; at += step)
		steps.push(at);
	return steps;
};

gp.colour = function (name) {
	return getComputedStyle(document.documentElement)
		.getPropertyValue('--' + name).trim();
};

/* A canvas as large as its place, sharp on any screen. */
gp.fit = function (canvas, height) {
	const ratio = window.devicePixelRatio || 1;
	const width = Math.max(1, canvas.clientWidth);

	canvas.style.height = height + 'px';
	canvas.width = Math.round(width * ratio);
	canvas.height = Math.round(height * ratio);
	const context = canvas.getContext('2d');
	context.setTransform(ratio, 0, 0, ratio, 0, 0);
	context.font = '12px ' + getComputedStyle(document.body).fontFamily;
	return {context: context, width: width, height: height, ratio: ratio};
};

/* The number of values not above `value`; they are sorted. */
gp.after = function (values, value) {
	let low = 0, high = values.length;

	while (low < high) {
		const middle = (low + high) >> 1;

		if (values[middle] <= value)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
};

/* Run `work` before the next frame, once however often it was asked for. */
gp.soon = function (work) {
	let asked = false;

	return function () {
		if (asked)
			return;
		asked = true;
		requestAnimationFrame(() => {
			asked = false;
			work();
		});
	};
};
