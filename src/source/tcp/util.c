// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/util.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/base.h"

/* Prefixes of libbpf's messages about a program or a map. */
#define PROG "libbpf: prog '"
#define MAP  "libbpf: map '"

/* The verifier's message on the program that this thread loaded last; empty if there is none. */
static _Thread_local char refusal[200];

void tcp_verifier_refusal(const char *said, char *out, size_t bytes)
{
	const char *begin = strstr(said, "-- BEGIN PROG LOAD LOG --\n"), *end, *line, *next;
	int length = 0, name;

	*out = 0;
	if (!begin || strncmp(said, PROG, strlen(PROG)))
		return;
	said += strlen(PROG);
	name = (int)strcspn(said, "'");
	begin = strchr(begin, '\n') + 1;
	end = strstr(begin, "-- END PROG LOAD LOG --");
	/* Find the last line before the summary. */
	for (line = next = begin; *line && line != end; line = next) {
		next = line + strcspn(line, "\n");
		if (next > line && strncmp(line, "processed ", 10)) {
			begin = line;
			length = (int)(next - line);
		}
		next += *next == '\n';
	}
	if (length)
		snprintf(out, bytes, "%.*s: %.*s", name, said, length, begin);
}

/* Logs line by line, because a verifier log is a single message of thousands of lines. */
__attribute__((format(printf, 2, 0))) static int log_libbpf(enum libbpf_print_level level,
							    const char *fmt, va_list ap)
{
	char *said, *rest, *line;

	if (level == LIBBPF_DEBUG || vasprintf(&said, fmt, ap) < 0)
		return 0;
	/* A new attempt begins; its log follows if there is one. */
	if (strstr(said, "BPF program load failed") || !strncmp(said, MAP, strlen(MAP)))
		*refusal = 0;
	if (strstr(said, "-- BEGIN PROG LOAD LOG --"))
		tcp_verifier_refusal(said, refusal, sizeof(refusal));
	rest = said;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			base_logf(BASE_DEBUG, "libbpf", "%s", line);
	free(said);
	return 0;
}

void tcp_libbpf_log(void)
{
	*refusal = 0;
	libbpf_set_print(log_libbpf);
}

/*
 * True if lockdown forbids eBPF from reading kernel memory: the highest level of
 * kernel_lockdown(7).
 */
static bool reading_is_locked_down(void)
{
	FILE *f = fopen("/sys/kernel/security/lockdown", "re");
	char levels[128] = "";

	if (!f)
		return false;
	if (!fgets(levels, sizeof(levels), f))
		levels[0] = 0;
	fclose(f);
	return strstr(levels, "[confidentiality]");
}

int tcp_load_refused(int err, const char *programs, char *why, size_t bytes)
{
	if (reading_is_locked_down())
		return base_fail(
			why, bytes, -EPERM,
			"the kernel is locked down: at level confidentiality no eBPF program may read kernel memory; boot with lockdown=integrity");
	snprintf(why, bytes, "the kernel rejects the %s programs: %s%s%s%s", programs,
		 strerror(-err), *refusal ? " (" : "", refusal, *refusal ? ")" : "");
	/*
	 * -EINVAL would wrongly blame the caller's arguments. -EACCES with a message of the
	 * verifier, such as about an argument that older kernels do not have, does not mean that a
	 * permission is missing.
	 */
	return err == -EINVAL || (err == -EACCES && *refusal) ? -ENOEXEC : err;
}

int tcp_load(struct bpf_object_skeleton *skeleton, const char *programs, char *why, size_t bytes)
{
	int err = bpf_object__load_skeleton(skeleton);

	return err ? tcp_load_refused(err, programs, why, bytes) : 0;
}

int tcp_iterate(const struct bpf_link *iterator)
{
	int fd = bpf_iter_create(bpf_link__fd(iterator));
	char nothing[64];
	ssize_t n;

	if (fd < 0)
		return -errno;
	do
		n = read(fd, nothing, sizeof(nothing));
	while (n > 0 || (n < 0 && (errno == EINTR || errno == EAGAIN)));
	n = n < 0 ? -errno : 0;
	close(fd);
	return (int)n;
}

int tcp_skipped_calls(const struct bpf_object *object, uint64_t *sum)
{
	struct bpf_program *program;

	*sum = 0;
	bpf_object__for_each_program(program, object)
	{
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);
		int fd = bpf_program__fd(program);

		if (fd < 0) /* not loaded */
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &bytes))
			return -errno;
		*sum += info.recursion_misses;
	}
	return 0;
}

int tcp_maps_size(const struct tcp_map_size *s)
{
	int err = 0;

	for (; s->map && !err; s++)
		err = bpf_map__set_max_entries(s->map, s->entries);
	return err;
}

int tcp_netfilter_link(int prog, uint32_t family)
{
	/* union bpf_attr of BPF_LINK_CREATE in Linux 6.4; some distributions' headers lack it. */
	struct {
		uint32_t prog_fd, target_fd, attach_type, flags;
		uint32_t pf, hooknum;
		int32_t priority;
		uint32_t nf_flags;
		uint8_t rest[64];
	} attr = {
		.prog_fd = (uint32_t)prog,
		.attach_type = TCP_ATTACH_NETFILTER,
		.pf = family,
		.hooknum = 3, /* NF_INET_LOCAL_OUT */
		/* after NAT and filters: a packet they drop does not count as having left TCP */
		.priority = 300,
	};
	int link;

	/* Each priority holds one program per namespace, and another process may already use it. */
	do {
		link = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	} while (link < 0 && errno == EBUSY && attr.priority++ < 400);
	return link < 0 ? -errno : link;
}

int tcp_iterate_until(const struct bpf_program *program, const bool *done)
{
	struct bpf_link *iterator = bpf_program__attach_iter(program, NULL);
	int err = iterator ? 0 : -errno;

	for (int i = 0; i < 200 && !err; i++) {
		if (i)
			usleep(10000);
		err = tcp_iterate(iterator);
		if (!done || __atomic_load_n(done, __ATOMIC_ACQUIRE))
			break;
	}
	if (!err && done && !__atomic_load_n(done, __ATOMIC_ACQUIRE))
		err = -ENOMEM;
	bpf_link__destroy(iterator);
	return err;
}
