// SPDX-License-Identifier: Apache-2.0
/* kernel.c - loads the translator in the kernel, and keeps its maps */
#include "dta/io/kernel.h"

#include <errno.h>
#include <linux/if_link.h>
#include <linux/membarrier.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/base.h"
#include "dta/engine/engine.h"
#include "dta/store/store.h"
#include "kernel.skel.h"

#define LISTS_MAX 1024u /* of a store: each has an entry per queue */

struct dta_kernel {
	struct kernel_bpf *program;
	struct ring_buffer *events;
	char interface[IF_NAMESIZE];
	int next; /* of the interface's program: where it calls ours */
	int link; /* of the program for answers; -1: at the same interface */
	uint32_t queues;
	uint8_t *queue; /* mapped */
	size_t queue_bytes, all_bytes;
	struct dta_kernel_reporter *reporter;
	struct dta_kernel_event event[64]; /* [at, came) of the ring */
	uint32_t at, came;
};

/* CRC-32 of IEEE 802.3, reflected, as used by RoCEv2's iCRC (annex A17.3.4). */
static void fill_table(uint32_t table[8][256])
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int k = 1; k < 8; k++)
			table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static int tell(void *arg, void *data, size_t bytes)
{
	struct dta_kernel *k = arg;

	if (k->came == sizeof(k->event) / sizeof(*k->event))
		return -EAGAIN; /* it is told again */
	if (bytes >= sizeof(*k->event))
		memcpy(&k->event[k->came++], data, sizeof(*k->event));
	return 0;
}

static void *map(const struct bpf_map *m, size_t bytes)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(m), 0);

	return at == MAP_FAILED ? NULL : at;
}

/* how: of the interface of reports, which may be the one of answers. */
static int take_answers(struct dta_kernel *k, const char *how)
{
	const size_t bytes = strlen(k->interface);
	const uint32_t answers = 1;
	const int program = bpf_program__fd(k->program->progs.answers);
	const int index = (int)if_nametoindex(k->interface);

	if (!strncmp(how, k->interface, bytes) && how[bytes] == ':')
		return bpf_map_update_elem(k->next, &answers, &program, 0);
	for (uint32_t i = 0; i < 2 && k->link < 0; i++) {
		LIBBPF_OPTS(bpf_link_create_opts, o,
			    .flags = i ? XDP_FLAGS_SKB_MODE : XDP_FLAGS_DRV_MODE);

		k->link = bpf_link_create(program, index, BPF_XDP, &o);
		if (k->link == -EBUSY || k->link == -EEXIST)
			break;
	}
	return k->link < 0 ? k->link : 0;
}

static int load(struct dta_kernel *k, struct dta_xdp *x)
{
	const long page = sysconf(_SC_PAGESIZE);
	const uint32_t reports = 0;
	int sockets, program, err;

	k->program = kernel_bpf__open();
	if (!k->program)
		return -errno;
	fill_table((uint32_t(*)[256])k->program->rodata->crc_table);
	dta_xdp_maps(x, &sockets, &k->next);
	err = bpf_map__reuse_fd(k->program->maps.sockets, sockets);
	if (!err)
		err = bpf_map__set_max_entries(k->program->maps.queues, k->queues);
	if (!err)
		err = kernel_bpf__load(k->program);
	if (err)
		return err;
	k->queue_bytes = (sizeof(struct dta_kernel_queue) + 7) & ~7ull;
	k->all_bytes = (k->queue_bytes * k->queues + (size_t)page - 1) & ~((size_t)page - 1);
	k->queue = map(k->program->maps.queues, k->all_bytes);
	k->reporter = map(k->program->maps.reporters, KERNEL_REPORTERS * sizeof(*k->reporter));
	k->events = ring_buffer__new(bpf_map__fd(k->program->maps.events), tell, k, NULL);
	if (!k->queue || !k->reporter || !k->events)
		return -errno;
	program = bpf_program__fd(k->program->progs.translate);
	err = take_answers(k, dta_xdp_how(x, 0));
	return err ? err : bpf_map_update_elem(k->next, &reports, &program, 0);
}

struct dta_kernel *dta_kernel_open(struct dta_xdp *x, const char *interface, char *error,
				   size_t error_bytes)
{
	struct dta_kernel *k;
	int sockets, err = -EINVAL;

	if (!dta_xdp_maps(x, &sockets, &sockets) || dta_xdp_generic(x)) {
		snprintf(
			error, error_bytes,
			"--in-kernel needs one --xdp interface with all its queues, in native mode");
		errno = EINVAL;
		return NULL;
	}
	k = calloc(1, sizeof(*k));
	if (!k) {
		snprintf(error, error_bytes, "no memory");
		return NULL;
	}
	snprintf(k->interface, sizeof(k->interface), "%s", interface);
	k->queues = dta_xdp_queues(x);
	k->link = -1;
	if (k->queues > KERNEL_QUEUES)
		snprintf(error, error_bytes, "--in-kernel: more than %u queues", KERNEL_QUEUES);
	else if ((err = load(k, x)))
		snprintf(error, error_bytes, "%s: cannot load the translator into the kernel: %s",
			 k->interface,
			 err == -EBUSY || err == -EEXIST ? "the interface has a program already"
							 : strerror(-err));
	if (!err)
		return k;
	dta_kernel_close(k);
	errno = -err;
	return NULL;
}

void dta_kernel_stop(struct dta_kernel *k)
{
	const uint32_t zero = 0;

	bpf_map_delete_elem(k->next, &zero);
	dta_kernel_settle();
}

void dta_kernel_close(struct dta_kernel *k)
{
	if (!k)
		return;
	if (k->program)
		dta_kernel_stop(k);
	if (k->link >= 0)
		close(k->link);
	ring_buffer__free(k->events);
	if (k->queue)
		munmap(k->queue, k->all_bytes);
	if (k->reporter)
		munmap(k->reporter, KERNEL_REPORTERS * sizeof(*k->reporter));
	kernel_bpf__destroy(k->program);
	free(k);
}

uint32_t dta_kernel_queues(const struct dta_kernel *k)
{
	return k->queues;
}

const char *dta_kernel_interface(const struct dta_kernel *k)
{
	return k->interface;
}

struct dta_kernel_queue *dta_kernel_queue(struct dta_kernel *k, uint32_t queue)
{
	return (struct dta_kernel_queue *)(void *)(k->queue + queue * k->queue_bytes);
}

struct dta_kernel_reporter *dta_kernel_reporter(struct dta_kernel *k, uint32_t place)
{
	return &k->reporter[place & (KERNEL_REPORTERS - 1)];
}

bool dta_kernel_event(struct dta_kernel *k, struct dta_kernel_event *out)
{
	if (k->at == k->came) {
		k->at = k->came = 0;
		ring_buffer__consume(k->events);
	}
	if (k->at == k->came)
		return false;
	*out = k->event[k->at++];
	return true;
}

void dta_kernel_engine(struct dta_kernel *k, uint32_t queue, struct dta_engine_stats *s)
{
	const struct dta_kernel_queue *q = dta_kernel_queue(k, queue);
	const uint64_t frames = __atomic_load_n(&q->frames, __ATOMIC_ACQUIRE);
	const uint64_t failed = __atomic_load_n(&q->failed, __ATOMIC_RELAXED);

	s->in += frames + failed;
	s->stored += frames;
	s->dropped[DTA_DROP_OUTPUT_FAILED] += failed;
	s->operations += frames;
	s->units += __atomic_load_n(&q->keywrites, __ATOMIC_RELAXED);
}

/* XDP runs within RCU's read side, and this waits for a grace period of it. */
void dta_kernel_settle(void)
{
	if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
		usleep(50000);
}

/* ---- stores ---- */

/* What the program can do; the rest is user space's. */
static bool can(const struct sl_store_config *c)
{
	const bool value = c->value_bytes == 4 || c->value_bytes == 8 || c->value_bytes == 16;

	if (c->keylog)
		return false;
	switch (c->kind) {
	case SL_STORE_KEYWRITE:
		return value;
	case SL_STORE_INCREMENT:
		return c->copies <= 1;
	case SL_STORE_APPEND:
		return value && c->batch == 1 && c->lists <= LISTS_MAX;
	}
	return false;
}

void dta_kernel_store(struct dta_kernel *k, uint32_t queue, uint16_t tenant, uint16_t number,
		      const struct dta_output_store *s)
{
	const int stores = bpf_map__fd(k->program->maps.stores);
	const int lists = bpf_map__fd(k->program->maps.lists);
	const uint64_t key = KERNEL_STORE_KEY(queue, tenant, number);
	const struct sl_store_config *c = s ? s->config : NULL;
	struct dta_kernel_store to, was;

	if (!c || !can(c)) {
		if (bpf_map_lookup_elem(stores, &key, &was))
			return;
		bpf_map_delete_elem(stores, &key);
		for (uint32_t i = 0; i < was.lists; i++) {
			const uint64_t list = KERNEL_LIST_KEY(key, i);

			bpf_map_delete_elem(lists, &list);
		}
		return;
	}
	to = (struct dta_kernel_store){
		.seed = c->seed,
		.slots = c->slots,
		.addr = s->object->addr + s->bank,
		.rkey = s->object->rkey,
		.kind = c->kind,
		.value_bytes = c->kind == SL_STORE_INCREMENT ? 8 : c->value_bytes,
		.lane = s->lane,
	};
	if (c->kind == SL_STORE_APPEND) {
		to.lists = c->lists;
		to.list_bytes = sl_store_ring_offset(c, 1, 0);
		to.addr += sl_store_ring_offset(c, 0, s->lane);
	}
	for (uint32_t i = 0; i < to.lists; i++) {
		const uint64_t list = KERNEL_LIST_KEY(key, i), from = s->next ? s->next[i] : 0;

		if (s->next || bpf_map_lookup_elem(lists, &list, &(uint64_t){0}))
			bpf_map_update_elem(lists, &list, &from, BPF_ANY);
	}
	bpf_map_update_elem(stores, &key, &to, BPF_ANY);
}
