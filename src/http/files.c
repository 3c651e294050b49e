// SPDX-License-Identifier: Apache-2.0
#include "http/files.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/secret.h"

static size_t folder_bytes(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? (size_t)(slash - path) : 0;
}

/* Returns true if a file of the list is in the folder of path. */
static bool has_folder(const struct http_files *f, const char *path)
{
	const size_t bytes = folder_bytes(path);
	bool has = false;

	for (size_t i = 0; i < f->n && !has; i++)
		has = folder_bytes(f->path[i]) == bytes && !memcmp(f->path[i], path, bytes);
	return has;
}

void http_files_add(struct http_files *f, const char *path)
{
	char *copy = path && f->n < BASE_CONFINE_READS ? strdup(path) : NULL;

	if (copy)
		f->path[f->n++] = copy;
	else if (path && !has_folder(f, path))
		f->left_out++;
}

char *http_files_path(struct base_yaml *y, base_yaml_node mapping, const char *key,
		      const char *beside)
{
	const char *name = NULL;
	char *path;

	base_yaml_string(y, base_yaml_get(y, mapping, key), key, &name);
	path = name ? base_secret_path(name, beside) : NULL;
	if (name && !path)
		base_yaml_wrong_at(y, 0, "out of memory");
	return path;
}

void http_files_add_key(struct http_files *f, struct base_yaml *y, base_yaml_node mapping,
			const char *key, const char *beside)
{
	char *path = http_files_path(y, mapping, key, beside);

	http_files_add(f, path);
	free(path);
}

void http_files_free(struct http_files *f)
{
	while (f->n)
		free(f->path[--f->n]);
}

void http_files_allow(const struct http_files *f, struct base_confine_opts *o)
{
	for (size_t i = 0; i < f->n; i++)
		o->folder_of[i] = f->path[i];
	if (f->left_out)
		base_logf(BASE_WARN, "http",
			  "cannot allow all files of the settings left_out=%zu: they cannot be "
			  "read; keep them in fewer folders, or use --unconfined",
			  f->left_out);
}
