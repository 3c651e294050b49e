// SPDX-License-Identifier: Apache-2.0
/* record.c - names of records, fields and refusals, and the list of decoders */
#include "dta/device/device.h"

#include <string.h>

static const char *const fields[DTA_FIELDS] = {
	[DTA_FIELD_EXPORTER] = "exporter",
	[DTA_FIELD_SOURCE] = "source",
	[DTA_FIELD_DESTINATION] = "destination",
	[DTA_FIELD_NEXT_HOP] = "next-hop",
	[DTA_FIELD_SOURCE_PORT] = "source-port",
	[DTA_FIELD_DESTINATION_PORT] = "destination-port",
	[DTA_FIELD_PROTOCOL] = "protocol",
	[DTA_FIELD_IP_VERSION] = "ip-version",
	[DTA_FIELD_DSCP] = "dscp",
	[DTA_FIELD_TCP_FLAGS] = "tcp-flags",
	[DTA_FIELD_ICMP] = "icmp",
	[DTA_FIELD_DOMAIN] = "domain",
	[DTA_FIELD_INGRESS] = "ingress",
	[DTA_FIELD_EGRESS] = "egress",
	[DTA_FIELD_INTERFACE] = "interface",
	[DTA_FIELD_VLAN] = "vlan",
	[DTA_FIELD_SOURCE_AS] = "source-as",
	[DTA_FIELD_DESTINATION_AS] = "destination-as",
	[DTA_FIELD_PACKETS] = "packets",
	[DTA_FIELD_BYTES] = "bytes",
	[DTA_FIELD_SAMPLING] = "sampling",
	[DTA_FIELD_START_NS] = "start-ns",
	[DTA_FIELD_END_NS] = "end-ns",
	[DTA_FIELD_IN_BYTES] = "in-bytes",
	[DTA_FIELD_IN_PACKETS] = "in-packets",
	[DTA_FIELD_IN_DROPS] = "in-drops",
	[DTA_FIELD_IN_ERRORS] = "in-errors",
	[DTA_FIELD_OUT_BYTES] = "out-bytes",
	[DTA_FIELD_OUT_PACKETS] = "out-packets",
	[DTA_FIELD_OUT_DROPS] = "out-drops",
	[DTA_FIELD_OUT_ERRORS] = "out-errors",
	[DTA_FIELD_SPEED] = "speed",
	[DTA_FIELD_SWITCH] = "switch",
	[DTA_FIELD_HOP] = "hop",
	[DTA_FIELD_HOPS] = "hops",
	[DTA_FIELD_LATENCY_NS] = "latency-ns",
	[DTA_FIELD_QUEUE] = "queue",
	[DTA_FIELD_QUEUE_DEPTH] = "queue-depth",
	[DTA_FIELD_BUFFER] = "buffer",
	[DTA_FIELD_UTILIZATION] = "utilization",
	[DTA_FIELD_DROP_REASON] = "drop-reason",
};

enum dta_field dta_field_find(const char *name)
{
	unsigned int f = 0;

	while (f < DTA_FIELDS && strcmp(fields[f], name))
		f++;
	return (enum dta_field)f;
}

const char *dta_record_kind_name(enum dta_record_kind k)
{
	static const char *const names[DTA_RECORD_KINDS] = {
		[DTA_RECORD_FLOW] = "flow",	    [DTA_RECORD_SAMPLE] = "sample",
		[DTA_RECORD_COUNTERS] = "counters", [DTA_RECORD_HOP] = "hop",
		[DTA_RECORD_DROP] = "drop",
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
	};

	return (unsigned int)r < DTA_DEVICE_REFUSALS ? names[r] : "unknown";
}

/* ---- decoders ---- */

static const struct {
	const char *name;
	const struct dta_decoder_ops *ops;
} devices[DTA_DEVICES] = {
	[DTA_DEVICE_INT] = {"int", &dta_decoder_int},
	[DTA_DEVICE_IPFIX] = {"ipfix", &dta_decoder_ipfix},
	[DTA_DEVICE_NETFLOW] = {"netflow", &dta_decoder_netflow},
	[DTA_DEVICE_SFLOW] = {"sflow", &dta_decoder_sflow},
};

const char *dta_device_name(enum dta_device d)
{
	return (unsigned int)d < DTA_DEVICES ? devices[d].name : "unknown";
}

enum dta_device dta_device_find(const char *name)
{
	unsigned int d = 0;

	while (d < DTA_DEVICES && strcmp(devices[d].name, name))
		d++;
	return (enum dta_device)d;
}

const struct dta_decoder_ops *dta_device_decoder(enum dta_device d)
{
	return (unsigned int)d < DTA_DEVICES ? devices[d].ops : NULL;
}

const struct dta_decoder_ops *dta_decoder_find(const char *name)
{
	return dta_device_decoder(dta_device_find(name));
}
