// SPDX-License-Identifier: Apache-2.0
/* loader.c - starts the loader process and exchanges messages with it. */
#include "source/tcp/loader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/child.h"
#include "source/tcp/loader_message.h"

#define STOP_MS 30000

struct tcp_loader {
	struct base_child_opts opts;
	struct base_child *child;
	/* number of calls skipped with this loader, and with earlier loaders */
	uint64_t missed, missed_before;
	uint64_t filters_refused;
	uint32_t serial; /* serial number of the last filter sent */
	bool awaited;	 /* the loader has not answered that filter yet */
	int result;	 /* its last answer: 0, or -errno and the reason */
	char reason[LOADER_TEXT];
	char *filter; /* message that set the current filter, or NULL */
	size_t filter_bytes;
	char *asked; /* unanswered message that sets another filter, or NULL */
	size_t asked_bytes;
};

/*
 * If a filter replaces the one in the options, a restarted loader must not record connections by
 * the latter, which may match far more. Until it gets the filter, and for good if it refuses it, it
 * matches nothing: no namespace has the inode number 1, because Linux numbers them from about
 * 0xf0000000. All parts filter by namespace.
 */
static void run_loader(void *arg, const struct base_child_start *with)
{
	struct tcp_loader_opts o = *(const struct tcp_loader_opts *)arg;

	if (with->bytes)
		o.flows.filter = (struct tcp_filter){.netns = "1"};
	prctl(PR_SET_NAME, "sidelight-tcp");
	tcp_loader_serve(BASE_CHILD_SOCK, &o);
}

int tcp_loader_fork(const struct tcp_loader_opts *opts, struct tcp_loader **out)
{
	struct tcp_loader *l = calloc(1, sizeof(*l));
	int err;

	*out = NULL;
	if (!l)
		return -ENOMEM;
	l->opts = (struct base_child_opts){.name = "tcp",
					   .what = "the eBPF loader",
					   .log = "tcp",
					   .run = run_loader,
					   .arg = (void *)(uintptr_t)opts};
	l->child = base_child_fork(&l->opts);
	if (!l->child) {
		err = -errno;
		free(l);
		return err;
	}
	*out = l;
	return 0;
}

int tcp_loader_start(struct tcp_loader *l)
{
	return base_child_start(l->child, NULL);
}

/* Assigns the received descriptors to the parts. Returns false if there are too few or too many. */
static bool assign_tables(const struct tcp_message *m, const int *fds, size_t n,
			  struct tcp_loader_table *tables)
{
	size_t used = 0;

	for (int i = 0; i < TCP_PARTS; i++) {
		struct tcp_loader_table *t = &tables[i];

		if (!m->part[i].bytes)
			continue;
		if (used + 1 + !m->part[i].read_only > n)
			return false;
		t->bytes = m->part[i].bytes;
		t->fd = fds[used++];
		t->read_only = m->part[i].read_only ? -abs(m->part[i].read_only) : fds[used++];
	}
	return used == n;
}

/* Receives a message and its descriptors, which the caller closes even if it is invalid. */
static int receive_any(struct tcp_loader *l, int flags, struct tcp_message *m, int fds[LOADER_FDS],
		       size_t *n)
{
	ssize_t got = tcp_message_receive(tcp_loader_fd(l), m, sizeof(*m), flags, fds, n);

	if (got <= 0)
		return got ? (int)got : -EPIPE;
	m->text[sizeof(m->text) - 1] = 0;
	return got == sizeof(*m) ? 0 : -EPROTO;
}

/* tcp_loader_event() receives the answer. */
static int send_filter_again(struct tcp_loader *l)
{
	l->serial++;
	memcpy(l->filter + offsetof(struct tcp_message_set, serial), &l->serial, sizeof(l->serial));
	l->awaited = true;
	return tcp_message_send(tcp_loader_fd(l), l->filter, l->filter_bytes, NULL, 0);
}

int tcp_loader_loaded(struct tcp_loader *l, struct tcp_loader_table tables[TCP_PARTS], char *why,
		      size_t bytes)
{
	int fds[LOADER_FDS], err;
	struct tcp_message m;
	size_t n = 0;

	for (int i = 0; i < TCP_PARTS; i++)
		tables[i] = (struct tcp_loader_table){-1, -ENOENT, 0};
	err = receive_any(l, 0, &m, fds, &n);
	if (err && err != -EPROTO)
		return base_fail(why, bytes, err, "the eBPF loader exited before it was ready");
	if (!err && m.type == LOADER_LOADED && !m.error && assign_tables(&m, fds, n, tables)) {
		if (!l->filter || !send_filter_again(l))
			return 0;
		err = -EPIPE;
	}
	while (n)
		close(fds[--n]);
	for (int i = 0; i < TCP_PARTS; i++)
		tables[i] = (struct tcp_loader_table){-1, -ENOENT, 0};
	if (err || m.type != LOADER_LOADED || m.error >= 0)
		return base_fail(why, bytes, -EPROTO, "the eBPF loader sent an invalid response");
	return base_fail(why, bytes, m.error, "%s", m.text);
}

int tcp_loader_fd(const struct tcp_loader *l)
{
	return base_child_sock(l->child);
}

uint64_t tcp_loader_missed(const struct tcp_loader *l)
{
	return l->missed_before + l->missed;
}

uint64_t tcp_loader_filters_refused(const struct tcp_loader *l)
{
	return l->filters_refused;
}

/* Handles the answer to the last filter. */
static void take_answer(struct tcp_loader *l, const struct tcp_message *m)
{
	l->awaited = false;
	l->result = -abs(m->error);
	snprintf(l->reason, sizeof(l->reason), "%s", m->text);
	if (!l->asked) {
		/* A restarted loader answers the filter that was set in an earlier one. */
		if (!m->error)
			return;
		l->filters_refused++;
		base_logf(BASE_ERROR, "tcp",
			  "no connections are recorded until another filter is set: the restarted "
			  "eBPF loader refuses the filter set by REST: %s",
			  m->text);
	} else if (m->error) {
		free(l->asked);
	} else {
		free(l->filter);
		l->filter = l->asked;
		l->filter_bytes = l->asked_bytes;
	}
	l->asked = NULL;
}

/* Receives and handles a message. Returns 0 or -errno. */
static int receive_message(struct tcp_loader *l)
{
	struct tcp_message m;
	int fds[LOADER_FDS], err;
	size_t n;

	err = receive_any(l, MSG_DONTWAIT, &m, fds, &n);
	while (n)
		close(fds[--n]);
	if (err)
		return err;
	if (m.type == LOADER_MISSED)
		l->missed = m.missed;
	else if (m.type != LOADER_IS_SET)
		return -EPROTO;
	else if (l->awaited && m.serial == l->serial)
		take_answer(l, &m);
	return 0;
}

int tcp_loader_event(struct tcp_loader *l)
{
	int err;

	do
		err = receive_message(l);
	while (!err);
	return err == -EAGAIN || err == -EPROTO ? 0 : -EPIPE;
}

int tcp_loader_filter(struct tcp_loader *l, const struct tcp_filter *filter, char *why,
		      size_t bytes)
{
	char *message = malloc(LOADER_FILTER);
	ssize_t size = message ? tcp_message_filter_pack(filter, l->serial + 1, message) : -ENOMEM;
	int err = size < 0 ? (int)size
			   : tcp_message_send(tcp_loader_fd(l), message, (size_t)size, NULL, 0);

	if (!err) {
		l->serial++;
		l->awaited = true;
		l->asked = message;
		l->asked_bytes = (size_t)size;
		return 0;
	}
	free(message);
	if (size == -E2BIG)
		return base_fail(why, bytes, -EINVAL, "the filter is too long");
	if (size < 0)
		return base_fail(why, bytes, err, "out of memory");
	return base_fail(why, bytes, err, "the eBPF loader does not respond: %s", strerror(-err));
}

int tcp_loader_answer(const struct tcp_loader *l, char *why, size_t bytes)
{
	if (l->awaited)
		return -EINPROGRESS;
	return l->result ? base_fail(why, bytes, l->result, "%s", l->reason) : 0;
}

bool tcp_loader_again(struct tcp_loader *l)
{
	const struct base_child_start with = {.message = "", .bytes = 1}; /* see run_loader() */

	l->missed_before += l->missed;
	l->missed = 0;
	free(l->asked);
	l->asked = NULL;
	l->awaited = false;
	l->result = -EPIPE;
	snprintf(l->reason, sizeof(l->reason), "the eBPF loader exited: try again");
	return base_child_again(l->child, l->filter ? &with : NULL);
}

void tcp_loader_stop(struct tcp_loader *l)
{
	if (!l)
		return;
	base_child_stop(l->child, STOP_MS);
	base_child_free(l->child);
	free(l->asked);
	free(l->filter);
	free(l);
}
