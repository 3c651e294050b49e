# SPDX-License-Identifier: Apache-2.0
"""A command at a pseudo terminal: its output frame by frame, its keys, and the state in which it leaves the terminal."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

from support.process import fail, wait_until

# All escape sequences that a frame may contain: home, clear the line or the rest, and attributes of characters.
ALLOWED = r'\033\[(?:H|2J|J|K|[0-9;]*m)'


class Screen:
    def __init__(self, rows, columns, *argv, env=None):
        self.ours, theirs = pty.openpty()
        self.resize(rows, columns)
        self.seen = None  # frames before the last key
        self.before = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.raw = b''
        self.p = subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs, env={**os.environ, **(env or {})},
                                  start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack('HHHH', rows, columns, 0, 0))
        self.size = rows, columns

    def text(self):
        """Returns everything that the program wrote up to now."""
        while select.select([self.ours], [], [], 0)[0]:
            try:
                got = os.read(self.ours, 1 << 16)
            except OSError:  # the other end is closed
                got = b''
            if not got:
                break
            self.raw += got
        return self.raw.decode(errors='replace')

    def frames(self):
        """Returns complete frames, as lines. A frame begins with the cursor's return to the top left."""
        found = []
        for frame in self.text().split('\033[H')[1:]:
            if '\033[J' in frame:  # the rest of the screen is cleared: it is complete
                text = re.sub(r'\033\[[0-9;]*[KJm]', '', frame.split('\033[J')[0])
                found.append(text.replace('\r\n', '\n').rstrip('\n').split('\n'))
        return [f for f in found if f != ['']]

    def wait(self, condition, what):
        """Returns the newest complete frame that meets the condition."""
        def there():
            return next((f for f in reversed(self.frames()) if condition(f)), None)
        frame = wait_until(there, lambda: f'{what}: {self.raw[-3000:]}', seconds=30)
        rows, columns = self.size
        if len(frame) >= rows or max(len(line) for line in frame) > columns:
            fail(f'does not fit {rows} x {columns}: {frame}')
        return frame

    def next(self, condition, what):
        """Like wait(), but considers only frames drawn from now on, or since a key was pressed, if one was: what it changed may
        already have been drawn."""
        seen, self.seen = self.seen if self.seen is not None else len(self.frames()), None

        def there():
            return next((f for f in self.frames()[seen:] if condition(f)), None)
        return wait_until(there, lambda: f'{what}: {self.raw[-3000:]}', seconds=30)

    def key(self, c):
        self.seen = len(self.frames())
        os.write(self.ours, c)

    def modes(self):
        return termios.tcgetattr(self.theirs)

    def end(self, code=0):
        try:
            got = self.p.wait(30)
        except subprocess.TimeoutExpired:
            self.p.kill()
            fail(f'it goes on: {self.raw[-1000:]}')
        if got != code:
            fail(f'ended with {got}: {self.text()[-1000:]}')
        if self.modes() != self.before:
            fail('the terminal is not what it was')
        strange = re.sub(ALLOWED, '', self.text())
        if re.search(r'[^\t\r\n -~\u00a1-\U0010ffff]', strange):
            fail(f'control characters: {strange[-500:]!r}')
        os.close(self.theirs)
        os.close(self.ours)
