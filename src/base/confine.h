/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.h - drops capabilities, system calls and files that a process does not need after
 * startup. docs/security.md lists what a compromised process can still do.
 */
#ifndef SL_BASE_CONFINE_H
#define SL_BASE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum base_role {
	BASE_ROLE_AGENT,
	BASE_ROLE_LOADER, /* loads eBPF programs for the agent */
	BASE_ROLE_COLLECTOR,
	BASE_ROLE_TRANSLATOR,
	BASE_ROLE_FRONT,    /* front process of an HTTP server: accepts and parses */
	BASE_ROLE_SPAWNER,  /* forks and restarts HTTP fronts */
	BASE_ROLE_BRIDGE,   /* reads metrics of other programs: scrapes, files, packets */
	BASE_ROLE_REPORTER, /* runs eBPF programs that report flows */
};

#define BASE_CONFINE_PATHS 16
#define BASE_CONFINE_READS 32

struct base_confine_opts {
	enum base_role role;
	uint64_t capabilities; /* capabilities to keep, as bits CAP_... */
	/* files and folders to read and write; NULL entries are ignored */
	const char *paths[BASE_CONFINE_PATHS];
	const char *read; /* path of a folder to read, or NULL */
	/* files whose folders may be read; NULL entries are ignored */
	const char *folder_of[BASE_CONFINE_READS];
	bool any_path; /* paths are not known in advance: do not use Landlock */
	bool single;   /* the process has a single thread: do not search /proc for others */
	bool packets;  /* allow AF_PACKET and AF_XDP sockets, and the bpf(2) calls for them */
};

/*
 * Confines all threads of this process and their future children: drops capabilities, sets
 * no_new_privs, and restricts paths (Landlock) and system calls (seccomp; others fail with ENOSYS).
 * For a path that is or will be a file, the folder is allowed. Features missing in the kernel are
 * skipped with a debug log line. Builds with sanitizers or for coverage restrict neither paths nor
 * calls. Returns 0, or -errno with one line in why[].
 */
int base_confine(const struct base_confine_opts *opts, char *why, size_t bytes);

#define BASE_CAP(name) (1ull << CAP_##name)

#endif
