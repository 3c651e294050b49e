// SPDX-License-Identifier: Apache-2.0
// list.js - a grid of any number of rows, of which only the visible ones exist. Arrow keys, Page
// Up/Down, Home and End move the active row; Enter or Space selects it.

const SPARE = 4;

export class List {
	// fill(row, index): writes the item at index into a row element from make(); returns false if it is not
	// loaded yet. keyOf(index): returns a key that identifies the item, or undefined if it is not loaded yet.
	// pick(index, event): the user picked the item. moved(first, count): the visible rows have changed.
	constructor(root, {make, fill, keyOf, pick, moved}) {
		this.root = root;
		this.make = make;
		this.fill = fill;
		this.keyOf = keyOf;
		this.pick = pick;
		this.moved = moved || (() => {});
		this.count = 0;
		this.active = -1;
		this.activeKey = undefined;
		this.rows = [];
		this.space = document.createElement("div");
		this.space.className = "list-space";
		this.space.setAttribute("role", "presentation");
		root.append(this.space);
		root.tabIndex = 0;
		root.addEventListener("scroll", () => this.draw(), {passive: true});
		root.addEventListener("keydown", (e) => this.key(e));
		root.addEventListener("focus", () => {
			if (this.active < 0 && this.count && root.matches(":focus-visible"))
				this.move(Math.ceil(root.scrollTop / this.rowHeight()));
		});
		root.addEventListener("click", (e) => {
			const row = e.target.closest("[data-index]");
			if (!row || e.target.closest("a, button"))
				return;
			this.active = Number(row.dataset.index);
			this.activeKey = undefined;
			this.pick(this.active, e);
			this.draw();
		});
		new ResizeObserver(() => this.draw()).observe(root);
	}

	rowHeight() {
		return parseFloat(getComputedStyle(this.root).getPropertyValue("--row")) || 28;
	}

	// The visible rows: [first, first + count).
	range() {
		const height = this.rowHeight();
		const first = Math.max(0, Math.floor(this.root.scrollTop / height) - SPARE);
		const count = Math.ceil(this.root.clientHeight / height) + 2 * SPARE;
		return {first, count: Math.max(0, Math.min(count, this.count - first))};
	}

	resize(count) {
		this.count = count;
		if (this.active >= count)
			this.active = count - 1;
		this.root.setAttribute("aria-rowcount", count);
		this.draw();
	}

	// The active row follows its item, which may have moved or disappeared.
	follow() {
		const key = this.keyOf(this.active);
		if (key !== undefined && this.activeKey !== undefined && key !== this.activeKey) {
			this.active = this.count - 1;
			while (this.active >= 0 && this.keyOf(this.active) !== this.activeKey)
				this.active--;
		}
		this.activeKey = this.active < 0 ? undefined : this.activeKey ?? key;
	}

	draw() {
		const height = this.rowHeight();
		this.follow();
		this.space.style.height = this.count * height + "px";
		const {first, count} = this.range();
		while (this.rows.length < count) {
			const row = this.make();
			row.id = `${this.root.id}-row${this.rows.length}`;
			row.setAttribute("role", "row");
			this.rows.push(row);
			this.space.append(row);
		}
		let activeId = "";
		for (let i = 0; i < this.rows.length; i++) {
			const row = this.rows[i], index = first + i;
			row.hidden = i >= count;
			if (row.hidden) {
				delete row.dataset.index;
				continue;
			}
			row.dataset.index = index;
			row.setAttribute("aria-rowindex", index + 1);
			row.style.transform = `translateY(${index * height}px)`;
			row.classList.toggle("loading", this.fill(row, index) === false);
			row.classList.toggle("active", index === this.active);
			if (index === this.active)
				activeId = row.id;
		}
		if (activeId)
			this.root.setAttribute("aria-activedescendant", activeId);
		else
			this.root.removeAttribute("aria-activedescendant");
		if (first !== this.lastFirst || count !== this.lastCount) {
			this.lastFirst = first;
			this.lastCount = count;
			this.moved(first, count);
		}
	}

	move(index) {
		const height = this.rowHeight(), top = index * height;
		if (!this.count)
			return;
		this.active = Math.max(0, Math.min(index, this.count - 1));
		this.activeKey = undefined;
		if (top < this.root.scrollTop)
			this.root.scrollTop = top;
		else if (top + height > this.root.scrollTop + this.root.clientHeight)
			this.root.scrollTop = top + height - this.root.clientHeight;
		this.draw();
	}

	key(e) {
		const page = Math.max(1, Math.floor(this.root.clientHeight / this.rowHeight()) - 1);
		const to = {ArrowDown: this.active + 1, ArrowUp: Math.max(0, this.active - 1),
		            PageDown: Math.min(this.count - 1, this.active + page),
		            PageUp: Math.max(0, this.active - page),
		            Home: 0, End: this.count - 1}[e.key];
		if (e.target !== this.root || e.ctrlKey || e.metaKey || e.altKey)
			return;
		if (to !== undefined)
			this.move(to);
		else if ((e.key === "Enter" || e.key === " ") && this.active >= 0)
			this.pick(this.active, e);
		else
			return;
		e.preventDefault();
		this.draw();
	}
}
