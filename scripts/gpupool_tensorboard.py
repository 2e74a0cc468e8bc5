"""The curves of a run as an event file that TensorBoard shows.

The file is a sequence of records, each with its length and two checksums
(TFRecord); each record is an Event of tensorflow/core/util/event.proto, of
which the few fields needed are written here by hand. A scalar is a 32 bit
float: it keeps seven digits of a figure.
"""
import os
import re
import struct

import gpupool_export
import gpupool_rebuild

POINTS = 4096
GIB = float(1 << 30)


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ TABLE[(crc ^ byte) & 0xff]
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def record(data):
    length = struct.pack('<Q', len(data))
    return (length + struct.pack('<I', masked(length)) + data
            + struct.pack('<I', masked(data)))


# ---- protobuf ----------------------------------------------------------------

def varint(value):
    out = bytearray()
    while value > 0x7f:
        out.append(value & 0x7f | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field_bytes(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def event(unix_ns, step, body):
    """wall_time = 1 (double), step = 2 (int64), then what happened."""
    return (b'\x09' + struct.pack('<d', unix_ns / 1e9)
            + b'\x10' + varint(step) + body)


def scalars(values):
    """summary = 5 { value = 1 { tag = 1, simple_value = 2 (float) } ... }"""
    body = b''.join(
        field_bytes(1, field_bytes(1, tag.encode('utf-8'))
                    + b'\x15' + struct.pack('<f', value))
        for tag, value in values)
    return field_bytes(5, body)


# ---- the curves --------------------------------------------------------------

def curve(story, pool):
    """(ns, allocated, reserved), of the report first, then of the events."""
    start = story.report['start_unix_ns']
    device = pool['device']
    before = gpupool_export.first_event(story, device)
    if story.report['reason'] == 'record' and before is not None:
        before = 0
    found = list(gpupool_export.points(pool, before))
    found += [(max(event.time - start, 0), allocated, reserved)
              for event, allocated, reserved in story.levels(device)]
    return gpupool_rebuild.thinned(found, POINTS)


def as_events(story):
    """The file's content. A step is a microsecond of the run."""
    report = story.report
    start = report['start_unix_ns']
    records = [event(start, 0, field_bytes(3, b'brain.Event:2'))]
    caps = {d['device']: d['cap'] for d in report.get('devices', ())}
    for index, pool in enumerate(report['pools']):
        prefix = 'device %d' % pool['device']
        if pool['device'] in [p['device'] for p in report['pools'][:index]]:
            prefix += ' pool %d' % index
        cap = caps.get(pool['device'])
        for ns, allocated, reserved in curve(story, pool):
            values = [(prefix + '/allocated GiB', allocated / GIB),
                      (prefix + '/reserved GiB', reserved / GIB)]
            if cap is not None:
                values.append((prefix + '/limit GiB', cap / GIB))
            records.append(event(start + ns, ns // 1000, scalars(values)))
    return b''.join(record(data) for data in records)


def file_name(report):
    """TensorBoard looks for names with `tfevents` in them."""
    name = re.sub(r'[^\w.+-]', '_', report['name'])
    return 'events.out.tfevents.%d.%s.%d' % (
        report['start_unix_ns'] // 10 ** 9, name, report['pid'])


def place(report, output):
    """Where to: a directory, or a file whose name says what it is."""
    if output is None:
        return file_name(report)
    if os.path.isdir(output) or output.endswith('/'):
        return os.path.join(output, file_name(report))
    return output
