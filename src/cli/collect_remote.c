// SPDX-License-Identifier: Apache-2.0
/* collect_remote.c - 'sidelight collect --remote-write', and remote read. */
#include <stdlib.h>
#include <string.h>

#include "cli/collect.h"
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
		return base_usage(self, "at most %u --remote-label are allowed",
				  COLLECT_SENDER_LABELS);
	for (size_t i = 0; i < o->labels.n; i++)
		if (!parse_label(o->labels.v[i], &o->label[i]))
			return base_usage(self, "--remote-label '%.100s' is not NAME=VALUE",
					  o->labels.v[i]);
	return BASE_EXIT_OK;
}

/* Returns the N-th value, or NULL if it is missing or empty. */
static const char *nth(const struct base_strings *list, size_t n)
{
	return n < list->n && *list->v[n] ? list->v[n] : NULL;
}

/* Returns the option that is given more often than --remote-write, or NULL. */
static const char *too_many(const struct cli_collect_remote *o, const struct collect_send_opts *to)
{
	return o->configs.n > o->urls.n	   ? "--remote-write-config"
	       : o->relabels.n > o->urls.n ? "--remote-relabel"
	       : o->queues.n > o->urls.n   ? "--remote-queue"
	       : o->urls.n		   ? NULL
	       : to->form.native	   ? "--remote-native"
	       : to->form.shards > 1	   ? "--remote-shards"
	       : to->form.utf8		   ? "--remote-utf8"
	       : o->labels.n		   ? "--remote-label"
					   : NULL;
}

static int check_remote(const struct base_command *self, struct cli_collect_settings *s)
{
	static const char *const names[] = {[EXPORT_REMOTE_1] = "1.0",
					    [EXPORT_REMOTE_2] = "2.0",
					    [EXPORT_REMOTE_AUTO] = "auto",
					    NULL};
	struct cli_collect_remote *o = &s->remote;
	struct collect_send_opts *to = &s->send;
	const int protocol = cli_choice(o->protocol, names);
	const char *needs = too_many(o, to);

	if (needs)
		return base_usage(self, "%s needs --remote-write", needs);
	if (o->urls.n > COLLECT_SEND_MAX)
		return base_usage(self, "at most %u --remote-write are allowed", COLLECT_SEND_MAX);
	if (o->urls.n && !s->c.history_bytes)
		return base_usage(self, "--remote-write requires --history, which holds the "
					"samples");
	if (protocol < 0)
		return base_usage(self, "--remote-protocol '%s' is not one of 1.0, 2.0, auto",
				  o->protocol);
	to->remote.protocol = (enum export_remote_protocol)protocol;
	to->remote.queue_bytes = o->queue_bytes;
	to->form.label = o->label;
	to->form.labels = (uint32_t)o->labels.n;
	to->period_ns = s->c.period_ns;
	for (size_t i = 0; i < o->urls.n; i++) {
		o->receiver[i] = *to;
		o->receiver[i].url = o->urls.v[i];
		o->receiver[i].relabel = nth(&o->relabels, i);
		o->receiver[i].remote.config = nth(&o->configs, i);
		o->receiver[i].remote.queue = nth(&o->queues, i);
	}
	return check_labels(self, o);
}

static int make_sender(struct cli_collect_run *r)
{
	char error[256];

	if (!r->set->remote.urls.n)
		return BASE_EXIT_OK;
	r->send = collect_send_new(r->set->remote.receiver, r->set->remote.urls.n, error,
				   sizeof(error));
	if (!r->send)
		return CLI_FAIL("collect", "%s", error);
	r->on_anomaly = collect_send_anomaly;
	r->on_anomaly_arg = r->send;
	return BASE_EXIT_OK;
}

static int attach_sender(struct cli_collect_run *r)
{
	int err = r->send ? collect_send_attach(r->send, r->c, &r->receivers) : 0;

	return err ? CLI_FAIL("collect", "remote write: %s", strerror(-err)) : BASE_EXIT_OK;
}

static int add_routes(struct cli_collect_run *r, struct http *http)
{
	return api_remote_read(http, r->c);
}

static void add_paths(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files)
{
	for (size_t i = 0; i < s->remote.urls.n; i++) {
		const struct collect_send_opts *to = &s->remote.receiver[i];

		/* This allows the whole folder, which also has the queues of the other shards. */
		cli_collect_path(c, to->remote.queue);
		http_client_files(files, to->remote.config);
	}
}

static int start_sender(struct cli_collect_run *r)
{
	return collect_send_start(r->send);
}

static void stop_sender(struct cli_collect_run *r)
{
	collect_send_stop(r->send);
}

static void free_sender(struct cli_collect_run *r)
{
	collect_send_free(r->send);
}

const struct cli_collect_part cli_collect_part_remote = {
	.check = check_remote,
	.before = make_sender,
	.attach = attach_sender,
	.routes = add_routes,
	.paths = add_paths,
	.start = start_sender,
	.stop = stop_sender,
	.free = free_sender,
};
