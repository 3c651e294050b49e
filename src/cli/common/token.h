/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - the token that authorizes the user who runs a collector to change its stores. The
 * collector draws a token when it starts and leaves it in a file of the runtime directory that only
 * this user can read; the commands of the same user find it there. Runtime directories are
 * $RUNTIME_DIRECTORY, /run/sidelight-collect, $XDG_RUNTIME_DIR/sidelight and /tmp/sidelight-UID. A
 * directory that others can write to is not used.
 */
#ifndef SL_CLI_COMMON_TOKEN_H
#define SL_CLI_COMMON_TOKEN_H

#include "base/base.h"

#define CLI_TOKEN_BYTES 65u  /* size of a generated token, with the NUL */
#define CLI_TOKEN_MAX	1024 /* maximum size of a token file in bytes */

/* Generates a token. Returns false if the kernel has no random bytes. */
bool cli_token_draw(char token[CLI_TOKEN_BYTES]);
/*
 * Writes the token of the collector at address to a file. Returns the file's path, to be freed, or
 * NULL if no directory is usable.
 */
char *cli_token_leave(const char *address, const char *token);
/* Returns the token of the collector at HOST:PORT, to be freed, or NULL if this user has none. */
char *cli_token_find(const char *at);
/* Reads a token from a file. Returns the token, to be freed, or NULL after printing an error. */
char *cli_token_read(const struct base_command *cmd, const char *path);

#endif
