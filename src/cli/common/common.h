/* SPDX-License-Identifier: Apache-2.0 */
/* common.h - options and output functions that several commands share. */
#ifndef SL_CLI_COMMON_COMMON_H
#define SL_CLI_COMMON_COMMON_H

#include <jansson.h>

#include "base/base.h"

/* Prepares the process. Each program calls this function first. */
void cli_start(void);

/* The commands; each is defined in its cmd_*.c. */
extern const struct base_command cli_cmd_agent, cli_cmd_bridge, cli_cmd_collect, cli_cmd_demo,
	cli_cmd_dump, cli_cmd_generate, cli_cmd_kafka, cli_cmd_manage, cli_cmd_model,
	cli_cmd_model_train, cli_cmd_query, cli_cmd_replay, cli_cmd_report, cli_cmd_tcp,
	cli_cmd_top, cli_cmd_translate;

/* Option rows that select a GID and port of an RDMA device. by: how index -1 selects a GID. */
#define CLI_OPTIONS_RDMA_PORT(gid_to, port_to, by)                          \
	BASE_INT("gid", 0, gid_to, -1, 255, "INDEX", "GID index; -1: " by), \
		BASE_INT("ib-port", 0, port_to, 1, 255, "N", "port of the RDMA device")

#define CLI_OPTION_RDMA_SECRET(to, whom)      \
	BASE_STRING(                          \
		"rdma-secret", 0, to, "FILE", \
		"over RDMA, authenticate both sides with the secret in this file; without it, " whom)
/*
 * Reads the file given by an option, such as rdma-secret, into static storage. A NULL path means no
 * secret. Returns an exit code; prints an error on failure.
 */
int cli_shared_secret(const struct base_command *self, const char *option, const char *path,
		      const void **secret, size_t *bytes);

/*
 * Runs the one of n commands whose name is self's name followed by argv[1], or shows self's help.
 * names: examples for the error message if argv[1] is missing. Returns -1 if there is no such
 * command.
 */
int cli_run_kind(const struct base_command *self, const struct base_command *const *kinds, size_t n,
		 const char *names, int argc, char **argv);
/*
 * Replaces this process with Python, which runs a script in src/manage with the program's path and
 * these arguments (at most 30, NULL-terminated). Returns an exit code on failure.
 */
int cli_exec_script(const struct base_command *self, const char *name, char *const *args);
/* Returns the last word of a command's name: "probe" for "tcp probe". */
const char *cli_kind_name(const struct base_command *kind);

/*
 * Flushes stdout. Returns code, or BASE_EXIT_FAILURE after printing an error if output was lost.
 */
int cli_output_end(const struct base_command *self, int code);
/*
 * Prints untrusted text on stdout, padded to width, with '?' for control characters. NULL is "".
 */
void cli_print_safe(const char *s, int width);

#define CLI_OPTION_UNCONFINED(to)                                                                  \
	BASE_FLAG("unconfined", 0, to,                                                             \
		  "keep all privileges after start-up: capabilities, system calls and paths; for " \
		  "debuggers")
/* Drops the privileges of this process. Returns an exit code; prints an error on failure. */
struct base_confine_opts;
int cli_confine(const char *component, const struct base_confine_opts *opts);

/* Logs the reason for a failure and evaluates to an exit code. */
#define CLI_FAIL(component, ...) (base_logf(BASE_ERROR, component, __VA_ARGS__), BASE_EXIT_FAILURE)

/* Converts an integer for format 'I' of json_pack(). */
#define CLI_INT(v) ((json_int_t)(v))

/* Returns the index of word in names, which is NULL-terminated, or -1. */
int cli_choice(const char *word, const char *const *names);
/*
 * Parses --legacy: "a" is 1 and "b" is 2, as in enum dta_legacy; NULL is 0. Returns -1 if invalid.
 */
int cli_legacy(const char *form);

/* Name in JSON, and offset, of a uint64_t member of a structure. */
struct cli_count {
	const char *name;
	size_t at;
};
#define CLI_COUNT_AS(name, type, field)            \
	{                                          \
		name, offsetof(struct type, field) \
	}
#define CLI_COUNT(type, field) CLI_COUNT_AS(#field, type, field)
uint64_t cli_count_of(const void *from, const struct cli_count *c);
void cli_json_counts(json_t *to, const void *from, const struct cli_count *counts, size_t n);
/* Return a member of an object, or "", 0 or false if it is missing or of another type. */
const char *cli_json_text(const json_t *o, const char *key);
json_int_t cli_json_integer(const json_t *o, const char *key); /* print with %lld */
double cli_json_number(const json_t *o, const char *key);
bool cli_json_true(const json_t *o, const char *key);
/* Returns true if the member is this text. */
bool cli_json_is(const json_t *o, const char *key, const char *text);
/* Prints a document and a newline. Takes over a reference to j. Returns false if out of memory. */
bool cli_json_print(FILE *out, json_t *j, size_t flags);

/*
 * Option rows for authentication and encryption of a server. The rows after them belong to the
 * core.
 */
#define CLI_OPTIONS_WEB(config, roles, insecure_)                                                  \
	BASE_FLAG(                                                                                 \
		"insecure-listen", 0, insecure_,                                                   \
		"listen on addresses other than loopback without TLS: tokens and passwords cross " \
		"the network in the clear"),                                                       \
		CLI_PART_TLS,                                                                      \
		BASE_STRING("web-config", 0, config, "FILE",                                       \
			    "configure TLS, certificates and passwords of the server with this "   \
			    "web.yml of Prometheus' exporter-toolkit; read again when it "         \
			    "changes"),                                                            \
		BASE_STRING("roles", 0, roles, "FILE",                                             \
			    "roles of the users and certificates of --web-config: read, act, "     \
			    "admin"),                                                              \
		BASE_CORE

/* Option row for the connection to one receiver. */
#define CLI_CLIENT_FILE                                                  \
	" as configured in this file: tokens, passwords, certificates, " \
	"headers, proxy, in the form of Prometheus' http_client_config"
#define CLI_OPTION_CLIENT(name, to, whom) \
	BASE_STRING(name, 0, to, "FILE", "connect to " whom CLI_CLIENT_FILE)

/*
 * Returns the address of a server as the functions below take it, to be freed: HOST:PORT for
 * "http://HOST:PORT/", and any other without a final '/'. Returns NULL if it is empty, too long, or
 * has control characters.
 */
char *cli_address(const char *url);

struct cli_request {
	const char *at;		 /* address: HOST:PORT, https://HOST:PORT, or unix:/PATH */
	const char *method;	 /* HTTP method; NULL means GET, or POST if there is a body */
	const char *path, *body; /* body: JSON, or NULL */
	const char *token;	 /* bearer token, or NULL */
	const char *config;	 /* configuration file, as in http/client.h, or NULL */
	long timeout_ms;
};
/*
 * Sends a request. Returns the response, of at most 64 MiB, or NULL if there is none or if it is
 * not JSON. *status: the status of the response, or 0 with a one-line error in why.
 */
json_t *cli_http(const struct cli_request *r, long *status, char *why, size_t why_bytes);

/* Connects to the socket of an agent. Returns a descriptor, or -1 with errno. */
int cli_agent_connect(const char *path);
/*
 * Sends a request and waits for a reply of type wanted. Returns the file descriptor in the reply,
 * or -1 with a one-line error in why.
 */
int cli_agent_ask(int s, uint16_t type, const void *payload, uint32_t bytes, uint16_t wanted,
		  char *why, size_t why_bytes);

/*
 * The parts that a build may lack, for tables of options. Each has the name of its meson option;
 * docs/packages.md describes them.
 */
#define CLI_PART_ANALYSIS     BASE_PART("analysis", "analysis", HAVE_ANALYSIS)
#define CLI_PART_BRIDGE	      BASE_PART("bridges", "bridge", HAVE_BRIDGE)
#define CLI_PART_DTA	      BASE_PART("DTA", "dta", HAVE_DTA)
#define CLI_PART_FABRIC_TCP   BASE_PART("READs over TCP", "fabric-tcp", HAVE_FABRIC_TCP)
#define CLI_PART_KAFKA	      BASE_PART("Kafka", "kafka", HAVE_KAFKA)
#define CLI_PART_LEVELS	      BASE_PART("levels", "levels", HAVE_LEVELS)
#define CLI_PART_REMOTE_WRITE BASE_PART("remote write", "remote-write", HAVE_REMOTE_WRITE)
#define CLI_PART_TCP	      BASE_PART("TCP telemetry", "tcp", HAVE_TCP)
#define CLI_PART_TLS	      BASE_PART("TLS", "tls", HAVE_TLS)
#define CLI_PART_VERBS	      BASE_PART("RDMA", "verbs", HAVE_VERBS)

/*
 * token.c: the token that authorizes the user who runs a collector to change its stores. The
 * collector draws a token when it starts and leaves it in a file of the runtime directory that only
 * this user can read; the commands of the same user find it there. Runtime directories are
 * $RUNTIME_DIRECTORY, /run/sidelight-collect, $XDG_RUNTIME_DIR/sidelight and /tmp/sidelight-UID. A
 * directory that others can write to is not used.
 */

#define CLI_TOKEN_BYTES 65u  /* size of a generated token, with the NUL */
#define CLI_TOKEN_MAX	1024 /* maximum size of a token file in bytes */

/* Generates a token. Returns false if the kernel has no random bytes. */
bool cli_token_draw(char token[CLI_TOKEN_BYTES]);
/*
 * Writes the token of the collector at address to a file. Returns the file's path, to be freed, or
 * NULL if no directory is usable.
 */
char *cli_token_leave(const char *address, const char *token);
/* Returns the token of the collector at HOST:PORT, to be freed, or NULL if this user has none. */
char *cli_token_find(const char *at);
/* Reads a token from a file. Returns the token, to be freed, or NULL after printing an error. */
char *cli_token_read(const struct base_command *cmd, const char *path);

#endif
