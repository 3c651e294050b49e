// SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause)
/* flow.bpf.c - which sockets are looked at, and their statistics. */
#include "common.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

__u64 next_id = 1; /* __u64: the skeleton names the type, too */

SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(flow_state, struct sock *sk, int old, int new)
{
	const struct sl_tcp_filter *f = filter_now();
	struct sl_flow_key key;
	struct sl_sock *s;

	if (new != TCP_ESTABLISHED || !f || BPF_CORE_READ(sk, sk_protocol) != IPPROTO_TCP)
		return 0;
	if (!flow_key(sk, &key) || !flow_wanted(f, &key))
		return 0;
	s = bpf_sk_storage_get(&tcp_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (s) {
		s->generation = f->generation;
		s->id = __sync_fetch_and_add(&next_id, 1);
	}
	return 0;
}
