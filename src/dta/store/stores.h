/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores.h - the file of stores (yaml.c) and the memory of a store's objects (object.c). The store
 * server (store_server/) uses both.
 */
#ifndef SL_DTA_STORE_STORES_H
#define SL_DTA_STORE_STORES_H

#include "base/base.h"
#include "dta/wire/auth.h"
#include "dta/store/store.h"

struct base_yaml;

enum dta_stores_hugepages { DTA_HUGE_AUTO = 0, DTA_HUGE_ALWAYS, DTA_HUGE_NEVER };

struct dta_tenant_spec {
	uint16_t number;
	char name[64];
	uint64_t rate, burst; /* reports per second; 0: unlimited */
	bool required;
	struct dta_key_spec *keys;
	size_t key_count;
};

/* A key whose value is a series of the collector. */
struct dta_series_spec {
	char name[64];
	uint8_t key[SL_STORE_KEY_MAX];
	uint32_t key_bytes;
	uint32_t at, bytes; /* key-write: the part of the value that is the number, big-endian */
};

struct dta_store_spec {
	char name[64];
	struct sl_store_config config; /* without first_epoch; seed: as given, or random */
	bool seeded;		       /* the file gives the seed */
	uint64_t epoch_ns;	       /* 0: rotated only on request */
	char keylog[64];
	uint32_t *values; /* postcard: what a hop may report, sorted; NULL: anything */
	size_t value_count;
	struct dta_series_spec *series;
	size_t series_count;
};

struct dta_stores_config {
	struct base_strings listen;
	const char *directory; /* NULL: memory */
	const char *peer; /* a collector with the same keys: its socket, or HOST:PORT; or NULL */
	enum dta_stores_hugepages hugepages;
	uint64_t drain_ns; /* a translator that has not answered "rotated" by then is dropped */
	uint8_t *secret;   /* of the control channel over TCP, or NULL */
	size_t secret_bytes;
	struct {
		bool enabled;
		const char *device, *address; /* NULL: any */
		uint16_t port;		      /* 0: default */
		int gid_index, ib_port;
	} rdma;
	struct dta_tenant_spec *tenants;
	size_t tenant_count;
	struct dta_store_spec *stores;
	size_t store_count;
};

#define DTA_STORES_MAX	256u
#define DTA_TENANTS_MAX 1024u
#define DTA_SERIES_MAX	1024u /* of a file */

/*
 * Reads a file, or with dta_stores_text() a text that messages name path. NULL with "FILE:LINE:
 * what" in error. A text opens no other file (keys, values, secret).
 */
struct dta_stores_config *dta_stores_read(const char *path, char *error, size_t error_bytes);
struct dta_stores_config *dta_stores_text(const char *path, const char *text, size_t bytes,
					  char *error, size_t error_bytes);
void dta_stores_config_free(struct dta_stores_config *c);

/* ---- objects ---- */

struct dta_store_object {
	struct dta_store_object *older;
	struct dta_store_view view;
	uint32_t number;
	int fd;
	uint64_t map_bytes;  /* of the mapping: the object's size rounded up to pages */
	const char *pages;   /* "huge", "transparent", "mixed", "small" */
	uint64_t huge_bytes; /* in pages of 2 MiB */
	char *path;	     /* of its file; NULL: memory */
	/* Of a store server (mend.c): the first SL_STORE_EPOCHS_OFFSET bytes, and the epoch line.
	 */
	uint8_t *head;
	struct dta_store_epochs epochs;
	uint64_t faults; /* of pages that were gone, mended */
	/* With RDMA, filled in by the store server. */
	bool registered;
	uint64_t addr; /* of the first byte */
	uint32_t rkey;
	void *mr;
	struct { /* for a peer on another host; mr NULL: not registered */
		uint64_t addr;
		uint32_t rkey;
		void *mr;
	} readable;
};

/*
 * Makes an object, in memory if directory is NULL. config has first_epoch and seed. NULL with one
 * line in error.
 */
struct dta_store_object *dta_store_object_new(const struct sl_store_config *config,
					      const char *name, const char *directory,
					      enum dta_stores_hugepages huge, char *error,
					      size_t error_bytes);
/*
 * Opens the objects of a store that directory holds, newest first. NULL with an empty error: there
 * are none; NULL with an error: they cannot be used, and stay as they are.
 */
struct dta_store_object *dta_store_object_find(const struct sl_store_config *config, bool seeded,
					       const char *name, const char *directory, char *error,
					       size_t error_bytes);
/* Maps a file read-only, for queries without a store server. NULL with one line in error. */
struct dta_store_object *dta_store_object_open(const char *path, char *error, size_t error_bytes);
struct dta_store_object *dta_store_object_open_fd(int fd, char *error,
						  size_t error_bytes); /* fd stays the caller's */
/*
 * Collapses the mapping into huge pages where the kernel can, and records the result in pages and
 * huge_bytes. Before registration: a device's pages are not moved.
 */
void dta_store_object_collapse(struct dta_store_object *o);
/* Frees one object, and with unlink_file removes its file. NULL is ignored. */
void dta_store_object_free(struct dta_store_object *o, bool unlink_file);

/* ---- mend.c: an object that translators may spoil ---- */

/*
 * Keeps what the object must be, and survives the loss of its pages (guard.h, which has wake). 0 or
 * -errno.
 */
int dta_store_object_keep(struct dta_store_object *o, int wake);
/* Before dta_store_object_free(). */
void dta_store_object_let_go(struct dta_store_object *o);
/* Sets the epoch line, and keeps it. */
void dta_store_object_epochs(struct dta_store_object *o, const struct dta_store_epochs *e);
/*
 * Puts right what is wrong. NULL, or what it was. moved: mapped again, so that a device's pages are
 * others.
 */
const char *dta_store_object_mend(struct dta_store_object *o, bool *moved);

/* ---- limits.c ---- */

enum dta_limit { DTA_LIMIT_MEMORY = 0, DTA_LIMIT_HUGETLB /* reserved pages of 2 MiB */ };
/*
 * Bytes that the limits of this process's cgroup and its ancestors leave; UINT64_MAX: no limit. A
 * process that exceeds them is killed, with huge pages by SIGBUS.
 */
uint64_t dta_limits_left(enum dta_limit what);
/* The same with other paths, for tests. */
uint64_t dta_limits_left_in(enum dta_limit what, const char *cgroups, const char *root);

#endif
