// SPDX-License-Identifier: Apache-2.0
// app.js - the page. Its state is in the fragment of the address; it polls the collector for data.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, label, put, title} from "./dom.js";
import {HIDDEN_MS, Poller, Problem, get, link, parts, token} from "./server.js";
import {List} from "./list.js";
import {color, rates, sparkline} from "./plot.js";
import {age, bytes, dateTime, grouped, grows, labelText, many, moment, number, rate, toNumber, unitOf, valueUnit,
        withUnit, zone} from "./format.js";
import * as cause from "./cause.js";
import * as flows from "./flows.js";
import * as health from "./health.js";
import * as jobs from "./jobs.js";
import * as map from "./map.js";
import * as network from "./network.js";
import * as reports from "./reports.js";
import * as services from "./services.js";
import * as series from "./series.js";
import {ANALYSIS_TABS, TABS, navigate, readHash, state, writeHash} from "./state.js";
import * as traces from "./traces.js";

// ---- header ------------------------------------------------------------------------------------

let status = null;
let noticed = 0;

// Shows one sentence for a while, on top of the page, so that nothing moves.
function notice(text) {
	const e = $("notice");
	put(e, text);
	e.hidden = false;
	clearTimeout(noticed);
	noticed = setTimeout(() => {
		e.hidden = true;
	}, 8000);
}

function drawAway() {
	const away = $("away");
	away.hidden = link.up;
	document.body.classList.toggle("is-away", !link.up);
	if (!link.up) {
		const wait = Math.max(0, Math.ceil((link.retryAt - performance.now()) / 1000));
		put($("away-text"), `The collector does not answer (${link.message})` + (link.heard ? `. This data is from ${moment(link.heard / 1000)}` : "") +
			`; retrying ${wait ? `in ${wait} s` : "now"}.`);
	}
	health.draw();
}

// ---- metrics -------------------------------------------------------------------------------------

const metrics = {items: [], matching: 0, loaded: false, error: null, stamp: 0, pods: {}, unchanged: 0, own: 0};
const known = new Map(); // id -> rate and values of the last 60 s
const SPARK = 60;

// Records a value; the rate uses the times of READs, not those of answers.
export function observe(m, pod, now) {
	let k = known.get(m.id);
	const v = toNumber(m.value), at = pod?.last_read || now;
	if (!k)
		known.set(m.id, k = {v: NaN, at: 0, rate: NaN, spark: [], second: 0, seen: now});
	k.seen = now;
	k.meta = m;
	k.pod = pod;
	if (at < k.at - 1) // the clock was set back
		Object.assign(k, {v: NaN, at: 0, rate: NaN, spark: [], second: 0, seeded: false});
	if (at - k.at >= 0.4) {
		const running = grows(m.kind);
		const fresh = k.at && at - k.at < 10;
		k.rate = fresh && v >= k.v ? (v - k.v) / (at - k.at) : NaN;
		const point = running ? k.rate : v, slot = Math.floor(at);
		if (slot - k.second >= SPARK) // all its values are too old
			Object.assign(k, {spark: [], seeded: false});
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
	if (seeding)
		return;
	for (let i = first; i < first + count && ids.length < 32; i++) {
		const m = metrics.items[i], k = m && known.get(m.id);
		if (k && !k.seeded && m.kind !== "info") {
			k.seeded = true;
			ids.push(m.id);
		}
	}
	if (!ids.length)
		return;
	seeding = true;
	try {
		const a = await get("history", {series: ids.join(), last: SPARK + 1 + "s", points: 2 * SPARK + 8});
		for (const s of a.series) {
			const k = known.get(s.id), at = new Map();
			if (s.error || !k)
				continue;
			const running = grows(s.kind);
			const v = s.v.map(toNumber), [t, y] = running ? rates(s.t, v, 1) : [s.t, v];
			t.forEach((x, i) => at.set(Math.floor(x), y[i]));
			const spark = Array.from({length: SPARK}, (_, i) =>
				k.spark[k.spark.length - SPARK + i] ?? at.get(k.second - SPARK + 1 + i) ?? null);
			// Both lists lack the second in which they begin.
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
	if (m.histogram) {
		const h = m.histogram;
		return h.p50 === null ? "no observations" :
			`p50 ${withUnit(toNumber(h.p50), unit)} · p99 ${withUnit(toNumber(h.p99), unit)}`;
	}
	if (m.kind === "stateset")
		return Object.entries(m.states).filter(([, on]) => on).map(([name]) => name).join(", ") || "none";
	if (m.kind === "info")
		return "info";
	if (m.kind === "summary")
		return many(m.value, "observation");
	return withUnit(toNumber(m.value), unit);
}

function valueTip(m) {
	if (m.histogram) {
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
	const running = grows(m.kind);
	put(c.rate, running && pod?.state === "live" ? rate(k.rate, valueUnit(m)) : "–");
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
	keyOf: (index) => metrics.items[index]?.id,
	pick: (index) => {
		const m = metrics.items[index];
		if (m && (m.kind !== "info" || state.series.includes(m.id)))
			series.togglePlot(m.id);
	},
	moved: () => metricPoller.soon(),
});

// Without a search, the list hides series that do not change, and series of Sidelight, hosts and runtimes.
const folds = () => !state.all && !state.q && !state.kind && !state.pod;

async function askMetrics() {
	if (state.tab !== "metrics")
		return;
	const {first, count} = metricList.range(), stamp = metrics.stamp;
	let a;
	try {
		a = await get("metrics", {q: state.q, kind: state.kind, pod: state.pod, changing: folds() ? 1 : "", applications: folds() ? 1 : "", offset: first,
		                          limit: Math.max(40, Math.min(count, 300))});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		metrics.error = e;
		a = {metrics: [], pods: {}, matching: 0, offset: 0, time: 0};
	}
	if (stamp !== metrics.stamp)
		return; // the search has changed
	if (a.time)
		metrics.error = null;
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
	metrics.unchanged = a.unchanged ?? metrics.unchanged;
	metrics.own = a.own ?? metrics.own;
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

const MANY = 20000; // too many to scroll through

function drawMetricsNote() {
	const filtered = state.q || state.kind || state.pod;
	put($("metrics-note"), metrics.error || !metrics.matching ? "" : filtered ?
		`${number(metrics.matching)} match` : metrics.matching >= MANY ? `${number(metrics.matching)} series: search, rather than scroll` :
			state.series.length ? "" : "Select a metric to plot it");
	const fold = $("fold"), still = metrics.unchanged;
	fold.hidden = !!filtered || !still && !metrics.own && !state.all;
	fold.setAttribute("aria-pressed", state.all);
	put(fold, `${state.all ? "Hide" : "Show"} ` + [still && `${grouped(still)} series without a change`,
		metrics.own && `${grouped(metrics.own)} of hosts, runtimes and Sidelight`].filter(Boolean).join(", ") || "series without a change");
	title(fold, "node_*, go_*, process_* and sidelight_* are of hosts, runtimes and Sidelight");
	const chip = $("pod-filter");
	chip.hidden = !state.pod;
	if (state.pod) {
		const pod = metrics.pods[state.pod.padStart(16, "0")];
		put(chip, `Pod ${podName(pod) || state.pod} ✕`);
	}
	const empty = $("metrics-empty"), alone = !filtered && metrics.matching > 0 && metrics.onlyAgents;
	const folded = folds() && !metrics.matching && still > 0;
	empty.hidden = !metrics.loaded || metrics.matching > 0 && !alone;
	$("metrics").hidden = !empty.hidden && !alone;
	if (empty.hidden)
		return;
	if (metrics.error)
		emptyState(empty, metrics.error.headline, metrics.error.message);
	else if (folded)
		emptyState(empty, "Nothing changes", `None of ${grouped(still)} series changed in the last minute.`, ["Show them", unfold]);
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

function unfold() {
	state.all = !state.all;
	askMetricsAnew();
	drawMetricsNote();
}

$("fold").addEventListener("click", unfold);

// ---- empty states -----------------------------------------------------------------------------------

// There are no pods: either there is no agent, or the agent has no pods.
function nothingYet(root) {
	const t = status?.totals;
	const socket = health.hosts.find((h) => h.fabric === "shm")?.target || "/run/sidelight/agent.sock";
	if (t && !t.hosts_up && !metrics.onlyAgents) {
		const tried = health.hosts.map((h) => `${h.target}: ${h.last_error || h.condition}`).join("\n");
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
	if (!p) {
		for (const key of ["badge", "name", "labels", "host", "pid", "up", "metrics", "unsettled"])
			put(c[key], "");
		return false;
	}
	row.dataset.instance = p.instance;
	row.dataset.state = p.state;
	const found = p.state === "live" && p.verdict?.anomalous ? p.verdict : null;
	row.dataset.anomalous = !!found;
	put(c.badge, found ? "anomalous" : p.state);
	c.badge.className = `badge ${found ? "bad" : p.state}`;
	// The agent keeps a pod that is stale or dropped as live, and `changed` is the time at which it became so.
	const unread = p.state === "stale" || p.state === "dropped", since = unread ? p.last_read : p.changed;
	title(c.badge, found ? `since ${moment(found.since)}: ${anomalies.blameText(found.blame)}` :
		p.fault ? `dropped: ${p.fault}` : `${p.state} since ${dateTime(since)}`);
	put(c.name, podName(p) + (p.source === "tcp" ? " · TCP" : ""));
	title(c.name, `${p.service} ${p.pod}, instance ${p.instance}: show its metrics`);
	const labels = p.fault ? `fault: ${p.fault}` : p.held ? `held: ${p.held}` : found ? anomalies.blameText(found.blame) : labelText(p.labels, ["service", "pod"]);
	put(c.labels, labels);
	title(c.labels, labelText(p.labels));
	put(c.host, p.host || p.target);
	title(c.host, p.target);
	put(c.pid, p.pid ? String(p.pid) : "–");
	const up = p.state === "live" || p.state === "stale";
	put(c.up, up ? age(pods.time - p.start) : unread && !p.last_read ? "–" : `${age(unread ? p.age_seconds : p.changed_seconds)} ago`);
	title(c.up, `started ${dateTime(p.start)}; ${p.state} since ${dateTime(since)}; last READ ` +
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
	keyOf: (index) => pods.items[index]?.instance,
	pick: (index) => {
		const p = pods.items[index];
		if (!p)
			return;
		metrics.pods[p.instance] = p;
		showMetricsOf(p.instance);
	},
	moved: () => podPoller.soon(),
});

function showMetricsOf(instance) {
	state.pod = instance;
	state.q = state.kind = "";
	state.tab = "metrics";
	showState();
	navigate();
	askMetricsAnew();
}

async function askPods() {
	if (state.tab !== "pods")
		return;
	const {first, count} = podList.range();
	let a, error = null;
	try {
		a = await get("pods", {q: state.pq, state: state.podState, sort: "attention", offset: first, limit: Math.max(40, count)});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		error = e;
		a = {pods: [], matching: 0, time: 0};
	}
	link.ok();
	pods.items = [];
	for (const p of a.pods)
		pods.items[p.position] = p;
	pods.matching = a.matching;
	pods.time = a.time;
	podList.resize(a.matching);
	put($("pods-note"), a.matching ? `${number(a.matching)} ${a.matching === 1 ? "pod" : "pods"}` : "");
	const empty = $("pods-empty"), alone = !state.pq && !state.podState && a.matching > 0 &&
		a.matching === a.pods.length && a.pods.every(isAgent);
	empty.hidden = a.matching > 0 && !alone;
	$("pods").hidden = !empty.hidden && !alone;
	if (error)
		emptyState(empty, error.headline, error.message);
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

// ---- controls ----------------------------------------------------------------------------------------------------

function showState() {
	document.body.dataset.tab = state.tab;
	for (const tab of TABS) {
		const on = tab === state.tab, button = $(`tab-${tab}`);
		button.setAttribute("aria-selected", on);
		if (on)
			button.hidden = false;
		button.tabIndex = on ? 0 : -1;
		$(`view-${tab}`).hidden = !on;
	}
	for (const [id, value] of [["q", state.q], ["kind", state.kind], ["pq", state.pq], ["state", state.podState],
		["fq", state.fq], ["sq", state.sq], ["flow-state", state.flowState], ["flow-service", state.flowService],
		["flow-port", state.flowPort], ["flow-limit", state.flowLimit]])
		if ($(id).value !== value)
			$(id).value = value;
	traces.showSearch();
	for (const b of document.querySelectorAll("[data-window]"))
		b.setAttribute("aria-pressed", Number(b.dataset.window) === state.window);
	for (const b of document.querySelectorAll("[data-mode]"))
		b.setAttribute("aria-pressed", b.dataset.mode === state.mode);
	for (const b of document.querySelectorAll("[data-histogram]"))
		b.setAttribute("aria-pressed", b.dataset.histogram === state.histogram);
	drawMetricsNote();
}

// Polls for the open view at once, because it may have been polled rarely before.
function askSoon() {
	for (const p of [services, map, cause, series, metricPoller, podPoller, health, anomalies, flows, jobs, reports, network,
		traces])
		p.soon();
}

function openTab(tab, write = navigate) {
	state.tab = tab;
	showState();
	write();
	services.draw();
	metricList.draw();
	podList.draw();
	health.draw();
	askSoon();
}

const views = () => TABS.filter((tab) => !$(`tab-${tab}`).hidden);

function openCause(address) {
	state.incident = address;
	state.trace = "";
	openTab("cause");
	$("view-cause").querySelector(".scroll").scrollTop = 0;
}

// Shows the metrics of a service without an anomaly.
function openService(name, namespace) {
	const s = services.named(name, namespace);
	if (s?.anomaly)
		openCause(anomalies.addressOf(s.anomaly));
	else
		showService(s || {service: name, namespace, instances: []});
}

function showService(s) {
	state.pod = s.instances.length === 1 ? s.instances[0] : "";
	// The name of a service without publishers is that of a unit, a container or a pod.
	state.q = state.pod || !s.service ? "" : (s.instances.length ? `service=${s.service}` : s.service) +
		(s.namespace ? ` namespace=${s.namespace}` : "");
	state.kind = "";
	openTab("metrics");
	askMetricsAnew();
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
	const there = views();
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
		const list = {q: "metrics", pq: "pods", fq: "flows", sq: "services"}[id];
		if (e.key === "ArrowDown" && list) {
			$(list).focus();
			e.preventDefault();
		}
	});
}

typed("q", "q", askMetricsAnew);
typed("pq", "pq", () => podPoller.soon());
typed("fq", "fq", flows.soon);
typed("flow-service", "flowService", flows.soon);
typed("flow-port", "flowPort", flows.soon);
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
	navigate();
	askMetricsAnew();
});
$("away-retry").addEventListener("click", () => link.retryNow());
token.listeners.push(() => {
	$("token").hidden = !token.asked;
	put($("token-why"), token.why);
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
		(key === "window" ? navigate : writeHash)();
		then();
	});
}

control("windows", "window", "window", () => series.historyPoller.soon());
control("modes", "mode", "mode", series.drawPlot);
control("histogram-modes", "histogram", "histogram", () => series.historyPoller.soon());

// The search box of each view that has one.
const SEARCHES = {services: "sq", metrics: "q", pods: "pq", flows: "fq"};

function search() {
	if (!SEARCHES[state.tab])
		openTab(firstTab());
	const box = $(SEARCHES[state.tab]);
	box.focus();
	box.select();
}

document.addEventListener("keydown", (e) => {
	if (e.target.closest("input, select, textarea") || e.ctrlKey || e.metaKey || e.altKey) {
		if (e.key === "Escape" && e.target.matches("input"))
			e.target.blur();
		return;
	}
	if (document.querySelector("dialog[open]"))
		return;
	if (e.key === "/")
		search();
	else if (e.key === "?")
		$("help").showModal();
	else if (e.key === "p" && state.series.length)
		series.setPaused(!state.paused);
	else if (e.key === "Escape" && state.tab === "cause")
		openTab("services");
	else if (/^[1-9]$/.test(e.key) && views()[e.key - 1])
		openTab(views()[e.key - 1]);
	else
		return;
	e.preventDefault();
});
$("help-open").addEventListener("click", () => $("help").showModal());

function drawZone() {
	put($("zone"), zone.utc ? "UTC" : "Local time");
	title($("zone"), `Times are ${zone.utc ? "in UTC: show local time" : "local: show UTC"}`);
}

$("zone").addEventListener("click", () => zone.set(!zone.utc));
zone.listeners.push(() => {
	drawZone();
	podList.draw();
	health.draw();
	askSoon();
});
drawZone();

// ---- start ----------------------------------------------------------------------------------------------------------

// A collector without analysis knows no services: the first view is that of its metrics.
const firstTab = () => parts.has("analysis") ? "services" : "metrics";

function hideAbsent() {
	if (parts.has("analysis"))
		return;
	for (const tab of ANALYSIS_TABS)
		$(`tab-${tab}`).hidden = true;
	$("v-services").parentElement.hidden = true;
	if (ANALYSIS_TABS.includes(state.tab))
		openTab(firstTab(), writeHash);
}

async function askStatus() {
	const sent = performance.now();
	status = await get("status");
	parts.set(status.parts);
	hideAbsent();
	link.ok();
	health.observe(status, sent, notice);
	health.draw();
	health.drawVitals();
	put($("n-metrics"), number(status.totals.series));
	if (!$("metrics-empty").hidden)
		drawMetricsNote();
}

const SECOND = () => 1000;
const statusPoller = new Poller(askStatus, SECOND, "", HIDDEN_MS);
const metricPoller = new Poller(askMetrics, SECOND);
const podPoller = new Poller(askPods, SECOND);

function applyHash() {
	readHash();
	showState();
	series.timePlot.unzoom();
	series.heatPlot.unzoom();
	series.plotChanged();
	metrics.stamp++;
	askSoon();
}

link.listeners.push(drawAway);
setInterval(() => link.up || document.hidden || drawAway(), 500);
addEventListener("hashchange", applyHash);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
	readColors();
	services.draw();
	metricList.draw();
	series.drawLegend();
});

traces.start({state, picked: navigate, changed: writeHash});
reports.start({state, get status() { return status; }});
network.start({get status() { return status; }});
flows.start({state, showMetrics: showMetricsOf, picked: () => {
	showState();
	writeHash();
}, get status() { return status; }});
anomalies.start({state, podName, changed: health.draw, openCause});
jobs.start({openCause, showMetrics: showMetricsOf});
services.start({openCause, showService, nothingYet});
map.start({openService});
cause.start({podName, showMetrics: showMetricsOf, notice, showTrace: (id) => {
	state.trace = id;
	openTab("traces");
}, get role() { return status?.role; }});
series.start({known, observe, podName, drawMetrics: () => metricList.draw()});
health.start({openTab, get status() { return status; },
	hostsNeeded: () => !$("services-empty").hidden || !$("metrics-empty").hidden || !$("pods-empty").hidden,
	hostsKnown: () => {
		if (status && !status.totals.hosts_up && !$("metrics-empty").hidden)
			drawMetricsNote();
	}});
readColors();
applyHash();
statusPoller.soon();
