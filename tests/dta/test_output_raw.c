// SPDX-License-Identifier: Apache-2.0
/*
 * test_output_raw.c - the output that builds its own frames, with a simulated responder behind a
 * network that loses frames, falls silent and refuses; time is simulated. tests/guest/dta.sh uses a
 * real responder.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "support/test.h"
#include "base/base.h"
#include "no_port.h"

#define MEMORY	  65536u
#define COUNTERS  4096u /* bytes of the memory from its start that only FETCH_ADD touches */
#define ADDR	  0x7f0000001000ull
#define RKEY	  77u
#define REMEMBERS 4u /* answers to FETCH_ADDs kept for duplicates */
#define QUEUE	  4096u

static uint64_t seed;

static uint64_t chance(void) /* SplitMix64 */
{
	uint64_t x = seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

/* ---- the responder ---- */

static struct {
	struct dta_roce_end us, them; /* them: the output under test */
	uint8_t memory[MEMORY];
	uint32_t expected;
	uint64_t executed, adds, bells;
	bool nak_sent, dead, silent, busy_once;
	uint64_t va, left; /* address and remaining bytes of a WRITE of several packets */
	uint32_t remembered[REMEMBERS];
	unsigned remember_at, lossy;
	uint8_t answer[QUEUE][128];
	size_t bytes[QUEUE];
	unsigned head, tail;
	unsigned refuse; /* number of sends that fail with EAGAIN */
	unsigned mute;	 /* number of answers to lose, although the operation was executed */
} peer;

static uint64_t get(const uint8_t *from, unsigned bytes)
{
	uint64_t v = 0;

	while (bytes--)
		v = v << 8 | *from++;
	return v;
}

static void answer(enum dta_roce_opcode opcode, uint32_t psn, uint8_t syndrome)
{
	struct dta_roce_builder b;
	uint8_t aeth[12] = {syndrome};
	const struct dta_roce_packet p = {.opcode = opcode,
					  .psn = psn,
					  .payload = aeth,
					  .bytes = opcode == DTA_ROCE_ACK ? 4 : 12};
	unsigned at = peer.tail % QUEUE;

	if (peer.mute) {
		peer.mute--;
		return;
	}
	if (chance() % 100 < peer.lossy || peer.tail - peer.head == QUEUE)
		return;
	assert_int_equal(dta_roce_builder(&b, &peer.us, &peer.them, 50000), 0);
	peer.bytes[at] = dta_roce_build(&b, &p, peer.answer[at]);
	dta_roce_seal(&b, peer.answer[at], peer.bytes[at], false);
	peer.tail++;
}

static bool execute(const uint8_t *bth, size_t bytes)
{
	enum dta_roce_opcode opcode = bth[0];
	const uint8_t *at = bth + 12;
	bool first = opcode == DTA_ROCE_WRITE_FIRST || opcode == DTA_ROCE_WRITE_ONLY ||
		     opcode == DTA_ROCE_WRITE_ONLY_IMMEDIATE;
	bool end = opcode != DTA_ROCE_WRITE_FIRST && opcode != DTA_ROCE_WRITE_MIDDLE;
	size_t payload;

	if (opcode == DTA_ROCE_FETCH_ADD) {
		uint64_t offset = get(at, 8) - ADDR, v;

		assert_int_equal(peer.left, 0);
		if (get(at + 8, 4) != RKEY)
			return false;
		assert_true(offset < COUNTERS && !(offset & 7));
		memcpy(&v, peer.memory + offset, 8);
		v += get(at + 12, 8);
		memcpy(peer.memory + offset, &v, 8);
		peer.adds++;
		peer.remembered[peer.remember_at++ % REMEMBERS] = peer.expected;
		return true;
	}
	if (first) {
		assert_int_equal(peer.left, 0);
		if (get(at + 8, 4) != RKEY)
			return false;
		peer.va = get(at, 8);
		peer.left = get(at + 12, 4);
		at += 16;
	}
	if (opcode == DTA_ROCE_WRITE_LAST_IMMEDIATE || opcode == DTA_ROCE_WRITE_ONLY_IMMEDIATE) {
		assert_int_equal(get(at, 4), 4711);
		peer.bells++;
		at += 4;
	}
	payload = bytes - (size_t)(at - bth) - 4 - (bth[1] >> 4 & 3);
	assert_true(payload <= peer.left && peer.va >= ADDR && peer.va + payload <= ADDR + MEMORY);
	assert_true(end ? payload == peer.left : payload == 256);
	memcpy(peer.memory + (peer.va - ADDR), at, payload);
	peer.va += payload;
	peer.left -= payload;
	return true;
}

static void take(const uint8_t *f, size_t bytes)
{
	const uint8_t *bth = f + 42;
	uint32_t psn = (uint32_t)get(bth + 9, 3), icrc, ahead = (psn - peer.expected) & DTA_ROCE_24;
	bool add = bth[0] == DTA_ROCE_FETCH_ADD, wants = bth[8] & 0x80;

	if (peer.dead || peer.silent || chance() % 100 < peer.lossy)
		return;
	icrc = dta_roce_icrc(f, bytes);
	assert_memory_equal(f + bytes - 4, &icrc, 4);
	assert_int_equal(get(bth + 5, 3), peer.us.qpn);
	if (ahead >= DTA_ROCE_24 / 2) { /* a duplicate */
		bool known = !add;

		for (unsigned i = 0; i < REMEMBERS; i++)
			known = known || peer.remembered[i] == psn;
		assert_true(known);
		if (add)
			answer(DTA_ROCE_ATOMIC_ACK, psn, 0x1f);
		else if (wants)
			answer(DTA_ROCE_ACK, (peer.expected - 1) & DTA_ROCE_24, 0x1f);
	} else if (ahead) {
		if (!peer.nak_sent)
			answer(DTA_ROCE_ACK, peer.expected, DTA_ROCE_NAK_SEQUENCE);
		peer.nak_sent = true;
	} else if (peer.busy_once) {
		peer.busy_once = false;
		answer(DTA_ROCE_ACK, psn, DTA_ROCE_SYNDROME_RNR | 1);
	} else if (!execute(bth, bytes - 42)) {
		answer(DTA_ROCE_ACK, psn, DTA_ROCE_NAK_ACCESS);
		peer.dead = true;
	} else {
		peer.nak_sent = false;
		peer.expected = (psn + 1) & DTA_ROCE_24;
		peer.executed++;
		if (add)
			answer(DTA_ROCE_ATOMIC_ACK, psn, 0x1f);
		else if (wants)
			answer(DTA_ROCE_ACK, psn, 0x1f);
	}
}

/* ---- what the output believes to be its interface ---- */

int __real_dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			     char *error, size_t error_bytes);
void __real_dta_raw_port_close(struct dta_raw_port *p);
int __real_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count);

int __wrap_dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			     char *error, size_t error_bytes)
{
	if (opts->file)
		return __real_dta_raw_port_open(p, opts, error, error_bytes);
	*p = no_port();
	return 0;
}

void __wrap_dta_raw_port_close(struct dta_raw_port *p);
void __wrap_dta_raw_port_close(struct dta_raw_port *p)
{
	if (p->file)
		__real_dta_raw_port_close(p);
}

int __wrap_dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours);
int __wrap_dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours)
{
	(void)p, (void)ours;
	return 0;
}

int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count);
int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count)
{
	if (p->file)
		return __real_dta_raw_port_send(p, frames, count);
	if (peer.refuse) {
		peer.refuse--;
		count /= 2;
		if (!count)
			return -EAGAIN;
	}
	for (unsigned i = 0; i < count; i++)
		take(frames[i].data, frames[i].bytes);
	return (int)count;
}

int __wrap_dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames,
				unsigned count);
int __wrap_dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames,
				unsigned count)
{
	unsigned n = 0;

	(void)p;
	for (; n < count && peer.head != peer.tail; n++, peer.head++) {
		frames[n].bytes = peer.bytes[peer.head % QUEUE];
		memcpy(frames[n].data, peer.answer[peer.head % QUEUE], frames[n].bytes);
	}
	return (int)n;
}

/* ---- tests ---- */

static const struct dta_object object = {.number = 1, .rkey = RKEY, .addr = ADDR, .bytes = MEMORY};

static void connect_them(struct dta_output *o)
{
	struct dta_roce_end theirs = {
		.qpn = 0x100 + (uint32_t)(chance() & 0xfff),
		.psn = 1,
		.gid = {[10] = 0xff, 0xff, 10, 0, 0, 2},
		.mac = {2, 2},
		.mtu = 256,
		.atomics = REMEMBERS,
	};

	assert_int_equal(dta_output_raw_ours(o, &peer.them), 0);
	peer.us = theirs;
	peer.expected = peer.them.psn;
	peer.nak_sent = peer.dead = peer.silent = false;
	peer.left = 0;
	peer.head = peer.tail;
	memset(peer.remembered, 0xff, sizeof(peer.remembered));
	assert_int_equal(dta_output_raw_connect(o, &theirs), 0);
	/* A second answer would belong to an earlier request. */
	assert_int_equal(dta_output_raw_connect(o, &theirs), -EALREADY);
}

static struct dta_output *open_it(unsigned s, unsigned lossy)
{
	char error[200];
	struct dta_output *o;

	memset(&peer, 0, sizeof(peer));
	seed = s;
	now = 1000000000;
	peer.lossy = lossy;
	o = dta_output_raw(
		&(struct dta_output_raw_opts){.interface = "any", .depth = 64, .tries = 6}, error,
		sizeof(error));
	assert_non_null(o);
	assert_int_equal(o->ops->write(o, &object, 0, error, 8, NULL), -ENOTCONN);
	connect_them(o);
	return o;
}

static void go_on(struct dta_output *o)
{
	now += 200000;
	if (o->ops->drive(o, now) == DTA_OUTPUT_DOWN)
		connect_them(o);
}

/* The operations requested of an output, and the expected contents of memory. */
struct asked {
	uint8_t memory[MEMORY];
	uint64_t adds, bells, denied, steps;
};

/* Lets the network lose frames, and the peer refuse requests or fall silent, at random. */
static void disturb(unsigned round)
{
	if (round >= 8 && chance() % 300 == 0)
		peer.silent = true;
	if (chance() % 100 == 0)
		peer.busy_once = true;
	if (chance() % 50 == 0)
		peer.refuse = 3;
	if (chance() % 200 == 0)
		peer.mute = 40;
}

/* Requests one random operation; deny: with a key that the peer does not know. */
static void operate(struct dta_output *o, struct asked *want, unsigned round, bool deny)
{
	uint8_t data[4096];
	uint32_t bytes = chance() % 4 ? chance() % 64 : chance() % sizeof(data);
	uint64_t offset = COUNTERS + chance() % (MEMORY - COUNTERS - bytes);
	struct dta_object no = object;
	unsigned kind = chance() % 8;
	int err;

	for (uint32_t k = 0; k < bytes; k++)
		data[k] = (uint8_t)chance();
	disturb(round);
	no.rkey = 99;
	do {
		assert_true(++want->steps < 1000000);
		if (deny)
			err = o->ops->add(o, &no, 8, 1);
		else if (kind < 3)
			err = o->ops->add(o, &object, chance() % COUNTERS & ~7ull, 1);
		else if (kind == 3)
			err = o->ops->write(o, &object, offset, data, bytes, &(uint32_t){4711});
		else
			err = o->ops->write(o, &object, offset, data, bytes, NULL);
		if (err)
			go_on(o);
	} while (err == -EAGAIN || err == -ENOTCONN);
	assert_int_equal(err, 0);
	if (deny) {
		want->denied++;
	} else if (kind < 3) {
		want->adds++;
	} else {
		memcpy(want->memory + offset, data, bytes);
		want->bells += kind == 3;
	}
}

static struct dta_output_stats account_closes(struct dta_output *o, const struct asked *want)
{
	struct dta_output_stats s;

	s = o->stats;
	assert_int_equal(s.writes + s.adds, 1500);
	assert_int_equal(s.completed + s.unconfirmed + s.failed, 1500);
	assert_int_equal(s.adds, want->adds + want->denied);
	assert_int_equal(s.failed, want->denied);
	assert_true(peer.adds <= want->adds && peer.adds + s.unconfirmed >= want->adds);
	/* An immediate may arrive twice only if it was in transit when the queue pair broke. */
	assert_true(s.disconnects ? peer.bells >= want->bells : peer.bells == want->bells);
	if (!s.disconnects)
		assert_int_equal(s.unconfirmed, 0);
	for (uint32_t i = 0; i < COUNTERS; i += 8) {
		uint64_t v;

		memcpy(&v, peer.memory + i, 8);
		peer.adds -= v;
	}
	assert_int_equal(peer.adds, 0);
	return s;
}

static void memory_is_written_in_order_and_the_account_closes(void **state)
{
	static struct asked want;
	uint64_t broken = 0, unconfirmed = 0, refused = 0;

	(void)state;
	for (unsigned round = 0; round < 24; round++) {
		struct dta_output *o = open_it(round, round % 4 * 5);
		struct dta_output_stats s;

		memset(&want, 0, sizeof(want));
		for (unsigned i = 0; i < 1500; i++) {
			operate(o, &want, round, round >= 16 && i % 400 == 399);
			if (chance() % 16 == 0)
				o->ops->flush(o);
			if (chance() % 16 == 0)
				go_on(o);
		}
		while (o->outstanding) {
			assert_true(++want.steps < 1000000);
			go_on(o);
		}
		assert_memory_equal(peer.memory + COUNTERS, want.memory + COUNTERS,
				    MEMORY - COUNTERS);
		s = account_closes(o, &want);
		broken += s.disconnects;
		unconfirmed += s.unconfirmed;
		refused += s.failed;
		o->ops->close(o);
	}
	assert_true(broken && unconfirmed && refused);
}

/*
 * The caller may have read the clock before frames were sent. An answer that seems to precede its
 * request says nothing about the round trip, and later losses are still repaired in time.
 */
static void an_old_clock_reading_prevents_no_resend(void **state)
{
	struct dta_output *o = open_it(1, 0);
	struct dta_output_stats s;

	(void)state;
	for (int back = 0; back < 2;
	     back++) { /* one that is smoothed, and the one that it is smoothed with */
		assert_int_equal(o->ops->add(o, &object, 0, 1), 0);
		o->ops->flush(o);
		o->ops->drive(o, back ? now - 1000000 : (now += 200000));
		assert_int_equal(o->outstanding, 0);
	}
	peer.mute = 1;
	assert_int_equal(o->ops->add(o, &object, 0, 1), 0);
	o->ops->flush(o);
	for (unsigned i = 0; i < 1000; i++) /* 0.2 s: many times the timeout */
		go_on(o);
	assert_int_equal(o->outstanding, 0);
	s = o->stats;
	assert_int_equal(s.completed, 3);
	assert_int_equal(s.disconnects, 0);
	assert_int_equal(s.again, 1);
	o->ops->close(o);
}

static void what_lies_outside_or_is_too_long_is_not_taken(void **state)
{
	static uint8_t data[DTA_OUTPUT_WRITE_MAX + 1];
	struct dta_object large = object;
	struct dta_output *o = open_it(1, 0);
	struct dta_output_stats s;

	(void)state;
	large.bytes = 1ull << 40;
	assert_int_equal(o->ops->write(o, &object, MEMORY, data, 1, NULL), -ERANGE);
	assert_int_equal(o->ops->write(o, &object, MEMORY - 3, data, 4, NULL), -ERANGE);
	assert_int_equal(o->ops->write(o, &object, ~0ull, data, 4, NULL), -ERANGE);
	assert_int_equal(o->ops->write(o, &object, ~0ull - 1, data, 0xffffffff, NULL), -ERANGE);
	assert_int_equal(o->ops->add(o, &object, MEMORY, 1), -ERANGE);
	assert_int_equal(o->ops->add(o, &object, 4, 1), -ERANGE);
	assert_int_equal(o->ops->write(o, &large, 0, data, sizeof(data), NULL), -EMSGSIZE);
	assert_int_equal(o->ops->write(o, &large, 0, data, sizeof(data) - 1, NULL), 0);
	s = o->stats;
	assert_int_equal(s.writes, 1);
	/* 8192 packets of 256 bytes fit: one is left. */
	assert_int_equal(o->ops->write(o, &large, 0, data, sizeof(data) - 1 - 256, NULL), 0);
	assert_int_equal(o->ops->write(o, &large, 0, data, 257, NULL), -EAGAIN);
	assert_int_equal(o->ops->write(o, &large, 0, data, 256, NULL), 0);
	assert_int_equal(o->ops->add(o, &large, 0, 1), -EAGAIN);
	assert_int_equal(o->ops->write(o, &large, 0, data, 0, NULL), -EAGAIN);
	assert_int_equal(o->outstanding, 3);
	o->ops->close(o);
}

static void a_file_holds_what_would_be_sent(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char path[256], error[200];
	uint8_t data[3000] = {1, 2, 3}, frame[2048];
	uint32_t record[4], frames = 0, packets[] = {1, 3, 1, 1};
	struct dta_output *o;
	struct dta_output_stats s;
	FILE *f;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/sl-raw-XXXXXX", tmp ? tmp : "/tmp");
	fd = mkstemp(path);
	assert_true(fd >= 0);
	f = fdopen(fd, "rb");
	assert_non_null(f);
	o = dta_output_raw(&(struct dta_output_raw_opts){.file = path}, error, sizeof(error));
	if (!o)
		fail_msg("%s", error);
	assert_int_equal(o->ops->write(o, &object, 8, data, 13, NULL), 0);
	assert_int_equal(o->ops->write(o, &object, 64, data, 3000, NULL), 0);
	assert_int_equal(o->ops->write(o, &object, 0, data, 8, &(uint32_t){42}), 0);
	assert_int_equal(o->ops->add(o, &object, 16, 5), 0);
	o->ops->flush(o);
	assert_int_equal(o->outstanding, 0);
	s = o->stats;
	assert_int_equal(s.completed, 4);
	o->ops->close(o);
	assert_int_equal(fread(frame, 1, 24, f), 24);
	while (fread(record, sizeof(record), 1, f) == 1) {
		uint32_t icrc;

		assert_true(record[2] == record[3] && record[2] <= sizeof(frame));
		assert_int_equal(fread(frame, 1, record[2], f), record[2]);
		icrc = dta_roce_icrc(frame, record[2]);
		assert_memory_equal(frame + record[2] - 4, &icrc, 4);
		frames++;
	}
	for (unsigned i = 0; i < 4; i++)
		frames -= packets[i];
	assert_int_equal(frames, 0);
	fclose(f);
	unlink(path);
}

/* The last frames are only written when it is closed. */
static void a_file_that_could_not_be_written_is_told(void **state)
{
	const int own = dup(2), said = memfd_create("stderr", MFD_CLOEXEC);
	struct dta_output *o;
	char error[200], text[400] = "";

	(void)state;
	o = dta_output_raw(&(struct dta_output_raw_opts){.file = "/dev/full"}, error,
			   sizeof(error));
	assert_non_null(o);
	assert_true(own >= 0 && said >= 0);
	dup2(said, 2);
	o->ops->close(o);
	fflush(stderr);
	dup2(own, 2);
	assert_true(pread(said, text, sizeof(text) - 1, 0) >= 0);
	assert_non_null(strstr(text, "the file of frames is incomplete: No space left"));
	close(own);
	close(said);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_is_written_in_order_and_the_account_closes),
		cmocka_unit_test(an_old_clock_reading_prevents_no_resend),
		cmocka_unit_test(what_lies_outside_or_is_too_long_is_not_taken),
		cmocka_unit_test(a_file_holds_what_would_be_sent),
		cmocka_unit_test(a_file_that_could_not_be_written_is_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
