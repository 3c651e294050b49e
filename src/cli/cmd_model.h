/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_model.h - the command 'sidelight model train' (cmd_model_train.c). */
#ifndef SL_CLI_CMD_MODEL_H
#define SL_CLI_CMD_MODEL_H

#include "base/base.h"

extern const struct base_command cli_cmd_model_train;

#endif
