// SPDX-License-Identifier: Apache-2.0
/*
 * report_open.c - opens and closes a reporter. Allocates all memory that the reporter will ever
 * need.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "report.h"

#define PACKET_MIN  128u
#define BACKUPS_MAX 65536u
#define CHANGES_MAX (1u << 24)

static uint64_t random_word(const void *salt)
{
	uint64_t w;

	if (getrandom(&w, sizeof(w), GRND_NONBLOCK) !=
	    sizeof(w)) /* the kernel has no entropy yet */
		w = sl__monotonic_ns() * 0x9e3779b97f4a7c15ull ^ (uintptr_t)salt;
	return w ? w : 1;
}

static int check_opts(const struct sl_reporter_opts *in, struct sl_reporter_opts *o)
{
	if (!SL__HAS(in, target) || !sl__opts_take(o, sizeof(*o), in))
		return -EINVAL;
	o->packet_bytes = o->packet_bytes ? o->packet_bytes : 1400;
	o->flush_ns = o->flush_ns ? o->flush_ns : 5000000;
	o->wait_ns = o->wait_ns ? o->wait_ns : 1000000000;
	o->refresh_ns = o->refresh_ns ? o->refresh_ns : 10000000000ull;
	o->backup_packets = o->backup_packets ? o->backup_packets : 128;
	if (o->packet_bytes < PACKET_MIN || o->packet_bytes > DTA_PACKET_MAX ||
	    o->backup_packets > BACKUPS_MAX || o->change_entries > CHANGES_MAX ||
	    o->flags & ~(SL_REPORTER_WAIT | SL_REPORTER_SINGLE | SL_REPORTER_LEGACY_A |
			 SL_REPORTER_LEGACY_B))
		return -EINVAL;
	if (o->flags & (SL_REPORTER_LEGACY_A | SL_REPORTER_LEGACY_B) &&
	    ((o->flags & SL_REPORTER_LEGACY_A && o->flags & SL_REPORTER_LEGACY_B) || o->key_file ||
	     o->tenant || o->backup_file))
		return -EINVAL;
	return 0;
}

static int read_key(struct sl_reporter *r, const char *path)
{
	uint8_t key[DTA_KEY_BYTES];
	int err;

	if (!path)
		return 0;
	err = dta_key_read(path, key);
	if (err)
		return err;
	r->key = dta_key_new(key);
	explicit_bzero(key, sizeof(key));
	return r->key ? 0 : -errno;
}

static void free_reporter(struct sl_reporter *r)
{
	for (uint32_t i = 0; i < r->targets; i++)
		close(r->target[i]);
	dta_key_free(r->key);
	free(r->change);
	free(r->place);
	if (!r->file)
		free(r->backup_packet);
	sl__report_file_close(r);
	free(r->backup);
	free(r->packet);
	free(r);
}

struct sl_reporter *sl_reporter_open(const struct sl_reporter_opts *opts)
{
	struct sl_reporter_opts o;
	struct sl_reporter *r;
	uint64_t changes = 4;
	int err = check_opts(opts, &o);

	if (err) {
		errno = -err;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->file_fd = r->stop_fd = -1;
	r->flags = o.flags;
	r->packet_bytes = o.packet_bytes;
	r->tenant = o.tenant;
	r->chance = random_word(r);
	r->change_seed = random_word(&r->change_seed);
	r->reporter = o.reporter;
	while (!r->reporter) /* choose a number above those that people assign */
		r->reporter = (uint32_t)random_word(&r->reporter) | 1u << 31;
	r->incarnation = sl__report_incarnation();
	r->flush_ns = o.flush_ns;
	r->wait_ns = o.wait_ns;
	r->refresh_ns = o.refresh_ns;
	r->credits = ~0u;
	r->window = SL__REPORT_WINDOW;
	r->legacy = o.flags & SL_REPORTER_LEGACY_A   ? DTA_LEGACY_A
		    : o.flags & SL_REPORTER_LEGACY_B ? DTA_LEGACY_B
						     : DTA_LEGACY_NONE;
	err = read_key(r, o.key_file);
	if (err)
		goto fail;
	err = -ENOMEM;
	r->packet = malloc(r->packet_bytes);
	if (!r->packet)
		goto fail;
	if (!r->legacy) {
		r->backups = o.backup_packets;
		r->backup = calloc(r->backups, sizeof(*r->backup));
		r->stride = o.backup_file ? sl__report_stride(r->packet_bytes) : r->packet_bytes;
		if (!o.backup_file)
			r->backup_packet = malloc((size_t)r->backups * r->packet_bytes);
		r->place_mask = 1;
		/* twice as many as items fit in a packet */
		while (r->place_mask < r->packet_bytes / 4)
			r->place_mask *= 2;
		r->place = malloc(r->place_mask-- * sizeof(*r->place));
		if (!r->backup || (!o.backup_file && !r->backup_packet) || !r->place)
			goto fail;
	}
	if (o.change_entries) {
		while (changes < o.change_entries)
			changes *= 2;
		r->change_mask = changes - 1;
		r->change = calloc(changes, sizeof(*r->change));
		if (!r->change)
			goto fail;
	}
	err = sl__report_targets(r, o.target, o.translator);
	if (!err && o.backup_file)
		err = sl__report_file_open(r, o.backup_file, !o.reporter);
	if (err)
		goto fail;
	sl__report_begin(r);
	sl__report_retry(r, sl__report_now());
	return r;
fail:
	free_reporter(r);
	errno = -err;
	return NULL;
}

void sl_reporter_close(struct sl_reporter *r)
{
	if (!r)
		return;
	sl_reporter_flush(r);
	r->window = r->credits = ~0u; /* last chance to send the packets that wait for room */
	sl__report_retry(r, sl__report_now());
	if (r->beats < 2)
		sl__report_heartbeat(r);
	free_reporter(r);
}
