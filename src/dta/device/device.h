/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - what network devices send: INT, IPFIX, NetFlow and sFlow datagrams into records, and
 * records into reports by a mapping (map.h). A decoder knows no store, a mapping no protocol. One
 * worker owns a decoder; nothing here takes a lock or waits.
 *
 * A device proves nothing, so that what it sends is counted against its address alone, and nothing
 * is ever sent back to it.
 */
#ifndef SL_DTA_DEVICE_DEVICE_H
#define SL_DTA_DEVICE_DEVICE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dta/io/input.h"

/* What a record says of. */
enum dta_record_kind {
	DTA_RECORD_FLOW,     /* packets and bytes of a flow, since its last record */
	DTA_RECORD_SAMPLE,   /* a sampled packet */
	DTA_RECORD_COUNTERS, /* of an interface, since it started */
	DTA_RECORD_HOP,	     /* what one switch measured of a packet */
	DTA_RECORD_DROP,     /* a packet that a switch dropped */
	DTA_RECORD_KINDS
};

/*
 * Fields, with the name that a mapping's file calls them (device_field_name()). Numbers but for
 * addresses. IPFIX's names, in our spelling, where IPFIX has the field.
 */
enum dta_field {
	DTA_FIELD_EXPORTER,    /* address: who sent the datagram, or the agent that sFlow names */
	DTA_FIELD_SOURCE,      /* address */
	DTA_FIELD_DESTINATION, /* address */
	DTA_FIELD_NEXT_HOP,    /* address */
	DTA_FIELD_ADDRESSES,   /* number of the above; below are numbers */
	DTA_FIELD_SOURCE_PORT = DTA_FIELD_ADDRESSES,
	DTA_FIELD_DESTINATION_PORT,
	DTA_FIELD_PROTOCOL,
	DTA_FIELD_IP_VERSION,
	DTA_FIELD_DSCP,
	DTA_FIELD_TCP_FLAGS,
	DTA_FIELD_ICMP,	   /* type << 8 | code */
	DTA_FIELD_DOMAIN,  /* observation domain; NetFlow 9: source id; sFlow: sub-agent */
	DTA_FIELD_INGRESS, /* interface numbers of the device */
	DTA_FIELD_EGRESS,
	DTA_FIELD_INTERFACE, /* DTA_RECORD_COUNTERS: the interface counted */
	DTA_FIELD_VLAN,
	DTA_FIELD_SOURCE_AS,
	DTA_FIELD_DESTINATION_AS,
	DTA_FIELD_PACKETS,  /* scaled by the sampling rate, where the device told one */
	DTA_FIELD_BYTES,    /* likewise; of IP packets, or of frames for sFlow */
	DTA_FIELD_SAMPLING, /* one of this many packets; 1: all */
	DTA_FIELD_START_NS, /* of the flow, CLOCK_REALTIME */
	DTA_FIELD_END_NS,
	DTA_FIELD_IN_BYTES, /* DTA_RECORD_COUNTERS, since the device started */
	DTA_FIELD_IN_PACKETS,
	DTA_FIELD_IN_DROPS,
	DTA_FIELD_IN_ERRORS,
	DTA_FIELD_OUT_BYTES,
	DTA_FIELD_OUT_PACKETS,
	DTA_FIELD_OUT_DROPS,
	DTA_FIELD_OUT_ERRORS,
	DTA_FIELD_SPEED,       /* bits per second */
	DTA_FIELD_SWITCH,      /* INT: node id */
	DTA_FIELD_HOP,	       /* 0: the first switch of the path */
	DTA_FIELD_HOPS,	       /* of the path */
	DTA_FIELD_LATENCY_NS,  /* of the packet in the switch */
	DTA_FIELD_QUEUE,       /* its number */
	DTA_FIELD_QUEUE_DEPTH, /* in the device's unit */
	DTA_FIELD_BUFFER,      /* occupancy, in the device's unit */
	DTA_FIELD_UTILIZATION, /* of the egress port, in the device's unit */
	DTA_FIELD_DROP_REASON,
	DTA_FIELDS
};

/* As a mapping's file calls it: "flow", "sample", "counters", "hop", "drop". */
const char *dta_record_kind_name(enum dta_record_kind k);

struct dta_record {
	uint64_t has; /* bit i: field i is there */
	enum dta_record_kind kind;
	struct in6_addr address[DTA_FIELD_ADDRESSES]; /* v4 mapped */
	uint64_t number[DTA_FIELDS];		      /* below DTA_FIELD_ADDRESSES unused */
};
_Static_assert(DTA_FIELDS <= 64, "has is a word");

static inline void dta_record_set(struct dta_record *r, enum dta_field f, uint64_t n)
{
	r->number[f] = n;
	r->has |= UINT64_C(1) << f;
}

/* DTA_FIELDS: no field is called so. */
enum dta_field dta_field_find(const char *name);

/* Why a datagram, or the part of one, was not used; each cause has a counter. */
enum dta_device_refusal {
	DTA_DEVICE_FINE = 0,
	DTA_DEVICE_TRUNCATED,
	DTA_DEVICE_BAD_VERSION,
	DTA_DEVICE_BAD_LENGTH,	/* of a set, sample, template or field */
	DTA_DEVICE_NO_TEMPLATE, /* data of a template that is not known (yet) */
	DTA_DEVICE_BAD_TEMPLATE,
	DTA_DEVICE_NO_ROOM, /* beyond the exporters, or an exporter's templates, that are kept */
	DTA_DEVICE_UNSUPPORTED, /* well-formed, but nothing here reads it */
	DTA_DEVICE_REFUSALS
};
const char *dta_device_refusal_name(enum dta_device_refusal r);

struct dta_device_stats {
	uint64_t datagrams;
	uint64_t records;  /* given to the caller */
	uint64_t options;  /* records that described the exporter itself */
	uint64_t lost;	   /* by the protocol's own sequence numbers, in its unit */
	uint64_t restarts; /* of exporters, or of their numbers */
	uint64_t refused[DTA_DEVICE_REFUSALS]; /* datagrams, or sets or samples of them */
	uint64_t exporters;		       /* known now: a gauge */
	uint64_t templates;		       /* known now: a gauge */
};

struct dta_decoder;

/* The record lives until the function returns. */
typedef void dta_record_fn(void *arg, const struct dta_record *r);

struct dta_decoder_ops {
	const char *name; /* as in --input: "int", "ipfix", "netflow", "sflow" */
	uint16_t port;	  /* where devices send by default */
	/* NULL with errno ENOMEM. */
	struct dta_decoder *(*make)(void);
	/* Decodes one datagram, and calls fn for each of its records. Memory is bounded. */
	void (*take)(struct dta_decoder *d, const struct dta_datagram *in, uint64_t now_ns,
		     uint64_t real_ns, dta_record_fn *fn, void *arg);
	void (*end)(struct dta_decoder *d); /* NULL is ignored */
};

struct dta_decoder { /* the first member of a protocol's structure */
	const struct dta_decoder_ops *ops;
	struct dta_device_stats stats;
};

extern const struct dta_decoder_ops dta_decoder_int, dta_decoder_ipfix, dta_decoder_netflow,
	dta_decoder_sflow;

/* Kinds of input, in the order of accounts. */
enum dta_device {
	DTA_DEVICE_INT,
	DTA_DEVICE_IPFIX,
	DTA_DEVICE_NETFLOW,
	DTA_DEVICE_SFLOW,
	DTA_DEVICES
};
/* The decoder's name, as in --input. */
const char *dta_device_name(enum dta_device d);
/* DTA_DEVICES: no such kind of input. */
enum dta_device dta_device_find(const char *name);
/* NULL: nothing here reads it. */
const struct dta_decoder_ops *dta_device_decoder(enum dta_device d);
/* NULL: no such kind of input. */
const struct dta_decoder_ops *dta_decoder_find(const char *name);

/* ---- frame.c: the headers of a packet that a device sends a piece of ---- */

/*
 * Fills in addresses, ports, protocol, flags, VLAN and DSCP from a frame (Ethernet, VLAN tags,
 * IPv4, IPv6 with extension headers, TCP, UDP, ICMP) as far as its piece goes. Returns the length
 * of the IP packet that its header states; 0: no IP packet.
 */
uint32_t dta_frame_read(struct dta_record *r, const uint8_t *frame, size_t bytes);
/* The same from the IP header on. */
uint32_t dta_frame_read_ip(struct dta_record *r, const uint8_t *packet, size_t bytes);

#endif
