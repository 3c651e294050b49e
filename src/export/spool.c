// SPDX-License-Identifier: Apache-2.0
/*
 * The file consists of a page with the head, followed by a ring of records. Positions count all
 * bytes ever written. Each record contains its position and number, so that remains of an earlier
 * lap are not mistaken for records. Numbers have no gaps, so they show how many records were lost
 * through damage.
 */
#include "export/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/base.h"
#include "base/relaxed.h"

#define PAGE	     4096u
#define SYNC_NS	     1000000000u /* minimum interval between two synchronisations */
#define READ_TRIES   10u	 /* failed reads in a row until a record counts as damaged */
#define ALIGN(n)     (((n) + 7) & ~(uint64_t)7)
#define RECORD_MAGIC 0x315051534c44ull /* "DLSQP1" */
/* if an earlier process was this far ahead of the present, its clock was wrong */
#define AHEAD_NS 3600000000000ull

static const char magic[32] = "sidelight queue 1\n";

/* Position of the oldest record; stored after the magic. */
struct spool_head {
	uint64_t position, number, newest_ns, check;
};

struct record {
	uint64_t magic, position, number, items, ns, bytes;
	uint64_t body_check, check; /* check covers the fields before it */
};

struct export_spool {
	int fd;
	uint64_t room; /* size of the ring in bytes */
	struct spool_head head;
	uint64_t tail, next; /* position and number of the next record to be written */
	bool taken, passed;  /* passed: the taken record has since been overwritten */
	struct record first; /* the taken record */
	unsigned int failed_heads, failed_bodies; /* failed tries in a row */
	struct export_spool_stats stats;

	uint64_t synced_ns;   /* used only by export_spool_sync(), as is the next field */
	uint64_t sync_errors; /* relaxed */
	bool dirty;	      /* changed since the last synchronisation; atomic */
};

static uint64_t check_of(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

/* ---- the ring ---- */

/* Returns how many of n bytes at a position lie before the wrap of the ring. */
static size_t part_of(const struct export_spool *s, uint64_t position, size_t n, off_t *at)
{
	uint64_t place = position % s->room;

	*at = (off_t)(PAGE + place);
	return (size_t)BASE_MIN((uint64_t)n, s->room - place);
}

/* Whether to continue after `done` bytes. */
static bool went_on(struct export_spool *s, ssize_t done)
{
	if (done > 0 || (done < 0 && errno == EINTR))
		return true;
	errno = done ? errno : EIO;
	s->stats.errors++;
	return false;
}

/* Copies between memory and the ring. */
static bool move_bytes(struct export_spool *s, void *memory, size_t n, uint64_t position,
		       bool write)
{
	uint8_t *p = memory;
	off_t at;

	while (n) {
		size_t part = part_of(s, position, n, &at);
		ssize_t done = write ? pwrite(s->fd, p, part, at) : pread(s->fd, p, part, at);

		if (!went_on(s, done))
			return false;
		done = BASE_MAX(done, 0);
		p += done;
		n -= (size_t)done;
		position += (uint64_t)done;
	}
	return true;
}

static bool read_all(struct export_spool *s, void *to, size_t n, uint64_t position)
{
	return move_bytes(s, to, n, position, false);
}

/*
 * Marks data as changed. Everything written so far will be on disk after the next
 * export_spool_sync().
 */
static void mark_changed(struct export_spool *s)
{
	__atomic_store_n(&s->dirty, true, __ATOMIC_RELEASE);
}

static bool write_all(struct export_spool *s, const void *from, size_t n, uint64_t position)
{
	bool done = move_bytes(s, (void *)(uintptr_t)from, n, position, true);

	mark_changed(s);
	return done;
}

static bool save_head(struct export_spool *s)
{
	struct spool_head h = s->head;
	bool done;

	h.check = check_of(&h, offsetof(struct spool_head, check));
	done = pwrite(s->fd, &h, sizeof(h), sizeof(magic)) == (ssize_t)sizeof(h);
	s->stats.errors += !done;
	mark_changed(s);
	return done;
}

/* Reads the record at a position. Returns false if there is no valid record. */
static bool record_at(struct export_spool *s, uint64_t position, struct record *r)
{
	return read_all(s, r, sizeof(*r), position) && r->magic == RECORD_MAGIC &&
	       r->position == position && r->check == check_of(r, offsetof(struct record, check)) &&
	       r->bytes <= s->room - sizeof(*r);
}

static uint64_t end_of(const struct record *r)
{
	return r->position + ALIGN(sizeof(*r) + r->bytes);
}

/*
 * Calls fn for each position with a record's magic number, for one lap starting at `from`, until fn
 * returns true. Returns false if it never does.
 */
static bool scan_records(struct export_spool *s, uint64_t from,
			 bool (*fn)(struct export_spool *s, uint64_t position, struct record *r),
			 struct record *r)
{
	static const uint64_t word = RECORD_MAGIC;
	uint8_t piece[16384];
	uint64_t n;

	for (uint64_t at = from; at < from + s->room; at += n) {
		n = BASE_MIN(from + s->room - at, (uint64_t)sizeof(piece));
		if (!read_all(s, piece, (size_t)n, at))
			return false;
		for (uint64_t i = 0; i < n; i += 8)
			if (!memcmp(piece + i, &word, 8) && fn(s, at + i, r))
				return true;
	}
	return false;
}

static bool is_later(struct export_spool *s, uint64_t position, struct record *r)
{
	struct record found;

	if (!record_at(s, position, &found) || found.number < s->head.number)
		return false;
	*r = found;
	return true;
}

/*
 * Accepts records of any lap and keeps the oldest in r, whose number must initially be UINT64_MAX.
 */
static bool is_oldest(struct export_spool *s, uint64_t position, struct record *r)
{
	struct record found;

	if (read_all(s, &found, sizeof(found), position) && found.position % s->room == position &&
	    record_at(s, found.position, &found) && found.number < r->number)
		*r = found;
	return false;
}

/*
 * Notes the time of a record in the file, unless the clock was far ahead when it was written: the
 * caller leaves out all samples before the newest time.
 */
static void note_time(struct export_spool *s, uint64_t ns)
{
	if (ns <= base_realtime_ns() + AHEAD_NS)
		s->head.newest_ns = BASE_MAX(s->head.newest_ns, ns);
}

/* Counts valid and damaged records, and finds the end. */
static void recover_records(struct export_spool *s)
{
	uint64_t at = s->head.position, number = s->head.number;
	struct record r;

	while (at - s->head.position < s->room) {
		if (!record_at(s, at, &r) || r.number != number) {
			/* Records after the last one are from an earlier lap. */
			if (!scan_records(s, at, is_later, &r) || r.number < number)
				break;
			s->stats.corrupt += r.number - number;
		}
		at = end_of(&r);
		number = r.number + 1;
		s->stats.bodies++;
		s->stats.bytes += r.bytes;
		s->stats.items += r.items;
		note_time(s, r.ns);
	}
	s->tail = at;
	s->next = number;
}

/* ---- the queue ---- */

static void forget_first(struct export_spool *s, const struct record *r)
{
	s->stats.bodies--;
	s->stats.bytes -= r->bytes;
	s->stats.items -= r->items;
	s->head.position = end_of(r);
	s->head.number = r->number + 1;
}

/*
 * Counts failed reads in a row. Returns true if a read has failed since `errors` was taken from the
 * statistics, and may be tried again.
 */
static bool is_to_retry(const struct export_spool *s, unsigned int *failed, uint64_t errors)
{
	*failed = s->stats.errors == errors ? 0 : *failed + 1;
	return *failed && *failed < READ_TRIES;
}

/*
 * Finds the oldest record, skipping damaged records. Returns 0, -EIO if it may be readable later,
 * or -ENOENT if all waiting records are damaged.
 */
static int find_first(struct export_spool *s, struct record *r)
{
	const uint64_t errors = s->stats.errors;
	bool found = (record_at(s, s->head.position, r) && r->number == s->head.number) ||
		     scan_records(s, s->head.position, is_later, r);

	if (is_to_retry(s, &s->failed_heads, errors))
		return -EIO;
	if (found)
		return 0;
	s->stats.corrupt += s->stats.items;
	s->stats.items = s->stats.bodies = s->stats.bytes = 0;
	s->head.position = s->tail;
	s->head.number = s->next;
	s->taken = false;
	save_head(s);
	return -ENOENT;
}

int export_spool_add(struct export_spool *s, const void *body, size_t bytes, uint64_t items,
		     uint64_t *dropped)
{
	struct record r =
			      {
				      .magic = RECORD_MAGIC,
				      .position = s->tail,
				      .number = s->next,
				      .items = items,
				      .ns = base_realtime_ns(),
				      .bytes = bytes,
			      },
		      oldest;
	const uint64_t need = ALIGN(sizeof(r) + bytes);
	bool moved = false;
	int err = 0;

	if (need > s->room)
		return -ENOSPC;
	while (s->tail + need - s->head.position > s->room && s->stats.bodies &&
	       !(err = find_first(s, &oldest))) {
		if (s->taken && !s->passed)
			s->passed = true;
		else
			*dropped += oldest.items;
		forget_first(s, &oldest);
		moved = true;
	}
	if ((moved && !save_head(s)) || err == -EIO)
		return -EIO;
	r.body_check = check_of(body, bytes);
	r.check = check_of(&r, offsetof(struct record, check));
	/*
	 * Write the record's header last, so that a writer that is killed before then leaves no
	 * record.
	 */
	if (!write_all(s, body, bytes, s->tail + sizeof(r)) ||
	    !write_all(s, &r, sizeof(r), s->tail))
		return -errno;
	s->tail += need;
	s->next++;
	s->head.newest_ns = BASE_MAX(s->head.newest_ns, r.ns);
	s->stats.bodies++;
	s->stats.bytes += bytes;
	s->stats.items += items;
	return 0;
}

int export_spool_take(struct export_spool *s, void **body, size_t *bytes, uint64_t *items)
{
	struct record r;

	while (s->stats.bodies) {
		int err = find_first(s, &r);
		uint64_t errors = s->stats.errors;
		bool whole, retry;

		if (err)
			return err;
		*body = malloc(r.bytes + 1);
		if (!*body)
			return -ENOMEM;
		whole = read_all(s, *body, r.bytes, r.position + sizeof(r)) &&
			check_of(*body, r.bytes) == r.body_check;
		retry = is_to_retry(s, &s->failed_bodies, errors);
		if (whole) {
			*bytes = r.bytes;
			*items = r.items;
			s->first = r;
			s->taken = true;
			s->passed = false;
			return 0;
		}
		free(*body);
		if (retry)
			return -EIO;
		s->stats.corrupt += r.items;
		forget_first(s, &r);
		save_head(s);
	}
	return -ENOENT;
}

void export_spool_done(struct export_spool *s)
{
	if (s->taken && !s->passed && s->stats.bodies) {
		forget_first(s, &s->first);
		save_head(s);
	}
	s->taken = s->passed = false;
}

uint64_t export_spool_newest_ns(const struct export_spool *s)
{
	return s->head.newest_ns;
}

void export_spool_stats(const struct export_spool *s, struct export_spool_stats *out)
{
	*out = s->stats;
	out->errors += relaxed_load(s->sync_errors);
}

static void sync_now(struct export_spool *s)
{
	/* Clear the flag first, so that changes made during the sync count for the next sync. */
	if (!__atomic_exchange_n(&s->dirty, false, __ATOMIC_ACQUIRE) || !fdatasync(s->fd))
		return;
	relaxed_bump(s->sync_errors, 1);
	mark_changed(s);
}

void export_spool_sync(struct export_spool *s)
{
	uint64_t now = base_now_ns();

	if (now - s->synced_ns < SYNC_NS)
		return;
	sync_now(s);
	s->synced_ns = base_now_ns();
}

/* ---- start and end ---- */

static int make_file(struct export_spool *s, uint64_t size)
{
	int err = posix_fallocate(s->fd, 0, (off_t)size);

	if (err)
		return -err;
	s->room = size - PAGE;
	s->head.number = 1;
	/* Write the magic last, because a file without it is initialised again. */
	if (!save_head(s) || pwrite(s->fd, magic, sizeof(magic), 0) != (ssize_t)sizeof(magic))
		return errno ? -errno : -EIO;
	s->next = 1;
	return 0;
}

static int load_file(struct export_spool *s, uint64_t size)
{
	char found[sizeof(magic)] = "";
	struct record r = {.number = UINT64_MAX};
	uint64_t newest_ns;
	struct stat st;
	ssize_t n;

	size = BASE_MAX(size, (uint64_t)EXPORT_SPOOL_MIN) & ~(uint64_t)7;
	if (fstat(s->fd, &st))
		return -errno;
	n = st.st_size ? pread(s->fd, found, sizeof(found), 0) : (ssize_t)sizeof(found);
	if (n != (ssize_t)sizeof(found))
		return n < 0 ? -errno : -EINVAL;
	if (!st.st_size || !memcmp(found, (char[sizeof(magic)]){0}, sizeof(magic)))
		return make_file(s, size);
	if (memcmp(found, magic, sizeof(magic)) || st.st_size < (off_t)EXPORT_SPOOL_MIN ||
	    st.st_size % 8)
		return -EINVAL;
	s->room = (uint64_t)st.st_size - PAGE;
	if (pread(s->fd, &s->head, sizeof(s->head), sizeof(magic)) != (ssize_t)sizeof(s->head))
		return -EIO;
	if (s->head.check != check_of(&s->head, offsetof(struct spool_head, check))) {
		/*
		 * A record contains its position, because the first record in the file may not be
		 * the oldest.
		 */
		s->head = (struct spool_head){.number = 1};
		s->stats.corrupt++;
		scan_records(s, 0, is_oldest, &r);
		if (r.number != UINT64_MAX)
			s->head = (struct spool_head){.position = r.position, .number = r.number};
	}
	newest_ns = s->head.newest_ns;
	s->head.newest_ns = 0;
	note_time(s, newest_ns);
	recover_records(s);
	return s->stats.errors ? -EIO : 0;
}

struct export_spool *export_spool_open(const char *path, uint64_t size, char *error,
				       size_t error_bytes)
{
	struct export_spool *s = calloc(1, sizeof(*s));
	int err;

	if (!s) {
		errno = base_fail(error, error_bytes, ENOMEM, "out of memory");
		return NULL;
	}
	s->fd = base_open_locked(path);
	err = s->fd < 0 ? s->fd : load_file(s, size);
	if (!err)
		return s;
	snprintf(error, error_bytes, "%s: %s", path,
		 err == -EINVAL ? "the file is not a queue; move it away"
				: base_open_locked_error(err));
	if (s->fd >= 0)
		close(s->fd);
	free(s);
	errno = -err;
	return NULL;
}

void export_spool_close(struct export_spool *s)
{
	if (!s)
		return;
	sync_now(s);
	close(s->fd);
	free(s);
}
