/* SPDX-License-Identifier: Apache-2.0 */
/*
 * layout.h - the fields of a store's keys and values, as the stores file declares them: a list of
 * NAME or NAME/BYTES, separated by commas, with the names used in mappings (docs/dta-devices.md);
 * "5-tuple" stands for five of them. Thread-safe.
 */
#ifndef SL_DTA_QUERY_LAYOUT_H
#define SL_DTA_QUERY_LAYOUT_H

#include <jansson.h>

#include "dta/device/device.h"
#include "dta/store/store.h"

struct dta_layout {
	dta_field_set has; /* bit i: field i is part of the layout */
	uint32_t fields;
	struct {
		uint8_t field, bytes; /* bytes of a number; 0 means an address */
	} of[DTA_FIELDS];
};

/* Parses names; NULL means none. Returns false if a name or size is invalid or a name repeats. */
bool dta_layout_read(const char *names, struct dta_layout *out);
/*
 * Returns true if the layouts of a key and a value are valid for a store with this configuration.
 * Otherwise writes one line to error.
 */
bool dta_layout_fits(char *const names[2], const struct sl_store_config *c, char *error,
		     size_t error_bytes);
/*
 * Decodes the fields of a key or value. Addresses have 4 or 16 bytes, whichever gives the total
 * size n. Returns false if neither does.
 */
bool dta_layout_take(const struct dta_layout *l, const uint8_t *bytes, size_t n,
		     struct dta_record *out);
/*
 * Decodes the hexadecimal members "key" and "value" of a record, and adds their fields to it.
 * dta_layout_answer() adds only the value's fields, as an object "fields".
 */
void dta_layout_add(json_t *to, const struct dta_held *held);
void dta_layout_answer(json_t *to, const struct dta_held *held);
/* Returns the names of a record's columns, with "key" and "value" replaced by their fields. */
json_t *dta_layout_columns(const json_t *columns, const struct dta_held *held);

#endif
