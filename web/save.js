// SPDX-License-Identifier: Apache-2.0
// save.js - exports a plot: a link, its values, a picture, or a panel for Grafana.
import {$, el, put} from "./dom.js";
import {clock, dateTime, grows, unitOf, valueUnit} from "./format.js";
import {color} from "./plot.js";
import {state} from "./state.js";
import * as time from "./time.js";

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
let shown = () => ({}); // {plot, heat, entries, questions}

// ---- a link to the present view, even if it is live

export function link() {
	const [from, to] = time.range(), hash = new URLSearchParams(location.hash.slice(1));
	hash.set("from", from.toFixed(3));
	hash.set("to", to.toFixed(3));
	return `${location.origin}${location.pathname}#${hash.toString().replaceAll("%2F", "/").replaceAll("%2C", ",")}`;
}

// ---- CSV (RFC 4180)

function cell(v) {
	const text = v === null || v === undefined ? "" : String(v);
	// Prevent a spreadsheet from taking a label for a formula.
	const safe = typeof v === "string" && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
	return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv() {
	const {plot, heat, entries} = shown(), rows = [];
	if (heat) {
		rows.push(["time", ...heat.map.bounds.map((b) => `le ${b}`)]);
		for (const [t, counts] of heat.map.columns)
			rows.push([new Date(t * 1000).toISOString(), ...counts]);
	} else {
		const [times, ...columns] = plot.data || [[]];
		rows.push(["time", ...plot.lines.map((l) => [entries.get(l.id)?.title || l.key, l.part, l.rate ? "per second" : ""]
			.filter(Boolean).join(" "))]);
		times.forEach((t, i) => {
			if (t >= plot.range[0] && t <= plot.range[1])
				rows.push([new Date(t * 1000).toISOString(), ...columns.map((c) => c[i] ?? null)]);
		});
	}
	return rows.map((r) => r.map(cell).join(",")).join("\r\n") + "\r\n";
}

// ---- PNG: the plot with its names and its time

export function picture() {
	const {plot, heat, entries} = shown(), from = (heat || plot).plot.ctx.canvas, ratio = devicePixelRatio || 1;
	const lines = heat ? [] : plot.lines.filter((l) => l.weight !== "thin" && !(l.part && l.part !== "p50")).slice(-12).reverse();
	const canvas = el("canvas"), row = 17 * ratio, pad = 12 * ratio;
	canvas.width = from.width + 2 * pad;
	canvas.height = from.height + 3 * pad + row * (1 + Math.max(1, lines.length));
	const c = canvas.getContext("2d");
	c.fillStyle = css("--panel");
	c.fillRect(0, 0, canvas.width, canvas.height);
	c.fillStyle = css("--text");
	c.font = `600 ${12.5 * ratio}px system-ui, sans-serif`;
	const [a, b] = time.range();
	c.fillText(`${dateTime(a)} – ${clock(b, false)}`, pad, pad + row * 0.7);
	c.drawImage(from, pad, pad + row);
	c.font = `${11.5 * ratio}px system-ui, sans-serif`;
	let y = from.height + 2 * pad + row * 1.7;
	for (const l of lines) {
		c.fillStyle = color(l.slot);
		c.fillRect(pad, y - 5 * ratio, 12 * ratio, 3 * ratio);
		c.fillStyle = css("--text");
		c.fillText(entries.get(l.id)?.title || l.key, pad + 20 * ratio, y);
		y += row;
	}
	if (heat)
		c.fillText(entries.values().next().value?.title || "", pad, y);
	return canvas;
}

// ---- Grafana

const quoted = (v) => `"${v.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n")}"`;
const RANGE = "$__rate_interval";

// Names in UTF-8 are quoted, as in Prometheus 3.
const labelName = (name) => /^[A-Za-z_]\w*$/.test(name) ? name : quoted(name);

export function selector(name, pairs) {
	const plain = /^[A-Za-z_:][\w:]*$/.test(name);
	const inside = [...plain ? [] : [quoted(name)], ...pairs.map(([k, op, v]) => `${labelName(k)}${op}${quoted(v)}`)].join(",");
	return (plain ? name : "") + (inside && `{${inside}}`);
}

// The metric's name in /metrics: a counter's samples end in _total, those of a histogram in _count.
function exposed(meta) {
	const base = meta.kind === "counter" ? meta.name.replace(/_total$/, "") : meta.name;
	return base + ({counter: "_total", histogram: "_count", summary: "_count"}[meta.kind] || "");
}

// Returns the PromQL query of one entry; fn "" means a single series.
export function promql({meta, pairs, fn, by}, range = RANGE) {
	const counted = grows(meta.kind), by_ = by?.length ? ` by (${by.map(labelName).join(", ")})` : "";
	if (fn?.startsWith("p")) {
		// Native histograms need no label "le"; the collector exposes classic buckets only on request.
		const q = Number("0." + fn.slice(1));
		return `histogram_quantile(${q}, sum${by_} (rate(${selector(meta.name, pairs)}[${range}])))`;
	}
	const inner = counted && (fn || state.mode === "rate") ? `rate(${selector(exposed(meta), pairs)}[${range}])` :
		selector(exposed(meta), pairs);
	return fn ? `${fn === "rate" ? "sum" : fn}${by_} (${inner})` : inner;
}

// One query per line, with a fixed interval, because only Grafana replaces $__rate_interval.
export const queries = () => shown().questions.map((q) => promql(q, "1m")).join("\n");

const UNITS = {seconds: "s", bytes: "bytes", ratio: "percentunit", celsius: "celsius", hertz: "hertz", volts: "volt"};

export function panel() {
	const {questions} = shown(), first = questions[0]?.meta, perSecond = questions.every((q) =>
		grows(q.meta.kind) && (q.fn ? !q.fn.startsWith("p") : state.mode === "rate"));
	const unit = !first ? "" : questions[0].fn?.startsWith("p") ? unitOf(first) : valueUnit(first);
	return {
		type: "timeseries", title: first ? first.name : "Sidelight", description: first?.help || "",
		datasource: {type: "prometheus", uid: "${datasource}"},
		fieldConfig: {
			defaults: {unit: perSecond ? unit === "bytes" ? "Bps" : unit === "seconds" ? "short" : "ops" : UNITS[unit] || "short",
			           custom: {drawStyle: "line", lineWidth: 1, fillOpacity: 0, showPoints: "never", spanNulls: false}},
			overrides: [],
		},
		options: {legend: {displayMode: "list", placement: "bottom"}, tooltip: {mode: "multi", sort: "desc"}},
		targets: questions.map((q, i) => ({
			refId: String.fromCharCode(65 + i), expr: promql(q), legendFormat: q.by?.length ? q.by.map((l) => `{{${l}}}`).join(" ") :
				"__auto", datasource: {type: "prometheus", uid: "${datasource}"},
		})),
	};
}

// ---- the menu

function download(name, what) {
	const a = el("a");
	a.href = URL.createObjectURL(what);
	a.download = name;
	a.click();
	setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}

// Without the permission, or over plain HTTP from another host, shows the text so that the user can copy it.
async function copy(text, what) {
	const field = $("share-text");
	field.value = text;
	try {
		await navigator.clipboard.writeText(text);
		field.hidden = true;
		put($("share-note"), `${what} is in the clipboard.`);
	} catch {
		field.hidden = false;
		field.focus();
		field.select();
		put($("share-note"), `Copy this text: ${what.toLowerCase()}.`);
	}
}

const stamp = () => new Date(time.range()[1] * 1000).toISOString().slice(0, 19).replaceAll(":", "-");

const ACTIONS = {
	link: () => copy(link(), "The link"),
	promql: () => copy(queries(), "The query"),
	panel: () => copy(JSON.stringify(panel(), null, 1), "The panel"),
	csv: () => {
		download(`sidelight-${stamp()}.csv`, new Blob([csv()], {type: "text/csv"}));
		put($("share-note"), "Saved as CSV.");
	},
	png: () => picture().toBlob((blob) => {
		download(`sidelight-${stamp()}.png`, blob);
		put($("share-note"), "Saved as PNG.");
	}, "image/png"),
};

$("share").addEventListener("click", (e) => ACTIONS[e.target.closest("[data-save]")?.dataset.save]?.());
$("share").addEventListener("toggle", () => {
	$("share-text").hidden = true;
	put($("share-note"), "");
});

export function start(what) {
	shown = what;
}
