// SPDX-License-Identifier: Apache-2.0
/* names.c - names of addresses, devices, interfaces, AS and ports (query.h) */
#include "cli/query/query.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/network.h"
#include "dta/wire/text.h"

/* Maps "a:ADDRESS", "d:DEVICE", "i:DEVICE/NUMBER" and "s:NUMBER" (an AS) to names. */
static json_t *table;
static struct cli_names_settings how;

/* Normalises an address, so that it is found no matter how it is written. */
static const char *canonical(const char *text, char out[INET6_ADDRSTRLEN])
{
	struct in6_addr a;

	return base_address_read(text, &a) ? base_address_text(&a, out) : text;
}

static const char *find_name(const char *kind, const char *what)
{
	char key[CLI_NAME + 32];

	snprintf(key, sizeof(key), "%s:%s", kind, what);
	return json_string_value(json_object_get(table, key));
}

static void note_name(const char *kind, const char *what, const char *number, const char *name)
{
	char key[CLI_NAME], address[INET6_ADDRSTRLEN];

	snprintf(key, sizeof(key), "%s:%s%s%s", kind, canonical(what, address), number ? "/" : "",
		 number ?: "");
	json_object_set_new(table, key, json_string(name));
}

void cli_names_learn(const char *device, json_int_t number, const char *name)
{
	char text[24], what[CLI_NAME];

	snprintf(text, sizeof(text), "%lld", number);
	snprintf(what, sizeof(what), "%s/%s", device, text);
	if (!find_name("i", what))
		note_name("i", device, text, name);
}

static bool note_line(char *line, bool hosts)
{
	char *word[4] = {NULL}, *rest = line;
	int n = 0;

	line[strcspn(line, "#\r\n")] = 0;
	while (n < 4 && (word[n] = strtok_r(rest, " \t", &rest)))
		n++;
	if (!n)
		return true;
	if (hosts && n > 1)
		note_name("a", word[0], NULL, word[1]);
	else if (!hosts && n == 3 && !strcmp(word[0], "device"))
		note_name("d", word[1], NULL, word[2]);
	else if (!hosts && n == 4 && !strcmp(word[0], "interface"))
		note_name("i", word[1], word[2], word[3]);
	else if (!hosts && n == 3 && !strcmp(word[0], "as"))
		note_name("s", word[1], NULL, word[2]);
	else
		return false;
	return true;
}

static int read_file(const struct base_command *self, const char *path, bool hosts)
{
	FILE *f = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	int number = 0;
	bool good = true;

	if (!f)
		return base_failure(self, "%s: %s", path, strerror(errno));
	while (good && getline(&line, &room, f) >= 0) {
		number++;
		good = note_line(line, hosts);
	}
	free(line);
	fclose(f);
	if (good)
		return BASE_EXIT_OK;
	return base_failure(self, "%s:%d: expected %s", path, number,
			    hosts ? "ADDRESS NAME"
				  : "device DEVICE NAME, interface DEVICE NUMBER NAME, or as "
				    "NUMBER NAME");
}

int cli_names_read(const struct base_command *self, const struct cli_names_settings *set)
{
	int code = BASE_EXIT_OK;

	how = *set;
	table = json_object();
	if (set->hosts)
		code = read_file(self, set->hosts, true);
	if (!code && set->names)
		code = read_file(self, set->names, false);
	return code;
}

static bool resolve_address(const char *address, char out[CLI_NAME])
{
	struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
	struct sockaddr_in v4 = {.sin_family = AF_INET};

	if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
		return !getnameinfo((struct sockaddr *)&v4, sizeof(v4), out, CLI_NAME, NULL, 0,
				    NI_NAMEREQD);
	return inet_pton(AF_INET6, address, &v6.sin6_addr) == 1 &&
	       !getnameinfo((struct sockaddr *)&v6, sizeof(v6), out, CLI_NAME, NULL, 0,
			    NI_NAMEREQD);
}

void cli_names_address(const char *address, char out[CLI_NAME])
{
	const char *name = find_name("a", address);

	if (!name && how.resolve && resolve_address(address, out)) {
		json_t *found = json_string(out);
		char key[CLI_NAME];

		snprintf(key, sizeof(key), "a:%s", address);
		json_object_set_new(table, key, found);
		return;
	}
	snprintf(out, CLI_NAME, "%s", name ?: address);
}

static void device_text(const json_t *device, char out[CLI_NAME])
{
	if (json_is_integer(device))
		snprintf(out, CLI_NAME, "%lld", json_integer_value(device));
	else
		snprintf(out, CLI_NAME, "%s", json_string_value(device) ?: "?");
}

void cli_names_device(const json_t *device, char out[CLI_NAME])
{
	char text[CLI_NAME];
	const char *name;

	device_text(device, text);
	name = find_name("d", text);
	if (name || json_is_integer(device))
		snprintf(out, CLI_NAME, "%s", name ?: text);
	else
		cli_names_address(text, out);
}

void cli_names_interface(const json_t *device, json_int_t number, char out[CLI_NAME])
{
	char text[CLI_NAME], what[CLI_NAME + 24];
	const char *name;

	device_text(device, text);
	snprintf(what, sizeof(what), "%s/%lld", text, number);
	name = find_name("i", what);
	if (!name)
		/* 0 means that the device did not state it */
		name = number ? strrchr(what, '/') + 1 : "?";
	snprintf(out, CLI_NAME, "%s", name);
}

void cli_names_as(json_int_t number, char out[CLI_NAME])
{
	char text[24];

	snprintf(text, sizeof(text), "%lld", number);
	snprintf(out, CLI_NAME, "%s", find_name("s", text) ?: text);
}

void cli_names_port(unsigned int port, unsigned int protocol, char out[CLI_NAME])
{
	const char *of = protocol == IPPROTO_TCP ? "tcp" : protocol == IPPROTO_UDP ? "udp" : NULL;
	const struct servent *s = of && !how.numeric ? getservbyport(htons((uint16_t)port), of)
						     : NULL;

	if (s)
		snprintf(out, CLI_NAME, "%s", s->s_name);
	else
		snprintf(out, CLI_NAME, "%u", port);
}

void cli_names_flow(const char *flow, char out[CLI_NAMES_FLOW])
{
	char text[INET6_ADDRSTRLEN], address[2][CLI_NAME], port[2][CLI_NAME];
	const char *protocol = strrchr(flow, ',');
	uint8_t key[64];
	const int bytes = dta_text(flow, key, sizeof(key));
	const size_t n = bytes == 13 ? 4 : 16;

	if (bytes != 13 && bytes != 37) {
		snprintf(out, CLI_NAMES_FLOW, "%s", flow);
		return;
	}
	for (size_t i = 0; i < 2; i++) {
		inet_ntop(n == 4 ? AF_INET : AF_INET6, key + i * n, text, sizeof(text));
		cli_names_address(text, address[i]);
		cli_names_port((unsigned int)key[2 * n + 2 * i] << 8 | key[2 * n + 2 * i + 1],
			       key[2 * n + 4], port[i]);
	}
	snprintf(out, CLI_NAMES_FLOW, "%s:%s > %s:%s %s", address[0], port[0], address[1], port[1],
		 protocol ? protocol + 1 : "");
}

/* Finds an object of this kind by its name. Returns the address or number, or NULL. */
static const char *find_named(const char *kind, const char *within, const char *name)
{
	const char *key;
	json_t *value;

	json_object_foreach(table, key, value)
	{
		const char *what = strchr(key, ':') + 1;

		if (!strncmp(key, kind, strlen(kind)) && !strncmp(what, within, strlen(within)) &&
		    !strcmp(json_string_value(value), name))
			return what;
	}
	return NULL;
}

void cli_names_place(const char *place, char out[CLI_NAME])
{
	char device[CLI_NAME], within[CLI_NAME + 1];
	const char *slash = strchr(place, '/'), *found;

	snprintf(device, sizeof(device), "%.*s", (int)(slash ? slash - place : CLI_NAME - 1),
		 place);
	found = find_named("d:", "", device) ?: find_named("a:", "", device);
	if (found)
		snprintf(device, sizeof(device), "%s", found);
	snprintf(within, sizeof(within), "%s/", device);
	found = slash ? find_named("i:", within, slash + 1) : NULL;
	snprintf(out, CLI_NAME, "%s%s", device, found ? strrchr(found, '/') : slash ?: "");
}
