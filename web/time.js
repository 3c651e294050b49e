// SPDX-License-Identifier: Apache-2.0
// time.js - the time range that all plots show: the latest seconds, live, or a fixed range. It keeps earlier ranges, so that a
// zoom can be undone, and the marks of events.
import {$, put} from "./dom.js";
import {clock, isoTime, moment, parseTime, zone} from "./format.js";
import {setMarks} from "./plot.js";
import {Poller, Problem, get, link} from "./server.js";
import {WINDOWS, navigate, state} from "./state.js";

const BEFORE = 20, AFTER = 10; // seconds around a mark
const SHORTEST = 0.02, LONGEST = 86400;
const CLOCKS = 60; // seconds by which the clocks of the collector and this computer may differ
export const ALL = WINDOWS[WINDOWS.length - 1];

const past = []; // ranges before a zoom
let changed = () => {}, shown = [0, 0], oldest = 0, marks = [];

// The range on the screen, in seconds; while it is live, plots move it.
export const range = () => state.from ? [state.from, state.to] : shown;
export const length = () => state.from ? state.to - state.from : state.window === ALL && oldest ?
	Math.max(1, Date.now() / 1000 - oldest) : state.window;

// Parameters of a request; margin: additional part of the range, because a rate needs a point before the first one.
export function params(margin = 0) {
	if (state.from)
		return {start: (state.from - margin * length()).toFixed(3), end: state.to.toFixed(3)};
	if (state.window === ALL)
		return Date.now() / 1000 - oldest < LONGEST - CLOCKS ? {start: (oldest - 0.001).toFixed(3)} : {last: "24h"};
	return {last: Math.ceil(state.window * (1 + margin) * 1000) + "ms"};
}

// Called by plots. to: end of the data shown; first: its first point, which matters if all history was requested.
export function show(to, first) {
	if (state.window === ALL && first)
		oldest = first;
	if (!state.from) {
		const from = state.window === ALL ? Math.min(oldest || to - LONGEST, to - 1) : to - state.window;
		shown = [from, to];
	}
	drawRange();
	return range();
}

// Forgets where the history begins: that of other series may begin earlier.
export function forgetOldest() {
	oldest = 0;
}

function set(from, to, write = navigate) {
	state.from = from;
	state.to = to;
	state.paused = from > 0;
	write();
	drawRange();
	marksPoller.soon();
	changed();
}

export function go(from, to) {
	const middle = (from + to) / 2, half = Math.min(Math.max(to - from, SHORTEST), LONGEST) / 2;
	past.push({from: state.from, to: state.to, window: state.window});
	past.splice(0, past.length - 50);
	set(middle - half, middle + half);
}

export function back() {
	const before = past.pop();
	if (!before) {
		if (state.from)
			live();
		return;
	}
	state.window = before.window;
	set(before.from, before.to);
}

export function live(write) {
	past.length = 0;
	set(0, 0, write);
}

export function pause() {
	const [from, to] = range();
	if (to > from)
		set(from, to);
}

export const before = (mark) => go(mark.at - BEFORE, mark.at + AFTER);

// Goes to the last incident or death in the range shown or before it.
function beforeLastFault() {
	const faults = marks.filter((m) => ["incident", "death"].includes(m.kind));
	const mark = faults[faults.length - 1] || marks[marks.length - 1];
	if (mark)
		before(mark);
}

function scale(by) {
	const [from, to] = range(), middle = (from + to) / 2, half = (to - from) / 2 * by;
	if (to > from)
		go(middle - half, Math.min(middle + half, Date.now() / 1000));
}

function move(by) {
	const [from, to] = range(), step = (to - from) * by;
	if (to > from)
		set(from + step, to + step);
}

// ---- controls

function drawRange() {
	const [from, to] = range();
	$("back").disabled = !past.length && !state.from;
	$("pause").setAttribute("aria-pressed", state.paused);
	put($("pause"), state.paused ? "Resume" : "Pause");
	$("live").hidden = state.paused;
	put($("range"), state.from ? `${moment(from, to - from < 60)} – ${clock(to, to - from < 60)}` : "");
	for (const b of document.querySelectorAll("[data-window]"))
		b.setAttribute("aria-pressed", !state.from && Number(b.dataset.window) === state.window);
}

zone.listeners.push(drawRange);
$("back").addEventListener("click", back);
$("before-fault").addEventListener("click", beforeLastFault);
$("when").addEventListener("toggle", () => {
	if (!$("when").open)
		return;
	const [from, to] = range();
	$("from").value = isoTime(from || Date.now() / 1000 - 60);
	$("to").value = isoTime(to || Date.now() / 1000);
	$("from").focus();
});
$("when-form").addEventListener("submit", (e) => {
	e.preventDefault();
	const from = parseTime($("from").value), to = parseTime($("to").value);
	const good = to > from && to - from <= LONGEST;
	$("when-note").hidden = good;
	if (!good)
		return;
	$("when").open = false;
	go(from, to);
});

const KEYS = {
	"[": back, Backspace: back, "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), b: beforeLastFault,
};
document.addEventListener("keydown", (e) => {
	if (e.ctrlKey || e.metaKey || e.altKey || !$("plots").offsetParent)
		return;
	if (e.key === "Escape")
		for (const d of document.querySelectorAll("#plots details[open]")) {
			d.open = false;
			d.querySelector("summary").focus();
		}
	if (e.target.closest("input, select, textarea"))
		return;
	if (KEYS[e.key])
		KEYS[e.key]();
	else if (e.target.closest(".plot") && ["ArrowLeft", "ArrowRight"].includes(e.key))
		move(e.key === "ArrowLeft" ? -0.25 : 0.25);
	else
		return;
	e.preventDefault();
});
document.addEventListener("click", (e) => {
	for (const d of document.querySelectorAll("#plots details[open]"))
		if (!d.contains(e.target))
			d.open = false;
});

// ---- marks: those of the last hour, too, so that a fault is one click away when it is out of sight

const marksPoller = new Poller(async () => {
	if (![...document.querySelectorAll(".plot .uplot")].some((e) => e.offsetParent))
		return;
	const now = Date.now() / 1000, wide = length() > 3600 || state.from && state.from < now - 3000;
	let a;
	try {
		a = await get("marks", wide ? {...params(), ...(state.from ? {start: (state.from - 60).toFixed(3)} : {})} :
			{last: "1h"});
	} catch (e) {
		if (!(e instanceof Problem) || !e.status || e.refused)
			throw e;
		a = {marks: []};
	}
	link.ok();
	marks = a.marks;
	$("before-fault").hidden = !marks.some((m) => ["incident", "death"].includes(m.kind));
	setMarks(marks);
}, () => 2000);

export function start(then) {
	changed = then;
	marksPoller.soon();
}
