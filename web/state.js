// SPDX-License-Identifier: Apache-2.0
// state.js - the state of the page, which is kept in the fragment of its address.
import {COLORS} from "./plot.js";

// In the order of the page.
export const TABS = ["services", "map", "metrics", "pods", "jobs", "flows", "anomalies", "cause", "traces", "reports", "network", "health"];
export const ANALYSIS_TABS = ["services", "map", "anomalies", "cause", "traces"]; // shown if the collector has the part "analysis"
export const WINDOWS = [1, 10, 60, 300, 900, 3600, 86400]; // the last one means all history
export const VIEWS = ["lines", "group", "siblings", "heat"];
export const FUNCTIONS = ["sum", "rate", "avg", "max", "min", "p50", "p75", "p90", "p95", "p99"];

export const state = {
	tab: "services", sq: "", q: "", kind: "", pod: "", pq: "", podState: "",
	series: [],         // ids on the plot, at most COLORS
	window: 10, mode: "rate", histogram: "quantiles", paused: false,
	incident: "",       // the incident shown: its id, INSTANCE@BEGIN of a member, or INSTANCE for the pod's latest incident
	fq: "", flowState: "", flowService: "", flowPort: "", flowLimit: "", sort: "rate", // connections
	device: "",         // address or number of the network device that is shown
	job: "",            // the job that is shown
	trace: "",          // id of the trace whose spans are shown
	traces: {service: "", root: "", status: "", least: "", attribute: "", from: "", to: "", sort: ""}, // which are listed
	all: false,         // also list metrics that do not change
	from: 0, to: 0,     // range of the plots in seconds; 0: the latest `window` seconds, live
	view: "lines", by: ["pod"], fn: "", // fn: "" means the metric's default
};

// Allowed values in a search for traces: a duration in ms, times in seconds.
const NUMBER = /^\d{1,12}(\.\d{1,6})?$/, TEXT = /^.{1,200}$/;
const TRACES = {service: TEXT, root: TEXT, status: /^(ok|failed)$/, least: NUMBER, attribute: TEXT, from: NUMBER, to: NUMBER, sort: /^duration$/};

export function readHash() {
	const p = new URLSearchParams(location.hash.slice(1));
	const one = (key, allowed, otherwise) => allowed.includes(p.get(key)) ? p.get(key) : otherwise;
	state.tab = one("tab", TABS, "services");
	state.sq = (p.get("sq") || "").slice(0, 200);
	state.q = (p.get("q") || "").slice(0, 200);
	state.kind = one("kind", ["counter", "gauge", "histogram", "stateset", "info"], "");
	state.pod = /^[0-9a-f]{1,16}$/i.test(p.get("pod") || "") ? p.get("pod") : "";
	state.pq = (p.get("pq") || "").slice(0, 200);
	state.podState = one("state", ["live", "dead", "closed", "stale", "dropped"], "");
	const incident = p.get("incident") || p.get("anomaly") || "";
	state.incident = /^[0-9a-f]{16}(-\d{1,12}|@\d{1,12}(\.\d{1,6})?)?$/.test(incident) ? incident : "";
	if (state.tab === "anomalies" && state.incident) // an older address
		state.tab = "cause";
	state.all = p.get("all") === "1";
	state.trace = /^[0-9a-f]{32}$/.test(p.get("trace") || "") ? p.get("trace") : "";
	state.device = /^[\w.:]{1,45}$/.test(p.get("device") || "") ? p.get("device") : "";
	state.job = (p.get("job") || "").slice(0, 127);
	state.fq = (p.get("fq") || "").slice(0, 200);
	for (const [key, allowed] of Object.entries(TRACES))
		state.traces[key] = allowed.test(p.get(`trace-${key}`) || "") ? p.get(`trace-${key}`) : "";
	state.flowState = one("flow", ["open", "closed", "listen"], "");
	state.flowService = (p.get("flow-service") || "").slice(0, 100);
	state.flowPort = /^\d{1,5}$/.test(p.get("port") || "") ? p.get("port") : "";
	state.flowLimit = /^[a-z-]{1,30}$/.test(p.get("limit") || "") ? p.get("limit") : "";
	state.sort = one("sort", ["rate", "retransmits", "rtt", "bytes", "age", "limit"], "rate");
	state.window = Number(one("window", WINDOWS.map(String), "10"));
	state.mode = one("mode", ["rate", "raw"], "rate");
	state.histogram = one("histogram", ["quantiles", "count"], "quantiles");
	const from = Number(p.get("from")), to = Number(p.get("to"));
	const absolute = from > 0 && to > from && to - from <= 86400 && to < 1e11;
	state.from = absolute ? from : 0;
	state.to = absolute ? to : 0;
	state.paused = absolute;
	state.view = one("view", VIEWS, "lines");
	state.by = (p.get("by") ?? "pod").split(",").filter((l) => /^[A-Za-z_][\w.]{0,99}$/.test(l)).slice(0, 8);
	state.fn = one("fn", FUNCTIONS, "");
	state.series = [...new Set((p.get("series") || "").split(",")
		.filter((id) => /^[0-9a-f]{16}\/\d{1,10}$/.test(id)))].slice(0, COLORS);
}

// Updates the address after a change by the page itself, or while the user types.
export const writeHash = () => write("replaceState");
// Updates the address after a step of the user. The previous address stays in the history, so that Back leads to it.
export const navigate = () => write("pushState");

function write(how) {
	const p = new URLSearchParams();
	const add = (key, value, otherwise) => {
		if (value !== otherwise)
			p.set(key, value);
	};
	add("tab", state.tab, "services");
	add("sq", state.sq, "");
	add("q", state.q, "");
	add("kind", state.kind, "");
	add("pod", state.pod, "");
	add("pq", state.pq, "");
	add("state", state.podState, "");
	add("incident", state.tab === "cause" ? state.incident : "", "");
	add("all", state.all ? "1" : "", "");
	add("trace", state.trace, "");
	add("device", state.device, "");
	add("job", state.job, "");
	add("fq", state.fq, "");
	for (const key of Object.keys(TRACES))
		add(`trace-${key}`, state.traces[key], "");
	add("flow", state.flowState, "");
	add("flow-service", state.flowService, "");
	add("port", state.flowPort, "");
	add("limit", state.flowLimit, "");
	add("sort", state.sort, "rate");
	add("window", state.window, 10);
	add("mode", state.mode, "rate");
	add("histogram", state.histogram, "quantiles");
	add("series", state.series.join(","), "");
	add("from", state.from && state.from.toFixed(3), 0);
	add("to", state.to && state.to.toFixed(3), 0);
	add("view", state.view, "lines");
	add("by", state.by.join(","), "pod");
	add("fn", state.fn, "");
	const hash = p.toString().replaceAll("%2F", "/").replaceAll("%2C", ",").replaceAll("%40", "@");
	if (location.hash.slice(1) !== hash)
		history[how](null, "", hash ? "#" + hash : location.pathname + location.search);
}
