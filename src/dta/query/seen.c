// SPDX-License-Identifier: Apache-2.0
/* seen.c - flows by device and time: paths, drops and top talkers (seen.h) */
#include "dta/query/seen.h"

#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/budget.h"
#include "base/grow.h"
#include "base/network.h"
#include "dta/query/json.h"
#include "dta/query/layout.h"
#include "dta/wire/text.h"

#define FIELD(f) (UINT64_C(1) << (f))
#define FLOW                                                                                     \
	(FIELD(DTA_FIELD_SOURCE) | FIELD(DTA_FIELD_DESTINATION) | FIELD(DTA_FIELD_SOURCE_PORT) | \
	 FIELD(DTA_FIELD_DESTINATION_PORT) | FIELD(DTA_FIELD_PROTOCOL))
#define DEVICE (FIELD(DTA_FIELD_EXPORTER) | FIELD(DTA_FIELD_SWITCH))
#define AS     (FIELD(DTA_FIELD_SOURCE_AS) | FIELD(DTA_FIELD_DESTINATION_AS))

/* ---- rows ---- */

static enum dta_seen_kind kind_of_layout(const struct dta_layout *l)
{
	if ((l->has & FLOW) == FLOW && l->has & DEVICE)
		return l->has & FIELD(DTA_FIELD_DROP_REASON) ? DTA_SEEN_DROPS : DTA_SEEN_FLOWS;
	return (l->has & AS) == AS ? DTA_SEEN_AS : DTA_SEEN_NONE;
}

enum dta_seen_kind dta_seen_kind(const struct dta_held *store)
{
	struct dta_layout l;

	if (store->view[0]->config->kind != SL_STORE_INCREMENT || !*store->keylog ||
	    !dta_layout_read(store->layout[0], &l))
		return DTA_SEEN_NONE;
	return kind_of_layout(&l);
}

static uint64_t number_of(const struct dta_record *r, enum dta_field f)
{
	return r->has >> f & 1 ? r->number[f] : 0;
}

static void row_of(const struct dta_record *r, struct dta_seen_row *row)
{
	memset(row, 0, sizeof(*row));
	if (kind_of_layout(&(struct dta_layout){.has = r->has}) == DTA_SEEN_AS) {
		row->as = 1;
		row->ingress = (uint32_t)number_of(r, DTA_FIELD_SOURCE_AS);
		row->egress = (uint32_t)number_of(r, DTA_FIELD_DESTINATION_AS);
		return;
	}
	row->source = r->address[DTA_FIELD_SOURCE];
	row->destination = r->address[DTA_FIELD_DESTINATION];
	row->ports = (uint32_t)(r->number[DTA_FIELD_SOURCE_PORT] << 16 |
				r->number[DTA_FIELD_DESTINATION_PORT]);
	row->protocol = (uint32_t)r->number[DTA_FIELD_PROTOCOL];
	if (r->has & FIELD(DTA_FIELD_SWITCH)) {
		row->is_switch = 1;
		row->device.s6_addr32[3] = htonl((uint32_t)r->number[DTA_FIELD_SWITCH]);
	} else {
		row->device = r->address[DTA_FIELD_EXPORTER];
	}
	row->ingress = (uint32_t)number_of(r, DTA_FIELD_INGRESS);
	row->egress = (uint32_t)number_of(r, DTA_FIELD_EGRESS);
	row->reason = (uint32_t)number_of(r, DTA_FIELD_DROP_REASON);
}

/* Returns the start of an epoch; 0 means unknown. */
static uint64_t start_of(const struct dta_held *store, uint64_t epoch)
{
	return store->since_ns ? __atomic_load_n(&store->since_ns[epoch % SL_STORE_BANKS_MAX],
						 __ATOMIC_RELAXED)
			       : 0;
}

/*
 * Returns a time at which an epoch had ended. After a restart, the starts of earlier epochs are
 * unknown, so this is the earliest known start of a later one.
 */
static uint64_t end_of(const struct dta_held *store, uint64_t epoch, uint64_t newest, uint64_t now)
{
	while (epoch++ < newest) {
		const uint64_t start = start_of(store, epoch);

		if (start)
			return start;
	}
	return now;
}

static uint64_t count_in(const struct dta_held *store, const struct dta_logged_key *k,
			 uint64_t epoch)
{
	struct sl_increment_answer a = {.result = SL_QUERY_UNKNOWN};
	const struct dta_query q = {
		.key = k->key, .key_bytes = k->bytes, .epoch = epoch, .no_error = true};

	DTA_QUERY_OBJECTS(store, a, dta_view_increment(v, &q, &a));
	return a.result == SL_QUERY_FOUND ? a.value : 0;
}

/* Adds the count of a key in an epoch. again: the last row is for the same key. */
static bool add_count(struct dta_seen *s, const struct dta_record *r, bool again, uint64_t count,
		      uint64_t from, uint64_t to)
{
	struct dta_seen_row *row;

	if (!again) {
		if (!BASE_GROW(s->row, s->rows, s->room)) {
			s->no_memory = true;
			return false;
		}
		row = &s->row[s->rows++];
		row_of(r, row);
		row->from_ns = from;
	}
	row = &s->row[s->rows - 1];
	row->count += count;
	row->to_ns = to;
	s->began_ns = !s->ended_ns || from < s->began_ns ? from : s->began_ns;
	s->ended_ns = BASE_MAX(s->ended_ns, to);
	return true;
}

void dta_seen_take(struct dta_seen *s, const struct dta_held *store, const struct dta_held *log)
{
	const uint64_t now = base_realtime_ns();
	struct dta_logged_key *keys;
	struct dta_store_epochs e;
	struct dta_layout l;
	struct dta_record r = {0};
	size_t n, last = SIZE_MAX;

	if (!dta_layout_read(store->layout[0], &l) || !dta_store_epochs(store->view[0], &e))
		return;
	keys = dta_query_logged(log, store, &n, &s->overwritten);
	for (size_t i = 0; i < n && base_budget_spend(s->budget, 1); i++) {
		const uint32_t ago = (uint32_t)e.epoch - keys[i].epoch;
		const uint64_t epoch = e.epoch - ago;
		const bool again = last != SIZE_MAX && keys[last].bytes == keys[i].bytes &&
				   !memcmp(keys[last].key, keys[i].key, keys[i].bytes);
		uint64_t from, to, count;

		if (ago >= SL_STORE_BANKS_MAX || ago > e.epoch)
			continue;
		from = start_of(store, epoch);
		to = end_of(store, epoch, e.epoch, now);
		if (to <= s->from_ns || from >= s->to_ns)
			continue;
		count = count_in(store, &keys[i], epoch);
		if (!count || (!again && !dta_layout_take(&l, keys[i].key, keys[i].bytes, &r)))
			continue;
		if (!add_count(s, &r, again, count, from, to))
			break;
		last = i;
	}
	free(keys);
}

/* ---- places ---- */

bool dta_seen_place(const char *text, struct dta_seen_place *out)
{
	char device[64];
	const size_t n = strcspn(text, "/");
	uint64_t number;

	*out = (struct dta_seen_place){.has_interface = text[n]};
	snprintf(device, sizeof(device), "%.*s", (int)n, text);
	if (n >= sizeof(device))
		return false;
	if (text[n]) {
		if (base_parse_u64(text + n + 1, 0, UINT32_MAX, &number))
			return false;
		out->interface = (uint32_t)number;
	}
	if (!base_parse_u64(device, 0, UINT32_MAX, &number)) {
		out->is_switch = true;
		out->device.s6_addr32[3] = htonl((uint32_t)number);
		return true;
	}
	return base_address_read(device, &out->device);
}

static bool is_at(const struct dta_seen_row *row, const struct dta_seen_place *p)
{
	if (!p->any &&
	    (row->is_switch != p->is_switch || memcmp(&row->device, &p->device, sizeof(p->device))))
		return false;
	return !p->has_interface || row->ingress == p->interface || row->egress == p->interface;
}

/* ---- answers ---- */

static int by_place(const void *a, const void *b)
{
	return memcmp(a, b, offsetof(struct dta_seen_row, count));
}

static int by_count(const void *x, const void *y)
{
	const struct dta_seen_row *a = x, *b = y;

	return a->count != b->count ? (a->count < b->count ? 1 : -1) : by_place(a, b);
}

static bool is_same_flow(const struct dta_seen_row *a, const struct dta_seen_row *b)
{
	return !memcmp(a, b, offsetof(struct dta_seen_row, device));
}

static void sort_rows(struct dta_seen *s, int (*by)(const void *, const void *))
{
	if (s->rows)
		qsort(s->row, s->rows, sizeof(*s->row), by);
}

/*
 * Returns the count of the device that counted most. The flow's rows are [first, *end). Bytes of
 * exporters come before reports of switches.
 */
static uint64_t most_of_flow(const struct dta_seen *s, size_t first, size_t *end)
{
	uint64_t most[2] = {0}, sum = 0;
	size_t i = first;

	for (; i < s->rows && is_same_flow(&s->row[first], &s->row[i]); i++) {
		const struct dta_seen_row *row = &s->row[i];

		if (i > first && memcmp(&row->device, &row[-1].device, sizeof(row->device)))
			sum = 0;
		sum += row->count;
		most[row->is_switch] = BASE_MAX(most[row->is_switch], sum);
	}
	*end = i;
	return most[0] ?: most[1];
}

/* A flow and its rows at all devices. */
struct seen_flow {
	const struct dta_seen_row *row;
	size_t rows;
	uint64_t count;
};

static int by_flow_count(const void *x, const void *y)
{
	const struct seen_flow *a = x, *b = y;

	return a->count != b->count ? (a->count < b->count ? 1 : -1) : by_place(a->row, b->row);
}

/* Returns n flows, greatest count first, in memory that the caller frees. */
static struct seen_flow *sort_flows(struct dta_seen *s, size_t *n)
{
	struct seen_flow *flow = NULL;
	size_t room = 0, end;

	*n = 0;
	sort_rows(s, by_place);
	for (size_t i = 0; i < s->rows; i = end) {
		const uint64_t count = most_of_flow(s, i, &end);

		if (!BASE_GROW(flow, *n, room)) {
			s->no_memory = true;
			break;
		}
		flow[(*n)++] = (struct seen_flow){&s->row[i], end - i, count};
	}
	if (*n)
		qsort(flow, *n, sizeof(*flow), by_flow_count);
	return flow;
}

/* Encodes the key of a flow in a store with the layout 5-tuple. Returns the key's length. */
static size_t flow_key(const struct dta_seen_row *row, uint8_t key[37])
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED(&row->source) &&
			IN6_IS_ADDR_V4MAPPED(&row->destination);
	const size_t n = v4 ? 4 : 16;

	memcpy(key, row->source.s6_addr + 16 - n, n);
	memcpy(key + n, row->destination.s6_addr + 16 - n, n);
	for (int i = 0; i < 4; i++)
		key[2 * n + (size_t)i] = (uint8_t)(row->ports >> (24 - 8 * i));
	key[2 * n + 4] = (uint8_t)row->protocol;
	return 2 * n + 5;
}

static json_t *device_json(const struct dta_seen_row *row)
{
	char text[INET6_ADDRSTRLEN];

	return row->is_switch ? json_integer(ntohl(row->device.s6_addr32[3]))
			      : json_string(base_address_text(&row->device, text));
}

static json_t *time_json(uint64_t ns)
{
	return ns ? json_real((double)ns * 1e-9) : json_null();
}

static void set_times(json_t *j, const struct dta_seen_row *row)
{
	dta_query_set(j, "from", time_json(row->from_ns));
	dta_query_set(j, "to", time_json(row->to_ns));
}

static json_t *flow_json(const struct dta_seen_row *row)
{
	char text[DTA_FLOW_TEXT];
	uint8_t key[37];

	dta_flow_text(key, flow_key(row, key), text);
	return json_pack("{s:s}", "flow", text);
}

/* Returns true if the two places are adjacent on a path, in either order. */
static bool has_link(const struct sl_postcard_answer *path, const struct dta_seen_place *place)
{
	for (uint32_t hop = 0; hop + 1 < path->hops; hop++)
		for (int i = 0; i < 2; i++)
			if ((path->present >> hop & 3) == 3 &&
			    path->value[hop] == ntohl(place[i].device.s6_addr32[3]) &&
			    path->value[hop + 1] == ntohl(place[!i].device.s6_addr32[3]))
				return true;
	return false;
}

/* Finds the newest path of a flow. */
static void find_path(const struct dta_seen_ask *a, const struct dta_seen_row *row,
		      struct sl_postcard_answer *path)
{
	uint8_t key[37];
	const struct dta_query q = {.key = key, .key_bytes = flow_key(row, key), .epoch = ~0ull};

	path->result = SL_QUERY_UNKNOWN;
	for (size_t i = 0; i < a->path_stores && path->result != SL_QUERY_FOUND; i++) {
		const struct dta_held *held = &a->paths[i];

		DTA_QUERY_OBJECTS(held, *path,
				  dta_view_path(v, &q, held->values, held->value_count, path));
	}
	if (path->result != SL_QUERY_FOUND)
		path->hops = 0;
}

/* Builds the answer for one flow from its rows at all devices. */
static json_t *path_json(const struct dta_seen_row *row, size_t n,
			 const struct sl_postcard_answer *path)
{
	json_t *j = flow_json(row), *hops = json_array(), *at = json_array(), *one;

	for (uint32_t i = 0; i < path->hops; i++)
		json_array_append_new(hops, path->present >> i & 1
						    ? dta_query_number(path->value[i])
						    : json_null());
	dta_query_set(j, "path", path->hops ? json_incref(hops) : json_null());
	json_decref(hops);
	for (size_t i = 0; i < n; i++) {
		one = json_pack(
			"{s:o,s:o,s:o,s:o}", "device", device_json(&row[i]), "ingress",
			dta_query_number(row[i].ingress), "egress", dta_query_number(row[i].egress),
			row[i].is_switch ? "reports" : "bytes", dta_query_number(row[i].count));
		set_times(one, &row[i]);
		json_array_append_new(at, one);
	}
	dta_query_set(j, "crossed", at);
	return j;
}

json_t *dta_seen_paths(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more)
{
	json_t *all = json_array();
	size_t n;
	struct seen_flow *flow = sort_flows(s, &n);

	*more = 0;
	for (size_t i = 0; i < n && base_budget_spend(s->budget, 1); i++) {
		const struct seen_flow *f = &flow[i];
		struct sl_postcard_answer path = {.hops = 0};
		bool at[2] = {!a->places, a->places < 2};

		for (size_t k = 0; k < f->rows; k++)
			for (uint32_t p = 0; p < a->places; p++)
				at[p] |= is_at(&f->row[k], &a->place[p]);
		if (!at[0] || !at[1])
			continue;
		find_path(a, f->row, &path);
		if (a->places == 2 && path.hops && a->place[0].is_switch && a->place[1].is_switch &&
		    !has_link(&path, a->place))
			continue;
		if (json_array_size(all) < a->max)
			json_array_append_new(all, path_json(f->row, f->rows, &path));
		else
			++*more;
	}
	free(flow);
	return all;
}

json_t *dta_seen_drops(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more)
{
	json_t *all = json_array(), *j;

	*more = 0;
	sort_rows(s, by_count);
	for (size_t i = 0; i < s->rows; i++) {
		const struct dta_seen_row *row = &s->row[i];

		if ((a->places && !is_at(row, &a->place[0])) ||
		    (a->has_reason && row->reason != a->reason))
			continue;
		if (json_array_size(all) == a->max) {
			++*more;
			continue;
		}
		j = flow_json(row);
		dta_query_set(j, "device", device_json(row));
		dta_query_set(j, "ingress", dta_query_number(row->ingress));
		dta_query_set(j, "egress", dta_query_number(row->egress));
		dta_query_set(j, "reason", dta_query_number(row->reason));
		dta_query_set(j, "packets", dta_query_number(row->count));
		set_times(j, row);
		json_array_append_new(all, j);
	}
	return all;
}

/* ---- top talkers: a group is a row of which only the fields of the group are set ---- */

static void mask_prefix(struct in6_addr *a, const uint32_t prefix[2])
{
	const uint32_t bits = IN6_IS_ADDR_V4MAPPED(a) ? 96 + prefix[0] : prefix[1];

	for (uint32_t i = 0; i < 16; i++)
		if (8 * i + 8 > bits)
			a->s6_addr[i] &= 8 * i >= bits ? 0 : (uint8_t)(0xff << (8 * i + 8 - bits));
}

static void add_group(struct dta_seen *to, const struct dta_seen_row *group,
		      const struct dta_seen_row *of, uint64_t count)
{
	struct dta_seen_row *row;

	if (!BASE_GROW(to->row, to->rows, to->room)) {
		to->no_memory = true;
		return;
	}
	row = &to->row[to->rows++];
	*row = *group;
	row->count = count;
	row->from_ns = of->from_ns;
	row->to_ns = of->to_ns;
}

/* Adds the groups of both ends of a row. */
static void add_groups(struct dta_seen *to, const struct dta_seen_ask *a,
		       const struct dta_seen_row *row, uint64_t count)
{
	struct dta_seen_row group[2];
	uint32_t n = 2;

	memset(group, 0, sizeof(group));
	switch ((enum dta_seen_by)a->by) {
	case DTA_SEEN_BY_ADDRESS:
	case DTA_SEEN_BY_PREFIX:
		group[0].source = row->source;
		group[1].source = row->destination;
		for (int i = 0; a->by == DTA_SEEN_BY_PREFIX && i < 2; i++)
			mask_prefix(&group[i].source, a->prefix);
		break;
	case DTA_SEEN_BY_AS:
	case DTA_SEEN_BY_INTERFACE:
		for (int i = 0; i < 2; i++) {
			group[i].device = row->device;
			group[i].is_switch = row->is_switch;
			group[i].ingress = i ? row->egress : row->ingress;
		}
		break;
	case DTA_SEEN_BY_APPLICATION:
		group[0].protocol = row->protocol;
		group[0].ports = BASE_MIN(row->ports >> 16, row->ports & 0xffff);
		n = 1;
	}
	n -= n == 2 && !by_place(&group[0], &group[1]);
	for (uint32_t i = 0; i < n; i++)
		add_group(to, &group[i], row, count);
}

static void merge_groups(struct dta_seen *g)
{
	size_t n = 0;

	sort_rows(g, by_place);
	for (size_t i = 0; i < g->rows; i++) {
		struct dta_seen_row *last = n ? &g->row[n - 1] : NULL;

		if (!last || by_place(last, &g->row[i])) {
			g->row[n++] = g->row[i];
			continue;
		}
		last->count += g->row[i].count;
		last->from_ns = BASE_MIN(last->from_ns, g->row[i].from_ns);
		last->to_ns = BASE_MAX(last->to_ns, g->row[i].to_ns);
	}
	g->rows = n;
	sort_rows(g, by_count);
}

static json_t *group_json(const struct dta_seen_ask *a, const struct dta_seen_row *row)
{
	const bool v4 = IN6_IS_ADDR_V4MAPPED(&row->source);
	char text[INET6_ADDRSTRLEN];
	json_t *j = json_object();

	switch ((enum dta_seen_by)a->by) {
	case DTA_SEEN_BY_ADDRESS:
		dta_query_set(j, "address", json_string(base_address_text(&row->source, text)));
		break;
	case DTA_SEEN_BY_PREFIX:
		dta_query_set(j, "prefix",
			      json_sprintf("%s/%u", base_address_text(&row->source, text),
					   a->prefix[!v4]));
		break;
	case DTA_SEEN_BY_AS:
		dta_query_set(j, "as", dta_query_number(row->ingress));
		break;
	case DTA_SEEN_BY_INTERFACE:
		dta_query_set(j, "device", device_json(row));
		dta_query_set(j, "interface", dta_query_number(row->ingress));
		break;
	case DTA_SEEN_BY_APPLICATION:
		dta_query_set(j, "protocol", dta_query_number(row->protocol));
		dta_query_set(j, "port", dta_query_number(row->ports));
	}
	dta_query_set(j, "bytes", dta_query_number(row->count));
	set_times(j, row);
	return j;
}

json_t *dta_seen_top(struct dta_seen *s, const struct dta_seen_ask *a, uint64_t *more)
{
	const bool once = a->by != DTA_SEEN_BY_AS && a->by != DTA_SEEN_BY_INTERFACE;
	struct dta_seen groups = {.budget = s->budget};
	json_t *all = json_array();
	size_t end, kept = 0;

	/* Leave out switches, because they count reports rather than bytes. */
	for (size_t i = 0; i < s->rows; i++)
		if (!s->row[i].is_switch && (!a->places || is_at(&s->row[i], &a->place[0])))
			s->row[kept++] = s->row[i];
	s->rows = kept;
	sort_rows(s, by_place);
	for (size_t i = 0; i < s->rows && base_budget_spend(s->budget, 1); i = end) {
		uint64_t count = s->row[i].count;

		end = i + 1;
		if (once)
			count = most_of_flow(s, i, &end);
		add_groups(&groups, a, &s->row[i], count);
	}
	merge_groups(&groups);
	s->no_memory |= groups.no_memory;
	*more = groups.rows > a->max ? groups.rows - a->max : 0;
	for (size_t i = 0; i < groups.rows && i < a->max; i++)
		json_array_append_new(all, group_json(a, &groups.row[i]));
	free(groups.row);
	return all;
}
