// SPDX-License-Identifier: Apache-2.0
#include "fixture.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct walk {
	struct fixture *f;
	size_t family, series; /* the next ones */
	int count;
	char text[8192];
	const char *keys[8], *values[8];
};

static void *begin(void *ctx)
{
	struct fixture *f = ctx;
	struct walk *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->f = f;
	if (f->tick)
		f->tick();
	atomic_fetch_add(&f->walks, 1);
	return w;
}

static void end(void *walk)
{
	struct walk *w = walk;

	atomic_fetch_sub(&w->f->walks, 1);
	free(w);
}

static int next_family(void *walk, struct export_family *out)
{
	struct walk *w = walk;

	if (w->family == w->f->count)
		return 0;
	*out = w->f->families[w->family].f;
	out->series = w->f->families[w->family++].count;
	w->series = 0;
	return 1;
}

/* As in a collector, labels are escaped once, and both forms are set. */
static int next_series(void *walk, struct export_series *out)
{
	struct walk *w = walk;
	const struct fixture_family *f = &w->f->families[w->family - 1];
	const struct fixture_series *s = &f->series[w->series];
	char *p = w->text;

	if (w->series == f->count)
		return 0;
	w->series++;
	if (w->f->fail_at && ++w->count == w->f->fail_at)
		return -EIO;
	*out = s->s;
	for (out->label_count = 0; out->label_count < 8; out->label_count++) {
		const struct fixture_label *l = &s->labels[out->label_count];

		if (!l->key)
			break;
		w->keys[out->label_count] = l->key;
		w->values[out->label_count] = l->value;
		if (out->label_count)
			*p++ = ',';
		p = stpcpy(stpcpy(p, l->key), "=\"");
		for (const char *v = l->value; *v; v++) {
			if (strchr("\\\"\n", *v))
				*p++ = '\\';
			*p++ = *v == '\n' ? 'n' : *v;
		}
		*p++ = '"';
	}
	out->label_text = w->text;
	out->label_bytes = (size_t)(p - w->text);
	out->label_keys = w->keys;
	out->label_values = w->values;
	return 1;
}

struct export_source fixture_source(struct fixture *f)
{
	return (struct export_source){.ctx = f,
				      .begin = begin,
				      .next_family = next_family,
				      .next_series = next_series,
				      .end = end};
}

/* ---- the golden source ---- */

#define CREATED 1700000000123456789ull

static const struct region_text_label trace_id = {"trace_id", "4bf92f3577b34da6a3ce929d0e0e4736"};
static const struct export_exemplar trace = {
	.value = 1, .ns = 1700000000050000000ull, .labels = &trace_id, .label_count = 1};
static const struct fixture_series requests[] = {
	{.s = {U64(0), .created_ns = CREATED}, .labels = {{"code", "200"}, {"path", "/"}}},
	{.s = {U64(18446744073709551615u), .created_ns = 1700000000000000000ull},
	 .labels = {{"code", "500"}, {"path", "C:\\DIR\n\"x\" \xc3\xa9"}}},
	{.s = {U64(9007199254740993), .exemplars = &trace, .exemplar_count = 1},
	 .labels = {{"code", ""}}},
};
static const struct fixture_series seconds[] = {
	{.s = {F64(1234.5)}},
	{.s = {F64(0.1)}, .labels = {{"cpu", "1"}}},
	{.s = {F64(9007199254740992.0)}, .labels = {{"cpu", "2"}}},
	{.s = {F64(1e300)}, .labels = {{"cpu", "3"}}},
};
static const struct fixture_series temperature[] = {
	{.s = {F64(-40.25)}, .labels = {{"at", "a"}}},
	{.s = {F64(NAN)}, .labels = {{"at", "b"}}},
	{.s = {F64(INFINITY)}, .labels = {{"at", "c"}}},
	{.s = {F64(-INFINITY)}, .labels = {{"at", "d"}}},
	{.s = {F64(5e-324)}, .labels = {{"at", "e"}}},
	{.s = {F64(1.7976931348623157e308)}, .labels = {{"at", "f"}}},
	{.s = {F64(-0.0)}, .labels = {{"at", "g"}}},
	{.s = {F64(0.30000000000000004)}, .labels = {{"at", "h"}}},
};
static const struct fixture_series queue[] = {
	{.s = {I64(INT64_MIN)}, .labels = {{"q", "low"}}},
	{.s = {I64(INT64_MAX)}, .labels = {{"q", "high"}}},
	{.s = {I64(-1)}},
};
static const struct fixture_series plain[] = {{.s = {U64(7)}}};

static const double bounds[] = {0.005, 0.1, 1, 10, 2500000};
static const uint64_t classic_a[] = {1, 2, 3, 4, 5, 6};
static const uint64_t classic_b[] = {0, 0, 0, 0, 0, 0};
static const struct fixture_series latency[] = {
	{.s = {.sum = 53.75,
	       .buckets = classic_a,
	       .bucket_count = 6,
	       .bounds = bounds,
	       .bound_count = 5,
	       .created_ns = CREATED},
	 .labels = {{"le", "mine"}, {"path", "/\"q\""}}},
	{.s = {.buckets = classic_b, .bucket_count = 6, .bounds = bounds, .bound_count = 5}},
};

/* Scale 0: bucket i ends at 2^i; 0.25 is bucket -2, 64 is bucket 6; then the overflow. */
static const uint64_t octaves[] = {5, 1, 0, 0, 3, 0, 0, 0, 2, 0, 4};
static const uint64_t octaves_none[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
/* Scale 3, 160 buckets from 2^-10 on: too many bounds, so they are merged by 4. */
static const uint64_t fine[162] = {
	[0] = 1, [1] = 10, [2] = 20, [8] = 30, [80] = 40, [81] = 50, [160] = 60, [161] = 70,
};
static const struct fixture_series sizes[] = {
	{.s = {.sum = 123.5,
	       .exponential = true,
	       .buckets = octaves,
	       .bucket_count = 11,
	       .scale = 0,
	       .first_bucket = -2,
	       .zero_threshold = 0.125,
	       .created_ns = CREATED},
	 .labels = {{"shard", "0"}}},
	{.s = {.exponential = true,
	       .buckets = octaves_none,
	       .bucket_count = 11,
	       .first_bucket = -2},
	 .labels = {{"shard", "1"}}},
	{.s = {.sum = 1e6,
	       .exponential = true,
	       .buckets = fine,
	       .bucket_count = 162,
	       .scale = 3,
	       .first_bucket = -79,
	       .zero_threshold = 0x1p-10},
	 .labels = {{"shard", "2"}}},
};

static const struct fixture_series build[] = {
	{.labels = {{"version", "0.1.0"}, {"compiler", "gcc \"12\""}}},
};
static const char *const modes[] = {"idle", "busy", "on \"fire\"\\\n"};
static const struct fixture_series state[] = {
	{.s = {U64(2), .states = modes, .state_count = 3}, .labels = {{"unit", "a"}}},
	{.s = {U64(5), .states = modes, .state_count = 3},
	 .labels = {{"app_mode", "taken"}, {"z", ""}}},
};

static const struct fixture_family families[] = {
	FAMILY("app:mode", "What it is at", "", EXPORT_FAMILY_STATESET, state),
	FAMILY("build", "Build", "ignored", EXPORT_FAMILY_INFO, build),
	/* clashes with the info's sample */
	FAMILY("build_info", "A gauge", "", EXPORT_FAMILY_GAUGE, plain),
	FAMILY("cpu_seconds", "CPU time\\spent\nin \"all\"", "seconds", EXPORT_FAMILY_COUNTER,
	       seconds),
	/* both keep their name */
	FAMILY("heap_bytes", "In use", "bytes", EXPORT_FAMILY_GAUGE, queue),
	FAMILY("heap_bytes", "Allocated", "bytes", EXPORT_FAMILY_COUNTER, requests),
	FAMILY("http_requests", "Requests", "requests", EXPORT_FAMILY_COUNTER, requests),
	/* two types of one name, and a sample's name */
	FAMILY("http_requests_a", "", "", EXPORT_FAMILY_GAUGE, plain),
	FAMILY("http_requests_a", "", "", EXPORT_FAMILY_STATESET, state),
	FAMILY("http_requests_total", "", "", EXPORT_FAMILY_GAUGE, plain),
	FAMILY("http_requests_total_gauge", "", "", EXPORT_FAMILY_GAUGE, plain),
	FAMILY("latency_seconds", "Latency", "seconds", EXPORT_FAMILY_HISTOGRAM, latency),
	FAMILY("latency_seconds", "", "seconds", EXPORT_FAMILY_COUNTER, seconds),
	FAMILY("latency_seconds_count", "", "", EXPORT_FAMILY_COUNTER, plain),
	FAMILY("queue", "", "queue", EXPORT_FAMILY_GAUGE, queue),
	FAMILY("size_bytes", "Sizes", "bytes", EXPORT_FAMILY_HISTOGRAM, sizes),
	FAMILY("temperature_celsius", "T", "celsius", EXPORT_FAMILY_GAUGE, temperature),
};

struct fixture fixture_kinds = {.families = families,
				.count = sizeof(families) / sizeof(*families)};

/* ---- the source that Prometheus scrapes ---- */

static const struct fixture_series shop_requests[] = {
	{.s = {U64(123456789)}, .labels = {{"code", "200"}, {"path", "/cart"}}},
	{.s = {U64(9007199254740993u)}, .labels = {{"code", "500"}, {"path", "/\xc3\xa9\"\\\n"}}},
};
static const struct fixture_series shop_cpu[] = {
	{.s = {F64(0.1)}, .labels = {{"mode", "user"}}},
	{.s = {F64(12345.678901)}, .labels = {{"mode", "system"}}},
};
static const struct fixture_series shop_queue[] = {
	{.s = {I64(-5)}, .labels = {{"queue", "in"}}},
	{.s = {I64(1ll << 40)}, .labels = {{"queue", "out"}}},
};
static const struct fixture_series shop_load[] = {
	{.s = {F64(NAN)}, .labels = {{"cpu", "0"}}},
	{.s = {F64(INFINITY)}, .labels = {{"cpu", "1"}}},
	{.s = {F64(-INFINITY)}, .labels = {{"cpu", "2"}}},
	{.s = {F64(1e-300)}, .labels = {{"cpu", "3"}}},
};
/* Scale 3, from 2^-10 to 2^10: a latency with two modes, and a few values beyond all buckets. */
static const uint64_t shop_exponential[162] = {
	[0] = 3,   [40] = 10, [41] = 25, [42] = 40, [43] = 20, [44] = 5,
	[100] = 1, [101] = 7, [102] = 2, [160] = 1, [161] = 4,
};
static const uint64_t shop_nothing[162];
static const struct fixture_series shop_latency[] = {
	{.s = {.sum = 1234.5,
	       .exponential = true,
	       .buckets = shop_exponential,
	       .bucket_count = 162,
	       .scale = 3,
	       .first_bucket = -79,
	       .zero_threshold = 0x1p-10},
	 .labels = {{"path", "/cart"}}},
	{.s = {.exponential = true,
	       .buckets = shop_nothing,
	       .bucket_count = 162,
	       .scale = 3,
	       .first_bucket = -79,
	       .zero_threshold = 0x1p-10},
	 .labels = {{"path", "/none"}}},
};
static const struct fixture_series shop_sizes[] = {
	{.s = {.sum = 53.75,
	       .buckets = classic_a,
	       .bucket_count = 6,
	       .bounds = bounds,
	       .bound_count = 5}},
};
static const char *const shop_states[] = {"starting", "up", "draining"};
static const struct fixture_series shop_state[] = {
	{.s = {U64(2), .states = shop_states, .state_count = 3}},
};

static const struct fixture_family shop_families[] = {
	FAMILY("shop_build", "Build", "", EXPORT_FAMILY_INFO, build),
	FAMILY("shop_cpu_seconds", "CPU time", "seconds", EXPORT_FAMILY_COUNTER, shop_cpu),
	FAMILY("shop_latency_seconds", "Time to answer", "seconds", EXPORT_FAMILY_HISTOGRAM,
	       shop_latency),
	FAMILY("shop_load", "Load", "", EXPORT_FAMILY_GAUGE, shop_load),
	FAMILY("shop_queue", "Waiting", "", EXPORT_FAMILY_GAUGE, shop_queue),
	FAMILY("shop_requests", "Requests served", "", EXPORT_FAMILY_COUNTER, shop_requests),
	FAMILY("shop_size_bytes", "Sizes", "bytes", EXPORT_FAMILY_HISTOGRAM, shop_sizes),
	FAMILY("shop_state", "What it is at", "", EXPORT_FAMILY_STATESET, shop_state),
};

struct fixture fixture_shop = {.families = shop_families,
			       .count = sizeof(shop_families) / sizeof(*shop_families)};
