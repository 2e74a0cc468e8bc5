"""A terminal's whole screen, with single keys: plain ANSI, and as it was
afterwards, however that comes about."""
import fcntl
import os
import re
import select
import signal
import struct
import termios
import tty

ENTER = '\033[?1049h\033[?25l'   # the other screen, no cursor
LEAVE = '\033[?25h\033[?1049l'
RESIZED = 'resized'


def size_of(fd):
    """(columns, lines); (0, 0) where it is no terminal."""
    try:
        lines, columns = struct.unpack('4H', fcntl.ioctl(
            fd, termios.TIOCGWINSZ, bytes(8)))[:2]
    except OSError:
        return 0, 0
    return columns, lines


class Terminal:
    """with Terminal() as terminal: ..."""

    def __init__(self, out=1, keys=0):
        self.out = out
        self.keys = keys if os.isatty(keys) else None
        self.before = None
        self.resized = False
        self.typed = ''  # keys that came together

    def __enter__(self):
        self.wake, wake = os.pipe()
        for fd in self.wake, wake:
            os.set_blocking(fd, False)
        self.old_wake = signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.wake_end = wake
        self.old = {number: signal.signal(number, handler)
                    for number, handler in (
                        (signal.SIGWINCH, self._resize),
                        (signal.SIGTSTP, self._stop),
                        (signal.SIGTERM, self._end),
                        (signal.SIGHUP, self._end))}
        self._take()
        return self

    def __exit__(self, *exception):
        self._give_back()
        for number, handler in self.old.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self.old_wake)
        os.close(self.wake)
        os.close(self.wake_end)

    def _take(self):
        if self.keys is not None:
            self.before = termios.tcgetattr(self.keys)
            tty.setcbreak(self.keys)
        self._write(ENTER)

    def _give_back(self):
        self._write(LEAVE)
        if self.before is not None:
            termios.tcsetattr(self.keys, termios.TCSADRAIN, self.before)
            self.before = None

    def _write(self, text):
        data = text.encode('utf-8', 'replace')
        try:
            while data:
                data = data[os.write(self.out, data):]
        except OSError:
            pass  # it was closed; SIGHUP follows

    def _resize(self, number, frame):
        self.resized = True

    def _end(self, number, frame):
        raise SystemExit(0)

    def _stop(self, number, frame):
        """Ctrl-Z: the shell gets its screen back meanwhile."""
        self._give_back()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTSTP})
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._stop)
        self._take()
        self.resized = True

    def size(self):
        columns, lines = size_of(self.out)
        return columns or 80, lines or 24

    def draw(self, lines):
        """Lines that fit, styles among them. Each is cleared before it is
        written: cleared after, a full one would lose its last column."""
        self._write('\033[H' + '\r\n'.join(
            '\033[2K' + line for line in lines) + '\033[J')

    def key(self, seconds):
        """A key, RESIZED, or None when the time is over."""
        if self.resized:
            self.resized = False
            return RESIZED
        if self.typed:
            return self._next()
        watched = [self.wake] + ([] if self.keys is None else [self.keys])
        ready = select.select(watched, [], [], max(0.0, seconds))[0]
        if self.wake in ready:
            os.read(self.wake, 4096)
        if self.resized:
            self.resized = False
            return RESIZED
        if self.keys not in ready:
            return None
        typed = os.read(self.keys, 64)
        if not typed:
            self.keys = None  # its end
            return None
        # Arrows and the like are nobody's keys here.
        self.typed = re.sub('\033(?:\\[[0-9;]*|O)?.?', '',
                            typed.decode('utf-8', 'replace'))
        return self._next()

    def _next(self):
        key, self.typed = self.typed[:1], self.typed[1:]
        return key
