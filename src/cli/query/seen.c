// SPDX-License-Identifier: Apache-2.0
/* seen.c - query paths, drops and top (query.h) */
#include "cli/query/query.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/text.h"
#include "cli/common/common.h"
#include "dta/wire/endian.h"

#define ROWS_MAX 1000u /* limit of the collector's API */

const char *const cli_seen_names[] = {"paths", "drops", "top", NULL};

/* ---- the request ---- */

/* Parses seconds since 1970, YYYY-MM-DDTHH:MM:SSZ, or a duration before now. */
static bool parse_time(const char *text, double *seconds)
{
	struct tm tm = {0};
	const char *end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &tm);
	const bool number = !text[strspn(text, "0123456789.")];
	uint64_t n;

	if (end && !*end)
		*seconds = (double)timegm(&tm);
	else if (number)
		*seconds = strtod(text, NULL);
	else if (!base_parse_duration(text, &n))
		*seconds = (double)base_realtime_ns() * 1e-9 - (double)n * 1e-9;
	else
		return false;
	return true;
}

static int add_time(const struct base_command *self, char *path, const char *key, const char *text)
{
	double seconds;
	char value[40];

	if (!text)
		return BASE_EXIT_OK;
	if (!parse_time(text, &seconds))
		return base_usage(self,
				  "--%s '%s' is not a time: expected seconds since 1970, "
				  "YYYY-MM-DDTHH:MM:SSZ, or how long ago, such as 15m",
				  key, text);
	snprintf(value, sizeof(value), "%.3f", seconds);
	cli_query_add_parameter(path, key, value);
	return BASE_EXIT_OK;
}

/* Adds the parameter "through" or "device", with names replaced by addresses and numbers. */
static void add_places(char *path, const char *key, const char *text)
{
	char copy[2 * CLI_NAME], all[2 * CLI_NAME + 1] = "", place[CLI_NAME];
	char *rest = copy, *word;

	snprintf(copy, sizeof(copy), "%s", text ?: "");
	while (text && (word = strsep(&rest, ","))) {
		const size_t used = strlen(all);

		cli_names_place(word, place);
		snprintf(all + used, sizeof(all) - used, "%s%s", used ? "," : "", place);
	}
	if (text)
		cli_query_add_parameter(path, key, all);
}

/* several: there are several collectors. */
static int make_path(const struct base_command *self, enum cli_seen_kind kind,
		     const struct cli_seen_settings *set, bool several, char path[CLI_QUERY_PATH])
{
	/* A row with a high total may be low in each collector, so request many rows. */
	const uint32_t max = several ? BASE_MAX(set->max, ROWS_MAX) : set->max;
	char text[CLI_NAME], place[2 * CLI_NAME];
	const char *slash;

	snprintf(path, CLI_QUERY_PATH, "/api/v1/dta/%s", cli_seen_names[kind]);
	if ((kind == CLI_SEEN_PATHS ? set->device || set->interface : set->through != NULL) ||
	    (kind != CLI_SEEN_TOP && (set->by || set->prefix)) ||
	    (kind != CLI_SEEN_DROPS && set->reason))
		return base_usage(self,
				  "--through is only for paths, --reason for drops, --by and "
				  "--prefix for top, --device and --interface for drops and top");
	if (set->through)
		add_places(path, "through", set->through);
	/* The name of an interface is looked up within its device. */
	snprintf(place, sizeof(place), "%s%s%s", set->device ?: "", set->interface ? "/" : "",
		 set->interface ?: "");
	cli_names_place(place, text);
	slash = strchr(text, '/');
	if (set->device) {
		snprintf(place, sizeof(place), "%.*s", (int)strcspn(text, "/"), text);
		cli_query_add_parameter(path, "device", place);
	}
	if (slash && set->interface)
		cli_query_add_parameter(path, "interface", slash + 1);
	if (set->by)
		cli_query_add_parameter(path, "by", set->by);
	if (set->reason)
		cli_query_add_parameter(path, "reason", set->reason);
	if (set->prefix) {
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(set->prefix, ","), set->prefix);
		cli_query_add_parameter(path, "prefix", text);
		if (strchr(set->prefix, ','))
			cli_query_add_parameter(path, "prefix6", strchr(set->prefix, ',') + 1);
	}
	snprintf(text, sizeof(text), "%u", max);
	if (max)
		cli_query_add_parameter(path, "max", text);
	return add_time(self, path, "from", set->from) ?: add_time(self, path, "to", set->to);
}

/* ---- names that devices gave to their interfaces ---- */

#define INTERFACES "interface_names" /* a store, as in examples/dta/devices.yaml */

/* Adds the keys of the interfaces in a row, or in a part of it. */
static void add_interfaces(json_t *keys, const json_t *row)
{
	static const char *const members[] = {"ingress", "egress", "interface"};
	const char *device = cli_json_text(row, "device");
	uint8_t key[20];
	char hex[41];
	json_t *at;
	size_t i;

	json_array_foreach(json_object_get(row, "crossed"), i, at) add_interfaces(keys, at);
	for (i = 0; i < sizeof(members) / sizeof(*members); i++) {
		const json_int_t number = cli_json_integer(row, members[i]);
		const size_t n = strchr(device, ':') ? 16 : 4;

		if (!number || inet_pton(n == 4 ? AF_INET : AF_INET6, device, key) != 1)
			continue;
		dta_put32(key + n, (uint32_t)number);
		base_hex(hex, key, n + 4);
		json_object_set_new(keys, hex,
				    json_pack("{s:s,s:I}", "device", device, "number", number));
	}
}

static void learn_interfaces(struct cli_query_collectors *c, const json_t *rows)
{
	json_t *keys = json_object(), *row, *answers = NULL, *what;
	char **key;
	const char *name;
	size_t i, n = 0;

	json_array_foreach(rows, i, row) add_interfaces(keys, row);
	key = calloc(json_object_size(keys) + 1, sizeof(*key));
	if (key && json_object_size(keys) && cli_query_choose(c, INTERFACES, true)) {
		json_object_foreach(keys, name, what) key[n++] = (char *)(uintptr_t)name;
		answers = cli_query_ask(c, INTERFACES, key, n);
	}
	json_array_foreach(answers, i, row)
	{
		what = json_object_get(keys, key[i]);
		name = cli_json_text(json_object_get(row, "fields"), "name");
		if (*name)
			cli_names_learn(cli_json_text(what, "device"),
					cli_json_integer(what, "number"), name);
	}
	free(key);
	json_decref(answers);
	json_decref(keys);
}

/* ---- output ---- */

static void print_padded(const char *text, int width)
{
	cli_print_safe(text, width);
	putchar(' ');
}

static void print_interfaces(const json_t *at)
{
	const json_t *device = json_object_get(at, "device");
	char name[CLI_NAME], in[CLI_NAME], out[CLI_NAME], text[3 * CLI_NAME + 8];

	cli_names_device(device, name);
	cli_names_interface(device, cli_json_integer(at, "ingress"), in);
	cli_names_interface(device, cli_json_integer(at, "egress"), out);
	snprintf(text, sizeof(text), "%s[%s>%s]", name, in, out);
	cli_print_safe(text, 0);
}

static void print_time(double seconds)
{
	const time_t t = (time_t)seconds;
	char text[32] = "?";
	struct tm tm;

	if (seconds && gmtime_r(&t, &tm))
		strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
	fputs(text, stdout);
}

static void print_range(const json_t *row)
{
	putchar(' ');
	print_time(cli_json_number(row, "from"));
	fputs("..", stdout);
	print_time(cli_json_number(row, "to"));
}

static void print_path(const json_t *row)
{
	const json_t *at, *hop;
	char name[CLI_NAME];
	size_t i;

	json_array_foreach(json_object_get(row, "path"), i, hop)
	{
		fputs(i ? " > " : "path ", stdout);
		cli_names_device(hop, name);
		cli_print_safe(json_is_null(hop) ? "?" : name, 0);
	}
	if (json_is_null(json_object_get(row, "path")))
		fputs("path unknown", stdout);
	json_array_foreach(json_object_get(row, "crossed"), i, at)
	{
		fputs(i ? ", " : "; at ", stdout);
		print_interfaces(at);
		if (json_object_get(at, "bytes"))
			printf(" %lld bytes", cli_json_integer(at, "bytes"));
	}
}

static void print_top(const json_t *row)
{
	char name[CLI_NAME], text[2 * CLI_NAME + 8];
	const json_t *device = json_object_get(row, "device");
	static const char *const protocols[256] = {[1] = "icmp", [6] = "tcp", [17] = "udp"};
	const json_int_t protocol = cli_json_integer(row, "protocol");

	if (json_object_get(row, "address")) {
		cli_names_address(cli_json_text(row, "address"), text);
	} else if (json_object_get(row, "prefix")) {
		snprintf(text, sizeof(text), "%s", cli_json_text(row, "prefix"));
	} else if (json_object_get(row, "as")) {
		cli_names_as(cli_json_integer(row, "as"), text);
	} else if (device) {
		char interface[CLI_NAME];

		cli_names_device(device, name);
		cli_names_interface(device, cli_json_integer(row, "interface"), interface);
		snprintf(text, sizeof(text), "%s[%s]", name, interface);
	} else {
		cli_names_port((unsigned int)cli_json_integer(row, "port"), (unsigned int)protocol,
			       name);
		if (protocol >= 0 && protocol < 256 && protocols[protocol])
			snprintf(text, sizeof(text), "%s/%s", name, protocols[protocol]);
		else
			snprintf(text, sizeof(text), "%s/%lld", name, protocol);
	}
	print_padded(text, 39);
	printf("%14lld bytes", cli_json_integer(row, "bytes"));
}

static void print_row(enum cli_seen_kind kind, const json_t *row)
{
	char flow[CLI_NAMES_FLOW];

	if (kind == CLI_SEEN_TOP) {
		print_top(row);
	} else {
		cli_names_flow(cli_json_text(row, "flow"), flow);
		print_padded(flow, 0);
	}
	if (kind == CLI_SEEN_PATHS)
		print_path(row);
	if (kind == CLI_SEEN_DROPS) {
		fputs("at ", stdout);
		print_interfaces(row);
		printf(" reason %lld: %lld packets", cli_json_integer(row, "reason"),
		       cli_json_integer(row, "packets"));
	}
	if (kind != CLI_SEEN_PATHS)
		print_range(row);
	putchar('\n');
}

int cli_query_seen(const struct base_command *self, struct cli_query_collectors *c,
		   enum cli_seen_kind kind, const struct cli_seen_settings *set)
{
	json_t *all, *index, *answer, *rows, *row;
	char path[CLI_QUERY_PATH];
	int code = make_path(self, kind, set, c->n > 1, path);
	json_int_t more = 0, lost = 0;
	size_t i;

	if (code)
		return code;
	all = json_array();
	index = json_object();
	for (uint32_t m = 0; m < c->n; m++) {
		answer = cli_query_get(c, m, path);
		if (!answer)
			code = BASE_EXIT_FAILURE;
		cli_query_merge(all, index, json_object_get(answer, "rows"), c->replicas > 1);
		more += cli_json_integer(answer, "more");
		lost += cli_json_integer(answer, "overwritten_blocks");
		json_decref(answer);
	}
	rows = cli_query_highest(all, set->max ? set->max : 100);
	more += (json_int_t)(json_array_size(all) - json_array_size(rows));
	if (!set->json)
		learn_interfaces(c, rows);
	json_array_foreach(rows, i, row)
	{
		if (set->json)
			cli_json_print(stdout, json_incref(row), JSON_COMPACT);
		else
			print_row(kind, row);
	}
	if (more)
		base_failure(self, "%lld more: use --max", more);
	if (lost)
		base_failure(self,
			     "%lld blocks of key logs were overwritten: flows of older epochs may "
			     "be missing; give the key log more items",
			     lost);
	if (!code && !json_array_size(rows))
		code = BASE_EXIT_FAILURE;
	json_decref(index);
	json_decref(rows);
	json_decref(all);
	return cli_output_end(self, code);
}
