// SPDX-License-Identifier: Apache-2.0
#include "http/files.h"

#include <stdlib.h>
#include <string.h>

#include "base/secret.h"

void http_files_add(struct http_files *f, const char *path)
{
	if (path && f->n < BASE_CONFINE_READS && (f->path[f->n] = strdup(path)))
		f->n++;
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
}
