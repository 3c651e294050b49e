/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature.h - kernel features, other than hooks, that the eBPF programs need. Each feature is tried
 * with a tiny program before the real programs are loaded, because an old verifier may analyse a
 * real program for minutes before it reaches an unknown call.
 */
#ifndef SL_SOURCE_TCP_FEATURE_H
#define SL_SOURCE_TCP_FEATURE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of tcp_feature_table, which is sorted by kernel version. */
enum tcp_feature {
	TCP_FEATURE_RING_BUFFER,
	TCP_FEATURE_SOCKET_STORAGE,
	TCP_FEATURE_FILE_SOCKET,
	TCP_FEATURE_FETCH,
	TCP_FEATURE_FOR_EACH,
	TCP_FEATURE_TASK_STORAGE,
	TCP_FEATURE_TIMER,
	TCP_FEATURE_LOOP,
	TCP_FEATURE_FRAMES,
	TCP_FEATURES
};

/* Each part has an object in bpf/ and a table. The reporter in src/source/report has neither. */
enum tcp_part {
	TCP_PART_FLOWS,
	TCP_PART_LAYERS,
	TCP_PART_CPU,
	TCP_PART_NET,
	TCP_PARTS,
	TCP_PART_REPORT = TCP_PARTS,
	TCP_FEATURE_USERS
};
extern const char *const tcp_part_names[TCP_FEATURE_USERS];

struct tcp_feature_info {
	const char *name;
	const char *since; /* first Linux version that supports it on x86-64, such as "5.17" */
	/* set of parts that need the feature: bit i stands for enum tcp_part i */
	unsigned int parts;
	int program, helper; /* program type and helper to try (linux/bpf.h), or 0 */
};
extern const struct tcp_feature_info tcp_feature_table[TCP_FEATURES];

/*
 * Checks whether tracepoint programs can call a helper. Returns 0, -ENOTSUP if not, or an error
 * like tcp_features_probe().
 */
int tcp_feature_helper(int helper);
/*
 * Tries each feature and sets its error[] to 0 if it works, otherwise to -errno. Returns 0, or
 * -errno if trials are impossible, like tcp_hooks_probe(). Leaves no programs loaded. Not
 * thread-safe.
 */
int tcp_features_probe(int error[TCP_FEATURES]);
/*
 * Returns 0 if this kernel has all features that the part needs; -ENOTSUP, with one line in why[]
 * that names the kernel and the missing features; or an error like tcp_features_probe(). A trial
 * that fails for any other reason counts as success: loading the real programs will report the
 * cause. The reporter needs no BTF and, at this point, no privileges.
 */
int tcp_features_need(enum tcp_part part, char *why, size_t bytes);
/* Writes the line of tcp_features_need() for the results of a probe. Returns 0 or -ENOTSUP. */
int tcp_features_lacking(const int error[TCP_FEATURES], enum tcp_part part, const char *kernel,
			 char *why, size_t bytes);

#endif
