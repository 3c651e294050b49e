/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SL_COLLECT_READ_FETCH_H
#define SL_COLLECT_READ_FETCH_H

#include <stdint.h>

struct collect_link;

/* Starts the fetches that can be read now, and answers those that cannot be read at all. */
void collect_fetch_poll(struct collect_link *l, uint64_t now_ns);
/* Answers all remaining fetches with -ECANCELED. */
void collect_fetch_free(struct collect_link *l);

#endif
