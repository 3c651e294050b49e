// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_query.c - sidelight query: queries and changes stores through a collector's HTTP API, or
 * queries a store's file.
 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "cli/common/common.h"
#include "cli/query/query.h"
#include "dta/query/json.h"
#include "dta/store/guard.h"
#include "dta/store/stores.h"
#include "dta/wire/text.h"

#define KEYS_MAX   1000u
#define POLL_MS	   100
#define DEFAULT_AT "127.0.0.1:9464"
#define PARTS_MAX  (DTA_HASH_RING_MEMBERS_MAX * SL_STORE_LANES_MAX) /* lanes of all collectors */
#define STORE_NAME "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."

static struct cli_query_settings set = {.lane = -1};
static struct {
	const char *file, *keys;
	bool json, follow, top, flows, all, slots, disagree;
} how;
static struct cli_seen_settings seen;
static struct cli_names_settings names;
static struct cli_query_collectors collectors;

static struct dta_store_object *object; /* the store of --file */

static void set_parameter(void *ask, const char *name, const char *value)
{
	dta_ask_set(ask, name, value);
}

static json_t *ask_file(char *const *keys, size_t n)
{
	struct dta_totals totals = {0};
	struct dta_held held = {.count = 1, .view = {&object->view}, .totals = &totals};
	json_t *answers = json_array(), *one;
	struct dta_ask ask;
	char error[160];

	dta_ask_init(&ask);
	cli_query_parameters(&set, set_parameter, &ask);
	for (size_t i = 0; i < n || (!n && !i); i++) {
		if (n)
			dta_ask_set(&ask, "key", keys[i]);
		one = dta_query_json(&held, &ask, error, sizeof(error));
		if (!one) {
			base_failure(&cli_cmd_query, "%s: %s", how.file, error);
			json_decref(answers);
			return NULL;
		}
		json_array_append_new(answers, one);
	}
	return answers;
}

/* Output */

/* Prints the fields of a value, if the store declares them. */
static void show_fields(const json_t *fields)
{
	const char *name;
	json_t *value;
	bool first = true;

	json_object_foreach((json_t *)(uintptr_t)fields, name, value)
	{
		printf("%s%s ", first ? "" : " ", name);
		first = false;
		if (json_is_integer(value))
			printf("%lld", json_integer_value(value));
		else
			cli_print_safe(json_string_value(value) ?: "", 0);
	}
}

static void show_value(const json_t *a)
{
	json_t *value = json_object_get(a, "value"), *hop;
	size_t i;

	if (json_object_get(a, "fields")) {
		show_fields(json_object_get(a, "fields"));
	} else if (json_is_string(value)) {
		cli_print_safe(json_string_value(value), 0);
	} else if (json_is_integer(value)) {
		printf("%lld (at most %.0f too high with probability %.3f)",
		       json_integer_value(value), cli_json_number(a, "error"),
		       cli_json_number(a, "error_probability"));
	} else {
		json_array_foreach(json_object_get(a, "path"), i, hop)
		{
			if (json_is_integer(hop))
				printf("%s%lld", i ? " " : "", json_integer_value(hop));
			else
				printf("%s?", i ? " " : "");
		}
	}
	if (json_object_get(a, "agreed"))
		printf(", %lld cop%s agree%s", cli_json_integer(a, "agreed"),
		       cli_json_integer(a, "agreed") == 1 ? "y" : "ies",
		       cli_json_integer(a, "agreed") == 1 ? "s" : "");
	printf(", epoch %lld", cli_json_integer(a, "epoch"));
	if (json_object_get(a, "wrong_probability"))
		printf(", belongs to another key with probability %.1e",
		       cli_json_number(a, "wrong_probability"));
}

/* Prints the replicas of an answer, as in "; 1 of 2 replicas; ...". */
static void show_replicas(const json_t *a)
{
	const json_t *r = json_object_get(a, "replicas"), *at, *gap;
	size_t i;

	if (!r)
		return;
	printf("; %lld of %lld replicas agree", cli_json_integer(r, "agree"),
	       cli_json_integer(r, "wanted"));
	if (cli_json_integer(r, "asked") < cli_json_integer(r, "wanted"))
		printf(", %lld unreachable",
		       cli_json_integer(r, "wanted") - cli_json_integer(r, "asked"));
	for (int k = 0; k < 2; k++)
		json_array_foreach(json_object_get(r, k ? "differ" : "missing"), i, at)
		{
			fputs(k ? ", different value at " : ", missing at ", stdout);
			cli_print_safe(json_string_value(at), 0);
		}
	json_array_foreach(cli_json_true(r, "may_be_old") ? json_object_get(a, "gaps") : NULL, i,
			   gap)
		printf(", may be outdated: the collector was unavailable for %.0f s until %.0f",
		       cli_json_number(gap, "to") - cli_json_number(gap, "from"),
		       cli_json_number(gap, "to"));
}

static void show_sketch(const json_t *a)
{
	cli_print_safe(cli_json_text(a, "store"), 0);
	if (!cli_json_is(a, "result", "found")) {
		printf(": %s\n", cli_json_text(a, "result"));
		return;
	}
	printf(": epoch %lld, %lld of %lld reporters%s", cli_json_integer(a, "epoch"),
	       cli_json_integer(a, "reporters"), cli_json_integer(a, "expected"),
	       cli_json_true(a, "complete") ? "" : " (not complete)");
	if (json_object_get(a, "estimate"))
		printf(": %.0f +- %.0f", cli_json_number(a, "estimate"),
		       cli_json_number(a, "error"));
	putchar('\n');
}

/*
 * Explains an empty answer. Counters are never overwritten. For other kinds, the answer has the
 * slots in use and the probability of finding a recent key.
 */
static void show_empty(const json_t *a)
{
	if (!json_object_get(a, "within")) {
		puts(": empty: nothing was counted");
		return;
	}
	fputs(": empty: never reported, or overwritten", stdout);
	if (json_object_get(a, "asked"))
		printf(" (%lld of %lld slots in use)", cli_json_integer(a, "occupied"),
		       cli_json_integer(a, "asked"));
	printf("; if it were among the last %lld keys of its epoch, it would be found with "
	       "probability %.3f\n",
	       cli_json_integer(a, "within"), cli_json_number(a, "found_within_probability"));
}

static void show_answer(json_t *a)
{
	const char *result = cli_json_text(a, "result");
	json_t *ring, *item;
	size_t i, k;

	if (how.json) {
		cli_json_print(stdout, json_incref(a), JSON_COMPACT);
	} else if (cli_json_is(a, "kind", "append")) {
		json_array_foreach(json_object_get(a, "rings"), i, ring)
		{
			if (cli_json_integer(ring, "overrun"))
				base_failure(&cli_cmd_query,
					     "lane %lld: %lld blocks were overwritten before they "
					     "were read",
					     cli_json_integer(ring, "lane"),
					     cli_json_integer(ring, "overrun"));
			json_array_foreach(json_object_get(ring, "items"), k, item)
			{
				cli_print_safe(json_string_value(item), 0);
				putchar('\n');
			}
		}
	} else if (cli_json_is(a, "kind", "sketch")) {
		show_sketch(a);
	} else {
		cli_print_safe(cli_json_text(a, "key"), 0);
		if (!strcmp(result, "found")) {
			fputs(" = ", stdout);
			show_value(a);
			show_replicas(a);
			putchar('\n');
		} else if (!strcmp(result, "empty")) {
			show_empty(a);
		} else if (!strcmp(result, "conflict")) {
			puts(": conflict: copies disagree, or a hop has an invalid value");
		} else {
			puts(": unknown: the store has no such epoch, or cannot hold this key");
		}
	}
}

/* Queries */

static int show_answers(const char *what, const char *store, char *const *keys, size_t n)
{
	json_t *answers = how.file ? ask_file(keys, n) : cli_query_ask(&collectors, store, keys, n),
	       *a;
	bool found = true;
	size_t i;

	if (!answers)
		return BASE_EXIT_FAILURE;
	json_array_foreach(answers, i, a)
	{
		/* Answers say "key-write" for "keywrite". */
		if (strncmp(cli_json_text(a, "kind"), what, 3)) {
			base_failure(&cli_cmd_query, "store '%s' is of kind %s",
				     cli_json_text(a, "store"), cli_json_text(a, "kind"));
			json_decref(answers);
			return BASE_EXIT_FAILURE;
		}
		show_answer(a);
		found &= cli_json_is(a, "result", "found");
	}
	json_decref(answers);
	return cli_output_end(&cli_cmd_query, found ? BASE_EXIT_OK : BASE_EXIT_FAILURE);
}

struct cli_query_part {
	uint32_t member;
	json_int_t lane, next;
};

/*
 * Prints new items of one lane. If one is NULL, prints all lanes of a member and adds them to
 * parts. Returns the number of items, or -1.
 */
static int look_at_lanes(const char *store, uint32_t member, struct cli_query_part *one,
			 struct cli_query_part *parts, uint32_t *n)
{
	json_t *answers, *a, *ring;
	int items = 0;
	size_t k;

	set.lane = one ? (int32_t)one->lane : set.lane;
	if (one) {
		set.from_at = (uint64_t)one->next;
		set.has_from = true;
	}
	answers = how.file ? ask_file(NULL, 0)
			   : cli_query_ask_one(&collectors, member, store, NULL, 0);
	a = json_array_get(answers, 0);
	if (answers && (cli_json_is(a, "result", "unknown") || !cli_json_is(a, "kind", "append"))) {
		base_failure(&cli_cmd_query, "%s: the append store has no such list or lane",
			     store ? store : how.file);
		json_decref(answers);
		answers = NULL;
	}
	if (!answers)
		return -1;
	show_answer(a);
	json_array_foreach(json_object_get(a, "rings"), k, ring)
	{
		struct cli_query_part *to = one ? one : *n < PARTS_MAX ? &parts[(*n)++] : NULL;

		if (to)
			*to = (struct cli_query_part){member, cli_json_integer(ring, "lane"),
						      cli_json_integer(ring, "next")};
		items += (int)json_array_size(json_object_get(ring, "items"));
	}
	json_decref(answers);
	return items;
}

/* Prints new items of each lane, starting at the end of the previous answer. */
static int follow_lanes(const char *store)
{
	static struct cli_query_part parts[PARTS_MAX];
	int stop = base_stop_fd(), items, more = 1;
	uint32_t n = 0;

	if (stop < 0)
		return base_failure(&cli_cmd_query, "signals: %s", strerror(-stop));
	for (uint32_t m = 0; m < (how.file ? 1 : collectors.n); m++)
		if ((how.file || collectors.member[m].up) &&
		    look_at_lanes(store, m, NULL, parts, &n) < 0)
			return BASE_EXIT_FAILURE;
	while (!fflush(stdout) && !base_stop_wait(stop, more ? 0 : POLL_MS)) {
		more = 0;
		for (uint32_t i = 0; i < n; i++) {
			items = look_at_lanes(store, parts[i].member, &parts[i], parts, &n);
			if (items < 0)
				return BASE_EXIT_FAILURE;
			more |= items;
		}
	}
	return cli_output_end(&cli_cmd_query, BASE_EXIT_OK);
}

static int keys_of(const char *store)
{
	json_t *j, *k;
	size_t i;

	j = cli_query_keys(&collectors, store, set.max ? set.max : 100, how.top);
	if (!j)
		return BASE_EXIT_FAILURE;
	if (cli_json_integer(j, "overwritten_blocks"))
		base_failure(&cli_cmd_query,
			     "keys may be missing: %lld blocks of the log were overwritten, or are "
			     "beyond the limit of 1,000,000 keys",
			     cli_json_integer(j, "overwritten_blocks"));
	json_array_foreach(json_object_get(j, "keys"), i, k)
	{
		char flow[DTA_FLOW_TEXT];
		uint8_t key[SL_STORE_KEY_MAX];
		int bytes = how.flows ? dta_text(cli_json_text(k, "key"), key, sizeof(key)) : 0;

		if (bytes > 0 && dta_flow_text(key, (size_t)bytes, flow))
			json_object_set_new(k, "flow", json_string(flow));
	}
	if (how.json)
		cli_json_print(stdout, json_incref(j), JSON_COMPACT);
	json_array_foreach(how.json ? NULL : json_object_get(j, "keys"), i, k)
	{
		cli_print_safe(cli_json_text(k, json_object_get(k, "flow") ? "flow" : "key"), 0);
		if (json_object_get(k, "value"))
			printf(" %lld", cli_json_integer(k, "value"));
		putchar('\n');
	}
	json_decref(j);
	return cli_output_end(&cli_cmd_query, BASE_EXIT_OK);
}

static void show_load(const json_t *s)
{
	const json_t *load = json_array_get(json_object_get(s, "load"), 0);
	const json_t *p = json_object_get(load, "predicted_success");
	const json_t *m = json_object_get(load, "measured");

	if (load)
		printf(", load %.3f, expected success rate %.4f", cli_json_number(load, "load"),
		       json_number_value(json_array_get(p, json_array_size(p) - 1)));
	if (json_is_object(m))
		printf("; found %.1f %% of %lld sampled keys (%.1f %% predicted from their ages)",
		       100 * cli_json_number(m, "ratio"), cli_json_integer(m, "asked"),
		       100 * cli_json_number(m, "predicted"));
}

static void show_status(const json_t *j)
{
	const json_t *s, *a = json_object_get(j, "account");
	size_t i;

	json_array_foreach(json_object_get(j, "stores"), i, s)
	{
		printf("store %-16s %-10s epoch %lld", cli_json_text(s, "name"),
		       cli_json_text(s, "kind"), cli_json_integer(s, "epoch"));
		show_load(s);
		puts(cli_json_true(s, "waiting") ? ", waiting for a translator" : "");
	}
	json_array_foreach(json_object_get(j, "gaps"), i, s)
		printf("missed reports from %.0f to %.0f of %s: replicas have %lld reports%s\n",
		       cli_json_number(s, "from"), cli_json_number(s, "to"),
		       cli_json_text(s, "translator"), cli_json_integer(s, "reports"),
		       cli_json_true(s, "filled") ? ", since then read from a peer" : "");
	json_array_foreach(json_object_get(j, "translators"), i, s)
		printf("translator %-16s %s\n", cli_json_text(s, "name"),
		       cli_json_true(s, "connected") ? "connected" : "gone");
	printf("account: %lld sent = %lld"
	       " stored + %lld waiting + %lld duplicates + %lld late + %lld dropped + %lld lost + "
	       "%lld missing + %lld unknown%s\n",
	       cli_json_integer(a, "sent"), cli_json_integer(a, "stored"),
	       cli_json_integer(a, "waiting"), cli_json_integer(a, "duplicates"),
	       cli_json_integer(a, "late"), cli_json_integer(a, "dropped"),
	       cli_json_integer(a, "lost"), cli_json_integer(a, "missing"),
	       cli_json_integer(a, "unknown"),
	       cli_json_true(a, "closes") ? "" : " (does not add up)");
}

static int query_status(void)
{
	int code = BASE_EXIT_OK;

	for (uint32_t m = 0; m < collectors.n; m++) {
		json_t *j = cli_query_get(&collectors, m, "/api/v1/dta");

		if (!j) {
			code = BASE_EXIT_FAILURE;
			continue;
		}
		if (collectors.n > 1 && how.json)
			json_object_set_new(j, "collector", json_string(collectors.member[m].at));
		else if (collectors.n > 1)
			printf("collector %s\n", collectors.member[m].at);
		if (!how.json)
			show_status(j);
		else
			cli_json_print(stdout, json_incref(j), JSON_INDENT(1));
		json_decref(j);
	}
	return cli_output_end(&cli_cmd_query, code);
}

static void show_reporter(const json_t *r)
{
	char at[80];

	snprintf(at, sizeof(at), strchr(cli_json_text(r, "address"), ':') ? "[%s]:%lld" : "%s:%lld",
		 cli_json_text(r, "address"), cli_json_integer(r, "port"));
	printf("%6lld %10lld ", cli_json_integer(r, "tenant"), cli_json_integer(r, "reporter"));
	cli_print_safe(at, 24);
	printf(" %9.0f %9.0f %12.0f %12lld %9lld %9lld %10lld ", cli_json_number(r, "age_seconds"),
	       cli_json_number(r, "silent_seconds") + cli_json_number(r, "told_seconds"),
	       cli_json_number(r, "rate"), cli_json_integer(r, "arrived"),
	       cli_json_integer(r, "lost"), cli_json_integer(r, "missing"),
	       cli_json_integer(r, "collisions"));
	cli_print_safe(cli_json_text(r, "translator"), 0);
	puts(cli_json_true(r, "connected") ? "" : " (gone)");
}

/* Prints the members `list` of all collectors' answers; *more: how many they left out. */
static int show_lists(const char *path, const char *list, void (*show)(const json_t *),
		      long long *more)
{
	int code = BASE_EXIT_OK;
	json_t *j, *one;
	size_t i;

	for (uint32_t m = 0; m < collectors.n; m++) {
		j = cli_query_get(&collectors, m, path);
		if (!j)
			code = BASE_EXIT_FAILURE;
		*more += cli_json_integer(j, "more");
		json_array_foreach(json_object_get(j, list), i, one)
		{
			if (how.json)
				cli_json_print(stdout, json_incref(one), JSON_COMPACT);
			else
				show(one);
		}
		json_decref(j);
	}
	return code;
}

/* Lists the reporters of all collectors. */
static int query_reporters(void)
{
	long long more = 0;
	int code;

	if (!how.json)
		printf("%6s %10s %-24s %9s %9s %12s %12s %9s %9s %10s %s\n", "tenant", "reporter",
		       "address", "age s", "silent s", "reports/s", "arrived", "lost", "missing",
		       "collisions", "translator");
	code = show_lists("/api/v1/dta/reporters", "reporters", show_reporter, &more);
	if (more && !how.json)
		printf("%lld other reporters were last heard from earlier\n", more);
	return cli_output_end(&cli_cmd_query, code);
}

static void show_exporter(const json_t *e)
{
	const json_t *offset = json_object_get(e, "clock_offset_seconds");
	char name[CLI_NAME], clock[24] = "-";

	cli_names_device(json_object_get(e, "address"), name);
	cli_print_safe(name, 24);
	if (offset)
		snprintf(clock, sizeof(clock), "%+.1f", json_number_value(offset));
	printf(" %-7s %9.0f %9lld %8lld %10lld %10lld %9lld %8lld %8lld %9lld %8s ",
	       cli_json_text(e, "input"),
	       cli_json_number(e, "silent_seconds") + cli_json_number(e, "told_seconds"),
	       cli_json_integer(e, "templates"), cli_json_integer(e, "sampling"),
	       cli_json_integer(e, "datagrams"), cli_json_integer(e, "records"),
	       cli_json_integer(e, "lost"), cli_json_integer(e, "no_template"),
	       cli_json_integer(e, "refused"), cli_json_integer(e, "unmapped"), clock);
	cli_print_safe(cli_json_text(e, "translator"), 0);
	puts(cli_json_true(e, "connected") ? "" : " (gone)");
}

/* Lists the devices of all translators. */
static int query_exporters(const struct base_command *self)
{
	int code = cli_names_read(self, &names);
	long long more = 0;

	if (code)
		return code;
	if (!how.json)
		printf("%-24s %-7s %9s %9s %8s %10s %10s %9s %8s %8s %9s %8s %s\n", "exporter",
		       "input", "silent s", "templates", "sampling", "datagrams", "records", "lost",
		       "no templ", "refused", "unmapped", "clock s", "translator");
	code = show_lists("/api/v1/dta/exporters", "exporters", show_exporter, &more);
	return cli_output_end(&cli_cmd_query, code);
}

static bool store_name_fits(const char *name)
{
	return strlen(name) <= 128 && strspn(name, STORE_NAME) == strlen(name);
}

/* Changes */

/* Applies "rotate STORE", "resize STORE SLOTS" or "reload" to every collector. */
static int change_stores(const struct base_command *self, const char *what, char *const *words,
			 size_t n)
{
	const bool resize = !strcmp(what, "resize"), reload = !strcmp(what, "reload");
	const size_t takes = reload ? 0 : resize ? 2 : 1;
	int code = BASE_EXIT_OK;
	uint64_t slots = 0;
	char path[320];

	if (n != takes || how.file)
		return base_usage(self, "%s expects %s, and cannot be combined with --file", what,
				  reload   ? "no operand"
				  : resize ? "STORE and SLOTS"
					   : "STORE");
	if (resize && base_parse_u64(words[1], 1, INT64_MAX, &slots))
		return base_usage(self, "SLOTS must be a positive number, not '%s'", words[1]);
	if (takes && !store_name_fits(words[0]))
		return base_usage(self, "'%s' is not a valid store name", words[0]);
	if (!cli_query_meet(&collectors, &set, reload ? NULL : words[0]))
		return BASE_EXIT_FAILURE;
	snprintf(path, sizeof(path), "/api/v1/dta/%s%s%s", reload ? "reload" : "stores/",
		 reload ? "" : words[0], reload || resize ? "" : "/rotate");
	for (uint32_t m = 0; m < collectors.n; m++) {
		json_t *done = cli_query_send(&collectors, m, resize ? "PUT" : "POST", path,
					      resize ? json_pack("{s:I}", "slots", CLI_INT(slots))
						     : NULL);

		if (!done)
			code = BASE_EXIT_FAILURE;
		json_decref(done);
	}
	return code;
}

/* Options */

static struct {
	const char *epoch, *from, *within, *token;
} text;

static const struct base_option table[] = {
	BASE_LIST("collector", 'c', &set.collectors, "HOST:PORT",
		  "query this collector; repeatable: each key is looked up at the collector that "
		  "holds it, or at the next one (default " DEFAULT_AT ")"),
	BASE_STRING("file", 'f', &how.file, "FILE", "query the file of a store instead of STORE"),
	BASE_STRING("epoch", 'e', &text.epoch, "N",
		    "query this epoch (default: the newest with the key)"),
	BASE_UINT("copies", 'n', &set.copies, 0, SL_STORE_COPIES_MAX, "N",
		  "number of copies that the reporter wrote (default: the store's)"),
	BASE_STRING("policy", 'p', &set.policy, "NAME",
		    "choose among differing copies by first (default), plurality or consensus"),
	BASE_UINT("consensus", 0, &set.consensus, 0, SL_STORE_COPIES_MAX, "T",
		  "copies that must agree under --policy consensus (default 2)"),
	BASE_STRING("within", 'w', &text.within, "KEYS",
		    "for a missing key: print the probability of finding it if only KEYS keys had "
		    "followed"),
	BASE_UINT("list", 'l', &set.list, 0, SL_STORE_LISTS_MAX - 1, "N",
		  "number of the append list (default 0)"),
	BASE_INT("lane", 0, &set.lane, -1, SL_STORE_LANES_MAX - 1, "N",
		 "show only the lane of this translator; -1 means all"),
	BASE_STRING("from", 0, &text.from, "BLOCK|TIME",
		    "append: start with this block (default: the oldest); paths, drops, top: use "
		    "epochs after this time, or 15m for 15 minutes ago"),
	BASE_STRING("to", 0, &seen.to, "TIME", "paths, drops, top: use epochs before this time"),
	BASE_STRING("through", 0, &seen.through, "DEVICE[/INTERFACE][,DEVICE]",
		    "paths: show flows that crossed this device, or the link between two; a device "
		    "is an exporter's address, the number of an INT switch, or a name"),
	BASE_STRING("device", 0, &seen.device, "DEVICE", "drops, top: only at this device"),
	BASE_STRING("interface", 0, &seen.interface, "N",
		    "drops, top: only at the interface with this number or name"),
	BASE_STRING("reason", 0, &seen.reason, "N", "drops: only with this reason"),
	BASE_STRING("by", 0, &seen.by, "NAME",
		    "top: add up by address (default), prefix, as, interface or application"),
	BASE_STRING("prefix", 0, &seen.prefix, "BITS[,BITS]",
		    "top --by prefix: length of IPv4 and IPv6 prefixes (default 24,48)"),
	BASE_STRING("hosts", 0, &names.hosts, "FILE",
		    "show addresses by their names in this file in the format of hosts(5)"),
	BASE_STRING("names", 0, &names.names, "FILE",
		    "show devices, interfaces and AS by their names in this file"),
	BASE_FLAG("resolve", 0, &names.resolve, "show addresses by their names from reverse DNS"),
	BASE_FLAG("numeric", 0, &names.numeric, "show ports as numbers"),
	BASE_UINT("max", 'm', &set.max, 0, 10000, "N",
		  "show at most N items per lane, 64 to 4096, or N keys, 1 to 10000 (default 100)"),
	BASE_STRING("token-file", 0, &text.token, "PATH",
		    "file with the collector's bearer token (default: the token left for the "
		    "collector's own user)"),
	CLI_OPTION_CLIENT("http-config", &set.config, "collectors"),
	BASE_FLAG("follow", 0, &how.follow, "append: show new items as they arrive"),
	BASE_FLAG("top", 0, &how.top, "keys: show counts, in descending order"),
	BASE_FLAG("flows", 0, &how.flows,
		  "keys: show keys that have the length of a 5-tuple as "
		  "flow:..."),
	BASE_FLAG("all", 'a', &how.all,
		  "export the contents of STORE or --file as CSV, or with --json as JSON lines"),
	BASE_STRING("keys", 'k', &how.keys, "FILE",
		    "with --all: export the answers for these keys, one per line"),
	BASE_FLAG("slots", 0, &how.slots,
		  "with --all: export slots in memory order, even if there is a key log"),
	BASE_FLAG("disagree", 0, &how.disagree,
		  "with --all: export only keys on which replicas disagree"),
	BASE_FLAG("json", 'j', &how.json, "print JSON, one object per line"),
	{0},
};

enum { KEYWRITE, INCREMENT, POSTCARD, APPEND, SKETCH, KEYS };
static const char *const kinds[] = {"keywrite", "increment", "postcard", "append",
				    "sketch",	"keys",	     NULL};
static const char *const lists[] = {"status", "reporters", "exporters", NULL};
static const char *const changes[] = {"rotate", "resize", "reload", NULL};
#define WORDS                                                                              \
	"paths, drops, top, keywrite, increment, postcard, append, sketch, keys, status, " \
	"reporters, exporters, rotate, resize"

static int check_settings(const struct base_command *self, const char *what)
{
	static const char *at[] = {DEFAULT_AT};

	if (!set.collectors.n)
		set.collectors = (struct base_strings){at, 1};
	if (set.collectors.n > DTA_HASH_RING_MEMBERS_MAX)
		return base_usage(self, "--collector: at most %u are allowed",
				  DTA_HASH_RING_MEMBERS_MAX);
	for (size_t i = 0; i < set.collectors.n; i++) {
		const char *given = set.collectors.v[i];

		set.collectors.v[i] = cli_address(given);
		if (!set.collectors.v[i])
			return base_usage(self, "--collector '%.100s' is not HOST:PORT", given);
	}
	set.has_epoch = text.epoch;
	set.has_from = text.from;
	if (text.epoch && base_parse_u64(text.epoch, 0, INT64_MAX, &set.epoch_at))
		return base_usage(self, "--epoch '%s' is not a number", text.epoch);
	if (text.within && base_parse_u64(text.within, 1, INT64_MAX, &set.within))
		return base_usage(self, "--within '%s' is not a positive number", text.within);
	if (text.from && cli_choice(what, cli_seen_names) < 0 &&
	    base_parse_u64(text.from, 0, INT64_MAX, &set.from_at))
		return base_usage(self, "--from '%s' is not a number", text.from);
	if (text.token && !(set.token = cli_token_read(self, text.token)))
		return BASE_EXIT_FAILURE;
	if (set.policy && !dta_query_policy_of(set.policy, &(enum sl_query_policy){0}))
		return base_usage(self, "--policy '%s' is not one of first, plurality, consensus",
				  set.policy);
	return BASE_EXIT_OK;
}

static int check_kind(const struct base_command *self, int kind, char *const *keys, size_t n)
{
	if (kind <= POSTCARD && (!n || n > KEYS_MAX))
		return base_usage(self, "%s takes 1 to %u keys", kinds[kind], KEYS_MAX);
	if (kind == SKETCH && n > 1)
		return base_usage(self, "%s takes at most one key", kinds[kind]);
	if ((kind == APPEND || kind == KEYS) && n)
		return base_usage(self, "%s takes no keys", kinds[kind]);
	for (size_t i = 0; i < n; i++)
		if (dta_query_key(keys[i], (uint8_t[SL_STORE_KEY_MAX]){0}) < 0)
			return base_usage(
				self,
				"'%s' is not a key: 4 to 64 bytes in hexadecimal, text:WORD, "
				"u32:N, u64:N or flow:...",
				keys[i]);
	if (how.follow && kind != APPEND)
		return base_usage(self, "--follow is only possible with append");
	if (kind != KEYS && set.max &&
	    (set.max < SL_STORE_BATCH_MAX || set.max > DTA_ASK_ITEMS_MAX))
		return base_usage(self, "--max must be from 64 to 4096");
	if (kind == KEYS && how.file)
		return base_usage(self, "keys requires --collector instead of --file");
	return BASE_EXIT_OK;
}

static bool open_file(char *error, size_t error_bytes)
{
	object = dta_store_object_open(how.file, error, error_bytes);
	/* The translator that writes the file may truncate it meanwhile. */
	if (object)
		dta_guard_add(object->view.map, object->map_bytes, object->fd, -1);
	return object;
}

/*
 * Returns code, or BASE_EXIT_FAILURE after printing an error if more than `spare` collectors did
 * not answer: sums and lists then lack what only those collectors have.
 */
static int check_complete(int code, uint32_t spare)
{
	uint32_t absent = 0;

	for (uint32_t m = 0; m < collectors.n; m++)
		absent += !collectors.member[m].up;
	if (absent <= spare || absent == collectors.n)
		return code;
	return base_failure(&cli_cmd_query, "incomplete: no answer from %u of %u collectors",
			    absent, collectors.n);
}

static int run_query(int kind, const char *store, char *const *keys, size_t n)
{
	char error[256];
	int code;

	if (how.file) {
		if (!open_file(error, sizeof(error)))
			return base_failure(&cli_cmd_query, "%s", error);
	} else if (!cli_query_meet(&collectors, &set, store)) {
		return BASE_EXIT_FAILURE;
	}
	if (kind == KEYS)
		code = keys_of(store);
	else if (how.follow)
		code = follow_lanes(store);
	/* answers say "key-write" for "keywrite" */
	else
		code = show_answers(kind == KEYWRITE ? "key" : kinds[kind], store, keys, n);
	dta_store_object_free(object, false);
	if (kind == KEYWRITE || kind == POSTCARD)
		return code;
	return check_complete(code, BASE_MAX(collectors.replicas, 1u) - 1);
}

static const char *exported; /* name of the store to export */

static json_t *ask_for_export(char *const *keys, size_t n)
{
	return how.file ? ask_file(keys, n) : cli_query_ask(&collectors, exported, keys, n);
}

static int export_all(const struct base_command *self, char *const *words, size_t n)
{
	const struct cli_query_export x = {.self = self,
					   .json = how.json,
					   .slots = how.slots,
					   .keys = how.keys,
					   .disagree = how.disagree,
					   .ask = ask_for_export};
	char error[256];
	int code;

	if (n != !how.file || how.follow || how.top || (how.keys && how.slots))
		return base_usage(
			self,
			"--all requires a STORE or --file; of the other options, only --epoch, "
			"--json, and --keys or --slots are possible");
	if (n && !store_name_fits(words[0]))
		return base_usage(self, "'%s' is not a valid store name", words[0]);
	if (how.disagree && (set.collectors.n < 2 || how.slots))
		return base_usage(
			self, "--disagree compares collectors: specify each with --collector, and "
			      "omit --slots");
	if (!how.file) {
		if (!cli_query_meet(&collectors, &set, words[0]))
			return BASE_EXIT_FAILURE;
		if (how.disagree && collectors.replicas < 2)
			return base_failure(
				self,
				"these collectors cannot be compared: their translators run "
				"without --replicas, so each key is stored on only one of them");
		exported = words[0];
		return check_complete(cli_query_export(&x, &collectors, words[0]), 0);
	}
	if (!open_file(error, sizeof(error)))
		return base_failure(self, "%s", error);
	code = cli_query_export_object(&x, &set, object);
	dta_store_object_free(object, false);
	return code;
}

/* Answers "paths", "drops" and "top". */
static int query_seen(const struct base_command *self, const char *what)
{
	int code;

	seen.from = text.from;
	seen.json = how.json;
	seen.max = set.max;
	set.has_from = false;
	code = cli_names_read(self, &names);
	if (code)
		return code;
	if (!cli_query_meet(&collectors, &set, NULL))
		return BASE_EXIT_FAILURE;
	return cli_query_seen(self, &collectors,
			      (enum cli_seen_kind)cli_choice(what, cli_seen_names), &seen);
}

static int query_main(const struct base_command *self, int argc, char **argv)
{
	const char *what, *store = NULL;
	int code, kind, first = base_options_parse(self, table, argc, argv, &code);

	if (first < 0)
		return code;
	if (how.all)
		return check_settings(self, "")
			       ?: export_all(self, argv + first, (size_t)(argc - first));
	if (how.keys || how.slots || how.disagree)
		return base_usage(self, "--keys, --slots and --disagree require --all");
	if (first == argc)
		return base_usage(self, "expected " WORDS " or reload");
	what = argv[first++];
	code = check_settings(self, what);
	if (code)
		return code;
	if ((first != argc || how.file) &&
	    (cli_choice(what, lists) >= 0 || cli_choice(what, cli_seen_names) >= 0))
		return base_usage(self, "%s takes no operand, and cannot be combined with --file",
				  what);
	if (cli_choice(what, lists) >= 0) {
		if (!cli_query_meet(&collectors, &set, NULL))
			return BASE_EXIT_FAILURE;
		return *what == 's'   ? query_status()
		       : *what == 'e' ? query_exporters(self)
				      : query_reporters();
	}
	if (cli_choice(what, cli_seen_names) >= 0)
		return query_seen(self, what);
	if (cli_choice(what, changes) >= 0)
		return change_stores(self, what, argv + first, (size_t)(argc - first));
	kind = cli_choice(what, kinds);
	if (kind < 0)
		return base_usage(self, "'%s' is not one of " WORDS ", reload", what);
	if (!how.file && first == argc)
		return base_usage(self, "%s needs a STORE", what);
	if (!how.file)
		store = argv[first++];
	return check_kind(self, kind, argv + first, (size_t)(argc - first))
		       ?: run_query(kind, store, argv + first, (size_t)(argc - first));
}

const struct base_command cli_cmd_query = {
	.name = "query",
	.synopsis = "paths --through DEVICE[,DEVICE]|drops|top\n"
		    "       sidelight query keywrite|increment|postcard STORE KEY...\n"
		    "       sidelight query append|sketch|keys STORE [KEY]\n"
		    "       sidelight query --all [--disagree] STORE\n"
		    "       sidelight query status|reporters|exporters\n"
		    "       sidelight query rotate STORE|resize STORE SLOTS|reload",
	.summary = "Query stores of reports: values, counts, paths, lists, sketches",
	.run = query_main,
};
