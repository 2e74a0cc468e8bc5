"""The file of a process that uses a GPU, in the runtime directory: who it is,
its ledger, and where its events lie. stats/process_file.h describes the
format.

Nothing in a file is believed before it is checked: it may be torn, cut short,
of another version, or made by somebody else. What is wrong with one is said in
a FileProblem, a sentence that names it.
"""
import binascii
import os
import re
import stat
import struct
import time

MAGIC = b'gpupool\0'
VERSION = 1
HEAD_BYTES = 4096
HEAD = struct.Struct('=8sIIIIIIQQQIIIIIIIIQQQQQ40s512s2048s')
HEAD_FIELDS = (
    'magic version byte_order crc pid uid image start pid_ns file_bytes '
    'names_at names_bytes rows_at row_bytes num_rows event_bytes chunk_bytes '
    'num_chunks ring_at unix_ns mono_ns ticks ticks_per_s boot_id exe conf'
).split()
LIVE_AT = (HEAD.size + 63) // 64 * 64
LIVE = struct.Struct('=IIQQQQQ')
LIVE_FIELDS = ('state bell beat_mono_ns end_unix_ns moment_mono_ns '
               'moment_ticks moment_check').split()
BELL_AT = LIVE_AT + 4
TAKEN_AT = (LIVE_AT + LIVE.size + 63) // 64 * 64
RUNS, ENDED = 1, 2

COPY = struct.Struct('=QII16s96s')
MAX_NAMES = 1 << 16
MAX_ROWS = 1024
MAX_FILE = 1 << 31
MAX_WORDS = 1 << 12

UNKNOWN = (1 << 64) - 1
NAME = re.compile(r'(\d{1,10})-(\d{1,20})-(\d{1,10})\.gpupool\Z')


class FileProblem(Exception):
    """What is wrong with a file, as a sentence."""


def open_own(path, flags=os.O_RDONLY, any_owner=False):
    """A descriptor of a regular file that is ours; links are not followed."""
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK
                     | os.O_CLOEXEC)
    except OSError as error:
        if os.path.islink(path):
            raise FileProblem('%s: it is a link' % path)
        raise FileProblem('%s: %s' % (path, error.strerror))
    info = os.fstat(fd)
    if not stat.S_ISREG(info.st_mode):
        why = 'it is no regular file'
    elif not any_owner and info.st_uid != os.geteuid():
        why = 'it belongs to somebody else (uid %d)' % info.st_uid
    elif info.st_size > MAX_FILE:
        why = 'it is too large to be one'
    else:
        return fd
    os.close(fd)
    raise FileProblem('%s: %s' % (path, why))


def text(raw):
    return raw.split(b'\0', 1)[0].decode('utf-8', 'replace')


class ProcessFile:
    """One file, read whole: `data` (bytes) as it was at that moment.

    Fields of the header are attributes: pid, start, uid, exe, conf, unix_ns
    (when it began), state ('running' or 'ended', as the file itself says),
    end_unix_ns (0: it did not end by itself), ...
    `cut`: the file is shorter than it should be; what is there is used.
    """

    def __init__(self, path, any_owner=False, only_head=False):
        self.path = path
        fd = open_own(path, any_owner=any_owner)
        try:
            self.size = os.fstat(fd).st_size
            self.data = read_all(fd, HEAD_BYTES)
            self._read_head()
            if not only_head:
                self.data += read_all(fd, self.file_bytes - len(self.data))
            elif self.ring_at <= MAX_FILE:
                self.data += read_all(fd, self.ring_at - len(self.data))
        finally:
            os.close(fd)
        self.cut = self.size < self.file_bytes
        self._read_live()

    def problem(self, why):
        return FileProblem('%s: %s' % (self.path, why))

    def _read_head(self):
        if len(self.data) < HEAD_BYTES:
            if self.data.strip(b'\0'):
                raise self.problem('it is no file of gpupool')
            raise self.problem('it is empty')
        for name, value in zip(HEAD_FIELDS, HEAD.unpack_from(self.data)):
            setattr(self, name, value)
        if self.magic != MAGIC:
            if not self.magic.strip(b'\0'):
                raise self.problem('it was never finished')
            raise self.problem('it is no file of gpupool')
        if self.byte_order != 0x01020304:
            raise self.problem('it is from a machine of another kind')
        if self.version != VERSION:
            raise self.problem('it is of version %d, this gpupool reads '
                               'version %d' % (self.version, VERSION))
        plain = (self.data[:16] + b'\0\0\0\0' + self.data[20:LIVE_AT])
        if binascii.crc32(plain) != self.crc:
            raise self.problem('its header is damaged')
        # Whoever can write a right checksum can write anything.
        if not (HEAD_BYTES <= self.names_at
                and self.names_at + self.names_bytes <= self.rows_at
                and self.names_bytes <= MAX_NAMES
                and self.num_rows <= MAX_ROWS
                and self.rows_at + self.row_bytes * self.num_rows
                <= self.ring_at
                and self.ring_at + self.chunk_bytes * self.num_chunks
                <= self.file_bytes <= MAX_FILE):
            raise self.problem('its header makes no sense')
        self.boot_id, self.exe, self.conf = (
            text(self.boot_id), text(self.exe), text(self.conf))

    def _read_live(self):
        for name, value in zip(LIVE_FIELDS,
                               LIVE.unpack_from(self.data, LIVE_AT)):
            setattr(self, name, value)
        self.taken, = struct.unpack_from('=Q', self.data, TAKEN_AT)
        self.state = {RUNS: 'running', ENDED: 'ended'}.get(self.state, '?')

    # ---- the ledger ------------------------------------------------------

    def names(self):
        """{'process': [name of word 0, ...], 'device': [...]}"""
        raw = self.data[self.names_at:self.names_at + self.names_bytes]
        names = {}
        for line in raw.decode('ascii', 'replace').split('\n'):
            kind, colon, rest = line.partition(':')
            if colon:
                names[kind] = [name for name in rest.split(',') if name]
        return names

    def _row(self, index):
        """The newer whole copy: (uuid, name, words); None if there is none.
        """
        size = self.row_bytes // 2
        if size < COPY.size or (size - COPY.size) // 8 > MAX_WORDS:
            return None
        best = None
        for copy in 0, 1:
            at = self.rows_at + index * self.row_bytes + copy * size
            raw = self.data[at:at + size]
            if len(raw) < size:
                continue
            sequence, crc, _, uuid, name = COPY.unpack_from(raw)
            if not sequence or binascii.crc32(
                    raw[:8] + b'\0\0\0\0' + raw[12:]) != crc:
                continue
            if best is None or sequence > best[0]:
                count = (size - COPY.size) // 8
                best = (sequence, uuid, text(name),
                        struct.unpack_from('=%dQ' % count, raw, COPY.size))
        return best and best[1:]

    def ledger(self):
        """(process, [device, ...]): figures by their name in the file."""
        names = self.names()
        row = self._row(0) if self.num_rows else None
        process = dict(zip(names.get('process', ()), row[2])) if row else {}
        devices = []
        for index in range(1, self.num_rows):
            row = self._row(index)
            if not row:
                continue
            device = dict(zip(names.get('device', ()), row[2]))
            device['uuid'] = row[0].hex()
            device['name'] = row[1]
            devices.append(device)
        return process, devices


def read_all(fd, size):
    parts = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b''.join(parts)


# ---- is it alive? ------------------------------------------------------------

def start_of(pid):
    """When the process was started, in clock ticks since boot; 0: it is gone,
    or a zombie."""
    try:
        with open('/proc/%d/stat' % pid, 'rb') as file:
            fields = file.read().rpartition(b')')[2].split()
        return 0 if fields[0] in (b'Z', b'X', b'x') else int(fields[19])
    except (OSError, IndexError, ValueError):
        return 0


def boot_id():
    try:
        with open('/proc/sys/kernel/random/boot_id') as file:
            return file.read().strip()
    except OSError:
        return ''


def pid_namespace():
    try:
        return os.stat('/proc/self/ns/pid').st_ino
    except OSError:
        return 0


def life(file):
    """'alive', 'dead', or 'elsewhere' (in another pid namespace)."""
    if file.boot_id != boot_id():
        return 'dead'
    if file.pid_ns != pid_namespace():
        return 'elsewhere'
    if file.state == 'ended' or start_of(file.pid) != file.start:
        return 'dead'
    return 'alive'


def beat_age(file):
    """Seconds since gpupool's thread in that process was last seen."""
    return max(0.0, (time.monotonic() * 1e9 - file.beat_mono_ns) / 1e9)
