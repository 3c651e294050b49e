// SPDX-License-Identifier: Apache-2.0
// server.js - requests to the collector: one at a time per poller, periodic, and retried after a
// failure. A hidden page rarely sends requests, and only for what its title shows.

const TIMEOUT_MS = 4000;
export const HIDDEN_MS = 10000; // interval between requests while the page is hidden
const RETRY_MS = [500, 1000, 2000, 4000, 5000];

export class Problem extends Error {
	constructor(message, status, slow = false) {
		super(message);
		this.status = status; // HTTP status; 0: no answer
		this.slow = slow;     // only this answer is missing: others have arrived in the meantime
		// The collector was too busy, the request took too long, or a right is missing. 400 and 404 mean a wrong request.
		this.refused = status > 0 && status !== 400 && status !== 404;
	}

	// The heading above the message that is shown in place of a list.
	get headline() {
		return this.refused ? "Refused" : "Invalid search";
	}
}

const late = new Map(); // part of the API -> when its answer was late or refused
let heard = 0;          // when the last answer came

// The parts of the API whose answers are late or refused at present.
export const lateParts = () => [...late].filter(([, at]) => performance.now() - at < 3 * TIMEOUT_MS).map(([part]) => part);

// The token for a collector with --reader-token-file or --actor-token-file, kept until the browser's tab is closed. The page
// itself needs none. why: text that says why the user must enter a token.
export const token = {
	value: sessionStorage.getItem("token") || "", asked: false, why: "", listeners: [],

	ask(why) {
		this.asked = true;
		this.why = why;
		this.listeners.forEach((fn) => fn(this));
	},

	set(value) {
		sessionStorage.setItem("token", value);
		this.value = value;
		this.asked = false;
		this.listeners.forEach((fn) => fn(this));
	},
	// A request with the token `used` was refused.
	wrong(used) {
		if (used !== this.value || this.asked)
			return;
		this.ask("This collector requires a token (--reader-token-file):");
	},
};

// fetch() with the token.
async function send(path, options) {
	const used = token.value;
	const headers = used ? {...options.headers, Authorization: `Bearer ${used}`} : options.headers;
	const response = await fetch(`api/v1/${path}`, {...options, headers});
	if (response.status === 401)
		token.wrong(used);
	return response;
}

function lost(e, part, sent) {
	if (e.name !== "TimeoutError")
		return new Problem("no connection", 0);
	late.set(part, performance.now());
	return new Problem("no answer within 4 s", 0, heard > sent);
}

// Returns the body of an answer. Waits for up to TIMEOUT_MS, because a connection may be lost without notice.
async function ask(path, options) {
	const part = path.split("?")[0].split("/")[0], sent = performance.now();
	let response;
	try {
		response = await send(path, {...options, signal: AbortSignal.timeout(TIMEOUT_MS), cache: "no-store"});
	} catch (e) {
		throw lost(e, part, sent);
	}
	let body;
	try {
		body = await response.json();
	} catch (e) {
		if (e.name === "TimeoutError")
			throw lost(e, part, sent);
		// A proxy has answered instead of the collector, either all requests or only this one.
		late.set(part, performance.now());
		throw new Problem(`HTTP ${response.status} without JSON`, 0, performance.now() - heard < TIMEOUT_MS);
	}
	heard = performance.now();
	const problem = response.ok ? null : new Problem(body.error || `HTTP ${response.status}`, response.status);
	if (problem?.refused)
		late.set(part, heard);
	else
		late.delete(part);
	if (problem)
		throw problem;
	return body;
}

export function get(path, params = {}) {
	const query = new URLSearchParams(
		Object.entries(params).filter(([, v]) => v !== "" && v !== undefined && v !== null));
	return ask(`${path}${query.size ? "?" + query : ""}`);
}

export const post = (path, body) => ask(path, {method: "POST", body: JSON.stringify(body), headers: {"Content-Type": "application/json"}});

// Whether the collector answers; if not, the page says so and all pollers wait. retryAt: a value of performance.now(), because
// the clock may be set.
export const link = {
	up: true, failures: 0, retryAt: 0, message: "", listeners: [],
	heard: 0, // time of the last answer, in ms; 0: none yet

	ok() {
		this.heard = Date.now();
		if (!this.up) {
			this.up = true;
			this.notify();
		}
		this.failures = 0;
	},
	failed(message) {
		if (!this.up && performance.now() < this.retryAt)
			return; // another request that was in flight
		this.up = false;
		this.message = message;
		this.retryAt = performance.now() + RETRY_MS[Math.min(this.failures, RETRY_MS.length - 1)];
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

// Handles an error of a poller. A late answer delays only what is drawn from it, so it does not count as a lost connection.
export function failed(e) {
	if (!(e instanceof Problem))
		console.error(e);
	else if (!e.status && !e.slow)
		link.failed(e.message);
}

const pollers = [];

// The parts that the collector's build includes, with their names in /api/v1/status; null: not known yet.
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

// Calls ask() every period() ms, counted from the start of the previous call; calls do not overlap. Does not call it unless
// the collector is known to have the part. hidden: the period in ms while the page is hidden; 0 means no calls then.
export class Poller {
	constructor(ask, period, part = "", hidden = 0) {
		this.ask = ask;
		this.period = () => document.hidden ? hidden : period();
		this.hidden = hidden;
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
		if ((!document.hidden || this.hidden) && parts.has(this.part))
			this.timer = setTimeout(() => this.run(), ms);
	}

	async run() {
		const start = performance.now();
		if (this.busy)
			return;
		if (!link.up && start < link.retryAt) {
			this.schedule(link.retryAt - start);
			return;
		}
		this.busy = true;
		try {
			await this.ask();
		} catch (e) {
			failed(e);
		}
		this.busy = false;
		const again = this.again;
		this.again = false;
		const left = this.period() - (performance.now() - start);
		this.schedule(again ? 0 : Math.max(20, left, link.up ? 0 : link.retryAt - performance.now()));
	}
}

document.addEventListener("visibilitychange", () => {
	for (const p of pollers) {
		if (!document.hidden)
			p.soon();
		else
			p.schedule(p.hidden);
	}
});
