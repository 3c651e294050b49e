// SPDX-License-Identifier: Apache-2.0
/*
 * make_corpus.c write|check DIR - writes the small sketch in fuzz/corpus/sketch, or compares it
 * with the existing file. It is computed only with arithmetic that IEEE 754 defines exactly, so
 * every machine and compiler must produce the same bytes, and a change of the format is noticed.
 */
#include <stdio.h>

#include "exercise.h"
#include "streams.h"

static const char *dir;
static bool check;
static int different;

static void compared(const char *name, const char *path, const void *buf, size_t bytes)
{
	uint8_t *there = malloc(bytes + 1);
	FILE *f = fopen(path, "rb");

	must(there != NULL);
	if (!f || fread(there, 1, bytes + 1, f) != bytes || memcmp(there, buf, bytes)) {
		fprintf(stderr, "%s: other bytes than in %s\n", name, path);
		different++;
	}
	if (f)
		fclose(f);
	free(there);
}

static void written(const char *name, void *buf, size_t bytes)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	if (check) {
		compared(name, path, buf, bytes);
	} else {
		f = fopen(path, "wb");
		must(f && fwrite(buf, 1, bytes, f) == bytes && !fclose(f));
	}
	free(buf);
}

/* Whole numbers and halves, without library functions that machines round differently. */
static double any(uint64_t *seed)
{
	return (double)(int64_t)(rnd(seed) % 2000001) / 1024 - 976;
}

int main(int argc, char **argv)
{
	struct sketch_fd *fd = sketch_fd_new(3, 4);
	uint64_t seed = 1;
	size_t bytes;

	if (argc != 3)
		return 2;
	check = !strcmp(argv[1], "check");
	dir = argv[2];
	for (int i = 0; i < 11; i++) {
		float row[9];

		for (int c = 0; c < 9; c++)
			row[c] = (float)any(&seed);
		sketch_fd_update(fd, row);
	}
	void *buf = fd_saved(fd, &bytes);
	written("fd", buf, bytes);
	sketch_fd_free(fd);
	return different != 0;
}
