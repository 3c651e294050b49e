// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_web.c - the files by which operators guard what listens and what connects. The first byte
 * says which: "W" web.yml, "R" the roles beside a web.yml with a user, "C" an http_client_config.
 * One that is refused has one line that says why; one that is taken is applied to a request.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "http/client.h"
#include "http/files.h"
#include "http/web.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char web[] = "basic_auth_users:\n"
			  "  shop: $2y$04$abcdefghijklmnopqrstuuL012345678901234567890123456789\n";

static void must(bool condition)
{
	if (!condition)
		abort();
}

/* A file with these bytes, by a name of its descriptor. */
static int file(const void *bytes, size_t n, char name[32])
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	must(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
	snprintf(name, 32, "/proc/self/fd/%d", fd);
	return fd;
}

/* One line, and not an empty one. */
static void complained(const char *error)
{
	must(*error && !strchr(error, '\n'));
}

static void serve(const char *path, const char *roles)
{
	struct http_files files = {0};
	char error[256] = "";
	struct http_web *w = http_web_read(path, roles, error, sizeof(error));

	http_web_files(&files, path, roles);
	http_files_free(&files);
	if (!w) {
		complained(error);
		return;
	}
	must(w->user_count <= HTTP_WEB_USERS && w->san_count <= HTTP_WEB_SANS &&
	     w->header_count <= HTTP_WEB_HEADERS && strlen(w->priority) < sizeof(w->priority));
	for (size_t i = 0; i < w->user_count; i++)
		must(w->users[i].name && w->users[i].hash);
	must(!w->tls || w->key);
	http_web_authenticates(w);
	http_web_certificate_role(w, "CN=a\0b", 7);
	http_web_free(w);
}

static void connect_by(const char *path)
{
	struct http_files files = {0};
	char error[256] = "";
	struct http_client *c = http_client_open(path, error, sizeof(error));
	struct http_outgoing r = {0};
	CURL *curl;

	http_client_files(&files, path);
	http_files_free(&files);
	if (!c) {
		complained(error);
		return;
	}
	curl = curl_easy_init();
	must(curl);
	if (http_client_apply(c, curl, "https://example.test/x", NULL, &r, error, sizeof(error)))
		complained(error);
	http_client_done(&r);
	curl_easy_cleanup(curl);
	http_client_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char name[32], guarded[32];
	int fd, other;

	if (!size)
		return 0;
	fd = file(data + 1, size - 1, name);
	if (*data == 'C') {
		connect_by(name);
	} else if (*data == 'R') {
		other = file(web, sizeof(web) - 1, guarded);
		serve(guarded, name);
		close(other);
	} else {
		serve(name, NULL);
	}
	close(fd);
	return 0;
}
