#!/usr/bin/env python3
"""Runs digits_training on 1, 2 and 4 processes; accuracy and bits of the model must be the same.

    same_result.py tuttirun digits_training
"""

import re
import subprocess
import sys


def run(tuttirun, program, ranks):
    done = subprocess.run([tuttirun, "--nproc-per-node", str(ranks), program], check=False,
                          capture_output=True, text=True, timeout=50)
    print(f"--- {ranks} process(es)\n{done.stdout}{done.stderr}", flush=True)
    if done.returncode != 0:
        sys.exit(f"the run on {ranks} process(es) ended with status {done.returncode}")
    found = re.search(r"all replicas are bit-identical, checksum (\w+)\s.*accuracy (0\.\d{4})\s*$",
                      done.stdout, re.DOTALL)
    if found is None:
        sys.exit(f"the run on {ranks} process(es) did not tell how it ended")
    return found.groups()


def main():
    tuttirun, program = sys.argv[1:]
    results = {ranks: run(tuttirun, program, ranks) for ranks in (1, 2, 4)}
    if len(set(results.values())) != 1:
        sys.exit(f"the runs differ (ranks: checksum, accuracy): {results}")


if __name__ == "__main__":
    main()
