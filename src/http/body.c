// SPDX-License-Identifier: Apache-2.0
/*
 * body.c - passes the back's answer to the client: fetches it piece by piece as the client receives
 * it, and compresses it if the back requests that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "http/front.h"

struct pieces {
	struct http_server *server;
	struct http_connection *c; /* used only by body_read() */
	uint32_t slot, serial;
	uint64_t left;		/* bytes not passed to the client yet; UINT64_MAX: not known */
	bool more;		/* the back has more pieces */
	bool later;		/* the next piece was not ready: TAKE it */
	struct http_gzip *gzip; /* NULL: the body is sent as it is */
	size_t bytes, given;	/* size of the current piece, and the part already passed on */
	unsigned char piece[HTTP_PIECE];
};

/* ---- pieces ---- */

/*
 * Fetches the next piece into b->piece. Returns its length; 0 at the end; -EAGAIN if it is not
 * ready, and the connection is suspended until it is; or -EIO.
 */
static ssize_t fetch_piece(struct pieces *b)
{
	const struct http_message ask = {.type = b->later ? HTTP_TAKE : HTTP_READ,
					 .slot = b->slot,
					 .arg = b->later ? b->serial : sizeof(b->piece)};
	int fd = http_front_channel(b->server);
	struct http_message m;

	b->bytes = b->given = 0;
	if (!b->more)
		return 0;
	if (b->c->left)
		return -EIO;
	if (http_message_send(fd, ask, NULL, 0, NULL, 0, NULL, 0) ||
	    http_message_receive(fd, &m, NULL) || m.bytes > sizeof(b->piece) ||
	    (m.type != HTTP_DATA && m.type != HTTP_BROKEN && m.type != HTTP_LATER) ||
	    http_message_take(fd, b->piece, m.bytes))
		http_front_gone();
	b->later = m.type == HTTP_LATER;
	if (b->later) {
		http_front_await(b->server, b->c);
		return -EAGAIN;
	}
	if (m.type == HTTP_BROKEN)
		return -EIO;
	b->more = m.bytes != 0;
	b->bytes = m.bytes;
	return (ssize_t)m.bytes;
}

static ssize_t read_plain(struct pieces *b, char *buf, size_t max)
{
	ssize_t n = b->given < b->bytes ? 1 : fetch_piece(b);

	if (n <= 0)
		return n;
	n = (ssize_t)(b->bytes - b->given < max ? b->bytes - b->given : max);
	memcpy(buf, b->piece + b->given, (size_t)n);
	b->given += (size_t)n;
	return n;
}

/* Callback of http_gzip_read(). */
static ssize_t next_piece(void *arg, const unsigned char **piece)
{
	struct pieces *b = arg;
	ssize_t n = b->given < b->bytes ? (ssize_t)b->bytes : fetch_piece(b);

	*piece = b->piece;
	b->given = b->bytes;
	return n;
}

static ssize_t body_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct pieces *b = arg;
	ssize_t n;

	(void)pos;
	if (max > HTTP_PIECE)
		max = HTTP_PIECE;
	n = b->gzip ? http_gzip_read(b->gzip, buf, max, next_piece, b) : read_plain(b, buf, max);
	if (n == -EAGAIN)
		return 0; /* libmicrohttpd calls again when the connection is resumed */
	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	return n;
}

static void body_free(void *arg)
{
	struct pieces *b = arg;

	http_gzip_end(b->gzip);
	http_front_tell(b->server, HTTP_DONE, b->slot, b->serial);
	free(b);
}

/* ---- the response ---- */

/* Makes the response when the whole body is available. */
static struct MHD_Response *whole_response(const struct http_message_answer *a, bool *gzipped)
{
	struct MHD_Response *response;
	unsigned char *gz = NULL;
	size_t gz_bytes = 0;

	if (a->head.flags & HTTP_HEAD_GZIP)
		gz = http_gzip_whole(a->body, a->body_bytes, &gz_bytes);
	*gzipped = gz;
	if (!gz)
		return MHD_create_response_from_buffer(a->body_bytes, (void *)(uintptr_t)a->body,
						       MHD_RESPMEM_MUST_COPY);
	response = MHD_create_response_from_buffer(gz_bytes, gz, MHD_RESPMEM_MUST_FREE);
	if (!response)
		free(gz);
	return response;
}

static struct MHD_Response *in_pieces(const struct http_client_request *req,
				      const struct http_message_answer *a, bool *gzipped)
{
	struct pieces *b = calloc(1, sizeof(*b));
	struct MHD_Response *response;

	*gzipped = false;
	if (!b) {
		http_front_tell(req->server, HTTP_DONE, req->c->slot, req->c->serial);
		return NULL;
	}
	b->server = req->server;
	b->c = req->c;
	b->slot = req->c->slot;
	b->serial = req->c->serial;
	b->more = true;
	b->bytes = a->body_bytes;
	memcpy(b->piece, a->body, a->body_bytes);
	b->gzip = a->head.flags & HTTP_HEAD_GZIP ? http_gzip_begin() : NULL;
	*gzipped = b->gzip;
	response = MHD_create_response_from_callback(
		b->gzip || a->head.total == UINT64_MAX ? MHD_SIZE_UNKNOWN : a->head.total,
		HTTP_PIECE, body_read, b, body_free);
	if (!response)
		body_free(b);
	return response;
}

static void queue_response(struct http_client_request *req, const struct http_message_answer *a)
{
	struct MHD_Response *response;
	bool gzipped;

	if (a->head.flags & HTTP_HEAD_KNOWN) {
		pthread_mutex_lock(&req->server->lock);
		http_peer_known(req->c);
		pthread_mutex_unlock(&req->server->lock);
	}
	if (!a->head.status)
		return;
	response = a->head.flags & HTTP_HEAD_MORE ? in_pieces(req, a, &gzipped)
						  : whole_response(a, &gzipped);
	if (!response)
		return;
	if (gzipped)
		MHD_add_response_header(response, "Content-Encoding", "gzip");
	MHD_add_response_header(response, "X-Content-Type-Options", "nosniff");
	for (uint32_t i = 0; i < a->head.fields; i++)
		MHD_add_response_header(response, a->fields[i].name, a->fields[i].value);
	req->response = response;
	req->status = a->head.status;
}

/* Out of memory: closes the connection; the front continues. */
static void drop_answer(struct http_client_request *req, int fd, size_t bytes)
{
	char part[4096];

	for (size_t n; bytes; bytes -= n) {
		n = bytes < sizeof(part) ? bytes : sizeof(part);
		if (http_message_take(fd, part, n))
			http_front_gone();
	}
	http_front_tell(req->server, HTTP_DONE, req->c->slot, req->c->serial);
}

void http_body_answer(struct http_client_request *req)
{
	const struct http_message take = {
		.type = HTTP_TAKE, .slot = req->c->slot, .arg = req->c->serial};
	const size_t most = sizeof(struct http_message_head) + HTTP_MESSAGE_TEXT + HTTP_PIECE;
	int fd = http_front_channel(req->server), err;
	struct http_message_answer a;
	struct http_message m;
	void *payload;

	if (req->later && http_message_send(fd, take, NULL, 0, NULL, 0, NULL, 0))
		http_front_gone();
	if (http_message_receive(fd, &m, NULL) || (m.type != HTTP_HEAD && m.type != HTTP_LATER) ||
	    m.bytes > (m.type == HTTP_HEAD ? most : 0))
		http_front_gone();
	req->later = m.type == HTTP_LATER;
	if (req->later) {
		http_front_await(req->server, req->c);
		return;
	}
	payload = malloc(m.bytes + 1ul);
	if (!payload) {
		drop_answer(req, fd, m.bytes);
		return;
	}
	err = http_message_take(fd, payload, m.bytes)
		      ? -EPROTO
		      : http_message_head_unpack(payload, m.bytes, &a);
	if (err == -EPROTO) {
		free(payload);
		http_front_gone();
	}
	if (err)
		drop_answer(req, fd, 0);
	else
		queue_response(req, &a);
	free(a.fields);
	free(payload);
}
