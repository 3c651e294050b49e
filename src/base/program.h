/* SPDX-License-Identifier: Apache-2.0 */
/* program.h - finds the other programs of this installation. */
#ifndef SL_BASE_PROGRAM_H
#define SL_BASE_PROGRAM_H

#include <limits.h>

/*
 * Finds a program by its file name, such as "sidelight-agent": first in the folder of the running
 * program, as in a build folder; then where "make install" puts programs, relative to that folder;
 * then in the configured folders. Returns 0, or -ENOENT if it is not installed.
 */
int base_program_find(const char *name, char path[PATH_MAX]);

#endif
