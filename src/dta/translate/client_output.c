/* SPDX-License-Identifier: Apache-2.0 */
/* client_output.c - opens, drives and closes the output of a session */
#include "dta/translate/client_internal.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/base.h"
#include "dta/io/output_rdma.h"

#define OFFER_NS 1000000000ull /* time after which an unanswered queue pair is offered again */

static void send_immediate(struct dta_client *c, uint32_t i)
{
	if (c->line && c->welcome)
		dta_control_line_write(c->line,
				       json_pack("{s:s, s:I, s:I}", "type", "immediate", "number",
						 (json_int_t)c->immediate[i].number, "count",
						 (json_int_t)c->immediate[i].count),
				       -1);
}

/*
 * shm has no completions, so this sends the number over the control channel. Repeated numbers are
 * merged.
 */
static void note_immediate(void *arg, uint32_t number)
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

struct dta_output *dta_client_output_shm(struct dta_client *c)
{
	return dta_output_shm(note_immediate, c);
}

/*
 * raw: offers a new queue pair to the store server. Only one offer may be open, because answers
 * don't identify the offer.
 */
static void offer_queue(struct dta_client *c)
{
	struct dta_roce_end ours;

	c->offered_ns = base_now_ns();
	if (!dta_output_raw_ours(c->out, &ours))
		dta_control_line_write(c->line, dta_roce_end_json(&ours), -1);
}

/*
 * Connects to the port given in the welcome. The instance proves that this translator was admitted.
 */
static struct dta_output *open_verbs(struct dta_client *c)
{
	struct dta_output_verbs_opts o = c->opts.verbs;

	o.host = o.host ? o.host : c->address.host;
	o.port = c->port;
	o.name = c->opts.name;
	o.instance = c->instance;
	return dta_output_verbs(&o, c->said, sizeof(c->said));
}

const char *dta_client_output_open(struct dta_client *c)
{
	if (c->opts.output == DTA_CLIENT_SHM)
		return NULL;
	/*
	 * A raw output stays open and repeats operations over the next queue pair. This is not
	 * possible with another store server, where addresses and rkeys may refer to other memory.
	 */
	if (c->out && c->out_instance != c->instance && !c->opts.raw.file)
		dta_client_output_close(c);
	c->out_instance = c->instance;
	if (!c->out)
		c->out = c->opts.output == DTA_CLIENT_RAW
				 ? dta_output_raw(&c->opts.raw, c->said, sizeof(c->said))
				 : open_verbs(c);
	dta_engine_output(c->engine, c->out);
	if (!c->out)
		return c->said;
	if (c->opts.output == DTA_CLIENT_RAW && !c->opts.raw.file)
		offer_queue(c);
	return NULL;
}

void dta_client_output_drive(struct dta_client *c, uint64_t now)
{
	const enum dta_output_state state = c->out->ops->drive(c->out, now);

	c->up = state == DTA_OUTPUT_UP;
	/* Not before the welcome, because handling it makes an offer as well. */
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
	c->before.unconfirmed += c->out->outstanding;
	if (c->engine)
		dta_engine_output(c->engine, NULL);
	c->out->ops->close(c->out);
	c->out = NULL;
	c->up = false;
}

const char *dta_client_output_queue(struct dta_client *c, const json_t *message)
{
	struct dta_roce_end theirs;
	int err;

	if (c->opts.output != DTA_CLIENT_RAW || c->opts.raw.file)
		return NULL;
	if (dta_roce_end_of_json(message, &theirs))
		return "the queue pair is invalid";
	err = dta_output_raw_connect(c->out, &theirs);
	if (err == -EMSGSIZE) {
		/* the next session opens an output for the smaller MTU */
		dta_client_output_close(c);
		return "the MTU has decreased";
	}
	return err == -EALREADY ? "the collector sent a queue pair without being asked"
	       : err		? "the queue pair cannot be reached"
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
	struct dta_output_stats s = c->out ? c->out->stats : (struct dta_output_stats){0};

	dta_add_counters(&s, &c->before, offsetof(struct dta_output_stats, last_error));
	if (!s.last_error[0])
		memcpy(s.last_error, c->before.last_error, sizeof(s.last_error));
	*out = s;
}
