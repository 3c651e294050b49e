/* SPDX-License-Identifier: Apache-2.0 */
/* collect_remote.h - options of 'sidelight collect' for remote write, except its URL. */
#ifndef SL_CLI_COLLECT_REMOTE_H
#define SL_CLI_COLLECT_REMOTE_H

#include "base/base.h"
#include "collect/send/sender.h"
#include "export/remote_write.h"
#include "export/spool.h"

struct cli_collect_remote {
	const char *protocol, *queue;
	struct base_strings labels;
	struct region_text_label label[COLLECT_SENDER_LABELS]; /* parsed labels */
	uint64_t queue_bytes;
};

#define CLI_COLLECT_REMOTE_DEFAULTS                          \
	{                                                    \
		.protocol = "auto", .queue_bytes = 256 << 20 \
	}

#define CLI_COLLECT_REMOTE_OPTIONS(to)                                                          \
	BASE_STRING("remote-protocol", 0, &(to).protocol, "VERSION",                            \
		    "send this version of remote write: 1.0, 2.0 or auto, which is 2.0 if the " \
		    "receiver supports it"),                                                    \
		BASE_LIST("remote-label", 0, &(to).labels, "NAME=VALUE",                        \
			  "send every series by remote write with this label; repeatable"),     \
		BASE_STRING("remote-queue", 0, &(to).queue, "FILE",                             \
			    "keep what remote write sends in this file until it is sent"),      \
		BASE_SIZE("remote-queue-size", 0, &(to).queue_bytes, EXPORT_SPOOL_MIN, 1e15,    \
			  "BYTES",                                                              \
			  "size of a new --remote-queue; when it is full, the oldest "          \
			  "samples leave")

#endif
