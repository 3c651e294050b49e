// SPDX-License-Identifier: Apache-2.0
/* feature.c - the table of features, and their trials. */
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

#define FLOWS  (1u << TCP_PART_FLOWS)
#define LAYERS (1u << TCP_PART_LAYERS)
#define CPU    (1u << TCP_PART_CPU)
#define NET    (1u << TCP_PART_NET)

const char *const tcp_part_names[TCP_PARTS] = {"flows", "layers", "cpu", "net"};

/* "Since" is when programs of tracepoints may use it; some helpers are older for other programs. */
const struct tcp_feature_info tcp_feature_table[TCP_FEATURES] = {
	[TCP_FEATURE_RING_BUFFER] = {"ring buffers", "5.8", FLOWS | LAYERS},
	[TCP_FEATURE_SOCKET_STORAGE] = {"storage of sockets", "5.11", FLOWS | LAYERS},
	[TCP_FEATURE_FILE_SOCKET] = {"bpf_sock_from_file()", "5.11", FLOWS},
	[TCP_FEATURE_FETCH] = {"atomic instructions that return the old value", "5.12",
			       FLOWS | LAYERS | CPU | NET},
	[TCP_FEATURE_TASK_STORAGE] = {"storage of tasks", "5.13", CPU},
	[TCP_FEATURE_TIMER] = {"timers", "5.15", FLOWS | LAYERS},
	[TCP_FEATURE_LOOP] = {"bpf_loop()", "5.17", FLOWS | LAYERS},
};

/* ---- trials ---- */

/* Loads a program of a tracepoint. 0, or -errno with the verifier's log. */
static int try_program(int btf_id, const struct bpf_insn *program, size_t count, char *log,
		       size_t bytes)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP,
		    .attach_btf_id = (uint32_t)btf_id, .log_buf = log, .log_size = (uint32_t)bytes,
		    .log_level = 1);
	int fd;

	*log = 0;
	if (btf_id < 0)
		return -ENOENT;
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "sl_trial", "Dual BSD/GPL", program, count,
			   &opts);
	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Any tracepoint will do: this one is as old as programs of tracepoints. */
static int tracepoint(const struct btf *kernel)
{
	return btf__find_by_name_kind(kernel, "btf_trace_sched_switch", BTF_KIND_TYPEDEF);
}

/*
 * A call without arguments is refused in any case; the reason tells whether the helper is known.
 * libbpf_probe_bpf_helper() does the same, but not for programs of tracepoints.
 */
int tcp_feature_helper(int helper)
{
	static const char *const unknown[] = {"invalid func ", "unknown func ",
					      "cannot use helper "};
	const struct bpf_insn program[] = {
		{.code = BPF_JMP | BPF_CALL, .imm = helper},
		{.code = BPF_JMP | BPF_EXIT},
	};
	const struct btf *kernel;
	char log[4096];
	int err = tcp_hooks_begin(&kernel);

	if (err)
		return err;
	err = try_program(tracepoint(kernel), program, sizeof(program) / sizeof(*program), log,
			  sizeof(log));
	for (size_t i = 0; err && i < sizeof(unknown) / sizeof(*unknown); i++)
		if (strstr(log, unknown[i]))
			return -ENOTSUP;
	/* Without a log it did not come to the call. */
	return *log ? 0 : err;
}

static int try_fetch(int btf_id)
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
	char log[4096];
	int err = try_program(btf_id, program, sizeof(program) / sizeof(*program), log,
			      sizeof(log));

	return err == -EINVAL ? -ENOTSUP : err;
}

static int try_ring_buffer(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "sl_trial", 0, 0,
				(uint32_t)sysconf(_SC_PAGESIZE), NULL);

	if (fd < 0)
		return errno == EINVAL ? -ENOTSUP : -errno;
	close(fd);
	return 0;
}

static int results[TCP_FEATURES];
static bool tried; /* a kernel stays what it is */

int tcp_features_probe(int error[TCP_FEATURES])
{
	static const struct {
		enum tcp_feature feature;
		int helper;
	} helpers[] = {{TCP_FEATURE_SOCKET_STORAGE, BPF_FUNC_sk_storage_get},
		       {TCP_FEATURE_FILE_SOCKET, BPF_FUNC_sock_from_file},
		       {TCP_FEATURE_TASK_STORAGE, BPF_FUNC_task_storage_get},
		       {TCP_FEATURE_TIMER, BPF_FUNC_timer_start},
		       {TCP_FEATURE_LOOP, BPF_FUNC_loop}};
	const struct btf *kernel;
	int err = tcp_hooks_begin(&kernel);

	if (!err && !tried) {
		results[TCP_FEATURE_RING_BUFFER] = try_ring_buffer();
		results[TCP_FEATURE_FETCH] = try_fetch(tracepoint(kernel));
		for (size_t i = 0; i < sizeof(helpers) / sizeof(*helpers); i++)
			results[helpers[i].feature] = tcp_feature_helper(helpers[i].helper);
		tried = true;
	}
	memcpy(error, results, sizeof(results));
	return err;
}

/* ---- in words ---- */

int tcp_features_lacking(const int error[TCP_FEATURES], enum tcp_part part, const char *kernel,
			 char *why, size_t bytes)
{
	size_t used = 0;

	for (int i = 0; i < TCP_FEATURES; i++) {
		const struct tcp_feature_info *f = &tcp_feature_table[i];

		if (!error[i] || !(f->parts & 1u << part))
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
	int error[TCP_FEATURES], err = tcp_features_probe(error);
	struct utsname kernel;

	if (err) {
		tcp_hooks_refusal(err, why, bytes);
		return err;
	}
	uname(&kernel);
	return tcp_features_lacking(error, part, kernel.release, why, bytes);
}
