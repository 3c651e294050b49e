// SPDX-License-Identifier: Apache-2.0
/*
 * bench_tcp.c [FIGURE [BLOCKS]] - the cost of the eBPF programs to the connections that they
 * observe. turns.c measures time, cost.c events; coverage is here. FIGURE: event, flows, layers,
 * agent (--tcp flows,layers,cpu), bulk, coverage, hooks; by default all but hooks, which take a
 * minute each.
 */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench.h"
#include "bench_tcp.h"
#include "source/tcp/cpu.h"
#include "source/tcp/layer.h"
#include "source/tcp/tcp.h"
#include "wire.h"

static char why[256];

void append(char *text, size_t bytes, const char *format, ...)
{
	size_t have = strlen(text);
	va_list list;

	va_start(list, format);
	vsnprintf(text + have, bytes - have, format, list);
	va_end(list);
}

void give_up(const char *what)
{
	fprintf(stderr, "bench_tcp: %s: %s\n", what, *why ? why : strerror(errno));
	exit(1);
}

/* ---- the programs, on and off ---- */

/* Up to two of each: those that are measured, and empty ones at the same hooks. */
static struct tcp *tcp[2];
static struct tcp_layers *layers[2];
static struct tcp_cpu *cpu[2];
static struct base_strings only; /* ports whose layers are measured; empty: all */

static void flows_open(void)
{
	struct tcp_opts o = {.existing = true};
	struct tcp **t = tcp[0] ? &tcp[1] : &tcp[0];

	if (tcp_open(&o, t, why, sizeof(why)) || tcp_attach(*t, why, sizeof(why)))
		give_up("flows");
	*why = 0;
}

static void flows_close(void)
{
	tcp_close(tcp[1]);
	tcp_close(tcp[0]);
	tcp[0] = tcp[1] = NULL;
}

static void layers_open(void)
{
	struct tcp_layers_opts o = {.flows = 16384};

	o.filter.ports = only;
	if (tcp_layers_open(&o, layers[0] ? &layers[1] : &layers[0], why, sizeof(why)))
		give_up("layers");
	*why = 0;
}

static void layers_close(void)
{
	tcp_layers_close(layers[1]);
	tcp_layers_close(layers[0]);
	layers[0] = layers[1] = NULL;
}

static void agent_open(void)
{
	struct tcp_cpu **c = cpu[0] ? &cpu[1] : &cpu[0];

	flows_open();
	layers_open();
	*c = tcp_cpu_open(&(struct tcp_cpu_opts){0}, why, sizeof(why));
	if (!*c)
		give_up("cpu");
}

static void agent_close(void)
{
	tcp_cpu_close(cpu[1]);
	tcp_cpu_close(cpu[0]);
	cpu[0] = cpu[1] = NULL;
	layers_close();
	flows_close();
}

const struct programs flow_programs = {"flows", flows_open, flows_close},
		      layer_programs = {"layers", layers_open, layers_close},
		      agent_programs = {"agent", agent_open, agent_close};

/* ---- coverage ---- */

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
	static struct region_layer_view v;
	static char got[20000];
	uint64_t requests = 0, complete = 0, before[SL_CAUSES], causes[SL_CAUSES];
	int *fd = calloc((size_t)connections, sizeof(*fd)), epoll = epoll_create1(0);
	char message[MESSAGE] = {0};
	char list[1024] = "";
	const char *port = "7101";

	only = (struct base_strings){.v = &port,
				     .n = 1}; /* leaves out this machine's other connections */
	layers_open();
	for (int i = 0; i < connections; i++) {
		struct epoll_event e = {.events = EPOLLIN};

		e.data.fd = fd[i] = wire_connect(PORT_MANY);
		if (fd[i] < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd[i], &e))
			give_up("a connection");
	}
	tcp_layers_causes(layers[0], before);
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
	for (uint32_t i = 0; i < tcp_layers_slots(layers[0], TCP_LAYER_GROUPS); i++) {
		if (tcp_layers_slot(layers[0], TCP_LAYER_GROUPS, i, &v) != 1 ||
		    v.role != SL_ROLE_SERVER)
			continue;
		requests += v.count[SL_COUNT_REQUESTS];
		complete += v.count[SL_COUNT_COMPLETE];
	}
	tcp_layers_causes(layers[0], causes);
	for (int i = 0; i < SL_CAUSES; i++)
		if (causes[i] - before[i])
			append(list, sizeof(list), "; %s %llu", region_layer_cause_name(i),
			       (unsigned long long)(causes[i] - before[i]));
	layers_close();
	free(fd);
	close(epoll);
	bench_print(&(struct bench_row){.name = "tcp.coverage",
					.unit = "%",
					.value = 100.0 * (double)complete /
						 ((double)connections * rounds)},
		    "requests with all seven layers, of those made: %d connections, %d made, "
		    "%llu seen, %llu complete%s",
		    connections, connections * rounds, (unsigned long long)requests,
		    (unsigned long long)complete, list);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "all", *no;
	size_t n = argc > 2 ? (size_t)atoi(argv[2]) : 0;
	bool all = !strcmp(what, "all");

	signal(SIGPIPE, SIG_IGN);
	if (n > BLOCKS_MAX || (n > WINDOWS_MAX && (all || !strcmp(what, "event")))) {
		fprintf(stderr, "at most %d windows, %d blocks\n", WINDOWS_MAX, BLOCKS_MAX);
		return 2;
	}
	if (getenv("DEBUG"))
		base_log_level = BASE_DEBUG;
	no = wire_up();
	if (no) {
		fprintf(stderr, "SKIP: %s\n", no);
		return 77;
	}
	if (all || !strcmp(what, "event"))
		bench_events(n ? (int)n : 15);
	if (all || !strcmp(what, "flows"))
		bench_rr(&flow_programs, n ? n : 100);
	if (all || !strcmp(what, "layers"))
		bench_rr(&layer_programs, n ? n : 100);
	if (all || !strcmp(what, "agent")) {
		bench_rr(&agent_programs, n ? n : 100);
		bench_connect(&agent_programs, n ? n : 100);
	}
	if (!strcmp(what, "hooks")) {
		bench_hooks(&flow_programs, n ? n : 50);
		bench_hooks(&layer_programs, n ? n : 50);
	}
	if (all || !strcmp(what, "bulk"))
		bench_bulk(n ? n : 30);
	if (all || !strcmp(what, "coverage"))
		bench_coverage(6400, n ? (int)n : 20);
	return 0;
}
