"""The command line of a benchmark of `make bench` that is run by itself."""
import argparse
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import harness  # noqa: E402  (found through the line above)


def main(doc, kind, measure, print_rows):
    """Prints the rows that measure() has of a build; none: no compiler."""
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument('--build', default='build')
    parser.add_argument('--json', action='store_true')
    args = parser.parse_args()
    rows = measure(harness.Build(args.build))
    if rows is None:
        sys.exit('no compiler: set CC')
    if args.json:
        json.dump({kind: rows}, sys.stdout, indent=1)
        print()
    else:
        print_rows(rows)
