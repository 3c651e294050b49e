/* SPDX-License-Identifier: Apache-2.0 */
/* net.h - shared by the parts of 'sidelight tcp net'. */
#ifndef SL_CLI_TCP_NET_H
#define SL_CLI_TCP_NET_H

#include "cli/tcp/tcp.h"
#include "source/tcp/net.h"
#include "source/tcp/net_round.h"
#include "source/tcp/net_stat.h"

struct cli_tcp_net_settings {
	const char *record;
	enum tcp_net_by by;
	struct base_strings devices, agents;
	uint32_t ring;
	bool requests, segments;
	uint64_t window_ns;
	const char *trust; /* NULL: clocks are estimated */
};
extern struct cli_tcp_net_settings cli_tcp_net_settings;

/* 'tcp net --record FILE': runs until the duration is over. An exit code. */
int cli_tcp_net_record(const struct base_command *self);

/* Output state. */
struct cli_tcp_net_view {
	FILE *out;
	struct cli_tcp_screen screen;
	struct tcp_net_stat *stat;
	const char *name[2];			/* of the hosts */
	uint64_t headless, fragments, left_out; /* as the files' ends state */
	bool cut;				/* a file is truncated */
	bool named;				/* CSV: the header was printed */
};
/* 'tcp net --agent A --agent B': runs until the duration is over. An exit code. */
int cli_tcp_net_live(const struct base_command *self, struct cli_tcp_net_view *view);

extern const char *const cli_tcp_net_by[]; /* names of enum tcp_net_by, ended by NULL */
/* Prints all rows, and the unmatched records. */
void cli_tcp_net_show(struct cli_tcp_net_view *view);
/* Prints a segment: callback of struct tcp_net_stat_opts, with the view as context. */
void cli_tcp_net_segment(void *view, const struct tcp_net_result *r);
/* Prints whole round trips and their sum. */
void cli_tcp_net_rounds(struct cli_tcp_net_view *view, const struct tcp_net_rounds *rounds);

#endif
