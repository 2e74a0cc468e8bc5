"""gpupool run: start a program under the preload, and make sure that it is.

The program is a child in our own process group, so that the terminal's keys
reach it directly; signals sent to us are passed on, and we end as it ended.
"""
import argparse
import ctypes
import errno
import os
import signal
import sys
import tempfile
import time

import gpupool_settings
from gpupool_elf import check_program, find_program, interpreter
from gpupool_paths import (NoDirectory, Parser, Problem, find_library,
                           find_simulator, plain_path, runtime_dir)
from gpupool_watch import Watch

PASSED_ON = [getattr(signal, name) for name in (
    'SIGHUP', 'SIGINT', 'SIGQUIT', 'SIGTERM', 'SIGUSR1', 'SIGUSR2',
    'SIGCONT', 'SIGWINCH', 'SIGTSTP', 'SIGALRM', 'SIGVTALRM', 'SIGURG',
    'SIGIO', 'SIGPWR', 'SIGXCPU', 'SIGRTMIN', 'SIGRTMAX')]

# What the kernel sends to a whole foreground group, the program included.
SI_KERNEL = 0x80
FROM_TERMINAL = {signal.SIGHUP, signal.SIGINT, signal.SIGQUIT,
                 signal.SIGTSTP, signal.SIGWINCH, signal.SIGCONT}
PR_SET_PDEATHSIG = 1

DESCRIPTION = """\
Run PROGRAM with gpupool preloaded: its device memory comes from the pool. That
the library is in it and calls arrive there is checked. Signals are passed on.

  gpupool run -- python3 train.py
  gpupool run --limit 50% -- ./program ARGS    at most half of each card
  gpupool run --report /tmp/reports -- ...     what it held, when it ended
  gpupool run --uncached -- python3 train.py   PyTorch, every tensor
  gpupool run --sim -- ./program               without a card
"""

EPILOG = """\
What PROGRAM starts is under gpupool too: of a launcher like torchrun, each rank
writes a report. `--conf only:train.py` leaves out programs of other names.
While it runs, `gpupool top` shows it; `gpupool ctl PID report` writes a report.
`gpupool options` lists all settings.

exit status: the program's; 125 if gpupool itself failed or a limit among the
settings cannot be read, 126 if the program cannot be executed, 127 if it was
not found, 2 for wrong use
"""


def add_options(parser):
    """Those of every verb that runs a program."""
    parser.add_argument('--sim', action='store_true',
                        help='run on the simulated driver of the checkout, '
                             'without a card')
    parser.add_argument('--conf', action='append', default=[],
                        metavar='K:V,...',
                        help='settings, added to GPUPOOL_CONF; may be given '
                             'several times')
    parser.add_argument('--limit', metavar='SIZE|N%',
                        help='the most that the program may take of each '
                             'device: 8GiB, or a share of it as 50%%')
    parser.add_argument('--uncached', action='store_true',
                        help="switch PyTorch's own cache off, so that gpupool "
                             'serves every tensor; torch.cuda.memory_* then '
                             'read 0, `import gpupool` has the same')
    parser.add_argument('--report', metavar='DIR',
                        help='where reports go; made if missing')
    parser.add_argument('--lib', metavar='FILE',
                        help='this libgpupool.so instead of the one found')
    parser.add_argument('command', nargs=argparse.REMAINDER,
                        metavar='-- PROGRAM ARGS', help='what to run')


def build_parser():
    parser = Parser(
        prog='gpupool run', description=DESCRIPTION, epilog=EPILOG,
        usage='gpupool run [options] -- PROGRAM ARGS',
        formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    return parser


def parse(parser, argv):
    """The dashes before the program may be left out."""
    options = parser.parse_args(argv)
    if options.command[:1] == ['--']:
        del options.command[0]
    return options


def say(text):
    """One message on stderr; a closed stderr is no error."""
    try:
        os.write(2, ('gpupool: %s\n' % text).encode('utf-8', 'replace'))
    except OSError:
        pass


def join_list(separator, *parts):
    return separator.join(part for part in parts if part)


def environment(options, library):
    """The program's environment: ours, with the preload added."""
    env = dict(os.environ)
    preload = env.get('LD_PRELOAD', '')
    path = plain_path(library)
    if path not in preload.replace(':', ' ').split():
        env['LD_PRELOAD'] = join_list(' ', preload, path)
    if options.sim:
        env['LD_LIBRARY_PATH'] = join_list(
            ':', plain_path(find_simulator(library)),
            env.get('LD_LIBRARY_PATH', ''))
    if options.uncached:
        env['PYTORCH_NO_CUDA_MEMORY_CACHING'] = '1'
    conf = join_list(',', *map(gpupool_settings.absolute, [
        env.get('GPUPOOL_CONF', '')] + options.conf))
    if options.limit:
        conf = join_list(',', conf, limit_setting(options.limit))
    if options.report:
        conf = join_list(',', conf, report_setting(options.report))
    if conf:
        env['GPUPOOL_CONF'] = conf
    return env


def is_tiny(text):
    """A number without its unit."""
    try:
        return float(text) < 1 << 20
    except ValueError:
        return False


def limit_setting(text):
    """The limit as a setting. A size is for the library to read."""
    if any(c in text for c in ',:[]') or is_tiny(text):
        raise Problem('--limit %s: accepted are a size, as 8GiB, and a share '
                      'of each device, as 50%%; --conf takes lists by device'
                      % text, 2)
    if not text.endswith('%'):
        return 'memory_limit:' + text
    try:
        share = float(text[:-1]) / 100
    except ValueError:
        share = 0
    if not 0 < share <= 1:
        raise Problem('--limit %s: accepted are shares above 0%% and up to '
                      '100%%' % text, 2)
    return 'per_process_memory_fraction:%.6g' % share


def report_setting(path):
    """The directory as a setting; made if missing."""
    path = os.path.abspath(path)
    try:
        os.makedirs(path, exist_ok=True)
    except FileExistsError:
        raise Problem('--report %s: this is not a directory' % path)
    except OSError as error:
        raise Problem('--report %s: cannot make the directory: %s'
                      % (path, error.strerror))
    return 'report_dir:' + gpupool_settings.quoted(path)


def start(path, argv, env, mask):
    """Fork and exec. The child's pid once exec has succeeded; until then the
    reason comes back through a pipe that exec closes."""
    reader, writer = os.pipe()  # both close on exec
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            die_with_parent(parent)
            for number in (signal.SIGPIPE, signal.SIGXFSZ):
                signal.signal(number, signal.SIG_DFL)  # Python ignores them
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            try:
                os.execve(path, argv, env)
            except OSError as error:
                if error.errno != errno.ENOEXEC:
                    raise
                os.execve('/bin/sh', ['sh', path] + argv[1:], env)
        except OSError as error:
            os.write(writer, str(error.errno).encode())
        finally:
            os._exit(126)
    os.close(writer)
    failed = os.read(reader, 16)
    os.close(reader)
    if failed:
        os.waitpid(pid, 0)
        number = int(failed)
        raise Problem('%s: %s' % (argv[0], os.strerror(number)),
                      127 if number == errno.ENOENT else 126)
    return pid


def die_with_parent(parent):
    """If we are killed outright, the program shall not stay behind."""
    try:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (OSError, AttributeError):
        return  # no libc by that name: a courtesy less
    if os.getppid() != parent:
        os._exit(126)


def pass_on(info, pid):
    """A signal came to us: let the program have it, unless it has."""
    number = info.si_signo
    if info.si_code == SI_KERNEL and number in FROM_TERMINAL:
        return
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass


def wait(pid, watch):
    """Pass signals on and look after the program until it ends."""
    signals = set(PASSED_ON) | {signal.SIGCHLD}
    while True:
        changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
        if changed and os.WIFSTOPPED(status):
            # So that the shell, which waits for us, sees the job stop. What
            # continues us is passed on.
            os.kill(os.getpid(), signal.SIGSTOP)
        elif changed:
            return status
        watch.look()
        info = signal.sigtimedwait(signals, watch.pause())
        if info is not None and info.si_signo != signal.SIGCHLD:
            pass_on(info, pid)


def stop(pid):
    """End a program that should not run, politely first."""
    for number in signal.SIGTERM, signal.SIGKILL:
        os.kill(pid, number)
        for _ in range(100):
            if os.waitpid(pid, os.WNOHANG)[0]:
                return
            time.sleep(0.02)


def end_as(status):
    """The exit status for a wait status; dies by the same signal."""
    if not os.WIFSIGNALED(status):
        return os.WEXITSTATUS(status)
    number = os.WTERMSIG(status)
    try:  # one core file is enough, and it is the program's
        import resource
        resource.setrlimit(resource.RLIMIT_CORE,
                           (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        signal.signal(number, signal.SIG_DFL)
    except (ImportError, OSError, ValueError):
        pass
    sys.stdout.flush()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    return 128 + number


def hint(watch, program, library):
    """A word for who tries a CUDA program where there is no card."""
    from gpupool_cards import has_card
    if has_card() or not (watch.wants_card or mentions_cuda(program)):
        return None
    try:
        find_simulator(library)
    except Problem:
        return 'there is no NVIDIA card here'
    return ('there is no NVIDIA card here; gpupool run --sim -- PROGRAM uses '
            'a simulated one')


def mentions_cuda(path):
    """Whether a program needs or opens CUDA's libraries."""
    try:
        with open(path, 'rb') as file:
            return b'libcuda' in file.read(1 << 26)
    except OSError:
        return False


def proof_file():
    """Where the program's processes tell that calls arrive. Any place does."""
    try:
        return tempfile.NamedTemporaryFile(prefix='proof-', mode='r',
                                           dir=runtime_dir())
    except (NoDirectory, OSError):
        pass
    try:
        return tempfile.NamedTemporaryFile(prefix='gpupool-proof-', mode='r')
    except OSError as error:
        raise Problem('cannot make a temporary file: %s; set XDG_RUNTIME_DIR '
                      'or TMPDIR to a directory of yours' % error.strerror)


def run(options, extra_env=None):
    """Run options.command. Returns its wait status."""
    if not options.command:
        raise Problem('no program given; try: gpupool run -- PROGRAM', 2)
    library = find_library(options.lib)
    program = find_program(options.command[0], options.command[1:])
    check_program(program, library)
    env = environment(options, library)
    settings = gpupool_settings.check(library, env.get('GPUPOOL_CONF'))
    if options.uncached:
        say('--uncached: torch.cuda.memory_allocated() and its like read 0; '
            '`import gpupool` has the same functions')
    env.update(extra_env or {})
    with proof_file() as proof:
        env['GPUPOOL_PROOF'] = proof.name
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        mask = signal.pthread_sigmask(
            signal.SIG_BLOCK, set(PASSED_ON) | {signal.SIGCHLD})
        pid = start(program, options.command, env, mask)
        watch = Watch(pid, interpreter(program), library, proof,
                      time.monotonic)
        try:
            status = wait(pid, watch)
        except Problem:
            stop(pid)
            raise
        note = watch.verdict(gpupool_settings.is_off(settings))
        if not note and not options.sim and not watch.called():
            note = hint(watch, program, library)
        # SIGPIPE is how programs end in a pipeline whose reader has had enough.
        if not note and os.WIFSIGNALED(status) and pid in watch.cuda and (
                os.WTERMSIG(status) != signal.SIGPIPE):
            note = ('it died by signal %d; `gpupool report %d` says what it '
                    'held' % (os.WTERMSIG(status), pid))
    if note:
        say(note)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    return status


def main(argv):
    return end_as(run(parse(build_parser(), argv)))
