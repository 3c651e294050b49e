/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * kernel_shared.h - the memory between the translator in the kernel (kernel.bpf.c) and its control
 * in user space (kernel.c, output_kernel.c, translate/lease.c). Both map it.
 */
#ifndef SL_DTA_IO_KERNEL_SHARED_H
#define SL_DTA_IO_KERNEL_SHARED_H

#define KERNEL_QUEUE_BITS 6u
#define KERNEL_QUEUES	  (1u << KERNEL_QUEUE_BITS)
#define KERNEL_REPORTERS  16384u /* a power of two */
#define KERNEL_STORES	  4096u	 /* over all queues */
#define KERNEL_LISTS	  65536u /* likewise */
#define KERNEL_FLIGHT	  4096u	 /* frames in flight whose FETCH_ADDs are known; a power of two */
#define KERNEL_WRITES	  (1u << 20) /* the most frames in flight */
#define KERNEL_ACK_EVERY  64u
#define KERNEL_PSN	  0xffffffu
#define KERNEL_JUMP	  (1u << 20) /* reports that may be missing at a time */

/* Frames by their shape: 0 is FETCH_ADD, N a WRITE of N words of 8 bytes. */
#define KERNEL_SHAPES 6u
#define KERNEL_HEAD   50u /* bytes of a frame before its PSN: Ethernet, IPv4, UDP, BTH */

struct dta_kernel_shape {
	__u8 head[56];
	__u32 crc; /* over the head, as libdeflate has it */
	__u32 bytes;
};

/* Why a packet was left to user space. */
enum dta_kernel_pass {
	KERNEL_PASS_PACKET, /* another family, a wrong checksum or header, several reports, a MAC or
			       flags */
	KERNEL_PASS_STORE,  /* no such store in the kernel, or lengths that it does not know */
	KERNEL_PASS_ORDER,  /* not the reporter's next report */
	KERNEL_PASS_FULL,   /* too many frames in flight */
	KERNEL_PASS_DOWN,   /* no queue pair */
	KERNEL_PASSES
};

/* A receive queue's queue pair. One CPU at a time runs the program for a queue. */
struct dta_kernel_queue {
	/* user space writes */
	__u32 open;
	__u32 interface; /* frames leave by it */
	__u32 adds_max;	 /* FETCH_ADDs in flight */
	__u32 qpn;	 /* its lower KERNEL_QUEUE_BITS are the queue's number */
	__u32 peer;	 /* IPv4 address, in network order */
	__u64 line[5];
	__u32 pad;
	/* both: the first PSN that is not acknowledged, and the next PSN in its lower 24 bits; user
	 * space sets it back */
	__u32 acked, psn;
	/* the program writes */
	__u32 adds; /* FETCH_ADDs sent, modulo 2^32 */
	__u32 zero;
	__u64 frames, sent_adds, bytes, keywrites;
	__u64 failed; /* taken, but without a frame */
	__u64 passed[KERNEL_PASSES];
	__u32 adds_at[KERNEL_FLIGHT]; /* by PSN: FETCH_ADDs sent before it */
	struct dta_kernel_shape shape[KERNEL_SHAPES];
};

/*
 * A reporter whose reports the kernel takes, from the next one on; older ones are user space's.
 * state: the kind in the upper half, the sequence number that comes next in the lower.
 */
#define KERNEL_FREE		 0u
#define KERNEL_BUSY		 1u /* user space takes its reports */
#define KERNEL_LEASED		 2u
#define KERNEL_TAKING		 3u /* the kernel is about to, and tells of it first */
#define KERNEL_STATE(kind, next) ((__u64)(kind) << 32 | (__u32)(next))

struct dta_kernel_reporter {
	__u64 state;
	__u32 address; /* network order */
	__u32 reporter, incarnation;
	__u16 tenant, port;
	__u64 rest[5];
};

/* Of a reporter at this place, the kernel did not see `missing` reports; 0: it has begun. */
struct dta_kernel_event {
	__u32 place, first, missing, zero;
};

static inline __u32 dta_kernel_place(__u32 address, __u16 tenant, __u32 reporter)
{
	__u64 x = ((__u64)address << 32 | reporter) ^ (__u64)tenant << 20;

	x *= 0x9e3779b97f4a7c15ull;
	x ^= x >> 29;
	x *= 0xbf58476d1ce4e5b9ull;
	return (__u32)(x >> 32) & (KERNEL_REPORTERS - 1);
}

/* A store, by queue, tenant and number. */
#define KERNEL_STORE_KEY(queue, tenant, number) \
	((__u64)(queue) << 48 | (__u64)(tenant) << 16 | (number))
#define KERNEL_LIST_KEY(store_key, list) ((store_key) | (__u64)(list) << 32)
struct dta_kernel_store {
	__u64 seed, slots;
	__u64 addr;	  /* of the bank; append: of this lane of list 0 */
	__u64 list_bytes; /* from one list to the next */
	__u32 rkey, kind, value_bytes, lists, lane;
	__u32 zero;
};

#endif
