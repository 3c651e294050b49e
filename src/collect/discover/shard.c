// SPDX-License-Identifier: Apache-2.0
#include "collect/discover/shard.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <sidelight/region.h>

#include "base/base.h"
#include "collect/discover/source.h"

#define FILE_MAX 4096u

/*
 * FNV-1a alone gives similar names similar hashes: the finalizer of splitmix64 (G. L. Steele et
 * al., OOPSLA 2014) spreads each bit over all others. The result is the same in all builds and on
 * all machines.
 */
uint64_t collect_shard_hash(unsigned int member, const char *host)
{
	uint64_t h = sl_fnv1a(SL_FNV_BASIS, host, strlen(host)) + member * 0x9e3779b97f4a7c15u;

	h = (h ^ h >> 30) * 0xbf58476d1ce4e5b9u;
	h = (h ^ h >> 27) * 0x94d049bb133111ebu;
	return h ^ h >> 31;
}

bool collect_shard_reads(const struct collect_shard *s, unsigned int replicas, const char *host)
{
	const uint64_t own = collect_shard_hash(s->member, host);
	unsigned int before = 0;

	for (unsigned int i = 0; i < s->members && before < replicas; i++) {
		uint64_t h = collect_shard_hash(i, host);

		/* If hashes are equal, the lower number comes first. */
		before += h > own || (h == own && i < s->member);
	}
	return before < replicas;
}

/* Accepts only digits, followed by `end`. */
static bool parse_number(const char *text, char end, unsigned int *out)
{
	size_t n = strspn(text, "0123456789");

	*out = (unsigned int)strtoul(text, NULL, 10);
	return n && n < 6 && text[n] == end;
}

/* Finds the number in the pod's or host's name: 3 for "web-3" and "web-3.example.com". */
static int find_ordinal(unsigned int *out, char *error, size_t error_bytes)
{
	char name[HOST_NAME_MAX + 1] = "";
	const char *pod = getenv("POD_NAME"), *dash;

	if (pod)
		snprintf(name, sizeof(name), "%s", pod);
	else
		gethostname(name, sizeof(name) - 1);
	name[strcspn(name, ".")] = '\0';
	dash = strrchr(name, '-');
	if (dash && parse_number(dash + 1, '\0', out))
		return 0;
	return base_fail(error, error_bytes, -EINVAL,
			 "auto: %s '%.100s' does not end in '-' and a number",
			 pod ? "$POD_NAME" : "the host name", name);
}

static int parse_pair(const char *text, struct collect_shard *out, char *error, size_t error_bytes)
{
	const char *slash = strchr(text, '/');
	struct collect_shard s = {0};
	int err = 0;

	if (!slash || !parse_number(slash + 1, '\0', &s.members) ||
	    (strncmp(text, "auto/", 5) && !parse_number(text, '/', &s.member)))
		return base_fail(error, error_bytes, -EINVAL,
				 "'%.100s' is not I/N, auto/N or file:PATH", text);
	if (!strncmp(text, "auto/", 5))
		err = find_ordinal(&s.member, error, error_bytes);
	if (!err && s.members > COLLECT_SHARDS_MAX)
		err = base_fail(error, error_bytes, -EINVAL,
				"'%.100s': at most %u shards are allowed", text,
				COLLECT_SHARDS_MAX);
	if (!err && s.member >= s.members)
		err = base_fail(error, error_bytes, -EINVAL,
				"'%.100s': shards are numbered from 0 to %u", text, s.members - 1);
	if (!err)
		*out = s;
	return err;
}

int collect_shard_parse(const char *text, struct collect_shard *out, char *error,
			size_t error_bytes)
{
	const char *path = collect_source_file(text);
	char *line;
	size_t bytes;
	int err;

	if (!path)
		return parse_pair(text, out, error, error_bytes);
	line = base_read_file(path, FILE_MAX, &bytes);
	if (!line)
		return base_fail(error, error_bytes, -EINVAL, "%s: %s", path, strerror(errno));
	bytes = strcspn(line, "\n");
	while (bytes && isspace((unsigned char)line[bytes - 1]))
		bytes--;
	line[bytes] = '\0';
	err = parse_pair(line, out, error, error_bytes);
	free(line);
	return err;
}
