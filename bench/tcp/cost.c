// SPDX-License-Identifier: Apache-2.0
/* cost.c - nanoseconds per event: of each program as measured by the kernel, and of the peer. */
#include <arpa/inet.h>
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "bench_tcp.h"
#include "print.h"
#include "print.skel.h"
#include "wire.h"

struct cost {
	char name[BPF_OBJ_NAME_LEN];
	uint64_t ns, runs;
};

/* The programs that this process holds. */
static size_t costs(struct cost *c, size_t most)
{
	size_t n = 0;

	for (int fd = 3; fd < 1024 && n < most; fd++) {
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);
		char path[32], to[32] = "";

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		if (readlink(path, to, sizeof(to) - 1) < 0 || strcmp(to, "anon_inode:bpf-prog"))
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &bytes) || !info.run_cnt)
			continue;
		memcpy(c[n].name, info.name, sizeof(c[n].name));
		c[n].ns = info.run_time_ns;
		c[n++].runs = info.run_cnt;
	}
	return n;
}

/* The floor: an empty program at the same hook, which shows the cost of measuring. */
static int empty_program(void)
{
	const struct bpf_insn program[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 0},
		{.code = BPF_JMP | BPF_EXIT},
	};
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = BPF_TRACE_RAW_TP);
	struct btf *btf = btf__load_vmlinux_btf();
	int fd;

	opts.attach_btf_id = (uint32_t)btf__find_by_name_kind(btf, "btf_trace_tcp_probe",
							      BTF_KIND_TYPEDEF);
	btf__free(btf);
	fd = bpf_prog_load(BPF_PROG_TYPE_TRACING, "empty", "Dual BSD/GPL", program, 2, &opts);
	if (fd < 0 || bpf_raw_tracepoint_open(NULL, fd) < 0)
		give_up("an empty program");
	return fd;
}

static double bench_event(const struct programs *p, const char *name, int windows)
{
	static double each[64][WINDOWS_MAX];
	double mean[WINDOWS_MAX], floor[WINDOWS_MAX], run = 0, least, middle;
	struct cost a[64], b[64];
	char list[2048] = "";
	size_t n = 0;
	uint64_t exchanges;
	int fd;

	wire_pin(0);
	fd = wire_connect(PORT_ONE);
	p->open();
	wire_exchange(fd, 100000000, &exchanges);
	for (int w = 0; w < windows; w++) {
		uint64_t ns = 0, runs = 0;

		memset(a, 0, sizeof(a));
		costs(a, 64);
		if (fd < 0 || !wire_exchange(fd, 150000000, &exchanges))
			give_up("events");
		n = costs(b, 64);
		floor[w] = 0;
		for (size_t i = 0; i < n; i++) {
			uint64_t t = b[i].ns, r = b[i].runs;

			for (size_t j = 0; j < 64; j++) {
				if (strcmp(a[j].name, b[i].name))
					continue;
				t -= a[j].ns;
				r -= a[j].runs;
			}
			if (!strcmp(b[i].name, "empty")) {
				floor[w] = (double)t / (double)r;
				continue;
			}
			each[i][w] = r ? (double)t / (double)r : 0;
			ns += t;
			runs += r;
		}
		mean[w] = (double)ns / (double)runs - floor[w];
		run = (double)runs / (double)exchanges;
	}
	close(fd);
	p->close();
	least = bench_median(floor, (size_t)windows);
	middle = bench_median(mean, (size_t)windows);
	for (size_t i = 0; i < n; i++) {
		double v = bench_median(each[i], (size_t)windows);

		if (strcmp(b[i].name, "empty") && v > 0)
			append(list, sizeof(list), "; %s %.1f", b[i].name, v - least);
	}
	bench_print(
		&(struct bench_row){.name = name,
				    .unit = "ns/event",
				    .value = middle,
				    .less_is_better = true,
				    .floor = "an empty program at the same place",
				    .floor_value = least},
		"run_time_ns over run_cnt (bpf_enable_stats), less an empty program's, in "
		"request/response on veth, both ends observed, %.1f events per exchange; median of "
		"%d windows%s",
		run, windows, list);
	return middle;
}

/* ---- the peer: a record per event, printed ---- */

static struct {
	pthread_t thread;
	bool stop;
	uint64_t printed, lost;
	double cpu_ns;
	FILE *to;
} printer;

static void print_one(void *context, int cpu, void *data, uint32_t bytes)
{
	const struct print_event *e = data;
	char local[16], remote[16];

	(void)context;
	(void)cpu;
	if (bytes < sizeof(*e))
		return;
	inet_ntop(AF_INET, &e->local, local, sizeof(local));
	inet_ntop(AF_INET, &e->remote, remote, sizeof(remote));
	fprintf(printer.to, "%-14.6f %-6u %-16s %s:%u %s:%u %u %u %u %u %u\n", 1e-9 * (double)e->ns,
		e->pid, e->comm, local, e->local_port, remote, e->remote_port, e->length,
		e->snd_nxt, e->rcv_nxt, e->cwnd, e->srtt);
	printer.printed++;
}

static void lose_some(void *context, int cpu, __u64 n)
{
	(void)context;
	(void)cpu;
	printer.lost += n;
}

static void *print_all(void *map)
{
	struct perf_buffer *buffer = perf_buffer__new(*(int *)map, 64, print_one, lose_some, NULL,
						      NULL);
	struct timespec t;

	while (buffer && !__atomic_load_n(&printer.stop, __ATOMIC_ACQUIRE))
		perf_buffer__poll(buffer, 20);
	perf_buffer__free(buffer);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	printer.cpu_ns = (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
	return NULL;
}

/* tcp.bcc. This reader is written in C and has its own CPU; a Python script would be slower. */
static void bench_printing(double ours, int windows)
{
	struct print_bpf *skel = print_bpf__open_and_load();
	struct cost c[64];
	uint64_t exchanges;
	double kernel = 0, floor = 0, user, peer;
	int fd, map;

	printer.to = fopen("/dev/null", "we");
	if (!skel || print_bpf__attach(skel) || !printer.to)
		give_up("the printing program");
	map = bpf_map__fd(skel->maps.events);
	wire_pin(0);
	fd = wire_connect(PORT_ONE);
	if (fd < 0 || pthread_create(&printer.thread, NULL, print_all, &map))
		give_up("the printing program");
	wire_exchange(fd, 150000000ull * (uint64_t)windows, &exchanges);
	close(fd);
	__atomic_store_n(&printer.stop, true, __ATOMIC_RELEASE);
	pthread_join(printer.thread, NULL);
	for (size_t i = 0, n = costs(c, 64); i < n; i++) {
		if (!strcmp(c[i].name, "print_segment"))
			kernel = (double)c[i].ns / (double)c[i].runs;
		if (!strcmp(c[i].name, "empty"))
			floor = (double)c[i].ns / (double)c[i].runs;
	}
	print_bpf__destroy(skel);
	fclose(printer.to);
	if (!printer.printed)
		give_up("nothing was printed");
	user = printer.cpu_ns / (double)printer.printed;
	peer = kernel - floor + user;
	bench_print(
		&(struct bench_row){.name = "tcp.bcc",
				    .unit = "ns/event",
				    .value = ours,
				    .less_is_better = true,
				    .peer = "perf buffer, printed",
				    .peer_value = peer},
		"CPU time per event; the peer's program (%.1f ns) sends 64 bytes for each segment "
		"through a perf buffer, and a reader in C (%.1f ns) prints a line: what a BCC "
		"script does, without its Python; %llu printed, %llu lost",
		kernel - floor, user, (unsigned long long)printer.printed,
		(unsigned long long)printer.lost);
}

void bench_events(int windows)
{
	int stats = bpf_enable_stats(BPF_STATS_RUN_TIME), empty;
	double ours;

	if (stats < 0)
		give_up("bpf_enable_stats");
	empty = empty_program();
	ours = bench_event(&flow_programs, "tcp.event", windows);
	bench_event(&layer_programs, "tcp.event.layers", windows);
	bench_printing(ours, windows);
	close(empty);
	close(stats);
}
