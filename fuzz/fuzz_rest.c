// SPDX-License-Identifier: Apache-2.0
/*
 * fuzz_rest.c - requests to the agent's REST interface. The input is lines and a body:
 *
 *	METHOD PATH
 *	flags: u another user, c one who may read all regions
 *	body up to a line of "--", and then the next request
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/rest.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *next_line(const char **p, const char *end, char *out, size_t max)
{
	const char *nl = memchr(*p, '\n', (size_t)(end - *p));
	size_t n = (size_t)((nl ? nl : end) - *p);

	if (n >= max)
		n = max - 1;
	memcpy(out, *p, n);
	out[n] = 0;
	*p = nl ? nl + 1 : end;
	return out;
}

static void one(struct agent *a, const char **p, const char *end)
{
	char head[512], flags[8], method[16] = "GET", path[400] = "/", variable[64] = "";
	struct agent_rest_caller caller = {0};
	struct agent_rest_request q = {
		.method = method, .path = path, .variable = variable, .caller = &caller};
	struct agent_rest_reply reply;
	const char *body;

	next_line(p, end, head, sizeof(head));
	if (sscanf(head, "%15s %399s", method, path) < 1)
		return;
	if (sscanf(path, "/rdma/qp/%63[^/]", variable) == 1) {
		char *rest = strchr(path + strlen("/rdma/qp/"), '/');

		snprintf(path, sizeof(path), "/rdma/qp/{}%s", rest ? "/connect" : "");
	}
	next_line(p, end, flags, sizeof(flags));
	body = *p;
	q.body = body;
	while (*p < end && !(end - *p >= 3 && !memcmp(*p, "--\n", 3))) {
		const char *nl = memchr(*p, '\n', (size_t)(end - *p));

		*p = nl ? nl + 1 : end;
	}
	q.bytes = (size_t)(*p - body);
	if (*p < end)
		*p += 3;
	caller.id.uid = strchr(flags, 'u') ? 1000 : geteuid();
	caller.key = agent_tenant_key(&caller.id);
	caller.trusted = caller.id.uid == geteuid();
	caller.reader = caller.trusted || strchr(flags, 'c');

	agent_rest_handle(a, &q, &reply);
	if (reply.layout) {
		char text[777];
		ssize_t n;

		while ((n = agent_layout_read(reply.layout, text, sizeof(text))) > 0)
			;
		agent_layout_done(reply.layout);
	} else if (!reply.json || reply.status < 200 || reply.status > 599) {
		abort();
	} else {
		json_decref(reply.json);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct agent_opts o = {
		.socket = "/nowhere",
		.host = "fuzz",
		.max_regions = 8,
		.max_memory = 4u << 20,
		.grace_ns = 1000000000,
		.lease_ns = 100000000,
	};
	const char *p = (const char *)data, *end = p + size;
	struct agent a;
	char error[256];

	base_log_level = BASE_ERROR;
	if (agent_init(&a, &o, error, sizeof(error)))
		return 0;
	for (int i = 0; p < end && i < 16; i++)
		one(&a, &p, end);
	/* Whatever was posted, a reader finds regions that hold. */
	for (uint32_t i = 0; i < a.slot_count; i++) {
		struct agent_region *r = a.slots[i];
		struct region_schema schema;
		struct region_hot hot;
		uint64_t line[8];

		if (!r)
			continue;
		region_copy_words(line, (uint64_t *)((char *)r->map + r->info->hot), 8);
		if (region_hot_parse(line, r->info, &hot))
			abort();
		region_schema_init(&schema);
		if (region_schema_append(&schema, r->info, (char *)r->map + r->info->schema,
					 hot.schema_used))
			abort();
		region_schema_free(&schema);
	}
	agent_fini(&a);
	return 0;
}
