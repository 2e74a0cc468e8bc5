"""What the scripts for a real card share: finding CUDA, building programs,
running them plain or preloaded, and reading what gpupool reports.

Nothing here imports CUDA: every program runs in a process of its own.
"""

import ctypes
import glob
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PROGRAMS = os.path.join(HERE, "programs")
MIB = 1 << 20


class Skip(Exception):
    """This machine lacks what the program needs; the text says what."""


class Failure(Exception):
    """The program did not do what it should; the text says how."""


# ---- the machine ----------------------------------------------------------

def cuda_home():
    """The CUDA Toolkit's folder, or None."""
    nvcc = shutil.which("nvcc")
    places = [os.environ.get("CUDA_HOME"), os.environ.get("CUDA_PATH"),
              "/usr/local/cuda"]
    if nvcc:
        places.append(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))))
    for place in places:
        if place and os.path.exists(os.path.join(place, "include", "cuda.h")):
            return place
    return None


def nvcc():
    """The path of nvcc; Skip where there is none."""
    home = cuda_home()
    if home and os.path.exists(os.path.join(home, "bin", "nvcc")):
        return os.path.join(home, "bin", "nvcc")
    found = shutil.which("nvcc")
    if not found:
        raise Skip("no nvcc (set CUDA_HOME)")
    return found


def _ldconfig():
    """Names and paths in the linker's cache."""
    for tool in ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            text = subprocess.run([tool, "-p"], stdout=subprocess.PIPE,
                                  stderr=subprocess.DEVNULL,
                                  universal_newlines=True, check=False).stdout
        except OSError:
            continue
        return re.findall(r"^\s+(\S+) .*=> (\S+)$", text, re.M)
    return []


def _library_dirs():
    """Folders that may hold CUDA's libraries: the toolkit's, the linker's,
    those of packages from PyPI."""
    home = cuda_home()
    if home:
        for sub in ("lib64", "targets/x86_64-linux/lib", "lib"):
            yield os.path.join(home, sub)
    for name, path in _ldconfig():
        if name.startswith(("libcudart", "libcuda.so")):
            yield os.path.dirname(path)
    for place in os.environ.get("LD_LIBRARY_PATH", "").split(":"):
        if place:
            yield place
    for entry in sys.path:
        for path in sorted(glob.glob(os.path.join(entry, "nvidia", "*",
                                                  "lib"))):
            yield path
        yield os.path.join(entry, "torch", "lib")


def find_library(name):
    """The path of a CUDA library by file name, or None. The simulator's
    never counts."""
    for place in _library_dirs():
        path = os.path.join(place, name)
        if os.path.exists(path) and "/sim/" not in os.path.realpath(path):
            return path
    return None


def cudart():
    """The real shared runtime, e.g. .../libcudart.so.13; Skip if none."""
    for name in ("libcudart.so.13", "libcudart.so.12"):
        path = find_library(name)
        if path:
            return path
    raise Skip("no shared libcudart (toolkit, ldconfig and Python searched)")


def card():
    """The first card's name; Skip without one. Asked in another process, so
    that this one never starts CUDA."""
    code = ("import ctypes\n"
            "cu = ctypes.CDLL('libcuda.so.1')\n"
            "n = ctypes.c_int()\n"
            "name = ctypes.create_string_buffer(100)\n"
            "assert cu.cuInit(0) == 0, 'cuInit failed'\n"
            "assert cu.cuDeviceGetCount(ctypes.byref(n)) == 0\n"
            "assert n.value > 0, 'no device'\n"
            "d = ctypes.c_int()\n"
            "assert cu.cuDeviceGet(ctypes.byref(d), 0) == 0\n"
            "cu.cuDeviceGetName(name, 100, d)\n"
            "print(name.value.decode())\n")
    done = subprocess.run([sys.executable, "-c", code], env=plain_env(),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          universal_newlines=True, check=False)
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["?"])[-1]
        raise Skip("no usable NVIDIA card (%s)" % reason)
    return done.stdout.strip()


def need_modules(*names):
    """Skip unless this Python has them all (looked up, not imported)."""
    import importlib.util
    for name in names:
        try:
            found = importlib.util.find_spec(name)
        except (ImportError, ValueError):
            found = None
        if not found:
            raise Skip("no Python package '%s'" % name)


# ---- building -------------------------------------------------------------

_build_lock = threading.Lock()


def build(source, output, command):
    """Run `command` unless `output` is newer than `source`."""
    with _build_lock:
        if (os.path.exists(output) and
                os.path.getmtime(output) >= os.path.getmtime(source)):
            return output
        os.makedirs(os.path.dirname(output), exist_ok=True)
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, env=plain_env(),
                                  universal_newlines=True, timeout=300,
                                  check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failure("cannot build %s: %s" % (source, error))
        if done.returncode:
            raise Failure("cannot build: %s\n%s" % (" ".join(command),
                                                    tail(done.stdout)))
        return output


def _link_dir(path, name, out_dir):
    """A folder in which -lNAME finds `path`: its own, or out_dir with a link
    (a driver alone has no libcuda.so)."""
    wanted = "lib%s.so" % name
    if os.path.exists(os.path.join(os.path.dirname(path), wanted)):
        return os.path.dirname(path)
    os.makedirs(out_dir, exist_ok=True)
    link = os.path.join(out_dir, wanted)
    if not os.path.lexists(link):
        os.symlink(path, link)
    return out_dir


def build_c(name, out_dir, link):
    """Build programs/NAME.c; link is static, shared (cudart) or driver."""
    home = cuda_home()
    if not home:
        raise Skip("no cuda.h (set CUDA_HOME)")
    source = os.path.join(PROGRAMS, name + ".c")
    output = os.path.join(out_dir, "%s-%s" % (name, link))
    command = [os.environ.get("CC", "cc"), "-O2", "-g", "-Wall", "-Wextra",
               "-isystem", os.path.join(home, "include"), source, "-o", output]
    if link == "static":
        archive = find_library("libcudart_static.a")
        if not archive:
            raise Skip("no libcudart_static.a")
        command += [archive]
    elif link == "shared":
        path = cudart()
        command += [path, "-Wl,-rpath," + os.path.dirname(path)]
    else:
        # The toolkit's stub names libcuda.so.1, found when it starts.
        path = (find_library(os.path.join("stubs", "libcuda.so")) or
                find_library("libcuda.so.1"))
        if not path:
            raise Skip("no libcuda.so to link with")
        command += ["-L" + _link_dir(path, "cuda", out_dir), "-lcuda"]
    return build(source, output, command + ["-lpthread", "-ldl", "-lrt"])


def build_cu(name, out_dir, link):
    """Build programs/NAME.cu with nvcc; link is static or shared (cudart)."""
    source = os.path.join(PROGRAMS, name + ".cu")
    output = os.path.join(out_dir, "%s-%s" % (name, link))
    command = [nvcc(), "-O2", "-std=c++17", "-arch=native", "-cudart", link,
               "-Xcompiler", "-pthread", source, "-o", output]
    if link == "shared":
        place = os.path.dirname(cudart())
        command += ["-Xlinker", "-rpath," + place]
    return build(source, output, command)


# ---- running --------------------------------------------------------------

def plain_env(extra=None):
    """The environment without a trace of gpupool."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("GPUPOOL") and k != "LD_PRELOAD"}
    env.update(extra or {})
    return env


def preload_env(library, report_dir, extra=None, conf=None):
    """The same, with gpupool preloaded and its reports in report_dir."""
    env = plain_env(extra)
    env["LD_PRELOAD"] = library
    settings = ["report_dir:" + report_dir] + ([conf] if conf else [])
    env["GPUPOOL_CONF"] = ",".join(settings)
    return env


def tail(text, lines=15):
    """The last lines of a log, for a person."""
    return "\n".join("    | " + line for line in text.splitlines()[-lines:])


class Run:
    """One finished process: what it printed, how long it took, its pid."""

    def __init__(self, command, env, log, timeout, on_line=None):
        """Runs it to its end. stdout and stderr go to log.out and log.err;
        on_line(process, line) sees each line of stdout as it comes."""
        self.command = command
        self.timed_out = False
        os.makedirs(os.path.dirname(log), exist_ok=True)
        start = time.monotonic()
        lines = []
        with open(log + ".err", "w") as err:
            # A group of its own, so that a time limit ends its children too.
            child = subprocess.Popen(command, env=env, stderr=err,
                                     stdin=subprocess.DEVNULL,
                                     stdout=subprocess.PIPE,
                                     universal_newlines=True, cwd=TOP,
                                     errors="replace",
                                     start_new_session=True)
            timer = threading.Timer(timeout, self._expire, [child])
            timer.start()
            try:
                for line in child.stdout:
                    lines.append(line)
                    if on_line:
                        on_line(child, line)
                child.wait()
            finally:
                timer.cancel()
                child.stdout.close()
                if child.poll() is None:
                    self._expire(child)
                    child.wait()
        self.seconds = time.monotonic() - start
        self.pid = child.pid
        self.status = child.returncode
        self.stdout = "".join(lines)
        with open(log + ".out", "w") as out:
            out.write(self.stdout)
        with open(log + ".err", errors="replace") as err:
            self.stderr = err.read()

    def _expire(self, child):
        self.timed_out = True
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except OSError:
            pass

    def check(self, what):
        """Failure unless it ended well."""
        if self.timed_out:
            raise Failure("%s: stopped at its time limit (%.0f s)\n%s" %
                          (what, self.seconds, tail(self.stderr)))
        if self.status:
            name = ("status %d" % self.status if self.status > 0 else
                    "signal %s" % signal.Signals(-self.status).name)
            raise Failure("%s: %s\n%s" % (what, name, tail(
                self.stdout + self.stderr)))
        return self

    def results(self):
        """Every `result key=value ...` line (or `checksum HEX`), as dicts."""
        found = []
        for line in self.stdout.splitlines():
            words = line.split()
            if len(words) == 2 and words[0] == "checksum":
                found.append({"checksum": words[1]})
            elif words and words[0] == "result":
                found.append(dict(w.split("=", 1) for w in words[1:]
                                  if "=" in w))
        if not found:
            raise Failure("no result line in its output\n" + tail(
                self.stdout + self.stderr))
        return found

    def records(self, word):
        """Every line `WORD {json}`, parsed."""
        found = []
        for line in self.stdout.splitlines():
            if line.startswith(word + " {"):
                found.append(json.loads(line[len(word) + 1:]))
        return found


# ---- comparing ------------------------------------------------------------

def _number(text):
    """A float, where the text is one with a fraction; else None."""
    if not re.search(r"[.]|nan|inf", text):
        return None
    try:
        return float(text)
    except ValueError:
        return None


def digits_agreed(a, b):
    """Decimal digits to which two numbers agree; 17 when they are equal."""
    if a == b or (math.isnan(a) and math.isnan(b)):
        return 17
    scale = max(abs(a), abs(b))
    if not math.isfinite(scale) or scale == 0:
        return 0
    return max(0, min(16, int(-math.log10(abs(a - b) / scale))))


def equal_results(first, second, third):
    """third is as near to first or second as those two are to each other.
    Returns (equal, words for a person)."""
    if not len(first) == len(second) == len(third):
        return False, "different numbers of results"
    least = 17
    for one, two, three in zip(first, second, third):
        if one.keys() != three.keys():
            return False, "different results: %s / %s" % (one, three)
        for key, value in one.items():
            a, b, c = (_number(x.get(key, "")) for x in (one, two, three))
            if a is None or b is None or c is None:
                if value != two.get(key):
                    return False, "two plain runs differ in %s: %s, %s" % (
                        key, value, two.get(key))
                if value != three[key]:
                    return False, "%s is %s plain, %s preloaded" % (
                        key, value, three[key])
                continue
            digits = digits_agreed(a, b)
            ours = max(digits_agreed(a, c), digits_agreed(b, c))
            if digits < 2:
                return False, "two plain runs agree on no digit of %s" % key
            if ours < digits:
                return False, ("%s is %r and %r plain, %r preloaded" %
                               (key, a, b, c))
            least = min(least, digits)
    return True, "yes" if least == 17 else "yes, to %d digits" % least


# ---- reports --------------------------------------------------------------

def _flatten(node, prefix, out):
    if isinstance(node, dict):
        pairs = node.items()
    elif isinstance(node, list):
        pairs = enumerate(node)
    else:
        out[prefix] = node
        return out
    for key, value in pairs:
        _flatten(value, "%s.%s" % (prefix, key) if prefix else str(key), out)
    return out


class Report:
    """One JSON report; sums over its pools."""

    def __init__(self, path):
        self.path = path
        try:
            with open(path) as file:
                self.data = json.load(file)
        except (OSError, ValueError) as error:
            raise Failure("report %s cannot be read: %s" % (path, error))
        self.flat = _flatten(self.data, "", {})

    def total(self, name):
        """The sum of that figure over all pools; None where none has it."""
        tail_of_key = re.compile(r"(^|\.)%s$" % re.escape(name))
        found = {k: v for k, v in self.flat.items()
                 if tail_of_key.search(k) and isinstance(v, (int, float))}
        # A total beside the pools must not be counted twice.
        in_pools = [v for k, v in found.items() if k.startswith("pools.")]
        if in_pools:
            return sum(in_pools)
        return sum(found.values()) if found else None

    def gauge(self, name, what):
        """A gauge's current, peak, allocated or freed, over all pools."""
        for form in ("%s.%s", "%s.all.%s", "%s_%s"):
            value = self.total(form % (name, what))
            if value is not None:
                return value
        return None

    def peak(self):
        """Bytes the pools handed out at most (summed over pools)."""
        return self.gauge("allocated_bytes", "peak") or 0

    def hits(self):
        """Allocations served without a driver call."""
        return self.total("num_hits") or 0


def reports(directory, pid, kind):
    """The JSON reports of that process: kind is exit, usr1, oom."""
    pattern = "*-%d.%s%s.json" % (pid, kind, "" if kind == "exit" else "-*")
    return [Report(path) for path in
            sorted(glob.glob(os.path.join(glob.escape(directory), pattern)))]


def sane_exit_report(directory, pid):
    """The process's exit report, checked for sense."""
    found = reports(directory, pid, "exit")
    if len(found) != 1:
        raise Failure("%d exit reports of process %d in %s (%s)" % (
            len(found), pid, directory,
            ", ".join(sorted(os.listdir(directory))) or "empty"))
    report = found[0]
    text = report.path[:-len("json")] + "txt"
    if not os.path.exists(text) or os.path.getsize(text) < 100:
        raise Failure("no text beside " + report.path)
    if report.total("pid") not in (None, pid):
        raise Failure("report of pid %s, not %d" % (report.total("pid"), pid))
    if report.peak() <= 0:
        raise Failure("nothing pooled (allocated peak 0)")
    for gauge in ("allocated_bytes", "reserved_bytes"):
        now, peak = report.gauge(gauge, "current"), report.gauge(gauge, "peak")
        if now is None or peak is None or now > peak:
            raise Failure("%s: current %s, peak %s" % (gauge, now, peak))
    if report.gauge("reserved_bytes", "peak") < report.peak():
        raise Failure("reserved peak below allocated peak")
    allocs = report.total("num_alloc_calls")
    if allocs is not None and report.hits() > allocs:
        raise Failure("more hits than allocations")
    return report


# ---- NVML -----------------------------------------------------------------

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

    def device_used(self):
        memory = _NvmlMemory()
        if self.lib.nvmlDeviceGetMemoryInfo(self.handle,
                                            ctypes.byref(memory)):
            return None
        return memory.used

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


# ---- telling --------------------------------------------------------------

def mib(count):
    """Bytes as MiB for a table."""
    return "-" if count is None else "%.1f" % (count / MIB)


def table(header, rows):
    """Print aligned columns; the first is text, the rest to the right."""
    cells = [header] + [[str(c) for c in row] for row in rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    for index, row in enumerate(cells):
        line = [row[0].ljust(widths[0])]
        line += [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        print("  ".join(line).rstrip())
        if index == 0:
            print("  ".join("-" * w for w in widths))
    sys.stdout.flush()


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    if len(values) % 2:
        return values[middle]
    return (values[middle - 1] + values[middle]) / 2


def out_dir(path, name):
    """An existing folder for logs: `path`, or a fresh temporary one."""
    if path:
        os.makedirs(path, exist_ok=True)
        return os.path.abspath(path)
    return tempfile.mkdtemp(prefix="gpupool-%s-" % name)
