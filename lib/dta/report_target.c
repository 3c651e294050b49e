// SPDX-License-Identifier: Apache-2.0
/*
 * report_target.c - a reporter's translators. The reporter starts with the first target and moves
 * on to the next when the translator is gone. The next translator has no state for this reporter,
 * so the reporter starts a new incarnation and resends the packets that were not acknowledged.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "report.h"

/* Accepts "HOST:PORT", "HOST", "[V6]:PORT", "[V6]" and "V6". */
static int split_target(const char *target, char host[256], char port[8])
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

/* Returns a socket connected to the target, or -errno. */
static int connect_target(const char *target)
{
	struct addrinfo want = {.ai_socktype = SOCK_DGRAM}, *all, *a;
	char host[256], port[8];
	int fd = -1, err;

	err = split_target(target, host, port);
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

/* Returns a number in units of 100 us; it increases for two days (RFC 1982). */
uint32_t sl__report_incarnation(void)
{
	return (uint32_t)(sl__realtime_ns() / 100000);
}

/* Returns the next name, or NULL if the target is identified by its address. */
static const char *next_name(const char **names, size_t *bytes)
{
	const char *name = *names;

	if (!name)
		return NULL;
	*bytes = strcspn(name, ",");
	*names = name[*bytes] ? name + *bytes + 1 : NULL;
	return *bytes ? name : NULL;
}

int sl__report_targets(struct sl_reporter *r, const char *targets, const char *names)
{
	char one[272];

	if (!targets)
		return -EINVAL;
	for (const char *at = targets;; at++) {
		const size_t n = strcspn(at, ",");
		size_t bytes = 0;
		const char *name = next_name(&names, &bytes);
		int fd;

		if (n >= sizeof(one) || r->targets == SL_REPORTER_TARGETS_MAX)
			return -EINVAL;
		memcpy(one, at, n);
		one[n] = 0;
		fd = connect_target(one);
		if (fd < 0)
			return fd;
		r->meant[r->targets] = name ? dta_translator_of_name(name, bytes)
					    : dta_translator_of_peer(fd);
		r->target[r->targets++] = fd;
		at += n;
		if (!*at)
			break;
	}
	return 0;
}

static void next_target(struct sl_reporter *r, uint64_t now_ns)
{
	uint32_t incarnation = sl__report_incarnation();

	r->at = (r->at + 1) % r->targets;
	r->left_ns = now_ns;
	r->s.failovers++;
	if (!sl__report_after(incarnation, r->incarnation))
		incarnation = r->incarnation + 1;
	r->incarnation = incarnation;
	sl__report_file_incarnation(r);
	r->sequence = 0;
	sl__report_renumber(r, now_ns);
	r->next = 0;
	r->credits = ~0u;
	r->window = SL__REPORT_WINDOW;
	r->answered_ns = r->probed_ns = r->asked_ns = 0;
	r->asks = 0;
}

void sl__report_failover(struct sl_reporter *r, uint64_t now_ns)
{
	const bool refused = r->refused;

	r->refused = false;
	if (r->targets < 2 || now_ns - r->left_ns < SL__REPORT_STAY_NS)
		return;
	if (refused || (r->asks >= SL__REPORT_ASKS && now_ns - r->asked_ns >= SL__REPORT_SILENT_NS))
		next_target(r, now_ns);
}
