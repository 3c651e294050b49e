// SPDX-License-Identifier: Apache-2.0
/*
 * rdma.c - translators that write by RDMA: registers objects and tracks queue pairs by name. A
 * translator's queue pairs are destroyed when its control connection closes, so that the server
 * knows when the translator can no longer write.
 */
#include "dta/store_server/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/output_rdma.h"
#include "dta/store_server/peer.h"
#include "fabric/host.h"

#define REOPEN_NS 1000000000ull

static bool add_queue(struct dta_store_server *o, uint64_t queue, const char *name)
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

/* Accepts queue pairs only for names that are welcomed on the control channel. */
static bool admit_queue(void *arg, uint64_t queue, const char *name)
{
	struct dta_store_server *o = arg;

	for (const struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && !strcmp(c->output, "verbs") &&
		    !strcmp(c->name, name))
			return add_queue(o, queue, name);
	return false;
}

static void remove_queue(void *arg, uint64_t queue, const char *name)
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

static void note_immediate(void *arg, uint64_t queue, uint32_t number)
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
		if (fabric_host_queue_end(o->host, queue))
			remove_queue(o, queue, "");
		next = o->queues; /* the list changed, so start over */
	}
}

static int device_open(struct dta_store_server *o, char *error, size_t bytes)
{
	const struct dta_stores_config *c = o->config;
	const struct fabric_host_opts opts = {
		.device = c->rdma.device,
		.address = c->rdma.address,
		.port = c->rdma.port ? c->rdma.port : DTA_VERBS_PORT,
		.gid_index = c->rdma.gid_index,
		.ib_port = c->rdma.ib_port,
		.max_queues = CONNS_MAX,
		/* For readers only; writers are authenticated by the control channel. */
		.secret = dta_peer_is_far(c->peer) ? c->secret : NULL,
		.secret_bytes = c->secret_bytes,
	};
	const struct fabric_host_writers writers = {
		.instance = o->instance,
		.came = admit_queue,
		.gone = remove_queue,
		.immediate = note_immediate,
		.arg = o,
	};
	char why[200];
	int err;

	if (!c->rdma.enabled)
		return 0;
	o->host = fabric_host_open(&opts, why, sizeof(why));
	if (!o->host)
		return base_fail(error, bytes, -1, "%s: rdma: %s", o->path, why);
	err = fabric_host_let_write(o->host, &writers);
	if (!err)
		return 0;
	snprintf(error, bytes, "%s: rdma: cannot create a completion queue: %s", o->path,
		 strerror(-err));
	dta_store_server_rdma_close(o);
	return -1;
}

void dta_store_server_rdma_close(struct dta_store_server *o)
{
	if (!o->host)
		return;
	fabric_host_close(o->host);
	o->host = NULL;
	while (o->queues)
		remove_queue(o, o->queues->queue, "");
}

void dta_store_server_object_unregister(struct dta_store_server *o, struct dta_store_object *at)
{
	struct dta_store_key *const keys[] = {&at->writable, &at->readable};

	for (int i = 0; i < 2; i++) {
		struct fabric_host_key key = {keys[i]->addr, keys[i]->rkey, keys[i]->mr};

		if (key.mr)
			fabric_host_unregister(o->host, &key);
		*keys[i] = (struct dta_store_key){0};
	}
}

static void unregister_all(struct dta_store_server *o)
{
	for (size_t i = 0; i < o->store_count; i++)
		for (struct dta_store_object *at = o->stores[i].objects; at; at = at->older)
			dta_store_server_object_unregister(o, at);
}

/* Ends all use of the device, and disconnects the translators that use it for this reason. */
static void device_close(struct dta_store_server *o, const char *why)
{
	for (struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->line && c->state == CONN_WELCOMED && strcmp(c->output, "shm"))
			dta_store_server_disconnect(o, c, why);
	dta_store_server_end_queues(o, NULL);
	unregister_all(o);
	dta_store_server_rdma_close(o);
}

static void device_lost(struct dta_store_server *o)
{
	o->devices_lost++;
	base_logf(BASE_ERROR, "dta",
		  "the RDMA device is gone: its translators stay disconnected until it returns");
	device_close(o, "the RDMA device is gone");
}

int dta_store_server_rdma_open(struct dta_store_server *o, char *error, size_t bytes)
{
	int err = device_open(o, error, bytes);

	for (size_t i = 0; i < o->store_count && !err && o->host; i++)
		for (struct dta_store_object *at = o->stores[i].objects; at && !err; at = at->older)
			err = dta_store_server_object_register(o, at);
	if (err && o->host) {
		snprintf(error, bytes, "%s: rdma: cannot register the memory of stores: %s",
			 o->path, strerror(-err));
		unregister_all(o);
		dta_store_server_rdma_close(o);
	}
	return err;
}

static bool reopen_device(struct dta_store_server *o)
{
	char error[300];

	/* The addresses, rkeys and instance that translators know have become invalid. */
	dta_store_server_instance(o);
	if (dta_store_server_rdma_open(o, error, sizeof(error)))
		return false;
	base_logf(BASE_INFO, "dta", "the RDMA device is back");
	return true;
}

void dta_store_server_rdma_renew(struct dta_store_server *o)
{
	char error[300];

	if (!o->host)
		return; /* a device that returns gets a new instance and rkeys anyway */
	device_close(o, "the secret has changed");
	dta_store_server_instance(o);
	if (dta_store_server_rdma_open(o, error, sizeof(error)))
		base_logf(BASE_ERROR, "dta",
			  "%s: after a change of the secret, translators over RDMA stay "
			  "disconnected until this succeeds",
			  error);
}

uint64_t dta_store_server_rdma_watch(struct dta_store_server *o, uint64_t now)
{
	struct fabric_host_stats s;

	if (!o->config->rdma.enabled)
		return UINT64_MAX;
	if (o->host) {
		fabric_host_stats(o->host, &s);
		if (!s.lost)
			return UINT64_MAX;
		device_lost(o);
	} else if (now < o->reopen_ns) {
		return o->reopen_ns;
	} else if (reopen_device(o)) {
		return UINT64_MAX;
	}
	o->reopen_ns = now + REOPEN_NS;
	return o->reopen_ns;
}

uint16_t dta_store_server_rdma_port(const struct dta_store_server *o)
{
	struct fabric_host_stats s = {0};

	if (o->host)
		fabric_host_stats(o->host, &s);
	return s.port;
}

int dta_store_server_object_register(struct dta_store_server *o, struct dta_store_object *at)
{
	struct fabric_host_key key;
	int err;

	if (!o->host || at->writable.mr)
		return 0;
	err = fabric_host_register_writable(o->host, at->view.map, at->map_bytes, &key);
	if (err)
		return err;
	at->writable = (struct dta_store_key){key.addr, key.rkey, key.mr};
	if (!dta_peer_is_far(o->config->peer))
		return 0;
	/*
	 * A peer on another host must authenticate with the secret. The fabric's hello names a
	 * directory, where readers normally start; a peer does not need it, because it learns the
	 * addresses from the control channel.
	 */
	err = fabric_host_register(o->host, at->view.map, at->map_bytes, &key);
	if (err)
		return err;
	at->readable = (struct dta_store_key){key.addr, key.rkey, key.mr};
	fabric_host_set_directory(o->host, &key, SL_STORE_BANKS_OFFSET, o->instance);
	return 0;
}

void dta_store_server_object_free(struct dta_store_server *o, struct dta_store_object *at,
				  bool unlink_file)
{
	dta_store_server_object_unregister(o, at);
	dta_store_object_let_go(at);
	dta_store_object_free(at, unlink_file);
}

json_t *dta_store_server_queue(struct dta_store_server *o, const struct dta_server_conn *c,
			       const json_t *message, const char **why)
{
	struct dta_roce_end theirs, ours;
	uint64_t queue;
	int err;

	*why = !o->host					? "the RDMA device is gone"
	       : strcmp(c->output, "raw")		? "a queue pair was sent, but the output "
							  "is not raw"
	       : dta_roce_end_of_json(message, &theirs) ? "the queue pair is invalid"
							: NULL;
	if (*why)
		return NULL;
	dta_store_server_end_queues(o, c->name); /* a translator has one queue pair at a time */
	err = dta_raw_queue_new(o->host, c->name, &theirs, &ours, &queue);
	if (err || !add_queue(o, queue, c->name)) {
		*why = err ? strerror(-err) : "out of memory";
		return NULL;
	}
	return dta_roce_end_json(&ours);
}
