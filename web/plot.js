// SPDX-License-Identifier: Apache-2.0
// plot.js - lines over time, and bars of a histogram, drawn by uPlot (a global variable).
import {clock, number, rate, retimed, seconds, trimmed, withUnit, zone} from "./format.js";

const FONT = "11px system-ui, sans-serif";
// Axis steps for bytes: powers of two.
const BINARY = Array.from({length: 61}, (_, i) => 2 ** (i - 10));
const dark = matchMedia("(prefers-color-scheme: dark)");

// Returns a value of the style sheet. It is read only once, because reading forces the browser to apply pending style changes.
const styles = new Map();
dark.addEventListener("change", () => styles.clear());

function css(name) {
	if (!styles.has(name))
		styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(name).trim());
	return styles.get(name);
}

export const COLORS = 8;
export const color = (slot) => css(`--s${slot % COLORS}`);

function axisStyle() {
	return {
		stroke: css("--muted"), font: FONT,
		grid: {stroke: css("--grid"), width: 1},
		ticks: {stroke: css("--grid"), width: 1, size: 4},
	};
}

// The rate of a running total over equal intervals, which start at multiples of their width since the
// epoch: between the last points at or before both ends. A decreasing total leaves a gap.
export function rates(t, v, width) {
	const outT = [], outV = [];
	let slot = NaN, lastT = NaN, lastV = NaN;
	for (let i = 0; i < t.length; i++) {
		const here = Math.floor(t[i] / width);
		if (i && here !== slot && t[i - 1] > lastT) {
			const d = v[i - 1] - lastV;
			outT.push(t[i - 1]);
			outV.push(d >= 0 ? d / (t[i - 1] - lastT) : null);
			lastT = t[i - 1];
			lastV = v[i - 1];
		} else if (!i) {
			lastT = t[0];
			lastV = v[0];
		}
		slot = here;
	}
	return [outT, outV];
}

// All time plots, which share the cursor and the marks.
const plots = new Set();
let marks = [], following = false;

// marks: [{at, kind, text}] in their order.
export function setMarks(list) {
	marks = list;
	for (const p of plots)
		if (p.root.isConnected)
			p.plot?.redraw(false);
		else
			plots.delete(p);
}

// The kinds of the marks in a range of time.
export const marksIn = (from, to) => Object.keys(MARKS).filter((kind) => marks.some((m) => m.kind === kind && m.at >= from && m.at <= to));

// One listener for all plots, because plots come and go.
function rebuildAll() {
	for (const p of plots)
		p.rebuild();
}

zone.listeners.push(rebuildAll);
dark.addEventListener("change", rebuildAll);

function followCursor(from, u) {
	const {left, event} = u.cursor;
	if (following || !event && left >= 0)
		return; // moved by new data
	const at = left >= 0 ? u.posToVal(left, "x") : null;
	following = true;
	for (const p of plots) {
		if (p === from || !p.plot)
			continue;
		const x = at === null ? -1 : p.plot.valToPos(at, "x");
		const inside = x >= 0 && x <= p.plot.bbox.width / devicePixelRatio;
		p.plot.setCursor({left: inside ? x : -10, top: inside ? 0 : -10});
	}
	following = false;
}

export const MARKS = {
	incident: {color: "--bad", text: "an incident begins"}, death: {color: "--bad", text: "a pod dies"},
	deployment: {color: "--accent", text: "a deployment"}, start: {color: "--good", text: "a pod starts"},
	end: {color: "--muted", text: "an incident ends"}, collector: {color: "--warn", text: "the collector starts"},
};
const MARK_SIGN = {incident: "!", death: "\u2715", deployment: "\u2191", start: "+", end: "\u2713", collector: "C"};
const MARK_WEIGHT = ["end", "start", "collector", "deployment", "death", "incident"];
const MARK_APART = 24; // pixels between buttons
const TIP_LINES = 12;

export const valueText = (l, v) => v === null ? "–" : l.rate ? rate(v, l.unit) : withUnit(v, l.unit);

export class TimePlot {
	// onZoom(from, to): the user selected a range. onMark(mark): the user chose a mark; without it, marks are only lines.
	constructor(root, {onZoom, onCursor, onMark}) {
		this.root = root;
		this.onZoom = onZoom;
		this.onCursor = onCursor;
		this.lines = [];
		this.key = "";
		this.plot = null;
		this.range = [0, 1];
		this.zoomed = false;
		this.onMark = onMark;
		if (onMark) {
			this.strip = document.createElement("div");
			this.strip.className = "plot-marks";
			root.append(this.strip);
		}
		this.tip = document.createElement("div");
		this.tip.className = "plot-tip";
		this.tip.hidden = true;
		this.tip.setAttribute("aria-hidden", "true"); // the legend says the same
		root.append(this.tip);
		plots.add(this);
		new ResizeObserver(() => this.resize()).observe(root);
	}

	// lines: {key, slot, unit, rate, dash, floor, weight, t, v, label}; from, to: the range to show, in seconds.
	// label: the line's name beside the cursor; lines without a label are left out there.
	// weight: "thin" for lines in the background, "bold" for the most important one.
	draw(lines, from, to) {
		const key = lines.map((l) => [l.key, l.slot, l.unit, l.rate, l.weight].join()).join(";");
		this.lines = lines;
		if (!this.zoomed)
			this.range = [from, to];
		this.data = lines.length > 1 ?
			uPlot.join(lines.map((l) => [l.t, l.v]), lines.map((l) => l.v.map(() => 1))) :
			lines.length ? [lines[0].t, lines[0].v] : [[]];
		if (key !== this.key || !this.plot) {
			this.key = key;
			this.rebuild();
		} else {
			this.plot.setData(this.data, false);
			this.plot.setScale("x", {min: this.range[0], max: this.range[1]});
		}
	}

	unzoom() {
		this.zoomed = false;
	}

	size() {
		return {width: Math.max(120, this.root.clientWidth), height: Math.max(80, this.root.clientHeight)};
	}

	resize() {
		if (this.plot && this.root.clientWidth)
			this.plot.setSize(this.size());
		else if (this.lines.length && this.root.clientWidth)
			this.rebuild();
	}

	destroy() {
		this.plot?.destroy();
		this.plot = null;
		this.key = "";
		this.lines = [];
		this.zoomed = false;
		this.tip.hidden = true;
		this.strip?.replaceChildren();
	}

	// Shows the time under the mouse, and each line's value at that time. If the mouse is on another plot, u.cursor has no event.
	drawTip(u) {
		const {left, idx, event} = u.cursor, at = this.data[0]?.[idx], lines = this.lines.map((l, n) => [l, n]).filter(([l]) => l.label);
		this.tip.hidden = !event || left < 0 || at === undefined || !lines.length;
		if (this.tip.hidden)
			return;
		const head = document.createElement("b");
		head.textContent = clock(at);
		this.tip.replaceChildren(head, ...lines.slice(0, TIP_LINES).map(([l, n]) => {
			const row = document.createElement("div"), mark = document.createElement("i"), name = document.createElement("span"), value = document.createElement("span");
			mark.style.background = l.weight === "thin" ? css("--s7") : color(l.slot);
			name.textContent = l.label;
			value.textContent = valueText(l, this.valueAt(n, idx));
			row.append(mark, name, value);
			return row;
		}));
		const x = left + u.bbox.left / devicePixelRatio, right = x > this.root.clientWidth / 2;
		this.tip.style.left = right ? "" : `${x + 14}px`;
		this.tip.style.right = right ? `${this.root.clientWidth - x + 14}px` : "";
	}

	// Vertical lines at the marks, and a button for each that does not hide another.
	drawMarks(u) {
		const c = u.ctx, ratio = devicePixelRatio || 1, {left, top, width, height} = u.bbox;
		const shown = marks.filter((m) => m.at >= u.scales.x.min && m.at <= u.scales.x.max);
		c.save();
		c.lineWidth = ratio;
		c.setLineDash([2 * ratio, 3 * ratio]);
		for (const m of shown) {
			const x = Math.round(u.valToPos(m.at, "x", true)) + 0.5;
			c.strokeStyle = css(MARKS[m.kind]?.color || "--muted");
			c.globalAlpha = 0.8;
			c.beginPath();
			c.moveTo(x, top);
			c.lineTo(x, top + height);
			c.stroke();
		}
		c.restore();
		if (this.strip)
			this.drawStrip(u, shown, left / ratio, width / ratio);
	}

	drawStrip(u, shown, left, width) {
		const groups = [];
		for (const m of shown) {
			const x = u.valToPos(m.at, "x"), last = groups[groups.length - 1];
			if (last && x - last.x < MARK_APART)
				last.marks.push(m);
			else
				groups.push({x, marks: [m]});
		}
		while (this.strip.children.length > groups.length)
			this.strip.lastChild.remove();
		groups.forEach((g, i) => {
			let b = this.strip.children[i];
			if (!b) {
				b = document.createElement("button");
				b.type = "button";
				b.className = "plot-mark";
				b.addEventListener("click", () => this.onMark(b.mark));
				this.strip.append(b);
			}
			// The worst of several marks close together represents them all.
			b.mark = g.marks.reduce((a, m) => MARK_WEIGHT.indexOf(m.kind) > MARK_WEIGHT.indexOf(a.kind) ? m : a);
			b.dataset.kind = b.mark.kind;
			const text = g.marks.slice(0, 8).map((m) => `${clock(m.at, false)} ${retimed(m.text, m.at)}`).join("\n") +
				(g.marks.length > 8 ? `\n and ${g.marks.length - 8} more` : "");
			if (b.title !== text) {
				b.title = text;
				b.setAttribute("aria-label", `${text}. Show the seconds before.`);
			}
			b.textContent = g.marks.length > 1 ? String(Math.min(g.marks.length, 99)) : MARK_SIGN[b.mark.kind] || "";
			b.style.left = Math.max(0, Math.min(left + g.x, left + width)) + "px";
		});
	}

	scaleOf(l) {
		return (l.rate ? "rate " : "") + l.unit;
	}

	options() {
		const scales = [...new Set(this.lines.map(this.scaleOf))];
		const axes = [{
			...axisStyle(), space: 90, size: 26,
			values: (u, splits, axis, space, incr) => splits.map((s) => clock(s, incr < 1)),
		}];
		const scaleOpts = {x: {time: true, auto: false}};
		scales.forEach((scale, i) => {
			const line = this.lines.find((l) => this.scaleOf(l) === scale);
			const floor = this.lines.filter((l) => this.scaleOf(l) === scale).every((l) => l.floor);
			scaleOpts[scale] = {
				range: (u, min, max) => this.span(min, max, floor),
			};
			if (i > 1)
				return;
			axes.push({
				...axisStyle(), scale, side: i ? 1 : 3, space: 34,
				size: (u, values) => Math.max(44, ...(values || []).map((s) => s.length * 6.4 + 14)),
				grid: i ? {show: false} : axisStyle().grid,
				values: (u, splits) => splits.map((s) => trimmed(line.rate ? rate(s, line.unit) :
				                                                  withUnit(s, line.unit))),
				...(line.unit === "bytes" ? {incrs: BINARY} : {}),
			});
		});
		const stroke = (l) => l.weight === "thin" ? css("--s7") + "70" : color(l.slot);
		return {
			...this.size(),
			padding: [this.strip ? 24 : 10, scales.length > 1 ? 0 : 32, 0, 0],
			ms: 1e-3,
			tzDate: (t) => zone.utc ? uPlot.tzDate(new Date(t * 1e3), "UTC") : new Date(t * 1e3),
			legend: {show: false},
			cursor: {
				y: false, drag: {x: true, y: false, setScale: false},
				points: {size: 6, fill: (u, i) => stroke(this.lines[i - 1])},
			},
			scales: scaleOpts,
			axes,
			series: [{}, ...this.lines.map((l) => ({
				label: l.key, scale: this.scaleOf(l), stroke: stroke(l),
				width: {thin: 1, bold: 2.5}[l.weight] || 1.5,
				dash: l.dash, spanGaps: l.gaps !== true, points: {show: false},
			}))],
			hooks: {
				draw: [(u) => this.drawMarks(u)],
				setCursor: [(u) => {
					this.onCursor(u.cursor.idx, u.cursor.idxs);
					this.drawTip(u);
					followCursor(this, u);
				}],
				setSelect: [(u) => {
					if (u.select.width < 4)
						return;
					this.zoomed = true;
					this.range = [u.posToVal(u.select.left, "x"),
					              u.posToVal(u.select.left + u.select.width, "x")];
					u.setSelect({left: 0, width: 0, top: 0, height: 0}, false);
					u.setScale("x", {min: this.range[0], max: this.range[1]});
					this.onZoom(this.range[0], this.range[1]);
				}],
			},
		};
	}

	rebuild() {
		this.plot?.destroy();
		this.plot = null;
		if (!this.lines.length || !this.root.clientWidth)
			return;
		this.plot = new uPlot(this.options(), this.data, this.root);
		this.plot.setScale("x", {min: this.range[0], max: this.range[1]});
	}

	// The range of an axis: a margin of a tenth, and 0 at the bottom if values cannot be negative.
	span(min, max, floor) {
		if (min === null || max === null || !Number.isFinite(min) || !Number.isFinite(max))
			return [0, 1];
		if (floor && min >= 0 && (this.lines.every((l) => l.rate) || min < 0.5 * max))
			return [0, max > 0 ? max * 1.1 : 1];
		const air = max > min ? 0.1 * (max - min) : Math.abs(max) * 0.05 || 1;
		return [min - air, max + air];
	}

	// The value of a line at an index of the joined data: the latest one up to there, or null in a gap.
	valueAt(line, index) {
		const column = this.data?.[line + 1], hasGaps = this.lines[line]?.gaps;
		for (let i = index; column && i >= 0 && i > index - 200; i--)
			if (column[i] !== undefined && (column[i] !== null || hasGaps))
				return column[i];
		return null;
	}
}

// Bars over a logarithmic time axis. sets: [{slot, counts}], drawn over one another as shares.
export class LatencyPlot {
	constructor(root) {
		this.root = root;
		this.plot = null;
		this.key = "";
		new ResizeObserver(() => this.plot && root.clientWidth && this.plot.setSize(this.size()))
			.observe(root);
		dark.addEventListener("change", () => {
			this.key = "";
		});
	}

	size() {
		return {width: Math.max(120, this.root.clientWidth), height: Math.max(80, this.root.clientHeight)};
	}

	destroy() {
		this.plot?.destroy();
		this.plot = null;
		this.key = "";
	}

	// marks: [[name, seconds]]
	draw(bounds, sets, marks) {
		this.marks = marks;
		let first = bounds.length, last = -1;
		for (const s of sets)
			s.counts.forEach((n, i) => {
				if (n > 0) {
					first = Math.min(first, i);
					last = Math.max(last, i);
				}
			});
		if (last < 0) {
			this.destroy();
			return false;
		}
		first = Math.max(0, Math.floor(first / 4) * 4 - 4);
		last = Math.min(bounds.length - 1, Math.ceil((last + 1) / 4) * 4 + 4);
		const x = [], columns = sets.map(() => []);
		for (let i = first; i <= last; i++) {
			x.push(i);
			sets.forEach((s, k) => {
				const total = s.counts.reduce((a, b) => a + b, 0) || 1;
				columns[k].push(s.counts[i] / total);
			});
		}
		const data = [x, ...columns], key = [first, last, sets.map((s) => s.slot)].join();
		if (key === this.key && this.plot) {
			this.plot.setData(data);
			return true;
		}
		this.destroy();
		this.key = key;
		const bars = uPlot.paths.bars({size: [0.92, 40], align: -1});
		this.plot = new uPlot({
			...this.size(),
			padding: [10, 24, 0, 0],
			legend: {show: false},
			cursor: {y: false, drag: {x: false, y: false}, points: {show: false}},
			scales: {x: {time: false, range: () => [first - 1, last + 0.5]},
			         y: {range: (u, min, max) => [0, (max || 1) * 1.1]}},
			axes: [
				{...axisStyle(), size: 26, space: 60,
				 splits: () => x.filter((i) => i % 4 === 0),
				 filter: (u, splits) => {
					 const every = Math.max(1, Math.ceil(splits.length * 70 / u.bbox.width * devicePixelRatio));
					 return splits.map((s, i) => i % every ? null : s);
				 },
				 values: (u, splits) => splits.map((i) => i === null ? "" : trimmed(seconds(bounds[i])))},
				{...axisStyle(), size: 50, space: 34,
				 values: (u, splits) => splits.map((s) => number(s * 100) + "\u202f%")},
			],
			hooks: {draw: [(u) => this.drawMarks(u, bounds)]},
			series: [{}, ...sets.map((s) => ({
				paths: bars, stroke: color(s.slot), fill: color(s.slot) + (s.light ? "40" : "b0"),
				width: 0, points: {show: false},
			}))],
		}, data, this.root);
		return true;
	}

	// A dashed line at each quantile, with its name, placed to avoid the previous one.
	drawMarks(u, bounds) {
		const c = u.ctx, ratio = devicePixelRatio || 1;
		let free = -Infinity;
		c.save();
		c.font = `${11 * ratio}px system-ui, sans-serif`;
		c.fillStyle = c.strokeStyle = css("--text");
		c.textAlign = "left";
		c.textBaseline = "top";
		c.lineWidth = ratio;
		c.setLineDash([3 * ratio, 3 * ratio]);
		for (const [name, v] of this.marks) {
			const x = Math.round(u.valToPos(4 * Math.log2(v / bounds[0]), "x", true)) + 0.5;
			if (x < u.bbox.left || x > u.bbox.left + u.bbox.width)
				continue;
			c.globalAlpha = 0.55;
			c.beginPath();
			c.moveTo(x, u.bbox.top);
			c.lineTo(x, u.bbox.top + u.bbox.height);
			c.stroke();
			c.globalAlpha = 1;
			const text = `${name} ${seconds(v)}`, at = Math.max(x + 4 * ratio, free);
			c.fillText(text, at, u.bbox.top + 2 * ratio);
			free = at + c.measureText(text).width + 10 * ratio;
		}
		c.restore();
	}
}

const waiting = new Map(); // canvas -> its sparkline

// A sparkline of 60 s. All sparklines are drawn after all rows have been filled: reading a canvas' size between changes to the
// page would make the browser compute the layout each time.
export function sparkline(canvas, ...what) {
	if (!waiting.size)
		queueMicrotask(drawSparklines);
	waiting.set(canvas, what);
}

function drawSparklines() {
	const all = [...waiting].map(([canvas, what]) => [canvas, canvas.clientWidth, canvas.clientHeight, ...what]);
	waiting.clear();
	for (const one of all)
		drawSparkline(...one);
}

function drawSparkline(canvas, w, h, values, stroke, fromZero) {
	const ratio = devicePixelRatio || 1;
	if (!w || !h)
		return;
	if (canvas.width !== Math.round(w * ratio)) {
		canvas.width = Math.round(w * ratio);
		canvas.height = Math.round(h * ratio);
	}
	const c = canvas.getContext("2d"), n = values.length;
	c.setTransform(ratio, 0, 0, ratio, 0, 0);
	c.clearRect(0, 0, w, h);
	let min = Infinity, max = -Infinity, seen = 0;
	for (const v of values) {
		if (v === null || !Number.isFinite(v))
			continue;
		min = Math.min(min, v);
		max = Math.max(max, v);
		seen++;
	}
	if (seen < 2)
		return;
	if (fromZero)
		min = Math.min(0, min);
	c.strokeStyle = stroke;
	c.lineWidth = 1.25;
	c.lineJoin = "round";
	c.beginPath();
	let open = false;
	for (let i = 0; i < n; i++) {
		const v = values[i];
		if (v === null || !Number.isFinite(v)) {
			open = false;
			continue;
		}
		const x = w - 1 - (n - 1 - i) * (w - 2) / 59;
		const y = max > min ? h - 2 - (v - min) / (max - min) * (h - 4) : h / 2;
		if (open)
			c.lineTo(x, y);
		else
			c.moveTo(x, y);
		open = true;
	}
	c.stroke();
}
