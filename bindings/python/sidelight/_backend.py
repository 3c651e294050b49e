# SPDX-License-Identifier: Apache-2.0
"""Which publisher this process has: over libsidelight where the extension is there, else the one in Python, which
$SIDELIGHT_PURE=1 chooses in any case. Both have one interface."""
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
    """The publisher of metrics that name no other."""
    global _default
    if _default is None:
        with lock():
            if _default is None:
                _default = Publisher()
    return _default


def configure(**options_):
    """Opens the default publisher with these options of Publisher, before the first metric does."""
    global _default, options
    with lock():
        if _default is not None:
            raise RuntimeError('configure() comes before the first metric')
        _default, options = Publisher(**options_), dict(options_)
