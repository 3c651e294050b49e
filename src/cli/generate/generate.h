/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the kinds of load of 'sidelight generate'; a name is "generate WHAT". */
#ifndef SL_CLI_GENERATE_GENERATE_H
#define SL_CLI_GENERATE_GENERATE_H

#include "base/base.h"

extern const struct base_command cli_cmd_generate;
extern const struct base_command cli_generate_dta, cli_generate_metrics;

#define CLI_GENERATE_KINDS 16 /* at most, in a list of --kinds */

/*
 * Parses --kinds, names separated by commas: list gets first + the index of each among names, which
 * end with NULL. all: names in words.
 */
int cli_generate_kinds(const struct base_command *cmd, const char *text, const char *const *names,
		       const char *all, uint32_t first, uint32_t list[CLI_GENERATE_KINDS],
		       uint32_t *n);

#endif
