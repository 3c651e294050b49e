// SPDX-License-Identifier: Apache-2.0
/* culprit_paths.c - the pods of a fleet, and the calls between their services. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "analyse/culprit_internal.h"
#include "base/grow.h"

/* Grows a service's array to this many pods. */
static bool make_room(struct analyse_culprit_service *s, uint32_t pods)
{
	return base_grow(&s->pod, &s->room, pods, sizeof(struct analyse_suspect *));
}

static bool count_room(struct analyse_culprit *c, uint32_t service)
{
	uint32_t n = 0;

	if (service >= c->services)
		return true;
	for (uint32_t i = 0; i < c->suspects; i++)
		n += c->suspect[i]->service == service;
	return make_room(&c->service[service], n);
}

/* Counts the pods of all services, and grows the services' arrays. */
static int count_all(struct analyse_culprit *c)
{
	int err = 0;

	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].pods = 0;
	for (uint32_t i = 0; i < c->suspects; i++)
		if (c->suspect[i]->service < c->services)
			c->service[c->suspect[i]->service].pods++;
	for (uint32_t i = 0; i < c->services && !err; i++) {
		err = make_room(&c->service[i], c->service[i].pods) ? 0 : -ENOMEM;
		c->service[i].pods = 0;
	}
	return err;
}

struct analyse_suspect *analyse_culprit_add(struct analyse_culprit *c, uint32_t service)
{
	struct analyse_suspect *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->among = c;
	s->service = service;
	for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++)
		for (uint32_t j = 0; j < ANALYSE_TAILS; j++) {
			s->last[k][j] = logf((float)CULPRIT_LATENCY_MIN);
			analyse_level_init(&s->level[k][j]);
		}
	if (BASE_GROW(c->suspect, c->suspects, c->suspect_room)) {
		s->index = c->suspects;
		c->suspect[c->suspects++] = s;
		if (count_room(c, service))
			return s;
		c->suspects--;
	}
	free(s);
	return NULL;
}

void analyse_culprit_remove(struct analyse_culprit *c, struct analyse_suspect *s)
{
	if (!s)
		return;
	c->suspect[s->index] = c->suspect[--c->suspects];
	c->suspect[s->index]->index = s->index;
	free(s);
}

void analyse_culprit_free_paths(struct analyse_culprit *c)
{
	for (uint32_t i = 0; i < c->services; i++)
		free(c->service[i].pod);
	free(c->service);
	free(c->term);
	c->service = NULL;
	c->term = NULL;
	c->services = c->terms = 0;
}

static uint32_t part_of(struct analyse_culprit *c, uint32_t service)
{
	while (c->service[service].part != service)
		service = c->service[service].part = c->service[c->service[service].part].part;
	return service;
}

/* Joins the services of each path (union-find: Tarjan, J. ACM 22, 1975). */
static void find_parts(struct analyse_culprit *c)
{
	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].part = i;
	for (uint32_t i = 0; i < c->terms; i++) {
		const struct analyse_culprit_term *t = &c->term[i];

		c->service[t->caller].linked = c->service[t->callee].linked = true;
		c->service[part_of(c, t->caller)].part = part_of(c, t->callee);
	}
	for (uint32_t i = 0; i < c->services; i++)
		c->service[i].part = part_of(c, i);
}

int analyse_culprit_paths(struct analyse_culprit *c, const struct analyse_path *paths, uint32_t n)
{
	uint32_t services = 0;

	analyse_culprit_free_paths(c);
	for (uint32_t i = 0; i < n; i++) {
		services = paths[i].caller >= services ? paths[i].caller + 1 : services;
		services = paths[i].callee >= services ? paths[i].callee + 1 : services;
	}
	c->service = calloc(services + 1u, sizeof(*c->service));
	c->term = calloc(2 * (size_t)n + 1, sizeof(*c->term));
	if (!c->service || !c->term)
		goto fail;
	c->services = services;
	for (uint32_t i = 0; i < n; i++) {
		const struct analyse_path *p = &paths[i];
		struct analyse_culprit_service *callee = &c->service[p->callee];
		const float share[ANALYSE_LATENCIES] = {p->client, p->server};

		if (p->caller == p->callee)
			continue;
		if (!callee->terms)
			callee->first = c->terms;
		for (uint32_t k = 0; k < ANALYSE_LATENCIES; k++) {
			if (!(share[k] > 0))
				continue;
			c->term[c->terms++] = (struct analyse_culprit_term){
				.caller = p->caller,
				.callee = p->callee,
				.kind = k,
				.share = share[k],
				.calls = k == ANALYSE_SERVER ? fmaxf(p->calls, 1) : 1,
			};
			callee->terms++;
		}
	}
	find_parts(c);
	if (!count_all(c))
		return 0;
fail:
	analyse_culprit_free_paths(c);
	return -ENOMEM;
}
