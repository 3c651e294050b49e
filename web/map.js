// SPDX-License-Identifier: Apache-2.0
// map.js - services and the calls between them. The layout has layers, and is always the same for the same services: a node is
// one layer after its last caller, and within its layer it is close to its neighbours.
import {sentence} from "./anomalies.js";
import {$, emptyState, fillTable, label, num, put, svg} from "./dom.js";
import {bytes, grouped, many, rate, retimed, seconds} from "./format.js";
import {Poller, Problem, get, link} from "./server.js";
import * as services from "./services.js";
import {state} from "./state.js";

// Width and height of a node, and the space between nodes: within a layer (across), and between layers (along: least, most).
const WIDE = {w: 158, h: 46, across: 30, along: [104, 190]}, NARROW = {w: 112, h: 46, across: 10, along: [66, 66]};
const BULGE = 46; // how far an edge that closes a cycle bulges
const SWEEPS = 6;

let app = null; // {openService}
let drawn = "";

const keyOf = (n) => n.key ?? n.service;

// Services with the same name are distinguished by their namespace, and from services outside.
function keyed({nodes, edges}) {
	for (const n of nodes)
		n.key = `${n.outside ? "outside" : n.namespace}\0${n.service}`;
	const end = (name, namespace, outside) => nodes.find((n) => n.service === name &&
		(namespace === undefined || n.namespace === namespace) && (outside === undefined || n.outside === outside))?.key;
	return edges.map((e) => ({...e, from: end(e.from, e.from_namespace, e.from_outside), to: end(e.to, e.to_namespace, e.to_outside)}));
}

// Removes edges that close a cycle, which a depth-first search in the order of the names finds.
function acyclic(names, edges) {
	const out = new Map(names.map((n) => [n, []])), mark = new Map(), kept = [];
	for (const e of edges)
		out.get(e.from).push(e);
	for (const root of names) {
		const todo = [[root, 0]];
		while (todo.length) {
			const top = todo[todo.length - 1], [n, at] = top;
			if (!at && mark.has(n)) {
				todo.pop();
				continue;
			}
			mark.set(n, 1);
			const e = out.get(n)[top[1]++];
			if (!e) {
				mark.set(n, 2);
				todo.pop();
			} else if (mark.get(e.to) === 1) {
				continue; // closes a cycle, or is a service's call of itself
			} else {
				kept.push(e);
				if (!mark.has(e.to))
					todo.push([e.to, 0]);
			}
		}
	}
	return kept;
}

// Returns {columns: [[name, or null where an edge passes through]], at: name -> [layer, place]}.
export function layout(nodes, unsorted) {
	const edges = [...unsorted].sort((x, y) => x.from + "\0" + x.to < y.from + "\0" + y.to ? -1 : 1);
	const rank = new Map(nodes.map((n) => [keyOf(n), n.outside ? 0 : 1]));
	const names = [...rank.keys()].sort((x, y) => rank.get(x) - rank.get(y) || (x < y ? -1 : 1));
	const down = acyclic(names, edges), layer = new Map(names.map((n) => [n, 0]));
	for (let again = true, i = 0; again && i <= names.length; i++) {
		again = false;
		for (const e of down)
			if (layer.get(e.to) <= layer.get(e.from)) {
				layer.set(e.to, layer.get(e.from) + 1);
				again = true;
			}
	}
	const columns = [], ways = [], near = new Map();
	const place = (id, at) => (columns[at] ||= []).push(id);
	const join = (x, y) => {
		near.set(x, [...near.get(x) || [], y]);
		near.set(y, [...near.get(y) || [], x]);
	};
	names.forEach((n) => place(n, layer.get(n)));
	for (const e of down) {
		let last = e.from;
		const way = [];
		for (let at = layer.get(e.from) + 1; at < layer.get(e.to); at++) {
			const id = `\0${e.from}\0${e.to}\0${at}`;
			place(id, at);
			join(last, id);
			way.push(last = id);
		}
		join(last, e.to);
		ways.push([e, way]);
	}
	const at = new Map();
	const number = () => columns.forEach((c, k) => c.forEach((id, i) => at.set(id, [k, i - (c.length - 1) / 2])));
	number();
	for (let sweep = 0; sweep < SWEEPS; sweep++) {
		const forward = sweep % 2 === 0;
		for (const k of forward ? columns.keys() : [...columns.keys()].reverse()) {
			const middle = new Map(columns[k].map((id) => {
				const there = (near.get(id) || []).filter((x) => (at.get(x)[0] < k) === forward).map((x) => at.get(x)[1]);
				return [id, there.length ? there.reduce((x, y) => x + y, 0) / there.length : at.get(id)[1]];
			}));
			columns[k].sort((x, y) => middle.get(x) - middle.get(y) || (x < y ? -1 : 1));
			number();
		}
	}
	return {columns, at, ways: new Map(ways.map(([e, way]) => [e, way]))};
}

const known = (v) => typeof v === "number";

// The one or two most useful figures of an edge.
function edgeText(e, one) {
	const rates = known(e.requests_per_second) ? rate(e.requests_per_second, "") : known(e.bytes_per_second) ? rate(e.bytes_per_second, "bytes") : "";
	const times = known(e.p50_seconds) ? seconds(e.p50_seconds) : known(e.rtt_seconds) ? `RTT ${seconds(e.rtt_seconds)}` : "";
	return [one ? rates || times : [rates, times].filter(Boolean).join(" · ")].filter(Boolean);
}

const trouble = (e) => [e.errors_per_second > 0 && `${rate(e.errors_per_second, "")} errors`,
	e.retransmits_per_second > 0 && `${rate(e.retransmits_per_second, "")} lost`].filter(Boolean);

const cut = (text, n) => text.length > n ? [...text].slice(0, n - 1).join("") + "…" : text;

function draw(a) {
	const root = $("map"), down = root.clientWidth < 700, size = down ? NARROW : WIDE;
	const edges = keyed(a).filter((e) => e.from && e.to);
	const {columns, at, ways} = layout(a.nodes, edges);
	const wide = Math.max(...columns.map((c) => c.length));
	const length = down ? size.h : size.w, free = (root.clientWidth - 32 - 24 - columns.length * length) / Math.max(1, columns.length - 1);
	const room = down ? size.along[0] : Math.max(size.along[0], Math.min(free, size.along[1]));
	const stepAcross = (down ? size.w : size.h) + size.across, stepAlong = length + room;
	const across = wide * stepAcross + (edges.some((e) => !ways.has(e)) ? 2 * BULGE : 24), along = columns.length * stepAlong - room + 24;
	const point = (id) => {
		const [k, i] = at.get(id), x = 12 + k * stepAlong + length / 2, y = across / 2 + i * stepAcross;
		return down ? [y, x] : [x, y];
	};
	const [w, h] = down ? [across, along] : [along, across];
	const focused = document.activeElement?.dataset?.node;
	const picture = svg("svg", {viewBox: `0 0 ${w} ${h}`, role: "group", "aria-label": "Services and the calls between them"});
	picture.style.maxWidth = `${Math.max(w, Math.min(root.clientWidth, w * 1.25))}px`;
	const lines = svg("g"), texts = svg("g"), boxes = svg("g");
	for (const e of edges) {
		const bad = e.culprit || e.errors_per_second > 0 || e.retransmits_per_second > 0, back = !ways.has(e), half = length / 2;
		if (e.from === e.to)
			continue;
		let d, x, y;
		if (back) { // drawn beside the nodes, so that it is not mistaken for a forward edge
			const side = (down ? size.w : size.h) / 2;
			const [[x0, y0], [x1, y1]] = [e.from, e.to].map(point).map(([px, py]) => down ? [px + side, py] : [px, py + side]);
			d = down ? `M${x0},${y0}C${x0 + BULGE},${y0} ${x1 + BULGE},${y1} ${x1},${y1}` : `M${x0},${y0}C${x0},${y0 + BULGE} ${x1},${y1 + BULGE} ${x1},${y1}`;
			[x, y] = [(x0 + x1) / 2 + (down ? 0.75 * BULGE : 0), (y0 + y1) / 2 + (down ? 0 : 0.75 * BULGE)];
		} else {
			const ids = [e.from, ...ways.get(e), e.to], p = ids.map(point).map(([px, py], i) => {
				const shift = !i ? half : i === ids.length - 1 ? -half : 0;
				return down ? [px, py + shift] : [px + shift, py];
			});
			d = `M${p[0]}`;
			for (let i = 1; i < p.length; i++) {
				const [x0, y0] = p[i - 1], [x1, y1] = p[i], bend = (down ? y1 - y0 : x1 - x0) / 2;
				d += down ? `C${x0},${y0 + bend} ${x1},${y1 - bend} ${x1},${y1}` : `C${x0 + bend},${y0} ${x1 - bend},${y1} ${x1},${y1}`;
			}
			// Place the text on the last segment, where the edges of one caller are apart.
			const [x0, y0] = p[p.length - 2], [x1, y1] = p[p.length - 1];
			[x, y] = [x0 + (x1 - x0) * (down ? 0.7 : 0.5), y0 + (y1 - y0) * (down ? 0.56 : 0.7)];
		}
		lines.append(svg("path", {d, class: `edge ${e.culprit ? "culprit" : ""} ${bad ? "troubled" : ""} ${back ? "back" : ""}`,
		                          "marker-end": `url(#${bad ? "arrow-bad" : "arrow"})`}));
		const says = [...edgeText(e, down).map((text) => [text, ""]), ...trouble(e).map((text) => [text, "bad"])];
		says.forEach(([text, kind], i) => {
			texts.append(svg("text", {x, y: y + 4 + 13 * (i - (says.length - 1) / 2), class: `edge-text ${kind}`}, text));
		});
	}
	for (const n of a.nodes) {
		const [x, y] = point(keyOf(n)), kind = `node ${n.culprit ? "culprit" : n.anomaly ? "anomalous" : ""} ${n.outside ? "outside" : ""}`;
		const says = n.culprit ? "the culprit" : n.anomaly ? "anomalous" : n.outside ? "outside" : many(n.pods, "pod");
		const g = svg("g", {class: kind, tabindex: 0, role: "button", transform: `translate(${x - size.w / 2},${y - size.h / 2})`});
		g.dataset.node = n.service;
		g.dataset.namespace = n.namespace;
		label(g, `${n.service}, ${says}${n.sentence ? `: ${n.sentence}` : ""}`);
		g.append(svg("title", {}, [n.service, n.namespace, n.sentence].filter(Boolean).join("\n")), svg("rect", {width: size.w, height: size.h, rx: 7}),
		         svg("text", {x: size.w / 2, y: 19, class: "node-name"}, cut(n.service || "(no name)", down ? 15 : 21)),
		         svg("text", {x: size.w / 2, y: 36, class: "node-says"}, says));
		boxes.append(g);
	}
	const defs = svg("defs");
	for (const id of ["arrow", "arrow-bad"]) {
		const m = svg("marker", {id, viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto-start-reverse", markerUnits: "userSpaceOnUse"});
		m.append(svg("path", {d: "M0,0.5L8,4L0,7.5Z", class: id}));
		defs.append(m);
	}
	picture.append(defs, lines, boxes, texts);
	root.replaceChildren(picture);
	if (focused !== undefined)
		[...boxes.children].find((g) => g.dataset.node === focused)?.focus();
}

function drawTable(a) {
	fillTable($("edges"), a.edges.map((e) => [
		{text: e.from, kind: "strong"}, {text: e.to, kind: "strong"},
		num(known(e.requests_per_second) ? rate(e.requests_per_second, "") : "–"),
		num(known(e.errors_per_second) ? rate(e.errors_per_second, "") : "–"),
		num(known(e.p50_seconds) ? seconds(e.p50_seconds) : "–"),
		num(known(e.rtt_seconds) ? seconds(e.rtt_seconds) : "–"),
		num(rate(e.retransmits_per_second, "")), num(rate(e.bytes_per_second, "bytes")),
		num(known(e.connections) ? grouped(e.connections) : "–"),
		{text: (e.sources || []).join(", ")},
	]));
}

async function ask() {
	if (state.tab !== "map")
		return;
	let a;
	try {
		a = await get("map", {window: 10});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		a = {nodes: [], edges: [], error: e.message};
	}
	link.ok();
	const empty = $("map-empty");
	empty.hidden = a.nodes.length > 0;
	$("map").hidden = $("map-table").hidden = !a.nodes.length;
	if (!a.nodes.length) {
		put($("map-note"), "");
		return emptyState(empty, "No map yet", a.error || "Services appear with their first pod; their calls are known from traces, and from " +
		                  "connections if both ends are observed.", null, "sidelight agent --tcp");
	}
	for (const n of a.nodes)
		n.sentence = retimed(n.sentence || "", services.named(n.service, n.namespace)?.anomaly?.begin);
	const culprit = a.nodes.find((n) => n.culprit), of = culprit && services.named(culprit.service, culprit.namespace)?.anomaly;
	const why = of ? sentence(of, false) : culprit?.sentence;
	put($("map-note"), culprit ? `${culprit.service} is the likely cause${why ? `: ${why}` : ""}` :
		a.edges.length ? `${many(a.nodes.length, "service")}; ${a.edges.length === 1 ? "1 calls another" : `${grouped(a.edges.length)} edges`}` :
			"Calls between them are not known yet: they come from traces, and from connections whose ends are both observed.");
	$("map-note").classList.toggle("bad", !!culprit);
	// Draw again only if the text has changed, so that the focus and a tooltip stay.
	const key = JSON.stringify([a.nodes, a.edges.map((e) => [e.from, e.to, e.culprit, edgeText(e, false), trouble(e)]), $("map").clientWidth]);
	if (key !== drawn) {
		drawn = key;
		draw(a);
	}
	drawTable(a);
}

const poller = new Poller(ask, () => 2000, "analysis");
export const soon = () => poller.soon();

export function start(hooks) {
	app = hooks;
	const pick = (e) => {
		const node = e.target.closest("[data-node]");
		if (node)
			app.openService(node.dataset.node, node.dataset.namespace);
	};
	$("map").addEventListener("click", pick);
	$("map").addEventListener("keydown", (e) => {
		if (e.key === "Enter" || e.key === " ") {
			e.preventDefault();
			pick(e);
		}
	});
	new ResizeObserver(() => poller.soon()).observe($("map"));
	soon();
}
