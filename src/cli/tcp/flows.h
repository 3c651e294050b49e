/* SPDX-License-Identifier: Apache-2.0 */
/* flows.h - the interface between flows.c, which reads the flow table, and flows_print.c. */
#ifndef SL_CLI_TCP_FLOWS_H
#define SL_CLI_TCP_FLOWS_H

#include "cli/tcp/tcp.h"
#include "region/flows.h"

/* Print one flow with every statistic, as JSON or CSV. time_ns: CLOCK_REALTIME of the snapshot. */
void cli_flow_print_json(FILE *out, const struct region_flow *flow, uint64_t time_ns);
void cli_flow_print_csv_head(FILE *out);
void cli_flow_print_csv(FILE *out, const struct region_flow *flow, uint64_t time_ns);
/* Prints a flow as two lines in the format of MicroBPF's tools; prints nothing for a listener. */
void cli_flow_print_microbpf(FILE *out, const struct region_flow *flow);

/* Print a closed connection as one line. */
void cli_flow_print_closed_head(FILE *out);
void cli_flow_print_closed(FILE *out, const struct region_flow *flow, uint64_t time_ns);

/* A flow, and its change since the previous snapshot. */
struct cli_flow_row {
	struct region_flow flow;
	uint64_t sent, received; /* bytes since the previous snapshot */
	uint32_t retrans;
	/*
	 * true if the flow is older than the command and new to this table: the change is unknown
	 */
	bool first;
};
/* Names of the screen's sort orders, NULL-terminated. */
extern const char *const cli_flow_orders[];
/* Draws the screen. Sorts rows in place. */
void cli_flow_print_screen(struct cli_tcp_screen *screen, struct cli_flow_row *rows, size_t count,
			   const struct region_flows_hot *hot, uint64_t ns);

#endif
