// SPDX-License-Identifier: Apache-2.0
/* attach.c - the parts that other rooms attached. */
#include "collect/read/attach.h"

#include <errno.h>

#include "collect/read/collector_internal.h"
#include "collect/read/families.h"

int collect_collector_attach(struct collect_collector *c, const struct collect_part *part,
			     void *arg)
{
	if (c->running)
		return -EBUSY;
	if (c->parts == COLLECT_PARTS_MAX)
		return -ENOSPC;
	c->part[c->parts] = (struct collect_attached){part, arg};
	return collect_self_add(c, c->parts++);
}

void *collect_collector_part(const struct collect_collector *c, const struct collect_part *part)
{
	for (unsigned int i = 0; i < c->parts; i++)
		if (c->part[i].of == part)
			return c->part[i].arg;
	return NULL;
}
