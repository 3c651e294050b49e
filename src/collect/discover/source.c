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

#include <curl/curl.h>
#include <jansson.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/secret.h"
#include "base/yaml.h"

#define ACCOUNT	   "/var/run/secrets/kubernetes.io/serviceaccount"
#define ANSWER_MAX (64u << 20)
#define TIMEOUT_MS 5000l

int collect_targets_add(struct collect_targets *t, const char *name)
{
	size_t n = strlen(name);
	char *copy;

	if (!n || n > COLLECT_TARGET_MAX)
		return -EINVAL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] <= ' ' || name[i] == 0x7f)
			return -EINVAL;
	if (t->n >= COLLECT_TARGETS_MAX)
		return -E2BIG;
	copy = strdup(name);
	if (!copy || !BASE_GROW(t->name, t->n, t->room)) {
		free(copy);
		return -ENOMEM;
	}
	t->name[t->n++] = copy;
	return 0;
}

void collect_targets_free(struct collect_targets *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->name[i]);
	free(t->name);
	*t = (struct collect_targets){0};
}

static int add(struct collect_targets *t, const char *name, char *error, size_t error_bytes)
{
	int err = collect_targets_add(t, name);

	if (err)
		snprintf(error, error_bytes, "%s",
			 err == -EINVAL	 ? "a name of a host is empty, too long or not printable"
			 : err == -E2BIG ? "too many hosts"
					 : "out of memory");
	return err;
}

/* ---- lists ---- */

static int ask_list(const char *list, struct collect_targets *t, char *error, size_t error_bytes)
{
	char *copy = strdup(list), *save = NULL;
	int err = copy ? 0 : -ENOMEM;

	for (char *name = copy ? strtok_r(copy, ",", &save) : NULL; name && !err;
	     name = strtok_r(NULL, ",", &save))
		err = add(t, name, error, error_bytes);
	free(copy);
	return err;
}

/* ---- files ---- */

static int add_group(struct base_yaml *y, base_yaml_node group, struct collect_targets *t,
		     char *error, size_t error_bytes)
{
	static const char *const keys[] = {"targets", "labels", NULL};
	base_yaml_node targets;
	int err = 0;

	if (!base_yaml_mapping(y, group, keys))
		return -EINVAL;
	targets = base_yaml_need(y, group, "targets");
	for (size_t i = 0; i < base_yaml_count(y, targets) && !err; i++) {
		const char *name = "";

		base_yaml_string(y, base_yaml_at(y, targets, i), "a target", &name);
		err = base_yaml_error(y) ? -EINVAL : add(t, name, error, error_bytes);
	}
	return err;
}

static int ask_file(const char *path, struct collect_targets *t, char *error, size_t error_bytes)
{
	struct base_yaml *y = base_yaml_open(path);
	base_yaml_node root = y ? base_yaml_root(y) : 0;
	int err = y ? 0 : -ENOMEM;

	if (y && !base_yaml_error(y) && (!root || !base_yaml_is_list(y, root)))
		base_yaml_wrong(y, root, "not a list of groups of targets");
	for (size_t i = 0; !err && y && !base_yaml_error(y) && i < base_yaml_count(y, root); i++)
		err = add_group(y, base_yaml_at(y, root, i), t, error, error_bytes);
	if (y && base_yaml_error(y)) {
		snprintf(error, error_bytes, "%s", base_yaml_error(y));
		err = -EINVAL;
	}
	base_yaml_close(y);
	return err;
}

/* ---- DNS: RFC 2782 ---- */

/* Asks this server alone. */
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
		return 0; /* an alias on the way */
	if (ns_rr_rdlen(rr) < 7 || ns_name_uncompress(ns_msg_base(*m), ns_msg_end(*m),
						      ns_rr_rdata(rr) + 6, host, sizeof(host)) < 0)
		return -EINVAL;
	snprintf(name, sizeof(name), "%s:%u", host, ns_get16(ns_rr_rdata(rr) + 4));
	return add(t, name, error, error_bytes);
}

static int ask_dns(const char *name, const struct collect_source_opts *o, struct collect_targets *t,
		   char *error, size_t error_bytes)
{
	static const size_t room = 65536;
	struct __res_state r = {0};
	unsigned char *answer = malloc(room);
	int err = -EINVAL, n;
	ns_msg m;

	snprintf(error, error_bytes, "%s: the answer is malformed", name);
	if (!answer || res_ninit(&r))
		goto out;
	r.retrans = 2;
	r.retry = 2;
	if (o->dns_server && !use_server(&r, o->dns_server)) {
		snprintf(error, error_bytes, "%s: not ADDRESS:PORT", o->dns_server);
		goto close;
	}
	n = res_nsearch(&r, name, ns_c_in, ns_t_srv, answer, (int)room);
	if (n < 0) {
		snprintf(error, error_bytes, "%s: %s", name, hstrerror(r.res_h_errno));
		goto close;
	}
	err = ns_initparse(answer, n, &m) ? -EINVAL : 0;
	for (int i = 0; !err && i < ns_msg_count(m, ns_s_an); i++)
		err = add_record(&m, i, t, error, error_bytes);
close:
	res_nclose(&r);
out:
	free(answer);
	return err;
}

/* ---- Kubernetes ---- */

struct discovered_body {
	char *text;
	size_t bytes, room;
};

static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct discovered_body *a = arg;

	if (a->bytes + size * n > ANSWER_MAX ||
	    !base_grow(&a->text, &a->room, a->bytes + size * n, 1))
		return 0;
	memcpy(a->text + a->bytes, data, size * n);
	a->bytes += size * n;
	return size * n;
}

/* The account's token as a header; NULL: there is none. */
static struct curl_slist *bearer(const char *account)
{
	static const char head[] = "Authorization: Bearer ";
	char text[sizeof(head) + 8192], path[4096];
	struct curl_slist *list;
	ssize_t n;

	snprintf(path, sizeof(path), "%s/token", account);
	memcpy(text, head, sizeof(head));
	n = base_secret_read(path, text + sizeof(head) - 1, 8192);
	if (n < 0)
		return NULL;
	text[sizeof(head) - 1 + (size_t)n] = 0;
	list = curl_slist_append(NULL, text);
	explicit_bzero(text, sizeof(text));
	return list;
}

static int get(const char *url, const char *account, struct discovered_body *to, char *error,
	       size_t error_bytes)
{
	struct curl_slist *headers = bearer(account);
	CURL *c = curl_easy_init();
	CURLcode code = CURLE_OUT_OF_MEMORY;
	char ca[4096];
	long status = 0;

	snprintf(ca, sizeof(ca), "%s/ca.crt", account);
	if (c) {
		curl_easy_setopt(c, CURLOPT_URL, url);
		curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1l);
		curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, TIMEOUT_MS);
		curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
		curl_easy_setopt(c, CURLOPT_HTTPHEADER, headers);
		curl_easy_setopt(c, CURLOPT_CAINFO, ca);
		curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
		curl_easy_setopt(c, CURLOPT_WRITEDATA, to);
		code = curl_easy_perform(c);
		curl_easy_getinfo(c, CURLINFO_RESPONSE_CODE, &status);
		curl_easy_cleanup(c);
	}
	curl_slist_free_all(headers);
	if (code == CURLE_OK && status == 200)
		return 0;
	if (code != CURLE_OK)
		snprintf(error, error_bytes, "Kubernetes: %s", curl_easy_strerror(code));
	else
		snprintf(error, error_bytes, "Kubernetes: HTTP %ld", status);
	return -EINVAL;
}

static bool is_ready(json_t *pod)
{
	json_t *c, *all = json_object_get(json_object_get(pod, "status"), "conditions");
	size_t i;

	json_array_foreach(all, i, c)
	{
		const char *type = json_string_value(json_object_get(c, "type"));
		const char *is = json_string_value(json_object_get(c, "status"));

		if (type && is && !strcmp(type, "Ready"))
			return !strcmp(is, "True");
	}
	return false;
}

static int add_pods(const struct discovered_body *a, const char *port, struct collect_targets *t,
		    char *error, size_t error_bytes)
{
	json_t *root = json_loadb(a->text ?: "", a->bytes, 0, NULL), *pod;
	json_t *items = json_object_get(root, "items");
	int err = json_is_array(items) ? 0 : -EINVAL;
	char name[128];
	size_t i;

	if (err)
		snprintf(error, error_bytes, "Kubernetes: the answer is not a list of pods");
	json_array_foreach(items, i, pod)
	{
		const char *ip =
			json_string_value(json_object_get(json_object_get(pod, "status"), "podIP"));

		if (err || !ip || !is_ready(pod))
			continue;
		snprintf(name, sizeof(name), strchr(ip, ':') ? "[%s]:%s" : "%s:%s", ip, port);
		err = add(t, name, error, error_bytes);
	}
	json_decref(root);
	return err;
}

static int ask_kube(const char *what, const struct collect_source_opts *o,
		    struct collect_targets *t, char *error, size_t error_bytes)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT"), *slash = strchr(what, '/'),
		   *colon = strrchr(what, ':');
	char base[300], *selector, *url = NULL;
	struct discovered_body a = {0};
	int err = -EINVAL;

	snprintf(base, sizeof(base), "https://%s:%s", host ?: "", port ?: "443");
	if (!o->kube_api && !host) {
		snprintf(error, error_bytes, "Kubernetes: this is not a pod: give --kube-api");
		return -EINVAL;
	}
	selector = curl_easy_escape(NULL, slash + 1, (int)(colon - slash - 1));
	if (selector && asprintf(&url, "%s/api/v1/namespaces/%.*s/pods?labelSelector=%s",
				 o->kube_api ?: base, (int)(slash - what), what, selector) > 0)
		err = get(url, o->kube_account ?: ACCOUNT, &a, error, error_bytes);
	if (!err)
		err = add_pods(&a, colon + 1, t, error, error_bytes);
	curl_free(selector);
	free(url);
	free(a.text);
	return err;
}

/* ---- all ---- */

static const char *behind(const char *source, const char *head)
{
	size_t n = strlen(head);

	return strncmp(source, head, n) ? NULL : source + n;
}

int collect_source_check(const char *source, char *error, size_t error_bytes)
{
	const char *kube = behind(source, "kube:"), *slash = kube ? strchr(kube, '/') : NULL;

	if (*source && (!kube || (slash && slash != kube && strrchr(kube, ':') > slash)))
		return 0;
	snprintf(error, error_bytes,
		 "'%.100s' is not file:PATH, dns:NAME, kube:NAMESPACE/SELECTOR:PORT or names",
		 source);
	return -EINVAL;
}

int collect_source_ask(const char *source, const struct collect_source_opts *o,
		       struct collect_targets *out, char *error, size_t error_bytes)
{
	struct collect_targets t = {0};
	const char *rest;
	int err;

	if ((rest = behind(source, "file:")))
		err = ask_file(rest, &t, error, error_bytes);
	else if ((rest = behind(source, "dns:")))
		err = ask_dns(rest, o, &t, error, error_bytes);
	else if ((rest = behind(source, "kube:")))
		err = ask_kube(rest, o, &t, error, error_bytes);
	else
		err = ask_list(source, &t, error, error_bytes);
	if (!err && !t.n) {
		snprintf(error, error_bytes, "%.100s: no hosts", source);
		err = -EINVAL;
	}
	for (size_t i = 0; i < t.n && !err; i++)
		err = add(out, t.name[i], error, error_bytes);
	collect_targets_free(&t);
	return err ? -EINVAL : 0;
}
