// SPDX-License-Identifier: Apache-2.0
/* hook.c - the table of boundaries, and the selection of hooks by trial. */
#include "source/tcp/hook.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/tcp/cgroup.h"
#include "source/tcp/util.h"

#define TRY(type, lost, ...)                         \
	{                                            \
		TCP_HOOK_##type, {__VA_ARGS__}, lost \
	}

#define BOUNDARY(which, name, between, lost, ...) \
	[TCP_BOUNDARY_##which] = {name, between, lost, {__VA_ARGS__}}

/*
 * Tracepoints come first: they work under lockdown and cost least. They are followed by fentry, the
 * more expensive kprobe, and hooks that run for every packet and see less. Each entry has a program
 * (see layer.c, tcp.c). Boundaries with only a tracepoint need no alternative: that tracepoint is
 * as old as the features that all programs need (feature.c), and lockdown permits it.
 */
const struct tcp_hook_boundary tcp_hook_table[TCP_BOUNDARIES] = {
	BOUNDARY(NIC_IN, "nic-in", "driver to the network stack",
		 "receive latency of the MAC layer",
		 TRY(TP, NULL, "napi_gro_receive_entry", "netif_receive_skb_entry",
		     "netif_rx_entry")),
	BOUNDARY(MAC_IP, "mac-ip", "MAC to IP, receiving",
		 "MAC and IP are one layer in receive latency",
		 TRY(FENTRY, NULL, "ip_rcv", "ip_list_rcv", "ipv6_rcv"),
		 TRY(KPROBE, NULL, "ip_rcv", "ip_list_rcv", "ipv6_rcv"),
		 TRY(TP, "packet taps and traffic control at ingress count as IP",
		     "netif_receive_skb")),
	BOUNDARY(IP_TCP, "ip-tcp", "IP to TCP, receiving",
		 "IP and TCP are one layer in receive latency",
		 TRY(FENTRY, NULL, "tcp_v4_rcv", "tcp_v6_rcv"),
		 TRY(KPROBE, NULL, "tcp_v4_rcv", "tcp_v6_rcv"),
		 TRY(CGROUP_SKB, "the socket lookup counts as IP", "ingress")),
	BOUNDARY(TCP_APP, "tcp-app", "TCP to the application",
		 "receive latency of TCP, and application latency",
		 TRY(TP, NULL, "tcp_rcv_space_adjust")),
	BOUNDARY(APP_TCP, "app-tcp", "application to TCP", "transmit latency of TCP, and requests",
		 TRY(TP, NULL, "tcp_sendmsg_locked"), TRY(FENTRY, NULL, "tcp_sendmsg_locked")),
	BOUNDARY(
		TCP_IP, "tcp-ip", "TCP to IP, sending",
		"TCP and IP are one layer in transmit latency",
		TRY(FENTRY, NULL, "__ip_queue_xmit", "inet6_csk_xmit"),
		TRY(KPROBE, NULL, "__ip_queue_xmit", "inet6_csk_xmit"),
		TRY(NETFILTER,
		    "building the IP header counts as TCP; a new network namespace is noticed a second late",
		    "local-out")),
	BOUNDARY(IP_LINK, "ip-link", "IP to the queueing discipline",
		 "IP and MAC are one layer in transmit latency", TRY(TP, NULL, "net_dev_queue")),
	BOUNDARY(LINK_NIC, "link-nic", "queueing discipline to the driver",
		 "transmit latency of the MAC layer", TRY(TP, NULL, "net_dev_start_xmit")),
	BOUNDARY(STATE, "state", "a connection changes its state", "everything about flows",
		 TRY(TP, NULL, "inet_sock_set_state")),
	BOUNDARY(CLOSE, "close", "a socket is destroyed",
		 "slots of sockets that end without a change of state are freed late",
		 TRY(TP, NULL, "tcp_destroy_sock")),
	BOUNDARY(SEGMENT, "segment", "a segment arrives on a connection",
		 "statistics while a connection is open", TRY(TP, NULL, "tcp_probe")),
	BOUNDARY(CONGESTION, "congestion", "the congestion state changes",
		 "fast retransmissions and timeouts, before 6.7",
		 TRY(TP, NULL, "tcp_cong_state_set")),
	BOUNDARY(RETRANSMIT, "retransmit", "a segment is retransmitted",
		 "some causes of retransmissions, and those of SYNs",
		 TRY(TP, NULL, "tcp_retransmit_skb")),
	BOUNDARY(RTT, "rtt", "a sample of the round-trip time", "number and sum of samples",
		 TRY(DERIVED, NULL, "from the smoothed RTT, segment by segment")),
	BOUNDARY(CALLS, "calls", "read and write calls",
		 "number of calls; their bytes come from sequence numbers",
		 TRY(TP, NULL, "sock_recv_length", "sock_send_length"),
		 TRY(FENTRY, NULL, "tcp_recvmsg", "tcp_sendmsg")),
	BOUNDARY(RESET_IN, "reset-in", "a reset arrives", "which end reset a connection",
		 TRY(TP, NULL, "tcp_receive_reset")),
	BOUNDARY(RESET_OUT, "reset-out", "a reset is sent", "which end reset a connection",
		 TRY(TP, NULL, "tcp_send_reset")),
	BOUNDARY(DROP, "drop", "the kernel drops a packet", "why the kernel dropped segments",
		 TRY(TP, NULL, "kfree_skb")),
	BOUNDARY(EXISTING, "existing", "existing connections",
		 "connections opened before the start", TRY(ITER, NULL, "tcp")),
	BOUNDARY(SCHED, "sched", "a task leaves its CPU", "CPU and run-queue time",
		 TRY(TP, NULL, "sched_switch", "sched_process_fork")),
	BOUNDARY(TASKS, "tasks", "existing tasks", "CPU and run-queue time",
		 TRY(ITER, NULL, "task")),
	BOUNDARY(TICK, "tick", "a task keeps its CPU",
		 "a task that keeps its CPU is counted when it leaves it",
		 TRY(TP, NULL, "sched_stat_runtime", "hrtimer_expire_exit")),
	BOUNDARY(RENAME, "rename", "a task changes its name",
		 "tasks keep the name of the task that forked them", TRY(TP, NULL, "task_rename")),
	BOUNDARY(TASK_FREE, "task-free", "a task is freed",
		 "slots of tasks whose last context switch was missed",
		 TRY(TP, NULL, "sched_process_free")),
	BOUNDARY(CGROUP_GONE, "cgroup-gone", "a cgroup is removed",
		 "slots of removed cgroups are not reused; the table fills",
		 TRY(TP, NULL, "cgroup_rmdir")),
};

static const char *const type_names[] = {"none",      "tp_btf",	    "fentry", "kprobe",
					 "netfilter", "cgroup_skb", "iter",   "derived"};

const char *tcp_hook_type_name(enum tcp_hook_type type)
{
	return type_names[type];
}

/* ---- trials ---- */

/*
 * A trial loads a program that returns a constant: 1 where this means "accept" (netfilter,
 * cgroups), otherwise 0. Only the first tracepoint is attached: permission for one implies
 * permission for all, and loading proves that the others exist (their types are in BTF). Every
 * attachment patches kernel code and waits for all CPUs, which used to dominate start-up time.
 */
static struct btf *kernel_btf; /* cached, because parsing it dominates the time of a trial */
static bool attaches;	       /* one tracepoint was attached successfully */

int tcp_hooks_begin(const struct btf **btf)
{
	char missing[64];

	*btf = NULL;
	tcp_libbpf_log();
	if (*tcp_capabilities_missing(missing, sizeof(missing)))
		return -EPERM;
	if (!kernel_btf) {
		kernel_btf = btf__load_vmlinux_btf();
		if (!kernel_btf)
			return errno == EPERM || errno == EACCES ? -EPERM : -ENOTSUP;
	}
	*btf = kernel_btf;
	return 0;
}

static int load_trial(enum bpf_prog_type type, enum bpf_attach_type attach, int btf_id, int result)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = result},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach);
	int fd;

	opts.attach_btf_id = (uint32_t)(btf_id > 0 ? btf_id : 0);
	fd = bpf_prog_load(type, "sl_trial", "Dual BSD/GPL", program,
			   sizeof(program) / sizeof(*program), &opts);
	return fd < 0 ? -errno : fd;
}

/* Closes the descriptors of a trial and returns its result. link is a descriptor or -errno. */
static int close_trial(int prog, int link)
{
	close(prog);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

static int try_btf(const char *prefix, const char *target, uint32_t kind,
		   enum bpf_attach_type attach)
{
	char name[128];
	int id, prog, link;

	snprintf(name, sizeof(name), "%s%s", prefix, target);
	id = btf__find_by_name_kind(kernel_btf, name, kind);
	if (id < 0)
		return -ENOENT;
	prog = load_trial(BPF_PROG_TYPE_TRACING, attach, id, 0);
	if (prog < 0)
		return prog;
	if (attach == BPF_TRACE_RAW_TP && attaches) {
		close(prog);
		return 0;
	}
	if (attach == BPF_TRACE_ITER)
		link = bpf_link_create(prog, 0, attach, NULL);
	else
		link = bpf_raw_tracepoint_open(NULL, prog);
	attaches |= attach == BPF_TRACE_RAW_TP && link >= 0;
	return close_trial(prog, link < 0 ? -errno : link);
}

/* Returns the PMU type that the kernel assigned to kprobes. */
static int kprobe_pmu(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "re");
	int type = -ENOENT;

	if (!f)
		return -ENOENT;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOENT;
	fclose(f);
	return type;
}

static int try_kprobe(const char *target)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	int type = kprobe_pmu(), prog, event, err = 0;

	if (type < 0)
		return type;
	prog = load_trial(BPF_PROG_TYPE_KPROBE, 0, 0, 0);
	if (prog < 0)
		return prog;
	attr.type = (uint32_t)type;
	attr.config1 = (uint64_t)(uintptr_t)target; /* config1 is an alias of kprobe_func */
	event = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return close_trial(prog, -errno);
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog))
		err = -errno;
	close(event);
	close(prog);
	return err;
}

static int try_netfilter(void)
{
	int prog = load_trial(TCP_PROG_NETFILTER, TCP_ATTACH_NETFILTER, 0, 1 /* NF_ACCEPT */);

	if (prog < 0)
		return prog;
	return close_trial(prog, tcp_netfilter_link(prog, 2 /* NFPROTO_IPV4 */));
}

static int try_cgroup(void)
{
	int cgroup, prog, link, err;

	/* The programs need the address of the skb, which is available since Linux 6.2. */
	if (btf__find_by_name_kind(kernel_btf, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC) < 0)
		return -ENOTSUP;
	cgroup = tcp_cgroup2_open();
	if (cgroup < 0)
		return cgroup;
	prog = load_trial(BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS, 0, 1);
	if (prog < 0) {
		close(cgroup);
		return prog;
	}
	link = bpf_link_create(prog, cgroup, BPF_CGROUP_INET_INGRESS, NULL);
	err = close_trial(prog, link < 0 ? -errno : link);
	close(cgroup);
	return err;
}

/*
 * Attaches an empty program to the target and removes it again. Of all tracepoints, only the first
 * is attached. Returns 0 or -errno.
 */
static int try_target(enum tcp_hook_type type, const char *target)
{
	switch (type) {
	case TCP_HOOK_TP:
		return try_btf("btf_trace_", target, BTF_KIND_TYPEDEF, BPF_TRACE_RAW_TP);
	case TCP_HOOK_FENTRY:
		return try_btf("", target, BTF_KIND_FUNC, BPF_TRACE_FENTRY);
	case TCP_HOOK_ITER:
		return try_btf("bpf_iter_", target, BTF_KIND_FUNC, BPF_TRACE_ITER);
	case TCP_HOOK_KPROBE:
		return try_kprobe(target);
	case TCP_HOOK_NETFILTER:
		return try_netfilter();
	case TCP_HOOK_CGROUP_SKB:
		return try_cgroup();
	case TCP_HOOK_DERIVED:
		return 0;
	case TCP_HOOK_NONE:
		break;
	}
	return -EINVAL;
}

/* ---- the choice ---- */

static int try_candidate(const struct tcp_hook_candidate *c, int *failed)
{
	for (int i = 0; i < TCP_HOOK_TARGETS && c->target[i]; i++) {
		int err = try_target(c->type, c->target[i]);

		if (err) {
			*failed = i;
			return err;
		}
	}
	return 0;
}

int tcp_hooks_probe(struct tcp_hooks *hooks, uint32_t boundaries, bool all)
{
	const struct btf *btf;
	int err = tcp_hooks_begin(&btf);

	memset(hooks, 0, sizeof(*hooks));
	for (int b = 0; b < TCP_BOUNDARIES; b++) {
		hooks->chosen[b] = -1;
		for (int c = 0; c < TCP_HOOK_CANDIDATES; c++)
			hooks->error[b][c] = 1;
	}
	if (err)
		return err;
	for (int b = 0; b < TCP_BOUNDARIES; b++) {
		const struct tcp_hook_candidate *c = tcp_hook_table[b].candidate;

		if (!(boundaries >> b & 1))
			continue;
		for (int i = 0; i < TCP_HOOK_CANDIDATES && c[i].type != TCP_HOOK_NONE; i++) {
			if (hooks->chosen[b] >= 0 && !all)
				break;
			hooks->error[b][i] = try_candidate(&c[i], &hooks->failed[b][i]);
			if (!hooks->error[b][i] && hooks->chosen[b] < 0)
				hooks->chosen[b] = i;
		}
	}
	return 0;
}

int tcp_hook_type_of(const char *name, enum tcp_hook_type *type)
{
	for (int t = TCP_HOOK_TP; t < TCP_HOOK_DERIVED; t++)
		if (!strcmp(name, type_names[t])) {
			*type = (enum tcp_hook_type)t;
			return 0;
		}
	return -EINVAL;
}

void tcp_hooks_avoid(struct tcp_hooks *hooks, uint32_t types)
{
	for (int b = 0; b < TCP_BOUNDARIES; b++) {
		const struct tcp_hook_candidate *c = tcp_hook_table[b].candidate;
		int i = hooks->chosen[b];

		while (i >= 0 && (hooks->error[b][i] || types >> c[i].type & 1)) {
			if (++i == TCP_HOOK_CANDIDATES || c[i].type == TCP_HOOK_NONE)
				i = -1;
		}
		hooks->chosen[b] = i;
	}
}

int tcp_hooks_choose(struct tcp_hooks *hooks, uint32_t boundaries, uint32_t avoid, char *why,
		     size_t bytes)
{
	int err = tcp_hooks_probe(hooks, boundaries, avoid != 0);

	if (err)
		tcp_hooks_refusal(err, why, bytes);
	else
		tcp_hooks_avoid(hooks, avoid);
	return err;
}

enum tcp_hook_type tcp_hook_chosen(const struct tcp_hooks *hooks, enum tcp_boundary boundary)
{
	int i = hooks->chosen[boundary];

	return i < 0 ? TCP_HOOK_NONE : tcp_hook_table[boundary].candidate[i].type;
}

const char *tcp_hook_why(enum tcp_hook_type type, int error)
{
	bool function = type == TCP_HOOK_FENTRY || type == TCP_HOOK_KPROBE;

	switch (-error) {
	case EPERM:
	case EACCES:
		return function
			       ? "not permitted: the kernel is locked down, or a capability is missing"
			       : "not permitted: a capability is missing";
	case ENOENT:
		return type == TCP_HOOK_TP ? "this kernel has no such tracepoint"
		       : function
			       ? "this kernel cannot trace that function: missing, inlined, or tracing not built in"
			       : "not there";
	case ESRCH:
		return "not described by the kernel's BTF";
	case EINVAL:
		return "this kernel lacks that type of program";
	case ENOTSUP:
	case ENOSYS:
		return "not supported by this kernel";
	case EBUSY:
		return "in use by another program";
	default:
		return strerror(-error);
	}
}

void tcp_hooks_refusal(int error, char *why, size_t bytes)
{
	char missing[64];

	if (error != -EPERM)
		snprintf(
			why, bytes,
			"no BTF in /sys/kernel/btf/vmlinux: the kernel needs CONFIG_DEBUG_INFO_BTF");
	else if (*tcp_capabilities_missing(missing, sizeof(missing)))
		snprintf(why, bytes,
			 "eBPF is not permitted: it needs %s (run as root, or grant these "
			 "capabilities to the service)",
			 missing);
	else
		snprintf(why, bytes, "eBPF is not permitted: the kernel is locked down");
}
