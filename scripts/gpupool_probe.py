"""A small program that uses the driver: which there is, which cards, and does
an allocation reach gpupool. `gpupool doctor` runs it under the preload and
reads the object that it prints.
"""
import ctypes
import json
import os
import sys

ATTRIBUTE_MAJOR, ATTRIBUTE_MINOR, ATTRIBUTE_VMM = 75, 76, 102


def call(cuda, found, name, *args):
    """False after a failure, which is noted."""
    rc = getattr(cuda, name)(*args)
    if rc:
        text = ctypes.c_char_p()
        cuda.cuGetErrorName(rc, ctypes.byref(text))
        found['failed'] = name
        found['code'] = rc
        found['error'] = (text.value or b'').decode() or 'error %d' % rc
    return not rc


def attribute(cuda, number, device):
    value = ctypes.c_int()
    cuda.cuDeviceGetAttribute(ctypes.byref(value), number, device)
    return value.value


def look_at(cuda, index):
    device = ctypes.c_int()
    cuda.cuDeviceGet(ctypes.byref(device), index)
    name = ctypes.create_string_buffer(96)
    cuda.cuDeviceGetName(name, len(name), device)
    total = ctypes.c_size_t()
    cuda.cuDeviceTotalMem_v2(ctypes.byref(total), device)
    return {
        'index': index,
        'name': name.value.decode('utf-8', 'replace'),
        'total_bytes': total.value,
        'capability': '%d.%d' % (attribute(cuda, ATTRIBUTE_MAJOR, device),
                                 attribute(cuda, ATTRIBUTE_MINOR, device)),
        'virtual_memory': bool(attribute(cuda, ATTRIBUTE_VMM, device)),
    }


def allocate(cuda, found):
    """One block on the first card, there and back."""
    context, block = ctypes.c_void_p(), ctypes.c_uint64()
    if not (call(cuda, found, 'cuDevicePrimaryCtxRetain',
                 ctypes.byref(context), 0)
            and call(cuda, found, 'cuCtxSetCurrent', context)
            and call(cuda, found, 'cuMemAlloc_v2', ctypes.byref(block),
                     ctypes.c_size_t(1 << 20))):
        return
    found['allocated'] = True
    import gpupool
    try:
        found['pooled'] = gpupool.memory_allocated(0) > 0
    except gpupool.NotLoaded as error:
        found['not_loaded'] = str(error)
    call(cuda, found, 'cuMemFree_v2', block)


def probe():
    found = {'cards': [], 'pooled': False, 'allocated': False}
    try:
        cuda = ctypes.CDLL('libcuda.so.1')
    except OSError as error:
        found['missing'] = str(error)
        return found
    version, count = ctypes.c_int(), ctypes.c_int()
    cuda.cuDriverGetVersion(ctypes.byref(version))
    found['cuda_version'] = '%d.%d' % (version.value // 1000,
                                       version.value % 1000 // 10)
    if (call(cuda, found, 'cuInit', 0)
            and call(cuda, found, 'cuDeviceGetCount', ctypes.byref(count))):
        found['cards'] = [look_at(cuda, i) for i in range(count.value)]
        if count.value:
            allocate(cuda, found)
    return found


if __name__ == '__main__':
    sys.path.insert(0, os.path.dirname(os.path.realpath(__file__)))
    print(json.dumps(probe()))
