// SPDX-License-Identifier: Apache-2.0
/*
 * test_client_raw.c - the raw output requests its queue pairs one at a time, because an answer
 * does not name its request. The collector (late, forgetful), the clock and the interface are
 * simulated.
 */
#include "engine_drive.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/translate/client.h"
#include "no_port.h"

#define SECOND 1000000000ull

/* ---- the output's interface, with no peer behind it ---- */

static struct {
	unsigned sent;
	int listen_error;
} port;

int __wrap_dta_raw_port_open(struct dta_raw_port *p, const struct dta_output_raw_opts *opts,
			     char *error, size_t error_bytes)
{
	(void)opts, (void)error, (void)error_bytes;
	*p = no_port();
	return 0;
}

void __wrap_dta_raw_port_close(struct dta_raw_port *p);
void __wrap_dta_raw_port_close(struct dta_raw_port *p)
{
	(void)p;
}

int __wrap_dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours);
int __wrap_dta_raw_port_listen(struct dta_raw_port *p, const struct dta_roce_end *ours)
{
	(void)p, (void)ours;
	return port.listen_error;
}

int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count);
int __wrap_dta_raw_port_send(struct dta_raw_port *p, const struct dta_raw_frame *frames,
			     unsigned count)
{
	(void)p, (void)frames;
	port.sent += count;
	return (int)count;
}

int __wrap_dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames,
				unsigned count);
int __wrap_dta_raw_port_receive(struct dta_raw_port *p, struct dta_raw_frame *frames,
				unsigned count)
{
	(void)p, (void)frames, (void)count;
	return 0;
}

/* ---- the collector ---- */

static struct {
	char dir[32];
	struct sockaddr_un at;
	int listener;
	struct dta_control_line *line; /* of the session */
	struct dta_client *client;
	unsigned hellos, queues; /* received in this session */
	bool closed;		 /* by the client */
} here;

static int begin(void **state)
{
	static char where[sizeof(here.at.sun_path) + 8]; /* the client does not copy it */
	char error[200];

	(void)state;
	memset(&here, 0, sizeof(here));
	memset(&port, 0, sizeof(port));
	now = SECOND;
	strcpy(here.dir, "/tmp/sl-raw-XXXXXX");
	assert_non_null(mkdtemp(here.dir));
	here.at.sun_family = AF_UNIX;
	snprintf(here.at.sun_path, sizeof(here.at.sun_path), "%s/s", here.dir);
	here.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
	assert_int_equal(bind(here.listener, (struct sockaddr *)&here.at, sizeof(here.at)), 0);
	assert_int_equal(listen(here.listener, 4), 0);
	snprintf(where, sizeof(where), "unix:%s", here.at.sun_path);
	here.client = dta_client_new(&(struct dta_client_opts){.collector = where,
							       .name = "t",
							       .output = DTA_CLIENT_RAW,
							       .raw.interface = "any"},
				     error, sizeof(error));
	return here.client ? 0 : -1;
}

static int end(void **state)
{
	(void)state;
	dta_client_free(here.client);
	dta_control_line_free(here.line);
	close(here.listener);
	unlink(here.at.sun_path);
	return rmdir(here.dir);
}

static void listen_to_it(void)
{
	int passed = -1, fd = here.line ? -1 : accept(here.listener, NULL, NULL);
	json_t *m;

	if (fd >= 0) {
		here.line = dta_control_line_new(fd);
		assert_non_null(here.line);
		here.hellos = here.queues = 0;
		here.closed = false;
	}
	while (here.line && (m = dta_control_line_read(here.line, &passed))) {
		const char *type = json_string_value(json_object_get(m, "type"));

		here.hellos += !strcmp(type, "hello");
		here.queues += !strcmp(type, "queue");
		json_decref(m);
	}
	here.closed |= here.line && errno != EAGAIN;
}

static void pass(uint64_t ns)
{
	for (const uint64_t until = now + ns; now < until; now += 10000000) {
		dta_client_drive(here.client, now);
		dta_client_tick(here.client, now);
		listen_to_it();
	}
}

/* Its collector disconnects, and there is another connection. */
static void hang_up(void)
{
	dta_control_line_free(here.line);
	here.line = NULL;
	pass(3 * SECOND); /* longer than any back-off */
	assert_int_equal(here.hellos, 1);
}

static void say(json_t *m)
{
	assert_non_null(m);
	assert_int_equal(dta_control_line_write(here.line, m, -1), 0);
}

static void welcome(void)
{
	say(json_pack("{s:s, s:i, s:i, s:i, s:i}", "type", "welcome", "version",
		      DTA_CONTROL_VERSION, "instance", 7, "lane", 0, "port", 0));
}

static void answer(void)
{
	const struct dta_roce_end e = {.qpn = 0x111,
				       .psn = 1,
				       .gid = {[10] = 0xff, 0xff, 10, 0, 0, 2},
				       .mac = {2, 2},
				       .mtu = 1024,
				       .atomics = 1};

	say(dta_roce_end_json(&e));
}

static void name_stores(void)
{
	struct fenced f;
	char hex[2 * sizeof(f.c) + 1];

	fence(&f, (struct sl_store_config){.kind = SL_STORE_KEYWRITE,
					   .id = 1,
					   .slots = 64,
					   .value_bytes = 8,
					   .copies = 1});
	for (size_t i = 0; i < sizeof(f.c); i++)
		snprintf(hex + 2 * i, 3, "%02x", ((const uint8_t *)f.v.config)[i]);
	say(json_pack("{s:s, s:i, s:I, s:i, s:i}", "type", "object", "number", 0, "bytes",
		      (json_int_t)f.object.bytes, "addr", 4096, "rkey", 5));
	say(json_pack("{s:s, s:i, s:i, s:s, s:i, s:i, s:s}", "type", "store", "tenant", 0, "store",
		      1, "name", "x", "object", 0, "epoch", 0, "config", hex));
	say(json_pack("{s:s}", "type", "ready"));
	unfence(&f);
}

/* Until it writes. */
static void settle(void)
{
	pass(SECOND / 10);
	assert_int_equal(here.hellos, 1);
	welcome();
	name_stores();
	pass(SECOND / 10);
	assert_int_equal(here.queues, 1);
	assert_false(dta_client_ready(here.client));
	answer();
	pass(SECOND / 10);
	assert_true(dta_client_ready(here.client));
}

static struct dta_output_stats stats(void)
{
	struct dta_translate_account a = {0};

	dta_client_account(here.client, &a);
	return a.output;
}

/* A report without an acknowledgement: its queue pair is given up after some time. */
static void write_without_answer(void)
{
	static struct feed f;

	put(feed_of(&f, DTA_KEYWRITE, 1, 8, 8, 1), "a key ..", "a value.");
	assert_int_equal(dta_client_block(here.client, 0, 1, &f.b, now), 1);
	dta_client_tick(here.client, now);
}

/* ---- tests ---- */

static void none_is_asked_for_before_the_welcome(void **state)
{
	(void)state;
	settle();
	write_without_answer();
	hang_up();
	pass(20 * SECOND); /* it is silent; meanwhile, the previous queue pair is given up */
	assert_int_equal(stats().disconnects, 1);
	assert_int_equal(here.queues, 0);
	welcome();
	name_stores();
	pass(SECOND);
	assert_int_equal(here.queues, 1);
	answer();
	port.sent = 0;
	pass(SECOND / 10);
	assert_true(dta_client_ready(here.client));
	assert_int_equal(stats().connects, 2);
	assert_true(port.sent > 0); /* unacknowledged reports are sent again */
}

static void an_unanswered_request_is_not_followed_by_another(void **state)
{
	(void)state;
	settle();
	write_without_answer();
	pass(20 * SECOND);
	assert_int_equal(stats().disconnects, 1);
	assert_int_equal(here.queues, 2);
	answer();
	pass(SECOND / 10);
	assert_true(dta_client_ready(here.client) && !here.closed);
	/* A second answer would belong to no request. */
	answer();
	pass(SECOND / 10);
	assert_true(here.closed);
}

static void no_request_for_a_queue_pair_that_cannot_receive(void **state)
{
	(void)state;
	port.listen_error = -ENODEV;
	pass(SECOND / 10);
	welcome();
	name_stores();
	pass(5 * SECOND);
	assert_int_equal(here.queues, 0);
	port.listen_error = 0;
	pass(2 * SECOND);
	assert_int_equal(here.queues, 1);
	answer();
	pass(SECOND / 10);
	assert_true(dta_client_ready(here.client));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(none_is_asked_for_before_the_welcome, begin, end),
		cmocka_unit_test_setup_teardown(an_unanswered_request_is_not_followed_by_another,
						begin, end),
		cmocka_unit_test_setup_teardown(no_request_for_a_queue_pair_that_cannot_receive,
						begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
