/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the kinds of load of 'sidelight generate'; a name is "generate WHAT". */
#ifndef SL_CLI_GENERATE_GENERATE_H
#define SL_CLI_GENERATE_GENERATE_H

#include "base/base.h"

extern const struct base_command cli_cmd_generate;
extern const struct base_command cli_generate_dta, cli_generate_metrics;

#endif
