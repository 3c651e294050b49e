// SPDX-License-Identifier: Apache-2.0
// reports.js - the view of reports of network devices and kernels: the account, the stores and their load,
// the translators, and queries. The tab is shown if the collector serves stores.
import {$, el, emptyState, fillTable, num, pickRows, put, title} from "./dom.js";
import {age, bytes, grouped, many, number} from "./format.js";
import {Poller, Problem, get, link, post} from "./server.js";

const SHOWN = 100, PERIOD = () => 1000;
// Every report sent is in exactly one of these.
const PARTS = [["stored", "good"], ["waiting", "idle"], ["duplicates", "idle"], ["late", "warn"], ["dropped", "bad"],
               ["lost", "bad"], ["missing", "warn"], ["unknown", "warn"]];
export const PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6", 132: "sctp"};

let app = null; // {state, status}
let there = null, store = "", answer = null;

const of = (hex, at, n) => parseInt(hex.slice(2 * at, 2 * (at + n)), 16);

function address(hex) {
	if (hex.length === 8)
		return [0, 1, 2, 3].map((i) => of(hex, i, 1)).join(".");
	const words = hex.match(/.{4}/g).map((w) => parseInt(w, 16).toString(16)).join(":");
	return "[" + words.replace(/(^|:)0(:0)+(:|$)/, "::") + "]";
}

// A key as text: the 5-tuple of a flow, printable characters, or hexadecimal digits.
export function keyText(hex) {
	const ip = {26: 4, 74: 16}[hex.length];
	if (ip) {
		const from = hex.slice(0, 2 * ip), to = hex.slice(2 * ip, 4 * ip), rest = 2 * ip;
		const protocol = of(hex, rest + 4, 1);
		return `${address(from)}:${of(hex, rest, 2)} → ${address(to)}:${of(hex, rest + 2, 2)} ` +
			(PROTOCOLS[protocol] || `protocol ${protocol}`);
	}
	const codes = hex.match(/../g).map((d) => parseInt(d, 16));
	return codes.every((c) => c >= 33 && c < 127) ? String.fromCharCode(...codes) : hex;
}

// Hexadecimal digits of an interface's counters as the default mapping writes them.
const COUNTERS = 128;

// Formats the key of an interface's counters: the exporter's address and a number.
function interfaceText(a) {
	if (a.value?.length !== COUNTERS || (a.key.length !== 16 && a.key.length !== 40))
		return "";
	return `${address(a.key.slice(0, -8))} interface ${of(a.key, a.key.length / 2 - 4, 4)}`;
}

// Formats a value of a Key-Write store: the counts of a flow, a number, or hexadecimal digits.
export function valueText(hex) {
	if (hex.length === 32)
		return `${grouped(of(hex, 0, 8))} packets, ${bytes(of(hex, 8, 8))}`;
	if (hex.length === COUNTERS)
		return ["in", "out"].map((way, i) => `${way}: ${bytes(of(hex, 32 * i, 8))}, ${grouped(of(hex, 32 * i + 8, 8))} packets, ` +
			`${grouped(of(hex, 32 * i + 16, 8))} dropped, ${grouped(of(hex, 32 * i + 24, 8))} bad`).join("; ");
	return hex.length <= 12 ? `${hex} = ${grouped(parseInt(hex, 16))}` : hex;
}

function said(a) {
	if (a.result !== "found")
		return {empty: a.within ? "not found: never written, or overwritten; one of the last " +
		                          `${grouped(a.within)} keys would be found with ${(100 * a.found_within_probability).toFixed(1)} %`
		                        : "no count", conflict: "copies disagree",
		        unknown: "no such epoch or list"}[a.result];
	switch (a.kind) {
	case "key-write": return `${valueText(a.value)} — ${a.agreed} of ${a.asked} copies agree, epoch ${a.epoch}`;
	case "increment": return `${grouped(a.value)}, too high by ${number(a.error)} at most with probability ` +
		`${number(a.error_probability)}, epoch ${a.epoch}`;
	case "postcard": return a.path.map((hop) => hop === null ? "?" : hop).join(" → ") + `, epoch ${a.epoch}`;
	case "append": return a.rings.map((r) => r.items.map(keyText).join(", ") +
		(r.overrun ? ` (after ${r.overrun} overwritten blocks)` : "")).filter(Boolean).join("; ");
	default: return `${a.reporters} of ${a.expected} reporters, epoch ${a.epoch}` +
		("estimate" in a ? `: ${number(a.estimate)} ± ${number(a.error)}` : "");
	}
}

function drawAccount() {
	const a = there.account, bar = $("dta-bar");
	put($("dta-sent"), `${grouped(a.sent)} reports sent`);
	put($("dta-closes"), a.closes ? "the account closes" : "the account does not close");
	$("dta-closes").className = `badge ${a.closes ? "good" : "bad"}`;
	const shown = PARTS.filter(([part]) => a[part]);
	while (bar.children.length > shown.length)
		bar.lastChild.remove();
	shown.forEach(([part, kind], i) => {
		const piece = bar.children[i] || bar.appendChild(el("span"));
		piece.className = kind;
		piece.style.flexGrow = a[part] / a.sent;
		put(piece, `${part} ${number(a[part])}`);
		title(piece, `${part}: ${grouped(a[part])}` + (part !== "dropped" ? "" : "\n" +
			Object.entries(a.dropped_by_cause).filter(([, n]) => n).map(([why, n]) => `${why} ${grouped(n)}`).join("\n")));
	});
}

// The causes of dropped reports as text.
const CAUSES = {no_store: "for an unknown store", shape: "of a shape that their store refuses", list: "for an unknown list",
                rate: "beyond the rate of their tenant", output_full: "because the output to the collector was full",
                output_down: "because no collector was reachable", output_failed: "because a write failed",
                late: "of a past epoch", duplicate_hop: "of a duplicate hop",
                superseded: "as their key had been written again"};

function drawDropped() {
	const said = Object.entries(there.account.dropped_by_cause).filter(([, n]) => n)
		.map(([why, n]) => `${grouped(n)} ${CAUSES[why] || why.replace(/_/g, " ")}`);
	put($("dta-dropped"), said.length ? `dropped: ${said.join("; ")}` : "");
	$("dta-dropped").hidden = !said.length;
}

// Slots and paths written, and their outcome.
function drawUnits() {
	const u = there.account.units;
	put($("dta-units"), u ? `slots and paths: ${grouped(u.written)} written = ${u.exact ? "" : "about "}${grouped(u.standing)} ` +
		`standing + about ${grouped(u.overwritten)} overwritten by another key + ${grouped(u.updated)} updated by their own + ` +
		`${grouped(u.expired)} expired with their epoch` : "");
	$("dta-units").hidden = !u?.written;
}

function drawTenants() {
	fillTable($("dta-tenants"), there.tenants.map((t) => [
		{text: t.name || "–", kind: "strong"},
		num(String(t.number)),
		num(t.rate ? grouped(t.rate) : "unlimited"),
		num(t.rate ? grouped(t.burst) : "–", "maximum number of reports at once"),
		{text: t.required ? "MAC required" : t.key ? "MAC optional" : "no MAC"},
	]));
	$("dta-tenants").hidden = !there.tenants.length;
}

const PAGES = {huge: "huge, reserved", transparent: "huge, if available", small: "4 KiB"};

function drawStores() {
	fillTable($("dta-stores"), there.stores.map((s) => {
		const load = s.load?.[0], measured = load?.measured, size = s.objects.reduce((sum, o) => sum + o.bytes, 0);
		return [
			{text: s.name, kind: "strong", tip: `tenant ${s.tenant}, number ${s.number}`},
			{text: s.kind + (s.sketch ? `, ${s.sketch}` : "")},
			{text: s.slots ? many(s.slots, "slot") : s.lists ?
				`${many(s.lists, "list")} of ${many(s.blocks, "block")}` :
				`${many(s.rows, "row")} of ${grouped(s.columns)}`},
			num(bytes(size), s.objects.map((o) => o.file).filter(Boolean).join("\n") || "in memory"),
			{text: s.objects.map((o) => PAGES[o.pages] || o.pages).join(", "), tip: "of this memory"},
			num(s.epochs > 1 ? String(s.epoch) : "–", s.epochs > 1 ? `since ${age(Date.now() / 1000 - s.epoch_since)}` : "one epoch"),
			num(load ? number(load.load) : "–", load ? "keys written per slot, estimated from the slots in use" : ""),
			num(load ? load.predicted_success.map((p, i) => `${i + 1}× ${(100 * p).toFixed(1)} %`).join(" · ") +
			    (measured ? `; ${(100 * measured.ratio).toFixed(1)} % found of ${grouped(measured.asked)} sampled, ${
				    (100 * measured.predicted).toFixed(1)} % predicted` : "") : "–",
			    "share of the keys of this epoch that a query finds, with 1, 2, … copies" +
			    (measured ? `. Sample: between ${(100 * measured.low).toFixed(1)} and ${
				    (100 * measured.high).toFixed(1)} % with 95 % confidence; predicted from the age of the keys` :
				    load?.why_not_measured ? `. Not measured: ${load.why_not_measured}` : "")),
			{text: s.waiting ? "rotation pending" : s.keylog ? `keys in ${s.keylog}` : "",
			 tip: s.not_rotated.length ? `for ${s.not_rotated.join(", ")}` : ""},
		];
	}));
	[...$("dta-stores").tBodies[0].rows].forEach((row, i) => {
		row.dataset.store = there.stores[i].name;
		row.setAttribute("aria-selected", there.stores[i].name === store);
	});
}

function drawTranslators() {
	fillTable($("dta-translators"), there.translators.map((t) => {
		const a = t.account, dropped = a ? Object.values(a.engine.dropped || {}).reduce((x, y) => x + y, 0) : 0;
		return [
			{text: t.connected ? "connected" : "gone", badge: t.connected ? "good" : "bad"},
			{text: t.name, kind: "strong"},
			{text: t.output || "–"},
			num(t.lane === undefined ? "–" : String(t.lane)),
			...a ? [num(number(a.packets)), num(number(a.reports)), num(number(a.engine.stored)), num(number(dropped)),
			        num(number(a.loss.lost)), num(number(a.loss.reporters))] : Array(6).fill(num("–")),
			num(t.silent_seconds > 3 ? age(t.silent_seconds) : "now"),
		];
	}));
	$("dta-translators").hidden = !there.translators.length;
}

// Lists the reporters that the translators know.
async function drawReporters() {
	const {reporters, more} = await get("dta/reporters");
	fillTable($("dta-reporters"), reporters.map((r) => [
		{text: String(r.reporter), kind: "strong", tip: `tenant ${r.tenant}, incarnation ${r.incarnation}`},
		{text: (r.address.includes(":") ? `[${r.address}]` : r.address) + `:${r.port}`, kind: "mono",
		 tip: r.authenticated ? "with a MAC" : "without a MAC"},
		{text: r.translator, tip: r.connected ? "" : "gone"},
		num(number(r.rate)), num(number(r.arrived)), num(number(r.lost)), num(number(r.missing)), num(number(r.duplicates)),
		num(number(r.collisions), r.contested ? "another one uses its number" : ""),
		num(age(r.age_seconds)),
		num(r.silent_seconds + r.told_seconds > 3 ? age(r.silent_seconds + r.told_seconds) : "now"),
	]));
	$("dta-reporters").hidden = !reporters.length;
	put($("dta-reporters-note"), more ? `${many(more, "reporter")} more, heard before these` : "");
	$("dta-reporters-note").hidden = !more;
}

// The units that each protocol numbers, and in which losses are therefore counted.
const NUMBERED = {int: "packets of reports", ipfix: "records", netflow: "flows of version 5, datagrams of version 9", sflow: "samples"};

// Lists the input of network devices by protocol.
function drawInputs() {
	const inputs = Object.entries(there.account.translators?.devices || {});
	fillTable($("dta-inputs"), inputs.map(([kind, d]) => {
		const unread = Object.entries(d.refused).filter(([, n]) => n);
		return [
			{text: kind, kind: "strong"},
			num(grouped(d.exporters)),
			num(number(d.datagrams)),
			num(number(d.records)),
			num(number(d.reports), d.unmapped ? `no rule makes a report of ${many(d.unmapped, "record")}` : ""),
			num(grouped(d.lost), `${NUMBERED[kind] || ""}, by the devices' own numbers`),
			num(grouped(d.restarts)),
			num(grouped(unread.reduce((sum, [, n]) => sum + n, 0)),
			    unread.map(([why, n]) => `${why.replace(/_/g, " ")} ${grouped(n)}`).join("\n")),
		];
	}));
	$("dta-inputs").hidden = !inputs.length;
}

export const hasStore = (name) => Boolean(there?.stores.some((s) => s.name === name));

// Whether a store counts `what` ("flows", "drops" or "as"), so that requests for it can be answered.
export async function counts(what) {
	const {stores} = there || await get("dta");
	return stores.some((s) => s.counts === what);
}

// Recent keys of the store, with their values.
async function drawKeys() {
	const s = there.stores.find((one) => one.name === store), table = $("dta-keys");
	let rows = [];
	if (s?.keylog) {
		const {keys, known, overwritten_blocks: gone} = await get("dta/keys", {store, max: SHOWN, top: s.kind === "increment" ? 1 : ""});
		const answers = keys.length ? (await post("dta/query", {store, keys: keys.map((k) => k.key)})).answers : [];
		rows = answers.map((a) => [{text: interfaceText(a) || keyText(a.key), kind: "mono", tip: a.key}, {text: said(a)}]);
		const there_ = answers.filter((a) => a.result === "found").length;
		put($("dta-keys-note"), `${many(known, "key")} known of ${store}` +
			(known > rows.length ? `, ${s.kind === "increment" ? "the greatest" : "the last"} ${rows.length}` : "") +
			(rows.length ? `: ${there_} of ${rows.length} found, ${(100 * there_ / rows.length).toFixed(1)} %` : "") +
			(gone ? `; ${many(gone, "block")} of older keys overwritten in ${s.keylog}` : ""));
	} else {
		put($("dta-keys-note"), s ? `${s.name} has no key log: query a known key` : "");
	}
	fillTable(table, rows);
	table.hidden = !rows.length;
}

async function ask() {
	there = app.status?.dta ? await get("dta") : null;
	link.ok();
	$("tab-reports").hidden = !there;
	put($("n-reports"), there ? number(there.account.stored) : "");
	if (!there || app.state.tab !== "reports")
		return;
	if (!there.stores.some((s) => s.name === store))
		store = (there.stores.find((s) => s.keylog) || there.stores[0])?.name || "";
	drawAccount();
	drawDropped();
	drawUnits();
	drawStores();
	drawTenants();
	drawTranslators();
	drawInputs();
	const empty = $("dta-empty");
	empty.hidden = there.translators.length > 0;
	if (!there.translators.length)
		emptyState(empty, "No translator", "Reports arrive through a translator.", null,
		           `sidelight translate --collector ${there.listen[0]?.startsWith("/") ? "unix:" : ""}${there.listen[0] || "…"}`);
	put($("dta-store"), store);
	$("dta-key").placeholder = there.stores.find((s) => s.name === store)?.kind === "append" ? "number of a list" :
		"key: hexadecimal digits, text:WORD, u32:N";
	await drawKeys();
	await drawReporters();
}

async function question(e) {
	e.preventDefault();
	const s = there?.stores.find((one) => one.name === store), value = $("dta-key").value.trim();
	if (!s)
		return;
	try {
		answer = said(await get("dta/query", {store, [s.kind === "append" ? "list" : "key"]: value}));
	} catch (problem) {
		if (!(problem instanceof Problem))
			throw problem;
		answer = problem.message;
	}
	put($("dta-answer"), answer);
}

const poller = new Poller(ask, PERIOD);

export function soon() {
	poller.soon();
}

export function start(hooks) {
	app = hooks;
	pickRows($("dta-stores"), (row) => {
		store = row.dataset.store;
		put($("dta-answer"), "");
		soon();
	});
	$("dta-ask").addEventListener("submit", question);
	soon();
}
