/* SPDX-License-Identifier: Apache-2.0 */
/*
 * internal.h - shared by the files of this folder:
 * - file.c: files that stay open, are read again, and compared with their previous contents
 * - row.c: families with labels, with a row of series per device, processor or cgroup
 * - field.c: series whose names are derived from a file's contents
 * - proc_*.c: parsers of /proc, one function per file
 * - devices.c, kernel.c, mount.c: slowly changing data: devices, settings, file systems
 * - rdma*.c, nic.c: RDMA devices, and the drivers' counters of their network interfaces
 * - cgroup_*.c: lists cgroups and parses their files of both versions
 * - host.c: schedules the reads
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
	struct host_file *next; /* in host.files */
	int fd;			/* -1 means not open */
	char *now, *before;
	size_t bytes, room, before_room;
};

/* Opens a file, which host_close() closes. */
void host_file_open(struct host *h, struct host_file *f, const char *path);
void host_file_close(struct host_file *f);
/*
 * Returns false if there is nothing to parse: the file does not exist, cannot be read (which is
 * counted), or is unchanged.
 */
bool host_file_read(struct host *h, struct host_file *f);
static inline struct host_text host_contents(const struct host_file *f)
{
	return host_text(f->now, f->bytes);
}
/* Reads a file into a buffer. Returns the number of bytes or -errno. */
ssize_t host_read_at(int folder, const char *path, char *to, size_t bytes);
/*
 * Reads an open file from its start. Returns the number of bytes or -errno (-EFBIG if the file is
 * too large).
 */
ssize_t host_pread(int fd, char *to, size_t bytes);
/* Reads the first line of a file and strips blanks at both ends; empty if it cannot be read. */
struct host_text host_value_at(int folder, const char *path, char *buffer, size_t bytes);
int host_folder(const struct host *h, const char *path); /* returns a descriptor or -errno */

/* ---- row.c ---- */

enum host_type { HOST_COUNTER, HOST_GAUGE, HOST_UNKNOWN };

union host_handle {
	struct sl_counter_f64 counter;
	struct sl_gauge_f64 gauge;
	struct sl_unknown unknown;
	uint64_t bits; /* 0 means no series */
};

struct host_cell {
	union host_handle handle;
	double value;
	bool tried;
};

/* A series in each row: its metric, and labels in addition to the row's labels. */
struct host_desc {
	const char *name, *help;
	enum host_type type;
	const char *key[2], *value[2];
	/* name of the file below the device's directory, or key in a file, that has the value */
	const char *file;
	double unit; /* factor from the value in the file to the published value */
};
/* Further members can be initialised after type_, as in .file = "carrier". */
#define HOST_DESC(name_, help_, type_, ...)                                      \
	{                                                                        \
		.name = (name_), .help = (help_), .type = (type_), ##__VA_ARGS__ \
	}

struct host_row {
	char *raw, *values;	 /* label values as read and as published, each terminated by NUL */
	size_t raw_bytes, count; /* count: for use by the parser */
	bool seen;
	struct host_cell cells[];
};

#define HOST_LABELS_MAX 12u
#define HOST_ROWS_MAX	4096u

struct host_group {
	struct host *h;
	struct host_group *after; /* next group in host.groups */
	const struct host_desc *descs;
	size_t n;
	const char *const *keys; /* names of the labels of a row */
	size_t key_count;
	bool skip_empty; /* leave out labels whose value is empty */
	uint64_t *families;
	struct host_row **rows;
	size_t count, room, next;
};

/* Initialises a group if it is not yet in use; host_close() frees it. Returns g. */
struct host_group *host_group(struct host *h, struct host_group *g, const struct host_desc *descs,
			      size_t n, const char *const *keys, size_t key_count);
void host_group_free(struct host_group *g);
/*
 * Finds or creates the row with these labels and marks it as seen. Returns NULL, and counts it, if
 * there is no room or memory.
 */
struct host_row *host_row(struct host_group *g, const struct host_text *values);
void host_row_remove(struct host_group *g, struct host_row *r);
void host_put(struct host_group *g, struct host_row *r, size_t i, double v);
/* Removes a value that no longer exists. */
void host_unput(struct host_group *g, struct host_row *r, size_t i);
/* Removes the rows that were not seen since the previous call. */
void host_group_end(struct host_group *g);

/* Creates a family, and a series of a family. */
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
	struct host_cell cell;
};

struct host_fields {
	struct host *h;
	enum host_type type;
	/* Sets the name and help of the metric of a key. */
	void (*describe)(const char *key, size_t n, char name[128], char help[192]);
	struct host_field *v;
	size_t n, room, next;
};

/* Initialises fields unless they are in use. Returns f. */
struct host_fields *host_fields(struct host *h, struct host_fields *f, enum host_type type,
				void (*describe)(const char *, size_t, char *, char *));
void host_fields_free(struct host_fields *f);
/* Finds or adds a key. Returns NULL if there is no room. The next call invalidates the result. */
struct host_field *host_field(struct host_fields *f, const char *key, size_t n);
static inline void host_field_set(const struct host_fields *f, struct host_field *field, double v)
{
	if (field)
		host_set(&field->cell, f->type, v);
}
/* Replaces characters that Prometheus does not allow in a name with '_'. */
void host_name_clean(char *name);

/* ---- parsers: proc_stat.c, proc_memory.c, proc_disk.c, proc_net.c ---- */

void host_stat_parse(struct host *h, struct host_text t);
void host_schedstat_parse(struct host *h, struct host_text t);
void host_softnet_parse(struct host *h, struct host_text t);
void host_meminfo_parse(struct host *h, struct host_text t);
void host_vmstat_parse(struct host *h, struct host_text t);
void host_loadavg_parse(struct host *h, struct host_text t);

/* The contents of a file in /proc/pressure or of a cgroup's pressure file, in microseconds. */
struct host_pressure {
	uint64_t some, full;
	bool has_some, has_full;
};
struct host_pressure host_pressure_parse(struct host_text t);
void host_pressure_put(struct host *h, size_t resource, struct host_text t);

void host_disk_parse(struct host *h, struct host_text t);
bool host_disk_ignored(struct host_text device);

void host_netdev_parse(struct host *h, struct host_text t);

/* The wanted columns of a file that consists of pairs of lines: names, then values. */
#define HOST_PAIRS_MAX 24u
struct host_column {
	uint32_t column, field; /* index of a wanted column, and of its field */
};
struct host_pair {
	char *names; /* copy of the name line for which .wanted was computed */
	size_t bytes;
	struct host_column *wanted;
	size_t count, room;
};
struct host_netstat {
	struct host_fields fields;
	struct host_pair pairs[2][HOST_PAIRS_MAX]; /* pairs of lines in snmp [0] and netstat [1] */
};
void host_netstat_free(struct host_netstat *n);
void host_netstat_parse(struct host *h, size_t file, struct host_text t);
void host_snmp6_parse(struct host *h, struct host_text t);
void host_sockstat_parse(struct host *h, struct host_text t);

/* ---- kernel.c ---- */

struct host_kernel {
	struct host_group one, info, os, os_version, zone, clock_now, clock_all, udp, arp;
	struct host_group timex;
	struct host_file entropy, pool, count, limit, udp_file[2];
};

void host_kernel_open(struct host *h, struct host_kernel *k);
void host_kernel_time(struct host_kernel *k); /* called each round */
void host_kernel_second(struct host *h, struct host_kernel *k);
void host_kernel_slow(struct host *h, struct host_kernel *k);
void host_conntrack_parse(struct host *h, struct host_text t);
void host_arp_parse(struct host *h, struct host_text t);
void host_udp_parse(struct host_group *g, bool v6, struct host_text t);
void host_filefd_parse(struct host *h, struct host_text t);
void host_os_parse(struct host_kernel *k, struct host_text t);

/* ---- rdma.c, rdma_resource.c, nic.c ---- */

struct host_devices;

struct host_rdma {
	struct host_group info, port, port_info, hw, resources, nic;
	struct host_text device; /* the device whose ports are being read */
};

void host_rdma_open(struct host *h, struct host_rdma *d);
void host_rdma_second(struct host *h, struct host_devices *all);
bool host_counter_name(struct host_text name); /* [A-Za-z0-9_]{1,64} */
void host_rdma_resources_read(struct host_group *g);
/* Parses netlink messages about devices. Returns false after the last one. */
bool host_rdma_resources_parse(struct host_group *g, struct host_text t);
void host_nic_read(struct host_group *g, struct host_text interface);
/* Takes n names of ETH_GSTRING_LEN bytes each, and their values. */
void host_nic_parse(struct host_group *g, struct host_text interface, const char *names,
		    const uint64_t *values, size_t n);

/* ---- devices.c ---- */

struct host_devices {
	struct host_group link, link_info, disk_info, thermal, cooling, frequency;
	struct host_rdma rdma;
};

/* Calls take() for each directory below path whose name begins with prefix. */
void host_each_directory(struct host *h, const char *path, const char *prefix,
			 void (*take)(struct host_devices *, int folder, struct host_text name),
			 struct host_devices *d);

void host_devices_open(struct host *h, struct host_devices *d);
void host_devices_slow(struct host *h, struct host_devices *d);

/* ---- mount.c ---- */

struct host_mounts;

struct host_mounts *host_mounts_open(struct host *h);
void host_mounts_close(struct host_mounts *m);
/* Queues all mounts to be queried. */
void host_mounts_slow(struct host *h, struct host_mounts *m, uint64_t now_ns);
/* Publishes the results, and marks mounts that do not respond. */
void host_mounts_second(struct host_mounts *m, uint64_t now_ns);
/* Parses two files in the format of /proc/PID/mountinfo: the host's, and this process's own. */
void host_mounts_parse(struct host_mounts *m, struct host_text t, struct host_text own);

/* ---- cgroup_parse.c: the files of both versions ---- */

/* Series of a cgroup; the series of its devices are in a separate group. */
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
	HOST_MEM_FAULTS, /* minor and major faults: of the cgroup, and including its descendants */
	HOST_MEM_FAULTS_BELOW,
	HOST_MEM_MAJOR,
	HOST_MEM_MAJOR_BELOW,
	HOST_OOM,
	HOST_PROCESSES,
	HOST_THREADS,
	HOST_THREADS_MAX,
	HOST_STALL_CPU, /* time waiting and stalled for CPU, then for I/O and memory */
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

/* Values read from a cgroup's files. */
struct host_container_values {
	double v[HOST_CONTAINER_SERIES];
	uint64_t has; /* bit i is set if the value v[i] was read */
	uint64_t usage, inactive;
	struct host_io io[HOST_IO_DEVICES];
	size_t io_count;
};

enum host_cgroup_tier { HOST_TIER_FAST, HOST_TIER_SECOND, HOST_TIER_SLOW };

struct host_cgroup_key;

struct host_cgroup_file {
	const char *controller; /* controller of version 1; NULL means version 2 */
	const char *name;
	enum host_cgroup_tier tier;
	void (*parse)(struct host_container_values *c, struct host_text t,
		      const struct host_cgroup_file *f);
	unsigned int series; /* the file's only or first series: host_container, or HOST_IO_... */
	double unit;	     /* of that series; 0 means 1 */
	const struct host_cgroup_key *keys; /* keys of the lines to read, if the file has several */
	size_t key_count;
};

extern const struct host_cgroup_file host_cgroup_files[];
extern const size_t host_cgroup_file_count;

/* ---- cgroup.c, cgroup_list.c ---- */

struct host_cgroups;

/* returns NULL if no cgroup hierarchy is mounted */
struct host_cgroups *host_cgroups_open(struct host *h, uint32_t max);
void host_cgroups_close(struct host_cgroups *c);
/* Reads the files of the given tier. */
void host_cgroups_read(struct host_cgroups *c, enum host_cgroup_tier tier);
void host_cgroups_look(struct host_cgroups *c); /* looks for new cgroups */

struct host_found {
	char *path; /* path below the root, such as "" or "/system.slice" */
	bool claimed;
};

/*
 * Lists at most max cgroups to be published; the caller frees their paths. Those that unprivileged
 * processes may create come last. Counts errors, and cgroups left out (a lower bound, because the
 * walk may stop early). Sets *incomplete if some may be missing because descriptors or memory ran
 * out.
 */
size_t host_cgroups_list(int root, struct host_found *out, size_t max, struct host_counts *counts,
			 bool *incomplete);

/* ---- host.c ---- */

enum { HOST_DISKSTATS, HOST_SOURCES = 14, HOST_TIERS = 7 };

struct host {
	const char *root;
	struct sl_publisher *publisher;
	uint64_t interval_ns;
	struct host_counts counts;
	struct host_file *files;   /* list of open files */
	struct host_group *groups; /* list of all groups */

	struct host_group cpus, stat, schedstat, softnet, loadavg, pressure, disk, netdev;
	struct host_fields meminfo, vmstat, sockstat;
	struct host_netstat netstat;
	struct host_kernel kernel;
	struct host_devices devices;
	struct host_mounts *mounts;
	struct host_cgroups *cgroups;

	/* see host.c */
	struct host_file source[HOST_SOURCES];
	struct host_file pressure_file[3], netstat_file[2];
	uint64_t next_ns[HOST_TIERS];
};

void host_parsers_free(struct host *h); /* closes all files, and frees what all parsers hold */

#endif
