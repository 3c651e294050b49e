// SPDX-License-Identifier: Apache-2.0
/* rest_tcp.c - handles POST and PUT of /tcp/filter. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/rest.h"
#include "source/tcp/tcp.h"

#define LIST_MOST 256u

/* Reads an array of strings. The strings belong to j; the caller frees the list. */
static bool read_strings(const json_t *j, const char *key, struct base_strings *out,
			 struct agent_rest_reply *reply)
{
	const json_t *list = json_object_get(j, key), *one;
	size_t i;

	if (!list)
		return true;
	if (!json_is_array(list) || json_array_size(list) > LIST_MOST)
		return agent_rest_fail(reply, 400, "\"%s\" must be an array of at most %u strings",
				       key, LIST_MOST);
	out->v = calloc(json_array_size(list) + 1, sizeof(*out->v));
	if (!out->v)
		return agent_rest_fail(reply, 500, "out of memory");
	json_array_foreach(list, i, one)
	{
		if (!json_is_string(one) ||
		    strlen(json_string_value(one)) != json_string_length(one))
			return agent_rest_fail(reply, 400, "\"%s\" must be an array of strings",
					       key);
		out->v[out->n++] = json_string_value(one);
	}
	return true;
}

static bool read_number(const json_t *j, const char *key, uint32_t most, uint32_t *out,
			struct agent_rest_reply *reply)
{
	const json_t *n = json_object_get(j, key);

	if (!n)
		return true;
	if (!json_is_integer(n) || json_integer_value(n) < 0 || json_integer_value(n) > most)
		return agent_rest_fail(reply, 400, "\"%s\" must be a number from 0 to %u", key,
				       most);
	*out = (uint32_t)json_integer_value(n);
	return true;
}

/* The body replaces the whole filter; an absent field matches everything. */
void agent_rest_set_tcp_filter(struct agent *a, const struct agent_rest_request *q,
			       struct agent_rest_reply *reply)
{
	static const char *const known[] = {"ports", "cidrs",  "cgroups", "netns",
					    "pid",   "sample", NULL};
	struct tcp_filter filter = {0};
	json_t *j = agent_rest_object(q, reply);
	const char *netns = "";
	char why[256];
	int err;

	if (!j)
		return;
	if (!agent_rest_fields_known(j, known, reply) ||
	    !read_strings(j, "ports", &filter.ports, reply) ||
	    !read_strings(j, "cidrs", &filter.cidrs, reply) ||
	    !read_strings(j, "cgroups", &filter.cgroups, reply) ||
	    !read_number(j, "pid", INT32_MAX, &filter.pid, reply) ||
	    !read_number(j, "sample", 20, &filter.sample, reply))
		goto out;
	netns = agent_rest_text(j, "netns", 4095, false, reply);
	if (!netns)
		goto out;
	filter.netns = *netns ? netns : NULL;
	pthread_mutex_lock(&a->lock);
	err = agent_tcp_filter(a, &filter, why, sizeof(why));
	pthread_mutex_unlock(&a->lock);
	if (!err)
		reply->json = json_pack("{s:O}", "filter", j);
	else
		agent_rest_fail(reply,
				err == -ENOENT	 ? 409
				: err == -EINVAL ? 400
						 : 500,
				"%s", why);
out:
	free(filter.ports.v);
	free(filter.cidrs.v);
	free(filter.cgroups.v);
	json_decref(j);
}
