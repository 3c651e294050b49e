// SPDX-License-Identifier: Apache-2.0
// jobs.js - the view of a cluster's jobs: the list, and the nodes and ranks of one job, with the rank that delays the others.
import {$, emptyState, fillTable, num, pickRows, put} from "./dom.js";
import {age, bytes, dateTime, grouped, many, retimed, seconds} from "./format.js";
import {Poller, Problem, get, link} from "./server.js";
import {navigate, state} from "./state.js";

const PERIOD = () => state.tab === "jobs" ? 2000 : 10000;
const MOST = 200, RUNNING = 1000; // jobs that are shown: the newest ones, and those that run

let app = null; // {openCause, showMetrics}

const value = (v, as) => num(v === null ? "" : as(v));
const ended = (job) => job.state === "ended";
// The slow rank while its incident is open; after the end of the job, its last slow rank.
const slowOf = (job) => job.slow && (!job.slow.end || ended(job)) ? job.slow : null;

function drawList(a) {
	fillTable($("jobs"), a.jobs.map((job) => {
		const slow = slowOf(job);
		return [
			{text: slow && !slow.end ? "slow rank" : job.state, badge: slow && !slow.end ? "bad" : ended(job) ? "closed" : "good"},
			{text: job.job, kind: "strong"}, {text: job.name}, {text: job.user},
			{text: job.nodes.join(", ") + (job.node_count > job.nodes.length ? ", …" : ""), tip: many(job.node_count, "node")},
			num(job.ranks ? grouped(job.ranks) : ""), num(dateTime(job.begin)),
			num(job.begin ? age((job.end || a.time) - job.begin) : ""),
			{text: slow ? `rank ${slow.rank} on ${slow.node}` : "", kind: "why"},
		];
	}));
	[...$("jobs").tBodies[0].rows].forEach((row, i) => {
		row.dataset.id = a.jobs[i].job;
		row.setAttribute("aria-selected", a.jobs[i].job === state.job);
	});
	put($("jobs-note"), a.matching > a.jobs.length ? `those that run and the newest ones, ${grouped(a.jobs.length)} of ${grouped(a.matching)}` :
		many(a.matching, "job"));
}

function drawRanks(ranks, slow) {
	const longest = Math.max(0, ...ranks.map((r) => r.step_seconds ?? 0));
	fillTable($("job-ranks"), ranks.map((r) => {
		const own = slow?.instance === r.instance;
		return [
			{text: own && !slow.end ? "slow" : r.state, badge: own && !slow.end ? "bad" : r.state === "live" ? "good" : "closed"},
			{text: `rank ${r.rank}`, kind: "strong"}, {text: r.node}, value(r.step_seconds, seconds), value(r.step_seconds_mean, seconds),
			value(r.steps, grouped), value(r.waiting_seconds, seconds), value(r.mpi_seconds, seconds), value(r.cpu_seconds, seconds),
			value(r.memory_peak_bytes, bytes), value(r.sent_bytes, bytes), value(r.received_bytes, bytes),
		];
	}));
	[...$("job-ranks").tBodies[0].rows].forEach((row, i) => { // a bar behind the step
		row.dataset.instance = ranks[i].instance;
		row.setAttribute("aria-selected", false);
		row.cells[3].style.backgroundSize = `${longest ? 100 * (ranks[i].step_seconds ?? 0) / longest : 0}% 70%`;
	});
	$("job-ranks").hidden = !ranks.length;
}

function drawJob(a) {
	const job = a.job, slow = slowOf(job), steps = new Set(a.ranks.map((r) => r.step)).size;
	put($("job-name"), `Job ${job.job} ${job.name}`.trim());
	put($("job-note"), [job.user && `user ${job.user}`, many(job.node_count, "node"), job.ranks ? many(job.ranks, "rank") : "no rank is published",
	                    steps > 1 ? many(steps, "step") : "", ended(job) ? `ended ${dateTime(job.end)}` : "", a.truncated ? "some ranks are left out" : ""]
		.filter(Boolean).join(", "));
	$("job-slow").hidden = !slow;
	put($("job-says"), slow ? retimed(slow.sentence, slow.begin, slow.end || 0) : "");
	$("job-says").className = slow && !slow.end ? "bad" : "";
	$("job-cause").dataset.incident = slow?.incident || "";
	fillTable($("job-nodes"), a.nodes.map((n) => [
		{text: n.node, kind: "strong", tip: n.host}, num(n.ranks ? grouped(n.ranks) : ""), value(n.cpu_seconds, seconds), value(n.memory_bytes, bytes),
		value(n.network && n.network.sent_bytes, bytes), value(n.network && n.network.received_bytes, bytes),
		value(n.network && n.network.retransmits, grouped)]));
	drawRanks(a.ranks, slow);
}

async function askJob() {
	try {
		drawJob(await get(`jobs/${encodeURIComponent(state.job)}`));
		$("job").hidden = false;
	} catch (e) {
		if (!(e instanceof Problem) || !e.status)
			throw e;
		$("job").hidden = true;
		put($("jobs-note"), e.message);
	}
}

async function poll() {
	const a = await get("jobs", {limit: MOST});
	if (a.matching > a.jobs.length) { // many newer ones may have ended since one that runs began
		const there = new Set(a.jobs.map((job) => job.job)), running = await get("jobs", {state: "running", limit: RUNNING});
		a.jobs.push(...running.jobs.filter((job) => !there.has(job.job)));
	}
	link.ok();
	$("tab-jobs").hidden = !a.matching && state.tab !== "jobs";
	const slow = a.jobs.filter((job) => job.slow && !job.slow.end).length;
	put($("n-jobs"), slow ? grouped(slow) : a.matching ? grouped(a.matching) : "");
	$("n-jobs").classList.toggle("bad", slow > 0);
	if (state.tab !== "jobs")
		return;
	$("jobs-empty").hidden = a.matching > 0;
	$("jobs-all").hidden = !a.matching;
	if (!a.matching)
		return emptyState($("jobs-empty"), "No job", "A job appears here if its ranks publish their MPI calls, or if Slurm runs it on a host with " +
			"sidelight agent --host.", null, "mpirun -x LD_PRELOAD=…/libsidelight-mpi-openmpi.so -np 8 ./weather");
	drawList(a);
	if (state.job)
		await askJob();
	else
		$("job").hidden = true;
}

const poller = new Poller(poll, PERIOD);

export function soon() {
	poller.soon();
}

// "": none.
function open(job) {
	state.job = job;
	navigate();
	soon();
}

export function start(hooks) {
	app = hooks;
	pickRows($("jobs"), (row) => open(row.dataset.id === state.job ? "" : row.dataset.id));
	pickRows($("job-ranks"), (row) => app.showMetrics(row.dataset.instance));
	$("job-close").addEventListener("click", () => open(""));
	$("job-cause").addEventListener("click", (e) => app.openCause(e.target.dataset.incident));
	soon();
}
