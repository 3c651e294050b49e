// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <wchar.h>

#include "cli/top/top.h"

const char *cli_top_safe(char *out, size_t bytes, const char *text)
{
	size_t left = strlen(text), n = 0;

	while (left && n + 1 < bytes) {
		mbstate_t state = {0};
		wchar_t c;
		size_t of = mbrtowc(&c, text, left, &state);
		/*
		 * Replace control characters and characters that change the text direction; both
		 * have no width.
		 */
		bool good = of && of <= left && wcwidth(c) == 1;

		if (!of || of > left)
			of = 1;
		if (n + (good ? of : 1) >= bytes)
			break;
		if (good) {
			memcpy(out + n, text, of);
			n += of;
		} else {
			out[n++] = '?';
		}
		text += of;
		left -= of;
	}
	out[n] = '\0';
	return out;
}

static const char *format_scaled(char out[16], double v, double step, const char *const *units,
				 int last)
{
	int unit = 0;

	if (!isfinite(v)) {
		snprintf(out, 16, "-");
		return out;
	}
	for (; v >= step && unit < last; unit++)
		v /= step;
	if (v > 0 && v < 0.095)
		snprintf(out, 16, "%.1g", v);
	else
		snprintf(out, 16, "%.*f%s",
			 v >= 100 || v < 0.005 ? 0
			 : v >= 10	       ? 1
					       : 2,
			 v, units[unit]);
	return out;
}

const char *cli_top_count(char out[16], double v)
{
	static const char *const units[] = {"", "k", "M", "G", "T"};

	return format_scaled(out, v, 1000, units, 4);
}

const char *cli_top_bytes(char out[16], double bytes)
{
	static const char *const units[] = {"", "K", "M", "G", "T"};

	return format_scaled(out, bytes, 1024, units, 4);
}

const char *cli_top_time(char out[16], double seconds)
{
	if (!(seconds >= 0) || seconds > 1e9) {
		snprintf(out, 16, "-");
		return out;
	}
	return cli_tcp_short_time(out, (uint64_t)(seconds * 1e9));
}

double cli_top_spark(const struct cli_top *t, const json_t *service, char *out, size_t bytes,
		     size_t width)
{
	static const char *const blocks[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const plain[] = {"_", ".", "-", "=", "+", "*", "%", "#"};
	const json_t *all = json_object_get(service, "spark");
	size_t n = json_array_size(all), used = 0;
	size_t first = n > width ? n - width : 0;
	double most = NAN;

	*out = '\0';
	for (size_t i = first; i < n; i++) {
		const json_t *v = json_array_get(all, i);

		if (json_is_number(v) && !(json_number_value(v) <= most))
			most = json_number_value(v);
	}
	for (size_t i = first; i < n && used + 4 < bytes; i++) {
		const json_t *v = json_array_get(all, i);
		double share = json_is_number(v) && most > 0 ? json_number_value(v) / most : 0;
		int level = share >= 1 ? 7 : share > 0 ? (int)(share * 8) : 0;
		const char *mark = !json_is_number(v) ? " " : (t->utf8 ? blocks : plain)[level];

		used += (size_t)snprintf(out + used, bytes - used, "%s", mark);
	}
	return most;
}
