/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dta.h - 'sidelight generate dta': reports whose outcome is known. The value reported for a key is
 * a function of seed and key alone: loss, order and repetition decide whether it is found, never
 * what is found.
 */
#ifndef SL_CLI_GENERATE_DTA_H
#define SL_CLI_GENERATE_DTA_H

#include "cli/generate/generate.h"

#include <sidelight/store.h>

#include "dta/wire/auth.h"
#include "dta/query/query.h"
#include "dta/wire/wire.h"

#define GD_KINDS 5 /* opcode - 1 */

struct cli_dta_settings {
	const char *to, *kinds, *distribution, *legacy_name, *expect, *key_file, *replay, *xdp;
	const char *translator;
	uint64_t count, keys, seed, rate;
	double zipf, loss, duplicate, reorder;
	uint32_t tenant, store, reporters, reporter, incarnation, sequence;
	uint32_t key_bytes, value_bytes, copies, lists, hops, values, rows, columns, cells, epoch;
	uint32_t pack, mtu, show;
	uint64_t wait;
	bool essential, immediate, hll, count_sketch, json;
	/* derived from these */
	uint32_t kind[CLI_GENERATE_KINDS], n_kinds; /* opcodes */
	enum { GD_SEQUENTIAL, GD_UNIFORM, GD_ZIPF } order;
	enum dta_legacy legacy;
	struct dta_key *mac; /* NULL: packets carry none */
};

/* ---- packets past the network stack, with HAVE_BPF ---- */

struct cli_dta_xdp;

/*
 * Sends out of an interface to the peer of a connected socket, packets of up to longest bytes. NULL
 * with errno and one line in error.
 */
struct cli_dta_xdp *cli_dta_xdp_open(const char *interface, int fd, uint32_t longest, char *error,
				     size_t error_bytes);
/*
 * Queues a packet; it leaves with others, at the latest by cli_dta_xdp_flush(). 0, or
 * -errno: some were not sent.
 */
int cli_dta_xdp_put(struct cli_dta_xdp *x, uint16_t port, const void *packet, uint32_t bytes);
int cli_dta_xdp_flush(struct cli_dta_xdp *x);
void cli_dta_xdp_close(struct cli_dta_xdp *x);

/* ---- load ---- */

struct cli_dta_list {
	uint64_t items, delivered, sum; /* sum of the numbers of delivered items */
};

/*
 * Reporters share GD_SKETCHES sketches. Sketch i counts keys whose number mod GD_SKETCHES is i or i
 * + 1, so that each key is in two.
 */
#define GD_SKETCHES	4u
#define GD_SKETCH_KEYS	10000u /* at most; the first of --keys */
#define GD_SKETCH_SHOWN 100u   /* at most, with estimates: each reads all cells */

struct cli_dta_flows;

struct cli_dta_load {
	const struct cli_dta_settings *s;
	struct cli_dta_flows *replay; /* replaces all other load; NULL: none */
	uint64_t n, random;	      /* reports made */
	uint64_t of_kind[GD_KINDS];   /* reports made of each */
	uint64_t delivered[GD_KINDS];
	uint8_t *keywrite;   /* of each key: delivered */
	uint64_t *increment; /* of each key: sum delivered */
	uint64_t *path;	     /* of each key: hops delivered */
	struct cli_dta_list *list;
	uint64_t *cell;			 /* of the sketch: merged, as delivered */
	uint64_t *cells_of[GD_SKETCHES]; /* of reporters: r has number r % GD_SKETCHES */
	uint64_t sketch_items;		 /* per reporter */
	uint64_t *sketch_next;		 /* of each reporter */
	double zipf_x1, zipf_n, zipf_s;	 /* Hormann and Derflinger's rejection inversion */
};

struct cli_dta_report {
	struct dta_block shape;
	uint8_t key[SL_STORE_KEY_MAX], value[DTA_SKETCH_VALUE_MAX];
};

/* 0, -ENOMEM. */
int cli_dta_load_open(struct cli_dta_load *l, const struct cli_dta_settings *s);
void cli_dta_load_close(struct cli_dta_load *l);
/* The next report of this reporter; delivered: it will arrive. False: no more of any reporter. */
bool cli_dta_load_next(struct cli_dta_load *l, uint32_t reporter, bool delivered,
		       struct cli_dta_report *r);
/* Key, value of key-write and value of a hop, of the key of that number. */
void cli_dta_key(const struct cli_dta_settings *s, uint64_t number, uint8_t *key);
void cli_dta_value(const struct cli_dta_settings *s, uint64_t number, uint8_t *value);
uint32_t cli_dta_hop(const struct cli_dta_settings *s, uint64_t number, uint32_t hop);
bool cli_dta_has_kind(const struct cli_dta_settings *s, uint32_t opcode);
extern const char *const cli_dta_kind_name[GD_KINDS + 1]; /* ends with NULL */

/* What a sketch takes of struct sl_store_config; the store must match for estimates. */
struct sl_store_config cli_dta_sketch_store(const struct cli_dta_settings *s);
/*
 * The answer that a query of the merged sketch must give for a key (HyperLogLog: NULL). 0, -EINVAL,
 * -ENOMEM.
 */
int cli_dta_sketch_estimate(const struct cli_dta_load *l, const void *key,
			    struct dta_sketch_estimate *out);

/* ---- a capture's flows ---- */

#define GD_FLOW_KEY 37u
/* packets: number of packets of flows in the file. NULL with one line in error. */
struct cli_dta_flows *cli_dta_flows_open(const char *path, uint64_t *packets, char *error,
					 size_t error_bytes);
void cli_dta_flows_close(struct cli_dta_flows *f);
/* Key and value of the next packet's report. False: end of file. */
bool cli_dta_flows_next(struct cli_dta_flows *f, bool delivered, struct cli_dta_report *r);
/* The i-th flow, and its bytes delivered. False: no more. */
bool cli_dta_flows_each(const struct cli_dta_flows *f, uint32_t i, const uint8_t **key,
			uint32_t *key_bytes, uint64_t *delivered);

/* ---- sending ---- */

struct cli_dta_sent {
	uint64_t reports, packets, bytes;			    /* each sequence number once */
	uint64_t withheld, withheld_packets, duplicated, reordered; /* deliberately */
	uint64_t again, again_packets, answers, nacks, bad_answers; /* as translators asked */
	uint64_t unsettled; /* essential reports not acknowledged */
	uint64_t unsent;    /* refused by the kernel */
	uint64_t elapsed_ns, cpu_ns;
};

/* Sends a load. 0, or -errno after one line on stderr. */
int cli_dta_send(const struct base_command *cmd, const struct cli_dta_settings *s,
		 struct cli_dta_load *l, struct cli_dta_sent *sent, int stop);

#endif
