// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup_runtime.c - names of containers from the files of their runtimes, without asking a daemon
 * or reading a process's environment:
 *   Docker: /var/lib/docker/containers/ID/config.v2.json (Name, Config.Labels)
 *   containerd: /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json
 *     (annotations); k3s and rke2: the same below /run/k3s/containerd
 *   podman, CRI-O: /var/lib/containers/storage/overlay-containers/ID/userdata/config.json, or below
 *     /run/containers/storage (annotations); beside ID containers.json (names), and for containers
 *     that end with their process (--rm, Quadlet; containers/storage pull request 812)
 *     volatile-containers.json
 *   kubelet: /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log, whatever the runtime;
 *     /var/log/pods/NAMESPACE_POD_UID/, if only the pod's UID is known
 *
 * Containers below users' homes are not read: a user could put anything there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/json_read.h"
#include "source/tcp/cgroup.h"

#define FILE_MOST    (4u << 20)
#define FOLDERS_MOST 65536 /* entries read of /var/log */

/* Loads a regular file of bounded size; a pipe or device in its place is refused. */
static json_t *load(const char *host, const char *path)
{
	char full[1024];
	struct stat st;
	json_t *j = NULL;
	int fd;

	if (snprintf(full, sizeof(full), "%s%s", host, path) >= (int)sizeof(full))
		return NULL;
	fd = open(full, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_size <= FILE_MOST) {
		char *text = malloc((size_t)st.st_size + 1);
		ssize_t n = text ? read(fd, text, (size_t)st.st_size) : -1;

		if (n > 0)
			j = base_json_read(text, (size_t)n, NULL);
		free(text);
	}
	close(fd);
	return j;
}

static void name(char to[TCP_CGROUP_NAME_BYTES], const char *from)
{
	if (from && !*to)
		tcp_cgroup_text(to, TCP_CGROUP_NAME_BYTES, from, strlen(from));
}

static const char *text(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* The first existing key; the list ends with NULL. */
static void first(char to[TCP_CGROUP_NAME_BYTES], const json_t *o, const char *const *keys)
{
	for (; *keys; keys++)
		name(to, text(o, *keys));
}

static const char *const container_keys[] = {"io.kubernetes.cri.container-name",
					     "io.kubernetes.container.name", "nerdctl/name",
					     "com.amazonaws.ecs.container-name", NULL};
static const char *const pod_keys[] = {"io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name",
				       NULL};
static const char *const namespace_keys[] = {"io.kubernetes.cri.sandbox-namespace",
					     "io.kubernetes.pod.namespace", NULL};
static const char *const service_keys[] = {"com.docker.compose.service",
					   "com.docker.swarm.service.name",
					   "io.podman.compose.service",
					   "com.amazonaws.ecs.task-definition-family",
					   "com.hashicorp.nomad.job_name",
					   "app.kubernetes.io/name",
					   NULL};

static void labels(struct tcp_cgroup_identity *i, const json_t *o)
{
	const char *type = text(o, "io.kubernetes.cri.container-type");

	type = type ?: text(o, "io.kubernetes.cri-o.ContainerType");
	if ((type && !strcmp(type, "sandbox")) ||
	    (text(o, "io.kubernetes.container.name") &&
	     !strcmp(text(o, "io.kubernetes.container.name"), "POD")))
		i->helper = true;
	first(i->container, o, container_keys);
	first(i->pod, o, pod_keys);
	first(i->kube_namespace, o, namespace_keys);
	first(i->service, o, service_keys);
}

static void set_runtime(struct tcp_cgroup_identity *i, const char *runtime)
{
	if (!i->runtime[0])
		snprintf(i->runtime, sizeof(i->runtime), "%s", runtime);
}

static bool docker(const char *host, struct tcp_cgroup_identity *i)
{
	char path[256];
	const char *called;
	json_t *j;

	snprintf(path, sizeof(path), "/var/lib/docker/containers/%s/config.v2.json",
		 i->container_id);
	j = load(host, path);
	if (!j)
		return false;
	set_runtime(i, "docker");
	labels(i, json_object_get(json_object_get(j, "Config"), "Labels"));
	called = text(j, "Name");
	name(i->container, called && *called == '/' ? called + 1 : called);
	json_decref(j);
	return true;
}

static bool oci(const char *host, struct tcp_cgroup_identity *i, const char *path,
		const char *runtime)
{
	json_t *j = load(host, path), *annotations;

	if (!j)
		return false;
	annotations = json_object_get(j, "annotations");
	if (text(annotations, "io.kubernetes.cri-o.ContainerType"))
		runtime = "cri-o";
	set_runtime(i, runtime);
	labels(i, annotations);
	json_decref(j);
	return true;
}

static bool containerd(const char *host, struct tcp_cgroup_identity *i)
{
	static const char *const states[] = {"/run/containerd", "/run/k3s/containerd"};
	static const char *const namespaces[] = {"k8s.io", "default", "moby"};
	char path[256];

	for (size_t n = 0; n < 6; n++) {
		snprintf(path, sizeof(path), "%s/io.containerd.runtime.v2.task/%s/%s/config.json",
			 states[n / 3], namespaces[n % 3], i->container_id);
		if (oci(host, i, path, n % 3 == 2 ? "docker" : "containerd"))
			return true;
	}
	return false;
}

#define STORAGE "/containers/storage/overlay-containers/"

/* Looks up the name in a container list of containers/storage. */
static void listed(const char *host, const char *path, struct tcp_cgroup_identity *i)
{
	json_t *j = load(host, path), *one;
	size_t n;

	json_array_foreach(j, n, one)
	{
		const char *id = text(one, "id");

		if (id && !strcmp(id, i->container_id))
			name(i->container,
			     json_string_value(json_array_get(json_object_get(one, "names"), 0)));
	}
	json_decref(j);
}

static void storage(const char *host, struct tcp_cgroup_identity *i)
{
	static const char *const roots[] = {"/var/lib", "/run"};
	char path[256];
	bool there = false;

	for (size_t n = 0; n < 2 && !there; n++) {
		snprintf(path, sizeof(path), "%s" STORAGE "%s/userdata/config.json", roots[n],
			 i->container_id);
		there = oci(host, i, path, "podman");
	}
	if (there && !i->container[0])
		listed(host, "/var/lib" STORAGE "containers.json", i);
	if (there && !i->container[0])
		listed(host, "/var/lib" STORAGE "volatile-containers.json", i);
}

/* Splits a file name A_B_C; names in Kubernetes have no underscore. */
static bool three(const char *file, size_t n, struct tcp_cgroup_identity *i, bool pod_first)
{
	const char *a = memchr(file, '_', n);
	char one[256], two[256], rest[256];
	const char *b = a ? memchr(a + 1, '_', n - (size_t)(a + 1 - file)) : NULL;

	if (!b || n >= sizeof(one))
		return false;
	snprintf(one, sizeof(one), "%.*s", (int)(a - file), file);
	snprintf(two, sizeof(two), "%.*s", (int)(b - a - 1), a + 1);
	snprintf(rest, sizeof(rest), "%.*s", (int)(n - (size_t)(b + 1 - file)), b + 1);
	name(i->pod, pod_first ? one : two);
	name(i->kube_namespace, pod_first ? two : one);
	if (pod_first)
		name(i->container, rest);
	return true;
}

/* Finds the file in a folder of kubelet's whose name ends like this. */
static void kubelet(const char *host, const char *folder, const char *end, const char *after,
		    struct tcp_cgroup_identity *i, bool pod_first)
{
	char path[512], suffix[160];
	struct dirent *d;
	size_t want;
	DIR *dir;

	snprintf(path, sizeof(path), "%s%s", host, folder);
	want = (size_t)snprintf(suffix, sizeof(suffix), "%s%s", end, after);
	dir = opendir(path);
	for (int n = 0; dir && n < FOLDERS_MOST && (d = readdir(dir)); n++) {
		size_t have = strlen(d->d_name);

		if (have > want && !strcmp(d->d_name + have - want, suffix) &&
		    three(d->d_name, have - want - (pod_first ? 1 : 0), i, pod_first))
			break;
	}
	if (dir)
		closedir(dir);
}

void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i)
{
	/* Otherwise a folder named like another's container would take its name. */
	bool container = i->container_id[0] && !i->claimed, pod = i->pod_uid[0] && !i->claimed_pod;

	if (container && !docker(host, i) && !containerd(host, i))
		storage(host, i);
	if (pod && container && (!i->pod[0] || !i->container[0]))
		kubelet(host, "/var/log/containers", i->container_id, ".log", i, true);
	if (pod && !i->pod[0])
		kubelet(host, "/var/log/pods", i->pod_uid, "", i, false);
	if (i->pod[0] && !i->service[0])
		tcp_cgroup_workload(i->pod, i->service, sizeof(i->service));
}

/* Each folder of this path is root's, and at most a system group may write to it. */
static bool is_roots(const char *host, const char *path)
{
	char full[512];
	struct stat st;

	for (size_t n = 1; n <= strlen(path); n++) {
		if (path[n] && path[n] != '/')
			continue;
		if (snprintf(full, sizeof(full), "%s%.*s", host, (int)n, path) >=
			    (int)sizeof(full) ||
		    lstat(full, &st) || st.st_uid != 0 || S_ISLNK(st.st_mode) ||
		    st.st_mode & S_IWOTH || (st.st_mode & S_IWGRP && st.st_gid >= 1000))
			return false;
	}
	return true;
}

void tcp_cgroup_attested_names(const char *host, struct tcp_cgroup_identity *i)
{
	if (i->pod_uid[0] && is_roots(host, "/var/log/pods"))
		kubelet(host, "/var/log/pods", i->pod_uid, "", i, false);
	if (i->pod[0] && i->container_id[0] && is_roots(host, "/var/log/containers"))
		kubelet(host, "/var/log/containers", i->container_id, ".log", i, true);
}
