// SPDX-License-Identifier: Apache-2.0
// group.js - all series of a metric by the values of labels, and one pod among its siblings.
import {$, el, put} from "./dom.js";
import {grows, toNumber, unitOf, valueUnit} from "./format.js";
import {COLORS} from "./plot.js";
import {Problem, get} from "./server.js";
import {FUNCTIONS, state, writeHash} from "./state.js";
import * as time from "./time.js";

const SHOWN = 60; // maximum number of groups, as more would blur together
let changed = () => {};

// The function chosen for the metric; by default the 99th percentile for histograms, the rate for counters, otherwise the sum.
export const functionOf = (meta) => FUNCTIONS.includes(state.fn) && allowed(meta).includes(state.fn) ? state.fn :
	meta.kind === "histogram" ? "p99" : grows(meta.kind) ? "rate" : "sum";

function allowed(meta) {
	return FUNCTIONS.filter((f) => meta.kind === "histogram" ? !["avg", "sum"].includes(f) :
		!f.startsWith("p") && (grows(meta.kind) ? f !== "sum" : f !== "rate"));
}

const WORDS = {sum: "sum", rate: "rate", avg: "average", max: "maximum", min: "minimum"};

// ---- which labels there are

const labelsOf = new Map(); // metric -> names
let asking = "";

// A pattern for the metric's names in Prometheus, with or without the suffix of its samples.
const exposed = (name) => `${name.replace(/[^\w:]/g, ".")}(_total|_count)?`;

async function askLabels(meta) {
	if (labelsOf.has(meta.name) || asking === meta.name)
		return;
	asking = meta.name;
	try {
		const a = await get("labels", {"match[]": `{__name__=~"${exposed(meta.name)}"}`});
		labelsOf.set(meta.name, a.data.filter((l) => l !== "__name__"));
	} catch (e) {
		if (!(e instanceof Problem))
			throw e;
	} finally {
		asking = "";
	}
	drawControls(meta);
}

// ---- controls

function setSelect(select, names, value) {
	const key = names.join();
	if (select.dataset.key !== key) {
		select.dataset.key = key;
		select.replaceChildren(...names.map((f) => {
			const o = el("option", "", WORDS[f] || f);
			o.value = f;
			return o;
		}));
	}
	select.value = value;
}

export function drawControls(meta) {
	$("group-by").hidden = state.view !== "group" || !meta;
	if ($("group-by").hidden)
		return;
	setSelect($("fn"), allowed(meta), functionOf(meta));
	const names = [...new Set([...labelsOf.get(meta.name) || [], ...state.by])];
	const root = $("by");
	if (root.dataset.key !== names.join()) {
		root.dataset.key = names.join();
		root.replaceChildren(...names.map((name) => {
			const b = el("button", "", name);
			b.type = "button";
			b.dataset.label = name;
			return b;
		}));
	}
	for (const b of root.children)
		b.setAttribute("aria-pressed", state.by.includes(b.dataset.label));
}

$("fn").addEventListener("change", () => {
	state.fn = $("fn").value;
	writeHash();
	changed();
});
$("by").addEventListener("click", (e) => {
	const name = e.target.closest("[data-label]")?.dataset.label;
	if (!name)
		return;
	state.by = state.by.includes(name) ? state.by.filter((l) => l !== name) : [...state.by, name].slice(-8);
	writeHash();
	changed();
});

// ---- questions

// of: {meta, pod} of the series that was selected. null: no such metric.
export function question(of) {
	const {meta, pod} = of;
	if (state.view === "group") {
		askLabels(meta);
		return {metric: meta.name, by: state.by.join(), fn: functionOf(meta)};
	}
	// Siblings have the same service, namespace and labels, and differ only in the pod.
	const own = {...pod?.service && {service: pod.service}, ...pod?.namespace && {namespace: pod.namespace}};
	const match = Object.entries({...own, ...meta.labels}).map(([k, v]) => `${k}=${v}`);
	return {metric: meta.name, by: "pod", fn: functionOf(meta), match};
}

export async function ask(of, points) {
	const q = question(of), {match = [], ...rest} = q;
	const query = new URLSearchParams({...rest, ...time.params(), points, limit: SHOWN * 4});
	if (!q.by)
		query.delete("by");
	match.forEach((m) => query.append("match", m));
	return {...await get(`group?${query}`), q, siblings: state.view === "siblings", pod: of.pod?.pod};
}

function nameOf(labels) {
	const values = Object.values(labels);
	return !values.length ? "all" : values.map((v) => v || "(none)").join(" · ");
}

const lastOf = (v) => v.findLast((x) => x !== null) ?? null;

// Returns the lines of the plot. Only those with the highest values have different colours.
export function lines(a) {
	const meta = {name: a.metric, kind: a.kind, unit: a.unit};
	const unit = a.fn.startsWith("p") ? unitOf(meta) : valueUnit(meta);
	const all = a.groups.filter((g) => !g.error).map((g) => {
		const v = g.points.map(([, y]) => y === null ? null : toNumber(y)).map((y) => Number.isFinite(y) ? y : null);
		return {g, t: g.points.map(([t]) => t), v, last: lastOf(v)};
	});
	all.sort((x, y) => (y.last ?? -Infinity) - (x.last ?? -Infinity) || (nameOf(x.g.labels) < nameOf(y.g.labels) ? -1 : 1));
	if (a.siblings)
		all.sort((x, y) => (y.g.labels.pod === a.pod) - (x.g.labels.pod === a.pod));
	// A group keeps its colour while others overtake it.
	const slots = new Map(all.slice(0, COLORS).map((x) => nameOf(x.g.labels)).sort().map((name, i) => [name, i]));
	return all.slice(0, SHOWN).map(({g, t, v}) => {
		const name = nameOf(g.labels), mine = a.siblings && g.labels.pod === a.pod;
		return {
			key: name, id: name, name, series: g.series, labels: g.labels,
			slot: mine ? 0 : slots.get(name) ?? 0, unit, rate: a.per_second, floor: true, gaps: true,
			weight: mine ? "bold" : a.siblings || !slots.has(name) ? "thin" : "", t, v,
		};
	}).reverse(); // what stands out is drawn last
}

export function statusOf(a) {
	const refused = a.groups.filter((g) => g.error), word = WORDS[a.fn] || a.fn;
	const per = a.per_second && a.fn !== "rate" ? "rates, " : "";
	return `${a.siblings ? `${a.pod || "this one"} among ${Math.max(0, a.matching - 1)} siblings: ` : ""}${per}${word}, ` +
		`${a.matching} ${a.matching === 1 ? "group" : "groups"}` +
		(a.clipped || a.matching > SHOWN ? `, ${Math.min(a.groups.length, SHOWN)} shown` : "") +
		(a.clipped && a.groups.length < SHOWN * 4 ? ": too many series for one answer, choose a shorter time" : "") +
		` · steps of ${Number(a.step_seconds.toFixed(3))} s` +
		(refused.length ? ` · ${refused.length} refused: ${refused[0].error}` : "");
}

export function start(then) {
	changed = then;
}
