/* SPDX-License-Identifier: Apache-2.0 */
/* clang-format off */
/*
 * text.h - keys and values in text form, the same for reports, queries and the page:
 *
 *   0a1b2c3d, 0x0a1b2c3d           hexadecimal digits, two per byte
 *   text:WORD                      the bytes of the word
 *   u32:N, u64:N                   a number, big-endian as on the wire
 *   flow:SRC:PORT,DST:PORT,PROTO   a 5-tuple as in the headers: 13 bytes with IPv4, 37 with IPv6 (in
 *                                  brackets); PROTO is tcp, udp, icmp, icmp6 or a number
 */
/* clang-format on */
#ifndef SL_DTA_WIRE_TEXT_H
#define SL_DTA_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Returns the number of bytes, at least 1; -EINVAL if the text has none of these forms; or -ENOSPC.
 */
int dta_text(const char *text, uint8_t *out, size_t room);

#define DTA_FLOW_TEXT 128u

/*
 * Formats a 5-tuple as flow:... Returns false, with out empty, if bytes is not the length of a
 * 5-tuple.
 */
bool dta_flow_text(const uint8_t *key, size_t bytes, char out[DTA_FLOW_TEXT]);

#endif
