// SPDX-License-Identifier: Apache-2.0
/* test_tenant.c - how the agent identifies the tenant of a process, and the limits of a tenant. */
#include "fixture.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>

#include "agent/tenant.h"
#include "support/folder.h"

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static const uint8_t none[16];
static const uint8_t id_bytes[16] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef,
				     0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};

static struct agent_tenant_id of(const char *root, const char *path)
{
	struct agent_tenant_id id = {0};

	agent_tenant_container(root, path, &id);
	return id;
}

static void make(const char *root, const char *path, mode_t mode, uid_t owner)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	assert_int_equal(mkdir(full, 0755), 0);
	assert_int_equal(chmod(full, mode), 0);
	assert_int_equal(chown(full, owner, (gid_t)-1), 0);
}

static void only_roots_cgroups_name_containers(void **state)
{
	const char *root = test_folder;
	struct agent_tenant_id id;

	(void)state;
	if (geteuid()) {
		printf("SKIP: needs root to make folders of other users\n");
		skip();
	}
	assert_int_equal(chmod(root, 0755), 0);
	make(root, "/system.slice", 0755, 0);
	make(root, "/users", 0755, 1000);
	make(root, "/shared", 0777, 0);
	make(root, "/kubepods.slice", 0755, 0);
	make(root, "/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice", 0755,
	     0);

	id = of(root, "/system.slice/docker-" ID ".scope");
	assert_true(id.contained);
	assert_memory_equal(id.container, id_bytes, 16);
	assert_memory_equal(id.pod, none, 16);
	id = of(root, "/kubepods.slice/kubepods-pod01234567_89ab_cdef_0123_456789abcdef.slice/"
		      "cri-containerd-" ID ".scope");
	assert_memory_equal(id.container, id_bytes, 16);
	assert_memory_equal(id.pod, id_bytes, 16);
	/* A user's own cgroups, and those that any user can make, do not attest a container. */
	id = of(root, "/users/docker-" ID ".scope");
	assert_true(id.contained);
	assert_memory_equal(id.container, none, 16);
	id = of(root, "/shared/docker-" ID ".scope");
	assert_true(id.contained);
	assert_memory_equal(id.container, none, 16);
	/* A container chooses the names of the cgroups within it. */
	id = of(root, "/users/docker-" ID ".scope/system.slice/docker-" ID ".scope");
	assert_memory_equal(id.container, none, 16);
	id = of(root, "/system.slice/docker-" ID ".scope/docker-f" ID ".scope");
	assert_memory_equal(id.container, id_bytes, 16);
	/* Outside of the agent's cgroup namespace, and without a hierarchy. */
	id = of(root, "/../docker-" ID ".scope");
	assert_true(id.contained);
	assert_memory_equal(id.container, none, 16);
	id = of("", "/system.slice/docker-" ID ".scope");
	assert_true(id.contained);
	assert_memory_equal(id.container, none, 16);
	/* Not in a container at all. */
	assert_false(of(root, "/").contained);
	assert_false(of(root, "/system.slice/shop.service").contained);
	assert_false(of(root, "/user.slice/user-1000.slice/session-1.scope").contained);
}

#define UID "01234567-89ab-cdef-0123-456789abcdef"

static struct region_names names_of(const char *host, bool pod)
{
	struct agent_tenant_id id = {.contained = true, .container_text = ID};
	struct region_names n;

	memcpy(id.container, id_bytes, 16);
	if (pod) {
		memcpy(id.pod, id_bytes, 16);
		strcpy(id.pod_text, UID);
	}
	agent_tenant_names(host, &id, &n);
	return n;
}

static void make_file(const char *root, const char *path, const char *text)
{
	char full[768];
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	f = fopen(full, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static void names_are_those_of_roots_files(void **state)
{
	static const char *const folders[] = {
		"",
		"/var",
		"/var/log",
		"/var/log/pods",
		("/var/log/pods/shop_cart-7d4b9c6f5-x2k4z_" UID),
		"/var/log/containers",
		"/var/lib",
		"/var/lib/containers",
		"/var/lib/containers/storage",
		"/var/lib/containers/storage/overlay-containers",
	};
	char root[256], path[512];
	struct region_names n;

	(void)state;
	if (geteuid()) {
		printf("SKIP: needs root to make folders of root\n");
		skip();
	}
	snprintf(root, sizeof(root), "%s/names", test_folder);
	for (size_t i = 0; i < sizeof(folders) / sizeof(*folders); i++)
		make(root, folders[i], 0755, 0);
	make_file(root, "/var/log/containers/cart-7d4b9c6f5-x2k4z_shop_app-" ID ".log", "");
	make_file(root, "/var/lib/containers/storage/overlay-containers/containers.json",
		  "[{\"id\":\"f" ID "\",\"names\":[\"no\"]},{\"id\":\"" ID
		  "\",\"names\":[\"web\",\"x\"]}]");

	/* Kubernetes. */
	n = names_of(root, true);
	assert_string_equal(n.kube_namespace, "shop");
	assert_string_equal(n.pod, "cart-7d4b9c6f5-x2k4z");
	assert_string_equal(n.container, "app");
	/*
	 * podman's list is not read, because files beside it contain the environments of
	 * containers.
	 */
	n = names_of(root, false);
	assert_string_equal(n.pod, "");
	assert_string_equal(n.container, "");
	/* Files that others could have written are ignored. */
	snprintf(path, sizeof(path), "%s/var/log/containers", root);
	assert_int_equal(chmod(path, 0777), 0);
	n = names_of(root, true);
	assert_string_equal(n.pod, "cart-7d4b9c6f5-x2k4z");
	assert_string_equal(n.container, "");
	snprintf(path, sizeof(path), "%s/var/log", root);
	assert_int_equal(chown(path, 1000, 0), 0);
	assert_string_equal(names_of(root, true).pod, "");
	assert_int_equal(chown(path, 0, 1000), 0);
	assert_int_equal(chmod(path, 0775), 0);
	assert_string_equal(names_of(root, true).pod, "");
	assert_int_equal(chown(path, 0, 4), 0); /* a group of the system's */
	assert_string_equal(names_of(root, true).pod, "cart-7d4b9c6f5-x2k4z");
}

static void names_are_read_seldom_and_kept(void **state)
{
	struct agent *a = calloc(1, sizeof(*a));
	struct agent_tenant_id id = {.contained = true, .container_text = ID, .pod_text = UID};
	struct agent_tenant *t;
	const char *log = "/var/log/containers/cart_shop_app-" ID ".log";
	char root[256], path[512];

	(void)state;
	if (geteuid()) {
		printf("SKIP: needs root to make folders of root\n");
		skip();
	}
	memcpy(id.container, id_bytes, 16);
	snprintf(root, sizeof(root), "%s/seldom", test_folder);
	make(root, "", 0755, 0);
	make(root, "/var", 0755, 0);
	make(root, "/var/log", 0755, 0);
	make(root, "/var/log/pods", 0755, 0);
	make(root, "/var/log/pods/shop_cart_" UID, 0755, 0);
	make(root, "/var/log/containers", 0755, 0);
	a->clock = 20000000000;
	t = agent_tenant_get(a, &id);
	assert_string_equal(t->names.pod, "");
	agent_tenant_look(a, root, t);
	assert_string_equal(t->names.pod, "cart");
	assert_string_equal(t->names.container, "");
	/* Kubelet creates its link later; a new connection does not cause an earlier look. */
	make_file(root, log, "");
	agent_tenant_put(t);
	t = agent_tenant_get(a, &id);
	a->clock += 9999999999;
	agent_tenant_look(a, root, t);
	assert_string_equal(t->names.pod, "cart");
	assert_string_equal(t->names.container, "");
	a->clock++;
	agent_tenant_look(a, root, t);
	assert_string_equal(t->names.container, "app");
	/* Known names are not read again. */
	agent_tenant_put(t);
	snprintf(path, sizeof(path), "%s%s", root, log);
	assert_int_equal(unlink(path), 0);
	a->clock *= 2;
	t = agent_tenant_get(a, &id);
	agent_tenant_look(a, root, t);
	assert_string_equal(t->names.container, "app");
	agent_tenant_put(t);
	free(a->names);
	free(a);
}

static void names_are_written_and_read(void **state)
{
	struct region_names in = {.id = 7, .pod = "p", .container = "c.1"}, out;
	uint64_t lines[SL_NAMES_SIZE / 8];

	(void)state;
	memset(in.kube_namespace, 'n', sizeof(in.kube_namespace) - 1);
	region_names_write(lines, &in);
	assert_int_equal(region_names_parse(lines, &out), REGION_FAULT_NONE);
	assert_memory_equal(&in, &out, sizeof(in));
	/* A line of another entry, and text that is not a name. */
	lines[24] = 8;
	lines[31] = sl_line_check(lines + 24);
	assert_int_equal(region_names_parse(lines, &out), REGION_FAULT_UNSETTLED);
	strcpy(in.pod, "p\"x");
	region_names_write(lines, &in);
	assert_int_equal(region_names_parse(lines, &out), REGION_FAULT_NONE);
	assert_string_equal(out.pod, "");
	assert_string_equal(out.container, "c.1");
	memset(lines, 0xff, sizeof(lines));
	for (int i = 0; i < 8; i++)
		lines[i * 8 + 7] = sl_line_check(lines + i * 8);
	assert_int_equal(region_names_parse(lines, &out), REGION_FAULT_NONE);
	assert_string_equal(out.container, "");
}

static void subordinate_uids_count_as_their_owner(void **state)
{
	char path[512];
	int err = 0;
	FILE *f;

	(void)state;
	snprintf(path, sizeof(path), "%s/subuid", test_folder);
	f = fopen(path, "w");
	assert_non_null(f);
	fprintf(f, "1001:200000:65536\nroot:400000:65536\nunknown:500000:10\n:::\nx:y:z\n7:8");
	fclose(f);
	assert_int_equal(agent_tenant_owner(path, 200000, &err), 1001);
	assert_int_equal(agent_tenant_owner(path, 265535, &err), 1001);
	assert_int_equal(agent_tenant_owner(path, 265536, &err), 265536);
	assert_int_equal(agent_tenant_owner(path, 1001, &err), 1001);
	assert_int_equal(agent_tenant_owner(path, 400001, &err), 0);
	assert_int_equal(agent_tenant_owner(path, 500001, &err), 500001);
	assert_int_equal(agent_tenant_owner("/nowhere", 5, &err), 5);
	assert_int_equal(err, 0);
	/*
	 * If root cannot be distinguished from other users, the agent says so. A path that contains
	 * itself causes a loop.
	 */
	snprintf(path, sizeof(path), "%s/loop", test_folder);
	assert_int_equal(symlink(path, path), 0);
	agent_tenant_owner(path, 5, &err);
	assert_int_equal(err, -ELOOP);
}

static void a_containers_root_is_not_trusted(void **state)
{
	struct agent_tenant_id host = {0}, pod = {.contained = true}, known = {.contained = true};
	struct agent a;
	struct agent_conn *c;
	struct agent_tenant *t;

	(void)state;
	memcpy(known.container, id_bytes, 16);
	agent_up(&a, (struct agent_opts){0});
	for (int i = 0; i < 2; i++) {
		c = conn_of(&a, i ? &known : &pod);
		assert_false(c->peer->tenant->trusted);
		for (int kind = 0; kind < 2; kind++) {
			c = conn_of(&a, i ? &known : &pod);
			say(&a, c, kind ? SL_MSG_STATUS : SL_MSG_SUBSCRIBE, "", 0, -1);
			assert_int_equal(hear(c).refused.error, EPERM);
		}
	}
	c = conn_of(&a, &host);
	assert_true(c->peer->tenant->trusted);
	/* Nor do two of them have the same key. */
	assert_int_not_equal(agent_tenant_key(&host), agent_tenant_key(&pod));
	assert_int_not_equal(agent_tenant_key(&pod), agent_tenant_key(&known));
	/* A tenant is forgotten with its last connection. */
	t = agent_tenant_get(&a, &known);
	assert_true(t->refs > 1);
	agent_tenant_put(t);
	agent_fini(&a);
}

static void the_directory_says_whose_a_region_is(void **state)
{
	struct agent_tenant_id id = {.uid = stranger(0), .contained = true};
	struct fake f = fake_make(11, 1, SEALED), g = fake_make(11, 1, SEALED);
	struct region_tenant t;
	struct region_info info;
	struct agent a;

	(void)state;
	memcpy(id.container, id_bytes, 16);
	memcpy(id.pod, id_bytes, 16);
	id.pod[15] = 7;
	agent_up(&a, (struct agent_opts){0});
	admitted(&a, conn_of(&a, &id), &f);
	admitted(&a, conn_up(&a), &g); /* the same instance number, but of another tenant */
	assert_int_equal(region_info_parse(a.dir.map, a.dir.size, &info), REGION_FAULT_NONE);
	assert_int_equal(info.tenants, (char *)a.dir.tenant - (char *)a.dir.map);
	assert_int_equal(info.max_tenants, info.max_entries);
	assert_int_equal(region_tenant_parse(a.dir.tenant[0], &t), REGION_FAULT_NONE);
	assert_int_equal(t.id, entry_of(&a, 0).id);
	assert_int_equal(t.key, agent_tenant_key(&id));
	assert_int_equal(t.uid, id.uid);
	assert_int_equal(t.pid, 1234);
	assert_false(t.trusted);
	assert_true(t.contained);
	assert_int_equal(t.instance, 11);
	assert_memory_equal(t.container, id.container, 16);
	assert_memory_equal(t.pod, id.pod, 16);
	assert_int_not_equal(entry_of(&a, 0).instance, 11);
	assert_int_equal(region_tenant_parse(a.dir.tenant[1], &t), REGION_FAULT_NONE);
	assert_true(t.trusted);
	assert_int_equal(entry_of(&a, 1).instance, 11);
	/* Torn, or half of another entry's. */
	uint64_t lines[16];
	memcpy(lines, a.dir.tenant[0], sizeof(lines));
	lines[3]++;
	assert_int_equal(region_tenant_parse(lines, &t), REGION_FAULT_UNSETTLED);
	memcpy(lines, a.dir.tenant[1], 64);
	assert_int_equal(region_tenant_parse(lines, &t), REGION_FAULT_UNSETTLED);
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

/* The agent gave the region another instance; its publisher knows only the one that it sent. */
static void verdicts_and_closing_reach_a_strangers_region(void **state)
{
	struct fake f = fake_make(12, 1, SEALED);
	struct sl_msg_verdict v = {.ttl_ns = 1, .score = 1};
	struct agent a;
	struct agent_conn *c;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_as(&a, stranger(0));
	admitted(&a, c, &f);
	v.instance = 12;
	agent_verdict_take(&a, &v);
	assert_int_equal(a.n.verdicts_unknown, 1);
	v.instance = entry_of(&a, 0).instance;
	agent_verdict_take(&a, &v);
	assert_int_equal(a.n.verdicts_unknown, 1);
	say(&a, c, SL_MSG_CLOSE, &(struct sl_msg_id){12}, 8, -1);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_CLOSED);
	agent_fini(&a);
	fake_free(&f);
}

static void who_exceeds_its_share_is_told(void **state)
{
	struct fake f[32];
	struct agent a;
	struct heard h;
	unsigned int n = 0;

	(void)state;
	for (uint64_t i = 0; i < 32; i++)
		f[i] = fake_make(500 + i, 1, SEALED);
	agent_up(&a, (struct agent_opts){.max_memory = f[0].size * 32});
	do
		h = publish(&a, conn_as(&a, stranger(0)), &f[n]);
	while (h.type == SL_MSG_ADMITTED && ++n < 31);
	assert_int_equal(n, 14); /* half of what is not reserved */
	assert_int_equal(h.refused.error, EDQUOT);
	assert_non_null(strstr(h.refused.reason, "--max-memory"));
	assert_non_null(strstr(h.refused.reason, "its share is"));
	assert_int_equal(a.n.refused[REFUSED_QUOTA], 1);
	/* A container of the same uid has its own. */
	admitted(&a,
		 conn_of(&a, &(struct agent_tenant_id){.uid = stranger(0),
						       .contained = true,
						       .container = {1}}),
		 &f[31]);
	agent_fini(&a);
	for (int i = 0; i < 32; i++)
		fake_free(&f[i]);
}

FILE *__real_fopen64(const char *name, const char *mode);
FILE *__wrap_fopen64(const char *name, const char *mode);

static pid_t dying; /* a process that ends as soon as this file of it is open */
static const char *last_file;
static bool before; /* or before it is open */

FILE *__wrap_fopen64(const char *name, const char *mode)
{
	FILE *f = before ? NULL : __real_fopen64(name, mode);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)dying, last_file ?: "");
	if (last_file && !strcmp(name, path)) {
		kill(dying, SIGKILL);
		waitpid(dying, NULL, 0);
	}
	return before ? __real_fopen64(name, mode) : f;
}

/*
 * The process published, so it must not be refused because it ended quickly: its last values would
 * not be read.
 */
static void who_ends_while_it_is_attested_is_a_stranger(void **state)
{
	static const char *const files[] = {"status", "cgroup", "cgroup"};
	static struct agent a;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct agent_tenant_id id;

		dying = fork();
		assert_true(dying >= 0);
		if (!dying) {
			alarm(TEST_HANGS_S);
			pause();
			_exit(0);
		}
		last_file = files[i];
		before = i == 2;
		assert_int_equal(agent_tenant_attest(&a, dying, -1, getuid(), &id), 0);
		last_file = NULL;
		before = false;
		assert_int_equal(kill(dying, 0), -1);
		assert_true(id.uid == getuid() && id.contained);
		assert_memory_equal(id.container, none, 16);
	}
}

/* ---- systemd's store ---- */

static char stored_name[256], notified[512];
static int stored_fd = -1, notify_error;

int __wrap_base_notify(const char *state, int fd);
int __wrap_base_passed_file(const char **name);

int __wrap_base_notify(const char *state, int fd)
{
	if (fd < 0) {
		snprintf(notified, sizeof(notified), "%s", state);
		return 1;
	}
	if (notify_error)
		return notify_error;
	assert_int_equal(sscanf(state, "FDSTORE=1\nFDNAME=%255s", stored_name), 1);
	assert_null(strchr(stored_name, ':')); /* the separator of names */
	stored_fd = dup(fd);
	return 1;
}

int __wrap_base_passed_file(const char **name)
{
	int fd = stored_fd;

	stored_fd = -1;
	*name = stored_name;
	return fd;
}

/* Starts an agent with an epoll descriptor, which the store requires. */
static void agent_up_stored(struct agent *a)
{
	agent_up(a, (struct agent_opts){0});
	a->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(a->epoll_fd >= 0);
}

static void agent_down_stored(struct agent *a)
{
	int fd = a->epoll_fd;

	agent_fini(a);
	close(fd);
}

/* The names of pods are found by the ids as they are written in the host's files. */
static void a_restarted_agent_knows_containers_and_pods(void **state)
{
	struct agent_tenant_id id[] = {
		{.uid = stranger(0), .contained = true, .container_text = ID, .pod_text = UID},
		{.uid = stranger(0), .contained = true, .container_text = ID},
		{.uid = stranger(0), .contained = true},
		{.uid = geteuid()},
	};
	struct fake f = fake_make(13, 1, SEALED);
	struct agent a;

	(void)state;
	assert_int_equal(setenv("NOTIFY_SOCKET", "/nowhere", 1), 0);
	for (size_t i = 0; i < sizeof(id) / sizeof(*id); i++) {
		const struct agent_tenant_id *is;

		if (*id[i].container_text)
			memcpy(id[i].container, id_bytes, 16);
		if (*id[i].pod_text)
			memcpy(id[i].pod, id_bytes, 16);
		agent_up_stored(&a);
		admitted(&a, conn_of(&a, &id[i]), &f);
		agent_down_stored(&a);
		agent_up_stored(&a);
		agent_store_restore(&a);
		assert_int_equal(a.n.restored, 1);
		assert_int_equal(a.stored_bytes, strlen(stored_name) + 1);
		is = &a.slots[0]->peer->tenant->id;
		assert_int_equal(is->uid, id[i].uid);
		assert_int_equal(is->contained, id[i].contained);
		assert_memory_equal(is->container, id[i].container, 16);
		assert_memory_equal(is->pod, id[i].pod, 16);
		assert_string_equal(is->container_text, id[i].container_text);
		assert_string_equal(is->pod_text, id[i].pod_text);
		agent_down_stored(&a);
	}
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	fake_free(&f);
}

/* systemd would keep it forever. */
static void a_region_with_an_unknown_name_is_given_back(void **state)
{
	struct fake f = fake_make(16, 1, SEALED);
	struct agent a;

	(void)state;
	agent_up_stored(&a);
	strcpy(stored_name, "sl-0000000000000010-1-2-3-0-00-00"); /* as an earlier version did */
	stored_fd = dup(f.fd);
	agent_store_restore(&a);
	assert_int_equal(a.n.restored, 0);
	assert_string_equal(notified, "FDSTOREREMOVE=1\nFDNAME=sl-0000000000000010-1-2-3-0-00-00");
	agent_down_stored(&a);
	fake_free(&f);
}

/* All names are in one environment variable of the next agent, which Linux limits to 128 KiB. */
static void systemd_keeps_no_more_than_it_can_pass(void **state)
{
	struct fake f = fake_make(14, 1, SEALED), g = fake_make(15, 1, SEALED);
	struct agent_conn *greedy;
	struct agent a;

	(void)state;
	assert_int_equal(setenv("NOTIFY_SOCKET", "/nowhere", 1), 0);
	agent_up_stored(&a);
	admitted(&a, conn_up(&a), &f);
	assert_true(stored_fd >= 0);
	close(stored_fd);
	stored_fd = -1;
	assert_int_equal(a.stored_bytes, strlen(stored_name) + 1);
	agent_region_retire(&a, a.slots[0]);
	assert_int_equal(a.stored_bytes, 0);
	a.stored_bytes = 128 * 1024 - 64; /* pretend that there are a thousand other regions */
	admitted(&a, conn_up(&a), &g);
	assert_int_equal(stored_fd, -1);
	assert_int_equal(a.n.store_refused, 1);
	agent_region_retire(&a, a.slots[1]);
	assert_int_equal(a.stored_bytes, 128 * 1024 - 64);
	a.stored_bytes = 0;
	agent_down_stored(&a);
	/* A tenant that has stored as much as is free leaves the rest to others. */
	agent_up_stored(&a);
	greedy = conn_as(&a, stranger(0));
	greedy->peer->tenant->stored_bytes = a.stored_bytes = 60 * 1024;
	admitted(&a, greedy, &f);
	assert_int_equal(stored_fd, -1);
	assert_int_equal(a.n.store_refused, 1);
	admitted(&a, conn_as(&a, stranger(1)), &g);
	assert_true(stored_fd >= 0);
	close(stored_fd);
	stored_fd = -1;
	agent_down_stored(&a);
	/* A failure is counted, and the name is free again. */
	agent_up_stored(&a);
	notify_error = -EMFILE;
	admitted(&a, conn_up(&a), &f);
	notify_error = 0;
	assert_int_equal(a.stored_bytes, 0);
	assert_int_equal(a.n.store_refused, 1);
	agent_down_stored(&a);
	assert_int_equal(unsetenv("NOTIFY_SOCKET"), 0);
	fake_free(&f);
	fake_free(&g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_roots_cgroups_name_containers),
		cmocka_unit_test(names_are_those_of_roots_files),
		cmocka_unit_test(names_are_read_seldom_and_kept),
		cmocka_unit_test(names_are_written_and_read),
		cmocka_unit_test(subordinate_uids_count_as_their_owner),
		cmocka_unit_test(a_containers_root_is_not_trusted),
		cmocka_unit_test(the_directory_says_whose_a_region_is),
		cmocka_unit_test(verdicts_and_closing_reach_a_strangers_region),
		cmocka_unit_test(who_exceeds_its_share_is_told),
		cmocka_unit_test(who_ends_while_it_is_attested_is_a_stranger),
		cmocka_unit_test(a_restarted_agent_knows_containers_and_pods),
		cmocka_unit_test(a_region_with_an_unknown_name_is_given_back),
		cmocka_unit_test(systemd_keeps_no_more_than_it_can_pass),
	};

	return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
