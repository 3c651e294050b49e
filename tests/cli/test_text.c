// SPDX-License-Identifier: Apache-2.0
/* test_text.c - text from elsewhere: UTF-8, truncation, control characters, hexadecimal digits. */
#include "support/test.h"

#include <string.h>

#include "base/text.h"

/* A character of each length, each followed by 'x'. */
#define ALL	"x\xc3\xa9x\xe2\x82\xacx\xf0\x9f\x98\x80x"
#define ALL_END (sizeof(ALL) - 1)

static void only_well_formed_utf8_is_accepted(void **state)
{
	static const char *const wrong[] = {
		"\x80",		 "\xc3",
		"\xc3x",	 "\xc0\xaf",
		"\xe0\x80\xaf",	 "\xed\xa0\x80",
		"\xe2\x82",	 "\xf0\x80\x80\xaf",
		"\xf5x",	 "\xf4\x90\x80\x80",
		"\xf0\x9f\x98x",
	};

	(void)state;
	assert_true(base_utf8(ALL, ALL_END));
	assert_false(base_utf8(ALL, ALL_END + 1)); /* the NUL */
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(base_utf8(wrong[i], strlen(wrong[i])));
}

static void truncation_keeps_characters_whole(void **state)
{
	static const size_t kept[ALL_END] = {0, 1, 1, 3, 4, 4, 4, 7, 8, 8, 8, 8, 12};

	(void)state;
	for (size_t most = 0; most < ALL_END; most++)
		assert_int_equal(base_utf8_cut(ALL, ALL_END, most), kept[most]);
	/* A text that fits is kept, whatever follows it in memory. */
	assert_int_equal(base_utf8_cut(ALL, 2, 2), 2);
	assert_int_equal(base_utf8_cut(ALL, ALL_END, ALL_END + 5), ALL_END);
	assert_int_equal(base_utf8_cut("\x80\x80\x80", 3, 2), 0);
}

static void control_characters_become_question_marks(void **state)
{
	char controls[] = "a\x1b[2J\x7f\n\xc2\x9b é", latin1[] = "caf\xe9 \xc3\xa9";

	(void)state;
	base_harmless(controls);
	assert_string_equal(controls, "a?[2J????"
				      " é");
	base_harmless(latin1);
	assert_string_equal(latin1, "caf? ??");
}

static void hexadecimal_digits_are_read_back(void **state)
{
	const unsigned char bytes[] = {0, 0x1f, 0xff};
	unsigned char back[3];
	char text[7];

	(void)state;
	base_hex(text, bytes, 3);
	assert_string_equal(text, "001fff");
	assert_int_equal(base_unhex(back, "001FfF", 3), 0);
	assert_memory_equal(back, bytes, 3);
	assert_true(base_unhex(back, "001ff", 3) < 0);
	assert_true(base_unhex(back, "001fffa", 3) < 0);
	assert_true(base_unhex(back, "001ffg", 3) < 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_well_formed_utf8_is_accepted),
		cmocka_unit_test(truncation_keeps_characters_whole),
		cmocka_unit_test(control_characters_become_question_marks),
		cmocka_unit_test(hexadecimal_digits_are_read_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
