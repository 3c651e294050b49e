/* SPDX-License-Identifier: Apache-2.0 */
/* collect_modes.h - output of 'sidelight collect' besides HTTP: rates, CSV, hosts and regions. */
#ifndef SL_CLI_COLLECT_MODES_H
#define SL_CLI_COLLECT_MODES_H

#include <stdbool.h>
#include <stdint.h>

#include "collect/read/collect.h"

#define COLLECT_SETUP_NS 10000000000u /* time for hosts to connect */
#define COLLECT_SAY_NS	 500000000u   /* longer waits are logged */

struct cli_collect_mode {
	unsigned int workers;
	uint64_t duration_ns; /* duration; 0 means until a signal */
	const char *csv;      /* file of --stats-csv, or NULL */
	bool as_json;
	void (*every_second)(void *arg); /* called by cli_collect_until() */
	void *arg;
};

/*
 * Logs the hosts that are not up, and how long the collector waits for them. Logs nothing if all
 * are up.
 */
void cli_collect_say_waiting(struct collect_collector *c, uint64_t end_ns);

/*
 * The next two functions run until stop is readable or the duration is over, and return an exit
 * code.
 */

/* Prints hosts and regions when all hosts are up, or those found by the end. */
int cli_collect_setup(const struct cli_collect_mode *m, struct collect_collector *c, int stop);
/* Prints rates every second (if print is set) and writes the CSV. */
int cli_collect_until(const struct cli_collect_mode *m, struct collect_collector *c, int stop,
		      bool print);

#endif
