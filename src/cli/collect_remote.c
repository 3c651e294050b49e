// SPDX-License-Identifier: Apache-2.0
#include "cli/collect_remote.h"

#include <stdlib.h>
#include <string.h>

#include "region/text.h"

/* Splits a label NAME=VALUE. The label points into a copy that is never freed. */
static bool parse_label(const char *text, struct region_text_label *out)
{
	char *copy = strdup(text), *equals = copy ? strchr(copy, '=') : NULL;

	if (!equals || !equals[1] || !region_text_metric_name(copy, (size_t)(equals - copy)) ||
	    memchr(copy, ':', (size_t)(equals - copy)) || !strncmp(copy, "__name__=", 9)) {
		free(copy);
		return false;
	}
	*equals = '\0';
	*out = (struct region_text_label){copy, equals + 1};
	return true;
}

static int check_labels(const struct base_command *self, struct cli_collect_remote *o)
{
	if (o->labels.n > COLLECT_SENDER_LABELS)
		return base_usage(self, "more than %u --remote-label", COLLECT_SENDER_LABELS);
	for (size_t i = 0; i < o->labels.n; i++)
		if (!parse_label(o->labels.v[i], &o->label[i]))
			return base_usage(self, "--remote-label '%.100s' is not NAME=VALUE",
					  o->labels.v[i]);
	return BASE_EXIT_OK;
}

int cli_collect_remote_check(const struct base_command *self, struct cli_collect_remote *o,
			     const char *url, struct export_remote_opts *to,
			     struct collect_sender_form *form)
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
	if (o->labels.n && !url)
		return base_usage(self, "--remote-label needs --remote-write");
	to->protocol = (enum export_remote_protocol)i;
	to->queue = o->queue;
	to->queue_bytes = o->queue_bytes;
	form->label = o->label;
	form->labels = (uint32_t)o->labels.n;
	return check_labels(self, o);
}
