# SPDX-License-Identifier: Apache-2.0
"""Imported by sidelight.pth if $SIDELIGHT is 1. Makes prometheus_client publish as soon as a program imports it."""
import sys
from importlib.machinery import PathFinder


class Finder:
    """Finds only prometheus_client, and patches it as soon as it has been loaded."""

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
    """If this fails, the program continues without Sidelight."""
    try:
        import sidelight.prometheus  # noqa: F401
    except Exception:
        import logging
        logging.getLogger('sidelight').warning('prometheus_client does not publish', exc_info=True)


sys.meta_path.insert(0, Finder)
