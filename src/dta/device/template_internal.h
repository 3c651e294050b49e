/* SPDX-License-Identifier: Apache-2.0 */
/* template_internal.h - compiled templates, built by template.c, executed by template_record.c */
#ifndef SL_DTA_DEVICE_TEMPLATE_INTERNAL_H
#define SL_DTA_DEVICE_TEMPLATE_INTERNAL_H

#include "dta/device/template.h"

/* length that marks a variable-length field (RFC 7011, section 7) */
#define DTA_TEMPLATE_VARIABLE 65535u

/* DTA_OP_RANKED: a number that is long or shifted, or that several elements may set. */
enum dta_template_how {
	DTA_OP_NUMBER,
	DTA_OP_ADDRESS4,
	DTA_OP_ADDRESS6,
	DTA_OP_RANKED,
	DTA_OP_TEXT,
	DTA_OP_SKIP
};

/* Copies length bytes at offset of the record to an offset of struct dta_template_work. */
struct dta_template_op {
	uint16_t offset; /* for numbers in fixed-length records, the number's end */
	uint16_t length; /* DTA_TEMPLATE_VARIABLE: in the record, and every field has an op */
	uint16_t to;
	uint8_t how;
	uint8_t spare;	     /* for numbers: unused bits of the 64-bit word */
	uint8_t shift;	     /* for numbers: low bits that are not part of the value */
	uint8_t place, rank; /* see struct dta_element */
	bool cut;	     /* only the last 8 bytes of a longer value are read */
};

/* Processing of a record after its fields are copied. */
enum dta_template_step {
	DTA_STEP_TOS = 1,
	DTA_STEP_VERSION = 2,
	DTA_STEP_TIMES = 4,
	DTA_STEP_SAMPLING = 8, /* the record states a sampling rate or names a sampler */
	DTA_STEP_BOTH = 16,    /* has fields of both IP versions; rare, like the next one */
	DTA_STEP_ICMP = 32,
	DTA_STEP_REVERSE = 64,
	DTA_STEP_PROTOCOL = 128,
};
#define DTA_STEPS_RARE (DTA_STEP_BOTH | DTA_STEP_ICMP)

struct dta_template {
	struct dta_template *next;
	uint64_t seen_ns;
	dta_field_set has; /* fields that the records contain */
	uint32_t extra;	   /* bit i: enum dta_element_extra i is present */
	uint16_t id;
	uint16_t bytes;		  /* length of a record, or the minimum if it varies */
	uint16_t ops;		  /* sorted by how; in the order of the record if lengths vary */
	uint16_t numbers, v4, v6; /* ends of the first kinds of ops */
	bool options, varies;
	/* clear the work area before each record */
	bool clear;
	uint8_t both; /* bit i: address i may have either version */
	uint8_t steps;
	struct dta_template_op op[];
};

/* Decodes the records of a data set. t is NULL if the template is unknown. */
void dta_template_records(struct dta_template_message *m, const struct dta_template *t,
			  const uint8_t *set, size_t bytes);

#endif
