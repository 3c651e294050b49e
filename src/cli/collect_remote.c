// SPDX-License-Identifier: Apache-2.0
#include "cli/collect_remote.h"

#include <string.h>

int cli_collect_remote_check(const struct base_command *self, const struct cli_collect_remote *o,
			     const char *url, struct export_remote_opts *to)
{
	static const char *const names[] = {[EXPORT_REMOTE_1] = "1.0",
					    [EXPORT_REMOTE_2] = "2.0",
					    [EXPORT_REMOTE_AUTO] = "auto"};
	size_t i = 0;

	while (i < 3 && strcmp(o->protocol, names[i]))
		i++;
	if (i == 3)
		return base_usage(self, "--remote-protocol '%s' is not one of 1.0, 2.0, auto",
				  o->protocol);
	if (o->queue && !url)
		return base_usage(self, "--remote-queue needs --remote-write");
	to->protocol = (enum export_remote_protocol)i;
	to->queue = o->queue;
	to->queue_bytes = o->queue_bytes;
	return BASE_EXIT_OK;
}
