// SPDX-License-Identifier: Apache-2.0
/*
 * test_query_library.c - query.h as applications use it: every kind of store, and files that are
 * not stores.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sidelight/query.h>

#include "support/test.h"
#include "store_write.h"

#define OPTS(...) (&SL_OPTS(sl_query_opts, __VA_ARGS__))
/* The result of a query that must succeed. */
#define RESULT(answer, call) (assert_int_equal(call, 0), (answer).result)

/* ---- allocations are counted: --wrap ---- */

static unsigned int allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_malloc(size_t n)
{
	allocations++;
	return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size)
{
	allocations++;
	return __real_calloc(n, size);
}

/* ---- stores ---- */

/* A store in sealed memory, mapped for the writer and opened by the reader. */
struct scene {
	struct made m;
	struct sl_store *s;
	int fd;
};

static const struct sl_store_config
	keywrite = {.kind = SL_STORE_KEYWRITE,
		    .slots = 4096,
		    .value_bytes = 8,
		    .copies = 2,
		    .banks = 2,
		    .seed = 7},
	counters = {.kind = SL_STORE_INCREMENT, .slots = 1024, .rows = 4, .copies = 2, .banks = 1},
	paths = {.kind = SL_STORE_POSTCARD, .slots = 512, .hops = 5, .copies = 2, .banks = 1},
	ring = {.kind = SL_STORE_APPEND,
		.slots = 8,
		.value_bytes = 8,
		.batch = 4,
		.lists = 2,
		.lanes = 2,
		.banks = 1},
	sketch = {.kind = SL_STORE_SKETCH,
		  .sketch = SL_STORE_COUNT_MIN,
		  .slots = 256,
		  .rows = 4,
		  .reporters = 2,
		  .lanes = 2,
		  .banks = 1};

static struct scene scene_of(const struct sl_store_config *config, int seals)
{
	struct scene t = {.fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
	struct sl_store_config c = *config;
	char why[256];

	c.rows = c.rows ? c.rows : 1;
	c.lanes = c.lanes ? c.lanes : 1;
	t.m.bytes = dta_store_object_bytes(&c);
	assert_int_equal(ftruncate(t.fd, (off_t)t.m.bytes), 0);
	assert_int_equal(fcntl(t.fd, F_ADD_SEALS, seals), 0);
	t.m.map = mmap(NULL, t.m.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, t.fd, 0);
	assert_true(t.m.map != MAP_FAILED);
	dta_store_format(t.m.map, &c, "test");
	assert_int_equal(dta_store_view(t.m.map, t.m.bytes, &t.m.v, why, sizeof(why)), 0);
	t.s = sl_store_open_fd(t.fd, why, sizeof(why));
	return t;
}

static struct scene scene(const struct sl_store_config *config)
{
	struct scene t = scene_of(config, F_SEAL_SHRINK | F_SEAL_GROW);

	assert_non_null(t.s);
	return t;
}

static void end(struct scene *t)
{
	sl_store_close(t->s);
	munmap(t->m.map, t->m.bytes);
	close(t->fd);
}

static void values_are_found_empty_in_conflict_or_unknown(void **state)
{
	struct sl_keywrite_answer a = SL_OPTS(sl_keywrite_answer);
	struct sl_store_time now = SL_OPTS(sl_store_time);
	uint64_t key = 5, other = 6, new = 7, one = 11, two = 22;
	struct scene t = scene(&keywrite);
	unsigned int before;

	(void)state;
	assert_string_equal(sl_store_name(t.s), "test");
	assert_int_equal(sl_store_config_get(t.s)->slots, 4096);
	put_keywrite(&t.m, 0, &key, 8, &one, 0, 2);
	set_epochs(&t.m, 1, 0);
	assert_int_equal(sl_store_now(t.s, &now), 0);
	assert_int_equal(now.epoch, 1);
	before = allocations;
	assert_int_equal(RESULT(a, sl_query_keywrite(t.s, &key, 8, NULL, &a)), SL_QUERY_FOUND);
	assert_int_equal(a.sz, sizeof(a));
	assert_int_equal(a.bytes, 8);
	assert_memory_equal(a.value, &one, 8);
	assert_true(a.agreed == 2 && a.asked == 2 && a.epoch == 0 && a.error_probability > 0);
	assert_int_equal(RESULT(a, sl_query_keywrite(t.s, &other, 8, NULL, &a)), SL_QUERY_EMPTY);
	assert_int_equal(a.bytes, 0);
	/* Queries of one epoch: number 0 is not a default. */
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8,
					    OPTS(.flags = SL_QUERY_OF_EPOCH, .epoch = 1), &a)),
		SL_QUERY_EMPTY);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8,
					    OPTS(.flags = SL_QUERY_OF_EPOCH, .epoch = 0), &a)),
		SL_QUERY_FOUND);
	put_keywrite(&t.m, 1, &new, 8, &one, 0, 2);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &new, 8,
					    OPTS(.flags = SL_QUERY_OF_EPOCH, .epoch = 0), &a)),
		SL_QUERY_EMPTY);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8,
					    OPTS(.flags = SL_QUERY_OF_EPOCH, .epoch = 2), &a)),
		SL_QUERY_UNKNOWN);
	put_keywrite(&t.m, 0, &key, 8, &two, 0, 1);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8, OPTS(.policy = SL_QUERY_FIRST), &a)),
		SL_QUERY_FOUND);
	assert_memory_equal(a.value, &two, 8);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8, OPTS(.policy = SL_QUERY_PLURALITY), &a)),
		SL_QUERY_FOUND);
	assert_memory_equal(a.value, &two, 8);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8, OPTS(.policy = SL_QUERY_CONSENSUS), &a)),
		SL_QUERY_CONFLICT);
	put_keywrite(&t.m, 0, &key, 8, &two, 1, 2);
	assert_int_equal(
		RESULT(a, sl_query_keywrite(t.s, &key, 8, OPTS(.policy = SL_QUERY_CONSENSUS), &a)),
		SL_QUERY_FOUND);
	assert_int_equal(RESULT(a, sl_query_keywrite(
					   t.s, &key, 8,
					   OPTS(.policy = SL_QUERY_CONSENSUS, .consensus = 3), &a)),
			 SL_QUERY_EMPTY);
	assert_int_equal(allocations, before);
	end(&t);
}

static void many_keys_are_found_as_one_by_one(void **state)
{
	uint64_t keys[100], values[100];
	struct scene t = scene(&keywrite);
	uint8_t results[100];
	size_t found = 0;

	(void)state;
	for (uint64_t i = 0; i < 100; i++) {
		uint64_t value = i * 3;

		keys[i] = 1000 + i;
		if (i % 2)
			put_keywrite(&t.m, 0, &keys[i], 8, &value, 0, 2);
	}
	assert_int_equal(sl_query_keywrite_many(t.s, keys, 8, 100, NULL, values, results, &found),
			 0);
	assert_int_equal(found, 50);
	for (uint64_t i = 0; i < 100; i++) {
		assert_int_equal(results[i], i % 2 ? SL_QUERY_FOUND : SL_QUERY_EMPTY);
		assert_true(!(i % 2) || values[i] == i * 3);
	}
	assert_int_equal(sl_query_keywrite_many(t.s, keys, 3, 100, NULL, values, results, &found),
			 -EINVAL);
	assert_int_equal(sl_query_keywrite_many(t.s, keys, 8, 0, NULL, NULL, NULL, &found), 0);
	assert_int_equal(found, 0);
	assert_int_equal(sl_query_keywrite_many(t.s, keys, 8, 0, NULL, NULL, NULL, NULL), 0);
	end(&t);
}

static void counts_paths_and_sketches_have_their_bounds(void **state)
{
	struct scene c = scene(&counters), p = scene(&paths), k = scene(&sketch);
	struct sl_increment_answer count = SL_OPTS(sl_increment_answer);
	struct sl_postcard_answer path = SL_OPTS(sl_postcard_answer);
	struct sl_sketch_answer merged = SL_OPTS(sl_sketch_answer);
	const uint32_t hops[3] = {30, 10, 20}, may[3] = {10, 20, 30};
	uint64_t cells[4 * 256], more[4 * 256];
	struct dta_sketch_maker *maker;
	struct dta_hash h;
	uint64_t key = 99;

	(void)state;
	h = dta_hash(&key, 8, c.m.v.config->seed);
	for (uint32_t r = 0; r < 2; r++)
		*(uint64_t *)(void *)(bank_of(&c.m, 0) +
				      sl_store_counter_offset(c.m.v.config, r,
							      dta_slot(h, r, 1024))) = 40 + r;
	assert_int_equal(RESULT(count, sl_query_increment(c.s, &key, 8, NULL, &count)),
			 SL_QUERY_FOUND);
	assert_int_equal(count.value, 40);
	assert_true(count.error > 0 && fabs(count.probability - .8647) < .001);
	assert_int_equal(
		RESULT(count,
		       sl_query_increment(c.s, &key, 8, OPTS(.flags = SL_QUERY_NO_ERROR), &count)),
		SL_QUERY_FOUND);
	assert_true(count.value == 40 && count.error <= 0);

	put_path(&p.m, 0, &key, 8, 5, 3, hops, 0, 2);
	assert_int_equal(
		RESULT(path, sl_query_postcard(p.s, &key, 8, OPTS(.values = may, .value_count = 3),
					       &path)),
		SL_QUERY_FOUND);
	assert_true(path.hops == 3 && path.present == 5 && path.value[0] == 30 &&
		    path.value[2] == 20);
	assert_int_equal(
		RESULT(path, sl_query_postcard(p.s, &key, 8, OPTS(.values = may, .value_count = 2),
					       &path)),
		SL_QUERY_CONFLICT);
	assert_int_equal(path.hops, 0);

	maker = dta_sketch_maker_new(k.m.v.config);
	assert_non_null(maker);
	assert_int_equal(dta_sketch_maker_add(maker, &key, 8, 21), 0);
	dta_sketch_maker_cells(maker, cells);
	for (uint32_t lane = 0; lane < 2; lane++)
		put_lane(&k.m, 0, lane, cells, 4 * 256, lane, 1);
	assert_int_equal(
		RESULT(merged, sl_query_sketch(k.s, &key, 8, NULL, more, sizeof(more), &merged)),
		SL_QUERY_FOUND);
	assert_true(merged.complete && merged.ended == 2 && merged.estimated && merged.value == 42);
	for (uint32_t i = 0; i < 4 * 256; i++)
		assert_int_equal(more[i], 2 * cells[i]);
	assert_int_equal(RESULT(merged, sl_query_sketch(k.s, NULL, 0, NULL, NULL, 0, &merged)),
			 SL_QUERY_FOUND);
	assert_false(merged.estimated);
	assert_int_equal(sl_query_sketch(k.s, &key, 8, NULL, more, sizeof(more) - 8, &merged),
			 -ENOSPC);
	dta_sketch_maker_free(maker);
	end(&c);
	end(&p);
	end(&k);
}

/* ---- readers ---- */

static void put_items(struct made *m, uint64_t block)
{
	uint64_t items[4];

	for (uint32_t i = 0; i < 4; i++)
		items[i] = block * 4 + i;
	put_block(m, 1, 1, block, items, 4);
}

struct writing {
	struct made *m;
	uint64_t block;
	int go;
};

static void *write_soon(void *arg)
{
	struct writing *w = arg;

	while (!__atomic_load_n(&w->go, __ATOMIC_ACQUIRE))
		usleep(1000); /* the reader is usually waiting by then; the test holds either way */
	put_items(w->m, w->block);
	return NULL;
}

/* Returns the number of items; the call must succeed. */
static uint32_t read_items(const struct sl_store *s, struct sl_query_append_reader *r,
			   uint64_t *items, uint32_t max, uint64_t timeout_ns)
{
	uint32_t n = ~0u;

	assert_int_equal(sl_query_append(s, r, items, max, timeout_ns, &n), 0);
	return n;
}

static void a_reader_waits_goes_on_and_sees_what_it_missed(void **state)
{
	struct scene t = scene(&ring);
	struct writing w = {&t.m, 3, 0};
	struct sl_query_append_reader r, late;
	uint64_t items[32];
	unsigned int before;
	pthread_t thread;
	uint32_t n = 1;

	(void)state;
	for (uint64_t b = 0; b < 3; b++)
		put_items(&t.m, b);
	assert_int_equal(sl_query_append_begin(t.s, &r, 1, 1, SL_QUERY_APPEND_OLDEST), 0);
	assert_int_equal(sl_query_append_begin(t.s, &late, 1, 1, SL_QUERY_APPEND_NEWEST), 0);
	before = allocations;
	assert_int_equal(read_items(t.s, &r, items, 32, 0), 12);
	assert_true(items[0] == 0 && items[11] == 11);
	assert_int_equal(read_items(t.s, &r, items, 32, 0), 0);
	assert_int_equal(read_items(t.s, &r, items, 32, 2000000), 0);
	assert_int_equal(allocations, before);
	assert_int_equal(pthread_create(&thread, NULL, write_soon, &w), 0);
	__atomic_store_n(&w.go, 1, __ATOMIC_RELEASE);
	assert_int_equal(read_items(t.s, &late, items, 32, ~0ull), 4); /* no limit of time */
	assert_int_equal(items[0], 12);
	pthread_join(thread, NULL);
	for (uint64_t b = 4; b < 100; b++)
		put_items(&t.m, b);
	assert_int_equal(sl_query_append(t.s, &r, items, 32, ~0ull, &n), -EOVERFLOW);
	assert_true(r.overrun > 0 && !n);
	assert_int_equal(read_items(t.s, &r, items, 32, 0), 32);
	assert_int_equal(items[31], 399);
	assert_int_equal(r.items / 4 + r.overrun, 100);
	/* A position can be saved and set again. */
	assert_int_equal(sl_query_append_begin(t.s, &late, 1, 1, SL_QUERY_APPEND_OLDEST), 0);
	late.block = 97;
	assert_int_equal(read_items(t.s, &late, items, 32, 0), 12);
	assert_int_equal(items[0], 97 * 4);
	assert_int_equal(sl_query_append_begin(t.s, &r, 2, 0, SL_QUERY_APPEND_OLDEST), -EINVAL);
	assert_int_equal(sl_query_append_begin(t.s, &r, 0, 2, SL_QUERY_APPEND_OLDEST), -EINVAL);
	late.lane = 7; /* overwritten meanwhile */
	assert_int_equal(sl_query_append(t.s, &late, items, 32, 0, &n), -EINVAL);
	assert_int_equal(sl_query_append(t.s, &r, items, 3, 0, &n), -EINVAL);
	end(&t);
}

/* ---- what is no question, and no store ---- */

static void what_is_no_question_is_refused(void **state)
{
	struct scene t = scene(&keywrite);
	struct sl_increment_answer count = SL_OPTS(sl_increment_answer);
	struct sl_keywrite_answer a = SL_OPTS(sl_keywrite_answer);
	/* Compiled with an older header: fields after its end are neither read nor written. */
	struct {
		struct sl_keywrite_answer a;
	} old = {{.sz = offsetof(struct sl_keywrite_answer, value)}};
	/* Compiled with a newer header: an unknown option that is set must not be ignored. */
	struct {
		struct sl_query_opts o;
		uint64_t more;
	} newer = {SL_OPTS(sl_query_opts), 0};
	uint8_t key[65] = {1};
	uint64_t value = ~0ull;
	uint32_t n;

	(void)state;
	put_keywrite(&t.m, 0, key, 64, &value, 0, 2);
	assert_int_equal(RESULT(old.a, sl_query_keywrite(t.s, key, 64, NULL, &old.a)),
			 SL_QUERY_FOUND);
	assert_int_equal(old.a.agreed, 2);
	assert_int_equal(old.a.value[0], 0);
	a.sz = offsetof(struct sl_keywrite_answer, asked);
	assert_int_equal(sl_query_keywrite(t.s, key, 64, NULL, &a), -EINVAL);
	a.sz = sizeof(a) + 100;
	assert_int_equal(RESULT(a, sl_query_keywrite(t.s, key, 64, NULL, &a)), SL_QUERY_FOUND);
	assert_int_equal(sl_query_keywrite(t.s, key, 65, NULL, &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 3, NULL, &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, NULL, 8, NULL, &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(NULL, key, 8, NULL, &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8, NULL, NULL), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8, &(struct sl_query_opts){0}, &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8, OPTS(.flags = 64), &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8, OPTS(.policy = 3), &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8, OPTS(.copies = 9), &a), -EINVAL);
	assert_int_equal(sl_query_keywrite(t.s, key, 8,
					   OPTS(.flags = SL_QUERY_OF_EPOCH, .epoch = ~0ull), &a),
			 -EINVAL);
	newer.o.sz = sizeof(newer);
	assert_int_equal(RESULT(a, sl_query_keywrite(t.s, key, 64, &newer.o, &a)), SL_QUERY_FOUND);
	newer.more = 1;
	assert_int_equal(sl_query_keywrite(t.s, key, 64, &newer.o, &a), -EINVAL);
	assert_int_equal(sl_query_increment(t.s, key, 8, NULL, &count), -EINVAL);
	assert_int_equal(sl_query_append(t.s, &(struct sl_query_append_reader){0}, key, 64, 0, &n),
			 -EINVAL);
	assert_null(sl_store_name(NULL));
	sl_store_close(NULL);
	end(&t);
}

static void what_is_no_store_is_refused_with_a_line(void **state)
{
	struct scene loose = scene_of(&keywrite, F_SEAL_GROW), t = scene(&keywrite);
	const char *tmp = getenv("TMPDIR");
	char folder[256], path[300], why[512] = "";
	struct sl_store *s;
	off_t from = 0;
	int fd;

	(void)state;
	assert_null(loose.s); /* it could be cut short */
	errno = 0;
	assert_null(sl_store_open_fd(loose.fd, why, sizeof(why)));
	assert_int_equal(errno, EINVAL);
	assert_non_null(strstr(why, "not sealed"));
	/* Nor a deleted file, which has no seals at all. */
	fd = open(tmp ? tmp : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0) {
		assert_int_equal(sendfile(fd, t.fd, &from, 1 << 20) > 0, true);
		assert_null(sl_store_open_fd(fd, why, sizeof(why)));
		assert_non_null(strstr(why, "not sealed"));
		close(fd);
	}
	assert_null(sl_store_open_fd(-1, NULL, 0));
	assert_int_equal(errno, EBADF);
	assert_null(sl_store_open("/nonexistent/store", why, sizeof(why)));
	assert_int_equal(errno, ENOENT);
	assert_non_null(strstr(why, "/nonexistent/store"));
	assert_null(sl_store_open(NULL, NULL, 0));
	assert_null(sl_store_open("/dev/null", why, sizeof(why)));
	assert_int_equal(errno, EINVAL);

	/* A file, whole and not. */
	snprintf(folder, sizeof(folder), "%s/sl-query-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/store", folder);
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, t.m.map, t.m.bytes), t.m.bytes);
	s = sl_store_open(path, why, sizeof(why));
	assert_non_null(s);
	sl_store_close(s);
	assert_int_equal(ftruncate(fd, (off_t)t.m.bytes - 1), 0);
	assert_null(sl_store_open(path, why, sizeof(why)));
	assert_int_equal(errno, EINVAL);
	assert_non_null(strstr(why, "truncated"));
	assert_int_equal(ftruncate(fd, (off_t)t.m.bytes + 1), 0);
	assert_null(sl_store_open(path, why, sizeof(why)));
	assert_non_null(strstr(why, "too long"));
	assert_int_equal(ftruncate(fd, (off_t)t.m.bytes), 0);
	((struct sl_region_header *)t.m.map)->version++;
	assert_int_equal(pwrite(fd, t.m.map, 4096, 0), 4096);
	assert_null(sl_store_open(path, why, sizeof(why)));
	assert_non_null(strstr(why, "version"));
	close(fd);
	unlink(path);
	rmdir(folder);
	end(&t);
	end(&loose);
}

/* ---- what empty is worth ---- */

static void what_was_reported_within_its_reach_is_found(void **state)
{
	struct scene t = scene(&keywrite), c = scene(&counters);
	struct sl_keywrite_answer a = SL_OPTS(sl_keywrite_answer);
	const uint64_t keys = 12000;
	uint64_t found = 0, reach, unset;
	double p;

	(void)state;
	assert_int_equal(sl_query_reports_until(t.s, 0, .9, &reach), 0);
	assert_int_equal(sl_query_found_probability(t.s, 0, reach, &p), 0);
	assert_true(fabs(p - .9) < .001);
	assert_int_equal(sl_query_found_probability(t.s, 0, 0, &p), 0);
	assert_true(p >= 1);
	assert_int_equal(sl_query_found_probability(t.s, 1, reach, &p), 0);
	assert_true(p < .9);
	assert_int_equal(sl_query_found_probability(c.s, 0, 5, &p), -EINVAL);
	assert_int_equal(sl_query_found_probability(t.s, 0, 5, NULL), -EINVAL);
	assert_int_equal(sl_query_reports_until(c.s, 0, .5, &unset), -EINVAL);
	assert_int_equal(sl_query_reports_until(t.s, 0, 0, &unset), -EINVAL);
	assert_int_equal(sl_query_reports_until(t.s, 0, 1, &unset), -EINVAL);
	assert_int_equal(sl_query_reports_until(t.s, 0, NAN, &unset), -EINVAL);
	assert_int_equal(sl_query_reports_until(NULL, 0, .5, &unset), -EINVAL);
	for (uint64_t key = 0; key < keys; key++)
		put_keywrite(&t.m, 0, &key, 8, &key, 0, 2);
	/* 200 keys of about this age: 0.9 of them, with a standard deviation of 0.021. */
	for (uint64_t key = keys - reach - 100; key < keys - reach + 100; key++)
		found += RESULT(a, sl_query_keywrite(t.s, &key, 8, NULL, &a)) == SL_QUERY_FOUND;
	assert_true(found > 164 && found < 196);
	end(&t);
	end(&c);
}

/* A program linked with an older library must find the same sizes. */
static void structures_have_the_sizes_of_their_first_version(void **state)
{
	(void)state;
	assert_int_equal(sizeof(struct sl_query_opts), 48);
	assert_int_equal(sizeof(struct sl_store_time), 40);
	assert_int_equal(sizeof(struct sl_keywrite_answer), 304);
	assert_int_equal(sizeof(struct sl_increment_answer), 48);
	assert_int_equal(sizeof(struct sl_postcard_answer), 304);
	assert_int_equal(sizeof(struct sl_sketch_answer), 64);
	assert_int_equal(sizeof(struct sl_query_append_reader), 64);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(values_are_found_empty_in_conflict_or_unknown),
		cmocka_unit_test(many_keys_are_found_as_one_by_one),
		cmocka_unit_test(counts_paths_and_sketches_have_their_bounds),
		cmocka_unit_test(a_reader_waits_goes_on_and_sees_what_it_missed),
		cmocka_unit_test(what_is_no_question_is_refused),
		cmocka_unit_test(what_is_no_store_is_refused_with_a_line),
		cmocka_unit_test(what_was_reported_within_its_reach_is_found),
		cmocka_unit_test(structures_have_the_sizes_of_their_first_version),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
