/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passed.h - descriptors passed by the service manager at start-up. Each is returned once, and only
 * in the process that was started, not in its children.
 */
#ifndef SL_BASE_PASSED_H
#define SL_BASE_PASSED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/*
 * Returns a non-blocking socket of this type that listens on this address, or -1 if none was
 * passed.
 */
int base_passed_socket(int type, const struct sockaddr *at);
/* True if the service manager owns the address: do not remove the file or shut down the socket. */
bool base_is_passed(int fd);
/*
 * Returns a file, which the caller closes, and its name, which is valid for the lifetime of the
 * process. Returns -1 if there are no more.
 */
int base_passed_file(const char **name);
/* Returns 0, or -EINVAL with one line in error if a passed socket was not used. */
int base_passed_rest(char *error, size_t bytes);

#endif
