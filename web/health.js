// SPDX-License-Identifier: Apache-2.0
// health.js - the state of Sidelight itself: the badge in the header, and the view with the reasons, the hosts, the workers
// and the duration of READs. The page's title shows this state and that of the services.
import * as anomalies from "./anomalies.js";
import {$, el, emptyState, fillTable, num, put, title} from "./dom.js";
import {age, bytes, dateTime, grouped, many, number, rate} from "./format.js";
import * as reads from "./reads.js";
import {Poller, get, lateParts, link} from "./server.js";
import {state} from "./state.js";

const JUMP = 2; // seconds by which a clock may differ from what it was

let app = null; // {status, hostsNeeded, hostsKnown}
export let hosts = [];

const clocks = {began: 0, shift: NaN, jumped: 0, jump: 0, restarted: 0, skew: 0};

// Detects that the collector was restarted or that its clock jumped, and notifies the user. The collector's time is compared
// with its own uptime, because this computer's clocks stand still while it sleeps. sent: performance.now() when the status was
// requested. The collector read its clock during the round trip, so the middle of the round trip is wrong by at most half of it.
export function observe(status, sent, notice) {
	const slack = (performance.now() - sent) / 2000, shift = status.time - status.uptime_seconds;
	const again = clocks.began && status.start !== clocks.began;
	const jump = again || Math.abs(shift - clocks.shift) <= JUMP ? 0 : shift - clocks.shift;
	const skew = status.time - (Date.now() / 1000 - slack);
	clocks.skew = Math.abs(skew) > JUMP + slack ? skew : 0;
	if (again && status.uptime_seconds < 60) {
		clocks.restarted = status.start;
		notice("The collector started again. What it reads from memory is complete; its history and what it learned begin anew " +
		       "unless it keeps them in files.");
	} else if (jump) {
		clocks.jumped = status.time;
		clocks.jump = jump;
		notice(`The collector's clock jumped ${jump > 0 ? "ahead" : "back"} by ${age(Math.abs(jump))}: plots go on at its new time.`);
	}
	clocks.began = status.start;
	clocks.shift = shift;
}

// The state in one word for the badge, and the sentences behind it, the worst first.
function judge(status) {
	const t = status.totals, says = [], cores = status.workers.length, lateAnswers = lateParts();
	const say = (kind, what, advice = "") => says.push({kind, what, advice});
	const late = t.missed_per_second > 0.01 * t.rounds_per_second;
	if (!t.hosts && status.dta)
		say("good", "This collector owns stores of reports and reads no agent.");
	else if (!t.hosts_up)
		say(status.ready ? "bad" : "idle", status.ready ? "No agent is reachable." : "The collector has just started.",
		    "Check that sidelight agent is running, and that this user may open its socket.");
	else if (t.hosts_up < t.hosts)
		say("warn", `${t.hosts - t.hosts_up} of ${many(t.hosts, "host")} ${t.hosts - t.hosts_up === 1 ? "is" : "are"} not read.`,
		    "Their last values stay, and are marked stale. The last error is in the table below.");
	else
		say("good", `${t.hosts === 1 ? "The host is" : `All ${grouped(t.hosts)} hosts are`} read.`);
	if (t.hosts_up)
		say(late ? "warn" : "good", late ?
			`Reads arrive late: ${number(Number(t.missed_per_second.toPrecision(2)))} per second of ${number(Number(t.rounds_per_second.toPrecision(3)))}; the collector has ${many(cores, "core")}.` :
			`Reads arrive on time: ${number(Number(t.rounds_per_second.toPrecision(3)))} per second.`, late ?
			"Values are complete, but their times are coarser. Give the collector a core of its own (--cpus), more workers, or a longer --period." : "");
	if (t.pods_dropped)
		say("bad", `${many(t.pods_dropped, "pod")} ${t.pods_dropped === 1 ? "publishes" : "publish"} malformed memory and ${t.pods_dropped === 1 ? "is" : "are"} left out.`, "The view of pods has the fault of each.");
	const faults = Object.entries(t.faults);
	if (faults.length)
		say("warn", `Parts of the memory read were malformed: ${faults.map(([k, v]) => `${k} ${number(v)}`).join(", ")}.`);
	if (t.refused)
		say("warn", `${many(t.refused, "series")} ${t.refused === 1 ? "is" : "are"} refused: a limit is reached.`, "Raise --max-series, or publish less.");
	if (t.series_conflicts)
		say("warn", `${grouped(t.series_conflicts)} series are left out of /metrics: others have the same name and labels.`);
	for (const k of status.tcp || [])
		if (k.fault)
			say("warn", `The connections of ${k.host} are not read: ${k.fault}.`);
	if (clocks.jumped)
		say("warn", `The collector's clock jumped ${clocks.jump > 0 ? "ahead" : "back"} by ${age(Math.abs(clocks.jump))}, to ${dateTime(clocks.jumped)}.`);
	if (clocks.skew)
		say("warn", `This computer's clock and the collector's differ by ${age(Math.abs(clocks.skew))}.`, "Times on this page are the collector's.");
	for (const part of lateAnswers)
		say("warn", `Answers of /api/v1/${part} take longer than 4 s, or are refused.`, "What the page shows of them is older; the rest is not delayed.");
	if (clocks.restarted)
		say("idle", `The collector started again at ${dateTime(clocks.restarted)}.`);
	const m = status.memory;
	say("good", `${number(t.series)} series of ${many(t.pods, "pod")} are kept in ${bytes(m.resident_bytes || m.collector_bytes)} of memory, ` +
	    `of which ${bytes(m.history_bytes)} are history: ${number(m.history_points)} values.`);
	say("good", `Version ${status.version}, running for ${age(status.uptime_seconds)}, since ${dateTime(status.start)}.`);
	const rank = {bad: 0, warn: 1, idle: 2, good: 3};
	const order = says.map((s, i) => [s, i]).sort(([x, i], [y, k]) => rank[x.kind] - rank[y.kind] || i - k).map(([s]) => s);
	const word = !t.hosts && status.dta ? "reports only" : !t.hosts_up ? (status.ready ? "no agent" : "starting") :
		t.hosts_stale || t.hosts_up < t.hosts ? "degraded" : late ? "late" : "collecting";
	const kind = {"no agent": "bad", starting: "idle", degraded: "warn", late: "warn"}[word] || "good";
	// While answers are late, the data on the page is older than it looks.
	return kind === "good" && lateAnswers.length ? {word: "late answers", kind: "warn", says: order} : {word, kind, says: order};
}

// The page's title names the worst problem first. The word "collecting" is left out where the state of the services is known.
function titleOf(word, kind) {
	const open = anomalies.openNow(), known = link.up && anomalies.analysis;
	const says = [known && open ? many(open, "incident") : "", kind === "good" && known ? "" : word].filter(Boolean);
	return `${says.join(", ") || (known.pods && known.learning === known.pods ? "learning" : "no incidents")} · Sidelight`;
}

export function draw() {
	const badge = $("health"), {status} = app;
	let word = "connecting", kind = "idle", says = [];
	if (!link.up) {
		word = "no answer";
		kind = "bad";
		says = [{kind, what: `The collector does not answer: ${link.message}.`, advice: "The page asks again by itself."}];
	} else if (status) {
		({word, kind, says} = judge(status));
	}
	put(badge, word);
	title(badge, says.length ? `${says[0].what}\nOpens the view of Sidelight's health` : "");
	badge.className = `badge ${kind}`;
	document.title = titleOf(word, kind);
	if (state.tab !== "health")
		return;
	const list = $("health-says"), key = says.map((s) => s.kind + s.what + s.advice).join("\n");
	if (list.dataset.key === key)
		return;
	list.dataset.key = key;
	list.replaceChildren(...says.map((s) => {
		const item = el("li", s.kind), text = el("div");
		text.append(el("b", "", s.what));
		if (s.advice)
			text.append(el("p", "dim", s.advice));
		item.append(el("i", "dot"), text);
		return item;
	}));
}

export function drawVitals() {
	const {status} = app, t = status.totals;
	put($("v-hosts"), t.hosts_up === t.hosts ? `${t.hosts} up` : `${t.hosts_up} of ${t.hosts} up`);
	title($("v-hosts"), `${t.hosts_up} up, ${t.hosts_stale} stale, of ${t.hosts}`);
	$("v-hosts").className = t.hosts_up < t.hosts ? "warn" : "";
	put($("v-pods"), `${number(t.pods_live)} live` + (t.pods_dead ? ` · ${number(t.pods_dead)} dead` : ""));
	title($("v-pods"), `${t.pods_live} live, ${t.pods_dead} dead, ${t.pods_closed} closed, ` +
	      `${t.pods_dropped} dropped, ${t.pods_expired} expired since the start`);
	$("v-pods").className = t.pods_dead || t.pods_dropped ? "warn" : "";
	put($("n-pods"), number(t.pods));
	put($("n-hosts"), number(t.hosts));
	$("n-pods").classList.toggle("warn", t.pods_dead > 0);
	$("n-hosts").classList.toggle("warn", t.hosts_up < t.hosts);
}

async function askHosts() {
	const {status} = app;
	if (state.tab !== "health" && !app.hostsNeeded() && !(status && !status.totals.hosts_up))
		return;
	const a = await get("hosts");
	link.ok();
	hosts = a.hosts;
	$("hosts").hidden = !hosts.length;
	$("hosts-empty").hidden = hosts.length > 0;
	emptyState($("hosts-empty"), "No hosts", "The collector was started without --agent.", null,
	           "sidelight collect --agent /run/sidelight/agent.sock --agent host2.example:7475");
	fillTable($("hosts"), hosts.map((h) => {
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
			{text: h.last_error ? `${age(h.last_error_age_seconds)} ago: ${h.last_error}` : "–", kind: "error",
			 tip: h.last_error},
		];
	}));
	app.hostsKnown();
}

const poller = new Poller(askHosts, () => 1000);

export function soon() {
	poller.soon();
	reads.soon();
}

export function start(hooks) {
	app = hooks;
	reads.start(hooks);
	$("health").addEventListener("click", () => app.openTab("health"));
	soon();
}
