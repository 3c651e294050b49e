/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unified.h - the unified hierarchy of cgroups for a test: where it is, or mounted for this test,
 * as a guest has none.
 */
#ifndef SL_TESTS_TCP_UNIFIED_H
#define SL_TESTS_TCP_UNIFIED_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <unistd.h>

#include "source/tcp/cgroup.h"

static char unified_here[64]; /* mounted by this test; empty: not */

/* False: it is not mounted and can't be. */
static bool unified_find(struct tcp_cgroup_hierarchy *h)
{
	char dir[] = "/tmp/sl-tcp-cgroup.XXXXXX";

	if (!tcp_cgroup_hierarchy(h, "unified", NULL, NULL))
		return true;
	if (!mkdtemp(dir))
		return false;
	if (mount("none", dir, "cgroup2", 0, NULL)) {
		rmdir(dir);
		return false;
	}
	snprintf(unified_here, sizeof(unified_here), "%s", dir);
	return !tcp_cgroup_hierarchy(h, "unified", NULL, NULL);
}

/* Takes it away again; whatever else is removed of it comes before. */
static void unified_leave(void)
{
	if (*unified_here) {
		umount2(unified_here, MNT_DETACH);
		rmdir(unified_here);
	}
}

#endif
