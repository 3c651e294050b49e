// SPDX-License-Identifier: Apache-2.0
/* attach.c - registers the parts that other folders attach to a collector */
#include "collect/read/attach.h"

#include <errno.h>
#include <stdlib.h>

#include "collect/read/collector_internal.h"

int collect_collector_attach(struct collect_collector *c, const struct collect_part *part,
			     void *arg)
{
	if (c->running)
		return -EBUSY;
	if (c->parts == COLLECT_PARTS_MAX)
		return -ENOSPC;
	if (part->reader && c->reader)
		return -EEXIST;
	if (!collect_self_add(c, part, c->parts))
		return -ENOMEM;
	c->part[c->parts++] = (struct collect_attached){part, arg};
	c->reader = c->reader ?: part->reader;
	return 0;
}

void collect_parts_free(struct collect_collector *c)
{
	for (unsigned int i = c->parts; i-- > 0;)
		if (c->part[i].of->free)
			c->part[i].of->free(c->part[i].arg);
	free(c->family);
}

void *collect_collector_part(const struct collect_collector *c, const struct collect_part *part)
{
	for (unsigned int i = 0; i < c->parts; i++)
		if (c->part[i].of == part)
			return c->part[i].arg;
	return NULL;
}
