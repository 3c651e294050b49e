// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_replay.c - folders in the layout of the Nezha data set, of any content: up to
 * three pods' metrics and the traces, with a zero byte between files. What was read must be what
 * replay relies on: rows by rising time, columns that have names, a step that is positive.
 */
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct cli_replay_verdict verdicts[64];
	FILE *said = stderr;
	struct cli_replay_data d;
	size_t n = 0;

	write_file("metrics/a.csv", &data, &bytes);
	write_file("metrics/b.csv", &data, &bytes);
	write_file("metrics/c.csv", &data, &bytes);
	write_file("traces.csv", &data, &bytes);
	stderr = nowhere;
	if (!cli_replay_load(&d, folder, false)) {
		must(d.n_pods && d.step_ns > 0);
		for (uint32_t i = 0; i < d.n_pods; i++) {
			const struct cli_replay_pod *p = &d.pods[i];

			must(p->name &&
			     (!p->rows || (p->n_columns && p->n_columns < ANALYSE_ROW_MAX)));
			for (uint32_t c = 0; p->rows && c < p->n_columns; c++)
				must(p->columns[c].name != NULL);
			for (uint64_t k = 0; k < p->rows; k++) {
				must(!k || p->t[k] > p->t[k - 1]);
				if (n < 64)
					verdicts[n++] = (struct cli_replay_verdict){p->t[k], i, 2,
										    0.5f, true};
			}
		}
		cli_replay_traces(&d, at("traces.csv"), verdicts, n, 0.2, true, nowhere);
		cli_replay_free(&d);
	}
	stderr = said;
	return 0;
}
