/* SPDX-License-Identifier: Apache-2.0 */
/* seen.h - query paths, drops and top: flows by device and time (dta/query/seen.h) */
#ifndef SL_CLI_QUERY_SEEN_H
#define SL_CLI_QUERY_SEEN_H

#include "cli/query/ask.h"

struct cli_seen_settings {
	const char *through, *device, *interface, *by;
	const char *from, *to; /* a time, or a duration before now */
	/* lengths of the IPv4 prefix and, after a comma, the IPv6 prefix, such as "24,48" */
	const char *prefix;
	const char *reason;
	uint32_t max;
	bool json;
};

enum cli_seen_kind { CLI_SEEN_PATHS, CLI_SEEN_DROPS, CLI_SEEN_TOP, CLI_SEEN_KINDS };
extern const char *const cli_seen_names[]; /* NULL-terminated */

/*
 * Asks every collector and prints the combined rows. Adds up counts; if collectors hold replicas,
 * takes the greatest count instead. Returns an exit code: a failure if there are no rows.
 */
int cli_query_seen(const struct base_command *self, struct cli_query_collectors *c,
		   enum cli_seen_kind kind, const struct cli_seen_settings *set);

#endif
