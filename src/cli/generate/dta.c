// SPDX-License-Identifier: Apache-2.0
/* dta.c - the command 'generate dta' and its output. */
#include "base/secret.h"
#include "base/text.h"
#include "cli/common/common.h"
#include "cli/generate/generate.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/generate/dta.h"

/* Expected query results */

struct answer {
	uint32_t kind; /* opcode - 1 */
	uint64_t n;    /* number of the key or list */
	char key[2 * SL_STORE_KEY_MAX + 1];
	char value[11 * SL_STORE_HOPS_MAX + 1];
	uint64_t sum; /* sum of the increments */
	struct dta_sketch_estimate estimate;
	const struct cli_dta_list *list;
	const struct cli_dta_load *load;
};

typedef void answer_fn(void *to, const struct answer *a);

/* Formats the hops of a path, such as "7 - 9". */
static void hops_of(struct answer *a)
{
	char *at = a->value;

	for (uint32_t h = 0; h < a->load->s->hops; h++, at += strlen(at)) {
		if (h)
			*at++ = ' ';
		strcpy(at, "-");
		if (a->load->path[a->n] >> h & 1)
			sprintf(at, "%u", cli_dta_hop(a->load->s, a->n, h));
	}
}

/* Passes the expected answers for key a->n to put(), at most `most` per kind. */
static void answers_of_key(struct answer *a, uint64_t most, uint64_t shown[3], answer_fn *put,
			   void *to)
{
	const struct cli_dta_load *l = a->load;
	uint8_t bytes[SL_STORE_VALUE_MAX];

	cli_dta_key(l->s, a->n, bytes);
	base_hex(a->key, bytes, l->s->key_bytes);
	if (l->keywrite && l->keywrite[a->n] && shown[0]++ < most) {
		a->kind = DTA_KEYWRITE - 1;
		cli_dta_value(l->s, a->n, bytes);
		base_hex(a->value, bytes, l->s->value_bytes);
		put(to, a);
	}
	if (l->increment && l->increment[a->n] && shown[1]++ < most) {
		a->kind = DTA_INCREMENT - 1;
		a->sum = l->increment[a->n];
		put(to, a);
	}
	if (l->path && l->path[a->n] && shown[2]++ < most) {
		a->kind = DTA_POSTCARD - 1;
		hops_of(a);
		put(to, a);
	}
}

/*
 * Computes the expected estimate for key a->n. A HyperLogLog has only one estimate, whose key is
 * "". Returns false after the last one.
 */
static bool estimate_of(struct answer *a)
{
	const struct cli_dta_settings *s = a->load->s;
	uint8_t key[SL_STORE_KEY_MAX];

	if (!a->load->cell || a->n >= (s->hll ? 1 : s->keys) || a->n >= GD_SKETCH_SHOWN)
		return false;
	cli_dta_key(s, a->n, key);
	base_hex(a->key, key, s->hll ? 0 : s->key_bytes);
	return !cli_dta_sketch_estimate(a->load, key, &a->estimate);
}

/*
 * Passes up to `most` expected answers per kind to put(). If in_all is set, only passes answers for
 * keys that have all kinds.
 */
static void each_answer(const struct cli_dta_load *l, uint64_t most, bool in_all, answer_fn *put,
			void *to)
{
	struct answer a = {.load = l};
	uint64_t shown[3] = {0};

	for (; a.n < l->s->keys; a.n++) {
		if (in_all ? shown[0] + shown[1] + shown[2] >= most
			   : shown[0] >= most && shown[1] >= most && shown[2] >= most)
			break;
		answers_of_key(&a, most, shown, put, to);
	}
	a.kind = DTA_APPEND - 1;
	for (a.n = 0; a.n < l->s->lists && a.n < most; a.n++) {
		a.list = &l->list[a.n];
		if (a.list->items)
			put(to, &a);
	}
	a.kind = DTA_SKETCH - 1;
	for (a.n = 0; a.n < most && estimate_of(&a); a.n++)
		put(to, &a);
}

static void write_answer(void *to, const struct answer *a)
{
	const char *kind = cli_dta_kind_name[a->kind];

	if (a->kind == DTA_INCREMENT - 1 && a->sum)
		fprintf(to, "%s %s %" PRIu64 "\n", kind, a->key, a->sum);
	else if (a->kind == DTA_APPEND - 1)
		fprintf(to, "%s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", kind, a->n,
			a->list->delivered, a->list->items, a->list->sum);
	else if (a->kind == DTA_SKETCH - 1)
		fprintf(to, "estimate %s %.6f %.6f\n", *a->key ? a->key : "-", a->estimate.value,
			a->estimate.error);
	else if (a->kind != DTA_INCREMENT - 1)
		fprintf(to, "%s %s %s\n", kind, a->key, a->value);
}

/*
 * Writes one line per answer: KIND KEY VALUE. For a list, the values are the number of delivered
 * items, of all items, and the sum of the delivered items' numbers.
 */
static int write_expected(const struct cli_dta_settings *s, const struct cli_dta_load *l)
{
	FILE *f = fopen(s->expect, "we");
	int err;

	if (!f)
		return -errno;
	each_answer(l, UINT64_MAX, false, write_answer, f);
	for (uint64_t c = 0; l->cell && c < (uint64_t)s->rows * s->columns; c++)
		fprintf(f, "sketch %" PRIu64 "/%" PRIu64 " %" PRId64 "\n", c / s->columns,
			c % s->columns, (int64_t)l->cell[c]);
	err = ferror(f) ? EIO : 0;
	if (fclose(f) && !err)
		err = errno;
	return -err;
}

static void print_answer(void *unused, const struct answer *a)
{
	const char *kind = cli_dta_kind_name[a->kind];

	(void)unused;
	if (a->kind == DTA_INCREMENT - 1)
		printf("  %s %s >= %" PRIu64 "\n", kind, a->key, a->sum);
	else if (a->kind == DTA_APPEND - 1)
		printf("  %s %" PRIu64 ": %" PRIu64 " items\n", kind, a->n, a->list->delivered);
	else if (a->kind == DTA_SKETCH - 1)
		printf("  %s %s%s%.0f +- %.0f\n", kind, a->key, *a->key ? " = " : "= ",
		       a->estimate.value, a->estimate.error);
	else
		printf("  %s %s = %s\n", kind, a->key, a->value);
}

/* Callback. `to` is a JSON object with one array per kind. */
static void add_answer(void *to, const struct answer *a)
{
	json_t *o = json_pack("{s:s}", "key", a->key), *hops;

	if (a->kind == DTA_KEYWRITE - 1) {
		json_object_set_new(o, "value", json_string(a->value));
	} else if (a->kind == DTA_INCREMENT - 1) {
		json_object_set_new(o, "value", json_integer((json_int_t)a->sum));
	} else if (a->kind == DTA_POSTCARD - 1) {
		json_object_set_new(o, "hops", hops = json_array());
		for (uint32_t h = 0; h < a->load->s->hops; h++)
			json_array_append_new(
				hops, a->load->path[a->n] >> h & 1
					      ? json_integer(cli_dta_hop(a->load->s, a->n, h))
					      : json_null());
	} else if (a->kind == DTA_SKETCH - 1) {
		json_object_set_new(o, "estimate", json_real(a->estimate.value));
		json_object_set_new(o, "error", json_real(a->estimate.error));
	} else {
		json_decref(o);
		o = json_pack("{s:I, s:I, s:I, s:I}", "list", (json_int_t)a->n, "arrived",
			      (json_int_t)a->list->delivered, "items", (json_int_t)a->list->items,
			      "sum", (json_int_t)a->list->sum);
	}
	json_array_append_new(((json_t **)to)[a->kind], o);
}

static json_t *some_expected(const struct cli_dta_settings *s, const struct cli_dta_load *l)
{
	json_t *all = json_object(), *of_kind[GD_KINDS];
	uint64_t sum = 0;

	for (uint32_t k = 0; k < GD_KINDS; k++) {
		of_kind[k] = json_array();
		if (k != DTA_SKETCH - 1)
			json_object_set_new(all, cli_dta_kind_name[k], of_kind[k]);
	}
	each_answer(l, s->show, false, add_answer, of_kind);
	for (uint64_t c = 0; l->cell && c < (uint64_t)s->rows * s->columns; c++)
		sum += l->cell[c];
	if (l->cell)
		json_object_set_new(all, "sketch",
				    json_pack("{s:I, s:I, s:I, s:O}", "epoch", (json_int_t)s->epoch,
					      "reporters", (json_int_t)s->reporters, "sum",
					      (json_int_t)sum, "estimates",
					      of_kind[DTA_SKETCH - 1]));
	json_decref(of_kind[DTA_SKETCH - 1]);
	return all;
}

/* Report */

#define SENT(field) CLI_COUNT(cli_dta_sent, field)
static const struct cli_count sent_counts[] = {
	SENT(reports),		SENT(packets),	  SENT(bytes),	   SENT(withheld),
	SENT(withheld_packets), SENT(duplicated), SENT(reordered), SENT(again),
	SENT(again_packets),	SENT(answers),	  SENT(nacks),	   SENT(bad_answers),
	SENT(unsettled),	SENT(unsent)};

static void report_json(const struct cli_dta_settings *s, const struct cli_dta_load *l,
			const struct cli_dta_sent *x)
{
	json_t *kinds = json_object(), *all = json_object();

	for (uint32_t k = 0; k < GD_KINDS; k++)
		if (l->of_kind[k])
			json_object_set_new(kinds, cli_dta_kind_name[k],
					    json_pack("{s:I, s:I}", "reports",
						      (json_int_t)l->of_kind[k], "arriving",
						      (json_int_t)l->delivered[k]));
	cli_json_counts(all, x, sent_counts, sizeof(sent_counts) / sizeof(*sent_counts));
	json_object_update_new(
		all, json_pack("{s:b, s:f, s:f, s:o, s:o}", "complete", (int)x->complete, "seconds",
			       (double)x->elapsed_ns / 1e9, "cpu_seconds", (double)x->cpu_ns / 1e9,
			       "kinds", kinds, "expect", some_expected(s, l)));
	cli_json_print(stdout, all, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static void report_text(const struct cli_dta_settings *s, const struct cli_dta_load *l,
			const struct cli_dta_sent *x)
{
	const double seconds = (double)x->elapsed_ns / 1e9;

	printf("%" PRIu64 " reports in %" PRIu64 " packets (%u per packet), %" PRIu64 " bytes%s\n",
	       x->reports, x->packets, s->pack, x->bytes,
	       x->complete ? "" : ", stopped before the end");
	printf("elapsed      %.3f s: %.0f reports/s, %.0f packets/s\n", seconds,
	       (double)x->reports / seconds, (double)x->packets / seconds);
	if (x->withheld_packets || x->duplicated || x->reordered)
		printf("on purpose   %" PRIu64 " packets withheld, %" PRIu64 " doubled, %" PRIu64
		       " out of order\n",
		       x->withheld_packets, x->duplicated, x->reordered);
	if (s->essential)
		printf("sent again   %" PRIu64 " packets, after %" PRIu64
		       " NACKs; unsettled %" PRIu64 "\n",
		       x->again_packets, x->nacks, x->unsettled);
	puts("expected query results, among others:");
	each_answer(l, s->show, true, print_answer, NULL);
}

/* Command */

static int parse_kinds(const struct base_command *cmd, struct cli_dta_settings *s)
{
	if (strcmp(s->kinds, "all"))
		return cli_generate_kinds(cmd, s->kinds, cli_dta_kind_name,
					  "keywrite, append, increment, postcard, sketch, all", 1,
					  s->kind, &s->n_kinds);
	for (uint32_t k = 1; k <= GD_KINDS; k++)
		if (!s->legacy || k != DTA_SKETCH)
			s->kind[s->n_kinds++] = k;
	return BASE_EXIT_OK;
}

static int check_settings(const struct base_command *cmd, struct cli_dta_settings *s)
{
	int legacy, err;

	if (!s->to)
		return base_usage(cmd, "missing --to HOST:PORT");
	legacy = cli_legacy(s->legacy_name);
	if (legacy < 0)
		return base_usage(cmd, "--legacy must be 'a' or 'b', not '%s'", s->legacy_name);
	s->legacy = (enum dta_legacy)legacy;
	err = parse_kinds(cmd, s);
	if (err)
		return err;
	if (s->store && s->n_kinds > 1)
		return base_usage(cmd, "--store requires a single kind, not %u", s->n_kinds);
	if (s->key_bytes < 8 && s->keys - 1 > (1ull << (8 * s->key_bytes)) - 1)
		return base_usage(cmd, "--keys: there are not that many keys of %u bytes",
				  s->key_bytes);
	if (s->hll && s->rows != 1)
		return base_usage(cmd, "--hll requires --rows 1");
	if (s->hll && s->count_sketch)
		return base_usage(cmd, "--hll and --count-sketch are mutually exclusive");
	if (s->count_sketch && s->rows % 2 == 0)
		return base_usage(
			cmd, "--count-sketch requires an odd number of --rows, to take the median");
	if (cli_dta_has_kind(s, DTA_SKETCH)) {
		const struct sl_store_config store = cli_dta_sketch_store(s);
		struct dta_sketch_maker *m = dta_sketch_maker_new(&store);

		if (!m)
			return base_usage(
				cmd,
				s->hll ? "--columns must be a power of two from 16 to 1048576"
				       : "--rows must be 1 to 16, --columns a power of two, at "
					 "most 8388608 cells in all");
		dta_sketch_maker_free(m);
	}
	if (s->cells * (s->hll ? 1u : 8u) > DTA_SKETCH_VALUE_MAX)
		return base_usage(cmd, "--cells: a report would exceed %u bytes",
				  DTA_SKETCH_VALUE_MAX);
	if (s->legacy && (s->reporters != 1 || s->pack != 1 || cli_dta_has_kind(s, DTA_SKETCH)))
		return base_usage(
			cmd,
			"--legacy supports one reporter, one report per packet and no sketches");
	if (s->legacy && (s->key_bytes != 4 ||
			  (s->value_bytes != 4 && s->value_bytes != 12 && s->value_bytes != 28)))
		return base_usage(cmd,
				  "--legacy requires keys of 4 bytes and values of 4, 12 or 28 "
				  "bytes");
	if (s->legacy && s->hops > 5)
		return base_usage(cmd, "--legacy supports at most 5 hops");
	if (s->legacy && s->key_file)
		return base_usage(cmd, "--legacy and --key are mutually exclusive");
	if (s->essential && s->pack > 1024)
		return base_usage(cmd, "--essential allows at most 1024 reports per packet");
	return BASE_EXIT_OK;
}

static int read_key(const struct base_command *cmd, struct cli_dta_settings *s)
{
	uint8_t key[DTA_KEY_BYTES];
	int err = dta_key_read(s->key_file, key);

	base_secret_warn("generate", s->key_file);
	if (!err) {
		s->mac = dta_key_new(key);
		err = s->mac ? 0 : -errno;
	}
	if (!err)
		return BASE_EXIT_OK;
	return base_failure(cmd, "--key: %s: %s", s->key_file,
			    err == -EINVAL ? "the key must have 32 hexadecimal digits"
					   : strerror(-err));
}

static struct cli_dta_settings set = {
	.kinds = "keywrite",
	.count = 1000000,
	.keys = 100000,
	.seed = 1,
	.reporters = 1,
	.reporter = 1,
	.key_bytes = 8,
	.value_bytes = 8,
	.copies = 2,
	.lists = 16,
	.hops = 5,
	.values = 1000,
	.rows = 4,
	.columns = 1024,
	.cells = 8,
	.pack = 1,
	.mtu = 1472,
	.show = 8,
	.wait = 10000000000,
};

static const struct base_option table[] = {
	BASE_STRING("to", 't', &set.to, "HOST:PORT", "send to this translator"),
	BASE_STRING(
		"kinds", 'k', &set.kinds, "LIST",
		"kinds of reports to send: keywrite, append, increment, postcard, sketch; or all"),
	BASE_UINT("count", 'n', &set.count, 1, 1e15, "N",
		  "number of reports per kind; for sketches, one per reporter"),
	BASE_UINT("rate", 'r', &set.rate, 0, 1e12, "N",
		  "reports per second; 0 means as fast as possible (default)"),
	BASE_UINT("pack", 'p', &set.pack, 1, 8000, "N", "reports per packet"),
	BASE_UINT("mtu", 0, &set.mtu, 256, DTA_PACKET_MAX, "BYTES", "maximum payload of a packet"),
	BASE_UINT("keys", 0, &set.keys, 1, 1u << 28, "N", "number of distinct keys"),
	BASE_UINT("key-bytes", 0, &set.key_bytes, SL_STORE_KEY_MIN, SL_STORE_KEY_MAX, "N",
		  "length of a key"),
	BASE_UINT("value-bytes", 0, &set.value_bytes, SL_STORE_VALUE_MIN, SL_STORE_VALUE_MAX, "N",
		  "length of key-write values and append items"),
	BASE_UINT("copies", 0, &set.copies, 1, SL_STORE_COPIES_MAX, "N", "copies of each key"),
	BASE_UINT("lists", 0, &set.lists, 1, 1u << 24, "N", "number of append lists"),
	BASE_UINT("hops", 0, &set.hops, 1, SL_STORE_HOPS_MAX, "N", "hops per path"),
	BASE_UINT("values", 0, &set.values, 1, UINT32_MAX, "N",
		  "maximum value of a hop, at least "
		  "1"),
	BASE_UINT("rows", 0, &set.rows, 1, 64, "N", "rows of a sketch"),
	BASE_UINT("columns", 0, &set.columns, 1, 1u << 24, "N", "columns of a sketch"),
	BASE_UINT("cells", 0, &set.cells, 1, 1024, "N", "cells of a sketch per report"),
	BASE_FLAG("hll", 0, &set.hll, "send HyperLogLog sketches with one-byte registers"),
	BASE_FLAG("count-sketch", 0, &set.count_sketch,
		  "send count-sketches with an odd number of rows"),
	BASE_UINT("epoch", 0, &set.epoch, 0, UINT32_MAX, "N", "epoch of the sketch"),
	BASE_UINT("store", 0, &set.store, 1, 65535, "N",
		  "number of the store (default: the opcode, 1 to 5)"),
	BASE_UINT("tenant", 0, &set.tenant, 0, 65535, "N", "number of the tenant"),
	BASE_STRING("key", 0, &set.key_file, "FILE",
		    "sign packets with the key in this file, of 32 hexadecimal digits"),
	BASE_STRING("translator", 0, &set.translator, "NAME",
		    "with --key: name of the translator (default: identify it by address)"),
	BASE_UINT("reporters", 0, &set.reporters, 1, 100000, "N",
		  "number of reporters, which take turns"),
	BASE_UINT("reporter", 0, &set.reporter, 0, 0xfff00000, "N", "number of the first reporter"),
	BASE_UINT("incarnation", 0, &set.incarnation, 0, UINT32_MAX, "N",
		  "incarnation of the reporters; 0 means derived from the clock (default)"),
	BASE_UINT("sequence", 0, &set.sequence, 0, UINT32_MAX, "N",
		  "sequence number of the first report"),
	BASE_F64("loss", 0, &set.loss, 0, 0.9, "P", "share of packets that are not sent"),
	BASE_F64("duplicate", 0, &set.duplicate, 0, 1, "P", "share of packets that are sent twice"),
	BASE_F64("reorder", 0, &set.reorder, 0, 1, "P", "share of packets that are reordered"),
	BASE_FLAG("essential", 'e', &set.essential,
		  "keep reports until they are acknowledged, and resend them on request"),
	BASE_FLAG("immediate", 0, &set.immediate, "wake the application with each report"),
	BASE_TIME("wait", 0, &set.wait, 0, 0, "DURATION",
		  "give up if no acknowledgement arrives for this long"),
	BASE_STRING("legacy", 0, &set.legacy_name, "FORM",
		    "send packets in form a or b of the original implementation"),
	BASE_UINT("seed", 0, &set.seed, 0, 0, "N", "seed of the random numbers"),
	BASE_UINT("show", 0, &set.show, 0, 1e6, "N", "print at most this many keys and lists"),
	BASE_STRING("expect", 0, &set.expect, "FILE",
		    "write the expected query results to this file, one per line"),
	BASE_FLAG("json", 'j', &set.json, "print JSON"),
	{0},
};

/*
 * Sends the load and prints the result. Returns BASE_EXIT_OK if everything was sent and
 * acknowledged.
 */
static int send_load(const struct base_command *cmd, struct cli_dta_load *load, int stop)
{
	struct cli_dta_sent sent;
	int failed = cli_dta_send(cmd, &set, load, &sent, stop), err = 0;

	if (failed == -EINVAL)
		return BASE_EXIT_FAILURE;
	if (set.expect) {
		err = write_expected(&set, load);
		if (err)
			base_failure(cmd, "%s: %s", set.expect, strerror(-err));
	}
	if (set.json)
		report_json(&set, load, &sent);
	else
		report_text(&set, load, &sent);
	return cli_output_end(cmd, err || failed || sent.unsent ? BASE_EXIT_FAILURE : BASE_EXIT_OK);
}

static int run_dta(const struct base_command *cmd, int argc, char **argv)
{
	struct cli_dta_load load;
	int code, stop = -1;

	if (!base_options_only(cmd, table, argc, argv, &code))
		return code;
	code = check_settings(cmd, &set);
	if (code != BASE_EXIT_OK)
		return code;
	if (!set.incarnation)
		set.incarnation = (uint32_t)(base_realtime_ns() >> 20) | 1;
	code = set.key_file ? read_key(cmd, &set) : BASE_EXIT_OK;
	if (code != BASE_EXIT_OK)
		return code;
	code = BASE_EXIT_FAILURE;
	stop = base_stop_fd();
	if (stop < 0 || cli_dta_load_open(&load, &set)) {
		base_failure(cmd, "not enough memory for the keys");
		goto out;
	}
	code = send_load(cmd, &load, stop);
	cli_dta_load_close(&load);
out:
	if (stop >= 0)
		close(stop);
	dta_key_free(set.mac);
	return code;
}

const struct base_command cli_generate_dta = {
	.name = "generate dta",
	.synopsis = "--to HOST:PORT [OPTION]...",
	.summary = "Send reports with known results, some lost or duplicated",
	.run = run_dta,
};
