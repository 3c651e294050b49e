// SPDX-License-Identifier: Apache-2.0
/* parse_text.c 004|openmetrics FILE - prints the contents of a body, or why it is refused. */
#include <string.h>

#include "base/base.h"
#include "record.h"
#include "bridge/text.h"

int main(int argc, char **argv)
{
	struct bridge_text_parser *p = bridge_text_new(NULL);
	struct bridge_error why = {0};
	struct record r;
	size_t bytes;
	char *body = argc == 3 ? base_read_file(argv[2], BRIDGE_BODY_MAX, &bytes) : NULL;
	int err;

	if (!p || !body)
		return 2;
	record_begin(&r);
	err = bridge_text_read(p, !strcmp(argv[1], "004") ? BRIDGE_TEXT_004 : BRIDGE_OPENMETRICS,
			       body, bytes, &r.sink, &why);
	free(body);
	bridge_text_free(p);
	fputs(record_end(&r), stdout);
	free(r.text);
	if (err)
		printf("line %u: %s\n", why.line, why.text);
	return err ? 1 : 0;
}
