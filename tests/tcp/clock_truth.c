// SPDX-License-Identifier: Apache-2.0
/*
 * How far the clocks of two guests are apart, by memory that both share: each writes its clock all the time and
 * reads the other's, so that a "packet" takes about a microsecond. The truth for tests of what is
 * estimated over the network.
 *
 *   clock_truth sample SIDE PPM FILE       until SIGTERM; SIDE 0 or 1; its clock is made to run PPM fast
 *   clock_truth fit FILE_0 FILE_1              lines "NS THETA BOUND", every 10 ms of side 0's clock
 *
 * The first line of a sample's FILE is CLOCK_REALTIME - CLOCK_MONOTONIC in ns.
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
#include "source/tcp/net_clock.h"

#define EACH_NS	 1000000 /* the best of so long is kept */
#define BURST_NS 10000000

static volatile sig_atomic_t ended;

static void end(int sig)
{
	(void)sig;
	ended = 1;
}

/* The memory of qemu's ivshmem device. */
static volatile uint64_t *shared(void)
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

static int sample(int side, long ppm, const char *name)
{
	struct timex t = {.modes = ADJ_FREQUENCY, .freq = ppm * 65536};
	volatile uint64_t *memory = shared();
	FILE *f = fopen(name, "we");
	uint64_t start = sl_now_ns(), keep = 0, last = 0;
	struct sl_net_point best = {0};

	if (!memory || !f) {
		perror(memory ? name : "ivshmem");
		return 1;
	}
	if (ppm && adjtimex(&t) < 0) {
		perror("adjtimex");
		return 1;
	}
	fprintf(f, "%" PRId64 "\n", (int64_t)(sl_realtime_ns() - sl_now_ns()));
	signal(SIGTERM, end);
	puts("ready");
	fflush(stdout);
	while (!ended) {
		uint64_t now = sl_now_ns(), theirs;
		int64_t ahead;

		/* One side is always there; that the other is now and then is enough. */
		if (!side && now - start > BURST_NS) {
			usleep(40000);
			start = now = sl_now_ns();
		}
		__atomic_store_n(&memory[8 * side], now, __ATOMIC_SEQ_CST);
		theirs = __atomic_load_n(&memory[8 * !side], __ATOMIC_SEQ_CST);
		now = sl_now_ns();
		if (!theirs || theirs == last)
			continue;
		last = theirs;
		/* Side 1 read what side 0 wrote: a packet there; else one back. */
		ahead = side ? (int64_t)(now - theirs) : (int64_t)(theirs - now);
		if (!best.at || (side ? ahead < best.ahead : ahead > best.ahead))
			best = (struct sl_net_point){(int64_t)(side ? theirs : now), ahead, !side};
		if (now >= keep) {
			fprintf(f, "%" PRId64 " %" PRId64 "\n", best.at, best.ahead);
			best.at = 0;
			keep = now + EACH_NS;
		}
	}
	return fclose(f) ? 1 : 0;
}

static size_t load(const char *name, bool backward, struct sl_net_point *p, size_t room)
{
	FILE *f = fopen(name, "re");
	size_t n = 0;
	int64_t epoch;

	if (!f || fscanf(f, "%" SCNd64, &epoch) != 1) {
		perror(name);
		exit(1);
	}
	while (n < room && fscanf(f, "%" SCNd64 " %" SCNd64, &p[n].at, &p[n].ahead) == 2)
		p[n++].backward = backward;
	fclose(f);
	return n;
}

static int by_time(const void *a, const void *b)
{
	const struct sl_net_point *p = a, *q = b;

	return p->at < q->at ? -1 : p->at > q->at;
}

static int fit(const char *first, const char *second)
{
	enum { ROOM = 1 << 20 };
	struct sl_net_point *p = malloc(ROOM * sizeof(*p));
	size_t n = load(first, true, p, ROOM / 2), from = 0, to;
	int64_t window = 10000000000; /* the longer, the better its rate is known */

	n += load(second, false, p + n, ROOM / 2);
	if (!n)
		return 1;
	qsort(p, n, sizeof(*p), by_time);
	for (; from < n; from = to) {
		struct sl_net_line line;
		int64_t theta, bound, start = p[from].at;

		for (to = from; to < n && p[to].at < start + window;)
			to++;
		if (sl_net_line_fit(p + from, to - from, start, start + window, &line) != SL_NET_OK)
			continue;
		for (int64_t x = start; x < start + window; x += 10000000) {
			sl_net_line_at(&line, x, &theta, &bound);
			printf("%" PRId64 " %" PRId64 " %" PRId64 "\n", x, theta, bound);
		}
	}
	free(p);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 5 && !strcmp(argv[1], "sample"))
		return sample(atoi(argv[2]), atol(argv[3]), argv[4]);
	if (argc == 4 && !strcmp(argv[1], "fit"))
		return fit(argv[2], argv[3]);
	fputs("clock_truth sample SIDE PPM FILE | fit FILE_0 FILE_1\n", stderr);
	return 2;
}
