// SPDX-License-Identifier: Apache-2.0
/* feature.c - the table of kernel features, and the trials that detect them. */
#include "source/tcp/feature.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "source/tcp/hook.h"

#define FLOWS		     (1u << TCP_PART_FLOWS)
#define LAYERS		     (1u << TCP_PART_LAYERS)
#define CPU		     (1u << TCP_PART_CPU)
#define NET		     (1u << TCP_PART_NET)
#define REPORT		     (1u << TCP_PART_REPORT)

#define HELPER(type, helper) BPF_PROG_TYPE_##type, BPF_FUNC_##helper

const char *const tcp_part_names[TCP_FEATURE_USERS] = {"flows", "layers", "cpu", "net", "report"};

/*
 * The version is the first that offers the feature to these program types; some helpers are older
 * for other program types.
 */
const struct tcp_feature_info tcp_feature_table[TCP_FEATURES] = {
	[TCP_FEATURE_RING_BUFFER] = {"ring buffers", "5.8", FLOWS | LAYERS, 0, 0},
	[TCP_FEATURE_SOCKET_STORAGE] = {"socket storage", "5.11", FLOWS | LAYERS,
					HELPER(TRACING, sk_storage_get)},
	[TCP_FEATURE_FILE_SOCKET] = {"bpf_sock_from_file()", "5.11", FLOWS,
				     HELPER(TRACING, sock_from_file)},
	[TCP_FEATURE_FETCH] = {"atomic instructions that return the old value", "5.12",
			       FLOWS | LAYERS | CPU | NET | REPORT, 0, 0},
	[TCP_FEATURE_FOR_EACH] = {"bpf_for_each_map_elem()", "5.13", REPORT,
				  HELPER(SCHED_CLS, for_each_map_elem)},
	[TCP_FEATURE_TASK_STORAGE] = {"task storage", "5.13", CPU,
				      HELPER(TRACING, task_storage_get)},
	[TCP_FEATURE_TIMER] = {"timers", "5.15", FLOWS | LAYERS, HELPER(TRACING, timer_start)},
	[TCP_FEATURE_LOOP] = {"bpf_loop()", "5.17", FLOWS | LAYERS, HELPER(TRACING, loop)},
	[TCP_FEATURE_FRAMES] = {"bpf_xdp_store_bytes()", "5.18", REPORT,
				HELPER(XDP, xdp_store_bytes)},
};

/* ---- trials ---- */

/* Closes the descriptor of a trial. The kernel reports unknown features with EINVAL. */
static int close_trial(int fd)
{
	if (fd < 0)
		return errno == EINVAL ? -ENOTSUP : -errno;
	close(fd);
	return 0;
}

/*
 * Calls the helper without arguments. The verifier always refuses the call, and its message shows
 * whether it knows the helper. libbpf_probe_bpf_helper() works the same way, but not for tracepoint
 * programs.
 */
int tcp_feature_helper(int helper)
{
	static const char *const unknown[] = {"invalid func ", "unknown func ",
					      "cannot use helper "};
	const struct bpf_insn program[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = helper},
		{.code = BPF_JMP | BPF_EXIT},
	};
	char log[4096] = "";
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .log_buf = log, .log_size = sizeof(log), .log_level = 1);
	const struct btf *kernel;
	int err = tcp_hooks_begin(&kernel), id;

	if (err)
		return err;
	/* Any tracepoint will do; this one is present in all kernels that support such programs. */
	id = btf__find_by_name_kind(kernel, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
	if (id < 0)
		return -ENOENT;
	opts.attach_btf_id = (uint32_t)id;
	err = close_trial(bpf_prog_load(BPF_PROG_TYPE_TRACING, "sl_trial", "Dual BSD/GPL", program,
					sizeof(program) / sizeof(*program), &opts));
	for (size_t i = 0; err && i < sizeof(unknown) / sizeof(*unknown); i++)
		if (strstr(log, unknown[i]))
			return -ENOTSUP;
	/* Without a log, the verifier never reached the call. */
	return *log ? 0 : err;
}

static int try_fetch(void)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_STX | BPF_MEM | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_0,
		 .off = -8},
		{.code = BPF_STX | BPF_ATOMIC | BPF_DW,
		 .dst_reg = BPF_REG_10,
		 .src_reg = BPF_REG_0,
		 .off = -8,
		 .imm = BPF_XCHG},
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0},
		{.code = BPF_JMP | BPF_EXIT},
	};

	return close_trial(bpf_prog_load(BPF_PROG_TYPE_SOCKET_FILTER, "sl_trial", "Dual BSD/GPL",
					 program, sizeof(program) / sizeof(*program), NULL));
}

static int try_feature(enum tcp_feature feature)
{
	const struct tcp_feature_info *f = &tcp_feature_table[feature];
	int known;

	if (feature == TCP_FEATURE_RING_BUFFER)
		return close_trial(bpf_map_create(BPF_MAP_TYPE_RINGBUF, "sl_trial", 0, 0,
						  (uint32_t)sysconf(_SC_PAGESIZE), NULL));
	if (feature == TCP_FEATURE_FETCH)
		return try_fetch();
	if (f->program == BPF_PROG_TYPE_TRACING)
		return tcp_feature_helper(f->helper);
	known = libbpf_probe_bpf_helper((enum bpf_prog_type)f->program, (enum bpf_func_id)f->helper,
					NULL);
	return known < 0 ? known : known ? 0 : -ENOTSUP;
}

/* Tries each feature only once, because the running kernel does not change. */
static void try_features(uint32_t parts, int error[TCP_FEATURES])
{
	static int results[TCP_FEATURES];
	static bool tried[TCP_FEATURES];

	for (int i = 0; i < TCP_FEATURES; i++) {
		error[i] = 0;
		if (!(tcp_feature_table[i].parts & parts))
			continue;
		if (!tried[i])
			results[i] = try_feature((enum tcp_feature)i);
		tried[i] = true;
		error[i] = results[i];
	}
}

int tcp_features_probe(int error[TCP_FEATURES])
{
	const struct btf *kernel;
	int err = tcp_hooks_begin(&kernel);

	if (!err)
		try_features(~0u, error);
	return err;
}

/* ---- messages ---- */

int tcp_features_lacking(const int error[TCP_FEATURES], enum tcp_part part, const char *kernel,
			 char *why, size_t bytes)
{
	size_t used = 0;

	for (int i = 0; i < TCP_FEATURES; i++) {
		const struct tcp_feature_info *f = &tcp_feature_table[i];

		if (error[i] != -ENOTSUP || !(f->parts & 1u << part))
			continue;
		if (!used)
			used = (size_t)snprintf(why, bytes, "Linux %s lacks ", kernel);
		else if (used < bytes)
			used += (size_t)snprintf(why + used, bytes - used, ", ");
		if (used < bytes)
			used += (size_t)snprintf(why + used, bytes - used, "%s (%s)", f->name,
						 f->since);
	}
	return used ? -ENOTSUP : 0;
}

int tcp_features_need(enum tcp_part part, char *why, size_t bytes)
{
	int error[TCP_FEATURES], err;
	const struct btf *kernel;
	struct utsname name;

	err = part == TCP_PART_REPORT ? 0 : tcp_hooks_begin(&kernel);
	if (err) {
		tcp_hooks_refusal(err, why, bytes);
		return err;
	}
	try_features(1u << part, error);
	uname(&name);
	return tcp_features_lacking(error, part, name.release, why, bytes);
}
