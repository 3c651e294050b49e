// SPDX-License-Identifier: Apache-2.0
// app.js - the page: its state is in the fragment of the address, its data comes by polling.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, fillTable, label, num, put, title} from "./dom.js";
import {Poller, Problem, get, link, token} from "./server.js";
import {List} from "./list.js";
import {color, rates, sparkline} from "./plot.js";
import {age, bytes, clock, dateTime, labelText, number, rate, toNumber, unitOf,
        withUnit} from "./format.js";
import * as flows from "./flows.js";
import * as reports from "./reports.js";
import * as reads from "./reads.js";
import * as series from "./series.js";
import {TABS, readHash, state, writeHash} from "./state.js";
import * as traces from "./traces.js";

// ---- header ------------------------------------------------------------------------------------

let status = null;
let hostList = [];

function drawHealth() {
	const badge = $("health");
	let text = "connecting", kind = "idle", why = "";
	if (!link.up) {
		text = "no answer";
		kind = "bad";
		why = link.message;
	} else if (status) {
		const t = status.totals;
		const late = t.missed_per_second > 0.01 * t.rounds_per_second;
		if (!t.hosts && status.dta) {
			text = "reports only"; // owns stores, and has no agent
			kind = "good";
		} else if (!t.hosts_up) {
			text = status.ready ? "no agent" : "starting";
			kind = status.ready ? "bad" : "idle";
			why = "no agent is reachable";
		} else if (t.hosts_stale || t.hosts_up < t.hosts) {
			text = "degraded";
			kind = "warn";
			why = `${t.hosts - t.hosts_up} of ${t.hosts} hosts are not read`;
		} else if (late) {
			text = "late";
			kind = "warn";
			why = "more than 1 % of the deadlines are missed";
		} else {
			text = "healthy";
			kind = "good";
			why = "all hosts are read on time";
		}
	}
	put(badge, text);
	title(badge, why);
	badge.className = `badge ${kind}`;
	document.title = kind === "good" || kind === "idle" ? "Sidelight" : `${text} · Sidelight`;
}

function vital(id, text, tip, kind = "") {
	const e = $(id);
	put(e, text);
	title(e, tip);
	e.className = kind;
}

function drawVitals() {
	const t = status.totals, m = status.memory;
	vital("v-hosts", t.hosts_up === t.hosts ? `${t.hosts} up` : `${t.hosts_up} of ${t.hosts} up`,
	      `${t.hosts_up} up, ${t.hosts_stale} stale, of ${t.hosts}`, t.hosts_up < t.hosts ? "warn" : "");
	vital("v-pods", `${number(t.pods_live)} live` + (t.pods_dead ? ` · ${number(t.pods_dead)} dead` : ""),
	      `${t.pods_live} live, ${t.pods_dead} dead, ${t.pods_closed} closed, ` +
	      `${t.pods_dropped} dropped, ${t.pods_expired} expired since the start`,
	      t.pods_dead || t.pods_dropped ? "warn" : "");
	vital("v-series", number(t.series), `${t.series} series; ${t.series_conflicts} conflicts`);
	vital("v-rounds", rate(t.rounds_per_second, ""), `${t.rounds} rounds of ${status.workers.length} ` +
	      "workers since the start");
	vital("v-missed", number(t.missed_deadlines) +
	      (t.missed_per_second > 0 ? ` · ${rate(t.missed_per_second, "")}` : ""),
	      `${t.missed_deadlines} deadlines missed in ${t.rounds} rounds`,
	      t.missed_per_second > 0.01 * t.rounds_per_second ? "warn" : "");
	vital("v-samples", rate(t.samples_per_second, ""), `${t.samples} values decoded since the start`);
	vital("v-memory", bytes(m.resident_bytes || m.collector_bytes),
	      `resident ${bytes(m.resident_bytes)}; collector ${bytes(m.collector_bytes)}, of which history ` +
	      `${bytes(m.history_bytes)} for ${number(m.history_points)} points`);
	vital("v-uptime", age(status.uptime_seconds), `since ${dateTime(status.start)}; version ${status.version}`);
	put($("n-metrics"), number(t.series));
	put($("n-pods"), number(t.pods));
	put($("n-hosts"), number(t.hosts));
	$("n-pods").classList.toggle("warn", t.pods_dead > 0);
	$("n-hosts").classList.toggle("warn", t.hosts_up < t.hosts);
}

function drawAway() {
	const away = $("away");
	away.hidden = link.up;
	document.body.classList.toggle("is-away", !link.up);
	if (!link.up) {
		const wait = Math.max(0, Math.ceil((link.retryAt - Date.now()) / 1000));
		put($("away-text"), `The collector does not answer (${link.message}). This data is from ` +
			`${clock(link.since / 1000, false)}; retrying ${wait ? `in ${wait} s` : "now"}.`);
	}
	drawHealth();
}

// ---- metrics -------------------------------------------------------------------------------------

const metrics = {items: [], matching: 0, loaded: false, error: "", stamp: 0, pods: {}};
const known = new Map(); // id -> rate and values of the last 60 s
const SPARK = 60;

// Records a value; the rate uses the times of READs, not those of answers.
function observe(m, pod, now) {
	let k = known.get(m.id);
	const v = toNumber(m.value), at = pod?.last_read || now;
	if (!k)
		known.set(m.id, k = {v: NaN, at: 0, rate: NaN, spark: [], second: 0, seen: now});
	k.seen = now;
	k.meta = m;
	k.pod = pod;
	if (at - k.at >= 0.4) {
		const running = m.kind === "counter" || m.kind === "histogram";
		const fresh = k.at && at - k.at < 10;
		k.rate = fresh && v >= k.v ? (v - k.v) / (at - k.at) : NaN;
		const point = running ? k.rate : v, slot = Math.floor(at);
		if (slot > k.second) {
			const y = Number.isNaN(point) ? null : point;
			// A second without an answer has the value of the next one.
			for (let gap = k.second + 1; k.second && gap < slot && gap > slot - SPARK; gap++)
				k.spark.push(slot - k.second <= 3 ? y : null);
			k.spark.push(y);
			k.spark.splice(0, Math.max(0, k.spark.length - SPARK));
			k.second = slot;
		}
		k.v = v;
		k.at = at;
	}
	return k;
}

// Fetches the last 60 s of series that have become visible.
let seeding = false;

async function seedSparks() {
	const {first, count} = metricList.range(), ids = [];
	for (let i = first; i < first + count && ids.length < 32; i++) {
		const m = metrics.items[i], k = m && known.get(m.id);
		if (k && !k.seeded && m.kind !== "info") {
			k.seeded = true;
			ids.push(m.id);
		}
	}
	if (!ids.length || seeding)
		return;
	seeding = true;
	try {
		const a = await get("history", {series: ids.join(), last: SPARK + 1 + "s", points: 2 * SPARK + 8});
		for (const s of a.series) {
			const k = known.get(s.id), at = new Map();
			if (s.error || !k)
				continue;
			const running = s.kind === "counter" || s.kind === "histogram";
			const v = s.v.map(toNumber), [t, y] = running ? rates(s.t, v, 1) : [s.t, v];
			t.forEach((x, i) => at.set(Math.floor(x), y[i]));
			const spark = Array.from({length: SPARK}, (_, i) =>
				k.spark[k.spark.length - SPARK + i] ?? at.get(k.second - SPARK + 1 + i) ?? null);
			// The second in which both begin is in neither.
			k.spark = spark.map((y, i) => y ?? spark[i - 1] ?? null);
		}
		metricList.draw();
	} catch (e) {
		if (!(e instanceof Problem))
			throw e;
	} finally {
		seeding = false;
	}
}

function forget(now) {
	if (known.size < 2000)
		return;
	for (const [id, k] of known)
		if (now - k.seen > 90 && !state.series.includes(id))
			known.delete(id);
}

// An agent's own metrics, listed last.
const isAgent = (pod) => pod?.service === "sidelight-agent";

function podName(pod) {
	if (!pod)
		return "";
	return pod.service && pod.pod && !pod.pod.startsWith(pod.service) ? `${pod.service}/${pod.pod}` :
		pod.pod || pod.service || pod.unit || "?";
}

function valueText(m) {
	const unit = unitOf(m);
	if (m.kind === "histogram") {
		const h = m.histogram;
		return h.p50 === null ? "no observations" :
			`p50 ${withUnit(toNumber(h.p50), unit)} · p99 ${withUnit(toNumber(h.p99), unit)}`;
	}
	if (m.kind === "stateset")
		return Object.entries(m.states).filter(([, on]) => on).map(([name]) => name).join(", ") || "none";
	if (m.kind === "info")
		return "info";
	return withUnit(toNumber(m.value), unit);
}

function valueTip(m) {
	if (m.kind === "histogram") {
		const h = m.histogram, unit = unitOf(m), q = (v) => withUnit(toNumber(v), unit);
		return `count ${h.count}, sum ${h.sum}` + (h.p50 === null ? "" :
			`, p50 ${q(h.p50)}, p90 ${q(h.p90)}, p99 ${q(h.p99)} since the start`);
	}
	return String(m.value);
}

function makeMetric() {
	const row = el("div", "row metrics-grid");
	row.cells = {
		mark: el("span", "mark"), name: el("span", "name"), pod: el("span", "pod"),
		kind: el("span", "kind"), spark: el("canvas", "spark"), rate: el("span", "num rate"),
		value: el("span", "num value"),
	};
	row.cells.podName = el("span");
	row.cells.pid = el("span", "pid");
	row.cells.pod.append(row.cells.podName, row.cells.pid);
	row.cells.metric = el("b");
	row.cells.labels = el("span", "labels");
	row.cells.name.append(row.cells.metric, row.cells.labels);
	for (const key of ["mark", "name", "pod", "kind", "spark", "rate", "value"]) {
		row.cells[key].setAttribute("role", "gridcell");
		row.append(row.cells[key]);
	}
	row.cells.spark.setAttribute("aria-hidden", "true");
	return row;
}

function fillMetric(row, index) {
	const m = metrics.items[index], c = row.cells;
	if (!m) {
		for (const key of ["metric", "labels", "podName", "pid", "kind", "rate", "value"])
			put(c[key], "");
		c.spark.getContext("2d").clearRect(0, 0, c.spark.width, c.spark.height);
		row.removeAttribute("data-id");
		row.classList.remove("picked");
		c.mark.style.background = "";
		return false;
	}
	const k = known.get(m.id), pod = k?.pod, slot = series.slotOf(m.id);
	row.dataset.id = m.id;
	row.classList.toggle("picked", slot >= 0);
	row.classList.toggle("gone", !!pod && pod.state !== "live");
	row.setAttribute("aria-selected", slot >= 0);
	c.mark.style.background = slot >= 0 ? color(slot) : "";
	put(c.metric, m.name);
	put(c.labels, labelText(m.labels));
	title(c.name, `${m.name}{${labelText(m.labels).replaceAll('" ', '", ')}}` + (m.help ? `\n${m.help}` : ""));
	put(c.podName, podName(pod) + (pod && pod.state !== "live" ? ` · ${pod.state}` : ""));
	put(c.pid, pod?.pid ? String(pod.pid) : ""); // connections have no process
	title(c.pod, pod ? `${pod.service} ${pod.pod} on ${pod.host}, pid ${pod.pid}, ${pod.state}` : "");
	c.pod.dataset.state = pod?.state || "";
	put(c.kind, m.kind);
	const running = m.kind === "counter" || m.kind === "histogram";
	put(c.rate, running && pod?.state === "live" ? rate(k.rate, unitOf(m.kind === "counter" ? m : {name: ""})) : "–");
	put(c.value, valueText(m));
	title(c.value, valueTip(m));
	c.value.dataset.value = m.value;
	label(row, `${m.name} ${labelText(m.labels)}, ${c.podName.textContent}, ${c.value.textContent}`);
	c.value.classList.toggle("light", m.kind !== "counter" && m.kind !== "gauge");
	row.classList.toggle("still", m.kind === "info");
	sparkline(c.spark, k?.spark || [], slot >= 0 ? color(slot) : lineColor, running);
	return true;
}

let lineColor = "#888";
function readColors() {
	lineColor = getComputedStyle(document.documentElement).getPropertyValue("--spark").trim();
}

const metricList = new List($("metrics"), {
	make: makeMetric, fill: fillMetric,
	pick: (index) => {
		const m = metrics.items[index];
		if (m && (m.kind !== "info" || state.series.includes(m.id)))
			series.togglePlot(m.id);
	},
	moved: () => metricPoller.soon(),
});

async function askMetrics() {
	if (state.tab !== "metrics")
		return;
	const {first, count} = metricList.range(), stamp = metrics.stamp;
	let a;
	try {
		a = await get("metrics", {q: state.q, kind: state.kind, pod: state.pod, offset: first,
		                          limit: Math.max(40, Math.min(count, 300))});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		metrics.error = e.message;
		a = {metrics: [], pods: {}, matching: 0, offset: 0, time: 0};
	}
	if (stamp !== metrics.stamp)
		return; // the search has changed
	if (a.time)
		metrics.error = "";
	link.ok();
	metrics.loaded = true;
	Object.assign(metrics.pods, a.pods);
	// Only visible rows stay up to date, so only those are kept.
	metrics.items = [];
	a.metrics.forEach((m, i) => {
		metrics.items[a.offset + i] = m;
		observe(m, a.pods[m.id.split("/")[0]], a.time);
	});
	metrics.matching = a.matching;
	if (!a.offset)
		metrics.onlyAgents = a.metrics.length > 0 && isAgent(a.pods[a.metrics[0].id.split("/")[0]]);
	forget(a.time);
	metricList.resize(a.matching);
	drawMetricsNote();
	const now = metricList.range();
	if (now.first === first) // not while scrolling
		seedSparks();
}

function askMetricsAnew() {
	metrics.stamp++;
	metrics.loaded = false;
	$("metrics").scrollTop = 0;
	metricList.active = -1;
	writeHash();
	metricPoller.soon();
}

function drawMetricsNote() {
	const filtered = state.q || state.kind || state.pod;
	put($("metrics-note"), metrics.error || !metrics.matching ? "" : filtered ?
		`${number(metrics.matching)} match` : state.series.length ? "" : "Select a metric to plot it");
	const chip = $("pod-filter");
	chip.hidden = !state.pod;
	if (state.pod) {
		const pod = metrics.pods[state.pod.padStart(16, "0")];
		put(chip, `Pod ${podName(pod) || state.pod} ✕`);
	}
	const empty = $("metrics-empty"), alone = !filtered && metrics.matching > 0 && metrics.onlyAgents;
	empty.hidden = !metrics.loaded || metrics.matching > 0 && !alone;
	$("metrics").hidden = !empty.hidden && !alone;
	if (empty.hidden)
		return;
	if (metrics.error)
		emptyState(empty, "Invalid search", metrics.error);
	else if (filtered)
		emptyState(empty, "Nothing matches", `No metric matches ${[state.q && `“${state.q}”`,
			state.kind && `kind ${state.kind}`, state.pod && "this pod"].filter(Boolean).join(", ")}.`,
			["Clear the search", () => {
				state.q = state.kind = state.pod = "";
				showState();
				askMetricsAnew();
			}]);
	else
		nothingYet(empty);
}

// ---- empty states -----------------------------------------------------------------------------------

// Without pods there is no agent, or the agent has none.
function nothingYet(root) {
	const t = status?.totals;
	const socket = hostList.find((h) => h.fabric === "shm")?.target || "/run/sidelight/agent.sock";
	if (t && !t.hosts_up && !metrics.onlyAgents) {
		const tried = hostList.map((h) => `${h.target}: ${h.last_error || h.condition}`).join("\n");
		emptyState(root, "No agent reached", "The collector retries at least once per second. Check that " +
			"sidelight agent is running, and that this user may open its socket.", null,
			tried || "sidelight agent --socket /run/sidelight/agent.sock");
	} else {
		emptyState(root, "No pods yet", "The agent is reachable, but has no publishers. A program " +
			"linked with libsidelight appears here within a second. For example:", null,
			`sidelight generate metrics --socket ${socket} --pods 4 --metrics 16 \\\n` +
			"                           --threads 1 --updates 100000 --rate 1000\n\n" +
			"cc app.c $(pkg-config --cflags --libs sidelight)");
	}
}

// ---- pods ----------------------------------------------------------------------------------------------

const pods = {items: [], matching: 0, loaded: false};
// Live anomalous pods come first.
const isAnomalous = (p) => p.state === "live" && anomalies.anomalous.has(p.instance);
const ATTENTION = {dead: 0, dropped: 1, stale: 2, live: 3, closed: 4, retired: 5};

function makePod() {
	const row = el("div", "row pods-grid");
	row.cells = {};
	for (const key of ["state", "name", "labels", "host", "pid", "up", "metrics", "unsettled"]) {
		row.cells[key] = el("span", ["pid", "up", "metrics", "unsettled"].includes(key) ? "num" : key);
		row.cells[key].setAttribute("role", "gridcell");
		row.append(row.cells[key]);
	}
	row.cells.badge = el("span", "badge");
	row.cells.state.append(row.cells.badge);
	return row;
}

function fillPod(row, index) {
	const p = pods.items[index], c = row.cells;
	if (!p)
		return false;
	row.dataset.instance = p.instance;
	row.dataset.state = p.state;
	const found = isAnomalous(p) ? anomalies.anomalous.get(p.instance) : null;
	row.dataset.anomalous = !!found;
	put(c.badge, found ? "anomalous" : p.state);
	c.badge.className = `badge ${found ? "bad" : p.state}`;
	title(c.badge, found ? `since ${clock(found.begin, false)}: ${anomalies.blameText(found.blame)}` :
		p.fault ? `dropped: ${p.fault}` : `${p.state} since ${dateTime(p.changed)}`);
	put(c.name, podName(p) + (p.source === "tcp" ? " · TCP" : ""));
	title(c.name, `${p.service} ${p.pod}, instance ${p.instance}: show its metrics`);
	const labels = p.fault ? `fault: ${p.fault}` : found ? anomalies.blameText(found.blame) : labelText(p.labels, ["service", "pod"]);
	put(c.labels, labels);
	title(c.labels, labelText(p.labels));
	put(c.host, p.host || p.target);
	title(c.host, p.target);
	put(c.pid, p.pid ? String(p.pid) : "–");
	const up = p.state === "live" || p.state === "stale";
	put(c.up, up ? age(pods.time - p.start) : `${age(p.changed_seconds)} ago`);
	title(c.up, `started ${dateTime(p.start)}; ${p.state} since ${dateTime(p.changed)}; last READ ` +
	      `${age(p.age_seconds)} ago`);
	put(c.metrics, number(p.metrics));
	title(c.metrics, `${p.series} series, ${bytes(p.bytes)}; ${p.refused} metrics refused`);
	put(c.unsettled, number(p.unsettled));
	label(row, `${c.badge.textContent} ${podName(p)} on ${p.host}, pid ${p.pid}, ${c.up.textContent}, ${p.metrics} metrics`);
	title(c.unsettled, `lines read during an update, in ${p.rounds} rounds: read again, never shown`);
	return true;
}

const podList = new List($("pods"), {
	make: makePod, fill: fillPod,
	pick: (index) => {
		metrics.pods[pods.items[index].instance] = pods.items[index];
		showMetricsOf(pods.items[index].instance);
	},
});

function showMetricsOf(instance) {
	state.pod = instance;
	state.q = state.kind = "";
	state.tab = "metrics";
	showState();
	askMetricsAnew();
}

async function askPods() {
	if (state.tab !== "pods")
		return;
	let a, error = "";
	try {
		a = await get("pods", {q: state.pq, state: state.podState, limit: 2000});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		error = e.message;
		a = {pods: [], matching: 0, time: 0};
	}
	link.ok();
	pods.items = a.pods.sort((x, y) => isAnomalous(y) - isAnomalous(x) || ATTENTION[x.state] - ATTENTION[y.state] ||
		isAgent(x) - isAgent(y) ||
		x.service.localeCompare(y.service) || x.pod.localeCompare(y.pod, "en", {numeric: true}) ||
		x.pid - y.pid);
	pods.matching = a.matching;
	pods.time = a.time;
	podList.resize(pods.items.length);
	put($("pods-note"), !a.matching ? "" : a.matching > a.pods.length ?
		`the first ${number(a.pods.length)} of ${number(a.matching)}: search to see others` :
		`${number(a.matching)} ${a.matching === 1 ? "pod" : "pods"}`);
	const empty = $("pods-empty"), alone = !state.pq && !state.podState && a.matching > 0 &&
		a.pods.every(isAgent);
	empty.hidden = a.matching > 0 && !alone;
	$("pods").hidden = !empty.hidden && !alone;
	if (error)
		emptyState(empty, "Invalid search", error);
	else if (!empty.hidden && (state.pq || state.podState))
		emptyState(empty, "Nothing matches", `No pod matches ${[state.pq && `“${state.pq}”`,
			state.podState].filter(Boolean).join(", ")}.`, ["Clear the search", () => {
			state.pq = state.podState = "";
			showState();
			podPoller.soon();
		}]);
	else if (!empty.hidden)
		nothingYet(empty);
}

// ---- hosts ------------------------------------------------------------------------------------------------

async function askHosts() {
	const needed = state.tab === "hosts" || status && !status.totals.hosts_up ||
		!$("metrics-empty").hidden || !$("pods-empty").hidden;
	if (!needed)
		return;
	const a = await get("hosts");
	link.ok();
	hostList = a.hosts;
	$("hosts").hidden = !hostList.length;
	$("hosts-empty").hidden = hostList.length > 0;
	emptyState($("hosts-empty"), "No hosts", "The collector was started without --agent.", null,
	           "sidelight collect --agent /run/sidelight/agent.sock --agent host2.example:7475");
	fillTable($("hosts"), hostList.map((h) => {
		const errors = Object.values(h.errors).reduce((x, y) => x + y, 0);
		return [
			{text: h.condition, badge: h.condition},
			{text: h.hostname || "–", kind: "strong"},
			{text: h.target, kind: "mono"},
			{text: h.fabric},
			num(number(h.pods)),
			num(h.age_seconds === null ? "never" : `${age(h.age_seconds)} ago`, dateTime(h.last_read)),
			num(number(h.reads), `${h.work_requests} work requests, ${h.doorbells} doorbells`),
			num(bytes(h.bytes)),
			num(number(h.connects), `${h.disconnects} disconnects`),
			num(number(errors), Object.entries(h.errors).map(([k, v]) => `${k} ${v}`).join(", ")),
			{text: h.last_error || "–", kind: "error", tip: h.last_error},
		];
	}));
	if (status && !status.totals.hosts_up && !$("metrics-empty").hidden)
		drawMetricsNote();
}

// ---- controls ----------------------------------------------------------------------------------------------------

function showState() {
	for (const tab of TABS) {
		const on = tab === state.tab, button = $(`tab-${tab}`);
		button.setAttribute("aria-selected", on);
		button.tabIndex = on ? 0 : -1;
		$(`view-${tab}`).hidden = !on;
	}
	for (const [id, value] of [["q", state.q], ["kind", state.kind], ["pq", state.pq], ["state", state.podState],
		["fq", state.fq], ["flow-state", state.flowState]])
		if ($(id).value !== value)
			$(id).value = value;
	for (const b of document.querySelectorAll("[data-window]"))
		b.setAttribute("aria-pressed", Number(b.dataset.window) === state.window);
	for (const b of document.querySelectorAll("[data-mode]"))
		b.setAttribute("aria-pressed", b.dataset.mode === state.mode);
	for (const b of document.querySelectorAll("[data-histogram]"))
		b.setAttribute("aria-pressed", b.dataset.histogram === state.histogram);
	drawMetricsNote();
}

// The open view may have been polled rarely before.
function askSoon() {
	for (const p of [metricPoller, podPoller, hostPoller, reads, anomalies, flows, reports, traces])
		p.soon();
}

function openTab(tab) {
	state.tab = tab;
	showState();
	writeHash();
	metricList.draw();
	podList.draw();
	askSoon();
}

$("tabs").addEventListener("click", (e) => {
	const b = e.target.closest("[data-tab]");
	if (b)
		openTab(b.dataset.tab);
});
$("tabs").addEventListener("keydown", (e) => {
	const step = {ArrowRight: 1, ArrowLeft: -1}[e.key];
	if (!step)
		return;
	const there = TABS.filter((tab) => !$(`tab-${tab}`).hidden);
	openTab(there[(there.indexOf(state.tab) + step + there.length) % there.length]);
	$(`tab-${state.tab}`).focus();
	e.preventDefault();
});

function typed(id, key, then) {
	let timer = 0;
	$(id).addEventListener("input", () => {
		clearTimeout(timer);
		timer = setTimeout(() => {
			state[key] = $(id).value.trim();
			writeHash();
			then();
		}, 150);
	});
	$(id).addEventListener("keydown", (e) => {
		if (e.key === "ArrowDown") {
			$({q: "metrics", pq: "pods", fq: "flows"}[id]).focus();
			e.preventDefault();
		}
	});
}

typed("q", "q", askMetricsAnew);
typed("pq", "pq", () => podPoller.soon());
typed("fq", "fq", flows.soon);
$("kind").addEventListener("change", () => {
	state.kind = $("kind").value;
	askMetricsAnew();
});
$("state").addEventListener("change", () => {
	state.podState = $("state").value;
	writeHash();
	podPoller.soon();
});
$("pod-filter").addEventListener("click", () => {
	state.pod = "";
	showState();
	askMetricsAnew();
});
$("away-retry").addEventListener("click", () => link.retryNow());
token.listeners.push(() => {
	$("token").hidden = !token.asked;
});
$("token").addEventListener("submit", (e) => {
	e.preventDefault();
	token.set($("token-value").value.trim());
	$("token-value").value = "";
	link.retryNow();
});
$("pause").addEventListener("click", () => series.setPaused(!state.paused));
$("clear").addEventListener("click", () => {
	state.series = [];
	series.plotChanged();
});

function control(root, key, name, then) {
	$(root).addEventListener("click", (e) => {
		const b = e.target.closest("button");
		if (!b)
			return;
		state[key] = key === "window" ? Number(b.dataset[name]) : b.dataset[name];
		series.timePlot.unzoom();
		series.setPaused(false);
		showState();
		writeHash();
		then();
	});
}

control("windows", "window", "window", () => series.historyPoller.soon());
control("modes", "mode", "mode", series.drawPlot);
control("histogram-modes", "histogram", "histogram", () => series.historyPoller.soon());

document.addEventListener("keydown", (e) => {
	if (e.target.closest("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) {
		if (e.key === "Escape" && e.target.matches("input"))
			e.target.blur();
		return;
	}
	if (e.key === "/") {
		const box = $({pods: "pq", flows: "fq"}[state.tab] || "q");
		if (!["pods", "flows", "metrics"].includes(state.tab))
			openTab("metrics");
		box.focus();
		box.select();
		e.preventDefault();
	} else if (e.key === "p" && state.series.length) {
		series.setPaused(!state.paused);
	}
});

// ---- start ----------------------------------------------------------------------------------------------------------

async function askStatus() {
	status = await get("status");
	link.ok();
	drawHealth();
	drawVitals();
	if (!$("metrics-empty").hidden)
		drawMetricsNote();
}

const SECOND = () => 1000;
const statusPoller = new Poller(askStatus, SECOND);
const metricPoller = new Poller(askMetrics, SECOND);
const podPoller = new Poller(askPods, SECOND);
const hostPoller = new Poller(askHosts, SECOND);

function applyHash() {
	readHash();
	showState();
	series.plotChanged();
	metrics.stamp++;
	askSoon();
}

link.listeners.push(drawAway);
setInterval(() => link.up || document.hidden || drawAway(), 500);
addEventListener("hashchange", applyHash);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	readColors();
	metricList.draw();
	series.drawLegend();
});

traces.start({state, picked: writeHash});
reports.start({state, get status() { return status; }});
flows.start({state, showMetrics: showMetricsOf, picked: () => {
	showState();
	writeHash();
}, get status() { return status; }});
anomalies.start({state, podName, changed: () => podList.draw(), picked: writeHash, showMetrics: showMetricsOf});
series.start({known, observe, podName, drawMetrics: () => metricList.draw()});
reads.start({get status() { return status; }});
readColors();
applyHash();
statusPoller.soon();
