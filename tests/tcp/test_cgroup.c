// SPDX-License-Identifier: Apache-2.0
/*
 * test_cgroup.c - the path of a cgroup and the files of its runtime identify the container; hostile
 * ones do no harm.
 */
#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/folder.h"
#include "source/tcp/cgroup.h"

#define ID     "34dc0b5e626f2c5c4c5170e34b10e7654ce36f0fcd532739f4445baabea03376"
#define OUTER  "9a2c7ddf2a49b5a2a09bb2fe45ac27c4b4b8b5a8a9a7a0a1a2a3a4a5a6a7a8a9"
#define RM     "7c0ffee00c0b0a09080706050403020100ffeeddccbbaa998877665544332211"
#define THIRD  "5b1f0e0d0c0b0a09080706050403020100ffeeddccbbaa998877665544332211"
#define UID    "74c13223-5a00-11e9-b385-42010a80018d"
#define UID_   "74c13223_5a00_11e9_b385_42010a80018d"
#define STATIC "a7e8ae7d4e9e3b1c7a5f0c6b2d8e9f10"

enum { CLAIMED = 1, CLAIMED_POD = 2 };

/* From each runtime's documentation, or from a machine that runs it: see cgroup_path.c. */
static const struct {
	const char *path, *runtime, *container_id, *pod_uid, *container, *service;
	unsigned int is;
} paths[] = {
	/* Docker: cgroupfs (version 1), systemd. */
	{"/docker/" ID, "docker", ID, "", "", "", 0},
	{"/system.slice/docker-" ID ".scope", "docker", ID, "", "", "", 0},
	/* Kubernetes with cgroupfs: burstable, best effort, guaranteed. */
	{"/kubepods/besteffort/pod" UID "/" ID, "", ID, UID, "", "", 0},
	{"/kubepods/burstable/pod" UID "/" ID, "", ID, UID, "", "", 0},
	{"/kubepods/pod" UID "/" ID, "", ID, UID, "", "", 0},
	/* With systemd: containerd, CRI-O, Docker. */
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_
	 ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, UID, "", "", 0},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope", "cri-o", ID, UID, "", "",
	 0},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_ ".slice/crio-" ID
	 ".scope/container",
	 "cri-o", ID, UID, "", "", 0},
	{"/kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" UID_
	 ".slice/crio-conmon-" ID ".scope",
	 "cri-o", ID, UID, "", "", 0},
	{"/kubepods.slice/kubepods-pod" UID_ ".slice/docker-" ID ".scope", "docker", ID, UID, "",
	 "", 0},
	/* A static pod's UID is a hash. */
	{"/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" STATIC
	 ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, STATIC, "", "", 0},
	/* containerd when it takes a systemd path for a cgroupfs path. */
	{"/system.slice/containerd.service/kubepods-burstable-pod" UID_ ".slice:cri-containerd:" ID,
	 "containerd", ID, UID, "", "", 0},
	/* kind: a node that is itself a container; the innermost counts. */
	{"/docker/" OUTER "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	 "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, UID, "", "", CLAIMED | CLAIMED_POD},
	/*
	 * The same with cgroupfs, with systemd outside, and with k3d. The runtime of the outer
	 * container is not that of the inner one.
	 */
	{"/docker/" OUTER "/kubelet/kubepods/burstable/pod" UID "/" ID, "", ID, UID, "", "",
	 CLAIMED | CLAIMED_POD},
	{"/system.slice/docker-" OUTER ".scope/kubelet.slice/kubelet-kubepods.slice/"
	 "kubelet-kubepods-pod" UID_ ".slice/cri-containerd-" ID ".scope",
	 "containerd", ID, UID, "", "", CLAIMED | CLAIMED_POD},
	{"/docker/" OUTER "/kubepods/pod" UID, "", "", UID, "", "", CLAIMED | CLAIMED_POD},
	{"/docker/" OUTER "/system.slice/containerd.service", "docker", OUTER, "", "", "", 0},
	/* k3s whose containers are below its unit; CRI-O with cgroupfs (cri-o pull request 812). */
	{"/system.slice/k3s.service/kubepods/besteffort/pod" UID "/" ID, "", ID, UID, "", "", 0},
	{"/kubepods/burstable/pod" UID "/crio-" ID, "cri-o", ID, UID, "", "", 0},
	{"/kubepods/burstable/pod" UID "/crio-conmon-" ID, "cri-o", ID, UID, "", "", 0},
	/* Docker in a pod: the pod is of this test_folder, the container is not. */
	{"/kubepods/burstable/pod" UID "/" OUTER "/docker/" ID, "docker", ID, UID, "", "", CLAIMED},
	/* Docker of a user, within Docker, below a parent of its own. */
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" ID ".scope", "docker",
	 ID, "", "", "", CLAIMED},
	{"/docker/" OUTER "/docker/" ID, "docker", ID, "", "", "", CLAIMED},
	{"/system.slice/runner.service/" ID, "", ID, "", "", "", 0},
	{"/actions_job/" ID, "", ID, "", "", "", 0},
	/* Only the pod. */
	{"/kubepods/burstable/pod" UID, "", "", UID, "", "", 0},
	/* ctr, nerdctl. */
	{"/k8s.io/" ID, "containerd", ID, "", "", "", 0},
	{"/default/" ID, "containerd", ID, "", "", "", 0},
	{"/system.slice/nerdctl-" ID ".scope", "containerd", ID, "", "", "", 0},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/nerdctl-" ID ".scope",
	 "containerd", ID, "", "", "", CLAIMED},
	/* Podman: of root with systemd and cgroupfs, of a user, and its monitor. */
	{"/machine.slice/libpod-" ID ".scope", "podman", ID, "", "", "", 0},
	{"/machine.slice/libpod-" ID ".scope/container", "podman", ID, "", "", "", 0},
	{"/libpod_parent/libpod-" ID, "podman", ID, "", "", "", 0},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID ".scope", "podman",
	 ID, "", "", "", CLAIMED},
	{"/machine.slice/libpod-conmon-" ID ".scope", "podman", ID, "", "", "", 0},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-conmon-" ID ".scope",
	 "podman", ID, "", "", "", CLAIMED},
	/* Its pods: of root with systemd and cgroupfs, of a user. */
	{"/machine.slice/machine-libpod_pod_" OUTER ".slice/libpod-" ID ".scope/container",
	 "podman", ID, "", "", "", 0},
	{"/machine.slice/machine-libpod_pod_" OUTER ".slice", "", "", "", "", "", 0},
	{"/libpod_parent/" OUTER "/libpod-" ID, "podman", ID, "", "", "", 0},
	{"/libpod_parent/" OUTER, "podman", "", "", "", "", 0},
	{"/user.slice/user-1000.slice/user@1000.service/user.slice/user-libpod_pod_" OUTER
	 ".slice/libpod-" ID ".scope/container",
	 "podman", ID, "", "", "", CLAIMED},
	/* Quadlet: the unit is the service; a container split from a shell belongs to no unit. */
	{"/system.slice/web.service/libpod-payload-" ID, "podman", ID, "", "", "web", 0},
	{"/system.slice/web.service/runtime", "systemd", "", "", "", "web", 0},
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/web.service/libpod-payload-" ID,
	 "podman", ID, "", "", "web", CLAIMED},
	{"/user.slice/user-0.slice/session-3.scope/libpod-payload-" ID, "podman", ID, "", "", "",
	 0},
	/* ECS with version 2 (systemd) and 1: /ecs/TASK/CONTAINER. */
	{"/ecstasks.slice/ecstasks-9781c2480edd4cdb9a93f63cb662a5d3.slice/docker-" ID ".scope",
	 "docker", ID, "", "", "", 0},
	{"/ecs/9781c2480edd4cdb9a93f63cb662a5d3/" ID, "", ID, "", "", "", 0},
	{"/ecs/9781c248-0edd-4cdb-9a93-f63cb662a5d3/" ID, "", ID, "", "", "", 0},
	/* Fargate. */
	{"/ecs/9781c248-0edd-4cdb-9a93-f63cb662a5d3/"
	 "9781c2480edd4cdb9a93f63cb662a5d3-1234567890",
	 "", "9781c2480edd4cdb9a93f63cb662a5d3-1234567890", "", "", "", 0},
	/* Slurm: versions 1 and 2, with several slurmd per host; a container within a step. */
	{"/slurm/uid_1000/job_4711/step_0/task_3", "slurm", "", "", "4711.0.3", "", 0},
	{"/slurm_n7/uid_1000/job_4711/step_batch", "slurm", "", "", "4711.batch", "", 0},
	{"/slurm/uid_1000/job_4711", "slurm", "", "", "4711", "", 0},
	{"/slurm/uid_1000", "slurm", "", "", "", "", 0},
	{"/system.slice/slurmstepd.scope/job_4711/step_0/user/task_3", "slurm", "", "", "4711.0.3",
	 "", 0},
	{"/system.slice/n7_slurmstepd.scope/job_4711/step_extern/user", "slurm", "", "",
	 "4711.extern", "", 0},
	{"/system.slice/slurmd.service", "systemd", "", "", "", "slurmd", 0},
	{"/slurm/uid_1000/job_4711/step_0/docker/" ID, "docker", ID, "", "", "", CLAIMED},
	/* Users may name their own cgroups like Slurm's. */
	{"/user.slice/user-1000.slice/user@1000.service/slurm/job_1", "slurm", "", "", "1", "",
	 CLAIMED},
	{"/docker/" ID "/slurm/job_1", "docker", ID, "", "", "", 0},
	/* By name. */
	{"/lxc.payload.web1/system.slice/nginx.service", "lxc", "", "", "web1", "", 0},
	{"/lxc.monitor.web1", "lxc", "", "", "web1", "", 0},
	{"/lxc/web1", "lxc", "", "", "web1", "", 0},
	{"/lxc/101/ns/system.slice/nginx.service", "lxc", "", "", "101", "", 0},
	{"/lxc.payload/web1/init.scope", "lxc", "", "", "web1", "", 0},
	{"/lxc.payload", "", "", "", "", "", 0},
	{"/lxc.monitor/101", "lxc", "", "", "101", "", 0},
	{"/lxc.payload.web1/system.slice/docker-" ID ".scope", "docker", ID, "", "", "", CLAIMED},
	/* Nomad's exec driver since 1.3 and 1.7, and its containers of Docker. */
	{"/nomad.slice/" UID ".redis.scope", "nomad", "", "", "redis", "", 0},
	{"/nomad.slice/share.slice/" UID ".my.task.scope", "nomad", "", "", "my.task", "", 0},
	{"/nomad.slice/reserve.slice/" UID ".redis.scope", "nomad", "", "", "redis", "", 0},
	{"/nomad.slice/share.slice/docker-" ID ".scope", "docker", ID, "", "", "", 0},
	{"/nomad.slice/74c13223-5a00-11e9-b385-42010a80018g.redis.scope", "systemd", "", "", "",
	 "74c13223-5a00-11e9-b385-42010a80018g.redis", 0},
	{"/nomad.slice/" UID "..scope", "systemd", "", "", "", UID ".", 0},
	{"/system.slice/" UID ".redis.scope", "systemd", "", "", "", UID ".redis", 0},
	/* libvirt machines, and one that is only named like an nspawn machine. */
	{"/machine.slice/machine-qemu\\x2d12\\x2dvm1.scope/libvirt/emulator", "qemu", "", "", "vm1",
	 "", 0},
	{"/machine.slice/machine-lxc\\x2d7\\x2dvm1.scope", "lxc", "", "", "vm1", "", 0},
	{"/machine.slice/machine-qemu\\x2d1.scope", "nspawn", "", "", "qemu-1", "", 0},
	{"/machine.slice/machine-qemu\\x2d1x\\x2dy.scope", "nspawn", "", "", "qemu-1x-y", "", 0},
	{"/machine.slice/machine-qemubox.scope", "nspawn", "", "", "qemubox", "", 0},
	{"/machine.slice/machine-qemu\\x2d1\\x2d.scope", "nspawn", "", "", "qemu-1-", "", 0},
	{"/machine.slice/machine-db\\x2d1.scope", "nspawn", "", "", "db-1", "", 0},
	{"/machine.slice/systemd-nspawn@db.service/payload", "nspawn", "", "", "db", "", 0},
	/* systemd; and a service within a container still belongs to that container. */
	{"/system.slice/nginx.service", "systemd", "", "", "", "nginx", 0},
	{"/user.slice/user-1000.slice/session-3.scope", "systemd", "", "", "", "session-3", 0},
	{"/user.slice/user-1000.slice/user@1000.service/app.slice/foo.service", "systemd", "", "",
	 "", "foo", CLAIMED},
	{"/system.slice/system-getty.slice/getty@tty1.service", "systemd", "", "", "", "getty@tty1",
	 0},
	{"/init.scope", "systemd", "", "", "", "init", 0},
	{"/system.slice/docker-" ID ".scope/system.slice/nginx.service", "docker", ID, "", "", "",
	 0},
	/* Of no container. */
	{"/", "", "", "", "", "", 0},
	{"", "", "", "", "", "", 0},
	{"/user.slice", "", "", "", "", "", 0},
	{"/docker", "", "", "", "", "", 0},
	{"/docker/buildkit/t4967jvf8rbufklrhkicskyes", "", "", "", "", "", 0},
	/* Nearly. */
	{"/system.slice/docker-34DC0B5E626F2C5C4C5170E34B10E7654CE36F0FCD532739F4445BAABEA03376.scope",
	 "systemd", "", "", "",
	 "docker-34DC0B5E626F2C5C4C5170E34B10E7654CE36F0FCD532739F4445BAABEA03376", 0},
	{"/docker/" ID "\n", "", "", "", "", "", 0},
	{"/libpod-payload-" ID "0", "", "", "", "", "", 0},
	{"/docker/34dc0b5e", "", "", "", "", "", 0},
	{"/system.slice/docker-../../../../etc/passwd.scope", "systemd", "", "", "", "passwd", 0},
	{"/kubepods/podXYZ/pod", "", "", "", "", "", 0},
	{"/kubepods-pod.slice/pod", "", "", "", "", "", 0},
	{"/kubepods/burstable/pod74c13223-5a00-11e9-b385-42010a80018g", "", "", "", "", "", 0},
	{"/docker/" ID "0", "", "", "", "", "", 0},
};

static void a_path_tells_the_runtime_and_the_ids(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(paths) / sizeof(*paths); i++) {
		struct tcp_cgroup_identity id;
		unsigned int is;

		tcp_cgroup_parse(paths[i].path, &id);
		is = (id.claimed ? CLAIMED : 0) | (id.claimed_pod ? CLAIMED_POD : 0);
		if (strcmp(id.runtime, paths[i].runtime) ||
		    strcmp(id.container_id, paths[i].container_id) ||
		    strcmp(id.pod_uid, paths[i].pod_uid) ||
		    strcmp(id.container, paths[i].container) ||
		    strcmp(id.service, paths[i].service) || is != paths[i].is)
			fail_msg("%s: '%s' '%s' '%s' '%s' '%s' %u", paths[i].path, id.runtime,
				 id.container_id, id.pod_uid, id.container, id.service, is);
		if (!strchr(paths[i].path, '\n'))
			assert_string_equal(id.path, paths[i].path);
	}
}

static void a_hostile_path_is_cut_and_made_safe(void **state)
{
	char path[8192], evil[] = "/lxc.payload.\033[2Jx\\x1b\\x00\\xzz\\x1";
	struct tcp_cgroup_identity id;

	(void)state;
	tcp_cgroup_parse(evil, &id);
	assert_string_equal(id.runtime, "lxc");
	assert_string_equal(id.container, "?[2Jx??\\xzz\\x1");
	assert_null(strchr(id.path, '\033'));
	/* C1, which terminals take for ESC [; no UTF-8; UTF-8. */
	tcp_cgroup_parse("/lxc.payload.a\\xc2\\x9b2Jb", &id);
	assert_string_equal(id.container, "a??2Jb");
	tcp_cgroup_parse("/lxc.payload.a\xc3\xa9\\x9b", &id);
	assert_string_equal(id.container, "a???");
	assert_string_equal(id.path, "/lxc.payload.a\xc3\xa9\\x9b");
	tcp_cgroup_parse("/lxc.payload.a\\xc3\\xa9", &id);
	assert_string_equal(id.container, "a\xc3\xa9");
	/* Truncated between characters, not within one. */
	strcpy(path, "/lxc.payload.");
	for (int i = 0; i < 300; i++)
		strcat(path, "\xc3\xa9");
	tcp_cgroup_parse(path, &id);
	assert_int_equal(strlen(id.container), sizeof(id.container) - 2);
	assert_null(strchr(id.container, '?'));
	assert_int_equal(strlen(id.path), sizeof(id.path) - 2);
	assert_null(strchr(id.path, '?'));
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 1] = 0;
	strcpy(path + sizeof(path) - 74, "/docker/" ID);
	tcp_cgroup_parse(path, &id);
	assert_string_equal(id.container_id, ID);
	assert_int_equal(strlen(id.path), sizeof(id.path) - 1);
	memset(path, '/', sizeof(path) - 1);
	tcp_cgroup_parse(path, &id);
	memset(path, ':', sizeof(path) - 1);
	tcp_cgroup_parse(path, &id);
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
		char out[TCP_CGROUP_NAME_BYTES];

		tcp_cgroup_workload(names[i][0], out, sizeof(out));
		assert_string_equal(out, names[i][1]);
	}
}

/* ---- files of runtimes ---- */

static void drop(const char *path)
{
	char full[1024];

	snprintf(full, sizeof(full), "%s%s", test_folder, path);
	assert_int_equal(remove(full), 0);
}

/* The same text followed by blanks until it is too large. */
static void blanks(const char *full, int bytes)
{
	FILE *f = fopen(full, "a");

	assert_non_null(f);
	fprintf(f, "%*s", bytes, "");
	assert_int_equal(fclose(f), 0);
}

static void deep(const char *full)
{
	FILE *f = fopen(full, "w");

	assert_non_null(f);
	fputs("{\"Name\":\"/deep\",\"x\":", f);
	for (int i = 0; i < 100000; i++)
		fputc('[', f);
	for (int i = 0; i < 100000; i++)
		fputc(']', f);
	fputs("}", f);
	assert_int_equal(fclose(f), 0);
}

/*
 * A tree of folders replaces the hierarchy: it is not a kernfs, so nothing is found by id, and
 * names are requested from tcp_cgroup_runtime_names() itself.
 */

static struct tcp_cgroup_identity named(const char *path)
{
	struct tcp_cgroup_identity id;

	tcp_cgroup_parse(path, &id);
	tcp_cgroup_runtime_names(test_folder, &id);
	return id;
}

static void docker_names_container_and_service(void **state)
{
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/var/lib/docker/containers/" ID "/config.v2.json",
		   "{\"Name\":\"/web\\u001b[2J\",\"Config\":{\"Labels\":"
		   "{\"com.docker.compose.service\":\"shop\"}}}");
	id = named("/docker/" ID);
	assert_string_equal(id.container, "web?[2J");
	assert_string_equal(id.service, "shop");
	folder_put("/var/lib/docker/containers/" ID "/config.v2.json",
		   "{\"Name\":17,\"Config\":[]}");
	id = named("/docker/" ID);
	assert_string_equal(id.container, "");
}

static void containerd_names_container_pod_and_service(void **state)
{
	struct tcp_cgroup_identity id;
	char title[512];

	(void)state;
	folder_put("/run/containerd/io.containerd.runtime.v2.task/k8s.io/" OUTER "/config.json",
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
	tcp_cgroup_title(&id, title, sizeof(title));
	assert_string_equal(title, "shop/cart-7d9c5b8f6-x2x7k/server");
	assert_true(tcp_cgroup_matches(&id, "cart"));
	assert_true(tcp_cgroup_matches(&id, "shop/cart-7d9c5b8f6-x2x7k"));
	assert_true(tcp_cgroup_matches(&id, "9a2c7ddf2a49"));
	assert_false(tcp_cgroup_matches(&id, "9a2c7ddf2a4"));
	assert_false(tcp_cgroup_matches(&id, ""));
}

static void podman_names_container_and_service(void **state)
{
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/var/lib/containers/storage/overlay-containers/" ID "/userdata/config.json",
		   "{\"annotations\":{\"io.container.manager\":\"libpod\"}}");
	folder_put("/var/lib/containers/storage/overlay-containers/containers.json",
		   "[{\"id\":\"x\",\"names\":[\"no\"]},{\"id\":\"" ID "\",\"names\":[\"db\"]}]");
	folder_put("/var/lib/docker/containers/" ID "/config.v2.json", "no json");
	id = named("/machine.slice/libpod-" ID ".scope");
	assert_string_equal(id.runtime, "podman");
	assert_string_equal(id.container, "db");

	/* podman run --rm, and Quadlet */
	folder_put("/var/lib/containers/storage/overlay-containers/" RM "/userdata/config.json",
		   "{}");
	folder_put("/var/lib/containers/storage/overlay-containers/volatile-containers.json",
		   "[{\"id\":\"" RM "\",\"names\":[\"systemd-web\"]}]");
	id = named("/system.slice/web.service/libpod-payload-" RM);
	assert_string_equal(id.container, "systemd-web");
	assert_string_equal(id.service, "web");
	drop("/var/lib/containers/storage/overlay-containers/" ID "/userdata/config.json");
}

static void cri_o_names_pod_and_service(void **state)
{
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/run/containers/storage/overlay-containers/" ID "/userdata/config.json",
		   "{\"annotations\":{\"io.kubernetes.cri-o.ContainerType\":\"sandbox\","
		   "\"io.kubernetes.container.name\":\"POD\",\"io.kubernetes.pod.name\":\"etcd-0\","
		   "\"io.kubernetes.pod.namespace\":\"infra\"}}");
	id = named("/kubepods.slice/kubepods-pod" UID_ ".slice/crio-" ID ".scope");
	assert_string_equal(id.pod, "etcd-0");
	assert_string_equal(id.service, "etcd");
}

static void k3s_names_container_and_service(void **state)
{
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/" THIRD "/config.json",
		   "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"dns\","
		   "\"io.kubernetes.cri.sandbox-name\":\"coredns-5d78c9869d-x2x7k\","
		   "\"io.kubernetes.cri.sandbox-namespace\":\"kube-system\"}}");
	id = named("/kubepods/burstable/pod" UID "/" THIRD);
	assert_string_equal(id.runtime, "containerd");
	assert_string_equal(id.container, "dns");
	assert_string_equal(id.service, "coredns");
	drop("/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io/" THIRD "/config.json");
}

static void ecs_and_nomad_name_container_and_service(void **state)
{
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/var/lib/docker/containers/" THIRD "/config.v2.json",
		   "{\"Name\":\"/ecs-shop-7-web-8af1\",\"Config\":{\"Labels\":"
		   "{\"com.amazonaws.ecs.container-name\":\"web\","
		   "\"com.amazonaws.ecs.task-definition-family\":\"shop\"}}}");
	id = named("/ecs/9781c2480edd4cdb9a93f63cb662a5d3/" THIRD);
	assert_string_equal(id.runtime, "docker");
	assert_string_equal(id.container, "web");
	assert_string_equal(id.service, "shop");
	folder_put("/var/lib/docker/containers/" THIRD "/config.v2.json",
		   "{\"Name\":\"/redis-" UID "\",\"Config\":{\"Labels\":"
		   "{\"com.hashicorp.nomad.job_name\":\"cache\"}}}");
	id = named("/nomad.slice/share.slice/docker-" THIRD ".scope");
	assert_string_equal(id.container, "redis-" UID);
	assert_string_equal(id.service, "cache");
}

/*
 * A user who may create folders below a container's cgroup, or below his own, can choose any name.
 */
static void no_container_takes_the_name_of_another(void **state)
{
	static const char *const paths_[] = {
		"/docker/" OUTER "/docker/" THIRD,
		"/lxc.payload.web1/docker-" THIRD ".scope",
		"/user.slice/user-1000.slice/user@1000.service/user.slice/docker-" THIRD ".scope",
		"/docker/" OUTER "/kubepods/pod" UID "/" THIRD,
		"/docker/" OUTER "/kubepods/pod" UID,
	};
	struct tcp_cgroup_identity id;

	(void)state;
	folder_put("/var/lib/docker/containers/" THIRD "/config.v2.json", "{\"Name\":\"/bank\"}");
	folder_put("/var/log/containers/bank-0_prod_bank-" THIRD ".log", "");
	folder_put("/var/log/pods/prod_bank-0_" UID "/bank/0.log", "");
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "bank");
	for (size_t i = 0; i < sizeof(paths_) / sizeof(*paths_); i++) {
		id = named(paths_[i]);
		if (id.container[0] || id.pod[0] || id.service[0])
			fail_msg("%s: '%s' '%s' '%s'", paths_[i], id.container, id.pod, id.service);
	}
	/* The pod in which a nested container runs is still this host's. */
	id = named("/kubepods/pod" UID "/" OUTER "/docker/" THIRD);
	assert_string_equal(id.container, "");
	assert_string_equal(id.pod, "bank-0");
	drop("/var/log/containers/bank-0_prod_bank-" THIRD ".log");
	drop("/var/log/pods/prod_bank-0_" UID "/bank/0.log");
	drop("/var/log/pods/prod_bank-0_" UID "/bank");
	drop("/var/log/pods/prod_bank-0_" UID);
}

static void hostile_files_of_runtimes_tell_nothing(void **state)
{
	static const char file[] = "/var/lib/docker/containers/" THIRD "/config.v2.json";
	static const char *const bad[] = {
		"",
		"[]",
		"17",
		"{",
		"null",
		"{\"Name\":null}",
		"{\"Name\":\"/a\\u0000b\"}",
		"{\"Name\":\"/a\xff\"}",
		"{\"Config\":{\"Labels\":[1,2]}}",
		"{\"Config\":{\"Labels\":{\"com.docker.compose.service\":{}}}}"};
	char full[512], target[512], long_name[2048] = "{\"Name\":\"/";
	struct tcp_cgroup_identity id;

	(void)state;
	snprintf(full, sizeof(full), "%s%s", test_folder, file);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		folder_put(file, bad[i]);
		id = named("/docker/" THIRD);
		if (id.container[0] || id.service[0])
			fail_msg("%s: '%s' '%s'", bad[i], id.container, id.service);
	}
	/* Longer than fits: only complete characters are kept. */
	for (int i = 0; i < 500; i++)
		strcat(long_name, "\xc3\xa9");
	strcat(long_name, "\\u009b\"}");
	folder_put(file, long_name);
	id = named("/docker/" THIRD);
	assert_int_equal(strlen(id.container), sizeof(id.container) - 2);
	assert_null(strchr(id.container, '?'));
	folder_put(file, "{\"Name\":\"/a\\u009b2J\"}");
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "a??2J");
	/* Too deep for a recursive parser, and too large. */
	deep(full);
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "");
	folder_put(file, "{\"Name\":\"/large\"}");
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "large");
	blanks(full, 5 << 20);
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "");
	/* Not files: a link, a pipe without a writer, a folder. */
	folder_put(file, "{\"Name\":\"/linked\"}");
	snprintf(target, sizeof(target), "%s/elsewhere", test_folder);
	assert_int_equal(rename(full, target), 0);
	assert_int_equal(symlink(target, full), 0);
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "");
	drop(file);
	assert_int_equal(mkfifo(full, 0600), 0);
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "");
	drop(file);
	assert_int_equal(mkdir(full, 0700), 0);
	id = named("/docker/" THIRD);
	assert_string_equal(id.container, "");
	drop(file);
}

static void kubelets_folders_tell_names_whatever_the_runtime(void **state)
{
	static const char lone[] =
		"1111111111111111111111111111111111111111111111111111111111111111";
	char path[512];
	struct tcp_cgroup_identity id;

	(void)state;
	snprintf(path, sizeof(path), "/var/log/containers/mail-0_shop_smtp-%s.log", lone);
	folder_put(path, "");
	folder_put("/var/log/containers/_.log", "");
	folder_put("/var/log/pods/shop_mail-0_" UID "/smtp/0.log", "");
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

/* ---- hierarchies ---- */

static int hierarchy(struct tcp_cgroup_hierarchy *h, const char *controller, const char *mounts,
		     const char *cgroup)
{
	char m[128], c[128];

	folder_put("mounts", mounts);
	folder_put("cgroup", cgroup);
	snprintf(m, sizeof(m), "%s/mounts", test_folder);
	snprintf(c, sizeof(c), "%s/cgroup", test_folder);
	return tcp_cgroup_hierarchy(h, controller, m, c);
}

static void the_hierarchy_that_tells_containers_apart_is_found(void **state)
{
	static const char unified[] = "cgroup2 /sys/fs/cgroup cgroup2 rw,nsdelegate 0 0\n",
			  hybrid[] = "tmpfs /sys/fs/cgroup tmpfs ro 0 0\n"
				     "cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
				     "cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0\n"
				     "cgroup /sys/fs/cgroup/my\\040memory cgroup rw,memory 0 0\n";
	struct tcp_cgroup_hierarchy h;

	(void)state;
	assert_int_equal(hierarchy(&h, NULL, unified, "0::/a\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup");
	assert_int_equal(h.number, 0);
	assert_int_equal(hierarchy(&h, NULL, hybrid, "12:cpu,cpuacct:/x\n4:memory:/y\n0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/my memory");
	assert_string_equal(h.controller, "memory");
	assert_int_equal(h.number, 4);
	assert_int_equal(hierarchy(&h, "cpu", hybrid, "12:cpu,cpuacct:/x\n0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/cpu,cpuacct");
	assert_int_equal(h.number, 12);
	assert_int_equal(hierarchy(&h, "unified", hybrid, "12:cpu,cpuacct:/x\n0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup/unified");
	/* A mount with an empty source: its field is left out. */
	assert_int_equal(hierarchy(&h, "unified", " /sys/fs/cgroup cgroup2 rw 0 0\n", "0::/\n"), 0);
	assert_string_equal(h.root, "/sys/fs/cgroup");
	assert_int_equal(hierarchy(&h, "pids", hybrid, "12:cpu:/x\n"), -ENOENT);
	assert_int_equal(hierarchy(&h, "unified", "", ""), -ENOENT);
	/* Nothing is mounted: ids stay ids. */
	assert_int_equal(hierarchy(&h, NULL, "", ""), 0);
	assert_string_equal(h.root, "");
	assert_int_equal(hierarchy(&h, NULL, "a\n\ncgroup2 /x\ncgroup2\n", ":"), 0);
}

/*
 * Hides the mount of the memory controller, and mounts it again at `again`. Returns 0 if the latter
 * is found, 1 if not, or -1 if this host cannot do it.
 */
static int find_behind_hidden(const char *again)
{
	char root[PATH_MAX];

	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    !tcp_cgroup_mount(NULL, "memory", root, sizeof(root)) ||
	    mount("hidden", root, "tmpfs", 0, NULL) || mkdir(again, 0700) ||
	    mount("again", again, "cgroup", 0, "memory"))
		return -1;
	return tcp_cgroup_mount(NULL, "memory", root, sizeof(root)) && !strcmp(root, again) ? 0 : 1;
}

static void a_hidden_hierarchy_is_no_hierarchy(void **state)
{
	char again[128];
	int status;
	pid_t pid;

	(void)state;
	snprintf(again, sizeof(again), "%s/again", test_folder);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid)
		_exit(find_behind_hidden(again) & 0xff); /* -1 becomes 0xff */
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WEXITSTATUS(status) == 0xff) {
		puts("SKIP: no controller of version 1 can be mounted here");
		skip();
	}
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_tells_the_runtime_and_the_ids),
		cmocka_unit_test(a_hostile_path_is_cut_and_made_safe),
		cmocka_unit_test(a_pods_name_tells_its_workload),
		cmocka_unit_test(docker_names_container_and_service),
		cmocka_unit_test(containerd_names_container_pod_and_service),
		cmocka_unit_test(podman_names_container_and_service),
		cmocka_unit_test(cri_o_names_pod_and_service),
		cmocka_unit_test(k3s_names_container_and_service),
		cmocka_unit_test(ecs_and_nomad_name_container_and_service),
		cmocka_unit_test(no_container_takes_the_name_of_another),
		cmocka_unit_test(hostile_files_of_runtimes_tell_nothing),
		cmocka_unit_test(kubelets_folders_tell_names_whatever_the_runtime),
		cmocka_unit_test(the_hierarchy_that_tells_containers_apart_is_found),
		cmocka_unit_test(a_hidden_hierarchy_is_no_hierarchy),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
