"""What does not go well with a preload, or with a pool, and what to do: for
`gpupool doctor`. Told from the environment, from who started us, from the
program's name, and from the libraries that it has loaded.
"""
import os
import re

from gpupool_finding import NOTE, OK, TODO, Finding

PASSES = ('beside it gpupool passes every call through to the driver and only '
          'counts, which is one line on stderr')
PROFILER = ('beside profilers that it knows gpupool passes every call through '
            'to the driver and only counts; others see the calls that it '
            "makes, not the program's own cudaMalloc")
CHECKER = ("it knows the pool's memory as a few large blocks, so that a "
           'kernel which leaves its own block is not seen; look for such '
           'faults without gpupool')

# By the base name of a program in front, or of a process above us.
TOOLS = {
    'ncu': (NOTE, 'put the tool outside: ncu --target-processes all gpupool '
                  'run -- PROGRAM; ' + PASSES),
    'nsys': (NOTE, 'put the tool outside: nsys profile gpupool run -- '
                   'PROGRAM; ' + PASSES),
    'nvprof': (NOTE, PROFILER),
    'compute-sanitizer': (NOTE, PASSES),
    'cuda-memcheck': (TODO, CHECKER),
    'cuda-gdb': (NOTE, 'gpupool run -- cuda-gdb also preloads it into the '
                       'debugger; in cuda-gdb rather say: set exec-wrapper '
                       'env LD_PRELOAD=%(library)s'),
    'gdb': (NOTE, 'in gdb rather say: set exec-wrapper env '
                  'LD_PRELOAD=%(library)s'),
    'valgrind': (TODO, 'CUDA itself does not run well under valgrind; run '
                       'the program without it'),
    'rr': (TODO, 'rr cannot record programs that use a card'),
    'sudo': (TODO, 'sudo clears LD_PRELOAD: put it outside, sudo gpupool run '
                   '-- PROGRAM'),
    'su': (TODO, 'su may clear LD_PRELOAD: start gpupool run inside it'),
    'ssh': (TODO, 'the environment does not go along: start gpupool run on '
                  'the other machine'),
    'docker': (TODO, 'a container has its own files and environment: install '
                     'gpupool in the image, and start gpupool run inside'),
    'podman': (TODO, 'a container has its own files and environment: install '
                     'gpupool in the image, and start gpupool run inside'),
    'singularity': (TODO, 'start gpupool run inside the container'),
    'apptainer': (TODO, 'start gpupool run inside the container'),
    'enroot': (TODO, 'start gpupool run inside the container'),
    'mpirun': (NOTE, 'ranks on other machines do not get LD_PRELOAD: rather '
                     'mpirun gpupool run -- PROGRAM'),
    'mpiexec': (NOTE, 'ranks on other machines do not get LD_PRELOAD: rather '
                      'mpiexec gpupool run -- PROGRAM'),
    'srun': (NOTE, 'rather srun gpupool run -- PROGRAM, so that each task is '
                   'checked'),
}
DEBUGGERS = ('ncu', 'nsys', 'nvprof', 'compute-sanitizer', 'cuda-memcheck',
             'cuda-gdb', 'gdb', 'valgrind', 'rr')

# By name of a library, in LD_PRELOAD or in the program.
LIBRARIES = (
    (r'libvgpu|libnvshare|libcuda-control|libgpushare|libgemhook|libbless',
     TODO, 'another library that wraps the driver; only one of them can count '
           'the memory right: take one out'),
    (r'libasan|libclang_rt\.asan', NOTE,
     "AddressSanitizer must stay the first in LD_PRELOAD; it sees the host's "
     'memory only'),
    (r'libtsan|libclang_rt\.tsan', TODO,
     'ThreadSanitizer does not bear a library that wraps dlsym: run without '
     'one of them'),
    (r'libsanitizer-(collection|public)', NOTE,
     'compute-sanitizer: ' + PASSES),
    (r'libnvperf|libToolsInjection|libTreeLauncher', NOTE, PROFILER),
    (r'libucm', NOTE,
     "UCX patches the driver's functions in place, so allocations take the "
     'longer way through them; nothing needs doing'),
)

INJECTIONS = ('CUDA_INJECTION64_PATH', 'NVTX_INJECTION64_PATH',
              'COMPUTE_PROFILE', 'NSYS_PROFILING_SESSION_ID',
              'NV_NSIGHT_INJECTION_PORT_BASE',
              'NV_SANITIZER_INJECTION_PORT_BASE')


def of_library(path):
    """(status, advice) where a library of that name matters."""
    for pattern, status, advice in LIBRARIES:
        if re.match(pattern, os.path.basename(path)):
            return status, advice
    return None


def check_preloads(library):
    ours = os.path.basename(library)
    names = [name for name in re.split(r'[ :]+',
                                       os.environ.get('LD_PRELOAD', ''))
             if name and os.path.basename(name) != ours]
    for name in names:
        known = of_library(name)
        if known:
            yield Finding('preloads', known[0], 'LD_PRELOAD has ' + name,
                          known[1])
        else:
            yield Finding('preloads', OK, 'LD_PRELOAD also has %s, which is '
                          'kept' % name)
    try:
        with open('/etc/ld.so.preload') as file:
            text = ' '.join(file.read().split())
    except OSError:
        text = ''
    if text:
        status, advice = of_library(text.split()[0]) or (NOTE, '')
        yield Finding('preloads', status, '/etc/ld.so.preload has ' + text,
                      advice)
    if os.environ.get('LD_AUDIT'):
        yield Finding('preloads', NOTE, 'LD_AUDIT is set to '
                      + os.environ['LD_AUDIT'],
                      'an audit library may bind symbols around gpupool; '
                      'unset it if calls do not arrive')


def above():
    """Base names of the processes that started us."""
    names, pid = [], os.getppid()
    while pid > 1 and len(names) < 64:
        try:
            with open('/proc/%d/stat' % pid) as file:
                text = file.read()
            names.append(text[text.index('(') + 1:text.rindex(')')])
            pid = int(text[text.rindex(')') + 1:].split()[1])
        except (OSError, ValueError, IndexError):
            break
    return names


def check_tools(library):
    told = set()
    for name in above():
        tool = 'compute-sanitizer' if name.startswith('compute-sanit') \
            else name
        if tool in DEBUGGERS and tool not in told:
            told.add(tool)
            status, advice = TOOLS[tool]
            yield Finding('tools', status, 'this runs under ' + tool,
                          advice % {'library': library})
    if not told:
        for name in INJECTIONS:
            if os.environ.get(name):
                yield Finding('tools', NOTE, '%s is set: a profiler or '
                              'checker will be loaded' % name, PROFILER)


def check_environment():
    get = os.environ.get
    if get('CUDA_VISIBLE_DEVICES') in ('', '-1'):
        yield Finding('environment', TODO, 'CUDA_VISIBLE_DEVICES=%s hides '
                      'every card' % get('CUDA_VISIBLE_DEVICES'), 'unset it')
    for name in 'PYTORCH_ALLOC_CONF', 'PYTORCH_CUDA_ALLOC_CONF':
        text = get(name, '')
        if re.search(r'backend\s*:\s*cudaMallocAsync', text):
            yield Finding('environment', TODO, '%s=%s: PyTorch takes its '
                          "memory from the driver's own pools" % (name, text),
                          'take backend out; gpupool counts that memory, and '
                          'pools none of it')
        elif re.search(r'expandable_segments\s*:\s*True', text):
            yield Finding('environment', NOTE, '%s=%s: PyTorch maps memory '
                          'by itself' % (name, text),
                          'gpupool counts it, and pools none of it; with '
                          'gpupool run --uncached it serves every tensor')
    if get('UCX_MEM_CUDA_HOOK_MODE') == 'bistro':
        yield Finding('environment', NOTE, 'UCX_MEM_CUDA_HOOK_MODE=bistro',
                      of_library('libucm.so')[1])


def check(library):
    """Everything but the program."""
    yield from check_preloads(library)
    yield from check_tools(library)
    yield from check_environment()


def check_name(program, library):
    """A tool or launcher in the program's place."""
    name = os.path.basename(program)
    if name in TOOLS:
        status, advice = TOOLS[name]
        yield Finding('program', status, '%s starts the program' % name,
                      advice % {'library': library})


def check_loaded(names):
    """Libraries that the program has loaded, by path."""
    told = set()
    for path in sorted(names):
        known = of_library(path)
        if known and known[1] not in told:
            told.add(known[1])
            yield Finding('libraries', known[0], os.path.basename(path)
                          + ' is loaded', known[1])
