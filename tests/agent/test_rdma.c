// SPDX-License-Identifier: Apache-2.0
/*
 * test_rdma.c - which memory is registered, for how long, and in which batches. The device is a
 * list of current registrations, so that a key in use can be looked up. tests/guest covers real
 * devices.
 */
#include "fixture.h"
#include "agent/internal.h"

/* ---- a device ---- */

struct fabric_host {
	bool lost;
	uint64_t disconnected;
};

static struct {
	uintptr_t from, to;
	uint32_t rkey; /* 0: free */
} memory[4096];
static uint32_t last_rkey, registered, most_registered, fail_after = UINT32_MAX;
static struct fabric_host device;
static bool plugged = true;
static bool busy; /* READs are answered as long as memory is registered, as over TCP */

struct fabric_host *fabric_host_open(const struct fabric_host_opts *opts, char *error, size_t bytes)
{
	(void)opts;
	if (!plugged) {
		snprintf(error, bytes, "no such device");
		errno = ENODEV;
		return NULL;
	}
	device.lost = false;
	return &device;
}

void fabric_host_close(struct fabric_host *h)
{
	(void)h;
	assert_int_equal(registered, 0);
}

int fabric_host_register(struct fabric_host *h, void *map, size_t bytes,
			 struct fabric_host_key *key)
{
	(void)h;
	assert_int_equal((uintptr_t)map % 4096, 0);
	if (!fail_after)
		return -ENOMEM;
	fail_after--;
	for (size_t i = 0; i < 4096; i++) {
		if (memory[i].rkey)
			continue;
		memory[i].from = (uintptr_t)map;
		memory[i].to = (uintptr_t)map + bytes;
		memory[i].rkey = ++last_rkey;
		key->addr = (uintptr_t)map;
		key->rkey = last_rkey;
		key->mr = &memory[i];
		if (++registered > most_registered)
			most_registered = registered;
		/* Like the device: all of the memory must be there. */
		for (size_t at = 0; at < bytes; at += 4096)
			((volatile char *)map)[at];
		return 0;
	}
	return -ENOMEM;
}

int fabric_host_let_notify(struct fabric_host *h, void *map, size_t bytes,
			   void (*notice)(void *arg, uint32_t entry), void *arg)
{
	(void)h;
	assert_true(map && bytes);
	assert_non_null(notice);
	assert_non_null(arg);
	return 0;
}

void fabric_host_unregister(struct fabric_host *h, struct fabric_host_key *key)
{
	(void)h;
	if (!key->mr)
		return;
	for (size_t i = 0; i < 4096; i++) {
		if (memory[i].rkey != key->rkey)
			continue;
		for (uintptr_t at = memory[i].from; busy && at < memory[i].to; at += 4096)
			*(volatile char *)at;
		memory[i].rkey = 0;
	}
	registered--;
	memset(key, 0, sizeof(*key));
}

void fabric_host_set_directory(struct fabric_host *h, const struct fabric_host_key *key,
			       uint64_t length, uint64_t agent_instance)
{
	(void)h;
	assert_non_null(key->mr);
	assert_true(length && agent_instance);
}

int fabric_host_fd(const struct fabric_host *h)
{
	(void)h;
	return -1;
}

void fabric_host_dispatch(struct fabric_host *h)
{
	(void)h;
}

size_t fabric_host_queues(const struct fabric_host *h, struct fabric_host_queue *out, size_t max)
{
	(void)h;
	if (max)
		out[0] = (struct fabric_host_queue){
			.qp_num = 17, .peer = "10.0.0.2:1", .state = "RTS"};
	return 1;
}

void fabric_host_stats(const struct fabric_host *h, struct fabric_host_stats *out)
{
	*out = (struct fabric_host_stats){.device = "fake0",
					  .address = "10.0.0.1",
					  .port = 7475,
					  .lost = h->lost,
					  .disconnected = h->disconnected};
}

static bool readable(uint64_t addr, uint64_t length, uint32_t rkey)
{
	for (size_t i = 0; i < 4096; i++)
		if (memory[i].rkey == rkey)
			return memory[i].from <= addr && addr + length <= memory[i].to;
	return false;
}

/* ---- a collector: knows what it saw within two leases ---- */

#define LEASE (100 * MS)

struct seen {
	uint64_t addr, length, until;
	uint32_t rkey;
};
static struct seen seen[65536];
static size_t seen_count;

static void look(struct agent *a)
{
	uint64_t now = agent_now(a);
	size_t kept = 0;

	for (uint32_t i = 0; i < a->slot_count; i++) {
		struct region_entry e = entry_of(a, i);

		if (e.state == SL_STATE_FREE || e.state == SL_STATE_RETIRED || !e.addr)
			continue;
		assert_true(seen_count < 65536);
		/* One lease to notice, and one to finish. */
		seen[seen_count++] = (struct seen){e.addr, e.length, now + 2 * LEASE - 1, e.rkey};
	}
	for (size_t i = 0; i < seen_count; i++) {
		if (seen[i].until < now)
			continue;
		if (!readable(seen[i].addr, seen[i].length, seen[i].rkey))
			fail_msg("rkey %u was seen and is gone", seen[i].rkey);
		seen[kept++] = seen[i];
	}
	seen_count = kept;
}

/* The first slot is the directory's own. */
static struct region_entry region_of(struct agent *a, uint32_t i)
{
	return entry_of(a, AGENT_DIRECTORY_SLOT + 1 + i);
}

static struct agent_opts opts(void)
{
	memset(memory, 0, sizeof(memory));
	registered = most_registered = 0;
	seen_count = 0;
	fail_after = UINT32_MAX;
	return (struct agent_opts){.max_regions = 128,
				   .grace_ns = 300 * MS,
				   .lease_ns = LEASE,
				   .rdma = true,
				   .rdma_settle_ns = 500 * MS};
}

static void up(struct agent *a, struct agent_opts o)
{
	char error[256];

	agent_up(a, o);
	if (agent_rdma_init(a, error, sizeof(error)) || agent_rdma_start(a, error, sizeof(error)))
		fail_msg("%s", error);
}

static void neighbours_share_a_registration_once_they_settled(void **state)
{
	struct fake f[20];
	struct agent a;
	uint32_t rkey;

	(void)state;
	up(&a, opts());
	for (uint64_t i = 0; i < 16; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		admitted(&a, conn_up(&a), &f[i]);
		if (i)
			assert_int_equal(region_of(&a, (uint32_t)i).addr,
					 region_of(&a, (uint32_t)i - 1).addr + f[0].size);
	}
	assert_int_equal(agent_rdma_mr_count(&a), 16);
	look(&a);
	for (int i = 0; i < 12; i++) {
		pass(&a, 50 * MS);
		look(&a);
	}
	rkey = region_of(&a, 0).rkey;
	for (uint32_t i = 0; i < 16; i++)
		assert_int_equal(region_of(&a, i).rkey, rkey);
	for (int i = 0; i < 5; i++) {
		pass(&a, 50 * MS);
		look(&a);
	}
	assert_int_equal(agent_rdma_mr_count(&a), 1); /* those before are gone */
	assert_true(a.n.promoted_regions <= 16 * 5);

	/* The seventeenth finds the group full. */
	f[16] = fake_make(50, 1, SEALED);
	admitted(&a, conn_up(&a), &f[16]);
	pass(&a, 501 * MS);
	assert_int_equal(region_of(&a, 0).rkey, rkey);
	assert_int_not_equal(region_of(&a, 16).rkey, rkey);
	agent_fini(&a);
	assert_int_equal(registered, 0);
	for (int i = 0; i < 17; i++)
		fake_free(&f[i]);
}

static void a_group_breaks_up_when_a_member_goes(void **state)
{
	struct fake f[8];
	struct agent_conn *c[8];
	struct agent a;
	uint32_t rkey, left, right;

	(void)state;
	up(&a, opts());
	for (uint64_t i = 0; i < 8; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		c[i] = conn_up(&a);
		admitted(&a, c[i], &f[i]);
	}
	pass(&a, 501 * MS);
	pass(&a, 201 * MS);
	rkey = region_of(&a, 3).rkey;
	assert_int_equal(agent_rdma_mr_count(&a), 1);
	agent_conn_close(&a, c[3]);
	look(&a);
	assert_int_equal(region_of(&a, 4).rkey, rkey); /* last words are read with it */
	pass(&a, 301 * MS);
	assert_int_equal(region_of(&a, 3).state, SL_STATE_RETIRED);
	look(&a);
	left = region_of(&a, 0).rkey;
	right = region_of(&a, 4).rkey;
	assert_int_not_equal(left, rkey);
	assert_int_not_equal(right, rkey);
	assert_int_not_equal(left, right);
	for (uint32_t i = 0; i < 8; i++)
		if (i != 3)
			assert_int_equal(region_of(&a, i).rkey, i < 3 ? left : right);
	/* READs may be in progress */
	assert_true(readable(region_of(&a, 3).addr, f[3].size, rkey));
	pass(&a, 150 * MS);
	look(&a);
	assert_int_equal(agent_rdma_mr_count(&a), 3);
	pass(&a, 60 * MS);
	look(&a);
	assert_int_equal(agent_rdma_mr_count(&a), 2);
	assert_int_equal(a.n.breakups, 1);
	assert_int_equal(region_of(&a, 3).state, SL_STATE_FREE);
	agent_fini(&a);
	for (int i = 0; i < 8; i++)
		fake_free(&f[i]);
}

/* The old key covers the memory of the member that leaves, so it must not stay in use. */
static void a_group_that_cannot_be_registered_again_has_no_key(void **state)
{
	struct fake f[4];
	struct agent_conn *c[4];
	struct region_entry before;
	struct agent a;

	(void)state;
	up(&a, opts());
	for (uint64_t i = 0; i < 4; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		c[i] = conn_up(&a);
		admitted(&a, c[i], &f[i]);
	}
	pass(&a, 501 * MS);
	pass(&a, 201 * MS);
	assert_int_equal(agent_rdma_mr_count(&a), 1);
	before = region_of(&a, 1);
	agent_conn_close(&a, c[1]);
	fail_after = 0;
	pass(&a, 301 * MS);
	assert_int_equal(region_of(&a, 1).state, SL_STATE_RETIRED);
	assert_int_equal(a.n.registration_failures, 2);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1) {
			assert_int_equal(region_of(&a, i).state, SL_STATE_LIVE);
			assert_int_equal(region_of(&a, i).addr, 0);
			assert_int_equal(region_of(&a, i).rkey, 0);
		}
	/* READs may be in progress */
	assert_true(readable(before.addr, before.length, before.rkey));
	pass(&a, 201 * MS);
	assert_int_equal(region_of(&a, 1).state, SL_STATE_FREE);
	assert_int_equal(agent_rdma_mr_count(&a), 0);
	assert_false(readable(before.addr, before.length, before.rkey));
	/* Registration is tried again until the regions have keys. */
	pass(&a, 1001 * MS);
	assert_int_equal(region_of(&a, 0).addr, 0);
	fail_after = UINT32_MAX;
	pass(&a, 1001 * MS);
	for (uint32_t i = 0; i < 4; i++)
		if (i != 1)
			assert_true(
				readable(region_of(&a, i).addr, f[i].size, region_of(&a, i).rkey));
	agent_fini(&a);
	assert_int_equal(registered, 0);
	for (int i = 0; i < 4; i++)
		fake_free(&f[i]);
}

static void churn(uint64_t lifetime_ns)
{
	struct agent_opts o = opts();
	struct fake f[96];
	struct agent_conn *c[96] = {0};
	struct agent a;
	uint64_t instance = 1, rounds = 3000;

	srand(7);
	o.rdma_key_lifetime_ns = lifetime_ns;
	up(&a, o);
	for (uint64_t n = 0; n < rounds; n++) {
		int i = rand() % 96;

		if (!c[i]) {
			f[i] = fake_make(instance++, 1 + (uint32_t)rand() % 3, SEALED);
			c[i] = conn_up(&a);
			if (publish(&a, c[i], &f[i]).type != SL_MSG_ADMITTED) {
				agent_conn_close(&a, c[i]);
				fake_free(&f[i]);
				c[i] = NULL;
			}
		} else if (rand() % 3 == 0) {
			agent_conn_close(&a, c[i]);
			fake_free(&f[i]);
			c[i] = NULL;
		}
		/* The device sometimes refuses. */
		fail_after = rand() % 10 ? UINT32_MAX : (uint32_t)rand() % 3;
		pass(&a, (uint64_t)(rand() % 40) * MS);
		look(&a);
		fail_after = UINT32_MAX;
	}
	assert_true(a.n.promotions > 100);
	assert_true(a.n.breakups > 100);
	assert_true(a.n.registration_failures > 5);
	for (int i = 0; i < 96; i++)
		if (c[i]) {
			agent_conn_close(&a, c[i]);
			fake_free(&f[i]);
		}
	for (int i = 0; i < 4; i++)
		pass(&a, 301 * MS);
	assert_int_equal(a.region_count, 0);
	assert_int_equal(agent_rdma_mr_count(&a), 0);
	/* Only the directory is left, possibly also with its old key. */
	assert_in_range(registered, 1, lifetime_ns ? 2 : 1);
	assert_int_equal(!!a.n.keys_renewed, !!lifetime_ns);
	agent_fini(&a);
	assert_int_equal(registered, 0);
}

static void no_key_goes_while_a_reader_may_use_it(void **state)
{
	(void)state;
	churn(0);
	churn(700 * MS);
}

/* A collector may read until the agent ends, so the answering thread still needs the memory. */
static void no_region_is_unmapped_while_registered(void **state)
{
	struct fake f[2];
	struct agent a;

	(void)state;
	up(&a, opts());
	for (uint64_t i = 0; i < 2; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		admitted(&a, conn_up(&a), &f[i]);
	}
	pass(&a, 501 * MS);
	pass(&a, 201 * MS);
	assert_int_equal(agent_rdma_mr_count(&a), 1);
	busy = true;
	agent_fini(&a);
	busy = false;
	assert_int_equal(registered, 0);
	for (int i = 0; i < 2; i++)
		fake_free(&f[i]);
}

/* By then every key, including the directory's, has been replaced; readers notice nothing. */
static void assert_renewed(struct agent *a, uint32_t regions, uint64_t within)
{
	uint32_t before[32];

	for (uint32_t i = 0; i <= regions; i++)
		before[i] = entry_of(a, i).rkey;
	for (uint64_t t = 0; t < within; t += 5 * MS) {
		pass(a, 5 * MS);
		look(a);
	}
	for (uint32_t i = 0; i <= regions; i++)
		assert_int_not_equal(entry_of(a, i).rkey, before[i]);
	assert_int_equal(entry_of(a, AGENT_DIRECTORY_SLOT).rkey, a->dir.key.rkey);
}

static void keys_change_with_age_and_when_a_collector_leaves(void **state)
{
	struct agent_opts o = opts();
	struct fake f[20];
	struct agent a;
	uint32_t key;

	(void)state;
	o.rdma_key_lifetime_ns = 2000 * MS;
	up(&a, o);
	assert_int_equal(entry_of(&a, AGENT_DIRECTORY_SLOT).kind, SL_REGION_DIRECTORY);
	for (uint64_t i = 0; i < 20; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		admitted(&a, conn_up(&a), &f[i]);
	}
	pass(&a, 501 * MS);
	for (int age = 0; age < 3; age++)
		assert_renewed(&a, 20, 2300 * MS);
	/* A region that cannot be registered keeps its key, and is tried again. */
	key = entry_of(&a, 0).rkey;
	fail_after = 0;
	pass(&a, 2100 * MS);
	for (int i = 0; i < 10; i++)
		pass(&a, 5 * MS);
	assert_int_equal(entry_of(&a, 0).rkey, key);
	assert_true(a.n.registration_failures > 0);
	fail_after = UINT32_MAX;
	assert_renewed(&a, 20, 2300 * MS);
	agent_fini(&a);

	o = opts();
	o.rdma_key_lifetime_ns = 3600000 * MS;
	up(&a, o);
	admitted(&a, conn_up(&a), &f[0]);
	pass(&a, 70000 * MS);
	key = region_of(&a, 0).rkey;
	device.disconnected++;
	agent_rdma_event(&a);
	pass(&a, 59000 * MS);
	assert_int_equal(region_of(&a, 0).rkey, key);
	assert_renewed(&a, 1, 1500 * MS);
	device.disconnected = 0;
	agent_fini(&a);
	assert_int_equal(registered, 0);
	for (int i = 0; i < 20; i++)
		fake_free(&f[i]);
}

static void regions_outlive_their_device(void **state)
{
	struct fake f = fake_make(1, 1, SEALED), g = fake_make(2, 1, SEALED);
	struct agent a;

	(void)state;
	up(&a, opts());
	admitted(&a, conn_up(&a), &f);
	assert_true(readable(region_of(&a, 0).addr, f.size, region_of(&a, 0).rkey));
	device.lost = true;
	plugged = false;
	agent_rdma_event(&a);
	assert_int_equal(registered, 0);
	assert_int_equal(region_of(&a, 0).addr, 0);
	assert_int_equal(region_of(&a, 0).state, SL_STATE_LIVE);
	admitted(&a, conn_up(&a), &g); /* local consumers have it at once */
	pass(&a, 1001 * MS);
	assert_int_equal(region_of(&a, 0).addr, 0);
	plugged = true;
	pass(&a, 1001 * MS);
	assert_true(readable(region_of(&a, 0).addr, f.size, region_of(&a, 0).rkey));
	assert_true(readable(region_of(&a, 1).addr, g.size, region_of(&a, 1).rkey));
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

static void a_region_that_cannot_be_registered_is_refused(void **state)
{
	struct fake f = fake_make(1, 1, SEALED);
	struct agent a;

	(void)state;
	up(&a, opts());
	fail_after = 0;
	refused(&a, conn_up(&a), &f, ENOMEM, REFUSED_SYSTEM);
	assert_int_equal(a.region_count, 0);
	fail_after = UINT32_MAX;
	admitted(&a, conn_up(&a), &f);
	agent_fini(&a);
	fake_free(&f);
}

static uint64_t blocks(const struct fake *f)
{
	struct stat st;

	assert_int_equal(fstat(f->fd, &st), 0);
	return (uint64_t)st.st_blocks;
}

static void hole(const struct fake *f)
{
	assert_int_equal(fallocate(f->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096),
			 0);
}

/* Registering allocates the pages, which would be charged to the agent. */
static void holes_are_not_registered(void **state)
{
	struct fake f = fake_make(1, 1, SEALED), g = fake_make(2, 1, SEALED);
	struct agent_opts o = opts();
	struct agent a;
	uint64_t held;

	(void)state;
	o.rdma_settle_ns = 10 * MS;
	up(&a, o);
	hole(&f);
	held = blocks(&f);
	refused(&a, conn_up(&a), &f, ENODATA, REFUSED_SPARSE);
	assert_int_equal(blocks(&f), held);
	assert_int_equal(posix_fallocate(f.fd, 0, (off_t)f.size), 0);
	admitted(&a, conn_up(&a), &f);
	admitted(&a, conn_up(&a), &g);
	hole(&f); /* nor when it would be registered again, with its neighbour */
	pass(&a, 11 * MS);
	assert_int_equal(blocks(&f), held);
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

/* Otherwise the publisher would never fill them, and no collector could ever read the region. */
static void holes_are_refused_while_the_device_is_lost(void **state)
{
	struct fake f = fake_make(1, 1, SEALED), g = fake_make(2, 1, SEALED);
	struct agent a;
	uint64_t held;

	(void)state;
	up(&a, opts());
	device.lost = true;
	plugged = false;
	agent_rdma_event(&a);
	hole(&f);
	refused(&a, conn_up(&a), &f, ENODATA, REFUSED_SPARSE);
	assert_int_equal(posix_fallocate(f.fd, 0, (off_t)f.size), 0);
	admitted(&a, conn_up(&a), &f);
	admitted(&a, conn_up(&a), &g);
	hole(&f); /* the publisher may fill it later */
	held = blocks(&f);
	plugged = true;
	pass(&a, 1001 * MS);
	assert_int_equal(blocks(&f), held);
	assert_int_equal(region_of(&a, 0).addr, 0);
	assert_true(readable(region_of(&a, 1).addr, g.size, region_of(&a, 1).rkey));
	assert_int_equal(posix_fallocate(f.fd, 0, (off_t)f.size), 0);
	pass(&a, 1001 * MS);
	assert_true(readable(region_of(&a, 0).addr, f.size, region_of(&a, 0).rkey));
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

/* The old key also covers the neighbours, so a region with holes must lose it. */
static void holes_are_not_registered_by_a_renewal(void **state)
{
	struct agent_opts o = opts();
	struct agent_conn *c[4];
	struct region_entry old;
	struct fake f[4];
	struct agent a;
	uint64_t held;

	(void)state;
	o.rdma_key_lifetime_ns = 2000 * MS;
	up(&a, o);
	for (uint64_t i = 0; i < 4; i++) {
		f[i] = fake_make(1 + i, 1, SEALED);
		c[i] = conn_up(&a);
		admitted(&a, c[i], &f[i]);
	}
	pass(&a, 501 * MS);
	pass(&a, 201 * MS);
	assert_int_equal(agent_rdma_mr_count(&a), 1);
	old = region_of(&a, 1);
	hole(&f[1]);
	held = blocks(&f[1]);
	for (int i = 0; i < 50; i++) {
		pass(&a, 50 * MS);
		look(&a);
	}
	assert_int_equal(blocks(&f[1]), held);
	assert_int_equal(region_of(&a, 1).addr, 0);
	assert_int_not_equal(region_of(&a, 0).rkey, old.rkey);
	assert_int_not_equal(region_of(&a, 2).rkey, old.rkey);
	assert_false(readable(old.addr, old.length, old.rkey));

	/* Nor when a neighbour ends. */
	hole(&f[2]);
	held = blocks(&f[2]);
	agent_conn_close(&a, c[3]);
	pass(&a, 301 * MS);
	assert_int_equal(blocks(&f[2]), held);
	assert_int_equal(region_of(&a, 2).addr, 0);

	for (int i = 1; i < 3; i++)
		assert_int_equal(posix_fallocate(f[i].fd, 0, (off_t)f[i].size), 0);
	pass(&a, 1001 * MS);
	for (uint32_t i = 0; i < 3; i++)
		assert_true(readable(region_of(&a, i).addr, f[i].size, region_of(&a, i).rkey));
	agent_fini(&a);
	assert_int_equal(registered, 0);
	for (int i = 0; i < 4; i++)
		fake_free(&f[i]);
}

static void a_failed_renewal_is_not_counted_as_one(void **state)
{
	struct fake f = fake_make(1, 1, SEALED);
	struct agent_opts o = opts();
	struct agent a;

	(void)state;
	o.rdma_key_lifetime_ns = 2000 * MS;
	up(&a, o);
	admitted(&a, conn_up(&a), &f);
	fail_after = 0;
	pass(&a, 2001 * MS);
	for (int i = 0; i < 4; i++)
		pass(&a, 6 * MS);
	assert_int_equal(a.n.registration_failures, 2); /* the region and the directory */
	assert_int_equal(a.n.keys_renewed, 0);
	fail_after = UINT32_MAX;
	pass(&a, 2001 * MS);
	for (int i = 0; i < 4; i++)
		pass(&a, 6 * MS);
	assert_int_equal(a.n.keys_renewed, 2);
	agent_fini(&a);
	fake_free(&f);
}

/* libsidelight leaves holes until an agent asks for none. */
static void own_metrics_are_registered(void **state)
{
	char error[256];
	struct agent a;

	(void)state;
	up(&a, opts());
	if (agent_self_init(&a, error, sizeof(error)))
		fail_msg("%s", error);
	assert_int_equal(agent_rdma_mr_count(&a), 1);
	agent_fini(&a);
}

/*
 * Sealed for a local reader before the agent restarted; before Linux 6.2 it cannot be registered.
 */
static void memory_that_is_sealed_may_stay_local(void **state)
{
	struct fake f = fake_make(1, 1, SEALED | 0x0010 /* F_SEAL_FUTURE_WRITE */);
	struct agent a;

	(void)state;
	up(&a, opts());
	fail_after = 0;
	admitted(&a, conn_up(&a), &f);
	assert_int_equal(region_of(&a, 0).addr, 0);
	assert_int_equal(a.n.registration_failures, 1);
	fail_after = UINT32_MAX;
	agent_fini(&a);
	fake_free(&f);
}

static void no_such_device_is_one_clear_line(void **state)
{
	char error[256] = "";
	struct agent a;

	(void)state;
	plugged = false;
	agent_up(&a, opts());
	assert_int_equal(agent_rdma_init(&a, error, sizeof(error)), 0);
	assert_int_equal(agent_rdma_start(&a, error, sizeof(error)), -ENODEV);
	assert_string_equal(error, "no such device");
	plugged = true;
	agent_fini(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neighbours_share_a_registration_once_they_settled),
		cmocka_unit_test(a_group_breaks_up_when_a_member_goes),
		cmocka_unit_test(a_group_that_cannot_be_registered_again_has_no_key),
		cmocka_unit_test(no_key_goes_while_a_reader_may_use_it),
		cmocka_unit_test(no_region_is_unmapped_while_registered),
		cmocka_unit_test(keys_change_with_age_and_when_a_collector_leaves),
		cmocka_unit_test(regions_outlive_their_device),
		cmocka_unit_test(a_region_that_cannot_be_registered_is_refused),
		cmocka_unit_test(holes_are_not_registered),
		cmocka_unit_test(holes_are_refused_while_the_device_is_lost),
		cmocka_unit_test(holes_are_not_registered_by_a_renewal),
		cmocka_unit_test(a_failed_renewal_is_not_counted_as_one),
		cmocka_unit_test(own_metrics_are_registered),
		cmocka_unit_test(memory_that_is_sealed_may_stay_local),
		cmocka_unit_test(no_such_device_is_one_clear_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
