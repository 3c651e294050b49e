// SPDX-License-Identifier: Apache-2.0
// made_up.js - before a page's own scripts: answers of services, their map, an incident with all there is about it, and
// more services than any collector has, with the most hostile names that JSON carries. The rest is the collector's.
// window.madeUp: {many, shift, slept, more, late, hold, cause, metric, twin, older, verdict, refuse, minute, proxy} change what it
// says, and when.
(() => {
	const real = window.fetch, RTL = "\u202egnp.exe\u202c", MARKUP = "<img src=x onerror=alert(1)>&amp;\"'<script>";
	const LONG = "long-".repeat(2048), instance = "00000000000000aa", trace = "ab".repeat(16);
	const made = window.madeUp = {
		many: 0, shift: 0,
		slept: 0,          // seconds for which the browser's computer slept, while the collector ran
		more: false,       // more traces, connections, and the pressure of the host; "others": connections of others alone
		late: "", asked: 0, // a part of the API that does not answer; how often a service's part of it was asked for
		hold: 0, held: 0,  // ms by which the status arrives later; how often it did
		cause: null,       // replaces members of the incident's cause, such as a pod of the collector
		metric: null,      // the only metric that there is, and grows by 100 per second
		twin: false,       // a service of the same name in another namespace
		older: false,      // the open incident is too old for the newest ones, of which one has ended
		verdict: false,    // there is only one pod, and it is anomalous
		refuse: "", refused: [], // a part of the API that is refused; the refused addresses
		minute: 29394906,  // the part of the incident's id that is a time
		proxy: false,      // true: a proxy answers in place of the collector
	};
	const now = () => Date.now() / 1000 + made.shift;
	const began = made.began = Math.floor(now()) - 20;
	const blame = [{metric: `checkout_seconds_p90{route="${MARKUP.replaceAll('"', '\\"')}"}`, share: 0.6, value: 0.25, before: 0.002},
	               {metric: "checkout_failures_total", share: 0.3, value: 12, before: 0}];
	const anomaly = (end) => ({id: 1, instance, pod: "payments-0", service: "payments", namespace: "shop", host: "node-1", container: "", pid: 77,
		begin: began, last: end || now(), end, unread: false, findings: 9, peak: 4.2, explanation: `payments-0 since then: ${MARKUP}`,
		sentence: "payments-0 is slow", blame, trace, ...made.cause});
	const member = (name, id, peak) => ({anomaly: peak > 2 ? 1 : 2, anomalies: 1, instance: id, pod: `${name}-0`, service: name, namespace: "shop", host: "node-1",
		container: "", pid: 77, begin: began, last: now(), end: null, peak, suspicion: 0});
	const service = (name, more) => ({service: name, namespace: "shop", pods: 2, pods_live: 2, hosts: ["node-1"], instances: [instance],
		requests: {per_second: 60, errors_per_second: 0.6, error_ratio: 0.01, from: "application", metric: "http_requests_total"},
		latency: {p50_seconds: 0.001, p99_seconds: 0.2, from: "application", metric: "http_request_duration_seconds"},
		saturation: {cpu_cores: 0.4, cpu_ratio: 0.75, memory_bytes: 1e8, memory_ratio: 0.95, pressure: {cpu: 0.2, memory: 0, io: 0.01}},
		connections: {open: 4, bytes_per_second: 1000, retransmits_per_second: 2, rtt_seconds: 0.002, limit: "loss-fast", limit_label: "losses", why: "Losses keep it small."},
		anomaly: null, spark: Array.from({length: 60}, (_, i) => i % 9 ? 50 + i : null), changing: 3, unchanged: 4, attention: 0, attention_why: "",
		...more});
	const few = () => [...made.twin ? [service("payments", {namespace: "test"})] : [], service("payments", {anomaly: anomaly(null), attention: 90}), service("stock", {attention: 30, attention_why: "One pod is dead."}),
		service(MARKUP), service(RTL), service(LONG), service("café-žluťoučký-服务"),
		service("empty", {requests: null, latency: null, saturation: null, connections: null, spark: Array(60).fill(null)})];
	const node = (name, more) => ({service: name, namespace: "", outside: false, pods: 2, anomaly: false, culprit: false, sentence: "", ...more});
	const edge = (from, to, more) => ({from, to, sources: ["connections"], connections: 4, requests_per_second: 20, bytes_per_second: 1000,
		rtt_seconds: 0.001, retransmits_per_second: 0, errors_per_second: 0, p50_seconds: 0.002, culprit: false, ...more});
	const span = (span_id, parent_id, name, start, duration_seconds, more) => ({span_id, parent_id, name, service: "payments", pod: "payments-0", instance,
		kind: "server", status: "unset", message: "", start, duration_seconds, attributes: {[MARKUP]: RTL}, ...more});
	const summary = {trace_id: trace, reason: "slow", root: MARKUP, service: "payments", start: began + 1, duration_seconds: 0.25, error: false,
		spans_read: 3, pods: 1, orphans: 0, lost_lines: 0};
	const longest = {...summary, trace_id: "ef".repeat(16), duration_seconds: 3};
	const broken = {...summary, trace_id: "cd".repeat(16), reason: "error", error: true, duration_seconds: 0.01};
	const spans = () => [span("1", "", MARKUP, began + 1, 0.25), span("2", "1", "query", began + 1.01, 0.2),
	                     span("3", "1", RTL, began + 1.1, 0.1, {status: "error", message: MARKUP})];
	const flow = (of, retransmits) => ({instance: of, pod: "", host: "node-1", role: "client", limit: "loss-fast", limit_label: "losses", bytes_per_second: 500,
		retransmits, rtt_seconds: 0.002, why: `${retransmits} segments retransmitted.`});
	const waits = (i) => ({id: `00000000000000ee/${i}`, name: `node_pressure_${["cpu", "memory", "io"][i]}_waiting_seconds_total`, kind: "counter", labels: {}});
	const answers = {
		services: () => ({time: now(), window_seconds: 10, changing: 7, unchanged: 142, truncated: false, left_out: made.many ? 100 : 0,
			services: made.many ? Array.from({length: made.many}, (_, i) => service(`service-${String(i).padStart(5, "0")}`)) : few()}),
		map: () => ({time: now(), nodes: [node("outside", {outside: true}), node("web"), node("payments", {namespace: "shop", anomaly: true, culprit: true, sentence: MARKUP}),
				node("stock", {anomaly: true}), node(LONG), node(RTL)],
			edges: [edge("outside", "web"), edge("web", "payments", {culprit: true, errors_per_second: 2, retransmits_per_second: 1}), edge("web", "stock"),
				edge("stock", LONG), edge("payments", LONG), edge(LONG, "stock"), edge(RTL, RTL)]}),
		// The newer incident has become part of the older one.
		incidents: (address) => ({time: now(), truncated: false, incidents: [
			{number: 2, id: "00000000000000cc-29394907", kind: "fault", state: "ended", begin: began + 1,
				last: began + 2, end: began + 2, sentence: "", load: null, part_of: made.older ? 0 : 1, cause: anomaly(began + 2), members: [], members_left_out: 0},
			{number: 1, id: `${instance}-${made.minute}`, kind: "fault", state: "open", begin: made.cause?.begin ?? began, last: now(),
				end: null, sentence: `payments-0 has been slow since ${new Date(began * 1000).toISOString().slice(11, 19)} UTC: ${MARKUP}`, load: null, part_of: 0, cause: anomaly(null), members_left_out: 0, trace,
				members: [member("payments", instance, 4.2), member("stock", "00000000000000cc", 1.5)]}]
			.filter((i) => address.includes("state=open") ? !i.end : !made.older || i.end),
			analysis: {detector: "combined", shadow: "", false_alarms_per_hour: 1, pods: 2, learning: 0, anomalous: 1, drifting: 0, anomalies: 1}}),
		pods: () => made.verdict && {time: now(), matching: 1, offset: 0, truncated: false, pods: [{position: 0, instance, service: "payments", pod: "payments-0",
			unit: "", host: "node-1", target: "agent.sock", labels: {}, pid: 77, source: "application", state: "live", stale: false, changed: began,
			changed_seconds: 20, start: began, last_read: now(), age_seconds: 0, metrics: 3, series: 3, unsettled: 0, refused: 0, rounds: 9, bytes: 4096,
			fault: "", held: "", verdict: {score: 3, learning: false, state: "ready", anomalous: true, drift: false, since: began, blame}}]},
		scores: () => ({time: now(), instance, verdict: {score: 3, learning: false, state: "ready", anomalous: true, drift: false, blame},
			t: Array.from({length: 80}, (_, i) => began - 20 + i / 2), score: Array.from({length: 80}, (_, i) => i < 40 ? 0.1 : 4), threshold: Array(80).fill(1)}),
		traces: () => ({time: now(), traces: made.more ? [summary, longest, broken] : [summary], matching: made.more ? 3 : 1, held: 1, roots: 100, spans_published: 300, spans_read: 3, published_bytes: 1000, read_bytes: 10,
			truncated: false}),
		[`traces/${trace}`]: () => ({...summary, time: now(), spans: spans()}),
		[`traces/${broken.trace_id}`]: () => ({...broken, time: now(), spans: spans()}),
		flows: (address) => made.more && {time: now(), matching: made.more === "others" ? 5000 : 2, truncated: false, flows: !address.includes("host=node-1") ? [] :
			made.more === "others" ? [flow("00000000000000cc", 1)] : [flow(instance, 9), flow(instance, 3)]},
		marks: () => ({time: now(), truncated: false, marks: [{at: began, kind: "incident", instance, service: "payments", text: MARKUP}]}),
		metrics: (address) => made.metric ? {time: now(), matching: 1, offset: 0, truncated: false, metrics: [made.metric],
			pods: {[made.metric.id.slice(0, 16)]: {service: "rpc", pod: "rpc-0", host: "node-1", state: "live", last_read: now()}}} : made.more && address.includes("node_pressure") && {time: now(), matching: 3, offset: 0, truncated: false,
			metrics: [0, 1, 2].map(waits), pods: {"00000000000000ee": {service: "host", pod: "node-1", host: "node-1", state: "live"}}},
		// For a quarter of the time something waits for a CPU, for a tenth for memory.
		history: (address) => made.metric ? {from: now() - 10, to: now(), truncated: false, series: [{...made.metric, recorded: 20, points: 20, decimated: false,
			t: Array.from({length: 20}, (_, i) => now() - 10 + i / 2), v: Array.from({length: 20}, (_, i) => 1000 + 50 * i)}]} : address.includes("00000000000000ee") && {from: now() - 10, to: now(), truncated: false,
			series: [0.25, 0.1, 0].map((share, i) => ({...waits(i), t: [now() - 8, now()], v: [7, 7 + 8 * share]}))},
		group: (address) => address.includes("checkout_seconds") && ({time: now(), metric: "checkout_seconds", kind: "histogram", unit: "seconds", fn: "p90", clipped: false,
			groups: [{labels: {}, series: 1, points: Array.from({length: 100}, (_, i) => [began - 20 + i / 2, i < 40 ? 0.002 : 0.25])}]}),
	};
	window.fetch = async (address, options) => {
		const path = /api\/v1\/([^?]*)/.exec(String(address))?.[1];
		if (made.proxy)
			return new Response("<h1>502 Bad Gateway</h1>", {status: 502});
		if (made.late && made.late === path) {
			made.asked += String(address).includes("service=");
			return new Promise((done, fail) => options.signal.addEventListener("abort", () => fail(options.signal.reason)));
		}
		if (made.refuse && made.refuse === path) {
			made.refused.push(String(address));
			return new Response(JSON.stringify({error: "out of memory"}), {status: 503});
		}
		const answer = answers[path]?.(String(address));
		if (answer)
			return new Response(JSON.stringify(answer), {status: 200, headers: {"Content-Type": "application/json"}});
		const response = await real(address, options);
		if (path !== "status" || !made.shift && !made.hold && !made.slept)
			return response;
		const status = await response.json();
		await new Promise((done) => setTimeout(done, made.hold));
		made.held += made.hold > 0;
		return new Response(JSON.stringify({...status, time: status.time + made.shift + made.slept, uptime_seconds: status.uptime_seconds + made.slept}), {status: 200});
	};
})();
