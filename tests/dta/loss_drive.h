/* SPDX-License-Identifier: Apache-2.0 */
/* loss_drive.h - packets of a reporter, given to the account of losses */
#ifndef TESTS_DTA_LOSS_DRIVE_H
#define TESTS_DTA_LOSS_DRIVE_H

#include "support/test.h"
#include "dta/translate/loss.h"

#define MS 1000000ull

static uint64_t fresh[DTA_LOSS_FRESH_WORDS];

static inline struct dta_loss_key key_of(uint32_t reporter)
{
	struct dta_loss_key k = {.port = 1000, .tenant = 1, .reporter = reporter};

	k.address.s6_addr[15] = 1;
	return k;
}

static inline struct dta_loss_stats total(const struct dta_loss *l)
{
	struct dta_loss_stats s;

	dta_loss_total(l, &s);
	if (s.expected != s.arrived + s.missing + s.lost)
		fail_msg("%lu expected, %lu arrived, %lu missing, %lu lost", s.expected, s.arrived,
			 s.missing, s.lost);
	return s;
}

#endif
