// SPDX-License-Identifier: Apache-2.0
#include "http/web.h"

#include <errno.h>
#include <gnutls/abstract.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/base.h"
#include "base/hash.h"
#include "base/secret.h"
#include "http/files.h"

/* ---- files ---- */

/* A file that is being written is empty for a moment. */
static void refuse_empty(struct base_yaml *y)
{
	if (!base_yaml_root(y))
		base_yaml_wrong_at(y, 0, "the file is empty");
}

static bool slurp_file(struct base_yaml *y, base_yaml_node mapping, const char *key,
		       const char *file, struct http_web_bytes *out)
{
	char *path = http_files_path(y, mapping, key, file);

	if (!path)
		return false;
	out->data = base_read_file(path, HTTP_WEB_FILE_MAX, &out->bytes);
	if (!out->data)
		base_yaml_wrong(y, base_yaml_get(y, mapping, key), "%s: cannot read %s: %s", key,
				path, strerror(errno));
	else if (!strcmp(key, "key_file"))
		base_secret_warn("http", path);
	free(path);
	return out->data;
}

static void stamp_file(uint64_t *stamp, const char *path)
{
	struct stat st;
	uint64_t is[5] = {*stamp};

	if (!stat(path, &st)) {
		is[1] = st.st_ino;
		is[2] = (uint64_t)st.st_size;
		is[3] = (uint64_t)st.st_mtim.tv_sec * 1000000000u + (uint64_t)st.st_mtim.tv_nsec;
		is[4] = (uint64_t)st.st_ctim.tv_sec * 1000000000u + (uint64_t)st.st_ctim.tv_nsec;
	}
	*stamp = base_hash(0, is, sizeof(is));
}

void http_web_files(struct http_files *f, const char *path, const char *roles)
{
	struct base_yaml *y = path ? base_yaml_open(path) : NULL;
	base_yaml_node tls = y ? base_yaml_get(y, base_yaml_root(y), "tls_server_config") : 0;

	http_files_add(f, path);
	http_files_add(f, roles);
	if (!y)
		return;
	http_files_add_key(f, y, tls, "cert_file", path);
	http_files_add_key(f, y, tls, "key_file", path);
	http_files_add_key(f, y, tls, "client_ca_file", path);
	base_yaml_close(y);
	y = roles ? base_yaml_open(roles) : NULL;
	if (!y)
		return;
	http_files_add_key(f, y, base_yaml_get(y, base_yaml_root(y), "requestheader"),
			   "client_ca_file", roles);
	base_yaml_close(y);
}

uint64_t http_web_stamp(const char *path, const char *roles)
{
	struct http_files f = {0};
	uint64_t stamp = 1;

	http_web_files(&f, path, roles);
	for (size_t i = 0; i < f.n; i++)
		stamp_file(&stamp, f.path[i]);
	http_files_free(&f);
	return stamp;
}

/* ---- tls_server_config ---- */

/*
 * Cipher suites and curves of Go's crypto/tls, with the GnuTLS names of their parts. Suites that Go
 * considers insecure are omitted.
 */
struct web_choice {
	const char *name, *part, *exchange;
};
static const struct web_choice suites[] = {
	{"TLS_AES_128_GCM_SHA256", "AES-128-GCM", NULL},
	{"TLS_AES_256_GCM_SHA384", "AES-256-GCM", NULL},
	{"TLS_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", NULL},
	{"TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", "AES-128-GCM", "ECDHE-ECDSA"},
	{"TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", "AES-256-GCM", "ECDHE-ECDSA"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", "CHACHA20-POLY1305", "ECDHE-ECDSA"},
	{"TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", "ECDHE-ECDSA"},
	{"TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "AES-128-GCM", "ECDHE-RSA"},
	{"TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "AES-256-GCM", "ECDHE-RSA"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "CHACHA20-POLY1305", "ECDHE-RSA"},
	{"TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305", "ECDHE-RSA"},
};
static const struct web_choice curves[] = {
	{"CurveP256", "GROUP-SECP256R1", NULL},
	{"CurveP384", "GROUP-SECP384R1", NULL},
	{"CurveP521", "GROUP-SECP521R1", NULL},
	{"X25519", "GROUP-X25519", NULL},
};

static void add_priority(struct http_web *w, const char *sign, const char *what)
{
	size_t n = strlen(w->priority);

	/* Ignore repeated entries. */
	if (strstr(w->priority, what) && *sign == ':' && sign[1] == '+')
		return;
	snprintf(w->priority + n, sizeof(w->priority) - n, "%s%s", sign, what);
}

/* Allows only the listed suites or curves of a table. none: excludes all of them at first. */
static void read_allowed(struct http_web *w, base_yaml_node tls, const char *key, const char *none,
			 const struct web_choice *table, size_t known)
{
	struct base_yaml *y = w->yaml;
	const base_yaml_node list = base_yaml_get(y, tls, key);
	const size_t n = base_yaml_count(y, list);

	if (n)
		add_priority(w, ":-", none);
	for (size_t i = 0, k; i < n; i++) {
		const char *name = base_yaml_text_at(y, list, i, key);

		for (k = 0; k < known && strcmp(table[k].name, name);)
			k++;
		if (k == known) {
			base_yaml_wrong(y, base_yaml_at(y, list, i), "%s: '%.64s' is not supported",
					key, name);
			return;
		}
		add_priority(w, ":+", table[k].part);
		if (table[k].exchange)
			add_priority(w, ":+", table[k].exchange);
	}
}

static void read_priority(struct http_web *w, base_yaml_node tls)
{
	static const char *const versions[] = {"TLS12", "TLS13", NULL};
	struct base_yaml *y = w->yaml;
	int min = 0, max = 1;
	bool server = true;
	gnutls_priority_t p;

	base_yaml_choice_of(y, tls, "min_version", versions, &min);
	base_yaml_choice_of(y, tls, "max_version", versions, &max);
	base_yaml_bool_of(y, tls, "prefer_server_cipher_suites", &server);
	if (min > max)
		base_yaml_wrong(y, tls, "min_version is higher than max_version");
	snprintf(w->priority, sizeof(w->priority), "NORMAL:-RSA:-VERS-ALL");
	if (max)
		add_priority(w, ":+", "VERS-TLS1.3");
	if (!min)
		add_priority(w, ":+", "VERS-TLS1.2");
	read_allowed(w, tls, "cipher_suites", "CIPHER-ALL:-KX-ALL", suites,
		     sizeof(suites) / sizeof(*suites));
	read_allowed(w, tls, "curve_preferences", "GROUP-ALL", curves,
		     sizeof(curves) / sizeof(*curves));
	add_priority(w, ":", server ? "%SERVER_PRECEDENCE" : "%SAFE_RENEGOTIATION");
	if (base_yaml_error(y))
		return;
	if (gnutls_priority_init(&p, w->priority, NULL))
		base_yaml_wrong(
			y, tls,
			"no TLS configuration is possible with these versions, suites and curves");
	else
		gnutls_priority_deinit(p);
}

static void read_client_auth(struct http_web *w, base_yaml_node tls, const char *path)
{
	static const char *const names[] = {"NoClientCert",
					    "RequestClientCert",
					    "RequireAnyClientCert",
					    "VerifyClientCertIfGiven",
					    "RequireAndVerifyClientCert",
					    "RequireClientCert",
					    NULL};
	base_yaml_node type = base_yaml_get(w->yaml, tls, "client_auth_type"), sans;
	struct base_yaml *y = w->yaml;
	int auth = HTTP_CLIENT_NONE;

	base_yaml_choice(y, type, "client_auth_type", names, &auth);
	w->client_auth = auth > HTTP_CLIENT_REQUIRE ? HTTP_CLIENT_REQUIRE_ANY
						    : (enum http_client_auth)auth;
	slurp_file(y, tls, "client_ca_file", path, &w->ca);
	if (w->ca.data && w->client_auth == HTTP_CLIENT_NONE)
		base_yaml_wrong(y, tls, "client_ca_file requires a client_auth_type");
	if (!w->ca.data && w->client_auth >= HTTP_CLIENT_VERIFY_IF_GIVEN)
		base_yaml_wrong(y, type, "client_auth_type %s needs a client_ca_file",
				names[w->client_auth]);
	sans = base_yaml_get(y, tls, "client_allowed_sans");
	if (base_yaml_count(y, sans) > HTTP_WEB_SANS)
		base_yaml_wrong(y, sans, "client_allowed_sans: at most %u names are allowed",
				HTTP_WEB_SANS);
	if (sans && w->client_auth < HTTP_CLIENT_VERIFY_IF_GIVEN)
		base_yaml_wrong(y, sans,
				"client_allowed_sans requires a client_auth_type that verifies "
				"certificates");
	for (size_t i = 0; i < base_yaml_count(y, sans) && !base_yaml_error(y); i++)
		w->sans[w->san_count++] = base_yaml_text_at(y, sans, i, "client_allowed_sans");
}

/* Checks that the certificates are valid and match the key. */
static void check_certificates(struct http_web *w, base_yaml_node tls,
			       const struct http_web_bytes *key)
{
	const gnutls_datum_t cert = {(unsigned char *)w->cert.data, (unsigned int)w->cert.bytes};
	const gnutls_datum_t secret = {(unsigned char *)key->data, (unsigned int)key->bytes};
	const gnutls_datum_t ca = {(unsigned char *)w->ca.data, (unsigned int)w->ca.bytes};
	gnutls_certificate_credentials_t c = NULL;
	struct base_yaml *y = w->yaml;
	int err;

	err = gnutls_certificate_allocate_credentials(&c);
	if (!err)
		err = gnutls_certificate_set_x509_key_mem(c, &cert, &secret, GNUTLS_X509_FMT_PEM);
	if (err < 0)
		base_yaml_wrong(y, base_yaml_get(y, tls, "cert_file"),
				"cannot use cert_file and key_file: %s", gnutls_strerror(err));
	if (err >= 0 && w->ca.data &&
	    gnutls_certificate_set_x509_trust_mem(c, &ca, GNUTLS_X509_FMT_PEM) <= 0)
		base_yaml_wrong(y, base_yaml_get(y, tls, "client_ca_file"),
				"client_ca_file contains no certificate");
	if (err >= 0)
		err = gnutls_privkey_init(&w->key);
	if (err >= 0)
		err = gnutls_privkey_import_x509_raw(w->key, &secret, GNUTLS_X509_FMT_PEM, NULL, 0);
	if (err < 0)
		base_yaml_wrong(y, base_yaml_get(y, tls, "key_file"), "key_file: %s",
				gnutls_strerror(err));
	if (c)
		gnutls_certificate_free_credentials(c);
}

static void read_tls(struct http_web *w, base_yaml_node tls, const char *path)
{
	struct http_web_bytes key = {0};
	struct base_yaml *y = w->yaml;

	if (!base_yaml_keys(y, tls, "cert_file", "key_file", "client_ca_file", "client_auth_type",
			    "client_allowed_sans", "min_version", "max_version", "cipher_suites",
			    "curve_preferences", "prefer_server_cipher_suites"))
		return;
	w->tls = true;
	base_yaml_need(y, tls, "cert_file");
	base_yaml_need(y, tls, "key_file");
	slurp_file(y, tls, "cert_file", path, &w->cert);
	slurp_file(y, tls, "key_file", path, &key);
	read_client_auth(w, tls, path);
	read_priority(w, tls);
	if (!base_yaml_error(y))
		check_certificates(w, tls, &key);
	if (key.data)
		gnutls_memset(key.data, 0, key.bytes);
	free(key.data);
}

/* ---- http_server_config, basic_auth_users ---- */

static void read_headers(struct http_web *w, base_yaml_node http)
{
	/* The headers supported by exporter-toolkit; each is sent with every answer. */
	struct base_yaml *y = w->yaml;
	base_yaml_node list, value, where;
	const char *name;
	bool http2;

	if (!base_yaml_keys(y, http, "http2", "headers"))
		return;
	/* HTTP/1.1 is served in either case, because clients negotiate the version. */
	base_yaml_bool_of(y, http, "http2", &http2);
	list = base_yaml_get(y, http, "headers");
	if (!base_yaml_keys(y, list, "Content-Security-Policy", "X-Frame-Options",
			    "Strict-Transport-Security", "X-XSS-Protection",
			    "X-Content-Type-Options"))
		return;
	for (size_t i = 0; base_yaml_pair(y, list, i, &name, &where, &value); i++) {
		const char *text = "";

		base_yaml_string(y, value, name, &text);
		if (text[strcspn(text, "\r\n")])
			base_yaml_wrong(y, where, "%s has more than one line", name);
		/* This header is always sent. */
		if (!*text || !strcmp(name, "X-Content-Type-Options"))
			continue;
		w->headers[w->header_count].name = name;
		w->headers[w->header_count++].value = text;
	}
}

/* Checks for "$2y$10$" and 53 characters. Returns the cost, or 0. */
static unsigned int bcrypt_cost(const char *hash)
{
	static const char chars[] =
		"./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	uint64_t cost;
	char digits[3];

	if (strlen(hash) != 60 || strncmp(hash, "$2", 2) || !strchr("aby", hash[2]) ||
	    hash[3] != '$' || hash[6] != '$' || strspn(hash + 7, chars) != 53)
		return 0;
	snprintf(digits, sizeof(digits), "%.2s", hash + 4);
	return base_parse_u64(*digits == '0' ? digits + 1 : digits, 4, 31, &cost)
		       ? 0
		       : (unsigned int)cost;
}

static void read_users(struct http_web *w, base_yaml_node users)
{
	struct base_yaml *y = w->yaml;
	unsigned int cost, most = 0;
	base_yaml_node value, where;
	const char *name;

	if (users && !base_yaml_is_mapping(y, users))
		base_yaml_wrong(y, users, "basic_auth_users: expected 'name: hash' lines");
	for (size_t i = 0; base_yaml_pair(y, users, i, &name, &where, &value); i++) {
		struct http_web_user *more;
		const char *hash = "";

		base_yaml_string(y, value, "basic_auth_users", &hash);
		cost = bcrypt_cost(hash);
		if (!*name || strchr(name, ':') || i >= HTTP_WEB_USERS)
			base_yaml_wrong(y, where, "not a valid user name, or too many users");
		else if (!cost)
			base_yaml_wrong(y, where, "the password of %s is not a bcrypt hash", name);
		else if (cost > HTTP_WEB_COST_MAX)
			base_yaml_wrong(y, where, "the hash of %s has cost %u: the maximum is %u",
					name, cost, HTTP_WEB_COST_MAX);
		for (size_t k = 0; k < w->user_count; k++)
			if (!strcmp(w->users[k].name, name))
				base_yaml_wrong(y, where, "%s is given twice", name);
		more = realloc(w->users, (w->user_count + 1) * sizeof(*more));
		if (!more)
			base_yaml_wrong(y, where, "out of memory");
		if (base_yaml_error(y)) {
			w->users = more ?: w->users;
			return;
		}
		w->users = more;
		w->users[w->user_count++] = (struct http_web_user){name, hash, HTTP_READER};
		if (cost > most) {
			most = cost;
			w->dummy = hash;
		}
	}
}

/* ---- roles ---- */

static const struct {
	const char *name;
	enum http_role role;
} roles_of[] = {{"read", HTTP_READER}, {"act", HTTP_ACTOR}, {"admin", HTTP_ADMIN}};
#define ROLES (sizeof(roles_of) / sizeof(*roles_of))

static base_yaml_node role_list(const struct http_web *w, size_t role, const char *kind)
{
	struct base_yaml *y = w->roles_yaml;
	base_yaml_node all = y ? base_yaml_get(y, base_yaml_root(y), "roles") : 0;

	return y ? base_yaml_get(y, base_yaml_get(y, all, roles_of[role].name), kind) : 0;
}

static bool list_has(const struct http_web *w, base_yaml_node list, const char *name)
{
	struct base_yaml *y = w->roles_yaml;

	for (size_t i = 0; y && i < base_yaml_count(y, list); i++)
		if (!strcmp(base_yaml_text_at(y, list, i, "roles"), name))
			return true;
	return false;
}

enum http_role http_web_role(const struct http_web *w, const char *kind, const char *name)
{
	for (size_t i = ROLES; i-- > 0;)
		if (list_has(w, role_list(w, i, kind), name))
			return roles_of[i].role;
	return w->readers_named ? HTTP_PUBLIC : HTTP_READER;
}

/* Refuses a user in the roles file that is not in web.yml. */
static void check_role_users(const struct http_web *w, base_yaml_node list)
{
	struct base_yaml *y = w->roles_yaml;

	for (size_t i = 0, k; i < base_yaml_count(y, list); i++) {
		const char *name = base_yaml_text_at(y, list, i, "users");

		for (k = 0; k < w->user_count && strcmp(w->users[k].name, name);)
			k++;
		if (k == w->user_count)
			base_yaml_wrong(y, base_yaml_at(y, list, i),
					"%.64s is not among basic_auth_users", name);
	}
}

/* Reads the names of proxies that may set X-Remote-User and X-Remote-Group. */
static void read_proxy(struct http_web *w, const char *path)
{
	struct base_yaml *y = w->roles_yaml;
	base_yaml_node proxy = base_yaml_get(y, base_yaml_root(y), "requestheader"), names;
	gnutls_x509_trust_list_t list = NULL;
	gnutls_datum_t ca;

	if (!base_yaml_keys(y, proxy, "client_ca_file", "allowed_names"))
		return;
	if (!w->tls)
		base_yaml_wrong(y, proxy, "requestheader needs a tls_server_config in web.yml");
	base_yaml_need(y, proxy, "client_ca_file");
	names = base_yaml_need(y, proxy, "allowed_names");
	if (names && (!base_yaml_count(y, names) || base_yaml_count(y, names) > HTTP_WEB_SANS))
		base_yaml_wrong(y, names, "allowed_names: must have one to %u names",
				HTTP_WEB_SANS);
	for (size_t i = 0; i < base_yaml_count(y, names) && !base_yaml_error(y); i++) {
		w->proxy_names[i] = base_yaml_text_at(y, names, i, "allowed_names");
		w->proxy_name_count = i + 1;
	}
	if (base_yaml_error(y) || !slurp_file(y, proxy, "client_ca_file", path, &w->proxy_ca))
		return;
	ca = (gnutls_datum_t){(unsigned char *)w->proxy_ca.data, (unsigned int)w->proxy_ca.bytes};
	if (gnutls_x509_trust_list_init(&list, 0) ||
	    gnutls_x509_trust_list_add_trust_mem(list, &ca, NULL, GNUTLS_X509_FMT_PEM, 0, 0) <= 0)
		base_yaml_wrong(y, base_yaml_get(y, proxy, "client_ca_file"),
				"client_ca_file contains no certificate");
	if (list)
		gnutls_x509_trust_list_deinit(list, 1);
}

static void read_roles(struct http_web *w, const char *path)
{
	static const char *const kinds[] = {"users", "certificates", "remote_users",
					    "remote_groups", NULL};
	struct base_yaml *y = w->roles_yaml;
	base_yaml_node all, one;

	refuse_empty(y);
	if (!base_yaml_keys(y, base_yaml_root(y), "requestheader", "roles"))
		return;
	read_proxy(w, path);
	all = w->proxy_ca.data ? base_yaml_get(y, base_yaml_root(y), "roles")
			       : base_yaml_need(y, base_yaml_root(y), "roles");
	if (!base_yaml_keys(y, all, "read", "act", "admin"))
		return;
	for (size_t i = 0; i < ROLES; i++) {
		one = base_yaml_get(y, all, roles_of[i].name);
		if (base_yaml_mapping(y, one, kinds))
			check_role_users(w, base_yaml_get(y, one, "users"));
	}
	w->readers_named = base_yaml_get(y, all, "read");
	for (size_t i = 0; i < w->user_count; i++)
		w->users[i].role = http_web_role(w, "users", w->users[i].name);
	for (size_t i = 0; i < ROLES; i++) /* reports entries that are not text */
		for (size_t k = 1; kinds[k]; k++)
			list_has(w, role_list(w, i, kinds[k]), "");
}

enum http_role http_web_certificate_role(const struct http_web *w, const char *names, size_t bytes)
{
	enum http_role best = w->readers_named ? HTTP_PUBLIC : HTTP_READER, role;

	for (size_t at = 0; at < bytes; at += strlen(names + at) + 1) {
		role = http_web_role(w, "certificates", names + at);
		best = BASE_MAX(best, role);
	}
	return best;
}

/* ---- the whole file ---- */

bool http_web_authenticates(const struct http_web *w)
{
	return w->user_count || w->client_auth == HTTP_CLIENT_REQUIRE || w->proxy_ca.data;
}

static void read_web(struct http_web *w, const char *path)
{
	struct base_yaml *y = w->yaml;
	base_yaml_node root = base_yaml_root(y);

	refuse_empty(y);
	if (!base_yaml_keys(y, root, "tls_server_config", "http_server_config", "basic_auth_users"))
		return;
	read_tls(w, base_yaml_get(y, root, "tls_server_config"), path);
	read_headers(w, base_yaml_get(y, root, "http_server_config"));
	read_users(w, base_yaml_get(y, root, "basic_auth_users"));
}

struct http_web *http_web_read(const char *path, const char *roles, char *error, size_t bytes)
{
	struct http_web *w = calloc(1, sizeof(*w));
	const char *wrong = "out of memory";

	if (w) {
		/* taken before reading, so that a change during the read is noticed */
		w->stamp = http_web_stamp(path, roles);
		w->yaml = base_yaml_open(path);
		w->roles_yaml = w->yaml && roles ? base_yaml_open(roles) : NULL;
	}
	if (w && w->yaml && (!roles || w->roles_yaml)) {
		read_web(w, path);
		wrong = base_yaml_error(w->yaml);
		if (!wrong && roles) {
			read_roles(w, roles);
			wrong = base_yaml_error(w->roles_yaml);
		}
	}
	if (!wrong)
		return w;
	snprintf(error, bytes, "%s", wrong);
	http_web_free(w);
	errno = EINVAL;
	return NULL;
}

void http_web_free(struct http_web *w)
{
	if (!w)
		return;
	if (w->key)
		gnutls_privkey_deinit(w->key);
	base_yaml_close(w->yaml);
	base_yaml_close(w->roles_yaml);
	free(w->users);
	free(w->cert.data);
	free(w->ca.data);
	free(w->proxy_ca.data);
	free(w);
}
