/* SPDX-License-Identifier: Apache-2.0 */
/* drop.h - finds the kernel's reasons for dropping packets in its BTF. */
#ifndef SL_SOURCE_TCP_DROP_H
#define SL_SOURCE_TCP_DROP_H

#include <stdbool.h>
#include <stdint.h>

#include <sidelight/flow.h>

/* True if the tracepoint kfree_skb names the receiving socket (Linux 6.11 and later). */
bool tcp_drop_says_socket(void);
/* Writes the name of each reason into its line, which must be zero. Unknown names stay empty. */
void tcp_drop_names(uint64_t line[SL_DROP_REASONS][8]);

#endif
