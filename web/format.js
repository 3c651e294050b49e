// SPDX-License-Identifier: Apache-2.0
// format.js - numbers, units and times as text.

const SI = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""],
            [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
const IEC = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const THIN = "\u202f";

// Values that JSON cannot express are strings.
export function toNumber(v) {
	if (typeof v === "number")
		return v;
	if (v === "+Inf")
		return Infinity;
	if (v === "-Inf")
		return -Infinity;
	return NaN;
}

function digits(v, n = 4) {
	v = Number(v.toPrecision(n)); // 99.96 has three digits before the point at n = 3
	const magnitude = Math.floor(Math.log10(Math.abs(v))) + 1;
	return v.toFixed(Math.max(0, Math.min(n - magnitude, n - 1)));
}

const WHOLE = new Intl.NumberFormat("en-US", {maximumFractionDigits: 0});

export const grouped = (v) => WHOLE.format(Math.round(v)).replaceAll(",", THIN);

// Sorts numbers within names by value: cart-9 comes before cart-10.
export const byName = new Intl.Collator("en", {numeric: true}).compare;

export const many = (n, what) => `${grouped(n)} ${what}${n === 1 ? "" : "s"}`;

// Formats a number with four significant digits and an SI prefix, or a small integer in full. An unknown value is a dash.
export function number(v, small = false) {
	if (v === null || v === undefined)
		return "–";
	v = toNumber(v);
	if (Number.isNaN(v))
		return "NaN";
	if (!Number.isFinite(v))
		return v > 0 ? "+∞" : "−∞";
	if (v === 0)
		return "0";
	const sign = v < 0 ? "−" : "", a = Math.abs(v);
	if (Number.isInteger(v) && a < 1e6)
		return sign + grouped(a);
	if (a >= 999.95 && a < 1e6)
		return sign + grouped(a);
	if (a < 1 && !small)
		return sign + (a < 1e-4 ? a.toExponential(2) : String(Number(a.toPrecision(3))));
	for (const [factor, prefix] of SI)
		if (a >= factor * 0.99995)
			return sign + digits(a / factor) + (prefix ? THIN + prefix : "");
	return sign + a.toExponential(2);
}

export function bytes(v) {
	if (!Number.isFinite(v))
		return number(v);
	const sign = v < 0 ? "−" : "";
	let a = Math.abs(v), i = 0;
	while (a >= 1023.95 && i < IEC.length - 1)
		a /= 1024, i++;
	return sign + (i || a > 0 && a < 99.5 && !Number.isInteger(a) ? digits(a, 3) : Math.round(a)) + THIN + IEC[i];
}

// A measured time, in seconds: 12.3 µs, 4.56 ms, 7.8 s.
export function seconds(v) {
	if (!Number.isFinite(v))
		return number(v);
	if (v === 0)
		return "0" + THIN + "s";
	const sign = v < 0 ? "−" : "", a = Math.abs(v);
	if (a >= 0.9995)
		return sign + (a >= 9999.5 ? number(Math.round(a)) : digits(a, 3)) + THIN + "s";
	for (const [factor, unit] of [[1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]])
		if (a >= factor * 0.9995)
			return sign + digits(a / factor, 3) + THIN + unit;
	return sign + a.toExponential(1) + THIN + "s";
}

// An age: 8 s, 4 m 05 s, 3 h 12 m, 2 d 4 h.
export function age(v) {
	if (v === null || v === undefined || !Number.isFinite(v))
		return "–";
	if (v < 1)
		return v < 0.0995 ? Math.round(v * 1000) + THIN + "ms" : v.toFixed(1) + THIN + "s";
	const s = Math.floor(v), two = (n) => String(n).padStart(2, "0");
	if (s < 60)
		return s + THIN + "s";
	if (s < 3600)
		return `${Math.floor(s / 60)}${THIN}m ${two(s % 60)}${THIN}s`;
	if (s < 86400)
		return `${Math.floor(s / 3600)}${THIN}h ${two(Math.floor(s % 3600 / 60))}${THIN}m`;
	return `${Math.floor(s / 86400)}${THIN}d ${Math.floor(s % 86400 / 3600)}${THIN}h`;
}

// The unit that a metric declares, or the one in its name's suffix.
export function unitOf(metric) {
	if (metric.unit)
		return metric.unit;
	const m = /_(seconds|bytes|ratio|celsius|volts|amperes|joules|meters|grams|hertz)(_total)?$/
		.exec(metric.name);
	return m ? m[1] : "";
}

// The value of a histogram or a summary is the number of its observations.
export const isCount = (kind) => ["histogram", "gaugehistogram", "summary"].includes(kind);
// Such a value only grows, so its rate matters.
export const grows = (kind) => ["counter", "histogram", "summary"].includes(kind);
export const valueUnit = (metric) => isCount(metric.kind) ? "" : unitOf(metric);

const SHORT = {celsius: "°C", volts: "V", amperes: "A", joules: "J", meters: "m", grams: "g",
               hertz: "Hz"};

export function withUnit(v, unit) {
	switch (unit) {
	case "seconds":
		return seconds(v);
	case "bytes":
		return bytes(v);
	case "ratio":
		return Number.isFinite(v) ? number(v * 100) + THIN + "%" : number(v);
	case "":
		return number(v);
	}
	return number(v) + THIN + (SHORT[unit] || unit);
}

// A rate of change: per second of the unit.
export function rate(v, unit) {
	if (v === null || v === undefined || Number.isNaN(v))
		return "–";
	if (unit === "seconds")
		return number(v) + THIN + "s/s";
	if (unit === "bytes")
		return bytes(v) + "/s";
	return (v !== 0 && Math.abs(v) >= 1 && Math.abs(v) < 999.5 ? digits(v, 3) : number(v)) + "/s";
}

// Removes trailing zeros, for axes.
export const trimmed = (text) => text.replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

// The zone of all times on the page: local or UTC, as this browser keeps it.
export const zone = {
	utc: localStorage.getItem("zone") === "utc", listeners: [],

	set(utc) {
		localStorage.setItem("zone", utc ? "utc" : "local");
		this.utc = utc;
		this.listeners.forEach((fn) => fn());
	},
};

// Formats a time like 2025-11-21T03:06:28.123, as in an input of type datetime-local.
export function isoTime(epoch) {
	const ms = epoch * 1000, offset = zone.utc ? 0 : new Date(ms).getTimezoneOffset() * 60000;
	return Number.isFinite(ms) ? new Date(ms - offset).toISOString().slice(0, 23) : "";
}

export const parseTime = (iso) => Date.parse(iso + (zone.utc ? "Z" : "")) / 1000;

// Time of day, with or without ms.
export const clock = (epoch, ms = true) => isoTime(epoch).slice(11, ms ? 23 : 19) || "–";

export const dateTime = (epoch) => epoch ? isoTime(epoch).slice(0, 19).replace("T", " ") : "–";

// Time of day, with the date unless it is today.
export const moment = (epoch, ms = false) => isoTime(epoch).slice(0, 10) === isoTime(Date.now() / 1000).slice(0, 10) ? clock(epoch, ms) : dateTime(epoch);

// Converts the times in a sentence of the collector from the collector's time zone to the page's. A time in the sentence is
// converted if it equals one of `moments` up to a multiple of 15 minutes, because time zones differ by such multiples.
export const retimed = (text, ...moments) => text.replace(/\b(\d\d):(\d\d):(\d\d) [A-Z+-][\w+-]{1,5}/g, (all, h, m, s) => {
	const at = moments.find((t) => (Math.floor(t) - h * 3600 - m * 60 - s) % 900 === 0);
	return at === undefined ? all : clock(at, false);
});

export function labelText(labels, without = []) {
	return Object.entries(labels).filter(([k]) => !without.includes(k))
		.map(([k, v]) => `${k}="${v}"`).join(" ");
}
