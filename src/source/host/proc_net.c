// SPDX-License-Identifier: Apache-2.0
/* proc_net.c - parses dev, snmp, netstat, snmp6 and sockstat in /proc/net. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/grow.h"
#include "source/host/internal.h"

/* ---- dev ---- */

#define STATISTIC(name) \
	HOST_DESC("node_network_" name "_total", "Network device statistic " name ".", HOST_COUNTER)

/* In the order of the columns. */
static const struct host_desc netdev_descs[] = {
	STATISTIC("receive_bytes"),	 STATISTIC("receive_packets"),
	STATISTIC("receive_errs"),	 STATISTIC("receive_drop"),
	STATISTIC("receive_fifo"),	 STATISTIC("receive_frame"),
	STATISTIC("receive_compressed"), STATISTIC("receive_multicast"),
	STATISTIC("transmit_bytes"),	 STATISTIC("transmit_packets"),
	STATISTIC("transmit_errs"),	 STATISTIC("transmit_drop"),
	STATISTIC("transmit_fifo"),	 STATISTIC("transmit_colls"),
	STATISTIC("transmit_carrier"),	 STATISTIC("transmit_compressed"),
};

static const char *const device_key[] = {"device"};

void host_netdev_parse(struct host *h, struct host_text t)
{
	struct host_group *g = host_group(h, &h->netdev, netdev_descs, HOST_LEN(netdev_descs),
					  device_key, 1);
	struct host_text line, name;
	uint64_t v;

	while (host_line(&t, &line)) {
		struct host_row *r;

		/* The two header lines contain no colon. */
		if (!host_until(&line, ':', &name))
			continue;
		host_blanks(&name);
		/* Like Debian's node_exporter, leave out the loopback device. */
		if (!host_length(name) || host_is(name, "lo"))
			continue;
		r = host_row(g, &name);
		for (size_t i = 0; i < HOST_LEN(netdev_descs) && host_u64(&line, &v); i++)
			host_put(g, r, i, (double)v);
	}
	host_group_end(g);
}

/* ---- snmp, netstat, snmp6 ---- */

/* True for fields that node_exporter selects by default. */
static bool is_wanted(struct host_text protocol, struct host_text name)
{
	static const char *const tcp[] = {"ActiveOpens",  "InSegs",	 "OutSegs",  "OutRsts",
					  "PassiveOpens", "RetransSegs", "CurrEstab"};
	static const char *const udp[] = {"InDatagrams", "OutDatagrams", "NoPorts", "RcvbufErrors",
					  "SndbufErrors"};
	static const char *const octets[] = {"InOctets", "OutOctets"};
	static const char *const messages[] = {"InMsgs", "OutMsgs"};
	static const char *const extended[] = {"TCPSynRetrans", "TCPTimeouts"};

	/* .*_(InErrors|InErrs) */
	if (host_is(name, "InErrors") || host_is(name, "InErrs") || host_ends(name, "_InErrors") ||
	    host_ends(name, "_InErrs"))
		return true;
	if (host_is(protocol, "Ip"))
		return host_is(name, "Forwarding");
	if (host_is(protocol, "Ip6") || host_is(protocol, "IpExt"))
		return host_among(name, octets, HOST_LEN(octets));
	if (host_is(protocol, "Icmp") || host_is(protocol, "Icmp6"))
		return host_among(name, messages, HOST_LEN(messages));
	if (host_is(protocol, "TcpExt"))
		return host_starts(name, "Listen") || host_starts(name, "Syncookies") ||
		       host_among(name, extended, HOST_LEN(extended));
	if (host_is(protocol, "Tcp"))
		return host_among(name, tcp, HOST_LEN(tcp));
	if (host_is(protocol, "Udp") || host_is(protocol, "Udp6"))
		return host_among(name, udp, HOST_LEN(udp));
	return false;
}

/* Keys are "PROTOCOL NAME". */
static void describe_netstat(const char *key, size_t n, char name[128], char help[192])
{
	struct host_text t = host_text(key, n), protocol = t;

	host_until(&t, ' ', &protocol);
	snprintf(name, 128, "node_netstat_%.*s_%.*s", (int)host_length(protocol), protocol.p,
		 (int)host_length(t), t.p);
	host_name_clean(name);
	snprintf(help, 192, "Statistic %.*s%.*s.", (int)host_length(protocol), protocol.p,
		 (int)host_length(t), t.p);
}

static struct host_netstat *netstat_of(struct host *h)
{
	host_fields(h, &h->netstat.fields, HOST_UNKNOWN, describe_netstat);
	return &h->netstat;
}

void host_netstat_free(struct host_netstat *n)
{
	for (size_t file = 0; file < HOST_LEN(n->pairs); file++)
		for (size_t i = 0; i < HOST_PAIRS_MAX; i++) {
			struct host_pair *p = &n->pairs[file][i];

			free(p->names);
			free(p->wanted);
		}
	host_fields_free(&n->fields);
}

/* Returns the field, or NULL if it is not wanted. */
static struct host_field *field_of(struct host_netstat *n, struct host_text protocol,
				   struct host_text name)
{
	char key[HOST_KEY_MAX + 1];
	size_t bytes = host_length(protocol) + 1 + host_length(name);

	/* Most fields are not wanted; do not create entries for them. */
	if (bytes > HOST_KEY_MAX || !is_wanted(protocol, name))
		return NULL;
	memcpy(key, protocol.p, host_length(protocol));
	key[host_length(protocol)] = ' ';
	memcpy(key + host_length(protocol) + 1, name.p, host_length(name));
	return host_field(&n->fields, key, bytes);
}

/* Determines the wanted columns. Returns false if out of memory. */
static bool learn_columns(struct host_netstat *n, struct host_pair *p, struct host_text protocol,
			  struct host_text names, struct host_text line)
{
	struct host_text name;
	uint32_t column = 0;

	p->count = 0;
	free(p->names);
	p->bytes = host_length(line);
	p->names = malloc(p->bytes + 1);
	if (!p->names)
		return false;
	memcpy(p->names, line.p, p->bytes);
	for (; name = host_word(&names), host_length(name); column++) {
		struct host_field *f = field_of(n, protocol, name);

		if (!f)
			continue;
		if (!BASE_GROW(p->wanted, p->count, p->room))
			return false;
		p->wanted[p->count++] = (struct host_column){column, (uint32_t)(f - n->fields.v)};
	}
	return true;
}

static void take_values(struct host_netstat *n, const struct host_pair *p, struct host_text line)
{
	struct host_text word;
	uint32_t column = 0;
	double v;

	for (size_t i = 0; i < p->count; column++) {
		word = host_word(&line);
		if (!host_length(word))
			break;
		if (column != p->wanted[i].column)
			continue;
		if (host_number(&word, &v))
			host_field_set(&n->fields, &n->fields.v[p->wanted[i].field], v);
		i++;
	}
}

/* Parses pairs of lines such as "Tcp: InSegs OutSegs", "Tcp: 12 13". */
void host_netstat_parse(struct host *h, size_t file, struct host_text t)
{
	struct host_text names, values, protocol, again;
	struct host_netstat *n = netstat_of(h);

	for (size_t i = 0; i < HOST_PAIRS_MAX; i++) {
		struct host_pair *p = &n->pairs[file][i];
		struct host_text line;

		if (!host_line(&t, &names) || !host_line(&t, &values))
			break;
		line = names;
		if (!host_until(&names, ':', &protocol) || !host_until(&values, ':', &again) ||
		    host_length(again) != host_length(protocol) ||
		    memcmp(again.p, protocol.p, host_length(protocol)) != 0)
			break;
		if ((!p->names || p->bytes != host_length(line) ||
		     memcmp(p->names, line.p, p->bytes) != 0) &&
		    !learn_columns(n, p, protocol, names, line)) {
			free(p->names);
			p->names = NULL;
			break;
		}
		take_values(n, p, values);
	}
}

/* Parses "Ip6InOctets   1234"; the protocol ends after the "6". */
void host_snmp6_parse(struct host *h, struct host_text t)
{
	struct host_netstat *n = netstat_of(h);
	struct host_text line, key, protocol;
	double v;

	while (host_line(&t, &line)) {
		key = host_word(&line);
		if (!host_until(&key, '6', &protocol))
			continue;
		protocol.end++;
		if (host_number(&line, &v))
			host_field_set(&n->fields, field_of(n, protocol, key), v);
	}
}

/* ---- sockstat: "TCP: inuse 5 orphan 0 tw 10 alloc 5 mem 3" ---- */

/* Keys are "PROTOCOL STATE". */
static void describe_sockstat(const char *key, size_t n, char name[128], char help[192])
{
	struct host_text t = host_text(key, n), protocol = t;

	host_until(&t, ' ', &protocol);
	snprintf(name, 128, "node_sockstat_%.*s_%.*s", (int)host_length(protocol), protocol.p,
		 (int)host_length(t), t.p);
	host_name_clean(name);
	if (!strcmp(key, "sockets used"))
		snprintf(help, 192, "Number of IPv4 sockets in use.");
	else
		snprintf(help, 192, "Number of %.*s sockets in state %.*s.",
			 (int)host_length(protocol), protocol.p, (int)host_length(t), t.p);
}

static void put_socket(struct host_fields *f, struct host_text protocol, struct host_text state,
		       const char *suffix, double v)
{
	char key[HOST_KEY_MAX + 1];
	int n = snprintf(key, sizeof(key), "%.*s %.*s%s", (int)host_length(protocol), protocol.p,
			 (int)host_length(state), state.p, suffix);

	if (n < (int)sizeof(key))
		host_field_set(f, host_field(f, key, (size_t)n), v);
}

/* Also parses sockstat6, which has the same format and other protocols. */
void host_sockstat_parse(struct host *h, struct host_text t)
{
	struct host_fields *f = host_fields(h, &h->sockstat, HOST_GAUGE, describe_sockstat);
	struct host_text line, protocol, state;
	uint64_t v;

	while (host_line(&t, &line)) {
		if (!host_until(&line, ':', &protocol))
			continue;
		for (;;) {
			state = host_word(&line);
			if (!host_length(state) || !host_u64(&line, &v))
				break;
			put_socket(f, protocol, state, "", (double)v);
			if (host_is(state, "mem"))
				put_socket(f, protocol, state, "_bytes",
					   (double)v * (double)sysconf(_SC_PAGESIZE));
		}
	}
}
