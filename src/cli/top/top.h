/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - what the files of 'sidelight top' share. */
#ifndef SL_CLI_TOP_TOP_H
#define SL_CLI_TOP_TOP_H

#include <jansson.h>

#include "cli/common/common.h"
#include "cli/tcp/tcp.h"

#define CLI_TOP_NAME   96u
#define CLI_TOP_FILTER 64u

struct cli_top {
	const struct base_command *cmd;
	char at[256]; /* HOST:PORT or unix:/PATH */
	const char *token;
	uint32_t window; /* s */
	bool json, once;
	struct cli_tcp_screen screen;
	FILE *out;

	json_t *services, *map; /* last answers; NULL: none yet */
	json_t **row;		/* of services, in order, that pass the filter; borrowed */
	size_t rows, room;
	char why[320]; /* why there is no new answer; "": there is one */

	/* The user's. */
	bool details, typing; /* shows one service; a filter is being typed */
	bool utf8, colours;
	char filter[CLI_TOP_FILTER];
	char service[CLI_TOP_NAME], kube_namespace[CLI_TOP_NAME]; /* selected; "": the first */
	size_t selected;					  /* its row */
};

extern const char *const cli_top_orders[];

/* Asks the collector; false: why says why, and the last answers stay. */
bool cli_top_fetch(struct cli_top *t);
/* Selects and sorts the rows. False: out of memory. */
bool cli_top_arrange(struct cli_top *t);

void cli_top_overview(struct cli_top *t);
void cli_top_detail(struct cli_top *t);

/* The member of an object within an object: NULL if it is not there or null. */
const json_t *cli_top_at(const json_t *o, const char *object, const char *key);
/* Its number, or NaN. */
double cli_top_number(const json_t *o, const char *object, const char *key);

/*
 * Copies untrusted text for the terminal: characters that are not printable, or take no or two
 * columns, become '?'. Returns out.
 */
const char *cli_top_safe(char *out, size_t bytes, const char *text);
/* "12.3k", "-" for NaN; "7.05ms"; "31M". Return out. */
const char *cli_top_count(char out[16], double v);
const char *cli_top_time(char out[16], double seconds);
const char *cli_top_bytes(char out[16], double bytes);
/* The last `width` values of a service's spark; the greatest of them, or NaN. */
double cli_top_spark(const struct cli_top *t, const json_t *service, char *out, size_t bytes,
		     size_t width);

#endif
