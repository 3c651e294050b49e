/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - maps a cgroup's id to container, pod, namespace and service, from the cgroup's path
 * and from the files of container runtimes. Knows no eBPF. One thread per struct tcp_cgroups.
 *
 * Names come from files that repeat what a container's owner wrote: they are truncated, bytes that
 * could steer a terminal or are not UTF-8 become '?', and none but ids of hexadecimal digits
 * becomes part of a path that is opened.
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
	char path[TCP_CGROUP_PATH_BYTES]; /* below the root, which is "/"; truncated at its front */
	char runtime[16]; /* "docker", "containerd", "podman", "systemd", ...; empty: unknown */
	char container_id[72];		       /* usually 64 hexadecimal digits; or empty */
	char pod_uid[40];		       /* as in Kubernetes, with dashes; or empty */
	char container[TCP_CGROUP_NAME_BYTES]; /* name; empty: unknown */
	char pod[TCP_CGROUP_NAME_BYTES];
	char kube_namespace[TCP_CGROUP_NAME_BYTES];
	char service[TCP_CGROUP_NAME_BYTES]; /* of compose or swarm, a pod's workload, or a unit */
	bool helper;			     /* serves containers: a pod's sandbox, conmon */
	bool claimed; /* an unprivileged process chose the ids and names: a container, or a user's
			 systemd, names the folders below its own. The host's files do not know them
		       */
	bool claimed_pod; /* the same for pod_uid */
	bool dead;	  /* the cgroup was removed; the fields are what was known */
};

/* Fills in what a path alone tells: path, runtime, ids, unit. Pure. */
void tcp_cgroup_parse(const char *path, struct tcp_cgroup_identity *out);

/*
 * The workload of a pod: its name without the suffixes of Deployments, DaemonSets and StatefulSets
 * (of an alphabet without vowels, k8s.io/apimachinery util/rand). Pure.
 */
void tcp_cgroup_workload(const char *pod, char *out, size_t bytes);

/* The cgroup hierarchy that tells containers apart. */
struct tcp_cgroup_hierarchy {
	char root[256];	     /* mount point; empty: none */
	char controller[32]; /* version 1: "memory"; empty: the unified hierarchy */
	uint32_t number;     /* as in /proc/PID/cgroup; 0: the unified hierarchy */
};

/*
 * Finds the unified hierarchy, unless controllers are mounted as version 1: then the memory
 * controller's, or cpu's, or pids'. controller: "unified" or a controller's name forces one; NULL:
 * none. mounts, cgroup: files like /proc/self/mounts and /proc/self/cgroup; NULL: these. A unified
 * hierarchy that is mounted nowhere is mounted for this process alone, which needs CAP_SYS_ADMIN.
 * 0, or -ENOENT: the forced one is not mounted.
 */
int tcp_cgroup_hierarchy(struct tcp_cgroup_hierarchy *out, const char *controller,
			 const char *mounts, const char *cgroup);

/* A descriptor of the unified hierarchy's root (O_RDONLY | O_CLOEXEC), or -errno. */
int tcp_cgroup2_open(void);

struct tcp_cgroups_opts {
	const struct tcp_cgroup_hierarchy *hierarchy; /* NULL: tcp_cgroup_hierarchy() */
	uint32_t max;	   /* identities kept, least recently used dropped; 0: 4096 */
	uint64_t fresh_ns; /* age at which an identity is looked up again; 0: 10 s */
};

struct tcp_cgroups;

struct tcp_cgroups *tcp_cgroups_open(const struct tcp_cgroups_opts *opts); /* NULL: errno */
void tcp_cgroups_close(struct tcp_cgroups *c);				   /* NULL is fine */
const struct tcp_cgroup_hierarchy *tcp_cgroups_hierarchy(const struct tcp_cgroups *c);

/*
 * The identity of a cgroup, valid until the next call; an unknown id has an empty path. now_ns: any
 * monotonic clock. Uses open_by_handle_at(), which needs CAP_DAC_READ_SEARCH; without it walks the
 * hierarchy, at most once per second.
 */
const struct tcp_cgroup_identity *tcp_cgroups_find(struct tcp_cgroups *c, uint64_t id,
						   uint64_t now_ns);

/*
 * A title: NAMESPACE/POD/CONTAINER, the container's name or the start of its id, the unit, the
 * path, or "cgroup ID".
 */
void tcp_cgroup_title(const struct tcp_cgroup_identity *i, char *out, size_t bytes);
/*
 * True if text is one of its names: container, pod, NAMESPACE/POD, service, unit, path, or at least
 * 12 digits of the container's id.
 */
bool tcp_cgroup_matches(const struct tcp_cgroup_identity *i, const char *text);

/* The id of a process's cgroup in a hierarchy, by /proc/PID/cgroup, or 0 with errno. */
uint64_t tcp_cgroup_of_process(const struct tcp_cgroup_hierarchy *hierarchy, uint32_t pid);

/* ---- for the cgroup*.c files ---- */

/* Copies n bytes of untrusted text: whole characters that fit, made printable. */
void tcp_cgroup_text(char *to, size_t bytes, const char *from, size_t n);
/* Adds names from the runtimes' files below host, "" or a folder, for the ids of i. */
void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i);
/*
 * The same for ids that are attested, by what no container's owner can write: the names of files in
 * kubelet's folders. They hold no environment and no secrets. Folders that others than root could
 * have written are passed over.
 */
void tcp_cgroup_attested_names(const char *host, struct tcp_cgroup_identity *i);

#endif
