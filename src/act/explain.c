// SPDX-License-Identifier: Apache-2.0
#include "act/explain.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND_NS 1000000000ll

struct explain_text {
	char *at;
	size_t left;
};

__attribute__((format(printf, 2, 3))) static void append_text(struct explain_text *t,
							      const char *fmt, ...)
{
	va_list ap;
	size_t n;

	va_start(ap, fmt);
	n = (size_t)vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	n = n < t->left ? n : t->left - 1;
	t->at += n;
	t->left -= n;
}

const char *act_pod_label(const struct act_pod_name *n, char *text, size_t room)
{
	/* Without a configured pod name, libsidelight uses the host name. */
	bool named = *n->pod && strcmp(n->pod, n->host);
	const char *name = named ? n->pod : *n->container ? n->container : n->service;

	if (named || !n->process)
		snprintf(text, room, "%s", *name ? name : "a pod");
	else
		snprintf(text, room, "%s[%u]", *name ? name : "process", n->process);
	return text;
}

static void add_time(struct explain_text *t, int64_t ns)
{
	time_t s = (time_t)(ns / SECOND_NS);
	struct tm tm;
	char text[32];

	gmtime_r(&s, &tm);
	strftime(text, sizeof(text), "%H:%M:%S", &tm);
	append_text(t, "%s.%d UTC", text, (int)(ns % SECOND_NS / (SECOND_NS / 10)));
}

static void add_metric(struct explain_text *t, const struct act_finding *f, uint32_t i)
{
	const char *unit = f->blame[i].rate ? "/s" : "";
	double now = f->blame[i].value, before = f->blame[i].before;

	append_text(t, "%s%s", i ? ", " : "", f->blame[i].metric);
	if (isfinite(now) && isfinite(before))
		append_text(t, " %s from %.3g%s to %.3g%s", now < before ? "fell" : "rose", before,
			    unit, now, unit);
	else if (isfinite(now))
		append_text(t, " is %.3g%s", now, unit);
	append_text(t, " (%.0f %%)", f->blame[i].share * 100);
}

void act_explain(char *text, size_t room, const struct act_pod_name *n, int64_t begin_ns,
		 const struct act_finding *f)
{
	struct explain_text t = {text, room};
	char label[ACT_POD_LABEL_BYTES + 16];

	append_text(&t, "%s since ", act_pod_label(n, label, sizeof(label)));
	add_time(&t, begin_ns);
	append_text(&t, ": ");
	for (uint32_t i = 0; i < f->blames && i < ACT_BLAMES; i++)
		add_metric(&t, f, i);
	if (f->delay > 0)
		append_text(&t, "%scalls to it take %.2g s longer", f->blames ? "; " : "",
			    f->delay);
	else if (!f->blames)
		append_text(&t, "no single metric stands out");
	if (!f->callers)
		append_text(&t, "; its callers are not known");
	else if (*f->callers)
		append_text(&t, "; its callers %s show it", f->callers);
	else
		append_text(&t, "; no caller shows it");
	append_text(&t, "; score %.3g, where 1 is the threshold", f->score);
	if (f->next)
		append_text(&t, ", the next suspect is %s with %.2g", f->next, f->next_score);
}
