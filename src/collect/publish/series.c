// SPDX-License-Identifier: Apache-2.0
/*
 * series.c - one pass over the exposition: decides for each new series whether and as what it is
 * published, and adds up sums.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/hash.h"
#include "base/relaxed.h"
#include "collect/publish/internal.h"
#include "collect/read/collector_internal.h"

/*
 * A series that is not exposed may come back, for example when its host is reachable again. A sum
 * of counters remembers its value, so that it counts only once, for this time at least, and for
 * longer while it remembers no more series than this.
 */
#define FORGET_NS  3600000000000ull
#define REMEMBERED 65536u

/* A series of a family that a rule names. A keyed 64-bit hash identifies it. */
struct publish_series {
	struct base_node node;
	uint64_t pass, seen_ns; /* the last pass that saw it */
	struct collect_publish_target *to;
	enum collect_publish_cause cause;
	bool second;	 /* another rule selects it as well */
	bool ended;	 /* remembered: counted in collect_publish.ended */
	uint64_t last[]; /* last value, of a series in a sum of counters or histograms */
};

static bool keeps_ended(const struct collect_publish_target *t)
{
	return t && t->sum && t->kind <= COLLECT_PUBLISH_HISTOGRAM;
}

/* ---- values ---- */

/* Takes the value of the series at hand. Returns false if its type cannot be published. */
static bool take_value(struct collect_publish *p)
{
	const struct export_series *s = p->from;
	const enum export_family_type type = p->family->type;
	const bool f64 = s->value_type == EXPORT_VALUE_F64;

	p->words = 1;
	if (type == EXPORT_FAMILY_HISTOGRAM && !s->exponential) {
		p->kind = COLLECT_PUBLISH_HISTOGRAM;
		p->words += s->bucket_count;
	} else if (type == EXPORT_FAMILY_COUNTER || type == EXPORT_FAMILY_BARE_COUNTER) {
		p->kind = f64 ? COLLECT_PUBLISH_COUNTER_F64 : COLLECT_PUBLISH_COUNTER;
	} else if (type == EXPORT_FAMILY_GAUGE) {
		p->kind = f64 ? COLLECT_PUBLISH_GAUGE_F64 : COLLECT_PUBLISH_GAUGE;
	} else {
		return false;
	}
	if (!base_grow(&p->word, &p->word_room, p->words, sizeof(*p->word)))
		return false;
	p->word[0] = s->value.u64; /* or the bits of another type */
	if (p->kind == COLLECT_PUBLISH_HISTOGRAM) {
		p->word[0] = region_f64_bits(s->sum);
		memcpy(p->word + 1, s->buckets, s->bucket_count * sizeof(*p->word));
	}
	/* Sums keep the values of series that have ended: with NaN, a sum would stay NaN. */
	return p->kind == COLLECT_PUBLISH_GAUGE_F64 || !collect_publish_is_f64(p->kind, 0) ||
	       isfinite(region_f64(p->word[0]));
}

static void add_words(enum collect_publish_kind kind, uint64_t *to, const uint64_t *from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		to[i] = collect_publish_is_f64(kind, i)
				? region_f64_bits(region_f64(to[i]) + region_f64(from[i]))
				: to[i] + from[i];
}

static void add_to(const struct collect_publish *p, struct collect_publish_target *t,
		   const uint64_t *word)
{
	if (t->pass != p->pass)
		memcpy(t->value, t->ended, t->words * sizeof(*t->value));
	t->pass = p->pass;
	add_words(t->kind, t->value, word, t->words);
}

/* Returns true if a counter is smaller than before: it began anew. */
static bool has_fallen(const struct collect_publish *p, const uint64_t *last)
{
	for (size_t i = p->kind == COLLECT_PUBLISH_HISTOGRAM; i < p->words; i++)
		if (collect_publish_is_f64(p->kind, i)
			    ? region_f64(p->word[i]) < region_f64(last[i])
			    : p->word[i] < last[i])
			return true;
	return false;
}

static void add_series(const struct collect_publish *p, struct publish_series *e)
{
	struct collect_publish_target *t = e->to;

	add_to(p, t, p->word);
	if (!keeps_ended(t))
		return;
	if (has_fallen(p, e->last)) {
		add_to(p, t, e->last);
		add_words(t->kind, t->ended, e->last, t->words);
	}
	memcpy(e->last, p->word, p->words * sizeof(*e->last));
}

/* ---- rules ---- */

static bool has_label(const struct sl_label *labels, size_t n, const char *key)
{
	while (n && strcmp(labels[n - 1].key, key))
		n--;
	return n;
}

/* Makes the labels of a sum. Returns their number. */
static size_t labels_of_sum(const struct collect_publish *p,
			    const struct collect_publish_rule *rule, struct sl_label *out)
{
	const struct export_series *s = p->from;
	size_t n = 0;

	for (size_t i = 0; i < rule->by_count; i++)
		for (size_t k = 0; k < s->label_count; k++)
			if (!strcmp(rule->by[i], s->label_keys[k]) &&
			    !has_label(out, n, rule->by[i]))
				out[n++] = (struct sl_label){s->label_keys[k], s->label_values[k]};
	if (!has_label(out, n, "collector"))
		out[n++] = (struct sl_label){"collector", p->host};
	if (!has_label(out, n, "process"))
		out[n++] = (struct sl_label){"process", p->pid};
	return n;
}

/* Finds or makes the target of the series at hand. Returns a cause if it cannot belong to one. */
static enum collect_publish_cause find_target(struct collect_publish *p,
					      const struct collect_publish_rule *rule,
					      struct collect_publish_target **out)
{
	const struct export_series *s = p->from;
	struct sl_label labels[SL_LABELS_MAX + 2];
	uint64_t hash = base_hash_text(0, p->name);
	struct collect_publish_target *t;
	size_t n = rule->sum ? labels_of_sum(p, rule, labels) : s->label_count;

	if (n > SL_LABELS_MAX)
		return COLLECT_PUBLISH_LABELS;
	for (size_t i = 0; i < n; i++) {
		if (!rule->sum)
			labels[i] = (struct sl_label){s->label_keys[i], s->label_values[i]};
		hash = base_hash_text(base_hash_text(hash, labels[i].key), labels[i].value);
	}
	t = base_table_first(&p->targets, hash);
	if (t && (!t->sum || !rule->sum || t->kind != p->kind || t->words != p->words ||
		  (p->kind == COLLECT_PUBLISH_HISTOGRAM &&
		   memcmp(t->bounds, s->bounds, (p->words - 2) * sizeof(double)))))
		return COLLECT_PUBLISH_TYPE;
	if (!t) {
		t = collect_publish_target_new(p, labels, n);
		if (!t)
			return COLLECT_PUBLISH_ROOM;
		t->sum = rule->sum;
		t->created_ns = s->created_known ? s->created_ns : 0;
		base_table_add(&p->targets, t, hash);
	}
	t->refs++;
	*out = t;
	return COLLECT_PUBLISH_NONE;
}

static void say_left_out(struct collect_publish *p, enum collect_publish_cause cause,
			 const char *name)
{
	static const char *const names[] = {"",	     "selector", "type", "labels",
					    "regex", "own",	 "room"};

	if (cause && !p->logged[cause])
		base_logf(BASE_WARN, "publish",
			  "a selected series is not published cause=%s name=%s; further ones are "
			  "counted in sidelight_publish_left_out",
			  names[cause], name);
	p->logged[cause] = true;
}

/* Decides what becomes of the series at hand, a new one. Returns NULL if out of memory. */
static struct publish_series *decide(struct collect_publish *p, uint64_t hash, bool good)
{
	const struct collect_series_view view = {.name = p->name,
						 .keys = p->from->label_keys,
						 .values = p->from->label_values,
						 .labels = (uint32_t)p->from->label_count};
	enum collect_publish_cause cause = COLLECT_PUBLISH_NONE;
	const struct collect_publish_rule *first = NULL;
	struct collect_publish_target *to = NULL;
	struct publish_series *e;
	bool second = false;

	for (size_t i = 0; i < p->o.rule_count; i++) {
		const struct collect_publish_rule *rule = &p->o.rules[i];
		int selects = p->mask >> i & 1 ? rule->labels(rule->arg, &view) : 0;

		if (selects < 0)
			cause = COLLECT_PUBLISH_REGEX;
		second |= selects > 0 && first;
		if (selects > 0 && !first)
			first = rule;
	}
	if (first)
		cause = collect_self_has(p->c, p->name) ? COLLECT_PUBLISH_OWN
			: good				? find_target(p, first, &to)
							: COLLECT_PUBLISH_TYPE;
	e = calloc(1, sizeof(*e) + (keeps_ended(to) ? to->words * sizeof(*e->last) : 0));
	if (!e) {
		if (to)
			to->refs--;
		return NULL;
	}
	e->to = to;
	e->cause = cause;
	e->second = second;
	say_left_out(p, cause, p->name);
	if (second)
		say_left_out(p, COLLECT_PUBLISH_SELECTOR, p->name);
	base_table_add(&p->series, e, hash);
	return e;
}

static int take_series(struct collect_publish *p, uint64_t family_hash)
{
	uint64_t hash = base_hash(family_hash, p->from->label_text, p->from->label_bytes);
	struct publish_series *e = base_table_first(&p->series, hash);
	bool good = take_value(p);

	if (!e)
		e = decide(p, hash, good);
	if (!e)
		return -ENOMEM;
	e->pass = p->pass;
	e->seen_ns = p->now_ns;
	p->ended -= e->ended;
	e->ended = false;
	if (!e->to)
		return 0;
	/* The same labels may come back with another type. */
	good = good && e->to->kind == p->kind && e->to->words == p->words;
	e->cause = good ? COLLECT_PUBLISH_NONE : COLLECT_PUBLISH_TYPE;
	if (good)
		add_series(p, e);
	return 0;
}

static int walk_series(struct collect_publish *p, const struct export_source *source, void *walk)
{
	struct export_family f;
	struct export_series s;
	int more, err;

	p->family = &f;
	p->from = &s;
	while ((more = source->next_family(walk, &f)) > 0) {
		uint64_t hash = base_hash_text(f.type, f.name);

		snprintf(p->name, sizeof(p->name), "%s%s", f.name,
			 f.type == EXPORT_FAMILY_COUNTER ? "_total" : "");
		p->mask = 0;
		for (size_t i = 0; i < p->o.rule_count; i++)
			p->mask |= (uint32_t)p->o.rules[i].name(p->o.rules[i].arg, p->name) << i;
		/* The walk does not clear what a series of this type does not use. */
		s = (struct export_series){.label_text = ""};
		while (p->mask && (more = source->next_series(walk, &s)) > 0) {
			err = take_series(p, hash);
			if (err)
				return err;
		}
		if (more < 0)
			break;
	}
	return more;
}

/* ---- after the walk ---- */

static void end_series(struct collect_publish *p, struct publish_series *e)
{
	struct collect_publish_target *t = e->to;

	if (keeps_ended(t)) {
		if (t->pass == p->pass)
			add_to(p, t, e->last);
		p->ended += !e->ended;
		e->ended = true;
		if (p->now_ns - e->seen_ns < FORGET_NS || p->ended <= REMEMBERED)
			return;
		p->ended--;
		add_words(t->kind, t->ended, e->last, t->words);
	}
	if (t)
		t->refs--;
	base_table_remove(&p->series, e);
	free(e);
}

static void settle_target(struct collect_publish *p, struct collect_publish_target *t,
			  uint64_t left_out[COLLECT_PUBLISH_CAUSES], uint64_t *published)
{
	if (t->pass == p->pass) {
		bool set = collect_publish_target_set(p, t);

		*published += set;
		left_out[COLLECT_PUBLISH_ROOM] += !set;
		if (!set)
			say_left_out(p, COLLECT_PUBLISH_ROOM, t->name);
		return;
	}
	collect_publish_target_remove(p, t);
	if (t->refs)
		return;
	base_table_remove(&p->targets, t);
	free(t);
}

int collect_publish_pass(struct collect_publish *p)
{
	const struct export_source source = collect_collector_source(p->c);
	uint64_t left_out[COLLECT_PUBLISH_CAUSES] = {0}, published = 0;
	void *walk = source.begin(source.ctx);
	int err;

	if (!walk)
		return -errno;
	p->pass++;
	p->now_ns = base_now_ns();
	err = walk_series(p, &source, walk);
	source.end(walk);
	if (err)
		return err; /* a series that this pass did not reach has not ended */
	BASE_TABLE_EACH(&p->series, at) {
		struct publish_series *e = (struct publish_series *)at;

		left_out[COLLECT_PUBLISH_SELECTOR] += e->pass == p->pass && e->second;
		if (e->pass == p->pass)
			left_out[e->cause]++;
		else
			end_series(p, e);
	}
	BASE_TABLE_EACH(&p->targets, at)
		settle_target(p, (struct collect_publish_target *)at, left_out, &published);
	if (!sl_publisher_attached(p->publisher))
		left_out[COLLECT_PUBLISH_AGENT] = published;
	for (int i = COLLECT_PUBLISH_SELECTOR; i < COLLECT_PUBLISH_CAUSES; i++)
		relaxed_store(p->left_out[i], left_out[i]);
	relaxed_store(p->published, published);
	return 0;
}

void collect_publish_forget(struct collect_publish *p)
{
	BASE_TABLE_EACH(&p->series, at)
		free(at);
	BASE_TABLE_EACH(&p->targets, at)
		free(at);
	base_table_free(&p->series);
	base_table_free(&p->targets);
	free(p->word);
}
