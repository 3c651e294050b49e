/* SPDX-License-Identifier: Apache-2.0 */
/*
 * control_auth.h - authentication of a control channel over TCP, both ways, by a shared secret: the
 * collector proves that it has the secret, then the translator does, and all that follows is sealed
 * (control.h, dta_control_line_seal()). Pure functions.
 *
 * Each value is HMAC-SHA256 (RFC 2104) of the secret over what it is for, and over all that both
 * said before: no proof serves another connection, another name or the other side.
 */
#ifndef SL_DTA_TRANSLATE_CONTROL_AUTH_H
#define SL_DTA_TRANSLATE_CONTROL_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DTA_CONTROL_NONCE_BYTES 32u
#define DTA_CONTROL_MAC_BYTES	32u

/* What both sides said, as text: nonces in hexadecimal. */
struct dta_control_said {
	const char *name, *output, *called; /* of "hello" */
	const char *nonce;		    /* of the translator */
	const char *challenge;		    /* the collector's nonce */
};

enum dta_control_value {
	DTA_COLLECTOR_PROOF = 0,
	DTA_TRANSLATOR_PROOF,
	DTA_COLLECTOR_SEAL, /* key of what the collector sends */
	DTA_TRANSLATOR_SEAL,
};

void dta_control_derive(const void *secret, size_t bytes, enum dta_control_value value,
			const struct dta_control_said *said, uint8_t out[DTA_CONTROL_MAC_BYTES]);
/* Whether hex is that value. Runs in constant time. */
bool dta_control_proved(const void *secret, size_t bytes, enum dta_control_value value,
			const struct dta_control_said *said, const char *hex);
/* A fresh nonce, in hexadecimal. False: the kernel has no randomness. */
bool dta_control_nonce(char hex[2 * DTA_CONTROL_NONCE_BYTES + 1]);

#endif
