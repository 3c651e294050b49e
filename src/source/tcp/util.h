/* SPDX-License-Identifier: Apache-2.0 */
/* util.h - small things that several parts of this folder ask the system for. */
#ifndef SL_SOURCE_TCP_UTIL_H
#define SL_SOURCE_TCP_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Descriptor of the root of the unified cgroup hierarchy (O_RDONLY | O_CLOEXEC), or -errno. */
int tcp_cgroup2_open(void);

/*
 * Names the capabilities that loading needs and this process lacks, as "CAP_BPF, CAP_PERFMON"; an
 * empty string if it has them all.
 */
const char *tcp_capabilities_missing(char *out, size_t bytes);

/*
 * Why the kernel did not load programs, although its trials went well: err is libbpf's -errno; the
 * verifier's reason is in it if this thread loaded them, after tcp_libbpf_log(). Returns what to
 * return: -EPERM, -ENOTSUP, or err.
 */
int tcp_load_refused(int err, const char *programs, char *why, size_t bytes);

struct bpf_link;
struct bpf_object;
struct bpf_program;

/*
 * Sum over the loaded programs of the calls that the kernel skipped because the same program was
 * running on that CPU (bpf_prog_info.recursion_misses). 0 or -errno.
 */
int tcp_skipped_calls(const struct bpf_object *object, uint64_t *sum);

/* Newer than the headers of some distributions; the numbers are the kernel's interface. */
#define TCP_PROG_NETFILTER   32
#define TCP_ATTACH_NETFILTER 45
/* Attaches a program to a netfilter hook of this network namespace: a descriptor or -errno. */
int tcp_netfilter_link(int prog, uint32_t family, uint32_t hook);

/* Runs an iterator over all sockets. 0 or -errno. */
int tcp_iterate(const struct bpf_link *iterator);
/* Runs the iterator of a program, once or, for two seconds, until it has set *done. 0 or -errno;
 * -ENOMEM: it did not. */
int tcp_iterate_until(const struct bpf_program *program, const bool *done);

/*
 * The verifier's reason out of a message of libbpf's, as "PROGRAM: its last line"; empty if it is
 * none. The last line is the one before the summary (kernel/bpf/verifier.c,
 * print_verification_stats()).
 */
void tcp_verifier_refusal(const char *said, char *out, size_t bytes);

/* libbpf speaks on stderr unless told otherwise: from here on, what it says is a line of level
 * debug. */
void tcp_libbpf_log(void);

#endif
