# SPDX-License-Identifier: Apache-2.0
"""What sidelight.pth imports where $SIDELIGHT is 1: as soon as a program imports prometheus_client, it publishes."""
import sys
from importlib.machinery import PathFinder


class Finder:
    """Of prometheus_client alone: the module is what it is, and patched when it is complete."""

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != 'prometheus_client':
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return None
        run = spec.loader.exec_module

        def exec_module(module):
            run(module)
            sys.meta_path.remove(cls)
            patch()

        spec.loader.exec_module = exec_module
        return spec


def patch():
    """A program goes on without us if this fails."""
    try:
        import sidelight.prometheus  # noqa: F401
    except Exception:
        import logging
        logging.getLogger('sidelight').warning('prometheus_client does not publish', exc_info=True)


sys.meta_path.insert(0, Finder)
