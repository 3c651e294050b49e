/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - messages between the two processes of a server.
 *
 * The *front* faces clients: it accepts, parses, enforces limits and compresses, in a process that
 * can't open any files. The *back*, in the process with the state, checks roles and runs handlers.
 * They share a control socket, and one channel (a unix stream socket) per thread of the front. A
 * message is a struct http_message followed by .bytes of payload.
 *
 *	on a channel, from the front		answer of the back
 *	OPEN	slot, with its descriptor
 *		if clients are local users;
 *		payload if there is a web.yml	-
 *	ASK	slot, arg: serial; payload	HEAD: payload; or LATER
 *	READ	slot, arg: most bytes		DATA (empty at the end), or BROKEN; or LATER
 *	AWAIT	slot, arg: serial		-
 *	TAKE	slot, arg: serial		as for the ASK or READ; or LATER
 *	DONE	slot, arg: serial of the ASK	-
 *	CLOSE	slot				-
 *	REFUSED	slot: cause, arg: number	-
 *	SIGN	slot: algorithm, arg: stamp of
 *		TLS; payload: hash or data	SIGNED: payload, or BROKEN
 *	on the control socket
 *	READY or FAILED: payload is a line	-
 *	and from the back: TLS: payload		-
 *	WAKE	slot, arg: serial		-
 *
 * A slot is a connection, which stays with its thread and has at most one request. The front
 * fetches a body piece by piece as its client receives it. Neither process buffers data that a slow
 * client has not received, and nothing is sent without a request. A body ends with DONE, CLOSE or
 * the next ASK for its slot.
 *
 * LATER means that the answer is not ready, because the request is in the queue of costly requests
 * (queue.c). In the meantime the front serves other clients. It sends AWAIT, receives WAKE when the
 * answer is ready, and fetches it with TAKE. If the client leaves first, the front sends DONE or
 * CLOSE, which ends the work.
 *
 * The back does not trust the front: it checks lengths, counts, strings, slots and order, and stops
 * the front if any of these is wrong. The kernel identifies local callers by their descriptors.
 */
#ifndef SL_HTTP_MESSAGE_H
#define SL_HTTP_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum http_message_type {
	HTTP_OPEN = 1,
	HTTP_ASK,
	HTTP_READ,
	HTTP_DONE,
	HTTP_CLOSE,
	HTTP_REFUSED,
	HTTP_HEAD,
	HTTP_DATA,
	HTTP_BROKEN,
	HTTP_READY,
	HTTP_FAILED,
	HTTP_TLS,
	HTTP_SIGN,
	HTTP_SIGNED,
	HTTP_LATER,
	HTTP_AWAIT,
	HTTP_TAKE,
	HTTP_WAKE,
};

struct http_message {
	uint32_t type, bytes, slot, arg;
};

#define HTTP_PIECE	    (32u * 1024)  /* maximum size of a piece of a body in a message */
#define HTTP_MESSAGE_TEXT   (128u * 1024) /* maximum size of all strings of a request or a head */
#define HTTP_MESSAGE_FIELDS 4096u
#define HTTP_FAILED_TEXT    256u

#define HTTP_MESSAGE_NAMES  4096u  /* maximum total length of the names in a client's certificate */
#define HTTP_MESSAGE_SIGN   16384u /* maximum size of data to be signed */
#define HTTP_SIGNATURE	    2048u
#define HTTP_TLS_MAX	    (1u << 20)
#define HTTP_PEER_KEY	    24u

/*
 * Payload of OPEN, followed by .names bytes: the NUL-terminated names in the client's certificate.
 */
struct http_message_open {
	unsigned char peer[HTTP_PEER_KEY]; /* key of the user or address (peer.c) */
	uint32_t certified, names;	   /* certified: an enum http_certified */
};

enum http_certified {
	HTTP_CERTIFIED_NOT,
	HTTP_CERTIFIED_CLIENT, /* signed by client_ca_file in web.yml */
	HTTP_CERTIFIED_PROXY,  /* a front proxy of API servers: requestheader in the roles file */
};

/*
 * Payload of TLS, followed by .cert, .ca and .proxy_ca bytes of PEM; then .names bytes with
 * NUL-terminated names, one of which a client's certificate must have; then .proxy_names bytes with
 * the same for a front proxy.
 */
struct http_message_tls {
	uint32_t stamp, client_auth, cert, ca, proxy_ca, names, proxy_names;
	char priority[512];
};

/*
 * Payload of ASK, followed by .text bytes (NUL-terminated method and path, then .fields triples of
 * kind, name and value), then by .body bytes.
 */
struct http_message_ask {
	uint32_t fields, text, body;
	uint32_t answers; /* answers in progress for the same user or address, including this one */
};

enum http_field_kind {
	HTTP_FIELD_HEADER = 'h',
	HTTP_FIELD_QUERY = 'q',
	HTTP_FIELD_BARE = 'b', /* a query parameter without '=', whose value is "" */
};

/*
 * Payload of HEAD, followed by .text bytes (.fields pairs of name and value), then by the start of
 * the body.
 */
struct http_message_head {
	uint32_t status; /* status code; 0 means close the connection */
	uint32_t fields, text, flags;
	uint64_t total; /* length of the body; UINT64_MAX means unknown */
};

#define HTTP_HEAD_GZIP	1u /* the body should be compressed */
#define HTTP_HEAD_MORE	2u /* READ fetches the rest of the body */
#define HTTP_HEAD_KNOWN 4u /* the client presented a correct token */

/* These structures point into the payload. */
struct http_message_field {
	const char *name, *value;
	char kind; /* enum http_field_kind; 0 in a HEAD */
};

struct http_message_request {
	const char *method, *path;
	struct http_message_field *fields; /* allocated with malloc() */
	size_t field_count;
	const unsigned char *body;
	size_t body_bytes;
	uint32_t answers;
};

struct http_message_answer {
	struct http_message_head head;
	struct http_message_field *fields; /* allocated with malloc() */
	const unsigned char *body;
	size_t body_bytes;
};

/* Unpack a payload, which must outlive the result. Return 0, -EPROTO or -ENOMEM. */
int http_message_ask_unpack(const void *payload, size_t bytes, size_t max_body,
			    struct http_message_request *out);
int http_message_head_unpack(const void *payload, size_t bytes, struct http_message_answer *out);

/* Strings of a message under construction. */
struct http_message_text {
	char *s;
	size_t bytes, room;
	bool failed; /* out of memory, or longer than HTTP_MESSAGE_TEXT */
};

/* Appends a string. kind: 0 means without a kind. */
void http_message_put(struct http_message_text *t, char kind, const char *string);

/* Whether to retry a socket call that was interrupted or ran out of memory. */
bool http_message_again(int error);
/*
 * Sends m and its payload of m.bytes bytes, which consists of head, a and b. Returns 0 or -errno.
 */
int http_message_send(int fd, struct http_message m, const void *head, size_t head_bytes,
		      const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* Sends the payload of a message whose header was already sent. */
int http_message_give(int fd, const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* Sends a message without payload, with file descriptors. */
int http_message_send_fds(int fd, const void *m, size_t bytes, const int *fds, size_t n);
/*
 * Receives a struct http_message, or the same number of bytes. passed: receives a file descriptor
 * sent along, or -1; if NULL, no descriptor is allowed. Returns 0, -EPIPE at the end, or -errno.
 */
int http_message_receive(int fd, struct http_message *m, int *passed);
/* Receives exactly the given number of bytes. Returns 0, -EPIPE or -errno. */
int http_message_take(int fd, void *to, size_t bytes);
/*
 * Shuts a socket down in both directions. Retries on failure, because a thread is waiting for the
 * effect.
 */
void http_message_hang_up(int fd);

#endif
