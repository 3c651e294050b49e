/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A temporary folder of a test, below TMPDIR: created and removed by cmocka's set-up and tear-down
 * functions.
 */
#ifndef SUPPORT_FOLDER_H
#define SUPPORT_FOLDER_H

#include "support/test.h"
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char test_folder[64];

static inline int folder_make(void **state)
{
	const char *tmp = getenv("TMPDIR");

	(void)state;
	/* The path of a unix socket in it must fit in 107 characters. */
	snprintf(test_folder, sizeof(test_folder), "%s/sl-XXXXXX",
		 tmp && strlen(tmp) < 48 ? tmp : "/tmp");
	return mkdtemp(test_folder) ? 0 : -1;
}

static inline int folder_remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
	(void)s, (void)type, (void)f;
	return remove(path);
}

static inline int folder_remove(void **state)
{
	(void)state;
	return nftw(test_folder, folder_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* Creates a file in it, and the folders above it. */
static inline void folder_put(const char *path, const char *text)
{
	char whole[1024];
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/%s", test_folder, path);
	for (char *end = strchr(whole + strlen(test_folder) + 1, '/'); end;
	     end = strchr(end + 1, '/')) {
		*end = 0;
		mkdir(whole, 0755);
		*end = '/';
	}
	f = fopen(whole, "we");
	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
}

#endif
