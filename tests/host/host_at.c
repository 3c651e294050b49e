// SPDX-License-Identifier: Apache-2.0
/*
 * host_at ROOT SOCKET [CGROUPS_MAX] - publishes the machine that the files below ROOT describe. For
 * each line of standard input, it reads everything and answers "ERRORS REFUSED LEFT_OUT TIME",
 * where TIME is the time since 1970 before reading.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/base.h"
#include "source/host/host.h"

int main(int argc, char **argv)
{
	char line[64];
	struct host *h = argc < 3 ? NULL
				  : host_open(&(struct host_opts){
					    .root = argv[1],
					    .socket = argv[2],
					    .cgroups_max = argc > 3 ? (uint32_t)atoi(argv[3]) : 0});

	if (!h)
		return 1;
	while (fgets(line, sizeof(line), stdin)) {
		/* The printed time is rounded. */
		uint64_t before = base_realtime_ns() - 1000;
		struct host_counts c;

		host_round(h, base_now_ns(), true);
		c = host_counts(h);
		printf("%llu %llu %llu %.6f\n", (unsigned long long)c.errors,
		       (unsigned long long)c.refused, (unsigned long long)c.left_out,
		       (double)before / 1e9);
		fflush(stdout);
	}
	host_close(h);
	return 0;
}
