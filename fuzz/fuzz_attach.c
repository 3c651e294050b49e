// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_attach.c - packets of several clients to the agent's socket, with memfds, hang-ups and time
 * in between. The input is a list of commands:
 *
 *	'P' client, flags, length, bytes   a raw packet; flags & 1: with a memfd
 *	'R' client, sections, bytes...     PUBLISH of a region whose header is right but for some
 *	                                   bytes, which are exchanged: offset (2), value (1)
 *	'O' client, slot                   OPEN of the region there
 *	'V' client, slot, flags, words...  VERDICT on the region there, by a consumer
 *	'B' slot, offset, value            a collector writes into the board, and says so
 *	'H' client                         hangs up
 *	'T' n                              n * 100 ms go by
 *	'W' slot, offset (2), value        a publisher writes into its region, also when admitted
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/conn.h"
#include "agent/peer.h"
#include "agent/region.h"

#define CLIENTS 4
#define SIZE	16384u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct input {
	const uint8_t *p, *end;
};

static uint8_t take(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static struct agent_conn *client(struct agent *a, struct agent_conn **conns, unsigned int i)
{
	i %= CLIENTS;
	if (!conns[i]) {
		struct agent_tenant_id id = {.uid = i ? 0 : 1000, .contained = i == 2};
		struct agent_peer *p = agent_peer_as(a, 1234, &id);

		conns[i] = agent_conn_new(a, -1, p, false);
	}
	return conns[i];
}

/* What the agent answers is thrown away; a connection that it ended is ours no longer. */
static void after(struct agent *a, struct agent_conn **conns)
{
	for (int i = 0; i < CLIENTS; i++) {
		struct agent_conn *c = conns[i];

		if (!c)
			continue;
		if (!c->gone) {
			if (c->out && c->out->fd >= 0)
				close(c->out->fd);
			free(c->out);
			c->out = NULL;
			if (c->role != ROLE_NEW)
				agent_timer_stop(&c->timer);
			if (c->hang_up)
				agent_conn_close(a, c);
		}
		if (c->gone)
			conns[i] = NULL;
	}
	agent_bury(a);
}

static void header(struct sl_region_header *h, uint64_t instance)
{
	static const char labels[] = "pod\0p\0service\0s";

	memcpy(h->magic, SL_REGION_MAGIC, 8);
	h->version = SL_REGION_VERSION;
	h->header_size = SL_HEADER_SIZE;
	h->size = SIZE;
	h->kind = SL_REGION_METRICS;
	h->instance = instance;
	h->section_count = 3;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, 64, 4096, 64};
	h->section[1] = (struct sl_region_section){SL_SECTION_STRIPES, 4096, 8192, 4096};
	h->section[2] = (struct sl_region_section){SL_SECTION_SCHEMA, 8, 12288, 4096};
	h->label_bytes = sizeof(labels);
	memcpy(h->labels, labels, sizeof(labels));
}

static void publish(struct agent *a, struct agent_conn *c, struct input *in)
{
	struct {
		struct sl_msg msg;
		struct sl_msg_publish say;
	} packet = {.msg = {SL_MSG_MAGIC, SL_MSG_PUBLISH, 0, sizeof(packet.say), 1}};
	struct sl_region_header *h;
	uint8_t changes = take(in);
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, SIZE)) {
		if (fd >= 0)
			close(fd);
		return;
	}
	packet.say.instance = take(in) % 8u + 1u;
	packet.say.size = SIZE;
	h = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (h != MAP_FAILED) {
		header(h, packet.say.instance);
		for (int i = 0; i < changes % 16; i++) {
			unsigned int at = take(in) | take(in) << 8;

			((uint8_t *)h)[at % SIZE] = take(in);
		}
		h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
		munmap(h, SIZE);
	}
	if (!(changes & 128))
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	agent_conn_packet(a, c, &packet, sizeof(packet), fd, false);
}

/* Bytes of the input as a packet, with a descriptor or without. */
static void any_packet(struct agent *a, struct agent_conn **conns, struct input *in)
{
	_Alignas(8) uint8_t packet[SL_MSG_MAX + 1];
	struct agent_conn *c = client(a, conns, take(in));
	uint8_t flags = take(in);
	size_t n = take(in) | (size_t)(flags >> 4) << 8;
	int fd = -1;

	if (n > (size_t)(in->end - in->p))
		n = (size_t)(in->end - in->p);
	memcpy(packet, in->p, n);
	in->p += n;
	if (flags & 1) {
		fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (fd >= 0 && n && write(fd, packet, n) < 0)
			n = 0;
	}
	agent_conn_packet(a, c, packet, n, fd, flags & 2);
}

/* A request of a consumer, which subscribes first. */
static void consume(struct agent *a, struct agent_conn *c, const void *ask, size_t bytes)
{
	struct sl_msg subscribe = {SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 0, 0, 1};

	if (c->role == ROLE_NEW)
		agent_conn_packet(a, c, &subscribe, sizeof(subscribe), -1, false);
	if (!c->gone && !c->hang_up)
		agent_conn_packet(a, c, ask, bytes, -1, false);
}

static void open_region(struct agent *a, struct agent_conn **conns, struct input *in)
{
	struct agent_conn *c = client(a, conns, take(in));
	struct agent_region *r = a->slots[take(in) % a->slot_count];
	struct {
		struct sl_msg msg;
		struct sl_msg_id id;
	} ask = {{SL_MSG_MAGIC, SL_MSG_OPEN, 0, 8, 2}, {r ? r->id : 99}};

	consume(a, c, &ask, sizeof(ask));
}

static void send_verdict(struct agent *a, struct agent_conn **conns, struct input *in)
{
	struct agent_conn *c = client(a, conns, take(in));
	struct agent_region *r = a->slots[take(in) % a->slot_count];
	struct {
		struct sl_msg msg;
		struct sl_msg_verdict v;
	} ask = {{SL_MSG_MAGIC, SL_MSG_VERDICT, 0, sizeof(ask.v), 3},
		 {.instance = r ? r->info->instance : 99, .score = take(in)}};

	ask.v.flags = take(in);
	ask.v.ttl_ns = take(in) * 1000000ull;
	consume(a, c, &ask, sizeof(ask));
}

/* A verdict that arrives by RDMA, with a byte of it changed before or after its check word. */
static void write_verdict(struct agent *a, struct input *in)
{
	uint32_t entry = take(in);
	uint64_t *line = a->verdict_board + 8 * (entry % a->slot_count);
	struct agent_region *r = a->slots[entry % a->slot_count];
	struct sl_msg_verdict v = {.instance = r ? r->info->instance : 1, .ttl_ns = 1000000};
	uint8_t at = take(in), value = take(in);

	memcpy(line, &v, sizeof(v));
	line[7] = sl_line_check(line);
	((uint8_t *)line)[at % 64] ^= value;
	if (at & 64)
		line[7] = sl_line_check(line);
	agent_verdict_board_notice(a, entry);
}

/* Its publisher changes a byte of a region. */
static void spoil_region(struct agent *a, struct input *in)
{
	struct agent_region *r = a->slots[take(in) % a->slot_count];
	unsigned int at = take(in) | take(in) << 8;

	if (r)
		((uint8_t *)r->map)[at % r->info->size] = take(in);
}

static void step(struct agent *a, struct agent_conn **conns, struct input *in)
{
	switch (take(in)) {
	case 'P':
		any_packet(a, conns, in);
		break;
	case 'R':
		publish(a, client(a, conns, take(in)), in);
		break;
	case 'O':
		open_region(a, conns, in);
		break;
	case 'V':
		send_verdict(a, conns, in);
		break;
	case 'B':
		write_verdict(a, in);
		break;
	case 'H':
		agent_conn_close(a, client(a, conns, take(in)));
		break;
	case 'T':
		a->clock += take(in) * 100000000ull;
		agent_timer_expire(a, agent_now(a));
		break;
	case 'W':
		spoil_region(a, in);
		break;
	}
}

/* Whatever was sent, entries and slots agree, and limits hold. */
static void check(const struct agent *a)
{
	for (uint32_t i = 0; i < a->slot_count; i++) {
		uint64_t line[8];
		struct region_entry e;

		region_copy_words(line, a->dir.entry[i], 8);
		if (region_entry_parse(line, &e) ||
		    (e.state != SL_STATE_FREE) != (a->slots[i] != NULL))
			abort();
	}
	if (a->memory > a->o.max_memory || a->region_count > a->o.max_regions)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_opts o = {
		.socket = "/nowhere",
		.host = "fuzz",
		.max_regions = 4,
		.max_region_size = SIZE * 2,
		.max_memory = SIZE * 3,
		.grace_ns = 1000000000,
		.lease_ns = 100000000,
	};
	struct input in = {data, data + size};
	struct agent_conn *conns[CLIENTS] = {0};
	struct agent a;
	char error[256];

	base_log_level = BASE_ERROR;
	if (agent_init(&a, &o, error, sizeof(error)))
		return 0;
	if (agent_verdict_board_init(&a)) {
		agent_fini(&a);
		return 0;
	}
	a.clock = 1;
	for (int steps = 0; in.p < in.end && steps < 64; steps++) {
		step(&a, conns, &in);
		after(&a, conns);
	}
	check(&a);
	agent_verdict_board_fini(&a);
	agent_fini(&a);
	return 0;
}
