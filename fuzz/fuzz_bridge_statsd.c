// SPDX-License-Identifier: Apache-2.0
/* fuzz_bridge_statsd.c - packets with any content, published: every line is in one counter. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bridge/statsd.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct sl_publisher *p = sl_publisher_open(
		&SL_OPTS(sl_publisher_opts, .service = "fuzz", .pod = "fuzz",
			 .flags = SL_PUBLISHER_DETACHED, .max_cells = 2048, .max_threads = 1));
	struct bridge_statsd *s = bridge_statsd_new(
		p, &(struct bridge_statsd_opts){.series = 16, .dogstatsd = bytes % 2});
	char *packet = malloc(bytes ? bytes : 1);

	if (!p || !s || !packet)
		abort();
	memcpy(packet, data, bytes);
	bridge_statsd_packet(s, packet, bytes, 1);
	bridge_statsd_tick(s, 2, 0);
	bridge_statsd_packet(s, packet, bytes, 2);
	bridge_statsd_tick(s, 1000, 999);
	bridge_statsd_packet(s, packet, bytes, 1001);
	bridge_statsd_tick(s, 20000000000, 1); /* refused series expire after 10 s */
	if (bridge_statsd_series(s))
		abort();
	free(packet);
	bridge_statsd_free(s);
	sl_publisher_close(p);
	return 0;
}
