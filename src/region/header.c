// SPDX-License-Identifier: Apache-2.0
/* header.c - writes the header of a region that the agent or an eBPF source creates. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/base.h"
#include "region/decode.h"

static void boot_id(uint8_t out[16])
{
	int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	unsigned int digits = 0;
	char text[64] = "";

	memset(out, 0, 16);
	if (fd < 0)
		return;
	if (read(fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	close(fd);
	for (const char *p = text; *p && digits < 32; p++) {
		unsigned int v;

		if (*p >= '0' && *p <= '9')
			v = (unsigned int)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			v = (unsigned int)(*p - 'a') + 10;
		else
			continue;
		out[digits / 2] = (uint8_t)(out[digits / 2] << 4 | v);
		digits++;
	}
}

int region_header_write(struct sl_region_header *h, uint64_t size, uint32_t kind,
			const struct sl_region_section *sections, uint32_t count)
{
	memcpy(h->magic, SL_REGION_MAGIC, sizeof(h->magic));
	h->version = SL_REGION_VERSION;
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
