// SPDX-License-Identifier: Apache-2.0
/*
 * turns.c - how much longer round trips and bulk data take with programs at their hooks. All
 * programs are loaded once. A block is a window without any, one with each kind, and the same
 * backwards: A B C C B A, some 20 ms each. So a machine that drifts, or is disturbed for longer
 * than that, disturbs all alike. Of each block there is one ratio; their median counts, and between
 * which of them the true one lies in 95 of 100 cases (order statistics: that takes nothing to be
 * normally distributed) is in conditions.
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

#include "bench_tcp.h"
#include "hooks.h"
#include "wire.h"

#define KINDS_MAX 5 /* nothing, and up to four sets of programs */
#define WINDOW	  20000000ull
#define SETTLE	  4000000ull /* after programs came or went: lines of memory, static calls */

/* ns of one unit in a window. */
typedef double (*window_fn)(void *context, uint64_t ns);

struct added {
	double percent, low, high; /* more than without programs; 95 % interval */
	double alone;		   /* ns of one unit without */
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
		/* A window in which nothing came to pass at all. */
		if (!whole) {
			if (++again > blocks + 10)
				give_up("nothing passes the wire");
			b--;
		}
	}
	for (size_t k = 0; k < kinds; k++) {
		for (size_t b = 0; b < blocks; b++)
			ratio[b] = (ns[k][b] / ns[0][b] - 1) * 100;
		to[k].percent = median(ratio, blocks);
		to[k].low = ratio[blocks / 2 > reach ? blocks / 2 - reach : 0];
		to[k].high = ratio[blocks / 2 + reach < blocks ? blocks / 2 + reach : blocks - 1];
	}
	to[0].alone = median(ns[0], blocks);
}

/* Loads them, and takes them away from their hooks. */
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

void bench_rr(const struct programs *p, size_t blocks)
{
	static struct hooks real, empty;
	struct hooks *const kind[] = {NULL, &real, &empty};
	struct added t[2][3]; /* both ends on one CPU; on two */
	char name[32];

	load(&real, p, false);
	load(&empty, p, true);
	for (int apart = 0; apart < 2; apart++) {
		int fd;

		wire_pin(apart);
		/* Its beginning is seen: the sockets have their flows. */
		attach(&real, hooks_on);
		fd = wire_connect(PORT_ONE);
		if (fd < 0 || exchange(&fd, 10 * WINDOW) <= 0)
			give_up("request/response");
		attach(&real, hooks_off);
		turns(kind, 3, blocks, exchange, &fd, t[apart]);
		close(fd);
	}
	p->close();
	real.n = empty.n = 0;
	for (int k = 1; k < 3; k++) {
		snprintf(name, sizeof(name), "tcp.rr.%s%s", p->name, k == 2 ? ".floor" : "");
		result(name, t[1][k].percent, "%", NULL, 0, 0,
		       json_pack("{s:s, s:[f,f], s:f, s:f, s:[f,f], s:f, s:i}", "what",
				 k == 2 ? "the same of programs that do nothing, at the same hooks"
					: "added to the median round trip of 128 bytes each way on "
					  "veth, both ends observed, each on a CPU of its own",
				 "interval_95", t[1][k].low, t[1][k].high, "rtt_ns", t[1][0].alone,
				 "one_cpu_percent", t[0][k].percent, "one_cpu_interval_95",
				 t[0][k].low, t[0][k].high, "one_cpu_rtt_ns", t[0][0].alone,
				 "blocks", (int)blocks));
	}
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
	json_t *list = json_object();
	struct added t[2];
	int fd;

	load(&real, p, false);
	load(&empty, p, true);
	wire_pin(0);
	fd = wire_connect(PORT_ONE);
	if (fd < 0)
		give_up("request/response");
	/* One after the other: windows to compare are to lie side by side. */
	for (size_t i = 0; i < empty.n; i++) {
		char name[BPF_OBJ_NAME_LEN], other[BPF_OBJ_NAME_LEN];

		hook_name(&empty.hook[i], name);
		if (json_object_get(list, name))
			continue;
		/* One program may be in many network namespaces. */
		one.n = 0;
		for (size_t j = i; j < empty.n; j++) {
			hook_name(&empty.hook[j], other);
			if (!strcmp(name, other))
				one.hook[one.n++] = empty.hook[j];
		}
		turns(kind, 2, blocks, exchange, &fd, t);
		json_object_set_new(list, name,
				    json_pack("[f,f,f]", t[0].alone / 100 * t[1].percent,
					      t[0].alone / 100 * t[1].low,
					      t[0].alone / 100 * t[1].high));
	}
	close(fd);
	p->close();
	result("tcp.rr.hooks", (double)json_object_size(list), "hooks", NULL, 0, 0,
	       json_pack("{s:s, s:s, s:f, s:i, s:o}", "what",
			 "ns added to a round trip, both ends on one CPU, by a program that does "
			 "nothing at this hook alone, and 95 % interval",
			 "programs", p->name, "rtt_ns", t[0].alone, "blocks", (int)blocks,
			 "hooks_ns", list));
	real.n = empty.n = 0;
}

/* ---- bulk ---- */

/* Before whatever else is at work; not by SCHED_FIFO: ksoftirqd, which takes the segments in, would
 * never run. */
static void iperf_first(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setpriority(PRIO_PROCESS, 0, -15);
}

/* In the server's namespace; until it listens. */
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

/* Sends until it is killed; alone: both ends on one CPU. */
static pid_t iperf_client(bool alone)
{
	pid_t pid = fork();

	if (pid)
		return pid;
	iperf_first();
	if (!freopen("/dev/null", "w", stdout))
		_exit(1);
	execlp("iperf3", "iperf3", "-c", SERVER, "-p", "7102", "-t", "3600", "-A",
	       alone ? "0,0" : "0,1", (char *)NULL);
	_exit(127);
}

/* Bytes that v0 sent: /proc/net/dev, of the namespace in which it was opened. */
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
	uint64_t begin = now_ns();
	double bytes = sent_bytes(context);

	nanosleep(&t, NULL);
	bytes = sent_bytes(context) - bytes;
	return bytes > 0 ? (double)(now_ns() - begin) / bytes : 0;
}

void bench_bulk(size_t blocks)
{
	static struct hooks flows, flows_empty, layers, layers_empty;
	struct hooks *const kind[] = {NULL, &flows, &flows_empty, &layers, &layers_empty};
	static const char *const name[] = {NULL, "flows", "flows_floor", "layers", "layers_floor"};
	json_t *conditions = json_object(), *list;
	struct added t[5];
	char key[64];
	double lost = 0;

	load(&flows, &flow_programs, false);
	load(&flows_empty, &flow_programs, true);
	load(&layers, &layer_programs, false);
	load(&layers_empty, &layer_programs, true);
	json_object_set_new(
		conditions, "what",
		json_string("time that iperf3 needs more for the same bytes on veth, "
			    "flow programs, both ends observed; [percent, 95 % interval]"));
	for (int alone = 0; alone < 2; alone++) {
		pid_t server = iperf_server(), client;
		double before;
		int sent;

		attach(&flows, hooks_on);
		attach(&layers, hooks_on);
		client = iperf_client(alone);
		sent = open("/proc/thread-self/net/dev", O_RDONLY | O_CLOEXEC);
		/* Until it has begun, and the windows are as large as they get. */
		before = sent_bytes(&sent);
		for (int i = 0; i < 200 && sent_bytes(&sent) - before < 100e6; i++)
			bulk(&sent, WINDOW);
		bulk(&sent, 50 * WINDOW);
		attach(&flows, hooks_off);
		attach(&layers, hooks_off);
		turns(kind, 5, blocks, bulk, &sent, t);
		close(sent);
		kill(client, SIGKILL);
		waitpid(client, NULL, 0);
		kill(server, SIGKILL);
		waitpid(server, NULL, 0);
		for (int k = 1; k < 5; k++) {
			list = json_pack("[f,f,f]", t[k].percent, t[k].low, t[k].high);
			snprintf(key, sizeof(key), "%s%s", alone ? "one_cpu_" : "", name[k]);
			json_object_set_new(conditions, key, list);
		}
		json_object_set_new(conditions, alone ? "one_cpu_gbit_per_s" : "gbit_per_s",
				    json_real(8 / t[0].alone));
		if (!alone)
			lost = t[1].percent;
	}
	json_object_set_new(conditions, "blocks", json_integer((json_int_t)blocks));
	flow_programs.close();
	layer_programs.close();
	flows.n = flows_empty.n = layers.n = layers_empty.n = 0;
	result("tcp.bulk", lost, "%", NULL, 0, 0, conditions);
}
