// SPDX-License-Identifier: Apache-2.0
/* test_owner.c - the store server: its file, its epochs and its clients. */

#include <netinet/tcp.h>
#include <sys/eventfd.h>

#include "support/test.h"
#include "owner_talk.h"
#include "base/text.h"
#include "dta/store_server/internal.h"
#include "dta/translate/client_internal.h"
#include "dta/translate/internal.h"

/* ---- the file ---- */

static void every_mistake_is_one_line_that_names_its_place(void **state)
{
	static const struct {
		const char *text, *said;
	} wrong[] = {
		{"", "f: the file is empty"},
		{"stores: [", "f:2: not YAML"},
		{"listen: x\n", "f:1: "},
		{"stores:\n- 7\n", "f:2: a store must be a mapping"},
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
		 "f:2: epochs must be 2 or more"},
		{"stores:\n- {name: a, number: 1, kind: key-write, slots: 9, value: 8, keylog: k}\n",
		 "f:2: keylog 'k' is not a store"},
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
		 "f:3: another store already has number 1 of tenant 0"},
		{"tenants: [{number: 1, keys: [{reporter: 5}]}]\nstores: []\n", "f:1: "},
		{"tenants: [{number: 1, keys: [{reporter: 9-5, key: k}]}]\nstores: []\n",
		 "f:1: reporter '9-5' must be a number or FIRST-LAST"},
		{"tenants: [{number: 1, keys: [{reporter: 4294967296, key: k}]}]\nstores: []\n",
		 "f:1: reporter '4294967296'"},
		{"tenants: [{number: 1, keys: [{key: k, until: tomorrow}]}]\nstores: []\n",
		 "f:1: until 'tomorrow' is not a time"},
		{"tenants: [{number: 1, keys: [{key: k, until: 2026-12-31T12:00:00+01}]}]\nstores: "
		 "[]\n",
		 "f:1: until"},
		{"tenants:\n- number: 1\n  keys:\n  - {reporter: 1-5, key: k}\n  - {reporter: 5, key: "
		 "k}\nstores: []\n",
		 "f:4: reporter ranges overlap"},
		{"tenants: [{number: 1, required: true}]\nstores: []\n",
		 "f:1: required: true needs a key"},
	};
	char error[512];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct dta_stores_config *c = dta_stores_text(
			"f", wrong[i].text, strlen(wrong[i].text), error, sizeof(error));

		assert_null(c);
		assert_null(strchr(error, '\n'));
		if (strncmp(error, wrong[i].said, strlen(wrong[i].said)))
			fail_msg("'%s' for '%s'", error, wrong[i].said);
	}
}

static void a_remark_of_any_length_is_none_of_the_values(void **state)
{
	struct dta_stores_config *c;
	char values[700], text[400], error[512];

	(void)state;
	snprintf(values, sizeof(values), "9 # %0*d\n#%0*d 8\n7", 300, 6, 300, 6);
	snprintf(text, sizeof(text),
		 "stores:\n- {name: a, number: 1, kind: postcard, slots: 9, hops: 2, values: %s}\n",
		 write_file("values", values));
	c = dta_stores_read(write_file("s.yaml", text), error, sizeof(error));
	if (!c)
		fail_msg("%s", error);
	assert_int_equal(c->stores[0].value_count, 2);
	assert_int_equal(c->stores[0].values[0], 7);
	assert_int_equal(c->stores[0].values[1], 9);
	dta_stores_config_free(c);
}

static void a_bank_is_zeroed_after_every_translator_left_it(void **state)
{
	struct translator a, b;
	struct dta_store_view v;
	struct dta_store_server *o;
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
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	json_decref(until(&a, "rotate"));
	json_decref(until(&b, "rotate"));
	wait_epoch(o, 1); /* bank 1 had no translator */
	assert_int_equal(zero[0], 1);
	rotated(&a);
	/* Epoch 2 needs the bank of epoch 0, in which b may still write. */
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	wait_waiting(o);
	assert_true(is_epoch(o, 1));
	assert_int_equal(zero[0], 1);
	rotated(&b);
	json_decref(until(&a, "rotate"));
	wait_epoch(o, 2);
	assert_int_equal(zero[0], 0);
	assert_int_equal(zero[v.bank_stride - 1], 0);
	/*
	 * A translator whose connection is lost may write as long as its process lives, which is
	 * this one.
	 */
	assert_int_equal(a.epoch, 2);
	rotated(&a);
	json_decref(until(&b, "rotate"));
	rotated(&b);
	leave(&b);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	json_decref(until(&a, "rotate"));
	rotated(&a);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	wait_waiting(o);
	assert_true(is_epoch(o, 3));
	/* It reconnects, gets its lane, and reports this. */
	come(&b, socket_path(), "b");
	rotated(&b);
	wait_epoch(o, 4);
	leave(&a);
	leave(&b);
	dta_store_server_free(o);
}

/* Whether the connection of the first translator is lost. */
static bool is_lost(struct dta_store_server *o)
{
	bool lost;

	pthread_mutex_lock(&o->lock);
	lost = !o->conns->line;
	pthread_mutex_unlock(&o->lock);
	return lost;
}

/* It would keep writing to an old epoch, or accept an old key; it learns all when it reconnects. */
static void who_cannot_be_told_of_a_change_is_let_go(void **state)
{
	static const char tenants[] = "tenants: [{number: 7, rate: 5}]";
	struct dta_store_server *o;
	struct translator t;
	char error[512];

	(void)state;
	o = own(yaml(tenants, FLOWS), error);
	assert_non_null(o);
	for (int what = 0; what < 2; what++) {
		come(&t, socket_path(), "t");
		pthread_mutex_lock(&o->lock);
		fill_line(o->conns->line);
		pthread_mutex_unlock(&o->lock);
		if (what)
			assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), 0);
		else
			assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
		for (int i = 0; i < 2000 && !is_lost(o); i++)
			nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
		assert_true(is_lost(o));
		leave(&t);
	}
	dta_store_server_free(o);
}

/* A translator in a separate process. */
struct child {
	int go[2], came[2];
	pid_t pid;
};

/*
 * Forks before there are threads, which might hold a lock of a sanitizer that the child would wait
 * for forever. The child waits for child_go().
 */
static struct child child_new(void (*come_and_say)(void))
{
	struct child c;
	char byte;

	assert_int_equal(pipe2(c.go, O_CLOEXEC), 0);
	assert_int_equal(pipe2(c.came, O_CLOEXEC), 0);
	c.pid = fork();
	if (!c.pid) {
		close(c.go[1]);
		if (read(c.go[0], &byte, 1) == 1) {
			come_and_say();
			if (write(c.came[1], "!", 1) == 1)
				pause();
		}
		_exit(1);
	}
	return c;
}

static void child_go(struct child *c)
{
	char byte;

	assert_int_equal(write(c->go[1], "!", 1), 1);
	assert_int_equal(read(c->came[0], &byte, 1), 1);
}

static void child_kill(struct child *c)
{
	int status;

	kill(c->pid, SIGKILL);
	waitpid(c->pid, &status, 0);
	for (int i = 0; i < 2; i++) {
		close(c->go[i]);
		close(c->came[i]);
	}
}

static void come_as_child(void)
{
	struct translator t;

	come(&t, socket_path(), "child");
}

/* A translator that was killed no longer counts. */
static void a_killed_translator_holds_up_nothing(void **state)
{
	struct child c = child_new(come_as_child);
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	child_go(&c);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	wait_epoch(o, 1);
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	wait_waiting(o);
	child_kill(&c);
	wait_epoch(o, 2);
	dta_store_server_free(o);
}

static void say_units(struct dta_control_line *l, json_int_t run, json_int_t packets,
		      json_int_t units)
{
	say(l, json_pack("{s:s,s:I,s:I,s:{s:I}}", "type", "account", "run", run, "packets", packets,
			 "engine", "units", units));
}

static void wait_written(struct dta_store_server *o, uint64_t units)
{
	for (int i = 0; i < 20000 && unit_count(o, "written") != units; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(unit_count(o, "written"), units);
}

static void wait_packets(struct dta_store_server *o, int64_t n)
{
	for (int i = 0; i < 20000 && packets_of_first(o) != n; i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	assert_int_equal(packets_of_first(o), n);
}

static void say_two_runs(void)
{
	struct translator t;

	come(&t, socket_path(), "a");
	say_units(t.line, 1, 9, 100);
	say_units(t.line, 2, 10, 30); /* begun anew */
}

/* A run that ended, then another of the same name, whose lane another translator gets later. */
static void a_translators_counts_survive_its_successors(void **state)
{
	struct child c = child_new(say_two_runs);
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", "- {name: log, number: 1, kind: append, items: 9, value: 8, lanes: 1}"),
		error);
	assert_non_null(o);
	child_go(&c);
	wait_written(o, 130);
	child_kill(&c);
	wait_packets(o, -1); /* its lane is free now */
	come(&t, socket_path(), "b");
	assert_int_equal(t.lane, 0);
	say_units(t.line, 1, 1, 7);
	wait_written(o, 137);
	/* An overflow caused by a liar affects only its own counts. */
	for (json_int_t run = 9; run; run--)
		say_units(t.line, run, 1, INT64_MAX);
	say_units(t.line, 1, 10, 0);
	wait_packets(o, 10);
	leave(&t);
	dta_store_server_free(o);
}

/* Reports that waited in a killed translator, and those that it missed, may be sent again. */
static void an_ended_run_leaves_no_report_open(void **state)
{
	struct dta_translate_account a = {
		.reports = 10,
		.fresh = 10,
		.loss.missing = 3,
		.engine = {.in = 10, .stored = 6, .waiting = 4},
	};
	struct translator t;
	struct dta_store_server *o;
	const json_t *sum;
	char error[512];
	json_t *j;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	for (int run = 1; run <= 2; run++) {
		json_t *m = dta_account_json(&a);

		json_object_set_new(m, "type", json_string("account"));
		json_object_set_new(m, "run", json_integer(run));
		say(t.line, m);
		a = (struct dta_translate_account){.packets = 2};
	}
	wait_packets(o, 2);
	j = dta_store_server_json(o);
	sum = json_object_get(j, "account");
	assert_int_equal(number(sum, "stored"), 6);
	assert_int_equal(number(sum, "waiting"), 0);
	assert_int_equal(number(sum, "dropped"), 0);
	assert_int_equal(number(sum, "missing"), 0);
	assert_int_equal(number(sum, "lost"), 0);
	assert_int_equal(number(sum, "unknown"), 7);
	assert_int_equal(number(sum, "sent"), 13);
	assert_true(json_is_true(json_object_get(sum, "closes")));
	json_decref(j);
	leave(&t);
	dta_store_server_free(o);
}

static void wait_count(struct dta_store_server *o, const char *what, int64_t n)
{
	int64_t is = -1;

	for (int i = 0; i < 20000 && is != n; i++) {
		json_t *j = dta_store_server_json(o);

		is = number(json_object_get(j, "account"), what);
		json_decref(j);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_int_equal(is, n);
}

/* They are neither lost nor delivered until the translator returns and tells. */
static void open_reports_are_unknown_during_a_cut(void **state)
{
	struct dta_translate_account a = {
		.reports = 10,
		.fresh = 10,
		.loss.missing = 3,
		.engine = {.in = 10, .stored = 6, .waiting = 4},
	};
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	for (int cut = 0; cut < 2; cut++) {
		json_t *m = dta_account_json(&a);

		come(&t, socket_path(), "t");
		json_object_set_new(m, "type", json_string("account"));
		json_object_set_new(m, "run", json_integer(1));
		say(t.line, m);
		wait_count(o, "stored", cut ? 13 : 6);
		wait_count(o, "missing", cut ? 0 : 3);
		wait_count(o, "unknown", 0);
		wait_count(o, "sent", 13);
		leave(&t);
		wait_count(o, "unknown", cut ? 0 : 7);
		wait_count(o, "missing", 0);
		wait_count(o, "waiting", 0);
		wait_count(o, "sent", 13);
		a.reports = a.fresh = a.engine.in = a.engine.stored = 13;
		a.loss.missing = a.engine.waiting = 0;
	}
	dta_store_server_free(o);
}

/* Otherwise the missed reports would be forgotten: the translator no longer knows of the gap. */
static void a_gap_survives_a_clock_that_is_set_back(void **state)
{
	json_t *j = NULL, *gap = NULL;
	struct dta_store_server *o;
	char error[512];
	struct translator t;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	say(t.line,
	    json_pack("{s:s,s:I,s:I,s:i}", "type", "gap", "from", (json_int_t)2000000000000000000,
		      "to", (json_int_t)1000000000000000000, "reports", 5));
	for (int i = 0; i < 20000 && !gap; i++) {
		json_decref(j);
		j = dta_store_server_json(o);
		gap = json_array_get(json_object_get(j, "gaps"), 0);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_int_equal(number(gap, "reports"), 5);
	assert_true(json_real_value(json_object_get(gap, "from")) ==
		    json_real_value(json_object_get(gap, "to")));
	json_decref(j);
	leave(&t);
	dta_store_server_free(o);
}

/* Lets the store server lose a translator that still runs: its memory is not mapped any more. */
static void cut_off(struct dta_store_server *o, struct translator *t)
{
	pthread_mutex_lock(&o->lock);
	strcpy(o->conns->output, "raw");
	pthread_mutex_unlock(&o->lock);
	leave(t);
	wait_packets(o, -1);
}

/* It was cut off, another one got its lane, and it returns. */
static void a_run_that_returns_counts_once(void **state)
{
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", "- {name: log, number: 1, kind: append, items: 9, value: 8, lanes: 1}"),
		error);
	assert_non_null(o);
	come(&t, socket_path(), "a");
	say_units(t.line, 1, 9, 100);
	wait_written(o, 100);
	/* Another run of its name: both have run. */
	say_units(t.line, 2, 10, 30);
	wait_written(o, 130);
	say_units(t.line, 1, 11, 110);
	wait_written(o, 140);
	cut_off(o, &t);
	come(&t, socket_path(), "b");
	assert_int_equal(t.lane, 0);
	say_units(t.line, 1, 1, 7); /* the number means something else for another name */
	wait_written(o, 147);
	cut_off(o, &t);
	come(&t, socket_path(), "a");
	assert_int_equal(unit_count(o, "written"), 147);
	say_units(t.line, 1, 12, 120);
	wait_written(o, 157);
	/* The oldest runs are only added up when there are too many. */
	for (json_int_t run = 3; run < 3 + 2 * RUNS_MAX; run++) {
		say_units(t.line, run, run, 1);
		while (dta_control_line_pending(t.line))
			assert_int_equal(dta_control_line_flush(t.line), 0);
	}
	wait_packets(o, 2 + 2 * RUNS_MAX);
	assert_int_equal(unit_count(o, "written"), 157 + 2 * RUNS_MAX);
	leave(&t);
	dta_store_server_free(o);
}

static void come_and_say_units(void)
{
	struct translator t;

	come(&t, socket_path(), "child");
	say_units(t.line, 1, 1, 100);
}

/* Connects as "child"; returns the reason for which that is refused. */
static const char *refused_as_child(char why[200])
{
	struct dta_control_line *l = connect_to(socket_path());
	json_t *m;
	int fd;

	say(l, json_pack("{s:s,s:i,s:s,s:s,s:i}", "type", "hello", "version", DTA_CONTROL_VERSION,
			 "name", "child", "output", "shm", "run", 2));
	m = next(l, &fd);
	assert_non_null(m);
	assert_string_equal(type_of(m), "error");
	snprintf(why, 200, "%s", json_string_value(json_object_get(m, "why")));
	json_decref(m);
	dta_control_line_free(l);
	return why;
}

/* Two live ones would take the lane from each other, and each time count all reports again. */
static void a_name_is_of_one_live_translator(void **state)
{
	struct child c = child_new(come_and_say_units);
	char why[200], who[40], error[512];
	struct dta_server_conn *first;
	struct translator t;
	struct dta_store_server *o;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	child_go(&c);
	wait_written(o, 100);
	snprintf(who, sizeof(who), "in use by process %d since 20", (int)c.pid);
	assert_non_null(strstr(refused_as_child(why), who));
	assert_int_equal(packets_of_first(o), 1);
	/* On another host it is live as long as it sends messages. */
	pthread_mutex_lock(&o->lock);
	for (first = o->conns; first->state != CONN_WELCOMED;)
		first = first->next;
	first->local = false;
	first->from = (struct in6_addr){.s6_addr = {0xfd, [15] = 7}};
	pthread_mutex_unlock(&o->lock);
	assert_non_null(strstr(refused_as_child(why), "in use by fd00::7 since 20"));
	pthread_mutex_lock(&o->lock);
	first->heard_ns -= 6000000000;
	pthread_mutex_unlock(&o->lock);
	come(&t, socket_path(), "child");
	assert_int_equal(t.lane, 0);
	say_units(t.line, 2, 2, 30);
	wait_written(o, 130);
	child_kill(&c);
	leave(&t);
	dta_store_server_free(o);
}

/* Its successor gets the name at once, and its last account still counts. */
static void a_killed_translator_leaves_its_name(void **state)
{
	struct child c = child_new(come_and_say_units);
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	child_go(&c);
	child_kill(&c);
	come(&t, socket_path(), "child");
	assert_int_equal(t.lane, 0);
	wait_written(o, 100);
	leave(&t);
	dta_store_server_free(o);
}

/* ---- clients and changes ---- */

static void what_a_stranger_calls_us_is_cut_between_characters(void **state)
{
	char called[162];
	struct dta_control_line *l;
	struct dta_store_server *o;
	char error[512];
	json_t *m, *j;
	int fd;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	memset(called, 'x', 158);
	strcpy(called + 158, "\u00e9"); /* two bytes, of which there is room for one */
	l = connect_to(socket_path());
	say(l, json_pack("{s:s,s:i,s:s,s:s,s:s}", "type", "hello", "version", DTA_CONTROL_VERSION,
			 "name", "t", "output", "shm", "called", called));
	m = next(l, &fd);
	assert_string_equal(type_of(m), "welcome");
	json_decref(m);
	j = dta_store_server_json(o);
	assert_non_null(j);
	called[158] = 0;
	assert_string_equal(json_string_value(json_object_get(j, "called")), called);
	json_decref(j);
	dta_control_line_free(l);
	dta_store_server_free(o);
}

/* Otherwise its listening socket would wake it forever, and new connections would wait. */
static void a_client_without_a_descriptor_left_is_refused(void **state)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct rlimit before, none;
	struct translator t;
	struct dta_store_server *o;
	struct pollfd p = {.events = POLLIN};
	char error[512], byte;
	int fd, first;

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	first = dup(fd); /* the first that is free */
	assert_true(fd >= 0 && first >= 0);
	close(first);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = (rlim_t)first;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	strcpy(a.sun_path, socket_path());
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	p.fd = fd;
	first = poll(&p, 1, 100000);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(first, 1);
	assert_int_equal(read(fd, &byte, 1), 0);
	close(fd);
	come(&t, socket_path(), "t");
	leave(&t);
	dta_store_server_free(o);
}

static void a_report_stands_is_overwritten_updated_or_expired(void **state)
{
	enum { KEYS = 700, SLOTS = 1000, AGAIN = 300 };
	struct dta_store_view v;
	struct dta_translate_account a = {0};
	uint64_t standing = 0, over = 0, off;
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	come(&t, socket_path(), "t");
	for (uint64_t key = 0; key < KEYS; key++)
		put(&t, 0, 0, key);
	for (uint64_t *slot = (uint64_t *)(void *)bank_of(&t, 0, 0, &v), *end = slot + 2 * SLOTS;
	     slot < end; slot += 2)
		standing += *slot != 0;
	assert_in_range(standing, KEYS / 3, KEYS - 1); /* some keys have overwritten others */
	/* Newer values of the same keys evict no others. */
	for (uint64_t key = KEYS - AGAIN; key < KEYS; key++)
		put(&t, 0, 0, key);
	a.engine.units = KEYS + AGAIN;
	for (int epoch = 0; epoch < 3; epoch++) {
		json_t *m = dta_account_json(&a);

		json_object_set_new(m, "type", json_string("account"));
		say(t.line, m);
		wait_written(o, a.engine.units);
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
		assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
		json_decref(until(&t, "rotate"));
		rotated(&t);
		wait_epoch(o, (uint64_t)epoch + 1);
		put(&t, 0, (uint64_t)epoch + 1, 1);
		a.engine.units++;
	}
	leave(&t);
	dta_store_server_free(o);
}

static void a_store_resizes_live_and_both_sizes_are_readable(void **state)
{
	struct dta_store_view v;
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	come(&t, socket_path(), "t");
	put(&t, 0, 0, 11);
	assert_int_equal(dta_store_server_resize(o, "flows", 5000, error, sizeof(error)), 0);
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
	assert_int_equal(dta_store_server_resize(o, "flows", 0, error, sizeof(error)), -EINVAL);
	assert_int_equal(dta_store_server_resize(o, "none", 10, error, sizeof(error)), -ENOENT);
	/* Any number of times, but memory that may still be written to is never freed. */
	assert_int_equal(dta_store_server_resize(o, "flows", 6000, error, sizeof(error)), 0);
	assert_int_equal(dta_store_server_resize(o, "flows", 7000, error, sizeof(error)), 0);
	assert_int_equal(dta_store_server_resize(o, "flows", 8000, error, sizeof(error)), -EBUSY);
	for (int i = 0; i < 2; i++)
		json_decref(until(&t, "rotate"));
	rotated(&t);
	for (int i = 0;
	     i < 20000 && dta_store_server_resize(o, "flows", 8000, error, sizeof(error)); i++)
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	json_decref(until(&t, "rotate"));
	assert_true(found(o, 12) || found(o, 11) || t.epoch == 4);
	leave(&t);
	dta_store_server_free(o);
}

static void who_says_anything_wrong_is_told_and_let_go(void **state)
{
	static const char *const wrong[] = {
		"{\"type\":\"rotated\"}\n",
		"{\"type\":\"hello\",\"version\":4,\"name\":\"t\",\"output\":\"shm\"}\n",
		"{\"type\":\"hello\",\"version\":3,\"name\":\"\",\"output\":\"shm\"}\n",
		"{\"type\":\"hello\",\"version\":3,\"name\":\"../x\",\"output\":\"shm\"}\n",
		"{\"type\":\"hello\",\"version\":3,\"name\":\"t\",\"output\":\"disk\"}\n",
		"{\"type\":\"hello\",\"version\":3,\"name\":\"t\",\"output\":\"verbs\"}\n",
	};
	struct translator t;
	struct dta_store_server *o;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		struct dta_control_line *l = connect_to(socket_path());
		json_t *m;
		int fd;

		assert_int_equal(write(dta_control_line_fd(l), wrong[i], strlen(wrong[i])),
				 (ssize_t)strlen(wrong[i]));
		m = next(l, &fd);
		assert_non_null(m);
		assert_string_equal(type_of(m), "error");
		json_decref(m);
		assert_null(next(l, &fd));
		dta_control_line_free(l);
	}
	/* Invalid messages of an admitted translator change nothing. */
	come(&t, socket_path(), "t");
	say(t.line,
	    json_pack("{s:s,s:i,s:i,s:i}", "type", "rotated", "tenant", 7, "store", 7, "epoch", 7));
	say(t.line, json_pack("{s:s,s:i,s:i,s:I}", "type", "rotated", "tenant", 0, "store", 1,
			      "epoch", (json_int_t)99));
	say(t.line, json_pack("{s:s,s:[]}", "type", "account", "packets"));
	say(t.line, json_pack("{s:s,s:i}", "type", "immediate", "number", -5));
	say(t.line, json_pack("{s:s}", "type", "something"));
	assert_int_equal(dta_store_server_rotate(o, "flows"), 0);
	json_decref(until(&t, "rotate"));
	assert_int_equal(t.epoch, 1);
	leave(&t);
	dta_store_server_free(o);
}

/*
 * Changes that are impossible for a running server are refused in one line that names them, and
 * then no other change of the file is made either.
 */
static void a_reload_does_what_it_can_and_else_nothing(void **state)
{
	static const struct {
		const char *rest, *stores, *said;
	} wrong[] = {
		{"directory: /elsewhere", FLOWS, "changing directory"},
		{"hugepages: never", FLOWS, "changing hugepages"},
		{"rdma: {port: 7}", FLOWS, "changing rdma"},
		{"tenants: [{number: 8}]", FLOWS, "removing tenant 7"},
		{"tenants: [{number: 7, rate: x}]", FLOWS, "rate"},
		{"tenants: [{number: 7, rate: 1}]",
		 FLOWS "\n- {name: b, number: 2, kind: increment, columns: 9}",
		 "adding or removing stores"},
		{"tenants: [{number: 7, rate: 1}]",
		 "- {name: flows, number: 1, kind: key-write, slots: 1000, value: 9, copies: 2, seed: 1}",
		 "a restart is required to change anything but its size"},
	};
	struct translator t;
	struct dta_store_server *o;
	char error[512];
	json_t *j;

	(void)state;
	o = own(yaml("tenants: [{number: 7, name: seven, rate: 5}]", FLOWS), error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		write_file("s.yaml", yaml(wrong[i].rest, wrong[i].stores));
		assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), -EINVAL);
		if (!strstr(error, wrong[i].said) || strchr(error, '\n'))
			fail_msg("'%s' for '%s'", error, wrong[i].said);
	}
	j = dta_store_server_json(o);
	assert_int_equal(number(j, "reloads"), 0);
	assert_int_equal(number(j, "reloads_refused"), sizeof(wrong) / sizeof(*wrong));
	assert_int_equal(number(json_array_get(json_object_get(j, "tenants"), 0), "rate"), 5);
	json_decref(j);
	write_file("s.yaml", yaml("tenants: [{number: 7, rate: 9, burst: 3}, {number: 8}]", FLOWS));
	assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), 0);
	/* Refused changes were not announced. */
	for (int64_t tenant = 7; tenant < 9; tenant++) {
		j = until(&t, "tenant");
		assert_int_equal(number(j, "tenant"), tenant);
		assert_int_equal(number(j, "rate"), tenant == 7 ? 9 : 0);
		assert_int_equal(number(j, "burst"), tenant == 7 ? 3 : 0);
		json_decref(j);
	}
	leave(&t);
	dta_store_server_free(o);
}

/* A reload must not admit what the start refuses: any translator of another host. */
static void a_reload_does_not_open_a_port_to_everyone(void **state)
{
	char secret[160], text[400], error[512];
	struct dta_store_server *o;

	(void)state;
	snprintf(secret, sizeof(secret), "%s", write_file("secret", "0123456789abcdef0123456789"));
	snprintf(text, sizeof(text), "listen: 0.0.0.0:0\nsecret: %s\nstores:\n" FLOWS "\n", secret);
	o = own(text, error);
	assert_non_null(o);
	write_file("s.yaml", "listen: 0.0.0.0:0\nstores:\n" FLOWS "\n");
	assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), -EACCES);
	assert_non_null(strstr(error, "is reachable from other hosts"));
	write_file("s.yaml", "listen: 0.0.0.0:0\ninsecure_listen: true\nstores:\n" FLOWS "\n");
	assert_int_equal(dta_store_server_reload(o, error, sizeof(error)), 0);
	dta_store_server_free(o);
}

/* Waits until the store server has this many connections, and the newest has proved the secret. */
static struct dta_server_conn *wait_conns(struct dta_store_server *o, size_t n, bool proved)
{
	struct dta_server_conn *c = NULL;

	for (int i = 0; i < 20000 && !c; i++) {
		pthread_mutex_lock(&o->lock);
		if (o->conn_count == n && dta_control_line_proved(o->conns->line) == proved)
			c = o->conns;
		pthread_mutex_unlock(&o->lock);
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	assert_non_null(c);
	return c;
}

/* A translator whose host is gone would otherwise keep its lane for ever. */
static void a_dead_peer_over_tcp_is_noticed(void **state)
{
	static const struct {
		int level, name;
	} set[] = {{SOL_SOCKET, SO_KEEPALIVE},
		   {IPPROTO_TCP, TCP_KEEPIDLE},
		   {IPPROTO_TCP, TCP_KEEPINTVL},
		   {IPPROTO_TCP, TCP_USER_TIMEOUT}};
	struct dta_control_line *peer;
	struct dta_store_server *o;
	char error[512];
	int fd;

	(void)state;
	o = own("listen: 127.0.0.1:0\nstores:\n" FLOWS "\n", error);
	assert_non_null(o);
	peer = connect_tcp(dta_store_server_address(o, 0));
	wait_conns(o, 1, false);
	pthread_mutex_lock(&o->lock);
	fd = dta_control_line_fd(o->conns->line);
	pthread_mutex_unlock(&o->lock);
	for (size_t i = 0; i < sizeof(set) / sizeof(*set); i++) {
		socklen_t bytes = sizeof(int);
		int value = 0;

		assert_int_equal(getsockopt(fd, set[i].level, set[i].name, &value, &bytes), 0);
		/* seconds, or milliseconds; the kernel's default is two hours */
		assert_in_range(value, 1, 20000);
		assert_true(set[i].name == TCP_USER_TIMEOUT || value <= 10);
	}
	dta_control_line_free(peer);
	dta_store_server_free(o);
}

/*
 * The old secret may be known to an attacker. So translators on other hosts are disconnected, even
 * those that have not been admitted yet, and do not get the new keys. Local translators stay.
 */
static void a_new_secret_ends_sessions_of_the_old_one(void **state)
{
	static const char format[] = "listen: [127.0.0.1:0, %1$s/dta.sock]\nsecret: %1$s/%2$s\n"
				     "tenants: [{number: 7, key: %1$s/key}]\nstores:\n" FLOWS "\n";
	struct dta_control_line *peer[2];
	struct dta_server_conn *admitted;
	struct dta_store_server *o;
	char text[700], error[512];
	struct translator t;
	json_t *m;
	int fd;

	(void)state;
	write_file("old", "0123456789abcdef0123456789");
	write_file("new", "9876543210fedcba9876543210");
	write_file("key", "00112233445566778899aabbccddeeff");
	snprintf(text, sizeof(text), format, test_folder, "old");
	o = own(text, error);
	if (!o)
		fail_msg("%s", error);
	come(&t, socket_path(), "t");
	peer[0] = connect_tcp(dta_store_server_address(o, 0));
	assert_int_equal(dta_control_line_tls(peer[0], "0123456789abcdef0123456789", 26, false), 0);
	for (int i = 0; i < 20000 && !dta_control_line_proved(peer[0]); i++) {
		assert_null(dta_control_line_read(peer[0], &fd));
		nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
	}
	/* Translators of other hosts need RDMA, which may be missing here: admit it by hand. */
	admitted = wait_conns(o, 2, true);
	pthread_mutex_lock(&o->lock);
	admitted->state = CONN_WELCOMED;
	strcpy(admitted->output, "raw");
	pthread_mutex_unlock(&o->lock);
	peer[1] = connect_tcp(dta_store_server_address(o, 0));
	wait_conns(o, 3, false);
	write_file("key", "ffeeddccbbaa99887766554433221100");
	snprintf(text, sizeof(text), format, test_folder, "new");
	write_file("s.yaml", text);
	if (dta_store_server_reload(o, error, sizeof(error)))
		fail_msg("%s", error);
	m = next(peer[0], &fd);
	assert_non_null(m);
	assert_string_equal(type_of(m), "bye");
	json_decref(m);
	for (int i = 0; i < 2; i++) {
		assert_null(next(peer[i], &fd));
		dta_control_line_free(peer[i]);
	}
	m = until(&t, "tenant");
	assert_int_equal(json_array_size(json_object_get(m, "keys")), 1);
	json_decref(m);
	leave(&t);
	dta_store_server_free(o);
}

struct change {
	struct dta_store_server *o;
	uint64_t slots; /* 0 means a reload */
	int err;
};

static void *make_change(void *arg)
{
	struct change *c = arg;
	char error[512];

	do
		c->err = c->slots ? dta_store_server_resize(c->o, "flows", c->slots, error,
							    sizeof(error))
				  : dta_store_server_reload(c->o, error, sizeof(error));
	while (c->err == -EBUSY && !usleep(1000)); /* until the translator's answer was read */
	return NULL;
}

/* Resizes, or reloads, which must take less than 5 s. */
static void change_within(struct dta_store_server *o, uint64_t slots)
{
	static struct change c; /* a thread that hangs still uses it */
	struct timespec end;
	pthread_t thread;

	c = (struct change){.o = o, .slots = slots};
	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 5;
	assert_int_equal(pthread_create(&thread, NULL, make_change, &c), 0);
	assert_int_equal(pthread_timedjoin_np(thread, NULL, &end), 0);
	assert_int_equal(c.err, 0);
}

/*
 * A long query must not hold up a resize, a reload, the status or another query, and still reads
 * the memory that it began with.
 */
static void a_long_query_holds_up_nothing(void **state)
{
	const uint64_t key = 5;
	const struct dta_query q = {.key = &key, .key_bytes = 8, .epoch = ~0ull};
	struct sl_keywrite_answer a;
	struct dta_store_server *o;
	struct dta_held held;
	struct translator t;
	char error[512];

	(void)state;
	o = own(yaml("", FLOWS), error);
	assert_non_null(o);
	come(&t, socket_path(), "t");
	put(&t, 0, 0, key);
	assert_true(dta_store_server_hold(o, "flows", &held));
	for (uint64_t i = 1; i <= 5; i++) {
		change_within(o, 1000 + i);
		json_decref(until(&t, "rotate"));
		rotated(&t);
	}
	write_file("s.yaml", yaml("", FLOWS));
	change_within(o, 0);
	json_decref(until(&t, "rotate"));
	json_decref(dta_store_server_json(o));
	assert_false(found(o, key)); /* a newer query */
	dta_view_keywrite(held.view[0], &q, &a);
	assert_int_equal(a.result, SL_QUERY_FOUND);
	assert_non_null(o->retired);
	dta_store_server_release(o, &held);
	assert_null(o->retired);
	leave(&t);
	dta_store_server_free(o);
}

/* The store server whose lists are looked at; and how often its lock was held meanwhile. */
static struct dta_store_server *looked_at;
static int looks, locked;

uint64_t __real_dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane,
				struct base_budget *budget);
uint64_t __wrap_dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane,
				struct base_budget *budget);
uint64_t __wrap_dta_append_next(const struct dta_store_view *v, uint32_t list, uint32_t lane,
				struct base_budget *budget)
{
	looks++;
	if (!looked_at || pthread_mutex_trylock(&looked_at->lock))
		locked++;
	else
		pthread_mutex_unlock(&looked_at->lock);
	return __real_dta_append_next(v, list, lane, budget);
}

/* Reading a lane takes long if it is large, or if a translator wrote wrong blocks. */
static void a_lane_is_read_without_the_lock(void **state)
{
	static const char list[] =
		"- {name: flows, number: 1, kind: append, items: 64, value: 8, batch: 4, lists: 2}";
	struct dta_store_server *o;
	struct translator t;
	char error[512];
	json_t *next;

	(void)state;
	o = own(yaml("", list), error);
	if (!o)
		fail_msg("%s", error);
	looked_at = o;
	looks = locked = 0;
	for (int i = 0; i < 2; i++) {
		struct dta_store_view v;
		uint8_t *ring;

		come(&t, socket_path(), "t");
		next = json_object_get(t.store, "next");
		assert_int_equal(json_array_size(next), 2);
		assert_int_equal(json_integer_value(json_array_get(next, 0)), 0);
		assert_int_equal(json_integer_value(json_array_get(next, 1)), i);
		ring = bank_of(&t, 0, 0, &v) + sl_store_ring_offset(v.config, 1, (uint32_t)t.lane);
		*(uint64_t *)(void *)(ring + 32) = dta_tail(v.config, 1, (uint32_t)t.lane, 0, ring,
							    32, 4);
		if (!i)
			leave(&t);
	}
	assert_int_equal(looks, 4);
	assert_int_equal(locked, 0);
	/* The lists of new memory are empty, and are not read. */
	assert_int_equal(dta_store_server_resize(o, "flows", 100, error, sizeof(error)), 0);
	json_decref(until(&t, "store"));
	assert_null(json_object_get(t.store, "next"));
	assert_int_equal(looks, 4);
	looked_at = NULL;
	leave(&t);
	dta_store_server_free(o);
}

/* Epochs rotate by the clock, with a translator that answers. */
static void epochs_rotate_by_themselves(void **state)
{
	struct translator t;
	struct dta_store_server *o;
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
	dta_store_server_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_mistake_is_one_line_that_names_its_place),
		cmocka_unit_test(a_remark_of_any_length_is_none_of_the_values),
		cmocka_unit_test(a_bank_is_zeroed_after_every_translator_left_it),
		cmocka_unit_test(who_cannot_be_told_of_a_change_is_let_go),
		cmocka_unit_test(a_killed_translator_holds_up_nothing),
		cmocka_unit_test(a_translators_counts_survive_its_successors),
		cmocka_unit_test(an_ended_run_leaves_no_report_open),
		cmocka_unit_test(open_reports_are_unknown_during_a_cut),
		cmocka_unit_test(a_run_that_returns_counts_once),
		cmocka_unit_test(a_name_is_of_one_live_translator),
		cmocka_unit_test(a_killed_translator_leaves_its_name),
		cmocka_unit_test(a_gap_survives_a_clock_that_is_set_back),
		cmocka_unit_test(what_a_stranger_calls_us_is_cut_between_characters),
		cmocka_unit_test(a_client_without_a_descriptor_left_is_refused),
		cmocka_unit_test(a_report_stands_is_overwritten_updated_or_expired),
		cmocka_unit_test(a_store_resizes_live_and_both_sizes_are_readable),
		cmocka_unit_test(who_says_anything_wrong_is_told_and_let_go),
		cmocka_unit_test(a_reload_does_what_it_can_and_else_nothing),
		cmocka_unit_test(a_reload_does_not_open_a_port_to_everyone),
		cmocka_unit_test(a_dead_peer_over_tcp_is_noticed),
		cmocka_unit_test(a_new_secret_ends_sessions_of_the_old_one),
		cmocka_unit_test(a_long_query_holds_up_nothing),
		cmocka_unit_test(a_lane_is_read_without_the_lock),
		cmocka_unit_test(epochs_rotate_by_themselves),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("owner", tests, folder_make, folder_remove);
}
