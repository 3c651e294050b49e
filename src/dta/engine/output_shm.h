/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_shm.h - lets the engine write to a mapping itself and report it to the output's account.
 */
#ifndef SL_DTA_ENGINE_OUTPUT_SHM_H
#define SL_DTA_ENGINE_OUTPUT_SHM_H

#include "dta/engine/output.h"

bool dta_output_is_shm(const struct dta_output *o);
void dta_output_shm_account(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes);

#endif
