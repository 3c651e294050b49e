// SPDX-License-Identifier: Apache-2.0
/*
 * replicas.c - combines the answers of collectors that store the same keys. A collector knows from
 * the translators when it was unavailable; its answer may then be missing or outdated. Answers of a
 * collector without outages take precedence, then any existing answer.
 */

#include "cli/common/common.h"
#include "cli/query/query.h"

/*
 * Returns true if other collectors received reports during an outage of this member, and the member
 * has not caught up.
 */
static bool had_gap(const struct cli_query_collectors *c, uint32_t member)
{
	const json_t *gap;
	size_t i;

	json_array_foreach(c->member[member].gaps, i, gap)
	{
		if (cli_json_integer(gap, "reports") && !cli_json_true(gap, "filled"))
			return true;
	}
	return false;
}

static bool same_value(const json_t *a, const json_t *b)
{
	const json_t *x = json_object_get(a, "value"), *y = json_object_get(b, "value");

	if (cli_json_is(a, "kind", "append"))
		return false; /* each collector has its own lanes */
	if (!x && !y) {
		x = json_object_get(a, "path");
		y = json_object_get(b, "path");
	}
	return x && y && json_equal(x, y);
}

static int rank_answer(const struct cli_query_collectors *c, uint32_t member, const json_t *a)
{
	return 2 * cli_query_weight(a) + !had_gap(c, member);
}

/* Returns true if a has the greater count: after an outage, counters and sketches are too low. */
static bool has_greater(const json_t *a, const json_t *than)
{
	const char *key = cli_json_is(a, "kind", "sketch") ? "reporters" : "value";

	if (!cli_json_is(a, "kind", "increment") && !cli_json_is(a, "kind", "sketch"))
		return false;
	return cli_json_is(a, "result", "found") && cli_json_is(than, "result", "found") &&
	       cli_json_integer(a, key) > cli_json_integer(than, key);
}

json_t *cli_query_choose_answer(const struct cli_query_collectors *c, json_t *const *got, size_t i,
				const char *key)
{
	json_t *best = NULL, *missing = json_array(), *differ = json_array(), *a;
	uint32_t asked[DTA_HASH_RING_MEMBERS_MAX], turns = cli_query_order_of(c, key, asked);
	uint32_t of = 0, agree = 0, n = 0;

	for (uint32_t k = 0; k < turns; k++) {
		a = json_array_get(got[asked[k]], i);
		if (a && (!best || has_greater(a, best) ||
			  (rank_answer(c, asked[k], a) > rank_answer(c, of, best) &&
			   !has_greater(best, a)))) {
			best = a;
			of = asked[k];
		}
	}
	for (uint32_t k = 0; best && k < turns && n < c->replicas; k++) {
		a = json_array_get(got[asked[k]], i);
		if (!a)
			continue;
		n++;
		if (same_value(a, best) || a == best)
			agree++;
		else if (cli_json_is(a, "result", "found"))
			json_array_append_new(differ, json_string(c->member[asked[k]].at));
		else
			json_array_append_new(missing, json_string(c->member[asked[k]].at));
	}
	if (best) {
		best = json_copy(best);
		json_object_set_new(best, "collector", json_string(c->member[of].at));
		json_object_set_new(best, "replicas",
				    json_pack("{s:i,s:i,s:i,s:O,s:O,s:b}", "wanted",
					      (int)c->replicas, "asked", (int)n, "agree",
					      (int)agree, "missing", missing, "differ", differ,
					      "may_be_old", (int)had_gap(c, of)));
		if (had_gap(c, of))
			json_object_set(best, "gaps", c->member[of].gaps);
	}
	json_decref(missing);
	json_decref(differ);
	return best;
}
