/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.c - what all providers share: choosing one, the landing buffer, bounds, back-off, epochs
 * and the ring of finished READs.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fabric/provider.h"
#include "fabric/fabric-providers.h"

#define DEFAULT_BUFFER	   ((size_t)4 << 20)
#define DEFAULT_DEPTH	   128u
#define DEFAULT_CONNECT_MS 2000u
#define DEFAULT_ANSWER_MS  200u

#define SL_PROVIDER(name)  extern const struct sl_fabric_ops sl_provider_##name;
SL_PROVIDERS
#undef SL_PROVIDER

#define SL_PROVIDER(name) &sl_provider_##name,
static const struct sl_fabric_ops *const providers[] = {SL_PROVIDERS};
#undef SL_PROVIDER

static __thread char open_error[sizeof(((struct sl_fabric_stats *)0)->last_error)];

static const struct sl_fabric_ops *provider_for(const char *target)
{
	for (size_t i = 0; i < sizeof(providers) / sizeof(providers[0]); i++)
		if (providers[i]->takes(target))
			return providers[i];
	return NULL;
}

struct sl_fabric *sl_fabric_open(const char *target, const struct sl_fabric_opts *opts)
{
	static const struct sl_fabric_opts defaults = {.gid_index = -1};
	const struct sl_fabric_ops *ops = target ? provider_for(target) : NULL;
	struct sl_fabric *f;
	int err;

	open_error[0] = '\0';
	if (!ops) {
		snprintf(open_error, sizeof(open_error), "'%s' is neither a path nor HOST[:PORT]",
			 target ? target : "");
		errno = EINVAL;
		return NULL;
	}
	f = calloc(1, ops->bytes);
	if (!f)
		return NULL;
	f->ops = ops;
	f->opts = opts ? *opts : defaults;
	if (!f->opts.queue_depth)
		f->opts.queue_depth = DEFAULT_DEPTH;
	if (f->opts.queue_depth > SL_READS_MAX)
		f->opts.queue_depth = SL_READS_MAX;
	if (!f->opts.connect_timeout_ms)
		f->opts.connect_timeout_ms = DEFAULT_CONNECT_MS;
	if (!f->opts.answer_timeout_ms)
		f->opts.answer_timeout_ms = DEFAULT_ANSWER_MS;
	if (!f->opts.buffer_bytes)
		f->opts.buffer_bytes = DEFAULT_BUFFER;
	if (f->opts.notify) { /* a line a request: places are a power of two */
		size_t lines = (size_t)f->opts.queue_depth * 2 * 64;

		if (f->opts.buffer_bytes < lines)
			f->opts.buffer_bytes = lines;
	}
	if (!f->opts.ib_port)
		f->opts.ib_port = 1;
	f->backoff_ns = SL_BACKOFF_MIN_NS;

	err = ENOMEM;
	f->target = strdup(target);
	if (!f->target)
		goto err_free;
	f->finished = calloc(SL_READS_MAX, sizeof(*f->finished));
	if (!f->finished)
		goto err_target;
	f->buffer = mmap(NULL, f->opts.buffer_bytes + SL_BUFFER_TAIL, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (f->buffer == MAP_FAILED)
		goto err_finished;
	err = -ops->open(f, target);
	if (err)
		goto err_buffer;
	return f;

err_buffer:
	memcpy(open_error, f->stats.last_error, sizeof(open_error));
	munmap(f->buffer, f->opts.buffer_bytes + SL_BUFFER_TAIL);
err_finished:
	free(f->finished);
err_target:
	free(f->target);
err_free:
	free(f);
	if (!open_error[0])
		snprintf(open_error, sizeof(open_error), "%s: %s", target, strerror(err));
	errno = err;
	return NULL;
}

const char *sl_fabric_error(void)
{
	return open_error;
}

void sl_fabric_close(struct sl_fabric *f)
{
	if (!f)
		return;
	f->ops->close(f);
	munmap(f->buffer, f->opts.buffer_bytes + SL_BUFFER_TAIL);
	free(f->finished);
	free(f->target);
	free(f);
}

const char *sl_fabric_name(const struct sl_fabric *f)
{
	return f->ops->name;
}

const char *sl_fabric_target(const struct sl_fabric *f)
{
	return f->target;
}

enum sl_fabric_state sl_fabric_drive(struct sl_fabric *f, uint64_t now_ns, uint64_t *epoch)
{
	f->ops->drive(f, now_ns);
	if (epoch)
		*epoch = f->epoch;
	return f->state;
}

const struct sl_remote *sl_fabric_directory(struct sl_fabric *f)
{
	return f->state == SL_FABRIC_UP ? &f->directory : NULL;
}

int sl_fabric_map(struct sl_fabric *f, struct sl_remote *remote)
{
	if (f->state != SL_FABRIC_UP)
		return -ENOTCONN;
	return f->ops->map(f, remote);
}

void sl_fabric_unmap(struct sl_fabric *f, struct sl_remote *remote)
{
	f->ops->unmap(f, remote);
}

void *sl_fabric_buffer(struct sl_fabric *f, size_t *bytes)
{
	if (bytes)
		*bytes = f->opts.buffer_bytes;
	return f->buffer;
}

/* Is all of the READ inside of what it reads from, and inside of where it may land? */
static bool in_bounds(const struct sl_fabric *f, const struct sl_read *r)
{
	const struct sl_remote *m = r->remote;
	uintptr_t at = (uintptr_t)r->to - (uintptr_t)f->buffer;

	return r->length && r->offset <= m->length && r->length <= m->length - r->offset &&
	       at <= f->opts.buffer_bytes && r->length <= f->opts.buffer_bytes - at;
}

int sl_fabric_post(struct sl_fabric *f, struct sl_read *reads, uint32_t count)
{
	uint32_t taken = 0;

	if (f->state != SL_FABRIC_UP)
		return -ENOTCONN;
	if (count > SL_READS_MAX - f->outstanding)
		count = SL_READS_MAX - f->outstanding;

	/* Runs of sound READs go to the provider; an unsound one is finished here. */
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
			sl_fabric_finish(f, &reads[taken], -ERANGE);
			f->outstanding++;
			taken++;
		}
	}
	return (int)taken;
}

int sl_fabric_poll(struct sl_fabric *f, struct sl_read **done, uint32_t max, uint64_t now_ns,
		   uint64_t timeout_ns)
{
	uint32_t n = 0;

	if (f->ops->poll && f->outstanding > f->finished_count)
		f->ops->poll(f, now_ns, timeout_ns);
	while (n < max && f->finished_count) {
		done[n++] = f->finished[f->finished_head];
		f->finished_head = (f->finished_head + 1) % SL_READS_MAX;
		f->finished_count--;
	}
	f->outstanding -= n;
	return (int)n;
}

int sl_fabric_notify(struct sl_fabric *f, uint32_t entry, const struct sl_msg_verdict *verdict)
{
	int err;

	if (f->state != SL_FABRIC_UP)
		return -ENOTCONN;
	if (!f->opts.notify || !f->ops->notify)
		return -EOPNOTSUPP;
	err = f->ops->notify(f, entry, verdict);
	if (!err)
		f->stats.notices++;
	return err;
}

uint32_t sl_fabric_outstanding(const struct sl_fabric *f)
{
	return f->outstanding;
}

void sl_fabric_stats(const struct sl_fabric *f, struct sl_fabric_stats *out)
{
	*out = f->stats;
}

/* ---- for providers -------------------------------------------------------------------------- */

void sl_fabric_failed(struct sl_fabric *f, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(f->stats.last_error, sizeof(f->stats.last_error), fmt, ap);
	va_end(ap);
}

void sl_fabric_went_up(struct sl_fabric *f, const struct sl_remote *directory)
{
	f->directory = *directory;
	f->state = SL_FABRIC_UP;
	f->epoch++;
	f->backoff_ns = SL_BACKOFF_MIN_NS;
	f->stats.connects++;
}

void sl_fabric_went_down(struct sl_fabric *f, uint64_t now_ns)
{
	if (f->state == SL_FABRIC_UP)
		f->stats.disconnects++;
	f->state = SL_FABRIC_DOWN;
	memset(&f->directory, 0, sizeof(f->directory));
	f->retry_ns = now_ns + f->backoff_ns;
	f->backoff_ns *= 2;
	if (f->backoff_ns > SL_BACKOFF_MAX_NS)
		f->backoff_ns = SL_BACKOFF_MAX_NS;
}

void sl_fabric_finish(struct sl_fabric *f, struct sl_read *read, int status)
{
	uint32_t tail = (f->finished_head + f->finished_count) % SL_READS_MAX;

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
