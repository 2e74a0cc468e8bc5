"""Watches a started program in /proc: is the library mapped, did anything of
the program's load the CUDA driver, and did a call reach us?
"""
import os
import re

from gpupool_paths import Problem

GRACE_S = 5.0     # a loaded machine may take this long to load libraries
# Of programs that use a card if there is one.
WANTS_CARD = re.compile(r'/lib(cudart|cublas|cudnn|nccl|torch_cuda|c10_cuda)'
                        r'[^/\n]*\.so')
QUICK_S = 0.005   # at first, so that short programs are seen as well
SLOW_S = 2.0


class Watch:
    """`proof` is a file to which the library writes the process id at the
    first driver call that it intercepts."""

    def __init__(self, pid, program, library, proof, clock):
        self.pid = pid
        self.program = file_id(program)
        self.library = library
        self.library_id = file_id(library)
        self.proof = proof
        self.clock = clock
        self.start = clock()
        self.checked = False  # the program itself: the library is mapped
        self.wants_card = False
        self.cuda = {}        # pid that maps libcuda.so: has the library?

    def pause(self):
        """Seconds until the next look."""
        age = self.clock() - self.start
        return min(SLOW_S, max(QUICK_S, age / 20))

    def look(self):
        """Raises Problem when the program runs without the library."""
        if not self.checked:
            self.checked = self.check_program()
        for pid in family(self.pid):
            if pid in self.cuda:
                continue
            maps = read_maps(pid)
            if maps and WANTS_CARD.search(maps):
                self.wants_card = True
            if maps and re.search(r'/libcuda\.so', maps):
                self.cuda[pid] = self.is_mapped(maps)

    def check_program(self):
        """True when there is nothing more to find out."""
        late = self.clock() - self.start > GRACE_S
        maps = read_maps(self.pid)
        if not maps:
            return False  # it has just ended, or belongs to somebody else
        # The dynamic linker maps preloads before the C library, so once that
        # is there the answer is final. The file is read again because it may
        # have changed while it was read.
        if not late and not re.search(r'/libc[.-][^/]*so', maps):
            return False
        maps = read_maps(self.pid)
        if not maps or self.is_mapped(maps):
            return bool(maps)
        if file_id('/proc/%d/exe' % self.pid) != self.program:
            return True  # a launcher; what it starts is judged by its calls
        raise Problem(
            'the program runs without gpupool, so it was stopped: %s is not '
            'mapped in it. A line of ld.so above says why; often its C '
            'library is older than the one that gpupool was built with '
            '(build gpupool there)' % self.library)

    def is_mapped(self, maps):
        # By file as well, because the linker may have been given a link.
        return self.library in maps or any(
            line.split()[4] == str(self.library_id[1])
            and 'libgpupool' in line for line in maps.splitlines())

    def verdict(self, may_be_off):
        """After the end: one line if something is wrong, else None.
        may_be_off: no wonder if no call was intercepted."""
        bare = self.bare()
        if bare:
            return ('process %d loaded libcuda.so without gpupool: something '
                    'cleared LD_PRELOAD before it was started' % bare[0])
        if self.cuda and not may_be_off and not self.called():
            return ('the program loaded libcuda.so, but no call of it came '
                    'through gpupool: nothing was pooled; `gpupool doctor -- '
                    'PROGRAM` looks for the reason')
        return None

    def bare(self):
        """Processes that have the driver, but not the library."""
        return [pid for pid, mapped in self.cuda.items() if not mapped]

    def called(self):
        """Whether a call of the driver was intercepted, in any process."""
        self.proof.seek(0)
        return bool(self.proof.read(1))


def file_id(path):
    """Device and inode; None where nobody may ask."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_dev, info.st_ino


def read_maps(pid):
    """The text of /proc/PID/maps; None if the process has ended or may not be
    looked at."""
    try:
        with open('/proc/%d/maps' % pid, encoding='utf-8',
                  errors='surrogateescape') as file:
            return file.read()
    except OSError:
        return None


def family(pid):
    """The process and all its descendants."""
    found = [pid]
    for parent in found:
        try:
            tasks = os.listdir('/proc/%d/task' % parent)
        except OSError:
            continue
        for task in tasks:
            try:
                with open('/proc/%d/task/%s/children' % (parent, task)) as f:
                    found.extend(int(child) for child in f.read().split())
            except OSError:
                continue
    return found
