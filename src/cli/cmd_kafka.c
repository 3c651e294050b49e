// SPDX-License-Identifier: Apache-2.0
/* cmd_kafka.c - sidelight-kafka: produces messages to Kafka. The collector starts this program. */
#include "base/child.h"
#include "cli/common/common.h"
#include "kafka/kafka.h"

static const char *path;
static bool unconfined;

static const struct base_option table[] = {
	BASE_STRING("kafka-config", 0, &path, "FILE", "properties of librdkafka"),
	CLI_OPTION_UNCONFINED(&unconfined),
	{0},
};

static int kafka_main(const struct base_command *self, int argc, char **argv)
{
	struct kafka_producer *k;
	char error[640];
	int code;

	if (!base_options_only(self, table, argc, argv, &code))
		return code;
	if (!path)
		return base_usage(self, "missing --kafka-config");
	k = kafka_producer_new(path, unconfined, error, sizeof(error));
	if (!k)
		return CLI_FAIL("kafka", "%s", error);
	if (base_child_started())
		code = kafka_producer_run(k, BASE_CHILD_SOCK);
	else
		code = base_failure(self, "only 'sidelight collect' can start this program");
	kafka_producer_free(k);
	return code;
}

const struct base_command cli_cmd_kafka = {
	.name = "kafka",
	.synopsis = "--kafka-config FILE",
	.summary = "Produce a collector's messages to Kafka",
	.run = kafka_main,
};
