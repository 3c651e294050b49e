// SPDX-License-Identifier: Apache-2.0
/* store.c - store objects: bounds of the configuration, the header, and validation of both */
#include "dta/store/store.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base.h"
#include "region/decode.h"

static const char *const kinds[] = {
	[SL_STORE_KEYWRITE] = "key-write",  [SL_STORE_APPEND] = "append",
	[SL_STORE_INCREMENT] = "increment", [SL_STORE_POSTCARD] = "postcard",
	[SL_STORE_SKETCH] = "sketch",
};
static const char *const sketches[] = {
	[SL_STORE_COUNT_MIN] = "count-min",
	[SL_STORE_COUNT_SKETCH] = "count-sketch",
	[SL_STORE_HLL] = "hyperloglog",
};
#define COUNT(a) (sizeof(a) / sizeof(*(a)))
/* For functions with the parameters error and error_bytes. */
#define REFUSE(...) base_fail(error, error_bytes, -EINVAL, __VA_ARGS__)

static const char *name_of(const char *const *names, size_t count, uint32_t n)
{
	return n && n < count ? names[n] : "unknown";
}

static uint32_t number_of(const char *const *names, size_t count, const char *name)
{
	for (uint32_t i = 1; i < count; i++)
		if (!strcmp(names[i], name))
			return i;
	return 0;
}

const char *dta_store_kind_name(uint32_t kind)
{
	return name_of(kinds, COUNT(kinds), kind);
}

uint32_t dta_store_kind_of(const char *name)
{
	return number_of(kinds, COUNT(kinds), name);
}

const char *dta_store_sketch_name(uint32_t sketch)
{
	return name_of(sketches, COUNT(sketches), sketch);
}

uint32_t dta_store_sketch_of(const char *name)
{
	return number_of(sketches, COUNT(sketches), name);
}

/* ---- configuration ---- */

struct dta_store_bound {
	const char *name;
	uint64_t value, min, max;
};

/*
 * Fields that a kind does not use must be 0 (rows and lanes must be 1), so that equal geometries
 * have equal configurations.
 */
int dta_store_config_check(const struct sl_store_config *c, char *error, size_t error_bytes)
{
	uint32_t k = c->kind;
	bool kw = k == SL_STORE_KEYWRITE, ap = k == SL_STORE_APPEND, in = k == SL_STORE_INCREMENT;
	bool pc = k == SL_STORE_POSTCARD, sk = k == SL_STORE_SKETCH;
	bool hll = sk && c->sketch == SL_STORE_HLL;
	const struct dta_store_bound bounds[] = {
		{"kind", k, SL_STORE_KEYWRITE, SL_STORE_SKETCH},
		{in || sk ? "columns"
		 : ap	  ? "blocks"
			  : "slots",
		 c->slots, 1, SL_STORE_SIZE_MAX},
		{"rows", c->rows, 1,
		 in	      ? SL_STORE_COPIES_MAX
		 : sk && !hll ? 64
			      : 1},
		{"value", c->value_bytes, kw || ap ? SL_STORE_VALUE_MIN : 0,
		 kw || ap ? SL_STORE_VALUE_MAX : 0},
		{"batch", c->batch, ap, ap ? SL_STORE_BATCH_MAX : 0},
		{"lists", c->lists, ap, ap ? SL_STORE_LISTS_MAX : 0},
		{"lanes", c->lanes, 1, ap || sk ? SL_STORE_LANES_MAX : 1},
		{"hops", c->hops, pc, pc ? SL_STORE_HOPS_MAX : 0},
		{"sketch", c->sketch, sk ? SL_STORE_COUNT_MIN : 0, sk ? SL_STORE_HLL : 0},
		{"reporters", c->reporters, sk, sk ? SL_STORE_REPORTERS_MAX : 0},
		{"epochs", c->banks, 1, ap ? 1 : SL_STORE_BANKS_MAX},
		{"copies", c->copies, kw || pc,
		 kw || pc ? SL_STORE_COPIES_MAX
		 : in	  ? c->rows
			  : 0},
		{"keylog", c->keylog, 0, kw || in || pc ? 65536 : 0},
		{"list of the key log", c->keylog_list, 0, c->keylog ? SL_STORE_LISTS_MAX - 1 : 0},
	};
	unsigned __int128 bytes;

	for (size_t i = 0; i < COUNT(bounds); i++)
		if (bounds[i].value < bounds[i].min || bounds[i].value > bounds[i].max)
			return REFUSE("%s is %llu, but must be %llu to %llu for a store of kind %s",
				      bounds[i].name, (unsigned long long)bounds[i].value,
				      (unsigned long long)bounds[i].min,
				      (unsigned long long)bounds[i].max, dta_store_kind_name(k));
	for (size_t i = 0; i < COUNT(c->reserved); i++)
		if (c->reserved[i])
			return REFUSE("reserved words must be 0");
	/* Each factor is below 2^46 and each unit below 2^19, so no product overflows 128 bits. */
	if (kw)
		bytes = (unsigned __int128)c->slots * sl_store_slot_bytes(c);
	else if (ap)
		bytes = (unsigned __int128)c->slots * sl_store_block_bytes(c) * c->lists * c->lanes;
	else if (in)
		bytes = (unsigned __int128)c->slots * c->rows * 8;
	else if (pc)
		bytes = (unsigned __int128)c->slots * sl_store_path_bytes(c);
	else
		bytes = ((unsigned __int128)c->slots * c->rows * sl_store_cell_bytes(c) + 63 +
			 sizeof(struct sl_store_complete)) *
			c->lanes;
	if ((bytes + 4096) * c->banks > SL_STORE_SIZE_MAX - SL_STORE_BANKS_OFFSET)
		return REFUSE("the store is larger than 2^46 bytes");
	return 0;
}

uint64_t dta_store_object_bytes(const struct sl_store_config *c)
{
	return SL_STORE_BANKS_OFFSET + c->banks * sl_store_bank_stride(c);
}

/* ---- header ---- */

static void fill_sections(const struct sl_store_config *c, struct sl_region_section s[3])
{
	s[0] = (struct sl_region_section){SL_SECTION_STORE, sizeof(*c), SL_STORE_CONFIG_OFFSET,
					  sizeof(*c)};
	s[1] = (struct sl_region_section){SL_SECTION_STORE_EPOCHS, SL_LINE_SIZE,
					  SL_STORE_EPOCHS_OFFSET, SL_LINE_SIZE};
	s[2] = (struct sl_region_section){SL_SECTION_STORE_BANKS, 4096, SL_STORE_BANKS_OFFSET,
					  c->banks * sl_store_bank_stride(c)};
}

bool dta_name_fits(const char *name)
{
	const size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "0123456789_.-");

	return n && n < 64 && !name[n];
}

/* Writes "store" NUL name NUL "tenant" NUL number NUL. */
static size_t write_labels(uint8_t *to, size_t room, const char *name, uint32_t tenant)
{
	int n = snprintf((char *)to, room, "store%c%s%ctenant%c%u", 0, name, 0, 0, tenant);

	return (size_t)n + 1;
}

void dta_store_epochs_set(void *map, const struct dta_store_epochs *e)
{
	uint64_t *line = (uint64_t *)((uint8_t *)map + SL_STORE_EPOCHS_OFFSET);
	const uint64_t next[7] = {e->epoch, e->oldest, e->since_ns, e->state};

	/*
	 * The zeroed bank must be visible before its epoch. Pairs with the acquire fence in
	 * dta_query_valid().
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	region_store_line(line, next);
}

void dta_store_format(void *map, const struct sl_store_config *config, const char *name)
{
	struct sl_region_header *h = map;
	struct sl_store_config *c = (void *)((uint8_t *)map + SL_STORE_CONFIG_OFFSET);

	*c = *config;
	c->check = sl_fnv1a(SL_FNV_BASIS, c, offsetof(struct sl_store_config, check));
	memset(h, 0, sizeof(*h));
	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = dta_store_object_bytes(c);
	h->kind = SL_REGION_STORE;
	h->pid = (uint32_t)getpid();
	while (!h->instance)
		if (getrandom(&h->instance, sizeof(h->instance), 0) != sizeof(h->instance))
			h->instance = base_now_ns() ^ base_realtime_ns() << 20;
	h->start_ns = base_realtime_ns();
	h->section_count = 3;
	fill_sections(c, h->section);
	h->label_bytes = (uint32_t)write_labels(h->labels, sizeof(h->labels), name, c->tenant);
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
	dta_store_epochs_set(map, &(struct dta_store_epochs){.epoch = c->first_epoch,
							     .oldest = c->first_epoch,
							     .since_ns = h->start_ns,
							     .state = SL_STATE_LIVE});
}

int dta_store_view(void *map, uint64_t bytes, struct dta_store_view *out, char *error,
		   size_t error_bytes)
{
	struct sl_region_header h;
	struct sl_region_section s[3];
	struct sl_store_config c;
	struct dta_store_view v;
	uint8_t text[128];

	if (bytes < SL_STORE_BANKS_OFFSET)
		return REFUSE("too small for a store (%llu bytes): is the file truncated?",
			      (unsigned long long)bytes);
	memcpy(&h, map, sizeof(h));
	memcpy(&c, (uint8_t *)map + SL_STORE_CONFIG_OFFSET, sizeof(c));
	if (memcmp(h.magic, SL_REGION_MAGIC, sizeof(h.magic)))
		return REFUSE("not a Sidelight region");
	if (h.version != SL_REGION_VERSION)
		return REFUSE("version %u; this program supports version %d", h.version,
			      SL_REGION_VERSION);
	if (h.check != sl_fnv1a(SL_FNV_BASIS, &h, offsetof(struct sl_region_header, check)))
		return REFUSE("the header is damaged (wrong checksum)");
	if (h.kind != SL_REGION_STORE)
		return REFUSE("this is a region of kind %u, not a store", h.kind);
	if (h.header_size != SL_HEADER_SIZE || !h.instance)
		return REFUSE("invalid header");
	if (c.check != sl_fnv1a(SL_FNV_BASIS, &c, offsetof(struct sl_store_config, check)))
		return REFUSE("the configuration is damaged (wrong checksum)");
	if (dta_store_config_check(&c, error, error_bytes))
		return -EINVAL;
	if (h.size != dta_store_object_bytes(&c))
		return REFUSE("the size does not match the configuration");
	if (h.size > bytes)
		return REFUSE("the file is truncated: it has %llu of %llu bytes",
			      (unsigned long long)bytes, (unsigned long long)h.size);
	fill_sections(&c, s);
	if (h.section_count != 3 || memcmp(h.section, s, sizeof(s)))
		return REFUSE("the sections have the wrong offsets or sizes");
	if (h.label_bytes < 7 || h.label_bytes > sizeof(text) || memcmp(h.labels, "store", 6))
		return REFUSE("invalid labels");
	memset(&v, 0, sizeof(v));
	if (snprintf(v.name, sizeof(v.name), "%.*s", (int)h.label_bytes - 6,
		     (char *)h.labels + 6) >= (int)sizeof(v.name) ||
	    !dta_name_fits(v.name))
		return REFUSE("invalid name");
	if (h.label_bytes != write_labels(text, sizeof(text), v.name, c.tenant) ||
	    memcmp(h.labels, text, h.label_bytes))
		return REFUSE("invalid labels");
	v.config[0] = c;
	v.map = map;
	v.bytes = h.size;
	v.epochs = (const uint64_t *)((uint8_t *)map + SL_STORE_EPOCHS_OFFSET);
	v.banks = (uint8_t *)map + SL_STORE_BANKS_OFFSET;
	v.bank_stride = sl_store_bank_stride(&c);
	*out = v;
	return 0;
}

int dta_store_by_value(const void *a, const void *b)
{
	const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return (x > y) - (x < y);
}

bool dta_store_epochs(const struct dta_store_view *v, struct dta_store_epochs *out)
{
	uint64_t line[8];

	if (!region_copy_lines(line, v->epochs, 1) ||
	    line[SL_STORE_EPOCH] < v->config->first_epoch ||
	    line[SL_STORE_EPOCH_OLDEST] < v->config->first_epoch ||
	    line[SL_STORE_EPOCH_OLDEST] > line[SL_STORE_EPOCH] ||
	    line[SL_STORE_EPOCH] - line[SL_STORE_EPOCH_OLDEST] >= v->config->banks ||
	    line[SL_STORE_EPOCH_STATE] > SL_STATE_RETIRED)
		return false;
	*out = (struct dta_store_epochs){
		.epoch = line[SL_STORE_EPOCH],
		.oldest = line[SL_STORE_EPOCH_OLDEST],
		.since_ns = line[SL_STORE_EPOCH_SINCE],
		.state = (uint32_t)line[SL_STORE_EPOCH_STATE],
	};
	return true;
}
