"""gpupool from inside a Python program that runs under it.

    import gpupool
    gpupool.mark('train')
    ...
    print(gpupool.memory_summary())
    print(gpupool.max_memory_allocated() / 2**20, 'MiB')

The functions have the names, arguments and units of torch.cuda's, and count
everything that the process takes from gpupool, whichever library it is for;
under PYTORCH_NO_CUDA_MEMORY_CACHING=1, where torch.cuda.memory_allocated()
reads 0, that includes every tensor. `device` is a number, 'cuda:1', a
torch.device or None for the current device.

Importing the module needs nothing. Its functions raise NotLoaded where
libgpupool.so is not preloaded; available() asks.
"""
import ctypes
import errno
import json
import os

__all__ = [
    'NotLoaded', 'available', 'memory_stats', 'memory_stats_as_nested_dict',
    'memory_summary', 'memory_allocated', 'max_memory_allocated',
    'memory_reserved', 'max_memory_reserved', 'reset_peak_memory_stats',
    'empty_cache', 'set_per_process_memory_fraction', 'set_memory_limit',
    'mem_get_info', 'mark', 'section',
]

UNLIMITED = 2 ** 64 - 1
CURRENT_DEVICE = -1
ALL_DEVICES = -2


class NotLoaded(RuntimeError):
    """gpupool is not in this process, or is switched off in it."""


class _Stat(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64)
                for name in ('current', 'peak', 'allocated', 'freed')]


class _Figures(ctypes.Structure):
    """struct gpupool_figures of gpupool.h."""
    _fields_ = (
        [('size', ctypes.c_size_t)]
        + [(name, _Stat) for name in (
            'allocated_bytes', 'requested_bytes', 'active_bytes',
            'reserved_bytes', 'inactive_split_bytes', 'allocation',
            'segment')]
        + [(name, ctypes.c_uint64) for name in (
            'num_alloc_calls', 'num_free_calls', 'num_hits', 'num_ooms',
            'num_alloc_retries', 'driver_calls', 'driver_ns', 'saved_ns',
            'cached_bytes', 'largest_free_bytes', 'outside_bytes',
            'device_bytes', 'limit_bytes')])


_SIGNATURES = {
    'gpupool_api_version': (ctypes.c_int, []),
    'gpupool_figures': (ctypes.c_int,
                        [ctypes.c_int, ctypes.POINTER(_Figures)]),
    'gpupool_stats': (ctypes.c_long,
                      [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]),
    'gpupool_summary': (ctypes.c_long,
                        [ctypes.c_int, ctypes.c_char_p, ctypes.c_size_t]),
    'gpupool_trim': (ctypes.c_int,
                     [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64)]),
    'gpupool_reset_peak': (ctypes.c_int, [ctypes.c_int]),
    'gpupool_set_limit': (ctypes.c_int, [ctypes.c_int, ctypes.c_uint64]),
    'gpupool_mark': (ctypes.c_int, [ctypes.c_char_p]),
    'gpupool_memory': (ctypes.c_int,
                       [ctypes.c_int, ctypes.POINTER(ctypes.c_uint64),
                        ctypes.POINTER(ctypes.c_uint64)]),
}

_API_VERSION = 1
_library = None  # once it was found


def _load():
    """The library, which is in the process already or not at all."""
    global _library
    if _library is not None:
        return _library
    library = ctypes.CDLL(None)
    try:
        for name, (result, arguments) in _SIGNATURES.items():
            function = getattr(library, name)
            function.restype = result
            function.argtypes = arguments
    except AttributeError:
        raise NotLoaded(
            'libgpupool.so is not preloaded in this process; start it with '
            '`gpupool run -- python3 ...`, or with LD_PRELOAD set to the '
            'path of libgpupool.so') from None
    version = library.gpupool_api_version()
    if version != _API_VERSION:
        raise NotLoaded('the preloaded libgpupool.so has version %d of the '
                        'interface, and this module (%s) needs %d; both come '
                        'with one `make install`'
                        % (version, __file__, _API_VERSION))
    _library = library
    return library


def available():
    """True where the other functions work."""
    try:
        _check(_load().gpupool_figures(0, _figures()))
    except NotLoaded:
        return False
    except ValueError:  # no device 0
        pass
    return True


def _check(rc, device=None):
    """A result of the library, unless it says that something went wrong."""
    if rc >= 0:
        return rc
    if rc == -errno.EOPNOTSUPP:
        raise NotLoaded('gpupool is switched off in this process '
                        '(enabled:False, or a fork of a process that used the '
                        'GPU)')
    if rc == -errno.ENODEV:
        raise ValueError('no such device: %r' % (device,))
    raise OSError(-rc, os.strerror(-rc))


def _number(device):
    """The number of a device in any of torch.cuda's ways to name one."""
    if device is None:
        return CURRENT_DEVICE
    if isinstance(device, str):
        kind, colon, index = device.partition(':')
        if kind == 'cuda' and not colon:
            return CURRENT_DEVICE
        if kind == 'cuda' and index.isdigit():
            return int(index)
        raise ValueError("not a CUDA device: %r; it is a number, 'cuda', "
                         "'cuda:N', a torch.device or None" % (device,))
    if hasattr(device, 'index') and not isinstance(device, (list, tuple)):
        if getattr(device, 'type', 'cuda') != 'cuda':
            raise ValueError('not a CUDA device: %r' % (device,))
        return CURRENT_DEVICE if device.index is None else int(device.index)
    if isinstance(device, bool) or not hasattr(device, '__index__'):
        raise TypeError("a device is a number, 'cuda:N', a torch.device or "
                        'None, not %r' % (device,))
    number = device.__index__()
    if number < 0 and number != ALL_DEVICES:
        return CURRENT_DEVICE  # as torch.cuda has it
    return number


def _figures(device=None):
    figures = _Figures(size=ctypes.sizeof(_Figures))
    if device is not None:
        _check(_load().gpupool_figures(device, figures), device)
    return figures


def _text(function, device):
    """What a function writes that tells how much room it wants."""
    room = 1 << 14
    while True:
        text = ctypes.create_string_buffer(room)
        length = _check(function(device, text, room), device)
        if length < room:
            return text.value.decode('utf-8', 'replace')
        room = length + 4096  # figures may have grown meanwhile


def memory_stats(device=None):
    """All figures as one dictionary with flat keys: those of
    torch.cuda.memory_stats(), and gpupool's own."""
    stats = json.loads(_text(_load().gpupool_stats, _number(device)))
    if stats.get('max_split_size') is None:
        stats['max_split_size'] = -1  # unlimited, as torch.cuda says it
    return stats


def memory_stats_as_nested_dict(device=None):
    """memory_stats() as dictionaries in dictionaries:
    ['allocated_bytes']['all']['peak']."""
    nested = {}
    for key, value in memory_stats(device).items():
        *groups, last = key.split('.')
        level = nested
        for group in groups:
            level = level.setdefault(group, {})
        level[last] = value
    return nested


def memory_summary(device=None, abbreviated=False):
    """A page for people, as torch.cuda.memory_summary()."""
    page = _text(_load().gpupool_summary, _number(device))
    if abbreviated:
        page = '\n'.join(line for line in page.split('\n')
                         if '      from ' not in line)
    return page


def memory_allocated(device=None):
    """Bytes that the program holds of the pool now."""
    return _figures(_number(device)).allocated_bytes.current


def max_memory_allocated(device=None):
    """The most that it held, since the start or since
    reset_peak_memory_stats()."""
    return _figures(_number(device)).allocated_bytes.peak


def memory_reserved(device=None):
    """Bytes that the pool holds from the driver."""
    return _figures(_number(device)).reserved_bytes.current


def max_memory_reserved(device=None):
    """The most that it held."""
    return _figures(_number(device)).reserved_bytes.peak


def reset_peak_memory_stats(device=None):
    """Every peak becomes what is there now."""
    number = _number(device)
    _check(_load().gpupool_reset_peak(number), device)


def empty_cache(device=ALL_DEVICES):
    """Give cached memory back to the driver, of all devices if none is named.
    Returns the bytes given back."""
    number = _number(device)
    freed = ctypes.c_uint64()
    _check(_load().gpupool_trim(number, freed), device)
    return freed.value


_NOT_INITIALISED = (
    'CUDA is not initialised in this process yet; call torch.cuda.init(), or '
    'anything else that uses the GPU, before a limit is set')


def set_per_process_memory_fraction(fraction, device=None):
    """Let the process take at most that share, 0 to 1, of the device's memory,
    whichever library asks. What it holds beyond that stays; what is cached
    beyond it is given back."""
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)):
        raise TypeError('a fraction is a number from 0 to 1, not %r'
                        % (fraction,))
    if not 0 <= fraction <= 1:
        raise ValueError('a fraction is a number from 0 to 1, not %r'
                         % (fraction,))
    total = _figures(_number(device)).device_bytes
    if not total:
        raise RuntimeError(_NOT_INITIALISED)
    set_memory_limit(int(total * fraction), device)


def set_memory_limit(limit, device=None):
    """The same in bytes; None: no limit."""
    number = _number(device)
    if limit is None:
        limit = UNLIMITED
    rc = _load().gpupool_set_limit(number, limit)
    if rc == -errno.EAGAIN:
        raise RuntimeError(_NOT_INITIALISED)
    _check(rc, device)


def mem_get_info(device=None):
    """(free, total) in bytes, as the driver tells the program; (0, 0) before
    the program has used the device."""
    number = _number(device)
    free, total = ctypes.c_uint64(), ctypes.c_uint64()
    _check(_load().gpupool_memory(number, free, total), device)
    return free.value, total.value


def mark(name):
    """Enter a section of that name, and leave the one before; None: only
    leave. Reports tell each section's peaks."""
    if name is not None and not isinstance(name, bytes):
        name = name.encode('utf-8', 'surrogateescape')
    _check(_load().gpupool_mark(name))


class section:
    """with gpupool.section('eval'): the same for a block. Sections do not
    nest: afterwards the program is in none."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        mark(self.name)
        return self

    def __exit__(self, *exception):
        mark(None)
