/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cgroup.h - whose cgroup that is: from the id that the kernel knows to the container, pod,
 * namespace and service that people know. From the cgroup's path, and from the files in which
 * container runtimes say what they run. Knows nothing of eBPF. No thread-safety: one thread a
 * struct tcp_cgroups.
 *
 * Names come from files of the runtime, which repeat what a container's owner wrote: they are cut
 * to size, anything that could steer a terminal, or is no UTF-8, becomes '?', and a name never
 * becomes part of a path that is opened, but for ids of hexadecimal digits.
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
	char path[TCP_CGROUP_PATH_BYTES];      /* below the root of the hierarchy, "/": the root; a
						* longer      one is cut at its front */
	char runtime[16];		       /* "docker", "containerd", "cri-o", "podman", "lxc",
						* "nspawn", "qemu", "nomad", "runc", "systemd";
						* empty: not known */
	char container_id[72];		       /* 64 hexadecimal digits, as a rule; or empty */
	char pod_uid[40];		       /* as in Kubernetes, with dashes; or empty */
	char container[TCP_CGROUP_NAME_BYTES]; /* name; empty: not known */
	char pod[TCP_CGROUP_NAME_BYTES];
	char kube_namespace[TCP_CGROUP_NAME_BYTES];
	char service[TCP_CGROUP_NAME_BYTES]; /* of compose or swarm, the workload that a pod's name
					      * tells, or the unit of systemd */
	bool helper;			     /* it serves containers: a pod's sandbox, conmon */
	bool claimed;			     /* names and ids of it are what someone without rights
					      * calls it: a container, or a user's own systemd, makes
					      * and names the folders below its own. The host's files
					      * know nothing of them */
	bool claimed_pod;		     /* so is pod_uid */
	bool dead;			     /* the cgroup is gone, and this is what was known */
};

/* All that a path alone tells: path, runtime, ids, unit. Pure. */
void tcp_cgroup_parse(const char *path, struct tcp_cgroup_identity *out);

/* The workload of a pod: the name without what Deployments, DaemonSets and StatefulSets append
 * (their suffixes are of an alphabet without vowels, k8s.io/apimachinery util/rand). Pure. */
void tcp_cgroup_workload(const char *pod, char *out, size_t bytes);

/* Which hierarchy of cgroups tells containers apart. */
struct tcp_cgroup_hierarchy {
	char root[256];	     /* where it is mounted; empty: nowhere */
	char controller[32]; /* of version 1: "memory"; empty: the unified one */
	uint32_t number;     /* as in /proc/PID/cgroup; 0: the unified one */
};

/*
 * The unified hierarchy, unless controllers are mounted as version 1: then the memory controller's,
 * or cpu's, or pids', whichever there is. controller: "unified" or a controller's name forces one;
 * NULL: none. mounts, cgroup: text of /proc/self/mountinfo and /proc/self/cgroup; NULL: read them.
 * 0, or -ENOENT: what was forced is not mounted.
 */
int tcp_cgroup_hierarchy(struct tcp_cgroup_hierarchy *out, const char *controller,
			 const char *mounts, const char *cgroup);

struct tcp_cgroups_opts {
	const struct tcp_cgroup_hierarchy *hierarchy; /* NULL: found out */
	const char *host; /* prefix of the runtimes' folders: "" or "/host"; NULL: "" */
	uint32_t max; /* identities kept; 0: 4096. The one that was asked for longest ago goes */
	uint64_t dead_ns;  /* those of cgroups that are gone are kept for; 0: 10 min */
	uint64_t fresh_ns; /* what is known is looked up again after; 0: 10 s */
};

struct tcp_cgroups;

struct tcp_cgroups *tcp_cgroups_open(const struct tcp_cgroups_opts *opts); /* NULL: errno */
void tcp_cgroups_close(struct tcp_cgroups *c);				   /* NULL is fine */
const struct tcp_cgroup_hierarchy *tcp_cgroups_hierarchy(const struct tcp_cgroups *c);

/*
 * Who that is; valid until the next call. An id that nobody knows has an empty path. now_ns: of any
 * clock that only goes forward. By open_by_handle_at(), which needs CAP_DAC_READ_SEARCH; without it
 * by walking the hierarchy, at most once a second.
 */
const struct tcp_cgroup_identity *tcp_cgroups_find(struct tcp_cgroups *c, uint64_t id,
						   uint64_t now_ns);

/* What one would call it: NAMESPACE/POD/CONTAINER, the container's name or the beginning of its id,
 * the unit, the path, or "cgroup ID". */
void tcp_cgroup_title(const struct tcp_cgroup_identity *i, char *out, size_t bytes);
/* True if text is one of its names: container, pod, NAMESPACE/POD, service, unit, path, or the id
 * of the container from 12 digits on. */
bool tcp_cgroup_matches(const struct tcp_cgroup_identity *i, const char *text);

/* The id of a cgroup's folder, or 0 with errno. */
uint64_t tcp_cgroup_id(const char *folder);
/* The id of a process's cgroup in a hierarchy, by /proc/PID/cgroup, or 0 with errno. */
uint64_t tcp_cgroup_of_process(const struct tcp_cgroup_hierarchy *hierarchy, uint32_t pid);

#endif
