// SPDX-License-Identifier: Apache-2.0
// traces.js - the kept traces: a list, and the spans of one of them over time. The tab is shown once
// the collector has seen a trace.
import {$, el, emptyState, fillTable, num, pickRows, put} from "./dom.js";
import {bytes, dateTime, grouped, isoTime, many, moment, parseTime, seconds, zone} from "./format.js";
import {Poller, Problem, get, link} from "./server.js";
import {waterfall} from "./waterfall.js";

const LISTS = () => app.state.tab === "traces" ? 1000 : 5000, ONE = () => 2000;
export const REASONS = {error: "bad", slow: "warn", verdict: "warn", head: "idle"};
export const WHY = {error: "a span failed", slow: "it is far slower than other traces with this root",
             verdict: "a pod involved was anomalous", head: "it was sampled at random"};
const SHOWN = 200;

const FIELDS = document.querySelectorAll("#traces-ask [data-trace]"), TIMES = ["from", "to"];

let app = null; // {state, picked, changed}
let list = [], shown = "";

// ---- search

// Writes the present search into the fields.
export function showSearch() {
	for (const f of FIELDS) {
		const key = f.dataset.trace, value = app.state.traces[key];
		const text = !value || !TIMES.includes(key) ? value : isoTime(Number(value)).slice(0, 19);
		if (f.value !== text && f !== document.activeElement)
			f.value = text;
	}
	for (const th of $("traces").tHead.querySelectorAll("[data-sort]"))
		th.setAttribute("aria-sort", th.dataset.sort === app.state.traces.sort ? "descending" : "none");
}

function searchFor(f) {
	const key = f.dataset.trace, isTime = TIMES.includes(key);
	app.state.traces[key] = isTime ? f.value && String(parseTime(f.value)) : f.value.trim();
	(isTime ? app.picked : app.changed)();
	listPoller.soon();
}

function question() {
	const {service, root, status, least, attribute, from, to, sort} = app.state.traces;
	return {service, root, status, min_duration: least && `${least}ms`, attribute: attribute.includes("=") ? attribute : "", start: from, end: to, sort};
}

const isSearched = () => Object.entries(app.state.traces).some(([key, value]) => value && key !== "sort");

function clearSearch() {
	for (const key of Object.keys(app.state.traces))
		app.state.traces[key] = "";
	showSearch();
	app.changed();
	listPoller.soon();
}

// ---- list

function drawList(a) {
	const empty = $("traces-empty"), share = a.published_bytes ? a.read_bytes / a.published_bytes : 0;
	fillTable($("traces"), list.map((t) => [
		{text: t.reason, badge: REASONS[t.reason] || "idle", tip: WHY[t.reason] || ""},
		{text: t.root || "(root not seen)", kind: "strong", tip: t.trace_id},
		{text: t.service},
		num(t.start ? moment(t.start, true) : "–", t.start ? dateTime(t.start) : ""),
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
	put($("traces-note"), (isSearched() ? `${grouped(a.matching)} match; ` : "") +
		(a.matching > list.length ? `the first ${grouped(list.length)} are shown; ` : "") + (a.roots ? `${grouped(a.held)} kept of ${grouped(a.roots)} traces; ` +
		`${bytes(a.read_bytes)} read of ${bytes(a.published_bytes)} (${(share * 100).toPrecision(2)} %)` : ""));
	if (a.error)
		emptyState(empty, "Invalid search", a.error);
	else if (!list.length && isSearched())
		emptyState(empty, "Nothing matches", `None of ${grouped(a.held)} kept traces matches.`, ["Clear the search", clearSearch]);
	else if (!list.length)
		emptyState(empty, "No traces kept", a.roots ? `None of ${grouped(a.roots)} traces ` +
			"was slow or failed." : "No pod publishes spans yet.");
}

async function askTraces() {
	const open = app.state.tab === "traces";
	let a = null;
	try {
		a = await get("traces", open ? {...question(), limit: SHOWN} : {limit: 0});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status || e.refused)
			throw e;
		if (e.status === 400 && open)
			return drawList({error: e.message, roots: 0, held: 0, matching: 0, traces: list = []});
	}
	link.ok();
	$("tab-traces").hidden = !a || !(a.roots || a.held);
	if (!a || open !== (app.state.tab === "traces"))
		return;
	list = a.traces;
	put($("n-traces"), a.held ? grouped(a.held) : "");
	if (open)
		drawList(a);
}

// ---- the spans of one ----------------------------------------------------------------------------------

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
		if (!(e instanceof Problem) || !e.status || e.refused)
			throw e;
	}
	link.ok();
	if (id !== app.state.trace)
		return;
	put($("trace-title"), t ? `${t.service} ${t.root}` : id);
	put($("trace-note"), t ? `${t.trace_id}, ${many(t.spans_read, "span")} in ${many(t.pods, "pod")}, kept because ${WHY[t.reason]}` +
		(t.orphans ? `, ${grouped(t.orphans)} without parent` : "") : "no longer kept");
	const now = `${id} ${t ? t.spans.length : 0}`;
	if (now !== shown && t && t.spans.length)
		waterfall($("waterfall"), t);
	else if (now !== shown)
		$("waterfall").replaceChildren();
	shown = now;
}

const listPoller = new Poller(askTraces, LISTS, "analysis"), onePoller = new Poller(askOne, ONE, "analysis");

export function soon() {
	listPoller.soon();
	onePoller.soon();
}

export function start(hooks) {
	app = hooks;
	for (const f of FIELDS) {
		let timer = 0;
		f.addEventListener(f.type === "search" || f.type === "number" ? "input" : "change", () => {
			clearTimeout(timer);
			timer = setTimeout(() => searchFor(f), 150);
		});
	}
	$("traces").tHead.addEventListener("click", (e) => {
		const th = e.target.closest("th[data-sort]");
		if (!th)
			return;
		app.state.traces.sort = th.dataset.sort;
		showSearch();
		app.changed();
		listPoller.soon();
	});
	zone.listeners.push(showSearch);
	pickRows($("traces"), (row) => {
		app.state.trace = app.state.trace === row.dataset.trace ? "" : row.dataset.trace;
		app.picked();
		soon();
	});
	soon();
}
