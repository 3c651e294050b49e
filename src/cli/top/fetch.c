// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/top/top.h"

#define TIMEOUT_MS 3000l

const char *const cli_top_orders[] = {"attention", "name",   "rate",  "errors",	     "latency",
				      "cpu",	   "memory", "bytes", "retransmits", NULL};

const json_t *cli_top_at(const json_t *o, const char *object, const char *key)
{
	const json_t *v = object ? json_object_get(o, object) : o;

	v = key ? json_object_get(v, key) : v;
	return json_is_null(v) ? NULL : v;
}

double cli_top_number(const json_t *o, const char *object, const char *key)
{
	const json_t *v = cli_top_at(o, object, key);

	return json_is_number(v) ? json_number_value(v) : NAN;
}

/* HTTP */

static json_t *get_json(struct cli_top *t, const char *path)
{
	const struct cli_request r = {
		.at = t->at, .path = path, .token = t->token, .timeout_ms = TIMEOUT_MS};
	long status;
	json_t *j = cli_http(&r, &status, t->why, sizeof(t->why));
	const char *said = json_string_value(json_object_get(j, "error"));

	if (status == 200 && json_is_object(j))
		return j;
	if (status == 401)
		snprintf(t->why, sizeof(t->why),
			 "the collector requires a token: use --token-file");
	else if (status)
		cli_top_safe(t->why, sizeof(t->why),
			     said ? said : "the response is not that of a collector");
	json_decref(j);
	return NULL;
}

bool cli_top_fetch(struct cli_top *t)
{
	char path[64];
	json_t *j;

	snprintf(path, sizeof(path), "/api/v1/services?window=%u", t->window);
	j = get_json(t, path);
	if (j && !json_is_array(json_object_get(j, "services"))) {
		snprintf(t->why, sizeof(t->why), "the response is not that of a collector");
		json_decref(j);
		j = NULL;
	}
	if (!j)
		return false;
	t->rows = 0;
	json_decref(t->services);
	t->services = j;
	*t->why = '\0';
	if (!t->details)
		return true;
	j = get_json(t, "/api/v1/map");
	if (j) {
		json_decref(t->map);
		t->map = j;
	}
	return j;
}

/* Sorting */

static unsigned int order; /* sort order; qsort() has no context argument */

static double key_of(const json_t *service)
{
	static const struct {
		const char *object, *key;
	} of[] = {{NULL, "attention"},
		  {NULL, NULL},
		  {"requests", "per_second"},
		  {"requests", "errors_per_second"},
		  {"latency", "p99_seconds"},
		  {"saturation", "cpu_cores"},
		  {"saturation", "memory_bytes"},
		  {"connections", "bytes_per_second"},
		  {"connections", "retransmits_per_second"}};
	double v = of[order].key ? cli_top_number(service, of[order].object, of[order].key) : 0;

	return isnan(v) ? -1 : v;
}

static int in_order(const void *a, const void *b)
{
	const json_t *x = *(json_t *const *)a, *y = *(json_t *const *)b;
	double p = key_of(x), q = key_of(y);
	int by_name;

	if (p != q)
		return p > q ? -1 : 1;
	by_name = strcmp(cli_json_text(x, "service"), cli_json_text(y, "service"));
	return by_name ?: strcmp(cli_json_text(x, "namespace"), cli_json_text(y, "namespace"));
}

static bool passes_filter(const struct cli_top *t, const json_t *service)
{
	return json_is_object(service) &&
	       (!*t->screen.filter ||
		strcasestr(cli_json_text(service, "service"), t->screen.filter) ||
		strcasestr(cli_json_text(service, "namespace"), t->screen.filter));
}

bool cli_top_arrange(struct cli_top *t)
{
	const json_t *all = json_object_get(t->services, "services");
	json_t *service;
	size_t i;

	t->rows = 0;
	json_array_foreach(all, i, service)
	{
		if (!passes_filter(t, service))
			continue;
		if (!BASE_GROW(t->row, t->rows, t->room))
			return false;
		t->row[t->rows++] = service;
	}
	order = t->screen.order;
	if (t->rows)
		qsort(t->row, t->rows, sizeof(*t->row), in_order);
	/* The selection follows its service when the row moves. */
	for (i = 0; i < t->rows; i++)
		if (*t->service && cli_json_is(t->row[i], "service", t->service) &&
		    cli_json_is(t->row[i], "namespace", t->kube_namespace))
			t->selected = i;
	if (t->selected >= t->rows)
		t->selected = t->rows ? t->rows - 1 : 0;
	if (!*t->service)
		t->selected = 0;
	return true;
}
