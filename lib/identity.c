// SPDX-License-Identifier: Apache-2.0
/* identity.c - what tells this process and its region from all others. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "internal.h"

static size_t slurp(const char *path, char *to, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n;

	if (fd < 0)
		return 0;
	n = read(fd, to, size - 1);
	close(fd);
	to[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* Field 22 of /proc/self/stat; field 2, the program's name, may hold any characters. */
uint64_t sl__start_ticks(void)
{
	char text[1024], *s;
	int field = 3;

	if (!slurp("/proc/self/stat", text, sizeof(text)))
		return 0;
	s = strrchr(text, ')');
	for (s = s ? s + 1 : NULL; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	return s ? strtoull(s, NULL, 10) : 0;
}

void sl__boot_id(uint8_t id[16])
{
	char text[64] = ""; /* stays so without /proc */
	int digits = 0;

	memset(id, 0, 16);
	slurp("/proc/sys/kernel/random/boot_id", text, sizeof(text));
	for (const char *s = text; *s && digits < 32; s++) {
		int v = *s >= '0' && *s <= '9'	 ? *s - '0'
			: *s >= 'a' && *s <= 'f' ? *s - 'a' + 10
						 : -1;

		if (v < 0)
			continue;
		id[digits / 2] = (uint8_t)(id[digits / 2] << 4 | v);
		digits++;
	}
}

/* The first 12 of 64 hexadecimal digits, and no more of them; false: there are none. */
static bool find_id(const char *s, const char *end, char id[SL__CONTAINER_ID + 1])
{
	uint32_t digits = 0;

	for (; s <= end; s++) {
		if (s < end && ((*s >= '0' && *s <= '9') || (*s >= 'a' && *s <= 'f'))) {
			digits++;
			continue;
		}
		if (digits == 64) {
			memcpy(id, s - 64, SL__CONTAINER_ID);
			id[SL__CONTAINER_ID] = 0;
			return true;
		}
		digits = 0;
	}
	return false;
}

/*
 * A cgroup namespace hides the path; then the file that a runtime mounts as /etc/hosts lies in the
 * container's folder. Other mounts may be of any container of this host.
 */
bool sl__container_id(char id[SL__CONTAINER_ID + 1])
{
	char text[16384], *at, *line;
	size_t n = slurp("/proc/self/cgroup", text, sizeof(text));

	if (n && find_id(text, text + n, id))
		return true;
	n = slurp("/proc/self/mountinfo", text, sizeof(text));
	at = n ? strstr(text, " /etc/hosts ") : NULL;
	if (!at)
		return false;
	for (line = at; line > text && line[-1] != '\n';)
		line--;
	return find_id(line, at, id);
}

uint64_t sl__random_instance(void)
{
	uint64_t id = 0;

	if (getrandom(&id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id) || !id) {
		id = sl__realtime_ns() ^ sl__monotonic_ns() << 20;
		id = sl_fnv1a(SL_FNV_BASIS, &id, sizeof(id)) + (uint64_t)getpid();
	}
	return id ? id : 1;
}
