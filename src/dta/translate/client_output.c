/* SPDX-License-Identifier: Apache-2.0 */
/* client_output.c - the output behind a session, and in front of it the one that the engine knows.
 */
#include "dta/translate/client_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/output_rdma.h"

#define OFFER_NS 1000000000ull /* a queue pair that nobody took is offered anew */

/* ---- what the engine writes to ---- */

static struct dta_output *behind(struct dta_output *o)
{
	return ((struct dta_client_front *)o)->client->out;
}

static int front_write(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		       const void *data, uint32_t bytes)
{
	struct dta_output *b = behind(o);

	return b ? b->ops->write(b, to, offset, data, bytes) : -ENOTCONN;
}

static int front_write_immediate(struct dta_output *o, const struct dta_object *to, uint64_t offset,
				 const void *data, uint32_t bytes, uint32_t immediate)
{
	struct dta_output *b = behind(o);

	return b ? b->ops->write_immediate(b, to, offset, data, bytes, immediate) : -ENOTCONN;
}

static int front_add(struct dta_output *o, const struct dta_object *to, uint64_t offset,
		     uint64_t addend)
{
	struct dta_output *b = behind(o);

	return b ? b->ops->add(b, to, offset, addend) : -ENOTCONN;
}

static void front_flush(struct dta_output *o)
{
	struct dta_output *b = behind(o);

	if (b)
		b->ops->flush(b);
}

static enum dta_output_state front_drive(struct dta_output *o, uint64_t now_ns)
{
	struct dta_output *b = behind(o);

	return b ? b->ops->drive(b, now_ns) : DTA_OUTPUT_DOWN;
}

static uint64_t front_outstanding(const struct dta_output *o)
{
	const struct dta_output *b = ((const struct dta_client_front *)o)->client->out;

	return b ? b->ops->outstanding(b) : 0;
}

static void front_stats(const struct dta_output *o, struct dta_output_stats *out)
{
	dta_client_output_stats(((const struct dta_client_front *)o)->client, out);
}

static void front_close(struct dta_output *o)
{
	(void)o;
}

const struct dta_output_ops dta_client_front_ops = {.name = "front",
						    .write = front_write,
						    .write_immediate = front_write_immediate,
						    .add = front_add,
						    .flush = front_flush,
						    .drive = front_drive,
						    .outstanding = front_outstanding,
						    .stats = front_stats,
						    .close = front_close};

/* ---- the session's ---- */

static void tell_immediate(struct dta_client *c, uint32_t i)
{
	if (c->line && c->welcome)
		dta_control_line_write(c->line,
				       json_pack("{s:s, s:I, s:I}", "type", "immediate", "number",
						 (json_int_t)c->immediate[i].number, "count",
						 (json_int_t)c->immediate[i].count),
				       -1);
}

/* shm has no completion to carry a number: the owner is told over the control channel, soon. */
static void immediate(void *arg, uint32_t number)
{
	struct dta_client *c = arg;
	uint32_t i = 0;

	while (i < c->immediates && c->immediate[i].number != number)
		i++;
	if (i == CLIENT_IMMEDIATES) {
		dta_client_output_notify(c);
		i = 0;
	}
	if (i == c->immediates) {
		c->immediate[c->immediates].number = number;
		c->immediate[c->immediates++].count = 0;
	}
	c->immediate[i].count++;
}

int dta_client_output_shm(struct dta_client *c)
{
	c->out = dta_output_shm(immediate, c);
	return c->out ? 0 : -ENOMEM;
}

/*
 * raw: a new queue pair of ours, which the owner makes the other end of. One at a time: an answer
 * does not say which it is for.
 */
static void offer_queue(struct dta_client *c)
{
	struct dta_roce_end ours;

	c->offered_ns = base_now_ns();
	if (!dta_output_raw_ours(c->out, &ours))
		dta_control_line_write(c->line, dta_roce_end_json(&ours), -1);
}

static struct dta_output *open_raw(struct dta_client *c)
{
	const struct dta_output_raw_opts o = {.interface = c->opts.file ? NULL : c->opts.interface,
					      .xdp = c->opts.xdp,
					      .file = c->opts.file};

	return dta_output_raw(&o, c->said, sizeof(c->said));
}

/* To where the welcome says; who doesn't know its instance is not let in. */
static struct dta_output *open_verbs(struct dta_client *c)
{
	const struct dta_output_verbs_opts o = {.host = c->opts.rdma_host ? c->opts.rdma_host
									  : c->host,
						.port = c->port,
						.device = c->opts.device,
						.gid_index = c->opts.gid_index,
						.ib_port = c->opts.ib_port,
						.name = c->opts.name,
						.instance = c->instance};

	return dta_output_verbs(&o, c->said, sizeof(c->said));
}

const char *dta_client_output_open(struct dta_client *c)
{
	if (c->opts.output == DTA_CLIENT_SHM)
		return NULL;
	/*
	 * raw stays: what was on its way is given again over the next queue pair. But not to
	 * another owner: its memory is elsewhere, and what we know of the last one's might mean
	 * something else there.
	 */
	if (c->out && c->out_instance != c->instance && !c->opts.file)
		dta_client_output_close(c);
	c->out_instance = c->instance;
	if (!c->out)
		c->out = c->opts.output == DTA_CLIENT_RAW ? open_raw(c) : open_verbs(c);
	if (!c->out)
		return c->said;
	if (c->opts.output == DTA_CLIENT_RAW && !c->opts.file)
		offer_queue(c);
	return NULL;
}

void dta_client_output_drive(struct dta_client *c, uint64_t now)
{
	const enum dta_output_state state = c->out->ops->drive(c->out, now);

	c->up = state == DTA_OUTPUT_UP;
	/* Before the welcome this would be a second one: the welcome offers one, too. */
	if (state == DTA_OUTPUT_DOWN && c->opts.output == DTA_CLIENT_RAW && c->line && c->welcome &&
	    now > c->offered_ns + OFFER_NS)
		offer_queue(c);
}

void dta_client_output_close(struct dta_client *c)
{
	if (!c->out)
		return;
	dta_client_output_stats(c, &c->before);
	/* What was on its way may or may not have come. */
	c->before.unconfirmed += c->out->ops->outstanding(c->out);
	c->out->ops->close(c->out);
	c->out = NULL;
	c->up = false;
}

const char *dta_client_output_queue(struct dta_client *c, const json_t *message)
{
	struct dta_roce_end theirs;
	int err;

	if (c->opts.output != DTA_CLIENT_RAW || c->opts.file)
		return NULL;
	if (dta_roce_end_of_json(message, &theirs))
		return "a queue pair that is not sound";
	err = dta_output_raw_connect(c->out, &theirs);
	if (err == -EMSGSIZE) {
		dta_client_output_close(c); /* the next session makes one for smaller packets */
		return "its device takes smaller packets now";
	}
	return err == -EALREADY ? "a queue pair that nobody asked for"
	       : err		? "a queue pair that we can't reach"
				: NULL;
}

void dta_client_output_notify(struct dta_client *c)
{
	for (uint32_t i = 0; i < c->immediates; i++)
		tell_immediate(c, i);
	c->immediates = 0;
}

void dta_client_output_stats(const struct dta_client *c, struct dta_output_stats *out)
{
	struct dta_output_stats s = {0};

	if (c->out)
		c->out->ops->stats(c->out, &s);
	s.writes += c->before.writes;
	s.adds += c->before.adds;
	s.immediates += c->before.immediates;
	s.bytes += c->before.bytes;
	s.completed += c->before.completed;
	s.unconfirmed += c->before.unconfirmed;
	s.failed += c->before.failed;
	s.again += c->before.again;
	s.naks += c->before.naks;
	s.resyncs += c->before.resyncs;
	s.connects += c->before.connects;
	s.disconnects += c->before.disconnects;
	if (!s.last_error[0])
		memcpy(s.last_error, c->before.last_error, sizeof(s.last_error));
	*out = s;
}
