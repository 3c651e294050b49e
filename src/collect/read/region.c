// SPDX-License-Identifier: Apache-2.0
/* region.c - a region, its identity and its labels. link.h describes how regions are read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "collect/read/link.h"
#include "collect/read/exemplars.h"
#include "collect/read/host.h"
#include "collect/read/ref.h"
#include "collect/read/turn.h"

struct collect_region *collect_region_new(struct collect_link *l, uint64_t instance, uint64_t age)
{
	struct collect_region *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->tenant = collect_tenant_get(l->host, NULL);
	if (!r->tenant) {
		free(r);
		return NULL;
	}
	r->refs = 1;
	r->c = l->c;
	r->host = l->host;
	r->link = l;
	r->worker = l->worker;
	r->instance = instance;
	r->age = age;
	r->found_ns = (int64_t)base_realtime_ns();
	region_values_init(&r->values);
	relaxed_add(r->c->memory, sizeof(*r));
	return r;
}

static size_t info_bytes(const struct region_info *info)
{
	size_t used = 0;

	for (uint32_t i = 0; i < info->label_count; i++) {
		const char *end = info->labels[i].value + strlen(info->labels[i].value) + 1;

		if ((size_t)(end - info->label_text) > used)
			used = (size_t)(end - info->label_text);
	}
	return offsetof(struct region_info, label_text) + used + 1;
}

void collect_region_put(struct collect_region *r)
{
	size_t bytes = sizeof(*r);

	if (!r || !collect_ref_put(&r->refs))
		return;
	if (r->beside)
		r->c->reader->free_region(r);
	if (r->built)
		collect_snapshot_put(r->built->snapshot, r->c);
	collect_snapshot_put(r->snapshot, r->c);
	collect_snapshot_put(r->pending, r->c);
	collect_snapshot_put(r->shown, r->c);
	collect_plan_free(&r->plan);
	if (r->values.memory)
		relaxed_sub(r->c->memory, r->values_bytes);
	region_values_free(&r->values);
	relaxed_sub(r->c->memory, 2 * r->mark_words * sizeof(*r->stale));
	free(r->stale);
	free(r->schema_bytes);
	free(r->names);
	collect_exemplars_free(r);
	bytes += r->info ? info_bytes(r->info) : 0;
	relaxed_sub(r->c->memory, bytes);
	free(r->info);
	collect_label_set_put(r->labels);
	collect_label_set_put(r->group);
	collect_tenant_put(r->tenant);
	free(r);
}

/* The release pairs with the acquire in drain_queue(): control sees everything the worker wrote. */
void collect_region_queue(struct collect_region *r, enum collect_event event)
{
	struct collect_collector *c = r->c;
	struct collect_region *head;

	if (__atomic_fetch_or(&r->events, (unsigned int)event, __ATOMIC_ACQ_REL))
		return; /* queued already */
	collect_ref_get(&r->refs);
	head = __atomic_load_n(&c->queue, __ATOMIC_RELAXED);
	do {
		r->queue_next = head;
	} while (!__atomic_compare_exchange_n(&c->queue, &head, r, true, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if (!head)
		collect_control_wake(c);
}

void collect_region_hold(struct collect_region *r)
{
	if (!r->held_layout)
		relaxed_add(r->tenant->held_layouts, 1);
	relaxed_store(r->held_layout, true);
}

/*
 * Removes a pod label of the form "SERVICE-PROCESS", a default that adds nothing to the process
 * label. Returns the number of labels left.
 */
static uint32_t without_own_pod(struct region_text_label *labels, uint32_t n, const char *process)
{
	const char *service = NULL;

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(labels[i].key, "service"))
			service = labels[i].value;
	for (uint32_t i = 0; service && i < n; i++) {
		size_t bytes = strlen(service);
		const char *pod = labels[i].value;

		if (strcmp(labels[i].key, "pod") || strncmp(pod, service, bytes) ||
		    pod[bytes] != '-' || strcmp(pod + bytes + 1, process))
			continue;
		memmove(&labels[i], &labels[i + 1], (n - i - 1) * sizeof(*labels));
		return n - 1;
	}
	return n;
}

/*
 * Copies a header with the names of pod and container that the host attests. The publisher's own
 * ones are renamed (exported_pod). If the host does not know the container yet, there is none.
 * Returns NULL if out of memory.
 */
static struct region_info *attest_names(const struct region_names *names,
					const struct region_info *from)
{
	static const char *const keys[] = {"namespace", "pod", "container"};
	const char *values[] = {names->kube_namespace, names->pod, names->container}, *own[3];
	struct region_text_label labels[REGION_LABELS_MAX];
	struct region_info *to = malloc(sizeof(*to));
	uint32_t taken = 0;
	char *renamed = NULL;
	size_t used = 0;

	for (int i = 0; i < 3; i++)
		if (*values[i] || (i == 2 && *names->pod))
			own[taken++] = keys[i];
	memcpy(labels, from->labels, from->label_count * sizeof(*labels));
	if (!to || !collect_labels_export(labels, from->label_count, own, taken, &renamed)) {
		free(to);
		return NULL;
	}
	*to = *from;
	to->label_count = 0;
	for (int i = 0; i < 3; i++)
		if (*values[i])
			region_add_label(to, &used, keys[i], values[i]);
	for (uint32_t i = 0; i < from->label_count; i++)
		region_add_label(to, &used, labels[i].key, labels[i].value);
	free(renamed);
	return to;
}

/*
 * Labels of the header, then host, the tenant's identity and, unless the region is synthetic,
 * process. A header must not claim these labels, nor instance_id, which distinguishes regions in
 * the collector's own series.
 */
static int make_labels(struct collect_region *r, const char *hostname)
{
	static const char *const own[] = {"host", "process",	  "instance_id",
					  "uid",  "container_id", "pod_uid"};
	struct region_text_label labels[COLLECT_REGION_LABELS];
	const bool pod = !r->tenant->exempt && *r->tenant->who.names.pod;
	uint32_t n = r->info->label_count;
	char process[16], *names;

	r->origin = r->info->origin && r->tenant->who.origin;
	if (r->origin) {
		r->labels = collect_label_set_new(NULL, 0);
		r->group = collect_label_set_new(NULL, 0);
		return r->labels && r->group ? 0 : -ENOMEM;
	}
	memcpy(labels, r->info->labels, n * sizeof(*labels));
	/* A trusted tenant sets its identity itself. */
	if (!collect_labels_export(labels, n, own, r->tenant->exempt ? 3 : 6, &names))
		return -ENOMEM;
	if (*hostname)
		labels[n++] = (struct region_text_label){"host", hostname};
	n += r->tenant->exempt ? 0 : collect_tenant_labels(r->tenant, labels + n);
	snprintf(process, sizeof(process), "%u", r->info->pid);
	labels[n++] = (struct region_text_label){"process", process};
	r->labels = collect_label_set_new(labels, r->synthetic ? n - 1 : n);
	/*
	 * A name that the agent attested is never treated as a default, even if it looks like one,
	 * such as "web-1" of a StatefulSet.
	 */
	r->group = collect_label_set_new(labels,
					 pod ? n - 1 : without_own_pod(labels, n - 1, process));
	free(names);
	return r->labels && r->group ? 0 : -ENOMEM;
}

struct region_info *collect_region_info_copy(const struct region_info *from)
{
	size_t bytes = info_bytes(from);
	struct region_info *to = malloc(bytes);

	if (!to)
		return NULL;
	memcpy(to, from, bytes - 1);
	((char *)to)[bytes - 1] = '\0';
	for (uint32_t i = 0; i < from->label_count; i++) {
		to->labels[i].key = (char *)to + (from->labels[i].key - (const char *)from);
		to->labels[i].value = (char *)to + (from->labels[i].value - (const char *)from);
	}
	return to;
}

static int adopt_info(struct collect_region *r, const struct region_info *info,
		      const char *hostname)
{
	const struct region_names *names = &r->tenant->who.names;
	const bool attests = !r->tenant->exempt && (*names->pod || *names->container);
	struct region_info *attested = attests ? attest_names(names, info) : NULL;

	if (!attests || attested)
		r->info = collect_region_info_copy(attested ?: info);
	free(attested);
	if (!r->info || make_labels(r, hostname)) {
		free(r->info);
		collect_label_set_put(r->labels);
		collect_label_set_put(r->group);
		r->info = NULL;
		r->labels = r->group = NULL;
		return -ENOMEM;
	}
	relaxed_add(r->c->memory, info_bytes(r->info));
	collect_label_set_count(r->labels, &r->c->memory);
	collect_label_set_count(r->group, &r->c->memory);
	return 0;
}

enum region_fault collect_region_identify(struct collect_region *r,
					  const struct sl_region_header *copy, const char *hostname)
{
	struct region_info info;
	enum region_fault fault = region_header_parse(copy, r->remote.length, &info);

	if (fault)
		return fault;
	if (info.kind != r->kind)
		return REGION_FAULT_SECTION;
	if (info.instance != (r->attested ? r->header_instance : r->instance))
		return REGION_FAULT_COUNT; /* another region has taken this region's place */
	info.instance = r->instance;
	if (!r->info)
		return adopt_info(r, &info, hostname) ? REGION_FAULT_MEMORY : REGION_FAULT_NONE;
	/* The header of an instance never changes. */
	if (r->info->kind != info.kind || r->info->hot != info.hot ||
	    r->info->stripes != info.stripes || r->info->stripe_stride != info.stripe_stride ||
	    r->info->schema != info.schema || r->info->size != info.size ||
	    r->info->max_stripes != info.max_stripes || r->info->flows != info.flows ||
	    r->info->journal != info.journal || r->info->max_flows != info.max_flows ||
	    r->info->journal_lines != info.journal_lines || r->info->start_ns != info.start_ns)
		return REGION_FAULT_CHECK;
	return REGION_FAULT_NONE;
}

int collect_region_synthesize(struct collect_region *r, const struct region_info *info,
			      const char *hostname, uint64_t period_ns)
{
	struct collect_tenant *own = collect_tenant_own(r->host);
	int err;

	if (!own)
		return -ENOMEM;
	collect_tenant_put(r->tenant);
	r->tenant = own;
	r->synthetic = true;
	r->period_ns = period_ns;
	err = adopt_info(r, info, hostname);
	if (err)
		return err;
	r->state = SL_STATE_LIVE;
	r->changed_ns = info->start_ns;
	relaxed_store(r->step, STEP_SYNTHETIC);
	collect_region_queue(r, EVENT_NEW | EVENT_CHANGED);
	return 0;
}

int collect_region_anonymous(struct collect_region *r)
{
	struct region_info info = {
		.instance = r->instance, .size = r->remote.length, .kind = SL_REGION_METRICS};

	return r->info ? 0 : adopt_info(r, &info, collect_host_name(r->host));
}

bool collect_region_visible(const struct collect_region *r, uint64_t now_ns)
{
	uint64_t fresh = relaxed_load(r->fresh_ns), host = relaxed_load(r->host->fresh_ns);
	uint64_t stale = r->c->opts.stale_ns, slow = 3 * r->period_ns;
	uint32_t step = relaxed_load(r->step);

	if (step == STEP_DROPPED || step == STEP_GONE || !fresh)
		return false;
	/*
	 * Final values never change, so they are current as long as the directory lists them, or a
	 * restarted agent may list them again.
	 */
	if (host > fresh && (step == STEP_FINAL ||
			     (step == STEP_UNBOUND && relaxed_load(r->state) != SL_STATE_LIVE)))
		fresh = host;
	if (step == STEP_SYNTHETIC && slow > stale)
		stale = slow; /* not updated in every round */
	/*
	 * If rounds are late, a lap takes longer than its nominal number of periods. Values of this
	 * lap or the previous one are then the newest possible.
	 */
	if (step == STEP_BOUND && host > fresh && fresh >= collect_turn_last_lap(r) && !r->origin)
		fresh = host;
	stale = BASE_MAX(stale, 3 * r->c->opts.period_ns * collect_tenant_every(r->tenant));
	return now_ns < fresh + stale;
}
