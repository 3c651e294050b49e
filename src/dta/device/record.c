// SPDX-License-Identifier: Apache-2.0
/* record.c - names of records, fields and refusals, and the list of decoders */
#include "dta/device/device.h"

#include <string.h>

static const struct {
	const char *name;
	uint32_t bytes; /* size of the IPFIX element or INT metadata */
} fields[DTA_FIELDS] = {
	[DTA_FIELD_EXPORTER] = {"exporter", 16},
	[DTA_FIELD_SOURCE] = {"source", 16},
	[DTA_FIELD_DESTINATION] = {"destination", 16},
	[DTA_FIELD_NEXT_HOP] = {"next-hop", 16},
	[DTA_FIELD_SOURCE_PORT] = {"source-port", 2},
	[DTA_FIELD_DESTINATION_PORT] = {"destination-port", 2},
	[DTA_FIELD_PROTOCOL] = {"protocol", 1},
	[DTA_FIELD_IP_VERSION] = {"ip-version", 1},
	[DTA_FIELD_DSCP] = {"dscp", 1},
	[DTA_FIELD_TCP_FLAGS] = {"tcp-flags", 2},
	[DTA_FIELD_ICMP] = {"icmp", 2},
	[DTA_FIELD_DOMAIN] = {"domain", 4},
	[DTA_FIELD_INGRESS] = {"ingress", 4},
	[DTA_FIELD_EGRESS] = {"egress", 4},
	[DTA_FIELD_INTERFACE] = {"interface", 4},
	[DTA_FIELD_VLAN] = {"vlan", 2},
	[DTA_FIELD_SOURCE_AS] = {"source-as", 4},
	[DTA_FIELD_DESTINATION_AS] = {"destination-as", 4},
	[DTA_FIELD_PACKETS] = {"packets", 8},
	[DTA_FIELD_BYTES] = {"bytes", 8},
	[DTA_FIELD_SAMPLING] = {"sampling", 4},
	[DTA_FIELD_START_NS] = {"start-ns", 8},
	[DTA_FIELD_END_NS] = {"end-ns", 8},
	[DTA_FIELD_IN_BYTES] = {"in-bytes", 8},
	[DTA_FIELD_IN_PACKETS] = {"in-packets", 8},
	[DTA_FIELD_IN_DROPS] = {"in-drops", 8},
	[DTA_FIELD_IN_ERRORS] = {"in-errors", 8},
	[DTA_FIELD_OUT_BYTES] = {"out-bytes", 8},
	[DTA_FIELD_OUT_PACKETS] = {"out-packets", 8},
	[DTA_FIELD_OUT_DROPS] = {"out-drops", 8},
	[DTA_FIELD_OUT_ERRORS] = {"out-errors", 8},
	[DTA_FIELD_SPEED] = {"speed", 8},
	[DTA_FIELD_SWITCH] = {"switch", 4},
	[DTA_FIELD_HOP] = {"hop", 1},
	[DTA_FIELD_HOPS] = {"hops", 1},
	[DTA_FIELD_LATENCY_NS] = {"latency-ns", 4},
	[DTA_FIELD_QUEUE] = {"queue", 1},
	[DTA_FIELD_QUEUE_DEPTH] = {"queue-depth", 4},
	[DTA_FIELD_BUFFER] = {"buffer", 4},
	[DTA_FIELD_UTILIZATION] = {"utilization", 4},
	[DTA_FIELD_DROP_REASON] = {"drop-reason", 2},
	[DTA_FIELD_TUNNEL_SOURCE] = {"tunnel-source", 16},
	[DTA_FIELD_TUNNEL_DESTINATION] = {"tunnel-destination", 16},
	[DTA_FIELD_NAT_SOURCE] = {"nat-source", 16},
	[DTA_FIELD_NAT_DESTINATION] = {"nat-destination", 16},
	[DTA_FIELD_TOS] = {"tos", 1},
	[DTA_FIELD_TTL] = {"ttl", 1},
	[DTA_FIELD_SOURCE_MAC] = {"source-mac", 6},
	[DTA_FIELD_DESTINATION_MAC] = {"destination-mac", 6},
	[DTA_FIELD_SOURCE_PREFIX] = {"source-prefix", 1},
	[DTA_FIELD_DESTINATION_PREFIX] = {"destination-prefix", 1},
	[DTA_FIELD_INGRESS_VRF] = {"ingress-vrf", 4},
	[DTA_FIELD_EGRESS_VRF] = {"egress-vrf", 4},
	[DTA_FIELD_MPLS_LABEL] = {"mpls-label", 4},
	[DTA_FIELD_MPLS_LABEL_2] = {"mpls-label-2", 4},
	[DTA_FIELD_MPLS_LABEL_3] = {"mpls-label-3", 4},
	[DTA_FIELD_CUSTOMER_VLAN] = {"customer-vlan", 2},
	[DTA_FIELD_TUNNEL_ID] = {"tunnel-id", 4},
	[DTA_FIELD_NAT_SOURCE_PORT] = {"nat-source-port", 2},
	[DTA_FIELD_NAT_DESTINATION_PORT] = {"nat-destination-port", 2},
	[DTA_FIELD_NAT_EVENT] = {"nat-event", 1},
	[DTA_FIELD_FIREWALL_EVENT] = {"firewall-event", 1},
	[DTA_FIELD_DIRECTION] = {"direction", 1},
	[DTA_FIELD_FORWARDING_STATUS] = {"forwarding-status", 1},
	[DTA_FIELD_END_REASON] = {"end-reason", 1},
	[DTA_FIELD_APPLICATION] = {"application", 4},
	[DTA_FIELD_OBSERVATION_POINT] = {"observation-point", 8},
	[DTA_FIELD_NEXT_AS] = {"next-as", 4},
	[DTA_FIELD_PREVIOUS_AS] = {"previous-as", 4},
	[DTA_FIELD_NAME] = {"name", 32},
	[DTA_FIELD_DESCRIPTION] = {"description", 32},
};

enum dta_field dta_field_find(const char *name)
{
	unsigned int f = 0;

	while (f < DTA_FIELDS && strcmp(fields[f].name, name))
		f++;
	return (enum dta_field)f;
}

uint32_t dta_field_bytes(enum dta_field f)
{
	return fields[f].bytes;
}

const char *dta_field_name(enum dta_field f)
{
	return (unsigned int)f < DTA_FIELDS ? fields[f].name : "unknown";
}

const char *dta_record_kind_name(enum dta_record_kind k)
{
	static const char *const names[DTA_RECORD_KINDS] = {
		[DTA_RECORD_FLOW] = "flow",	    [DTA_RECORD_SAMPLE] = "sample",
		[DTA_RECORD_COUNTERS] = "counters", [DTA_RECORD_HOP] = "hop",
		[DTA_RECORD_DROP] = "drop",	    [DTA_RECORD_NAME] = "name",
	};

	return (unsigned int)k < DTA_RECORD_KINDS ? names[k] : "unknown";
}

const char *dta_device_refusal_name(enum dta_device_refusal r)
{
	static const char *const names[DTA_DEVICE_REFUSALS] = {
		[DTA_DEVICE_FINE] = "fine",
		[DTA_DEVICE_TRUNCATED] = "truncated",
		[DTA_DEVICE_BAD_VERSION] = "version",
		[DTA_DEVICE_BAD_LENGTH] = "length",
		[DTA_DEVICE_NO_TEMPLATE] = "no_template",
		[DTA_DEVICE_BAD_TEMPLATE] = "template",
		[DTA_DEVICE_NO_ROOM] = "no_room",
		[DTA_DEVICE_UNSUPPORTED] = "unsupported",
		[DTA_DEVICE_NO_PACKET] = "no_packet",
		[DTA_DEVICE_BAD_ELEMENT] = "element",
	};

	return (unsigned int)r < DTA_DEVICE_REFUSALS ? names[r] : "unknown";
}

/* ---- decoders ---- */

static const struct dta_decoder_ops *const decoders[DTA_DEVICES] = {
	[DTA_DEVICE_INT] = &dta_decoder_int,
	[DTA_DEVICE_IPFIX] = &dta_decoder_ipfix,
	[DTA_DEVICE_NETFLOW] = &dta_decoder_netflow,
	[DTA_DEVICE_SFLOW] = &dta_decoder_sflow,
};

const char *dta_device_name(enum dta_device d)
{
	return (unsigned int)d < DTA_DEVICES ? decoders[d]->name : "unknown";
}

enum dta_device dta_device_find(const char *name)
{
	unsigned int d = 0;

	while (d < DTA_DEVICES && strcmp(decoders[d]->name, name))
		d++;
	return (enum dta_device)d;
}

const struct dta_decoder_ops *dta_device_decoder(enum dta_device d)
{
	return (unsigned int)d < DTA_DEVICES ? decoders[d] : NULL;
}

struct dta_decoder *dta_decoder_new(const struct dta_decoder_ops *ops, struct dta_paths *paths,
				    dta_record_fn *fn, void *arg)
{
	struct dta_decoder *d = ops->make(paths);

	if (d) {
		d->ops = ops;
		d->fn = fn;
		d->arg = arg;
	}
	return d;
}

void dta_decoder_take(struct dta_decoder *d, const struct dta_datagram *in, uint64_t now_ns)
{
	enum dta_device_refusal bad;

	d->stats.datagrams++;
	bad = d->ops->take(d, in, now_ns);
	if (bad)
		d->stats.refused[bad]++;
}
