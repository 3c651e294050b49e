// SPDX-License-Identifier: Apache-2.0
/* identity.c - identifies this process, its container and its region. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

#include "internal.h"

static size_t read_file(const char *path, char *to, size_t size)
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

/* Returns field 22 of /proc/self/stat. Field 2, the program's name, may contain any character. */
uint64_t sl__start_ticks(void)
{
	char text[1024], *s;
	int field = 3;

	if (!read_file("/proc/self/stat", text, sizeof(text)))
		return 0;
	s = strrchr(text, ')');
	for (s = s ? s + 1 : NULL; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	return s ? strtoull(s, NULL, 10) : 0;
}

void sl__boot_id(uint8_t id[16])
{
	char text[64] = ""; /* remains empty without /proc */
	int digits = 0;

	memset(id, 0, 16);
	read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));
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

/* Finds a run of exactly 64 hexadecimal digits and copies its first 12. Returns false if none. */
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
 * In a cgroup namespace the path is hidden. The file that a container runtime mounts as /etc/hosts
 * lies in the container's directory, so its path has the ID. Other mounts may belong to any
 * container of this host.
 */
bool sl__container_id(char id[SL__CONTAINER_ID + 1])
{
	char text[16384], *at, *line;
	size_t n = read_file("/proc/self/cgroup", text, sizeof(text));

	if (n && find_id(text, text + n, id))
		return true;
	n = read_file("/proc/self/mountinfo", text, sizeof(text));
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
