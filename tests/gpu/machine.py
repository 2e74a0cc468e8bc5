"""Finding CUDA on this machine, and building programs with it.

Nothing here imports CUDA: every program runs in a process of its own.
"""

import glob
import os
import re
import shutil
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")


class Skip(Exception):
    """This machine lacks what the program needs; the text says what."""


class Failure(Exception):
    """The program did not do what it should; the text says how."""


def plain_env(extra=None):
    """The environment without a trace of gpupool."""
    env = {k: v for k, v in os.environ.items()
           if not k.startswith("GPUPOOL") and k != "LD_PRELOAD"}
    env.update(extra or {})
    return env


def tail(text, lines=15):
    """The last lines of a log, for a person."""
    return "\n".join("    | " + line for line in text.splitlines()[-lines:])


# ---- what there is -----------------------------------------------------------

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


def need_cards(count):
    """Skip unless this process would see so many."""
    code = ("import ctypes\n"
            "cu = ctypes.CDLL('libcuda.so.1')\n"
            "n = ctypes.c_int()\n"
            "assert cu.cuInit(0) == 0\n"
            "assert cu.cuDeviceGetCount(ctypes.byref(n)) == 0\n"
            "print(n.value)\n")
    done = subprocess.run([sys.executable, "-c", code], env=plain_env(),
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          universal_newlines=True, check=False)
    if done.returncode or int(done.stdout) < count:
        raise Skip("needs %d cards, has %s" % (
            count, done.stdout.strip() or "none"))


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


# ---- building ----------------------------------------------------------------

_build_lock = threading.Lock()


def _newest(source):
    """When the source, or a header that it may include, was changed last."""
    return max(os.path.getmtime(path) for path in [source] + glob.glob(
        os.path.join(glob.escape(os.path.dirname(source)), "**", "*.*h"),
        recursive=True))


def build(source, output, command):
    """Run `command` unless `output` is newer than `source`."""
    with _build_lock:
        if (os.path.exists(output) and
                os.path.getmtime(output) >= _newest(source)):
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


def _driver_flags(out_dir):
    # The toolkit's stub names libcuda.so.1, found when it starts.
    path = (find_library(os.path.join("stubs", "libcuda.so")) or
            find_library("libcuda.so.1"))
    if not path:
        raise Skip("no libcuda.so to link with")
    return ["-L" + _link_dir(path, "cuda", out_dir), "-lcuda"]


def _c_command(sources, output):
    home = cuda_home()
    if not home:
        raise Skip("no cuda.h (set CUDA_HOME)")
    return [os.environ.get("CC", "cc"), "-O2", "-g", "-Wall", "-Wextra",
            "-I", os.path.dirname(os.path.dirname(HERE)),
            "-isystem", os.path.join(home, "include")] + sources + [
                "-o", output]


def build_c(name, out_dir, link, folder=PROGRAMS):
    """Build programs/NAME.c; link is static, shared (cudart) or driver."""
    source = os.path.join(folder, name + ".c")
    output = os.path.join(out_dir, "%s-%s" % (name, link))
    command = _c_command([source], output)
    if link == "static":
        archive = find_library("libcudart_static.a")
        if not archive:
            raise Skip("no libcudart_static.a")
        command += [archive]
    elif link == "shared":
        path = cudart()
        command += [path, "-Wl,-rpath," + os.path.dirname(path)]
    else:
        command += _driver_flags(out_dir)
    return build(source, output, command + ["-lpthread", "-ldl", "-lrt"])


def build_c_folder(folder, output):
    """Build all of a folder's .c with the shared cudart and the driver."""
    sources = sorted(glob.glob(os.path.join(glob.escape(folder), "*.c")))
    path = cudart()
    command = _c_command(sources, output)
    command += [path, "-Wl,-rpath," + os.path.dirname(path)]
    command += _driver_flags(os.path.dirname(output))
    return build(max(sources, key=os.path.getmtime), output,
                 command + ["-lpthread", "-ldl", "-lrt"])


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


def build_torch(name, out_dir, library=False):
    """Build programs/NAME.cpp, a program or a library to load, against this
    Python's PyTorch."""
    import importlib.util
    need_modules("torch")
    place = os.path.dirname(importlib.util.find_spec("torch").origin)
    include, lib = os.path.join(place, "include"), os.path.join(place, "lib")
    if not os.path.exists(os.path.join(lib, "libc10_cuda.so")):
        raise Skip("this PyTorch has no libc10_cuda")
    home = cuda_home()
    if not home:
        raise Skip("no CUDA headers (set CUDA_HOME)")
    runtime = cudart()
    source = os.path.join(PROGRAMS, name + ".cpp")
    output = os.path.join(out_dir, name + (".so" if library else ""))
    # The libraries need one another: found through our rpath, not theirs.
    command = [os.environ.get("CXX", "c++"), "-O2", "-std=c++17", "-w",
               "-isystem", include, "-isystem", os.path.join(home, "include"),
               "-Wl,--no-as-needed,--allow-shlib-undefined",
               "-Wl,--disable-new-dtags", source, "-o", output,
               "-L" + lib, "-lc10_cuda", "-lc10", runtime, "-lpthread"]
    command += ["-Wl,-rpath," + d for d in (lib, os.path.dirname(runtime))]
    return build(source, output,
                 command + (["-shared", "-fPIC"] if library else []))
