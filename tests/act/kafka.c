// SPDX-License-Identifier: Apache-2.0
/*
 * kafka.c - kafka TOPIC...: librdkafka's mock cluster of one broker, which speaks Kafka's protocol
 * over loopback. Prints "ready bootstrap=HOST:PORT", and then each message as a line
 * {"topic","key","value"}. The lines "down" and "up" on stdin stop and start the broker; after
 * "refuse", it prints "refuses" and refuses the next two producers; at the end of stdin the program
 * ends.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

#define INIT_PRODUCER_ID 22 /* the first request of an idempotent producer */

static rd_kafka_t *client(rd_kafka_type_t type, const char *bootstrap)
{
	rd_kafka_conf_t *conf = rd_kafka_conf_new();
	char why[256];

	if (bootstrap) {
		rd_kafka_conf_set(conf, "bootstrap.servers", bootstrap, why, sizeof(why));
		rd_kafka_conf_set(conf, "group.id", "test", why, sizeof(why));
		rd_kafka_conf_set(conf, "auto.offset.reset", "earliest", why, sizeof(why));
	}
	rd_kafka_conf_set(conf, "log_level", "0", why, sizeof(why));
	return rd_kafka_new(type, conf, why, sizeof(why));
}

static void refuse_producers(rd_kafka_mock_cluster_t *mock)
{
	const rd_kafka_resp_err_t no = RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED;

	rd_kafka_mock_push_request_errors(mock, INIT_PRODUCER_ID, 2, no, no);
	puts("refuses");
	fflush(stdout);
}

static void print(const rd_kafka_message_t *m)
{
	const unsigned char *value = m->payload;

	printf("{\"topic\": \"%s\", \"key\": \"%.*s\", \"value\": ", rd_kafka_topic_name(m->rkt),
	       (int)m->key_len, (const char *)m->key);
	if (m->len && *value == '{') {
		printf("%.*s}\n", (int)m->len, (const char *)value);
	} else { /* no JSON */
		putchar('"');
		for (size_t i = 0; i < m->len; i++)
			printf("%02x", value[i]);
		puts("\"}");
	}
	fflush(stdout);
}

int main(int argc, char **argv)
{
	rd_kafka_topic_partition_list_t *topics = rd_kafka_topic_partition_list_new(argc);
	struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
	rd_kafka_t *host = client(RD_KAFKA_PRODUCER, NULL), *consumer;
	rd_kafka_mock_cluster_t *mock = host ? rd_kafka_mock_cluster_new(host, 1) : NULL;
	char line[64];

	if (!mock)
		return 1;
	for (int i = 1; i < argc; i++) {
		rd_kafka_mock_topic_create(mock, argv[i], 1, 1);
		rd_kafka_topic_partition_list_add(topics, argv[i], 0);
	}
	consumer = client(RD_KAFKA_CONSUMER, rd_kafka_mock_cluster_bootstraps(mock));
	for (int i = 0; i < topics->cnt; i++)
		topics->elems[i].offset = 0;
	if (!consumer || rd_kafka_assign(consumer, topics))
		return 1;
	printf("ready bootstrap=%s\n", rd_kafka_mock_cluster_bootstraps(mock));
	fflush(stdout);
	for (;;) {
		rd_kafka_message_t *m = rd_kafka_consumer_poll(consumer, 50);

		if (m && !m->err)
			print(m);
		if (m)
			rd_kafka_message_destroy(m);
		if (poll(&in, 1, 0) <= 0)
			continue;
		if (!fgets(line, sizeof(line), stdin))
			break;
		if (!strcmp(line, "down\n"))
			rd_kafka_mock_broker_set_down(mock, 1);
		else if (!strcmp(line, "refuse\n"))
			refuse_producers(mock);
		else
			rd_kafka_mock_broker_set_up(mock, 1);
	}
	rd_kafka_consumer_close(consumer);
	rd_kafka_destroy(consumer);
	rd_kafka_topic_partition_list_destroy(topics);
	rd_kafka_mock_cluster_destroy(mock);
	rd_kafka_destroy(host);
	return 0;
}
