/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - files with a key, a token or a shared secret. */
#ifndef SL_BASE_SECRET_H
#define SL_BASE_SECRET_H

#include <stdint.h>
#include <sys/types.h>

#define BASE_SECRET_SPACE " \t\r\n"

/*
 * Resolves a file name found in another file. A relative name refers to that file's folder;
 * "credential:NAME" to $CREDENTIALS_DIRECTORY, where systemd puts a service's credentials. The
 * caller frees the result. Returns NULL if memory is exhausted.
 */
char *base_secret_path(const char *name, const char *beside);
/*
 * Reads a file without trailing white space. Returns its length, -EINVAL if beyond room, or -errno.
 */
ssize_t base_secret_read(const char *path, void *to, size_t room);
#define BASE_SHARED_MIN 16u
#define BASE_SHARED_MAX 4096u
/*
 * Reads a secret that both ends of a channel know: the whole file without trailing white space.
 * Returns its length or -errno; -EINVAL means it is not BASE_SHARED_MIN to BASE_SHARED_MAX bytes
 * long.
 */
ssize_t base_secret_shared(const char *path, uint8_t secret[BASE_SHARED_MAX]);
/* Logs a warning if any user can read the file, or anyone but its owner can change it. */
void base_secret_warn(const char *component, const char *path);

#endif
