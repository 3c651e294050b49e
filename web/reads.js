// SPDX-License-Identifier: Apache-2.0
// reads.js - the duration of READs, and the state of each worker of the collector.
import {$, emptyState, fillTable, num, put} from "./dom.js";
import {number, rate, seconds} from "./format.js";
import {LatencyPlot} from "./plot.js";
import {Poller, get, link} from "./server.js";
import {state} from "./state.js";

let app; // {status}: the last answer of the collector, or null

const reads = {plot: null, past: [], workers: 0};

async function askReads() {
	if (state.tab !== "health")
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
		emptyState($("latency-empty"), "No READ yet", "READs are timed once a host is reached.");
	const q = (v) => v === null ? "–" : seconds(v);
	const {status} = app;
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
	put($("faults"), faults.length ? "Faults in memory read: " +
	    faults.map(([k, v]) => `${k} ${number(v)}`).join(", ") + "." : "No faults in memory read.");
}

const poller = new Poller(askReads, () => 1000);
export const soon = () => poller.soon();

export function start(knows) {
	app = knows;
	$("reads-worker").addEventListener("change", soon);
	soon();
}
