// SPDX-License-Identifier: Apache-2.0
#include "fabric/auth.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include <nettle/hmac.h>
#include <nettle/memops.h>

/* A cookie is the time in units of 2^26 ns, modulo 9 years, and a MAC with the host's own key. */
#define TIME_SHIFT 26
#define TIME_BYTES 4

struct fabric_auth {
	struct hmac_sha256_ctx cookies;
	uint64_t recent_ns[FABRIC_PROOFS_RECENT];
	/* ring of proofs accepted at the times in recent_ns */
	uint8_t recent[FABRIC_PROOFS_RECENT][FABRIC_PROOF_BYTES];
	uint32_t next;
	size_t bytes;
	uint8_t secret[];
};

static const char by_collector[] = "sidelight rdma 1: collector";
static const char by_host[] = "sidelight rdma 1: host";

/* ---- proofs ---- */

/* Computes the host's proof, which covers its hello, or, if hello is NULL, the collector's. */
static void make_proof(const void *secret, size_t bytes, const struct fabric_verbs_proof *p,
		       uint32_t queue, const struct fabric_host_hello *hello,
		       uint8_t proof[FABRIC_PROOF_BYTES])
{
	const uint32_t number = htole32(queue);
	struct hmac_sha256_ctx h;

	hmac_sha256_set_key(&h, bytes, secret);
	if (hello)
		hmac_sha256_update(&h, sizeof(by_host), (const uint8_t *)by_host);
	else
		hmac_sha256_update(&h, sizeof(by_collector), (const uint8_t *)by_collector);
	hmac_sha256_update(&h, hello ? sizeof(*p) : offsetof(struct fabric_verbs_proof, proof),
			   (const uint8_t *)p);
	hmac_sha256_update(&h, sizeof(number), (const uint8_t *)&number);
	if (hello)
		hmac_sha256_update(&h, sizeof(*hello), (const uint8_t *)hello);
	hmac_sha256_digest(&h, FABRIC_PROOF_BYTES, proof);
}

void fabric_auth_prove(const void *secret, size_t bytes, struct fabric_verbs_proof *p,
		       uint32_t queue)
{
	make_proof(secret, bytes, p, queue, NULL, p->proof);
}

bool fabric_auth_welcome_fits(const void *secret, size_t bytes, const struct fabric_verbs_proof *p,
			      uint32_t queue, const struct fabric_verbs_welcome *w)
{
	uint8_t right[FABRIC_PROOF_BYTES];

	make_proof(secret, bytes, p, queue, &w->hello, right);
	return memeql_sec(right, w->proof, sizeof(right));
}

void fabric_auth_welcome(const struct fabric_auth *a, const struct fabric_verbs_proof *p,
			 uint32_t queue, struct fabric_verbs_welcome *w)
{
	make_proof(a->secret, a->bytes, p, queue, &w->hello, w->proof);
}

/* ---- the host ---- */

struct fabric_auth *fabric_auth_new(const void *secret, size_t bytes)
{
	struct fabric_auth *a = calloc(1, sizeof(*a) + bytes);
	uint8_t own[SHA256_DIGEST_SIZE];

	if (!a)
		return NULL;
	if (getrandom(own, sizeof(own), 0) != sizeof(own)) {
		free(a);
		return NULL;
	}
	hmac_sha256_set_key(&a->cookies, sizeof(own), own);
	explicit_bzero(own, sizeof(own));
	a->bytes = bytes;
	memcpy(a->secret, secret, bytes);
	return a;
}

void fabric_auth_free(struct fabric_auth *a)
{
	if (a)
		explicit_bzero(a, sizeof(*a) + a->bytes);
	free(a);
}

static void cookie_at(const struct fabric_auth *a, const uint8_t address[16],
		      const uint8_t nonce[FABRIC_NONCE_BYTES], uint32_t time,
		      uint8_t cookie[FABRIC_COOKIE_BYTES])
{
	struct hmac_sha256_ctx h = a->cookies;

	time = htole32(time);
	memcpy(cookie, &time, TIME_BYTES);
	hmac_sha256_update(&h, TIME_BYTES, cookie);
	hmac_sha256_update(&h, 16, address);
	hmac_sha256_update(&h, FABRIC_NONCE_BYTES, nonce);
	hmac_sha256_digest(&h, FABRIC_COOKIE_BYTES - TIME_BYTES, cookie + TIME_BYTES);
}

void fabric_auth_challenge(const struct fabric_auth *a, const uint8_t address[16],
			   const struct fabric_verbs_proof *p, uint64_t now_ns,
			   uint8_t cookie[FABRIC_COOKIE_BYTES])
{
	cookie_at(a, address, p->nonce, (uint32_t)(now_ns >> TIME_SHIFT), cookie);
}

static bool cookie_is_fresh(const struct fabric_auth *a, const uint8_t address[16],
			    const struct fabric_verbs_proof *p, uint64_t now_ns)
{
	uint8_t right[FABRIC_COOKIE_BYTES];
	uint32_t time;

	memcpy(&time, p->cookie, TIME_BYTES);
	time = le32toh(time);
	if ((uint32_t)(now_ns >> TIME_SHIFT) - time > FABRIC_COOKIE_NS >> TIME_SHIFT)
		return false;
	cookie_at(a, address, p->nonce, time, right);
	return memeql_sec(right, p->cookie, sizeof(right));
}

int fabric_auth_check(struct fabric_auth *a, const uint8_t address[16],
		      const struct fabric_verbs_proof *p, uint32_t queue, uint64_t now_ns)
{
	uint8_t right[FABRIC_PROOF_BYTES];
	uint64_t *oldest = &a->recent_ns[a->next];

	if (!cookie_is_fresh(a, address, p, now_ns))
		return -EAGAIN;
	make_proof(a->secret, a->bytes, p, queue, NULL, right);
	if (!memeql_sec(right, p->proof, sizeof(right)))
		return -EKEYREJECTED;
	/* Only correct proofs reach this point, so strangers cannot fill the ring. */
	for (uint32_t i = 0; i < FABRIC_PROOFS_RECENT; i++)
		if (a->recent_ns[i] && !memcmp(a->recent[i], right, sizeof(right)))
			return -EKEYREJECTED;
	if (*oldest && now_ns - *oldest <= FABRIC_COOKIE_NS)
		return -EBUSY;
	*oldest = now_ns;
	memcpy(a->recent[a->next], right, sizeof(right));
	a->next = (a->next + 1) % FABRIC_PROOFS_RECENT;
	return 0;
}
