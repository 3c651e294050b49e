// SPDX-License-Identifier: Apache-2.0
/*
 * body.c - passes the back's answer to the client: fetches it piece by piece as the client receives
 * it, and compresses it if the back requests that.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "http/front.h"

#define GZIP_LEVEL                                                                     \
	1 /* expositions get 2 % larger than at level 6, but it is three times as fast \
	   */

struct pieces {
	struct http_server *server;
	uint32_t slot, serial;
	uint64_t left; /* bytes not passed to the client yet; UINT64_MAX: not known */
	bool more;     /* the back has more pieces */
	bool gzip, ended, finished;
	z_stream z;
	size_t bytes, given; /* size of the current piece, and the part already passed on */
	unsigned char piece[HTTP_PIECE];
};

/* Returns a malloc'd gzip member. NULL: no memory, or the result would not be smaller. */
static unsigned char *gzip_body(const void *body, size_t bytes, int level, size_t *out_bytes)
{
	z_stream z = {0};
	unsigned char *out;

	if (bytes > UINT32_MAX / 2 ||
	    deflateInit2(&z, level, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
		return NULL;
	out = malloc(bytes);
	if (out) {
		z.next_in = (unsigned char *)(uintptr_t)body;
		z.avail_in = (uInt)bytes;
		z.next_out = out;
		z.avail_out = (uInt)bytes; /* a result that does not fit is not worthwhile */
		if (deflate(&z, Z_FINISH) != Z_STREAM_END) {
			free(out);
			out = NULL;
		}
		*out_bytes = z.total_out;
	}
	deflateEnd(&z);
	return out;
}

/* ---- pieces ---- */

/* Fetches the next piece into b->piece. Returns its length; 0: end; or -EIO. */
static ssize_t fetch_piece(struct pieces *b)
{
	const struct http_message ask = {
		.type = HTTP_READ, .slot = b->slot, .arg = sizeof(b->piece)};
	int fd = http_front_channel(b->server);
	struct http_message m;

	b->bytes = b->given = 0;
	if (!b->more)
		return 0;
	if (http_message_send(fd, ask, NULL, 0, NULL, 0, NULL, 0) ||
	    http_message_receive(fd, &m, NULL) || m.bytes > sizeof(b->piece) ||
	    (m.type != HTTP_DATA && m.type != HTTP_BROKEN) ||
	    http_message_take(fd, b->piece, m.bytes))
		http_front_gone();
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

static ssize_t read_gzip(struct pieces *b, char *buf, size_t max)
{
	b->z.next_out = (unsigned char *)buf;
	b->z.avail_out = (uInt)max;
	while (b->z.avail_out == max) {
		int e;

		if (b->finished)
			return 0;
		if (!b->z.avail_in && !b->ended) {
			ssize_t n = b->given < b->bytes ? (ssize_t)b->bytes : fetch_piece(b);

			if (n < 0)
				return n;
			b->ended = n == 0;
			b->z.next_in = b->piece;
			b->z.avail_in = (uInt)n;
			b->given = b->bytes;
		}
		e = deflate(&b->z, b->ended ? Z_FINISH : Z_NO_FLUSH);
		if (e == Z_STREAM_END)
			b->finished = true;
		else if (e != Z_OK && e != Z_BUF_ERROR)
			return -EIO;
	}
	return (ssize_t)(max - b->z.avail_out);
}

static ssize_t body_read(void *arg, uint64_t pos, char *buf, size_t max)
{
	struct pieces *b = arg;
	ssize_t n;

	(void)pos;
	if (max > HTTP_PIECE)
		max = HTTP_PIECE;
	n = b->gzip ? read_gzip(b, buf, max) : read_plain(b, buf, max);
	if (n == 0)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if (n < 0)
		return MHD_CONTENT_READER_END_WITH_ERROR;
	return n;
}

static void body_free(void *arg)
{
	struct pieces *b = arg;

	if (b->gzip)
		deflateEnd(&b->z);
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
		gz = gzip_body(a->body, a->body_bytes, GZIP_LEVEL, &gz_bytes);
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
	b->slot = req->c->slot;
	b->serial = req->c->serial;
	b->more = true;
	b->bytes = a->body_bytes;
	memcpy(b->piece, a->body, a->body_bytes);
	b->gzip = *gzipped = (a->head.flags & HTTP_HEAD_GZIP) &&
			     deflateInit2(&b->z, GZIP_LEVEL, Z_DEFLATED, 15 + 16, 8,
					  Z_DEFAULT_STRATEGY) == Z_OK;
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
	const size_t most = sizeof(struct http_message_head) + HTTP_MESSAGE_TEXT + HTTP_PIECE;
	int fd = http_front_channel(req->server), err;
	struct http_message_answer a;
	struct http_message m;
	void *payload;

	if (http_message_receive(fd, &m, NULL) || m.type != HTTP_HEAD || m.bytes > most)
		http_front_gone();
	payload = malloc(m.bytes + 1ul);
	if (!payload) {
		drop_answer(req, fd, m.bytes);
		return;
	}
	if (http_message_take(fd, payload, m.bytes))
		http_front_gone();
	err = http_message_head_unpack(payload, m.bytes, &a);
	if (err == -EPROTO)
		http_front_gone();
	if (err)
		drop_answer(req, fd, 0);
	else
		queue_response(req, &a);
	free(a.fields);
	free(payload);
}
