// SPDX-License-Identifier: Apache-2.0
#include "source/report/event.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

#include "base/base.h"
#include "source/report/event.skel.h"
#include "source/tcp/util.h"

#define PREFIX "SKB_DROP_REASON_"

struct report_events {
	struct event_bpf *skel;
	struct btf *btf; /* BTF of the running kernel */
	const struct btf_type *reasons;
};

static int load_programs(struct report_events *e, const struct report_event_config *c, int events,
			 __u32 entries, char *error, size_t bytes)
{
	struct stat here;
	int err;

	memcpy((void *)&e->skel->rodata->config, c, sizeof(*c));
	e->skel->bss->interface = c->interface;
	err = stat("/proc/thread-self/ns/net", &here) ? -errno : 0;
	((struct report_event_config *)&e->skel->rodata->config)->netns = (__u32)here.st_ino;
	if (!err)
		err = bpf_map__set_max_entries(e->skel->maps.events, entries);
	if (!err)
		err = bpf_map__reuse_fd(e->skel->maps.events, events);
	if (err)
		return base_fail(error, bytes, err, "%s", strerror(-err));
	err = tcp_load(e->skel->skeleton, "reporter's", error, bytes);
	if (err)
		return err;
	err = event_bpf__attach(e->skel);
	return err ? base_fail(error, bytes, err, "tracepoints: %s", strerror(-err)) : 0;
}

struct report_events *report_events_open(const struct report_event_config *c, int events,
					 __u32 entries, bool drops, bool retransmissions,
					 char *error, size_t bytes)
{
	struct report_events *e = calloc(1, sizeof(*e));
	int id;

	if (!e || !(e->skel = event_bpf__open())) {
		base_fail(error, bytes, -errno, "%s", strerror(errno));
		free(e);
		return NULL;
	}
	bpf_program__set_autoload(e->skel->progs.event_drop, drops);
	bpf_program__set_autoload(e->skel->progs.event_retransmission, retransmissions);
	bpf_program__set_autoload(e->skel->progs.event_end, retransmissions);
	if (load_programs(e, c, events, entries, error, bytes)) {
		report_events_close(e);
		return NULL;
	}
	e->btf = btf__load_vmlinux_btf();
	id = e->btf ? btf__find_by_name_kind(e->btf, "skb_drop_reason", BTF_KIND_ENUM) : -1;
	e->reasons = id > 0 ? btf__type_by_id(e->btf, (__u32)id) : NULL;
	return e;
}

void report_events_close(struct report_events *e)
{
	if (!e)
		return;
	event_bpf__destroy(e->skel);
	btf__free(e->btf);
	free(e);
}

__u64 report_events_dropped(const struct report_events *e, __u32 reason)
{
	__u64 n = 0;

	bpf_map_lookup_elem(bpf_map__fd(e->skel->maps.reasons), &reason, &n);
	return n;
}

void report_events_interface(struct report_events *e, __u32 index)
{
	__atomic_store_n(&e->skel->bss->interface, index, __ATOMIC_RELAXED);
}

__u64 report_events_entered(const struct report_events *e)
{
	return __atomic_load_n(&e->skel->bss->entered, __ATOMIC_RELAXED);
}

const char *report_events_reason(const struct report_events *e, __u32 reason)
{
	const struct btf_enum *value = e->reasons ? btf_enum(e->reasons) : NULL;
	const char *name;

	for (int i = 0; value && i < btf_vlen(e->reasons); i++, value++) {
		if ((__u32)value->val != reason)
			continue;
		name = btf__name_by_offset(e->btf, value->name_off);
		return name && !strncmp(name, PREFIX, strlen(PREFIX)) ? name + strlen(PREFIX)
								      : name;
	}
	return NULL;
}
