// SPDX-License-Identifier: Apache-2.0
/* confine_paths.c - restricts the paths that each role may open: landlock(7), Linux 5.13. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/confine_internal.h"

/* Definitions of linux/landlock.h, which some distributions lack; the numbers are the kernel's. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule	    445
#define SYS_landlock_restrict_self  446
#endif
#define RULE_PATH_BENEATH 1
#define WRITE_FILE	  (1u << 1)
#define READ_FILE	  (1u << 2)
#define READ_DIR	  (1u << 3)
#define EVERYTHING	  ((1u << 13) - 1) /* all access rights of the first version */
#define READ		  (READ_FILE | READ_DIR)
/* Creating and removing folders, files and sockets, but no devices or links. */
#define CHANGE                                                                                \
	(READ | WRITE_FILE | 1u << 4 /* REMOVE_DIR */ | 1u << 5 /* REMOVE_FILE */ | 1u << 7 | \
	 1u << 8 | 1u << 9 /* bits 7 to 9: MAKE_DIR, MAKE_REG, MAKE_SOCK */)
#define ONLY_FILES (WRITE_FILE | READ_FILE)

#define ROLE(name) (1u << BASE_ROLE_##name)
#define FABRICS	   (ROLE(AGENT) | ROLE(COLLECTOR) | ROLE(TRANSLATOR))
#define NETWORKERS (FABRICS | ROLE(BRIDGE))
#define ALL	   (NETWORKERS | ROLE(LOADER))

static const struct {
	unsigned int roles;
	uint32_t access;
	const char *path;
} table[] = {
	{ALL | ROLE(REPORTER), READ, "/proc"},
	{ALL, READ, "/sys"},
	{ALL, READ, "/usr"},
	{ALL, READ, "/lib"},
	{ALL, READ, "/lib64"},
	{ALL, READ, "/etc/ld.so.cache"},
	{ALL, READ, "/etc/localtime"},
	{ALL, READ | WRITE_FILE, "/dev/null"},
	{ALL | ROLE(REPORTER), READ, "/dev/urandom"},
	/* Names of hosts and users, and certificate authorities. */
	{NETWORKERS, READ, "/etc/hosts"},
	{NETWORKERS, READ, "/etc/host.conf"},
	{NETWORKERS, READ, "/etc/nsswitch.conf"},
	{NETWORKERS, READ, "/etc/resolv.conf"},
	{NETWORKERS, READ, "/etc/gai.conf"},
	{NETWORKERS, READ, "/etc/services"},
	{NETWORKERS, READ, "/etc/passwd"},
	{NETWORKERS, READ, "/etc/group"},
	{NETWORKERS, READ, "/etc/subuid"},
	{NETWORKERS, READ, "/etc/ssl"},
	{NETWORKERS, READ, "/etc/pki"},
	{NETWORKERS, READ, "/etc/gnutls"},
	{NETWORKERS, READ, "/etc/crypto-policies"},
	{NETWORKERS, READ, "/run/systemd/resolve"},
	{NETWORKERS, READ, "/run/resolvconf"},
	/* RDMA: devices may reappear and connections are made at run time. */
	{FABRICS, READ, "/etc/libibverbs.d"},
	{FABRICS, READ, "/etc/rdma"},
	{FABRICS, READ | WRITE_FILE, "/dev/infiniband"},
	/* Information about the host, in addition to /proc and /sys. */
	{ROLE(BRIDGE), READ, "/etc/os-release"},
	{ROLE(BRIDGE), READ, "/run/udev/data"},
	/* File names give the names of pods and containers. No log and no environment is read. */
	{ROLE(AGENT), READ_DIR, "/var/log"}, /* the kubelet may start later */
	/* Files of container runtimes give the cgroup names. */
	{ROLE(LOADER), READ, "/run/containerd"},
	{ROLE(LOADER), READ, "/run/containers"},
	{ROLE(LOADER), READ, "/run/k3s/containerd"},
	{ROLE(LOADER), READ, "/var/lib/docker/containers"},
	{ROLE(LOADER), READ, "/var/lib/containers"},
	{ROLE(LOADER), READ, "/var/log/pods"},
	{ROLE(LOADER), READ, "/var/log/containers"},
};

struct path_rule {
	uint64_t access;
	int32_t parent;
} __attribute__((packed));

static void allow_path(int ruleset, const char *path, uint32_t access)
{
	struct path_rule r = {access, open(path, O_PATH | O_CLOEXEC)};
	struct stat st;

	if (r.parent < 0)
		return; /* a missing path needs no permission */
	if (!fstat(r.parent, &st) && !S_ISDIR(st.st_mode))
		r.access &= ONLY_FILES;
	syscall(SYS_landlock_add_rule, ruleset, RULE_PATH_BENEATH, &r, 0);
	close(r.parent);
}

/* Allows the whole folder, as files are replaced by new ones in it. */
static void allow_folder(int ruleset, const char *path)
{
	char copy[4096];
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		allow_path(ruleset, dirname(copy), CHANGE);
	else
		allow_path(ruleset, path, CHANGE);
}

static void allow_reading(int ruleset, const char *path)
{
	char copy[4096];

	snprintf(copy, sizeof(copy), "%s", path);
	allow_path(ruleset, dirname(copy), READ);
}

int base_landlock_rules(const struct base_confine_opts *o)
{
	const uint64_t handled = EVERYTHING;
	int ruleset = (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled), 0);

	if (ruleset < 0)
		return -1;
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		if (table[i].roles >> o->role & 1)
			allow_path(ruleset, table[i].path, table[i].access);
	for (size_t i = 0; i < BASE_CONFINE_PATHS; i++)
		if (o->paths[i])
			allow_folder(ruleset, o->paths[i]);
	if (o->read)
		allow_path(ruleset, o->read, READ);
	for (size_t i = 0; i < BASE_CONFINE_READS; i++)
		if (o->folder_of[i])
			allow_reading(ruleset, o->folder_of[i]);
	return ruleset;
}

int base_landlock_apply(int ruleset)
{
	return syscall(SYS_landlock_restrict_self, ruleset, 0) ? -errno : 0;
}
