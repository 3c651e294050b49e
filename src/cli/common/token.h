/* SPDX-License-Identifier: Apache-2.0 */
/*
 * token.h - the token by which the user who runs a collector changes its stores: drawn at its start
 * and left in a file of the runtime directory that this user alone can read, where the commands of
 * the same user find it. Runtime directories are $RUNTIME_DIRECTORY, /run/sidelight-collect,
 * $XDG_RUNTIME_DIR/sidelight and /tmp/sidelight-UID; one that others may write to is not used.
 */
#ifndef SL_CLI_COMMON_TOKEN_H
#define SL_CLI_COMMON_TOKEN_H

#include "base/base.h"

#define CLI_TOKEN_BYTES 65u  /* of a token that is drawn, with the NUL */
#define CLI_TOKEN_MAX	1024 /* of a file */

/* False: the kernel has no random bytes. */
bool cli_token_draw(char token[CLI_TOKEN_BYTES]);
/* Writes the token of the collector at address. The file's path, to be freed; NULL: nowhere. */
char *cli_token_leave(const char *address, const char *token);
/* The token of the collector at HOST:PORT, to be freed; NULL: none is left for this user. */
char *cli_token_find(const char *at);
/* That in a file, to be freed; NULL after a line on stderr. */
char *cli_token_read(const struct base_command *cmd, const char *path);

#endif
