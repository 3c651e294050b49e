// SPDX-License-Identifier: Apache-2.0
/* xdp.c - attaches XDP programs to interfaces and manages their queues */
#include "dta/io/xdp.h"

#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/types.h>

#include "base/base.h"
#include "base/network.h"
#include "dta/io/xdp_shared.h"
#include "xdp.skel.h"

#define ETHERNET 14u

struct interface {
	char name[IF_NAMESIZE], how[IF_NAMESIZE + 16];
	unsigned int index;
	uint32_t queues, longest;
	struct xdp_bpf *program;
	int link;
	bool generic;
};

struct queue {
	uint8_t interface;
	uint32_t number;
};

struct dta_xdp {
	struct interface interface[DTA_XDP_INTERFACES];
	uint32_t n_interfaces;
	struct queue queue[DTA_XDP_QUEUES];
	uint32_t n_queues;
	struct sockaddr_in6 where;
	bool native, generic;
	uint64_t bytes;
};

/* ---- local addresses ---- */

/* Returns the IPv4 address, or NULL. */
static const uint8_t *mapped_v4(const struct in6_addr *a)
{
	return IN6_IS_ADDR_V4MAPPED(a) ? &a->s6_addr[12] : NULL;
}

static void add_four(struct dta_xdp_config *c, const void *address)
{
	if (c->n4 < XDP_ADDRESSES)
		memcpy(&c->four[c->n4++], address, 4);
}

static void add_six(struct dta_xdp_config *c, const void *address)
{
	if (c->n6 < XDP_ADDRESSES)
		memcpy(&c->six[c->n6++], address, 16);
}

/*
 * Adds the current addresses. Packets to addresses that are assigned later go through the kernel.
 */
static int add_addresses(const struct dta_xdp *x, const struct interface *i,
			 struct dta_xdp_config *c)
{
	const struct in6_addr *to = &x->where.sin6_addr;
	const bool any4 = mapped_v4(to) && !memcmp(mapped_v4(to), "\0\0\0\0", 4);
	struct ifaddrs *all;

	if (mapped_v4(to) && !any4) {
		add_four(c, mapped_v4(to));
		return 0;
	}
	if (!any4 && !IN6_IS_ADDR_UNSPECIFIED(to)) {
		add_six(c, to);
		return 0;
	}
	if (getifaddrs(&all))
		return -errno;
	for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
		if (!a->ifa_addr || strcmp(a->ifa_name, i->name))
			continue;
		if (a->ifa_addr->sa_family == AF_INET)
			add_four(c, &((const struct sockaddr_in *)a->ifa_addr)->sin_addr);
		else if (a->ifa_addr->sa_family == AF_INET6 && !any4)
			add_six(c, &((const struct sockaddr_in6 *)a->ifa_addr)->sin6_addr);
	}
	freeifaddrs(all);
	return 0;
}

static int configure_program(const struct dta_xdp *x, struct interface *i, struct dta_xdp_config *c)
{
	struct ifreq r = {0};
	int err = base_interface_ioctl(i->name, SIOCGIFHWADDR, &r);

	memcpy(c->mac, r.ifr_hwaddr.sa_data, sizeof(c->mac));
	err = err ?: base_interface_ioctl(i->name, SIOCGIFMTU, &r);
	i->longest = (uint32_t)r.ifr_mtu + ETHERNET;
	if (i->longest > DTA_XSK_LONGEST)
		i->longest = DTA_XSK_LONGEST;
	c->longest = i->longest;
	c->port = x->where.sin6_port;
	return err ? err : add_addresses(x, i, c);
}

/* ---- programs ---- */

static int ignore_message(enum libbpf_print_level level, const char *format, va_list args)
{
	(void)level;
	(void)format;
	(void)args;
	return 0;
}

static int load_program(struct dta_xdp *x, struct interface *i, char *error, size_t error_bytes)
{
	libbpf_print_fn_t before;
	struct dta_xdp_config *config;
	int err;

	i->program = xdp_bpf__open();
	if (!i->program) {
		err = -errno;
		goto fail;
	}
	config = (struct dta_xdp_config *)&i->program->rodata->config;
	err = configure_program(x, i, config);
	if (!err)
		err = bpf_map__set_max_entries(i->program->maps.sockets, i->queues);
	if (err)
		goto fail;
	before = libbpf_set_print(ignore_message);
	err = xdp_bpf__load(i->program);
	libbpf_set_print(before);
	if (!err)
		return 0;
fail:
	return base_fail(
		error, error_bytes, err, "%s: cannot load the program: %s%s", i->name,
		strerror(-err),
		err == -EPERM ? " (it needs CAP_NET_ADMIN and CAP_BPF)"
		: !libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, BPF_FUNC_xdp_get_buff_len, NULL)
			? " (this kernel lacks bpf_xdp_get_buff_len(), which Linux 5.18 introduced)"
			: "");
}

static int link_to(struct interface *i, uint32_t mode)
{
	LIBBPF_OPTS(bpf_link_create_opts, o, .flags = mode);

	i->link = bpf_link_create(bpf_program__fd(i->program->progs.reports), (int)i->index,
				  BPF_XDP, &o);
	return i->link < 0 ? i->link : 0;
}

/*
 * Attaches the program in driver mode, with a fallback to generic mode; never replaces or joins
 * another program.
 */
static int attach_program(const struct dta_xdp *x, struct interface *i, char *error,
			  size_t error_bytes)
{
	int err = x->generic ? -EOPNOTSUPP : link_to(i, XDP_FLAGS_DRV_MODE);

	i->generic = err && !x->native && err != -EBUSY && err != -EEXIST && err != -EPERM;
	if (i->generic)
		err = link_to(i, XDP_FLAGS_SKB_MODE);
	snprintf(i->how, sizeof(i->how), "%s:%s", i->name, i->generic ? "generic" : "native");
	if (err)
		return base_fail(error, error_bytes, err, "%s: cannot attach the program: %s",
				 i->name,
				 err == -EBUSY || err == -EEXIST ? "the interface already has one"
				 : err == -EPERM		 ? "it needs CAP_NET_ADMIN"
								 : strerror(-err));
	return 0;
}

/* ---- open and close ---- */

static struct interface *interface_of(struct dta_xdp *x, const char *name, const char *what,
				      char *error, size_t bytes)
{
	struct interface *i;

	for (uint32_t k = 0; k < x->n_interfaces; k++)
		if (!strcmp(x->interface[k].name, name))
			return &x->interface[k];
	if (x->n_interfaces == DTA_XDP_INTERFACES) {
		snprintf(error, bytes, "more than %u interfaces", DTA_XDP_INTERFACES);
		return NULL;
	}
	i = &x->interface[x->n_interfaces];
	i->queues = dta_xsk_queues(name);
	i->link = -1;
	if (!i->queues) {
		snprintf(error, bytes, "%s: no such interface", what);
		return NULL;
	}
	memcpy(i->name, name, sizeof(i->name));
	i->index = if_nametoindex(name);
	x->n_interfaces++;
	return load_program(x, i, error, bytes) || attach_program(x, i, error, bytes) ? NULL : i;
}

/* Adds "NAME" or "NAME:QUEUE". Returns false with one line in error. */
static bool add_interface(struct dta_xdp *x, const char *what, char *error, size_t bytes)
{
	const char *colon = strchr(what, ':');
	uint32_t from = 0, to;
	struct interface *i;
	char name[IF_NAMESIZE] = "", *end;
	const size_t bytes_of = colon ? (size_t)(colon - what) : strlen(what);

	/* A name that does not fit can't be the name of an interface. */
	memcpy(name, what, bytes_of < sizeof(name) ? bytes_of : 0);
	i = interface_of(x, name, what, error, bytes);
	if (!i)
		return false;
	to = i->queues;
	if (colon) {
		errno = 0;
		const unsigned long n = strtoul(colon + 1, &end, 10);

		if (colon[1] < '0' || colon[1] > '9' || *end || errno || n >= i->queues)
			return base_fail(error, bytes, false, "%s: %s only has queues 0 to %u",
					 what, name, i->queues - 1);
		from = (uint32_t)n;
		to = from + 1;
	}
	for (; from < to; from++) {
		if (x->n_queues == DTA_XDP_QUEUES)
			return base_fail(error, bytes, false, "more than %u queues",
					 DTA_XDP_QUEUES);
		x->queue[x->n_queues++] = (struct queue){(uint8_t)(i - x->interface), from};
	}
	return true;
}

struct dta_xdp *dta_xdp_open(const struct dta_xdp_opts *opts, char *error, size_t error_bytes)
{
	struct dta_xdp *x = calloc(1, sizeof(*x));
	bool fine = true;

	if (!x) {
		snprintf(error, error_bytes, "no memory");
		return NULL;
	}
	x->where = *opts->where;
	x->native = opts->native;
	x->generic = opts->generic;
	x->bytes = opts->bytes;
	for (uint32_t i = 0; i < opts->n_interfaces && fine; i++)
		fine = add_interface(x, opts->interfaces[i], error, error_bytes);
	if (fine)
		return x;
	dta_xdp_close(x);
	return NULL;
}

uint32_t dta_xdp_queues(const struct dta_xdp *x)
{
	return x->n_queues;
}

struct dta_xsk *dta_xdp_socket(struct dta_xdp *x, uint32_t queue, char *error, size_t error_bytes)
{
	const struct queue *q = &x->queue[queue];
	const struct interface *i = &x->interface[q->interface];
	const struct dta_xsk_opts o = {.interface = i->name,
				       .queue = q->number,
				       .copy = i->generic,
				       .longest = i->longest,
				       .bytes = x->bytes};
	struct dta_xsk *s = NULL;
	int fd, err;

	for (int ms = 0; !s; ms += 10) {
		s = dta_xsk_open(&o, error, error_bytes);
		if (!s && (errno != EBUSY || ms >= DTA_XSK_BUSY_MS))
			return NULL;
		if (!s)
			poll(NULL, 0, 10);
	}
	fd = dta_xsk_fd(s);
	err = bpf_map_update_elem(bpf_map__fd(i->program->maps.sockets), &q->number, &fd, 0);
	if (!err)
		return s;
	snprintf(error, error_bytes, "%s, queue %u: %s", i->name, q->number, strerror(-err));
	dta_xsk_close(s);
	return NULL;
}

uint16_t dta_xdp_port(const struct dta_xdp *x)
{
	return ntohs(x->where.sin6_port);
}

bool dta_xdp_generic(const struct dta_xdp *x)
{
	for (uint32_t i = 0; i < x->n_interfaces; i++)
		if (x->interface[i].generic)
			return true;
	return false;
}

const char *dta_xdp_how(const struct dta_xdp *x, uint32_t i)
{
	return i < x->n_interfaces ? x->interface[i].how : NULL;
}

void dta_xdp_close(struct dta_xdp *x)
{
	if (!x)
		return;
	for (uint32_t k = 0; k < x->n_interfaces; k++) {
		if (x->interface[k].link >= 0)
			close(x->interface[k].link);
		xdp_bpf__destroy(x->interface[k].program);
	}
	free(x);
}
