/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - packet authentication: AES-CMAC-128 (RFC 4493) over all bytes before the MAC, with a key
 * per reporter, or per tenant for reporters without their own. During a key exchange a reporter has
 * several keys. One key serves both directions: an answer cannot pass for a packet, because it has
 * its credits and a zero word where a packet has its time.
 *
 * Four checks prevent replay:
 * - a packet names the translator it is addressed to, and every other translator refuses it;
 * - within an incarnation, the window of sequence numbers (loss.h) accepts each report once. A
 *   translator has one window per (tenant, reporter) over all its inputs and workers (steer.h);
 * - the incarnation of an authenticated reporter only increases (loss.h, RFC 1982);
 * - after the translator restarted or forgot a reporter, the packet's time must be within
 *   DTA_SKEW_NS of the translator's clock. That is less than half the time after which loss.h
 *   forgets a reporter.
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
/* Returns NULL with errno EINVAL (not DTA_KEY_BYTES long) or ENOMEM. */
struct dta_key *dta_key_new(const void *key, size_t bytes);
void dta_key_free(struct dta_key *k);
/* Appends the MAC. Returns the packet's length including the MAC. */
size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes);
/* Whether the MAC is correct. bytes includes the MAC. Runs in constant time. */
bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes);

/*
 * Identifies the translator that a packet is addressed to: FNV-1a of the translator's name, or of
 * the packet's destination address (16 bytes, IPv4-mapped) and port. A translator accepts both;
 * names also work behind NAT.
 */
uint64_t dta_translator_of_name(const char *name, size_t bytes);
uint64_t dta_translator_of_address(const struct in6_addr *address, uint16_t port);
uint64_t dta_translator_of_peer(int fd); /* fd must be a connected socket */
/*
 * Appends the proof of a packet: translator and MAC. Returns the packet's length including the
 * proof.
 */
size_t dta_proof_put(const struct dta_key *k, uint64_t translator, void *packet, size_t bytes);
/*
 * Reads a key from a file of 32 hexadecimal digits, with optional white space around them. Returns
 * 0, -EINVAL for any other content, or -errno.
 */
int dta_key_read(const char *path, uint8_t key[DTA_KEY_BYTES]);

/* ---- the translator's keys: single-threaded ---- */

#define DTA_KEYS_MAX 65536u
/* number of keys that fit into one message of the control channel */
#define DTA_KEYS_TENANT_MAX 8192u
#define DTA_KEYS_EACH	    4u /* keys per reporter at a time */

/* A key of a tenant's reporters first to last, or of all reporters without a key of their own. */
struct dta_key_spec {
	bool own;
	uint32_t first, last;
	uint64_t until_ns; /* expiry, CLOCK_REALTIME; 0: never */
	uint8_t key[DTA_KEY_BYTES];
};
/*
 * Checks a tenant's keys: ranges must be equal or disjoint and have at most DTA_KEYS_EACH keys.
 * Sorts the keys by range. Returns NULL or an error message.
 */
const char *dta_keys_check(struct dta_key_spec *keys, size_t n);

struct dta_auth;
struct dta_auth *dta_auth_new(void);
void dta_auth_free(struct dta_auth *a);
/*
 * Replaces the keys of a tenant; dta_keys_check() must have accepted them. Returns 0, -ENOSPC or
 * -ENOMEM.
 */
int dta_auth_keys(struct dta_auth *a, uint16_t tenant, const struct dta_key_spec *keys, size_t n);
/* Sets whether packets of this tenant must carry a MAC. Default: not required. */
void dta_auth_require(struct dta_auth *a, uint16_t tenant, bool required);
/*
 * Returns the reporter's key with the number that dta_auth_check() returned in `used`; NULL:
 * withdrawn.
 */
const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter,
				    uint32_t used);
/* Both identities of this translator on arrival of a packet. */
struct dta_auth_here {
	uint64_t name;
	const struct in6_addr *address; /* destination address of the packet */
	uint16_t port;
};

/*
 * Checks a packet that dta_parse() accepted. Returns DTA_FINE; DTA_BAD_MAC: wrong MAC, none where
 * one is required, or no key for the reporter; DTA_ELSEWHERE: addressed to another translator;
 * DTA_REPLAYED: by its time. now_ns: CLOCK_REALTIME. used: number of the key that made the MAC, the
 * same in every process; 0 without a MAC. Packets in the original's formats have no MAC and belong
 * to tenant 0.
 */
enum dta_refusal dta_auth_check(struct dta_auth *a, const struct dta_header *h, const void *packet,
				size_t bytes, const struct dta_auth_here *here, uint64_t now_ns,
				uint32_t *used);

#endif
