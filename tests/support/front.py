# SPDX-License-Identifier: Apache-2.0
"""The processes that serve HTTP for an agent or a collector."""

from support.process import alive


def children(pid):
    with open(f'/proc/{pid}/task/{pid}/children') as f:
        return [int(c) for c in f.read().split()]


def name(pid):
    """Returns its name, or None if it has ended."""
    try:
        with open(f'/proc/{pid}/comm') as f:
            return f.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def spawners(part):
    """All of its spawners, of fronts and of other helpers."""
    return [c for c in children(part.pid) if name(c) == 'sidelight-spawn' and alive(c)]


def helper(part, what):
    """Returns the helper process with this name, or None if there is none now."""
    try:
        return next((c for c in children(part.pid) if name(c) == what and alive(c)), None)
    except (FileNotFoundError, ProcessLookupError):  # the part itself has ended
        return None


def front(part):
    """The process that faces clients."""
    return helper(part, 'sidelight-http')
