/* SPDX-License-Identifier: Apache-2.0 */
/*
 * passed.h - descriptors that the service manager passes at the start. Each is given once, and to
 * the process that was started alone.
 */
#ifndef SL_BASE_PASSED_H
#define SL_BASE_PASSED_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>

/* A socket of this type that listens at this address, and does not block; -1: none was passed. */
int base_passed_socket(int type, const struct sockaddr *at);
/* Its address stays the service manager's: the file is not removed, nor the socket shut down. */
bool base_is_passed(int fd);
/* A file, to be closed, and its name, which lives as long as the process; -1: no more. */
int base_passed_file(const char **name);
/* 0; or -EINVAL with one line in error: a socket is left that was not taken. */
int base_passed_rest(char *error, size_t bytes);

#endif
