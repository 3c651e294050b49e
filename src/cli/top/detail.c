// SPDX-License-Identifier: Apache-2.0
/* detail.c - the screen with the details of one service. */
#include <math.h>
#include <string.h>

#include "cli/top/top.h"

/* Prints text, wrapped at spaces. */
static void print_wrapped(struct cli_top *t, const char *head, const char *text)
{
	char safe[1024];
	size_t width = t->screen.columns > 24 ? t->screen.columns - 14 : 66, n;
	const char *at = cli_top_safe(safe, sizeof(safe), text);

	while (*at) {
		n = strlen(at);
		if (n > width) {
			for (n = width; n && at[n] != ' '; n--)
				;
			n = n ?: width;
			while (n < strlen(at) && (at[n] & 0xc0) == 0x80)
				n++;
		}
		cli_tcp_screen_line(&t->screen, "%-12s  %.*s", head, (int)n, at);
		at += n;
		at += *at == ' ';
		head = "";
	}
}

static void print_list(struct cli_top *t, const char *head, const json_t *all)
{
	char text[600] = "", name[CLI_TOP_NAME];
	const json_t *v;
	size_t i;

	json_array_foreach(all, i, v) if (json_is_string(v) && strlen(text) + 100 < sizeof(text))
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%s%s", i ? ", " : "",
			 cli_top_safe(name, sizeof(name), json_string_value(v)));
	print_wrapped(t, head, text);
}

/* Prints the source of a figure: the service's metric, if it has one. */
static void print_source(struct cli_tcp_screen *screen, const json_t *s, const char *object,
			 const char *told)
{
	const json_t *of = cli_top_at(s, object, NULL);
	char name[CLI_TOP_NAME];

	if (of)
		cli_tcp_screen_line(screen, "%-12s  %s, by %s", object, told,
				    cli_top_safe(name, sizeof(name), cli_json_text(of, "metric")));
}

static void print_figures(struct cli_top *t, const json_t *s)
{
	struct cli_tcp_screen *screen = &t->screen;
	char a[16], b[16], c[16], d[16], line[256], told[64];
	double high = cli_top_spark(t, s, line, sizeof(line), 60);

	snprintf(told, sizeof(told), "%s/s, %s/s fail",
		 cli_top_count(a, cli_top_number(s, "requests", "per_second")),
		 cli_top_count(b, cli_top_number(s, "requests", "errors_per_second")));
	print_source(screen, s, "requests", told);
	if (!isnan(high))
		cli_tcp_screen_line(screen, "              %s max %s/s", line,
				    cli_top_count(a, high));
	snprintf(told, sizeof(told), "p50 %s, p99 %s",
		 cli_top_time(a, cli_top_number(s, "latency", "p50_seconds")),
		 cli_top_time(b, cli_top_number(s, "latency", "p99_seconds")));
	print_source(screen, s, "latency", told);
	if (cli_top_at(s, "saturation", NULL))
		cli_tcp_screen_line(
			screen, "saturation    %s cores, %s of memory",
			cli_top_count(a, cli_top_number(s, "saturation", "cpu_cores")),
			cli_top_bytes(b, cli_top_number(s, "saturation", "memory_bytes")));
	if (cli_top_at(s, "connections", NULL))
		cli_tcp_screen_line(
			screen,
			"connections   %lld open, %s B/s, %s retransmissions/s, RTT %s, "
			"least %s",
			cli_json_integer(cli_top_at(s, "connections", NULL), "open"),
			cli_top_bytes(a, cli_top_number(s, "connections", "bytes_per_second")),
			cli_top_count(b,
				      cli_top_number(s, "connections", "retransmits_per_second")),
			cli_top_time(c, cli_top_number(s, "connections", "rtt_seconds")),
			cli_top_time(d, cli_top_number(s, "connections", "rtt_min_seconds")));
	print_wrapped(t, "", cli_json_text(cli_top_at(s, "connections", NULL), "why"));
}

/* Formats the value of a blamed metric. The rate of a counter of seconds is not a time. */
static const char *format_blamed(char out[16], const json_t *blame, const char *key)
{
	const char *metric = cli_json_text(blame, "metric");
	double value = cli_top_number(blame, NULL, key);

	return strstr(metric, "_seconds") && !strstr(metric, "_seconds_count") &&
			       !strstr(metric, "_seconds_total")
		       ? cli_top_time(out, value)
		       : cli_top_count(out, value);
}

static void print_anomaly(struct cli_top *t, const json_t *s)
{
	const json_t *a = cli_top_at(s, "anomaly", NULL), *blame, *b;
	char name[CLI_TOP_NAME], now[16], before[16];
	size_t i;

	if (!a) {
		print_wrapped(t, "attention", cli_json_text(s, "attention_why"));
		return;
	}
	t->screen.style = t->colours ? "1;31" : "1";
	cli_tcp_screen_line(&t->screen, "anomaly       pod %s%s%s",
			    cli_top_safe(name, sizeof(name), cli_json_text(a, "pod")),
			    cli_json_true(a, "culprit") ? ", the most likely cause" : "",
			    json_is_null(json_object_get(a, "end")) ? "" : ", which is over");
	print_wrapped(t, "", cli_json_text(a, "sentence"));
	blame = json_object_get(a, "blame");
	json_array_foreach(blame, i, b) cli_tcp_screen_line(
		&t->screen, "              %s: %s, usually %s (%.0f %% of the evidence)",
		cli_top_safe(name, sizeof(name), cli_json_text(b, "metric")),
		format_blamed(now, b, "value"), format_blamed(before, b, "before"),
		cli_json_number(b, "share") * 100);
}

static void print_edges(struct cli_top *t, const json_t *s)
{
	const json_t *all = json_object_get(t->map, "edges"), *e;
	const char *service = cli_json_text(s, "service"), *space = cli_json_text(s, "namespace");
	char a[16], b[16], name[CLI_TOP_NAME];
	size_t i;

	json_array_foreach(all, i, e)
	{
		bool from = cli_json_is(e, "from", service) &&
			    cli_json_is(e, "from_namespace", space);

		if (!from &&
		    !(cli_json_is(e, "to", service) && cli_json_is(e, "to_namespace", space)))
			continue;
		cli_tcp_screen_line(
			&t->screen, "%-12s  %s: %s/s, RTT %s", from ? "asks" : "asked by",
			cli_top_safe(name, sizeof(name), cli_json_text(e, from ? "to" : "from")),
			cli_top_count(a, cli_top_number(e, NULL, "requests_per_second")),
			cli_top_time(b, cli_top_number(e, NULL, "rtt_seconds")));
	}
}

void cli_top_detail(struct cli_top *t)
{
	const json_t *s = t->selected < t->rows ? t->row[t->selected] : NULL;
	char name[CLI_TOP_NAME], space[CLI_TOP_NAME];

	if (*t->why)
		cli_tcp_screen_line(&t->screen, "trying again: %s", t->why);
	else
		cli_tcp_screen_line(&t->screen, "Enter or Esc: back; up, down: previous or next "
						"service");
	if (!s)
		return;
	cli_top_safe(space, sizeof(space), cli_json_text(s, "namespace"));
	t->screen.style = "1";
	cli_tcp_screen_line(&t->screen, "%s%s%s",
			    cli_top_safe(name, sizeof(name), cli_json_text(s, "service")),
			    *space ? " in " : "", space);
	cli_tcp_screen_line(&t->screen, "pods          %lld of %lld live, %lld died",
			    cli_json_integer(s, "pods_live"), cli_json_integer(s, "pods"),
			    cli_json_integer(s, "pods_dead"));
	print_list(t, "hosts", json_object_get(s, "hosts"));
	print_anomaly(t, s);
	print_figures(t, s);
	print_edges(t, s);
	cli_tcp_screen_line(&t->screen, "series        %lld changing, %lld unchanged",
			    cli_json_integer(s, "changing"), cli_json_integer(s, "unchanged"));
}
