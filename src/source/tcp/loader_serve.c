// SPDX-License-Identifier: Apache-2.0
/* loader_serve.c - the loader process. */
#include <errno.h>
#include <linux/capability.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/confine.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/identity.h"
#include "source/tcp/loader_message.h"

#define COMPONENT "tcp"
#define LOOK_NS	  5000000000ull
#define TASKS_NS  1000000000ull /* each check reads one line per cgroup */

struct loader {
	int sock;
	const struct tcp_loader_opts *o;
	struct tcp *flows;
	struct tcp_identity *names;
	struct tcp_layers *layers;
	struct tcp_cpu *tasks;
	struct tcp_net *net;
	uint64_t look_ns, names_ns; /* next time to catch up, and next time to look up names */
	uint64_t tasks_ns;     /* next time to look for cgroups of tasks; UINT64_MAX means never */
	uint64_t missed, told; /* number of skipped calls so far, and the number last reported */
};

/* ---- opening ---- */

/* At a network device, cgroups and processes are unknown; only the rest of the filter applies. */
static struct tcp_filter device_filter(const struct tcp_filter *filter)
{
	struct tcp_filter w = *filter;

	w.cgroups = (struct base_strings){0};
	w.pid = 0;
	return w;
}

static int open_flows(struct loader *l, char *why, size_t bytes)
{
	int err = tcp_open(&l->o->flows, &l->flows, why, bytes);

	if (err)
		return err;
	l->names = tcp_identity(l->flows);
	return tcp_attach(l->flows, why, bytes);
}

static int open_layers(struct loader *l, char *why, size_t bytes)
{
	const struct tcp_layers_opts o = {.filter = l->o->flows.filter};

	return tcp_layers_open(&o, &l->layers, why, bytes);
}

static int open_tasks(struct loader *l, char *why, size_t bytes)
{
	const struct tcp_cpu_opts o = {0};

	l->tasks = tcp_cpu_open(&o, why, bytes);
	return l->tasks ? 0 : -errno;
}

static int open_net(struct loader *l, char *why, size_t bytes)
{
	struct tcp_net_opts o = l->o->net;

	o.filter = device_filter(&l->o->flows.filter);
	return tcp_net_open(&o, &l->net, why, bytes);
}

static void close_flows(struct loader *l)
{
	tcp_close(l->flows);
	l->flows = NULL;
	l->names = NULL;
}

/* Returns the region of a part, or NULL if the part is not open. */
static const struct tcp_region *region_of(const struct loader *l, enum tcp_part part)
{
	switch (part) {
	case TCP_PART_FLOWS:
		return l->flows ? tcp_region(l->flows) : NULL;
	case TCP_PART_LAYERS:
		return l->layers ? tcp_layers_region(l->layers) : NULL;
	case TCP_PART_CPU:
		return l->tasks ? tcp_cpu_region(l->tasks) : NULL;
	default:
		return l->net ? tcp_net_region(l->net) : NULL;
	}
}

/*
 * Leaves out, with a warning, any part that lacks hooks or features in this kernel or whose
 * programs the kernel refuses. If the kernel refuses all parts although nothing is known to be
 * missing, the loader fails. Such an error may be temporary: memory may have been short, and libbpf
 * then remembers in this process that the kernel lacks a feature.
 */
static int open_parts(struct loader *l, char *why, size_t bytes)
{
	static int (*const open[TCP_PARTS])(struct loader *, char *, size_t) = {
		open_flows, open_layers, open_tasks, open_net};
	char refusal[LOADER_TEXT] = "";
	bool opened = false;

	for (int i = 0; i < TCP_PARTS; i++) {
		int err = l->o->parts & 1u << i ? open[i](l, why, bytes) : 0;

		opened |= !err && l->o->parts & 1u << i;
		if (!err)
			continue;
		if (i == TCP_PART_FLOWS)
			close_flows(l);
		if (err != -ENOTSUP && err != -ENOEXEC)
			return err;
		if (err == -ENOEXEC)
			snprintf(refusal, sizeof(refusal), "%s", why);
		base_logf(BASE_WARN, COMPONENT, "--tcp %s is not available: %s", tcp_part_names[i],
			  why);
	}
	return opened || !*refusal ? 0 : base_fail(why, bytes, -ENOEXEC, "%s", refusal);
}

/*
 * The programs are already loaded and attached. Only CAP_DAC_READ_SEARCH is kept, to map cgroup ids
 * to paths. A netfilter hook, used on kernels without fentry and kprobes, must also be attached in
 * each new network namespace; this needs more capabilities, and Landlock would keep the loader from
 * entering a namespace.
 */
static int drop_privileges(const struct loader *l, char *why, size_t bytes)
{
	struct base_confine_opts c = {
		.role = BASE_ROLE_LOADER,
		.capabilities = BASE_CAP(DAC_READ_SEARCH),
	};
	struct tcp_cgroup_hierarchy unified;

	if (l->o->unconfined)
		return 0;
	if (l->layers && tcp_layers_follow_namespaces(l->layers))
		c.capabilities |= BASE_CAP(SYS_ADMIN) | BASE_CAP(SYS_PTRACE) | BASE_CAP(NET_ADMIN) |
				  BASE_CAP(PERFMON) | BASE_CAP(BPF);
	c.any_path = c.capabilities & BASE_CAP(SYS_ADMIN);
	if (!tcp_cgroup_hierarchy(&unified, "unified", NULL, NULL))
		c.read = unified.root;
	return base_confine(&c, why, bytes);
}

/*
 * Describes the open tables in the message. Returns the number of descriptors that belong to it.
 * Getting read-only ones needs CAP_SYS_ADMIN.
 */
static size_t describe_tables(const struct loader *l, struct tcp_message *m, int fds[LOADER_FDS])
{
	size_t n = 0;

	for (int i = 0; i < TCP_PARTS; i++) {
		const struct tcp_region *r = region_of(l, (enum tcp_part)i);
		int read_only = r ? tcp_region_read_only(r->fd) : -ENOENT;

		if (!r)
			continue;
		m->part[i].bytes = r->bytes;
		m->part[i].read_only = BASE_MIN(read_only, 0);
		fds[n++] = r->fd;
		if (read_only >= 0)
			fds[n++] = read_only;
	}
	return n;
}

/* ---- serving ---- */

static int set_filter(struct loader *l, const struct tcp_filter *filter, char *why, size_t bytes)
{
	int err = 0;

	if (!l->flows && !l->layers && !l->net)
		return base_fail(why, bytes, -ENOENT,
				 "this agent records no connections: start it with --tcp");
	snprintf(why, bytes, "the filter could not be set");
	if (l->flows)
		err = tcp_filter(l->flows, filter, why, bytes);
	if (!err && l->layers)
		err = tcp_layers_filter(l->layers, filter, why, bytes);
	if (!err && l->net) {
		const struct tcp_filter w = device_filter(filter);

		err = tcp_net_filter(l->net, &w, why, bytes);
	}
	return err;
}

/* Returns false if the peer has closed the socket or sent an invalid message. */
static bool serve_message(struct loader *l)
{
	struct tcp_message answer = {.type = LOADER_IS_SET};
	static char message[LOADER_FILTER];
	static struct tcp_message_filter filter;
	int fds[LOADER_FDS];
	ssize_t got;
	size_t n;

	got = tcp_message_receive(l->sock, message, sizeof(message), MSG_DONTWAIT, fds, &n);
	while (got >= 0 && n)
		close(fds[--n]);
	if (got == -EAGAIN)
		return true;
	if (got <= 0 || tcp_message_filter_unpack(message, (size_t)got, &filter, &answer.serial))
		return false;
	answer.error = set_filter(l, &filter.filter, answer.text, sizeof(answer.text));
	return !tcp_message_send(l->sock, &answer, sizeof(answer), NULL, 0);
}

/* Requests names for cgroups that have tasks but no connections. */
static void name_tasks(struct loader *l, uint64_t now)
{
	for (uint32_t i = 1; i < tcp_cpu_cgroup_slots(l->tasks); i++)
		if (tcp_identity_want(l->names, tcp_cpu_cgroup_id(l->tasks, i), now))
			l->names_ns = now;
}

static void catch_up(struct loader *l, uint64_t now)
{
	int err = l->flows ? tcp_catch_up(l->flows, &l->missed) : 0;

	if (!err && l->layers)
		err = tcp_layers_namespaces(l->layers);
	if (l->layers)
		tcp_layers_groups(l->layers, now);
	if (!err && l->tasks)
		err = tcp_cpu_refresh(l->tasks);
	if (err)
		base_log_limited(BASE_WARN, COMPONENT, "cannot update the tables: %s",
				 strerror(-err));
	if (l->missed != l->told) {
		const struct tcp_message m = {.type = LOADER_MISSED, .missed = l->missed};

		if (!tcp_message_send(l->sock, &m, sizeof(m), NULL, 0))
			l->told = l->missed;
	}
	l->look_ns = now + LOOK_NS;
}

/* Performs the work that is due. Returns the time of the next call. */
static uint64_t serve_timers(struct loader *l, bool arrived)
{
	uint64_t now = base_now_ns(), due;

	if (l->look_ns <= now)
		catch_up(l, now);
	if (l->tasks_ns <= now) {
		name_tasks(l, now);
		l->tasks_ns = now + TASKS_NS;
	}
	if (l->names && (arrived || l->names_ns <= now))
		l->names_ns = tcp_identity_serve(l->names, now);
	due = BASE_MIN(l->look_ns, l->tasks_ns);
	return l->names ? BASE_MIN(due, l->names_ns) : due;
}

static void serve_parent(struct loader *l)
{
	struct pollfd p[2] = {{l->sock, POLLIN, 0}, {-1, POLLIN, 0}};
	uint64_t now = base_now_ns(), due;

	l->look_ns = now + LOOK_NS;
	l->tasks_ns = l->names && l->tasks ? 0 : UINT64_MAX;
	l->names_ns = 0; /* look up at once: the iterator has queued existing cgroups */
	if (l->names)
		p[1].fd = tcp_identity_fd(l->names);
	do {
		due = serve_timers(l, p[1].revents);
		now = base_now_ns();
		if (poll(p, 2, due > now ? (int)((due - now) / 1000000 + 1) : 0) < 0)
			p[0].revents = p[1].revents = 0;
	} while (!p[0].revents || serve_message(l));
}

void tcp_loader_serve(int sock, const struct tcp_loader_opts *opts)
{
	struct tcp_message m = {.type = LOADER_LOADED};
	struct loader l = {.sock = sock, .o = opts};
	int fds[LOADER_FDS];
	size_t n = 0;

	m.error = open_parts(&l, m.text, sizeof(m.text));
	if (!m.error) {
		n = describe_tables(&l, &m, fds);
		m.error = drop_privileges(&l, m.text, sizeof(m.text));
	}
	if (tcp_message_send(sock, &m, sizeof(m), fds, m.error ? 0 : n) || m.error)
		_exit(BASE_EXIT_FAILURE);
	serve_parent(&l);
	/* the kernel detaches and frees everything at exit; doing it here would not be faster */
	_exit(0);
}
