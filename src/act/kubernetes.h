/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes.h - parses label selectors and formats quantities as Kubernetes does. Pure. */
#ifndef SL_ACT_KUBERNETES_H
#define SL_ACT_KUBERNETES_H

#include <stdbool.h>
#include <stddef.h>

#define ACT_SELECTOR_TEXT 1024u
#define ACT_SELECTOR_MAX  16u /* maximum number of requirements */
#define ACT_SELECTOR_SET  16u /* maximum number of values per requirement */

enum act_selector_op { ACT_SELECT_IN, ACT_SELECT_NOT_IN, ACT_SELECT_EXISTS, ACT_SELECT_NOT_EXISTS };

struct act_selector {
	size_t count;
	struct {
		const char *key;
		enum act_selector_op op;
		const char *value[ACT_SELECTOR_SET];
		size_t values;
	} need[ACT_SELECTOR_MAX];
	char text[ACT_SELECTOR_TEXT]; /* storage of the strings above */
};

/*
 * Parses like labels.Parse() of k8s.io/apimachinery: "a=b", "a==b", "a!=b", "a in (b, c)", "a notin
 * (b)", "a", "!a", joined by commas; "" selects all. Returns 0, -EINVAL (malformed) or -E2BIG.
 */
int act_selector_parse(const char *s, struct act_selector *out);

struct act_selector_label {
	const char *key, *value;
};
/* A missing label is in no set, so it matches != and notin. */
bool act_selector_matches(const struct act_selector *s, const struct act_selector_label *labels,
			  size_t count);

/*
 * Formats v >= 0 as a canonical quantity of thousandths, rounded up like Kubernetes: "0", "1500m",
 * "2", "12k" (apimachinery, pkg/api/resource: no fraction, the largest suffix possible without
 * one). NaN and negative values become "0"; values are limited to 1e15.
 */
void act_quantity(double v, char out[32]);

#endif
