// SPDX-License-Identifier: Apache-2.0
/*
 * net_live.c - 'sidelight tcp net --agent A --agent B': reads the rings of two hosts in turn with
 * one-sided READs. The record of an arrival is matched after the next READ of the sender's ring,
 * which then holds the record of the transmission.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "cli/common/remote.h"
#include "cli/tcp/net.h"

#define LOOK_MS 10 /* time between two READs of the rings */
/* a missing arrival counts as lost after two windows plus this time */
#define LINGER_NS   1000000000
#define MARGIN_NS   200000000	/* maximum delay between a record and its match */
#define MAX_RECORDS 4096u	/* maximum number of records in one READ */
#define OUTAGE_NS   30000000000 /* the command exits if a connection stays lost for longer */
#define AGAIN_MS    200		/* time between two attempts to reconnect */

struct net_live_host {
	const char *target;
	struct cli_remote remote;
	struct region_nic_info info;
	uint64_t instance;     /* instance number of the ring */
	uint64_t next, latest; /* number of the next record, and time of the latest record */
	uint64_t heard;	       /* local time of the READ that fetched the latest record */
	uint64_t lost_ns;      /* time when the ring became unreadable; 0 means it is readable */
	bool begun;
};

static void close_host(struct net_live_host *h)
{
	if (h->info.records)
		fabric_unmap(h->remote.fabric, &h->remote.region);
	h->info.records = 0;
	cli_remote_close(&h->remote);
}

/*
 * Opens the host's ring. Reading continues in a known ring, and starts at the head of a new one.
 * Returns NULL or an error message.
 */
static const char *open_host(struct net_live_host *h)
{
	const struct cli_dump_remote_opts o = {.target = h->target, .fabric.gid_index = -1};
	const char *why = cli_remote_find(&h->remote, &o, SL_REGION_NIC);
	uint64_t instance;

	if (why)
		return why;
	instance = ((const struct sl_region_header *)h->remote.buffer)->instance;
	if (region_nic_info_parse(h->remote.buffer, h->remote.region.length, &h->info))
		return "its ring of segments is invalid";
	if (h->instance != instance) {
		h->instance = instance;
		h->next = UINT64_MAX;
		h->begun = false;
	}
	return NULL;
}

static bool read_hot_line(struct net_live_host *h, struct region_nic_hot *line)
{
	struct cli_remote *r = &h->remote;
	enum region_fault fault = CLI_REMOTE_SETTLE(r, h->info.hot, SL_LINE_SIZE,
						    region_nic_hot_parse(r->buffer, line));

	if (fault && !r->error)
		r->error = EBADMSG;
	return !fault;
}

/*
 * READs records [next, to), which are contiguous. Returns false if a record is unfinished, or on an
 * error; the error is then in h->remote.error.
 */
static bool read_piece(struct net_live_host *h, uint64_t to, uint64_t head, uint64_t *missed,
		       struct tcp_net_match *m, int side)
{
	uint64_t from = h->next, place = from & (h->info.records - 1);
	const uint64_t(*w)[SL_NIC_WORDS] = h->remote.buffer;
	struct region_nic_record r;

	if (!cli_remote_read(&h->remote, h->info.ring + place * SL_NIC_SIZE,
			     (uint32_t)(to - from) * SL_NIC_SIZE))
		return false;
	for (; h->next < to; h->next++) {
		enum region_fault fault = region_nic_record_parse(w[h->next - from], h->next, &r);

		if (region_nic_comes(fault, &r, h->next, head, &h->info))
			return false;
		if (fault) {
			++*missed;
			continue;
		}
		if (!h->begun)
			tcp_net_match_range(m, side, r.time_ns, UINT64_MAX);
		h->begun = true;
		if (*missed)
			tcp_net_match_gap(m, side, *missed, r.time_ns);
		*missed = 0;
		if (r.time_ns > h->latest) {
			h->latest = r.time_ns;
			h->heard = base_now_ns();
		}
		tcp_net_match_add(m, side, &r);
	}
	return true;
}

/*
 * READs all new records of a host. Returns false on an error; the error is then in h->remote.error.
 */
static bool read_new_records(struct net_live_host *h, struct tcp_net_match *m, int side)
{
	struct region_nic_hot line;
	uint64_t missed = 0;

	/* Shared memory of an agent that has exited stays readable, so check the link first. */
	if (fabric_drive(h->remote.fabric, base_now_ns(), NULL) != FABRIC_UP) {
		h->remote.error = ENOTCONN;
		return false;
	}
	if (!read_hot_line(h, &line))
		return false;
	if (h->next > line.head) /* first READ: skip the existing records, which are too old */
		h->next = line.head;
	if (line.head - h->next > h->info.records) {
		missed = line.head - h->next - h->info.records;
		h->next = line.head - h->info.records;
	}
	while (h->next < line.head) {
		uint64_t end = (h->next | (h->info.records - 1)) + 1; /* end of the ring */
		uint64_t most = h->remote.bytes / SL_NIC_SIZE;

		most = BASE_MIN(most, MAX_RECORDS);
		end = BASE_MIN(end, line.head);
		end = BASE_MIN(end, h->next + most);
		if (!read_piece(h, end, line.head, &missed, m, side))
			break;
	}
	if (missed)
		tcp_net_match_gap(m, side, missed, h->latest);
	return !h->remote.error;
}

/* Returns the host's time before which all of its records have been read. */
static uint64_t read_up_to(const struct net_live_host *h)
{
	uint64_t since = h->latest ? base_now_ns() - h->heard : 0;

	return h->latest + (since > MARGIN_NS ? since - MARGIN_NS : 0);
}

static void expire_segments(struct tcp_net_stat *s, const struct net_live_host *h)
{
	uint64_t linger = 2 * cli_tcp_net_settings.stat.window_ns + LINGER_NS;
	struct tcp_net_totals t;

	tcp_net_stat_totals(s, &t);
	for (int i = 0; i < 2; i++)
		if (read_up_to(&h[i]) > linger)
			tcp_net_match_expire(tcp_net_stat_match(s), i, read_up_to(&h[i]) - linger,
					     t.known, i ? -t.theta : t.theta);
}

/*
 * Reconnects to a host whose ring became unreadable: the link was lost or the agent restarted.
 * Returns 1 if connected, 0 if told to stop or if end has passed, or a negative errno.
 */
static int open_again(const struct base_command *self, struct net_live_host *h,
		      struct cli_tcp_screen *screen, int stop, uint64_t end)
{
	const char *why = "it cannot be read";

	if (!h->lost_ns) {
		h->lost_ns = base_now_ns();
		base_failure(self, "%s: %s; reconnecting", h->target, strerror(h->remote.error));
	}
	while (base_now_ns() - h->lost_ns < OUTAGE_NS) {
		close_host(h);
		if (cli_tcp_screen_wait(screen, stop, AGAIN_MS) || base_now_ns() >= end)
			return 0;
		why = open_host(h);
		if (!why)
			return 1;
	}
	base_failure(self, "%s: %s", h->target, why);
	return -ETIMEDOUT;
}

static int follow_hosts(const struct base_command *self, struct net_live_host *h,
			struct cli_tcp_net_view *view)
{
	uint64_t end = cli_tcp_end_ns();
	uint64_t show = base_now_ns() + cli_tcp_common.interval_ns;
	struct tcp_net_match *m = tcp_net_stat_match(view->stat);
	int stop = base_stop_fd(), err = 0;
	bool last = false;

	if (stop < 0)
		return base_failure(self, "%s", strerror(-stop));
	while (!err) {
		for (int s = 0; s < 2 && !err; s++) {
			if (!read_new_records(&h[s], m, s)) {
				err = open_again(self, &h[s], &view->screen, stop, end);
				last |= !err;
				err = BASE_MIN(err, 0);
				break;
			}
			h[s].lost_ns = 0;
			tcp_net_match_run(m); /* match the arrivals at the other host */
			tcp_net_match_hold(m, s);
		}
		if (last || err)
			break;
		if (base_now_ns() >= show) {
			show += cli_tcp_common.interval_ns;
			err = tcp_net_stat_count(view->stat, read_up_to(&h[0]), false);
			expire_segments(view->stat, h);
			if (!view->screen.paused)
				cli_tcp_net_show(view);
			fflush(view->out);
		}
		last = cli_tcp_screen_wait(&view->screen, stop, LOOK_MS) || base_now_ns() >= end;
	}
	close(stop);
	/* A is READ after B: arrivals at B up to its last READ were sent before this READ of A. */
	if (h[0].info.records && read_new_records(&h[0], m, 0))
		tcp_net_match_run(m);
	if (tcp_net_stat_count(view->stat, 0, true))
		return base_failure(self, "%s", strerror(ENOMEM));
	expire_segments(view->stat, h);
	cli_tcp_net_show(view);
	return err ? BASE_EXIT_FAILURE : BASE_EXIT_OK;
}

int cli_tcp_net_live(const struct base_command *self, struct cli_tcp_net_view *view)
{
	const struct base_strings *agents = &cli_tcp_net_settings.agents;
	struct net_live_host h[2] = {0};
	int code = BASE_EXIT_OK;
	const char *why;

	for (int s = 0; s < 2 && !code; s++) {
		view->name[s] = h[s].target = agents->v[s];
		why = open_host(&h[s]);
		if (why)
			code = base_failure(self, "%s: %s", agents->v[s], why);
	}
	if (!code) {
		view->stat = tcp_net_stat_open(&cli_tcp_net_settings.stat);
		cli_tcp_ready("records=%u,%u", h[0].info.records, h[1].info.records);
		code = view->stat ? follow_hosts(self, h, view)
				  : base_failure(self, "%s", strerror(errno));
	}
	tcp_net_stat_close(view->stat);
	for (int s = 0; s < 2; s++)
		close_host(&h[s]);
	return code;
}
