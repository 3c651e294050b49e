# SPDX-License-Identifier: Apache-2.0
"""Default names of a process."""
import os
import re
import sys


def service_name():
    """Returns $SIDELIGHT_SERVICE, $OTEL_SERVICE_NAME, or the name of the program."""
    name = os.environ.get('SIDELIGHT_SERVICE') or os.environ.get('OTEL_SERVICE_NAME')
    return name or os.path.basename((getattr(sys, 'argv', None) or [''])[0] or 'python').removesuffix('.py') or 'python'


def container_id():
    """Returns the first 12 digits of the ID of this process's container, or ''."""
    # A cgroup namespace hides the path; the file that a runtime mounts as /etc/hosts lies in the container's folder. Other
    # mounts may be of any container of this host.
    for path, what in (('/proc/self/cgroup', ''), ('/proc/self/mountinfo', ' /etc/hosts ')):
        try:
            with open(path, errors='replace') as file:
                lines = [line.partition(what)[0] if what else line for line in file if what in line]
        except OSError:
            continue
        for line in lines:
            found = re.search('(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])', line)
            if found:
                return found[0][:12]
    return ''


def pod_name(service):
    """Returns $POD_NAME, the container, or SERVICE-PID; in a container whose ID is hidden, the host name."""
    name = os.environ.get('POD_NAME') or container_id()
    if not name and (os.getpid() == 1 or os.environ.get('KUBERNETES_SERVICE_HOST')):
        name = os.uname().nodename  # in Kubernetes the pod's; PIDs are the same in each replica
    return name or f'{service[:200]}-{os.getpid()}'
