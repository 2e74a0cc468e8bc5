"""The machine's cards as nvidia-smi tells them, where it is there."""
import collections
import os
import shutil
import subprocess
import threading
import time

QUERY = 'index,uuid,name,memory.total,memory.used'
MIB = 1 << 20
LIMIT_S = 5.0  # it hangs when the driver does

Card = collections.namedtuple('Card', 'index uuid name total used')


def has_card():
    """Whether device files of NVIDIA's are there: of a PC, under WSL, of a
    Jetson."""
    return any(map(os.path.exists, ('/dev/nvidiactl', '/dev/dxg',
                                    '/dev/nvmap')))


def plain_uuid(text):
    """'GPU-5a1b...' as ledgers have it: 32 hex digits."""
    return text.partition('-')[2].replace('-', '').lower()


def read(text):
    """The answer's lines; what cannot be read is left out."""
    cards = []
    for line in text.splitlines():
        fields = [field.strip() for field in line.split(',')]
        try:
            index, uuid, name, total, used = fields
            cards.append(Card(int(index), plain_uuid(uuid), name,
                              int(total) * MIB, int(used) * MIB))
        except ValueError:
            continue
    return cards


def query(what):
    """Lines of nvidia-smi's answer; '' where there is none."""
    tool = shutil.which('nvidia-smi')
    if not tool:
        return ''
    try:
        done = subprocess.run(
            [tool, what, '--format=csv,noheader,nounits'],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, timeout=LIMIT_S)
    except (OSError, subprocess.SubprocessError):
        return ''
    return done.stdout.decode('utf-8', 'replace')


def ask():
    """[Card]; empty where there is no nvidia-smi, or it does not answer."""
    return read(query('--query-gpu=' + QUERY))


def used_by_processes():
    """{pid: bytes on all cards}, as the driver counts; those whose memory it
    does not tell are left out."""
    used = {}
    for line in query('--query-compute-apps=pid,used_memory').splitlines():
        try:
            pid, mib = [int(field) for field in line.split(',')]
        except ValueError:
            continue
        used[pid] = used.get(pid, 0) + mib * MIB
    return used


class Watcher:
    """Asks now and then on a thread of its own: nvidia-smi may take a second,
    and nobody waits for it."""

    def __init__(self, pause_s=5.0):
        self.cards = ask()
        self.pause_s = pause_s
        if shutil.which('nvidia-smi'):
            threading.Thread(target=self._run, daemon=True).start()

    def _run(self):
        while True:
            time.sleep(self.pause_s)
            self.cards = ask()
