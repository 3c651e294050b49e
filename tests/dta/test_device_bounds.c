// SPDX-License-Identifier: Apache-2.0
/* test_device_bounds.c - which exporters are evicted, and how much memory templates may use. */
#include <stdio.h>

#include "dta/device/exporter.h"
#include "template_drive.h"

static void forge(struct drive *x, uint32_t i)
{
	static char text[32];

	snprintf(text, sizeof(text), "10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
	x->sender = text;
}

static void a_flood_displaces_no_live_exporter(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built with, data;
	size_t taken = 0;

	(void)state;
	ipfix(&with, 0, 1);
	usual_template(&with, 256);
	ipfix(&data, 0, 1);
	usual_data(&data, 256, 1);
	give(x, &with);
	x->now_ns += DTA_EXPORTER_PROVEN_NS; /* it goes on */
	assert_int_equal(give(x, &data), 1);
	for (uint32_t i = 0; i < 100000; i++) {
		forge(x, i);
		give(x, &with);
		x->now_ns += 1000000;
		if (i % 1000)
			continue;
		x->sender = "192.0.2.100";
		taken += give(x, &data);
	}
	assert_int_equal(taken, 100);
	assert_int_equal(x->d->stats.exporters, DTA_EXPORTERS);
	assert_int_equal(x->d->stats.templates, DTA_EXPORTERS);
	/* A new exporter is admitted among them, and is kept as long as it sends. */
	forge(x, 1 << 20);
	give(x, &with);
	for (uint32_t i = 0; i < 20000; i++) {
		forge(x, i);
		give(x, &with);
		x->now_ns += 1000000;
		if (i % 1000)
			continue;
		forge(x, 1 << 20);
		assert_int_equal(give(x, &data), 1);
	}
	run_end(x);
}

static void an_address_has_a_share(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built with, data;

	(void)state;
	ipfix(&with, 0, 1);
	usual_template(&with, 256);
	ipfix(&data, 0, 1);
	usual_data(&data, 256, 1);
	give(x, &with);
	x->now_ns += DTA_EXPORTER_PROVEN_NS;
	give(x, &data);
	for (uint16_t port = 3000; port < 6000; port++) {
		x->port = port;
		give(x, &with);
	}
	assert_int_equal(x->d->stats.exporters, DTA_EXPORTERS_SHARE);
	x->port = 2000;
	assert_int_equal(give(x, &data), 1);
	/* All of them are active: another one has no place until they have been silent for long. */
	x->now_ns += DTA_EXPORTER_PROVEN_NS;
	for (uint16_t port = 6000 - DTA_EXPORTERS_SHARE + 1; port < 6000; port++) {
		x->port = port;
		assert_int_equal(give(x, &data), 1);
	}
	x->port = 7000;
	give(x, &with);
	assert_int_equal(refused(x, DTA_DEVICE_NO_ROOM), 1);
	assert_int_equal(give(x, &data), 0);
	x->now_ns += DTA_EXPORTER_IDLE_NS + SECOND;
	give(x, &with);
	assert_int_equal(give(x, &data), 1);
	assert_int_equal(x->d->stats.exporters, DTA_EXPORTERS_SHARE);
	run_end(x);
}

static void templates_have_a_bound(void **state)
{
	struct drive *x = run_new("ipfix");
	struct built m;

	(void)state;
	for (uint32_t id = 256; id < 20000; id++) {
		ipfix(&m, 0, 1);
		begin_set(&m, 2);
		PUT16(&m, id, 200);
		for (int i = 0; i < 200; i++)
			PUT16(&m, 1, i ? 8 : 65535); /* all fields are kept if a length varies */
		end_set(&m);
		give(x, &m);
	}
	assert_in_range(x->d->stats.templates, 50, 200);
	assert_int_equal(refused(x, DTA_DEVICE_NO_ROOM), 20000 - 256 - x->d->stats.templates);
	/* More fields than are read, and records longer than a set. */
	ipfix(&m, 0, 1);
	begin_set(&m, 2);
	PUT16(&m, 256, 300);
	for (int i = 0; i < 300; i++)
		PUT16(&m, 1, 8);
	PUT16(&m, 257, 2, 1, 65000, 2, 65000);
	end_set(&m);
	give(x, &m);
	assert_int_equal(refused(x, DTA_DEVICE_BAD_TEMPLATE), 2);
	run_end(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_displaces_no_live_exporter),
		cmocka_unit_test(an_address_has_a_share),
		cmocka_unit_test(templates_have_a_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
