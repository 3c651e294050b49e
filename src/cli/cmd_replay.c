// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_replay.c - sidelight replay: runs the collector's pipelines over a recording. The output
 * depends only on the recording and the options.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/fleet.h"
#include "analyse/selftime.h"
#include "cli/commands.h"
#include "cli/replay/replay.h"
#include "collect/judge/models.h"

#define RANGES_MAX 64u
/* number of rows before the scored range that are used to establish recent levels */
#define WARM_STEPS 40

struct replay_range {
	int64_t from, to; /* Unix time in ns */
};

#define SECOND	  ((int64_t)1000000000)
#define RANGE_MAX 9000000000u /* seconds; 64 bits of ns end in the year 2262 */

static struct {
	struct base_strings train, score;
	struct cli_replay_live_opts how; /* .verdicts is opened when needed */
	const char *verdicts, *save_model;
	double eta;
	uint64_t seed;
	bool frozen, trace_evidence;
	uint32_t l, k;
	/* Derived from the members above. */
	struct replay_range trained[RANGES_MAX], scored;
} settings = {.eta = 0.05, .seed = 1, .scored = {0, INT64_MAX}};

static const struct base_option table[] = {
	BASE_LIST("train", 0, &settings.train, "FROM:TO",
		  "learn from this fault-free time range, in Unix seconds; repeatable"),
	BASE_LIST("score", 0, &settings.score, "FROM:TO",
		  "score this time range, in Unix seconds (default: all)"),
	BASE_STRING("verdicts", 0, &settings.verdicts, "FILE",
		    "write one verdict per row as CSV; - means standard output"),
	BASE_FLAG("trace-evidence", 0, &settings.trace_evidence,
		  "also judge pods by the times of the recorded spans"),
	BASE_STRING("model", 0, &settings.how.model, "FILE",
		    "load models from this file, written by sidelight collect --model or by "
		    "--save-model"),
	BASE_STRING("save-model", 0, &settings.save_model, "FILE",
		    "save the learned models to this file, one per pod"),
	BASE_STRING("detector", 0, &settings.how.detector, "NAME",
		    "combined, fd, threshold or autoencoder"),
	BASE_STRING("shadow", 0, &settings.how.shadow, "NAME",
		    "also run this detector, without acting on its verdicts"),
	BASE_F64("false-alarms", 0, &settings.how.false_alarms, 1e-6, 3600, "N",
		 "acceptable number of false alarms per pod and hour"),
	BASE_UINT("fd-rows", 0, &settings.l, 1, 256, "L",
		  "rows of the sketch of detector fd (default: the square root of the number of "
		  "columns)"),
	BASE_UINT("fd-basis", 0, &settings.k, 1, 256, "K",
		  "normal directions of detector fd (default: the square root of the number of "
		  "columns)"),
	BASE_FLAG("frozen", 0, &settings.frozen, "do not learn while scoring"),
	BASE_UINT("seed", 0, &settings.seed, 0, 0, "N", "seed of the random numbers"),
	{0},
};

struct replay {
	struct cli_replay_data data;
	struct collect_models *models; /* models from --model, which are also saved */
	struct analyse_fleet *fleet;
	struct cli_replay_traces *traces;
	struct analyse_selftime *selftime; /* self times of spans, with --trace-evidence */
	float *evidence; /* evidence per pod, from spans that end at the current time */
	struct replay_pod {
		struct analyse_pipeline *pipeline; /* NULL means the file has no values */
		uint64_t at;			   /* index of the next row */
		int64_t drift_at; /* time of the first drift in the scored range; 0 means never */
	} * pods;
	/* The current time step. */
	struct analyse_pipeline **moving;
	struct analyse_verdict *verdicts;
	struct {
		uint32_t pod;
		int64_t t;
	} * row;
	uint64_t step; /* number of the previous time step */
	/* Counts of scored rows. */
	uint64_t rows, flagged, shadow_flagged, both;
};

/* Parses "FROM:TO" in Unix seconds. Both ends are inclusive, and either may be empty. */
static int parse_range(const char *s, struct replay_range *r)
{
	const char *colon = strchr(s, ':');
	uint64_t first = 0, last = 0;
	char from[32];

	if (!colon || colon - s >= (ptrdiff_t)sizeof(from))
		return -EINVAL;
	snprintf(from, sizeof(from), "%.*s", (int)(colon - s), s);
	if ((*from && base_parse_u64(from, 0, RANGE_MAX, &first)) ||
	    (colon[1] && base_parse_u64(colon + 1, 0, RANGE_MAX, &last)))
		return -EINVAL;
	r->from = (int64_t)first * SECOND;
	r->to = colon[1] ? (int64_t)last * SECOND + SECOND - 1 : INT64_MAX;
	return r->from <= r->to ? 0 : -EINVAL;
}

/*
 * Removes the last part of a name, to find the workload that pods such as "shop-7d9fb8c6-x2x9z" and
 * "shop-0" are named after ("shop").
 */
static void cut_name(char *name)
{
	char *dash = strrchr(name, '-');

	*(dash ? dash : name) = 0;
}

/* Creates a pipeline for a pod, with the model of --model for the pod or its service. */
static int create_pod(struct replay *r, uint32_t i, struct analyse_pipeline_opts *o,
		      uint32_t *unknown)
{
	const struct cli_replay_pod *pod = &r->data.pods[i];
	struct analyse_model_info info;
	struct analyse_pipeline *p;
	char known[256];
	int err;

	snprintf(known, sizeof(known), "%s", pod->name);
	err = collect_models_info(r->models, known, "", &info);
	for (int cuts = 0; cuts < 2 && err == -ENOENT; cuts++) {
		cut_name(known);
		err = collect_models_info(r->models, known, "", &info);
	}
	o->columns = pod->n_columns;
	if (!err && info.columns > o->columns && info.columns <= ANALYSE_ROW_MAX)
		o->columns = info.columns;
	p = r->pods[i].pipeline = analyse_pipeline_create(o);
	if (!p)
		return cli_replay_say("%s: %s", pod->name,
				      errno == EINVAL ? "the detector rejects its options"
						      : strerror(errno));
	if (!r->fleet)
		r->fleet = analyse_fleet_create(analyse_pipeline_budget(p), settings.seed);
	if (!r->fleet)
		return cli_replay_say("fleet: %s", strerror(errno));
	if (analyse_fleet_join(r->fleet, p, pod->service ?: pod->name))
		return cli_replay_say("%s: %s", pod->name, strerror(ENOMEM));
	if (!err)
		err = collect_models_load(r->models, known, "", p);
	if (err && err != -ENOENT)
		cli_replay_say("%s: ignoring the model in %s, which cannot be used: %s", pod->name,
			       settings.how.model,
			       err == -EPROTONOSUPPORT
				       ? "it has an unsupported version"
				       : "it is damaged, or has another detector, step or set of "
					 "columns");
	*unknown += err != 0;
	r->data.losses.columns_refused += analyse_pipeline_columns(p, pod->columns, pod->n_columns);
	return 0;
}

static int create_pods(struct replay *r)
{
	struct analyse_pipeline_opts o = {
		/*
		 * Steps are at least a second, even if rows are closer together, as in the
		 * collector.
		 */
		.step_ns = (uint64_t)(r->data.step_ns > SECOND ? r->data.step_ns : SECOND),
		.rate_ns = r->data.step_ns < SECOND ? (uint64_t)SECOND : 0,
		.false_alarms = settings.how.false_alarms,
		.eta = settings.eta,
		.seed = settings.seed,
		.detector = analyse_detector_find(settings.how.detector),
		.shadow = settings.how.shadow ? analyse_detector_find(settings.how.shadow) : NULL,
		.detail = {.l = settings.l, .k = settings.k},
	};
	uint32_t n = r->data.n_pods, unknown = 0;

	r->pods = calloc(n, sizeof(*r->pods));
	r->moving = calloc(n, sizeof(*r->moving));
	r->verdicts = calloc(n, sizeof(*r->verdicts));
	r->row = calloc(n, sizeof(*r->row));
	if (!r->pods || !r->moving || !r->verdicts || !r->row)
		return cli_replay_say("pipelines: %s", strerror(ENOMEM));
	for (uint32_t i = 0; i < n; i++)
		if (r->data.pods[i].rows && create_pod(r, i, &o, &unknown))
			return -1;
	if (settings.how.model && unknown)
		cli_replay_say("%u of %u pods have no model in %s", unknown,
			       n - (uint32_t)r->data.losses.files_empty, settings.how.model);
	return 0;
}

/* Builds the call graph from the traces. */
static int read_traces(struct replay *r)
{
	if (!r->fleet)
		return 0;
	if (!r->data.traces)
		cli_replay_say("the recording has no traces: judging each pod separately");
	r->traces = cli_replay_traces_new(&r->data, analyse_fleet_graph(r->fleet));
	if (!r->traces || !settings.trace_evidence)
		return r->traces ? 0 : -1;
	if (!cli_replay_traces_timed(r->traces))
		return cli_replay_say("--trace-evidence: no span in the recording has times");
	r->selftime = analyse_selftime_new();
	r->evidence = calloc(r->data.n_pods, sizeof(*r->evidence));
	return r->selftime && r->evidence ? 0 : cli_replay_say("traces: %s", strerror(ENOMEM));
}

/* Computes the evidence about pods from the spans that ended since the previous time step. */
static int judge_spans(struct replay *r, int64_t t)
{
	int err;

	if (!r->selftime)
		return 0;
	err = cli_replay_traces_until(r->traces, r->selftime, t);
	err = err ?: analyse_selftime_step(r->selftime, r->evidence, r->data.n_pods);
	return err ? cli_replay_say("spans: %s", strerror(-err)) : 0;
}

static int read_models(struct replay *r)
{
	char error[4400];

	r->models = collect_models_new();
	if (!r->models)
		return cli_replay_say("models: %s", strerror(ENOMEM));
	if (!settings.how.model ||
	    !collect_models_read(r->models, settings.how.model, error, sizeof(error)))
		return 0;
	return cli_replay_say("%s", error);
}

/* Saves the models of --model with the updates learned here. */
static int save_models(struct replay *r)
{
	struct analyse_pipeline_stats s;
	int err = 0;

	if (!settings.save_model)
		return 0;
	for (uint32_t i = 0; i < r->data.n_pods && !err; i++) {
		struct analyse_pipeline *p = r->pods[i].pipeline;
		void *bytes = NULL;
		int64_t length;

		if (p)
			analyse_pipeline_stats(p, &s);
		if (!p || !s.learned)
			continue;
		length = analyse_pipeline_save_all(&p, 1, &bytes);
		err = length < 0 ? (int)length
				 : collect_models_put(r->models, r->data.pods[i].name, bytes,
						      (size_t)length);
		free(bytes);
	}
	if (!err)
		err = collect_models_write(r->models, settings.save_model);
	return err ? cli_replay_say("%s: %s", settings.save_model, strerror(-err)) : 0;
}

/* Collects the rows with the earliest time of any pod, up to range->to. Returns their number. */
static uint32_t next_moment(struct replay *r, const struct replay_range *range, int64_t *t)
{
	int64_t first = INT64_MAX;
	uint32_t n = 0;

	for (uint32_t i = 0; i < r->data.n_pods; i++) {
		const struct cli_replay_pod *p = &r->data.pods[i];

		if (r->pods[i].pipeline && r->pods[i].at < p->rows && p->t[r->pods[i].at] < first)
			first = p->t[r->pods[i].at];
	}
	if (first == INT64_MAX || first > range->to)
		return 0;
	*t = first;
	for (uint32_t i = 0; i < r->data.n_pods; i++) {
		const struct cli_replay_pod *p = &r->data.pods[i];

		if (r->pods[i].pipeline && r->pods[i].at < p->rows &&
		    p->t[r->pods[i].at] <= first + r->data.step_ns / 2 &&
		    p->t[r->pods[i].at] <= range->to)
			r->row[n++].pod = i;
	}
	return n;
}

static void print_time(FILE *out, int64_t ns)
{
	fprintf(out, "%" PRId64, ns / SECOND);
	if (ns % SECOND)
		fprintf(out, ".%06" PRId64, ns % SECOND / 1000);
}

static void write_verdict(FILE *out, const struct cli_replay_pod *pod, int64_t t,
			  const struct analyse_verdict *v)
{
	print_time(out, t);
	fprintf(out, ",%s,%.9g,%d", pod->name, (double)v->score, v->anomalous);
	for (uint32_t i = 0; i < 3; i++)
		fprintf(out, ",%s", i < v->blamed ? pod->columns[v->blame[i].column].name : "");
	fprintf(out, ",%.9g,", (double)v->suspicion);
	for (uint32_t i = 0; i < v->blamed; i++)
		fprintf(out, "%s%.3g %s", i ? "|" : "", (double)v->blame[i].share,
			pod->columns[v->blame[i].column].name);
	putc('\n', out);
}

static void count_verdict(struct replay *r, uint32_t k)
{
	const struct analyse_verdict *v = &r->verdicts[k];

	r->rows++;
	r->flagged += v->anomalous;
	r->shadow_flagged += v->shadow_anomalous;
	r->both += v->anomalous && v->shadow_anomalous;
	if (v->drift && !r->pods[r->row[k].pod].drift_at)
		r->pods[r->row[k].pod].drift_at = r->row[k].t;
}

/*
 * Processes the rows of a range. Earlier rows establish recent levels; they are neither written nor
 * learned.
 */
static int run_range(struct replay *r, const struct replay_range *range,
		     enum analyse_learning learning, FILE *out)
{
	int64_t warm = range->from -
		       WARM_STEPS * (r->data.step_ns > SECOND ? r->data.step_ns : SECOND),
		t, t0 = INT64_MAX;
	uint32_t n;

	r->rows = r->flagged = r->shadow_flagged = r->both = 0;
	for (uint32_t i = 0; i < r->data.n_pods; i++) {
		const struct cli_replay_pod *p = &r->data.pods[i];

		r->pods[i].drift_at = 0;
		if (!r->pods[i].pipeline)
			continue;
		for (r->pods[i].at = 0; r->pods[i].at < p->rows && p->t[r->pods[i].at] < warm;)
			r->pods[i].at++;
		analyse_pipeline_rewind(r->pods[i].pipeline);
		if (learning == ANALYSE_LEARN_SCORES)
			analyse_pipeline_recalibrate(r->pods[i].pipeline);
	}
	r->step = 0;
	if (r->traces)
		cli_replay_traces_seek(r->traces, warm - r->data.step_ns);
	while ((n = next_moment(r, range, &t))) {
		bool within = t >= range->from;
		uint32_t moving = 0;
		uint64_t step;

		/*
		 * Rows can be a second early or late: round to the nearest step, and use each step
		 * once.
		 */
		if (t0 == INT64_MAX)
			t0 = t;
		step = 1 + (uint64_t)((t - t0 + r->data.step_ns / 2) / r->data.step_ns);
		if (step <= r->step)
			step = r->step + 1;
		r->step = step;
		if (judge_spans(r, t))
			return -1;
		for (uint32_t k = 0; k < n; k++) {
			uint32_t i = r->row[k].pod;
			const struct cli_replay_pod *p = &r->data.pods[i];
			uint64_t row = r->pods[i].at++;

			analyse_pipeline_learning(r->pods[i].pipeline,
						  within ? learning : ANALYSE_LEARN_NONE);
			if (analyse_pipeline_score(
				    r->pods[i].pipeline, step * (uint64_t)r->data.step_ns,
				    p->values + row * p->n_columns, &r->verdicts[moving]))
				continue; /* the pipeline refused the row and counted it */
			if (r->evidence)
				analyse_pipeline_testify(r->pods[i].pipeline, r->evidence[i]);
			r->moving[moving] = r->pods[i].pipeline;
			r->row[moving].t = p->t[row];
			r->row[moving++].pod = i;
		}
		analyse_fleet_judge(r->fleet, r->moving, r->verdicts, moving);
		for (uint32_t k = 0; k < moving && within; k++) {
			const struct cli_replay_pod *p = &r->data.pods[r->row[k].pod];

			count_verdict(r, k);
			if (out)
				write_verdict(out, p, r->row[k].t, &r->verdicts[k]);
		}
	}
	for (uint32_t i = 0; i < r->data.n_pods; i++)
		if (r->pods[i].pipeline)
			analyse_pipeline_rewind(r->pods[i].pipeline); /* finish the last step */
	return 0;
}

static int train_models(struct replay *r)
{
	uint32_t untrained = 0, pods = r->data.n_pods - (uint32_t)r->data.losses.files_empty;

	for (size_t i = 0; i < settings.train.n; i++)
		if (run_range(r, &settings.trained[i], ANALYSE_LEARN_ALL, NULL))
			return -1;
	for (size_t i = 0; i < settings.train.n; i++)
		if (run_range(r, &settings.trained[i], ANALYSE_LEARN_SCORES, NULL))
			return -1;
	for (uint32_t i = 0; i < r->data.n_pods; i++) {
		struct analyse_pipeline_stats s;

		if (!r->pods[i].pipeline)
			continue;
		analyse_pipeline_stats(r->pods[i].pipeline, &s);
		if (s.learned)
			continue;
		untrained++;
		if (settings.train.n)
			cli_replay_say("%s: the ranges of --train contain no row",
				       r->data.pods[i].name);
	}
	if (settings.train.n && untrained == pods)
		return cli_replay_say("--train: the ranges contain no row of any pod");
	if (!settings.train.n && untrained)
		cli_replay_say("without --train, %u of %u pods have no model: they learn while "
			       "they are scored, and are judged once they have a threshold",
			       untrained, pods);
	return 0;
}

static FILE *open_out(const char *path)
{
	FILE *f = !strcmp(path, "-") ? stdout : fopen(path, "we");

	if (!f)
		cli_replay_say("%s: %s", path, strerror(errno));
	return f;
}

/* Returns -1 if a write failed. */
static int close_out(FILE *f, const char *path)
{
	bool bad = ferror(f) || fflush(f);

	if (f != stdout)
		bad |= fclose(f) != 0;
	return bad ? cli_replay_say("%s: the output is incomplete", path) : 0;
}

static void say_losses(const struct replay *r)
{
	const struct cli_replay_losses *l = &r->data.losses;
	const struct {
		uint64_t n;
		const char *what;
	} losses[] = {
		{l->files_empty, "files without values"},
		{l->rows_malformed, "rows malformed"},
		{l->values_malformed, "values malformed"},
		{l->values_missing, "values missing"},
		{l->rows_backwards, "rows whose time went backwards"},
		{l->columns_refused, "columns refused"},
	};

	for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++)
		if (losses[i].n)
			cli_replay_say("%" PRIu64 " %s", losses[i].n, losses[i].what);
}

static void say_findings(const struct replay *r)
{
	uint32_t drifted = 0, first = 0;

	if (settings.how.shadow)
		cli_replay_say("of %" PRIu64 " rows, %s flagged %" PRIu64 ", its shadow %s "
			       "flagged %" PRIu64 ", and both flagged %" PRIu64,
			       r->rows, settings.how.detector, r->flagged, settings.how.shadow,
			       r->shadow_flagged, r->both);
	for (uint32_t i = 0; i < r->data.n_pods; i++) {
		if (!r->pods[i].drift_at)
			continue;
		if (!drifted++ || r->pods[i].drift_at < r->pods[first].drift_at)
			first = i;
	}
	if (drifted)
		cli_replay_say(
			"drift: %u of %u pods were outside their learned range for a long time, "
			"first %s at %" PRId64 "; train again",
			drifted, r->data.n_pods, r->data.pods[first].name,
			(int64_t)(r->pods[first].drift_at / SECOND));
}

static int replay_rows(struct replay *r, const char *folder)
{
	FILE *out = NULL;
	int err;

	if (read_models(r) || cli_replay_load(&r->data, folder, false) || create_pods(r) ||
	    read_traces(r) || train_models(r))
		return -1;
	/* Only training was requested. */
	if (settings.train.n && !settings.verdicts)
		return save_models(r);
	if (settings.verdicts) {
		out = open_out(settings.verdicts);
		if (!out)
			return -1;
		fputs("unix_s,pod,score,anomalous,blame1,blame2,blame3,suspicion,blame\n", out);
	}
	err = run_range(r, &settings.scored,
			settings.frozen ? ANALYSE_LEARN_NONE : ANALYSE_LEARN_GATED, out);
	if (out && close_out(out, settings.verdicts))
		err = -1;
	if (!err)
		err = save_models(r);
	say_findings(r);
	say_losses(r);
	return err;
}

/* Judges the recording as the collector did. */
static int replay_live(const char *folder)
{
	struct cli_replay_live_opts *o = &settings.how;
	int err;

	o->verdicts = settings.verdicts ? open_out(settings.verdicts) : NULL;
	if (settings.verdicts && !o->verdicts)
		return -1;
	err = cli_replay_live(folder, o);
	if (o->verdicts && close_out(o->verdicts, settings.verdicts))
		err = -1;
	return err;
}

static int check_settings(const struct base_command *self)
{
	char error[256];

	if (settings.train.n > RANGES_MAX)
		return base_usage(self, "--train: at most %u ranges are allowed", RANGES_MAX);
	if (settings.score.n > 1)
		return base_usage(self, "--score: only one range is allowed");
	for (size_t i = 0; i < settings.train.n; i++)
		if (parse_range(settings.train.v[i], &settings.trained[i]))
			return base_usage(self, "--train: '%s' is not FROM:TO in Unix seconds",
					  settings.train.v[i]);
	if (settings.score.n && parse_range(settings.score.v[0], &settings.scored))
		return base_usage(self, "--score: '%s' is not FROM:TO in Unix seconds",
				  settings.score.v[0]);
	if ((settings.how.detector &&
	     !analyse_detector_named(settings.how.detector, error, sizeof(error))) ||
	    (settings.how.shadow &&
	     !analyse_detector_named(settings.how.shadow, error, sizeof(error))))
		return base_usage(self, "%s", error);
	if (settings.frozen && !settings.train.n && !settings.how.model)
		return base_usage(self,
				  "--frozen requires --train or --model: otherwise there is no "
				  "model to use");
	if (!settings.verdicts && !settings.save_model)
		return base_usage(self, "no output requested: use --verdicts or --save-model");
	if (!settings.train.n && !settings.score.n &&
	    (settings.frozen || settings.trace_evidence || settings.save_model))
		return base_usage(self, "--frozen, --trace-evidence and --save-model require "
					"--train or --score");
	return BASE_EXIT_OK;
}

static int replay_main(const struct base_command *self, int argc, char **argv)
{
	struct replay r = {0};
	int code, err, operand = base_options_parse(self, table, argc, argv, &code);

	if (operand < 0)
		return code;
	if (operand != argc - 1)
		return base_usage(self, operand == argc ? "no DIR specified"
							: "only one DIR is "
							  "allowed");
	code = check_settings(self);
	if (code != BASE_EXIT_OK)
		return code;
	if (!settings.train.n && !settings.score.n)
		return replay_live(argv[operand]) ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
	settings.how.detector = settings.how.detector ?: "combined";
	settings.how.false_alarms = settings.how.false_alarms ?: 1;
	err = replay_rows(&r, argv[operand]);
	for (uint32_t i = 0; i < r.data.n_pods && r.pods; i++)
		analyse_pipeline_free(r.pods[i].pipeline);
	analyse_fleet_free(r.fleet);
	collect_models_free(r.models);
	cli_replay_traces_free(r.traces);
	analyse_selftime_free(r.selftime);
	free(r.evidence);
	free(r.pods);
	free(r.moving);
	free(r.verdicts);
	free(r.row);
	cli_replay_free(&r.data);
	return err ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

const struct base_command cli_cmd_replay = {
	.name = "replay",
	.synopsis = "[OPTION]... DIR",
	.summary = CLI_SUMMARY_REPLAY,
	.run = replay_main,
};
