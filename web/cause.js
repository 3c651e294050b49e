// SPDX-License-Identifier: Apache-2.0
// cause.js - one anomaly: its sentence, the metrics to blame as plots, the suspects, its kept traces, its connections
// and its host. The address names it, and works after it has ended for as long as the collector keeps it.
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
const BLAMED = 4, SUSPECTS = 6, TRACES = 5, FLOWS = 4;

let app = null; // {podName, showMetrics, showTrace}
let found = null;     // the anomaly
let shown = "";       // the address that is drawn
let plots = [];       // {root, plot, name, blame, ids}
let picked = "";      // the trace that is drawn

const missing = (e) => {
	if (!(e instanceof Problem) || !e.status)
		throw e;
	return null;
};
const ask = (path, params) => get(path, params).catch(missing);

// The first that the address fits: of its instance, and the one that began then, or the latest.
function find(list) {
	const [instance, begin] = state.anomaly.split("@");
	return list.find((a) => a.instance === instance && (!begin || Math.abs(a.begin - begin) < 0.01)) || null;
}

const capital = (text) => text[0].toUpperCase() + text.slice(1);
// The mean and the 90th percentile of one histogram say the same.
const distinct = (blame) => blame.filter((b, i) => !blame.slice(0, i).some((x) => anomalies.blamed(x.metric).name === anomalies.blamed(b.metric).name));

function drawHead(a, now) {
	put($("cause-title"), anomalies.nameOf(a) + (a.service && a.service !== a.pod && !anomalies.nameOf(a).startsWith(a.service) ? ` of ${a.service}` : ""));
	put($("cause-state"), a.end ? (a.unread ? "no longer read" : "over") : "anomalous now");
	$("cause-state").className = `badge ${a.end ? "idle" : "bad"}`;
	put($("cause-when"), `since ${dateTime(a.begin)} on ${a.host || "an unknown host"}, ` +
		(a.end ? `for ${age(a.last - a.begin)}` : `for ${age(now - a.begin)} so far`));
	put($("cause-sentence"), a.blame.length ? distinct(a.blame).slice(0, 2).map((b) => capital(anomalies.blameChange(b))).join(". ") + "." :
		anomalies.sentence(a, true));
	put($("cause-explanation"), a.explanation || "");
}

// ---- metrics to blame ------------------------------------------------------------------------------

const same = (labels, m) => labels.every(([k, v]) => m.labels[k] === v);

function makePlots(a) {
	for (const p of plots)
		p.plot.destroy();
	plots = a.blame.slice(0, BLAMED).map((b) => {
		const box = el("figure"), root = el("div", "plot small"), m = anomalies.blamed(b.metric), cap = el("figcaption");
		cap.append(el("b", "", anomalies.blameChange(b)), el("span", "dim", ` ${Math.round(100 * b.share)}\u202f% of the blame`));
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
		if (a !== found && found?.id !== a.id)
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

// ---- score and suspects ------------------------------------------------------------------------------------

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

function drawSuspects(rows) {
	const top = Math.max(1, ...rows.map((r) => r.score)) * 1.05, box = $("suspects");
	while (box.children.length > rows.length)
		box.lastChild.remove();
	rows.forEach((r, i) => {
		let row = box.children[i];
		if (!row) {
			row = box.appendChild(el("div", "suspect"));
			row.parts = [el("span", "name"), el("span", "track"), el("span", "num")];
			row.parts[1].append(el("i"), el("b"));
			row.append(...row.parts);
		}
		const [name, track, value] = row.parts;
		put(name, r.name);
		title(name, r.tip);
		track.firstChild.style.width = `${100 * r.score / top}%`;
		track.lastChild.style.left = `${100 / top}%`;
		put(value, number(Number(r.score.toPrecision(3))));
		row.classList.toggle("over", r.score > 1);
		row.classList.toggle("self", r.self);
	});
}

// Each pod's highest score while it lasted; what the pods were then is as they are now.
async function askSuspects(a) {
	const p = await ask("pods", {limit: 2000});
	if (!p)
		return;
	const pods = p.pods.filter((x) => x.verdict && x.instance !== a.instance)
		.sort((x, y) => y.verdict.score - x.verdict.score || x.instance.localeCompare(y.instance)).slice(0, 3 * SUSPECTS);
	const rows = await Promise.all(pods.map(async (x) => {
		const s = await ask("scores", {instance: x.instance});
		let score = 0;
		(s?.t || []).forEach((t, i) => {
			if (t >= a.begin - 2 && t <= a.last + 2)
				score = Math.max(score, toNumber(s.score[i]) || 0);
		});
		return {name: app.podName(x), tip: `${x.service} ${x.pod} on ${x.host}`, score, self: false};
	}));
	rows.push({name: anomalies.nameOf(a), tip: "this anomaly", score: a.peak || 0, self: true});
	drawSuspects(rows.sort((x, y) => y.self - x.self || y.score - x.score || x.name.localeCompare(y.name)).slice(0, SUSPECTS));
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
			(rtt ? `, RTT up to ${seconds(rtt)}` : "") + (g.some((x) => x.retransmits) ? `, ${grouped(g.reduce((n, x) => n + x.retransmits, 0))} retransmitted` : ""), g[0].why, g[0].limit_label];
	});
	const key = JSON.stringify(says) || "";
	if (box.dataset.key === key)
		return;
	box.dataset.key = key;
	box.replaceChildren(...says.map(([limit, , what, why, label]) => {
		const row = el("div", "why-row"), head = el("div");
		head.append(el("span", `badge ${limitKind(limit)}`, label || "unknown"), el("span", "dim", ` ${what}`));
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
	$("tab-cause").hidden = !state.anomaly;
	if (state.tab !== "cause")
		return;
	const empty = $("cause-empty");
	if (!state.anomaly) {
		$("cause").hidden = true;
		empty.hidden = false;
		return emptyState(empty, "No anomaly is selected", "Open one from the services or the anomalies.");
	}
	const list = await get("anomalies", {limit: 1000}), address = state.anomaly;
	link.ok();
	const a = find(list.anomalies);
	$("cause").hidden = !a;
	empty.hidden = !!a;
	if (!a) {
		found = null;
		shown = "";
		const instance = address.split("@")[0];
		return emptyState(empty, "This anomaly is not known any more", "The collector keeps the last 1024, and forgets them when it starts again.",
		                  ["Show the metrics of its pod", () => app.showMetrics(instance)]);
	}
	found = a;
	if (shown !== addressKey(a)) {
		shown = addressKey(a);
		picked = "";
		delete $("cause-waterfall").dataset.trace;
		$("cause-waterfall").replaceChildren();
		$("suspects").replaceChildren();
		makePlots(a);
	}
	drawHead(a, list.time);
	drawHost(a);
	await Promise.all([drawPlots(a, list.time), drawScore(a, list.time), drawTraces(a, list.time), drawFlows(a), askSuspects(a)]);
}

// What is to blame may change while it lasts.
const addressKey = (a) => anomalies.addressOf(a) + a.blame.slice(0, BLAMED).map((b) => b.metric).join();

// Nothing changes once it is over, except for what is forgotten.
const poller = new Poller(draw, () => found?.end ? 5000 : 1000, "analysis");
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	$("cause-metrics").addEventListener("click", () => app.showMetrics(state.anomaly.split("@")[0]));
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
