/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - packet authentication: AES-CMAC-128 (RFC 4493) over everything before the MAC, with a
 * key per reporter or, for reporters without one, per tenant. While keys are exchanged, a reporter
 * has several. One key serves both directions: an answer cannot pass for a packet, as its credits
 * and zero word lie where a packet has its time.
 *
 * Replay is prevented by four checks:
 * - a packet states the translator that it is meant for, and another one refuses it;
 * - within an incarnation, the window of sequence numbers (loss.h): each report is taken once. A
 *    translator has one window per (tenant, reporter) over all its inputs and workers (steer.h);
 * - between incarnations, an authenticated reporter's incarnation only grows (loss.h, RFC 1982);
 * - after the translator restarted or forgot a reporter, the packet's time must lie within
 *    DTA_SKEW_NS of its clock, which is less than half the time after which loss.h forgets.
 */
#ifndef SL_DTA_WIRE_AUTH_H
#define SL_DTA_WIRE_AUTH_H

#include <netinet/in.h>
#include <sys/types.h>

#include "dta/wire/wire.h"

#define DTA_KEY_BYTES 16u
#define DTA_SKEW_NS   25000000000ull

/* An expanded key. Immutable, so that any thread may use it. */
struct dta_key;
/* NULL with errno: EINVAL (not DTA_KEY_BYTES), ENOMEM. */
struct dta_key *dta_key_new(const void *key, size_t bytes);
void dta_key_free(struct dta_key *k);
/* Appends the MAC. Returns the packet's length with it. */
size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes);
/* bytes includes the MAC. Runs in constant time. */
bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes);

/*
 * The translator that a packet is meant for: FNV-1a of its name, or of the address that packets are
 * sent to (16 bytes, IPv4 mapped) and port. Translators accept both; names work behind address
 * translation.
 */
uint64_t dta_translator_of_name(const char *name, size_t bytes);
uint64_t dta_translator_of_address(const struct in6_addr *address, uint16_t port);
uint64_t dta_translator_of_peer(int fd); /* of a connected socket */
/* Appends the proof of a packet: translator and MAC. Returns the packet's length with it. */
size_t dta_proof_put(const struct dta_key *k, uint64_t translator, void *packet, size_t bytes);
/*
 * Reads a key from a file: 32 hexadecimal digits, surrounded by white space at most. 0, -EINVAL for
 * anything else, -errno.
 */
int dta_key_read(const char *path, uint8_t key[DTA_KEY_BYTES]);

#define DTA_SECRET_MIN 16u
#define DTA_SECRET_MAX 4096u
/*
 * Reads the secret of a control channel: the whole file but trailing white space. Returns its
 * length, -EINVAL if that is not DTA_SECRET_MIN to DTA_SECRET_MAX, -errno.
 */
ssize_t dta_secret_read(const char *path, uint8_t secret[DTA_SECRET_MAX]);

/* ---- the translator's keys: single-threaded ---- */

#define DTA_KEYS_MAX	    65536u
#define DTA_KEYS_TENANT_MAX 8192u /* fit one message of the control channel */
#define DTA_KEYS_EACH	    4u	  /* that reporters may have at a time */

/* A key of reporters first to last of a tenant, or of all those that have none of their own. */
struct dta_key_spec {
	bool own;
	uint32_t first, last;
	uint64_t until_ns; /* CLOCK_REALTIME; 0: for good */
	uint8_t key[DTA_KEY_BYTES];
};
/*
 * Whether a tenant's keys can be used: ranges that are the same or apart, of DTA_KEYS_EACH keys at
 * most. NULL, or why not. Sorts them by range.
 */
const char *dta_keys_check(struct dta_key_spec *keys, size_t n);

struct dta_auth;
struct dta_auth *dta_auth_new(void);
void dta_auth_free(struct dta_auth *a);
/* Replaces the keys of a tenant by those that dta_keys_check() accepted. 0, -ENOSPC, -ENOMEM. */
int dta_auth_keys(struct dta_auth *a, uint16_t tenant, const struct dta_key_spec *keys, size_t n);
/* Whether packets of this tenant must carry a MAC. Default: they need not. */
void dta_auth_require(struct dta_auth *a, uint16_t tenant, bool required);
/* The key of a reporter that dta_auth_check() gave as `used`, or NULL: it was taken back. */
const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter,
				    uint32_t used);
/* The translator itself, by both of its identities, at a packet's arrival. */
struct dta_auth_here {
	uint64_t name;
	const struct in6_addr *address; /* that the packet was sent to */
	uint16_t port;
};

/*
 * Checks a packet that dta_parse() accepted. DTA_FINE, DTA_BAD_MAC (wrong, missing where required,
 * or the reporter has no key), DTA_ELSEWHERE (meant for another translator), DTA_REPLAYED (its
 * time). now_ns: CLOCK_REALTIME. used: which of its keys made the MAC, a number that is the same in
 * each process; 0 without one. Packets in the original's formats have no MAC and belong to
 * tenant 0.
 */
enum dta_refusal dta_auth_check(struct dta_auth *a, const struct dta_header *h, const void *packet,
				size_t bytes, const struct dta_auth_here *here, uint64_t now_ns,
				uint32_t *used);

#endif
