// SPDX-License-Identifier: Apache-2.0
#include "http/client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/base.h"
#include "base/grow.h"
#include "base/secret.h"
#include "base/yaml.h"
#include "http/files.h"

#define SECRET_MAX 8192u
#define VALUES_MAX 64u

/* A header line. Its value is in the settings file or in a separate file. */
struct header {
	const char *name, *value; /* value is NULL if it is in the file at path */
	char *path;
};

enum client_file { USERNAME, PASSWORD, CREDENTIALS, CA, CERTIFICATE, KEY, FILES };

struct http_client {
	struct base_yaml *yaml; /* memory that the strings point into */
	char *path;
	const char *username, *type, *server_name, *proxy, *no_proxy;
	char *file[FILES]; /* by enum client_file; NULL means that the settings name none */
	bool has_settings, skip_verify, proxy_of_environment, http2;
	int min_version, max_version; /* indices into versions[]; -1 means not set */
	struct header headers[VALUES_MAX];
	size_t header_count;
	CURLSH *share; /* connections that are kept open, or NULL */
};

static const char *const versions[] = {"TLS10", "TLS11", "TLS12", "TLS13", NULL};

/* ---- reading ---- */

/* Refuses a secret in the settings file itself, because settings files are displayed and shared. */
static void refuse_inline(struct base_yaml *y, base_yaml_node mapping, const char *key)
{
	if (base_yaml_get(y, mapping, key))
		base_yaml_wrong(y, base_yaml_get(y, mapping, key),
				"'%s' is not allowed here: put the secret in a separate file and "
				"specify that file in '%s_file'",
				key, key);
}

static char *file_of(struct http_client *c, base_yaml_node mapping, const char *key)
{
	return http_files_path(c->yaml, mapping, key, c->path);
}

static void read_basic(struct http_client *c, base_yaml_node basic)
{
	struct base_yaml *y = c->yaml;

	if (!base_yaml_keys(y, basic, "username", "username_file", "password", "password_file"))
		return;
	refuse_inline(y, basic, "password");
	base_yaml_string_of(y, basic, "username", &c->username);
	c->file[USERNAME] = file_of(c, basic, "username_file");
	c->file[PASSWORD] = file_of(c, basic, "password_file");
	if (!c->username == !c->file[USERNAME])
		base_yaml_wrong(y, basic, "basic_auth needs either username or username_file");
	base_yaml_need(y, basic, "password_file");
}

static void read_authorization(struct http_client *c, base_yaml_node a)
{
	struct base_yaml *y = c->yaml;

	if (!base_yaml_keys(y, a, "type", "credentials", "credentials_file"))
		return;
	refuse_inline(y, a, "credentials");
	base_yaml_string_of(y, a, "type", &c->type);
	if (!strcasecmp(c->type, "basic"))
		base_yaml_wrong(y, a, "use basic_auth instead of type Basic");
	base_yaml_need(y, a, "credentials_file");
	c->file[CREDENTIALS] = file_of(c, a, "credentials_file");
	if (c->username || c->file[USERNAME])
		base_yaml_wrong(y, a, "authorization and basic_auth are mutually exclusive");
}

static void read_tls(struct http_client *c, base_yaml_node tls)
{
	struct base_yaml *y = c->yaml;

	if (!base_yaml_keys(y, tls, "ca_file", "cert_file", "key_file", "server_name",
			    "insecure_skip_verify", "min_version", "max_version"))
		return;
	c->file[CA] = file_of(c, tls, "ca_file");
	c->file[CERTIFICATE] = file_of(c, tls, "cert_file");
	c->file[KEY] = file_of(c, tls, "key_file");
	if (!c->file[CERTIFICATE] != !c->file[KEY])
		base_yaml_wrong(y, tls, "cert_file and key_file must be given together");
	base_yaml_string_of(y, tls, "server_name", &c->server_name);
	base_yaml_bool_of(y, tls, "insecure_skip_verify", &c->skip_verify);
	base_yaml_choice_of(y, tls, "min_version", versions, &c->min_version);
	base_yaml_choice_of(y, tls, "max_version", versions, &c->max_version);
	if (c->max_version >= 0 && c->min_version > c->max_version)
		base_yaml_wrong(y, tls, "min_version is higher than max_version");
}

static void add_header(struct http_client *c, base_yaml_node where, const char *name,
		       const char *value, char *path)
{
	static const char *const own[] = {"Authorization",    "Host",
					  "Content-Length",   "Content-Type",
					  "Content-Encoding", NULL};

	for (size_t i = 0; own[i]; i++)
		if (!strcasecmp(own[i], name))
			base_yaml_wrong(c->yaml, where, "the header %s cannot be set here", name);
	if (name[strcspn(name, ": \t\r\n")] || !*name || (value && value[strcspn(value, "\r\n")]) ||
	    c->header_count == VALUES_MAX)
		base_yaml_wrong(c->yaml, where, "not a valid header, or too many headers");
	else if (!value && !path)
		base_yaml_wrong(c->yaml, where, "out of memory");
	if (base_yaml_error(c->yaml))
		free(path);
	else
		c->headers[c->header_count++] = (struct header){name, value, path};
}

/* Reads "NAME: {values: [...], files: [...]}". */
static void read_http_headers(struct http_client *c, base_yaml_node list)
{
	struct base_yaml *y = c->yaml;
	base_yaml_node one, where, items;
	const char *name;

	for (size_t i = 0; base_yaml_pair(y, list, i, &name, &where, &one); i++) {
		if (!base_yaml_keys(y, one, "values", "secrets", "files"))
			continue;
		if (base_yaml_get(y, one, "secrets"))
			base_yaml_wrong(y, one,
					"'secrets' is not allowed here: put each secret in a "
					"separate file and specify that file in 'files'");
		items = base_yaml_get(y, one, "values");
		for (size_t k = 0; k < base_yaml_count(y, items); k++)
			add_header(c, where, name, base_yaml_text_at(y, items, k, "values"), NULL);
		items = base_yaml_get(y, one, "files");
		for (size_t k = 0; k < base_yaml_count(y, items); k++) {
			const char *file = base_yaml_text_at(y, items, k, "files");

			add_header(c, where, name, NULL, base_secret_path(file, c->path));
		}
	}
}

/* Reads "NAME: value", the form used by remote_write. */
static void read_headers(struct http_client *c, base_yaml_node list)
{
	struct base_yaml *y = c->yaml;
	base_yaml_node where, value;
	const char *name;

	for (size_t i = 0; base_yaml_pair(y, list, i, &name, &where, &value); i++) {
		const char *text = "";

		base_yaml_string(y, value, name, &text);
		add_header(c, where, name, text, NULL);
	}
}

static void read_proxy(struct http_client *c, base_yaml_node root)
{
	struct base_yaml *y = c->yaml;
	char why[256];

	base_yaml_string_of(y, root, "proxy_url", &c->proxy);
	base_yaml_string_of(y, root, "no_proxy", &c->no_proxy);
	base_yaml_bool_of(y, root, "proxy_from_environment", &c->proxy_of_environment);
	if (c->proxy && c->proxy_of_environment)
		base_yaml_wrong(y, root,
				"proxy_url and proxy_from_environment are mutually exclusive");
	if (c->no_proxy && !c->proxy)
		base_yaml_wrong(y, root, "no_proxy needs a proxy_url");
	if (c->proxy && http_client_url(c->proxy, why, sizeof(why)))
		base_yaml_wrong(y, base_yaml_get(y, root, "proxy_url"), "proxy_url: %s", why);
}

static void read_all(struct http_client *c)
{
	struct base_yaml *y = c->yaml;
	base_yaml_node root = base_yaml_root(y);
	bool follow = false;

	if (!base_yaml_keys(y, root, "basic_auth", "authorization", "bearer_token",
			    "bearer_token_file", "tls_config", "proxy_url", "no_proxy",
			    "proxy_from_environment", "follow_redirects", "enable_http2",
			    "http_headers", "headers"))
		return;
	read_basic(c, base_yaml_get(y, root, "basic_auth"));
	read_authorization(c, base_yaml_get(y, root, "authorization"));
	refuse_inline(y, root, "bearer_token");
	if (base_yaml_get(y, root, "bearer_token_file")) {
		if (c->file[CREDENTIALS] || c->username || c->file[USERNAME])
			base_yaml_wrong(y, root,
					"bearer_token_file, authorization and basic_auth are "
					"mutually exclusive");
		free(c->file[CREDENTIALS]);
		c->file[CREDENTIALS] = file_of(c, root, "bearer_token_file");
	}
	read_tls(c, base_yaml_get(y, root, "tls_config"));
	read_proxy(c, root);
	base_yaml_bool_of(y, root, "follow_redirects", &follow);
	if (follow)
		base_yaml_wrong(y, base_yaml_get(y, root, "follow_redirects"),
				"redirects are never followed, because they could send secrets "
				"elsewhere");
	base_yaml_bool_of(y, root, "enable_http2", &c->http2);
	read_http_headers(c, base_yaml_get(y, root, "http_headers"));
	read_headers(c, base_yaml_get(y, root, "headers"));
}

static struct http_client *new_client(void)
{
	struct http_client *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->type = "Bearer";
	c->min_version = c->max_version = -1;
	return c;
}

struct http_client *http_client_of(const char *credentials_file, const char *ca_file)
{
	struct http_client *c = new_client();

	if (!c)
		return NULL;
	c->has_settings = true;
	c->file[CREDENTIALS] = strdup(credentials_file);
	c->file[CA] = strdup(ca_file);
	if (c->file[CREDENTIALS] && c->file[CA])
		return c;
	http_client_close(c);
	return NULL;
}

struct http_client *http_client_open(const char *path, char *error, size_t bytes)
{
	struct http_client *c = new_client();

	if (c && path) {
		c->has_settings = true;
		c->path = strdup(path);
		c->yaml = c->path ? base_yaml_open(path) : NULL;
	}
	if (!c || (path && !c->yaml)) {
		http_client_close(c);
		errno = base_fail(error, bytes, ENOMEM, "out of memory");
		return NULL;
	}
	if (c->yaml) {
		read_all(c);
		if (base_yaml_error(c->yaml)) {
			snprintf(error, bytes, "%s", base_yaml_error(c->yaml));
			http_client_close(c);
			errno = EINVAL;
			return NULL;
		}
	}
	return c;
}

void http_client_close(struct http_client *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->header_count; i++)
		free(c->headers[i].path);
	curl_share_cleanup(c->share);
	for (size_t i = 0; i < FILES; i++)
		free(c->file[i]);
	base_yaml_close(c->yaml);
	free(c->path);
	free(c);
}

void http_client_files(struct http_files *f, const char *path)
{
	char error[256];
	struct http_client *c = path ? http_client_open(path, error, sizeof(error)) : NULL;

	http_files_add(f, path);
	if (!c)
		return;
	for (size_t i = 0; i < FILES; i++)
		http_files_add(f, c->file[i]);
	for (size_t i = 0; i < c->header_count; i++)
		http_files_add(f, c->headers[i].path);
	http_client_close(c);
}

/* ---- preparing a request ---- */

/* Reads a secret, which must be a single line of text. */
static int read_secret(const char *path, char text[SECRET_MAX + 1], char *error, size_t bytes)
{
	ssize_t n = base_secret_read(path, text, SECRET_MAX);

	if (n < 0)
		return base_fail(error, bytes, (int)n, "cannot read the secret in %s: %s", path,
				 n == -EINVAL ? "the file is too long" : strerror((int)-n));
	text[n] = 0;
	if (!n || strlen(text) != (size_t)n || text[strcspn(text, "\r\n")])
		return base_fail(error, bytes, -EINVAL,
				 "the secret in %s is empty or has more than one line", path);
	return 0;
}

static int add_line(struct curl_slist **list, const char *a, const char *b, const char *c)
{
	struct curl_slist *more;
	char *line;

	if (asprintf(&line, "%s%s%s", a, b, c) < 0)
		return -ENOMEM;
	more = curl_slist_append(*list, line);
	explicit_bzero(line, strlen(line));
	free(line);
	if (more)
		*list = more;
	return more ? 0 : -ENOMEM;
}

static int set_headers(const struct http_client *c, struct curl_slist **list, char *secret,
		       char *error, size_t bytes)
{
	char name[280];
	int err = 0;

	for (size_t i = 0; !err && i < c->header_count; i++) {
		const struct header *h = &c->headers[i];

		err = h->value ? 0 : read_secret(h->path, secret, error, bytes);
		snprintf(name, sizeof(name), "%s: ", h->name);
		/* For an empty value, libcurl expects "Name;". */
		if (!err && h->value && !*h->value)
			err = add_line(list, h->name, ";", "");
		else if (!err)
			err = add_line(list, name, h->value ?: secret, "");
	}
	return err;
}

static int set_identity(const struct http_client *c, CURL *curl, struct curl_slist **list,
			char *secret, char *error, size_t bytes)
{
	char type[64];
	int err = 0;

	if (c->file[CREDENTIALS]) {
		err = read_secret(c->file[CREDENTIALS], secret, error, bytes);
		snprintf(type, sizeof(type), "Authorization: %.40s ", c->type);
		return err ?: add_line(list, type, secret, "");
	}
	if (!c->file[PASSWORD])
		return 0;
	if (c->file[USERNAME])
		err = read_secret(c->file[USERNAME], secret, error, bytes);
	if (!err && curl_easy_setopt(curl, CURLOPT_USERNAME, c->username ?: secret))
		err = -ENOMEM;
	err = err ?: read_secret(c->file[PASSWORD], secret, error, bytes);
	if (!err && curl_easy_setopt(curl, CURLOPT_PASSWORD, secret))
		err = -ENOMEM;
	curl_easy_setopt(curl, CURLOPT_HTTPAUTH, (long)CURLAUTH_BASIC);
	return err;
}

static void set_versions(const struct http_client *c, CURL *curl)
{
	static const long from[] = {CURL_SSLVERSION_TLSv1_0, CURL_SSLVERSION_TLSv1_1,
				    CURL_SSLVERSION_TLSv1_2, CURL_SSLVERSION_TLSv1_3};
	static const long to[] = {CURL_SSLVERSION_MAX_TLSv1_0, CURL_SSLVERSION_MAX_TLSv1_1,
				  CURL_SSLVERSION_MAX_TLSv1_2, CURL_SSLVERSION_MAX_TLSv1_3};

	curl_easy_setopt(curl, CURLOPT_SSLVERSION,
			 from[c->min_version < 0 ? 2 : c->min_version] |
				 (c->max_version < 0 ? 0 : to[c->max_version]));
}

static void set_tls(const struct http_client *c, CURL *curl)
{
	set_versions(c, curl);
	if (c->file[CA]) {
		curl_easy_setopt(curl, CURLOPT_CAINFO, c->file[CA]);
		curl_easy_setopt(curl, CURLOPT_CAPATH, NULL);
	}
	if (c->file[CERTIFICATE]) {
		curl_easy_setopt(curl, CURLOPT_SSLCERT, c->file[CERTIFICATE]);
		curl_easy_setopt(curl, CURLOPT_SSLKEY, c->file[KEY]);
	}
	if (c->skip_verify) {
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0l);
		curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0l);
	}
}

/*
 * Sets the name that the certificate must have. libcurl takes this name from the URL, so put it in
 * the URL and connect to the URL's original host.
 */
static int set_server_name(const struct http_client *c, CURL *curl, const char *url,
			   struct http_outgoing *r)
{
	char *host = NULL, *port = NULL, *line = NULL, *named = NULL;
	CURLU *u = curl_url();
	int err = -ENOMEM;

	if (u && !curl_url_set(u, CURLUPART_URL, url, 0) &&
	    !curl_url_get(u, CURLUPART_HOST, &host, 0) &&
	    !curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT) &&
	    !curl_url_set(u, CURLUPART_HOST, c->server_name, 0) &&
	    !curl_url_get(u, CURLUPART_URL, &named, 0) &&
	    asprintf(&line, "%s:%s:%s:%s", c->server_name, port, host, port) >= 0) {
		r->connect_to = curl_slist_append(NULL, line);
		err = r->connect_to ? add_line(&r->headers, "Host: ", host, "") : -ENOMEM;
		free(line);
	}
	if (!err && (curl_easy_setopt(curl, CURLOPT_CONNECT_TO, r->connect_to) ||
		     curl_easy_setopt(curl, CURLOPT_URL, named)))
		err = -ENOMEM;
	curl_free(named);
	curl_free(port);
	curl_free(host);
	curl_url_cleanup(u);
	return err;
}

static void set_proxy(const struct http_client *c, CURL *curl)
{
	if (c->proxy) {
		curl_easy_setopt(curl, CURLOPT_PROXY, c->proxy);
		curl_easy_setopt(curl, CURLOPT_NOPROXY, c->no_proxy ?: "");
	} else if (!c->proxy_of_environment) {
		curl_easy_setopt(curl, CURLOPT_PROXY, "");
	}
}

static int set_all(const struct http_client *c, CURL *curl, const char *url,
		   struct http_outgoing *r, char *error, size_t bytes)
{
	const long version = c->http2 ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_1_1;
	char secret[SECRET_MAX + 1];
	int err;

	set_tls(c, curl);
	set_proxy(c, curl);
	curl_easy_setopt(curl, CURLOPT_HTTP_VERSION, version);
	err = set_identity(c, curl, &r->headers, secret, error, bytes);
	err = err ?: set_headers(c, &r->headers, secret, error, bytes);
	explicit_bzero(secret, sizeof(secret));
	return err ?: c->server_name ? set_server_name(c, curl, url, r) : 0;
}

int http_client_apply(const struct http_client *c, CURL *curl, const char *url,
		      const char *const *headers, struct http_outgoing *r, char *error,
		      size_t bytes)
{
	int err = curl_easy_setopt(curl, CURLOPT_URL, url) ? -ENOMEM : 0;

	*r = (struct http_outgoing){0};
	for (; !err && headers && *headers; headers++)
		err = add_line(&r->headers, *headers, "", "");
	if (!err && c && c->has_settings)
		err = set_all(c, curl, url, r, error, bytes);
	if (!err && curl_easy_setopt(curl, CURLOPT_HTTPHEADER, r->headers))
		err = -ENOMEM;
	return err == -ENOMEM ? base_fail(error, bytes, err, "out of memory") : err;
}

void http_client_done(struct http_outgoing *r)
{
	for (struct curl_slist *h = r->headers; h; h = h->next)
		explicit_bzero(h->data, strlen(h->data)); /* headers may contain secrets */
	curl_slist_free_all(r->headers);
	curl_slist_free_all(r->connect_to);
	*r = (struct http_outgoing){0};
}

/* In TLS 1.3, a server refuses a client certificate after the handshake, with an alert. */
static const char *tls_error(CURLcode code, const char *detail)
{
	if (code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CONNECT_ERROR ||
	    code == CURLE_SSL_CERTPROBLEM || code == CURLE_SSL_CACERT_BADFILE ||
	    code == CURLE_SSL_ISSUER_ERROR || strstr(detail, "alert"))
		return *detail ? detail : curl_easy_strerror(code);
	return NULL;
}

int http_client_url(const char *url, char *error, size_t bytes)
{
	CURLU *u = curl_url();
	char *scheme = NULL, *password = NULL, *user = NULL;
	int err = 0;

	if (!u || curl_url_set(u, CURLUPART_URL, url, 0) ||
	    curl_url_get(u, CURLUPART_SCHEME, &scheme, 0) ||
	    (strcmp(scheme, "http") && strcmp(scheme, "https")))
		err = base_fail(error, bytes, -EINVAL, "it is not an http or https URL");
	else if (!curl_url_get(u, CURLUPART_USER, &user, 0) ||
		 !curl_url_get(u, CURLUPART_PASSWORD, &password, 0))
		err = base_fail(
			error, bytes, -EINVAL,
			"a URL must not contain a user and password, because others can see it: "
			"use a settings file with basic_auth");
	curl_free(scheme);
	curl_free(user);
	curl_free(password);
	curl_url_cleanup(u);
	return err;
}

/* ---- one request ---- */

#define HEADERS_MAX (64u << 10)
#define CUT_MAX	    (1u << 20) /* a truncated answer is read up to this size */

/* A request in progress. */
struct fetch_state {
	const struct http_fetch *f;
	struct http_fetched *to;
	size_t header_bytes, body_bytes;
	bool too_long;
};

/* Counts bytes after decompression, so that a small body can't become a large one unnoticed. */
static size_t take_body(char *data, size_t size, size_t n, void *arg)
{
	struct fetch_state *r = arg;
	struct http_fetched *to = r->to;
	size_t kept = BASE_MIN(size * n, r->f->most - to->bytes);

	r->body_bytes += size * n;
	r->too_long |= r->body_bytes > (r->f->cut ? BASE_MAX(r->f->most, CUT_MAX) : r->f->most);
	if (r->too_long || !base_grow(&to->body, &to->room, to->bytes + kept + 1, 1))
		return 0;
	memcpy(to->body + to->bytes, data, kept);
	to->bytes += kept;
	to->body[to->bytes] = 0;
	return size * n;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
	struct fetch_state *r = arg;

	(void)data;
	r->header_bytes += size * n;
	r->too_long |= r->header_bytes > HEADERS_MAX;
	return r->header_bytes > HEADERS_MAX ? 0 : size * n;
}

static int ask_to_stop(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	const struct http_fetch *f = ((struct fetch_state *)arg)->f;

	(void)a, (void)b, (void)c, (void)d;
	return f->stop && f->stop(f->stop_arg);
}

static int64_t number_in(CURL *curl, const char *name)
{
	struct curl_header *h;
	char *end;
	long long v;

	if (!name || curl_easy_header(curl, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
		return -1;
	errno = 0;
	v = strtoll(h->value, &end, 10);
	return errno || end == h->value || *end || v < 0 ? -1 : v;
}

static void set_request(CURL *curl, struct fetch_state *r)
{
	const struct http_fetch *f = r->f;

	curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1l);
	curl_easy_setopt(curl, CURLOPT_USERAGENT, "sidelight/" SL_VERSION_STRING);
	curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0l);
	curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)(f->timeout_ns / 1000000));
	curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take_body);
	curl_easy_setopt(curl, CURLOPT_WRITEDATA, r);
	curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, take_header);
	curl_easy_setopt(curl, CURLOPT_HEADERDATA, r);
	curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0l);
	curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, ask_to_stop);
	curl_easy_setopt(curl, CURLOPT_XFERINFODATA, r);
	if (f->gzip)
		curl_easy_setopt(curl, CURLOPT_ACCEPT_ENCODING, "gzip");
	if (f->direct)
		curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
	if (f->unix_socket)
		curl_easy_setopt(curl, CURLOPT_UNIX_SOCKET_PATH, f->unix_socket);
	if (f->body || (f->method && strcmp(f->method, "GET"))) {
		curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)f->body_bytes);
		curl_easy_setopt(curl, CURLOPT_POSTFIELDS, f->body ?: "");
	}
	if (f->method)
		curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, f->method);
}

/* Keeps the client's connections open. */
static void keep_connections(struct http_client *c, CURL *curl)
{
	if (!c->share) {
		c->share = curl_share_init();
		if (c->share)
			curl_share_setopt(c->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_CONNECT);
	}
	curl_easy_setopt(curl, CURLOPT_SHARE, c->share);
}

void http_client_clean(char *text)
{
	for (; *text; text++)
		if (*text < 32 || *text > 126)
			*text = ' ';
}

static enum http_fetch_error perform(CURL *curl, struct fetch_state *r)
{
	char detail[CURL_ERROR_SIZE] = "", *type = NULL;
	struct http_fetched *to = r->to;
	curl_off_t retry_after = 0;
	CURLcode code;

	curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, detail);
	code = curl_easy_perform(curl);
	curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &to->status);
	curl_easy_getinfo(curl, CURLINFO_RETRY_AFTER, &retry_after);
	curl_easy_getinfo(curl, CURLINFO_CONTENT_TYPE, &type);
	to->retry_after_s = retry_after > 0 ? (uint64_t)retry_after : 0;
	snprintf(to->type, sizeof(to->type), "%s", type ?: "");
	for (int i = 0; i < HTTP_FETCH_NUMBERS; i++)
		to->numbers[i] = number_in(curl, r->f->numbers[i]);
	/* A truncated answer still has a status. */
	if (code == CURLE_OK || (r->too_long && r->f->cut && to->status))
		return HTTP_FETCH_OK;
	snprintf(to->why, sizeof(to->why), "%s",
		 r->too_long			  ? "the answer is too long"
		 : code == CURLE_OPERATION_TIMEDOUT ? "the answer took too long"
						    : tls_error(code, detail) ?: curl_easy_strerror(code));
	http_client_clean(to->why);
	return r->too_long						  ? HTTP_FETCH_TOO_LONG
	       : code == CURLE_OPERATION_TIMEDOUT			  ? HTTP_FETCH_TIMEOUT
	       : code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR ? HTTP_FETCH_MEMORY
									  : HTTP_FETCH_CONNECT;
}

static void start_curl(void)
{
	curl_global_init(CURL_GLOBAL_DEFAULT);
}

enum http_fetch_error http_fetch(const struct http_fetch *f, struct http_fetched *to)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	/*
	 * Use a new handle for each request, because libcurl 7.88.1 in Debian 12 would use a freed
	 * header of the previous answer if the first header of this answer begins with a blank
	 * (headers.c, prevhead).
	 */
	CURL *curl = (pthread_once(&once, start_curl), curl_easy_init());
	struct fetch_state r = {.f = f, .to = to};
	struct http_outgoing outgoing = {0};
	enum http_fetch_error error = HTTP_FETCH_MEMORY;
	int err = curl ? 0 : -ENOMEM;

	to->bytes = 0;
	to->status = 0;
	snprintf(to->why, sizeof(to->why), "out of memory");
	if (!err) {
		set_request(curl, &r);
		err = http_client_apply(f->client, curl, f->url, f->headers, &outgoing, to->why,
					sizeof(to->why));
		error = err && err != -ENOMEM ? HTTP_FETCH_SECRET : error;
	}
	if (!err) {
		if (f->keep && f->client)
			keep_connections(f->client, curl);
		error = perform(curl, &r);
	}
	curl_easy_cleanup(curl);
	http_client_done(&outgoing);
	return error;
}
