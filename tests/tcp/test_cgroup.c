// SPDX-License-Identifier: Apache-2.0
/* A cgroup's path and its runtime's files tell whose it is; a hostile one tells nothing that hurts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "source/tcp/cgroup.h"

#define ID     "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376"
#define OUTER  "9a2c7ddf2a49b5a2a09bb2fe45ac27c4b4b8b5a8a9a7a0a1a2a3a4a5a6a7a8a9"
#define UID    "74c13223-5a00-11e9-b385-42010a80018d"
#define UID_   "74c13223_5a00_11e9_b385_42010a80018d"
#define STATIC "a7e8ae7d4e9e3b1c7a5f0c6b2d8e9f10"

/* As each runtime's documentation, or a machine that runs it, has them. */
static const struct {
	const char *path, *runtime, *container_id, *pod_uid, *container, *service;
	bool helper;
} paths[] = {
	/* Docker: cgroupfs (version 1), systemd. */
	{"/docker/" ID, "docker", ID, "", "", "", false},
	{"/system.slice/docker-" ID ".scope", "docker", ID, "", "", "", false},
	/* Kubernetes with cgroupfs: burstable, best effort, guaranteed. */
	{"/kubepods/besteffort/pod" UID "/" ID, "", ID, UID, "", "", false},
	{"/kubepods/burstable/pod" UID "/" ID, "", ID, UID, "", "", false},
	{"/kubepods/pod" UID "/" ID, "", ID, UID, "", "", false},
	/* With systemd: containerd, CRI-O, Docker. */
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, UID, "", "", false},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", "cri-o", ID, UID, "", "",
	 false},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID
	 ".scope/container",
	 "cri-o", ID, UID, "", "", false},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	 ".slice/crio-conmon-" ID ".scope",
	 "cri-o", ID, UID, "", "", true},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/docker-" ID ".scope", "docker", ID, UID, "",
	 "", false},
	/* A static pod's UID is a hash. */
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC
	 ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, STATIC, "", "", false},
	/* containerd that takes a path of systemd for one of cgroupfs. */
	{"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID,
	 "containerd", ID, UID, "", "", false},
	/* kind: a node that is a container itself; the innermost counts. */
	{"/docker/" OUTER "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	 "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, UID, "", "", false},
	/* Only the pod. */
	{"/kubepods/burstable/pod" UID, "", "", UID, "", "", false},
	/* ctr, nerdctl. */
	{"/k8s.io/" ID, "containerd", ID, "", "", "", false},
	{"/system.slice/nerdctl-" ID ".scope", "containerd", ID, "", "", "", false},
	/* Podman: of root with systemd and cgroupfs, of a user, and its monitor. */
	{"/machine.slice/libpod-" ID ".scope", "podman", ID, "", "", "", false},
	{"/machine.slice/libpod-" ID ".scope/container", "podman", ID, "", "", "", false},
	{"/libpod_parent/libpod-" ID, "podman", ID, "", "", "", false},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman",
	 ID, "", "", "", false},
	{"/machine.slice/libpod-conmon-" ID ".scope", "podman", ID, "", "", "", true},
	/* ECS: /ecs/TASK/CONTAINER. */
	{"/ecs/9781c248-0edd-4cdb-9a93-f63cb662a5d3/"
	 "9781c2480edd4cdb9a93f63cb662a5d3-1234567890",
	 "", "9781c2480edd4cdb9a93f63cb662a5d3-1234567890", "", "", "", false},
	/* By name. */
	{"/lxc.payload.web1/system.slice/nginx.service", "lxc", "", "", "web1", "", false},
	{"/lxc.monitor.web1", "lxc", "", "", "web1", "", true},
	{"/lxc/web1", "lxc", "", "", "web1", "", false},
	{"/machine.slice/machine-db\\x2d1.scope", "nspawn", "", "", "db-1", "", false},
	{"/machine.slice/systemd-nspawn@db.service/payload", "nspawn", "", "", "db", "", false},
	/* systemd, and what runs within a container stays that container's. */
	{"/system.slice/nginx.service", "systemd", "", "", "", "nginx", false},
	{"/user.slice/user-1000.slice/session-3.scope", "systemd", "", "", "", "session-3", false},
	{"/system.slice/docker-" ID ".scope/system.slice/nginx.service", "docker", ID, "", "", "",
	 false},
	/* Nobody's. */
	{"/", "", "", "", "", "", false},
	{"", "", "", "", "", "", false},
	{"/user.slice", "", "", "", "", "", false},
	{"/docker", "", "", "", "", "", false},
	/* Nearly. */
	{"/docker/34dc0b5e", "", "", "", "", "", false},
	{"/system.slice/docker-../../../../etc/passwd.scope", "systemd", "", "", "", "passwd",
	 false},
	{"/kubepods/podXYZ/pod", "", "", "", "", "", false},
	{"/kubepods-pod.slice/pod", "", "", "", "", "", false},
	{"/kubepods/burstable/pod74c13223-5a00-11e9-b385-42010a80018g", "", "", "", "", "", false},
	{"/docker/" ID "0", "", "", "", "", "", false},
};

static void a_path_tells_the_runtime_and_the_ids(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct sl_cgroup_identity id;

		sl_cgroup_parse(paths[i].path, &id);
		if (strcmp(id.runtime, paths[i].runtime) ||
		    strcmp(id.container_id, paths[i].container_id) ||
		    strcmp(id.pod_uid, paths[i].pod_uid) ||
		    strcmp(id.container, paths[i].container) ||
		    strcmp(id.service, paths[i].service) || id.helper != paths[i].helper)
			fail_msg("%s: '%s' '%s' '%s' '%s' '%s' %d", paths[i].path, id.runtime,
				 id.container_id, id.pod_uid, id.container, id.service, id.helper);
		assert_string_equal(id.path, paths[i].path);
	}
}

static void a_hostile_path_is_cut_and_made_safe(void **state)
{
	char path[8192], evil[] = "/lxc.payload.\033[2Jx\\x1b\\x00\\xzz\\x1";
	struct sl_cgroup_identity id;

	(void)state;
	sl_cgroup_parse(evil, &id);
	assert_string_equal(id.runtime, "lxc");
	assert_string_equal(id.container, "?[2Jx??\\xzz\\x1");
	assert_null(strchr(id.path, '\033'));
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	strcpy(path + sizeof(path) - 74, "/docker/" ID);
	sl_cgroup_parse(path, &id);
	assert_string_equal(id.container_id, ID);
	assert_int_equal(strlen(id.path), sizeof(id.path) - 1);
	memset(path, '/', sizeof(path) - 1);
	sl_cgroup_parse(path, &id);
	memset(path, ':', sizeof(path) - 1);
	sl_cgroup_parse(path, &id);
	assert_string_equal(id.container_id, "");
}

static void a_pods_name_tells_its_workload(void **state)
{
	static const char *const names[][2] = {
		{"cart-7d9c5b8f6-x2x7k", "cart"},	       /* Deployment */
		{"cart-redis-6799fc88d8-zgq5t", "cart-redis"}, /* of two words */
		{"node-exporter-4kq9z", "node-exporter"},      /* DaemonSet */
		{"postgres-0", "postgres"},		       /* StatefulSet */
		{"postgres-main-12", "postgres-main"},
		{"etcd", "etcd"}, /* bare */
		{"etcd-master", "etcd-master"},
		{"web-proxy", "web-proxy"}, /* five letters, but a word */
		{"", ""},
		{"-", "-"},
		{"-0", "-0"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char out[SL_CGROUP_NAME_BYTES];

		sl_cgroup_workload(names[i][0], out, sizeof(out));
		assert_string_equal(out, names[i][1]);
	}
}

/* ---- files of runtimes ------------------------------------------------------------------------ */

static char host[] = "/tmp/sl-cgroup.XXXXXX";

static void put(const char *path, const char *text)
{
	char full[1024];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", host, path);
	for (char *slash = full + strlen(host) + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = 0;
		mkdir(full, 0755);
		*slash = '/';
	}
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static int make_host(void **state)
{
	(void)state;
	return mkdtemp(host) ? 0 : -1;
}

static int remove_host(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", host);
	return system(command);
}

/* A tree of folders stands for the hierarchy: none of it is of kernfs, so that nothing is found by id
 * and names are asked for by sl_cgroup_runtime_names() itself. */
#include "source/tcp/cgroup_internal.h"

static struct sl_cgroup_identity named(const char *path)
{
	struct sl_cgroup_identity id;

	sl_cgroup_parse(path, &id);
	sl_cgroup_runtime_names(host, &id);
	return id;
}

static void the_runtimes_files_tell_names(void **state)
{
	struct sl_cgroup_identity id;
	char title[512];

	(void)state;
	put("/var/lib/docker/containers/" ID "/config.v2.json",
	    "{\"Name\":\"/web\\u001b[2J\",\"Config\":{\"Labels\":"
	    "{\"com.docker.compose.service\":\"shop\"}}}");
	id = named("/docker/" ID);
	assert_string_equal(id.container, "web?[2J");
	assert_string_equal(id.service, "shop");
	put("/var/lib/docker/containers/" ID "/config.v2.json", "{\"Name\":17,\"Config\":[]}");
	id = named("/docker/" ID);
	assert_string_equal(id.container, "");

	put("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" OUTER "/config.json",
	    "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"server\","
	    "\"io.kubernetes.cri.container-type\":\"container\","
	    "\"io.kubernetes.cri.sandbox-name\":\"cart-7d9c5b8f6-x2x7k\","
	    "\"io.kubernetes.cri.sandbox-namespace\":\"shop\"}}");
	id = named("/kubepods/burstable/pod" UID "/" OUTER);
	assert_string_equal(id.runtime, "containerd");
	assert_string_equal(id.container, "server");
	assert_string_equal(id.pod, "cart-7d9c5b8f6-x2x7k");
	assert_string_equal(id.kube_namespace, "shop");
	assert_string_equal(id.service, "cart");
	assert_false(id.helper);
	sl_cgroup_title(&id, title, sizeof(title));
	assert_string_equal(title, "shop/cart-7d9c5b8f6-x2x7k/server");
	assert_true(sl_cgroup_matches(&id, "cart"));
	assert_true(sl_cgroup_matches(&id, "shop/cart-7d9c5b8f6-x2x7k"));
	assert_true(sl_cgroup_matches(&id, "9a2c7ddf2a49"));
	assert_false(sl_cgroup_matches(&id, "9a2c7ddf2a4"));
	assert_false(sl_cgroup_matches(&id, ""));

	put("/run/containers/storage/overlay-containers/" ID "/userdata/config.json",
	    "{\"annotations\":{\"io.container.manager\":\"libpod\"}}");
	put("/var/lib/containers/storage/overlay-containers/containers.json",
	    "[{\"id\":\"x\",\"names\":[\"no\"]},{\"id\":\"" ID "\",\"names\":[\"db\"]}]");
	put("/var/lib/docker/containers/" ID "/config.v2.json", "no json");
	id = named("/machine.slice/libpod-" ID ".scope");
	assert_string_equal(id.runtime, "podman");
	assert_string_equal(id.container, "db");

	put("/run/containers/storage/overlay-containers/" ID "/userdata/config.json",
	    "{\"annotations\":{\"io.kubernetes.cri-o.ContainerType\":\"sandbox\","
	    "\"io.kubernetes.container.name\":\"POD\",\"io.kubernetes.pod.name\":\"etcd-0\","
	    "\"io.kubernetes.pod.namespace\":\"infra\"}}");
	id = named("/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope");
	assert_true(id.helper);
	assert_string_equal(id.pod, "etcd-0");
	assert_string_equal(id.service, "etcd");
}

static void kubelets_folders_tell_names_whatever_the_runtime(void **state)
{
	static const char lone[] =
		"1111111111111111111111111111111111111111111111111111111111111111";
	char path[512];
	struct sl_cgroup_identity id;

	(void)state;
	snprintf(path, sizeof(path), "/var/log/containers/mail-0_shop_smtp-%s.log", lone);
	put(path, "");
	put("/var/log/containers/_.log", "");
	put("/var/log/pods/shop_mail-0_" UID "/smtp/0.log", "");
	snprintf(path, sizeof(path), "/kubepods/burstable/pod" UID "/%s", lone);
	id = named(path);
	assert_string_equal(id.pod, "mail-0");
	assert_string_equal(id.kube_namespace, "shop");
	assert_string_equal(id.container, "smtp");
	id = named("/kubepods/burstable/pod" UID);
	assert_string_equal(id.pod, "mail-0");
	assert_string_equal(id.kube_namespace, "shop");
	assert_string_equal(id.container, "");
}

/* ---- hierarchies ------------------------------------------------------------------------------- */

static void the_hierarchy_that_tells_containers_apart_is_found(void **state)
{
	static const char unified
		[] = "24 30 0:22 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n",
	 hybrid[] = "31 23 0:26 / /sys/fs/cgroup ro shared:9 - tmpfs tmpfs ro\n"
		    "32 31 0:27 / /sys/fs/cgroup/unified rw shared:10 - cgroup2 cgroup2 rw\n"
		    "33 31 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
		    "34 31 0:29 / /sys/fs/cgroup/my\\040memory rw - cgroup cgroup rw,memory\n";
	struct sl_cgroup_hierarchy h;

	(void)state;
	assert_int_equal(sl_cgroup_hierarchy(&h, NULL, unified, "0::/a\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup");
	assert_int_equal(h.number, 0);
	assert_int_equal(
		sl_cgroup_hierarchy(&h, NULL, hybrid, "12:cpu,cpuacct:/x\n4:memory:/y\n0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/my memory");
	assert_string_equal(h.controller, "memory");
	assert_int_equal(h.number, 4);
	assert_int_equal(sl_cgroup_hierarchy(&h, "cpu", hybrid, "12:cpu,cpuacct:/x\n0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/cpu,cpuacct");
	assert_int_equal(h.number, 12);
	assert_int_equal(sl_cgroup_hierarchy(&h, "unified", hybrid, "12:cpu,cpuacct:/x\n0::/\n"),
			 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/unified");
	assert_int_equal(sl_cgroup_hierarchy(&h, "pids", hybrid, "12:cpu:/x\n"), -ENOENT);
	assert_int_equal(sl_cgroup_hierarchy(&h, "unified", "", ""), -ENOENT);
	/* Nothing is mounted: ids stay ids. */
	assert_int_equal(sl_cgroup_hierarchy(&h, NULL, "", ""), 0);
	assert_string_equal(h.root, "");
	assert_int_equal(
		sl_cgroup_hierarchy(&h, NULL, "a - cgroup\n - \n1 2 3 4 5 - cgroup2\n", ":"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_tells_the_runtime_and_the_ids),
		cmocka_unit_test(a_hostile_path_is_cut_and_made_safe),
		cmocka_unit_test(a_pods_name_tells_its_workload),
		cmocka_unit_test(the_runtimes_files_tell_names),
		cmocka_unit_test(kubelets_folders_tell_names_whatever_the_runtime),
		cmocka_unit_test(the_hierarchy_that_tells_containers_apart_is_found),
	};

	return cmocka_run_group_tests(tests, make_host, remove_host);
}
