// SPDX-License-Identifier: Apache-2.0
/*
 * hook_try.c - loads and attaches an empty program to see whether the kernel permits it. The
 * program returns a constant: 1 where that means "accept" (netfilter, cgroups), else 0.
 *
 * Only the first tracepoint is attached: permission for one is permission for all, and loading
 * proves that the others exist (their types are in BTF). Each attachment patches kernel code and
 * waits for all CPUs, which dominated start-up time.
 */
#include "source/tcp/hook_try.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/tcp/util.h"

static struct btf *kernel_btf; /* kept: parsing it dominates a trial */
static bool attaches;	       /* a tracepoint was attached */

int tcp_hook_try_ready(void)
{
	char missing[64];

	tcp_libbpf_log();
	if (*tcp_capabilities_missing(missing, sizeof(missing)))
		return -EPERM;
	if (!kernel_btf) {
		kernel_btf = btf__load_vmlinux_btf();
		if (!kernel_btf)
			return errno == EPERM || errno == EACCES ? -EPERM : -ENOENT;
	}
	return 0;
}

static int load(enum bpf_prog_type type, enum bpf_attach_type attach, int btf_id, int result)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = result},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = attach);
	int fd;

	opts.attach_btf_id = (uint32_t)(btf_id > 0 ? btf_id : 0);
	fd = bpf_prog_load(type, "sl_trial", "Dual BSD/GPL", program,
			   sizeof(program) / sizeof(*program), &opts);
	return fd < 0 ? -errno : fd;
}

/* Closes a trial's descriptors and returns its result; link is a descriptor or -errno. */
static int done(int prog, int link)
{
	close(prog);
	if (link < 0)
		return link;
	close(link);
	return 0;
}

static int by_btf(const char *prefix, const char *target, uint32_t kind,
		  enum bpf_attach_type attach)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	char name[128];
	int id, prog, link;

	snprintf(name, sizeof(name), "%s%s", prefix, target);
	id = btf__find_by_name_kind(kernel_btf, name, kind);
	if (id < 0)
		return -ENOENT;
	prog = load(BPF_PROG_TYPE_TRACING, attach, id, 0);
	if (prog < 0)
		return prog;
	if (attach == BPF_TRACE_RAW_TP && attaches) {
		close(prog);
		return 0;
	}
	if (attach == BPF_TRACE_ITER)
		link = bpf_link_create(prog, 0, attach, &opts);
	else
		link = bpf_raw_tracepoint_open(NULL, prog);
	attaches |= attach == BPF_TRACE_RAW_TP && link >= 0;
	return done(prog, link < 0 ? -errno : link);
}

/* The PMU type number of kprobes, which the kernel assigns. */
static int kprobe_pmu(void)
{
	FILE *f = fopen("/sys/bus/event_source/devices/kprobe/type", "re");
	int type = -ENOENT;

	if (!f)
		return -ENOENT;
	if (fscanf(f, "%d", &type) != 1)
		type = -ENOENT;
	fclose(f);
	return type;
}

static int by_kprobe(const char *target)
{
	struct perf_event_attr attr = {.size = sizeof(attr)};
	int type = kprobe_pmu(), prog, event, err = 0;

	if (type < 0)
		return type;
	prog = load(BPF_PROG_TYPE_KPROBE, 0, 0, 0);
	if (prog < 0)
		return prog;
	attr.type = (uint32_t)type;
	attr.config1 = (uint64_t)(uintptr_t)target; /* kprobe_func */
	event = (int)syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (event < 0)
		return done(prog, -errno);
	if (ioctl(event, PERF_EVENT_IOC_SET_BPF, prog))
		err = -errno;
	close(event);
	close(prog);
	return err;
}

static int by_netfilter(const char *target)
{
	static const char *const hooks[] = {"pre-routing", "local-in", "forward", "local-out",
					    "post-routing"};
	uint32_t hook = 0;
	int prog;

	while (hook < 5 && strcmp(hooks[hook], target))
		hook++;
	prog = load(TCP_PROG_NETFILTER, TCP_ATTACH_NETFILTER, 0, 1 /* NF_ACCEPT */);
	if (prog < 0)
		return prog;
	return done(prog, tcp_netfilter_link(prog, 2 /* NFPROTO_IPV4 */, hook));
}

static int by_cgroup(enum bpf_prog_type type, enum bpf_attach_type attach)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts);
	int cgroup = tcp_cgroup2_open(), prog, link, err;

	if (cgroup < 0)
		return cgroup;
	prog = load(type, attach, 0, 1);
	if (prog < 0) {
		close(cgroup);
		return prog;
	}
	link = bpf_link_create(prog, cgroup, attach, &opts);
	err = done(prog, link < 0 ? -errno : link);
	close(cgroup);
	return err;
}

int tcp_hook_try(enum tcp_hook_type type, const char *target)
{
	switch (type) {
	case TCP_HOOK_TP:
		return by_btf("btf_trace_", target, BTF_KIND_TYPEDEF, BPF_TRACE_RAW_TP);
	case TCP_HOOK_FENTRY:
		return by_btf("", target, BTF_KIND_FUNC, BPF_TRACE_FENTRY);
	case TCP_HOOK_ITER:
		return by_btf("bpf_iter_", target, BTF_KIND_FUNC, BPF_TRACE_ITER);
	case TCP_HOOK_KPROBE:
		return by_kprobe(target);
	case TCP_HOOK_NETFILTER:
		return by_netfilter(target);
	case TCP_HOOK_SOCK_OPS:
		return by_cgroup(BPF_PROG_TYPE_SOCK_OPS, BPF_CGROUP_SOCK_OPS);
	case TCP_HOOK_CGROUP_SKB:
		/* Programs need the address of the skb: since 6.2. */
		if (btf__find_by_name_kind(kernel_btf, "bpf_cast_to_kern_ctx", BTF_KIND_FUNC) < 0)
			return -ENOTSUP;
		return by_cgroup(BPF_PROG_TYPE_CGROUP_SKB, BPF_CGROUP_INET_INGRESS);
	case TCP_HOOK_DERIVED:
		return 0;
	case TCP_HOOK_NONE:
		break;
	}
	return -EINVAL;
}
