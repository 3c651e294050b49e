// SPDX-License-Identifier: Apache-2.0
/* series.c - exports the values of configured keys as series of the collector */
#include "dta/store_server/internal.h"

static enum sl_query_result look_up(const struct dta_held *held, const struct dta_series_spec *of,
				    uint64_t *value)
{
	const struct dta_query q = {
		.key = of->key, .key_bytes = of->key_bytes, .epoch = ~0ull, .no_error = true};
	struct sl_increment_answer count = {.result = SL_QUERY_UNKNOWN};
	struct sl_keywrite_answer a = {.result = SL_QUERY_UNKNOWN};

	*value = 0;
	if (held->view[0]->config->kind == SL_STORE_INCREMENT) {
		DTA_QUERY_OBJECTS(held, count, dta_view_increment(v, &q, &count));
		*value = count.value;
		return count.result;
	}
	DTA_QUERY_OBJECTS(held, a, dta_view_keywrite(v, &q, &a));
	for (uint32_t i = 0; a.result == SL_QUERY_FOUND && i < of->bytes; i++)
		*value = *value << 8 | a.value[of->at + i];
	return a.result;
}

json_t *dta_store_server_series(struct dta_store_server *o, const struct dta_server_store *s)
{
	struct dta_held held;
	json_t *all, *j;
	uint64_t value;

	if (!s->spec->series_count || !dta_store_server_hold(o, s->spec->name, &held))
		return NULL;
	all = json_array();
	for (size_t i = 0; held.count && i < s->spec->series_count; i++) {
		const struct dta_series_spec *of = &s->spec->series[i];
		const enum sl_query_result r = look_up(&held, of, &value);

		j = json_pack("{s:s,s:o,s:s}", "name", of->name, "key",
			      dta_query_hex(of->key, of->key_bytes), "result",
			      dta_query_result_name(r));
		if (j && r == SL_QUERY_FOUND)
			json_object_set_new(j, "value", dta_query_number(value));
		json_array_append_new(all, j);
	}
	dta_store_server_release(o, &held);
	return all;
}
