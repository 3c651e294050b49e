// SPDX-License-Identifier: Apache-2.0
// app.js - the page: what is shown is in the address behind "#", what is known comes by polling.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, fillTable, label, num, put, title} from "./dom.js";
import {Poller, Problem, get, link} from "./server.js";
import {List} from "./list.js";
import {COLORS, LatencyPlot, TimePlot, color, rates, sparkline} from "./plot.js";
import {age, bytes, clock, dateTime, labelText, number, rate, seconds, toNumber, trimmed,
        unitOf, withUnit} from "./format.js";
import * as traces from "./traces.js";

// ---- state, and the address ------------------------------------------------------------------

const TABS = ["metrics", "pods", "anomalies", "traces", "hosts", "reads"];
const WINDOWS = [1, 10, 60];

const state = {
	tab: "metrics", q: "", kind: "", pod: "", pq: "", podState: "",
	series: [],         // ids on the plot, at most COLORS
	window: 10, mode: "rate", histogram: "quantiles", paused: false,
	anomaly: "",        // instance of the pod whose score is shown
	trace: "",          // id of the trace whose spans are shown
};

function readHash() {
	const p = new URLSearchParams(location.hash.slice(1));
	const one = (key, allowed, otherwise) => allowed.includes(p.get(key)) ? p.get(key) : otherwise;
	state.tab = one("tab", TABS, "metrics");
	state.q = (p.get("q") || "").slice(0, 200);
	state.kind = one("kind", ["counter", "gauge", "histogram", "stateset", "info"], "");
	state.pod = /^[0-9a-f]{1,16}$/i.test(p.get("pod") || "") ? p.get("pod") : "";
	state.pq = (p.get("pq") || "").slice(0, 200);
	state.podState = one("state", ["live", "dead", "closed", "stale", "dropped"], "");
	state.anomaly = /^[0-9a-f]{16}$/.test(p.get("anomaly") || "") ? p.get("anomaly") : "";
	state.trace = /^[0-9a-f]{32}$/.test(p.get("trace") || "") ? p.get("trace") : "";
	state.window = Number(one("window", WINDOWS.map(String), "10"));
	state.mode = one("mode", ["rate", "raw"], "rate");
	state.histogram = one("histogram", ["quantiles", "count"], "quantiles");
	state.series = [...new Set((p.get("series") || "").split(",")
		.filter((id) => /^[0-9a-f]{16}\/\d{1,10}$/.test(id)))].slice(0, COLORS);
}

function writeHash() {
	const p = new URLSearchParams();
	const add = (key, value, otherwise) => {
		if (value !== otherwise)
			p.set(key, value);
	};
	add("tab", state.tab, "metrics");
	add("q", state.q, "");
	add("kind", state.kind, "");
	add("pod", state.pod, "");
	add("pq", state.pq, "");
	add("state", state.podState, "");
	add("anomaly", state.anomaly, "");
	add("trace", state.trace, "");
	add("window", state.window, 10);
	add("mode", state.mode, "rate");
	add("histogram", state.histogram, "quantiles");
	add("series", state.series.join(","), "");
	const hash = p.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
	if (location.hash.slice(1) !== hash)
		history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
}

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
		if (!t.hosts_up) {
			text = status.ready ? "no agent" : "starting";
			kind = status.ready ? "bad" : "idle";
			why = "no agent is reached";
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
	      `${t.missed_deadlines} of ${t.rounds} rounds began late`,
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
		put($("away-text"), `The collector does not answer (${link.message}). What is shown is from ` +
			`${clock(link.since / 1000, false)}; trying again ${wait ? `in ${wait} s` : "now"}.`);
	}
	drawHealth();
}

// ---- metrics -------------------------------------------------------------------------------------

const metrics = {items: [], matching: 0, loaded: false, error: "", stamp: 0, pods: {}};
const known = new Map(); // id -> what was seen of it: rate, the last 60 s
const SPARK = 60;

// Notes a value; the rate is formed over READ times, not over those of the answers.
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
			// A second without an answer of its own is one of what the next one tells.
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

// What history knows of the last 60 s of a series that just came into sight.
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
			// The second in which both begin belongs to neither.
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

// What an agent publishes of itself; listed behind all others.
const isAgent = (pod) => pod?.service === "sidelight-agent";

function podName(pod) {
	if (!pod)
		return "";
	return pod.service && pod.pod && !pod.pod.startsWith(pod.service) ? `${pod.service}/${pod.pod}` :
		pod.pod || pod.service || "?";
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
	const k = known.get(m.id), pod = k?.pod, slot = slotOf(m.id);
	row.dataset.id = m.id;
	row.classList.toggle("picked", slot >= 0);
	row.classList.toggle("gone", !!pod && pod.state !== "live");
	row.setAttribute("aria-selected", slot >= 0);
	c.mark.style.background = slot >= 0 ? color(slot) : "";
	put(c.metric, m.name);
	put(c.labels, labelText(m.labels));
	title(c.name, `${m.name}{${labelText(m.labels).replaceAll('" ', '", ')}}` + (m.help ? `\n${m.help}` : ""));
	put(c.podName, podName(pod) + (pod && pod.state !== "live" ? ` · ${pod.state}` : ""));
	put(c.pid, pod ? String(pod.pid) : "");
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
			togglePlot(m.id);
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
		return; // the question is another by now
	if (a.time)
		metrics.error = "";
	link.ok();
	metrics.loaded = true;
	Object.assign(metrics.pods, a.pods);
	// Only what is in sight stays up to date, so only that is kept.
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
	if (now.first === first) // not while the list is being moved
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
		`${number(metrics.matching)} match` : state.series.length ? "" : "Pick a metric to plot it");
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
		emptyState(empty, "That search can’t be answered", metrics.error);
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

// Why there is no pod: no agent, or an agent without pods.
function nothingYet(root) {
	const t = status?.totals;
	const socket = hostList.find((h) => h.fabric === "shm")?.target || "/run/sidelight/agent.sock";
	if (t && !t.hosts_up && !metrics.onlyAgents) {
		const tried = hostList.map((h) => `${h.target}: ${h.last_error || h.condition}`).join("\n");
		emptyState(root, "No agent reached", "The collector keeps trying, at least once a second. Is " +
			"sidelight agent running there, and may this user open its socket?", null,
			tried || "sidelight agent --socket /run/sidelight/agent.sock");
	} else {
		emptyState(root, "No pods yet", "The agent is reached, but nothing publishes through it. A program " +
			"linked with libsidelight appears here by itself within a second. To see something now:", null,
			`sidelight generate metrics --socket ${socket} --pods 4 --metrics 16 \\\n` +
			"                           --threads 1 --updates 100000 --rate 1000\n\n" +
			"cc app.c $(pkg-config --cflags --libs sidelight)");
	}
}

// ---- pods ----------------------------------------------------------------------------------------------

const pods = {items: [], matching: 0, loaded: false};
// One that lives and is not as usual is what people came for.
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
	put(c.name, podName(p));
	title(c.name, `${p.service} ${p.pod}, instance ${p.instance}: show its metrics`);
	const labels = p.fault ? `fault: ${p.fault}` : found ? anomalies.blameText(found.blame) : labelText(p.labels, ["service", "pod"]);
	put(c.labels, labels);
	title(c.labels, labelText(p.labels));
	put(c.host, p.host || p.target);
	title(c.host, p.target);
	put(c.pid, String(p.pid));
	const up = p.state === "live" || p.state === "stale";
	put(c.up, up ? age(pods.time - p.start) : `${age(p.changed_seconds)} ago`);
	title(c.up, `started ${dateTime(p.start)}; ${p.state} since ${dateTime(p.changed)}; last READ ` +
	      `${age(p.age_seconds)} ago`);
	put(c.metrics, number(p.metrics));
	title(c.metrics, `${p.series} series, ${bytes(p.bytes)}; ${p.refused} metrics refused`);
	put(c.unsettled, number(p.unsettled));
	label(row, `${c.badge.textContent} ${podName(p)} on ${p.host}, pid ${p.pid}, ${c.up.textContent}, ${p.metrics} metrics`);
	title(c.unsettled, `lines caught in the middle of an update, in ${p.rounds} rounds: read again, never shown`);
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
		`${number(a.pods.length)} of ${number(a.matching)}: search to see others` :
		`${number(a.matching)} ${a.matching === 1 ? "pod" : "pods"}`);
	const empty = $("pods-empty"), alone = !state.pq && !state.podState && a.matching > 0 &&
		a.pods.every(isAgent);
	empty.hidden = a.matching > 0 && !alone;
	$("pods").hidden = !empty.hidden && !alone;
	if (error)
		emptyState(empty, "That search can’t be answered", error);
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

// ---- hosts, READs ------------------------------------------------------------------------------------------

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

const reads = {plot: null, past: [], workers: 0};

async function askReads() {
	if (state.tab !== "reads")
		return;
	const a = await get("latency");
	link.ok();
	const picked = $("reads-worker");
	if (reads.workers !== a.workers.length) {
		reads.workers = a.workers.length;
		const was = picked.value;
		picked.replaceChildren(new Option("All workers", ""),
		                       ...a.workers.map((w) => new Option(`Worker ${w.worker}`, w.worker)));
		picked.value = was;
	}
	reads.past = reads.past.filter((p) => a.time - p.time < 11);
	reads.past.push(a);
	const of = (x) => picked.value === "" ? x.total : x.workers[picked.value] || x.total;
	const all = of(a).counts, then = of(reads.past[0]).counts;
	const recent = reads.past.length > 1 ? all.map((n, i) => Math.max(0, n - then[i])) : all.map(() => 0);
	reads.plot ??= new LatencyPlot($("latency"));
	const sets = [{slot: 7, light: true, counts: all}];
	if (recent.some((n) => n > 0))
		sets.push({slot: 0, counts: recent});
	$("latency").hidden = false;
	const marks = [["p50", of(a).p50_seconds], ["p90", of(a).p90_seconds], ["p99", of(a).p99_seconds],
	               ["p99.9", of(a).p999_seconds]].filter(([, v]) => v !== null);
	const drawn = reads.plot.draw(a.bounds_seconds, sets, marks);
	$("latency").hidden = !drawn;
	$("latency-empty").hidden = drawn;
	if (!drawn)
		emptyState($("latency-empty"), "No READ yet", "As soon as a host is reached its READs are timed here.");
	const q = (v) => v === null ? "–" : seconds(v);
	if (!status)
		return;
	fillTable($("workers"), [...status.workers.map((w) => [w, a.workers[w.worker]]),
	                         [status.totals, a.total, true]].map(([w, l, total]) => [
		{text: total ? "All" : String(w.worker)},
		num(total ? "" : w.cpu === null ? "any" : String(w.cpu)),
		num(number(total ? w.pods : w.regions)),
		num(rate(w.rounds_per_second, ""), `${w.rounds} since the start`),
		num(number(w.missed_deadlines), `${rate(w.missed_per_second, "")} now`),
		num(rate(w.reads_per_second, ""), `${w.reads} since the start`),
		num(rate(w.bytes_per_second, "bytes"), `${w.bytes} bytes since the start`),
		num(rate(w.samples_per_second, ""), `${w.samples} values since the start`),
		num(total ? "" : (100 * w.busy_ratio).toFixed(1) + "\u202f%", "of one CPU"),
		num(l ? q(l.p50_seconds) : "–"), num(l ? q(l.p90_seconds) : "–"),
		num(l ? q(l.p99_seconds) : "–"), num(l ? q(l.p999_seconds) : "–"),
		num(number(w.read_errors)),
		num(number(w.unsettled), `of ${w.lines} lines`),
	]));
	const faults = Object.entries(status.totals.faults);
	put($("faults"), faults.length ? "Faults in what was read: " +
	    faults.map(([k, v]) => `${k} ${number(v)}`).join(", ") + "." : "No fault in anything that was read.");
}

// ---- the plot -------------------------------------------------------------------------------------------------

const slots = new Map(); // id -> colour
const histograms = new Map(); // id -> {snapshots, points} of quantiles
let lastHistory = null;
const QUANTILES = [["p50", 0.5, undefined], ["p90", 0.9, [6, 3]], ["p99", 0.99, [2, 3]]];

const slotOf = (id) => state.series.includes(id) ? slots.get(id) ?? -1 : -1;

function giveSlots() {
	for (const id of slots.keys())
		if (!state.series.includes(id))
			slots.delete(id);
	for (const id of state.series) {
		if (slots.has(id))
			continue;
		const used = new Set(slots.values());
		let slot = 0;
		while (used.has(slot))
			slot++;
		slots.set(id, slot);
	}
	for (const id of histograms.keys())
		if (!state.series.includes(id))
			histograms.delete(id);
}

function togglePlot(id) {
	if (state.series.includes(id))
		state.series = state.series.filter((s) => s !== id);
	else
		state.series = [...state.series, id].slice(-COLORS);
	plotChanged();
}

function plotChanged() {
	giveSlots();
	writeHash();
	$("plots").hidden = !state.series.length;
	if (!state.series.length) {
		timePlot.destroy();
		lastHistory = null;
		setPaused(false);
	}
	drawLegend();
	metricList.draw();
	selectedPoller.soon();
	historyPoller.soon();
}

const timePlot = new TimePlot($("plot"), {
	onZoom: () => setPaused(true),
	onCursor: (index) => drawLegend(index),
});

function setPaused(on) {
	if (state.paused && !on)
		timePlot.unzoom();
	state.paused = on;
	$("pause").setAttribute("aria-pressed", on);
	put($("pause"), on ? "Resume" : "Pause");
	if (!on)
		historyPoller.soon();
}

// What is known of the series picked, also when the list shows others.
async function askSelected() {
	if (!state.series.length)
		return;
	const asked = state.series;
	const a = await get("metrics", {series: asked.join(), limit: COLORS});
	link.ok();
	const there = new Set();
	for (const m of a.metrics) {
		observe(m, a.pods[m.id.split("/")[0]], a.time);
		there.add(m.id);
	}
	for (const id of asked) {
		const k = known.get(id);
		if (k?.gone && there.has(id))
			k.gone = false;
		else if (!there.has(id))
			known.set(id, {spark: [], ...k, gone: true, seen: a.time});
	}
	drawLegend();
}

function quantile(buckets, total, exponential, q) {
	const rank = q * total;
	let below = 0;
	for (const [low, high, n] of buckets) {
		if (below + n >= rank && n) {
			const part = (rank - below) / n;
			if (!Number.isFinite(high))
				return low;
			if (!Number.isFinite(low))
				return high;
			return exponential && low > 0 ? low * Math.pow(high / low, part) : low + (high - low) * part;
		}
		below += n;
	}
	return null;
}

// Quantiles of what was observed in the last step, from what two answers differ by.
function trackHistogram(s, time) {
	let h = histograms.get(s.id);
	if (!h)
		histograms.set(s.id, h = {snapshots: [], t: [], v: QUANTILES.map(() => [])});
	const now = new Map(s.buckets.map(([low, high, n]) => [String(high), [toNumber(low), toNumber(high), n]]));
	h.snapshots.push({time, now});
	const step = Math.max(0.5, state.window / 30);
	while (h.snapshots.length > 2 && time - h.snapshots[1].time >= step)
		h.snapshots.shift();
	if (h.snapshots.length < 2)
		return;
	const then = h.snapshots[0].now;
	const fresh = [...now].map(([key, [low, high, n]]) => [low, high, n - (then.get(key)?.[2] || 0)])
		.filter((b) => b[2] > 0).sort((a, b) => a[1] - b[1]);
	const total = fresh.reduce((sum, b) => sum + b[2], 0);
	h.t.push(time);
	QUANTILES.forEach(([, q], i) => h.v[i].push(total ? quantile(fresh, total, s.histogram.exponential, q) : null));
	while (h.t.length && h.t[0] < time - 61) {
		h.t.shift();
		h.v.forEach((v) => v.shift());
	}
}

const isQuantiles = (meta) => meta?.kind === "histogram" && state.histogram === "quantiles";

async function askHistory() {
	if (!state.series.length || state.paused)
		return;
	const width = Math.max(200, Math.min(2000, Math.round($("plot").clientWidth * 1.5)));
	const asked = state.series.join(), wanted = state.series.filter((id) => isQuantiles(known.get(id)?.meta));
	let a;
	try {
		const [h, b] = await Promise.all([
			// A rate needs what was before the first point.
			get("history", {series: asked, points: width, last: Math.ceil(state.window * 1050) + "ms"}),
			wanted.length ? get("buckets", {series: wanted.join()}) : null,
		]);
		a = h;
		for (const s of b?.series || [])
			if (s.buckets)
				trackHistogram(s, b.time);
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		a = {series: [], from: 0, to: 0, missing: e.message};
	}
	link.ok();
	if (asked !== state.series.join() || state.paused)
		return;
	for (const s of a.series)
		s.v = (s.v || []).map(toNumber);
	lastHistory = a;
	drawPlot();
}

// Over how long a rate is formed: as short as the picture shows, but over sixteen events or more.
function rateStep(s) {
	let changes = 0;
	for (let i = 1; i < s.v.length; i++)
		changes += s.v[i] !== s.v[i - 1];
	const total = s.v.length ? s.v[s.v.length - 1] - s.v[0] : 0;
	// Of what was decimated not every change is seen; a whole number can't hide more than its rise.
	let events = s.decimated ? Infinity : changes;
	if (Number.isInteger(total) && total >= 0)
		events = Math.min(events, total);
	return state.window / ([250, 125, 50].find((n) => events >= 16 * n) ?? 25);
}

function drawPlot() {
	const a = lastHistory, lines = [];
	if (!a)
		return;
	let recorded = 0, drawn = 0, decimated = false;
	const steps = new Set();
	for (const s of a.series) {
		const slot = slots.get(s.id);
		if (s.error || slot === undefined)
			continue;
		recorded += s.recorded;
		drawn += s.points;
		decimated ||= s.decimated;
		const meta = {name: s.name, kind: s.kind, unit: s.unit}, unit = unitOf(meta);
		if (isQuantiles(meta)) {
			const h = histograms.get(s.id);
			QUANTILES.forEach(([name, , dash], i) => {
				if (h?.t.length)
					lines.push({key: `${s.id} ${name}`, id: s.id, part: name, slot, unit, dash, rate: false,
					            floor: true, t: h.t.slice(), v: h.v[i].slice()});
			});
			continue;
		}
		const running = s.kind === "counter" || s.kind === "histogram";
		if (running && state.mode === "rate") {
			const step = rateStep(s);
			steps.add(step);
			const [t, v] = rates(s.t, s.v, step);
			lines.push({key: s.id, id: s.id, slot, unit: s.kind === "counter" ? unit : "", rate: true,
			            floor: true, t, v});
		} else {
			lines.push({key: s.id, id: s.id, slot, unit: s.kind === "histogram" ? "" : unit, rate: false,
			            floor: running, t: s.t, v: s.v.map((v) => Number.isFinite(v) ? v : null)});
		}
	}
	const note = $("plot-empty"), any = lines.some((l) => l.t.length > 0);
	note.hidden = any;
	if (!any)
		put(note, a.missing || a.series.every((s) => s.error) ? "These series are gone: their pods have expired." :
			recorded ? "Waiting for a second point …" : whyNoHistory());
	const to = a.to || Date.now() / 1000;
	timePlot.draw(lines.filter((l) => l.t.length), to - state.window, to);
	$("plot").dataset.points = lines.reduce((n, l) => n + l.t.length, 0);
	put($("plot-status"), any ? `${number(recorded)} values recorded` +
	    (decimated ? `, ${number(drawn)} used: lowest and highest of each step` : ", all used") +
	    (steps.size ? `; rates over ${[...steps].sort((x, y) => x - y).map((x) => trimmed(seconds(x))).join(", ")}` : "") +
	    (timePlot.zoomed ? " · zoomed: Resume goes on" : "") : "");
	drawLegend();
}

function whyNoHistory() {
	const pods = state.series.map((id) => known.get(id)?.pod).filter(Boolean);
	const ended = pods.filter((p) => p.state !== "live");
	if (ended.length && ended.length === pods.length)
		return `${podName(ended[0])} is ${ended[0].state}` + (ended[0].last_read ?
			`, and was last read at ${clock(ended[0].last_read, false)}.` : ".");
	return "No history in this window: the collector runs without, or its memory is used up.";
}

function drawLegend(cursor) {
	const root = $("legend"), plot = timePlot;
	while (root.children.length > state.series.length)
		root.lastChild.remove();
	state.series.forEach((id, i) => {
		let item = root.children[i];
		if (!item) {
			item = el("li");
			item.parts = {mark: el("i"), name: el("span", "name"), pod: el("span", "pod"), labels: el("span", "labels"),
			              value: el("span", "num"), remove: el("button", "remove", "✕")};
			item.parts.remove.type = "button";
			item.parts.remove.addEventListener("click", () => togglePlot(item.dataset.id));
			const text = el("span", "what");
			const second = el("span", "second");
			second.append(item.parts.labels, item.parts.pod);
			text.append(item.parts.name, second);
			item.append(item.parts.mark, text, item.parts.value, item.parts.remove);
			root.append(item);
		}
		const k = known.get(id), meta = k?.meta, p = item.parts;
		item.dataset.id = id;
		p.mark.style.background = color(slots.get(id));
		const labels = meta ? labelText(meta.labels) : "";
		put(p.name, meta ? meta.name : id);
		put(p.labels, labels);
		title(item, meta ? `${meta.name}{${labels}}\n${meta.help}` : id);
		put(p.pod, k?.gone ? "expired" : k?.pod ? `${podName(k.pod)} ${k.pod.pid}` + (k.pod.state === "live" ? "" : ` · ${k.pod.state}`) : "");
		p.pod.dataset.state = k?.gone ? "dead" : k?.pod?.state || "";
		p.remove.setAttribute("aria-label", `Take ${meta?.name || id} off the plot`);
		const lines = plot.lines.map((l, n) => [l, n]).filter(([l]) => l.id === id);
		put(p.value, lines.map(([l, n]) => {
			const v = cursor === null || cursor === undefined ? lastOf(l.v) : plot.valueAt(n, cursor);
			const text = v === null ? "–" : l.rate ? rate(v, l.unit) : withUnit(v, l.unit);
			return l.part ? `${l.part} ${text}` : text;
		}).join("\n"));
	});
	const any = state.series.some((id) => known.get(id)?.meta?.kind === "histogram");
	$("histogram-modes").hidden = !any;
}

function lastOf(v) {
	for (let i = v.length - 1; i >= 0; i--)
		if (v[i] !== null)
			return v[i];
	return null;
}

// ---- controls ----------------------------------------------------------------------------------------------------

function showState() {
	for (const tab of TABS) {
		const on = tab === state.tab, button = $(`tab-${tab}`);
		button.setAttribute("aria-selected", on);
		button.tabIndex = on ? 0 : -1;
		$(`view-${tab}`).hidden = !on;
	}
	for (const [id, value] of [["q", state.q], ["kind", state.kind], ["pq", state.pq], ["state", state.podState]])
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

function openTab(tab) {
	state.tab = tab;
	showState();
	writeHash();
	metricList.draw();
	podList.draw();
	for (const p of [metricPoller, podPoller, hostPoller, readPoller])
		p.soon();
	anomalies.soon();
	traces.soon();
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
			(id === "q" ? $("metrics") : $("pods")).focus();
			e.preventDefault();
		}
	});
}

typed("q", "q", askMetricsAnew);
typed("pq", "pq", () => podPoller.soon());
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
$("pause").addEventListener("click", () => setPaused(!state.paused));
$("clear").addEventListener("click", () => {
	state.series = [];
	plotChanged();
});
$("reads-worker").addEventListener("change", () => readPoller.soon());

function control(root, key, name, then) {
	$(root).addEventListener("click", (e) => {
		const b = e.target.closest("button");
		if (!b)
			return;
		state[key] = key === "window" ? Number(b.dataset[name]) : b.dataset[name];
		timePlot.unzoom();
		setPaused(false);
		showState();
		writeHash();
		then();
	});
}

control("windows", "window", "window", () => historyPoller.soon());
control("modes", "mode", "mode", drawPlot);
control("histogram-modes", "histogram", "histogram", () => historyPoller.soon());

document.addEventListener("keydown", (e) => {
	if (e.target.closest("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) {
		if (e.key === "Escape" && e.target.matches("input"))
			e.target.blur();
		return;
	}
	if (e.key === "/") {
		const box = state.tab === "pods" ? $("pq") : $("q");
		if (state.tab !== "pods" && state.tab !== "metrics")
			openTab("metrics");
		box.focus();
		box.select();
		e.preventDefault();
	} else if (e.key === "p" && state.series.length) {
		setPaused(!state.paused);
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
const readPoller = new Poller(askReads, SECOND);
const selectedPoller = new Poller(askSelected, SECOND);
const historyPoller = new Poller(askHistory, () => state.window > 10 ? 500 : 200);

function applyHash() {
	readHash();
	showState();
	plotChanged();
	metrics.stamp++;
	metricPoller.soon();
	podPoller.soon();
}

link.listeners.push(drawAway);
setInterval(() => link.up || document.hidden || drawAway(), 500);
addEventListener("hashchange", applyHash);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	readColors();
	metricList.draw();
	drawLegend();
});

traces.start({state, picked: writeHash});
anomalies.start({state, podName, changed: () => podList.draw(), picked: writeHash, showMetrics: showMetricsOf});
readColors();
applyHash();
for (const p of [statusPoller, hostPoller, readPoller])
	p.soon();
