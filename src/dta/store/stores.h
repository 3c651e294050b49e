/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores.h - the stores file (yaml.c) and the memory of a store's objects (object.c), both used by
 * the store server (store_server/).
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
	uint64_t rate, burst; /* reports per second; 0 means unlimited */
	bool required;
	struct dta_key_spec *keys;
	size_t key_count;
};

/* A key whose value the collector exports as a series. */
struct dta_series_spec {
	char name[64];
	uint8_t key[SL_STORE_KEY_MAX];
	uint32_t key_bytes;
	/* key-write: position and size of the big-endian number in the value */
	uint32_t at, bytes;
};

struct dta_store_spec {
	char name[64];
	struct sl_store_config config; /* first_epoch is not set; seed is as specified, or random */
	bool seeded;		       /* the stores file specifies the seed */
	uint64_t epoch_ns;	       /* 0 means rotate only on request */
	char keylog[64];
	/* names of the key's and the value's fields, separated by commas; or NULL */
	char *layout[2];
	uint32_t *values; /* postcard: the sorted values that a hop may report; NULL means any */
	size_t value_count;
	struct dta_series_spec *series;
	size_t series_count;
};

struct dta_stores_config {
	struct base_yaml *yaml; /* owns the texts of the following fields */
	struct base_strings listen;
	const char *directory; /* directory of the files; NULL means in memory */
	/* a collector with the same keys: the path of its socket, HOST:PORT, or NULL */
	const char *peer;
	enum dta_stores_hugepages hugepages;
	/* time after which a translator that has not answered "rotated" is dropped */
	uint64_t drain_ns;
	uint8_t *secret; /* control channel secret for TCP, or NULL */
	size_t secret_bytes;
	bool insecure_listen; /* accept connections from other hosts without a secret */
	struct {
		bool enabled;
		const char *device, *address; /* NULL means any device or address */
		uint16_t port;		      /* 0 means the default port */
		int gid_index, ib_port;
	} rdma;
	struct dta_tenant_spec *tenants;
	size_t tenant_count;
	struct dta_store_spec *stores;
	size_t store_count;
	/* once replaced by a reload (store_server/hold.c): the next older one, and when */
	struct dta_stores_config *next;
	uint64_t turn;
};

#define DTA_STORES_MAX	256u
#define DTA_TENANTS_MAX 1024u
#define DTA_SERIES_MAX	1024u /* maximum number of series per file */

/*
 * Reads a file, or a text, for which messages use path as the file name. Returns NULL with
 * "FILE:LINE: message" in error. dta_stores_text() opens no other files (keys, values, secret).
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
	uint64_t map_bytes;  /* mapping size: the object's size rounded up to pages */
	const char *pages;   /* "huge", "transparent", "mixed" or "small" */
	uint64_t huge_bytes; /* bytes in pages of 2 MiB */
	char *path;	     /* path of the file; NULL means in memory */
	/*
	 * The store server's copy (mend.c) of the epoch line and of the first
	 * SL_STORE_EPOCHS_OFFSET bytes.
	 */
	uint8_t *head;
	struct dta_store_epochs epochs;
	uint64_t faults; /* number of faults on lost pages that were repaired */
	/*
	 * bank that is being zeroed without the lock, or NULL; its units already count as expired
	 */
	const uint8_t *zeroed;
	/*
	 * Registrations for translators and for a peer on another host, if the store server uses
	 * RDMA. mr is NULL if not registered.
	 */
	struct dta_store_key {
		uint64_t addr; /* address of the first byte */
		uint32_t rkey;
		void *mr;
	} writable, readable;
	uint64_t turn; /* when it was retired (store_server/hold.c) */
};

/*
 * Creates an object, in memory if directory is NULL. config includes first_epoch and seed. Returns
 * NULL with one line in error.
 */
struct dta_store_object *dta_store_object_new(const struct sl_store_config *config,
					      const char *name, const char *directory,
					      enum dta_stores_hugepages huge, char *error,
					      size_t error_bytes);
/*
 * Opens a store's objects in directory, newest first. Returns NULL with an empty error if there are
 * none. Returns NULL with an error if the files can't be used; they are then left unchanged.
 */
struct dta_store_object *dta_store_object_find(const struct sl_store_config *config, bool seeded,
					       const char *name, const char *directory, char *error,
					       size_t error_bytes);
/*
 * Maps a file read-only, for queries without a store server. Returns NULL with one line in error.
 */
struct dta_store_object *dta_store_object_open(const char *path, char *error, size_t error_bytes);
struct dta_store_object *dta_store_object_open_fd(int fd, char *error,
						  size_t error_bytes); /* the caller keeps fd */
/*
 * Collapses the mapping into huge pages where the kernel can, and records the result in pages and
 * huge_bytes. Call it before registration, because pages registered with a device can't be moved.
 */
void dta_store_object_collapse(struct dta_store_object *o);
/* Frees one object and, with unlink_file, deletes its file. NULL is ignored. */
void dta_store_object_free(struct dta_store_object *o, bool unlink_file);
/* Frees an object and all older ones; files remain. NULL is ignored. */
void dta_store_objects_free(struct dta_store_object *newest);

/* ---- mend.c: repairs objects that translators have damaged ---- */

/*
 * Saves the object's header and epoch line, and guards its pages (guard.h, which also explains
 * wake). Returns 0 or -errno.
 */
int dta_store_object_keep(struct dta_store_object *o, int wake);
/* Undoes dta_store_object_keep(). Call it before dta_store_object_free(). */
void dta_store_object_let_go(struct dta_store_object *o);
/* Sets the epoch line in the object and in the saved copy. */
void dta_store_object_epochs(struct dta_store_object *o, const struct dta_store_epochs *e);
/*
 * Repairs the object. Returns NULL if there was nothing to repair, or a description of the damage.
 * moved: the object was mapped again and must be registered with the device again.
 */
const char *dta_store_object_mend(struct dta_store_object *o, bool *moved);

/* ---- limits.c ---- */

enum dta_limit { DTA_LIMIT_MEMORY = 0, DTA_LIMIT_HUGETLB /* reserved pages of 2 MiB */ };
/*
 * Returns the number of bytes that the limits of this process's cgroup and its ancestors leave;
 * UINT64_MAX means no limit. The kernel kills a process that exceeds a memory limit; for huge pages
 * it sends SIGBUS.
 */
uint64_t dta_limits_left(enum dta_limit what);
/* Like dta_limits_left(), with other paths for tests. */
uint64_t dta_limits_left_in(enum dta_limit what, const char *cgroups, const char *root);

#endif
