// SPDX-License-Identifier: Apache-2.0
/* hooks.c - records libbpf's requests to the kernel, and repeats them. */
#include "hooks.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static struct hooks *now;
static long (*next)(long, ...);

void hooks_of(struct hooks *h)
{
	now = h;
}

static void forget(struct hook *h)
{
	close(h->netns);
	if (h->command == BPF_LINK_CREATE && h->attr.link_create.target_fd)
		close((int)h->attr.link_create.target_fd);
}

/*
 * libbpf closes descriptors of its feature tests, so a number may be reused: the last use counts.
 */
static void keep(int fd, int command, const union bpf_attr *attr, unsigned int size)
{
	struct hook *h = NULL;

	for (size_t i = 0; i < now->n; i++)
		if (now->hook[i].fd == fd)
			h = &now->hook[i];
	if (!h) {
		if (now->n == HOOKS_MAX) {
			fprintf(stderr, "bench_tcp: more than %d hooks\n", HOOKS_MAX);
			_exit(1);
		}
		h = &now->hook[now->n++];
	} else {
		forget(h);
	}
	memset(h, 0, sizeof(*h));
	h->fd = fd;
	h->command = command;
	h->size = size < sizeof(h->attr) ? size : sizeof(h->attr);
	memcpy(&h->attr, attr, h->size);
	/* Duplicates a cgroup's descriptor, because it is closed after the program is attached. */
	if (command == BPF_LINK_CREATE && attr->link_create.target_fd)
		h->attr.link_create.target_fd =
			(unsigned int)fcntl((int)attr->link_create.target_fd, F_DUPFD_CLOEXEC, 3);
	h->netns = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/*
 * libbpf makes system calls with this function of the C library, which this definition replaces.
 * The code that attaches the real programs can therefore also attach empty ones at the same hooks.
 */
__attribute__((visibility("default"))) long syscall(long number, ...)
{
	static const struct bpf_insn refuse[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 0},
						 {.code = BPF_JMP | BPF_EXIT}},
				     accept[] = {{.code = BPF_ALU64 | BPF_MOV | BPF_K, .imm = 1},
						 {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr *attr, copy;
	va_list list;
	long a[6], result;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "syscall");
	attr = (union bpf_attr *)a[1];
	if (number != SYS_bpf || !now)
		return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (a[0] == BPF_PROG_LOAD && now->empty && attr->expected_attach_type != BPF_TRACE_ITER) {
		if ((size_t)a[2] > sizeof(copy))
			a[2] = sizeof(copy);
		memset(&copy, 0, sizeof(copy));
		memcpy(&copy, attr, (size_t)a[2]);
		copy.insns = (uintptr_t)(copy.prog_type == BPF_PROG_TYPE_TRACING ? refuse : accept);
		copy.insn_cnt = 2;
		copy.func_info_cnt = copy.line_info_cnt = copy.core_relo_cnt = 0;
		copy.func_info = copy.line_info = copy.core_relos = 0;
		return next(number, a[0], &copy, a[2]);
	}
	result = next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
	if (result >= 0 &&
	    (a[0] == BPF_RAW_TRACEPOINT_OPEN ||
	     (a[0] == BPF_LINK_CREATE && attr->link_create.attach_type != BPF_TRACE_ITER)))
		keep((int)result, (int)a[0], attr, (unsigned int)a[2]);
	return result;
}

/* Returns false if the descriptor is no longer a link. */
static bool is_link(int fd)
{
	char path[32], to[64] = "";

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return readlink(path, to, sizeof(to) - 1) > 0 && strstr(to, "bpf") && strstr(to, "link");
}

int hooks_off(struct hooks *h)
{
	int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
	size_t n = 0;

	if (null < 0)
		return -errno;
	for (size_t i = 0; i < h->n; i++) {
		if (!is_link(h->hook[i].fd)) {
			forget(&h->hook[i]);
			continue;
		}
		h->hook[n] = h->hook[i];
		dup3(null, h->hook[n++].fd, O_CLOEXEC);
	}
	h->n = n;
	close(null);
	return 0;
}

/* netfilter.priority of BPF_LINK_CREATE (Linux 6.4), which the headers of Debian 12 lack. */
static int32_t *priority_of(union bpf_attr *attr)
{
	return (int32_t *)attr + 6;
}

int hooks_on(struct hooks *h)
{
	int own = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC), err = 0;

	if (own < 0)
		return -errno;
	for (size_t i = 0; i < h->n && !err; i++) {
		struct hook *k = &h->hook[i];
		int tries = 0;
		long fd = -1;

		if (!setns(k->netns, CLONE_NEWNET)) {
			/* A priority has room for one netfilter program: take the next free one. */
			do {
				fd = next(SYS_bpf, k->command, &k->attr, k->size);
			} while (fd < 0 && errno == EBUSY && ++*priority_of(&k->attr) &&
				 ++tries < 100);
		}
		if (fd < 0) {
			err = -errno;
			continue;
		}
		dup3((int)fd, k->fd, O_CLOEXEC);
		close((int)fd);
	}
	if (setns(own, CLONE_NEWNET))
		err = -errno;
	close(own);
	return err;
}
