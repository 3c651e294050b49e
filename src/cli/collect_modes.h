/* SPDX-License-Identifier: Apache-2.0 */
/* collect_modes.h - what 'sidelight collect' prints: rates, rows of CSV, what there is. */
#ifndef SL_CLI_COLLECT_MODES_H
#define SL_CLI_COLLECT_MODES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/collect.h"

#define COLLECT_SETUP_NS 10000000000u /* how long hosts are waited for */

struct cli_collect_mode {
	unsigned int workers;
	uint64_t duration_ns; /* 0: until told to stop */
	const char *csv;      /* a file for --stats-csv, or NULL */
	bool as_json;
};

/* Both run until stop is readable or the time is over, and return an exit code. */

/* Prints hosts and regions once all hosts were reached, or what there is of them at the end. */
int cli_collect_setup(const struct cli_collect_mode *m, struct collect_collector *c, int stop);
/* Prints rates once a second, if print; writes the CSV. */
int cli_collect_until(const struct cli_collect_mode *m, struct collect_collector *c, int stop,
		      bool print);

#endif
