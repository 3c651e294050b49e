// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/network.h"
#include "base/secret.h"
#include "base/text.h"
#include "cli/common/common.h"

/* Returns true if only this user and root can create files in the directory. */
static bool is_private(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && !(st.st_mode & 022) &&
	       (st.st_uid == geteuid() || !st.st_uid);
}

#define FOLDERS 4u /* runtime directories, in order of preference */

/*
 * Returns the path of a collector's token in the i-th runtime directory, to be freed; NULL if this
 * user has no such directory. make: create the directory if it does not exist.
 */
static char *token_path(size_t i, const char *address, bool make)
{
	const char *from = getenv(i ? "XDG_RUNTIME_DIR" : "RUNTIME_DIRECTORY") ?: "";
	char folder[PATH_MAX], *path;

	switch (i) {
	case 0: /* a colon-separated list: systemd.exec(5) */
		snprintf(folder, sizeof(folder), "%.*s", (int)strcspn(from, ":"), from);
		break;
	case 1:
		snprintf(folder, sizeof(folder), "/run/sidelight-collect");
		break;
	case 2:
		snprintf(folder, sizeof(folder), "%s%s", from, *from ? "/sidelight" : "");
		break;
	default:
		snprintf(folder, sizeof(folder), "/tmp/sidelight-%u", (unsigned int)geteuid());
	}
	if (make)
		mkdir(folder, 0700);
	return is_private(folder) && asprintf(&path, "%s/collect-%s.token", folder, address) >= 0
		       ? path
		       : NULL;
}

static bool write_to(const char *path, const char *token)
{
	FILE *f = base_create_file(path);
	bool good = f && fprintf(f, "%s\n", token) > 0;

	return f && !fclose(f) && good;
}

bool cli_token_draw(char token[CLI_TOKEN_BYTES])
{
	unsigned char bits[(CLI_TOKEN_BYTES - 1) / 2];

	if (getrandom(bits, sizeof(bits), 0) != (ssize_t)sizeof(bits))
		return false;
	base_hex(token, bits, sizeof(bits));
	return true;
}

char *cli_token_leave(const char *address, const char *token)
{
	for (size_t i = 0; i < FOLDERS; i++) {
		char *path = token_path(i, address, true);

		if (path && write_to(path, token))
			return path;
		free(path);
	}
	return NULL;
}

/* Clients */

static char *read_token(const char *path)
{
	size_t bytes = 0;
	char *text = base_read_file(path, CLI_TOKEN_MAX, &bytes);

	while (text && bytes && strchr(BASE_SECRET_SPACE, text[bytes - 1]))
		text[--bytes] = 0;
	return text;
}

/* Returns true if this user or root owns the file: never send someone else's token to a server. */
static bool is_own(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISREG(st.st_mode) && (st.st_uid == geteuid() || !st.st_uid);
}

static char *find_token(const char *address)
{
	char *token = NULL;

	for (size_t i = 0; !token && i < FOLDERS; i++) {
		char *path = token_path(i, address, false);

		token = path && is_own(path) ? read_token(path) : NULL;
		free(path);
	}
	return token;
}

/* Finds the token of a collector at one of the resolved addresses. */
static char *find_any(const struct addrinfo *found)
{
	char address[INET6_ADDRSTRLEN + 8], any[24], *token = NULL;

	for (const struct addrinfo *a = found; a && !token; a = a->ai_next) {
		token = find_token(base_print_address(a->ai_addr, address, sizeof(address)));
		/*
		 * Wildcard addresses are valid for this host only: a collector on another host has
		 * another token.
		 */
		if (!token && base_is_loopback(a->ai_addr)) {
			snprintf(any, sizeof(any), "0.0.0.0%s", strrchr(address, ':'));
			token = find_token(any);
			snprintf(any, sizeof(any), "[::]%s", strrchr(address, ':'));
			token = token ?: find_token(any);
		}
	}
	return token;
}

char *cli_token_find(const char *at)
{
	struct addrinfo *found;
	char *token;

	if (base_resolve(at, "127.0.0.1", SOCK_STREAM, &found))
		return NULL;
	token = find_any(found);
	freeaddrinfo(found);
	return token;
}

char *cli_token_read(const struct base_command *cmd, const char *path)
{
	char *token = read_token(path);

	if (!token)
		base_failure(cmd, "--token-file %s: %s", path, strerror(errno));
	return token;
}
