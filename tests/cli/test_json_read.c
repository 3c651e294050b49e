/* SPDX-License-Identifier: Apache-2.0 */
/* JSON from untrusted sources, also when memory runs out at any moment; uses --wrap=malloc. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "base/json_read.h"

/* Number of allocations until one fails, and whether all later ones fail or none. */
static unsigned until_failure, failures;
static bool for_good;

void *__real_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes);
void *__wrap_malloc(size_t bytes)
{
	if (until_failure && !--until_failure) {
		failures++;
		until_failure = for_good;
		return NULL;
	}
	return __real_malloc(bytes);
}

/*
 * Strings for whose last quote libjansson's buffer has to grow, so that the quote could be lost;
 * then more of everything else.
 */
static char *long_strings(void)
{
	char *text = malloc(100000), *at = text;

	assert_non_null(text);
	at += sprintf(at, "{\"a\": [");
	for (int room = 16; room <= 4096; room *= 2)
		at += sprintf(at, "\"%0*d\", ", room - 2, room);
	at += sprintf(at, "-12345678901234567.5e-3, true, null, {}], \"b\": \"");
	for (int i = 0; i < 4000; i++)
		at += sprintf(at, "\u20ac\\ud83d\\ude00");
	sprintf(at, "\"}");
	return text;
}

static void running_out_of_memory_refuses_the_text(void **state)
{
	char *text = long_strings();
	json_error_t why;
	unsigned all = 0;

	(void)state;
	base_json_guard();
	for (int forever = 0; forever < 2; forever++) {
		for (unsigned n = 1;; n++) {
			json_t *j;

			failures = 0;
			until_failure = n;
			for_good = forever;
			j = base_json_read(text, strlen(text), &why);
			until_failure = 0;
			if (!failures) {
				assert_non_null(j);
				json_decref(j);
				all = n;
				break;
			}
			assert_null(j);
			assert_string_equal(why.text, "out of memory");
		}
		assert_true(all > 20);
	}
	free(text);
}

static void texts_are_read_whole_and_strictly(void **state)
{
	static const char *const wrong[] = {"",
					    "{",
					    "{} x",
					    "{\"a\":1,\"a\":2}",
					    "[1,]",
					    "\"\\u0000\"",
					    "{\"a\\u0000b\":1}",
					    "\"\xff\"",
					    "[1]\n]"};
	json_error_t why;
	json_t *j;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		assert_null(base_json_read(wrong[i], strlen(wrong[i]), &why));
		assert_true(*why.text && why.line > 0);
		assert_null(base_json_read(wrong[i], strlen(wrong[i]), NULL));
	}
	assert_null(base_json_read(NULL, 0, &why));
	assert_null(base_json_read("{}\0", 3, &why));
	j = base_json_read("{\"a\": [1, 2.5]} trailing", 15, &why);
	assert_int_equal(json_array_size(json_object_get(j, "a")), 2);
	json_decref(j);
	j = base_json_read("{\n\"a\": @}", 9, &why);
	assert_null(j);
	assert_int_equal(why.line, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(running_out_of_memory_refuses_the_text),
		cmocka_unit_test(texts_are_read_whole_and_strictly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
