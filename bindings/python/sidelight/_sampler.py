# SPDX-License-Identifier: Apache-2.0
"""A thread that periodically gets values that the application does not set: functions of gauges, and collectors of other
libraries."""
import threading

from . import _backend, _threads
from ._threads import log


class Sampler:
    """Calls all added functions periodically. The thread starts when the first one is added."""

    def __init__(self, seconds):
        self._seconds, self._calls, self._thread = seconds, [], None
        self._added, self._failed = threading.Event(), set()
        _backend.after_fork.append(self._forked)

    def add(self, call):
        if call not in self._calls:
            self._calls = [*self._calls, call]
        self._added.set()
        self._start()

    def remove(self, call):
        self._calls = [c for c in self._calls if c != call]

    def _start(self):
        if self._thread is None and self._calls:
            self._thread = _threads.start('sidelight-sampler', self._run)

    def _run(self):
        while True:
            self._added.clear()
            for call in self._calls:
                self.ask(call)
            self._added.wait(self._seconds)

    def ask(self, call):
        try:
            call()
        except Exception:
            if call not in self._failed:
                self._failed.add(call)
                log.warning('a function that is asked for values failed, and further times are not logged', exc_info=True)

    def _forked(self):
        """Called in a forked child, to which the thread does not belong."""
        self._thread, self._added = None, threading.Event()
        self._start()


every_second = Sampler(1)
