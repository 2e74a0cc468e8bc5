"""Running programs plain or preloaded, comparing what they print, telling."""

import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

from machine import Failure, HERE, plain_env, tail

TOP = os.path.dirname(os.path.dirname(HERE))
MIB = 1 << 20


# ---- running -----------------------------------------------------------------

def preload_env(library, report_dir, extra=None, conf=None):
    """The same, with gpupool preloaded and its reports in report_dir."""
    env = plain_env(extra)
    env["LD_PRELOAD"] = library
    if re.search(r'[ ,"]', report_dir):
        report_dir = '"%s"' % re.sub(r'(["\\])', r"\\\1", report_dir)
    settings = ["report_dir:" + report_dir] + ([conf] if conf else [])
    env["GPUPOOL_CONF"] = ",".join(settings)
    return env


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


# ---- comparing ---------------------------------------------------------------

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


# ---- telling -----------------------------------------------------------------

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
