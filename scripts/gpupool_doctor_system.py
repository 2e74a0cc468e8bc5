"""The machine, for `gpupool doctor`: everything but the program."""
import glob
import json
import os
import platform
import resource
import stat
import struct
import subprocess
import sys
import tempfile

import gpupool_ledger
import gpupool_run
import gpupool_settings
from gpupool_cards import has_card
from gpupool_elf_needs import Needs
from gpupool_finding import NOTE, OK, TODO, Finding
from gpupool_paths import HERE, Problem, find_simulator, runtime_dir
from gpupool_text import size

PROBE_LIMIT_S = 60
LEAST_SPACE = 64 << 20

# Answers of the driver that have a known remedy.
REMEDIES = {
    100: 'the driver sees no card: in a container, start it with --gpus all; '
         'else look at nvidia-smi',
    101: 'CUDA_VISIBLE_DEVICES names a card that is not there',
    802: 'the cards are not ready; on machines with NVSwitch the service '
         'nvidia-fabricmanager must run',
    803: 'libcuda.so.1 and the kernel driver are of different versions: '
         'reboot, or give the container the libcuda of the host',
    804: 'this card does not support the compatibility libcuda that was '
         'found first; take its directory out of LD_LIBRARY_PATH',
    999: 'often the kernel module nvidia_uvm is missing: nvidia-modprobe -u',
}


def dotted(pair):
    return '%d.%d' % pair


def check_library(library):
    version = gpupool_settings.version(library)
    yield Finding('library', OK, version)
    try:
        needs = Needs(library).newest_glibc()
    except (OSError, ValueError, KeyError, struct.error) as error:
        yield Finding('library', TODO, '%s cannot be read as a library: %s'
                      % (library, error), 'build or install it again')
        return
    try:
        name, _, text = os.confstr('CS_GNU_LIBC_VERSION').partition(' ')
        have = tuple(int(part) for part in text.split('.')[:2])
    except (ValueError, AttributeError, OSError):
        yield Finding('glibc', TODO, 'this system has another C library',
                      'gpupool needs glibc; use a Debian, Ubuntu or Red Hat '
                      'image')
        return
    facts = '%s; the library needs %s' % (
        text, dotted(needs) if needs else 'no certain one')
    if needs and needs > have:
        yield Finding('glibc', TODO, facts, 'build gpupool on this system, '
                      'or on an older one')
    else:
        yield Finding('glibc', OK, facts)


def check_python():
    text = platform.python_version()
    if sys.version_info < (3, 8):
        yield Finding('Python', TODO, text, 'gpupool needs 3.8 or later')
    else:
        yield Finding('Python', OK, text)


# ---- the card ----------------------------------------------------------------

def kernel_driver():
    """The version of the kernel module; '' where there is none."""
    try:
        with open('/proc/driver/nvidia/version') as file:
            words = file.readline().split()
    except OSError:
        return ''
    return next((word for word in words if word[:1].isdigit()
                 and '.' in word), 'unknown')


def check_permissions():
    """The device files, where there are any."""
    nodes = sorted(glob.glob('/dev/nvidia[0-9]*')) + [
        path for path in ('/dev/nvidiactl', '/dev/nvidia-uvm', '/dev/dxg',
                          '/dev/nvmap') if os.path.exists(path)]
    if not nodes:
        return
    closed = [path for path in nodes
              if not os.access(path, os.R_OK | os.W_OK)]
    if closed:
        group = os.stat(closed[0]).st_gid
        yield Finding('permissions', TODO, 'you may not open '
                      + ', '.join(closed),
                      'join the group that may (gid %d), or ask who runs this '
                      'machine' % group)
    elif '/dev/nvidiactl' in nodes and '/dev/nvidia-uvm' not in nodes:
        yield Finding('permissions', TODO, 'there is no /dev/nvidia-uvm',
                      'load the kernel module nvidia_uvm: nvidia-modprobe -u')
    else:
        yield Finding('permissions', OK, 'you may open %d device files'
                      % len(nodes))


def run_probe(options, library, directory):
    """What gpupool_probe.py found under the preload: (dict, calls arrived,
    stderr)."""
    class Plain:
        sim, conf, limit, report, uncached = options.sim, [], None, None, False

    with tempfile.NamedTemporaryFile(prefix='proof-', dir=directory,
                                     mode='r') as proof:
        inherited = os.environ.pop('GPUPOOL_CONF', None)
        try:
            env = gpupool_run.environment(Plain, library)
        finally:
            if inherited is not None:
                os.environ['GPUPOOL_CONF'] = inherited
        env['GPUPOOL_PROOF'] = proof.name
        env['GPUPOOL_CONF'] = ('quiet:True,ring_events:False,report_signal:'
                               'none,report_dir:'
                               + gpupool_settings.quoted(directory))
        env.pop('GPUPOOL_TRACE', None)
        # Its own file would push one out that somebody may want to read.
        env['XDG_RUNTIME_DIR'] = directory
        try:
            done = subprocess.run(
                [sys.executable, os.path.join(HERE, 'gpupool_probe.py')],
                env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, timeout=PROBE_LIMIT_S)
        except subprocess.TimeoutExpired:
            return None, False, 'it ran for more than %d s' % PROBE_LIMIT_S
        error = done.stderr.decode('utf-8', 'replace').strip()
        try:
            found = json.loads(done.stdout.decode())
        except ValueError:
            return None, False, error or 'it ended with status %d' % (
                done.returncode)
        return found, bool(proof.read(1)), error


def check_driver(found):
    module = kernel_driver()
    if 'missing' in found:
        if not module and not has_card():
            yield Finding('card', TODO, 'there is no NVIDIA card here',
                          'to try gpupool without one: gpupool run --sim -- '
                          'PROGRAM, from a checkout')
        else:
            yield Finding('driver', TODO, 'there is a card, but no '
                          'libcuda.so.1: ' + found['missing'],
                          'install the driver\'s user part (Debian: '
                          'libcuda1), or run ldconfig')
        return
    facts = 'CUDA %s' % found['cuda_version']
    if module:
        facts = '%s, %s' % (module, facts)
    if found.get('failed') and not found['allocated']:
        yield Finding('driver', TODO, '%s; %s says %s' % (
            facts, found['failed'], found['error']),
            REMEDIES.get(found['code'], 'see what nvidia-smi says'))
    else:
        yield Finding('driver', OK, facts)
    if not found['cards'] and not found.get('failed'):
        yield Finding('card', TODO, 'the driver sees no card',
                      REMEDIES[100])
    for card in found['cards']:
        facts = '%d: %s, %s, compute capability %s' % (
            card['index'], card['name'], size(card['total_bytes']),
            card['capability'])
        if card['virtual_memory']:
            yield Finding('card', OK, facts)
        else:
            yield Finding('card', NOTE, facts + ', no virtual memory calls',
                          'gpupool takes segments from cuMemAlloc here, as '
                          'with expandable_segments:False')


def check_interception(found, arrived, error):
    if found['allocated'] and found['pooled'] and arrived:
        yield Finding('interception', OK,
                      'a test allocation came from the pool')
    elif found['allocated']:
        why = found.get('not_loaded') or (
            'its calls did not arrive' if not arrived
            else 'the pool did not serve it')
        yield Finding('interception', TODO, 'a test allocation did not come '
                      'from the pool: ' + why,
                      error.replace('\n', ' ') or 'look for another preload '
                      'that wraps dlsym or the driver')


def check_card(options, library):
    if options.sim:
        try:
            yield Finding('simulator', OK, find_simulator(library))
        except Problem as problem:
            yield Finding('simulator', TODO, str(problem))
            return
    else:
        yield from check_permissions()
    with tempfile.TemporaryDirectory(prefix='gpupool-doctor-') as directory:
        found, arrived, error = run_probe(options, library, directory)
    if found is None:
        yield Finding('driver', TODO, 'a small program that uses the driver '
                      'does not end well: ' + error,
                      'try nvidia-smi; then LD_PRELOAD=%s %s -c pass'
                      % (library, sys.executable))
        return
    yield from check_driver(found)
    yield from check_interception(found, arrived, error)


# ---- directories and settings ------------------------------------------------

def check_runtime_dir():
    try:
        path = runtime_dir()
        dead, problems = gpupool_ledger.processes(dead=True)
    except Problem as problem:
        yield Finding('directory', TODO, str(problem))
        return
    room = os.statvfs(path)
    free = room.f_bavail * room.f_frsize
    alive = sum(process.life == 'alive' for process in dead)
    facts = '%d living, %d ended, %s free in %s' % (
        alive, len(dead) - alive, size(free), path)
    if free < LEAST_SPACE:
        yield Finding('directory', TODO, facts, 'make room there, or set '
                      'XDG_RUNTIME_DIR to a directory that has some; a '
                      'process needs about 5 MiB')
    else:
        yield Finding('directory', OK, facts)
    for problem in problems[:5]:
        yield Finding('directory', TODO, problem, 'remove it')
    if len(problems) > 5:
        yield Finding('directory', TODO, '%d more such files'
                      % (len(problems) - 5), 'remove them')


def check_settings(options, library):
    text = gpupool_run.join_list(',', os.environ.get('GPUPOOL_CONF', ''),
                                 *options.conf)
    settings = gpupool_settings.read(library, text)
    if settings is None:
        yield Finding('settings', NOTE, 'gpupool-conf is not beside the '
                      'library: they are not checked', 'make install puts it '
                      'there')
        return
    for message in settings['messages']:
        yield Finding('settings', TODO, message, '`gpupool options` says '
                      'what is accepted')
    changed = ['%s:%s' % (option['key'], option['value'])
               for option in settings['options'] if not option['is_default']]
    if settings['limit_is_bad']:
        yield Finding('settings', TODO, settings['limit_message'],
                      'mend it; until then `gpupool run` starts nothing')
    elif gpupool_settings.is_off(settings):
        yield Finding('settings', NOTE, ', '.join(changed),
                      'with these, gpupool leaves programs alone')
    elif not settings['messages']:
        yield Finding('settings', OK, ', '.join(changed)
                      or 'the defaults')
    where = next((option['value'] for option in settings['options']
                  if option['key'] == 'report_dir'), '').strip('"')
    where = where or os.getcwd()
    try:
        good = stat.S_ISDIR(os.stat(where).st_mode) and os.access(
            where, os.W_OK | os.X_OK)
    except OSError:
        good = False
    yield (Finding('reports', OK, 'go to ' + where) if good else
           Finding('reports', TODO, 'cannot be written to ' + where,
                   'gpupool run --report DIR, or report_dir'))


def check_limits():
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        yield Finding('limits', TODO, 'address space is limited to '
                      + size(soft), 'ulimit -v unlimited: CUDA and the pool '
                      'reserve addresses for all memory there is')
    soft, _ = resource.getrlimit(resource.RLIMIT_FSIZE)
    if soft != resource.RLIM_INFINITY and soft < 8 << 20:
        yield Finding('limits', TODO, 'files are limited to ' + size(soft),
                      'ulimit -f unlimited, or ring_events:False')
