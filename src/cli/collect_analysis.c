// SPDX-License-Identifier: Apache-2.0
/*
 * collect_analysis.c - the analysis of 'sidelight collect': anomalies and alerts, kept traces, and
 * the state of services.
 */
#include <errno.h>
#include <string.h>

#include "analyse/detector.h"
#include "cli/collect.h"
#include "collect/services/services.h"

static int check_detectors(const struct base_command *self, const struct cli_collect_settings *s)
{
	const struct collect_analysis_opts *a = &s->l.analysis;
	char error[256];

	if ((a->detector && !analyse_detector_named(a->detector, error, sizeof(error))) ||
	    (a->shadow && !analyse_detector_named(a->shadow, error, sizeof(error))))
		return base_usage(self, "%s", error);
	if (!s->analyse && (a->detector || a->shadow || a->model || a->record))
		return base_usage(self,
				  "--detector, --shadow, --model and --record require --analyse");
	if (a->every_ns < 1000000 || a->step_ns < a->every_ns)
		return base_usage(self,
				  "--analyse-every must be at least 1ms, and --analyse-step at "
				  "least as long");
	if (a->model_every_ns && a->model_every_ns < 1000000000)
		return base_usage(self, "--model-every must be 0 (only on exit) or at least 1s");
	return BASE_EXIT_OK;
}

static int check_analysis(const struct base_command *self, struct cli_collect_settings *s)
{
	if (!s->analyse && (s->l.alert || s->l.webhook))
		return base_usage(self, "--alert and --webhook require --analyse");
	if (s->l.verdict_ttl_ns && s->l.verdict_ttl_ns < 3000000000)
		return base_usage(self, "--verdict-ttl must be 0 (write no verdicts) or at least "
					"3s");
	if (s->t.otlp_sent && !s->t.otlp)
		return base_usage(self, "--otlp-sent needs --otlp");
	if (s->t.otlp && !(s->t.policy.budget > 0))
		return base_usage(self, "--otlp requires a --trace-budget");
	if ((s->l.alert_config && !s->l.alert) || (s->l.webhook_config && !s->l.webhook) ||
	    (s->t.otlp_config && !s->t.otlp))
		return base_usage(self, "--alert-config, --webhook-config and --otlp-config each "
					"require the option of the same name without -config");
	s->l.analysis.workers = s->c.workers;
	return check_detectors(self, s);
}

static int make_analysis(struct cli_collect_run *r)
{
	struct cli_collect_settings *s = r->set;
	char error[256];

	s->l.kafka = s->t.kafka = r->kafka;
	if (!s->analyse)
		return BASE_EXIT_OK;
	r->live = collect_live_new(&s->l, error, sizeof(error));
	return r->live ? BASE_EXIT_OK : CLI_FAIL("collect", "%s", error);
}

static int attach_analysis(struct cli_collect_run *r)
{
	const struct cli_collect_settings *s = r->set;
	int err = r->live ? collect_live_attach(r->live, r->c) : 0;
	char error[256];

	if (err)
		return CLI_FAIL("collect", "analysis: %s", strerror(-err));
	if (r->live) {
		collect_live_receivers(r->live, &r->receivers);
		collect_live_listen(r->live, r->on_anomaly, r->on_anomaly_arg);
	}
	if (s->serves && s->t.policy.budget > 0) {
		r->tracer = collect_tracer_new(r->c, &s->t, error, sizeof(error));
		if (!r->tracer)
			return CLI_FAIL("collect", "traces: %s", error);
	}
	if (s->serves) {
		r->services = collect_services_new(r->c);
		if (!r->services)
			return CLI_FAIL("collect", "services: %s", strerror(errno));
	}
	return BASE_EXIT_OK;
}

static int add_routes(struct cli_collect_run *r, struct http *http)
{
	int err = api_analysis(http, r->c);

	err = err ?: api_services(http, r->services, r->tracer);
	return err ?: (r->tracer ? api_traces(http, r->tracer) : 0);
}

static void add_paths(const struct cli_collect_settings *s, struct base_confine_opts *c,
		      struct http_files *files)
{
	cli_collect_path(c, s->l.analysis.model);
	cli_collect_path(c, s->l.analysis.record);
	cli_collect_path(c, s->t.otlp_sent);
	http_client_files(files, s->l.alert_config);
	http_client_files(files, s->l.webhook_config);
	http_client_files(files, s->t.otlp_config);
}

static int start_analysis(struct cli_collect_run *r)
{
	return r->live ? collect_live_start(r->live) : 0;
}

static int start_views(struct cli_collect_run *r)
{
	int err = r->services ? collect_services_start(r->services) : 0;

	return err ?: (r->tracer ? collect_tracer_start(r->tracer) : 0);
}

static void stop_analysis(struct cli_collect_run *r)
{
	collect_services_free(r->services);
	collect_live_stop(r->live);
	if (r->tracer)
		collect_tracer_stop(r->tracer);
}

static void free_analysis(struct cli_collect_run *r)
{
	collect_tracer_free(r->tracer);
	r->unsaved |= collect_live_free(r->live) != 0;
}

const struct cli_collect_part cli_collect_part_analysis = {
	.check = check_analysis,
	.before = make_analysis,
	.attach = attach_analysis,
	.routes = add_routes,
	.paths = add_paths,
	.start = start_analysis,
	.follow = start_views,
	.stop = stop_analysis,
	.free = free_analysis,
};
