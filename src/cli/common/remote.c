// SPDX-License-Identifier: Apache-2.0
/* remote.c - finds kernel tables in an agent's directory and READs them. */
#include "cli/common/remote.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define CONNECT_NS 5000000000ull
#define READ_NS	   2000000000ull

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
	/* Always wait for the completion, because the request is on this stack. */
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
		nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
	}
	return true;
}

/* Reads the offset and the number of the directory's entries. */
static bool read_directory(struct cli_remote *r)
{
	struct region_directory_hot hot;
	struct region_info info;
	enum region_fault fault;

	r->region = *fabric_directory(r->fabric);
	if (!cli_remote_read(r, 0, SL_HEADER_SIZE))
		return false;
	fault = region_info_parse(r->buffer, r->region.length, &info);
	if (!fault && info.kind != SL_REGION_DIRECTORY)
		fault = REGION_FAULT_VERSION;
	if (!fault)
		fault = CLI_REMOTE_SETTLE(r, info.hot, SL_LINE_SIZE,
					  region_directory_hot_parse(r->buffer, &info, &hot));
	if (fault) {
		r->error = r->error ?: EBADMSG;
		return false;
	}
	r->entries = info.entries;
	r->entry_count = hot.entries_used;
	return true;
}

/* Maps the region of an entry and READs its header. */
static bool map_region(struct cli_remote *r, const struct region_entry *e)
{
	const struct sl_region_header *h = r->buffer;

	r->region = (struct fabric_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
	r->error = -fabric_map(r->fabric, &r->region);
	if (r->error)
		return false;
	if (cli_remote_read(r, 0, SL_HEADER_SIZE)) {
		if (h->instance == e->instance)
			return true;
		r->error = ESTALE;
	}
	fabric_unmap(r->fabric, &r->region);
	return false;
}

/* Finds the next matching kernel table that is in use. */
static bool next_entry(struct cli_remote *r, const struct cli_dump_remote_opts *o, uint32_t kind,
		       struct region_entry *e)
{
	while (r->entry_next < r->entry_count) {
		uint64_t at = r->entries + (uint64_t)r->entry_next++ * SL_LINE_SIZE;

		r->region = *fabric_directory(r->fabric);
		if (!CLI_REMOTE_SETTLE(r, at, SL_LINE_SIZE, region_entry_parse(r->buffer, e)) &&
		    e->state != SL_STATE_FREE && e->state != SL_STATE_RETIRED &&
		    (!o->id || e->id == o->id) && e->kind > SL_REGION_DIRECTORY &&
		    (!kind || e->kind == kind))
			return true;
	}
	return false;
}

/* Returns the fabric's error message, which is more specific than errno. */
static const char *fabric_reason(struct cli_remote *r, const char *otherwise)
{
	static struct fabric_stats stats;

	fabric_stats(r->fabric, &stats);
	return *stats.last_error ? stats.last_error : otherwise;
}

/* Connects and finds the directory's entries. Returns NULL or an error message. */
static const char *connect_to(struct cli_remote *r, const struct cli_dump_remote_opts *o)
{
	*r = (struct cli_remote){.fabric = fabric_open(o->target, &o->fabric)};
	if (!r->fabric)
		return fabric_error();
	r->buffer = fabric_buffer(r->fabric, &r->bytes);
	if (!come_up(r->fabric))
		return fabric_reason(r, "no answer");
	return read_directory(r) ? NULL : strerror(r->error);
}

static const char none[] = "the agent does not publish this table: see 'sidelight agent --tcp'";

const char *cli_remote_find(struct cli_remote *r, const struct cli_dump_remote_opts *o,
			    uint32_t kind)
{
	const char *why = connect_to(r, o);
	struct region_entry e;

	if (why)
		return why;
	if (!next_entry(r, o, kind, &e))
		return none;
	return map_region(r, &e) ? NULL : fabric_reason(r, strerror(r->error));
}

void cli_remote_close(struct cli_remote *r)
{
	if (r->fabric)
		fabric_close(r->fabric);
	*r = (struct cli_remote){0};
}

int cli_dump_remote(const struct base_command *self, const struct cli_dump_remote_opts *o)
{
	uint32_t shown = 0;
	struct cli_remote r;
	struct region_entry e;
	const char *why = connect_to(&r, o);

	while (!why && next_entry(&r, o, o->kind, &e)) {
		bool good;

		/* skip kinds of tables that this version does not know */
		if (e.kind > SL_REGION_TASKS)
			continue;
		shown++;
		good = map_region(&r, &e);
		if (good) {
			good = cli_dump_kernel(&r, o->json);
			fabric_unmap(r.fabric, &r.region);
		}
		if (!good)
			why = fabric_reason(&r, strerror(r.error));
	}
	if (!why && !shown)
		why = o->id ? "no kernel table has this ID" : none;
	if (why)
		base_failure(self, "%s: %s", o->target, why);
	cli_remote_close(&r);
	return why ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}
