// SPDX-License-Identifier: Apache-2.0
// services.js - the first view: a row for each service, those that need attention first.
import {addressOf, analysis, sentence} from "./anomalies.js";
import {$, el, emptyState, label, put, title} from "./dom.js";
import {limitKind} from "./flows.js";
import {bytes, grouped, many, number, rate, seconds} from "./format.js";
import {List} from "./list.js";
import {color, sparkline} from "./plot.js";
import {Poller, Problem, get, link} from "./server.js";
import {state, writeHash} from "./state.js";

const PERIOD = () => state.tab === "services" || state.tab === "cause" ? 1000 : 3000;
const UNKNOWN = "is not known: the service does not publish it, and sidelight agent --host, which measures containers, does not run here";
const GAUGES = [["cpu", "CPU"], ["memory", "Mem"], ["pressure", "Wait"]];

let app = null; // {openCause, showMetrics, nothingYet}
let all = [], shown = [], answer = null;

// The text that the search looks through is made once per answer.
const haystacks = new WeakMap();

function haystack(s) {
	let text = haystacks.get(s);
	if (text === undefined)
		haystacks.set(s, text = [s.service, s.namespace, ...s.hosts || [], s.anomaly?.pod].join("\n").toLowerCase());
	return text;
}

export const named = (name, namespace) => all.find((s) => s.service === name && (namespace === undefined || s.namespace === namespace));

function makeRow() {
	const row = el("div", "row services-grid"), c = row.cells = {};
	for (const key of ["name", "spark", "rate", "errors", "p50", "p99", "gauges", "connections", "says"]) {
		c[key] = el("span", ["rate", "errors", "p50", "p99"].includes(key) ? `num ${key}` : key);
		c[key].setAttribute("role", "gridcell");
		row.append(c[key]);
	}
	c.service = el("b");
	c.pods = el("span", "pods dim");
	c.name.append(el("i", "dot"), c.service, c.pods);
	c.canvas = el("canvas", "spark");
	c.canvas.setAttribute("aria-hidden", "true");
	c.spark.append(c.canvas);
	for (const key of ["rate", "errors", "p50", "p99"]) { // labels for a narrow page, which hides the table's heading
		c[key].append(el("small", "", {rate: "rate", errors: "errors"}[key] || key), c[`${key}Text`] = el("span"));
	}
	for (const [key, name] of GAUGES) {
		const g = c[key] = el("span", "gauge");
		g.append(el("small", "", name), g.text = el("span"), g.bar = el("i"));
		g.bar.append(g.fill = el("b"));
		c.gauges.append(g);
	}
	c.limit = el("span", "badge");
	c.open = el("span", "dim");
	c.connections.append(c.limit, c.open);
	return row;
}

const known = (v) => typeof v === "number";
const percent = (r) => (100 * r).toFixed(r < 0.0995 ? 1 : 0) + "\u202f%";

function gauge(g, ratio, text, tip) {
	put(g.text, text);
	title(g, tip);
	g.fill.style.width = known(ratio) ? `${Math.max(0, Math.min(100, 100 * ratio))}%` : "0";
	g.className = `gauge ${!known(ratio) ? "" : ratio > 0.9 ? "bad" : ratio > 0.7 ? "warn" : ""}`;
}

function drawSaturation(c, s) {
	const at = s.saturation || {}, p = at.pressure;
	gauge(c.cpu, at.cpu_ratio, known(at.cpu_ratio) ? percent(at.cpu_ratio) : known(at.cpu_cores) ? number(Number(at.cpu_cores.toPrecision(2))) : "–",
	      known(at.cpu_cores) ? `${number(Number(at.cpu_cores.toPrecision(3)))} cores in use` : `CPU time ${UNKNOWN}`);
	gauge(c.memory, at.memory_ratio, known(at.memory_ratio) ? percent(at.memory_ratio) : known(at.memory_bytes) ? bytes(at.memory_bytes) : "–",
	      known(at.memory_bytes) ? `${bytes(at.memory_bytes)} of memory in use` : `memory ${UNKNOWN}`);
	const worst = p ? Math.max(...["cpu", "memory", "io"].map((k) => p[k] || 0)) : null;
	gauge(c.pressure, known(worst) ? worst : null, known(worst) ? percent(worst) : "–", p ?
		`pressure (PSI), share of time in which something waits: CPU ${percent(p.cpu || 0)}, memory ${percent(p.memory || 0)}, I/O ${percent(p.io || 0)}` :
		"pressure is not known: sidelight agent --host measures it");
}

function drawConnections(c, s) {
	const k = s.connections;
	put(c.limit, k?.limit_label || "");
	c.limit.hidden = !k?.limit;
	c.limit.className = `badge ${k?.limit ? limitKind(k.limit) : ""}`;
	put(c.open, !k ? "–" : [`${grouped(k.open)} open`, known(k.rtt_seconds) && k.rtt_seconds ?
		`RTT ${seconds(k.rtt_seconds)}${k.rtt_min_seconds ? `, least ${seconds(k.rtt_min_seconds)}` : ""}` : "",
		k.retransmits_per_second > 0 ? `${rate(k.retransmits_per_second, "")} retransmitted` : ""].filter(Boolean).join(" · "));
	title(c.connections, k ? k.why || "" : "no connections are known: sidelight agent --tcp observes them");
}

// Returns the kind and the text of the second line: an anomaly, another reason for attention, or what limits connections.
function saying(s) {
	const a = s.anomaly, over = a?.end ? ", is over" : "";
	if (a)
		return [a.end ? "warn" : "bad", sentence(a, s.pods > 1, true) + over];
	if (s.attention > 0 && s.attention_why)
		return ["warn", s.attention_why];
	return ["good", s.connections?.why && limitKind(s.connections.limit) !== "good" ? s.connections.why : ""];
}

// The text for a service that needs no attention. During the warm-up, the analysis finds only errors.
function nothing() {
	if (!analysis)
		return analysis === null ? "Not judged: analysis is off" : "Not judged yet";
	return analysis.learning && analysis.learning === analysis.pods ? "Learning what is usual: only errors show yet" : "Nothing unusual";
}

function fillRow(row, index) {
	const s = shown[index], c = row.cells;
	if (!s)
		return false;
	const [kind, says] = saying(s), r = s.requests, l = s.latency;
	row.dataset.kind = kind;
	row.dataset.service = s.service;
	put(c.service, s.service || "(no name)");
	put(c.pods, `${s.namespace ? s.namespace + " · " : ""}${s.pods_live === s.pods ? many(s.pods, "pod") : `${s.pods_live} of ${many(s.pods, "pod")} live`}`);
	title(c.name, [s.service, s.namespace, `hosts: ${(s.hosts || []).join(", ")}`, `${s.changing} series change, ${s.unchanged} do not`].filter(Boolean).join("\n"));
	put(c.rateText, r ? rate(r.per_second, "") : "–");
	title(c.rate, r ? `of ${r.metric || "requests"}, from the ${r.from}` : "no counter of requests is known");
	const failing = r && r.errors_per_second > 0;
	put(c.errorsText, !r || !known(r.error_ratio) ? "–" : failing ? percent(r.error_ratio) : "0");
	title(c.errors, failing ? `${rate(r.errors_per_second, "")} of ${rate(r.per_second, "")}` : "");
	c.errors.classList.toggle("failing", !!failing);
	for (const key of ["p50", "p99"]) {
		const v = l?.[`${key}_seconds`];
		put(c[`${key}Text`], known(v) ? seconds(v) : "–");
		title(c[key], l ? `of ${l.metric || "requests"}, from the ${l.from}` : "no latency is known");
	}
	drawSaturation(c, s);
	drawConnections(c, s);
	put(c.says, says || nothing());
	title(c.says, says);
	c.says.classList.toggle("quiet", !says);
	sparkline(c.canvas, s.spark || [], color(kind === "bad" ? 1 : 0), true);
	label(row, `${s.service}, ${says || nothing()}; ${c.rateText.textContent} requests, errors ${c.errorsText.textContent}, ` +
	      `p99 ${c.p99Text.textContent}`);
	return true;
}

const list = new List($("services"), {
	make: makeRow, fill: fillRow,
	keyOf: (index) => shown[index] && `${shown[index].namespace}\0${shown[index].service}`,
	pick: (index) => {
		const s = shown[index];
		if (s?.anomaly)
			app.openCause(addressOf(s.anomaly));
		else if (s)
			app.showService(s);
	},
});

export function draw() {
	list.draw();
}

// A service matches if it contains all words. Searches in the browser, which takes less than a frame for 10,000 services.
function filter() {
	const words = state.sq.toLowerCase().split(/\s+/).filter(Boolean);
	shown = words.length ? all.filter((s) => words.every((w) => haystack(s).includes(w))) : all;
	list.resize(shown.length);
	const now = all.filter((s) => s.anomaly && !s.anomaly.end).length, need = all.filter((s) => saying(s)[0] !== "good").length;
	put($("n-services"), answer ? grouped(all.length) : "");
	put($("v-services"), answer ? grouped(all.length) + (now ? ` · ${now} anomalous` : "") : "–");
	$("v-services").className = now ? "bad" : "";
	put($("services-note"), !answer || !all.length ? "" : [state.sq ? `${grouped(shown.length)} match` :
		`${need ? `${need} ${need === 1 ? "needs" : "need"} attention; ` : ""}those that need it most come first` +
		(analysis?.learning ? `; ${analysis.learning} of ${many(analysis.pods, "pod")} in warm-up` : ""),
		answer.truncated && `the first ${grouped(all.length)} only`,
		answer.left_out && `too many for this view: ${grouped(answer.left_out)} pods or series are left out`]
		.filter(Boolean).join("; "));
	const empty = $("services-empty");
	empty.hidden = !answer || shown.length > 0;
	$("services").hidden = !empty.hidden;
	if (empty.hidden)
		return;
	if (all.length)
		emptyState(empty, "Nothing matches", `No service matches “${state.sq}”.`, ["Clear the search", () => {
			state.sq = $("sq").value = "";
			writeHash();
			filter();
		}]);
	else
		app.nothingYet(empty);
}

async function ask() {
	let a;
	try {
		a = await get("services", {window: 10});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		$("services-empty").hidden = false;
		$("services").hidden = true;
		return emptyState($("services-empty"), e.headline, e.message);
	}
	link.ok();
	answer = a;
	all = a.services;
	filter();
}

const poller = new Poller(ask, PERIOD, "analysis");
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	$("sq").addEventListener("input", () => {
		state.sq = $("sq").value.trim();
		$("services").scrollTop = 0;
		filter();
		writeHash();
	});
	soon();
}
