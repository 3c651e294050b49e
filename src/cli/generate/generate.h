/* SPDX-License-Identifier: Apache-2.0 */
/* generate.h - the kinds of load of 'sidelight generate'; a name is "generate WHAT". */
#ifndef SL_CLI_GENERATE_GENERATE_H
#define SL_CLI_GENERATE_GENERATE_H

#include "base/base.h"

extern const struct sl_command sl_cmd_generate;
extern const struct sl_command sl_generate_dta, sl_generate_metrics;

#endif
