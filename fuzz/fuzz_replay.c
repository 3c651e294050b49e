// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_replay.c - recordings of any content: up to three pods' metrics and the events, with a zero
 * byte between files. What was read must be what replay relies on: rows by rising time, columns
 * that have names, a step that is positive.
 */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/graph.h"
#include "analyse/selftime.h"
#include "cli/replay/replay.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static char folder[] = "/tmp/sl-fuzz-replay-XXXXXX", path[64];
static FILE *nowhere;

static int drop(const char *at, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st, (void)type, (void)ftw;
	return remove(at);
}

static void clean(void)
{
	nftw(folder, drop, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *at(const char *file)
{
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	return path;
}

/* Messages go nowhere; libFuzzer and sanitizers keep the descriptor that they write to. */
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	nowhere = fopen("/dev/null", "we");
	if (!nowhere || !mkdtemp(folder) || mkdir(at("metrics"), 0700))
		abort();
	atexit(clean);
	return 0;
}

static void must(bool holds)
{
	if (!holds)
		abort();
}

/* Up to the next zero byte; behind the last, there is no file. */
static void write_file(const char *name, const uint8_t **data, size_t *bytes)
{
	const uint8_t *zero = memchr(*data, 0, *bytes);
	size_t n = zero ? (size_t)(zero - *data) : *bytes;
	FILE *f;

	unlink(at(name));
	if (!*bytes)
		return;
	f = fopen(path, "we");
	must(f && fwrite(*data, 1, n, f) == n && !fclose(f));
	n += zero != NULL;
	*data += n;
	*bytes -= n;
}

static void read_traces(struct cli_replay_data *d)
{
	struct analyse_graph *g = analyse_graph_new();
	struct analyse_selftime *s = analyse_selftime_new();
	struct cli_replay_traces *t = g && s ? cli_replay_traces_new(d, g) : NULL;
	float evidence[3] = {0};

	if (t) {
		cli_replay_traces_seek(t, 0);
		must(!cli_replay_traces_until(t, s, INT64_MAX));
		must(!analyse_selftime_step(s, evidence, d->n_pods));
	}
	cli_replay_traces_free(t);
	analyse_selftime_free(s);
	analyse_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	FILE *said = stderr;
	struct cli_replay_data d;

	write_file("metrics/a.csv", &data, &bytes);
	write_file("metrics/b.csv", &data, &bytes);
	write_file("metrics/c.csv", &data, &bytes);
	write_file("events.csv", &data, &bytes);
	stderr = nowhere;
	if (!cli_replay_load(&d, folder, false)) {
		must(d.n_pods && d.step_ns > 0);
		for (uint32_t i = 0; i < d.n_pods; i++) {
			const struct cli_replay_pod *p = &d.pods[i];

			must(p->name &&
			     (!p->rows || (p->n_columns && p->n_columns < ANALYSE_ROW_MAX)));
			for (uint32_t c = 0; p->rows && c < p->n_columns; c++)
				must(p->columns[c].name != NULL);
			for (uint64_t k = 1; k < p->rows; k++)
				must(p->t[k] > p->t[k - 1]);
		}
		read_traces(&d);
		cli_replay_free(&d);
	}
	stderr = said;
	return 0;
}
