// SPDX-License-Identifier: Apache-2.0
// cause.js - one incident: its sentence, the metrics to blame as plots, its members, its kept traces, and the connections
// and the host of its cause. The address names it, and works after it has ended for as long as the collector keeps it.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, put, title} from "./dom.js";
import {limitKind} from "./flows.js";
import {age, bytes, clock, dateTime, grouped, many, number, rate, seconds, toNumber, unitOf} from "./format.js";
import {TimePlot, rates} from "./plot.js";
import {Poller, Problem, get, link} from "./server.js";
import * as services from "./services.js";
import {state} from "./state.js";
import {REASONS, WHY} from "./traces.js";
import {waterfall} from "./waterfall.js";

const BEFORE = 30, AFTER = 15; // seconds that are shown around an anomaly
const BLAMED = 4, MEMBERS = 12, TRACES = 5, FLOWS = 4;

let app = null; // {podName, showMetrics, showTrace}
let found = null;     // the incident
let shown = "";       // the address that is drawn
let plots = [];       // {root, plot, name, blame, ids}
let picked = "";      // the trace that is drawn

const missing = (e) => {
	if (!(e instanceof Problem) || !e.status)
		throw e;
	return null;
};
const ask = (path, params) => get(path, params).catch(missing);

// By its id, or by a member of this instance that had an anomaly then, or the latest.
function find(list) {
	const [instance, begin] = state.incident.split("@");
	const is = (m) => m.instance === instance && (!begin || begin > m.begin - 0.01 && !(m.end && begin > m.last + 0.01));
	return list.find((i) => i.id === state.incident) || list.find((i) => i.members.some(is)) || null;
}

function drawHead(i, now) {
	const a = i.cause, name = anomalies.nameOf(a), [text, badge, tip] = anomalies.stateOf(i);
	put($("cause-title"), name + (a.service && a.service !== a.pod && !name.startsWith(a.service) ? ` of ${a.service}` : ""));
	put($("cause-state"), text);
	title($("cause-state"), tip);
	$("cause-state").className = `badge ${badge}`;
	put($("cause-when"), `since ${dateTime(i.begin)} on ${a.host || "an unknown host"}, ` +
		(i.end ? `for ${age(i.end - i.begin)}` : `for ${age(now - i.begin)} so far`));
	put($("cause-sentence"), i.sentence);
	$("cause-sentence").classList.toggle("load", i.kind === "load");
}

// ---- metrics to blame ------------------------------------------------------------------------------

const same = (labels, m) => labels.every(([k, v]) => m.labels[k] === v);

function makePlots(a) {
	for (const p of plots)
		p.plot.destroy();
	plots = a.blame.slice(0, BLAMED).map((b) => {
		const box = el("figure"), root = el("div", "plot small"), m = anomalies.blamed(b.metric), cap = el("figcaption");
		cap.append(el("b", "", anomalies.blameChange(b)), el("span", "dim", ` ${Math.round(100 * b.share)}\u202f% of the evidence`));
		root.setAttribute("role", "img");
		root.setAttribute("aria-label", `${b.metric} over time`);
		const note = el("p", "plot-note dim");
		note.hidden = true;
		const area = el("div", "area");
		area.append(root, note);
		box.append(cap, area);
		box.dataset.metric = b.metric;
		return {box, root, note, ...m, blame: b, ids: null, plot: new TimePlot(root, {onZoom: () => {}, onCursor: () => {}})};
	});
	$("blamed").replaceChildren(...plots.map((p) => p.box));
	if (!plots.length)
		$("blamed").append(el("p", "dim", "No metric stands out."));
}

// The line of a histogram's quantile or mean, from its buckets over time where the collector keeps them.
async function lineOfGroup(a, p, from, to) {
	if (!p.part || p.part === "count")
		return null;
	const query = new URLSearchParams({metric: p.name, by: "pod", fn: p.part === "p90" ? "p90" : "p50", start: from, end: to, points: 400});
	for (const [k, v] of [["service", a.service], ["pod", a.pod], ["process", a.pid ? String(a.pid) : ""], ...p.labels])
		if (v)
			query.append("match", `${k}=${v}`);
	const g = await ask(`group?${query}`), points = g?.groups?.[0]?.points;
	return points?.length ? {t: points.map((x) => x[0]), v: points.map((x) => x[1]), unit: unitOf({name: p.name, unit: g.unit}), rate: false} : null;
}

// The line of a counter or gauge, or of the observations of a histogram.
async function lineOfHistory(a, p, from, now) {
	if (!p.ids) {
		const m = await ask("metrics", {pod: a.instance, q: p.name, limit: 200});
		p.ids = (m?.metrics || []).filter((x) => x.name === p.name && same(p.labels, x)).slice(0, 1);
	}
	if (!p.ids.length)
		return null;
	const h = await ask("history", {series: p.ids[0].id, last: `${Math.min(86400, Math.ceil(now - from))}s`, points: 2000}), s = h?.series?.[0];
	if (!s?.v)
		return null;
	const v = s.v.map(toNumber), running = s.kind === "counter" || s.kind === "histogram";
	const [t, y] = running ? rates(s.t, v, 0.5) : [s.t, v];
	return {t, v: y, unit: s.kind === "histogram" ? "" : unitOf(s), rate: running};
}

async function drawPlots(a, now) {
	const from = a.begin - BEFORE, to = a.end ? a.last + AFTER : now;
	await Promise.all(plots.map(async (p) => {
		const line = await lineOfGroup(a, p, from, to) || await lineOfHistory(a, p, from, now);
		if (found?.cause.id !== a.id)
			return;
		const inside = line?.t.some((t) => t >= from && t <= to);
		p.note.hidden = !!inside;
		put(p.note, inside ? "" : "The history of this time is no longer kept.");
		p.box.dataset.points = inside ? line.t.length : 0;
		if (!inside)
			return p.plot.destroy();
		const top = Math.max(...line.v.filter((v) => v !== null && Number.isFinite(v)), 0);
		p.plot.draw([{key: p.name, slot: 1, floor: true, ...line},
		             // When it was anomalous, below the line.
		             {key: "anomalous", slot: 3, floor: true, unit: line.unit, rate: line.rate, dash: [2, 2],
		              t: [a.begin, a.begin + 1e-3, a.end ? a.last : now], v: [0, 0.02 * top, 0.02 * top]}], from, to);
	}));
}

// ---- score and members ------------------------------------------------------------------------------------

const scorePlot = new TimePlot($("scores"), {onZoom: () => {}, onCursor: () => {}});

async function drawScore(a, now) {
	const s = await ask("scores", {instance: a.instance});
	if (!s?.t.length) {
		put($("score-title"), "Its score is no longer kept");
		$("scores").hidden = true;
		return scorePlot.destroy();
	}
	put($("score-title"), `Its score${s.verdict.learning ? ", still learning" : s.verdict.drift ? ", drifting: train a new model" : ""}`);
	$("scores").hidden = false;
	scorePlot.draw([
		{key: "score", slot: 0, unit: "", rate: false, floor: true, t: s.t, v: s.score},
		{key: "threshold", slot: 7, unit: "", rate: false, floor: true, dash: [4, 4], t: s.t, v: s.threshold},
	], Math.max(s.t[0], a.begin - BEFORE), a.end ? Math.max(a.last + AFTER, s.t[0] + 1) : now);
	$("scores").dataset.points = s.t.length;
	$("scores").dataset.highest = Math.max(0, ...s.score);
}

// The members by their evidence, on the scale of the cause's: suspicion where callers are known.
function drawMembers(i) {
	const of = (m) => (i.cause.suspicion >= 1 ? m.suspicion : m.peak) || 0, box = $("suspects");
	const rows = [...i.members].sort((x, y) => (y.instance === i.cause.instance) - (x.instance === i.cause.instance) || of(y) - of(x)).slice(0, MEMBERS);
	const top = Math.max(1, ...rows.map(of)) * 1.05, left = i.members.length + i.members_left_out - rows.length;
	box.replaceChildren(...rows.map((m) => {
		const row = el("div", "suspect"), name = el("span", "name", anomalies.nameOf(m)), track = el("span", "track"), bar = el("i"), mark = el("b");
		title(name, `${m.service} ${m.pod} on ${m.host}, ${clock(m.begin, false)} to ${m.end ? clock(m.last, false) : "now"}`);
		bar.style.width = `${100 * of(m) / top}%`;
		mark.style.left = `${100 / top}%`;
		track.append(bar, mark);
		row.append(name, track, el("span", "num", number(Number(of(m).toPrecision(3)))));
		row.classList.toggle("over", of(m) > 1);
		row.classList.toggle("self", m.instance === i.cause.instance);
		return row;
	}));
	if (left)
		box.append(el("p", "dim", `and ${grouped(left)} more`));
}

// ---- traces --------------------------------------------------------------------------------------------------

async function drawTraces(a, now) {
	const t = await ask("traces", {limit: 500}), box = $("cause-traces"), end = a.end ? a.last : now;
	const of = (t?.traces || []).filter((x) => x.trace_id === a.trace ||
		(!a.service || x.service === a.service) && x.start + x.duration_seconds >= a.begin - 1 && x.start <= end + 1);
	const worth = (x) => (x.trace_id === a.trace ? 8 : 0) + (x.error ? 4 : 0) + ({error: 3, slow: 2, verdict: 1}[x.reason] || 0);
	const best = of.sort((x, y) => worth(y) - worth(x) || y.duration_seconds - x.duration_seconds).slice(0, TRACES);
	put($("cause-traces-note"), !t ? "The collector knows no traces." : !best.length ?
		(t.roots ? "No trace of this time was slow or failed: this fault does not show in requests." : "No pod publishes spans.") :
		of.length > best.length ? `${grouped(best.length)} of ${grouped(of.length)} that were kept in this time.` : "");
	if (!best.some((x) => x.trace_id === picked))
		picked = best[0]?.trace_id || "";
	const key = best.map((x) => x.trace_id).join() + picked;
	if (box.dataset.key !== key) {
		const focused = document.activeElement?.dataset?.trace;
		box.dataset.key = key;
		box.replaceChildren(...best.map((x) => {
			const b = el("button", "trace");
			b.type = "button";
			b.dataset.trace = x.trace_id;
			b.setAttribute("aria-pressed", x.trace_id === picked);
			b.append(el("span", `badge ${REASONS[x.reason] || "idle"}`, x.reason), el("b", "", x.root || "(root not seen)"), el("span", "", seconds(x.duration_seconds)),
			         el("span", "dim", `${clock(x.start, false)} · ${many(x.spans_read, "span")}`));
			title(b, `${x.trace_id}: ${WHY[x.reason] || ""}`);
			return b;
		}));
		box.querySelector(`[data-trace="${focused}"]`)?.focus();
	}
	const root = $("cause-waterfall");
	if (!picked)
		return root.replaceChildren();
	if (root.dataset.trace === picked)
		return;
	const one = await ask(`traces/${picked}`);
	if (!one?.spans.length)
		return;
	root.dataset.trace = picked;
	waterfall(root, one);
}

// ---- connections and the host -----------------------------------------------------------------------------------

async function drawFlows(a) {
	const f = await ask("flows", {limit: 1000, sort: "limit"}), box = $("cause-flows");
	const of = (f?.flows || []).filter((x) => x.role !== "listener" && (x.instance === a.instance || a.pid && x.pid === a.pid && x.host === a.host ||
		a.pod && x.pod === a.pod && x.namespace === (a.namespace || "")));
	const by = new Map();
	for (const x of of)
		by.set(x.limit, [...by.get(x.limit) || [], x]);
	const groups = [...by.values()].sort((x, y) => ["bad", "warn", "good"].indexOf(limitKind(x[0].limit)) - ["bad", "warn", "good"].indexOf(limitKind(y[0].limit)) ||
		y.length - x.length).slice(0, FLOWS);
	const says = groups.map((g) => {
		const rtt = Math.max(...g.map((x) => x.rtt_seconds || 0));
		return [g[0].limit, g.length, `${many(g.length, "connection")}, ${rate(g.reduce((n, x) => n + x.bytes_per_second, 0), "bytes")}` +
			(rtt ? `, RTT up to ${seconds(rtt)}` : "") + (g.some((x) => x.retransmits) ? `, ${grouped(g.reduce((n, x) => n + x.retransmits, 0))} retransmitted` : ""), g[0].why];
	});
	const key = JSON.stringify(says) || "";
	if (box.dataset.key === key)
		return;
	box.dataset.key = key;
	box.replaceChildren(...says.map(([limit, , what, why]) => {
		const row = el("div", "why-row"), head = el("div");
		head.append(el("span", `badge ${limitKind(limit)}`, limit || "unknown"), el("span", "dim", ` ${what}`));
		row.append(head, el("p", "", why));
		return row;
	}));
	if (!says.length)
		box.append(el("p", "dim", f ? "None of its connections is open now." : "No connections are known: sidelight agent --tcp observes them."));
}

function drawHost(a) {
	const s = services.ofInstance(a.instance) || services.named(a.service), at = s?.saturation, p = at?.pressure, box = $("cause-pressure");
	const ratio = (v) => (100 * v).toFixed(1) + "\u202f%";
	const facts = [["CPU", typeof at?.cpu_ratio === "number" ? ratio(at.cpu_ratio) : typeof at?.cpu_cores === "number" ? `${number(Number(at.cpu_cores.toPrecision(3)))} cores` : ""],
	               ["Memory", typeof at?.memory_ratio === "number" ? ratio(at.memory_ratio) : typeof at?.memory_bytes === "number" ? bytes(at.memory_bytes) : ""],
	               ...["cpu", "memory", "io"].map((k) => [`Waiting for ${k === "io" ? "I/O" : k === "cpu" ? "CPU" : k}`, typeof p?.[k] === "number" ? ratio(p[k]) : ""])].filter(([, v]) => v);
	put($("cause-pressure-title"), `Pressure on ${a.host || "its host"}, now`);
	const key = JSON.stringify(facts);
	if (box.dataset.key === key)
		return;
	box.dataset.key = key;
	const list = el("dl", "facts");
	for (const [k, v] of facts) {
		const one = el("div");
		one.append(el("dt", "", k), el("dd", "", v));
		list.append(one);
	}
	box.replaceChildren(facts.length ? list : el("p", "dim", "It is not known: sidelight agent --host measures it."));
}

// ---- all of it -----------------------------------------------------------------------------------------------------

async function draw() {
	$("tab-cause").hidden = !state.incident;
	if (state.tab !== "cause")
		return;
	const empty = $("cause-empty");
	if (!state.incident) {
		$("cause").hidden = true;
		empty.hidden = false;
		return emptyState(empty, "No incident is selected", "Open one from the services or the incidents.");
	}
	const address = state.incident;
	let list = await get("incidents", {limit: 20});
	if (!find(list.incidents))
		list = await get("incidents", {limit: 256});
	link.ok();
	// The plots and traces are of the time of the incident.
	const i = find(anomalies.shown(list.incidents)), a = i && {...i.cause, begin: i.begin, last: i.last, end: i.end, trace: i.trace};
	$("cause").hidden = !i;
	empty.hidden = !!i;
	if (!i) {
		found = null;
		shown = "";
		const instance = address.split(/[@-]/)[0];
		return emptyState(empty, "This incident is not known any more", "The collector keeps the last 256, and forgets them when it starts again.",
		                  ["Show the metrics of its pod", () => app.showMetrics(instance)]);
	}
	found = i;
	if (shown !== addressKey(a)) {
		shown = addressKey(a);
		picked = "";
		delete $("cause-waterfall").dataset.trace;
		$("cause-waterfall").replaceChildren();
		makePlots(a);
	}
	drawHead(i, list.time);
	drawMembers(i);
	drawHost(a);
	await Promise.all([drawPlots(a, list.time), drawScore(a, list.time), drawTraces(a, list.time), drawFlows(a)]);
}

// What is to blame may change while it lasts.
const addressKey = (a) => anomalies.addressOf(a) + a.blame.slice(0, BLAMED).map((b) => b.metric).join();

// Nothing changes once it is over, except for what is forgotten.
const poller = new Poller(draw, () => found?.end ? 5000 : 1000, "analysis");
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	$("cause-metrics").addEventListener("click", () => app.showMetrics(found?.cause.instance || state.incident.split(/[@-]/)[0]));
	$("cause-link").addEventListener("click", () => {
		navigator.clipboard?.writeText(location.href).then(() => app.notice("The link is copied."), () => app.notice(location.href));
	});
	$("cause-traces").addEventListener("click", (e) => {
		const trace = e.target.closest("[data-trace]")?.dataset.trace;
		if (!trace)
			return;
		picked = trace;
		poller.soon();
	});
	soon();
}
