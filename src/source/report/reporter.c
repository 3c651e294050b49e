// SPDX-License-Identifier: Apache-2.0
#include "source/report/reporter.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if_arp.h>
#include <netpacket/packet.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/base.h"
#include "base/confine.h"
#include "base/network.h"
#include "dta/wire/auth.h"
#include "source/report/budget.h"
#include "source/report/event.h"
#include "source/report/netlink.h"
#include "source/report/shared.h"
#include "source/report/sign.h"
#include "source/report/report.skel.h"
#include "source/report/veth.h"
#include "source/tcp/feature.h"
#include "source/tcp/util.h"

#define LOG	    "report"
#define TCX_INGRESS 46 /* BPF_TCX_INGRESS of enum bpf_attach_type, Linux 6.6 */
#define TCX_EGRESS  47
#define FILTER	    0x51d3u /* clsact handle and priority of an interface's first reporter */
#define EACH	    4u	    /* maximum number of reporters per interface */
#define PORT	    40040   /* default port, see docs/dta-wire.md */
#define SOURCE_PORT 40041
#define FEED_MOST   256
#define SWEEP_NS    1000000000ull
#define LOOK_NS	    20000000ull
#define WATCH_NS    100000000ull /* interval of looking for the interface and the route */
/* time from the last report to the first heartbeat; further ones after 8, 64 and 512 times this */
#define BEAT_NS	   20000000ull
#define BEATS	   3
#define LAST_BEATS 2

/* A program attached to an interface. */
struct hook {
	int link;	    /* descriptor of the TCX link, or -1 */
	unsigned int index; /* interface index if attached by clsact, or 0 */
	uint32_t filter;
	enum bpf_tc_attach_point point;
};

struct report_kernel {
	struct report_bpf *skel;
	struct report_veth *veth;
	struct hook hook[3];
	char interface[IF_NAMESIZE];
	unsigned int index;	       /* of the interface; 0 while it does not exist */
	bool ingress, egress, refused; /* refused: it exists, but attaching failed */
	struct report_config config;
	char out[IF_NAMESIZE]; /* interface of a link-local target, or empty */
	int routes;	       /* socket to query routes, or -1 */
	bool no_route;	       /* to another host */
	uint64_t watched_ns, interface_gone, route_gone;
	struct bpf_link *pass;
	uint32_t number; /* number of this reporter among those of the interface */
	int feed;	 /* socket to send frames to the carrier */
	int cpus;
	char target[64];
	struct in_addr here; /* address of a translator on this host, or 0 */
	uint16_t port;
	bool waits; /* no translator is listening yet */
	struct report_budget budget;
	uint64_t swept_ns, looked_ns, quiet_ns;
	uint32_t quiet_at; /* sequence number that has not changed since quiet_ns */
	unsigned int beats;
	struct report_events *events;
	int queue; /* socket to query the interface's queue, or -1 */
	uint64_t every_ns, told_ns, queue_ns;
	uint64_t evicted, evicted_bytes, evicted_events;
	bool ending;
};

static int attach_hook(struct hook *h, const struct bpf_program *prog, unsigned int index,
		       enum bpf_tc_attach_point point)
{
	LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)index, .attach_point = point);
	LIBBPF_OPTS(bpf_tc_opts, opts, .prog_fd = bpf_program__fd(prog), .handle = h->filter,
		    .priority = h->filter & 0xfff,
		    .flags = h->filter < FILTER + EACH ? BPF_TC_F_REPLACE : 0);
	int err;

	/* A TCX link is removed when this process exits, even if it is killed. */
	h->link = bpf_link_create(
		opts.prog_fd, (int)index,
		(enum bpf_attach_type)(point == BPF_TC_INGRESS ? TCX_INGRESS : TCX_EGRESS), NULL);
	if (h->link >= 0)
		return 0;
	err = bpf_tc_hook_create(&where);
	if (err && err != -EEXIST)
		return err;
	err = bpf_tc_attach(&where, &opts);
	if (err)
		return err;
	h->index = index;
	h->point = point;
	return 0;
}

static void detach_hook(struct hook *h)
{
	if (h->link >= 0)
		close(h->link);
	if (h->index) {
		LIBBPF_OPTS(bpf_tc_hook, where, .ifindex = (int)h->index, .attach_point = h->point);
		LIBBPF_OPTS(bpf_tc_opts, opts, .handle = h->filter, .priority = h->filter & 0xfff);

		bpf_tc_detach(&where, &opts);
	}
	*h = (struct hook){.link = -1};
}

/* ---- the target ---- */

/* Resolves a host name, preferring IPv4. Returns the result of getaddrinfo(3). */
static int find_host(const char *host, const char *service, struct addrinfo **found)
{
	struct addrinfo hints = {.ai_family = AF_INET, .ai_socktype = SOCK_DGRAM};
	int err = getaddrinfo(host, service, &hints, found);

	if (err) {
		hints.ai_family = AF_INET6;
		err = getaddrinfo(host, service, &hints, found);
	}
	return err;
}

/* Source and destination address for a remote translator. */
struct route {
	struct sockaddr_storage from, to;
	socklen_t bytes;
};

/*
 * Fills in source and target. Leaves c->out 0 if the target is this host. Returns 0, or -errno with
 * one line in error.
 */
static int find_route(struct report_config *c, struct route *r, const char *target, char *error,
		      size_t bytes)
{
	struct sockaddr *from = (struct sockaddr *)&r->from, *to = (struct sockaddr *)&r->to;
	struct in6_addr near, far; /* IPv4 is mapped, so it is at the end */
	socklen_t n = sizeof(r->from);
	char host[256], service[8];
	struct addrinfo *found;
	uint16_t port, own;
	int err, fd, at;

	if (!strchr(target, ':')) {
		snprintf(host, sizeof(host), "%s", target);
		port = PORT;
	} else if (base_parse_address(target, host, sizeof(host), &port) || !port) {
		return base_fail(error, bytes, -EINVAL, "'%s' is not HOST:PORT", target);
	}
	c->port = htons(port);
	if (!*host)
		return 0;
	snprintf(service, sizeof(service), "%u", port);
	err = find_host(host, service, &found);
	if (err)
		return base_fail(error, bytes, -ENOENT, "%s: no address: %s", host,
				 gai_strerror(err));
	r->bytes = found->ai_addrlen;
	memcpy(to, found->ai_addr, r->bytes);
	freeaddrinfo(found);
	/* connect() sends nothing, but makes the kernel select the source address. */
	fd = socket(to->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	err = fd < 0 || connect(fd, to, r->bytes) || getsockname(fd, from, &n) ? errno : 0;
	if (fd >= 0)
		close(fd);
	if (err)
		return base_fail(error, bytes, -err, "%s: %s", target, strerror(err));
	near = base_mapped_of(from, &own);
	far = base_mapped_of(to, &port);
	c->v6 = to->sa_family == AF_INET6;
	at = c->v6 ? 0 : 12;
	memcpy(c->v6 ? c->source6 : &c->source, near.s6_addr + at, (size_t)(16 - at));
	memcpy(c->v6 ? c->target6 : &c->target, far.s6_addr + at, (size_t)(16 - at));
	if (!memcmp(&near, &far, sizeof(near)) || base_is_loopback(to))
		return base_fail(
			error, bytes, -EINVAL,
			"%s is this host: use ':%u', with the translator listening on any address",
			target, port);
	/* A link-local address includes its interface. */
	c->out = c->v6 ? ((const struct sockaddr_in6 *)to)->sin6_scope_id : 0;
	err = c->out ? 0
		     : report_route_interface(-1, c->v6, near.s6_addr + at, far.s6_addr + at,
					      &c->out);
	if (err)
		return base_fail(error, bytes, err, "%s: cannot find the outgoing interface: %s",
				 target, strerror(-err));
	return 0;
}

/* Assigns two unique link-local addresses, derived from the interface's number. */
static int address_here(struct report_kernel *r, struct report_config *c, unsigned int index,
			char *error, size_t bytes)
{
	/* four addresses per reporter in 169.254.128.0/17 */
	uint32_t base = 0xa9fe8000u | ((index + (r->number << 11)) & 0x1fff) << 2;
	struct in_addr near = {htonl(base | 1)};
	struct in_addr far = {htonl(base | 2)};
	int fd = report_veth_addresses(r->veth, near, far, 30, SOURCE_PORT, ntohs(c->port));

	if (fd < 0)
		return base_fail(error, bytes, fd,
				 "cannot assign addresses to the "
				 "veth pair: %s",
				 strerror(-fd));
	r->budget.fd = fd;
	c->target = near.s_addr;
	r->here = near;
	r->port = ntohs(c->port);
	c->source = far.s_addr;
	return 0;
}

/* Opens a socket for answers of a remote translator. If the port is taken, credits are ignored. */
static int answers_socket(struct route *r)
{
	int fd = socket(r->from.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), yes = 1;

	((struct sockaddr_in *)&r->from)->sin_port =
		htons(SOURCE_PORT); /* sin6_port is at the same offset */
	if (fd >= 0 && !setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) &&
	    !bind(fd, (struct sockaddr *)&r->from, r->bytes) &&
	    !connect(fd, (struct sockaddr *)&r->to, r->bytes))
		return fd;
	base_logf(BASE_WARN, LOG,
		  "cannot open a socket for the translator's answers; credits are ignored: %s",
		  strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

/* ---- the local translator ---- */

/*
 * True if proc(5) lists a UDP socket bound to this address or to any address. Testing with bind()
 * instead could collide with a starting translator.
 */
static bool is_listening(const char *path, struct in_addr here, uint16_t port)
{
	char line[256], address[33], wanted[9];
	FILE *f = fopen(path, "re");
	bool found = false;
	unsigned int at;

	snprintf(wanted, sizeof(wanted), "%08X", here.s_addr);
	while (f && !found && fgets(line, sizeof(line), f))
		found = sscanf(line, "%*u: %32[0-9A-F]:%4x", address, &at) == 2 && at == port &&
			(!address[strspn(address, "0")] || !strcmp(address, wanted));
	if (f)
		fclose(f);
	return found;
}

static void check_listener(struct report_kernel *r)
{
	bool waits;

	if (!r->here.s_addr)
		return;
	waits = !is_listening("/proc/thread-self/net/udp", r->here, r->port) &&
		!is_listening("/proc/thread-self/net/udp6", r->here, r->port);
	if (waits && !r->waits)
		base_logf(BASE_INFO, LOG, "waiting for a translator to listen address=%s",
			  r->target);
	if (r->waits && !waits)
		r->swept_ns = 0; /* sweep now, to send what was held back */
	r->waits = waits;
}

static void update_limit(struct report_kernel *r, uint64_t now)
{
	uint32_t handed = __atomic_load_n(&r->skel->bss->handed, __ATOMIC_RELAXED);
	struct report_allowed a = report_budget(&r->budget, handed, now);

	if (r->waits || r->no_route)
		a = (struct report_allowed){.limited = true, .allowed = handed};
	__atomic_store_n(&r->skel->bss->allowed, a.allowed, __ATOMIC_RELAXED);
	__atomic_store_n(&r->skel->bss->limited, a.limited, __ATOMIC_RELAXED);
	if (a.ask)
		__atomic_store_n(&r->skel->bss->ask, 1, __ATOMIC_RELAXED);
}

/* Reads the hardware address of an interface. Returns 0 or -errno. */
static int hardware_address(const char *name, struct sockaddr *address)
{
	struct ifreq r = {0};
	const int err = base_interface_ioctl(name, SIOCGIFHWADDR, &r);

	*address = r.ifr_hwaddr;
	return err;
}

static bool is_ethernet(const struct sockaddr *address)
{
	return address->sa_family == ARPHRD_ETHER || address->sa_family == ARPHRD_LOOPBACK;
}

static int check_ethernet(const char *name, char *error, size_t bytes)
{
	struct sockaddr address;
	int err = hardware_address(name, &address);

	if (err)
		return base_fail(error, bytes, err, "%s: %s", name, strerror(-err));
	if (!is_ethernet(&address))
		return base_fail(error, bytes, -EINVAL, "%s: not an Ethernet interface", name);
	return 0;
}

static int fill_queues(struct report_kernel *r)
{
	struct {
		struct bpf_spin_lock lock;
		uint32_t slot, count;
		uint64_t since_ns;
	} none = {.slot = RPT_NONE};

	for (uint32_t i = 0; i < RPT_SLOTS; i++)
		if (bpf_map_update_elem(bpf_map__fd(r->skel->maps.vacant), NULL, &i, BPF_ANY))
			return -errno;
	for (uint32_t i = 0; i < RPT_KINDS * (uint32_t)r->cpus; i++)
		if (bpf_map_update_elem(bpf_map__fd(r->skel->maps.pendings), &i, &none, BPF_ANY))
			return -errno;
	return 0;
}

/* Prepares to look for the route again, once the process may open no sockets. */
static void open_route(struct report_kernel *r, const struct route *way)
{
	const struct sockaddr_in6 *to = (const struct sockaddr_in6 *)&way->to;

	r->skel->bss->out = r->config.out;
	if (r->config.v6 && to->sin6_scope_id)
		if_indextoname(to->sin6_scope_id, r->out);
	r->routes = report_netlink_open();
}

static int feed_socket(unsigned int carrier)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)carrier};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0); /* protocol 0: the socket receives nothing */

	if (fd >= 0 && bind(fd, (struct sockaddr *)&to, sizeof(to))) {
		close(fd);
		return -1;
	}
	return fd;
}

static int attach_interface(struct report_kernel *r, unsigned int index)
{
	const struct bpf_program *see = r->skel->progs.see;
	int err = r->ingress ? attach_hook(&r->hook[1], see, index, BPF_TC_INGRESS) : 0;

	return err || !r->egress ? err : attach_hook(&r->hook[2], see, index, BPF_TC_EGRESS);
}

static int attach_all(struct report_kernel *r, const struct report_kernel_opts *o,
		      unsigned int index, char *error, size_t bytes)
{
	unsigned int carrier = report_veth_near(r->veth);
	int err = report_veth_far_xdp(r->veth, bpf_program__fd(r->skel->progs.write_report));

	if (!err) {
		r->pass = bpf_program__attach_xdp(r->skel->progs.pass, (int)carrier);
		err = r->pass ? 0 : -errno;
	}
	if (!err)
		err = attach_hook(&r->hook[0], r->skel->progs.send_report, carrier, BPF_TC_INGRESS);
	if (!err) {
		r->feed = feed_socket(carrier);
		err = r->feed < 0 ? -errno : 0;
	}
	if (err)
		return base_fail(error, bytes, err, "cannot open the veth pair: %s",
				 strerror(-err));
	err = attach_interface(r, index);
	return err ? base_fail(error, bytes, err, "%s: %s", o->interface, strerror(-err)) : 0;
}

/* Creates the carrier, whose name reserves this reporter's number. */
static int make_carrier(struct report_kernel *r, const char *interface, unsigned int index,
			char name[IF_NAMESIZE], char *error, size_t bytes)
{
	for (; r->number < EACH; r->number++) {
		snprintf(name, IF_NAMESIZE, r->number ? "slr%u-%u" : "slr%u", index, r->number);
		r->veth = report_veth_open(name);
		if (r->veth || errno != EEXIST)
			break;
	}
	if (r->veth)
		return 0;
	if (errno == EEXIST)
		return base_fail(error, bytes, -EEXIST,
				 "%s already has %u reporters (veth pairs slr%u...)", interface,
				 EACH, index);
	return base_fail(error, bytes, -errno, "cannot create the veth pair: %s%s", strerror(errno),
			 errno == EPERM ? " (needs CAP_NET_ADMIN, CAP_SYS_ADMIN)" : "");
}

/* Returns the identity of a translator that is known only by the address in c. */
static uint64_t meant_by_address(const struct report_config *c)
{
	const struct in6_addr at = c->v6 ? base_mapped(c->target6, 16) : base_mapped(&c->target, 4);

	return dta_translator_of_address(&at, ntohs(c->port));
}

/* Reads the key used for packets and answers. */
static int read_key(struct report_kernel *r, const struct report_kernel_opts *o,
		    const struct report_config *c, char *error, size_t bytes)
{
	uint8_t key[DTA_KEY_BYTES];
	int err = dta_key_read(o->key_file, key);

	if (!err) {
		r->budget.key = dta_key_new(key);
		err = r->budget.key ? 0 : -errno;
	}
	if (err)
		return base_fail(error, bytes, err, "%s: %s", o->key_file,
				 err == -EINVAL ? "the key must have 32 hexadecimal digits"
						: strerror(-err));
	report_sign_prepare((struct report_sign *)&r->skel->rodata->sign, key,
			    o->translator
				    ? dta_translator_of_name(o->translator, strlen(o->translator))
				    : meant_by_address(c));
	explicit_bzero(key, sizeof(key));
	if (libbpf_probe_bpf_helper(BPF_PROG_TYPE_XDP, BPF_FUNC_loop, NULL) == 0)
		return base_fail(error, bytes, -ENOTSUP,
				 "this kernel cannot sign packets: it has no bpf_loop(), which "
				 "Linux 5.17 introduced");
	return 0;
}

static bool has_events(const struct report_kernel_opts *o)
{
	return o->subjects & (1u << RPT_DROPS | 1u << RPT_RETRANSMISSIONS);
}

/*
 * Opens the data sources of all subjects but flows. A subject that this kernel cannot provide is
 * left out with a warning.
 */
static void open_subjects(struct report_kernel *r, const struct report_kernel_opts *o,
			  const struct report_config *c, unsigned int index)
{
	const struct report_event_config e = {
		.interface = index, .source_port = c->source_port, .port = c->port};
	const struct bpf_map *events = r->skel->maps.events;
	char error[256];

	r->every_ns = c->every_ns;
	r->queue = -1;
	if (has_events(o)) {
		r->events = report_events_open(
			&e, bpf_map__fd(events), bpf_map__max_entries(events),
			o->subjects >> RPT_DROPS & 1, o->subjects >> RPT_RETRANSMISSIONS & 1, error,
			sizeof(error));
		if (!r->events)
			base_logf(BASE_WARN, LOG, "cannot report drops and retransmissions: %s",
				  error);
	}
	if (o->subjects >> RPT_QUEUE & 1) {
		r->queue = report_netlink_open();
		if (r->queue < 0)
			base_logf(BASE_WARN, LOG, "cannot report the queue: %s",
				  strerror(-r->queue));
		r->skel->bss->queue_interface = index;
	}
}

/* Opens and loads the programs. */
static int load_programs(struct report_kernel *r, const struct report_config *c,
			 const struct report_kernel_opts *o, char *error, size_t bytes)
{
	int err = tcp_features_need(TCP_PART_REPORT, error, bytes);

	if (err)
		return err;
	r->skel = report_bpf__open();
	if (!r->skel)
		return base_fail(error, bytes, -errno, "cannot load the eBPF programs: %s",
				 strerror(errno));
	memcpy((void *)&r->skel->rodata->config, c, sizeof(*c));
	bpf_map__set_max_entries(r->skel->maps.flows, o->flows ? o->flows : 65536);
	if (has_events(o))
		bpf_map__set_max_entries(r->skel->maps.events, o->flows ? o->flows : 65536);
	err = o->key_file ? read_key(r, o, c, error, bytes) : 0;
	if (err)
		return err;
	err = tcp_load(r->skel->skeleton, "reporter's", error, bytes);
	if (err)
		return err;
	err = fill_queues(r);
	if (err)
		return base_fail(error, bytes, err,
				 "cannot map the memory of the eBPF programs: "
				 "%s",
				 strerror(-err));
	return 0;
}

struct report_kernel *report_kernel_open(const struct report_kernel_opts *o, char *error,
					 size_t bytes)
{
	struct report_kernel *r = calloc(1, sizeof(*r));
	unsigned int index = if_nametoindex(o->interface);
	char name[IF_NAMESIZE], address[INET6_ADDRSTRLEN];
	struct report_config c = {
		.reporter = o->reporter,
		.tenant = o->tenant,
		.copies = o->copies ? o->copies : 2,
		.sample = o->sample < 31 ? o->sample : 31,
		.every_ns = o->every_ns ? o->every_ns : 100000000,
		.bytes = o->bytes ? o->bytes : 1 << 20,
		.flush_ns = o->flush_ns ? o->flush_ns : 10000000,
		.source_port = htons(SOURCE_PORT),
		.sign = o->key_file != NULL,
		.inner = o->inner,
		/*
		 * The incarnation of an authenticated reporter must increase; like libsidelight's,
		 * it counts units of 100 us.
		 */
		.incarnation = (uint32_t)(base_realtime_ns() / 100000),
	};
	struct sockaddr mac;
	struct route way;

	memcpy(c.store, o->subject_store, sizeof(c.store));
	c.store[RPT_FLOWS] = o->store;
	for (int i = 0; i < RPT_SUBJECTS; i++)
		c.wanted[i] = i == RPT_FLOWS || o->subjects >> i & 1;

	if (!r) {
		snprintf(error, bytes, "out of memory");
		return NULL;
	}
	r->feed = r->budget.fd = r->queue = r->routes = -1;
	r->ingress = o->ingress;
	r->egress = o->egress;
	r->index = index;
	snprintf(r->interface, sizeof(r->interface), "%s", o->interface);
	r->budget.credits = ~0u;
	for (int i = 0; i < 3; i++)
		r->hook[i].link = -1;
	tcp_libbpf_log();
	if (check_ethernet(o->interface, error, bytes) ||
	    find_route(&c, &way, o->target, error, bytes))
		goto fail;
	r->cpus = libbpf_num_possible_cpus();
	if (r->cpus < 1 || r->cpus > (int)RPT_CPUS) {
		snprintf(error, bytes, "%d CPUs exceed the limit of %u", r->cpus, RPT_CPUS);
		goto fail;
	}
	if (make_carrier(r, o->interface, index, name, error, bytes) ||
	    (!c.out && address_here(r, &c, index, error, bytes)))
		goto fail;
	c.carrier = report_veth_near(r->veth);
	if (hardware_address(name, &mac)) {
		snprintf(error, bytes, "%s: %s", name, strerror(errno));
		goto fail;
	}
	memcpy(c.mac, mac.sa_data, sizeof(c.mac));
	r->budget.reporter = c.reporter;
	r->budget.incarnation = c.incarnation;
	if (load_programs(r, &c, o, error, bytes))
		goto fail;
	for (int i = 0; i < 3; i++)
		r->hook[i].filter = FILTER + r->number;
	inet_ntop(c.v6 ? AF_INET6 : AF_INET, c.v6 ? (const void *)c.target6 : &c.target, address,
		  sizeof(address));
	snprintf(r->target, sizeof(r->target), c.v6 ? "[%s]:%u" : "%s:%u", address, ntohs(c.port));
	r->config = c;
	if (c.out) {
		r->budget.fd = answers_socket(&way);
		open_route(r, &way);
	}
	open_subjects(r, o, &c, index);
	check_listener(r); /* the first packet must not precede this check */
	update_limit(r, base_now_ns());
	r->skel->bss->realtime = base_realtime_ns() - base_now_ns();
	if (!attach_all(r, o, index, error, bytes))
		return r;
fail:
	report_kernel_close(r);
	return NULL;
}

uint64_t report_kernel_capabilities(const struct report_kernel *r)
{
	/* Linux 5.18 may also require CAP_BPF to look up elements and to run programs. */
	for (int i = 0; i < 3; i++)
		if (r->hook[i].index)
			return BASE_CAP(NET_ADMIN) | BASE_CAP(BPF);
	return 0;
}

const char *report_kernel_target(const struct report_kernel *r)
{
	return r->target;
}

/* Sends an empty frame to be filled at the far end. Returns false if the carrier is full. */
static bool feed_carrier(struct report_kernel *r)
{
	static const uint8_t frame[RPT_LONGEST] = {
		[12] = 0x88, [13] = 0xb5}; /* local experimental EtherType (IEEE 802) */

	return send(r->feed, frame, sizeof(frame), 0) == sizeof(frame);
}

static void run_program(const struct bpf_program *prog, uint32_t mark)
{
	uint8_t packet[ETH_ZLEN] = {0};
	struct __sk_buff ctx = {.mark = mark};
	LIBBPF_OPTS(bpf_test_run_opts, opts, .data_in = packet, .data_size_in = sizeof(packet),
		    .ctx_in = &ctx, .ctx_size_in = sizeof(ctx));

	bpf_prog_test_run_opts(bpf_program__fd(prog), &opts);
}

void report_kernel_counts(const struct report_kernel *r, struct report_kernel_counts *out)
{
	uint64_t *each = calloc((size_t)r->cpus, sizeof(*each));

	memset(out, 0, sizeof(*out));
	out->evicted = r->evicted;
	out->evicted_bytes = r->evicted_bytes;
	out->evicted_events = r->evicted_events;
	out->unsaid_bytes = __atomic_load_n(&r->skel->bss->unsaid, __ATOMIC_RELAXED);
	out->interface_gone = r->interface_gone;
	out->route_gone = r->route_gone;
	out->answers = r->budget.answers;
	out->answers_refused = r->budget.refused;
	for (uint32_t i = 0; each && i < RPT_COUNTS; i++)
		if (!bpf_map_lookup_elem(bpf_map__fd(r->skel->maps.counts), &i, each))
			for (int cpu = 0; cpu < r->cpus; cpu++)
				out->n[i] += each[cpu];
	free(each);
}

void report_kernel_drops(const struct report_kernel *r,
			 void (*each)(void *context, const char *reason, uint64_t frames),
			 void *context)
{
	const char *name;
	uint64_t frames;

	for (uint32_t i = 0; r->events && i < RPT_REASONS; i++) {
		frames = report_events_dropped(r->events, i);
		name = report_events_reason(r->events, i);
		if (frames)
			each(context, name ? name : "others", frames);
	}
}

static void raise_to(uint64_t *counter, uint64_t value)
{
	if ((int64_t)(value - *counter) > 0)
		*counter = value;
}

/*
 * The kernel does not report LRU evictions. The number of evicted flows is the number inserted
 * minus the number present, and their bytes are those counted minus those reported. The counters
 * are read in an order that lets concurrent changes only lower the result.
 */
static void sweep_flows(struct report_kernel *r)
{
	struct report_kernel_counts before, after;

	report_kernel_counts(r, &before);
	run_program(r->skel->progs.sweep, r->ending);
	report_kernel_counts(r, &after);
	raise_to(&r->evicted, before.n[RPT_NEW] - r->skel->bss->known);
	raise_to(&r->evicted_bytes,
		 before.n[RPT_BYTES] - after.n[RPT_SAID_BYTES] - after.unsaid_bytes);
}

/* Repeated heartbeats let translators notice the loss of the last packets. */
static void send_heartbeat(struct report_kernel *r, uint64_t now)
{
	uint32_t sequence = __atomic_load_n(&r->skel->bss->sequence, __ATOMIC_RELAXED);

	if (sequence != r->quiet_at) {
		r->quiet_at = sequence;
		r->quiet_ns = now;
		r->beats = 0;
	}
	if (!sequence || r->waits || r->no_route || now - r->quiet_ns < BEAT_NS << 3 * r->beats)
		return;
	run_program(r->skel->progs.beat, 0);
	if (r->beats < BEATS)
		r->beats++;
	else
		r->quiet_ns = now;
}

/* Reports the queue's backlog if it has changed, and otherwise once per second. */
static void tell_queue(struct report_kernel *r, uint64_t now)
{
	uint64_t packets, bytes;

	if (report_queue_read(r->queue, r->skel->bss->queue_interface, &packets, &bytes))
		return;
	if (packets == r->skel->bss->queue_packets && bytes == r->skel->bss->queue_bytes &&
	    now - r->queue_ns < SWEEP_NS)
		return;
	r->queue_ns = now;
	r->skel->bss->queue_packets = packets;
	r->skel->bss->queue_bytes = bytes;
	run_program(r->skel->progs.report_queue, 0);
}

/* As in sweep_flows(), the number evicted is the number inserted minus the number present. */
static void tell_events(struct report_kernel *r)
{
	const uint64_t entered = report_events_entered(r->events);

	run_program(r->skel->progs.report_events, 0);
	raise_to(&r->evicted_events, entered - r->skel->bss->known_events);
}

static void tell_subjects(struct report_kernel *r, uint64_t now)
{
	if (now - r->told_ns < r->every_ns && !r->ending)
		return;
	r->told_ns = now;
	if (r->events)
		tell_events(r);
	if (r->queue >= 0)
		tell_queue(r, now);
}

/* ---- interfaces that go and are created again ---- */

static void forget_interface(struct report_kernel *r)
{
	r->hook[1].index = r->hook[2].index = 0; /* its filters have gone with it */
	detach_hook(&r->hook[1]);
	detach_hook(&r->hook[2]);
	r->index = 0;
	r->interface_gone++;
	base_logf(BASE_WARN, LOG,
		  "the interface is gone; its flows are counted again when it is back "
		  "interface=%s",
		  r->interface);
}

static int attach_again(struct report_kernel *r, unsigned int index)
{
	struct ifreq q = {0};
	int err = -EEXIST;

	snprintf(q.ifr_name, sizeof(q.ifr_name), "%s", r->interface);
	if (ioctl(r->feed, SIOCGIFHWADDR, &q))
		return -errno;
	if (!is_ethernet(&q.ifr_hwaddr))
		return -EINVAL;
	/*
	 * Before Linux 6.6: the filter of r->number may be that of another reporter, which started
	 * with the new interface, or be replaced by it.
	 */
	for (uint32_t i = 0; i < EACH && err == -EEXIST; i++) {
		for (int k = 1; k < 3; k++) {
			detach_hook(&r->hook[k]);
			r->hook[k].filter = FILTER + EACH + i;
		}
		err = attach_interface(r, index);
	}
	for (int k = 1; err && k < 3; k++)
		detach_hook(&r->hook[k]);
	return err;
}

static void watch_interface(struct report_kernel *r)
{
	char name[IF_NAMESIZE];
	unsigned int index;
	int err;

	/* The programs stay attached to an interface that is renamed. */
	if (r->index && (if_indextoname(r->index, name) || errno != ENXIO))
		return;
	if (r->index)
		forget_interface(r);
	index = if_nametoindex(r->interface);
	if (!index)
		return;
	err = attach_again(r, index);
	if (err && !r->refused)
		base_logf(BASE_ERROR, LOG,
			  "the interface is back, but its flows cannot be counted, which is tried "
			  "again: %s interface=%s",
			  err == -EINVAL ? "it is not Ethernet" : strerror(-err), r->interface);
	r->refused = err;
	if (err)
		return;
	r->index = index;
	r->skel->bss->queue_interface = index;
	if (r->events)
		report_events_interface(r->events, index);
	base_logf(BASE_INFO, LOG, "the interface is back interface=%s", r->interface);
}

/* Holds reports back while there is no route. The source address remains the first one. */
static void watch_route(struct report_kernel *r)
{
	const struct report_config *c = &r->config;
	uint32_t out = 0;
	int err;

	if (!c->out || r->routes < 0)
		return;
	if (*r->out)
		err = (out = if_nametoindex(r->out)) ? 0 : -errno;
	else
		err = report_route_interface(r->routes, c->v6,
					     c->v6 ? (const void *)c->source6 : &c->source,
					     c->v6 ? (const void *)c->target6 : &c->target, &out);
	__atomic_store_n(&r->skel->bss->out, err ? 0 : out, __ATOMIC_RELAXED);
	if (err && !r->no_route) {
		r->route_gone++;
		base_logf(BASE_WARN, LOG,
			  "no route to the translator; reports are held back until there is one "
			  "from the same address: %s target=%s",
			  strerror(-err), r->target);
	}
	if (!err && r->no_route) {
		r->swept_ns = 0; /* sweep now, to send what was held back */
		base_logf(BASE_INFO, LOG, "there is a route to the translator again target=%s",
			  r->target);
	}
	r->no_route = err;
}

void report_kernel_tick(struct report_kernel *r)
{
	uint64_t now = base_now_ns();
	long long owed;

	if (now - r->looked_ns >= LOOK_NS) {
		check_listener(r);
		r->looked_ns = now;
	}
	if (now - r->watched_ns >= WATCH_NS && !r->ending) {
		watch_interface(r);
		watch_route(r);
		r->watched_ns = now;
	}
	update_limit(r, now);
	__atomic_store_n(&r->skel->bss->realtime, base_realtime_ns() - now, __ATOMIC_RELAXED);
	if (now - r->swept_ns >= SWEEP_NS) {
		sweep_flows(r);
		r->swept_ns = now;
	}
	tell_subjects(r, now);
	for (int cpu = 0; cpu < r->cpus; cpu++)
		run_program(r->skel->progs.flush, (uint32_t)cpu);
	send_heartbeat(r, now);
	owed = __atomic_load_n(&r->skel->bss->debt, __ATOMIC_RELAXED);
	for (int i = 0; i < FEED_MOST && i < owed && feed_carrier(r); i++)
		__atomic_fetch_sub(&r->skel->bss->debt, 1, __ATOMIC_RELAXED);
	/* Send one more frame: a dropped copy may have left a packet in the queue. */
	feed_carrier(r);
}

void report_kernel_drain(struct report_kernel *r)
{
	struct report_kernel_counts c;

	/* Stop counting frames, then send what is waiting. */
	detach_hook(&r->hook[1]);
	detach_hook(&r->hook[2]);
	if (r->feed < 0 || r->ending)
		return;
	r->swept_ns = 0;
	r->ending = true;
	for (int i = 0; i < 20; i++) {
		report_kernel_tick(r);
		report_kernel_counts(r, &c);
		if (c.n[RPT_SENT_REPORTS] + c.n[RPT_NOT_WRITTEN] >= c.n[RPT_REPORTS])
			break;
		usleep(5000);
	}
	for (int i = 0; i < LAST_BEATS; i++) {
		r->beats = 0;
		r->quiet_ns = 0;
		report_kernel_tick(r);
		usleep(5000);
	}
}

void report_kernel_close(struct report_kernel *r)
{
	if (!r)
		return;
	report_kernel_drain(r);
	if (r->feed >= 0)
		close(r->feed);
	detach_hook(&r->hook[0]);
	bpf_link__destroy(r->pass);
	report_events_close(r->events);
	if (r->queue >= 0)
		close(r->queue);
	if (r->routes >= 0)
		close(r->routes);
	report_bpf__destroy(r->skel);
	if (r->budget.fd >= 0)
		close(r->budget.fd); /* this socket keeps the far end's namespace alive */
	report_veth_close(r->veth);
	dta_key_free(r->budget.key);
	free(r);
}
