// SPDX-License-Identifier: Apache-2.0
/*
 * cgroup_path.c - decodes the path of a cgroup. The formats are documented in:
 * - cgroupsPath, SLICE:PREFIX:NAME of systemd or a path of cgroupfs: OCI runtime-spec,
 *   config-linux.md; runc's docs/systemd.md
 * - Kubernetes: pkg/kubelet/cm, ToSystemd and ToCgroupfs; the root of kind's kubelet is /kubelet
 * - podman: libpod/runtime_pod_linux.go (pods), podman-run(1) --cgroups=split (Quadlet)
 * - LXC: lxc.container.conf(5), lxc.cgroup.dir; lxc/lxc issue 2782 (payload, monitor)
 * - libvirt: docs/cgroups.rst
 * - ECS: amazon-ecs-agent pull request 3127
 * - Nomad: client/lib/cgroupslib; docs "How Nomad uses CPU"
 * - Slurm: docs "Control Groups in Slurm" and "Control Group v2 plugin"
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "source/tcp/cgroup.h"

/* A component of a path, or a colon-separated part of a component. */
struct cgroup_path_part {
	const char *s;
	size_t n;
};

static bool part_equals(struct cgroup_path_part p, const char *s)
{
	return p.n == strlen(s) && !memcmp(p.s, s, p.n);
}

static bool skip_prefix(struct cgroup_path_part *p, const char *prefix)
{
	size_t n = strlen(prefix);

	if (p->n <= n || memcmp(p->s, prefix, n))
		return false;
	p->s += n;
	p->n -= n;
	return true;
}

static bool cut_suffix(struct cgroup_path_part *p, const char *suffix)
{
	size_t n = strlen(suffix);

	if (p->n <= n || memcmp(p->s + p->n - n, suffix, n))
		return false;
	p->n -= n;
	return true;
}

void tcp_cgroup_text(char *to, size_t bytes, const char *from, size_t n)
{
	n = base_utf8_cut(from, n, bytes - 1);
	memcpy(to, from, n);
	to[n] = 0;
	base_harmless(to);
}

/* Copies a part and decodes systemd's "\x2d" escapes (systemd.unit(5), string escaping). */
static void copy_unescaped(char *out, size_t bytes, struct cgroup_path_part p)
{
	char plain[TCP_CGROUP_PATH_BYTES];
	size_t n = 0;

	for (size_t i = 0; i < p.n && n < sizeof(plain); i++) {
		char c = p.s[i];

		if (c == '\\' && i + 3 < p.n && p.s[i + 1] == 'x' &&
		    isxdigit((unsigned char)p.s[i + 2]) && isxdigit((unsigned char)p.s[i + 3])) {
			char hex[3] = {p.s[i + 2], p.s[i + 3], 0};
			unsigned int v = 0;

			sscanf(hex, "%x", &v);
			c = v ? (char)v : '?';
			i += 3;
		}
		plain[n++] = c;
	}
	tcp_cgroup_text(out, bytes, plain, n);
}

static bool all_hex(struct cgroup_path_part p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!isdigit((unsigned char)p.s[i]) && (p.s[i] < 'a' || p.s[i] > 'f'))
			return false;
	return p.n > 0;
}

/* Container ids are 64 hexadecimal digits or, on ECS, 32 digits followed by "-NUMBER". */
static bool is_container_id(struct cgroup_path_part p)
{
	struct cgroup_path_part head = {p.s, 32};

	if (p.n == 64)
		return all_hex(p);
	if (p.n < 34 || p.n > 43 || p.s[32] != '-' || !all_hex(head))
		return false;
	for (size_t i = 33; i < p.n; i++)
		if (!isdigit((unsigned char)p.s[i]))
			return false;
	return true;
}

/* True if the path has already named a container, which then chooses the deeper cgroup names. */
static bool within_container(const struct tcp_cgroup_identity *i)
{
	return i->container_id[0] || i->container[0];
}

static bool is_uuid(struct cgroup_path_part p, char other)
{
	for (size_t i = 0; p.n == 36 && i < 36; i++) {
		bool dash = i == 8 || i == 13 || i == 18 || i == 23;

		if (dash ? p.s[i] != '-' && p.s[i] != other : !isxdigit((unsigned char)p.s[i]))
			return false;
	}
	return p.n == 36;
}

/* Accepts a pod UID with dashes, with underscores (systemd slices), or a static pod's 32 digits. */
static bool take_pod(struct cgroup_path_part p, struct tcp_cgroup_identity *out)
{
	if (!is_uuid(p, '_') && (p.n != 32 || !all_hex(p)))
		return false;
	/* The node itself is a container (kind, k3d), so the pod does not belong to this host. */
	out->claimed |= within_container(out);
	out->claimed_pod = out->claimed;
	out->container_id[0] = out->container[0] = out->service[0] = out->runtime[0] = 0;
	copy_unescaped(out->pod_uid, sizeof(out->pod_uid), p);
	for (char *c = out->pod_uid; *c; c++)
		if (*c == '_')
			*c = '-';
	return true;
}

/* Accepts "pod<UID>", "kubepods-burstable-pod<UID>.slice", and "kubelet-" before that (kind). */
static bool parse_pod(struct cgroup_path_part p, struct tcp_cgroup_identity *out)
{
	cut_suffix(&p, ".slice");
	for (size_t i = 0; i + 3 < p.n; i++) {
		struct cgroup_path_part rest = {p.s + i, p.n - i};

		if ((!i || p.s[i - 1] == '-') && skip_prefix(&rest, "pod") && take_pod(rest, out))
			return true;
	}
	return false;
}

static const struct scope {
	const char *prefix, *runtime;
} scopes[] = {
	/* A prefix must come before any shorter one that it begins with. */
	{"cri-containerd-", "containerd"}, {"docker-", "docker"}, {"nerdctl-", "containerd"},
	{"crio-conmon-", "cri-o"},	   {"crio-", "cri-o"},	  {"libpod-conmon-", "podman"},
	{"libpod-payload-", "podman"},	   {"libpod-", "podman"}, {"runc-", "runc"},
};

static void set_runtime(struct tcp_cgroup_identity *out, const char *name)
{
	snprintf(out->runtime, sizeof(out->runtime), "%s", name);
}

/* runtime is NULL if the path does not reveal it. */
static void take_container(struct tcp_cgroup_identity *out, struct cgroup_path_part id,
			   const char *runtime)
{
	out->claimed |= within_container(out);
	set_runtime(out, runtime ? runtime : "");
	copy_unescaped(out->container_id, sizeof(out->container_id), id);
	out->container[0] = out->service[0] = 0; /* the old names belong to the enclosing cgroup */
}

static bool parse_scope(struct cgroup_path_part p, struct cgroup_path_part above,
			struct tcp_cgroup_identity *out)
{
	char unit[sizeof(out->service)];

	cut_suffix(&p, ".scope");
	for (size_t i = 0; i < sizeof(scopes) / sizeof(*scopes); i++) {
		struct cgroup_path_part id = p;

		if (!skip_prefix(&id, scopes[i].prefix))
			continue;
		if (!is_container_id(id))
			return false;
		memcpy(unit, out->service, sizeof(unit));
		take_container(out, id, scopes[i].runtime);
		/* podman --cgroups=split, used by Quadlet: the container belongs to the unit. */
		if (!strcmp(scopes[i].prefix, "libpod-payload-") && cut_suffix(&above, ".service"))
			memcpy(out->service, unit, sizeof(unit));
		return true;
	}
	return false;
}

/*
 * Derives the runtime of a bare container id from the parent directory. containerd's directories
 * are named after its namespaces.
 */
static const char *runtime_of_folder(struct cgroup_path_part above)
{
	return part_equals(above, "docker") ? "docker"
	       : part_equals(above, "cri-containerd") || part_equals(above, "k8s.io") ||
			       part_equals(above, "default")
		       ? "containerd"
	       : part_equals(above, "crio") ? "cri-o"
					    : NULL;
}

/* Accepts Nomad's "ALLOCATION.TASK" in its slice or, since 1.7, in one of two child slices. */
static bool nomad_task(struct cgroup_path_part *p, struct cgroup_path_part above)
{
	struct cgroup_path_part id = {p->s, 36};

	if ((!part_equals(above, "nomad.slice") && !part_equals(above, "share.slice") &&
	     !part_equals(above, "reserve.slice")) ||
	    p->n < 38 || p->s[36] != '.' || !is_uuid(id, '-') || !cut_suffix(p, ".scope") ||
	    p->n < 38)
		return false;
	*p = (struct cgroup_path_part){p->s + 37, p->n - 37};
	return true;
}

/* Strips the prefix and number from libvirt's machine names "qemu-1-NAME" and "lxc-1-NAME". */
static const char *of_libvirt(char *name)
{
	const char *runtime = !strncmp(name, "qemu-", 5)  ? "qemu"
			      : !strncmp(name, "lxc-", 4) ? "lxc"
							  : NULL;
	size_t n = runtime ? strlen(runtime) + 1 : 0, digits = strspn(name + n, "0123456789");

	if (!runtime || !digits || name[n + digits] != '-' || !name[n + digits + 1])
		return NULL;
	memmove(name, name + n + digits + 1, strlen(name + n + digits + 1) + 1);
	return runtime;
}

/* Accepts containers that are identified by a name instead of an id. */
static bool parse_named(struct cgroup_path_part p, struct cgroup_path_part above,
			struct tcp_cgroup_identity *out)
{
	struct cgroup_path_part name = p;
	const char *runtime = NULL, *libvirt;
	bool machine = false;

	/* LXC 3.1 uses "lxc.payload/NAME", LXC 4.0 and later "lxc.payload.NAME". */
	if (skip_prefix(&name, "lxc.monitor.") || skip_prefix(&name, "lxc.payload.") ||
	    part_equals(above, "lxc.monitor") || part_equals(above, "lxc.payload") ||
	    part_equals(above, "lxc"))
		runtime = "lxc";
	else if (skip_prefix(&name, "machine-") && cut_suffix(&name, ".scope"))
		machine = true;
	else if (name = p, nomad_task(&name, above))
		runtime = "nomad";
	else if (skip_prefix(&name, "systemd-nspawn@") && cut_suffix(&name, ".service"))
		runtime = "nspawn";
	if (!runtime && !machine)
		return false;
	out->claimed |= within_container(out);
	copy_unescaped(out->container, sizeof(out->container), name);
	libvirt = machine ? of_libvirt(out->container) : NULL;
	set_runtime(out, runtime ? runtime : libvirt ? libvirt : "nspawn");
	out->container_id[0] = out->service[0] = 0;
	return true;
}

/* The root of Slurm's cgroups: of version 2, or of version 1. */
static bool is_slurm_root(struct cgroup_path_part p)
{
	struct cgroup_path_part node = p;

	return part_equals(p, "slurmstepd.scope") || cut_suffix(&node, "_slurmstepd.scope") ||
	       part_equals(p, "slurm") || skip_prefix(&p, "slurm_");
}

/*
 * Accepts Slurm's cgroups, which are named JOB, JOB.STEP and JOB.STEP.TASK, as Slurm's own commands
 * name jobs and steps.
 */
static bool parse_slurm(struct cgroup_path_part p, struct tcp_cgroup_identity *out)
{
	size_t used = strlen(out->container);

	if (!within_container(out) && is_slurm_root(p)) {
		set_runtime(out, "slurm");
		out->service[0] = 0;
		return true;
	}
	if (strcmp(out->runtime, "slurm") != 0 ||
	    !(used ? skip_prefix(&p, "step_") || skip_prefix(&p, "task_")
		   : skip_prefix(&p, "job_")))
		return false;
	snprintf(out->container + used, sizeof(out->container) - used, "%s%.*s", used ? "." : "",
		 (int)p.n, p.s);
	base_harmless(out->container);
	return true;
}

static void parse_part(struct cgroup_path_part p, struct cgroup_path_part above,
		       struct tcp_cgroup_identity *out)
{
	struct cgroup_path_part name = p;

	if (parse_slurm(p, out))
		return;
	if (parse_pod(p, out) || parse_scope(p, above, out) || parse_named(p, above, out))
		return;
	if (part_equals(above, "libpod_parent") &&
	    is_container_id(p)) { /* this is a podman pod, not a container */
		set_runtime(out, "podman");
		return;
	}
	if (is_container_id(p)) {
		take_container(out, p, runtime_of_folder(above));
		return;
	}
	if (cut_suffix(&name, ".service") || cut_suffix(&name, ".scope")) {
		struct cgroup_path_part user = p;

		/* a unit of the systemd inside the container */
		if (within_container(out))
			return;
		/* systemd delegates cgroups below this unit to the user (user@.service(5)). */
		out->claimed |= skip_prefix(&user, "user@") && cut_suffix(&user, ".service");
		set_runtime(out, "systemd");
		copy_unescaped(out->service, sizeof(out->service), name);
	}
}

void tcp_cgroup_parse(const char *path, struct tcp_cgroup_identity *out)
{
	struct cgroup_path_part above = {"", 0}, all = {path, strlen(path)};
	const char *s = path;

	memset(out, 0, sizeof(*out));
	if (all.n >= sizeof(out->path)) {
		all.s += all.n - sizeof(out->path) + 1;
		all.n = sizeof(out->path) - 1;
		for (; all.n && ((unsigned char)*all.s & 0xc0) == 0x80; all.n--)
			all.s++;
	}
	tcp_cgroup_text(out->path, sizeof(out->path), all.s, all.n);
	while (*s) {
		/* containerd may use the systemd path "SLICE:cri-containerd:ID" for cgroupfs. */
		struct cgroup_path_part p = {s, strcspn(s, "/:")};

		if (p.n) {
			parse_part(p, above, out);
			above = p;
		}
		s += p.n + (s[p.n] != 0);
	}
}

/* ---- names ---- */

/* The alphabet of k8s.io/apimachinery/pkg/util/rand: letters and digits that form no words. */
static bool is_random(struct cgroup_path_part p)
{
	for (size_t i = 0; i < p.n; i++)
		if (!strchr("bcdfghjklmnpqrstvwxz2456789", p.s[i]))
			return false;
	return p.n > 0;
}

static struct cgroup_path_part last_word(struct cgroup_path_part p)
{
	size_t n = 0;

	while (n < p.n && p.s[p.n - n - 1] != '-')
		n++;
	return (struct cgroup_path_part){p.s + p.n - n, n};
}

void tcp_cgroup_workload(const char *pod, char *out, size_t bytes)
{
	struct cgroup_path_part p = {pod, strlen(pod)}, last = last_word(p);
	bool ordinal = last.n > 0 && last.n <= 5;

	for (size_t i = 0; i < last.n; i++)
		ordinal = ordinal && isdigit((unsigned char)last.s[i]);
	if (last.n + 1 >= p.n) { /* the name has only one part */
		copy_unescaped(out, bytes, p);
		return;
	}
	if (last.n == 5 && is_random(last)) {
		p.n -= 6;
		last = last_word(p);
		if (last.n >= 7 && last.n <= 10 && last.n + 1 < p.n && is_random(last))
			p.n -= last.n + 1;
	} else if (ordinal) {
		p.n -= last.n + 1;
	}
	copy_unescaped(out, bytes, p);
}

void tcp_cgroup_title(const struct tcp_cgroup_identity *i, char *out, size_t bytes)
{
	if (i->pod[0])
		snprintf(out, bytes, "%s%s%s%s%s", i->kube_namespace,
			 i->kube_namespace[0] ? "/" : "", i->pod, i->container[0] ? "/" : "",
			 i->container);
	else if (i->container[0])
		snprintf(out, bytes, "%s", i->container);
	else if (i->container_id[0])
		snprintf(out, bytes, "%s%s%.12s", i->runtime, i->runtime[0] ? ":" : "",
			 i->container_id);
	else if (i->service[0])
		snprintf(out, bytes, "%s", i->service);
	else if (i->path[0])
		snprintf(out, bytes, "%s", strcmp(i->path, "/") ? i->path : "(host)");
	else
		snprintf(out, bytes, "cgroup %llu", (unsigned long long)i->id);
}

bool tcp_cgroup_matches(const struct tcp_cgroup_identity *i, const char *text)
{
	char both[2 * TCP_CGROUP_NAME_BYTES];
	size_t n = strlen(text);

	if (!n)
		return false;
	snprintf(both, sizeof(both), "%s/%s", i->kube_namespace, i->pod);
	return !strcmp(text, i->container) || !strcmp(text, i->pod) || !strcmp(text, i->service) ||
	       !strcmp(text, i->path) || (i->pod[0] && !strcmp(text, both)) ||
	       !strcmp(text, i->pod_uid) || (n >= 12 && !strncmp(text, i->container_id, n));
}
