// SPDX-License-Identifier: Apache-2.0
/* publisher.c - the region: creation, growth, fork, close. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/un.h>
#include <unistd.h>

#include "internal.h"
#include "span.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define CELLS_DEFAULT	  1764u /* with one more block: 256 lines, 4 pages */
#define CELLS_MAX	  (1u << 24)
#define SCHEMA_PER_CELL	  128u
#define EXEMPLARS_DEFAULT 63u /* with the head: 4 pages, which the first exemplar allocates */
#define RECORD_MIN	  72u /* bytes of a record with a name */

struct sl__slot sl__slots[SL_PUBLISHER_SLOTS];

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int once_error;

/* ---- the lock, and fork ---- */

void sl__lock(struct sl__guard *guard)
{
	sigset_t all;

	guard->error = errno;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &guard->signals);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &guard->cancel);
	pthread_mutex_lock(&mutex);
}

void sl__unlock(const struct sl__guard *guard)
{
	pthread_mutex_unlock(&mutex);
	pthread_setcancelstate(guard->cancel, NULL);
	pthread_sigmask(SIG_SETMASK, &guard->signals, NULL);
	errno = guard->error;
}

/*
 * fork() runs under the lock, so that the child finds consistent state, and with signals blocked,
 * so that no handler of the child counts into the parent's stripe before fork_child() removes it.
 */
static struct sl__guard fork_guard;

static void fork_prepare(void)
{
	struct sl__guard guard;

	sl__lock(&guard);
	fork_guard = guard;
}

static void fork_parent(void)
{
	struct sl__guard guard = fork_guard;

	sl__unlock(&guard);
}

/*
 * Cheap for a child that calls exec: closes descriptors (an open socket here would hide the
 * parent's death from the agent), and leaves the rest to the first use, see sl__revive().
 */
static void fork_child(void)
{
	struct sl__guard guard = fork_guard;

	sl__threads_forked();
	for (unsigned int slot = 1; slot < SL_PUBLISHER_SLOTS; slot++) {
		struct sl_publisher *p = sl__slots[slot].publisher;

		if (!p)
			continue;
		sl__slots[slot].shared = 0;
		sl__slots[slot].free = 0;
		sl__slots[slot].epoch++;
		sl__slots[slot].rings = NULL;
		sl__attach_forked(p);
		sl__fd_close(&p->memfd);
		p->orphan = true;
		p->revive_after_ns = 0;
	}
	pthread_mutex_init(&mutex, NULL);
	pthread_mutex_lock(&mutex);
	sl__unlock(&guard);
}

static void initialise(void)
{
	once_error = sl__thread_key();
	if (!once_error)
		once_error = -pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/* ---- descriptors ---- */

/*
 * Takes ownership of a new descriptor, moved away from 0, 1 and 2, which a daemon may have closed
 * and will reuse. 0 or -errno; fd < 0 is a failure of the call that made it.
 */
int sl__fd_take(struct sl__fd *to, int fd)
{
	int error = errno, up = fd;
	struct stat st;

	*to = SL__FD_NONE;
	if (fd < 0)
		return -error;
	to->fd = fd; /* a forked child must find it in any case */
	if (fd <= 2) {
		up = fcntl(fd, F_DUPFD_CLOEXEC, 3);
		error = errno;
		close(fd);
		*to = SL__FD_NONE;
		if (up < 0)
			return -error;
	}
	if (fstat(up, &st)) {
		error = errno;
		close(up);
		*to = SL__FD_NONE;
		return -error;
	}
	*to = (struct sl__fd){up, st.st_dev, st.st_ino};
	return 0;
}

bool sl__fd_ours(const struct sl__fd *fd)
{
	struct stat st;

	return fd->fd >= 0 && !fstat(fd->fd, &st) && st.st_dev == fd->dev && st.st_ino == fd->ino;
}

void sl__fd_close(struct sl__fd *fd)
{
	if (sl__fd_ours(fd))
		close(fd->fd);
	*fd = SL__FD_NONE;
}

/* ---- address space ---- */

/*
 * The addresses of a closed region stay reserved, without backing, so that a late update of another
 * thread does not fault. The next region of the same size class reuses them; at most 15 of each
 * class can exist.
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

	/* Replaces the pages of the region in one step: the addresses are mapped at all times. */
	if (mmap(at, reserved, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED)
		return; /* the region stays mapped: a leak, but no fault */
	spare[class].at[spare[class].count++] = at;
}

/* ---- region ---- */

/* Allocates a part of the region: touching a page of a memfd without memory would be a SIGBUS. */
int sl__allocate(struct sl_publisher *p, uint64_t offset, uint64_t bytes)
{
	int r;

	if (!sl__fd_ours(&p->memfd))
		return -EBADF;
	do
		r = fallocate(p->memfd.fd, 0, (off_t)offset, (off_t)bytes);
	while (r && errno == EINTR);
	return r ? -errno : 0;
}

void sl__hot_add(struct sl_publisher *p, enum sl_hot_cell cell, uint64_t n)
{
	if (p->base && !p->orphan)
		sl__plain_add((uintptr_t)p->base + SL_HEADER_SIZE + cell * 8, n);
}

/*
 * Updates the hot line. The cells are stored in the order in which they may be used (cells and
 * records before the count that covers them), and the check word after them: a reader that sees
 * only some stores has a line that does not verify. A writer that dies in between leaves a prefix
 * of them, and the agent repairs the check word.
 */
void sl__hot_change(struct sl_publisher *p)
{
	uint64_t *line = (uint64_t *)(p->base + SL_HEADER_SIZE);
	const uint64_t now[] = {
		[SL_HOT_GENERATION] = ++p->generation,
		[SL_HOT_SCHEMA_USED] = p->schema_used,
		[SL_HOT_LINES_USED] = p->lines_used,
		[SL_HOT_STRIPES_USED] = atomic_load(&p->stripes_used),
		[SL_HOT_CHANGED_NS] = sl__realtime_ns(),
	};
	static const uint8_t order[] = {SL_HOT_LINES_USED, SL_HOT_STRIPES_USED, SL_HOT_SCHEMA_USED,
					SL_HOT_GENERATION, SL_HOT_CHANGED_NS};
	uint64_t sum = 0;

	/* Pairs with a reader's copy of the schema, made after its copy of the hot line. */
	atomic_thread_fence(memory_order_release);
	for (size_t i = 0; i < sizeof(order); i++) {
		uint64_t *cell = &line[order[i]];

		/* Only this thread, which holds the lock, writes these; release as above. */
		sum += (now[order[i]] - *cell) * sl__k((uintptr_t)cell);
		__atomic_store_n(cell, now[order[i]], __ATOMIC_RELEASE);
	}
	/* An addition, as refusals are counted in this line without the lock. */
	__atomic_fetch_add(&line[7], sum, __ATOMIC_RELEASE);
}

static void header_write(const struct sl_publisher *p)
{
	struct sl_region_header *h = (struct sl_region_header *)p->base;

	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->minor = SL_REGION_MINOR;
	h->header_size = SL_HEADER_SIZE;
	h->size = p->size;
	h->kind = SL_REGION_METRICS;
	h->pid = (uint32_t)getpid();
	h->instance = p->instance;
	h->start_ns = sl__realtime_ns();
	h->start_ticks = sl__start_ticks();
	sl__boot_id(h->boot_id);
	h->section_count = 3;
	h->section[0] = (struct sl_region_section){SL_SECTION_HOT, SL_LINE_SIZE, SL_HEADER_SIZE,
						   SL_LINE_SIZE};
	h->section[1] = (struct sl_region_section){SL_SECTION_STRIPES, p->stride, p->stripe_offset,
						   (uint64_t)p->stride * p->stripe_count};
	h->section[2] = (struct sl_region_section){SL_SECTION_SCHEMA, 8, p->schema_offset,
						   p->schema_bytes};
	if (p->span_lines)
		h->section[h->section_count++] = (struct sl_region_section){
			SL_SECTION_SPANS, (uint32_t)SL_SPAN_STRIDE(p->span_lines), p->span_offset,
			sl__rings_bytes(p->span_lines, p->stripe_count)};
	h->section[h->section_count++] = (struct sl_region_section){
		SL_SECTION_CREATED, SL_LINE_SIZE, p->created_offset, p->created_bytes};
	h->section[h->section_count++] = (struct sl_region_section){
		SL_SECTION_EXEMPLARS, SL_EXEMPLAR_SIZE, p->exemplars_offset,
		p->exemplar_elements * (uint64_t)SL_EXEMPLAR_SIZE};
	h->label_bytes = p->label_bytes;
	memcpy(h->labels, p->labels, p->label_bytes);
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

/* Creates the memfd and maps it. On failure p is unchanged. Also for a forked child. */
int sl__region_make(struct sl_publisher *p)
{
	unsigned int flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	struct rlimit limit;
	size_t reserved, old_reserved = p->reserved;
	uint8_t *old = p->base;
	struct sl__fd memfd;
	int error, fd;
	void *at;

	/* Above this limit ftruncate() raises SIGXFSZ. */
	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < p->size)
		return -ENOMEM;
	fd = memfd_create("sidelight", flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
		fd = memfd_create("sidelight", flags);
	error = sl__fd_take(&memfd, fd);
	if (error)
		return error;
	p->memfd = memfd;
	fd = memfd.fd;
	/*
	 * 0444: the holder of a descriptor may reopen the file by /proc with the rights of its
	 * mode. An agent of another user must be able to, read-only; no process for writing. The
	 * agent adds F_SEAL_FUTURE_WRITE and F_SEAL_SEAL before it lets others read: it must map
	 * the memory writable before.
	 */
	if (fchmod(fd, 0444) || ftruncate(fd, (off_t)p->size) ||
	    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)) {
		error = -errno;
		goto err_fd;
	}
	p->stripe_pages = (p->lines_used * SL_LINE_SIZE + SL__PAGE - 1) / SL__PAGE;
	if (!p->stripe_pages)
		p->stripe_pages = 1;
	p->schema_pages = (p->schema_used + SL__PAGE - 1) / SL__PAGE;
	error = sl__allocate(p, 0, p->stripe_offset + (uint64_t)p->stripe_pages * SL__PAGE);
	p->created_pages = sl__created_pages(p->metric_count);
	if (!error && p->schema_pages)
		error = sl__allocate(p, p->schema_offset, (uint64_t)p->schema_pages * SL__PAGE);
	if (!error && p->created_pages)
		error = sl__allocate(p, p->created_offset, (uint64_t)p->created_pages * SL__PAGE);
	if (error)
		goto err_fd;
	at = address_take(p->size, &reserved);
	if (at == MAP_FAILED) {
		error = -errno;
		goto err_fd;
	}
	if (mmap(at, p->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
	    MAP_FAILED) {
		error = -errno;
		goto err_address;
	}
	p->base = at;
	p->reserved = reserved;
	p->dense = false;
	error = sl__rings_make(p);
	if (!error)
		error = sl__exemplars_make(p);
	if (error)
		goto err_base;
	p->instance = sl__random_instance();
	p->generation = 0;
	atomic_store(&p->stripes_used, 1);
	p->free_count = 0;
	header_write(p);
	return 0;

err_base:
	p->base = old;
	p->reserved = old_reserved;
err_address:
	address_give(at, reserved);
err_fd:
	sl__fd_close(&p->memfd);
	return error;
}

/* Starts publishing in a new region. */
static void region_start(struct sl_publisher *p)
{
	struct sl__slot *slot = &sl__slots[p->slot];

	sl__plain_add((uintptr_t)p->base + SL_HEADER_SIZE + SL_HOT_STATE * 8, SL_STATE_LIVE);
	sl__hot_change(p);
	atomic_store(&slot->free, 0);
	atomic_store(&slot->edge, p->flags & SL_PUBLISHER_EDGE);
	atomic_store(&slot->rings, p->rings);
	atomic_store(&slot->shared, (uintptr_t)p->base + p->stripe_offset);
}

/* First use in a forked child: the same metrics, from 0, in a region of its own. */
int sl__revive(struct sl_publisher *p)
{
	uint8_t *base = p->base;
	size_t reserved = p->reserved;
	int error;

	if (p->revive_after_ns && sl__monotonic_ns() < p->revive_after_ns)
		return -ENOMEM;
	error = sl__region_make(p);
	if (error) {
		p->revive_after_ns = sl__monotonic_ns() + 1000000000u;
		return error;
	}
	address_give(base, reserved);
	p->orphan = false;
	p->logged = 0;
	atomic_store(&p->refused, 0);
	atomic_store(&p->sharing, 0);
	atomic_store(&p->attaches, 0);
	sl__metrics_rewrite(p);
	region_start(p);
	sl__attach_start(p);
	return 0;
}

uintptr_t sl__shared_slow(unsigned int slot)
{
	struct sl_publisher *p;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE || slot >= SL_PUBLISHER_SLOTS)
		return 0;
	sl__lock(&guard);
	p = sl__slots[slot].publisher;
	if (p && p->orphan)
		sl__revive(p);
	sl__unlock(&guard);
	return sl__slots[slot].shared;
}

struct sl__view sl__view(unsigned int slot)
{
	struct sl__view view = {0};
	struct sl_publisher *p;
	struct sl__guard guard;

	if (slot == SL__SLOT_NONE || slot >= SL_PUBLISHER_SLOTS)
		return view;
	sl__lock(&guard);
	p = sl__slots[slot].publisher;
	if (p && !(p->orphan && sl__revive(p)))
		view = (struct sl__view){(uintptr_t)p->base + p->stripe_offset, p->stride,
					 atomic_load(&p->stripes_used)};
	sl__unlock(&guard);
	return view;
}

/* ---- open and close ---- */

static const char *env(const char *name)
{
	const char *v = secure_getenv(name);

	return v && *v ? v : NULL;
}

static const char *given(const char *value, const char *otherwise)
{
	return value && *value ? value : otherwise;
}

static int take_labels(struct sl_publisher *p, const struct sl_publisher_opts *o)
{
	struct sl_label labels[SL_LABELS_MAX];
	char host[256] = "";
	size_t count = 0;
	int error;

	if (o->label_count > SL_LABELS_MAX - 3 || (o->label_count && !o->labels))
		return -EINVAL;
	for (size_t i = 0; i < o->label_count; i++) {
		const char *key = o->labels[i].key;

		if (!key || !strcmp(key, "service") || !strcmp(key, "pod") ||
		    !strcmp(key, "namespace"))
			return -EINVAL;
		labels[count++] = o->labels[i];
	}
	gethostname(host, sizeof(host) - 1);
	labels[count++] = (struct sl_label){"service",
					    given(o->service, program_invocation_short_name)};
	labels[count++] = (struct sl_label){"pod", given(o->pod, env("POD_NAME") ?: host)};
	labels[count] = (struct sl_label){"namespace",
					  given(o->kube_namespace, env("POD_NAMESPACE"))};
	count += labels[count].value != NULL;
	error = sl__labels_encode(labels, count, NULL, false, &p->labels, &p->label_bytes);
	if (!error && p->label_bytes > SL_HEADER_LABELS_MAX)
		error = -EINVAL;
	return error;
}

/* The layout. All sums are in 64 bits, and then checked against the limit. */
static int take_sizes(struct sl_publisher *p, const struct sl_publisher_opts *o)
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
	/* All but one cell of a block may be unused when a metric of many cells comes. */
	lines = (cells + SL__BLOCK - 1 + SL_LINE_CELLS - 1) / SL_LINE_CELLS;
	stride = (uint64_t)lines * SL_LINE_SIZE;
	stride = (stride + SL__PAGE - 1) & ~(uint64_t)(SL__PAGE - 1);
	p->stripe_offset = SL_HEADER_SIZE + SL__PAGE; /* the hot line has its page for itself */
	size = p->stripe_offset + stride * (threads + 1);
	if (o->span_bytes) {
		lines = SL_SPAN_RING_MIN;
		if (o->span_bytes > SL_SPAN_RING_MAX * (uint64_t)SL_LINE_SIZE)
			return -EINVAL;
		while (lines * SL_LINE_SIZE < o->span_bytes)
			lines *= 2;
		p->span_lines = lines;
		p->span_offset = size + schema;
	}
	p->created_offset = size + schema + sl__rings_bytes(p->span_lines, threads + 1);
	p->created_bytes = sl__created_pages((uint32_t)(schema / RECORD_MIN) + 1) * SL__PAGE;
	p->exemplars_offset = p->created_offset + p->created_bytes;
	p->exemplar_elements = 1 + (o->exemplars ? o->exemplars : EXEMPLARS_DEFAULT);
	size_all = p->exemplars_offset + sl__exemplars_bytes(p->exemplar_elements);
	if (size_all > SL_REGION_SIZE_MAX)
		return -EINVAL;
	p->stride = (uint32_t)stride;
	p->stripe_count = threads + 1;
	p->schema_offset = (uint32_t)size;
	p->schema_bytes = (uint32_t)schema;
	p->size = size_all;
	p->max_cells = cells;
	return 0;
}

static void publisher_free(struct sl_publisher *p)
{
	sl__metrics_free(p);
	sl__rings_free(p);
	sl__exemplars_free(p);
	free(p->free_stripes);
	free(p->socket);
	free(p->labels);
	free(p);
}

struct sl_publisher *sl_publisher_open(const struct sl_publisher_opts *opts)
{
	struct sl_publisher_opts o = {0};
	struct sl__guard guard;
	struct sl_publisher *p;
	const char *path;
	int error, unattended = 0;

	if ((opts && (!SL__HAS(opts, sz) || !sl__opts_take(&o, sizeof(o), opts))) ||
	    o.flags & ~(SL_PUBLISHER_DETACHED | SL_PUBLISHER_EDGE)) {
		errno = EINVAL;
		return NULL;
	}
	pthread_once(&once, initialise);
	if (once_error) {
		errno = -once_error;
		return NULL;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->memfd = p->sock = p->wake[0] = p->wake[1] = SL__FD_NONE;
	p->last = &p->first;
	p->block_used = SL__BLOCK; /* no block yet */
	p->flags = o.flags;
	error = take_labels(p, &o);
	if (!error)
		error = take_sizes(p, &o);
	if (error)
		goto err_free;
	if (p->span_lines)
		sl__clock_start();
	path = given(o.socket, env(SL_SOCKET_ENV) ?: SL_SOCKET_DEFAULT);
	if (strlen(path) >= sizeof(((struct sockaddr_un *)NULL)->sun_path)) {
		error = -EINVAL;
		goto err_free;
	}
	p->socket = strdup(path);
	p->free_stripes = calloc(p->stripe_count, sizeof(*p->free_stripes));
	if (!p->socket || !p->free_stripes) {
		error = -ENOMEM;
		goto err_free;
	}

	sl__lock(&guard);
	for (p->slot = 1; p->slot < SL_PUBLISHER_SLOTS && sl__slots[p->slot].publisher; p->slot++)
		;
	error = p->slot == SL_PUBLISHER_SLOTS ? -ENOSPC : sl__region_make(p);
	if (!error) {
		sl__slots[p->slot].publisher = p;
		region_start(p);
		unattended = sl__attach_start(p);
	}
	sl__unlock(&guard);
	if (error)
		goto err_free;
	if (unattended)
		sl__log(SL_LOG_WARN,
			"sidelight: no thread to attach with: an agent that starts later does not "
			"see this region socket=%s error=\"%s\"",
			path, strerror(-unattended));
	return p;

err_free:
	publisher_free(p);
	errno = -error;
	return NULL;
}

void sl_publisher_close(struct sl_publisher *p)
{
	struct sl__guard guard;
	bool ended = true;

	if (!p)
		return;
	if (!p->orphan) {
		sl__plain_add((uintptr_t)p->base + SL_HEADER_SIZE + SL_HOT_STATE * 8,
			      (uint64_t)SL_STATE_CLOSED - SL_STATE_LIVE);
		ended = sl__attach_stop(p);
	}
	sl__lock(&guard);
	sl__stripes_forget(p->slot);
	atomic_store(&sl__slots[p->slot].shared, 0);
	atomic_store(&sl__slots[p->slot].free, 0);
	atomic_store(&sl__slots[p->slot].rings, NULL);
	atomic_fetch_add(&sl__slots[p->slot].epoch, 1);
	sl__fd_close(&p->memfd);
	address_give(p->base, p->reserved);
	atomic_store(&sl__slots[p->slot].publisher, NULL);
	sl__unlock(&guard);
	if (ended)
		publisher_free(p);
}

/* ---- state ---- */

const char *sl_version(void)
{
	return SL_VERSION_STRING;
}

bool sl_publisher_attached(const struct sl_publisher *p)
{
	/* Relaxed: it orders no other memory. */
	return p && atomic_load_explicit(&p->attached, memory_order_relaxed);
}

int sl_publisher_fd(const struct sl_publisher *p)
{
	if (!p)
		return -1;
	sl__shared(p->slot); /* may be the first use in a forked child */
	return p->memfd.fd;
}

int sl_publisher_stats(const struct sl_publisher *p, struct sl_publisher_stats *stats)
{
	struct sl_publisher_stats now = {0};
	struct sl__guard guard;

	if (!p || !SL__HAS(stats, metrics))
		return -EINVAL;
	sl__lock(&guard);
	now.metrics = p->metric_count - p->string_count - p->removed_count;
	now.refused = atomic_load(&p->refused);
	now.cells_used = p->cells_used;
	now.cells_max = p->max_cells;
	now.stripes_used = p->orphan ? 1 : atomic_load(&p->stripes_used);
	now.stripes_max = p->stripe_count;
	now.threads_sharing = atomic_load(&p->sharing);
	now.attaches = atomic_load(&p->attaches);
	sl__unlock(&guard);
	sl__answer_give(stats, &now, sizeof(now));
	return 0;
}
