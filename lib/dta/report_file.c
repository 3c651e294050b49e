// SPDX-License-Identifier: Apache-2.0
/*
 * report_file.c - the ring of kept packets in a file, so that it survives the process. Slot i of n
 * holds the packets whose order is i modulo n. The check word of a slot covers the reports of its
 * packet, so a packet that was being written when the process exited is detected and skipped. While
 * a packet is being changed, the spare slot holds its previous state.
 *
 * The file is not synced, so after a power failure packets that had not reached the disk are
 * missing or damaged.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "report.h"

#define MAGIC	   0x31474e4952544453ull /* "SDTRING1" */
#define HEAD_BYTES 4096u
#define ORDER_MAX  (1ull << 62)

struct sl__file_head {
	uint64_t magic;
	uint32_t packets, packet_bytes, reporter, tenant;
	uint32_t incarnation; /* incarnation at the last opening or failover */
};

struct sl__slot {
	uint64_t order, check; /* check: 0 means that the slot is empty */
	uint64_t bytes;
	uint8_t packet[];
};

uint32_t sl__report_stride(uint32_t packet_bytes)
{
	/* Leave room for a proof, which a later run may add to the packet. */
	return (uint32_t)(sizeof(struct sl__slot) + packet_bytes + DTA_PROOF_BYTES + 7) & ~7u;
}

static struct sl__file_head *head_of(const struct sl_reporter *r)
{
	return (struct sl__file_head *)r->file;
}

static struct sl__slot *slot_at(const struct sl_reporter *r, uint32_t i)
{
	return (struct sl__slot *)(r->file + HEAD_BYTES + (size_t)i * r->stride);
}

static struct sl__slot *slot_of(const struct sl_reporter *r, const struct sl__backup *b)
{
	return slot_at(r, (uint32_t)(b - r->backup));
}

/*
 * A compiler barrier, so that stores reach the file in order if the process dies. No other thread
 * reads them.
 */
static void order_stores(void)
{
	atomic_signal_fence(memory_order_seq_cst);
}

/* Excludes the packet's header, which changes each time the packet is sent. */
static uint64_t check_of(const struct sl__slot *s)
{
	const uint64_t c = XXH3_64bits_withSeed(s->packet + DTA_HEADER_BYTES,
						s->bytes - DTA_HEADER_BYTES,
						s->order * 0x9e3779b97f4a7c15ull + s->bytes);

	return c ? c : 1;
}

/* ---- changes ---- */

void sl__report_file_kept(struct sl_reporter *r, const struct sl__backup *b)
{
	struct sl__slot *s;

	if (!r->file)
		return;
	s = slot_of(r, b);
	s->order = r->order++;
	s->bytes = b->bytes;
	order_stores();
	s->check = check_of(s);
}

void sl__report_file_freed(struct sl_reporter *r, const struct sl__backup *b)
{
	if (r->file)
		slot_of(r, b)->check = 0;
	order_stores();
}

void sl__report_file_changing(const struct sl_reporter *r, const struct sl__backup *b)
{
	if (r->file)
		memcpy(slot_at(r, r->backups), slot_of(r, b), sizeof(struct sl__slot) + b->bytes);
	order_stores();
}

void sl__report_file_changed(const struct sl_reporter *r, const struct sl__backup *b)
{
	if (!r->file)
		return;
	slot_of(r, b)->check = check_of(slot_of(r, b));
	order_stores();
	slot_at(r, r->backups)->check = 0;
}

void sl__report_file_incarnation(const struct sl_reporter *r)
{
	if (r->file)
		head_of(r)->incarnation = r->incarnation;
}

/* ---- opening ---- */

static bool slot_intact(const struct sl_reporter *r, const struct sl__slot *s)
{
	return s->order < ORDER_MAX && s->bytes > DTA_HEADER_BYTES && s->bytes <= r->packet_bytes &&
	       s->check == check_of(s);
}

/* Parses the packet in slot i. Returns its number of reports, or 0 if it is damaged or not ours. */
static uint32_t parse_slot(const struct sl_reporter *r, uint32_t i, struct dta_packet *p)
{
	struct sl__slot *s = slot_at(r, i), *spare = slot_at(r, r->backups);

	if (!slot_intact(r, s) && slot_intact(r, spare) && spare->order == s->order)
		memcpy(s, spare, sizeof(*s) + spare->bytes);
	if (!slot_intact(r, s) || s->order % r->backups != i ||
	    s->bytes + DTA_PROOF_BYTES > DTA_PACKET_MAX)
		return 0;
	s->packet[2] = DTA_AGAIN; /* parse without the proof */
	if (dta_parse(s->packet, s->bytes, p) != DTA_FINE || p->header.tenant != r->tenant ||
	    p->header.reporter != r->reporter)
		return 0;
	s->packet[2] |= r->key ? DTA_AUTHENTICATED : 0;
	return p->header.reports;
}

/* Fills the ring with the packets left by an earlier run. */
static int restore_ring(struct sl_reporter *r)
{
	struct dta_packet *p = malloc(sizeof(*p));
	uint64_t oldest = UINT64_MAX, newest = 0;

	if (!p)
		return -ENOMEM;
	for (uint32_t i = 0; i < r->backups; i++) {
		struct sl__slot *s = slot_at(r, i);
		struct sl__backup *b = &r->backup[i];

		if (!s->check)
			continue;
		b->reports = parse_slot(r, i, p);
		b->bytes = b->reports ? (uint32_t)s->bytes : 0;
		if (b->bytes && s->order > newest)
			newest = s->order;
	}
	for (uint32_t i = 0; i < r->backups; i++) {
		struct sl__slot *s = slot_at(r, i);
		struct sl__backup *b = &r->backup[i];

		if (b->bytes && newest - s->order >= r->backups)
			b->bytes = 0; /* too old to belong to the same ring */
		r->s.restored += b->bytes != 0;
		r->s.damaged += s->check && !b->bytes;
		if (!b->bytes)
			s->check = 0;
		else if (s->order < oldest)
			oldest = s->order;
	}
	free(p);
	slot_at(r, r->backups)->check = 0;
	if (!r->s.restored)
		return 0;
	r->head = (uint32_t)(oldest % r->backups);
	r->kept = r->unsent = (uint32_t)(newest - oldest + 1);
	r->order = newest + 1;
	return 0;
}

/* Adopts the file's header, or writes it if the file is new. */
static int check_head(struct sl_reporter *r, bool any_reporter)
{
	struct sl__file_head *h = head_of(r);

	if (!h->magic) {
		h->packets = r->backups;
		h->packet_bytes = r->packet_bytes;
		h->reporter = r->reporter;
		h->tenant = r->tenant;
		order_stores();
		h->magic = MAGIC;
	}
	if (any_reporter)
		r->reporter = h->reporter;
	if (h->magic != MAGIC || h->packets != r->backups || h->packet_bytes != r->packet_bytes ||
	    h->reporter != r->reporter || h->tenant != r->tenant || !r->reporter)
		return -EBADMSG;
	if (h->incarnation && !sl__report_after(r->incarnation, h->incarnation))
		r->incarnation = h->incarnation + 1;
	sl__report_file_incarnation(r);
	return 0;
}

static int map_file(struct sl_reporter *r, int fd)
{
	const size_t bytes = HEAD_BYTES + (r->backups + 1ul) * r->stride;
	struct stat st;
	void *at;
	int err;

	if (flock(fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (fstat(fd, &st))
		return -errno;
	/* If another user could truncate the file, this process could be killed by SIGBUS. */
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022)
		return -EPERM;
	if (st.st_size && (size_t)st.st_size != bytes)
		return -EBADMSG;
	/* Allocate now, so that a full disk is an error here and not SIGBUS later. */
	err = posix_fallocate(fd, 0, (off_t)bytes);
	if (err)
		return -err;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	r->file = at;
	r->file_bytes = bytes;
	return 0;
}

int sl__report_file_open(struct sl_reporter *r, const char *path, bool any_reporter)
{
	int err;

	r->file_fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (r->file_fd < 0)
		return -errno;
	err = map_file(r, r->file_fd);
	if (!err)
		err = check_head(r, any_reporter);
	if (!err)
		err = restore_ring(r);
	r->backup_packet = r->file ? slot_at(r, 0)->packet : NULL;
	return err;
}

void sl__report_file_close(struct sl_reporter *r)
{
	if (r->file)
		munmap(r->file, r->file_bytes);
	if (r->file_fd >= 0)
		close(r->file_fd);
}
