// SPDX-License-Identifier: Apache-2.0
/*
 * rdma_insider.c - an attacker that knows the secret and keeps using what it learned:
 * rdma_attack.h.
 */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <sidelight/attach.h>
#include <sidelight/region.h>

#include "base/base.h"
#include "base/secret.h"
#include "dta/wire/auth.h"
#include "fabric/verbs.h"
#include "rdma_attack.h"
#include "region/decode.h"

#define PATIENCE_NS 240000000000ull
#define ENTRIES	    64u

static struct fabric *f;

static void pause_ms(long ms)
{
	nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static bool come_up(struct fabric *to)
{
	uint64_t end = base_now_ns() + PATIENCE_NS;

	while (fabric_drive(to, base_now_ns(), NULL) != FABRIC_UP && base_now_ns() < end)
		pause_ms(1);
	return to->state == FABRIC_UP;
}

static struct fabric *enter(const char *host, const char *port, const char *path, bool notify)
{
	static uint8_t secret[BASE_SHARED_MAX];
	char target[300];
	ssize_t n = base_secret_shared(path, secret);
	struct fabric_opts opts = {.gid_index = -1,
				   .notify = notify,
				   .secret = secret,
				   .secret_bytes = n > 0 ? (size_t)n : 0};
	struct fabric *to;

	snprintf(target, sizeof(target), "%s:%s", host, port);
	to = n > 0 ? fabric_open(target, &opts) : NULL;
	return to && come_up(to) ? to : NULL;
}

/* READs into the buffer with this key. Returns the number of bytes read. */
static uint32_t read_by(struct fabric *by, const struct fabric_remote *remote, uint32_t length)
{
	struct fabric_read r = {.remote = remote, .length = length}, *done;

	if (!come_up(by))
		return 0;
	r.to = fabric_buffer(by, NULL);
	if (fabric_post(by, &r, 1) != 1)
		return 0;
	while (!fabric_poll(by, &done, 1, base_now_ns(), 2000000000u))
		;
	return r.status ? 0 : length;
}

/* Reads the directory's entries, the first of which is its own. */
static bool look(struct region_entry e[ENTRIES])
{
	const uint64_t(*line)[8];
	struct fabric_remote all;

	if (!come_up(f))
		return false;
	all = *fabric_directory(f);
	if (!read_by(f, &all, SL_HEADER_SIZE + SL_LINE_SIZE * (1 + ENTRIES)))
		return false;
	line = (const void *)((const char *)fabric_buffer(f, NULL) + SL_HEADER_SIZE + SL_LINE_SIZE);
	for (uint32_t i = 0; i < ENTRIES; i++)
		if (region_entry_parse(line[i], &e[i]))
			return false;
	if (e[0].kind == SL_REGION_DIRECTORY)
		fabric_directory_moved(f, e[0].addr, e[0].rkey);
	return true;
}

/* Finds the first region in this state; 0: none. */
static uint32_t find(const struct region_entry e[ENTRIES], uint32_t state)
{
	for (uint32_t i = 1; i < ENTRIES; i++)
		if (e[i].state == state && e[i].addr)
			return i;
	return 0;
}

static struct fabric_remote remote_of(const struct region_entry *e)
{
	return (struct fabric_remote){
		.id = e->id, .addr = e->addr, .length = e->length, .rkey = e->rkey};
}

int rdma_rotated(const char *host, const char *port, const char *secret)
{
	struct region_entry before[ENTRIES], now[ENTRIES];
	struct fabric_remote old, directory;
	uint64_t end = base_now_ns() + PATIENCE_NS;
	uint32_t i, overlap, bytes;
	bool rotated = false;

	f = enter(host, port, secret, false);
	if (!f || !look(before) || !(i = find(before, SL_STATE_LIVE)))
		return 1;
	old = remote_of(&before[i]);
	directory = *fabric_directory(f);
	while (!rotated && base_now_ns() < end) {
		pause_ms(20);
		/*
		 * A guest that was stopped for two leases has lost its connection, so look again.
		 */
		rotated = look(now) && now[i].rkey != old.rkey && now[0].rkey != directory.rkey;
	}
	/* Both keys are valid for two leases. */
	overlap = read_by(f, &old, 64);
	end = base_now_ns() + PATIENCE_NS;
	do {
		pause_ms(100);
		bytes = read_by(f, &old, 64) + read_by(f, &directory, 64);
	} while (bytes && base_now_ns() < end);
	printf("rotated=%d bytes=%u overlap=%u\n", rotated, bytes, overlap);
	fabric_close(f);
	return 0;
}

int rdma_revoked(const char *host, const char *port, const char *secret)
{
	struct region_entry now[ENTRIES];
	struct fabric_remote last = {0};
	uint64_t end = base_now_ns() + PATIENCE_NS;
	uint32_t i, seen = 0, bytes;

	f = enter(host, port, secret, false);
	while (f && base_now_ns() < end) {
		if (!look(now))
			continue;
		i = seen ? seen : find(now, SL_STATE_DEAD);
		if (i && now[i].state == SL_STATE_DEAD) {
			seen = i;
			last = remote_of(&now[i]);
		} else if (seen && now[seen].state == SL_STATE_FREE) {
			break;
		}
		pause_ms(20);
	}
	if (!f || !seen)
		return 1;
	bytes = read_by(f, &last, 64);
	printf("freed=%d bytes=%u\n", now[seen].state == SL_STATE_FREE, bytes);
	fabric_close(f);
	return 0;
}

/* Access rights belong to connections: keys of one kind give no access on the other. */
int rdma_insider(const char *host, const char *port, const char *secret)
{
	struct fabric *notifier = enter(host, port, secret, true);
	struct region_entry e[ENTRIES];
	struct fabric_remote region, board;
	uint32_t bytes, i;

	f = enter(host, port, secret, false);
	if (!notifier || !f || !look(e) || !(i = find(e, SL_STATE_LIVE)))
		return 1;
	region = remote_of(&e[i]);
	board = (struct fabric_remote){.id = 1,
				       .addr = fabric_verbs_of(notifier)->board_addr,
				       .length = 64,
				       .rkey = fabric_verbs_of(notifier)->board_rkey};
	if (!board.rkey)
		return 1;
	bytes = read_by(notifier, &region, 64) + read_by(f, &board, 64);
	printf("bytes=%u\n", bytes);
	fabric_close(notifier);
	fabric_close(f);
	return 0;
}
