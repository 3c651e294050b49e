// SPDX-License-Identifier: Apache-2.0
/*
 * make_corpus.c write|check DIR - models for fuzz/corpus/model, one per detector and one of a
 * service, merged over two pods of a fleet; each is preceded by the byte that chooses the detector
 * in fuzz/fuzz_model.c. check: verifies that all exist and have the version that this program
 * loads.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/fleet.h"
#include "noise.h"

#define ROWS	  90u
#define COLUMNS	  3u
#define IN_FLEET  0x80u
#define FILE_MOST (1u << 20)

static const struct analyse_column column[COLUMNS] = {
	{"a", false}, {"errors_total", true}, {"latency_p90", false}};

static void die(const char *name, const char *what)
{
	fprintf(stderr, "%s: %s\n", name, what);
	exit(1);
}

static struct analyse_pipeline *create(const struct analyse_detector_ops *ops)
{
	struct analyse_pipeline_opts o = {.columns = 16, .seed = 1, .detector = ops};
	struct analyse_pipeline *p = analyse_pipeline_create(&o);

	if (!p)
		die(ops->name, "out of memory");
	return p;
}

/* Pushes rows of n pods at the same moments; without a fleet, of one pod. */
static void teach(struct analyse_fleet *f, struct analyse_pipeline **pod, uint32_t n)
{
	double value[2][COLUMNS] = {0};
	uint64_t seed = 7;

	for (uint32_t i = 0; i < n; i++) {
		analyse_pipeline_columns(pod[i], column, COLUMNS);
		analyse_pipeline_learning(pod[i], ANALYSE_LEARN_ALL);
	}
	for (uint64_t r = 1; r <= ROWS; r++) {
		struct analyse_verdict v[2];

		for (uint32_t i = 0; i < n; i++) {
			value[i][0] = noise_normal(&seed);
			value[i][1] += noise_uniform(&seed) < 0.1;
			value[i][2] = 0.1 + 0.05 * noise_uniform(&seed);
			if (f)
				analyse_pipeline_score(pod[i], r * 1000000000, value[i], &v[i]);
			else
				analyse_pipeline_push(pod[i], r * 1000000000, value[i], &v[i]);
		}
		if (f)
			analyse_fleet_judge(f, pod, v, n);
	}
}

static void write_model(const char *path, uint8_t choice, const void *model, size_t bytes)
{
	FILE *f = fopen(path, "wb");

	if (!f || putc(choice, f) == EOF || fwrite(model, 1, bytes, f) != bytes || fclose(f))
		die(path, strerror(errno));
}

static void check_model(const char *path, uint8_t choice, const struct analyse_detector_ops *ops)
{
	struct analyse_pipeline *p = create(ops);
	uint8_t *bytes = malloc(FILE_MOST);
	FILE *f = fopen(path, "rb");
	size_t n;

	if (!bytes || !f)
		die(path, strerror(errno));
	n = fread(bytes, 1, FILE_MOST, f);
	if (n < 2 || bytes[0] != choice || analyse_pipeline_load(p, bytes + 1, n - 1))
		die(path, "no model of this version: make_model_corpus write DIR");
	fclose(f);
	free(bytes);
	analyse_pipeline_free(p);
}

static void seed_of(const char *dir, bool check, unsigned int detector, bool service)
{
	const struct analyse_detector_ops *ops = analyse_detectors[detector];
	struct analyse_pipeline *pod[2] = {create(ops), create(ops)};
	uint8_t choice = (uint8_t)(detector | (service ? IN_FLEET : 0));
	struct analyse_fleet *fleet = NULL;
	char path[4096];
	void *model;
	int64_t bytes;

	snprintf(path, sizeof(path), "%s/%s", dir, service ? "service" : ops->name);
	if (check) {
		check_model(path, choice, ops);
	} else {
		if (service) {
			fleet = analyse_fleet_create(analyse_pipeline_budget(pod[0]), 1);
			for (uint32_t i = 0; i < 2; i++)
				if (!fleet || analyse_fleet_join(fleet, pod[i], "shop"))
					die(path, "out of memory");
		}
		teach(fleet, pod, service ? 2 : 1);
		bytes = analyse_pipeline_save_all(pod, service ? 2 : 1, &model);
		if (bytes < 0)
			die(path, strerror((int)-bytes));
		write_model(path, choice, model, (size_t)bytes);
		free(model);
	}
	for (uint32_t i = 0; i < 2; i++) {
		if (fleet)
			analyse_fleet_leave(fleet, pod[i]);
		analyse_pipeline_free(pod[i]);
	}
	analyse_fleet_free(fleet);
}

int main(int argc, char **argv)
{
	bool check;

	if (argc != 3)
		return 2;
	check = !strcmp(argv[1], "check");
	for (unsigned int i = 0; analyse_detectors[i]; i++)
		seed_of(argv[2], check, i, false);
	seed_of(argv[2], check, 0, true);
	return 0;
}
