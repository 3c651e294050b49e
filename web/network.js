// SPDX-License-Identifier: Apache-2.0
// network.js - the view of network devices: problems, interfaces and drops of each device, top talkers, and the path of a flow
// with its losses. Texts from devices are inserted into the page as text, never as HTML.
import {$, emptyState, fillTable, num, pickRows, put, svg} from "./dom.js";
import {age, byName, bytes, dateTime, grouped, isoTime, many, number, parseTime, seconds} from "./format.js";
import {TimePlot, color} from "./plot.js";
import {PROTOCOLS, counts, hasStore} from "./reports.js";
import {Poller, Problem, get, link, post} from "./server.js";
import {navigate, state} from "./state.js";

const PERIOD = () => state.tab === "network" ? 3000 : 10000;
const MOST = 1000, TALKERS = 20, FLOWS = 100; // maximum rows of an answer, and of the tables
const LINES = 5, EPOCHS = 16;                 // most talkers and epochs in the plot; a store keeps at most 16 epochs
const SKEW = 60, SILENT = 300;                // seconds from which a clock's error, or silence, is a problem
const SUMS = ["records", "lost", "no_template", "refused"];
const BOX = {w: 216, h: 82, gap: 30};
const STATES = {bad: "losses", warn: "check", good: "fine"}, RANK = Object.keys(STATES); // the worst first

let app = null; // {status}
let picked = "", drawn = "", opened = ""; // flow, picture, device
let before = new Map(), rates = new Map(); // records of a device at the last change: {records, time}
const names = new Map();                   // of interfaces, by key; kept for one poll only, because interface numbers are reused
const past = new Map();                    // answers for finished epochs, by request
let plot = null;

const hex = (n, size) => Number(n).toString(16).padStart(2 * size, "0");
const isSwitch = (device) => /^\d+$/.test(device);
const deviceText = (device) => isSwitch(device) ? `switch ${device}` : String(device);
const sum = (rows, of) => rows.reduce((total, r) => total + of(r), 0);

function addressHex(text) {
	if (!text.includes(":"))
		return text.split(".").map((n) => hex(n, 1)).join("");
	// The URL parser converts an embedded IPv4 address to hexadecimal words.
	const [head, tail = []] = new URL(`http://[${text}]`).hostname.slice(1, -1).split("::").map((part) => part ? part.split(":") : []);
	return [...head, ...Array(8 - head.length - tail.length).fill("0"), ...tail].map((w) => w.padStart(4, "0")).join("");
}

// The key of "flow:A:PORT,B:PORT,PROTOCOL".
function flowKey(flow) {
	const [a, b, protocol] = flow.slice(5).split(",");
	const ends = [a, b].map((end) => /^\[?(.*?)\]?:(\d+)$/.exec(end));
	return ends.map((e) => addressHex(e[1])).join("") + ends.map((e) => hex(e[2], 2)).join("") +
		hex(Object.keys(PROTOCOLS).find((n) => PROTOCOLS[n] === protocol) ?? protocol, 1);
}

const flowText = (flow) => flow.slice(5).replace(",", " → ").replace(",", " ");
const interfaceKey = (device, n) => addressHex(device) + hex(n, 4);
const interfaceName = (device, n) => !isSwitch(device) && names.get(interfaceKey(device, n)) || String(n);

// The time range of a request. Without `to`, it ends now, by the collector's clock.
function range() {
	const when = $("nw-when").value;
	if (when !== "range")
		return +when ? {from: Date.now() / 1000 - when} : {};
	const from = parseTime($("nw-from").value), to = parseTime($("nw-to").value);
	return {...(from > 0 ? {from} : {}), ...(to > 0 ? {to} : {})};
}

function setRange(from, to) {
	$("nw-when").value = "range";
	$("nw-from").value = isoTime(from).slice(0, 19);
	$("nw-to").value = isoTime(to).slice(0, 19);
	showRange();
}

function showRange() {
	$("nw-range").hidden = $("nw-when").value !== "range";
	soon();
}

// Returns the answer, or an empty one with the reason as "problem". A request that no store can answer is not sent.
async function ask(what, params) {
	try {
		if (!await counts(params.by === "as" ? "as" : what === "drops" ? "drops" : "flows"))
			return {rows: [], more: 0, uncounted: true, problem: "no store has the required fields: see examples/dta/devices.yaml"};
		return await get(`dta/${what}`, {...range(), ...params});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		return {rows: [], more: 0, problem: e.message};
	}
}

// Queries the keys in a Key-Write store, and returns the answers with values.
async function values(store, keys) {
	return keys.length && hasStore(store) ?
		(await post("dta/query", {store, keys: keys.slice(0, MOST)})).answers.filter((a) => a.fields) : [];
}

// places: [device, number of an interface].
async function learnNames(places) {
	const keys = new Set(places.filter(([device]) => !isSwitch(device)).map((place) => interfaceKey(...place)));
	for (const a of await values("interface_names", [...keys].filter((k) => !names.has(k))))
		names.set(a.key, a.fields.name);
}

function said(a, none, extra = "") {
	return a.problem || [a.rows.length ? extra : none, a.more ? `${many(a.more, "row")} more` : "",
	                     a.overwritten_blocks ? "flows may be missing: the key log is too short for this range" : "",
	                     a.from && a.to ? `counted from ${dateTime(a.from)} to ${dateTime(a.to)}` : ""].filter(Boolean).join("; ");
}

// ---- devices

function problemsOf(d, drops) {
	const ahead = d.offset > 0 ? "ahead" : "behind";
	return [
		[d.dropped, "bad", `${many(d.dropped, "packet")} dropped`],
		[d.lost, "bad", `${grouped(d.lost)} lost on the way here`],
		[drops.problem && !drops.uncounted, "warn", "its drops are not known"],
		[d.no_template, "warn", `${many(d.no_template, "set")} without a template`],
		[d.refused, "warn", `${grouped(d.refused)} not read`],
		[Math.abs(d.offset ?? 0) > SKEW, "warn", `clock ${age(Math.abs(d.offset))} ${ahead}`],
		[d.inputs.size && !d.connected, "warn", "its translator is gone"],
		[d.inputs.size && d.connected && d.silent > SILENT, "warn", `silent for ${age(d.silent)}`],
	].filter(([is]) => is);
}

// Exporters, switches and agents, those with problems first.
function devicesOf(exporters, drops, paths) {
	const all = new Map();
	const at = (device) => {
		const id = String(device);
		if (!all.has(id))
			all.set(id, {id, inputs: new Set(), records: 0, lost: 0, no_template: 0, refused: 0, dropped: 0, silent: Infinity, connected: false});
		return all.get(id);
	};
	for (const e of exporters) {
		const d = at(e.address);
		d.inputs.add(e.input);
		SUMS.forEach((count) => {
			d[count] += e[count];
		});
		d.silent = Math.min(d.silent, e.silent_seconds + e.told_seconds);
		d.offset = e.clock_offset_seconds ?? d.offset;
		d.sampling = e.sampling ?? d.sampling;
		d.connected ||= e.connected;
	}
	const seen = (row) => {
		const d = at(row.device);
		if (!d.inputs.size && row.to)
			d.silent = Math.min(d.silent, Math.max(0, Date.now() / 1000 - row.to));
		return d;
	};
	for (const row of drops.rows)
		seen(row).dropped += row.packets;
	paths.rows.forEach((p) => p.crossed.forEach(seen));
	for (const d of all.values()) {
		d.problems = problemsOf(d, drops);
		d.kind = d.problems[0]?.[1] || "good";
	}
	return [...all.values()].sort((a, b) => RANK.indexOf(a.kind) - RANK.indexOf(b.kind) || b.dropped + b.lost - a.dropped - a.lost ||
		byName(a.id, b.id));
}

// Records per second since the translator's previous report about the device.
function rateOf(d) {
	const now = performance.now() / 1000, last = before.get(d.id);
	if (!last || d.records !== last.records || now - last.time > 10) {
		rates.set(d.id, last ? Math.max(0, d.records - last.records) / (now - last.time) : NaN);
		before.set(d.id, {records: d.records, time: now});
	}
	return rates.get(d.id);
}

function markPicked(table, ids, which) {
	[...table.tBodies[0].rows].forEach((row, i) => {
		row.dataset.id = ids[i];
		row.setAttribute("aria-selected", ids[i] === which);
	});
}

function drawDevices(devices) {
	const count = (n) => num(n ? grouped(n) : "");
	fillTable($("nw-devices"), devices.map((d) => {
		const rate = d.inputs.size ? rateOf(d) : NaN;
		return [
			{text: STATES[d.kind], badge: d.kind},
			{text: deviceText(d.id), kind: "strong"},
			{text: d.problems.map((p) => p[2]).join(", ") || "no problem is known", kind: "why"},
			{text: [...d.inputs].join(", ") || (isSwitch(d.id) ? "switch" : "agent"), tip: d.inputs.size ? "" : "named by others' reports"},
			num(Number.isFinite(d.silent) ? d.silent > 3 ? age(d.silent) : "now" : ""),
			num(Number.isNaN(rate) ? "" : number(Number(rate.toPrecision(3)))),
			count(d.records), count(d.lost), count(d.dropped), count(d.no_template),
			num(d.offset === undefined ? "" : (d.offset < 0 ? "−" : "+") + seconds(Math.abs(d.offset))),
			num(d.sampling ? `1 in ${grouped(d.sampling)}` : ""),
		];
	}));
	markPicked($("nw-devices"), devices.map((d) => d.id), state.device);
}

// Lists the interfaces named by flows, drops and counters.
async function drawDevice(drops, paths) {
	const device = state.device, all = new Map();
	$("nw-device").hidden = !device;
	if (!device)
		return;
	const at = (n) => all.get(n) || all.set(n, {bytes: 0, reports: 0, in: 0, out: 0}).get(n);
	const mine = drops.rows.filter((r) => String(r.device) === device);
	for (const r of isSwitch(device) ? [] : (await ask("top", {by: "interface", device, max: MOST})).rows)
		at(r.interface).bytes = r.bytes;
	for (const c of paths.rows.flatMap((p) => p.crossed).filter((one) => String(one.device) === device))
		[c.ingress, c.egress].forEach((n) => {
			at(n).reports += c.reports || 0;
		});
	for (const r of mine) {
		at(r.ingress).in += r.packets;
		at(r.egress).out += r.packets;
	}
	if (!isSwitch(device) && hasStore("interfaces")) {
		const own = addressHex(device), {keys} = await get("dta/keys", {store: "interfaces", max: MOST});
		for (const a of await values("interfaces", keys.map((k) => k.key).filter((k) => k.startsWith(own) && k.length === own.length + 8)))
			at(parseInt(a.key.slice(-8), 16)).counters = a.fields;
	}
	await learnNames([...all.keys()].map((n) => [device, n]));
	put($("nw-device-name"), `Interfaces of ${deviceText(device)}`);
	fillTable($("nw-interfaces"), [...all].sort(([a], [b]) => a - b).map(([n, i]) => {
		const of = (name, as = grouped) => num(i.counters?.[name] === undefined ? "" : as(i.counters[name]));
		return [
			{text: interfaceName(device, n), kind: "strong", tip: `interface ${n}`}, num(String(n)),
			num(i.bytes ? bytes(i.bytes) : i.reports ? many(i.reports, "report") : ""),
			of("in-bytes", bytes), of("out-bytes", bytes), of("in-drops"), of("out-drops"), of("in-errors"), of("out-errors"),
			num(i.in ? grouped(i.in) : ""), num(i.out ? grouped(i.out) : ""),
		];
	}));
	fillTable($("nw-drops"), mine.map((r) => [
		{text: `reason ${r.reason}`, kind: "strong"}, num(grouped(r.packets)),
		{text: `${interfaceName(device, r.ingress)} → ${interfaceName(device, r.egress)}`}, {text: flowText(r.flow), kind: "mono"},
		num(dateTime(r.from)), num(dateTime(r.to))]));
	$("nw-drops").hidden = !mine.length;
	put($("nw-device-note"), said({...drops, rows: mine, more: 0}, drops.problem ? "" : "no drop is known here", `drops ${grouped(sum(mine, (r) => r.packets))}`));
}

// ---- top talkers

function talker(r) {
	return r.address ?? r.prefix ?? (r.as !== undefined ? `AS ${r.as}` : r.device !== undefined ?
		`${deviceText(r.device)} ${interfaceName(r.device, r.interface)}` : `${PROTOCOLS[r.protocol] || `protocol ${r.protocol}`} ${r.port}`);
}

// Returns the talkers of each epoch, oldest first: {rows, more, from, to}. The range in an answer covers the epochs of all
// stores, so the start of an epoch is taken from its rows. An epoch ends when the next one starts.
async function talkersOverTime(params, from, to) {
	const out = [];
	for (let end = to; out.length < EPOCHS && end > from;) {
		const wanted = {...params, from: end - 0.001, to: end - 0.0005, max: FLOWS}, key = JSON.stringify(wanted);
		const a = past.get(key) || await ask("top", wanted), begin = a.rows.length ? Math.min(...a.rows.map((r) => r.from)) : a.from;
		if (end !== to && !a.problem)
			past.set(key, a);
		if (!(begin > 0 && begin < end)) // the start of the epoch is not known
			break;
		out.unshift({rows: a.rows, more: a.more, from: begin, to: end});
		end = begin;
	}
	while (past.size > 4 * EPOCHS)
		past.delete(past.keys().next().value);
	return out;
}

// Plots the mean rate of the table's top talkers in each epoch.
function drawTalkersPlot(rows, epochs) {
	const box = $("nw-plot"), lines = rows.slice(0, LINES).map((row, slot) => {
		const name = talker(row), t = [], v = [];
		for (const a of epochs) {
			const of = a.rows.find((r) => talker(r) === name);
			const rate = of ? of.bytes / (a.to - a.from) : a.more ? null : 0; // null: it may be among the rows left out
			t.push(a.from, a.to - 0.001);
			v.push(rate, rate);
		}
		return {key: name, label: name, slot, unit: "bytes", rate: true, floor: true, t, v};
	});
	box.hidden = !epochs.length || !lines.length;
	if (box.hidden)
		return plot.destroy();
	plot.unzoom();
	plot.draw(lines, epochs[0].from, epochs[epochs.length - 1].to);
	box.dataset.epochs = epochs.length;
}

async function drawTalkers() {
	const by = $("nw-by").value, table = $("nw-top");
	const a = await ask("top", {by, max: TALKERS, device: isSwitch(state.device) ? "" : state.device});
	if (by === "interface")
		await learnNames(a.rows.map((r) => [r.device, r.interface]));
	fillTable(table, a.rows.map((r) => [{text: talker(r), kind: "strong"}, num(bytes(r.bytes)),
		num(r.from && r.to > r.from ? `${bytes(r.bytes / (r.to - r.from))}/s` : ""), num(dateTime(r.from)), num(dateTime(r.to))]));
	[...table.tBodies[0].rows].forEach((row, i) => { // a bar behind the bytes, in the colour of its line
		row.cells[1].style.backgroundSize = `${100 * a.rows[i].bytes / a.rows[0].bytes}% 70%`;
		row.cells[0].style.borderLeft = `4px solid ${i < LINES ? color(i) : "transparent"}`;
	});
	table.hidden = !a.rows.length;
	const device = isSwitch(state.device) ? "" : state.device;
	drawTalkersPlot(a.rows, a.rows.length ? await talkersOverTime({by, device}, range().from || 0, Math.max(...a.rows.map((r) => r.to))) : []);
	put($("nw-top-note"), said(a, "nobody talked in this range", isSwitch(state.device) || !state.device ? "" : `only at ${state.device}`));
}

// ---- paths

const dropsText = (drops) => `${many(sum(drops, (r) => r.packets), "packet")} dropped, ` +
	(drops.length === 1 ? `reason ${drops[0].reason}` : `reasons ${[...new Set(drops.map((r) => r.reason))].join(", ")}`);

// Flows with losses come first. A flow whose packets were all dropped is known only from its drops.
function flowsOf(paths, drops, through) {
	const all = new Map(paths.rows.map((p) => [p.flow, {...p, drops: []}]));
	const wanted = through.split(",").map((place) => place.trim().split("/")[0]).filter(Boolean);
	for (const r of drops.rows) {
		if (!all.has(r.flow) && !paths.problem && wanted.every((device) => device === String(r.device)))
			all.set(r.flow, {flow: r.flow, path: null, crossed: [], drops: []});
		all.get(r.flow)?.drops.push(r);
	}
	return [...all.values()].map((f) => ({...f, lost: sum(f.drops, (r) => r.packets)})).sort((a, b) => b.lost - a.lost).slice(0, FLOWS);
}

// The boxes of the picture: the hops in order, then the devices whose order is not known.
function boxesOf(f, values_) {
	const ordered = f.path || [], rest = [...new Set([...f.crossed, ...f.drops].map((c) => c.device))].filter((d) => !ordered.includes(d));
	return [...ordered.map((d) => [d, true]), ...rest.map((d) => [d, false])].map(([device, inOrder]) => {
		const here = f.crossed.find((c) => c.device === device) || f.drops.find((r) => r.device === device);
		const drops = f.drops.filter((r) => r.device === device), v = values_.get(device);
		return {inOrder, bad: drops.length > 0, title: device === null ? "unknown hop" : deviceText(device), lines: [
			here ? `in ${interfaceName(device, here.ingress)}, out ${interfaceName(device, here.egress)}` : "",
			v ? [v["latency-ns"] === undefined ? "" : seconds(v["latency-ns"] * 1e-9), v["queue-depth"] === undefined ? "" :
				`queue ${grouped(v["queue-depth"])}`].filter(Boolean).join(", ") : here?.bytes ? bytes(here.bytes) : "",
			drops.length ? dropsText(drops) : ""]};
	});
}

function drawPicture(boxes) {
	const root = $("nw-picture"), room = Math.max(BOX.w, root.clientWidth - 32), step = BOX.w + BOX.gap;
	const key = JSON.stringify([boxes, room]);
	if (key === drawn)
		return;
	drawn = key;
	const columns = Math.max(1, Math.floor((room + BOX.gap) / step)), down = BOX.h + BOX.gap;
	const width = Math.min(boxes.length, columns) * step - BOX.gap, height = Math.ceil(boxes.length / columns) * down - BOX.gap;
	const g = svg("svg", {width: width + 2, height: height + 2, viewBox: `-1 -1 ${width + 2} ${height + 2}`, role: "img",
	                      "aria-label": boxes.map((b) => [b.title, ...b.lines].filter(Boolean).join(", ")).join("; then ")});
	const cut = (text, most) => text.length > most ? `${text.slice(0, most - 1)}…` : text;
	boxes.forEach((b, i) => {
		const x = i % columns * step, y = Math.floor(i / columns) * down;
		const node = svg("g", {class: `node ${b.bad ? "culprit" : b.inOrder ? "" : "outside"}`, transform: `translate(${x} ${y})`});
		node.append(svg("title", {}, [b.title, ...b.lines].filter(Boolean).join("\n")), svg("rect", {width: BOX.w, height: BOX.h, rx: 7}),
		            svg("text", {x: BOX.w / 2, y: 21, class: "node-name"}, cut(b.title, 24)),
		            ...b.lines.map((line, k) => svg("text", {x: BOX.w / 2, y: 39 + 16 * k, class: k === 2 ? "node-says" : "node-plain"}, cut(line, 30))));
		g.append(node);
		if (b.inOrder && boxes[i + 1]?.inOrder) { // an arrow to the next one, at the right or in the next row
			const wraps = (i + 1) % columns === 0, below = y + BOX.h + BOX.gap;
			const tip = wraps ? [BOX.w / 2, below - 2] : [x + step - 2, y + BOX.h / 2];
			g.append(svg("path", {class: "edge", d: wraps ? `M${x + BOX.w / 2} ${y + BOX.h}V${below - BOX.gap / 2}H${tip[0]}V${tip[1] - 6}` :
				`M${x + BOX.w} ${tip[1]}H${tip[0] - 6}`}));
			g.append(svg("path", {class: "arrow", d: wraps ? `M${tip}l-4 -8h8z` : `M${tip}l-8 -4v8z`}));
		}
	});
	root.replaceChildren(g);
}

async function drawPaths(drops, everything) {
	const through = $("nw-through").value.trim();
	const a = through ? await ask("paths", {through, max: FLOWS}) : everything;
	const flows = flowsOf(a, drops, through), f = flows.find((one) => one.flow === picked) || flows[0];
	fillTable($("nw-paths"), flows.map((p) => [
		{text: flowText(p.flow), kind: "strong mono"},
		{text: p.path ? p.path.map((hop) => hop ?? "?").join(" → ") : [...p.crossed, ...p.drops].map((c) => deviceText(c.device))
			.filter((d, i, list) => list.indexOf(d) === i).join(", "), tip: p.path ? "switches in their order" : "in no known order"},
		num(p.lost ? grouped(p.lost) : ""), num(bytes(Math.max(0, ...p.crossed.map((c) => c.bytes || 0))))]));
	markPicked($("nw-paths"), flows.map((p) => p.flow), f?.flow);
	$("nw-paths").hidden = $("nw-picture").hidden = !f;
	put($("nw-paths-note"), said({...a, rows: flows}, "no flow is known", `${many(flows.length, "flow")}`));
	put($("nw-path-says"), !f ? "" : `${flowText(f.flow)}: ` + (f.drops.length ? [...new Set(f.drops.map((r) => r.device))].map((d) =>
		`${dropsText(f.drops.filter((r) => r.device === d))} at ${deviceText(d)}`).join("; ") : "no drop is known") +
		(f.path ? "" : "; the order of its devices is not known"));
	$("nw-path-says").className = f?.drops.length ? "bad" : "";
	if (!f)
		return;
	const known = (f.path || []).filter((hop) => hop !== null), flow = flowKey(f.flow);
	await learnNames([...f.crossed, ...f.drops].flatMap((c) => [[c.device, c.ingress], [c.device, c.egress]]));
	drawPicture(boxesOf(f, new Map((await values("hops", known.map((hop) => flow + hex(hop, 4))))
		.map((v) => [parseInt(v.key.slice(-8), 16), v.fields]))));
}

async function poll() {
	const {exporters} = app.status?.dta ? await get("dta/exporters") : {exporters: []};
	link.ok();
	$("tab-network").hidden = !exporters.length && state.tab !== "network";
	put($("n-network"), exporters.length ? grouped(new Set(exporters.map((e) => e.address)).size) : "");
	if (state.tab !== "network")
		return;
	if (opened !== state.device)
		$("nw-through").value = opened = state.device;
	$("nw-empty").hidden = exporters.length > 0;
	$("nw-all").hidden = !exporters.length;
	if (!exporters.length)
		return emptyState($("nw-empty"), "No network device", "Switches, routers and probes are heard by a translator.", null,
		                  "sidelight translate --collector … --input ipfix --input netflow --input sflow --input int");
	const drops = await ask("drops", {max: MOST}), paths = await ask("paths", {max: MOST});
	names.clear();
	drawDevices(devicesOf(exporters, drops, paths));
	await drawDevice(drops, paths);
	await drawTalkers();
	await drawPaths(drops, paths);
}

const poller = new Poller(poll, PERIOD);

export function soon() {
	poller.soon();
}

// Selects a device, or none if "". The paths and talkers are then those of this device.
function open(device) {
	state.device = device;
	navigate();
	soon();
}

export function start(hooks) {
	app = hooks;
	pickRows($("nw-devices"), (row) => open(row.dataset.id === state.device ? "" : row.dataset.id));
	pickRows($("nw-paths"), (row) => {
		picked = row.dataset.id;
		soon();
	});
	$("nw-close").addEventListener("click", () => open(""));
	plot = new TimePlot($("nw-plot"), {onZoom: setRange, onCursor: () => {}});
	$("nw-when").addEventListener("change", () => {
		if ($("nw-when").value === "range" && !$("nw-from").value)
			setRange(Date.now() / 1000 - 900, Date.now() / 1000);
		showRange();
	});
	for (const id of ["nw-by", "nw-from", "nw-to"])
		$(id).addEventListener("change", soon);
	$("nw-ask").addEventListener("submit", (e) => {
		e.preventDefault();
		soon();
	});
	new ResizeObserver(soon).observe($("nw-picture"));
	soon();
}
