/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - where the other programs of this installation are. */
#ifndef SL_BASE_PROGRAM_H
#define SL_BASE_PROGRAM_H

#include <limits.h>

/*
 * Finds a program by its file name, such as "sidelight-agent": beside the one that runs, as in a
 * build folder; then where "make install" puts programs, seen from that one; then in the configured
 * folders. 0, or -ENOENT: it is not installed.
 */
int base_program_find(const char *name, char path[PATH_MAX]);

#endif
