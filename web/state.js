// SPDX-License-Identifier: Apache-2.0
// state.js - the state of the page, which is kept in the fragment of its address.
import {COLORS} from "./plot.js";

export const TABS = ["metrics", "pods", "flows", "reports", "anomalies", "traces", "hosts", "reads"];
const WINDOWS = [1, 10, 60];

export const state = {
	tab: "metrics", q: "", kind: "", pod: "", pq: "", podState: "",
	series: [],         // ids on the plot, at most COLORS
	window: 10, mode: "rate", histogram: "quantiles", paused: false,
	anomaly: "",        // instance of the pod whose score is shown
	fq: "", flowState: "", sort: "rate", // connections
	trace: "",          // id of the trace whose spans are shown
};

export function readHash() {
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
	state.fq = (p.get("fq") || "").slice(0, 200);
	state.flowState = one("flow", ["open", "closed", "listen"], "");
	state.sort = one("sort", ["rate", "retransmits", "rtt", "bytes", "age", "limit"], "rate");
	state.window = Number(one("window", WINDOWS.map(String), "10"));
	state.mode = one("mode", ["rate", "raw"], "rate");
	state.histogram = one("histogram", ["quantiles", "count"], "quantiles");
	state.series = [...new Set((p.get("series") || "").split(",")
		.filter((id) => /^[0-9a-f]{16}\/\d{1,10}$/.test(id)))].slice(0, COLORS);
}

export function writeHash() {
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
	add("fq", state.fq, "");
	add("flow", state.flowState, "");
	add("sort", state.sort, "rate");
	add("window", state.window, 10);
	add("mode", state.mode, "rate");
	add("histogram", state.histogram, "quantiles");
	add("series", state.series.join(","), "");
	const hash = p.toString().replaceAll("%2F", "/").replaceAll("%2C", ",");
	if (location.hash.slice(1) !== hash)
		history.replaceState(null, "", hash ? "#" + hash : location.pathname + location.search);
}
