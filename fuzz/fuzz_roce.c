// SPDX-License-Identifier: Apache-2.0
/*
 * What comes to a translator that makes its frames itself: frames that claim to be answers, and
 * "queue" messages. The first byte chooses: 0, 1: a raw frame over IPv4, IPv6; 2, 3 the same
 * with its iCRC set right, so that what lies behind it is reached; 4 JSON.
 */
#include <stdlib.h>
#include <string.h>

#include "dta/io/roce.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const struct dta_roce_end ours[2] = {
	{.qpn = 0x123456, .gid = {[10] = 0xff, 0xff, 10, 77, 0, 1}, .mac = {2}, .mtu = 1024},
	{.qpn = 0x123456, .gid = {0xfd, [15] = 1}, .mac = {2}, .mtu = 1024},
};
static const struct dta_roce_end theirs[2] = {
	{.qpn = 0x11, .gid = {[10] = 0xff, 0xff, 10, 77, 0, 2}, .mac = {2}, .mtu = 1024},
	{.qpn = 0x11, .gid = {0xfd, [15] = 2}, .mac = {2}, .mtu = 1024},
};

static void frame(uint8_t *f, size_t bytes, unsigned six)
{
	struct dta_roce_window w;
	struct dta_roce_answer a;

	if (dta_roce_parse(f, bytes, &ours[six], &theirs[six], &a) != DTA_ROCE_FINE)
		return;
	dta_roce_window(&w, a.psn ^ (a.msn & 0xff), 64, 1000, 3);
	w.queued = 64;
	dta_roce_sent(&w, 40, 1);
	dta_roce_answered(&w, &a, 2);
	if (w.acked > 40 || w.sent < w.acked || w.sent > 40 || dta_roce_may_send(&w, 1u << 30) > 64)
		abort();
	dta_roce_timer(&w, 1u << 30);
	if (w.sent < w.acked || w.highest != 40)
		abort();
}

/* Where its IP header says that it ends. */
static void seal(uint8_t *f, size_t bytes)
{
	size_t head = 14 + (bytes > 12 && f[12] == 0x08 ? 20 : 40) + 8 + 12 + 4, end;
	uint32_t icrc;

	if (bytes < head)
		return;
	end = f[12] == 0x08 ? 14u + (f[16] << 8 | f[17]) : 54u + (f[18] << 8 | f[19]);
	if (end < head || end > bytes)
		return;
	icrc = dta_roce_icrc(f, end);
	memcpy(f + end - 4, &icrc, 4);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct dta_roce_end e;
	uint8_t *copy;
	json_t *j;

	if (!bytes)
		return 0;
	copy = malloc(bytes); /* of just this size, so that a step beyond is seen */
	memcpy(copy, data + 1, bytes - 1);
	switch (data[0]) {
	case 2:
	case 3:
		seal(copy, bytes - 1);
		/* fall through */
	case 0:
	case 1:
		frame(copy, bytes - 1, data[0] & 1);
		break;
	case 4:
		j = json_loadb((char *)copy, bytes - 1, 0, NULL);
		if (!dta_roce_end_of_json(j, &e) && dta_roce_end_check(&e))
			abort();
		json_decref(j);
		break;
	}
	free(copy);
	return 0;
}
