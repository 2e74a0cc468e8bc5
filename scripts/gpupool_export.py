"""A run for other programs: CSV, and a trace for ui.perfetto.dev."""
import csv
import io
import json

COLUMNS = ('elapsed_ns', 'unix_ns', 'device', 'event', 'thread', 'address',
           'requested_bytes', 'block_bytes', 'allocated_bytes',
           'reserved_bytes')
# Instants, in the trace; the rest is in the curves.
TELLING = {'oom': 'out of memory', 'trim': 'trim', 'limit': 'limit changed',
           'neighbour': 'neighbours asked', 'segment_map': 'map',
           'segment_unmap': 'unmap', 'segment_alloc': 'segment taken',
           'segment_free': 'segment given back', 'alloc': 'alloc',
           'free': 'free'}


def points(pool, before=None):
    """The curve of a report's pool, up to where the events begin."""
    curve = pool['timeline']
    for ns, allocated, reserved in zip(curve['elapsed_ns'],
                                       curve['allocated_bytes'],
                                       curve['reserved_bytes']):
        if before is None or ns < before:
            yield ns, allocated, reserved


def first_event(story, device):
    """When the events of a device begin, in ns from the start; None: none."""
    for event in story.events(device):
        return max(event.time - story.report['start_unix_ns'], 0)
    return None


def rows(story):
    start = story.report['start_unix_ns']
    seen = set()
    for pool in story.report['pools']:
        device = pool['device']
        # The curve of a record is made of these very events.
        if story.report['reason'] != 'record':
            for ns, allocated, reserved in points(pool, first_event(story,
                                                                    device)):
                yield (ns, start + ns, device, 'sample', '', '', '', '',
                       allocated, reserved)
        if device in seen:
            continue
        seen.add(device)
        for event, allocated, reserved in story.levels(device):
            yield (max(event.time - start, 0), event.time, device, event.kind,
                   event.thread, '0x%x' % event.address, event.requested,
                   event.bytes, allocated, reserved)


def as_csv(story):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator='\n')
    writer.writerow(COLUMNS)
    writer.writerows(sorted(rows(story), key=lambda row: row[0]))
    return out.getvalue()


# ---- Perfetto ----------------------------------------------------------------

def counter(pid, name, ns, **values):
    return {'ph': 'C', 'pid': pid, 'name': name, 'ts': ns / 1000,
            'args': values}


def trace_events(story):
    report = story.report
    pid, start = report['pid'], report['start_unix_ns']
    yield {'ph': 'M', 'pid': pid, 'name': 'process_name',
           'args': {'name': report['name']}}
    caps = {d['device']: d['cap'] for d in report.get('devices', ())}
    for index, pool in enumerate(report['pools']):
        device = pool['device']
        name = 'device %d, memory in bytes' % device
        if [p['device'] for p in report['pools'][:index]].count(device):
            name += ', pool %d' % index
        events = story.levels(device)
        record = report['reason'] == 'record' and events
        for ns, allocated, reserved in (
                () if record else points(pool, first_event(story, device))):
            yield counter(pid, name, ns, allocated=allocated,
                          reserved=reserved)
        for event, allocated, reserved in events:
            yield counter(pid, name, max(event.time - start, 0),
                          allocated=allocated, reserved=reserved)
        cap = caps.get(device)
        if cap is not None:
            for ns in 0, max(story.end_ns() - start, 0):
                yield counter(pid, 'device %d, limit in bytes' % device, ns,
                              limit=cap)
    threads = set()
    for event in story.events():
        if event.thread not in threads:
            threads.add(event.thread)
            yield {'ph': 'M', 'pid': pid, 'tid': event.thread,
                   'name': 'thread_name',
                   'args': {'name': 'thread %d' % event.thread}}
        yield {'ph': 'i', 's': 'g' if event.kind == 'oom' else 't',
               'pid': pid, 'tid': event.thread, 'cat': event.kind,
               'name': TELLING[event.kind],
               'ts': max(event.time - start, 0) / 1000,
               'args': {'device': event.device,
                        'address': '0x%x' % event.address,
                        'requested_bytes': event.requested,
                        'block_bytes': event.bytes}}


def as_perfetto(story):
    return json.dumps({
        'traceEvents': list(trace_events(story)),
        'displayTimeUnit': 'ms',
        'otherData': {'made_by': 'gpupool', 'exe': story.report.get('exe', ''),
                      'start_unix_ns': str(story.report['start_unix_ns'])},
    }, separators=(',', ':')) + '\n'
