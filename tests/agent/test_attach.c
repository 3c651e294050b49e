// SPDX-License-Identifier: Apache-2.0
/*
 * test_attach.c - what the agent accepts and refuses, and what readers see of it, without a
 * process or a socket.
 */
#include "fixture.h"

static void a_region_is_admitted_and_named(void **state)
{
	struct fake f = fake_make(11, 1, SEALED);
	struct agent a;
	struct region_entry e;
	uint64_t id;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	id = admitted(&a, conn_up(&a), &f);
	e = entry_of(&a, 0);
	assert_int_equal(e.id, id);
	assert_int_equal(e.state, SL_STATE_LIVE);
	assert_int_equal(e.instance, 11);
	assert_int_equal(e.length, f.size);
	assert_int_equal(e.kind, SL_REGION_METRICS);
	assert_int_equal(e.addr, 0);
	assert_int_equal(dir_hot(&a).entries_used, 1);
	assert_int_equal(dir_hot(&a).live, 1);
	assert_int_equal(a.memory, f.size);
	agent_fini(&a);
	fake_free(&f);
}

static void the_directory_is_a_region(void **state)
{
	struct sl_region_header copy;
	struct region_info info;
	struct agent a;
	uint64_t generation;
	struct fake f = fake_make(12, 1, SEALED);

	(void)state;
	agent_up(&a, (struct agent_opts){.lease_ns = 7 * MS});
	memcpy(&copy, a.dir.map, sizeof(copy));
	assert_int_equal(region_info_parse(&copy, a.dir.size, &info), REGION_FAULT_NONE);
	assert_int_equal(info.kind, SL_REGION_DIRECTORY);
	assert_string_equal(info.labels[0].key, "host");
	assert_string_equal(info.labels[0].value, "testhost");
	assert_string_equal(info.labels[1].key, "version");
	assert_int_equal(dir_hot(&a).lease_ns, 7 * MS);
	assert_int_equal(dir_hot(&a).state, SL_STATE_LIVE);
	assert_int_equal(fcntl(a.dir.fd, F_GET_SEALS) & SEALED, SEALED);
	generation = dir_hot(&a).generation;
	admitted(&a, conn_up(&a), &f);
	assert_true(dir_hot(&a).generation > generation);
	agent_fini(&a);
	fake_free(&f);
}

static void the_agents_memory_is_read_only_for_others(void **state)
{
	struct fake f = fake_make(13, 1, SEALED);
	struct agent a;
	struct agent_conn *c;
	struct heard h;
	struct stat st;
	uint64_t id;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	id = admitted(&a, conn_up(&a), &f);
	c = conn_up(&a);
	say(&a, c, SL_MSG_SUBSCRIBE, "", 0, -1);
	h = hear(c);
	assert_int_equal(h.type, SL_MSG_WELCOME);
	assert_int_equal(h.welcome.agent_instance, a.dir.instance);
	assert_int_equal(h.welcome.size, a.dir.size);
	assert_int_equal(fcntl(h.fd, F_GETFL) & O_ACCMODE, O_RDONLY);
	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, h.fd, 0) == MAP_FAILED);
	assert_int_equal(fstat(h.fd, &st), 0);
	assert_int_equal(st.st_mode & 0222, 0); /* or /proc/self/fd would allow writing again */
	close(h.fd);
	say(&a, c, SL_MSG_OPEN, &(struct sl_msg_id){id}, 8, -1);
	h = hear(c);
	assert_int_equal(h.type, SL_MSG_REGION);
	assert_int_equal(h.region.id, id);
	assert_int_equal(h.region.instance, 13);
	assert_int_equal(h.region.size, f.size);
	assert_true(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, h.fd, 0) == MAP_FAILED);
	assert_int_equal(fstat(h.fd, &st), 0);
	assert_int_equal(st.st_mode & 0222, 0);
	close(h.fd);
	say(&a, c, SL_MSG_OPEN, &(struct sl_msg_id){id + 1}, 8, -1);
	h = hear(c);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.refused.error, ENOENT);
	agent_fini(&a);
	fake_free(&f);
}

static void memory_that_could_shrink_is_refused(void **state)
{
	static const struct {
		int seals, error;
		enum agent_refusal cause;
	} all[] = {
		{0, EPERM, REFUSED_SEALS},
		{F_SEAL_SHRINK, EPERM, REFUSED_SEALS},
		{F_SEAL_GROW, EPERM, REFUSED_SEALS},
		{F_SEAL_SHRINK | F_SEAL_SEAL, EPERM, REFUSED_SEALS},
	};
	struct agent a;
	struct fake f;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		f = fake_make(20 + i, 1, all[i].seals);
		refused(&a, conn_up(&a), &f, all[i].error, all[i].cause);
		fake_free(&f);
	}
	assert_int_equal(a.region_count, 0);
	assert_int_equal(a.memory, 0);
	agent_fini(&a);
}

static void what_is_no_memfd_is_refused(void **state)
{
	struct agent a;
	struct fake f = fake_make(30, 1, SEALED);
	int pipes[2], ro;
	struct fake bad = f;
	char path[32];

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	bad.fd = open("/dev/null", O_RDWR);
	refused(&a, conn_up(&a), &bad, EINVAL, REFUSED_DESCRIPTOR);
	close(bad.fd);
	assert_int_equal(pipe(pipes), 0);
	bad.fd = pipes[0];
	refused(&a, conn_up(&a), &bad, EINVAL, REFUSED_DESCRIPTOR);
	close(pipes[0]);
	close(pipes[1]);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f.fd);
	ro = bad.fd = open(path, O_RDONLY);
	refused(&a, conn_up(&a), &bad, EACCES, REFUSED_DESCRIPTOR);
	close(ro);
	agent_fini(&a);
	fake_free(&f);
}

static void sizes_that_lie_are_refused(void **state)
{
	struct fake f = fake_make(40, 4, SEALED), lie;
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){.max_region_size = 20480});
	lie = f;
	lie.size += 4096; /* the message states more than the memory has */
	refused(&a, conn_up(&a), &lie, EBADMSG, REFUSED_SIZE);
	lie.size = 0;
	refused(&a, conn_up(&a), &lie, EBADMSG, REFUSED_SIZE);
	refused(&a, conn_up(&a), &f, E2BIG, REFUSED_SIZE); /* --max-region-size */
	fake_free(&f);
	f = fake_make(41, 1, SEALED);
	f.map->size = 1ull << 40;
	fake_check(&f);
	refused(&a, conn_up(&a), &f, EBADMSG, REFUSED_HEADER);
	f.map->size = f.size - 4096; /* smaller than the memory, so that a part would be hidden */
	f.map->section[2].length = 0;
	f.map->section[2].offset = 8192 + 4096;
	fake_check(&f);
	refused(&a, conn_up(&a), &f, EBADMSG, REFUSED_SIZE);
	fake_free(&f);
	agent_fini(&a);
}

static void headers_that_lie_are_refused(void **state)
{
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	for (int i = 0; i < 10; i++) {
		struct fake f = fake_make(50 + (uint64_t)i, 1, SEALED);
		struct sl_region_header *h = f.map;
		bool check = true;

		switch (i) {
		case 0:
			h->magic[0] = 'X';
			break;
		case 1:
			h->version = 2;
			break;
		case 2:
			h->kind = SL_REGION_DIRECTORY;
			break;
		case 3:
			h->section[1].offset = f.size;
			break;
		case 4:
			h->section[1].offset = ~0ull - 63;
			break;
		case 5:
			h->section[2].offset = h->section[1].offset; /* overlap */
			break;
		case 6:
			h->section_count = 4000;
			break;
		case 7:
			h->label_bytes = 1u << 31;
			break;
		case 8:
			h->pid++;
			check = false;
			break;
		case 9:
			for (size_t b = 0; b < sizeof(*h); b++)
				((uint8_t *)h)[b] = (uint8_t)(b * 131 + 7);
			check = false;
			break;
		}
		if (check)
			fake_check(&f);
		refused(&a, conn_up(&a), &f, EBADMSG, REFUSED_HEADER);
		fake_free(&f);
	}
	struct fake f = fake_make(60, 1, SEALED);
	f.instance = 61; /* the message names another */
	refused(&a, conn_up(&a), &f, EBADMSG, REFUSED_INSTANCE);
	fake_free(&f);
	agent_fini(&a);
}

static void nonsense_ends_the_connection(void **state)
{
	static const struct {
		const char *what;
		uint32_t magic, type, length, bytes;
		int fds;
	} wrong[] = {
		{"magic", SL_MSG_MAGIC + 1, SL_MSG_SUBSCRIBE, 0, 16, 0},
		{"cut short", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 0, 3, 0},
		{"too long", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, SL_MSG_MAX + 1 - 16, SL_MSG_MAX + 1,
		 0},
		{"length beyond the packet", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 1, 16, 0},
		{"type", SL_MSG_MAGIC, 999, 0, 16, 0},
		{"an answer", SL_MSG_MAGIC, SL_MSG_ADMITTED, 16, 32, 0},
		{"before SUBSCRIBE", SL_MSG_MAGIC, SL_MSG_OPEN, 8, 24, 0},
		{"before PUBLISH", SL_MSG_MAGIC, SL_MSG_CLOSE, 8, 24, 0},
		{"a descriptor", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 0, 16, 1},
		{"two descriptors", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 0, 16, 2},
		{"no descriptor", SL_MSG_MAGIC, SL_MSG_PUBLISH, 16, 32, 0},
		{"short", SL_MSG_MAGIC, SL_MSG_PUBLISH, 8, 24, 1},
		{"huge length", SL_MSG_MAGIC, SL_MSG_SUBSCRIBE, 0xffffffff, 16, 0},
		{"no status asks for more", SL_MSG_MAGIC, SL_MSG_STATUS, 4, 20, 0},
	};
	const unsigned int count = sizeof(wrong) / sizeof(*wrong);
	_Alignas(8) char packet[SL_MSG_MAX + 1];
	struct sl_msg *m = (struct sl_msg *)packet;
	struct agent a;
	int fds;

	(void)state;
	_Static_assert(sizeof(*m) == 16, "bytes of a header");
	agent_up(&a, (struct agent_opts){0});
	fds = fds_open();
	for (unsigned int i = 0; i < count; i++) {
		struct agent_conn *c = conn_up(&a);
		struct heard h;

		memset(packet, 0, sizeof(packet));
		*m = (struct sl_msg){wrong[i].magic, (uint16_t)wrong[i].type, 0, wrong[i].length,
				     5};
		agent_conn_packet(&a, c, packet, wrong[i].bytes, wrong[i].fds ? dup(0) : -1,
				  wrong[i].fds > 1);
		h = hear(c);
		if (h.type != SL_MSG_REFUSED || !c->hang_up)
			fail_msg("%s: type %u", wrong[i].what, h.type);
		agent_conn_close(&a, c);
	}
	agent_bury(&a);
	assert_int_equal(a.n.refused[REFUSED_MALFORMED], count);
	assert_int_equal(a.n.dropped[DROP_MALFORMED], count);
	assert_int_equal(a.conn_count, 0);
	assert_int_equal(fds_open(), fds);
	agent_fini(&a);
}

/* MicroView's defects 1 and 9: one pod reached another one's memory. */
static void publishers_cannot_see_each_other(void **state)
{
	struct fake f = fake_make(70, 1, SEALED), g = fake_make(71, 1, SEALED);
	struct agent a;
	struct agent_conn *c, *d;
	struct heard h;
	uint64_t id;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_as(&a, stranger(0));
	id = admitted(&a, c, &f);
	d = conn_as(&a, stranger(1));
	admitted(&a, d, &g);

	say(&a, d, SL_MSG_OPEN, &(struct sl_msg_id){id}, 8, -1); /* on a publisher's connection */
	h = hear(d);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.fd, -1);

	d = conn_as(&a, stranger(1)); /* on one of its own */
	say(&a, d, SL_MSG_SUBSCRIBE, "", 0, -1);
	h = hear(d);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.refused.error, EPERM);
	assert_true(d->hang_up);

	d = conn_as(&a, stranger(1));
	say(&a, d, SL_MSG_STATUS, "", 0, -1);
	h = hear(d);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.refused.error, EPERM);

	d = conn_as(&a, 0); /* root in a container, over the socket that pods get */
	d->publish_only = true;
	say(&a, d, SL_MSG_SUBSCRIBE, "", 0, -1);
	h = hear(d);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.refused.error, EPERM);

	d = conn_as(&a, stranger(1)); /* nor can it close or take over another's */
	say(&a, d, SL_MSG_PUBLISH, &(struct sl_msg_publish){70, f.size}, 16, g.fd);
	h = hear(d);
	assert_int_equal(h.type, SL_MSG_REFUSED);
	assert_int_equal(h.refused.error, EBADMSG); /* this publisher has no such region */
	say(&a, d, SL_MSG_CLOSE, &(struct sl_msg_id){70}, 8, -1);
	if (!d->hang_up)
		assert_int_equal(hear(d).type, 0);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_LIVE);
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

static void a_uid_that_is_named_may_consume(void **state)
{
	uint32_t uid = stranger(1);
	struct agent a;
	struct agent_conn *c;
	struct heard h;

	(void)state;
	agent_up(&a, (struct agent_opts){.consumers = &uid, .consumer_count = 1});
	c = conn_as(&a, stranger(1));
	say(&a, c, SL_MSG_SUBSCRIBE, "", 0, -1);
	h = hear(c);
	assert_int_equal(h.type, SL_MSG_WELCOME);
	close(h.fd);
	c = conn_as(&a, stranger(2));
	say(&a, c, SL_MSG_SUBSCRIBE, "", 0, -1);
	assert_int_equal(hear(c).type, SL_MSG_REFUSED);
	agent_fini(&a);
}

/* Killed between its two stores: the line is wrong until the agent has seen the death. */
static void last_words_verify_after_a_death_in_mid_update(void **state)
{
	struct fake f = fake_make(80, 2, SEALED);
	uint64_t *line = fake_line(&f, 8192 + 4096 + 64);
	struct agent a;
	struct agent_conn *c;
	struct region_hot hot;

	(void)state;
	fake_hot(&f, 3, 2);
	line[2] = 41;
	line[7] = sl_line_check(line);
	line[2]++; /* the second store never came */
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	admitted(&a, c, &f);
	assert_int_not_equal(line[7], sl_line_check(line));
	agent_conn_close(&a, c);
	assert_int_equal(line[7], sl_line_check(line));
	assert_int_equal(line[2], 42);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_DEAD);
	assert_int_equal(region_hot_parse(fake_line(&f, 4096), a.slots[0]->info, &hot),
			 REGION_FAULT_NONE);
	assert_int_equal(hot.state, SL_STATE_DEAD);
	assert_int_equal(a.n.lines_repaired, 1);
	assert_int_equal(a.n.dead, 1);
	agent_fini(&a);
	fake_free(&f);
}

static void tells_close_from_death(void **state)
{
	struct fake f = fake_make(81, 1, SEALED);
	struct agent a;
	struct agent_conn *c;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	admitted(&a, c, &f);
	say(&a, c, SL_MSG_CLOSE, &(struct sl_msg_id){81}, 8, -1);
	agent_conn_close(&a, c);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_CLOSED);
	assert_int_equal(a.n.closed, 1);
	assert_int_equal(a.n.dead, 0);
	agent_fini(&a);
	fake_free(&f);
}

/*
 * MicroView's defect 6: it had ten pages, and never reused one. Here, readers must also notice that
 * a slot was reused.
 */
static void a_slot_is_reused_after_quarantine_as_a_generation(void **state)
{
	struct fake f = fake_make(90, 1, SEALED), g = fake_make(91, 1, SEALED),
		    h = fake_make(92, 1, SEALED);
	struct agent a;
	struct region_entry was, is;
	struct agent_conn *c, *d;

	(void)state;
	agent_up(&a, (struct agent_opts){.grace_ns = 1000 * MS, .lease_ns = 100 * MS});
	c = conn_up(&a);
	admitted(&a, c, &f);
	agent_conn_close(&a, c);
	was = entry_of(&a, 0);
	assert_int_equal(was.state, SL_STATE_DEAD);

	pass(&a, 1000 * MS - 1);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_DEAD); /* exact: not before */
	pass(&a, 1);
	is = entry_of(&a, 0);
	assert_int_equal(is.state, SL_STATE_RETIRED); /* and not after */
	assert_int_equal(is.id, was.id);
	assert_int_equal(is.generation, was.generation + 1);
	assert_int_equal(a.memory, f.size); /* readers may still be reading */

	d = conn_up(&a);
	admitted(&a, d, &g);
	assert_int_equal(entry_of(&a, 1).instance, 91); /* not in the old one's slot yet */
	say(&a, conn_up(&a), SL_MSG_SUBSCRIBE, "", 0, -1);
	pass(&a, 200 * MS - 1);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_RETIRED);
	pass(&a, 1);
	is = entry_of(&a, 0);
	assert_int_equal(is.state, SL_STATE_FREE);
	assert_int_equal(is.id, 0);
	assert_int_equal(is.generation, was.generation + 2);
	assert_int_equal(a.memory, g.size);

	admitted(&a, d, &h);
	is = entry_of(&a, 0);
	assert_int_equal(is.instance, 92);
	assert_int_equal(is.generation, was.generation + 3);
	assert_true(is.id > was.id);
	assert_int_equal(dir_hot(&a).entries_used, 2);
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
	fake_free(&h);
}

static void a_publisher_that_comes_back_is_the_same_region(void **state)
{
	struct fake f = fake_make(100, 1, SEALED), copy;
	struct agent a;
	struct agent_conn *c, *d;
	uint64_t id;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	id = admitted(&a, c, &f);
	assert_int_equal(admitted(&a, c, &f), id); /* asked twice */
	d = conn_up(&a);
	refused(&a, d, &f, EEXIST, REFUSED_INSTANCE); /* the first one lives */
	agent_conn_close(&a, c);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_DEAD);

	copy = fake_make(100, 1, SEALED); /* other memory, same instance */
	refused(&a, d, &copy, EEXIST, REFUSED_INSTANCE);
	fake_free(&copy);

	assert_int_equal(admitted(&a, d, &f), id);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_LIVE);
	pass(&a, 5000 * MS); /* its grace period was cancelled */
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_LIVE);
	assert_int_equal(a.region_count, 1);
	assert_int_equal(a.n.reattached, 1);
	agent_fini(&a);
	fake_free(&f);
}

static void a_full_agent_says_so_and_makes_room_of_last_words(void **state)
{
	struct fake f[4];
	struct agent a;
	struct agent_conn *c;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		f[i] = fake_make(110 + i, 1, SEALED);
	agent_up(&a, (struct agent_opts){.max_regions = 2});
	c = conn_up(&a);
	admitted(&a, c, &f[0]);
	admitted(&a, conn_up(&a), &f[1]);
	refused(&a, conn_up(&a), &f[2], ENOSPC, REFUSED_REGIONS);
	assert_int_equal(a.n.evicted, 0); /* no live region is evicted */
	assert_int_equal(dir_hot(&a).refused, 1);
	agent_conn_close(&a, c);
	refused(&a, conn_up(&a), &f[2], ENOSPC, REFUSED_REGIONS); /* makes room ... */
	assert_int_equal(a.n.evicted, 1);
	pass(&a, 201 * MS);
	admitted(&a, conn_up(&a), &f[2]); /* ... after the quarantine */
	agent_fini(&a);

	agent_up(&a, (struct agent_opts){.max_memory = f[0].size * 2});
	admitted(&a, conn_up(&a), &f[0]);
	admitted(&a, conn_up(&a), &f[1]);
	refused(&a, conn_up(&a), &f[2], ENOSPC, REFUSED_MEMORY);
	assert_int_equal(a.memory, f[0].size * 2);
	agent_fini(&a);
	for (int i = 0; i < 4; i++)
		fake_free(&f[i]);
}

static void one_user_cannot_take_it_all(void **state)
{
	struct fake f[4];
	uid_t user = stranger(0), other = stranger(1);
	struct agent a;

	(void)state;
	for (uint64_t i = 0; i < 4; i++)
		f[i] = fake_make(120 + i, 1, SEALED);
	agent_up(&a, (struct agent_opts){.max_regions = 4});
	admitted(&a, conn_as(&a, user), &f[0]);
	admitted(&a, conn_as(&a, user), &f[1]);
	refused(&a, conn_as(&a, user), &f[2], EDQUOT, REFUSED_QUOTA);
	admitted(&a, conn_as(&a, other), &f[2]);
	admitted(&a, conn_as(&a, 0), &f[3]);
	agent_fini(&a);
	agent_up(&a, (struct agent_opts){.max_regions_per_uid = 1});
	admitted(&a, conn_as(&a, 0), &f[0]);
	refused(&a, conn_as(&a, 0), &f[1], EDQUOT, REFUSED_QUOTA);
	agent_fini(&a);
	for (int i = 0; i < 4; i++)
		fake_free(&f[i]);
}

static void one_connection_cannot_take_it_all(void **state)
{
	struct agent a;
	struct agent_conn *c;
	struct fake f[65];

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	for (uint64_t i = 0; i < 65; i++) {
		f[i] = fake_make(200 + i, 1, SEALED);
		if (i < 64)
			admitted(&a, c, &f[i]);
		else
			refused(&a, c, &f[i], EDQUOT, REFUSED_QUOTA);
	}
	/* A region that is refused for ever does not end the others. */
	for (int i = 0; i < 100; i++) {
		pass(&a, 30000 * MS);
		publish(&a, c, &f[64]);
		publish(&a, c, &f[64]);
		assert_false(c->hang_up);
	}
	for (int i = 0; i < 30; i++) {
		assert_false(c->hang_up);
		publish(&a, c, &f[64]);
	}
	assert_true(c->hang_up); /* refused too often */
	agent_fini(&a);
	for (int i = 0; i < 65; i++)
		fake_free(&f[i]);
}

static void who_says_nothing_is_dropped(void **state)
{
	struct agent a;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	conn_up(&a);
	pass(&a, 9900 * MS);
	assert_int_equal(a.conn_count, 1);
	pass(&a, 101 * MS);
	assert_int_equal(a.conn_count, 0);
	assert_int_equal(a.n.dropped[DROP_SILENT], 1);
	agent_fini(&a);
}

static void who_takes_no_answers_is_dropped(void **state)
{
	struct agent a;
	struct agent_conn *c;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	say(&a, c, SL_MSG_SUBSCRIBE, "", 0, -1);
	assert_non_null(c->out);
	pass(&a, 5001 * MS);
	assert_int_equal(a.conn_count, 0);
	assert_int_equal(a.n.dropped[DROP_SLOW], 1);
	agent_fini(&a);
}

static void the_status_is_json(void **state)
{
	struct fake f = fake_make(130, 1, SEALED);
	struct agent a;
	struct agent_conn *c;
	struct heard h;
	char text[8192];

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	admitted(&a, conn_up(&a), &f);
	c = conn_up(&a);
	say(&a, c, SL_MSG_STATUS, "", 0, -1);
	h = hear(c);
	assert_int_equal(h.type, SL_MSG_STATUS_IS);
	assert_true(h.status.bytes < sizeof(text));
	assert_int_equal(pread(h.fd, text, sizeof(text), 0), h.status.bytes);
	text[h.status.bytes] = 0;
	assert_non_null(strstr(text, "\"service\":\"fake\""));
	assert_non_null(strstr(text, "\"admitted\":1"));
	close(h.fd);
	agent_fini(&a);
	fake_free(&f);
}

/* A publisher can write anything into its region while the agent has it. */
static void a_region_that_turns_hostile_harms_itself_only(void **state)
{
	struct fake f = fake_make(140, 1, SEALED), g = fake_make(141, 1, SEALED);
	struct agent a;
	struct agent_conn *c;

	(void)state;
	agent_up(&a, (struct agent_opts){0});
	c = conn_up(&a);
	admitted(&a, c, &f);
	admitted(&a, conn_up(&a), &g);
	memset(f.map, 0xff, f.size); /* header, hot line and all */
	agent_conn_close(&a, c);
	assert_int_equal(entry_of(&a, 0).state, SL_STATE_DEAD);
	assert_int_equal(entry_of(&a, 0).length, f.size);
	assert_int_equal(entry_of(&a, 1).state, SL_STATE_LIVE);
	pass(&a, 1001 * MS);
	pass(&a, 1500 * MS);
	assert_int_equal(a.region_count, 1);
	agent_fini(&a);
	fake_free(&f);
	fake_free(&g);
}

static void nothing_is_left(void **state)
{
	struct agent a;
	int before = fds_open();

	(void)state;
	agent_up(&a, (struct agent_opts){.max_regions = 300});
	for (uint64_t round = 0; round < 20; round++) {
		for (uint64_t i = 0; i < 100; i++) {
			struct fake f = fake_make(1000 + round * 1000 + i, 1, SEALED);
			struct agent_conn *c = conn_up(&a);

			admitted(&a, c, &f);
			if (i & 1)
				say(&a, c, SL_MSG_CLOSE, &(struct sl_msg_id){f.instance}, 8, -1);
			agent_conn_close(&a, c);
			fake_free(&f);
		}
		pass(&a, 1001 * MS);
		pass(&a, 1500 * MS);
		assert_int_equal(a.region_count, 0);
		assert_int_equal(a.memory, 0);
	}
	assert_int_equal(a.n.freed, 2000);
	assert_int_equal(dir_hot(&a).entries_used, 100);
	for (int i = 0; i < 64; i++)
		assert_true(LIST_EMPTY(&a.tenants[i]));
	agent_fini(&a);
	assert_int_equal(fds_open(), before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_region_is_admitted_and_named),
		cmocka_unit_test(the_directory_is_a_region),
		cmocka_unit_test(the_agents_memory_is_read_only_for_others),
		cmocka_unit_test(memory_that_could_shrink_is_refused),
		cmocka_unit_test(what_is_no_memfd_is_refused),
		cmocka_unit_test(sizes_that_lie_are_refused),
		cmocka_unit_test(headers_that_lie_are_refused),
		cmocka_unit_test(nonsense_ends_the_connection),
		cmocka_unit_test(publishers_cannot_see_each_other),
		cmocka_unit_test(a_uid_that_is_named_may_consume),
		cmocka_unit_test(last_words_verify_after_a_death_in_mid_update),
		cmocka_unit_test(tells_close_from_death),
		cmocka_unit_test(a_slot_is_reused_after_quarantine_as_a_generation),
		cmocka_unit_test(a_publisher_that_comes_back_is_the_same_region),
		cmocka_unit_test(a_full_agent_says_so_and_makes_room_of_last_words),
		cmocka_unit_test(one_user_cannot_take_it_all),
		cmocka_unit_test(one_connection_cannot_take_it_all),
		cmocka_unit_test(who_says_nothing_is_dropped),
		cmocka_unit_test(who_takes_no_answers_is_dropped),
		cmocka_unit_test(the_status_is_json),
		cmocka_unit_test(a_region_that_turns_hostile_harms_itself_only),
		cmocka_unit_test(nothing_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
