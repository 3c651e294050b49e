// SPDX-License-Identifier: Apache-2.0
/*
 * talkers.c - the remote addresses or workloads with the most bytes in the hosts' flow tables.
 * Space-Saving (sketch/space_saving.h) bounds the memory for any number of connections; each count
 * has a known error.
 */
#include <arpa/inet.h>
#include <string.h>

#include "api/internal.h"
#include "base/base.h"
#include "region/flows.h"
#include "sketch/space_saving.h"
#include "collect/tables/tables.h"

#define COUNTERS  4096u
#define TOP_MAX	  100u
#define KEY_BYTES 16u /* size of a key: an address, or an instance padded with zeros */

struct api_talkers_walk {
	struct sketch_space_saving *sketch;
	const char *host;
	bool by_workload;
	/* lost: sums that exceed 2^64 - 1, and flows not counted for lack of memory */
	uint64_t flows, lost;
};

static void count_flow(const struct collect_flow_view *v, void *arg)
{
	struct api_talkers_walk *w = arg;
	const struct region_flow *f = v->now;
	uint8_t key[KEY_BYTES] = {0};
	uint64_t bytes;

	if (f->flags & SL_FLOW_LISTENER || !api_is_host(w->host, v->hostname, v->target))
		return;
	if (!w->by_workload)
		memcpy(key, f->remote, sizeof(key));
	else if (v->workload)
		memcpy(key, &v->workload->instance, sizeof(v->workload->instance));
	w->flows++;
	if (__builtin_add_overflow(f->bytes_sent, f->bytes_received, &bytes) ||
	    (bytes && sketch_space_saving_add(w->sketch, key, bytes)))
		w->lost++;
}

/* Owners of the top workloads; the sketch does not store labels. */
struct api_talkers_owners {
	const struct sketch_space_saving_item *item;
	uint32_t n;
	struct api_owner owner[TOP_MAX];
};

static uint64_t instance_of(const struct sketch_space_saving_item *item)
{
	uint64_t instance;

	memcpy(&instance, item->key, sizeof(instance));
	return instance;
}

static void find_owner(const struct collect_region_view *r, void *arg)
{
	struct api_talkers_owners *o = arg;

	for (uint32_t i = 0; i < o->n; i++)
		if (instance_of(&o->item[i]) == r->info->instance)
			api_owner_set(&o->owner[i], r->hostname, r->target, r->info);
}

static void talkers_json(struct base_json *j, struct collect_collector *c,
			 const struct api_talkers_walk *w, uint64_t limit)
{
	struct sketch_space_saving_item item[TOP_MAX];
	struct api_talkers_owners owners = {
		.item = item, .n = sketch_space_saving_top(w->sketch, item, (uint32_t)limit)};
	char address[INET6_ADDRSTRLEN];

	for (uint32_t i = 0; i < owners.n; i++)
		api_owner_set(&owners.owner[i], "", "", NULL);
	if (w->by_workload)
		collect_collector_regions(c, find_owner, &owners);
	base_json_kbegin(j, "talkers", '[');
	for (uint32_t i = 0; i < owners.n; i++) {
		base_json_begin(j, '{');
		if (w->by_workload)
			api_owner(j, &owners.owner[i]);
		else
			base_put(j, KV("remote", region_flow_address(item[i].key, address)));
		base_put(j, KV("bytes", item[i].count), KV("error", item[i].error));
		base_json_end(j, '}');
	}
	base_json_end(j, ']');
}

void api_get_flows_top(struct http_request *req, void *arg)
{
	static const char *const by[] = {"remote", "workload"};
	struct api_talkers_walk w = {.host = api_param_text(req, "host")};
	struct base_json *j;
	uint64_t limit = 10;
	int key = 0;

	if (!api_param_choice(req, "by", by, 2, &key) ||
	    !api_param_u64(req, "limit", 1, TOP_MAX, &limit))
		return;
	w.by_workload = key;
	w.sketch = sketch_space_saving_new(COUNTERS, KEY_BYTES, base_now_ns());
	if (!w.sketch) {
		http_reply_error(req, 503, "out of memory");
		return;
	}
	j = api_answer_begin(req);
	if (!j)
		goto out;
	collect_collector_flows(arg, count_flow, &w);
	base_put(j, KV("by", by[key]), KV("flows", w.flows), KV("lost", w.lost),
		 KV("bytes", sketch_space_saving_total(w.sketch)),
		 KV("unlisted_at_most", sketch_space_saving_floor(w.sketch)));
	talkers_json(j, arg, &w, limit);
	api_answer_end(req, j);
out:
	sketch_space_saving_free(w.sketch);
}
