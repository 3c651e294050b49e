// SPDX-License-Identifier: Apache-2.0
/* tenant.c - attests processes by /proc and cgroups, and keeps the table of tenants. */
#include "agent/tenant.h"

#include <errno.h>
#include <poll.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/sha256.h"
#include "base/text.h"
#include "source/tcp/cgroup.h"

#define NAMES_KEPT     256u
#define NAMES_AGAIN_NS 10000000000ull

/* ---- attestation ---- */

/* Parses the first 32 hexadecimal digits, ignoring dashes; all zeros if there are fewer. */
static void hex_bytes(const char *text, uint8_t out[16])
{
	char digits[33] = "";
	size_t n = 0;

	for (; *text && n < 32; text++)
		if (*text != '-')
			digits[n++] = *text;
	if (base_unhex(out, digits, 16))
		memset(out, 0, 16);
}

void agent_tenant_ids(struct agent_tenant_id *id, const char *container, const char *pod)
{
	snprintf(id->container_text, sizeof(id->container_text), "%s", container);
	snprintf(id->pod_text, sizeof(id->pod_text), "%s", pod);
	hex_bytes(container, id->container);
	hex_bytes(pod, id->pod);
}

/* True if only root can have created the entries of this directory. */
static bool roots_folder(const char *root, const char *path, size_t bytes)
{
	char folder[1024];
	struct stat st;
	int n = snprintf(folder, sizeof(folder), "%s%.*s", root, (int)bytes, path);

	return *root && n > 0 && (size_t)n < sizeof(folder) && !lstat(folder, &st) &&
	       S_ISDIR(st.st_mode) && st.st_uid == 0 && !(st.st_mode & 022);
}

/* Finds the outermost container: those inside it are created by the container itself. */
void agent_tenant_container(const char *root, const char *path, struct agent_tenant_id *id)
{
	struct tcp_cgroup_identity is;
	char head[TCP_CGROUP_PATH_BYTES];

	for (size_t n = 0, above = 0; path[n]; above = n) {
		n += 1 + strcspn(path + n + 1, "/");
		if (n >= sizeof(head)) /* no runtime nests this deeply */
			break;
		memcpy(head, path, n);
		head[n] = 0;
		tcp_cgroup_parse(head, &is);
		if (!is.container_id[0] && !is.container[0])
			continue;
		id->contained = true;
		id->place = sl_fnv1a(SL_FNV_BASIS, head, n);
		if (is.claimed || strstr(head, "/..") || !roots_folder(root, path, above))
			return;
		agent_tenant_ids(id, is.container_id, is.claimed_pod ? "" : is.pod_uid);
		return;
	}
}

/*
 * Opens a file in /proc or /etc. Returns NULL if it does not exist, or if it cannot be read; *err
 * then has the reason.
 */
static FILE *open_to_read(const char *name, int *err)
{
	FILE *f = fopen(name, "re");

	if (!f && errno != ENOENT && errno != ESRCH)
		*err = -errno;
	return f;
}

/*
 * True if reading failed, unless the process has exited. Call it right after the read call, because
 * it uses errno.
 */
static bool read_failed(FILE *f)
{
	return ferror(f) && errno != ESRCH;
}

/* Reads the process's cgroups. Returns 0 or -errno. */
static int cgroup_of(const struct agent *a, pid_t pid, struct agent_tenant_id *id)
{
	char name[64], line[4096];
	int err = 0;
	FILE *f;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	f = open_to_read(name, &err);
	while (f && fgets(line, sizeof(line), f)) {
		char *path = strchr(line, ':');

		path = path ? strchr(path + 1, ':') : NULL;
		if (!path || path[1] != '/')
			continue;
		path++;
		path[strcspn(path, "\n")] = 0;
		/*
		 * Any hierarchy shows whether the process is in a container; only one of them shows
		 * which container it is.
		 */
		agent_tenant_container(strtoul(line, NULL, 10) == a->cgroup_number ? a->cgroup_root
										   : "",
				       path, id);
	}
	if (f && read_failed(f))
		err = -EIO;
	/*
	 * The process exited before it was identified, so its owner is unknown. On a kernel without
	 * cgroups, the file does not exist.
	 */
	if (f ? ferror(f) : !access("/proc/self/cgroup", F_OK))
		id->contained = true;
	if (f)
		fclose(f);
	return err;
}

/* True for a process with another pid in its own namespace, such as "NSpid: 77 1". */
static bool in_pid_namespace(pid_t pid, int *err)
{
	char name[64], line[256];
	FILE *f;
	bool inner;

	snprintf(name, sizeof(name), "/proc/%d/status", (int)pid);
	f = open_to_read(name, err);
	inner = true;
	while (f && fgets(line, sizeof(line), f))
		if (!strncmp(line, "NSpid:", 6)) {
			unsigned int one, two;

			inner = sscanf(line + 6, "%u %u", &one, &two) == 2;
			break;
		}
	if (f && read_failed(f))
		*err = -EIO;
	if (f)
		fclose(f);
	return inner;
}

/* Only reads /etc/passwd: a directory service could make the agent wait. */
static uid_t uid_of(const char *name, uid_t otherwise, int *err)
{
	FILE *f = open_to_read("/etc/passwd", err);
	struct passwd *p;

	while (f && (p = fgetpwent(f)))
		if (!strcmp(p->pw_name, name)) {
			otherwise = p->pw_uid;
			break;
		}
	if (f)
		fclose(f);
	return otherwise;
}

uid_t agent_tenant_owner(const char *subuid, uid_t uid, int *err)
{
	FILE *f = open_to_read(subuid, err);
	uid_t owner = uid;
	char line[512];

	while (f && owner == uid && fgets(line, sizeof(line), f)) {
		char *first = strchr(line, ':'), *end;
		unsigned long start, count, number;

		if (!first)
			continue;
		*first++ = 0;
		if (sscanf(first, "%lu:%lu", &start, &count) != 2 || uid < start ||
		    uid - start >= count)
			continue;
		number = strtoul(line, &end, 10);
		owner = *line && !*end ? (uid_t)number : uid_of(line, uid, err);
	}
	if (f)
		fclose(f);
	return owner;
}

int agent_tenant_attest(const struct agent *a, pid_t pid, int pidfd, uid_t uid,
			struct agent_tenant_id *id)
{
	struct pollfd ended = {.fd = pidfd, .events = POLLIN};
	int err = 0, unread = 0;
	uid_t owner = uid ? agent_tenant_owner("/etc/subuid", uid, &err) : uid;
	bool inner = pid <= 0 || in_pid_namespace(pid, &err);

	*id = (struct agent_tenant_id){.uid = uid};
	/* Subordinate uids of root, as used by LXD's containers, must not count as root. */
	if (owner != 0 && owner != a->uid)
		id->uid = owner;
	if (pid > 0)
		unread = cgroup_of(a, pid, id);
	/*
	 * If the agent runs in a container, its processes are trusted like the processes of a host
	 * on which the agent runs directly.
	 */
	if (id->contained && a->own_place && id->place == a->own_place && !inner)
		*id = (struct agent_tenant_id){.uid = id->uid};
	id->contained |= inner;
	/* If the process has exited, the data may belong to another process. */
	if (pidfd >= 0 && poll(&ended, 1, 0) > 0)
		*id = (struct agent_tenant_id){.uid = id->uid, .contained = id->contained};
	err = unread ?: err;
	if (err)
		*id = (struct agent_tenant_id){.uid = uid, .contained = true};
	return err;
}

void agent_tenant_init(struct agent *a)
{
	struct agent_tenant_id own = {0};
	struct tcp_cgroup_hierarchy h;

	tcp_cgroup_hierarchy(&h, NULL, NULL, NULL);
	a->cgroup_number = h.number;
	snprintf(a->cgroup_root, sizeof(a->cgroup_root), "%s", h.root);
	cgroup_of(a, getpid(), &own);
	a->own_place = own.place;
}

/* ---- the table ---- */

static bool has_container(const struct agent_tenant_id *id)
{
	static const uint8_t none[sizeof(id->container)];

	return memcmp(id->container, none, sizeof(none)) != 0;
}

/* Returns the first 8 bytes of the SHA-256 over both parts. */
static uint64_t hash_parts(const void *one, size_t bytes, const void *two, size_t more)
{
	uint8_t parts[BASE_SHA256_MAX], sum[32];
	uint64_t out;

	memcpy(parts, one, bytes);
	memcpy(parts + bytes, two, more);
	base_sha256(parts, bytes + more, sum);
	memcpy(&out, sum, sizeof(out));
	return out ? out : 1;
}

uint64_t agent_tenant_key(const struct agent_tenant_id *id)
{
	uint8_t container[16];

	memcpy(container, id->container, sizeof(container));
	if (id->contained && !has_container(id))
		/* distinguishes it from the user's own processes */
		memset(container, 0xff, sizeof(container));
	return hash_parts(&id->uid, sizeof(id->uid), container, sizeof(container));
}

uint64_t agent_tenant_instance(const struct agent_tenant *t, uint64_t instance)
{
	return t->trusted ? instance
			  : hash_parts(&t->key, sizeof(t->key), &instance, sizeof(instance));
}

static void take_name(char to[REGION_NAME_BYTES], const char *from)
{
	if (strlen(from) < REGION_NAME_BYTES - 1) /* a longer name may have been truncated */
		strcpy(to, from);
	if (!region_is_name(to))
		*to = 0;
}

void agent_tenant_names(const char *host, const struct agent_tenant_id *id,
			struct region_names *names)
{
	struct tcp_cgroup_identity is = {.id = 0};

	*names = (struct region_names){0};
	if (!has_container(id))
		return;
	memcpy(is.container_id, id->container_text, sizeof(is.container_id));
	memcpy(is.pod_uid, id->pod_text, sizeof(is.pod_uid));
	tcp_cgroup_attested_names(host, &is);
	take_name(names->kube_namespace, is.kube_namespace);
	take_name(names->pod, is.pod);
	take_name(names->container, is.container);
}

/* Names read for a tenant, kept beyond its last connection. */
struct agent_names {
	uint64_t key, read_ns;
	struct region_names names;
};

/*
 * Returns the tenant's names, or reuses those that were read first. Returns NULL if out of memory.
 */
static struct agent_names *kept_names(struct agent *a, uint64_t key)
{
	struct agent_names *oldest;

	if (!a->names)
		a->names = calloc(NAMES_KEPT, sizeof(*a->names));
	oldest = a->names;
	for (size_t i = 0; a->names && i < NAMES_KEPT; i++) {
		if (a->names[i].key == key)
			return &a->names[i];
		if (a->names[i].read_ns < oldest->read_ns)
			oldest = &a->names[i];
	}
	return oldest;
}

/* kubelet may write its files after the container's first region was published. */
void agent_tenant_look(struct agent *a, const char *host, struct agent_tenant *t)
{
	struct agent_names *n;
	uint64_t now = agent_now(a);

	if (!t->id.pod_text[0] || *t->names.container)
		return;
	n = kept_names(a, t->key);
	if (!n)
		return;
	if (n->key != t->key || (!*n->names.container && now - n->read_ns >= NAMES_AGAIN_NS)) {
		n->key = t->key;
		n->read_ns = now;
		agent_tenant_names(host, &t->id, &n->names);
	}
	t->names = n->names;
}

struct agent_tenant *agent_tenant_get(struct agent *a, const struct agent_tenant_id *id)
{
	uint64_t key = agent_tenant_key(id);
	bool trusted = !id->contained && (id->uid == 0 || id->uid == a->uid);
	size_t bucket = key % (sizeof(a->tenants) / sizeof(*a->tenants));
	struct agent_tenant *t;

	LIST_FOREACH(t, &a->tenants[bucket], link)
	if (t->key == key)
		break;
	if (t) {
		t->refs++;
		return t;
	}
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->id = *id;
	t->key = key;
	t->trusted = trusted;
	for (size_t i = 0; i < a->o.origin_count && !id->contained; i++)
		t->origin |= a->o.origins[i] == id->uid;
	t->refs = 1;
	LIST_INSERT_HEAD(&a->tenants[bucket], t, link);
	return t;
}

void agent_tenant_put(struct agent_tenant *t)
{
	if (!t || --t->refs)
		return;
	LIST_REMOVE(t, link);
	free(t);
}

const char *agent_tenant_name(const struct agent_tenant *t, char out[AGENT_TENANT_NAME])
{
	char hex[13];
	int n = snprintf(out, AGENT_TENANT_NAME, "uid %u", (unsigned int)t->id.uid);

	base_hex(hex, t->id.container, 6);
	if (has_container(&t->id))
		snprintf(out + n, AGENT_TENANT_NAME - (size_t)n, " in container %s", hex);
	else if (t->id.contained)
		snprintf(out + n, AGENT_TENANT_NAME - (size_t)n, " in a container");
	return out;
}

/* ---- shares ---- */

static uint64_t fds_of(uint64_t conns, uint64_t regions)
{
	return conns * AGENT_FDS_CONNECTION + regions * AGENT_FDS_REGION;
}

struct agent_use agent_tenant_use(const struct agent *a, const struct agent_tenant *t,
				  enum agent_resource resource)
{
	struct agent_use u = {0};

	switch (resource) {
	case RESOURCE_REGIONS:
		u.all = (struct base_share){a->o.max_regions, a->region_count - a->own_count, 0};
		u.held = t->regions;
		break;
	case RESOURCE_MEMORY:
		u.all = (struct base_share){a->o.max_memory, a->memory, 0};
		u.held = t->bytes;
		break;
	case RESOURCE_CONNECTIONS:
		u.all = (struct base_share){a->conn_max, a->conn_count, 0};
		u.held = t->conns;
		break;
	case RESOURCE_DESCRIPTORS:
		u.all = (struct base_share){a->fd_max, fds_of(a->conn_count, a->region_count), 0};
		u.held = fds_of(t->conns, t->regions);
		break;
	}
	u.all.reserve = u.all.capacity / BASE_SHARE_RESERVE;
	u.limit = base_share_limit(&u.all, u.held, t->trusted);
	return u;
}
