// SPDX-License-Identifier: Apache-2.0
/*
 * control_reporters.c - converts the list of reporters to JSON, and checks a list received from a
 * peer
 */
#include <math.h>

#include "base/network.h"
#include "dta/translate/control.h"

#define COUNTS(do_)                                                                            \
	do_(expected) do_(arrived) do_(lost) do_(missing) do_(duplicates) do_(late) do_(nacks) \
		do_(collisions) do_(jumps)

static json_t *reporter_json(const struct dta_loss_about *a)
{
	char address[INET6_ADDRSTRLEN];
	json_t *j;

	base_address_text(&a->key.address, address);
	j = json_pack("{s:i,s:I,s:I,s:s,s:i,s:b,s:b,s:f,s:f,s:f}", "tenant", (int)a->key.tenant,
		      "reporter", (json_int_t)a->key.reporter, "incarnation",
		      (json_int_t)a->incarnation, "address", address, "port", (int)a->key.port,
		      "authenticated", (int)a->key.authenticated, "contested", (int)a->contested,
		      "age_seconds", (double)a->age_ns * 1e-9, "silent_seconds",
		      (double)a->silent_ns * 1e-9, "rate", a->rate);
#define PUT(name) json_object_set_new(j, #name, json_integer((json_int_t)a->stats.name));
	COUNTS(PUT)
	return j;
}

json_t *dta_reporters_json(const struct dta_loss_about *a, uint32_t n)
{
	json_t *all = json_array();

	for (uint32_t i = 0; i < n; i++)
		json_array_append_new(all, reporter_json(&a[i]));
	return all;
}

static uint64_t number_of(const json_t *j, const char *key, uint64_t max)
{
	const json_int_t v = json_integer_value(json_object_get(j, key));

	return v < 0 || (uint64_t)v > max ? 0 : (uint64_t)v;
}

static double positive_of(const json_t *j, const char *key, double max)
{
	const double v = json_number_value(json_object_get(j, key));

	return v > 0 ? fmin(v, max) : 0;
}

static bool parse_reporter(const json_t *j, struct dta_loss_about *a)
{
	const char *address = json_string_value(json_object_get(j, "address"));

	*a = (struct dta_loss_about){
		.key = {.port = (uint16_t)number_of(j, "port", UINT16_MAX),
			.tenant = (uint16_t)number_of(j, "tenant", UINT16_MAX),
			.reporter = (uint32_t)number_of(j, "reporter", UINT32_MAX),
			.authenticated = json_is_true(json_object_get(j, "authenticated"))},
		.incarnation = (uint32_t)number_of(j, "incarnation", UINT32_MAX),
		.contested = json_is_true(json_object_get(j, "contested")),
		.age_ns = (uint64_t)(positive_of(j, "age_seconds", 1e9) * 1e9),
		.silent_ns = (uint64_t)(positive_of(j, "silent_seconds", 1e9) * 1e9),
		.rate = positive_of(j, "rate", 1e12),
	};
#define GET(name) a->stats.name = number_of(j, #name, INT64_MAX);
	COUNTS(GET)
	return address && base_address_read(address, &a->key.address);
}

json_t *dta_reporters_checked(const json_t *said)
{
	json_t *all = json_array(), *j;
	struct dta_loss_about a;
	size_t i;

	json_array_foreach(said, i, j)
	{
		if (i < DTA_REPORTERS_TOLD && parse_reporter(j, &a))
			json_array_append_new(all, reporter_json(&a));
	}
	return all;
}
