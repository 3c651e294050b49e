// SPDX-License-Identifier: Apache-2.0
/* test_raw_xdp.c - frames sent by AF_XDP over a veth pair in a separate network namespace. */
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
#include "dta/io/output_raw.h"
#include "dta/io/xsk.h"

#define FRAMES 5000u  /* more than the ring has places */
#define MINE   0x88b5 /* IEEE's type for experiments, which no other frames here have */
#define CREATE                                                                        \
	"ip link add sl-out numtxqueues 2 numrxqueues 2 type veth peer name sl-in &&" \
	"ip addr add 10.78.0.1/24 dev sl-out && ip link set sl-out up && ip link set sl-in up"

static const struct dta_output_raw_opts by_xdp = {.interface = "sl-out", .xdp = true};

static int listener(void)
{
	const struct sockaddr_ll at = {.sll_family = AF_PACKET,
				       .sll_protocol = htons(MINE),
				       .sll_ifindex = (int)if_nametoindex("sl-in")};
	const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, htons(MINE)), room = 64 << 20;

	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)), 0);
	assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Frame n: its length and bytes follow from its number. */
static size_t make(uint8_t *f, uint32_t n)
{
	const size_t bytes = 64 + n * 37 % 1400;

	memset(f, (int)n, bytes);
	memset(f, 0xff, 12);
	f[12] = MINE >> 8;
	f[13] = MINE & 0xff;
	memcpy(f + 14, &n, 4);
	return bytes;
}

static void take(int fd, uint32_t *at)
{
	uint8_t have[2048], want[2048];
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (*at < FRAMES && poll(&p, 1, 0) == 1) {
		const ssize_t n = recv(fd, have, sizeof(have), 0);

		assert_int_equal(n, make(want, *at));
		assert_memory_equal(have, want, n);
		++*at;
	}
}

static void more_frames_than_the_ring_holds_leave_in_order(void **state)
{
	static uint8_t data[DTA_RAW_BATCH][2048];
	struct dta_raw_frame f[DTA_RAW_BATCH];
	struct dta_raw_port p;
	uint32_t sent = 0, came = 0;
	char error[256];
	const int fd = listener();

	(void)state;
	assert_int_equal(dta_raw_port_open(&p, &by_xdp, error, sizeof(error)), 0);
	assert_int_equal(p.end.mtu, 1024);
	while (sent < FRAMES) {
		uint32_t count = 0;
		int n;

		for (; count < DTA_RAW_BATCH && sent + count < FRAMES; count++)
			f[count] = (struct dta_raw_frame){data[count],
							  make(data[count], sent + count)};
		n = dta_raw_port_send(&p, f, count);
		assert_true(n > 0 || n == -EAGAIN);
		sent += n > 0 ? (uint32_t)n : 0;
		take(fd, &came);
	}
	for (int i = 0; i < 20000 && came < FRAMES; i++) {
		f[0] = (struct dta_raw_frame){data[0], sizeof(data[0])};
		dta_raw_port_receive(&p, f, 1); /* kicks */
		poll(NULL, 0, 1);
		take(fd, &came);
	}
	assert_int_equal(came, FRAMES);
	dta_raw_port_close(&p);
	close(fd);
}

static void each_has_a_queue_and_who_finds_none_is_told(void **state)
{
	struct dta_raw_port p[3] = {0};
	struct dta_output_raw_opts o = by_xdp;
	char error[256] = "";

	(void)state;
	for (int i = 0; i < 100 && dta_raw_port_open(&p[0], &o, error, sizeof(error)); i++)
		;
	assert_non_null(p[0].xsk);
	assert_int_equal(dta_raw_port_open(&p[1], &o, error, sizeof(error)), 0);
	assert_int_equal(dta_raw_port_open(&p[2], &o, error, sizeof(error)), -EBUSY);
	assert_non_null(strstr(error, "sl-out, queue 1: another AF_XDP socket is using the queue"));
	dta_raw_port_close(&p[0]);
	/* The kernel frees a queue asynchronously. */
	for (int i = 0; i < 100 && dta_raw_port_open(&p[2], &o, error, sizeof(error)); i++)
		;
	assert_non_null(p[2].xsk);
	dta_raw_port_close(&p[2]);
	dta_raw_port_close(&p[1]);
}

/* The old socket would take frames until its ring is full, and send none. */
static void an_interface_that_is_created_again_is_used(void **state)
{
	static uint8_t data[2048];
	struct dta_raw_frame f = {data, make(data, 0)};
	struct dta_raw_port p;
	uint32_t came = 0;
	char error[256];
	int fd;

	(void)state;
	assert_int_equal(dta_raw_port_open(&p, &by_xdp, error, sizeof(error)), 0);
	assert_int_equal(system("ip link del sl-out"), 0);
	assert_int_equal(dta_raw_port_renew(&p, &by_xdp, error, sizeof(error)), -ENODEV);
	assert_int_equal(system(CREATE), 0);
	assert_int_equal(dta_raw_port_renew(&p, &by_xdp, error, sizeof(error)), 0);
	fd = listener();
	assert_int_equal(dta_raw_port_send(&p, &f, 1), 1);
	for (int i = 0; i < 10000 && !came; i++) {
		f = (struct dta_raw_frame){data, sizeof(data)};
		dta_raw_port_receive(&p, &f, 1); /* kicks */
		poll(NULL, 0, 1);
		take(fd, &came);
	}
	assert_int_equal(came, 1);
	dta_raw_port_close(&p);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(more_frames_than_the_ring_holds_leave_in_order),
		cmocka_unit_test(each_has_a_queue_and_who_finds_none_is_told),
		cmocka_unit_test(an_interface_that_is_created_again_is_used),
	};
	const int xdp = unshare(CLONE_NEWNET) ? -1 : socket(AF_XDP, SOCK_RAW, 0);

	if (xdp < 0) {
		printf("SKIP: no network namespace of its own, or no AF_XDP: %s\n",
		       strerror(errno));
		return 77;
	}
	close(xdp);
	if (system(CREATE)) {
		printf("FAILED: no veth pair\n");
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
