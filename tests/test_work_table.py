"""The table of work: what is checked in is what the header gives, and work
that nobody classified does not slip through."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from work_rows import CC, INCLUDE, SHIM, need_headers, read, table_rows, \
    work_table

SCRIPT = os.path.join(SHIM, 'work_table.py')


class Script(unittest.TestCase):

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix='gpupool-test-')
        self.addCleanup(shutil.rmtree, self.dir, True)

    def make(self, include, *args):
        return subprocess.run(
            [sys.executable, SCRIPT, '--include', include, '--cc', CC, '--out',
             self.dir] + list(args),
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def doctored(self, text, before='#ifdef __cplusplus\n}'):
        """A copy of the headers, with `text` in cuda.h."""
        include = os.path.join(self.dir, 'include')
        os.mkdir(include)
        for name in ['cuda.h', 'cudaTypedefs.h'] + work_table.OTHER_HEADERS:
            shutil.copy(os.path.join(INCLUDE, name), include)
        path = os.path.join(include, 'cuda.h')
        header = work_table.read(path)
        self.assertIn(before, header)
        with open(path, 'w') as file:
            file.write(header.replace(before, text + '\n' + before, 1))
        return include

    def test_what_is_checked_in_is_what_the_header_gives(self):
        need_headers(self, same_version=True)
        made = self.make(INCLUDE)
        self.assertEqual(made.returncode, 0, made.stdout.decode())
        for name in 'work.def', 'work_hooks.c':
            self.assertTrue(
                read(self.dir, name) == read(SHIM, name),
                name + ' is not what cuda.h gives: run `make work-table`')

    def test_work_that_no_rule_covers_stops_it(self):
        need_headers(self)
        for name, params in (
                ('cuFooStart', 'int n, CUstream where'),
                ('cuFooStruct', 'const CUlaunchConfig *config'),
                ('cuMemcpyFoo', 'CUdeviceptr to'),
                ('cuFooAsync', 'void')):
            include = self.doctored('CUresult CUDAAPI %s(%s);' % (
                name, params))
            made = self.make(include)
            shutil.rmtree(include)
            self.assertNotEqual(made.returncode, 0, name)
            self.assertIn(name, made.stdout.decode())

    def test_a_row_by_hand_has_no_body(self):
        need_headers(self)
        hooks = os.path.join(self.dir, 'hooks.def')
        with open(hooks, 'w') as file:
            file.write(read(SHIM, 'hooks.def') + 'GP_HOOK(cuEventRecord)\n')
        made = self.make(INCLUDE, '--hooks', hooks)
        self.assertEqual(made.returncode, 0, made.stdout.decode())
        self.assertIn('GP_WORK_HAND(cuEventRecord,',
                      read(self.dir, 'work.def'))
        self.assertNotIn('CUresult cuEventRecord(',
                         read(self.dir, 'work_hooks.c'))


class Rows(unittest.TestCase):

    def test_each_name_once(self):
        names = [columns[0] for _, columns in table_rows()]
        self.assertGreater(len(names), 600)
        self.assertEqual(sorted(set(names)), sorted(names))

    def test_twins_do_the_same_on_the_other_stream(self):
        rows = {c[0]: c[1:] for m, c in table_rows() if m != 'GP_WORK_KNOWN'}
        twins = 0
        for name, columns in rows.items():
            self.assertEqual(columns[1] == 'PER_THREAD',
                             name.endswith(('_ptsz', '_ptds')), name)
            if columns[1] == 'PER_THREAD':
                legacy = rows[name[:-5]]
                self.assertEqual(legacy[1], 'LEGACY', name)
                self.assertEqual((legacy[0], legacy[5]),
                                 (columns[0], columns[5]), name)
                twins += 1
        self.assertGreater(twins, 80)

    def test_the_usual_ones(self):
        rows = {c[0]: c[1:] for m, c in table_rows() if m != 'GP_WORK_KNOWN'}
        for name, row in {
                'cuLaunchKernel': 'SUBMIT LEGACY hStream none none 0',
                'cuLaunchKernelEx_ptsz':
                'SUBMIT PER_THREAD config->hStream none none 0',
                'cuLaunch': 'SUBMIT LEGACY none none none 0',
                'cuMemcpyDtoHAsync_v2': 'SUBMIT LEGACY hStream none none HOST',
                'cuMemcpyDtoH_v2_ptds':
                'SYNC_COPY PER_THREAD none none none DRAINS',
                'cuMemcpyHtoD_v2': 'SYNC_COPY LEGACY none none none 0',
                'cuMemsetD8_v2': 'SYNC_SET LEGACY none none none 0',
                'cuEventRecord': 'EVENT_RECORD LEGACY hStream none hEvent 0',
                'cuCtxWaitEvent': 'CTX_WAIT NONE none hCtx hEvent 0',
                'cuEventElapsedTime':
                'EVENT_ELAPSED NONE none hStart hEnd 0',
                'cuStreamDestroy_v2': 'DESTROY NONE hStream none none 0',
        }.items():
            self.assertEqual(' '.join(rows[name]), row, name)


if __name__ == '__main__':
    unittest.main()
