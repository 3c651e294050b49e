// SPDX-License-Identifier: Apache-2.0
/* generate_dta.c - the command 'generate dta', and what it prints. */
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

/* The n-th key that estimates are shown of; its text is "" for a HyperLogLog, which has one. False:
 * no more. */
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

/* One line each: KIND KEY WHAT. A list: items that arrived, all items, sum of the arrived ones'
 * numbers. */
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
		"{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:o, s:o}",
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

static int run(const struct base_command *cmd, int argc, char **argv)
{
	struct cli_generate_dta_settings s = {.kinds = "keywrite",
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
					      .wait = 10000000000};
	const struct base_option table[] = {
		{"to", 't', BASE_OPT_STRING, &s.to, "HOST:PORT", "the translator", 0, 0},
		{"kinds", 'k', BASE_OPT_STRING, &s.kinds, "LIST",
		 "keywrite (default), append, increment, postcard, sketch; or all", 0, 0},
		{"count", 'n', BASE_OPT_U64, &s.count, "N",
		 "reports of each kind; of sketches, one a reporter", 1, 1e15},
		{"replay", 0, BASE_OPT_STRING, &s.replay, "FILE",
		 "instead: each packet of this pcap file adds its bytes to its flow's counter", 0,
		 0},
		{"rate", 'r', BASE_OPT_U64, &s.rate, "N",
		 "reports a second; 0: as fast as possible (default)", 0, 1e12},
		{"xdp", 0, BASE_OPT_STRING, &s.xdp, "INTERFACE",
		 "packets leave here past the network stack, as frames that the kernel makes", 0,
		 0},
		{"pack", 'p', BASE_OPT_U32, &s.pack, "N", "reports a packet", 1, 8000},
		{"mtu", 0, BASE_OPT_U32, &s.mtu, "BYTES",
		 "a packet's payload at most (default 1472)", 256, DTA_PACKET_MAX},
		{"keys", 0, BASE_OPT_U64, &s.keys, "N", "different keys", 1, 1u << 28},
		{"distribution", 'd', BASE_OPT_STRING, &s.distribution, "NAME",
		 "of keys and lists: sequential (default), uniform, zipf", 0, 0},
		{"zipf", 0, BASE_OPT_F64, &s.zipf, "S", "exponent of zipf (default 1.1)", 0.1, 5},
		{"key-bytes", 0, BASE_OPT_U32, &s.key_bytes, "N", "of a key", SL_STORE_KEY_MIN,
		 SL_STORE_KEY_MAX},
		{"value-bytes", 0, BASE_OPT_U32, &s.value_bytes, "N",
		 "of key-write's values and append's items", SL_STORE_VALUE_MIN,
		 SL_STORE_VALUE_MAX},
		{"copies", 0, BASE_OPT_U32, &s.copies, "N", "of each key", 1, SL_STORE_COPIES_MAX},
		{"lists", 0, BASE_OPT_U32, &s.lists, "N", "that are appended to", 1, 1u << 24},
		{"hops", 0, BASE_OPT_U32, &s.hops, "N", "of a path", 1, SL_STORE_HOPS_MAX},
		{"values", 0, BASE_OPT_U32, &s.values, "N", "hops say 1 to N", 1, 0xffffffff},
		{"rows", 0, BASE_OPT_U32, &s.rows, "N", "of a sketch", 1, 64},
		{"columns", 0, BASE_OPT_U32, &s.columns, "N", "of a sketch", 1, 1u << 24},
		{"cells", 0, BASE_OPT_U32, &s.cells, "N", "of a sketch in one report", 1, 1024},
		{"hll", 0, BASE_OPT_FLAG, &s.hll, NULL,
		 "the sketch is a HyperLogLog: registers of a byte", 0, 0},
		{"count-sketch", 0, BASE_OPT_FLAG, &s.count_sketch, NULL,
		 "the sketch is a count-sketch: an odd number of rows", 0, 0},
		{"epoch", 0, BASE_OPT_U32, &s.epoch, "N", "of the sketch", 0, 0xffffffff},
		{"store", 0, BASE_OPT_U32, &s.store, "N",
		 "its number (default: the opcode, 1 to 5)", 1, 65535},
		{"tenant", 0, BASE_OPT_U32, &s.tenant, "N", "its number", 0, 65535},
		{"key", 0, BASE_OPT_STRING, &s.key_file, "FILE",
		 "32 hexadecimal digits: packets carry a MAC made with it", 0, 0},
		{"reporters", 0, BASE_OPT_U32, &s.reporters, "N", "that take turns", 1, 100000},
		{"reporter", 0, BASE_OPT_U32, &s.reporter, "N", "number of the first reporter", 0,
		 0xfff00000},
		{"incarnation", 0, BASE_OPT_U32, &s.incarnation, "N",
		 "of the reporters; 0: by the clock (default)", 0, 0xffffffff},
		{"sequence", 0, BASE_OPT_U32, &s.sequence, "N", "number of the first report", 0,
		 0xffffffff},
		{"loss", 0, BASE_OPT_F64, &s.loss, "P", "share of packets that are not sent", 0,
		 0.9},
		{"duplicate", 0, BASE_OPT_F64, &s.duplicate, "P",
		 "share of packets that are sent twice", 0, 1},
		{"reorder", 0, BASE_OPT_F64, &s.reorder, "P", "share of packets that change places",
		 0, 1},
		{"essential", 'e', BASE_OPT_FLAG, &s.essential, NULL,
		 "keep reports and send them again if asked, until all are acknowledged", 0, 0},
		{"immediate", 0, BASE_OPT_FLAG, &s.immediate, NULL, "reports wake the application",
		 0, 0},
		{"wait", 0, BASE_OPT_DURATION, &s.wait, "DURATION",
		 "for acknowledgements, since the last one (default 10s)", 0, 0},
		{"legacy", 0, BASE_OPT_STRING, &s.legacy_name, "FORM",
		 "the original's packets: a or b", 0, 0},
		{"seed", 0, BASE_OPT_U64, &s.seed, "N", "of everything that is drawn", 0, 0},
		{"show", 0, BASE_OPT_U32, &s.show, "N",
		 "keys and lists that are printed (default 8)", 0, 1e6},
		{"expect", 0, BASE_OPT_STRING, &s.expect, "FILE",
		 "write what a query must find, a line each", 0, 0},
		{"json", 'j', BASE_OPT_FLAG, &s.json, NULL, "print it as JSON", 0, 0},
		{0},
	};
	struct cli_generate_dta_flows *flows = NULL;
	struct cli_generate_dta_load load;
	struct cli_generate_dta_sent sent;
	char error[512];
	int code, err, stop, failed;

	if (!base_options_only(cmd, table, argc, argv, &code))
		return code;
	code = check(cmd, &s);
	if (code != BASE_EXIT_OK)
		return code;
	if (!s.incarnation)
		s.incarnation = (uint32_t)(base_realtime_ns() >> 20) | 1;
	if (s.key_file) {
		code = read_key(cmd, &s);
		if (code != BASE_EXIT_OK)
			return code;
	}
	if (s.replay) {
		flows = cli_generate_dta_flows_open(s.replay, &s.count, error, sizeof(error));
		if (!flows) {
			fprintf(stderr, "sidelight %s: --replay: %s\n", cmd->name, error);
			dta_key_free(s.mac);
			return BASE_EXIT_FAILURE;
		}
	}
	stop = base_stop_fd();
	if (stop < 0 || cli_generate_dta_load_open(&load, &s)) {
		fprintf(stderr, "sidelight %s: no memory for so many keys\n", cmd->name);
		if (stop >= 0)
			close(stop);
		cli_generate_dta_flows_close(flows);
		dta_key_free(s.mac);
		return BASE_EXIT_FAILURE;
	}
	load.replay = flows;
	failed = cli_generate_dta_send(cmd, &s, &load, &sent, stop);
	err = failed == -EINVAL ? failed : 0;
	if (!err && s.expect) {
		err = write_expected(&s, &load);
		if (err)
			fprintf(stderr, "sidelight %s: %s: %s\n", cmd->name, s.expect,
				strerror(-err));
	}
	if (failed != -EINVAL) {
		if (!s.json)
			report_text(&s, &load, &sent);
		else if (report_json(&s, &load, &sent))
			err = -ENOMEM;
	}
	cli_generate_dta_load_close(&load);
	close(stop);
	dta_key_free(s.mac);
	if (fflush(stdout) || ferror(stdout))
		err = -EIO;
	return err || failed || sent.unsent ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

const struct base_command cli_generate_dta = {
	.name = "generate dta",
	.synopsis = "--to HOST:PORT [OPTION]...",
	.summary = "Send reports, some lost or doubled, whose outcome is known",
	.run = run,
};
