"""Where things are: the library, the simulated driver, the runtime directory.
"""
import argparse
import os
import stat


class Problem(Exception):
    """Something that stops the command: one sentence, and what to do."""

    def __init__(self, text, status=125):
        super().__init__(text)
        self.status = status


class Parser(argparse.ArgumentParser):
    """One whose complaints are as wide as all others."""

    def error(self, message):
        raise Problem('%s; `%s --help` says more' % (message, self.prog), 2)


HERE = os.path.dirname(os.path.realpath(__file__))


class NoDirectory(Problem):
    """The runtime directory cannot be made."""


def find_library(given=None):
    """The absolute path of libgpupool.so: the one given, else the checkout's
    build, else the installed one."""
    if given:
        if not os.path.isfile(given):
            raise Problem('no library at %s' % given)
        return os.path.realpath(given)
    places = [
        os.path.join(os.path.dirname(HERE), 'build', 'libgpupool.so'),
        # installed: these files are in PREFIX/lib/gpupool
        os.path.join(os.path.dirname(HERE), 'libgpupool.so'),
    ]
    for place in places:
        if os.path.isfile(place):
            return os.path.realpath(place)
    raise Problem('libgpupool.so not found; run make in the checkout, '
                  'or make install, or give --lib FILE (looked for: %s)'
                  % ', '.join(places))


def find_simulator(library):
    """The directory of the simulated driver that was built with `library`."""
    place = os.path.join(os.path.dirname(library), 'sim')
    if not os.path.exists(os.path.join(place, 'libcuda.so.1')):
        raise Problem('--sim: no simulated driver in %s; it is not installed: '
                      'run make in a checkout, and scripts/gpupool of it'
                      % place)
    return place


def user(uid):
    """The name of one, for a person."""
    import pwd  # rarely needed
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return 'user %d' % uid


def sudo(uid):
    """What to do where only somebody else may."""
    name = user(uid)
    return 'sudo -u %s gpupool ...' % name.replace('user ', '#')


def unreadable(path, error):
    """The Problem of a path that the system would not open, or look at. What
    only another user may read is named so."""
    if isinstance(error, PermissionError):
        place = os.path.abspath(path)
        while not os.path.exists(place):  # what is in the way of seeing it
            place = os.path.dirname(place)
        owner = os.stat(place).st_uid
        if owner != os.geteuid():
            return Problem('cannot read %s: %s belongs to %s, and only they '
                           'can: %s' % (path, 'it' if place == path else place,
                                        user(owner), sudo(owner)))
    return Problem('cannot read %s: %s' % (path, error.strerror))


def is_ours(path):
    try:
        info = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid()


def runtime_dir():
    """Our per-user directory for links and other short-lived files, made if
    needed. Nobody else may write to it. The library has the same rule: what
    sudo or su left of another user in XDG_RUNTIME_DIR does not count."""
    base = os.environ.get('XDG_RUNTIME_DIR', '')
    if base.startswith('/') and is_ours(base) and is_plain(base):
        path = os.path.join(base, 'gpupool')
    else:
        path = '/tmp/gpupool-%d' % os.geteuid()
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise NoDirectory('cannot make %s: %s; set XDG_RUNTIME_DIR to a '
                          'directory of yours' % (path, error.strerror))
    info = os.lstat(path)
    if info.st_uid != os.geteuid():
        raise Problem('%s belongs to %s; set XDG_RUNTIME_DIR to a directory '
                      'of yours' % (path, user(info.st_uid)))
    if not stat.S_ISDIR(info.st_mode) or info.st_mode & 0o077:
        raise Problem('%s must be a directory of yours with mode 0700; '
                      'remove it or set XDG_RUNTIME_DIR' % path)
    return path


# The dynamic linker splits LD_PRELOAD at spaces and colons, LD_LIBRARY_PATH at
# colons and semicolons, expands $, and knows no quoting.
LINKER_WORDS = ' :;$\t\n'


def is_plain(path):
    return not any(c in path for c in LINKER_WORDS)


def plain_path(path):
    """A name for `path` that the linker takes: itself, or a link to it in the
    runtime directory."""
    if is_plain(path):
        return path
    import hashlib  # rarely needed and slow to load
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    link = os.path.join(runtime_dir(), 'link-' + name)
    try:
        if os.readlink(link) == path:
            return link
    except OSError:
        pass
    # Made aside and renamed, so that two commands at once do not collide.
    new = '%s.%d' % (link, os.getpid())
    try:
        os.symlink(path, new)
        os.rename(new, link)
    except OSError as error:
        raise Problem('cannot make the link %s: %s' % (link, error.strerror))
    return link
