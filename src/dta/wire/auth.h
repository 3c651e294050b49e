/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - packet authentication: AES-CMAC-128 (RFC 4493) over all bytes before the MAC, with a key
 * per reporter, or per tenant for reporters without their own. During a key exchange a reporter has
 * several keys. One key serves both directions: an answer can't be mistaken for a packet, because
 * it has its credits and a zero word where a packet has its time.
 *
 * Four checks prevent replay:
 * - a packet names the translator it is addressed to, and every other translator refuses it;
 * - within an incarnation, the window of sequence numbers (loss.h) accepts each report once. A
 *   translator has one window per (tenant, reporter) over all its inputs and workers (steer.h);
 * - the incarnation of an authenticated reporter only increases (loss.h, RFC 1982);
 * - after the translator has restarted or has forgotten a reporter, the packet's time must be
 *   within DTA_SKEW_NS of the translator's clock. DTA_SKEW_NS is less than half the time after
 *   which loss.h forgets a reporter.
 */
#ifndef SL_DTA_WIRE_AUTH_H
#define SL_DTA_WIRE_AUTH_H

#include <netinet/in.h>
#include <sys/types.h>

#include "dta/wire/wire.h"

#define DTA_KEY_BYTES 16u
#define DTA_SKEW_NS   25000000000ull

/* An expanded key. Immutable, so any thread may use it. */
struct dta_key;
/* Returns NULL with errno ENOMEM. */
struct dta_key *dta_key_new(const uint8_t key[DTA_KEY_BYTES]);
void dta_key_free(struct dta_key *k);
/* Appends the MAC. Returns the packet's length including the MAC. */
size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes);
/* Whether the MAC is correct. bytes includes the MAC. Runs in constant time. */
bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes);

/*
 * Returns the identity of the translator that a packet is addressed to: FNV-1a of the translator's
 * name, or of the packet's destination address (16 bytes, IPv4-mapped) and port. A translator
 * accepts both; names also work behind NAT.
 */
uint64_t dta_translator_of_name(const char *name, size_t bytes);
uint64_t dta_translator_of_address(const struct in6_addr *address, uint16_t port);
uint64_t dta_translator_of_peer(int fd); /* fd must be a connected socket */
/*
 * Appends the authentication trailer of a packet: translator and MAC. Returns the packet's length
 * including the trailer.
 */
size_t dta_proof_put(const struct dta_key *k, uint64_t translator, void *packet, size_t bytes);
/*
 * Reads a key from a file with 32 hexadecimal digits, optionally surrounded by white space. Returns
 * 0, -EINVAL for any other content, or -errno.
 */
int dta_key_read(const char *path, uint8_t key[DTA_KEY_BYTES]);

/* ---- the translator's keys: single-threaded ---- */

#define DTA_KEYS_MAX 65536u /* of all tenants; a stores file of at most 1 MiB cannot list more */
/* number of keys that fit into one message of the control channel */
#define DTA_KEYS_TENANT_MAX 8192u
#define DTA_KEYS_EACH	    4u /* keys per reporter at a time */

/* A key for a tenant's reporters first to last, or for all reporters without a key of their own. */
struct dta_key_spec {
	bool own;
	uint32_t first, last;
	uint64_t until_ns; /* expiry time, CLOCK_REALTIME; 0 means never */
	uint8_t key[DTA_KEY_BYTES];
};
/*
 * Checks a tenant's keys. Ranges must be equal or disjoint, with at most DTA_KEYS_EACH keys each.
 * Sorts the keys by range. Returns NULL on success, or an error message.
 */
const char *dta_keys_check(struct dta_key_spec *keys, size_t n);

struct dta_auth;
struct dta_auth *dta_auth_new(void);
void dta_auth_free(struct dta_auth *a);
/*
 * Replaces a tenant's keys, which dta_keys_check() must have accepted. Returns 0, -ENOSPC or
 * -ENOMEM. On failure, the tenant has no keys. Without new keys, it cannot fail.
 */
int dta_auth_keys(struct dta_auth *a, uint16_t tenant, const struct dta_key_spec *keys, size_t n);
/* Sets whether packets of this tenant must carry a MAC. By default they need not. */
void dta_auth_require(struct dta_auth *a, uint16_t tenant, bool required);
/*
 * Returns the reporter's key whose number dta_auth_check() returned in `used`, or NULL if it has
 * been withdrawn.
 */
const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter,
				    uint32_t used);
/* Whether the packet's reporter has a key of this number that has not expired. */
bool dta_auth_valid(const struct dta_auth *a, const struct dta_header *h, uint32_t used,
		    uint64_t now_ns);
/* Both identities of this translator for a received packet. */
struct dta_auth_here {
	uint64_t name;
	const struct in6_addr *address; /* destination address of the packet */
	uint16_t port;
};

/*
 * Checks a packet that dta_parse() accepted. Returns DTA_FINE; DTA_BAD_MAC if the MAC is wrong or
 * missing although required, or if the reporter has no key; DTA_ELSEWHERE if it is addressed to
 * another translator; or DTA_REPLAYED if its time is too far off. now_ns: CLOCK_REALTIME. used:
 * number of the key that made the MAC, the same in every process; 0 without a MAC. Packets in the
 * original formats have no MAC and belong to tenant 0.
 */
enum dta_refusal dta_auth_check(struct dta_auth *a, const struct dta_header *h, const void *packet,
				size_t bytes, const struct dta_auth_here *here, uint64_t now_ns,
				uint32_t *used);

#endif
