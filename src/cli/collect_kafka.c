// SPDX-License-Identifier: Apache-2.0
/*
 * collect_kafka.c - 'sidelight collect --kafka-config': the queue to the program sidelight-kafka.
 */
#include <string.h>

#include "cli/collect.h"
#include "collect/self/self.h"
#include "export/kafka.h"

#define LINGER_NS 1000000000u

static int check_kafka(const struct base_command *self, struct cli_collect_settings *s)
{
	if ((s->kafka_flows && !(s->kafka && s->dta)) || (s->ipfix && !s->dta))
		return base_usage(
			self, "--kafka-flows needs --kafka-config and --dta; --ipfix needs --dta");
	if (s->kafka_flows && strcmp(s->kafka_flows, "goflow2") && strcmp(s->kafka_flows, "json"))
		return base_usage(self, "--kafka-flows '%s' is not one of goflow2, json",
				  s->kafka_flows);
	if (s->kafka_offsets && !(s->kafka && s->dta))
		return base_usage(self, "--kafka-offsets needs --kafka-config and --dta");
	return BASE_EXIT_OK;
}

static int fork_program(struct cli_collect_run *r)
{
	char error[256];

	if (!r->set->kafka)
		return BASE_EXIT_OK;
	r->kafka = export_kafka_fork(r->set->kafka, r->set->unconfined, error, sizeof(error));
	return r->kafka ? BASE_EXIT_OK : CLI_FAIL("kafka", "%s", error);
}

static int open_queue(struct cli_collect_run *r)
{
	char error[256];

	if (!r->kafka || !export_kafka_open(r->kafka, error, sizeof(error)))
		return BASE_EXIT_OK;
	return *error ? CLI_FAIL("kafka", "%s", error) : BASE_EXIT_FAILURE;
}

static int attach_queue(struct cli_collect_run *r)
{
	return r->kafka ? collect_self_kafka(r->c, r->kafka) : 0;
}

static int start_queue(struct cli_collect_run *r)
{
	char error[512];

	return r->kafka && export_kafka_start(r->kafka, error, sizeof(error))
		       ? CLI_FAIL("kafka", "%s", error)
		       : BASE_EXIT_OK;
}

static void free_queue(struct cli_collect_run *r)
{
	export_kafka_free(r->kafka, LINGER_NS);
}

const struct cli_collect_part cli_collect_part_kafka = {
	.check = check_kafka,
	.fork = fork_program,
	.before = open_queue,
	.attach = attach_queue,
	.start = start_queue,
	.free = free_queue,
};
