// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "cli/tcp/tcp.h"

/* Every numeric field of a flow; JSON and CSV use the same names in the same order. */
/* clang-format off */
#define NUMBERS_OF_FLOW(X) \
	X(id) X(netns) X(pid) X(cgroup) X(open_ns) X(closed_ns) X(handshake_us) \
	X(bytes_sent) X(bytes_acked) X(bytes_received) X(bytes_retrans) X(read_bytes) \
	X(write_bytes) X(flight) X(rcv_wnd) X(snd_wnd) X(cwnd) X(ssthresh) X(mss) \
	X(queue) X(queue_max) X(wmem) X(srtt_us) X(mdev_us) X(rtt_min_us) X(rto_us) \
	X(rtt_count) X(rtt_sum_us) X(retrans) X(lost) X(fast) X(timeouts) X(re_fast) \
	X(re_rto) X(re_tlp) X(re_syn) X(dsack) X(ooo) X(reorder) X(zero_in) \
	X(zero_out) X(delivered) X(delivered_ce) X(ce_in) X(pacing_kib) X(reads) \
	X(writes) X(segs_out) X(data_segs_out) X(segs_in) X(data_segs_in) X(busy_us) \
	X(rwnd_us) X(sndbuf_us) X(backlog) X(backlog_max) X(drops) X(rcvbuf) \
	X(sndbuf) X(backoff) X(retransmits) X(probes) X(error) X(lost_out) X(retrans_out) \
	X(snd_wnd_max) X(turns) X(held) X(waited_ms) X(thought_ms)
/* clang-format on */

static const struct flows_print_number {
	const char *name;
	size_t offset, bytes;
} numbers[] = {
#define NUMBER(field) \
	{#field, offsetof(struct region_flow, field), sizeof(((struct region_flow *)0)->field)},
	NUMBERS_OF_FLOW(NUMBER)};
#define NUMBERS (sizeof(numbers) / sizeof(*numbers))

static const struct {
	const char *name;
	uint32_t flag;
} flags[] = {
	{"older", SL_FLOW_OLDER},
	{"active", SL_FLOW_ACTIVE},
	{"mapped", SL_FLOW_MAPPED},
	{"listener", SL_FLOW_LISTENER},
	{"reset_in", SL_FLOW_RESET_IN},
	{"reset_out", SL_FLOW_RESET_OUT},
	{"ecn", SL_FLOW_ECN},
	{"unwanted", SL_FLOW_UNWANTED},
	{"unseen", SL_FLOW_UNSEEN},
	{"nodelay", SL_FLOW_NODELAY},
	{"cork", SL_FLOW_CORK},
	{"paced", SL_FLOW_PACED},
	{"user_timeout", SL_FLOW_USER_TIMEOUT},
	{"dropped", SL_FLOW_DROPPED},
	{"bbr", SL_FLOW_BBR},
	{"subflow", SL_FLOW_SUBFLOW},
};
#define FLAGS (sizeof(flags) / sizeof(*flags))

static uint64_t number_value(const struct region_flow *f, const struct flows_print_number *n)
{
	const char *at = (const char *)f + n->offset;

	return n->bytes == 8 ? *(const uint64_t *)at : *(const uint32_t *)at;
}

/*
 * Copies the command name, which a task chooses itself: characters that are special in any output
 * format become '?'.
 */
static const char *safe_comm(const struct region_flow *f, char out[17])
{
	snprintf(out, 17, "%s", f->comm);
	for (char *p = out; *p; p++)
		if (*p < 32 || *p > 126 || *p == '"' || *p == '\\' || *p == ',')
			*p = '?';
	return out;
}

void cli_flow_print_json(FILE *out, const struct region_flow *f, uint64_t time_ns)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], comm[17];
	struct base_json j;

	base_json_stream(&j, out);
	base_json_begin(&j, '{');
	base_put(&j, KV("time_ns", time_ns), KV("local", region_flow_address(f->local, local)),
		 KV("local_port", f->local_port),
		 KV("remote", region_flow_address(f->remote, remote)),
		 KV("remote_port", f->remote_port), KV("family", f->family),
		 KV("state", region_tcp_state_name(f->tcp_state)),
		 KV_BOOL("closed", f->state == SL_STATE_CLOSED),
		 KV("end", region_flow_end_name(region_flow_end(f))),
		 KV("comm", safe_comm(f, comm)),
		 KV("duration_ns", region_flow_duration(f, base_now_ns())));
	base_json_kbegin(&j, "flags", '[');
	for (size_t i = 0; i < FLAGS; i++)
		if (f->flags & flags[i].flag)
			base_json_string(&j, flags[i].name);
	base_json_end(&j, ']');
	base_json_kbegin(&j, "drop_reasons", '{');
	for (size_t i = 0; i < SL_DROPS_PER_FLOW; i++)
		if (f->drop[i].segments)
			base_put(&j, KV(f->drop[i].name, f->drop[i].segments));
	base_json_end(&j, '}');
	base_put(&j, KV_BOOL("by_listener", f->by_listener));
	for (size_t i = 0; i < NUMBERS; i++)
		base_put(&j, KV(numbers[i].name, number_value(f, &numbers[i])));
	base_json_end(&j, '}');
	base_json_line(&j);
}

void cli_flow_print_csv_head(FILE *out)
{
	fputs("time_ns,local,local_port,remote,remote_port,family,state,closed,end,comm,"
	      "duration_ns,"
	      "flags,by_listener",
	      out);
	for (size_t i = 0; i < NUMBERS; i++)
		fprintf(out, ",%s", numbers[i].name);
	fputc('\n', out);
}

void cli_flow_print_csv(FILE *out, const struct region_flow *f, uint64_t time_ns)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], comm[17];

	fprintf(out, "%" PRIu64 ",%s,%u,%s,%u,%u,%s,%d,%s,%s,%" PRIu64 ",", time_ns,
		region_flow_address(f->local, local), f->local_port,
		region_flow_address(f->remote, remote), f->remote_port, f->family,
		region_tcp_state_name(f->tcp_state), f->state == SL_STATE_CLOSED,
		region_flow_end_name(region_flow_end(f)), safe_comm(f, comm),
		region_flow_duration(f, base_now_ns()));
	for (size_t i = 0, n = 0; i < FLAGS; i++)
		if (f->flags & flags[i].flag)
			fprintf(out, "%s%s", n++ ? " " : "", flags[i].name);
	fprintf(out, ",%d", f->by_listener);
	for (size_t i = 0; i < NUMBERS; i++)
		fprintf(out, ",%" PRIu64, number_value(f, &numbers[i]));
	fputc('\n', out);
}

/*
 * Prints the flow lines of MicroBPF's tools in their columns (trace.c prints the other lines):
 *   3 tcpack:  SRC -> DST SEQ ACK STATE (FLAGS) RTT CWND RWND RETRANS FAST TIMEOUTS ACKED RECEIVED
 *              SUM_RTT SAMPLES PACKETS_OUT DURATION INFLIGHT, times in us, DURATION in ns; SRC is
 *              the peer
 *   6 tcpsock: LOCAL PORT REMOTE PORT WRITTEN READ, in KiB; MicroBPF prints no number here
 * MicroBPF prints line 3 per acknowledgement. A snapshot of a flow has no SEQ, ACK or FLAGS.
 */
void cli_flow_print_microbpf(FILE *out, const struct region_flow *f)
{
	char local[INET6_ADDRSTRLEN], remote[INET6_ADDRSTRLEN], from[64], to[64];
	uint64_t data = f->bytes_sent - f->bytes_retrans, acked = f->bytes_acked;

	if (f->flags & SL_FLOW_LISTENER)
		return;
	region_flow_address(f->local, local);
	region_flow_address(f->remote, remote);
	snprintf(from, sizeof(from), "%s:%u", remote, f->remote_port);
	snprintf(to, sizeof(to), "%s:%u", local, f->local_port);
	/* bytes_acked includes our SYN. */
	acked -= f->flags & SL_FLOW_ACTIVE && acked;
	fprintf(out,
		"3 %-20s -> %-20s %-10s %-10s %-12s (%s) %-8u %-8u %-10u %-10u %-10u %-10u %-10" PRIu64
		" %-10" PRIu64 " %-10" PRIu64 " %-10" PRIu64 " %-10u %-20" PRIu64 " %-10" PRIu64
		"\n",
		from, to, "-", "-", region_tcp_state_name(f->tcp_state), "-", f->srtt_us, f->cwnd,
		f->rcv_wnd, f->retrans, f->fast, f->timeouts, f->bytes_acked, f->bytes_received,
		f->rtt_sum_us, f->rtt_count, f->flight, region_flow_duration(f, base_now_ns()),
		f->flight && data > acked ? data - acked : 0);
	fprintf(out, "6 %-14s %-5u %-14s %-5u %-8" PRIu64 "KB %-8" PRIu64 "KB\n", local,
		f->local_port, remote, f->remote_port, f->write_bytes / 1024, f->read_bytes / 1024);
}

void cli_flow_print_closed_head(FILE *out)
{
	fputs("TIME     PID     COMMAND          LOCAL                 REMOTE                "
	      "      SENT   RECEIVED       LIFE END\n",
	      out);
}

/* The columns are those of tcplife(8), but byte counts are exact and the last column is new. */
void cli_flow_print_closed(FILE *out, const struct region_flow *f, uint64_t time_ns)
{
	char local[CLI_TCP_ENDPOINT], remote[CLI_TCP_ENDPOINT], comm[17], life[16], clock[16] = "";
	uint64_t since = base_now_ns() - f->closed_ns;
	time_t ended = (time_t)((time_ns - BASE_MIN(since, time_ns)) / 1000000000);
	struct tm tm;

	if (f->flags & SL_FLOW_LISTENER)
		return;
	if (localtime_r(&ended, &tm))
		strftime(clock, sizeof(clock), "%H:%M:%S", &tm);
	fprintf(out, "%-8s %-7u %-16s %-21s %-21s %10" PRIu64 " %10" PRIu64 " %10s %s\n", clock,
		f->pid, safe_comm(f, comm), cli_tcp_endpoint(local, f->local, f->local_port),
		cli_tcp_endpoint(remote, f->remote, f->remote_port), f->write_bytes, f->read_bytes,
		cli_tcp_short_time(life, region_flow_duration(f, 0)),
		region_flow_end_name(region_flow_end(f)));
}

const char *const cli_flow_orders[] = {"activity", "sent", "received",	  "rtt",
				       "queue",	   "cwnd", "retransmits", NULL};

static uint64_t row_weight(const struct cli_flow_row *r, unsigned int order)
{
	const uint64_t by[] = {r->sent + r->received, r->sent,	    r->received, r->flow.srtt_us,
			       r->flow.queue,	      r->flow.cwnd, r->retrans};

	return by[order];
}

static int heaviest_first(const void *a, const void *b, void *order)
{
	const struct cli_flow_row *x = a, *y = b;
	uint64_t m = row_weight(x, *(unsigned int *)order),
		 n = row_weight(y, *(unsigned int *)order);

	return m != n ? (m < n) - (m > n) : (x->flow.id < y->flow.id) - (x->flow.id > y->flow.id);
}

/* Formats a number with three digits and a binary prefix, such as "12.3M". */
static const char *short_number(char out[16], double n)
{
	static const char prefixes[] = " KMGT";
	int i = 0;

	while (n >= 1000 && i < 4) {
		n /= 1024;
		i++;
	}
	snprintf(out, 16, i && n < 100 ? "%.1f%c" : "%.0f%c", n, prefixes[i]);
	if (!i)
		out[strlen(out) - 1] = 0;
	return out;
}

/* Returns the name of the TCP state, abbreviated as in ss(8) if narrow. */
static const char *state_name(const struct region_flow *f, bool narrow)
{
	static const char *const abbreviated[][2] = {
		{"ESTABLISHED", "ESTAB"}, {"FIN_WAIT1", "FIN-W1"}, {"FIN_WAIT2", "FIN-W2"},
		{"CLOSE_WAIT", "CLOS-W"}, {"LAST_ACK", "L-ACK"},   {"CLOSING", "CLOSNG"},
	};
	const char *name = f->state == SL_STATE_CLOSED ? "closed"
						       : region_tcp_state_name(f->tcp_state);

	for (size_t i = 0; narrow && i < sizeof(abbreviated) / sizeof(*abbreviated); i++)
		if (!strcmp(name, abbreviated[i][0]))
			return abbreviated[i][1];
	return name;
}

/* Returns the width of the longest address, limited by the width of the terminal. */
static uint8_t address_width(const struct cli_tcp_screen *s, const struct cli_flow_row *rows,
			     size_t count)
{
	/* The other columns take 48 characters, or 70 if all are shown. */
	size_t rest = s->columns < 112 ? 48 : 70, most = 21;
	size_t room = s->columns > rest + 32 ? (s->columns - rest) / 2 : 16;
	char end[CLI_TCP_ENDPOINT];

	for (size_t i = 0; i < count; i++) {
		const struct region_flow *f = &rows[i].flow;

		most = BASE_MAX(most, strlen(cli_tcp_endpoint(end, f->local, f->local_port)));
		most = BASE_MAX(most, strlen(cli_tcp_endpoint(end, f->remote, f->remote_port)));
	}
	return (uint8_t)(s->columns && most > room ? room : most);
}

static void rate_cell(struct cli_tcp_screen *s, const struct cli_flow_row *row, double n)
{
	char text[16];

	cli_tcp_screen_cell(s, "%s", row->first ? "-" : short_number(text, n));
}

void cli_flow_print_screen(struct cli_tcp_screen *s, struct cli_flow_row *rows, size_t count,
			   const struct region_flows_hot *hot, uint64_t ns)
{
	char end[CLI_TCP_ENDPOINT], text[17];
	struct cli_tcp_column columns[] = {
		{"LOCAL", 0, true, 0},	  {"REMOTE", 0, true, 0},  {"STATE", 6, true, 0},
		{"SENT/s", 6, false, 0},  {"RECV/s", 6, false, 0}, {"RTT", 6, false, 0},
		{"RETR", 5, false, 2},	  {"QUEUE", 6, false, 3},  {"CWND", 5, false, 4},
		{"COMMAND", 12, true, 1},
	};
	double seconds = (double)ns / 1e9;
	bool narrow;

	qsort_r(rows, count, sizeof(*rows), heaviest_first, &s->order);
	cli_tcp_screen_begin(s);
	narrow = s->columns && s->columns < 100;
	columns[0].width = columns[1].width = address_width(s, rows, count);
	columns[2].width = narrow ? 6 : 11;
	cli_tcp_screen_line(s, "%u open, %u recently closed, %" PRIu64 " refused%s; rates in bytes",
			    hot->open, hot->quarantined, hot->refused,
			    hot->refused ? " (table full: raise --flows)" : "");
	cli_tcp_screen_columns(s, columns, sizeof(columns) / sizeof(*columns));
	for (size_t i = 0; i < count; i++) {
		const struct region_flow *f = &rows[i].flow;

		cli_tcp_screen_cell(s, "%s", cli_tcp_endpoint(end, f->local, f->local_port));
		cli_tcp_screen_cell(s, "%s", cli_tcp_endpoint(end, f->remote, f->remote_port));
		cli_tcp_screen_cell(s, "%s", state_name(f, narrow));
		rate_cell(s, &rows[i], (double)rows[i].sent / seconds);
		rate_cell(s, &rows[i], (double)rows[i].received / seconds);
		cli_tcp_screen_cell(s, "%s",
				    f->flags & SL_FLOW_LISTENER
					    ? "-"
					    : cli_tcp_short_time(text, f->srtt_us * 1000ull));
		cli_tcp_screen_cell(s, rows[i].first ? "-" : "%u", rows[i].retrans);
		cli_tcp_screen_cell(s, "%s", short_number(text, f->queue));
		cli_tcp_screen_cell(s, "%u", f->cwnd);
		cli_tcp_screen_cell(s, "%s", safe_comm(f, text));
	}
	if (!count && s->terminal)
		cli_tcp_screen_line(s, cli_tcp_is_filtered() ? "no connection matches the filter"
							     : "no connection yet");
	cli_tcp_screen_end(s);
}
