// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup_runtime.c - reads names of containers from the files of their runtimes, without asking a
 * daemon or reading a process's environment. Sources:
 * - Docker: /var/lib/docker/containers/ID/config.v2.json (Name, Config.Labels)
 * - containerd: /run/containerd/io.containerd.runtime.v2.task/NAMESPACE/ID/config.json
 *   (annotations); k3s and rke2: the same path below /run/k3s/containerd
 * - podman, CRI-O: /var/lib/containers/storage/overlay-containers/ID/userdata/config.json, or below
 *   /run/containers/storage (annotations); names are in containers.json beside the ID directories,
 *   or in volatile-containers.json for containers that are removed with their process (--rm,
 *   Quadlet; containers/storage pull request 812)
 * - kubelet, for any runtime: /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log; if only the pod's
 *   UID is known, /var/log/pods/NAMESPACE_POD_UID/
 *
 * Files below home directories are not read, because a user could put anything there.
 */
#include <dirent.h>
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
#define FOLDERS_MOST 65536 /* maximum number of directory entries read below /var/log */

/* Loads a JSON file of bounded size. Refuses other types of file, such as pipes and devices. */
static json_t *load_json(const char *host, const char *path)
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

static void set_name(char to[TCP_CGROUP_NAME_BYTES], const char *from)
{
	if (from && !*to)
		tcp_cgroup_text(to, TCP_CGROUP_NAME_BYTES, from, strlen(from));
}

static const char *string_of(const json_t *object, const char *key)
{
	return json_string_value(json_object_get(object, key));
}

/* Copies the value of the first key that exists. The list of keys ends with NULL. */
static void set_first_name(char to[TCP_CGROUP_NAME_BYTES], const json_t *o, const char *const *keys)
{
	for (; *keys; keys++)
		set_name(to, string_of(o, *keys));
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

static void read_labels(struct tcp_cgroup_identity *i, const json_t *o)
{
	set_first_name(i->container, o, container_keys);
	set_first_name(i->pod, o, pod_keys);
	set_first_name(i->kube_namespace, o, namespace_keys);
	set_first_name(i->service, o, service_keys);
}

static void set_runtime(struct tcp_cgroup_identity *i, const char *runtime)
{
	if (!i->runtime[0])
		snprintf(i->runtime, sizeof(i->runtime), "%s", runtime);
}

static bool read_docker(const char *host, struct tcp_cgroup_identity *i)
{
	char path[256];
	const char *called;
	json_t *j;

	snprintf(path, sizeof(path), "/var/lib/docker/containers/%s/config.v2.json",
		 i->container_id);
	j = load_json(host, path);
	if (!j)
		return false;
	set_runtime(i, "docker");
	read_labels(i, json_object_get(json_object_get(j, "Config"), "Labels"));
	called = string_of(j, "Name");
	set_name(i->container, called && *called == '/' ? called + 1 : called);
	json_decref(j);
	return true;
}

static bool read_oci(const char *host, struct tcp_cgroup_identity *i, const char *path,
		     const char *runtime)
{
	json_t *j = load_json(host, path), *annotations;

	if (!j)
		return false;
	annotations = json_object_get(j, "annotations");
	if (string_of(annotations, "io.kubernetes.cri-o.ContainerType"))
		runtime = "cri-o";
	set_runtime(i, runtime);
	read_labels(i, annotations);
	json_decref(j);
	return true;
}

static bool read_containerd(const char *host, struct tcp_cgroup_identity *i)
{
	static const char *const states[] = {"/run/containerd", "/run/k3s/containerd"};
	static const char *const namespaces[] = {"k8s.io", "default", "moby"};
	char path[256];

	for (size_t n = 0; n < 6; n++) {
		snprintf(path, sizeof(path), "%s/io.containerd.runtime.v2.task/%s/%s/config.json",
			 states[n / 3], namespaces[n % 3], i->container_id);
		if (read_oci(host, i, path, n % 3 == 2 ? "docker" : "containerd"))
			return true;
	}
	return false;
}

#define STORAGE "/containers/storage/overlay-containers/"

/* Looks up the container's name in a container list of containers/storage. */
static void find_in_list(const char *host, const char *path, struct tcp_cgroup_identity *i)
{
	json_t *j = load_json(host, path), *one;
	size_t n;

	json_array_foreach(j, n, one)
	{
		const char *id = string_of(one, "id");

		if (id && !strcmp(id, i->container_id))
			set_name(i->container, json_string_value(json_array_get(
						       json_object_get(one, "names"), 0)));
	}
	json_decref(j);
}

static void read_storage(const char *host, struct tcp_cgroup_identity *i)
{
	static const char *const roots[] = {"/var/lib", "/run"};
	char path[256];
	bool there = false;

	for (size_t n = 0; n < 2 && !there; n++) {
		snprintf(path, sizeof(path), "%s" STORAGE "%s/userdata/config.json", roots[n],
			 i->container_id);
		there = read_oci(host, i, path, "podman");
	}
	if (there && !i->container[0])
		find_in_list(host, "/var/lib" STORAGE "containers.json", i);
	if (there && !i->container[0])
		find_in_list(host, "/var/lib" STORAGE "volatile-containers.json", i);
}

/* Splits a file name of the form A_B_C. Kubernetes names contain no underscore. */
static bool split_file_name(const char *file, size_t n, struct tcp_cgroup_identity *i,
			    bool pod_first)
{
	char text[256], *rest = text, *one, *two;

	if (n >= sizeof(text))
		return false;
	snprintf(text, sizeof(text), "%.*s", (int)n, file);
	one = strsep(&rest, "_");
	two = strsep(&rest, "_");
	if (!rest)
		return false;
	set_name(i->pod, pod_first ? one : two);
	set_name(i->kube_namespace, pod_first ? two : one);
	if (pod_first)
		set_name(i->container, rest);
	return true;
}

/* Finds the file in one of kubelet's directories whose name ends in end and after. */
static void read_kubelet(const char *host, const char *folder, const char *end, const char *after,
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
		    split_file_name(d->d_name, have - want - (pod_first ? 1 : 0), i, pod_first))
			break;
	}
	if (dir)
		closedir(dir);
}

void tcp_cgroup_runtime_names(const char *host, struct tcp_cgroup_identity *i)
{
	/*
	 * Claimed ids are not looked up: otherwise a cgroup named like another container would get
	 * that container's name.
	 */
	bool container = i->container_id[0] && !i->claimed, pod = i->pod_uid[0] && !i->claimed_pod;

	if (container && !read_docker(host, i) && !read_containerd(host, i))
		read_storage(host, i);
	if (pod && container && (!i->pod[0] || !i->container[0]))
		read_kubelet(host, "/var/log/containers", i->container_id, ".log", i, true);
	if (pod && !i->pod[0])
		read_kubelet(host, "/var/log/pods", i->pod_uid, "", i, false);
	if (i->pod[0] && !i->service[0])
		tcp_cgroup_workload(i->pod, i->service, sizeof(i->service));
}

/* True if all directories of this path belong to root, and at most a system group can write. */
static bool is_root_only(const char *host, const char *path)
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
	if (i->pod_uid[0] && is_root_only(host, "/var/log/pods"))
		read_kubelet(host, "/var/log/pods", i->pod_uid, "", i, false);
	if (i->pod[0] && i->container_id[0] && is_root_only(host, "/var/log/containers"))
		read_kubelet(host, "/var/log/containers", i->container_id, ".log", i, true);
}
