// SPDX-License-Identifier: Apache-2.0
// layers.js - part of the view of connections: the time of requests by layer of the stack, per workload.
// It is shown once a host has a table of layers.
import {$, el, fillTable, num, pickRows, put, title} from "./dom.js";
import {grouped, number, seconds} from "./format.js";
import {panel} from "./panel.js";

const SHOWN = 8;
const LAYERS = [["mac_in", "driver to IP"], ["ip_in", "IP to TCP"], ["tcp_in", "TCP to the application's read"],
                ["app", "the application: last byte read to first byte sent"], ["tcp_out", "TCP to IP"],
                ["ip_out", "IP to the queue"], ["mac_out", "queue to driver"]];

let app = null; // {state, status}

const owner = (w) => w.pod || w.container || w.service || w.unit;
const time = (v) => typeof v === "number" ? seconds(v) : v ? "> 6 s" : "–"; // above the last bucket

// Recent requests; all of them if the workload is idle.
const shown = (w) => w.late.requests || !w.all.requests ? w.late : w.all;

// Each part of the bar is a layer's share of the mean.
function drawBar(td, s) {
	let bar = td.firstElementChild;
	if (!bar) {
		bar = td.appendChild(el("div", "layer-bar"));
		LAYERS.forEach((_, i) => bar.append(el("i", `s${i}`)));
	}
	const sum = LAYERS.reduce((n, [name]) => n + (s.layers[name].mean || 0), 0);
	LAYERS.forEach(([name, text], i) => {
		const l = s.layers[name], share = sum ? (l.mean || 0) / sum : 0, part = bar.children[i];
		part.style.flexGrow = share;
		part.hidden = !share;
		title(part, `${name}: ${text}\nmean ${time(l.mean)}, ${(100 * share).toFixed(1)} % of all\n` +
		      `median ${time(l.p50)}, 99 % within ${time(l.p99)}, ${grouped(l.count)} times`);
	});
}

function draw(a) {
	const rows = a.workloads.filter((w) => w.all.requests), lost = a.hosts.flatMap((h) =>
		Object.entries(h.causes).map(([cause, n]) => `${h.host}: ${grouped(n)} ${cause}`));
	$("layers-panel").hidden = !rows.length;
	fillTable($("layers"), rows.map((w) => {
		const s = shown(w), total = s.layers.total;
		return [
			{text: owner(w), kind: "strong", tip: [w.namespace, w.pod, w.container, w.service, w.unit].filter(Boolean).join(", ")},
			{text: w.host + (w.stale ? " · stale" : "")},
			{text: `${w.role} ${w.port}`, kind: "mono"},
			num(s === w.all ? "idle" : `${number(s.requests / Math.max(w.late_seconds, 1))}/s`,
			    `${grouped(w.all.requests)} requests, ${grouped(w.all.measured)} of them with all layers`),
			{text: "", kind: "bar"},
			num(time(total.p50)), num(time(total.p90)), num(time(total.p99), `mean ${time(total.mean)}`),
			num(grouped(s.unattributed), s.incomplete ? `${grouped(s.incomplete)} requests without all layers` : ""),
		];
	}));
	[...$("layers").tBodies[0].rows].forEach((row, i) => {
		row.dataset.instance = rows[i].instance;
		drawBar(row.cells[4], shown(rows[i]));
	});
	put($("layers-note"), lost.length ? `not attributed: ${lost.join(", ")}` : "");
	title($("layers-note"), lost.join("\n"));
}

const poller = panel("layers", () => app, () => ({q: app.state.fq, limit: SHOWN}), draw);

export function soon() {
	poller.soon();
}

export function start(hooks) {
	app = hooks;
	$("layers-legend").replaceChildren(...LAYERS.map(([name, text], i) => {
		const key = el("span", "key");
		key.title = text;
		key.append(el("i", `s${i}`), name);
		return key;
	}));
	pickRows($("layers"), (row) => row.dataset.instance && app.showMetrics(row.dataset.instance));
	soon();
}
