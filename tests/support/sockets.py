# SPDX-License-Identifier: Apache-2.0
"""Sockets of other processes."""
import contextlib
import os


def opened(pid):
    """Returns the targets of its descriptors, such as 'socket:[INODE]'; nothing if it has ended."""
    links = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(OSError):  # closed meanwhile
                links.add(os.readlink(f'/proc/{pid}/fd/{fd}'))
    return links


def listens(pid):
    """Returns the port that the kernel chose for a process that does not print it: the port of its listening socket, proc(5). A
    free port found beforehand could be taken by another process."""
    own = opened(pid)
    for family in ('tcp', 'tcp6'):
        with open(f'/proc/{pid}/net/{family}') as f:
            for _, local, _, state, *_, inode in (line.split()[:10] for line in list(f)[1:]):
                if state == '0A' and f'socket:[{inode}]' in own:
                    return int(local.split(':')[1], 16)
    return None
