// SPDX-License-Identifier: Apache-2.0
#include "export/render.h"
#include <errno.h>
void sl_protobuf_step(struct sl_render *r)
{
	r->error = -ENOSYS;
}
