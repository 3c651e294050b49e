// SPDX-License-Identifier: Apache-2.0
// waterfall.js - the spans of a trace over time. A bar has its full colour where none of the span's children runs, which is
// its self time.
import {el, title} from "./dom.js";
import {grouped, many, seconds} from "./format.js";

// Returns the children of each span id, in the order of their start; the children of "" are the roots.
function childrenOf(spans) {
	const children = new Map([["", []], ...spans.map((s) => [s.span_id, []])]);
	for (const s of spans)
		children.get(children.has(s.parent_id) && s.parent_id !== s.span_id ? s.parent_id : "").push(s);
	return children;
}

// Returns [span, depth] in depth-first order.
function inOrder(spans, children) {
	const todo = children.get("").map((s) => [s, 0]).reverse(), done = new Set(), out = [];
	while (todo.length) {
		const [s, depth] = todo.pop();
		if (done.has(s))
			continue;
		done.add(s);
		out.push([s, depth]);
		todo.push(...children.get(s.span_id).map((child) => [child, depth + 1]).reverse());
	}
	return [...out, ...spans.filter((s) => !done.has(s)).map((s) => [s, 0])]; // cyclic parents
}

// The parts of a span during which none of its children runs, as [start, end].
function selfParts(span, children) {
	const end = span.start + span.duration_seconds, parts = [];
	let at = span.start;
	for (const c of children) {
		const from = Math.max(at, Math.min(c.start, end)), to = Math.min(end, c.start + c.duration_seconds);
		if (from > at)
			parts.push([at, from]);
		at = Math.max(at, to);
	}
	if (end > at || !parts.length && span.duration_seconds === 0)
		parts.push([at, end]);
	return parts;
}

export function waterfall(root, t) {
	const spans = [...t.spans].sort((x, y) => x.start - y.start), children = childrenOf(spans);
	const start = Math.min(...t.spans.map((s) => s.start)), services = [];
	const end = Math.max(...t.spans.map((s) => s.start + s.duration_seconds)), whole = end - start || 1e-9;
	const bar = (kind, from, to) => {
		const i = el("i", kind);
		i.style.left = `${(from - start) / whole * 100}%`;
		i.style.width = `${Math.max(0.2, (to - from) / whole * 100)}%`;
		return i;
	};
	root.replaceChildren(...inOrder(spans, children).map(([s, depth]) => {
		const row = el("div", "span"), name = el("span", "span-name"), track = el("span", "span-track");
		if (!services.includes(s.service))
			services.push(s.service);
		const kind = s.status === "error" ? "error" : `s${services.indexOf(s.service) % 8}`, parts = selfParts(s, children.get(s.span_id));
		const self = parts.reduce((sum, [from, to]) => sum + to - from, 0);
		name.style.paddingLeft = `${Math.min(depth, 12) * 14}px`;
		name.append(el("b", "", s.service), ` ${s.name}`);
		if (s.status === "error")
			name.append(el("span", "span-error", " failed"));
		track.append(bar(`${kind} whole`, s.start, s.start + s.duration_seconds), ...parts.map(([from, to]) => bar(kind, from, to)));
		const time = el("span", "span-time", seconds(s.duration_seconds));
		time.append(el("small", "", self < 0.995 * s.duration_seconds ? ` self ${seconds(self)}` : ""));
		row.append(name, track, time);
		row.dataset.span = s.span_id;
		title(row, [`${s.kind} in ${s.pod}, ${seconds(s.start - start)} after the start, self time ${seconds(self)}`,
		            s.message && `${s.status}: ${s.message}`,
		            ...Object.entries(s.attributes).map(([k, v]) => `${k} = ${v}`)].filter(Boolean).join("\n"));
		return row;
	}));
	if (t.truncated)
		root.append(el("p", "dim", `Only ${grouped(t.spans.length)} of ${many(t.spans_read, "span")} fit into the collector's answer.`));
}
