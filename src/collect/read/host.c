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
	struct base_node node;
	uint64_t instance, since_ns;
	uint32_t link;
	bool taken; /* the link has read the region's entry */
};

/* An entry of `homes` is freed if its link has not seen the region for this long. */
#define FORGET_NS 10000000000u
#define HOMES_MIN 32u /* below this number of entries, none is freed */

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
	if (!h->link || !h->load || !base_table_init(&h->tenants) || !base_table_init(&h->homes))
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
	BASE_TABLE_EACH(&h->homes, n)
		free(n);
	base_table_free(&h->homes);
	collect_tenants_free(h);
	pthread_mutex_destroy(&h->lock);
}

static struct collect_home *find_home(const struct collect_host *h, uint64_t instance)
{
	struct collect_home *home = base_table_first(&h->homes, base_hash_u64(instance));

	while (home && home->instance != instance)
		home = base_table_next(home);
	return home;
}

static void free_home(struct collect_host *h, struct collect_home *home)
{
	h->load[home->link]--;
	base_table_remove(&h->homes, home);
	free(home);
}

static void forget_homes(struct collect_host *h)
{
	uint64_t now = base_now_ns();

	BASE_TABLE_EACH(&h->homes, n) {
		struct collect_home *home = (struct collect_home *)n;

		if (!home->taken && now - home->since_ns >= FORGET_NS)
			free_home(h, home);
	}
	h->homes_max = 2 * h->homes.count;
}

static struct collect_home *add_home(struct collect_host *h, uint64_t instance)
{
	struct collect_home *home = calloc(1, sizeof(*home));
	uint32_t least = 0;

	if (!home)
		return NULL;
	if (h->homes.count >= BASE_MAX(h->homes_max, (size_t)HOMES_MIN))
		forget_homes(h);
	for (uint32_t i = 1; i < h->links; i++)
		least = h->load[i] < h->load[least] ? i : least;
	home->instance = instance;
	home->since_ns = base_now_ns();
	home->link = least;
	h->load[least]++;
	base_table_add(&h->homes, home, base_hash_u64(instance));
	return home;
}

int collect_host_claim(struct collect_host *h, struct collect_link *l, uint64_t instance)
{
	struct collect_home *home;
	int mine = -ENOMEM;

	if (h->links == 1)
		return 1;
	pthread_mutex_lock(&h->lock);
	home = find_home(h, instance) ?: add_home(h, instance);
	if (home) {
		mine = home->link == l->queue;
		home->taken = home->taken || mine;
	}
	pthread_mutex_unlock(&h->lock);
	return mine;
}

void collect_host_release(struct collect_host *h, struct collect_link *l, uint64_t instance)
{
	struct collect_home *home;

	if (h->links == 1)
		return;
	pthread_mutex_lock(&h->lock);
	home = find_home(h, instance);
	if (home && home->link == l->queue) {
		free_home(h, home);
		relaxed_add(h->releases, 1);
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
