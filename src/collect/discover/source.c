// SPDX-License-Identifier: Apache-2.0
#include "collect/discover/source.h"

#include <arpa/inet.h>
#include <arpa/nameser.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/yaml.h"
#include "collect/discover/source_internal.h"

void collect_targets_free(struct collect_targets *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->name[i]);
	free(t->name);
	*t = (struct collect_targets){0};
}

int collect_source_add(struct collect_targets *t, const char *name, char *error, size_t error_bytes)
{
	size_t n = strlen(name);
	bool printable = n && n <= COLLECT_TARGET_MAX;
	char *copy;

	for (size_t i = 0; i < n; i++)
		printable = printable && (unsigned char)name[i] > ' ' && name[i] != 0x7f;
	if (!printable)
		return base_fail(error, error_bytes, -EINVAL,
				 "a host name is empty, too long or not printable");
	if (t->n >= COLLECT_TARGETS_MAX)
		return base_fail(error, error_bytes, -E2BIG, "too many hosts");
	copy = strdup(name);
	if (!copy || !BASE_GROW(t->name, t->n, t->room)) {
		free(copy);
		return base_fail(error, error_bytes, -ENOMEM, "out of memory");
	}
	t->name[t->n++] = copy;
	return 0;
}

/* ---- lists ---- */

static int ask_list(const char *list, struct collect_targets *t, char *error, size_t error_bytes)
{
	char *copy = strdup(list), *save = NULL;
	int err = copy ? 0 : -ENOMEM;

	for (char *name = copy ? strtok_r(copy, ",", &save) : NULL; name && !err;
	     name = strtok_r(NULL, ",", &save))
		err = collect_source_add(t, name, error, error_bytes);
	free(copy);
	return err;
}

/* ---- files ---- */

static int add_group(struct base_yaml *y, base_yaml_node group, struct collect_targets *t,
		     char *error, size_t error_bytes)
{
	base_yaml_node targets;
	int err = 0;

	if (!base_yaml_keys(y, group, "targets", "labels"))
		return -EINVAL;
	targets = base_yaml_need(y, group, "targets");
	for (size_t i = 0; i < base_yaml_count(y, targets) && !err; i++) {
		const char *name = base_yaml_text_at(y, targets, i, "a target");

		err = base_yaml_error(y) ? -EINVAL
					 : collect_source_add(t, name, error, error_bytes);
	}
	return err;
}

static int ask_file(const char *path, struct collect_targets *t, char *error, size_t error_bytes)
{
	struct base_yaml *y = base_yaml_open(path);
	base_yaml_node root = y ? base_yaml_root(y) : 0;
	int err = y ? 0 : -ENOMEM;

	if (y && !base_yaml_error(y) && (!root || !base_yaml_is_list(y, root)))
		base_yaml_wrong(y, root, "not a list of target groups");
	for (size_t i = 0; !err && y && !base_yaml_error(y) && i < base_yaml_count(y, root); i++)
		err = add_group(y, base_yaml_at(y, root, i), t, error, error_bytes);
	if (y && base_yaml_error(y))
		err = base_fail(error, error_bytes, -EINVAL, "%s", base_yaml_error(y));
	base_yaml_close(y);
	return err;
}

/* ---- DNS: RFC 2782 ---- */

/* Queries only this server. */
static bool use_server(struct __res_state *r, const char *server)
{
	char host[64];
	const char *colon = strrchr(server, ':');

	if (!colon || (size_t)(colon - server) >= sizeof(host))
		return false;
	snprintf(host, sizeof(host), "%.*s", (int)(colon - server), server);
	r->nscount = 1;
	r->nsaddr_list[0] = (struct sockaddr_in){.sin_family = AF_INET,
						 .sin_port = htons((uint16_t)atoi(colon + 1))};
	return inet_pton(AF_INET, host, &r->nsaddr_list[0].sin_addr) == 1;
}

static int add_record(ns_msg *m, int i, struct collect_targets *t, char *error, size_t error_bytes)
{
	char host[NS_MAXDNAME], name[NS_MAXDNAME + 8];
	ns_rr rr;

	if (ns_parserr(m, ns_s_an, i, &rr))
		return -EINVAL;
	if (ns_rr_type(rr) != ns_t_srv)
		return 0; /* skip an alias on the way to the answer */
	if (ns_rr_rdlen(rr) < 7 || ns_name_uncompress(ns_msg_base(*m), ns_msg_end(*m),
						      ns_rr_rdata(rr) + 6, host, sizeof(host)) < 0)
		return -EINVAL;
	snprintf(name, sizeof(name), "%s:%u", host, ns_get16(ns_rr_rdata(rr) + 4));
	return collect_source_add(t, name, error, error_bytes);
}

static int ask_dns(const char *name, const struct collect_source_opts *o, struct collect_targets *t,
		   char *error, size_t error_bytes)
{
	static const size_t room = 65536;
	struct __res_state r = {0};
	unsigned char *answer = malloc(room);
	int err, n = 0;
	ns_msg m;

	err = base_fail(error, error_bytes, -EINVAL, "%s: the answer is malformed", name);
	if (!answer || res_ninit(&r)) {
		free(answer);
		return err;
	}
	r.retrans = 2;
	r.retry = 2;
	if (o->dns_server && !use_server(&r, o->dns_server))
		base_fail(error, error_bytes, err, "%s: expected ADDRESS:PORT", o->dns_server);
	else if ((n = res_nsearch(&r, name, ns_c_in, ns_t_srv, answer, (int)room)) < 0)
		base_fail(error, error_bytes, err, "%s: %s", name, hstrerror(r.res_h_errno));
	else
		err = ns_initparse(answer, n, &m) ? err : 0;
	for (int i = 0; !err && i < ns_msg_count(m, ns_s_an); i++)
		err = add_record(&m, i, t, error, error_bytes);
	res_nclose(&r);
	free(answer);
	return err;
}

/* ---- all ---- */

/* Returns the text after the prefix, or NULL. */
static const char *strip_prefix(const char *source, const char *prefix)
{
	size_t n = strlen(prefix);

	return strncmp(source, prefix, n) ? NULL : source + n;
}

const char *collect_source_file(const char *source)
{
	return strip_prefix(source, "file:");
}

int collect_source_check(const char *source, char *error, size_t error_bytes)
{
	const char *kube = strip_prefix(source, "kube:"), *slash = kube ? strchr(kube, '/') : NULL;

	if (*source && (!kube || (slash && slash != kube && strrchr(kube, ':') > slash)))
		return 0;
	return base_fail(
		error, error_bytes, -EINVAL,
		"'%.100s' is not file:PATH, dns:NAME, kube:NAMESPACE/SELECTOR:PORT or names",
		source);
}

int collect_source_ask(const char *source, const struct collect_source_opts *o,
		       struct collect_targets *out, char *error, size_t error_bytes)
{
	const char *rest;
	int err;

	if ((rest = collect_source_file(source)))
		err = ask_file(rest, out, error, error_bytes);
	else if ((rest = strip_prefix(source, "dns:")))
		err = ask_dns(rest, o, out, error, error_bytes);
	else if ((rest = strip_prefix(source, "kube:")))
		err = collect_source_kube(rest, o, out, error, error_bytes);
	else
		err = ask_list(source, out, error, error_bytes);
	if (!err && !out->n)
		err = base_fail(error, error_bytes, -EINVAL, "%.100s: no hosts", source);
	return err ? -EINVAL : 0;
}
