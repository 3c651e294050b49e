// SPDX-License-Identifier: Apache-2.0
/* report_open.c - a reporter comes and goes. Whatever it needs is allocated here. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

#define PACKET_MIN  128u
#define BACKUPS_MAX 65536u
#define CHANGES_MAX (1u << 24)

/* "HOST:PORT", "HOST", "[V6]:PORT", "[V6]"; an address of IPv6 without brackets has no port. */
static int split(const char *target, char host[256], char port[8])
{
	const char *end, *colon;
	size_t n;

	snprintf(port, 8, "%d", SL_REPORTER_PORT);
	if (!target)
		return -EINVAL;
	if (*target == '[') {
		end = strchr(++target, ']');
		if (!end || (end[1] && end[1] != ':'))
			return -EINVAL;
		colon = end[1] ? end + 1 : NULL;
	} else {
		colon = strchr(target, ':');
		if (colon && strchr(colon + 1, ':'))
			colon = NULL;
		end = colon ? colon : target + strlen(target);
	}
	n = (size_t)(end - target);
	if (!n || n > 255)
		return -EINVAL;
	memcpy(host, target, n);
	host[n] = 0;
	if (colon) {
		n = strlen(colon + 1);
		if (!n || n > 5 || strspn(colon + 1, "0123456789") != n ||
		    strtoul(colon + 1, NULL, 10) > 65535 || !strtoul(colon + 1, NULL, 10))
			return -EINVAL;
		memcpy(port, colon + 1, n + 1);
	}
	return 0;
}

static int connected(const char *target)
{
	struct addrinfo want = {.ai_socktype = SOCK_DGRAM}, *all, *a;
	char host[256], port[8];
	int fd = -1, err;

	err = split(target, host, port);
	if (err)
		return err;
	err = getaddrinfo(host, port, &want, &all);
	if (err)
		return err == EAI_MEMORY ? -ENOMEM : err == EAI_SYSTEM ? -errno : -EADDRNOTAVAIL;
	err = -EADDRNOTAVAIL;
	for (a = all; a && fd < 0; a = a->ai_next) {
		fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (fd >= 0 && !connect(fd, a->ai_addr, a->ai_addrlen))
			break;
		err = -errno;
		if (fd >= 0)
			close(fd);
		fd = -1;
	}
	freeaddrinfo(all);
	return fd >= 0 ? fd : err;
}

/* 100 us: later ones are larger for two days, and nobody opens two in one step. */
static uint32_t incarnation(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (uint32_t)((uint64_t)t.tv_sec * 10000 + (uint64_t)t.tv_nsec / 100000);
}

static uint64_t random_word(const void *salt)
{
	uint64_t w;

	if (getrandom(&w, sizeof(w), GRND_NONBLOCK) != sizeof(w)) /* early in a machine's life */
		w = sl__monotonic_ns() * 0x9e3779b97f4a7c15ull ^ (uintptr_t)salt;
	return w ? w : 1;
}

static int check(const struct sl_reporter_opts *in, struct sl_reporter_opts *o)
{
	*o = (struct sl_reporter_opts){.sz = sizeof(*o)};
	if (!in || in->sz < offsetof(struct sl_reporter_opts, tenant))
		return -EINVAL;
	for (size_t i = sizeof(*o); i < in->sz; i++)
		if (((const char *)in)[i])
			return -EINVAL; /* of a later version, and unknown here */
	memcpy(o, in, in->sz < sizeof(*o) ? in->sz : sizeof(*o));
	o->packet_bytes = o->packet_bytes ? o->packet_bytes : 1400;
	o->flush_ns = o->flush_ns ? o->flush_ns : 5000000;
	o->wait_ns = o->wait_ns ? o->wait_ns : 1000000000;
	o->refresh_ns = o->refresh_ns ? o->refresh_ns : 10000000000ull;
	o->backup_packets = o->backup_packets ? o->backup_packets : 128;
	if (o->packet_bytes < PACKET_MIN || o->packet_bytes > SL_DTA_PACKET_MAX ||
	    o->backup_packets > BACKUPS_MAX || o->change_entries > CHANGES_MAX ||
	    o->flags & ~(SL_REPORTER_WAIT | SL_REPORTER_SINGLE | SL_REPORTER_LEGACY_A |
			 SL_REPORTER_LEGACY_B))
		return -EINVAL;
	if (o->flags & (SL_REPORTER_LEGACY_A | SL_REPORTER_LEGACY_B) &&
	    ((o->flags & SL_REPORTER_LEGACY_A && o->flags & SL_REPORTER_LEGACY_B) || o->key_file ||
	     o->tenant))
		return -EINVAL;
	return 0;
}

static int read_key(struct sl_reporter *r, const char *path)
{
	uint8_t key[SL_DTA_KEY_BYTES];
	int err;

	if (!path)
		return 0;
	err = sl_dta_key_read(path, key);
	if (err)
		return err;
	r->key = sl_dta_key_new(key, sizeof(key));
	explicit_bzero(key, sizeof(key));
	return r->key ? 0 : -errno;
}

static void release(struct sl_reporter *r)
{
	if (r->fd >= 0)
		close(r->fd);
	sl_dta_key_free(r->key);
	free(r->change);
	free(r->backup_packet);
	free(r->backup);
	free(r->packet);
	free(r);
}

struct sl_reporter *sl_reporter_open(const struct sl_reporter_opts *opts)
{
	struct sl_reporter_opts o;
	struct sl_reporter *r;
	uint64_t changes = 4;
	int err = check(opts, &o);

	if (err) {
		errno = -err;
		return NULL;
	}
	r = calloc(1, sizeof(*r));
	if (!r)
		return NULL;
	r->fd = -1;
	r->flags = o.flags;
	r->packet_bytes = o.packet_bytes;
	r->tenant = o.tenant;
	r->chance = random_word(r);
	r->change_seed = random_word(&r->change_seed);
	r->reporter = o.reporter;
	while (!r->reporter) /* no number that one would give by hand */
		r->reporter = (uint32_t)random_word(&r->reporter) | 1u << 31;
	r->incarnation = incarnation();
	r->flush_ns = o.flush_ns;
	r->wait_ns = o.wait_ns;
	r->refresh_ns = o.refresh_ns;
	r->credits = ~0u;
	r->legacy = o.flags & SL_REPORTER_LEGACY_A   ? SL_DTA_LEGACY_A
		    : o.flags & SL_REPORTER_LEGACY_B ? SL_DTA_LEGACY_B
						     : SL_DTA_LEGACY_NONE;
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
		r->backup_packet = malloc((size_t)r->backups * r->packet_bytes);
		if (!r->backup || !r->backup_packet)
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
	r->fd = connected(o.target);
	if (r->fd < 0) {
		err = r->fd;
		goto fail;
	}
	sl__report_begin(r);
	return r;
fail:
	release(r);
	errno = -err;
	return NULL;
}

void sl_reporter_close(struct sl_reporter *r)
{
	if (!r)
		return;
	sl_reporter_flush(r);
	release(r);
}
