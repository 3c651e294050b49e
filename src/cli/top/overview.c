// SPDX-License-Identifier: Apache-2.0
/* overview.c - the table of services and the plot of the selected service. */
#include <math.h>

#include "cli/top/top.h"

/* lines below the table: the plot, the explanation, and the screen's last line */
#define BELOW 3u

static const struct cli_tcp_column columns[] = {
	{"SERVICE", 15, true, 0}, {"PODS", 5, false, 0}, {"REQ/s", 7, false, 0},
	{"ERR%", 5, false, 0},	  {"P50", 6, false, 5},	 {"P99", 6, false, 0},
	{"CPU", 5, false, 2},	  {"MEM", 5, false, 3},	 {"RTX/s", 5, false, 4},
	{"WHY", 12, true, 0},
};

static const char *style_of(const struct cli_top *t, const json_t *s, bool selected)
{
	double attention = cli_top_number(s, NULL, "attention");

	if (selected && t->screen.keys)
		return attention >= 60 && t->colours ? "7;31" : "7";
	if (attention >= 60)
		return t->colours ? "1;31" : "1";
	return attention >= 25 && t->colours ? "33" : NULL;
}

/* Returns one sentence about the service, preferably about its anomaly. */
static const char *why_of(const json_t *s)
{
	const json_t *sentence = cli_top_at(s, "anomaly", "sentence");

	return json_is_string(sentence) ? json_string_value(sentence)
					: cli_json_text(s, "attention_why");
}

static void print_row(struct cli_top *t, const json_t *s, bool selected)
{
	struct cli_tcp_screen *screen = &t->screen;
	const double ratio = cli_top_number(s, "requests", "error_ratio");
	char text[16], name[CLI_TOP_NAME], why[512];

	cli_tcp_screen_cell(screen, "%s",
			    cli_top_safe(name, sizeof(name), cli_json_text(s, "service")));
	cli_tcp_screen_cell(screen, "%lld/%lld", cli_json_integer(s, "pods_live"),
			    cli_json_integer(s, "pods"));
	cli_tcp_screen_cell(screen, "%s",
			    cli_top_count(text, cli_top_number(s, "requests", "per_second")));
	cli_tcp_screen_cell(screen, "%s", isnan(ratio) ? "-" : cli_top_count(text, ratio * 100));
	cli_tcp_screen_cell(screen, "%s",
			    cli_top_time(text, cli_top_number(s, "latency", "p50_seconds")));
	cli_tcp_screen_cell(screen, "%s",
			    cli_top_time(text, cli_top_number(s, "latency", "p99_seconds")));
	cli_tcp_screen_cell(screen, "%s",
			    cli_top_count(text, cli_top_number(s, "saturation", "cpu_cores")));
	cli_tcp_screen_cell(screen, "%s",
			    cli_top_bytes(text, cli_top_number(s, "saturation", "memory_bytes")));
	cli_tcp_screen_cell(
		screen, "%s",
		cli_top_count(text, cli_top_number(s, "connections", "retransmits_per_second")));
	screen->style = style_of(t, s, selected);
	cli_tcp_screen_cell(screen, "%s", cli_top_safe(why, sizeof(why), why_of(s)));
}

static void print_plot(struct cli_top *t, const json_t *s)
{
	char line[256], most[16], name[CLI_TOP_NAME], why[512];
	double high = cli_top_spark(t, s, line, sizeof(line), 60);

	cli_top_safe(name, sizeof(name), cli_json_text(s, "service"));
	if (isnan(high) && isnan(cli_top_number(s, "requests", "per_second")))
		cli_tcp_screen_line(&t->screen, "%.16s: the request rate is unknown", name);
	else if (isnan(high))
		cli_tcp_screen_line(&t->screen, "%.16s: no history of the request rate", name);
	else
		cli_tcp_screen_line(&t->screen, "%s max %s/s", line, cli_top_count(most, high));
	cli_tcp_screen_line(&t->screen, "%.40s: %s", name,
			    *why_of(s) ? cli_top_safe(why, sizeof(why), why_of(s))
				       : "nothing needs attention");
}

void cli_top_overview(struct cli_top *t)
{
	struct cli_tcp_screen *screen = &t->screen;
	size_t room = SIZE_MAX, first = 0;

	cli_tcp_screen_line(screen,
			    "%s%s  services %zu of %zu, series changing %lld, unchanged %lld",
			    t->at, *t->why ? " (lost)" : "", t->rows,
			    json_array_size(json_object_get(t->services, "services")),
			    cli_json_integer(t->services, "changing"),
			    cli_json_integer(t->services, "unchanged"));
	if (*t->why)
		cli_tcp_screen_line(screen, "trying again: %s", t->why);
	else if (screen->keys)
		cli_tcp_screen_line(screen, "up, down: select; Enter: show details; /: filter");
	cli_tcp_screen_columns(screen, columns, sizeof(columns) / sizeof(*columns));
	if (screen->rows) {
		room = screen->rows > screen->used + BELOW ? screen->rows - screen->used - BELOW
							   : 1;
		first = t->selected >= room ? t->selected - room + 1 : 0;
	}
	for (size_t i = first; i < t->rows && i - first < room; i++)
		print_row(t, t->row[i], i == t->selected);
	if (!t->once && t->selected < t->rows)
		print_plot(t, t->row[t->selected]);
}
