/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_AGENT_LISTEN_H
#define SL_AGENT_LISTEN_H

#include <stddef.h>
#include <sys/types.h>

/* The listening descriptor, or -errno with one line in error. */
int agent_listen(const char *path, unsigned int mode, dev_t *dev, ino_t *ino, char *error,
		 size_t bytes);
void agent_unlisten(int fd, const char *path, dev_t dev, ino_t ino);

#endif
