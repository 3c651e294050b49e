// SPDX-License-Identifier: Apache-2.0
/* test_attach.c - attaching to a simulated agent whose every step the test controls; and fork. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/attach.h>
#include <sidelight/sidelight.h>

#include "support/test.h"
#include "reader.h"

static char directory[64], path[96];

/* ---- the fake agent ---- */

static int agent_listen(void)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	strcpy(at.sun_path, path);
	unlink(path);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(fd, 16), 0);
	return fd;
}

/* How much longer a slow machine that is busy with other things may take. */
#define PATIENCE 100

static bool readable(int fd, int ms)
{
	return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, PATIENCE * ms) == 1;
}

static int agent_accept(int listener, int ms)
{
	return readable(listener, ms) ? accept4(listener, NULL, NULL, SOCK_CLOEXEC) : -1;
}

struct packet {
	struct sl_msg head;
	union {
		struct sl_msg_publish publish;
		struct sl_msg_id id;
		uint8_t bytes[512];
	};
	int fd;
	ssize_t length; /* 0: hang-up */
};

static struct packet agent_receive(int sock)
{
	struct packet p = {.fd = -1};
	struct iovec parts[2] = {{&p.head, sizeof(p.head)}, {p.bytes, sizeof(p.bytes)}};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int) * 4)];
	} control;
	struct msghdr m = {.msg_iov = parts,
			   .msg_iovlen = 2,
			   .msg_control = control.bytes,
			   .msg_controllen = sizeof(control.bytes)};

	assert_true(readable(sock, 5000));
	p.length = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	if (p.length > 0 && CMSG_FIRSTHDR(&m)) {
		assert_int_equal(CMSG_FIRSTHDR(&m)->cmsg_len, CMSG_LEN(sizeof(int)));
		memcpy(&p.fd, CMSG_DATA(CMSG_FIRSTHDR(&m)), sizeof(int));
	}
	return p;
}

/* Receives and checks the next PUBLISH; returns its descriptor. */
static int agent_published(int sock, uint32_t *serial)
{
	struct packet p = agent_receive(sock);
	struct stat st;

	assert_int_equal(p.length, sizeof(struct sl_msg) + sizeof(struct sl_msg_publish));
	assert_int_equal(p.head.magic, SL_MSG_MAGIC);
	assert_int_equal(p.head.type, SL_MSG_PUBLISH);
	assert_int_equal(p.head.length, sizeof(struct sl_msg_publish));
	assert_true(p.fd >= 0);
	assert_int_equal(fstat(p.fd, &st), 0);
	assert_int_equal(p.publish.size, st.st_size);
	if (serial)
		*serial = p.head.serial;
	return p.fd;
}

static void agent_admit(int sock, uint32_t serial)
{
	struct {
		struct sl_msg head;
		struct sl_msg_admitted admitted;
	} answer = {{SL_MSG_MAGIC, SL_MSG_ADMITTED, 0, sizeof(struct sl_msg_admitted), serial},
		    {7, 9}};

	assert_int_equal(send(sock, &answer, sizeof(answer), MSG_NOSIGNAL), sizeof(answer));
}

static bool comes_true(bool (*what)(void *), void *arg, int ms)
{
	for (int i = 0; i < PATIENCE * ms; i++, usleep(1000))
		if (what(arg))
			return true;
	return false;
}

static bool is_attached(void *p)
{
	return sl_publisher_attached(p);
}

static bool is_detached(void *p)
{
	return !sl_publisher_attached(p);
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- attaching ---- */

static void an_agent_that_comes_later_is_found_within_a_second(void **state)
{
	struct sl_publisher *p;
	struct sl_counter c;
	double start;
	uint32_t serial;
	int listener, sock, fd;

	(void)state;
	unlink(path);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	sl_counter_add(c, 5);
	usleep(600000);
	assert_false(sl_publisher_attached(p));
	start = now();
	listener = agent_listen();
	sock = agent_accept(listener, 3000);
	assert_true(sock >= 0);
	/* It looks at least every second; when it runs depends on the machine. */
	assert_true(now() - start < 10);
	fd = agent_published(sock, &serial);
	agent_admit(sock, serial);
	assert_true(comes_true(is_attached, p, 2000));
	sl_counter_inc(c);
	assert_int_equal(read_u64(fd, "c"), 6);
	sl_publisher_close(p);
	assert_int_equal(agent_receive(sock).head.type, SL_MSG_CLOSE);
	assert_int_equal(agent_receive(sock).length, 0);
	close(fd);
	close(sock);
	close(listener);
}

static void an_agent_that_restarts_gets_the_same_region_again(void **state)
{
	struct sl_publisher_stats stats = SL_OPTS(sl_publisher_stats);
	struct sl_publisher *p;
	uint64_t instance = 0;
	struct sl_counter c;
	struct reader r;

	(void)state;
	unlink(path);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	for (int i = 0; i < 3; i++) {
		int listener = agent_listen(), sock = agent_accept(listener, 2000), fd;
		uint32_t serial;

		assert_true(sock >= 0);
		fd = agent_published(sock, &serial);
		agent_admit(sock, serial);
		assert_true(comes_true(is_attached, p, 2000));
		sl_counter_inc(c);
		assert_int_equal(reader_open(&r, fd), REGION_FAULT_NONE);
		assert_int_equal(reader_round(&r), REGION_FAULT_NONE);
		assert_int_equal(reader_u64(&r, "c"), i + 1);
		assert_true(!instance || instance == r.info.instance);
		instance = r.info.instance;
		reader_close(&r);
		close(fd);
		close(sock);
		close(listener);
		assert_true(comes_true(is_detached, p, 2000));
	}
	sl_publisher_stats(p, &stats);
	assert_int_equal(stats.attaches, 3);
	sl_publisher_close(p);
}

static void a_process_that_exits_at_once_was_seen(void **state)
{
	int listener = agent_listen(), sock, fd;
	pid_t pid = fork();

	(void)state;
	if (!pid) {
		struct sl_publisher *p =
			sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));

		sl_counter_add(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c")), 42);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	sock = agent_accept(listener, 0);
	assert_true(sock >= 0);
	fd = agent_published(sock, NULL);
	assert_int_equal(read_u64(fd, "c"), 42);
	assert_int_equal(agent_receive(sock).length, 0); /* a death: no CLOSE came first */
	close(fd);
	close(sock);
	close(listener);
}

static int warnings;
static void count_warnings(enum sl_log_level level, const char *line, void *arg)
{
	(void)arg;
	if (level == SL_LOG_WARN) {
		assert_null(strchr(line, '\n'));
		__atomic_fetch_add(&warnings, 1, __ATOMIC_RELAXED);
	}
}

static void a_refusal_is_logged_once_and_not_hammered(void **state)
{
	int listener = agent_listen(), sock;
	struct {
		struct sl_msg head;
		struct sl_msg_refused refused;
	} answer = {{SL_MSG_MAGIC, SL_MSG_REFUSED, 0, sizeof(struct sl_msg_refused), 1},
		    {ENOSPC, "full\nup"}};
	struct sl_publisher *p;

	(void)state;
	sl_set_log(count_warnings, NULL);
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	sock = agent_accept(listener, 1000);
	close(agent_published(sock, NULL));
	assert_int_equal(send(sock, &answer, sizeof(answer), 0), sizeof(answer));
	assert_int_equal(agent_receive(sock).length, 0);
	close(sock);
	/* Not in the next 24 s: the next attempt is after 30 s. */
	assert_int_equal(poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 24000), 0);
	assert_int_equal(__atomic_load_n(&warnings, __ATOMIC_RELAXED), 1);
	sl_publisher_close(p);
	sl_set_log(NULL, NULL);
	close(listener);
}

/* After EAGAIN, a region is not held back for 30 s, as it is after another refusal. */
static void a_region_is_offered_again_soon_after_eagain(void **state)
{
	int listener = agent_listen(), sock = -1;
	struct {
		struct sl_msg head;
		struct sl_msg_refused refused;
	} answer = {{SL_MSG_MAGIC, SL_MSG_REFUSED, 0, sizeof(struct sl_msg_refused), 0},
		    {EAGAIN, "try again"}};
	struct sl_publisher *p;
	uint32_t serial;

	(void)state;
	sl_set_log(count_warnings, NULL);
	warnings = 0;
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	for (int i = 0; i < 3; i++) {
		sock = agent_accept(listener, 200); /* for 20 s at most */
		assert_true(sock >= 0);
		close(agent_published(sock, &serial));
		if (i == 2)
			break;
		answer.head.serial = serial;
		assert_int_equal(send(sock, &answer, sizeof(answer), 0), sizeof(answer));
		assert_int_equal(agent_receive(sock).length, 0);
		close(sock);
	}
	agent_admit(sock, serial);
	assert_true(comes_true(is_attached, p, 1000));
	assert_int_equal(__atomic_load_n(&warnings, __ATOMIC_RELAXED), 0);
	sl_publisher_close(p);
	sl_set_log(NULL, NULL);
	close(sock);
	close(listener);
}

static bool is_of(int fd, const char *name)
{
	return read_u64(fd, name) != ~0ull;
}

/* A region that is opened later uses the same connection, and is also handed to the next agent. */
static void further_regions_share_the_connection(void **state)
{
	int listener = agent_listen(), sock, fd;
	struct {
		struct sl_msg head;
		struct sl_msg_refused refused;
	} answer = {{SL_MSG_MAGIC, SL_MSG_REFUSED, 0, sizeof(struct sl_msg_refused), 0},
		    {EDQUOT, "share"}};
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .socket = path, .max_cells = 1, .schema_bytes = 4096));
	struct sl_counter first, second;
	struct packet packet;
	uint32_t serial[2];

	(void)state;
	assert_non_null(p);
	sl_set_log(count_warnings, NULL);
	first = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "first"));
	sock = agent_accept(listener, 1000);
	close(agent_published(sock, &serial[0]));
	agent_admit(sock, serial[0]);
	assert_true(comes_true(is_attached, p, 1000));
	second = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "second"));
	sl_counter_add(second, 3);
	fd = agent_published(sock, &serial[1]);
	assert_int_equal(read_u64(fd, "second"), 3);
	assert_false(is_of(fd, "first"));
	close(fd);
	assert_true(serial[0] != serial[1]);
	/* Refused: the first one is unchanged. */
	answer.head.serial = serial[1];
	assert_int_equal(send(sock, &answer, sizeof(answer), 0), sizeof(answer));
	sl_counter_add(first, 7);
	assert_false(poll(&(struct pollfd){.fd = sock, .events = POLLIN}, 1, 300));
	close(sock);

	sock = agent_accept(listener, 5000);
	for (int i = 0; i < 2; i++) {
		fd = agent_published(sock, &serial[i]);
		assert_int_equal(read_u64(fd, i ? "second" : "first"), i ? 3 : 7);
		close(fd);
	}
	agent_admit(sock, serial[0]);
	agent_admit(sock, serial[1]);
	assert_true(comes_true(is_attached, p, 1000));
	sl_publisher_close(p);
	for (int i = 0; i < 2; i++) {
		packet = agent_receive(sock);
		assert_int_equal(packet.head.type, SL_MSG_CLOSE);
	}
	assert_int_equal(agent_receive(sock).length, 0);
	sl_set_log(NULL, NULL);
	close(sock);
	close(listener);
}

/* Our end of the connection to the agent. */
static int find_own_socket(void)
{
	for (int fd = 3; fd < 256; fd++) {
		struct sockaddr_un to = {0};
		socklen_t length = sizeof(to);

		if (!getpeername(fd, (struct sockaddr *)&to, &length) && !strcmp(to.sun_path, path))
			return fd;
	}
	return -1;
}

/* The queue of the socket is full when the region is offered: it is offered again. */
static void further_regions_reach_an_agent_that_reads_late(void **state)
{
	int listener = agent_listen(), sock, own;
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .socket = path, .max_cells = 1, .schema_bytes = 4096));
	struct packet packet;
	uint32_t serial;

	(void)state;
	assert_non_null(p);
	sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "first"));
	sock = agent_accept(listener, 1000);
	close(agent_published(sock, &serial));
	agent_admit(sock, serial);
	assert_true(comes_true(is_attached, p, 1000));
	own = find_own_socket();
	assert_true(own >= 0);
	while (send(own, "junk", 4, MSG_DONTWAIT) == 4)
		;
	assert_int_equal(errno, EAGAIN);
	sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "second"));
	do
		packet = agent_receive(sock);
	while (packet.length == 4);
	assert_int_equal(packet.head.type, SL_MSG_PUBLISH);
	assert_true(is_of(packet.fd, "second"));
	close(packet.fd);
	sl_publisher_close(p);
	close(sock);
	close(listener);
}

/* An agent that registers memory for RDMA would pay for the pages of holes. */
static void an_agent_that_takes_no_holes_gets_whole_memory(void **state)
{
	int listener = agent_listen(), sock, fd;
	struct {
		struct sl_msg head;
		struct sl_msg_refused refused;
	} answer = {{SL_MSG_MAGIC, SL_MSG_REFUSED, 0, sizeof(struct sl_msg_refused), 1},
		    {ENODATA, "holes"}};
	struct sl_publisher *p;
	struct stat st;

	(void)state;
	sl_set_log(count_warnings, NULL);
	warnings = 0;
	p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	sock = agent_accept(listener, 1000);
	fd = agent_published(sock, NULL);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_blocks * 512 < st.st_size);
	close(fd);
	assert_int_equal(send(sock, &answer, sizeof(answer), 0), sizeof(answer));
	assert_int_equal(agent_receive(sock).length, 0);
	close(sock);
	sock = agent_accept(listener, 10000);
	fd = agent_published(sock, NULL);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_blocks * 512 >= st.st_size);
	close(fd);
	assert_int_equal(warnings, 0);
	/* If asked again, it has nothing more to give: an ordinary refusal. */
	assert_int_equal(send(sock, &answer, sizeof(answer), 0), sizeof(answer));
	assert_int_equal(agent_receive(sock).length, 0);
	close(sock);
	assert_int_equal(poll(&(struct pollfd){.fd = listener, .events = POLLIN}, 1, 700), 0);
	sl_publisher_close(p);
	sl_set_log(NULL, NULL);
	close(listener);
}

/* Garbage, floods and descriptors from the other end of the socket. */
static void a_hostile_agent_does_no_harm(void **state)
{
	int listener = agent_listen(), sock, null = open("/dev/null", O_RDONLY | O_CLOEXEC), before;
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	char junk[6000];
	int files = 0;

	(void)state;
	for (int fd = 0; fd < 256; fd++)
		files += fcntl(fd, F_GETFD) >= 0;
	for (int i = 0; i < 8; i++) {
		size_t length = (size_t[]){0, 1, 15, 16, 17, 272, 5000, 300}[i];
		struct sl_msg head = {SL_MSG_MAGIC, (uint16_t)(i == 7 ? SL_MSG_REFUSED : 99), 0,
				      (uint32_t)(i > 4 ? length - 16 : 77), 0};
		struct iovec part = {junk, length ? length : 1};
		union {
			struct cmsghdr align;
			char bytes[CMSG_SPACE(sizeof(int))];
		} control = {.bytes = {0}};
		struct msghdr m = {.msg_iov = &part,
				   .msg_iovlen = 1,
				   .msg_control = control.bytes,
				   .msg_controllen = sizeof(control.bytes)};

		sock = agent_accept(listener, 2000);
		if (sock < 0)
			break; /* the publisher was refused, and waits */
		close(agent_published(sock, NULL));
		memset(junk, 0xff, sizeof(junk));
		memcpy(junk, &head, sizeof(head));
		CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
		CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
		CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &null, sizeof(int));
		assert_true(sendmsg(sock, &m, MSG_NOSIGNAL) >= 0);
		usleep(20000);
		close(sock);
	}
	usleep(50000);
	before = 0;
	for (int fd = 0; fd < 256; fd++)
		before += fcntl(fd, F_GETFD) >= 0;
	assert_true(before <= files);
	assert_false(sl_publisher_attached(p));
	close(null);
	close(listener);
	sl_publisher_close(p);
}

static long switches_of_thread(void)
{
	DIR *tasks = opendir("/proc/self/task");
	char name[300], line[256];
	struct dirent *task;
	long sum = 0;

	assert_non_null(tasks);
	while ((task = readdir(tasks))) {
		FILE *f;

		/* The library's thread is recognised by its name. */
		snprintf(name, sizeof(name), "/proc/self/task/%s/comm", task->d_name);
		f = fopen(name, "r");
		if (!f || !fgets(line, sizeof(line), f))
			line[0] = '\0';
		if (f)
			fclose(f);
		if (strcmp(line, "sidelight\n"))
			continue;
		snprintf(name, sizeof(name), "/proc/self/task/%s/status", task->d_name);
		f = fopen(name, "r");
		while (f && fgets(line, sizeof(line), f))
			if (strstr(line, "ctxt_switches:"))
				sum += atol(strchr(line, ':') + 1);
		if (f)
			fclose(f);
	}
	closedir(tasks);
	return sum;
}

static void while_attached_the_thread_sleeps(void **state)
{
	int listener = agent_listen(), sock;
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	uint32_t serial;
	long before;

	(void)state;
	sock = agent_accept(listener, 1000);
	close(agent_published(sock, &serial));
	agent_admit(sock, serial);
	assert_true(comes_true(is_attached, p, 2000));
	/* On a busy machine, the thread may not sleep yet. */
	for (int i = 0;; i++) {
		before = switches_of_thread();
		assert_true(before > 0);
		usleep(1200000);
		if (switches_of_thread() == before)
			break;
		assert_true(i < PATIENCE);
	}
	close(sock);
	close(listener);
	sl_publisher_close(p);
}

/* An application closes all descriptors that it does not know, and opens files. */
static void descriptors_of_the_application_are_left_alone(void **state)
{
	pid_t pid = fork();
	int status;

	(void)state;
	if (!pid) {
		int listener = agent_listen(), file;
		struct sl_publisher *p =
			sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
		struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
		char text[8] = "";

		alarm(TEST_HANGS_S);
		close_range(3, 200, 0);
		strcpy(text + 0, "mine");
		for (int i = 3; i < 40; i++) {
			file = open("/tmp", O_TMPFILE | O_RDWR, 0600);
			if (write(file, text, 4) != 4)
				_exit(1);
		}
		(void)listener;
		for (int i = 0; i < 2000; i++) {
			snprintf(text, sizeof(text), "m%d", i);
			sl_counter_inc(
				sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = text)));
		}
		sl_counter_inc(c);
		if (sl_counter_value(c) != 1)
			_exit(2);
		sl_publisher_close(p);
		for (int i = 3; i < 40; i++)
			if (lseek(i, 0, SEEK_END) != 4)
				_exit(3);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

/* ---- fork ---- */

static void a_child_counts_from_zero_in_a_region_of_its_own(void **state)
{
	int listener = agent_listen(), parent, child, fd, child_fd, tell[2], status;
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path, .max_cells = 5000));
	struct sl_counter c =
		sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c", .help = "help"));
	struct sl_gauge g = sl_gauge_create(p, &SL_OPTS(sl_metric_opts, .name = "g"));
	struct sl_histogram h = sl_histogram_create(p, &SL_OPTS(sl_metric_opts, .name = "h"));
	struct reader a, b;
	char name[16];
	uint32_t serial;
	pid_t pid;

	(void)state;
	for (int i = 0; i < 1000; i++) {
		snprintf(name, sizeof(name), "m%d", i);
		sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = name));
	}
	parent = agent_accept(listener, 1000);
	fd = agent_published(parent, &serial);
	agent_admit(parent, serial);
	assert_true(comes_true(is_attached, p, 1000));
	sl_counter_add(c, 100);
	sl_gauge_set(g, 5);
	assert_int_equal(pipe(tell), 0);
	pid = fork();
	if (!pid) {
		char go;

		close(tell[1]);
		sl_counter_inc(c);
		sl_gauge_add(g, 2);
		sl_histogram_observe(h, 1);
		sl_counter_inc(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "of_child")));
		sl_counter_inc(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "m7")));
		if (sl_counter_value(c) != 1 || sl_gauge_value(g) != 2)
			_exit(1);
		if (read(tell[0], &go, 1) < 0) /* wait until the parent has looked */
			_exit(2);
		sl_publisher_close(p);
		_exit(0);
	}
	close(tell[0]);
	child = agent_accept(listener, 2000);
	assert_true(child >= 0);
	child_fd = agent_published(child, &serial);
	agent_admit(child, serial);
	for (int i = 0; i < PATIENCE * 2000 && read_u64(child_fd, "m7") != 1; i++)
		usleep(1000);
	sl_counter_inc(c);
	assert_int_equal(reader_open(&a, fd), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&a), REGION_FAULT_NONE);
	assert_int_equal(reader_open(&b, child_fd), REGION_FAULT_NONE);
	assert_int_equal(reader_round(&b), REGION_FAULT_NONE);
	assert_int_equal(a.unsettled + b.unsettled, 0);
	assert_int_equal(reader_u64(&a, "c"), 101);
	assert_int_equal(reader_u64(&a, "g"), 5);
	assert_int_equal(reader_u64(&b, "c"), 1);
	assert_int_equal(reader_u64(&b, "g"), 2);
	assert_int_equal(reader_u64(&b, "m7"), 1);
	assert_null(reader_find(&a, "of_child", NULL));
	assert_int_equal(reader_u64(&b, "of_child"), 1);
	assert_string_equal(reader_find(&b, "c", NULL)->help, "help");
	assert_int_equal(b.info.pid, pid);
	assert_true(a.info.instance != b.info.instance);
	reader_close(&a);
	reader_close(&b);
	close(tell[1]);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(agent_receive(child).head.type, SL_MSG_CLOSE);
	assert_true(sl_publisher_attached(p)); /* the child's goodbye is not the parent's */
	sl_publisher_close(p);
	close(fd), close(child_fd), close(parent), close(child), close(listener);
}

/* The agent must notice the death of a parent even if a child that never counted is still alive. */
static void a_child_does_not_keep_the_parents_connection(void **state)
{
	int listener = agent_listen(), sock, fd, hold[2];
	char byte;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		struct sl_publisher *p =
			sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));

		sl_counter_inc(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c")));
		close(hold[1]);
		if (!fork()) { /* lives until the test releases it */
			if (read(hold[0], &byte, 1) < 0)
				_exit(1);
			_exit(0);
		}
		_exit(0);
	}
	close(hold[0]);
	waitpid(pid, NULL, 0);
	sock = agent_accept(listener, 1000);
	fd = agent_published(sock, NULL);
	assert_int_equal(agent_receive(sock).length, 0);
	close(hold[1]);
	close(fd), close(sock), close(listener);
}

static bool stop_now;
static struct sl_publisher *busy_publisher;
static struct sl_counter busy_counter;

static void *busy(void *arg)
{
	char name[32];

	for (uint64_t i = 0; !__atomic_load_n(&stop_now, __ATOMIC_RELAXED); i++) {
		struct sl_publisher *p =
			sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));

		snprintf(name, sizeof(name), "m%d_%u", (int)(uintptr_t)arg,
			 (unsigned int)(i % 500));
		sl_counter_inc(
			sl_counter_create(busy_publisher, &SL_OPTS(sl_metric_opts, .name = name)));
		sl_counter_inc(busy_counter);
		sl_publisher_close(p);
	}
	return NULL;
}

static void fork_at_any_moment_never_deadlocks(void **state)
{
	int rounds = 300;
	pthread_t threads[3];
	int status;

	(void)state;
	/*
	 * ASan of clang 14 does not hold its allocator's locks over a fork(), so a child can wait
	 * for them forever in any malloc(), including that of pthread_create().
	 */
	if (TEST_SANITIZED) {
		print_message(
			"SKIP: a sanitizer's allocator does not hold its locks over fork()\n");
		skip();
	}
	unlink(path);
	busy_publisher = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	busy_counter = sl_counter_create(busy_publisher, &SL_OPTS(sl_metric_opts, .name = "c"));
	for (uintptr_t i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, busy, (void *)i);
	for (int i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (!pid) {
			struct reader r;

			alarm(TEST_HANGS_S); /* a deadlock ends here and is noticed */
			sl_counter_add(busy_counter, 3);
			sl_counter_inc(sl_counter_create(
				busy_publisher, &SL_OPTS(sl_metric_opts, .name = "child")));
			if (reader_open(&r, sl_publisher_fd(busy_publisher)) || reader_round(&r) ||
			    r.unsettled || reader_u64(&r, "c") != 3 || reader_u64(&r, "child") != 1)
				_exit(1);
			if (i % 3 == 0)
				sl_publisher_close(busy_publisher);
			_exit(0);
		}
		assert_true(pid > 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	__atomic_store_n(&stop_now, true, __ATOMIC_RELAXED);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	sl_publisher_close(busy_publisher);
}

static void a_forked_childs_child_counts_too(void **state)
{
	struct sl_publisher *p =
		sl_publisher_open(&SL_OPTS(sl_publisher_opts, .flags = SL_PUBLISHER_DETACHED));
	struct sl_counter c = sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c"));
	int status;
	pid_t pid;

	(void)state;
	sl_counter_add(c, 10);
	pid = fork();
	if (!pid) {
		sl_counter_add(c, 2);
		pid = fork();
		if (!pid) {
			if (!(pid = fork())) { /* an orphan of an orphan */
				sl_counter_inc(c);
				_exit(sl_counter_value(c) == 1 ? 0 : 1);
			}
			waitpid(pid, &status, 0);
			sl_counter_inc(c);
			_exit(!status && sl_counter_value(c) == 1 ? 0 : 1);
		}
		waitpid(pid, &status, 0);
		_exit(!status && sl_counter_value(c) == 2 ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(sl_counter_value(c), 10);
	sl_publisher_close(p);
}

static void a_program_that_is_started_takes_nothing_along(void **state)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .socket = path));
	/* The shell's descriptors: 0, 1, 2 and that of the folder. */
	char *argv[] = {"sh", "-c",
			"for f in /proc/self/fd/*; do readlink $f; done | "
			"grep -q memfd:sidelight && exit 1; exit 0",
			NULL};
	int status;
	pid_t pid;

	(void)state;
	sl_counter_inc(sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "c")));
	assert_int_equal(posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	sl_publisher_close(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_agent_that_comes_later_is_found_within_a_second),
		cmocka_unit_test(an_agent_that_restarts_gets_the_same_region_again),
		cmocka_unit_test(a_process_that_exits_at_once_was_seen),
		cmocka_unit_test(a_refusal_is_logged_once_and_not_hammered),
		cmocka_unit_test(a_region_is_offered_again_soon_after_eagain),
		cmocka_unit_test(further_regions_share_the_connection),
		cmocka_unit_test(further_regions_reach_an_agent_that_reads_late),
		cmocka_unit_test(an_agent_that_takes_no_holes_gets_whole_memory),
		cmocka_unit_test(a_hostile_agent_does_no_harm),
		cmocka_unit_test(while_attached_the_thread_sleeps),
		cmocka_unit_test(descriptors_of_the_application_are_left_alone),
		cmocka_unit_test(a_child_counts_from_zero_in_a_region_of_its_own),
		cmocka_unit_test(a_child_does_not_keep_the_parents_connection),
		cmocka_unit_test(fork_at_any_moment_never_deadlocks),
		cmocka_unit_test(a_forked_childs_child_counts_too),
		cmocka_unit_test(a_program_that_is_started_takes_nothing_along),
	};
	int failed;

	strcpy(directory, "/tmp/sl-attach-XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	snprintf(path, sizeof(path), "%s/agent.sock", directory);
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	unlink(path);
	rmdir(directory);
	return failed;
}
