// SPDX-License-Identifier: Apache-2.0
/*
 * test_raw_again.c - the raw output finds its interface again after it was deleted and
 * created again, went down, or got another address. Runs on a veth pair in a network namespace of
 * its own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "dta/io/output_raw.h"

#define RKEY 77u

static const struct dta_object object = {.number = 1, .rkey = RKEY, .addr = 4096, .bytes = 4096};

static void run(const char *command)
{
	assert_int_equal(system(command), 0);
}

/* Creates the pair. Its first end has this MAC address and this IP address. */
static void create(const char *mac, const char *address)
{
	char command[512];

	snprintf(command, sizeof(command),
		 "ip link add sl-out address %s type veth peer name sl-in &&"
		 "ip addr add %s/24 dev sl-out && ip link set sl-in up && ip link set sl-out up",
		 mac, address);
	run(command);
}

static struct dta_output *open_it(bool xdp)
{
	const struct dta_output_raw_opts opts = {.interface = "sl-out", .xdp = xdp};
	char error[256];
	struct dta_output *o = dta_output_raw(&opts, error, sizeof(error));

	assert_non_null(o);
	return o;
}

/* Connects to an invented peer. */
static void connect_it(struct dta_output *o)
{
	const struct dta_roce_end theirs = {.qpn = 0x111,
					    .psn = 1,
					    .gid = {[10] = 0xff, 0xff, 10, 79, 0, 99},
					    .mac = {2, 2},
					    .mtu = 1024,
					    .atomics = 1};
	struct dta_roce_end ours;

	assert_int_equal(dta_output_raw_ours(o, &ours), 0);
	assert_int_equal(dta_output_raw_connect(o, &theirs), 0);
}

static void write_it(struct dta_output *o)
{
	assert_int_equal(o->ops->write(o, &object, 0, "a value.", 8, NULL), 0);
	o->ops->flush(o);
}

static int listener(void)
{
	const struct sockaddr_ll at = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(ETH_P_IP),
				       .sll_ifindex = (int)if_nametoindex("sl-in")};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(ETH_P_IP));

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Waits for a frame from these addresses. */
static void expect_frame(int fd, const uint8_t mac[6], const char *address)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	struct in_addr from;
	uint8_t frame[2048];
	ssize_t n;

	assert_int_equal(inet_pton(AF_INET, address, &from), 1);
	assert_int_equal(poll(&p, 1, 10000), 1);
	n = recv(fd, frame, sizeof(frame), 0);
	assert_true(n > 54);
	assert_memory_equal(frame + 6, mac, 6);
	assert_memory_equal(frame + 26, &from, 4);
	close(fd);
}

static void delete_and_create(bool xdp)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 9};
	struct dta_output *o;
	struct dta_roce_end ours;
	int fd;

	create("02:00:00:00:00:01", "10.79.0.1");
	o = open_it(xdp);
	connect_it(o);
	run("ip link del sl-out");
	write_it(o);
	/* Not by a timeout: a packet socket has sent nothing, so none is running. */
	assert_int_equal(o->ops->drive(o, base_now_ns()), DTA_OUTPUT_DOWN);
	assert_int_equal(o->stats.interface_gone, 1);
	assert_int_equal(o->stats.disconnects, 1);
	assert_int_equal(dta_output_raw_ours(o, &ours), -ENODEV);
	assert_non_null(strstr(o->stats.last_error, "sl-out"));
	assert_int_equal(o->stats.interface_gone, 1);
	create("02:00:00:00:00:09", "10.79.0.9");
	connect_it(o);
	fd = listener();
	o->ops->flush(o);
	expect_frame(fd, mac, "10.79.0.9");
	assert_int_equal(o->outstanding, 1); /* what could not be sent was not forgotten */
	o->ops->close(o);
	run("ip link del sl-out");
}

static void a_deleted_interface_is_used_when_it_is_back(void **state)
{
	(void)state;
	delete_and_create(false);
}

#if HAVE_XDP
static void af_xdp_notices_a_deleted_interface_as_well(void **state)
{
	const int fd = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);

	(void)state;
	if (fd < 0) {
		printf("SKIP: no AF_XDP: %s\n", strerror(errno));
		skip();
	}
	close(fd);
	delete_and_create(true);
}
#endif

static void the_next_queue_pair_has_the_present_address(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct dta_output *o;
	int fd;

	(void)state;
	create("02:00:00:00:00:01", "10.79.0.1");
	o = open_it(false);
	connect_it(o);
	fd = listener();
	write_it(o);
	expect_frame(fd, mac, "10.79.0.1");
	run("ip addr del 10.79.0.1/24 dev sl-out && ip addr add 10.79.0.2/24 dev sl-out");
	connect_it(o);
	fd = listener();
	o->ops->flush(o);
	expect_frame(fd, mac, "10.79.0.2");
	o->ops->close(o);
	run("ip link del sl-out");
}

static void a_link_that_is_down_keeps_the_queue_pair(void **state)
{
	static const uint8_t mac[6] = {2, 0, 0, 0, 0, 1};
	struct dta_output *o;
	int fd;

	(void)state;
	create("02:00:00:00:00:01", "10.79.0.1");
	o = open_it(false);
	connect_it(o);
	run("ip link set sl-out down");
	write_it(o);
	for (int i = 0; i < 10; i++)
		assert_int_equal(o->ops->drive(o, base_now_ns()), DTA_OUTPUT_UP);
	assert_int_equal(o->stats.interface_down, 1);
	run("ip link set sl-out up");
	fd = listener();
	assert_int_equal(o->ops->drive(o, base_now_ns()), DTA_OUTPUT_UP);
	expect_frame(fd, mac, "10.79.0.1");
	assert_int_equal(o->stats.interface_gone, 0);
	assert_int_equal(o->stats.disconnects, 0);
	o->ops->close(o);
	run("ip link del sl-out");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_deleted_interface_is_used_when_it_is_back),
#if HAVE_XDP
		cmocka_unit_test(af_xdp_notices_a_deleted_interface_as_well),
#endif
		cmocka_unit_test(the_next_queue_pair_has_the_present_address),
		cmocka_unit_test(a_link_that_is_down_keeps_the_queue_pair),
	};

	if (unshare(CLONE_NEWNET) || system("ip link add sl-out type veth peer name sl-in &&"
					    "ip link del sl-out")) {
		printf("SKIP: no network namespace of its own, or no veth: %s\n", strerror(errno));
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
