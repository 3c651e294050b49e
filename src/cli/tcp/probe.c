// SPDX-License-Identifier: Apache-2.0
/* tcp_probe.c - 'sidelight tcp probe': what this kernel allows, hook by hook. */
#include <errno.h>
#include <jansson.h>
#include <string.h>

#include "cli/tcp/tcp.h"

static int probe_main(const struct sl_command *self, int argc, char **argv);

const struct sl_command sl_tcp_probe = {
	.name = "tcp probe",
	.synopsis = "[OPTION]...",
	.summary = "Show which hooks this kernel allows, and what is lost without them",
	.run = probe_main,
};

static const struct sl_option table[] = {
	{.name = "json",
	 .letter = 'j',
	 .type = SL_OPT_FLAG,
	 .to = &tcp_common.json,
	 .help = "print one JSON object"},
	TCP_OPTION_AVOID,
	{0},
};

static void targets(char *out, size_t bytes, const struct sl_hook_candidate *c)
{
	*out = 0;
	for (int i = 0; i < SL_HOOK_TARGETS && c->target[i]; i++)
		snprintf(out + strlen(out), bytes - strlen(out), "%s%s", i ? ", " : "",
			 c->target[i]);
}

static json_t *candidate_json(const struct sl_hooks *h, int b, int i)
{
	const struct sl_hook_candidate *c = &sl_hook_table[b].candidate[i];
	int err = h->error[b][i];
	json_t *names = json_array(), *o;

	for (int t = 0; t < SL_HOOK_TARGETS && c->target[t]; t++)
		json_array_append_new(names, json_string(c->target[t]));
	o = json_pack("{s:s, s:o, s:b, s:i}", "type", sl_hook_type_name(c->type), "targets", names,
		      "works", err == 0, "errno", err < 0 ? -err : 0);
	if (err < 0) {
		json_object_set_new(o, "why", json_string(sl_hook_why(c->type, err)));
		json_object_set_new(o, "failed", json_string(c->target[h->failed[b][i]]));
	}
	return o;
}

static const char *lost(const struct sl_hooks *h, int b)
{
	const struct sl_hook_boundary *boundary = &sl_hook_table[b];

	return h->chosen[b] < 0 ? boundary->lost : boundary->candidate[h->chosen[b]].lost;
}

static void print_json(const struct sl_hooks *h)
{
	json_t *all = json_array();

	for (int b = 0; b < SL_BOUNDARIES; b++) {
		const struct sl_hook_boundary *boundary = &sl_hook_table[b];
		json_t *tried = json_array(), *o;

		for (int i = 0; i < SL_HOOK_CANDIDATES && boundary->candidate[i].type; i++)
			json_array_append_new(tried, candidate_json(h, b, i));
		o = json_pack("{s:s, s:s, s:s, s:i, s:o}", "boundary", boundary->name, "between",
			      boundary->between, "used",
			      sl_hook_type_name(sl_hook_chosen(h, (enum sl_boundary)b)), "choice",
			      h->chosen[b], "candidates", tried);
		if (lost(h, b))
			json_object_set_new(o, "lost", json_string(lost(h, b)));
		json_array_append_new(all, o);
	}
	all = json_pack("{s:o}", "boundaries", all);
	json_dumpf(all, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(all);
}

static void print_text(const struct sl_hooks *h)
{
	char names[128];

	for (int b = 0; b < SL_BOUNDARIES; b++) {
		const struct sl_hook_boundary *boundary = &sl_hook_table[b];

		printf("%-11s %s\n", boundary->name, boundary->between);
		for (int i = 0; i < SL_HOOK_CANDIDATES && boundary->candidate[i].type; i++) {
			const struct sl_hook_candidate *c = &boundary->candidate[i];
			int err = h->error[b][i];

			targets(names, sizeof(names), c);
			printf("  %-4s %-9s %s\n",
			       i == h->chosen[b] ? "used"
			       : !err		 ? "ok"
						 : "no",
			       sl_hook_type_name(c->type), names);
			if (err < 0)
				printf("       %s: %s\n", c->target[h->failed[b][i]],
				       sl_hook_why(c->type, err));
		}
		if (lost(h, b))
			printf("  lost: %s\n", lost(h, b));
	}
}

static int probe_main(const struct sl_command *self, int argc, char **argv)
{
	struct sl_hooks hooks;
	uint32_t types;
	char why[256];
	int code, err;

	if (!sl_options_only(self, table, argc, argv, &code))
		return code;
	if (!tcp_avoid(self, &types))
		return SL_EXIT_USAGE;
	err = sl_hooks_probe(&hooks, SL_HOOKS_EVERY, true);
	if (err) {
		sl_hooks_refusal(err, why, sizeof(why));
		return tcp_failed(self, why);
	}
	sl_hooks_avoid(&hooks, types);
	if (tcp_common.json)
		print_json(&hooks);
	else
		print_text(&hooks);
	return fflush(stdout) ? SL_EXIT_FAILURE : SL_EXIT_OK;
}
