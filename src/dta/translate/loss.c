// SPDX-License-Identifier: Apache-2.0
/*
 * loss.c - a table of reporters. Each has the newest sequence number, a map of bits of the window
 * behind it, and a sorted list of gaps: ranges that may still come. A report of the window is in
 * one of three states: its bit is set (arrived); it is in a gap (missing); neither (lost, or never
 * expected).
 */
#include "dta/translate/loss.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <sys/random.h>

#include "dta/store/hash.h"

struct gap {
	uint64_t due_ns;
	uint32_t first, count; /* at once at most a window */
	uint32_t named;	       /* times */
};

struct dta_loss_reporter {
	struct dta_loss_key key;	 /* address and port: of the last packet with news */
	struct dta_loss_reporter *chain; /* of a bucket */
	struct dta_loss_reporter *older, *younger; /* by when they were heard last */
	struct dta_loss_reporter *next,
		**link; /* in the list of those that want something; link NULL: not */
	struct gap *gap;
	uint64_t seen_ns, hash;
	uint64_t due_ns; /* no gap is due before */
	uint32_t gaps, room;
	uint32_t top;	/* the sequence number after the newest */
	uint32_t reach; /* reports behind top that were expected, at most the window */
	uint32_t incarnation, before;
	/* We came in the middle: what lies between reach and the window was not expected, but is
	 * taken if it comes. */
	bool joined;
	bool authenticated, restarted, acknowledge;
	uint8_t bits;
	struct dta_loss_stats s;
	uint64_t map[]; /* bit sequence % window */
};

struct dta_loss {
	struct dta_loss_opts o;
	struct dta_loss_reporter **bucket, *oldest, *youngest;
	struct dta_loss_reporter *wanting, *cursor; /* where dta_loss_answer() goes on */
	uint64_t seed;
	uint32_t buckets, reporters;
	struct dta_loss_stats gone; /* of those that were forgotten, and what is total only */
};

struct dta_loss *dta_loss_new(const struct dta_loss_opts *opts)
{
	struct dta_loss *l = calloc(1, sizeof(*l));
	struct dta_loss_opts *o;

	if (!l)
		return NULL;
	o = &l->o;
	if (opts)
		*o = *opts;
	o->reporters = o->reporters ? o->reporters : 16384;
	o->window = o->window ? o->window : 4096;
	o->forget_ns = o->forget_ns ? o->forget_ns : 60000000000ull;
	o->nack_ns = o->nack_ns ? o->nack_ns : 2000000;
	o->nacks = o->nacks ? o->nacks : 5;
	l->buckets = 64;
	while (l->buckets < o->reporters && l->buckets < 1u << 20)
		l->buckets *= 2;
	if (o->window < 64 || o->window > 1u << 20 || o->window & (o->window - 1) ||
	    o->reporters > 1u << 24 || o->nacks > 32) {
		errno = EINVAL;
		goto fail;
	}
	l->bucket = calloc(l->buckets, sizeof(struct dta_loss_reporter *));
	if (!l->bucket)
		goto fail;
	/* A stranger who knew the seed could choose numbers that all fall into one bucket. */
	if (getrandom(&l->seed, sizeof(l->seed), GRND_NONBLOCK) != sizeof(l->seed))
		l->seed = (uintptr_t)l * 0x9e3779b97f4a7c15ull;
	return l;
fail:
	free(l);
	return NULL;
}

static void reporter_free(struct dta_loss_reporter *r)
{
	free(r->gap);
	free(r);
}

void dta_loss_free(struct dta_loss *l)
{
	if (!l)
		return;
	for (struct dta_loss_reporter *r = l->oldest, *next; r; r = next) {
		next = r->younger;
		reporter_free(r);
	}
	free(l->bucket);
	free(l);
}

/* ---- lists ---- */

static void unlist(struct dta_loss *l, struct dta_loss_reporter *r)
{
	*(r->older ? &r->older->younger : &l->oldest) = r->younger;
	*(r->younger ? &r->younger->older : &l->youngest) = r->older;
}

static void list_youngest(struct dta_loss *l, struct dta_loss_reporter *r)
{
	r->older = l->youngest;
	r->younger = NULL;
	*(r->older ? &r->older->younger : &l->oldest) = r;
	l->youngest = r;
}

static void want(struct dta_loss *l, struct dta_loss_reporter *r)
{
	if (r->link)
		return;
	r->next = l->wanting;
	if (r->next)
		r->next->link = &r->next;
	r->link = &l->wanting;
	l->wanting = r;
}

static void want_no_more(struct dta_loss *l, struct dta_loss_reporter *r)
{
	if (!r->link)
		return;
	if (l->cursor == r)
		l->cursor = r->next;
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
	r->link = NULL;
}

/* ---- gaps ---- */

static uint32_t modulo(const struct dta_loss_reporter *r, uint32_t sequence)
{
	return r->bits == 8 ? sequence & 0xff : sequence;
}

/* How far a number lies behind top: 1 is the newest. More than half of all: before it. */
static uint32_t behind(const struct dta_loss_reporter *r, uint32_t sequence)
{
	return modulo(r, r->top - sequence);
}

static uint32_t window_of(const struct dta_loss *l, const struct dta_loss_reporter *r)
{
	return r->bits == 8 && l->o.window > 64 ? 64 : l->o.window;
}

static void give_up(struct dta_loss_reporter *r, uint64_t reports)
{
	r->s.missing -= reports;
	r->s.lost += reports;
}

static void gap_remove(struct dta_loss_reporter *r, uint32_t i)
{
	r->gaps--;
	memmove(r->gap + i, r->gap + i + 1, (r->gaps - i) * sizeof(*r->gap));
}

/* Room for one more at i. If there is none, the oldest is given up, or this one: false. */
static bool gap_insert(struct dta_loss_reporter *r, uint32_t i)
{
	if (r->gaps == r->room && r->room < DTA_LOSS_GAPS_MAX) {
		uint32_t room = r->room ? 2 * r->room : 4;
		struct gap *more = reallocarray(r->gap, room, sizeof(*more));

		if (more) {
			r->gap = more;
			r->room = room;
		}
	}
	if (r->gaps == r->room) {
		if (!i)
			return false;
		give_up(r, r->gap[0].count);
		gap_remove(r, 0);
		i--;
	}
	memmove(r->gap + i + 1, r->gap + i, (r->gaps - i) * sizeof(*r->gap));
	r->gaps++;
	return true;
}

/* The youngest reports before first are missing from now on. They are counted as missing already.
 */
static void gap_append(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t first,
		       uint32_t count, uint64_t now_ns)
{
	if (!gap_insert(r, r->gaps)) {
		give_up(r, count);
		return;
	}
	r->gap[r->gaps - 1] = (struct gap){now_ns + l->o.nack_ns, first, count, 0};
	if (r->gaps == 1 || now_ns + l->o.nack_ns < r->due_ns)
		r->due_ns = now_ns + l->o.nack_ns;
	want(l, r);
}

/* A report that had not arrived did so. */
static void fill(struct dta_loss_reporter *r, uint32_t sequence)
{
	uint32_t at = behind(r, sequence), low = 0, high = r->gaps, before, after;
	struct gap *g;

	while (low < high) { /* the first gap that ends behind it; older ones are farther behind */
		uint32_t middle = (low + high) / 2;

		g = &r->gap[middle];
		if (behind(r, g->first) - g->count >= at)
			low = middle + 1;
		else
			high = middle;
	}
	g = &r->gap[low];
	if (low == r->gaps || behind(r, g->first) < at) {
		r->s.lost--; /* it had been given up */
		return;
	}
	r->s.missing--;
	if (g->named)
		r->s.recovered++;
	before = modulo(r, sequence - g->first);
	after = g->count - before - 1;
	if (before && after) {
		struct gap rest = {g->due_ns, modulo(r, sequence + 1), after, g->named};
		uint32_t was = r->gaps;

		g->count = before;
		if (!gap_insert(r, low + 1)) {
			give_up(r, after);
			return;
		}
		if (r->gaps == was) /* the oldest went */
			low--;
		r->gap[low + 1] = rest;
	} else if (before) {
		g->count--;
	} else if (after) {
		g->first = modulo(r, g->first + 1);
		g->count--;
	} else {
		gap_remove(r, low);
	}
}

/* ---- the map ---- */

/* Sets or clears count bits from sequence on, round the window. */
static void map_range(struct dta_loss_reporter *r, uint32_t window, uint32_t sequence,
		      uint32_t count, bool value)
{
	if (count >= window) {
		memset(r->map, value ? 0xff : 0, window / 8);
		return;
	}
	while (count) {
		uint32_t bit = sequence & (window - 1), in = bit % 64, n = 64 - in;
		uint64_t mask;

		if (n > count)
			n = count;
		mask = (n == 64 ? ~0ull : (1ull << n) - 1) << in;
		if (value)
			r->map[bit / 64] |= mask;
		else
			r->map[bit / 64] &= ~mask;
		sequence += n;
		count -= n;
	}
}

/* What now lies behind the window is given up. */
static void slide(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t by)
{
	uint32_t window = window_of(l, r), drop = 0;

	r->top = modulo(r, r->top + by);
	r->reach = r->reach + (uint64_t)by > window ? window : r->reach + by;
	r->joined &= r->reach < window;
	while (drop < r->gaps) {
		struct gap *g = &r->gap[drop];
		uint32_t far = behind(r, g->first);

		if (far <= window)
			break;
		if (far - window < g->count) {
			give_up(r, far - window);
			g->first = modulo(r, g->first + (far - window));
			g->count -= far - window;
			break;
		}
		give_up(r, g->count);
		drop++;
	}
	if (drop) {
		r->gaps -= drop;
		memmove(r->gap, r->gap + drop, r->gaps * sizeof(*r->gap));
	}
}

/* So many reports were jumped over. */
static void skip(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t ahead, uint64_t now_ns)
{
	uint32_t window = window_of(l, r), from = r->top, keep = ahead;

	r->s.expected += ahead;
	r->s.missing += ahead;
	if (ahead > window) { /* beyond the reach of anything that may come */
		give_up(r, r->s.missing - window);
		r->gaps = 0;
		keep = window;
		from = modulo(r, from + (ahead - window));
		r->top = from;
		r->reach = 0;
	}
	slide(l, r, keep);
	map_range(r, window, from, keep, false);
	gap_append(l, r, from, keep, now_ns);
}

/* ---- reporters ---- */

/*
 * Its first packet that is seen. What came before that is missing if it is less than a window; if
 * it is more, then another translator was there for it: what the reporter has kept, as that one did
 * not acknowledge it, is taken.
 */
static void begin(const struct dta_loss *l, struct dta_loss_reporter *r, const struct dta_header *h)
{
	bool whole = r->bits == 32 && h->sequence <= l->o.window;

	r->gaps = 0;
	r->reach = 0;
	r->incarnation = h->incarnation;
	r->top = whole ? 0 : modulo(r, h->sequence);
	r->joined = !whole && r->bits == 32;
	r->acknowledge = false;
	memset(r->map, 0, l->o.window / 8);
}

static void add(struct dta_loss_stats *to, const struct dta_loss_stats *s)
{
	to->expected += s->expected;
	to->arrived += s->arrived;
	to->duplicates += s->duplicates;
	to->late += s->late;
	to->reordered += s->reordered;
	to->missing += s->missing;
	to->lost += s->lost;
	to->recovered += s->recovered;
	to->nacks += s->nacks;
	to->restarts += s->restarts;
}

static void forget(struct dta_loss *l, struct dta_loss_reporter *r)
{
	struct dta_loss_reporter **at = &l->bucket[r->hash & (l->buckets - 1)];

	while (*at != r)
		at = &(*at)->chain;
	*at = r->chain;
	unlist(l, r);
	want_no_more(l, r);
	give_up(r, r->s.missing);
	add(&l->gone, &r->s);
	l->gone.forgotten++;
	l->reporters--;
	reporter_free(r);
}

static struct dta_loss_reporter *find(struct dta_loss *l, const struct dta_loss_key *key,
				      bool authenticated, uint64_t *hash)
{
	struct {
		struct in6_addr address;
		uint32_t tenant, reporter;
	} id = {.tenant = key->tenant | (authenticated ? 1u << 16 : 0), .reporter = key->reporter};
	struct dta_loss_reporter *r;

	if (!authenticated)
		id.address = key->address;
	*hash = XXH3_64bits_withSeed(&id, sizeof(id), l->seed);
	for (r = l->bucket[*hash & (l->buckets - 1)]; r; r = r->chain)
		if (r->hash == *hash && r->authenticated == authenticated &&
		    r->key.tenant == key->tenant && r->key.reporter == key->reporter &&
		    (authenticated ||
		     !memcmp(&r->key.address, &key->address, sizeof(key->address))))
			return r;
	return NULL;
}

static struct dta_loss_reporter *meet(struct dta_loss *l, const struct dta_loss_key *key,
				      const struct dta_header *h, uint32_t bits, uint64_t hash,
				      uint64_t now_ns)
{
	struct dta_loss_reporter *r;

	if (l->reporters >= l->o.reporters) {
		if (now_ns - l->oldest->seen_ns < l->o.forget_ns)
			return NULL;
		forget(l, l->oldest);
	}
	r = calloc(1, sizeof(*r) + l->o.window / 8);
	if (!r)
		return NULL;
	r->key = *key;
	r->hash = hash;
	r->bits = (uint8_t)bits;
	r->seen_ns = now_ns;
	r->authenticated = h->flags & DTA_AUTHENTICATED;
	r->chain = l->bucket[hash & (l->buckets - 1)];
	l->bucket[hash & (l->buckets - 1)] = r;
	list_youngest(l, r);
	l->reporters++;
	begin(l, r, h);
	return r;
}

/* Another incarnation of a known reporter: true if it is a new one, and not a straggler of an old
 * one. */
static bool restart(struct dta_loss *l, struct dta_loss_reporter *r, const struct dta_header *h,
		    uint64_t now_ns)
{
	/* How an incarnation compares with one of long ago, nobody knows; auth.h looks at the time.
	 */
	bool recent = now_ns - r->seen_ns < l->o.forget_ns;

	if (r->authenticated ? recent && (int32_t)(h->incarnation - r->incarnation) < 0
			     : r->restarted && h->incarnation == r->before)
		return false;
	give_up(r, r->s.missing);
	r->before = r->incarnation;
	r->restarted = true;
	r->s.restarts++;
	begin(l, r, h);
	return true;
}

static void begin_anew(struct dta_loss *l, struct dta_loss_reporter *r)
{
	give_up(r, r->s.missing);
	r->gaps = 0;
	r->reach = 0;
	r->joined = r->bits == 32;
	r->acknowledge = false;
	memset(r->map, 0, l->o.window / 8);
}

void dta_loss_anew(struct dta_loss *l)
{
	for (struct dta_loss_reporter *r = l->oldest; r; r = r->younger)
		begin_anew(l, r);
}

/* ---- packets ---- */

/* One by one, as not all of them are new. */
static uint32_t old_reports(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t sequence,
			    uint32_t n, uint64_t *fresh)
{
	uint32_t window = window_of(l, r), taken = 0, far = r->joined ? window : r->reach;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = modulo(r, sequence + i), bit = at & (window - 1);

		if (behind(r, at) > far) {
			r->s.late++;
		} else if (r->map[bit / 64] >> bit % 64 & 1) {
			r->s.duplicates++;
		} else {
			if (behind(r, at) > r->reach)
				r->s.expected++; /* from now on */
			else
				fill(r, at);
			r->map[bit / 64] |= 1ull << bit % 64;
			r->s.arrived++;
			r->s.reordered++;
			fresh[i / 64] |= 1ull << i % 64;
			taken++;
		}
	}
	return taken;
}

static void mark(uint64_t *fresh, uint32_t from, uint32_t n)
{
	for (uint32_t i = from; i < from + n;) {
		uint32_t in = i % 64, step = 64 - in;

		if (step > from + n - i)
			step = from + n - i;
		fresh[i / 64] |= (step == 64 ? ~0ull : (1ull << step) - 1) << in;
		i += step;
	}
}

int dta_loss_packet(struct dta_loss *l, const struct dta_loss_key *key, const struct dta_header *h,
		    uint32_t bits, uint64_t now_ns, uint64_t *fresh)
{
	uint32_t n = h->reports, half = bits == 8 ? 0x80 : 0x80000000u, ahead, old = 0, taken = 0;
	struct dta_loss_reporter *r;
	uint64_t hash;

	if ((bits != 8 && bits != 32) || !n || n > DTA_REPORTS_MAX || (bits == 8 && n >= half))
		return -EINVAL;
	memset(fresh, 0, (n + 63) / 64 * sizeof(*fresh));
	r = find(l, key, h->flags & DTA_AUTHENTICATED, &hash);
	if (r && r->bits != bits) { /* the configuration was changed */
		forget(l, r);
		r = NULL;
	}
	if (!r) {
		r = meet(l, key, h, bits, hash, now_ns);
		if (!r) {
			l->gone.refused++;
			return -ENOSPC;
		}
	} else if (l->youngest != r) {
		unlist(l, r);
		list_youngest(l, r);
	}
	if (h->incarnation != r->incarnation && !restart(l, r, h, now_ns)) {
		r->s.late += n;
		return 0;
	}
	r->seen_ns = now_ns;
	ahead = modulo(r, h->sequence - r->top);
	if (ahead >= half) { /* it begins with what is older than the newest */
		old = half - (ahead - half);
		if (old > n)
			old = n;
		taken = old_reports(l, r, h->sequence, old, fresh);
		ahead = 0;
	}
	if (old < n) {
		uint32_t m = n - old, window = window_of(l, r), from;

		if (ahead)
			skip(l, r, ahead, now_ns);
		from = r->top;
		slide(l, r, m);
		map_range(r, window, from, m, true);
		mark(fresh, old, m);
		r->s.expected += m;
		r->s.arrived += m;
		taken += m;
	}
	if (taken) {
		r->key.address = key->address;
		r->key.port = key->port;
	}
	if (h->flags & DTA_ACK_WANTED) {
		r->acknowledge = true;
		want(l, r);
	}
	return (int)taken;
}

/* ---- answers ---- */

/* How many reports from this one on, but no more than limit, are all there, or all not. */
static uint32_t run(const struct dta_loss *l, const struct dta_loss_reporter *r, uint32_t sequence,
		    uint32_t limit, bool there)
{
	uint32_t window = window_of(l, r), n = 0;

	while (n < limit) {
		uint32_t bit = (sequence + n) & (window - 1), in = bit % 64, most = 64 - in, same;
		uint64_t w = r->map[bit / 64] >> in;

		w = there ? ~w : w;
		same = w ? (uint32_t)__builtin_ctzll(w) : 64;
		if (same < most)
			return n + same < limit ? n + same : limit;
		n += most;
	}
	return limit;
}

/* The first report that may still be taken, whether or not it was given up. */
static uint32_t first_absent(const struct dta_loss *l, const struct dta_loss_reporter *r)
{
	uint32_t far = r->joined ? window_of(l, r) : r->reach, oldest = modulo(r, r->top - far);

	if (!r->gaps && !r->s.lost && !r->joined)
		return r->top;
	return modulo(r, oldest + run(l, r, oldest, far, true));
}

static void answer(const struct dta_loss *l, const struct dta_loss_reporter *r, uint8_t type,
		   struct dta_answer *a)
{
	*a = (struct dta_answer){
		.type = type,
		.reporter = r->key.reporter,
		.incarnation = r->incarnation,
		.next = first_absent(l, r),
		.credits = ~0u,
	};
}

static bool nack(struct dta_loss *l, struct dta_loss_reporter *r, uint64_t now_ns,
		 struct dta_answer *a)
{
	uint32_t keep = 0;

	for (uint32_t i = 0; i < r->gaps; i++) { /* those that were named often enough */
		struct gap *g = &r->gap[i];

		if (g->named >= l->o.nacks && g->due_ns <= now_ns)
			give_up(r, g->count);
		else
			r->gap[keep++] = *g;
	}
	r->gaps = keep;
	r->due_ns = UINT64_MAX;
	answer(l, r, DTA_NACK, a);
	for (uint32_t i = 0; i < r->gaps; i++) {
		struct gap *g = &r->gap[i];

		if (g->due_ns <= now_ns && a->ranges < DTA_RANGES_MAX) {
			a->range[a->ranges].first = g->first;
			a->range[a->ranges++].count = g->count;
			g->named++;
			g->due_ns = now_ns + (l->o.nack_ns << g->named);
			r->s.nacks++;
		}
		if (g->due_ns < r->due_ns)
			r->due_ns = g->due_ns;
	}
	return a->ranges;
}

/* What arrived behind the first that did not. */
static void ranges_behind(const struct dta_loss *l, const struct dta_loss_reporter *r,
			  struct dta_answer *a)
{
	uint32_t at = a->next, left;

	while ((left = modulo(r, r->top - at)) && a->ranges < DTA_RANGES_MAX) {
		uint32_t absent = run(l, r, at, left, false);

		at = modulo(r, at + absent);
		left -= absent;
		if (!left)
			break;
		a->range[a->ranges].first = at;
		a->range[a->ranges].count = run(l, r, at, left, true);
		at = modulo(r, at + a->range[a->ranges++].count);
	}
}

/* One pass over those that want something, from call to call: a flood of them costs no more. */
bool dta_loss_answer(struct dta_loss *l, uint64_t now_ns, struct dta_loss_key *to,
		     struct dta_answer *a)
{
	struct dta_loss_reporter *r = l->cursor ? l->cursor : l->wanting, *next;

	for (; r; r = next) {
		next = r->next;
		*to = r->key;
		l->cursor = r;
		if (r->gaps && r->due_ns <= now_ns && nack(l, r, now_ns, a))
			return true;
		if (r->acknowledge) {
			answer(l, r, DTA_ACK, a);
			ranges_behind(l, r, a);
			r->acknowledge = false;
			return true;
		}
		if (!r->gaps)
			want_no_more(l, r);
	}
	l->cursor = NULL;
	return false;
}

void dta_loss_total(const struct dta_loss *l, struct dta_loss_stats *out)
{
	*out = l->gone;
	out->reporters = l->reporters;
	for (const struct dta_loss_reporter *r = l->oldest; r; r = r->younger)
		add(out, &r->s);
}

void dta_loss_each(const struct dta_loss *l,
		   void (*each)(void *arg, const struct dta_loss_key *key,
				const struct dta_loss_stats *s),
		   void *arg)
{
	for (const struct dta_loss_reporter *r = l->oldest; r; r = r->younger)
		each(arg, &r->key, &r->s);
}
