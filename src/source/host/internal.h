/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - of the files of this folder.
 *
 *   file.c        files that stay open: read again, and compared with the time before
 *   row.c         families with labels, a row of series for each device, processor or cgroup
 *   field.c       series whose names are made from what a file says
 *   proc_*.c      parsers of /proc, one function per file
 *   net_class.c, kernel.c, mount.c   what changes slowly: interfaces, settings, file systems
 *   cgroup_*.c    which cgroups there are, and their files of both versions
 *   host.c        what is read when
 *
 * Parsers take bytes and do no I/O.
 */
#ifndef SL_SOURCE_HOST_INTERNAL_H
#define SL_SOURCE_HOST_INTERNAL_H

#include <sys/types.h>

#include <sidelight/sidelight.h>

#include "source/host/host.h"
#include "source/host/text.h"

#define HOST_LOG	"host"
#define HOST_LEN(array) (sizeof(array) / sizeof(*(array)))

/* ---- file.c ---- */

#define HOST_FILE_MAX (4u << 20)

struct host_file {
	int fd;	   /* -1: there is none */
	bool same; /* it says what it said the last time */
	char *now, *before;
	size_t bytes, before_bytes, room, before_room;
};

void host_file_open(struct host *h, struct host_file *f, const char *path);
void host_file_close(struct host_file *f);
/* False: there is nothing to parse: it does not exist, it failed and counts, or it is the same. */
bool host_file_read(struct host *h, struct host_file *f);
/* Into the buffer, at most its bytes: how many, or -errno. */
ssize_t host_read_at(int folder, const char *path, char *to, size_t bytes);
/* All of an open file from its beginning, likewise; -EFBIG: there is more. */
ssize_t host_pread(int fd, char *to, size_t bytes);
/* The first line of a file of one value, without blanks at its ends; empty: there is none. */
struct host_text host_value_at(int folder, const char *path, char *buffer, size_t bytes);
int host_folder(const struct host *h, const char *path); /* a descriptor, or -errno */

/* ---- row.c ---- */

enum host_type { HOST_COUNTER, HOST_GAUGE, HOST_UNKNOWN };

union host_handle {
	struct sl_counter_f64 counter;
	struct sl_gauge_f64 gauge;
	struct sl_unknown unknown;
	uint64_t bits; /* 0: none */
};

struct host_cell {
	union host_handle handle;
	double value;
	bool tried;
};

/* A series of each row: its metric, and labels of its own. */
struct host_desc {
	const char *name, *help;
	enum host_type type;
	const char *key[2], *value[2];
};

struct host_row {
	char *raw, *values; /* of the labels, each with a NUL; as they came, and as published */
	size_t raw_bytes, count; /* count: of the parser */
	bool seen;
	struct host_cell cells[];
};

#define HOST_LABELS_MAX 12u
#define HOST_ROWS_MAX	4096u

struct host_group {
	struct host *h;
	const struct host_desc *descs;
	size_t n;
	const char *const *keys; /* of the labels of all series of a row */
	size_t key_count;
	bool skip_empty; /* leaves out labels without a value */
	uint64_t *families;
	struct host_row **rows;
	size_t count, room, next;
};

/* keys: the rest is NULL. */
void host_group_init(struct host *h, struct host_group *g, const struct host_desc *descs, size_t n,
		     const char *const *keys, size_t key_count);
void host_group_free(struct host_group *g);
/* The row of these labels, seen; created if it is new. NULL: no room, or out of memory: counted. */
struct host_row *host_row(struct host_group *g, const struct host_text *values);
bool host_row_exists(const struct host_group *g, const struct host_text *values);
void host_row_remove(struct host_group *g, struct host_row *r);
void host_put(struct host_group *g, struct host_row *r, size_t i, double v);
/* There is no such value any more. */
void host_unput(struct host_group *g, struct host_row *r, size_t i);
/* Removes the rows that were not seen since the last end. */
void host_group_end(struct host_group *g);

/* A family, and its series. */
uint64_t host_family(struct host *h, const struct host_desc *d);
union host_handle host_series(enum host_type type, uint64_t family, const struct sl_label *labels,
			      size_t n);
void host_set(struct host_cell *c, enum host_type type, double v);

/* ---- field.c ---- */

#define HOST_KEY_MAX	63u
#define HOST_FIELDS_MAX 1024u

struct host_field {
	char key[HOST_KEY_MAX + 1];
	size_t key_bytes;
	bool wanted;
	struct host_cell cell;
};

struct host_fields {
	struct host *h;
	enum host_type type;
	/* The name and the help of a key; false: it is not published. */
	bool (*describe)(const char *key, size_t n, char name[128], char help[192]);
	struct host_field *v;
	size_t n, room, next;
};

void host_fields_init(struct host *h, struct host_fields *f, enum host_type type,
		      bool (*describe)(const char *, size_t, char *, char *));
void host_fields_free(struct host_fields *f);
/* NULL: not wanted, or no room. The next call invalidates it. */
struct host_field *host_field(struct host_fields *f, const char *key, size_t n);
static inline void host_field_set(const struct host_fields *f, struct host_field *field, double v)
{
	if (field)
		host_set(&field->cell, f->type, v);
}
/* What Prometheus does not allow in a name becomes '_'. */
void host_name_clean(char *name);

/* ---- parsers: proc_stat.c, proc_memory.c, proc_disk.c, proc_net.c ---- */

#define HOST_CPU_MODES 10

struct host_stat {
	struct host_group cpus, one;
};

void host_stat_init(struct host *h, struct host_stat *s);
void host_stat_free(struct host_stat *s);
void host_stat_parse(struct host_stat *s, struct host_text t);

void host_schedstat_init(struct host *h, struct host_group *g);
void host_schedstat_parse(struct host_group *g, struct host_text t);
void host_softnet_init(struct host *h, struct host_group *g);
void host_softnet_parse(struct host_group *g, struct host_text t);

void host_meminfo_init(struct host *h, struct host_fields *f);
void host_meminfo_parse(struct host_fields *f, struct host_text t);
void host_vmstat_init(struct host *h, struct host_fields *f);
void host_vmstat_parse(struct host_fields *f, struct host_text t);
void host_loadavg_init(struct host *h, struct host_group *g);
void host_loadavg_parse(struct host_group *g, struct host_text t);

/* One file of /proc/pressure, or of a cgroup. In microseconds. */
struct host_pressure {
	uint64_t some, full;
	bool has_some, has_full;
};
struct host_pressure host_pressure_parse(struct host_text t);
void host_pressure_init(struct host *h, struct host_group *g);
void host_pressure_put(struct host_group *g, size_t resource, struct host_text t);

void host_disk_init(struct host *h, struct host_group *g);
void host_disk_parse(struct host_group *g, struct host_text t);
bool host_disk_ignored(struct host_text device);

void host_netdev_init(struct host *h, struct host_group *g);
void host_netdev_parse(struct host_group *g, struct host_text t);

/* The columns that are wanted, of a file of pairs of lines: names, and values. */
#define HOST_PAIRS_MAX 24u
struct host_column {
	uint32_t column, field; /* their numbers */
};
struct host_pair {
	char *names; /* the line of names as it was */
	size_t bytes;
	struct host_column *wanted;
	size_t count, room;
};
struct host_netstat {
	struct host_fields fields;
	struct host_pair pairs[2][HOST_PAIRS_MAX]; /* of snmp, and of netstat */
};
void host_netstat_init(struct host *h, struct host_netstat *n);
void host_netstat_free(struct host_netstat *n);
void host_netstat_parse(struct host_netstat *n, size_t file, struct host_text t);
void host_snmp6_parse(struct host_netstat *n, struct host_text t);
void host_sockstat_init(struct host *h, struct host_fields *f);
void host_sockstat_parse(struct host_fields *f, struct host_text t, bool v6);

/* ---- kernel.c ---- */

struct host_kernel {
	struct host_group one, info, os, os_version, zone, clock_now, clock_all, udp, arp;
	struct host_group timex;
	struct host_file filefd, entropy, pool, count, limit, conntrack, arp_file, udp_file[2];
};

void host_kernel_open(struct host *h, struct host_kernel *k);
void host_kernel_close(struct host_kernel *k);
void host_kernel_time(struct host_kernel *k); /* each round */
void host_kernel_second(struct host *h, struct host_kernel *k);
void host_kernel_slow(struct host *h, struct host_kernel *k);
void host_conntrack_parse(struct host_group *g, struct host_text t);
void host_arp_parse(struct host_group *g, struct host_text t);
void host_udp_parse(struct host_group *g, bool v6, struct host_text t);
void host_filefd_parse(struct host_group *g, struct host_text t);
void host_os_parse(struct host_kernel *k, struct host_text t);

/* ---- devices.c ---- */

struct host_devices {
	struct host_group link, link_info, disk_info, thermal, cooling, frequency;
};

void host_devices_open(struct host *h, struct host_devices *d);
void host_devices_close(struct host_devices *d);
void host_devices_slow(struct host *h, struct host_devices *d);

/* ---- mount.c ---- */

struct host_mounts;

struct host_mounts *host_mounts_open(struct host *h);
void host_mounts_close(struct host_mounts *m);
void host_mounts_slow(struct host *h, struct host_mounts *m); /* asks */
/* Publishes the answers, and marks those that do not come. */
void host_mounts_second(struct host_mounts *m, uint64_t now_ns);
void host_mounts_parse(struct host_mounts *m, struct host_text t);

/* ---- cgroup_parse.c: the files of both versions ---- */

/* Series of a cgroup; those of its devices are in a group of their own. */
enum host_container {
	HOST_CPU_USAGE,
	HOST_CPU_USER,
	HOST_CPU_SYSTEM,
	HOST_CFS_PERIODS,
	HOST_CFS_THROTTLED,
	HOST_CFS_THROTTLED_TIME,
	HOST_MEM_USAGE,
	HOST_MEM_WORKING_SET,
	HOST_MEM_RSS,
	HOST_MEM_CACHE,
	HOST_MEM_SWAP,
	HOST_MEM_MAPPED,
	HOST_MEM_MAX_USAGE,
	HOST_MEM_FAILCNT,
	HOST_MEM_FAULTS, /* of the cgroup, and with those below it; then major ones */
	HOST_MEM_FAULTS_BELOW,
	HOST_MEM_MAJOR,
	HOST_MEM_MAJOR_BELOW,
	HOST_OOM,
	HOST_PROCESSES,
	HOST_THREADS,
	HOST_THREADS_MAX,
	HOST_STALL_CPU, /* waiting, stalled; then those of I/O and memory */
	HOST_STALL_CPU_FULL,
	HOST_STALL_IO,
	HOST_STALL_IO_FULL,
	HOST_STALL_MEM,
	HOST_STALL_MEM_FULL,
	HOST_SPEC_PERIOD,
	HOST_SPEC_QUOTA,
	HOST_SPEC_SHARES,
	HOST_SPEC_MEMORY,
	HOST_SPEC_RESERVATION,
	HOST_SPEC_SWAP,
	HOST_START,
	HOST_SEEN,
	HOST_CONTAINER_SERIES,
};

enum { HOST_IO_READ_BYTES, HOST_IO_WRITE_BYTES, HOST_IO_READS, HOST_IO_WRITES, HOST_IO_SERIES };

#define HOST_IO_DEVICES 64u

struct host_io {
	uint32_t major, minor;
	uint64_t v[HOST_IO_SERIES];
};

/* What was read of a cgroup. */
struct host_container_values {
	double v[HOST_CONTAINER_SERIES];
	uint64_t has; /* a bit for each */
	uint64_t usage, inactive;
	struct host_io io[HOST_IO_DEVICES];
	size_t io_count;
};

enum host_cgroup_tier { HOST_TIER_FAST, HOST_TIER_SECOND, HOST_TIER_SLOW };

struct host_cgroup_file {
	const char *controller; /* of version 1; NULL: version 2 */
	const char *name;
	enum host_cgroup_tier tier;
	void (*parse)(struct host_container_values *c, struct host_text t);
};

extern const struct host_cgroup_file host_cgroup_files[];
extern const size_t host_cgroup_file_count;

/* ---- cgroup.c, cgroup_list.c ---- */

struct host_cgroups;

struct host_cgroups *host_cgroups_open(struct host *h, uint32_t max); /* NULL: nothing is mounted */
void host_cgroups_close(struct host_cgroups *c);
/* Reads the files of these tiers. */
void host_cgroups_read(struct host_cgroups *c, enum host_cgroup_tier tier);
void host_cgroups_look(struct host_cgroups *c); /* for new ones */

#define HOST_HIERARCHIES 16u

struct host_hierarchy {
	char controller[32]; /* empty: version 2 */
	int fd;
};

struct host_found {
	char *path; /* below the root: "", "/system.slice" */
	bool claimed;
};

/* Where cgroups are mounted, of a file like /proc/self/mounts: how many. */
size_t host_hierarchies_parse(const struct host *h, struct host_text mounts,
			      struct host_hierarchy out[HOST_HIERARCHIES]);

struct host_looked {
	uint64_t left_out; /* how many more there are at least */
	uint64_t errors;   /* folders that could not be read */
	bool incomplete;   /* for want of descriptors or memory: what is not found may be there */
};

/*
 * The cgroups that are published, at most max, to be freed; those that processes without privileges
 * may make come last.
 */
size_t host_cgroups_list(int root, struct host_found *out, size_t max, struct host_looked *looked);

/* ---- host.c ---- */

struct host_tier {
	uint64_t next_ns, every_ns, share; /* share: see host.c */
};

struct host {
	const char *root;
	struct sl_publisher *publisher;
	uint64_t interval_ns;
	struct host_counts counts;

	struct host_stat stat;
	struct host_group schedstat, softnet, loadavg, pressure, disk, netdev;
	struct host_fields meminfo, vmstat, sockstat;
	struct host_netstat netstat;
	struct host_kernel kernel;
	struct host_devices devices;
	struct host_mounts *mounts;
	struct host_cgroups *cgroups;

	struct host_file stat_file, schedstat_file, softnet_file, loadavg_file, meminfo_file;
	struct host_file vmstat_file, pressure_file[3], disk_file, netdev_file, netstat_file[2];
	struct host_file snmp6_file, sockstat_file[2];

	struct host_tier second, slow, cgroup_fast, cgroup_second, cgroup_limits, cgroup_slow;
};

/* The parsers of /proc; host_open() and host_close() call them. */
void host_parsers_init(struct host *h);
void host_parsers_free(struct host *h);

#endif
