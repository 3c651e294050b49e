/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.h - mutual authentication by a shared secret, in the private data of RDMA-CM, before a queue
 * pair is created: an unauthenticated peer costs the host one message and no state.
 *
 *   collector -> host   REQ  nonce                         "I know the secret"
 *   host -> collector   REJ  cookie                        a challenge, not stored
 *   collector -> host   REQ  nonce, cookie, proof          binds its queue pair
 *   host -> collector   REP  hello, proof                  binds the hello
 *
 * The cookie authenticates time, address and nonce with a key that only this host has, so the host
 * need not store challenges (RFC 6347, 4.2.1). A proof is HMAC-SHA256 (RFC 2104) with the secret,
 * truncated to 128 bits, over a label for its direction and everything sent before it. A proof
 * is accepted only once. The packets are not encrypted: see "Security" in docs/architecture.md.
 *
 * Pure: no socket, no clock. Single-threaded.
 */
#ifndef SL_FABRIC_AUTH_H
#define SL_FABRIC_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/host.h"

#define FABRIC_NONCE_BYTES   8u
#define FABRIC_COOKIE_BYTES  16u
#define FABRIC_PROOF_BYTES   16u
#define FABRIC_COOKIE_NS     10000000000ull /* time limit for answering a challenge */
#define FABRIC_PROOFS_RECENT 1024u	    /* proofs remembered within that time; more must wait */

/* Private data of a request that carries a proof; used in place of fabric_verbs_request. */
struct fabric_verbs_proof {
	uint32_t magic, version, flags; /* same fields as in fabric_verbs_request */
	uint32_t reserved;
	uint8_t nonce[FABRIC_NONCE_BYTES];
	uint8_t cookie[FABRIC_COOKIE_BYTES]; /* zeros request a cookie */
	uint8_t proof[FABRIC_PROOF_BYTES];
};
_Static_assert(sizeof(struct fabric_verbs_proof) == 56, "proof");

/* Private data of an accepted request. */
struct fabric_verbs_welcome {
	struct fabric_host_hello hello;
	uint8_t proof[FABRIC_PROOF_BYTES]; /* the host's proof; zeros if it has no secret */
};

/* ---- the collector ---- */

/*
 * Fills in the proof of a request whose other fields are set; queue is the number of its queue
 * pair.
 */
void fabric_auth_prove(const void *secret, size_t bytes, struct fabric_verbs_proof *p,
		       uint32_t queue);
/* True if the host that answered the request knows the secret. */
bool fabric_auth_welcome_fits(const void *secret, size_t bytes, const struct fabric_verbs_proof *p,
			      uint32_t queue, const struct fabric_verbs_welcome *w);

/* ---- the host ---- */

struct fabric_auth;

/* Copies the secret. Returns NULL with errno set on failure. */
struct fabric_auth *fabric_auth_new(const void *secret, size_t bytes);
void fabric_auth_free(struct fabric_auth *a); /* accepts NULL */
void fabric_auth_challenge(const struct fabric_auth *a, const uint8_t address[16],
			   const struct fabric_verbs_proof *p, uint64_t now_ns,
			   uint8_t cookie[FABRIC_COOKIE_BYTES]);
/*
 * Returns 0; -EAGAIN if this is not an answer to a recent challenge of this host, and must be
 * challenged; -EKEYREJECTED if the proof is wrong or was already used; or -EBUSY if there are too
 * many proofs at a time.
 */
int fabric_auth_check(struct fabric_auth *a, const uint8_t address[16],
		      const struct fabric_verbs_proof *p, uint32_t queue, uint64_t now_ns);
/* Fills in the proof of the welcome that answers the request. */
void fabric_auth_welcome(const struct fabric_auth *a, const struct fabric_verbs_proof *p,
			 uint32_t queue, struct fabric_verbs_welcome *w);

#endif
