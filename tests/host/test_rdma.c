// SPDX-License-Identifier: Apache-2.0
/*
 * test_rdma.c - the kernel's answers about RDMA objects and drivers' counters, also if malformed.
 */
#include <linux/ethtool.h>
#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>
#include <stdio.h>

#include "source/host/internal.h"
#include "support/test.h"

#define LENGTH(array) (sizeof(array) / sizeof(*(array)))

static struct host *open_host(void **state)
{
	struct host *h = calloc(1, sizeof(*h));

	assert_non_null(h);
	h->publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "test",
						  .pod = "test", .flags = SL_PUBLISHER_DETACHED,
						  .max_cells = 2048, .max_threads = 1));
	assert_non_null(h->publisher);
	host_rdma_open(h, &h->devices.rdma);
	*state = h;
	return h;
}

static int close_host(void **state)
{
	struct host *h = *state;

	host_parsers_free(h);
	sl_publisher_close(h->publisher);
	free(h);
	return 0;
}

/* Returns -1 if there is no such series. */
static double value_of(const struct host_group *g, const char *device, const char *what)
{
	for (size_t i = 0; i < g->count; i++) {
		const char *v = g->rows[i]->values;

		if (!strcmp(v, device) && !strcmp(v + strlen(v) + 1, what))
			return g->rows[i]->cells[0].value;
	}
	return -1;
}

/* ---- objects ---- */

struct message {
	char bytes[1024];
	size_t n;
};

static size_t begin(struct message *m, int type)
{
	struct nlattr a = {.nla_type = (uint16_t)type};

	memcpy(m->bytes + m->n, &a, sizeof(a));
	m->n += sizeof(a);
	return m->n - sizeof(a);
}

static void end(struct message *m, size_t at)
{
	uint16_t n = (uint16_t)(m->n - at);

	memcpy(m->bytes + at, &n, sizeof(n)); /* nla_len comes first */
	m->n = at + NLA_ALIGN(n);
}

static void attribute(struct message *m, int type, const void *value, size_t n)
{
	size_t at = begin(m, type);

	memcpy(m->bytes + m->n, value, n);
	m->n += n;
	end(m, at);
}

static void entry(struct message *m, const char *kind, uint64_t count)
{
	size_t at = begin(m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY | NLA_F_NESTED);

	attribute(m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_NAME, kind, strlen(kind) + 1);
	attribute(m, RDMA_NLDEV_ATTR_RES_SUMMARY_ENTRY_CURR, &count, sizeof(count));
	end(m, at);
}

static void message(struct message *m, const char *device, uint64_t queue_pairs)
{
	struct nlmsghdr h = {.nlmsg_type = RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_RES_GET)};
	size_t begun = m->n, at;
	uint32_t index = 7;

	m->n += sizeof(h);
	attribute(m, RDMA_NLDEV_ATTR_DEV_INDEX, &index, sizeof(index));
	attribute(m, RDMA_NLDEV_ATTR_DEV_NAME, device, strlen(device) + 1);
	at = begin(m, RDMA_NLDEV_ATTR_RES_SUMMARY | NLA_F_NESTED);
	entry(m, "qp", queue_pairs);
	entry(m, "bad name", 3);
	entry(m, "cm_id", 5);
	end(m, at);
	h.nlmsg_len = (uint32_t)(m->n - begun);
	memcpy(m->bytes + begun, &h, sizeof(h));
}

static void test_objects_are_counted_per_device(void **state)
{
	struct host_group *g = &open_host(state)->devices.rdma.resources;
	struct nlmsghdr done = {.nlmsg_len = sizeof(done), .nlmsg_type = NLMSG_DONE};
	struct message m = {.n = 0};

	message(&m, "mlx5_0", 12);
	message(&m, "mlx5_1", 34);
	assert_true(host_rdma_resources_parse(g, host_text(m.bytes, m.n)));
	assert_true(value_of(g, "mlx5_0", "qp") == 12);
	assert_true(value_of(g, "mlx5_1", "qp") == 34);
	assert_true(value_of(g, "mlx5_1", "cm_id") == 5);
	assert_int_equal(g->count, 4);
	memcpy(m.bytes, &done, sizeof(done));
	assert_false(host_rdma_resources_parse(g, host_text(m.bytes, sizeof(done))));
}

/* A copy of exactly this size, so that valgrind and the sanitizers see reads beyond it. */
static void parse_copy(struct host_group *g, const char *bytes, size_t n)
{
	char *copy = malloc(n + 1);

	assert_non_null(copy);
	memcpy(copy + 1, bytes, n);
	host_rdma_resources_parse(g, host_text(copy + 1, n));
	free(copy);
}

static void test_malformed_answers_do_no_harm(void **state)
{
	struct host_group *g = &open_host(state)->devices.rdma.resources;
	struct message m = {.n = 0};

	message(&m, "mlx5_0", 12);
	for (size_t i = 0; i <= m.n; i++)
		parse_copy(g, m.bytes, i);
	for (size_t i = 0; i < m.n; i++)
		for (int bit = 0; bit < 8; bit++) {
			m.bytes[i] = (char)(m.bytes[i] ^ 1 << bit);
			parse_copy(g, m.bytes, m.n);
			m.bytes[i] = (char)(m.bytes[i] ^ 1 << bit);
		}
	host_group_end(g);
	parse_copy(g, m.bytes, m.n);
	host_group_end(g);
	assert_int_equal(g->count, 2);
	assert_true(value_of(g, "mlx5_0", "qp") == 12);
}

/* ---- counters of drivers ---- */

static void parse_names(struct host_group *g, const char *const *names, size_t n)
{
	char *bytes = calloc(n, ETH_GSTRING_LEN);
	uint64_t *values = calloc(n, sizeof(*values));

	assert_true(bytes && values);
	for (size_t i = 0; i < n; i++) {
		memcpy(bytes + i * ETH_GSTRING_LEN, names[i], strnlen(names[i], ETH_GSTRING_LEN));
		values[i] = 100 + i;
	}
	host_nic_parse(g, host_text_of("eth0"), bytes, values, n);
	free(values);
	free(bytes);
}

static void test_only_counters_about_congestion_are_published(void **state)
{
	/* Names of mlx5, bnxt and ice, and one that fills all 32 bytes. */
	static const char *const names[] = {"rx_packets",      "rx_out_of_buffer",
					    "rx_prio3_pause",  "rx_pfc_ena_frames_pri3",
					    "rx3_xdp_drop",    "tx_priority_3_xoff.nic",
					    "rx_discards_phy", "rx_ecn_mark",
					    "rx_drop\"{x}\n",  "rx_discards_phy_abcdefghijklmnop",
					    "np_cnp_sent",     "rx_queue_3_drops"};
	static const bool want[LENGTH(names)] = {0, 1, 1, 1, 0, 1, 1, 1, 0, 1, 1, 0};
	struct host_group *g = &open_host(state)->devices.rdma.nic;
	size_t n = 0;

	parse_names(g, names, LENGTH(names));
	for (size_t i = 0; i < LENGTH(names); i++) {
		assert_true(value_of(g, "eth0", names[i]) == (want[i] ? 100 + (double)i : -1));
		n += want[i];
	}
	assert_int_equal(g->count, n);
}

static void test_counters_of_queues_are_published_without_others(void **state)
{
	static const char *const names[] = {"rx_queue_0_packets", "rx_queue_0_drops",
					    "rx_queue_1_drops"};
	struct host_group *g = &open_host(state)->devices.rdma.nic;

	parse_names(g, names, LENGTH(names));
	assert_int_equal(g->count, 2);
	assert_true(value_of(g, "eth0", names[2]) == 102);
}

static void test_the_number_of_counters_is_bounded(void **state)
{
	static char text[1000][ETH_GSTRING_LEN];
	const char *names[LENGTH(text)];
	struct host_group *g = &open_host(state)->devices.rdma.nic;

	for (size_t i = 0; i < LENGTH(text); i++) {
		snprintf(text[i], sizeof(text[i]), "rx%zu_drop", i);
		names[i] = text[i];
	}
	parse_names(g, names, LENGTH(names));
	assert_int_equal(g->count, 256);
}

#define TEST(name) cmocka_unit_test_teardown(name, close_host)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_objects_are_counted_per_device),
		TEST(test_malformed_answers_do_no_harm),
		TEST(test_only_counters_about_congestion_are_published),
		TEST(test_counters_of_queues_are_published_without_others),
		TEST(test_the_number_of_counters_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
