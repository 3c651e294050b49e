// SPDX-License-Identifier: Apache-2.0
/*
 * drive.c - both outputs over RDMA against the owner's side, in two guests: tests/guest/dta.sh runs
 * it.
 *
 *   dta-drive owner DIR DEVICE
 *   dta-drive write DIR raw|verbs HOST INTERFACE NUMBER OPERATIONS [kill|deny|skip|break|loss]
 *
 * DIR is shared and stands for the control channel: OBJECT is what the owner says of its memory,
 * THEIRS.n and OURS.n are "queue" messages, KILL has it end all queue pairs, CHECK.n asks whether
 * all operations of run n are in its memory, CHECKED.n is the answer, STOP ends it. BEGIN says
 * which run is next: one that failed leaves nothing to it. kill: half way through, the queue pairs
 * are ended (KILLED.n). deny: the last operation is for unregistered memory. skip, break (raw): one
 * frame in the middle is never sent, or with a wrong iCRC, by standing between the output and its
 * port. loss: the link loses frames, and it must show.
 *
 * A writer ends with 75 if the owner's machine did not answer for as long as a queue pair waits, a
 * quarter of a second, which a busy host can do to an emulated one. What it then says of a
 * connection that was not ended means nothing; the caller begins again.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "base/base.h"
#include "fabric/host.h"
#include "dta/io/output_raw.h"

#define BYTES	    (1u << 20)
#define SLOTS	    4096u /* of 64 bytes, from 0 */
#define COUNTERS    512u
#define COUNTERS_AT (SLOTS * 64)
#define LONGS	    64u
#define LONGS_AT    (COUNTERS_AT + COUNTERS * 8)
#define LONG_BYTES  3000u
#define LONG_ROOM   4096u
#define BELLS_AT    (LONGS_AT + LONGS * LONG_ROOM)
#define BELLS	    512u
#define INSTANCE    0x1234567890abcdefull
#define PATIENCE_NS 90000000000ull
#define SILENT	    75 /* EX_TEMPFAIL */

static const char *dir;

static void die(const char *what, const char *why)
{
	fprintf(stderr, "FAIL: %s: %s\n", what, why);
	exit(1);
}

/* ---- the shared folder ---- */

static const char *path(const char *name, unsigned number)
{
	static char p[2][512];
	static unsigned turn;

	turn ^= 1;
	snprintf(p[turn], sizeof(p[turn]), "%s/%s.%u", dir, name, number);
	return p[turn];
}

static void put(const char *name, unsigned number, json_t *j)
{
	char part[512];

	snprintf(part, sizeof(part), "%s.part", path(name, number));
	if (!j || json_dump_file(j, part, 0) || rename(part, path(name, number)))
		die(name, "can't be written");
	json_decref(j);
}

static json_t *get(const char *name, unsigned number)
{
	json_t *j = json_load_file(path(name, number), 0, NULL);

	if (j)
		unlink(path(name, number));
	return j;
}

static json_t *await(const char *name, unsigned number, struct dta_output *o)
{
	uint64_t end = base_now_ns() + PATIENCE_NS;
	json_t *j;

	while (!(j = get(name, number))) {
		if (base_now_ns() > end)
			die(name, "did not come");
		if (o)
			o->ops->drive(o, base_now_ns());
		usleep(5000);
	}
	return j;
}

/* ---- what is written ---- */

struct operation {
	enum { SLOT, ADD, LONG, BELL } kind;
	uint32_t at; /* offset in the object */
	uint32_t bytes;
	uint64_t number; /* the number that is written or added */
};

static struct operation operation(unsigned run, uint64_t i)
{
	uint64_t h = (i * 0x9e3779b97f4a7c15ull + run) * 0xbf58476d1ce4e5b9ull >> 32;

	switch (i % 8) {
	case 4:
	case 5:
		return (struct operation){ADD, COUNTERS_AT + h % COUNTERS * 8, 8, 1 + i % 7};
	case 6:
		return (struct operation){LONG, LONGS_AT + h % LONGS * LONG_ROOM, LONG_BYTES, i};
	case 7:
		return (struct operation){BELL, BELLS_AT + h % BELLS * 8, 8, i};
	}
	return (struct operation){SLOT, (uint32_t)(h % SLOTS) * 64, 24, i};
}

static void fill(uint8_t *to, const struct operation *op, unsigned run)
{
	for (uint32_t k = 0; k < op->bytes; k += 8) {
		uint64_t v = op->number + ((uint64_t)run << 40) + ((uint64_t)k << 48);

		memcpy(to + k, &v, 8);
	}
}

/* ---- the owner ---- */

static uint64_t queues[64];
static unsigned queue_count;
static uint64_t bells, gone_count;

static bool came(void *arg, uint64_t queue, const char *name)
{
	(void)arg;
	if (strcmp(name, "drive") || queue_count == 64)
		return false;
	queues[queue_count++] = queue;
	return true;
}

static void gone(void *arg, uint64_t queue, const char *name)
{
	(void)arg, (void)name;
	gone_count++;
	for (unsigned i = 0; i < queue_count; i++)
		if (queues[i] == queue)
			queues[i] = queues[--queue_count];
}

static void bell(void *arg, uint64_t queue, uint32_t number)
{
	(void)arg, (void)queue;
	bells += number % 8 == 7;
}

/*
 * Checks that all operations of the run are done, except this many unconfirmed FETCH_ADDs. Returns
 * NULL, or the error.
 */
static const char *compare(const uint8_t *map, const json_t *about)
{
	static uint8_t expected[BYTES];
	static char why[200];
	unsigned run = (unsigned)json_integer_value(json_object_get(about, "run"));
	uint64_t operations = (uint64_t)json_integer_value(json_object_get(about, "operations"));
	uint64_t unconfirmed = (uint64_t)json_integer_value(json_object_get(about, "unconfirmed"));
	bool once = json_is_true(json_object_get(about, "once"));
	uint64_t rung = 0, missing = 0;

	memset(expected, 0, sizeof(expected));
	for (uint64_t i = 0; i < operations; i++) {
		struct operation op = operation(run, i);
		uint64_t sum;

		rung += op.kind == BELL;
		if (op.kind != ADD) {
			fill(expected + op.at, &op, run);
			continue;
		}
		memcpy(&sum, expected + op.at, 8);
		sum += op.number;
		memcpy(expected + op.at, &sum, 8);
	}
	for (uint32_t i = 0; i < BYTES; i += 8) {
		uint64_t want, have;

		memcpy(&want, expected + i, 8);
		memcpy(&have, map + i, 8);
		if (i >= COUNTERS_AT && i < LONGS_AT && have < want) {
			missing += want - have;
		} else if (have != want) {
			snprintf(why, sizeof(why), "at %u: %#llx, not %#llx", i,
				 (unsigned long long)have, (unsigned long long)want);
			return why;
		}
	}
	if (missing > unconfirmed * 7) {
		snprintf(why, sizeof(why), "%llu of the sums missing, with %llu unconfirmed",
			 (unsigned long long)missing, (unsigned long long)unconfirmed);
		return why;
	}
	if (once ? bells != rung : bells < rung) {
		snprintf(why, sizeof(why), "%llu immediates, not %llu", (unsigned long long)bells,
			 (unsigned long long)rung);
		return why;
	}
	return NULL;
}

static void answer_queue(struct fabric_host *host, unsigned run, json_t *theirs)
{
	static uint64_t before;
	struct dta_roce_end a, b;
	int err;

	if (before)
		fabric_host_queue_end(host, before);
	err = dta_roce_end_of_json(theirs, &a);
	if (!err)
		err = dta_raw_queue_new(host, "drive", &a, &b, &before);
	if (err)
		die("queue", strerror(-err));
	if (queue_count < 64)
		queues[queue_count++] = before;
	put("OURS", run, dta_roce_end_json(&b));
}

static int owner(const char *device)
{
	const struct fabric_host_opts opts = {
		.device = device,
		.port = DTA_VERBS_PORT,
		.gid_index = -1,
	};
	const struct fabric_host_writers writers = {
		.instance = INSTANCE,
		.came = came,
		.gone = gone,
		.immediate = bell,
	};
	struct fabric_host_stats s;
	struct fabric_host_key key;
	struct fabric_host *host;
	char error[200];
	uint8_t *map;
	json_t *j;

	host = fabric_host_open(&opts, error, sizeof(error));
	if (!host)
		die("owner", error);
	if (fabric_host_let_write(host, &writers))
		die("owner", "no completion queue");
	map = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (map == MAP_FAILED || fabric_host_register_writable(host, map, BYTES, &key))
		die("memory", "can't be registered");
	fabric_host_stats(host, &s);
	put("OBJECT", 0,
	    json_pack("{s:I,s:I,s:i}", "addr", (json_int_t)key.addr, "rkey", (json_int_t)key.rkey,
		      "port", (int)s.port));
	for (unsigned run = 0;;) {
		struct pollfd p = {.fd = fabric_host_fd(host), .events = POLLIN};

		poll(&p, 1, 5);
		fabric_host_dispatch(host);
		if ((j = json_load_file(path("BEGIN", 0), 0, NULL))) {
			run = (unsigned)json_integer_value(json_object_get(j, "run"));
			json_decref(j);
			memset(map, 0, BYTES);
			bells = 0;
			unlink(path("BEGIN", 0)); /* the writer goes on */
		}
		if ((j = get("THEIRS", run))) {
			answer_queue(host, run, j);
			json_decref(j);
		}
		if ((j = get("KILL", run))) {
			json_decref(j);
			while (queue_count)
				fabric_host_queue_end(host, queues[0]);
			put("KILLED", run, json_object());
		}
		if ((j = get("CHECK", run))) {
			const char *why;

			/* Immediates may wait behind data that we have already compared. */
			for (unsigned i = 0; i < 200 && (why = compare(map, j)); i++) {
				usleep(10000);
				fabric_host_dispatch(host);
			}
			put("CHECKED", run, json_pack("{s:s}", "why", why ? why : ""));
			json_decref(j);
		}
		if ((j = get("STOP", 0)))
			break;
	}
	json_decref(j);
	fabric_host_unregister(host, &key);
	fabric_host_stats(host, &s);
	printf("accepted %llu, ended %llu\n", (unsigned long long)s.accepted,
	       (unsigned long long)gone_count);
	fabric_host_close(host);
	munmap(map, BYTES);
	return gone_count ? 0 : 1;
}

/* ---- the writer ---- */

/* The frame to skip or break, counted down; the time when this happened. */
static enum { HONEST, SKIP, BREAK } wrong;
static unsigned until_wrong, wrongs;
static uint64_t wrong_ns;

int __real_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count);
int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count);

/* Replaced by the linker's --wrap. The output is told that all frames were sent. */
int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count)
{
	int sent;

	if (wrong == HONEST || until_wrong >= count) {
		until_wrong -= wrong == HONEST ? 0 : count;
		return __real_dta_raw_port_send(p, frames, count);
	}
	count = until_wrong + 1; /* nothing behind it in this call */
	if (wrong == BREAK)
		((uint8_t *)frames[until_wrong].data)[frames[until_wrong].bytes - 1] ^= 1;
	sent = wrong == BREAK || until_wrong
		       ? __real_dta_raw_port_send(p, frames, wrong == BREAK ? count : count - 1)
		       : 0;
	if (sent == (int)(wrong == BREAK ? count : count - 1)) {
		sent = (int)count;
		wrong = HONEST;
		wrongs++;
	} else if (sent > 0) {
		until_wrong -= (unsigned)sent;
	}
	return sent;
}

static void negotiate(struct dta_output *o, unsigned run)
{
	struct dta_roce_end ours, theirs;
	json_t *j;

	dta_output_raw_ours(o, &ours);
	put("THEIRS", run, dta_roce_end_json(&ours));
	j = await("OURS", run, NULL);
	if (dta_roce_end_of_json(j, &theirs) || dta_output_raw_connect(o, &theirs))
		die("queue", "of the owner: not sound");
	json_decref(j);
}

static bool is_raw; /* the output */
static bool silent; /* whether the owner's machine was silent for too long */

static void go_on(struct dta_output *o, unsigned run)
{
	static uint64_t end, lost;
	struct dta_output_stats s;

	s = o->stats;
	if (s.disconnects != lost) {
		printf("= lost: %s\n", s.last_error);
		silent |= strstr(s.last_error, ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR)) != NULL;
	}
	lost = s.disconnects;
	if (!end)
		end = base_now_ns() + PATIENCE_NS;
	if (base_now_ns() > end)
		die("the output does not get on", s.last_error);
	if (o->ops->drive(o, base_now_ns()) == DTA_OUTPUT_DOWN && is_raw)
		negotiate(o, run);
}

static int give(struct dta_output *o, const struct dta_object *to, const struct operation *op,
		unsigned run)
{
	uint8_t data[LONG_ROOM];

	if (op->kind == ADD)
		return o->ops->add(o, to, op->at, op->number);
	fill(data, op, run);
	return o->ops->write(o, to, op->at, data, op->bytes,
			     op->kind == BELL ? &(uint32_t){(uint32_t)op->number} : NULL);
}

static void print_stats(const struct dta_output_stats *s)
{
	printf("= writes %llu adds %llu completed %llu unconfirmed %llu failed %llu again %llu naks %llu "
	       "resyncs %llu connects %llu disconnects %llu %s\n",
	       (unsigned long long)s->writes, (unsigned long long)s->adds,
	       (unsigned long long)s->completed, (unsigned long long)s->unconfirmed,
	       (unsigned long long)s->failed, (unsigned long long)s->again,
	       (unsigned long long)s->naks, (unsigned long long)s->resyncs,
	       (unsigned long long)s->connects, (unsigned long long)s->disconnects, s->last_error);
}

/* An output to the memory that the other machine offers in OBJECT. */
static struct dta_output *open_output(bool raw, const char *host, const char *interface,
				      struct dta_object *object)
{
	json_t *about = json_load_file(path("OBJECT", 0), 0, NULL);
	struct dta_output *o;
	char error[200];

	*object = (struct dta_object){
		.number = 1,
		.addr = (uint64_t)json_integer_value(json_object_get(about, "addr")),
		.rkey = (uint32_t)json_integer_value(json_object_get(about, "rkey")),
		.bytes = BYTES,
	};
	is_raw = raw;
	if (raw)
		o = dta_output_raw(&(struct dta_output_raw_opts){.interface = interface}, error,
				   sizeof(error));
	else
		o = dta_output_verbs(
			&(struct dta_output_verbs_opts){
				.host = host,
				.port = (uint16_t)json_integer_value(
					json_object_get(about, "port")),
				.gid_index = -1,
				.name = "drive",
				.instance = INSTANCE,
			},
			error, sizeof(error));
	json_decref(about);
	if (!o)
		die("output", error);
	return o;
}

static void drain(struct dta_output *o, unsigned run)
{
	while (o->outstanding)
		go_on(o, run);
}

static void give_all(struct dta_output *o, struct dta_object *object, unsigned run,
		     uint64_t operations, const char *what)
{
	bool kill = !strcmp(what, "kill"), skip = !strcmp(what, "skip");
	bool broken = !strcmp(what, "break");

	for (uint64_t i = 0; i < operations; i++) {
		struct operation op = operation(run, i);
		int err;

		while ((err = give(o, object, &op, run)) == -EAGAIN || err == -ENOTCONN)
			go_on(o, run);
		if (err)
			die("an operation", strerror(-err));
		if (kill && i == operations / 2) {
			o->ops->flush(o);
			put("KILL", run, json_object());
		}
		/* Even if this is noticed late, some operations follow. */
		if (kill && i == operations - 64)
			json_decref(await("KILLED", run, o));
		/*
		 * Three frames that are sent for the first time and never retransmitted, and are
		 * followed by more. Three, because the NAK of one may be lost.
		 */
		if ((skip || broken) &&
		    (i == operations / 4 || i == operations / 2 || i == operations / 4 * 3)) {
			drain(o, run);
			if (wrongs)
				printf("= %s: all was complete %.1f ms later\n", what,
				       (double)(base_now_ns() - wrong_ns) / 1e6);
			wrong = skip ? SKIP : BREAK;
			until_wrong = 4;
			wrong_ns = base_now_ns();
		}
		if (i % 32 == 31)
			o->ops->flush(o), go_on(o, run);
	}
	drain(o, run);
}

static void give_denied(struct dta_output *o, struct dta_object object, unsigned run)
{
	struct operation op = operation(run, 0);

	object.rkey ^= 0x5a5a5a;
	if (give(o, &object, &op, run))
		die("deny", "not taken");
	o->ops->flush(o);
	drain(o, run);
}

static int write_run(bool raw, const char *host, const char *interface, unsigned run,
		     uint64_t operations, const char *what)
{
	bool kill = !strcmp(what, "kill"), deny = !strcmp(what, "deny");
	uint64_t end = base_now_ns() + PATIENCE_NS;
	struct dta_output_stats s;
	struct dta_object object;
	struct dta_output *o;
	const char *why;
	json_t *about;

	put("BEGIN", 0, json_pack("{s:i}", "run", (int)run));
	while (!access(path("BEGIN", 0), F_OK)) {
		if (base_now_ns() > end)
			die("the owner", "does not begin");
		usleep(5000);
	}
	o = open_output(raw, host, interface, &object);
	give_all(o, &object, run, operations, what);
	if (deny)
		give_denied(o, object, run);
	s = o->stats;
	print_stats(&s);
	if (silent) {
		o->ops->close(o);
		return SILENT;
	}
	if (!strcmp(what, "skip") || !strcmp(what, "break")) {
		if (wrong != HONEST || wrongs != 3)
			die(what, "was not done");
		if (!s.naks || !s.resyncs || !s.again)
			die(what, "was not seen");
	}
	if (s.writes + s.adds != s.completed + s.unconfirmed + s.failed)
		die("the account", "does not close");
	if (s.writes + s.adds != operations + deny || s.failed != deny)
		die("the account", "is not of what was given");
	if ((kill || deny) != (s.disconnects > 0) || (s.unconfirmed && !kill))
		die("the connection", kill || deny ? "did not end" : "ended");
	put("CHECK", run,
	    json_pack("{s:i,s:I,s:I,s:b}", "run", (int)run, "operations", (json_int_t)operations,
		      "unconfirmed", (json_int_t)s.unconfirmed, "once", !kill));
	about = await("CHECKED", run, o);
	why = json_string_value(json_object_get(about, "why"));
	if (!why || *why)
		die("in the owner's memory", why ? why : "?");
	json_decref(about);
	o->ops->close(o);
	if (!strcmp(what, "loss") && !s.again)
		die("loss", "nothing was lost");
	return 0;
}

int main(int argc, char **argv)
{
	if (argc < 4)
		return 2;
	dir = argv[2];
	if (!strcmp(argv[1], "owner"))
		return owner(argv[3]);
	if (argc < 8)
		return 2;
	return write_run(!strcmp(argv[3], "raw"), argv[4], argv[5], (unsigned)atoi(argv[6]),
			 (uint64_t)atoll(argv[7]), argc > 8 ? argv[8] : "");
}
