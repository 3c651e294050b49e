/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * common.bpf.h - code shared by the objects in this folder: the filter, the flow key, and the state
 * of a socket. Each object has its own maps.
 */
#ifndef SL_SOURCE_TCP_BPF_COMMON_BPF_H
#define SL_SOURCE_TCP_BPF_COMMON_BPF_H

#include "kernel.h"
#include "map.h"
#include "shared.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_tracing.h>

/* The filter: one element that user space maps and changes while programs run. */
MAP(tcp_filter, ARRAY, BPF_F_MMAPABLE, 1, u32, struct tcp_kernel_filter);
MAP(tcp_cidrs, LPM_TRIE, BPF_F_NO_PREALLOC, 1024, struct tcp_cidr_key, u8);
MAP(tcp_cgroups, HASH, 0, 4096, u64, u8);

/*
 * State stored with a socket. The programs of flow.bpf.c write it under the socket's lock. A socket
 * that is connecting has this state, but no id yet.
 */
struct tcp_bpf_sock {
	u64 id;	  /* id of the flow, never reused; 0 if the flow is not recorded */
	u32 slot; /* the flow's slot; less than settings.slots, so it may index arrays */
	u32 pid;  /* id of the thread group that connected; 0 if unknown */
	/* time when connect() started; 0 if the socket was not connected by connect() */
	u64 syn_ns;
	u32 syn_timeouts; /* timeouts of the SYN before the connection was established */
	/* generation of the last filter applied to the socket, plus 1; 0 if none */
	u32 judged;
	char comm[16];
	u64 ended; /* id of the socket's previous flow */
	/*
	 * 0 if the socket has not been refused a slot; otherwise quarantine_tail + 1 at that time:
	 * a changed tail means that slots were released
	 */
	u64 without_room;
};
MAP(tcp_socks, SK_STORAGE, BPF_F_NO_PREALLOC, 0, int, struct tcp_bpf_sock);

/*
 * Defines a program that is attached to `section`, has these arguments and returns the value of
 * `call`.
 */
#define HOOK(section, name, call, args...)    \
	SEC(section) int BPF_PROG(name, args) \
	{                                     \
		return call;                  \
	}

/* Programs for all places where a driver hands a packet to the stack. */
#define DRIVER_HOOKS(prefix, call)                                                             \
	HOOK("?tp_btf/napi_gro_receive_entry", prefix##_gro, call, struct sk_buff *skb)        \
	HOOK("?tp_btf/napi_gro_frags_entry", prefix##_frags, call, struct sk_buff *skb)        \
	HOOK("?tp_btf/netif_receive_skb_entry", prefix##_receive, call, struct sk_buff *skb)   \
	HOOK("?tp_btf/netif_receive_skb_list_entry", prefix##_list, call, struct sk_buff *skb) \
	HOOK("?tp_btf/netif_rx_entry", prefix##_rx, call, struct sk_buff *skb)

/*
 * Returns NULL if the socket is not recorded. Takes about 40 ns. sk must be a trusted pointer: an
 * argument of the tracepoint itself.
 */
static __always_inline struct tcp_bpf_sock *flow_of(void *sk)
{
	struct tcp_bpf_sock *s = bpf_sk_storage_get(&tcp_socks, sk, NULL, 0);

	return s && s->id ? s : NULL;
}

/*
 * Returns the lower half of an address as a number. The verifier forbids arithmetic on a pointer to
 * a kernel object, but with permission to see addresses, half of a pointer may be copied.
 */
static __always_inline u32 low(const void *p)
{
	u32 half;

	asm("%0 = %1" : "=w"(half) : "w"((u32)(u64)p));
	return half;
}

/* Returns a 32-bit hash of an address; its upper bits are better distributed. */
static __always_inline u32 address_hash(const void *p)
{
	return (low(p) >> 6) * 0x9e3779b1u;
}

/* Available since Linux 6.2; costs nothing at run time. */
extern void *bpf_rdonly_cast(const void *obj, u32 btf_id) __ksym __weak;

/*
 * Reads a field of a kernel object at any address. p may be the result of cast_to(). If
 * bpf_rdonly_cast() exists, this is a plain load, which gives 0 for an invalid address; otherwise
 * it is a helper call.
 */
#define FIELD(p, field) (bpf_rdonly_cast ? (p)->field : BPF_CORE_READ(p, field))
#define FIELD_BITS(p, field)                                \
	(bpf_rdonly_cast ? BPF_CORE_READ_BITFIELD(p, field) \
			 : BPF_CORE_READ_BITFIELD_PROBED(p, field))
/* Casts an address to a kernel object of this type, for FIELD(). */
#define cast_to(type, p)                                                                    \
	((const type *)(bpf_rdonly_cast ? bpf_rdonly_cast(p, bpf_core_type_id_kernel(type)) \
					: (const void *)(p)))

/*
 * Returns the socket as a pointer whose fields can be read without a helper call each. sk must be a
 * TCP socket, as in TCP's own hooks.
 */
static __always_inline const struct tcp_sock *tcp_fields(struct sock *sk)
{
	if (bpf_rdonly_cast)
		return bpf_rdonly_cast(sk, bpf_core_type_id_kernel(struct tcp_sock));
	return bpf_skc_to_tcp_sock(sk);
}

/* A field of TCP's skb->cb of a trusted skb, read without a helper call. */
#define TCP_CB(skb, type, field)                                          \
	(*(const type *)(__builtin_preserve_access_index(&(skb)->cb[0]) + \
			 bpf_core_field_offset(struct tcp_skb_cb, field)))

static __always_inline const struct tcp_sock *tcp_of(const void *sk)
{
	return sk;
}

static __always_inline void key_v4(u8 to[16], __be32 address)
{
	*(u64 *)to = 0;
	*(u32 *)(to + 8) = bpf_htonl(0xffff);
	*(u32 *)(to + 12) = address;
}

/* True for an IPv4-mapped address. */
static __always_inline bool is_mapped(const u8 a[16])
{
	return !*(const u64 *)a && *(const u32 *)(a + 8) == bpf_htonl(0xffff);
}

/* Fills in the key of a TCP socket. Returns false if its family is neither AF_INET nor AF_INET6. */
static __always_inline bool flow_key(const struct sock *sk, struct tcp_flow_key *key)
{
	const struct inet_sock *k = cast_to(struct inet_sock, sk);
	const struct sock_common *c = &k->sk.__sk_common;
	u16 family = FIELD(c, skc_family);

	key->pad = 0;
	key->pad2 = 0;
	key->mapped = 0;
	key->family = (u8)family;
	if (family == AF_INET) {
		key_v4(key->local, FIELD(c, skc_rcv_saddr));
		key_v4(key->remote, FIELD(c, skc_daddr));
	} else if (family == AF_INET6) {
		BPF_CORE_READ_INTO(&key->local, c, skc_v6_rcv_saddr);
		BPF_CORE_READ_INTO(&key->remote, c, skc_v6_daddr);
		if (is_mapped(key->remote)) {
			key->family = AF_INET;
			key->mapped = 1;
		}
	} else {
		return false;
	}
	key->local_port = FIELD(c, skc_num);
	/* A connection that failed has released its port. */
	if (!key->local_port)
		key->local_port = bpf_ntohs(FIELD(k, inet_sport));
	key->remote_port = bpf_ntohs(FIELD(c, skc_dport));
	key->netns = bpf_rdonly_cast ? c->skc_net.net->ns.inum
				     : BPF_CORE_READ(c, skc_net.net, ns.inum);
	key->cgroup = bpf_rdonly_cast ? k->sk.sk_cgrp_data.cgroup->kn->id
				      : BPF_CORE_READ(sk, sk_cgrp_data.cgroup, kn, id);
	return true;
}

/* The hash is equal for both directions, so both ends of a connection sample the same flows. */
static __always_inline u32 flow_hash(const struct tcp_flow_key *key)
{
	const u64 *l = (const u64 *)key->local, *r = (const u64 *)key->remote;
	u64 h = ((l[0] ^ r[0]) * 0x9e3779b97f4a7c15ull) ^ ((l[1] + r[1]) * 0xbf58476d1ce4e5b9ull);

	h ^= ((u64)(key->local_port ^ key->remote_port) << 32 |
	      (u32)(key->local_port + key->remote_port)) *
	     0x94d049bb133111ebull;
	h ^= h >> 31;
	h *= 0xd6e8feb86659fd93ull;
	return (u32)(h >> 32);
}

static __always_inline bool port_wanted(const struct tcp_kernel_filter *f, u16 port)
{
	return f->ports[port >> 6 & (TCP_PORT_WORDS - 1)] >> (port & 63) & 1;
}

static __always_inline const struct tcp_kernel_filter *filter_now(void)
{
	u32 zero = 0;

	return bpf_map_lookup_elem(&tcp_filter, &zero);
}

/* Checks everything except the pid, which is only known in process context. */
static __always_inline bool flow_wanted(const struct tcp_kernel_filter *f,
					const struct tcp_flow_key *key)
{
	if (f->netns && f->netns != key->netns)
		return false;
	if (f->by_port && !port_wanted(f, key->local_port) && !port_wanted(f, key->remote_port))
		return false;
	if (f->sample_mask && (flow_hash(key) & f->sample_mask))
		return false;
	if (f->by_cgroup && !bpf_map_lookup_elem(&tcp_cgroups, &key->cgroup))
		return false;
	if (f->by_cidr) {
		struct tcp_cidr_key k = {.prefix = 128};

		__builtin_memcpy(k.address, key->remote, 16);
		if (!bpf_map_lookup_elem(&tcp_cidrs, &k))
			return false;
	}
	return true;
}

#endif
