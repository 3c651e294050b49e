// SPDX-License-Identifier: Apache-2.0
/*
 * directory.c - the region that tells collectors which regions exist.
 *
 * An entry is one self-verifying line: a one-sided reader sees it before a change, after it, or
 * notices that it read a mixture. The entry is stored before the generation in the hot line, so a
 * reader that sees the new generation and then reads the entries again sees the change (x86 keeps
 * stores in order; elsewhere, the release store of the check word does). A READ that arrives in
 * between finds the previous generation, and reads again when the generation changes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "agent/region.h"

int agent_directory_init(struct agent *a, char *error, size_t bytes)
{
	struct agent_directory *d = &a->dir;
	struct sl_region_section section[4] = {
		{.type = SL_SECTION_HOT, .stride = 64, .offset = 4096, .length = 64},
		{.type = SL_SECTION_ENTRIES,
		 .stride = 64,
		 .offset = 4160,
		 .length = (uint64_t)a->slot_count * SL_LINE_SIZE},
		{.type = SL_SECTION_TENANTS,
		 .stride = SL_TENANT_SIZE,
		 .offset = 4160 + (uint64_t)a->slot_count * SL_LINE_SIZE,
		 .length = (uint64_t)a->slot_count * SL_TENANT_SIZE},
		{.type = SL_SECTION_NAMES,
		 .stride = SL_NAMES_SIZE,
		 .offset = 4160 + (uint64_t)a->slot_count * (SL_LINE_SIZE + SL_TENANT_SIZE),
		 .length = (uint64_t)a->slot_count * SL_NAMES_SIZE},
	};
	struct region_text_label labels[] = {
		{"host", a->host},
		{"version", SL_VERSION_STRING},
	};
	struct agent_build b = {
		.kind = SL_REGION_DIRECTORY,
		.section = section,
		.section_count = 4,
		.labels = labels,
		.label_count = 2,
	};
	enum region_fault fault;
	struct region_info info;
	int fd, err;

	b.size = (section[3].offset + section[3].length + 4095) & ~4095ull;
	err = agent_build_region(&b, "sidelight-directory", &fd, &d->map, &d->instance);
	if (err)
		return base_fail(error, bytes, err, "cannot create the directory of %llu bytes: %s",
				 (unsigned long long)b.size, strerror(-err));
	d->size = b.size;
	/* Detect here what a collector would refuse, such as a host name that is not UTF-8. */
	fault = region_info_parse(d->map, d->size, &info);
	d->fd = fault ? -EINVAL : agent_reopen_read_only(fd);
	/* The mapping above stays writable; no consumer, not even root, can make another. */
	err = d->fd >= 0 ? agent_seal(fd) : 0;
	if (err) {
		close(d->fd);
		d->fd = err;
	}
	close(fd);
	if (d->fd < 0) {
		err = d->fd;
		if (fault)
			snprintf(error, bytes, "invalid directory: %s (--hostname '%s')",
				 region_fault_name(fault), a->host);
		else
			snprintf(error, bytes,
				 "cannot make the directory read-only (is /proc mounted?): %s",
				 strerror(-err));
		munmap(d->map, d->size);
		d->map = NULL;
		return err;
	}
	d->entry = (void *)((char *)d->map + section[1].offset);
	d->tenant = (void *)((char *)d->map + section[2].offset);
	d->names = (void *)((char *)d->map + section[3].offset);
	d->hot[SL_DIR_GENERATION] = 1;
	d->hot[SL_DIR_STATE] = SL_STATE_LIVE;
	d->hot[SL_DIR_LEASE_NS] = a->o.lease_ns;
	d->hot[SL_DIR_CHANGED_NS] = base_realtime_ns();
	region_store_line((uint64_t *)((char *)d->map + 4096), d->hot);
	return 0;
}

/* Collectors keep the directory mapped; its state tells them that the agent has exited. */
void agent_directory_fini(struct agent *a)
{
	struct agent_directory *d = &a->dir;

	if (!d->map)
		return;
	d->hot[SL_DIR_STATE] = SL_STATE_CLOSED;
	agent_directory_hot(a);
	munmap(d->map, d->size);
	d->map = NULL;
	close(d->fd);
	d->fd = -1;
}

void agent_directory_hot(struct agent *a)
{
	struct agent_directory *d = &a->dir;
	uint64_t refused = 0;

	for (int i = 0; i < REFUSED_ABSENT; i++)
		refused += a->n.refused[i];
	d->hot[SL_DIR_LIVE] = a->state_count[SL_STATE_LIVE];
	d->hot[SL_DIR_REFUSED] = refused;
	d->hot[SL_DIR_CHANGED_NS] = base_realtime_ns();
	region_store_line((uint64_t *)((char *)d->map + 4096), d->hot);
}

/* Stores an entry with the next generation and the current time. */
void agent_directory_set(struct agent *a, uint32_t slot, const uint64_t cells[7])
{
	struct agent_directory *d = &a->dir;
	uint64_t line[7];

	memcpy(line, cells, sizeof(line));
	line[SL_ENTRY_GENERATION] = d->entry[slot][SL_ENTRY_GENERATION] + 1;
	line[SL_ENTRY_CHANGED_NS] = base_realtime_ns();
	region_store_line(d->entry[slot], line);
	if (d->hot[SL_DIR_ENTRIES_USED] <= slot)
		d->hot[SL_DIR_ENTRIES_USED] = slot + 1;
	d->hot[SL_DIR_GENERATION]++;
	agent_directory_hot(a);
}

void agent_directory_tenant(struct agent *a, uint32_t slot, const struct region_tenant *tenant)
{
	uint64_t lines[16], names[SL_NAMES_SIZE / 8];

	/*
	 * If there are no names, the lines keep their contents: zeros, or the names of an earlier
	 * entry.
	 */
	if (*tenant->names.pod || *tenant->names.container) {
		region_names_write(names, &tenant->names);
		for (size_t i = 0; i < SL_NAMES_SIZE / 8; i += 8)
			region_store_line(a->dir.names[slot] + i, names + i);
	}
	region_tenant_write(lines, tenant);
	region_store_line(a->dir.tenant[slot], lines);
	region_store_line(a->dir.tenant[slot] + 8, lines + 8);
}
