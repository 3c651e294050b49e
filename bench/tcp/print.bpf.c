// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/*
 * print.bpf.c - the peer of tcp.bcc. Like a BCC script, it writes a record to the perf buffer for
 * each incoming segment, and a process reads and prints the records.
 */
#include "source/tcp/bpf/common.bpf.h"

#include "print.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

struct {
	__uint(type, BPF_MAP_TYPE_PERF_EVENT_ARRAY);
	__uint(key_size, 4);
	__uint(value_size, 4);
} events SEC(".maps");

SEC("tp_btf/tcp_probe")
int BPF_PROG(print_segment, struct sock *sk, struct sk_buff *skb)
{
	const struct sock_common *c = &sk->__sk_common;
	struct print_event e = {.ns = bpf_ktime_get_ns()};
	const struct tcp_sock *tp = bpf_skc_to_tcp_sock(sk);

	if (!tp)
		return 0;
	e.local = c->skc_rcv_saddr;
	e.remote = c->skc_daddr;
	e.local_port = c->skc_num;
	e.remote_port = bpf_ntohs(c->skc_dport);
	e.pid = (u32)(bpf_get_current_pid_tgid() >> 32);
	e.length = skb->len;
	e.snd_nxt = tp->snd_nxt;
	e.rcv_nxt = tp->rcv_nxt;
	e.cwnd = tp->snd_cwnd;
	e.srtt = tp->srtt_us >> 3;
	bpf_get_current_comm(e.comm, sizeof(e.comm));
	bpf_perf_event_output(ctx, &events, BPF_F_CURRENT_CPU, &e, sizeof(e));
	return 0;
}
