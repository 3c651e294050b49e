// SPDX-License-Identifier: Apache-2.0
/*
 * test_threads.c - the loop, REST handlers, publishers and a consumer run concurrently in one
 * process, for the thread sanitizer.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <sidelight/sidelight.h>

#include "agent/rest.h"
#include "cli/common/common.h"
#include "fixture.h"

#define POSTS 200

static struct agent *agent;
static int stop_fd;
static char folder[] = "/tmp/sl-test-XXXXXX", path[64];

static void *loop(void *arg)
{
	(void)arg;
	return (void *)(intptr_t)agent_run(agent, stop_fd);
}

static void request(const char *method, const char *where, const char *body, int status)
{
	struct agent_rest_request q = {.method = method,
				       .path = where,
				       .variable = "",
				       .body = body,
				       .bytes = strlen(body)};
	struct agent_rest_reply reply;

	agent_rest_handle(agent, &q, &reply);
	assert_int_equal(reply.status >= 400, status >= 400);
	if (reply.layout) {
		char text[4096];

		while (agent_layout_read(reply.layout, text, sizeof(text)) > 0)
			;
		agent_layout_done(reply.layout);
	}
	json_decref(reply.json);
}

static void *post(void *arg)
{
	char body[256];

	for (int i = 0; i < POSTS; i++) {
		snprintf(body, sizeof(body),
			 "{\"microservice_id\":\"m%d\",\"name\":\"n%d_total\",\"type\":\"counter\","
			 "\"add\":1}",
			 i % 4, i % 7);
		request("POST", "/metrics", body, 200);
		if (i % 16 == (int)(intptr_t)arg)
			request("GET", "/metrics", "", 200);
		request("GET", i & 1 ? "/health" : "/rdma/mrs", "", 200);
		request("POST", "/metrics", "{", 400);
	}
	return NULL;
}

static void *publishing(void *arg)
{
	(void)arg;
	for (int i = 0; i < 30; i++) {
		struct sl_publisher *p = sl_publisher_open(&SL_OPTS(
			sl_publisher_opts, .socket = path, .service = "thread", .max_cells = 64));
		struct sl_counter c =
			sl_counter_create(p, &SL_OPTS(sl_metric_opts, .name = "x_total"));

		sl_counter_inc(c);
		sl_publisher_close(p);
	}
	return NULL;
}

static void *asking(void *arg)
{
	char error[256];
	int sock, fd;

	(void)arg;
	for (int i = 0; i < 30; i++) {
		sock = cli_agent_connect(path);
		fd = cli_agent_ask(sock, SL_MSG_STATUS, NULL, 0, SL_MSG_STATUS_IS, error,
				   sizeof(error));
		assert_true(fd >= 0);
		close(fd);
		close(sock);
	}
	return NULL;
}

static void clients_come_at_once(void **state)
{
	struct agent_opts o = {.socket = path,
			       .host = "threads",
			       .grace_ns = 20 * MS,
			       .lease_ns = 5 * MS,
			       .rest_idle_ns = 30 * MS};
	pthread_t t[8];
	const uint64_t one = 1;
	char error[256];
	void *result;
	int n = 0;

	(void)state;
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/s", folder);
	base_log_level = BASE_ERROR;
	stop_fd = eventfd(0, EFD_CLOEXEC);
	agent = agent_new(&o, error, sizeof(error));
	if (!agent)
		fail_msg("%s", error);
	pthread_create(&t[n++], NULL, loop, NULL);
	for (intptr_t i = 0; i < 3; i++)
		pthread_create(&t[n++], NULL, post, (void *)i);
	pthread_create(&t[n++], NULL, publishing, NULL);
	pthread_create(&t[n++], NULL, publishing, NULL);
	pthread_create(&t[n++], NULL, asking, NULL);
	for (int i = 1; i < n; i++)
		pthread_join(t[i], NULL);
	usleep(200000); /* idle, grace and lease go by */
	pthread_mutex_lock(&agent->lock);
	assert_int_equal(agent->n.rest_updates, 3 * POSTS);
	if (agent->n.closed - agent->n.rest_expired != 60)
		for (int i = 0; i < AGENT_COUNTERS; i++)
			print_message(
				"%s %lu\n", agent_counter_table[i].name,
				*(uint64_t *)((char *)&agent->n + agent_counter_table[i].offset));
	assert_int_equal(agent->n.closed - agent->n.rest_expired, 60);
	assert_int_equal(agent->proxies.count, 0);
	pthread_mutex_unlock(&agent->lock);
	assert_int_equal(write(stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(t[0], &result);
	assert_null(result);
	agent_free(agent);
	close(stop_fd);
	assert_int_equal(rmdir(folder), 0); /* the socket's file is gone */
}

static bool no_peer_waits(void)
{
	bool none;

	pthread_mutex_lock(&agent->lock);
	none = TAILQ_EMPTY(&agent->peer_graveyard);
	pthread_mutex_unlock(&agent->lock);
	return none;
}

/* Otherwise, REST clients would fill the memory of an agent whose loop has nothing to do. */
static void a_rest_client_is_freed_while_the_loop_is_idle(void **state)
{
	static const char get[] = "GET /health HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	char own[] = "/tmp/sl-test-XXXXXX", rest[64], error[256], answer[1024] = "";
	struct agent_opts o = {.socket = path, .host = "idle", .rest = rest};
	const uint64_t one = 1;
	pthread_t t;
	int sock;

	(void)state;
	assert_non_null(mkdtemp(own));
	snprintf(path, sizeof(path), "%s/s", own);
	snprintf(to.sun_path, sizeof(to.sun_path), "%s/r", own);
	snprintf(rest, sizeof(rest), "unix:%s/r", own);
	base_log_level = BASE_ERROR;
	stop_fd = eventfd(0, EFD_CLOEXEC);
	agent = agent_new(&o, error, sizeof(error));
	if (!agent)
		fail_msg("%s", error);
	assert_int_equal(pthread_create(&t, NULL, loop, NULL), 0);
	sock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sock, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(write(sock, get, sizeof(get) - 1), sizeof(get) - 1);
	assert_true(read(sock, answer, sizeof(answer) - 1) > 0);
	assert_non_null(strstr(answer, " 200 "));
	for (int i = 0; !no_peer_waits(); i++) {
		assert_true(i < 6000);
		usleep(10000);
	}
	close(sock);
	assert_int_equal(write(stop_fd, &one, sizeof(one)), sizeof(one));
	pthread_join(t, NULL);
	agent_free(agent);
	close(stop_fd);
	assert_int_equal(rmdir(own), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_rest_client_is_freed_while_the_loop_is_idle),
		cmocka_unit_test(clients_come_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
