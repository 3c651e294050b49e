/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_flows.h - between tcp_flows.c, which reads the table, and tcp_flows_print.c, which shows it.
 */
#ifndef SL_CLI_TCP_FLOWS_H
#define SL_CLI_TCP_FLOWS_H

#include "cli/tcp/tcp.h"
#include "region/flows.h"

/* One flow as an object or a row, with every statistic. time_ns: CLOCK_REALTIME of the look at it.
 */
void cli_flow_print_json(FILE *out, const struct region_flow *flow, uint64_t time_ns);
void cli_flow_print_csv_head(FILE *out);
void cli_flow_print_csv(FILE *out, const struct region_flow *flow, uint64_t time_ns);
/* Two lines as MicroBPF's tools print them; none for a listener. */
void cli_flow_print_microbpf(FILE *out, const struct region_flow *flow);

/* A flow and what it did since the last look. */
struct cli_flow_row {
	struct region_flow flow;
	uint64_t sent, received; /* bytes */
	uint32_t retrans;
};
/* By what the screen may be sorted. */
extern const char *const cli_flow_orders[];
/* The screen; it sorts rows. */
void cli_flow_print_screen(struct cli_tcp_screen *screen, struct cli_flow_row *rows, size_t count,
			   const struct region_flows_hot *hot, uint64_t ns);

#endif
