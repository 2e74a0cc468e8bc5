"""What the tests of the table of work share: its rows, and where the header
is that it was made from."""
import os
import re
import shutil
import sys

import harness

SHIM = os.path.join(harness.ROOT, 'shim')
sys.path.insert(0, SHIM)
import work_table  # noqa: E402  (found through the line above)

INCLUDE = os.path.join(os.environ.get('CUDA_HOME', '/usr/local/cuda'),
                       'include')
CC = os.environ.get('CC', 'cc')


def read(*path):
    with open(os.path.join(*path)) as file:
        return file.read()


def table_rows():
    """[(macro, [columns])] of work.def."""
    return [(macro, [c.strip() for c in columns.split(',')])
            for macro, columns in re.findall(
                r'^(GP_WORK\w*)\(([^)]*)\)$', read(SHIM, 'work.def'), re.M)]


def need_headers(test, same_version=False):
    if not os.path.exists(os.path.join(INCLUDE, 'cuda.h')):
        test.skipTest('no cuda.h in ' + INCLUDE)
    if not shutil.which(CC.split()[0]):
        test.skipTest('no compiler named ' + CC)
    made = re.search(r'CUDA_VERSION (\d+)', read(SHIM, 'work.def')).group(1)
    here = re.search(r'#define CUDA_VERSION (\d+)',
                     read(INCLUDE, 'cuda.h')).group(1)
    if same_version and made != here:
        test.skipTest('the table is made from CUDA_VERSION %s, %s has %s' % (
            made, INCLUDE, here))
