// SPDX-License-Identifier: Apache-2.0
/* dump_remote.c - finds an agent's regions of the kernel in its directory, and READs. */
#include "cli/dump/remote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sidelight/flow.h>
#include <sidelight/task.h>

#include "base/base.h"
#include "region/decode.h"

#define CONNECT_NS 5000000000ull
#define READ_NS	   2000000000ull
#define TRIES	   200

static int failed(const char *target, const char *what)
{
	fprintf(stderr, "sidelight dump: %s: %s\n", target, what);
	return SL_EXIT_FAILURE;
}

static void pause_briefly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

bool remote_read(struct remote *r, uint64_t offset, uint32_t length)
{
	struct sl_read read = {
		.remote = &r->region, .offset = offset, .length = length, .to = r->buffer};
	uint64_t end = sl_now_ns() + 2 * READ_NS;
	struct sl_read *done = NULL;
	int n;

	r->reads++;
	n = sl_fabric_post(r->fabric, &read, 1);
	if (n != 1) {
		r->error = n < 0 ? -n : EAGAIN;
		return false;
	}
	/* It completes in any case, and must have: read is ours. */
	do
		n = sl_fabric_poll(r->fabric, &done, 1, sl_now_ns(), READ_NS);
	while (!n && sl_now_ns() < end);
	r->error = n == 1 ? -read.status : ETIMEDOUT;
	return !r->error;
}

static bool come_up(struct sl_fabric *f)
{
	uint64_t end = sl_now_ns() + CONNECT_NS, epoch;

	while (sl_fabric_drive(f, sl_now_ns(), &epoch) != SL_FABRIC_UP) {
		if (sl_now_ns() > end)
			return false;
		pause_briefly();
	}
	return true;
}

/* Entry number at of the directory. */
static enum sl_fault entry(struct remote *r, const struct sl_region_info *info, uint32_t at,
			   struct sl_entry *e)
{
	enum sl_fault fault = SL_FAULT_UNSETTLED;

	for (int i = 0; i < TRIES && fault == SL_FAULT_UNSETTLED; i++) {
		if (!remote_read(r, info->entries + (uint64_t)at * SL_LINE_SIZE, SL_LINE_SIZE))
			return SL_FAULT_MEMORY;
		fault = sl_entry_parse(r->buffer, e);
	}
	return fault;
}

/* Where the entries are, and how many. */
static bool directory(struct remote *r, struct sl_region_info *info, uint32_t *used)
{
	struct sl_directory_hot hot;
	enum sl_fault fault = SL_FAULT_UNSETTLED;

	r->region = *sl_fabric_directory(r->fabric);
	if (!remote_read(r, 0, SL_HEADER_SIZE))
		return false;
	if (sl_region_info_parse(r->buffer, r->region.length, info) ||
	    info->kind != SL_REGION_DIRECTORY) {
		r->error = EBADMSG;
		return false;
	}
	for (int i = 0; i < TRIES && fault == SL_FAULT_UNSETTLED; i++) {
		if (!remote_read(r, info->hot, SL_LINE_SIZE))
			return false;
		fault = sl_directory_hot_parse(r->buffer, info, &hot);
	}
	r->error = fault ? EBADMSG : 0;
	*used = fault ? 0 : hot.entries_used;
	return !fault;
}

static uint32_t kind_of(const char *name)
{
	return !strcmp(name, "flows")	 ? SL_REGION_FLOWS
	       : !strcmp(name, "layers") ? SL_REGION_LAYERS
	       : !strcmp(name, "tasks")	 ? SL_REGION_TASKS
					 : 0;
}

/* Maps the region of an entry, and READs its header. */
static bool take(struct remote *r, const struct sl_entry *e)
{
	int err;

	r->region = (struct sl_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	err = sl_fabric_map(r->fabric, &r->region);
	if (err) {
		r->error = -err;
		return false;
	}
	if (remote_read(r, 0, SL_HEADER_SIZE)) {
		const struct sl_region_header *h = r->buffer;

		if (h->instance == e->instance)
			return true;
		r->error = ESTALE;
	}
	sl_fabric_unmap(r->fabric, &r->region);
	return false;
}

/* Goes on from entry *at to the next of the kernel's that is in use and wanted, and what it says. */
static bool next_entry(struct remote *r, const struct sl_region_info *info, uint32_t used,
		       const struct dump_remote_opts *o, uint32_t kind, uint32_t *at,
		       struct sl_entry *e)
{
	while (*at < used) {
		r->region = *sl_fabric_directory(r->fabric);
		if (entry(r, info, (*at)++, e) || e->state == SL_STATE_FREE ||
		    e->state == SL_STATE_RETIRED || (o->id && e->id != o->id) ||
		    e->kind <= SL_REGION_DIRECTORY || (kind && e->kind != kind))
			continue;
		return true;
	}
	return false;
}

/* What the fabric says of its last failure says more than a number does. */
static const char *reason(struct remote *r)
{
	static struct sl_fabric_stats stats;

	sl_fabric_stats(r->fabric, &stats);
	if (r->error && *stats.last_error)
		return stats.last_error;
	return r->error ? strerror(r->error) : "not believed";
}

static bool connect_to(struct remote *r, const struct dump_remote_opts *o,
		       struct sl_region_info *info, uint32_t *used, char *why, size_t bytes)
{
	struct sl_fabric_opts opts = {
		.device = o->device, .gid_index = o->gid, .ib_port = o->ib_port};
	struct sl_fabric_stats stats;

	*r = (struct remote){.fabric = sl_fabric_open(o->target, &opts)};
	if (!r->fabric) {
		snprintf(why, bytes, "%s", sl_fabric_error());
		return false;
	}
	r->buffer = sl_fabric_buffer(r->fabric, &r->bytes);
	if (!come_up(r->fabric)) {
		sl_fabric_stats(r->fabric, &stats);
		snprintf(why, bytes, "%s", *stats.last_error ? stats.last_error : "no answer");
		return false;
	}
	if (!directory(r, info, used)) {
		snprintf(why, bytes, "%s", strerror(r->error));
		return false;
	}
	return true;
}

static const char none[] = "the agent publishes none of that: see 'sidelight agent --tcp'";

bool remote_find(struct remote *r, const struct dump_remote_opts *o, uint32_t kind, char *why,
		 size_t bytes)
{
	struct sl_region_info *info = malloc(sizeof(*info));
	uint32_t used, at = 0;
	bool found = false;
	struct sl_entry e;

	*r = (struct remote){0};
	snprintf(why, bytes, "out of memory");
	if (info && connect_to(r, o, info, &used, why, bytes)) {
		snprintf(why, bytes, "%s", none);
		if (next_entry(r, info, used, o, kind, &at, &e)) {
			found = take(r, &e);
			snprintf(why, bytes, "%s", reason(r));
		}
	}
	free(info);
	return found;
}

void remote_close(struct remote *r)
{
	if (r->fabric)
		sl_fabric_close(r->fabric);
	*r = (struct remote){0};
}

int dump_remote(const struct dump_remote_opts *o)
{
	struct sl_region_info *info = malloc(sizeof(*info));
	uint32_t wanted = o->kind ? kind_of(o->kind) : 0, used, shown = 0, at = 0;
	int code = SL_EXIT_OK;
	struct remote r;
	struct sl_entry e;
	char why[256];

	if (!info)
		return failed(o->target, strerror(ENOMEM));
	if (!connect_to(&r, o, info, &used, why, sizeof(why)))
		code = failed(o->target, why);
	while (!code && next_entry(&r, info, used, o, wanted, &at, &e)) {
		bool good;

		if (e.kind > SL_REGION_TASKS) /* not known here */
			continue;
		shown++;
		good = take(&r, &e);
		if (good) {
			good = dump_kernel(&r, o->json);
			sl_fabric_unmap(r.fabric, &r.region);
		}
		if (!good)
			code = failed(o->target, reason(&r));
	}
	if (!code && !shown)
		code = failed(o->target, o->id ? "no region of the kernel has that id" : none);
	remote_close(&r);
	free(info);
	return code;
}
