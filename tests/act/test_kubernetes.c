// SPDX-License-Identifier: Apache-2.0
/* test_kubernetes.c - selectors match as in Kubernetes, and quantities have its notation. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "support/test.h"
#include "act/kubernetes.h"

static void selectors_select_what_they_should(void **state)
{
	static const struct act_selector_label labels[] = {{"service", "cart"}, {"empty", ""}};
	static const struct {
		const char *text;
		int result; /* 1: matches, 0: not, < 0: error */
	} cases[] = {
		{"", 1},
		{"  ", 1},
		{"service=cart", 1},
		{"service==cart", 1},
		{" service = cart , empty = ", 1},
		{"service=mail", 0},
		{"service!=mail", 1},
		{"service!=cart", 0},
		{"other!=x", 1},
		{"other=x", 0},
		{"service in (mail,cart)", 1},
		{"service in ( mail )", 0},
		{"service notin (mail)", 1},
		{"service notin (cart, mail)", 0},
		{"empty in (,a)", 1},
		{"service", 1},
		{"other", 0},
		{"!other", 1},
		{"! service", 0},
		{"service=cart,!other,empty", 1},
		{"service=cart,", -EINVAL},
		{",service=cart", -EINVAL},
		{"=cart", -EINVAL},
		{"service===cart", -EINVAL},
		{"service in cart", -EINVAL},
		{"service in (cart", -EINVAL},
		{"service within (cart)", -EINVAL},
		{"service cart", -EINVAL},
		{"service=ca rt", -EINVAL},
		{"!", -EINVAL},
		{"a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", -E2BIG},
		{"a in (1,2,3,4,5,6,7,8,9,0,1,2,3,4,5,6,7)", -E2BIG},
	};
	struct act_selector s;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		int got = act_selector_parse(cases[i].text, &s);

		if (!got)
			got = act_selector_matches(&s, labels, 2);
		if (got != cases[i].result)
			fail_msg("\"%s\": %d in place of %d", cases[i].text, got, cases[i].result);
	}
}

static void any_text_is_parsed_within_bounds(void **state)
{
	static const char letters[] = "a=!,() in";
	struct act_selector *s = malloc(sizeof(*s)); /* so that a sanitizer sees its end */
	char text[ACT_SELECTOR_TEXT + 1];

	(void)state;
	srand(1);
	for (int i = 0; i < 100000; i++) {
		size_t n = (size_t)(rand() % (i % 100 ? 30 : ACT_SELECTOR_TEXT));

		for (size_t k = 0; k < n; k++)
			text[k] = letters[(size_t)rand() % (sizeof(letters) - 1)];
		text[n] = '\0';
		act_selector_parse(text, s);
	}
	memset(text, '!', ACT_SELECTOR_TEXT);
	text[ACT_SELECTOR_TEXT] = '\0';
	assert_int_equal(act_selector_parse(text, s), -E2BIG);
	free(s);
}

static void quantities_are_canonical_and_rounded_up(void **state)
{
	static const struct {
		double v;
		const char *text;
	} cases[] = {{0, "0"},	    {-1, "0"},	  {NAN, "0"},	   {0.0001, "1m"},
		     {0.5, "500m"}, {1, "1"},	  {1.5, "1500m"},  {1.2341, "1235m"},
		     {10, "10"},    {1000, "1k"}, {1200, "1200"},  {12000, "12k"},
		     {5e6, "5M"},   {1e15, "1P"}, {INFINITY, "1P"}};
	char text[32];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		act_quantity(cases[i].v, text);
		assert_string_equal(text, cases[i].text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selectors_select_what_they_should),
		cmocka_unit_test(any_text_is_parsed_within_bounds),
		cmocka_unit_test(quantities_are_canonical_and_rounded_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
