// SPDX-License-Identifier: Apache-2.0
/* rings.c - the heads, roots and index of a pod's rings, and the table of runs */
#include "base/base.h"
#include "base/share.h"
#include "collect/trace/internal.h"

#define LINES_MAX (COLLECT_FETCH_MAX / SL_LINE_SIZE)
/* bytes that may be READ beyond the share of published bytes, divided among the tenants */
#define BYTES_AHEAD (256u << 10)
#define ROOTS_UPTO  0.9 /* fraction of the share for roots; index and kept spans need the rest */
#define FULL_HEADS  10u /* periods between two READs of the heads of unused rings */
/* More lines than a host can write between two reads, even if it was unreachable in between. */
#define LINES_AHEAD (1ull << 40)
/* skip_past() applies to a pod that is older than this when its heads are first read */
#define PAST_NS 60000000000

/* ---- heads ---- */

/*
 * Requests new lines of roots or index, up to the end of the ring. Returns true if a request was
 * made.
 */
static bool ask_lines(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t ring,
		      collect_trace_take_fn *take, uint64_t from, uint64_t end)
{
	bool roots = take == collect_trace_take_roots;
	uint32_t places = roots ? SL_SPAN_ROOTS(p->info->span_lines)
				: SL_SPAN_INDEX(p->info->span_lines);
	uint64_t count = BASE_MIN(end - from, places - from % places);
	struct collect_trace_request *r;

	count = BASE_MIN(count, LINES_MAX);
	r = collect_trace_request_new(t, p, take, (uint32_t)count * SL_LINE_SIZE);
	if (!r)
		return false;
	r->ring = ring;
	r->number = from;
	r->count = (uint32_t)count;
	r->end = end;
	p->tenant->moved += r->length;
	collect_trace_ask(r, roots ? region_span_root_at(p->info, ring, from)
				   : region_span_index_at(p->info, ring, from));
	return true;
}

/*
 * Advances *from to the oldest line that has not been overwritten yet. Returns true if *from
 * changed.
 */
static bool skip_overrun(uint64_t *from, uint64_t end, uint32_t places, uint64_t *lost)
{
	if (end - *from <= places)
		return false;
	*lost += end - *from - places;
	*from = end - places;
	return true;
}

/* Returns the number of bytes that may be READ now within this part of the tenant's share. */
static uint64_t get_affordable(const struct collect_tracer *t,
			       const struct collect_trace_tenant *whose, double part)
{
	double most = part * t->o.bytes * (double)whose->lines_due * SL_LINE_SIZE +
		      BYTES_AHEAD / (double)BASE_MAX(t->tenants.count, 1u);
	double moved = (double)(whose->moved + whose->asked);

	if (!(t->o.bytes > 0))
		return UINT64_MAX;
	return most > moved ? (uint64_t)(most - moved) : 0;
}

/*
 * Skips the oldest roots if there are too many for the share: in small traces, roots make up to
 * half of the bytes. Errors are known from the index.
 */
static void skip_roots(struct collect_tracer *t, const struct collect_trace_pod *p,
		       struct collect_trace_ring *g)
{
	uint64_t due = g->head.roots - g->roots;
	uint64_t may = get_affordable(t, p->tenant, ROOTS_UPTO) / SL_LINE_SIZE;

	if (due <= may)
		return;
	t->stats.lost_bytes += due - may;
	g->roots += due - may;
	g->roots_tries = 0;
}

bool collect_trace_may_read(const struct collect_tracer *t, const struct collect_trace_pod *p)
{
	return get_affordable(t, p->tenant, ROOTS_UPTO);
}

bool collect_trace_may_read_spans(const struct collect_tracer *t, const struct collect_trace_pod *p,
				  uint64_t bytes)
{
	return bytes <= get_affordable(t, p->tenant, 1);
}

static void ring_ask(struct collect_tracer *t, struct collect_trace_pod *p, uint32_t i)
{
	uint32_t lines = p->info->span_lines;
	struct collect_trace_ring *g = &p->ring[i];

	if (!g->roots_busy && g->head.roots > g->roots) {
		if (skip_overrun(&g->roots, g->head.roots, SL_SPAN_ROOTS(lines),
				 &t->stats.lost_roots))
			g->roots_tries = 0;
		skip_roots(t, p, g);
	}
	if (!g->roots_busy && g->head.roots > g->roots)
		g->roots_busy = ask_lines(t, p, i, collect_trace_take_roots, g->roots,
					  g->head.roots);
	if (!g->index_busy && g->head.index > g->index && g->head.lines != g->lines_seen) {
		if (skip_overrun(&g->index, g->head.index, SL_SPAN_INDEX(lines),
				 &t->stats.lost_index))
			g->entry = g->lines = g->index_tries = 0;
		g->lines_seen = g->head.lines;
		g->index_busy = ask_lines(t, p, i, collect_trace_take_index, g->index,
					  g->head.index);
	}
}

void collect_trace_ask_heads(struct collect_tracer *t, struct collect_trace_pod *p)
{
	uint32_t rings = p->rings_used + 4;
	struct collect_trace_request *r;

	if (p->heads_busy || p->bad)
		return;
	if (rings > p->rings || t->tick % FULL_HEADS == 0)
		rings = p->rings;
	r = collect_trace_request_new(t, p, collect_trace_take_heads, rings * SL_LINE_SIZE);
	if (!r)
		return;
	r->count = rings;
	p->heads_busy = true;
	collect_trace_ask(r, region_span_head_at(p->info, 0));
}

/* Returns true if the head is plausible, since its counts go into sums over all pods. */
static bool head_is_sane(const struct collect_trace_ring *g, const struct region_span_head *head)
{
	/* A span has at least two lines and at most one index line, which is written first. */
	if (head->spans > head->lines / 2 || head->roots > head->lines / 2)
		return false;
	return !region_span_head_follows(&g->head, head) &&
	       head->lines - g->head.lines < LINES_AHEAD;
}

/*
 * The lines that an older pod has overwritten before the collector found it count neither as
 * published nor as lost. Otherwise, they would raise the number of bytes that may be READ.
 */
static void skip_past(struct collect_trace_ring *g, const struct region_span_head *head,
		      const struct region_info *info)
{
	uint64_t held = BASE_MIN(head->lines, info->span_lines);

	if (held == head->lines || (int64_t)(base_realtime_ns() - info->start_ns) < PAST_NS)
		return;
	g->head.lines = head->lines - held;
	/* The number of spans among these lines is not known: take the average. */
	g->head.spans = head->spans - head->spans * held / head->lines;
	g->roots = head->roots - BASE_MIN(head->roots, SL_SPAN_ROOTS(info->span_lines));
	g->index = head->index - BASE_MIN(head->index, SL_SPAN_INDEX(info->span_lines));
}

void collect_trace_take_heads(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_pod *p = r->pod;

	p->heads_busy = false;
	if (r->status || p->gone)
		return;
	t->stats.bytes_heads += r->length;
	for (uint32_t i = 0; i < r->count; i++) {
		struct collect_trace_ring *g = &p->ring[i];
		struct region_span_head head;
		enum region_fault fault = region_span_head_parse(r->bytes + i * 8ull, &head);

		if (fault == REGION_FAULT_UNSETTLED)
			continue; /* try again in the next period */
		if (!fault && !g->known)
			skip_past(g, &head, p->info);
		if (fault || !head_is_sane(g, &head)) {
			if (!p->bad)
				base_log_limited(BASE_WARN, "trace",
						 "invalid span ring, so its pod is not traced "
						 "instance=%016llx ring=%u: check its publisher",
						 (unsigned long long)p->instance, i);
			p->bad = true;
			t->stats.lost_lies++;
			return;
		}
		t->stats.spans_published += head.spans - g->head.spans;
		t->stats.lines_published += head.lines - g->head.lines;
		/*
		 * Lines that were overwritten meanwhile cannot be READ. If they counted, a pod
		 * could raise the number of bytes that may be READ at will.
		 */
		p->tenant->lines_due += BASE_MIN(head.lines - g->head.lines, p->info->span_lines);
		g->known = true;
		g->head = head;
		if (head.lines && i >= p->rings_used)
			p->rings_used = i + 1;
		ring_ask(t, p, i);
	}
}

/* ---- roots ---- */

/* Counts an invalid line. Returns true if the line must be read again. */
static bool read_again(struct collect_tracer *t, enum region_span_line line, uint8_t *tries,
		       uint64_t *lost)
{
	bool unfinished = line == REGION_SPAN_LINE_EARLY || line == REGION_SPAN_LINE_UNSETTLED;

	if (unfinished && (*tries)++ < TRACE_TRIES)
		return true;
	++*(unfinished || line == REGION_SPAN_LINE_LATE ? lost : &t->stats.lost_lies);
	return false;
}

/* Returns true if one more root of the tenant may wait for its decision. */
static bool may_wait(const struct collect_tracer *t, const struct collect_trace_tenant *whose)
{
	const struct base_share all = {TRACE_PENDING, t->pendings,
				       TRACE_PENDING / BASE_SHARE_RESERVE};

	return base_share_may(&all, whose->pendings, 1, whose->exempt);
}

void collect_trace_take_roots(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_ring *g = &r->pod->ring[r->ring];
	struct region_span_root root;
	enum region_span_line line;
	const char *name;

	g->roots_busy = false;
	if (r->status)
		return;
	t->stats.bytes_roots += r->length;
	for (uint32_t i = 0; i < r->count; i++, g->roots++, g->roots_tries = 0) {
		line = region_span_root_parse(r->bytes + i * 8ull, r->number + i, &root);
		if (line != REGION_SPAN_LINE_GOOD) {
			if (read_again(t, line, &g->roots_tries, &t->stats.lost_roots))
				return;
			continue;
		}
		name = collect_trace_name(t, r->pod, root.name, g->roots_tries);
		if (!name) {
			g->roots_tries++;
			return;
		}
		if (!may_wait(t, r->pod->tenant)) {
			t->stats.lost_memory++;
			continue;
		}
		t->stats.roots++;
		t->pending[t->pendings++] = (struct collect_trace_pending){r->pod, name, root};
		r->pod->tenant->pendings++;
		r->pod->refs++;
	}
}

/* ---- runs ---- */

void collect_trace_each_run(struct collect_tracer *t, uint32_t hash, uint64_t duration_ns,
			    void (*fn)(struct collect_tracer *, struct collect_trace_run *, void *),
			    void *arg)
{
	/*
	 * Covers the trace's duration, the periods needed to read the run, and the same number
	 * again for repeated reads.
	 */
	uint64_t ticks = duration_ns / TRACE_PERIOD_NS + t->o.linger_ns / TRACE_PERIOD_NS +
			 4 * TRACE_TRIES;
	uint64_t at = t->bucket[hash % TRACE_BUCKETS];

	while (at) {
		struct collect_trace_run *r = &t->run[at % TRACE_RUNS];

		/* This run was overwritten or is too old, and so are all runs before it. */
		if (r->sequence != at || t->tick - r->tick > ticks)
			return;
		if (r->hash == hash)
			fn(t, r, arg);
		at = r->next;
	}
}

static void take_run(struct collect_tracer *t, struct collect_trace_pod *p,
		     const struct collect_trace_run *run, bool error)
{
	struct collect_trace_run *r = &t->run[t->sequence % TRACE_RUNS];
	uint64_t *bucket = &t->bucket[run->hash % TRACE_BUCKETS];

	if (r->pod)
		collect_trace_pod_put(r->pod);
	*r = *run;
	r->sequence = t->sequence++;
	r->next = *bucket;
	r->tick = t->tick;
	r->pod = p;
	p->refs++;
	*bucket = r->sequence;
	collect_trace_kept_run(t, r, error);
}

/* Takes the new entries of an index line, and the lines by which the last known entry grew. */
static void take_entries(struct collect_tracer *t, struct collect_trace_request *r,
			 const uint64_t *entries, uint32_t count)
{
	struct collect_trace_ring *g = &r->pod->ring[r->ring];

	for (uint32_t i = g->entry ? g->entry - 1 : 0; i < count; i++) {
		uint32_t lines = SL_SPAN_ENTRY_LINES(entries[i]), had;
		/* The ring may have advanced since its head was read: take the nearest number. */
		uint64_t number = region_span_entry_number(entries[i],
							   g->head.lines + (1ull << 31));

		had = i + 1 == g->entry ? g->lines : 0;
		if (number != UINT64_MAX && lines > had && lines <= r->pod->info->span_lines)
			take_run(t, r->pod,
				 &(struct collect_trace_run){
					 .number = number + had,
					 .ring = r->ring,
					 .hash = SL_SPAN_ENTRY_HASH(entries[i]),
					 .lines = (uint8_t)(lines - had),
				 },
				 SL_SPAN_ENTRY_ERROR(entries[i]));
		g->entry = i + 1;
		g->lines = lines;
	}
}

void collect_trace_take_index(struct collect_tracer *t, struct collect_trace_request *r)
{
	struct collect_trace_ring *g = &r->pod->ring[r->ring];
	uint64_t entries[SL_SPAN_ENTRIES];
	enum region_span_line line;
	uint32_t count;

	g->index_busy = false;
	if (r->status || r->pod->gone) {
		g->lines_seen = 0;
		return;
	}
	t->stats.bytes_index += r->length;
	for (uint32_t i = 0; i < r->count; i++) {
		line = region_span_index_parse(r->bytes + i * 8ull, r->number + i, entries, &count);
		if (line == REGION_SPAN_LINE_GOOD) {
			take_entries(t, r, entries, count);
		} else if (read_again(t, line, &g->index_tries, &t->stats.lost_index)) {
			g->lines_seen = 0; /* something is new: read the index again */
			return;
		}
		g->index_tries = 0;
		if (line == REGION_SPAN_LINE_GOOD && r->number + i + 1 >= r->end)
			break; /* this was the last line when requested, and may have grown since */
		g->index = r->number + i + 1;
		g->entry = g->lines = 0;
	}
	if (g->index + 1 < g->head.index)
		g->lines_seen = 0; /* only part of the index was requested */
}
