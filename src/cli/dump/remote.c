// SPDX-License-Identifier: Apache-2.0
/* remote.c - finds kernel tables in an agent's directory, and READs them. */
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
	return BASE_EXIT_FAILURE;
}

static void pause_briefly(void)
{
	nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
}

bool cli_remote_read(struct cli_remote *r, uint64_t offset, uint32_t length)
{
	struct fabric_read read = {
		.remote = &r->region, .offset = offset, .length = length, .to = r->buffer};
	uint64_t end = base_now_ns() + 2 * READ_NS;
	struct fabric_read *done = NULL;
	int n;

	r->reads++;
	n = fabric_post(r->fabric, &read, 1);
	if (n != 1) {
		r->error = n < 0 ? -n : EAGAIN;
		return false;
	}
	/* Completion is certain and must be awaited: read is on this stack. */
	do
		n = fabric_poll(r->fabric, &done, 1, base_now_ns(), READ_NS);
	while (!n && base_now_ns() < end);
	r->error = n == 1 ? -read.status : ETIMEDOUT;
	return !r->error;
}

static bool come_up(struct fabric *f)
{
	uint64_t end = base_now_ns() + CONNECT_NS, epoch;

	while (fabric_drive(f, base_now_ns(), &epoch) != FABRIC_UP) {
		if (base_now_ns() > end)
			return false;
		pause_briefly();
	}
	return true;
}

/* READs a directory entry. */
static enum region_fault entry(struct cli_remote *r, const struct region_info *info, uint32_t at,
			       struct region_entry *e)
{
	enum region_fault fault = REGION_FAULT_UNSETTLED;

	for (int i = 0; i < TRIES && fault == REGION_FAULT_UNSETTLED; i++) {
		if (!cli_remote_read(r, info->entries + (uint64_t)at * SL_LINE_SIZE, SL_LINE_SIZE))
			return REGION_FAULT_MEMORY;
		fault = region_entry_parse(r->buffer, e);
	}
	return fault;
}

/* Place and number of the entries. */
static bool directory(struct cli_remote *r, struct region_info *info, uint32_t *used)
{
	struct region_directory_hot hot;
	enum region_fault fault = REGION_FAULT_UNSETTLED;

	r->region = *fabric_directory(r->fabric);
	if (!cli_remote_read(r, 0, SL_HEADER_SIZE))
		return false;
	if (region_info_parse(r->buffer, r->region.length, info) ||
	    info->kind != SL_REGION_DIRECTORY) {
		r->error = EBADMSG;
		return false;
	}
	for (int i = 0; i < TRIES && fault == REGION_FAULT_UNSETTLED; i++) {
		if (!cli_remote_read(r, info->hot, SL_LINE_SIZE))
			return false;
		fault = region_directory_hot_parse(r->buffer, info, &hot);
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
static bool take(struct cli_remote *r, const struct region_entry *e)
{
	int err;

	r->region = (struct fabric_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	err = fabric_map(r->fabric, &r->region);
	if (err) {
		r->error = -err;
		return false;
	}
	if (cli_remote_read(r, 0, SL_HEADER_SIZE)) {
		const struct sl_region_header *h = r->buffer;

		if (h->instance == e->instance)
			return true;
		r->error = ESTALE;
	}
	fabric_unmap(r->fabric, &r->region);
	return false;
}

/* The next kernel table in use from entry *at on that matches, with its entry. */
static bool next_entry(struct cli_remote *r, const struct region_info *info, uint32_t used,
		       const struct cli_dump_remote_opts *o, uint32_t kind, uint32_t *at,
		       struct region_entry *e)
{
	while (*at < used) {
		r->region = *fabric_directory(r->fabric);
		if (entry(r, info, (*at)++, e) || e->state == SL_STATE_FREE ||
		    e->state == SL_STATE_RETIRED || (o->id && e->id != o->id) ||
		    e->kind <= SL_REGION_DIRECTORY || (kind && e->kind != kind))
			continue;
		return true;
	}
	return false;
}

/* The fabric's own error says more than errno. */
static const char *reason(struct cli_remote *r)
{
	static struct fabric_stats stats;

	fabric_stats(r->fabric, &stats);
	if (r->error && *stats.last_error)
		return stats.last_error;
	return r->error ? strerror(r->error) : "not believed";
}

static bool connect_to(struct cli_remote *r, const struct cli_dump_remote_opts *o,
		       struct region_info *info, uint32_t *used, char *why, size_t bytes)
{
	struct fabric_opts opts = {.device = o->device, .gid_index = o->gid, .ib_port = o->ib_port};
	struct fabric_stats stats;

	*r = (struct cli_remote){.fabric = fabric_open(o->target, &opts)};
	if (!r->fabric) {
		snprintf(why, bytes, "%s", fabric_error());
		return false;
	}
	r->buffer = fabric_buffer(r->fabric, &r->bytes);
	if (!come_up(r->fabric)) {
		fabric_stats(r->fabric, &stats);
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

bool cli_remote_find(struct cli_remote *r, const struct cli_dump_remote_opts *o, uint32_t kind,
		     char *why, size_t bytes)
{
	struct region_info *info = malloc(sizeof(*info));
	uint32_t used, at = 0;
	bool found = false;
	struct region_entry e;

	*r = (struct cli_remote){0};
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

void cli_remote_close(struct cli_remote *r)
{
	if (r->fabric)
		fabric_close(r->fabric);
	*r = (struct cli_remote){0};
}

int cli_dump_remote(const struct cli_dump_remote_opts *o)
{
	struct region_info *info = malloc(sizeof(*info));
	uint32_t wanted = o->kind ? kind_of(o->kind) : 0, used, shown = 0, at = 0;
	int code = BASE_EXIT_OK;
	struct cli_remote r;
	struct region_entry e;
	char why[256];

	if (!info)
		return failed(o->target, strerror(ENOMEM));
	if (!connect_to(&r, o, info, &used, why, sizeof(why)))
		code = failed(o->target, why);
	while (!code && next_entry(&r, info, used, o, wanted, &at, &e)) {
		bool good;

		if (e.kind > SL_REGION_TASKS) /* unknown kind */
			continue;
		shown++;
		good = take(&r, &e);
		if (good) {
			good = cli_dump_kernel(&r, o->json);
			fabric_unmap(r.fabric, &r.region);
		}
		if (!good)
			code = failed(o->target, reason(&r));
	}
	if (!code && !shown)
		code = failed(o->target, o->id ? "no region of the kernel has that id" : none);
	cli_remote_close(&r);
	free(info);
	return code;
}
