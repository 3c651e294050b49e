// SPDX-License-Identifier: Apache-2.0
// flows.js - the view of connections, from the kernels of the hosts: the first ones in the selected
// order, each with its limit. The tab is shown once a host has a table of connections.
import {$, el, emptyState, fillTable, num, pickRows, put, title} from "./dom.js";
import {age, bytes, grouped, number, seconds} from "./format.js";
import * as layers from "./layers.js";
import * as net from "./net.js";
import {Poller, Problem, get, link} from "./server.js";

const SHOWN = 200, PERIOD = () => 1000;
const SEARCH = ["fq", "flowState", "flowService", "flowPort", "flowLimit"];
// What limits a connection: its name in the API and its description, grouped by the kind of badge.
const LIMITS = {
	bad: {"peer-not-reading": "peer does not read", "not-reading": "does not read", unanswered: "unanswered", "nothing-arrives": "nothing arrives",
	      "loss-timeout": "losses and timeouts", "loss-fast": "losses", "accept-queue": "accepts too slowly", refused: "refused",
	      "not-established": "not established", reset: "reset", "timed-out": "timed out"},
	warn: {"peer-reads-slowly": "peer reads slowly", "reads-slowly": "reads slowly", "peer-window": "peer's window", "receive-window": "receive window",
	       "send-buffer": "send buffer", nagle: "Nagle's algorithm", cork: "corked", reordering: "reordering", ecn: "congestion marks",
	       bufferbloat: "queue on the path", "half-closed": "half-closed"},
	good: {path: "path is full", "round-trip": "round trips", "slow-start": "slow start", pieces: "messages in pieces", pacing: "pacing",
	       application: "nothing to send", peer: "keeps up", "peer-thinks": "peer answers slowly", thinks: "answers slowly", accepting: "accepts",
	       idle: "idle", closed: "closed"},
};

// The kind of badge for what limits a connection.
export const limitKind = (limit) => ["bad", "warn"].find((kind) => limit in LIMITS[kind]) || "good";

let app = null; // {state, picked, showMetrics, status}
let list = [], error = null;

const end = (address, port) => (address.includes(":") ? `[${address}]` : address) + `:${port}`;
// A unit in parentheses is not a name: (host) means everything outside of containers.
const owner = (f) => f.pod || f.container || f.service || (f.unit && !f.unit.startsWith("(") ? f.unit : f.task || f.unit);

function drawHead() {
	for (const th of $("flows").tHead.rows[0].cells) {
		const on = th.dataset.sort === app.state.sort;
		if (th.dataset.sort)
			th.setAttribute("aria-sort", on ? "descending" : "none");
	}
}

function draw(a) {
	const empty = $("flows-empty"), filtered = SEARCH.some((key) => app.state[key]);
	drawHead();
	fillTable($("flows"), list.map((f) => [
		{text: f.limit_label, badge: f.state === "closed" ? "idle" : limitKind(f.limit), tip: f.why},
		{text: owner(f), kind: "strong", tip: [f.namespace, f.pod, f.container, f.service, f.unit, f.task,
			f.pid ? `pid ${f.pid}${f.by_listener ? ", of the listener" : ""}` : ""].filter(Boolean).join(", ")},
		{text: f.host + (f.stale ? " · stale" : "")},
		{text: end(f.local, f.local_port), kind: "mono", tip: f.role},
		{text: f.role === "listener" ? "listens" : end(f.remote, f.remote_port), kind: "mono", tip: f.tcp_state},
		num(f.role === "listener" ? "–" : `${bytes(f.bytes_per_second)}/s`),
		num(bytes(f.bytes_sent + f.bytes_received),
		    `${grouped(f.bytes_sent)} sent, ${grouped(f.bytes_received)} received`),
		num(f.rtt_seconds ? seconds(f.rtt_seconds) : "–", f.rtt_seconds ? "smoothed; the peer may delay its acknowledgements by up to 40 ms, to send them with an answer" : ""),
		num(f.rtt_min_seconds ? seconds(f.rtt_min_seconds) : "–", f.rtt_min_seconds ? "of the path, in the last minutes" : ""),
		num(grouped(f.retransmits), `${f.timeouts} timeouts, ${f.spurious} spurious`),
		num(age(f.duration_seconds), f.older ? "since it was first seen" : ""),
		{text: f.why, kind: "why", tip: f.why},
	]));
	[...$("flows").tBodies[0].rows].forEach((row, i) => {
		row.dataset.instance = list[i].instance || "";
		title(row.cells[1], row.cells[1].title + (list[i].instance ? "\nclick: its metrics" : ""));
	});
	$("flows").hidden = !list.length;
	put($("flows-note"), error || !a.matching ? "" : a.matching > list.length ?
		`the first ${number(list.length)} of ${number(a.matching)}` :
		`${number(a.matching)} ${a.matching === 1 ? "connection" : "connections"}`);
	empty.hidden = list.length > 0;
	if (list.length)
		return;
	if (error)
		emptyState(empty, error.headline, error.message);
	else if (filtered)
		emptyState(empty, "Nothing matches", "No connection matches.", ["Clear the search", () => {
			for (const key of SEARCH)
				app.state[key] = "";
			app.picked();
			soon();
		}]);
	else
		emptyState(empty, "No connections", "An agent publishes them with --tcp.", null,
		           "sidelight agent --tcp");
}

async function ask() {
	const present = app.status?.tcp?.length > 0 || app.status?.layers?.length > 0 ||
		app.status?.net?.length > 0;
	$("tab-flows").hidden = !present;
	put($("n-flows"), present ? number(app.status.tcp.reduce((sum, t) => sum + t.open, 0)) : "");
	if (app.state.tab !== "flows")
		return;
	let a = {flows: [], matching: 0};
	error = null;
	try {
		const {fq, flowState, flowService, flowPort, flowLimit, sort} = app.state;
		a = await get("flows", {q: [fq, flowService && `service=${flowService}`].filter(Boolean).join(" "), state: flowState, port: flowPort,
		                        limited_by: flowLimit, sort, limit: SHOWN});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		error = e;
	}
	link.ok();
	list = a.flows;
	draw(a);
}

const poller = new Poller(ask, PERIOD);

export function soon() {
	layers.soon();
	net.soon();
	poller.soon();
}

export function start(hooks) {
	app = hooks;
	layers.start(hooks);
	net.start(hooks);
	$("flows").tHead.addEventListener("click", (e) => {
		const sort = e.target.closest("th")?.dataset.sort;
		if (!sort)
			return;
		app.state.sort = sort;
		app.picked();
		soon();
	});
	pickRows($("flows"), (row) => row.dataset.instance && app.showMetrics(row.dataset.instance));
	for (const limits of Object.values(LIMITS)) {
		const group = el("optgroup");
		group.label = limits === LIMITS.bad ? "To be fixed" : limits === LIMITS.warn ? "Worth a look" : "As it should be";
		group.append(...Object.entries(limits).map(([name, text]) => new Option(text, name)));
		$("flow-limit").append(group);
	}
	for (const [id, key] of [["flow-state", "flowState"], ["flow-limit", "flowLimit"]])
		$(id).addEventListener("change", () => {
			app.state[key] = $(id).value;
			app.picked();
			soon();
		});
	soon();
}
