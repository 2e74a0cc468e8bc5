"""Device memory as nvidia-smi sees it, asked from outside the program."""

import ctypes
import threading

from machine import Skip


class _NvmlMemory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong),
                ("used", ctypes.c_ulonglong)]


class _NvmlProcess(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong),
                ("gpu_instance", ctypes.c_uint),
                ("compute_instance", ctypes.c_uint)]


class Nvml:
    """Device memory as nvidia-smi sees it, asked from outside the program.
    `device_used` is the whole card's; `process_used` one process's, or None
    where NVML cannot tell (containers, virtual machines)."""

    def __init__(self, index=0):
        try:
            self.lib = ctypes.CDLL("libnvidia-ml.so.1")
        except OSError:
            raise Skip("no libnvidia-ml.so.1")
        self.handle = ctypes.c_void_p()
        if self.lib.nvmlInit_v2() or self.lib.nvmlDeviceGetHandleByIndex_v2(
                index, ctypes.byref(self.handle)):
            raise Skip("NVML does not start")

    def _memory(self):
        memory = _NvmlMemory()
        if self.lib.nvmlDeviceGetMemoryInfo(self.handle,
                                            ctypes.byref(memory)):
            return None
        return memory

    def device_used(self):
        memory = self._memory()
        return memory and memory.used

    def device_share(self):
        """The part of the card's memory that is in use, 0 to 1; None where
        NVML does not tell."""
        memory = self._memory()
        return memory and memory.used / memory.total

    def device_total(self):
        memory = _NvmlMemory()
        if self.lib.nvmlDeviceGetMemoryInfo(self.handle,
                                            ctypes.byref(memory)):
            raise Skip("NVML does not tell the card's memory")
        return memory.total

    def process_used(self, pid):
        count = ctypes.c_uint(64)
        rows = (_NvmlProcess * 64)()
        call = getattr(self.lib, "nvmlDeviceGetComputeRunningProcesses_v3",
                       None)
        if not call or call(self.handle, ctypes.byref(count), rows):
            return None
        for row in rows[:count.value]:
            if row.pid == pid and row.used != 2 ** 64 - 1:
                return row.used
        return None


class Sampler:
    """Follows the card's memory from another thread while a program runs."""

    def __init__(self, nvml, interval=0.004):
        self.nvml, self.interval = nvml, interval
        self.before = nvml.device_used() or 0
        self.pid = None
        self.device_peak = self.process_peak = 0
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._follow, daemon=True)

    def _follow(self):
        turn = 0
        while not self.stopping.wait(self.interval):
            used = self.nvml.device_used() or 0
            self.device_peak = max(self.device_peak, used - self.before)
            # The list of processes is the dearer question.
            if self.pid and turn % 8 == 0:
                used = self.nvml.process_used(self.pid) or 0
                self.process_peak = max(self.process_peak, used)
            turn += 1

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *unused):
        self.stopping.set()
        self.thread.join()
