/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_net.h - what the parts of 'sidelight tcp net' share. */
#ifndef SL_CLI_TCP_NET_H
#define SL_CLI_TCP_NET_H

#include "cli/tcp/tcp.h"
#include "source/tcp/net.h"
#include "source/tcp/net_round.h"
#include "source/tcp/net_stat.h"

struct cli_tcp_net_settings {
	const char *record, *by;
	struct base_strings devices, agents;
	uint32_t ring;
	bool requests, segments;
	uint64_t window_ns;
	const char *trust; /* NULL: the clocks are not trusted */
};
extern struct cli_tcp_net_settings cli_tcp_net_settings;

/* 'tcp net --record FILE': until the duration is over. An exit code. */
int cli_tcp_net_record(const struct base_command *self);

/* How it is shown. */
struct cli_tcp_net_view {
	const struct base_command *cmd;
	FILE *out;
	struct cli_tcp_screen screen;
	struct tcp_net_stat *stat;
	const char *name[2];			/* of the hosts */
	uint64_t headless, fragments, left_out; /* as of the files' ends */
	bool cut;				/* a file ended too early */
	bool named;				/* CSV: the line of names is out */
};
/* 'tcp net --agent A --agent B': until the duration is over. An exit code. */
int cli_tcp_net_live(const struct base_command *self, struct cli_tcp_net_view *view);

enum tcp_net_by cli_tcp_net_by(const char *name); /* (enum tcp_net_by)-1: no such thing */
/* All rows and what could not be matched. */
void cli_tcp_net_show(struct cli_tcp_net_view *view);
/* A segment; a callback of struct tcp_net_stat_opts, whose context is the view. */
void cli_tcp_net_segment(void *view, const struct tcp_net_result *r);
/* Whole round trips, and their sum. */
void cli_tcp_net_rounds(struct cli_tcp_net_view *view, const struct tcp_net_rounds *rounds);

#endif
