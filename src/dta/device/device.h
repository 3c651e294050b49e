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
	DTA_RECORD_NAME,     /* the name of an interface, application or VRF of the device */
	DTA_RECORD_KINDS
};

/*
 * Fields of a record: addresses, numbers and texts, in this order; record.c has their names in
 * mapping files.
 */
enum dta_field {
	/* address of the datagram's sender, or of the agent that sFlow names */
	DTA_FIELD_EXPORTER,
	DTA_FIELD_SOURCE,      /* address */
	DTA_FIELD_DESTINATION, /* address */
	DTA_FIELD_NEXT_HOP,    /* address */
	/* outer addresses of the tunnel that carries the flow's packets */
	DTA_FIELD_TUNNEL_SOURCE,
	DTA_FIELD_TUNNEL_DESTINATION,
	DTA_FIELD_NAT_SOURCE, /* addresses after translation */
	DTA_FIELD_NAT_DESTINATION,
	DTA_FIELD_ADDRESSES, /* number of address fields */
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
	DTA_FIELD_TOS, /* IPv4 type of service or IPv6 traffic class */
	DTA_FIELD_TTL,
	DTA_FIELD_SOURCE_MAC, /* 48 bits */
	DTA_FIELD_DESTINATION_MAC,
	DTA_FIELD_SOURCE_PREFIX, /* length of the route's prefix */
	DTA_FIELD_DESTINATION_PREFIX,
	DTA_FIELD_INGRESS_VRF,
	DTA_FIELD_EGRESS_VRF,
	DTA_FIELD_MPLS_LABEL, /* top label */
	DTA_FIELD_MPLS_LABEL_2,
	DTA_FIELD_MPLS_LABEL_3,
	DTA_FIELD_CUSTOMER_VLAN, /* inner tag, if there are two */
	DTA_FIELD_TUNNEL_ID,	 /* VXLAN or Geneve network identifier, or GRE key */
	DTA_FIELD_NAT_SOURCE_PORT,
	DTA_FIELD_NAT_DESTINATION_PORT,
	DTA_FIELD_NAT_EVENT,
	DTA_FIELD_FIREWALL_EVENT,
	DTA_FIELD_DIRECTION,	     /* 0 means ingress, 1 egress */
	DTA_FIELD_FORWARDING_STATUS, /* RFC 7270, section 4.12 */
	DTA_FIELD_END_REASON,
	DTA_FIELD_APPLICATION, /* engine << 24 | selector with 4 bytes (RFC 6759) */
	DTA_FIELD_OBSERVATION_POINT,
	DTA_FIELD_NEXT_AS, /* first AS on the path to the destination */
	DTA_FIELD_PREVIOUS_AS,
	DTA_FIELD_NUMBERS, /* fields from here on are texts */
	DTA_FIELD_NAME = DTA_FIELD_NUMBERS,
	DTA_FIELD_DESCRIPTION,
	DTA_FIELDS
};

/* Returns the name used in mapping files: "flow", "sample", "counters", "hop", "drop" or "name". */
const char *dta_record_kind_name(enum dta_record_kind k);

__extension__ typedef unsigned __int128 dta_field_set; /* bit i: field i */
#define DTA_FIELD_BIT(f) ((dta_field_set)1 << (f))

struct dta_text { /* bytes of the datagram */
	const uint8_t *at;
	size_t bytes;
};

struct dta_record {
	dta_field_set has;
	enum dta_record_kind kind;
	struct in6_addr address[DTA_FIELD_ADDRESSES]; /* IPv4 addresses are v4-mapped */
	uint64_t number[DTA_FIELD_NUMBERS]; /* entries below DTA_FIELD_ADDRESSES are unused */
	struct dta_text text[DTA_FIELDS - DTA_FIELD_NUMBERS];
};
_Static_assert(DTA_FIELDS <= 128, "a set has 128 bits");

static inline void dta_record_set(struct dta_record *r, enum dta_field f, uint64_t n)
{
	r->number[f] = n;
	r->has |= DTA_FIELD_BIT(f);
}

/* Returns DTA_FIELDS if no field has this name. */
enum dta_field dta_field_find(const char *name);
uint32_t dta_field_bytes(enum dta_field f); /* default size of a field in a report */
const char *dta_field_name(enum dta_field f);

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
	/* a sampled packet in which no IP header can be read */
	DTA_DEVICE_NO_PACKET,
	DTA_DEVICE_BAD_ELEMENT, /* a template states a length for an element that cannot be read */
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
struct dta_paths; /* paths.h */

/* The record is valid until the function returns. */
typedef void dta_record_fn(void *arg, const struct dta_record *r);

struct dta_decoder_ops {
	const char *name; /* name in --input: "int", "ipfix", "netflow" or "sflow" */
	uint16_t port;	  /* default port of devices */
	struct dta_decoder *(*make)(struct dta_paths *paths); /* used by dta_decoder_new() */
	/* Used by dta_decoder_take(). Returns why the datagram is refused, or DTA_DEVICE_FINE. */
	enum dta_device_refusal (*take)(struct dta_decoder *d, const struct dta_datagram *in,
					uint64_t now_ns);
	/*
	 * Calls fn for each delayed record that is due by now_ns; UINT64_MAX means all of them.
	 * Call it at least every 20 ms. May be NULL.
	 */
	void (*flush)(struct dta_decoder *d, uint64_t now_ns);
	void (*end)(struct dta_decoder *d); /* NULL is ignored */
};

struct dta_decoder { /* first member of each protocol's structure */
	const struct dta_decoder_ops *ops;
	dta_record_fn *fn;
	void *arg;
	struct dta_device_stats stats;
};

/*
 * Creates a decoder that calls fn for each record. paths: the INT paths that all workers of the
 * process share; if NULL, the decoder creates its own. Returns NULL if out of memory.
 */
struct dta_decoder *dta_decoder_new(const struct dta_decoder_ops *ops, struct dta_paths *paths,
				    dta_record_fn *fn, void *arg);
/* Decodes one datagram. Memory is bounded. */
void dta_decoder_take(struct dta_decoder *d, const struct dta_datagram *in, uint64_t now_ns);

/* Called by decoders: counts a record, and passes it to fn. */
static inline void dta_decoder_give(struct dta_decoder *d, const struct dta_record *r)
{
	d->stats.records++;
	d->fn(d->arg, r);
}

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
/* Returns NULL for DTA_DEVICES. */
const struct dta_decoder_ops *dta_device_decoder(enum dta_device d);

#endif
