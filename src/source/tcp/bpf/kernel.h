/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * kernel.h - the kernel types that the programs use, reduced to the fields they read. CO-RE locates
 * each field in the running kernel, so building needs neither vmlinux.h nor BTF. A field that some
 * kernels lack is guarded by bpf_core_field_exists(); a field that is a bit field in some kernels
 * only is read with BPF_CORE_READ_BITFIELD_PROBED.
 */
#ifndef SL_SOURCE_TCP_BPF_KERNEL_H
#define SL_SOURCE_TCP_BPF_KERNEL_H

#include <stdbool.h>
#include <stddef.h>

#include <linux/bpf.h>
#include <linux/in6.h>
#include <linux/tcp.h>

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __u64 u64;
typedef __s32 s32;
typedef __s64 s64;

#define AF_INET	    2
#define AF_INET6    10
#define IPPROTO_TCP 6
#define ETH_P_IP    0x0800
#define ETH_P_IPV6  0x86dd
#define IP_FRAGMENT 0x3fff /* more fragments follow, or an offset in frag_off */

/* include/net/tcp_states.h */
enum {
	TCP_ESTABLISHED = 1,
	TCP_SYN_SENT,
	TCP_SYN_RECV,
	TCP_FIN_WAIT1,
	TCP_FIN_WAIT2,
	TCP_TIME_WAIT,
	TCP_CLOSE,
	TCP_CLOSE_WAIT,
	TCP_LAST_ACK,
	TCP_LISTEN,
	TCP_CLOSING,
	TCP_NEW_SYN_RECV,
};

/* include/uapi/linux/tcp.h and include/net/inet_connection_sock.h */
#define CA_RECOVERY   3
#define CA_LOSS	      4
#define ACK_SCHEDULED 1 /* ICSK_ACK_SCHED in icsk_ack.pending */
#define ECN_OK	      1 /* TCP_ECN_OK in ecn_flags */
#define SOCK_DEAD_BIT 0 /* SOCK_DEAD in enum sock_flags: no process holds the socket */
#define NAGLE_OFF     1 /* TCP_NAGLE_OFF in nonagle */
#define NAGLE_CORK    2 /* TCP_NAGLE_CORK in nonagle */
#define SOCK_DONE_BIT 1 /* SOCK_DONE in enum sock_flags: a FIN arrived */
#define TH_FIN	      1
#define TH_SYN	      2

/* Access memory that others may write or read concurrently. */
#define READ(x)	    (*(const volatile typeof(x) *)&(x))
#define WRITE(x, v) (*(volatile typeof(x) *)&(x) = (v))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct atomic_t___sl {
	int counter;
};

struct ns_common {
	unsigned int inum;
};

struct net {
	struct ns_common ns;
};

typedef struct {
	struct net *net;
} possible_net_t;

typedef struct {
	struct atomic_t___sl refs;
} refcount_t;

struct sock_common {
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	u32 skc_hash; /* hash of addresses and ports, constant during the socket's lifetime */
	__be16 skc_dport;
	u16 skc_num;
	unsigned short skc_family;
	volatile unsigned char skc_state;
	possible_net_t skc_net;
	unsigned long skc_flags;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	refcount_t skc_refcnt;
};

struct kernfs_node {
	u64 id;
};

struct cgroup_root {
	int hierarchy_id; /* number of the hierarchy; 0 means the unified hierarchy */
};

struct cgroup {
	struct kernfs_node *kn;
	int level;
	struct cgroup_root *root;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};

struct css_set {
	struct cgroup_subsys_state *subsys[1];
	struct cgroup *dfl_cgrp;
};

struct sched_entity {
	u64 sum_exec_runtime;
	u64 nr_migrations;
};

struct sched_info {
	unsigned long pcount;
	unsigned long long run_delay;
};

struct task_struct {
	unsigned int __state;
	unsigned int flags;
	struct sched_entity se;
	struct sched_info sched_info;
	int pid;
	int tgid;
	struct task_struct *group_leader;
	unsigned long nvcsw;
	unsigned long nivcsw;
	u64 start_boottime;
	char comm[16];
	struct css_set *cgroups;
};

/* Linux before 5.14 */
struct task_struct___old {
	long state;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

typedef struct {
	struct {
		struct {
			struct {
				struct atomic_t___sl val;
			} raw_lock;
		} rlock;
	} slock;
	int owned;
} socket_lock_t;

struct sock {
	struct sock_common __sk_common;
	struct atomic_t___sl sk_drops;
	socket_lock_t sk_lock;
	int sk_wmem_queued;
	int sk_sndbuf;
	int sk_rcvbuf;
	u32 sk_ack_backlog;
	u32 sk_max_ack_backlog;
	u16 sk_protocol;
	struct socket *sk_socket;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	int sk_err;
	struct sock_cgroup_data sk_cgrp_data;
};

struct inet_sock {
	struct sock sk;
	__be16 inet_sport;
};

struct tcp_congestion_ops {
	char name[16];
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	const struct tcp_congestion_ops *icsk_ca_ops;
	u32 icsk_rto;
	u8 icsk_ca_state : 5;
	u8 icsk_retransmits, icsk_backoff, icsk_probes_out;
	u32 icsk_user_timeout;
	u8 icsk_pending; /* type of the running timer; 0 if none, as inside the timer's callback */
	struct {
		u8 pending;
		u32 lrcvtime;
	} icsk_ack;
};

struct minmax_sample {
	u32 t;
	u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_wnd, mss_cache, snd_cwnd, snd_ssthresh;
	u32 copied_seq, rcv_nxt, snd_una, snd_nxt, write_seq;
	u32 lsndtime, max_window, lost_out, retrans_out;
	u8 nonagle : 4;
	bool is_mptcp; /* without CONFIG_MPTCP, the field does not exist */
	u32 lost, packets_out, rcv_wnd, delivered, delivered_ce;
	u32 segs_out, data_segs_out, segs_in, data_segs_in;
	u64 bytes_sent, bytes_received, bytes_acked, bytes_retrans;
	u32 total_retrans, dsack_dups, reord_seen, rcv_ooopack;
	u16 total_rto;
	u32 srtt_us, mdev_us;
	struct minmax rtt_min;
	u8 chrono_type : 2;
	u32 chrono_start, chrono_stat[3];
	u8 ecn_flags;
};

struct sk_buff {
	struct net_device *dev;
	unsigned int len;
	unsigned int data_len;
	__be16 protocol;
	u16 transport_header;
	u16 network_header;
	unsigned int end;
	unsigned char *head;
	unsigned char *data;
	char cb[48];
	struct sock *sk;
};

struct tcp_skb_cb {
	u32 seq;
	u32 end_seq;
	u16 tcp_flags;
	u8 sacked;
	u8 ip_dsfield;
	u32 ack_seq;
};

/*
 * Only the values used here; their numbers depend on the kernel, so read them with
 * bpf_core_enum_value().
 */
enum skb_drop_reason {
	SKB_DROP_REASON_NOT_SPECIFIED = 2,
	SKB_DROP_REASON_QUEUE_PURGE = 104,
};

struct iphdr___sl {
	u8 ihl : 4;
	__be16 tot_len, frag_off;
	u8 protocol;
	__be32 saddr, daddr;
};

struct ipv6hdr___sl {
	__be16 payload_len;
	u8 nexthdr;
	struct in6_addr saddr, daddr;
};

struct hrtimer {
	u8 is_soft;
};

struct bpf_iter__tcp {
	struct sock_common *sk_common;
};

struct bpf_iter__task {
	struct task_struct *task;
};

struct inode {
	unsigned long i_ino;
};

struct file {
	struct inode *f_inode;
};

struct socket {
	struct sock *sk;
};

struct socket_alloc {
	struct socket socket;
	struct inode vfs_inode;
};

struct bpf_iter__task_file {
	struct task_struct *task;
	struct file *file;
};

#pragma clang attribute pop

#endif
