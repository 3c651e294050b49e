// SPDX-License-Identifier: Apache-2.0
/*
 * history.c - a ring of packed chunks with one writer and lock-free readers
 *
 * - The writer moves tail past the words it is about to overwrite, then issues a fence, then stores
 *   the new words.
 * - A reader loads the words, then issues a fence, then loads tail: if tail is past the chunk, it
 *   discards the words.
 *
 * All words are accessed with relaxed atomics. A reader may see any mixture of old and new words,
 * so it checks every value against its bounds before use.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/base.h"
#include "base/relaxed.h"
#include "collect/read/history.h"

#define HEAD_WORDS (sizeof(struct collect_chunk_head) / 8)
_Static_assert(sizeof(struct collect_chunk_head) == 48, "chunk head");

/* A chunk is a head, the length of each column in bytes as u16 (times first), and the columns. */
#define CHUNK_BYTES                          \
	(sizeof(struct collect_chunk_head) + \
	 (COLLECT_CHUNK_COLUMNS + 1) * (2 + COLLECT_COLUMN_MAX(COLLECT_COLUMN_ROWS)) + 8)
_Static_assert(COLLECT_COLUMN_MAX(COLLECT_COLUMN_ROWS) <= UINT16_MAX,
	       "a column's length is 16 bits");

#define RING_MIN (64u << 10)
#define TRIM_MIN (4u << 20) /* smaller rings are not trimmed */

int collect_ring_init(struct collect_ring *r, size_t bytes, uint64_t max_ns)
{
	*r = (struct collect_ring){.max_ns = max_ns};
	if (bytes < RING_MIN)
		return -EINVAL;
	/* a whole number of pages, for any usual page size */
	r->words = bytes / RING_MIN * (RING_MIN / 8);
	r->scratch = malloc(CHUNK_BYTES);
	r->word = mmap(NULL, r->words * 8, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (r->word == MAP_FAILED)
		r->word = NULL;
	if (!r->scratch || !r->word) {
		collect_ring_free(r);
		return -ENOMEM;
	}
	return 0;
}

void collect_ring_free(struct collect_ring *r)
{
	if (r->word)
		munmap(r->word, r->words * 8);
	free(r->scratch);
	*r = (struct collect_ring){0};
}

uint64_t collect_ring_bytes(const struct collect_ring *r)
{
	uint64_t tail = relaxed_load(r->tail);

	return (relaxed_load(r->head) - tail) * 8;
}

static void get_words(const struct collect_ring *r, uint64_t at, uint64_t *to, size_t n)
{
	uint64_t place = at % r->words;

	while (n) {
		const uint64_t *from = &r->word[place];
		size_t some = BASE_MIN(n, r->words - place);

		for (size_t i = 0; i < some; i++)
			to[i] = relaxed_load(from[i]);
		to += some;
		n -= some;
		place = 0;
	}
}

static void put_words(struct collect_ring *r, uint64_t at, const uint64_t *from, size_t n)
{
	uint64_t place = at % r->words;

	while (n--) {
		relaxed_store(r->word[place], *from++);
		if (++place == r->words)
			place = 0;
	}
}

/* ---- writing ---- */

static void drop_oldest(struct collect_ring *r, const struct collect_chunk_head *head,
			uint64_t *counter)
{
	relaxed_store(*counter, *counter + 1);
	relaxed_store(r->points, r->points - (uint64_t)head->rows * head->columns);
	relaxed_store(r->tail, r->tail + head->words);
}

static void get_head(const struct collect_ring *r, uint64_t at, struct collect_chunk_head *head)
{
	uint64_t words[HEAD_WORDS];

	get_words(r, at, words, HEAD_WORDS);
	memcpy(head, words, sizeof(*head));
}

void collect_ring_expire(struct collect_ring *r, int64_t now_ns)
{
	struct collect_chunk_head head;

	while (r->max_ns && r->tail != r->head) {
		get_head(r, r->tail, &head);
		if (head.to_ns >= now_ns - (int64_t)r->max_ns)
			break;
		drop_oldest(r, &head, &r->expired_chunks);
	}
}

static bool append_chunk(struct collect_ring *r, const struct collect_chunk_head *head)
{
	struct collect_chunk_head old;

	if (head->words > r->words / 4) { /* it would replace too many others */
		relaxed_store(r->large_chunks, r->large_chunks + 1);
		return false;
	}
	collect_ring_expire(r, head->to_ns);
	while (r->head + head->words - r->tail > r->words) {
		get_head(r, r->tail, &old);
		drop_oldest(r, &old, &r->dropped_chunks);
	}
	/*
	 * Pairs with the fence of collect_ring_read(): a reader that sees a new word also sees the
	 * new tail.
	 */
	__atomic_thread_fence(__ATOMIC_RELEASE);
	put_words(r, r->head, r->scratch, head->words);
	relaxed_store(r->head, r->head + head->words);
	relaxed_store(r->chunks, r->chunks + 1);
	relaxed_store(r->points, r->points + (uint64_t)head->rows * head->columns);
	return true;
}

#define TOGETHER 8u /* number of columns that share a cache line of a row */

uint64_t collect_ring_append(struct collect_ring *r, uint64_t owner, uint64_t prev,
			     const int64_t *ns, const uint64_t *v, size_t stride, const bool *f64,
			     unsigned int rows, uint32_t columns)
{
	for (uint32_t first = 0; rows && first < columns; first += COLLECT_CHUNK_COLUMNS) {
		uint32_t n = BASE_MIN(columns - first, COLLECT_CHUNK_COLUMNS);
		uint16_t *lengths =
			(uint16_t *)((uint8_t *)r->scratch + sizeof(struct collect_chunk_head));
		uint8_t *start = (uint8_t *)(lengths + n + 1), *p = start;
		uint64_t column[TOGETHER][COLLECT_COLUMN_ROWS];
		struct collect_chunk_head head = {
			.rows = rows,
			.first = first,
			.columns = n,
			.prev = prev,
			.owner = owner,
			.from_ns = ns[0],
			.to_ns = ns[rows - 1],
		};
		size_t bytes;

		for (unsigned int i = 0; i < rows; i++)
			column[0][i] = (uint64_t)ns[i];
		lengths[0] = (uint16_t)collect_column_pack(p, column[0], rows, false);
		p += lengths[0];
		for (uint32_t c = 0; c < n; c += TOGETHER) {
			uint32_t some = n - c < TOGETHER ? n - c : TOGETHER;

			for (unsigned int i = 0; i < rows; i++)
				for (uint32_t k = 0; k < some; k++)
					column[k][i] = v[i * stride + first + c + k];
			for (uint32_t k = 0; k < some; k++) {
				lengths[1 + c + k] = (uint16_t)collect_column_pack(
					p, column[k], rows, f64[first + c + k]);
				p += lengths[1 + c + k];
			}
		}
		bytes = (size_t)(p - (uint8_t *)r->scratch);
		memset(p, 0, -bytes & 7);
		head.words = (uint32_t)((bytes + 7) / 8);
		memcpy(r->scratch, &head, sizeof(head));
		if (append_chunk(r, &head))
			prev = r->head - head.words + 1;
	}
	return prev;
}

/* ---- reading ---- */

#define COLUMN_BYTES COLLECT_COLUMN_MAX(COLLECT_COLUMN_ROWS)

/* Copies and unpacks the column at this offset. The caller must check tail afterwards. */
static bool get_column(const struct collect_ring *r, const struct collect_chunk *c, size_t offset,
		       size_t bytes, uint64_t v[COLLECT_COLUMN_ROWS])
{
	/* one extra word, since a column may begin anywhere in its first word */
	uint64_t word[COLUMN_BYTES / 8 + 2];

	if (bytes > COLUMN_BYTES)
		return false;
	get_words(r, c->chunk - 1 + offset / 8, word, (offset % 8 + bytes + 7) / 8);
	return collect_column_unpack(v, c->head.rows, (const uint8_t *)word + offset % 8, bytes);
}

/* Pairs with the fence of append_chunk(): returns true if everything read of the chunk is valid. */
static bool is_still_here(const struct collect_ring *r, const struct collect_chunk *c)
{
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return c->chunk - 1 >= relaxed_load(r->tail);
}

/*
 * Reads the head, lengths and times of a chunk. The head is not valid until tail has been checked
 * again. A wrong head is harmless: reads wrap around inside the ring.
 */
static bool open_chunk(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
		       struct collect_chunk *c)
{
	uint64_t words[sizeof(c->length) / 8 + 1], times[COLLECT_COLUMN_ROWS];
	const size_t at = sizeof(c->head);
	size_t bytes;

	if (c->chunk == chunk && c->ring == r && c->head.owner == owner)
		return true;
	c->ring = r;
	c->chunk = chunk;
	get_head(r, chunk - 1, &c->head);
	if (c->head.owner == owner && c->head.rows && c->head.rows <= COLLECT_COLUMN_ROWS &&
	    c->head.columns <= COLLECT_CHUNK_COLUMNS && c->head.words <= r->words) {
		bytes = (c->head.columns + 1) * sizeof(*c->length);
		get_words(r, chunk - 1 + at / 8, words, (bytes + 7) / 8);
		memcpy(c->length, words, bytes);
		c->last = 0;
		c->offset = at + bytes;
		if (get_column(r, c, c->offset, c->length[0], times) && is_still_here(r, c)) {
			memcpy(c->ns, times, c->head.rows * sizeof(*times));
			return true;
		}
	}
	c->chunk = 0;
	return false;
}

unsigned int collect_ring_read(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
			       uint32_t column, struct collect_chunk *c,
			       uint64_t v[COLLECT_COLUMN_ROWS], uint64_t *prev)
{
	uint32_t mine;
	bool good;

	*prev = 0;
	if (!chunk || !r->word || chunk - 1 < relaxed_load(r->tail) ||
	    !open_chunk(r, owner, chunk, c))
		return 0;
	*prev = c->head.prev;
	if (column < c->head.first || column - c->head.first >= c->head.columns)
		return 0;
	mine = column - c->head.first + 1;
	if (mine < c->last) {
		c->last = 0;
		c->offset = sizeof(c->head) + (c->head.columns + 1) * sizeof(*c->length);
	}
	for (; c->last < mine; c->last++)
		c->offset += c->length[c->last];
	good = get_column(r, c, c->offset, c->length[mine], v);
	if (is_still_here(r, c))
		return good ? c->head.rows : 0;
	*prev = 0;
	return 0;
}

bool collect_ring_skip(const struct collect_ring *r, uint64_t owner, uint64_t chunk,
		       uint32_t column, int64_t to_ns, uint64_t *prev)
{
	uint64_t at = chunk - 1;
	struct collect_chunk_head head;

	if (!chunk || !r->word || at < relaxed_load(r->tail))
		return false;
	get_head(r, at, &head);
	/* Pairs with the fence of append_chunk(). */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	if (at < relaxed_load(r->tail) || head.owner != owner ||
	    (head.from_ns <= to_ns && column >= head.first && column - head.first < head.columns))
		return false;
	*prev = head.prev;
	return true;
}

/* ---- giving memory back ---- */

void collect_ring_trim(struct collect_ring *r)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE) / 8;
	uint64_t tail = relaxed_load(r->tail), head = relaxed_load(r->head), from = r->released, to;

	/*
	 * The writer is at least a quarter of the ring away from [from, to), so it cannot get there
	 * while this function runs.
	 */
	if (r->words * 8 < TRIM_MIN)
		return;
	if (from + r->words < head + r->words / 4)
		from = head + r->words / 4 - r->words;
	from = (from + page - 1) / page * page;
	to = tail / page * page;
	while (from < to) {
		uint64_t place = from % r->words, n = to - from;

		if (n > r->words - place)
			n = r->words - place;
		madvise(&r->word[place], n * 8, MADV_DONTNEED);
		from += n;
	}
	r->released = BASE_MAX(to, r->released);
}
