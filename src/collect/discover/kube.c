// SPDX-License-Identifier: Apache-2.0
/* kube.c - asks the Kubernetes API for the pods that are ready */
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <curl/curl.h>
#include <jansson.h>

#include "base/base.h"
#include "collect/discover/source_internal.h"
#include "http/client.h"

#define ACCOUNT	   "/var/run/secrets/kubernetes.io/serviceaccount"
#define TIMEOUT_NS 5000000000ull /* timeout for a page */
#define PAGE	   500u		 /* pods per page, as in kubectl */
#define PAGE_MAX   (64u << 20)
/* Limits the pages read from an API server whose list never ends. */
#define PAGES_MAX (COLLECT_TARGETS_MAX / PAGE * 4)

struct discovered_api {
	struct http_client *client;
	char *pods; /* URL of the list */
	struct http_fetched page;
};

static int fetch_page(struct discovered_api *api, const char *url, char *error, size_t error_bytes)
{
	const struct http_fetch f = {
		.client = api->client, .url = url, .timeout_ns = TIMEOUT_NS, .most = PAGE_MAX};

	if (http_fetch(&f, &api->page))
		return base_fail(error, error_bytes, -EINVAL, "Kubernetes: %s", api->page.why);
	if (api->page.status != 200)
		return base_fail(error, error_bytes, -EINVAL, "Kubernetes: HTTP %ld",
				 api->page.status);
	return 0;
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

static int add_pods(json_t *items, const char *port, struct collect_targets *t, char *error,
		    size_t error_bytes)
{
	char name[128];
	json_t *pod;
	size_t i;
	int err = 0;

	json_array_foreach(items, i, pod)
	{
		const char *ip =
			json_string_value(json_object_get(json_object_get(pod, "status"), "podIP"));

		if (err || !ip || !is_ready(pod))
			continue;
		snprintf(name, sizeof(name), strchr(ip, ':') ? "[%s]:%s" : "%s:%s", ip, port);
		err = collect_source_add(t, name, error, error_bytes);
	}
	return err;
}

/*
 * Adds the pods of one page. *next is the API's name of this page, or NULL for the first; it is
 * replaced by the name of the next page, to be freed, or NULL after the last.
 */
static int add_page(struct discovered_api *api, char **next, const char *port,
		    struct collect_targets *t, char *error, size_t error_bytes)
{
	char *escaped = *next ? curl_easy_escape(NULL, *next, 0) : NULL, *url = NULL;
	json_t *root, *items, *meta;
	const char *more;
	int err;

	if ((*next && !escaped) ||
	    asprintf(&url, "%s%s%s", api->pods, *next ? "&continue=" : "", escaped ?: "") < 0) {
		curl_free(escaped);
		return base_fail(error, error_bytes, -ENOMEM, "out of memory");
	}
	free(*next);
	*next = NULL;
	err = fetch_page(api, url, error, error_bytes);
	curl_free(escaped);
	free(url);
	if (err)
		return err;
	root = json_loadb(api->page.body ?: "", api->page.bytes, 0, NULL);
	items = json_object_get(root, "items");
	meta = json_object_get(root, "metadata");
	more = json_string_value(json_object_get(meta, "continue"));
	if (!json_is_array(items))
		err = base_fail(error, error_bytes, -EINVAL,
				"Kubernetes: the response is not a list of pods");
	else
		err = add_pods(items, port, t, error, error_bytes);
	if (!err && more && *more) {
		*next = strdup(more);
		err = *next ? 0 : base_fail(error, error_bytes, -ENOMEM, "out of memory");
	}
	json_decref(root);
	return err;
}

/* Returns the URL of a list of pods, for NAMESPACE/SELECTOR:PORT, or NULL if out of memory. */
static char *make_url(const char *api, const char *what)
{
	const char *slash = strchr(what, '/'), *colon = strrchr(what, ':');
	char *selector = curl_easy_escape(NULL, slash + 1, (int)(colon - slash - 1)), *url = NULL;

	if (selector && asprintf(&url, "%s/api/v1/namespaces/%.*s/pods?limit=%u&labelSelector=%s",
				 api, (int)(slash - what), what, PAGE, selector) < 0)
		url = NULL;
	curl_free(selector);
	return url;
}

int collect_source_kube(const char *what, const struct collect_source_opts *o,
			struct collect_targets *t, char *error, size_t error_bytes)
{
	const char *host = getenv("KUBERNETES_SERVICE_HOST"),
		   *port = getenv("KUBERNETES_SERVICE_PORT"), *account = o->kube_account ?: ACCOUNT;
	char base[300], token[4096], ca[4096], *next = NULL;
	struct discovered_api api = {0};
	int err = 0;

	if (!o->kube_api && !host)
		return base_fail(error, error_bytes, -EINVAL,
				 "Kubernetes: not running in a pod: set --kube-api");
	snprintf(base, sizeof(base), "https://%s:%s", host ?: "", port ?: "443");
	snprintf(token, sizeof(token), "%s/token", account);
	snprintf(ca, sizeof(ca), "%s/ca.crt", account);
	api.client = http_client_of(token, ca);
	api.pods = make_url(o->kube_api ?: base, what);
	if (!api.client || !api.pods)
		err = base_fail(error, error_bytes, -ENOMEM, "out of memory");
	for (size_t pages = 0; !err && (!pages || next); pages++)
		err = pages == PAGES_MAX ? base_fail(error, error_bytes, -EINVAL,
						     "Kubernetes: the list of pods has too many "
						     "pages")
					 : add_page(&api, &next, strrchr(what, ':') + 1, t, error,
						    error_bytes);
	free(next);
	free(api.page.body);
	free(api.pods);
	http_client_close(api.client);
	return err;
}
