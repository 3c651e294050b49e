/* SPDX-License-Identifier: Apache-2.0 */
/*
 * owner_talk.h - a store server in a temporary folder, and translators that talk to it. Include
 * after cmocka.h.
 */
#ifndef SL_TESTS_DTA_OWNER_TALK_H
#define SL_TESTS_DTA_OWNER_TALK_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "support/folder.h"
#include "base/base.h"
#include "dta/translate/control.h"
#include "dta/store/hash.h"
#include "dta/store_server/server.h"
#include "dta/query/query.h"
#include "dta/store/stores.h"

static inline const char *write_file(const char *name, const char *text)
{
	static char path[128];

	folder_put(name, text);
	snprintf(path, sizeof(path), "%s/%s", test_folder, name);
	return path;
}

/* ---- a translator ---- */

struct translator {
	struct dta_control_line *line;
	struct dta_object object[8];
	size_t objects;
	uint64_t epoch, instance;
	int64_t lane;
	json_t *store; /* the last one that was named */
};

static inline struct dta_control_line *connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return dta_control_line_new(fd);
}

static inline struct dta_control_line *connect_tcp(const char *address)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	a.sin_port = htons((uint16_t)atoi(strrchr(address, ':') + 1));
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return dta_control_line_new(fd);
}

/*
 * Returns the next message within 20 s, or NULL if the other end has closed the connection. The
 * caller owns the descriptor in *fd.
 */
static inline json_t *next(struct dta_control_line *l, int *fd)
{
	for (int i = 0; i < 20000; i++) {
		json_t *m = dta_control_line_read(l, fd);

		if (m)
			return m;
		if (errno != EAGAIN)
			return NULL;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fail_msg("no message within 20 s");
	return NULL;
}

static inline const char *type_of(const json_t *m)
{
	return json_string_value(json_object_get(m, "type"));
}

static inline int64_t number(const json_t *m, const char *key)
{
	return json_integer_value(json_object_get(m, key));
}

static inline void say(struct dta_control_line *l, json_t *m)
{
	assert_int_equal(dta_control_line_write(l, m, -1), 0);
}

/* Reads messages until one of this type arrives; returns it. */
static inline json_t *until(struct translator *t, const char *type)
{
	for (;;) {
		int fd;
		json_t *m = next(t->line, &fd);
		bool it;

		if (!m)
			fail_msg("the owner has closed before '%s'", type);
		if (!strcmp(type_of(m), "object")) {
			struct dta_object *o = &t->object[t->objects++];

			assert_true(fd >= 0);
			o->number = (uint32_t)number(m, "number");
			o->bytes = (uint64_t)number(m, "bytes");
			o->map = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			assert_true(o->map != MAP_FAILED);
			/*
			 * A translator that receives an object cannot take its memory from the
			 * others.
			 */
			assert_true(fcntl(fd, F_GET_SEALS) < 0 || ftruncate(fd, 4096) < 0);
		} else if (!strcmp(type_of(m), "store")) {
			json_decref(t->store);
			t->store = json_incref(m);
			t->epoch = (uint64_t)number(m, "epoch");
		} else if (!strcmp(type_of(m), "rotate")) {
			t->epoch = (uint64_t)number(m, "epoch");
		} else if (!strcmp(type_of(m), "welcome")) {
			t->lane = number(m, "lane");
		}
		if (fd >= 0)
			close(fd);
		it = !strcmp(type_of(m), type);
		if (it)
			return m;
		json_decref(m);
	}
}

static inline void come(struct translator *t, const char *path, const char *name)
{
	memset(t, 0, sizeof(*t));
	t->line = connect_to(path);
	say(t->line, json_pack("{s:s,s:i,s:s,s:s}", "type", "hello", "version", DTA_CONTROL_VERSION,
			       "name", name, "output", "shm"));
	json_decref(until(t, "ready"));
}

static inline void rotated(struct translator *t)
{
	say(t->line,
	    json_pack("{s:s,s:i,s:I,s:I}", "type", "rotated", "tenant", 0, "store",
		      (json_int_t)number(t->store, "store"), "epoch", (json_int_t)t->epoch));
}

static inline void leave(struct translator *t)
{
	dta_control_line_free(t->line);
	for (size_t i = 0; i < t->objects; i++)
		munmap(t->object[i].map, t->object[i].bytes);
	json_decref(t->store);
}

static inline uint8_t *bank_of(struct translator *t, size_t object, uint64_t epoch,
			       struct dta_store_view *v)
{
	char error[160];

	assert_int_equal(dta_store_view(t->object[object].map, t->object[object].bytes, v, error,
					sizeof(error)),
			 0);
	return (uint8_t *)(uintptr_t)dta_store_bank(v, epoch);
}

static inline struct dta_store_server *own(const char *text, char *error)
{
	struct dta_store_server *o = dta_store_server_new(write_file("s.yaml", text), error, 512);

	if (o)
		assert_int_equal(dta_store_server_start(o, error, 512), 0);
	return o;
}

static inline const char *socket_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/dta.sock", test_folder);
	return path;
}

static inline const char *yaml(const char *rest, const char *stores)
{
	static char text[1024];

	snprintf(text, sizeof(text), "listen: %s/dta.sock\n%s\nstores:\n%s\n", test_folder, rest,
		 stores);
	return text;
}

#define FLOWS \
	"- {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, seed: 1}"

/* Leaves no room for another message to this line's peer, which must not read meanwhile. */
static inline void fill_line(struct dta_control_line *l)
{
	char text[60000];

	memset(text, 'x', sizeof(text));
	for (size_t n = sizeof(text) - 1; n; n /= 2) {
		text[n] = 0;
		while (!dta_control_line_write(l, json_pack("{s:s}", "type", text), -1))
			;
	}
}

/* Packets in the last account of the first translator; -1: it is gone, and may no longer write. */
static inline int64_t packets_of_first(struct dta_store_server *o)
{
	json_t *j = dta_store_server_json(o);
	json_t *t = json_array_get(json_object_get(j, "translators"), 0);
	const bool there = json_is_true(json_object_get(t, "may_write"));
	const int64_t n = there ? number(json_object_get(t, "account"), "packets") : -1;

	json_decref(j);
	return n;
}

static inline bool is_epoch(struct dta_store_server *o, uint64_t epoch)
{
	struct dta_store_epochs e;
	struct dta_held held;
	bool is;

	assert_true(dta_store_server_hold(o, "flows", &held));
	is = dta_store_epochs(held.view[0], &e) && e.epoch == epoch;
	dta_store_server_release(o, &held);
	return is;
}

static inline void wait_epoch(struct dta_store_server *o, uint64_t epoch)
{
	for (int i = 0; i < 20000 && !is_epoch(o, epoch); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_true(is_epoch(o, epoch));
}

static inline bool waits(struct dta_store_server *o)
{
	json_t *j = dta_store_server_json(o);
	bool is = json_is_true(
		json_object_get(json_array_get(json_object_get(j, "stores"), 0), "waiting"));

	json_decref(j);
	return is;
}

static inline void wait_waiting(struct dta_store_server *o)
{
	for (int i = 0; i < 20000 && !waits(o); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_true(waits(o));
}

static inline void put(struct translator *t, size_t object, uint64_t epoch, uint64_t key)
{
	struct dta_store_view v;
	uint8_t *bank = bank_of(t, object, epoch, &v);
	struct dta_hash h = dta_hash(&key, 8, v.config->seed);
	uint64_t unit[2] = {dta_check(h, &key, 8), key};

	memcpy(bank + dta_slot(h, 0, v.config->slots) * 16, unit, 16);
}

static inline bool found(struct dta_store_server *o, uint64_t key)
{
	const struct dta_query q = {.key = &key, .key_bytes = 8, .epoch = ~0ull};
	struct sl_keywrite_answer a = {0};
	struct dta_held held;

	assert_true(dta_store_server_hold(o, "flows", &held));
	a.result = SL_QUERY_EMPTY;
	for (size_t i = 0; i < held.count && a.result != SL_QUERY_FOUND; i++)
		dta_view_keywrite(held.view[i], &q, &a);
	dta_store_server_release(o, &held);
	return a.result == SL_QUERY_FOUND;
}

static inline uint64_t unit_count(struct dta_store_server *o, const char *what)
{
	json_t *j = dta_store_server_json(o);
	uint64_t n = (uint64_t)number(json_object_get(json_object_get(j, "account"), "units"),
				      what);

	json_decref(j);
	return n;
}

#endif
