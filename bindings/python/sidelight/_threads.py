# SPDX-License-Identifier: Apache-2.0
"""Threads of ours."""
import logging
import os
import threading

log = logging.getLogger('sidelight')
log.addHandler(logging.NullHandler())


def may_start():
    """False before uwsgi has forked its workers. It forks without Python's knowledge: a thread that waits for Python's lock at
    that moment has asked for it, and the child would hand the lock to a thread that it does not have, and wait for ever."""
    try:
        import uwsgi
    except ImportError:
        return True
    return uwsgi.worker_id() > 0 or uwsgi.masterpid() not in (0, os.getpid())


def start(name, call, args=()):
    """The thread, or None."""
    if not may_start():
        return None
    thread = threading.Thread(target=call, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as e:
        log.warning('there is no thread name=%s error="%s"', name, e)
        return None
    return thread
