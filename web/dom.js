// SPDX-License-Identifier: Apache-2.0
// dom.js - helpers for elements; they write to the document only if something has changed.

export const $ = (id) => document.getElementById(id);

export function el(tag, className, text) {
	const e = document.createElement(tag);
	if (className)
		e.className = className;
	if (text !== undefined)
		e.textContent = text;
	return e;
}

// Writes the text only if it has changed, so that the browser does not compute the layout again.
export function put(e, text) {
	if (e.textContent !== text)
		e.textContent = text;
}

export function title(e, text) {
	if (e.title !== text)
		e.title = text;
}

// The text of a row for a screen reader.
export function label(e, text) {
	if (e.getAttribute("aria-label") !== text)
		e.setAttribute("aria-label", text);
}

export function emptyState(root, headline, text, action, code) {
	const key = [headline, text, code].join("\n");
	if (root.dataset.key === key)
		return;
	root.dataset.key = key;
	root.replaceChildren(el("h2", "", headline), el("p", "", text));
	if (code)
		root.append(el("pre", "", code));
	if (action) {
		const b = el("button", "", action[0]);
		b.type = "button";
		b.addEventListener("click", action[1]);
		root.append(b);
	}
}

// Cells: {text, tip, num, badge, kind}; existing rows are reused.
export function fillTable(table, rows) {
	const body = table.tBodies[0], heads = table.tHead.rows[0].cells;
	while (body.rows.length > rows.length)
		body.deleteRow(-1);
	rows.forEach((cells, i) => {
		const row = body.rows[i] || body.insertRow();
		cells.forEach((cell, k) => {
			let td = row.cells[k];
			if (!td) {
				td = row.insertCell();
				td.dataset.label = heads[k]?.textContent || ""; // where the table is narrow
			}
			if (cell.num)
				td.className = "num";
			if (cell.badge) {
				const badge = td.firstElementChild || td.appendChild(el("span"));
				badge.className = `badge ${cell.badge}`;
				put(badge, cell.text);
			} else {
				put(td, cell.text);
			}
			title(td, cell.tip || "");
			if (cell.kind !== undefined)
				td.className = cell.kind;
		});
	});
}

// A click, Enter or Space picks a row. The arrow keys, Home and End move between rows; the Tab key stops at one of them only.
// The focus follows the object that the row's data attribute names, even if the object moves to another row.
export function pickRows(table, pick) {
	const body = table.tBodies[0];
	const only = (row) => [...body.rows].forEach((r) => {
		r.tabIndex = r === row ? 0 : -1;
	});
	new MutationObserver(() => only([...body.rows].find((r) => r.tabIndex === 0) || body.rows[0])).observe(body, {childList: true});
	new MutationObserver((changes) => {
		const of = changes.find((c) => c.target === document.activeElement && c.target.getAttribute(c.attributeName) !== c.oldValue);
		if (of)
			[...body.rows].find((r) => r.getAttribute(of.attributeName) === of.oldValue)?.focus({preventScroll: true});
	}).observe(body, {subtree: true, attributeOldValue: true, attributeFilter: ["data-id", "data-incident", "data-instance", "data-store", "data-trace"]});
	body.addEventListener("focusin", (e) => only(e.target.closest("tr")));
	body.addEventListener("click", (e) => {
		const row = e.target.closest("tr");
		if (row && !e.target.closest("button, a"))
			pick(row);
	});
	body.addEventListener("keydown", (e) => {
		const row = e.target, at = row.sectionRowIndex;
		if (row.tagName !== "TR" || e.ctrlKey || e.metaKey || e.altKey)
			return;
		const to = {ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: body.rows.length - 1}[e.key];
		if (to !== undefined)
			body.rows[to]?.focus();
		else if (e.key === "Enter" || e.key === " ")
			pick(row);
		else
			return;
		e.preventDefault();
	});
}

const SVG = document.querySelector("svg").namespaceURI;

export function svg(tag, attributes = {}, text) {
	const e = document.createElementNS(SVG, tag);
	for (const [k, v] of Object.entries(attributes))
		e.setAttribute(k, v);
	if (text !== undefined)
		e.textContent = text;
	return e;
}

export const num = (text, tip) => ({text, tip, num: true});
