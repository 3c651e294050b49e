// SPDX-License-Identifier: Apache-2.0
/*
 * test_odd.c - a replica unlike its siblings is found without anything learned, and equal replicas
 * keep the budget of false alarms (docs/analytics.md, The odd one out).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/test.h"
#include "analyse/fleet.h"
#include "noise.h"

#define COLUMNS 4u
#define PODS	6u
#define SECOND	1000000000ull
#define MINUTE	(60 * SECOND)
#define HOUR	(60 * MINUTE)
#define CALM	30u /* rows without an alarm that end it */

enum { CPU, P90, P99, REQUESTS };
static const struct analyse_column column[COLUMNS] = {
	{"cpu_seconds_total", true},
	{"http_duration_seconds_p90", false},
	{"http_duration_seconds_p99", false},
	{"http_requests_total", true},
};

struct replica {
	struct analyse_pipeline *p;
	double noise;  /* log standard deviation of latencies */
	double smooth; /* correlation of noise with that of the previous row */
	double slow;   /* factor of latencies */
	double busy;   /* factor of the CPU time of a request */
	double load;   /* requests per second */
	double cold;   /* factor of latencies at its start, which vanishes within a minute */
	double z[3], total[2];
	uint64_t born, life; /* the pod is replaced after this time; 0 means never */
	uint32_t calm, alarms, anomalous;
};

struct service {
	struct analyse_fleet *fleet;
	uint64_t seed, t, every;
	uint32_t pods;
	struct replica r[PODS];
	struct analyse_verdict v[PODS];
};

static void start_pod(struct service *s, struct replica *r)
{
	r->p = analyse_pipeline_create(&(struct analyse_pipeline_opts){
		.columns = 16, .step_ns = s->every, .seed = (uint64_t)(r - s->r)});
	assert_non_null(r->p);
	assert_int_equal(analyse_pipeline_columns(r->p, column, COLUMNS), 0);
	assert_int_equal(analyse_fleet_join(s->fleet, r->p, "shop"), 0);
	assert_int_equal(analyse_fleet_replica(s->fleet, r->p, "shop", false), 0);
	analyse_pipeline_learning(r->p, ANALYSE_LEARN_WARM);
	r->born = s->t;
}

static void end_pod(struct service *s, struct replica *r)
{
	analyse_fleet_leave(s->fleet, r->p);
	analyse_pipeline_free(r->p);
}

static struct service make(uint64_t every, uint64_t seed, uint32_t pods)
{
	struct service s = {.seed = seed, .t = 1000 * MINUTE, .every = every, .pods = pods};

	s.fleet = analyse_fleet_create(fmin((double)every / 3.6e12, 0.5), 1);
	assert_non_null(s.fleet);
	for (uint32_t i = 0; i < pods; i++)
		s.r[i] = (struct replica){
			.noise = 0.3, .slow = 1, .busy = 1, .load = 100, .cold = 1, .calm = CALM};
	return s;
}

static void start(struct service *s)
{
	for (uint32_t i = 0; i < s->pods; i++)
		start_pod(s, &s->r[i]);
}

static void end(struct service *s)
{
	for (uint32_t i = 0; i < s->pods; i++)
		end_pod(s, &s->r[i]);
	analyse_fleet_free(s->fleet);
}

static void next_row(struct service *s, struct replica *r, double *v)
{
	double seconds = (double)s->every * 1e-9, age = (double)(s->t - r->born) * 1e-9;
	double slow = r->slow * (1 + (r->cold - 1) * exp(-age / 15));
	double load = r->load * (1 + 0.1 * noise_normal(&s->seed));

	for (uint32_t k = 0; k < 3; k++)
		r->z[k] = r->smooth * r->z[k] +
			  sqrt(1 - r->smooth * r->smooth) * noise_normal(&s->seed);
	r->total[0] += (0.02 + 0.001 * load * r->busy * exp(0.1 * r->z[0])) * seconds;
	r->total[1] += fmax(load, 0) * seconds;
	v[CPU] = r->total[0];
	v[P90] = 0.001 * slow * exp(r->noise * r->z[1]);
	v[P99] = 0.003 * slow * exp(r->noise * r->z[2]);
	v[REQUESTS] = r->total[1];
}

static void run(struct service *s, uint64_t time)
{
	for (uint64_t to = s->t + time; s->t < to;) {
		struct analyse_pipeline *p[PODS];
		double v[COLUMNS];

		s->t += s->every;
		for (uint32_t i = 0; i < s->pods; i++) {
			struct replica *r = &s->r[i];

			if (r->life && s->t - r->born >= r->life) {
				end_pod(s, r);
				start_pod(s, r);
			}
			p[i] = r->p;
			next_row(s, r, v);
			assert_int_equal(analyse_pipeline_score(r->p, s->t, v, &s->v[i]), 0);
		}
		assert_int_equal(analyse_fleet_judge(s->fleet, p, s->v, s->pods), 0);
		for (uint32_t i = 0; i < s->pods; i++) {
			bool is = s->v[i].odd.score > 1;

			s->r[i].anomalous += is;
			s->r[i].alarms += is && s->r[i].calm >= CALM;
			s->r[i].calm = is ? 0 : s->r[i].calm + 1;
		}
	}
}

static uint32_t sum_alarms(const struct service *s)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->pods; i++)
		n += s->r[i].alarms;
	return n;
}

/* ---- faults ---- */

static void check_slow(const struct service *s, uint32_t metric, double worse)
{
	const struct analyse_verdict *v = &s->v[0];

	assert_true(v->anomalous && v->score > 1);
	assert_int_equal(v->odd.siblings, s->pods - 1);
	assert_int_equal(v->odd.column, v->blame[0].column);
	assert_true(v->odd.column == metric || (metric == P99 && v->odd.column == P90));
	assert_true(v->odd.value / v->odd.median > worse / 1.5);
	assert_true(v->odd.value / v->odd.median < worse * 1.5);
	for (uint32_t i = 1; i < s->pods; i++)
		assert_int_equal(s->r[i].anomalous, 0);
}

static void a_slow_replica_is_found_in_its_first_minute(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		for (uint32_t pods = 4; pods <= PODS; pods++) {
			struct service s = make(SECOND, seed, pods);

			s.r[0].slow = 13;
			start(&s);
			run(&s, MINUTE);
			check_slow(&s, P99, 13);
			end(&s);
		}
	}
}

static void a_slow_replica_is_found_in_minutes_at_minute_rows(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 10; seed++) {
		struct service s = make(MINUTE, seed, PODS);

		s.r[0].slow = 13;
		start(&s);
		run(&s, 5 * MINUTE);
		check_slow(&s, P99, 13);
		end(&s);
	}
}

static void more_cpu_for_the_same_requests_is_found(void **state)
{
	struct service s = make(SECOND, 3, PODS);

	(void)state;
	s.r[0].busy = 4;
	start(&s);
	run(&s, 2 * MINUTE);
	check_slow(&s, CPU, 3.5);
	end(&s);
}

static void it_is_over_when_the_replica_is_as_its_siblings(void **state)
{
	struct service s = make(SECOND, 4, PODS);

	(void)state;
	s.r[0].slow = 13;
	start(&s);
	run(&s, 5 * MINUTE);
	assert_true(s.v[0].odd.score > 1);
	s.r[0].slow = 1;
	run(&s, 2 * MINUTE);
	assert_true(s.v[0].odd.score == 0);
	assert_int_equal(s.r[0].alarms, 1);
	end(&s);
}

/* The last levels of a series that has ended no longer count for the replica. */
static void a_fault_is_found_after_other_series_ended(void **state)
{
	struct service s = make(SECOND, 7, PODS);
	struct analyse_column fewer[COLUMNS];

	(void)state;
	s.r[0].slow = 13;
	start(&s);
	run(&s, MINUTE);
	check_slow(&s, P99, 13);
	memcpy(fewer, column, sizeof(fewer));
	fewer[P90].name = "threads";
	fewer[P99].name = "connections";
	assert_int_equal(analyse_pipeline_columns(s.r[0].p, fewer, COLUMNS), 0);
	s.r[0].slow = 1;
	s.r[0].busy = 4;
	run(&s, 2 * MINUTE);
	assert_true(s.v[0].odd.score > 1);
	assert_int_equal(s.v[0].odd.column, CPU);
	end(&s);
}

/* Each version gives the latencies another label. */
static void replicas_of_the_tenth_version_are_compared(void **state)
{
	struct service s = make(SECOND, 8, PODS);
	struct analyse_column labelled[COLUMNS];
	char p90[64], p99[64];

	(void)state;
	start(&s);
	memcpy(labelled, column, sizeof(labelled));
	labelled[P90].name = p90;
	labelled[P99].name = p99;
	for (int version = 1; version <= 10; version++) {
		snprintf(p90, sizeof(p90), "%s{version=\"%d\"}", column[P90].name, version);
		snprintf(p99, sizeof(p99), "%s{version=\"%d\"}", column[P99].name, version);
		for (uint32_t i = 0; i < PODS; i++)
			assert_int_equal(analyse_pipeline_columns(s.r[i].p, labelled, COLUMNS), 0);
		/* What was slow once is not slow when its place belongs to another version. */
		s.r[1].slow = version == 1 ? 13 : 1;
		run(&s, version == 1 ? 2 * MINUTE : 5 * SECOND);
		if (version == 1 || version > 7)
			assert_int_equal(s.v[1].odd.score > 1, version == 1);
	}
	s.r[0].slow = 13;
	run(&s, 2 * MINUTE);
	assert_true(s.v[0].odd.score > 1);
	assert_true(s.v[0].odd.column == P90 || s.v[0].odd.column == P99);
	end(&s);
}

#define WIDE 9u /* latencies per version: two versions have more than are compared */

static struct analyse_pipeline *start_wide(struct service *s, int version)
{
	struct analyse_pipeline *p = analyse_pipeline_create(
		&(struct analyse_pipeline_opts){.columns = 16, .step_ns = s->every});
	struct analyse_column wide[WIDE];
	char name[WIDE][64];

	assert_non_null(p);
	for (uint32_t k = 0; k < WIDE; k++) {
		snprintf(name[k], sizeof(name[k]),
			 "http_duration_seconds_p99{route=\"%u\",version=\"%d\"}", k, version);
		wide[k] = (struct analyse_column){name[k], false};
	}
	assert_int_equal(analyse_pipeline_columns(p, wide, WIDE), 0);
	assert_int_equal(analyse_fleet_join(s->fleet, p, "shop"), 0);
	assert_int_equal(analyse_fleet_replica(s->fleet, p, "shop", false), 0);
	analyse_pipeline_learning(p, ANALYSE_LEARN_WARM);
	return p;
}

/* The last latency of the first pod is slow. */
static void run_wide(struct service *s, struct analyse_pipeline **p, uint32_t pods, uint64_t time)
{
	for (uint64_t to = s->t + time; s->t < to;) {
		s->t += s->every;
		for (uint32_t i = 0; i < pods; i++) {
			double v[WIDE];

			for (uint32_t k = 0; k < WIDE; k++)
				v[k] = 0.003 * exp(0.3 * noise_normal(&s->seed));
			v[WIDE - 1] *= i ? 1 : 13;
			assert_int_equal(analyse_pipeline_score(p[i], s->t, v, &s->v[i]), 0);
		}
		assert_int_equal(analyse_fleet_judge(s->fleet, p, s->v, pods), 0);
	}
}

/* While the old pods are there, the table has no room for all latencies of the new ones. */
static void pods_that_began_beside_others_are_compared(void **state)
{
	struct service s = make(SECOND, 9, 0);
	struct analyse_pipeline *old, *new[4];

	(void)state;
	old = start_wide(&s, 1);
	run_wide(&s, &old, 1, 5 * SECOND);
	for (int i = 0; i < 4; i++)
		new[i] = start_wide(&s, 2);
	run_wide(&s, new, 4, 5 * SECOND);
	analyse_fleet_leave(s.fleet, old);
	analyse_pipeline_free(old);
	run_wide(&s, new, 4, 2 * MINUTE);
	assert_true(s.v[0].odd.score > 1);
	assert_int_equal(s.v[0].odd.column, WIDE - 1);
	for (int i = 0; i < 4; i++) {
		analyse_fleet_leave(s.fleet, new[i]);
		analyse_pipeline_free(new[i]);
	}
	analyse_fleet_free(s.fleet);
}

static void what_is_accepted_is_normal(void **state)
{
	struct service s = make(SECOND, 5, PODS);

	(void)state;
	s.r[0].slow = 5;
	start(&s);
	run(&s, 2 * MINUTE);
	assert_true(s.v[0].odd.score > 1);
	analyse_pipeline_accept(s.r[0].p);
	s.r[0].anomalous = 0;
	run(&s, 30 * MINUTE);
	assert_int_equal(s.r[0].anomalous, 0);
	s.r[0].slow = 40;
	run(&s, MINUTE);
	assert_true(s.v[0].odd.score > 1);
	end(&s);
}

static void three_pods_are_not_compared(void **state)
{
	struct service s = make(SECOND, 6, 3);

	(void)state;
	s.r[0].slow = 13;
	start(&s);
	run(&s, 5 * MINUTE);
	assert_int_equal(s.r[0].anomalous, 0);
	end(&s);
}

/* ---- no faults ---- */

static void hold_budget(struct service *s, const char *what, uint32_t hours)
{
	double rate;

	start(s);
	run(s, hours * HOUR);
	rate = (double)sum_alarms(s) / (s->pods * hours);
	print_message("%s: %.3f alarms per pod and hour\n", what, rate);
	end(s);
	if (rate > 0.1) /* of a budget of 1 */
		fail_msg("%s: %.3f alarms per pod and hour", what, rate);
}

static void equal_replicas_are_quiet(void **state)
{
	(void)state;
	for (uint64_t every = SECOND; every <= MINUTE; every *= 60) {
		uint32_t hours = every == SECOND ? 4 : 60;

		for (uint32_t pods = 4; pods <= PODS; pods += 2) {
			struct service s = make(every, 11 + pods, pods);

			hold_budget(&s, "independent", hours);
			s = make(every, 21 + pods, pods);
			for (uint32_t i = 0; i < pods; i++)
				s.r[i].smooth = 0.95;
			hold_budget(&s, "smooth", hours);
			s = make(every, 31 + pods, pods);
			s.r[0].noise = 1;
			s.r[1].noise = 0.6;
			hold_budget(&s, "different noise", hours);
			s = make(every, 41 + pods, pods);
			s.r[0].noise = 1;
			for (uint32_t i = 0; i < pods; i++)
				s.r[i].smooth = 0.95;
			hold_budget(&s, "different smooth noise", hours);
			s = make(every, 51 + pods, pods);
			s.r[0].load = 1000;
			s.r[0].slow = 3;
			s.r[1].load = 20;
			s.r[2].load = 1;
			hold_budget(&s, "uneven load", hours);
			s = make(every, 61 + pods, pods);
			for (uint32_t i = 0; i < pods; i++) {
				s.r[i].cold = 8;
				s.r[i].life = (5 + i) * MINUTE;
			}
			hold_budget(&s, "restarts with cold caches", hours);
		}
	}
}

/* ---- ports of hosts ---- */

#define HOSTS 8u

enum { SPEED, LOST, PAUSED, TOOK, PORT_COLUMNS };
static const struct analyse_column port_column[PORT_COLUMNS] = {
	{"node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"}", false},
	{"sidelight_rdma_hw_counter_total{device=\"mlx5_0\",port=\"1\",counter=\"out_of_sequence\"}",
	 true},
	{"sidelight_nic_counter_total{device=\"eth2\",counter=\"rx_prio3_pause\"}", true},
	{"backup_duration_seconds_p99", false}, /* of a host's textfile: not compared */
};

struct cluster {
	struct analyse_fleet *fleet;
	struct analyse_pipeline *p[HOSTS];
	struct analyse_verdict v[HOSTS];
	uint64_t t, seed;
	uint32_t hosts, found[HOSTS];
	double speed[HOSTS], lost[HOSTS], paused[HOSTS],
		took[HOSTS]; /* the last three: per second */
	double bursts, total[HOSTS][2];
};

static struct cluster start_cluster(uint32_t hosts)
{
	struct cluster c = {.t = 1000 * MINUTE, .seed = 1, .hosts = hosts};

	c.fleet = analyse_fleet_create(1 / 3600.0, 1);
	assert_non_null(c.fleet);
	for (uint32_t i = 0; i < hosts; i++) {
		c.p[i] = analyse_pipeline_create(
			&(struct analyse_pipeline_opts){.columns = 16, .step_ns = SECOND});
		assert_non_null(c.p[i]);
		assert_int_equal(analyse_pipeline_columns(c.p[i], port_column, PORT_COLUMNS), 0);
		assert_int_equal(analyse_fleet_join(c.fleet, c.p[i], "host"), 0);
		assert_int_equal(analyse_fleet_replica(c.fleet, c.p[i], "host", true), 0);
		analyse_pipeline_learning(c.p[i], ANALYSE_LEARN_WARM);
		c.speed[i] = 50e9;
		c.took[i] = 1;
	}
	return c;
}

static void end_cluster(struct cluster *c)
{
	for (uint32_t i = 0; i < c->hosts; i++) {
		analyse_fleet_leave(c->fleet, c->p[i]);
		analyse_pipeline_free(c->p[i]);
	}
	analyse_fleet_free(c->fleet);
}

static void run_cluster(struct cluster *c, uint64_t time)
{
	memset(c->found, 0, sizeof(c->found));
	for (uint64_t to = c->t + time; c->t < to;) {
		c->t += SECOND;
		for (uint32_t i = 0; i < c->hosts; i++) {
			double burst = noise_uniform(&c->seed) < c->bursts ? 1000 : 0;
			double v[PORT_COLUMNS] = {
				[SPEED] = c->speed[i],
				[LOST] = c->total[i][0] += c->lost[i] + burst,
				[PAUSED] = c->total[i][1] += c->paused[i] + 100 * burst,
				[TOOK] = c->took[i],
			};

			assert_int_equal(analyse_pipeline_score(c->p[i], c->t, v, &c->v[i]), 0);
		}
		assert_int_equal(analyse_fleet_judge(c->fleet, c->p, c->v, c->hosts), 0);
		for (uint32_t i = 0; i < c->hosts; i++)
			c->found[i] += c->v[i].odd.score > 1;
	}
}

/* Checks that only the first host is found, and its value, within a tenth. */
static void check_port(const struct cluster *c, uint32_t which, double value, double median)
{
	const struct analyse_verdict *v = &c->v[0];

	assert_true(v->odd.score > 1 && v->anomalous && v->score > 1);
	assert_int_equal(v->odd.siblings, c->hosts - 1);
	assert_int_equal(v->odd.column, which);
	assert_float_equal(v->odd.value, value, value / 10);
	assert_float_equal(v->odd.median, median, median * 1e-5);
	for (uint32_t i = 1; i < c->hosts; i++)
		assert_int_equal(c->found[i], 0);
}

static void a_port_that_loses_packets_or_is_paused_is_found(void **state)
{
	(void)state;
	for (uint32_t hosts = 4; hosts <= HOSTS; hosts += 4)
		for (uint32_t k = LOST; k <= PAUSED; k++) {
			struct cluster c = start_cluster(hosts);
			double *rate = k == LOST ? c.lost : c.paused;

			run_cluster(&c, 5 * MINUTE);
			assert_int_equal(c.found[0], 0);
			rate[0] = k == LOST ? 200 : 20000;
			run_cluster(&c, 2 * MINUTE);
			check_port(&c, k, rate[0], 0);
			rate[0] = 0;
			run_cluster(&c, 2 * MINUTE);
			assert_true(c.v[0].odd.score == 0);
			end_cluster(&c);
		}
}

static void a_slow_link_is_found_at_once(void **state)
{
	struct cluster c = start_cluster(HOSTS);

	(void)state;
	c.speed[0] = 25e9; /* from its start */
	run_cluster(&c, MINUTE);
	check_port(&c, SPEED, 25e9, 50e9);
	c.speed[0] = 50e9;
	run_cluster(&c, 5 * SECOND);
	assert_true(c.v[0].odd.score == 0);
	c.speed[0] = 40e9;
	run_cluster(&c, 5 * SECOND);
	check_port(&c, SPEED, 40e9, 50e9);
	end_cluster(&c);
}

/* Hosts of one kind, or of one job, differ from the others together. */
static void a_group_of_ports_is_not_odd(void **state)
{
	(void)state;
	for (uint32_t group = 2; group <= HOSTS; group++) {
		struct cluster c = start_cluster(HOSTS);

		for (uint32_t i = 0; i < group; i++) {
			c.speed[i] = 12.5e9;
			c.lost[i] = 50;
			c.paused[i] = 20000;
		}
		run_cluster(&c, 5 * MINUTE);
		for (uint32_t i = 0; i < HOSTS; i++)
			assert_int_equal(c.found[i], 0);
		end_cluster(&c);
	}
}

static void hosts_are_compared_by_their_ports_only(void **state)
{
	struct cluster c = start_cluster(HOSTS);

	(void)state;
	c.took[0] = 100;
	run_cluster(&c, 5 * MINUTE);
	assert_int_equal(c.found[0], 0);
	end_cluster(&c);
}

static void equal_ports_are_quiet(void **state)
{
	static const double bursts[] = {0.001, 0.01, 0.1, 0.5};

	(void)state;
	for (size_t k = 0; k < sizeof(bursts) / sizeof(*bursts); k++) {
		struct cluster c = start_cluster(HOSTS);

		c.bursts = bursts[k];
		run_cluster(&c, 4 * HOUR);
		for (uint32_t i = 0; i < HOSTS; i++)
			assert_int_equal(c.found[i], 0);
		end_cluster(&c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_slow_replica_is_found_in_its_first_minute),
		cmocka_unit_test(a_slow_replica_is_found_in_minutes_at_minute_rows),
		cmocka_unit_test(more_cpu_for_the_same_requests_is_found),
		cmocka_unit_test(it_is_over_when_the_replica_is_as_its_siblings),
		cmocka_unit_test(a_fault_is_found_after_other_series_ended),
		cmocka_unit_test(replicas_of_the_tenth_version_are_compared),
		cmocka_unit_test(pods_that_began_beside_others_are_compared),
		cmocka_unit_test(what_is_accepted_is_normal),
		cmocka_unit_test(three_pods_are_not_compared),
		cmocka_unit_test(equal_replicas_are_quiet),
		cmocka_unit_test(a_port_that_loses_packets_or_is_paused_is_found),
		cmocka_unit_test(a_slow_link_is_found_at_once),
		cmocka_unit_test(a_group_of_ports_is_not_odd),
		cmocka_unit_test(hosts_are_compared_by_their_ports_only),
		cmocka_unit_test(equal_ports_are_quiet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
