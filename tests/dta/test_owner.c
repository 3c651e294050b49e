// SPDX-License-Identifier: Apache-2.0
/* test_owner.c - the owner of stores: its file, its memory, its epochs, and those who talk to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/control.h"
#include "dta/hash.h"
#include "dta/owner.h"
#include "dta/query.h"
#include "dta/stores.h"

static char dir[64];

static int make_dir(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/sl-owner-XXXXXX");
	return mkdtemp(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -r %s", dir);
	return system(command);
}

static const char *write_file(const char *name, const char *text)
{
	static char path[128];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	return path;
}

/* ---- the file ----------------------------------------------------------------------------------------- */

static void every_mistake_is_one_line_that_names_its_place(void **state)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {
		{"", "f: is empty"},
		{"stores: [", "f:2: not YAML"},
		{"listen: x\n", "f:1: "},
		{"stores:\n- 7\n", "f:2: a store is a mapping"},
		{"stores:\n- {name: a, number: 1, kind: heap}\n", "f:2: kind 'heap'"},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 8, hops: 5}\n",
		 "f:2: "},
		{"stores:\n- {name: a, number: 1, kind: key-write, value: 8}\n", "f:2: slots is 0"},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 300}\n",
		 "f:2: value is 300"},
		{"stores:\n- {name: a/b, number: 1, kind: key-write, slots: 9, value: 8}\n",
		 "f:2: name 'a/b'"},
		{"stores:\n- {name: a, number: 70000, kind: key-write, slots: 9, value: 8}\n",
		 "f:2: "},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 8, epochs: 1, epoch: 1s}\n",
		 "f:2: epoch needs epochs"},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 8, keylog: k}\n",
		 "f:2: keylog 'k' is no store"},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 8, keylog: k}\n"
		 "- {name: b, number: 2, kind: increment, columns: 9, keylog: k}\n"
		 "- {name: k, number: 3, kind: append, items: 9, value: 9}\n",
		 "f:3: keylog 'k' has 1 list, and each store"},
		{"stores:\n- {name: a, number: 1, kind: increment, columns: 9, rows: 2, copies: 3}\n",
		 "f:2: copies is 3"},
		{"stores:\n- {name: a, number: 1, kind: sketch, rows: 2, columns: 8, reporters: 1, sketch: x}\n",
		 "f:2: sketch 'x'"},
		{"stores:\n- &a {name: a, number: 1, kind: increment, columns: 9}\n- *a\n",
		 "f:3: aliases"},
		{"stores:\n- {name: a, number: 1, kind: increment, columns: 9}\n"
		 "- {name: b, number: 1, kind: increment, columns: 9}\n",
		 "f:3: number 1 of tenant 0 is there twice"},
		{"tenants: [{number: 1, required: true}]\nstores: []\n",
		 "f:1: required needs a key"},
	};
	char error[512];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sl_stores_config *c = sl_stores_text(
			"f", wrong[i].text, strlen(wrong[i].text), error, sizeof(error));

		assert_null(c);
		assert_null(strchr(error, '\n'));
		if (strncmp(error, wrong[i].said, strlen(wrong[i].said)))
			fail_msg("'%s' for '%s'", error, wrong[i].said);
	}
}

/* ---- a translator ---------------------------------------------------------------------------------------- */

struct translator {
	struct sl_line *line;
	struct sl_object object[8];
	size_t objects;
	uint64_t epoch, instance;
	int64_t lane;
	json_t *store; /* the last one that was named */
};

static struct sl_line *connect_to(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(a.sun_path, path);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return sl_line_new(fd);
}

/* The next message, within 20 s; NULL: the other end has closed. fd: the caller's. */
static json_t *next(struct sl_line *l, int *fd)
{
	for (int i = 0; i < 20000; i++) {
		json_t *m = sl_line_read(l, fd);

		if (m)
			return m;
		if (errno != EAGAIN)
			return NULL;
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	fail_msg("no message within 20 s");
	return NULL;
}

static const char *type_of(const json_t *m)
{
	return json_string_value(json_object_get(m, "type"));
}

static int64_t number(const json_t *m, const char *key)
{
	return json_integer_value(json_object_get(m, key));
}

static void say(struct sl_line *l, json_t *m)
{
	assert_int_equal(sl_line_write(l, m, -1), 0);
}

/* Takes messages until one of this type came, which it returns. */
static json_t *until(struct translator *t, const char *type)
{
	for (;;) {
		int fd;
		json_t *m = next(t->line, &fd);
		bool it;

		if (!m)
			fail_msg("the owner has closed before '%s'", type);
		if (!strcmp(type_of(m), "object")) {
			struct sl_object *o = &t->object[t->objects++];

			assert_true(fd >= 0);
			o->number = (uint32_t)number(m, "number");
			o->bytes = (uint64_t)number(m, "bytes");
			o->map = mmap(NULL, o->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
			assert_true(o->map != MAP_FAILED);
			/* Of memory: who is given an object can't take it from the others. */
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

static void come(struct translator *t, const char *path, const char *name)
{
	memset(t, 0, sizeof(*t));
	t->line = connect_to(path);
	say(t->line, json_pack("{s:s,s:i,s:s,s:s,s:s}", "type", "hello", "version", 1, "name", name,
			       "output", "shm", "nonce", "00"));
	json_decref(until(t, "ready"));
}

static void rotated(struct translator *t)
{
	say(t->line,
	    json_pack("{s:s,s:i,s:I,s:I}", "type", "rotated", "tenant", 0, "store",
		      (json_int_t)number(t->store, "store"), "epoch", (json_int_t)t->epoch));
}

static void leave(struct translator *t)
{
	sl_line_free(t->line);
	for (size_t i = 0; i < t->objects; i++)
		munmap(t->object[i].map, t->object[i].bytes);
	json_decref(t->store);
}

static uint8_t *bank_of(struct translator *t, size_t object, uint64_t epoch,
			struct sl_store_view *v)
{
	char error[160];

	assert_int_equal(sl_store_view(t->object[object].map, t->object[object].bytes, v, error,
				       sizeof(error)),
			 0);
	return (uint8_t *)(uintptr_t)sl_store_bank(v, epoch);
}

static struct sl_owner *own(const char *text, char *error)
{
	struct sl_owner *o = sl_owner_new(write_file("s.yaml", text), error, 512);

	if (o)
		assert_int_equal(sl_owner_start(o), 0);
	return o;
}

static const char *socket_path(void)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/dta.sock", dir);
	return path;
}

static const char *yaml(const char *rest, const char *stores)
{
	static char text[1024];

	snprintf(text, sizeof(text), "listen: %s/dta.sock\n%s\nstores:\n%s\n", dir, rest, stores);
	return text;
}

#define FLOWS \
	"- {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, seed: 1}"

static bool is_epoch(struct sl_owner *o, uint64_t epoch)
{
	struct sl_store_epochs e;
	struct sl_held held;
	bool is;

	assert_true(sl_owner_hold(o, "flows", &held));
	is = sl_store_epochs(held.view[0], &e) && e.epoch == epoch;
	sl_owner_release(o);
	return is;
}

static void wait_epoch(struct sl_owner *o, uint64_t epoch)
{
	for (int i = 0; i < 20000 && !is_epoch(o, epoch); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_true(is_epoch(o, epoch));
}

static bool waits(struct sl_owner *o)
{
	json_t *j = sl_owner_json(o);
	bool is = json_is_true(
		json_object_get(json_array_get(json_object_get(j, "stores"), 0), "waiting"));

	json_decref(j);
	return is;
}

static void wait_waiting(struct sl_owner *o)
{
	for (int i = 0; i < 20000 && !waits(o); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_true(waits(o));
}

static void a_bank_is_zeroed_only_when_every_translator_has_left_it(void **state)
{
	struct translator a, b;
	struct sl_store_view v;
	struct sl_owner *o;
	char error[512];
	uint8_t *zero;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	come(&a, socket_path(), "a");
	come(&b, socket_path(), "b");
	assert_int_not_equal(a.lane, b.lane);
	zero = bank_of(&a, 0, 0, &v);
	zero[0] = zero[v.bank_stride - 1] = 1; /* of epoch 0 */
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	json_decref(until(&a, "rotate"));
	json_decref(until(&b, "rotate"));
	wait_epoch(o, 1); /* bank 1 was nobody's */
	assert_int_equal(zero[0], 1);
	rotated(&a);
	/* Epoch 2 needs the bank of epoch 0, which b may still write into. */
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	wait_waiting(o);
	assert_true(is_epoch(o, 1));
	assert_int_equal(zero[0], 1);
	rotated(&b);
	json_decref(until(&a, "rotate"));
	wait_epoch(o, 2);
	assert_int_equal(zero[0], 0);
	assert_int_equal(zero[v.bank_stride - 1], 0);
	/* One whose connection is lost may write as long as its process, which is this one, lives. */
	assert_int_equal(a.epoch, 2);
	rotated(&a);
	json_decref(until(&b, "rotate"));
	rotated(&b);
	leave(&b);
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	json_decref(until(&a, "rotate"));
	rotated(&a);
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	wait_waiting(o);
	assert_true(is_epoch(o, 3));
	/* It comes again, gets its lane, and says it. */
	come(&b, socket_path(), "b");
	rotated(&b);
	wait_epoch(o, 4);
	leave(&a);
	leave(&b);
	sl_owner_free(o);
}

/* A translator that is killed counts no more. */
static void a_killed_translator_holds_up_nothing(void **state)
{
	struct sl_owner *o;
	char error[512], byte;
	int pipes[2], status;
	pid_t pid;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	if (!pid) {
		struct translator t;

		come(&t, socket_path(), "child");
		if (write(pipes[1], "!", 1) == 1)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &byte, 1), 1);
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	wait_epoch(o, 1);
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	wait_waiting(o);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	wait_epoch(o, 2);
	close(pipes[0]);
	close(pipes[1]);
	sl_owner_free(o);
}

static void put(struct translator *t, size_t object, uint64_t epoch, uint64_t key)
{
	struct sl_store_view v;
	uint8_t *bank = bank_of(t, object, epoch, &v);
	struct sl_dta_hash h = sl_dta_hash(&key, 8, v.config->seed);
	uint64_t unit[2] = {sl_dta_check(h, &key, 8), key};

	memcpy(bank + sl_dta_slot(h, 0, v.config->slots) * 16, unit, 16);
}

static bool found(struct sl_owner *o, uint64_t key)
{
	const struct sl_query q = {.key = &key, .key_bytes = 8, .epoch = ~0ull};
	struct sl_answer a = {0};
	struct sl_held held;

	assert_true(sl_owner_hold(o, "flows", &held));
	a.result = SL_QUERY_EMPTY;
	for (size_t i = 0; i < held.count && a.result != SL_QUERY_FOUND; i++)
		sl_view_keywrite(held.view[i], &q, &a);
	sl_owner_release(o);
	return a.result == SL_QUERY_FOUND;
}

static uint64_t unit_count(struct sl_owner *o, const char *what)
{
	json_t *j = sl_owner_json(o);
	uint64_t n = (uint64_t)number(json_object_get(json_object_get(j, "account"), "units"),
				      what);

	json_decref(j);
	return n;
}

static void what_was_written_stands_was_overwritten_updated_or_has_expired(void **state)
{
	enum { KEYS = 700, SLOTS = 1000, AGAIN = 300 };
	struct sl_store_view v;
	struct sl_translate_account a = {0};
	uint64_t standing = 0, over = 0, off;
	struct translator t;
	struct sl_owner *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	come(&t, socket_path(), "t");
	for (uint64_t key = 0; key < KEYS; key++)
		put(&t, 0, 0, key);
	for (uint64_t *slot = (uint64_t *)(void *)bank_of(&t, 0, 0, &v), *end = slot + 2 * SLOTS;
	     slot < end; slot += 2)
		standing += *slot != 0;
	assert_in_range(standing, KEYS / 3, KEYS - 1); /* some fell upon others */
	/* Newer values of their own: they take nobody's place. */
	for (uint64_t key = KEYS - AGAIN; key < KEYS; key++)
		put(&t, 0, 0, key);
	a.engine.units = KEYS + AGAIN;
	for (int epoch = 0; epoch < 3; epoch++) {
		json_t *m = sl_account_json(&a);

		json_object_set_new(m, "type", json_string("account"));
		say(t.line, m);
		for (int i = 0; i < 20000 && unit_count(o, "written") != a.engine.units; i++)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		assert_int_equal(unit_count(o, "written"), a.engine.units);
		assert_int_equal(unit_count(o, "standing"),
				 epoch < 2 ? standing + (unsigned)epoch : 2);
		assert_int_equal(unit_count(o, "expired"), epoch < 2 ? 0 : standing);
		if (!epoch) {
			over = unit_count(o, "overwritten");
			off = unit_count(o, "error");
			assert_in_range(off, 10, 30); /* 18, by the formula */
			assert_in_range(over, KEYS - standing - 6 * off, KEYS - standing + 6 * off);
		}
		/* One key alone in an epoch adds half a thousandth. */
		assert_in_range(unit_count(o, "overwritten"), over, over + 1);
		assert_int_equal(unit_count(o, "overwritten") + unit_count(o, "updated"),
				 KEYS + AGAIN - standing);
		if (epoch == 2)
			break;
		assert_int_equal(sl_owner_rotate(o, "flows"), 0);
		json_decref(until(&t, "rotate"));
		rotated(&t);
		wait_epoch(o, (uint64_t)epoch + 1);
		put(&t, 0, (uint64_t)epoch + 1, 1);
		a.engine.units++;
	}
	leave(&t);
	sl_owner_free(o);
}

static void a_store_is_resized_while_it_runs_and_both_are_readable(void **state)
{
	struct sl_store_view v;
	struct translator t;
	struct sl_owner *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	come(&t, socket_path(), "t");
	put(&t, 0, 0, 11);
	assert_int_equal(sl_owner_resize(o, "flows", 5000, error, sizeof(error)), 0);
	json_decref(until(&t, "rotate"));
	assert_int_equal(t.objects, 2);
	assert_int_equal(t.epoch, 1);
	bank_of(&t, 1, 1, &v);
	assert_int_equal(v.config->slots, 5000);
	assert_int_equal(v.config->first_epoch, 1);
	put(&t, 1, 1, 12);
	assert_true(found(o, 11));
	assert_true(found(o, 12));
	assert_false(found(o, 13));
	assert_int_equal(sl_owner_resize(o, "flows", 0, error, sizeof(error)), -EINVAL);
	assert_int_equal(sl_owner_resize(o, "none", 10, error, sizeof(error)), -ENOENT);
	/* As often as one likes, but never so that memory goes that may still be written. */
	assert_int_equal(sl_owner_resize(o, "flows", 6000, error, sizeof(error)), 0);
	assert_int_equal(sl_owner_resize(o, "flows", 7000, error, sizeof(error)), 0);
	assert_int_equal(sl_owner_resize(o, "flows", 8000, error, sizeof(error)), -EBUSY);
	for (int i = 0; i < 2; i++)
		json_decref(until(&t, "rotate"));
	rotated(&t);
	for (int i = 0; i < 20000 && sl_owner_resize(o, "flows", 8000, error, sizeof(error)); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	json_decref(until(&t, "rotate"));
	assert_true(found(o, 12) || found(o, 11) || t.epoch == 4);
	leave(&t);
	sl_owner_free(o);
}

/* KiB of this process' mappings that the kernel has as huge pages of shared memory. */
static unsigned long huge_shared_kib(void)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long kib, sum = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1)
			sum += kib;
	if (f)
		fclose(f);
	return sum;
}

/*
 * What "pages" says of a store of 4 MiB and a few pages, and how much of it is huge; NULL with an error: it can't be had.
 */
static const char *pages_of(const char *policy, unsigned long *kib, char error[512])
{
	static char pages[32];
	const unsigned long before = huge_shared_kib();
	struct sl_owner *o = own(
		yaml(policy, "- {name: flows, number: 1, kind: key-write, slots: 262144, value: "
			     "8, epochs: 1}"),
		error);
	json_t *j, *object;
	uint64_t huge;

	if (!o)
		return NULL;
	j = sl_owner_json(o);
	object = json_array_get(
		json_object_get(json_array_get(json_object_get(j, "stores"), 0), "objects"), 0);
	snprintf(pages, sizeof(pages), "%s", json_string_value(json_object_get(object, "pages")));
	huge = (uint64_t)json_integer_value(json_object_get(object, "huge_bytes"));
	*kib = huge_shared_kib() - before;
	/* Reserved ones are counted elsewhere; of others as much as is mapped already, which 6.1 leaves to who touches it. */
	if (!strcmp(pages, "transparent"))
		assert_true(huge == 4 << 20 && *kib && *kib <= huge >> 10);
	else if (!strcmp(pages, "small"))
		assert_true(!huge && !*kib);
	json_decref(j);
	sl_owner_free(o);
	return pages;
}

static bool file_has(const char *path, const char *what)
{
	char text[4096] = "";
	FILE *f = fopen(path, "re");
	bool has = f && fread(text, 1, sizeof(text) - 1, f) && strstr(text, what);

	if (f)
		fclose(f);
	return has;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Whether this kernel puts shared memory into huge pages for who asks, and has some now. */
static bool collapses(void)
{
	const size_t bytes = 4 << 20;
	int fd = memfd_create("collapses", MFD_CLOEXEC);
	uint8_t *map;
	bool done;

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	map = sl_store_map(fd, bytes, true);
	assert_true(map != MAP_FAILED && !((uintptr_t)map & ((2 << 20) - 1)));
	memset(map, 1, bytes);
	done = !madvise(map, bytes, MADV_COLLAPSE);
	munmap(map, bytes);
	close(fd);
	return done;
}

static void huge_pages_are_had_or_it_is_said_why_not(void **state)
{
	char error[512] = "";
	unsigned long kib;
	const char *pages;
	bool able;

	(void)state;
	assert_string_equal(pages_of("hugepages: never", &kib, error), "small");
	pages = pages_of("hugepages: always", &kib, error);
	if (pages)
		assert_string_equal(pages, "huge");
	else
		assert_non_null(strstr(error, "vm.nr_hugepages"));
	if (file_has("/proc/meminfo", "HugePages_Total:       0"))
		assert_null(pages);
	able = collapses();
	pages = pages_of("hugepages: auto", &kib, error);
	assert_non_null(pages);
	if (able && !strcmp(pages, "small"))
		assert_false(collapses()); /* there were some just before */
	if (!able)
		print_message("SKIP: this kernel or its memory gives no huge pages when asked\n");
}

static void files_survive_a_restart_and_others_are_left_alone(void **state)
{
	static const char *const other[] = {
		"- {name: flows, number: 1, kind: key-write, slots: 1001, value: 8, copies: 2, seed: 1}",
		"- {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, seed: 2}",
		"- {name: flows, number: 1, kind: increment, columns: 1000, seed: 1}",
	};
	char error[512], path[128], rest[128];
	struct stat before, after;
	struct translator t;
	struct sl_owner *o;
	int fd;

	(void)state;
	snprintf(rest, sizeof(rest), "directory: %s", dir);
	snprintf(path, sizeof(path), "%s/flows.0.0.store", dir);
	for (int run = 0; run < 3; run++) {
		o = own(yaml(rest, FLOWS), error);
		assert_non_null(o);
		assert_true(is_epoch(o, (uint64_t)run));
		assert_int_equal(found(o, 100), run == 1); /* two epochs are kept */
		assert_null(sl_owner_new(write_file("2.yaml", yaml(rest, FLOWS)), error,
					 sizeof(error)));
		assert_non_null(strstr(error, "another collector"));
		come(&t, socket_path(), "t");
		put(&t, 0, (uint64_t)run, 100 + (uint64_t)run);
		assert_true(found(o, 100 + (uint64_t)run));
		leave(&t);
		sl_owner_free(o);
	}
	assert_int_equal(stat(path, &before), 0);
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
		assert_null(own(yaml(rest, other[i]), error));
		assert_non_null(strstr(error, "in this file"));
		assert_non_null(strstr(error, path));
	}
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "\2", 1, 8), 1); /* the version */
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "version 2"));
	assert_int_equal(pwrite(fd, "\1", 1, 8), 1);
	assert_int_equal(ftruncate(fd, before.st_size - 1), 0);
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "cut short"));
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "cut short"));
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_size, 100);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

/* One line that names the file, and the file stays as it is: whoever else it belongs to, and whatever size it has. */
static void files_of_others_or_of_a_wrong_size_are_refused(void **state)
{
	char error[512], path[128], kept[128], rest[128], text[1024];
	struct sl_store_object *object;
	const char *config;
	struct stat st;
	struct sl_owner *o;

	(void)state;
	snprintf(rest, sizeof(rest), "directory: %s", dir);
	snprintf(path, sizeof(path), "%s/flows.0.0.store", dir);
	snprintf(kept, sizeof(kept), "%s/elsewhere", dir);
	snprintf(text, sizeof(text), "%s", yaml(rest, FLOWS));
	o = own(text, error);
	assert_non_null(o);
	sl_owner_free(o);
	config = write_file("s.yaml", text);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
#define REFUSED(said)                                                    \
	do {                                                             \
		assert_null(sl_owner_new(config, error, sizeof(error))); \
		assert_non_null(strstr(error, said));                    \
		assert_non_null(strstr(error, path));                    \
		assert_null(strchr(error, '\n'));                        \
	} while (0)
	/* Another's: root may everything, so it is somebody else for a moment. */
	assert_int_equal(chmod(dir, 0755), 0);
	assert_int_equal(chmod(config, 0644), 0);
	if (geteuid())
		assert_int_equal(chmod(path, 0), 0);
	else
		assert_int_equal(seteuid(65534), 0);
	object = sl_store_object_open(path, error, sizeof(error));
	assert_null(object);
	assert_non_null(strstr(error, "Permission denied"));
	assert_null(sl_owner_new(config, error, sizeof(error)));
	if (!getuid())
		assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(error, "Permission denied"));
	assert_non_null(strstr(error, path));
	assert_int_equal(chmod(path, 0600), 0);
	/* Longer than it says that it is, by no page and by some. */
	assert_int_equal(truncate(path, st.st_size + 1), 0);
	REFUSED("too long");
	assert_int_equal(truncate(path, st.st_size + 8192), 0);
	REFUSED("too long");
	assert_int_equal(truncate(path, st.st_size), 0);
	/* Elsewhere, and a link to it: a directory that others may write into could lead anywhere. */
	assert_int_equal(rename(path, kept), 0);
	assert_int_equal(symlink(kept, path), 0);
	REFUSED("symbolic link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	REFUSED("directory");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rename(kept, path), 0);
	o = sl_owner_new(config, error, sizeof(error));
	assert_non_null(o);
	sl_owner_free(o);
	assert_int_equal(unlink(path), 0);
}

/* More than 4 GiB, of which only what is touched is there. */
static void a_store_of_more_than_4_gib_is_asked_like_any(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
				    .slots = 300000000,
				    .value_bytes = 8,
				    .copies = 2,
				    .rows = 1,
				    .lanes = 1,
				    .banks = 2,
				    .seed = 3};
	uint64_t bytes = sl_store_object_bytes(&c), key = 0;
	struct sl_query q = {.key = &key, .key_bytes = 8, .epoch = ~0ull};
	struct translator t = {0};
	struct sl_store_view v;
	struct sl_answer a;
	char error[160];
	uint8_t *map;
	int fd;

	(void)state;
	fd = memfd_create("big", MFD_CLOEXEC);
	assert_true(bytes > 2 * (4ull << 30));
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	assert_true(map != MAP_FAILED);
	sl_store_format(map, &c, "big");
	sl_store_epochs_set(map, &(struct sl_store_epochs){.epoch = 1, .state = SL_STATE_LIVE});
	t.object[0] = (struct sl_object){.map = map, .bytes = bytes};
	for (key = 1; key <= 50; key++)
		put(&t, 0, 1, key);
	assert_int_equal(sl_store_view(map, bytes, &v, error, sizeof(error)), 0);
	for (key = 1; key <= 50; key++) {
		sl_view_keywrite(&v, &q, &a);
		assert_int_equal(a.result, SL_QUERY_FOUND);
	}
	munmap(map, bytes);
	close(fd);
}

static void who_says_anything_wrong_is_told_and_let_go(void **state)
{
	static const char *const wrong[] = {
		"{\"type\":\"rotated\"}\n",
		"{\"type\":\"hello\",\"version\":2,\"name\":\"t\",\"output\":\"shm\",\"nonce\":\"00\"}\n",
		"{\"type\":\"hello\",\"version\":1,\"name\":\"\",\"output\":\"shm\",\"nonce\":\"00\"}\n",
		"{\"type\":\"hello\",\"version\":1,\"name\":\"../x\",\"output\":\"shm\",\"nonce\":\"00\"}\n",
		"{\"type\":\"hello\",\"version\":1,\"name\":\"t\",\"output\":\"disk\",\"nonce\":\"00\"}\n",
		"{\"type\":\"hello\",\"version\":1,\"name\":\"t\",\"output\":\"verbs\",\"nonce\":\"00\"}\n",
		"{\"type\":\"hello\",\"version\":1,\"name\":\"t\",\"output\":\"shm\",\"nonce\":\"0g\"}\n",
		"{\"type\":\"proof\",\"mac\":\"00\"}\n",
	};
	struct translator t;
	struct sl_owner *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct sl_line *l = connect_to(socket_path());
		json_t *m;
		int fd;

		assert_int_equal(write(sl_line_fd(l), wrong[i], strlen(wrong[i])),
				 (ssize_t)strlen(wrong[i]));
		m = next(l, &fd);
		assert_non_null(m);
		assert_string_equal(type_of(m), "error");
		json_decref(m);
		assert_null(next(l, &fd));
		sl_line_free(l);
	}
	/* What makes no sense of somebody who was let in changes nothing. */
	come(&t, socket_path(), "t");
	say(t.line,
	    json_pack("{s:s,s:i,s:i,s:i}", "type", "rotated", "tenant", 7, "store", 7, "epoch", 7));
	say(t.line, json_pack("{s:s,s:i,s:i,s:I}", "type", "rotated", "tenant", 0, "store", 1,
			      "epoch", (json_int_t)99));
	say(t.line, json_pack("{s:s,s:[]}", "type", "account", "packets"));
	say(t.line, json_pack("{s:s,s:i}", "type", "immediate", "number", -5));
	say(t.line, json_pack("{s:s}", "type", "something"));
	assert_int_equal(sl_owner_rotate(o, "flows"), 0);
	json_decref(until(&t, "rotate"));
	assert_int_equal(t.epoch, 1);
	leave(&t);
	sl_owner_free(o);
}

/* What a running owner can't do is refused in a line that says what, and nothing else of the file is done. */
static void a_reload_does_what_it_can_and_else_nothing(void **state)
{
	static const struct {
		const char *rest, *stores, *said;
	} wrong[] = {
		{"directory: /elsewhere", FLOWS, "directory changed"},
		{"hugepages: never", FLOWS, "hugepages changed"},
		{"rdma: {port: 7}", FLOWS, "rdma changed"},
		{"tenants: [{number: 8}]", FLOWS, "tenant 7 is gone"},
		{"tenants: [{number: 7, rate: x}]", FLOWS, "rate"},
		{"tenants: [{number: 7, rate: 1}]",
		 FLOWS "\n- {name: b, number: 2, kind: increment, columns: 9}",
		 "stores come and go"},
		{"tenants: [{number: 7, rate: 1}]",
		 "- {name: flows, number: 1, kind: key-write, slots: 1000, value: 9, copies: 2, seed: 1}",
		 "changed in more than its size"},
	};
	struct translator t;
	struct sl_owner *o;
	char error[512];
	json_t *j;

	(void)state;
	o = own(yaml("tenants: [{number: 7, name: seven, rate: 5}]", FLOWS), error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		write_file("s.yaml", yaml(wrong[i].rest, wrong[i].stores));
		assert_int_equal(sl_owner_reload(o, error, sizeof(error)), -EINVAL);
		if (!strstr(error, wrong[i].said) || strchr(error, '\n'))
			fail_msg("'%s' for '%s'", error, wrong[i].said);
	}
	j = sl_owner_json(o);
	assert_int_equal(number(j, "reloads"), 0);
	assert_int_equal(number(j, "reloads_refused"), sizeof(wrong) / sizeof(*wrong));
	assert_int_equal(number(json_array_get(json_object_get(j, "tenants"), 0), "rate"), 5);
	json_decref(j);
	write_file("s.yaml", yaml("tenants: [{number: 7, rate: 9, burst: 3}, {number: 8}]", FLOWS));
	assert_int_equal(sl_owner_reload(o, error, sizeof(error)), 0);
	/* Nothing was told of those that were refused. */
	for (int64_t tenant = 7; tenant < 9; tenant++) {
		j = until(&t, "tenant");
		assert_int_equal(number(j, "tenant"), tenant);
		assert_int_equal(number(j, "rate"), tenant == 7 ? 9 : 0);
		assert_int_equal(number(j, "burst"), tenant == 7 ? 3 : 0);
		json_decref(j);
	}
	leave(&t);
	sl_owner_free(o);
}

/* Epochs by the clock, with a translator that answers. */
static void epochs_rotate_by_themselves(void **state)
{
	struct translator t;
	struct sl_owner *o;
	char error[512];

	(void)state;
	o = own(yaml("",
		     "- {name: flows, number: 1, kind: key-write, slots: 10, value: 8, epoch: 10ms, epochs: 3}"),
		error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	for (uint64_t last = t.epoch; t.epoch < 8; last = t.epoch) {
		json_decref(until(&t, "rotate"));
		assert_int_equal(t.epoch, last + 1);
		rotated(&t);
	}
	leave(&t);
	sl_owner_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mistake_is_one_line_that_names_its_place),
		cmocka_unit_test(a_bank_is_zeroed_only_when_every_translator_has_left_it),
		cmocka_unit_test(a_killed_translator_holds_up_nothing),
		cmocka_unit_test(what_was_written_stands_was_overwritten_updated_or_has_expired),
		cmocka_unit_test(a_store_is_resized_while_it_runs_and_both_are_readable),
		cmocka_unit_test(huge_pages_are_had_or_it_is_said_why_not),
		cmocka_unit_test(files_survive_a_restart_and_others_are_left_alone),
		cmocka_unit_test(files_of_others_or_of_a_wrong_size_are_refused),
		cmocka_unit_test(a_store_of_more_than_4_gib_is_asked_like_any),
		cmocka_unit_test(who_says_anything_wrong_is_told_and_let_go),
		cmocka_unit_test(a_reload_does_what_it_can_and_else_nothing),
		cmocka_unit_test(epochs_rotate_by_themselves),
	};

	sl_log_level = SL_ERROR;
	return cmocka_run_group_tests_name("owner", tests, make_dir, remove_dir);
}
