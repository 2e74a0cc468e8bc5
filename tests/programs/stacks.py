#!/usr/bin/env python3
"""Allocates and keeps memory from all kinds of Python code.

Each kind keeps a block of a size of its own, and notes the frames that Python
itself sees on that line. Prints them as JSON: {size in MiB: [[file, line,
function], ...]}, innermost first; for C code that runs no Python, []."""
import asyncio
import ctypes
import json
import sys
import threading

MIB = 1 << 20
runtime = ctypes.CDLL('libcudart.so.13', use_errno=True)
with_gil = ctypes.PyDLL('libcudart.so.13')
seen = {}


def frames():
    """The caller's, as the report should tell them."""
    frame = sys._getframe(1)
    found = []
    while frame:
        code = frame.f_code
        found.append([code.co_filename, frame.f_lineno,
                      getattr(code, 'co_qualname', code.co_name)])
        frame = frame.f_back
    return found


def check(error):
    if error:
        raise MemoryError('cudaMalloc gave %d' % error)


def plain():
    p = ctypes.c_void_p()
    seen[1] = frames(); check(runtime.cudaMalloc(ctypes.byref(p), MIB))


def holding_the_gil():
    p = ctypes.c_void_p()
    seen[2] = frames(); check(with_gil.cudaMalloc(ctypes.byref(p), 2 * MIB))


class Model:
    def method(self):
        p = ctypes.c_void_p()

        def inner():
            seen[3] = frames(); check(runtime.cudaMalloc(
                ctypes.byref(p),
                3 * MIB))
        inner()


def generator():
    p = ctypes.c_void_p()
    yield 0
    seen[4] = frames(); yield runtime.cudaMalloc(ctypes.byref(p), 4 * MIB)


async def leaf():
    p = ctypes.c_void_p()
    await asyncio.sleep(0)
    seen[5] = frames(); check(runtime.cudaMalloc(ctypes.byref(p), 5 * MIB))


async def middle():
    await leaf()


def deep(n):
    if n:
        return deep(n - 1)
    p = ctypes.c_void_p()
    seen[6] = frames(); check(runtime.cudaMalloc(ctypes.byref(p), 6 * MIB))


def thread_main():
    p = ctypes.c_void_p()
    seen[7] = frames(); check(runtime.cudaMalloc(ctypes.byref(p), 7 * MIB))


# A function long enough that its line table has steps of many lines and jumps.
LONG = ('def lang(p):\n' + '    x = 1\n' * 900 + '\n' * 400 +
        '    for i in range(2):\n'
        '        if i == 1:\n'
        '            seen[8] = frames(); check(runtime.cudaMalloc('
        'ctypes.byref(p), 8 * MIB))\n' + '    y = [\n' + '    1,\n' * 300 +
        '    ]\n')


def generated():
    scope = dict(globals())
    exec(compile(LONG, '/m\xf6del/\u6a21\u578b/\U0001f40d.py', 'exec'), scope)
    scope['lang'](ctypes.c_void_p())


def traced():
    """Under a debugger, lines are where the debugger has them."""
    p = ctypes.c_void_p()
    sys.settrace(lambda *args: None)
    sys._getframe().f_trace = lambda *args: None
    seen[9] = frames(); check(runtime.cudaMalloc(ctypes.byref(p), 9 * MIB))
    sys.settrace(None)


def errors_stay():
    ctypes.set_errno(77)
    p = ctypes.c_void_p()
    try:
        raise KeyError('x')
    except KeyError:
        check(runtime.cudaMalloc(ctypes.byref(p), 1))
        assert sys.exc_info()[0] is KeyError
    assert ctypes.get_errno() == 77, ctypes.get_errno()
    check(runtime.cudaFree(p))


plain()
holding_the_gil()
Model().method()
list(generator())
asyncio.run(middle())
deep(300)
thread = threading.Thread(target=thread_main)
thread.start()
thread.join()
generated()
traced()
errors_stay()
print(json.dumps(seen))
