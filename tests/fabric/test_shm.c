/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The shm provider and the code common to all providers, with a simulated agent: the test itself
 * drives the other end of the socket, so that it can lie in any way and at any moment.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <sidelight/attach.h>

#include "support/test.h"
#include "support/clock.h"
#include "fabric/provider.h"

#define SIZE 65536u
#define MS   1000000ull

/* ---- the agent ---- */

struct agent {
	char directory[64], target[128];
	int listener;
	int peer;	     /* the one connection */
	int fd, sealed_late; /* memory to hand out */
	uint32_t serial;     /* serial number of the last request */
};

static int memory(size_t bytes, unsigned int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	for (uint64_t i = 0; i < bytes / 8; i++)
		assert_int_equal(pwrite(fd, &i, 8, (off_t)i * 8), 8);
	if (seals)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
	return fd;
}

static void agent_listen(struct agent *a)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/agent.sock", a->directory);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(a->listener, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(a->listener, 8), 0);
	a->peer = -1;
}

static void agent_gone(struct agent *a)
{
	char path[128];

	if (a->peer >= 0)
		close(a->peer);
	if (a->listener >= 0)
		close(a->listener);
	a->peer = a->listener = -1;
	snprintf(path, sizeof(path), "%s/agent.sock", a->directory);
	unlink(path);
}

static int setup(void **state)
{
	struct agent *a = calloc(1, sizeof(*a));

	strcpy(a->directory, "/tmp/sl-fabric.XXXXXX");
	if (!a || !mkdtemp(a->directory))
		return -1;
	snprintf(a->target, sizeof(a->target), "%s/agent.sock", a->directory);
	a->listener = a->peer = -1;
	*state = a;
	return 0;
}

static int teardown(void **state)
{
	struct agent *a = *state;

	agent_gone(a);
	rmdir(a->directory);
	free(a);
	return 0;
}

/*
 * Accepts a connection if necessary, then reads one question. Returns its type, or 0 if none
 * arrives within 10 s.
 */
static uint16_t agent_hear(struct agent *a, struct sl_msg_id *id)
{
	struct {
		struct sl_msg msg;
		struct sl_msg_id id;
	} q;
	struct pollfd p = {.events = POLLIN};
	ssize_t got;

	if (a->peer < 0) {
		p.fd = a->listener;
		if (poll(&p, 1, 100000) != 1)
			return 0;
		a->peer = accept4(a->listener, NULL, NULL, SOCK_CLOEXEC);
		assert_true(a->peer >= 0);
	}
	p.fd = a->peer;
	if (poll(&p, 1, 100000) != 1)
		return 0;
	got = recv(a->peer, &q, sizeof(q), 0);
	if (got <= 0)
		return 0;
	assert_true((size_t)got >= sizeof(q.msg));
	assert_int_equal(q.msg.magic, SL_MSG_MAGIC);
	assert_int_equal(q.msg.length, got - (ssize_t)sizeof(q.msg));
	a->serial = q.msg.serial;
	if (id)
		*id = q.id;
	return q.msg.type;
}

static void agent_send(struct agent *a, const void *bytes, size_t length, const int *fds, int count)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {{0}};
	struct iovec iov = {.iov_base = (void *)bytes, .iov_len = length};
	struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};

	if (count) {
		header.msg_control = &control;
		header.msg_controllen = CMSG_SPACE((size_t)count * sizeof(int));
		struct cmsghdr *c = CMSG_FIRSTHDR(&header);

		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)count * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)count * sizeof(int));
	}
	assert_int_equal(sendmsg(a->peer, &header, MSG_NOSIGNAL), length);
}

static void agent_say(struct agent *a, uint16_t type, const void *payload, uint32_t length, int fd)
{
	uint8_t packet[SL_MSG_MAX];
	struct sl_msg msg = {
		.magic = SL_MSG_MAGIC,
		.type = type,
		.length = length,
		.serial = a->serial,
	};

	memcpy(packet, &msg, sizeof(msg));
	if (length)
		memcpy(packet + sizeof(msg), payload, length);
	agent_send(a, packet, sizeof(msg) + length, &fd, fd >= 0);
	if (fd >= 0)
		close(fd);
}

static void agent_welcome(struct agent *a, int fd, uint64_t size)
{
	struct sl_msg_welcome w = {.agent_instance = 1, .size = size};

	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	agent_say(a, SL_MSG_WELCOME, &w, sizeof(w), fd);
}

/* ---- a collector: time is what the test says ---- */

static uint64_t now = 1000000000u;

static struct fabric *connect_for(struct agent *a, const struct fabric_opts *opts)
{
	struct fabric *f = fabric_open(a->target, opts);

	assert_non_null(f);
	assert_string_equal(fabric_name(f), "shm");
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
	agent_welcome(a, memory(SIZE, F_SEAL_SHRINK | F_SEAL_GROW), SIZE);
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_UP);
	return f;
}

/* A thread that answers may not get a CPU for some time. */
static struct fabric *connect_to(struct agent *a)
{
	return connect_for(a, &(struct fabric_opts){.gid_index = -1, .answer_timeout_ms = 20000});
}

static void assert_error(struct fabric *f, const char *words)
{
	struct fabric_stats s;

	fabric_stats(f, &s);
	if (!strstr(s.last_error, words))
		fail_msg("'%s' does not say '%s'", s.last_error, words);
}

static int count_fds(void)
{
	int count = 0;

	for (int fd = 0; fd < 256; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}

/* Answers one OPEN in a thread, because fabric_map() waits for it. */
struct answer {
	struct agent *agent;
	struct sl_msg_region region;
	uint16_t type;
	int fd;
	int delay_ms;
	bool silent, hang_up, garbage, late_serial;
};

static void *answer_thread(void *arg)
{
	struct answer *s = arg;
	struct sl_msg_id id;

	if (agent_hear(s->agent, &id) != SL_MSG_OPEN)
		return NULL;
	if (s->delay_ms)
		poll(NULL, 0, s->delay_ms);
	if (s->hang_up) {
		close(s->agent->peer);
		s->agent->peer = -1;
	} else if (s->garbage) {
		agent_send(s->agent, "what is this?", 13, NULL, 0);
	} else if (!s->silent) {
		s->agent->serial += s->late_serial ? -1u : 0;
		agent_say(s->agent, s->type, &s->region, sizeof(s->region), s->fd);
	}
	return NULL;
}

static int map_with(struct fabric *f, struct fabric_remote *remote, struct answer *s)
{
	pthread_t thread;
	int err;

	assert_int_equal(pthread_create(&thread, NULL, answer_thread, s), 0);
	err = fabric_map(f, remote);
	pthread_join(thread, NULL);
	return err;
}

static struct answer good_answer(struct agent *a, uint64_t id, uint64_t size)
{
	return (struct answer){
		.agent = a,
		.type = SL_MSG_REGION,
		.region = {.id = id, .instance = 9, .size = size},
		.fd = memory(size, F_SEAL_SHRINK),
	};
}

static struct fabric_read *read_one(struct fabric *f, struct fabric_read *r)
{
	struct fabric_read *done = NULL;

	assert_int_equal(fabric_post(f, r, 1), 1);
	assert_int_equal(f->outstanding, 1);
	assert_int_equal(fabric_poll(f, &done, 1, now, 0), 1);
	assert_ptr_equal(done, r);
	assert_int_equal(f->outstanding, 0);
	return r;
}

/* ---- tests: opening ---- */

static void a_target_names_its_provider_or_nothing(void **state)
{
	struct fabric *f;
	char longest[200];

	(void)state;
	f = fabric_open("unix:relative.sock", NULL);
	assert_non_null(f);
	assert_string_equal(fabric_name(f), "shm");
	fabric_close(f);

	static const char *const wrong[] = {
		"",	      "./here", "a/b",	 "unix:", "host:", "host:0",
		"host:65536", "host:x", ":7475", "[::1",  "[::1]x"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		errno = 0;
		assert_null(fabric_open(wrong[i], NULL));
		assert_true(errno == EINVAL || errno == EOPNOTSUPP);
		assert_true(fabric_error()[0]);
		assert_null(strchr(fabric_error(), '\n'));
	}
	assert_null(fabric_open(NULL, NULL));
	memset(longest, 'x', sizeof(longest));
	longest[0] = '/';
	longest[199] = '\0';
	assert_null(fabric_open(longest, NULL));
	assert_int_equal(errno, EINVAL);

	/* A remote host without RDMA: refused immediately. */
	f = fabric_open("10.255.255.1", &(struct fabric_opts){.device = "none0"});
	assert_null(f);
	assert_true(errno == ENODEV || errno == EOPNOTSUPP);
	assert_non_null(strstr(fabric_error(), "RDMA"));
	fabric_close(NULL);
}

static void reads_see_the_memory_as_it_is_now(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct fabric_stats s;
	struct fabric *f;
	struct answer answer;
	uint64_t *buffer, *map;
	size_t bytes;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &bytes);
	assert_int_equal(bytes, 4 << 20);
	assert_int_equal((uintptr_t)buffer % 64, 0);
	answer = good_answer(a, 5, SIZE);
	int fd = fcntl(answer.fd, F_DUPFD_CLOEXEC, 0);

	map = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_int_equal(map_with(f, &region, &answer), 0);
	for (uint64_t i = 0; i < 5; i++) {
		struct fabric_read r = {
			.remote = &region, .offset = 64, .length = 4096, .to = buffer, .status = 1};

		map[8] = i * 77;
		assert_int_equal(read_one(f, &r)->status, 0);
		assert_int_equal(buffer[0], i * 77);
		for (uint64_t w = 1; w < 512; w++)
			assert_int_equal(buffer[w], 8 + w);
	}
	/* Also lengths that are not multiples of a word. */
	for (uint32_t length = 1; length < 24; length++) {
		struct fabric_read r = {.remote = &region,
					.offset = 801,
					.length = length,
					.to = (uint8_t *)buffer + 3};

		memset(buffer, 0xee, 64);
		assert_int_equal(read_one(f, &r)->status, 0);
		assert_memory_equal((uint8_t *)buffer + 3, (uint8_t *)map + 801, length);
		assert_int_equal(((uint8_t *)buffer)[3 + length], 0xee);
	}
	fabric_stats(f, &s);
	assert_int_equal(s.reads, 28);
	assert_int_equal(s.bytes, 5 * 4096 + 23 * 24 / 2);
	fabric_unmap(f, &region);
	assert_null(region.local);
	fabric_unmap(f, &region);
	munmap(map, SIZE);
	close(fd);
	fabric_close(f);
}

/* Kilobytes that a memfd uses. */
static long occupied(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks / 2;
}

static void read_all(struct fabric *f, const struct fabric_remote *region, uint64_t *buffer)
{
	for (uint64_t at = 0; at < region->length; at += 65536) {
		struct fabric_read r = {
			.remote = region, .offset = at, .length = 65536, .to = buffer};

		memset(buffer, 0xee, 65536);
		assert_int_equal(read_one(f, &r)->status, 0);
	}
}

/* A publisher's holes remain holes: a reader that faulted in pages would be charged for them. */
static void holes(struct agent *a, unsigned int seals, bool punch)
{
	const uint64_t bytes = 16u << 20, value = 77, offset = 5 << 20;
	struct fabric_remote region = {.id = 5, .length = bytes};
	struct answer answer = good_answer(a, 5, SIZE);
	struct fabric_read one;
	struct fabric *f;
	uint64_t *buffer, *map;
	size_t ignored;
	int fd;

	close(answer.fd);
	fd = memfd_create("holes", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	if (fcntl(fd, F_ADD_SEALS, seals)) {
		assert_int_equal(errno, EINVAL); /* an old kernel */
		skip();
	}
	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &ignored);
	answer.region.size = bytes;
	answer.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	assert_int_equal(map_with(f, &region, &answer), 0);
	read_all(f, &region, buffer);
	assert_int_equal(occupied(fd), 0);
	for (size_t i = 0; i < 65536 / 8; i++)
		assert_int_equal(buffer[i], 0);
	/* Data written later is seen, also beside holes. */
	one = (struct fabric_read){
		.remote = &region, .offset = offset - 4096, .length = 12288, .to = buffer};
	for (uint64_t n = value; n < value + 3; n++) {
		map[offset / 8 + 1] = n;
		assert_int_equal(read_one(f, &one)->status, 0);
		assert_int_equal(buffer[512], 0);
		assert_int_equal(buffer[513], n);
		assert_int_equal(buffer[1024], 0);
	}
	one.offset = offset + 8 - 800;
	one.length = 813;
	assert_int_equal(read_one(f, &one)->status, 0);
	assert_int_equal(buffer[100], value + 2);
	assert_true(occupied(fd) <= 64);
	if (punch) { /* a hole that was data before */
		assert_int_equal(madvise(map, bytes, MADV_REMOVE), 0);
		read_all(f, &region, buffer);
		assert_int_equal(occupied(fd), 0);
	} else { /* no more holes can be made */
		assert_int_equal(madvise(map, bytes, MADV_REMOVE), -1);
	}
	fabric_unmap(f, &region);
	munmap(map, bytes);
	close(fd);
	fabric_close(f);
}

static void a_read_of_holes_allocates_nothing(void **state)
{
	holes(*state, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE, false);
}

static void nor_where_holes_may_be_punched_again(void **state)
{
	holes(*state, F_SEAL_SHRINK | F_SEAL_GROW, true);
}

static void a_read_out_of_bounds_is_refused_and_copies_nothing(void **state)
{
	struct agent *a = *state;
	struct fabric *f;
	struct fabric_remote none = {.id = 3, .length = SIZE};
	struct fabric_stats s;
	struct fabric_read *done[16];
	uint8_t *buffer;
	size_t bytes;
	int n;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, &bytes);
	memset(buffer, 0xee, bytes);
	const struct fabric_remote *d = fabric_directory(f);
	struct fabric_read r[] = {
		{.remote = d, .offset = SIZE, .length = 1, .to = buffer},
		{.remote = d, .offset = SIZE - 8, .length = 9, .to = buffer},
		{.remote = d, .offset = UINT64_MAX, .length = 2, .to = buffer},
		{.remote = d, .offset = 0, .length = 0, .to = buffer},
		{.remote = d, .offset = 0, .length = UINT32_MAX, .to = buffer},
		{.remote = d, .offset = 0, .length = 64, .to = buffer + bytes - 63},
		{.remote = d, .offset = 0, .length = 64, .to = buffer - 1},
		{.remote = d, .offset = 0, .length = 64, .to = NULL},
		{.remote = &none, .offset = 0, .length = 64, .to = buffer},
		{.remote = d, .offset = SIZE - 64, .length = 64, .to = buffer + bytes - 64},
	};
	assert_int_equal(fabric_post(f, r, 10), 10);
	n = fabric_poll(f, done, 16, now, 0);
	assert_int_equal(n, 10);
	for (int i = 0; i < 8; i++)
		assert_int_equal(r[i].status, -ERANGE);
	assert_int_equal(r[8].status, -EACCES); /* never mapped */
	assert_int_equal(r[9].status, 0);
	for (size_t i = 0; i < bytes - 64; i++)
		if (buffer[i] != 0xee)
			fail_msg("byte %zu was written", i);
	fabric_stats(f, &s);
	assert_int_equal(s.errors_access, 9);
	assert_int_equal(s.reads, 1);
	fabric_close(f);
}

static void reads_not_collected_are_kept_up_to_a_bound(void **state)
{
	enum { MANY = 6000 };
	struct agent *a = *state;
	struct fabric_read *r = calloc(MANY, sizeof(*r)), *done[64];
	struct fabric *f;
	int taken, got = 0, n;

	agent_listen(a);
	f = connect_to(a);
	for (int i = 0; i < MANY; i++)
		r[i] = (struct fabric_read){.remote = fabric_directory(f),
					    .offset = 0,
					    .length = 64,
					    .to = fabric_buffer(f, NULL),
					    .status = 1};
	taken = fabric_post(f, r, MANY);
	assert_true(taken > 0 && taken < MANY);
	assert_int_equal(fabric_post(f, r + taken, MANY - (uint32_t)taken), 0);
	/* Also if the connection is lost, each completes once. */
	agent_gone(a);
	now += 10 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_int_equal(fabric_post(f, r + taken, 1), -ENOTCONN);
	while ((n = fabric_poll(f, done, 64, now, 0)) > 0)
		for (int i = 0; i < n; i++) {
			assert_int_equal(done[i]->tag++, 0);
			got++;
		}
	assert_int_equal(got, taken);
	assert_int_equal(f->outstanding, 0);
	fabric_close(f);
	free(r);
}

/* ---- tests: the connection ---- */

static void back_off_doubles_to_a_second_and_starts_over(void **state)
{
	static const unsigned int waits[] = {50, 100, 200, 400, 800, 1000, 1000};
	struct agent *a = *state;
	struct fabric *f = fabric_open(a->target, NULL);
	uint64_t epoch = 7;

	assert_non_null(f);
	for (int again = 0; again < 2; again++) {
		if (!again) {
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
			assert_error(f, "No such file");
		}
		for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
			/* Not tried early, although the agent came back and disappeared again. */
			agent_listen(a);
			now += waits[i] * MS - 1;
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
			agent_gone(a);
			now += 1;
			assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
		}
		assert_int_equal(epoch, again);
		agent_listen(a);
		now += 1000 * MS;
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_CONNECTING);
		agent_welcome(a, memory(SIZE, F_SEAL_SHRINK), SIZE);
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_UP);
		assert_int_equal(epoch, again + 1);
		agent_gone(a);
		now += 3 * MS;
		assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
		assert_error(f, "closed the connection");
	}
	fabric_close(f);
}

static void a_new_connection_voids_what_came_over_the_old(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE}, directory;
	struct answer answer;
	struct fabric_read r;
	struct fabric *f;
	uint64_t epoch;
	void *buffer;

	agent_listen(a);
	f = connect_to(a);
	buffer = fabric_buffer(f, NULL);
	directory = *fabric_directory(f);
	answer = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &answer), 0);
	agent_gone(a);
	now += 3 * MS;
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_DOWN);
	assert_int_equal(epoch, 1);
	assert_null(fabric_directory(f));
	r = (struct fabric_read){.remote = &region, .length = 64, .to = buffer};
	assert_int_equal(fabric_post(f, &r, 1), -ENOTCONN);
	assert_int_equal(fabric_map(f, &region), -ENOTCONN);

	agent_listen(a);
	now += 60 * MS;
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_CONNECTING);
	agent_welcome(a, memory(SIZE, F_SEAL_SHRINK), SIZE);
	assert_int_equal(fabric_drive(f, now, &epoch), FABRIC_UP);
	assert_int_equal(epoch, 2);
	assert_int_equal(read_one(f, &r)->status, -EACCES);
	fabric_unmap(f, &region);
	answer = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &answer), 0);
	assert_int_equal(read_one(f, &r)->status, 0);
	/* A copy of the old directory's description is harmless. */
	agent_gone(a);
	now += 3 * MS;
	fabric_drive(f, now, &epoch);
	r.remote = &directory;
	assert_int_equal(fabric_post(f, &r, 1), -ENOTCONN);
	fabric_unmap(f, &directory);
	fabric_unmap(f, &region);
	fabric_close(f);
}

static void an_agent_that_does_not_answer_is_given_up(void **state)
{
	struct agent *a = *state;
	struct fabric_opts opts = {.connect_timeout_ms = 500, .gid_index = -1};
	struct fabric *f;

	agent_listen(a);
	f = fabric_open(a->target, &opts);
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
	now += 499 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
	now += 1 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_error(f, "did not answer");
	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	assert_int_equal(agent_hear(a, NULL), 0);
	fabric_close(f);
}

/* ---- tests: an agent that lies ---- */

enum lie {
	LIE_NO_FD,
	LIE_TWO_FDS,
	LIE_UNSEALED,
	LIE_NO_MEMFD,
	LIE_TOO_SMALL,
	LIE_TOO_LARGE,
	LIE_TINY,
	LIE_MAGIC,
	LIE_LENGTH,
	LIE_SHORT,
	LIE_SERIAL,
	LIE_TYPE,
	LIE_REFUSED,
	LIE_REFUSED_SHORT,
	LIE_OVERSIZED,
	LIE_EMPTY,
	LIE_HANG_UP,
	LIES
};

/* A packet to the collector's side, its bytes and its descriptors. */
struct told {
	struct sl_msg msg;
	union {
		struct sl_msg_welcome welcome;
		struct sl_msg_refused refused;
		uint8_t bytes[SL_MSG_MAX];
	} u;
	size_t bytes;
	int fds[2], count;
};

/* Turns an honest welcome into the given lie. */
static void twist(struct told *p, struct agent *a, enum lie lie)
{
	switch (lie) {
	case LIE_NO_FD:
		p->count = 0;
		break;
	case LIE_TWO_FDS:
		p->fds[1] = memory(SIZE, F_SEAL_SHRINK);
		p->count = 2;
		break;
	case LIE_NO_MEMFD:
		close(p->fds[0]);
		p->fds[0] = open("/dev/zero", O_RDONLY | O_CLOEXEC);
		break;
	case LIE_TOO_SMALL:
		p->u.welcome.size = SIZE + 1;
		break;
	case LIE_TOO_LARGE:
		p->u.welcome.size = UINT64_MAX;
		break;
	case LIE_TINY:
		p->u.welcome.size = 0;
		break;
	case LIE_MAGIC:
		p->msg.magic++;
		break;
	case LIE_LENGTH:
		p->msg.length = UINT32_MAX;
		break;
	case LIE_SHORT:
		p->bytes = 7;
		break;
	case LIE_SERIAL:
		p->msg.serial++;
		break;
	case LIE_TYPE:
		p->msg.type = SL_MSG_REGION;
		break;
	case LIE_REFUSED:
		p->msg.type = SL_MSG_REFUSED;
		p->msg.length = sizeof(p->u.refused);
		p->u.refused.error = EPERM;
		memset(p->u.refused.reason, 'x', sizeof(p->u.refused.reason));
		memcpy(p->u.refused.reason, "no\nway\033", 7);
		p->bytes = sizeof(p->msg) + sizeof(p->u.refused);
		break;
	case LIE_REFUSED_SHORT:
		p->msg.type = SL_MSG_REFUSED;
		p->msg.length = 2;
		p->bytes = sizeof(p->msg) + 2;
		break;
	case LIE_OVERSIZED:
		p->msg.length = SL_MSG_MAX;
		p->bytes = sizeof(p->msg) + sizeof(p->u);
		break;
	case LIE_EMPTY:
		p->bytes = 0;
		p->count = 1;
		break;
	case LIE_HANG_UP:
		close(a->peer);
		a->peer = -1;
		break;
	default:
		break;
	}
}

static void tell(struct agent *a, enum lie lie)
{
	struct told p = {.msg = {.magic = SL_MSG_MAGIC,
				 .type = SL_MSG_WELCOME,
				 .length = sizeof(p.u.welcome)},
			 .bytes = sizeof(p.msg) + sizeof(p.u.welcome),
			 .fds = {-1, -1},
			 .count = 1};

	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	p.msg.serial = a->serial;
	p.u.welcome.size = SIZE;
	p.fds[0] = memory(SIZE, lie == LIE_UNSEALED ? 0 : F_SEAL_SHRINK);
	twist(&p, a, lie);
	if (a->peer >= 0)
		agent_send(a, &p, p.bytes, p.fds, p.count);
	for (int i = 0; i < 2; i++)
		if (p.fds[i] >= 0)
			close(p.fds[i]);
}

static void an_agent_that_lies_is_not_believed(void **state)
{
	struct agent *a = *state;
	int before;

	agent_listen(a);
	before = count_fds();
	for (int lie = 0; lie < LIES; lie++) {
		struct fabric *f = fabric_open(a->target, NULL);
		struct fabric_stats s;
		enum fabric_state got;

		assert_int_equal(fabric_drive(f, now, NULL), FABRIC_CONNECTING);
		tell(a, lie);
		got = fabric_drive(f, now, NULL);
		fabric_stats(f, &s);
		if (got != (lie == LIE_TWO_FDS ? FABRIC_UP : FABRIC_DOWN))
			fail_msg("lie %d: state %d, %s", lie, got, s.last_error);
		if (lie != LIE_TWO_FDS) {
			assert_true(s.last_error[0]);
			assert_int_equal(s.connects, 0);
		}
		if (lie == LIE_REFUSED)
			assert_non_null(strstr(s.last_error, "no?way?"));
		fabric_close(f);
		if (a->peer >= 0)
			close(a->peer);
		a->peer = -1;
		if (count_fds() != before)
			fail_msg("lie %d: a descriptor was kept", lie);
	}
}

static void a_region_is_checked_like_the_directory(void **state)
{
	struct agent *a = *state;
	int before;

	agent_listen(a);
	before = count_fds();
	for (int i = 0; i < 8; i++) {
		struct fabric *f = connect_to(a);
		struct fabric_remote region = {.id = 5, .length = SIZE};
		struct answer s = good_answer(a, 5, SIZE);
		int want = -ENOTCONN, err;
		bool up = false;

		switch (i) {
		case 0: /* memory that can shrink */
			close(s.fd);
			s.fd = memory(SIZE, 0);
			want = -EINVAL;
			up = true;
			break;
		case 1: /* the size differs from the one in the directory */
			s.region.size = SIZE + 4096;
			want = -EINVAL;
			up = true;
			break;
		case 2: /* less memory than announced */
			close(s.fd);
			s.fd = memory(SIZE - 4096, F_SEAL_SHRINK);
			want = -EINVAL;
			up = true;
			break;
		case 3: /* another region */
			s.region.id = 6;
			break;
		case 4: /* no descriptor */
			close(s.fd);
			s.fd = -1;
			break;
		case 5:
			close(s.fd);
			s.hang_up = true;
			break;
		case 6:
			close(s.fd);
			s.garbage = true;
			break;
		case 7: /* the answer to an earlier question */
			s.late_serial = true;
			break;
		}
		err = map_with(f, &region, &s);
		if (err != want)
			fail_msg("case %d: %d instead of %d", i, err, want);
		assert_null(region.local);
		assert_int_equal(fabric_directory(f) != NULL, up);
		fabric_close(f);
		if (a->peer >= 0)
			close(a->peer);
		a->peer = -1;
		if (count_fds() != before)
			fail_msg("case %d: a descriptor was kept", i);
	}
}

static void a_region_that_is_gone_is_enoent_and_the_rest_goes_on(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct sl_msg_refused refused = {.error = ENOENT, .reason = "no such id"};
	struct answer s = {.agent = a, .type = SL_MSG_REFUSED, .fd = -1};
	struct fabric *f;

	agent_listen(a);
	f = connect_to(a);
	memcpy(&s.region, &refused, sizeof(s.region)); /* shorter than a whole refusal, but sound */
	assert_int_equal(map_with(f, &region, &s), -ENOENT);
	assert_non_null(fabric_directory(f));
	s = good_answer(a, 5, SIZE);
	assert_int_equal(map_with(f, &region, &s), 0);
	assert_int_equal(fabric_map(f, &region), -EINVAL); /* it is mapped */
	fabric_unmap(f, &region);
	region.id = 0;
	assert_int_equal(fabric_map(f, &region), -EINVAL);
	fabric_close(f);
}

static void a_hung_agent_stalls_once_and_briefly(void **state)
{
	struct agent *a = *state;
	struct fabric_remote region = {.id = 5, .length = SIZE};
	struct answer s = {.agent = a, .silent = true, .fd = -1};
	struct fabric *f;
	uint64_t start, took;

	agent_listen(a);
	f = connect_for(a, NULL);
	start = clock_ns(CLOCK_MONOTONIC);
	assert_int_equal(map_with(f, &region, &s), -ENOTCONN);
	took = clock_ns(CLOCK_MONOTONIC) - start;
	assert_true(took >= 150 * MS && took < 100000 * MS);
	assert_error(f, "did not answer");
	assert_null(fabric_directory(f));
	/* The next ones do not wait at all, although the machine may be busy in between. */
	for (int i = 0;; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		assert_int_equal(fabric_map(f, &region), -ENOTCONN);
		if (clock_ns(CLOCK_MONOTONIC) - start < 100 * MS)
			break;
		assert_true(i < 20);
	}
	fabric_close(f);
}

/* Maps until there is an answer; it was sent already. */
static int map_again(struct fabric *f, struct fabric_remote *remote)
{
	int err = -EAGAIN;

	for (int i = 0; i < 1000 && err == -EAGAIN; i++)
		err = fabric_map(f, remote);
	return err;
}

static void an_agent_that_is_late_blocks_no_reader(void **state)
{
	const struct fabric_opts opts = {
		.gid_index = -1, .answer_timeout_ms = 100000, .map_later = true};
	struct agent *a = *state;
	struct fabric_remote gone = {.id = 4, .length = SIZE}, region = {.id = 5, .length = SIZE};
	struct answer s;
	struct sl_msg_id id;
	struct fabric *f;
	uint64_t start;

	agent_listen(a);
	f = connect_for(a, &opts);
	start = clock_ns(CLOCK_MONOTONIC);
	for (int i = 0; i < 3; i++)
		assert_int_equal(fabric_map(f, &gone), -EAGAIN);
	/* Another one is not asked for before the first is answered. */
	assert_int_equal(fabric_map(f, &region), -EAGAIN);
	assert_true(clock_ns(CLOCK_MONOTONIC) - start < 50000 * MS);
	assert_int_equal(agent_hear(a, &id), SL_MSG_OPEN);
	assert_int_equal(id.id, 4);
	s = good_answer(a, 4, SIZE);
	agent_say(a, s.type, &s.region, sizeof(s.region), s.fd);
	assert_int_equal(fabric_map(f, &region), -EAGAIN);
	assert_int_equal(agent_hear(a, &id), SL_MSG_OPEN);
	assert_int_equal(id.id, 5);
	s = good_answer(a, 5, SIZE);
	agent_say(a, s.type, &s.region, sizeof(s.region), s.fd);
	assert_int_equal(map_again(f, &region), 0);
	assert_null(gone.local);
	assert_int_equal(fabric_drive(f, clock_ns(CLOCK_MONOTONIC), NULL), FABRIC_UP);
	fabric_unmap(f, &region);
	fabric_close(f);
}

static void an_unrequested_message_ends_the_connection(void **state)
{
	struct agent *a = *state;
	struct fabric *f;
	int before;

	agent_listen(a);
	before = count_fds();
	f = connect_to(a);
	agent_say(a, SL_MSG_REGION, NULL, 0, memory(SIZE, F_SEAL_SHRINK));
	/* The memory is checked at most every 2 ms, so that a round needs no system call. */
	assert_int_equal(fabric_drive(f, now + 1, NULL), FABRIC_UP);
	now += 3 * MS;
	assert_int_equal(fabric_drive(f, now, NULL), FABRIC_DOWN);
	assert_error(f, "unsolicited");
	fabric_close(f);
	close(a->peer);
	a->peer = -1;
	assert_int_equal(count_fds(), before);
}

int main(int argc, char **argv)
{
#define T(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_target_names_its_provider_or_nothing),
		T(reads_see_the_memory_as_it_is_now),
		T(a_read_of_holes_allocates_nothing),
		T(nor_where_holes_may_be_punched_again),
		T(a_read_out_of_bounds_is_refused_and_copies_nothing),
		T(reads_not_collected_are_kept_up_to_a_bound),
		T(back_off_doubles_to_a_second_and_starts_over),
		T(a_new_connection_voids_what_came_over_the_old),
		T(an_agent_that_does_not_answer_is_given_up),
		T(an_agent_that_lies_is_not_believed),
		T(a_region_is_checked_like_the_directory),
		T(a_region_that_is_gone_is_enoent_and_the_rest_goes_on),
		T(a_hung_agent_stalls_once_and_briefly),
		T(an_agent_that_is_late_blocks_no_reader),
		T(an_unrequested_message_ends_the_connection),
	};

	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
