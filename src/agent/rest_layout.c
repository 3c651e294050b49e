// SPDX-License-Identifier: Apache-2.0
/* rest_layout.c - GET /metrics: lists the location of each metric, region by region. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/rest.h"
#include "region/decode.h"

/* A stream of regions: the lock is held only while a region is copied; the copy is then decoded. */
struct agent_layout {
	struct agent *a;
	uint32_t slot;
	bool begun, ended; /* the first and the last bytes of the answer have been in .text */
	char *text;	   /* JSON text of the current region, after a comma or the beginning */
	size_t bytes, sent;
};

/* A metric of 100 bytes takes 2 kB of memory until it is sent. */
#define SCHEMA_MAX (1u << 20)

struct copied {
	json_t *json;
	struct region_info info;
	struct region_hot hot;
	void *schema;
	const char *fault;
};

/* Must be called with the lock held. Returns false if out of memory. */
static bool copy_region(const struct agent *a, const struct agent_region *r, struct copied *c)
{
	enum region_fault fault;
	uint64_t line[8];

	c->info = *r->info; /* the labels still belong to the region and must not be used later */
	c->json = agent_region_json(a, r);
	if (r->proxy)
		json_object_set_new(c->json, "microservice_id",
				    json_string(agent_proxy_microservice(r)));
	if (!agent_memory_held(r->fd, r->info->hot)) {
		c->fault = "its hot line (sidelight-region(5)) has no memory behind it";
		return true;
	}
	REGION_READ_SETTLED(fault, line, (const char *)r->map + r->info->hot, 8,
			    region_hot_parse(line, r->info, &c->hot));
	if (fault) {
		c->fault = region_fault_name(fault);
		c->hot = (struct region_hot){0};
	} else if (c->hot.schema_used > SCHEMA_MAX) {
		c->fault = "its schema is too long to show";
		c->hot.schema_used = 0;
	}
	c->schema = malloc(c->hot.schema_used + 1);
	/* Use the descriptor: reading holes through the mapping would charge the agent for them. */
	return c->schema && pread(r->fd, c->schema, c->hot.schema_used, (off_t)r->info->schema) ==
				    (ssize_t)c->hot.schema_used;
}

static json_t *metrics_json(const struct copied *c, const char **fault)
{
	json_t *all = json_array();
	struct region_schema schema;
	enum region_fault f;

	region_schema_init(&schema);
	f = region_schema_append(&schema, &c->info, c->schema, c->hot.schema_used);
	if (f)
		*fault = region_fault_name(f);
	for (size_t i = 0; i < schema.count; i++) {
		const struct region_metric *m = schema.metrics[i];
		json_t *labels = json_object(), *j;

		for (uint32_t l = 0; l < m->label_count; l++)
			json_object_set_new(labels, m->labels[l].key,
					    json_string(m->labels[l].value));
		j = json_pack("{s:s,s:s,s:i,s:i,s:i,s:I,s:s,s:s,s:o}", "name", m->name, "type",
			      region_kind_name(m->kind), "kind", (int)m->kind, "cell", (int)m->cell,
			      "cells", (int)m->cells, "offset",
			      (json_int_t)(c->info.stripes + sl_cell_offset(m->cell)), "unit",
			      m->unit, "help", m->help, "labels", labels);
		json_array_append_new(all, j ? j : json_null());
	}
	region_schema_free(&schema);
	return all;
}

/* Decodes a copy. Returns it as JSON text, or NULL if out of memory. */
static char *region_text(struct copied *c)
{
	json_object_set_new(c->json, "stripes",
			    json_pack("{s:I,s:I,s:i,s:i}", "offset", (json_int_t)c->info.stripes,
				      "stride", (json_int_t)c->info.stripe_stride, "max",
				      (int)c->info.max_stripes, "used", (int)c->hot.stripes_used));
	json_object_set_new(c->json, "generation", json_integer((json_int_t)c->hot.generation));
	json_object_set_new(c->json, "metrics", metrics_json(c, &c->fault));
	if (c->fault)
		json_object_set_new(c->json, "fault", json_string(c->fault));
	return json_dumps(c->json, JSON_COMPACT);
}

/* Replaces .text by the next region, or by the end of the answer. Returns 0 or -ENOMEM. */
static int layout_next(struct agent_layout *l)
{
	const char *before = l->begun ? "," : "{\"regions\":[";
	struct agent *a = l->a;
	struct copied c = {0};
	struct agent_region *r;
	char *text = NULL;
	bool copied = false;
	int n = -1;

	pthread_mutex_lock(&a->lock);
	for (r = NULL; l->slot < a->slot_count && !r; l->slot++)
		if ((r = a->slots[l->slot]) && (r->state == SL_STATE_RETIRED || r->kernel))
			r = NULL;
	if (r)
		copied = copy_region(a, r, &c);
	pthread_mutex_unlock(&a->lock);
	free(l->text);
	l->text = NULL;
	if (copied)
		text = region_text(&c);
	if (text)
		n = asprintf(&l->text, "%s%s", before, text);
	else if (!r)
		n = asprintf(&l->text, "%s]}\n", l->begun ? "" : before);
	l->begun = true;
	l->ended = !r;
	l->sent = 0;
	l->bytes = n > 0 ? (size_t)n : 0;
	if (n < 0)
		l->text = NULL;
	free(text);
	json_decref(c.json);
	free(c.schema);
	return n < 0 ? -ENOMEM : 0;
}

ssize_t agent_layout_read(void *arg, char *buf, size_t max)
{
	struct agent_layout *l = arg;
	size_t n = 0, part;

	while (n < max && !(l->ended && l->sent == l->bytes)) {
		if (l->sent == l->bytes && layout_next(l))
			return -ENOMEM; /* the HTTP server aborts the response */
		part = BASE_MIN(l->bytes - l->sent, max - n);
		memcpy(buf + n, l->text + l->sent, part);
		l->sent += part;
		n += part;
	}
	return (ssize_t)n;
}

void agent_layout_done(void *arg)
{
	struct agent_layout *l = arg;

	free(l->text);
	free(l);
}

void agent_rest_get_metrics(struct agent *a, const struct agent_rest_request *q,
			    struct agent_rest_reply *reply)
{
	struct agent_layout *l = calloc(1, sizeof(*l));

	(void)q;
	if (!l)
		return;
	l->a = a;
	reply->layout = l;
}
