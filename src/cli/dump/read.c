// SPDX-License-Identifier: Apache-2.0
/*
 * read.c - reads a region as sidelight-region(5) describes, with more retries than other readers.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/base.h"
#include "cli/dump/dump.h"

/* Attempts before a part counts as unsettled; the pause is 50 us starting at the third attempt. */
#define TRIES		   2000
#define TRIES_OF_ALL_LINES 20000 /* limits the time for a file of invalid lines to one second */

bool cli_dump_read_at(struct cli_dump *d, void *to, uint64_t bytes, uint64_t at)
{
	uint8_t *p = to;

	while (bytes) {
		ssize_t n = pread(d->fd, p, bytes, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			d->error = n ? errno : ENODATA;
			return false;
		}
		p += n;
		at += (uint64_t)n;
		bytes -= (uint64_t)n;
	}
	return true;
}

static bool set_fault(struct cli_dump *d, enum region_fault fault, const char *part, uint64_t at)
{
	if (!d->fault) {
		d->fault = fault;
		d->part = part;
		d->fault_at = at;
	}
	return false;
}

/*
 * Returns true if another attempt is allowed; attempt 0 is the first. Pauses before later attempts.
 */
static bool may_try(const struct cli_dump *d, unsigned int attempt)
{
	if (attempt > 2)
		nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
	return attempt < TRIES && (!attempt || d->retries < TRIES_OF_ALL_LINES);
}

static bool read_header(struct cli_dump *d)
{
	struct stat st;
	enum region_fault fault;

	if (fstat(d->fd, &st)) {
		d->error = errno;
		return false;
	}
	d->bytes = (uint64_t)st.st_size;
	if (!cli_dump_read_at(d, &d->header, BASE_MIN(d->bytes, sizeof(d->header)), 0))
		return false;
	if (d->bytes < sizeof(d->header))
		return set_fault(d,
				 memcmp(d->header.magic, SL_REGION_MAGIC,
					BASE_MIN(d->bytes, sizeof(d->header.magic)))
					 ? REGION_FAULT_MAGIC
					 : REGION_FAULT_SIZE,
				 "header", 0);
	fault = region_info_parse(&d->header, d->bytes, &d->info);
	return fault ? set_fault(d, fault, "header", 0) : true;
}

static bool read_hot(struct cli_dump *d)
{
	enum region_fault fault = REGION_FAULT_NONE;

	for (unsigned int try = 0; may_try(d, try); try++) {
		if (!cli_dump_read_at(d, d->hot_line, 64, d->info.hot))
			return false;
		fault = d->info.kind == SL_REGION_METRICS
				? region_hot_parse(d->hot_line, &d->info, &d->hot)
				: region_directory_hot_parse(d->hot_line, &d->info, &d->directory);
		if (fault != REGION_FAULT_UNSETTLED)
			break;
	}
	return fault ? set_fault(d, fault, "hot line", d->info.hot) : true;
}

static bool read_schema(struct cli_dump *d)
{
	enum region_fault fault = REGION_FAULT_NONE;

	for (unsigned int try = 0; may_try(d, try); try++) {
		uint64_t at = d->schema.parsed, bytes = d->hot.schema_used - at;
		void *copy = malloc(bytes ? bytes : 1);

		if (!copy)
			return set_fault(d, REGION_FAULT_MEMORY, "schema", d->info.schema + at);
		if (!cli_dump_read_at(d, copy, bytes, d->info.schema + at)) {
			free(copy);
			return false;
		}
		fault = region_schema_append(&d->schema, &d->info, copy, bytes);
		free(copy);
		if (fault != REGION_FAULT_CHECK)
			break;
	}
	return fault ? set_fault(d, fault, "schema", d->info.schema + d->schema.parsed) : true;
}

static bool read_values(struct cli_dump *d)
{
	uint32_t lines = d->hot.lines_used, stripes = d->hot.stripes_used;
	size_t all = (size_t)lines * stripes;

	d->flat = calloc(d->schema.cells + 1, sizeof(*d->flat));
	d->settled = calloc(all + 1, sizeof(*d->settled));
	d->raw = calloc(all + 1, sizeof(*d->raw));
	if (!d->flat || !d->settled || !d->raw || region_values_resize(&d->values, lines, stripes))
		return set_fault(d, REGION_FAULT_MEMORY, "values", d->info.stripes);
	for (uint32_t s = 0; s < stripes; s++) {
		uint64_t base = d->info.stripes + (uint64_t)s * d->info.stripe_stride;
		uint64_t(*raw)[8] = d->raw + (size_t)s * lines;

		if (!cli_dump_read_at(d, raw, (uint64_t)lines * SL_LINE_SIZE, base))
			return false;
		for (uint32_t l = 0; l < lines; l++) {
			bool *settled = &d->settled[(size_t)s * lines + l];

			for (unsigned int try = 0; !*settled && may_try(d, try); try++) {
				if (try &&
				    !cli_dump_read_at(d, raw[l], SL_LINE_SIZE, base + l * 64ull))
					return false;
				d->retries += try > 0;
				*settled = !region_values_update(
					&d->values, s, l, (const uint64_t(*)[8])raw + l, 1, NULL);
			}
			if (!*settled) {
				d->unsettled++;
				set_fault(d, REGION_FAULT_UNSETTLED, "values", base + l * 64ull);
			}
		}
	}
	region_values_flatten(&d->values, d->schema.specials, d->schema.special_count,
			      d->schema.cells, d->flat);
	return !d->fault;
}

static bool read_entries(struct cli_dump *d)
{
	uint32_t used = d->directory.entries_used;

	d->entries = calloc(used + 1u, sizeof(*d->entries));
	if (!d->entries)
		return set_fault(d, REGION_FAULT_MEMORY, "entries", d->info.entries);
	for (uint32_t i = 0; i < used; i++) {
		uint64_t at = d->info.entries + i * 64ull;
		struct cli_dump_entry *e = &d->entries[i];

		e->fault = REGION_FAULT_UNSETTLED;
		for (unsigned int try = 0; e->fault == REGION_FAULT_UNSETTLED && may_try(d, try);
		     try++) {
			if (!cli_dump_read_at(d, e->line, SL_LINE_SIZE, at))
				return false;
			d->retries += try > 0;
			e->fault = region_entry_parse(e->line, &e->parsed);
		}
		if (e->fault) {
			d->unsettled += e->fault == REGION_FAULT_UNSETTLED;
			set_fault(d, e->fault, "entries", at);
		}
	}
	return !d->fault;
}

bool cli_dump_read(struct cli_dump *d, const char *source, int fd)
{
	memset(d, 0, sizeof(*d));
	d->source = source;
	d->fd = fd;
	region_schema_init(&d->schema);
	region_values_init(&d->values);
	if (!read_header(d) || !read_hot(d))
		return false;
	if (d->info.kind == SL_REGION_DIRECTORY)
		return read_entries(d);
	/* Read values even after a fault in the schema: the part before the fault is valid. */
	read_schema(d);
	return !d->error && read_values(d) && cli_dump_spans_read(d) && !d->fault;
}

void cli_dump_free(struct cli_dump *d)
{
	cli_dump_spans_free(d);
	free(d->entries);
	free(d->raw);
	free(d->settled);
	free(d->flat);
	region_values_free(&d->values);
	region_schema_free(&d->schema);
}
