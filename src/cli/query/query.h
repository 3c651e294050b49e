/* SPDX-License-Identifier: Apache-2.0 */
/*
 * query.h - queries one or several collectors. Translators spread keys over collectors
 * (dta/translate/hash_ring.h): each key is looked up at its own collector first, then at the
 * collectors that replaced it during an outage. Counters, lists and sketches can be spread over all
 * collectors: all are queried and the answers combined. An unreachable collector is reported on
 * stderr, and skipped while another one answers.
 */
#ifndef SL_CLI_QUERY_QUERY_H
#define SL_CLI_QUERY_QUERY_H

#include <jansson.h>

#include "base/base.h"
#include "dta/store/stores.h"
#include "dta/translate/hash_ring.h"

struct cli_query_settings {
	struct base_strings collectors;
	const char *policy;
	uint32_t copies, consensus, list, max;
	int32_t lane; /* lane of a list; -1 means all lanes */
	uint64_t epoch_at, from_at, within;
	bool has_epoch, has_from;
	/* token of --token-file; NULL means the token file in the user's runtime directory */
	char *token;
	const char *config; /* file of --http-config, or NULL */
};

/* The collectors to query. With several, cli_query_meet() asks each for its name and stores. */
struct cli_query_collectors {
	const struct cli_query_settings *set;
	struct {
		const char *at; /* address, HOST:PORT */
		/* name by which translators know the collector; "" means not named */
		char called[160];
		bool up;     /* it has the store, and has answered each query so far */
		char *token; /* bearer token; NULL means none */
		/* periods in which a replica received this collector's reports, or NULL */
		json_t *gaps;
	} member[DTA_HASH_RING_MEMBERS_MAX];
	uint32_t n;
	/* The store; only set with several collectors. */
	char kind[16];
	uint16_t tenant, store;
	struct dta_hash_ring ring;		     /* of the members with known names */
	uint32_t of_ring[DTA_HASH_RING_MEMBERS_MAX]; /* index in .member, by member of the ring */
	uint32_t replicas; /* number of collectors that store each key, 1 to 64 */
};

/* Calls put for each parameter that is set. */
void cli_query_parameters(const struct cli_query_settings *set,
			  void (*put)(void *context, const char *name, const char *value),
			  void *context);
/*
 * Prepares c for queries. Returns false after printing an error if no reachable collector has the
 * store. A NULL store means any store.
 */
bool cli_query_meet(struct cli_query_collectors *c, const struct cli_query_settings *set,
		    const char *store);
/*
 * Selects the collectors that have another store, among those that have answered so far; only these
 * are queried afterwards. Returns false if there are none. Prints an error for each collector
 * without the store, unless it is optional.
 */
bool cli_query_choose(struct cli_query_collectors *c, const char *store, bool optional);
/*
 * Returns an array of responses of GET /api/v1/dta/query, one per key, or NULL after printing an
 * error.
 */
json_t *cli_query_ask(struct cli_query_collectors *c, const char *store, char *const *keys,
		      size_t n);
/* Like cli_query_ask(), but queries one collector. */
json_t *cli_query_ask_one(struct cli_query_collectors *c, uint32_t member, const char *store,
			  char *const *keys, size_t n);
/* Returns the combined responses of GET /api/v1/dta/keys, or NULL after printing an error. */
json_t *cli_query_keys(struct cli_query_collectors *c, const char *store, size_t max, bool top);
#define CLI_QUERY_PATH 768 /* maximum size of a path */
/* Appends an escaped parameter to a path in a buffer of CLI_QUERY_PATH bytes. */
void cli_query_add_parameter(void *path, const char *key, const char *value);
/*
 * Sends a request to a collector: GET, POST with a body, or another method. Takes over the
 * reference to body, which may be NULL. If the collector does not answer, prints an error, returns
 * NULL, and does not ask it again.
 */
json_t *cli_query_send(struct cli_query_collectors *c, uint32_t member, const char *method,
		       const char *path, json_t *body);
/* The same for GET. */
json_t *cli_query_get(struct cli_query_collectors *c, uint32_t member, const char *path);

/*
 * Merges the rows or keys of another collector into rows. Adds up counts; if collectors hold
 * replicas, takes the greatest count instead. index: finds a row by what it counts; pass an empty
 * object at first.
 */
void cli_query_merge(json_t *rows, json_t *index, const json_t *more, bool replicas);
/* Returns the `max` rows or keys with the highest counts, in descending order. */
json_t *cli_query_highest(const json_t *rows, size_t max);

/* Returns the rank of a result, ascending: unknown, empty, conflict, found. */
int cli_query_weight(const json_t *answer);
/*
 * Lists the members to query for a key, in the order of the ring. A NULL key means a sketch or
 * list. Returns their number.
 */
uint32_t cli_query_order_of(const struct cli_query_collectors *c, const char *key,
			    uint32_t asked[DTA_HASH_RING_MEMBERS_MAX]);

/* replicas.c */

/*
 * Chooses among the answers of collectors that store the same keys: the i-th of each array in got,
 * for this key. Returns a copy with "replicas":
 * {"wanted","asked","agree","missing":[...],"differ":[...],"may_be_old"}, and the "gaps" of the
 * collector whose answer was chosen; NULL if there is no answer.
 */
json_t *cli_query_choose_answer(const struct cli_query_collectors *c, json_t *const *got, size_t i,
				const char *key);

/* sketch.c */

/*
 * Merges another collector's answer into all; both have cells. Sketches of the same epoch are
 * merged, otherwise the newer one wins. If cells cannot be merged (too many, or different seed or
 * size), the sketch with more reporters wins. key: the key of the query, or NULL. says_more: prefer
 * a unless both have a result.
 */
void cli_query_add_sketch(json_t *all, const json_t *a, const char *key, bool says_more);
/* Removes the members that only merging needs. */
void cli_query_end_sketch(json_t *all);

/*
 * export.c: exports a store to standard output as CSV (RFC 4180, with one header) or JSON lines.
 * Works page by page (dta/query/export.h), so that memory use does not depend on the store's size.
 */

struct cli_query_export {
	const struct base_command *self;
	bool json, slots;
	bool disagree; /* export only keys on which replicas disagree; the exit code is then 1 */
	/* file with one key per line: export the answers for these keys, or NULL */
	const char *keys;
	/* Queries keys, for the options keys and disagree. Returns NULL after printing an error. */
	json_t *(*ask)(char *const *keys, size_t n);
};

/* Exports from collectors that cli_query_meet() has prepared. Returns an exit code. */
int cli_query_export(const struct cli_query_export *x, struct cli_query_collectors *c,
		     const char *store);
/* Exports from a store's file: the epoch in the settings, or all epochs. Returns an exit code. */
int cli_query_export_object(const struct cli_query_export *x, const struct cli_query_settings *set,
			    const struct dta_store_object *object);

/*
 * names.c: translates addresses and numbers in answers about the network to names: addresses from
 * a hosts file or reverse DNS; devices, interfaces and AS from a names file; ports from the
 * system's list of services.
 */

#define CLI_NAME       300
#define CLI_NAMES_FLOW (5 * CLI_NAME)

struct cli_names_settings {
	const char *hosts; /* file in the format of hosts(5), or NULL */
	/* file of lines "device DEVICE NAME", "interface DEVICE NUMBER NAME", "as NUMBER NAME" */
	const char *names;
	bool resolve, numeric; /* resolve: use reverse DNS; numeric: leave ports as numbers */
};

/* Reads the files. Returns an exit code; prints an error on failure. */
int cli_names_read(const struct base_command *self, const struct cli_names_settings *set);

/* Stores the name that a device gave to an interface; a name from the file takes precedence. */
void cli_names_learn(const char *device, json_int_t number, const char *name);

/* Each function writes the name, or the number itself if it has no name. */
void cli_names_address(const char *address, char out[CLI_NAME]);
void cli_names_device(const json_t *device, char out[CLI_NAME]); /* an address or a number */
void cli_names_interface(const json_t *device, json_int_t number, char out[CLI_NAME]);
void cli_names_as(json_int_t number, char out[CLI_NAME]);
void cli_names_port(unsigned int port, unsigned int protocol, char out[CLI_NAME]);
/* Formats "flow:..." as "A:PORT > B:PORT PROTOCOL". */
void cli_names_flow(const char *flow, char out[CLI_NAMES_FLOW]);

/*
 * Replaces the names in DEVICE[/INTERFACE] with the device's address or number and the interface's
 * number.
 */
void cli_names_place(const char *place, char out[CLI_NAME]);

/* seen.c: query paths, drops and top: flows by device and time (dta/query/seen.h) */

struct cli_seen_settings {
	const char *through, *device, *interface, *by;
	const char *from, *to; /* a time, or a duration before now */
	/* lengths of the IPv4 prefix and, after a comma, the IPv6 prefix, such as "24,48" */
	const char *prefix;
	const char *reason;
	uint32_t max;
	bool json;
};

enum cli_seen_kind { CLI_SEEN_PATHS, CLI_SEEN_DROPS, CLI_SEEN_TOP, CLI_SEEN_KINDS };
extern const char *const cli_seen_names[]; /* NULL-terminated */

/*
 * Asks every collector and prints the combined rows. Adds up counts; if collectors hold replicas,
 * takes the greatest count instead. Returns an exit code: a failure if there are no rows.
 */
int cli_query_seen(const struct base_command *self, struct cli_query_collectors *c,
		   enum cli_seen_kind kind, const struct cli_seen_settings *set);

#endif
