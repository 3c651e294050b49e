// SPDX-License-Identifier: Apache-2.0
/* dta.c - the command 'generate dta', and its output. */
#include "base/text.h"
#include "cli/generate/generate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>

#include "cli/generate/dta.h"

static json_t *whole(uint64_t v)
{
	return json_integer((json_int_t)v);
}

/* ---- what a query must find ---- */

struct text_key {
	char key[2 * SL_STORE_KEY_MAX + 1], value[2 * SL_STORE_VALUE_MAX + 1];
};

static void text_of(const struct cli_generate_dta_settings *s, uint64_t n, struct text_key *t)
{
	uint8_t bytes[SL_STORE_VALUE_MAX];

	cli_generate_dta_key(s, n, bytes);
	base_hex(t->key, bytes, s->key_bytes);
	cli_generate_dta_value(s, n, bytes);
	base_hex(t->value, bytes, s->value_bytes);
}

/* The n-th key with an estimate; "" for a HyperLogLog, which has one. False: no more. */
static bool estimate_of(const struct cli_generate_dta_settings *s,
			const struct cli_generate_dta_load *l, uint64_t n, struct text_key *t,
			struct dta_sketch_estimate *e)
{
	uint8_t key[SL_STORE_KEY_MAX];

	if (!l->cell || n >= (s->hll ? 1 : s->keys) || n >= GD_SKETCH_SHOWN)
		return false;
	text_of(s, n, t);
	cli_generate_dta_key(s, n, key);
	if (s->hll)
		t->key[0] = 0;
	return !cli_generate_dta_sketch_estimate(l, key, e);
}

/*
 * One line per answer: KIND KEY VALUE. Of a list: items delivered, all items, sum of the numbers of
 * those delivered.
 */
static int write_expected(const struct cli_generate_dta_settings *s,
			  const struct cli_generate_dta_load *l)
{
	FILE *f = fopen(s->expect, "we");
	const uint8_t *key;
	struct text_key t;
	struct dta_sketch_estimate e;
	uint32_t key_bytes;
	uint64_t sum;
	int err;

	if (!f)
		return -errno;
	for (uint64_t n = 0; n < s->keys; n++) {
		text_of(s, n, &t);
		if (l->keywrite && l->keywrite[n])
			fprintf(f, "keywrite %s %s\n", t.key, t.value);
		if (l->increment && l->increment[n])
			fprintf(f, "increment %s %llu\n", t.key,
				(unsigned long long)l->increment[n]);
		if (l->path && l->path[n]) {
			fprintf(f, "postcard %s", t.key);
			for (uint32_t h = 0; h < s->hops; h++)
				if (l->path[n] >> h & 1)
					fprintf(f, " %u", cli_generate_dta_hop(s, n, h));
				else
					fputs(" -", f);
			fputc('\n', f);
		}
	}
	for (uint32_t i = 0; cli_generate_dta_flows_each(l->replay, i, &key, &key_bytes, &sum);
	     i++) {
		base_hex(t.key, key, key_bytes);
		if (sum)
			fprintf(f, "increment %s %llu\n", t.key, (unsigned long long)sum);
	}
	for (uint32_t i = 0; i < s->lists; i++)
		if (l->list[i].items)
			fprintf(f, "append %u %llu %llu %llu\n", i,
				(unsigned long long)l->list[i].delivered,
				(unsigned long long)l->list[i].items,
				(unsigned long long)l->list[i].sum);
	for (uint64_t n = 0; estimate_of(s, l, n, &t, &e); n++)
		fprintf(f, "estimate %s %.6f %.6f\n", *t.key ? t.key : "-", e.value, e.error);
	for (uint64_t c = 0; l->cell && c < (uint64_t)s->rows * s->columns; c++)
		fprintf(f, "sketch %llu/%llu %lld\n", (unsigned long long)(c / s->columns),
			(unsigned long long)(c % s->columns), (long long)l->cell[c]);
	err = ferror(f) ? EIO : 0;
	if (fclose(f) && !err)
		err = errno;
	return -err;
}

static json_t *estimates(const struct cli_generate_dta_settings *s,
			 const struct cli_generate_dta_load *l)
{
	json_t *all = json_array();
	struct dta_sketch_estimate e;
	struct text_key t;

	for (uint64_t n = 0; n < s->show && estimate_of(s, l, n, &t, &e); n++)
		json_array_append_new(all, json_pack("{s:s, s:f, s:f}", "key", t.key, "estimate",
						     e.value, "error", e.error));
	return all;
}

static json_t *some_expected(const struct cli_generate_dta_settings *s,
			     const struct cli_generate_dta_load *l)
{
	json_t *all = json_object(), *writes = json_array(), *sums = json_array();
	json_t *paths = json_array(), *lists = json_array();
	uint32_t shown[3] = {0}, key_bytes;
	const uint8_t *key;
	uint64_t delivered;
	struct text_key t;

	for (uint64_t n = 0; n < s->keys; n++) {
		if (shown[0] >= s->show && shown[1] >= s->show && shown[2] >= s->show)
			break;
		text_of(s, n, &t);
		if (l->keywrite && l->keywrite[n] && shown[0]++ < s->show)
			json_array_append_new(
				writes, json_pack("{s:s, s:s}", "key", t.key, "value", t.value));
		if (l->increment && l->increment[n] && shown[1]++ < s->show)
			json_array_append_new(sums, json_pack("{s:s, s:I}", "key", t.key, "value",
							      (json_int_t)l->increment[n]));
		if (l->path && l->path[n] && shown[2]++ < s->show) {
			json_t *hops = json_array();

			for (uint32_t h = 0; h < s->hops; h++)
				json_array_append_new(hops,
						      l->path[n] >> h & 1
							      ? whole(cli_generate_dta_hop(s, n, h))
							      : json_null());
			json_array_append_new(paths,
					      json_pack("{s:s, s:o}", "key", t.key, "hops", hops));
		}
	}
	for (uint32_t i = 0; i < s->lists && i < s->show; i++)
		if (l->list[i].items)
			json_array_append_new(
				lists, json_pack("{s:I, s:I, s:I, s:I}", "list", (json_int_t)i,
						 "arrived", (json_int_t)l->list[i].delivered,
						 "items", (json_int_t)l->list[i].items, "sum",
						 (json_int_t)l->list[i].sum));
	json_object_set_new(all, "keywrite", writes);
	json_object_set_new(all, "append", lists);
	json_object_set_new(all, "increment", sums);
	json_object_set_new(all, "postcard", paths);
	for (uint32_t i = 0;
	     i < s->show && cli_generate_dta_flows_each(l->replay, i, &key, &key_bytes, &delivered);
	     i++) {
		base_hex(t.key, key, key_bytes);
		json_array_append_new(sums, json_pack("{s:s, s:I}", "key", t.key, "value",
						      (json_int_t)delivered));
	}
	if (l->cell) {
		uint64_t sum = 0;

		for (uint64_t c = 0; c < (uint64_t)s->rows * s->columns; c++)
			sum += l->cell[c];
		json_object_set_new(all, "sketch",
				    json_pack("{s:I, s:I, s:I, s:o}", "epoch", (json_int_t)s->epoch,
					      "reporters", (json_int_t)s->reporters, "sum",
					      (json_int_t)sum, "estimates", estimates(s, l)));
	}
	return all;
}

/* ---- the report ---- */

static int report_json(const struct cli_generate_dta_settings *s,
		       const struct cli_generate_dta_load *l, const struct cli_generate_dta_sent *x)
{
	json_t *kinds = json_object(), *all;
	char *text;

	for (uint32_t k = 0; k < GD_KINDS; k++)
		if (l->of_kind[k])
			json_object_set_new(kinds, cli_generate_dta_kind_name[k],
					    json_pack("{s:I, s:I}", "reports",
						      (json_int_t)l->of_kind[k], "arriving",
						      (json_int_t)l->delivered[k]));
	all = json_pack(
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, "
		"s:f, s:o, s:o}",
		"reports", (json_int_t)x->reports, "packets", (json_int_t)x->packets, "bytes",
		(json_int_t)x->bytes, "withheld", (json_int_t)x->withheld, "withheld_packets",
		(json_int_t)x->withheld_packets, "duplicated", (json_int_t)x->duplicated,
		"reordered", (json_int_t)x->reordered, "again", (json_int_t)x->again,
		"again_packets", (json_int_t)x->again_packets, "answers", (json_int_t)x->answers,
		"nacks", (json_int_t)x->nacks, "bad_answers", (json_int_t)x->bad_answers,
		"unsettled", (json_int_t)x->unsettled, "unsent", (json_int_t)x->unsent, "seconds",
		(double)x->elapsed_ns / 1e9, "cpu_seconds", (double)x->cpu_ns / 1e9, "kinds", kinds,
		"expect", some_expected(s, l));
	text = all ? json_dumps(all, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
	json_decref(all);
	if (!text)
		return -ENOMEM;
	puts(text);
	free(text);
	return 0;
}

static void report_text(const struct cli_generate_dta_settings *s,
			const struct cli_generate_dta_load *l,
			const struct cli_generate_dta_sent *x)
{
	struct dta_sketch_estimate e;
	const double seconds = (double)x->elapsed_ns / 1e9;
	uint32_t shown = 0, key_bytes;
	const uint8_t *key;
	uint64_t delivered;
	struct text_key t;

	printf("%llu reports in %llu packets (%u a packet), %llu bytes\n",
	       (unsigned long long)x->reports, (unsigned long long)x->packets, s->pack,
	       (unsigned long long)x->bytes);
	printf("elapsed      %.3f s: %.0f reports/s, %.0f packets/s\n", seconds,
	       (double)x->reports / seconds, (double)x->packets / seconds);
	if (x->withheld_packets || x->duplicated || x->reordered)
		printf("on purpose   %llu packets withheld, %llu doubled, %llu out of order\n",
		       (unsigned long long)x->withheld_packets, (unsigned long long)x->duplicated,
		       (unsigned long long)x->reordered);
	if (s->essential)
		printf("sent again   %llu packets, after %llu NACKs; unsettled %llu\n",
		       (unsigned long long)x->again_packets, (unsigned long long)x->nacks,
		       (unsigned long long)x->unsettled);
	puts("a query must find, among others:");
	for (uint64_t n = 0; n < s->keys && shown < s->show; n++) {
		const uint32_t before = shown;

		text_of(s, n, &t);
		if (l->keywrite && l->keywrite[n] && ++shown)
			printf("  keywrite %s = %s\n", t.key, t.value);
		if (l->increment && l->increment[n] && ++shown)
			printf("  increment %s >= %llu\n", t.key,
			       (unsigned long long)l->increment[n]);
		if (l->path && l->path[n] && ++shown) {
			printf("  postcard %s =", t.key);
			for (uint32_t h = 0; h < s->hops; h++)
				if (l->path[n] >> h & 1)
					printf(" %u", cli_generate_dta_hop(s, n, h));
				else
					fputs(" -", stdout);
			puts("");
		}
		if (before == shown)
			continue;
	}
	for (uint32_t i = 0;
	     i < s->show && cli_generate_dta_flows_each(l->replay, i, &key, &key_bytes, &delivered);
	     i++) {
		base_hex(t.key, key, key_bytes);
		printf("  increment %s >= %llu\n", t.key, (unsigned long long)delivered);
	}
	for (uint32_t i = 0; i < s->lists && i < s->show; i++)
		if (l->list[i].items)
			printf("  append %u: %llu items\n", i,
			       (unsigned long long)l->list[i].delivered);
	for (uint64_t n = 0; n < s->show && estimate_of(s, l, n, &t, &e); n++)
		printf("  sketch %s%s%.0f +- %.0f\n", t.key, *t.key ? " = " : "= ", e.value,
		       e.error);
}

/* ---- the command ---- */

static int parse_kinds(const struct base_command *cmd, struct cli_generate_dta_settings *s)
{
	const char *at = s->kinds;

	if (!strcmp(at, "all")) {
		for (uint32_t k = 0; k < GD_KINDS; k++)
			if (!s->legacy || k + 1 != DTA_SKETCH)
				s->kind[s->n_kinds++] = k + 1;
		return BASE_EXIT_OK;
	}
	for (;;) {
		const size_t length = strcspn(at, ",");
		uint32_t k;

		for (k = 0; k < GD_KINDS; k++)
			if (strlen(cli_generate_dta_kind_name[k]) == length &&
			    !strncmp(cli_generate_dta_kind_name[k], at, length))
				break;
		if (k == GD_KINDS)
			return base_usage(
				cmd,
				"--kinds: '%.*s' is none of keywrite, append, increment, postcard, "
				"sketch, all",
				(int)length, at);
		if (s->n_kinds == sizeof(s->kind) / sizeof(*s->kind))
			return base_usage(cmd, "--kinds: at most %u, separated by commas",
					  s->n_kinds);
		s->kind[s->n_kinds++] = k + 1;
		at += length;
		if (!*at++)
			return BASE_EXIT_OK;
	}
}

static bool has_kind(const struct cli_generate_dta_settings *s, uint32_t opcode)
{
	for (uint32_t k = 0; k < s->n_kinds; k++)
		if (s->kind[k] == opcode)
			return true;
	return false;
}

static int check(const struct base_command *cmd, struct cli_generate_dta_settings *s)
{
	int err;

	if (!s->to)
		return base_usage(cmd, "where to? Give --to HOST:PORT");
	if (!strcmp(s->distribution, "sequential"))
		s->order = GD_SEQUENTIAL;
	else if (!strcmp(s->distribution, "uniform"))
		s->order = GD_UNIFORM;
	else if (!strcmp(s->distribution, "zipf"))
		s->order = GD_ZIPF;
	else
		return base_usage(cmd, "--distribution: '%s' is none of sequential, uniform, zipf",
				  s->distribution);
	if (s->legacy_name && !strcmp(s->legacy_name, "a"))
		s->legacy = DTA_LEGACY_A;
	else if (s->legacy_name && !strcmp(s->legacy_name, "b"))
		s->legacy = DTA_LEGACY_B;
	else if (s->legacy_name)
		return base_usage(cmd, "--legacy: '%s' is neither a nor b", s->legacy_name);
	if (s->replay)
		s->kinds = "increment";
	err = parse_kinds(cmd, s);
	if (err)
		return err;
	if (s->replay && s->legacy)
		return base_usage(cmd, "--replay: keys of flows don't fit the original's packets");
	if (s->replay)
		s->key_bytes = GD_FLOW_KEY; /* at most */
	if (s->store && s->n_kinds > 1)
		return base_usage(cmd, "--store: of one kind only, and there are %u", s->n_kinds);
	if (s->key_bytes < 8 && s->keys - 1 > (1ull << (8 * s->key_bytes)) - 1)
		return base_usage(cmd, "--keys: so many don't fit into %u bytes", s->key_bytes);
	if (s->hll && s->rows != 1)
		return base_usage(cmd, "--hll: such a sketch has one row");
	if (s->hll && s->count_sketch)
		return base_usage(cmd, "--hll and --count-sketch: one of them");
	if (s->count_sketch && s->rows % 2 == 0)
		return base_usage(cmd, "--count-sketch: an odd number of --rows, of which the "
				       "median is taken");
	if (has_kind(s, DTA_SKETCH)) {
		const struct sl_store_config store = cli_generate_dta_sketch_store(s);
		struct dta_sketch_maker *m = dta_sketch_maker_new(&store);

		if (!m)
			return base_usage(cmd, s->hll ? "--columns: a power of two, 16 to 1048576"
						      : "--rows, --columns: 1 to 16 of a power of "
							"two, 8388608 together");
		dta_sketch_maker_free(m);
	}
	if (s->cells * (s->hll ? 1u : 8u) > DTA_SKETCH_VALUE_MAX)
		return base_usage(cmd, "--cells: more than %u bytes", DTA_SKETCH_VALUE_MAX);
	if (s->legacy && (s->reporters != 1 || s->pack != 1 || has_kind(s, DTA_SKETCH)))
		return base_usage(cmd, "--legacy: one reporter, one report a packet, no sketches");
	if (s->legacy && (s->key_bytes != 4 ||
			  (s->value_bytes != 4 && s->value_bytes != 12 && s->value_bytes != 28)))
		return base_usage(cmd, "--legacy: keys of 4 bytes, values of 4, 12 or 28");
	if (s->legacy && s->hops > 5)
		return base_usage(cmd, "--legacy: at most 5 hops");
	if (s->legacy && s->key_file)
		return base_usage(cmd, "--legacy: the original knows no --key");
	if (s->xdp && s->mtu > 1472)
		return base_usage(cmd, "--xdp: --mtu 1472 at most");
	if (s->essential && s->pack > 1024)
		return base_usage(cmd, "--essential: at most 1024 reports a packet");
	return BASE_EXIT_OK;
}

static int read_key(const struct base_command *cmd, struct cli_generate_dta_settings *s)
{
	uint8_t key[DTA_KEY_BYTES];
	int err = dta_key_read(s->key_file, key);

	if (!err) {
		s->mac = dta_key_new(key, sizeof(key));
		err = s->mac ? 0 : -errno;
	}
	if (!err)
		return BASE_EXIT_OK;
	fprintf(stderr, "sidelight %s: --key: %s: %s\n", cmd->name, s->key_file,
		err == -EINVAL ? "not 32 hexadecimal digits" : strerror(-err));
	return BASE_EXIT_FAILURE;
}

static struct cli_generate_dta_settings set = {
	.kinds = "keywrite",
	.distribution = "sequential",
	.count = 1000000,
	.keys = 100000,
	.zipf = 1.1,
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
	BASE_STRING("kinds", 'k', &set.kinds, "LIST",
		    "kinds of reports: keywrite, append, increment, postcard, sketch; or all"),
	BASE_UINT("count", 'n', &set.count, 1, 1e15, "N",
		  "reports of each kind; of sketches, one per reporter"),
	BASE_STRING("replay", 0, &set.replay, "FILE",
		    "replay this pcap file: each packet adds its bytes to its flow's counter"),
	BASE_UINT("rate", 'r', &set.rate, 0, 1e12, "N",
		  "reports per second; 0: as fast as possible (default)"),
	BASE_STRING("xdp", 0, &set.xdp, "INTERFACE",
		    "send frames out of this interface past the network stack"),
	BASE_UINT("pack", 'p', &set.pack, 1, 8000, "N", "reports per packet"),
	BASE_UINT("mtu", 0, &set.mtu, 256, DTA_PACKET_MAX, "BYTES", "greatest payload of a packet"),
	BASE_UINT("keys", 0, &set.keys, 1, 1u << 28, "N", "number of distinct keys"),
	BASE_STRING("distribution", 'd', &set.distribution, "NAME",
		    "draw keys and lists sequential, uniform or zipf"),
	BASE_F64("zipf", 0, &set.zipf, 0.1, 5, "S", "exponent of zipf"),
	BASE_UINT("key-bytes", 0, &set.key_bytes, SL_STORE_KEY_MIN, SL_STORE_KEY_MAX, "N",
		  "length of a key"),
	BASE_UINT("value-bytes", 0, &set.value_bytes, SL_STORE_VALUE_MIN, SL_STORE_VALUE_MAX, "N",
		  "length of key-write values and append items"),
	BASE_UINT("copies", 0, &set.copies, 1, SL_STORE_COPIES_MAX, "N", "copies of each key"),
	BASE_UINT("lists", 0, &set.lists, 1, 1u << 24, "N", "number of append lists"),
	BASE_UINT("hops", 0, &set.hops, 1, SL_STORE_HOPS_MAX, "N", "hops per path"),
	BASE_UINT("values", 0, &set.values, 1, UINT32_MAX, "N", "greatest value of a hop, from 1"),
	BASE_UINT("rows", 0, &set.rows, 1, 64, "N", "rows of a sketch"),
	BASE_UINT("columns", 0, &set.columns, 1, 1u << 24, "N", "columns of a sketch"),
	BASE_UINT("cells", 0, &set.cells, 1, 1024, "N", "cells of a sketch per report"),
	BASE_FLAG("hll", 0, &set.hll, "send HyperLogLog sketches, of registers of one byte"),
	BASE_FLAG("count-sketch", 0, &set.count_sketch,
		  "send count-sketches, of an odd number of rows"),
	BASE_UINT("epoch", 0, &set.epoch, 0, UINT32_MAX, "N", "epoch of the sketch"),
	BASE_UINT("store", 0, &set.store, 1, 65535, "N",
		  "number of the store (default: the opcode, 1 to 5)"),
	BASE_UINT("tenant", 0, &set.tenant, 0, 65535, "N", "number of the tenant"),
	BASE_STRING("key", 0, &set.key_file, "FILE",
		    "sign packets with the key in this file, of 32 hexadecimal digits"),
	BASE_UINT("reporters", 0, &set.reporters, 1, 100000, "N",
		  "number of reporters, which take turns"),
	BASE_UINT("reporter", 0, &set.reporter, 0, 0xfff00000, "N", "number of the first reporter"),
	BASE_UINT("incarnation", 0, &set.incarnation, 0, UINT32_MAX, "N",
		  "incarnation of the reporters; 0: by the clock (default)"),
	BASE_UINT("sequence", 0, &set.sequence, 0, UINT32_MAX, "N",
		  "sequence number of the first report"),
	BASE_F64("loss", 0, &set.loss, 0, 0.9, "P", "share of packets that are not sent"),
	BASE_F64("duplicate", 0, &set.duplicate, 0, 1, "P", "share of packets that are sent twice"),
	BASE_F64("reorder", 0, &set.reorder, 0, 1, "P", "share of packets that change places"),
	BASE_FLAG("essential", 'e', &set.essential,
		  "keep reports, and send them again if asked, until all are acknowledged"),
	BASE_FLAG("immediate", 0, &set.immediate, "wake the application with each report"),
	BASE_TIME("wait", 0, &set.wait, 0, 0, "DURATION",
		  "give up this long after the last acknowledgement"),
	BASE_STRING("legacy", 0, &set.legacy_name, "FORM",
		    "send packets of the original implementation, of form a or b"),
	BASE_UINT("seed", 0, &set.seed, 0, 0, "N", "seed of the random numbers"),
	BASE_UINT("show", 0, &set.show, 0, 1e6, "N", "print at most this many keys and lists"),
	BASE_STRING("expect", 0, &set.expect, "FILE",
		    "write the answers that queries must give to this file, one per line"),
	BASE_FLAG("json", 'j', &set.json, "print JSON"),
	{0},
};

/* Sends and prints the result. BASE_EXIT_OK if all was sent and acknowledged. */
static int generate(const struct base_command *cmd, struct cli_generate_dta_load *load, int stop)
{
	struct cli_generate_dta_sent sent;
	int failed = cli_generate_dta_send(cmd, &set, load, &sent, stop), err = 0;

	if (failed == -EINVAL)
		return BASE_EXIT_FAILURE;
	if (set.expect) {
		err = write_expected(&set, load);
		if (err)
			fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name, set.expect,
				strerror(-err));
	}
	if (!set.json)
		report_text(&set, load, &sent);
	else if (report_json(&set, load, &sent))
		err = -ENOMEM;
	if (fflush(stdout) || ferror(stdout))
		err = -EIO;
	return err || failed || sent.unsent ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static int run(const struct base_command *cmd, int argc, char **argv)
{
	struct cli_generate_dta_load load;
	struct cli_generate_dta_flows *flows = NULL;
	char error[512];
	int code, stop = -1;

	if (!base_options_only(cmd, table, argc, argv, &code))
		return code;
	code = check(cmd, &set);
	if (code != BASE_EXIT_OK)
		return code;
	if (!set.incarnation)
		set.incarnation = (uint32_t)(base_realtime_ns() >> 20) | 1;
	code = set.key_file ? read_key(cmd, &set) : BASE_EXIT_OK;
	if (code != BASE_EXIT_OK)
		return code;
	code = BASE_EXIT_FAILURE;
	if (set.replay) {
		flows = cli_generate_dta_flows_open(set.replay, &set.count, error, sizeof(error));
		if (!flows) {
			fprintf(stderr, "sidelight %s: --replay: %s\n", cmd->name, error);
			goto out;
		}
	}
	stop = base_stop_fd();
	if (stop < 0 || cli_generate_dta_load_open(&load, &set)) {
		fprintf(stderr, "sidelight %s: no memory for so many keys\n", cmd->name);
		cli_generate_dta_flows_close(flows);
		goto out;
	}
	load.replay = flows;
	code = generate(cmd, &load, stop);
	cli_generate_dta_load_close(&load);
out:
	if (stop >= 0)
		close(stop);
	dta_key_free(set.mac);
	return code;
}

const struct base_command cli_generate_dta = {
	.name = "generate dta",
	.synopsis = "--to HOST:PORT [OPTION]...",
	.summary = "Send reports, some lost or doubled, whose outcome is known",
	.run = run,
};
