// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>

#include "cli/common.h"

void cli_print_safe(const char *s, int width)
{
	int n = 0;

	for (; *s; s++, n++)
		putchar((unsigned char)*s < 32 || *s == 127 ? '?' : *s);
	for (; n < width; n++)
		putchar(' ');
}
