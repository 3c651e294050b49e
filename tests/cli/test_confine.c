// SPDX-License-Identifier: Apache-2.0
/*
 * test_confine.c - a confined process no longer has its privileges, neither in the thread that
 * confined it nor in a thread that was already running. Each attempt runs in a separate process.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/netlink.h>
#include <netpacket/packet.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/test.h"
#include "base/confine.h"

static char folder[] = "/tmp/sl-confine-XXXXXX", other[] = "/tmp/sl-other-XXXXXX";
static char target[64], elsewhere[64];

/* Each returns 0, or the errno of the refusal. */

static int runs_a_program(void)
{
	return execl("/bin/true", "true", (char *)NULL) ? errno : 0;
}

static int forks(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return pid < 0 ? errno : 0;
}

static int traces(void)
{
	return ptrace(PTRACE_TRACEME, 0, NULL, NULL) ? errno : 0;
}

static int loads_a_program(void)
{
	char attr[128] = {0};

	syscall(SYS_bpf, 5 /* BPF_PROG_LOAD */, attr, sizeof(attr));
	return errno;
}

static int mounts(void)
{
	return mount("none", folder, "tmpfs", 0, NULL) ? errno : 0;
}

static int listens_to_frames(void)
{
	return socket(AF_PACKET, SOCK_RAW, 0) < 0 ? errno : 0;
}

static int kills(void)
{
	return kill(getppid(), 0) ? errno : 0;
}

static int signals_another(void)
{
	return tgkill(getppid(), getppid(), 0) ? errno : 0;
}

static int types_for_the_terminal(void)
{
	/* The kernel only looks at the lower half of the command. */
	if (syscall(SYS_ioctl, 0, TIOCSTI | 1ull << 32, "x") && errno != ENOSYS)
		return errno;
	return ioctl(0, TIOCSTI, "x") ? errno : 0;
}

static int reads_passwords(void)
{
	return open("/etc/shadow", O_RDONLY) < 0 ? errno : 0;
}

static int writes_elsewhere(void)
{
	return open(elsewhere, O_WRONLY | O_CREAT, 0600) < 0 ? errno : 0;
}

static int changes_owners(void)
{
	return syscall(SYS_fchownat, AT_FDCWD, target, 1, 1, 0) ? errno : 0;
}

static int works(void)
{
	int fd = open(target, O_RDWR | O_CREAT, 0600);
	pthread_t t;

	if (fd < 0 || write(fd, "x", 1) != 1 || unlink(target) ||
	    socket(AF_INET, SOCK_STREAM, 0) < 0)
		return errno;
	if (open("/proc/self/stat", O_RDONLY) < 0 || open("/proc/1/stat", O_RDONLY) < 0)
		return errno;
	return pthread_create(&t, NULL, (void *(*)(void *))(void *)getpid, NULL);
}

/* ---- what a front of an HTTP server may not, which has its sockets ---- */

static int opens_a_socket(void)
{
	return socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno : 0;
}

static int connects(void)
{
	return connect(0, NULL, 0) ? errno : 0;
}

static int opens_a_file(void)
{
	return open(target, O_RDONLY) < 0 ? errno : 0;
}

static int receives_descriptors(void)
{
	struct msghdr h = {0};

	return recvmsg(0, &h, 0) < 0 ? errno : 0;
}

static int lingers(void)
{
	const struct linger l = {1, 1000};

	return setsockopt(0, SOL_SOCKET, SO_LINGER, &l, sizeof(l)) ? errno : 0;
}

static int shares_memory(void)
{
	return memfd_create("x", 0) < 0 ? errno : 0;
}

static int serves(void)
{
	char c = 0;
	int fd = eventfd(0, EFD_CLOEXEC);
	pthread_t t;

	if (fd < 0 || accept4(STDIN_FILENO, NULL, NULL, 0) >= 0 || errno != ENOTSOCK)
		return errno;
	if (recv(STDIN_FILENO, &c, 1, 0) >= 0 || errno != ENOTSOCK)
		return errno;
	return pthread_create(&t, NULL, (void *(*)(void *))(void *)getpid, NULL);
}

/* ---- what a reporter may not do, and what it must do to remove filters ---- */

static int receives_frames(void)
{
	const struct sockaddr_ll any = {.sll_family = AF_PACKET};

	return bind(0, (const struct sockaddr *)&any, sizeof(any)) ? errno : 0;
}

static int enters_a_namespace(void)
{
	return setns(0, CLONE_NEWNET) ? errno : 0;
}

static int asks_for_interfaces(void)
{
	struct sockaddr_nl at = {.nl_family = AF_NETLINK};
	int fd = socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE), yes = 1;
	socklen_t n = sizeof(at);

	if (fd < 0 || setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &yes, sizeof(yes)))
		return errno;
	if (bind(fd, (struct sockaddr *)&at, n) || getsockname(fd, (struct sockaddr *)&at, &n))
		return errno;
	return 0;
}

/* As /proc/thread-self/status says. */
static int has_privileges(void)
{
	char line[256];
	int left = 0;
	FILE *f = fopen("/proc/thread-self/status", "re");

	if (!f)
		return errno;
	while (fgets(line, sizeof(line), f)) {
		/* An ordinary user cannot drop privileges that it could not gain anyway. */
		bool capabilities = !strncmp(line, "Cap", 3) &&
				    (!geteuid() || strncmp(line, "CapBnd", 6));

		left |= capabilities && strtoull(line + 7, NULL, 16);
		left |= !strncmp(line, "NoNewPrivs:", 11) && atoi(line + 11) != 1;
		left |= !strncmp(line, "Seccomp:", 8) && atoi(line + 8) != 2;
	}
	fclose(f);
	return left ? 0 : EPERM;
}

static int (*attempt)(void);
static sem_t go;

static void *in_another_thread(void *arg)
{
	(void)arg;
	sem_wait(&go);
	_exit(attempt());
}

/* Returns the result of an attempt in a confined process. thread: in a thread that already runs. */
static int confined_as(const struct base_confine_opts *o, int (*what)(void), bool thread)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid) {
		char why[256];
		pthread_t t;

		attempt = what;
		sem_init(&go, 0, 0);
		if (thread && pthread_create(&t, NULL, in_another_thread, NULL))
			_exit(254);
		if (base_confine(o, why, sizeof(why))) {
			fprintf(stderr, "%s\n", why);
			_exit(255);
		}
		if (!thread)
			_exit(what());
		sem_post(&go);
		pthread_join(t, NULL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int confined(int (*what)(void), bool thread)
{
	const struct base_confine_opts o = {.role = BASE_ROLE_AGENT, .paths = {folder}};

	return confined_as(&o, what, thread);
}

/* No role may do these. */
static int (*const outside_of_all[])(void) = {
	runs_a_program, forks,		traces,		 loads_a_program,   mounts,
	kills,		changes_owners, signals_another, listens_to_frames,
};

#define ALL(calls) (calls), sizeof(calls) / sizeof(*(calls))

static void refuses(const struct base_confine_opts *o, int (*const *calls)(void), size_t n,
		    bool thread)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(confined_as(o, calls[i], thread), ENOSYS);
}

static void calls_outside_of_the_role_are_refused(void **state)
{
	const struct base_confine_opts o = {.role = BASE_ROLE_AGENT, .paths = {folder}};

	(void)state;
	for (int thread = 0; thread < 2; thread++) {
		refuses(&o, ALL(outside_of_all), thread);
		assert_int_equal(confined(types_for_the_terminal, thread), ENOSYS);
	}
}

static void a_front_opens_and_receives_nothing(void **state)
{
	int (*const outside[])(void) = {
		opens_a_socket,	      connects, opens_a_file,  reads_passwords,
		receives_descriptors, lingers,	shares_memory,
	};
	const struct base_confine_opts o = {.role = BASE_ROLE_FRONT, .single = true};
	const struct base_confine_opts starts = {.role = BASE_ROLE_SPAWNER, .single = true};

	(void)state;
	refuses(&o, ALL(outside_of_all), false);
	refuses(&o, ALL(outside), false);
	assert_int_equal(confined_as(&o, serves, false), 0);
	assert_int_equal(confined_as(&starts, forks, false), 0);
	assert_int_equal(confined_as(&starts, opens_a_file, false), ENOSYS);
	assert_int_equal(confined_as(&starts, opens_a_socket, false), ENOSYS);
	assert_int_equal(confined_as(&starts, runs_a_program, false), ENOSYS);
}

static void a_reporter_attaches_and_receives_nothing(void **state)
{
	int (*const outside[])(void) = {connects, receives_frames, enters_a_namespace};
	const struct base_confine_opts o = {.role = BASE_ROLE_REPORTER};

	(void)state;
	refuses(&o, ALL(outside_of_all), false);
	refuses(&o, ALL(outside), false);
	assert_int_equal(confined_as(&o, asks_for_interfaces, false), 0);
}

static void paths_outside_of_the_role_are_refused(void **state)
{
	(void)state;
	if (syscall(444 /* landlock_create_ruleset */, NULL, 0, 1) < 1) {
		puts("SKIP: this kernel has no Landlock");
		skip();
	}
	for (int thread = 0; thread < 2; thread++) {
		assert_int_equal(confined(reads_passwords, thread), EACCES);
		assert_int_equal(confined(writes_elsewhere, thread), EACCES);
	}
}

static void no_thread_keeps_privileges(void **state)
{
	(void)state;
	assert_int_equal(confined(has_privileges, false), EPERM);
	assert_int_equal(confined(has_privileges, true), EPERM);
}

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);

/* The time of day is set back by an hour whenever it has been read. */
int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	int err = __real_clock_gettime(clock, t);

	if (clock == CLOCK_REALTIME)
		t->tv_sec += 3600;
	return err;
}

static void *answers_no_signal(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	sem_post(&go);
	pause();
	return arg;
}

/* The process fails to start after 10 s, rather than to wait for an hour. */
static void a_clock_that_is_set_delays_no_start(void **state)
{
	int status;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		const struct base_confine_opts o = {.role = BASE_ROLE_AGENT, .paths = {folder}};
		char why[256];
		pthread_t t;

		alarm(60);
		sem_init(&go, 0, 0);
		if (pthread_create(&t, NULL, answers_no_signal, NULL))
			_exit(254);
		sem_wait(&go);
		_exit(base_confine(&o, why, sizeof(why)) == -ETIMEDOUT ? 0 : 255);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void what_the_role_needs_works(void **state)
{
	(void)state;
	assert_int_equal(confined(works, false), 0);
	assert_int_equal(confined(works, true), 0);
}

static int make_folders(void **state)
{
	(void)state;
	if (!mkdtemp(folder) || !mkdtemp(other))
		return -1;
	snprintf(target, sizeof(target), "%s/file", folder);
	snprintf(elsewhere, sizeof(elsewhere), "%s/file", other);
	return 0;
}

static int remove_folders(void **state)
{
	(void)state;
	unlink(elsewhere);
	return rmdir(folder) | rmdir(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_outside_of_the_role_are_refused),
		cmocka_unit_test(a_front_opens_and_receives_nothing),
		cmocka_unit_test(a_reporter_attaches_and_receives_nothing),
		cmocka_unit_test(paths_outside_of_the_role_are_refused),
		cmocka_unit_test(no_thread_keeps_privileges),
		cmocka_unit_test(what_the_role_needs_works),
		cmocka_unit_test(a_clock_that_is_set_delays_no_start),
	};

	if (CONFINE_INSTRUMENTED) {
		puts("SKIP: a build with sanitizers or for coverage restricts no calls and no paths");
		return 77;
	}
	return cmocka_run_group_tests(tests, make_folders, remove_folders);
}
