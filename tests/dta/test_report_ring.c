// SPDX-License-Identifier: Apache-2.0
/*
 * test_report_ring.c - a reporter's ring in a file: if the process is killed at any time, no report
 * is lost, and no file makes the next process send something that was not reported.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/report.h>

#include "support/test.h"
#include "support/folder.h"
#include "support/random.h"
#include "base/base.h"
#include "dta/wire/endian.h"
#include "dta/wire/wire.h"

#define PACKETS 16u
#define VALUES	1000u
#define HEAD	4096u
#define PACKET	256u
#define STRIDE	(24u + PACKET + 24u) /* order, check, bytes; packet; proof */

static const struct sl_report_dest essential = {.flags = SL_REPORT_ESSENTIAL};
static uint64_t seed = 1;

static struct {
	int fd;
	char address[32];
	struct dta_packet got;
	uint32_t reporter, incarnation, packets, again;
	uint8_t counts[VALUES];
} to;

static const char *ring(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/ring", test_folder);
	return path;
}

static void listen_to(void)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);

	memset(&to, 0, sizeof(to));
	to.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(to.fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(getsockname(to.fd, (struct sockaddr *)&a, &n), 0);
	snprintf(to.address, sizeof(to.address), "127.0.0.1:%u", ntohs(a.sin_port));
}

static struct sl_reporter *open_ring(struct sl_reporter_opts o)
{
	o.sz = sizeof(o);
	o.target = to.address;
	o.backup_file = ring();
	o.flags |= SL_REPORTER_SINGLE;
	o.backup_packets = o.backup_packets ? o.backup_packets : PACKETS;
	o.packet_bytes = o.packet_bytes ? o.packet_bytes : PACKET;
	return sl_reporter_open(&o);
}

static struct sl_reporter_stats stats(const struct sl_reporter *r)
{
	struct sl_reporter_stats s = SL_OPTS(sl_reporter_stats);

	assert_int_equal(sl_reporter_stats(r, &s), 0);
	return s;
}

/*
 * Reads the packets that have arrived and counts the values. If answer is set, acknowledges them,
 * and stops after PACKETS: the reporter may send as fast as this loop answers.
 */
static void take(bool answer)
{
	uint8_t p[2048];
	struct sockaddr_in from;
	socklen_t n = sizeof(from);
	uint32_t most = answer ? PACKETS : UINT32_MAX;
	ssize_t bytes;

	while (most-- &&
	       (bytes = recvfrom(to.fd, p, sizeof(p), 0, (struct sockaddr *)&from, &n)) > 0) {
		struct dta_answer a = {.type = DTA_ACK, .credits = ~0u};

		assert_int_equal(dta_parse(p, (size_t)bytes, &to.got), DTA_FINE);
		to.reporter = a.reporter = to.got.header.reporter;
		to.incarnation = a.incarnation = to.got.header.incarnation;
		to.packets++;
		to.again += (to.got.header.flags & DTA_AGAIN) != 0;
		a.next = to.got.header.sequence;
		a.ranges = 1;
		a.range[0].first = to.got.header.sequence;
		a.range[0].count = to.got.header.reports;
		for (uint32_t i = 0; i < to.got.header.blocks; i++)
			for (uint32_t j = 0; j < to.got.block[i].count; j++) {
				const uint32_t v = dta_get32(to.got.block[i].items + 8 * j + 4);

				assert_true(v < VALUES);
				to.counts[v]++;
			}
		if (answer)
			sendto(to.fd, p, dta_answer_build(&a, p, sizeof(p)), 0,
			       (struct sockaddr *)&from, n);
	}
}

static int append(struct sl_reporter *r, uint32_t v)
{
	uint8_t value[4];

	dta_put32(value, v);
	return sl_report_append(r, &essential, 1, value, 4);
}

static void drain(struct sl_reporter *r)
{
	const uint64_t end = base_now_ns() + 100000000000ull;

	while (sl_reporter_drain(r, 1000000)) {
		assert_true(base_now_ns() < end);
		take(true);
	}
}

/* Starts a process that reports from a value on until it is killed; *done: what it reported. */
static pid_t start(uint32_t from, uint32_t *done)
{
	const pid_t pid = fork();
	struct sl_reporter *r;

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = open_ring((struct sl_reporter_opts){0});
	for (uint32_t v = from; r && v < VALUES;) {
		v += !append(r, v);
		sl_reporter_poll(r);
		/* When the ring is full, one report waits in the open packet. */
		if (!sl_reporter_flush(r))
			__atomic_store_n(done, v, __ATOMIC_RELEASE);
	}
	_exit(1);
}

static void a_killed_process_loses_nothing_that_was_reported(void **state)
{
	uint32_t *done = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
			      0);
	struct sl_reporter *r;
	uint32_t from = 0, lives = 0, reporter = 0, incarnation = 0;

	(void)state;
	listen_to();
	for (; *done < VALUES - 100; lives++) {
		const pid_t pid = start(from, done);
		const uint32_t until = *done + 1 + random_below(&seed, 40);
		const bool answers = lives % 3;
		const uint64_t begun = base_now_ns();

		to.packets = 0;
		/* Without answers the ring fills up, or is full from the start. */
		while (__atomic_load_n(done, __ATOMIC_ACQUIRE) < until) {
			if (answers)
				take(true);
			else if (base_now_ns() - begun > 30000000)
				break;
			assert_true(base_now_ns() - begun < 100000000000ull);
		}
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		take(false); /* sent, and not answered */
		from = *done;
		if (!to.packets) /* killed before it sent anything */
			continue;
		if (incarnation) {
			assert_int_equal(to.reporter, reporter);
			assert_true((int32_t)(to.incarnation - incarnation) > 0);
		}
		reporter = to.reporter;
		incarnation = to.incarnation;
	}
	assert_true(lives > 10);
	/* reports that can no longer be in the ring had arrived */
	memset(to.counts, 0, from - PACKETS);
	to.again = 0;
	r = open_ring((struct sl_reporter_opts){0});
	assert_non_null(r);
	assert_int_equal(stats(r).damaged, 0);
	drain(r);
	assert_int_equal(to.again >= stats(r).restored, true);
	assert_int_equal(stats(r).waiting, 0);
	sl_reporter_close(r);
	take(false);
	for (uint32_t v = from - PACKETS; v < from; v++)
		assert_true(to.counts[v]);
	close(to.fd);
	unlink(ring());
	munmap(done, 4096);
}

/* A full ring without a reporter, and its contents. */
static void fill(uint8_t *bytes, size_t n)
{
	struct sl_reporter *r = open_ring((struct sl_reporter_opts){.reporter = 7});
	struct stat st;
	int fd;

	assert_non_null(r);
	for (uint32_t v = 0; v < PACKETS; v++)
		assert_int_equal(append(r, v), 0);
	assert_int_equal(append(r, PACKETS), 0); /* packed */
	assert_int_equal(append(r, PACKETS + 1), -EAGAIN);
	assert_int_equal(stats(r).dropped_ring, 1);
	assert_int_equal(stats(r).waiting, PACKETS);
	sl_reporter_close(r);
	take(false);
	fd = open(ring(), O_RDONLY | O_CLOEXEC);
	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	assert_int_equal(st.st_size, n);
	assert_int_equal(read(fd, bytes, n), n);
	close(fd);
}

#define FILE_BYTES (HEAD + (PACKETS + 1) * STRIDE)

static void put(const uint8_t *bytes, size_t n)
{
	int fd = open(ring(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_int_equal(write(fd, bytes, n), n);
	close(fd);
}

/*
 * Opens the existing ring. Returns -errno, or the number of restored packets; all of them arrive.
 */
static int64_t opens(uint64_t *damaged)
{
	struct sl_reporter *r = open_ring((struct sl_reporter_opts){0});
	struct sl_reporter_stats s;

	if (!r)
		return -errno;
	memset(to.counts, 0, sizeof(to.counts));
	s = stats(r);
	drain(r);
	sl_reporter_close(r);
	take(false);
	for (uint32_t v = 0; v < PACKETS; v++)
		s.restored -= to.counts[v] != 0;
	assert_int_equal(s.restored, 0);
	*damaged = s.damaged;
	for (uint32_t v = 0; v < PACKETS; v++)
		s.restored += to.counts[v] != 0;
	return (int64_t)s.restored;
}

static void a_damaged_packet_is_left_out_and_counted(void **state)
{
	static uint8_t whole[FILE_BYTES], bytes[FILE_BYTES];
	uint64_t damaged;

	(void)state;
	listen_to();
	fill(whole, sizeof(whole));
	put(whole, sizeof(whole));
	assert_int_equal(opens(&damaged), PACKETS);
	assert_int_equal(damaged, 0);
	assert_int_equal(to.reporter, 7);
	/* Changes a byte in the value of the third one. */
	memcpy(bytes, whole, sizeof(bytes));
	bytes[HEAD + 2 * STRIDE + 24 + DTA_HEADER_BYTES + DTA_BLOCK_BYTES + 4] ^= 1;
	put(bytes, sizeof(bytes));
	assert_int_equal(opens(&damaged), PACKETS - 1);
	assert_int_equal(damaged, 1);
	assert_int_equal(to.counts[2], 0);
	/* It was being changed: its previous contents are in the spare slot. */
	memcpy(bytes + HEAD + PACKETS * STRIDE, whole + HEAD + 2 * STRIDE, STRIDE);
	put(bytes, sizeof(bytes));
	assert_int_equal(opens(&damaged), PACKETS);
	assert_int_equal(damaged, 0);
	/* Other damage: each open ends, and sends only packets of the format. */
	for (int i = 0; i < 500; i++) {
		int64_t n;

		memcpy(bytes, whole, sizeof(bytes));
		for (uint32_t k = 1 + random_below(&seed, 4); k; k--)
			bytes[random_below(&seed, 4) ? HEAD + random_below(&seed, FILE_BYTES - HEAD)
						     : random_below(&seed, 64)] =
				(uint8_t)random_below(&seed, 256);
		put(bytes, sizeof(bytes));
		n = opens(&damaged);
		if (n < 0)
			assert_int_equal(n, -EBADMSG);
		else
			assert_int_equal((uint64_t)n + damaged, PACKETS);
	}
	close(to.fd);
	unlink(ring());
}

static void a_foreign_file_is_refused(void **state)
{
	static const struct sl_reporter_opts others[] = {
		{.reporter = 8},       {.tenant = 1},	       {.backup_packets = 17},
		{.packet_bytes = 264}, {.backup_packets = 15},
	};
	static uint8_t whole[FILE_BYTES] __attribute__((aligned(8)));
	struct sl_reporter *r;
	uint32_t later;
	uint64_t damaged;

	(void)state;
	listen_to();
	fill(whole, sizeof(whole));
	for (size_t i = 0; i < sizeof(others) / sizeof(*others); i++) {
		assert_null(open_ring(others[i]));
		assert_int_equal(errno, EBADMSG);
	}
	for (size_t n = 1; n < FILE_BYTES; n = n * 3 + 1) {
		put(whole, n);
		assert_int_equal(opens(&damaged), -EBADMSG);
	}
	put(whole, sizeof(whole));
	r = open_ring((struct sl_reporter_opts){0});
	assert_non_null(r);
	assert_int_equal(opens(&damaged), -EBUSY);
	sl_reporter_close(r);
	assert_int_equal(chmod(ring(), 0660), 0);
	assert_int_equal(opens(&damaged), -EPERM);
	unlink(ring());
	assert_int_equal(symlink("/dev/null", ring()), 0);
	assert_int_equal(opens(&damaged), -ELOOP);
	unlink(ring());
	assert_int_equal(mkfifo(ring(), 0600), 0);
	assert_int_equal(opens(&damaged), -EPERM);
	unlink(ring());
	/* Even if the clock was set back, the new incarnation is later. */
	later = *(const uint32_t *)(whole + 24) + 1000000000;
	memcpy(whole + 24, &later, 4);
	put(whole, sizeof(whole));
	assert_int_equal(opens(&damaged), PACKETS);
	assert_int_equal(to.incarnation, later + 1);
	unlink(ring());
	/* An empty file is a new ring, and so is one whose head was never written. */
	put(whole, 0);
	assert_int_equal(opens(&damaged), 0);
	memset(whole, 0, sizeof(whole));
	put(whole, sizeof(whole));
	assert_int_equal(opens(&damaged), 0);
	close(to.fd);
	unlink(ring());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_killed_process_loses_nothing_that_was_reported),
		cmocka_unit_test(a_damaged_packet_is_left_out_and_counted),
		cmocka_unit_test(a_foreign_file_is_refused),
	};

	return cmocka_run_group_tests_name("report-ring", tests, folder_make, folder_remove);
}
