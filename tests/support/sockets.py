# SPDX-License-Identifier: Apache-2.0
"""Sockets of other processes."""
import contextlib
import os


def opened(pid):
    """What its descriptors refer to, such as 'socket:[INODE]'. Nothing if it has ended."""
    links = set()
    with contextlib.suppress(OSError):
        for fd in os.listdir(f'/proc/{pid}/fd'):
            with contextlib.suppress(OSError):  # closed meanwhile
                links.add(os.readlink(f'/proc/{pid}/fd/{fd}'))
    return links


def listens(pid):
    """The port that the kernel chose for a process that says nothing of it: a socket of its own that listens, proc(5).
    A free one looked for beforehand may be another's by then."""
    own = opened(pid)
    for family in ('tcp', 'tcp6'):
        with open(f'/proc/{pid}/net/{family}') as f:
            for _, local, _, state, *_, inode in (line.split()[:10] for line in list(f)[1:]):
                if state == '0A' and f'socket:[{inode}]' in own:
                    return int(local.split(':')[1], 16)
    return None
