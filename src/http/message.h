/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message.h - what the two processes of a server tell each other.
 *
 * The *front* faces clients: it accepts, parses, bounds and compresses, in a process that can open
 * nothing. The *back*, in the process that has the state, checks roles and runs handlers. They
 * share a control socket, and one channel, a unix stream socket, for each thread of the front. A
 * message is a struct http_message and .bytes of payload.
 *
 *	on a channel, from the front		answer of the back
 *	OPEN	slot, with its descriptor
 *		if clients are local users;
 *		payload if there is a web.yml	-
 *	ASK	slot, arg: serial; payload	HEAD: payload
 *	READ	slot, arg: most bytes		DATA (no bytes: the end), or BROKEN
 *	DONE	slot, arg: serial of the ASK	-
 *	CLOSE	slot				-
 *	REFUSED	slot: cause, arg: how many	-
 *	SIGN	slot: algorithm, arg: stamp of
 *		TLS; payload: hash or data	SIGNED: payload, or BROKEN
 *	on the control socket
 *	READY or FAILED: payload is a line	-
 *	and from the back: TLS: payload		-
 *
 * A slot is a connection, which stays with its thread and has at most one request. The front
 * fetches a body piece by piece as its client takes it: what a slow client does not take, neither
 * process holds, and nothing is sent unasked. A body ends with DONE, CLOSE or the next ASK of its
 * slot.
 *
 * The back takes the front for hostile: lengths, counts, strings, slots and order are checked, and
 * what is wrong ends the front. Who a local caller is, the back asks the kernel, of the descriptor.
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
};

struct http_message {
	uint32_t type, bytes, slot, arg;
};

#define HTTP_PIECE	    (32u * 1024)  /* most bytes of a body in a message */
#define HTTP_MESSAGE_TEXT   (128u * 1024) /* of all strings of a request or a head */
#define HTTP_MESSAGE_FIELDS 4096u
#define HTTP_FAILED_TEXT    256u

#define HTTP_MESSAGE_NAMES  4096u  /* of a client's certificate, together */
#define HTTP_MESSAGE_SIGN   16384u /* what is to be signed */
#define HTTP_SIGNATURE	    2048u
#define HTTP_TLS_MAX	    (1u << 20)
#define HTTP_PEER_KEY	    24u

/* Of an OPEN: then .names bytes: the names in the client's certificate, each with its NUL. */
struct http_message_open {
	unsigned char peer[HTTP_PEER_KEY]; /* the user or address: peer.c */
	uint32_t certified, names;	   /* certified: enum http_certified */
};

enum http_certified {
	HTTP_CERTIFIED_NOT,
	HTTP_CERTIFIED_CLIENT, /* by client_ca_file of web.yml */
	HTTP_CERTIFIED_PROXY,  /* the front proxy of API servers: requestheader of the roles */
};

/*
 * Of a TLS message: then .cert, .ca and .proxy_ca bytes of PEM, and .names bytes: the names of
 * which a client's certificate must have one, each with its NUL; and .proxy_names, likewise of a
 * front proxy.
 */
struct http_message_tls {
	uint32_t stamp, client_auth, cert, ca, proxy_ca, names, proxy_names;
	char priority[512];
};

/*
 * Of an ASK: then .text bytes: method and path, each with its NUL, and .fields times a kind, a name
 * and a value; then .body bytes.
 */
struct http_message_ask {
	uint32_t fields, text, body;
	uint32_t answers; /* to the same user or address, made or sent now, with this one */
};

enum http_field_kind {
	HTTP_FIELD_HEADER = 'h',
	HTTP_FIELD_QUERY = 'q',
	HTTP_FIELD_BARE = 'b', /* of the query, without '=': the value is "" */
};

/* Of a HEAD: then .text bytes: .fields times a name and a value; then the beginning of the body. */
struct http_message_head {
	uint32_t status; /* 0: close the connection */
	uint32_t fields, text, flags;
	uint64_t total; /* bytes of the body; UINT64_MAX: not known */
};

#define HTTP_HEAD_GZIP	1u /* the client takes it compressed */
#define HTTP_HEAD_MORE	2u /* READ the rest */
#define HTTP_HEAD_KNOWN 4u /* the client had a right token */

/* Pointers into the payload. */
struct http_message_field {
	const char *name, *value;
	char kind; /* enum http_field_kind; 0: of a HEAD */
};

struct http_message_request {
	const char *method, *path;
	struct http_message_field *fields; /* malloc'd */
	size_t field_count;
	const unsigned char *body;
	size_t body_bytes;
	uint32_t answers;
};

struct http_message_answer {
	struct http_message_head head;
	struct http_message_field *fields; /* malloc'd */
	const unsigned char *body;
	size_t body_bytes;
};

/* The payload must stay. 0, -EPROTO, or -ENOMEM. */
int http_message_ask_unpack(const void *payload, size_t bytes, size_t max_body,
			    struct http_message_request *out);
int http_message_head_unpack(const void *payload, size_t bytes, struct http_message_answer *out);

/* Strings of a message that is being written. */
struct http_message_text {
	char *s;
	size_t bytes, room;
	bool failed; /* out of memory, or over HTTP_MESSAGE_TEXT */
};

/* kind 0: none. */
void http_message_put(struct http_message_text *t, char kind, const char *string);

/* Whether a call on a socket is worth another try: it was interrupted, or waits for memory. */
bool http_message_again(int error);
/* Sends m and its payload, of which a and b are the parts, m.bytes together. 0 or -errno. */
int http_message_send(int fd, struct http_message m, const void *head, size_t head_bytes,
		      const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* The payload of a message that was sent already. */
int http_message_give(int fd, const void *a, size_t a_bytes, const void *b, size_t b_bytes);
/* The same without payload; descriptors go along. */
int http_message_send_fds(int fd, const void *m, size_t bytes, const int *fds, size_t n);
/*
 * Receives a struct http_message, or as many bytes. passed: a descriptor that came along, or -1;
 * NULL: none may. 0, -EPIPE at the end, or -errno.
 */
int http_message_receive(int fd, struct http_message *m, int *passed);
/* Receives exactly these bytes. 0, -EPIPE, or -errno. */
int http_message_take(int fd, void *to, size_t bytes);
/* Both ends meet the end. A call that fails is made again: a thread waits for what it does. */
void http_message_hang_up(int fd);

#endif
