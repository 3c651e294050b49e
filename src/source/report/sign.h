/* SPDX-License-Identifier: Apache-2.0 */
/* sign.h - prepares the tables for signing packets: AES (FIPS 197) and CMAC (RFC 4493). */
#ifndef SL_SOURCE_REPORT_SIGN_H
#define SL_SOURCE_REPORT_SIGN_H

#include "source/report/shared.h"

/* translator is the translator's identity, see docs/dta-wire.md. */
void report_sign_prepare(struct report_sign *s, const __u8 key[16], __u64 translator);

#endif
