# SPDX-License-Identifier: Apache-2.0
"""Starts background threads."""
import logging
import os
import threading

log = logging.getLogger('sidelight')
log.addHandler(logging.NullHandler())


def may_start():
    """Returns False before uwsgi has forked its workers. uwsgi forks without Python's knowledge: if a thread waits for Python's
    lock at that moment, the child hands the lock to this thread, which it does not have, and waits for ever."""
    try:
        import uwsgi
    except ImportError:
        return True
    return uwsgi.worker_id() > 0 or uwsgi.masterpid() not in (0, os.getpid())


def start(name, call, args=()):
    """Returns the thread, or None."""
    if not may_start():
        return None
    thread = threading.Thread(target=call, args=args, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError as e:
        log.warning('there is no thread name=%s error="%s"', name, e)
        return None
    return thread
