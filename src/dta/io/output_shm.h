/* SPDX-License-Identifier: Apache-2.0 */
/*
 * output_shm.h - what the engine and this output know of each other: an engine over a mapping
 * writes by itself and tells the output what it did, so that the output's account holds.
 */
#ifndef SL_DTA_IO_OUTPUT_SHM_H
#define SL_DTA_IO_OUTPUT_SHM_H

#include "dta/engine/output.h"

bool dta_output_is_shm(const struct dta_output *o);
void dta_output_shm_did(struct dta_output *o, uint64_t writes, uint64_t adds, uint64_t bytes);

#endif
