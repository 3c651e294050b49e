/* SPDX-License-Identifier: Apache-2.0 */
/* secret.h - files that hold a key, a token or a shared secret. */
#ifndef SL_BASE_SECRET_H
#define SL_BASE_SECRET_H

#include <sys/types.h>

#define BASE_SECRET_SPACE " \t\r\n"

/*
 * The path of a file that another file names: of the other's folder, if it is relative;
 * "credential:NAME" is of $CREDENTIALS_DIRECTORY, where systemd puts a service's credentials. To be
 * freed; NULL without memory.
 */
char *base_secret_path(const char *name, const char *beside);
/*
 * Reads a file without its trailing white space, into room bytes. Its length, -EINVAL if there is
 * more, -errno.
 */
ssize_t base_secret_read(const char *path, void *to, size_t room);
/* Warns, with the mode, of a file that any user can read, or that others than its owner can change.
 */
void base_secret_warn(const char *component, const char *path);

#endif
