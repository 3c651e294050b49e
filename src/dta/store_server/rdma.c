// SPDX-License-Identifier: Apache-2.0
/*
 * owner_rdma.c - translators that write by RDMA: objects registered, queue pairs by name. A
 * translator's queue pairs end with its control connection, so that it is known when it can write
 * no more.
 */
#include "dta/store_server/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/rdma_host.h"

#define REOPEN_NS 1000000000ull

/* Queue pairs are let in only by the name of somebody who is in by the control channel. */
static bool came(void *arg, uint64_t queue, const char *name)
{
	struct dta_store_server *o = arg;

	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && !strcmp(c->output, "verbs") &&
		    !strcmp(c->name, name))
			return dta_store_server_queue_add(o, queue, name);
	return false;
}

bool dta_store_server_queue_add(struct dta_store_server *o, uint64_t queue, const char *name)
{
	struct dta_server_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return false;
	q->queue = queue;
	snprintf(q->name, sizeof(q->name), "%s", name);
	q->next = o->queues;
	o->queues = q;
	return true;
}

static void gone(void *arg, uint64_t queue, const char *name)
{
	struct dta_store_server *o = arg;

	(void)name;
	for (struct dta_server_queue **at = &o->queues; *at; at = &(*at)->next)
		if ((*at)->queue == queue) {
			struct dta_server_queue *q = *at;

			*at = q->next;
			free(q);
			return;
		}
}

static void immediate(void *arg, uint64_t queue, uint32_t number)
{
	struct dta_store_server *o = arg;
	struct dta_server_store *s = dta_store_server_store_number(o, number >> 16,
								   number & 0xffff);

	(void)queue;
	if (s)
		s->immediates++;
}

bool dta_store_server_has_queue(const struct dta_store_server *o, const char *name)
{
	for (const struct dta_server_queue *q = o->queues; q; q = q->next)
		if (!strcmp(q->name, name))
			return true;
	return false;
}

void dta_store_server_end_queues(struct dta_store_server *o, const char *name)
{
	for (struct dta_server_queue *q = o->queues, *next; q; q = next) {
		uint64_t queue = q->queue;

		next = q->next;
		if (name && strcmp(q->name, name))
			continue;
		if (dta_rdma_host_end(o->host, queue))
			gone(o, queue, "");
		next = o->queues; /* the list has changed: from its beginning */
	}
}

int dta_store_server_rdma_open(struct dta_store_server *o, char *error, size_t bytes)
{
	const struct dta_stores_config *c = o->config;
	const struct dta_rdma_host_opts opts = {
		.device = c->rdma.device,
		.address = c->rdma.address,
		.port = c->rdma.port,
		.gid_index = c->rdma.gid_index,
		.ib_port = c->rdma.ib_port,
		.max_queues = CONNS_MAX,
		.instance = o->instance,
		.came = came,
		.gone = gone,
		.immediate = immediate,
		.arg = o,
	};
	char why[200];

	if (!c->rdma.enabled)
		return 0;
	o->host = dta_rdma_host_open(&opts, why, sizeof(why));
	if (!o->host) {
		snprintf(error, bytes, "%s: rdma: %s", o->path, why);
		return -1;
	}
	return 0;
}

void dta_store_server_rdma_close(struct dta_store_server *o)
{
	if (!o->host)
		return;
	dta_rdma_host_close(o->host);
	o->host = NULL;
	while (o->queues)
		gone(o, o->queues->queue, "");
}

/* A key is of no use any more. */
static void unregister_all(struct dta_store_server *o)
{
	for (size_t i = 0; i < o->store_count; i++)
		for (struct dta_store_object *at = o->stores[i].objects; at; at = at->older) {
			if (at->registered)
				dta_rdma_host_unregister(o->host, &at->key);
			at->registered = false;
		}
}

static void device_lost(struct dta_store_server *o)
{
	o->devices_lost++;
	base_logf(BASE_ERROR, "dta",
		  "the RDMA device is gone: its translators are let go until it is back");
	for (struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && strcmp(c->output, "shm"))
			dta_store_server_lose(o, c, "the RDMA device is gone");
	dta_store_server_end_queues(o, NULL);
	unregister_all(o);
	dta_store_server_rdma_close(o);
}

static bool open_again(struct dta_store_server *o)
{
	char error[300];

	/* What was given to translators, addresses and keys, is of no use any more: nor is whom
	 * they know. */
	dta_store_server_instance(o);
	if (dta_store_server_rdma_open(o, error, sizeof(error)))
		return false;
	for (size_t i = 0; i < o->store_count; i++)
		for (struct dta_store_object *at = o->stores[i].objects; at; at = at->older)
			if (dta_store_server_object_register(o, at)) {
				unregister_all(o);
				dta_store_server_rdma_close(o);
				return false;
			}
	base_logf(BASE_INFO, "dta", "the RDMA device is back");
	return true;
}

uint64_t dta_store_server_rdma_watch(struct dta_store_server *o, uint64_t now)
{
	struct dta_rdma_host_stats s;

	if (!o->config->rdma.enabled)
		return UINT64_MAX;
	if (o->host) {
		dta_rdma_host_stats(o->host, &s);
		if (!s.lost)
			return UINT64_MAX;
		device_lost(o);
	} else if (now < o->reopen_ns) {
		return o->reopen_ns;
	} else if (open_again(o)) {
		return UINT64_MAX;
	}
	o->reopen_ns = now + REOPEN_NS;
	return o->reopen_ns;
}

uint16_t dta_store_server_rdma_port(const struct dta_store_server *o)
{
	struct dta_rdma_host_stats s = {0};

	if (o->host)
		dta_rdma_host_stats(o->host, &s);
	return s.port;
}

int dta_store_server_object_register(struct dta_store_server *o, struct dta_store_object *at)
{
	int err = 0;

	if (o->host && !at->registered) {
		err = dta_rdma_host_register(o->host, at->view.map, at->map_bytes, &at->key);
		at->registered = !err;
	}
	return err;
}

void dta_store_server_object_free(struct dta_store_server *o, struct dta_store_object *at,
				  bool unlink_file)
{
	if (at->registered)
		dta_rdma_host_unregister(o->host, &at->key);
	dta_store_object_free(at, unlink_file);
}

json_t *dta_store_server_queue(struct dta_store_server *o, const struct dta_server_conn *c,
			       const json_t *message, const char **why)
{
	struct dta_roce_end theirs, ours;
	uint64_t queue;
	int err;

	*why = !o->host					? "the RDMA device is gone"
	       : strcmp(c->output, "raw")		? "a queue pair, but not for output raw"
	       : dta_roce_end_of_json(message, &theirs) ? "a queue pair that is not sound"
							: NULL;
	if (*why)
		return NULL;
	dta_store_server_end_queues(o, c->name); /* one at a time */
	err = dta_rdma_host_queue(o->host, c->name, &theirs, &ours, &queue);
	if (err || !dta_store_server_queue_add(o, queue, c->name)) {
		*why = err ? strerror(-err) : "out of memory";
		return NULL;
	}
	return dta_roce_end_json(&ours);
}
