// SPDX-License-Identifier: Apache-2.0
/* text.c - formats names, addresses and times for the output of 'sidelight tcp'. */
#include <arpa/inet.h>
#include <string.h>

#include "base/text.h"
#include "cli/tcp/tcp.h"
#include "region/flows.h"
#include "source/tcp/cgroup.h"

void cli_tcp_safe(char *out, size_t bytes, const char *text)
{
	snprintf(out, bytes, "%s", text);
	base_harmless(out);
}

const char *cli_tcp_endpoint(char out[CLI_TCP_ENDPOINT], const uint8_t address[16], int port)
{
	char text[INET6_ADDRSTRLEN], number[8] = "*";

	if (port < 0)
		return region_flow_address(address, out);
	region_flow_address(address, text);
	if (port)
		snprintf(number, sizeof(number), "%u", (uint16_t)port);
	snprintf(out, CLI_TCP_ENDPOINT, strchr(text, ':') ? "[%s]:%s" : "%s:%s", text, number);
	return out;
}

const char *cli_tcp_short_time(char out[16], uint64_t ns)
{
	static const char *const units[] = {"ns", "us", "ms", "s"};
	double v = (double)ns;
	int unit = 0;

	for (; v >= 1000 && unit < 3; unit++)
		v /= 1000;
	snprintf(out, 16, "%.*f%s", !unit || v >= 100 ? 0 : v >= 10 ? 1 : 2, v, units[unit]);
	return out;
}

void cli_tcp_csv_text(FILE *out, const char *text)
{
	fputc('"', out);
	for (; *text; text++) {
		if (*text == '"')
			fputc('"', out);
		fputc((unsigned char)*text < 0x20 ? '?' : *text, out);
	}
	fputc('"', out);
}

void cli_tcp_json_text(json_t *o, const char *key, const char *text)
{
	json_t *s = json_string(text);

	json_object_set_new(o, key, s ? s : json_string("?"));
}

void cli_tcp_json_identity(json_t *o, const struct tcp_cgroup_identity *who)
{
	const struct {
		const char *key, *text;
	} names[] = {{"path", who->path},
		     {"runtime", who->runtime},
		     {"container_id", who->container_id},
		     {"container", who->container},
		     {"pod_uid", who->pod_uid},
		     {"pod", who->pod},
		     {"namespace", who->kube_namespace},
		     {"service", who->service}};

	json_object_set_new(o, "cgroup", json_integer(CLI_INT(who->id)));
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (*names[i].text)
			cli_tcp_json_text(o, names[i].key, names[i].text);
	if (who->claimed)
		json_object_set_new(o, "claimed", json_true());
}
