// SPDX-License-Identifier: Apache-2.0
/* auth.c - keys and MACs, computed with nettle */
#include "dta/wire/auth.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <nettle/cmac.h>
#include <nettle/memops.h>

#include "base/base.h"
#include "base/network.h"
#include "base/secret.h"
#include "base/text.h"
#include "dta/wire/endian.h"
#include <sidelight/region.h>

struct dta_key {
	struct cmac_aes128_ctx cmac;
};

struct dta_key *dta_key_new(const uint8_t key[DTA_KEY_BYTES])
{
	struct dta_key *k = malloc(sizeof(*k));

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

static void compute_mac(const struct dta_key *k, const void *packet, size_t bytes,
			uint8_t out[DTA_MAC_BYTES])
{
	struct cmac128_ctx state; /* state for one packet */

	cmac128_init(&state);
	cmac128_update(&state, &k->cmac.cipher, (nettle_cipher_func *)aes128_encrypt, bytes,
		       packet);
	cmac128_digest(&state, &k->cmac.key, &k->cmac.cipher, (nettle_cipher_func *)aes128_encrypt,
		       DTA_MAC_BYTES, out);
}

size_t dta_mac_put(const struct dta_key *k, void *packet, size_t bytes)
{
	compute_mac(k, packet, bytes, (uint8_t *)packet + bytes);
	return bytes + DTA_MAC_BYTES;
}

bool dta_mac_fits(const struct dta_key *k, const void *packet, size_t bytes)
{
	uint8_t right[DTA_MAC_BYTES];

	if (bytes < DTA_MAC_BYTES)
		return false;
	bytes -= DTA_MAC_BYTES;
	compute_mac(k, packet, bytes, right);
	return memeql_sec(right, (const uint8_t *)packet + bytes, DTA_MAC_BYTES);
}

/* ---- identity of the translator that a packet is addressed to ---- */

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
	socklen_t bytes = sizeof(at);
	struct in6_addr address;
	uint16_t port;

	getpeername(fd, (struct sockaddr *)&at, &bytes);
	address = base_mapped_of(&at, &port);
	return dta_translator_of_address(&address, port);
}

size_t dta_proof_put(const struct dta_key *k, uint64_t translator, void *packet, size_t bytes)
{
	dta_put64((uint8_t *)packet + bytes, translator);
	return dta_mac_put(k, packet, bytes + 8);
}

/* ---- files ---- */

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

/* ---- the key table, sorted by ID because lookups far outnumber changes ---- */

struct auth_entry {
	uint64_t id; /* ID of the first reporter */
	uint32_t last, number;
	uint64_t until_ns;
	struct dta_key *key;
};

struct dta_auth {
	struct auth_entry *entry;
	size_t n;
	uint64_t required[65536 / 64];
	struct {
		struct in6_addr address;
		uint16_t port;
		uint64_t translator;
		/*
		 * identity of the last destination address; computing it takes as long as one AES
		 * block
		 */
	} last;
};

/* The ID is tenant << 33 | own << 32 | reporter, so that keys for the whole tenant sort first. */
static uint64_t id_of(uint16_t tenant, bool own, uint32_t reporter)
{
	return (uint64_t)tenant << 33 | (uint64_t)own << 32 | (own ? reporter : 0);
}

/* Returns the number of entries with a smaller ID. */
static size_t place_of(const struct dta_auth *a, uint64_t id)
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

static void free_entries(struct auth_entry *e, size_t n)
{
	for (size_t i = 0; i < n; i++)
		dta_key_free(e[i].key);
}

void dta_auth_free(struct dta_auth *a)
{
	if (!a)
		return;
	free_entries(a->entry, a->n);
	free(a->entry);
	free(a);
}

static int by_range(const void *x, const void *y)
{
	const struct dta_key_spec *a = x, *b = y;
	const uint64_t ia = id_of(0, a->own, a->first), ib = id_of(0, b->own, b->first);

	return ia < ib ? -1 : ia > ib;
}

const char *dta_keys_check(struct dta_key_spec *keys, size_t n)
{
	uint32_t each = 1;

	qsort(keys, n, sizeof(*keys), by_range);
	for (size_t i = 0; i < n; i++) {
		const struct dta_key_spec *k = &keys[i], *before = i ? k - 1 : NULL;

		if (k->own && k->first > k->last)
			return "a reporter range ends before it begins";
		if (!before || before->own != k->own)
			each = 1;
		else if (!k->own || (before->first == k->first && before->last == k->last))
			each++;
		else if (before->last < k->first)
			each = 1;
		else
			return "reporter ranges overlap: they must be equal or disjoint";
		if (each > DTA_KEYS_EACH)
			return "a reporter has more than 4 keys at once";
	}
	return NULL;
}

/* Computes a number that distinguishes keys from each other but reveals nothing about them. */
static uint32_t number_of(const struct dta_key *k)
{
	static const char purpose[] = "sidelight dta key number";
	uint8_t m[DTA_MAC_BYTES];

	compute_mac(k, purpose, sizeof(purpose), m);
	return dta_get32(m) | 1;
}

/* Removes the entries [from, to). Cannot fail, because it needs no memory. */
static void remove_entries(struct dta_auth *a, size_t from, size_t to)
{
	if (from == to)
		return;
	free_entries(a->entry + from, to - from);
	memmove(a->entry + from, a->entry + to, (a->n - to) * sizeof(*a->entry));
	a->n -= to - from;
}

int dta_auth_keys(struct dta_auth *a, uint16_t tenant, const struct dta_key_spec *keys, size_t n)
{
	const size_t from = place_of(a, id_of(tenant, false, 0)),
		     to = tenant == UINT16_MAX ? a->n : place_of(a, id_of(tenant + 1, false, 0));
	struct auth_entry *e;
	size_t all;

	/* First, so that a key that has been withdrawn is refused even if the others don't fit. */
	remove_entries(a, from, to);
	all = a->n + n;
	if (!n)
		return 0;
	if (all > DTA_KEYS_MAX)
		return -ENOSPC;
	e = calloc(all, sizeof(*e));
	if (!e)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		e[from + i] = (struct auth_entry){
			.id = id_of(tenant, keys[i].own, keys[i].first),
			.last = keys[i].own ? keys[i].last : UINT32_MAX,
			.until_ns = keys[i].until_ns ? keys[i].until_ns : UINT64_MAX,
			.key = dta_key_new(keys[i].key),
		};
		if (!e[from + i].key) {
			free_entries(e + from, i);
			free(e);
			return -ENOMEM;
		}
		e[from + i].number = number_of(e[from + i].key);
	}
	if (a->n) {
		memcpy(e, a->entry, from * sizeof(*e));
		memcpy(e + from + n, a->entry + from, (a->n - from) * sizeof(*e));
	}
	free(a->entry);
	a->entry = e;
	a->n = all;
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

/* Returns the reporter's own keys, expired or not, if it has any; otherwise the tenant's keys. */
static const struct auth_entry *keys_of(const struct dta_auth *a, uint16_t tenant,
					uint32_t reporter, size_t *n)
{
	size_t end = place_of(a, id_of(tenant, true, reporter) + 1), from;
	const uint64_t tenants = id_of(tenant, false, 0);

	if (!end || a->entry[end - 1].id <= tenants || a->entry[end - 1].id >> 33 != tenant ||
	    a->entry[end - 1].last < reporter)
		end = place_of(a, tenants + 1);
	from = end;
	while (from && a->entry[from - 1].id == a->entry[end - 1].id)
		from--;
	*n = end && a->entry[end - 1].id >> 33 == tenant ? end - from : 0;
	return from ? a->entry + from : a->entry; /* may be NULL */
}

const struct dta_key *dta_auth_find(const struct dta_auth *a, uint16_t tenant, uint32_t reporter,
				    uint32_t used)
{
	size_t n;
	const struct auth_entry *e = keys_of(a, tenant, reporter, &n);

	for (size_t i = 0; i < n; i++)
		if (e[i].number == used)
			return e[i].key;
	return NULL;
}

bool dta_auth_valid(const struct dta_auth *a, const struct dta_header *h, uint32_t used,
		    uint64_t now_ns)
{
	size_t n;
	const struct auth_entry *e = keys_of(a, h->tenant, h->reporter, &n);

	for (size_t i = 0; i < n; i++)
		if (e[i].number == used && now_ns < e[i].until_ns)
			return true;
	return false;
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
				size_t bytes, const struct dta_auth_here *here, uint64_t now_ns,
				uint32_t *used)
{
	const struct auth_entry *e;
	size_t n, i;

	*used = 0;
	if (!(h->flags & DTA_AUTHENTICATED))
		return a->required[h->tenant / 64] >> h->tenant % 64 & 1 ? DTA_BAD_MAC : DTA_FINE;
	e = keys_of(a, h->tenant, h->reporter, &n);
	for (i = 0; i < n; i++)
		if (now_ns < e[i].until_ns && dta_mac_fits(e[i].key, packet, bytes))
			break;
	if (i == n)
		return DTA_BAD_MAC;
	*used = e[i].number;
	if (!meant_for(a, here, packet, bytes))
		return DTA_ELSEWHERE;
	if (h->time_ns + DTA_SKEW_NS < now_ns || now_ns + DTA_SKEW_NS < h->time_ns)
		return DTA_REPLAYED;
	return DTA_FINE;
}
