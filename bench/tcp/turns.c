// SPDX-License-Identifier: Apache-2.0
/*
 * turns.c - how much longer round trips and bulk data take with programs at their hooks. All
 * programs are loaded once. A block is a window without programs, one with each kind, and the same
 * backwards (A B C C B A), 20 ms each, so that a drift of the machine affects all kinds alike. A
 * block gives one ratio per kind; their median counts. Its 95 % interval comes from order
 * statistics, which assume no distribution.
 */
#include <bpf/bpf.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "bench_tcp.h"
#include "hooks.h"
#include "wire.h"

#define KINDS_MAX 5 /* nothing, and up to four sets of programs */
#define WINDOW	  20000000ull
#define SETTLE	  4000000ull /* after programs are attached or detached */

/* Returns nanoseconds per unit in a window; 0: nothing happened in it. */
typedef double (*window_fn)(void *context, uint64_t ns);

struct added {
	double percent, low, high; /* more time than without programs; 95 % interval */
	double alone;		   /* nanoseconds per unit without programs */
};

static void attach(struct hooks *h, int (*change)(struct hooks *))
{
	int err = h ? change(h) : 0;

	if (err) {
		errno = -err;
		give_up("a hook");
	}
}

/* kind[0] is NULL: no programs. */
static void turns(struct hooks *const *kind, size_t kinds, size_t blocks, window_fn window,
		  void *context, struct added *to)
{
	static double ns[KINDS_MAX][BLOCKS_MAX], ratio[BLOCKS_MAX];
	size_t reach = (size_t)ceil(0.98 * sqrt((double)blocks)), again = 0;

	for (size_t b = 0; b < blocks; b++) {
		bool whole = true;

		for (size_t k = 0; k < kinds; k++)
			ns[k][b] = 0;
		for (size_t i = 0; i < 2 * kinds && whole; i++) {
			size_t k = i < kinds ? i : 2 * kinds - 1 - i;
			double t;

			attach(kind[k], hooks_on);
			window(context, SETTLE);
			t = window(context, WINDOW);
			attach(kind[k], hooks_off);
			whole = t > 0;
			ns[k][b] += t / 2;
		}
		if (!whole) {
			if (++again > blocks + 10)
				give_up("no exchange in a window");
			b--;
		}
	}
	for (size_t k = 0; k < kinds; k++) {
		for (size_t b = 0; b < blocks; b++)
			ratio[b] = (ns[k][b] / ns[0][b] - 1) * 100;
		to[k].percent = bench_median(ratio, blocks);
		to[k].low = ratio[blocks / 2 > reach ? blocks / 2 - reach : 0];
		to[k].high = ratio[blocks / 2 + reach < blocks ? blocks / 2 + reach : blocks - 1];
	}
	to[0].alone = bench_median(ns[0], blocks);
}

/* Loads the programs, detached. */
static void load(struct hooks *h, const struct programs *p, bool empty)
{
	h->empty = empty;
	hooks_of(h);
	p->open();
	hooks_of(NULL);
	attach(h, hooks_off);
}

/* ---- request/response ---- */

static double exchange(void *fd, uint64_t ns)
{
	uint64_t n;

	return wire_exchange(*(int *)fd, ns, &n);
}

static double connections(void *unused, uint64_t ns)
{
	uint64_t n;

	(void)unused;
	return wire_connections(ns, &n);
}

/* t: both ends on one CPU, and on two; [k]: 1: the programs, 2: empty ones. */
static void print_both(const char *kind, const struct programs *p, struct added t[2][3],
		       const char *what, size_t blocks)
{
	for (int k = 1; k < 3; k++) {
		char name[48];

		snprintf(name, sizeof(name), "tcp.%s.%s%s", kind, p->name, k == 2 ? ".floor" : "");
		bench_print(
			&(struct bench_row){.name = name, .unit = "%", .value = t[1][k].percent},
			"%s: 95 %% interval %.2f to %.2f, of %.0f ns; both ends on one CPU: "
			"%.2f %% (%.2f to %.2f) of %.0f ns; %zu blocks",
			k == 1 ? what : "programs that return at once, at the same hooks",
			t[1][k].low, t[1][k].high, t[1][0].alone, t[0][k].percent, t[0][k].low,
			t[0][k].high, t[0][0].alone, blocks);
	}
}

/* Compares no programs, the programs and empty ones. connected: fn works on one connection. */
static void bench_added(const struct programs *p, const char *name, bool connected,
			double (*fn)(void *fd, uint64_t ns), const char *what, size_t blocks)
{
	static struct hooks real, empty;
	struct hooks *const kind[] = {NULL, &real, &empty};
	struct added t[2][3];

	load(&real, p, false);
	load(&empty, p, true);
	for (int apart = 0; apart < 2; apart++) {
		int fd = -1;

		wire_pin(apart);
		if (connected) {
			/*
			 * The programs see the start of the connection, so its sockets have flows.
			 */
			attach(&real, hooks_on);
			fd = wire_connect(PORT_ONE);
			if (fd < 0 || fn(&fd, 10 * WINDOW) <= 0)
				give_up("request/response");
			attach(&real, hooks_off);
		}
		turns(kind, 3, blocks, fn, &fd, t[apart]);
		if (connected)
			close(fd);
	}
	p->close();
	real.n = empty.n = 0;
	print_both(name, p, t, what, blocks);
}

void bench_rr(const struct programs *p, size_t blocks)
{
	bench_added(p, "rr", true, exchange,
		    "added to the median round trip of 128 bytes each way on veth, both ends "
		    "observed, each on a CPU of its own",
		    blocks);
}

void bench_connect(const struct programs *p, size_t blocks)
{
	bench_added(p, "connect", false, connections,
		    "added to a connection with one message each way on veth, both ends observed, "
		    "each on a CPU of its own",
		    blocks);
}

/* Name of the program that is attached there. */
static void hook_name(const struct hook *h, char name[BPF_OBJ_NAME_LEN])
{
	struct bpf_prog_info info = {0};
	uint32_t bytes = sizeof(info);
	int fd = (int)(h->command == BPF_LINK_CREATE ? h->attr.link_create.prog_fd
						     : h->attr.raw_tracepoint.prog_fd);

	*name = 0;
	if (!bpf_obj_get_info_by_fd(fd, &info, &bytes))
		memcpy(name, info.name, BPF_OBJ_NAME_LEN);
}

void bench_hooks(const struct programs *p, size_t blocks)
{
	static struct hooks real, empty, one;
	struct hooks *const kind[] = {NULL, &one};
	char list[8192] = ";";
	struct added t[2];
	size_t hooks = 0;
	int fd;

	load(&real, p, false);
	load(&empty, p, true);
	wire_pin(0);
	fd = wire_connect(PORT_ONE);
	if (fd < 0)
		give_up("request/response");
	/* One hook at a time, so that the windows to compare are adjacent. */
	for (size_t i = 0; i < empty.n; i++) {
		char name[BPF_OBJ_NAME_LEN], other[BPF_OBJ_NAME_LEN + 2];

		hook_name(&empty.hook[i], name);
		snprintf(other, sizeof(other), " %s ", name);
		if (strstr(list, other))
			continue;
		/* One program may be attached in many network namespaces. */
		one.n = 0;
		for (size_t j = i; j < empty.n; j++) {
			hook_name(&empty.hook[j], other);
			if (!strcmp(name, other))
				one.hook[one.n++] = empty.hook[j];
		}
		turns(kind, 2, blocks, exchange, &fd, t);
		append(list, sizeof(list), " %s %.0f (%.0f to %.0f),", name,
		       t[0].alone / 100 * t[1].percent, t[0].alone / 100 * t[1].low,
		       t[0].alone / 100 * t[1].high);
		hooks++;
	}
	close(fd);
	p->close();
	bench_print(
		&(struct bench_row){
			.name = "tcp.rr.hooks", .unit = "hooks", .value = (double)hooks},
		"nanoseconds added to a round trip of %.0f ns, both ends on one CPU, by a program "
		"that returns at once at this hook alone, and its 95 %% interval; %s programs, "
		"%zu blocks%s",
		t[0].alone, p->name, blocks, list);
	real.n = empty.n = 0;
}

/* ---- bulk ---- */

/*
 * Raises the priority by niceness: with SCHED_FIFO, ksoftirqd, which receives the segments, would
 * never run.
 */
static void iperf_first(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, -15);
}

/* Runs in the server's namespace; returns when the server listens. */
static pid_t iperf_server(void)
{
	char path[64], line[256];
	pid_t pid = fork();

	snprintf(path, sizeof(path), "/proc/%d/ns/net", wire_server());
	if (!pid) {
		int ns = open(path, O_RDONLY | O_CLOEXEC);

		iperf_first();
		if (ns < 0 || setns(ns, CLONE_NEWNET) || !freopen("/dev/null", "w", stdout))
			_exit(1);
		execlp("iperf3", "iperf3", "-s", "-p", "7102", (char *)NULL);
		_exit(127);
	}
	snprintf(path, sizeof(path), "/proc/%d/net/tcp6", wire_server());
	for (int i = 0; i < 500; i++) {
		FILE *f = fopen(path, "re");

		while (f && fgets(line, sizeof(line), f)) {
			if (strstr(line, ":1BBE ")) { /* 7102 */
				fclose(f);
				return pid;
			}
		}
		if (f)
			fclose(f);
		usleep(20000);
	}
	errno = ENOENT;
	give_up("iperf3 -s");
}

/* Sends until it is killed; together: both ends on one CPU. */
static pid_t iperf_client(bool together)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	iperf_first();
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execlp("iperf3", "iperf3", "-c", SERVER, "-p", "7102", "-t", "3600", "-A",
	       together ? "0,0" : "0,1", (char *)NULL);
	_exit(127);
}

/* Bytes sent by v0, from the /proc/net/dev of the namespace in which it was opened. */
static double sent_bytes(const int *file)
{
	char text[4096], *line;
	ssize_t n = pread(*file, text, sizeof(text) - 1, 0);
	double bytes = 0;

	text[n > 0 ? n : 0] = 0;
	line = strstr(text, "v0:");
	if (!line || sscanf(line, "v0: %*s %*s %*s %*s %*s %*s %*s %*s %lf", &bytes) != 1)
		give_up("/proc/net/dev");
	return bytes;
}

static double bulk(void *context, uint64_t ns)
{
	struct timespec t = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
	const double begin = bench_wall_ns();
	double bytes = sent_bytes(context);

	nanosleep(&t, NULL);
	bytes = sent_bytes(context) - bytes;
	return bytes > 0 ? (bench_wall_ns() - begin) / bytes : 0;
}

enum { NOTHING, FLOWS, FLOWS_FLOOR, LAYERS, LAYERS_FLOOR, BULK_KINDS };

/* Measures all kinds of programs during one run of iperf3. */
static void bulk_turns(struct hooks *const *kind, bool together, size_t blocks, struct added *t)
{
	pid_t server = iperf_server(), client;
	double before;
	int sent;

	attach(kind[FLOWS], hooks_on);
	attach(kind[LAYERS], hooks_on);
	client = iperf_client(together);
	sent = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC);
	/* Waits until its TCP windows have grown to their maximum. */
	before = sent_bytes(&sent);
	for (int i = 0; i < 200 && sent_bytes(&sent) - before < 100e6; i++)
		bulk(&sent, WINDOW);
	bulk(&sent, 50 * WINDOW);
	attach(kind[FLOWS], hooks_off);
	attach(kind[LAYERS], hooks_off);
	turns(kind, BULK_KINDS, blocks, bulk, &sent, t);
	close(sent);
	kill(client, SIGKILL);
	waitpid(client, NULL, 0);
	kill(server, SIGKILL);
	waitpid(server, NULL, 0);
}

static void print_bulk(const char *name, struct added t[2][BULK_KINDS], int k, size_t blocks)
{
	char text[512] = "";

	for (int together = 0; together < 2; together++)
		append(text, sizeof(text),
		       "%s %.2f %% (%.2f to %.2f), layer programs %.2f (%.2f to %.2f), "
		       "at %.1f Gb/s",
		       together ? "; both ends on one CPU" : "a CPU each", t[together][k].percent,
		       t[together][k].low, t[together][k].high, t[together][k + 2].percent,
		       t[together][k + 2].low, t[together][k + 2].high,
		       8 / t[together][NOTHING].alone);
	bench_print(&(struct bench_row){.name = name, .unit = "%", .value = t[0][k].percent},
		    "more time for the same bytes of iperf3 on veth, %s, both ends observed, 95 %% "
		    "intervals: %s; %zu blocks",
		    k == FLOWS ? "flow programs" : "programs that return at once at their hooks",
		    text, blocks);
}

void bench_bulk(size_t blocks)
{
	static struct hooks h[BULK_KINDS];
	struct hooks *const kind[] = {NULL, &h[FLOWS], &h[FLOWS_FLOOR], &h[LAYERS],
				      &h[LAYERS_FLOOR]};
	struct added t[2][BULK_KINDS];

	load(&h[FLOWS], &flow_programs, false);
	load(&h[FLOWS_FLOOR], &flow_programs, true);
	load(&h[LAYERS], &layer_programs, false);
	load(&h[LAYERS_FLOOR], &layer_programs, true);
	bulk_turns(kind, false, blocks, t[0]);
	bulk_turns(kind, true, blocks, t[1]);
	flow_programs.close();
	layer_programs.close();
	for (int k = 0; k < BULK_KINDS; k++)
		h[k].n = 0;
	print_bulk("tcp.bulk", t, FLOWS, blocks);
	print_bulk("tcp.bulk.floor", t, FLOWS_FLOOR, blocks);
}
