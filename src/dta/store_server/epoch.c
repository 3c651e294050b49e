// SPDX-License-Identifier: Apache-2.0
/*
 * epoch.c - epochs and sizes of stores. A bank is zeroed only after every translator that may write
 * has confirmed a newer epoch, so that the CPU and a FETCH_ADD never change a word at the same
 * time.
 */
#include "dta/store_server/internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/query/query.h"
#include "dta/store_server/peer.h"

#define RETRY_NS    20000000ull
#define OBJECTS_MAX 4u /* objects per store: the newest one, and older ones left by resizes */

static size_t index_of(const struct dta_store_server *o, const struct dta_server_store *s)
{
	return (size_t)(s - o->stores);
}

static void set_epochs(struct dta_store_object *at, uint64_t epoch, uint64_t oldest, uint64_t since,
		       uint32_t state)
{
	dta_store_object_epochs(
		at, &(struct dta_store_epochs){
			    .epoch = epoch, .oldest = oldest, .since_ns = since, .state = state});
}

static void begin_epoch(struct dta_server_store *s)
{
	s->since_ns = base_realtime_ns();
	__atomic_store_n(&s->begins_ns[s->epoch % SL_STORE_BANKS_MAX], s->since_ns,
			 __ATOMIC_RELAXED);
}

static uint8_t *bank_of(struct dta_store_object *at, uint64_t epoch)
{
	return at->view.map + SL_STORE_BANKS_OFFSET +
	       epoch % at->view.config->banks * at->view.bank_stride;
}

/* Returns the oldest epoch that remains when `next` takes over its bank. */
static uint64_t oldest_with(const struct dta_server_store *s, uint64_t next)
{
	uint64_t banks = s->spec->config.banks, floor = next + 1 >= banks ? next + 1 - banks : 0;

	return s->oldest > floor ? s->oldest : floor;
}

/*
 * Estimates the number of units ever written to a bank of M places from the share e of free places:
 * M ln(1/e). With load t = ln(1/e), the variance is M (e^t - t - 1) (K.-Y. Whang, B. Vander-Zanden,
 * H. Taylor, "A linear-time probabilistic counting algorithm for database applications", ACM TODS
 * 15(2), 1990). Sampling n places adds to the variance: e has the variance e (1 - e) (1 - n/M) / n,
 * and the derivative is M / e. The sum is also an upper bound for the variance of M (1 - e), the
 * number of standing units, and for the variance of the number of overwritten units. A full bank
 * counts as if half a place were free, which gives a lower bound.
 */
static void units_of_bank(const struct sl_store_config *c, const uint8_t *in, uint64_t sample,
			  struct dta_store_server_units *u)
{
	uint64_t looked, occupied;
	double places, free_share, used, load;

	if (!dta_store_count_occupied(c, in, sample, &looked, &occupied))
		return;
	places = (double)c->slots;
	free_share = occupied < looked ? (double)(looked - occupied) / (double)looked
				       : .5 / (double)looked;
	used = 1 - free_share;
	load = -log(free_share);
	u->standing += (uint64_t)((double)occupied / (double)looked * places + .5);
	u->lost += places * (load - used);
	u->variance += places * (1 / free_share - load - 1);
	if (looked == c->slots)
		return;
	u->variance += places * places * used / free_share / (double)looked *
		       (1 - (double)looked / places);
	u->sampled = true;
}

void dta_store_server_units(const struct dta_store_object *at, struct dta_store_server_units *u)
{
	for (uint32_t i = 0; i < at->view.config->banks; i++)
		if (at->view.banks + i * at->view.bank_stride != at->zeroed)
			units_of_bank(at->view.config, at->view.banks + i * at->view.bank_stride,
				      STANDING_SAMPLE, u);
}

int dta_store_server_store_open(struct dta_store_server *o, struct dta_server_store *s, char *error,
				size_t error_bytes)
{
	const struct dta_store_spec *spec = s->spec;
	struct dta_store_object *newest = NULL;
	struct dta_store_epochs e;
	bool found;

	*error = 0;
	if (o->config->directory)
		newest = dta_store_object_find(&spec->config, spec->seeded, spec->name,
					       o->config->directory, error, error_bytes);
	if (*error)
		return -EINVAL;
	found = newest;
	if (!found)
		newest = dta_store_object_new(&spec->config, spec->name, o->config->directory,
					      o->config->hugepages, error, error_bytes);
	if (!newest)
		return -EINVAL;
	if (!dta_store_epochs(&newest->view, &e)) {
		snprintf(error, error_bytes, "%s: the epoch line is damaged", newest->path);
		dta_store_objects_free(newest);
		return -EINVAL;
	}
	s->epoch = e.epoch;
	s->oldest = e.oldest;
	if (found)
		s->begins_ns[e.epoch % SL_STORE_BANKS_MAX] = e.since_ns;
	/*
	 * Start a new epoch: translators of the previous process may still write, but they do not
	 * know the new epoch, so they cannot write into it. Append stores keep their rings.
	 */
	if (found && spec->config.banks > 1) {
		s->oldest = BASE_MIN(oldest_with(s, s->epoch + 1), s->epoch);
		set_epochs(newest, s->epoch, s->oldest, e.since_ns, SL_STATE_LIVE);
		memset(bank_of(newest, s->epoch + 1), 0, newest->view.bank_stride);
		s->epoch++;
	}
	s->objects = newest;
	for (struct dta_store_object *at = newest; at; at = at->older) {
		int err = dta_store_object_keep(at, o->wake);

		if (err || !dta_store_epochs(&at->view, &at->epochs))
			return base_fail(error, error_bytes, -EINVAL, "store '%s': %s", spec->name,
					 err ? strerror(-err) : "epoch line damaged");

		/* Collapse an existing file; a new object has already been collapsed. */
		if (o->config->hugepages == DTA_HUGE_AUTO && !at->huge_bytes)
			dta_store_object_collapse(at);
		err = dta_store_server_object_register(o, at);

		if (err)
			return base_fail(error, error_bytes, err,
					 "store '%s': cannot register its memory for RDMA: %s%s",
					 spec->name, strerror(-err),
					 err == -ENOMEM ? "; is ulimit -l too low?" : "");
	}
	s->spec->config.seed = newest->view.config->seed;
	begin_epoch(s);
	set_epochs(newest, s->epoch, s->oldest, s->since_ns, SL_STATE_LIVE);
	for (struct dta_store_object *at = newest; at; at = at->older) {
		at->number = ++o->next_object;
		if (at->path)
			dta_store_server_units(at, &s->before);
	}
	s->due_ns = spec->epoch_ns ? base_now_ns() + spec->epoch_ns : 0;
	return 0;
}

/* Returns the oldest epoch that a translator may still write to. */
static uint64_t least_acked(const struct dta_store_server *o, const struct dta_server_store *s,
			    struct dta_server_conn **who)
{
	uint64_t least = s->epoch;

	for (struct dta_server_conn *c = o->conns; c; c = c->next)
		if (c->state == CONN_WELCOMED && c->acked[index_of(o, s)] < least) {
			least = c->acked[index_of(o, s)];
			if (who)
				*who = c;
		}
	return least;
}

/* Frees old objects that have expired and to which no translator writes. */
static void drop_old(struct dta_store_server *o, struct dta_server_store *s, size_t most)
{
	struct dta_store_object **at = &s->objects, *younger;
	size_t n = 0;

	for (; *at && (*at)->older; n++) {
		bool over;

		younger = *at;
		over = n + 2 > most ||
		       (s->spec->epoch_ns &&
			s->epoch >= younger->view.config->first_epoch + s->spec->config.banks - 1);
		if (over && least_acked(o, s, NULL) >= younger->view.config->first_epoch) {
			struct dta_store_object *gone;

			pthread_mutex_lock(&o->maps);
			gone = younger->older;
			younger->older = NULL;
			pthread_mutex_unlock(&o->maps);
			while (gone) {
				struct dta_store_object *next = gone->older;

				dta_store_server_units(gone, &s->expired);
				dta_store_server_retire_object(o, gone);
				gone = next;
			}
			return;
		}
		at = &younger->older;
	}
}

/*
 * Starts the next epoch. Returns false if a translator may still write to the bank that it needs.
 */
static bool rotate_store(struct dta_store_server *o, struct dta_server_store *s, uint64_t now)
{
	struct dta_store_object *at = s->objects;
	uint64_t next = s->epoch + 1, oldest = oldest_with(s, next);
	struct dta_store_server_units expired = s->expired;

	/* A translator that has not confirmed `oldest` may still write to the bank. */
	if (least_acked(o, s, NULL) < oldest)
		return false;
	s->oldest = oldest <= s->epoch ? oldest : s->epoch;
	set_epochs(at, s->epoch, s->oldest, s->since_ns, SL_STATE_LIVE);
	s->zeroing = true;
	pthread_mutex_unlock(&o->lock);
	units_of_bank(at->view.config, bank_of(at, next), 0, &expired);
	pthread_mutex_lock(&o->lock);
	s->expired = expired;
	at->zeroed = bank_of(at, next);
	pthread_mutex_unlock(&o->lock);
	memset(bank_of(at, next), 0, at->view.bank_stride);
	pthread_mutex_lock(&o->lock);
	at->zeroed = NULL;
	s->zeroing = false;
	s->epoch = next;
	begin_epoch(s);
	s->rotations++;
	s->overdue = false;
	s->told_ns = now;
	set_epochs(at, s->epoch, s->oldest, s->since_ns, SL_STATE_LIVE);
	dta_store_server_notify_epoch(o, s);
	drop_old(o, s, OBJECTS_MAX);
	return true;
}

uint64_t dta_store_server_epochs(struct dta_store_server *o, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (size_t i = 0; i < o->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];
		struct dta_server_conn *who = NULL;

		if (s->due_ns && now >= s->due_ns)
			s->wanted = true;
		if (s->wanted && rotate_store(o, s, now)) {
			s->wanted = s->waiting = false;
			if (s->spec->epoch_ns)
				s->due_ns = now + s->spec->epoch_ns;
		} else if (s->wanted) {
			s->late += !s->waiting;
			s->waiting = true;
			if (now + RETRY_NS < next)
				next = now + RETRY_NS;
		}
		if (least_acked(o, s, &who) < s->epoch && s->told_ns) {
			uint64_t end = s->told_ns + o->config->drain_ns;

			if (now >= end && who->line && strcmp(who->output, "shm")) {
				/*
				 * Its queue pairs are destroyed with its session; the translator
				 * may reconnect.
				 */
				dta_store_server_disconnect(o, who,
							    "the translator did not confirm the "
							    "new epoch");
				dta_store_server_reap(o);
			} else if (now >= end && !s->overdue) {
				s->overdue = true;
				base_logf(
					BASE_WARN, "dta",
					"translator '%s' is still in epoch %llu of store '%s', so "
					"the next epoch cannot begin: kill the translator if it "
					"hangs",
					who->name, (unsigned long long)who->acked[i],
					s->spec->name);
			} else if (now < end && end < next) {
				next = end;
			}
		}
		if (s->due_ns && !s->wanted && s->due_ns < next)
			next = s->due_ns;
	}
	return next;
}

/* ---- commands ---- */

void dta_store_server_bound(struct dta_store_server *o, uint64_t max_bytes)
{
	o->max_bytes = max_bytes;
}

/*
 * Checks the limit in advance. Sparse memory takes no space until it is written or zeroed, when it
 * is too late to refuse the resize.
 */
static int within_bound(struct dta_store_server *o, uint64_t need, char *error, size_t bytes)
{
	const uint64_t ram = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	const uint64_t max = o->max_bytes ? o->max_bytes : ram / 2;
	const uint64_t left = o->config->directory ? UINT64_MAX : dta_limits_left(DTA_LIMIT_MEMORY);
	uint64_t held = dta_store_server_retired_bytes(o);

	for (size_t i = 0; i < o->store_count; i++)
		for (const struct dta_store_object *at = o->stores[i].objects; at; at = at->older)
			held += at->map_bytes;
	if (held <= max && need <= max - held && need <= left / 2)
		return 0;
	return base_fail(
		error, bytes, -ENOSPC,
		"another %llu MiB, in addition to the %llu MiB of all stores, would exceed "
		"--max-store-bytes (%llu MiB) or half of the memory left in the cgroup (%llu MiB)",
		(unsigned long long)(need >> 20), (unsigned long long)(held >> 20),
		(unsigned long long)(max >> 20), (unsigned long long)(left >> 21));
}

static int resize_store(struct dta_store_server *o, struct dta_server_store *s, uint64_t slots,
			char *error, size_t bytes)
{
	struct sl_store_config c = s->spec->config;
	struct dta_store_object *at;
	size_t n = 0;
	int err;

	c.slots = slots;
	c.first_epoch = s->epoch + 1;
	if (dta_store_config_check(&c, error, bytes))
		return -EINVAL;
	if (slots == s->spec->config.slots)
		return 0;
	if (!s->zeroing) /* while zeroing, the loop updates the sums of expired units */
		drop_old(o, s, OBJECTS_MAX - 1);
	for (at = s->objects; at; at = at->older)
		n++;
	if (n >= OBJECTS_MAX || s->zeroing)
		return base_fail(error, bytes, -EBUSY, "store '%s': %s; try again later",
				 s->spec->name,
				 s->zeroing ? "its memory is being zeroed, or filled from the peer"
					    : "translators are still writing to its memory from "
					      "before an earlier resize");
	err = within_bound(o, dta_store_object_bytes(&c), error, bytes);
	if (err)
		return err;
	at = dta_store_object_new(&c, s->spec->name, o->config->directory, o->config->hugepages,
				  error, bytes);
	if (!at)
		return -ENOMEM;
	err = dta_store_server_object_register(o, at);
	if (err) {
		dta_store_server_object_free(o, at, true);
		return base_fail(error, bytes, err,
				 "store '%s': cannot register its memory for RDMA: %s",
				 s->spec->name, strerror(-err));
	}
	if (dta_store_object_keep(at, o->wake) || !dta_store_epochs(&at->view, &at->epochs)) {
		snprintf(error, bytes, "store '%s': too many mappings", s->spec->name);
		dta_store_server_object_free(o, at, true);
		return -ENOMEM;
	}
	at->number = ++o->next_object;
	set_epochs(s->objects, s->epoch, s->oldest, s->since_ns, SL_STATE_CLOSED);
	pthread_mutex_lock(&o->maps);
	at->older = s->objects;
	s->objects = at;
	pthread_mutex_unlock(&o->maps);
	s->spec->config.slots = slots;
	s->epoch = s->oldest = c.first_epoch;
	if (s->behind && o->catch_ns) {
		/* Missed reports go into the previous epoch, which this memory lacks. */
		s->behind = s->epoch + 1;
		s->wanted = true;
	}
	begin_epoch(s);
	s->told_ns = base_now_ns();
	s->overdue = false;
	s->rotations++;
	dta_store_server_notify_object(o, s, true);
	dta_store_server_notify_epoch(o, s);
	return 0;
}

int dta_store_server_resize(struct dta_store_server *o, const char *name, uint64_t slots,
			    char *error, size_t error_bytes)
{
	struct dta_server_store *s;
	int err = -ENOENT;

	pthread_mutex_lock(&o->lock);
	s = dta_store_server_store(o, name);
	if (s)
		err = resize_store(o, s, slots, error, error_bytes);
	else
		snprintf(error, error_bytes, "no store '%.64s'", name);
	dta_store_server_wake(o);
	pthread_mutex_unlock(&o->lock);
	return err;
}

int dta_store_server_rotate(struct dta_store_server *o, const char *name)
{
	struct dta_server_store *s;
	int err = 0;

	pthread_mutex_lock(&o->lock);
	s = dta_store_server_store(o, name);
	if (!s)
		err = -ENOENT;
	else if (s->spec->config.banks < 2)
		err = -EINVAL;
	else
		s->wanted = true;
	dta_store_server_wake(o);
	pthread_mutex_unlock(&o->lock);
	return err;
}

static bool same_text(const char *a, const char *b)
{
	return !a == !b && (!a || !strcmp(a, b));
}

static bool same_secret(const struct dta_stores_config *a, const struct dta_stores_config *b)
{
	return !a->secret == !b->secret && a->secret_bytes == b->secret_bytes &&
	       (!a->secret || !memcmp(a->secret, b->secret, a->secret_bytes));
}

/*
 * Checks that the new configuration can be applied without a restart. Returns 0, or with one line
 * in error -EINVAL, or -EACCES if it would admit any translator from other hosts.
 */
static int in_place(const struct dta_store_server *o, const struct dta_stores_config *now,
		    char *error, size_t bytes)
{
	const struct dta_stores_config *is = o->config;
	const char *what = NULL;
	bool same = now->listen.n == is->listen.n;

	for (size_t i = 0; same && i < now->listen.n; i++)
		same = !strcmp(now->listen.v[i], is->listen.v[i]);
	if (!same)
		what = "listen";
	else if (!same_text(now->directory, is->directory))
		what = "directory";
	else if (!same_text(now->peer, is->peer))
		what = "peer";
	else if (now->hugepages != is->hugepages)
		what = "hugepages";
	else if (now->rdma.enabled != is->rdma.enabled ||
		 !same_text(now->rdma.device, is->rdma.device) ||
		 !same_text(now->rdma.address, is->rdma.address) ||
		 now->rdma.port != is->rdma.port || now->rdma.ib_port != is->rdma.ib_port ||
		 now->rdma.gid_index != is->rdma.gid_index)
		what = "rdma";
	else if (dta_peer_is_far(is->peer) && !same_secret(now, is))
		/* Our RDMA host keeps it, and the loop uses it without holding the lock. */
		what = "the secret that a peer on another host needs";
	if (what)
		return base_fail(error, bytes, -EINVAL, "%s: changing %s needs a restart", o->path,
				 what);
	for (size_t i = 0; i < is->tenant_count; i++) {
		size_t k = 0;

		while (k < now->tenant_count && now->tenants[k].number != is->tenants[i].number)
			k++;
		if (k == now->tenant_count)
			return base_fail(error, bytes, -EINVAL,
					 "%s: removing tenant %u requires a restart", o->path,
					 is->tenants[i].number);
	}
	if (now->store_count != o->store_count)
		return base_fail(error, bytes, -EINVAL,
				 "%s: adding or removing stores requires a restart", o->path);
	for (size_t i = 0; i < now->store_count; i++) {
		const struct dta_store_spec *spec = o->stores[i].spec;
		struct sl_store_config want = now->stores[i].config;

		want.slots = spec->config.slots;
		want.seed = now->stores[i].seeded ? want.seed : spec->config.seed;
		if (strcmp(spec->name, now->stores[i].name) ||
		    !same_text(spec->layout[0], now->stores[i].layout[0]) ||
		    !same_text(spec->layout[1], now->stores[i].layout[1]) ||
		    memcmp(&want, &spec->config, sizeof(want)))
			return base_fail(
				error, bytes, -EINVAL,
				"%s: store '%s': a restart is required to change anything but its "
				"size",
				o->path, now->stores[i].name);
	}
	return dta_store_server_check_open(o, now, error, bytes);
}

#define SWAP(a, b)                      \
	do {                            \
		__typeof__(a) old_ = a; \
		a = b;                  \
		b = old_;               \
	} while (0)

/* Applies the settings that may change at runtime. The replaced settings end up in `now`. */
static int apply_config(struct dta_store_server *o, struct dta_stores_config *now, char *error,
			size_t bytes)
{
	struct dta_stores_config *is = o->config;
	const bool revoked = !same_secret(is, now);
	int err = in_place(o, now, error, bytes);

	for (size_t i = 0; !err && i < now->store_count; i++)
		err = resize_store(o, &o->stores[i], now->stores[i].config.slots, error, bytes);
	if (err)
		return err;
	pthread_mutex_lock(&o->maps);
	for (size_t i = 0; i < now->store_count; i++) {
		struct dta_server_store *s = &o->stores[i];

		SWAP(s->spec->values, now->stores[i].values);
		SWAP(s->spec->value_count, now->stores[i].value_count);
		SWAP(s->spec->series, now->stores[i].series);
		SWAP(s->spec->series_count, now->stores[i].series_count);
		if (s->spec->epoch_ns == now->stores[i].epoch_ns)
			continue;
		s->spec->epoch_ns = now->stores[i].epoch_ns;
		s->due_ns = s->spec->epoch_ns ? base_now_ns() + s->spec->epoch_ns : 0;
	}
	pthread_mutex_unlock(&o->maps);
	is->drain_ns = now->drain_ns;
	SWAP(is->secret, now->secret);
	SWAP(is->secret_bytes, now->secret_bytes);
	SWAP(is->tenants, now->tenants);
	SWAP(is->tenant_count, now->tenant_count);
	/*
	 * The old secret may be known to an attacker, who must neither stay connected nor receive
	 * the new keys, nor write with an instance and rkeys that the old secret has disclosed.
	 */
	for (struct dta_server_conn *c = o->conns; revoked && c; c = c->next)
		if (c->line && !c->local)
			dta_store_server_disconnect(o, c, "the secret has changed");
	if (revoked)
		dta_store_server_rdma_renew(o);
	dta_store_server_notify_tenants(o);
	return 0;
}

int dta_store_server_reload(struct dta_store_server *o, char *error, size_t error_bytes)
{
	struct dta_stores_config *now = dta_stores_read(o->path, error, error_bytes);
	int err = -EINVAL;

	pthread_mutex_lock(&o->lock);
	if (now)
		err = apply_config(o, now, error, error_bytes);
	o->reloads += !err;
	o->reloads_refused += err != 0;
	dta_store_server_wake(o);
	pthread_mutex_unlock(&o->lock);
	if (now)
		dta_store_server_retire_config(o, now);
	if (err)
		base_logf(BASE_WARN, "dta", "reload failed: %s", error);
	else
		base_logf(BASE_INFO, "dta", "reloaded file=%s", o->path);
	return err;
}
