// SPDX-License-Identifier: Apache-2.0
#include "source/tcp/util.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/capability.h>
#include <mntent.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

__attribute__((format(printf, 2, 0))) static int log_libbpf(enum libbpf_print_level level,
							    const char *fmt, va_list ap)
{
	char line[512];
	int n = vsnprintf(line, sizeof(line), fmt, ap);

	if (n > 0 && n < (int)sizeof(line) && line[n - 1] == '\n')
		line[n - 1] = 0;
	if (level != LIBBPF_DEBUG)
		sl_logf(SL_DEBUG, "libbpf", "%s", line);
	return 0;
}

void sl_tcp_libbpf_log(void)
{
	libbpf_set_print(log_libbpf);
}

/* kernel_lockdown(7): the highest level forbids eBPF to read kernel memory, which all of this does. */
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

int sl_tcp_load_refused(int err, const char *programs, char *why, size_t bytes)
{
	if (reading_is_locked_down()) {
		snprintf(why, bytes,
			 "the kernel is locked down: at level confidentiality no eBPF program may "
			 "read it; boot with lockdown=integrity");
		return -EPERM;
	}
	snprintf(why, bytes, "the kernel refuses the %s programs: %s", programs, strerror(-err));
	return err == -EINVAL ? -ENOTSUP : err; /* nobody asked wrongly */
}

int sl_cgroup2_open(void)
{
	FILE *mounts = setmntent("/proc/self/mounts", "re");
	int fd = -ENOENT;
	struct mntent *m;

	if (!mounts)
		return -errno;
	while (fd < 0 && (m = getmntent(mounts)))
		if (!strcmp(m->mnt_type, "cgroup2")) {
			fd = open(m->mnt_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
			if (fd < 0)
				fd = -errno;
		}
	endmntent(mounts);
	return fd;
}

/*
 * CAP_SYS_ADMIN stands in for each, as before 5.8. CAP_NET_ADMIN is needed for maps that belong to
 * sockets and for netfilter.
 */
const char *sl_capabilities_missing(char *out, size_t bytes)
{
	static const struct {
		int bit;
		const char *name;
	} needed[] = {{CAP_BPF, "CAP_BPF"},
		      {CAP_PERFMON, "CAP_PERFMON"},
		      {CAP_NET_ADMIN, "CAP_NET_ADMIN"}};
	FILE *f = fopen("/proc/self/status", "re");
	uint64_t have = 0;
	char line[256];

	*out = 0;
	if (!f)
		return out; /* the kernel will say it */
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "CapEff: %" SCNx64, &have) == 1)
			break;
	fclose(f);
	for (unsigned int i = 0; i < sizeof(needed) / sizeof(*needed); i++)
		if (!(have >> needed[i].bit & 1) &&
		    !(have >> CAP_SYS_ADMIN & 1 && needed[i].bit != CAP_NET_ADMIN))
			snprintf(out + strlen(out), bytes - strlen(out), "%s%s", *out ? ", " : "",
				 needed[i].name);
	return out;
}

int sl_tcp_iterate(const struct bpf_link *iterator)
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

int sl_tcp_iterate_until(const struct bpf_program *program, const bool *done)
{
	struct bpf_link *iterator = bpf_program__attach_iter(program, NULL);
	int err = iterator ? 0 : -errno;

	for (int i = 0; i < 200 && !err; i++) {
		if (i)
			usleep(10000);
		err = sl_tcp_iterate(iterator);
		if (__atomic_load_n(done, __ATOMIC_ACQUIRE))
			break;
	}
	if (!err && !__atomic_load_n(done, __ATOMIC_ACQUIRE))
		err = -ENOMEM;
	bpf_link__destroy(iterator);
	return err;
}
