// SPDX-License-Identifier: Apache-2.0
/* net_file.c - reads and writes files of segment records. */
#include "source/tcp/net_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"

_Static_assert(sizeof(struct tcp_net_file_head) == 120, "head");

struct frame_head {
	uint32_t type, bytes;
};

static uint64_t head_check(const struct tcp_net_file_head *h)
{
	return sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct tcp_net_file_head, check));
}

static const uint32_t frame_bytes[] = {
	[TCP_NET_SEGMENT] = SL_NIC_SIZE,
	[TCP_NET_GAP] = 16,
	[TCP_NET_LAYERS] = sizeof(struct tcp_layer_record),
	[TCP_NET_END] = 32,
};
_Static_assert(sizeof(struct tcp_layer_record) % 8 == 0, "frames are of 8 bytes");

static int write_bytes(FILE *to, const void *data, size_t bytes)
{
	return fwrite(data, 1, bytes, to) == bytes ? 0 : -EIO;
}

int tcp_net_file_begin(FILE *to, const uint8_t boot_id[16])
{
	struct tcp_net_file_head h = {
		.version = TCP_NET_FILE_VERSION,
		.bytes = sizeof(h),
		.start_ns = base_now_ns(),
		.start_real_ns = base_realtime_ns(),
	};

	memcpy(h.magic, TCP_NET_FILE_MAGIC, sizeof(h.magic));
	memcpy(h.boot_id, boot_id, sizeof(h.boot_id));
	if (gethostname(h.host, sizeof(h.host) - 1))
		h.host[0] = 0;
	h.check = head_check(&h);
	return write_bytes(to, &h, sizeof(h));
}

int tcp_net_file_put(FILE *to, enum tcp_net_frame_type type, const void *data)
{
	const struct frame_head h = {.type = type, .bytes = frame_bytes[type]};
	int err = write_bytes(to, &h, sizeof(h));

	return err ? err : write_bytes(to, data, h.bytes);
}

int tcp_net_file_head(FILE *from, struct tcp_net_file_head *h, char *why, size_t bytes)
{
	if (fread(h, 1, sizeof(*h), from) != sizeof(*h) ||
	    memcmp(h->magic, TCP_NET_FILE_MAGIC, sizeof(h->magic))) {
		snprintf(why, bytes, "this file was not written by 'sidelight tcp net --record'");
		return ferror(from) ? -EIO : -EINVAL;
	}
	if (h->version != TCP_NET_FILE_VERSION || h->bytes != sizeof(*h))
		return base_fail(why, bytes, -EINVAL,
				 "the file has version %u, but this program "
				 "reads version %u",
				 h->version, TCP_NET_FILE_VERSION);
	if (h->check != head_check(h) || h->start_ns >> 62 || h->start_real_ns >> 62)
		return base_fail(why, bytes, -EINVAL, "damaged header");
	h->host[sizeof(h->host) - 1] = 0;
	return 0;
}

static int parse_frame(const struct frame_head *h, const uint64_t *w, struct tcp_net_frame *f,
		       char *why, size_t bytes)
{
	if (!h->type || h->type >= sizeof(frame_bytes) / sizeof(*frame_bytes))
		return base_fail(why, bytes, -EINVAL, "unknown frame type %u", h->type);
	if (h->bytes != frame_bytes[h->type])
		goto damaged;
	f->type = h->type;
	switch (f->type) {
	case TCP_NET_SEGMENT:
		/* Expect the record's own number: unlike a ring, a file may skip numbers. */
		if (region_nic_record_parse(w, w[0] >> 8, &f->segment))
			goto damaged;
		break;
	case TCP_NET_GAP:
		if (w[1] >> 62 || w[0] >> 56)
			goto damaged;
		f->gap.records = w[0];
		f->gap.now_ns = w[1];
		break;
	case TCP_NET_LAYERS:
		memcpy(&f->layers, w, sizeof(f->layers));
		if (f->layers.kind > TCP_RECORD_OUT || f->layers.role > SL_ROLE_CLIENT ||
		    (f->layers.nic_in | f->layers.ip_in | f->layers.tcp_in | f->layers.copied |
		     f->layers.sent | f->layers.ip_out | f->layers.queued | f->layers.nic_out) >>
			    62)
			goto damaged;
		break;
	case TCP_NET_END:
		if (w[0] >> 62)
			goto damaged;
		f->end.now_ns = w[0];
		f->end.headless = w[1];
		f->end.fragments = w[2];
		f->end.left_out = w[3];
	}
	return 1;
damaged:
	return base_fail(why, bytes, -EINVAL, "damaged frame of type %u", h->type);
}

int tcp_net_file_next(FILE *from, struct tcp_net_frame *f, char *why, size_t bytes)
{
	uint64_t w[32];
	struct frame_head h;
	size_t n = fread(&h, 1, sizeof(h), from);

	_Static_assert(sizeof(struct tcp_layer_record) <= sizeof(w), "the longest frame");
	if (n != sizeof(h))
		return ferror(from) ? -EIO : 0;
	if (!h.bytes || h.bytes % 8 || h.bytes > sizeof(w))
		return base_fail(why, bytes, -EINVAL, "invalid frame of %u bytes", h.bytes);
	if (fread(w, 1, h.bytes, from) != h.bytes)
		return ferror(from) ? -EIO : 0;
	return parse_frame(&h, w, f, why, bytes);
}
