// SPDX-License-Identifier: Apache-2.0
/* device.c - device inputs: a decoder and a batch of reports per input */
#include "dta/translate/internal.h"

#include <errno.h>

/*
 * Reports from devices have no reporter number. It would only serve to distinguish the reporters of
 * a sketch, and mappings don't write sketches. The field "exporter" identifies a device.
 */
static void give_block(void *arg, const struct dta_block *b)
{
	struct dta_source *s = arg;
	struct dta_worker *w = s->worker;
	const struct dta_header h = {.tenant = dta_map_tenant(w->opts.map)};
	uint32_t none;

	if (dta_tenants_check(w->tenants, &h, NULL, 0, NULL, 0, &none) != DTA_FINE) {
		s->unproven += b->count;
		return;
	}
	w->account.reports += b->count;
	dta_worker_dispatch(w, &h, b, w->now);
}

static void take_record(void *arg, const struct dta_record *r)
{
	struct dta_source *s = arg;

	dta_exporter_list_record(s->exporters, r);
	dta_map_take(s->batch, r);
}

void dta_worker_device_take(struct dta_worker *w, uint32_t source, const struct dta_datagram *d,
			    uint64_t now, uint64_t real)
{
	struct dta_source *s = &w->source[source];

	w->account.packets++;
	w->account.packets_taken++;
	w->now = now;
	dta_exporter_list_before(s->exporters, &s->decoder->stats, dta_map_stats(s->batch));
	dta_decoder_take(s->decoder, d, now);
	dta_exporter_list_after(s->exporters, d, &s->decoder->stats, dta_map_stats(s->batch), real);
}

void dta_worker_device_flush(struct dta_worker *w, uint32_t source, uint64_t now, bool all)
{
	struct dta_source *s = &w->source[source];

	w->now = now;
	if (!s->batch)
		return;
	if (s->decoder->ops->flush)
		s->decoder->ops->flush(s->decoder, all ? UINT64_MAX : now);
	dta_map_flush(s->batch);
}

int dta_worker_device_open(struct dta_worker *w, uint32_t source)
{
	const enum dta_device kind = w->opts.device[source];
	struct dta_source *s = &w->source[source];

	s->worker = w;
	s->device = kind;
	if (!w->opts.map || kind == DTA_DEVICES)
		return 0;
	s->decoder = dta_decoder_new(dta_device_decoder(kind), w->opts.paths, take_record, s);
	s->batch = dta_map_batch_new(w->opts.map, kind, give_block, s);
	s->exporters = dta_exporter_list_new(kind);
	return s->decoder && s->batch && s->exporters ? 0 : -ENOMEM;
}

void dta_worker_device_close(struct dta_source *s)
{
	if (s->decoder)
		s->decoder->ops->end(s->decoder);
	dta_map_batch_free(s->batch);
	dta_exporter_list_free(s->exporters);
}

void dta_worker_device_account(const struct dta_worker *w, struct dta_translate_account *a)
{
	for (uint32_t i = 0; i < w->sources; i++) {
		const struct dta_source *s = &w->source[i];
		struct dta_device_account *d;

		if (!s->decoder)
			continue;
		d = &a->device[s->device];
		dta_add_counters(&d->decoder, &s->decoder->stats, sizeof(d->decoder));
		dta_add_counters(&d->map, dta_map_stats(s->batch), sizeof(d->map));
		d->unproven += s->unproven;
	}
}
