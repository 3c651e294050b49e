/* SPDX-License-Identifier: Apache-2.0 */
/*
 * feature.h - what the programs need of the kernel besides hooks. Each is tried by a program of a
 * few instructions, before the real ones are loaded: an old verifier works on those for minutes
 * before it comes to a call that it does not know.
 */
#ifndef SL_SOURCE_TCP_FEATURE_H
#define SL_SOURCE_TCP_FEATURE_H

#include <stddef.h>
#include <stdint.h>

/* In the order of tcp_feature_table, which is that of the kernels. */
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

/* Each has an object in bpf/, and a table; the reporter of src/source/report has neither. */
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
	const char *since;  /* Linux, on x86-64: "5.17" */
	unsigned int parts; /* that need it: bit i is enum tcp_part i */
};
extern const struct tcp_feature_info tcp_feature_table[TCP_FEATURES];

/* Tries one call. 0, -ENOTSUP: programs of tracepoints cannot call this helper, or as below. */
int tcp_feature_helper(int helper);
/*
 * Tries each: error[] is 0 where it works, else -errno. 0, or -errno if no trial is possible, as of
 * tcp_hooks_probe(). Loads programs and leaves none. Not thread-safe.
 */
int tcp_features_probe(int error[TCP_FEATURES]);
/*
 * 0 if this kernel has all that this part needs; -ENOTSUP with one line in why[] that names the
 * kernel and what it lacks; or as above. A trial that fails otherwise counts as success: loading
 * the programs themselves tells why. The reporter needs no BTF, and no right at this point.
 */
int tcp_features_need(enum tcp_part part, char *why, size_t bytes);
/* That line for the results of a probe. 0 or -ENOTSUP. */
int tcp_features_lacking(const int error[TCP_FEATURES], enum tcp_part part, const char *kernel,
			 char *why, size_t bytes);

#endif
