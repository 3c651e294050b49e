/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dta.h - 'sidelight generate dta': reports with known results. The value for a key depends only on
 * the seed and the key: loss, order and repetition affect whether a query finds a value, but never
 * which value.
 */
#ifndef SL_CLI_GENERATE_DTA_H
#define SL_CLI_GENERATE_DTA_H

#include "cli/generate/generate.h"

#include <sidelight/store.h>

#include "dta/wire/auth.h"
#include "dta/query/query.h"
#include "dta/wire/wire.h"

#define GD_KINDS 5 /* number of report kinds; a kind is its opcode - 1 */

struct cli_dta_settings {
	const char *to, *kinds, *legacy_name, *expect, *key_file;
	const char *translator;
	uint64_t count, keys, seed, rate;
	double loss, duplicate, reorder;
	uint32_t tenant, store, reporters, reporter, incarnation, sequence;
	uint32_t key_bytes, value_bytes, copies, lists, hops, values, rows, columns, cells, epoch;
	uint32_t pack, mtu, show;
	uint64_t wait;
	bool essential, immediate, hll, count_sketch, json;
	/* Derived from the members above. */
	uint32_t kind[CLI_GENERATE_KINDS], n_kinds; /* opcodes of the kinds to send */
	enum dta_legacy legacy;
	/* key that authenticates packets; NULL means packets are not authenticated */
	struct dta_key *mac;
};

/* Load */

struct cli_dta_list {
	uint64_t items, delivered, sum; /* sum: the sum of the delivered items' numbers */
};

/*
 * Reporters share GD_SKETCHES sketches. Sketch i counts the keys whose number mod GD_SKETCHES is i
 * or i + 1, so that each key is in two sketches.
 */
#define GD_SKETCHES	4u
#define GD_SKETCH_KEYS	10000u /* maximum number of keys, the first of --keys */
#define GD_SKETCH_SHOWN 100u   /* maximum number of estimates to print: each reads all cells */

struct cli_dta_load {
	const struct cli_dta_settings *s;
	uint64_t n;		    /* number of generated reports */
	uint64_t of_kind[GD_KINDS]; /* number of generated reports per kind */
	uint64_t delivered[GD_KINDS];
	uint8_t *keywrite;   /* per key: true if the report was delivered */
	uint64_t *increment; /* per key: delivered sum */
	uint64_t *path;	     /* per key: bit mask of the delivered hops */
	struct cli_dta_list *list;
	uint64_t *cell; /* cells of the merged sketch, from delivered reports */
	/* cells of the shared sketches; reporter r uses sketch r % GD_SKETCHES */
	uint64_t *cells_of[GD_SKETCHES];
	uint64_t sketch_items; /* number of sketch items per reporter */
	uint64_t *sketch_next; /* per reporter: next sketch item */
};

struct cli_dta_report {
	struct dta_block shape;
	uint8_t key[SL_STORE_KEY_MAX], value[DTA_SKETCH_VALUE_MAX];
};

/* Returns 0 or -ENOMEM. */
int cli_dta_load_open(struct cli_dta_load *l, const struct cli_dta_settings *s);
void cli_dta_load_close(struct cli_dta_load *l);
/*
 * Generates the next report of this reporter. delivered is true if the report will not be lost.
 * Returns false if no reporter has reports left.
 */
bool cli_dta_load_next(struct cli_dta_load *l, uint32_t reporter, bool delivered,
		       struct cli_dta_report *r);
/* Return the key, the key-write value and the value of a hop for a key number. */
void cli_dta_key(const struct cli_dta_settings *s, uint64_t number, uint8_t *key);
void cli_dta_value(const struct cli_dta_settings *s, uint64_t number, uint8_t *value);
uint32_t cli_dta_hop(const struct cli_dta_settings *s, uint64_t number, uint32_t hop);
bool cli_dta_has_kind(const struct cli_dta_settings *s, uint32_t opcode);
extern const char *const cli_dta_kind_name[GD_KINDS + 1]; /* names of the kinds, NULL-terminated */

/*
 * Returns the sketch fields of struct sl_store_config. Estimates require a store with the same
 * fields.
 */
struct sl_store_config cli_dta_sketch_store(const struct cli_dta_settings *s);
/*
 * Computes the answer that a query of the merged sketch must give for a key. A NULL key means a
 * HyperLogLog. Returns 0, -EINVAL or -ENOMEM.
 */
int cli_dta_sketch_estimate(const struct cli_dta_load *l, const void *key,
			    struct dta_sketch_estimate *out);

/* Sending */

struct cli_dta_sent {
	uint64_t reports, packets, bytes; /* totals; each sequence number counts once */
	/* faults injected deliberately */
	uint64_t withheld, withheld_packets, duplicated, reordered;
	/* retransmissions and replies of the translators */
	uint64_t again, again_packets, answers, nacks, bad_answers;
	uint64_t unsettled; /* number of essential reports without acknowledgement */
	uint64_t unsent;    /* number of packets refused by the kernel */
	uint64_t elapsed_ns, cpu_ns;
	bool complete; /* false if sending stopped before the last report */
};

/* Sends a load. Returns 0, or a negative errno after printing an error. */
int cli_dta_send(const struct base_command *cmd, const struct cli_dta_settings *s,
		 struct cli_dta_load *l, struct cli_dta_sent *sent, int stop);

#endif
