// SPDX-License-Identifier: Apache-2.0
/*
 * many SOCKET N - a publisher with default options that makes N series; each counts to its own
 * number.
 */
#include <stdio.h>
#include <stdlib.h>

#include <sidelight/sidelight.h>

int main(int argc, char **argv)
{
	struct sl_publisher *p = sl_publisher_open(&SL_OPTS(sl_publisher_opts, .service = "many",
							    .socket = argc > 2 ? argv[1] : NULL));
	struct sl_counter_family f = sl_counter_family_create(
		p, &SL_OPTS(sl_metric_opts, .name = "many_total", .help = "Many."));

	for (int i = 0; argc > 2 && i < atoi(argv[2]); i++) {
		char number[16];

		snprintf(number, sizeof(number), "%d", i);
		sl_counter_add(sl_counter_with(f, &(struct sl_label){"n", number}, 1), (uint64_t)i);
	}
	puts("made");
	fflush(stdout);
	getchar();
	sl_publisher_close(p);
	return 0;
}
