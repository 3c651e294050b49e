// SPDX-License-Identifier: Apache-2.0
// dom.js - helpers for elements, which write only changes.

export const $ = (id) => document.getElementById(id);

export function el(tag, className, text) {
	const e = document.createElement(tag);
	if (className)
		e.className = className;
	if (text !== undefined)
		e.textContent = text;
	return e;
}

// Writes only a change, so that the browser need not lay out again.
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
	const body = table.tBodies[0];
	while (body.rows.length > rows.length)
		body.deleteRow(-1);
	rows.forEach((cells, i) => {
		const row = body.rows[i] || body.insertRow();
		cells.forEach((cell, k) => {
			const td = row.cells[k] || row.insertCell();
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

export const num = (text, tip) => ({text, tip, num: true});
