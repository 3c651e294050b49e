// SPDX-License-Identifier: Apache-2.0
/* layers.c - 'sidelight tcp layers': time per layer of the network stack, by flow or flow group. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "cli/tcp/tcp.h"
#include "source/tcp/cgroup.h"

static struct {
	const char *by;
	uint32_t groups;
} settings = {.by = "port"};

static const struct base_option table[] = {
	CLI_TCP_OPTIONS_SHOW,
	BASE_STRING("by", 'b', &settings.by, "WHAT",
		    "print one line per flow, remote, port, container or role"),
	BASE_UINT(
		"groups", 0, &settings.groups, 0, 1 << 16, "N",
		"track at most this many combinations of remote, port and container; 0 means 1024"),
	CLI_TCP_OPTION_SORT("requests, segments, app, total or p99"),
	CLI_TCP_OPTIONS_FILTER,
	CLI_TCP_OPTION_AVOID,
	{0},
};

enum by { BY_FLOW, BY_REMOTE, BY_PORT, BY_CONTAINER, BY_ROLE, BYS };
static const struct {
	const char *name;
	uint8_t width; /* width of the column */
} groupings[BYS] = {{"flow", 44}, {"remote", 15}, {"port", 5}, {"container", 24}, {"role", 4}};

struct rows {
	struct region_layer_view *v;
	size_t n, room;
};

struct cli_layers_view {
	const struct base_command *cmd;
	struct tcp_layers *layers;
	struct tcp_cgroups *who;
	FILE *out;
	struct cli_tcp_screen screen;
	enum by by;
	struct rows now, before;
	uint64_t last_ns, unsettled;
	bool any; /* true once any line has been printed */
};

const char *cli_tcp_role_name(enum sl_role role)
{
	return role == SL_ROLE_SERVER ? "server" : role == SL_ROLE_CLIENT ? "client" : "unknown";
}

static bool has_segments(const struct region_layer_view *v)
{
	return v->count[SL_COUNT_IN] || v->count[SL_COUNT_OUT];
}

/* Clears the members of the key that this grouping ignores. */
static void reduce_key(struct region_layer_view *v, enum by by, uint32_t index)
{
	if (by == BY_FLOW)
		return;
	v->generation = by != BY_ROLE && !index; /* group 0 holds flows without a group */
	v->start_ns = v->end_ns = 0;
	v->state = SL_SLOT_OPEN;
	v->netns = 0;
	if (by != BY_REMOTE) {
		memset(v->remote, 0, sizeof(v->remote));
		v->family = 0;
	}
	if (by != BY_PORT)
		v->local_port = 0;
	if (by != BY_CONTAINER)
		v->cgroup = 0;
}

/* Finds the row with the same key as b. */
static struct region_layer_view *find_row(const struct rows *rows,
					  const struct region_layer_view *b)
{
	for (size_t i = 0; i < rows->n; i++) {
		struct region_layer_view *a = &rows->v[i];

		if (a->generation == b->generation && a->role == b->role &&
		    a->start_ns == b->start_ns && a->local_port == b->local_port &&
		    a->remote_port == b->remote_port && a->cgroup == b->cgroup &&
		    a->family == b->family && !memcmp(a->remote, b->remote, 16) &&
		    !memcmp(a->local, b->local, 16))
			return a;
	}
	return NULL;
}

static int add_row(struct cli_layers_view *view, const struct region_layer_view *v)
{
	struct rows *r = &view->now;
	struct region_layer_view *there = view->by == BY_FLOW ? NULL : find_row(r, v);

	if (there) {
		region_layer_add(there, v);
		return 0;
	}
	if (!BASE_GROW(r->v, r->n, r->room))
		return -ENOMEM;
	r->v[r->n++] = *v;
	return 0;
}

static int collect_rows(struct cli_layers_view *view)
{
	enum tcp_layer_table t = view->by == BY_FLOW ? TCP_LAYER_FLOWS : TCP_LAYER_GROUPS;
	uint32_t slots = tcp_layers_slots(view->layers, t);
	static struct region_layer_view v; /* too large for the stack */
	int err = 0;

	view->now.n = 0;
	for (uint32_t i = 0; !err && i < slots; i++) {
		int got = tcp_layers_slot(view->layers, t, i, &v);

		view->unsettled += got < 0;
		if (got <= 0 || !has_segments(&v))
			continue;
		reduce_key(&v, view->by, i);
		err = add_row(view, &v);
	}
	return err;
}

/* Formats the flow or group that a line describes. */
static void format_title(struct cli_layers_view *view, char *out, size_t bytes,
			 const struct region_layer_view *v)
{
	char local[CLI_TCP_ENDPOINT], remote[CLI_TCP_ENDPOINT];
	enum by by = view->by;

	if (by != BY_FLOW && by != BY_ROLE && v->generation) {
		snprintf(out, bytes, "(no room)");
		return;
	}
	switch (by) {
	case BY_FLOW:
		snprintf(out, bytes, "%s %s", cli_tcp_endpoint(local, v->local, v->local_port),
			 cli_tcp_endpoint(remote, v->remote, v->remote_port));
		return;
	case BY_REMOTE:
		snprintf(out, bytes, "%s", cli_tcp_endpoint(remote, v->remote, -1));
		return;
	case BY_PORT:
		snprintf(out, bytes, "%u", v->local_port);
		return;
	case BY_CONTAINER:
		tcp_cgroup_title(tcp_cgroups_find(view->who, v->cgroup, base_now_ns()), out, bytes);
		return;
	default:
		snprintf(out, bytes, "all");
	}
}

static json_t *histogram_json(const uint64_t *cell)
{
	json_t *buckets = json_object();
	double p50 = region_layer_quantile(cell, 0.5), p99 = region_layer_quantile(cell, 0.99);
	char key[16];

	for (int c = SL_LAYER_BUCKETS; c < SL_LAYER_OVER; c++) {
		if (!cell[c])
			continue;
		snprintf(key, sizeof(key), "%d", SL_LAYER_FIRST + c - SL_LAYER_BUCKETS);
		json_object_set_new(buckets, key, json_integer(CLI_INT(cell[c])));
	}
	return json_pack("{s:I, s:I, s:i, s:I, s:I, s:o, s:o*, s:o*}", "count",
			 CLI_INT(region_layer_count(cell)), "sum_ns", CLI_INT(cell[SL_LAYER_SUM]),
			 "scale", SL_LAYER_SCALE, "zero", CLI_INT(cell[SL_LAYER_ZERO]), "over",
			 CLI_INT(cell[SL_LAYER_OVER]), "buckets", buckets, "p50_ns", json_real(p50),
			 /* json_real() returns NULL unless the value is finite */
			 "p99_ns", json_real(p99));
}

static const char *const count_names[] = {"requests",	 "complete",	 "pipelined",
					  "segments_in", "segments_out", "unattributed",
					  "incomplete"};

static void row_json(struct cli_layers_view *view, const struct region_layer_view *v)
{
	json_t *o = json_pack("{s:s, s:I, s:s}", "row", groupings[view->by].name, "time_ns",
			      CLI_INT(base_realtime_ns()), "role", cli_tcp_role_name(v->role)),
	       *layers = json_object();
	char text[160], remote[CLI_TCP_ENDPOINT];

	format_title(view, text, sizeof(text), v);
	cli_tcp_json_text(o, "name", text);
	if (view->by == BY_FLOW)
		json_object_update_new(o, json_pack("{s:s, s:i, s:s, s:i, s:I, s:b}", "local",
						    cli_tcp_endpoint(text, v->local, -1),
						    "local_port", v->local_port, "remote",
						    cli_tcp_endpoint(remote, v->remote, -1),
						    "remote_port", v->remote_port, "netns",
						    CLI_INT(v->netns), "open",
						    v->state == SL_SLOT_OPEN));
	if (view->by == BY_FLOW || view->by == BY_CONTAINER) {
		json_object_set_new(o, "cgroup", json_integer(CLI_INT(v->cgroup)));
		cli_tcp_json_identity(o, tcp_cgroups_find(view->who, v->cgroup, base_now_ns()));
	}
	for (int i = 0; i < 7; i++)
		json_object_set_new(o, count_names[i], json_integer(CLI_INT(v->count[i])));
	for (int i = 0; i < SL_LAYERS; i++)
		json_object_set_new(layers, region_layer_name(i), histogram_json(v->cell[i]));
	json_object_set_new(o, "layers", layers);
	cli_json_print(view->out, o, JSON_COMPACT);
}

static void row_csv(struct cli_layers_view *view, const struct region_layer_view *v)
{
	char text[160];

	if (cli_tcp_first()) {
		fprintf(view->out, "time_ns,%s,role", groupings[view->by].name);
		for (int i = 0; i < 7; i++)
			fprintf(view->out, ",%s", count_names[i]);
		for (int i = 0; i < SL_LAYERS; i++)
			fprintf(view->out, ",%s_count,%s_sum_ns,%s_p50_ns,%s_p99_ns",
				region_layer_name(i), region_layer_name(i), region_layer_name(i),
				region_layer_name(i));
		fputc('\n', view->out);
	}
	format_title(view, text, sizeof(text), v);
	fprintf(view->out, "%" PRIu64 ",", base_realtime_ns());
	cli_tcp_csv_text(view->out, text);
	fprintf(view->out, ",%s", cli_tcp_role_name(v->role));
	for (int i = 0; i < 7; i++)
		fprintf(view->out, ",%" PRIu64, v->count[i]);
	for (int i = 0; i < SL_LAYERS; i++) {
		uint64_t n = region_layer_count(v->cell[i]);

		fprintf(view->out, ",%" PRIu64 ",%" PRIu64, n, v->cell[i][SL_LAYER_SUM]);
		for (int q = 0; q < 2; q++) {
			double x = region_layer_quantile(v->cell[i], q ? 0.99 : 0.5);

			fputc(',', view->out);
			if (isfinite(x))
				fprintf(view->out, "%.0f", x);
		}
	}
	fputc('\n', view->out);
}

static void subtract_row(struct region_layer_view *v, const struct region_layer_view *before)
{
	for (int i = 0; i < 7; i++)
		v->count[i] -= before->count[i];
	for (int i = 0; i < SL_LAYERS; i++)
		for (int c = 0; c < SL_LAYER_CELLS; c++)
			v->cell[i][c] -= before->cell[i][c];
}

static const char *const orders[] = {"requests", "segments", "app", "total", "p99", NULL};

static double row_weight(const struct region_layer_view *v, unsigned int order)
{
	uint64_t segments = v->count[SL_COUNT_IN] + v->count[SL_COUNT_OUT];
	double x;

	switch (order) {
	case 0:
		return (double)v->count[SL_COUNT_REQUESTS] * 1000 + (double)segments;
	case 1:
		return (double)segments;
	case 2:
		x = region_layer_quantile(v->cell[SL_LAYER_APP], 0.5);
		break;
	default:
		x = region_layer_quantile(v->cell[SL_LAYER_TOTAL], order == 3 ? 0.5 : 0.99);
	}
	return isnan(x) ? -1 : x;
}

static int busiest_first(const void *a, const void *b, void *order)
{
	double x = row_weight(a, *(unsigned int *)order), y = row_weight(b, *(unsigned int *)order);

	return (x < y) - (x > y);
}

static void time_cell(struct cli_tcp_screen *s, const uint64_t *cell, double q)
{
	double x = region_layer_quantile(cell, q);
	char text[16];

	cli_tcp_screen_cell(s, "%s",
			    isnan(x)   ? "-"
			    : isinf(x) ? ">6s"
				       : cli_tcp_short_time(text, (uint64_t)x));
}

static void causes_text(struct cli_layers_view *view, const uint64_t *n)
{
	bool any = false;

	for (int i = 0; i < SL_CAUSES; i++) {
		if (!n[i])
			continue;
		if (!any) {
			cli_tcp_screen_line(&view->screen, "%s", "");
			cli_tcp_screen_line(&view->screen, "not measured, since the start:");
		}
		any = true;
		cli_tcp_screen_line(&view->screen, "%12" PRIu64 "  %s", n[i],
				    region_layer_cause_text(i));
	}
}

static void print_line(struct cli_layers_view *view, const struct region_layer_view *v,
		       double seconds)
{
	uint64_t done = v->count[SL_COUNT_COMPLETE] + v->count[SL_COUNT_INCOMPLETE];
	struct cli_tcp_screen *s = &view->screen;
	char text[160];

	format_title(view, text, sizeof(text), v);
	cli_tcp_screen_cell(s, "%s", text);
	cli_tcp_screen_cell(s, "%s", cli_tcp_role_name(v->role));
	if (v->role == SL_ROLE_SERVER) /* the client side cannot tell requests apart */
		cli_tcp_screen_cell(s, "%.0f", (double)v->count[SL_COUNT_REQUESTS] / seconds);
	else
		cli_tcp_screen_cell(s, "-");
	if (done)
		cli_tcp_screen_cell(s, "%.1f%%",
				    100.0 * (double)v->count[SL_COUNT_COMPLETE] / (double)done);
	else
		cli_tcp_screen_cell(s, "-");
	for (int l = 0; l < SL_LAYERS; l++)
		time_cell(s, v->cell[l], 0.5);
	time_cell(s, v->cell[SL_LAYER_TOTAL], 0.99);
}

/*
 * On a terminal, prints the difference over the interval; elsewhere, prints totals since the
 * command started.
 */
static int draw_screen(struct cli_layers_view *view, const uint64_t *causes, double seconds)
{
	const struct cli_tcp_column columns[] = {
		{groupings[view->by].name, groupings[view->by].width, true, 0},
		{"role", 6, true, 0},
		{"req/s", 6, false, 0},
		{"complete", 8, false, 9},
		{"mac_in", 7, false, 6},
		{"ip_in", 7, false, 4},
		{"tcp_in", 7, false, 0},
		{"app", 7, false, 0},
		{"tcp_out", 7, false, 0},
		{"ip_out", 7, false, 3},
		{"mac_out", 7, false, 5},
		{"total", 7, false, 0},
		{"p99", 7, false, 0},
	};
	struct rows shown = {.v = malloc((view->now.n + 1) * sizeof(*shown.v))};

	if (!shown.v)
		return -ENOMEM;
	for (size_t i = 0; i < view->now.n; i++) {
		struct region_layer_view *v = &shown.v[shown.n];
		const struct region_layer_view *b = find_row(&view->before, &view->now.v[i]);

		*v = view->now.v[i];
		if (b && view->screen.terminal)
			subtract_row(v, b);
		shown.n += has_segments(v);
	}
	qsort_r(shown.v, shown.n, sizeof(*shown.v), busiest_first, &view->screen.order);
	cli_tcp_screen_begin(&view->screen);
	cli_tcp_screen_line(&view->screen, "medians %s; p99 is that of the total",
			    view->screen.terminal ? "of the last interval" : "since the start");
	cli_tcp_screen_columns(&view->screen, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < shown.n; i++)
		print_line(view, &shown.v[i], seconds);
	if (!shown.n && view->screen.terminal)
		cli_tcp_screen_line(&view->screen, "no segment in this interval%s",
				    cli_tcp_is_filtered() ? " that matches the filter" : "");
	view->any |= shown.n > 0;
	causes_text(view, causes);
	cli_tcp_screen_end(&view->screen);
	free(shown.v);
	return 0;
}

static void causes_json(struct cli_layers_view *view, const uint64_t *n)
{
	json_t *o = json_object();

	for (int i = 0; i < SL_CAUSES; i++)
		json_object_set_new(o, region_layer_cause_name(i), json_integer(CLI_INT(n[i])));
	o = json_pack("{s:s, s:I, s:o, s:I}", "row", "causes", "time_ns",
		      CLI_INT(base_realtime_ns()), "causes", o, "unsettled",
		      CLI_INT(view->unsettled));
	cli_json_print(view->out, o, JSON_COMPACT);
}

static int show_layers(void *context, bool last)
{
	struct cli_layers_view *view = context;
	uint64_t causes[SL_CAUSES] = {0}, now = base_now_ns();
	struct rows spare;
	int err;

	(void)last;
	tcp_layers_namespaces(view->layers);
	tcp_layers_groups(view->layers, now);
	err = collect_rows(view) ?: tcp_layers_causes(view->layers, causes);
	if (err)
		return base_failure(view->cmd, "%s", strerror(-err));
	if (cli_tcp_common.json) {
		for (size_t i = 0; i < view->now.n; i++)
			row_json(view, &view->now.v[i]);
		causes_json(view, causes);
	} else if (cli_tcp_common.csv) {
		for (size_t i = 0; i < view->now.n; i++)
			row_csv(view, &view->now.v[i]);
	} else {
		err = draw_screen(view, causes, (double)(now - view->last_ns) / 1e9 + 1e-9);
	}
	view->any |= view->now.n > 0;
	if (view->screen.terminal)
		view->last_ns = now;
	spare = view->before;
	view->before = view->now;
	view->now = spare;
	return err ? base_failure(view->cmd, "%s", strerror(-err)) : cli_tcp_flush(view->out);
}

/* Opens the layers with the common filter. Returns an exit code; prints an error on failure. */
static int open_layers(const struct base_command *self, uint32_t groups, struct tcp_layers **layers)
{
	struct tcp_layers_opts options = {
		.flows = cli_tcp_common.flows,
		.groups = groups,
		.filter = cli_tcp_common.filter,
	};
	char why[256];
	int err;

	if (!cli_tcp_avoid(self, &options.avoid))
		return BASE_EXIT_USAGE;
	err = tcp_layers_open(&options, layers, why, sizeof(why));
	return err ? cli_tcp_not_opened(self, err, why) : BASE_EXIT_OK;
}

int cli_tcp_layers_trace(const struct base_command *self, uint32_t kinds,
			 void (*record)(void *context, const struct tcp_layer_record *r),
			 void *context, struct tcp_layers **layers)
{
	int code = open_layers(self, 0, layers), err;

	if (code)
		return code;
	err = tcp_layers_trace(*layers, kinds, record, context);
	return err ? base_failure(self, "%s", strerror(-err)) : BASE_EXIT_OK;
}

static int layers_main(const struct base_command *self, int argc, char **argv)
{
	struct cli_layers_view view = {.cmd = self, .by = BYS};
	struct tcp_cgroup_hierarchy unified;
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!cli_tcp_format(self, NULL))
		return BASE_EXIT_USAGE;
	for (int i = 0; i < BYS; i++)
		if (!strcmp(settings.by, groupings[i].name))
			view.by = (enum by)i;
	if (view.by == BYS)
		return base_usage(self,
				  "--by '%s' is not one of flow, remote, port, container, role",
				  settings.by);
	if (!cli_tcp_screen_sort(&view.screen, self, cli_tcp_common.sort, orders))
		return BASE_EXIT_USAGE;
	view.out = cli_tcp_output(self);
	if (!view.out)
		return BASE_EXIT_FAILURE;
	/* Sockets belong to cgroups of the unified hierarchy, whatever else is mounted. */
	code = tcp_cgroup_hierarchy(&unified, "unified", NULL, NULL);
	view.who =
		tcp_cgroups_open(&(struct tcp_cgroups_opts){.hierarchy = code ? NULL : &unified});
	code = view.who ? open_layers(self, settings.groups, &view.layers)
			: base_failure(self, "%s", strerror(errno));
	if (!code) {
		view.last_ns = base_now_ns();
		code = cli_tcp_repeat(self, &view.screen, view.out,
				      tcp_layers_slots(view.layers, TCP_LAYER_FLOWS), show_layers,
				      &view);
		if (!code && !view.any)
			cli_tcp_nothing_seen(self);
	}
	tcp_layers_close(view.layers);
	tcp_cgroups_close(view.who);
	free(view.now.v);
	free(view.before.v);
	return cli_tcp_output_end(self, view.out, code);
}

const struct base_command cli_tcp_layers = {
	.name = "tcp layers",
	.synopsis = "[OPTION]...",
	.summary = "Show how long network layers and applications take",
	.run = layers_main,
};
