// SPDX-License-Identifier: Apache-2.0
/*
 * report.c - sidelight/report.h: filters out unchanged values and keys that are not sampled, and
 * packs reports into the open packet.
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <endian.h>
#include <errno.h>
#include <string.h>

#include "report.h"

static const struct sl_report_dest plain;

static int count_refused(struct sl_reporter *r, int err)
{
	if (r)
		r->s.refused++;
	return err;
}

static int count_dropped(struct sl_reporter *r, int err)
{
	r->s.reports++;
	if (err == -EDQUOT)
		r->s.dropped_credits++;
	else if (err == -ENOBUFS)
		r->s.dropped_ring++;
	else
		r->s.dropped_full++;
	return -EAGAIN;
}

/* Legacy formats carry one report per packet, and no packet is kept. */
static int send_legacy(struct sl_reporter *r, const struct dta_block *shape, const void *key,
		       const void *value)
{
	uint8_t p[40];
	size_t n = dta_build_legacy(r->legacy, (uint8_t)r->sequence, shape, key, value, p,
				    sizeof(p));
	int err;

	if (!n)
		return count_refused(r, -EINVAL);
	err = sl__report_send_raw(r, p, n);
	if (err == -EAGAIN)
		return count_dropped(r, err);
	r->s.reports++;
	if (err) {
		r->s.dropped_error++;
		return 0;
	}
	r->sequence++;
	r->s.sent++;
	return 0;
}

static int pack_report(struct sl_reporter *r, const struct dta_block *shape, const void *key,
		       const void *value, uint64_t now_ns)
{
	int err;

	if (r->legacy)
		return send_legacy(r, shape, key, value);
	err = r->flags & SL_REPORTER_SINGLE && r->b.header.reports
		      ? -ENOSPC
		      : dta_put(&r->b, shape, key, value);
	if (err == -ENOSPC) {
		err = sl__report_send(r, false);
		if (err)
			return count_dropped(r, err);
		err = dta_put(&r->b, shape, key, value);
	}
	if (err)
		return count_refused(r, err);
	r->s.reports++;
	r->s.packed++;
	if (shape->flags & DTA_ESSENTIAL)
		r->essential = true;
	if (!r->open) {
		r->open = true;
		r->opened_ns = now_ns;
	}
	if (r->flags & SL_REPORTER_SINGLE)
		sl__report_send(r, false); /* if this fails, the next report sends it */
	else if (now_ns - r->opened_ns >= r->flush_ns)
		sl__report_send(r, true);
	return 0;
}

/* ---- filters ---- */

static bool is_sampled(struct sl_reporter *r, const struct sl_report_dest *dest, const void *key,
		       size_t bytes)
{
	uint64_t x;

	if (!dest->sample)
		return true;
	if (dest->flags & SL_REPORT_SAMPLE_BY_KEY) {
		/* No seed, so that all reporters select the same keys and paths are complete. */
		x = XXH3_64bits(key, bytes);
	} else { /* xorshift64* */
		r->chance ^= r->chance >> 12;
		r->chance ^= r->chance << 25;
		r->chance ^= r->chance >> 27;
		x = r->chance * 0x2545f4914f6cdd1dull;
	}
	return !(x >> (64 - dest->sample));
}

/*
 * Returns the entry in which to store *now once the value has been reported. Sets *same if the
 * value need not be reported. A set has four entries per hash, ordered by last use, most recent
 * first.
 */
static struct sl__change *find_change(struct sl_reporter *r, const struct sl_report_dest *dest,
				      const void *key, size_t key_bytes, const void *value,
				      size_t value_bytes, uint64_t now_ns, struct sl__change *now,
				      bool *same)
{
	uint64_t seed = r->change_seed + dest->store * 0x9e3779b97f4a7c15ull;
	struct sl__change *set, was;
	int i = 0;

	now->key = XXH3_64bits_withSeed(key, key_bytes, seed);
	now->key = now->key ? now->key : 1;
	now->value = XXH3_64bits_withSeed(value, value_bytes, seed);
	now->time_ns = now_ns;
	set = r->change + (now->key & r->change_mask & ~3ull);
	while (i < 3 && set[i].key != now->key)
		i++;
	was = set[i];
	if (was.key != now->key) /* replace the least recently used entry */
		was = (struct sl__change){.key = now->key, .value = ~now->value};
	for (; i > 0; i--)
		set[i] = set[i - 1];
	set[0] = was;
	*same = was.value == now->value && now_ns - was.time_ns < r->refresh_ns;
	return set;
}

/* ---- reports ---- */

static int add_report(struct sl_reporter *r, const struct sl_report_dest *dest, uint8_t opcode,
		      const void *key, size_t key_bytes, const void *value, size_t value_bytes)
{
	struct dta_block shape = {.opcode = opcode};
	struct sl__change now, *change = NULL;
	uint64_t now_ns;
	bool same;
	int err;

	if (!dest)
		dest = &plain;
	if (!r || key_bytes > UINT8_MAX || value_bytes > UINT16_MAX || dest->sample > 63 ||
	    dest->flags & ~(SL_REPORT_IMMEDIATE | SL_REPORT_ESSENTIAL | SL_REPORT_CHANGES |
			    SL_REPORT_SAMPLE_BY_KEY))
		return count_refused(r, -EINVAL);
	if (opcode == DTA_KEYWRITE || opcode == DTA_INCREMENT || opcode == DTA_POSTCARD)
		shape.copies = dest->copies ? dest->copies : 1;
	else if (dest->copies)
		return count_refused(r, -EINVAL);
	shape.flags = (dest->flags & SL_REPORT_IMMEDIATE ? DTA_IMMEDIATE : 0) |
		      (dest->flags & SL_REPORT_ESSENTIAL ? DTA_ESSENTIAL : 0);
	shape.store = dest->store;
	shape.key_bytes = (uint8_t)key_bytes;
	shape.value_bytes = (uint16_t)value_bytes;
	if (!is_sampled(r, dest, key, key_bytes)) {
		r->s.reports++;
		r->s.sampled_out++;
		return 0;
	}
	now_ns = sl__report_now();
	if (dest->flags & SL_REPORT_CHANGES && r->change && opcode == DTA_KEYWRITE) {
		change = find_change(r, dest, key, key_bytes, value, value_bytes, now_ns, &now,
				     &same);
		if (same) {
			r->s.reports++;
			r->s.unchanged++;
			return 0;
		}
	}
	err = pack_report(r, &shape, key, value, now_ns);
	if (change && !err)
		*change = now;
	return err;
}

int sl_report_keywrite(struct sl_reporter *r, const struct sl_report_dest *dest, const void *key,
		       size_t key_bytes, const void *value, size_t value_bytes)
{
	return add_report(r, dest, DTA_KEYWRITE, key, key_bytes, value, value_bytes);
}

int sl_report_append(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t list,
		     const void *value, size_t value_bytes)
{
	uint32_t key = htobe32(list);

	return add_report(r, dest, DTA_APPEND, &key, 4, value, value_bytes);
}

int sl_report_increment(struct sl_reporter *r, const struct sl_report_dest *dest, const void *key,
			size_t key_bytes, uint64_t addend)
{
	uint64_t value = htobe64(addend);

	return add_report(r, dest, DTA_INCREMENT, key, key_bytes, &value, 8);
}

int sl_report_postcard(struct sl_reporter *r, const struct sl_report_dest *dest, const void *key,
		       size_t key_bytes, uint32_t hop, uint32_t hops, uint32_t data)
{
	uint8_t value[8] = {(uint8_t)hop, (uint8_t)hops};

	if (hop >= hops || hops > SL_STORE_HOPS_MAX)
		return count_refused(r, -EINVAL);
	data = htobe32(data);
	memcpy(value + 4, &data, 4);
	return add_report(r, dest, DTA_POSTCARD, key, key_bytes, value, 8);
}

/* ---- sketches ---- */

static struct sl__sketch *sketch_of(struct sl_reporter *r, uint16_t store, uint32_t epoch)
{
	struct sl__sketch *s = NULL;

	for (uint32_t i = 0; i < SL__REPORT_SKETCHES; i++) {
		if (r->sketch[i].used && r->sketch[i].store == store) {
			s = &r->sketch[i];
			break;
		}
		if (!r->sketch[i].used && !s)
			s = &r->sketch[i];
	}
	if (s && (!s->used || s->epoch != epoch))
		*s = (struct sl__sketch){.store = store, .used = true, .epoch = epoch};
	return s;
}

static int report_cells(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t epoch,
			uint32_t row, uint32_t column, const uint64_t *words,
			const uint8_t *registers, uint32_t count)
{
	uint32_t size = words ? 8 : 1, key[3], most;
	uint8_t value[DTA_SKETCH_VALUE_MAX];
	struct sl__sketch *s;
	int err;

	if (!dest)
		dest = &plain;
	if (!r || (!words && !registers) || !count || column + (uint64_t)count > UINT32_MAX ||
	    dest->sample || r->legacy)
		return count_refused(r, -EINVAL);
	s = sketch_of(r, dest->store, epoch);
	if (!s)
		return count_refused(r, -ENOSPC);
	/* The room in an empty packet. */
	most = r->packet_bytes - DTA_HEADER_BYTES - DTA_BLOCK_BYTES - sizeof(key) -
	       (r->key ? DTA_PROOF_BYTES : 0);
	most = (most < sizeof(value) ? most : (uint32_t)sizeof(value)) / size;
	for (uint32_t done = 0, n; done < count; done += n) {
		n = count - done < most ? count - done : most;
		for (uint32_t i = 0; words && i < n; i++) {
			uint64_t w = htobe64(words[done + i]);

			memcpy(value + 8 * i, &w, 8);
		}
		if (registers)
			memcpy(value, registers + done, n);
		key[0] = htobe32(epoch);
		key[1] = htobe32(row);
		key[2] = htobe32(column + done);
		err = add_report(r, dest, DTA_SKETCH, key, sizeof(key), value, (size_t)n * size);
		if (err)
			return err;
		s->items++;
	}
	return 0;
}

int sl_report_sketch(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t epoch,
		     uint32_t row, uint32_t column, const uint64_t *words, uint32_t count)
{
	return report_cells(r, dest, epoch, row, column, words, NULL, count);
}

int sl_report_registers(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t epoch,
			uint32_t column, const uint8_t *registers, uint32_t count)
{
	return report_cells(r, dest, epoch, 0, column, NULL, registers, count);
}

int sl_report_sketch_end(struct sl_reporter *r, const struct sl_report_dest *dest, uint32_t epoch)
{
	uint32_t key = htobe32(epoch), value;
	struct sl__sketch *s;
	int err;

	if (!dest)
		dest = &plain;
	if (!r || dest->sample || r->legacy)
		return count_refused(r, -EINVAL);
	s = sketch_of(r, dest->store, epoch);
	if (!s)
		return count_refused(r, -ENOSPC);
	value = htobe32(s->items);
	err = add_report(r, dest, DTA_SKETCH_END, &key, 4, &value, 4);
	if (!err)
		s->used = false;
	return err;
}

/* ---- public functions ---- */

int sl_reporter_flush(struct sl_reporter *r)
{
	return r && sl__report_send(r, true) ? -EAGAIN : 0;
}

int sl_reporter_poll(struct sl_reporter *r)
{
	uint64_t now;

	if (!r)
		return -EINVAL;
	now = sl__report_now();
	if (r->open && now - r->opened_ns >= r->flush_ns)
		sl__report_send(r, true);
	sl__report_answers(r);
	sl__report_retry(r, now);
	if (!r->open && r->beats < 2 && now - r->sent_ns >= (r->beats ? 8 : 1) * SL__REPORT_BEAT_NS)
		sl__report_heartbeat(r);
	return 0;
}

int sl_reporter_stats(const struct sl_reporter *r, struct sl_reporter_stats *stats)
{
	struct sl_reporter_stats now;

	if (!r || !SL__HAS(stats, refused))
		return -EINVAL;
	now = r->s;
	now.waiting = 0;
	for (uint32_t i = 0; i < r->kept; i++)
		now.waiting += r->backup[(r->head + i) % r->backups].bytes != 0;
	now.reporter = r->reporter;
	now.incarnation = r->incarnation;
	sl__answer_give(stats, &now, sizeof(now));
	return 0;
}
