/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "fabric/provider.h"

static bool verbs_takes(const char *target)
{
	return target[0] != '\0';
}

static int verbs_open(struct sl_fabric *f, const char *target)
{
	sl_fabric_failed(f, "%s: this sidelight was built without RDMA (libibverbs, librdmacm)",
			 target);
	return -EOPNOTSUPP;
}

static void verbs_close(struct sl_fabric *f)
{
	(void)f;
}

static void verbs_drive(struct sl_fabric *f, uint64_t now_ns)
{
	(void)f;
	(void)now_ns;
}

const struct sl_fabric_ops sl_provider_verbs = {
	.name = "verbs",
	.takes = verbs_takes,
	.bytes = sizeof(struct sl_fabric),
	.open = verbs_open,
	.close = verbs_close,
	.drive = verbs_drive,
};
