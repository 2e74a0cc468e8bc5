#!/usr/bin/env python3
"""Make the table of driver entry points that submit work or wait for it, and
the bodies that stand in for them, from NVIDIA's headers.

    make work-table

writes shim/work.def and shim/work_hooks.c. Both are checked in: a build needs
neither Python nor the newest headers.

An entry point whose class does not follow from the rules below stops the
script: somebody has to say what it does before gpupool can stand in for it.
"""
import argparse
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
OLDEST = 12000  # the oldest header that gpupool is built with
COLUMNS = 80

# What an entry point does, by its name without _vN, _ptsz and _ptds. The first
# match counts. HOST: what it does may reach memory that the host reads, or
# read memory that the host may write once cuMemFree would have returned.
# DRAINS: it returns when its copy is done, if the other side is host memory.
CLASSES = [
    (r'cuLaunch(|Grid|GridAsync)', 'SUBMIT', '0'),
    (r'cuLaunch(Cooperative)?Kernel(Ex|MultiDevice)?', 'SUBMIT', '0'),
    (r'cuLaunchHostFunc|cuStreamAddCallback', 'SUBMIT', 'HOST'),
    (r'cuGraphLaunch', 'GRAPH', 'HOST'),
    (r'cuGraphUpload|cuGraphInstantiateWithParams', 'SUBMIT', '0'),
    (r'cuMemcpy(DtoD|3DPeer|Peer)Async', 'SUBMIT', '0'),
    (r'cuMemcpy(|2D|3D|Batch|3DBatch|Hto[AD]|[AD]toH)Async', 'SUBMIT', 'HOST'),
    (r'cuMemsetD(2D)?(8|16|32)Async', 'SUBMIT', '0'),
    (r'cuMemcpy[AD]toH', 'SYNC_COPY', 'DRAINS'),
    (r'cuMemcpy(|2D|2DUnaligned|3D|3DPeer|Peer|[ADH]to[AD])',
     'SYNC_COPY', '0'),
    (r'cuMemsetD(2D)?(8|16|32)', 'SYNC_SET', '0'),
    (r'cuMem(Prefetch|PrefetchBatch|DiscardBatch|DiscardAndPrefetchBatch)'
     r'Async|cuStreamAttachMemAsync', 'SUBMIT', 'HOST'),
    (r'cuMem(BatchDecompress|MapArray)Async', 'SUBMIT', '0'),
    (r'cuMem(Alloc|AllocFromPool|Free)Async', 'SUBMIT', '0'),
    (r'cuStreamWaitValue(32|64)', 'SUBMIT', '0'),
    (r'cuStreamWriteValue(32|64)|cuStreamBatchMemOp', 'SUBMIT', 'HOST'),
    (r'cuSignalExternalSemaphoresAsync', 'SUBMIT', 'HOST'),
    (r'cuWaitExternalSemaphoresAsync', 'SUBMIT', '0'),
    (r'cuGraphics(Map|Unmap)Resources', 'SUBMIT', 'HOST'),
    (r'cuEventRecord(WithFlags)?', 'EVENT_RECORD', '0'),
    (r'cuStreamWaitEvent', 'STREAM_WAIT', '0'),
    (r'cuCtxRecordEvent', 'CTX_RECORD', '0'),
    (r'cuCtxWaitEvent', 'CTX_WAIT', '0'),
    (r'cuGreenCtxRecordEvent', 'GREEN_RECORD', '0'),
    (r'cuGreenCtxWaitEvent', 'GREEN_WAIT', '0'),
    (r'cuStreamSynchronize', 'STREAM_SYNC', '0'),
    (r'cuStreamQuery', 'STREAM_QUERY', '0'),
    (r'cuEventSynchronize', 'EVENT_SYNC', '0'),
    (r'cuEventQuery', 'EVENT_QUERY', '0'),
    (r'cuEventElapsedTime', 'EVENT_ELAPSED', '0'),
    (r'cuCtxSynchronize', 'CTX_SYNC', '0'),
    (r'cuStreamBeginCapture(ToGraph)?|cuStreamEndCapture', 'CAPTURE', '0'),
    (r'cuStreamCreate(WithPriority)?|cuGreenCtxStreamCreate', 'CREATE', '0'),
    (r'cuEventCreate|cuIpcOpenEventHandle', 'CREATE', '0'),
    (r'cuStreamDestroy|cuEventDestroy', 'DESTROY', '0'),
]

# Concerned with streams or launches, yet neither submitting nor waiting.
NO_WORK = [
    r'cuStreamGet\w*|cuStreamIsCapturing|cuStream(Set|Copy)Attributes?',
    r'cuStreamUpdateCaptureDependencies',
    r'cuOccupancyMaxActiveClusters|cuOccupancyMaxPotentialClusterSize',
]

# Entry points with such a name submit or wait, whatever their parameters.
SUSPICIOUS = re.compile(
    r'cu(Memcpy|Memset|Launch|Ctx(Synchronize|RecordEvent|WaitEvent)'
    r'|Event(Query|Synchronize|Elapsed)|GreenCtx(Record|Wait)Event)'
    r'|cu\w*Async$')

# Classes whose stream may be left out (NULL): the default stream.
WITH_DEFAULT = {'SUBMIT', 'GRAPH', 'SYNC_COPY', 'SYNC_SET', 'EVENT_RECORD',
                'STREAM_WAIT', 'STREAM_SYNC', 'STREAM_QUERY', 'CAPTURE'}

# Parameters that name a whole copy, and what looks at them (work_bounds.h).
COPIES = {'CUDA_MEMCPY2D': 'gp_past_2d', 'CUDA_MEMCPY3D': 'gp_past_3d',
          'CUDA_MEMCPY3D_PEER': 'gp_past_3d_peer'}

# Other headers whose entry points libcuda exports. Known, not stood in for:
# they need the headers of OpenGL, EGL and VDPAU.
OTHER_HEADERS = ['cudaGL.h', 'cudaEGL.h', 'cudaVDPAU.h', 'cudaProfiler.h']


class Unclassified(Exception):
    pass


def base_of(name):
    return re.sub(r'(_v\d+)?(_pt[sd][sz])?$', '', name)


def read(path):
    with open(path, encoding='utf-8', errors='replace') as file:
        return file.read()


class Param:
    """One parameter: `type` without its name, spaced as the project does."""

    def __init__(self, text):
        match = re.match(r'(.*?)(\w+)$', text.strip(), re.S)
        kind = re.sub(r'\s+', ' ', match.group(1)).strip()
        self.name = match.group(2)
        self.type = re.sub(r' ?(\*+)$', r' \1', kind)

    def __str__(self):
        return self.type + ('' if self.type.endswith('*') else ' ') + self.name

    def points_to(self):
        match = re.match(r'(?:const )?(\w+) \*$', self.type)
        return match.group(1) if match else None


class Header:
    """cuda.h as the compiler sees it with every version of every name."""

    def __init__(self, include, compiler):
        text = subprocess.run(
            compiler + ['-E', '-P', '-D__CUDA_API_VERSION_INTERNAL', '-I',
                        include, os.path.join(include, 'cuda.h')],
            stdout=subprocess.PIPE, check=True).stdout.decode()
        self.version = int(re.search(r'#define CUDA_VERSION (\d+)', read(
            os.path.join(include, 'cuda.h'))).group(1))
        self.functions = {}
        for name, params in re.findall(
                r'\bCUresult\s+(cu[A-Z]\w*)\s*\(([^;{}]*)\)\s*;', text):
            params = params.strip()
            self.functions[name] = [] if params in ('', 'void') else [
                Param(p) for p in params.split(',')]
        self.stream_fields = self._stream_fields(text)
        self.since = self._since(os.path.join(include, 'cudaTypedefs.h'))
        self.others = set()
        for other in OTHER_HEADERS:
            self.others |= self._names(os.path.join(include, other))

    @staticmethod
    def _stream_fields(text):
        """{structure: its CUstream}, under every name of the structure."""
        fields = {}
        for body, name in re.findall(
                r'typedef struct \w+\s*\{([^{}]*)\}\s*(\w+)\s*;', text):
            match = re.search(r'\bCUstream\s+(\w+)\s*;', body)
            if match:
                fields[name] = match.group(1)
        for old, new in re.findall(r'typedef (\w+)\s+(\w+)\s*;', text):
            if old in fields:
                fields[new] = fields[old]
        return fields

    def _since(self, path):
        """{name: first CUDA version}. cudaTypedefs.h names a function's
        versions by the CUDA that brought them: in order, they are _v2 and
        on, so that PFN_cuMemPrefetchAsync_v12020 is cuMemPrefetchAsync_v2."""
        versions = {}
        for base, version in re.findall(r'PFN_(cu[A-Z]\w*?)_v(\d{4,})\b',
                                        read(path)):
            versions.setdefault(base, set()).add(int(version))
        since = {}
        for name in self.functions:
            known = sorted(versions.get(base_of(name), []))
            number = re.search(r'_v(\d+)(?:_pt[sd][sz])?$', name)
            index = int(number.group(1)) - 1 if number else 0
            if known:
                since[name] = known[min(index, len(known) - 1)]
        return since

    @staticmethod
    def _names(path):
        text = read(path)
        names = set(re.findall(r'\bCUresult\s+CUDAAPI\s+(cu[A-Z]\w*)\s*\(',
                               text))
        for new, twin, api in re.findall(
                r'#define\s+(cu[A-Z]\w*)\s+__CUDA_API_PT(DS|SZ)\((\w+)\)',
                text):
            names |= {new, api, api + '_pt' + twin.lower()}
        for new, old in re.findall(
                r'#define\s+(cu[A-Z]\w*)\s+(cu[A-Z]\w*_v\d+)\b', text):
            names |= {new, old}
        return names


class Row:
    """One line of the table. stream, object and event are C expressions over
    the parameters, or None."""

    def __init__(self, header, name):
        self.name = name
        self.params = header.functions[name]
        self.since = header.since.get(name, 0)
        self.kind, self.flags = self._classify(header)
        if not self.kind:
            return
        self.stream, self.guard = self._stream(header)
        self.default = 'NONE'
        if self.kind in WITH_DEFAULT:
            per_thread = re.search(r'_pt[sd][sz]$', name)
            self.default = 'PER_THREAD' if per_thread else 'LEGACY'
        events = [p.name for p in self.params if p.type == 'CUevent']
        self.event = events[-1] if events else None
        self.object = self._object(events)

    def _classify(self, header):
        base = base_of(self.name)
        for pattern, kind, flags in CLASSES:
            if re.fullmatch(pattern, base):
                return kind, flags
        if any(re.fullmatch(pattern, base) for pattern in NO_WORK):
            return None, None
        takes = any(p.type.rstrip(' *') == 'CUstream' or
                    p.points_to() in header.stream_fields
                    for p in self.params)
        if takes or SUSPICIOUS.match(base):
            raise Unclassified(self.name)
        return None, None

    def _stream(self, header):
        """The stream, and the pointer that must not be NULL to read it."""
        for param in self.params:
            if param.type == 'CUstream':
                return param.name, None
            field = header.stream_fields.get(param.points_to())
            if field:
                return param.name + '->' + field, param.name
        return None, None

    def _object(self, events):
        """What else the call is about; see struct gp_work."""
        if self.kind == 'EVENT_ELAPSED':
            return events[0]
        if self.kind == 'CREATE':
            return self.params[0].name
        wanted = {'CTX_SYNC': 'CUcontext',
                  'CTX_RECORD': 'CUcontext', 'CTX_WAIT': 'CUcontext',
                  'GREEN_RECORD': 'CUgreenCtx', 'GREEN_WAIT': 'CUgreenCtx'}
        for param in self.params:
            if param.type == wanted.get(self.kind):
                return param.name
        return None

    def past_end(self):
        """C expressions, of which any is true where a copy or set goes past
        the end of its memory. The first versions, of 32-bit addresses, cannot
        name the pool's."""
        if not re.match('cuMem(cpy|set)', self.name):
            return []
        names = {p.name for p in self.params}
        sizes = [p.name for p in self.params if p.name in ('ByteCount', 'N')]
        copies = [p for p in self.params if p.points_to() in COPIES]
        devices = [p.name for p in self.params if p.type == 'CUdeviceptr']
        unit = re.match(r'cuMemsetD(?:2D)?(8|16|32)', self.name)
        if {'dsts', 'srcs', 'sizes', 'count'} <= names:
            return ['gp_past_batch(dsts, srcs, sizes, count, %s)' % (
                'failIdx' if 'failIdx' in names else 'NULL')]
        if copies:
            return ['%s(%s)' % (COPIES[copies[0].points_to()],
                                copies[0].name)]
        if unit and devices:
            rows = 'dstPitch, %d, Width, Height' if 'Height' in names else \
                '0, %d, N, 1'
            return ['gp_past_set(%s, %s)' % (
                devices[0], rows % (int(unit.group(1)) // 8))]
        return ['gp_past_end(%s, %s)' % (d, sizes[0]) for d in devices]

    def across(self):
        """For copies that may go between cards and do not name their contexts:
        (suffix, sides, size), of the functions of work_across.h and their
        arguments. None: no such copy, or left to the driver (to and from
        arrays by offset, batches)."""
        suffixes = {'CUDA_MEMCPY2D': '_2d', 'CUDA_MEMCPY3D': '_3d'}
        for param in self.params:
            if param.points_to() in suffixes:
                return suffixes[param.points_to()], [param.name], []
        sides = [p for p in self.params if re.match('dst|src', p.name)]
        # The first versions have 32-bit addresses, which cannot be the pool's.
        if not re.fullmatch(r'cuMemcpy(|[DH]to[DH])(Async)?',
                            base_of(self.name)) or not any(
                                p.type == 'CUdeviceptr' for p in sides):
            return None
        return '', [p.name if p.type == 'CUdeviceptr' else
                    'gp_address(%s)' % p.name for p in sides], ['ByteCount']

    def peer(self):
        """For copies that name their contexts: (suffix, arguments) of the
        function of work_across.h. None: no such copy."""
        if not re.fullmatch(r'cuMemcpy(3D)?Peer(Async)?', base_of(self.name)):
            return None
        return ('_3d_peer' if '3D' in self.name else '_peer'), [
            p.name for p in self.params if p.name != self.stream]

    def stream_expression(self):
        if not self.stream:
            return 'NULL'
        if self.guard:
            return '%s ? %s : NULL' % (self.guard, self.stream)
        return self.stream


def by_hand(path):
    """Names of GP_HOOK rows, which have a body written by hand."""
    return set(re.findall(r'^GP_HOOK\((\w+)\)', read(path), re.M))


def rows_of(header):
    rows, missing = [], []
    for name in sorted(header.functions):
        try:
            rows.append(Row(header, name))
        except Unclassified as error:
            missing.append(str(error))
    if missing:
        raise Unclassified(
            'cuda.h %d.%d has entry points that may submit work and that no '
            'rule of shim/work_table.py classifies: %s' % (
                header.version // 1000, header.version % 1000 // 10,
                ', '.join(missing)))
    return rows


# ---- writing ----

def width(text):
    return len(text.expandtabs(8))


def indent(columns):
    return '\t' * (columns // 8) + ' ' * (columns % 8)


def fill(head, items, tail, deep):
    """head + items + tail, as lines of at most 80 columns, broken behind
    commas and aligned behind the head; `deep` is the column to go on at where
    an item would not fit there."""
    column = width(head)
    last = [i + ',' for i in items[:-1]] + [items[-1] + tail]
    lines = [head]
    if max(column + len(i) for i in last) > COLUMNS:
        column = deep
        lines.append(indent(column))
    for i, item in enumerate(last):
        space = '' if width(lines[-1]) == column else ' '
        if width(lines[-1]) + len(space + item) > COLUMNS:
            lines.append(indent(column) + item)
        else:
            lines[-1] += space + item
    return '\n'.join(lines)


def guarded(rows, text_of):
    """The rows' texts, those of newer headers under their version."""
    out, current = [], 0
    for row in rows:
        version = row.since if row.since > OLDEST else 0
        if version != current:
            if current:
                out.append('#endif')
            if version:
                out.append('#if CUDA_VERSION >= %d' % version)
            current = version
        out.append(text_of(row))
    if current:
        out.append('#endif')
    return out


# What needs device memory of its own and has done nothing where it fails for
# lack of it.
RETRIED = {'SUBMIT', 'SYNC_COPY', 'SYNC_SET', 'CREATE'}

# What goes the short way through work.h.
SUBMITTED = {'SUBMIT'}


def body(row):
    names = [p.name for p in row.params] or ['']
    call = 'rc = gp_real()->%s(' % row.name
    submits = row.kind in SUBMITTED
    if submits:
        declare = 'struct gp_slot *slot'
        begin = fill('\tslot = gp_work_submit(', [
            row.stream_expression(), 'CU_STREAM_' + row.default], ');', 16)
        end = 'gp_work_shown(slot, rc)' if row.flags == 'HOST' else \
            'gp_work_submitted(slot, rc)'
    else:
        declare = 'struct gp_work work'
        begin = fill('\tgp_work_begin(', [
            '&work', 'GP_WORK_ID_' + row.name, row.stream_expression(),
            row.object or 'NULL', row.event or 'NULL'], ');', 16)
        end = 'gp_work_end(&work, rc)'
    past = row.past_end()
    before = ['\tif (' + ' ||\n\t    '.join(past) + ')',
              '\t\treturn CUDA_ERROR_INVALID_VALUE;'] if past else []
    retry = ['\tif (gp_room_made(rc))',
             fill('\t\t' + call, names, ');', 24)]
    if row.across():
        kind, sides, size = row.across()
        work, stream = 'GP_WORK_ID_' + row.name, [row.stream_expression()]
        before += [fill('\tif (gp_goes_across%s(' % kind,
                        [work] + sides + stream, '))', 16),
                   fill('\t\treturn gp_copy_across%s(' % kind,
                        [work] + sides + size + stream, ');', 24)]
    if row.peer():
        suffix, sides = row.peer()
        before += ['\tif (gp_across_may_be())',
                   fill('\t\treturn gp_copy%s(' % suffix,
                        ['GP_WORK_ID_' + row.name] + sides +
                        [row.stream_expression()], ');', 24)]
    if base_of(row.name) == 'cuLaunchKernelEx':
        begin += ('\n\tif (config && config->numAttrs)\n'
                  '\t\tgp_follow_launch(config, slot);')
    return '\n'.join([
        fill('CUresult %s(' % row.name, [str(p) for p in row.params] or
             ['void'], ')', 8),
        '{', '\t' + declare + ';', '\tCUresult rc;', ''] + before + [
        begin,
        fill('\t' + call, names, ');', 16)] +
        (retry if row.kind in RETRIED else []) +
        ['\t' + end + ';'] +
        ['\treturn rc;', '}'])


def table_row(row, hand):
    return 'GP_WORK%s(%s)' % ('_HAND' if row.name in hand else '', ', '.join(
        [row.name, row.kind, row.default, row.stream or 'none',
         row.object or 'none', row.event or 'none', row.flags]))


def table(header, rows, hand):
    work = [r for r in rows if r.kind]
    known = sorted({r.name for r in rows if not r.kind} | header.others)
    order = list(dict.fromkeys(kind for _, kind, _ in CLASSES))
    lines = [TABLE_HEAD % header.version]
    for kind in order:
        lines.append('/* %s */' % kind)
        lines += guarded([r for r in work if r.kind == kind],
                         lambda row: table_row(row, hand))
        lines.append('')
    lines.append('/* those of graphics and the profiler among them */')
    lines += ['GP_WORK_KNOWN(%s)' % name for name in known]
    lines += ['', '#undef GP_WORK', '#undef GP_WORK_HAND',
              '#undef GP_WORK_KNOWN', '']
    return '\n'.join(lines)


def hooks(header, rows, hand):
    made = [r for r in rows if r.kind and r.name not in hand]
    for row in made:
        for param in row.params:
            if param.name in ('work', 'slot', 'rc'):
                raise SystemExit('%s: a parameter is called %s' % (
                    row.name, param.name))
    text = '\n\n'.join(guarded(made, body))
    text = re.sub(r'^(#if .*)\n\n', r'\1\n', text, flags=re.M)
    text = text.replace('\n\n#endif', '\n#endif')
    return BODIES_HEAD % header.version + text + '\n'


TABLE_HEAD = '''\
/*
 * The driver's entry points that submit work or wait for it. Made from cuda.h
 * (CUDA_VERSION %d) by work_table.py: do not edit, run `make work-table`.
 *
 *   GP_WORK(name, class, default, stream, object, event, flags)
 *                  work_hooks.c has its body
 *   GP_WORK_HAND(the same)
 *                  the body is written by hand; hooks.def says where
 *   GP_WORK_KNOWN(name)
 *                  neither submits nor waits
 *
 * class    enum gp_work_class without GP_WORK_, see work.h
 * default  what a NULL stream means: LEGACY, PER_THREAD; NONE: no stream
 * stream   the parameter, or field of a structure, that names the stream
 * object   what else the call is about, see struct gp_work
 * event    the event
 * flags    enum gp_work_flags without GP_WORK_, or 0
 */
#ifndef GP_WORK
#define GP_WORK(name, class, default, stream, object, event, flags)
#endif
#ifndef GP_WORK_HAND
#define GP_WORK_HAND(name, class, default, stream, object, event, flags)
#endif
#ifndef GP_WORK_KNOWN
#define GP_WORK_KNOWN(name)
#endif
'''

BODIES_HEAD = '''\
/*
 * Stand-ins for the entry points that submit work or wait for it. Made from
 * cuda.h (CUDA_VERSION %d) by work_table.py: do not edit, run
 * `make work-table`. The layout is the script's too.
 */
/* clang-format off */
#include "shim/room.h"
#include "shim/work.h"
#include "shim/work_across.h"
#include "shim/work_bounds.h"

'''


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--include', default='/usr/local/cuda/include',
                        help='directory of cuda.h')
    parser.add_argument('--cc', default='cc', help='C compiler')
    parser.add_argument('--hooks', help='hooks.def', default=os.path.join(
        ROOT, 'shim', 'hooks.def'))
    parser.add_argument('--out', help='directory to write to',
                        default=os.path.join(ROOT, 'shim'))
    args = parser.parse_args()
    header = Header(args.include, args.cc.split())
    try:
        rows = rows_of(header)
    except Unclassified as error:
        print(error, file=sys.stderr)
        return 1
    hand = by_hand(args.hooks)
    for name, make in ('work.def', table), ('work_hooks.c', hooks):
        text = make(header, rows, hand)
        with open(os.path.join(args.out, name), 'w') as file:
            file.write(text)
    return 0


if __name__ == '__main__':
    sys.exit(main())
