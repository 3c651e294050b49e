// SPDX-License-Identifier: Apache-2.0
// anomalies.js - the view of incidents, and the texts about an incident and the anomalies of its pods. The tab is shown only
// if the collector runs analysis.
import {$, emptyState, fillTable, num, pickRows, put} from "./dom.js";
import {age, dateTime, grouped, moment, number, rate, retimed, seconds, unitOf, withUnit} from "./format.js";
import {HIDDEN_MS, Poller, get, link} from "./server.js";

const LISTS = () => analysis ? 500 : 5000; // a restart may enable analysis

let app = null; // {state, podName, changed, openCause}
let list = [];
export let analysis; // null: the collector was started without --analyse; undefined: not known yet

export function blameText(blame) {
	return blame.map((b) => b.metric + (b.value === null ? "" : ` = ${number(b.value)}`) +
		` (${Math.round(b.share * 100)} %)`).join(", ");
}

// Splits a blamed metric into {whole, name, part, labels}. part is a quantile such as "p90", "mean" or "count" if the metric is
// that part of the histogram `name`, otherwise "". whole is the complete name, because a gauge's own name may have such an ending.
export function blamed(text) {
	const [, name, labels] = /^([^{]*)(?:\{(.*)\})?$/s.exec(text) || [text, text, ""];
	const [, base, part] = /^(.*)_(p50|p90|p95|p99|mean|count)$/.exec(name) || [name, name, ""];
	const pairs = [...(labels || "").matchAll(/([^=,{]+)="((?:[^"\\]|\\.)*)"/g)];
	return {whole: name, name: base, part, labels: pairs.map(([, k, v]) => [k, v.replace(/\\(.)/g, (all, c) => c === "n" ? "\n" : c)])};
}

// Formats a value of a blamed metric, with its unit; counters are judged by their rate.
function blameValue({name, part}, v) {
	const unit = unitOf({name});
	if (part === "count" || !part && /_total$/.test(name))
		return rate(v, part ? "" : unit);
	return /_nanoseconds$/.test(name) ? seconds(v * 1e-9) : withUnit(v, unit);
}

const PARTS = {p50: "median of ", p90: "90th percentile of ", p95: "95th percentile of ", p99: "99th percentile of ", mean: "mean of ",
	count: "rate of ", "": ""};

// short: omits the unit from the metric's name, because the values show it.
export function blameChange(b, short = false) {
	const m = blamed(b.metric), known = typeof b.value === "number";
	const name = short ? m.name.replace(/(_seconds|_bytes|_nanoseconds|_ratio)?(_total)?$/, "") : m.name;
	const of = PARTS[m.part] + name + (m.labels.length ? ` (${m.labels.map(([, v]) => v).join(", ")})` : "");
	if (!known)
		return `${of} is unusual`;
	if (b.siblings)
		return `${of} is ${blameValue(m, b.value)} (median of its ${b.siblings} siblings: ${blameValue(m, b.before)})`;
	return typeof b.before !== "number" ? `${of} is ${blameValue(m, b.value)}` :
		`${of} ${b.value < b.before ? "fell" : "rose"} to ${blameValue(m, b.value)} (usually ${blameValue(m, b.before)})`;
}

// Returns one sentence: the pod, if `pod` is set, and what changed most.
export const sentence = (a, pod, short) => a.blame.length ? (pod ? `${nameOf(a)}: ` : "") + blameChange(a.blame[0], short) :
	retimed(a.sentence || a.explanation || `${nameOf(a)} behaves unusually`, a.begin);

// The incident's sentence, with times in the page's time zone.
export const incidentText = (i) => retimed(i.sentence, i.begin, i.cause.begin);

// The anomaly's id in the page's address.
export const addressOf = (a) => `${a.instance}@${a.begin}`;

export const isConnections = (a) => / \(tcp\)$/.test(a.service || "");

// Without an orchestrator, pods have no name, or the name of their host; the process ID then distinguishes them. Hosts and
// connections are named as in sentences.
export function nameOf(a) {
	const [, of, tcp] = /^(.*?)( \(tcp\))?$/s.exec(a.service || ""), host = of === "(host)";
	if (tcp || host)
		return (tcp ? "connections of " : "") + (host ? `the host ${a.host}` : of);
	const bare = !a.pod || a.pod === a.host;
	return !bare || !a.pid ? app.podName(a) : `${a.container || a.service || app.podName(a)}[${a.pid}]`;
}

// An incident that was merged into an older one is not listed separately.
const shown = (incidents) => incidents.filter((i) => !i.part_of);

// How an incident looks: [text, class of its badge, what it means].
export function stateOf(i) {
	if (i.end)
		return ["over", "idle", `ended ${dateTime(i.end)}`];
	return i.kind === "load" ? ["load", "info", "more or fewer requests than usually, and no fault"] : ["open", "bad", "not over yet"];
}

// The number of open incidents, without those of mere load.
export const openNow = () => list.filter((i) => !i.end && i.kind !== "load").length;

function drawTab() {
	const open = openNow();
	$("tab-anomalies").hidden = !analysis;
	if (!analysis)
		return;
	put($("n-anomalies"), open ? `${open} now` : "");
	$("n-anomalies").classList.toggle("bad", open > 0);
}

function drawList(now) {
	const empty = $("anomalies-empty");
	fillTable($("anomalies"), list.map((i) => {
		const a = i.cause, [text, badge, tip] = stateOf(i);
		return [
			{text, badge, tip},
			{text: nameOf(a), kind: "strong", tip: `${a.service} ${a.pod}, ` + (a.container ? `container ${a.container}, ` : "") +
				(a.pid ? `process ${a.pid}, ` : "") + `instance ${a.instance}`},
			{text: a.host},
			num(moment(i.begin), dateTime(i.begin)),
			num(age((i.end || now) - i.begin)),
			num(a.peak === null ? "–" : number(a.peak), "highest score of the cause; 1 is the threshold"),
			{text: incidentText(i), kind: "blame", tip: blameText(a.blame)},
			num(grouped(i.members.length + i.members_left_out), i.members.map(nameOf).join(", ")),
			{text: i.trace ? i.trace.slice(0, 8) : "", kind: "mono", tip: i.trace || ""},
		];
	}));
	[...$("anomalies").tBodies[0].rows].forEach((row, k) => {
		row.dataset.incident = list[k].id;
	});
	$("anomalies").hidden = !list.length;
	empty.hidden = list.length > 0;
	if (list.length)
		return;
	if (!analysis)
		emptyState(empty, "Analysis is off", "The collector was started without --analyse.", null,
		           "sidelight collect --analyse --agent /run/sidelight/agent.sock");
	else if (analysis.learning)
		emptyState(empty, "Learning", `${analysis.learning} of ${analysis.pods} pods are in their warm-up: ` +
			"normal behaviour is learned first.");
	else
		emptyState(empty, "No incidents", `None of ${analysis.pods} pods is anomalous ` +
			`(detector ${analysis.detector}, ` +
			`${number(analysis.false_alarms_per_hour)} acceptable number of false alarms per pod and hour).`);
}

async function askAnomalies() {
	// Many newer ones may have ended since an open one began.
	const [open, newest] = await Promise.all([get("incidents", {state: "open", limit: 256}),
		app.state.tab === "anomalies" ? get("incidents", {limit: 100}) : null]);
	const all = new Map([...open.incidents, ...newest?.incidents || []].map((i) => [i.number, i]));
	link.ok();
	analysis = open.analysis;
	list = shown([...all.values()]).sort((x, y) => y.number - x.number);
	drawTab();
	app.changed();
	if (newest)
		drawList(newest.time);
}

const poller = new Poller(askAnomalies, LISTS, "analysis", HIDDEN_MS);
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	pickRows($("anomalies"), (row) => app.openCause(row.dataset.incident));
	soon();
}
