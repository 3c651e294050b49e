/* SPDX-License-Identifier: Apache-2.0 */
/* collect_modes.h - output of 'sidelight collect' besides HTTP: rates, CSV, hosts and regions. */
#ifndef SL_CLI_COLLECT_MODES_H
#define SL_CLI_COLLECT_MODES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/read/collect.h"

#define COLLECT_SETUP_NS 10000000000u /* time for hosts to connect */
#define COLLECT_SAY_NS	 500000000u   /* a longer wait is logged */

struct cli_collect_mode {
	unsigned int workers;
	uint64_t duration_ns; /* 0: until a signal */
	const char *csv;      /* a file for --stats-csv, or NULL */
	bool as_json;
	void (*every_second)(void *arg); /* of cli_collect_until() */
	void *arg;
};

/* Logs, unless all hosts are up, which are not and until when they are waited for. */
void cli_collect_say_waiting(struct collect_collector *c, uint64_t end_ns);

/* Both run until stop is readable or the duration is over, and return an exit code. */

/* Prints hosts and regions once all hosts are up, or those found at the end. */
int cli_collect_setup(const struct cli_collect_mode *m, struct collect_collector *c, int stop);
/* Prints rates every second (if print), and writes the CSV. */
int cli_collect_until(const struct cli_collect_mode *m, struct collect_collector *c, int stop,
		      bool print);

#endif
