# SPDX-License-Identifier: Apache-2.0
"""Spans, which stay in memory of this process until a collector keeps their trace. They need the extension: without it, a
span only passes on the context of its caller."""
import contextvars
import functools
import inspect

from . import _backend

KINDS = {'internal': 0, 'server': 1, 'client': 2, 'producer': 3, 'consumer': 4}
STATUS = {'unset': 0, 'ok': 1, 'error': 2}
SPAN_BYTES, CELLS = 128 << 10, 7
_current = contextvars.ContextVar('sidelight_span', default=None)
_words = {}
_publisher = None


def _word(text, key):
    """Returns the number of a name or key. A process must have few of these; use attributes for what differs per request."""
    word = _words.get((text, key))
    if word is None:
        with _backend.lock():
            word = _words[text, key] = _open().span_word(text, key)
    return word


def _open():
    """Opens the region of spans with the first span."""
    global _publisher
    if _publisher is None:
        _publisher = _backend.Publisher(**{**_backend.options, 'cells': CELLS, 'schema_bytes': 1 << 16,
                                           'span_bytes': SPAN_BYTES})
    return _publisher


class Span:
    """A piece of work that has started. set(key, value), status(), traceparent, end()"""
    __slots__ = ('_native', '_parent')

    def __init__(self, name, kind, parent):
        self._parent = parent if isinstance(parent, str) else parent.traceparent if parent else ''
        self._native = None
        if _backend.NATIVE:
            from . import _native
            native = parent._native if isinstance(parent, Span) else parent
            self._native = _native.Span(_word(name, False), KINDS[kind], native)

    @property
    def traceparent(self):
        """The header traceparent (W3C trace context) for calls made by this span; empty if there is no trace."""
        return self._native.traceparent() if self._native else self._parent

    def set(self, key, value):
        """An attribute: str, int, float or bool; of anything else its str()."""
        if self._native:
            if not isinstance(value, (str, int, float)) or isinstance(value, int) and not -2**63 <= value < 2**63:
                value = str(value)
            if isinstance(value, str):
                value = value.encode('utf-8', 'replace').decode()
            self._native.set(_word(key, True), value)

    def status(self, status, message=None):
        """Sets the status: 'ok', 'error' with a message, or 'unset'."""
        if self._native:
            message = message and str(message).encode('utf-8', 'replace').decode().replace('\0', ' ')
            self._native.status(STATUS[status], message)

    def end(self):
        """Ends the span. Later calls have no effect."""
        if self._native:
            self._native.end()


class span:
    """A context manager, and a decorator of functions and coroutines:

        with sidelight.span('GET /cart', kind='server', parent=headers.get('traceparent')) as s:
            s.set('cart.items', 3)

        @sidelight.span('load cart')
        def load(): ...

    parent: a traceparent header, a Span, or by default the span around this one, which coroutines inherit and threads do not.
    kind: 'internal', 'server', 'client', 'producer' or 'consumer'. An exception that leaves the span sets its status to error."""
    __slots__ = ('_name', '_kind', '_parent', '_span', '_token')

    def __init__(self, name, kind='internal', parent=None):
        if kind not in KINDS:
            raise ValueError(f'kind is {kind!r}')
        self._name, self._kind, self._parent = name, kind, parent

    def __enter__(self):
        self._span = Span(self._name, self._kind, self._parent or _current.get())
        self._token = _current.set(self._span)
        return self._span

    def __exit__(self, kind, error, _):
        _current.reset(self._token)
        if error is not None and isinstance(error, Exception):
            self._span.status('error', f'{kind.__name__}: {error}')
        self._span.end()

    def __call__(self, function):
        if inspect.iscoroutinefunction(function):
            @functools.wraps(function)
            async def traced(*args, **named):
                with span(self._name, self._kind, self._parent):
                    return await function(*args, **named)
        else:
            @functools.wraps(function)
            def traced(*args, **named):
                with span(self._name, self._kind, self._parent):
                    return function(*args, **named)
        return traced


def current_span():
    """Returns the current span, or None."""
    return _current.get()
