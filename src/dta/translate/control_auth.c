/* SPDX-License-Identifier: Apache-2.0 */
/* control_auth.c - proofs and keys of a control channel, computed by nettle */
#include "dta/translate/control_auth.h"

#include <string.h>
#include <sys/random.h>

#include <nettle/hmac.h>
#include <nettle/memops.h>

#include "base/text.h"

void dta_control_derive(const void *secret, size_t bytes, enum dta_control_value value,
			const struct dta_control_said *said, uint8_t out[DTA_CONTROL_MAC_BYTES])
{
	static const char *const purpose[] = {
		[DTA_COLLECTOR_PROOF] = "collector proves",
		[DTA_TRANSLATOR_PROOF] = "translator proves",
		[DTA_COLLECTOR_SEAL] = "collector seals",
		[DTA_TRANSLATOR_SEAL] = "translator seals",
	};
	const char *const parts[] = {
		"sidelight dta control 2",
		purpose[value],
		said->name,
		said->output,
		said->called,
		said->nonce,
		said->challenge,
	};
	struct hmac_sha256_ctx h;

	hmac_sha256_set_key(&h, bytes, secret);
	/* With their NULs, so that no two lists of parts are the same bytes. */
	for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++)
		hmac_sha256_update(&h, strlen(parts[i]) + 1, (const uint8_t *)parts[i]);
	hmac_sha256_digest(&h, DTA_CONTROL_MAC_BYTES, out);
	explicit_bzero(&h, sizeof(h));
}

bool dta_control_proved(const void *secret, size_t bytes, enum dta_control_value value,
			const struct dta_control_said *said, const char *hex)
{
	uint8_t right[DTA_CONTROL_MAC_BYTES], got[DTA_CONTROL_MAC_BYTES];

	if (base_unhex(got, hex, sizeof(got)))
		return false;
	dta_control_derive(secret, bytes, value, said, right);
	return memeql_sec(right, got, sizeof(got));
}

bool dta_control_nonce(char hex[2 * DTA_CONTROL_NONCE_BYTES + 1])
{
	uint8_t nonce[DTA_CONTROL_NONCE_BYTES];

	if (getrandom(nonce, sizeof(nonce), 0) != sizeof(nonce))
		return false;
	base_hex(hex, nonce, sizeof(nonce));
	return true;
}
