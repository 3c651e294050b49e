/* SPDX-License-Identifier: Apache-2.0 */
/* shm_scene.h - an agent that the test plays, and a collector that reads from it */
#ifndef TESTS_FABRIC_SHM_SCENE_H
#define TESTS_FABRIC_SHM_SCENE_H

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

static inline int memory(size_t bytes, unsigned int seals)
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

static inline void agent_listen(struct agent *a)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};

	snprintf(to.sun_path, sizeof(to.sun_path), "%s/agent.sock", a->directory);
	a->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(a->listener, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(listen(a->listener, 8), 0);
	a->peer = -1;
}

static inline void agent_gone(struct agent *a)
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

/*
 * Accepts a connection if necessary, then reads one question. Returns its type, or 0 if none
 * arrives within 10 s.
 */
static inline uint16_t agent_hear(struct agent *a, struct sl_msg_id *id)
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

static inline void agent_send(struct agent *a, const void *bytes, size_t length, const int *fds,
			      int count)
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

static inline void agent_say(struct agent *a, uint16_t type, const void *payload, uint32_t length,
			     int fd)
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

static inline void agent_welcome(struct agent *a, int fd, uint64_t size)
{
	struct sl_msg_welcome w = {.agent_instance = 1, .size = size};

	assert_int_equal(agent_hear(a, NULL), SL_MSG_SUBSCRIBE);
	agent_say(a, SL_MSG_WELCOME, &w, sizeof(w), fd);
}

/* ---- a collector: time is what the test says ---- */

static uint64_t now = 1000000000u;

static inline struct fabric *connect_for(struct agent *a, const struct fabric_opts *opts)
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
static inline struct fabric *connect_to(struct agent *a)
{
	return connect_for(a, &(struct fabric_opts){.gid_index = -1, .answer_timeout_ms = 20000});
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

static inline void *answer_thread(void *arg)
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

static inline int map_with(struct fabric *f, struct fabric_remote *remote, struct answer *s)
{
	pthread_t thread;
	int err;

	assert_int_equal(pthread_create(&thread, NULL, answer_thread, s), 0);
	err = fabric_map(f, remote);
	pthread_join(thread, NULL);
	return err;
}

static inline struct answer good_answer(struct agent *a, uint64_t id, uint64_t size)
{
	return (struct answer){
		.agent = a,
		.type = SL_MSG_REGION,
		.region = {.id = id, .instance = 9, .size = size},
		.fd = memory(size, F_SEAL_SHRINK),
	};
}

static inline struct fabric_read *read_one(struct fabric *f, struct fabric_read *r)
{
	struct fabric_read *done = NULL;

	assert_int_equal(fabric_post(f, r, 1), 1);
	assert_int_equal(f->outstanding, 1);
	assert_int_equal(fabric_poll(f, &done, 1, now, 0), 1);
	assert_ptr_equal(done, r);
	assert_int_equal(f->outstanding, 0);
	return r;
}

static inline int setup(void **state)
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

static inline int teardown(void **state)
{
	struct agent *a = *state;

	agent_gone(a);
	rmdir(a->directory);
	free(a);
	return 0;
}

#endif
