"""The processes that use a GPU under gpupool, as their ledgers say; and what
can be asked of one.

    found, problems = processes()          living ones, sorted by pid
    found, problems = processes(dead=True) those that have ended, too
    process = by_pid(1234)
    answer = ask(process, 'trim 8GiB')     Answer(ok, text)

A Process has
    pid, uid, exe, conf     who it is; conf: settings that are not the default
    name                    base name of exe
    started                 Unix time, seconds
    updated                 Unix time of the figures; None: none yet
    life                    'alive', 'dead', 'elsewhere' (another pid
                            namespace: it cannot be seen from here)
    responds                its thread was seen in the last 3 seconds; a stopped
                            process does not respond
    path                    its file, which gpupool_ring.read() takes
    figures                 of the process: devices, neighbours_asked,
                            neighbours_gave_bytes, asked_by_neighbours,
                            gave_neighbours_bytes,
                            outside.KIND.bytes.current (.peak, .allocated,
                            .freed; also .count.) for KIND plain, async,
                            managed, array, virtual, graph, external, pinned,
                            registered: memory beside the pool, bytes
    devices                 [Device]

A Device (one for each device the process uses) has
    uuid (32 hex digits, as cuDeviceGetUuid_v2; of the slice under MIG)
    ordinal                 its number in that process
    name                    'NVIDIA H200'
    allocated, reserved     bytes now
    peak_allocated, peak_reserved
    cached                  reserved and free for the next request
    cap                     bytes; None: none, or not known
    context                 bytes its contexts take; None: not known
    outside                 bytes beside the pool on it; None: not known
    total, free             the device's memory; free None: not asked lately
    reserve_floor           bytes kept when a neighbour asks
    largest_free            bytes
    fragmentation           0 to 1: 1 - largest free range / free; 0 if nothing
                            is free
    figures                 everything by its name in the file, among it
                            allocated_bytes.all.current (.peak .allocated
                            .freed; .small_pool. .large_pool.), and so on for
                            requested_bytes, active_bytes, reserved_bytes,
                            inactive_split_bytes, allocation, active, segment,
                            inactive_split; num_alloc_calls, num_free_calls,
                            num_hits, num_ooms, num_alloc_retries, num_remaps,
                            num_trims, driver_ns, saved_ns, ...

Figures are at most about a second old. `problems` are sentences about files
that were not used: not ours, damaged, of another version.
"""
import ctypes
import mmap
import os
import platform
import time

import gpupool_file
from gpupool_file import FileProblem, ProcessFile, UNKNOWN
from gpupool_paths import (Problem, is_ours, runtime_dir, sudo, unreadable,
                           user)

RESPONDS_S = 3.0
REQUEST_TEXT = 480
ANSWER_AT = 512
SYS_FUTEX = {'x86_64': 202, 'aarch64': 98}
FUTEX_WAKE = 1


def known(figures, name):
    """A figure; None if nobody knows it."""
    value = figures.get(name, UNKNOWN)
    return None if value == UNKNOWN else value


class Device:

    def __init__(self, figures):
        self.figures = figures
        self.uuid = figures['uuid']
        self.name = figures['name']
        get = figures.get
        self.ordinal = get('ordinal', 0)
        self.allocated = get('allocated_bytes.all.current', 0)
        self.reserved = get('reserved_bytes.all.current', 0)
        self.peak_allocated = get('allocated_bytes.all.peak', 0)
        self.peak_reserved = get('reserved_bytes.all.peak', 0)
        self.cached = get('cached_bytes', 0)
        self.cap = known(figures, 'limit_bytes')
        self.context = known(figures, 'context_bytes')
        self.outside = known(figures, 'outside_bytes')
        self.total = get('total_bytes', 0)
        self.free = known(figures, 'free_bytes')
        self.reserve_floor = get('reserve_floor_bytes', 0)
        self.largest_free = get('largest_free_bytes', 0)
        self.fragmentation = (
            max(0.0, 1 - self.largest_free / self.cached) if self.cached
            else 0.0)


class Process:

    def __init__(self, file):
        self.path = file.path
        self.pid = file.pid
        self.uid = file.uid
        self.start = file.start
        self.image = file.image
        self.exe = file.exe
        self.name = os.path.basename(file.exe)
        self.conf = file.conf
        self.started = file.unix_ns / 1e9
        self.ended = file.end_unix_ns / 1e9 or None
        self.life = gpupool_file.life(file)
        self.responds = (self.life != 'dead'
                         and gpupool_file.beat_age(file) < RESPONDS_S)
        self.figures, devices = file.ledger()
        updated = self.figures.pop('updated_unix_ns', None)
        self.updated = updated / 1e9 if updated else None
        self.devices = [Device(figures) for figures in devices]


def directories():
    """Where the files of this user's processes are. One that a batch system,
    cron or sudo started may not have had the XDG_RUNTIME_DIR of a login."""
    ours = runtime_dir()
    usual = [place % os.geteuid()
             for place in ('/run/user/%d/gpupool', '/tmp/gpupool-%d')]
    return [ours] + [place for place in usual
                     if ours in usual and place != ours and is_ours(place)]


def files(directory=None):
    """Paths of the processes' files in the runtime directory."""
    found = []
    for place in [directory] if directory else directories():
        try:
            names = os.listdir(place)
        except OSError as error:
            raise unreadable(place, error)
        found += [os.path.join(place, name) for name in sorted(names)
                  if gpupool_file.NAME.match(name)]
    return found


def is_starting(path, problem):
    """A living process's file that is not written yet is no problem."""
    match = gpupool_file.NAME.match(os.path.basename(path))
    return (match and not os.path.islink(path)
            and gpupool_file.start_of(int(match.group(1)))
            == int(match.group(2))
            and ('never finished' in str(problem)
                 or 'is empty' in str(problem)))


def processes(dead=False, directory=None):
    found, problems = [], []
    for path in files(directory):
        try:
            process = Process(ProcessFile(path, only_head=True))
        except FileProblem as problem:
            if os.path.lexists(path) and not is_starting(path, problem):
                problems.append(str(problem))
            continue
        found.append(process)
    # After an exec the same process has a newer file: the older image ended.
    newest = {}
    for process in found:
        key = process.pid, process.start
        newest[key] = max(newest.get(key, 0), process.image)
    for process in found:
        if process.image != newest[process.pid, process.start]:
            process.life, process.responds = 'dead', False
    if not dead:
        found = [process for process in found if process.life != 'dead']
    found.sort(key=lambda process: (process.pid, process.started))
    return found, problems


def by_pid(pid, dead=False, directory=None):
    """The newest process with that number; Problem if there is none."""
    found = [process for process in processes(dead, directory)[0]
             if process.pid == pid]
    if found:
        return found[-1]
    where = directory or ' or '.join(directories())
    if gpupool_file.start_of(pid):
        owner = os.stat('/proc/%d' % pid).st_uid
        if owner != os.geteuid():
            raise Problem('process %d belongs to %s, and only they can ask it: '
                          '%s' % (pid, user(owner), sudo(owner)))
        raise Problem('process %d uses no GPU under gpupool (nothing of it in '
                      '%s)' % (pid, where))
    if not dead and any(process.pid == pid
                        for process in processes(True, directory)[0]):
        raise Problem('process %d has ended; `gpupool report %d` shows what '
                      'it left' % (pid, pid))
    raise Problem('there is no process %d, and nothing of it in %s' % (
        pid, where) + (' (of those that have ended only the last stay: '
                       'keep_reports)' if dead else ''))


# ---- asking ------------------------------------------------------------------

class Answer:

    def __init__(self, ok, text):
        self.ok = ok
        self.text = text


serial = [0]


def ask(process, request, timeout=5.0):
    """Have a living process do something: 'trim', 'trim 8GiB', 'limit 8GiB',
    'reset-peak', 'report', 'ping' (shim/control.h). Its Answer; Problem when
    none comes in time."""
    line = request.encode('utf-8') + b'\n'
    if len(line) > REQUEST_TEXT or b'\n' in line[:-1]:
        raise Problem('this is no request: %s' % request, 2)
    directory = os.path.dirname(process.path)
    serial[0] += 1
    me = os.getpid()
    path = os.path.join(directory, 'req-%d-%d-%d-%d-%d' % (
        process.pid, process.start, me, gpupool_file.start_of(me),
        serial[0]))
    try:
        bell = gpupool_file.open_own(process.path, os.O_RDWR)
    except FileProblem as problem:
        raise Problem(str(problem))
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
                     | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
            ring(bell)
            return wait(process, fd, time.monotonic() + timeout)
        finally:
            os.unlink(path)
            os.close(fd)
    except OSError as error:
        raise Problem('cannot ask process %d: %s' % (process.pid,
                                                     error.strerror))
    finally:
        os.close(bell)


def wait(process, fd, deadline):
    while True:
        raw = os.pread(fd, REQUEST_TEXT, ANSWER_AT)
        if b'\n' in raw:
            text = raw.split(b'\n', 1)[0].decode('utf-8', 'replace')
            word, _, rest = text.partition(' ')
            return Answer(word == 'ok', rest)
        if gpupool_file.start_of(process.pid) != process.start:
            raise Problem('process %d has ended' % process.pid)
        if time.monotonic() > deadline:
            raise Problem('process %d does not answer; is it stopped?'
                          % process.pid)
        time.sleep(0.001)


def ring(fd):
    """Wake the process's own thread: see stats/bell.h."""
    number = SYS_FUTEX.get(platform.machine())
    value = int.from_bytes(os.pread(fd, 4, gpupool_file.BELL_AT), 'little')
    value = (value + 1 + (time.monotonic_ns() & 0xffff)) & 0xffffffff
    os.pwrite(fd, value.to_bytes(4, 'little'), gpupool_file.BELL_AT)
    if number is None:
        return  # it looks four times a second
    with mmap.mmap(fd, mmap.PAGESIZE) as page:
        word = ctypes.c_uint32.from_buffer(page, gpupool_file.BELL_AT)
        ctypes.CDLL(None, use_errno=True).syscall(
            ctypes.c_long(number), ctypes.byref(word),
            ctypes.c_int(FUTEX_WAKE), ctypes.c_int(0x7fffffff), None, None,
            ctypes.c_int(0))
        del word
