/* SPDX-License-Identifier: Apache-2.0 */
/* client_output.c - a session's output, and the one in front of it that the engine knows */
#include "dta/translate/client_internal.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/output_rdma.h"

#define OFFER_NS 1000000000ull /* an unanswered queue pair is offered again */

/* ---- the engine's output ---- */

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

/* ---- the session's output ---- */

static void send_immediate(struct dta_client *c, uint32_t i)
{
	if (c->line && c->welcome)
		dta_control_line_write(c->line,
				       json_pack("{s:s, s:I, s:I}", "type", "immediate", "number",
						 (json_int_t)c->immediate[i].number, "count",
						 (json_int_t)c->immediate[i].count),
				       -1);
}

/* shm has no completions: the number goes over the control channel, coalesced. */
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
 * raw: offers a new queue pair to the store server. One at a time: an answer does not name the
 * offer.
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

/* Connects to the port of the welcome; the instance is the proof of admission. */
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
	 * raw stays open, and repeats operations over the next queue pair; not to another store
	 * server, where addresses and keys may mean other memory.
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
	/* Not before the welcome, which offers one, too. */
	if (state == DTA_OUTPUT_DOWN && c->opts.output == DTA_CLIENT_RAW && c->line && c->welcome &&
	    now > c->offered_ns + OFFER_NS)
		offer_queue(c);
}

void dta_client_output_close(struct dta_client *c)
{
	if (!c->out)
		return;
	dta_client_output_stats(c, &c->before);
	/* Operations in flight may have taken effect. */
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
		return "an invalid queue pair";
	err = dta_output_raw_connect(c->out, &theirs);
	if (err == -EMSGSIZE) {
		dta_client_output_close(c); /* the next session opens one for smaller packets */
		return "the peer's MTU became smaller";
	}
	return err == -EALREADY ? "an unsolicited queue pair"
	       : err		? "an unreachable queue pair"
				: NULL;
}

void dta_client_output_notify(struct dta_client *c)
{
	for (uint32_t i = 0; i < c->immediates; i++)
		send_immediate(c, i);
	c->immediates = 0;
}

void dta_client_output_stats(const struct dta_client *c, struct dta_output_stats *out)
{
	const uint64_t *before = (const uint64_t *)&c->before;
	struct dta_output_stats s = {0};
	uint64_t *sum = (uint64_t *)&s;

	if (c->out)
		c->out->ops->stats(c->out, &s);
	for (size_t i = 0; i < offsetof(struct dta_output_stats, last_error) / sizeof(*sum); i++)
		sum[i] += before[i];
	if (!s.last_error[0])
		memcpy(s.last_error, c->before.last_error, sizeof(s.last_error));
	*out = s;
}
