// SPDX-License-Identifier: Apache-2.0
/* host.c - the name of a host, and the assignment of its regions to its links */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/hash.h"
#include "collect/read/host.h"
#include "collect/read/link.h"
#include "collect/read/tenant.h"

/* The link that reads an instance; kept across reconnects. */
struct collect_home {
	uint64_t instance; /* 0 means free */
	uint64_t since_ns;
	uint32_t link;
	bool taken; /* the link has read the region's entry */
};

/* A home is freed if its link has not seen the region for this long. */
#define FORGET_NS 10000000000u

int collect_host_init(struct collect_host *h, struct collect_collector *c, const char *target,
		      unsigned int links)
{
	h->c = c;
	h->target = target;
	h->fabric = "";
	h->wanted = *target;
	h->links = links;
	h->link = calloc(links, sizeof(*h->link));
	h->load = calloc(links, sizeof(*h->load));
	if (!h->link || !h->load || !base_table_init(&h->tenants))
		return -ENOMEM;
	pthread_mutex_init(&h->lock, NULL);
	return 0;
}

void collect_host_free(struct collect_host *h)
{
	if (!h->link)
		return;
	for (unsigned int i = 0; i < h->names; i++)
		free(h->name[i]);
	free(h->link);
	free(h->load);
	free(h->home);
	collect_tenants_free(h);
	pthread_mutex_destroy(&h->lock);
}

/* Linear probing; the table is at most half full. */
static struct collect_home *find_home(struct collect_host *h, uint64_t instance)
{
	size_t i = base_hash(0, &instance, sizeof(instance));

	for (i %= h->home_capacity; h->home[i].instance; i = (i + 1) % h->home_capacity)
		if (h->home[i].instance == instance)
			break;
	return &h->home[i];
}

static bool grow_homes(struct collect_host *h)
{
	size_t n = h->home_capacity, capacity = n ? n * 2 : 64;
	struct collect_home *old = h->home, *to = calloc(capacity, sizeof(*to));
	uint64_t now = base_now_ns();

	if (!to)
		return false;
	h->home = to;
	h->home_capacity = capacity;
	for (size_t i = 0; i < n; i++) {
		if (!old[i].instance)
			continue;
		if (old[i].taken || now - old[i].since_ns < FORGET_NS) {
			*find_home(h, old[i].instance) = old[i];
		} else {
			h->load[old[i].link]--;
			h->homes--;
		}
	}
	free(old);
	return true;
}

int collect_host_claim(struct collect_host *h, struct collect_link *l, uint64_t instance)
{
	struct collect_home *home;
	int mine = -ENOMEM;

	if (h->links == 1)
		return 1;
	pthread_mutex_lock(&h->lock);
	if (h->homes * 2 < h->home_capacity || grow_homes(h)) {
		home = find_home(h, instance);
		if (!home->instance) {
			uint32_t least = 0;

			for (uint32_t i = 1; i < h->links; i++)
				least = h->load[i] < h->load[least] ? i : least;
			*home = (struct collect_home){
				.instance = instance, .link = least, .since_ns = base_now_ns()};
			h->load[least]++;
			h->homes++;
		}
		mine = home->link == l->queue;
		home->taken = home->taken || mine;
	}
	pthread_mutex_unlock(&h->lock);
	return mine;
}

void collect_host_release(struct collect_host *h, struct collect_link *l, uint64_t instance)
{
	struct collect_home *home, *next, moved;

	if (h->links == 1)
		return;
	pthread_mutex_lock(&h->lock);
	home = h->home_capacity ? find_home(h, instance) : NULL;
	if (home && home->instance == instance && home->link == l->queue) {
		h->load[l->queue]--;
		h->homes--;
		home->instance = 0;
		relaxed_add(h->releases, 1);
		/* Reinsert the rest of the chain so that the hole does not cut it off. */
		for (next = home;;) {
			next = next + 1 == h->home + h->home_capacity ? h->home : next + 1;
			if (!next->instance)
				break;
			moved = *next;
			next->instance = 0;
			*find_home(h, moved.instance) = moved;
		}
	}
	pthread_mutex_unlock(&h->lock);
}

void collect_host_set_name(struct collect_host *h, const char *name)
{
	char **to;

	pthread_mutex_lock(&h->lock);
	to = &h->name[h->names];
	if (strcmp(name, collect_host_name(h)) && h->names < COLLECT_HOST_NAMES &&
	    (*to = strdup(name))) {
		h->names++;
		__atomic_store_n(&h->hostname, *to, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&h->lock);
}

const char *collect_host_name(const struct collect_host *h)
{
	const char *name = __atomic_load_n(&h->hostname, __ATOMIC_ACQUIRE);

	return name ? name : "";
}

const char *collect_host_target(const struct collect_host *h)
{
	/* Acquire, because this may be the thread's first access to the text. */
	return __atomic_load_n(&h->target, __ATOMIC_ACQUIRE);
}
