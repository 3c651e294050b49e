/* SPDX-License-Identifier: Apache-2.0 */
/* util.h - system helpers of this folder. */
#ifndef SL_SOURCE_TCP_UTIL_H
#define SL_SOURCE_TCP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_link;
struct bpf_map;
struct bpf_object;
struct bpf_object_skeleton;
struct bpf_program;

/* Names the missing capabilities, "CAP_BPF, CAP_PERFMON", or "". */
const char *tcp_capabilities_missing(char *out, size_t bytes);

/*
 * Explains why the kernel did not load programs whose trials succeeded: err is libbpf's -errno;
 * includes the verifier's reason if this thread loaded them after tcp_libbpf_log(). Returns -EPERM,
 * -ENOTSUP, or err.
 */
int tcp_load_refused(int err, const char *programs, char *why, size_t bytes);
/* Loads a skeleton. 0, or as above. */
int tcp_load(struct bpf_object_skeleton *skeleton, const char *programs, char *why, size_t bytes);

/*
 * Sum over the loaded programs of the calls that the kernel skipped because the same program was
 * running on that CPU (bpf_prog_info.recursion_misses). 0 or -errno.
 */
int tcp_skipped_calls(const struct bpf_object *object, uint64_t *sum);

struct tcp_map_size {
	struct bpf_map *map; /* NULL ends a list */
	uint32_t entries;
};
/* Sizes maps before they are loaded. 0 or -errno. */
int tcp_maps_size(const struct tcp_map_size *sizes);

/* Newer than the headers of some distributions; the numbers are the kernel's interface. */
#define TCP_PROG_NETFILTER   32
#define TCP_ATTACH_NETFILTER 45
/* Attaches a program to a netfilter hook of this network namespace: a descriptor or -errno. */
int tcp_netfilter_link(int prog, uint32_t family, uint32_t hook);

/* Runs an iterator once. 0 or -errno. */
int tcp_iterate(const struct bpf_link *iterator);
/*
 * Runs a program's iterator until *done, for two seconds at most: then -ENOMEM. NULL: once. 0 or
 * -errno.
 */
int tcp_iterate_until(const struct bpf_program *program, const bool *done);

/*
 * Extracts the verifier's reason from a message of libbpf, as "PROGRAM: last line"; empty if there
 * is none. It is the line before the summary (kernel/bpf/verifier.c, print_verification_stats()).
 */
void tcp_verifier_refusal(const char *said, char *out, size_t bytes);

/* Redirects libbpf's messages from stderr to log lines of level debug. */
void tcp_libbpf_log(void);

#endif
