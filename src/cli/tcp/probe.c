// SPDX-License-Identifier: Apache-2.0
/* probe.c - 'sidelight tcp probe': lists the hooks that this kernel supports. */

#include "cli/tcp/tcp.h"
#include "source/tcp/feature.h"

static const struct base_option table[] = {
	BASE_FLAG("json", 'j', &cli_tcp_common.json, "print one JSON object"),
	CLI_TCP_OPTION_AVOID,
	{0},
};

static json_t *candidate_json(const struct tcp_hooks *h, int b, int i)
{
	const struct tcp_hook_candidate *c = &tcp_hook_table[b].candidate[i];
	int err = h->error[b][i];
	json_t *names = json_array();

	for (int t = 0; t < TCP_HOOK_TARGETS && c->target[t]; t++)
		json_array_append_new(names, json_string(c->target[t]));
	return json_pack("{s:s, s:o, s:b, s:i, s:s*, s:s*}", "type", tcp_hook_type_name(c->type),
			 "targets", names, "works", err == 0, "errno", err < 0 ? -err : 0, "why",
			 err < 0 ? tcp_hook_why(c->type, err) : NULL, "failed",
			 err < 0 ? c->target[h->failed[b][i]] : NULL);
}

static const char *lost_parts(const struct tcp_hooks *h, int b)
{
	const struct tcp_hook_boundary *boundary = &tcp_hook_table[b];

	return h->chosen[b] < 0 ? boundary->lost : boundary->candidate[h->chosen[b]].lost;
}

static json_t *feature_json(const struct tcp_feature_info *f, int err)
{
	json_t *parts = json_array();

	for (size_t i = 0; i < TCP_FEATURE_USERS; i++)
		if (f->parts & 1u << i)
			json_array_append_new(parts, json_string(tcp_part_names[i]));
	return json_pack("{s:s, s:s, s:b, s:i, s:o}", "feature", f->name, "since", f->since,
			 "works", !err, "errno", -err, "needed_by", parts);
}

static void print_json(const struct tcp_hooks *h, const int features[TCP_FEATURES])
{
	json_t *all = json_array(), *others = json_array();

	for (int b = 0; b < TCP_BOUNDARIES; b++) {
		const struct tcp_hook_boundary *boundary = &tcp_hook_table[b];
		json_t *tried = json_array();

		for (int i = 0; i < TCP_HOOK_CANDIDATES && boundary->candidate[i].type; i++)
			json_array_append_new(tried, candidate_json(h, b, i));
		json_array_append_new(
			all, json_pack("{s:s, s:s, s:s, s:i, s:o, s:s*}", "boundary",
				       boundary->name, "between", boundary->between, "used",
				       tcp_hook_type_name(tcp_hook_chosen(h, (enum tcp_boundary)b)),
				       "choice", h->chosen[b], "candidates", tried, "lost",
				       lost_parts(h, b)));
	}
	for (int i = 0; i < TCP_FEATURES; i++)
		json_array_append_new(others, feature_json(&tcp_feature_table[i], features[i]));
	cli_json_print(stdout, json_pack("{s:o, s:o}", "boundaries", all, "features", others),
		       JSON_COMPACT);
}

static void print_text(const struct tcp_hooks *h)
{
	for (int b = 0; b < TCP_BOUNDARIES; b++) {
		const struct tcp_hook_boundary *boundary = &tcp_hook_table[b];

		printf("%-11s %s\n", boundary->name, boundary->between);
		for (int i = 0; i < TCP_HOOK_CANDIDATES && boundary->candidate[i].type; i++) {
			const struct tcp_hook_candidate *c = &boundary->candidate[i];
			int err = h->error[b][i];

			printf("  %-4s %-9s ",
			       i == h->chosen[b] ? "used"
			       : !err		 ? "ok"
						 : "no",
			       tcp_hook_type_name(c->type));
			for (int t = 0; t < TCP_HOOK_TARGETS && c->target[t]; t++)
				printf("%s%s", t ? ", " : "", c->target[t]);
			putchar('\n');
			if (err < 0)
				printf("       %s: %s\n", c->target[h->failed[b][i]],
				       tcp_hook_why(c->type, err));
		}
		if (lost_parts(h, b))
			printf("  lost: %s\n", lost_parts(h, b));
	}
}

static void print_features(const int features[TCP_FEATURES])
{
	puts("features    what programs need in addition to hooks, and the Linux version that "
	     "introduced it");
	for (int i = 0; i < TCP_FEATURES; i++) {
		const struct tcp_feature_info *f = &tcp_feature_table[i];

		printf("  %-4s %-9s %s\n", features[i] ? "no" : "ok", f->since, f->name);
		if (!features[i])
			continue;
		printf("  lost: ");
		for (size_t b = 0, n = 0; b < TCP_FEATURE_USERS; b++)
			if (f->parts & 1u << b)
				printf("%s%s", n++ ? ", " : "", tcp_part_names[b]);
		putchar('\n');
	}
}

static int probe_main(const struct base_command *self, int argc, char **argv)
{
	struct tcp_hooks hooks;
	uint32_t types;
	char why[256];
	int features[TCP_FEATURES], code, err;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!cli_tcp_avoid(self, &types))
		return BASE_EXIT_USAGE;
	err = tcp_features_probe(features) ?: tcp_hooks_probe(&hooks, TCP_HOOKS_EVERY, true);
	if (err) {
		tcp_hooks_refusal(err, why, sizeof(why));
		return base_failure(self, "%s", why);
	}
	tcp_hooks_avoid(&hooks, types);
	if (cli_tcp_common.json)
		print_json(&hooks, features);
	else {
		print_text(&hooks);
		print_features(features);
	}
	return cli_output_end(self, BASE_EXIT_OK);
}

const struct base_command cli_tcp_probe = {
	.name = "tcp probe",
	.synopsis = "[OPTION]...",
	.summary = "Show which hooks this kernel has, and what missing ones cost",
	.run = probe_main,
};
