"""A report from what a process left in its file: the last ledger, and the
curves as the events draw them. For processes that wrote no report, because they
were killed.
"""
import os

import gpupool_map
from gpupool_file import UNKNOWN, life

POINTS = 2048
# Of the ledger only; they have other names in a report, or none.
NOT_OF_POOLS = {'updated_unix_ns', 'ordinal', 'contexts', 'limit_bytes',
                'context_bytes', 'outside_bytes', 'reserve_floor_bytes',
                'uuid', 'name'}


def known(value):
    return None if value == UNKNOWN else value


def thinned(points, most=POINTS):
    """(ns, allocated, reserved) in at most about `most` points: of each stretch
    of time its first point, its highest, its lowest and its last."""
    if len(points) <= most:
        return points
    stretch = -(-len(points) * 4 // most)
    kept = []
    for at in range(0, len(points), stretch):
        part = points[at:at + stretch]
        chosen = {0, len(part) - 1,
                  max(range(len(part)), key=lambda i: part[i][1]),
                  min(range(len(part)), key=lambda i: part[i][1])}
        kept.extend(part[i] for i in sorted(chosen))
    return kept


def curve(levels, start, most=POINTS):
    """What the events say of one device, as a report's timeline."""
    points = thinned([(max(event.time - start, 0), allocated, reserved)
                      for event, allocated, reserved in levels], most)
    return {'elapsed_ns': [point[0] for point in points],
            'allocated_bytes': [point[1] for point in points],
            'reserved_bytes': [point[2] for point in points]}


def pool(figures, events, start, complete):
    levels = [(event,) + level for event, level in
              zip(events, gpupool_map.levels(events, complete))]
    made = {'device': figures.get('ordinal', 0),
            'device_name': figures['name'] or 'not known', 'context': None}
    for name, value in figures.items():
        if name in NOT_OF_POOLS:
            continue
        if name in ('total_bytes', 'free_bytes'):
            made[name] = known(value)
        elif value != UNKNOWN:
            made[name] = value
    for base in 'allocated_bytes', 'reserved_bytes':
        for part in 'current', 'peak':
            made.setdefault('%s.all.%s' % (base, part), 0)
    made['timeline'] = curve(levels, start)
    last_events(made, figures.get('updated_unix_ns', 0), levels)
    from_events(made, events, complete)
    sizes = gpupool_map.by_size(
        gpupool_map.Map(events).to(len(events)).live.values())
    made['live_by_size'] = [
        {'to_bytes': key, 'blocks': sizes[key][0], 'bytes': sizes[key][1]}
        for key in sorted(sizes)]
    return made


def last_events(made, updated, levels):
    """The ledger is up to a second old when a process is killed: what happened
    after it counts as well."""
    later = [level for level in levels if level[0].time > updated]
    if not later:
        return
    for place, base in (1, 'allocated_bytes.all'), (2, 'reserved_bytes.all'):
        values = [level[place] for level in later]
        made[base + '.current'] = values[-1]
        made[base + '.peak'] = max(made[base + '.peak'], *values)
    made['cached_bytes'] = max(made['reserved_bytes.all.current']
                               - made['allocated_bytes.all.current'], 0)
    if 'largest_free_bytes' in made:
        made['largest_free_bytes'] = min(made['largest_free_bytes'],
                                         made['cached_bytes'])
    count_later(made, [level[0] for level in later])


def count_later(made, events):
    allocs = [event for event in events if event.kind == 'alloc']
    frees = [event for event in events if event.kind == 'free']
    for name, taken, given in (
            ('allocation.all', len(allocs), len(frees)),
            ('allocated_bytes.all', sum(event.bytes for event in allocs),
             sum(event.bytes for event in frees)),
            ('requested_bytes.all', sum(event.requested for event in allocs),
             sum(event.requested for event in frees))):
        for part, more in (('allocated', taken), ('freed', given)) + (
                # The events say themselves how much is allocated.
                () if name == 'allocated_bytes.all'
                else (('current', taken - given),)):
            if name + '.' + part in made:
                made[name + '.' + part] += more
    for name, more in (('num_alloc_calls', len(allocs)),
                       ('num_free_calls', len(frees))):
        if name in made:
            made[name] += more


def from_events(made, events, complete):
    """Counts that no ledger tells yet."""
    if 'num_alloc_calls' in made or not complete:
        return
    for name, kind in (('num_alloc_calls', 'alloc'),
                       ('num_free_calls', 'free'), ('num_ooms', 'oom'),
                       ('num_trims', 'trim')):
        made[name] = sum(event.kind == kind for event in events)
    made['num_alloc_calls'] += made['num_ooms']
    made['allocation.all.current'] = (made['num_alloc_calls']
                                      - made['num_ooms']
                                      - made['num_free_calls'])


def device(figures, of):
    held = of['reserved_bytes.all.current']
    context = known(figures.get('context_bytes', UNKNOWN))
    made = {'device': figures.get('ordinal', 0),
            'cap': known(figures.get('limit_bytes', UNKNOWN)),
            'held': held + (known(figures.get('outside_bytes', UNKNOWN)) or 0)
            + (context or 0),
            'part.pool': held, 'part.context': context}
    return made


def ending(file):
    state = life(file)
    if state == 'alive':
        return 'running'
    if state == 'elsewhere':
        return 'elsewhere'
    return 'ended' if file.state == 'ended' else 'killed'


def from_ledger(process, devices, events, start, complete):
    """The parts of a report that the ledger has figures for."""
    made = {}
    for name, value in process.items():
        if name.startswith('outside.') and value != UNKNOWN:
            made['passthrough.' + name[len('outside.'):]] = value
    made['pools'] = []
    told = {figures.get('ordinal', 0) for figures in devices}
    # The first ledger is written up to a second after the first event.
    devices = devices + [
        {'ordinal': number, 'name': ''}
        for number in sorted({event.device for event in events} - told)]
    for figures in devices:
        mine = [event for event in events
                if event.device == figures.get('ordinal', 0)]
        made['pools'].append(pool(figures, mine, start, complete))
    made['devices'] = [device(figures, of) for figures, of in
                       zip(devices, made['pools'])]
    return made


def settings(text):
    """From 'key:value,key:value', where lists are in brackets and texts with
    commas in quotes."""
    found, depth, quoted, word = [], 0, False, ''
    for c in text + ',':
        quoted ^= c == '"'
        depth += (c == '[') - (c == ']')
        if c == ',' and not quoted and depth <= 0:
            key, colon, value = word.partition(':')
            if colon:
                found.append({'key': key, 'value': value,
                              'is_default': False})
            word = ''
        else:
            word += c
    return found


def report(ring):
    file = ring.file
    process, devices = file.ledger()
    events = ring.events
    start = file.unix_ns
    moments = [start, file.end_unix_ns]
    if events:
        moments.append(events[-1].time)
    if process.get('updated_unix_ns', UNKNOWN) != UNKNOWN:
        moments.append(process['updated_unix_ns'])
    end = max(moments)
    made = {'schema': 1, 'reason': 'record', 'exe': file.exe,
            'name': os.path.basename(file.exe), 'pid': file.pid,
            'state': ending(file), 'start_unix_ns': start,
            'now_unix_ns': end, 'elapsed_ns': end - start,
            'events': len(events), 'events_lost': ring.lost,
            'events_torn': ring.torn,
            'first_event_elapsed_ns':
                max(events[0].time - start, 0) if events else 0}
    made.update(from_ledger(process, devices, events, start,
                            not ring.lost))
    pools = made['pools']
    for name, key in (('allocated_bytes', 'allocated_bytes.all.current'),
                      ('reserved_bytes', 'reserved_bytes.all.current'),
                      ('cached_bytes', 'cached_bytes'),
                      ('peak_allocated_bytes', 'allocated_bytes.all.peak'),
                      ('peak_reserved_bytes', 'reserved_bytes.all.peak'),
                      ('num_ooms', 'num_ooms'),
                      ('live_allocations', 'allocation.all.current')):
        made[name] = sum(p.get(key, 0) for p in pools)
    made['num_pools'] = len(pools)
    last = [event for event in events if event.kind == 'oom'][-1:]
    for event in last:
        made['oom_bytes'] = event.requested
        made['oom_device'] = event.device
        made['oom_elapsed_ns'] = max(event.time - start, 0)
    made['sections'] = []
    made['settings'] = settings(file.conf)
    made['notes'] = list(ring.notes)
    return made
