"""How long many processes take that start at the same time, in alternating
turns, plain and preloaded. Used by tests/bench and, on a card, by tests/gpu."""
import os
import resource
import signal
import statistics
import threading
import time


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def end(pids):
    for pid in list(pids):
        os.kill(pid, signal.SIGKILL)


def turn(argv, env, processes, limit_s=300):
    """(wall, processor seconds) of so many at once. RuntimeError if one of
    them fails, or runs past the limit."""
    quiet = [(os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_RDWR, 0)
             for fd in (0, 1)]
    begin, cpu = time.monotonic(), cpu_seconds()
    running, states = [], []
    timer = threading.Timer(limit_s, end, [running])
    timer.start()
    try:
        for _ in range(processes):
            running.append(os.posix_spawn(argv[0], argv, env,
                                          file_actions=quiet))
        while running:
            # Still a child of ours while the timer may end it.
            os.waitid(os.P_PID, running[0], os.WEXITED | os.WNOWAIT)
            states.append(os.waitpid(running.pop(0), 0)[1])
    finally:
        timer.cancel()
    wall = time.monotonic() - begin
    if any(states):
        raise RuntimeError('%s failed: %s' % (' '.join(argv), max(states)))
    return wall, cpu_seconds() - cpu


def measure(argv, envs, processes, turns, left=lambda: 1e9, limit_s=300):
    """Medians, milliseconds, of `processes` at once, with the environments
    envs['plain'] and envs['preloaded']: KIND_ms until the last one has ended,
    KIND_cpu_ms of all together. At least one turn, and no more than fit
    into the seconds that are left()."""
    times = {'plain': [], 'preloaded': []}
    for kind in times:
        turn(argv, envs[kind], processes, limit_s)  # the page cache, for both
    took = 0
    for _ in range(turns):
        if times['plain'] and took > left():
            break
        begin = time.monotonic()
        for kind in times:
            times[kind].append(turn(argv, envs[kind], processes, limit_s))
        took = time.monotonic() - begin
    row = {'processes': processes, 'turns': len(times['plain'])}
    for kind, pairs in times.items():
        for name, values in zip(('ms', 'cpu_ms'), zip(*pairs)):
            row['%s_%s' % (kind, name)] = round(
                statistics.median(values) * 1000, 2)
    for name in 'ms', 'cpu_ms':
        row['ratio_' + name] = round(
            row['preloaded_' + name] / row['plain_' + name], 3)
    return row
