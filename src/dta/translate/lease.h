/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lease.h - reporters whose reports the translator in the kernel takes (io/kernel.h). A report is
 * either the kernel's or this worker's: a reporter is leased to the kernel from a sequence number
 * on; what is older, and what the kernel cannot translate, comes here. For the latter the lease
 * ends first, and what the kernel took until then has arrived. A lease begins with the report of
 * number 0, or when the worker has nothing in flight, so that no report of a key is overtaken.
 */
#ifndef SL_DTA_TRANSLATE_LEASE_H
#define SL_DTA_TRANSLATE_LEASE_H

#include "dta/translate/control.h"

struct dta_kernel;
struct dta_leases;

/* account: of the worker, for packets and reports. NULL: no memory. */
struct dta_leases *dta_leases_new(struct dta_kernel *k, struct dta_loss *loss,
				  struct dta_translate_account *account);
void dta_leases_free(struct dta_leases *l);
/* Before a packet of a reporter without authentication changes its window. */
void dta_leases_before(struct dta_leases *l, const struct dta_loss_key *key,
		       const struct dta_header *h, uint64_t now_ns);
/*
 * Of the packet whose reports are fresh: clears those that may be older than what the kernel wrote,
 * and returns how many. Essential ones are not: the kernel takes none of their keys.
 */
uint32_t dta_leases_overtaken(const struct dta_leases *l, const struct dta_loss_key *key,
			      const struct dta_packet *packet, uint64_t *fresh);
/* Counts what the kernel took. quiet: the worker has nothing in hand and nothing in flight. */
void dta_leases_tick(struct dta_leases *l, bool quiet, uint64_t now_ns);
/* Ends all; the kernel takes no more. */
void dta_leases_end(struct dta_leases *l, uint64_t now_ns);

#endif
