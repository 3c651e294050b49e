// SPDX-License-Identifier: Apache-2.0
/* hook.c - the table of boundaries, and the choice by trial; hook_try.c makes the trials. */
#include "source/tcp/hook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "source/tcp/hook_try.h"
#include "source/tcp/util.h"

#define TP	  TCP_HOOK_TP
#define FENTRY	  TCP_HOOK_FENTRY
#define KPROBE	  TCP_HOOK_KPROBE
#define NETFILTER TCP_HOOK_NETFILTER
/* The only candidate. */
#define TRACEPOINTS(...)                        \
	{                                       \
		{                               \
			TP, {__VA_ARGS__}, NULL \
		}                               \
	}

/*
 * Tracepoints come first: they work under lockdown and cost least. Then fentry, then the more
 * expensive kprobe, then hooks that run for every packet and see less. Each entry has a program
 * (layer.c, tcp.c). Boundaries with only a tracepoint need no alternative: each is as old as what
 * all programs need (eBPF timers and loops, 5.17), and lockdown permits it.
 */
const struct tcp_hook_boundary tcp_hook_table[TCP_BOUNDARIES] = {
	[TCP_BOUNDARY_NIC_IN] = {"nic-in",
				 "driver to the network stack",
				 "receive latency of the MAC layer",
				 {{TP,
				   {"napi_gro_receive_entry", "netif_receive_skb_entry",
				    "netif_rx_entry"},
				   NULL}}},
	[TCP_BOUNDARY_MAC_IP] = {"mac-ip",
				 "MAC to IP, receiving",
				 "MAC and IP are one layer in receive latency",
				 {{FENTRY, {"ip_rcv", "ip_list_rcv", "ipv6_rcv"}, NULL},
				  {KPROBE, {"ip_rcv", "ip_list_rcv", "ipv6_rcv"}, NULL},
				  {TP,
				   {"netif_receive_skb"},
				   "packet taps and traffic control at ingress count as IP"}}},
	[TCP_BOUNDARY_IP_TCP] =
		{"ip-tcp",
		 "IP to TCP, receiving",
		 "IP and TCP are one layer in receive latency",
		 {{FENTRY, {"tcp_v4_rcv", "tcp_v6_rcv"}, NULL},
		  {KPROBE, {"tcp_v4_rcv", "tcp_v6_rcv"}, NULL},
		  {TCP_HOOK_CGROUP_SKB, {"ingress"}, "the socket lookup counts as IP"}}},
	[TCP_BOUNDARY_TCP_APP] = {"tcp-app", "TCP to the application",
				  "receive latency of TCP, and application latency",
				  TRACEPOINTS("tcp_rcv_space_adjust")},
	[TCP_BOUNDARY_APP_TCP] = {"app-tcp",
				  "application to TCP",
				  "transmit latency of TCP, and requests",
				  {{TP, {"tcp_sendmsg_locked"}, NULL},
				   {FENTRY, {"tcp_sendmsg_locked"}, NULL}}},
	[TCP_BOUNDARY_TCP_IP] =
		{"tcp-ip",
		 "TCP to IP, sending",
		 "TCP and IP are one layer in transmit latency",
		 {{FENTRY, {"__ip_queue_xmit", "inet6_csk_xmit"}, NULL},
		  {KPROBE, {"__ip_queue_xmit", "inet6_csk_xmit"}, NULL},
		  {NETFILTER,
		   {"local-out"},
		   "building the IP header counts as TCP; a new network namespace is seen a second late"}}},
	[TCP_BOUNDARY_IP_LINK] = {"ip-link", "IP to the queueing discipline",
				  "IP and MAC are one layer in transmit latency",
				  TRACEPOINTS("net_dev_queue")},
	[TCP_BOUNDARY_LINK_NIC] = {"link-nic", "queueing discipline to the driver",
				   "transmit latency of the MAC layer",
				   TRACEPOINTS("net_dev_start_xmit")},
	[TCP_BOUNDARY_STATE] = {"state", "a connection changes its state", "everything about flows",
				TRACEPOINTS("inet_sock_set_state")},
	[TCP_BOUNDARY_CLOSE] = {"close", "a socket is destroyed",
				"slots of sockets that end without a state are freed late",
				TRACEPOINTS("tcp_destroy_sock")},
	[TCP_BOUNDARY_SEGMENT] = {"segment", "a segment arrives on a connection",
				  "statistics while a connection is open",
				  TRACEPOINTS("tcp_probe")},
	[TCP_BOUNDARY_CONGESTION] = {"congestion", "the congestion state changes",
				     "fast retransmissions and timeouts, before 6.7",
				     TRACEPOINTS("tcp_cong_state_set")},
	[TCP_BOUNDARY_RETRANSMIT] = {"retransmit", "a segment is retransmitted",
				     "some causes of retransmissions, and those of SYNs",
				     TRACEPOINTS("tcp_retransmit_skb")},
	[TCP_BOUNDARY_RTT] =
		{"rtt",
		 "a sample of the round-trip time",
		 "number and sum of samples",
		 {{TCP_HOOK_DERIVED, {"from the smoothed RTT, segment by segment"}, NULL}}},
	[TCP_BOUNDARY_CALLS] = {"calls",
				"read and write calls",
				"number of calls; their bytes come from sequence numbers",
				{{TP, {"sock_recv_length", "sock_send_length"}, NULL},
				 {FENTRY, {"tcp_recvmsg", "tcp_sendmsg"}, NULL}}},
	[TCP_BOUNDARY_RESET_IN] = {"reset-in", "a reset arrives", "who reset a connection",
				   TRACEPOINTS("tcp_receive_reset")},
	[TCP_BOUNDARY_RESET_OUT] = {"reset-out", "a reset is sent", "who reset a connection",
				    TRACEPOINTS("tcp_send_reset")},
	[TCP_BOUNDARY_EXISTING] = {"existing",
				   "existing connections",
				   "connections made before the start",
				   {{TCP_HOOK_ITER, {"tcp"}, NULL}}},
	[TCP_BOUNDARY_SCHED] = {"sched", "a task leaves its CPU", "CPU and run-queue time",
				TRACEPOINTS("sched_switch", "sched_process_fork")},
	[TCP_BOUNDARY_TASKS] = {"tasks",
				"existing tasks",
				"CPU and run-queue time",
				{{TCP_HOOK_ITER, {"task"}, NULL}}},
	[TCP_BOUNDARY_TICK] = {"tick", "a task keeps its CPU",
			       "a task that keeps its CPU is counted when it leaves it",
			       TRACEPOINTS("sched_stat_runtime")},
	[TCP_BOUNDARY_RENAME] = {"rename", "a task changes its name",
				 "tasks keep the name of what forked them",
				 TRACEPOINTS("task_rename")},
	[TCP_BOUNDARY_TASK_FREE] = {"task-free", "a task is freed",
				    "slots of tasks whose last switch was missed",
				    TRACEPOINTS("sched_process_free")},
	[TCP_BOUNDARY_CGROUP_GONE] = {"cgroup-gone", "a cgroup is removed",
				      "slots of removed cgroups are not reused; the table fills",
				      TRACEPOINTS("cgroup_rmdir")},
};

const char *tcp_hook_type_name(enum tcp_hook_type type)
{
	switch (type) {
	case TCP_HOOK_NONE:
		return "none";
	case TCP_HOOK_TP:
		return "tp_btf";
	case TCP_HOOK_FENTRY:
		return "fentry";
	case TCP_HOOK_KPROBE:
		return "kprobe";
	case TCP_HOOK_NETFILTER:
		return "netfilter";
	case TCP_HOOK_SOCK_OPS:
		return "sock_ops";
	case TCP_HOOK_CGROUP_SKB:
		return "cgroup_skb";
	case TCP_HOOK_ITER:
		return "iter";
	case TCP_HOOK_DERIVED:
		return "derived";
	}
	return "unknown";
}

static int try_candidate(const struct tcp_hook_candidate *c, int *failed)
{
	for (int i = 0; i < TCP_HOOK_TARGETS && c->target[i]; i++) {
		int err = tcp_hook_try(c->type, c->target[i]);

		if (err) {
			*failed = i;
			return err;
		}
	}
	return 0;
}

int tcp_hooks_probe(struct tcp_hooks *hooks, uint32_t boundaries, bool all)
{
	int err = tcp_hook_try_ready();

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
		if (!strcmp(name, tcp_hook_type_name((enum tcp_hook_type)t))) {
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
	case 0:
		return "works";
	case -1:
		return "not tried";
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
		return "not in the kernel's BTF";
	case EINVAL:
		return "this kernel lacks that type of program";
	case ENOTSUP:
	case ENOSYS:
		return "not supported by this kernel";
	case EBUSY:
		return "taken by another program";
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
			 "eBPF is not permitted: needs %s (root, or a service with these)",
			 missing);
	else
		snprintf(why, bytes, "eBPF is not permitted: the kernel is locked down");
}
