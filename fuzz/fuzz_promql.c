// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_promql.c - queries of a client: what is read must be an expression that can be evaluated,
 * and matchers, regular expressions among them, must end on any label. Expressions without a
 * selector are evaluated.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/promql.h"
#include "base/base.h"
#include "base/budget.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* Returns true if an expression needs no history. */
static bool check_nodes(struct api_promql *q, const struct collect_series_view *v)
{
	bool is_closed = true;

	for (struct api_promql_node *n = q->nodes; n; n = n->next) {
		if (n->kind == API_PROMQL_SELECTOR) {
			must(n->matchers.n && n->range_ns >= 0);
			must((n->type == API_PROMQL_MATRIX) == (n->range_ns > 0));
			api_matchers_name(&n->matchers, "x_total");
			api_matchers_labels(&n->matchers, v);
			is_closed = false;
		}
		must(n->kind != API_PROMQL_STRING || n->text);
		must(n->kind != API_PROMQL_SUBQUERY || n->range_ns > 0);
		for (size_t i = 0; i < n->args; i++)
			must(n->arg[i]);
	}
	return is_closed;
}

static void evaluate_query(const struct api_promql *q)
{
	const struct api_promql_steps steps = {1000000000, 3000000000, 1000000000, 3};
	struct base_budget budget = {.end_ns = base_now_ns() + 1000000000u, .samples = 100000};
	struct api_promql_result r = {.n = 0};
	char error[256];
	int err = api_promql_evaluate(q, NULL, &steps, &budget, &r, error, sizeof(error));

	must(err || q->root->type != API_PROMQL_SCALAR || r.n == 1);
	api_promql_result_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const keys[] = {"pod", "service", "long"};
	char *text = malloc(bytes + 1), error[256] = "x", *values[3];
	struct api_promql q = {.n = 0};
	struct collect_series_view v = {.keys = keys, .labels = 3};
	int err;

	must(text);
	memcpy(text, data, bytes);
	text[bytes] = 0;
	values[0] = "shop-1";
	values[1] = text;
	values[2] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
	v.values = (const char *const *)values;
	err = api_promql_parse(&q, text, error, sizeof(error));
	must(!err == !*error);
	if (!err && check_nodes(&q, &v) &&
	    (q.root->type == API_PROMQL_SCALAR || q.root->type == API_PROMQL_VECTOR))
		evaluate_query(&q);
	api_promql_free(&q);
	free(text);
	return 0;
}
