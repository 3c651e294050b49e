/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect_remote.h - options of 'sidelight collect' for remote write. The N-th of urls, configs,
 * queues and relabels belong together.
 */
#ifndef SL_CLI_COLLECT_REMOTE_H
#define SL_CLI_COLLECT_REMOTE_H

#include "base/base.h"
#include "collect/send/send.h"
#include "export/remote_write.h"
#include "export/spool.h"

struct cli_collect_remote {
	const char *protocol;
	struct base_strings urls, configs, queues, relabels, labels;
	struct collect_send_opts receiver[COLLECT_SEND_MAX];   /* made from the options above */
	struct region_text_label label[COLLECT_SENDER_LABELS]; /* parsed labels */
	uint64_t queue_bytes;
};

#define CLI_COLLECT_REMOTE_DEFAULTS                          \
	{                                                    \
		.protocol = "auto", .queue_bytes = 256 << 20 \
	}

#define CLI_COLLECT_REMOTE_OPTIONS(to)                                                              \
	BASE_LIST("remote-write", 0, &(to).urls, "URL",                                             \
		  "send samples to this URL by Prometheus remote write; repeatable: the N-th "      \
		  "--remote-write-config, --remote-queue and --remote-relabel are for the "         \
		  "N-th URL; an empty one means none"),                                             \
		BASE_LIST("remote-write-config", 0, &(to).configs, "FILE",                          \
			  "connect to --remote-write" CLI_CLIENT_FILE),                             \
		BASE_LIST("remote-relabel", 0, &(to).relabels, "FILE",                              \
			  "select and relabel series as in this file, a list in the form of "       \
			  "Prometheus' write_relabel_configs"),                                     \
		BASE_STRING(                                                                        \
			"remote-protocol", 0, &(to).protocol, "VERSION",                            \
			"send this version of remote write: 1.0, 2.0 or auto, which is 2.0 if the " \
			"receiver supports it"),                                                    \
		BASE_LIST("remote-label", 0, &(to).labels, "NAME=VALUE",                            \
			  "add this label to every series sent by remote write; repeatable"),       \
		BASE_LIST("remote-queue", 0, &(to).queues, "FILE",                                  \
			  "queue the data of remote write in this file until it is sent"),          \
		BASE_SIZE("remote-queue-size", 0, &(to).queue_bytes, EXPORT_SPOOL_MIN, 1e15,        \
			  "BYTES",                                                                  \
			  "size of a new --remote-queue; when it is full, the oldest "              \
			  "samples leave")

#endif
