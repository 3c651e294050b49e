// SPDX-License-Identifier: Apache-2.0
// series.js - the plot of the selected series with its legend, or the group (group.js) or heat map (heat.js) of the last one.
import {$, el, put, title} from "./dom.js";
import {clock, grows, labelText, number, seconds, toNumber, trimmed, unitOf, valueUnit} from "./format.js";
import * as group from "./group.js";
import {HeatPlot} from "./heat.js";
import {COLORS, TimePlot, color, rates, valueText} from "./plot.js";
import * as save from "./save.js";
import {Poller, Problem, get, link} from "./server.js";
import {state, writeHash} from "./state.js";
import * as time from "./time.js";

let app; // hooks of app.js: {known, observe, podName, drawMetrics}

const slots = new Map(); // id -> colour
const histograms = new Map(); // id -> {snapshots, points} of quantiles
let lastHistory = null, lastGroup = null, lastHeat = null, asked = "";
let lines = [];             // of the last answers, also those that are hidden
const hidden = new Set();   // ids of lines that are not drawn
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
	hidden.clear();
	time.forgetOldest();
	writeHash();
	$("plots").hidden = !state.series.length;
	if (!state.series.length) {
		timePlot.destroy();
		heatPlot.destroy();
		lastHistory = lastGroup = lastHeat = null;
		asked = "";
		setPaused(false, writeHash);
	}
	drawView();
	drawLegend();
	app.drawMetrics();
	soon();
}

const onPlot = {
	onZoom: (from, to) => time.go(from, to),
	onCursor: (index) => drawLegend(index),
	onMark: (mark) => time.before(mark),
};
export const timePlot = new TimePlot($("plot"), onPlot);
export const heatPlot = new HeatPlot($("heat"), onPlot);

export function setPaused(on, write) {
	if (on) {
		time.pause();
		asked = question(); // the answer is already shown
	} else if (state.paused)
		time.live(write);
}

// The range has changed. The data at hand is shown until the new answer arrives.
function rangeChanged() {
	timePlot.unzoom();
	heatPlot.unzoom();
	redraw();
	historyPoller.soon();
}

// ---- views: one by one, grouped, siblings, heat map. The last selected series is what they are about.

const about = () => app.known.get(state.series[state.series.length - 1]);

function viewOf() {
	const kind = about()?.meta?.kind;
	return state.view === "heat" && kind && kind !== "histogram" || ["info", "stateset"].includes(kind) ? "lines" : state.view;
}

function drawView() {
	const view = viewOf(), meta = about()?.meta;
	for (const b of $("plot-views").children)
		b.setAttribute("aria-pressed", b.dataset.view === view);
	$("plot-views").querySelector("[data-view=heat]").hidden = !!meta && meta.kind !== "histogram";
	$("plot").hidden = view === "heat";
	$("heat").hidden = view !== "heat";
	$("heat-legend").hidden = view !== "heat";
	$("modes").hidden = view !== "lines";
	group.drawControls(meta);
}

$("plot-views").addEventListener("click", (e) => {
	const view = e.target.closest("[data-view]")?.dataset.view;
	if (!view)
		return;
	state.view = view;
	hidden.clear();
	writeHash();
	timePlot.unzoom();
	drawView();
	redraw();
	time.forgetOldest();
	historyPoller.soon();
});

function redraw() {
	const view = viewOf();
	if (view === "heat")
		drawHeat();
	else if (view === "lines")
		drawPlot();
	else
		drawGroup();
}

// Views that are not about series hide the plot.
const isShown = () => state.series.length > 0 && $("plots").offsetParent !== null;

// Keeps the values of selected series up to date even if the list shows other series.
async function askSelected() {
	if (!isShown())
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
	drawView();
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

// Maximum points of all lines together: few enough for a long range, but more than the plot has pixels.
const POINTS = 6000;

function pointsFor(lines) {
	const wide = Math.round($("plot").parentElement.clientWidth * 1.5);
	return Math.max(200, Math.min(2000, wide, Math.floor(POINTS / lines)));
}

// Identifies a request. For a fixed range, one answer is enough.
const question = () => JSON.stringify([state.series, viewOf(), state.from, state.to, state.window, state.by, state.fn,
                                       state.histogram, about()?.meta?.name]);

async function askHistory() {
	const q = question();
	if (!isShown() || state.from && q === asked)
		return;
	const view = viewOf();
	let answer;
	try {
		answer = await (view === "heat" ? askHeat() : view === "lines" ? askLines() : askGroup());
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		answer = {missing: e.message};
	}
	link.ok();
	if (q !== question())
		return historyPoller.soon();
	asked = answer.missing ? "" : q; // after a refusal, ask again
	if (view === "heat")
		lastHeat = answer;
	else if (view === "lines")
		lastHistory = {series: [], from: 0, to: 0, ...answer};
	else
		lastGroup = answer;
	redraw();
}

// In a short live window, quantiles cover half a second each; otherwise they come from the collector's history.
const isTracked = () => !state.from && state.window <= 10;

async function askLines() {
	const wanted = state.series.filter((id) => isQuantiles(app.known.get(id)?.meta));
	const [h, b, ...maps] = await Promise.all([
		// A rate needs a point before the first one.
		get("history", {series: state.series.join(), points: pointsFor(state.series.length), ...time.params(0.05)}),
		wanted.length && isTracked() ? get("buckets", {series: wanted.join()}) : null,
		...isTracked() ? [] : wanted.map((id) => get("heat", {series: id, columns: 400, ...time.params()})
			.then((map) => [id, map], () => null)),
	]);
	for (const s of b?.series || [])
		if (s.buckets)
			trackHistogram(s, b.time);
	for (const [id, map] of maps.filter(Boolean))
		takeQuantiles(id, map);
	for (const s of h.series)
		s.v = (s.v || []).map(toNumber);
	return h;
}

// Quantiles of each column of a heat map.
function takeQuantiles(id, map) {
	const bounds = map.bounds.map(toNumber), h = {snapshots: [], t: [], v: QUANTILES.map(() => [])};
	for (const [t, counts] of map.columns) {
		const total = counts.reduce((a, b) => a + b, 0);
		const buckets = counts.map((n, i) => [i ? bounds[i - 1] : map.low ?? -Infinity, bounds[i], n]);
		h.t.push(t);
		QUANTILES.forEach(([, q], i) => h.v[i].push(total ? quantile(buckets, total, map.exponential, q) : null));
	}
	histograms.set(id, h);
}

async function askGroup() {
	const of = about();
	if (!of?.meta)
		return {waiting: true};
	return group.ask(of, Math.min(120, pointsFor(8)));
}

async function askHeat() {
	const id = state.series[state.series.length - 1];
	const map = await get("heat", {series: id, columns: Math.max(60, Math.min(300, Math.round($("heat").clientWidth / 3) || 300)),
	                               ...time.params()});
	map.bounds = map.bounds.map(toNumber);
	return map;
}

// Returns the interval of a rate: as short as the plot's resolution, but with at least sixteen events.
function rateStep(s) {
	let changes = 0;
	for (let i = 1; i < s.v.length; i++)
		changes += s.v[i] !== s.v[i - 1];
	const total = s.v.length ? s.v[s.v.length - 1] - s.v[0] : 0;
	// Decimation hides changes, but an integer cannot have changed more often than its increase.
	let events = s.decimated ? Infinity : changes;
	if (Number.isInteger(total) && total >= 0)
		events = Math.min(events, total);
	return time.length() / ([250, 125, 50].find((n) => events >= 16 * n) ?? 25);
}

export function drawPlot() {
	const a = lastHistory;
	if (!a)
		return;
	lines = [];
	let recorded = 0, drawn = 0, decimated = false, clipped = false;
	const steps = new Set();
	for (const s of a.series) {
		const slot = slots.get(s.id);
		if (s.error || slot === undefined)
			continue;
		recorded += s.recorded;
		drawn += s.points;
		decimated ||= s.decimated;
		clipped ||= s.clipped;
		const meta = {name: s.name, kind: s.kind, unit: s.unit}, unit = valueUnit(meta);
		if (isQuantiles(meta)) {
			const h = histograms.get(s.id);
			QUANTILES.forEach(([name, , dash], i) => {
				if (h?.t.length)
					lines.push({key: `${s.id} ${name}`, id: s.id, part: name, slot, unit: unitOf(meta), dash, rate: false,
					            floor: true, t: h.t.slice(), v: h.v[i].slice()});
			});
			continue;
		}
		const running = grows(s.kind);
		if (running && state.mode === "rate") {
			const step = rateStep(s);
			steps.add(step);
			const [t, v] = rates(s.t, s.v, step);
			lines.push({key: s.id, id: s.id, slot, unit, rate: true,
			            floor: true, t, v});
		} else {
			lines.push({key: s.id, id: s.id, slot, unit, rate: false,
			            floor: running, t: s.t, v: s.v.map((v) => Number.isFinite(v) ? v : null)});
		}
	}
	const note = $("plot-empty"), any = lines.some((l) => l.t.length > 0);
	note.hidden = any;
	if (!any)
		put(note, a.missing || (a.series.every((s) => s.error) ? "These series no longer exist: their pods have expired." :
			recorded ? "Waiting for a second point …" : whyNoHistory()));
	const first = Math.min(...a.series.map((s) => s.t?.[0] ?? Infinity));
	for (const l of lines)
		l.label = [app.known.get(l.id)?.meta?.name || l.id, l.part, app.podName(app.known.get(l.id)?.pod)].filter(Boolean).join(" ");
	lines = lines.filter((l) => l.t.length);
	timePlot.draw(lines.filter((l) => !hidden.has(l.id)), ...time.show(a.to || Date.now() / 1000, Number.isFinite(first) && !clipped ? first : 0));
	$("plot").dataset.points = lines.reduce((n, l) => n + l.t.length, 0);
	put($("plot-status"), any ? `${number(recorded)} values recorded` +
	    (decimated ? `, ${number(drawn)} used: lowest and highest per step` : ", all used") +
	    (steps.size ? `; rates over ${[...steps].sort((x, y) => x - y).map((x) => trimmed(seconds(x))).join(", ")}` : "") +
	    (clipped ? "; the oldest were not read in time: choose a shorter range or fewer series" : "") : "");
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

function drawGroup() {
	const a = lastGroup, note = $("plot-empty");
	if (!a || a.waiting)
		return;
	lines = a.missing ? [] : group.lines(a).filter((l) => l.v.some((v) => v !== null)).map((l) => ({...l, label: l.name}));
	timePlot.draw(lines.filter((l) => !hidden.has(l.id)), ...time.show(a.time || Date.now() / 1000, 0));
	$("plot").dataset.points = lines.reduce((n, l) => n + l.t.length, 0);
	note.hidden = lines.length > 0;
	put(note, a.missing || a.groups.find((g) => g.error)?.error || "No values in this time.");
	put($("plot-status"), a.missing ? "" : group.statusOf(a));
	drawLegend();
}

function drawHeat() {
	const a = lastHeat, note = $("plot-empty");
	if (!a)
		return;
	if (!a.missing)
		heatPlot.drawHeat(a, ...time.show(a.time, 0));
	$("heat").dataset.cells = a.missing ? 0 : a.columns.reduce((n, [, c]) => n + c.filter(Boolean).length, 0);
	note.hidden = !a.missing && a.bounds.length > 0;
	put(note, a.missing || (a.kept ? "No observations in this time." : "No history of buckets: it is disabled, or its memory is full."));
	drawLegend();
}

// Entries of the legend: {id, name, second, state, title, weight, removable}.
function entries() {
	const view = viewOf();
	if (view === "group" || view === "siblings")
		return [...lines].reverse().map((l) => ({
			id: l.id, slot: l.slot, name: l.name || l.id, second: l.series === 1 ? "" : `${l.series} series together`,
			state: "", weight: l.weight, removable: false,
			title: Object.entries(l.labels || {}).map(([k, v]) => `${k}="${v}"`).join(" ") || "all series",
		}));
	const ids = view === "heat" ? state.series.slice(-1) : state.series;
	return ids.map((id) => {
		const k = app.known.get(id), meta = k?.meta, labels = meta ? labelText(meta.labels) : "";
		return {
			id, slot: slots.get(id), name: meta?.name || id, labels, removable: true, state: k?.gone ? "dead" : k?.pod?.state || "",
			second: k?.gone ? "expired" : k?.pod ? `${app.podName(k.pod)} ${k.pod.pid}` + (k.pod.state === "live" ? "" : ` · ${k.pod.state}`) : "",
			title: meta ? `${meta.name}{${labels}}` : id, help: meta?.help || "", weight: "",
		};
	});
}

function makeEntry() {
	const item = el("li");
	item.parts = {mark: el("i"), name: el("span", "name"), pod: el("span", "pod"), labels: el("span", "labels"),
	              value: el("span", "num"), remove: el("button", "remove", "✕")};
	item.parts.remove.type = "button";
	item.parts.remove.addEventListener("click", () => togglePlot(item.dataset.id));
	const text = item.parts.show = el("button", "what"), second = el("span", "second");
	second.append(item.parts.labels, item.parts.pod);
	text.append(item.parts.name, second);
	text.type = "button";
	text.addEventListener("click", (e) => showOrHide(item.dataset.id, e.ctrlKey || e.metaKey || e.shiftKey));
	item.append(item.parts.mark, text, item.parts.value, item.parts.remove);
	return item;
}

// Shows the line alone, or all lines again. If a key is held down (single), hides or shows only this line.
function showOrHide(id, single) {
	const others = [...new Set(lines.map((l) => l.id))].filter((x) => x !== id);
	if (single && !hidden.delete(id)) {
		hidden.add(id);
	} else if (!single) {
		const alone = !hidden.has(id) && others.every((x) => hidden.has(x));
		hidden.clear();
		for (const x of alone ? [] : others)
			hidden.add(x);
	}
	redraw();
}

// The legend's value of a line while the mouse is not on the plot.
const OF_LINE = {
	min: (v) => v.reduce((a, x) => x !== null && !(x >= a) ? x : a, null),
	max: (v) => v.reduce((a, x) => x !== null && !(x <= a) ? x : a, null),
};

function inRange(l) {
	const [from, to] = timePlot.range;
	return l.v.filter((v, i) => l.t[i] >= from && l.t[i] <= to);
}

function statOf(l) {
	const of = $("legend-sort").value;
	return of === "min" || of === "max" ? OF_LINE[of](inRange(l)) : lastOf(l.v);
}

function valuesOf(id, cursor) {
	return lines.filter((l) => l.id === id).map((l) => {
		const n = timePlot.lines.indexOf(l);
		const v = cursor === null || cursor === undefined || n < 0 ? statOf(l) : timePlot.valueAt(n, cursor);
		return l.part ? `${l.part} ${valueText(l, v)}` : valueText(l, v);
	}).join("\n");
}

// Sorts the legend by value, highest first, if the user asked for that.
function sorted(list) {
	if (!$("legend-sort").value)
		return list;
	const of = new Map();
	for (const l of lines)
		of.set(l.id, Math.max(of.get(l.id) ?? -Infinity, statOf(l) ?? -Infinity));
	return list.sort((x, y) => (of.get(y.id) ?? -Infinity) - (of.get(x.id) ?? -Infinity));
}

export function drawLegend(cursor) {
	const root = $("legend"), list = sorted(entries()), heat = viewOf() === "heat";
	$("legend-sort").hidden = heat || list.length < 2;
	while (root.children.length > list.length)
		root.lastChild.remove();
	list.forEach((e, i) => {
		const item = root.children[i] || root.appendChild(makeEntry()), p = item.parts;
		item.dataset.id = e.id;
		item.className = [e.weight, e.removable ? "" : "plain", heat ? "bare" : "", hidden.has(e.id) ? "hidden-line" : ""].join(" ").trim();
		p.show.disabled = heat;
		p.show.setAttribute("aria-pressed", !hidden.has(e.id));
		p.mark.style.background = e.weight === "thin" ? "var(--s7)" : color(e.slot);
		p.mark.hidden = heat;
		put(p.name, e.name);
		put(p.labels, e.labels || "");
		put(p.pod, e.second);
		p.pod.dataset.state = e.state;
		title(item, [e.title, e.help, heat ? "" : "click: only this one, or all again; with Ctrl: hide or show it"].filter(Boolean).join("\n"));
		p.remove.hidden = !e.removable;
		p.remove.setAttribute("aria-label", `Remove ${e.name} from the plot`);
		put(p.value, heat ? "" : valuesOf(e.id, cursor));
	});
	if (heat)
		put($("plot-status"), heatPlot.map ? heatPlot.under()?.text || `steps of ${heatPlot.map.step_seconds} s; point at a cell for its values` : "");
	const any = state.series.some((id) => app.known.get(id)?.meta?.kind === "histogram");
	$("histogram-modes").hidden = !any || viewOf() !== "lines";
}

function lastOf(v) {
	for (let i = v.length - 1; i >= 0; i--)
		if (v[i] !== null)
			return v[i];
	return null;
}

// Returns what save.js exports.
function whatIsShown() {
	const view = viewOf(), list = new Map(entries().map((e) => [e.id, e]));
	// Without a namespace, a pod's name is unique only on its host.
	const pairsOf = (k) => Object.entries({service: k.pod?.service || "", pod: k.pod?.pod || "",
		...k.pod?.namespace ? {namespace: k.pod.namespace} : {host: k.pod?.host || ""}, ...k.meta.labels}).filter(([, v]) => v).map(([key, v]) => [key, "=", v]);
	const known = state.series.map((id) => app.known.get(id)).filter((k) => k?.meta);
	const q = ["group", "siblings"].includes(view) && about()?.meta ? group.question(about()) : null;
	return {
		plot: timePlot, heat: view === "heat" ? heatPlot : null, entries: list,
		questions: q ? [{
			meta: about().meta, fn: q.fn, by: q.by ? q.by.split(",") : [],
			pairs: (q.match || []).map((m) => [m.slice(0, m.indexOf("=")), "=", m.slice(m.indexOf("=") + 1)]),
		}] : known.flatMap((k) => isQuantiles(k.meta) || view === "heat" ? ["p50", "p90", "p99"].map((fn) =>
			({meta: k.meta, pairs: pairsOf(k), fn, by: []})) : [{meta: k.meta, pairs: pairsOf(k), fn: "", by: []}]),
	};
}

$("legend-sort").addEventListener("change", () => drawLegend());

const selectedPoller = new Poller(askSelected, () => 1000);
// A long range changes slowly on the screen, so it is polled rarely.
export const historyPoller = new Poller(askHistory, () => state.from ? 1000 : viewOf() !== "lines" ? 1000 :
	state.window <= 10 ? 200 : state.window <= 60 ? 500 : state.window <= 900 ? 2000 : 5000);

export function soon() {
	selectedPoller.soon();
	historyPoller.soon();
}

export function start(knows) {
	app = knows;
	group.start(() => {
		group.drawControls(about()?.meta);
		historyPoller.soon();
	});
	time.start(rangeChanged);
	save.start(whatIsShown);
}
