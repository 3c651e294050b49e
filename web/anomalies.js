// SPDX-License-Identifier: Apache-2.0
// anomalies.js - the view of anomalies: a list, and the score of one pod over time. The tab is shown
// only if the collector runs analysis.
import {$, emptyState, fillTable, num, put, title} from "./dom.js";
import {age, clock, dateTime, number} from "./format.js";
import {TimePlot} from "./plot.js";
import {Poller, Problem, get, link} from "./server.js";

const COURSE = 300; // seconds, the history that the collector keeps
const HALF = () => 500, LISTS = () => analysis ? 500 : 5000; // a restart may enable analysis

let app = null; // {state, podName, changed, showMetrics}
let list = [], analysis = null;

export const anomalous = new Map(); // instance -> its current anomaly

export function blameText(blame) {
	return blame.map((b) => b.metric + (b.value === null ? "" : ` = ${number(b.value)}`) +
		` (${Math.round(b.share * 100)} %)`).join(", ");
}

// Pods of a host without an orchestrator have no names, or its own: their processes tell them apart.
function nameOf(a) {
	const bare = !a.pod || a.pod === a.host;
	return !bare || !a.pid ? app.podName(a) : `${a.container || a.service || app.podName(a)}[${a.pid}]`;
}

// What a pod that is judged could still miss.
function leastText(v) {
	const f = v.least_latency_factor;
	return v.learning ? "" : f === null ? "no latency alone would be an anomaly" :
		`a P90 latency ${number(f)} times as long as usual, and no other sign, would be an anomaly`;
}

function drawTab() {
	$("tab-anomalies").hidden = !analysis;
	if (!analysis)
		return;
	put($("n-anomalies"), analysis.anomalous ? `${analysis.anomalous} now` : "");
	$("n-anomalies").classList.toggle("bad", analysis.anomalous > 0);
}

function drawList(now) {
	const empty = $("anomalies-empty");
	fillTable($("anomalies"), list.map((a) => [
		a.end ? {text: a.unread ? "unread" : "over", badge: "idle",
		         tip: a.unread ? "the pod is no longer read" : `ended ${dateTime(a.end)}`} :
			{text: "anomalous", badge: "bad", tip: "not over yet"},
		{text: nameOf(a), kind: "strong", tip: `${a.service} ${a.pod}, ` + (a.container ? `container ${a.container}, ` : "") +
			(a.pid ? `process ${a.pid}, ` : "") + `instance ${a.instance}`},
		{text: a.host},
		num(clock(a.begin, false), dateTime(a.begin)),
		num(age((a.end ? a.last : now) - a.begin), `${a.findings} anomalous rows`),
		num(a.peak === null ? "–" : number(a.peak), "highest score; 1 is the threshold"),
		{text: a.explanation || blameText(a.blame), kind: "blame", tip: blameText(a.blame)},
		{text: a.trace ? a.trace.slice(0, 8) : "", kind: "mono", tip: a.trace || ""},
	]));
	[...$("anomalies").tBodies[0].rows].forEach((row, i) => {
		row.dataset.instance = list[i].instance;
		row.classList.toggle("picked", list[i].instance === app.state.anomaly);
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
		emptyState(empty, "No anomalies", `None of ${analysis.pods} pods is anomalous ` +
			`(detector ${analysis.detector}, ` +
			`${number(analysis.false_alarms_per_hour)} accepted false alarms per pod and hour).`);
}

async function askAnomalies() {
	const a = await get("anomalies", {limit: 200});
	link.ok();
	analysis = a.analysis;
	list = a.anomalies;
	anomalous.clear();
	for (const x of list)
		if (!x.end)
			anomalous.set(x.instance, x);
	drawTab();
	app.changed();
	if (app.state.tab === "anomalies")
		drawList(a.time);
}

// ---- the score of one pod over time -------------------------------------------------------------------

const plot = new TimePlot($("scores"), {onZoom: () => {}, onCursor: () => {}});

async function askScores() {
	const instance = app.state.anomaly, panel = $("score-panel");
	if (app.state.tab !== "anomalies" || !analysis)
		return;
	panel.hidden = !instance;
	if (!instance) {
		plot.destroy();
		return;
	}
	let a = null;
	try {
		a = await get("scores", {instance});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
	}
	link.ok();
	if (instance !== app.state.anomaly)
		return;
	const of = list.find((x) => x.instance === instance), badge = $("score-now");
	put($("score-title"), `Score of ${of ? nameOf(of) : instance}`);
	if (!a) {
		put(badge, "gone");
		badge.className = "badge idle";
		title(badge, "the pod no longer exists");
		plot.destroy();
		return;
	}
	const v = a.verdict;
	put(badge, v.learning ? "learning" : v.anomalous ? "anomalous" : v.drift ? "drifting" :
		v.state === "coarse" ? "normal, thresholds still wide" : "normal");
	badge.className = `badge ${v.learning ? "idle" : v.anomalous ? "bad" : v.drift ? "warn" : "good"}`;
	title(badge, v.anomalous ? blameText(v.blame) : v.drift ?
		"its scores differ from what was learned: train a new model" : leastText(v));
	plot.draw([
		{key: "score", slot: 0, unit: "", rate: false, floor: true, t: a.t, v: a.score},
		{key: "threshold", slot: 7, unit: "", rate: false, floor: true, dash: [4, 4], t: a.t, v: a.threshold},
	], Math.max(a.t[0] ?? 0, a.time - COURSE), a.time);
	$("scores").dataset.points = a.t.length;
	$("scores").dataset.highest = Math.max(0, ...a.score);
}

const listPoller = new Poller(askAnomalies, LISTS), scorePoller = new Poller(askScores, HALF);

export function soon() {
	listPoller.soon();
	scorePoller.soon();
}

export function start(hooks) {
	app = hooks;
	$("anomalies").tBodies[0].addEventListener("click", (e) => {
		const row = e.target.closest("tr");
		if (!row)
			return;
		app.state.anomaly = app.state.anomaly === row.dataset.instance ? "" : row.dataset.instance;
		app.picked();
		soon();
	});
	$("score-metrics").addEventListener("click", () => app.showMetrics(app.state.anomaly));
	soon();
}
