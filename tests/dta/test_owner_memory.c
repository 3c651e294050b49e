// SPDX-License-Identifier: Apache-2.0
/*
 * test_owner_memory.c - the store server's memory: files that outlive it, huge pages, stores
 * beyond 4 GiB.
 */

#include "support/test.h"
#include "owner_talk.h"

/* KiB of this process' mappings that the kernel has as huge pages of shared memory. */
static unsigned long huge_shared_kib(void)
{
	FILE *f = fopen("/proc/self/smaps", "re");
	unsigned long kib, sum = 0;
	char line[512];

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "ShmemPmdMapped: %lu", &kib) == 1)
			sum += kib;
	if (f)
		fclose(f);
	return sum;
}

/*
 * The state of "pages" for a store of 4 MiB and a few pages, and how much of it is in huge pages;
 * NULL with an error: such pages are not available.
 */
static const char *pages_of(const char *policy, unsigned long *kib, char error[512])
{
	static char pages[32];
	const unsigned long before = huge_shared_kib();
	struct dta_store_server *o = own(
		yaml(policy, "- {name: flows, number: 1, kind: key-write, slots: 262144, value: "
			     "8, epochs: 1}"),
		error);
	json_t *j, *object;
	uint64_t huge;

	if (!o)
		return NULL;
	j = dta_store_server_json(o);
	object = json_array_get(
		json_object_get(json_array_get(json_object_get(j, "stores"), 0), "objects"), 0);
	snprintf(pages, sizeof(pages), "%s", json_string_value(json_object_get(object, "pages")));
	huge = (uint64_t)json_integer_value(json_object_get(object, "huge_bytes"));
	*kib = huge_shared_kib() - before;
	/*
	 * Reserved pages are counted elsewhere; of others, only mapped ones count, which Linux 6.1
	 * maps when they are touched.
	 */
	if (!strcmp(pages, "transparent"))
		assert_true(huge == 4 << 20 && *kib && *kib <= huge >> 10);
	else if (!strcmp(pages, "small"))
		assert_true(!huge && !*kib);
	json_decref(j);
	dta_store_server_free(o);
	return pages;
}

static bool file_has(const char *path, const char *what)
{
	char text[4096] = "";
	FILE *f = fopen(path, "re");
	bool has = f && fread(text, 1, sizeof(text) - 1, f) && strstr(text, what);

	if (f)
		fclose(f);
	return has;
}

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25 /* Linux 6.1 */
#endif

/* Whether this kernel collapses shared memory into huge pages on request, and has some now. */
static bool collapses(void)
{
	const size_t bytes = 4 << 20;
	int fd = memfd_create("collapses", MFD_CLOEXEC);
	uint8_t *map;
	bool done;

	assert_true(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	map = dta_store_map(fd, bytes, true);
	assert_true(map != MAP_FAILED && !((uintptr_t)map & ((2 << 20) - 1)));
	memset(map, 1, bytes);
	done = !madvise(map, bytes, MADV_COLLAPSE);
	munmap(map, bytes);
	close(fd);
	return done;
}

static void huge_pages_are_had_or_it_is_said_why_not(void **state)
{
	char error[512] = "";
	unsigned long kib;
	const char *pages;
	bool able;

	(void)state;
	assert_string_equal(pages_of("hugepages: never", &kib, error), "small");
	pages = pages_of("hugepages: always", &kib, error);
	if (pages)
		assert_string_equal(pages, "huge");
	else
		assert_non_null(strstr(error, "vm.nr_hugepages"));
	if (file_has("/proc/meminfo", "HugePages_Total:       0"))
		assert_null(pages);
	able = collapses();
	pages = pages_of("hugepages: auto", &kib, error);
	assert_non_null(pages);
	if (able && !strcmp(pages, "small"))
		assert_false(collapses()); /* memory was free just before */
	if (!able)
		print_message("SKIP: this kernel or its memory gives no huge pages when asked\n");
}

static void files_survive_a_restart_and_others_are_left_alone(void **state)
{
	static const char *const other[] = {
		"- {name: flows, number: 1, kind: key-write, slots: 1001, value: 8, copies: 2, seed: 1}",
		"- {name: flows, number: 1, kind: key-write, slots: 1000, value: 8, copies: 2, seed: 2}",
		"- {name: flows, number: 1, kind: increment, columns: 1000, seed: 1}",
	};
	char error[512], path[128], rest[128];
	struct stat before, after;
	struct translator t;
	struct dta_store_server *o;
	int fd;

	(void)state;
	snprintf(rest, sizeof(rest), "directory: %s", test_folder);
	snprintf(path, sizeof(path), "%s/flows.0.0.store", test_folder);
	for (int run = 0; run < 3; run++) {
		o = own(yaml(rest, FLOWS), error);
		assert_non_null(o);
		assert_true(is_epoch(o, (uint64_t)run));
		assert_int_equal(found(o, 100), run == 1); /* two epochs are kept */
		assert_null(dta_store_server_new(write_file("2.yaml", yaml(rest, FLOWS)), error,
						 sizeof(error)));
		assert_non_null(strstr(error, "another collector"));
		come(&t, socket_path(), "t");
		put(&t, 0, (uint64_t)run, 100 + (uint64_t)run);
		assert_true(found(o, 100 + (uint64_t)run));
		leave(&t);
		dta_store_server_free(o);
	}
	assert_int_equal(stat(path, &before), 0);
	for (size_t i = 0; i < sizeof(other) / sizeof(*other); i++) {
		assert_null(own(yaml(rest, other[i]), error));
		assert_non_null(strstr(error, "in this file"));
		assert_non_null(strstr(error, path));
	}
	fd = open(path, O_RDWR);
	assert_int_equal(pwrite(fd, "\2", 1, 8), 1); /* the version */
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "version 2"));
	assert_int_equal(pwrite(fd, "\1", 1, 8), 1);
	assert_int_equal(ftruncate(fd, before.st_size - 1), 0);
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "truncated"));
	assert_int_equal(ftruncate(fd, 100), 0);
	assert_null(own(yaml(rest, FLOWS), error));
	assert_non_null(strstr(error, "truncated"));
	assert_int_equal(stat(path, &after), 0);
	assert_int_equal(after.st_ino, before.st_ino);
	assert_int_equal(after.st_size, 100);
	close(fd);
	assert_int_equal(unlink(path), 0);
}

/* One line names the file, and the file stays unchanged, whatever its owner and size. */
static void files_of_others_or_of_a_wrong_size_are_refused(void **state)
{
	char error[512], path[128], kept[128], rest[128], text[1024];
	struct dta_store_object *object;
	const char *config;
	struct stat st;
	struct dta_store_server *o;

	(void)state;
	snprintf(rest, sizeof(rest), "directory: %s", test_folder);
	snprintf(path, sizeof(path), "%s/flows.0.0.store", test_folder);
	snprintf(kept, sizeof(kept), "%s/elsewhere", test_folder);
	snprintf(text, sizeof(text), "%s", yaml(rest, FLOWS));
	o = own(text, error);
	assert_non_null(o);
	dta_store_server_free(o);
	config = write_file("s.yaml", text);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
#define REFUSED(said)                                                            \
	do {                                                                     \
		assert_null(dta_store_server_new(config, error, sizeof(error))); \
		assert_non_null(strstr(error, said));                            \
		assert_non_null(strstr(error, path));                            \
		assert_null(strchr(error, '\n'));                                \
	} while (0)
	/*
	 * Owned by another user: root may do everything, so the test becomes another user for a
	 * moment.
	 */
	assert_int_equal(chmod(test_folder, 0755), 0);
	assert_int_equal(chmod(config, 0644), 0);
	if (geteuid())
		assert_int_equal(chmod(path, 0), 0);
	else
		assert_int_equal(seteuid(65534), 0);
	object = dta_store_object_open(path, error, sizeof(error));
	assert_null(object);
	assert_non_null(strstr(error, "Permission denied"));
	assert_null(dta_store_server_new(config, error, sizeof(error)));
	if (!getuid())
		assert_int_equal(seteuid(0), 0);
	assert_non_null(strstr(error, "Permission denied"));
	assert_non_null(strstr(error, path));
	assert_int_equal(chmod(path, 0600), 0);
	/* Longer than its header states, by one page and by several. */
	assert_int_equal(truncate(path, st.st_size + 1), 0);
	REFUSED("too long");
	assert_int_equal(truncate(path, st.st_size + 8192), 0);
	REFUSED("too long");
	assert_int_equal(truncate(path, st.st_size), 0);
	/*
	 * In another folder, through a link: a folder that others can write to could lead anywhere.
	 */
	assert_int_equal(rename(path, kept), 0);
	assert_int_equal(symlink(kept, path), 0);
	REFUSED("symbolic link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkdir(path, 0700), 0);
	REFUSED("directory");
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rename(kept, path), 0);
	o = dta_store_server_new(config, error, sizeof(error));
	assert_non_null(o);
	dta_store_server_free(o);
	assert_int_equal(unlink(path), 0);
}

/* More than 4 GiB, of which only touched pages exist. */
static void a_store_of_more_than_4_gib_is_asked_like_any(void **state)
{
	struct sl_store_config c = {.kind = SL_STORE_KEYWRITE,
				    .slots = 300000000,
				    .value_bytes = 8,
				    .copies = 2,
				    .rows = 1,
				    .lanes = 1,
				    .banks = 2,
				    .seed = 3};
	uint64_t bytes = dta_store_object_bytes(&c), key = 0;
	struct dta_query q = {.key = &key, .key_bytes = 8, .epoch = ~0ull};
	struct translator t = {0};
	struct dta_store_view v;
	struct sl_keywrite_answer a;
	char error[160];
	uint8_t *map;
	int fd;

	(void)state;
	fd = memfd_create("big", MFD_CLOEXEC);
	assert_true(bytes > 2 * (4ull << 30));
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
	assert_true(map != MAP_FAILED);
	dta_store_format(map, &c, "big");
	dta_store_epochs_set(map, &(struct dta_store_epochs){.epoch = 1, .state = SL_STATE_LIVE});
	t.object[0] = (struct dta_object){.map = map, .bytes = bytes};
	for (key = 1; key <= 50; key++)
		put(&t, 0, 1, key);
	assert_int_equal(dta_store_view(map, bytes, &v, error, sizeof(error)), 0);
	for (key = 1; key <= 50; key++) {
		dta_view_keywrite(&v, &q, &a);
		assert_int_equal(a.result, SL_QUERY_FOUND);
	}
	munmap(map, bytes);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(huge_pages_are_had_or_it_is_said_why_not),
		cmocka_unit_test(files_survive_a_restart_and_others_are_left_alone),
		cmocka_unit_test(files_of_others_or_of_a_wrong_size_are_refused),
		cmocka_unit_test(a_store_of_more_than_4_gib_is_asked_like_any),
	};

	base_log_level = BASE_ERROR;
	return cmocka_run_group_tests_name("owner's memory", tests, folder_make, folder_remove);
}
