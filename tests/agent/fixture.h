/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fixture.h - an agent without sockets, which gets packets by function calls, and hand-made
 * regions, which may contain lies.
 */
#ifndef TESTS_AGENT_FIXTURE_H
#define TESTS_AGENT_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test.h"
#include "agent/conn.h"
#include "agent/internal.h"
#include "agent/peer.h"
#include "agent/region.h"

#define MS     1000000ull
#define SEALED (F_SEAL_SHRINK | F_SEAL_GROW)

struct fake { /* a region of a publisher */
	int fd;
	uint64_t size, instance;
	struct sl_region_header *map;
};

static inline void fake_check(struct fake *f)
{
	f->map->check = sl_fnv1a(SL_FNV_BASIS, f->map, offsetof(struct sl_region_header, check));
}

static inline struct fake fake_make(uint64_t instance, uint32_t stripes, int seals)
{
	static const char labels[] = "pod\0fake-0\0service\0fake";
	struct fake f = {.size = 8192 + stripes * 4096ull + 4096, .instance = instance};
	struct sl_region_header *h;

	f.fd = memfd_create("fake", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(f.fd >= 0);
	assert_int_equal(posix_fallocate(f.fd, 0, (off_t)f.size), 0);
	h = f.map = mmap(NULL, f.size, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd, 0);
	assert_true(f.map != MAP_FAILED);
	assert_int_equal(fcntl(f.fd, F_ADD_SEALS, seals), 0);
	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = f.size;
	h->kind = SL_REGION_METRICS;
	h->pid = (uint32_t)getpid();
	h->instance = instance;
	h->start_ns = base_realtime_ns();
	h->section_count = 3;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, 64, 4096, 64};
	h->section[1] = (struct sl_region_section){SL_SECTION_STRIPES, 4096, 8192,
						   stripes * 4096ull};
	h->section[2] = (struct sl_region_section){SL_SECTION_SCHEMA, 8, 8192 + stripes * 4096ull,
						   4096};
	h->label_bytes = sizeof(labels);
	memcpy(h->labels, labels, sizeof(labels));
	fake_check(&f);
	return f;
}

static inline void fake_free(struct fake *f)
{
	munmap(f->map, f->size);
	close(f->fd);
}

static inline uint64_t *fake_line(struct fake *f, uint64_t offset)
{
	return (uint64_t *)((char *)f->map + offset);
}

/* Writes the numbers of lines and stripes in use to the hot line. */
static inline void fake_hot(struct fake *f, uint64_t lines, uint64_t stripes)
{
	uint64_t *hot = fake_line(f, 4096);

	hot[SL_HOT_GENERATION] = 1;
	hot[SL_HOT_LINES_USED] = lines;
	hot[SL_HOT_STRIPES_USED] = stripes;
	hot[SL_HOT_STATE] = SL_STATE_LIVE;
	hot[7] = sl_line_check(hot);
}

static inline void agent_up(struct agent *a, struct agent_opts o)
{
	char error[256];

	o.socket = "/nowhere";
	o.host = "testhost";
	if (!o.grace_ns)
		o.grace_ns = 1000 * MS;
	if (!o.lease_ns)
		o.lease_ns = 100 * MS;
	base_log_level = BASE_ERROR;
	if (agent_init(a, &o, error, sizeof(error)))
		fail_msg("%s", error);
	a->clock = 1000 * MS;
}

/* A uid other than the agent's, which it does not trust. */
static inline uid_t stranger(unsigned int n)
{
	return geteuid() + 1000 + n;
}

static inline struct agent_conn *conn_of(struct agent *a, const struct agent_tenant_id *id)
{
	struct agent_peer *p = agent_peer_as(a, 1234, id);

	assert_non_null(p);
	return agent_conn_new(a, -1, p, false);
}

static inline struct agent_conn *conn_as(struct agent *a, uid_t uid)
{
	return conn_of(a, &(struct agent_tenant_id){.uid = uid});
}

static inline struct agent_conn *conn_up(struct agent *a)
{
	return conn_as(a, geteuid());
}

/* Delivers one packet; fd is passed as the kernel would, as a new descriptor. */
static inline void say(struct agent *a, struct agent_conn *c, uint16_t type, const void *payload,
		       size_t bytes, int fd)
{
	struct sl_msg msg = {SL_MSG_MAGIC, type, 0, (uint32_t)bytes, 77};
	char packet[SL_MSG_MAX];

	memcpy(packet, &msg, sizeof(msg));
	memcpy(packet + sizeof(msg), payload, bytes);
	agent_conn_packet(a, c, packet, sizeof(msg) + bytes, fd < 0 ? -1 : dup(fd), false);
}

struct heard {
	int type; /* 0: nothing */
	uint32_t serial;
	int fd;
	union {
		struct sl_msg_admitted admitted;
		struct sl_msg_refused refused;
		struct sl_msg_welcome welcome;
		struct sl_msg_region region;
		struct sl_msg_status status;
	};
};

/* Returns the answer that waits in the connection. */
static inline struct heard hear(struct agent_conn *c)
{
	struct heard h = {.fd = -1};
	struct sl_msg msg;
	struct agent_packet *p;

	p = c->out;
	if (!p)
		return h;
	msg = p->msg;
	assert_int_equal(msg.magic, SL_MSG_MAGIC);
	assert_in_range(msg.length, 1, sizeof(p->payload));
	h.type = msg.type;
	h.serial = msg.serial;
	h.fd = p->fd;
	memcpy(&h.admitted, p->payload, msg.length);
	free(p);
	c->out = NULL;
	agent_timer_stop(&c->timer);
	return h;
}

static inline struct heard publish(struct agent *a, struct agent_conn *c, const struct fake *f)
{
	struct sl_msg_publish m = {f->instance, f->size};

	say(a, c, SL_MSG_PUBLISH, &m, sizeof(m), f->fd);
	return hear(c);
}

static inline uint64_t admitted(struct agent *a, struct agent_conn *c, const struct fake *f)
{
	struct heard h = publish(a, c, f);

	if (h.type == SL_MSG_REFUSED)
		fail_msg("refused: %s", h.refused.reason);
	assert_int_equal(h.type, SL_MSG_ADMITTED);
	assert_int_equal(h.serial, 77);
	return h.admitted.id;
}

static inline void refused(struct agent *a, struct agent_conn *c, const struct fake *f, int error,
			   enum agent_refusal cause)
{
	uint64_t before = a->n.refused[cause];
	struct heard h = publish(a, c, f);

	assert_int_equal(h.type, SL_MSG_REFUSED);
	if (h.refused.error != error)
		fail_msg("error %d instead of %d: %s", h.refused.error, error, h.refused.reason);
	assert_true(strlen(h.refused.reason) > 5);
	assert_int_equal(a->n.refused[cause], before + 1);
}

/* The entry of a slot, read as a collector does. */
static inline struct region_entry entry_of(struct agent *a, uint32_t slot)
{
	struct region_entry e;
	uint64_t line[8];

	region_copy_words(line, a->dir.entry[slot], 8);
	assert_int_equal(region_entry_parse(line, &e), REGION_FAULT_NONE);
	return e;
}

static inline struct region_directory_hot dir_hot(struct agent *a)
{
	struct region_info info = {.max_entries = a->slot_count};
	struct region_directory_hot hot;
	uint64_t line[8];

	region_copy_words(line, (uint64_t *)((char *)a->dir.map + 4096), 8);
	assert_int_equal(region_directory_hot_parse(line, &info, &hot), REGION_FAULT_NONE);
	return hot;
}

/* Advances the clock. */
static inline void pass(struct agent *a, uint64_t ns)
{
	a->clock += ns;
	do /* let connections that waited for their tenant's time have their turn */
		agent_timer_expire(a, agent_now(a));
	while (agent_timer_next_due(a) <= agent_now(a));
	agent_bury(a);
}

static inline int fds_open(void)
{
	int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif
