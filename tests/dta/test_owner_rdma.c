// SPDX-License-Identifier: Apache-2.0
/* test_owner_rdma.c - the store server and an RDMA device, which is not a real one. */

#include <sys/eventfd.h>

#include "support/test.h"
#include "owner_talk.h"
#include "base/text.h"
#include "dta/store_server/internal.h"
#include "fabric/host.h"

#define RKEYS 64u

/* ---- a device; the store server calls it with its lock held ---- */

struct fabric_host {
	struct fabric_host_writers writers;
	int fd;
};

static struct fabric_host device;
static int opened, closed;
static bool refuses; /* the next device cannot be opened */
static bool is_valid[RKEYS];
static uint32_t rkeys;
static uint64_t ended; /* the last queue pair that was ended */

struct fabric_host *__wrap_fabric_host_open(const struct fabric_host_opts *opts, char *error,
					    size_t bytes);
struct fabric_host *__wrap_fabric_host_open(const struct fabric_host_opts *opts, char *error,
					    size_t bytes)
{
	(void)opts;
	if (refuses) {
		snprintf(error, bytes, "refused");
		return NULL;
	}
	opened++;
	device = (struct fabric_host){.fd = eventfd(0, EFD_CLOEXEC)};
	return &device;
}

void __wrap_fabric_host_close(struct fabric_host *h);
void __wrap_fabric_host_close(struct fabric_host *h)
{
	closed++;
	close(h->fd);
	for (uint32_t i = 0; i < RKEYS; i++)
		assert_false(is_valid[i]);
}

int __wrap_fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers);
int __wrap_fabric_host_let_write(struct fabric_host *h, const struct fabric_host_writers *writers)
{
	h->writers = *writers;
	return 0;
}

int __wrap_fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
					 struct fabric_host_key *key);
int __wrap_fabric_host_register_writable(struct fabric_host *h, void *map, size_t bytes,
					 struct fabric_host_key *key)
{
	(void)h;
	(void)bytes;
	assert_true(rkeys + 1 < RKEYS);
	is_valid[++rkeys] = true;
	*key = (struct fabric_host_key){(uint64_t)(uintptr_t)map, rkeys, map};
	return 0;
}

void __wrap_fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key);
void __wrap_fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key)
{
	(void)h;
	assert_true(is_valid[key->rkey]);
	is_valid[key->rkey] = false;
}

int __wrap_fabric_host_fd(const struct fabric_host *h);
int __wrap_fabric_host_fd(const struct fabric_host *h)
{
	return h->fd;
}

void __wrap_fabric_host_dispatch(struct fabric_host *h);
void __wrap_fabric_host_dispatch(struct fabric_host *h)
{
	(void)h;
}

void __wrap_fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out);
void __wrap_fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out)
{
	(void)h;
	*out = (struct fabric_host_stats){.port = 7};
}

int __wrap_fabric_host_queue_end(struct fabric_host *h, uint64_t queue);
int __wrap_fabric_host_queue_end(struct fabric_host *h, uint64_t queue)
{
	ended = queue;
	h->writers.gone(h->writers.arg, queue, "");
	return 0;
}

/* ---- tests ---- */

#define OLD    "0123456789abcdef0123456789"
#define NEW    "9876543210fedcba9876543210"
#define QUEUE  5u
#define RKEY_0 1u /* of the first object */

/* What a translator over RDMA is told. */
struct told {
	struct dta_control_line *line;
	uint64_t instance;
	uint32_t rkey;
};

static struct told come_by_rdma(void)
{
	struct told t = {.line = connect_to(socket_path())};
	bool ready = false;

	say(t.line, json_pack("{s:s,s:i,s:s,s:s}", "type", "hello", "version", DTA_CONTROL_VERSION,
			      "name", "t", "output", "verbs"));
	while (!ready) {
		int fd;
		json_t *m = next(t.line, &fd);

		assert_non_null(m);
		if (!strcmp(type_of(m), "welcome"))
			t.instance = (uint64_t)number(m, "instance");
		if (!strcmp(type_of(m), "object"))
			t.rkey = (uint32_t)number(m, "rkey");
		ready = !strcmp(type_of(m), "ready");
		json_decref(m);
	}
	return t;
}

static const char *with_secret(const char *file)
{
	static char text[700];

	snprintf(text, sizeof(text),
		 "listen: %1$s/dta.sock\nsecret: %1$s/%2$s\nrdma: {port: 7}\nstores:\n" FLOWS "\n",
		 test_folder, file);
	return text;
}

static struct dta_store_server *own_with_rdma(void)
{
	struct dta_store_server *o;
	char error[512];

	opened = closed = 0;
	refuses = false;
	rkeys = 0;
	write_file("old", OLD);
	write_file("new", NEW);
	o = own(with_secret("old"), error);
	if (!o)
		fail_msg("%s", error);
	return o;
}

static void change_secret(struct dta_store_server *o)
{
	char error[512];

	write_file("s.yaml", with_secret("new"));
	if (dta_store_server_reload(o, error, sizeof(error)))
		fail_msg("%s", error);
}

static void assert_bye(struct told *t)
{
	int fd;
	json_t *m = next(t->line, &fd);

	assert_non_null(m);
	assert_string_equal(type_of(m), "bye");
	json_decref(m);
	dta_control_line_free(t->line);
}

/*
 * A translator with the old secret was told an instance, which admits queue pairs under the name of
 * any connected translator, and rkeys, which then write.
 */
static void a_new_secret_revokes_instance_and_rkeys(void **state)
{
	struct dta_store_server *o = own_with_rdma();
	struct told before = come_by_rdma(), after;

	(void)state;
	assert_int_equal(before.rkey, RKEY_0);
	assert_int_equal(before.instance, device.writers.instance);
	pthread_mutex_lock(&o->lock);
	assert_true(device.writers.came(o, QUEUE, "t"));
	pthread_mutex_unlock(&o->lock);
	change_secret(o);
	assert_false(is_valid[RKEY_0]);
	assert_int_equal(ended, QUEUE);
	assert_bye(&before);
	after = come_by_rdma();
	assert_true(after.instance != before.instance);
	assert_int_equal(after.instance, device.writers.instance);
	assert_true(after.rkey != RKEY_0 && is_valid[after.rkey]);
	/* The same file again revokes nothing. */
	change_secret(o);
	assert_true(is_valid[after.rkey]);
	dta_control_line_free(after.line);
	dta_store_server_free(o);
	assert_int_equal(opened, 2);
	assert_int_equal(closed, 2);
}

static void a_device_that_does_not_return_stays_closed(void **state)
{
	struct dta_store_server *o = own_with_rdma();
	struct told before = come_by_rdma(), after;

	(void)state;
	refuses = true;
	change_secret(o);
	assert_false(is_valid[RKEY_0]);
	assert_bye(&before);
	pthread_mutex_lock(&o->lock);
	assert_null(o->host);
	refuses = false;
	pthread_mutex_unlock(&o->lock);
	for (bool back = false; !back; usleep(1000)) { /* until the loop has tried again */
		pthread_mutex_lock(&o->lock);
		back = o->host;
		pthread_mutex_unlock(&o->lock);
	}
	after = come_by_rdma();
	assert_true(after.instance != before.instance);
	assert_true(is_valid[after.rkey]);
	dta_control_line_free(after.line);
	dta_store_server_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_secret_revokes_instance_and_rkeys),
		cmocka_unit_test(a_device_that_does_not_return_stays_closed),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("owner-rdma", tests, folder_make, folder_remove);
}
