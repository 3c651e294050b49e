// SPDX-License-Identifier: Apache-2.0
#include <sidelight/sidelight.h>

const char *sl_version(void)
{
	return SL_VERSION_STRING;
}
