/* SPDX-License-Identifier: Apache-2.0 */
/* kubernetes.h - Kubernetes' notation of label selectors and quantities. Pure. */
#ifndef SL_ACT_KUBERNETES_H
#define SL_ACT_KUBERNETES_H

#include <stdbool.h>
#include <stddef.h>

#define ACT_SELECTOR_TEXT 1024u
#define ACT_SELECTOR_MAX  16u /* requirements */
#define ACT_SELECTOR_SET  16u /* values of one */

enum act_selector_op { ACT_SELECT_IN, ACT_SELECT_NOT_IN, ACT_SELECT_EXISTS, ACT_SELECT_NOT_EXISTS };

struct act_selector {
	size_t count;
	struct {
		const char *key;
		enum act_selector_op op;
		const char *value[ACT_SELECTOR_SET];
		size_t values;
	} need[ACT_SELECTOR_MAX];
	char text[ACT_SELECTOR_TEXT]; /* backs the strings above */
};

/*
 * Parses like labels.Parse() of k8s.io/apimachinery: "a=b", "a==b", "a!=b", "a in (b, c)", "a notin
 * (b)", "a", "!a", joined by commas; "" selects all. 0, -EINVAL (malformed) or -E2BIG.
 */
int act_selector_parse(const char *s, struct act_selector *out);

struct act_selector_label {
	const char *key, *value;
};
/* A missing label is in no set, so it matches != and notin. */
bool act_selector_matches(const struct act_selector *s, const struct act_selector_label *labels,
			  size_t count);

/*
 * v >= 0 as a canonical quantity of thousandths, rounded up as Kubernetes does: "0", "1500m", "2",
 * "12k" (apimachinery, pkg/api/resource: no fraction, the largest suffix that needs none). NaN and
 * negative values are "0"; values are capped at 1e15.
 */
void act_quantity(double v, char out[32]);

#endif
