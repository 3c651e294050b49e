// SPDX-License-Identifier: Apache-2.0
/* header.c - writes the header of a new region, and repairs lines of a dead publisher's region. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base.h"
#include "base/text.h"
#include "region/exemplars.h"
#include "region/spans.h"

/* Parses "01234567-89ab-...": 32 lower-case digits. */
static void boot_id(uint8_t out[16])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	char text[64] = "", *to = text;

	memset(out, 0, 16);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	for (const char *p = text; *p; p++)
		if (*p != '-' && *p != '\n')
			*to++ = *p;
	*to = 0;
	if (to - text == 32 && base_unhex(out, text, 16))
		memset(out, 0, 16);
}

int region_header_write(struct sl_region_header *h, uint64_t size, uint32_t kind,
			const struct sl_region_section *sections, uint32_t count)
{
	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
	h->minor = SL_REGION_MINOR;
	h->header_size = SL_HEADER_SIZE;
	h->size = size;
	h->kind = kind;
	h->pid = (uint32_t)getpid();
	h->start_ns = base_realtime_ns();
	boot_id(h->boot_id);
	while (!h->instance)
		if (getrandom(&h->instance, sizeof(h->instance), 0) < 0 && errno != EINTR)
			return -errno;
	h->section_count = count;
	memcpy(h->section, sections, count * sizeof(*sections));
	region_header_seal(h);
	return 0;
}

void region_header_seal(struct sl_region_header *h)
{
	h->check = sl_fnv1a(SL_FNV_BASIS, h, offsetof(struct sl_region_header, check));
}

/* ---- repair ---- */

/* Returns true if the check word was wrong. Other processes may still map the memory. */
static bool repair_line(uint64_t *line, bool mixed)
{
	uint64_t copy[8], check;

	region_copy_words(copy, line, 8);
	check = mixed ? sl_mixed_check(copy) : sl_line_check(copy);
	if (check == copy[7])
		return false;
	__atomic_store_n(&line[7], check, __ATOMIC_RELAXED);
	return true;
}

/*
 * Repairs those of the count lines at offset `at` that are entirely within [from, to). Returns the
 * number of repaired lines.
 */
static uint64_t repair_lines(char *map, uint64_t at, uint64_t count, bool mixed, uint64_t from,
			     uint64_t to)
{
	uint64_t end = BASE_MIN(at + count * SL_LINE_SIZE, to), repaired = 0;

	if (at < from)
		at += (from - at + SL_LINE_SIZE - 1) / SL_LINE_SIZE * SL_LINE_SIZE;
	for (; at + SL_LINE_SIZE <= end; at += SL_LINE_SIZE)
		repaired += repair_line((uint64_t *)(map + at), mixed);
	return repaired;
}

uint64_t region_repair_within(void *map, const struct region_info *info, uint64_t from, uint64_t to)
{
	uint64_t used[8], lines, stripes, s, repaired;

	repaired = repair_lines(map, info->hot, 1, false, from, to);
	if (info->kind != SL_REGION_METRICS)
		return repaired;
	/* Limit the hot line's numbers by the header's numbers. */
	region_copy_words(used, (uint64_t *)((char *)map + info->hot), 8);
	lines = BASE_MIN(used[SL_HOT_LINES_USED], (uint64_t)info->max_lines);
	stripes = BASE_MIN(used[SL_HOT_STRIPES_USED], (uint64_t)info->max_stripes);
	s = from > info->stripes ? (from - info->stripes) / info->stripe_stride : 0;
	for (; s < stripes && info->stripes + s * info->stripe_stride < to; s++)
		repaired += repair_lines(map, info->stripes + s * info->stripe_stride, lines, !s,
					 from, to);
	/*
	 * Repair only the heads of the rings of stripes in use; a half-written span must not
	 * verify.
	 */
	if (info->spans)
		repaired += repair_lines(map, region_span_head_at(info, 0), stripes, false, from,
					 to);
	if (info->created)
		repaired += repair_lines(map, info->created,
					 region_created_lines(info, used[SL_HOT_SCHEMA_USED]), true,
					 from, to);
	if (info->exemplars) /* repair only the head, for the same reason */
		repaired += repair_lines(map, info->exemplars, 1, false, from, to);
	return repaired;
}

uint64_t region_repair(void *map, const struct region_info *info)
{
	return region_repair_within(map, info, 0, info->size);
}
