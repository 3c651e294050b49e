// SPDX-License-Identifier: Apache-2.0
/*
 * make_corpus.c write|check DIR - small sketches of every kind, which are fuzz/corpus/sketch:
 * written anew, or compared with what is there. They are made by arithmetic alone that IEEE 754
 * fixes, so that every machine and compiler has to come to the same bytes, and a change of the
 * format shows.
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

/* Of whole numbers and halves: no library function that machines round in their own ways. */
static double any(uint64_t *seed)
{
	return (double)(int64_t)(rnd(seed) % 2000001) / 1024 - 976;
}

#define WRITE(kind, name, s)                           \
	do {                                           \
		size_t bytes_;                         \
		void *buf_ = kind##_saved(s, &bytes_); \
		written(name, buf_, bytes_);           \
		sketch_##kind##_free(s);               \
	} while (0)

int main(int argc, char **argv)
{
	struct sketch_fd *fd = sketch_fd_new(3, 4, SKETCH_FD_FAST),
			 *plain = sketch_fd_new(2, 9, SKETCH_FD_PLAIN);
	struct sketch_hll *hll = sketch_hll_new(4, 1);
	struct sketch_count_min *cm = sketch_count_min_new(8, 2, 0, 1);
	struct sketch_count_min *careful = sketch_count_min_new(4, 3, SKETCH_COUNT_MIN_CONSERVATIVE,
								1);
	struct sketch_count_sketch *cs = sketch_count_sketch_new(4, 3, 1);
	uint64_t seed = 1;

	if (argc != 3)
		return 2;
	check = !strcmp(argv[1], "check");
	dir = argv[2];
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t key = i * i % 7;
		float row[9];

		for (int c = 0; c < 9; c++)
			row[c] = (float)any(&seed);
		if (i < 11) {
			sketch_fd_update(fd, row);
			sketch_fd_update(plain, row);
		}
		sketch_hll_add_u64(hll, i);
		sketch_count_min_add_u64(cm, key, i);
		sketch_count_min_add_u64(careful, key, i);
		sketch_count_sketch_add_u64(cs, key, -(int64_t)i);
	}
	WRITE(fd, "fd", fd);
	WRITE(fd, "fd-plain", plain);
	WRITE(hll, "hll", hll);
	WRITE(count_min, "count-min", cm);
	WRITE(count_min, "count-min-conservative", careful);
	WRITE(count_sketch, "count-sketch", cs);
	return different != 0;
}
