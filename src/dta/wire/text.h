/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text.h - keys and values as people write them: one form for reports, queries and the page.
 *
 *   0a1b2c3d, 0x0a1b2c3d    hexadecimal digits, two a byte
 *   text:WORD               the bytes of the word
 *   u32:N, u64:N            a number, big-endian, as on the wire
 *   flow:SRC:PORT,DST:PORT,PROTO   a 5-tuple: addresses, ports and protocol (tcp, udp, icmp or a
 *                                  number), as the headers
 *                           have them: 13 bytes of IPv4, 37 of IPv6, whose addresses are in
 *                           brackets
 */
#ifndef SL_DTA_WIRE_TEXT_H
#define SL_DTA_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Returns the bytes, at least 1; -EINVAL: none of these forms; -ENOSPC: more than there is room
 * for. */
int dta_text(const char *text, uint8_t *out, size_t room);

#define DTA_FLOW_TEXT 128u

/* The other way, as flow:...; false: of another length than a 5-tuple's, and out is empty. */
bool dta_flow_text(const uint8_t *key, size_t bytes, char out[DTA_FLOW_TEXT]);

#endif
