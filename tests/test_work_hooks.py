"""The bodies that stand in for work: each forwards what it got, once, and
shows the stream that the table says, and what the host may see."""
import os
import re
import unittest

import harness
from work_rows import CC, INCLUDE, SHIM, need_headers, table_rows, work_table

BODIES = '''
#include <stdio.h>
#include <string.h>
#include "pool/streams.h"
#include "shim/graphs.h"
#include "shim/state.h"
#include "shim/take.h"
#include "shim/work.h"
#include "shim/work_across.h"
#include "shim/work_bounds.h"

static struct gp_real real;
const struct gp_real *gp_real_table = &real;
const struct gp_real *gp_real_find(void) { return &real; }
int gp_work_on;
bool gp_graphs_allocate;
static CUresult answer = CUDA_ERROR_NOT_PERMITTED;
static int rooms;
bool gp_room_lacked(void) { rooms++; return true; }
bool gp_follow_is_empty(const struct gp_work *work) { return work->on; }
/* Memory of graphs is not watched, but the limit may have no room. */
int gp_phase_now = GP_OFF;
bool gp_start(void) { return false; }
static bool full;
bool gp_graph_memory(CUdevice device, uint64_t bytes, const char *call)
{ return !full; }
bool gp_graph_begin_launch(struct gp_graph_launch *launch, CUgraphExec exec,
                           CUstream stream, const char *call)
{ launch->num = !full; return !full; }
bool gp_graph_begin_upload(struct gp_graph_launch *launch, CUgraph graph,
                           const char *call)
{ launch->num = !full; return !full; }
static int ended;
void gp_graph_end_launch(struct gp_graph_launch *launch, CUresult rc)
{ ended++; }
void gp_graph_instantiated(CUgraphExec exec, CUgraph graph) { }
void gp_graph_exec_goes(CUgraphExec exec) { }
bool gp_graph_trim_begin(CUdevice device) { return false; }
void gp_graph_trim_end(CUdevice device) { }
bool gp_take_enter(uint64_t key, const struct gp_foreign *entry)
{ return true; }
bool gp_take_out(uint64_t key, struct gp_foreign *entry) { return false; }
static int launches;
void gp_follow_launch(const CUlaunchConfig *config, const struct gp_slot *slot)
{
    launches += config->numAttrs == 2 && !slot == !gp_work_on;
}

static int failures, forwarded, leaves, shown;
static CUresult left;
static struct gp_stream stream_;
static struct gp_slot slot = {.stream = &stream_};
static struct { int number; enum gp_work_id id; CUstream stream;
                void *object; CUevent event; } seen[256];
static int num_seen;

void gp_work_enter(struct gp_work *work, enum gp_work_id id, CUstream stream,
                   void *object, CUevent event)
{
    (void)work;
    seen[num_seen].id = id;
    seen[num_seen].stream = stream;
    seen[num_seen].object = object;
    seen[num_seen++].event = event;
}

void gp_work_leave(struct gp_work *work, CUresult rc)
{
    (void)work;
    left = rc;
    leaves++;
}

/* The short way of what only submits. */
struct gp_slot *gp_follow_submit(CUstream stream)
{
    if (!gp_work_on)
        return NULL;
    gp_work_enter(NULL, GP_WORK_NUM_IDS, stream, NULL, NULL);
    return &slot;
}

/* No success: a fault shows in it. */
static int fails;
void gp_work_failed(CUresult rc)
{
    fails += rc == CUDA_ERROR_NOT_PERMITTED;
}

void gp_follow_shown(struct gp_slot *at, CUresult rc)
{
    gp_order_end(at);
    left = rc;
    shown++;
}

void gp_order_end_set_off(struct gp_slot *at) { leaves = -1; }

static int ends(void) { return leaves + (int)slot.finished; }

/* Which look at a copy or set says that it goes past the end; -1: none. */
static int past = -1, looks;

uint64_t gp_registry_low = 0, gp_registry_high = UINT64_MAX;
bool gp_past_block(CUdeviceptr at, size_t bytes)
{
    return looks++ == past;
}
bool gp_past_set(CUdeviceptr at, size_t pitch, unsigned unit, size_t width,
                 size_t height)
{
    (void)pitch, (void)height;
    return gp_past_block(at, unit * width);
}
bool gp_past_2d(const CUDA_MEMCPY2D *copy) { return looks++ == past; }
bool gp_past_3d(const CUDA_MEMCPY3D *copy) { return looks++ == past; }
bool gp_past_3d_peer(const CUDA_MEMCPY3D_PEER *copy)
{
    return looks++ == past;
}
bool gp_past_batch(const CUdeviceptr *dsts, const CUdeviceptr *srcs,
                   const size_t *sizes, size_t count, size_t *bad)
{
    return looks++ == past;
}

/* Between cards: the questions, and the copies made for them. */
bool gp_across_on;
static struct across {
    enum gp_work_id id;
    uintptr_t dst, src;
    size_t bytes;
    CUstream stream;
} asked, made;
static int crossed;
static int same(struct across a, struct across b)
{
    return a.id == b.id && a.dst == b.dst && a.src == b.src &&
           a.bytes == b.bytes && a.stream == b.stream;
}
static bool ask(enum gp_work_id id, uintptr_t dst, uintptr_t src,
                CUstream stream)
{
    asked = (struct across){id, dst, src, 0, stream};
    return true;
}
static CUresult make(enum gp_work_id id, uintptr_t dst, uintptr_t src,
                     size_t bytes, CUstream stream)
{
    crossed++;
    made = (struct across){id, dst, src, bytes, stream};
    return CUDA_ERROR_NOT_FOUND;
}
bool gp_across_look(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
                    CUstream stream) { return ask(id, dst, src, stream); }
bool gp_across_look_2d(enum gp_work_id id, const CUDA_MEMCPY2D *copy,
                       CUstream stream)
{ return ask(id, (uintptr_t)copy, 0, stream); }
bool gp_across_look_3d(enum gp_work_id id, const CUDA_MEMCPY3D *copy,
                       CUstream stream)
{ return ask(id, (uintptr_t)copy, 0, stream); }
CUresult gp_copy_across(enum gp_work_id id, CUdeviceptr dst, CUdeviceptr src,
                        size_t bytes, CUstream stream)
{ return make(id, dst, src, bytes, stream); }
CUresult gp_copy_across_2d(enum gp_work_id id, const CUDA_MEMCPY2D *copy,
                           CUstream stream)
{ return make(id, (uintptr_t)copy, 0, 0, stream); }
CUresult gp_copy_across_3d(enum gp_work_id id, const CUDA_MEMCPY3D *copy,
                           CUstream stream)
{ return make(id, (uintptr_t)copy, 0, 0, stream); }

CUresult gp_copy_peer(enum gp_work_id id, CUdeviceptr dst, CUcontext to,
                      CUdeviceptr src, CUcontext from, size_t bytes,
                      CUstream stream)
{
    ask(id, dst, src, stream);
    return make(id, dst, src, bytes + (uintptr_t)to + (uintptr_t)from, stream);
}
CUresult gp_copy_3d_peer(enum gp_work_id id, const CUDA_MEMCPY3D_PEER *copy,
                         CUstream stream)
{
    ask(id, (uintptr_t)copy, 0, stream);
    return make(id, (uintptr_t)copy, 0, 0, stream);
}

static void must(int good, const char *name, const char *what);

/* A copy between cards is made as one, and nothing else is. */
#define ACROSS(name, call, wanted, work, to, from, size, where) \
    reset(1); \
    crossed = 0; \
    gp_across_on = true; \
    must(call == (wanted ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NOT_PERMITTED), \
         name, "between cards: the answer"); \
    gp_across_on = false; \
    must(crossed == wanted && forwarded == !wanted && num_seen == !wanted, \
         name, "between cards: made not once"); \
    if (wanted) { \
        struct across all = {work, (uintptr_t)(to), (uintptr_t)(from), 0, \
                             where}; \
        must(same(asked, all), name, "asked otherwise"); \
        all.bytes = size; \
        must(same(made, all), name, "made otherwise"); \
    }

/* A copy or set that goes past the end is neither seen nor forwarded. */
#define REFUSED(name, call, wanted) \
    reset(1); \
    looks = 0; \
    call; \
    must(looks == wanted, name, "not every operand looked at"); \
    for (int i = 0; i < wanted; i++) { \
        reset(1); \
        looks = 0; \
        past = i; \
        must(call == CUDA_ERROR_INVALID_VALUE, name, "past the end"); \
        must(!forwarded && !num_seen && !ends(), name, "still forwarded"); \
        past = -1; \
    }

static void reset(int on)
{
    gp_work_on = on;
    num_seen = forwarded = leaves = shown = fails = 0;
    slot.finished = 0;
    left = CUDA_ERROR_UNKNOWN;
}

static void must(int good, const char *name, const char *what)
{
    if (!good) {
        printf("%s: %s\\n", name, what);
        failures++;
    }
}

static void check(const char *name, int on, CUresult rc, enum gp_work_id id,
                  CUstream stream, void *object, CUevent event, int shows)
{
    must(forwarded == 1, name, "forwarded not once, or changed");
    must(rc == CUDA_ERROR_NOT_PERMITTED, name, "another answer");
    must(num_seen == on && ends() == on, name, "seen not once");
    must(shown == shows * on, name, "what the host may see");
    must(fails == 1, name, "its failure not told once");
    if (!on)
        return;
    must(seen[0].id == id, name, "another id");
    must(seen[0].stream == stream, name, "another stream");
    must(seen[0].object == object, name, "another object");
    must(seen[0].event == event, name, "another event");
    if (leaves || shown)
        must(left == CUDA_ERROR_NOT_PERMITTED, name, "left with another answer");
}
'''

ONE = '''
static struct { int used; %(fields)s } want_%(name)s;
static CUresult fake_%(name)s(%(params)s)
{
    forwarded += 1%(compare)s;
    return answer;
}
static void test_%(name)s(int on)
{
%(declare)s
%(set)s
    real.%(name)s = fake_%(name)s;
    reset(on);
    check("%(name)s", on, %(name)s(%(args)s), %(id)s,
          %(stream)s, %(object)s, %(event)s, %(shows)d);
    REFUSED("%(name)s", %(name)s(%(args)s), %(looks)d)
    ACROSS("%(name)s", %(name)s(%(args)s), %(across)s)
    reset(on);
    rooms = 0;
    answer = CUDA_ERROR_OUT_OF_MEMORY;
    must(%(name)s(%(args)s) == answer && rooms == %(retried)d &&
         forwarded == 1 + %(retried)d, "%(name)s", "without memory");
    answer = CUDA_ERROR_NOT_PERMITTED;
}
'''

SPECIAL = '''
static CUresult fake_multi(CUDA_LAUNCH_PARAMS *l, unsigned n, unsigned flags)
{
    forwarded += flags == 5 && (!l || n);
    return CUDA_ERROR_NOT_PERMITTED;
}
static CUresult fake_instantiate(CUgraphExec *e, CUgraph g,
                                 CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
    (void)p;
    forwarded += e == (CUgraphExec *)16 && g == (CUgraph)32;
    return CUDA_ERROR_NOT_PERMITTED;
}
static void test_special(int on)
{
    CUDA_LAUNCH_PARAMS launches[3];
    CUDA_GRAPH_INSTANTIATE_PARAMS params;
    const char *name = "cuLaunchCooperativeKernelMultiDevice";
    __typeof__(cuGraphInstantiateWithParams) *twins[] = {
        cuGraphInstantiateWithParams, cuGraphInstantiateWithParams_ptsz};

    real.cuLaunchCooperativeKernelMultiDevice = fake_multi;
    real.cuGraphInstantiateWithParams = fake_instantiate;
    real.cuGraphInstantiateWithParams_ptsz = fake_instantiate;
    memset(launches, 0, sizeof(launches));
    for (int i = 0; i < 3; i++)
        launches[i].hStream = (CUstream)(uintptr_t)(i + 100);
    reset(on);
    must(cuLaunchCooperativeKernelMultiDevice(launches, 3, 5) ==
         CUDA_ERROR_NOT_PERMITTED && forwarded == 1, name, "forward");
    must(num_seen == 3 * on && ends() == 3 * on, name, "not every stream");
    for (int i = 0; i < num_seen; i++)
        must(seen[i].stream == launches[i].hStream, name, "another stream");
    reset(on);
    cuLaunchCooperativeKernelMultiDevice(NULL, 3, 5);
    cuLaunchCooperativeKernelMultiDevice(launches, 1u << 30, 5);
    must(forwarded == 2 && num_seen == 0, name, "nothing to read");

    for (int i = 0; i < 2; i++) {
        name = "cuGraphInstantiateWithParams and twin";
        memset(&params, 0, sizeof(params));
        params.hUploadStream = (CUstream)7;
        reset(on);
        twins[i]((CUgraphExec *)16, (CUgraph)32, &params);
        twins[i]((CUgraphExec *)16, (CUgraph)32, NULL);
        must(forwarded == 2 && num_seen == 0, name, "no upload, yet seen");
        params.flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD;
        twins[i]((CUgraphExec *)16, (CUgraph)32, &params);
        must(forwarded == 3 && num_seen == on && ends() == on, name, "upload");
        if (on)
            must(seen[0].stream == (CUstream)7, name, "another stream");
    }
}
static CUresult fake_exec(CUgraphExec e, CUstream s)
{
    forwarded += e == (CUgraphExec)16 && s == (CUstream)7;
    return CUDA_ERROR_NOT_PERMITTED;
}
/* Forwarded and seen once; not at all where the limit has no room. */
static void test_memory_of_graphs(int on)
{
    __typeof__(cuGraphLaunch) *calls[] = {
        cuGraphLaunch, cuGraphLaunch_ptsz, cuGraphUpload, cuGraphUpload_ptsz};
    CUDA_GRAPH_INSTANTIATE_PARAMS params = {
        .flags = CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD};
    const char *name = "memory of graphs";

    real.cuGraphLaunch = real.cuGraphLaunch_ptsz = fake_exec;
    real.cuGraphUpload = real.cuGraphUpload_ptsz = fake_exec;
    for (int i = 0; i < 4; i++) {
        for (int step = 0; step < 3; step++) {
            gp_graphs_allocate = step > 0;
            full = step > 1;
            reset(on);
            ended = 0;
            must(calls[i]((CUgraphExec)16, (CUstream)7) ==
                 (full ? CUDA_ERROR_OUT_OF_MEMORY
                       : CUDA_ERROR_NOT_PERMITTED), name, "the answer");
            must(forwarded == !full && num_seen == (on && !full), name,
                 "forwarded or seen");
            must(ended == (step == 1), name, "no end");
            if (num_seen)
                must(seen[0].stream == (CUstream)7, name, "another stream");
        }
    }
    reset(on);
    must(cuGraphInstantiateWithParams((CUgraphExec *)16, (CUgraph)32, &params)
         == CUDA_ERROR_OUT_OF_MEMORY && !forwarded && !num_seen &&
         params.result_out == CUDA_GRAPH_INSTANTIATE_ERROR, name, "upload");
    gp_graphs_allocate = full = false;
}
static void test_null_config(int on)
{
    __typeof__(cuLaunchKernelEx) *twins[] = {cuLaunchKernelEx,
                                             cuLaunchKernelEx_ptsz};
    CUstream defaults[] = {CU_STREAM_LEGACY, CU_STREAM_PER_THREAD};

    for (int i = 0; i < 2; i++) {
        memset(&want_cuLaunchKernelEx, 0, sizeof(want_cuLaunchKernelEx));
        memset(&want_cuLaunchKernelEx_ptsz, 0,
               sizeof(want_cuLaunchKernelEx_ptsz));
        reset(on);
        twins[i](NULL, NULL, NULL, NULL);
        must(forwarded == 1 && num_seen == on, "no config", "forward");
        must(!on || seen[0].stream == defaults[i], "no config", "a stream");
    }
}
static void test_attributes(int on)
{
    __typeof__(cuLaunchKernelEx) *twins[] = {cuLaunchKernelEx,
                                             cuLaunchKernelEx_ptsz};
    CUlaunchConfig config = {.numAttrs = 2};

    reset(on);
    launches = 0;
    for (int i = 0; i < 2; i++)
        twins[i](&config, NULL, NULL, NULL);
    must(launches == 2, "attributes", "not looked at");
}
'''


def operands(row):
    """How many looks a body takes for the end of device memory: one at each
    address that a copy or set names, or one at the whole description."""
    if not row.name.startswith(('cuMemcpy', 'cuMemset')):
        return 0
    return sum(p.type == 'CUdeviceptr' for p in row.params) or int(any(
        p.type in ('const CUDA_MEMCPY2D *', 'const CUDA_MEMCPY3D *',
                   'const CUDA_MEMCPY3D_PEER *') or p.name == 'dsts'
        for p in row.params))


def across(row, stream):
    """Whether it is a copy that may go between cards, and what it says."""
    names = [p.name for p in row.params]
    work = 'GP_WORK_ID_' + row.name
    if re.match(r'cuMemcpy[23]D(Unaligned)?(Async)?_v2', row.name):
        return '1, %s, %s, 0, 0, %s' % (work, names[0], stream)
    if re.match(r'cuMemcpy(Async|_ptds|(DtoD|HtoD|DtoH)(Async)?_v2|$)',
                row.name):
        return '1, %s, %s, %s, %s, %s' % (work, *names[:3], stream)
    if re.match(r'cuMemcpyPeer', row.name):
        return '1, %s, %s, %s, %s, %s' % (
            work, names[0], names[2], ' + '.join(
                '(uintptr_t)' + names[i] for i in (4, 1, 3)), stream)
    if re.match(r'cuMemcpy3DPeer', row.name):
        return '1, %s, %s, 0, 0, %s' % (work, names[0], stream)
    return '0, %s, 0, 0, 0, NULL' % work


def one(row, columns, header):
    """The test of one body: distinct bytes in every argument."""
    name, params = row.name, row.params
    declare, fill = [], []
    for i, param in enumerate(params):
        kind = param.type.replace('const ', '')
        field = header.stream_fields.get(param.points_to())
        if field:
            declare.append('    static %s at_%s;' % (
                param.points_to(), param.name))
            fill.append('    at_%s.%s = (CUstream)0x7700;' % (
                param.name, field))
            declare.append('    %s %s = &at_%s;' % (
                kind, param.name, param.name))
        else:
            declare.append('    %s %s;' % (kind, param.name))
            fill.append('    memset(&%s, %d, sizeof(%s));' % (
                param.name, i + 1, param.name))
        fill.append('    memcpy(&want_%s.%s, &%s, sizeof(%s));' % (
            name, param.name, param.name, param.name))
    value = [None if c == 'none' else c for c in columns[3:6]]
    short = row.kind in work_table.SUBMITTED
    if short and not value[0]:
        value[0] = 'CU_STREAM_' + row.default
    return ONE % {
        'name': name,
        'fields': ' '.join('%s %s;' % (p.type.replace('const ', ''), p.name)
                           for p in params),
        'params': ', '.join(map(str, params)) or 'void',
        'compare': ''.join(
            ' && !memcmp(&%s, &want_%s.%s, sizeof(%s))' % (
                p.name, name, p.name, p.name) for p in params),
        'declare': '\n'.join(declare), 'set': '\n'.join(fill),
        'args': ', '.join(p.name for p in params),
        'id': 'GP_WORK_NUM_IDS' if short else 'GP_WORK_ID_' + name,
        'shows': short and row.flags == 'HOST',
        'stream': value[0] or 'NULL', 'object': value[1] or 'NULL',
        'event': value[2] or 'NULL', 'looks': operands(row),
        'across': across(row, value[0] or 'NULL'),
        'retried': row.kind in work_table.RETRIED}


class Bodies(harness.CudaTest):

    def test_each_forwards_and_shows_its_stream(self):
        need_headers(self, same_version=True)
        header = work_table.Header(INCLUDE, CC.split())
        columns = {c[0]: c for m, c in table_rows() if m == 'GP_WORK'}
        rows = [r for r in work_table.rows_of(header) if r.name in columns]
        self.assertGreater(len(rows), 180)
        source = BODIES + ''.join(
            one(row, columns[row.name], header) for row in rows) + SPECIAL
        source += 'int main(void) { for (int on = 0; on < 2; on++) {\n'
        source += ''.join('test_%s(on);\n' % row.name for row in rows)
        source += ('test_special(on); test_null_config(on); '
                   'test_memory_of_graphs(on); '
                   'test_attributes(on); }\n'
                   'printf("%d bodies\\n", ' + str(len(rows)) + ');\n'
                   'return failures != 0; }\n')
        program = self.compile(
            'bodies', source, '-std=gnu11', '-w', '-I' + harness.ROOT,
            '-isystem', INCLUDE, *[os.path.join(SHIM, name) for name in
                                   ('work_hooks.c', 'work_special.c',
                                    'graph_calls.c')])
        self.assert_ok(harness.run([program]))


# Every call that makes, or changes, a node which records the event 0x50.
NODES = '''
#include <stdio.h>
#include "shim/events.h"
#include "shim/work.h"

static struct gp_real real;
const struct gp_real *gp_real_table = &real;
const struct gp_real *gp_real_find(void) { return &real; }
int gp_work_on = 1;
bool gp_may_intercept(void) { return true; }
bool gp_graph_may_add(const CUgraphNodeParams *params) { return true; }
CUresult gp_graph_added(CUresult rc, const CUgraphNodeParams *params)
{
    return rc;
}
static int loosened, forwarded, seen, failures;
void gp_event_loosen(CUevent event, const struct gp_recorded *where)
{
    loosened += event == EVENT && !where && !forwarded;
}
void gp_work_enter(struct gp_work *work, enum gp_work_id id, CUstream stream,
                   void *object, CUevent event)
{
    seen += stream == STREAM && event == EVENT;
}
void gp_work_leave(struct gp_work *work, CUresult rc) { seen += rc == ANSWER; }
void gp_work_failed(CUresult rc) { }

static void check(const char *call, CUresult rc, int records, int work)
{
    if (rc != ANSWER || forwarded != 1 || loosened != records || seen != work) {
        printf("%%s: %%d, forwarded %%d, loosened %%d, seen %%d\\n", call, rc,
               forwarded, loosened, seen);
        failures++;
    }
    loosened = forwarded = seen = 0;
}
%(fakes)s
int main(void)
{
    CUgraphNodeParams record = {.type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
    CUgraphNodeParams wait = {.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

    record.eventRecord.event = EVENT;
    wait.eventWait.event = EVENT;
%(calls)s
    return failures != 0;
}
'''
MADE = [('cuGraphAddEventRecordNode', 'NODE, GRAPH, DEPS, 3, EVENT', 1, 0),
        ('cuGraphEventRecordNodeSetEvent', 'PLACE, EVENT', 1, 0),
        ('cuGraphExecEventRecordNodeSetEvent', 'EXEC, PLACE, EVENT', 1, 0),
        ('cuIpcGetEventHandle', 'HANDLE, EVENT', 1, 0)]
for twin in '', '_ptsz':
    for flags, records in ('0', 0), ('CU_EVENT_RECORD_EXTERNAL', 1):
        MADE.append(('cuEventRecordWithFlags' + twin,
                     'EVENT, STREAM, ' + flags, records, 2))
for params, records in ('NULL', 0), ('&wait', 0), ('&record', 1):
    MADE += [('cuGraphAddNode', 'NODE, GRAPH, DEPS, 3, ' + params, records, 0),
             ('cuGraphAddNode_v2', 'NODE, GRAPH, DEPS, EDGES, 3, ' + params,
              records, 0),
             ('cuGraphNodeSetParams', 'PLACE, ' + params, records, 0),
             ('cuGraphExecNodeSetParams', 'EXEC, PLACE, ' + params, records,
              0)]
WORDS = {'NODE': 'CUgraphNode *', 'GRAPH': 'CUgraph', 'EXEC': 'CUgraphExec',
         'DEPS': 'const CUgraphNode *', 'EDGES': 'const CUgraphEdgeData *',
         'EVENT': 'CUevent', 'PLACE': 'CUgraphNode', 'STREAM': 'CUstream',
         'HANDLE': 'CUipcEventHandle *', 'ANSWER': 'CUresult'}


class Nodes(harness.CudaTest):

    def test_events_of_nodes_prove_nothing(self):
        need_headers(self, same_version=True)
        header = work_table.Header(INCLUDE, CC.split())
        fakes, calls = '', ''
        for name in sorted({made[0] for made in MADE}):
            params = header.functions[name]
            fakes += 'static CUresult fake_%s(%s)\n{\n' % (
                name, ', '.join(map(str, params)))
            fakes += '    forwarded++;\n    return ANSWER;\n}\n'
            calls += '    real.%s = fake_%s;\n' % (name, name)
        for name, args, records, seen in MADE:
            calls += '    check("%s", %s(%s), %d, %d);\n' % (
                name, name, args, records, seen)
        program = self.compile(
            'nodes', NODES % {'fakes': fakes, 'calls': calls}, '-std=gnu11',
            '-w', '-I' + harness.ROOT, '-isystem', INCLUDE,
            os.path.join(SHIM, 'event_nodes.c'),
            *['-D%s=((%s)%d)' % (word, kind, 16 * (i + 1))
              for i, (word, kind) in enumerate(WORDS.items())])
        self.assert_ok(harness.run([program]))


WATCHED = '''
#include <stdio.h>
#include "shim/follow.h"

static int begun, ended, expired;
static CUstream last;

void gp_follow_begin(struct gp_work *work, const struct gp_work_row *row)
{
    begun++;
    last = work->stream;
}
void gp_follow_end(struct gp_work *work, const struct gp_work_row *row,
                   CUresult rc)
{
    ended++;
}
void gp_follow_expire(void) { expired++; }

static void call(enum gp_work_id id, CUstream stream, CUstream as)
{
    struct gp_work work;

    begun = ended = 0;
    gp_work_begin(&work, id, stream, NULL, NULL);
    gp_work_end(&work, CUDA_SUCCESS);
    printf("%d %d %d\\n", begun, ended, last == as);
}

int main(void)
{
    call(GP_WORK_ID_cuMemcpy, NULL, NULL);
    gp_work_watch(true);
    call(GP_WORK_ID_cuMemcpy, NULL, CU_STREAM_LEGACY);
    call(GP_WORK_ID_cuStreamSynchronize_ptsz, NULL, CU_STREAM_PER_THREAD);
    call(GP_WORK_ID_cuEventRecord_ptsz, (CUstream)0x5550, (CUstream)0x5550);
    call(GP_WORK_ID_cuCtxSynchronize, NULL, NULL);
    gp_work_watch(false);
    call(GP_WORK_ID_cuMemcpy, NULL, NULL);
    printf("%d\\n", expired);
    return 0;
}
'''


class Watching(harness.CudaTest):

    def test_default_streams_and_nothing_while_off(self):
        need_headers(self)
        program = self.compile(
            'watched', WATCHED, '-std=gnu11', '-w', '-I' + harness.ROOT,
            '-isystem', INCLUDE, os.path.join(SHIM, 'work.c'),
            os.path.join(SHIM, 'special.c'), '-lpthread')
        result = harness.run([program])
        self.assert_ok(result)
        self.assertEqual(result.out.decode().splitlines(), [
            '0 0 1', '1 1 1', '1 1 1', '1 1 1', '1 1 1', '0 0 1', '2'])


CONTEXTS = '''
#include <stdlib.h>
#include <cuda.h>

static CUmodule module;
static CUfunction fill;

static void must(CUresult rc)
{
    if (rc)
        exit(1);
}

/* In the default stream of whatever context is current. */
static void launch(CUdeviceptr at)
{
    unsigned value = 1;
    size_t words = 4;
    void *args[] = {&at, &value, &words};

    must(cuLaunchKernel(fill, 1, 1, 1, 32, 1, 1, 0, NULL, args, NULL));
}

static void load(void)
{
    must(cuModuleLoadData(&module, "any"));
    must(cuModuleGetFunction(&fill, module, "fill32"));
}

int main(int argc, char **argv)
{
    CUcontext primary, created;
    CUdeviceptr p, q;

    must(cuInit(0));
    must(cuDevicePrimaryCtxRetain(&primary, 0));
    must(cuCtxSetCurrent(primary));
    load();
    must(cuMemAlloc(&p, 4096));
    launch(p);
    launch(p);
    if (argc > 1) {
#if CUDA_VERSION >= 13000
        must(cuCtxCreate(&created, NULL, 0, 0));
#else
        must(cuCtxCreate(&created, 0, 0));
#endif
        load();
        must(cuMemAlloc(&q, 4096));
        launch(q);
        launch(q);
        must(cuCtxSetCurrent(primary));
        load();
    }
    must(cuMemFree(p));
    must(cuMemAlloc(&p, 4096));
    launch(p);
    return 0;
}
'''


class Contexts(harness.CudaTest):

    def marks(self, program, *args):
        log = os.path.join(self.dir, 'calls' + ''.join(args))
        self.assert_ok(self.run_program([program, *args],
                                        sim='call_log:' + log))
        with open(log) as file:
            return sum(line.split()[1] == 'cuEventRecord' for line in file)

    def test_default_stream_is_that_of_the_current_context(self):
        """What a free comes behind is in the default stream of its context,
        also when that of another was used since."""
        need_headers(self)
        program = self.compile(
            'contexts', CONTEXTS, '-isystem', INCLUDE,
            '-L' + os.path.join(self.build.path, 'sim'),
            '-l:libcuda.so.1')
        self.assertEqual(self.marks(program), 1)
        self.assertEqual(self.marks(program, 'created'), 1)


if __name__ == '__main__':
    unittest.main()
