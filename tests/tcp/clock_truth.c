// SPDX-License-Identifier: Apache-2.0
/*
 * How far the clocks of two guests are apart, by memory that both share: one asks, the other writes
 * what its clock shows, so that a "round trip" takes about a microsecond. The truth for tests of
 * what is estimated over the network.
 *
 *   clock_truth answer PPM     side 1, until SIGTERM; its clock is made to run PPM fast
 *   clock_truth ask            side 0, until SIGTERM: lines "NS THETA BOUND", each of the quickest
 *                              of some round trips: theta = clock 1 - clock 0, when clock 0 showed
 *                              NS, both CLOCK_MONOTONIC
 *   clock_truth epoch          CLOCK_REALTIME - CLOCK_MONOTONIC of this guest, ns
 *
 * Asked 20 times per second, as the rate of an emulated clock is not constant: qemu lets the TSC
 * never go back, and adds what it would have gone back to all that comes (cpu_get_ticks()); where
 * the cores' TSCs differ by some ns, that is tens of ppm while both of a guest's CPUs look at the
 * clock.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/timex.h>
#include <unistd.h>

#include "base/base.h"

#define GOOD_NS 1000	/* a round trip that is good enough */
#define MOST_NS 5000000 /* if none was good enough by then, the best one is used */
/* a later answer is dropped; the answering side sleeps for this time after its last answer */
#define ANSWER_NS 2000000
#define PAUSE_US  50000

/* Separate lines, so that each has one writer. */
struct shared {
	uint64_t asked, pad0[7];
	uint64_t answered, clock, pad1[6];
};

static volatile sig_atomic_t ended;

static void end(int sig)
{
	(void)sig;
	ended = 1;
}

/* The memory of qemu's ivshmem device. */
static struct shared *memory(void)
{
	DIR *d = opendir("/sys/bus/pci/devices");
	struct dirent *e;
	char path[512], id[16];

	while (d && (e = readdir(d))) {
		FILE *f;
		void *at;
		int fd;

		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/device", e->d_name);
		f = fopen(path, "re");
		if (!f)
			continue;
		if (!fgets(id, sizeof(id), f) || strncmp(id, "0x1110", 6)) {
			fclose(f);
			continue;
		}
		fclose(f);
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/enable", e->d_name);
		f = fopen(path, "we");
		if (f) {
			fputs("1", f);
			fclose(f);
		}
		snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/resource2", e->d_name);
		fd = open(path, O_RDWR | O_SYNC | O_CLOEXEC);
		at = fd < 0 ? MAP_FAILED
			    : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		closedir(d);
		return at == MAP_FAILED ? NULL : at;
	}
	if (d)
		closedir(d);
	errno = ENODEV;
	return NULL;
}

static int answer(struct shared *s, long ppm)
{
	struct timex t = {.modes = ADJ_FREQUENCY, .freq = ppm * 65536};
	uint64_t seen = __atomic_load_n(&s->asked, __ATOMIC_ACQUIRE), heard = 0, asked;

	if (adjtimex(&t) < 0) {
		perror("adjtimex");
		return 1;
	}
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!ended) {
		asked = __atomic_load_n(&s->asked, __ATOMIC_ACQUIRE);
		if (asked != seen) {
			seen = asked;
			heard = base_now_ns();
			__atomic_store_n(&s->clock, heard, __ATOMIC_RELAXED);
			__atomic_store_n(&s->answered, asked, __ATOMIC_RELEASE);
		} else if (base_now_ns() - heard > ANSWER_NS) {
			usleep(500); /* short enough to disturb the rest of the test little */
		}
	}
	return 0;
}

static void ask(struct shared *s)
{
	uint64_t start = base_now_ns(), best = UINT64_MAX, number = s->asked, sent = start, now;
	int64_t at = 0, theta = 0;

	while (best > GOOD_NS && sent - start < MOST_NS) {
		sent = base_now_ns();
		__atomic_store_n(&s->asked, ++number, __ATOMIC_RELEASE);
		do
			now = base_now_ns();
		while (__atomic_load_n(&s->answered, __ATOMIC_ACQUIRE) != number &&
		       now - sent < ANSWER_NS);
		now = base_now_ns();
		if (s->answered == number && now - sent < best) {
			best = now - sent;
			at = (int64_t)(sent + best / 2);
			theta = (int64_t)s->clock - at;
		}
	}
	if (best != UINT64_MAX)
		printf("%" PRId64 " %" PRId64 " %" PRIu64 "\n", at, theta, best / 2 + 1);
}

/* Looks many times, and uses the look with the least delay. */
static int epoch(void)
{
	uint64_t best = UINT64_MAX;
	int64_t found = 0;

	for (int i = 0; i < 1000; i++) {
		uint64_t before = base_now_ns(), real = base_realtime_ns(),
			 took = base_now_ns() - before;

		if (took < best) {
			best = took;
			found = (int64_t)(real - (before + took / 2));
		}
	}
	printf("%" PRId64 "\n", found);
	return 0;
}

int main(int argc, char **argv)
{
	struct shared *s;

	if (argc == 2 && !strcmp(argv[1], "epoch")) {
		return epoch();
	}
	if (!(argc == 3 && !strcmp(argv[1], "answer")) && !(argc == 2 && !strcmp(argv[1], "ask"))) {
		fputs("clock_truth answer PPM | ask | epoch\n", stderr);
		return 2;
	}
	s = memory();
	if (!s) {
		perror("ivshmem");
		return 1;
	}
	if (argc == 3)
		return answer(s, atol(argv[2]));
	signal(SIGTERM, end);
	setlinebuf(stdout);
	for (; !ended; usleep(PAUSE_US))
		ask(s);
	return 0;
}
