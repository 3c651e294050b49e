/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - packets that prove who made them: AES-CMAC-128 (RFC 4493) over all before the MAC, with
 * a key a reporter, or a tenant's for those that have none of their own. The key is for both
 * directions: an answer can't pass for a packet, as it has credits and a zero where a packet has
 * its time, which is checked.
 *
 * Against packets that are sent again by a stranger there are three guards, each for what the
 * others leave:
 *  - within an incarnation, loss.h's window of sequence numbers: each report is taken once, and a
 *    retransmission by the reporter is one more packet that is looked at report by report;
 *  - between incarnations, loss.h again: an authenticated reporter's incarnation only grows (RFC
 *    1982);
 *  - after loss.h has forgotten a reporter, or the translator was started anew: the packet's time,
 *    which has to be within DTA_SKEW_NS of the translator's clock. It is shorter than half of what
 *    loss.h takes to forget.
 */
#ifndef SL_DTA_WIRE_AUTH_H
#define SL_DTA_WIRE_AUTH_H

#include <sys/types.h>

#include "dta/wire/wire.h"

#define DTA_KEY_BYTES 16u
#define DTA_SKEW_NS   25000000000ull

/* A key made ready. Immutable: any thread. */
struct dta_key;
/* NULL with errno: EINVAL (not DTA_KEY_BYTES), ENOMEM. */
struct dta_key *dta_key_new(const void *key, size_t bytes);
void dta_key_free(struct dta_key *k);
/* Puts the MAC behind bytes, and returns the bytes with it. */
size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes);
/* bytes: with the MAC. Takes as long for a right one as for a wrong one. */
bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes);
/*
 * A key out of a file: 32 hexadecimal digits, with white space around them. 0, -EINVAL (anything
 * else, a key of another length among it), -errno.
 */
int dta_key_read(const char *path, uint8_t key[DTA_KEY_BYTES]);

#define DTA_SECRET_MIN 16u
#define DTA_SECRET_MAX 4096u
/*
 * The secret of a control channel out of a file, as both of its ends read it: all of it but white
 * space at its end. Returns its bytes; -EINVAL (fewer than DTA_SECRET_MIN, or more than
 * DTA_SECRET_MAX), -errno.
 */
ssize_t dta_secret_read(const char *path, uint8_t secret[DTA_SECRET_MAX]);

/* ---- the translator's keys: one thread ---- */

#define DTA_KEYS_MAX 65536u

struct dta_auth;
struct dta_auth *dta_auth_new(void);
void dta_auth_free(struct dta_auth *a);
/*
 * reporter -1: for all of the tenant that have none of their own. key NULL: forgets it. 0, -EINVAL
 * (length, reporter), -ENOSPC, -ENOMEM.
 */
int dta_auth_key(struct dta_auth *a, uint16_t tenant, int64_t reporter, const void *key,
		 size_t bytes);
/* Of this tenant nothing is taken without a MAC. Default: what has none is taken. */
void dta_auth_require(struct dta_auth *a, uint16_t tenant, bool required);
/* NULL: none. */
const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter);
/*
 * Of a packet that dta_parse() found to be fine. DTA_FINE, DTA_BAD_MAC (wrong, missing where
 * required, or of a reporter without key), DTA_REPLAYED (its time). now_ns: CLOCK_REALTIME. The
 * original's packets never have a MAC, and are tenant 0's.
 */
enum dta_refusal dta_auth_check(const struct dta_auth *a, const struct dta_header *h,
				const void *packet, size_t bytes, uint64_t now_ns);

#endif
