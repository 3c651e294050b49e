// SPDX-License-Identifier: Apache-2.0
// net.js - part of the view of connections: latency between hosts that both record segments, for each direction within
// the bound of their clocks and for both together without it; and a whole request through both stacks and the wire.
import {$, el, fillTable, num, put, title} from "./dom.js";
import {grouped, number, seconds} from "./format.js";
import {panel} from "./panel.js";

const SHOWN = 8;
// The colour of each part, as in layers.js.
const PARTS = {client_tcp_out: "s4", client_ip_out: "s5", client_mac_out: "s6", wire_there: "wire", server_mac_in: "s0",
               server_ip_in: "s1", server_tcp_in: "s2", server_app: "s3", server_tcp_out: "s4", server_ip_out: "s5",
               server_mac_out: "s6", wire_back: "wire", client_mac_in: "s0", client_ip_in: "s1", client_tcp_in: "s2"};

let app = null; // {state, status}

const signed = (v) => typeof v === "number" ? (v < 0 ? "−" : "") + seconds(Math.abs(v)) : "–";

function drawBar(td, trip) {
	let bar = td.firstElementChild;
	if (!bar) {
		bar = td.appendChild(el("div", "layer-bar"));
		Object.values(PARTS).forEach((kind) => bar.append(el("i", kind)));
	}
	bar.hidden = !trip;
	const sum = trip ? trip.parts.reduce((n, p) => n + Math.max(p.mean || 0, 0), 0) : 0;
	(trip ? trip.parts : []).forEach((p, i) => {
		const share = sum ? Math.max(p.mean || 0, 0) / sum : 0, part = bar.children[i];
		part.style.flexGrow = share;
		part.hidden = !share;
		title(part, `${p.part.replaceAll("_", " ")}\nmean ${signed(p.mean)}, ${(100 * share).toFixed(1)} % of all\n` +
		      `median ${signed(p.p50)}, 99 % within ${signed(p.p99)}, ${grouped(p.count)} times`);
	});
}

function oneWay(w) {
	if (!w.count)
		return num("–", "no recent segments, or the offset of the clocks is unknown");
	return num(`${signed(w.p50)} ± ${seconds(w.bound)}`, `mean ${signed(w.mean)}, 90 % within ${signed(w.p90)}, ` +
	           `99 % within ${signed(w.p99)}, ${grouped(w.count)} recent segments, ` +
	           `mean error bound ${seconds(w.bound)}` +
	           (w.reordered_total ? `\n${grouped(w.reordered_total)} reordered` : ""));
}

function rowsOf(a) {
	const rows = a.pairs.flatMap((p) => p.ports.map((port) => ({pair: p, port, trip: port.trips[0]})));
	return rows.sort((x, y) => y.port.there.count + y.port.back.count - x.port.there.count - x.port.back.count ||
	                 y.port.there.total - x.port.there.total).slice(0, SHOWN);
}

function draw(a) {
	const rows = rowsOf(a);
	const notes = a.pairs.flatMap((p) => [
		...(p.clock.known ? [] : [`${p.a.host} ⇄ ${p.b.host}: the offset of the clocks is unknown`]),
		...Object.entries(p.causes).map(([cause, n]) => `${p.a.host} ⇄ ${p.b.host}: ${grouped(n)} ${cause}`)]);
	$("net-panel").hidden = !rows.length;
	fillTable($("net"), rows.map(({pair, port, trip}) => {
		const negative = port.there.negative_total + port.back.negative_total;
		return [
			{text: `${pair.a.host} → ${pair.b.host}` + (pair.stale ? " · stale" : ""), kind: "strong",
			 tip: pair.clock.known ? `${pair.b.host}’s clock is ahead by ${signed(pair.clock.offset)} ± ` +
			      seconds(pair.clock.bound) : "the offset of the clocks is unknown"},
			{text: String(port.port), kind: "mono"},
			oneWay(port.there), oneWay(port.back),
			num(port.both.count ? seconds(port.both.p50) : "–", "both directions together, independent of the offset of the clocks"),
			num(port.both.count ? seconds(port.both.p99) : "–"),
			{text: "", kind: "bar"},
			num(trip ? seconds(trip.mean) : "–",
			    trip ? `from the call of the client on ${pair[trip.client].host} to its copy of the response` : ""),
			num(negative ? number(negative) : "0", negative ? "negative latencies: a clock was set, or the assumed bound is too small" : ""),
		];
	}));
	[...$("net").tBodies[0].rows].forEach((row, i) => {
		drawBar(row.cells[6], rows[i].trip);
		row.cells[8].classList.toggle("negative", row.cells[8].textContent !== "0");
	});
	put($("net-note"), notes.length ? `no latency: ${notes.join(", ")}` : "");
	title($("net-note"), notes.join("\n"));
}

const poller = panel("net", () => app, () => ({}), draw);

export function soon() {
	poller.soon();
}

export function start(hooks) {
	app = hooks;
	soon();
}
