// SPDX-License-Identifier: Apache-2.0
/* region.c - regions: layout, memory and hot line; additional regions of a publisher; fork. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "internal.h"
#include "span.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define CELLS_DEFAULT	  1764u /* these and one more block fill 256 lines, or 4 pages */
#define CELLS_MAX	  (1u << 24)
#define SCHEMA_PER_CELL	  128u
#define EXEMPLARS_DEFAULT 63u /* with the head: 4 pages, allocated by the first exemplar */
#define RECORD_MIN	  72u /* bytes of the smallest record with a name */

#define RETRY_NS	  1000000000u
#define REGIONS_MAX	  64u	      /* maximum per connection: sidelight-attach(7) */
#define FURTHER_MAX	  (16u << 20) /* the agent's default for --max-region-size */

struct sl__slot sl__slots[SL_PUBLISHER_SLOTS];

/* ---- address space ---- */

/*
 * The addresses of a closed region stay reserved, without backing, so that a late update by another
 * thread does not fault. The next region of the same size class reuses them. At most 15 can exist
 * per class.
 */
#define CLASSES 33
static struct {
	void *at[SL_PUBLISHER_SLOTS];
	unsigned int count;
} spare[CLASSES];

static unsigned int class_of(size_t size)
{
	return (unsigned int)(64 - __builtin_clzll((unsigned long long)size - 1));
}

static void *address_take(size_t size, size_t *reserved)
{
	unsigned int class = class_of(size);

	*reserved = (size_t)1 << class;
	if (spare[class].count)
		return spare[class].at[--spare[class].count];
	return mmap(NULL, *reserved, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static void address_give(void *at, size_t reserved)
{
	unsigned int class = class_of(reserved);

	/* Replaces the region's pages in one step: the addresses are never unmapped. */
	if (mmap(at, reserved, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return; /* the region stays mapped: a leak, but no fault */
	spare[class].at[spare[class].count++] = at;
}

/* ---- region ---- */

/* Allocates a part of the region. Touching an unallocated page of a memfd could raise SIGBUS. */
int sl__allocate(struct sl__region *r, uint64_t offset, uint64_t bytes)
{
	int failed;

	if (!sl__fd_ours(&r->memfd))
		return -EBADF;
	do
		failed = fallocate(r->memfd.fd, 0, (off_t)offset, (off_t)bytes);
	while (failed && errno == EINTR);
	return failed ? -errno : 0;
}

void sl__hot_add(struct sl__region *r, enum sl_hot_cell cell, uint64_t n)
{
	if (r->base && !r->orphan)
		sl__plain_add((uintptr_t)r->base + SL_HEADER_SIZE + cell * 8, n);
}

/*
 * Updates the hot line. Cells are stored in the order in which readers depend on them (cells and
 * records before the count that covers them), and the check word last: a reader that sees only some
 * of the stores finds a line that does not verify. A writer that dies in between leaves a prefix of
 * the stores, and the agent repairs the check word.
 */
void sl__hot_change(struct sl__region *r)
{
	uint64_t *line = (uint64_t *)(r->base + SL_HEADER_SIZE);
	const uint64_t now[] = {
		[SL_HOT_GENERATION] = ++r->generation,
		[SL_HOT_SCHEMA_USED] = r->schema_used,
		[SL_HOT_LINES_USED] = r->lines_used,
		[SL_HOT_STRIPES_USED] = atomic_load(&r->stripes_used),
		/* with SL_PUBLISHER_ORIGIN: the time of the values, 0 until they are set */
		[SL_HOT_CHANGED_NS] = r->publisher->flags & SL_PUBLISHER_ORIGIN
					      ? r->publisher->time_ns
					      : sl__realtime_ns(),
	};
	static const uint8_t order[] = {SL_HOT_LINES_USED, SL_HOT_STRIPES_USED, SL_HOT_SCHEMA_USED,
					SL_HOT_GENERATION, SL_HOT_CHANGED_NS};
	uint64_t sum = 0;

	/* Pairs with a reader that copies the hot line first and the schema after it. */
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < sizeof(order); i++) {
		uint64_t *cell = &line[order[i]];

		/* Only this thread writes these cells, as it holds the lock. Release as above. */
		sum += (now[order[i]] - *cell) * sl__k((uintptr_t)cell);
		__atomic_store_n(cell, now[order[i]], __ATOMIC_RELEASE);
	}
	/* An atomic addition, because refusals are counted in this line without the lock. */
	__atomic_fetch_add(&line[7], sum, __ATOMIC_RELEASE);
}

static void header_write(const struct sl__region *r)
{
	struct sl_region_header *h = (struct sl_region_header *)r->base;

	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->minor = SL_REGION_MINOR;
	h->header_size = SL_HEADER_SIZE;
	h->size = r->size;
	h->kind = SL_REGION_METRICS;
	h->pid = (uint32_t)getpid();
	h->instance = r->instance;
	h->start_ns = sl__realtime_ns();
	h->start_ticks = sl__start_ticks();
	h->flags = r->publisher->flags & SL_PUBLISHER_ORIGIN ? SL_REGION_ORIGIN : 0;
	sl__boot_id(h->boot_id);
	h->section_count = 3;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, SL_LINE_SIZE, SL_HEADER_SIZE,
						   SL_LINE_SIZE};
	h->section[1] = (struct sl_region_section){SL_SECTION_STRIPES, r->stride, r->stripe_offset,
						   (uint64_t)r->stride * r->stripe_count};
	h->section[2] = (struct sl_region_section){SL_SECTION_SCHEMA, 8, r->schema_offset,
						   r->schema_bytes};
	if (r->span_lines)
		h->section[h->section_count++] = (struct sl_region_section){
			SL_SECTION_SPANS, (uint32_t)SL_SPAN_STRIDE(r->span_lines), r->span_offset,
			sl__rings_bytes(r->span_lines, r->stripe_count)};
	h->section[h->section_count++] = (struct sl_region_section){
		SL_SECTION_CREATED, SL_LINE_SIZE, r->created_offset, r->created_bytes};
	h->section[h->section_count++] = (struct sl_region_section){
		SL_SECTION_EXEMPLARS, SL_EXEMPLAR_SIZE, r->exemplars_offset,
		r->exemplar_elements * (uint64_t)SL_EXEMPLAR_SIZE};
	sl__labels_renew(r->publisher);
	h->label_bytes = r->publisher->label_bytes;
	memcpy(h->labels, r->publisher->labels, r->publisher->label_bytes);
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

/* Creates the memfd and maps it. Leaves r unchanged on failure. Also used in a forked child. */
static int region_make(struct sl__region *r)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	struct rlimit limit;
	size_t reserved, old_reserved = r->reserved;
	uint8_t *old = r->base;
	struct sl__fd memfd;
	int error, fd;
	void *at;

	/* ftruncate() beyond this limit raises SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < r->size)
		return -ENOMEM;
	fd = memfd_create("sidelight", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("sidelight", flags);
	error = sl__fd_take(&memfd, fd);
	if (error)
		return error;
	r->memfd = memfd;
	fd = memfd.fd;
	/*
	 * Mode 0444: the holder of a descriptor may reopen the file through /proc according to its
	 * mode. An agent of another user must be able to do so for reading, and no process for
	 * writing. The agent adds F_SEAL_FUTURE_WRITE and F_SEAL_SEAL before it lets others read:
	 * it must map the memory writable before that.
	 */
	if (fchmod(fd, 0444) || ftruncate(fd, (off_t)r->size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		error = -errno;
		goto err_fd;
	}
	r->stripe_pages = (r->lines_used * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE;
	if (!r->stripe_pages)
		r->stripe_pages = 1;
	r->schema_pages = (r->schema_used + SL__PAGE - 1) / SL__PAGE;
	error = sl__allocate(r, 0, r->stripe_offset + (uint64_t)r->stripe_pages * SL__PAGE);
	r->created_pages = sl__created_pages(r->record_count);
	if (!error && r->schema_pages)
		error = sl__allocate(r, r->schema_offset, (uint64_t)r->schema_pages * SL__PAGE);
	if (!error && r->created_pages)
		error = sl__allocate(r, r->created_offset, (uint64_t)r->created_pages * SL__PAGE);
	if (error)
		goto err_fd;
	at = address_take(r->size, &reserved);
	if (at == MAP_FAILED) {
		error = -errno;
		goto err_fd;
	}
	if (mmap(at, r->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		error = -errno;
		goto err_address;
	}
	r->base = at;
	r->reserved = reserved;
	r->dense = false;
	error = sl__rings_make(r);
	if (!error)
		error = sl__exemplars_make(r);
	if (error)
		goto err_base;
	r->instance = sl__random_instance();
	r->generation = 0;
	atomic_store(&r->stripes_used, 1);
	r->free_count = 0;
	header_write(r);
	return 0;

err_base:
	r->base = old;
	r->reserved = old_reserved;
err_address:
	address_give(at, reserved);
err_fd:
	sl__fd_close(&r->memfd);
	return error;
}

/* Makes a new region visible to updates. */
static void region_start(struct sl__region *r)
{
	struct sl__slot *slot = &sl__slots[r->slot];

	sl__plain_add((uintptr_t)r->base + SL_HEADER_SIZE + SL_HOT_STATE * 8, SL_STATE_LIVE);
	sl__hot_change(r);
	atomic_store(&slot->free, 0);
	atomic_store(&slot->edge, r->publisher->flags & SL_PUBLISHER_EDGE);
	atomic_store(&slot->rings, r->rings);
	atomic_store(&slot->shared, (uintptr_t)r->base + r->stripe_offset);
}

static int revive_one(struct sl__region *r)
{
	uint8_t *base = r->base;
	size_t reserved = r->reserved;
	int error;

	if (r->revive_after_ns && sl__monotonic_ns() < r->revive_after_ns)
		return -ENOMEM;
	error = region_make(r);
	if (error) {
		r->revive_after_ns = sl__monotonic_ns() + RETRY_NS;
		return error;
	}
	address_give(base, reserved);
	r->orphan = false;
	atomic_store(&r->sharing, 0);
	sl__metrics_rewrite(r);
	region_start(r);
	return 0;
}

/* Runs at the first use in a forked child: recreates the metrics in new regions, from 0. */
int sl__revive(struct sl__region *r)
{
	struct sl_publisher *p = r->publisher;
	bool first = p->forked;
	int error = 0;

	for (struct sl__region *each = p->regions; each; each = each->next) {
		int failed = each->orphan ? revive_one(each) : 0;

		if (each == r)
			error = failed;
		if (!failed && first) {
			p->forked = false;
			p->logged = 0;
			atomic_store(&p->refused, 0);
			atomic_store(&p->attaches, 0);
		} else if (!failed) {
			sl__attach_further(each);
		}
	}
	if (first && !p->forked)
		sl__attach_start(p);
	return error;
}

uintptr_t sl__shared_slow(unsigned int slot)
{
	struct sl__region *r;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE || slot >= SL_PUBLISHER_SLOTS)
		return 0;
	sl__lock(&guard);
	r = sl__slots[slot].region;
	if (r && r->orphan)
		sl__revive(r);
	sl__unlock(&guard);
	return sl__slots[slot].shared;
}

struct sl__view sl__view(unsigned int slot)
{
	struct sl__view view = {0};
	struct sl__region *r;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE || slot >= SL_PUBLISHER_SLOTS)
		return view;
	sl__lock(&guard);
	r = sl__slots[slot].region;
	if (r && !(r->orphan && sl__revive(r)))
		view = (struct sl__view){(uintptr_t)r->base + r->stripe_offset, r->stride,
					 atomic_load(&r->stripes_used)};
	sl__unlock(&guard);
	return view;
}

/* Computes the layout. Sums are 64 bits wide, and then checked against the limit. */
static int take_sizes(struct sl__region *r, const struct sl_publisher_opts *o)
{
	uint32_t cells = o->max_cells ? o->max_cells : CELLS_DEFAULT;
	uint32_t threads = o->max_threads, lines;
	uint64_t schema, stride, size, size_all;

	if (!threads) {
		long cpus = sysconf(_SC_NPROCESSORS_ONLN);

		threads = cpus > 32 ? 64 : cpus < 4 ? 8 : (uint32_t)cpus * 2;
	}
	if (threads > SL__THREADS_MAX)
		threads = SL__THREADS_MAX;
	if (cells > CELLS_MAX || o->exemplars >= SL_EXEMPLARS_MAX)
		return -EINVAL;
	schema = o->schema_bytes ? o->schema_bytes : (uint64_t)cells * SCHEMA_PER_CELL;
	schema = (schema + SL__PAGE - 1) & ~(uint64_t)(SL__PAGE - 1);
	/* All but one cell of a block may be unused when a metric with many cells is placed. */
	lines = (cells + SL__BLOCK - 1 + SL_LINE_CELLS - 1) / SL_LINE_CELLS;
	stride = (uint64_t)lines * SL_LINE_SIZE;
	stride = (stride + SL__PAGE - 1) & ~(uint64_t)(SL__PAGE - 1);
	r->stripe_offset = SL_HEADER_SIZE + SL__PAGE; /* the hot line has its own page */
	size = r->stripe_offset + stride * (threads + 1);
	if (o->span_bytes) {
		lines = SL_SPAN_RING_MIN;
		if (o->span_bytes > SL_SPAN_RING_MAX * (uint64_t)SL_LINE_SIZE)
			return -EINVAL;
		while (lines * SL_LINE_SIZE < o->span_bytes)
			lines *= 2;
		r->span_lines = lines;
		r->span_offset = size + schema;
	}
	r->created_offset = size + schema + sl__rings_bytes(r->span_lines, threads + 1);
	r->created_bytes = sl__created_pages((uint32_t)(schema / RECORD_MIN) + 1) * SL__PAGE;
	r->exemplars_offset = r->created_offset + r->created_bytes;
	r->exemplar_elements = 1 + (o->exemplars ? o->exemplars : EXEMPLARS_DEFAULT);
	size_all = r->exemplars_offset + sl__exemplars_bytes(r->exemplar_elements);
	if (size_all > SL_REGION_SIZE_MAX)
		return -EINVAL;
	r->stride = (uint32_t)stride;
	r->stripe_count = threads + 1;
	r->schema_offset = (uint32_t)size;
	r->schema_bytes = (uint32_t)schema;
	r->size = size_all;
	r->max_cells = cells;
	return 0;
}

/* ---- the regions of a publisher ---- */

/* Returns SL_PUBLISHER_SLOTS if there is none. */
static unsigned int free_slot(void)
{
	unsigned int slot = 1;

	while (slot < SL_PUBLISHER_SLOTS && sl__slots[slot].region)
		slot++;
	return slot;
}

bool sl__regions_full(void)
{
	return free_slot() == SL_PUBLISHER_SLOTS;
}

void sl__region_free(struct sl__region *r)
{
	sl__metrics_free(r);
	sl__rings_free(r);
	sl__exemplars_free(r);
	free(r->free_stripes);
	free(r);
}

struct sl__region *sl__region_new(struct sl_publisher *p, const struct sl_publisher_opts *o,
				  int *error)
{
	struct sl__region *r = calloc(1, sizeof(*r)), **last = &p->regions;

	*error = -ENOMEM;
	if (!r)
		return NULL;
	r->publisher = p;
	r->memfd = SL__FD_NONE;
	r->last = &r->first;
	r->block_used = SL__BLOCK; /* no block yet */
	*error = take_sizes(r, o);
	if (*error)
		goto err;
	*error = -ENOMEM;
	r->free_stripes = calloc(r->stripe_count, sizeof(*r->free_stripes));
	if (!r->free_stripes)
		goto err;
	r->slot = free_slot();
	*error = r->slot == SL_PUBLISHER_SLOTS ? -ENOSPC : region_make(r);
	if (*error)
		goto err;
	while (*last)
		last = &(*last)->next;
	*last = r;
	p->region_count++;
	sl__slots[r->slot].region = r;
	region_start(r);
	return r;

err:
	sl__region_free(r);
	return NULL;
}

/*
 * Twice as large as the last region, so that few are needed, up to the size that an agent accepts.
 * Unused memory is not allocated.
 */
struct sl__region *sl__region_further(struct sl_publisher *p, uint32_t cells, uint32_t record)
{
	const struct sl__region *last = p->regions;
	struct sl__region *r = NULL, sizes = {0};
	struct sl_publisher_opts o = {0};
	int error;

	if ((p->flags & SL_PUBLISHER_FIXED) || p->region_count == REGIONS_MAX ||
	    (p->further_after_ns && sl__monotonic_ns() < p->further_after_ns))
		return NULL;
	while (last->next)
		last = last->next;
	for (uint32_t factor = 2; factor && !r; factor--) {
		o.max_cells = last->max_cells * factor;
		if (o.max_cells < cells)
			o.max_cells = cells;
		o.schema_bytes = last->schema_bytes * factor;
		if (o.schema_bytes < record)
			o.schema_bytes = record;
		o.max_threads = last->stripe_count - 1;
		o.exemplars = last->exemplar_elements - 1;
		if (factor > 1 &&
		    (last->max_cells > CELLS_MAX / 2 || last->schema_bytes > UINT32_MAX / 2 ||
		     take_sizes(&sizes, &o) || sizes.size > FURTHER_MAX))
			continue;
		r = sl__region_new(p, &o, &error);
	}
	if (r)
		sl__attach_further(r);
	else
		p->further_after_ns = sl__monotonic_ns() + RETRY_NS;
	return r;
}

/* The caller frees the rest with the publisher: its thread may still run. */
void sl__region_close(struct sl__region *r)
{
	struct sl__slot *slot = &sl__slots[r->slot];

	sl__stripes_forget(r->slot);
	atomic_store(&slot->shared, 0);
	atomic_store(&slot->free, 0);
	atomic_store(&slot->rings, NULL);
	atomic_fetch_add(&slot->epoch, 1);
	sl__fd_close(&r->memfd);
	address_give(r->base, r->reserved);
	atomic_store(&slot->region, NULL);
}
