#!/usr/bin/env python3
"""Plays every trace of a directory against some policies and prints a table:
efficiency (peak live over peak reserved), and what driver calls cost as a
share of the trace's own duration where it has one.

  python3 tests/bench/replay_table.py --build build DIR [--policies a,b]
"""
import argparse
import glob
import json
import os
import statistics
import subprocess
import sys

MIB = float(1 << 20)


def find_traces(directory):
    return sorted(path for path in glob.glob(os.path.join(directory, '*'))
                  if path.endswith(('.csv', '.csv.xz')))


def trace_name(path):
    name = os.path.basename(path)
    return name[:name.index('.csv')]


def replay(build, trace, policy='pool', *options):
    """The JSON object of one run. Raises CalledProcessError with stderr."""
    done = subprocess.run(
        [os.path.join(build, 'gpupool-replay'), '--json', '--policy', policy]
        + list(options) + [trace], stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, check=True, timeout=300)
    return json.loads(done.stdout.decode())


def share(run):
    """Driver time in per cent of the trace's duration. Shorter than 10 ms is
    no duration: such traces count steps."""
    if run['duration_us'] < 10000:
        return ''
    return '%.2f' % (100 * run['driver_us'] / run['duration_us'])


def table(build, traces, policies, out=sys.stdout):
    """Prints as it goes; returns {trace: {policy: run}}."""
    print('%-28s %8s' % ('', 'live')
          + ''.join(' %12s' % name[:12] for name in policies), file=out)
    print('%-28s %8s' % ('trace', 'MiB') + '  eff.  dr. %' * len(policies),
          file=out)
    results = {}
    for trace in traces:
        name = trace_name(trace)
        runs = results[name] = {}
        for policy in policies:
            runs[policy] = replay(build, trace, policy, '--no-timing')
        print('%-28s %8.0f' % (name[-28:],
                               runs[policies[0]]['peak_live'] / MIB)
              + ''.join(' %s%.3f %5s' % (
                  '!' if run['refused'] else ' ', run['efficiency'],
                  share(run)) for run in runs.values()), file=out)
    for word, reduce in (('median', statistics.median), ('lowest', min)):
        print('%-37s' % word + ''.join('  %.3f      ' % reduce(
            runs[policy]['efficiency'] for runs in results.values())
            for policy in policies).rstrip(), file=out)
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__.split('\n\n')[0])
    parser.add_argument('--build', default='build')
    parser.add_argument('--policies', default='pool,native,expandable')
    parser.add_argument('directory')
    args = parser.parse_args()
    traces = find_traces(args.directory)
    if not traces:
        sys.exit('no *.csv or *.csv.xz in ' + args.directory)
    try:
        table(args.build, traces, args.policies.split(','))
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr.decode('utf-8', 'replace'))


if __name__ == '__main__':
    main()
