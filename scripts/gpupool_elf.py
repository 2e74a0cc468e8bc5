"""Can the preload reach this program? Told from its file, before it starts.
"""
import os
import shutil
import struct

from gpupool_paths import Problem

PT_INTERP = 3
MACHINES = {3: 'i386', 40: 'arm', 62: 'x86-64', 183: 'aarch64',
            21: 'ppc64', 243: 'riscv'}


class Elf:
    """The few facts of an ELF file that matter here."""

    def __init__(self, path):
        with open(path, 'rb') as file:
            head = file.read(64)
            if len(head) < 52 or head[:4] != b'\x7fELF':
                raise ValueError('not an ELF file')
            self.bits = {1: 32, 2: 64}.get(head[4], 0)
            order = '>' if head[5] == 2 else '<'
            self.machine, = struct.unpack_from(order + 'H', head, 18)
            if self.bits == 64:
                offset, = struct.unpack_from(order + 'Q', head, 32)
                size, count = struct.unpack_from(order + 'HH', head, 54)
            else:
                offset, = struct.unpack_from(order + 'I', head, 28)
                size, count = struct.unpack_from(order + 'HH', head, 42)
            file.seek(offset)
            table = file.read(size * count)
        self.dynamic = any(
            struct.unpack_from(order + 'I', table, i * size)[0] == PT_INTERP
            for i in range(len(table) // size if size else 0))

    def kind(self):
        name = MACHINES.get(self.machine, 'machine %d' % self.machine)
        return '%d-bit %s' % (self.bits, name)


def find_program(name, args=()):
    """The path that exec will use, as a shell finds it. `args` are the
    program's."""
    if '/' in name:
        if os.path.isdir(name):
            raise Problem('%s is a directory' % name, 126)
        if not os.path.exists(name):
            raise Problem('%s: no such file' % name, 127)
        if not os.access(name, os.X_OK):
            raise Problem('%s: not executable; try chmod +x, or name its '
                          'interpreter (python3 %s)' % (name, name), 126)
        return name
    path = shutil.which(name)
    if path is None:
        raise Problem('%s: command not found%s' % (
            name, '; it was taken for the program, as it stands before --'
            if '--' in args else ''), 127)
    return path


def interpreter(path):
    """The interpreter of a #! script, else the path itself."""
    for _ in range(4):  # the kernel follows as many
        try:
            with open(path, 'rb') as file:
                line = file.readline(256)
        except OSError:
            return path  # may be executed though not read
        if not line.startswith(b'#!'):
            return path
        words = line[2:].split()
        if not words:
            return path
        path = os.fsdecode(words[0])
    return path


def check_program(path, library):
    """Raise Problem if LD_PRELOAD cannot work on this program."""
    path = interpreter(path)
    try:
        program = Elf(path)
        ours = Elf(library)
    except (OSError, ValueError, struct.error):
        return  # unreadable, or the kernel's business; /proc tells later
    if program.machine != ours.machine or program.bits != ours.bits:
        raise Problem('%s is a %s program, libgpupool.so is %s; '
                      'build gpupool for that architecture'
                      % (path, program.kind(), ours.kind()))
    if not program.dynamic:
        raise Problem('%s is statically linked: LD_PRELOAD cannot reach it; '
                      'link it dynamically (libcudart may stay static)'
                      % path)
    if gains_privileges(path):
        raise Problem('%s runs with raised privileges (setuid, setgid or '
                      'file capabilities), for which the system ignores '
                      'LD_PRELOAD; run a copy without them' % path)


def gains_privileges(path):
    """True if the kernel would mark the program as secure (AT_SECURE)."""
    info = os.stat(path)
    if info.st_mode & 0o4000 and info.st_uid != os.getuid():
        return True
    if info.st_mode & 0o2010 == 0o2010 and info.st_gid != os.getgid():
        return True
    if os.getuid() == 0:
        return False  # root gains nothing from file capabilities
    try:
        return bool(os.getxattr(path, 'security.capability'))
    except OSError:
        return False
