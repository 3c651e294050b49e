// SPDX-License-Identifier: Apache-2.0
// cause.js - one incident: its sentence, the metrics to blame as plots, its members, its kept traces, and the connections
// and the host of its cause. The page's address contains the incident, and works as long as the collector keeps the incident.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, put, title} from "./dom.js";
import {limitKind} from "./flows.js";
import {age, clock, dateTime, grouped, grows, many, number, rate, seconds, toNumber, unitOf, valueUnit, zone} from "./format.js";
import {MARKS, TimePlot, marksIn, rates} from "./plot.js";
import {selector} from "./save.js";
import {Poller, Problem, failed, get, link, post, token} from "./server.js";
import {navigate, state} from "./state.js";
import {REASONS, WHY} from "./traces.js";
import {waterfall} from "./waterfall.js";

const BEFORE = 30, AFTER = 15; // seconds shown before and after an anomaly
const LONGEST = 86400;         // seconds of history in an answer
const BLAMED = 4, MEMBERS = 12, TRACES = 5, FLOWS = 4;

let app = null; // {podName, showMetrics, showTrace, notice, role}
let found = null;     // the incident
let shown = "";       // the address that is drawn
let plots = [];       // {root, plot, name, blame, ids}
let hostSeries = {host: "", ids: []}; // series of the pressure on a host: of CPU, memory, I/O
const asking = new Map(); // panel that waits for an answer -> whether it is wanted again

// A refusal does not mean that there is no data, so the panel keeps its present content.
const missing = (e) => {
	if (!(e instanceof Problem) || !e.status || e.refused)
		throw e;
	return null;
};
const ask = (path, params) => get(path, params).catch(missing);

// Finds an incident by its id, or by a member of this instance that had an anomaly then, or the latest. If it became part
// of an older one, returns the older one, because alerts still have the address of the newer one.
function find(list) {
	const [instance, begin] = state.incident.split("@");
	const is = (m) => m.instance === instance && (!begin || begin > m.begin - 0.01 && !(m.end && begin > m.last + 0.01));
	let i = list.find((x) => x.id === state.incident) || list.find((x) => x.members.some(is));
	while (i?.part_of)
		i = list.find((x) => x.number === i.part_of);
	return i || null;
}

function drawHead(i, now) {
	const a = i.cause, name = anomalies.nameOf(a), [text, badge, tip] = anomalies.stateOf(i);
	put($("cause-title"), name + (a.service && a.service !== a.pod && !name.startsWith(a.service) ? ` of ${a.service}` : ""));
	put($("cause-state"), text);
	title($("cause-state"), tip);
	$("cause-state").className = `badge ${badge}`;
	put($("cause-when"), `since ${dateTime(i.begin)} on ${a.host || "an unknown host"}, ` +
		(i.end ? `for ${age(i.end - i.begin)}` : `for ${age(now - i.begin)} so far`));
	drawSentence(anomalies.incidentText(i));
	$("cause-sentence").classList.toggle("load", i.kind === "load");
	drawAccept(i);
}

// If the sentence names a trace, the name is a button that shows the trace.
function drawSentence(text) {
	const root = $("cause-sentence");
	if (root.textContent === text)
		return;
	root.replaceChildren(...text.split(/(trace [0-9a-f]{32})/).map((part, k) => {
		const b = k % 2 ? el("button", "", part) : part;
		if (k % 2) {
			b.type = "button";
			b.addEventListener("click", () => app.showTrace(part.slice(-32)));
		}
		return b;
	}));
}

// ---- accepting it as normal ---------------------------------------------------------------------------

function drawAccept(i) {
	const may = app.role === "act" || app.role === "admin";
	$("cause-accept").hidden = !!i.end || !app.role;
	$("cause-accept").disabled = !may;
	$("cause-accept-why").hidden = $("cause-token").hidden = $("cause-accept").hidden || may;
	put($("cause-accept-why"), token.value ? "Your token does not give the right to accept it." : "Only a token with the right to act can accept it.");
}

// Asks for confirmation, because an accepted fault raises no further alarm.
function askToAccept() {
	const others = found.members.length + found.members_left_out - 1;
	put($("accept-text"), `What ${anomalies.nameOf(found.cause)}${others ? ` and ${many(others, "other")}` : ""} ` +
		`${others ? "do" : "does"} now becomes normal, and the incident ends. If this is a fault, there will be no further alarm for it. This cannot be undone.`);
	$("accept").dataset.incident = found.id;
	$("accept").returnValue = "";
	$("accept").showModal();
}

async function accept(id) {
	try {
		const {accepted} = await post(`incidents/${id}/accept`);
		app.notice(`The present behaviour of ${many(accepted, "pod")} is normal from now on. The incident ends.`);
	} catch (e) {
		if (!(e instanceof Problem))
			throw e;
		// A request whose answer was lost may have arrived.
		app.notice(e.status ? `The incident is not accepted: ${e.message}.` :
			"The collector's answer was lost. If the incident ends within a minute, the collector has accepted it.");
	}
	poller.soon();
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

// The labels that identify the series of a blamed metric. A pod's name is unique in its namespace, and a container's first process
// has the number 1.
const labelsOf = (a, p) => [["service", a.service], ["namespace", a.namespace], ["pod", a.pod], ["host", a.host],
                            ["process", a.pid ? String(a.pid) : ""], ...p.labels].filter(([, v]) => v);

// Computes the line of a histogram's quantile from its buckets over time.
async function lineOfQuantile(a, p, from, to) {
	const query = new URLSearchParams({metric: p.name, by: "pod", fn: p.part, start: from, end: to, points: 400});
	for (const [k, v] of labelsOf(a, p))
		query.append("match", `${k}=${v}`);
	const g = await ask(`group?${query}`), points = g?.groups?.[0]?.points;
	return points?.length ? {t: points.map((x) => x[0]), v: points.map((x) => x[1]), unit: unitOf({name: p.name, unit: g.unit}), rate: false} : null;
}

// Computes the line of a histogram's mean from the sum and the count of its observations, which are kept once per second.
async function lineOfMean(a, p, from, to) {
	const step = Math.ceil((to - from) / 400), of = labelsOf(a, p).map(([k, v]) => [k, "=", v]);
	const sum = (name, pairs) => `sum(rate(${selector(name, pairs)}[${Math.max(5, 2 * step)}s]))`;
	const r = await ask("query_range", {start: from, end: to, step,
		query: `${sum(p.name + "_sum", of)} / ${sum(p.name + "_bucket", [...of, ["le", "=", "+Inf"]])}`});
	const values = r?.data.result[0]?.values;
	return values?.length ? {t: values.map((x) => x[0]), v: values.map((x) => x[1] === "NaN" ? null : Number(x[1])), unit: unitOf(p), rate: false} : null;
}

const isCount = (p) => !p.part || p.part === "count";

// Fetches the line of a counter or gauge, or of a histogram's number of observations.
async function lineOfHistory(a, p, from, to) {
	if (!p.ids) {
		const m = await ask("metrics", {pod: a.instance, q: p.name, limit: 200});
		const all = (m?.metrics || []).filter((x) => x.name === p.whole || isCount(p) && x.name === p.name);
		p.isState = all.some((x) => x.kind === "stateset");
		p.ids = all.filter((x) => same(p.labels, x)).slice(0, 1);
	}
	if (!p.ids.length)
		return null;
	const h = await ask("history", {series: p.ids[0].id, start: from.toFixed(3), end: to.toFixed(3), points: 2000}), s = h?.series?.[0];
	if (!s?.v)
		return null;
	const v = s.v.map(toNumber), running = grows(s.kind);
	const [t, y] = running ? rates(s.t, v, 0.5) : [s.t, v];
	return {t, v: y, unit: valueUnit(s), rate: running};
}

// Fetches the line of the blamed metric only.
async function lineOf(a, p, from, to) {
	const kept = !isCount(p) && !anomalies.isConnections(a);
	const line = kept && await (p.part === "mean" ? lineOfMean : lineOfQuantile)(a, p, from, to);
	return line || lineOfHistory(a, p, from, to);
}

const whyNoLine = (a, p) => "No plot: the " + (p.isState ? "collector keeps no history of states." : !isCount(p) && anomalies.isConnections(a) ?
	"collector keeps no quantiles and means of connections over time." : "history of this time is no longer kept.");

// Explains the dashed and the dotted lines.
function drawKeys(kinds) {
	const root = $("blamed-keys"), key = kinds.join();
	root.hidden = !plots.length;
	if (root.dataset.key === key)
		return;
	root.dataset.key = key;
	root.replaceChildren(...["", ...kinds].map((kind) => {
		const span = el("span", `key ${kind ? "dotted" : "dashed"}`), i = el("i");
		i.style.color = `var(${kind ? MARKS[kind].color : "--s3"})`;
		span.append(i, kind ? MARKS[kind].text : "while it is anomalous");
		return span;
	}));
}

async function drawPlots(a, now) {
	const to = a.end ? a.last + AFTER : now, from = Math.max(a.begin - BEFORE, to - LONGEST);
	drawKeys(marksIn(from, to));
	await Promise.all(plots.map(async (p) => {
		let line = null, why = "";
		try {
			line = await lineOf(a, p, from, to);
		} catch (e) {
			if (!e.refused || p.plot.plot)
				throw e;
			why = `No plot: ${e.message}.`;
		}
		if (isGone(a))
			return;
		const inside = line?.t.some((t) => t >= from && t <= to);
		p.note.hidden = !!inside;
		put(p.note, inside ? "" : why || whyNoLine(a, p));
		p.box.dataset.points = inside ? line.t.length : 0;
		if (!inside)
			return p.plot.destroy();
		const top = Math.max(...line.v.filter((v) => v !== null && Number.isFinite(v)), 0);
		p.box.dataset.highest = top;
		p.plot.draw([{key: p.name, label: p.name, slot: 1, floor: true, ...line},
		             // The time of the anomaly, as a strip at the bottom of the plot.
		             {key: "anomalous", slot: 3, floor: true, unit: line.unit, rate: line.rate, dash: [2, 2],
		              t: [a.begin, a.begin + 1e-3, a.end ? a.last : now], v: [0, 0.02 * top, 0.02 * top]}], from, to);
	}));
}

// ---- score and members ------------------------------------------------------------------------------------

const scorePlot = new TimePlot($("scores"), {onZoom: () => {}, onCursor: () => {}});

async function drawScore(a, now) {
	const s = await ask("scores", {instance: a.instance});
	if (isGone(a))
		return;
	$("score-keys").hidden = !s?.t.length;
	if (!s?.t.length) {
		put($("score-title"), "Its score is no longer kept");
		$("scores").hidden = true;
		return scorePlot.destroy();
	}
	put($("score-title"), `Its score${s.verdict.learning ? ", still learning" : s.verdict.drift && !s.verdict.anomalous ? ", drifting: train a new model" : ""}`);
	$("scores").hidden = false;
	scorePlot.draw([
		{key: "score", label: "score", slot: 0, unit: "", rate: false, floor: true, t: s.t, v: s.score},
		{key: "threshold", label: "threshold", slot: 7, unit: "", rate: false, floor: true, dash: [4, 4], t: s.t, v: s.threshold},
	], Math.max(s.t[0], a.begin - BEFORE), a.end ? Math.max(a.last + AFTER, s.t[0] + 1) : now);
	$("scores").dataset.points = s.t.length;
	$("scores").dataset.highest = Math.max(0, ...s.score);
}

// Sorts the members by the same measure as the cause: by suspicion if its callers are known, otherwise by peak score.
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
	const box = $("cause-traces"), end = a.end ? a.last : now, service = (a.service || "").replace(/ \(tcp\)$/, "").replace(/^\(host\)$/, "");
	const t = await ask("traces", {service, start: a.begin - 1, end: end + 1, sort: "duration", limit: 500});
	const named = t && a.trace && !t.traces.some((x) => x.trace_id === a.trace) ? await ask(`traces/${a.trace}`) : null;
	if (isGone(a))
		return;
	// Failed traces come first, then the slowest ones. The traces that the sentence and the page's address name are always shown.
	const worth = (x) => x.error ? 3 : {error: 3, slow: 2, verdict: 1}[x.reason] || 0;
	const of = [...t?.traces || [], named].filter(Boolean).sort((x, y) => worth(y) - worth(x) || y.duration_seconds - x.duration_seconds);
	const best = of.filter((x, i) => i < TRACES || [a.trace, state.trace].includes(x.trace_id));
	const picked = best.some((x) => x.trace_id === state.trace) ? state.trace : best[0]?.trace_id || "";
	put($("cause-traces-note"), !t ? "The collector knows no traces." : !best.length ?
		(t.roots ? `No trace of this time${service && ` that passes through ${service}`} is kept.` : "No pod publishes spans.") :
		of.length > best.length ? `${grouped(best.length)} of ${grouped(of.length)} that were kept in this time.` : "");
	const key = best.map((x) => x.trace_id).join() + picked + zone.utc;
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
	if (!picked) {
		delete root.dataset.trace;
		return root.replaceChildren();
	}
	if (root.dataset.trace === picked)
		return;
	const one = await ask(`traces/${picked}`);
	if (!one?.spans.length || isGone(a))
		return;
	root.dataset.trace = picked;
	waterfall(root, one);
}

// ---- connections and the host -----------------------------------------------------------------------------------

async function drawFlows(a) {
	const f = await ask("flows", {host: a.host, limit: 1000, sort: "limit"}), box = $("cause-flows");
	if (isGone(a))
		return;
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
			(rtt ? `, RTT up to ${seconds(rtt)}` : "") + (g.some((x) => x.retransmits) ? `, ${grouped(g.reduce((n, x) => n + x.retransmits, 0))} retransmitted` : ""), (g.length > 1 ? "The fastest: " : "") + g[0].why, g[0].limit_label];
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
		box.append(el("p", "dim", !f ? "No connections are known: sidelight agent --tcp observes them." : f.matching > f.flows.length ?
			`None of its connections is among the first ${grouped(f.flows.length)} of ${grouped(f.matching)} on its host.` : "None of its connections is open now."));
}

// The share of time in which something waited (PSI), if the host publishes it.
const PRESSURES = [["cpu", "CPU"], ["memory", "memory"], ["io", "I/O"]];

async function drawHost(a) {
	if (hostSeries.host !== a.host || !hostSeries.ids.length) {
		const m = a.host ? await ask("metrics", {q: `node_pressure waiting ${a.host}`, limit: 100}) : null;
		const of = (kind) => m?.metrics.find((x) => x.name === `node_pressure_${kind}_waiting_seconds_total` &&
			m.pods[x.id.split("/")[0]]?.host === a.host)?.id;
		hostSeries = {host: a.host, ids: PRESSURES.map(([kind]) => of(kind)).filter(Boolean)};
	}
	const h = hostSeries.ids.length ? await ask("history", {series: hostSeries.ids.join(), last: "10s", points: 16}) : null;
	if (isGone(a))
		return;
	const facts = PRESSURES.map(([kind, text]) => {
		const s = h?.series.find((x) => x.name === `node_pressure_${kind}_waiting_seconds_total` && x.t?.length > 1), n = s?.t.length - 1;
		const share = s ? (toNumber(s.v[n]) - toNumber(s.v[0])) / (s.t[n] - s.t[0]) : NaN;
		return share >= 0 ? [`Waiting for ${text}`, (100 * Math.min(1, share)).toFixed(1) + "\u202f%"] : null;
	}).filter(Boolean);
	const heading = $("cause-pressure-title"), box = $("cause-pressure"), key = JSON.stringify(facts);
	if (!facts.length)
		hostSeries.ids = []; // its host may have started again
	put(heading, `Pressure on ${a.host}, now`);
	heading.hidden = box.hidden = !facts.length;
	if (box.dataset.key === key)
		return;
	box.dataset.key = key;
	const list = el("dl", "facts");
	for (const [k, v] of facts) {
		const one = el("div");
		one.append(el("dt", "", k), el("dd", "", v));
		list.append(one);
	}
	box.replaceChildren(list);
}

// ---- all of it -----------------------------------------------------------------------------------------------------

const isGone = (a) => found?.cause.id !== a.id;

// Empties the panels, because they show the previous incident until they have answers about this one.
function clearPanels() {
	for (const id of ["cause-traces", "cause-traces-note", "cause-waterfall", "cause-flows", "cause-pressure"]) {
		$(id).replaceChildren();
		delete $(id).dataset.key;
		delete $(id).dataset.trace;
	}
	$("cause-pressure-title").hidden = true;
	scorePlot.destroy();
}

// Draws a panel without making the others wait for its answer.
function apart(panel, drawPanel, a, now) {
	if (asking.has(panel))
		return asking.set(panel, true);
	asking.set(panel, false);
	drawPanel(a, now).catch(failed).finally(() => {
		const again = asking.get(panel) && isGone(a);
		asking.delete(panel);
		if (again)
			poller.soon();
	});
}

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
	let list = await get("incidents", {limit: 20});
	if (!find(list.incidents))
		list = await get("incidents", {limit: 256});
	link.ok();
	// The plots and traces show the time of the incident, not that of its cause's anomaly.
	const i = find(list.incidents), a = i && {...i.cause, begin: i.begin, last: i.last, end: i.end, trace: i.trace};
	$("cause").hidden = !i;
	empty.hidden = !!i;
	if (!i) {
		found = null;
		shown = "";
		return emptyState(empty, "This incident is not known any more", "The collector keeps the last 256, and forgets them when it starts again.",
		                  ["Show the metrics of its pod", () => app.showMetrics(state.incident.split(/[@-]/)[0])]);
	}
	if (found?.id !== i.id)
		clearPanels();
	found = i;
	if (shown !== addressKey(a)) {
		shown = addressKey(a);
		makePlots(a);
	}
	drawHead(i, list.time);
	drawMembers(i);
	for (const [panel, drawPanel] of Object.entries({plots: drawPlots, score: drawScore, traces: drawTraces, flows: drawFlows, host: drawHost}))
		apart(panel, drawPanel, a, list.time);
}

// The blamed metrics may change during an anomaly.
const addressKey = (a) => anomalies.addressOf(a) + a.blame.slice(0, BLAMED).map((b) => b.metric).join();

// When the incident is over, its data no longer changes, but the collector may forget some of it.
const poller = new Poller(draw, () => found?.end ? 5000 : 1000, "analysis");
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	$("cause-metrics").addEventListener("click", () => app.showMetrics(found?.cause.instance || state.incident.split(/[@-]/)[0]));
	$("cause-token").addEventListener("click", () => {
		token.ask("A token with the right to act (--actor-token-file):");
		$("token-value").focus();
	});
	$("cause-accept").addEventListener("click", askToAccept);
	$("accept").addEventListener("close", () => {
		if ($("accept").returnValue === "accept")
			accept($("accept").dataset.incident);
	});
	$("cause-link").addEventListener("click", () => {
		navigator.clipboard?.writeText(location.href).then(() => app.notice("The link is copied."), () => app.notice(location.href));
	});
	$("cause-traces").addEventListener("click", (e) => {
		const trace = e.target.closest("[data-trace]")?.dataset.trace;
		if (!trace)
			return;
		state.trace = trace;
		navigate();
		poller.soon();
	});
	soon();
}
