// SPDX-License-Identifier: Apache-2.0
/* spawn.c - starts fronts through spawners, which can do nothing else (base/child.h). */
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/base.h"
#include "base/child.h"
#include "base/confine.h"
#include "http/front.h"

struct http_front {
	struct base_child_opts opts;
	struct base_child *child;
	bool unconfined;
};

/* ---- in the spawner's process, and in the front's ---- */

static bool confine_spawner(void *arg)
{
	const struct base_confine_opts confine = {.role = BASE_ROLE_SPAWNER, .single = true};
	const struct http_front *f = arg;
	struct rlimit files;
	char why[160];

	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	if (f->unconfined || !base_confine(&confine, why, sizeof(why)))
		return true;
	base_logf(BASE_ERROR, "http", "%s", why);
	return false;
}

static void run_front(void *arg, const struct base_child_start *with)
{
	const struct http_front *f = arg;

	close(BASE_CHILD_SOCK); /* the front detects the exit of the back by its control socket */
	if (with->bytes == sizeof(struct http_front_config))
		http_front_serve(with->message, with->fds, with->fd_count, f->unconfined);
}

/* ---- the back's side ---- */

struct http_front *http_front_fork(bool unconfined)
{
	struct http_front *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	f->unconfined = unconfined;
	f->opts = (struct base_child_opts){.name = "http",
					   .what = "the process that serves clients",
					   .log = "http",
					   .confine = confine_spawner,
					   .run = run_front,
					   .arg = f};
	f->child = base_child_fork(&f->opts);
	if (f->child)
		return f;
	free(f);
	return NULL;
}

int http_front_spawn(struct http_front *f, const struct http_front_config *c, const int *fds,
		     size_t n)
{
	const struct base_child_start with = {c, sizeof(*c), fds, n};

	_Static_assert(sizeof(*c) <= BASE_CHILD_MESSAGE, "it fits into a message");
	return base_child_start(f->child, &with);
}

bool http_front_ended(struct http_front *f)
{
	return base_child_ended(f->child);
}

void http_front_stop(struct http_front *f)
{
	base_child_stop(f->child, 0);
}

void http_front_end(struct http_front *f)
{
	if (!f)
		return;
	base_child_free(f->child);
	free(f);
}
