# SPDX-License-Identifier: Apache-2.0
"""Descriptors of ours. An application may close all descriptors, as daemons do, and then open files with the same numbers."""
import errno
import os


class Descriptor:
    """Takes ownership of a new descriptor."""
    __slots__ = ('_fd', '_file')

    def __init__(self, fd):
        self._fd, self._file = fd, self._identity(fd)

    @staticmethod
    def _identity(fd):
        status = os.fstat(fd)
        return status.st_dev, status.st_ino

    def ours(self):
        """Returns False if the application closed it, even if the number is in use again."""
        try:
            return self._identity(self._fd) == self._file
        except OSError:
            return False

    def number(self):
        """Returns the number for an immediate use. Raises OSError if the descriptor is no longer ours."""
        if not self.ours():
            raise OSError(errno.EBADF, 'the application closed our descriptor')
        return self._fd

    def close(self):
        if self.ours():
            os.close(self._fd)
