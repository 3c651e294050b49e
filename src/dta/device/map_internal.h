/* SPDX-License-Identifier: Apache-2.0 */
/* map_internal.h - the compiled form of a mapping, built by map_yaml.c and executed by map.c */
#ifndef SL_DTA_DEVICE_MAP_INTERNAL_H
#define SL_DTA_DEVICE_MAP_INTERNAL_H

#include "dta/device/map.h"

#define DTA_MAP_PUTS  24u /* maximum number of numbers and addresses per report */
#define DTA_MAP_TESTS 8u  /* maximum number of conditions per rule */

/* One field of a report. */
struct dta_map_put {
	uint64_t number; /* value of a constant, or otherwise the largest value that fits */
	uint8_t field;	 /* field of the record; DTA_FIELDS means a constant */
	/* size; an address in a key has 0, which means the size of the key's largest address */
	uint8_t bytes;
	bool optional; /* a record may lack the field, which is then 0 */
	uint8_t shift; /* left shift that moves the number to the first bytes of its word */
};

enum dta_map_order { DTA_MAP_EQUAL, DTA_MAP_UNEQUAL, DTA_MAP_LEAST, DTA_MAP_MOST };

struct dta_map_test {
	uint64_t number;
	uint8_t field;
	enum dta_map_order order;
};

struct dta_map_rule {
	dta_field_set need; /* fields that a record must contain */
	enum dta_record_kind kind;
	enum dta_device input; /* kind of input; DTA_DEVICES means any */
	uint8_t opcode, copies;
	uint8_t puts, tests;
	uint8_t addresses;    /* bit i: the key contains address i */
	uint8_t key_bytes[2]; /* key size with 4-byte and with 16-byte addresses */
	uint16_t value_bytes, store;
	struct dta_map_put put[DTA_MAP_PUTS]; /* fields of the key, then of the value */
	struct dta_map_test test[DTA_MAP_TESTS];
};

struct dta_map {
	uint16_t tenant;
	uint32_t rules;
	struct dta_map_rule rule[DTA_MAP_RULES];
};

#endif
