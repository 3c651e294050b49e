// SPDX-License-Identifier: Apache-2.0
// traces.js - the kept traces: a list, and the spans of one of them over time. The tab is shown once
// the collector has seen a trace.
import {$, el, emptyState, fillTable, num, put, title} from "./dom.js";
import {bytes, clock, dateTime, grouped, many, seconds} from "./format.js";
import {Poller, Problem, get, link} from "./server.js";

const LISTS = () => app.state.tab === "traces" ? 1000 : 5000, ONE = () => 2000;
const REASONS = {error: "bad", slow: "warn", verdict: "warn", head: "idle"};
const WHY = {error: "a span failed", slow: "far slower than other traces with this root",
             verdict: "a pod involved was anomalous", head: "sampled at random"};

let app = null; // {state, picked}
let list = [], shown = "";

function drawList(a) {
	const empty = $("traces-empty"), share = a.published_bytes ? a.read_bytes / a.published_bytes : 0;
	fillTable($("traces"), list.map((t) => [
		{text: t.reason, badge: REASONS[t.reason] || "idle", tip: WHY[t.reason] || ""},
		{text: t.root || "(root not seen)", kind: "strong", tip: t.trace_id},
		{text: t.service},
		num(t.start ? clock(t.start) : "–", t.start ? dateTime(t.start) : ""),
		num(seconds(t.duration_seconds)),
		num(grouped(t.spans_read), t.orphans || t.lost_lines ?
			`${t.orphans} without parent, ${t.lost_lines} lines lost` : ""),
		num(grouped(t.pods)),
		{text: t.trace_id.slice(0, 8), kind: "mono", tip: t.trace_id},
	]));
	[...$("traces").tBodies[0].rows].forEach((row, i) => {
		row.dataset.trace = list[i].trace_id;
		row.classList.toggle("picked", list[i].trace_id === app.state.trace);
	});
	$("traces").hidden = !list.length;
	empty.hidden = list.length > 0;
	put($("traces-note"), a.roots ? `${grouped(a.held)} kept of ${grouped(a.roots)} traces; ` +
		`${bytes(a.read_bytes)} read of ${bytes(a.published_bytes)} (${(share * 100).toPrecision(2)} %)` : "");
	if (!list.length)
		emptyState(empty, "No traces kept", a.roots ? `None of ${grouped(a.roots)} traces ` +
			"was slow or failed." : "No pod publishes spans yet.");
}

async function askTraces() {
	let a = null;
	try {
		a = await get("traces", {limit: 200});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
	}
	link.ok();
	$("tab-traces").hidden = !a || !(a.roots || a.held);
	if (!a)
		return;
	list = a.traces;
	put($("n-traces"), a.held ? grouped(a.held) : "");
	if (app.state.tab === "traces")
		drawList(a);
}

// ---- the spans of one ----------------------------------------------------------------------------------

// Depth first; children and roots in the order of their start.
function inOrder(spans) {
	const ids = new Set(spans.map((s) => s.span_id)), children = new Map(), out = [];
	for (const s of spans) {
		const key = ids.has(s.parent_id) && s.parent_id !== s.span_id ? s.parent_id : "";
		children.set(key, [...(children.get(key) || []), s]);
	}
	const todo = (children.get("") || []).map((s) => [s, 0]).reverse(), done = new Set();
	while (todo.length) {
		const [s, depth] = todo.pop();
		if (done.has(s))
			continue;
		done.add(s);
		out.push([s, depth]);
		for (const child of (children.get(s.span_id) || []).reverse())
			todo.push([child, depth + 1]);
	}
	return [...out, ...spans.filter((s) => !done.has(s)).map((s) => [s, 0])]; // cyclic parents
}

function drawWaterfall(t) {
	const start = Math.min(...t.spans.map((s) => s.start)), services = [];
	const end = Math.max(...t.spans.map((s) => s.start + s.duration_seconds)), whole = end - start || 1e-9;
	$("waterfall").replaceChildren(...inOrder(t.spans).map(([s, depth]) => {
		const row = el("div", "span"), name = el("span", "span-name"), track = el("span", "span-track"), bar = el("i");
		if (!services.includes(s.service))
			services.push(s.service);
		name.style.paddingLeft = `${depth * 14}px`;
		name.append(el("b", "", s.service), ` ${s.name}`);
		bar.className = s.status === "error" ? "error" : `s${services.indexOf(s.service) % 8}`;
		bar.style.left = `${(s.start - start) / whole * 100}%`;
		bar.style.width = `${Math.max(0.2, s.duration_seconds / whole * 100)}%`;
		track.append(bar);
		row.append(name, track, el("span", "span-time", seconds(s.duration_seconds)));
		row.dataset.span = s.span_id;
		title(row, [`${s.kind} in ${s.pod}, ${seconds(s.start - start)} after the start`,
		            s.message && `${s.status}: ${s.message}`,
		            ...Object.entries(s.attributes).map(([k, v]) => `${k} = ${v}`)].filter(Boolean).join("\n"));
		return row;
	}));
}

async function askOne() {
	const id = app.state.trace, panel = $("trace-panel");
	if (app.state.tab !== "traces")
		return;
	panel.hidden = !id;
	if (!id) {
		shown = "";
		return;
	}
	let t = null;
	try {
		t = await get(`traces/${id}`);
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
	}
	link.ok();
	if (id !== app.state.trace)
		return;
	put($("trace-title"), t ? `${t.service} ${t.root}` : id);
	put($("trace-note"), t ? `${t.trace_id}, ${many(t.spans_read, "span")} in ${many(t.pods, "pod")}` +
		(t.orphans ? `, ${grouped(t.orphans)} without parent` : "") : "no longer kept");
	const now = `${id} ${t ? t.spans.length : 0}`;
	if (now !== shown && t && t.spans.length)
		drawWaterfall(t);
	else if (now !== shown)
		$("waterfall").replaceChildren();
	shown = now;
}

const listPoller = new Poller(askTraces, LISTS), onePoller = new Poller(askOne, ONE);

export function soon() {
	listPoller.soon();
	onePoller.soon();
}

export function start(hooks) {
	app = hooks;
	$("traces").tBodies[0].addEventListener("click", (e) => {
		const row = e.target.closest("tr");
		if (!row)
			return;
		app.state.trace = app.state.trace === row.dataset.trace ? "" : row.dataset.trace;
		app.picked();
		soon();
	});
	soon();
}
