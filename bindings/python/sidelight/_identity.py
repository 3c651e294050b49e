# SPDX-License-Identifier: Apache-2.0
"""What a process is called, unless it says so."""
import os
import sys


def service_name():
    """$SIDELIGHT_SERVICE, $OTEL_SERVICE_NAME, or the program."""
    name = os.environ.get('SIDELIGHT_SERVICE') or os.environ.get('OTEL_SERVICE_NAME')
    return name or os.path.basename((getattr(sys, 'argv', None) or [''])[0] or 'python').removesuffix('.py') or 'python'
