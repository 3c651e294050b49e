// SPDX-License-Identifier: Apache-2.0
/* heat.c - the observations of histograms over time, per bucket. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/internal.h"
#include "api/merge.h"
#include "base/base.h"

#define COLUMNS_DEFAULT 300
#define COLUMNS_MAX	1000
#define CELLS_MAX	4000000u

struct heat_query {
	struct collect_series_id ids[API_SERIES_MAX];
	struct api_shape shape[API_SERIES_MAX];
	int n;
	struct api_steps steps;

	struct api_shape *to; /* shape of the metric being read */
	int err;
	char unit[SL_NAME_MAX + 1];
};

static void note_shape(const struct region_metric *m, const uint64_t *value, void *arg)
{
	struct heat_query *h = arg;

	(void)value;
	h->err = region_is_histogram(m) ? api_shape_of(h->to, m) : -EINVAL;
	memcpy(h->unit, m->unit, BASE_MIN(strlen(m->unit), sizeof(h->unit) - 1) + 1);
}

/* Returns false after an error response. */
static bool find_shapes(struct http_request *req, struct heat_query *h, struct collect_collector *c)
{
	for (int i = 0; i < h->n; i++) {
		const struct collect_series_id id = h->ids[i];
		char text[COLLECT_SERIES_ID_BYTES];
		int err;

		h->to = &h->shape[i];
		err = collect_collector_metric(c, id.instance, id.metric, note_shape, h) ?: h->err;
		collect_series_id_format(id, text);
		if (err == -ENOENT)
			http_reply_error(req, 404, "no such series: %s", text);
		else if (err == -EINVAL)
			http_reply_error(req, 400, "series=%s: not a histogram", text);
		else if (err)
			http_reply_error(req, 503, "out of memory");
		else
			continue;
		return false;
	}
	return true;
}

/* Writes bounds and columns of the buckets, from the first to the last non-empty bucket. */
static void put_cells(struct base_json *j, const struct heat_query *h,
		      const struct api_shape *merged, const uint64_t *count)
{
	const size_t width = merged->buckets;
	size_t first = width, last = 0;

	for (size_t i = 0; i < h->steps.n * width; i++)
		if (count[i]) {
			first = BASE_MIN(first, i % width);
			last = BASE_MAX(last, i % width);
		}
	base_put(j, KV_FINITE("low", first < width ? api_shape_low(merged, (uint32_t)first) : NAN));
	base_json_kbegin(j, "bounds", '[');
	for (size_t i = first; i <= last && first < width; i++)
		base_json_f64(j, api_shape_high(merged, (uint32_t)i));
	base_json_end(j, ']');
	base_json_kbegin(j, "columns", '[');
	for (size_t step = 0; step < h->steps.n && !j->overflow; step++) {
		base_json_begin(j, '[');
		base_json_time(j, api_step_ns(&h->steps, step));
		base_json_begin(j, '[');
		for (size_t i = first; i <= last && first < width; i++)
			base_json_u64(j, count[step * width + i]);
		base_json_end(j, ']');
		base_json_end(j, ']');
	}
	base_json_end(j, ']');
}

static void answer_heat(struct http_request *req, const struct heat_query *h,
			struct collect_collector *c, const struct api_shape *merged)
{
	uint64_t *count = calloc(h->steps.n * merged->buckets, sizeof(*count));
	const uint64_t begun_ns = base_now_ns();
	struct base_json *j = NULL;
	bool kept = false, late = false;

	if (!count) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	for (int i = 0; i < h->n && !late; i++) {
		const struct collect_series_ref of = {.instance = h->ids[i].instance,
						      .metric = h->ids[i].metric};

		kept |= api_shape_observed(c, &of, &h->steps, merged, &h->shape[i], count,
					   http_budget(req));
		late = api_is_late(begun_ns);
	}
	if (late)
		http_reply_error(
			req, 503,
			"the request takes too long: select fewer series or a shorter time range");
	else
		j = api_answer_begin(req);
	if (j) {
		base_put(j, KV("unit", h->unit), KV_BOOL("exponential", merged->exponential),
			 KV_BOOL("kept", kept), KV("series", (uint32_t)h->n),
			 KV("step_seconds", (double)h->steps.width_ns * 1e-9));
		put_cells(j, h, merged, count);
		api_answer_end(req, j);
	}
	free(count);
}

void api_get_heat(struct http_request *req, void *arg)
{
	const struct api_shape *of[API_SERIES_MAX];
	struct heat_query h = {.n = 0};
	struct api_shape merged;
	struct api_range range;
	uint64_t columns = COLUMNS_DEFAULT;
	const char *why;
	int err;

	h.n = api_param_series(req, h.ids, true);
	if (h.n < 0 || !api_param_u64(req, "columns", 1, COLUMNS_MAX, &columns) ||
	    !api_param_range(req, 60000000000ull, &range))
		return;
	h.steps = api_steps(&range, columns, API_OBSERVED_NS);
	if (!h.steps.n) {
		http_reply_error(req, 400,
				 "the time range is shorter than one step, which is at least 1 s");
		return;
	}
	if (find_shapes(req, &h, arg)) {
		for (int i = 0; i < h.n; i++)
			of[i] = &h.shape[i];
		err = api_shape_merge(&merged, of, (size_t)h.n, &why);
		if (err == -EDOM)
			http_reply_error(req, 400, "%s", why);
		else if (err)
			http_reply_error(req, 503, "out of memory");
		else if (h.steps.n * merged.buckets > CELLS_MAX)
			http_reply_error(req, 400, "more than %u cells: request fewer columns",
					 CELLS_MAX);
		else
			answer_heat(req, &h, arg, &merged);
		if (!err)
			api_shape_free(&merged);
	}
	for (int i = 0; i < h.n; i++)
		api_shape_free(&h.shape[i]);
}
