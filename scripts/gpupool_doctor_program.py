"""One program, for `gpupool doctor -- PROGRAM`: it is started under gpupool, as
`gpupool run` does, watched for a while, and stopped. Do all its allocations
come through gpupool, and if not, whose do not?
"""
import glob
import json
import os
import re
import signal
import tempfile
import time

import gpupool_cards
import gpupool_doctor_conflicts as conflicts
import gpupool_ledger
import gpupool_run
import gpupool_settings
import gpupool_watch
from gpupool_elf import check_program, find_program, interpreter
from gpupool_finding import NOTE, OK, TODO, Finding
from gpupool_paths import Problem, runtime_dir
from gpupool_text import size

STOP_S = 3.0
COUNT_PAUSE_S = 3.0
# Contexts and code, which are not measured without a limit, take less.
UNCOUNTED = 2 << 30
# Sentences of a report's notes that tell of work around gpupool.
AROUND = 'around gpupool'
NEWER = 'newer than this gpupool'


class Seen:
    """What came of the run."""

    def __init__(self):
        self.status = None   # wait status; None: it was stopped
        self.problem = None  # why it was not let run
        self.maps = {}       # pid: /proc/PID/maps, with the driver in it
        self.names = {}      # pid: program
        self.others = ''     # maps of the first process, without the driver
        self.reports = []
        self.counted_at = 0.0
        self.asked = None  # of nvidia-smi, when the ledger is newer
        self.uncounted = {}  # pid: (bytes by the driver, by gpupool), the worst
        self.seconds = 0.0


def conf_for(text, library, reports):
    """The person's settings, with reports that come to us: (GPUPOOL_CONF, may
    they leave the program alone?)."""
    settings = gpupool_settings.check(library, text)
    ours = 'quiet:True,report_dir:' + gpupool_settings.quoted(reports)
    if settings is None:  # none are given, or nobody can read them
        return gpupool_run.join_list(',', text, ours), False
    kept = ['%s:%s' % (option['key'], option['value'])
            for option in settings['options'] if not option['is_default']
            and option['key'] not in ('quiet', 'report_dir')]
    return ','.join(kept + [ours]), gpupool_settings.is_off(settings)


def start(path, options, env):
    """The program's output goes to stderr: stdout is for what was found."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
    out = os.dup(1)
    os.dup2(2, 1)
    try:
        return gpupool_run.start(path, options.command, env, mask)
    finally:
        os.dup2(out, 1)
        os.close(out)


def end_family(pid):
    """Politely, then not."""
    for number in signal.SIGTERM, signal.SIGKILL:
        family = gpupool_watch.family(pid)
        for member in family:
            try:
                os.kill(member, number)
            except ProcessLookupError:
                pass
        end = time.monotonic() + STOP_S
        while time.monotonic() < end:
            if os.waitpid(pid, os.WNOHANG)[0]:
                for member in family[1:]:
                    try:
                        os.kill(member, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                return
            time.sleep(0.02)


def look(watch, seen):
    watch.look()
    for pid in watch.cuda:
        maps = gpupool_watch.read_maps(pid)
        if maps:
            seen.maps[pid] = maps
            try:
                seen.names[pid] = os.readlink('/proc/%d/exe' % pid)
            except OSError:
                pass
    if not watch.cuda:
        seen.others = gpupool_watch.read_maps(watch.pid) or seen.others


def held(watch):
    """{pid: (bytes by its ledger, when that was written)}."""
    return {process.pid: (
        sum(device.reserved + (device.outside or 0) + (device.context or 0)
            for device in process.devices), process.updated or 0)
        for process in gpupool_ledger.processes()[0]
        if process.pid in watch.cuda}


def count(watch, seen):
    """What the driver says that each process holds, beside its ledger, which
    is a second late: so it is read before, and once more when it is newer."""
    if seen.asked:
        used, before, when = seen.asked
        now = held(watch)
        if any(now[pid][1] < when for pid in set(used) & set(now)):
            return
        for pid in set(used) & set(now):
            have = used[pid], max(now[pid][0], before.get(pid, (0, 0))[0])
            worst = seen.uncounted.get(pid, (0, 0))
            if have[0] - have[1] > worst[0] - worst[1]:
                seen.uncounted[pid] = have
        seen.asked = None
    if watch.cuda and time.monotonic() - seen.counted_at > COUNT_PAUSE_S:
        before = held(watch)
        used = gpupool_cards.used_by_processes()
        seen.counted_at = time.monotonic()
        if used:
            seen.asked = used, before, time.time()


def ask_for_reports(watch):
    """Of those that still run."""
    for process in gpupool_ledger.processes()[0]:
        if process.pid in watch.cuda and process.responds:
            try:
                gpupool_ledger.ask(process, 'report', 3.0)
            except Problem:
                pass


def observe(path, options, env, library, proof, reports):
    seen = Seen()
    began = time.monotonic()
    pid = start(path, options, env)
    watch = gpupool_watch.Watch(pid, interpreter(path), library, proof,
                                time.monotonic)
    try:
        while seen.status is None:
            changed, status = os.waitpid(pid, os.WNOHANG)
            if changed:
                seen.status = status
                break
            look(watch, seen)
            count(watch, seen)
            seen.seconds = time.monotonic() - began
            if seen.seconds > options.seconds:
                break
            time.sleep(min(0.2, watch.pause()))
        if seen.status is None:
            ask_for_reports(watch)
    except Problem as problem:
        seen.problem = problem
    finally:
        if seen.status is None:
            end_family(pid)
    for name in sorted(glob.glob(os.path.join(glob.escape(reports),
                                              '*.json'))):
        try:
            with open(name, encoding='utf-8', errors='replace') as file:
                seen.reports.append(json.load(file))
        except (OSError, ValueError):
            pass
    return watch, seen


# ---- what it means -----------------------------------------------------------

def libraries(maps):
    """Paths of the libraries in a process."""
    return {line.split(None, 5)[5] for line in maps.splitlines()
            if re.search(r'/[^/]+\.so[^/]*$', line)
            and len(line.split(None, 5)) == 6}


def mentions_driver(path):
    """Whether a library reaches for the driver: by name, or by symbol."""
    if re.match(r'lib(cuda|gpupool|cudart)\b', os.path.basename(path)):
        return False
    try:
        with open(path, 'rb') as file:
            data = file.read(1 << 28)
    except OSError:
        return False
    return b'libcuda.so' in data or b'cuGetProcAddress' in data


def suspects(maps):
    """Names of libraries that may have called around gpupool."""
    found = sorted(os.path.basename(path) for path in libraries(maps)
                   if mentions_driver(path))
    return ', '.join(found[:4]) or 'the program itself'


def copies_of_driver(maps):
    """How often libcuda is loaded: its first page is mapped once each time.
    More than once is dlmopen's doing."""
    fields = [line.split(None, 5) for line in maps.splitlines()]
    return sum(len(field) == 6 and '/libcuda.so' in field[5]
               and not field[2].strip('0') for field in fields)


def named(pid, seen):
    return '%s (pid %d)' % (os.path.basename(seen.names.get(pid, 'a process')),
                            pid)


def judge_calls(watch, seen, off):
    """The driver was loaded: do calls arrive?"""
    for pid in watch.bare():
        yield Finding('interception', TODO, '%s loaded the driver without '
                      'gpupool' % named(pid, seen),
                      'something cleared LD_PRELOAD before it was started: a '
                      'launcher, sudo, a container, env -i; start gpupool run '
                      'inside of that')
    covered = [pid for pid, mapped in watch.cuda.items() if mapped]
    if not covered:
        return
    if not watch.called():
        if off:
            yield Finding('interception', NOTE, 'no call arrived: the '
                          'settings leave this program alone',
                          'enabled and only say for which programs gpupool '
                          'acts')
            return
        yield Finding('interception', TODO, '%s loaded the driver, and no '
                      'call of it arrived. It was loaded for %s'
                      % (named(covered[0], seen),
                         suspects(seen.maps.get(covered[0], ''))),
                      'if it only asks whether there is a card, all is well; '
                      'else it finds the driver around the dynamic linker, '
                      'and its memory is neither pooled nor counted')
        return
    twice = [pid for pid in covered
             if copies_of_driver(seen.maps.get(pid, '')) > 1]
    if twice:
        yield Finding('interception', TODO, '%s has the driver loaded twice '
                      '(dlmopen): for %s' % (named(twice[0], seen),
                                             suspects(seen.maps[twice[0]])),
                      'what is allocated through the second one is neither '
                      'pooled nor counted; run that part without dlmopen')


def judge_counts(seen):
    """Memory that nobody here has seen."""
    for pid, (driver, ours) in seen.uncounted.items():
        if driver - ours > UNCOUNTED:
            yield Finding(
                'interception', TODO, '%s holds %s as the driver counts, %s '
                'as gpupool does. What is more than contexts and code goes '
                'around it, by one of: %s' % (
                    named(pid, seen), size(driver), size(ours),
                    suspects(seen.maps.get(pid, ''))),
                'leave room for it beside a limit')


def judge_notes(seen):
    """What the library itself saw go around it."""
    told = set()
    for report in seen.reports:
        for note in report.get('notes', ()):
            if note in told:
                continue
            told.add(note)
            if AROUND in note:
                yield Finding('interception', TODO, note, 'what these '
                              'allocate is neither pooled nor counted; leave '
                              'room for it beside a limit')
            elif NEWER in note:
                yield Finding('interception', TODO, note, 'build gpupool with '
                              'the headers of a newer CUDA Toolkit')
            else:
                yield Finding('program', NOTE, note)


def judge_reports(seen):
    """What it took, and whose memory is not pooled."""
    pooled = sum(report.get('peak_allocated_bytes', 0)
                 for report in seen.reports)
    calls = sum(pool.get('num_alloc_calls', 0) for report in seen.reports
                for pool in report.get('pools', ()))
    if not seen.reports:
        return
    beside = {}
    for report in seen.reports:
        for kind in 'plain', 'async', 'managed', 'array', 'virtual':
            peak = report.get('passthrough.%s.bytes.peak' % kind, 0)
            beside[kind] = beside.get(kind, 0) + peak
    yield Finding('program', OK, 'at most %s from the pool, by %d allocation%s'
                  % (size(pooled), calls, '' if calls == 1 else 's'))
    names = {'plain': 'cuMemAlloc', 'async': 'cudaMallocAsync',
             'managed': 'managed memory', 'array': 'arrays',
             'virtual': 'its own cuMemCreate'}
    parts = ['%s %s' % (size(count), names[kind])
             for kind, count in beside.items() if count]
    if parts:
        yield Finding('program', NOTE, 'beside the pool, counted only: '
                      + ', '.join(parts))


def judge_torch(seen):
    paths = set()
    for maps in list(seen.maps.values()) + [seen.others]:
        paths |= libraries(maps)
    if any('libc10_cuda' in path for path in paths) and \
            os.environ.get('PYTORCH_NO_CUDA_MEMORY_CACHING') != '1':
        yield Finding('program', NOTE, 'PyTorch has a cache of its own, so '
                      'that gpupool sees its large segments only',
                      'gpupool run --uncached lets it serve every tensor')
    yield from conflicts.check_loaded(paths)


def judge_end(watch, seen, options):
    if seen.status is None:
        return
    if os.WIFSIGNALED(seen.status):
        yield Finding('program', NOTE, 'it died by signal %d after %.1f s'
                      % (os.WTERMSIG(seen.status), seen.seconds),
                      'see whether it does so without gpupool')
    elif os.WEXITSTATUS(seen.status):
        yield Finding('program', NOTE, 'it ended with status %d after %.1f s'
                      % (os.WEXITSTATUS(seen.status), seen.seconds),
                      'see whether it does so without gpupool')
    if not watch.cuda:
        yield Finding('program', NOTE, 'it ended and was not seen to load the '
                      'driver', 'if it uses a card, have it do so in this '
                      'run; doctor sees only what runs')


def judge(watch, seen, options, off):
    if seen.problem:
        yield Finding('interception', TODO, str(seen.problem))
        return
    found = (list(judge_calls(watch, seen, off)) + list(judge_notes(seen))
             + list(judge_counts(seen)))
    if watch.cuda and not any(finding.check == 'interception'
                              for finding in found):
        yield Finding('interception', OK, 'complete: every library in it '
                      'reaches the driver through gpupool')
    yield from found
    yield from judge_reports(seen)
    yield from judge_torch(seen)
    yield from judge_end(watch, seen, options)
    if seen.status is None and not watch.cuda:
        yield Finding('program', NOTE, 'it did not load the driver within '
                      '%g s' % options.seconds,
                      'give it more time with --seconds')


def check(options, library):
    """The findings, one after the other."""
    try:
        path = find_program(options.command[0], options.command[1:])
        yield from conflicts.check_name(path, library)
        check_program(path, library)
    except Problem as problem:
        yield Finding('program', TODO, str(problem))
        return
    if not options.seconds:
        return
    with tempfile.TemporaryDirectory(prefix='gpupool-doctor-') as reports, \
            tempfile.NamedTemporaryFile(prefix='proof-', dir=runtime_dir(),
                                        mode='r') as proof:
        env = gpupool_run.environment(options, library)
        env['GPUPOOL_PROOF'] = proof.name
        try:
            env['GPUPOOL_CONF'], off = conf_for(env.get('GPUPOOL_CONF', ''),
                                                library, reports)
            watch, seen = observe(path, options, env, library, proof, reports)
        except Problem as problem:
            yield Finding('program', TODO, str(problem))
            return
        yield from judge(watch, seen, options, off)
