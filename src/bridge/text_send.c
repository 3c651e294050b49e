// SPDX-License-Identifier: Apache-2.0
/* text_send.c - passes the families and points of a valid body to the sink. */
#include <errno.h>
#include <string.h>

#include "base/grow.h"
#include "bridge/text_internal.h"

static int send_family(struct bridge_text_parser *p, struct bridge_sink *sink,
		       const struct bridge_text_family *f)
{
	const char *suffix = p->format == BRIDGE_TEXT_004 ? ""
			     : f->type == BRIDGE_COUNTER  ? "_total"
			     : f->type == BRIDGE_INFO	  ? "_info"
							  : "";
	struct bridge_family out = {f->name, f->help, f->unit, f->type};

	if (*suffix) {
		out.name.n = f->name.n + strlen(suffix);
		if (!base_grow(&p->name, &p->name_bytes_room, out.name.n, 1))
			return TEXT_NO_MEMORY(p);
		memcpy(mempcpy(p->name, f->name.s, f->name.n), suffix, strlen(suffix));
		out.name.s = p->name;
	}
	if (sink->family(sink, &out))
		return 0;
	return bridge_fail(p->error, -ENOSPC, 0, "the region has no room for family '%.*s'",
			   TEXT_SHOWN(f->name.n), f->name.s);
}

static void fill_exemplars(struct bridge_text_parser *p, const struct bridge_text_point *t)
{
	for (uint32_t i = 0; i < t->exemplar_count; i++) {
		const struct bridge_text_exemplar_of *of = &p->exemplars_of[t->exemplars + i];
		const struct bridge_text_exemplar *e = &p->exemplars[of->exemplar];

		p->point_exemplars[i] = (struct bridge_exemplar){.labels = p->labels + e->labels,
								 .label_count = e->label_count,
								 .value = e->value,
								 .time_ns = e->time_ns,
								 .bucket = of->bucket};
	}
}

static int send_point(struct bridge_text_parser *p, struct bridge_sink *sink,
		      const struct bridge_text_point *t)
{
	struct bridge_point out = {.labels = p->labels + t->labels,
				   .label_count = t->label_count,
				   .values = p->flat + t->values,
				   .value_count = t->value_count,
				   .bound_count = t->bound_count,
				   .state_count = t->state_count,
				   .exemplar_count = t->exemplar_count,
				   .created_ns = t->created_ns};

	if (!base_grow(&p->point_exemplars, &p->point_exemplar_room, t->exemplar_count,
		       sizeof(*p->point_exemplars)))
		return TEXT_NO_MEMORY(p);
	fill_exemplars(p, t);
	out.exemplars = p->point_exemplars;
	if (t->bound_count)
		out.bounds = p->bounds + t->bounds;
	if (t->state_count)
		out.states = p->states + t->states;
	if (sink->point(sink, &out))
		return 0;
	return bridge_fail(p->error, -ENOSPC, 0, "the region has no room for a series of '%.*s'",
			   TEXT_SHOWN(p->families[t->family].name.n),
			   p->families[t->family].name.s);
}

int bridge_text_send(struct bridge_text_parser *p, struct bridge_sink *sink)
{
	uint32_t sent = 0; /* number of families */
	int err = 0;

	for (size_t i = 0; i < p->point_count && !err; i++) {
		const struct bridge_text_point *t = &p->points[i];

		/* A family has at least one point, and its points are consecutive. */
		if (t->family == sent)
			err = send_family(p, sink, &p->families[sent++]);
		err = err ?: send_point(p, sink, t);
	}
	return err;
}
