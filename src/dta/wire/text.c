// SPDX-License-Identifier: Apache-2.0
/* text.c - converts keys and values from and to text (text.h) */
#include "dta/wire/text.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "base/text.h"

static int parse_number(const char *s, size_t width, uint8_t *out, size_t room)
{
	uint64_t v;

	if (base_parse_u64(s, 0, width == 4 ? UINT32_MAX : UINT64_MAX, &v))
		return -EINVAL;
	if (room < width)
		return -ENOSPC;
	for (size_t i = 0; i < width; i++)
		out[i] = (uint8_t)(v >> 8 * (width - 1 - i));
	return (int)width;
}

static int parse_digits(const char *s, uint8_t *out, size_t room)
{
	size_t n = strlen(s);

	if (!n || n % 2 || s[strspn(s, "0123456789abcdefABCDEF")])
		return -EINVAL;
	if (n / 2 > room)
		return -ENOSPC;
	return base_unhex(out, s, n / 2) ? -EINVAL : (int)(n / 2);
}

/* Parses one endpoint of a flow, up to the comma. Returns the length of its address, or -EINVAL. */
static int end_of_flow(const char **s, uint8_t address[16], uint8_t port[2])
{
	const char *comma = strchr(*s, ',');
	char text[300], host[256];
	uint16_t p;
	size_t n;

	if (!comma || (size_t)(comma - *s) >= sizeof(text))
		return -EINVAL;
	n = (size_t)(comma - *s);
	memcpy(text, *s, n);
	text[n] = 0;
	*s = comma + 1;
	if (base_parse_address(text, host, sizeof(host), &p))
		return -EINVAL;
	port[0] = (uint8_t)(p >> 8);
	port[1] = (uint8_t)p;
	if (inet_pton(AF_INET, host, address) == 1)
		return 4;
	return inet_pton(AF_INET6, host, address) == 1 ? 16 : -EINVAL;
}

static const struct {
	const char *name;
	uint8_t number;
} protocol[] = {{"icmp", 1}, {"tcp", 6}, {"udp", 17}, {"icmp6", 58}};

static int parse_flow(const char *s, uint8_t *out, size_t room)
{
	uint8_t from[16], to[16], ports[4];
	int n = end_of_flow(&s, from, ports), m = n > 0 ? end_of_flow(&s, to, ports + 2) : n;
	uint64_t proto = 256;

	if (n < 0 || n != m)
		return -EINVAL;
	for (size_t i = 0; i < sizeof(protocol) / sizeof(*protocol); i++)
		if (!strcmp(s, protocol[i].name))
			proto = protocol[i].number;
	if (proto == 256 && base_parse_u64(s, 0, 255, &proto))
		return -EINVAL;
	if (room < 2 * (size_t)n + 5)
		return -ENOSPC;
	memcpy(out, from, (size_t)n);
	memcpy(out + n, to, (size_t)n);
	memcpy(out + 2 * n, ports, 4);
	out[2 * n + 4] = (uint8_t)proto;
	return 2 * n + 5;
}

int dta_text(const char *s, uint8_t *out, size_t room)
{
	size_t n;

	if (!strncmp(s, "u32:", 4))
		return parse_number(s + 4, 4, out, room);
	if (!strncmp(s, "u64:", 4))
		return parse_number(s + 4, 8, out, room);
	if (!strncmp(s, "flow:", 5))
		return parse_flow(s + 5, out, room);
	if (!strncmp(s, "text:", 5)) {
		n = strlen(s + 5);
		if (n > room)
			return -ENOSPC;
		memcpy(out, s + 5, n);
		return n ? (int)n : -EINVAL;
	}
	return parse_digits(s[0] == '0' && (s[1] == 'x' || s[1] == 'X') ? s + 2 : s, out, room);
}

bool dta_flow_text(const uint8_t *key, size_t bytes, char out[DTA_FLOW_TEXT])
{
	const size_t n = bytes == 13 ? 4 : 16;
	const char *open = n == 4 ? "" : "[", *end = n == 4 ? "" : "]", *name = NULL;
	char from[INET6_ADDRSTRLEN], to[INET6_ADDRSTRLEN], number[4];
	const uint8_t *ports = key + 2 * n;

	*out = 0;
	if (bytes != 13 && bytes != 37)
		return false;
	inet_ntop(n == 4 ? AF_INET : AF_INET6, key, from, sizeof(from));
	inet_ntop(n == 4 ? AF_INET : AF_INET6, key + n, to, sizeof(to));
	for (size_t i = 0; i < sizeof(protocol) / sizeof(*protocol); i++)
		if (protocol[i].number == ports[4])
			name = protocol[i].name;
	snprintf(number, sizeof(number), "%u", (unsigned int)ports[4]);
	snprintf(out, DTA_FLOW_TEXT, "flow:%s%s%s:%u,%s%s%s:%u,%s", open, from, end,
		 (unsigned int)(ports[0] << 8 | ports[1]), open, to, end,
		 (unsigned int)(ports[2] << 8 | ports[3]), name ? name : number);
	return true;
}
