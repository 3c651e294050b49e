/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_flows.h - between tcp_flows.c, which reads the table, and tcp_flows_print.c, which shows it. */
#ifndef SL_CLI_TCP_FLOWS_H
#define SL_CLI_TCP_FLOWS_H

#include "cli/tcp.h"
#include "region/flows.h"

/* One flow as an object or a row, with every statistic. */
void flow_print_json(FILE *out, const struct sl_flow *flow);
void flow_print_csv_head(FILE *out);
void flow_print_csv(FILE *out, const struct sl_flow *flow);
/* Two lines as MicroBPF's tools print them; none for a listener. */
void flow_print_microbpf(FILE *out, const struct sl_flow *flow);

/* A flow and what it did since the last look. */
struct flow_row {
	struct sl_flow flow;
	uint64_t sent, received; /* bytes */
	uint32_t retrans;
};
/* The screen: the busiest first. rows is sorted by it. */
void flow_print_screen(struct tcp_screen *screen, struct flow_row *rows, size_t count,
		       const struct sl_flows_hot *hot, uint64_t ns);

#endif
