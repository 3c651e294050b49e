// SPDX-License-Identifier: Apache-2.0
/*
 * mend.c - repairs a store server's objects. Translators can write anything to an object, so its
 * size, header and epoch line are restored whenever they differ from the store server's copy.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "dta/store/guard.h"
#include "dta/store/stores.h"

int dta_store_object_keep(struct dta_store_object *o, int wake)
{
	int err = dta_guard_add(o->view.map, o->map_bytes, o->fd, wake);

	if (err)
		return err;
	o->head = malloc(SL_STORE_EPOCHS_OFFSET);
	if (!o->head) {
		dta_guard_remove(o->view.map);
		return -ENOMEM;
	}
	memcpy(o->head, o->view.map, SL_STORE_EPOCHS_OFFSET);
	return 0;
}

void dta_store_object_let_go(struct dta_store_object *o)
{
	if (o->head)
		dta_guard_remove(o->view.map);
}

void dta_store_object_epochs(struct dta_store_object *o, const struct dta_store_epochs *e)
{
	o->epochs = *e;
	dta_store_epochs_set(o->view.map, e);
}

/* Restores the file's length, with disk space for all of it, and maps it again. */
static int restore_memory(struct dta_store_object *o)
{
	int err = o->path ? posix_fallocate(o->fd, 0, (off_t)o->map_bytes) : 0;

	if (!err && o->path && ftruncate(o->fd, (off_t)o->map_bytes))
		err = errno;
	if (!err && mmap(o->view.map, o->map_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			 o->fd, 0) == MAP_FAILED)
		err = errno;
	return -err;
}

static bool has_epochs(const struct dta_store_object *o)
{
	struct dta_store_epochs e;

	return dta_store_epochs(&o->view, &e) && e.epoch == o->epochs.epoch &&
	       e.oldest == o->epochs.oldest && e.state == o->epochs.state;
}

const char *dta_store_object_mend(struct dta_store_object *o, bool *moved)
{
	const uint64_t faults = dta_guard_faults(o->view.map);
	const char *what = NULL;
	struct stat st;
	int err;

	*moved = false;
	if (fstat(o->fd, &st) || (uint64_t)st.st_size != o->map_bytes || faults != o->faults) {
		err = restore_memory(o);
		o->faults = faults;
		*moved = true;
		what = err ? "another process removed its memory, which cannot be restored"
			   : "its memory was removed by another process";
		if (err)
			base_log_each(BASE_ERROR, "dta", o->path ?: o->view.name, "%s: %s",
				      o->path ? o->path : o->view.name, strerror(-err));
	}
	if (memcmp(o->view.map, o->head, SL_STORE_EPOCHS_OFFSET)) {
		memcpy(o->view.map, o->head, SL_STORE_EPOCHS_OFFSET);
		what = what ? what : "its header was overwritten";
	}
	if (!has_epochs(o)) {
		dta_store_epochs_set(o->view.map, &o->epochs);
		what = what ? what : "its epoch was overwritten";
	}
	return what;
}
