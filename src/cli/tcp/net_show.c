// SPDX-License-Identifier: Apache-2.0
/* net_show.c - prints the latencies and unmatched records of 'sidelight tcp net'. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "cli/tcp/net.h"

const char *const cli_tcp_net_by[] = {"all", "flow", "remote", "port", NULL};

/* Formats the flow or group that a line describes. */
static void format_title(char *out, size_t bytes, const struct tcp_net_row *r)
{
	bool ports = cli_tcp_net_settings.stat.by == TCP_NET_BY_FLOW;
	char a[CLI_TCP_ENDPOINT], b[CLI_TCP_ENDPOINT];

	if (r->rest) {
		snprintf(out, bytes, "(no room)");
		return;
	}
	switch (cli_tcp_net_settings.stat.by) {
	case TCP_NET_BY_FLOW:
	case TCP_NET_BY_REMOTE:
		snprintf(out, bytes, "%s %s",
			 cli_tcp_endpoint(a, r->address[0], ports ? r->port[0] : -1),
			 cli_tcp_endpoint(b, r->address[1], ports ? r->port[1] : -1));
		return;
	case TCP_NET_BY_PORT:
		snprintf(out, bytes, "%u", r->port[0]);
		return;
	default:
		snprintf(out, bytes, "all");
	}
}

/* JSON */

static void print_object(const struct cli_tcp_net_view *view, json_t *o)
{
	cli_json_print(view->out, o, JSON_COMPACT | JSON_REAL_PRECISION(9));
}

static json_t *hist_json(const struct tcp_net_hist *h)
{
	json_t *buckets = json_object();
	char key[16];

	for (int i = 0; i < TCP_NET_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		snprintf(key, sizeof(key), "%d", TCP_NET_FIRST + i);
		json_object_set_new(buckets, key, json_integer(h->bucket[i]));
	}
	/* Quantiles of an empty histogram are NAN, for which json_real() returns NULL. */
	return json_pack("{s:I, s:I, s:I, s:i, s:o*, s:o*, s:o*, s:o*, s:o*, s:o*, s:o}", "count",
			 CLI_INT(h->count), "negative", CLI_INT(h->negative), "sum_ns",
			 CLI_INT(h->sum), "scale", TCP_NET_SCALE, "min_ns",
			 h->count ? json_integer(h->least) : NULL, "max_ns",
			 h->count ? json_integer(h->most) : NULL, "p50_ns",
			 json_real(tcp_net_hist_quantile(h, 0.5)), "p90_ns",
			 json_real(tcp_net_hist_quantile(h, 0.9)), "p99_ns",
			 json_real(tcp_net_hist_quantile(h, 0.99)), "p999_ns",
			 json_real(tcp_net_hist_quantile(h, 0.999)), "buckets", buckets);
}

static json_t *way_json(const struct tcp_net_row *r, int way)
{
	json_t *o = hist_json(&r->way[way]);
	uint64_t n = r->way[way].count;

	json_object_update_new(o, json_pack("{s:I, s:I, s:I}", "bound_mean_ns",
					    CLI_INT(n ? r->bound_sum[way] / n : 0), "bound_max_ns",
					    CLI_INT(r->bound_most[way]), "reordered",
					    CLI_INT(r->reordered[way])));
	return o;
}

static void row_json(struct cli_tcp_net_view *view, const struct tcp_net_row *r)
{
	enum tcp_net_by by = cli_tcp_net_settings.stat.by;
	bool ports = !r->rest && by == TCP_NET_BY_FLOW;
	bool ends = ports || (!r->rest && by == TCP_NET_BY_REMOTE);
	char text[160], a[CLI_TCP_ENDPOINT], b[CLI_TCP_ENDPOINT];

	format_title(text, sizeof(text), r);
	print_object(view,
		     json_pack("{s:s, s:I, s:s, s:o, s:o, s:o, s:s*, s:s*, s:o*, s:o*}", "row",
			       cli_tcp_net_by[by], "time_ns", CLI_INT(base_realtime_ns()), "name",
			       text, "there", way_json(r, 0), "back", way_json(r, 1), "round",
			       hist_json(&r->round), "a",
			       ends ? cli_tcp_endpoint(a, r->address[0], -1) : NULL, "b",
			       ends ? cli_tcp_endpoint(b, r->address[1], -1) : NULL, "a_port",
			       ports ? json_integer(r->port[0]) : NULL, "b_port",
			       ports ? json_integer(r->port[1]) : NULL));
}

static void totals_json(const struct cli_tcp_net_view *view, const struct tcp_net_totals *t)
{
	json_t *causes = json_object(), *clock, *o;

	for (int i = 0; i < TCP_NET_CAUSES; i++)
		json_object_set_new(causes, tcp_net_cause_name(i),
				    json_integer(CLI_INT(t->causes[i])));
	clock = json_pack("{s:b, s:I, s:I, s:I}", "known", t->known, "windows", CLI_INT(t->windows),
			  "stepped", CLI_INT(t->stepped), "one_way", CLI_INT(t->one_way));
	if (t->known)
		json_object_update_new(
			clock, json_pack("{s:I, s:I, s:f, s:f}", "offset_ns", CLI_INT(t->theta),
					 "bound_ns", CLI_INT(t->bound), "skew_low_ppm",
					 t->skew_low * 1e6, "skew_high_ppm", t->skew_high * 1e6));
	o = json_pack("{s:s, s:I, s:[I,I], s:[I,I], s:I, s:o, s:o, s:I, s:I, s:I, s:b}", "row",
		      "totals", "time_ns", CLI_INT(base_realtime_ns()), "sent", CLI_INT(t->sent[0]),
		      CLI_INT(t->sent[1]), "matched", CLI_INT(t->matched[0]),
		      CLI_INT(t->matched[1]), "acks", CLI_INT(t->acks), "causes", causes, "clock",
		      clock, "headless", CLI_INT(view->headless), "fragments",
		      CLI_INT(view->fragments), "left_out", CLI_INT(view->left_out), "cut",
		      view->cut);
	cli_tcp_json_text(o, "host_a", view->name[0]);
	cli_tcp_json_text(o, "host_b", view->name[1]);
	print_object(view, o);
}

void cli_tcp_net_segment(void *context, const struct tcp_net_result *r)
{
	const struct cli_tcp_net_view *view = context;
	const struct tcp_net_sample *s = r->sample;
	char from[CLI_TCP_ENDPOINT], to[CLI_TCP_ENDPOINT];
	bool json = cli_tcp_common.json;

	cli_tcp_endpoint(from, s->flow->source, json ? -1 : s->flow->source_port);
	cli_tcp_endpoint(to, s->flow->destination, json ? -1 : s->flow->destination_port);
	if (json) {
		print_object(
			view,
			json_pack(
				"{s:s, s:s, s:s, s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:I, s:b}",
				"row", "segment", "way", r->way ? "back" : "there", "from", from,
				"from_port", s->flow->source_port, "to", to, "to_port",
				s->flow->destination_port, "seq", CLI_INT((uint32_t)s->seq),
				"bytes", CLI_INT(s->bytes), "out_ns", CLI_INT(s->out_ns), "in_ns",
				CLI_INT(s->in_ns), "latency_ns", CLI_INT(r->latency_ns), "bound_ns",
				CLI_INT(r->bound_ns), "reordered", s->reordered));
		return;
	}
	if (cli_tcp_common.csv)
		fprintf(view->out,
			"segment,%s,%s,%u,%u,%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64 "\n",
			from, to, (uint32_t)s->seq, s->bytes, s->out_ns, s->in_ns, r->latency_ns,
			r->bound_ns);
	else
		fprintf(view->out, "%-22s %-22s %10u %6u %12.3f us +- %.3f\n", from, to,
			(uint32_t)s->seq, s->bytes, (double)r->latency_ns / 1000,
			(double)r->bound_ns / 1000);
}

/* CSV */

static void hist_csv(FILE *out, const struct tcp_net_hist *h)
{
	fprintf(out, ",%" PRIu64 ",%" PRIu64, h->count, h->negative);
	if (h->count)
		fprintf(out, ",%" PRId64 ",%.0f,%.0f,%" PRId64, h->least,
			tcp_net_hist_quantile(h, 0.5), tcp_net_hist_quantile(h, 0.99), h->most);
	else
		fputs(",,,,", out);
}

static void row_csv(struct cli_tcp_net_view *view, const struct tcp_net_row *r)
{
	static const char *const parts[] = {"there", "back", "round"};
	char text[160];

	if (cli_tcp_first()) {
		fprintf(view->out, "row,%s", cli_tcp_net_by[cli_tcp_net_settings.stat.by]);
		for (int i = 0; i < 3; i++)
			fprintf(view->out,
				",%s_count,%s_negative,%s_min_ns,%s_p50_ns,%s_p99_ns,%s_max_ns",
				parts[i], parts[i], parts[i], parts[i], parts[i], parts[i]);
		fputs(",there_bound_max_ns,back_bound_max_ns\n", view->out);
	}
	format_title(text, sizeof(text), r);
	fputs("row,", view->out);
	cli_tcp_csv_text(view->out, text);
	hist_csv(view->out, &r->way[0]);
	hist_csv(view->out, &r->way[1]);
	hist_csv(view->out, &r->round);
	fprintf(view->out, ",%" PRIu64 ",%" PRIu64 "\n", r->bound_most[0], r->bound_most[1]);
}

/* Text */

static const char *signed_time(char out[20], double ns)
{
	char plain[16];

	if (isnan(ns))
		return "-";
	cli_tcp_short_time(plain, (uint64_t)llround(fabs(ns)));
	snprintf(out, 20, "%s%s", ns <= -0.5 ? "-" : "", plain);
	return out;
}

static void print_line(struct cli_tcp_net_view *view, const char *name, const char *what,
		       const struct tcp_net_hist *h, const char *bound)
{
	char v[5][20];

	cli_tcp_screen_line(
		&view->screen, "%-40s %-8s %9" PRIu64 " %9s %9s %9s %9s %9s %10s %8" PRIu64, name,
		what, h->count, signed_time(v[0], h->count ? (double)h->least : NAN),
		signed_time(v[1], tcp_net_hist_quantile(h, 0.5)),
		signed_time(v[2], tcp_net_hist_quantile(h, 0.9)),
		signed_time(v[3], tcp_net_hist_quantile(h, 0.99)),
		signed_time(v[4], h->count ? (double)h->most : NAN), bound, h->negative);
}

static void row_text(struct cli_tcp_net_view *view, const struct tcp_net_row *r)
{
	char name[160], bound[20];

	format_title(name, sizeof(name), r);
	for (int w = 0; w < 2; w++)
		print_line(view, w ? "" : name, w ? "back" : "there", &r->way[w],
			   signed_time(bound, r->way[w].count ? (double)r->bound_most[w] : NAN));
	print_line(view, "", "both", &r->round, "none");
}

static void totals_text(struct cli_tcp_net_view *view, const struct tcp_net_totals *t)
{
	struct cli_tcp_screen *s = &view->screen;
	char offset[20], bound[20], name[2][64];
	const struct {
		uint64_t n;
		const char *what;
	} others[] = {
		{view->headless, "packets whose header could not be read"},
		{view->fragments, "fragments"},
		{view->left_out, "calls skipped by the kernel: these segments have no record"}};
	bool any = view->headless || view->fragments || view->left_out;

	cli_tcp_safe(name[0], sizeof(name[0]), view->name[0]);
	cli_tcp_safe(name[1], sizeof(name[1]), view->name[1]);
	cli_tcp_screen_line(s, "%s", "");
	cli_tcp_screen_line(s,
			    "there: A (%s) to B (%s). matched %" PRIu64 " of %" PRIu64
			    " sent there, %" PRIu64 " of %" PRIu64 " back",
			    name[0], name[1], t->matched[0], t->sent[0], t->matched[1], t->sent[1]);
	if (cli_tcp_net_settings.trust) {
		cli_tcp_screen_line(s, "clocks: trusted within %s", cli_tcp_net_settings.trust);
	} else if (t->known) {
		cli_tcp_screen_line(
			s,
			"clocks: B is ahead of A by %s, give or take %s, and gains %.2f to "
			"%.2f ppm",
			signed_time(offset, (double)t->theta), signed_time(bound, (double)t->bound),
			t->skew_low * 1e6, t->skew_high * 1e6);
	} else {
		cli_tcp_screen_line(s, "clocks: unknown: %s",
				    t->windows ? "packets in one direction only, or a clock was set"
					       : "nothing was matched");
	}
	if (t->stepped || t->one_way)
		cli_tcp_screen_line(s,
				    "clocks: a clock was set, suspended or too fast %" PRIu64 " "
				    "times; packets in only one direction in %" PRIu64
				    " of %" PRIu64 " windows",
				    t->stepped, t->one_way, t->windows);
	for (int i = 0; i < TCP_NET_CAUSES; i++)
		any |= t->causes[i] != 0;
	if (any)
		cli_tcp_screen_line(s, "not timed:");
	for (int i = 0; i < TCP_NET_CAUSES; i++)
		if (t->causes[i])
			cli_tcp_screen_line(s, "%12" PRIu64 "  %s", t->causes[i],
					    tcp_net_cause_text(i));
	for (int i = 0; i < 3; i++)
		if (others[i].n)
			cli_tcp_screen_line(s, "%12" PRIu64 "  %s", others[i].n, others[i].what);
	if (view->cut)
		cli_tcp_screen_line(s, "one of the files is truncated, probably because its "
				       "recorder was killed");
}

void cli_tcp_net_show(struct cli_tcp_net_view *view)
{
	void (*print_row)(struct cli_tcp_net_view *,
			  const struct tcp_net_row *) = cli_tcp_common.json  ? row_json
							: cli_tcp_common.csv ? row_csv
									     : row_text;
	struct tcp_net_totals t;

	tcp_net_stat_totals(view->stat, &t);
	if (!cli_tcp_common.json && !cli_tcp_common.csv) {
		cli_tcp_screen_begin(&view->screen);
		cli_tcp_screen_line(&view->screen, "%-40s %-8s %9s %9s %9s %9s %9s %9s %10s %8s",
				    cli_tcp_net_by[cli_tcp_net_settings.stat.by], "way", "segments",
				    "min", "p50", "p90", "p99", "max", "+- at most", "negative");
	}
	for (uint32_t i = 0; i < tcp_net_stat_rows(view->stat); i++)
		print_row(view, tcp_net_stat_row(view->stat, i));
	if (cli_tcp_common.json) {
		totals_json(view, &t);
	} else if (cli_tcp_common.csv) {
		for (int i = 0; i < TCP_NET_CAUSES; i++)
			fprintf(view->out, "cause,%s,%" PRIu64 "\n", tcp_net_cause_name(i),
				t.causes[i]);
	} else {
		totals_text(view, &t);
		cli_tcp_screen_end(&view->screen);
	}
}

/* Round trips */

static void round_json(const struct cli_tcp_net_view *view, const struct tcp_net_round *r)
{
	const struct tcp_layer_record *q = r->request;
	char client[CLI_TCP_ENDPOINT], server[CLI_TCP_ENDPOINT];
	json_t *o;

	o = json_pack("{s:s, s:s, s:s, s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:I, s:b}", "row",
		      "request", "client_host", r->client ? "b" : "a", "client",
		      cli_tcp_endpoint(client, q->key.remote, -1), "client_port",
		      q->key.remote_port, "server", cli_tcp_endpoint(server, q->key.local, -1),
		      "server_port", q->key.local_port, "seq", CLI_INT(q->seq), "length",
		      CLI_INT(q->length), "response_seq", CLI_INT(q->response_seq), "wires_ns",
		      CLI_INT(r->wires), "bound_ns", CLI_INT(r->bound), "pipelined", q->pipelined);
	if (r->total >= 0)
		json_object_set_new(o, "total_ns", json_integer(r->total));
	for (int i = 0; i < TCP_NET_PARTS; i++)
		if (r->part[i] != TCP_NET_PART_NONE)
			json_object_set_new(o, tcp_net_part_name(i), json_integer(r->part[i]));
	print_object(view, o);
}

static void round_csv(const struct cli_tcp_net_view *view, const struct tcp_net_round *r)
{
	const struct tcp_layer_record *q = r->request;
	char client[CLI_TCP_ENDPOINT], server[CLI_TCP_ENDPOINT];

	fprintf(view->out, "request,%s,%s,%u,%u,%u",
		cli_tcp_endpoint(client, q->key.remote, q->key.remote_port),
		cli_tcp_endpoint(server, q->key.local, q->key.local_port), q->seq, q->length,
		q->response_seq);
	for (int i = 0; i < TCP_NET_PARTS; i++) {
		fputc(',', view->out);
		if (r->part[i] != TCP_NET_PART_NONE)
			fprintf(view->out, "%" PRId64, r->part[i]);
	}
	fprintf(view->out, ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", r->wires, r->bound, r->total);
}

static void rounds_text(struct cli_tcp_net_view *view, const struct tcp_net_rounds *rounds)
{
	struct tcp_net_hist *h = calloc(TCP_NET_PARTS + 2, sizeof(*h));

	if (!h)
		return;
	for (size_t i = 0; i < rounds->n; i++) {
		const struct tcp_net_round *r = &rounds->v[i];

		for (int p = 0; p < TCP_NET_PARTS; p++)
			if (r->part[p] != TCP_NET_PART_NONE)
				tcp_net_hist_add(&h[p], r->part[p]);
		tcp_net_hist_add(&h[TCP_NET_PARTS], r->wires);
		if (r->total >= 0)
			tcp_net_hist_add(&h[TCP_NET_PARTS + 1], r->total);
	}
	cli_tcp_screen_line(&view->screen, "%s", "");
	cli_tcp_screen_line(&view->screen, "%-40s %-8s %9s %9s %9s %9s %9s %9s %10s %8s",
			    "requests, from call to copy", "", "requests", "min", "p50", "p90",
			    "p99", "max", "", "negative");
	for (int p = 0; p < TCP_NET_PARTS; p++)
		print_line(view, tcp_net_part_name(p), "", &h[p], "");
	print_line(view, "both wires", "", &h[TCP_NET_PARTS], "none");
	print_line(view, "total", "", &h[TCP_NET_PARTS + 1], "none");
	cli_tcp_screen_line(&view->screen,
			    "not combined: %" PRIu64 " incomplete at the server, %" PRIu64
			    " without the client's request, %" PRIu64
			    " without its response, %" PRIu64 " refused",
			    rounds->incomplete, rounds->no_request, rounds->no_response,
			    rounds->refused);
	cli_tcp_screen_end(&view->screen);
	free(h);
}

void cli_tcp_net_rounds(struct cli_tcp_net_view *view, const struct tcp_net_rounds *rounds)
{
	if (!cli_tcp_common.json && !cli_tcp_common.csv) {
		rounds_text(view, rounds);
		return;
	}
	for (size_t i = 0; i < rounds->n; i++)
		if (cli_tcp_common.json)
			round_json(view, &rounds->v[i]);
		else
			round_csv(view, &rounds->v[i]);
	if (cli_tcp_common.json)
		print_object(view, json_pack("{s:s, s:I, s:I, s:I, s:I, s:I}", "row", "requests",
					     "complete", CLI_INT(rounds->n), "incomplete",
					     CLI_INT(rounds->incomplete), "no_request",
					     CLI_INT(rounds->no_request), "no_response",
					     CLI_INT(rounds->no_response), "refused",
					     CLI_INT(rounds->refused)));
}
