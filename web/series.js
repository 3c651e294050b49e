// SPDX-License-Identifier: Apache-2.0
// series.js - the plot of the selected series, and its legend.
import {$, el, put, title} from "./dom.js";
import {clock, labelText, number, rate, seconds, toNumber, trimmed, unitOf, withUnit} from "./format.js";
import {COLORS, TimePlot, color, rates} from "./plot.js";
import {Poller, Problem, get, link} from "./server.js";
import {state, writeHash} from "./state.js";

let app; // hooks of app.js: {known, observe, podName, drawMetrics}

const slots = new Map(); // id -> colour
const histograms = new Map(); // id -> {snapshots, points} of quantiles
let lastHistory = null;
const QUANTILES = [["p50", 0.5, undefined], ["p90", 0.9, [6, 3]], ["p99", 0.99, [2, 3]]];

export const slotOf = (id) => state.series.includes(id) ? slots.get(id) ?? -1 : -1;

function giveSlots() {
	for (const id of slots.keys())
		if (!state.series.includes(id))
			slots.delete(id);
	for (const id of state.series) {
		if (slots.has(id))
			continue;
		const used = new Set(slots.values());
		let slot = 0;
		while (used.has(slot))
			slot++;
		slots.set(id, slot);
	}
	for (const id of histograms.keys())
		if (!state.series.includes(id))
			histograms.delete(id);
}

export function togglePlot(id) {
	if (state.series.includes(id))
		state.series = state.series.filter((s) => s !== id);
	else
		state.series = [...state.series, id].slice(-COLORS);
	plotChanged();
}

export function plotChanged() {
	giveSlots();
	writeHash();
	$("plots").hidden = !state.series.length;
	if (!state.series.length) {
		timePlot.destroy();
		lastHistory = null;
		setPaused(false);
	}
	drawLegend();
	app.drawMetrics();
	selectedPoller.soon();
	historyPoller.soon();
}

export const timePlot = new TimePlot($("plot"), {
	onZoom: () => setPaused(true),
	onCursor: (index) => drawLegend(index),
});

export function setPaused(on) {
	if (state.paused && !on)
		timePlot.unzoom();
	state.paused = on;
	$("pause").setAttribute("aria-pressed", on);
	put($("pause"), on ? "Resume" : "Pause");
	if (!on)
		historyPoller.soon();
}

// Keeps the selected series known when the list shows others.
async function askSelected() {
	if (!state.series.length)
		return;
	const asked = state.series;
	const a = await get("metrics", {series: asked.join(), limit: COLORS});
	link.ok();
	const there = new Set();
	for (const m of a.metrics) {
		app.observe(m, a.pods[m.id.split("/")[0]], a.time);
		there.add(m.id);
	}
	for (const id of asked) {
		const k = app.known.get(id);
		if (k?.gone && there.has(id))
			k.gone = false;
		else if (!there.has(id))
			app.known.set(id, {spark: [], ...k, gone: true, seen: a.time});
	}
	drawLegend();
}

function quantile(buckets, total, exponential, q) {
	const rank = q * total;
	let below = 0;
	for (const [low, high, n] of buckets) {
		if (below + n >= rank && n) {
			const part = (rank - below) / n;
			if (!Number.isFinite(high))
				return low;
			if (!Number.isFinite(low))
				return high;
			return exponential && low > 0 ? low * Math.pow(high / low, part) : low + (high - low) * part;
		}
		below += n;
	}
	return null;
}

// Quantiles of the observations in the last step, from the difference of two answers.
function trackHistogram(s, time) {
	let h = histograms.get(s.id);
	if (!h)
		histograms.set(s.id, h = {snapshots: [], t: [], v: QUANTILES.map(() => [])});
	const now = new Map(s.buckets.map(([low, high, n]) => [String(high), [toNumber(low), toNumber(high), n]]));
	h.snapshots.push({time, now});
	const step = Math.max(0.5, state.window / 30);
	while (h.snapshots.length > 2 && time - h.snapshots[1].time >= step)
		h.snapshots.shift();
	if (h.snapshots.length < 2)
		return;
	const then = h.snapshots[0].now;
	const fresh = [...now].map(([key, [low, high, n]]) => [low, high, n - (then.get(key)?.[2] || 0)])
		.filter((b) => b[2] > 0).sort((a, b) => a[1] - b[1]);
	const total = fresh.reduce((sum, b) => sum + b[2], 0);
	h.t.push(time);
	QUANTILES.forEach(([, q], i) => h.v[i].push(total ? quantile(fresh, total, s.histogram.exponential, q) : null));
	while (h.t.length && h.t[0] < time - 61) {
		h.t.shift();
		h.v.forEach((v) => v.shift());
	}
}

const isQuantiles = (meta) => meta?.kind === "histogram" && state.histogram === "quantiles";

async function askHistory() {
	if (!state.series.length || state.paused)
		return;
	const width = Math.max(200, Math.min(2000, Math.round($("plot").clientWidth * 1.5)));
	const asked = state.series.join(), wanted = state.series.filter((id) => isQuantiles(app.known.get(id)?.meta));
	let a;
	try {
		const [h, b] = await Promise.all([
			// A rate needs a point before the first one.
			get("history", {series: asked, points: width, last: Math.ceil(state.window * 1050) + "ms"}),
			wanted.length ? get("buckets", {series: wanted.join()}) : null,
		]);
		a = h;
		for (const s of b?.series || [])
			if (s.buckets)
				trackHistogram(s, b.time);
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		a = {series: [], from: 0, to: 0, missing: e.message};
	}
	link.ok();
	if (asked !== state.series.join() || state.paused)
		return;
	for (const s of a.series)
		s.v = (s.v || []).map(toNumber);
	lastHistory = a;
	drawPlot();
}

// Interval of a rate: as short as the plot resolves, but at least sixteen events.
function rateStep(s) {
	let changes = 0;
	for (let i = 1; i < s.v.length; i++)
		changes += s.v[i] !== s.v[i - 1];
	const total = s.v.length ? s.v[s.v.length - 1] - s.v[0] : 0;
	// Decimation hides changes; an integer cannot hide more than its increase.
	let events = s.decimated ? Infinity : changes;
	if (Number.isInteger(total) && total >= 0)
		events = Math.min(events, total);
	return state.window / ([250, 125, 50].find((n) => events >= 16 * n) ?? 25);
}

export function drawPlot() {
	const a = lastHistory, lines = [];
	if (!a)
		return;
	let recorded = 0, drawn = 0, decimated = false;
	const steps = new Set();
	for (const s of a.series) {
		const slot = slots.get(s.id);
		if (s.error || slot === undefined)
			continue;
		recorded += s.recorded;
		drawn += s.points;
		decimated ||= s.decimated;
		const meta = {name: s.name, kind: s.kind, unit: s.unit}, unit = unitOf(meta);
		if (isQuantiles(meta)) {
			const h = histograms.get(s.id);
			QUANTILES.forEach(([name, , dash], i) => {
				if (h?.t.length)
					lines.push({key: `${s.id} ${name}`, id: s.id, part: name, slot, unit, dash, rate: false,
					            floor: true, t: h.t.slice(), v: h.v[i].slice()});
			});
			continue;
		}
		const running = s.kind === "counter" || s.kind === "histogram";
		if (running && state.mode === "rate") {
			const step = rateStep(s);
			steps.add(step);
			const [t, v] = rates(s.t, s.v, step);
			lines.push({key: s.id, id: s.id, slot, unit: s.kind === "counter" ? unit : "", rate: true,
			            floor: true, t, v});
		} else {
			lines.push({key: s.id, id: s.id, slot, unit: s.kind === "histogram" ? "" : unit, rate: false,
			            floor: running, t: s.t, v: s.v.map((v) => Number.isFinite(v) ? v : null)});
		}
	}
	const note = $("plot-empty"), any = lines.some((l) => l.t.length > 0);
	note.hidden = any;
	if (!any)
		put(note, a.missing || a.series.every((s) => s.error) ? "These series no longer exist: their pods have expired." :
			recorded ? "Waiting for a second point …" : whyNoHistory());
	const to = a.to || Date.now() / 1000;
	timePlot.draw(lines.filter((l) => l.t.length), to - state.window, to);
	$("plot").dataset.points = lines.reduce((n, l) => n + l.t.length, 0);
	put($("plot-status"), any ? `${number(recorded)} values recorded` +
	    (decimated ? `, ${number(drawn)} used: lowest and highest per step` : ", all used") +
	    (steps.size ? `; rates over ${[...steps].sort((x, y) => x - y).map((x) => trimmed(seconds(x))).join(", ")}` : "") +
	    (timePlot.zoomed ? " · zoomed: Resume continues" : "") : "");
	drawLegend();
}

function whyNoHistory() {
	const pods = state.series.map((id) => app.known.get(id)?.pod).filter(Boolean);
	const ended = pods.filter((p) => p.state !== "live");
	if (ended.length && ended.length === pods.length)
		return `${app.podName(ended[0])} is ${ended[0].state}` + (ended[0].last_read ?
			`, and was last read at ${clock(ended[0].last_read, false)}.` : ".");
	return "No history in this window: it is disabled, or its memory is full.";
}

export function drawLegend(cursor) {
	const root = $("legend"), plot = timePlot;
	while (root.children.length > state.series.length)
		root.lastChild.remove();
	state.series.forEach((id, i) => {
		let item = root.children[i];
		if (!item) {
			item = el("li");
			item.parts = {mark: el("i"), name: el("span", "name"), pod: el("span", "pod"), labels: el("span", "labels"),
			              value: el("span", "num"), remove: el("button", "remove", "✕")};
			item.parts.remove.type = "button";
			item.parts.remove.addEventListener("click", () => togglePlot(item.dataset.id));
			const text = el("span", "what");
			const second = el("span", "second");
			second.append(item.parts.labels, item.parts.pod);
			text.append(item.parts.name, second);
			item.append(item.parts.mark, text, item.parts.value, item.parts.remove);
			root.append(item);
		}
		const k = app.known.get(id), meta = k?.meta, p = item.parts;
		item.dataset.id = id;
		p.mark.style.background = color(slots.get(id));
		const labels = meta ? labelText(meta.labels) : "";
		put(p.name, meta ? meta.name : id);
		put(p.labels, labels);
		title(item, meta ? `${meta.name}{${labels}}\n${meta.help}` : id);
		put(p.pod, k?.gone ? "expired" : k?.pod ? `${app.podName(k.pod)} ${k.pod.pid}` + (k.pod.state === "live" ? "" : ` · ${k.pod.state}`) : "");
		p.pod.dataset.state = k?.gone ? "dead" : k?.pod?.state || "";
		p.remove.setAttribute("aria-label", `Remove ${meta?.name || id} from the plot`);
		const lines = plot.lines.map((l, n) => [l, n]).filter(([l]) => l.id === id);
		put(p.value, lines.map(([l, n]) => {
			const v = cursor === null || cursor === undefined ? lastOf(l.v) : plot.valueAt(n, cursor);
			const text = v === null ? "–" : l.rate ? rate(v, l.unit) : withUnit(v, l.unit);
			return l.part ? `${l.part} ${text}` : text;
		}).join("\n"));
	});
	const any = state.series.some((id) => app.known.get(id)?.meta?.kind === "histogram");
	$("histogram-modes").hidden = !any;
}

function lastOf(v) {
	for (let i = v.length - 1; i >= 0; i--)
		if (v[i] !== null)
			return v[i];
	return null;
}

const selectedPoller = new Poller(askSelected, () => 1000);
export const historyPoller = new Poller(askHistory, () => state.window > 10 ? 500 : 200);

export function start(knows) {
	app = knows;
}
