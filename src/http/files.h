/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the list of files that a settings file refers to, including the settings file itself.
 * Detects changes, and gives a confined process access to the files' directories.
 */
#ifndef SL_HTTP_FILES_H
#define SL_HTTP_FILES_H

#include "base/confine.h"
#include "base/yaml.h"

struct http_files {
	char *path[BASE_CONFINE_READS];
	size_t n;
	size_t left_out; /* files beyond the array's capacity, in other folders */
};

/* Adds a copy of path, or counts it if there is no room; NULL is ignored. */
void http_files_add(struct http_files *f, const char *path);
/*
 * Returns the path that a key of a mapping names, which the caller frees, or NULL if there is none.
 * beside: see web.h and client.h. http_files_add_key() adds the path to the list.
 */
char *http_files_path(struct base_yaml *y, base_yaml_node mapping, const char *key,
		      const char *beside);
void http_files_add_key(struct http_files *f, struct base_yaml *y, base_yaml_node mapping,
			const char *key, const char *beside);
void http_files_free(struct http_files *f);
/* Allows the files for base_confine(), and warns of those left out. f must outlive o. */
void http_files_allow(const struct http_files *f, struct base_confine_opts *o);

/* Adds web.yml, the roles file (NULL if there is none), and the files that web.yml names. */
void http_web_files(struct http_files *f, const char *path, const char *roles);
/* Adds the settings file of a client (client.h) and the files that it names; ignores NULL. */
void http_client_files(struct http_files *f, const char *path);

#endif
