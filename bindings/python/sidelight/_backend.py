# SPDX-License-Identifier: Apache-2.0
"""Selects the publisher: over libsidelight if the extension is installed, otherwise the one in Python, which
$SIDELIGHT_PURE=1 selects in any case. Both have the same interface."""
import os

try:
    if os.environ.get('SIDELIGHT_PURE') == '1':
        raise ImportError('SIDELIGHT_PURE=1')
    from . import _native_publisher as _of
    NATIVE = True
except ImportError:
    from . import _publisher as _of
    NATIVE = False

Publisher, lock, after_fork = _of.Publisher, _of.lock, _of.after_fork
_default, options = None, {}


def default():
    """Returns the publisher of metrics that do not specify another one."""
    global _default
    if _default is None:
        with lock():
            if _default is None:
                _default = Publisher(strict=False)
    return _default


def configure(**options_):
    """Opens the default publisher with these options of Publisher. Call it before creating the first metric."""
    global _default, options
    with lock():
        if _default is not None:
            raise RuntimeError('configure() comes before the first metric')
        _default, options = Publisher(**options_), dict(options_)
