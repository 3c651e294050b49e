// SPDX-License-Identifier: Apache-2.0
/*
 * layer_netns.c - a netfilter hook is one of a network namespace. Where the boundary between TCP and IP has
 * no other, the program is attached in each namespace in which a process is. A link holds its
 * namespace, so that of one without a process is let go.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "source/tcp/layer_internal.h"

#define ATTACH_NETFILTER 45
#define NF_LOCAL_OUT	 3
#define PRIORITY	 300 /* behind NAT and filters: what they drop never left TCP */

/* union bpf_attr of BPF_LINK_CREATE as of 6.4, which the headers of some distributions lack. */
struct link_create {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint32_t pf, hooknum;
	int32_t priority;
	uint32_t nf_flags;
	uint8_t rest[64];
};

static int link_here(int prog, uint32_t family)
{
	struct link_create attr = {
		.prog_fd = (uint32_t)prog,
		.attach_type = ATTACH_NETFILTER,
		.pf = family,
		.hooknum = NF_LOCAL_OUT,
		.priority = PRIORITY,
	};
	int fd;

	/* Of each priority there is one program in a namespace: another of us may be there already. */
	do {
		fd = (int)syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));
	} while (fd < 0 && errno == EBUSY && attr.priority++ < PRIORITY + 100);
	return fd < 0 ? -1 : fd;
}

static void unlink_namespace(struct layer_namespace *n)
{
	for (int i = 0; i < 2; i++)
		if (n->link[i] >= 0)
			close(n->link[i]);
}

static struct layer_namespace *find(struct sl_layers *l, uint64_t inode)
{
	for (unsigned int i = 0; i < l->namespace_count; i++)
		if (l->namespaces[i].inode == inode)
			return &l->namespaces[i];
	return NULL;
}

/* path: of a namespace, "/proc/1/ns/net". True if this thread had to leave its own. */
static bool look(struct sl_layers *l, int prog, const char *path, uint64_t own)
{
	struct layer_namespace *n;
	struct stat st;
	bool moved = false;
	int fd;

	if (stat(path, &st))
		return false; /* the process is gone */
	n = find(l, st.st_ino);
	if (n) {
		n->seen = true;
		return false;
	}
	if (l->namespace_count == LAYER_NAMESPACES)
		return false; /* its flows count as no_out_ip */
	if (st.st_ino != own) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return false;
		moved = !setns(fd, CLONE_NEWNET);
		close(fd);
		if (!moved)
			return false;
	}
	n = &l->namespaces[l->namespace_count++];
	n->inode = st.st_ino;
	n->seen = true;
	n->link[0] = link_here(prog, 2 /* NFPROTO_IPV4 */);
	n->link[1] = link_here(prog, 10 /* NFPROTO_IPV6 */);
	return moved;
}

int sl_layers_namespaces(struct sl_layers *l)
{
	int prog = layer_netfilter_fd(l), own_fd, err = 0;
	struct dirent *d;
	struct stat own;
	char path[64];
	DIR *proc;

	if (prog < 0)
		return 0;
	own_fd = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (own_fd < 0)
		return -errno;
	if (fstat(own_fd, &own)) {
		err = -errno;
		goto out;
	}
	proc = opendir("/proc");
	if (!proc) {
		err = -errno;
		goto out;
	}
	for (unsigned int i = 0; i < l->namespace_count; i++)
		l->namespaces[i].seen = l->namespaces[i].inode == own.st_ino;
	look(l, prog, "/proc/thread-self/ns/net", own.st_ino);
	while ((d = readdir(proc))) {
		if (d->d_name[0] < '0' || d->d_name[0] > '9' || strlen(d->d_name) > 20)
			continue;
		snprintf(path, sizeof(path), "/proc/%.20s/ns/net", d->d_name);
		if (!look(l, prog, path, own.st_ino))
			continue;
		if (setns(own_fd, CLONE_NEWNET)) {
			err = -errno; /* this thread is somewhere else now: say so */
			break;
		}
	}
	closedir(proc);
	for (unsigned int i = 0; !err && i < l->namespace_count; i++) {
		if (l->namespaces[i].seen)
			continue;
		unlink_namespace(&l->namespaces[i]);
		l->namespaces[i--] = l->namespaces[--l->namespace_count];
	}
out:
	close(own_fd);
	return err;
}

void layer_namespaces_end(struct sl_layers *l)
{
	for (unsigned int i = 0; i < l->namespace_count; i++)
		unlink_namespace(&l->namespaces[i]);
	l->namespace_count = 0;
}
