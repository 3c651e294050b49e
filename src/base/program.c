// SPDX-License-Identifier: Apache-2.0
#include "base/base.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

int base_program_find(const char *name, char path[PATH_MAX])
{
	/* The first three are relative to the folder of the running program. */
	static const char *const folders[] = {"", "../libexec/sidelight/", "../../bin/",
					      SL_LIBEXECDIR "/", SL_BINDIR "/"};
	char own[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", own, sizeof(own));

	while (n > 0 && own[n - 1] != '/')
		n--;
	for (size_t i = n > 0 ? 0 : 3; i < sizeof(folders) / sizeof(*folders); i++) {
		int used = snprintf(path, PATH_MAX, "%.*s%s%s", i < 3 ? (int)n : 0, own, folders[i],
				    name);

		if (used < PATH_MAX && !access(path, X_OK))
			return 0;
	}
	return -ENOENT;
}
