/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - the parts common to all providers: choice of the provider, landing buffer, bounds
 * checks, back-off, epochs and the ring of finished READs.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/provider.h"
#include "fabric/fabric-providers.h"
#include "base/base.h"

#define DEFAULT_BUFFER	      ((size_t)4 << 20)
#define DEFAULT_DEPTH	      128u
#define DEFAULT_CONNECT_MS    2000u
#define DEFAULT_ANSWER_MS     200u

#define FABRIC_PROVIDER(name) extern const struct fabric_ops fabric_provider_##name;
FABRIC_PROVIDERS
#undef FABRIC_PROVIDER

#define FABRIC_PROVIDER(name) &fabric_provider_##name,
static const struct fabric_ops *const providers[] = {FABRIC_PROVIDERS};
#undef FABRIC_PROVIDER

static __thread char open_error[sizeof(((struct fabric_stats *)0)->last_error)];

static const struct fabric_ops *provider_for(const char *target)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (providers[i]->takes(target))
			return providers[i];
	return NULL;
}

bool fabric_is_far(const char *target)
{
	const struct fabric_ops *ops = provider_for(target);

	return ops && ops != &fabric_provider_shm;
}

bool fabric_is_verbs(const char *target)
{
	return provider_for(target) == &fabric_provider_verbs;
}

static void free_fabric(struct fabric *f)
{
	if (f->buffer != MAP_FAILED)
		munmap(f->buffer, f->opts.buffer_bytes + FABRIC_BUFFER_TAIL);
	free(f->finished);
	free(f->requests);
	free(f->target);
	free(f);
}

struct fabric *fabric_open(const char *target, const struct fabric_opts *opts)
{
	static const struct fabric_opts defaults = {.gid_index = -1};
	const struct fabric_ops *ops = target ? provider_for(target) : NULL;
	struct fabric *f;
	int err;

	open_error[0] = '\0';
	if (!ops) {
		snprintf(open_error, sizeof(open_error),
			 "expected a path, HOST[:PORT] or tcp://HOST[:PORT], not '%s'",
			 target ? target : "");
		errno = EINVAL;
		return NULL;
	}
	if (ops->absent) {
		snprintf(open_error, sizeof(open_error), "%s: %s", target, ops->absent);
		errno = EOPNOTSUPP;
		return NULL;
	}
	f = calloc(1, ops->bytes);
	if (!f)
		return NULL;
	f->ops = ops;
	f->opts = opts ? *opts : defaults;
	f->opts.queue_depth = f->opts.queue_depth ?: DEFAULT_DEPTH;
	f->opts.queue_depth = BASE_MIN(f->opts.queue_depth, FABRIC_READS_MAX);
	f->opts.connect_timeout_ms = f->opts.connect_timeout_ms ?: DEFAULT_CONNECT_MS;
	f->opts.answer_timeout_ms = f->opts.answer_timeout_ms ?: DEFAULT_ANSWER_MS;
	f->opts.buffer_bytes = f->opts.buffer_bytes ?: DEFAULT_BUFFER;
	if (f->opts.notify) { /* one line per request; the number of slots is a power of two */
		size_t lines = (size_t)f->opts.queue_depth * 2 * 64;

		f->opts.buffer_bytes = BASE_MAX(f->opts.buffer_bytes, lines);
	}
	f->opts.ib_port = f->opts.ib_port ?: 1;
	f->backoff_ns = FABRIC_BACKOFF_MIN_NS;

	err = ENOMEM;
	f->target = strdup(target);
	f->finished = calloc(FABRIC_READS_MAX, sizeof(*f->finished));
	f->buffer = mmap(NULL, f->opts.buffer_bytes + FABRIC_BUFFER_TAIL, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->target && f->finished && f->buffer != MAP_FAILED)
		err = -ops->open(f, target);
	if (!err)
		return f;
	if (f->stats.last_error[0])
		memcpy(open_error, f->stats.last_error, sizeof(open_error));
	else
		snprintf(open_error, sizeof(open_error), "%s: %s", target, strerror(err));
	free_fabric(f);
	errno = err;
	return NULL;
}

const char *fabric_error(void)
{
	return open_error;
}

void fabric_close(struct fabric *f)
{
	if (!f)
		return;
	f->ops->close(f);
	free_fabric(f);
}

const char *fabric_name(const struct fabric *f)
{
	return f->ops->name;
}

enum fabric_state fabric_drive(struct fabric *f, uint64_t now_ns, uint64_t *epoch)
{
	f->ops->drive(f, now_ns);
	if (epoch)
		*epoch = f->epoch;
	return f->state;
}

const struct fabric_remote *fabric_directory(struct fabric *f)
{
	return f->state == FABRIC_UP ? &f->directory : NULL;
}

void fabric_directory_moved(struct fabric *f, uint64_t addr, uint32_t rkey)
{
	if (!addr || addr > UINT64_MAX - f->directory.length)
		return;
	f->directory.addr = addr;
	f->directory.rkey = rkey;
}

int fabric_map(struct fabric *f, struct fabric_remote *remote)
{
	if (f->state != FABRIC_UP)
		return -ENOTCONN;
	if (f->ops->map)
		return f->ops->map(f, remote);
	if (remote->addr < f->ops->first_addr || !remote->length ||
	    remote->addr > UINT64_MAX - remote->length)
		return -EINVAL;
	return 0;
}

void fabric_unmap(struct fabric *f, struct fabric_remote *remote)
{
	if (f->ops->unmap)
		f->ops->unmap(f, remote);
}

void *fabric_buffer(struct fabric *f, size_t *bytes)
{
	if (bytes)
		*bytes = f->opts.buffer_bytes;
	return f->buffer;
}

/* True if the READ is within its remote memory and its destination is within the buffer. */
static bool in_bounds(const struct fabric *f, const struct fabric_read *r)
{
	const struct fabric_remote *m = r->remote;
	uintptr_t at = (uintptr_t)r->to - (uintptr_t)f->buffer;

	return r->length && r->offset <= m->length && r->length <= m->length - r->offset &&
	       at <= f->opts.buffer_bytes && r->length <= f->opts.buffer_bytes - at;
}

int fabric_post(struct fabric *f, struct fabric_read *reads, uint32_t count)
{
	uint32_t taken = 0;

	if (f->state != FABRIC_UP)
		return -ENOTCONN;
	count = BASE_MIN(count, FABRIC_READS_MAX - f->outstanding);

	/* Pass runs of valid READs to the provider, and finish invalid ones here. */
	while (taken < count) {
		uint32_t n = 0, got;

		while (taken + n < count && in_bounds(f, &reads[taken + n]))
			n++;
		if (n) {
			got = f->ops->post(f, reads + taken, n);
			f->outstanding += got;
			taken += got;
			if (got < n)
				break;
		} else {
			fabric_finish(f, &reads[taken], -ERANGE);
			f->outstanding++;
			taken++;
		}
	}
	return (int)taken;
}

int fabric_poll(struct fabric *f, struct fabric_read **done, uint32_t max, uint64_t now_ns,
		uint64_t timeout_ns)
{
	uint32_t n = 0;

	if (f->ops->poll && f->outstanding > f->finished_count)
		f->ops->poll(f, now_ns, timeout_ns);
	while (n < max && f->finished_count) {
		done[n++] = f->finished[f->finished_head];
		f->finished_head = (f->finished_head + 1) % FABRIC_READS_MAX;
		f->finished_count--;
	}
	f->outstanding -= n;
	return (int)n;
}

int fabric_notify(struct fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	int err;

	if (f->state != FABRIC_UP)
		return -ENOTCONN;
	if (!f->opts.notify || !f->ops->notify)
		return -EOPNOTSUPP;
	err = f->ops->notify(f, entry, verdict);
	if (!err)
		f->stats.notices++;
	return err;
}

void fabric_stats(const struct fabric *f, struct fabric_stats *out)
{
	*out = f->stats;
}

/* ---- for providers ---- */

void fabric_failed(struct fabric *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->stats.last_error, sizeof(f->stats.last_error), fmt, ap);
	va_end(ap);
	f->stats.last_error_ns = base_now_ns();
}

void fabric_went_up(struct fabric *f, const struct fabric_remote *directory)
{
	f->directory = *directory;
	f->state = FABRIC_UP;
	f->epoch++;
	f->backoff_ns = FABRIC_BACKOFF_MIN_NS;
	f->stats.connects++;
}

bool fabric_make_requests(struct fabric *f, uint32_t count)
{
	uint32_t room = 1;

	while (room < count)
		room *= 2;
	f->requests = calloc(room, sizeof(*f->requests));
	f->mask = room - 1;
	return f->requests;
}

void fabric_finish_oldest(struct fabric *f, int status)
{
	const struct fabric_request *r = &f->requests[f->head++ & f->mask];

	for (uint32_t i = 0; i < r->reads; i++)
		fabric_finish(f, &r->first[i], status);
}

/* Returns how long the oldest request has waited, if that is at least timeout_ns; otherwise 0. */
static uint64_t overdue_wait(const struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	const uint64_t posted = f->requests[f->head & f->mask].posted_ns;

	return timeout_ns && now_ns > posted && now_ns - posted >= timeout_ns ? now_ns - posted : 0;
}

bool fabric_got_no_answer(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	uint64_t waited = f->head != f->tail ? overdue_wait(f, now_ns, timeout_ns) : 0;

	if (waited)
		fabric_failed(f, "%s: a request was not answered within %llu ms", f->target,
			      (unsigned long long)(waited / 1000000u));
	return waited;
}

void fabric_went_down(struct fabric *f, uint64_t now_ns, uint64_t timeout_ns)
{
	while (f->head != f->tail)
		fabric_finish_oldest(f,
				     overdue_wait(f, now_ns, timeout_ns) ? -ETIMEDOUT : -ENOTCONN);
	if (f->state == FABRIC_UP)
		f->stats.disconnects++;
	f->state = FABRIC_DOWN;
	memset(&f->directory, 0, sizeof(f->directory));
	f->retry_ns = now_ns + f->backoff_ns;
	f->backoff_ns *= 2;
	f->backoff_ns = BASE_MIN(f->backoff_ns, FABRIC_BACKOFF_MAX_NS);
}

void fabric_finish(struct fabric *f, struct fabric_read *read, int status)
{
	uint32_t tail = (f->finished_head + f->finished_count) % FABRIC_READS_MAX;

	read->status = status;
	f->finished[tail] = read;
	f->finished_count++;
	switch (status) {
	case 0:
		f->stats.reads++;
		f->stats.bytes += read->length;
		break;
	case -ETIMEDOUT:
		f->stats.errors_timeout++;
		break;
	case -EACCES:
	case -ERANGE:
		f->stats.errors_access++;
		break;
	default:
		f->stats.errors_other++;
	}
}
