// SPDX-License-Identifier: Apache-2.0
#include "region/listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

static const uint8_t any_v4[16] = {[10] = 0xff, [11] = 0xff}, any_v6[16];

int region_listeners_add(struct region_listeners *l, const struct region_flow *f)
{
	struct region_listener *to;

	if (!(f->flags & SL_FLOW_LISTENER) || !f->pid)
		return 0;
	if (!BASE_GROW(l->v, l->n, l->room))
		return -ENOMEM;
	to = &l->v[l->n++];
	*to = (struct region_listener){.netns = f->netns, .pid = f->pid, .port = f->local_port};
	memcpy(to->address, f->local, 16);
	memcpy(to->comm, f->comm, sizeof(to->comm));
	l->sorted = false;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct region_listener *x = a, *y = b;

	if (x->netns != y->netns)
		return x->netns < y->netns ? -1 : 1;
	return x->port != y->port ? (x->port < y->port ? -1 : 1)
				  : memcmp(x->address, y->address, 16);
}

static const struct region_listener *find_listener(const struct region_listeners *l,
						   const struct region_flow *f,
						   const uint8_t address[16])
{
	struct region_listener key = {.netns = f->netns, .port = f->local_port};

	memcpy(key.address, address, 16);
	return bsearch(&key, l->v, l->n, sizeof(key), by_place);
}

void region_listeners_name(struct region_listeners *l, struct region_flow *f)
{
	const struct region_listener *found;

	if (f->pid || f->flags & (SL_FLOW_ACTIVE | SL_FLOW_LISTENER) || !l->n)
		return;
	if (!l->sorted)
		qsort(l->v, l->n, sizeof(*l->v), by_place);
	l->sorted = true;
	found = find_listener(l, f, f->local);
	if (!found && !memcmp(f->local, any_v4, 12))
		found = find_listener(l, f, any_v4);
	found = found ?: find_listener(l, f, any_v6);
	if (!found)
		return;
	f->pid = found->pid;
	memcpy(f->comm, found->comm, sizeof(f->comm));
	f->by_listener = true;
}

void region_listeners_clear(struct region_listeners *l)
{
	l->n = 0;
}

void region_listeners_free(struct region_listeners *l)
{
	free(l->v);
	*l = (struct region_listeners){0};
}
