/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the files that a file of settings names, besides itself: whether one changed, and which
 * folders a confined process has to read.
 */
#ifndef SL_HTTP_FILES_H
#define SL_HTTP_FILES_H

#include "base/confine.h"
#include "base/yaml.h"

struct http_files {
	char *path[BASE_CONFINE_READS];
	size_t n;
};

/* Adds a copy; NULL is fine. Those beyond the array's room are left out. */
void http_files_add(struct http_files *f, const char *path);
/* Adds the value of a key of a mapping, which names a file; beside: web.h, client.h. */
void http_files_add_key(struct http_files *f, struct base_yaml *y, base_yaml_node mapping,
			const char *key, const char *beside);
void http_files_free(struct http_files *f);
/* For base_confine(): stays as long as f. */
void http_files_allow(const struct http_files *f, struct base_confine_opts *o);

/* Adds web.yml, the file of roles (NULL: none), and what web.yml names. */
void http_web_files(struct http_files *f, const char *path, const char *roles);
/* Adds a file of client.h and what it names; NULL is fine. */
void http_client_files(struct http_files *f, const char *path);

#endif
