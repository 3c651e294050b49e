/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device.h - decodes datagrams from network devices (INT, IPFIX, NetFlow, sFlow) into records,
 * which a mapping (map.h) turns into reports. A decoder knows nothing about stores, and a mapping
 * nothing about protocols. One worker owns a decoder; nothing here takes a lock or waits.
 *
 * Devices do not authenticate themselves. A datagram is therefore charged to its source address
 * alone, and nothing is ever sent back to a device.
 */
#ifndef SL_DTA_DEVICE_DEVICE_H
#define SL_DTA_DEVICE_DEVICE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dta/io/input.h"

/* Kinds of records. */
enum dta_record_kind {
	DTA_RECORD_FLOW,     /* packets and bytes of a flow since its previous record */
	DTA_RECORD_SAMPLE,   /* a sampled packet */
	DTA_RECORD_COUNTERS, /* counters of an interface since the device started */
	DTA_RECORD_HOP,	     /* measurements of a packet by one switch */
	DTA_RECORD_DROP,     /* a packet that the switch dropped */
	DTA_RECORD_KINDS
};

/*
 * Fields of a record. device_field_name() returns the name of each field in a mapping file. All
 * fields are numbers except the addresses. Fields that IPFIX defines have the IPFIX name in our
 * spelling.
 */
enum dta_field {
	/* address of the datagram's sender, or of the agent that sFlow names */
	DTA_FIELD_EXPORTER,
	DTA_FIELD_SOURCE,      /* address */
	DTA_FIELD_DESTINATION, /* address */
	DTA_FIELD_NEXT_HOP,    /* address */
	DTA_FIELD_ADDRESSES,   /* number of address fields; all later fields are numbers */
	DTA_FIELD_SOURCE_PORT = DTA_FIELD_ADDRESSES,
	DTA_FIELD_DESTINATION_PORT,
	DTA_FIELD_PROTOCOL,
	DTA_FIELD_IP_VERSION,
	DTA_FIELD_DSCP,
	DTA_FIELD_TCP_FLAGS,
	DTA_FIELD_ICMP,	   /* type << 8 | code */
	DTA_FIELD_DOMAIN,  /* observation domain; NetFlow 9: source ID; sFlow: sub-agent */
	DTA_FIELD_INGRESS, /* interface number on the device */
	DTA_FIELD_EGRESS,
	DTA_FIELD_INTERFACE, /* number of the counted interface (DTA_RECORD_COUNTERS) */
	DTA_FIELD_VLAN,
	DTA_FIELD_SOURCE_AS,
	DTA_FIELD_DESTINATION_AS,
	/* number of packets, scaled by the sampling rate if the device states one */
	DTA_FIELD_PACKETS,
	/* number of bytes, scaled in the same way: IP bytes, or with sFlow whole frames */
	DTA_FIELD_BYTES,
	DTA_FIELD_SAMPLING, /* one in this many packets is sampled; 1 means every packet */
	DTA_FIELD_START_NS, /* start of the flow, CLOCK_REALTIME */
	DTA_FIELD_END_NS,
	DTA_FIELD_IN_BYTES, /* bytes received since the device started (DTA_RECORD_COUNTERS) */
	DTA_FIELD_IN_PACKETS,
	DTA_FIELD_IN_DROPS,
	DTA_FIELD_IN_ERRORS,
	DTA_FIELD_OUT_BYTES,
	DTA_FIELD_OUT_PACKETS,
	DTA_FIELD_OUT_DROPS,
	DTA_FIELD_OUT_ERRORS,
	DTA_FIELD_SPEED,       /* link speed in bits per second */
	DTA_FIELD_SWITCH,      /* INT node ID */
	DTA_FIELD_HOP,	       /* 0 means the first switch on the path */
	DTA_FIELD_HOPS,	       /* number of hops on the path */
	DTA_FIELD_LATENCY_NS,  /* time that the packet spent in the switch */
	DTA_FIELD_QUEUE,       /* queue number */
	DTA_FIELD_QUEUE_DEPTH, /* queue depth in the device's unit */
	DTA_FIELD_BUFFER,      /* buffer occupancy in the device's unit */
	DTA_FIELD_UTILIZATION, /* utilisation of the egress port in the device's unit */
	DTA_FIELD_DROP_REASON,
	DTA_FIELDS
};

/* Returns the name used in mapping files: "flow", "sample", "counters", "hop" or "drop". */
const char *dta_record_kind_name(enum dta_record_kind k);

struct dta_record {
	uint64_t has; /* bit i: field i is set */
	enum dta_record_kind kind;
	struct in6_addr address[DTA_FIELD_ADDRESSES]; /* IPv4 addresses are v4-mapped */
	uint64_t number[DTA_FIELDS]; /* entries below DTA_FIELD_ADDRESSES are unused */
};
_Static_assert(DTA_FIELDS <= 64, "has is a word");

static inline void dta_record_set(struct dta_record *r, enum dta_field f, uint64_t n)
{
	r->number[f] = n;
	r->has |= UINT64_C(1) << f;
}

/* Returns DTA_FIELDS if no field has this name. */
enum dta_field dta_field_find(const char *name);

/* Reasons for refusing a datagram or a part of one; each has a counter. */
enum dta_device_refusal {
	DTA_DEVICE_FINE = 0,
	DTA_DEVICE_TRUNCATED,
	DTA_DEVICE_BAD_VERSION,
	DTA_DEVICE_BAD_LENGTH,	/* bad length of a set, sample, template or field */
	DTA_DEVICE_NO_TEMPLATE, /* data whose template is not known (yet) */
	DTA_DEVICE_BAD_TEMPLATE,
	/* no room for another exporter, or for another template of this exporter */
	DTA_DEVICE_NO_ROOM,
	DTA_DEVICE_UNSUPPORTED, /* well-formed, but no decoder supports it */
	DTA_DEVICE_REFUSALS
};
const char *dta_device_refusal_name(enum dta_device_refusal r);

struct dta_device_stats {
	uint64_t datagrams;
	uint64_t records;  /* records given to the caller */
	uint64_t options;  /* option records, which describe the exporter itself */
	uint64_t lost;	   /* units lost, by the protocol's sequence numbers and in its own unit */
	uint64_t restarts; /* restarts of exporters or of their sequence numbers */
	uint64_t refused[DTA_DEVICE_REFUSALS]; /* datagrams, sets and samples refused, by cause */
	uint64_t exporters;		       /* exporters known now (a gauge) */
	uint64_t templates;		       /* templates known now (a gauge) */
};

struct dta_decoder;

/* The record is valid until the function returns. */
typedef void dta_record_fn(void *arg, const struct dta_record *r);

struct dta_decoder_ops {
	const char *name; /* name in --input: "int", "ipfix", "netflow" or "sflow" */
	uint16_t port;	  /* default port of devices */
	/* Returns NULL with errno ENOMEM. */
	struct dta_decoder *(*make)(void);
	/* Decodes one datagram and calls fn for each of its records. Memory is bounded. */
	void (*take)(struct dta_decoder *d, const struct dta_datagram *in, uint64_t now_ns,
		     uint64_t real_ns, dta_record_fn *fn, void *arg);
	void (*end)(struct dta_decoder *d); /* NULL is ignored */
};

struct dta_decoder { /* first member of each protocol's structure */
	const struct dta_decoder_ops *ops;
	struct dta_device_stats stats;
};

extern const struct dta_decoder_ops dta_decoder_int, dta_decoder_ipfix, dta_decoder_netflow,
	dta_decoder_sflow;

/* Kinds of input, in the order used in accounts. */
enum dta_device {
	DTA_DEVICE_INT,
	DTA_DEVICE_IPFIX,
	DTA_DEVICE_NETFLOW,
	DTA_DEVICE_SFLOW,
	DTA_DEVICES
};
/* Returns the decoder's name in --input. */
const char *dta_device_name(enum dta_device d);
/* Returns DTA_DEVICES if there is no such kind of input. */
enum dta_device dta_device_find(const char *name);
/* Returns NULL if no decoder reads this kind of input. */
const struct dta_decoder_ops *dta_device_decoder(enum dta_device d);
/* Returns NULL if no decoder has this name. */
const struct dta_decoder_ops *dta_decoder_find(const char *name);

/* ---- frame.c: headers of possibly truncated packets ---- */

/*
 * Fills in addresses, ports, protocol, flags, VLAN and DSCP from a possibly truncated frame
 * (Ethernet, VLAN tags, IPv4, IPv6 with extension headers, TCP, UDP, ICMP). Returns the length of
 * the IP packet according to its header, or 0 if there is no IP packet.
 */
uint32_t dta_frame_read(struct dta_record *r, const uint8_t *frame, size_t bytes);
/* Like dta_frame_read(), but starts at the IP header. */
uint32_t dta_frame_read_ip(struct dta_record *r, const uint8_t *packet, size_t bytes);

#endif
