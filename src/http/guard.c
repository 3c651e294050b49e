// SPDX-License-Identifier: Apache-2.0
/*
 * guard.c - reloads web.yml and its files when one of them changes. The front receives everything
 * except the private key; this process signs handshakes for it.
 */
#include <errno.h>
#include <gnutls/abstract.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "http/internal.h"

int http_guard_init(struct http *h, char *error, size_t error_bytes)
{
	if (!h->opts.web_config) {
		return h->opts.roles_file ? base_fail(error, error_bytes, -EINVAL,
						      "a roles file requires a web.yml that "
						      "declares its users and certificates")
					  : 0;
	}
	h->web = http_web_read(h->opts.web_config, h->opts.roles_file, error, error_bytes);
	if (!h->web)
		return -errno;
	if (h->web->tls && h->is_unix)
		return base_fail(
			error, error_bytes, -EINVAL,
			"%s: TLS cannot be used on a unix socket, where the kernel identifies the client",
			h->opts.web_config);
	return 0;
}

void http_guard_end(struct http *h)
{
	http_web_free(h->web);
	http_web_free(h->former);
	gnutls_memset(&h->users.key, 0, sizeof(h->users.key));
	pthread_mutex_destroy(&h->users.lock);
	pthread_rwlock_destroy(&h->web_lock);
}

int http_guard_tell(struct http *h)
{
	const struct http_web *w = h->web;
	struct http_message m = {.type = HTTP_TLS};
	struct http_message_tls head = {0};
	char *text, *at;
	int err;

	if (!w || !w->tls)
		return 0;
	head.stamp = (uint32_t)w->stamp;
	head.client_auth = w->client_auth;
	/*
	 * Request certificates so that the front proxy can present one. Any other client with a
	 * certificate must be known as well.
	 */
	if (w->proxy_ca.data && w->client_auth == HTTP_CLIENT_NONE)
		head.client_auth = HTTP_CLIENT_VERIFY_IF_GIVEN;
	head.cert = (uint32_t)w->cert.bytes;
	head.ca = (uint32_t)w->ca.bytes;
	head.proxy_ca = (uint32_t)w->proxy_ca.bytes;
	snprintf(head.priority, sizeof(head.priority), "%s", w->priority);
	for (size_t i = 0; i < w->san_count; i++)
		head.names += (uint32_t)strlen(w->sans[i]) + 1;
	for (size_t i = 0; i < w->proxy_name_count; i++)
		head.proxy_names += (uint32_t)strlen(w->proxy_names[i]) + 1;
	m.bytes = (uint32_t)sizeof(head) + head.cert + head.ca + head.proxy_ca + head.names +
		  head.proxy_names;
	if (m.bytes > HTTP_TLS_MAX)
		return -EFBIG;
	at = text = malloc(m.bytes);
	if (!text)
		return -ENOMEM;
	at = mempcpy(at, w->cert.data, head.cert);
	if (head.ca)
		at = mempcpy(at, w->ca.data, head.ca);
	if (head.proxy_ca)
		at = mempcpy(at, w->proxy_ca.data, head.proxy_ca);
	for (size_t i = 0; i < w->san_count; i++)
		at = mempcpy(at, w->sans[i], strlen(w->sans[i]) + 1);
	for (size_t i = 0; i < w->proxy_name_count; i++)
		at = mempcpy(at, w->proxy_names[i], strlen(w->proxy_names[i]) + 1);
	pthread_mutex_lock(&h->say);
	err = http_message_send(h->control, m, &head, sizeof(head), text, (size_t)(at - text), NULL,
				0);
	pthread_mutex_unlock(&h->say);
	free(text);
	return err;
}

/*
 * Returns the reason why a reload is not possible while clients are connected with the old
 * settings, or NULL.
 */
static const char *why_unfit(const struct http *h, const struct http_web *w)
{
	if (w->tls != h->web->tls)
		return "enabling or disabling TLS requires a restart";
	if (!h->is_unix && !http_web_authenticates(w) && http_web_authenticates(h->web) &&
	    !h->opts.open && !*h->reader_token)
		return "clients would no longer be authenticated";
	return NULL;
}

static void set_web(struct http *h, struct http_web *web, struct http_web *former,
		    struct http_web *unused)
{
	pthread_rwlock_wrlock(&h->web_lock);
	h->web = web;
	h->former = former;
	http_web_free(unused);
	pthread_rwlock_unlock(&h->web_lock);
}

/*
 * Applies the new settings. If the front cannot receive them, frees w and keeps the old settings,
 * because the front still uses the old certificate and needs its key.
 */
static int use_settings(struct http *h, struct http_web *w)
{
	struct http_web *web = h->web, *former = h->former;
	int err;

	/* Handshakes that started with the old key are completed with it. */
	set_web(h, w, web, NULL);
	err = http_guard_tell(h);
	if (err == -EPIPE) /* there is no front; the next one receives the settings on startup */
		err = 0;
	if (err)
		set_web(h, web, former, w);
	else
		set_web(h, w, web, former);
	return err;
}

void http_guard_poll(struct http *h)
{
	struct http_web *w;
	char error[512];
	uint64_t stamp;
	int err;

	if (!h->web)
		return;
	stamp = http_web_stamp(h->opts.web_config, h->opts.roles_file);
	if (stamp == h->web->stamp || stamp == h->failed_stamp)
		return;
	w = http_web_read(h->opts.web_config, h->opts.roles_file, error, sizeof(error));
	if (w && why_unfit(h, w)) {
		snprintf(error, sizeof(error), "%s: %s", h->opts.web_config, why_unfit(h, w));
		http_web_free(w);
		w = NULL;
	}
	if (!w) {
		/*
		 * Files that are being replaced one by one may not match yet, so check again next
		 * time.
		 */
		if (stamp == h->doubted_stamp) {
			h->failed_stamp = stamp;
			relaxed_add(h->refused[HTTP_REFUSED_SETTINGS], 1);
			base_logf(BASE_ERROR, "http",
				  "cannot use the changed files, keeping the previous settings: %s",
				  error);
		}
		h->doubted_stamp = stamp;
		return;
	}
	h->failed_stamp = h->doubted_stamp = 0;
	err = use_settings(h, w);
	if (err) {
		relaxed_add(h->refused[HTTP_REFUSED_SETTINGS], 1);
		base_log_limited(BASE_ERROR, "http",
				 "cannot pass on the changed settings, trying again: %s",
				 strerror(-err));
		return;
	}
	base_logf(BASE_INFO, "http", "settings reloaded path=%s users=%zu listen=%s",
		  h->opts.web_config, w->user_count, h->address);
}

/* Signs a hash, or data for algorithms that hash it themselves. */
static int sign_data(gnutls_privkey_t key, uint32_t algorithm, const gnutls_datum_t *in,
		     gnutls_datum_t *out)
{
	const gnutls_sign_algorithm_t a = (gnutls_sign_algorithm_t)algorithm;

	return a == GNUTLS_SIGN_EDDSA_ED25519 || a == GNUTLS_SIGN_EDDSA_ED448
		       ? gnutls_privkey_sign_data2(key, a, 0, in, out)
		       : gnutls_privkey_sign_hash2(key, a, 0, in, out);
}

ssize_t http_guard_sign(struct http *h, uint32_t stamp, uint32_t algorithm, const void *data,
			size_t bytes, unsigned char out[HTTP_SIGNATURE])
{
	const gnutls_datum_t in = {(unsigned char *)(uintptr_t)data, (unsigned int)bytes};
	gnutls_datum_t signature = {0};
	const struct http_web *w;
	ssize_t n = -EIO;

	pthread_rwlock_rdlock(&h->web_lock);
	w = h->web && (uint32_t)h->web->stamp == stamp	       ? h->web
	    : h->former && (uint32_t)h->former->stamp == stamp ? h->former
							       : NULL;
	if (w && w->key && !sign_data(w->key, algorithm, &in, &signature) &&
	    signature.size <= HTTP_SIGNATURE) {
		memcpy(out, signature.data, signature.size);
		n = (ssize_t)signature.size;
	}
	pthread_rwlock_unlock(&h->web_lock);
	gnutls_free(signature.data);
	return n;
}
