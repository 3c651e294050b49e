/* SPDX-License-Identifier: Apache-2.0 */
/* map_internal.h - a compiled mapping: map_yaml.c makes it, map.c follows it */
#ifndef SL_DTA_DEVICE_MAP_INTERNAL_H
#define SL_DTA_DEVICE_MAP_INTERNAL_H

#include "dta/device/map.h"

#define DTA_MAP_PUTS  24u /* numbers and addresses of a report */
#define DTA_MAP_TESTS 8u  /* conditions of a rule */

/* One field of a report. */
struct dta_map_put {
	uint64_t number; /* of a constant; else the greatest that fits */
	uint8_t field;	 /* DTA_FIELDS: a constant */
	uint8_t bytes;	 /* of an address in a key: 0, as many as all of them need */
	uint8_t shift;	 /* moves a number's bytes to the front of its word */
};

enum dta_map_order { DTA_MAP_EQUAL, DTA_MAP_UNEQUAL, DTA_MAP_LEAST, DTA_MAP_MOST };

struct dta_map_test {
	uint64_t number;
	uint8_t field;
	enum dta_map_order order;
};

struct dta_map_rule {
	uint64_t need; /* fields that a record must have */
	enum dta_record_kind kind;
	enum dta_device input; /* DTA_DEVICES: any */
	uint8_t opcode, copies;
	uint8_t puts, tests;
	uint8_t addresses;    /* bit i: address i is in the key */
	uint8_t key_bytes[2]; /* with addresses of 4 bytes, and of 16 */
	uint16_t value_bytes, store;
	struct dta_map_put put[DTA_MAP_PUTS]; /* key, then value */
	struct dta_map_test test[DTA_MAP_TESTS];
};

struct dta_map {
	uint16_t tenant;
	uint32_t rules;
	struct dta_map_rule rule[DTA_MAP_RULES];
};

#endif
