/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.h - gives up, once a process has started, what its work does not need: capabilities,
 * system calls and files. docs/security.md says what is left to one that is taken over.
 */
#ifndef SL_BASE_CONFINE_H
#define SL_BASE_CONFINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum base_role {
	BASE_ROLE_AGENT,
	BASE_ROLE_LOADER, /* of eBPF programs, for the agent */
	BASE_ROLE_COLLECTOR,
	BASE_ROLE_TRANSLATOR,
	BASE_ROLE_FRONT,   /* of an HTTP server: accepts and parses */
	BASE_ROLE_SPAWNER, /* starts fronts: forks */
	BASE_ROLE_BRIDGE,  /* reads metrics of other programs: scrapes, files, packets */
};

#define BASE_CONFINE_PATHS 16
#define BASE_CONFINE_READS 32

struct base_confine_opts {
	enum base_role role;
	uint64_t capabilities;		       /* to keep: bit CAP_... */
	const char *paths[BASE_CONFINE_PATHS]; /* files and folders to read and write; or NULL */
	const char *read;		       /* a folder to read; or NULL */
	const char *folder_of[BASE_CONFINE_READS]; /* files whose folder to read; or NULL */
	bool any_path;				   /* paths are not known beforehand: no Landlock */
	bool single;  /* this process has one thread: /proc is not read */
	bool packets; /* AF_PACKET and AF_XDP sockets, and bpf(2) for them */
};

/*
 * Confines all threads of this process, and what they start: drops capabilities, sets no_new_privs,
 * restricts paths (Landlock) and system calls (seccomp: others fail with ENOSYS). Of a path that is
 * or will be a file, the folder counts. What the kernel lacks is left out with a log line of level
 * debug; a build with sanitizers or for coverage restricts neither paths nor calls. 0, or -errno
 * with one line in why[].
 */
int base_confine(const struct base_confine_opts *opts, char *why, size_t bytes);

#define BASE_CAP(name) (1ull << CAP_##name)

#endif
