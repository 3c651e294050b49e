// SPDX-License-Identifier: Apache-2.0
/* auth.c - keys and MACs, computed by nettle. */
#include "dta/wire/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/cmac.h>
#include <nettle/memops.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/secret.h"
#include "base/text.h"
#include "dta/wire/endian.h"
#include <sidelight/region.h>

struct dta_key {
	struct cmac_aes128_ctx cmac;
};

struct dta_key *dta_key_new(const void *key, size_t bytes)
{
	struct dta_key *k;

	if (!key || bytes != DTA_KEY_BYTES) {
		errno = EINVAL;
		return NULL;
	}
	k = malloc(sizeof(*k));
	if (k)
		cmac_aes128_set_key(&k->cmac, key);
	return k;
}

void dta_key_free(struct dta_key *k)
{
	if (k)
		explicit_bzero(k, sizeof(*k));
	free(k);
}

static void mac(const struct dta_key *k, const void *packet, size_t bytes,
		uint8_t out[DTA_MAC_BYTES])
{
	struct cmac128_ctx state; /* one packet's */

	cmac128_init(&state);
	cmac128_update(&state, &k->cmac.cipher, (nettle_cipher_func *)aes128_encrypt, bytes,
		       packet);
	cmac128_digest(&state, &k->cmac.key, &k->cmac.cipher, (nettle_cipher_func *)aes128_encrypt,
		       DTA_MAC_BYTES, out);
}

size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes)
{
	mac(k, packet, bytes, (uint8_t *)packet + bytes);
	return bytes + DTA_MAC_BYTES;
}

bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes)
{
	uint8_t right[DTA_MAC_BYTES];

	if (bytes < DTA_MAC_BYTES)
		return false;
	bytes -= DTA_MAC_BYTES;
	mac(k, packet, bytes, right);
	return memeql_sec(right, (const uint8_t *)packet + bytes, DTA_MAC_BYTES);
}

/* ---- the translator that a packet is meant for ---- */

uint64_t dta_translator_of_name(const char *name, size_t bytes)
{
	return sl_fnv1a(SL_FNV_BASIS, name, bytes);
}

uint64_t dta_translator_of_address(const struct in6_addr *address, uint16_t port)
{
	uint8_t text[sizeof(*address) + 2];

	memcpy(text, address, sizeof(*address));
	dta_put16(text + sizeof(*address), port);
	return sl_fnv1a(SL_FNV_BASIS, text, sizeof(text));
}

uint64_t dta_translator_of_peer(int fd)
{
	struct sockaddr_in6 at = {0};
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&at;
	struct in6_addr mapped = {.s6_addr = {[10] = 0xff, 0xff}};
	socklen_t bytes = sizeof(at);

	getpeername(fd, (struct sockaddr *)&at, &bytes);
	if (at.sin6_family == AF_INET6)
		return dta_translator_of_address(&at.sin6_addr, ntohs(at.sin6_port));
	memcpy(&mapped.s6_addr[12], &v4->sin_addr, 4);
	return dta_translator_of_address(&mapped, ntohs(v4->sin_port));
}

size_t dta_proof_put(const struct dta_key *k, uint64_t translator, void *packet, size_t bytes)
{
	dta_put64((uint8_t *)packet + bytes, translator);
	return dta_mac_put(k, packet, bytes + 8);
}

/* ---- files ---- */

ssize_t dta_secret_read(const char *path, uint8_t secret[DTA_SECRET_MAX])
{
	const ssize_t n = base_secret_read(path, secret, DTA_SECRET_MAX);

	return n >= 0 && n < (ssize_t)DTA_SECRET_MIN ? -EINVAL : n;
}

int dta_key_read(const char *path, uint8_t key[DTA_KEY_BYTES])
{
	char text[128];
	const ssize_t n = base_secret_read(path, text, sizeof(text) - 1);
	ssize_t from = 0;
	int err = n < 0 ? (int)n : 0;

	while (from < n && strchr(BASE_SECRET_SPACE, text[from]))
		from++;
	if (!err) {
		text[n] = 0;
		err = base_unhex(key, text + from, DTA_KEY_BYTES);
	}
	explicit_bzero(text, sizeof(text));
	return err;
}

/* ---- the table of keys: sorted by id, as it is searched far more often than changed ---- */

struct auth_entry {
	uint64_t id; /* tenant << 33 | own << 32 | reporter: the tenant's key sorts first */
	struct dta_key *key;
};

struct dta_auth {
	struct auth_entry *entry;
	size_t n, room;
	uint64_t required[65536 / 64];
	struct {
		struct in6_addr address;
		uint16_t port;
		uint64_t translator;
	} last; /* the address of the last packet, whose hash takes as long as a block of AES */
};

static uint64_t id_of(uint16_t tenant, int64_t reporter)
{
	return (uint64_t)tenant << 33 | (reporter < 0 ? 0 : 1ull << 32 | (uint64_t)reporter);
}

/* The index of id, or where it belongs. */
static size_t place(const struct dta_auth *a, uint64_t id)
{
	size_t at;

	BASE_LOWER_BOUND(at, 0, a->n, a->entry[at].id < id);
	return at;
}

struct dta_auth *dta_auth_new(void)
{
	struct dta_auth *a = calloc(1, sizeof(*a));

	if (a)
		a->last.translator = dta_translator_of_address(&a->last.address, a->last.port);
	return a;
}

void dta_auth_free(struct dta_auth *a)
{
	if (!a)
		return;
	for (size_t i = 0; i < a->n; i++)
		dta_key_free(a->entry[i].key);
	free(a->entry);
	free(a);
}

int dta_auth_key(struct dta_auth *a, uint16_t tenant, int64_t reporter, const void *key,
		 size_t bytes)
{
	uint64_t id = id_of(tenant, reporter);
	struct dta_key *k = NULL;
	size_t at = place(a, id);
	bool there = at < a->n && a->entry[at].id == id;

	if (reporter < -1 || reporter > UINT32_MAX)
		return -EINVAL;
	if (key) {
		k = dta_key_new(key, bytes);
		if (!k)
			return -errno;
	}
	if (there) {
		dta_key_free(a->entry[at].key);
		a->entry[at].key = k;
		if (!k) {
			a->n--;
			memmove(a->entry + at, a->entry + at + 1, (a->n - at) * sizeof(*a->entry));
		}
		return 0;
	}
	if (!k)
		return 0;
	if (a->n == DTA_KEYS_MAX || !BASE_GROW(a->entry, a->n, a->room)) {
		dta_key_free(k);
		return a->n == DTA_KEYS_MAX ? -ENOSPC : -ENOMEM;
	}
	memmove(a->entry + at + 1, a->entry + at, (a->n - at) * sizeof(*a->entry));
	a->entry[at] = (struct auth_entry){id, k};
	a->n++;
	return 0;
}

void dta_auth_require(struct dta_auth *a, uint16_t tenant, bool required)
{
	uint64_t bit = 1ull << tenant % 64;

	if (required)
		a->required[tenant / 64] |= bit;
	else
		a->required[tenant / 64] &= ~bit;
}

const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter)
{
	uint64_t id = id_of(tenant, reporter);
	size_t at = place(a, id);

	if (at == a->n || a->entry[at].id != id) {
		id = id_of(tenant, -1);
		at = place(a, id);
	}
	return at < a->n && a->entry[at].id == id ? a->entry[at].key : NULL;
}

static bool meant_for(struct dta_auth *a, const struct dta_auth_here *here, const uint8_t *packet,
		      size_t bytes)
{
	const uint64_t translator = dta_get64(packet + bytes - DTA_PROOF_BYTES);

	if (translator == here->name)
		return true;
	if (a->last.port != here->port ||
	    memcmp(&a->last.address, here->address, sizeof(a->last.address))) {
		a->last.address = *here->address;
		a->last.port = here->port;
		a->last.translator = dta_translator_of_address(here->address, here->port);
	}
	return translator == a->last.translator;
}

enum dta_refusal dta_auth_check(struct dta_auth *a, const struct dta_header *h, const void *packet,
				size_t bytes, const struct dta_auth_here *here, uint64_t now_ns)
{
	const struct dta_key *k;

	if (!(h->flags & DTA_AUTHENTICATED))
		return a->required[h->tenant / 64] >> h->tenant % 64 & 1 ? DTA_BAD_MAC : DTA_FINE;
	k = dta_auth_find(a, h->tenant, h->reporter);
	if (!k || !dta_mac_fits(k, packet, bytes))
		return DTA_BAD_MAC;
	if (!meant_for(a, here, packet, bytes))
		return DTA_ELSEWHERE;
	if (h->time_ns + DTA_SKEW_NS < now_ns || now_ns + DTA_SKEW_NS < h->time_ns)
		return DTA_REPLAYED;
	return DTA_FINE;
}
