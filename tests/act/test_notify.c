// SPDX-License-Identifier: Apache-2.0
/* test_notify.c - a verdict reaches its host, even if no connection could be opened at first. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <sidelight/attach.h>

#include "support/test.h"
#include "base/base.h"
#include "collect/judge/notify.h"
#include "collect/read/collector_internal.h"
#include "collect/read/host.h"
#include "collect/read/index.h"
#include "collect/read/region.h"

#define SECOND	 1000000000ull
#define INSTANCE 7u

static unsigned int opened, refused, written;

/* ---- in place of the fabric and the index ---- */

struct fabric *__wrap_fabric_open(const char *target, const struct fabric_opts *opts);
struct fabric *__wrap_fabric_open(const char *target, const struct fabric_opts *opts)
{
	static char fabric;

	assert_string_equal(target, "one");
	assert_true(opts->notify);
	opened++;
	errno = ENOMEM;
	return opened <= refused ? NULL : (struct fabric *)&fabric;
}

void __wrap_fabric_close(struct fabric *f);
void __wrap_fabric_close(struct fabric *f)
{
	(void)f;
}

int __wrap_fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *v);
int __wrap_fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *v)
{
	(void)f, (void)entry;
	assert_int_equal(v->instance, INSTANCE);
	assert_true(v->flags & SL_VERDICT_ANOMALOUS);
	written++;
	return 0;
}

static struct collect_region region;
static struct collect_region *regions[] = {&region};
static struct collect_index pods = {.region = regions, .regions = 1};

struct collect_index *__wrap_collect_index_get(struct collect_collector *c);
struct collect_index *__wrap_collect_index_get(struct collect_collector *c)
{
	(void)c;
	return &pods;
}

void __wrap_collect_index_put(struct collect_index *x);
void __wrap_collect_index_put(struct collect_index *x)
{
	(void)x;
}

ssize_t __wrap_collect_index_find(const struct collect_index *x, uint64_t instance);
ssize_t __wrap_collect_index_find(const struct collect_index *x, uint64_t instance)
{
	(void)x;
	return instance == INSTANCE ? 0 : -1;
}

/* ---- the test ---- */

static void a_host_that_was_refused_is_tried_again(void **state)
{
	struct collect_host host = {.target = "one", .wanted = true};
	struct collect_collector c = {.host = &host, .hosts = 1};
	struct act_verdicts *verdicts = act_verdicts_new(&(struct act_verdicts_opts){0});
	struct act_incidents *incidents = act_incidents_new(&(struct act_incidents_opts){0});
	struct collect_notify *t = collect_notify_new(&c, 60 * SECOND);
	const struct act_pod_name name = {.service = "cart"};
	struct act_verdict_pod *pod = act_verdicts_add(verdicts, INSTANCE, &name);
	const uint64_t now_ns = base_now_ns();
	struct collect_notify_stats stats;

	(void)state;
	assert_true(t && pod && incidents);
	region.host = &host;
	region.state = SL_STATE_LIVE;
	refused = 1;
	act_verdict_push(pod, &(struct act_finding){.ns = (int64_t)base_realtime_ns(),
						    .score = 5,
						    .threshold = 1,
						    .anomalous = true});
	collect_notify_pods(t, verdicts, incidents, now_ns);
	assert_int_equal(opened, 1);
	/* Not at once, because opening a connection takes time. */
	collect_notify_pods(t, verdicts, incidents, now_ns + SECOND / 2);
	assert_int_equal(opened, 1);
	collect_notify_pods(t, verdicts, incidents, now_ns + SECOND);
	assert_int_equal(opened, 2);
	assert_int_equal(written, 1);
	collect_notify_stats(t, &stats);
	assert_int_equal(stats.notified, 1);
	assert_int_equal(stats.untold, 2);
	act_verdict_gone(pod);
	collect_notify_free(t);
	act_incidents_free(incidents);
	act_verdicts_free(verdicts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_host_that_was_refused_is_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
