// SPDX-License-Identifier: Apache-2.0
/*
 * What the eBPF programs cost those whom they watch. Each figure comes out of short windows with the
 * programs off, on, off, on, ...: a window with them is compared to the mean of the two without them
 * beside it, and the median of these ratios counts. So what else the machine does, and its drifting clock,
 * fall out; what does not is in conditions, as the quartiles of the ratios.
 */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_tcp.h"
#include "source/tcp/layer.h"
#include "source/tcp/tcp.h"
#include "wire.h"

static char why[256];

void give_up(const char *what)
{
	fprintf(stderr, "bench_tcp: %s: %s\n", what, *why ? why : strerror(errno));
	exit(1);
}

/* ---- the programs, on and off ------------------------------------------------------------------- */

static struct sl_tcp *tcp;
static struct sl_layers *layers;
static struct sl_strings only; /* ports whose layers are measured; none: all */

static void flows_on(void)
{
	struct sl_tcp_options o = {.sz = sizeof(o), .existing = true};

	if (sl_tcp_open(&o, &tcp, why, sizeof(why)) || sl_tcp_attach(tcp, why, sizeof(why)))
		give_up("flows");
}

static void flows_off(void)
{
	sl_tcp_close(tcp);
	tcp = NULL;
}

static void layers_on(void)
{
	struct sl_layers_options o = {.sz = sizeof(o), .flows = 16384};

	o.wanted.ports = only;

	if (sl_layers_open(&o, &layers, why, sizeof(why)))
		give_up("layers");
}

static void layers_off(void)
{
	sl_layers_close(layers);
	layers = NULL;
}

static void flows_empty(void)
{
	programs_empty = true;
	flows_on();
	programs_empty = false;
}

static void layers_empty(void)
{
	programs_empty = true;
	layers_on();
	programs_empty = false;
}

const struct programs flow_programs = {"flows", flows_on, flows_empty, flows_off},
		      layer_programs = {"layers", layers_on, layers_empty, layers_off};

/* ---- results -------------------------------------------------------------------------------------- */

void result(const char *name, double value, const char *unit, const char *peer, double peer_value,
	    double ratio, json_t *conditions)
{
	struct utsname u;
	json_t *row;
	char *text;

	uname(&u);
	json_object_set_new(conditions, "kernel", json_string(u.release));
	row = json_pack("{s:s, s:f, s:s, s:s?, s:o, s:o, s:o}", "name", name, "value", value,
			"unit", unit, "peer", peer, "peer_value",
			peer ? json_real(peer_value) : json_null(), "ratio",
			peer ? json_real(ratio) : json_null(), "conditions", conditions);
	text = json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(6));
	puts(text);
	fflush(stdout);
	free(text);
	json_decref(row);
}

/* off: the mean of the windows beside each of on. Percent by which on is more; its quartiles. */
static double added(const double *off, const double *on, size_t n, double quartile[2])
{
	double ratio[WINDOWS_MAX], middle;

	for (size_t i = 0; i < n; i++)
		ratio[i] = (on[i] / off[i] - 1) * 100;
	middle = median(ratio, n);
	quartile[0] = ratio[n / 4];
	quartile[1] = ratio[n * 3 / 4];
	return middle;
}

/* ---- request/response ----------------------------------------------------------------------------- */

struct trips {
	double rtt, more[2],
		quartile[2][2]; /* ns; %, of the programs and of empty ones in their places */
};

static void round_trips(const struct programs *p, int apart, size_t pairs, uint64_t window,
			struct trips *t)
{
	static double off[2][WINDOWS_MAX + 1], on[2][WINDOWS_MAX];
	double before;
	uint64_t n;
	int fd;

	wire_pin(apart);
	fd = wire_connect(PORT_ONE);
	if (fd < 0 || !wire_exchange(fd, window, &n))
		give_up("request/response");
	before = wire_exchange(fd, window, &n);
	for (size_t i = 0; i < pairs; i++) {
		for (int empty = 0; empty < 2; empty++) {
			(empty ? p->empty : p->on)();
			wire_exchange(fd, window / 10, &n);
			on[empty][i] = wire_exchange(fd, window, &n);
			p->off();
			wire_exchange(fd, window / 10, &n);
			off[empty][i] = before;
			before = wire_exchange(fd, window, &n);
			off[empty][i] = (off[empty][i] + before) / 2;
		}
	}
	close(fd);
	for (int empty = 0; empty < 2; empty++)
		t->more[empty] = added(off[empty], on[empty], pairs, t->quartile[empty]);
	t->rtt = median(off[0], pairs);
}

static void bench_rr(const struct programs *p, size_t pairs)
{
	struct trips apart, together;
	char name[32];

	round_trips(p, 1, pairs, 150000000, &apart);
	round_trips(p, 0, pairs, 150000000, &together);
	for (int empty = 0; empty < 2; empty++) {
		snprintf(name, sizeof(name), "tcp.rr.%s%s", p->name, empty ? ".floor" : "");
		result(name, apart.more[empty], "%", NULL, 0, 0,
		       json_pack("{s:s, s:f, s:[f,f], s:f, s:f, s:[f,f], s:i}", "what",
				 empty ? "the same of programs that do nothing, at the same hooks"
				       : "added to the median round trip of 128 bytes each way on "
					 "veth, both ends observed, each on a CPU of its own",
				 "rtt_ns", apart.rtt, "quartiles", apart.quartile[empty][0],
				 apart.quartile[empty][1], "one_cpu_percent", together.more[empty],
				 "one_cpu_rtt_ns", together.rtt, "one_cpu_quartiles",
				 together.quartile[empty][0], together.quartile[empty][1],
				 "pairs_of_windows", (int)pairs));
	}
}

/* ---- bulk ------------------------------------------------------------------------------------------- */

/* Bits per second that iperf3 received. */
static double iperf(const char *amount)
{
	char command[160];
	json_t *root;
	double rate;
	FILE *f;

	snprintf(command, sizeof(command), "iperf3 -c " SERVER " -p 7102 -n %s -J", amount);
	f = popen(command, "re");
	root = f ? json_loadf(f, 0, NULL) : NULL;
	if (f)
		pclose(f);
	rate = json_number_value(json_object_get(
		json_object_get(json_object_get(root, "end"), "sum_received"), "bits_per_second"));
	json_decref(root);
	if (rate <= 0) {
		snprintf(why, sizeof(why), "no result (is iperf3 installed?)");
		give_up("iperf3");
	}
	return rate;
}

/* In the server's namespace; until it listens. */
static pid_t iperf_server(void)
{
	char path[64], line[256];
	pid_t pid = fork();

	snprintf(path, sizeof(path), "/proc/%d/ns/net", wire_server());
	if (!pid) {
		int ns = open(path, O_RDONLY | O_CLOEXEC);

		prctl(PR_SET_PDEATHSIG, SIGKILL);
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
	give_up("iperf3 -s");
}

static void bench_bulk(size_t pairs)
{
	double off[2][WINDOWS_MAX], on[2][WINDOWS_MAX], lost[2], q[2][2], before;
	const char *amount = "1500M";
	pid_t server = iperf_server();

	iperf(amount);
	for (int k = 0; k < 2; k++) {
		const struct programs *p = k ? &layer_programs : &flow_programs;

		before = 1 / iperf(amount);
		for (size_t i = 0; i < pairs; i++) {
			p->on();
			on[k][i] = 1 / iperf(amount);
			p->off();
			off[k][i] = before;
			before = 1 / iperf(amount);
			off[k][i] = (off[k][i] + before) / 2;
		}
		lost[k] = added(off[k], on[k], pairs, q[k]);
	}
	kill(server, SIGTERM);
	waitpid(server, NULL, 0);
	result("tcp.bulk", lost[0], "%", NULL, 0, 0,
	       json_pack(
		       "{s:s, s:[f,f], s:f, s:[f,f], s:f, s:i, s:s}", "what",
		       "time that iperf3 needs more for the same bytes on veth, flow programs, both "
		       "ends observed",
		       "quartiles", q[0][0], q[0][1], "layers_percent", lost[1], "layers_quartiles",
		       q[1][0], q[1][1], "gbit_per_s", 1e-9 / median(off[0], pairs),
		       "pairs_of_windows", (int)pairs, "bytes", amount));
}

/* ---- coverage --------------------------------------------------------------------------------------- */

static void answers(int epoll, int *left, char *got)
{
	struct epoll_event e[256];

	while (*left) {
		int n = epoll_wait(epoll, e, 256, 20000);
		char buffer[MESSAGE];

		if (n <= 0)
			give_up("an answer is missing");
		for (int i = 0; i < n; i++) {
			ssize_t r = read(e[i].data.fd, buffer, sizeof(buffer));

			if (r <= 0)
				give_up("a connection broke");
			got[e[i].data.fd] = (char)(got[e[i].data.fd] + r);
			if ((unsigned char)got[e[i].data.fd] == MESSAGE) {
				got[e[i].data.fd] = 0;
				--*left;
			}
		}
	}
}

static void bench_coverage(int connections, int rounds)
{
	static struct sl_layer_view v;
	static char got[20000];
	uint64_t requests = 0, complete = 0, before[SL_CAUSES], causes[SL_CAUSES];
	int *fd = calloc((size_t)connections, sizeof(*fd)), epoll = epoll_create1(0);
	char message[MESSAGE] = {0};
	json_t *list = json_object();
	const char *port = "7101";

	only = (struct sl_strings){.v = &port, .n = 1}; /* not what else happens on this machine */
	layers_on();
	for (int i = 0; i < connections; i++) {
		struct epoll_event e = {.events = EPOLLIN};

		e.data.fd = fd[i] = wire_connect(PORT_MANY);
		if (fd[i] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd[i], &e))
			give_up("a connection");
	}
	sl_layers_causes(layers, before);
	for (int r = 0; r < rounds; r++) {
		int left = connections;

		for (int i = 0; i < connections; i++)
			if (write(fd[i], message, MESSAGE) != MESSAGE)
				give_up("a request");
		answers(epoll, &left, got);
	}
	for (int i = 0; i < connections; i++)
		close(fd[i]);
	usleep(300000);
	for (uint32_t i = 0; i < sl_layers_slots(layers, SL_LAYER_GROUPS); i++) {
		if (sl_layers_slot(layers, SL_LAYER_GROUPS, i, &v) != 1 || v.role != SL_ROLE_SERVER)
			continue;
		requests += v.count[SL_COUNT_REQUESTS];
		complete += v.count[SL_COUNT_COMPLETE];
	}
	sl_layers_causes(layers, causes);
	for (int i = 0; i < SL_CAUSES; i++)
		if (causes[i] - before[i])
			json_object_set_new(list, sl_layer_cause_name(i),
					    json_integer((json_int_t)(causes[i] - before[i])));
	layers_off();
	free(fd);
	close(epoll);
	result("tcp.coverage", 100.0 * (double)complete / ((double)connections * rounds), "%", NULL,
	       0, 0,
	       json_pack("{s:s, s:i, s:i, s:I, s:I, s:o}", "what",
			 "requests with all seven layers, of those that were made", "connections",
			 connections, "made", connections * rounds, "seen", (json_int_t)requests,
			 "complete", (json_int_t)complete, "causes", list));
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all", *no;
	size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 0;
	bool all = !strcmp(what, "all");

	signal(SIGPIPE, SIG_IGN);
	if (n > WINDOWS_MAX) {
		fprintf(stderr, "at most %d windows\n", WINDOWS_MAX);
		return 2;
	}
	if (getenv("DEBUG"))
		sl_log_level = SL_DEBUG;
	no = wire_up();
	if (no) {
		fprintf(stderr, "SKIP: %s\n", no);
		return 77;
	}
	if (all || !strcmp(what, "event"))
		bench_events(n ? (int)n : 15);
	if (all || !strcmp(what, "flows"))
		bench_rr(&flow_programs, n ? n : 30);
	if (all || !strcmp(what, "layers"))
		bench_rr(&layer_programs, n ? n : 30);
	if (all || !strcmp(what, "bulk"))
		bench_bulk(n ? n : 8);
	if (all || !strcmp(what, "coverage"))
		bench_coverage(6400, n ? (int)n : 20);
	return 0;
}
