/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_flows.h - between tcp_flows.c, which reads the table, and tcp_flows_print.c, which shows it. */
#ifndef SL_CLI_TCP_FLOWS_H
#define SL_CLI_TCP_FLOWS_H

#include "cli/tcp/tcp.h"
#include "region/flows.h"

/* One flow as an object or a row, with every statistic. time_ns: CLOCK_REALTIME of the look at it. */
void flow_print_json(FILE *out, const struct sl_flow *flow, uint64_t time_ns);
void flow_print_csv_head(FILE *out);
void flow_print_csv(FILE *out, const struct sl_flow *flow, uint64_t time_ns);
/* Two lines as MicroBPF's tools print them; none for a listener. */
void flow_print_microbpf(FILE *out, const struct sl_flow *flow);

/* A flow and what it did since the last look. */
struct flow_row {
	struct sl_flow flow;
	uint64_t sent, received; /* bytes */
	uint32_t retrans;
};
/* By what the screen may be sorted. */
extern const char *const flow_orders[];
/* The screen; it sorts rows. */
void flow_print_screen(struct tcp_screen *screen, struct flow_row *rows, size_t count,
		       const struct sl_flows_hot *hot, uint64_t ns);

#endif
