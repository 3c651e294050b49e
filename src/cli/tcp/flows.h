/* SPDX-License-Identifier: Apache-2.0 */
/* flows.h - shared by flows.c, which reads the table, and flows_print.c, which prints it. */
#ifndef SL_CLI_TCP_FLOWS_H
#define SL_CLI_TCP_FLOWS_H

#include "cli/tcp/tcp.h"
#include "region/flows.h"

/* One flow as JSON or CSV, with every statistic. time_ns: CLOCK_REALTIME of the snapshot. */
void cli_flow_print_json(FILE *out, const struct region_flow *flow, uint64_t time_ns);
void cli_flow_print_csv_head(FILE *out);
void cli_flow_print_csv(FILE *out, const struct region_flow *flow, uint64_t time_ns);
/* Two lines in the format of MicroBPF's tools; none for a listener. */
void cli_flow_print_microbpf(FILE *out, const struct region_flow *flow);

/* A flow and its change since the last look. */
struct cli_flow_row {
	struct region_flow flow;
	uint64_t sent, received; /* bytes */
	uint32_t retrans;
	bool first; /* older than the command, and not looked at before: the change is unknown */
};
/* Sort orders of the screen. */
extern const char *const cli_flow_orders[];
/* Draws the screen; sorts rows. */
void cli_flow_print_screen(struct cli_tcp_screen *screen, struct cli_flow_row *rows, size_t count,
			   const struct region_flows_hot *hot, uint64_t ns);

#endif
