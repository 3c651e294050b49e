// SPDX-License-Identifier: Apache-2.0
/*
 * trace.c - 'sidelight tcp trace': prints one line per request or segment, with the time per layer.
 */
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "cli/tcp/tcp.h"

static struct {
	const char *format;
	bool segments;
} settings = {.format = "text"};

static const struct base_option table[] = {
	CLI_TCP_OPTIONS_FORMAT,
	CLI_TCP_OPTION_DURATION,
	CLI_TCP_OPTION_OUTPUT,
	BASE_STRING("format", 'f', &settings.format, "FORMAT",
		    "text, or microbpf: the lines of MicroBPF's tools"),
	BASE_FLAG("segments", 's', &settings.segments, "print data segments as well"),
	CLI_TCP_OPTIONS_FILTER,
	CLI_TCP_OPTION_AVOID,
	{0},
};

struct cli_trace {
	FILE *out;
	uint64_t records;
	/* CLOCK_REALTIME - CLOCK_MONOTONIC, which changes if the clock is set or the host sleeps */
	uint64_t epoch_ns;
	/* endpoints of the current record */
	char local[CLI_TCP_ENDPOINT], remote[CLI_TCP_ENDPOINT];
	int64_t ns[SL_LAYERS]; /* time per layer of the current record; -1 means not measured */
};

static void split_time(const struct tcp_layer_record *r, int64_t ns[SL_LAYERS])
{
	const uint64_t at[] = {r->nic_in, r->ip_in,  r->tcp_in, r->copied,
			       r->sent,	  r->ip_out, r->queued, r->nic_out};

	for (int i = 0; i < SL_LAYER_TOTAL; i++)
		ns[i] = at[i] && at[i + 1] >= at[i] ? (int64_t)(at[i + 1] - at[i]) : -1;
	ns[SL_LAYER_TOTAL] = at[0] && at[7] >= at[0] ? (int64_t)(at[7] - at[0]) : -1;
}

static const char *const kinds[] = {"request", "in", "out"};

/* Returns the end time of the record by CLOCK_REALTIME. */
static uint64_t time_of(const struct cli_trace *t, const struct tcp_layer_record *r)
{
	return (r->kind == TCP_RECORD_IN ? r->copied : r->nic_out) + t->epoch_ns;
}

static void print_json(const struct cli_trace *t, const struct tcp_layer_record *r)
{
	json_t *o = json_pack(
		"{s:s, s:I, s:s, s:s, s:i, s:s, s:i, s:I, s:I, s:I, s:I, s:b, s:I, s:I}", "record",
		kinds[r->kind], "time_ns", CLI_INT(time_of(t, r)), "role",
		cli_tcp_role_name(r->role), "local", t->local, "local_port", r->key.local_port,
		"remote", t->remote, "remote_port", r->key.remote_port, "seq", CLI_INT(r->seq),
		"length", CLI_INT(r->length),
		r->kind == TCP_RECORD_REQUEST ? "response_seq" : "ack", CLI_INT(r->response_seq),
		"end_seq", CLI_INT((uint32_t)(r->seq + r->length)), "pipelined", r->pipelined,
		"cgroup", CLI_INT(r->key.cgroup), "netns", CLI_INT(r->key.netns));

	for (int i = 0; i < SL_LAYERS; i++)
		if (t->ns[i] >= 0)
			json_object_set_new(o, region_layer_name(i), json_integer(t->ns[i]));
	cli_json_print(t->out, o, JSON_COMPACT);
}

static void print_csv(const struct cli_trace *t, const struct tcp_layer_record *r)
{
	fprintf(t->out, "%s,%" PRIu64 ",%s,%s,%s,%u,%u,%u,%d", kinds[r->kind], time_of(t, r),
		cli_tcp_role_name(r->role), t->local, t->remote, r->seq, r->length, r->response_seq,
		r->pipelined);
	for (int i = 0; i < SL_LAYERS; i++) {
		fputc(',', t->out);
		if (t->ns[i] >= 0)
			fprintf(t->out, "%" PRId64, t->ns[i]);
	}
	fputc('\n', t->out);
}

/* Prints microseconds, or MicroBPF's placeholder for a missing time. */
static void print_us(FILE *out, int64_t ns, const char *end)
{
	if (ns < 0)
		fprintf(out, "%-10s%s", "-", end);
	else
		fprintf(out, "%-10" PRId64 "%s", ns / 1000, end);
}

/*
 * Prints the lines of MicroBPF's tools: number of the tool, addresses, sequence number,
 * acknowledgement, times in us. MicroBPF gives both app and tcp the number 5; here, app has the
 * number 4 to distinguish them.
 *   1 tcpout: SRC -> NAT -> DST SEQ ACK ABS TOTAL QDISC IP TCP
 *   2 tcpin:  SRC -> DST SEQ ACK ABS TOTAL MAC IP TCP
 *   4 app:    SRC -> DST SEQ ACK APP
 *   5 tcp:    SRC -> DST SEQ ACK TOTAL MAC_IN IP_IN TCP_IN APP TCP_OUT IP_OUT MAC_OUT
 * Lines 3 (tcpack) and 6 (tcpsock) are flow statistics; flows_print.c prints them.
 */
static void print_microbpf(const struct cli_trace *t, const struct tcp_layer_record *r)
{
	const char *local = t->local, *remote = t->remote;
	const int64_t *ns = t->ns;
	int64_t total;
	FILE *out = t->out;

	switch (r->kind) {
	case TCP_RECORD_OUT:
		total = r->sent ? (int64_t)(r->nic_out - r->sent) : -1;
		fprintf(out, "1 %-20s -> %-20s -> %-20s %-12u %-12u %-20.6f ", local, local, remote,
			r->seq, r->response_seq, (double)(r->nic_out + t->epoch_ns) / 1e9);
		print_us(out, total, " ");
		print_us(out, ns[SL_LAYER_MAC_OUT], " ");
		print_us(out, ns[SL_LAYER_IP_OUT], " ");
		print_us(out, ns[SL_LAYER_TCP_OUT], "\n");
		break;
	case TCP_RECORD_IN:
		total = r->nic_in ? (int64_t)(r->copied - r->nic_in) : -1;
		fprintf(out, "2 %-20s -> %-20s %-12u %-12u %-20.6f ", remote, local, r->seq,
			r->response_seq, (double)(r->nic_in + t->epoch_ns) / 1e9);
		print_us(out, total, " ");
		print_us(out, ns[SL_LAYER_MAC_IN], " ");
		print_us(out, ns[SL_LAYER_IP_IN], " ");
		print_us(out, ns[SL_LAYER_TCP_IN], "\n");
		break;
	default:
		fprintf(out, "4 %-20s -> %-20s %-12u %-12u ", remote, local, r->seq + r->length,
			r->response_seq);
		print_us(out, ns[SL_LAYER_APP], "\n");
		fprintf(out, "5 %-20s -> %-20s %-12u %-12u ", local, remote, r->response_seq,
			r->seq + r->length);
		print_us(out, ns[SL_LAYER_TOTAL], " ");
		for (int i = 0; i < SL_LAYER_TOTAL; i++)
			print_us(out, ns[i], i + 1 < SL_LAYER_TOTAL ? " " : "\n");
	}
}

static void print_text(const struct cli_trace *t, const struct tcp_layer_record *r)
{
	fprintf(t->out, "%-8s %-22s %-22s %10u %6u", kinds[r->kind], t->local, t->remote, r->seq,
		r->length);
	for (int i = 0; i < SL_LAYERS; i++) {
		if (t->ns[i] < 0)
			fprintf(t->out, " %9s", "-");
		else
			fprintf(t->out, " %9.2f", (double)t->ns[i] / 1000);
	}
	fputs(r->pipelined ? " pipelined\n" : "\n", t->out);
}

static void print_record(void *context, const struct tcp_layer_record *r)
{
	struct cli_trace *t = context;

	if (r->kind > TCP_RECORD_OUT)
		return;
	split_time(r, t->ns);
	cli_tcp_endpoint(t->local, r->key.local, cli_tcp_common.json ? -1 : r->key.local_port);
	cli_tcp_endpoint(t->remote, r->key.remote, cli_tcp_common.json ? -1 : r->key.remote_port);
	t->records++;
	if (cli_tcp_common.microbpf)
		print_microbpf(t, r);
	else if (cli_tcp_common.json)
		print_json(t, r);
	else if (cli_tcp_common.csv)
		print_csv(t, r);
	else
		print_text(t, r);
}

/* Prints the header. All records after it are complete. */
static void print_head(const struct cli_trace *t)
{
	if (cli_tcp_common.microbpf) {
		fputs("5 SADDR:SPORT -> DADDR:DPORT SEQ ACK TOTAL MAC_IN IP_IN TCP_IN APP TCP_OUT "
		      "IP_OUT MAC_OUT\n",
		      t->out);
	} else if (cli_tcp_common.json) {
		fprintf(t->out, "{\"record\":\"start\",\"time_ns\":%" PRIu64 "}\n",
			base_realtime_ns());
	} else if (cli_tcp_common.csv) {
		fputs("record,time_ns,role,local,remote,seq,length,response_seq,pipelined", t->out);
		for (int i = 0; i < SL_LAYERS; i++)
			fprintf(t->out, ",%s_ns", region_layer_name(i));
		fputc('\n', t->out);
	} else {
		fprintf(t->out, "%-8s %-22s %-22s %10s %6s", "record", "local", "remote", "seq",
			"length");
		for (int i = 0; i < SL_LAYERS; i++)
			fprintf(t->out, " %9s", region_layer_name(i));
		fputs("  (us)\n", t->out);
	}
	cli_tcp_flush(t->out);
}

static int follow_records(const struct base_command *self, struct tcp_layers *layers,
			  struct cli_trace *t)
{
	uint64_t end = cli_tcp_end_ns(), walk = 0, causes[SL_CAUSES];
	int stop = base_stop_fd(), n = 0;

	if (stop < 0)
		return base_failure(self, "%s", strerror(-stop));
	while (!base_stop_wait(stop, 0) && base_now_ns() < end) {
		if (base_now_ns() >= walk) {
			tcp_layers_namespaces(layers);
			t->epoch_ns = base_realtime_ns() - base_now_ns();
			walk = base_now_ns() + 1000000000;
		}
		n = tcp_layers_poll(layers, 50);
		if (n < 0 || cli_tcp_flush(t->out))
			break; /* a flush fails when the reader has exited */
	}
	close(stop);
	if (n < 0)
		return base_failure(self, "%s", strerror(-n));
	tcp_layers_poll(layers, 0);
	if (!t->records)
		base_failure(self, "no request%s was seen%s",
			     settings.segments ? " and no segment" : "",
			     cli_tcp_is_filtered() ? " that matches the filter" : "");
	n = tcp_layers_causes(layers, causes);
	if (n)
		return base_failure(self, "%s", strerror(-n));
	/* Report losses in every output format. */
	if (causes[SL_CAUSE_TRACE_DROPPED])
		base_failure(self, "%" PRIu64 " records dropped: the buffer was full",
			     causes[SL_CAUSE_TRACE_DROPPED]);
	return BASE_EXIT_OK;
}

static int trace_main(const struct base_command *self, int argc, char **argv)
{
	struct cli_trace t = {.epoch_ns = base_realtime_ns() - base_now_ns()};
	struct tcp_layers *layers = NULL;
	uint32_t which = 1 << TCP_RECORD_REQUEST;
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!cli_tcp_format(self, settings.format))
		return BASE_EXIT_USAGE;
	if (settings.segments)
		which |= 1 << TCP_RECORD_IN | 1 << TCP_RECORD_OUT;
	t.out = cli_tcp_output(self);
	if (!t.out)
		return BASE_EXIT_FAILURE;
	code = cli_tcp_layers_trace(self, which, print_record, &t, &layers);
	if (!code) {
		print_head(&t);
		if (!isatty(fileno(t.out)))
			cli_tcp_ready("slots=%u", tcp_layers_slots(layers, TCP_LAYER_FLOWS));
		code = follow_records(self, layers, &t);
	}
	tcp_layers_close(layers);
	return cli_tcp_output_end(self, t.out, code);
}

const struct base_command cli_tcp_trace = {
	.name = "tcp trace",
	.synopsis = "[OPTION]...",
	.summary = "Print the time that each layer took for each request of a server",
	.run = trace_main,
};
