/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - maps a cgroup id to its container, pod, namespace and service, using the cgroup's path
 * and the files of container runtimes. Independent of eBPF. A struct tcp_cgroups must be used by
 * one thread at a time.
 *
 * Names come from files whose content a container's owner controls. They are therefore truncated,
 * and bytes that could control a terminal or are not valid UTF-8 are replaced by '?'. Only ids made
 * of hexadecimal digits are used to build paths of files to open.
 */
#ifndef SL_SOURCE_TCP_CGROUP_H
#define SL_SOURCE_TCP_CGROUP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TCP_CGROUP_PATH_BYTES 512
#define TCP_CGROUP_NAME_BYTES 128

struct tcp_cgroup_identity {
	uint64_t id;
	/* below the root, which is "/"; the beginning of a long path is cut off */
	char path[TCP_CGROUP_PATH_BYTES];
	char runtime[16]; /* "docker", "containerd", "podman", "systemd", ...; empty if unknown */
	char container_id[72]; /* id of the container, usually 64 hexadecimal digits, or empty */
	char pod_uid[40];      /* UID of the pod, with dashes as Kubernetes prints it, or empty */
	char container[TCP_CGROUP_NAME_BYTES]; /* the container's name; empty if unknown */
	char pod[TCP_CGROUP_NAME_BYTES];
	char kube_namespace[TCP_CGROUP_NAME_BYTES];
	/* service of compose or swarm, workload of the pod, or systemd unit */
	char service[TCP_CGROUP_NAME_BYTES];
	/*
	 * the ids and names were chosen by an unprivileged process (a container, or a user's
	 * systemd, can name cgroups below its own), so they are not looked up in the host's files
	 */
	bool claimed;
	bool claimed_pod; /* like claimed, but for pod_uid */
	bool dead;	  /* the cgroup was removed; the fields hold the last known values */
};

/* Fills in what the path alone reveals: path, runtime, ids and unit. Accesses no files. */
void tcp_cgroup_parse(const char *path, struct tcp_cgroup_identity *out);

/*
 * Writes the workload of a pod: the pod's name without the suffixes that Deployments, DaemonSets
 * and StatefulSets append (random suffixes use an alphabet without vowels, see k8s.io/apimachinery
 * util/rand). Accesses no files.
 */
void tcp_cgroup_workload(const char *pod, char *out, size_t bytes);

/* The cgroup hierarchy in which each container has its own cgroup. */
struct tcp_cgroup_hierarchy {
	char root[256]; /* mount point of the hierarchy; empty if there is none */
	/*
	 * for version 1, the controller's name, such as "memory"; empty for the unified hierarchy
	 */
	char controller[32];
	/* the hierarchy's number in /proc/PID/cgroup; 0 for the unified hierarchy */
	uint32_t number;
};

/*
 * Finds the unified hierarchy or, if controllers are mounted as version 1, the hierarchy of the
 * memory, cpu or pids controller, in this order. controller: "unified" or the name of a controller
 * to use that hierarchy only; NULL to choose. mounts, cgroup: files in the format of
 * /proc/self/mounts and /proc/self/cgroup; NULL for these two files. If the unified hierarchy is
 * not mounted, it is mounted for this process only, which needs CAP_SYS_ADMIN. Returns 0, or
 * -ENOENT if the requested hierarchy is not mounted.
 */
int tcp_cgroup_hierarchy(struct tcp_cgroup_hierarchy *out, const char *controller,
			 const char *mounts, const char *cgroup);

/*
 * Finds the mount point of a controller's hierarchy, or of the unified one if controller is NULL.
 * mounts: a file like /proc/self/mounts; NULL for the mounts of this process. Returns false if it
 * is not mounted.
 */
bool tcp_cgroup_mount(const char *mounts, const char *controller, char *root, size_t bytes);

/* Opens the unified hierarchy's root (O_RDONLY | O_CLOEXEC). Returns a descriptor or -errno. */
int tcp_cgroup2_open(void);

struct tcp_cgroups_opts {
	/* NULL means use the result of tcp_cgroup_hierarchy() */
	const struct tcp_cgroup_hierarchy *hierarchy;
	uint32_t max;	   /* number of identities kept (LRU); 0 means 4096 */
	uint64_t fresh_ns; /* age at which an identity is looked up again; 0 means 10 s */
};

struct tcp_cgroups;

/* returns NULL with errno set on failure */
struct tcp_cgroups *tcp_cgroups_open(const struct tcp_cgroups_opts *opts);
void tcp_cgroups_close(struct tcp_cgroups *c); /* NULL is fine */
const struct tcp_cgroup_hierarchy *tcp_cgroups_hierarchy(const struct tcp_cgroups *c);

/*
 * Returns the identity of a cgroup, valid until the next call. The path is empty if the id is
 * unknown. now_ns may come from any monotonic clock. Uses open_by_handle_at(), which needs
 * CAP_DAC_READ_SEARCH; without this capability, it walks the hierarchy at most once per second.
 */
const struct tcp_cgroup_identity *tcp_cgroups_find(struct tcp_cgroups *c, uint64_t id,
						   uint64_t now_ns);

/*
 * Writes a title for display: NAMESPACE/POD/CONTAINER, the container's name or the first digits of
 * its id, the unit, the path, or "cgroup ID", whichever is known first.
 */
void tcp_cgroup_title(const struct tcp_cgroup_identity *i, char *out, size_t bytes);
/*
 * Returns true if text is one of the cgroup's names: container, pod, NAMESPACE/POD, service, unit,
 * path, or at least the first 12 digits of the container's id.
 */
bool tcp_cgroup_matches(const struct tcp_cgroup_identity *i, const char *text);

/* Returns the id of a process's cgroup in a hierarchy (/proc/PID/cgroup), or 0 with errno. */
uint64_t tcp_cgroup_of_process(const struct tcp_cgroup_hierarchy *hierarchy, uint32_t pid);

/* ---- for the cgroup*.c files ---- */

/* Copies n bytes of untrusted text: only whole characters that fit; unprintable ones become '?'. */
void tcp_cgroup_text(char *to, size_t bytes, const char *from, size_t n);
/*
 * Adds names found in the files of container runtimes for the ids in i. host: prefix of all paths,
 * normally "".
 */
void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i);
/*
 * Like tcp_cgroup_runtime_names(), but uses only sources that a container's owner cannot write: the
 * names of files in kubelet's directories. They contain no environment variables and no secrets.
 * Directories that users other than root could have written to are ignored.
 */
void tcp_cgroup_attested_names(const char *host, struct tcp_cgroup_identity *i);

#endif
