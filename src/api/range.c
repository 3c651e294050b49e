// SPDX-License-Identifier: Apache-2.0

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/internal.h"
#include "api/selected.h"
#include "base/base.h"

#define RANGE_MAX_NS 86400000000000ll
#define YEAR_9999    253402300799.0 /* seconds */

/* Rounds to milliseconds and clamps times beyond API_SECONDS_MAX. */
static int64_t to_ns(double seconds)
{
	return llround(fmax(fmin(seconds, API_SECONDS_MAX), -API_SECONDS_MAX) * 1e3) * 1000000;
}

bool api_parse_time(const char *s, int64_t *ns)
{
	struct tm tm = {.tm_isdst = 0};
	int hours, minutes;
	char sign, *end;
	double seconds = strtod(s, &end);

	if (*s && !*end && isfinite(seconds) && fabs(seconds) < YEAR_9999) {
		*ns = to_ns(seconds);
		return true;
	}
	end = strptime(s, "%Y-%m-%dT%H:%M:%S", &tm);
	if (!end || tm.tm_year < 70 || tm.tm_year > 8099)
		return false;
	seconds = *end == '.' ? strtod(end, &end) : 0;
	*ns = to_ns((double)timegm(&tm) + seconds);
	if (!strcasecmp(end, "Z"))
		return true;
	if (sscanf(end, "%c%2d:%2d", &sign, &hours, &minutes) != 3 || strlen(end) != 6 ||
	    (sign != '+' && sign != '-'))
		return false;
	*ns -= (sign == '+' ? 1 : -1) * (hours * 60ll + minutes) * 60 * 1000000000;
	return true;
}

bool api_param_time(struct http_request *req, const char *key, int64_t *ns)
{
	const char *s = api_param_text(req, key);

	if (!s || api_parse_time(s, ns))
		return true;
	http_reply_error(req, 400,
			 "%s=%.40s: expected a time in Unix seconds or in RFC 3339 "
			 "format",
			 key, s);
	return false;
}

bool api_param_range(struct http_request *req, uint64_t last_ns, struct api_range *out)
{
	const char *last = api_param_text(req, "last");

	out->to_ns = (int64_t)base_realtime_ns();
	if (last && (base_parse_duration(last, &last_ns) || !last_ns || last_ns > RANGE_MAX_NS)) {
		http_reply_error(
			req, 400,
			"last=%.40s: expected a duration up to 24h, such as 500ms, 10s or 5m",
			last);
		return false;
	}
	if (last && (api_param_text(req, "start") || api_param_text(req, "end"))) {
		http_reply_error(req, 400, "specify either last, or start and end");
		return false;
	}
	if (!api_param_time(req, "end", &out->to_ns))
		return false;
	out->from_ns = out->to_ns - (int64_t)last_ns;
	if (!api_param_time(req, "start", &out->from_ns))
		return false;
	if (out->from_ns > 0 && out->from_ns < out->to_ns &&
	    out->to_ns - out->from_ns <= RANGE_MAX_NS)
		return true;
	http_reply_error(req, 400, "start must be before end, and at most 24h earlier");
	return false;
}

struct api_steps api_steps(const struct api_range *r, uint64_t most, int64_t least_ns)
{
	/*
	 * Choose the width so that there is room for one more step, which the alignment may need.
	 */
	int64_t width = (r->to_ns - r->from_ns) / (int64_t)BASE_MAX(most, 1u) + 1;
	struct api_steps s;

	/* Use whole milliseconds, so that JSON can represent the end of a step exactly. */
	width = BASE_MAX(width, least_ns);
	s.width_ns = (width + 999999) / 1000000 * 1000000;
	s.first_ns = (r->from_ns / s.width_ns + 1) * s.width_ns;
	s.n = s.first_ns > r->to_ns ? 0 : (size_t)((r->to_ns - s.first_ns) / s.width_ns) + 1;
	return s;
}

int64_t api_step_of(const struct api_steps *s, int64_t ns)
{
	const int64_t from = s->first_ns - s->width_ns;

	/* A step includes its end, but not its beginning. */
	return ns <= from ? -1 : (ns - from - 1) / s->width_ns;
}

int64_t api_step_ns(const struct api_steps *s, size_t i)
{
	return s->first_ns + (int64_t)i * s->width_ns;
}

bool api_is_late(uint64_t begun_ns)
{
	return base_now_ns() - begun_ns > API_WORK_NS;
}
