// SPDX-License-Identifier: Apache-2.0
#include "http/tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <gnutls/abstract.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "http/front.h"
#include "http/web.h"

#define CHAIN_MAX 16u

struct http_tls {
	struct http_server *server;
	uint32_t references, stamp;
	enum http_client_auth auth;
	gnutls_certificate_credentials_t credentials;
	gnutls_priority_t priority;
	int pk; /* algorithm of the certificate's key */
	unsigned int bits;
	char *sans; /* NUL-terminated names, one of which a client's certificate must have */
	size_t sans_bytes;
	/* authorities of front proxies; NULL if none are configured */
	gnutls_x509_trust_list_t proxies;
	char *proxy_names; /* NUL-terminated common names, one of which a proxy must have */
	size_t proxy_names_bytes;
};

/* ---- the key, which is in the back ---- */

/* Signs a hash, or the data itself for algorithms that hash it themselves. */
static int sign_in_back(gnutls_privkey_t key, gnutls_sign_algorithm_t algorithm, void *arg,
			unsigned int flags, const gnutls_datum_t *data, gnutls_datum_t *signature)
{
	const struct http_tls *t = arg;
	const struct http_message ask = {.type = HTTP_SIGN,
					 .bytes = data->size,
					 .slot = (uint32_t)algorithm,
					 .arg = t->stamp};
	unsigned char got[HTTP_SIGNATURE];
	ssize_t n;

	(void)key, (void)flags;
	if (data->size > HTTP_MESSAGE_SIGN)
		return GNUTLS_E_PK_SIGN_FAILED;
	n = http_front_sign(t->server, ask, data->data, got);
	signature->data = n > 0 ? gnutls_malloc((size_t)n) : NULL;
	if (!signature->data)
		return GNUTLS_E_PK_SIGN_FAILED;
	memcpy(signature->data, got, (size_t)n);
	signature->size = (unsigned int)n;
	return 0;
}

static int about_key(gnutls_privkey_t key, unsigned int flags, void *arg)
{
	const struct http_tls *t = arg;

	(void)key;
	if (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO)
		return t->pk;
	if (flags & GNUTLS_PRIVKEY_INFO_PK_ALGO_BITS)
		return (int)t->bits;
	if (flags & GNUTLS_PRIVKEY_INFO_HAVE_SIGN_ALGO)
		return gnutls_sign_supports_pk_algorithm(GNUTLS_FLAGS_TO_SIGN_ALGO(flags),
							 (gnutls_pk_algorithm_t)t->pk) != 0;
	return GNUTLS_E_UNIMPLEMENTED_FEATURE;
}

/*
 * Sets the certificate chain, and a key whose private part is in the back process, which signs for
 * this one.
 */
static int set_key(struct http_tls *t, const gnutls_datum_t *cert)
{
	gnutls_pcert_st *chain = calloc(CHAIN_MAX, sizeof(*chain));
	unsigned int n = CHAIN_MAX;
	gnutls_privkey_t key = NULL;
	int err = chain ? 0 : GNUTLS_E_MEMORY_ERROR;

	/* If the last call succeeds, the credentials own the chain's certificates and the key. */
	err = err ?: gnutls_pcert_list_import_x509_raw(chain, &n, cert, GNUTLS_X509_FMT_PEM, 0);
	if (err >= 0) {
		t->pk = gnutls_pubkey_get_pk_algorithm(chain->pubkey, &t->bits);
		err = gnutls_privkey_init(&key);
	}
	if (err >= 0)
		err = gnutls_privkey_import_ext4(key, t, sign_in_back, sign_in_back, NULL, NULL,
						 about_key, 0);
	/* The back has already checked that they match. */
	gnutls_certificate_set_flags(t->credentials, GNUTLS_CERTIFICATE_SKIP_KEY_CERT_MATCH);
	if (err >= 0)
		err = gnutls_certificate_set_key(t->credentials, NULL, 0, chain, (int)n, key);
	for (unsigned int i = 0; err < 0 && chain && i < CHAIN_MAX; i++)
		gnutls_pcert_deinit(&chain[i]);
	if (err < 0 && key)
		gnutls_privkey_deinit(key);
	free(chain);
	return err;
}

/* ---- settings ---- */

/*
 * Copies NUL-terminated strings. Returns NULL if out of memory or if the last string is not
 * terminated.
 */
static char *copy_strings(const char *from, size_t bytes)
{
	char *to = bytes && from[bytes - 1] ? NULL : malloc(bytes + 1);

	return to ? memcpy(to, from, bytes) : NULL;
}

static bool trust_proxies(struct http_tls *t, const gnutls_datum_t *ca)
{
	return !ca->size || (!gnutls_x509_trust_list_init(&t->proxies, 0) &&
			     gnutls_x509_trust_list_add_trust_mem(t->proxies, ca, NULL,
								  GNUTLS_X509_FMT_PEM, 0, 0) > 0);
}

static bool unpack_settings(struct http_tls *t, const char *at, size_t bytes)
{
	struct http_message_tls head;
	gnutls_datum_t cert, ca, proxy_ca;
	const char *end = at + bytes;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, at, sizeof(head));
	at += sizeof(head);
	if (head.client_auth > HTTP_CLIENT_REQUIRE ||
	    (size_t)(end - at) !=
		    (size_t)head.cert + head.ca + head.proxy_ca + head.names + head.proxy_names ||
	    bytes > HTTP_TLS_MAX || head.priority[sizeof(head.priority) - 1])
		return false;
	t->stamp = head.stamp;
	t->auth = (enum http_client_auth)head.client_auth;
	cert = (gnutls_datum_t){(unsigned char *)(uintptr_t)at, head.cert};
	ca = (gnutls_datum_t){cert.data + head.cert, head.ca};
	proxy_ca = (gnutls_datum_t){ca.data + head.ca, head.proxy_ca};
	t->proxy_names = copy_strings(end - head.proxy_names, head.proxy_names);
	t->proxy_names_bytes = head.proxy_names;
	t->sans = copy_strings(end - head.proxy_names - head.names, head.names);
	t->sans_bytes = head.names;
	return t->sans && t->proxy_names &&
	       !gnutls_priority_init(&t->priority, head.priority, NULL) &&
	       !gnutls_certificate_allocate_credentials(&t->credentials) &&
	       set_key(t, &cert) >= 0 && trust_proxies(t, &proxy_ca) &&
	       (!ca.size || gnutls_certificate_set_x509_trust_mem(t->credentials, &ca,
								  GNUTLS_X509_FMT_PEM) > 0);
}

struct http_tls *http_tls_new(struct http_server *s, const void *payload, size_t bytes)
{
	struct http_tls *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->server = s;
	t->references = 1;
	if (unpack_settings(t, payload, bytes))
		return t;
	http_tls_drop(t);
	return NULL;
}

struct http_tls *http_tls_hold(struct http_tls *t)
{
	__atomic_fetch_add(&t->references, 1, __ATOMIC_RELAXED);
	return t;
}

void http_tls_drop(struct http_tls *t)
{
	if (!t || __atomic_sub_fetch(&t->references, 1, __ATOMIC_ACQ_REL))
		return;
	if (t->credentials)
		gnutls_certificate_free_credentials(t->credentials);
	if (t->priority)
		gnutls_priority_deinit(t->priority);
	if (t->proxies)
		gnutls_x509_trust_list_deinit(t->proxies, 1);
	free(t->proxy_names);
	free(t->sans);
	free(t);
}

/* ---- the client's certificate ---- */

/* Adds a name if it is plain text without a NUL. */
static void add_name(struct http_tls_session *c, const char *name, size_t bytes)
{
	char *more;

	if (!bytes || memchr(name, 0, bytes) || c->who.names + bytes + 1 > HTTP_MESSAGE_NAMES)
		return;
	more = realloc(c->names, c->who.names + bytes + 1);
	if (!more)
		return;
	c->names = more;
	memcpy(more + c->who.names, name, bytes);
	more[c->who.names + bytes] = 0;
	c->who.names += (uint32_t)bytes + 1;
}

/* Reads the alternative names; the common name is used only if there are none. */
static void read_names(struct http_tls_session *c, const gnutls_datum_t *der)
{
	char name[512], address[INET6_ADDRSTRLEN];
	gnutls_x509_crt_t crt;
	size_t n;
	int type = 0;

	if (gnutls_x509_crt_init(&crt))
		return;
	if (gnutls_x509_crt_import(crt, der, GNUTLS_X509_FMT_DER))
		goto out;
	for (unsigned int i = 0; type >= 0 && i < HTTP_WEB_SANS; i++) {
		n = sizeof(name);
		type = gnutls_x509_crt_get_subject_alt_name(crt, i, name, &n, NULL);
		if (type == GNUTLS_SAN_DNSNAME || type == GNUTLS_SAN_RFC822NAME ||
		    type == GNUTLS_SAN_URI)
			add_name(c, name, n);
		else if (type == GNUTLS_SAN_IPADDRESS && (n == 4 || n == 16) &&
			 inet_ntop(n == 4 ? AF_INET : AF_INET6, name, address, sizeof(address)))
			add_name(c, address, strlen(address));
	}
	n = sizeof(name);
	if (!c->who.names &&
	    !gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &n))
		add_name(c, name, n);
out:
	gnutls_x509_crt_deinit(crt);
}

static bool has_san(const struct http_tls_session *c)
{
	const struct http_tls *t = c->tls;

	for (size_t i = 0; i < t->sans_bytes; i += strlen(t->sans + i) + 1)
		for (size_t k = 0; k < c->who.names; k += strlen(c->names + k) + 1)
			if (!strcmp(t->sans + i, c->names + k))
				return true;
	return !t->sans_bytes;
}

/* Whether the common name belongs to a front proxy. */
static bool is_proxy_name(const struct http_tls *t, gnutls_x509_crt_t crt)
{
	char name[512];
	size_t n = sizeof(name);

	if (gnutls_x509_crt_get_dn_by_oid(crt, GNUTLS_OID_X520_COMMON_NAME, 0, 0, name, &n) ||
	    memchr(name, 0, n))
		return false;
	for (size_t i = 0; i < t->proxy_names_bytes; i += strlen(t->proxy_names + i) + 1)
		if (!strcmp(t->proxy_names + i, name))
			return true;
	return false;
}

/*
 * Whether a certificate is signed by an authority of front proxies. *named: whether its name is
 * allowed as well.
 */
static bool is_proxys(const struct http_tls *t, const gnutls_datum_t *chain, unsigned int n,
		      gnutls_typed_vdata_st *use, bool *named)
{
	gnutls_x509_crt_t crt[CHAIN_MAX];
	unsigned int have = 0, status = 1;

	*named = false;
	while (have < n && have < CHAIN_MAX && !gnutls_x509_crt_init(&crt[have])) {
		have++;
		if (gnutls_x509_crt_import(crt[have - 1], &chain[have - 1], GNUTLS_X509_FMT_DER))
			goto out;
	}
	if (have &&
	    gnutls_x509_trust_list_verify_crt2(t->proxies, crt, have, use, 1, 0, &status, NULL))
		status = 1;
	if (!status)
		*named = is_proxy_name(t, crt[0]);
out:
	while (have)
		gnutls_x509_crt_deinit(crt[--have]);
	return !status;
}

static int refuse_certificate(struct http_tls_session *c, const char *why)
{
	c->certificate_refused = true;
	snprintf(c->why, sizeof(c->why), "%s", why);
	c->why[strcspn(c->why, "\n")] = 0;
	return GNUTLS_E_CERTIFICATE_ERROR;
}

/* Called during the handshake, so that the client receives an alert on failure. */
static int verify_client(gnutls_session_t session)
{
	gnutls_typed_vdata_st use = {GNUTLS_DT_KEY_PURPOSE_OID,
				     (unsigned char *)GNUTLS_KP_TLS_WWW_CLIENT, 0};
	struct http_tls_session *c = gnutls_session_get_ptr(session);
	const gnutls_datum_t *chain;
	unsigned int n = 0, status = 0;
	gnutls_datum_t text = {0};
	bool named = false, proxys;
	int err;

	chain = gnutls_certificate_get_peers(session, &n);
	if (!chain || !n || c->tls->auth < HTTP_CLIENT_VERIFY_IF_GIVEN)
		return 0;
	proxys = c->tls->proxies && is_proxys(c->tls, chain, n, &use, &named);
	if (named) {
		c->who.certified = HTTP_CERTIFIED_PROXY;
		return 0;
	}
	err = gnutls_certificate_verify_peers(session, &use, 1, &status);
	if (proxys && status)
		return refuse_certificate(
			c, "its common name is not among allowed_names of requestheader");
	if (err < 0)
		return refuse_certificate(c, gnutls_strerror(err));
	if (status) {
		gnutls_certificate_verification_status_print(status, GNUTLS_CRT_X509, &text, 0);
		err = refuse_certificate(c, text.data ? (char *)text.data
						      : "it could not be verified");
		gnutls_free(text.data);
		return err;
	}
	read_names(c, chain);
	if (!has_san(c))
		return refuse_certificate(c, "none of its names is among client_allowed_sans");
	c->who.certified = HTTP_CERTIFIED_CLIENT;
	return 0;
}

/* ---- connections ---- */

static int begin_session(struct http_tls_session *c, int fd)
{
	static const gnutls_certificate_request_t request[] = {
		[HTTP_CLIENT_NONE] = GNUTLS_CERT_IGNORE,
		[HTTP_CLIENT_REQUEST] = GNUTLS_CERT_REQUEST,
		[HTTP_CLIENT_REQUIRE_ANY] = GNUTLS_CERT_REQUIRE,
		[HTTP_CLIENT_VERIFY_IF_GIVEN] = GNUTLS_CERT_REQUEST,
		[HTTP_CLIENT_REQUIRE] = GNUTLS_CERT_REQUIRE,
	};
	const gnutls_datum_t protocol = {(unsigned char *)"http/1.1", 8};
	int err = gnutls_init(&c->session, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL |
						   GNUTLS_NO_TICKETS);

	if (err)
		return err;
	gnutls_session_set_ptr(c->session, c);
	gnutls_transport_set_int(c->session, fd);
	gnutls_certificate_server_set_request(c->session, request[c->tls->auth]);
	gnutls_session_set_verify_function(c->session, verify_client);
	/*
	 * GnuTLS would list only the authorities in the credentials, and clients of the other
	 * authorities would not offer their certificates.
	 */
	if (c->tls->proxies)
		gnutls_certificate_send_x509_rdn_sequence(c->session, 1);
	err = gnutls_priority_set(c->session, c->tls->priority);
	err = err ?: gnutls_alpn_set_protocols(c->session, &protocol, 1, 0);
	return err
		       ?: gnutls_credentials_set(c->session, GNUTLS_CRD_CERTIFICATE,
						 c->tls->credentials);
}

/* Returns false if the time is up. */
static bool wait_for(struct http_tls_session *c, int fd, uint64_t until_ns)
{
	struct pollfd p = {.fd = fd,
			   .events = gnutls_record_get_direction(c->session) ? POLLOUT : POLLIN};
	uint64_t now = base_now_ns();

	if (now >= until_ns)
		return false;
	poll(&p, 1, (int)((until_ns - now) / 1000000u) + 1);
	return true;
}

int http_tls_shake(struct http_tls_session *c, int fd, uint64_t until_ns)
{
	int err = begin_session(c, fd);

	while (!err) {
		err = gnutls_handshake(c->session);
		if (!err)
			return 0;
		if (gnutls_error_is_fatal(err))
			break;
		err = wait_for(c, fd, until_ns) ? 0 : GNUTLS_E_TIMEDOUT;
	}
	if (!c->session)
		return -ENOMEM;
	gnutls_alert_send_appropriate(c->session, err);
	if (err == GNUTLS_E_NO_CERTIFICATE_FOUND || err == GNUTLS_E_CERTIFICATE_REQUIRED)
		refuse_certificate(c, "the client has none");
	if (!*c->why)
		snprintf(c->why, sizeof(c->why), "%s", gnutls_strerror(err));
	return err == GNUTLS_E_TIMEDOUT ? -ETIMEDOUT : -EIO;
}

void http_tls_end(struct http_tls_session *c)
{
	if (c->session)
		gnutls_deinit(c->session);
	free(c->names);
	http_tls_drop(c->tls);
	*c = (struct http_tls_session){0};
}

static ssize_t result_of(ssize_t n)
{
	if (n >= 0)
		return n;
	if (n == GNUTLS_E_PREMATURE_TERMINATION)
		return 0;
	errno = gnutls_error_is_fatal((int)n) ? EIO : EAGAIN;
	return -1;
}

ssize_t http_tls_recv(struct http_tls_session *c, void *to, size_t bytes)
{
	return result_of(gnutls_record_recv(c->session, to, bytes));
}

ssize_t http_tls_send(struct http_tls_session *c, const void *from, size_t bytes)
{
	return result_of(gnutls_record_send(c->session, from, bytes));
}

bool http_tls_pending(const struct http_tls_session *c)
{
	return gnutls_record_check_pending(c->session) > 0;
}

void http_tls_bye(struct http_tls_session *c)
{
	gnutls_bye(c->session, GNUTLS_SHUT_WR);
}
