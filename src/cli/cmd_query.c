// SPDX-License-Identifier: Apache-2.0
/* cmd_query.c - sidelight query: what stores say, asked of a collector over HTTP or of a store's file. */
#include <curl/curl.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "cli/common.h"
#include "dta/query_json.h"
#include "dta/stores.h"

#define KEYS_MAX   1000u
#define ANSWER_MAX ((size_t)64 << 20)
#define POLL_MS	   100
#define TIMEOUT_MS 10000l
#define DEFAULT_AT "127.0.0.1:9464"
#define PARTS_MAX  64 /* lanes that are followed */

static struct settings {
	const char *collector, *file, *policy;

	uint32_t copies, consensus, list, max;
	int32_t lane;
	uint64_t epoch_at, from_at;
	bool has_epoch, has_from, json, follow, top;
} set;

static int query_main(const struct sl_command *self, int argc, char **argv);

const struct sl_command sl_cmd_query = {
	.name = "query",
	.synopsis = "keywrite|increment|postcard STORE KEY...\n"
		    "       sidelight query append|sketch|keys STORE [KEY]\n"
		    "       sidelight query status",
	.summary = "Ask stores of reports: values, counts, paths, lists, sketches",
	.run = query_main,
};

static int failed(const char *what, const char *why)
{
	fprintf(stderr, "sidelight query: %s: %s\n", what, why);
	return SL_EXIT_FAILURE;
}

/* ---- asking ------------------------------------------------------------------------------------------- */

struct answer {
	char *text;
	size_t bytes;
};

static size_t take(char *from, size_t size, size_t n, void *arg)
{
	struct answer *a = arg;
	char *more = a->bytes + size * n <= ANSWER_MAX ? realloc(a->text, a->bytes + size * n + 1)
						       : NULL;

	if (!more)
		return 0;
	a->text = more;
	memcpy(a->text + a->bytes, from, size * n);
	a->bytes += size * n;
	return size * n;
}

/* GET, or POST where there is a body (which it takes over). NULL after a line on stderr. */
static json_t *fetch(const char *path, json_t *body)
{
	char url[1024], why[CURL_ERROR_SIZE] = "";
	char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct answer a = {0};
	json_t *j = NULL;
	long status = 0;
	CURLcode err;
	CURL *curl = curl_easy_init();

	json_decref(body);
	snprintf(url, sizeof(url), "http://%s%s", set.collector, path);
	if (!curl) {
		free(text);
		failed(url, "out of memory");
		return NULL;
	}
	curl_easy_setopt(curl, CURLOPT_URL, url);
	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, why);
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, &a);
	if (text)
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, text);
	err = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	curl_easy_cleanup(curl);
	free(text);
	if (!err)
		j = json_loadb(a.text ? a.text : "", a.bytes, JSON_REJECT_DUPLICATES, NULL);
	if (err)
		failed(set.collector, *why ? why : curl_easy_strerror(err));
	else if (status != 200 || !j) {
		const char *said = json_string_value(json_object_get(j, "error"));

		failed(set.collector, said	      ? said
				      : status == 404 ? "has no stores: is it run with --dta?"
						      : "gave no answer that can be understood");
		json_decref(j);
		j = NULL;
	}
	free(a.text);
	return j;
}

static void add(char *to, size_t room, const char *key, const char *value)
{
	char *safe = curl_easy_escape(NULL, value, 0);
	size_t n = strlen(to);

	snprintf(to + n, room - n, "%c%s=%s", strchr(to, '?') ? '&' : '?', key, safe ? safe : "");
	curl_free(safe);
}

static void add_number(char *to, size_t room, const char *key, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	add(to, room, key, text);
}

/* What was given of a query's parameters: to a path, or to an object. */
static void parameters(char *path, size_t room, json_t *body)
{
	const struct {
		const char *name;
		bool given;
		uint64_t value;
	} numbers[] = {
		{"epoch", set.has_epoch, set.epoch_at},
		{"copies", set.copies, set.copies},
		{"consensus", set.consensus, set.consensus},
		{"list", true, set.list},
		{"lane", set.lane >= 0, (uint64_t)set.lane},
		{"from", set.has_from, set.from_at},
		{"max", set.max, set.max},
	};

	for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
		if (!numbers[i].given)
			continue;
		if (body)
			json_object_set_new(body, numbers[i].name,
					    json_integer((json_int_t)numbers[i].value));
		else
			add_number(path, room, numbers[i].name, numbers[i].value);
	}
	if (set.policy && body)
		json_object_set_new(body, "policy", json_string(set.policy));
	else if (set.policy)
		add(path, room, "policy", set.policy);
}

static struct sl_store_object *object; /* --file */

static json_t *ask_file(char *const *keys, size_t n)
{
	struct sl_held held = {.count = 1, .view = {&object->view}};
	json_t *answers = json_array(), *one;
	struct sl_ask ask;
	char error[160];

	sl_ask_init(&ask);
	if (set.has_epoch)
		ask.epoch = set.epoch_at;
	if (set.has_from)
		ask.from = set.from_at;
	if (set.policy)
		sl_ask_set(&ask, "policy", set.policy);
	if (set.consensus)
		ask.consensus = set.consensus;
	if (set.lane >= 0)
		ask.lane = (uint32_t)set.lane;
	if (set.max)
		ask.max = set.max;
	ask.copies = set.copies;
	ask.list = set.list;
	for (size_t i = 0; i < n || (!n && !i); i++) {
		if (n)
			sl_ask_set(&ask, "key", keys[i]);
		one = sl_query_json(&held, &ask, error, sizeof(error));
		if (!one) {
			failed(set.file, error);
			json_decref(answers);
			return NULL;
		}
		json_array_append_new(answers, one);
	}
	return answers;
}

/* An array of answers, one a key; NULL after a line on stderr. */
static json_t *ask(const char *store, char *const *keys, size_t n)
{
	char path[768] = "/api/v1/dta/query";
	json_t *j, *list, *body, *answers;

	if (set.file)
		return ask_file(keys, n);
	if (n < 2) {
		add(path, sizeof(path), "store", store);
		if (n)
			add(path, sizeof(path), "key", keys[0]);
		parameters(path, sizeof(path), NULL);
		j = fetch(path, NULL);
		return j ? json_pack("[o]", j) : NULL;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, json_string(keys[i]));
	body = json_pack("{s:s,s:o}", "store", store, "keys", list);
	parameters(NULL, 0, body);
	j = fetch(path, body);
	answers = json_incref(json_object_get(j, "answers"));
	json_decref(j);
	return answers;
}

/* ---- showing --------------------------------------------------------------------------------------------- */

static json_int_t number(const json_t *j, const char *key)
{
	return json_integer_value(json_object_get(j, key));
}

static const char *word(const json_t *j, const char *key)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? s : "";
}

static void print(const char *s)
{
	sl_print_safe(s, 0);
}

static void show_value(const json_t *a)
{
	json_t *value = json_object_get(a, "value"), *hop;
	size_t i;

	if (json_is_string(value)) {
		print(json_string_value(value));
	} else if (json_is_integer(value)) {
		printf("%" JSON_INTEGER_FORMAT " (at most %.0f too high with probability %.3f)",
		       json_integer_value(value), json_number_value(json_object_get(a, "error")),
		       json_number_value(json_object_get(a, "error_probability")));
	} else {
		json_array_foreach(json_object_get(a, "path"), i, hop)
		{
			if (json_is_integer(hop))
				printf("%s%" JSON_INTEGER_FORMAT, i ? " " : "",
				       json_integer_value(hop));
			else
				printf("%s?", i ? " " : "");
		}
	}
	if (json_object_get(a, "agreed"))
		printf(", %" JSON_INTEGER_FORMAT " cop%s agree%s", number(a, "agreed"),
		       number(a, "agreed") == 1 ? "y" : "ies", number(a, "agreed") == 1 ? "s" : "");
	printf(", epoch %" JSON_INTEGER_FORMAT, number(a, "epoch"));
}

static void show_sketch(const json_t *a)
{
	print(word(a, "store"));
	if (strcmp(word(a, "result"), "found")) {
		printf(": %s\n", word(a, "result"));
		return;
	}
	printf(": epoch %" JSON_INTEGER_FORMAT ", %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
	       " reporters%s",
	       number(a, "epoch"), number(a, "reporters"), number(a, "expected"),
	       json_is_true(json_object_get(a, "complete")) ? "" : " (not complete)");
	if (json_object_get(a, "estimate"))
		printf(": %.0f +- %.0f", json_number_value(json_object_get(a, "estimate")),
		       json_number_value(json_object_get(a, "error")));
	putchar('\n');
}

/* True if it was found. */
static bool show(const json_t *a)
{
	const char *result = word(a, "result");
	json_t *ring, *item;
	size_t i, k;

	if (!strcmp(word(a, "kind"), "append")) {
		json_array_foreach(json_object_get(a, "rings"), i, ring)
		{
			if (number(ring, "overrun"))
				fprintf(stderr,
					"sidelight query: lane %" JSON_INTEGER_FORMAT
					": %" JSON_INTEGER_FORMAT
					" blocks were overwritten before they were read\n",
					number(ring, "lane"), number(ring, "overrun"));
			json_array_foreach(json_object_get(ring, "items"), k, item)
			{
				print(json_string_value(item));
				putchar('\n');
			}
		}
	} else if (!strcmp(word(a, "kind"), "sketch")) {
		show_sketch(a);
	} else {
		print(word(a, "key"));
		if (!strcmp(result, "found")) {
			fputs(" = ", stdout);
			show_value(a);
			putchar('\n');
		} else if (!strcmp(result, "empty")) {
			printf(": empty: never reported, or overwritten (%" JSON_INTEGER_FORMAT
			       " of %" JSON_INTEGER_FORMAT " slots in use)\n",
			       number(a, "occupied"), number(a, "asked"));
		} else if (!strcmp(result, "conflict")) {
			puts(": conflict: copies disagree, or a hop says what none may");
		} else {
			puts(": unknown: no such epoch, or no key of this store");
		}
	}
	return !strcmp(result, "found");
}

/* ---- commands ------------------------------------------------------------------------------------------------ */

static int show_answers(const char *what, const char *store, char *const *keys, size_t n)
{
	json_t *answers = ask(store, keys, n), *a;
	bool found = true;
	size_t i;

	if (!answers)
		return SL_EXIT_FAILURE;
	json_array_foreach(answers, i, a)
	{
		/* "keywrite" is "key-write" there. */
		if (strncmp(word(a, "kind"), what, 3)) {
			fprintf(stderr, "sidelight query: store '%s' is of kind %s\n",
				word(a, "store"), word(a, "kind"));
			json_decref(answers);
			return SL_EXIT_FAILURE;
		}
		if (set.json) {
			json_dumpf(a, stdout, JSON_COMPACT);
			putchar('\n');
			found &= !strcmp(word(a, "result"), "found");
		} else {
			found &= show(a);
		}
	}
	json_decref(answers);
	return fflush(stdout) || !found ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

/* Items as they come, of each lane from where the last answer ended. */
static int follow(const char *store)
{
	int stop = sl_stop_fd(), lanes = 0;
	struct {
		json_int_t lane, next;
	} at[PARTS_MAX];
	bool more;

	if (stop < 0)
		return failed("signals", strerror(-stop));
	do {
		more = false;
		for (int i = 0; i < lanes || !lanes; i++) {
			json_t *answers, *a, *ring;
			size_t k;

			if (lanes) {
				set.lane = (int32_t)at[i].lane;
				set.from_at = (uint64_t)at[i].next;
				set.has_from = true;
			}
			answers = ask(store, NULL, 0);
			if (!answers)
				return SL_EXIT_FAILURE;
			a = json_array_get(answers, 0);
			if (!strcmp(word(a, "result"), "unknown") ||
			    strcmp(word(a, "kind"), "append")) {
				json_decref(answers);
				return failed(store ? store : set.file,
					      "no such list or lane of an append store");
			}
			if (set.json)
				json_dumpf(a, stdout, JSON_COMPACT), putchar('\n');
			else
				show(a);
			json_array_foreach(json_object_get(a, "rings"), k, ring)
			{
				size_t to = lanes ? (size_t)i : k;

				if (to >= PARTS_MAX)
					break;
				at[to].lane = number(ring, "lane");
				at[to].next = number(ring, "next");
				more |= json_array_size(json_object_get(ring, "items")) > 0;
			}
			if (!lanes) {
				lanes = (int)(k < PARTS_MAX ? k : PARTS_MAX);
				i = lanes;
			}
			json_decref(answers);
		}
		if (fflush(stdout))
			return SL_EXIT_FAILURE;
	} while (!sl_stop_wait(stop, more ? 0 : POLL_MS));
	return SL_EXIT_OK;
}

static int keys_of(const char *store)
{
	char path[256] = "/api/v1/dta/keys";
	json_t *j, *k;
	size_t i;

	add(path, sizeof(path), "store", store);
	add_number(path, sizeof(path), "max", set.max ? set.max : 100);
	if (set.top)
		add(path, sizeof(path), "top", "1");
	j = fetch(path, NULL);
	if (!j)
		return SL_EXIT_FAILURE;
	if (set.json) {
		json_dumpf(j, stdout, JSON_COMPACT);
		putchar('\n');
	} else {
		json_array_foreach(json_object_get(j, "keys"), i, k)
		{
			print(word(k, "key"));
			if (json_object_get(k, "value"))
				printf(" %" JSON_INTEGER_FORMAT, number(k, "value"));
			putchar('\n');
		}
	}
	json_decref(j);
	return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

static int status(void)
{
	json_t *j = fetch("/api/v1/dta", NULL), *s, *a;
	size_t i;

	if (!j)
		return SL_EXIT_FAILURE;
	if (set.json) {
		json_dumpf(j, stdout, JSON_INDENT(1));
		putchar('\n');
		json_decref(j);
		return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
	}
	json_array_foreach(json_object_get(j, "stores"), i, s)
	{
		json_t *load = json_array_get(json_object_get(s, "load"), 0);

		printf("store %-16s %-10s epoch %" JSON_INTEGER_FORMAT, word(s, "name"),
		       word(s, "kind"), number(s, "epoch"));
		if (load) {
			json_t *p = json_object_get(load, "predicted_success");

			printf(", load %.3f, success expected %.4f",
			       json_number_value(json_object_get(load, "load")),
			       json_number_value(json_array_get(p, json_array_size(p) - 1)));
		}
		puts(json_is_true(json_object_get(s, "waiting")) ? ", waits for a translator" : "");
	}
	json_array_foreach(json_object_get(j, "translators"), i, s)
		printf("translator %-16s %s\n", word(s, "name"),
		       json_is_true(json_object_get(s, "connected")) ? "connected" : "gone");
	a = json_object_get(j, "account");
	printf("account: %" JSON_INTEGER_FORMAT " sent = %" JSON_INTEGER_FORMAT
	       " stored + %" JSON_INTEGER_FORMAT " waiting + %" JSON_INTEGER_FORMAT
	       " duplicates + %" JSON_INTEGER_FORMAT " late + %" JSON_INTEGER_FORMAT
	       " dropped + %" JSON_INTEGER_FORMAT " lost + %" JSON_INTEGER_FORMAT " missing%s\n",
	       number(a, "sent"), number(a, "stored"), number(a, "waiting"),
	       number(a, "duplicates"), number(a, "late"), number(a, "dropped"), number(a, "lost"),
	       number(a, "missing"),
	       json_is_true(json_object_get(a, "closes")) ? "" : " (does not close)");
	json_decref(j);
	return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}

static int query_main(const struct sl_command *self, int argc, char **argv)
{
	static const char *const kinds[] = {"keywrite", "increment", "postcard",
					    "append",	"sketch",    "keys"};
	const char *what, *store = NULL, *epoch = NULL, *from = NULL;
	char error[256];
	size_t kind = 0, n;
	int first, code;
	const struct sl_option table[] = {
		{.name = "collector",
		 .letter = 'c',
		 .type = SL_OPT_STRING,
		 .to = &set.collector,
		 .argument = "HOST:PORT",
		 .help = "ask this one (default " DEFAULT_AT ")"},
		{.name = "file",
		 .letter = 'f',
		 .type = SL_OPT_STRING,
		 .to = &set.file,
		 .argument = "FILE",
		 .help = "ask the file of a store, and name no STORE"},
		{.name = "epoch",
		 .letter = 'e',
		 .type = SL_OPT_STRING,
		 .to = &epoch,
		 .argument = "N",
		 .help = "of this epoch (default: the newest that has it)"},
		{.name = "copies",
		 .letter = 'n',
		 .type = SL_OPT_U32,
		 .to = &set.copies,
		 .argument = "N",
		 .help = "as the reporter wrote them (default: as the store says)",
		 .max = SL_STORE_COPIES_MAX},
		{.name = "policy",
		 .letter = 'p',
		 .type = SL_OPT_STRING,
		 .to = &set.policy,
		 .argument = "NAME",
		 .help = "of copies that disagree: first (default), plurality, consensus"},
		{.name = "consensus",
		 .type = SL_OPT_U32,
		 .to = &set.consensus,
		 .argument = "T",
		 .help = "... of at least so many copies (default 2)",
		 .max = SL_STORE_COPIES_MAX},
		{.name = "list",
		 .letter = 'l',
		 .type = SL_OPT_U32,
		 .to = &set.list,
		 .argument = "N",
		 .help = "of an append store (default 0)",
		 .max = SL_STORE_LISTS_MAX - 1},
		{.name = "lane",
		 .type = SL_OPT_I32,
		 .to = &set.lane,
		 .argument = "N",
		 .help = "what this translator wrote; -1: all (default)",
		 .min = -1,
		 .max = SL_STORE_LANES_MAX - 1},
		{.name = "from",
		 .type = SL_OPT_STRING,
		 .to = &from,
		 .argument = "BLOCK",
		 .help = "begin there (default: with the oldest there is)"},
		{.name = "max",
		 .letter = 'm',
		 .type = SL_OPT_U32,
		 .to = &set.max,
		 .argument = "N",
		 .help = "items a lane, 64 to 4096 (default 100); keys, 1 to 10000",
		 .max = 10000},
		{.name = "follow",
		 .type = SL_OPT_FLAG,
		 .to = &set.follow,
		 .help = "append: go on with what comes"},
		{.name = "top",
		 .type = SL_OPT_FLAG,
		 .to = &set.top,
		 .help = "keys: with counts, the greatest first"},
		{.name = "json",
		 .letter = 'j',
		 .type = SL_OPT_FLAG,
		 .to = &set.json,
		 .help = "print JSON, an object a line"},
		{0},
	};

	set.collector = DEFAULT_AT;
	set.lane = -1;
	first = sl_options_parse(self, table, argc, argv);
	if (first == SL_HELP_SHOWN)
		return SL_EXIT_OK;
	if (first < 0)
		return SL_EXIT_USAGE;
	if (first == argc)
		return sl_usage(
			self,
			"what: keywrite, increment, postcard, append, sketch, keys or status?");
	what = argv[first++];
	set.has_epoch = epoch;
	set.has_from = from;
	if (epoch && sl_parse_u64(epoch, 0, INT64_MAX, &set.epoch_at))
		return sl_usage(self, "--epoch '%s' is no number", epoch);
	if (from && sl_parse_u64(from, 0, INT64_MAX, &set.from_at))
		return sl_usage(self, "--from '%s' is no number", from);
	if (set.policy && !sl_query_policy_of(set.policy, &(enum sl_query_policy){0}))
		return sl_usage(self, "--policy '%s' is none of first, plurality, consensus",
				set.policy);
	if (!strcmp(what, "status"))
		return first == argc && !set.file ? status()
						  : sl_usage(self, "status takes nothing else");
	while (kind < 6 && strcmp(what, kinds[kind]))
		kind++;
	if (kind == 6)
		return sl_usage(
			self,
			"'%s' is none of keywrite, increment, postcard, append, sketch, keys, status",
			what);
	if (!set.file && first == argc)
		return sl_usage(self, "%s: of which store?", what);
	if (!set.file)
		store = argv[first++];
	n = (size_t)(argc - first);
	if (kind < 3 ? !n || n > KEYS_MAX : kind == 4 ? n > 1 : n > 0)
		return sl_usage(self,
				kind < 3    ? "%s takes 1 to 1000 keys"
				: kind == 4 ? "%s takes one key at most"
					    : "%s takes no keys",
				what);
	for (size_t i = 0; i < n; i++)
		if (sl_query_key(argv[first + (int)i], (uint8_t[SL_STORE_KEY_MAX]){0}) < 0)
			return sl_usage(
				self,
				"'%s' is no key: 4 to 64 bytes in hexadecimal, text:WORD, u32:N, u64:N or flow:...",
				argv[first + (int)i]);
	if (set.follow && kind != 3)
		return sl_usage(self, "--follow is for append");
	if (kind != 5 && set.max && (set.max < SL_STORE_BATCH_MAX || set.max > SL_ASK_ITEMS_MAX))
		return sl_usage(self, "--max is 64 to 4096");
	if (kind == 5 && set.file)
		return sl_usage(self, "keys are asked of a collector");
	if (set.file) {
		object = sl_store_object_open(set.file, error, sizeof(error));
		if (!object) {
			fprintf(stderr, "sidelight query: %s\n", error);
			return SL_EXIT_FAILURE;
		}
	}
	code = kind == 5    ? keys_of(store)
	       : set.follow ? follow(store)
			    : show_answers(kind == 0 ? "key" : what, store, argv + first, n);
	sl_store_object_free(object, false);
	return code;
}
