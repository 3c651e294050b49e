// SPDX-License-Identifier: Apache-2.0
/*
 * test_cpu.c - scheduler time equals the kernel's own accounts: for sleeping tasks to the
 * nanosecond (/proc/PID/task/TID/schedstat, status, sched), and for cgroups to the microsecond of
 * cpu.stat.
 */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "support/test.h"
#include "base/base.h"
#include "source/tcp/cgroup.h"
#include "source/tcp/cpu.h"

#define PATIENCE 100000000000ull
#define THREADS	 3

static void pause_ms(int ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000};

	nanosleep(&t, NULL);
}

/* ---- a process that works when told to ---- */

struct worker {
	pid_t pid;
	/* each thread works once per byte written to go, and then writes a byte to done */
	int go, done;
};

static void burn(int ms)
{
	struct timespec t;
	uint64_t until, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	until = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec + (uint64_t)ms * 1000000;
	do {
		for (int i = 0; i < 20000; i++)
			__asm__ volatile("");
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
		now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
	} while (now < until);
}

static int worker_go, worker_done;

/* How many CPUs this process may use. */
static int cpus_allowed(void)
{
	cpu_set_t all;

	return sched_getaffinity(0, sizeof(all), &all) ? 1 : CPU_COUNT(&all);
}

/* One of the CPUs that this process may use: the first, or the second if there is one. */
static void pin(int which)
{
	cpu_set_t all, one;
	int found = -1;

	sched_getaffinity(getppid(), sizeof(all), &all);
	for (int cpu = 0; cpu < CPU_SETSIZE && which >= 0; cpu++)
		if (CPU_ISSET(cpu, &all)) {
			found = cpu;
			which--;
		}
	CPU_ZERO(&one);
	CPU_SET(found, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *work(void *arg)
{
	char c = 'r'; /* ready */

	(void)arg;
	if (write(worker_done, &c, 1) != 1)
		return NULL;
	while (read(worker_go, &c, 1) == 1 && c != 'q') {
		for (int i = 0; i < 4; i++) {
			pin(i / 2);
			burn(5);
			pause_ms(1);
		}
		if (write(worker_done, &c, 1) != 1)
			break;
	}
	return NULL;
}

static void hear(const struct worker *w)
{
	char c;

	for (int i = 0; i < THREADS; i++)
		assert_int_equal(read(w->done, &c, 1), 1);
}

/*
 * All threads run on one CPU, so that they wait for each other; later on another, so that they
 * migrate.
 */
static struct worker start_worker(void)
{
	int go[2], done[2];
	struct worker w;

	assert_int_equal(pipe(go), 0);
	assert_int_equal(pipe(done), 0);
	w.pid = fork();
	assert_true(w.pid >= 0);
	if (!w.pid) {
		pthread_t thread[THREADS];

		prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves no process behind */
		close(go[1]);
		worker_go = go[0];
		worker_done = done[1];
		prctl(PR_SET_NAME, "test_cpu_comm");
		for (int i = 1; i < THREADS; i++)
			pthread_create(&thread[i], NULL, work, NULL);
		work(NULL);
		for (int i = 1; i < THREADS; i++)
			pthread_join(thread[i], NULL);
		_exit(0);
	}
	close(go[0]);
	close(done[1]);
	w.go = go[1];
	w.done = done[0];
	hear(&w);
	return w;
}

static void tell(const struct worker *w, char what)
{
	char all[THREADS];

	memset(all, what, sizeof(all));
	assert_int_equal(write(w->go, all, sizeof(all)), sizeof(all));
}

static void end_worker(struct worker *w, struct rusage *usage)
{
	int status;

	tell(w, 'q');
	assert_int_equal(wait4(w->pid, &status, 0, usage), w->pid);
	assert_int_equal(status, 0);
	close(w->go);
	close(w->done);
}

/* ---- the kernel's own accounts ---- */

struct oracle {
	uint64_t run, wait, waits, voluntary, involuntary, migrations;
	bool migrations_known;
};

static uint64_t field(const char *path, const char *name, bool *known)
{
	FILE *f = fopen(path, "re");
	char line[256];
	uint64_t v = 0;
	bool found = false;

	while (f && !found && fgets(line, sizeof(line), f)) {
		size_t n = strlen(name);

		if (!strncmp(line, name, n) && strchr(" :\t", line[n])) {
			v = strtoull(line + strcspn(line, "0123456789"), NULL, 10);
			found = true;
		}
	}
	if (f)
		fclose(f);
	if (known)
		*known = found;
	else
		assert_true(found);
	return v;
}

static bool asleep(pid_t pid, pid_t tid)
{
	char path[64], state = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", pid, tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	if (fscanf(f, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	fclose(f);
	return state == 'S';
}

static void read_oracle(pid_t pid, pid_t tid, struct oracle *o)
{
	unsigned long long run, wait, waits;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	f = fopen(path, "re");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%llu %llu %llu", &run, &wait, &waits), 3);
	fclose(f);
	o->run = run;
	o->wait = wait;
	o->waits = waits;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", pid, tid);
	o->voluntary = field(path, "voluntary_ctxt_switches", NULL);
	o->involuntary = field(path, "nonvoluntary_ctxt_switches", NULL);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/sched", pid, tid);
	o->migrations = field(path, "se.nr_migrations", &o->migrations_known);
}

/*
 * Reads the accounts of a thread that sleeps. Repeats this until the thread has slept during the
 * whole reading.
 */
static struct oracle oracle_of(pid_t pid, pid_t tid)
{
	uint64_t start = base_now_ns();
	struct oracle a, b;

	memset(&a, 0, sizeof(a)); /* including the padding between its members */
	memset(&b, 0, sizeof(b));
	for (;;) {
		assert_true(base_now_ns() - start < PATIENCE);
		if (asleep(pid, tid)) {
			read_oracle(pid, tid, &a);
			read_oracle(pid, tid, &b);
			if (!memcmp(&a, &b, sizeof(a)) && asleep(pid, tid))
				return a;
		}
		pause_ms(2);
	}
}

/* Returns the thread's place in the table, or -1. */
static int64_t slot_of(struct tcp_cpu *c, pid_t tid, struct region_cpu_row *row)
{
	assert_int_equal(tcp_cpu_refresh(c), 0);
	for (uint32_t i = 0; i < tcp_cpu_task_slots(c); i++)
		if (tcp_cpu_task(c, i, row) == 1 && row->pid == (uint32_t)tid && !row->ended)
			return i;
	return -1;
}

/* Lists the threads of a process in ascending order, as in /proc. */
static int threads_of(pid_t pid, pid_t tid[THREADS])
{
	int n = 0;

	for (pid_t t = pid; n < THREADS && t < pid + 10000; t++) {
		char path[64];

		snprintf(path, sizeof(path), "/proc/%d/task/%d", pid, t);
		if (!access(path, F_OK))
			tid[n++] = t;
	}
	return n;
}

static void wait_for_threads(pid_t pid, pid_t tid[THREADS])
{
	uint64_t start = base_now_ns();

	while (threads_of(pid, tid) < THREADS) {
		assert_true(base_now_ns() - start < PATIENCE);
		pause_ms(2);
	}
}

/*
 * Each wait is in the right bucket: the sum is between the sums of the buckets' lower and upper
 * bounds.
 */
static void assert_histogram(const struct region_cpu_numbers *n)
{
	double low = 0, high = 0;
	uint64_t count = 0;

	for (int i = 0; i < SL_CPU_BUCKETS; i++) {
		count += n->wait[i];
		low += i ? (double)n->wait[i] * exp2((i + SL_CPU_BUCKET_FIRST - 1) / 2.0) * 1e9 : 0;
		high += (double)n->wait[i] * exp2((i + SL_CPU_BUCKET_FIRST) / 2.0) * 1e9;
	}
	assert_int_equal(count + n->unplaced, n->waits);
	assert_int_equal(n->unplaced, 0);
	assert_true((double)n->wait_ns >= low * (1 - 1e-9));
	assert_true((double)n->wait_ns <= high * (1 + 1e-9));
}

static struct tcp_cpu *open_cpu(const struct tcp_cpu_opts *given)
{
	struct tcp_cpu_opts o = {0};
	char why[512] = "";
	struct tcp_cpu *c = tcp_cpu_open(given ? given : &o, why, sizeof(why));

	if (!c)
		fail_msg("%s", why);
	return c;
}

/* ---- tasks ---- */

static void assert_row(const struct region_cpu_row *r, const struct oracle *before,
		       const struct oracle *after)
{
	assert_int_equal(r->n.run_ns, after->run - before->run);
	assert_int_equal(r->n.wait_ns, after->wait - before->wait);
	assert_int_equal(r->n.waits, after->waits - before->waits);
	assert_int_equal(r->n.voluntary, after->voluntary - before->voluntary);
	assert_int_equal(r->n.involuntary, after->involuntary - before->involuntary);
	if (after->migrations_known)
		assert_int_equal(r->n.migrations, after->migrations - before->migrations);
	assert_histogram(&r->n);
}

static void a_sleeping_task_matches_schedstat_exactly(void **state)
{
	struct worker older = start_worker(), younger;
	struct oracle before[THREADS], none = {0};
	pid_t old_tid[THREADS], tid[THREADS];
	struct region_cpu_row r, last;
	struct tcp_cpu *c;
	uint64_t waited = 0;

	(void)state;
	wait_for_threads(older.pid, old_tid);
	for (int i = 0; i < THREADS; i++)
		before[i] = oracle_of(older.pid, old_tid[i]);
	c = open_cpu(NULL);
	younger = start_worker();
	wait_for_threads(younger.pid, tid);
	tell(&older, 'w');
	tell(&younger, 'w');
	/* Reads during writes are consistent: no number ever decreases. */
	memset(&last, 0, sizeof(last));
	for (int i = 0; i < 20000; i++) {
		int64_t slot = slot_of(c, younger.pid, &r);

		if (slot < 0)
			continue;
		for (int j = 0; j < 2000; j++, i++) {
			if (tcp_cpu_task(c, (uint32_t)slot, &r) != 1)
				continue;
			assert_true(r.n.run_ns >= last.n.run_ns && r.n.wait_ns >= last.n.wait_ns &&
				    r.n.waits >= last.n.waits);
			last = r;
		}
	}
	hear(&older);
	hear(&younger);
	for (int i = 0; i < THREADS; i++) {
		struct oracle now = oracle_of(younger.pid, tid[i]);

		assert_true(slot_of(c, tid[i], &r) >= 0);
		assert_true(cpus_allowed() < 2 || r.n.migrations > 0);
		assert_int_equal(r.tgid, younger.pid);
		assert_true(r.start_ns > 0);
		assert_true(r.n.run_ns >= 20000000);
		assert_row(&r, &none, &now);
		waited += r.n.wait_ns;
		now = oracle_of(older.pid, old_tid[i]);
		assert_true(slot_of(c, old_tid[i], &r) >= 0);
		assert_int_equal(r.start_ns, 0);
		assert_row(&r, &before[i], &now);
	}
	/* Three threads that need one CPU for 20 ms each must wait for each other. */
	assert_true(waited > 1000000);
	end_worker(&older, NULL);
	end_worker(&younger, NULL);
	tcp_cpu_close(c);
}

/* With real-time priority, so that no other task preempts it, it is never switched. */
static void a_task_that_never_sleeps_is_seen_while_it_runs(void **state)
{
	struct sched_param one = {.sched_priority = 1};
	struct tcp_cpu *c;
	uint64_t start;
	struct region_cpu_row r = {0};
	int go[2];
	pid_t pid;
	char b;

	(void)state;
	if (cpus_allowed() < 2) {
		puts("SKIP: one CPU: the reader would not run beside a task of real-time priority");
		skip();
	}
	c = open_cpu(NULL);
	start = base_now_ns();
	assert_int_equal(pipe(go), 0);
	pid = fork();
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pin(1);
		if (sched_setscheduler(0, SCHED_FIFO, &one) || write(go[1], "x", 1) != 1)
			_exit(1);
		burn(20000);
		_exit(0);
	}
	close(go[1]);
	if (read(go[0], &b, 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		tcp_cpu_close(c);
		puts("SKIP: no real-time priority");
		skip();
	}
	/* Until it is throttled, which takes most of a second, or runs for the second time. */
	for (bool seen = false; !seen;) {
		struct region_cpu_row before = r;

		assert_true(base_now_ns() - start < PATIENCE);
		if (slot_of(c, pid, &r) >= 0)
			seen = before.generation == r.generation && r.n.run_ns > before.n.run_ns &&
			       before.n.run_ns &&
			       r.n.voluntary + r.n.involuntary ==
				       before.n.voluntary + before.n.involuntary &&
			       r.n.waits == before.n.waits;
		pause_ms(3);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(go[0]);
	tcp_cpu_close(c);
}

static void the_last_values_of_a_task_and_its_name_stay(void **state)
{
	struct tcp_cpu *c = open_cpu(NULL);
	struct worker w = start_worker();
	uint64_t start = base_now_ns();
	struct rusage usage;
	struct region_cpu_row r = {0};
	pid_t tid[THREADS];
	int found = 0;
	uint64_t voluntary, involuntary;

	(void)state;
	wait_for_threads(w.pid, tid);
	tell(&w, 'w');
	hear(&w);
	end_worker(&w, &usage);
	while (found < THREADS) {
		assert_true(base_now_ns() - start < PATIENCE);
		found = 0;
		voluntary = involuntary = 0;
		for (uint32_t i = 0; i < tcp_cpu_task_slots(c); i++) {
			if (tcp_cpu_task(c, i, &r) != 1 || r.tgid != (uint32_t)w.pid || !r.ended)
				continue;
			found++;
			voluntary += r.n.voluntary;
			involuntary += r.n.involuntary;
			assert_histogram(&r.n);
			assert_string_equal(r.comm, "test_cpu_comm");
		}
	}
	/*
	 * A thread's switches are added to its process when it is released, before its very last
	 * switch; and it may be preempted in between.
	 */
	assert_in_range(voluntary, (uint64_t)usage.ru_nvcsw, (uint64_t)usage.ru_nvcsw + THREADS);
	assert_true(involuntary >= (uint64_t)usage.ru_nivcsw);
	tcp_cpu_close(c);
}

static void a_full_task_table_loses_no_cgroup_time(void **state)
{
	struct tcp_cpu_opts o = {.tasks = 1};
	struct tcp_cpu *c = open_cpu(&o);
	uint64_t start = base_now_ns(), run = 0, lost[SL_TASK_LOSSES];
	struct worker w = start_worker();
	struct region_cpu_row r;

	(void)state;
	tell(&w, 'w');
	hear(&w);
	end_worker(&w, NULL);
	while (run < 60000000) {
		assert_true(base_now_ns() - start < PATIENCE);
		run = 0;
		for (uint32_t i = 0; i < tcp_cpu_cgroup_slots(c); i++)
			if (tcp_cpu_cgroup(c, i, &r) == 1)
				run += r.n.run_ns;
	}
	assert_int_equal(tcp_cpu_task_slots(c), 1);
	tcp_cpu_losses(c, lost);
	assert_true(lost[SL_TASK_LOSS_TASKS] >= THREADS);
	assert_true(tcp_cpu_task(c, 1, &r) == 0);
	tcp_cpu_close(c);
}

/* ---- cgroups ---- */

static void put(const char *folder, const char *file, long v)
{
	char path[512];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", folder, file);
	f = fopen(path, "we");
	assert_non_null(f);
	fprintf(f, "%ld", v);
	assert_int_equal(fclose(f), 0);
}

static int64_t cgroup_slot(const struct tcp_cpu *c, uint64_t id, struct region_cpu_row *r)
{
	for (uint32_t i = 1; i < tcp_cpu_cgroup_slots(c); i++)
		if (tcp_cpu_cgroup(c, i, r) == 1 && r->cgroup == id)
			return i;
	return -1;
}

/* The inode number of its folder. */
static uint64_t id_of(const char *folder)
{
	struct stat st;

	return stat(folder, &st) ? 0 : st.st_ino;
}

static void a_cgroup_is_what_cpu_stat_says_to_its_end(void **state)
{
	uint64_t lost[SL_TASK_LOSSES];
	struct tcp_cgroup_hierarchy h;
	struct tcp_cgroups_opts who = {.hierarchy = &h};
	struct tcp_cgroups *names;
	struct region_cpu_row r = {0};
	struct tcp_cpu *c;
	struct worker w;
	char folder[400], stat[512], other[512];
	pid_t tid[THREADS];
	uint64_t id, usage, start;
	int64_t slot;

	(void)state;
	if (tcp_cgroup_hierarchy(&h, "unified", NULL, NULL)) {
		puts("SKIP: no unified hierarchy of cgroups, and none can be mounted");
		skip();
	}
	names = tcp_cgroups_open(&who);
	assert_non_null(names);
	snprintf(folder, sizeof(folder), "%s/sl-cpu-%d", h.root, getpid());
	snprintf(stat, sizeof(stat), "%s/cpu.stat", folder);
	assert_int_equal(mkdir(folder, 0755), 0);
	id = id_of(folder);
	assert_true(id > 1);
	c = open_cpu(NULL);
	w = start_worker();
	wait_for_threads(w.pid, tid);
	for (int i = 0; i < THREADS; i++)
		oracle_of(w.pid, tid[i]);
	put(folder, "cgroup.procs", w.pid);
	tell(&w, 'w');
	hear(&w);
	end_worker(&w, NULL);
	/*
	 * A task belongs to its cgroup until its last switch, which is shortly after it was waited
	 * for.
	 */
	start = base_now_ns();
	do {
		assert_true(base_now_ns() - start < PATIENCE);
		slot = cgroup_slot(c, id, &r);
	} while (slot < 0 || r.ended_tasks < THREADS);
	assert_int_equal(r.ended_tasks, THREADS);
	usage = field(stat, "usage_usec", NULL);
	assert_in_range(r.n.run_ns, usage * 1000, usage * 1000 + 999);
	assert_true(r.n.run_ns >= (uint64_t)THREADS * 20000000);
	assert_histogram(&r.n);
	assert_string_equal(tcp_cgroups_find(names, id, 1)->path, folder + strlen(h.root));
	/* Removed: its numbers and its identity stay. */
	assert_int_equal(rmdir(folder), 0);
	assert_int_equal(tcp_cpu_cgroup(c, (uint32_t)slot, &r), 1);
	assert_true(r.ended);
	assert_int_equal(r.cgroup, id);
	assert_in_range(r.n.run_ns, usage * 1000, usage * 1000 + 999);
	assert_true(tcp_cgroups_find(names, id, 60000000000)->dead);
	assert_string_equal(tcp_cgroups_find(names, id, 60000000000)->path,
			    folder + strlen(h.root));
	assert_string_equal(tcp_cgroups_find(names, id, 3600000000000)->path, "");
	assert_string_equal(tcp_cgroups_find(names, 1ull << 60, 2)->path, "");
	/* A cgroup without room is counted in slot 0 with others, and that is counted. */
	tcp_cpu_close(c);
	c = open_cpu(&(struct tcp_cpu_opts){.cgroups = 1});
	snprintf(other, sizeof(other), "%s-2", folder);
	assert_int_equal(mkdir(other, 0755), 0);
	w = start_worker();
	put(other, "cgroup.procs", w.pid);
	tell(&w, 'w');
	hear(&w);
	end_worker(&w, NULL);
	start = base_now_ns();
	do {
		assert_true(base_now_ns() - start < PATIENCE);
		assert_int_equal(tcp_cpu_cgroup(c, 0, &r), 1);
	} while (r.n.run_ns < (uint64_t)THREADS * 20000000);
	tcp_cpu_losses(c, lost);
	assert_true(lost[SL_TASK_LOSS_CGROUPS] > 0);
	assert_int_equal(rmdir(other), 0);
	tcp_cpu_close(c);
	tcp_cgroups_close(names);
}

/* Slots of removed cgroups are reused, a second later and not before. */
static void slots_of_cgroups_are_used_again_after_quarantine(void **state)
{
	struct tcp_cpu_opts o = {.cgroups = 64};
	struct tcp_cgroup_hierarchy h;
	uint64_t start, removed[64] = {0};
	bool again = false;
	struct tcp_cpu *c;

	(void)state;
	if (tcp_cgroup_hierarchy(&h, "unified", NULL, NULL)) {
		puts("SKIP: no unified hierarchy of cgroups, and none can be mounted");
		skip();
	}
	c = open_cpu(&o);
	start = base_now_ns();
	for (int i = 0; !again; i++) {
		struct region_cpu_row r = {0};
		char folder[400];
		uint64_t id;
		int64_t slot = -1;
		pid_t pid;

		assert_true(base_now_ns() - start < PATIENCE);
		snprintf(folder, sizeof(folder), "%s/sl-cpu-%d-%d", h.root, getpid(), i);
		assert_int_equal(mkdir(folder, 0755), 0);
		id = id_of(folder);
		pid = fork();
		if (!pid) {
			put(folder, "cgroup.procs", getpid());
			burn(2);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
		/* While all free slots are too recent, there is none for it. */
		slot = cgroup_slot(c, id, &r);
		while (slot >= 0 && r.ended_tasks < 1 && base_now_ns() - start < PATIENCE)
			slot = cgroup_slot(c, id, &r);
		while (rmdir(folder))
			assert_int_equal(errno, EBUSY);
		if (slot < 0)
			continue;
		assert_int_equal(r.ended_tasks, 1);
		assert_true(r.n.run_ns >= 2000000 && r.n.run_ns < 1000000000);
		if (removed[slot]) {
			assert_true(base_now_ns() - removed[slot] >= 1000000000);
			assert_true(r.generation > 1);
			again = true;
		}
		removed[slot] = base_now_ns();
	}
	tcp_cpu_close(c);
}

/* ---- leaving, and not being let in ---- */

/* Returns ids of the programs of this name that are newer than after. */
static int programs(uint32_t after, uint32_t *ids, int most)
{
	uint32_t id = after;
	int n = 0;

	while (!bpf_prog_get_next_id(id, &id)) {
		struct bpf_prog_info info = {0};
		uint32_t bytes = sizeof(info);
		int fd = bpf_prog_get_fd_by_id(id);

		if (fd < 0)
			continue;
		if (!bpf_obj_get_info_by_fd(fd, &info, &bytes) && !strcmp(info.name, "on_switch") &&
		    n < most)
			ids[n++] = id;
		close(fd);
	}
	return n;
}

static void killed_while_attached_leaves_nothing_in_the_kernel(void **state)
{
	uint64_t start = base_now_ns();
	uint32_t newest = 0, id = 0, ids[16], theirs;
	int ready[2];
	pid_t pid;
	char c;

	(void)state;
	while (!bpf_prog_get_next_id(id, &id))
		newest = id;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		open_cpu(NULL);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(ready[0], &c, 1), 1);
	assert_true(programs(newest, ids, 16) >= 1);
	theirs = ids[0];
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	while (programs(theirs - 1, ids, 16) && ids[0] == theirs) {
		assert_true(base_now_ns() - start < PATIENCE);
		pause_ms(10);
	}
	close(ready[0]);
	close(ready[1]);
}

static void without_permission_it_says_what_is_missing(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		struct tcp_cpu_opts o = {0};
		char why[512] = "";

		if (setuid(65534))
			_exit(1);
		if (tcp_cpu_open(&o, why, sizeof(why)))
			_exit(2);
		if (errno != EPERM)
			_exit(3);
		_exit(strstr(why, "CAP_BPF") && strstr(why, "CAP_PERFMON") ? 0 : 4);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

static void quantiles_are_of_the_buckets(void **state)
{
	struct region_cpu_numbers n = {0}, a = {.run_ns = 5, .wait[3] = 7},
				  b = {.run_ns = 2, .wait[3] = 3};

	(void)state;
	assert_int_equal(region_cpu_wait_quantile(&n, 0.5), 0);
	n.wait[4] = 98; /* (2^-20, 2^-19.5] s */
	n.wait[24] = 2; /* (2^-10, 2^-9.5] */
	assert_int_equal(region_cpu_wait_quantile(&n, 0.5), (uint64_t)(exp2(-19.75) * 1e9));
	assert_int_equal(region_cpu_wait_quantile(&n, 0.98), (uint64_t)(exp2(-19.75) * 1e9));
	assert_int_equal(region_cpu_wait_quantile(&n, 0.99), (uint64_t)(exp2(-9.75) * 1e9));
	assert_int_equal(region_cpu_wait_quantile(&n, 0), (uint64_t)(exp2(-19.75) * 1e9));
	assert_int_equal(region_cpu_wait_quantile(&n, 1), (uint64_t)(exp2(-9.75) * 1e9));
	region_cpu_numbers_sub(&a, &b);
	assert_int_equal(a.run_ns, 3);
	assert_int_equal(a.wait[3], 4);
}

/* Removes cgroups of failed tests, with the processes left in them. */
static void remove_cgroups(void)
{
	struct tcp_cgroup_hierarchy h;
	uint64_t start = base_now_ns();
	char pattern[400], file[512];
	glob_t found;

	if (tcp_cgroup_hierarchy(&h, "unified", NULL, NULL))
		return;
	snprintf(pattern, sizeof(pattern), "%s/sl-cpu-%d*", h.root, getpid());
	if (!glob(pattern, 0, NULL, &found)) {
		for (size_t i = 0; i < found.gl_pathc; i++) {
			FILE *f;

			snprintf(file, sizeof(file), "%s/cgroup.kill", found.gl_pathv[i]);
			f = fopen(file, "we");
			if (f) {
				fputs("1", f);
				fclose(f);
			}
			while (rmdir(found.gl_pathv[i]) && errno == EBUSY &&
			       base_now_ns() - start < PATIENCE)
				pause_ms(10);
		}
		globfree(&found);
	}
}

static int clean_up(void **state)
{
	(void)state;
	remove_cgroups();
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantiles_are_of_the_buckets),
		cmocka_unit_test(a_sleeping_task_matches_schedstat_exactly),
		cmocka_unit_test(a_task_that_never_sleeps_is_seen_while_it_runs),
		cmocka_unit_test(the_last_values_of_a_task_and_its_name_stay),
		cmocka_unit_test(a_full_task_table_loses_no_cgroup_time),
		cmocka_unit_test(a_cgroup_is_what_cpu_stat_says_to_its_end),
		cmocka_unit_test(slots_of_cgroups_are_used_again_after_quarantine),
		cmocka_unit_test(killed_while_attached_leaves_nothing_in_the_kernel),
		cmocka_unit_test(without_permission_it_says_what_is_missing),
	};
	struct tcp_cpu_opts o = {0};
	char why[512];
	struct tcp_cpu *c = tcp_cpu_open(&o, why, sizeof(why));

	if (!c && (errno == EPERM || errno == ENOENT)) {
		printf("SKIP: %s\n", why);
		return 77;
	}
	tcp_cpu_close(c);
	return cmocka_run_group_tests(tests, NULL, clean_up);
}
