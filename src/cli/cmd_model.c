// SPDX-License-Identifier: Apache-2.0
/*
 * cmd_model.c - sidelight model: lists model files, and merges the models of several hosts, so that
 * each host gets what all of them learned about a service. 'sidelight model train' is in
 * cmd_model_train.c.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/pipeline.h"
#include "cli/common/common.h"
#include "collect/judge/models.h"

static const char *error_text(int err)
{
	return err == -EPROTONOSUPPORT ? "it has an unsupported version"
	       : err == -EINVAL	       ? "damaged"
				       : strerror(-err);
}

/* Listing */

static void list_one(void *arg, const char *name, const void *bytes, size_t length)
{
	struct analyse_model_info info;
	int err = analyse_pipeline_model_info(bytes, length, &info);
	json_t *o = json_pack("{s:s#, s:I}", "name", name, strlen(name), "bytes",
			      (json_int_t)length);

	if (!o) /* the name is not UTF-8 */
		o = json_pack("{s:s, s:I}", "name", "?", "bytes", (json_int_t)length);
	if (err)
		json_object_set_new(o, "error", json_string(error_text(err)));
	else
		json_object_update_new(o,
				       json_pack("{s:s, s:I, s:f, s:I}", "detector", info.detector,
						 "columns", (json_int_t)info.columns,
						 "step_seconds", (double)info.step_ns * 1e-9,
						 "steps", (json_int_t)info.learned));
	json_array_append_new(arg, o);
}

static void print_table(const json_t *all)
{
	const json_t *o;
	size_t i;

	if (json_array_size(all))
		printf("%-40s %-12s %8s %8s %10s %9s\n", "NAME", "DETECTOR", "COLUMNS", "STEP",
		       "STEPS", "BYTES");
	json_array_foreach(all, i, o)
	{
		cli_print_safe(cli_json_text(o, "name"), 40);
		if (*cli_json_text(o, "error")) {
			printf(" %s\n", cli_json_text(o, "error"));
			continue;
		}
		putchar(' ');
		cli_print_safe(cli_json_text(o, "detector"), 12);
		printf(" %8lld %7gs %10lld %9lld\n", cli_json_integer(o, "columns"),
		       json_number_value(json_object_get(o, "step_seconds")),
		       cli_json_integer(o, "steps"), cli_json_integer(o, "bytes"));
	}
}

static int list_models(struct collect_models *m, bool as_json)
{
	json_t *all = json_array();

	collect_models_each(m, list_one, all);
	if (!as_json)
		print_table(all);
	else
		cli_json_print(stdout, json_incref(all), JSON_INDENT(2));
	json_decref(all);
	return cli_output_end(&cli_cmd_model, BASE_EXIT_OK);
}

/* Merging */

struct merge {
	struct collect_models *to;
	const char *path; /* name of the file being merged */
	uint32_t merged, added, kept_one, damaged;
	int err;
};

struct merge_model {
	const char *name;
	void *bytes;
	size_t length;
	struct analyse_model_info info;
};

static void copy_if(void *arg, const char *name, const void *bytes, size_t length)
{
	struct merge_model *m = arg;

	if (strcmp(name, m->name))
		return;
	m->bytes = malloc(length + 1);
	if (m->bytes)
		memcpy(m->bytes, bytes, length);
	m->length = length;
}

static struct analyse_pipeline *load_model(const struct merge_model *m)
{
	struct analyse_pipeline_opts o = {
		.columns = m->info.columns,
		.step_ns = m->info.step_ns,
		.detector = analyse_detector_find(m->info.detector),
	};
	struct analyse_pipeline *p = NULL;

	if (o.detector && o.columns)
		p = analyse_pipeline_create(&o);
	if (p && analyse_pipeline_load(p, m->bytes, m->length)) {
		analyse_pipeline_free(p);
		p = NULL;
	}
	return p;
}

/* Merges two models. Returns the result, to be freed, or NULL if the models do not match. */
static void *unite_models(const struct merge_model *a, const struct merge_model *b, size_t *bytes)
{
	struct analyse_pipeline *p = load_model(a), *q = load_model(b);
	void *out = NULL;

	if (p && q && !analyse_pipeline_merge(p, q))
		*bytes = (size_t)analyse_pipeline_save_all(&p, 1, &out);
	analyse_pipeline_free(p);
	analyse_pipeline_free(q);
	return out;
}

static void put_model(struct merge *m, const char *name, const void *bytes, size_t length)
{
	m->err = m->err ? m->err : collect_models_put(m->to, name, bytes, length);
}

static void add_model(void *arg, const char *name, const void *bytes, size_t length)
{
	struct merge *m = arg;
	struct merge_model mine = {.name = name},
			   theirs = {.bytes = (void *)(uintptr_t)bytes, .length = length};
	int err = analyse_pipeline_model_info(bytes, length, &theirs.info);
	void *both;
	size_t n;

	if (err) {
		base_failure(&cli_cmd_model, "%s: skipping %.127s: %s", m->path, name,
			     error_text(err));
		m->damaged++;
		return;
	}
	collect_models_each(m->to, copy_if, &mine);
	if (!mine.bytes) {
		put_model(m, name, bytes, length);
		m->added++;
		return;
	}
	/* Cannot fail: the model was validated when it was added. */
	analyse_pipeline_model_info(mine.bytes, mine.length, &mine.info);
	both = unite_models(&mine, &theirs, &n);
	if (both) {
		put_model(m, name, both, n);
		m->merged++;
	} else {
		const uint64_t a = mine.info.learned, b = theirs.info.learned;

		base_failure(
			&cli_cmd_model,
			"%s: the metrics, detector or step of %.127s differ from earlier files; "
			"keeping the model that learned from more steps (%" PRIu64
			", out of %" PRIu64 " and %" PRIu64 ")",
			m->path, name, BASE_MAX(a, b), a, b);
		if (b > a)
			put_model(m, name, bytes, length);
		m->kept_one++;
	}
	free(both);
	free(mine.bytes);
}

static int merge_files(struct collect_models **files, char **names, int n, const char *out)
{
	struct merge m = {.to = collect_models_new()};
	int err = m.to ? 0 : -ENOMEM;

	for (int i = 0; i < n && !err; i++) {
		m.path = names[i];
		collect_models_each(files[i], add_model, &m);
		err = m.err;
	}
	if (!err)
		err = collect_models_write(m.to, out);
	collect_models_free(m.to);
	if (err)
		return base_failure(&cli_cmd_model, "%s: %s", out, strerror(-err));
	fprintf(stderr, "sidelight model: %u models, %u of them merged\n", m.added, m.merged);
	return m.damaged || m.kept_one ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

static struct {
	const char *out;
	bool json;
} settings;

static const struct base_option table[] = {
	BASE_STRING("merge", 'm', &settings.out, "OUT",
		    "merge the models of all FILEs into OUT, which may be one of them"),
	BASE_FLAG("json", 'j', &settings.json, "print JSON"),
	{0},
};

static int model_main(const struct base_command *self, int argc, char **argv)
{
	struct collect_models **file;
	char error[4400];
	int code, first, n;

	if (argc > 1 && !strcmp(argv[1], cli_kind_name(&cli_cmd_model_train)))
		return cli_cmd_model_train.run(&cli_cmd_model_train, argc - 1, argv + 1);
	first = base_options_parse(self, table, argc, argv, &code);
	n = argc - first;
	if (first < 0)
		return code;
	if (!n)
		return base_usage(self, "no file specified");
	if (!settings.out && n > 1)
		return base_usage(self, "specify one file, or use --merge OUT");
	code = BASE_EXIT_FAILURE;
	file = calloc((size_t)n, sizeof(struct collect_models *));
	if (!file)
		return BASE_EXIT_FAILURE;
	for (int i = 0; i < n; i++) {
		file[i] = collect_models_new();
		if (!file[i])
			goto out;
		if (collect_models_read(file[i], argv[first + i], error, sizeof(error))) {
			base_failure(self, "%s", error);
			goto out;
		}
	}
	code = settings.out ? merge_files(file, argv + first, n, settings.out)
			    : list_models(file[0], settings.json);
out:
	for (int i = 0; i < n; i++)
		collect_models_free(file[i]);
	free(file);
	return code;
}

const struct base_command cli_cmd_model = {
	.name = "model",
	.synopsis = "[OPTION]... FILE...  or  train OPTION...",
	.summary = "Show learned models, merge several, or train one from a store",
	.run = model_main,
};
