// SPDX-License-Identifier: Apache-2.0
/*
 * limits.c - computes how much memory the cgroup limits leave to this process. A machine may have
 * some controllers in version 1 and others in version 2; see
 * Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/memory.rst and cgroup-v1/hugetlb.rst.
 */
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "dta/store/stores.h"

/* limits this high count as unlimited; version 1 reports LONG_MAX rounded down to a page */
#define NO_LIMIT ((uint64_t)1 << 62)

static const struct {
	const char *controller; /* name of the controller; in version 1, also of its directory */
	const char *most[2], *used[2]; /* file names in versions 1 and 2 */
} files[] = {
	[DTA_LIMIT_MEMORY] = {"memory",
			      {"memory.limit_in_bytes", "memory.max"},
			      {"memory.usage_in_bytes", "memory.current"}},
	[DTA_LIMIT_HUGETLB] = {"hugetlb",
			       {"hugetlb.2MB.limit_in_bytes", "hugetlb.2MB.max"},
			       {"hugetlb.2MB.usage_in_bytes", "hugetlb.2MB.current"}},
};

/* Returns UINT64_MAX if there is no such file or no limit. */
static uint64_t number_in(const char *folder, const char *path, const char *name)
{
	char file[PATH_MAX];
	unsigned long long v;
	FILE *f = NULL;
	int n = 0;

	if (snprintf(file, sizeof(file), "%s%s/%s", folder, path, name) < (int)sizeof(file))
		f = fopen(file, "re");
	if (f) {
		n = fscanf(f, "%llu", &v); /* fails for "max" */
		fclose(f);
	}
	return n == 1 ? v : UINT64_MAX;
}

/* Whether a comma-separated list contains this name. */
static bool is_listed(const char *list, const char *name)
{
	const size_t bytes = strlen(name);

	for (; list; list = strchr(list, ',') ? strchr(list, ',') + 1 : NULL)
		if (!strncmp(list, name, bytes) && (!list[bytes] || list[bytes] == ','))
			return true;
	return false;
}

/*
 * Returns the minimum over a cgroup and its ancestors, up to the root of the mount. In a container,
 * that root may be the container's own cgroup.
 */
static uint64_t least_of(const char *folder, char *path, const char *most_name,
			 const char *used_name)
{
	uint64_t least = UINT64_MAX;
	char *end;

	do {
		const uint64_t most = number_in(folder, path, most_name),
			       used = number_in(folder, path, used_name);
		const uint64_t left = most <= used ? 0 : most - used;

		if (most < NO_LIMIT && used != UINT64_MAX && left < least)
			least = left;
		end = strrchr(path, '/');
		if (end)
			*end = 0;
	} while (end);
	return least;
}

uint64_t dta_limits_left_in(enum dta_limit what, const char *cgroups, const char *root)
{
	FILE *f = fopen(cgroups, "re");
	uint64_t least = UINT64_MAX;
	char line[PATH_MAX], folder[PATH_MAX];

	/* format NUMBER:CONTROLLERS:PATH, in version 2 0::PATH */
	while (f && fgets(line, sizeof(line), f)) {
		char *list = strchr(line, ':'), *path = list ? strchr(++list, ':') : NULL;
		uint64_t left;
		bool v2;

		if (!path)
			continue;
		*path++ = 0;
		path[strcspn(path, "\n")] = 0;
		v2 = !*list;
		if (!v2 && !is_listed(list, files[what].controller))
			continue;
		if (snprintf(folder, sizeof(folder), "%s%s%s", root, v2 ? "" : "/",
			     v2 ? "" : files[what].controller) >= (int)sizeof(folder))
			continue;
		left = least_of(folder, path, files[what].most[v2], files[what].used[v2]);
		if (left < least)
			least = left;
	}
	if (f)
		fclose(f);
	return least;
}

uint64_t dta_limits_left(enum dta_limit what)
{
	return dta_limits_left_in(what, "/proc/self/cgroup", "/sys/fs/cgroup");
}
