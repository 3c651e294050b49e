/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - the interface between the files of 'sidelight tcp net'. */
#ifndef SL_CLI_TCP_NET_H
#define SL_CLI_TCP_NET_H

#include "cli/tcp/tcp.h"
#include "source/tcp/net.h"
#include "source/tcp/net_round.h"
#include "source/tcp/net_stat.h"

struct cli_tcp_net_settings {
	const char *record;
	struct base_strings devices, agents;
	uint32_t ring;
	bool requests, segments;
	struct tcp_net_stat_opts stat;
	/* TIME of --trust-clocks; NULL means estimate the clock offset */
	const char *trust;
};
extern struct cli_tcp_net_settings cli_tcp_net_settings;

/* Runs 'tcp net --record FILE' until the duration is over. Returns an exit code. */
int cli_tcp_net_record(const struct base_command *self);

/* The output, and the state of printing. */
struct cli_tcp_net_view {
	FILE *out;
	struct cli_tcp_screen screen;
	struct tcp_net_stat *stat;
	const char *name[2]; /* names of the two hosts */
	/* record counts reported by the files' trailers */
	uint64_t headless, fragments, left_out;
	bool cut; /* true if a file is truncated */
};
/* Runs 'tcp net --agent A --agent B' until the duration is over. Returns an exit code. */
int cli_tcp_net_live(const struct base_command *self, struct cli_tcp_net_view *view);

extern const char *const cli_tcp_net_by[]; /* names of enum tcp_net_by, NULL-terminated */
/* Prints all rows and the counts of unmatched records. */
void cli_tcp_net_show(struct cli_tcp_net_view *view);
/* Prints a segment. A callback of struct tcp_net_stat_opts; view is its context. */
void cli_tcp_net_segment(void *view, const struct tcp_net_result *r);
/* Prints the complete round trips and their sum. */
void cli_tcp_net_rounds(struct cli_tcp_net_view *view, const struct tcp_net_rounds *rounds);

#endif
