// SPDX-License-Identifier: Apache-2.0
/*
 * loss.c - a table of reporters, each with its newest sequence number, a bitmap of the window
 * behind that number, and a sorted list of gaps. A report in the window has arrived (its bit is
 * set) or is missing (it is in a gap). If neither is true, it is lost or was never expected.
 */
#include "dta/translate/loss_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/share.h"
#include "dta/engine/output.h"
#include "dta/store/hash.h"

#define INCARNATIONS_MAX 4u /* maximum number of incarnations with a window per reporter number */
/* time during which packets of an earlier incarnation may still arrive */
#define STRAGGLE_NS 1000000000ull
#define FAR_NS	    5000000000ull /* maximum time between two packets that confirm a jump */
/* maximum number of reports between the two packets that confirm a jump */
#define FAR_MAX (1u << 22)

/* ---- shares ---- */

static struct dta_loss_table *table_of(struct dta_loss *l, const struct dta_loss_reporter *r)
{
	return &l->table[r->authenticated];
}

/* Adds a reporter to the key's group. Returns NULL if the group has used up its share. */
static struct dta_loss_group *join_group(struct dta_loss *l, const struct dta_loss_key *key,
					 bool authenticated)
{
	struct dta_loss_table *t = &l->table[authenticated];
	struct in6_addr id = authenticated ? (struct in6_addr){.s6_addr16 = {key->tenant}}
					   : key->address;
	struct dta_loss_group *g;
	uint64_t hash;
	const struct base_share share = {.capacity = l->o.reporters,
					 .used = t->reporters,
					 .reserve = l->o.reporters / BASE_SHARE_RESERVE};

	if (!authenticated && !IN6_IS_ADDR_V4MAPPED(&id))
		memset(id.s6_addr + 8, 0, 8);
	hash = XXH3_64bits_withSeed(&id, sizeof(id), l->seed);
	g = base_table_first(&t->groups, hash);
	while (g && memcmp(&g->id, &id, sizeof(id)))
		g = base_table_next(g);
	if (!base_share_may(&share, g ? g->held : 0, 1, false))
		return NULL;
	if (!g) {
		g = calloc(1, sizeof(*g));
		if (!g)
			return NULL;
		g->id = id;
		base_table_add(&t->groups, g, hash);
	}
	g->held++;
	t->reporters++;
	return g;
}

static void leave_group(struct dta_loss_table *t, struct dta_loss_group *group)
{
	t->reporters--;
	if (--group->held)
		return;
	base_table_remove(&t->groups, group);
	free(group);
}

/* ---- open and close ---- */

struct dta_loss *dta_loss_new(const struct dta_loss_opts *opts)
{
	struct dta_loss *l = calloc(1, sizeof(*l));
	struct dta_loss_opts *o;

	if (!l)
		return NULL;
	o = &l->o;
	if (opts)
		*o = *opts;
	TAILQ_INIT(&l->table[0].ages);
	TAILQ_INIT(&l->table[1].ages);
	o->reporters = o->reporters ? o->reporters : 16384;
	o->window = o->window ? o->window : 4096;
	o->forget_ns = o->forget_ns ? o->forget_ns : 60000000000ull;
	o->nack_ns = o->nack_ns ? o->nack_ns : 2000000;
	o->nacks = o->nacks ? o->nacks : 5;
	if (o->window < 64 || o->window > 1u << 20 || o->window & (o->window - 1) ||
	    o->reporters > 1u << 24 || o->nacks > 32) {
		errno = EINVAL;
		goto fail;
	}
	if (!base_table_init(&l->by_number) || !base_table_init(&l->table[0].groups) ||
	    !base_table_init(&l->table[1].groups))
		goto fail;
	/* If an attacker knew the seed, it could choose colliding numbers. */
	l->seed = base_hash_u64((uintptr_t)l);
	return l;
fail:
	dta_loss_free(l);
	return NULL;
}

static void reporter_free(struct dta_loss_reporter *r)
{
	free(r->order);
	free(r->gap);
	free(r);
}

void dta_loss_free(struct dta_loss *l)
{
	if (!l)
		return;
	for (int i = 0; i < 2; i++) {
		for (struct dta_loss_reporter *r; (r = TAILQ_FIRST(&l->table[i].ages));) {
			TAILQ_REMOVE(&l->table[i].ages, r, age);
			leave_group(&l->table[i], r->group);
			reporter_free(r);
		}
		base_table_free(&l->table[i].groups);
	}
	base_table_free(&l->by_number);
	free(l);
}

/* ---- lists ---- */

static void note_heard(struct dta_loss *l, struct dta_loss_reporter *r, uint64_t now_ns)
{
	struct dta_loss_table *t = table_of(l, r);

	r->seen_ns = now_ns;
	if (!TAILQ_NEXT(r, age))
		return;
	TAILQ_REMOVE(&t->ages, r, age);
	TAILQ_INSERT_TAIL(&t->ages, r, age);
}

static void want_no_more(struct dta_loss *l, struct dta_loss_reporter *r)
{
	if (!r->wanting)
		return;
	if (l->cursor == r)
		l->cursor = LIST_NEXT(r, want);
	LIST_REMOVE(r, want);
	r->wanting = false;
}

/* ---- reporters ---- */

/*
 * Sets up the window of a new reporter for the first packet of its incarnation. Earlier reports
 * count as missing if they fit in the window. Otherwise they are assumed to have gone to another
 * translator; any that the reporter sends again are accepted.
 */
static void begin_incarnation(const struct dta_loss *l, struct dta_loss_reporter *r,
			      const struct dta_header *h)
{
	bool whole = r->bits == 32 && h->sequence <= l->o.window;

	r->incarnation = h->incarnation;
	r->top = whole ? 0 : dta_loss_modulo(r, h->sequence);
	r->joined = !whole && r->bits == 32;
	if (r->joined)
		dta_loss_hole(r);
}

struct dta_loss_identity dta_loss_identity(const struct dta_loss_key *key, bool authenticated)
{
	struct dta_loss_identity id = {.tenant = key->tenant | (authenticated ? 1u << 16 : 0),
				       .reporter = key->reporter};

	if (!authenticated)
		id.address = key->address;
	return id;
}

static uint64_t hash_of(const struct dta_loss *l, const struct dta_loss_identity *id)
{
	return XXH3_64bits_withSeed(id, sizeof(*id), l->seed);
}

/* Returns the first incarnation of id in the chain of the hash table that begins with r. */
static struct dta_loss_reporter *same_number(struct dta_loss_reporter *r,
					     const struct dta_loss_identity *id)
{
	while (r && memcmp(&r->id, id, sizeof(*id)))
		r = base_table_next(r);
	return r;
}

static struct dta_loss_reporter *first_of_number(const struct dta_loss *l,
						 const struct dta_loss_identity *id)
{
	return same_number(base_table_first(&l->by_number, hash_of(l, id)), id);
}

static struct dta_loss_reporter *next_of_number(const struct dta_loss_reporter *r)
{
	return same_number(base_table_next(r), &r->id);
}

static void remove_reporter(struct dta_loss *l, struct dta_loss_reporter *r)
{
	base_table_remove(&l->by_number, r);
	TAILQ_REMOVE(&table_of(l, r)->ages, r, age);
	want_no_more(l, r);
	dta_loss_give_up(r, r->s.missing);
	dta_loss_order_free(l, r);
	dta_add_counters(&l->gone, &r->s, sizeof(r->s));
	l->gone.forgotten++;
	leave_group(table_of(l, r), r->group);
	if (!first_of_number(l, &r->id)) {
		l->numbers--;
		/* While its last window is being replaced, a reporter stays with its worker. */
		if (l->o.forgotten &&
		    (!l->restarting || memcmp(l->restarting, &r->id, sizeof(r->id))))
			l->o.forgotten(l->o.arg, &r->key, r->authenticated);
	}
	reporter_free(r);
}

bool dta_loss_knows(const struct dta_loss *l, const struct dta_loss_key *key, bool authenticated)
{
	const struct dta_loss_identity id = dta_loss_identity(key, authenticated);

	return first_of_number(l, &id);
}

static struct dta_loss_reporter *add_reporter(struct dta_loss *l, const struct dta_loss_key *key,
					      const struct dta_loss_identity *id,
					      const struct dta_header *h, uint32_t bits,
					      uint64_t now_ns)
{
	const bool authenticated = h->flags & DTA_AUTHENTICATED;
	struct dta_loss_table *t = &l->table[authenticated];
	struct dta_loss_group *group = join_group(l, key, authenticated);
	struct dta_loss_reporter *r;

	/* Remove silent reporters to free a share, regardless of their group. */
	while (!group && (r = TAILQ_FIRST(&t->ages)) && now_ns - r->seen_ns >= l->o.forget_ns) {
		remove_reporter(l, r);
		group = join_group(l, key, authenticated);
	}
	if (!group)
		return NULL;
	r = calloc(1, sizeof(*r) + l->o.window / 8);
	if (!r) {
		leave_group(t, group);
		return NULL;
	}
	r->key = *key;
	r->id = *id;
	r->group = group;
	r->bits = (uint8_t)bits;
	r->seen_ns = now_ns;
	r->authenticated = authenticated;
	r->since_ns = r->listed_ns = now_ns;
	r->birth = ++l->births;
	r->news_ns = now_ns;
	base_table_add(&l->by_number, r, hash_of(l, id));
	TAILQ_INSERT_TAIL(&t->ages, r, age);
	begin_incarnation(l, r, h);
	return r;
}

/*
 * Whether a is replaced before b. Live incarnations are replaced last. Among the others, the one
 * that has been silent longest is replaced if its silence is long enough, otherwise the youngest,
 * so that many simultaneous new incarnations replace each other and not the original.
 */
static bool goes_before(const struct dta_loss_reporter *a, const struct dta_loss_reporter *b,
			uint64_t now_ns)
{
	if (a->lives != b->lives)
		return b->lives;
	if (now_ns - a->seen_ns >= STRAGGLE_NS || now_ns - b->seen_ns >= STRAGGLE_NS)
		return a->seen_ns < b->seen_ns;
	return a->birth > b->birth;
}

/* Returns the incarnation of this number to be replaced, or NULL if the number has none. */
static struct dta_loss_reporter *to_replace(const struct dta_loss *l,
					    const struct dta_loss_identity *id, uint64_t now_ns)
{
	struct dta_loss_reporter *old = NULL, *o;

	for (o = first_of_number(l, id); o; o = next_of_number(o))
		old = !old || goes_before(o, old, now_ns) ? o : old;
	return old;
}

/*
 * Adds a window for a new incarnation. Returns NULL if there is no room, or if the incarnation is
 * an old one, whose reports are late.
 */
static struct dta_loss_reporter *restart_reporter(struct dta_loss *l,
						  const struct dta_loss_key *key,
						  const struct dta_loss_identity *id,
						  const struct dta_header *h, uint32_t bits,
						  uint64_t now_ns, bool *late)
{
	const bool authenticated = h->flags & DTA_AUTHENTICATED;
	struct dta_loss_reporter *o, *old, *r;
	uint32_t others = 0;

	*late = false;
	for (o = first_of_number(l, id); o; o = next_of_number(o)) {
		/*
		 * Incarnations more than forget_ns apart can't be compared; auth.h checks their
		 * time instead.
		 */
		if (authenticated && now_ns - o->seen_ns < l->o.forget_ns &&
		    (int32_t)(h->incarnation - o->incarnation) < 0) {
			o->s.late += h->reports;
			*late = true;
			return NULL;
		}
		others++;
	}
	if (others == INCARNATIONS_MAX)
		remove_reporter(l, to_replace(l, id, now_ns));
	r = add_reporter(l, key, id, h, bits, now_ns);
	/* If no share is free, replace an incarnation of the same number. */
	old = !r && others < INCARNATIONS_MAX ? to_replace(l, id, now_ns) : NULL;
	if (old) {
		remove_reporter(l, old);
		r = add_reporter(l, key, id, h, bits, now_ns);
	}
	if (!r)
		return NULL;
	r->s.restarts += others > 0;
	others = 0;
	for (o = first_of_number(l, id); o; o = next_of_number(o)) {
		if (o == r)
			continue;
		others++;
		if (!o->contested)
			o->contested_ns = now_ns;
		o->contested = true;
		dta_loss_give_up(o, o->s.missing);
		o->gaps = 0;
	}
	l->numbers += !others;
	return r;
}

/* Whether a packet is a straggler from an incarnation that a later one has replaced. */
static bool is_straggler(struct dta_loss *l, struct dta_loss_reporter *r, uint64_t now_ns)
{
	if (!r->contested || r->lives)
		return false;
	/* Count from the first contest, so that further incarnations don't extend the time. */
	if (now_ns - r->contested_ns < STRAGGLE_NS)
		return true;
	r->lives = true;
	r->s.collisions++;
	if (l->o.collides)
		l->o.collides(l->o.arg, &r->key);
	return false;
}

static void reset_window(struct dta_loss *l, struct dta_loss_reporter *r)
{
	dta_loss_give_up(r, r->s.missing);
	r->gaps = 0;
	r->reach = 0;
	r->joined = r->bits == 32;
	r->acknowledge = false;
	memset(r->map, 0, l->o.window / 8);
	dta_loss_order_free(l, r); /* recorded reports may be lost */
	dta_loss_hole(r);	   /* reports that are sent again keep their order */
}

void dta_loss_reset(struct dta_loss *l)
{
	struct dta_loss_reporter *r;

	for (int i = 0; i < 2; i++)
		for (r = TAILQ_FIRST(&l->table[i].ages); r; r = TAILQ_NEXT(r, age))
			reset_window(l, r);
}

/* ---- packets ---- */

/* Records reports behind top, one by one. */
static uint32_t old_reports(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t sequence,
			    uint32_t n, uint64_t *fresh)
{
	uint32_t window = dta_loss_window_of(l, r), taken = 0, far = r->joined ? window : r->reach;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t at = dta_loss_modulo(r, sequence + i), bit = at & (window - 1);

		if (dta_loss_behind(r, at) > far) {
			r->s.late++;
		} else if (r->map[bit / 64] >> bit % 64 & 1) {
			r->s.duplicates++;
		} else {
			if (dta_loss_behind(r, at) > r->reach)
				/*
				 * older than the reports expected so far, so it becomes expected
				 * only now
				 */
				r->s.expected++;
			else
				dta_loss_fill(r, at);
			r->map[bit / 64] |= 1ull << bit % 64;
			r->s.arrived++;
			r->s.reordered++;
			fresh[i / 64] |= 1ull << i % 64;
			taken++;
		}
	}
	return taken;
}

/*
 * Records n reports starting at sequence, which is at or ahead of top. counted: they are already
 * included in arrived.
 */
static void new_reports(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t sequence,
			uint32_t n, bool counted, uint64_t now_ns)
{
	const uint32_t ahead = dta_loss_modulo(r, sequence - r->top), from = sequence;

	if (ahead)
		dta_loss_skip(l, r, ahead, now_ns);
	dta_loss_slide(l, r, n);
	dta_loss_map_range(r, dta_loss_window_of(l, r), from, n, true);
	r->s.expected += counted ? 0 : n;
	r->s.arrived += counted ? 0 : n;
}

enum loss_place { NEAR, FAR_TAKEN, FAR_LATE };

/*
 * Moves the window to a confirmed jump. The first packet after a jump forward was already accepted.
 */
static void follow_jump(struct dta_loss *l, struct dta_loss_reporter *r, bool forward,
			const struct dta_header *h, uint64_t now_ns)
{
	const struct dta_loss_far far = r->far;
	const uint32_t window = dta_loss_window_of(l, r);
	const bool before = (int32_t)(h->sequence - far.first) < 0;
	const uint32_t begin = before ? h->sequence : far.first;

	r->far.count = 0;
	if (!forward) {
		const uint64_t undo = far.given_up < r->s.lost ? far.given_up : r->s.lost;

		r->s.lost -= undo;
		r->s.expected -= undo;
		r->far.given_up = 0;
		r->top = begin;
		reset_window(l, r);
		return;
	}
	r->far.given_up = begin - r->top > window ? begin - r->top - window : 0;
	if (begin != r->top)
		dta_loss_skip(l, r, begin - r->top, now_ns);
	/* If this packet is before far.first and reaches it, it covers those reports itself. */
	if (!before || far.first - begin >= h->reports)
		new_reports(l, r, far.first, far.count, true, now_ns);
}

/*
 * Merges an accepted jump into the window if the window, which is about to advance to `end`, comes
 * near the jump.
 */
static void meet_jump(struct dta_loss *l, struct dta_loss_reporter *r, uint32_t end,
		      uint64_t now_ns)
{
	const int32_t ahead = (int32_t)(r->far.first - r->top);

	/* Reports before the jump that may still arrive must stay within the window. */
	if (ahead > 0 && (uint32_t)ahead + r->far.count > dta_loss_window_of(l, r) &&
	    (int32_t)(end - r->far.first) <= 0)
		return;
	if (ahead >= 0)
		new_reports(l, r, r->far.first, r->far.count, true, now_ns);
	r->far.count = 0;
}

/* Checks an unauthenticated packet for jumps, so that no single packet can move the window. */
static enum loss_place check_jump(struct dta_loss *l, struct dta_loss_reporter *r,
				  const struct dta_header *h, uint64_t now_ns)
{
	const uint32_t window = dta_loss_window_of(l, r), n = h->reports;
	const int32_t by = (int32_t)(h->sequence - r->top);
	const int32_t from = (int32_t)(h->sequence - r->far.first);
	const bool forward = by > (int32_t)window;
	const bool follows = (int32_t)(r->far.first - r->top) >= 0;

	if (!forward && by + (int64_t)n > -(int64_t)window) {
		r->news_ns = now_ns;
		if (r->far.count)
			meet_jump(l, r, h->sequence + n, now_ns);
		return NEAR;
	}
	if (r->far.count && now_ns - r->far.since_ns < FAR_NS) {
		if (from >= 0 && (uint32_t)from < r->far.count) { /* the same packet again */
			r->s.duplicates += forward ? n : 0;
			r->s.late += forward ? 0 : n;
			return FAR_LATE;
		}
		if (from > -(int32_t)window && from < (int32_t)FAR_MAX &&
		    (forward ? follows : now_ns - r->news_ns >= STRAGGLE_NS)) {
			follow_jump(l, r, forward, h, now_ns);
			r->news_ns = now_ns;
			return NEAR;
		}
	}
	r->far.first = h->sequence;
	r->far.count = n;
	r->far.since_ns = now_ns;
	r->s.jumps++;
	r->s.late += forward ? 0 : n;
	r->s.expected += forward ? n : 0;
	r->s.arrived += forward ? n : 0;
	return forward ? FAR_TAKEN : FAR_LATE;
}

static struct dta_loss_reporter *find_reporter(const struct dta_loss *l,
					       const struct dta_loss_identity *id,
					       const struct dta_header *h)
{
	struct dta_loss_reporter *r = first_of_number(l, id);

	while (r && r->incarnation != h->incarnation)
		r = next_of_number(r);
	return r;
}

static void want_answer(struct dta_loss *l, struct dta_loss_reporter *r, const struct dta_header *h)
{
	if (!(h->flags & DTA_ACK_WANTED))
		return;
	r->acknowledge = true;
	dta_loss_want(l, r);
}

void dta_loss_heartbeat(struct dta_loss *l, const struct dta_loss_key *key,
			const struct dta_header *h, uint64_t now_ns)
{
	const struct dta_loss_identity id = dta_loss_identity(key, h->flags & DTA_AUTHENTICATED);
	struct dta_loss_reporter *r = find_reporter(l, &id, h);
	int32_t ahead;

	if (!r || r->bits != 32 || is_straggler(l, r, now_ns))
		return;
	note_heard(l, r, now_ns);
	ahead = (int32_t)(h->sequence - r->top);
	if (ahead > (int32_t)dta_loss_window_of(l, r) && !r->authenticated) {
		r->s.jumps++;
		return;
	}
	if (ahead > 0 && r->far.count) {
		meet_jump(l, r, h->sequence, now_ns);
		ahead = (int32_t)(h->sequence - r->top);
	}
	if (ahead > 0)
		dta_loss_skip(l, r, (uint32_t)ahead, now_ns);
	want_answer(l, r, h);
}

int dta_loss_packet(struct dta_loss *l, const struct dta_loss_key *key, const struct dta_header *h,
		    uint32_t bits, uint64_t now_ns, uint64_t *fresh)
{
	uint32_t n = h->reports, half = bits == 8 ? 0x80 : 0x80000000u, ahead, old = 0, taken = 0;
	const bool authenticated = h->flags & DTA_AUTHENTICATED;
	const struct dta_loss_identity id = dta_loss_identity(key, authenticated);
	enum loss_place place = NEAR;
	struct dta_loss_reporter *r;
	bool late;

	if ((bits != 8 && bits != 32) || !n || n > DTA_REPORTS_MAX || (bits == 8 && n >= half))
		return -EINVAL;
	l->last = NULL;
	memset(fresh, 0, (n + 63) / 64 * sizeof(*fresh));
	r = find_reporter(l, &id, h);
	if (!r || r->bits != bits) {
		l->restarting = &id;
		if (r) /* the configuration changed */
			remove_reporter(l, r);
		r = restart_reporter(l, key, &id, h, bits, now_ns, &late);
		l->restarting = NULL;
		if (!r) {
			l->gone.refused += !late;
			return late ? 0 : -ENOSPC;
		}
	}
	note_heard(l, r, now_ns);
	if (is_straggler(l, r, now_ns)) {
		r->s.late += n;
		return 0;
	}
	if (!authenticated && bits == 32)
		place = check_jump(l, r, h, now_ns);
	if (place == FAR_TAKEN)
		dta_loss_set_bits(fresh, 0, n, true);
	if (place != NEAR) /* don't answer before the window has followed */
		return place == FAR_TAKEN ? (int)n : 0;
	ahead = dta_loss_modulo(r, h->sequence - r->top);
	if (ahead >= half) { /* the packet begins behind top */
		old = half - (ahead - half);
		if (old > n)
			old = n;
		taken = old_reports(l, r, h->sequence, old, fresh);
	}
	if (old < n) {
		new_reports(l, r, h->sequence + old, n - old, false, now_ns);
		dta_loss_set_bits(fresh, old, n - old, true);
		taken += n - old;
	}
	if (taken) {
		l->last = r;
		l->last_old = old;
		r->key.address = key->address;
		r->key.port = key->port;
		r->key.input = key->input;
	}
	/* A retransmission may use a newer key. A replayed packet must not redirect answers. */
	if (taken || (r->key.port == key->port &&
		      !memcmp(&r->key.address, &key->address, sizeof(key->address))))
		r->key.signer = key->signer;
	want_answer(l, r, h);
	return (int)taken;
}

/* ---- answers ---- */

/*
 * Returns the length, up to limit, of the run of reports starting at sequence that have all arrived
 * (if there is set) or are all absent.
 */
static uint32_t run_length(const struct dta_loss *l, const struct dta_loss_reporter *r,
			   uint32_t sequence, uint32_t limit, bool there)
{
	uint32_t window = dta_loss_window_of(l, r), n = 0;

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

/*
 * Returns the first report that has not arrived and is still acceptable, even if it was given up.
 */
static uint32_t first_absent(const struct dta_loss *l, const struct dta_loss_reporter *r)
{
	uint32_t far = r->joined ? dta_loss_window_of(l, r) : r->reach,
		 oldest = dta_loss_modulo(r, r->top - far);

	if (!r->gaps && !r->s.lost && !r->joined)
		return r->top;
	return dta_loss_modulo(r, oldest + run_length(l, r, oldest, far, true));
}

static void fill_answer(const struct dta_loss *l, const struct dta_loss_reporter *r, uint8_t type,
			struct dta_answer *a)
{
	*a = (struct dta_answer){
		.type = type,
		.reporter = r->key.reporter,
		.incarnation = r->incarnation,
		.next = first_absent(l, r),
		.credits = ~0u,
		.window = dta_loss_window_of(l, r),
	};
}

static bool fill_nack(struct dta_loss *l, struct dta_loss_reporter *r, uint64_t now_ns,
		      struct dta_answer *a)
{
	uint32_t keep = 0;

	for (uint32_t i = 0; i < r->gaps; i++) { /* give up gaps that were requested too often */
		struct dta_loss_gap *g = &r->gap[i];

		if (g->named >= l->o.nacks && g->due_ns <= now_ns)
			dta_loss_give_up(r, g->count);
		else
			r->gap[keep++] = *g;
	}
	r->gaps = keep;
	r->due_ns = UINT64_MAX;
	fill_answer(l, r, DTA_NACK, a);
	for (uint32_t i = 0; i < r->gaps; i++) {
		struct dta_loss_gap *g = &r->gap[i];

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

/* Lists the ranges after a->next that have arrived. */
static void ranges_behind(const struct dta_loss *l, const struct dta_loss_reporter *r,
			  struct dta_answer *a)
{
	uint32_t at = a->next, left;

	while ((left = dta_loss_modulo(r, r->top - at)) && a->ranges < DTA_RANGES_MAX) {
		uint32_t absent = run_length(l, r, at, left, false);

		at = dta_loss_modulo(r, at + absent);
		left -= absent;
		if (!left)
			break;
		a->range[a->ranges].first = at;
		a->range[a->ranges].count = run_length(l, r, at, left, true);
		at = dta_loss_modulo(r, at + a->range[a->ranges++].count);
	}
}

/*
 * Each call continues the same pass over pending reporters, which bounds the cost during a flood.
 */
bool dta_loss_answer(struct dta_loss *l, uint64_t now_ns, struct dta_loss_key *to,
		     struct dta_answer *a)
{
	struct dta_loss_reporter *r = l->cursor ? l->cursor : LIST_FIRST(&l->wanting), *next;

	for (; r; r = next) {
		next = LIST_NEXT(r, want);
		*to = r->key;
		to->authenticated = r->authenticated;
		l->cursor = r;
		if (r->gaps && r->due_ns <= now_ns && fill_nack(l, r, now_ns, a))
			return true;
		if (r->acknowledge) {
			fill_answer(l, r, DTA_ACK, a);
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
	const struct dta_loss_reporter *r;

	*out = l->gone;
	out->reporters = l->numbers;
	for (int i = 0; i < 2; i++)
		for (r = TAILQ_FIRST(&l->table[i].ages); r; r = TAILQ_NEXT(r, age))
			dta_add_counters(out, &r->s, sizeof(r->s));
}
