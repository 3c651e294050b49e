/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the subcommands of 'sidelight generate'; each is a command named "generate WHAT". */
#ifndef SL_CLI_GENERATE_GENERATE_H
#define SL_CLI_GENERATE_GENERATE_H

#include "base/base.h"

extern const struct base_command cli_generate_dta, cli_generate_metrics;

#define CLI_GENERATE_KINDS 16 /* maximum length of a list of --kinds */

/*
 * Parses --kinds, a list of names separated by commas. Stores first + the index of each name into
 * list. names is NULL-terminated. all lists the valid names, for the error message. Returns an exit
 * code.
 */
int cli_generate_kinds(const struct base_command *cmd, const char *text, const char *const *names,
		       const char *all, uint32_t first, uint32_t list[CLI_GENERATE_KINDS],
		       uint32_t *n);

#endif
