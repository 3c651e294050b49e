/* SPDX-License-Identifier: Apache-2.0 */
/*
 * element.h - the supported information elements of IPFIX and NetFlow 9: the field that each one
 * sets, and which one wins if several set the same field. scripts/element-table writes the table in
 * docs/dta-devices.md.
 */
#ifndef SL_DTA_DEVICE_ELEMENT_H
#define SL_DTA_DEVICE_ELEMENT_H

#include "dta/device/device.h"

/* Values for which struct dta_record has no field. */
enum dta_element_extra {
	/* each end time directly follows its start time */
	DTA_EXTRA_START_S,
	DTA_EXTRA_END_S,
	DTA_EXTRA_START_MS,
	DTA_EXTRA_END_MS,
	DTA_EXTRA_START_NTP, /* NTP time: seconds since 1900 with 32 fractional bits */
	DTA_EXTRA_END_NTP,
	DTA_EXTRA_START_BEFORE, /* microseconds before the message */
	DTA_EXTRA_END_BEFORE,
	DTA_EXTRA_START_UP, /* ms since the exporter's start */
	DTA_EXTRA_END_UP,
	DTA_EXTRA_BOOT_MS,
	DTA_EXTRA_SELECTOR,
	DTA_EXTRA_SAMPLING,    /* one in N packets */
	DTA_EXTRA_SAMPLED,     /* N sampled packets in a row */
	DTA_EXTRA_SPACE,       /* M packets skipped after the sampled ones */
	DTA_EXTRA_SAMPLE_SIZE, /* n sampled packets */
	DTA_EXTRA_POPULATION,  /* population of N packets */
	DTA_EXTRA_PROBABILITY, /* bits of a float or double */
	DTA_EXTRA_ICMP_TYPE,
	DTA_EXTRA_ICMP_CODE,
	/* opposite direction of a biflow */
	DTA_EXTRA_REVERSE_BYTES,
	DTA_EXTRA_REVERSE_PACKETS,
	DTA_EXTRA_REVERSE_TCP_FLAGS,
	DTA_EXTRA_REVERSE_TOS,
	DTA_EXTRA_REVERSE_START_MS,
	DTA_EXTRA_REVERSE_END_MS,
	DTA_EXTRAS
};
_Static_assert(DTA_EXTRAS <= 32, "a template's set of extras has 32 bits");

enum dta_element_kind {
	DTA_ELEMENT_NUMBER,
	DTA_ELEMENT_EXTRA,
	DTA_ELEMENT_V4,
	DTA_ELEMENT_V6,
	DTA_ELEMENT_TEXT
};

#define DTA_ENTERPRISE_REVERSE 29305u /* RFC 5103: the opposite direction of an IANA element */

struct dta_element {
	uint32_t enterprise; /* 0 is IANA */
	uint16_t id;
	uint8_t kind;
	uint8_t index; /* index of the field or extra */
	/* if several elements in a template have the same index, the lowest rank wins */
	uint8_t rank;
	uint8_t shift; /* number of low bits below the value */
	uint8_t bits;  /* number of bits of the value, or 0 for all */
};

/* Returns NULL if the element is not supported. */
const struct dta_element *dta_element_find(uint32_t enterprise, uint16_t id);

#endif
