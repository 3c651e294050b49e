/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stores.h - what a file of stores says (yaml.c), and the memory of one store's objects (object.c).
 * The owner (owner.h) puts both to use.
 */
#ifndef SL_DTA_STORE_STORES_H
#define SL_DTA_STORE_STORES_H

#include "base/base.h"
#include "dta/wire/auth.h"
#include "dta/io/rdma_host.h"
#include "dta/store/store.h"

struct base_yaml;

enum dta_stores_hugepages { DTA_HUGE_AUTO = 0, DTA_HUGE_ALWAYS, DTA_HUGE_NEVER };

struct dta_tenant_spec {
	uint16_t number;
	char name[64];
	uint64_t rate, burst; /* reports a second; 0: any */
	bool has_key, required;
	uint8_t key[DTA_KEY_BYTES];
};

struct dta_store_spec {
	char name[64];
	struct sl_store_config config; /* without first_epoch; seed: as given, or random */
	bool seeded;		       /* the file says the seed */
	uint64_t epoch_ns;	       /* 0: only when told to */
	char keylog[64];
	uint32_t *values; /* postcard: what a hop may say, sorted; NULL: anything */
	size_t value_count;
};

struct dta_stores_config {
	struct base_strings listen;
	const char *directory; /* NULL: memory */
	enum dta_stores_hugepages hugepages;
	uint64_t drain_ns; /* after so long a translator that has not said "rotated" is let go */
	uint8_t *secret;   /* of the control channel over TCP; NULL: none */
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

/*
 * Reads a file, or (text) what is called path in complaints. NULL with one line in error:
 * "FILE:LINE: what". text: opens no other file (keys, values, secret): it is for tests of what is
 * said.
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
	uint64_t map_bytes; /* of the mapping: the object's, rounded up to its pages */
	const char *pages; /* "huge", "transparent", "mixed" (the memory came to an end), "small" */
	uint64_t huge_bytes; /* of it in pages of 2 MiB */
	char *path;	     /* of its file; NULL: memory */
	bool registered;     /* the owner's, for RDMA: key */
	struct dta_rdma_host_key key;
};

/* Makes one. NULL with one line in error. first_epoch and seed: in config. directory NULL: in
 * memory. */
struct dta_store_object *dta_store_object_new(const struct sl_store_config *config,
					      const char *name, const char *directory,
					      enum dta_stores_hugepages huge, char *error,
					      size_t error_bytes);
/*
 * The objects of a store that its directory has, newest first; NULL with an empty error: there are
 * none; NULL with an error: what there is can't be used, and stays as it is.
 */
struct dta_store_object *dta_store_object_find(const struct sl_store_config *config, bool seeded,
					       const char *name, const char *directory, char *error,
					       size_t error_bytes);
/* Maps a file for reading alone: for queries without an owner. NULL with a line in error. */
struct dta_store_object *dta_store_object_open(const char *path, char *error, size_t error_bytes);
struct dta_store_object *dta_store_object_open_fd(int fd, char *error,
						  size_t error_bytes); /* the caller's */
/*
 * Has what is mapped put into huge pages where the kernel can (memory, files of a tmpfs), and says
 * in pages and huge_bytes what came of it. Before it is registered: what a device knows is not
 * moved.
 */
void dta_store_object_collapse(struct dta_store_object *o);
/* One; unlink: its file goes, too. NULL is nothing. */
void dta_store_object_free(struct dta_store_object *o, bool unlink_file);

/* ---- limits.c ---- */

enum dta_limit { DTA_LIMIT_MEMORY = 0, DTA_LIMIT_HUGETLB /* reserved pages of 2 MiB */ };
/*
 * Bytes that the limits of this process's cgroup, and of those above it, leave; UINT64_MAX: no
 * limit is known. Who takes more is killed: by the kernel, or of huge pages by SIGBUS.
 */
uint64_t dta_limits_left(enum dta_limit what);
/* The same by another /proc/self/cgroup and /sys/fs/cgroup: for tests. */
uint64_t dta_limits_left_in(enum dta_limit what, const char *cgroups, const char *root);

#endif
