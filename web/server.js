// SPDX-License-Identifier: Apache-2.0
// server.js - requests to the collector: one at a time per poller, periodic, and retried after a
// failure. A hidden page sends none.

const TIMEOUT_MS = 4000;
const RETRY_MS = [500, 1000, 2000, 4000, 5000];

export class Problem extends Error {
	constructor(message, status) {
		super(message);
		this.status = status; // of HTTP; 0: the server is unreachable
	}
}

// The token of a collector with --reader-token-file, kept as long as the tab. The page itself needs none.
export const token = {
	value: sessionStorage.getItem("token") || "", asked: false, listeners: [],

	set(value) {
		sessionStorage.setItem("token", value);
		this.value = value;
		this.asked = false;
		this.listeners.forEach((fn) => fn(this));
	},
	// A request with this one was refused.
	wrong(used) {
		if (used !== this.value || this.asked)
			return;
		this.asked = true;
		this.listeners.forEach((fn) => fn(this));
	},
};

// fetch() with the token.
export async function send(path, options) {
	const used = token.value;
	const headers = used ? {...options.headers, Authorization: `Bearer ${used}`} : options.headers;
	const response = await fetch(`api/v1/${path}`, {...options, headers});
	if (response.status === 401)
		token.wrong(used);
	return response;
}

export async function get(path, params = {}) {
	const query = new URLSearchParams(
		Object.entries(params).filter(([, v]) => v !== "" && v !== undefined && v !== null));
	let response;
	try {
		response = await send(`${path}${query.size ? "?" + query : ""}`, {
			signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store",
		});
	} catch (e) {
		throw new Problem(e.name === "TimeoutError" ? "no answer within 4 s" :
		                  "no connection", 0);
	}
	let body;
	try {
		body = await response.json();
	} catch {
		throw new Problem(`HTTP ${response.status} without JSON`, response.ok ? 0 : response.status);
	}
	if (!response.ok)
		throw new Problem(body.error || `HTTP ${response.status}`, response.status);
	return body;
}

// Whether the collector answers; the page shows it, and all pollers wait for it.
export const link = {
	up: true, failures: 0, retryAt: 0, message: "", since: 0, listeners: [],

	ok() {
		if (!this.up) {
			this.up = true;
			this.notify();
		}
		this.failures = 0;
	},
	failed(message) {
		if (!this.up && Date.now() < this.retryAt)
			return; // another request that was in flight
		if (this.up)
			this.since = Date.now();
		this.up = false;
		this.message = message;
		this.retryAt = Date.now() + RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
		this.failures++;
		this.notify();
	},
	retryNow() {
		this.retryAt = 0;
		for (const p of pollers)
			p.soon();
	},
	notify() {
		for (const fn of this.listeners)
			fn(this);
	},
};

const pollers = [];

// The parts that the collector's build has, by the names of /api/v1/status; null: not known yet.
export const parts = {
	of: null,

	has(part) {
		return !part || Boolean(this.of?.includes(part));
	},
	set(list) {
		const first = !this.of;
		this.of = list;
		for (const p of first ? pollers : [])
			p.soon();
	},
};

// Calls ask() every period() ms, counted from the start of the previous call; calls do not overlap. Asks nothing while
// the collector is not known to have the part.
export class Poller {
	constructor(ask, period, part = "") {
		this.ask = ask;
		this.period = period;
		this.part = part;
		this.timer = 0;
		this.busy = false;
		this.again = false;
		pollers.push(this);
	}

	soon() {
		if (this.busy)
			this.again = true;
		else
			this.schedule(0);
	}

	schedule(ms) {
		clearTimeout(this.timer);
		if (!document.hidden && parts.has(this.part))
			this.timer = setTimeout(() => this.run(), ms);
	}

	async run() {
		const start = performance.now();
		if (this.busy)
			return;
		if (!link.up && Date.now() < link.retryAt) {
			this.schedule(link.retryAt - Date.now());
			return;
		}
		this.busy = true;
		try {
			await this.ask();
		} catch (e) {
			if (!(e instanceof Problem))
				console.error(e);
			else if (!e.status)
				link.failed(e.message);
		}
		this.busy = false;
		const again = this.again;
		this.again = false;
		const left = this.period() - (performance.now() - start);
		this.schedule(again ? 0 : Math.max(20, left, link.up ? 0 : link.retryAt - Date.now()));
	}
}

document.addEventListener("visibilitychange", () => {
	for (const p of pollers) {
		if (document.hidden)
			clearTimeout(p.timer);
		else
			p.soon();
	}
});
