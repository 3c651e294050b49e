// SPDX-License-Identifier: Apache-2.0
/*
 * nic.c - counters of a network interface's driver that show why RDMA over Ethernet is slow: pause
 * and PFC frames, priorities, drops and ECN, by ethtool's ioctl (linux/ethtool.h).
 */
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "source/host/internal.h"

#define PUBLISHED_MAX 256u /* per interface */
#define COUNTERS_MAX  16384u
/*
 * The kernel writes as many counters as the driver has at this moment, even if these are more than
 * the caller asked for. The number changes if someone changes the number of queues.
 */
#define COUNTERS_ROOM (4 * COUNTERS_MAX)

/* ---- choosing ---- */

static bool contains_any(struct host_text t, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (memmem(t.p, host_length(t), words[i], strlen(words[i])))
			return true;
	return false;
}

static bool has_digit(struct host_text t)
{
	while (t.p < t.end && (*t.p < '0' || *t.p > '9'))
		t.p++;
	return t.p < t.end;
}

static bool is_wanted(struct host_text name)
{
	/* "xon" and "xoff" are pause frames in the names of Intel's drivers. */
	static const char *const words[] = {"pause", "pfc", "xon", "xoff", "discard",
					    "drop",  "ecn", "cnp", "prio", "out_of_buffer"};

	for (const char *p = name.p; p < name.end; p++)
		if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-",
			    *p))
			return false;
	return contains_any(name, words, HOST_LEN(words));
}

/* True for the counters of one queue, such as "rx7_xdp_drop", as opposed to "rx_prio7_pause". */
static bool is_of_queue(struct host_text name)
{
	static const char *const priorities[] = {"pri", "pfc", "cos", "pb_"};

	return has_digit(name) && !contains_any(name, priorities, HOST_LEN(priorities));
}

void host_nic_parse(struct host_group *g, struct host_text interface, const char *names,
		    const uint64_t *values, size_t n)
{
	size_t published = 0;

	/* A fast interface has hundreds of queues, and sums of their counters. */
	for (int queues = 0; queues < 2 && !published; queues++)
		for (size_t i = 0; i < n && published < PUBLISHED_MAX; i++) {
			const char *s = names + i * ETH_GSTRING_LEN;
			struct host_text name = host_text(s, strnlen(s, ETH_GSTRING_LEN));

			if (!is_wanted(name) || is_of_queue(name) != queues)
				continue;
			host_put(g, host_row(g, (const struct host_text[]){interface, name}), 0,
				 (double)values[i]);
			published++;
		}
}

/* ---- reading ---- */

static bool ask(int fd, struct ifreq *r, void *request)
{
	r->ifr_data = request;
	return !ioctl(fd, SIOCETHTOOL, r);
}

void host_nic_read(struct host_group *g, struct host_text interface)
{
	struct ethtool_drvinfo driver = {.cmd = ETHTOOL_GDRVINFO};
	struct ethtool_gstrings *names = malloc(sizeof(*names) + COUNTERS_ROOM * ETH_GSTRING_LEN);
	struct ethtool_stats *values = malloc(sizeof(*values) + COUNTERS_ROOM * sizeof(uint64_t));
	struct ifreq r = {.ifr_data = NULL};
	int fd = -1;

	if (!names || !values || !host_length(interface) ||
	    host_length(interface) >= sizeof(r.ifr_name))
		goto out;
	memcpy(r.ifr_name, interface.p, host_length(interface));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || !ask(fd, &r, &driver) || driver.n_stats > COUNTERS_MAX)
		goto out;
	*names = (struct ethtool_gstrings){
		.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = driver.n_stats};
	*values = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = driver.n_stats};
	if (ask(fd, &r, names) && ask(fd, &r, values) && names->len == driver.n_stats &&
	    values->n_stats == driver.n_stats)
		host_nic_parse(g, interface, (const char *)names->data,
			       (const uint64_t *)values->data, driver.n_stats);
out:
	if (fd >= 0)
		close(fd);
	free(values);
	free(names);
}
