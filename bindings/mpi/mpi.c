// SPDX-License-Identifier: Apache-2.0
/*
 * mpi.c - counts the MPI calls of a rank, by the profiling interface (MPI 3.1, chapter 14): each
 * function here replaces MPI_..., and calls PMPI_.... Built once per implementation, because their
 * ABIs differ.
 *
 * The library is not linked with MPI, and looks up each symbol of it: preloaded, it is also in the
 * shells and launchers around a rank, which have no MPI, and in interpreters that load it later.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <mpi.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/sidelight.h>

#include "span.h" /* sl__ticks() and the rate of its ticks */

/* ---- the MPI library ---- */

static void *find_symbol(const char *name)
{
	static const char *const libraries[] = {
#ifdef OPEN_MPI
		"libmpi.so.40",
#else
		"libmpich.so.12",
		"libmpi.so.12",
#endif
	};
	void *found = dlsym(RTLD_DEFAULT, name), *library;

	for (size_t i = 0; !found && i < sizeof(libraries) / sizeof(*libraries); i++) {
		library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
		found = library ? dlsym(library, name) : NULL;
	}
	return found;
}

/* The function PMPI_NAME, which is there because its MPI_NAME was called. */
#define REAL(NAME)                                                              \
	({                                                                      \
		static __typeof__(&PMPI_##NAME) real;                           \
		__typeof__(real) is = __atomic_load_n(&real, __ATOMIC_RELAXED); \
                                                                                \
		if (__builtin_expect(!is, 0)) {                                 \
			is = (__typeof__(real))find_symbol("PMPI_" #NAME);      \
			__atomic_store_n(&real, is, __ATOMIC_RELAXED);          \
		}                                                               \
		is;                                                             \
	})

/* With Open MPI, these constants are addresses in its library. */
static MPI_Comm world;
static MPI_Datatype byte;
static MPI_Request no_request;

static void find_constants(void)
{
#ifdef OPEN_MPI
	world = find_symbol("ompi_mpi_comm_world");
	byte = find_symbol("ompi_mpi_byte");
	no_request = find_symbol("ompi_request_null");
#else
	world = MPI_COMM_WORLD;
	byte = MPI_BYTE;
	no_request = MPI_REQUEST_NULL;
#endif
}

/* ---- the publisher ---- */

static struct sl_publisher *publisher;
static struct sl_counter sent, received, collective_bytes, sampled_faults, sampled_preemptions;
static struct sl_counter_f64 cpu, sampled, sampled_cpu;
static struct sl_gauge memory_peak;
static struct sl_histogram step, collective;
static double seconds_per_tick = 1e-9;
static bool has_ticks;
static _Atomic bool publishing;

/* Per thread, in ticks. */
static __thread struct {
	uint64_t collective_end; /* 0 before the first one */
	uint64_t other;		 /* time in other calls since collective_end */
} self __attribute__((tls_model("initial-exec")));

/*
 * A thread's sample of its own work: one segment between two calls. Segments are chosen by number,
 * because a choice by time would prefer the segments that follow long ones. Per thread.
 */
static __thread struct {
	uint32_t left, every; /* segments until the next sample, and on average */
	uint32_t random;
	uint64_t begin; /* begin of the last sample, in ticks */
	bool on;
	struct rusage before;
} sample __attribute__((tls_model("initial-exec")));

static inline uint64_t now(void)
{
	return has_ticks ? sl__ticks() : sl__monotonic_ns();
}

/* The rate of the ticks is known after 10 ms. MPI_Init() usually takes longer than that. */
static void start_clock(void)
{
	for (int i = 0; i < 2 && !has_ticks; i++) {
		if (i)
			nanosleep(&(struct timespec){.tv_nsec = 11000000}, NULL);
		sl__clock_refresh();
		has_ticks = atomic_load(&sl__clock_state.source) == SL__CLOCK_TICKS;
	}
	if (has_ticks)
		seconds_per_tick =
			(double)sl__clock_state.rate[atomic_load(&sl__clock_state.turn) % 8].mult *
			0x1p-32 * 1e-9;
}

/* Returns the value of the first variable that is set and fits a label; NULL if there is none. */
static const char *find_variable(const char *const *names)
{
	for (; *names; names++) {
		const char *value = getenv(*names);

		if (value && *value && strlen(value) <= SL_LABEL_VALUE_MAX)
			return value;
	}
	return NULL;
}

static void add_label(struct sl_publisher_opts *o, struct sl_label *labels, const char *key,
		      const char *value)
{
	if (value)
		labels[o->label_count++] = (struct sl_label){key, value};
}

#define CREATE(kind, unit_, name_, help_, mirror_)                                           \
	sl_##kind##_create(publisher, &SL_OPTS(sl_metric_opts, .name = name_, .unit = unit_, \
					       .help = help_, .mirror = mirror_))

static void open_usage(void)
{
	cpu = CREATE(counter_f64, "seconds", "mpi_cpu_seconds_total", "CPU time of the rank.",
		     true);
	memory_peak = CREATE(gauge, "bytes", "mpi_memory_peak_bytes",
			     "Largest resident set of the rank.", false);
	sampled = CREATE(counter_f64, "seconds", "mpi_sampled_seconds_total",
			 "Own work between calls that was sampled.", false);
	sampled_cpu = CREATE(counter_f64, "seconds", "mpi_sampled_cpu_seconds_total",
			     "CPU time in sampled own work.", false);
	sampled_faults = CREATE(counter, NULL, "mpi_sampled_major_faults_total",
				"Major page faults in sampled own work.", false);
	sampled_preemptions = CREATE(counter, NULL, "mpi_sampled_preemptions_total",
				     "Involuntary context switches in sampled own work.", false);
}

static void open_publisher(void)
{
	static const char *const service[] = {"SIDELIGHT_SERVICE", "SLURM_JOB_NAME", NULL};
	static const char *const job[] = {"SLURM_JOB_ID", "PMIX_NAMESPACE", NULL};
	static const char *const job_step[] = {"SLURM_STEP_ID", NULL};
	static const char *const node[] = {"SLURMD_NODENAME", NULL};
	static const char *const user[] = {"SLURM_JOB_USER", NULL};
	struct sl_label labels[5];
	char rank[16], pod[32], uid[16], host[256] = "";
	struct sl_publisher_opts o = {.sz = sizeof(o), .pod = pod, .labels = labels};
	int is_initialised = 0, number;

	find_constants();
	if (REAL(Initialized)(&is_initialised) || !is_initialised ||
	    REAL(Comm_rank)(world, &number))
		return;
	snprintf(rank, sizeof(rank), "%d", number);
	snprintf(pod, sizeof(pod), "rank-%d", number);
	gethostname(host, sizeof(host) - 1);
	add_label(&o, labels, "rank", rank);
	o.service = find_variable(service);
	add_label(&o, labels, "job", find_variable(job));
	add_label(&o, labels, "step", find_variable(job_step));
	add_label(&o, labels, "node", find_variable(node) ?: (*host ? host : NULL));
	/* Looking up the user's name could ask a server. */
	snprintf(uid, sizeof(uid), "%u", geteuid());
	add_label(&o, labels, "user", find_variable(user) ?: uid);
	publisher = sl_publisher_open(&o);
	if (!publisher && errno == EINVAL) { /* a variable is not UTF-8 */
		o.service = NULL;
		o.label_count = 1;
		publisher = sl_publisher_open(&o);
	}
	if (!publisher)
		return;
	sent = sl_counter_create(
		publisher,
		&SL_OPTS(sl_metric_opts, .name = "mpi_bytes_total", .unit = "bytes",
			 .help = "Bytes of point-to-point messages.",
			 .labels = (struct sl_label[]){{"direction", "sent"}}, .label_count = 1));
	received = sl_counter_create(
		publisher, &SL_OPTS(sl_metric_opts, .name = "mpi_bytes_total", .unit = "bytes",
				    .help = "Bytes of point-to-point messages.",
				    .labels = (struct sl_label[]){{"direction", "received"}},
				    .label_count = 1));
	collective_bytes = CREATE(counter, "bytes", "mpi_collective_bytes_total",
				  "Bytes that the rank contributed to collectives.", false);
	step = CREATE(histogram, "seconds", "mpi_step_seconds",
		      "Time between two collectives without other MPI calls.", false);
	collective = CREATE(histogram, "seconds", "mpi_collective_seconds",
			    "Time within a collective.", false);
	open_usage();
	sl__clock_start();
	start_clock();
	atomic_store_explicit(&publishing, true, memory_order_release);
}

/*
 * Also called by the first call of a rank, because Fortran's MPI_INIT of MPICH calls REAL(Init)().
 */
static bool is_publishing(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, open_publisher);
	return atomic_load_explicit(&publishing, memory_order_relaxed);
}

/* ---- calls ---- */

/* A function of MPI. Its series begin with its first call. */
struct call {
	const char *name;
	_Atomic bool ready;
	struct sl_counter calls;
	struct sl_counter_f64 seconds;
};

static __attribute__((noinline)) void create_series(struct call *c)
{
	struct sl_label label = {"call", c->name};
	/* Two threads that do this at once get the same handles. */
	struct sl_counter calls = sl_counter_create(
		publisher, &SL_OPTS(sl_metric_opts, .name = "mpi_calls_total",
				    .help = "Calls of MPI functions that have returned.",
				    .labels = &label, .label_count = 1));
	struct sl_counter_f64 seconds = sl_counter_f64_create(
		publisher,
		&SL_OPTS(sl_metric_opts, .name = "mpi_seconds_total", .unit = "seconds",
			 .help = "Time within MPI functions.", .labels = &label, .label_count = 1));

	__atomic_store_n(&c->calls.bits, calls.bits, __ATOMIC_RELAXED);
	__atomic_store_n(&c->seconds.bits, seconds.bits, __ATOMIC_RELAXED);
	/* Pairs with the acquire in count_call(). */
	atomic_store_explicit(&c->ready, true, memory_order_release);
}

static inline void count_call(struct call *c, uint64_t took)
{
	if (__builtin_expect(!atomic_load_explicit(&c->ready, memory_order_acquire), 0))
		create_series(c);
	sl_counter_inc(c->calls);
	sl_counter_f64_add(c->seconds, (double)took * seconds_per_tick);
}

/*
 * Counts the segments that the process's TCP connections retransmitted. A lossy path delays its
 * rank within calls of MPI, where all other ranks wait as well, so times do not tell whose path it
 * is. Called by one thread at a time. If a connection was closed since the last look, its total is
 * missing in the sum, so what was retransmitted in that interval may not be counted.
 */
static void look_at_connections(void)
{
	static struct sl_counter retransmitted;
	static uint64_t last;
	DIR *fds = opendir("/proc/self/fd");
	bool found = false;
	uint64_t sum = 0;

	if (!fds)
		return;
	for (struct dirent *e; (e = readdir(fds));) {
		struct tcp_info info;
		socklen_t bytes = sizeof(info);

		/* Fails at once for whatever is not a TCP socket. */
		if (getsockopt(atoi(e->d_name), IPPROTO_TCP, TCP_INFO, &info, &bytes) ||
		    bytes < sizeof(info) || info.tcpi_state == TCP_LISTEN)
			continue;
		found = true;
		sum += info.tcpi_total_retrans;
	}
	closedir(fds);
	if (found && !retransmitted.bits)
		retransmitted = CREATE(counter, NULL, "mpi_retransmitted_segments_total",
				       "Segments that the rank's TCP connections retransmitted.",
				       false);
	if (sum > last)
		sl_counter_add(retransmitted, sum - last);
	last = sum;
}

/* Looks once per second, or more rarely, so that it takes less than a thousandth of the time. */
static void look_if_due(uint64_t at)
{
	static _Atomic uint64_t due; /* next look, in ticks; UINT64_MAX while a thread looks */
	uint64_t was = atomic_load_explicit(&due, memory_order_relaxed);
	double took;

	if (at < was || !atomic_compare_exchange_strong(&due, &was, UINT64_MAX))
		return;
	look_at_connections();
	took = (double)(now() - at) * seconds_per_tick;
	atomic_store(&due, at + (uint64_t)((took > 1e-3 ? 1000 * took : 1) / seconds_per_tick));
}

static double cpu_of(const struct rusage *u)
{
	return (double)(u->ru_utime.tv_sec + u->ru_stime.tv_sec) +
	       1e-6 * (double)(u->ru_utime.tv_usec + u->ru_stime.tv_usec);
}

/*
 * A sample costs two system calls, and there are at most about 1,000 per second: if there would be
 * more, every n-th segment is sampled, with a random n around `every`.
 */
static __attribute__((noinline)) void begin_sample(uint64_t at)
{
	const bool often = (double)(at - sample.begin) * seconds_per_tick < 1e-3;

	getrusage(RUSAGE_SELF, &sample.before);
	sample.every = often ? (sample.every < 1 << 20 ? 2 * sample.every + 1 : sample.every)
			     : sample.every / 2;
	sample.random = sample.random * 1664525 + 1013904223; /* Numerical Recipes, 7.1 */
	sample.left = sample.every ? (sample.random >> 8) % (2 * sample.every + 1) : 0;
	sample.begin = at;
	sample.on = true;
}

static __attribute__((noinline)) void end_sample(uint64_t at)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	sample.on = false;
	sl_counter_f64_add(sampled, (double)(at - sample.begin) * seconds_per_tick);
	sl_counter_f64_add(sampled_cpu, cpu_of(&u) - cpu_of(&sample.before));
	sl_counter_add(sampled_faults, (uint64_t)(u.ru_majflt - sample.before.ru_majflt));
	sl_counter_add(sampled_preemptions, (uint64_t)(u.ru_nivcsw - sample.before.ru_nivcsw));
	sl_counter_f64_mirror(cpu, cpu_of(&u));
	sl_gauge_set(memory_peak, u.ru_maxrss * 1024);
	look_if_due(at);
}

/* Returns the time, or 0 if this process does not publish. */
static inline uint64_t begin_call(void)
{
	uint64_t begin;

	/* Pairs with the release in open_publisher(). */
	if (__builtin_expect(!atomic_load_explicit(&publishing, memory_order_acquire), 0) &&
	    !is_publishing())
		return 0;
	begin = now();
	if (__builtin_expect(sample.on, 0))
		end_sample(begin);
	return begin;
}

/* Called at the end of a call, when own work begins. */
static inline void begin_work(uint64_t at)
{
	if (sample.left)
		sample.left--;
	else if (self.collective_end)
		begin_sample(at);
}

static inline void end_call(struct call *c, uint64_t begin)
{
	uint64_t took;

	if (!begin)
		return;
	took = now() - begin;
	self.other += took;
	count_call(c, took);
	begin_work(begin + took);
}

static inline uint64_t begin_collective(void)
{
	uint64_t begin = begin_call();

	if (begin && self.collective_end) {
		uint64_t own = begin - self.collective_end - self.other;

		/* Counters of two processors may differ by some ticks. */
		sl_histogram_observe(step, (int64_t)own > 0 ? (double)own * seconds_per_tick : 0);
	}
	return begin;
}

static inline void end_collective(struct call *c, uint64_t begin)
{
	uint64_t end, took;

	if (!begin)
		return;
	end = now();
	took = end - begin;
	sl_histogram_observe(collective, (double)took * seconds_per_tick);
	self.collective_end = end;
	self.other = 0;
	count_call(c, took);
	begin_work(end);
}

/* ---- bytes ---- */

/*
 * The arguments are those of a call that succeeded: only then do these functions never run an
 * error handler.
 */
static uint64_t bytes_of(MPI_Count count, MPI_Datatype type)
{
	MPI_Count size = 0;

	return !REAL(Type_size_x)(type, &size) && size > 0 ? (uint64_t)(count * size) : 0;
}

static inline void count_sent(int count, MPI_Datatype type, int to)
{
	if (to != MPI_PROC_NULL)
		sl_counter_add(sent, bytes_of(count, type));
}

static void count_received(MPI_Status *status)
{
	MPI_Count bytes = 0;
	int cancelled = 0;

	if (!REAL(Test_cancelled)(status, &cancelled) && !cancelled &&
	    !REAL(Get_elements_x)(status, byte, &bytes) && bytes > 0)
		sl_counter_add(received, (uint64_t)bytes);
}

static inline void count_collective(uint64_t bytes)
{
	sl_counter_add(collective_bytes, bytes);
}

static int size_of(MPI_Comm comm)
{
	int n = 0;

	REAL(Comm_size)(comm, &n);
	return n;
}

static int rank_in(MPI_Comm comm)
{
	int rank = 0;

	REAL(Comm_rank)(comm, &rank);
	return rank;
}

static bool is_inter(MPI_Comm comm)
{
	int inter = 0;

	REAL(Comm_test_inter)(comm, &inter);
	return inter;
}

/* Returns the number of ranks that this one sends to in a collective. */
static int peers_in(MPI_Comm comm)
{
	int n = 0;

	if (!is_inter(comm))
		return size_of(comm);
	REAL(Comm_remote_size)(comm, &n);
	return n;
}

/* True if this rank is the root. Between groups, root is MPI_ROOT there. */
static bool is_root(int root, MPI_Comm comm)
{
	return root == MPI_ROOT || (root >= 0 && !is_inter(comm) && root == rank_in(comm));
}

static uint64_t sum_of(const int *counts, int n)
{
	uint64_t sum = 0;

	for (int i = 0; i < n; i++)
		sum += (uint64_t)counts[i];
	return sum;
}

static uint64_t bytes_of_all(const int *counts, int n, MPI_Datatype type)
{
	return bytes_of((MPI_Count)sum_of(counts, n), type);
}

/* For each collective: the bytes that this rank contributes (README.md). */
static uint64_t bytes_of_bcast(int count, MPI_Datatype type, int root)
{
	return root == MPI_PROC_NULL ? 0 : bytes_of(count, type);
}

static uint64_t bytes_of_reduce(int count, MPI_Datatype type, int root)
{
	return root == MPI_PROC_NULL || root == MPI_ROOT ? 0 : bytes_of(count, type);
}

static uint64_t bytes_of_gather(const void *from, int count, MPI_Datatype type, int to_count,
				MPI_Datatype to_type, int root)
{
	if (root == MPI_PROC_NULL || root == MPI_ROOT)
		return 0;
	return from == MPI_IN_PLACE ? bytes_of(to_count, to_type) : bytes_of(count, type);
}

static uint64_t bytes_of_scatter(int count, MPI_Datatype type, int to_count, MPI_Datatype to_type,
				 int root, MPI_Comm comm)
{
	if (root == MPI_PROC_NULL)
		return 0;
	return is_root(root, comm) ? bytes_of((MPI_Count)count * peers_in(comm), type)
				   : bytes_of(to_count, to_type);
}

static uint64_t bytes_of_scatterv(const int *counts, MPI_Datatype type, int to_count,
				  MPI_Datatype to_type, int root, MPI_Comm comm)
{
	if (root == MPI_PROC_NULL)
		return 0;
	return is_root(root, comm) ? bytes_of_all(counts, peers_in(comm), type)
				   : bytes_of(to_count, to_type);
}

static uint64_t bytes_of_alltoall(const void *from, int count, MPI_Datatype type, int to_count,
				  MPI_Datatype to_type, MPI_Comm comm)
{
	MPI_Count n = peers_in(comm);

	return from == MPI_IN_PLACE ? bytes_of(n * to_count, to_type) : bytes_of(n * count, type);
}

static uint64_t bytes_of_alltoallw(const void *from, const int *counts, const MPI_Datatype *types,
				   const int *to_counts, const MPI_Datatype *to_types,
				   MPI_Comm comm)
{
	uint64_t bytes = 0;
	bool in_place = from == MPI_IN_PLACE;

	for (int i = 0, n = peers_in(comm); i < n; i++)
		bytes += in_place ? bytes_of(to_counts[i], to_types[i])
				  : bytes_of(counts[i], types[i]);
	return bytes;
}

/* ---- receives that are not complete ---- */

/*
 * The size of a message is known when its receive completes, and a completed send has no size: so
 * the requests of receives are kept until then. A request is in one of two neighbouring lines of a
 * hash table; if both are full, its bytes are not counted. Relaxed: a program that passes a request
 * to another thread orders the two. A request is removed before the call that may free it, after
 * which another thread may get the same handle.
 */
#define LINE_SLOTS 8u
#define LINE_BITS  13u
static _Atomic uint64_t receives[1u << LINE_BITS][LINE_SLOTS] __attribute__((aligned(64)));

static inline uint64_t key_of(MPI_Request request)
{
#ifdef OPEN_MPI
	return (uintptr_t)request;
#else
	return (uint32_t)request;
#endif
}

/* Replaces one `old` of the key's lines by `new`. Returns false if there is none. */
static bool replace_receive(uint64_t key, uint64_t old, uint64_t new)
{
	uint64_t line = key * 0x9e3779b97f4a7c15u >> (64 - LINE_BITS);

	for (uint64_t i = 0; i < 2; i++) {
		_Atomic uint64_t *slots = receives[(line + i) % (1u << LINE_BITS)];

		for (uint64_t j = 0; j < LINE_SLOTS; j++) {
			uint64_t is = old;

			if (atomic_load_explicit(&slots[j], memory_order_relaxed) == old &&
			    atomic_compare_exchange_strong_explicit(&slots[j], &is, new,
								    memory_order_relaxed,
								    memory_order_relaxed))
				return true;
		}
	}
	return false;
}

static void keep_receive(MPI_Request request)
{
	if (request != no_request)
		replace_receive(key_of(request), 0, key_of(request));
}

static bool take_receive(MPI_Request request)
{
	return request != no_request && replace_receive(key_of(request), key_of(request), 0);
}

/* Copies of the requests of a call such as MPI_Waitall(), which clears those that complete. */
#define FEW 32
struct pending {
	int n; /* 0 if none of the requests is a receive */
	MPI_Request *was;
	MPI_Status *status;
	void *heap;
	MPI_Request few[FEW];
	MPI_Status few_status[FEW];
};

/* statuses: the caller's, or MPI_STATUSES_IGNORE; p->status is what to call MPI with. */
static void take_pending(struct pending *p, int n, const MPI_Request *requests,
			 MPI_Status *statuses)
{
	bool found = false;

	p->n = 0;
	p->was = p->few;
	p->status = statuses;
	p->heap = NULL;
	if (n <= 0 || !requests)
		return;
	if (n > FEW) {
		p->heap = malloc((size_t)n * (sizeof(MPI_Request) + sizeof(MPI_Status)));
		p->was = p->heap;
		if (!p->heap)
			return;
	}
	for (int i = 0; i < n; i++) {
		bool is = take_receive(requests[i]);

		p->was[i] = is ? requests[i] : no_request;
		found |= is;
	}
	if (!found)
		return;
	p->n = n;
	if (statuses == MPI_STATUSES_IGNORE)
		p->status = p->heap ? (MPI_Status *)(p->was + n) : p->few_status;
}

/* A completed request is MPI_REQUEST_NULL; the others are still pending. */
static void keep_pending(struct pending *p, const MPI_Request *requests)
{
	for (int i = 0; i < p->n; i++)
		if (requests[i] != no_request)
			keep_receive(p->was[i]);
	free(p->heap);
}

static void count_all(struct pending *p)
{
	for (int i = 0; i < p->n; i++)
		if (p->was[i] != no_request)
			count_received(&p->status[i]);
}

static void count_one(struct pending *p, int index)
{
	if (index >= 0 && index < p->n && p->was[index] != no_request)
		count_received(p->status);
}

static void count_some(struct pending *p, int n, const int *indices)
{
	for (int i = 0; i < n && p->n; i++)
		if (p->was[indices[i]] != no_request)
			count_received(&p->status[i]);
}

/* ---- start ---- */

int MPI_Init(int *argc, char ***argv)
{
	int error;

	sl__clock_start();
	error = REAL(Init)(argc, argv);
	if (!error)
		is_publishing();
	return error;
}

int MPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
	int error;

	sl__clock_start();
	error = REAL(Init_thread)(argc, argv, required, provided);
	if (!error)
		is_publishing();
	return error;
}

/* ---- point-to-point ---- */

/* Defines MPI_NAME. COUNT runs after a successful call. */
#define CALL(NAME, PARAMETERS, ARGUMENTS, COUNT)                  \
	int MPI_##NAME PARAMETERS                                 \
	{                                                         \
		static struct call call = {.name = "MPI_" #NAME}; \
		uint64_t begin = begin_call();                    \
		int error = REAL(NAME) ARGUMENTS;                 \
                                                                  \
		end_call(&call, begin);                           \
		if (begin && !error) {                            \
			COUNT;                                    \
		}                                                 \
		return error;                                     \
	}

#define SEND(NAME)                                                                            \
	CALL(NAME,                                                                            \
	     (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm), \
	     (buf, count, type, to, tag, comm), count_sent(count, type, to))

SEND(Send)
SEND(Bsend)
SEND(Rsend)
SEND(Ssend)

#define ISEND(NAME)                                                                          \
	CALL(NAME,                                                                           \
	     (const void *buf, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
	      MPI_Request *request),                                                         \
	     (buf, count, type, to, tag, comm, request), count_sent(count, type, to))

ISEND(Isend)
ISEND(Ibsend)
ISEND(Irsend)
ISEND(Issend)

/* The same for a function that sets one status, which is `to` in the arguments. */
#define RECEIVE(NAME, PARAMETERS, ARGUMENTS, COUNT)                                 \
	int MPI_##NAME PARAMETERS                                                   \
	{                                                                           \
		static struct call call = {.name = "MPI_" #NAME};                   \
		MPI_Status own, *got = status == MPI_STATUS_IGNORE ? &own : status; \
		uint64_t begin = begin_call();                                      \
		int error = REAL(NAME) ARGUMENTS;                                   \
                                                                                    \
		end_call(&call, begin);                                             \
		if (begin && !error) {                                              \
			COUNT;                                                      \
			count_received(got);                                        \
		}                                                                   \
		return error;                                                       \
	}

RECEIVE(Recv,
	(void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
	 MPI_Status *status),
	(buf, count, type, from, tag, comm, got), (void)0)
RECEIVE(Mrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status),
	(buf, count, type, message, got), (void)0)
RECEIVE(Sendrecv,
	(const void *buf, int count, MPI_Datatype type, int to, int tag, void *in, int in_count,
	 MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm, MPI_Status *status),
	(buf, count, type, to, tag, in, in_count, in_type, from, in_tag, comm, got),
	count_sent(count, type, to))
RECEIVE(Sendrecv_replace,
	(void *buf, int count, MPI_Datatype type, int to, int tag, int from, int in_tag,
	 MPI_Comm comm, MPI_Status *status),
	(buf, count, type, to, tag, from, in_tag, comm, got), count_sent(count, type, to))

CALL(Irecv,
     (void *buf, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
      MPI_Request *request),
     (buf, count, type, from, tag, comm, request), keep_receive(*request))
CALL(Imrecv, (void *buf, int count, MPI_Datatype type, MPI_Message *message, MPI_Request *request),
     (buf, count, type, message, request), keep_receive(*request))
CALL(Probe, (int from, int tag, MPI_Comm comm, MPI_Status *status), (from, tag, comm, status), )
CALL(Iprobe, (int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status),
     (from, tag, comm, flag, status), )

/* ---- completion ---- */

#define COMPLETE(NAME, PARAMETERS, ARGUMENTS, N, REQUESTS, STATUSES, COUNT) \
	int MPI_##NAME PARAMETERS                                           \
	{                                                                   \
		static struct call call = {.name = "MPI_" #NAME};           \
		struct pending p;                                           \
		uint64_t begin = begin_call();                              \
		int error;                                                  \
                                                                            \
		take_pending(&p, begin ? N : 0, REQUESTS, STATUSES);        \
		error = REAL(NAME) ARGUMENTS;                               \
		end_call(&call, begin);                                     \
		if (!error) {                                               \
			COUNT;                                              \
		}                                                           \
		keep_pending(&p, REQUESTS);                                 \
		return error;                                               \
	}

COMPLETE(Wait, (MPI_Request * request, MPI_Status *status), (request, p.status), 1, request, status,
	 count_one(&p, 0))
COMPLETE(Waitall, (int n, MPI_Request requests[], MPI_Status statuses[]), (n, requests, p.status),
	 n, requests, statuses, count_all(&p))
COMPLETE(Waitany, (int n, MPI_Request requests[], int *index, MPI_Status *status),
	 (n, requests, index, p.status), n, requests, status, count_one(&p, *index))
COMPLETE(Waitsome, (int n, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
	 (n, requests, done, indices, p.status), n, requests, statuses,
	 count_some(&p, *done, indices))
COMPLETE(Test, (MPI_Request * request, int *flag, MPI_Status *status), (request, flag, p.status), 1,
	 request, status, if (*flag) count_one(&p, 0))
COMPLETE(Testall, (int n, MPI_Request requests[], int *flag, MPI_Status statuses[]),
	 (n, requests, flag, p.status), n, requests, statuses, if (*flag) count_all(&p))
COMPLETE(Testany, (int n, MPI_Request requests[], int *index, int *flag, MPI_Status *status),
	 (n, requests, index, flag, p.status), n, requests, status,
	 if (*flag) count_one(&p, *index))
COMPLETE(Testsome, (int n, MPI_Request requests[], int *done, int indices[], MPI_Status statuses[]),
	 (n, requests, done, indices, p.status), n, requests, statuses,
	 count_some(&p, *done, indices))

int MPI_Request_free(MPI_Request *request)
{
	if (request)
		take_receive(*request);
	return REAL(Request_free)(request);
}

/* ---- collectives ---- */

#define BLOCKING(NAME, PARAMETERS, ARGUMENTS, BYTES)              \
	int MPI_##NAME PARAMETERS                                 \
	{                                                         \
		static struct call call = {.name = "MPI_" #NAME}; \
		uint64_t begin = begin_collective();              \
		int error = REAL(NAME) ARGUMENTS;                 \
                                                                  \
		end_collective(&call, begin);                     \
		if (begin && !error)                              \
			count_collective(BYTES);                  \
		return error;                                     \
	}

/* Defines MPI_NAME and the nonblocking MPI_INAME. P and A take the lists apart. */
#define P(...) __VA_ARGS__
#define BOTH(NAME, INAME, PARAMETERS, ARGUMENTS, BYTES)                        \
	BLOCKING(NAME, (PARAMETERS), (ARGUMENTS), BYTES)                       \
	CALL(INAME, (PARAMETERS, MPI_Request * request), (ARGUMENTS, request), \
	     count_collective(BYTES))

BOTH(Barrier, Ibarrier, P(MPI_Comm comm), P(comm), 0)
BOTH(Bcast, Ibcast, P(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm),
     P(buf, count, type, root, comm), bytes_of_bcast(count, type, root))
BOTH(Reduce, Ireduce,
     P(const void *buf, void *in, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm),
     P(buf, in, count, type, op, root, comm), bytes_of_reduce(count, type, root))
BOTH(Allreduce, Iallreduce,
     P(const void *buf, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     P(buf, in, count, type, op, comm), bytes_of(count, type))
BOTH(Scan, Iscan,
     P(const void *buf, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     P(buf, in, count, type, op, comm), bytes_of(count, type))
BOTH(Exscan, Iexscan,
     P(const void *buf, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     P(buf, in, count, type, op, comm), bytes_of(count, type))
BOTH(Reduce_scatter, Ireduce_scatter,
     P(const void *buf, void *in, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     P(buf, in, counts, type, op, comm), bytes_of_all(counts, size_of(comm), type))
BOTH(Reduce_scatter_block, Ireduce_scatter_block,
     P(const void *buf, void *in, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
     P(buf, in, count, type, op, comm), bytes_of((MPI_Count)count *size_of(comm), type))
BOTH(Gather, Igather,
     P(const void *buf, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
       int root, MPI_Comm comm),
     P(buf, count, type, in, in_count, in_type, root, comm),
     bytes_of_gather(buf, count, type, in_count, in_type, root))
BOTH(Gatherv, Igatherv,
     P(const void *buf, int count, MPI_Datatype type, void *in, const int in_counts[],
       const int at[], MPI_Datatype in_type, int root, MPI_Comm comm),
     P(buf, count, type, in, in_counts, at, in_type, root, comm),
     bytes_of_gather(buf, count, type, buf == MPI_IN_PLACE ? in_counts[rank_in(comm)] : 0, in_type,
		     root))
BOTH(Allgather, Iallgather,
     P(const void *buf, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
       MPI_Comm comm),
     P(buf, count, type, in, in_count, in_type, comm),
     bytes_of_gather(buf, count, type, in_count, in_type, 0))
BOTH(Allgatherv, Iallgatherv,
     P(const void *buf, int count, MPI_Datatype type, void *in, const int in_counts[],
       const int at[], MPI_Datatype in_type, MPI_Comm comm),
     P(buf, count, type, in, in_counts, at, in_type, comm),
     bytes_of_gather(buf, count, type, buf == MPI_IN_PLACE ? in_counts[rank_in(comm)] : 0, in_type,
		     0))
BOTH(Scatter, Iscatter,
     P(const void *buf, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
       int root, MPI_Comm comm),
     P(buf, count, type, in, in_count, in_type, root, comm),
     bytes_of_scatter(count, type, in_count, in_type, root, comm))
BOTH(Scatterv, Iscatterv,
     P(const void *buf, const int counts[], const int at[], MPI_Datatype type, void *in,
       int in_count, MPI_Datatype in_type, int root, MPI_Comm comm),
     P(buf, counts, at, type, in, in_count, in_type, root, comm),
     bytes_of_scatterv(counts, type, in_count, in_type, root, comm))
BOTH(Alltoall, Ialltoall,
     P(const void *buf, int count, MPI_Datatype type, void *in, int in_count, MPI_Datatype in_type,
       MPI_Comm comm),
     P(buf, count, type, in, in_count, in_type, comm),
     bytes_of_alltoall(buf, count, type, in_count, in_type, comm))
BOTH(Alltoallv, Ialltoallv,
     P(const void *buf, const int counts[], const int at[], MPI_Datatype type, void *in,
       const int in_counts[], const int in_at[], MPI_Datatype in_type, MPI_Comm comm),
     P(buf, counts, at, type, in, in_counts, in_at, in_type, comm),
     buf == MPI_IN_PLACE ? bytes_of_all(in_counts, peers_in(comm), in_type)
			 : bytes_of_all(counts, peers_in(comm), type))
BOTH(Alltoallw, Ialltoallw,
     P(const void *buf, const int counts[], const int at[], const MPI_Datatype types[], void *in,
       const int in_counts[], const int in_at[], const MPI_Datatype in_types[], MPI_Comm comm),
     P(buf, counts, at, types, in, in_counts, in_at, in_types, comm),
     bytes_of_alltoallw(buf, counts, types, in_counts, in_types, comm))
