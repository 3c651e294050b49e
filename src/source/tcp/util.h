/* SPDX-License-Identifier: Apache-2.0 */
/* util.h - helpers for loading eBPF programs and reading kernel state. */
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

/* Lists the missing capabilities, such as "CAP_BPF, CAP_PERFMON"; "" if there are none. */
const char *tcp_capabilities_missing(char *out, size_t bytes);

/*
 * Explains why the kernel did not load programs although their trials succeeded. err is the -errno
 * from libbpf. The explanation includes the verifier's reason if this thread loaded the programs
 * after calling tcp_libbpf_log(). Returns -EPERM, -ENOTSUP, or err.
 */
int tcp_load_refused(int err, const char *programs, char *why, size_t bytes);
/* Loads a skeleton. Returns 0 or an error like tcp_load_refused(). */
int tcp_load(struct bpf_object_skeleton *skeleton, const char *programs, char *why, size_t bytes);

/*
 * Sums up, over the loaded programs, the calls that the kernel skipped because the same program was
 * running on that CPU (bpf_prog_info.recursion_misses). Returns 0 or -errno.
 */
int tcp_skipped_calls(const struct bpf_object *object, uint64_t *sum);

struct tcp_map_size {
	struct bpf_map *map; /* NULL ends a list */
	uint32_t entries;
};
/* Sets the sizes of maps before they are loaded. Returns 0 or -errno. */
int tcp_maps_size(const struct tcp_map_size *sizes);

/* Missing in the headers of some distributions. The numbers are part of the kernel's ABI. */
#define TCP_PROG_NETFILTER   32
#define TCP_ATTACH_NETFILTER 45
/*
 * Attaches a program to the netfilter hook LOCAL_OUT in this network namespace. Returns a
 * descriptor or -errno.
 */
int tcp_netfilter_link(int prog, uint32_t family);

/* Runs an iterator once. Returns 0 or -errno. */
int tcp_iterate(const struct bpf_link *iterator);
/*
 * Runs a program's iterator until *done is true, for at most two seconds; then returns -ENOMEM. If
 * done is NULL, runs it once. Returns 0 or -errno.
 */
int tcp_iterate_until(const struct bpf_program *program, const bool *done);

/*
 * Extracts the verifier's reason from a libbpf message as "PROGRAM: last line"; empty if there is
 * none. The reason is the line before the summary (kernel/bpf/verifier.c,
 * print_verification_stats()).
 */
void tcp_verifier_refusal(const char *said, char *out, size_t bytes);

/* Redirects libbpf's messages from stderr to log lines of level debug. */
void tcp_libbpf_log(void);

#endif
