/* SPDX-License-Identifier: Apache-2.0 */
/* top.h - the interface between the files of 'sidelight top'. */
#ifndef SL_CLI_TOP_TOP_H
#define SL_CLI_TOP_TOP_H

#include <jansson.h>

#include "cli/common/common.h"
#include "cli/tcp/tcp.h"

#define CLI_TOP_NAME 96u

struct cli_top {
	const struct base_command *cmd;
	char *at; /* address of the collector: HOST:PORT or unix:/PATH */
	const char *token;
	uint64_t interval_ns; /* time between two requests */
	uint32_t window;      /* averaging window in seconds */
	bool json, once;
	struct cli_tcp_screen screen;
	FILE *out;

	json_t *services, *map; /* most recent responses; NULL means none yet */
	json_t **row;		/* services that pass the filter, sorted; pointers into services */
	size_t rows, room;
	char why[320]; /* error message of the last request; "" means success */

	/* State of the user interface. */
	bool details; /* one service is shown */
	bool utf8, colours;
	/* selected service; "" means the first one */
	char service[CLI_TOP_NAME], kube_namespace[CLI_TOP_NAME];
	size_t selected; /* row of the selected service */
};

extern const char *const cli_top_orders[];

/*
 * Queries the collector. Returns false on failure: why then holds the error, and the previous
 * responses are kept.
 */
bool cli_top_fetch(struct cli_top *t);
/* Selects and sorts the rows. Returns false if out of memory. */
bool cli_top_arrange(struct cli_top *t);

void cli_top_overview(struct cli_top *t);
void cli_top_detail(struct cli_top *t);

/* Returns a member of an object inside o, or NULL if the member is missing or null. */
const json_t *cli_top_at(const json_t *o, const char *object, const char *key);
/* Returns the value of such a member as a number, or NaN. */
double cli_top_number(const json_t *o, const char *object, const char *key);

/*
 * Copies untrusted text for the terminal. Characters that are unprintable or not exactly one column
 * wide become '?'. Returns out.
 */
const char *cli_top_safe(char *out, size_t bytes, const char *text);
/* Format values such as "12.3k", "7.05ms" and "31M"; NaN as "-". Return out. */
const char *cli_top_count(char out[16], double v);
const char *cli_top_time(char out[16], double seconds);
const char *cli_top_bytes(char out[16], double bytes);
/* Plots the last `width` values of a service's sparkline. Returns the largest of them, or NaN. */
double cli_top_spark(const struct cli_top *t, const json_t *service, char *out, size_t bytes,
		     size_t width);

#endif
